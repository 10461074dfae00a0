"""One host of a run as it is drawn: where its CPU time goes, what its chosen NIC counts, which queue and CPU carry it.

Reads nothing. `HostWatch` follows a host while the run goes on, second by second; `host_picture` takes a run that is
over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Counters
from nictop.traffic.analysis.cpu_load import SHORTEST_WINDOW, Busy, HostLoad, HostRole, series
from nictop.traffic.analysis.nic_load import Carrying, Packets, between, carrying, clock_ticks, packets_between
from nictop.traffic.live.flow_view import SampleBuffer

if TYPE_CHECKING:
    from nictop.traffic.run.host import RunHost


SLIPPED = 0.01
"""Seconds by which the axis, or the host's clock, is found to lie elsewhere before what was drawn moves."""


@dataclass(frozen=True, eq=False)
class HostLoadView:
    """One host. All series are by time."""

    role: HostRole
    host: str
    nic: str = ""
    """Name of the chosen NIC, clean; "": none was chosen, or its name is not known."""
    series: tuple[Busy, ...] = ()
    """Over windows of a second or more."""
    packets: tuple[Packets, ...] = ()
    carrying: tuple[Carrying, ...] = ()
    load: HostLoad | None = None
    """Over what counts, once the run is over."""


class HostWatch:
    """Makes the series of one host while the run goes on. A window is closed when a counter record comes that is a
    second younger than the one that opened it."""

    def __init__(self, host: RunHost, role: HostRole, ifindex: int | None) -> None:
        self.host, self.role, self._ifindex = host, role, ifindex
        self._opened: Counters | None = None
        self._offset: float | None = None
        """From the axis of the run to the host's clock, as all series have it."""
        self._series = SampleBuffer[Busy]()
        self._packets = SampleBuffer[Packets]()
        self._carrying = SampleBuffer[Carrying]()

    def advance(self, axis: float) -> None:
        """Take the records that came since the last time. `axis`: where it begins, seconds of this machine's
        CLOCK_MONOTONIC."""
        offset = self.host.offset.seconds + axis
        if self._offset is not None and abs(offset - self._offset) > SLIPPED:
            for gathered in (self._series, self._packets, self._carrying):
                gathered.shift(self._offset - offset)
            self._offset = offset
        offset = self._offset = offset if self._offset is None else self._offset
        for record in self._new_records():
            opened = self._opened
            if opened is None or record.time < opened.time:  # the first one, or the host was booted meanwhile
                self._opened = record
            elif record.time - opened.time >= SHORTEST_WINDOW:
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
        for busy in series((opened, record), offset, clock_ticks(snapshot)):
            self._series.add(busy)
        time = record.time - offset
        packets = packets_between(opened, record, self._ifindex, time)
        if packets is not None:
            self._packets.add(packets)
        self._carrying.add(carrying(between(snapshot, opened, record), self._ifindex, time))

    def picture(self, over: HostLoadView | None = None) -> HostLoadView:
        """As it stands; `over`: the same host of the result, whose own series are the final ones."""
        return HostLoadView(
            self.role,
            self.host.name,
            link_name(self.host.snapshot, self._ifindex),
            (over.series if over is not None else ()) or self._series.all,
            (over.packets if over is not None else ()) or self._packets.all,
            (over.carrying if over is not None else ()) or self._carrying.all,
            over.load if over is not None else None,
        )


def host_picture(load: HostLoad, nic: str = "") -> HostLoadView:
    """A host of a run that is over."""
    return HostLoadView(load.role, load.host, clean(nic), load.series, load.packets, load.carrying, load)


def link_name(snapshot: Snapshot, ifindex: int | None) -> str:
    """Clean; "" for one that is not known."""
    link = snapshot.links.get(ifindex or 0)
    return clean(link.name) if link is not None else ""
