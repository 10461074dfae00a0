"""Findings that appear and go from one diagnosis to the next."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nictop.rules import Diagnosis, Finding, Skipped
from nictop.rules.by_device import SubjectLoss
from nictop.rules.changes import MAX_KNOWN, FindingChanges
from tests.support.findings import finding

HOST = finding().host


def diagnosis_of(
    *findings: Finding, skipped: tuple[Skipped, ...] = (), hosts: tuple[str, ...] = (HOST,)
) -> Diagnosis:
    return Diagnosis(findings, skipped, hosts)


def events(changes: FindingChanges, *diagnoses: Diagnosis) -> list[str]:
    """``appeared ens224``, of each diagnosis."""
    return [
        ", ".join(f"{one.event} {one.finding.subject}" for one in changes.update(diagnosis))
        for diagnosis in diagnoses
    ]


def test_it_appears_and_goes_once() -> None:
    present, absent = diagnosis_of(finding()), diagnosis_of()
    assert events(FindingChanges(), present, present, present, absent, absent, absent) == [
        *("", "appeared ens224", ""),
        *("", "gone ens224", ""),
    ]


def test_what_flickers_is_not_told() -> None:
    present, absent = diagnosis_of(finding()), diagnosis_of()
    assert events(FindingChanges(), *[present, absent] * 4) == [""] * 8
    changes = FindingChanges()
    assert events(changes, present, present, *[absent, present] * 3)[2:] == [""] * 6
    assert events(changes, absent, absent) == ["", "gone ens224"]


def test_a_host_that_is_not_read_and_a_check_that_did_not_run_say_nothing() -> None:
    present = diagnosis_of(finding())
    not_read = diagnosis_of(hosts=("another",))
    not_run = diagnosis_of(skipped=(Skipped("a_rule", HOST, "", "NetworkManager: no answer"),))
    changes = FindingChanges()
    assert events(changes, present, present, *[not_read, not_run] * 4)[2:] == [""] * 8
    elsewhere = diagnosis_of(skipped=(Skipped("a_rule", "another", "", "no answer"),))
    assert events(changes, elsewhere, elsewhere) == ["", "gone ens224"]


def test_a_link_that_is_down_has_resolved_nothing() -> None:
    """Most checks are not about links that are down: it was told as gone, the fault still there."""
    present, absent = diagnosis_of(finding()), diagnosis_of()
    losses: list[SubjectLoss] = ["", "", "down", "down", "down", "", ""]
    changes = FindingChanges()
    told = [
        [one.event for one in changes.update(diagnosis, partial(said, loss))]
        for diagnosis, loss in zip([present] * 2 + [absent] * 5, losses, strict=True)
    ]
    assert told == [[], ["appeared"], [], [], [], [], ["gone"]]


def test_what_was_found_while_the_link_was_down_goes_as_anything_else() -> None:
    present, absent, down = diagnosis_of(finding()), diagnosis_of(), partial(said, "down")
    changes = FindingChanges()
    told = [
        [one.event for one in changes.update(diagnosis, down)]
        for diagnosis in [present] * 2 + [absent] * 2
    ]
    assert told == [[], ["appeared"], [], ["gone"]]


def said(loss: SubjectLoss, _: Finding) -> SubjectLoss:
    return loss


def test_findings_of_several_subjects_and_hosts() -> None:
    both = (finding(), finding(subject="ens256"), finding(host="vm2"))
    hosts = (HOST, "vm2")
    changes = FindingChanges()
    whole = diagnosis_of(*both, hosts=hosts)
    assert events(changes, whole, whole)[1] == "appeared ens224, appeared ens256, appeared ens224"
    rest = diagnosis_of(*both[1:], hosts=hosts)
    (change,) = [*changes.update(rest), *changes.update(rest)]
    assert (change.event, change.finding) == ("gone", both[0])


def test_the_newest_text_of_a_finding_is_told() -> None:
    changes = FindingChanges()
    first, second = diagnosis_of(finding(title="1 min")), diagnosis_of(finding(title="2 min"))
    assert [one.finding.title for one in (*changes.update(first), *changes.update(second))] == [
        "2 min"
    ]


def test_a_host_whose_names_change_all_the_time_is_reported_once() -> None:
    changes = FindingChanges()
    renamed = [diagnosis_of(finding(subject=f"eth{number}")) for number in range(6)]
    assert events(changes, *renamed) == ["", "appeared eth1", *[""] * 4]
    assert events(changes, diagnosis_of(), diagnosis_of()) == ["", "gone eth1"]
    assert changes._known == {} and changes._of_rule == {}


def test_a_name_that_stays_takes_the_place_of_those_that_changed() -> None:
    changes = FindingChanges()
    first, second, third = (diagnosis_of(finding(subject=name)) for name in ("a", "b", "c"))
    assert events(changes, first, second, second) == ["", "appeared b", ""]
    assert events(changes, diagnosis_of(), diagnosis_of()) == ["", "gone b"]
    assert events(changes, first, second, third, third) == [
        *("", "appeared b", ""),
        "gone b, appeared c",
    ]
    assert events(changes, diagnosis_of(), diagnosis_of()) == ["", "gone c"]


def test_what_is_remembered_of_a_host_has_a_limit() -> None:
    """Also of a check that finds something and is skipped at the same time; other hosts and what
    was reported stay."""
    changes = FindingChanges()
    skipped = (Skipped("a_rule", HOST, "", "no answer"),)
    steady = (finding(subject="steady"), finding(host="vm2", subject="steady"))
    events(changes, *[diagnosis_of(*steady, hosts=(HOST, "vm2"))] * 2)
    for number in range(300):
        new = [finding(subject=f"eth{number}-{place}") for place in range(10)]
        changes.update(diagnosis_of(*new, skipped=skipped, hosts=(HOST,)))
    assert len(changes._known) == MAX_KNOWN + 1
    gone = diagnosis_of(hosts=(HOST, "vm2"))
    assert events(changes, gone, gone)[1].split(", ").count("gone steady") == 2


def test_two_findings_of_a_rule_about_one_nic_go_each_by_itself() -> None:
    ipv4, ipv6 = (replace(finding(), item=item) for item in ("192.0.2.1", "2001:db8::1"))
    both, one = diagnosis_of(ipv4, ipv6), diagnosis_of(ipv6)
    assert events(FindingChanges(), both, both, one, one, one) == [
        *("", "appeared ens224, appeared ens224"),
        *("", "gone ens224", ""),
    ]
