"""The values of one pass over the counters, and why some are missing."""

from __future__ import annotations

from nictop.probe.kernel import errno_reasons as reasons

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.counters.on_demand.interrupt_table import InterruptLine
    from nictop.probe.counters.on_demand.ports import PortFields
    from nictop.probe.counters.on_demand.queues import Queue


class Sample:
    """The fields of `records.Counters`, ready for the JSON encoder.

    A plain class: importing the record would load `dataclasses` and all records into the long-lived
    process (3 MiB, and 20 ms at the start). A test compares the fields of the two.
    """

    def __init__(self, now: float) -> None:
        self.time = now
        self.links: dict[int, tuple[int, ...]] = {}
        self.cpus: dict[int, tuple[int, ...]] = {}
        self.queues: dict[int, tuple[Queue, ...]] = {}
        self.driver: dict[int, tuple[int, ...]] = {}
        self.interrupts: dict[int, dict[int, int]] = {}
        self.softirqs: dict[int, tuple[int, ...]] = {}
        self.softnet: dict[int, tuple[int, ...]] = {}
        self.threads: dict[int, tuple[int, int, int]] = {}
        self.channels: dict[int, dict[int, tuple[int | None, ...]]] = {}
        self.machine: tuple[InterruptLine, ...] | None = None
        self.vfs: dict[int, dict[int, tuple[int, ...]]] = {}
        self.ports: dict[int, PortFields] = {}
        self.unreadable: dict[str, dict[str, str]] = {}
        self.stack: dict[str, int] = {}

    def fail(self, field: str, error: Exception, where: str) -> None:
        """Record why `field` is empty or incomplete; only the first failure of a pass is kept."""
        self.unreadable.setdefault(field, unreadable(error, where))


def unreadable(error: Exception, where: str) -> dict[str, str]:
    """`records.Unreadable` as a mapping, for an exception of a reader; ValueError: malformed data
    from the kernel."""
    if isinstance(error, OSError):
        number = error.errno or 0
        detail = f"{where}: {reasons.name(number)} {error.strerror or error}"
        return {"reason": reasons.REASONS.get(number, "failed"), "detail": detail}
    return {"reason": "malformed", "detail": f"{where}: {error}"}
