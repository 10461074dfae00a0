"""The queue map of one netdev: queue → NAPI → interrupt → CPU, with the rates of the last interval.

Reads nothing. `queue_map(link, snapshot)` joins the plan from the inventory (`queue_plan`, computed
once) with the rates of the last two counter records. Per-queue rates are those of the netdev family
(qstats) where the driver offers them, else those of its driver counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from nictop.model.queues.driver_counters import QueuePositions, Side
from nictop.model.queues.plan import PlannedQueue, QueueInterrupt, queue_plan
from nictop.model.rates.links import QueueRates, Rates, sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link

MIN_BALANCE_LOAD = 100.0
"""Packets (or interrupts) per second below which the distribution over the queues is not judged."""
MIN_UNEVEN_LOAD = 1000.0
"""The same for a distribution that is not called even or fair: a path test or an SSH session is one
flow, thus one queue."""
EVEN_FACTOR, FAIR_FACTOR = 1.25, 2.0
"""Load of the hottest queue, relative to an even distribution, up to which that is called even, and
fair."""
MAX_FAIR_SHARE = 0.8
"""Share of the hottest queue up to which it is called fair: of two queues none has more than twice
its even share."""

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
    """One queue number, or the sum of all (`queue` None). Rates are per second; None: not known, or
    not offered."""

    queue: int | None
    has_rx: bool
    has_tx: bool
    """False: there is no such queue. Both False: the queue was disabled (``ethtool -L``), only its
    interrupt exists."""
    rx_packets: float | None = None
    rx_bits: float | None = None
    rx_drops: float | None = None
    tx_packets: float | None = None
    tx_bits: float | None = None
    tx_drops: float | None = None
    offered: tuple[str, ...] = RATE_NAMES
    """The rates that the driver counts per queue; all of them until the probe has read the
    counters."""
    napis: tuple[int, ...] = ()
    napi_threads: tuple[int, ...] = ()
    """Thread ids, if NAPI is threaded."""
    loads: tuple[InterruptLoad, ...] = ()
    """Its interrupts, by number."""
    interrupts: float | None = None
    """Sum of the interrupts (vmbus channels) that serve only this queue; in the total row, of all
    interrupts."""
    channel: int | None = None
    """vmbus channel id."""
    allowed: tuple[int, ...] | None = None
    effective: tuple[int, ...] | None = None
    """CPUs to which its interrupts may be delivered, and are delivered, as in the inventory, which
    is read less often than interrupts are counted; None: not reported by this kernel."""
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
        for load in self.loads:
            for cpu, rate in load.cpus.items():
                sums[cpu] = sums.get(cpu, 0.0) + rate
        return tuple(sorted(sums, key=lambda cpu: (-sums[cpu], cpu)))

    @property
    def has_moved(self) -> bool:
        """Interrupts were counted on CPUs to which the inventory does not say that they are
        delivered."""
        return self.effective is not None and not set(self.busy_cpus) <= set(self.effective)

    @property
    def in_use(self) -> bool:
        return self.has_rx or self.has_tx

    @property
    def load(self) -> float | None:
        """Comparable load of a queue: packets per second of both directions, or interrupts where
        packets are not counted."""
        packets = sum_known((self.rx_packets, self.tx_packets))
        if packets is None:
            return self.interrupts
        return packets

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
    """The present map of `link`; without rates or inventory, everything that is known without
    them."""
    rates = snapshot.rates
    plan = queue_plan(link, snapshot.inventory)
    sources = counter_sources(link.ifindex, rates)
    rows = [_row(queue, link.ifindex, rates, sources) for queue in plan.queues]
    loads: dict[int, InterruptLoad] = {}
    for row in rows:
        loads.update((load.interrupt.number, load) for load in row.loads)
    busiest, busiest_share = _busiest(rows)
    return QueueMap(
        rows=tuple(rows),
        total=_total(rows, loads.values()),
        busiest=busiest,
        busiest_share=busiest_share,
        idle=tuple(row.queue for row in rows if row.queue is not None and row.idle),
        others=_loads(plan.others, rates),
        unmapped=_loads(plan.unmapped, rates),
        qstats=bool(sources.qstats),
    )


def _busiest(rows: Iterable[QueueRow]) -> tuple[int | None, float | None]:
    """(Number of the queue with the highest load, its share of the total); None: all are idle."""
    busiest = None
    highest_load = total_load = 0.0
    for row in rows:
        load = row.load or 0.0
        total_load += load
        if load > highest_load:
            busiest, highest_load = row.queue, load
    if highest_load <= 0:
        return None, None
    return busiest, highest_load / total_load


def balance(queue_map: QueueMap) -> tuple[Literal["", "even", "fair", "uneven"], str]:
    """How evenly the load is spread over the queues in use, and the sentence about it; "" if that
    cannot be judged."""
    queues = sum(row.in_use for row in queue_map.rows)
    share = queue_map.busiest_share
    if queues == 0:
        return "", ""
    if queues == 1:
        return "", "balance: only one queue in use"
    if share is None:
        return "", "balance: no traffic"
    even = 1 / queues
    is_uneven = share > min(FAIR_FACTOR * even, MAX_FAIR_SHARE)
    load, unit = sum(row.load or 0.0 for row in queue_map.rows), _load_unit(queue_map)
    needed = MIN_UNEVEN_LOAD if is_uneven else MIN_BALANCE_LOAD
    if load < needed:
        measured = f"{units.quantity(load, '')} {unit}/s"
        reason = f"{measured}; judged from {needed:.0f}/s"
        return "", f"balance: too little traffic to judge ({reason})"
    level: Literal["even", "fair", "uneven"] = "even"
    if is_uneven:
        level = "uneven"
    elif share > EVEN_FACTOR * even:
        level = "fair"
    hottest = f"queue {queue_map.busiest}: {units.percentage(share)} of {unit}"
    return level, f"balance: {level}, hottest {hottest} (even would be {units.percentage(even)})"


def _loads(interrupts: Iterable[QueueInterrupt], rates: Rates | None) -> tuple[InterruptLoad, ...]:
    return tuple([_load(interrupt, rates) for interrupt in interrupts])


def _load(interrupt: QueueInterrupt, rates: Rates | None) -> InterruptLoad:
    if rates is None or interrupt.number not in rates.interrupts:
        return InterruptLoad(interrupt, None, {})
    cpus = rates.interrupts[interrupt.number]
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
        """(packets, bits, drops) per second: from qstats, or from the driver's counters where
        qstats has none."""
        packets = bits = drops = None
        counted = self.qstats.get((direction, number))
        if counted is not None:
            packets, bits, drops = counted.packets, counted.bits, counted.drops
        if packets is None:
            packets = self._sum(positions.packets)
        if bits is None:
            size = self._sum(positions.bytes)
            if size is not None:
                bits = size * 8
        if drops is None:
            drops = self._sum(positions.drops)
        return packets, bits, drops

    def _sum(self, positions: tuple[int, ...]) -> float | None:
        if not positions:
            return None
        total: float = 0
        for position in positions:
            if position >= len(self.driver):
                return None
            value = self.driver[position]
            if value is None:
                return None  # without a counter that was reset the sum would be wrong
            total += value
        return total


def counter_sources(ifindex: int, rates: Rates | None) -> CounterSources:
    """Where the per-queue rates of one link are."""
    if rates is None:
        return CounterSources({}, (), False)
    queues = rates.queues.get(ifindex, ())
    return CounterSources(
        qstats={(queue.direction, queue.queue): queue for queue in queues},
        driver=rates.driver.get(ifindex, ()),
        is_requested=ifindex in rates.queues or ifindex in rates.driver,
    )


def _load_unit(queue_map: QueueMap) -> str:
    """What `QueueRow.load` counts."""
    for row in queue_map.rows:
        if row.rx_packets is not None or row.tx_packets is not None:
            return "RX+TX packets"
    return "interrupts"


def _row(
    queue: PlannedQueue, ifindex: int, rates: Rates | None, sources: CounterSources
) -> QueueRow:
    number = queue.number
    rx = sources.side("rx", number, queue.rx_positions)
    tx = sources.side("tx", number, queue.tx_positions)
    loads = _loads(queue.interrupts, rates)
    if queue.channel is None:
        channel_id = None
        interrupts = sum_known(load.per_second for load in loads if not load.interrupt.shared)
        effective = _union(load.interrupt.effective for load in loads)
    else:
        channel_id = queue.channel.id
        interrupts = _channel_interrupts(channel_id, ifindex, rates)
        effective = None
        if queue.channel.cpu is not None:
            effective = (queue.channel.cpu,)
    return QueueRow(
        queue=number,
        has_rx=queue.has_rx or ("rx", number) in sources.qstats,
        has_tx=queue.has_tx or ("tx", number) in sources.qstats,
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
        channel=channel_id,
        allowed=_union(load.interrupt.allowed for load in loads),
        effective=effective,
        local=_all_known(load.interrupt.local for load in loads),
        xps=queue.xps,
        rps=queue.rps,
        rps_flow_count=queue.rps_flow_count,
    )


def _channel_interrupts(channel: int, ifindex: int, rates: Rates | None) -> float | None:
    """Interrupts per second of a vmbus channel."""
    if rates is None:
        return None
    rate = rates.channels.get(ifindex, {}).get(channel)
    if rate is None:
        return None
    return rate.interrupts


def _offered(
    queue: PlannedQueue, sources: CounterSources, values: tuple[float | None, ...]
) -> tuple[str, ...]:
    """Names of the rates that this queue has, or will have again after a reset."""
    if not sources.is_requested:
        return RATE_NAMES
    counters: list[bool] = []
    for side, positions in (("rx", queue.rx_positions), ("tx", queue.tx_positions)):
        has_kernel_counters = (side, queue.number) in sources.qstats
        counters += (
            has_kernel_counters or bool(positions.packets),
            has_kernel_counters or bool(positions.bytes),
            bool(positions.drops),
        )
    offered = []
    for name, value, has_counter in zip(RATE_NAMES, values, counters, strict=True):
        if value is not None or has_counter:
            offered.append(name)
    return tuple(offered)


def _all_known(flags: Iterable[bool | None]) -> bool | None:
    """Whether all that are known are true; None: none is known."""
    known = [flag for flag in flags if flag is not None]
    if not known:
        return None
    return all(known)


def _union(lists: Iterable[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    known = [members for members in lists if members is not None]
    if not known:
        return None
    if len(known) == 1:
        return known[0]
    return tuple(sorted(set().union(*known)))


def _total(rows: list[QueueRow], loads: Iterable[InterruptLoad]) -> QueueRow:
    """The sum row. An interrupt shared by several queues is counted once."""
    all_loads = tuple(sorted(loads, key=lambda load: load.interrupt.number))
    channels = [row.interrupts for row in rows if row.channel is not None]
    napis: dict[int, None] = {}
    offered = set[str]()
    for row in rows:
        napis.update(dict.fromkeys(row.napis))
        offered.update(row.offered)
    if not rows:
        offered.update(RATE_NAMES)
    return QueueRow(
        queue=None,
        has_rx=any(row.has_rx for row in rows),
        has_tx=any(row.has_tx for row in rows),
        rx_packets=_sum(rows, "rx_packets"),
        rx_bits=_sum(rows, "rx_bits"),
        rx_drops=_sum(rows, "rx_drops"),
        tx_packets=_sum(rows, "tx_packets"),
        tx_bits=_sum(rows, "tx_bits"),
        tx_drops=_sum(rows, "tx_drops"),
        offered=tuple(name for name in RATE_NAMES if name in offered),
        napis=tuple(napis),
        loads=all_loads,
        interrupts=sum_known([*(load.per_second for load in all_loads), *channels]),
        allowed=_union(row.allowed for row in rows),
        effective=_union(row.effective for row in rows),
        local=_all_known(row.local for row in rows),
    )


def _sum(rows: Iterable[QueueRow], rate: str) -> float | None:
    """Of one of `RATE_NAMES`."""
    return sum_known(getattr(row, rate) for row in rows)
