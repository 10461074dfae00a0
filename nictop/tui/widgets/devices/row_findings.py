"""The worst finding about rows of the tree, and their order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nictop.model.devices.tree import Row
from nictop.rules import SEVERITIES
from nictop.rules.by_device import DeviceFindings, findings_of

if TYPE_CHECKING:
    from nictop.rules import Finding, Severity


def worst_severity(rows: Iterable[Row], findings: DeviceFindings) -> Severity | None:
    """That of the worst finding about one of these rows; None: there is none."""
    worst = worst_finding(rows, findings)
    return None if worst is None else worst.severity


def worst_finding(rows: Iterable[Row], findings: DeviceFindings) -> Finding | None:
    """Of equal ones, one that no event has made doubtful."""
    found = [finding for row in rows for finding in findings_of(row, findings)]
    return min(found, key=severity_rank, default=None)


def severity_rank(finding: Finding) -> tuple[int, bool]:
    """The worst first; of equal ones, those that no event has made doubtful."""
    return SEVERITIES.index(finding.severity), finding.outdated


def places_of_findings(findings: DeviceFindings) -> Mapping[int | str, int]:
    """Key of `DeviceFindings` → place of the worst finding of it among all critical ones and
    warnings."""
    urgent = [key for key, found in findings.items() if found[0].severity != "info"]
    return {key: place for place, key in enumerate(urgent)}


def place_of(row: Row, places: Mapping[int | str, int]) -> int:
    """That of the worst finding about the netdev of a row or its PCI function; behind all others if
    there is none."""
    place = len(places)
    if row.link is not None:
        place = min(place, places.get(row.link.ifindex, place))
    if row.pci is not None:
        place = min(place, places.get(row.pci.address, place))
    return place
