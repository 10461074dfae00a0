"""Samples of the newest snapshot of a host: raw counters of the kernel, and facts of the host.

The number of objects of each kind is limited per host; the others are counted
(``nictop_host_left_out``). Those with the lowest numbers are exported, so that the set of series is
stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from nictop.metrics.catalogue import METRIC_INDEXES
from nictop.metrics.series import (
    MAX_EXPORTED_VFS,
    HostSeries,
    Labels,
    LinkLayout,
    ProcessorLines,
    Sample,
    have_same_series,
    host_series,
    label_value,
    line_start,
    sample,
)
from nictop.model.devices.ports import newest_ports
from nictop.model.queues.driver_counters import QueuePositions
from nictop.model.snapshot import MAX_VF_RATES_AGE_SECONDS, Snapshot
from nictop.probe.records import (
    CPU_TIMES,
    PORT_COUNTERS,
    QUEUE_COUNTERS,
    SOFTIRQS,
    VF_COUNTERS,
    Counters,
)
from nictop.rules import Diagnosis
from nictop.rules.finding import SEVERITIES

MAX_EXPORTED_QUEUES = 2048
"""Queues of one direction, of all links of a host together."""
MAX_EXPORTED_INTERRUPTS = 4096
"""Pairs of vector and CPU."""
MAX_EXPORTED_CPUS = 512
MAX_EXPORTED_FINDINGS = 256
MAX_CACHED_LINE_STARTS = 4 * (MAX_EXPORTED_QUEUES + MAX_EXPORTED_INTERRUPTS)
"""More are only needed for a host whose CPUs and queues get new numbers all the time."""

DEFAULT_CLOCK_TICKS = 100
"""Per second, of a host whose hello is not known."""
MAX_BACKWARD_SECONDS = 3.0
"""Idle and iowait time of a CPU may decrease without a reset (proc(5)): up to this, the last value
is repeated."""

_QUEUE_METRICS = tuple(
    METRIC_INDEXES[f"nictop_queue_{what}"] for what in ("packets", "bytes", "drops")
)
_QUEUE = {
    side: tuple(QUEUE_COUNTERS.index(f"{side}_{what}") for what in ("packets", "bytes", "drops"))
    for side in ("rx", "tx")
}
_NO_NUMBERS = (None, None, None)
_PORT = tuple(
    (METRIC_INDEXES[f"nictop_port_{what}"], side, f"{side}_{what}")
    for side in ("rx", "tx")
    for what in ("bytes", "packets")
)
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
    (
        METRIC_INDEXES["nictop_cpu_guest_seconds" if mode in _GUEST else "nictop_cpu_seconds"],
        _GUEST.get(mode, mode),
    )
    for mode in CPU_TIMES
)
_UNSTEADY = tuple(CPU_TIMES.index(mode) for mode in ("idle", "iowait"))


class HostCollector:
    """Samples of the host with this name. Stores what a scrape needs of the one before."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._cached: HostSeries | None = None
        self._cached_for: Snapshot | None = None
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
        samples += self._ports(series, snapshot)
        samples += self._interrupts(series, counters, left_out)
        samples += self._processors(series, snapshot, left_out)
        samples += [
            sample("nictop_host_left_out", (self.host, what), number)
            for what, number in left_out.items()
        ]
        return samples

    def _series(self, snapshot: Snapshot) -> HostSeries:
        if self._cached is None or not have_same_series(self._cached_for, snapshot):
            self._cached = host_series(self.host, snapshot, self._cached)
        self._cached_for = snapshot
        cached = self._cached
        if max(len(cached.line_starts), len(cached.processors)) > MAX_CACHED_LINE_STARTS:
            cached.line_starts.clear()
            cached.processors.clear()
        return cached

    # ---------------------------------------------------------------------------------- queues, VFs

    def _queues(
        self, series: HostSeries, counters: Counters, left_out: dict[str, int]
    ) -> list[Sample]:
        samples: list[Sample] = []
        room, beyond = MAX_EXPORTED_QUEUES, 0
        packets_metric, bytes_metric, drops_metric = _QUEUE_METRICS
        for layout in series.links:
            rows = _queue_rows(layout, counters)
            for side, queue, (packets, size, drops) in rows[:room]:
                key = (layout.device, side, queue)
                lines = series.line_starts.get(key)
                if lines is None:
                    labels = (self.host, layout.device, side, str(queue))
                    lines = series.line_starts[key] = tuple(
                        [line_start(index, labels) for index in _QUEUE_METRICS]
                    )
                if packets is not None:
                    samples.append((packets_metric, lines[0], packets))
                if size is not None:
                    samples.append((bytes_metric, lines[1], size))
                if drops is not None:
                    samples.append((drops_metric, lines[2], drops))
            beyond += max(0, len(rows) - room)
            room = max(0, room - len(rows))
        left_out["queues"] = beyond
        return samples

    def _virtual_functions(
        self, series: HostSeries, snapshot: Snapshot, left_out: dict[str, int]
    ) -> list[Sample]:
        """The probe reads them at most once per second: they may be older than the other
        counters."""
        found = _newest_vfs(snapshot)
        rows = []
        for layout in series.links:
            for number, values in sorted(found.get(layout.link.ifindex, {}).items()):
                rows.append((layout.device, str(number), values))
        left_out["vfs"] = max(
            0, len(rows) - MAX_EXPORTED_VFS, series.virtual_functions - MAX_EXPORTED_VFS
        )
        samples: list[Sample] = []
        for device, name, values in rows[:MAX_EXPORTED_VFS]:
            for index, side, position in _VF:
                if position < len(values):
                    line = line_start(index, (self.host, device, name, side))
                    samples.append((index, line, values[position]))
        return samples

    def _ports(self, series: HostSeries, snapshot: Snapshot) -> list[Sample]:
        """Of NICs with VFs."""
        found = newest_ports(snapshot)
        samples: list[Sample] = []
        for layout in series.links:
            counted = found.get(layout.link.ifindex)
            if counted is None or not counted.source:
                continue
            named = dict(zip(PORT_COUNTERS, counted.numbers, strict=False))
            for index, side, counter in _PORT:
                value = named.get(counter)
                if value is not None:
                    labels = (self.host, layout.device, side, counted.source)
                    samples.append((index, line_start(index, labels), value))
        return samples

    # ----------------------------------------------------------------------- interrupts, processors

    def _interrupts(
        self, series: HostSeries, counters: Counters, left_out: dict[str, int]
    ) -> list[Sample]:
        samples = [*self._vectors(series, counters), *self._channels(series, counters)]
        left_out["interrupts"] = max(0, len(samples) - MAX_EXPORTED_INTERRUPTS)
        return samples[:MAX_EXPORTED_INTERRUPTS]

    @staticmethod
    def _vectors(series: HostSeries, counters: Counters) -> list[Sample]:
        """Of each vector on each CPU."""
        samples: list[Sample] = []
        for number, vector in series.vectors.items():
            counts = counters.interrupts.get(number)
            if not counts:
                continue
            for cpu, count in sorted(counts.items()) if len(counts) > 1 else counts.items():
                line = series.line_starts.get((vector, cpu))
                if line is None:
                    line = series.line_starts[vector, cpu] = (
                        line_start(_INTERRUPTS, (*vector, str(cpu))),
                    )
                samples.append((_INTERRUPTS, line[0], count))
        return samples

    def _channels(self, series: HostSeries, counters: Counters) -> list[Sample]:
        """Of each VMBus channel, in place of vectors."""
        samples: list[Sample] = []
        for layout in series.links:
            for channel, values in sorted(counters.channels.get(layout.link.ifindex, {}).items()):
                if not values or values[0] is None:
                    continue
                name = f"vmbus-{channel}"
                queue = layout.channels.get(channel, "")
                labels = (self.host, layout.device, name, name, queue, "")
                samples.append((_INTERRUPTS, line_start(_INTERRUPTS, labels), values[0]))
        return samples

    def _processors(
        self, series: HostSeries, snapshot: Snapshot, left_out: dict[str, int]
    ) -> list[Sample]:
        counters = snapshot.counters
        if counters is None:
            return []
        ticks, boot = DEFAULT_CLOCK_TICKS, None
        if snapshot.hello is not None:
            ticks, boot = max(1, snapshot.hello.clock_ticks), snapshot.hello.boot_id
        if boot != self._boot:
            self._boot, self._unsteady = boot, {}
        samples: list[Sample] = []
        numbers = sorted(counters.cpus.keys() | counters.softirqs.keys() | counters.softnet.keys())
        for cpu in numbers[:MAX_EXPORTED_CPUS]:
            times, softirqs, softnet = self._processor_lines(series, cpu)
            ticked = self._steady(cpu, counters.cpus.get(cpu, ()), ticks)
            samples += [
                (index, line, value / ticks)
                for (index, line), value in zip(times, ticked, strict=False)
            ]
            for lines, values in (
                (softirqs, counters.softirqs.get(cpu, ())),
                (softnet, counters.softnet.get(cpu, ())),
            ):
                samples += [
                    (index, line, value)
                    for (index, line), value in zip(lines, values, strict=False)
                ]
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
        """The times of a CPU, without small steps backwards: Prometheus would take them for a
        restart from zero."""
        steady = list(times)
        for position in _UNSTEADY:
            if position < len(steady):
                before = self._unsteady.get((cpu, position), 0)
                if 0 < before - steady[position] <= MAX_BACKWARD_SECONDS * ticks:
                    steady[position] = before
                self._unsteady[cpu, position] = steady[position]
        return steady


def _newest_vfs(snapshot: Snapshot) -> dict[int, dict[int, tuple[int, ...]]]:
    """As in `Counters`: of the newest record that has some, if it is not too old."""
    counters, base = snapshot.counters, snapshot.vf_base
    if counters is None:
        return {}
    if counters.vfs:
        return counters.vfs
    if base is None or counters.time - base.time > MAX_VF_RATES_AGE_SECONDS:
        return {}
    return base.vfs


def _links(series: HostSeries, counters: Counters) -> list[Sample]:
    samples: list[Sample] = []
    for layout in series.links:
        values = counters.links.get(layout.link.ifindex, ())
        end = len(values)
        samples += [
            (index, labels, values[position])
            for position, index, labels in layout.counters
            if position < end
        ]
    return samples


QueueRow = tuple[str, int, tuple[int | None, int | None, int | None]]


def _queue_rows(layout: LinkLayout, counters: Counters) -> list[QueueRow]:
    """("rx" or "tx", queue number, (packets, bytes, drops)) by direction and number; queues without
    counters are left out. Values of the netdev netlink family are preferred to the driver's own
    counters."""
    link = layout.link
    driver = counters.driver.get(link.ifindex, ())
    queues = layout.queues
    if not driver or len(driver) != len(link.ethtool.driver_counter_names or ()):
        queues = {}
    counted: dict[tuple[str, int], tuple[int | None, int | None, int | None]] = {}
    size = len(QUEUE_COUNTERS)
    for side, queue, values in counters.queues.get(link.ifindex, ()):
        places = _QUEUE.get(side)
        if places is not None and len(values) == size:
            first, second, third = places
            counted[side, queue] = (values[first], values[second], values[third])
    found: list[QueueRow] = []
    for key in sorted(counted.keys() | queues.keys() if queues else counted):
        row = counted.get(key, _NO_NUMBERS)
        if None in row and key in queues:
            row = _with_driver(row, driver, queues[key])
        if row != _NO_NUMBERS:
            found.append((*key, row))
    return found


def _with_driver(
    row: tuple[int | None, int | None, int | None],
    driver: tuple[int, ...],
    positions: QueuePositions,
) -> tuple[int | None, int | None, int | None]:
    """The counters of a queue; missing ones are taken from those of the driver."""
    packets, size, drops = row
    if packets is None:
        packets = _driver_sum(driver, positions.packets)
    if size is None:
        size = _driver_sum(driver, positions.bytes)
    if drops is None:
        drops = _driver_sum(driver, positions.drops)
    return packets, size, drops


def _driver_sum(driver: tuple[int, ...], positions: tuple[int, ...]) -> int | None:
    if not positions:
        return None
    return sum(driver[position] for position in positions)


def finding_samples(host: str, diagnosis: Diagnosis) -> Iterator[Sample]:
    """The findings of one host, highest severity first."""
    findings = [finding for finding in diagnosis.findings if finding.host == host]
    rows: dict[tuple[str, ...], Labels] = {}
    for finding in findings:
        key = (finding.rule, finding.severity, label_value(finding.subject))
        rows.setdefault(key, (host, finding.rule, finding.severity, finding.subject))
    for labels in islice(rows.values(), MAX_EXPORTED_FINDINGS):
        yield sample("nictop_finding", labels, 1)
    for severity in SEVERITIES:
        number = sum(finding.severity == severity for finding in findings)
        yield sample("nictop_host_findings", (host, severity), number)
    skipped = {check.rule for check in diagnosis.skipped if check.host == host}
    yield sample("nictop_host_skipped_rules", (host,), len(skipped))
    yield sample(
        "nictop_host_left_out", (host, "findings"), max(0, len(rows) - MAX_EXPORTED_FINDINGS)
    )
