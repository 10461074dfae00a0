"""The transactions of a run so far.

Reads nothing; takes the client as it is in the record of the run.
"""

from __future__ import annotations

from nictop.traffic.analysis.transactions import transaction_point
from nictop.traffic.generators.intervals import TransactionInterval
from nictop.traffic.generators.latency import EMPTY, LatencyHistogram, merged
from nictop.traffic.live.series import PLACE_SECONDS, Series
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import run_time
from nictop.traffic.results.transactions import TransactionFigures, TransactionPoint


class _Phase:
    """Sums of the measured intervals of a phase."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.latency: LatencyHistogram = EMPTY
        self.lost = 0

    def add(self, interval: TransactionInterval) -> None:
        self.seconds += interval.seconds
        self.latency = merged((self.latency, interval.latency))
        self.lost += interval.lost or 0


class TransactionsSoFar:
    """Each interval is read once; once more when the bulk flow beside it begins."""

    def __init__(self, client: RunEnd) -> None:
        self._client = client
        self._read = 0
        """Number of its intervals that were read."""
        self._points = Series[TransactionPoint]()
        self._phase = _Phase()
        self._loaded_since: float | None = None

    def read(self, axis: float, loaded_since: float | None) -> None:
        """Add what was reported since the last call. `axis`: its start on the clock of the client;
        `loaded_since`: begin of the bulk flow on the axis, None: there is none yet."""
        client = self._client
        if client.run_start is None:
            return
        self._points.place(axis - client.run_start)
        for _, interval in client.intervals[self._read :]:
            if isinstance(interval, TransactionInterval):
                self._points.add(transaction_point(self._time(interval), interval))
                self._count(interval)
        self._read = len(client.intervals)
        if self._loaded_since is None and loaded_since is not None:
            self._begin_phase(loaded_since)

    def _begin_phase(self, loaded_since: float) -> None:
        self._loaded_since, self._phase = loaded_since, _Phase()
        for _, interval in self._client.intervals:
            if isinstance(interval, TransactionInterval):
                self._count(interval)

    def _time(self, interval: TransactionInterval) -> float:
        """Its end on the axis."""
        return run_time(self._client, interval) - self._points.origin

    def _count(self, interval: TransactionInterval) -> None:
        """If it is a measured one of the current phase."""
        since = self._loaded_since
        began = self._time(interval) - interval.seconds
        if interval.omitted or (since is not None and began < since - PLACE_SECONDS):
            return
        self._phase.add(interval)

    def figures(self) -> TransactionFigures | None:
        """Those of the current phase, with all points; None: there are none."""
        points, phase = self._points.all, self._phase
        if not points:
            return None
        return TransactionFigures(phase.seconds, phase.latency, lost=phase.lost, points=points)
