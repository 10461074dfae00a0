"""The findings about each device of a host. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.devices.tree import Row
from nictop.rules.finding import SEVERITIES, Finding
from nictop.rules.registry import Diagnosis
from nictop.rules.unchecked import open_findings

DeviceFindings = Mapping[int | str, Sequence[Finding]]
"""ifindex of a netdev, or address of a PCI function → its findings, worst first."""


def device_findings(diagnosis: Diagnosis | None, host: str) -> DeviceFindings:
    """The findings of one host by device. Those about something else are under the name of their
    subject."""
    found: dict[int | str, list[Finding]] = {}
    for finding in open_findings(diagnosis):
        if finding.host != host:
            continue
        device: int | str = finding.subject
        if finding.ifindex is not None:
            device = finding.ifindex
        found.setdefault(device, []).append(finding)
    return found


def findings_of(row: Row, findings: DeviceFindings) -> Sequence[Finding]:
    """Findings about the netdev of a row and about its PCI function, the worst first: those of its
    mark, of its filter, and of the panel below the table."""
    found: list[Finding] = []
    if row.link is not None:
        found += findings.get(row.link.ifindex, ())
    if row.pci is not None:
        found += findings.get(row.pci.address, ())
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
