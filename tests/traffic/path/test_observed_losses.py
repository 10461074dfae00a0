"""Path tests between two guests whose hypervisor drops packets on its links: real probes, bridges
and queues; and taps, whose reader cannot be a guest here, from records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.probe.records import LossCount, PathReplies
from nictop.rules.finding import Finding
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.findings.observed_losses import with_observed_losses
from nictop.traffic.path.result import PathResult
from tests.support.namespaces import why_no_namespaces
from tests.support.rule_cases import host_facts
from tests.traffic.path.test_findings import FACTS, healthy
from tests.traffic.path.test_hypervisor_filter import bridged, path_report

REASON = why_no_namespaces()
TAP = {
    "kind": "tun",
    "type": 1,
    "carrier": True,
    "address": "fe:54:00:00:00:02",
    "details": {"tun_type": "tap"},
}
HYPERVISOR = host_facts(
    {"base": "libvirt-host", "links": {"vnet7": {**TAP, "ifindex": 99}}}
).snapshot
SNAPSHOTS = {
    **{name: facts.snapshot for name, facts in FACTS.items()},
    "h": replace(HYPERVISOR, host="h"),
}
LOSING = (PathReplies("icmp", "raw", 100, (0.001,) * 60),)
SLOW = "tc qdisc replace dev vnet2 root tbf rate 8kbit burst 1600 limit 1600"
"""Enough for ARP and a few packets: the others are dropped."""


def findings_with(*counted: LossCount) -> tuple[Finding, ...]:
    """Of a test that missed 40 of 100 packets from a to b, whose tap is vnet7."""
    result = PathResult(1.0, "", 0, (healthy("a", "b", replies=LOSING), healthy("b", "a")))
    return with_observed_losses(path_findings(result, FACTS), result, SNAPSHOTS, {"h": counted})


def test_a_tap_whose_guest_does_not_fetch_is_named() -> None:
    (finding,) = findings_with(LossCount("link", "tx_dropped", 38, 99))
    assert (finding.rule, finding.severity, finding.host) == (
        "path_hypervisor_loss",
        "warning",
        "h",
    )
    assert (finding.subject, finding.ifindex) == ("vnet7", 99)
    assert finding.title == "drops packets on the path of b: tx_dropped of vnet7 +38"
    assert finding.why.endswith("its virtual CPUs or the vhost thread are busy or stopped.")


@pytest.mark.parametrize(
    "counted",
    [
        LossCount("link", "tx_dropped", 19, 99),
        LossCount("link", "tx_dropped", 38, 1),
        LossCount("link", "rx_dropped", 38, 99),
        LossCount("softnet", "dropped", 38),
    ],
    ids=["too few", "another link", "of the other direction", "of the whole host"],
)
def test_what_may_be_of_other_packets_is_evidence(counted: LossCount) -> None:
    (finding,) = findings_with(counted)
    assert (finding.rule, finding.host) == ("path_loss", "a")
    assert [one.what for one in finding.evidence].count("counted by h during the test") == 1


@pytest.mark.skipif(REASON is not None, reason=REASON or "")
@pytest.mark.asyncio
async def test_a_queue_of_the_hypervisor_is_named() -> None:
    async with bridged() as (both, hypervisor):
        hypervisor.run(["bash", "-ec", SLOW])
        report = await path_report(both, "a", "b", "h")
        (finding,) = [one for one in report.findings if one.rule == "path_hypervisor_loss"]
        assert (finding.host, finding.subject) == ("h", "vnet2")
        assert "dropped by qdisc tbf" in finding.title
        assert not any(
            one.rule in ("path_loss", "path_lost", "path_no_answer") for one in report.findings
        )
        unwatched = await path_report(both, "a", "b")
        assert not any(one.host == "h" for one in unwatched.findings)
        assert any(
            one.rule in ("path_loss", "path_lost", "path_no_answer") for one in unwatched.findings
        )
        hypervisor.run(["tc", "qdisc", "del", "dev", "vnet2", "root"])
        assert (await path_report(both, "a", "b", "h")).findings == ()
