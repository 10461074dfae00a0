"""Samples of the newest snapshot of a host: raw counters of the kernel, and facts of the host.

The number of objects of each kind is limited per host; the others are counted (``nictop_host_left_out``). Those with
the lowest numbers are exported, so that the set of series is stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from nictop.metrics.catalogue import METRIC_INDEXES
from nictop.metrics.series import (
    HostSeries,
    Labels,
    LinkLayout,
    ProcessorLines,
    Sample,
    host_series,
    label_value,
    line_start,
    sample,
)
from nictop.model.queues.driver_counters import QueuePositions
from nictop.model.snapshot import MAX_VF_RATES_AGE_SECONDS, Snapshot
from nictop.probe.records import CPU_TIMES, QUEUE_COUNTERS, SOFTIRQS, VF_COUNTERS, Counters
from nictop.rules import Diagnosis
from nictop.rules.finding import SEVERITIES

MAX_EXPORTED_QUEUES = 2048
"""Queues of one direction, of all links of a host together."""
MAX_EXPORTED_INTERRUPTS = 4096
"""Pairs of vector and CPU."""
MAX_EXPORTED_CPUS = 512
MAX_EXPORTED_VFS = 512
MAX_EXPORTED_FINDINGS = 256
MAX_CACHED_LINE_STARTS = 4 * (MAX_EXPORTED_QUEUES + MAX_EXPORTED_INTERRUPTS)
"""More are only needed for a host whose CPUs and queues get new numbers all the time."""

MAX_BACKWARD_SECONDS = 3.0
"""Idle and iowait time of a CPU may decrease without a reset (proc(5)): up to this, the last value is repeated."""

_QUEUE_METRICS = tuple(METRIC_INDEXES[f"nictop_queue_{what}"] for what in ("packets", "bytes", "drops"))
_QUEUE = {
    side: tuple(QUEUE_COUNTERS.index(f"{side}_{what}") for what in ("packets", "bytes", "drops"))
    for side in ("rx", "tx")
}
_NOTHING: tuple[int | None, ...] = (None,) * len(QUEUE_COUNTERS)
_NO_NUMBERS = (None, None, None)
_VF = tuple(
    (METRIC_INDEXES[f"nictop_vf_{what}"], side, VF_COUNTERS.index(f"{side}_{counter}"))
    for side in ("rx", "tx")
    for counter, what in (("bytes", "bytes"), ("packets", "packets"), ("dropped", "drops"))
)
_SOFTNET = tuple(
    METRIC_INDEXES[f"nictop_softnet_{name}"]
    for name in ("processed", "dropped", "times_squeezed", "received_rps", "flow_limit")
)
_INTERRUPTS, _SOFTIRQS = METRIC_INDEXES["nictop_interrupts"], METRIC_INDEXES["nictop_softirqs"]
_GUEST = {"guest": "user", "guest_nice": "nice"}
_CPU_METRICS = tuple(
    (METRIC_INDEXES["nictop_cpu_guest_seconds" if mode in _GUEST else "nictop_cpu_seconds"], _GUEST.get(mode, mode))
    for mode in CPU_TIMES
)
_UNSTEADY = tuple(CPU_TIMES.index(mode) for mode in ("idle", "iowait"))


class HostCollector:
    """Samples of the host with this name. Stores what a scrape needs of the one before."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._cached: HostSeries | None = None
        self._cached_for: tuple[object, object, object] = (None, None, None)
        self._boot: str | None = None
        self._unsteady: dict[tuple[int, int], int] = {}
        """(CPU, position in `CPU_TIMES`) → the highest value exported."""

    def samples(self, snapshot: Snapshot, age: float) -> list[Sample]:
        """All samples of a host that is up; `age`: seconds since its counters were received."""
        counters = snapshot.counters
        if counters is None:
            return []
        series = self._series(snapshot)
        left_out = {"links": series.left_out}
        samples = [*series.facts, sample("nictop_host_data_age_seconds", (self.host,), age)]
        if snapshot.inventory is not None:
            inventory_age = max(0.0, counters.time - snapshot.inventory.time)
            samples.append(sample("nictop_host_inventory_age_seconds", (self.host,), inventory_age))
        samples += _links(series, counters)
        samples += self._queues(series, counters, left_out)
        samples += self._virtual_functions(series, snapshot, left_out)
        samples += self._interrupts(series, counters, left_out)
        samples += self._processors(series, snapshot, left_out)
        samples += [sample("nictop_host_left_out", (self.host, what), number) for what, number in left_out.items()]
        return samples

    def _series(self, snapshot: Snapshot) -> HostSeries:
        seen = (snapshot.links, snapshot.inventory, snapshot.hello)
        if self._cached is None or any(new is not old for new, old in zip(seen, self._cached_for, strict=True)):
            self._cached, self._cached_for = host_series(self.host, snapshot), seen
        elif (
            len(self._cached.line_starts) > MAX_CACHED_LINE_STARTS
            or len(self._cached.processors) > MAX_CACHED_LINE_STARTS
        ):
            self._cached.line_starts.clear()
            self._cached.processors.clear()
        return self._cached

    # ---------------------------------------------------------------------------------------------- queues, VFs

    def _queues(self, series: HostSeries, counters: Counters, left_out: dict[str, int]) -> list[Sample]:
        samples: list[Sample] = []
        room, beyond = MAX_EXPORTED_QUEUES, 0
        for one in series.links:
            rows = _queue_rows(one, counters)
            for side, queue, values in rows[:room]:
                key = (one.device, side, queue)
                lines = series.line_starts.get(key)
                if lines is None:
                    labels = (self.host, one.device, side, str(queue))
                    lines = series.line_starts[key] = tuple(line_start(index, labels) for index in _QUEUE_METRICS)
                for index, line, value in zip(_QUEUE_METRICS, lines, values, strict=True):
                    if value is not None:
                        samples.append((index, line, value))
            beyond += max(0, len(rows) - room)
            room = max(0, room - len(rows))
        left_out["queues"] = beyond
        return samples

    def _virtual_functions(self, series: HostSeries, snapshot: Snapshot, left_out: dict[str, int]) -> list[Sample]:
        """The probe reads them at most once per second: they may be older than the other counters."""
        counters, base = snapshot.counters, snapshot.vf_base
        found = counters.vfs if counters is not None else {}
        if (
            not found
            and counters is not None
            and base is not None
            and counters.time - base.time <= MAX_VF_RATES_AGE_SECONDS
        ):
            found = base.vfs
        rows = [
            (one.device, str(number), values)
            for one in series.links
            for number, values in sorted(found.get(one.link.ifindex, {}).items())
        ]
        left_out["vfs"] = max(0, len(rows) - MAX_EXPORTED_VFS)
        return [
            (index, line_start(index, (self.host, device, number, side)), values[position])
            for device, number, values in rows[:MAX_EXPORTED_VFS]
            for index, side, position in _VF
            if position < len(values)
        ]

    # ------------------------------------------------------------------------------------- interrupts, processors

    def _interrupts(self, series: HostSeries, counters: Counters, left_out: dict[str, int]) -> list[Sample]:
        samples: list[Sample] = []
        for number, vector in series.vectors.items():
            for cpu, count in sorted(counters.interrupts.get(number, {}).items()):
                line = series.line_starts.get((number, cpu))
                if line is None:
                    line = series.line_starts[number, cpu] = (line_start(_INTERRUPTS, (*vector, str(cpu))),)
                samples.append((_INTERRUPTS, line[0], count))
        for one in series.links:
            for channel, values in sorted(counters.channels.get(one.link.ifindex, {}).items()):
                if values and values[0] is not None:
                    name = f"vmbus-{channel}"
                    labels = (self.host, one.device, name, name, one.channels.get(channel, ""), "")
                    samples.append((_INTERRUPTS, line_start(_INTERRUPTS, labels), values[0]))
        left_out["interrupts"] = max(0, len(samples) - MAX_EXPORTED_INTERRUPTS)
        return samples[:MAX_EXPORTED_INTERRUPTS]

    def _processors(self, series: HostSeries, snapshot: Snapshot, left_out: dict[str, int]) -> list[Sample]:
        counters = snapshot.counters
        if counters is None:
            return []
        ticks = max(1, snapshot.hello.clock_ticks) if snapshot.hello is not None else 100
        boot = snapshot.hello.boot_id if snapshot.hello is not None else None
        if boot != self._boot:
            self._boot, self._unsteady = boot, {}
        samples: list[Sample] = []
        numbers = sorted(counters.cpus.keys() | counters.softirqs.keys() | counters.softnet.keys())
        for cpu in numbers[:MAX_EXPORTED_CPUS]:
            times, softirqs, softnet = self._processor_lines(series, cpu)
            ticked = self._steady(cpu, counters.cpus.get(cpu, ()), ticks)
            samples += [(index, line, value / ticks) for (index, line), value in zip(times, ticked, strict=False)]
            for lines, values in (softirqs, counters.softirqs.get(cpu, ())), (softnet, counters.softnet.get(cpu, ())):
                samples += [(index, line, value) for (index, line), value in zip(lines, values, strict=False)]
        left_out["cpus"] = max(0, len(numbers) - MAX_EXPORTED_CPUS)
        return samples

    def _processor_lines(self, series: HostSeries, cpu: int) -> ProcessorLines:
        lines = series.processors.get(cpu)
        if lines is None:
            key = (self.host, str(cpu))
            lines = series.processors[cpu] = (
                tuple((index, line_start(index, (*key, mode))) for index, mode in _CPU_METRICS),
                tuple((_SOFTIRQS, line_start(_SOFTIRQS, (*key, softirq))) for softirq in SOFTIRQS),
                tuple((index, line_start(index, key)) for index in _SOFTNET),
            )
        return lines

    def _steady(self, cpu: int, times: tuple[int, ...], ticks: int) -> list[int]:
        """The times of a CPU, without small steps backwards: Prometheus would take them for a restart from zero."""
        steady = list(times)
        for position in _UNSTEADY:
            if position < len(steady):
                before = self._unsteady.get((cpu, position), 0)
                if 0 < before - steady[position] <= MAX_BACKWARD_SECONDS * ticks:
                    steady[position] = before
                self._unsteady[cpu, position] = steady[position]
        return steady


def _links(series: HostSeries, counters: Counters) -> list[Sample]:
    samples: list[Sample] = []
    for one in series.links:
        values = counters.links.get(one.link.ifindex, ())
        end = len(values)
        samples += [(index, labels, values[position]) for position, index, labels in one.counters if position < end]
    return samples


QueueRow = tuple[str, int, tuple[int | None, int | None, int | None]]


def _queue_rows(one: LinkLayout, counters: Counters) -> list[QueueRow]:
    """("rx" or "tx", queue number, (packets, bytes, drops)) by direction and number; queues without counters are left
    out. Values of the netdev netlink family are preferred to the driver's own counters."""
    driver = counters.driver.get(one.link.ifindex, ())
    if len(driver) != len(one.link.ethtool.driver_counter_names or ()):
        driver = ()
    counted = {
        (side, queue): values
        for side, queue, values in counters.queues.get(one.link.ifindex, ())
        if side in _QUEUE and len(values) == len(QUEUE_COUNTERS)
    }
    found: list[QueueRow] = []
    for key in sorted(counted.keys() | one.queues.keys() if driver else counted):
        values = counted.get(key, _NOTHING)
        first, second, third = _QUEUE[key[0]]
        row = (values[first], values[second], values[third])
        if driver and None in row and key in one.queues:
            row = _with_driver(row, driver, one.queues[key])
        if row != _NO_NUMBERS:
            found.append((*key, row))
    return found


def _with_driver(
    row: tuple[int | None, int | None, int | None], driver: tuple[int, ...], positions: QueuePositions
) -> tuple[int | None, int | None, int | None]:
    """The counters of a queue; missing ones are taken from those of the driver."""
    packets, size, drops = row
    return (
        _driver_sum(driver, positions.packets) if packets is None else packets,
        _driver_sum(driver, positions.bytes) if size is None else size,
        _driver_sum(driver, positions.drops) if drops is None else drops,
    )


def _driver_sum(driver: tuple[int, ...], positions: tuple[int, ...]) -> int | None:
    return sum(driver[position] for position in positions) if positions else None


def finding_samples(host: str, diagnosis: Diagnosis) -> Iterator[Sample]:
    """The findings of one host, highest severity first."""
    findings = [one for one in diagnosis.findings if one.host == host]
    rows: dict[tuple[str, ...], Labels] = {}
    for one in findings:
        key = (one.rule, one.severity, label_value(one.subject))
        rows.setdefault(key, (host, one.rule, one.severity, one.subject))
    for labels in islice(rows.values(), MAX_EXPORTED_FINDINGS):
        yield sample("nictop_finding", labels, 1)
    for severity in SEVERITIES:
        number = sum(one.severity == severity for one in findings)
        yield sample("nictop_host_findings", (host, severity), number)
    skipped = {one.rule for one in diagnosis.skipped if one.host == host}
    yield sample("nictop_host_skipped_rules", (host,), len(skipped))
    yield sample("nictop_host_left_out", (host, "findings"), max(0, len(rows) - MAX_EXPORTED_FINDINGS))
