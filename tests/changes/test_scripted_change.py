"""What a host may say in any order, or not at all: a change ends, says how, and keeps nothing that
nobody kept."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nictop.changes.audit_log import ChangeLog, LoggedChange
from nictop.changes.events import (
    Applied,
    ChangeEnded,
    ChangeTimeouts,
    ConnectionLost,
    Event,
    Prepared,
    Reconnected,
    RuleVerdict,
    Undoing,
    ValuesChecked,
)
from nictop.changes.job import ChangeSpec
from nictop.changes.recovery import LostChange, outcome_of
from nictop.changes.session import ChangeSession
from nictop.changes.wording import event_text, log_lines, outcome_text
from nictop.errors import NictopError
from nictop.hosts.session import running
from nictop.model.text.units import local_time_text
from nictop.probe.plan.grammar.operation import REQUESTED_TEXT
from nictop.probe.records import ChangeLine, Hello, Line, PlannedAction
from nictop.wire.source import SourceState
from tests.changes.carrying import (
    APPLIED,
    BACK,
    DONE,
    MTU,
    PATIENT,
    PLANNED,
    PREPARED,
    SPEC,
    Answer,
    ScriptedProbe,
    carry,
    line,
)
from tests.support import findings
from tests.support.rule_cases import probe_lines as lines_of
from tests.support.sources import session_of

LOST = SourceState("lost", "the probe is gone", 0.1)
LIVE = SourceState("live")


def keep(event: Event, change: ChangeSession) -> None:
    if isinstance(event, Prepared):
        change.apply(twice=True)
    if isinstance(event, Applied):
        change.keep()


def only_apply(event: Event, change: ChangeSession) -> None:
    if isinstance(event, Prepared):
        change.apply()


def nothing(event: Event, change: ChangeSession) -> None:
    pass


# -------------------------------------------------------------------------------------- straight on


async def test_a_change_that_is_kept() -> None:
    probe = ScriptedProbe(keep=[(line("kept"),)])
    carried = await carry(probe, keep)
    assert (
        carried.kinds == ["Prepared", "Applying", "Applied", "ChangeEnded"]
        and carried.end.outcome == "kept"
    )
    assert probe.steps == ["prepare", "apply", "keep"]
    prepare, apply, last = probe.asked
    assert {one.id for one in probe.asked} == {carried.change.id}
    assert prepare.actions == apply.actions == (MTU,) and last.actions == ()
    assert (apply.fingerprint, apply.twice, apply.keep_within) == ("f1", True, 5.0)
    begun, ended = carried.log
    assert (
        (begun.state, ended.state) == ("begun", "kept")
        and begun.ended is None
        and ended.ended is not None
    )
    assert (
        begun.id == ended.id
        and ended.actions[0].before == "mtu 1500"
        and ended.actions[0].undo == PLANNED.undo
    )
    assert probe.requests[-2].inventory, "the finding is looked at anew"


DIFFERENCE = "ens4: mtu 1500 instead of mtu 9000"


async def test_what_something_else_changed_is_not_called_kept() -> None:
    """It is shown as soon as the host has read it, and the log has it."""
    checked = line("checked", time=12.0, deadline=16.0, differences=(DIFFERENCE,))
    apply = (*APPLIED, checked)
    kept = line("kept", time=13.0, differences=(DIFFERENCE,))
    probe = ScriptedProbe(apply=[apply], keep=[(kept,)])

    def decide(event: Event, change: ChangeSession) -> None:
        only_apply(event, change)
        if isinstance(event, ValuesChecked):
            assert event.differences == change.progress.differences == (DIFFERENCE,)
            change.keep()

    carried = await carry(probe, decide)
    assert (carried.end.outcome, carried.end.text) == ("overridden", DIFFERENCE)
    assert [entry.state for entry in carried.log] == ["begun", "overridden"]
    text = " ".join(" ".join(log_lines(ChangeLog((carried.log[-1],)), 200)).split())
    assert "kept, but changed since by something else" in text
    assert f"changed since, not by nictop: {DIFFERENCE}" in text


async def test_what_something_else_changed_before_a_rollback_is_in_its_end_and_in_the_log() -> None:
    """With both values, and what is there now: later nobody sees it any more."""
    checked = line("checked", time=12.0, deadline=16.0, differences=(DIFFERENCE,))
    rolled_back = (
        line("undoing", "not confirmed in time"),
        line("undone", "not confirmed in time"),
    )
    carried = await carry(ScriptedProbe(apply=[(*APPLIED, checked, *rolled_back)]), only_apply)
    said = (
        f"changed before its end, not by nictop: {DIFFERENCE}; after the rollback the values are "
        "the previous ones"
    )
    assert carried.end.outcome == "undone" and carried.end.outside == said
    assert event_text(carried.end, 0.0).endswith(said)
    text = " ".join(" ".join(log_lines(ChangeLog((carried.log[-1],)), 200)).split())
    assert "rolled back" in text and said in text


async def test_what_was_set_back_by_itself_is_said_of_a_change_that_is_kept() -> None:
    changed = line("checked", time=12.0, deadline=16.0, differences=(DIFFERENCE,))
    back = line("checked", time=13.0, deadline=16.0)
    probe = ScriptedProbe(apply=[(*APPLIED, changed, back)], keep=[(line("kept", time=14.0),)])

    def decide(event: Event, change: ChangeSession) -> None:
        only_apply(event, change)
        if isinstance(event, ValuesChecked) and not event.differences:
            change.keep()

    end = (await carry(probe, decide)).end
    assert end.outcome == "kept" and DIFFERENCE in end.outside
    assert end.outside.endswith("the values are those of the change again")


async def test_what_could_not_be_read_again_is_kept_and_not_verified() -> None:
    kept = line("kept", unverified="not read again within 10 s")
    probe = ScriptedProbe(keep=[(kept,)])
    end = (await carry(probe, keep)).end
    assert (end.outcome, end.at) == ("kept", None)
    text = outcome_text(end.outcome, end.text, end.at)
    assert text == "kept, but not verified: not read again within 10 s"


async def test_a_lost_host_with_values_of_neither_side_is_not_called_kept() -> None:
    """It had kept the change, and something else has changed it since."""
    other = replace(PLANNED, before="mtu 1400", undo=(BACK,))
    applied = (line("applying"), line("applied", deadline=10.0))
    probe = ScriptedProbe(prepare=after((other,)), apply=[applied], keep=[(LOST, LIVE)])
    carried = await carry(probe, keep)
    assert carried.end == ChangeEnded("overridden", "ens4: mtu 1400 instead of mtu 9000")


async def test_an_unconfirmed_change_is_rolled_back() -> None:
    probe = ScriptedProbe(
        apply=[(*APPLIED, line("undoing", "nobody said so in time"), line("undone", "late"))]
    )
    carried = await carry(probe, only_apply)
    assert carried.kinds == ["Prepared", "Applying", "Applied", "Undoing", "ChangeEnded"]
    assert carried.end.outcome == "undone" and probe.steps == ["prepare", "apply"]
    assert [one.state for one in carried.log] == ["begun", "undone"]


async def test_a_change_that_is_taken_back_at_once() -> None:
    probe = ScriptedProbe(undo=[(line("undoing", "on request"), line("undone", "on request"))])
    carried = await carry(
        probe,
        lambda event, change: (
            change.undo() if isinstance(event, Applied) else only_apply(event, change)
        ),
    )
    assert carried.end.outcome == "undone" and probe.steps == ["prepare", "apply", "undo"]


@pytest.mark.parametrize(
    ("why", "said", "expected"),
    [
        ("", REQUESTED_TEXT, REQUESTED_TEXT),
        ("result not verified", REQUESTED_TEXT, "result not verified"),
        ("result not verified", "not confirmed in time", "not confirmed in time"),
    ],
)
async def test_a_rollback_names_who_has_decided_it(why: str, said: str, expected: str) -> None:
    """The host knows only that it was asked, or that it was not in time."""
    probe = ScriptedProbe(undo=[(line("undoing", said), line("undone", said))])
    carried = await carry(
        probe,
        lambda event, change: (
            change.undo(why) if isinstance(event, Applied) else only_apply(event, change)
        ),
    )
    (undoing,) = (one for one in carried.events if isinstance(one, Undoing))
    assert (undoing.text, carried.end.text) == (expected, expected)
    assert carried.log[-1].text == expected


async def test_nothing_is_asked_for_without_a_yes() -> None:
    probe = ScriptedProbe()
    carried = await carry(probe, lambda event, change: change.undo())
    assert carried.end.outcome == "cancelled" and probe.steps == ["prepare"] and not carried.log


async def test_one_yes_is_not_two() -> None:
    probe = ScriptedProbe(prepare=[(replace(PREPARED, needs_second_yes=True),)])
    carried = await carry(probe, only_apply)
    assert carried.end.outcome == "refused" and probe.steps == ["prepare"] and not carried.log
    assert carried.events[0] == Prepared((PLANNED,), True, PREPARED.time)


async def test_what_cannot_be_logged_is_not_done() -> None:
    def full(_: LoggedChange) -> None:
        raise NictopError("the disk is full")

    probe = ScriptedProbe()
    carried = await carry(probe, keep, log=full)
    assert (carried.end.outcome, carried.end.text) == (
        "refused",
        "the disk is full",
    ) and probe.steps == ["prepare"]


async def test_an_end_that_cannot_be_logged_is_said() -> None:
    def full_soon(change: LoggedChange) -> None:
        if change.state != "begun":
            raise NictopError("the disk is full")

    carried = await carry(ScriptedProbe(keep=[(line("kept"),)]), keep, log=full_soon)
    assert (carried.end.outcome, carried.end.text) == ("kept", "the disk is full")


@pytest.mark.parametrize("step", ["prepare", "apply"])
async def test_a_refusal_changes_nothing(step: str) -> None:
    probe = ScriptedProbe(
        **{step: [(line("refused", "the host has changed since the plan was shown"),)]}
    )
    carried = await carry(probe, keep)
    assert carried.end.outcome == "refused" and "has changed" in carried.end.text
    assert [one.state for one in carried.log] == (["begun", "refused"] if step == "apply" else [])


async def test_other_changes_of_the_host_are_none_of_its_business() -> None:
    probe = ScriptedProbe(apply=[()])

    def decide(event: Event, change: ChangeSession) -> None:
        keep(event, change)
        if isinstance(event, Prepared):
            probe.send(
                *(Line(change=replace(one, id="another")) for one in (*APPLIED, line("kept")))
            )
            probe.send(SourceState("failed", "closed"))

    assert (await carry(probe, decide)).kinds == ["Prepared", "ConnectionLost", "ChangeEnded"]


# ---------------------------------------------------------------------------------- what goes wrong


async def test_a_failure_that_is_taken_back() -> None:
    wrong = (
        line("applying"),
        line("failed", "ethtool: no"),
        line("undoing", "ethtool: no"),
        line("undone"),
    )
    carried = await carry(ScriptedProbe(apply=[wrong]), keep)
    assert (carried.end.outcome, carried.end.text) == ("undone", "ethtool: no")
    assert carried.kinds == ["Prepared", "Applying", "StepFailed", "Undoing", "ChangeEnded"]


async def test_a_guard_that_is_killed_is_followed_by_another() -> None:
    killed = line("failed", "the rollback process ended early: the process was killed")
    words = (
        *APPLIED,
        line("undoing", "late"),
        killed,
        line("undoing", "the rollback process was killed"),
        line("undone"),
    )
    assert (await carry(ScriptedProbe(apply=[words]), only_apply)).end.outcome == "undone"


async def test_what_stayed_is_said() -> None:
    words = (*APPLIED, line("undoing"), line("failed", "rollback incomplete: ens4"))
    carried = await carry(
        ScriptedProbe(apply=[words]), only_apply, limits=replace(PATIENT, after_failure=0.2)
    )
    assert carried.end.outcome == "failed" and "rollback incomplete: ens4" in carried.end.text
    assert carried.log[-1].state == "failed"


async def test_what_stayed_ends_the_change_at_once() -> None:
    """The host says that nothing follows: "rolling back" would not be true any more."""
    last = replace(line("failed", "rollback incomplete: ens4"), is_last=True)
    words = (*APPLIED, line("undoing", "late"), last)
    carried = await carry(ScriptedProbe(apply=[words]), only_apply, limits=PATIENT)
    assert carried.kinds[-2:] == ["Undoing", "ChangeEnded"]
    assert (carried.end.outcome, carried.end.text) == ("failed", "rollback incomplete: ens4")


async def test_a_probe_that_does_not_answer() -> None:
    carried = await carry(ScriptedProbe(prepare=[]), keep, limits=replace(PATIENT, reply=0.2))
    assert (
        carried.end.outcome == "unreachable"
        and "s for its plan" in carried.end.text
        and not carried.log
    )


async def test_a_host_that_is_lost_before_anything_is_done() -> None:
    carried = await carry(ScriptedProbe(prepare=[(LOST,)]), keep)
    assert (carried.end.outcome, carried.end.text) == ("unreachable", "the probe is gone")
    probe = ScriptedProbe(prepare=[(PREPARED, LOST)])
    assert (await carry(probe, nothing)).end.outcome == "unreachable" and probe.steps == ["prepare"]


# ----------------------------------------------------------------------------- lost, and back again


def after(plan: tuple[PlannedAction, ...], *more: ChangeLine) -> list[tuple[Answer, ...]]:
    """Answers to "prepare": the plan, and what is there after the host has come back."""
    return [
        (PREPARED,),
        *((one,) for one in more),
        (replace(PREPARED, plan=plan, fingerprint="f2"),),
    ]


async def test_it_is_back_with_the_old_values() -> None:
    probe = ScriptedProbe(prepare=after((PLANNED,)), apply=[(*APPLIED, LOST, LIVE)])
    carried = await carry(probe, only_apply)
    assert carried.kinds == [
        "Prepared",
        "Applying",
        "Applied",
        "ConnectionLost",
        "Reconnected",
        "ChangeEnded",
    ]
    assert (
        carried.end.outcome == "undone" and "read after the connection was lost" in carried.end.text
    )
    assert (
        probe.steps == ["prepare", "apply", "prepare"] and probe.asked[-1].id != probe.asked[0].id
    )


async def test_it_is_asked_until_it_has_undone_it() -> None:
    busy = line("refused", "another change of ens4 is in progress")
    probe = ScriptedProbe(
        prepare=after((PLANNED,), busy, replace(PREPARED, plan=(DONE,))),
        apply=[(*APPLIED, LOST, LIVE)],
    )
    carried = await carry(probe, only_apply)
    assert carried.end.outcome == "undone"
    assert probe.steps.count("prepare") == 4
    told = [event.text for event in carried.events if isinstance(event, Reconnected)]
    other = f"not the previous values: {DONE.subject}: {DONE.before}"
    assert told == ["", "another change of ens4 is in progress", other]


async def test_what_is_known_until_it_has_answered() -> None:
    """It stood "asking whether it was rolled back" for 20 s; when the host rolls back was known."""
    probe = ScriptedProbe(prepare=after((PLANNED,)), apply=[(*APPLIED, LOST, LIVE)])
    carried = await carry(probe, only_apply)
    (again,) = [event for event in carried.events if isinstance(event, Reconnected)]
    assert again.until is not None
    time = local_time_text(again.until)
    assert event_text(again, 0.0) == (
        "connected again; asking whether it was rolled back; not known yet; what was not kept "
        f"should be rolled back by {time} at the latest"
    )
    unapplied = ScriptedProbe(prepare=after((PLANNED,)), apply=[(APPLIED[0], LOST, LIVE)])
    carried = await carry(unapplied, only_apply)
    (again,) = [event for event in carried.events if isinstance(event, Reconnected)]
    assert again.until is None


def stored(before: str) -> PlannedAction:
    words = ("nmcli", "con", "mod", "uuid", "b62c", "ipv4.method", "manual")
    return PlannedAction(words, before, "ipv4.method manual", (), "Wired connection 1")


def activation(before: str) -> PlannedAction:
    return PlannedAction(("nmcli", "con", "up", "uuid", "b62c"), before, "active b62c", (), "ens4")


def test_a_profile_that_networkmanager_activates_by_itself_does_not_hide_a_rollback() -> None:
    lost = LostChange((stored("ipv4.method auto"), activation("no active profile")), False, 0.0)
    active = activation("Wired connection 1")
    undone = outcome_of(lost, (stored("ipv4.method auto"), active), is_over=True)
    assert undone is not None and undone.outcome == "undone"
    assert outcome_of(lost, (stored("ipv4.method manual"), active), is_over=True) is None
    alone = LostChange((activation("no active profile"),), False, 0.0)
    assert outcome_of(alone, (active,), is_over=True) is None


async def test_new_values_that_were_not_confirmed_are_not_reported_as_kept() -> None:
    many = [(PREPARED,), *((replace(PREPARED, plan=(DONE,)),),) * 2000]
    probe = ScriptedProbe(
        prepare=many, apply=[(line("applying"), line("applied", deadline=10.0), LOST, LIVE)]
    )
    carried = await carry(probe, only_apply, limits=replace(PATIENT, settle=0.2))
    assert carried.end.outcome == "unknown" and "keep" not in probe.steps


async def test_it_was_kept_when_it_has_the_new_values_after_its_time() -> None:
    applied = (line("applying"), line("applied", deadline=10.0))
    probe = ScriptedProbe(prepare=after((DONE,)), apply=[applied], keep=[(LOST, LIVE)])
    assert (await carry(probe, keep)).end.outcome == "kept"


async def test_it_does_not_come_back() -> None:
    probe = ScriptedProbe(apply=[(line("applying"), line("applied", deadline=10.0), LOST)])
    carried = await carry(probe, only_apply, limits=replace(PATIENT, settle=0.2))
    assert (
        carried.end.outcome == "unknown"
        and "should roll back what was not confirmed" in carried.end.text
    )
    probe = ScriptedProbe(apply=[(*APPLIED, SourceState("failed", "the host key has changed"))])
    assert (await carry(probe, only_apply, limits=ChangeTimeouts())).end.outcome == "unknown"


def hello(boot_id: str) -> Line:
    return Line(
        hello=Hello(1, "1", "a", "6.1", "x86_64", "3.11", 1, 0, boot_id, 100, 0.0, 0.0, 0.2)
    )


@pytest.mark.parametrize(
    ("boot_id", "plan", "outcome", "text"),
    [
        ("second", PLANNED, "restarted", ""),
        (
            "second",
            DONE,
            "unknown",
            "the host was restarted meanwhile, and its values are not the previous ones",
        ),
        ("first", PLANNED, "undone", "read after the connection was lost"),
        ("", PLANNED, "undone", "read after the connection was lost"),
    ],
)
async def test_a_host_that_was_restarted_has_not_rolled_back(
    boot_id: str, plan: PlannedAction, outcome: str, text: str
) -> None:
    prepare = [(PREPARED,), *((replace(PREPARED, plan=(plan,)),),) * 2000]
    probe = ScriptedProbe(
        prepare=prepare, apply=[(line("applying"), line("applied", deadline=10.0), LOST)]
    )

    def decide(event: Event, change: ChangeSession) -> None:
        only_apply(event, change)
        if isinstance(event, ConnectionLost):
            probe.send(LIVE, hello(boot_id))

    probe.send(hello("first"))
    carried = await carry(probe, decide, limits=replace(PATIENT, settle=0.2))
    assert (carried.end.outcome, carried.end.text) == (outcome, text)
    assert (
        "rolled back" not in outcome_text(carried.end.outcome, carried.end.text)
        or boot_id != "second"
    )


async def test_a_restarted_host_that_kept_it() -> None:
    applied = (line("applying"), line("applied", deadline=10.0))
    probe = ScriptedProbe(prepare=after((DONE,)), apply=[applied], keep=[(LOST,)])

    def decide(event: Event, change: ChangeSession) -> None:
        keep(event, change)
        if isinstance(event, ConnectionLost):
            probe.send(LIVE, hello("second"))

    probe.send(hello("first"))
    end = (await carry(probe, decide)).end
    assert (end.outcome, end.text) == ("kept", "read after a restart of the host")


ADD = replace(
    PLANNED, words=("nmcli", "con", "add"), before="no such profile", after="profile for ens4"
)
UP = replace(
    PLANNED, words=("nmcli", "con", "up", "x"), before="ens4: Wired connection 1", after="up: x"
)


@pytest.mark.parametrize(
    ("plan", "outcome"),
    [
        (
            (
                replace(ADD, before="existing profile of this name: 1"),
                replace(UP, before="ens4: x"),
            ),
            "kept",
        ),
        ((ADD, UP), "undone"),
    ],
    ids=["kept", "undone"],
)
async def test_a_profile_that_is_added_is_one_of_that_name_afterwards(
    plan: tuple[PlannedAction, ...], outcome: str
) -> None:
    plans = after(plan)
    plans[0] = (replace(PREPARED, plan=(ADD, UP)),)
    applied = (line("applying"), line("applied", deadline=10.0))
    carried = await carry(ScriptedProbe(prepare=plans, apply=[applied], keep=[(LOST, LIVE)]), keep)
    assert carried.end.outcome == outcome


# -------------------------------------------------------------------------------------- the finding


async def test_whether_the_finding_is_gone() -> None:
    """The healthy twin of a case is heard after the change, then the sick host again."""
    sick = findings.host_of_case("virtio", "multiqueue_is_not_used")
    healthy = findings.host_of_case("virtio", "multiqueue_is_not_used", kind="silent")
    found = findings.finding(rule="multiqueue_is_not_used", host="kvm-guest", subject="enp1s0")
    probe = ScriptedProbe(apply=[(line("applying"), line("applied", time=0.0, deadline=9.0))])
    probe.name = "kvm-guest"
    verdicts: list[RuleVerdict] = []

    def decide(event: Event, change: ChangeSession) -> None:
        only_apply(event, change)
        if isinstance(event, Applied):
            probe.send(*lines_of(healthy))
        if isinstance(event, RuleVerdict):
            assert event.at is not None
            verdicts.append(replace(event, at=None))
            if event.gone and len(verdicts) == 1:
                probe.send(*lines_of({**sick, "time": 1000.0}))
            elif not event.gone:
                change.undo()
                probe.send(Line(change=replace(line("undone"), id=change.id)))

    carried = await carry(
        probe, decide, replace(SPEC, host="kvm-guest", finding=found), limits=ChangeTimeouts()
    )
    assert verdicts[0] == RuleVerdict(True) and RuleVerdict(False) in verdicts
    assert "ReadBack" in carried.kinds and carried.end.outcome == "undone"


# ------------------------------------------------------------------------------- left in the middle


async def test_whoever_leaves_takes_it_back() -> None:
    probe = ScriptedProbe()
    log: list[LoggedChange] = []
    session = session_of(probe)
    change = ChangeSession(session, SPEC, log=log.append, limits=PATIENT)
    async with running(session), aclosing(change.events()) as events:
        async for event in events:
            only_apply(event, change)
            if isinstance(event, Applied):
                break
    assert probe.steps == ["prepare", "apply", "undo"]
    assert [one.state for one in log] == ["begun", "unknown"] and change.outcome == "unknown"


async def test_whoever_leaves_before_a_yes_asks_for_nothing() -> None:
    probe = ScriptedProbe()
    session = session_of(probe)
    change = ChangeSession(session, SPEC, log=lambda _: None, limits=PATIENT)
    async with running(session), aclosing(change.events()) as events:
        async for _ in events:
            break
    assert probe.steps == ["prepare"]


@pytest.mark.parametrize("seconds", [4.9, 601.0, float("nan")])
def test_limits_of_the_time_to_keep_it(seconds: float) -> None:
    with pytest.raises(NictopError):
        ChangeSession(session_of(ScriptedProbe()), ChangeSpec("h", (MTU,), keep_within=seconds))


# ---------------------------------------------------------------------------------------- any order

said = st.sampled_from(
    [
        *(
            line(kind, "x")
            for kind in ("refused", "applying", "kept", "undoing", "undone", "failed")
        ),
        PREPARED,
        replace(APPLIED[1], deadline=11.0),
    ]
)
answered = st.lists(
    st.lists(said | st.sampled_from([LOST, LIVE]), max_size=4).map(tuple), max_size=3
)


@settings(max_examples=60)
@given(answered, answered, answered, st.sampled_from(["keep", "undo", "cancel", ""]))
def test_any_host_comes_to_an_end(
    prepare: list[tuple[Answer, ...]],
    apply: list[tuple[Answer, ...]],
    rest: list[tuple[Answer, ...]],
    decision: str,
) -> None:
    tiny = ChangeTimeouts(
        reply=0.01, apply=0.01, settle=0.01, rollback=0.0, after_failure=0.01, retry=0.001
    )
    probe = ScriptedProbe(prepare=prepare, apply=apply, keep=rest, undo=rest)

    def decide(event: Event, change: ChangeSession) -> None:
        if isinstance(event, Prepared):
            change.apply(twice=True)
        if isinstance(event, (Applied, Undoing)) and decision:
            getattr(change, decision)()

    async def run_change() -> None:
        carried = await carry(probe, decide, replace(SPEC, keep_within=5.0), limits=tiny)
        assert carried.end.outcome in (
            "kept",
            "undone",
            "refused",
            "cancelled",
            "unreachable",
            "failed",
            "unknown",
        )
        assert "keep" not in probe.steps or decision == "keep"
        assert len(carried.log) == (2 if "apply" in probe.steps else 0)
        assert not carried.log or carried.log[-1].state == carried.end.outcome

    asyncio.run(run_change())
