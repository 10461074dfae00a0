"""The queues of both NICs of a run as bars: the share of the packets that each carried in the last reading with
packets, and its CPU.

 RX b:ens4 · 4 queues · last reading
   0 ███████████████ 97 %  CPU 2
   1 ▏                1 %  CPU 0
 2 others             2 %

A stored run has the busiest queue of each NIC only; the rest is one line.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import width as cells
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.traffic.analysis.nic_load import QueueShare
from nictop.traffic.live.host_view import HostLoadView
from nictop.traffic.live.run_view import RunView
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.traffic.host_text import MAX_NAMED_CPUS, host_label
from nictop.tui.widgets.traffic.legend import cut, shown

NUMBER_CELLS, PERCENT_CELLS, CPU_CELLS = 4, 11, 9
UNIT = " % pkts"
"""Not to be read as the load of the CPU behind it."""
LAST_READING = "last reading"
HOT_SHARE = 0.8
"""Share of all packets from which a queue of several is marked."""


def draw_queue_bars(run_view: RunView, width: int, rows: int, *, glyphs: Glyphs = UNICODE) -> list[SpanLine]:
    """The queues of sender and receiver, at most `rows` lines; the queues that carried least are summed up."""
    hosts = [one for one in run_view.hosts if one.role != "observer" and one.nic]
    lines: list[SpanLine] = []
    for number, one in enumerate(hosts):
        room = (rows - len(lines)) // (len(hosts) - number)
        if room >= 2:
            lines += _host_lines(run_view, one, width, room, glyphs)
    return lines


def _host_lines(run_view: RunView, one: HostLoadView, width: int, rows: int, glyphs: Glyphs) -> list[SpanLine]:
    queues, others = _queues_of(one)
    count = len(queues) + others
    title = _title(host_label(one, run_view.plan), count, width, glyphs)
    lines: list[SpanLine] = [((shown(f" {title}", width, glyphs), "title"),)]
    if not queues:
        return [*lines, ((shown(f"   {_why_none(run_view, one)}", width, glyphs), "dim"),)]
    listed = queues if not others and len(queues) < rows else _busiest(queues, max(1, rows - 2))
    lines += [_bar_line(queue, count, width, glyphs) for queue in listed]
    rest = count - len(listed)
    if rest and len(lines) < rows:
        share = max(0.0, 1 - sum(queue.share for queue in listed))
        words = f"{rest} {'other' if rest == 1 else 'others'}"
        lines.append(cut(((shown(f" {words}: {100 * share:.0f} %", width, glyphs), "dim"),), width))
    return lines


def _title(label: str, count: int, width: int, glyphs: Glyphs) -> str:
    """``RX b:ens4 · 4 queues · last reading``: beside it are means of the whole run, or values at the cursor."""
    if not count:
        return label
    counted = f"{label} · {count} {'queue' if count == 1 else 'queues'}"
    long, short = f"{counted} · {LAST_READING}", f"{label} · {LAST_READING}"
    return next((title for title in (long, short) if cells(glyphs.text(title)) < width), counted)


def _why_none(run_view: RunView, one: HostLoadView) -> str:
    """Why no queue of the host has a bar."""
    is_early = run_view.result is None and not one.is_of_run
    return "not measured yet" if is_early else "no packets counted per queue"


def _queues_of(one: HostLoadView) -> tuple[Sequence[QueueShare], int]:
    """The queues whose share is known, and the number of the others."""
    if one.queues:
        return one.queues, 0
    if not one.is_of_run and one.load is None:
        return (), 0
    last = next((window for window in reversed(one.carrying) if window.queue is not None), None)
    if last is None or last.queue is None:
        return (), 0
    share = 1.0 if last.share is None else last.share
    return (QueueShare(last.queue, share, last.cpus),), max(0, last.queues - 1)


def _busiest(queues: Sequence[QueueShare], count: int) -> list[QueueShare]:
    """So many of them, in the order of their numbers."""
    chosen = sorted(queues, key=lambda queue: -queue.share)[:count]
    return sorted(chosen, key=lambda queue: queue.queue)


def _bar_line(queue: QueueShare, count: int, width: int, glyphs: Glyphs) -> SpanLine:
    style = "warn" if count > 1 and queue.share >= HOT_SHARE else "in"
    room = max(1, width - NUMBER_CELLS - PERCENT_CELLS - CPU_CELLS - 1)
    cpus = f" CPU {format_cpu_list(queue.cpus[:MAX_NAMED_CPUS])}" if queue.cpus else ""
    return cut(
        (
            (f"{queue.queue:>{NUMBER_CELLS}} ", "title"),
            (bar(queue.share, room, glyphs), style),
            (f"{100 * queue.share:>{PERCENT_CELLS - len(UNIT)}.0f}{UNIT}", ""),
            (shown(cpus, CPU_CELLS, glyphs), "dim"),
        ),
        width,
    )


class RunLines(LineView):
    """Lines about a run, drawn again when what they show has changed."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._run_view: RunView | None = None
        self._drawn_of: tuple[object, ...] = ()

    def shown_of(self, run_view: RunView) -> tuple[object, ...]:
        """What the lines of the run depend on, besides their size."""
        raise NotImplementedError

    def draw(self, run_view: RunView, width: int, rows: int) -> list[SpanLine]:
        """At most `rows` lines, none wider than `width`."""
        raise NotImplementedError

    def show(self, run_view: RunView | None) -> None:
        self._run_view = run_view
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        run_view = self._run_view
        of = (self.size, *(self.shown_of(run_view) if run_view is not None else ()))
        if of != self._drawn_of:
            self._drawn_of = of
            self.show_lines(self.draw(run_view, *self.size) if run_view is not None else [])


class RunQueues(RunLines):
    """`draw_queue_bars` of a run."""

    def shown_of(self, run_view: RunView) -> tuple[object, ...]:
        has_result = run_view.result is not None
        return tuple((one.host, one.queues, one.carrying, has_result, one.is_of_run) for one in run_view.hosts)

    def draw(self, run_view: RunView, width: int, rows: int) -> list[SpanLine]:
        return draw_queue_bars(run_view, width, rows, glyphs=self.glyphs)
