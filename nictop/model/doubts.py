"""What of a host an event may have changed that no inventory has read.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.probe.events.reach import (
    ABOUT_ADDRESSES,
    ABOUT_ALL,
    ABOUT_LINK,
    ABOUT_OTHER_ENDS,
    reach_of,
)
from nictop.probe.records import Link, PciFunction

NOT_OF_LINKS = "CPU "
"""Beginning of subjects that no event of a link is about."""
WITHOUT_EVENTS = ("connection", "silence")
"""Sources of events since which no events of links were received."""
Subject = int | str | None
"""ifindex, name or PCI address."""


class Doubts:
    """See `probe.events.reach`."""

    def __init__(self, snapshot: Snapshot) -> None:
        event = snapshot.unread_event
        self.exist = event is not None and snapshot.inventory is not None
        reach = ABOUT_ALL if event is None else reach_of(event.source)
        if reach == ABOUT_LINK and not snapshot.changes:
            reach = ABOUT_ALL
        self._has_other_ends = reach >= ABOUT_OTHER_ENDS
        self.about_addresses = self.exist and reach >= ABOUT_ADDRESSES
        """Addresses, routes, managers and profiles of the host."""
        self.about_all = self.exist and reach == ABOUT_ALL
        self.about_states = event is not None and event.source in WITHOUT_EVENTS
        """Also the name, state, speed and MTU of links."""
        read_at = snapshot.functions_read_at
        self._are_functions_read = False
        """The PCI functions were read after the event."""
        if event is not None and read_at is not None:
            self._are_functions_read = event.time <= read_at and not self.about_states
        self._own: Collection[int] = ()
        """ifindexes of the links that events of links are about."""
        self._changed: set[Subject] = set()
        self._others: set[Subject] = set()
        self._has_new_link = any(map(is_unread_link, snapshot.links.values()))
        if self.exist:
            self._own = snapshot.changes
        if self.exist and not self.about_all:
            self._sort_links(snapshot)

    def _sort_links(self, snapshot: Snapshot) -> None:
        assert snapshot.inventory is not None
        known = snapshot.inventory.links, snapshot.links.values(), snapshot.departed.values()
        links = [link for part in known for link in part]
        changed = _changed_links(snapshot, links)
        if self._has_other_ends:
            changed |= {link.ifindex for link in links if link.lower_namespace is not None}
        for link in links:
            if link.ifindex in changed:
                self._changed |= _subjects_of(link)
        for link in links:
            if link.ifindex not in changed:
                self._others |= _subjects_of(link)

    def concern(
        self,
        ifindex: int | None,
        subject: str,
        *,
        of_addresses: bool = True,
        of_functions: bool = False,
    ) -> bool:
        """Of a finding about a netdev, a PCI function, or something else; `of_addresses`: it may
        rest on what `about_addresses` names; `of_functions`: on PCI functions, and on which
        links there are."""
        if of_functions and ifindex is None and self._are_functions_read:
            return False
        if not self.exist or self.about_all or (of_addresses and self.about_addresses):
            return self.exist
        if self.about_addresses and not self._changed:
            return False
        if subject.startswith(NOT_OF_LINKS):
            return False
        subjects: set[Subject] = {ifindex, subject} - {None}
        if subjects & self._changed:
            return True
        return not subjects & self._others

    def concern_link(self, link: Link) -> bool:
        """What was read of a netdev, but for its driver, and for what events tell of it: its name,
        state and MTU."""
        return self.about_addresses or link.ifindex in self._changed

    def concern_device(self, link: Link) -> bool:
        """What its device and its driver say."""
        return self.about_all or link.ifindex in self._changed

    def concern_speed(self, link: Link) -> bool:
        return self.about_states or link.ifindex in self._own

    def concern_values(self, link: Link | None, pci: PciFunction | None) -> bool:
        """Something that was read of a netdev, of a PCI function or, with neither, of the host."""
        if self.about_states or (link is None and pci is None):
            return self.exist
        if link is not None:
            return self.concern_link(link)
        return pci is not None and self.concern_function(pci)

    def concern_function(self, pci: PciFunction) -> bool:
        """A PCI function and its driver; also one without a driver while a netdev has come that may
        be its own."""
        if self._are_functions_read:
            return False
        if self.about_all or pci.address in self._changed:
            return True
        return self.exist and pci.driver is None and self._has_new_link


def doubts_of(snapshot: Snapshot) -> Doubts | None:
    """None: there are none. The same object while only readings are new."""
    if snapshot.unread_event is None:
        return None
    known: Doubts | None = snapshot.kept.get(Doubts)
    if known is None:
        known = snapshot.kept[Doubts] = Doubts(snapshot)
    return known


def _changed_links(snapshot: Snapshot, links: Sequence[Link]) -> set[int]:
    """ifindexes of those that changed since the inventory, of links that have or had their names,
    and of links above and below them."""
    names = {change.name for change in snapshot.changes.values()}
    own = {*snapshot.changes, *(link.ifindex for link in links if link.name in names)}
    changed = set(own)
    for link in links:
        if link.ifindex in own:
            changed |= {index for index in (link.master, link.lower) if index is not None}
        elif link.master in own or link.lower in own:
            changed.add(link.ifindex)
    return changed


def _subjects_of(link: Link) -> set[Subject]:
    return {subject for subject in (link.ifindex, link.name, link.pci_address) if subject}
