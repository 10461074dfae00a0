"""What a chart over time is made of: columns of means, areas of block characters, axis ticks.

Pure functions from numbers to characters. A `Canvas` takes them cell by cell and gives lines of
spans; what is put later lies above what was there. Zero is a mark on the base line, and a moment of
which nothing is known stays empty.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.units import SI_PREFIXES
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.widgets.base.line_widget import Span, SpanLine
from nictop.tui.widgets.charts.sparkline import area, highest, nice_ceiling

MIN_TICK_COLUMNS = 9
"""Between two times on the axis."""
TIME_STEPS = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    21600,
    43200,
)
"""Seconds between two ticks that people can count in."""

VALUE_STEPS = {10: (2.5, 5), 15: (5,), 20: (5, 10), 30: (10,), 50: (10, 25), 75: (25,)}
"""Ten times the first digits of the end of an axis → steps between two ticks, in the same measure,
the finest first."""

Vertex = tuple[float, float] | None
"""(time, value) of a line; None: the line is interrupted."""


class Box(NamedTuple):
    """Cells of a canvas that belong to one plot."""

    left: int
    top: int
    columns: int
    rows: int


class Canvas:
    """Cells of a chart. Row 0 is the top; whatever is put outside is ignored."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._marks = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]

    def put(self, x: int, y: int, mark: str, style: str) -> None:
        """Set one cell; `mark` is one cell wide."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._marks[y][x] = mark
            self._styles[y][x] = style

    def write(self, x: int, y: int, text: str, style: str) -> None:
        """A text whose characters are one cell wide each."""
        for index, mark in enumerate(text):
            self.put(x + index, y, mark, style)

    def at(self, x: int, y: int) -> str:
        """The mark of a cell; "" outside."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            return ""
        return self._marks[y][x]

    def row(self, y: int) -> SpanLine:
        """One row, with neighbouring cells of the same style joined."""
        spans: list[Span] = []
        marks, styles = self._marks[y], self._styles[y]
        start = 0
        for x in range(1, self.width + 1):
            if x == self.width or styles[x] != styles[start]:
                spans.append(("".join(marks[start:x]), styles[start]))
                start = x
        return tuple(spans)


def means(
    points: Iterable[tuple[float, float, float]], begin: float, step: float, width: int
) -> list[float | None]:
    """`points`: (end, seconds, value). The mean of each of `width` columns of `step` seconds from
    `begin` on, over what is known of it; None: nothing is."""
    sums, weights = [0.0] * width, [0.0] * width
    end = begin + step * width
    for time, seconds, value in points:
        first, last = max(begin, time - seconds), min(end, time)
        if not last > first or not math.isfinite(value):
            continue
        low, high = int((first - begin) / step), min(width - 1, int((last - begin) / step))
        for column in range(max(0, low), high + 1):
            left = begin + column * step
            share = min(last, left + step) - max(first, left)
            if share > 0:
                sums[column] += share * value
                weights[column] += share
    return [
        total / weight if weight > 0.01 * step else None
        for total, weight in zip(sums, weights, strict=True)
    ]


def peaks(
    points: Iterable[tuple[float, float, float]], begin: float, step: float, width: int
) -> list[float | None]:
    """The highest value of each column of `means`."""
    found: list[float | None] = [None] * width
    end = begin + step * width
    for time, seconds, value in points:
        first, last = max(begin, time - seconds), min(end, time)
        if not last > first or not math.isfinite(value):
            continue
        low = max(0, int((first - begin) / step))
        high = min(width - 1, math.ceil((last - begin) / step) - 1)
        for column in range(low, high + 1):
            found[column] = max(value, found[column] or 0.0)
    return found


ReadingRange = tuple[int, int]
"""First reading of a column and the one after its last, as places from the end of a series: -1 is
the newest, 0 is behind it."""


def reading_ranges(times: Sequence[float], seconds: float, columns: int) -> list[ReadingRange]:
    """Which readings are in each of `columns` columns of the last `seconds`, the newest in the last
    column. `times`: of all readings, ascending. The columns begin at multiples of their width, so
    that they keep their readings while time passes. A column shorter than the time between two
    readings has the one that covers it."""
    if not times or columns < 1:
        return [(0, 0)] * columns
    step, count = seconds / columns, len(times)
    first = math.floor(times[-1] * columns / seconds) + 1 - columns
    edges = [bisect_left(times, (first + column) * step) for column in range(columns)] + [count]
    ranges = []
    for low, high in pairwise(edges):
        covered = low == high and 0 < low < count
        ranges.append((low - count, high - count + covered))
    return ranges


def column_means(
    values: Sequence[float | None], ranges: Sequence[ReadingRange]
) -> list[float | None]:
    """The mean of the known values of each column; None: there are none. `values`: newest last, as
    `series` of a history, which may begin later than its times."""
    count = len(values)
    found: list[float | None] = []
    for low, high in ranges:
        if low == high or count + high <= 0:
            found.append(None)
            continue
        readings = values[max(0, count + low) : count + high]
        try:
            found.append(sum(readings) / len(readings))  # type: ignore[arg-type]  # nearly always all are known
        except TypeError:
            known = [value for value in readings if value is not None]
            found.append(sum(known) / len(known) if known else None)
    return found


class ColumnCache:
    """Means of many series over the same columns, drawn after every reading: only the newest column
    is computed again, and those that are new, for a series that was drawn the last time too."""

    def __init__(self) -> None:
        self._shape: tuple[float, int] | None = None
        self._ranges: Sequence[ReadingRange] = ()
        self._sizes: list[int] = []
        self._first = 0
        self._shift = self._known = self._drawing = 0
        self._means: dict[tuple[str, int], tuple[int, list[float | None]]] = {}
        """Series → number of the drawing, and the means in it."""

    def begin(self, times: Sequence[float], seconds: float, columns: int) -> None:
        """Begin a drawing; the parameters are those of `reading_ranges`. Columns with another
        number of readings than before belong to another history."""
        ranges = reading_ranges(times, seconds, columns)
        sizes = [high - low for low, high in ranges]
        first = 0
        if times:
            first = math.floor(times[-1] * columns / seconds)
        shape = (seconds, columns)
        self._shift, self._known = first - self._first, 0
        if shape == self._shape and self._shift >= 0:
            known = max(0, columns - 1 - self._shift)
            if self._sizes[self._shift : self._shift + known] == sizes[:known]:
                self._known = known
        self._shape, self._ranges, self._sizes, self._first = shape, ranges, sizes, first
        self._drawing += 1

    def means(
        self, key: tuple[str, int], newest: Callable[[int], Sequence[float | None]]
    ) -> list[float | None]:
        """`column_means` of the series `key`, whose last values `newest` returns, as many as it is
        asked for."""
        drawing, before = self._means.get(key, (0, []))
        known = 0
        if drawing == self._drawing - 1:
            known = self._known
        unknown = self._ranges[known:]
        oldest = min((low for low, _ in unknown), default=0)
        means = [
            *before[self._shift : self._shift + known],
            *column_means(newest(-oldest), unknown),
        ]
        self._means[key] = (self._drawing, means)
        return means


TICK_CELLS = 6
HISTORY_SECONDS = 60.0
"""Of the charts of rates."""
NOW = "now"
"""The end of a time axis, if the newest reading is shown."""
"""Cells of the labels at the left of `time_chart`, with the axis: ``750 k┤``."""


def time_chart(
    values: Sequence[float | None],
    rows: int,
    seconds: float,
    style: str,
    *,
    peak: float,
    end: str = NOW,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """An area with its ticks, `rows` high, and the time axis below it: `rows` + 1 lines of
    `TICK_CELLS` more than there are `values`, which are those of the last `seconds`, newest last.
    `peak`: the highest value shown anywhere, which the axis contains; a column may be the mean of
    several. `end`: see `time_axis`."""
    most = max(highest(values), peak)
    top = nice_ceiling(most)
    ticks = {rows - 1: 0.0}
    if most > 0:
        ticks |= {round((rows - 1) * (1 - value / top)): value for value in value_ticks(top, rows)}
    lines: list[SpanLine] = []
    for number, cells in enumerate(area(values, len(values), rows, top, glyphs=glyphs)):
        label, mark = "", glyphs.axis
        if number in ticks:
            label, mark = tick_text(ticks[number]), glyphs.left_tick
        lines.append(((f"{label:>{TICK_CELLS - 1}}{mark}", "dim"), (cells, style)))
    return [*lines, ((" " * TICK_CELLS + time_axis(len(values), seconds, end), "dim"),)]


def tick_text(value: float) -> str:
    """``0``, ``1.5 M``, ``750 k``: a value of an axis, without its unit."""
    power = 0
    while value >= 1000 and power < len(SI_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:g} {SI_PREFIXES[power]}".rstrip()


AxisEnd = Callable[[], str]
"""What moment the end of a time axis is, while a view is drawn."""


def present() -> str:
    """`AxisEnd` of live hosts."""
    return NOW


def time_axis(columns: int, seconds: float, end: str = NOW) -> str:
    """``-60 s            -30 s             now``, as much of it as fits into the columns. `end`:
    what moment the end is."""
    begin, middle = f"-{seconds:g} s", f"-{seconds / 2:g} s"
    if columns < len(end):
        return " " * columns
    if columns < len(begin) + len(end) + 1:
        return end.rjust(columns)
    text = begin + end.rjust(columns - len(begin))
    place = columns // 2
    is_apart = place + len(middle) < columns - len(end)
    if is_apart and columns >= 3 * len(begin) + len(end):
        text = text[:place] + middle + text[place + len(middle) :]
    return text


def draw_area(
    canvas: Canvas,
    values: Sequence[float | None],
    box: Box,
    top: float,
    styles: Sequence[str],
    *,
    glyphs: Glyphs = UNICODE,
) -> None:
    """Columns that reach up to `top`, in eighths of a cell (ASCII: in quarters); `styles`: of each
    column."""
    marks = glyphs.levels
    steps = len(marks) - 1
    full, bottom = steps * box.rows, box.top + box.rows - 1
    for column, (value, style) in enumerate(zip(values, styles, strict=False), box.left):
        if value is None:
            continue
        level = 0
        if value > 0 and top > 0:
            level = max(1, round(min(1.0, value / top) * full))
        if not level:
            canvas.put(column, bottom, glyphs.zero, style)
        for row in range(-(-level // steps)):
            canvas.put(column, bottom - row, marks[min(steps, level - row * steps)], style)


def along(vertices: Sequence[Vertex], begin: float, step: float, count: int) -> list[float | None]:
    """A line at the middles of `count` columns of `step` seconds from `begin` on, straight between
    its vertices (by time); None before its beginning, behind its end, and where it is
    interrupted."""
    found: list[float | None] = []
    index = 0
    for column in range(count):
        time = begin + (column + 0.5) * step
        while index + 1 < len(vertices) and _is_before(vertices[index + 1], time):
            index += 1
        found.append(_between(vertices, index, time))
    return found


def _is_before(vertex: Vertex, time: float) -> bool:
    return vertex is None or vertex[0] <= time


def _between(vertices: Sequence[Vertex], index: int, time: float) -> float | None:
    """The value at a time between the vertex with this index and the next one."""
    before = vertices[index] if index < len(vertices) else None
    after = vertices[index + 1] if index + 1 < len(vertices) else None
    if before is None or before[0] > time:
        return None
    if after is None:
        return before[1] if before[0] == time else None
    if after[0] <= before[0]:
        return after[1]
    rise = (after[1] - before[1]) * (time - before[0]) / (after[0] - before[0])
    return before[1] + rise


def value_ticks(top: float, rows: int) -> list[float]:
    """Values from 0 to `top` (as `nice_ceiling` gives it) that get a label, as many as fit on
    `rows` rows with one free between two of them."""
    if not 0 < top < math.inf or rows < 3:
        return [top] if rows else []
    power = 10.0 ** math.floor(math.log10(top) + 1e-9)
    first = round(10 * top / power)
    for step in (*VALUE_STEPS.get(first, ()), first):
        count = round(first / step)
        if abs(count * step - first) < 1e-6 and 2 * count < rows:
            return [top * number / count for number in range(count + 1)]
    return [0.0, top]


def time_ticks(begin: float, end: float, width: int) -> list[float]:
    """Round times from `begin` to `end` on `width` columns, at least `MIN_TICK_COLUMNS` apart."""
    span = end - begin
    if not span > 0 or width < 1 or not math.isfinite(span):
        return []
    least = span * MIN_TICK_COLUMNS / width
    step = next((seconds for seconds in TIME_STEPS if seconds >= least), None)
    if step is None:
        step = 86400.0 * math.ceil(least / 86400)
    first = math.ceil(begin / step - 1e-9)
    return [number * step for number in range(first, math.floor(end / step + 1e-9) + 1)]


def axis_time_text(time: float, span: float) -> str:
    """``7.5``, ``12``, ``1:30``, ``2:05:00``: as fine as a chart over `span` seconds needs it."""
    sign, rest = ("-", -time) if time < 0 else ("", time)
    if span <= 180:
        text = f"{rest:.1f}".removesuffix(".0")
        return text if text == "0" else sign + text
    whole = round(rest)
    if span < 3600:
        return f"{sign}{whole // 60}:{whole % 60:02}"
    return f"{sign}{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
