"""The queues of both NICs of a run as bars: the share of the packets that each carried in the last
reading, and its CPU.

 RX b:ens4 · 4 queues · last reading
   0 ███████████████ 97 %  CPU 2
   1 ▏                1 %  CPU 0
 2 others             2 %

A stored run has the busiest queue of each NIC only; the rest is one line. Where its last reading
was without packets, the last one with some is shown, with its time.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import width as cells
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.text import units
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.traffic.analysis.nic_load import QueueShare
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.samples import last_window_end, newest_until
from nictop.traffic.results.host_load import HostLoad
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.traffic.host_text import MAX_NAMED_CPUS, host_label
from nictop.tui.widgets.traffic.legend import cut, shown

NUMBER_CELLS, PERCENT_CELLS, CPU_CELLS = 4, 11, 9
PACKETS = " pkts"
"""Not to be read as the load of the CPU behind it."""
LAST_READING = "last reading"
HOT_SHARE = 0.8
"""Share of all packets from which a queue of several is marked."""


def draw_queue_bars(
    run_view: RunView, width: int, rows: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The queues of sender and receiver, at most `rows` lines; the queues that carried least are
    summed up."""
    ends = [load for load in run_view.hosts if load.role != "observer" and run_view.nic_of(load)]
    lines: list[SpanLine] = []
    for number, load in enumerate(ends):
        room = (rows - len(lines)) // (len(ends) - number)
        if room >= 2:
            lines += _host_lines(run_view, load, width, room, glyphs)
    return lines


def _host_lines(
    run_view: RunView, load: HostLoad, width: int, rows: int, glyphs: Glyphs
) -> list[SpanLine]:
    queues, others, reading = _queues_of(run_view, load)
    count = len(queues) + others
    title = _title(host_label(load, run_view), count, reading, width, glyphs)
    lines: list[SpanLine] = [((shown(f" {title}", width, glyphs), "title"),)]
    if not queues:
        return [*lines, ((shown(f"   {_why_none(run_view, load)}", width, glyphs), "dim"),)]
    listed = queues
    if others or len(queues) >= rows:
        listed = _busiest(queues, max(1, rows - 2))
    lines += [_bar_line(queue, count, width, glyphs) for queue in listed]
    rest = count - len(listed)
    if rest and len(lines) < rows:
        share = max(0.0, 1 - sum(queue.share for queue in listed))
        words = f" {_counted(rest, 'other')}: {units.whole_percentage(share)}"
        lines.append(cut(((shown(words, width, glyphs), "dim"),), width))
    return lines


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _title(label: str, count: int, reading: str, width: int, glyphs: Glyphs) -> str:
    """``RX b:ens4 · 4 queues · last reading``: beside it are means of the whole run, or values at
    the cursor. `reading`: of which the shares are."""
    if not count:
        return label
    counted = f"{label} · {_counted(count, 'queue')}"
    for title in (f"{counted} · {reading}", f"{label} · {reading}"):
        if cells(glyphs.text(title)) < width:
            return title
    return counted if reading == LAST_READING else f"{reading}: {label}"


def _why_none(run_view: RunView, load: HostLoad) -> str:
    """Why no queue of the host has a bar."""
    if run_view.result is None:
        if not run_view.host_now(load).is_of_run:
            return "not measured yet"
        newest = newest_until(load.packets, last_window_end(run_view))
        if newest is not None and newest.received == newest.sent == 0:
            return f"no packets in the {LAST_READING}"
    return "no packets counted per queue"


def _queues_of(run_view: RunView, load: HostLoad) -> tuple[Sequence[QueueShare], int, str]:
    """The queues whose share is known, the number of the others, and the reading that they are
    of."""
    now = run_view.host_now(load)
    if now.queues:
        return now.queues, 0, LAST_READING
    if not now.is_of_run and run_view.result is None:
        return (), 0, ""
    last = newest_until(load.carrying, last_window_end(run_view))
    windows = load.carrying if run_view.result is not None else filter(None, (last,))
    for window in reversed(tuple(windows)):
        if window.queue is not None:
            share = 1.0 if window.share is None else window.share
            busiest = QueueShare(window.queue, share, window.cpus)
            reading = LAST_READING if window is last else f"at {window.time:.1f} s"
            return (busiest,), max(0, window.queues - 1), reading
    return (), 0, ""


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
            (f"{units.whole_percentage(queue.share):>{PERCENT_CELLS - len(PACKETS)}}{PACKETS}", ""),
            (shown(cpus, CPU_CELLS, glyphs), "dim"),
        ),
        width,
    )


class RunLines(LineWidget):
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
        if run_view is None:
            if self._drawn_of != (self.size,):
                self._drawn_of = (self.size,)
                self.show_lines([])
            return
        drawn_of = (self.size, *self.shown_of(run_view))
        if drawn_of != self._drawn_of:
            self._drawn_of = drawn_of
            self.show_lines(self.draw(run_view, *self.size))


class RunQueues(RunLines):
    """`draw_queue_bars` of a run."""

    def shown_of(self, run_view: RunView) -> tuple[object, ...]:
        hosts = [(load.host, load.carrying, run_view.host_now(load)) for load in run_view.hosts]
        return (run_view.result is not None, hosts)

    def draw(self, run_view: RunView, width: int, rows: int) -> list[SpanLine]:
        return draw_queue_bars(run_view, width, rows, glyphs=self.glyphs)
