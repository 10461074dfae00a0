"""View of one host of a run: its CPU time, the counters of its chosen NIC, and the queue and CPUs that carry it.

Reads nothing. `HostWatch` computes the series during the run, second by second; `result_host_view` is the view
of a run that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.window import clock_ticks
from nictop.probe.records import Counters
from nictop.traffic.analysis.cpu_load import MIN_CPU_WINDOW_SECONDS, Busy, HostLoad, HostRole, busy_series
from nictop.traffic.analysis.nic_load import (
    CarryingQueue,
    Packets,
    QueueShare,
    carrying_queue,
    chosen_queues,
    packets_between,
    queue_shares,
    snapshot_between,
)
from nictop.traffic.live.flow_view import SampleBuffer

if TYPE_CHECKING:
    from nictop.traffic.run.host import RunHost


MIN_SHIFT_SECONDS = 0.01
"""If the axis or the clock of the host changes by more, existing samples are moved."""


@dataclass(frozen=True, eq=False)
class HostLoadView:
    """One host. All series are in order of time."""

    role: HostRole
    host: str
    nic: str = ""
    """Name of the chosen NIC, without control characters; "" if none was chosen or it is not known."""
    series: tuple[Busy, ...] = ()
    """Windows of a second or more."""
    packets: tuple[Packets, ...] = ()
    carrying: tuple[CarryingQueue, ...] = ()
    load: HostLoad | None = None
    """Of the measured seconds, once the run has ended."""
    queues: tuple[QueueShare, ...] = ()
    """All queues of the NIC in the last window with packets; (): not counted, or a stored result, which has the busiest
    one only (`carrying`)."""
    is_of_run: bool = True
    """The newest window lies in the run; else it began before the first byte, or there is none yet."""


class HostWatch:
    """Computes the series of one host during the run. A window ends with the first counter record that is a
    second later than the one at its start."""

    def __init__(self, host: RunHost, role: HostRole, ifindex: int | None) -> None:
        self.host, self.role, self._ifindex = host, role, ifindex
        self._opened: Counters | None = None
        self._offset: float | None = None
        """From the axis of the run to the clock of the host, as used for all series."""
        self._series = SampleBuffer[Busy]()
        self._packets = SampleBuffer[Packets]()
        self._carrying = SampleBuffer[CarryingQueue]()
        self._queues: tuple[QueueShare, ...] = ()
        self._is_of_run = False

    def advance(self, axis: float, begin: float) -> None:
        """Add the records since the last call. `axis`: start of the axis, seconds of this machine's CLOCK_MONOTONIC;
        `begin`: time of the first byte on the axis."""
        offset = self.host.offset.seconds + axis
        if self._offset is not None and abs(offset - self._offset) > MIN_SHIFT_SECONDS:
            for series_buffer in (self._series, self._packets, self._carrying):
                series_buffer.shift(self._offset - offset)
            self._offset = offset
        offset = self._offset = offset if self._offset is None else self._offset
        for record in self._new_records():
            opened = self._opened
            if opened is None or record.time < opened.time:  # the first one, or the host was rebooted
                self._opened = record
            elif record.time - opened.time >= MIN_CPU_WINDOW_SECONDS:
                self._is_of_run = opened.time - offset >= begin - MIN_SHIFT_SECONDS
                self._close(opened, record, offset)
                self._opened = record

    def _new_records(self) -> list[Counters]:
        found: list[Counters] = []
        for record in reversed(self.host.records):
            if record is self._opened:
                break
            found.append(record)
            if self._opened is not None and record.time <= self._opened.time:
                break
        return found[::-1]

    def _close(self, opened: Counters, record: Counters, offset: float) -> None:
        snapshot = self.host.snapshot
        for busy in busy_series((opened, record), offset, clock_ticks(snapshot)):
            self._series.add(busy)
        time = record.time - offset
        packets = packets_between(opened, record, self._ifindex, time)
        if packets is not None:
            self._packets.add(packets)
        window = snapshot_between(snapshot, opened, record)
        queues = chosen_queues(window, self._ifindex)
        self._carrying.add(carrying_queue(window, queues, time))
        self._queues = (queue_shares(queues) or self._queues) if self._is_of_run else ()

    def view(self, final: HostLoadView | None = None) -> HostLoadView:
        """The current view. `final`: view of the same host in the result, whose series are the final ones."""
        return HostLoadView(
            self.role,
            self.host.name,
            link_name(self.host.snapshot, self._ifindex),
            (final.series if final is not None else ()) or self._series.all,
            (final.packets if final is not None else ()) or self._packets.all,
            (final.carrying if final is not None else ()) or self._carrying.all,
            final.load if final is not None else None,
            self._queues,
            self._is_of_run,
        )


def result_host_view(load: HostLoad, nic: str = "") -> HostLoadView:
    """The view of a host of a run that has ended."""
    return HostLoadView(load.role, load.host, clean(nic), load.series, load.packets, load.carrying, load)


def link_name(snapshot: Snapshot, ifindex: int | None) -> str:
    """Name without control characters; "" if the link is not known."""
    link = snapshot.links.get(ifindex or 0)
    return clean(link.name) if link is not None else ""
