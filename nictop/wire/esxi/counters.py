"""Rates of ``net-stats`` → `Counters`, as of a Linux host.

Reads nothing. ESXi reports rates over an interval; each is added to a counter for the whole time since the reading
before, so that the rates between two records are those of ESXi. Counters of a vmnic begin with its own values at the
first inventory (``esxcli network nic stats get``), all others with 0: their totals count since nictop is connected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.probe.records import VCPU_WAITS, Counters, Unreadable
from nictop.wire.esxi.outputs import Fields, Port, Reading, integer_of

CLOCK_TICKS = 10_000
"""Ticks per second of the counted times: a percentage with two decimal places of a second is a whole number."""
NO_CPU = -1
"""CPU of a thread in `Counters.threads`: ESXi does not report where it ran."""

NIC_STATISTICS = (
    "packetsreceived", "packetssent", "bytesreceived", "bytessent", "totalreceiveerrors", "totaltransmiterrors",
    "receivepacketsdropped", "transmitpacketsdropped", "multicastpacketsreceived",
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
"""Fields of ``esxcli network sriovnic vf stats`` whose sums are the `VF_COUNTERS`, with ``pkt`` for packets: ESXi 8.0
has ``RxUnicastPkt`` beside ``RxMulticastPkts``."""


def nic_counters(statistics: Fields) -> tuple[int, ...] | None:
    """`LINK_COUNTERS` up to the first one that is not reported; None: without packets or bytes."""
    found = []
    for name in NIC_STATISTICS:
        number = integer_of(statistics.get(name))
        if number is None:
            break
        found.append(number)
    return tuple(found) if len(found) >= 4 else None


def vf_counters(statistics: Fields) -> tuple[int, ...] | None:
    """`VF_COUNTERS`; None if one is not reported."""
    known = {
        name.replace("packets", "pkt").replace("pkts", "pkt"): integer_of(value) for name, value in statistics.items()
    }
    found = [[known.get(name) for name in names] for names in VF_STATISTICS]
    if any(part is None for parts in found for part in parts):
        return None
    return tuple(sum(part for part in parts if part is not None) for parts in found)


class Accumulated:
    """Counters of one host, from the first reading on. A rate that is not known ends its counter: without a value in
    one record there is no rate."""

    def __init__(self) -> None:
        self._time: float | None = None
        self._bases: dict[str, tuple[int, ...]] = {}
        self._events: dict[int, tuple[str, ...]] = {}
        """Port → events of the last inventory: their order there is that of the counters."""
        self._values: dict[tuple[object, ...], list[float]] = {}

    def begin_with(self, name: str, counters: Sequence[int]) -> None:
        """The values of a vmnic now; only the first ones count."""
        self._bases.setdefault(name, tuple(counters))

    def order_events_as(self, inventory: Reading) -> None:
        """From now on the events of each port are counted in the order of the inventory made from that reading."""
        self._events = {port.number: port.known_events() for port in inventory.ports}

    def counters(
        self,
        time: float,
        reading: Reading,
        ifindexes: Mapping[int, int],
        vfs: dict[int, dict[int, tuple[int, ...]]],
    ) -> Counters:
        """The record of a reading that ended at `time` (seconds, CLOCK_MONOTONIC of this machine). `ifindexes`: port
        → ifindex; `vfs`: as in `Counters`."""
        elapsed = max(0.0, time - self._time) if self._time is not None else 0.0
        self._time = time
        links: dict[int, tuple[int, ...]] = {}
        driver: dict[int, tuple[int, ...]] = {}
        threads: dict[int, tuple[int, int, int]] = {}
        waits: dict[int, tuple[int, ...]] = {}
        seen: set[tuple[object, ...]] = set()

        def add(key: tuple[object, ...], rates: Sequence[float | None], start: Sequence[int] = ()) -> tuple[int, ...]:
            """The counters after `elapsed` seconds at these rates, up to the first rate that is not known."""
            known = list(rates[: rates.index(None)] if None in rates else rates)
            values = self._values.get(key)
            if values is None or len(values) < len(known):
                values = [float(one) for one in (*start, *[0] * len(known))[: len(known)]]
            values = [value + (rate or 0.0) * elapsed for value, rate in zip(values, known, strict=False)]
            self._values[key] = values
            seen.add(key)
            return tuple(map(round, values))

        for port in reading.ports:
            ifindex = ifindexes.get(port.number)
            if ifindex is None:
                continue
            counted = add(("link", port.number), _link_rates(port), self._bases.get(port.name, ()))
            if len(counted) >= 4:
                links[ifindex] = counted
            events = self._events.get(port.number)
            if events:
                driver[ifindex] = add(("driver", port.number, *events), [port.events.get(name) for name in events])
        for world in reading.worlds.values():
            used = add(("world", world.number), [_ticks(world.used)])
            if used:
                threads[world.number] = (used[0], 0, NO_CPU)
            if world.machine is not None:
                waited = add(("wait", world.number), [_ticks(world.ready), _ticks(world.costop)])
                if len(waited) == len(VCPU_WAITS):
                    waits[world.number] = waited
        cpus = {
            number: add(("cpu", number), [user, 0.0, system, idle])
            for number, (user, system, idle) in enumerate(map(_cpu_shares, reading.cpus))
        }
        for key in self._values.keys() - seen:  # what comes back begins anew
            del self._values[key]
        return Counters(
            time=time,
            links=links,
            cpus=cpus,
            driver=driver,
            threads=threads,
            waits=waits,
            vfs=vfs,
            unreadable={"cpus": Unreadable("failed", reading.cpu_problem)} if reading.cpu_problem else {},
        )


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
    """(other time, system services, idle) of a pCPU in ticks per second. A pCPU with a faster clock than nominal uses
    more than its time."""
    used, system = min(1.0, cpu[0]), min(1.0, cpu[0], cpu[1])
    return (used - system) * CLOCK_TICKS, system * CLOCK_TICKS, (1.0 - used) * CLOCK_TICKS
