"""One host of a run as it is drawn: where its CPU time goes, what its chosen NIC counts, which queue and CPU carry it.

Reads nothing. `HostWatch` follows a host while the run goes on, second by second; `host_picture` takes a run that is
over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nictop.model.queue_map import queue_map
from nictop.model.snapshot import Snapshot
from nictop.model.spenders import spenders
from nictop.model.wording.text import clean
from nictop.probe.records import LINK_COUNTERS, Counters
from nictop.traffic.flow_picture import Gathered
from nictop.traffic.load import SHORTEST_WINDOW, Busy, HostLoad, HostRole, series

if TYPE_CHECKING:
    from nictop.traffic.host import RunHost

_RECEIVED, _SENT = LINK_COUNTERS.index("rx_packets"), LINK_COUNTERS.index("tx_packets")
_DROPPED = tuple(LINK_COUNTERS.index(name) for name in ("rx_missed_errors", "rx_dropped"))


@dataclass(frozen=True)
class Packets:
    """What the chosen NIC counted in one window. None: it was reset, or nobody counts it."""

    time: float
    """The end of the window, on the axis of the run."""
    seconds: float
    received: float | None = None
    """Packets per second."""
    sent: float | None = None
    dropped: int | None = None
    """Packets in this window that it had no descriptor for, or dropped."""


@dataclass(frozen=True)
class Carrying:
    """What carried the packets of one window."""

    time: float
    """The end of the window, on the axis of the run."""
    queue: int | None = None
    """The busiest one of the chosen NIC."""
    share: float | None = None
    """Of all its packets: share of 1."""
    queues: int = 0
    """How many it has."""
    cpus: tuple[int, ...] = ()
    """CPUs that took the interrupts of that queue, the busiest first."""
    vhost: float | None = None
    """Cores that the vhost threads of this host used; None: it has none."""


@dataclass(frozen=True, eq=False)
class HostPicture:
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
        self._series = Gathered[Busy]()
        self._packets = Gathered[Packets]()
        self._carrying = Gathered[Carrying]()

    def advance(self, axis: float) -> None:
        """Take the records that came since the last time. `axis`: where it begins, seconds of this machine's
        CLOCK_MONOTONIC."""
        offset = self.host.offset.seconds + axis
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
        ticks = snapshot.hello.clock_ticks if snapshot.hello is not None else 100
        for busy in series((opened, record), offset, ticks):
            self._series.add(busy)
        time = record.time - offset
        packets = packets_between(opened, record, self._ifindex, time)
        if packets is not None:
            self._packets.add(packets)
        self._carrying.add(carrying(snapshot, self._ifindex, time))

    def picture(self, over: HostPicture | None = None) -> HostPicture:
        """As it stands; `over`: the same host of the result, whose own series is the final one."""
        return HostPicture(
            self.role,
            self.host.name,
            link_name(self.host.snapshot, self._ifindex),
            (over.series if over is not None else ()) or self._series.all,
            self._packets.all,
            self._carrying.all,
            over.load if over is not None else None,
        )


def host_picture(load: HostLoad, nic: str = "") -> HostPicture:
    """A host of a run that is over."""
    return HostPicture(load.role, load.host, clean(nic), load.series, load=load)


def packets_between(before: Counters, after: Counters, ifindex: int | None, time: float) -> Packets | None:
    """What a NIC counted between two records; None: it is in only one of them."""
    old, new = before.links.get(ifindex or 0), after.links.get(ifindex or 0)
    seconds = after.time - before.time
    if old is None or new is None or seconds <= 0:
        return None
    steps = [new[index] - old[index] for index in _DROPPED if index < min(len(old), len(new))]
    return Packets(
        time,
        seconds,
        _rate(old, new, _RECEIVED, seconds),
        _rate(old, new, _SENT, seconds),
        max((step for step in steps if step >= 0), default=None),
    )


def _rate(old: tuple[int, ...], new: tuple[int, ...], index: int, seconds: float) -> float | None:
    step = new[index] - old[index] if index < min(len(old), len(new)) else -1
    return step / seconds if step >= 0 else None


def carrying(snapshot: Snapshot, ifindex: int | None, time: float) -> Carrying:
    """By the last two counter records of a host."""
    shares = [one.vhost if one.kind == "machine" else one.total for one in spenders(snapshot) if _has_vhost(one.kind)]
    known = [share for share in shares if share is not None]
    vhost = sum(known) if known else None
    link = snapshot.links.get(ifindex or 0)
    if link is None:
        return Carrying(time, vhost=vhost)
    plan = queue_map(link, snapshot)
    row = next((one for one in plan.rows if one.queue == plan.busiest), None) if plan.busiest is not None else None
    used = sum(one.in_use for one in plan.rows)
    if row is None:
        return Carrying(time, queues=used, vhost=vhost)
    return Carrying(time, plan.busiest, plan.busiest_share, used, row.busy_cpus or (row.effective or ()), vhost)


def _has_vhost(kind: str) -> bool:
    return kind in ("machine", "vhost")


def link_name(snapshot: Snapshot, ifindex: int | None) -> str:
    """Clean; "" for one that is not known."""
    link = snapshot.links.get(ifindex or 0)
    return clean(link.name) if link is not None else ""
