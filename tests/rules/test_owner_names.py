"""Findings about a VF name the guest that has it."""

from __future__ import annotations

import json
from typing import Any

from nictop.rules import HostFacts, diagnose
from nictop.rules.vf.facts import vf_name
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

CASE = CASES_DIRECTORY / "vf" / "vf_link_is_disabled.json"


def case(address: str, state: str = "running") -> HostFacts:
    """The first case of that rule, with a guest that has the function."""
    host: dict[str, Any] = json.loads(CASE.read_text())["fires"][0]["hosts"][0]
    nic = {"backend": "vfio", "pci_address": address}
    guest = {"name": "web1", "kind": "vm", "product": "qemu", "state": state, "nics": [nic]}
    return host_facts({**host, "guests": [guest]})


def first_function(host: HostFacts) -> str:
    port = next(link for link in host.links if link.virtual_functions)
    physical = host.functions[port.pci_address or ""]
    assert physical.sriov is not None
    return physical.sriov.virtual_functions[0]


def test_a_finding_names_the_guest() -> None:
    address = first_function(case(""))
    found = diagnose([case(address)]).findings
    finding = next(one for one in found if one.rule == "vf_link_is_disabled")
    assert "VF 0 (VM web1)" in finding.title + str(finding.evidence)


def test_the_name_of_a_function_without_a_guest_is_its_number() -> None:
    host = case("0000:00:00.0")
    port = next(link for link in host.links if link.virtual_functions)
    assert vf_name(host, port, 0) == "VF 0"
    stopped = case(first_function(host), "stopped")
    assert vf_name(stopped, port, 0) == "VF 0 (VM web1, stopped)"
