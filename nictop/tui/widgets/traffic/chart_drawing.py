"""A run over time: goodput as an area below the line rate, and the CPU of one host below it, on one
time axis.

 Gb/s  █ a → b 9.38 Gb/s   CPU of b 55 % of 4 cores
       ┄┄ line rate 9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps
   10 ┤
      │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄
    5 ┤██████████████████████████████████
    0 ┤██████████████████████████████████
  CPU │                                                               ├100
    % │▄▄▄▄▄▄▄▄▄▄▄▄▄▅▅▅▅▅▅▅▅▅▅▄▄▄▄▄▄▄▄▄▄▄                             ├ 50
      │██████████████████████████████████                             ├  0
       0         2         4         6         8         10 s

Of requests and responses the bands of `latency_drawing`; of a loaded run these above the goodput of
the bulk flow, with a line where that begins.

Pure functions. Each of two directions has a plot of its own, one above the other: they are told
apart without colours.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import width as cells
from nictop.model.rates.links import sum_known
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.samples import values_of
from nictop.traffic.results.host_load import HostLoad
from nictop.traffic.results.result import Flow
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.charts.plot import (
    Box,
    Canvas,
    along,
    axis_time_text,
    draw_area,
    means,
    time_ticks,
    value_ticks,
)
from nictop.tui.widgets.traffic.latency_drawing import draw_bands, latency_columns
from nictop.tui.widgets.traffic.legend import (
    CEILING_STYLE,
    CPU_STYLE,
    draw_ceiling_text,
    draw_legend,
    flow_style,
    shown,
)
from nictop.tui.widgets.traffic.viewport import (
    Scale,
    Viewport,
    VisibleRange,
    chosen_host,
    cpu_line,
    peak_of,
    scale_of,
    sight_of,
)

LEFT_AXIS_CELLS, RIGHT_AXIS_CELLS = 6, 5
"""Cells that the axes take."""
MIN_AXIS_CELLS, MIN_BOTH_AXES_CELLS = 40, 56
"""Cells from which on there is room for them."""
MIN_PLOT_ROWS = 2
"""Rows of the plot of each direction, and of latency above it, with fewer of which there are fewer
plots."""
MIN_NAMED_ROWS = 5
"""Rows of latency and goodput from which on the goodput has its name above."""
LATENCY_SHARE = 1.5
"""Rows of the latency / rows of each flow below."""
MIN_LINE_ROWS = 3
"""Rows of a plot from which on the line rate leaves something of the area to be seen."""
MIN_LATENCY_ROWS = 6
"""Rows of a plot that percentiles need more than the CPU needs a chart."""
CPU_ROWS = 3
"""Rows of the CPU chart; without them for it, its value is in the legend only."""
CPU_WINDOW = "≥1 s"
"""Time of each value of the CPU, here and beside the hosts: other views have it of each reading,
which may be shorter (`cpu_load.MIN_CPU_WINDOW_SECONDS`)."""
MAX_SECONDS_SCALE = 180
"""Seconds in sight up to which times are told in seconds."""
MIN_CEILING_LINE_ROWS = 9
"""Rows from which on the ceiling has a line of its own above the plot."""


@dataclass(frozen=True)
class ChartLayout:
    """Positions of the parts of a chart."""

    heads: int
    left: int
    columns: int
    right: int
    plots: tuple[tuple[int, int], ...]
    """(row, rows) of each direction."""
    latency: tuple[int, int] | None
    """(row, rows) of the latency of requests; None: there is none, or no room for it."""
    cpu: tuple[int, int] | None
    """(row, rows) of the CPU chart; None: there is no room for it."""
    foot: bool
    """There is a time axis below."""

    def box(self, part: tuple[int, int]) -> Box:
        row, rows = part
        return Box(self.left, row, self.columns, rows)


def layout_of(run_view: RunView, width: int, height: int) -> ChartLayout:
    """The plots get the rows that the text leaves; with too few rows for two plots there is one."""
    has_latency, has_bulk = run_view.plan.has_requests, run_view.plan.has_rate
    heads = _head_rows(height, has_bulk)
    foot = height - heads >= 3
    rows = max(0, height - heads - foot)
    cpu_rows = _cpu_rows(run_view, rows)
    rows -= cpu_rows
    left = LEFT_AXIS_CELLS if width >= MIN_AXIS_CELLS else 0
    has_right_axis = width >= MIN_BOTH_AXES_CELLS and (has_bulk or cpu_rows > 0)
    right = RIGHT_AXIS_CELLS if has_right_axis else 0
    flows = _shown_flows(len(run_view.flows), rows, has_latency)
    plots = _plots(heads, rows, flows, has_latency)
    latency = plots.pop(0) if has_latency else None
    cpu = (heads + rows, cpu_rows) if cpu_rows else None
    columns = max(1, width - left - right)
    return ChartLayout(heads, left, columns, right, tuple(plots), latency, cpu, foot)


def _head_rows(height: int, has_bulk: bool) -> int:
    """Legend, and the ceiling where it has a line of its own."""
    if height < 2:
        return 0
    return 2 if has_bulk and height >= MIN_CEILING_LINE_ROWS else 1


def _cpu_rows(run_view: RunView, rows: int) -> int:
    """Of the CPU chart, if the plots keep enough of `rows`."""
    least = MIN_LATENCY_ROWS
    if run_view.plan.has_rate:
        plots = len(run_view.flows) + run_view.plan.has_requests
        least = max(MIN_LINE_ROWS, MIN_PLOT_ROWS * plots)
    return CPU_ROWS if run_view.hosts and rows - CPU_ROWS >= least else 0


def _shown_flows(flows: int, rows: int, has_latency: bool) -> int:
    """How many of them have a plot: all, or one; beside the latency perhaps none."""
    each = MIN_PLOT_ROWS * (1 + has_latency)
    if rows >= each * flows:
        return flows
    if rows >= each or not has_latency:
        return min(flows, 1)
    return 0


def _plots(row: int, rows: int, flows: int, has_latency: bool) -> list[tuple[int, int]]:
    """(row, rows) of the latency, if there is one, and of the flows, from `row` on: more than half
    of the rows for the latency, the rest for the flows, with their name between."""
    shares = [1.0] * flows
    if has_latency:
        shares.insert(0, LATENCY_SHARE * (flows or 1))
    shares = shares or [1.0]
    has_name = has_latency and flows > 0 and rows >= MIN_NAMED_ROWS
    rows -= has_name
    begin, plots = row, list[tuple[int, int]]()
    for number in range(len(shares)):
        end = begin + round(rows * sum(shares[: number + 1]) / sum(shares))
        if has_name and number > 0:
            end += 1
        if has_name and number == 1:
            row += 1
        plots.append((row, end - row))
        row = end
    return plots


def draw_run(
    run_view: RunView, view: Viewport, width: int, height: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """Exactly `height` lines, none wider than `width` cells."""
    if width < 1 or height < 1:
        return []
    layout = layout_of(run_view, width, height)
    sight = sight_of(run_view, view)
    columns = columns_of(run_view, sight, layout)
    latencies = latency_columns(run_view.transactions, sight, layout.columns)
    axis = latencies.axis(logarithmic=run_view.plan.test == "loaded")
    peaks = [peak_of(flow, sight) for flow in run_view.flows]
    scale, canvas = scale_of(run_view, columns, peaks), Canvas(width, height)
    unit = axis.unit if layout.latency is not None else scale.unit
    drawing = Drawing(run_view, view, layout, sight, scale, unit, peaks, canvas, glyphs=glyphs)
    if layout.latency is not None:
        box = layout.box(layout.latency)
        draw_bands(canvas, latencies, axis, box, drawing.omitted(), left=layout.left, glyphs=glyphs)
    for number, values in enumerate(columns if layout.plots else ()):
        drawing.draw_plot(number, values)
    drawing.draw_cpu()
    drawing.draw_phases()
    drawing.draw_cursor()
    if not run_view.series:
        drawing.draw_waiting()
    if layout.foot:
        drawing.draw_times()
    return drawing.lines()


def drawing_inputs(run_view: RunView, view: Viewport) -> tuple[object, ...]:
    """Everything that the drawing depends on: unless it changes, the chart need not be drawn
    again."""
    host = chosen_host(run_view, view)
    return (
        view,
        sight_of(run_view, view),
        run_view.plan,
        None if run_view.series else run_view.stage,
        run_view.ceiling,
        run_view.result,
        None if host is None else (host.host, host.series, _age_of(run_view, host)),
        [(flow.sender, flow.receiver, flow.ceiling, flow.points) for flow in run_view.flows],
        [run_view.arrival_now(flow) for flow in run_view.flows],
        run_view.transactions,
        run_view.newest_rate(run_view.transactions),
    )


def _age_of(run_view: RunView, host: HostLoad) -> int | None:
    """Whole seconds since its CPUs were read; None: they are of now, or none was."""
    age = run_view.age_of(host.series[-1]) if host.series else None
    return None if age is None else int(age)


def columns_of(
    run_view: RunView, sight: VisibleRange, layout: ChartLayout
) -> list[list[float | None]]:
    """Bits per second of each plot; with fewer plots than directions, of all directions
    together."""
    step = sight.span / layout.columns
    columns = [means(_rates(flow), sight.begin, step, layout.columns) for flow in run_view.flows]
    if len(columns) > len(layout.plots):
        return [list(map(sum_known, zip(*columns, strict=True)))]
    return columns


def _rates(flow: Flow) -> list[tuple[float, float, float]]:
    """(end, seconds, bits per second) of each interval of what arrived."""
    rates = []
    for point in flow.points:
        interval = point.interval
        rates.append((point.time, interval.end - interval.start, interval.bits_per_second))
    return rates


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart that is being drawn."""

    run_view: RunView
    view: Viewport
    layout: ChartLayout
    sight: VisibleRange
    scale: Scale
    unit: str
    """Of the labels of the axis at the left."""
    peaks: Sequence[float]
    """Bits per second of the highest interval of each direction in sight."""
    canvas: Canvas
    glyphs: Glyphs

    def draw_plot(self, number: int, values: Sequence[float | None]) -> None:
        """The area of one direction, the line rate across it, and the axis at its left."""
        box = self.layout.box(self.layout.plots[number])
        own = flow_style(self.run_view, number)
        draw_area(self.canvas, values, box, self.scale.top, self._styles(own), glyphs=self.glyphs)
        ceiling = self.scale.ceilings[number]
        if ceiling is not None and box.rows >= MIN_LINE_ROWS:
            self._draw_ceiling(ceiling / self.scale.top, box)
        self._draw_left_axis(box)
        if not self.layout.left:
            return
        for value in value_ticks(self.scale.top, box.rows):
            label = f"{self.scale.label(value):>{box.left - 1}}"[: box.left - 1]
            row = _row_of(value / self.scale.top, box)
            self.canvas.write(0, row, label + self.glyphs.left_tick, "dim")
        if self.layout.latency is not None:
            self._draw_name(number, box, sum(self.layout.latency))

    def _draw_name(self, number: int, box: Box, latency_end: int) -> None:
        """Beside a latency, the flows have a name above, and their unit: that above the plots is of
        the latency."""
        if number == 0 and box.top > latency_end:
            self.canvas.write(box.left + 1, box.top - 1, "goodput", "title")
        has_room = box.rows > 1 and self.canvas.at(box.left - 2, box.top + 1) == " "
        if has_room:
            unit = f"{self.scale.unit:>{box.left - 1}}"[: box.left - 1]
            self.canvas.write(0, box.top + 1, unit, "dim")

    def draw_phases(self) -> None:
        """Of a loaded run: a line where the bulk flow begins, and both phases by name."""
        layout, begun = self.layout, self.run_view.loaded_since
        is_loaded = self.run_view.plan.test == "loaded" and bool(self.run_view.series)
        if not is_loaded or layout.latency is None:
            return
        box = layout.box(layout.latency)
        column = box.columns
        if begun is not None:
            column = round((begun - self.sight.begin) / self.sight.span * box.columns)
            if 0 <= column < box.columns:
                self._draw_rule(box.left + column, "dim")
            if column + 2 + len("loaded") <= box.columns:
                self._write_phase("loaded", max(0, column + 1), box)
        if column >= len("idle") + 2:
            self._write_phase("idle", 0, box)

    def _write_phase(self, word: str, column: int, box: Box) -> None:
        """With a blank at each side: the word may stand between points."""
        text = f" {word} "[: box.columns - column]
        self.canvas.write(box.left + column, box.top, text, "title")

    def _draw_rule(self, column: int, style: str) -> None:
        """A line from the legend to the time axis."""
        for row in range(self.layout.heads, self.canvas.height - self.layout.foot):
            self.canvas.put(column, row, self.glyphs.axis, style)

    def _column_of(self, time: float) -> int:
        share = (time - self.sight.begin) / self.sight.span
        return self.layout.left + min(self.layout.columns - 1, int(share * self.layout.columns))

    def draw_cpu(self) -> None:
        """The CPU of one host as an area up to 100 %, with its axis at the right."""
        host = chosen_host(self.run_view, self.view)
        if host is None or self.layout.cpu is None:
            return
        box, sight = self.layout.box(self.layout.cpu), self.sight
        line = cpu_line(host.series, self.view.hottest)
        values = along(line, sight.begin, sight.span / box.columns, box.columns)
        draw_area(self.canvas, values, box, 1.0, self._styles(CPU_STYLE), glyphs=self.glyphs)
        self._draw_left_axis(box)
        if self.layout.left:
            for row, word in enumerate(("CPU", "%", self.glyphs.text(CPU_WINDOW))):
                self.canvas.write(0, box.top + row, f"{word:>{box.left - 1}}", "dim")
        if self.layout.right:
            end = box.left + box.columns
            for percent in (0, 50, 100):
                row = _row_of(percent / 100, box)
                self.canvas.write(end, row, f"{self.glyphs.right_tick}{percent:>3}", "dim")

    def _styles(self, own: str) -> list[str]:
        """Of each column: omitted seconds are dim."""
        return ["dim" if is_omitted else own for is_omitted in self.omitted()]

    def omitted(self) -> list[bool]:
        """Whether the seconds of each column are omitted."""
        sight, columns = self.sight, self.layout.columns
        step = sight.span / columns
        return [sight.begin + (column + 0.5) * step <= 0 for column in range(columns)]

    def _draw_ceiling(self, share: float, box: Box) -> None:
        """A line at the ceiling; the top of the area is not painted over, what reaches above the
        line is."""
        canvas, full = self.canvas, self.glyphs.levels[-1]
        row = box.top + box.rows - 1 - min(box.rows - 1, max(0, int(share * box.rows - 1e-9)))
        for x in range(box.left, box.left + box.columns):
            above = canvas.at(x, row - 1) if row > box.top else " "
            reaches_above = canvas.at(x, row) == full and above != " "
            if reaches_above or canvas.at(x, row) == " ":
                canvas.put(x, row, self.glyphs.ceiling, CEILING_STYLE)

    def _draw_left_axis(self, box: Box) -> None:
        for row in range(box.top, box.top + box.rows):
            self.canvas.put(box.left - 1, row, self.glyphs.axis, "dim")

    def draw_cursor(self) -> None:
        time = self.view.cursor
        if time is not None and self.sight.begin <= time <= self.sight.end:
            self._draw_rule(self._column_of(time), "title")

    def draw_times(self) -> None:
        """Round seconds below the plots; the last one has the unit."""
        sight, row = self.sight, self.canvas.height - 1
        ticks = time_ticks(sight.begin, sight.end, self.layout.columns)
        free = 0
        for time in ticks:
            words = axis_time_text(time, sight.span)
            if time == ticks[-1] and sight.span <= MAX_SECONDS_SCALE:
                words += " s"
            x = min(self._column_of(time), self.canvas.width - len(words))
            if x >= free:
                self.canvas.write(x, row, words, "dim")
                free = x + len(words) + 1

    def lines(self) -> list[SpanLine]:
        """All rows: legend and ceiling above the plots."""
        lines = [self.canvas.row(row) for row in range(self.canvas.height)]
        width, margin, layout = self.canvas.width, self.layout.left, self.layout
        if layout.heads:
            values = values_of(self.run_view, self.view.cursor)
            lines[0] = draw_legend(
                self.run_view,
                self.view,
                values,
                self.unit,
                width,
                peaks=self.peaks,
                margin=margin,
                glyphs=self.glyphs,
            )
        if layout.heads > 1:
            lines[1] = draw_ceiling_text(
                self.run_view, self.scale, width, margin=margin, glyphs=self.glyphs
            )
        return lines

    def draw_waiting(self) -> None:
        """Before the first value: what the run waits for, or why it failed, in the middle of the
        plots."""
        layout = self.layout
        rows = self.canvas.height - layout.heads - layout.foot
        room = max(0, layout.columns - 2)
        text = shown(_waiting_text(self.run_view), room, self.glyphs)[:room]
        # a wide character would take the cell behind it
        narrow = "".join(character if cells(character) == 1 else "?" for character in text)
        self.canvas.write(layout.left + 1, layout.heads + max(0, rows - 1) // 2, narrow, "title")


NO_NIC = "no rate: no NIC was chosen"
NO_RATE_YET = "no rate yet: it needs two readings of the NIC"
NOT_COUNTED = "no rate: the bytes of the NIC were not counted"


def _waiting_text(run_view: RunView) -> str:
    result = run_view.result
    if result is not None and result.failure is not None:
        return result.failure.sentence
    if run_view.plan.is_of_one_host and (result is not None or run_view.is_measured):
        if run_view.plan.client.ifindex is None:
            return NO_NIC
        return NO_RATE_YET if result is None else NOT_COUNTED
    return run_view.stage or "no data received"


def _row_of(share: float, box: Box) -> int:
    """The row in which a value lies: 0 in the lowest, 1 in the highest."""
    return box.top + box.rows - 1 - round(share * (box.rows - 1))
