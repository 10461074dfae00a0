"""What the checks find does not depend on the order in which the hosts were named."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from nictop.rules import RULES, Finding, HostFacts, diagnose
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

MOST_ORDERS = 6
PAIR_RULES = sorted(rule.name for rule in RULES.values() if rule.compares_hosts)


def cases(rule: str) -> list[dict[str, Any]]:
    (path,) = Path(CASES_DIRECTORY).glob(f"*/{rule}.json")
    return [case for case in json.loads(path.read_text())["fires"] if len(case["hosts"]) > 1]


@pytest.mark.parametrize("rule", PAIR_RULES)
def test_the_order_of_hosts_changes_no_finding(rule: str) -> None:
    for case in cases(rule):
        hosts = [host_facts(host) for host in case["hosts"]]
        first = found(hosts)
        assert any(finding.rule == rule for finding in first)
        for order in list(permutations(hosts))[1:MOST_ORDERS]:
            again = found([HostFacts(host.snapshot, host.window) for host in order])
            assert again == first, [host.name for host in order]


def found(hosts: list[HostFacts]) -> tuple[Finding, ...]:
    return diagnose(hosts).findings


def test_pair_rules_have_cases_of_several_hosts() -> None:
    """Those of the others compare a guest with its hypervisor, or two NICs, in one host."""
    assert sum(bool(cases(rule)) for rule in PAIR_RULES) >= 32
