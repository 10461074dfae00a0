"""Virtual machines and kernel threads that work on packets, on the view of the CPUs. Pure.

── Top network threads ──
 ksoftirqd/3 10 %   ksoftirqd/1 10 %
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import clean, fit
from nictop.model.facts.esxi import MAX_WAIT_SHARE
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import absence_reason
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.tui.widgets.base.line_widget import Span, SpanLine, section_line

NAME_CELLS = 30
MAX_CONSUMER_ROWS, MAX_SHORT_CONSUMER_ROWS = 12, 2
CONSUMER_CELLS = 30
MAX_ROUNDING_SHARE = 0.02
"""By which the share of a thread may exceed that of its CPU because of rounded times."""


def draw_threads(snapshot: Snapshot, width: int, *, one_per_line: bool) -> list[SpanLine]:
    """Virtual machines and kernel threads that work on packets, the busiest first. The same
    height, whoever is busy."""
    consumers = cpu_consumers(snapshot)
    is_sampled = any(_exceeds_its_cpu(consumer, snapshot.rates) for consumer in consumers)
    note = " (busy is sampled)" if is_sampled else ""
    title = section_line(f"{_title(consumers)}{note}", width)
    if not consumers:
        return [title, ((f" {_no_threads_text(snapshot)}", "dim"),)]
    per_line, most_rows = 1, MAX_CONSUMER_ROWS
    if not one_per_line:
        per_line, most_rows = max(1, width // CONSUMER_CELLS), MAX_SHORT_CONSUMER_ROWS
    rows = min(-(-len(consumers) // per_line), most_rows)
    busy = [consumer for consumer in consumers if consumer.total][: rows * per_line]
    if not busy:
        lines = [_all_idle_line(consumers)]
    elif one_per_line:
        lines = _consumer_lines(busy, snapshot)
    else:
        lines = _short_consumer_lines(busy, per_line, width)
    blank: SpanLine = ((" ", ""),)
    return [title, *lines, *[blank] * (rows - len(lines))]


def _title(consumers: Sequence[CpuConsumer]) -> str:
    """The time of a virtual machine is that of all its threads: most is that of its processors,
    whatever they compute."""
    kinds = {consumer.kind == "machine" for consumer in consumers}
    if kinds == {True}:
        return "Top virtual machines"
    return f"Top network threads{', virtual machines' if True in kinds else ''}"


def _exceeds_its_cpu(consumer: CpuConsumer, rates: Rates | None) -> bool:
    """A thread has more time than the CPU on which it runs: that of a thread is exact, that of a
    CPU is counted at ticks of the timer (proc_stat(5), CONFIG_TICK_CPU_ACCOUNTING)."""
    if rates is None or consumer.total is None or consumer.kind == "machine":
        return False
    shares = [rates.cpus[cpu].busy for cpu in consumer.cpus if cpu in rates.cpus]
    return len(shares) == 1 and consumer.total > shares[0] + MAX_ROUNDING_SHARE


def _no_threads_text(snapshot: Snapshot) -> str:
    """They were not read, or there are none."""
    if snapshot.inventory is None:
        return f"threads {NOT_READ_YET}"
    why = snapshot.inventory.unreadable.get("threads")
    if why is not None:
        return f"threads {absence_reason(why, None)}"
    return "no network threads found"


def _all_idle_line(consumers: Sequence[CpuConsumer]) -> SpanLine:
    number = sum(consumer.threads for consumer in consumers)
    words = "1 thread, idle" if number == 1 else f"{number} threads, all idle"
    return ((f" {words}", "dim"),)


def _consumer_lines(busy: Sequence[CpuConsumer], snapshot: Snapshot) -> list[SpanLine]:
    """One for each, with all that is known of it."""
    name_cells = min(NAME_CELLS, max(len(consumer.name) for consumer in busy))
    return [_consumer(consumer, snapshot, name_cells) for consumer in busy]


def _short_consumer_lines(busy: Sequence[CpuConsumer], per_line: int, width: int) -> list[SpanLine]:
    """Several in each line, with their names and shares."""
    cells = width // per_line
    lines: list[SpanLine] = []
    for first in range(0, len(busy), per_line):
        texts = map(_brief, busy[first : first + per_line])
        line = "".join(fit(f" {text}", cells) for text in texts)
        lines.append(((line, ""),))
    return lines


def _brief(consumer: CpuConsumer) -> str:
    kind = "VM " if consumer.kind == "machine" else ""
    text = f"{kind}{consumer.name} {100 * (consumer.total or 0):.0f} %"
    if consumer.ready is not None:
        text += f" ready {100 * consumer.ready:.1f} %"
    return text


def _consumer(consumer: CpuConsumer, snapshot: Snapshot, name_cells: int) -> SpanLine:
    """Its share of a CPU, what that is made of, its CPUs and its interfaces."""
    spans: list[Span] = [
        (" " + fit(consumer.name, name_cells), "title"),
        (f"{100 * (consumer.total or 0):5.0f} %  ", ""),
    ]
    if consumer.kind == "machine":
        spans += _machine_spans(consumer)
    else:
        spans.append((consumer.kind, "dim"))
    if consumer.cpus:
        spans.append((f"  on CPU {format_cpu_list(consumer.cpus)}", "dim"))
    links = [snapshot.links.get(ifindex) for ifindex in consumer.links]
    names = [clean(link.name) for link in links if link is not None]
    if names:
        spans.append((f"  {', '.join(names)}", "accent"))
    return tuple(spans)


def _machine_spans(machine: CpuConsumer) -> list[Span]:
    """What a virtual machine waits for, and what its share is made of."""
    spans: list[Span] = []
    for name, share in (("ready", machine.ready), ("co-stop", machine.costop)):
        if share is not None:
            style = "warn" if share > MAX_WAIT_SHARE else "dim"
            spans.append((f"{name} {100 * share:.1f} %  ", style))
    parts = [("vCPUs", machine.vcpu), ("rest", machine.rest)]
    is_esxi = machine.ready is not None
    if not is_esxi:
        parts.append(("vhost", machine.vhost))
    texts = [f"{name} {100 * share:.0f} %" for name, share in parts if share is not None]
    return [*spans, ("  ".join(texts), "dim")]
