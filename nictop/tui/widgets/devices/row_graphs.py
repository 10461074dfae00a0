"""The small graphs at the ends of the rows of devices: both directions together, over the last
minute.

Each is drawn once for a reading. With many readings in a second it is drawn once for the second: a
column of a graph takes several of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from nictop.model.history import History
from nictop.model.text.glyphs import Glyphs
from nictop.tui.widgets.charts.plot import HISTORY_SECONDS, ColumnCache
from nictop.tui.widgets.charts.sparkline import highest, nice_ceiling, spark

MANY_READINGS, MANY_IN_SECONDS = 5, 0.75
"""As many readings in these seconds, some seven in a second, are many."""
BITS, PACKETS = ("rx_bits", "tx_bits"), ("rx_packets", "tx_packets")


def readings_of_this_second(times: Sequence[float]) -> int:
    """The newest readings that graphs do not show yet: those of the second that has begun, if there
    are many in one."""
    if len(times) <= MANY_READINGS or times[-1] - times[-1 - MANY_READINGS] > MANY_IN_SECONDS:
        return 0
    return len(times) - bisect_left(times, math.floor(times[-1]))


class RowGraphs:
    """`begin` for each reading, then `graph` for each row in view."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._history, self._width, self._kinds = History(1), 0, BITS
        self._unshown = 0
        """Newest readings that are in no graph."""
        self._columns = ColumnCache()
        self._drawn: dict[int, str] = {}
        """ifindex → its graph, of `_drawn_for`."""
        self._drawn_for: tuple[object, ...] = ()

    def begin(self, history: History, width: int, *, packets: bool) -> None:
        times = history.times()
        if history is not self._history:
            self._columns = ColumnCache()
        self._history, self._width, self._kinds = history, width, PACKETS if packets else BITS
        self._unshown = readings_of_this_second(times)
        shown = times[: len(times) - self._unshown]
        drawn_for = (history, shown[-1:], len(shown), width, packets)
        if drawn_for != self._drawn_for:
            self._drawn_for, self._drawn = drawn_for, {}
            self._columns.begin(shown, HISTORY_SECONDS, width)

    def graph(self, ifindex: int) -> str:
        known = self._drawn.get(ifindex)
        if known is None:
            known = self._drawn[ifindex] = self._draw(ifindex)
        return known

    def _draw(self, ifindex: int) -> str:
        received, sent = (self._means(kind, ifindex) for kind in self._kinds)
        both = [
            None if rx is None or tx is None else rx + tx
            for rx, tx in zip(received, sent, strict=True)
        ]
        return spark(both, self._width, nice_ceiling(highest(both)), glyphs=self._glyphs)

    def _means(self, kind: str, ifindex: int) -> list[float | None]:
        """Of each column."""
        key = (kind, ifindex)

        def newest(count: int) -> Sequence[float | None]:
            values = self._history.newest(key, count + self._unshown)
            return values[: max(0, len(values) - self._unshown)]

        return self._columns.means(key, newest)
