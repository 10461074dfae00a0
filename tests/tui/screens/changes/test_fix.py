"""Applying the fix of a finding: plan, confirmation, countdown, kept or rolled back; on real hosts
of this test."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from textual._callback import invoke
from textual.command import Hit

from nictop.changes.audit_log import log_path, read_log
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Address, ChangeLine, ChangeRequest, Line, PlannedAction
from nictop.rules import Diagnosis, Fix
from nictop.rules.finding import WhereToType
from nictop.tui.palette import NictopCommands, PaletteEntry
from nictop.tui.screens.changes.fix import FixScreen
from nictop.tui.screens.changes.guided import SetUpScreen
from nictop.tui.screens.changes.screen import CANCELLED, HostChangeScreen
from nictop.tui.screens.dialogs.leave import LeaveScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base import button_row
from nictop.tui.widgets.base.button_row import ButtonRow
from nictop.tui.widgets.base.form import Form
from nictop.wire.source import SourceState
from tests.support.change_screen import (
    read_mtu,
    screen_with_changes,
    screen_with_changes_in_namespace,
)
from tests.support.changes import LINK
from tests.support.dialogs import button_labels, choose_button, dialog_text, press_button
from tests.support.findings import commands, finding, step_texts
from tests.support.hostile import SHORT as HOSTILE
from tests.support.lines import counters, hello, inventory, link
from tests.support.namespaces import why_no_namespaces
from tests.support.networkmanager import private_networkmanager, why_no_networkmanager
from tests.support.probe import wait_until as wait_for
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until

SIZES = [WIDE, NARROW, (60, 15), (40, 10), (20, 5), (3, 3)]
JUMBO = Fix("here", "take jumbo frames", commands("ip link set dev ens192 mtu 9000"), False)
ChangeKind = Literal["prepared", "applying", "applied", "kept", "undoing", "undone"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("applying", "applied", "undoing", "undone")


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """The states that the log of changes has, oldest first; the log is one of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return lambda: [change.state for change in read_log(log_path(os.environ)).changes]


@pytest.fixture
def namespaces() -> Iterator[None]:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    return iter([None])


def shows(screen: Screen, kind: type[object]) -> bool:
    """Whether that screen is on top."""
    return isinstance(screen.app.screen, kind)


async def with_finding(screen: Screen, fix: Fix, subject: str = "ens192") -> None:
    """The live screen of a scripted host with one finding."""
    await screen.receive(
        hello(), inventory(link(2, "ens192", bus="pci")), counters(1.0, {2: (0, 0)})
    )
    one = replace(finding(subject=subject, fixes=(fix,)), ifindex=2)
    await screen.show_diagnosis(Diagnosis((one,), ()))


# --------------------------------------------------------------------------------- what is not done


def jumbo_plan(words: tuple[str, ...]) -> PlannedAction:
    """What the host says of `JUMBO`."""
    undo = (*words[:-1], "1500")
    disturbs = ("may reset ens192: short traffic interruption", "this SSH connection uses ens192")
    return PlannedAction(words, "mtu 1500", "mtu 9000", (undo,), "ens192", disturbs=disturbs)


@pytest.mark.parametrize("size", [(120, 60), (80, 60)])
async def test_without_allow_changes_f_shows_the_whole_plan(size: tuple[int, int]) -> None:
    """As with it: warnings, old and new value, undo; and how changes are enabled. It asks for
    nothing but the plan."""
    async with live_screen(size) as screen:
        await with_finding(screen, JUMBO)
        await screen.press("f")
        assert shows(screen, HostChangeScreen)
        assert str(JUMBO.commands[0]) in dialog_text(screen), (
            "at once, to be copied while the host reads its values"
        )
        await screen.press("y")
        assert screen.app.clipboard == "\n".join(step_texts(JUMBO.commands))
        assert any(str(JUMBO.commands[0]) in one.message for one in screen.app._notifications), (
            "it names what it copied"
        )
        await wait_until(screen, lambda: any(one.change for one in screen.source.requests))
        request = next(one.change for one in screen.source.requests if one.change)
        plan = (jumbo_plan(request.actions[0]),)
        await screen.receive(
            Line(
                change=ChangeLine(
                    1.0, request.id, "prepared", plan=plan, fingerprint="f", needs_second_yes=True
                )
            )
        )
        text = dialog_text(screen)
        for part in (
            "this SSH connection uses ens192",
            "Changes are disabled for alma-load-001.",
            "nictop --allow-changes",
            "allow_changes = true below [hosts.alma-load-001]",
            "1. ip link set dev ens192 mtu 9000",
            "current mtu 1500",
            "new mtu 9000",
            "rollback ip link set dev ens192 mtu 1500",
        ):
            assert part in text, part
        assert "Not applied yet" not in text
        assert button_labels(screen) == ["Apply", "Copy", "Close"]
        await press_button(screen, "Apply")
        assert any("changes are disabled" in row for row in screen.drawn())
        screen.nictop.changes.apply(twice=True)
        await screen.press("escape")
        assert shows(screen, LiveScreen)
        assert {one.change.step for one in screen.source.requests if one.change is not None} == {
            "prepare"
        }


async def test_without_allow_changes_and_without_a_plan_its_commands_are_shown(
    size: tuple[int, int] = WIDE,
) -> None:
    """A host that is not live cannot say what would be changed: that is said, and the commands
    remain."""
    async with live_screen(size) as screen:
        await with_finding(screen, JUMBO)
        await screen.receive(SourceState("lost", "the network is gone", 4.0))
        await screen.press("f")
        assert shows(screen, FixScreen)
        text = dialog_text(screen)
        assert "Changes are disabled for alma-load-001." in text
        assert "Current values and warnings are not known: alma-load-001 is not live: lost." in text
        assert str(JUMBO.commands[0]) in text
        await press_button(screen, "Apply")
        assert shows(screen, FixScreen)
        await screen.press("y")
        assert screen.app.clipboard == "\n".join(step_texts(JUMBO.commands))
        assert not [one for one in screen.source.requests if one.change is not None]


async def test_a_refused_plan_is_shown_with_its_commands() -> None:
    """What the key y copies is on the screen at every stage."""
    async with live_screen(WIDE) as screen:
        await with_finding(screen, JUMBO)
        await screen.press("f")
        await wait_until(screen, lambda: any(one.change for one in screen.source.requests))
        request = next(one.change for one in screen.source.requests if one.change)
        await screen.receive(
            Line(change=ChangeLine(1.0, request.id, "refused", "no interface ens192"))
        )
        text = dialog_text(screen)
        assert (
            "Refused, nothing changed: no interface ens192" in text
            and str(JUMBO.commands[0]) in text
        )
        await screen.press("y")
        assert screen.app.clipboard == "\n".join(step_texts(JUMBO.commands))
        await screen.press("q")
        assert not isinstance(screen.app.screen, HostChangeScreen) and screen.app.is_running


async def test_a_refused_plan_is_requested_again_with_the_same_values() -> None:
    """Nothing has to be typed again, and a held Enter does not repeat it."""
    async with live_screen(WIDE, allow_changes=True) as screen:

        def requests() -> list[ChangeRequest]:
            return [one.change for one in screen.source.requests if one.change]

        await with_finding(screen, JUMBO)
        await screen.press("f")
        await wait_until(screen, lambda: len(requests()) == 1)
        (first,) = requests()
        await screen.receive(Line(change=ChangeLine(1.0, first.id, "refused", "it is busy")))
        assert any("[▸Close ]" in row for row in screen.drawn())
        await press_button(screen, "Try again")
        await wait_until(screen, lambda: len(requests()) == 2)
        second = requests()[-1]
        assert second.actions == first.actions and second.id != first.id
        assert "it is busy" not in dialog_text(screen) and shows(screen, HostChangeScreen)
        await screen.press("escape")


async def test_a_real_host_shows_the_same_plan_with_and_without_allow_changes(
    namespaces: None,
) -> None:
    plans = []
    for allowed in (False, True):
        async with screen_with_changes_in_namespace((120, 60), allow_changes=allowed) as (
            screen,
            host,
        ):
            before = read_mtu(host)
            await screen.prepare_fix()
            text = screen.dialog_text()
            plans.append(text.partition(" Plan ")[2])
            assert ("Changes are disabled for vm1" in text) == (not allowed)
            assert "may reset nic0" not in text, "a veth only stores its MTU"
            await screen.press("escape")
            await screen.wait_until_closed()
            assert read_mtu(host) == before
    assert plans[0] == plans[1] and "current mtu 1500" in plans[0] and "rollback" in plans[0]


async def test_what_runs_elsewhere_can_only_be_copied() -> None:
    async with live_screen(NARROW) as screen:
        await with_finding(
            screen, Fix("esxi", "give it a queue", commands("esxcli network nic list"))
        )
        await screen.press("f")
        assert dialog_text(screen).startswith("Run on the ESXi host:")
        assert button_labels(screen) == ["Copy", "Close"]
        await screen.press("enter")
        assert screen.app.clipboard == "esxcli network nic list"
        await press_button(screen, "Close")
        assert shows(screen, LiveScreen)


async def test_f_is_not_offered_where_there_is_nothing_to_type() -> None:
    async with live_screen(WIDE) as screen:
        await with_finding(screen, JUMBO)
        assert screen.app.screen.check_action("show_fix", ()) is True
        await screen.show_diagnosis(Diagnosis((), ()))
        assert screen.app.screen.check_action("show_fix", ()) is False


RUN_BY_USER = Fix("here", "Reload it", commands("modprobe -r mlx5_core"))


@pytest.mark.parametrize(
    ("allowed", "fix", "label", "other"),
    [
        (True, JUMBO, "f Apply fix", "Show fix"),
        (False, JUMBO, "f Show fix", "Apply fix"),
        (True, RUN_BY_USER, "f Show fix", "Apply fix"),
        (True, replace(JUMBO, where="hypervisor"), "f Show fix", "Apply fix"),
    ],
)
async def test_footer_palette_and_help_name_what_f_does_here(
    allowed: bool, fix: Fix, label: str, other: str
) -> None:
    """Where changes are disabled, and of a fix that nictop cannot apply, nothing is called
    Apply."""
    async with live_screen(WIDE, allow_changes=allowed) as screen:
        await with_finding(screen, fix)
        for view in ("1", "4"):
            await screen.press(view)
            assert label in screen.drawn()[-1] and other not in screen.drawn()[-1]
        keys = {
            binding.binding.description for binding in screen.app.screen.active_bindings.values()
        }
        assert label[2:] in keys and other not in keys
        assert ("Set up" in keys, "Show set-up" in keys) == (allowed, not allowed)


async def test_the_set_up_says_where_it_ends_without_changes() -> None:
    async with live_screen(NARROW) as screen:
        await with_finding(screen, JUMBO)
        assert "e Show set-up" in screen.drawn()[-1]
        await screen.press("e")
        assert "nothing is applied" in dialog_text(screen)
        assert button_labels(screen) == ["Show plan", "Copy", "Cancel"]


@pytest.mark.parametrize("kind", ["undone", "failed"])
async def test_after_a_rollback_the_host_is_read_again_at_once(kind: ChangeKind) -> None:
    async with live_screen(WIDE, allow_changes=True) as screen:
        await with_finding(screen, JUMBO)
        reply = await scripted_change(screen)
        await press_button(screen, "Apply")
        await reply("applying")
        before = len([one for one in screen.source.requests if one.inventory])
        await reply(kind)
        await wait_until(
            screen, lambda: len([one for one in screen.source.requests if one.inventory]) > before
        )


async def test_while_a_change_is_open_f_names_it() -> None:
    async with live_screen(WIDE, allow_changes=True) as screen:
        await with_finding(screen, JUMBO)
        reply = await scripted_change(screen)
        await press_button(screen, "Apply")
        await reply("applying")
        await screen.press("escape")
        assert "f Open change" in screen.drawn()[-1]


async def test_the_palette_opens_and_undoes_the_change_on_every_screen() -> None:
    """Without a change under way it says where the commands are that undo a kept one."""

    def found() -> dict[str, PaletteEntry]:
        entries = NictopCommands(screen.app.screen)._commands()
        return {one.text: one for one in entries if one.text.startswith("Change:")}

    async with live_screen(WIDE, allow_changes=True) as screen:
        await with_finding(screen, JUMBO)
        assert list(found()) == ["Change: Undo a kept change"]
        await invoke(found()["Change: Undo a kept change"].run)
        await screen.settle()
        assert any("nictop changes alma-load-001" in row for row in screen.drawn())
        reply = await scripted_change(screen)
        await press_button(screen, "Apply")
        await reply("applying")
        await screen.press("escape", "5")
        assert {"Change: Open the change", "Change: Undo it now (roll back)"} <= found().keys()
        for typed in ("undo", "roll back", "rollback", "change"):
            hits = [hit async for hit in NictopCommands(screen.app.screen).search(typed)]
            assert any(
                isinstance(hit, Hit) and (hit.text or "").startswith("Change: Undo it now")
                for hit in hits
            ), typed
        await invoke(found()["Change: Open the change"].run)
        await wait_until(screen, lambda: shows(screen, HostChangeScreen))
        await screen.press("escape")
        await invoke(found()["Change: Undo it now (roll back)"].run)
        await wait_until(screen, lambda: shows(screen, HostChangeScreen))
        progress = screen.nictop.changes.progress
        assert progress is not None and progress.decision == "undo"


async def test_a_host_that_is_away_is_not_asked() -> None:
    async with live_screen(WIDE, allow_changes=True) as screen:
        await with_finding(screen, JUMBO)
        await screen.receive(SourceState("lost", "the network is gone", 4.0))
        await screen.press("f")
        assert shows(screen, LiveScreen)
        assert any("alma-load-001 is not live: lost" in row for row in screen.drawn())
        assert not [one for one in screen.source.requests if one.change is not None]


# ------------------------------------------------------------------------------- keys pressed twice


async def scripted_change(
    screen: Screen, *, needs_second_yes: bool = False, actions: int = 1
) -> Callable[[ChangeKind], Awaitable[None]]:
    """Open the dialog of a fix and show its plan; the result sends further replies of the host."""
    await with_finding(screen, JUMBO)
    await screen.press("f")
    await wait_until(screen, lambda: any(one.change for one in screen.source.requests))
    request = next(one.change for one in screen.source.requests if one.change)
    plan = PlannedAction(request.actions[0], "mtu 1500", "mtu 9000", (), "ens192")

    async def reply(kind: ChangeKind) -> None:
        line = ChangeLine(
            1.0,
            request.id,
            kind,
            plan=(plan,) * actions,
            fingerprint="f",
            needs_second_yes=needs_second_yes,
        )
        await screen.receive(Line(change=line))
        await screen.settle()

    await reply("prepared")
    return reply


def decisions(screen: Screen) -> Sequence[str]:
    """Requests that the host got after the first one."""
    return [one.change.step for one in screen.source.requests if one.change][1:]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_at_the_plan_cancel_is_chosen(glyphs: Glyphs) -> None:
    async with live_screen(NARROW, glyphs=glyphs, allow_changes=True) as screen:
        await scripted_change(screen)
        assert any(f"[{glyphs.cursor}Cancel ]" in row for row in screen.drawn())
        await screen.press("enter")
        assert shows(screen, LiveScreen)
        assert "apply" not in decisions(screen)


@pytest.mark.parametrize("stage", ["preparing", "prepared"])
async def test_esc_closes_the_dialog_of_a_change_at_once(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when its end is reported: it closed under the hands of somebody who had gone on."""
    async with live_screen(WIDE, allow_changes=True) as screen:
        if stage == "prepared":
            await scripted_change(screen)
        else:
            await with_finding(screen, JUMBO)
            await screen.press("f")
        changes = screen.nictop.changes
        assert changes.session is not None and changes.session.progress.stage == stage
        monkeypatch.setattr(changes.session._inbox, "put", lambda item: None)  # not taken yet
        await screen.press("escape")
        assert shows(screen, LiveScreen) and changes.running


@pytest.mark.parametrize("asks_twice", [False, True])
async def test_the_dialog_of_a_change_that_is_cancelled_elsewhere_stays_and_says_so(
    asks_twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is typed next is for the dialog, not for the view below it."""
    monkeypatch.setattr(button_row, "NEW_STAGE_SECONDS", 0.0)
    async with live_screen(WIDE, allow_changes=True) as screen:
        await scripted_change(screen, needs_second_yes=asks_twice)
        if asks_twice:
            await press_button(screen, "Apply")
            assert "This may disconnect" in dialog_text(screen)
        (below,) = [one for one in screen.app.screen_stack if isinstance(one, LiveScreen)]
        view = below.view
        screen.nictop.changes.undo()
        await wait_until(screen, lambda: not screen.nictop.changes.running)
        await screen.settle()
        assert shows(screen, HostChangeScreen) and dialog_text(screen) == CANCELLED
        assert button_labels(screen) == ["OK"]
        await screen.press("y", "e", "s", "2", "4")
        assert shows(screen, HostChangeScreen) and dialog_text(screen) == CANCELLED
        await screen.press("enter")
        assert shows(screen, LiveScreen) and below.view == view
        assert decisions(screen) == []


async def test_a_held_enter_neither_applies_nor_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(button_row, "NEW_STAGE_SECONDS", 600.0)  # on a slow machine, too
    async with live_screen(NARROW, allow_changes=True) as screen:
        reply = await scripted_change(screen)
        await screen.press("right", "enter", "enter", "enter")
        await reply("applying")
        await screen.press("enter", "enter")
        await reply("applied")
        await screen.press("enter", "enter", "enter")
        await screen.pilot.click(offset=(0, 0))
        assert decisions(screen) == ["apply"], "Keep is pressed only after it was chosen"
        assert shows(screen, HostChangeScreen), "a click outside does not hide it"
        await press_button(screen, "Keep")
        await screen.press("enter", "enter")
        await reply("kept")
        await screen.press("enter", "enter")
        assert decisions(screen) == ["apply", "keep"]
        assert shows(screen, HostChangeScreen)
        await screen.pilot.click(offset=(0, 0))
        assert not shows(screen, HostChangeScreen)


async def test_a_double_click_on_apply_does_not_keep() -> None:
    async with live_screen(NARROW, allow_changes=True) as screen:
        reply = await scripted_change(screen)
        await screen.pilot.click(ButtonRow, (3, 0), times=3)
        await reply("applied")
        assert decisions(screen) == ["apply"]
        assert button_labels(screen)[0] == "Keep"


async def test_a_doubled_enter_does_not_answer_the_second_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(button_row, "NEW_STAGE_SECONDS", 600.0)  # on a slow machine, too
    async with live_screen(NARROW, allow_changes=True) as screen:
        reply = await scripted_change(screen, needs_second_yes=True)
        await screen.press("right", "enter", "enter", "enter")
        assert (
            "This may disconnect alma-load-001" in dialog_text(screen) and decisions(screen) == []
        )
        await screen.press(*"yes", "enter", "enter")
        assert decisions(screen) == ["apply"]
        await reply("applied")
        await screen.press("enter", "enter")
        assert decisions(screen) == ["apply"]


async def test_the_dialog_does_not_move() -> None:
    """Not from its plan to its end; the first two rows and the last one of the screen below stay
    visible."""
    async with live_screen(NARROW, allow_changes=True) as screen:
        reply = await scripted_change(screen)
        before = screen.app.screen.query_one("#dialog").region
        assert before.y == 2 and before.bottom == NARROW[1] - 1
        await screen.press("right", "enter")
        for kind in CHANGE_KINDS:
            await reply(kind)
            assert screen.app.screen.query_one("#dialog").region == before


async def test_apply_scrolls_to_what_happens_now_before_the_host_replies() -> None:
    """The end of a long plan would hide that anything was decided."""
    async with live_screen((80, 20), allow_changes=True) as screen:
        await scripted_change(screen, actions=9)
        await screen.press("pagedown", "pagedown")
        assert not any("Not applied yet" in row for row in screen.drawn())
        await screen.press("right", "enter")
        assert any("Applying" in row for row in screen.drawn())


# ---------------------------------------------------------------------------- a real NetworkManager


@pytest.fixture
def networkmanager() -> None:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")


@pytest.mark.usefixtures("networkmanager")
async def test_the_wired_connection_gets_its_name_and_its_address(
    log: Callable[[], list[str]],
) -> None:
    """The case that started nictop, from the key f to a finding that is gone."""
    with private_networkmanager("ens37") as manager:
        manager.wait_for(lambda: manager.device_state("ens37") >= 40)
        async with screen_with_changes(manager.prefix) as screen:
            await wait_until(
                screen, lambda: bool(getattr(screen.nictop.diagnosis.result, "findings", ()))
            )
            await screen.press("4", "f")
            assert shows(screen, FixScreen)
            form = screen.app.screen.query_one(Form)
            assert "Address/prefix ▏(required) e.g. 192.0.2.10/24" in " ".join(
                screen.lines(Form)[0].split()
            )
            await screen.press(*"192.0.2.300/24", "enter")
            assert form.problems == {
                "ADDRESS/PREFIX": '"192.0.2.300/24" is not an address with prefix length'
            }
            await screen.press("delete", *"192.0.2.10/24")
            commands_shown = screen.dialog_text().replace(" \\ ", " ")
            assert "ipv4.addresses 192.0.2.10/24" in commands_shown and "<" not in commands_shown
            await screen.press("enter")
            await screen.wait_for_stage("prepared")
            words = screen.dialog_text()
            assert (
                "new ipv4.method manual ipv4.addresses 192.0.2.10/24" in words
                and "Replace <" not in words
            )
            assert "▲ reconfigures ens37: short traffic interruption" in words
            assert "192.0.2.10" not in manager.namespace.run(["ip", "address"])
            await screen.press("right", "enter")
            await screen.wait_for_text("✓ Applied")
            await screen.wait_for_text("✓ Host still reachable")
            await screen.wait_for_text("✓ Finding resolved")
            assert "192.0.2.10/24" in manager.namespace.run(
                ["ip", "address", "show", "dev", "ens37"]
            )
            assert log() == ["begun"]
            await screen.press("right", "enter")
            await screen.wait_for_text("✓ Kept: the new values stay")
            assert log() == ["kept"]
            await press_button(screen, "Close")
            assert shows(screen, LiveScreen)
        assert (
            manager.nmcli("-g", "GENERAL.CONNECTION", "device", "show", "ens37").strip() == "ens37"
        )
        assert "192.0.2.10/24" in manager.namespace.run(["ip", "address", "show", "dev", "ens37"])


async def test_an_address_that_is_in_use_is_said_while_it_is_typed() -> None:
    """As in the set-up."""
    fix = Fix("here", "Set an address", commands("ip address add '<ADDRESS/PREFIX>' dev ens192"))
    has_it = Address("ipv4", "192.0.2.7", 24, "global", ("permanent",))
    links = link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci", addresses=(has_it,))
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(*links), counters(1.0, {2: (0, 0), 3: (0, 0)}))
        screen.opener.open_fix(finding(subject="ens192", fixes=(fix,)), fix)
        await wait_until(screen, lambda: bool(screen.app.screen.query(ButtonRow)))
        await screen.press(*"192.0.2.7/24")
        await wait_until(
            screen, lambda: "192.0.2.7 is in use: alma-load-001 ens224" in dialog_text(screen)
        )


@pytest.mark.usefixtures("namespaces")
async def test_an_address_is_filled_in_and_set_and_its_undo_has_it() -> None:
    add, undo = (
        commands(f"ip address {verb} '<ADDRESS/PREFIX>' dev {LINK}") for verb in ("add", "del")
    )
    fix = Fix("here", "Set an address", add, False, undo)
    async with screen_with_changes_in_namespace() as (screen, namespace):
        screen.opener.open_fix(finding(host="vm1", subject=LINK, fixes=(fix,)), fix)
        await wait_until(screen, lambda: bool(screen.app.screen.query(ButtonRow)))
        assert "cannot apply" not in screen.dialog_text()
        await screen.press(*"192.0.2.99/24", "enter")
        await screen.wait_for_stage("prepared")
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Kept: the new values stay")
        assert "192.0.2.99/24" in namespace.run(["ip", "address", "show", "dev", LINK])
    (change,) = read_log(log_path(os.environ)).changes
    assert change.undo == (f"ip address del 192.0.2.99/24 dev {LINK}",)


# ---------------------------------------------------------------------------------- kept, or undone


@pytest.mark.usefixtures("namespaces")
async def test_a_step_that_fails_is_not_ticked(log: Callable[[], list[str]]) -> None:
    """The tick is for the rollback. IPv6 takes an address once, whatever its prefix length."""
    fix = Fix("here", "Set it", commands(f"ip address add 2001:db8::7/64 dev {LINK}"), False)
    async with screen_with_changes_in_namespace() as (screen, namespace):
        namespace.run(["sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"])
        namespace.run(["ip", "address", "add", "2001:db8::7/80", "dev", LINK, "nodad"])
        screen.opener.open_fix(finding(host="vm1", subject=LINK, fixes=(fix,)), fix)
        await screen.wait_for_stage("prepared")
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Rolled back, the previous values are verified")
        text = screen.dialog_text()
        assert "▲ Not applied: ip address add" in text and text.count("ip address add: ") == 1
        assert "verified: " not in text and "✓ Applied" not in text
        assert log() == ["undone"]


@pytest.mark.usefixtures("namespaces")
async def test_a_plan_changes_nothing_until_it_is_applied(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        screen.waits_longest = False
        await screen.prepare_fix()
        words = screen.dialog_text()
        assert f"1. ip link set dev {LINK} mtu 9000" in words
        assert "current mtu 1500" in words
        assert "new mtu 9000" in words
        assert f"rollback ip link set dev {LINK} mtu 1500" in words
        assert (
            "vm1 rolls back automatically after 30 s unless you keep the change, or if the "
            "connection drops." in words
        )
        await screen.press("a", "k", "u", "enter", "enter", "space")  # none of them applies it
        assert read_mtu(namespace) == 1500
        await screen.press("escape")
        await screen.wait_until_closed()
        assert read_mtu(namespace) == 1500
        assert log() == []
        await wait_until(screen, lambda: not screen.nictop.changes.running)


@pytest.mark.usefixtures("namespaces")
async def test_undone_by_a_key(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        assert read_mtu(namespace) == 9000
        await press_button(screen, "Undo now")
        await screen.wait_for_text("✓ Rolled back, the previous values are verified")
        assert read_mtu(namespace) == 1500
        assert log() == ["undone"]
        await press_button(screen, "Close")
        await screen.wait_until_closed()
        assert screen.nictop.changes.progress is None


@pytest.mark.usefixtures("namespaces")
async def test_an_unconfirmed_change_is_rolled_back_and_the_screens_show_it(
    log: Callable[[], list[str]],
) -> None:
    """Five seconds to keep it; meanwhile somebody looks around."""
    async with screen_with_changes_in_namespace(NARROW) as (screen, namespace):
        screen.waits_longest = False
        await screen.prepare_fix()
        await choose_button(screen, "Less: 20 s")
        await screen.press(*["enter"] * 5)
        assert "rolls back automatically after 5 s" in screen.dialog_text()
        await press_button(screen, "More time: 10 s")
        await press_button(screen, "Less: 5 s")
        await press_button(screen, "Apply")
        await screen.wait_for_text("✓ Applied")
        assert "Rolls back in" in screen.dialog_text()
        await screen.press("escape")
        assert shows(screen, LiveScreen)
        assert "keep change?" in screen.drawn()[1]
        await screen.press("f")
        assert shows(screen, HostChangeScreen)
        await screen.press("escape")
        await screen.wait_for_stage("ended")
        assert read_mtu(namespace) == 1500
        assert log() == ["undone"]
        assert "change rolled back (f: details)" in screen.drawn()[1]
        assert any("rolled back, the previous values are verified" in row for row in screen.drawn())
        await screen.press("f")
        await screen.wait_for_text("✓ Rolled back, the previous values are verified")
        await press_button(screen, "Close")
        assert "change rolled back" not in screen.drawn()[1]


@pytest.mark.usefixtures("namespaces")
async def test_the_change_is_opened_from_every_view() -> None:
    """The status line names the key in all of them."""
    async with screen_with_changes_in_namespace(NARROW) as (screen, _):
        await screen.prepare_fix()
        await press_button(screen, "Apply")
        await screen.wait_for_text("✓ Applied")
        for view in "1234567":
            await screen.press("escape", view)
            assert "(f: details)" in screen.drawn()[1], view
            await screen.press("f")
            assert shows(screen, HostChangeScreen), view


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    ("answer", "applied"), [("yes", True), ("y", False), ("no", False), ("", False)]
)
async def test_what_may_cut_the_host_off_is_done_by_the_word_yes_alone(
    answer: str, applied: bool
) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        namespace.run(["ip", "route", "add", "default", "via", "192.0.2.1", "dev", LINK])
        await screen.prepare_fix()
        assert f"▲ the default route uses {LINK}" in screen.dialog_text()
        await screen.press("right", "enter")
        assert "This may disconnect vm1" in screen.dialog_text()
        assert read_mtu(namespace) == 1500
        await screen.press(*answer, "enter", "enter")
        if applied:
            await screen.wait_for_text("✓ Applied")
            assert read_mtu(namespace) == 9000
            await press_button(screen, "Undo now")
            await screen.wait_for_text("✓ Rolled back")
        else:
            assert "This may disconnect vm1" in screen.dialog_text(), (
                "it stays until it is answered or cancelled"
            )
            await screen.press("escape")
            await screen.wait_until_closed()
        assert read_mtu(namespace) == 1500


@pytest.mark.usefixtures("namespaces")
async def test_a_second_change_waits_for_the_first_one() -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        job, progress = screen.nictop.changes.job, screen.nictop.changes.progress
        assert job is not None
        assert progress is not None
        assert (
            screen.nictop.changes.start(job, progress.spec.actions)
            == "another change is in progress"
        )
        await screen.press("escape", "e")
        assert shows(screen, HostChangeScreen), "the set-up dialog gives way to it"
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Kept: the new values stay")
        assert read_mtu(namespace) == 9000


@pytest.mark.usefixtures("namespaces")
async def test_e_opens_the_form_when_the_change_has_ended() -> None:
    async with screen_with_changes_in_namespace() as (screen, _):
        await screen.prepare_fix()
        await press_button(screen, "Apply")
        await screen.wait_for_text("✓ Applied")
        await screen.press("escape")
        screen.nictop.changes.undo()
        await screen.wait_for_stage("ended")
        await screen.press("e")
        assert shows(screen, SetUpScreen)


@pytest.mark.usefixtures("namespaces")
async def test_a_plan_that_is_true_no_more_is_not_applied(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        namespace.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
        await screen.press("right", "enter")
        await screen.wait_for_text("▲ Refused, nothing changed")
        assert read_mtu(namespace) == 1400
        assert log() == ["refused"]


# -------------------------------------------------------------------------- who leaves, who is lost


@pytest.mark.usefixtures("namespaces")
async def test_leaving_nictop_asks_and_undoes(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        await screen.press("q")
        assert shows(screen, LeaveScreen)
        assert "the host rolls it back" in screen.dialog_text()
        await screen.press("enter")
        assert shows(screen, HostChangeScreen), "Cancel is chosen first"
        await screen.pilot.press("q", "left", "enter")
        await wait_until(screen, lambda: read_mtu(namespace) == 1500)
    assert log() == ["unknown"]


@pytest.mark.usefixtures("namespaces")
async def test_dialog_and_status_line_count_the_same_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with screen_with_changes_in_namespace() as (screen, _):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        text = " ".join(screen.dialog_text().split())
        assert "applied mtu 9000" in text and "current" not in text, "something else may change it"
        progress = screen.nictop.changes.progress
        assert progress is not None and progress.deadline is not None
        late = progress.deadline - 3.5  # before the next publication
        monkeypatch.setattr("nictop.tui.app.monotonic", lambda: late)
        (left,) = re.findall(r"Rolls back in (\d+) s", screen.dialog_text())
        assert f"keep change? {left} s" in " ".join(text for text, _ in screen.app.activity())


@pytest.mark.usefixtures("namespaces")
async def test_one_control_c_ends_nictop_and_the_change_is_rolled_back() -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        assert read_mtu(namespace) == 9000
        await screen.pilot.press("ctrl+c")
        assert screen.app._exit
        await wait_until(screen, lambda: read_mtu(namespace) == 1500)


@pytest.mark.usefixtures("namespaces")
async def test_after_leaving_the_old_value_is_there() -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        assert read_mtu(namespace) == 9000
        await screen.nictop.changes.stop()
        wait_for(lambda: read_mtu(namespace) == 1500)


@pytest.mark.usefixtures("namespaces")
async def test_a_probe_that_is_killed(log: Callable[[], list[str]]) -> None:
    """The guard undoes it, and the next probe is asked for what is there."""
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        (pid,) = screen.nictop.hosts.pids
        os.kill(pid, signal.SIGKILL)
        await screen.wait_for_text(
            "✓ Rolled back, the previous values are verified: read after the connection"
        )
        assert read_mtu(namespace) == 1500
        assert log() == ["undone"]


@pytest.mark.usefixtures("namespaces")
async def test_a_host_that_is_watched_no_longer(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        screen.nictop.hosts.add("other=127.0.0.1:1")
        screen.nictop.hosts.remove("vm1")
        await screen.wait_for_text("Result unknown")
        wait_for(lambda: read_mtu(namespace) == 1500)
        assert log() == ["unknown"]


# ------------------------------------------------------------------------------------ what is drawn


@pytest.mark.usefixtures("namespaces")
async def test_what_was_kept_until_the_next_reboot_can_be_made_to_last() -> None:
    """The other fix of the finding; here it is one that the user must run."""
    lasting = Fix(
        "here",
        "keep it by a udev rule",
        commands("echo RULE > /etc/udev/rules.d/90-nic0.rules"),
        persistent=True,
    )
    now = Fix("here", "set it now", commands(f"ip link set dev {LINK} mtu 9000"), False)
    async with screen_with_changes_in_namespace() as (screen, _):
        screen.opener.open_fix(finding(host="vm1", subject=LINK, fixes=(now, lasting)), now)
        await screen.wait_for_stage("prepared")
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Applied")
        await screen.press("right", "enter")
        await screen.wait_for_text("Lost on reboot; to make it persistent")
        assert "keep it by a udev rule" in screen.dialog_text()
        await press_button(screen, "Make persistent")
        assert shows(screen, FixScreen)
        assert "nictop cannot apply this fix: " in screen.dialog_text()


@pytest.mark.parametrize(
    ("where", "peer", "title", "place"),
    [
        ("here", "", "vm2: Set MTU 1500 on ens224", "Run on vm2:"),
        ("peer", "vm1", "On vm1: Set MTU 1500 on ens224 (finding of vm2)", "Run on vm1:"),
        (
            "esxi",
            "",
            "On the ESXi host: Set MTU 1500 on ens224 (finding of vm2)",
            "Run on the ESXi host:",
        ),
    ],
)
async def test_the_title_names_the_host_on_which_it_is_run(
    where: WhereToType, peer: str, title: str, place: str
) -> None:
    by_hand = commands("echo 1500 > /tmp/mtu")
    fix = Fix(where, "Set MTU 1500 on ens224", by_hand, False, peer=peer)
    async with live_screen() as screen:
        screen.opener.open_fix(finding(host="vm2", fixes=(fix,)), fix)
        await screen.settle()
        shown = screen.app.screen
        assert isinstance(shown, FixScreen) and shown.dialog_title == title
        assert place in dialog_text(screen)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_hostile_names_and_small_terminals(size: tuple[int, int], glyphs: Glyphs) -> None:
    """Whatever a host says about its plan is text: no control character and no markup reaches the
    terminal."""
    async with live_screen(size, glyphs=glyphs, allow_changes=True) as screen:
        fix = Fix(
            "here",
            f"set it {HOSTILE}",
            commands("ip link set dev ens192 mtu 9000"),
            False,
            note=HOSTILE,
        )
        await with_finding(screen, fix, subject=HOSTILE)
        await screen.press("f")
        await wait_until(screen, lambda: any(one.change for one in screen.source.requests))
        asked = next(one.change for one in screen.source.requests if one.change)
        undo = (("ip", "link", "set", "dev", HOSTILE, "mtu", "1500"),)
        plan = PlannedAction(asked.actions[0], HOSTILE, HOSTILE, undo, HOSTILE, False, (HOSTILE,))
        await screen.receive(
            Line(
                change=ChangeLine(
                    1.0, asked.id, "prepared", plan=(plan,), fingerprint="f", needs_second_yes=True
                )
            )
        )
        await wait_until(
            screen, lambda: getattr(screen.nictop.changes.progress, "stage", "") == "prepared"
        )
        for keys in ((), ("right", "enter"), (*"yes", "enter")):
            await screen.press(*keys)
            drawn = "\n".join(screen.drawn())
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
            assert not glyphs.is_ascii or size[1] < 10 or drawn.isascii()
            if size == WIDE and keys != ("right", "enter"):
                assert "[red]x[/]" in drawn, "drawn as it is"
        await screen.receive(
            Line(change=ChangeLine(2.0, asked.id, "applied", plan=(plan,), deadline=32.0))
        )
        await screen.receive(Line(change=ChangeLine(3.0, asked.id, "failed", HOSTILE)))
        await screen.receive(Line(change=ChangeLine(4.0, asked.id, "undone", HOSTILE)))
        await wait_until(
            screen, lambda: getattr(screen.nictop.changes.progress, "stage", "") == "ended"
        )
        assert "\x1b" not in "\n".join(screen.drawn())


def keys_line(screen: Screen) -> str:
    """The lower border of the dialog."""
    return next(row for row in screen.drawn() if "Tab Next" in row)


async def test_the_keys_of_a_dialog_say_what_enter_does_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In each stage a button is chosen from its first frame on, and Enter is named after it."""
    monkeypatch.setattr(button_row, "NEW_STAGE_SECONDS", 0.0)
    async with live_screen(WIDE, allow_changes=True) as screen:
        reply = await scripted_change(screen)
        assert "Enter Cancel ·" in keys_line(screen)
        await screen.press("right")
        await screen.settle()
        assert "Enter Apply ·" in keys_line(screen)
        await screen.press("enter")
        for kind, label in (("applying", "Hide"), ("applied", "Hide")):
            await reply(kind)  # type: ignore[arg-type]
            assert f"Enter {label} ·" in keys_line(screen)
            assert any(f"▸{label} ]" in row for row in screen.drawn())
        await press_button(screen, "Keep")
        await reply("kept")
        assert "Enter Close ·" in keys_line(screen)
        assert any("▸Close ]" in row for row in screen.drawn())
        await screen.press("enter")
        assert shows(screen, LiveScreen)


async def test_a_change_that_did_not_hold_is_contradicted_and_not_called_kept(
    namespaces: None, log: Callable[[], list[str]]
) -> None:
    """Somebody sets another MTU while the rollback is counted down."""
    async with screen_with_changes_in_namespace((120, 60), allow_changes=True) as (screen, host):
        await screen.prepare_fix()
        await press_button(screen, "Apply")
        await screen.wait_for_stage("applied")
        await screen.wait_for_text("Applied (verified ")
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1450"])
        await screen.wait_for_text("changed since by something else than nictop (read ")
        text = screen.dialog_text()
        assert f"{LINK}: mtu 1450 instead of mtu " in text and "\u2713 Applied" not in text
        assert "current" not in text.partition(" Applied ")[2]
        await press_button(screen, "Keep")
        await screen.wait_for_stage("ended")
        text = screen.dialog_text()
        assert "Kept, but changed since by something else" in text
        assert f"{LINK}: mtu 1450 instead of mtu " in text and "new values stay" not in text
        assert read_mtu(host) == 1450
        assert log() == ["overridden"]
        await screen.press("escape")
