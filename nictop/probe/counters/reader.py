"""One pass over all counters, up to ten times a second.

Reads rtnetlink RTM_GETSTATS, /proc/stat, /proc/softirqs and softnet_stat; for watched links
ETHTOOL_GSTATS and the queue counters of the `netdev` family; for physical functions the counters of
their VFs and of the port; and the interrupts, threads and vmbus channels of the last inventory.
Returns one `Sample` per pass. No fork, no asyncio; descriptors and buffers are kept, and modules of
counters that are not requested are not imported.
"""

from __future__ import annotations

import time

from nictop.probe.counters.cpus import CpuTimeReader
from nictop.probe.counters.links import LinkCounterReader, LinksIncomplete
from nictop.probe.counters.sample import Sample
from nictop.probe.counters.softirqs import SoftirqReader

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` costs half a MiB
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from nictop.probe.counters.on_demand.drivers import DriverCounterReader
    from nictop.probe.counters.on_demand.interrupt_table import InterruptTable
    from nictop.probe.counters.on_demand.ports import PortCounterReader
    from nictop.probe.counters.on_demand.queues import QueueCounterReader
    from nictop.probe.counters.on_demand.vfs import VfCounterReader
    from nictop.probe.counters.targets import TargetCounterReader, Targets

    Value = TypeVar("Value")

VF_INTERVAL_SECONDS = 0.95
"""Minimum between two requests for VF and port counters: once a second, with a margin for late
wake-ups."""


class CounterReader:
    """Takes one `Sample` per call of `read`. `sys` and `proc`: roots of sysfs and procfs."""

    def __init__(self, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._sys, self._proc = sys, proc
        self._links = LinkCounterReader()
        self._cpus = CpuTimeReader(proc)
        self._softirqs = SoftirqReader(proc)
        self._watched: tuple[int, ...] = ()
        self._physical_functions: tuple[int, ...] = ()
        self._vfs_due = 0.0
        self._driver_reader: DriverCounterReader | None = None
        self._queue_reader: QueueCounterReader | None = None
        self._vf_reader: VfCounterReader | None = None
        self._port_reader: PortCounterReader | None = None
        self._target_reader: TargetCounterReader | None = None
        self._machine_reader: InterruptTable | None = None

    def watch(self, ifindexes: Iterable[int]) -> None:
        """From now on read queue and driver counters of these links only."""
        self._watched = tuple(sorted(set(ifindexes)))

    def watch_machine(self, wanted: bool) -> None:
        """Read every line of /proc/interrupts from now on, or stop doing so."""
        if wanted and self._machine_reader is None:
            from nictop.probe.counters.on_demand.interrupt_table import InterruptTable

            self._machine_reader = InterruptTable(self._proc)
        elif not wanted and self._machine_reader is not None:
            self._machine_reader.close()
            self._machine_reader = None

    def set_targets(self, targets: Targets) -> None:
        """From now on read the interrupts, threads and channels of this inventory only."""
        if self._target_reader is None:
            from nictop.probe.counters.targets import TargetCounterReader

            self._target_reader = TargetCounterReader(sys=self._sys, proc=self._proc)
        self._target_reader.set_targets(targets)

    def find_physical_functions(self) -> None:
        """Find the links that have virtual functions. To be called at the start and after each
        event."""
        from nictop.probe.counters.on_demand.vfs import read_physical_functions

        self._physical_functions = read_physical_functions(self._sys)
        self._vfs_due = 0.0
        if self._port_reader is not None:
            self._port_reader.forget()

    def read(self) -> Sample:
        """One pass. Never raises: what could not be read is empty, with a reason in
        `Sample.unreadable`."""
        sample = Sample(time.monotonic())
        try:
            sample.links = self._links.read()
        except LinksIncomplete as error:
            sample.links = error.links
            sample.fail("links", error, "RTM_GETSTATS")
        except (OSError, ValueError) as error:
            sample.fail("links", error, "RTM_GETSTATS")
        try:
            sample.cpus = self._cpus.read()
        except (OSError, ValueError) as error:
            self._cpus.close()
            sample.fail("cpus", error, "/proc/stat")
        self._read_softirqs(sample)
        if self._target_reader is not None:
            self._target_reader.read(sample)
        if self._machine_reader is not None:
            self._read_machine(self._machine_reader, sample)
        if self._watched:
            self._read_watched(sample)
        if self._physical_functions and sample.time >= self._vfs_due:
            self._vfs_due = sample.time + VF_INTERVAL_SECONDS
            self._read_vfs(sample)
            self._read_ports(sample)
        return sample

    def close(self) -> None:
        self._links.close()
        self._cpus.close()
        self._softirqs.close()
        self.watch_machine(False)
        for reader in (
            self._driver_reader,
            self._queue_reader,
            self._vf_reader,
            self._port_reader,
            self._target_reader,
        ):
            if reader is not None:
                reader.close()
        self._driver_reader = self._queue_reader = self._vf_reader = self._target_reader = None
        self._port_reader = None

    def _read_softirqs(self, sample: Sample) -> None:
        online = tuple(sample.cpus)
        try:
            sample.softirqs = self._softirqs.read(online)
        except (OSError, ValueError) as error:
            self._softirqs.close()
            sample.fail("softirqs", error, "/proc/softirqs")
        try:
            sample.softnet = self._softirqs.read_softnet(online)
        except (OSError, ValueError) as error:
            self._softirqs.close()
            sample.fail("softnet", error, "/proc/net/softnet_stat")

    def _read_machine(self, reader: InterruptTable, sample: Sample) -> None:
        try:
            sample.machine = reader.read()
        except (OSError, ValueError) as error:
            reader.close()
            sample.fail("machine", error, "/proc/interrupts")

    def _read_watched(self, sample: Sample) -> None:
        try:
            if self._driver_reader is None:
                from nictop.probe.counters.on_demand.drivers import DriverCounterReader

                self._driver_reader = DriverCounterReader()
            _read_each(sample, "driver", self._driver_reader.read, self._watched, sample.driver)
        except OSError as error:
            sample.fail("driver", error, "socket")
        try:
            if self._queue_reader is None:
                from nictop.probe.counters.on_demand.queues import QueueCounterReader

                self._queue_reader = QueueCounterReader()
            fallback = self._queue_reader.empty_if_unsupported
            _read_each(
                sample,
                "queues",
                self._queue_reader.read,
                self._watched,
                sample.queues,
                fallback=fallback,
            )
        except OSError as error:
            sample.fail("queues", error, "socket")

    def _read_vfs(self, sample: Sample) -> None:
        try:
            if self._vf_reader is None:
                from nictop.probe.counters.on_demand.vfs import VfCounterReader

                self._vf_reader = VfCounterReader()
            _read_each(sample, "vfs", self._vf_reader.read, self._physical_functions, sample.vfs)
        except OSError as error:
            sample.fail("vfs", error, "socket")

    def _read_ports(self, sample: Sample) -> None:
        try:
            if self._port_reader is None:
                from nictop.probe.counters.on_demand.ports import PortCounterReader

                self._port_reader = PortCounterReader(self._sys)
            read = self._port_reader.read
            _read_each(sample, "ports", read, self._physical_functions, sample.ports)
        except OSError as error:
            sample.fail("ports", error, "socket")


def _read_each(
    sample: Sample,
    field: str,
    read: Callable[[int], Value],
    ifindexes: tuple[int, ...],
    result: dict[int, Value],
    *,
    fallback: Callable[[Exception], Value | None] | None = None,
) -> None:
    """Add `read(ifindex)` of each link to `result`; `fallback` returns the value to use for an
    error, or None."""
    for ifindex in ifindexes:
        try:
            result[ifindex] = read(ifindex)
        except (OSError, ValueError, LookupError) as error:
            sample.fail(field, error, f"ifindex {ifindex}")
            value = fallback(error) if fallback is not None else None
            if value is not None:
                result[ifindex] = value
