"""A run over time: goodput as an area below the line rate, and the CPU of one host below it, on one time axis.

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

Of requests and responses the bands of `latency_drawing`; of a loaded run these above the goodput of the bulk flow, with
a line where that begins.

Pure functions. Each of two directions has a plot of its own, one above the other: they are told apart without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.traffic.live.run_view import RunSample, RunView, run_totals, sample_at
from nictop.tui.widgets.base.line_view import SpanLine
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
    View,
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
"""Rows of the plot of each direction, and of latency above it, with fewer of which there are fewer plots."""
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
    flows, bands, has_bulk = len(run_view.flows), int(run_view.plan.has_requests), run_view.plan.has_bulk
    heads = 0 if height < 2 else 2 if height >= MIN_CEILING_LINE_ROWS and has_bulk else 1
    foot = height - heads >= 3
    rows = max(0, height - heads - foot)
    least = max(MIN_LINE_ROWS, MIN_PLOT_ROWS * (flows + bands)) if has_bulk else MIN_LATENCY_ROWS
    cpu_rows = CPU_ROWS if run_view.hosts and rows - CPU_ROWS >= least else 0
    rows -= cpu_rows
    left = LEFT_AXIS_CELLS if width >= MIN_AXIS_CELLS else 0
    right = RIGHT_AXIS_CELLS if width >= MIN_BOTH_AXES_CELLS and (has_bulk or cpu_rows) else 0
    each = MIN_PLOT_ROWS * (1 + bands)
    count = flows if rows >= each * flows else min(flows, 1) if rows >= each or not bands else 0
    plots, row = [], heads
    # more than half of the rows for the latency, the rest for the flows, with their name between
    gap = int(bool(bands and count) and rows >= MIN_NAMED_ROWS)
    rows -= gap
    shares = [LATENCY_SHARE * (count or 1)] * bands + [1.0] * (count or 1 - bands)
    for number in range(len(shares)):
        end = heads + round(rows * sum(shares[: number + 1]) / sum(shares)) + gap * (number > 0)
        row += gap * (number == 1)
        plots.append((row, end - row))
        row = end
    latency = plots.pop(0) if bands else None
    cpu = (row, cpu_rows) if cpu_rows else None
    return ChartLayout(heads, left, max(1, width - left - right), right, tuple(plots), latency, cpu, foot)


def draw_run(run_view: RunView, view: View, width: int, height: int, *, glyphs: Glyphs = UNICODE) -> list[SpanLine]:
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


def drawing_inputs(run_view: RunView, view: View) -> tuple[object, ...]:
    """Everything that the drawing depends on: unless it changes, the chart need not be drawn again."""
    host = chosen_host(run_view, view)
    return (
        view,
        sight_of(run_view, view),
        run_view.plan,
        run_view.stage if not run_view.series else "",
        run_view.ceiling,
        run_view.result,
        (host.host, host.series) if host is not None else None,
        *((flow.sender, flow.receiver, flow.arrivals) for flow in run_view.flows),
        run_view.transactions,
    )


def columns_of(run_view: RunView, sight: VisibleRange, layout: ChartLayout) -> list[list[float | None]]:
    """Bits per second of each plot; with fewer plots than directions, of all directions together."""
    step = sight.span / layout.columns
    found = [
        means(
            [(one.time, one.seconds, one.bits_per_second) for one in flow.arrivals], sight.begin, step, layout.columns
        )
        for flow in run_view.flows
    ]
    if len(found) > len(layout.plots):
        sums = ([value for value in values if value is not None] for values in zip(*found, strict=True))
        return [[sum(known) if known else None for known in sums]]
    return found


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart that is being drawn."""

    run_view: RunView
    view: View
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
        if self.scale.ceiling is not None and box.rows >= MIN_LINE_ROWS:
            self._draw_ceiling(self.scale.ceiling / self.scale.top, box)
        self._draw_left_axis(box)
        if self.layout.left:
            for value in value_ticks(self.scale.top, box.rows):
                label = f"{self.scale.label(value):>{box.left - 1}}"[: box.left - 1]
                row = _row_of(value / self.scale.top, box)
                self.canvas.write(0, row, label + self.glyphs.left_tick, "dim")
            latency = self.layout.latency
            if number == 0 and latency is not None and box.top > sum(latency):
                self.canvas.write(box.left + 1, box.top - 1, "goodput", "title")
            # the unit above the plots is that of the latency
            if latency is not None and box.rows > 1 and self.canvas.at(box.left - 2, box.top + 1) == " ":
                self.canvas.write(0, box.top + 1, f"{self.scale.unit:>{box.left - 1}}"[: box.left - 1], "dim")

    def draw_phases(self) -> None:
        """Of a loaded run: a line where the bulk flow begins, and both phases by name."""
        layout, sight, begun = self.layout, self.sight, self.run_view.loaded_since
        if self.run_view.plan.test != "loaded" or layout.latency is None or not self.run_view.series:
            return
        box, words = layout.box(layout.latency), ("idle", "loaded")
        column = box.columns
        if begun is not None:
            column = round((begun - sight.begin) / sight.span * box.columns)
            if 0 <= column < box.columns:
                for row in range(layout.heads, self.canvas.height - layout.foot):
                    self.canvas.put(box.left + column, row, self.glyphs.axis, "dim")
            if column + 2 + len(words[1]) <= box.columns:
                self.canvas.write(box.left + max(0, column + 2), box.top, words[1], "title")
        if column >= len(words[0]) + 2:
            self.canvas.write(box.left + 1, box.top, words[0], "title")

    def draw_cpu(self) -> None:
        """The CPU of one host as an area up to 100 %, with its axis at the right."""
        host = chosen_host(self.run_view, self.view)
        if host is None or self.layout.cpu is None:
            return
        box, sight = self.layout.box(self.layout.cpu), self.sight
        values = along(cpu_line(host.series, self.view.hottest), sight.begin, sight.span / box.columns, box.columns)
        draw_area(self.canvas, values, box, 1.0, self._styles(CPU_STYLE), glyphs=self.glyphs)
        self._draw_left_axis(box)
        if self.layout.left:
            for row, word in enumerate(("CPU", "%")):
                self.canvas.write(0, box.top + row, f"{word:>{box.left - 1}}", "dim")
        if self.layout.right:
            end = box.left + box.columns
            for percent in (0, 50, 100):
                self.canvas.write(end, _row_of(percent / 100, box), f"{self.glyphs.right_tick}{percent:>3}", "dim")

    def _styles(self, own: str) -> list[str]:
        """Of each column: omitted seconds are dim."""
        return ["dim" if is_omitted else own for is_omitted in self.omitted()]

    def omitted(self) -> list[bool]:
        """Whether the seconds of each column are omitted."""
        sight, columns = self.sight, self.layout.columns
        step = sight.span / columns
        return [sight.begin + (column + 0.5) * step <= 0 for column in range(columns)]

    def _draw_ceiling(self, share: float, box: Box) -> None:
        """A line at the ceiling; the top of the area is not painted over, what reaches above the line is."""
        row = box.top + box.rows - 1 - min(box.rows - 1, max(0, int(share * box.rows - 1e-9)))
        for x in range(box.left, box.left + box.columns):
            above = self.canvas.at(x, row - 1) if row > box.top else " "
            if self.canvas.at(x, row) == " " or (self.canvas.at(x, row) == self.glyphs.levels[-1] and above != " "):
                self.canvas.put(x, row, self.glyphs.ceiling, CEILING_STYLE)

    def _draw_left_axis(self, box: Box) -> None:
        for row in range(box.top, box.top + box.rows):
            self.canvas.put(box.left - 1, row, self.glyphs.axis, "dim")

    def draw_cursor(self) -> None:
        time, sight, layout = self.view.cursor, self.sight, self.layout
        if time is None or not sight.begin <= time <= sight.end:
            return
        column = layout.left + min(layout.columns - 1, int((time - sight.begin) / sight.span * layout.columns))
        for row in range(layout.heads, self.canvas.height - layout.foot):
            self.canvas.put(column, row, self.glyphs.axis, "title")

    def draw_times(self) -> None:
        """Round seconds below the plots; the last one has the unit."""
        sight, layout, row = self.sight, self.layout, self.canvas.height - 1
        ticks = time_ticks(sight.begin, sight.end, layout.columns)
        free = 0
        for time in ticks:
            unit = " s" if sight.span <= MAX_SECONDS_SCALE and time == ticks[-1] else ""
            words = axis_time_text(time, sight.span) + unit
            x = layout.left + min(layout.columns - 1, int((time - sight.begin) / sight.span * layout.columns))
            x = min(x, self.canvas.width - len(words))
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
            lines[1] = draw_ceiling_text(self.run_view, self.scale, width, margin=margin, glyphs=self.glyphs)
        return lines

    def draw_waiting(self) -> None:
        """Before the first value: what the run waits for, or why it failed, in the middle of the plots."""
        result, layout = self.run_view.result, self.layout
        failure = result.failure if result is not None else None
        words = failure.sentence if failure is not None else self.run_view.stage or "no data received"
        room = max(0, layout.columns - 2)
        text = shown(words, room, self.glyphs)[:room]
        row = layout.heads + max(0, self.canvas.height - layout.heads - layout.foot - 1) // 2
        self.canvas.write(layout.left + 1, row, "".join(one if cells(one) == 1 else "?" for one in text), "title")


def _row_of(share: float, box: Box) -> int:
    """The row in which a value lies: 0 in the lowest, 1 in the highest."""
    return box.top + box.rows - 1 - round(share * (box.rows - 1))


def values_of(run_view: RunView, time: float | None) -> RunSample:
    """Values at `time`; without one, the results of a finished run or the newest values of an active one."""
    if time is None:
        over = run_totals(run_view)
        if over is not None:
            return over
    return sample_at(run_view, time)
