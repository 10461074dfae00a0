"""Findings that the newest diagnosis could not check again."""

from __future__ import annotations

from dataclasses import replace

from nictop.rules import Diagnosis, Skipped
from nictop.rules.unchecked import open_findings, with_unchecked
from nictop.rules.wording import verdict_text
from tests.support.findings import finding

DHCP = replace(finding(subject="ens224"), rule="dhcp_failed", severity="critical", host="vm1")
OTHER = replace(finding(subject="ens192"), rule="mtu_differs", host="vm1")
HOSTS = ("vm1",)
NO_ANSWER = Skipped("dhcp_failed", "vm1", "", "NetworkManager: no answer", is_retried=True)
BEFORE = Diagnosis((DHCP, OTHER), (), HOSTS)


def test_a_finding_whose_check_was_skipped_stays_open_and_says_so() -> None:
    found = with_unchecked(Diagnosis((), (NO_ANSWER,), HOSTS), BEFORE, HOSTS)
    assert found.unchecked == (DHCP,), "the other one was checked, and is gone"
    (shown,) = open_findings(found)
    assert shown.title == f"not checked again yet: {DHCP.title}"
    assert verdict_text(found, live=True) == ("· 1 critical not checked again yet", "warn")


def test_it_is_remembered_over_several_diagnoses_until_it_is_checked() -> None:
    silent = Diagnosis((), (NO_ANSWER,), HOSTS)
    found = with_unchecked(silent, with_unchecked(silent, BEFORE, HOSTS), HOSTS)
    assert found.unchecked == (DHCP,)
    assert with_unchecked(Diagnosis((), (), HOSTS), found, HOSTS).unchecked == ()
    again = with_unchecked(Diagnosis((DHCP,), (), HOSTS), found, HOSTS)
    assert open_findings(again) == (DHCP,)


def test_a_host_that_is_not_checked_keeps_its_findings_and_one_that_is_removed_does_not() -> None:
    other = Diagnosis((), (), ("vm2",))
    assert with_unchecked(other, BEFORE, ("vm1", "vm2")).unchecked == (DHCP, OTHER)
    assert with_unchecked(other, BEFORE, ("vm2",)).unchecked == ()
    assert with_unchecked(other, None, HOSTS) == other
    assert open_findings(None) == ()
