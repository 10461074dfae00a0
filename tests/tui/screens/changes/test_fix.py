"""Changing a host from its finding: the plan, yes, the countdown, kept or undone; on real hosts of our own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nictop.changes.audit_log import log_path, read_log
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import ChangeLine, Line, PlannedAction
from nictop.rules import Diagnosis, Fix
from nictop.tui.screens.changes.fix import FixScreen
from nictop.tui.screens.changes.screen import HostChangeScreen
from nictop.tui.screens.dialogs.leave import LeaveScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.text_input import TextInput
from nictop.wire.source import SourceState
from tests.support.change_screen import (
    ScreenWithChanges,
    read_mtu,
    screen_with_changes,
    screen_with_changes_in_namespace,
)
from tests.support.changes import LINK
from tests.support.findings import commands, finding, step_texts
from tests.support.lines import counters, hello, inventory, link
from tests.support.namespaces import why_no_namespaces
from tests.support.networkmanager import private_networkmanager, why_no_networkmanager
from tests.support.probe import wait_until as wait_for
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until

SIZES = [WIDE, NARROW, (60, 15), (40, 10), (20, 5), (3, 3)]
JUMBO = Fix("here", "take jumbo frames", commands("ip link set dev ens192 mtu 9000"), False)
HOSTILE = "[red]x[/]\x1b[2J\u202e'$(id)"


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


def page(screen: Screen) -> str:
    return " ".join(ScreenWithChanges(screen.app, screen.source, screen.pilot).dialog_lines().split())


async def with_finding(screen: Screen, fix: Fix, subject: str = "ens192") -> None:
    """The live screen of a scripted host with one finding."""
    await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")), counters(1.0, {2: (0, 0)}))
    await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
    screen.nictop.diagnosis.publish(Diagnosis((finding(subject=subject, fixes=(fix,)),), ()))
    await screen.settle()


# ---------------------------------------------------------------------------------------------- what is not done


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_without_allow_changes_f_says_how_and_asks_the_host_for_nothing(size: tuple[int, int]) -> None:
    """The gate is at the probe; the screen says how it is opened, and offers what it always did."""
    async with live_screen(size) as screen:
        await with_finding(screen, JUMBO)
        await screen.press("f")
        assert shows(screen, FixScreen)
        said = page(screen)
        assert "started without --allow-changes" in said
        assert "nictop --allow-changes" in said
        assert "allow_changes = true below [hosts.alma-load-001]" in said
        assert str(JUMBO.commands[0]) in said
        await screen.press("y")
        assert screen.app.clipboard == "\n".join(step_texts(JUMBO.commands))
        await screen.press("escape")
        assert shows(screen, LiveScreen)
        assert not [one for one in screen.source.requests if one.change is not None]


async def test_what_is_typed_elsewhere_is_not_done_from_here() -> None:
    async with live_screen(NARROW) as screen:
        await with_finding(screen, Fix("esxi", "give it a queue", commands("esxcli network nic list")))
        await screen.press("f")
        assert "nictop does not do this by itself: it is typed on the ESXi host." in page(screen)
        await screen.press("enter")
        assert shows(screen, LiveScreen)


async def test_f_is_not_offered_where_there_is_nothing_to_type() -> None:
    async with live_screen(WIDE) as screen:
        await with_finding(screen, JUMBO)
        assert screen.app.screen.check_action("fix", ()) is True
        screen.nictop.diagnosis.publish(Diagnosis((), ()))
        await screen.settle()
        assert screen.app.screen.check_action("fix", ()) is False


async def test_a_host_that_is_away_is_not_asked() -> None:
    async with live_screen(WIDE, allow_changes=True) as screen:
        await with_finding(screen, JUMBO)
        await screen.receive(SourceState("lost", "the network is gone", 4.0))
        await screen.press("f")
        assert shows(screen, LiveScreen)
        assert any("alma-load-001 is not live: lost" in row for row in screen.drawn())
        assert not [one for one in screen.source.requests if one.change is not None]


# ------------------------------------------------------------------------------------------- a real NetworkManager


@pytest.fixture
def networkmanager() -> None:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")


@pytest.mark.usefixtures("networkmanager")
async def test_the_wired_connection_gets_its_name_and_its_address(log: Callable[[], list[str]]) -> None:
    """The case that started nictop, from the key f to a finding that is gone."""
    with private_networkmanager("ens37") as manager:
        manager.wait_for(lambda: manager.device_state("ens37") >= 40)
        async with screen_with_changes(manager.prefix) as screen:
            await wait_until(screen, lambda: bool(getattr(screen.nictop.diagnosis.result, "findings", ())))
            await screen.press("f")
            assert shows(screen, FixScreen)
            assert "<ADDRESS/PREFIX>: an address with its prefix length" in screen.dialog_text()
            await screen.press(*"192.0.2.300/24", "enter")
            assert "'192.0.2.300/24' is not an address with its prefix length" in screen.dialog_text()
            screen.app.screen.query_one(TextInput).value = ""
            await screen.press(*"192.0.2.10/24", "enter")
            await screen.wait_for_stage("prepared")
            words = screen.dialog_text()
            assert "then ipv4.method manual ipv4.addresses 192.0.2.10/24" in words
            assert "▲ reconfigures ens37: short traffic interruption" in words
            assert "192.0.2.10" not in manager.namespace.run(["ip", "address"])
            await screen.press("a")
            await screen.wait_for_text("✓ applied, and read back")
            await screen.wait_for_text("✓ the host still answers")
            await screen.wait_for_text("✓ the finding is gone")
            assert "192.0.2.10/24" in manager.namespace.run(["ip", "address", "show", "dev", "ens37"])
            assert log() == ["begun"]
            await screen.press("k")
            await screen.wait_for_text("✓ kept: the new values stay")
            assert log() == ["kept"]
            await screen.press("enter")
            assert shows(screen, LiveScreen)
        assert manager.nmcli("-g", "GENERAL.CONNECTION", "device", "show", "ens37").strip() == "ens37"
        assert "192.0.2.10/24" in manager.namespace.run(["ip", "address", "show", "dev", "ens37"])


# ---------------------------------------------------------------------------------------------- kept, or undone


@pytest.mark.usefixtures("namespaces")
async def test_a_plan_changes_nothing_until_it_is_applied(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        screen.waits_longest = False
        await screen.prepare_fix()
        words = screen.dialog_text()
        assert f"1. ip link set dev {LINK} mtu 9000" in words
        assert "now mtu 1500" in words
        assert "then mtu 9000" in words
        assert f"undo ip link set dev {LINK} mtu 1500" in words
        assert "vm1 takes it back by itself unless you keep it within 30 s" in words
        await screen.press("k", "u", "enter")  # none of them is yes
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
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        assert read_mtu(namespace) == 9000
        await screen.press("u")
        await screen.wait_for_text("✓ undone: the old values have been read back")
        assert read_mtu(namespace) == 1500
        assert log() == ["undone"]
        await screen.press("enter")
        await screen.wait_until_closed()
        assert screen.nictop.changes.progress is None


@pytest.mark.usefixtures("namespaces")
async def test_the_host_undoes_what_nobody_keeps_and_the_screens_tell_it(log: Callable[[], list[str]]) -> None:
    """Five seconds to keep it; meanwhile somebody looks around."""
    async with screen_with_changes_in_namespace(NARROW) as (screen, namespace):
        screen.waits_longest = False
        await screen.prepare_fix()
        await screen.press(*["minus"] * 5)
        assert "unless you keep it within 5 s" in screen.dialog_text()
        await screen.press("plus", "minus", "a")
        await screen.wait_for_text("✓ applied, and read back")
        assert "vm1 takes it back by itself in" in screen.dialog_text()
        await screen.press("escape")
        assert shows(screen, LiveScreen)
        assert "keep the change?" in screen.drawn()[0]
        await screen.press("f")
        assert shows(screen, HostChangeScreen)
        await screen.press("escape")
        await screen.wait_for_stage("ended")
        assert read_mtu(namespace) == 1500
        assert log() == ["undone"]
        assert "change undone: f" in screen.drawn()[0]
        assert any("undone: the old values have been read back" in row for row in screen.drawn())
        await screen.press("f")
        await screen.wait_for_text("✓ undone: the old values have been read back")
        await screen.press("enter")
        assert "change undone" not in screen.drawn()[0]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(("answer", "applied"), [("yes", True), ("y", False), ("no", False), ("", False)])
async def test_what_may_cut_the_host_off_is_done_by_the_word_yes_alone(answer: str, applied: bool) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        namespace.run(["ip", "route", "add", "default", "via", "192.0.2.1", "dev", LINK])
        await screen.prepare_fix()
        assert f"▲ the default route goes over {LINK}" in screen.dialog_text()
        await screen.press("a")
        assert "this may cut vm1 off" in screen.dialog_text()
        assert read_mtu(namespace) == 1500
        await screen.press(*answer, "enter")
        if applied:
            await screen.wait_for_text("✓ applied, and read back")
            assert read_mtu(namespace) == 9000
            await screen.press("u")
            await screen.wait_for_text("✓ undone")
        else:
            await screen.wait_until_closed()
        assert read_mtu(namespace) == 1500


@pytest.mark.usefixtures("namespaces")
async def test_a_second_change_waits_for_the_first_one() -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        job, progress = screen.nictop.changes.job, screen.nictop.changes.progress
        assert job is not None
        assert progress is not None
        assert screen.nictop.changes.start(job, progress.spec.actions) == "a change goes on already"
        await screen.press("escape", "c")
        assert shows(screen, HostChangeScreen), "the set-up dialog gives way to it"
        await screen.press("k")
        await screen.wait_for_text("✓ kept: the new values stay")
        assert read_mtu(namespace) == 9000


@pytest.mark.usefixtures("namespaces")
async def test_a_plan_that_is_true_no_more_is_not_applied(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        namespace.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
        await screen.press("a")
        await screen.wait_for_text("▲ refused, and nothing was changed")
        assert read_mtu(namespace) == 1400
        assert log() == ["refused"]


# ------------------------------------------------------------------------------------------- who leaves, who is lost


@pytest.mark.usefixtures("namespaces")
async def test_leaving_nictop_asks_and_undoes(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        await screen.press("ctrl+c")
        assert shows(screen, LeaveScreen)
        assert "the host takes it back by itself" in screen.dialog_text()
        await screen.press("escape")
        assert shows(screen, HostChangeScreen)
        await screen.pilot.press("ctrl+c", "enter")
        await wait_until(screen, lambda: read_mtu(namespace) == 1500)
    assert log() == ["unknown"]


@pytest.mark.usefixtures("namespaces")
async def test_after_leaving_the_old_value_is_there() -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        assert read_mtu(namespace) == 9000
        await screen.nictop.changes.stop()
        wait_for(lambda: read_mtu(namespace) == 1500)


@pytest.mark.usefixtures("namespaces")
async def test_a_probe_that_is_killed(log: Callable[[], list[str]]) -> None:
    """The guard undoes it, and the next probe is asked for what is there."""
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        (pid,) = screen.nictop.hosts.pids
        os.kill(pid, signal.SIGKILL)
        await screen.wait_for_text("✓ undone: the old values have been read back: read back after the connection")
        assert read_mtu(namespace) == 1500
        assert log() == ["undone"]


@pytest.mark.usefixtures("namespaces")
async def test_a_host_that_is_watched_no_longer(log: Callable[[], list[str]]) -> None:
    async with screen_with_changes_in_namespace() as (screen, namespace):
        await screen.prepare_fix()
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        screen.nictop.hosts.add("other=127.0.0.1:1")
        screen.nictop.hosts.remove("vm1")
        await screen.wait_for_text("how it has ended is not known")
        wait_for(lambda: read_mtu(namespace) == 1500)
        assert log() == ["unknown"]


# ------------------------------------------------------------------------------------------------- what is drawn


@pytest.mark.usefixtures("namespaces")
async def test_what_was_kept_until_the_next_reboot_can_be_made_to_last() -> None:
    """The rule's other fix, by the key l: here it is one that somebody must type."""
    lasting = Fix(
        "here", "keep it by a udev rule", commands("echo RULE > /etc/udev/rules.d/90-nic0.rules"), persistent=True
    )
    now = Fix("here", "set it now", commands(f"ip link set dev {LINK} mtu 9000"), False)
    async with screen_with_changes_in_namespace() as (screen, _):
        screen.opener.open_fix(finding(host="vm1", subject=LINK, fixes=(now, lasting)), now)
        await screen.wait_for_stage("prepared")
        await screen.press("a")
        await screen.wait_for_text("✓ applied, and read back")
        await screen.press("k")
        await screen.wait_for_text("Gone after the next reboot; to make it last")
        assert "keep it by a udev rule" in screen.dialog_text()
        await screen.press("l")
        assert shows(screen, FixScreen)
        assert "nictop does not do this by itself: " in screen.dialog_text()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_hostile_names_and_small_terminals(size: tuple[int, int], glyphs: Glyphs) -> None:
    """Whatever a host says about its plan is text: no control character and no markup reaches the terminal."""
    async with live_screen(size, glyphs=glyphs, allow_changes=True) as screen:
        fix = Fix("here", f"set it {HOSTILE}", commands("ip link set dev ens192 mtu 9000"), False, note=HOSTILE)
        await with_finding(screen, fix, subject=HOSTILE)
        await screen.press("f")
        await wait_until(screen, lambda: any(one.change for one in screen.source.requests))
        asked = next(one.change for one in screen.source.requests if one.change)
        undo = (("ip", "link", "set", "dev", HOSTILE, "mtu", "1500"),)
        plan = PlannedAction(asked.actions[0], HOSTILE, HOSTILE, undo, HOSTILE, False, (HOSTILE,))
        await screen.receive(
            Line(change=ChangeLine(1.0, asked.id, "prepared", plan=(plan,), fingerprint="f", needs_second_yes=True))
        )
        await wait_until(screen, lambda: getattr(screen.nictop.changes.progress, "stage", "") == "prepared")
        for keys in ((), ("a",), (*"yes", "enter")):
            await screen.press(*keys)
            drawn = "\n".join(screen.drawn())
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
            assert not glyphs.is_ascii or size[1] < 10 or drawn.isascii()
            if size == WIDE and keys != ("a",):
                assert "[red]x[/]" in drawn, "drawn as it is"
        await screen.receive(Line(change=ChangeLine(2.0, asked.id, "applied", plan=(plan,), deadline=32.0)))
        await screen.receive(Line(change=ChangeLine(3.0, asked.id, "failed", HOSTILE)))
        await screen.receive(Line(change=ChangeLine(4.0, asked.id, "undone", HOSTILE)))
        await wait_until(screen, lambda: getattr(screen.nictop.changes.progress, "stage", "") == "ended")
        assert "\x1b" not in "\n".join(screen.drawn())
