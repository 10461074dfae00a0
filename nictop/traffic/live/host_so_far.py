"""One host of a run so far, second by second: its CPU time, the counters of its chosen NIC, and the
queue and CPUs that carry it.

Reads nothing; takes the counter records of the host, as the result does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Counters
from nictop.traffic.analysis.cpu_load import MIN_CPU_WINDOW_SECONDS, Windows, load_between
from nictop.traffic.analysis.nic_load import QueueShare, queue_shares
from nictop.traffic.live.series import PLACE_SECONDS, Series
from nictop.traffic.results.host_load import Busy, CarryingQueue, HostLoad, HostRole, Packets

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost


@dataclass(frozen=True)
class LiveHostFigures:
    """What a result does not have of one host."""

    queues: tuple[QueueShare, ...] = ()
    """All queues of its NIC in the last window of the run; (): without packets, not counted, or a
    saved result, which has the busiest one only (`HostLoad.carrying`)."""
    is_of_run: bool = True
    """Its newest window lies in the run; else it began before the first byte, or there is none
    yet."""


class HostSoFar:
    """One host. Each of its records is read once."""

    def __init__(self, host: RunHost, role: HostRole, ifindex: int | None) -> None:
        self._host, self._role, self._ifindex = host, role, ifindex
        self._windows = Windows()
        self._series = Series[Busy]()
        self._packets = Series[Packets]()
        self._carrying = Series[CarryingQueue]()
        self._queues: tuple[QueueShare, ...] = ()
        self._is_of_run = False

    def read(self, axis: float, begin: float, end: float) -> None:
        """Add the records since the last call. `axis`: its start on the clock of the host; `begin`,
        `end`: times of the first byte and of the planned end on the axis."""
        for series in (self._series, self._packets, self._carrying):
            series.place(axis)
        for record in self._new_records():
            opened = self._windows.close(record)
            if opened is not None:
                began = opened.time - self._series.origin
                self._is_of_run = began >= begin - PLACE_SECONDS
                ended = record.time - self._series.origin
                self._add(opened, record, has_ended=ended > end + MIN_CPU_WINDOW_SECONDS / 2)

    def _new_records(self) -> list[Counters]:
        """Since the one at which the newest window begins; of a long run that may not be kept."""
        newest = self._windows.opened
        records: list[Counters] = []
        for record in reversed(self._host.records):
            if record is newest or (records and _is_older(record, newest, records[-1])):
                break
            records.append(record)
        return records[::-1]

    def _add(self, opened: Counters, record: Counters, *, has_ended: bool) -> None:
        """`has_ended`: half of the window or more is not of the run: what its queues carry is
        something else."""
        origin = self._series.origin
        load = load_between(self._host.snapshot, opened, record, self._ifindex, origin)
        if load.busy is not None:
            self._series.add(load.busy)
        if load.packets is not None:
            self._packets.add(load.packets)
        self._carrying.add(load.carrying)
        if not self._is_of_run:
            self._queues = ()
            return
        if not has_ended:
            self._queues = queue_shares(load.queues)

    def load(self) -> HostLoad:
        return HostLoad(
            self._host.name,
            self._role,
            None,
            self._series.all,
            packets=self._packets.all,
            carrying=self._carrying.all,
        )

    def now(self) -> LiveHostFigures:
        return LiveHostFigures(self._queues, self._is_of_run)


def _is_older(record: Counters, newest: Counters | None, later: Counters) -> bool:
    """It was received before `newest`, which was read. `later`: the record after it, which is
    new."""
    is_before_reboot = record.time > later.time
    if newest is None or is_before_reboot:
        return is_before_reboot
    return record.time <= newest.time < later.time
