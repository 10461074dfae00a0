"""Every rule has a case with a finding and a similar healthy case without; cases are files in
tests/data/rules.

    tests/data/rules/FAMILY/RULE.json
    {"fires":  [{"case": "what it is", "hosts": [HOST…], "findings": [{"rule": …, "subject": …,
               …}]}],
     "silent": [{"case": "why it is healthy", "hosts": [HOST…], "findings": []}]}

``findings`` is the complete list for those hosts, from all rules: a cause that is reported twice
fails here. Of each finding only the given keys are compared; ``commands`` are those of all its
fixes that run "here", ``undo`` those that undo them, ``fixes`` those by place, ``fix_titles`` the
titles of all fixes, ``shown_by`` commands that show its evidence, ``says`` and ``never_says`` parts
of its title, its why and the titles and notes of its fixes. ``skipped`` (rule names) is compared when it is given. HOST: see
tests/support/rule_cases.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nictop.rules import RULES, Finding, diagnose
from nictop.rules.fixes.persistence import MIN_IPV4_MTU
from nictop.rules.profiles.dhcp_attempts import FIRST_ATTEMPT
from tests.support.printed_mtus import printed_mtus
from tests.support.rule_cases import CASES_DIRECTORY as DATA
from tests.support.rule_cases import host_facts

FILES = sorted(path for path in DATA.glob("*/*.json") if path.parent.name != "bases")
BASES = sorted((DATA / "bases").glob("*.json"))


def cases() -> list[Any]:
    found = []
    for path in FILES:
        for kind, listed in json.loads(path.read_text()).items():
            found += [
                pytest.param(path, kind, case, id=f"{path.stem}-{kind}-{case['case']}")
                for case in listed
            ]
    return found


@pytest.mark.parametrize(("path", "kind", "case"), cases())
def test_case(path: Path, kind: str, case: dict[str, Any]) -> None:
    hosts = [host_facts(host) for host in case["hosts"]]
    diagnosis = diagnose(hosts)
    failed = [one for one in diagnosis.skipped if one.reason.startswith("check failed")]
    assert failed == []
    identities = [one.identity for one in diagnosis.findings]
    assert len(set(identities)) == len(identities), "each finding once"
    found = {(one.rule, one.subject): one for one in diagnosis.findings}
    expected = {(one["rule"], one["subject"]): one for one in case["findings"]}
    assert set(found) == set(expected), [
        (one.rule, one.subject, one.title) for one in diagnosis.findings
    ]
    for key, wanted in expected.items():
        compare(found[key], wanted)
    names = {one.name for one in hosts}
    for one in diagnosis.findings:
        peers = {fix.peer for fix in one.fixes if fix.where == "peer"}
        assert peers <= names - {one.host}, "the other host, by name"
        assert [mtu for mtu in printed_mtus(one.fixes) if mtu < MIN_IPV4_MTU] == []
    if "skipped" in case:
        assert {one.rule for one in diagnosis.skipped} >= set(case["skipped"])
    assert any(rule == path.stem for rule, _ in found) == (kind == "fires")


def compare(finding: Finding, wanted: dict[str, Any]) -> None:
    for key, value in wanted.items():
        if key == "commands":
            assert [
                str(step) for fix in finding.fixes if fix.where == "here" for step in fix.commands
            ] == value
        elif key == "undo":
            assert [
                str(step) for fix in finding.fixes if fix.where == "here" for step in fix.undo
            ] == value
        elif key == "fixes":
            for place, lines in value.items():
                assert [
                    str(step)
                    for fix in finding.fixes
                    if fix.where == place
                    for step in fix.commands
                ] == lines
        elif key == "fix_titles":
            assert [fix.title for fix in finding.fixes] == value
        elif key in ("says", "never_says"):
            said = _said(finding)
            assert [part for part in value if (part in said) != (key == "says")] == [], said
        elif key == "evidence":
            shown = [f"{one.what}: {one.value}" for one in finding.evidence]
            assert all(one in shown for one in value), shown
        elif key == "shown_by":
            sources = [one.source for one in finding.evidence]
            assert all(one in sources for one in value), sources
        else:
            assert getattr(finding, key) == value


def _said(finding: Finding) -> str:
    """All sentences of a finding."""
    words = [finding.title, finding.why]
    for fix in finding.fixes:
        words += [fix.title, fix.note]
    return "\n".join(words)


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_has_a_case_with_and_one_without_a_finding(name: str) -> None:
    path = next((path for path in FILES if path.stem == name), None)
    assert path is not None, f"no case file for {name}"
    kinds = json.loads(path.read_text())
    assert kinds.get("fires") and kinds.get("silent")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_file_belongs_to_a_rule(path: Path) -> None:
    assert path.stem in RULES


@pytest.mark.parametrize("path", BASES, ids=lambda path: path.stem)
def test_a_healthy_host_has_no_finding(path: Path) -> None:
    diagnosis = diagnose([host_facts({"base": path.stem})])
    assert [(one.rule, one.subject, one.title) for one in diagnosis.findings] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_every_rule_has_an_explanation(rule: Any) -> None:
    assert rule.summary.endswith(".") and len(rule.summary) < 200
    assert len(rule.explanation) > len(rule.summary) + 80


@pytest.mark.parametrize("name", ["profile_is_generated", "dhcp_never_answered"])
def test_a_nic_that_waits_for_dhcp_says_what_its_severity_depends_on(name: str) -> None:
    """It is critical for a nictop that was started before an attempt failed, and a warning for one
    that was started since: the same NIC at the same time."""
    (path,) = DATA.glob(f"*/{name}.json")
    waiting = []
    for case in json.loads(path.read_text())["fires"]:
        for finding in diagnose([host_facts(host) for host in case["hosts"]]).findings:
            if finding.rule == name:
                if finding.title.startswith("uses auto-generated"):  # it says no state
                    continue
                is_first = finding.severity == "warning" and "DHCP reply yet" in finding.title
                waiting.append(is_first)
                assert (FIRST_ATTEMPT in finding.why) == is_first, finding.title
    assert True in waiting and False in waiting
