"""What of a run is in sight, and on which scale: the part of its time axis, the top of its value
axis, the CPU line.

Pure functions; `RunChart` draws what they give.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter

from nictop.model.text.units import SI_PREFIXES
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.series import BY_TIME
from nictop.traffic.results.host_load import Busy, HostLoad
from nictop.traffic.results.result import Flow
from nictop.tui.widgets.charts.plot import Vertex
from nictop.tui.widgets.charts.sparkline import nice_ceiling

RATE = attrgetter("interval.bits_per_second")
MAX_WINDOW_GAP_SECONDS = 2.5
"""Seconds between two readings of the CPUs beyond which nothing is known of the time between
them."""
CPU_WINDOW_SECONDS = 1.0
MIN_CEILING_SHARE = 0.05
"""A run below this share of its ceiling is drawn on a scale of its own, or nothing of it would be
seen."""
MAX_SCALE_BITS_PER_SECOND = 1e30
"""Bits per second that an axis reaches up to at most, whatever a generator writes."""
MIN_SPAN_SECONDS, MAX_SPAN_SECONDS = 2.0, 2 * 86400.0
"""Seconds, when the chart is enlarged as far as it goes, and whatever times a generator writes."""


@dataclass(frozen=True)
class Viewport:
    """How a run is shown."""

    host: str | None = None
    """The host whose CPU is drawn; None: the receiver of the first direction."""
    hottest: bool = False
    """Its busiest core; False: all of its cores."""
    span: float | None = None
    """Visible seconds; None: the whole run."""
    cursor: float | None = None
    """Time on the axis of the run; None: no cursor, the newest values are shown."""


@dataclass(frozen=True)
class VisibleRange:
    """The visible part of the time axis."""

    begin: float
    span: float

    @property
    def end(self) -> float:
        return self.begin + self.span


def sight_of(run_view: RunView, view: Viewport) -> VisibleRange:
    """The whole run as it is planned; or the newest part of it, or the part around the cursor."""
    begin = run_view.start
    end = min(max(run_view.end, begin + 1.0), begin + MAX_SPAN_SECONDS)
    if view.span is None or view.span >= end - begin:
        return VisibleRange(begin, end - begin)
    newest = max((series[-1].time for series in run_view.series), default=begin)
    if run_view.is_measured and not run_view.series:
        newest = run_view.end
    last = max(newest, begin + view.span)
    if view.cursor is not None and view.cursor < last - view.span:
        last = max(view.cursor, begin) + 0.75 * view.span
    last = min(end, max(last, begin + view.span))
    return VisibleRange(last - view.span, view.span)


def enlarged(run_view: RunView, view: Viewport, steps: int) -> float | None:
    """Seconds in sight after so many steps in (above 0) or out: halves of the whole run; None: all
    of it."""
    everything = sight_of(run_view, Viewport()).span
    now = math.log2(everything / view.span) if view.span else 0.0
    wanted: float = everything / 2 ** max(0, min(20, round(now) + steps))
    if everything <= max(wanted, MIN_SPAN_SECONDS):
        return None
    return max(MIN_SPAN_SECONDS, wanted)


@dataclass(frozen=True)
class Scale:
    """The value axis."""

    top: float
    """Bits per second."""
    ceilings: tuple[float | None, ...] = ()
    """Bits per second of each plot; None: not known, or not on this scale."""
    base: str = "b/s"
    """Unit of the values."""

    @property
    def power(self) -> int:
        """Exponent of 1000 of the unit of the labels."""
        return max(0, min(len(SI_PREFIXES) - 1, math.floor(math.log10(self.top) / 3 + 1e-9)))

    @property
    def unit(self) -> str:
        return f"{SI_PREFIXES[self.power]}{self.base}"

    def label(self, value: float) -> str:
        """``7.5`` of 7.5e9."""
        return f"{value / 1000.0**self.power:g}"


def peak_of(flow: Flow, sight: VisibleRange) -> float:
    """Bits per second of the highest interval in sight: a column of the chart may be the mean of
    several."""
    low, high = (bisect_left(flow.points, time, key=BY_TIME) for time in (sight.begin, sight.end))
    rates = list(map(RATE, flow.points[low : high + 1]))
    most = max(rates, default=0.0)
    return most if math.isfinite(most) else max(filter(math.isfinite, rates), default=0.0)


def scale_of(
    run_view: RunView, columns: Sequence[Sequence[float | None]], peaks: Sequence[float] = ()
) -> Scale:
    """The ceiling is on it, unless the run is far below; so are the `peaks` of all directions.
    `columns`: what is drawn of each plot."""
    most = max((0.0, *peaks, *filter(None, chain.from_iterable(columns))))
    ceilings = [_ceiling_on_scale(ceiling, most) for ceiling in _ceilings(run_view, len(columns))]
    highest = max((1.0, most, *filter(None, ceilings)))
    return Scale(nice_ceiling(min(MAX_SCALE_BITS_PER_SECOND, highest)), tuple(ceilings))


def _ceilings(run_view: RunView, plots: int) -> Iterator[float | None]:
    """Of each direction; of one plot for several, that of all together."""
    result = run_view.so_far
    if plots != len(result.flows):
        yield from [result.total_ceiling] * plots
        return
    for flow in result.flows:
        ceiling = result.ceiling_of(flow)
        yield None if ceiling is None else ceiling.goodput


def _ceiling_on_scale(ceiling: float | None, most: float) -> float | None:
    """The same; None: it is not known, or far above all values."""
    if ceiling is None or not 1 <= ceiling < math.inf:
        return None
    is_far_above = 0 < most < MIN_CEILING_SHARE * ceiling
    return None if is_far_above else ceiling


def chosen_host(run_view: RunView, view: Viewport) -> HostLoad | None:
    """The host whose CPU is drawn."""
    by_name = {load.host: load for load in run_view.hosts}
    names = [view.host]
    if run_view.flows:
        names.append(run_view.flows[0].receiver)
    for name in names:
        if name in by_name:
            return by_name[name]
    return run_view.hosts[0] if run_view.hosts else None


def cpu_share(busy: Busy, hottest: bool) -> float:
    """Share of 1: of the busiest core, or of all cores."""
    return busy.hottest_busy if hottest else busy.share


def cpu_line(series: Sequence[Busy], hottest: bool) -> list[Vertex]:
    """A share is the mean of a window: it stands at the middle of it. Interrupted where nothing was
    read."""
    line: list[Vertex] = []
    before: Busy | None = None
    for busy in series:
        share = cpu_share(busy, hottest)
        if before is None or busy.time - before.time > MAX_WINDOW_GAP_SECONDS:
            if before is not None:
                line += [(before.time, cpu_share(before, hottest)), None]
            begin = busy.time - CPU_WINDOW_SECONDS
            line.append((begin, share))
        else:
            begin = before.time
        line.append(((begin + busy.time) / 2, share))
        before = busy
    if before is not None:
        line.append((before.time, cpu_share(before, hottest)))
    return line
