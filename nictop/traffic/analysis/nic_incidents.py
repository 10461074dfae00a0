"""What happened to the chosen NICs during a run, by the kernel logs of their hosts and by
rtnetlink.

A NIC that was reset, unplugged or renamed explains the rate of a run better than any counter.

Reads nothing; takes the snapshots of the hosts after the run, and the changes of their links during
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from nictop.model.kernel_log import Logged
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import LinkChange

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

Event = Literal["removed", "renamed", "set_down", "no_carrier"]
"""removed: RTM_DELLINK: unplugged, unbound, or moved to another network namespace. set_down:
administratively."""
WORDS: dict[Meaning | Event, str] = {
    "removed": "disappeared",
    "device_gone": "was detached by its driver",
    "transmit_stalled": "stopped sending (its transmit unit hung)",
    "reset": "was reset by its driver",
    "vf_reset": "was reset by its physical function",
    "renamed": "was renamed",
    "set_down": "was set down",
    "link_lost": "lost its link",
    "no_carrier": "lost its carrier",
}
"""Meaning of a message → what happened; the first one explains the others, which follow from it."""
MAX_TEXT_CHARS = 100


@dataclass(frozen=True)
class NicIncident:
    """One message about the chosen NIC of a host."""

    host: str
    link: str
    second: float
    """On the axis of the run."""
    meaning: Meaning | Event
    text: str
    """The message; renamed: the new name."""

    @property
    def brief(self) -> str:
        """``b eth2 was reset by its driver``"""
        return f"{clean(self.host)} {clean(self.link)} {WORDS[self.meaning]}"

    @property
    def sentence(self) -> str:
        """``b eth2 was reset by its driver at second 7 (kernel log: Detected Tx Unit Hang)``"""
        shown = clean(self.text)
        if len(shown) > MAX_TEXT_CHARS:
            shown = shown[: MAX_TEXT_CHARS - 1] + "…"
        is_renamed = self.meaning == "renamed"
        what = WORDS[self.meaning]
        if is_renamed:
            what += f" to {shown}"
        second = max(0.0, self.second)
        happened = f"{clean(self.host)} {clean(self.link)} {what} at second {second:.0f}"
        if is_renamed or not shown:
            return happened
        return f"{happened} (kernel log: {shown})"


@dataclass(frozen=True)
class ChosenNic:
    """The chosen NIC of an end at the start of a run, and what its host reported of links since
    then."""

    ifindex: int
    name: str
    """Empty: not known."""
    begin: float
    """Start of the axis on the clock of the host (CLOCK_MONOTONIC)."""
    changes: tuple[LinkChange, ...] = ()


def nic_incidents(
    snapshots: Mapping[str, Snapshot], nics: Mapping[str, ChosenNic], seconds: float
) -> tuple[NicIncident, ...]:
    """Incidents in the run, the most telling of the first second first. `nics`: by host; `seconds`:
    length of the run."""
    found: list[NicIncident] = []
    for host, nic in nics.items():
        if host in snapshots:
            found += _of_host(snapshots[host], host, nic, seconds)
    order = list(WORDS)
    found.sort(key=lambda incident: (round(incident.second), order.index(incident.meaning)))
    return tuple(found)


def _of_host(
    snapshot: Snapshot, host: str, nic: ChosenNic, seconds: float
) -> Iterator[NicIncident]:
    link = snapshot.links.get(nic.ifindex)
    if link is None:
        yield from _of_changes(host, nic, nic.name or f"ifindex {nic.ifindex}", seconds)
        return
    shown = nic.name or link.name
    yield from _of_changes(host, nic, shown, seconds)
    for entry in _during(snapshot.kernel_log.of_link(link), nic.begin, nic.begin + seconds):
        second = entry.time - nic.begin
        yield NicIncident(host, shown, second, entry.known.meaning, entry.text)


def _of_changes(host: str, nic: ChosenNic, shown: str, seconds: float) -> Iterator[NicIncident]:
    """The first incident of each kind. `shown`: name of the NIC in them."""
    name, seen = nic.name, set[Event]()
    for change in nic.changes:
        second = change.time - nic.begin
        is_in_run = nic.begin <= change.time <= nic.begin + seconds
        if change.ifindex != nic.ifindex or not is_in_run:
            continue
        event = _event(change, name)
        if event is not None and event not in seen:
            seen.add(event)
            text = change.name if event == "renamed" else ""
            yield NicIncident(host, shown, second, event, text)
        name = change.name


def _event(change: LinkChange, name: str) -> Event | None:
    if change.gone:
        return "removed"
    if name and change.name != name:
        return "renamed"
    if not change.flags & IFF_UP:
        return "set_down"
    return "no_carrier" if change.carrier is False else None


def _during(entries: Iterable[Logged], begin: float, end: float) -> Iterator[Logged]:
    for entry in entries:
        if entry.known.meaning in WORDS and begin <= entry.time <= end:
            yield entry
