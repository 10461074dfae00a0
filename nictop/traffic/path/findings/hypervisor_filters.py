"""Packets between two guests that their watched hypervisor drops: named instead of what only looks
like it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.rules.bridges.forward_filters import bridge_finding
from nictop.rules.finding import Finding
from nictop.traffic.path.refusing_bridge import refusing_bridge
from nictop.traffic.path.result import PathResult

RULE = "path_hypervisor_filter"
CONSEQUENCES = (
    *(
        "path_lost",
        "path_no_answer",
        "path_no_neighbour",
        "path_gateway_silent",
        "path_firewall",
        "path_only_icmp",
    ),
    *("path_firewall_icmp", "path_rp_filter"),
)
"""What looks like another cause."""


def with_hypervisor_filter(
    findings: tuple[Finding, ...], result: PathResult, snapshots: Mapping[str, Snapshot]
) -> tuple[Finding, ...]:
    """The findings of a path test, with the packet filter of a hypervisor in place of its
    consequences. `snapshots`: of all watched hosts."""
    if not any(finding.rule in CONSEQUENCES for finding in findings):
        return findings
    first = result.directions[0]
    ends = [(end.host, end.ifindex) for end in (first.sender, first.receiver)]
    refusing = refusing_bridge(snapshots, ends, is_ipv6=":" in first.receiver.address)
    if refusing is None:
        return findings
    cause = replace(bridge_finding(refusing.host, refusing.found), rule=RULE)
    return (cause, *(finding for finding in findings if finding.rule not in CONSEQUENCES))
