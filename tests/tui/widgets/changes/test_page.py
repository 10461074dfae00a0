"""One change as it is drawn, for any order of events."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.changes.actions import Action
from nictop.changes.events import (
    NOTHING_CHANGED,
    Applied,
    Applying,
    ChangeEnded,
    ConnectionLost,
    Event,
    GoalCheck,
    Outcome,
    Prepared,
    ReadBack,
    Reconnected,
    RuleVerdict,
    StepFailed,
    Undoing,
    ValuesChecked,
)
from nictop.changes.inbox import Decision
from nictop.changes.job import ChangeJob
from nictop.changes.progress import ChangeProgress
from nictop.model.facts import width
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.units import local_time_text
from nictop.probe.plan.requests import PLAN_TIMEOUT
from nictop.probe.records import Outdated, PlannedAction
from nictop.rules import Finding, Fix
from nictop.tui.screens.changes.status import change_status, end_text
from nictop.tui.widgets.changes.page import OUTCOME_STYLES, ChangePage
from tests.support.findings import RENAME, commands, finding
from tests.support.lines import inventory, link

ACTION: Action = ("ip", "link", "set", "dev", "ens4", "mtu", "9000")
PLAN = (
    PlannedAction(
        ACTION, "mtu 1500", "mtu 9000", ((*ACTION[:6], "1500"),), "ens4", False, ("resets ens4",)
    ),
)
LASTING = Fix("here", "keep it", commands("nmcli con mod ens4 802-3-ethernet.mtu 9000"), True)
FIX_JOB = ChangeJob("vm1", "jumbo frames", "ens4", RENAME, (LASTING,), finding())
SET_UP_JOB = replace(
    FIX_JOB, finding=None, proof=lambda snapshot: GoalCheck(True, "ens4 has MTU 9000")
)

NOON = datetime(2026, 11, 30, 12).timestamp()

text = st.text(max_size=12)
plans = st.builds(
    PlannedAction,
    st.lists(text, min_size=1, max_size=6).map(tuple),
    text,
    text,
    st.lists(st.lists(text, min_size=1, max_size=4).map(tuple), max_size=2).map(tuple),
    text,
    st.booleans(),
    st.lists(text, max_size=2).map(tuple),
)
plan = st.lists(plans, max_size=2).map(tuple)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Prepared, plan, st.booleans()),
    st.builds(Applying),
    st.builds(Applied, plan, st.floats(-1e6, 1e6)),
    st.builds(ReadBack),
    st.builds(RuleVerdict, st.booleans(), text),
    st.builds(ValuesChecked, st.lists(text, max_size=3).map(tuple), st.floats(0, 1e9)),
    st.builds(StepFailed, text),
    st.builds(Reconnected, text),
    st.builds(Undoing, text),
    st.builds(ConnectionLost, text),
    st.builds(ChangeEnded, st.sampled_from(sorted(OUTCOME_STYLES)), text),
)
decisions: st.SearchStrategy[Decision | Literal[""]] = st.sampled_from(
    ["", "apply", "keep", "undo"]
)


def after(
    *events: Event, decision: Decision | Literal[""] = "apply", job: ChangeJob = FIX_JOB
) -> ChangeProgress:
    """Progress of a change after these events."""
    progress = ChangeProgress(job.spec((ACTION,))).decided(decision)
    for event in events:
        progress = progress.after(event)
    return progress


def words(
    progress: ChangeProgress,
    *,
    now: float = 0.0,
    job: ChangeJob = FIX_JOB,
    asks_twice: bool = False,
    reported: Finding | None = FIX_JOB.finding,
    snapshot: Snapshot | None = None,
) -> str:
    page = ChangePage(job, progress, 100, glyphs=UNICODE, reported=reported)
    lines = page.lines(now, snapshot or Snapshot.empty("vm1"), asks_twice=asks_twice)
    return " ".join(" ".join(span for span, _ in line) for line in lines)


@given(
    st.lists(st.tuples(decisions, events), max_size=5),
    st.integers(1, 130),
    st.sampled_from((UNICODE, ASCII)),
    st.booleans(),
)
def test_every_sequence_of_events_is_drawn(
    steps: list[tuple[Decision | Literal[""], Event]], cells: int, glyphs: Glyphs, twice: bool
) -> None:
    for job in (FIX_JOB, SET_UP_JOB):
        progress = ChangeProgress(job.spec((ACTION,)))
        for decision, event in steps:
            progress = progress.decided(decision).after(event)
            page = ChangePage(job, progress, cells, glyphs=glyphs, reported=job.finding)
            lines = page.lines(0.0, Snapshot.empty("vm1"), asks_twice=twice)
            drawn = ["".join(span for span, _ in line) for line in lines]
            assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(drawn))
            assert glyphs.is_ascii or cells < 40 or all(width(line) <= cells for line in drawn)
            change_status(progress, 0.0, "f")
            end_text(progress)


def test_the_plan_is_shown_before_anything_is_done() -> None:
    text = words(after(Prepared(PLAN, False), decision=""))
    assert (
        "Not applied yet. vm1 rolls back automatically after 30 s unless you keep the change, or "
        "if the" in text
    )
    assert "▲  resets ens4" in text
    assert "current      mtu 1500" in text
    assert "new          mtu 9000" in text
    assert change_status(after(Prepared(PLAN, False), decision=""), 0.0, "f") == ""
    assert "Not applied yet" not in words(after(Prepared(PLAN, False)))
    assert "·  Applying" in words(after(Prepared(PLAN, False)))
    assert change_status(after(Prepared(PLAN, False)), 0.0, "f") == "applying change (f: details)"
    assert "This may disconnect vm1" in words(
        after(Prepared(PLAN, True), decision=""), asks_twice=True
    )


def test_a_plan_that_was_read_before_an_event_says_so() -> None:
    prepared = after(Prepared(PLAN, False, 5.0), decision="")
    assert "read before" not in words(prepared, snapshot=read_inventory(1.0))
    newer = replace(read_inventory(1.0), event=Outdated(6.0, "link"))
    assert "▲  The plan was read before an event (link)" in words(prepared, snapshot=newer)
    older = replace(read_inventory(1.0), event=Outdated(4.0, "link"))
    assert "read before" not in words(prepared, snapshot=older)
    assert "current      mtu 1500" in words(prepared, snapshot=older)
    for later in (newer, read_inventory(6.0)):
        text = words(prepared, snapshot=later)
        assert "when planned mtu 1500" in text and "current " not in text


def test_the_plan_is_about_what_the_checks_report_now() -> None:
    """Between the key and the plan the host may have changed: DHCP that was only waited for has
    failed."""
    prepared = after(Prepared(PLAN, False), decision="")
    old = finding()
    assert old.title in words(prepared) and "any more" not in words(prepared)
    newer = words(prepared, reported=replace(old, title="DHCP failed"))
    assert "DHCP failed" in newer and old.title not in newer
    gone = words(prepared, reported=None)
    assert old.title in gone and "The checks do not report it any more" in gone
    assert "any more" not in words(prepared, job=SET_UP_JOB, reported=None)


def test_a_stored_setting_survives_a_reboot_once_it_is_kept() -> None:
    """Also if something else changes the NIC meanwhile; NetworkManager has it in /run only."""
    stored = (replace(PLAN[0], persistent=True, disturbs=("reconfigures ens4",)),)
    applied: tuple[Event, ...] = (Prepared(stored, False), Applying(), Applied(stored, 30.0))
    changed = ValuesChecked(("ens4: mtu 1500 instead of mtu 9000",), 1.0)
    cases: tuple[tuple[tuple[Event, ...], str], ...] = (
        (applied, "survives a reboot, once it is kept"),
        ((*applied, changed), "survives a reboot, once it is kept"),
        ((*applied, ConnectionLost("")), "survives a reboot, if it was kept"),
        ((*applied, ChangeEnded("kept")), "survives a reboot"),
        (
            (*applied, changed, ChangeEnded("overridden")),
            "survives a reboot, where nothing else has changed it",
        ),
        ((*applied, Undoing("")), ""),
        ((*applied, ChangeEnded("undone")), ""),
        ((*applied, ChangeEnded("restarted")), ""),
    )
    for events_until, persistence in cases:
        text = words(after(*events_until))
        found = re.findall(r"persistence +(\S.*?)  ", text)
        assert found == [persistence] * bool(persistence), events_until
        assert "warning      when planned: reconfigures ens4" in text


def test_an_old_reading_says_how_old_it_is() -> None:
    """What something else changes is on the screen seconds later, where the host is slow."""
    applied: tuple[Event, ...] = (Prepared(PLAN, False), Applying(), Applied(PLAN, 130.0, NOON))
    kept_within = after(*applied).spec.keep_within
    begin = 130.0 - kept_within
    verified = f"Applied (verified {local_time_text(NOON)}"
    assert f"{verified})" in words(after(*applied), now=begin + 4)
    assert f"{verified}, 14 s ago)" in words(after(*applied), now=begin + 14.2)
    changed = ValuesChecked(("ens4: mtu 1500 instead of mtu 9000",), NOON + 13)
    read = f"(read {local_time_text(NOON + 13)}"
    assert f"{read})" in words(after(*applied, changed), now=begin + 14.2)
    assert f"{read}, 12 s ago)" in words(after(*applied, changed), now=begin + 25)
    unknown = after(Prepared(PLAN, False), Applying(), Applied(PLAN, 130.0))
    assert "ago" not in words(unknown, now=begin + 25)


def test_values_are_called_current_only_while_they_are() -> None:
    prepared = Prepared(PLAN, False)
    kept, undone, failed = ChangeEnded("kept"), ChangeEnded("undone"), ChangeEnded("failed")
    applied: tuple[Event, ...] = (prepared, Applying(), Applied(PLAN, 30.0))
    changed_since = ValuesChecked(("ens4: mtu 1500 instead of mtu 9000",), 1.0)
    cases: tuple[tuple[tuple[Event, ...], str, str], ...] = (
        ((prepared,), "current", "new"),
        ((prepared, Applying()), "previous", "new"),
        ((*applied, changed_since), "previous", "applied"),
        ((*applied, Undoing("")), "previous", "requested"),
        ((*applied, ConnectionLost("")), "previous", "requested"),
        ((*applied, Undoing(""), undone), "previous", "requested"),
        ((*applied, kept), "previous", "applied"),
        ((*applied, changed_since, ChangeEnded("overridden")), "previous", "applied"),
        ((*applied, failed), "previous", "requested"),
    )
    for events_until, before, new in cases:
        text = words(after(*events_until))
        assert re.search(rf"{before} +mtu 1500", text), before
        assert re.search(rf"{new} +mtu 9000", text), new
    for outcome in sorted(NOTHING_CHANGED):  # refused: "the host has changed", to mtu 1450
        text = words(after(prepared, ChangeEnded(outcome)))
        assert re.search(r"when planned +mtu 1500", text) and "current" not in text, outcome
    text = words(after(*applied))
    assert re.search(r"previous +mtu 1500\s.*applied +mtu 9000", text, re.DOTALL)


@pytest.mark.parametrize("outcome", ["kept", "undone"])
def test_after_the_end_there_is_no_checkpoint(outcome: Literal["kept", "undone"]) -> None:
    plan = (
        PlannedAction(
            ("nmcli", "con", "mod", "lan"), "mtu: 1500", "mtu: 9000", (), "lan", persistent=True
        ),
    )
    applied = after(Prepared(plan, False), Applied(plan, 30.0))
    assert "NetworkManager checkpoint" in words(applied)
    assert "NetworkManager checkpoint" not in words(applied.after(ChangeEnded(outcome, "")))


def test_the_countdown_runs_and_warns() -> None:
    applied = after(Prepared(PLAN, False), Applying(), Applied(PLAN, 130.0))
    for now, left in ((100.0, 30), (107.2, 23), (129.1, 1), (131.0, 0)):
        assert f"Rolls back in {left} s unless you keep it" in words(applied, now=now)
        assert change_status(applied, now, "f") == f"keep change? {left} s (f: details)"
    page = ChangePage(FIX_JOB, applied, 100, glyphs=ASCII, reported=FIX_JOB.finding)
    bars = [
        [line for line in page.lines(now, None) if len(line) == 3] for now in (100.0, 115.0, 125.0)
    ]
    assert [bar[0][1][0].count("#") for bar in bars] == [40, 20, 7]
    assert [bar[0][0][1] for bar in bars] == ["", "", "warn"]
    assert "Rolls back in" not in words(applied.decided("keep"), now=100.0), "it is decided"


def test_a_lost_host_cannot_be_told_to_keep_it() -> None:
    """What it does now is not known: it rolls back what was not confirmed, if it runs, and may have
    kept what was."""
    lost = after(
        Prepared(PLAN, False), Applying(), Applied(PLAN, 130.0), ConnectionLost("no answer")
    )
    text = words(lost, now=100.0)
    assert "Connection to vm1 lost: no answer; the host should roll back what was not" in text
    assert text.count("no answer") == 1
    assert "Rolls back in 30 s at the latest" in words(lost, now=100.0)
    assert "unless you keep it" not in words(lost, now=100.0)
    assert "Rolls back in" not in words(lost, now=130.0), (
        "the time is over, also on a host that stood still"
    )
    assert "Rolls back in" not in words(lost.decided("keep"), now=100.0)
    assert change_status(lost, 100.0, "f") == "connection lost during a change (f: details)"
    again = lost.after(Reconnected())
    text = words(again, now=100.0)
    assert "Connected again; asking whether it was rolled back" in text
    assert "should roll back" not in text and "Rolls back in" not in text
    assert "Not known yet" in text and "by" not in text.partition("Not known yet")[2][:20]
    known = words(lost.after(Reconnected("", 1_790_000_000.0)))
    time = local_time_text(1_790_000_000.0)
    assert f"Not known yet; what was not kept should be rolled back by {time} at the" in known
    busy = words(lost.after(Reconnected("another change of ens4 is in progress")))
    assert "asking whether it was rolled back: another change of ens4 is in progress" in busy


def test_whether_it_has_helped() -> None:
    applied = after(Applied(PLAN, 30.0))
    waiting = words(applied)
    assert "Each setting was read back. Waiting for the next inventory" in waiting
    assert "Checking" not in waiting, "nothing is checked before it has come"
    assert "Waiting for the next inventory" in words(applied, job=SET_UP_JOB)
    read = replace(applied, read_back=True)
    assert "Checking whether the finding is resolved" in words(read)
    assert "✓  Finding resolved" in words(applied.after(RuleVerdict(True)))
    assert "▲  Finding still present" in words(applied.after(RuleVerdict(False)))
    assert "could not be checked again: needs root" in words(
        applied.after(RuleVerdict(False, "needs root"))
    )
    assert "·  Checking the new values" in words(read, job=SET_UP_JOB)
    assert "✓  ens4 has MTU 9000" in words(
        replace(applied, proof=GoalCheck(True, "ens4 has MTU 9000")), job=SET_UP_JOB
    )
    assert "▲  ens4 has MTU 1500" in words(
        replace(applied, proof=GoalCheck(False, "ens4 has MTU 1500")), job=SET_UP_JOB
    )


def test_what_was_verified_has_its_time_and_is_contradicted_at_once() -> None:
    """Each way in which the host shows that it does not hold any more: the guard's reading, an
    event, a newer state after the end."""
    at = datetime(2026, 11, 29, 9, 43, 40).timestamp()
    proven = GoalCheck(True, "ens4 has MTU 9000", at)
    applied = after(Prepared(PLAN, False), Applying(), Applied(PLAN, 130.0, at), proven)
    text = words(applied, job=SET_UP_JOB)
    assert "✓  Applied (verified 09:43:40)" in text
    assert "✓  ens4 has MTU 9000 (verified 09:43:40)" in text

    missed = applied.after(GoalCheck(False, "ens4 has MTU 1500", at))
    text = words(missed, job=SET_UP_JOB)
    assert "▲  Applied (verified 09:43:40); what was wanted is not there" in text
    assert "▲  ens4 has MTU 1500 (read 09:43:40)" in text and "✓  Applied" not in text

    changed = applied.after(ValuesChecked(("ens4: mtu 1500 instead of mtu 9000",), at + 5))
    text = words(changed, job=SET_UP_JOB)
    assert "▲  Applied, and changed since by something else than nictop (read 09:43:45)" in text
    assert "ens4: mtu 1500 instead of mtu 9000" in text and "✓  Applied" not in text
    assert "Keep does not overwrite that" in text

    old = replace(read_inventory(1.0), event=Outdated(2.0, "link"))
    text = words(applied, job=SET_UP_JOB, snapshot=old)
    assert "✓  ens4 has" not in text and "; read before an event (link)" in text
    assert "✓  ens4 has" in words(applied, job=SET_UP_JOB, snapshot=read_inventory(3.0))

    job = replace(SET_UP_JOB, proof=lambda _: GoalCheck(False, "ens4 has MTU 1500"))
    kept = applied.after(ChangeEnded("kept", "", at + 20))
    assert "✓  Kept: the new values stay (verified 09:44:00)" in words(kept, job=SET_UP_JOB)
    text = words(kept, job=job, snapshot=read_inventory(3.0))
    assert "▲  Changed since (verified 09:43:40): ens4 has MTU 1500" in text
    text = words(applied.after(ChangeEnded("overridden", "ens4: mtu 1500 instead", at)))
    assert "▲  Kept, but changed since by something else, which nictop does not overwrite" in text
    assert "✓" not in text


def read_inventory(time: float) -> Snapshot:
    return advance(Snapshot.empty("vm1"), inventory(link(1, "ens4"), time=time))


@pytest.mark.parametrize("outcome", sorted(OUTCOME_STYLES))
def test_its_end_is_said(outcome: Outcome) -> None:
    text = words(after(Prepared(PLAN, False), ChangeEnded(outcome, "for this reason")))
    assert "for this reason" in text
    assert ("nictop changes vm1" in text) == (
        outcome in ("kept", "overridden", "undone", "restarted", "failed", "unknown")
    )
    assert ("to make it persistent" in text) == (outcome == "kept")


def test_why_it_is_undone_is_said_once() -> None:
    progress = after(
        Applied(PLAN, 30.0), StepFailed("no such device"), Undoing("no such device"), Undoing("")
    )
    assert words(progress).count("no such device") == 1
    assert (
        words(progress.after(ChangeEnded("undone", "no such device"))).count("no such device") == 1
    )


def test_what_takes_time_has_its_seconds_and_its_limit() -> None:
    def drawn(*events: Event, decision: Decision | Literal[""]) -> str:
        page = ChangePage(
            FIX_JOB,
            after(*events, decision=decision),
            100,
            glyphs=UNICODE,
            began=100.0,
            reported=FIX_JOB.finding,
        )
        return " ".join(" ".join(span for span, _ in line) for line in page.lines(112.0, None))

    assert f"Reading the current values on vm1: 12 s (at most {PLAN_TIMEOUT:g} s)" in drawn(
        decision=""
    )
    assert "Applying: 12 s (at most " in drawn(Prepared(PLAN, False), Applying(), decision="apply")
    assert "keeping the change: 12 s" in drawn(Applied(PLAN, 130.0), decision="keep")
    assert "Rolling back: 12 s" in drawn(Applied(PLAN, 130.0), Undoing(""), decision="undo")


def test_a_plan_that_is_rolled_back_by_a_checkpoint_has_the_commands_that_undo_it() -> None:
    words_of_undo = "nmcli con mod ens4 802-3-ethernet.mtu 1500"
    fix = replace(RENAME, undo=commands(words_of_undo))
    job = replace(FIX_JOB, fix=fix)
    checkpoint = (replace(PLAN[0], words=("nmcli", "con", "mod", "ens4"), undo=()),)
    plan = Prepared(checkpoint, False)
    assert "To undo it after it was kept" in words(after(plan, decision="", job=job), job=job)
    assert words_of_undo in words(after(plan, decision="", job=job), job=job)
    kept = after(plan, Applied(checkpoint, 30.0), ChangeEnded("kept", ""), job=job)
    assert words_of_undo in words(kept, job=job)
    assert "Logged, with the commands that undo it: nictop changes vm1" in words(kept, job=job)
    assert words_of_undo not in words(after(plan, ChangeEnded("undone", ""), job=job), job=job)
    assert words_of_undo not in words(
        after(Prepared(PLAN, False), decision="", job=job), job=job
    ), "its rollback is"


def test_a_step_that_failed_was_not_applied() -> None:
    """The tick is for the rollback alone."""
    failed = "ip address add: Error: ipv6: address already assigned."
    progress = after(
        Prepared(PLAN, False),
        Applying(),
        StepFailed(failed),
        Undoing(failed),
        ChangeEnded("undone", failed),
    )
    text = words(progress)
    assert f"▲  Not applied: {failed}" in text and text.count(failed) == 1
    assert "✓  Rolled back, the previous values are verified" in text
    assert "verified: " not in text
    end = f"not applied: {failed}; rolled back, the previous values are verified"
    assert end_text(progress) == end

    later = after(
        Prepared(PLAN, False),
        Applied(PLAN, 30.0),
        StepFailed("killed", was_applied=True),
        ChangeEnded("undone", "killed; not logged: disk full"),
    )
    text = words(later)
    assert "▲  Failed: killed" in text and "not applied" not in text.lower()
    assert "✓  Rolled back, the previous values are verified: not logged: disk full" in text
