"""A finding that is gone stays in the list for 30 s, below all open ones, then it is resolved; both
are bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.rules import Diagnosis, Finding, Skipped
from nictop.rules.by_device import SubjectLoss
from nictop.rules.outdated import marked
from nictop.rules.recent import (
    GONE_SECONDS,
    MAX_GONE_FINDINGS,
    MAX_RESOLVED_FINDINGS,
    Entry,
    RecentFindings,
    keyed_findings,
)
from nictop.rules.unchecked import open_findings, with_unchecked
from tests.support.findings import finding


def shown(recent: RecentFindings) -> list[str]:
    """Subjects in their order, those that are gone in brackets."""
    return [f"({subject(one)})" if one.gone else subject(one) for one in recent.entries]


def subject(entry: Entry) -> str:
    assert isinstance(entry.about, Finding)
    return entry.about.subject


def resolved(recent: RecentFindings) -> list[tuple[str, float, float]]:
    """Subject, first and last time of each."""
    return [(subject(one), one.first_seen, one.last_seen) for one in recent.resolved]


def found(*subjects: str) -> tuple[Finding, ...]:
    return tuple(finding(subject=subject) for subject in subjects)


def diagnosed(*subjects: str, skipped: tuple[Skipped, ...] = ()) -> Diagnosis:
    return Diagnosis(found(*subjects), skipped, ("alma-load-001",))


def test_a_finding_that_is_gone_stays_below_the_open_ones_for_some_time() -> None:
    recent = RecentFindings()
    recent.update(diagnosed("a", "b", "c"), 100.0)
    recent.update(diagnosed("a", "c"), 101.0)
    assert shown(recent) == ["a", "c", "(b)"]
    recent.update(diagnosed("new", "c"), 102.0)
    assert shown(recent) == ["new", "c", "(a)", "(b)"]
    recent.update(diagnosed("new", "c"), 100.0 + GONE_SECONDS)
    assert shown(recent) == ["new", "c", "(a)", "(b)"]
    recent.update(diagnosed("new", "c"), 100.5 + GONE_SECONDS)
    assert shown(recent) == ["new", "c", "(a)"]
    recent.update(diagnosed("new", "c"), 101.5 + GONE_SECONDS)
    assert shown(recent) == ["new", "c"]
    assert resolved(recent) == [("a", 100.0, 101.0), ("b", 100.0, 100.0)]


class Watched:
    """The findings in the list after one diagnosis after the other, each of which knows the one
    before."""

    def __init__(self) -> None:
        self.recent = RecentFindings()
        self.newest: Diagnosis | None = None

    def update(self, diagnosis: Diagnosis, now: float) -> list[tuple[str, bool, bool]]:
        """Subject, whether it is gone and whether it was not checked again."""
        self.newest = with_unchecked(diagnosis, self.newest, ("alma-load-001", "another"))
        self.recent.update(self.newest, now)
        entries = [(subject(one), one.gone, one.unchecked) for one in self.recent.entries]
        is_open = {key for key, gone, _ in entries if not gone}
        assert is_open == {one.subject for one in open_findings(self.newest)}, "as the tab counts"
        return entries


def skipped(rule: str, where: str = "") -> tuple[Skipped, ...]:
    return (Skipped(rule, finding().host, where, "NetworkManager: no answer"),)


@pytest.mark.parametrize("where", ["", "a"])
def test_what_is_not_checked_any_more_has_not_gone(where: str) -> None:
    """After a connection was lost the checks run again one after the other."""
    watched, rule = Watched(), finding().rule
    watched.update(diagnosed("a", "b"), 100.0)
    for now in (101.0, 101.0 + 9 * GONE_SECONDS):
        found = watched.update(diagnosed("b", skipped=skipped(rule, where)), now)
        assert found == [("b", False, False), ("a", False, True)]
    again = watched.update(diagnosed("a", "b"), 500.0)
    assert again == [("a", False, False), ("b", False, False)]
    found = watched.update(Diagnosis((), (), ("another",)), 501.0)
    assert found == [("a", False, True), ("b", False, True)], "its host was not checked"
    found = watched.update(diagnosed(skipped=skipped("another_rule")), 502.0)
    assert found == [("a", True, False), ("b", True, False)]


def test_what_was_resolved_does_not_come_back_because_its_check_cannot_run() -> None:
    watched, unread = Watched(), skipped(finding().rule)
    watched.update(diagnosed("a", "b"), 100.0)
    watched.update(diagnosed("b"), 101.0)
    found = watched.update(diagnosed(skipped=unread), 102.0)
    assert found == [("b", False, True), ("a", True, False)]
    found = watched.update(diagnosed(skipped=unread), 101.5 + GONE_SECONDS)
    assert found == [("b", False, True)]
    assert resolved(watched.recent) == [("a", 100.0, 100.0)]
    assert watched.update(diagnosed("a"), 200.0)[0] == ("a", False, False), "its check has run"


def test_findings_that_go_together_keep_their_order() -> None:
    recent = RecentFindings()
    recent.update(diagnosed("a", "b"), 100.0)
    for now in (101.0, 102.0, 103.0):
        recent.update(diagnosed(), now)
        assert shown(recent) == ["(a)", "(b)"]


def test_of_a_host_that_is_watched_no_more_nothing_is_resolved() -> None:
    watched = Watched()
    watched.update(diagnosed("a"), 100.0)
    watched.newest = None
    assert watched.update(Diagnosis((), (), ("another",)), 101.0) == []
    watched.update(Diagnosis((), (), ("another",)), 102.0 + GONE_SECONDS)
    assert resolved(watched.recent) == []


def test_what_is_not_known_is_neither_open_nor_gone() -> None:
    """After a jump in a recording, until the rules were run there; what was resolved before that
    moment stays."""
    recent = RecentFindings()
    recent.update(diagnosed("old"), 10.0)
    recent.update(diagnosed("a"), 10.5 + GONE_SECONDS)
    recent.update(diagnosed("a", "b"), 100.0)
    recent.forget(50.0)
    assert shown(recent) == [] and resolved(recent) == [("old", 10.0, 10.0)]
    recent.update(diagnosed("b"), 50.0)
    assert shown(recent) == ["b"], "a is not gone: it was not looked for"
    recent.forget(5.0)
    assert resolved(recent) == []


def test_a_finding_that_comes_back_is_there_once() -> None:
    recent = RecentFindings()
    recent.update(diagnosed("a", "b"), 100.0)
    recent.update(diagnosed(), 101.0)
    recent.update(diagnosed("b"), 102.0)
    assert shown(recent) == ["b", "(a)"]
    recent.update(diagnosed("b"), 200.0)
    assert resolved(recent) == [("a", 100.0, 100.0)]
    recent.update(diagnosed("a", "b"), 201.0)
    assert resolved(recent) == []
    recent.update(diagnosed(), 300.0)
    assert resolved(recent) == [("a", 201.0, 201.0), ("b", 102.0, 201.0)], "b was not there at 101"


def test_a_jump_in_a_recording_discards_the_lost_findings() -> None:
    recent = RecentFindings()
    recent.update(diagnosed("a"), 100.0)
    recent.update(diagnosed(), 50.0)
    assert shown(recent) == []
    recent.update(diagnosed("a"), 50.0)
    recent.update(diagnosed(), 200.0)
    assert shown(recent) == []
    assert resolved(recent) == [("a", 50.0, 50.0)]
    recent.update(diagnosed(), 40.0)
    assert resolved(recent) == []


def test_changing_subjects_do_not_fill_the_list() -> None:
    recent = RecentFindings()
    for number in range(3 * MAX_GONE_FINDINGS):
        recent.update(diagnosed(f"veth{number}"), 100.0 + number / 100)
    assert len(recent.entries) == MAX_GONE_FINDINGS + 1
    assert shown(recent)[-1] == f"(veth{2 * MAX_GONE_FINDINGS - 1})"
    assert len(recent.resolved) == MAX_RESOLVED_FINDINGS
    assert resolved(recent)[0][0] == f"veth{2 * MAX_GONE_FINDINGS - 2}"


def test_two_findings_of_one_rule_about_one_subject_are_two_lines() -> None:
    one, other = (
        finding(title="MTU 1500 here, 9000 at web2"),
        finding(title="MTU 1500 here, 9000 at web3"),
    )
    assert len({entry.key for entry in keyed_findings((one, other), 1.0)}) == 2
    renewed = keyed_findings((replace(one, title="MTU 1400 here, 9000 at web2"),), 2.0)
    assert renewed[0].key == keyed_findings((one,), 1.0)[0].key, (
        "numbers in the text change nothing"
    )


@pytest.mark.parametrize("loss", ["gone", "down"])
def test_a_finding_whose_nic_is_gone_or_down_is_not_resolved(loss: SubjectLoss) -> None:
    """One that was resolved before stays so when its NIC goes, and one whose NIC is there again and
    that is not reported is resolved."""
    gone = {"b"}

    def loss_of(finding: Finding) -> SubjectLoss:
        return loss if finding.subject in gone else ""

    recent = RecentFindings()

    def marks() -> dict[str, str]:
        return {subject(one): one.lost for one in recent.entries if one.gone}

    gone.remove("b")
    recent.update(diagnosed("a", "b"), 100.0, loss_of)
    gone.add("b")
    recent.update(diagnosed(), 101.0, loss_of)
    assert marks() == {"a": "", "b": loss}
    gone.add("a")
    recent.update(diagnosed(), 102.0, loss_of)
    assert marks() == {"a": "", "b": loss}
    gone.remove("b")
    recent.update(diagnosed(), 103.0, loss_of)
    assert marks() == {"a": "", "b": ""}
    recent.update(diagnosed("b"), 104.0, loss_of)
    gone.add("b")
    recent.update(diagnosed(), 105.0 + GONE_SECONDS, loss_of)
    newest = recent.resolved[0]
    assert (subject(newest), newest.lost) == ("b", loss)
    gone.remove("b")
    recent.update(diagnosed(), 106.0 + GONE_SECONDS, loss_of)
    newest = recent.resolved[0]
    assert (subject(newest), newest.lost) == ("b", ""), "it came back later"


def test_a_finding_that_is_only_shown_still_was_not_found_while_its_link_is_down() -> None:
    """The link goes down, its finding may have changed until the checks have run again."""
    recent = RecentFindings()

    def down(_: Finding) -> SubjectLoss:
        return "down"

    recent.update(diagnosed("a"), 100.0)
    shown_still = replace(diagnosed(), findings=tuple(map(marked, found("a"))))
    recent.update(shown_still, 101.0, down)
    recent.update(diagnosed(), 102.0, down)
    (entry,) = recent.entries
    assert entry.gone and entry.lost == "down"


def test_what_was_found_while_its_link_was_down_goes_as_anything_else() -> None:
    recent = RecentFindings()

    def down(_: Finding) -> SubjectLoss:
        return "down"

    recent.update(diagnosed("a"), 100.0, down)
    recent.update(diagnosed(), 101.0, down)
    assert [(one.gone, one.lost) for one in recent.entries] == [(True, "")]


def test_another_finding_about_the_subject_does_not_take_a_key() -> None:
    one, other = finding(title="MTU 9000 at web2"), finding(title="MTU 9000 at web3")
    third = replace(one, title="MTU 9000 at web1")
    recent = RecentFindings()
    recent.update(Diagnosis((one, other), (), ("alma-load-001",)), 1.0)
    before = {entry.about: entry.key for entry in recent.entries}
    recent.update(Diagnosis((third, one, other), (), ("alma-load-001",)), 2.0)
    after = {entry.about: entry.key for entry in recent.entries}
    assert after[one] == before[one] and after[other] == before[other]
    assert len(set(after.values())) == 3
