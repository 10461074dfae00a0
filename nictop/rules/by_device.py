"""The findings about each device of a host. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from nictop.model.devices.tree import Row
from nictop.model.snapshot import Snapshot
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link
from nictop.rules.finding import SEVERITIES, Finding
from nictop.rules.registry import Diagnosis
from nictop.rules.subjects import is_up
from nictop.rules.unchecked import open_findings

PCI_ADDRESS = pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""domain:bus:device.function"""
RULES_OF_HISTORY = frozenset(
    {
        "ipv6_address_went_with_the_link",
        "port_was_taken_from_a_bridge",
        "static_route_went_with_the_link",
    }
)
"""Their findings rest on what a netdev had before. Another netdev of its name has a history of its
own: that it has no such finding does not mean that what was lost is back."""
RULES_OF_COUNTED_HISTORY = frozenset({"carrier_flaps", "nic_is_reset_repeatedly"})
"""The same of events that are counted, which go on for another netdev of the same device
(`model.devices.link_history`)."""
DeviceFindings = Mapping[int | str, Sequence[Finding]]
"""ifindex of a netdev, or address of a PCI function → its findings, worst first."""
SubjectLoss = Literal["", "gone", "down"]
"""What is the matter with the NIC of a finding; "": nothing."""


def device_findings(diagnosis: Diagnosis | None, host: str) -> DeviceFindings:
    """The findings of one host by device. Those about something else are under the name of their
    subject. One that is also about another device has the name of its subject there."""
    found: dict[int | str, list[Finding]] = {}
    for finding in open_findings(diagnosis):
        if finding.host == host:
            device: int | str = finding.subject
            if finding.ifindex is not None:
                device = finding.ifindex
            found.setdefault(device, []).append(finding)
        for name, ifindex in finding.also:
            if name == host:
                found.setdefault(ifindex, []).append(_seen_elsewhere(finding, host))
    return found


def _seen_elsewhere(finding: Finding, host: str) -> Finding:
    """``vm1 ens224: 192.0.2.7 is also on vm2 ens224``"""
    subject = finding.subject if finding.host == host else f"{finding.host} {finding.subject}"
    return replace(finding, title=f"{subject}: {finding.title}")


def reported_now(finding: Finding, diagnosis: Diagnosis) -> Finding | None:
    """The same finding in a newer diagnosis; None: it is not reported any more."""
    for reported in diagnosis.findings:
        if reported.identity == finding.identity:
            return reported
    return None


def not_lost(_: Finding) -> SubjectLoss:
    return ""


def losses_in(snapshots: Mapping[str, Snapshot]) -> Callable[[Finding], SubjectLoss]:
    """`subject_loss` of findings about these hosts, by name."""

    def loss_of(finding: Finding) -> SubjectLoss:
        snapshot = snapshots.get(finding.host)
        return "" if snapshot is None else subject_loss(finding, snapshot)

    return loss_of


def subject_loss(finding: Finding, snapshot: Snapshot) -> SubjectLoss:
    """Why it says nothing that the finding is not reported any more: most checks are not about
    links that are down."""
    if is_subject_gone(finding, snapshot):
        return "gone"
    if finding.ifindex is None:
        return ""
    link = snapshot.links.get(finding.ifindex)
    if link is None or (is_up(link) and link.carrier is not False):
        return ""
    return "down"


def is_subject_gone(finding: Finding, snapshot: Snapshot) -> bool:
    """The NIC of the finding is not there any more: that it is not reported does not mean that it
    is resolved."""
    if snapshot.inventory is None:
        return False
    unread = snapshot.inventory.unreadable
    if finding.ifindex is not None:
        if "links" in unread:
            return False
        if finding.ifindex in snapshot.links:
            return False
        same_name = [link for link in snapshot.links.values() if link.name == finding.subject]
        return not same_name or _has_another_history(finding, same_name[0])
    if not PCI_ADDRESS.fullmatch(finding.subject) or "pci" in unread:
        return False
    return all(function.address != finding.subject for function in snapshot.pci)


def _has_another_history(finding: Finding, link: Link) -> bool:
    """`link`: the present one of that name, which is not the one of the finding."""
    if finding.rule in RULES_OF_COUNTED_HISTORY:
        return link.device is None
    return finding.rule in RULES_OF_HISTORY


def findings_of(row: Row, findings: DeviceFindings) -> Sequence[Finding]:
    """Findings about the netdev of a row and about its PCI function, the worst first: those of its
    mark, of its filter, and of the panel below the table."""
    found: list[Finding] = []
    if row.link is not None:
        found += findings.get(row.link.ifindex, ())
    if row.pci is not None:
        found += findings.get(row.pci.address, ())
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
