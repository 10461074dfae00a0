"""The table of CPUs: shares of CPU time, network softirqs, and softnet counters.

Reads nothing. Times are per cent of one CPU; the columns from packets to limited are softnet_stat
of the CPU, per second; IRQ/s are the interrupts of one NIC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nictop.model.columns.column import Cell, Column
from nictop.model.rates.cpus import REPORTED_WITHOUT_SPLIT, CpuShares
from nictop.model.rates.links import Rates
from nictop.model.rates.load import SoftirqRates, SoftnetRates
from nictop.model.text import units
from nictop.model.text.words import Tone, dim_if
from nictop.probe.light_tuples import NamedTuple

SOFTIRQ_BOTTLENECK_SHARE = 0.85
"""Share of softirq time above which a CPU is the bottleneck: packets wait in the ring."""
STEAL_WARNING_SHARE = 0.05
"""Share of time stolen by the hypervisor above which it is marked."""


NOT_REPORTED: Cell = (units.UNKNOWN, "dim")


class CpuRow(NamedTuple):
    """One online CPU."""

    cpu: int
    shares: CpuShares
    softirqs: SoftirqRates | None
    softnet: SoftnetRates | None
    interrupts: float | None = None
    """Of the chosen NIC, per second; None: not known, or no NIC is chosen."""


def cpu_rows(rates: Rates, interrupts: Mapping[int, float] | None = None) -> tuple[CpuRow, ...]:
    """By number. `interrupts`: of the chosen NIC, CPU id → per second."""
    rows = []
    for cpu, shares in sorted(rates.cpus.items()):
        of_nic = None
        if interrupts is not None:
            of_nic = interrupts.get(cpu, 0.0)
        rows.append(CpuRow(cpu, shares, rates.softirqs.get(cpu), rates.softnet.get(cpu), of_nic))
    return tuple(rows)


def _percent(share: float) -> Cell:
    return f"{100 * share:.0f}", dim_if(share < 0.005)


def _busy(row: CpuRow) -> Cell:
    text, tone = _percent(row.shares.busy)
    return f"{text}%", tone


def _time(kind: str) -> Callable[[CpuRow], Cell]:
    def cell(row: CpuRow) -> Cell:
        if not _is_reported(row, kind):
            return NOT_REPORTED
        return _percent(getattr(row.shares, kind))

    return cell


def _is_reported(row: CpuRow, kind: str) -> bool:
    return row.shares.split or kind in REPORTED_WITHOUT_SPLIT


def _softirq(row: CpuRow) -> Cell:
    if not row.shares.split:
        return f"{units.UNKNOWN}  ", "dim"
    text, tone = _percent(row.shares.softirq)
    if row.shares.softirq > SOFTIRQ_BOTTLENECK_SHARE:
        return f"{text} ✖", "bad"
    return f"{text}  ", tone


def _steal(row: CpuRow) -> Cell:
    if not row.shares.split:
        return NOT_REPORTED
    text, tone = _percent(row.shares.steal)
    if row.shares.steal > STEAL_WARNING_SHARE:
        return text, "warn"
    return text, tone


def _rate(
    read: Callable[[CpuRow], float | None], tone: Tone = "normal"
) -> Callable[[CpuRow], Cell]:
    def cell(row: CpuRow) -> Cell:
        value = read(row)
        return units.quantity(value, ""), tone if value else "dim"

    return cell


def _softnet(name: str, tone: Tone = "normal") -> Callable[[CpuRow], Cell]:
    return _rate(lambda row: getattr(row.softnet, name, None), tone)


def _softirqs(name: str) -> Callable[[CpuRow], Cell]:
    return _rate(lambda row: getattr(row.softirqs, name, None))


COLUMNS: tuple[Column[CpuRow], ...] = (
    Column("cpu", "CPU", "", 4, 1, "right", lambda row: (str(row.cpu), "title"),
        source="number of the CPU (/proc/stat)"),
    Column("busy", "busy", "%", 4, 2, "right", _busy,
        source="all but idle and iowait (/proc/stat)"),
    Column("user", "user", "%", 4, 7, "right", _time("user"),
        source="user and nice, without guest (/proc/stat)"),
    Column("system", "sys", "%", 3, 7, "right", _time("system"),
        source="kernel (/proc/stat system)"),
    Column("irq", "irq", "%", 3, 6, "right", _time("irq"),
        source="hard interrupts (/proc/stat irq)"),
    Column("softirq", "soft", "%", 5, 3, "right", _softirq,
        source="softirqs, most of packet processing (/proc/stat softirq)"),
    Column("steal", "steal", "%", 5, 5, "right", _steal,
        source="taken by the hypervisor for others (/proc/stat steal)"),
    Column("guest", "guest", "%", 5, 10, "right", _time("guest"),
        source="virtual machines on this host (/proc/stat guest + guest_nice)"),
    Column("interrupts", "IRQ/s", "1/s", 6, 3, "right", _rate(lambda row: row.interrupts),
        source="interrupts of the selected NIC on this CPU (/proc/interrupts; sysfs "
               "per_cpu_count)"),
    Column("packets", "net pkt/s", "packets/s", 9, 4, "right", _softnet("processed"),
        source="packets processed (/proc/net/softnet_stat column 1)"),
    Column("squeezed", "sqz", "1/s", 6, 8, "right", _softnet("time_squeeze", "warn"),
        source="time_squeeze: NAPI budget or time used up with packets left "
               "(/proc/net/softnet_stat column 3)"),
    Column("dropped", "drop", "packets/s", 6, 8, "right", _softnet("dropped", "bad"),
        source="packets dropped because the backlog was full (/proc/net/softnet_stat column 2)"),
    Column("net_rx", "NET_RX", "1/s", 6, 11, "right",
        _softirqs("net_rx"),
        source="runs of the softirq NET_RX (/proc/softirqs)"),
    Column("net_tx", "NET_TX", "1/s", 6, 11, "right",
        _softirqs("net_tx"),
        source="runs of the softirq NET_TX (/proc/softirqs)"),
    Column("rps", "RPS", "1/s", 6, 12, "right", _softnet("received_rps"),
        source="wake-ups by RPS of another CPU (/proc/net/softnet_stat column 10)"),
    Column("limited", "limited", "1/s", 7, 13, "right", _softnet("flow_limit", "warn"),
        source="packets dropped by the flow limit (/proc/net/softnet_stat column 11)"),
)  # fmt: skip
