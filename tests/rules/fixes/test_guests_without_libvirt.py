"""Commands of libvirt are for guests that libvirt runs, or whose file it has."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from nictop.rules import diagnose
from nictop.rules.finding import Finding
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

RULES = (
    "virtio/guest_nic_has_one_queue",
    "virtio/guest_nic_has_more_queues_than_processors",
    "virtio/guest_nic_has_no_vhost",
    "virtio/guest_nic_is_emulated",
    "link/guest_mtu_exceeds_its_tap",
    "bridges/guest_is_on_another_bridge",
    "bridges/vlan_is_not_on_the_bridge_port",
)


def findings(case: dict[str, Any], rule: str, environment: str | None) -> list[Finding]:
    """With another product on the hosts that run guests; Proxmox is left as it is."""
    hosts = copy.deepcopy(case["hosts"])
    for host in hosts:
        platform = host.setdefault("platform", {})
        if {"threads", "guests"} & set(host) and platform.get("environment") != "proxmox":
            platform["environment"] = environment
    found = diagnose(map(host_facts, hosts)).findings
    return [finding for finding in found if finding.rule == rule.rpartition("/")[2]]


def domains(found: list[Finding]) -> list[str]:
    """Their commands of virsh."""
    steps = [step for one in found for fix in one.fixes for step in (*fix.commands, *fix.undo)]
    return [str(step) for step in steps if str(step).startswith("virsh")]


@pytest.mark.parametrize("rule", RULES)
def test_a_guest_that_something_else_runs(rule: str) -> None:
    cases = json.loads((CASES_DIRECTORY / f"{rule}.json").read_text())["fires"]
    assert any(domains(findings(case, rule, "libvirt")) for case in cases)
    for case in cases:
        found = findings(case, rule, None)
        assert found and domains(found) == []
