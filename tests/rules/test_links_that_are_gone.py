"""A NIC whose interface has just gone: what its profile is for is not asked of another NIC before
the next inventory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nictop.probe.records import Line, LinkChange
from nictop.rules import diagnose
from tests.support.rule_cases import CASES_DIRECTORY, complete, host_facts_after, probe_lines

RULES = ("profile_names_a_missing_interface", "vlan_profile_names_a_missing_parent")


def firing_host(rule: str) -> dict[str, Any]:
    """Of the first case of a rule that fires."""
    (file,) = CASES_DIRECTORY.rglob(f"{rule}.json")
    case = json.loads(file.read_text())["fires"][0]
    host: dict[str, Any] = complete(case["hosts"][0] if "hosts" in case else case["host"])
    return host


def lines_with_a_change(rule: str, *, gone: bool) -> list[Line]:
    """The host with one more NIC, which has gone, or which only an event has made known."""
    lines = probe_lines(firing_host(rule))
    (number,) = [number for number, line in enumerate(lines) if line.inventory is not None][-1:]
    inventory = lines[number].inventory
    assert inventory is not None
    change = LinkChange(
        inventory.time + 1, 900, gone, "ens900", "down", carrier=False, flags=0, mtu=1500
    )
    if gone:
        nic = next(link for link in inventory.links if link.pci_address is not None)
        other = replace(nic, ifindex=900, name="ens900")
        lines[number] = Line(inventory=replace(inventory, links=(*inventory.links, other)))
    return [*lines, Line(link_change=change)]


@pytest.mark.parametrize("rule", RULES)
def test_the_case_fires_by_itself(rule: str) -> None:
    facts = host_facts_after(probe_lines(firing_host(rule)), "vm1")
    assert rule in {finding.rule for finding in diagnose([facts]).findings}


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "come"])
@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_proposed_before_the_next_inventory(rule: str, gone: bool) -> None:
    facts = host_facts_after(lines_with_a_change(rule, gone=gone), "vm1")
    proposed = [
        finding
        for finding in diagnose([facts]).findings
        if finding.rule == rule and (finding.ifindex is not None or rule.startswith("vlan"))
    ]
    assert proposed == []
