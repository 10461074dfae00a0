"""What the NIC of one host receives or sends so far, as a direction of a run.

Reads nothing; takes the counter records of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nictop.probe.records import Counters
from nictop.traffic.analysis.nic_rates import (
    MIN_NIC_INTERVAL,
    counted_nic,
    nic_flow,
    nic_points,
)
from nictop.traffic.live.flow_so_far import FlowNow
from nictop.traffic.live.series import Series
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Flow, IntervalPoint

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost


class NicFlowSoFar:
    """One direction of a NIC. Each counter record is read once."""

    def __init__(self, host: RunHost, plan: RunPlan, *, sends: bool) -> None:
        self._host, self._plan, self._sends = host, plan, sends
        self._series = Series[IntervalPoint]()
        self._last: Counters | None = None

    def read(self, axes: Mapping[str, float]) -> None:
        """See `FlowSoFar.read`."""
        axis = axes[self._host.name]
        self._series.place(axis)
        new: list[Counters] = []
        for record in reversed(self._host.records):
            if record is self._last or (self._last is not None and record.time < self._last.time):
                break
            new.append(record)
        if self._last is not None:
            new.append(self._last)
        begin = self._series.origin - MIN_NIC_INTERVAL
        records = [record for record in reversed(new) if record.time >= begin]
        nic = counted_nic(self._plan, self._host.snapshot)
        for point in nic_points(records, nic, self._series.origin, sends=self._sends):
            self._series.add(point)
            self._last = self._record_at(records, point.time)

    def _record_at(self, records: Sequence[Counters], time: float) -> Counters | None:
        """The record that ends at a time of the axis."""
        for record in records:
            if record.time - self._series.origin >= time:
                return record
        return None

    def flow(self) -> Flow:
        return nic_flow(self._host.name, self._series.all, sends=self._sends)

    def now(self) -> FlowNow:
        return FlowNow()
