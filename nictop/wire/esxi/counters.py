"""Rates of ``net-stats`` → `Counters`, as of a Linux host.

Reads nothing. ESXi reports rates over an interval; each is added to a counter for the whole time
since the reading before, so that the rates between two records are those of ESXi. Counters of a
vmnic begin with its own values at the first inventory (``esxcli network nic stats get``), all
others with 0: their totals count since nictop is connected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.probe.records import VCPU_WAITS, Counters, Unreadable
from nictop.wire.esxi.outputs import Fields, NetStats, Port, integer_of

CLOCK_TICKS = 10_000
"""Ticks per second of the counted times: a percentage with two decimal places of a second is a
whole number."""
NO_CPU = -1
"""CPU of a thread in `Counters.threads`: ESXi does not report where it ran."""

MIN_LINK_COUNTERS = 4
"""The first ones of a link: its packets and bytes."""
Key = tuple[object, ...]
"""What is counted."""

NIC_STATISTICS = (
    "packetsreceived", "packetssent", "bytesreceived", "bytessent", "totalreceiveerrors",
    "totaltransmiterrors", "receivepacketsdropped", "transmitpacketsdropped",
    "multicastpacketsreceived",
)  # fmt: skip
"""Fields of ``esxcli network nic stats get``, in the order of `LINK_COUNTERS`."""
VF_STATISTICS = (
    ("rxunicastpkt", "rxmulticastpkt", "rxbroadcastpkt"),
    ("txunicastpkt", "txmulticastpkt", "txbroadcastpkt"),
    ("rxunicastbytes", "rxmulticastbytes", "rxbroadcastbytes"),
    ("txunicastbytes", "txmulticastbytes", "txbroadcastbytes"),
    ("rxbroadcastpkt",),
    ("rxmulticastpkt",),
    ("rxoutofbufferdrops", "rxerrordrops"),
    ("txdiscards",),
)
"""Fields of ``esxcli network sriovnic vf stats`` whose sums are the `VF_COUNTERS`, with ``pkt`` for
packets: ESXi 8.0 has ``RxUnicastPkt`` beside ``RxMulticastPkts``."""


def nic_counters(statistics: Fields) -> tuple[int, ...] | None:
    """`LINK_COUNTERS` up to the first one that is not reported; None: without packets or bytes."""
    found = []
    for name in NIC_STATISTICS:
        number = integer_of(statistics.get(name))
        if number is None:
            break
        found.append(number)
    return tuple(found) if len(found) >= MIN_LINK_COUNTERS else None


def vf_counters(statistics: Fields) -> tuple[int, ...] | None:
    """`VF_COUNTERS`; None if one is not reported."""
    known = {
        name.replace("packets", "pkt").replace("pkts", "pkt"): integer_of(value)
        for name, value in statistics.items()
    }
    found = []
    for names in VF_STATISTICS:
        total = 0
        for name in names:
            number = known.get(name)
            if number is None:
                return None
            total += number
        found.append(total)
    return tuple(found)


class Accumulated:
    """Counters of one host, from the first reading on. A rate that is not known ends its counter:
    without a value in one record there is no rate."""

    def __init__(self) -> None:
        self._time: float | None = None
        self._bases: dict[str, tuple[int, ...]] = {}
        self._events: dict[int, tuple[str, ...]] = {}
        """Port → events of the last inventory: their order there is that of the counters."""
        self._values: dict[Key, list[float]] = {}

    def begin_with(self, name: str, counters: Sequence[int]) -> None:
        """The values of a vmnic now; only the first ones count."""
        self._bases.setdefault(name, tuple(counters))

    def order_events_as(self, inventory: NetStats) -> None:
        """From now on the events of each port are counted in the order of the inventory made from
        that reading."""
        self._events = {port.number: port.known_events() for port in inventory.ports}

    def counters(
        self,
        time: float,
        reading: NetStats,
        ifindexes: Mapping[int, int],
        vfs: dict[int, dict[int, tuple[int, ...]]],
    ) -> Counters:
        """The record of a reading that ended at `time` (seconds, CLOCK_MONOTONIC of this machine).
        `ifindexes`: port → ifindex; `vfs`: as in `Counters`."""
        elapsed = 0.0
        if self._time is not None:
            elapsed = max(0.0, time - self._time)
        self._time = time
        added = _Additions(self._values, elapsed)
        links, driver = self._port_counters(added, reading, ifindexes)
        threads, waits = _world_counters(added, reading)
        cpus = {
            number: added.add(("cpu", number), [user, 0.0, system, idle])
            for number, (user, system, idle) in enumerate(map(_cpu_shares, reading.cpus))
        }
        for key in self._values.keys() - added.keys:  # what comes back begins anew
            del self._values[key]
        unreadable = {}
        if reading.cpu_problem:
            unreadable["cpus"] = Unreadable("failed", reading.cpu_problem)
        return Counters(
            time=time,
            links=links,
            cpus=cpus,
            driver=driver,
            threads=threads,
            waits=waits,
            vfs=vfs,
            unreadable=unreadable,
        )

    def _port_counters(
        self, added: _Additions, reading: NetStats, ifindexes: Mapping[int, int]
    ) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        """ifindex → counters of the link, and those of its events."""
        links: dict[int, tuple[int, ...]] = {}
        driver: dict[int, tuple[int, ...]] = {}
        for port in reading.ports:
            ifindex = ifindexes.get(port.number)
            if ifindex is None:
                continue
            start = self._bases.get(port.name, ())
            counted = added.add(("link", port.number), _link_rates(port), start)
            if len(counted) >= MIN_LINK_COUNTERS:
                links[ifindex] = counted
            events = self._events.get(port.number)
            if events:
                rates = [port.events.get(name) for name in events]
                driver[ifindex] = added.add(("driver", port.number, *events), rates)
        return links, driver


class _Additions:
    """What one reading adds to the counters `values`."""

    def __init__(self, values: dict[Key, list[float]], elapsed: float) -> None:
        self._values, self._elapsed = values, elapsed
        self.keys: set[Key] = set()
        """Those that were added to."""

    def add(
        self, key: Key, rates: Sequence[float | None], start: Sequence[int] = ()
    ) -> tuple[int, ...]:
        """The counters after `elapsed` seconds at these rates, up to the first rate that is not
        known."""
        known: list[float] = []
        for rate in rates:
            if rate is None:
                break
            known.append(rate)
        before = self._values.get(key)
        if before is None or len(before) < len(known):
            before = [*map(float, start), *[0.0] * len(known)]
        values = [value + rate * self._elapsed for value, rate in zip(before, known, strict=False)]
        self._values[key] = values
        self.keys.add(key)
        return tuple(map(round, values))


def _world_counters(
    added: _Additions, reading: NetStats
) -> tuple[dict[int, tuple[int, int, int]], dict[int, tuple[int, ...]]]:
    """World → its CPU time, and how long it waited for a CPU."""
    threads: dict[int, tuple[int, int, int]] = {}
    waits: dict[int, tuple[int, ...]] = {}
    for world in reading.worlds.values():
        used = added.add(("world", world.number), [_ticks(world.used)])
        if used:
            threads[world.number] = (used[0], 0, NO_CPU)
        if world.machine is not None:
            rates = [_ticks(world.ready), _ticks(world.costop)]
            waited = added.add(("wait", world.number), rates)
            if len(waited) == len(VCPU_WAITS):
                waits[world.number] = waited
    return threads, waits


def _link_rates(port: Port) -> list[float | None]:
    """Rates of `LINK_COUNTERS`, per second."""
    received, sent = port.received, port.sent
    both = (received.packets, sent.packets, received.bits, sent.bits, received.errors, sent.errors)
    rates = [*both, received.drops, sent.drops]
    for position in (2, 3):
        bits = rates[position]
        rates[position] = None if bits is None else bits / 8
    return rates


def _ticks(share: float | None) -> float | None:
    return None if share is None else share * CLOCK_TICKS


def _cpu_shares(cpu: tuple[float, float]) -> tuple[float, float, float]:
    """(other time, system services, idle) of a pCPU in ticks per second. A pCPU with a faster clock
    than nominal uses more than its time."""
    used, system = min(1.0, cpu[0]), min(1.0, cpu[0], cpu[1])
    return (used - system) * CLOCK_TICKS, system * CLOCK_TICKS, (1.0 - used) * CLOCK_TICKS
