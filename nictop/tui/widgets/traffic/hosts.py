"""Every host of a run: its CPUs, its NIC and its connections, now, at the cursor, or over the whole
run.

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
from itertools import chain

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.samples import HostSample, RunSample, values_of
from nictop.traffic.results.host_load import Busy
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, span_cells
from nictop.tui.widgets.charts.plot import Box, Canvas
from nictop.tui.widgets.charts.sparkline import spark
from nictop.tui.widgets.charts.stacked_chart import columns, draw_split
from nictop.tui.widgets.traffic.host_text import (
    ROLE_STYLES,
    Part,
    age_text,
    cpu_text,
    host_label,
    hottest_text,
    network_parts,
    of_then,
    ready_text,
    softirq_text,
    split_text,
    steal_text,
)
from nictop.tui.widgets.traffic.legend import cut
from nictop.tui.widgets.traffic.viewport import Viewport, sight_of

MIN_HOST_CHART_ROWS, MAX_HOST_ROWS = 3, 6
"""Rows for each host from which on it has a chart, and that it takes at most."""
MIN_HOST_CHART_CELLS, CHART_SHARE = 64, 0.4
"""Cells from which on there is room for one, and the part of them that it takes."""
MIN_SPARK_CELLS, MAX_SPARK_CELLS = 6, 24
LONG_TEXT_CELLS = 100
"""Cells from which on a line has the softirq share of the busiest core."""


def draw_hosts(
    run_view: RunView, view: Viewport, width: int, rows: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """All hosts in order, each with as many of the rows as it can use, at least one; none wider
    than `width`."""
    if width < 1 or not run_view.hosts:
        return []
    values = values_of(run_view, view.cursor)
    each = min(MAX_HOST_ROWS, rows // len(run_view.hosts))
    longest = max(cells(host_label(load, run_view)) for load in run_view.hosts)
    label = min(longest, max(8, width // 3))
    has_charts = each >= MIN_HOST_CHART_ROWS and width >= MIN_HOST_CHART_CELLS
    lines: list[SpanLine] = []
    for host in values.hosts:
        if has_charts:
            lines += _block(run_view, view, host, values, (label, width, each), glyphs=glyphs)
            continue
        size, has_second = (label, width), each > 1
        lines.append(
            _line(run_view, view, host, values, size, network=not has_second, glyphs=glyphs)
        )
        if has_second:
            lines.append(_second_line(run_view, host, values, size, glyphs))
    return lines


def _second_line(
    run_view: RunView, host: HostSample, values: RunSample, size: tuple[int, int], glyphs: Glyphs
) -> SpanLine:
    """What of the host has no room in its first line. `size`: cells of label and line."""
    label, width = size
    lead: Span = (" " * min(label + 2, width // 4), "")
    room = width - cells(lead[0])
    split = of_then(host, _split(host.busy, room, glyphs))
    parts = [*_network(host, values, room, glyphs), split]
    if not any(parts):
        parts = [_not_measured(run_view)]
    return _fitting(lead, parts, width, glyphs)


def _is_mean(run_view: RunView, view: Viewport) -> bool:
    """The values are those of the whole run, not of one moment."""
    return run_view.result is not None and view.cursor is None


def _not_measured(run_view: RunView) -> Part:
    """Of a host of which only its CPUs could be said."""
    when = "" if run_view.result is not None else " yet"
    return ((f"NIC, queues and kinds of CPU time: not measured{when}", "dim"),)


def drawing_inputs(run_view: RunView, view: Viewport) -> tuple[object, ...]:
    """Everything that the drawing depends on: unless it changes, the hosts need not be drawn
    again."""
    flows: list[object] = []
    for flow in run_view.flows:
        flows.append((flow.sender, flow.receiver, flow.reports_of_sender))
        if run_view.plan.protocol == "udp":
            flows.append(flow.points)  # with the lost datagrams
            flows.append(run_view.arrival_now(flow))
    hosts = []
    for host in values_of(run_view, view.cursor).hosts:
        age = None if host.age is None else int(host.age)
        hosts.append((host.host, run_view.nic_of(host.host), age, host.packets))
    return (view, sight_of(run_view, view), run_view.result, flows, hosts)


def _line(
    run_view: RunView,
    view: Viewport,
    host: HostSample,
    values: RunSample,
    size: tuple[int, int],
    *,
    network: bool,
    glyphs: Glyphs,
) -> SpanLine:
    """The most informative numbers, and the CPU over time in the remaining cells. `size`: cells of
    label and line; `network`: there is no second line for those of the NIC."""
    label, width = size
    brief = width < LONG_TEXT_CELLS
    parts = [
        of_then(host, cpu_text(host.busy, is_mean=_is_mean(run_view, view))),
        age_text(host),
        of_then(host, hottest_text(host.busy, brief=brief)),
        of_then(host, softirq_text(host.busy)),
        of_then(host, steal_text(host.busy)),
        ready_text(host.host),
    ]
    if network:
        parts += network_parts(host, values)[:1]
    lead = _lead(host, run_view, label, glyphs)
    line = _fitting(lead, parts, width - MIN_SPARK_CELLS - 1, glyphs)
    room = min(MAX_SPARK_CELLS, width - span_cells(line) - 1)
    if room < MIN_SPARK_CELLS or not parts[0]:
        return cut(line, width)
    busy: list[float | None] = []
    for stack in columns(host.host.series, sight_of(run_view, view), room):
        busy.append(None if stack is None else sum(stack))
    return cut((*line, (" ", ""), (spark(busy, room, 1.0, glyphs=glyphs), "user")), width)


def _lead(host: HostSample, run_view: RunView, width: int, glyphs: Glyphs) -> Span:
    """The label in `width` cells, with a gap at both sides; the NIC at the end of it is not cut."""
    label = glyphs.text(host_label(host.host, run_view))
    return (f" {glyphs.text(fit_middle(label, width))} ", ROLE_STYLES[host.host.role])


def _block(
    run_view: RunView,
    view: Viewport,
    host: HostSample,
    values: RunSample,
    size: tuple[int, int, int],
    *,
    glyphs: Glyphs,
) -> list[SpanLine]:
    """A line of what its CPUs did, and below it a chart at the left and the rest beside it. `size`:
    cells of the label, and of all, and rows."""
    label, width, rows = size
    lead = _lead(host, run_view, label, glyphs)
    chart = int(width * CHART_SHARE)
    network = _network(host, values, width - chart, glyphs)
    parts = [
        of_then(host, cpu_text(host.busy, is_mean=_is_mean(run_view, view))),
        age_text(host),
        of_then(host, hottest_text(host.busy)),
        of_then(host, steal_text(host.busy)),
        ready_text(host.host),
    ]
    head = _fitting(lead, parts, width, glyphs)
    longer = _fitting(lead, [*parts, *network[:1]], width, glyphs)
    if rows == MIN_HOST_CHART_ROWS and span_cells(longer) > span_cells(head):
        head, network = longer, network[1:]
    texts = [network]
    if rows > MIN_HOST_CHART_ROWS:
        texts = _network_lines(host, values, (width - chart, rows), glyphs)
    texts.insert(0, [_split(host.busy, width - chart - 2, glyphs)])
    canvas = Canvas(chart, rows - 1)
    box, sight = Box(1, 0, chart - 1, rows - 1), sight_of(run_view, view)
    draw_split(canvas, box, host.host.series, sight, glyphs=glyphs)
    lines = [head]
    for row in range(rows - 1):
        beside = _fitting((" ", ""), texts[row], width - chart, glyphs) if row < len(texts) else ()
        lines.append((*canvas.row(row), *beside))
    return lines


def _network(host: HostSample, values: RunSample, room: int, glyphs: Glyphs) -> list[Part]:
    """In full words, if they fit into one line."""
    words, brief = network_parts(host, values), network_parts(host, values, brief=True)
    return _in_room(words, brief, room, glyphs)


def _network_lines(
    host: HostSample, values: RunSample, size: tuple[int, int], glyphs: Glyphs
) -> list[list[Part]]:
    """The parts of each line, in full words where they fit into it: the last part has a line of its
    own, with more rows each of them. `size`: cells of a line, and rows of the block."""
    room, rows = size
    words, brief = network_parts(host, values), network_parts(host, values, brief=True)
    parts = [slice(0, -1), slice(-1, None)]
    if rows > MIN_HOST_CHART_ROWS + 1:
        parts = [slice(number, number + 1) for number in range(len(words))]
    return [_in_room(words[part], brief[part], room, glyphs) for part in parts]


def _in_room(words: list[Part], brief: list[Part], room: int, glyphs: Glyphs) -> list[Part]:
    wanted = 2 * len(words)
    for text, _ in chain.from_iterable(words):
        wanted += cells(glyphs.text(text))
    return words if wanted <= room else brief


def _split(busy: Busy | None, width: int, glyphs: Glyphs) -> Part:
    """All kinds of work; if they do not fit, only those with a share."""
    words = split_text(busy, glyphs)
    return words if span_cells(tuple(words)) <= width else split_text(busy, glyphs, brief=True)


def _fitting(lead: Span, parts: Sequence[Sequence[Span]], width: int, glyphs: Glyphs) -> SpanLine:
    """The parts that fit, in their order, with a gap between two."""
    line: list[Span] = [lead]
    used = cells(lead[0])
    for part in parts:
        spans = [(glyphs.text(text), style) for text, style in part]
        wanted = span_cells(spans)
        gap = 2 if len(line) > 1 else 1
        if spans and used + gap + wanted <= width:
            line += [(" " * gap, ""), *spans]
            used += gap + wanted
    return cut(tuple(line), max(0, width))


class RunHosts(LineWidget):
    """`draw_hosts` of a run; more hosts than there are rows scroll."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._run_view: RunView | None = None
        self._view = Viewport()
        self._drawn_of: tuple[object, ...] | None = None

    def show(
        self, run_view: RunView | None, time: float | None = None, span: float | None = None
    ) -> None:
        """`time` and `span`: the cursor and the seconds in sight of the chart, so that both show
        the same."""
        self._run_view, self._view = run_view, Viewport(cursor=time, span=span)
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        width, rows = self.scrollable_content_region.width, self.size.height
        run_view = self._run_view
        if run_view is None:
            self._drawn_of = None
            self.show_lines([])
            return
        drawn_of = (width, rows, *drawing_inputs(run_view, self._view))
        if drawn_of != self._drawn_of:
            self._drawn_of = drawn_of
            self.show_lines(draw_hosts(run_view, self._view, width, rows, glyphs=self.glyphs))
