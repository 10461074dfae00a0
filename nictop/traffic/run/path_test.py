"""The short path test of a run: of the port of the run, with the findings that matter to it."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.records import TrafficTools
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.findings.hypervisor_filters import with_hypervisor_filter
from nictop.traffic.path.findings.tested_direction import Protocol
from nictop.traffic.path.result import PathReport
from nictop.traffic.path.run import PathRun, PathTimeouts
from nictop.traffic.plan.plan import EndpointPair, RunPlan
from nictop.traffic.run.host import RunHost

SHOWN_INFO = ("path_mtu_smaller", "path_asymmetric")
"""Findings of severity info that are shown with a run; those about firewalls are of random ports."""


def run_path_test(
    plan: RunPlan, hosts: Mapping[str, RunHost], identity: str, timeouts: PathTimeouts | None = None
) -> PathRun:
    """`identity`: of the run. Raises ValueError for an invalid address."""
    pair = EndpointPair("", plan.client, plan.server)
    return PathRun(pair, hosts, ports=(0, plan.port), short=True, timeouts=timeouts, identity=identity)


def run_path_report(
    plan: RunPlan, path: PathRun, hosts: Mapping[str, RunHost], tools: Mapping[str, TrafficTools]
) -> PathReport | None:
    """`tools`: by host. None: the inventory of a host is not known."""
    facts = {end.host: HostFacts(hosts[end.host].snapshot) for end in (plan.client, plan.server)}
    if any(host.snapshot.inventory is None for host in facts.values()):
        return None
    firewalls = {host: one.firewalls for host, one in tools.items() if one.firewalls is not None}
    # generators control a UDP run over TCP
    protocols: tuple[Protocol, ...] = ("udp", "tcp") if plan.protocol == "udp" else ("tcp",)
    result = path.result()
    found = path_findings(result, facts, firewalls, protocols)
    found = with_hypervisor_filter(found, result, {name: host.snapshot for name, host in hosts.items()})
    return PathReport(result, tuple(one for one in found if one.severity != "info" or one.rule in SHOWN_INFO))
