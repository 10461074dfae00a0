"""A VF that has a carrier although its PF has none: nothing is offered that would give it one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nictop.rules import Finding, diagnose
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

RULE = "port_of_virtual_functions_is_down"
CASES = json.loads((CASES_DIRECTORY / "vf" / f"{RULE}.json").read_text())["fires"]
(WATCHED,) = (case for case in CASES if case["case"].startswith("one guest is watched"))


def found(carrier: bool) -> Finding | None:
    hosts: list[dict[str, Any]] = json.loads(json.dumps(WATCHED["hosts"]))
    for host in hosts[1:]:
        for link in host["links"].values():
            link["carrier"] = carrier
    findings = diagnose([host_facts(host) for host in hosts]).findings
    return next((one for one in findings if one.rule == RULE), None)


@pytest.mark.parametrize("carrier", [False, True])
def test_only_vfs_without_a_carrier_are_enabled(*, carrier: bool) -> None:
    finding = found(carrier)
    assert finding is not None
    named = [one.value for one in finding.evidence if one.what == "VF with a carrier"]
    assert bool(named) == carrier
    enabled = [fix.title for fix in finding.fixes if "enable" in fix.title]
    assert enabled == ["Set link state enable for VF 1"], "VF 0 is that of the watched guest"
