"""A rule that has not looked at counters is believed at once: then counters must not matter to what
it says."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nictop.changes.events import RuleVerdict
from nictop.changes.finding_watch import FindingWatch, diagnose_tracked, verdict
from nictop.rules import RULES, Diagnosis, Finding, HostFacts, Rule, diagnose
from nictop.rules.by_device import reported_now
from nictop.rules.unchecked import with_unchecked
from tests.support.rule_cases import CASES_DIRECTORY as CASES
from tests.support.rule_cases import host_facts

BOTH_FAMILIES = "IPv4 and IPv6 addresses of one NIC"
FILES = sorted(path for path in CASES.glob("*/*.json") if path.parent.name != "bases")


def hosts_of(path: Path) -> list[list[HostFacts]]:
    """Those of each case of a file."""
    cases: dict[str, Any] = json.loads(path.read_text())
    return [
        [host_facts(found) for found in case["hosts"]]
        for kind in cases.values()
        for case in kind
        if "hosts" in case
    ]


def without_counters(host: HostFacts) -> HostFacts:
    return HostFacts(
        replace(host.snapshot, counters=None, before=None, rates=None, vf_base=None), ()
    )


def what_is_found(hosts: list[HostFacts], rule: Rule) -> list[tuple[str, str]]:
    return [(one.host, one.subject) for one in diagnose(hosts, [rule]).findings]


def test_what_is_believed_at_once_does_not_depend_on_counters() -> None:
    """All rules, about all hosts of all cases; some rules do look, and some do not."""
    assert FILES
    seen: Counter[bool] = Counter()
    for path in FILES:
        rule = RULES[path.stem]
        for hosts in hosts_of(path):
            found, counted = diagnose_tracked(hosts, [rule])
            seen[counted] += 1
            assert found.findings == diagnose(hosts, [rule]).findings
            if not counted:
                blind = what_is_found([without_counters(host) for host in hosts], rule)
                assert blind == [(one.host, one.subject) for one in found.findings], path.stem
    assert seen[True] > 50 and seen[False] > 50, seen


@pytest.mark.parametrize(
    ("rule", "at_once"), [("profile_is_generated", True), ("frames_arrive_damaged", False)]
)
def test_a_rule_that_looks_at_counters_waits_for_rates_of_after_the_change(
    rule: str, at_once: bool
) -> None:
    (path,) = (path for path in FILES if path.stem == rule)
    case = json.loads(path.read_text())["fires"][0]
    host = host_facts(case["hosts"][0])
    found: Finding = diagnose([host], [RULES[rule]]).findings[0]
    inventory = host.inventory
    watch = FindingWatch(found, inventory.time)
    alone = replace(host.snapshot, counters=None, before=None, rates=None, state="live")
    assert watch.take(alone) == (RuleVerdict(False) if at_once else None)
    assert watch.take(alone) is None
    assert FindingWatch(found, inventory.time + 1.0).take(alone) is None


def test_another_finding_of_the_rule_about_the_same_nic_is_not_taken_for_it() -> None:
    """Two addresses of a NIC have other prefix lengths than their peers: one of them is fixed."""
    cases = json.loads((CASES / "link" / "prefix_length_differs.json").read_text())["fires"]
    (case,) = (one for one in cases if one["case"] == BOTH_FAMILIES)
    hosts = [host_facts(found) for found in case["hosts"]]
    rule = RULES["prefix_length_differs"]
    ipv4, ipv6 = diagnose(hosts, [rule]).findings
    assert ipv4.subject == ipv6.subject and (ipv4.item, ipv6.item) == ("10.0.0.1", "2001:db8::1")
    nic = case["hosts"][0]["links"]["enp1s0"]
    nic["addresses"][0]["prefix_length"] = 16
    hosts = [host_facts(found) for found in case["hosts"]]
    assert verdict(ipv4, hosts)[0] == RuleVerdict(True)
    assert verdict(ipv6, hosts)[0] == RuleVerdict(False)
    left = diagnose(hosts, [rule])
    assert reported_now(ipv4, left) is None
    found = reported_now(ipv6, left)
    assert found is not None and found.item == ipv6.item
    before, unread = Diagnosis((ipv4, ipv6), ()), Diagnosis((), (), ("another",))
    assert with_unchecked(unread, before, [ipv4.host]).unchecked == (ipv4, ipv6)


def test_a_finding_of_two_hosts_does_not_go_by_the_order_of_the_hosts() -> None:
    """All rules that compare, about all hosts of all cases: after a change the host of the finding
    is read first, wherever it was in the list."""
    compared = set()
    for path in FILES:
        rule = RULES[path.stem]
        for hosts in hosts_of(path):
            if len(hosts) < 2 or not rule.compares_hosts:
                continue
            for found in diagnose(hosts, [rule]).findings:
                own = next(host for host in hosts if host.name == found.host)
                others = [host for host in hosts if host is not own]
                assert verdict(found, [own, *others])[0] == RuleVerdict(False), path.stem
                compared.add(rule.name)
    assert {"ip_address_is_on_two_hosts", "machine_id_is_cloned"} <= compared
