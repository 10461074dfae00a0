"""Never failed yet, failed and trying again, failed and not trying: one wording for each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nictop.rules import Finding, diagnose
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

SEEN = (
    "An attempt had failed before NetworkManager was read at 2027-01-15 08:00:00 UTC. Later ones may "
    "not have been read (journalctl -u NetworkManager)."
)


def found(rule: str, case: str) -> Finding:
    (finding,) = diagnose([host_facts(host) for host in hosts(rule, case)]).findings
    return finding


def hosts(rule: str, case: str) -> list[dict[str, Any]]:
    cases = json.loads((CASES_DIRECTORY / "profiles" / f"{rule}.json").read_text())
    (chosen,) = [one for one in cases["fires"] if one["case"].startswith(case)]
    listed: list[dict[str, Any]] = chosen["hosts"]
    return listed


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        ("dhcp_never_answered", "NetworkManager tries again"),
        ("dhcp_never_answered", "the carrier came back"),
        ("profile_is_generated", "DHCP is being asked again"),
    ],
)
def test_a_failure_that_was_seen_is_told_with_its_time(rule: str, case: str) -> None:
    """Also after the carrier came back; beside the evidence that the next attempt is being made."""
    finding = found(rule, case)
    assert finding.title.startswith("DHCP failed (seen 08:00:00 UTC), trying again")
    assert finding.why.endswith("A nictop that was started since then does not know of it.")
    assert finding.severity == "critical"
    assert SEEN in finding.why and "not known" not in finding.why
    (state,) = [one.value for one in finding.evidence if one.what == "state"]
    assert state.startswith("connecting: getting IP configuration")


@pytest.mark.parametrize(
    ("rule", "case"),
    [("dhcp_never_answered", "given up for now"), ("profile_is_generated", "DHCP failed, DEVICE")],
)
def test_where_no_attempt_is_being_made_the_title_says_so(rule: str, case: str) -> None:
    finding = found(rule, case)
    assert finding.title.startswith("DHCP failed, not trying now")
    assert finding.why.endswith("NetworkManager tries again by itself.")
