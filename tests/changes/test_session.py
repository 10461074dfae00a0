"""A change session on a scripted host: its log, its progress, and the proof of a guided set-up."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.changes.audit_log import log_path, read_log
from nictop.changes.events import Applied, Event, GoalCheck, Prepared
from nictop.changes.job import ChangeJob
from nictop.changes.session import ChangeSession
from nictop.hosts.session import running
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Line
from nictop.rules import Fix
from tests.changes.carrying import MTU, PLANNED, ScriptedProbe, line
from tests.support.lines import inventory, link
from tests.support.sources import session_of


def proof(snapshot: Snapshot) -> GoalCheck:
    mtu = snapshot.links[1].mtu
    return GoalCheck(mtu == 9000, f"ens4 has MTU {mtu}")


JOB = ChangeJob(
    "alma-load-001", "use jumbo frames", "ens4", Fix("here", "set it now", (), False), proof=proof
)


def read_at(time: float, mtu: int) -> Line:
    return inventory(link(1, "ens4", mtu=mtu), time=time)


async def test_a_guided_set_up_that_reaches_its_goal_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The goal is checked with each inventory that was read after the change: each result has its
    time."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    probe = ScriptedProbe(keep=[(line("kept"),)])
    host = session_of(probe)
    session = ChangeSession(host, JOB.spec([MTU], 5.0))
    events: list[Event] = []
    async with running(host), aclosing(session.events()) as changing:
        async for event in changing:
            events.append(event)
            if isinstance(event, Prepared):
                session.keep()  # no effect: it is not applied
                session.apply()
            elif isinstance(event, Applied):
                for time, mtu in ((10.0, 1500), (12.0, 1500), (13.0, 1500), (14.0, 9000)):
                    probe.send(read_at(time, mtu))
            elif isinstance(event, GoalCheck) and event.proven:
                session.keep()
    goals = [event for event in events if isinstance(event, GoalCheck)]
    assert all(goal.at is not None for goal in goals)
    assert [replace(goal, at=None) for goal in goals] == [
        GoalCheck(False, "ens4 has MTU 1500"),
        GoalCheck(False, "ens4 has MTU 1500"),
        GoalCheck(True, "ens4 has MTU 9000"),
    ]
    assert (session.progress.stage, session.progress.outcome, session.progress.proof) == (
        "ended",
        "kept",
        events[-2],
    )
    (logged,) = read_log(log_path({"XDG_STATE_HOME": str(tmp_path)})).changes
    assert (logged.state, logged.host, logged.title) == (
        "kept",
        "alma-load-001",
        "use jumbo frames",
    )
    assert [one.words for one in logged.actions] == [PLANNED.words]


async def test_the_time_to_keep_it_is_fixed_once_it_is_applied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    probe = ScriptedProbe(undo=[(line("undoing"), line("undone"))])
    host = session_of(probe)
    session = ChangeSession(host, JOB.spec([MTU]))
    async with running(host), aclosing(session.events()) as events:
        async for event in events:
            if isinstance(event, Prepared):
                session.set_keep_within(10.0)
                session.apply()
            elif isinstance(event, Applied):
                session.set_keep_within(20.0)
                session.undo()
    assert session.progress.outcome == "undone" and session.progress.spec.keep_within == 10.0
    assert [one.keep_within for one in probe.asked] == [30.0, 10.0, 10.0]
