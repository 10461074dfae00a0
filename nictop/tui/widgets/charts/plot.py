"""What a chart over time is made of: columns of means, areas of block characters, axis ticks.

Pure functions from numbers to characters. A `Canvas` takes them cell by cell and gives lines of spans; what is put
later lies above what was there. Zero is a mark on the base line, and a moment of which nothing is known stays empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.widgets.base.line_view import Span, SpanLine

TIME_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
"""Seconds between two ticks that people can count in."""

VALUE_STEPS = {10: (2.5, 5), 15: (5,), 20: (5, 10), 30: (10,), 50: (10, 25), 75: (25,)}
"""Ten times the first digits of the end of an axis → steps between two ticks, in the same measure, the finest first."""

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
        return self._marks[y][x] if 0 <= x < self.width and 0 <= y < self.height else ""

    def row(self, y: int) -> SpanLine:
        """One row, with neighbouring cells of the same style joined."""
        spans: list[Span] = []
        marks, styles = self._marks[y], self._styles[y]
        start = 0
        for x in range(1, self.width + 1):
            if x == self.width or styles[x] != styles[start]:
                spans.append(("".join(marks[start:x]), styles[start]))
                start = x
        return tuple(spans) if self.width else ()


def means(points: Iterable[tuple[float, float, float]], begin: float, step: float, width: int) -> list[float | None]:
    """`points`: (end, seconds, value). The mean of each of `width` columns of `step` seconds from `begin` on, over what
    is known of it; None: nothing is."""
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
    return [total / weight if weight > 0.01 * step else None for total, weight in zip(sums, weights, strict=True)]


def draw_area(
    canvas: Canvas,
    values: Sequence[float | None],
    box: Box,
    top: float,
    styles: Sequence[str],
    *,
    glyphs: Glyphs = UNICODE,
) -> None:
    """Columns that reach up to `top`, in eighths of a cell (ASCII: in quarters); `styles`: of each column."""
    marks = glyphs.levels
    steps = len(marks) - 1
    full, bottom = steps * box.rows, box.top + box.rows - 1
    for column, (value, style) in enumerate(zip(values, styles, strict=False), box.left):
        if value is None:
            continue
        level = max(1, round(min(1.0, value / top) * full)) if value > 0 and top > 0 else 0
        if not level:
            canvas.put(column, bottom, glyphs.zero, style)
        for row in range(-(-level // steps)):
            canvas.put(column, bottom - row, marks[min(steps, level - row * steps)], style)


def along(vertices: Sequence[Vertex], begin: float, step: float, count: int) -> list[float | None]:
    """A line at the middles of `count` columns of `step` seconds from `begin` on, straight between its vertices (by
    time); None before its beginning, behind its end, and where it is interrupted."""
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
    one = vertices[index] if index < len(vertices) else None
    other = vertices[index + 1] if index + 1 < len(vertices) else None
    if one is None or one[0] > time:
        return None
    if other is None:
        return one[1] if one[0] == time else None
    if other[0] <= one[0]:
        return other[1]
    return one[1] + (other[1] - one[1]) * (time - one[0]) / (other[0] - one[0])


def value_ticks(top: float, rows: int) -> list[float]:
    """Values from 0 to `top` (as `nice_ceiling` gives it) that get a label, as many as fit on `rows` rows with one free
    between two of them."""
    if not 0 < top < math.inf or rows < 3:
        return [top] if rows else []
    power = 10.0 ** math.floor(math.log10(top) + 1e-9)
    first = round(10 * top / power)
    for step in (*VALUE_STEPS.get(first, ()), first):
        count = round(first / step)
        if abs(count * step - first) < 1e-6 and 2 * count < rows:
            return [top * number / count for number in range(count + 1)]
    return [0.0, top]


def time_ticks(begin: float, end: float, width: int, between: int = 9) -> list[float]:
    """Round times from `begin` to `end` on `width` columns, at least `between` columns apart."""
    span = end - begin
    if not span > 0 or width < 1 or not math.isfinite(span):
        return []
    least = span * between / width
    step = next((one for one in TIME_STEPS if one >= least), None)
    if step is None:
        step = 86400.0 * math.ceil(least / 86400)
    first = math.ceil(begin / step - 1e-9)
    return [number * step for number in range(first, math.floor(end / step + 1e-9) + 1)]


def time_words(time: float, span: float) -> str:
    """``7.5``, ``12``, ``1:30``, ``2:05:00``: as fine as a chart over `span` seconds needs it."""
    sign, rest = ("-", -time) if time < 0 else ("", time)
    if span <= 180:
        text = f"{rest:.1f}".removesuffix(".0")
        return text if text == "0" else sign + text
    whole = round(rest)
    if span < 3600:
        return f"{sign}{whole // 60}:{whole % 60:02}"
    return f"{sign}{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
