"""The newest snapshot of a host becomes samples: raw counters as the kernel has them, and what is known of the host.

Reads nothing. Everything has a limit per host, and what is beyond it is counted (``nictop_host_left_out``): the lowest
numbers stay, so that series do not come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from nictop.metrics.catalogue import PLACES
from nictop.metrics.series import (
    HostSeries,
    Labels,
    LinkLayout,
    ProcessorLines,
    Sample,
    label_value,
    layout,
    line_start,
    sample,
)
from nictop.model.queues.driver_counters import QueuePositions
from nictop.model.snapshot import VF_AGE, Snapshot
from nictop.probe.records import CPU_TIMES, QUEUE_COUNTERS, SOFTIRQS, VF_COUNTERS, Counters
from nictop.rules import Diagnosis
from nictop.rules.finding import SEVERITIES

MOST_QUEUES = 2048
"""Of one direction each, all links of a host together."""
MOST_INTERRUPTS = 4096
"""Pairs of vector and CPU."""
MOST_CPUS = 512
MOST_VFS = 512
MOST_FINDINGS = 256
MOST_KEPT = 4 * (MOST_QUEUES + MOST_INTERRUPTS)
"""Beginnings of lines; more are only of a host whose CPUs and queues have other numbers all the time."""

BACKWARDS = 3.0
"""Seconds that idle and iowait of a CPU may run backwards (proc(5)) without being a reset: they stand still then."""

_QUEUE_PLACES = tuple(PLACES[f"nictop_queue_{what}"] for what in ("packets", "bytes", "drops"))
_QUEUE = {
    side: tuple(QUEUE_COUNTERS.index(f"{side}_{what}") for what in ("packets", "bytes", "drops"))
    for side in ("rx", "tx")
}
_NOTHING: tuple[int | None, ...] = (None,) * len(QUEUE_COUNTERS)
_NO_NUMBERS = (None, None, None)
_VF = tuple(
    (PLACES[f"nictop_vf_{what}"], side, VF_COUNTERS.index(f"{side}_{counter}"))
    for side in ("rx", "tx")
    for counter, what in (("bytes", "bytes"), ("packets", "packets"), ("dropped", "drops"))
)
_SOFTNET = tuple(
    PLACES[f"nictop_softnet_{name}"]
    for name in ("processed", "dropped", "times_squeezed", "received_rps", "flow_limit")
)
_INTERRUPTS, _SOFTIRQS = PLACES["nictop_interrupts"], PLACES["nictop_softirqs"]
_GUEST = {"guest": "user", "guest_nice": "nice"}
_CPU_PLACES = tuple(
    (PLACES["nictop_cpu_guest_seconds" if mode in _GUEST else "nictop_cpu_seconds"], _GUEST.get(mode, mode))
    for mode in CPU_TIMES
)
_UNSTEADY = tuple(CPU_TIMES.index(mode) for mode in ("idle", "iowait"))


class HostCollector:
    """Samples of one host, named `host`. Keeps what one answer needs to know of the one before."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._layout: HostSeries | None = None
        self._seen: tuple[object, object, object] = (None, None, None)
        self._boot: str | None = None
        self._unsteady: dict[tuple[int, int], int] = {}
        """(CPU, position in `CPU_TIMES`) → the highest value that was told."""

    def samples(self, snapshot: Snapshot, age: float) -> list[Sample]:
        """Everything of a host that is up; `age`: seconds since its numbers arrived."""
        counters = snapshot.counters
        if counters is None:
            return []
        known = self._known(snapshot)
        left_out = {"links": known.left_out}
        said = [*known.facts, sample("nictop_host_data_age_seconds", (self.host,), age)]
        if snapshot.inventory is not None:
            inventory_age = max(0.0, counters.time - snapshot.inventory.time)
            said.append(sample("nictop_host_inventory_age_seconds", (self.host,), inventory_age))
        said += _links(known, counters)
        said += self._queues(known, counters, left_out)
        said += self._virtual_functions(known, snapshot, left_out)
        said += self._interrupts(known, counters, left_out)
        said += self._processors(known, snapshot, left_out)
        said += [sample("nictop_host_left_out", (self.host, what), number) for what, number in left_out.items()]
        return said

    def _known(self, snapshot: Snapshot) -> HostSeries:
        seen = (snapshot.links, snapshot.inventory, snapshot.hello)
        if self._layout is None or any(new is not old for new, old in zip(seen, self._seen, strict=True)):
            self._layout, self._seen = layout(self.host, snapshot), seen
        elif len(self._layout.kept) > MOST_KEPT or len(self._layout.processors) > MOST_KEPT:
            self._layout.kept.clear()
            self._layout.processors.clear()
        return self._layout

    # ---------------------------------------------------------------------------------------------- queues, VFs

    def _queues(self, known: HostSeries, counters: Counters, left_out: dict[str, int]) -> list[Sample]:
        said: list[Sample] = []
        room, beyond = MOST_QUEUES, 0
        for one in known.links:
            rows = _queue_rows(one, counters)
            for side, queue, values in rows[:room]:
                key = (one.device, side, queue)
                lines = known.kept.get(key)
                if lines is None:
                    labels = (self.host, one.device, side, str(queue))
                    lines = known.kept[key] = tuple(line_start(place, labels) for place in _QUEUE_PLACES)
                for place, line, value in zip(_QUEUE_PLACES, lines, values, strict=True):
                    if value is not None:
                        said.append((place, line, value))
            beyond += max(0, len(rows) - room)
            room = max(0, room - len(rows))
        left_out["queues"] = beyond
        return said

    def _virtual_functions(self, known: HostSeries, snapshot: Snapshot, left_out: dict[str, int]) -> list[Sample]:
        """The probe reads them once a second at most: the newest reading may be older than the other counters."""
        counters, base = snapshot.counters, snapshot.vf_base
        found = counters.vfs if counters is not None else {}
        if not found and counters is not None and base is not None and counters.time - base.time <= VF_AGE:
            found = base.vfs
        rows = [
            (one.device, str(number), values)
            for one in known.links
            for number, values in sorted(found.get(one.link.ifindex, {}).items())
        ]
        left_out["vfs"] = max(0, len(rows) - MOST_VFS)
        return [
            (place, line_start(place, (self.host, device, number, side)), values[position])
            for device, number, values in rows[:MOST_VFS]
            for place, side, position in _VF
            if position < len(values)
        ]

    # ------------------------------------------------------------------------------------- interrupts, processors

    def _interrupts(self, known: HostSeries, counters: Counters, left_out: dict[str, int]) -> list[Sample]:
        said: list[Sample] = []
        for number, vector in known.vectors.items():
            for cpu, count in sorted(counters.interrupts.get(number, {}).items()):
                line = known.kept.get((number, cpu))
                if line is None:
                    line = known.kept[number, cpu] = (line_start(_INTERRUPTS, (*vector, str(cpu))),)
                said.append((_INTERRUPTS, line[0], count))
        for one in known.links:
            for channel, values in sorted(counters.channels.get(one.link.ifindex, {}).items()):
                if values and values[0] is not None:
                    name = f"vmbus-{channel}"
                    labels = (self.host, one.device, name, name, one.channels.get(channel, ""), "")
                    said.append((_INTERRUPTS, line_start(_INTERRUPTS, labels), values[0]))
        left_out["interrupts"] = max(0, len(said) - MOST_INTERRUPTS)
        return said[:MOST_INTERRUPTS]

    def _processors(self, known: HostSeries, snapshot: Snapshot, left_out: dict[str, int]) -> list[Sample]:
        counters = snapshot.counters
        if counters is None:
            return []
        ticks = max(1, snapshot.hello.clock_ticks) if snapshot.hello is not None else 100
        boot = snapshot.hello.boot_id if snapshot.hello is not None else None
        if boot != self._boot:
            self._boot, self._unsteady = boot, {}
        said: list[Sample] = []
        numbers = sorted(counters.cpus.keys() | counters.softirqs.keys() | counters.softnet.keys())
        for cpu in numbers[:MOST_CPUS]:
            times, softirqs, softnet = self._processor_lines(known, cpu)
            ticked = self._steady(cpu, counters.cpus.get(cpu, ()), ticks)
            said += [(place, line, value / ticks) for (place, line), value in zip(times, ticked, strict=False)]
            for lines, values in (softirqs, counters.softirqs.get(cpu, ())), (softnet, counters.softnet.get(cpu, ())):
                said += [(place, line, value) for (place, line), value in zip(lines, values, strict=False)]
        left_out["cpus"] = max(0, len(numbers) - MOST_CPUS)
        return said

    def _processor_lines(self, known: HostSeries, cpu: int) -> ProcessorLines:
        lines = known.processors.get(cpu)
        if lines is None:
            key = (self.host, str(cpu))
            lines = known.processors[cpu] = (
                tuple((place, line_start(place, (*key, mode))) for place, mode in _CPU_PLACES),
                tuple((_SOFTIRQS, line_start(_SOFTIRQS, (*key, softirq))) for softirq in SOFTIRQS),
                tuple((place, line_start(place, key)) for place in _SOFTNET),
            )
        return lines

    def _steady(self, cpu: int, times: tuple[int, ...], ticks: int) -> list[int]:
        """The times of a CPU, where a small step backwards does not look like a restart from zero."""
        steady = list(times)
        for position in _UNSTEADY:
            if position < len(steady):
                before = self._unsteady.get((cpu, position), 0)
                if 0 < before - steady[position] <= BACKWARDS * ticks:
                    steady[position] = before
                self._unsteady[cpu, position] = steady[position]
        return steady


def _links(known: HostSeries, counters: Counters) -> list[Sample]:
    said: list[Sample] = []
    for one in known.links:
        values = counters.links.get(one.link.ifindex, ())
        end = len(values)
        said += [(place, labels, values[position]) for position, place, labels in one.counters if position < end]
    return said


QueueRow = tuple[str, int, tuple[int | None, int | None, int | None]]


def _queue_rows(one: LinkLayout, counters: Counters) -> list[QueueRow]:
    """("rx" or "tx", queue number, (packets, bytes, drops)) by direction and number; queues that nobody counts are
    absent. The netdev family is believed first, the driver's own counters fill what it does not have."""
    driver = counters.driver.get(one.link.ifindex, ())
    if len(driver) != len(one.link.ethtool.driver_counter_names or ()):
        driver = ()
    told = {
        (side, queue): values
        for side, queue, values in counters.queues.get(one.link.ifindex, ())
        if side in _QUEUE and len(values) == len(QUEUE_COUNTERS)
    }
    found: list[QueueRow] = []
    for key in sorted(told.keys() | one.queues.keys() if driver else told):
        values = told.get(key, _NOTHING)
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
    """The numbers of a queue, what is missing taken from the counters of its driver."""
    packets, size, drops = row
    return (
        _driver_sum(driver, positions.packets) if packets is None else packets,
        _driver_sum(driver, positions.bytes) if size is None else size,
        _driver_sum(driver, positions.drops) if drops is None else drops,
    )


def _driver_sum(driver: tuple[int, ...], places: tuple[int, ...]) -> int | None:
    return sum(driver[place] for place in places) if places else None


def finding_samples(host: str, diagnosis: Diagnosis) -> Iterator[Sample]:
    """What the rules say about one host, the worst first."""
    findings = [one for one in diagnosis.findings if one.host == host]
    rows: dict[tuple[str, ...], Labels] = {}
    for one in findings:
        key = (one.rule, one.severity, label_value(one.subject))
        rows.setdefault(key, (host, one.rule, one.severity, one.subject))
    for labels in islice(rows.values(), MOST_FINDINGS):
        yield sample("nictop_finding", labels, 1)
    for severity in SEVERITIES:
        number = sum(one.severity == severity for one in findings)
        yield sample("nictop_host_findings", (host, severity), number)
    skipped = {one.rule for one in diagnosis.skipped if one.host == host}
    yield sample("nictop_host_skipped_rules", (host,), len(skipped))
    yield sample("nictop_host_left_out", (host, "findings"), max(0, len(rows) - MOST_FINDINGS))
