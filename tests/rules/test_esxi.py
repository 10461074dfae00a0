"""Rules on an ESXi host: those of Linux hosts are not evaluated, and nothing is reported without a
cause."""

from __future__ import annotations

from nictop.rules import diagnose
from tests.support.esxi import esxi_lines, statistics
from tests.support.rule_cases import host_facts_after


def test_a_host_without_a_problem_has_no_finding() -> None:
    value = statistics()
    for world in value["stats"][0]["vcpus"].values():
        world.update(ready=0.1, cstp=0.0)
    diagnosis = diagnose([host_facts_after(esxi_lines(stats=value), "esx1")])
    assert diagnosis.findings == () and diagnosis.skipped == ()


def test_ready_and_costop_of_a_machine() -> None:
    diagnosis = diagnose([host_facts_after(esxi_lines(), "esx1")])
    assert [(one.rule, one.subject, one.title) for one in diagnosis.findings] == [
        ("esxi_holds_vcpus_back", "db1", "12 % CPU ready, 2.0 % co-stop")
    ]
