"""The short path test of a run: of the port of the run, with the findings that matter to it."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.records import TrafficTools
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.findings.hypervisor_filters import with_hypervisor_filter
from nictop.traffic.path.findings.tested_direction import Protocol
from nictop.traffic.path.result import PathReport
from nictop.traffic.path.run import PathRun, PathTimeouts
from nictop.traffic.plan.plan import EndpointPair, RunPlan

SHOWN_INFO = ("path_mtu_smaller", "path_asymmetric")
"""Findings of severity info that are shown with a run; those about firewalls are of random
ports."""


def run_path_test(
    plan: RunPlan, hosts: Mapping[str, RunHost], identity: str, timeouts: PathTimeouts | None = None
) -> PathRun:
    """`identity`: of the run. Raises ValueError for an invalid address."""
    pair = EndpointPair("", plan.client, plan.server)
    return PathRun(
        pair, hosts, ports=(0, plan.port), short=True, timeouts=timeouts, identity=identity
    )


def run_path_report(
    plan: RunPlan, path: PathRun, hosts: Mapping[str, RunHost], tools: Mapping[str, TrafficTools]
) -> PathReport | None:
    """`tools`: by host. None: the inventory of a host is not known."""
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    ends = (snapshots[plan.client.host], snapshots[plan.server.host])
    if any(snapshot.inventory is None for snapshot in ends):
        return None
    facts = {name: HostFacts(snapshot) for name, snapshot in snapshots.items()}
    firewalls = {}
    for host, found in tools.items():
        if found.firewalls is not None:
            firewalls[host] = found.firewalls
    # generators control a UDP run over TCP
    protocols: tuple[Protocol, ...] = ("udp", "tcp") if plan.protocol == "udp" else ("tcp",)
    result = path.result()
    findings = path_findings(result, facts, firewalls, protocols)
    findings = with_hypervisor_filter(findings, result, snapshots)
    return PathReport(result, tuple(filter(_is_shown, findings)))


def _is_shown(finding: Finding) -> bool:
    return finding.severity != "info" or finding.rule in SHOWN_INFO
