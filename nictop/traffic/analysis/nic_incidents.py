"""What happened to the chosen NICs and their addresses during a run, by the kernel logs of their
hosts, by rtnetlink and by the inventories.

A NIC that was reset, unplugged or renamed explains the rate of a run better than any counter.

Reads nothing; takes the snapshots of the hosts after the run, and the changes of their links during
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from nictop.model.kernel_log import Logged
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import LinkChange
from nictop.traffic.hosts.link_roles import Times, common_times, takes_packets

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning
    from nictop.traffic.hosts.address_readings import AddressReading
    from nictop.traffic.results.result import Incident

Event = Literal["removed", "renamed", "set_down", "no_carrier", "address_lost"]
"""removed: RTM_DELLINK: unplugged, unbound, or moved to another network namespace. set_down:
administratively. address_lost: that of the run, by two inventories."""
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
    "address_lost": "lost its address",
}
"""Meaning of a message → what happened; the first one explains the others, which follow from it."""
LINK_LOSSES = ("link_lost", "no_carrier", "set_down")
"""Incidents in which no packets pass until the link is up again."""
SEEN_AT_BOTH_ENDS = (*LINK_LOSSES, "removed")
"""Incidents of one end of a link after which the other end has no carrier."""
LOSSES = (*LINK_LOSSES, "address_lost")
"""The same, and in which none of the run pass until the address is there again."""
_KINDS: dict[Meaning | Event, Incident] = {
    "link_lost": "link_lost",
    "no_carrier": "link_lost",
    "set_down": "link_lost",
    "renamed": "renamed",
}
"""Of an incident; of all others: other."""
_BY_EFFECT: tuple[Incident, ...] = ("link_lost", "other", "renamed")
_LOSS_TEXTS: dict[Meaning | Event, str] = {
    "removed": "NIC gone",
    "device_gone": "NIC gone",
    "set_down": "link set down",
    "link_lost": "link lost",
    "no_carrier": "link lost",
    "address_lost": "address lost",
}
"""Of incidents after which no packets of the run pass, in few words."""
SAME_LOSS_SECONDS = 2.0
"""Between the message of the driver and that of rtnetlink about one loss, at most."""
MAX_TEXT_CHARS = 100
_JOINTS: dict[Meaning | Event, str] = {"renamed": " to", "address_lost": ""}
"""Of incidents whose text is no message: what is between the words and that."""


@dataclass(frozen=True)
class NicIncident:
    """One message about the chosen NIC of a host."""

    host: str
    link: str
    second: float
    """On the axis of the run."""
    meaning: Meaning | Event
    text: str
    """The message; renamed: the new name; address_lost: the address, and where it is now."""
    back: float | None = None
    """Of `LOSSES`: when its host reported the link as up, or the address as there, again after the
    last one; None: it did not."""
    times: int = 1
    """How often it came, the first time at `second`; the message is that of the first time."""
    after: str = ""
    """What its seconds are counted from, if the run has no axis: ``the path test``."""
    since: float | None = None
    """address_lost: not before that; None: that is not known."""
    last: float | None = None
    """When it came for the last time; None: at `second`."""

    @property
    def changed_at(self) -> float:
        """When it last changed what the NIC does, on the axis of the run."""
        if self.back is not None:
            return self.back
        return self.second if self.last is None else self.last

    @property
    def loss_text(self) -> str:
        """``link lost at second 7``, ``address lost by second 6`` of the run; "": packets may pass,
        or pass again."""
        what = _LOSS_TEXTS.get(self.meaning)
        if what is None or self.back is not None:
            return ""
        preposition = "by" if self.meaning == "address_lost" else "at"
        return f"{what} {preposition} second {max(0.0, self.changed_at):.0f}"

    @property
    def _when(self) -> str:
        """``at second 7``; of an address, which inventories show: ``by second 6``, ``between second
        3 and 6``"""
        second, since = max(0.0, self.second), self.since
        is_at = since is not None and round(since) == round(second)
        if self.meaning != "address_lost" or is_at:
            return _when(second, self.after)
        if self.after:
            return f"up to {_when(second, self.after)}"
        if since is None or since < 0.0:
            return f"by second {second:.0f}"
        return f"between second {since:.0f} and {second:.0f}"

    @property
    def brief(self) -> str:
        """``b eth2 was reset by its driver``, ``b eth2 lost its carrier for 15 s``"""
        happened = f"{clean(self.host)} {clean(self.link)} {EVENT_TEXTS[self.meaning]}"
        if self.times > 1:
            return f"{happened} {self.times} times"
        if self.back is None or self.meaning == "address_lost":
            return happened
        return f"{happened} for {max(0.0, self.back - self.second):.0f} s"

    @property
    def return_sentence(self) -> str:
        """``b eth2 has its link again at second 9``; "": it was not reported."""
        if self.back is None:
            return ""
        what = "address" if self.meaning == "address_lost" else "link"
        when = _when(self.back, self.after)
        return f"{clean(self.host)} {clean(self.link)} has its {what} again {when}"

    @property
    def _back(self) -> str:
        """``at second 9``; of an address ``by second 9``: the inventory that has it again."""
        assert self.back is not None
        if self.meaning == "address_lost" and not self.after:
            return f"by second {self.back:.0f}"
        return _when(self.back, "it" if self.after else "")

    @property
    def sentence(self) -> str:
        """``b eth2 was reset by its driver at second 7 (kernel log: Detected Tx Unit Hang)``, ``b
        eth2 lost its carrier at second 3, back at second 18``"""
        shown = clean(self.text)
        if len(shown) > MAX_TEXT_CHARS:
            shown = shown[: MAX_TEXT_CHARS - 1] + "…"
        joint = _JOINTS.get(self.meaning)
        what = EVENT_TEXTS[self.meaning]
        if joint is not None:
            what += f"{joint} {shown}"
        if self.times > 1:
            what += f" {self.times} times, first"
        happened = f"{clean(self.host)} {clean(self.link)} {what} {self._when}"
        if self.back is not None:
            happened += f", back {self._back}"
        if joint is not None or not shown:
            return happened
        log = "kernel log of the first" if self.times > 1 else "kernel log"
        return f"{happened} ({log}: {shown})"


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
    address: str = ""
    """That of the run, without its zone; empty: not known."""
    addresses: tuple[AddressReading, ...] = ()
    """Where the addresses of the host were, oldest first, since before the run."""


def nic_incidents(
    snapshots: Mapping[str, Snapshot], nics: Mapping[str, ChosenNic], seconds: float
) -> tuple[NicIncident, ...]:
    """Incidents in the run, the most telling of the first second first. `nics`: by host; `seconds`:
    length of the run."""
    found: list[NicIncident] = []
    for host, nic in nics.items():
        if host in snapshots:
            found += _of_host(snapshots[host], host, nic, seconds)
    found = [_at_common_time(incident, found) for incident in found]
    order = list(EVENT_TEXTS)
    found.sort(key=lambda incident: (round(incident.second), order.index(incident.meaning)))
    return tuple(found)


def _at_common_time(incident: NicIncident, found: Iterable[NicIncident]) -> NicIncident:
    """A loss that both ends of a link report is one event."""
    if incident.meaning not in LINK_LOSSES:
        return incident
    for other in found:
        is_one = "no_carrier" in (incident.meaning, other.meaning)
        if other.host == incident.host or not is_one or other.meaning not in SEEN_AT_BOTH_ENDS:
            continue
        times = common_times(_times(incident), _times(other))
        if times is not None:
            begin, end = times
            return replace(incident, second=begin, back=end if end < math.inf else None)
    return incident


def _times(incident: NicIncident) -> Times:
    return incident.second, math.inf if incident.back is None else incident.back


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
        yield from _grouped(_of_changes(host, nic, nic.name or f"ifindex {nic.ifindex}", seconds))
        return
    shown = nic.name or link.name
    changes = _of_changes(host, nic, shown, seconds)
    for entry in _during(snapshot.kernel_log.of_link(link), nic.begin, nic.begin + seconds):
        second, meaning = entry.time - nic.begin, entry.known.meaning
        if meaning != "link_lost" or not _is_cited(entry.text, second, changes):
            yield NicIncident(host, shown, second, meaning, entry.text, after=nic.after)
    yield from _grouped(changes)
    yield from _address_losses(snapshot, host, shown, nic, seconds)


def _is_cited(text: str, second: float, changes: list[NicIncident]) -> bool:
    """The message of a driver is about a loss that rtnetlink reported, too; the first message about
    each is put into it."""
    losses = [index for index, change in enumerate(changes) if change.meaning in LINK_LOSSES]
    if not losses:
        return False
    nearest = min(losses, key=lambda index: _seconds_to(changes[index], second))
    if _seconds_to(changes[nearest], second) > SAME_LOSS_SECONDS:
        return False
    if not changes[nearest].text:
        changes[nearest] = replace(changes[nearest], text=text)
    return True


def _seconds_to(loss: NicIncident, second: float) -> float:
    """From the begin of the loss; 0.0: it lasts then."""
    lasts = loss.second <= second and (loss.back is None or second <= loss.back)
    return 0.0 if lasts else abs(loss.second - second)


def _of_changes(host: str, nic: ChosenNic, shown: str, seconds: float) -> list[NicIncident]:
    """Each incident that rtnetlink reported, oldest first. `shown`: name of the NIC in them."""
    name, found, open_losses = nic.name, list[NicIncident](), dict[Event, int]()
    for change in nic.changes:
        if change.ifindex != nic.ifindex or change.time < nic.begin:
            continue
        second = change.time - nic.begin
        if takes_packets(change):
            for index in open_losses.values():
                found[index] = replace(found[index], back=second)
            open_losses.clear()
        happened = _event(change, name)
        name = change.name
        if happened is None or second > seconds or happened in open_losses:
            continue
        if happened == "no_carrier" and "set_down" in open_losses:
            continue  # the link that was set up again has no carrier yet
        if happened in LOSSES:
            open_losses[happened] = len(found)
        text = change.name if happened == "renamed" else ""
        found.append(NicIncident(host, shown, second, happened, text, after=nic.after))
    return found


def _grouped(changes: Iterable[NicIncident]) -> Iterable[NicIncident]:
    """One of each kind, at its first time, with how often it came."""
    found: dict[Meaning | Event, NicIncident] = {}
    for change in changes:
        first = found.get(change.meaning)
        if first is None:
            found[change.meaning] = change
        elif change.meaning in LOSSES:
            found[change.meaning] = replace(
                first, back=change.back, times=first.times + 1, last=change.second
            )
    return found.values()


def _address_losses(
    snapshot: Snapshot, host: str, shown: str, nic: ChosenNic, seconds: float
) -> Iterable[NicIncident]:
    """The address of the run is not on its NIC any more; it was there when the run began."""
    found, was_there = list[NicIncident](), False
    for reading in nic.addresses:
        links = reading.links.get(nic.address, ())
        is_there = nic.ifindex in links
        second = max(reading.time, reading.since or 0.0) - nic.begin
        if is_there and found and found[-1].back is None:
            found[-1] = replace(found[-1], back=second)
        elif was_there and not is_there and 0.0 <= second <= seconds:
            text = nic.address
            others = [snapshot.links[link].name for link in links if link in snapshot.links]
            if others:
                text += f" to {others[0]}"
            since = None if reading.since is None else reading.since - nic.begin
            lost = NicIncident(host, shown, second, "address_lost", text, after=nic.after)
            found.append(replace(lost, since=since))
        was_there = is_there
    return _grouped(found)


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
