"""What `nictop check` knows of a path stands in the findings of its test in place of guesses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nictop.probe.records import PathListener, PathReplies, PathTest, TrafficPath
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.findings.known_causes import (
    ISOLATED,
    RULES_OF_BOTH_ENDS,
    RULES_OF_ONE_END,
    _has_word,
    with_known_causes,
)
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

A = PathEnd("a", "lab0", 5, "198.18.0.1", "02:00:00:00:00:01", 1500, root=True)
B = PathEnd("b", "lab0", 6, "198.18.0.2", "02:00:00:00:00:02", 1500, root=True)
OTHER = PathEnd("b", "lab1", 9, "198.18.7.2", "02:00:00:00:00:99", 1500, root=True)
CASES: dict[str, Any] = json.loads((CASES_DIRECTORY / "bridges" / f"{ISOLATED}.json").read_text())
FACTS = {host["name"]: host_facts(host) for host in CASES["fires"][0]["hosts"]}


def silent(sender: PathEnd, receiver: PathEnd) -> PathDirection:
    path = TrafficPath(receiver.address, sender.address, "unicast", sender.ifindex, None, "failed")
    replies = (PathReplies("icmp", "raw", 5), PathReplies("udp", "", 5))
    test = PathTest(receiver.address, sender.address, 40000, macs=(), path=path, replies=replies)
    return PathDirection(sender, receiver, test, PathListener(40000, ended=True, arrived=()))


@pytest.mark.parametrize(("far", "is_named"), [(B, True), (OTHER, False)])
def test_known_cause_of_both_ends(far: PathEnd, is_named: bool) -> None:
    result = PathResult(1.0, "198.18.0.0/24", 0, (silent(A, far), silent(far, A)))
    before = path_findings(result, FACTS)
    assert {one.rule for one in before} == {"path_no_neighbour"}
    assert all("different VLAN" in one.why for one in before)
    after = with_known_causes(before, result, FACTS)
    cause = "switch br0: isolated ports: no frame passes between a lab0, b lab0"
    for finding in after:
        assert ("different VLAN" in finding.why) is not is_named
        assert (cause in finding.why) is is_named
        assert (finding.evidence[0].value == cause) is is_named


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("198.18.0.1/24 here", True),
        ("198.18.0.11 and (198.18.0.1)", True),
        ("198.18.0.11, 1198.18.0.1", False),
        ("", False),
    ],
)
def test_address_is_a_whole_word(text: str, expected: bool) -> None:
    assert _has_word(text, "198.18.0.1") is expected


def test_rules_exist() -> None:
    from nictop.rules.registry import RULES

    assert set(RULES_OF_BOTH_ENDS) | set(RULES_OF_ONE_END) <= set(RULES)
