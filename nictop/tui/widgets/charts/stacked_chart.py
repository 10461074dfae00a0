"""Where the CPU time of one host went over time: a small chart whose every cell is the kind of work
that fills it.

Pure functions. Each kind has the texture (ASCII: the letter) that the strip of processors gives it,
besides its colour.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from nictop.model.text.glyphs import Glyphs
from nictop.traffic.results.host_load import Busy
from nictop.tui.widgets.base.line_widget import Span
from nictop.tui.widgets.charts.plot import Box, Canvas
from nictop.tui.widgets.charts.sparkline import nice_ceiling
from nictop.tui.widgets.cpu.strip import KINDS
from nictop.tui.widgets.traffic.viewport import (
    CPU_WINDOW_SECONDS,
    MAX_WINDOW_GAP_SECONDS,
    VisibleRange,
)

Shares = tuple[float, ...]
"""Of all cores, in the order of `KINDS`: shares of 1."""

SCALE_CELLS = 6
"""Cells at the left for the scale."""
MIN_TOP_SHARE = 0.1
"""Share of all cores that the chart reaches up to at least: an idle host looks idle."""


def shares(busy: Busy) -> Shares:
    cores = busy.cores or 1
    return (
        busy.user / cores,
        busy.system / cores,
        busy.softirq / cores,
        busy.irq / cores,
        busy.steal / cores,
        busy.guest / cores,
    )


def columns(series: Sequence[Busy], sight: VisibleRange, width: int) -> list[Shares | None]:
    """The mean of each column, or the window in which it lies where windows are longer; None:
    nothing is known."""
    step = sight.span / width
    if step < CPU_WINDOW_SECONDS:
        times = [busy.time for busy in series]
        return [
            _covering(series, times, sight.begin + (number + 0.5) * step) for number in range(width)
        ]
    found: list[Shares | None] = []
    times = [busy.time - CPU_WINDOW_SECONDS / 2 for busy in series]
    low = bisect_left(times, sight.begin)
    for number in range(width):
        high = bisect_left(times, sight.begin + (number + 1) * step, low)
        found.append(_mean(series[low:high]))
        low = high
    return found


def _mean(windows: Sequence[Busy]) -> Shares | None:
    if not windows:
        return None
    if len(windows) == 1:
        return shares(windows[0])
    every = [shares(busy) for busy in windows]
    return tuple(sum(kind) / len(every) for kind in zip(*every, strict=True))


def _covering(series: Sequence[Busy], times: Sequence[float], time: float) -> Shares | None:
    """Of the window in which a time lies."""
    index = bisect_left(times, time)
    if index == len(times):
        return None
    end = times[index]
    begin = end - CPU_WINDOW_SECONDS
    if index > 0 and end - times[index - 1] <= MAX_WINDOW_GAP_SECONDS:
        begin = times[index - 1]
    if time <= begin:
        return None
    return shares(series[index])


def draw_split(
    canvas: Canvas, box: Box, series: Sequence[Busy], sight: VisibleRange, *, glyphs: Glyphs
) -> None:
    """The chart with its scale in the cells of `box`."""
    width = box.columns - SCALE_CELLS
    if width < 1 or box.rows < 1:
        return
    stacks = columns(series, sight, width)
    heights = [sum(stack) for stack in stacks if stack is not None]
    if series:  # the value beside the chart
        heights.append(sum(shares(series[-1])))
    top = min(1.0, nice_ceiling(max([*heights, MIN_TOP_SHARE])))
    for row in range(box.rows):
        label, line = "", glyphs.axis
        if row == 0:
            label, line = f"{100 * top:g} %", glyphs.left_tick
        canvas.write(box.left, box.top + row, f"{label:>{SCALE_CELLS - 1}}{line}", "dim")
    for number, stack in enumerate(stacks):
        for row, (text, style) in enumerate(stack_cells(stack, box.rows, top, glyphs=glyphs)):
            canvas.put(box.left + SCALE_CELLS + number, box.top + box.rows - 1 - row, text, style)


def stack_cells(stack: Shares | None, rows: int, top: float, *, glyphs: Glyphs) -> list[Span]:
    """One column of `rows` cells from below. A cell belongs to the kind that reaches its middle;
    work is never invisible, and a column of which nothing is known is empty."""
    if stack is None:
        return []
    total = sum(stack)
    if total <= 0:
        return [(glyphs.zero, "dim")]
    marks = dict(zip(KINDS, glyphs.work, strict=True))
    filled = max(1, min(rows, round(total / top * rows)))
    kinds = [_kind_at(stack, (row + 0.5) / filled * total) for row in range(filled)]
    return [(marks[kind], kind) for kind in kinds]


def _kind_at(stack: Shares, level: float) -> str:
    """The kind of work at this height of a stack."""
    height = 0.0
    for kind, share in zip(KINDS, stack, strict=True):
        height += share
        if level <= height:
            return kind
    return KINDS[max(range(len(KINDS)), key=lambda index: stack[index])]
