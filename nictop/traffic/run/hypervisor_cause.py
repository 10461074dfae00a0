"""The packet filter of a watched hypervisor as the cause of a failed connection between its guests.
Reads nothing."""

from __future__ import annotations

from nictop.model.text.terminal import clean
from nictop.rules.bridges.forward_filters import bridge_finding
from nictop.traffic.failures import Failure
from nictop.traffic.path.refusing_bridge import refusing_bridge
from nictop.traffic.record.log import RunLog


def or_hypervisor(log: RunLog, cause: Failure | None) -> Failure | None:
    """`cause`, what both ends show; the filter of their hypervisor if that is nothing, or a
    neighbour that does not answer, which the filter may also explain."""
    if cause is not None and cause.kind != "no_neighbour":
        return cause
    snapshots = {name: host.snapshot for name, host in log.hosts.items()}
    ends = [(end.host, end.ifindex) for end in (log.plan.client, log.plan.server)]
    found = refusing_bridge(snapshots, ends, is_ipv6=log.plan.ip_version == 6)
    if found is None:
        return cause
    finding = bridge_finding(found.host, found.found)
    commands = next((fix.commands for fix in finding.fixes if fix.commands), ())
    return Failure(
        "filtered",
        f"{clean(finding.host)}, the hypervisor: {clean(finding.subject)}: {clean(finding.title)}",
        tuple(map(str, commands)),
        finding.host,
    )
