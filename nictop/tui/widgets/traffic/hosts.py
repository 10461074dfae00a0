"""Every host of a run: its CPUs, its NIC and its connections, now, at the cursor, or over the whole run.

One or two lines each where rows are few:
 TX a:ens4  CPU  41 % of 4  hottest CPU0  41 %    softirq   3 % of 4  ▂▂▃▃▃
            retransmits 3 rtt 310 µs cwnd 1.20 MiB  queue 0 of 4: 97 %, CPU 2
With more of them a chart of the kinds of CPU time, and beside it all that is known:
 TX a:ens4  CPU  41 % of 4  hottest CPU0  41 %   (softirq 3 %)
 100 %┤                          █user 3 ▓system 35 ▒softirq 3 ▚irq 0 ░steal 0 ▞guest 0
      │▓▓▓▓▓▓▓▓▓▓▓▓▓▓            retransmits 3 rtt 310 µs cwnd 1.20 MiB  queue 0 of 4: 97 %, CPU 2
      │██████████████            RX 40.1 kpps TX 812 kpps drops 0
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.traffic.analysis.cpu_load import Busy
from nictop.traffic.live.run_view import HostSample, RunSample, RunView
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine
from nictop.tui.widgets.charts.plot import Box, Canvas
from nictop.tui.widgets.charts.sparkline import spark
from nictop.tui.widgets.charts.stacked_chart import columns, draw_split
from nictop.tui.widgets.traffic.chart_drawing import values_of
from nictop.tui.widgets.traffic.host_text import (
    ROLE_STYLES,
    Part,
    cpu_text,
    host_label,
    hottest_text,
    network_parts,
    ready_text,
    softirq_text,
    split_text,
    steal_text,
)
from nictop.tui.widgets.traffic.legend import cut
from nictop.tui.widgets.traffic.viewport import View, sight_of

MIN_HOST_CHART_ROWS, MAX_HOST_ROWS = 3, 6
"""Rows for each host from which on it has a chart, and that it takes at most."""
MIN_HOST_CHART_CELLS, CHART_SHARE = 64, 0.4
"""Cells from which on there is room for one, and the part of them that it takes."""
MIN_SPARK_CELLS, MAX_SPARK_CELLS = 6, 24
LONG_TEXT_CELLS = 100
"""Cells from which on a line has the softirq share of the busiest core."""


def draw_hosts(run_view: RunView, view: View, width: int, rows: int, *, glyphs: Glyphs = UNICODE) -> list[SpanLine]:
    """All hosts in order, each with as many of the rows as it can use, at least one; none wider than `width`."""
    if width < 1 or not run_view.hosts:
        return []
    values = values_of(run_view, view.cursor)
    each = min(MAX_HOST_ROWS, rows // len(run_view.hosts))
    label = min(max(cells(host_label(one.host, run_view.plan)) for one in values.hosts), max(8, width // 3))
    lines: list[SpanLine] = []
    for one in values.hosts:
        if each >= MIN_HOST_CHART_ROWS and width >= MIN_HOST_CHART_CELLS:
            lines += _block(run_view, view, one, values, (label, width, each), glyphs=glyphs)
            continue
        lines.append(_line(run_view, view, one, values, (label, width), network=each == 1, glyphs=glyphs))
        if each > 1:
            lead: Span = (" " * min(label + 2, width // 4), "")
            room = width - cells(lead[0])
            parts = [*_network(one, values, room, glyphs), _split(one.busy, room, glyphs)]
            if not any(parts):
                parts = [_not_measured(run_view)]
            lines.append(_fitting(lead, parts, width, glyphs))
    return lines


def _not_measured(run_view: RunView) -> Part:
    """Of a host of which only its CPUs could be said."""
    when = "" if run_view.result is not None else " yet"
    return ((f"NIC, queues and kinds of CPU time: not measured{when}", "dim"),)


def drawing_inputs(run_view: RunView, view: View) -> tuple[object, ...]:
    """Everything that the drawing depends on: unless it changes, the hosts need not be drawn again."""
    datagrams = run_view.plan.protocol == "udp"
    return (
        view,
        sight_of(run_view, view),
        run_view.result,
        *(
            (flow.sender, flow.receiver, flow.sender_states, flow.arrivals if datagrams else ())
            for flow in run_view.flows
        ),
        *((one.role, one.host, one.nic, one.series, one.packets, one.carrying, one.load) for one in run_view.hosts),
    )


def _line(
    run_view: RunView,
    view: View,
    one: HostSample,
    values: RunSample,
    size: tuple[int, int],
    *,
    network: bool,
    glyphs: Glyphs,
) -> SpanLine:
    """The most informative numbers, and the CPU over time in the remaining cells. `size`: cells of label and line;
    `network`: there is no second line for those of the NIC."""
    label, width = size
    lead: Span = (f" {_label(one, run_view, label, glyphs)} ", ROLE_STYLES[one.host.role])
    hottest = hottest_text(one.busy, brief=width < LONG_TEXT_CELLS)
    parts = [
        cpu_text(one.busy),
        hottest,
        softirq_text(one.busy),
        steal_text(one.busy),
        ready_text(one.host.load),
        *(network_parts(one, values)[:1] if network else ()),
    ]
    line = _fitting(lead, parts, width - MIN_SPARK_CELLS - 1, glyphs)
    used = _cells(line)
    room = min(MAX_SPARK_CELLS, width - used - 1)
    if room < MIN_SPARK_CELLS or not parts[0]:
        return cut(line, width)
    busy = [
        sum(stack) if stack is not None else None for stack in columns(one.host.series, sight_of(run_view, view), room)
    ]
    return cut((*line, (" ", ""), (spark(busy, room, 1.0, glyphs=glyphs), "user")), width)


def _block(
    run_view: RunView, view: View, one: HostSample, values: RunSample, size: tuple[int, int, int], *, glyphs: Glyphs
) -> list[SpanLine]:
    """A line of what its CPUs did, and below it a chart at the left and the rest beside it. `size`:
    cells of the label, and of all, and rows."""
    label, width, rows = size
    lead: Span = (f" {_label(one, run_view, label, glyphs)} ", ROLE_STYLES[one.host.role])
    chart = int(width * CHART_SHARE)
    network = _network(one, values, width - chart, glyphs)
    parts = [cpu_text(one.busy), hottest_text(one.busy), steal_text(one.busy), ready_text(one.host.load)]
    head = _fitting(lead, parts, width, glyphs)
    longer = _fitting(lead, [*parts, *network[:1]], width, glyphs)
    if rows == MIN_HOST_CHART_ROWS and _cells(longer) > _cells(head):
        head, network = longer, network[1:]
    canvas = Canvas(chart, rows - 1)
    draw_split(canvas, Box(1, 0, chart - 1, rows - 1), one.host.series, sight_of(run_view, view), glyphs=glyphs)
    split = _split(one.busy, width - chart - 2, glyphs)
    texts = [[split], network]
    if rows > MIN_HOST_CHART_ROWS:
        texts = [[split], *_network_lines(one, values, (width - chart, rows), glyphs)]
    lines = [head]
    for row in range(rows - 1):
        beside = _fitting((" ", ""), texts[row], width - chart, glyphs) if row < len(texts) else ()
        lines.append((*canvas.row(row), *beside))
    return lines


def _label(one: HostSample, run_view: RunView, width: int, glyphs: Glyphs) -> str:
    """In exactly `width` cells; the NIC at the end of it is not cut."""
    return glyphs.text(fit_middle(glyphs.text(host_label(one.host, run_view.plan)), width))


def _network(one: HostSample, values: RunSample, room: int, glyphs: Glyphs) -> list[Part]:
    """In full words, if they fit into one line."""
    return _in_room(network_parts(one, values), network_parts(one, values, brief=True), room, glyphs)


def _network_lines(one: HostSample, values: RunSample, size: tuple[int, int], glyphs: Glyphs) -> list[list[Part]]:
    """The parts of each line, in full words where they fit into it: the last part has a line of its own, with more rows
    each of them. `size`: cells of a line, and rows of the block."""
    room, rows = size
    words, brief = network_parts(one, values), network_parts(one, values, brief=True)
    parts = [slice(0, -1), slice(-1, None)]
    if rows > MIN_HOST_CHART_ROWS + 1:
        parts = [slice(number, number + 1) for number in range(len(words))]
    return [_in_room(words[part], brief[part], room, glyphs) for part in parts]


def _in_room(words: list[Part], brief: list[Part], room: int, glyphs: Glyphs) -> list[Part]:
    wanted = sum(cells(glyphs.text(text)) for part in words for text, _ in part) + 2 * len(words)
    return words if wanted <= room else brief


def _cells(line: SpanLine) -> int:
    return sum(cells(text) for text, _ in line)


def _split(busy: Busy | None, width: int, glyphs: Glyphs) -> Part:
    """All kinds of work; if they do not fit, only those with a share."""
    words = split_text(busy, glyphs)
    return words if _cells(tuple(words)) <= width else split_text(busy, glyphs, brief=True)


def _fitting(lead: Span, parts: Sequence[Sequence[Span]], width: int, glyphs: Glyphs) -> SpanLine:
    """The parts that fit, in their order, with a gap between two."""
    line: list[Span] = [lead]
    used = cells(lead[0])
    for part in parts:
        spans = [(glyphs.text(text), style) for text, style in part]
        wanted = sum(cells(text) for text, _ in spans)
        gap = 2 if len(line) > 1 else 1
        if spans and used + gap + wanted <= width:
            line += [(" " * gap, ""), *spans]
            used += gap + wanted
    return cut(tuple(line), max(0, width))


class RunHosts(LineView):
    """`draw_hosts` of a run; more hosts than there are rows scroll."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._run_view: RunView | None = None
        self._view = View()
        self._drawn_of: tuple[object, ...] | None = None

    def show(self, run_view: RunView | None, time: float | None = None, span: float | None = None) -> None:
        """`time` and `span`: the cursor and the seconds in sight of the chart, so that both show the same."""
        self._run_view, self._view = run_view, View(cursor=time, span=span)
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        cells, run_view = (self.scrollable_content_region.width, self.size.height), self._run_view
        of = (cells, *drawing_inputs(run_view, self._view)) if run_view is not None else None
        if of is not None and of == self._drawn_of:
            return
        self._drawn_of = of
        self.show_lines(draw_hosts(run_view, self._view, *cells, glyphs=self.glyphs) if run_view is not None else [])
