"""The fast pass: every number that moves, from the kernel's own binary answers, a few times a second.

Reads rtnetlink RTM_GETSTATS, /proc/stat, /proc/softirqs and softnet_stat; for watched links ETHTOOL_GSTATS and the
`netdev` family's queue counters; for physical functions the counters of their VFs; and the interrupts, threads and
vmbus channels that the last inventory has named. Yields one `Sample` per pass. No fork, no asyncio; descriptors and
buffers are kept, and what nobody watches is not even imported.
"""

from __future__ import annotations

import time

from nictop.probe.counters.cpus import ProcessorReader
from nictop.probe.counters.links import LinkCounterReader, LinksIncomplete
from nictop.probe.counters.softirqs import SoftirqReader
from nictop.probe.kernel import errno_reasons as reasons

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself costs half a MiB
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from nictop.probe.counters.on_demand.drivers import DriverCounterReader
    from nictop.probe.counters.on_demand.interrupt_table import InterruptTable
    from nictop.probe.counters.on_demand.interrupt_table import Line as MachineInterrupt
    from nictop.probe.counters.on_demand.queues import Queue, QueueCounterReader
    from nictop.probe.counters.on_demand.vfs import VfCounterReader
    from nictop.probe.counters.target_counters import TargetCounterReader
    from nictop.probe.counters.targets import Targets

    Value = TypeVar("Value")

VF_INTERVAL = 0.95
"""Seconds between two questions for VF counters: once a second, with room for the scheduler."""


class Sample:
    """`records.Counters`, field by field, as the JSON encoder takes it.

    A plain class: the record itself would bring `dataclasses` and the whole vocabulary into the process that must stay
    small (3 MiB and 20 ms of start). A test holds the two together.
    """

    def __init__(self, moment: float) -> None:
        self.time = moment
        self.links: dict[int, tuple[int, ...]] = {}
        self.cpus: dict[int, tuple[int, ...]] = {}
        self.queues: dict[int, tuple[Queue, ...]] = {}
        self.driver: dict[int, tuple[int, ...]] = {}
        self.interrupts: dict[int, dict[int, int]] = {}
        self.softirqs: dict[int, tuple[int, ...]] = {}
        self.softnet: dict[int, tuple[int, ...]] = {}
        self.threads: dict[int, tuple[int, int, int]] = {}
        self.channels: dict[int, dict[int, tuple[int | None, ...]]] = {}
        self.machine: tuple[MachineInterrupt, ...] | None = None
        self.vfs: dict[int, dict[int, tuple[int, ...]]] = {}
        self.unreadable: dict[str, dict[str, str]] = {}

    def fail(self, field: str, error: Exception, where: str) -> None:
        """Say why `field` is empty or incomplete; the first failure of a pass stands."""
        self.unreadable.setdefault(field, unreadable(error, where))


def unreadable(error: Exception, where: str) -> dict[str, str]:
    """`records.Unreadable` for what a reader raised; ValueError means that the kernel's answer made no sense."""
    if isinstance(error, OSError):
        number = error.errno or 0
        detail = f"{where}: {reasons.name(number)} {error.strerror or error}"
        return {"reason": reasons.REASONS.get(number, "failed"), "detail": detail}
    return {"reason": "malformed", "detail": f"{where}: {error}"}


class CounterReader:
    """Takes one `Sample` per call. `sys` and `proc` are where sysfs and procfs stand."""

    def __init__(self, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._sys, self._proc = sys, proc
        self._links = LinkCounterReader()
        self._processors = ProcessorReader(proc)
        self._softirqs = SoftirqReader(proc)
        self._watched: tuple[int, ...] = ()
        self._physical_functions: tuple[int, ...] = ()
        self._vfs_due = 0.0
        self._driver_reader: DriverCounterReader | None = None
        self._queue_reader: QueueCounterReader | None = None
        self._vf_reader: VfCounterReader | None = None
        self._target_reader: TargetCounterReader | None = None
        self._machine_reader: InterruptTable | None = None

    def watch(self, ifindexes: Iterable[int]) -> None:
        """From now on read queue and driver counters of these links, and of no others."""
        self._watched = tuple(sorted(set(ifindexes)))

    def watch_machine(self, wanted: bool) -> None:
        """From now on read every line of /proc/interrupts, or no longer."""
        if wanted and self._machine_reader is None:
            from nictop.probe.counters.on_demand.interrupt_table import InterruptTable

            self._machine_reader = InterruptTable(self._proc)
        elif not wanted and self._machine_reader is not None:
            self._machine_reader.close()
            self._machine_reader = None

    def learn(self, targets: Targets) -> None:
        """From now on read the interrupts, threads and channels of this inventory, and of no older one."""
        if self._target_reader is None:
            from nictop.probe.counters.target_counters import TargetCounterReader

            self._target_reader = TargetCounterReader(sys=self._sys, proc=self._proc)
        self._target_reader.learn(targets)

    def learn_physical_functions(self) -> None:
        """Look up which links have virtual functions: at the start, and when an event says that something changed."""
        from nictop.probe.counters.on_demand.vfs import read_physical_functions

        self._physical_functions = read_physical_functions(self._sys)
        self._vfs_due = 0.0

    def read(self) -> Sample:
        """One pass. Never raises: what could not be read is empty and named in `Sample.unreadable`."""
        sample = Sample(time.monotonic())
        try:
            sample.links = self._links.read()
        except LinksIncomplete as error:
            sample.links = error.links
            sample.fail("links", error, "RTM_GETSTATS")
        except (OSError, ValueError) as error:
            sample.fail("links", error, "RTM_GETSTATS")
        try:
            sample.cpus = self._processors.read()
        except (OSError, ValueError) as error:
            self._processors.close()
            sample.fail("cpus", error, "/proc/stat")
        self._read_softirqs(sample)
        if self._target_reader is not None:
            self._target_reader.read(sample)
        if self._machine_reader is not None:
            self._read_machine(self._machine_reader, sample)
        if self._watched:
            self._read_watched(sample)
        if self._physical_functions and sample.time >= self._vfs_due:
            self._vfs_due = sample.time + VF_INTERVAL
            self._read_vfs(sample)
        return sample

    def close(self) -> None:
        self._links.close()
        self._processors.close()
        self._softirqs.close()
        self.watch_machine(False)
        for reader in (self._driver_reader, self._queue_reader, self._vf_reader, self._target_reader):
            if reader is not None:
                reader.close()
        self._driver_reader = self._queue_reader = self._vf_reader = self._target_reader = None

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
            none = self._queue_reader.offers_none
            _read_each(sample, "queues", self._queue_reader.read, self._watched, sample.queues, instead=none)
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


def _read_each(
    sample: Sample,
    field: str,
    read: Callable[[int], Value],
    ifindexes: tuple[int, ...],
    into: dict[int, Value],
    *,
    instead: Callable[[Exception], Value | None] | None = None,
) -> None:
    """`instead` gives the value that an error stands for, None where it stands for none."""
    for ifindex in ifindexes:
        try:
            into[ifindex] = read(ifindex)
        except (OSError, ValueError, LookupError) as error:
            sample.fail(field, error, f"ifindex {ifindex}")
            value = instead(error) if instead is not None else None
            if value is not None:
                into[ifindex] = value
