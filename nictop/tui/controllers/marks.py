"""What is marked as A, to be compared with B: a host, or one of its interfaces.

What is marked in the past or in a recording stays as it was at that moment; of live hosts the
newest state is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.report.diff.findings import Side
    from nictop.rules import Diagnosis
    from nictop.tui.controllers.display import Display
    from nictop.tui.controllers.hosts import WatchedHosts


@dataclass(frozen=True)
class Marked:
    """A host, or an interface of it."""

    host: str
    nic: str
    """Name of the interface; "": the whole host."""
    moment: str
    """``14:03:20``; "": now, whenever that is."""
    snapshot: Snapshot
    diagnosis: Diagnosis | None
    """Of all hosts; None: no check has run yet."""

    @property
    def name(self) -> str:
        """``vm1:ens224``, ``vm1 at 14:03:20``"""
        name = f"{self.host}:{self.nic}" if self.nic else self.host
        return f"{name} at {self.moment}" if self.moment else name

    def is_same(self, other: Marked) -> bool:
        return (self.host, self.nic, self.moment) == (other.host, other.nic, other.moment)

    def side(self) -> Side:
        from nictop.report.diff.findings import Side
        from nictop.rules import Diagnosis

        diagnosis = self.diagnosis
        return Side(self.name, self.snapshot, diagnosis or Diagnosis((), ()), self.nic)


class Marks:
    """At most one at a time: the second one is compared with it, and removes it."""

    def __init__(self) -> None:
        self.first: Marked | None = None
        self.changed = Signal()

    def mark(self, marked: Marked) -> Marked | None:
        """Mark it as A; the A before, if this one is B. The same once more is no mark."""
        first, self.first = self.first, None
        if first is None or bool(first.nic) != bool(marked.nic):
            self.first = marked
        self.changed.publish()
        if self.first is not None or first is None or first.is_same(marked):
            return None
        return first

    def forget(self) -> None:
        self.first = None
        self.changed.publish()


def marked_now(
    hosts: WatchedHosts, display: Display, host: str, nic: str, moment: str = ""
) -> Marked | None:
    """As it is shown; None: nothing of the host is read yet. `moment`: see `Marked`."""
    session = hosts.by_name.get(host)
    if session is None:
        return None
    snapshot = display.snapshot(session)
    if snapshot.inventory is None:
        return None
    return Marked(host, nic, moment, snapshot, display.diagnosis)


def newest(marked: Marked, hosts: WatchedHosts, display: Display) -> Marked:
    """Of a live host what is shown of it now; else as it is."""
    if marked.moment:
        return marked
    return marked_now(hosts, display, marked.host, marked.nic) or marked
