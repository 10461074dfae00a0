"""The queue table: its columns, from the number of the queue to the name of its interrupt vector.

Reads nothing. The last row is the sum of all queues (`QueueRow.queue` is None).
"""

from __future__ import annotations

from collections.abc import Callable

from nictop.model.columns.column import Cell, Column
from nictop.model.queues.cpu_lists import format_cpu_list, short_cpu_list
from nictop.model.queues.map import QueueRow
from nictop.model.queues.plan import QueueInterrupt
from nictop.model.rates.links import sum_known
from nictop.model.text import units
from nictop.model.text.words import dim_if, warn_if

NOT_OFFERED = "n/a"
"""The driver does not count this per queue; the legend explains it."""
NOT_OFFERED_CELL: Cell = (f"{NOT_OFFERED:>4}  ", "dim")
UNKNOWN_CELL: Cell = (units.UNKNOWN, "dim")
EMPTY_CELL: Cell = ("", "normal")
MOVED = "▲"
"""After CPUs that are not those of the effective affinity in the inventory."""
ON_CPU_WIDTH = 7
MOVED_NOTE = f"{MOVED}: CPU that took interrupts differs from the affinity read before"


def moved_note(age: float | None) -> str:
    """What `MOVED` means; `age`: seconds since the affinity was read."""
    if age is None:
        return MOVED_NOTE
    return f"{MOVED_NOTE.removesuffix(' before')} {units.whole_seconds(age)} earlier"


def _queue(row: QueueRow) -> Cell:
    if row.queue is None:
        return "all", "normal"
    if not row.in_use:
        return f"{row.queue} off", "dim"
    if not row.has_tx:
        return f"{row.queue} rx", "normal"
    if not row.has_rx:
        return f"{row.queue} tx", "normal"
    return f"{row.queue}", "normal"


def _rate(name: str, *, bad: bool = False) -> Callable[[QueueRow], Cell]:
    """A rate of one direction; "" for a direction that this queue does not have."""
    is_receive = name.startswith("rx")

    def cell(row: QueueRow) -> Cell:
        exists = row.has_rx if is_receive else row.has_tx
        if not exists:
            return "", "normal"
        value: float | None = getattr(row, name)
        if value is None and name not in row.offered:
            return NOT_OFFERED_CELL
        if not value:
            return units.scaled(value), "dim"
        return units.scaled(value), warn_if(bad)

    return cell


def _drops(row: QueueRow) -> Cell:
    """Drops of both directions, as far as the driver counts them."""
    drops = sum_known((row.rx_drops, row.tx_drops))
    if drops is not None:
        return units.scaled(drops), "warn" if drops else "dim"
    if not {"rx_drops", "tx_drops"} & set(row.offered):
        return NOT_OFFERED_CELL
    return units.scaled(None), "dim"


def _interrupts(row: QueueRow) -> Cell:
    return units.scaled(row.interrupts), dim_if(not row.interrupts)


def _irq(row: QueueRow) -> Cell:
    """Interrupt numbers; ``*`` after one that serves other queues too."""
    if row.queue is None:
        return EMPTY_CELL
    if row.channel is not None:
        return f"ch {row.channel}", "normal"
    if not row.loads:
        return UNKNOWN_CELL
    return " ".join(_number_text(load.interrupt) for load in row.loads), "normal"


def _number_text(interrupt: QueueInterrupt) -> str:
    """``57``, or ``57*`` of one that serves several queues."""
    mark = "*" if interrupt.shared else ""
    return f"{interrupt.number}{mark}"


def _vector(row: QueueRow) -> Cell:
    if row.queue is None:
        return "", "normal"
    return " ".join(load.interrupt.name for load in row.loads if load.interrupt.name), "normal"


def _napi(row: QueueRow) -> Cell:
    if row.queue is None:
        return EMPTY_CELL
    if not row.napis:
        return UNKNOWN_CELL
    return " ".join(map(str, row.napis)), "normal"


def _effective(row: QueueRow) -> Cell:
    """CPUs on which its interrupts were counted, the busiest first; of an idle queue: the effective
    affinity."""
    if not row.busy_cpus:
        if row.effective is None:
            return UNKNOWN_CELL
        return short_cpu_list(row.effective, ON_CPU_WIDTH), "dim"
    if row.queue is None:
        return short_cpu_list(row.busy_cpus, ON_CPU_WIDTH), "normal"
    text = _busiest_text(row.busy_cpus)
    if row.has_moved:
        return f"{text}{MOVED}", "warn"
    return text, "normal"


def _busiest_text(cpus: tuple[int, ...]) -> str:
    """``5,3+2``: as many of the first ones as fit, and the number of the others."""
    text = str(cpus[0])
    for number, cpu in enumerate(cpus[1:], 1):
        rest = len(cpus) - number - 1
        longer = f"{text},{cpu}"
        needed = len(longer)
        if rest:
            needed += len(f"+{rest}")
        if needed >= ON_CPU_WIDTH:
            text += f"+{rest + 1}"
            break
        text = longer
    if len(text) >= ON_CPU_WIDTH:
        return f"{cpus[0]}+"
    return text


def _allowed(row: QueueRow) -> Cell:
    if row.allowed is None:
        return UNKNOWN_CELL
    return format_cpu_list(row.allowed), "normal"


def _numa(row: QueueRow) -> Cell:
    if row.local is None:
        return EMPTY_CELL
    if row.local:
        return "near", "normal"
    return "far", "warn"


def _steering(name: str) -> Callable[[QueueRow], Cell]:
    """XPS or RPS as a CPU list; ``off``; "" if it cannot be set."""

    def cell(row: QueueRow) -> Cell:
        cpus: tuple[int, ...] | None = getattr(row, name)
        if cpus is None:
            return EMPTY_CELL
        if not cpus:
            return "off", "dim"
        return format_cpu_list(cpus), "normal"

    return cell


COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("queue", "QUEUE", "", 6, 1, "left", _queue,
        source="number of the queue; rx, tx: it has only this direction (netdev-genl queue-get; "
               "sysfs queues)"),
    Column("rx_packets", "RX pps", "packets/s", units.SCALED_WIDTH, 2, "right", _rate("rx_packets"),
        source="packets received by this queue (netdev-genl qstats rx-packets; ethtool -S)"),
    Column("tx_packets", "TX pps", "packets/s", units.SCALED_WIDTH, 2, "right", _rate("tx_packets"),
        source="packets sent by this queue (netdev-genl qstats tx-packets; ethtool -S)"),
    Column("rx_bits", "RX b/s", "b/s", units.SCALED_WIDTH, 4, "right", _rate("rx_bits"),
        source="bits received by this queue (netdev-genl qstats rx-bytes; ethtool -S)"),
    Column("tx_bits", "TX b/s", "b/s", units.SCALED_WIDTH, 4, "right", _rate("tx_bits"),
        source="bits sent by this queue (netdev-genl qstats tx-bytes; ethtool -S)"),
    Column("rx_drops", "RX drop", "1/s", 7, 5, "right", _rate("rx_drops", bad=True),
        source="packets dropped on receive (netdev-genl qstats rx-hw-drops; ethtool -S)"),
    Column("tx_drops", "TX drop", "1/s", 7, 6, "right", _rate("tx_drops", bad=True),
        source="packets dropped on transmit (netdev-genl qstats tx-hw-drops; ethtool -S)"),
    Column("napi", "NAPI", "", 9, 8, "left", _napi,
        source="id of its NAPI instance (netdev-genl queue-get)"),
    Column("irq", "IRQ", "", 7, 2, "left", _irq,
        source="its interrupts; *: serves several queues; ch: vmbus channel (/proc/interrupts; "
               "netdev-genl napi-get)"),
    Column("interrupts", "IRQ/s", "1/s", units.SCALED_WIDTH, 3, "right", _interrupts,
        source="its interrupts on all CPUs (/proc/interrupts; sysfs per_cpu_count)"),
    Column("effective", "on CPU", "", ON_CPU_WIDTH, 2, "left", _effective,
        source="CPUs that took its interrupts, the busiest first (as IRQ/s); of an idle queue: "
        "effective_affinity_list"),
    Column("allowed", "IRQ affinity", "", 12, 7, "left", _allowed,
        source="CPUs that may take its interrupts (/proc/irq/N/smp_affinity_list)"),
    Column("numa", "NUMA", "", 4, 9, "left", _numa,
        source="near: these CPUs are on the NUMA node of the NIC (sysfs numa_node, node cpulist)"),
    Column("xps", "XPS CPU", "", 7, 10, "left", _steering("xps"),
        source="CPUs that send by this queue (sysfs tx-N/xps_cpus)"),
    Column("rps", "RPS", "", 7, 10, "left", _steering("rps"),
        source="CPUs to which received packets are spread (sysfs rx-N/rps_cpus)"),
    Column("vector", "VECTOR", "", 24, 11, "left", _vector,
        source="names of its interrupts (/proc/interrupts)"),
)  # fmt: skip

DROPS = Column(
    "drops", "drops/s", "1/s", 7, 5, "right", _drops,
    source="packets dropped in both directions (netdev-genl qstats rx-hw-drops + tx-hw-drops; "
           "ethtool -S)",
)  # fmt: skip
"""Both directions in one column."""
