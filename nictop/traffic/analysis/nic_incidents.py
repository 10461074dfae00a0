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
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import LinkChange
from nictop.traffic.hosts.link_roles import takes_packets

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning
    from nictop.traffic.results.result import Incident

Event = Literal["removed", "renamed", "set_down", "no_carrier"]
"""removed: RTM_DELLINK: unplugged, unbound, or moved to another network namespace. set_down:
administratively."""
EVENT_TEXTS: dict[Meaning | Event, str] = {
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
LOSSES = ("link_lost", "no_carrier", "set_down")
"""Incidents in which no packets pass until the link is up again."""
_KINDS: dict[Meaning | Event, Incident] = {
    "link_lost": "link_lost",
    "no_carrier": "link_lost",
    "set_down": "link_lost",
    "renamed": "renamed",
}
"""Of an incident; of all others: other."""
_BY_EFFECT: tuple[Incident, ...] = ("link_lost", "other", "renamed")
SAME_LOSS_SECONDS = 2.0
"""Between the message of the driver and that of rtnetlink about one loss, at most."""
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
    back: float | None = None
    """Of `LOSSES`: when its host reported the link as up again after the last one; None: it did
    not."""
    times: int = 1
    """How often it came, the first time at `second`."""
    after: str = ""
    """What its seconds are counted from, if the run has no axis: ``the path test``."""

    @property
    def brief(self) -> str:
        """``b eth2 was reset by its driver``, ``b eth2 lost its carrier for 15 s``"""
        happened = f"{clean(self.host)} {clean(self.link)} {EVENT_TEXTS[self.meaning]}"
        if self.times > 1:
            return f"{happened} {self.times} times"
        if self.back is None:
            return happened
        return f"{happened} for {max(0.0, self.back - self.second):.0f} s"

    @property
    def return_sentence(self) -> str:
        """``b eth2 has its link again at second 9``; "": it was not reported."""
        if self.back is None:
            return ""
        when = _when(self.back, self.after)
        return f"{clean(self.host)} {clean(self.link)} has its link again {when}"

    @property
    def sentence(self) -> str:
        """``b eth2 was reset by its driver at second 7 (kernel log: Detected Tx Unit Hang)``, ``b
        eth2 lost its carrier at second 3, back at second 18``"""
        shown = clean(self.text)
        if len(shown) > MAX_TEXT_CHARS:
            shown = shown[: MAX_TEXT_CHARS - 1] + "…"
        is_renamed = self.meaning == "renamed"
        what = EVENT_TEXTS[self.meaning]
        if is_renamed:
            what += f" to {shown}"
        second = max(0.0, self.second)
        if self.times > 1:
            what += f" {self.times} times, first"
        happened = f"{clean(self.host)} {clean(self.link)} {what} {_when(second, self.after)}"
        if self.back is not None:
            happened += f", back {_when(self.back, 'it' if self.after else '')}"
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
    after: str = ""
    """There is no axis: what `begin` is the end of."""


def nic_incidents(
    snapshots: Mapping[str, Snapshot], nics: Mapping[str, ChosenNic], seconds: float
) -> tuple[NicIncident, ...]:
    """Incidents in the run, the most telling of the first second first. `nics`: by host; `seconds`:
    length of the run."""
    found: list[NicIncident] = []
    for host, nic in nics.items():
        if host in snapshots:
            found += _of_host(snapshots[host], host, nic, seconds)
    order = list(EVENT_TEXTS)
    found.sort(key=lambda incident: (round(incident.second), order.index(incident.meaning)))
    return tuple(found)


def _when(second: float, after: str) -> str:
    """``at second 3``, ``3 s after the path test``"""
    return f"{second:.0f} s after {after}" if after else f"at second {second:.0f}"


def incident_kind(incidents: Iterable[NicIncident]) -> Incident:
    """The one with the largest effect on the figures of a run; "": there are none."""
    kinds: set[Incident] = {_KINDS.get(incident.meaning, "other") for incident in incidents}
    return next((kind for kind in _BY_EFFECT if kind in kinds), "")


def _of_host(
    snapshot: Snapshot, host: str, nic: ChosenNic, seconds: float
) -> Iterator[NicIncident]:
    link = snapshot.links.get(nic.ifindex)
    if link is None:
        yield from _of_changes(host, nic, nic.name or f"ifindex {nic.ifindex}", seconds)
        return
    shown = nic.name or link.name
    changes = list(_of_changes(host, nic, shown, seconds))
    yield from changes
    for entry in _during(snapshot.kernel_log.of_link(link), nic.begin, nic.begin + seconds):
        second = entry.time - nic.begin
        found = NicIncident(host, shown, second, entry.known.meaning, entry.text, after=nic.after)
        yield _with_return(found, changes) if found.meaning == "link_lost" else found


def _with_return(lost: NicIncident, changes: Iterable[NicIncident]) -> NicIncident:
    """The loss in a message of a driver, with what rtnetlink reported of it."""
    for change in changes:
        is_same = abs(change.second - lost.second) <= SAME_LOSS_SECONDS
        if change.meaning in LOSSES and is_same:
            return replace(lost, back=change.back, times=change.times)
    return lost


def _of_changes(host: str, nic: ChosenNic, shown: str, seconds: float) -> Iterable[NicIncident]:
    """One incident of each kind, at its first time. `shown`: name of the NIC in them."""
    name, found, open_losses = nic.name, dict[Event, NicIncident](), set[Event]()
    for change in nic.changes:
        if change.ifindex != nic.ifindex or change.time < nic.begin:
            continue
        second = change.time - nic.begin
        if takes_packets(change):
            for event in open_losses:
                found[event] = replace(found[event], back=second)
            open_losses.clear()
        happened = _event(change, name)
        name = change.name
        if happened is None or second > seconds or happened in open_losses:
            continue
        if happened in LOSSES:
            open_losses.add(happened)
        if happened not in found:
            text = change.name if happened == "renamed" else ""
            found[happened] = NicIncident(host, shown, second, happened, text, after=nic.after)
        elif happened in LOSSES:
            earlier = found[happened]
            found[happened] = replace(earlier, back=None, times=earlier.times + 1)
    return found.values()


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
        if entry.known.meaning in EVENT_TEXTS and begin <= entry.time <= end:
            yield entry
