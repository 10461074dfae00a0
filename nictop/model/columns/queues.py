"""The queue table: its columns, from the number of the queue to the name of its interrupt vector.

Reads nothing. The last row is the sum of all queues (`QueueRow.queue` is None).
"""

from __future__ import annotations

from collections.abc import Callable

from nictop.model.columns.column import Cell, Column
from nictop.model.queues.cpu_lists import format_cpu_list, short_cpu_list
from nictop.model.queues.map import QueueRow
from nictop.model.text import units

NOT_OFFERED = "n/a"
"""The driver does not count this per queue; the legend explains it."""
MOVED = "▲"
"""After CPUs that are not those of the effective affinity in the inventory."""
CPU_NOW_WIDTH = 7
MOVED_NOTE = f"{MOVED}: CPU that took interrupts differs from the affinity read before"


def moved_note(age: float | None) -> str:
    """What `MOVED` means; `age`: seconds since the affinity was read."""
    return f"{MOVED_NOTE.removesuffix(' before')} {units.whole_seconds(age)} ago" if age is not None else MOVED_NOTE


def _queue(row: QueueRow) -> Cell:
    if row.queue is None:
        return "all", "normal"
    if not row.in_use:
        return f"{row.queue} off", "dim"
    side = "" if row.has_rx and row.has_tx else (" rx" if row.has_rx else " tx")
    return f"{row.queue}{side}", "normal"


def _rate(name: str, *, bad: bool = False) -> Callable[[QueueRow], Cell]:
    """A rate of one direction; "" for a direction that this queue does not have."""

    def cell(row: QueueRow) -> Cell:
        if not (row.has_rx if name.startswith("rx") else row.has_tx):
            return "", "normal"
        value: float | None = getattr(row, name)
        if value is None:
            return (units.scaled(None) if name in row.offered else f"{NOT_OFFERED:>4}  "), "dim"
        if not value:
            return units.scaled(value), "dim"
        return units.scaled(value), "warn" if bad else "normal"

    return cell


def _drops(row: QueueRow) -> Cell:
    """Drops of both directions, as far as the driver counts them."""
    known = [value for value in (row.rx_drops, row.tx_drops) if value is not None]
    if known:
        return units.scaled(sum(known)), "warn" if any(known) else "dim"
    offered = {"rx_drops", "tx_drops"} & set(row.offered)
    return (units.scaled(None) if offered else f"{NOT_OFFERED:>4}  "), "dim"


def _interrupts(row: QueueRow) -> Cell:
    return units.scaled(row.interrupts), "normal" if row.interrupts else "dim"


def _irq(row: QueueRow) -> Cell:
    """Interrupt numbers; ``*`` after one that serves other queues too."""
    if row.queue is None:
        return "", "normal"
    if row.channel is not None:
        return f"ch {row.channel}", "normal"
    text = " ".join(f"{one.interrupt.number}{'*' if one.interrupt.shared else ''}" for one in row.loads)
    return (text, "normal") if text else (units.UNKNOWN, "dim")


def _vector(row: QueueRow) -> Cell:
    if row.queue is None:
        return "", "normal"
    return " ".join(one.interrupt.name for one in row.loads if one.interrupt.name), "normal"


def _napi(row: QueueRow) -> Cell:
    if row.queue is None:
        return "", "normal"
    return (" ".join(map(str, row.napis)), "normal") if row.napis else (units.UNKNOWN, "dim")


def _cpus(cpus: tuple[int, ...] | None) -> str:
    return units.UNKNOWN if cpus is None else format_cpu_list(cpus)


def _effective(row: QueueRow) -> Cell:
    """CPUs on which its interrupts were counted, the busiest first; of an idle queue: the effective affinity."""
    if not row.busy_cpus:
        known = row.effective
        return units.UNKNOWN if known is None else short_cpu_list(known, CPU_NOW_WIDTH), "dim"
    if row.queue is None:
        return short_cpu_list(row.busy_cpus, CPU_NOW_WIDTH), "normal"
    text = str(row.busy_cpus[0])
    for number, cpu in enumerate(row.busy_cpus[1:], 1):
        rest = len(row.busy_cpus) - number - 1
        longer = f"{text},{cpu}"
        if len(longer) + (len(f"+{rest}") if rest else 0) >= CPU_NOW_WIDTH:
            text += f"+{rest + 1}"
            break
        text = longer
    if len(text) >= CPU_NOW_WIDTH:
        text = f"{row.busy_cpus[0]}+"
    return (f"{text}{MOVED}", "warn") if row.has_moved else (text, "normal")


def _allowed(row: QueueRow) -> Cell:
    return _cpus(row.allowed), "normal" if row.allowed is not None else "dim"


def _numa(row: QueueRow) -> Cell:
    if row.local is None:
        return "", "normal"
    return ("near", "normal") if row.local else ("far", "warn")


def _steering(name: str) -> Callable[[QueueRow], Cell]:
    """XPS or RPS as a CPU list; ``off``; "" if it cannot be set."""

    def cell(row: QueueRow) -> Cell:
        cpus: tuple[int, ...] | None = getattr(row, name)
        if cpus is None:
            return "", "normal"
        return (format_cpu_list(cpus), "normal") if cpus else ("off", "dim")

    return cell


COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("queue", "QUEUE", "", 6, 1, "left", _queue,
        source="number of the queue; rx, tx: it has only this direction (netdev-genl queue-get; sysfs queues)"),
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
        source="its interrupts; *: serves several queues; ch: vmbus channel (/proc/interrupts; netdev-genl napi-get)"),
    Column("interrupts", "IRQ/s", "1/s", units.SCALED_WIDTH, 3, "right", _interrupts,
        source="its interrupts on all CPUs (/proc/interrupts; sysfs per_cpu_count)"),
    Column("effective", "CPU now", "", CPU_NOW_WIDTH, 2, "left", _effective,
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
    source="packets dropped in both directions (netdev-genl qstats rx-hw-drops + tx-hw-drops; ethtool -S)",
)  # fmt: skip
"""Both directions in one column."""
