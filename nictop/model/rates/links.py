"""Rates per second and CPU shares from two counter records.

Reads nothing. A counter that decreased was reset (driver reload, ``ethtool -L``) and has no rate
this time: ``None``, never a spike. A counter of 32 or 64 bits that wrapped around has a rate if the
packet and byte counters of the same direction are consistent with that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Literal, TypeVar

from nictop.model.rates.cpus import CpuShares, all_cpu_shares
from nictop.model.rates.load import (
    ChannelRates,
    MachineInterruptRate,
    SoftirqRates,
    SoftnetRates,
    ThreadShare,
    channel_rates,
    interrupt_rates,
    machine_rates,
    softirq_rates,
    softnet_rates,
    thread_shares,
)
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import (
    LINK_COUNTERS,
    PORT_COUNTERS,
    QUEUE_COUNTERS,
    VF_COUNTERS,
    Counters,
    PortCounts,
)

__all__ = [
    "CpuShares",
    "LinkRates",
    "PortRates",
    "QueueRates",
    "Rates",
    "VfRates",
    "port_rates",
    "rates",
    "sum_known",
    "vf_rates",
]

Number = TypeVar("Number", int, float)

COUNTER_RANGES = (1 << 32, 1 << 64)
"""Sizes of drivers' counters. The width is not known: a counter that was in the last quarter and is
now in the first may have wrapped."""

MAX_COUNTER_STEP = 1 << 62
"""A larger step is a small step backwards in unsigned arithmetic."""

MIN_ELAPSED_SECONDS = 0.001
"""Seconds; reading the counters takes part of that, so that shorter intervals give no meaningful
rate."""

MIN_PACKET_BYTES = 14
MAX_PACKET_BYTES = 1 << 19
"""Bytes that one counted packet can have: an Ethernet header only; a segmented packet of BIG
TCP."""

MAX_EVENT_WRAP = 1 << 26
"""Largest step of an error or drop counter that is accepted as a wrap; a larger one is a reset."""


@dataclass(frozen=True, eq=False)
class LinkRates:
    """One netdev, all per second. None: this counter was reset, or the kernel is too old to have
    it."""

    rx_bits: float | None
    """Bits per second: rx_bytes, with headers, without preamble and FCS."""
    tx_bits: float | None
    rx_packets: float | None
    tx_packets: float | None
    rx_errors: float | None
    tx_errors: float | None
    rx_dropped: float | None
    tx_dropped: float | None
    rx_missed: float | None
    """rx_missed_errors: the device had no descriptor for the packet."""


@dataclass(frozen=True, eq=False)
class QueueRates:
    """One queue of a netdev, per second. None: reset, or the driver does not count it."""

    direction: Literal["rx", "tx"]
    queue: int
    packets: float | None
    bits: float | None
    drops: float | None


@dataclass(frozen=True, eq=False)
class VfRates:
    """One virtual function as counted by its physical function, per second; rx is what the VF
    received."""

    rx_bits: float | None
    tx_bits: float | None
    rx_packets: float | None
    tx_packets: float | None
    rx_dropped: float | None
    tx_dropped: float | None


@dataclass(frozen=True, eq=False)
class PortRates:
    """The port of a NIC, with all functions that share it, per second. None: reset, or not
    counted."""

    source: str
    """``eth-mac``, or the driver whose own counters these are (`PortCounts.source`)."""
    rx_bits: float | None
    tx_bits: float | None
    rx_packets: float | None
    tx_packets: float | None
    errors: dict[str, float] = field(default_factory=dict)
    """`PORT_ERRORS` of both records."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates between two counter records. What is only in one of them (a new link, an offline CPU)
    is absent."""

    elapsed: float
    """Seconds between the two records."""
    links: dict[int, LinkRates]
    """By ifindex."""
    cpus: dict[int, CpuShares]
    """By CPU id."""
    driver: dict[int, tuple[float | None, ...]]
    """ifindex → rates per second, in the order of `Ethtool.driver_counter_names`."""
    queues: dict[int, tuple[QueueRates, ...]]
    vfs: dict[int, dict[int, VfRates]]
    """ifindex of the physical function → VF number."""
    ports: dict[int, PortRates] = field(default_factory=dict)
    """ifindex of a physical function with VFs."""
    interrupts: dict[int, dict[int, float]] = field(default_factory=dict)
    """IRQ number → CPU id → interrupts per second; CPUs with none are left out."""
    softirqs: dict[int, SoftirqRates] = field(default_factory=dict)
    """By CPU id."""
    softnet: dict[int, SoftnetRates] = field(default_factory=dict)
    """By CPU id."""
    threads: dict[int, ThreadShare] = field(default_factory=dict)
    """By thread id."""
    channels: dict[int, dict[int, ChannelRates]] = field(default_factory=dict)
    """ifindex of a hv_netvsc link → vmbus channel id."""
    machine: tuple[MachineInterruptRate, ...] = ()
    """Every line of /proc/interrupts, only while requested."""
    reverse_path_drops: float | None = None
    """Packets that rp_filter dropped; None: not read (rp_filter is strict on no link)."""
    checksum_errors: float | None = None
    """Received UDP (IPv4) and TCP packets with a wrong checksum; None: not read (no vxlan or geneve
    link)."""

    @cached_property
    def overloaded_softnet(self) -> dict[int, SoftnetRates]:
        """Of the CPUs that dropped packets or left some for later: few of a large host."""
        return {
            cpu: softnet
            for cpu, softnet in self.softnet.items()
            if softnet.dropped or softnet.time_squeeze
        }


def rates(before: Counters, after: Counters, clock_ticks: int) -> Rates | None:
    """Rates between two records of the same boot; `clock_ticks` is USER_HZ. None when hardly any
    time has passed."""
    elapsed = after.time - before.time
    if not elapsed >= MIN_ELAPSED_SECONDS:
        return None
    links: dict[int, LinkRates] = {}
    driver: dict[int, tuple[float | None, ...]] = {}
    for ifindex, new in after.links.items():
        old = before.links.get(ifindex)
        if old is not None:
            links[ifindex] = _link_rates(old, new, elapsed)
    for ifindex, new in after.driver.items():
        old = before.driver.get(ifindex)
        if old is not None and len(old) == len(new):
            driver[ifindex] = tuple(
                [_per_second(_forward_step(a, b), elapsed) for a, b in zip(old, new, strict=True)]
            )
    return Rates(
        elapsed=elapsed,
        links=links,
        cpus=all_cpu_shares(before.cpus, after.cpus, elapsed * clock_ticks),
        driver=driver,
        queues={
            ifindex: _queue_rates(before.queues[ifindex], queues, elapsed)
            for ifindex, queues in after.queues.items()
            if ifindex in before.queues
        },
        vfs=vf_rates(before, after),
        ports=port_rates(before, after),
        interrupts=interrupt_rates(before, after, elapsed),
        softirqs=softirq_rates(before, after, elapsed),
        softnet=softnet_rates(before, after, elapsed),
        threads=thread_shares(before, after, elapsed, clock_ticks),
        channels=channel_rates(before, after, elapsed),
        machine=machine_rates(before, after, elapsed),
        reverse_path_drops=_stack_rate(before, after, "IPReversePathFilter", elapsed),
        checksum_errors=sum_known(
            _stack_rate(before, after, name, elapsed)
            for name in ("UdpInCsumErrors", "TcpInCsumErrors")
        ),
    )


def _stack_rate(before: Counters, after: Counters, name: str, elapsed: float) -> float | None:
    old, new = before.stack.get(name), after.stack.get(name)
    return None if old is None or new is None else _per_second(_forward_step(old, new), elapsed)


# -------------------------------------------------------------------------------------- one counter


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _per_second(delta: int | None, elapsed: float, factor: int = 1) -> float | None:
    return None if delta is None else delta * factor / elapsed


def _forward_step(old: int, new: int) -> int | None:
    """The step of a counter, or None when it decreased."""
    delta = new - old
    return delta if 0 <= delta < MAX_COUNTER_STEP else None


def _wrapped_step(old: int, new: int) -> int | None:
    """The step of a counter that decreased, if it was near the end of its range and is now near the
    beginning; else None."""
    for size in COUNTER_RANGES:
        if old < size:
            return size - old + new if old >= size - size // 4 and new < size // 4 else None
    return None


def _event_step(old: int, new: int) -> int | None:
    """The step of an error or drop counter, which no other counter can confirm, on a link that was
    not reset."""
    step = _forward_step(old, new)
    if step is None:
        step = _wrapped_step(old, new)
        if step is not None and step > MAX_EVENT_WRAP:
            return None
    return step


def _packets_and_bytes(
    old: Sequence[int], new: Sequence[int], packets: int, size: int
) -> tuple[int | None, int | None]:
    """Steps of the packet and byte counters at two indexes. A wrap of one is accepted only if the
    other one increased consistently. (None, None): both were reset."""
    packet_step, byte_step = (
        _forward_step(old[packets], new[packets]),
        _forward_step(old[size], new[size]),
    )
    if packet_step is not None and byte_step is not None:
        return packet_step, byte_step
    if packet_step is None and byte_step is None:
        return None, None
    if packet_step is None:
        packet_step = _wrapped_step(old[packets], new[packets])
    else:
        byte_step = _wrapped_step(old[size], new[size])
    if packet_step is None or byte_step is None:
        return None, None
    if packet_step * MIN_PACKET_BYTES <= byte_step <= packet_step * MAX_PACKET_BYTES:
        return packet_step, byte_step
    return None, None


# ------------------------------------------------------------------------------- links, VFs, queues

_RX_PACKETS, _TX_PACKETS, _RX_BYTES, _TX_BYTES = (
    LINK_COUNTERS.index(name) for name in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
)
_EVENT_INDEXES = tuple(
    LINK_COUNTERS.index(name)
    for name in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_missed_errors")
)
_events_of = itemgetter(*_EVENT_INDEXES)
_NO_EVENTS: list[float | None] = [0.0] * len(_EVENT_INDEXES)
_NO_RATES = LinkRates(None, None, None, None, None, None, None, None, None)


def _link_rates(old: tuple[int, ...], new: tuple[int, ...], elapsed: float) -> LinkRates:
    known = min(len(old), len(new))
    if known <= _TX_BYTES:
        return _NO_RATES
    rx_packets, rx_bytes = _packets_and_bytes(old, new, _RX_PACKETS, _RX_BYTES)
    tx_packets, tx_bytes = _packets_and_bytes(old, new, _TX_PACKETS, _TX_BYTES)
    if rx_packets is None or rx_bytes is None or tx_packets is None or tx_bytes is None:
        return _NO_RATES  # a reset affects all counters, also those above their old value
    if known >= len(LINK_COUNTERS) and _events_of(old) == _events_of(new):
        events = _NO_EVENTS  # as in nearly every second of nearly every link
    else:
        events = [
            _per_second(_event_step(old[i], new[i]), elapsed) if i < known else None
            for i in _EVENT_INDEXES
        ]
    return LinkRates(
        rx_bytes * 8 / elapsed,
        tx_bytes * 8 / elapsed,
        rx_packets / elapsed,
        tx_packets / elapsed,
        *events,
    )


def vf_rates(before: Counters, after: Counters) -> dict[int, dict[int, VfRates]]:
    """The `vfs` part of `rates`. Separate because the probe reads VF counters less often than the
    others, so that they are compared with an older record."""
    elapsed = after.time - before.time
    if not elapsed >= MIN_ELAPSED_SECONDS:
        return {}
    return {
        ifindex: {
            number: _vf_counter_rates(before.vfs[ifindex][number], new, elapsed)
            for number, new in functions.items()
            if number in before.vfs[ifindex]
        }
        for ifindex, functions in after.vfs.items()
        if ifindex in before.vfs
    }


_VF_INDEXES = {name: index for index, name in enumerate(VF_COUNTERS)}


def _vf_counter_rates(old: tuple[int, ...], new: tuple[int, ...], elapsed: float) -> VfRates:
    if min(len(old), len(new)) < len(VF_COUNTERS):
        return VfRates(None, None, None, None, None, None)
    rx_packets, rx_bytes = _packets_and_bytes(
        old, new, _VF_INDEXES["rx_packets"], _VF_INDEXES["rx_bytes"]
    )
    tx_packets, tx_bytes = _packets_and_bytes(
        old, new, _VF_INDEXES["tx_packets"], _VF_INDEXES["tx_bytes"]
    )
    return VfRates(
        _per_second(rx_bytes, elapsed, 8),
        _per_second(tx_bytes, elapsed, 8),
        _per_second(rx_packets, elapsed),
        _per_second(tx_packets, elapsed),
        _per_second(
            _forward_step(old[_VF_INDEXES["rx_dropped"]], new[_VF_INDEXES["rx_dropped"]]), elapsed
        ),
        _per_second(
            _forward_step(old[_VF_INDEXES["tx_dropped"]], new[_VF_INDEXES["tx_dropped"]]), elapsed
        ),
    )


def port_rates(before: Counters, after: Counters) -> dict[int, PortRates]:
    """The `ports` part of `rates`: read as often as the counters of VFs. Counters of two sources
    are not compared."""
    elapsed = after.time - before.time
    if not elapsed >= MIN_ELAPSED_SECONDS:
        return {}
    found = {}
    for ifindex, new in after.ports.items():
        old = before.ports.get(ifindex)
        if old is not None and new.source and old.source == new.source:
            found[ifindex] = _port_counter_rates(old, new, elapsed)
    return found


_PORT_INDEXES = tuple(
    PORT_COUNTERS.index(name) for name in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
)


def _port_counter_rates(old: PortCounts, new: PortCounts, elapsed: float) -> PortRates:
    """If one counter was reset, all were."""
    steps = [_known_step(old.numbers, new.numbers, index) for index in _PORT_INDEXES]
    counted = [index for index in _PORT_INDEXES if _is_counted(new.numbers, index)]
    was_reset = len(counted) != sum(step is not None for step in steps)
    if was_reset:
        return PortRates(new.source, None, None, None, None)
    rx_bytes, tx_bytes, rx_packets, tx_packets = steps
    return PortRates(
        new.source,
        _per_second(rx_bytes, elapsed, 8),
        _per_second(tx_bytes, elapsed, 8),
        _per_second(rx_packets, elapsed),
        _per_second(tx_packets, elapsed),
        {
            name: (value - old.errors[name]) / elapsed
            for name, value in new.errors.items()
            if 0 <= old.errors.get(name, -1) <= value
        },
    )


def _is_counted(numbers: Sequence[int | None], index: int) -> bool:
    return index < len(numbers) and numbers[index] is not None


_Queue = tuple[str, int, tuple[int | None, ...]]
_Direction = Literal["rx", "tx"]
_DIRECTION_INDEXES: dict[str, tuple[_Direction, tuple[int, ...]]] = {
    side: (
        side,
        tuple(QUEUE_COUNTERS.index(f"{side}_{what}") for what in ("packets", "bytes", "drops")),
    )
    for side in ("rx", "tx")
}


def _queue_rates(
    before: tuple[_Queue, ...], after: tuple[_Queue, ...], elapsed: float
) -> tuple[QueueRates, ...]:
    known = {(direction, queue): numbers for direction, queue, numbers in before}
    result = []
    for direction, queue, new in after:
        old = known.get((direction, queue))
        if old is None or direction not in _DIRECTION_INDEXES:
            continue
        side, indexes = _DIRECTION_INDEXES[direction]
        packets, size, drops = [_known_step(old, new, index) for index in indexes]
        result.append(
            QueueRates(
                side,
                queue,
                _per_second(packets, elapsed),
                _per_second(size, elapsed, 8),
                _per_second(drops, elapsed),
            )
        )
    return tuple(result)


def _known_step(old: Sequence[int | None], new: Sequence[int | None], index: int) -> int | None:
    """None: one of the two records does not have that counter."""
    if index >= len(old) or index >= len(new):
        return None
    a, b = old[index], new[index]
    return None if a is None or b is None else _forward_step(a, b)
