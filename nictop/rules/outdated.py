"""Findings that rest on what was read before the newest event of their host: it may have changed
what they are about, and the host is being read again.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts

MAY_HAVE_CHANGED = "may have changed"
NOT_OF_LINKS = "CPU "
"""Beginning of subjects that no event of a link is about."""


def marked(finding: Finding) -> Finding:
    """The finding, which says it: not at the end, where it would be cut."""
    if finding.outdated:
        return finding
    return replace(finding, title=f"{MAY_HAVE_CHANGED}: {finding.title}", outdated=True)


def without_mark(finding: Finding) -> Finding:
    if not finding.outdated:
        return finding
    title = finding.title.removeprefix(f"{MAY_HAVE_CHANGED}: ")
    return replace(finding, title=title, outdated=False)


def as_read(host: HostFacts) -> HostFacts:
    """The host as its inventory has it, without the changes of links since then."""
    links = {link.ifindex: link for link in host.inventory.links}
    return HostFacts(replace(host.snapshot, links=links), host.window)


class Doubts:
    """What of a host an event may have changed that no inventory has read. One of a link is about
    that link and what belongs to it; any other one may be about everything."""

    def __init__(self, snapshot: Snapshot) -> None:
        event = snapshot.unread_event
        self.exist = event is not None and snapshot.inventory is not None
        self._about_all = event is None or event.source != "link" or not snapshot.changes
        self._changed: set[int | str | None] = set()
        """ifindexes, names and PCI addresses."""
        self._others: set[int | str | None] = set()
        if self.exist and not self._about_all:
            self._sort_links(snapshot)

    def _sort_links(self, snapshot: Snapshot) -> None:
        assert snapshot.inventory is not None
        known = snapshot.inventory.links, snapshot.links.values(), snapshot.departed.values()
        links = [link for part in known for link in part]
        changed = _changed_links(snapshot, links)
        for link in links:
            if link.ifindex in changed:
                self._changed |= _subjects_of(link)
        for link in links:
            if link.ifindex not in changed:
                self._others |= _subjects_of(link)

    def concern(self, finding: Finding) -> bool:
        if not self.exist or self._about_all:
            return self.exist
        if finding.subject.startswith(NOT_OF_LINKS):
            return False
        subjects = {finding.ifindex, finding.subject} - {None}
        if subjects & self._changed:
            return True
        return not subjects & self._others


def _changed_links(snapshot: Snapshot, links: Sequence[Link]) -> Collection[int]:
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


def _subjects_of(link: Link) -> set[int | str | None]:
    return {subject for subject in (link.ifindex, link.name, link.pci_address) if subject}


def with_marks(findings: Iterable[Finding], hosts: Iterable[Snapshot]) -> tuple[Finding, ...]:
    """With a mark at all that an event may have changed: they were found before it."""
    doubts = {host.host: Doubts(host) for host in hosts if host.unread_event is not None}
    found = []
    for finding in findings:
        doubted = doubts.get(finding.host)
        is_doubted = doubted is not None and doubted.concern(finding)
        found.append(marked(finding) if is_doubted else finding)
    return tuple(found)
