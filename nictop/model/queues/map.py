"""The queue map of one netdev: queue → NAPI → interrupt → CPU, with the rates of the last interval.

Reads nothing. `queue_map(link, snapshot)` joins the plan from the inventory (`queue_plan`, computed once) with the
rates of the last two counter records. Per-queue rates are those of the netdev family (qstats) where the driver offers
them, else those of its driver counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from nictop.model.queues.driver_counters import QueuePositions, Side
from nictop.model.queues.plan import PlannedQueue, QueueInterrupt, queue_plan
from nictop.model.rates.links import QueueRates, Rates, sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.records import Link

MIN_BALANCE_LOAD = 100.0
"""Packets (or interrupts) per second below which the distribution over the queues is not judged."""
MIN_UNEVEN_LOAD = 1000.0
"""The same for a distribution that is not called even or fair: a path test or an SSH session is one flow, thus one
queue."""
EVEN_FACTOR, FAIR_FACTOR = 1.25, 2.0
"""Load of the hottest queue, relative to an even distribution, up to which that is called even, and fair."""
MAX_FAIR_SHARE = 0.8
"""Share of the hottest queue up to which it is called fair: of two queues none has more than twice its even share."""

RATE_NAMES = ("rx_packets", "rx_bits", "rx_drops", "tx_packets", "tx_bits", "tx_drops")


@dataclass(frozen=True, eq=False)
class InterruptLoad:
    """An interrupt of the netdev with its rate."""

    interrupt: QueueInterrupt
    per_second: float | None
    """Sum over all CPUs; None: no rate, or it was reset."""
    cpus: dict[int, float]
    """CPU id → per second; CPUs without any are left out."""


@dataclass(frozen=True, eq=False)
class QueueRow:
    """One queue number, or the sum of all (`queue` None). Rates are per second; None: not known, or not offered."""

    queue: int | None
    has_rx: bool
    has_tx: bool
    """False: there is no such queue. Both False: the queue was disabled (``ethtool -L``), only its interrupt exists."""
    rx_packets: float | None = None
    rx_bits: float | None = None
    rx_drops: float | None = None
    tx_packets: float | None = None
    tx_bits: float | None = None
    tx_drops: float | None = None
    offered: tuple[str, ...] = RATE_NAMES
    """The rates that the driver counts per queue; all of them until the probe has read the counters."""
    napis: tuple[int, ...] = ()
    napi_threads: tuple[int, ...] = ()
    """Thread ids, if NAPI is threaded."""
    loads: tuple[InterruptLoad, ...] = ()
    """Its interrupts, by number."""
    interrupts: float | None = None
    """Sum of the interrupts (vmbus channels) that serve only this queue; in the total row, of all interrupts."""
    channel: int | None = None
    """vmbus channel id."""
    allowed: tuple[int, ...] | None = None
    effective: tuple[int, ...] | None = None
    """CPUs to which its interrupts may be delivered, and are delivered, as in the inventory, which is read less often
    than interrupts are counted; None: not reported by this kernel."""
    local: bool | None = None
    """All of them are on the NUMA node of the NIC; None: only one node, or not known."""
    xps: tuple[int, ...] | None = None
    rps: tuple[int, ...] | None = None
    """(): off; None: not settable, or no such queue."""
    rps_flow_count: int | None = None

    @property
    def busy_cpus(self) -> tuple[int, ...]:
        """CPUs that handled its interrupts in the last interval, the busiest first."""
        sums: dict[int, float] = {}
        for one in self.loads:
            for cpu, rate in one.cpus.items():
                sums[cpu] = sums.get(cpu, 0.0) + rate
        return tuple(sorted(sums, key=lambda cpu: (-sums[cpu], cpu)))

    @property
    def has_moved(self) -> bool:
        """Interrupts were counted on CPUs to which the inventory does not say that they are delivered."""
        return self.effective is not None and not set(self.busy_cpus) <= set(self.effective)

    @property
    def in_use(self) -> bool:
        return self.has_rx or self.has_tx

    @property
    def load(self) -> float | None:
        """Comparable load of a queue: packets per second of both directions, or interrupts where packets are not
        counted."""
        known = [value for value in (self.rx_packets, self.tx_packets) if value is not None]
        return sum(known) if known else self.interrupts

    @property
    def idle(self) -> bool:
        """Known to have been idle: no packet and no interrupt."""
        known = (self.load, self.interrupts)
        return any(value is not None for value in known) and not any(known)


@dataclass(frozen=True, eq=False)
class QueueMap:
    """All queues of one netdev."""

    rows: tuple[QueueRow, ...]
    """By queue number."""
    total: QueueRow
    busiest: int | None
    """Number of the queue with the highest `QueueRow.load`; None: all are idle."""
    busiest_share: float | None
    """Its share of the total load, 0 to 1; 1 / number of queues is perfectly even."""
    idle: tuple[int, ...]
    """Numbers of the idle queues, which screens may fold."""
    others: tuple[InterruptLoad, ...]
    """Interrupts for link changes, mailbox and configuration."""
    unmapped: tuple[InterruptLoad, ...]
    """Interrupts of the device that could not be assigned to a queue."""
    qstats: bool
    """Rates come from the netdev family; False: from the driver's own counters."""


def queue_map(link: Link, snapshot: Snapshot) -> QueueMap:
    """The present map of `link`; without rates or inventory, everything that is known without them."""
    rates = snapshot.rates
    plan = queue_plan(link, snapshot.inventory)
    sources = counter_sources(link.ifindex, rates)
    loads: dict[int, InterruptLoad] = {}
    rows = [
        _row(queue, link.ifindex, rates, sources, tuple(_load(one, rates) for one in queue.interrupts))
        for queue in plan.queues
    ]
    for row in rows:
        loads.update((one.interrupt.number, one) for one in row.loads)
    ranked = [(row.load or 0.0, row.queue) for row in rows]
    highest_load, busiest = max(ranked, default=(0.0, None), key=lambda one: one[0])
    total_load = sum(load for load, _ in ranked)
    return QueueMap(
        rows=tuple(rows),
        total=_total(rows, loads.values()),
        busiest=busiest if highest_load > 0 else None,
        busiest_share=highest_load / total_load if total_load > 0 else None,
        idle=tuple(row.queue for row in rows if row.queue is not None and row.idle),
        others=tuple(_load(one, rates) for one in plan.others),
        unmapped=tuple(_load(one, rates) for one in plan.unmapped),
        qstats=bool(sources.qstats),
    )


def balance(found: QueueMap) -> tuple[Literal["", "even", "fair", "uneven"], str]:
    """How evenly the load is spread over the queues in use, and the sentence about it; "" if that cannot be judged."""
    queues = sum(row.in_use for row in found.rows)
    if queues < 2 or found.busiest_share is None:
        return "", "balance: only one queue in use" if queues == 1 else "balance: no traffic" if queues else ""
    packets = any(row.rx_packets is not None or row.tx_packets is not None for row in found.rows)
    load = sum(row.load or 0.0 for row in found.rows)
    unit = "RX+TX packets" if packets else "interrupts"
    even = 1 / queues
    is_uneven = found.busiest_share > min(FAIR_FACTOR * even, MAX_FAIR_SHARE)
    needed = MIN_UNEVEN_LOAD if is_uneven else MIN_BALANCE_LOAD
    if load < needed:
        measured = f"{units.quantity(load, '')} {unit}/s"
        return "", f"balance: too little traffic to judge ({measured}; judged from {needed:.0f}/s)"
    level: Literal["even", "fair", "uneven"] = "even"
    if is_uneven:
        level = "uneven"
    elif found.busiest_share > EVEN_FACTOR * even:
        level = "fair"
    hottest = f"queue {found.busiest}: {units.percentage(found.busiest_share)} of {unit}"
    return level, f"balance: {level}, hottest {hottest} (even would be {units.percentage(even)})"


def _load(interrupt: QueueInterrupt, rates: Rates | None) -> InterruptLoad:
    cpus = rates.interrupts.get(interrupt.number) if rates is not None else None
    if cpus is None:
        return InterruptLoad(interrupt, None, {})
    return InterruptLoad(interrupt, sum(cpus.values()), cpus)


@dataclass(frozen=True, eq=False)
class CounterSources:
    """Sources of the per-queue rates of one link."""

    qstats: Mapping[tuple[Side, int], QueueRates]
    driver: tuple[float | None, ...]
    is_requested: bool
    """The probe has read per-queue counters, whatever the result."""

    def side(
        self, direction: Side, number: int, positions: QueuePositions
    ) -> tuple[float | None, float | None, float | None]:
        """(packets, bits, drops) per second: from qstats, or from the driver's counters where qstats has none."""
        one = self.qstats.get((direction, number))
        packets = one.packets if one is not None else None
        bits = one.bits if one is not None else None
        drops = one.drops if one is not None else None
        if packets is None:
            packets = self._sum(positions.packets)
        if bits is None:
            size = self._sum(positions.bytes)
            bits = size * 8 if size is not None else None
        if drops is None:
            drops = self._sum(positions.drops)
        return packets, bits, drops

    def _sum(self, positions: tuple[int, ...]) -> float | None:
        total = None
        for position in positions:
            value = self.driver[position] if position < len(self.driver) else None
            if value is None:
                return None  # without a counter that was reset the sum would be wrong
            total = value if total is None else total + value
        return total


def counter_sources(ifindex: int, rates: Rates | None) -> CounterSources:
    """Where the per-queue rates of one link are."""
    if rates is None:
        return CounterSources({}, (), False)
    return CounterSources(
        qstats={(one.direction, one.queue): one for one in rates.queues.get(ifindex, ())},
        driver=rates.driver.get(ifindex, ()),
        is_requested=ifindex in rates.queues or ifindex in rates.driver,
    )


def _row(
    queue: PlannedQueue, ifindex: int, rates: Rates | None, sources: CounterSources, loads: tuple[InterruptLoad, ...]
) -> QueueRow:
    number = queue.number
    rx = sources.side("rx", number, queue.rx_positions)
    tx = sources.side("tx", number, queue.tx_positions)
    has_rx = queue.has_rx or ("rx", number) in sources.qstats
    has_tx = queue.has_tx or ("tx", number) in sources.qstats
    interrupts = sum_known(one.per_second for one in loads if not one.interrupt.shared)
    effective = _union(one.interrupt.effective for one in loads)
    allowed = _union(one.interrupt.allowed for one in loads)
    channel = queue.channel
    if channel is not None:
        rate = rates.channels.get(ifindex, {}).get(channel.id) if rates is not None else None
        interrupts = rate.interrupts if rate is not None else None
        effective = (channel.cpu,) if channel.cpu is not None else None
    local_flags = [one.interrupt.local for one in loads if one.interrupt.local is not None]
    return QueueRow(
        queue=number,
        has_rx=has_rx,
        has_tx=has_tx,
        rx_packets=rx[0],
        rx_bits=rx[1],
        rx_drops=rx[2],
        tx_packets=tx[0],
        tx_bits=tx[1],
        tx_drops=tx[2],
        offered=_offered(queue, sources, rx + tx),
        napis=queue.napis,
        napi_threads=queue.napi_threads,
        loads=loads,
        interrupts=interrupts,
        channel=channel.id if channel is not None else None,
        allowed=allowed,
        effective=effective,
        local=all(local_flags) if local_flags else None,
        xps=queue.xps,
        rps=queue.rps,
        rps_flow_count=queue.rps_flow_count,
    )


def _offered(queue: PlannedQueue, sources: CounterSources, values: tuple[float | None, ...]) -> tuple[str, ...]:
    """Names of the rates that this queue has, or will have again after a reset."""
    if not sources.is_requested:
        return RATE_NAMES
    rx = ("rx", queue.number) in sources.qstats
    tx = ("tx", queue.number) in sources.qstats
    at, to = queue.rx_positions, queue.tx_positions
    counters = (rx or at.packets, rx or at.bytes, at.drops, tx or to.packets, tx or to.bytes, to.drops)
    return tuple(
        name for name, value, source in zip(RATE_NAMES, values, counters, strict=True) if value is not None or source
    )


def _union(lists: Iterable[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    known = [one for one in lists if one is not None]
    if len(known) == 1:
        return known[0]
    return tuple(sorted(set().union(*known))) if known else None


def _total(rows: list[QueueRow], loads: Iterable[InterruptLoad]) -> QueueRow:
    """The sum row. An interrupt shared by several queues is counted once."""
    all_loads = tuple(sorted(loads, key=lambda one: one.interrupt.number))
    local_flags = [row.local for row in rows if row.local is not None]
    channels = [row.interrupts for row in rows if row.channel is not None]
    return QueueRow(
        queue=None,
        has_rx=any(row.has_rx for row in rows),
        has_tx=any(row.has_tx for row in rows),
        rx_packets=sum_known(row.rx_packets for row in rows),
        rx_bits=sum_known(row.rx_bits for row in rows),
        rx_drops=sum_known(row.rx_drops for row in rows),
        tx_packets=sum_known(row.tx_packets for row in rows),
        tx_bits=sum_known(row.tx_bits for row in rows),
        tx_drops=sum_known(row.tx_drops for row in rows),
        offered=tuple(name for name in RATE_NAMES if any(name in row.offered for row in rows)) if rows else RATE_NAMES,
        napis=tuple(dict.fromkeys(napi for row in rows for napi in row.napis)),
        loads=all_loads,
        interrupts=sum_known([*(one.per_second for one in all_loads), *channels]),
        allowed=_union(row.allowed for row in rows),
        effective=_union(row.effective for row in rows),
        local=all(local_flags) if local_flags else None,
    )
