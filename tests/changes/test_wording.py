"""Text about changes: lines are clean and not too wide, whatever names a host has."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.changes.events import (
    Applied,
    Applying,
    ChangeEnded,
    ConnectionLost,
    Event,
    Prepared,
    ReadBack,
    RuleVerdict,
    StepFailed,
    Undoing,
)
from nictop.changes.wording import (
    APPLIED,
    APPLYING,
    KEPT,
    NO_RESULT_TEXT,
    NOT_KNOWN,
    OVERRIDDEN,
    REMOVED,
    UNUSED,
    PlanWords,
    event_text,
    loss_text,
    plan_lines,
)
from nictop.model.text.terminal import width
from nictop.probe.records import PlannedAction
from tests.changes.carrying import PLANNED
from tests.support.arbitrary import arbitrary
from tests.support.hostile import NAME as HOSTILE
from tests.test_borders import loaded_by


def test_a_plan() -> None:
    one = replace(PLANNED, disturbs=("the default route uses ens4",))
    assert list(plan_lines((one,), 80)) == [
        "1. ip link set dev ens4 mtu 9000",
        "     current      mtu 1500",
        "     new          mtu 9000",
        "     warning      the default route uses ens4",
        "     persistence  not stored: until reboot at the latest",
        "     rollback     ip link set dev ens4 mtu 1500",
    ]
    profile = PlannedAction(
        ("nmcli", "con", "mod", "lan"), "", "mtu: 9000", (), "lan", persistent=True
    )
    lines = list(plan_lines((one, profile), 80))[6:]
    assert lines == [
        "2. nmcli con mod lan",
        "     current      none",
        "     new          mtu: 9000",
        "     persistence  survives a reboot",
        "     rollback     NetworkManager checkpoint",
    ]
    activation = PlannedAction(("nmcli", "con", "up", "lan"), "lan", "active: lan", (), "lan")
    assert "     persistence  activates the profile" in plan_lines((activation,), 80)
    assert "     new          unchanged" in plan_lines((replace(PLANNED, before="mtu 9000"),), 80)


def test_a_profile_survives_a_reboot_once_it_is_kept() -> None:
    """Until then NetworkManager has it in /run only."""
    profile = PlannedAction(
        ("nmcli", "con", "mod", "lan"), "", "mtu: 9000", (), "lan", persistent=True
    )
    assert persistence(profile, APPLYING) == "survives a reboot, once it is kept"
    assert persistence(profile, APPLIED) == "survives a reboot, once it is kept"
    assert persistence(profile, KEPT) == "survives a reboot"
    assert persistence(profile, OVERRIDDEN).endswith(", where nothing else has changed it")
    assert persistence(profile, NOT_KNOWN) == "survives a reboot, if it was kept"
    assert not persistence(profile, REMOVED) and not persistence(profile, UNUSED)


def persistence(action: PlannedAction, words: PlanWords) -> str:
    """ "": it is not said."""
    label = "     persistence  "
    found = [line for line in plan_lines((action,), 80, words=words) if line.startswith(label)]
    return found[0][len(label) :] if found else ""


def test_warnings_of_a_plan_are_of_its_time_once_it_is_applied() -> None:
    one = replace(PLANNED, disturbs=("reconfigures ens4, which has no address",))
    assert "     warning      reconfigures ens4, which has no address" in plan_lines((one,), 80)
    said = "     warning      when planned: reconfigures ens4, which has no address"
    for words in (APPLYING, APPLIED, KEPT, NOT_KNOWN, UNUSED):
        assert said in plan_lines((one,), 80, words=words)


@given(st.integers(0, 2**32), st.sampled_from([24, 40, 80, 120]))
def test_any_plan_is_clean(seed: int, cells: int) -> None:
    random = Random(seed)
    plan = tuple(
        replace(arbitrary(PlannedAction, random), words=(HOSTILE, "a b", "")) for _ in range(2)
    )
    for line in plan_lines(plan, cells):
        assert line.isprintable() and width(line) <= max(cells, 40)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Prepared((), False), ""),
        (Applying(), "applying"),
        (Applied((), 130.0), "in 30 s"),
        (Applied((), 90.0), "in 0 s"),
        (ReadBack(), "still reachable"),
        (RuleVerdict(True), "finding resolved"),
        (RuleVerdict(False), "still present"),
        (RuleVerdict(False, HOSTILE), "could not be checked"),
        (StepFailed(HOSTILE), "ev\\x1b"),
        (Undoing(""), "rolling back"),
        (Undoing(HOSTILE), "rolling back: ev\\x1b"),
        (ConnectionLost(HOSTILE), "the host should roll back what was not confirmed"),
        (ChangeEnded("kept"), "kept"),
        (ChangeEnded("refused", HOSTILE), "nothing changed: ev\\x1b"),
    ],
)
def test_events(event: Event, said: str) -> None:
    words = event_text(event, 100.0)
    assert said in words and words.isprintable() and bool(words) == bool(said)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("connection to vm1 lost: reset by peer", "connection to vm1 lost: reset by peer"),
        ("connection to vm1 lost", "connection to vm1 lost"),
        ("vm1 closed the connection; sshd may", "vm1 closed the connection; sshd may"),
        (
            "no more data from vm1 for 20 s",
            "connection to vm1 lost: no more data from vm1 for 20 s",
        ),
        ("", "connection to vm1 lost"),
        (NO_RESULT_TEXT, NO_RESULT_TEXT),
    ],
)
def test_a_loss_is_said_once(cause: str, said: str) -> None:
    """``connection lost: connection to vm1 lost: Connection lost`` was said of one."""
    assert loss_text(cause, "vm1") == said
    assert event_text(ConnectionLost(cause), 0.0).count("lost") <= 1


def test_changes_load_no_screen() -> None:
    for module in (
        "nictop.changes.session",
        "nictop.changes.guided.set_up",
        "nictop.cli.change.run",
    ):
        assert loaded_by(module) & {"textual", "rich", "asyncssh", "pyroute2", "psutil"} == set()
    assert loaded_by("nictop.cli.commands.fix") & {"asyncio", "msgspec"} == set()
    assert loaded_by("nictop.cli.commands.changes") & {"asyncio", "msgspec"} == set()


def test_what_failed_says_whether_it_was_applied() -> None:
    failed = "ip address add: Error: ipv6: address already assigned."
    assert event_text(StepFailed(failed), 0.0) == f"not applied: {failed}"
    assert event_text(StepFailed("killed", was_applied=True), 0.0) == "failed: killed"
