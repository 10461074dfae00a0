"""Two interfaces or hosts are marked as A and B, and what differs between them is shown."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.model.text.glyphs import ASCII
from nictop.report.diff.document import NOT_BETWEEN
from nictop.rules import diagnose
from nictop.tui.controllers.marks import Marked, Marks
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.live.diff import DiffScreen
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, host_facts
from tests.support.screen import (
    NARROW,
    WIDE,
    Screen,
    ScriptedHosts,
    screen_with_hosts,
    wait_until,
)
from tests.tui.screens.test_look_back import go_back, shows_past, watched


async def two_hosts(screen: Screen, hosts: ScriptedHosts) -> None:
    """Whose ens192 have another MTU."""
    for name, mtu in (("vm1", 1500), ("vm2", 9000)):
        hosts[name].send(
            SourceState("live"),
            replace(hello(), hello=replace(hello().hello, hostname=name, boot_id=name)),  # type: ignore[type-var]
            inventory(
                link(2, "ens192", mtu=mtu, bus="pci"), link(3, "ens224", bus="pci"), time=1.0
            ),
            counters(1.0, {2: (0, 0), 3: (0, 0)}),
            counters(2.0, {2: (0, 0), 3: (0, 0)}),
        )
    await wait_until(
        screen,
        lambda: (
            screen.nictop.diagnosis.result is not None
            and set(screen.nictop.diagnosis.result.hosts) == {"vm1", "vm2"}
        ),
    )
    await screen.settle()


def dialog_text(screen: Screen) -> str:
    view = screen.app.screen.query_one("#dialog-text", LineWidget)
    return "\n".join("".join(text for text, _ in line) for line in view.lines)


def status(screen: Screen) -> str:
    return "".join(text for text, _ in screen.app.screen.query_one(StatusLine).lines[0])


async def test_two_interfaces_of_two_hosts_are_compared_by_one_key() -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        await two_hosts(screen, hosts)
        await screen.press("m")
        assert " A: vm1:ens192 " in status(screen)
        assert any("m on another interface" in one.message for one in screen.app._notifications)
        await screen.press("]", "m")
        assert isinstance(screen.app.screen, DiffScreen)
        assert not screen.app._notifications  # that B is wanted
        text = dialog_text(screen)
        assert text.splitlines()[0].strip() == "vm1:ens192 · vm2:ens192"
        assert "Link: MTU" in text and "9000 bytes" in text and "1500 bytes" in text
        assert "All lists them" in text
        await screen.press("escape")
        assert isinstance(screen.app.screen, LiveScreen) and " A: " not in status(screen)


async def test_two_hosts_are_compared_and_swapped() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await two_hosts(screen, hosts)
        await screen.press("5", "m", "down", "m")
        assert isinstance(screen.app.screen, DiffScreen)
        assert dialog_text(screen).splitlines()[0].strip() == "vm1 · vm2"
        await screen.app.screen.run_action("swap")
        assert dialog_text(screen).splitlines()[0].strip() == "vm2 · vm1"
        before = len(dialog_text(screen).splitlines())
        await screen.app.screen.run_action("toggle_all")
        assert len(dialog_text(screen).splitlines()) > before
        await screen.press("escape")
        assert isinstance(screen.app.screen, HostsScreen)


async def test_the_same_twice_is_no_mark_and_another_kind_is_a_new_one() -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        await two_hosts(screen, hosts)
        await screen.press("m", "m")
        assert " A: " not in status(screen) and not screen.app._notifications
        await screen.press("m", "5", "m")
        first = screen.nictop.marks.first
        assert first is not None and first.name == "vm1"


async def test_a_host_that_is_not_read_cannot_be_marked() -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, _):
        await screen.press("5", "m")
        assert screen.nictop.marks.first is None
        messages = [one.message for one in screen.app._notifications]
        assert messages == ["vm1: interfaces are not read yet."]


@pytest.mark.parametrize(("moment", "is_shown"), [("", True), ("14:03:20", False)])
async def test_what_is_between_both_hosts_is_shown(moment: str, is_shown: bool) -> None:
    """Of another time it is not known."""
    path = CASES_DIRECTORY / "link/ip_address_is_on_two_hosts.json"
    case = json.loads(path.read_text())["fires"][0]
    facts = [host_facts(host) for host in case["hosts"]]
    diagnosis = diagnose(facts)
    left, right = (Marked(one.name, "", "", one.snapshot, diagnosis) for one in facts)
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, _):
        screen.app.open_diff(left, replace(right, moment=moment))
        await screen.settle()
        text = dialog_text(screen)
        assert ("findings between both hosts" in text) is is_shown
        assert (NOT_BETWEEN in text) is not is_shown


async def test_findings_are_not_compared_before_the_checks() -> None:
    """All of those of the other side would seem to be missing here."""
    async with screen_with_hosts("vm1", "vm2", size=WIDE, glyphs=ASCII) as (screen, hosts):
        await two_hosts(screen, hosts)
        left, right = (
            Marked(name, "", "", screen.nictop.hosts.by_name[name].snapshot, found)
            for name, found in (("vm1", screen.nictop.diagnosis.result), ("vm2", None))
        )
        screen.app.open_diff(left, right)
        await screen.settle()
        text = dialog_text(screen)
        assert text.startswith("Findings are not compared: the checks have not run yet on vm2.")
        assert "findings of one side" not in text and text.isascii()


async def test_the_difference_is_saved_as_a_page(tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        await two_hosts(screen, hosts)
        await screen.press("m", "]", "m")
        await screen.app.screen.run_action("save")
        await screen.settle()
        entry = screen.app.screen
        assert isinstance(entry, LineEntry)
        entry.query_one(TextInput).value = str(path)
        await screen.press("enter")
        await wait_until(screen, lambda: isinstance(screen.app.screen, DiffScreen))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    page = path.read_text()
    assert page.startswith("<!DOCTYPE html>") and "vm2:ens192" in page and "9000 bytes" in page


async def test_what_was_two_minutes_ago_is_compared_with_now() -> None:
    async with watched("vm1", size=WIDE) as (screen, _):
        await go_back(screen, "pageup")
        screen.app.screen.query_one(DeviceTable).choose_link(2)
        await screen.press("m", "g")
        await wait_until(screen, lambda: not shows_past(screen))
        assert screen.nictop.marks.first is not None
        assert screen.nictop.marks.first.name.startswith("vm1:ens192 at ")
        screen.app.screen.query_one(DeviceTable).choose_link(2)
        await screen.press("m")
        assert isinstance(screen.app.screen, DiffScreen)
        assert " at " in dialog_text(screen).splitlines()[0]


def test_a_second_mark_ends_the_first() -> None:
    marks, snapshot = Marks(), None
    first = Marked("a", "x", "", snapshot, None)  # type: ignore[arg-type]
    second = replace(first, host="b")
    assert marks.mark(first) is None and marks.mark(second) is first
    marks.mark(first)
    marks.forget()
    assert marks.first is None
