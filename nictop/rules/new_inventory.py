"""Findings that rest on an inventory of before: what a newer one has changed, on which the checks
have not run yet.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from nictop.model.doubts import NOT_OF_LINKS
from nictop.probe.counters.targets import stable_fields
from nictop.probe.records import Inventory, Link
from nictop.rules.finding import Finding
from nictop.rules.outdated import marked
from nictop.rules.registry import RULES
from nictop.rules.sources import PART_OF


class InventoryChanges:
    """Between the inventory that was checked and the newest one of the same host. What differs in
    every inventory is no change (`probe.counters.targets.VOLATILE_FIELDS`)."""

    def __init__(self, before: Inventory, after: Inventory) -> None:
        self._before, self._after = before, after
        self._known: dict[str, bool] = {}

    def concern(self, finding: Finding) -> bool:
        """A source that its rule asks has changed: of the links those of its subject."""
        sources: Sequence[str] = ("links",)
        if finding.rule in RULES:
            sources = RULES[finding.rule].sources
        areas = {source.partition(".")[0] for source in sources}
        parts = {PART_OF.get(area, area) for area in areas}
        if any(map(self._is_changed, parts - {"links"})):
            return True
        return "links" in parts and self._are_links_changed(finding)

    def _is_changed(self, part: str) -> bool:
        """A field of the inventory."""
        known = self._known.get(part)
        if known is None:
            before, after = getattr(self._before, part, None), getattr(self._after, part, None)
            known = self._known[part] = differ(before, after)
        return known

    def _are_links_changed(self, finding: Finding) -> bool:
        if self._before.links is self._after.links or finding.subject.startswith(NOT_OF_LINKS):
            return False
        before = _links_of(finding, self._before.links)
        after = _links_of(finding, self._after.links)
        if not before and not after:
            return self._is_changed("links")
        return differ(before, after)


def with_changes(
    findings: Iterable[Finding], host: str, changes: InventoryChanges
) -> list[Finding]:
    """With a mark at those of this host that they may have changed."""
    return [
        marked(finding) if finding.host == host and changes.concern(finding) else finding
        for finding in findings
    ]


def _links_of(finding: Finding, links: Sequence[Link]) -> list[Link]:
    """Those of its subject, and the ones that they are a part of."""
    subjects = {finding.ifindex, finding.subject} - {None, ""}
    found = [link for link in links if subjects & {link.ifindex, link.name, link.pci_address}]
    above = {link.master for link in found} | {link.lower for link in found}
    return [*found, *(link for link in links if link.ifindex in above)]


def differ(before: object, after: object) -> bool:
    """In more than what differs in every inventory."""
    if before is after or before == after:
        return False
    return _stable_text(before) != _stable_text(after)


def _stable_text(record: object) -> str:
    return json.dumps(record, default=stable_fields)
