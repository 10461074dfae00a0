"""The key / on Devices, Queues, CPUs and Findings: rows that pass the filter and those that they
are below; the cursor is on one of them."""

from __future__ import annotations

import pytest

from nictop.model.text.glyphs import ASCII
from nictop.rules import Diagnosis
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.view import FindingList
from nictop.wire.source import SourceState
from tests.cli.commands.test_demo import DEMO
from tests.support.captured import captured_lines
from tests.support.findings import finding
from tests.support.lines import counters, hello, inventory, link
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until

NICS = (
    link(1, "lo", type=772, flags=0x49),
    link(2, "ens192", bus="pci"),
    link(3, "ens224", bus="pci"),
    link(4, "ens224.7", kind="vlan", lower=3),
    link(5, "br0", kind="bridge"),
)


def note(screen: Screen) -> str:
    """The line of the filter."""
    shown = next(one for one in screen.app.screen.query(FilterLine) if one.display)
    return "".join(segment.text for segment in shown.render_line(0))


def titles(screen: Screen) -> list[str]:
    table = screen.app.screen.query_one(DeviceTable)
    return [row.title for row in table._rows]


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_rows_that_pass_and_their_parents(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        await screen.receive(*captured_lines("igb-vfs-vmxnet3-virtio"))
        await screen.press("slash", *"ens224v1")
        assert titles(screen) == ["02:00.0 82576 Gigabit Network Connection", "VF1 ens224v1"]
        assert "└ VF1 ens224v1" in screen.lines()[1]
        assert screen.chosen() == "VF1 ens224v1"
        assert note(screen).split() == ["ens224v1", "1", "of", "7"]
        assert screen.drawn()[-1].split()[:4] == ["Enter", "Keep", "Esc", "Clear"]


async def test_enter_keeps_the_filter_and_escape_clears_it() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        everything = titles(screen)
        await screen.press("slash", *"ens224", "enter")
        assert screen.app.screen.query_one(DeviceTable).has_focus
        assert titles(screen) == ["ens224", "ens224.7"]
        await screen.press("down", "down", "down")
        assert screen.chosen() == "ens224.7"
        await screen.press("escape")
        assert titles(screen) == everything
        assert screen.chosen() == "ens224.7", "the cursor stays on its row"
        assert not screen.app.screen.query_one("#device-filter").display


async def test_an_empty_filter_is_hidden_by_enter() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("slash", "enter")
        assert not screen.app.screen.query_one("#device-filter").display
        assert screen.app.screen.query_one(DeviceTable).has_focus


async def test_the_cursor_is_never_on_a_hidden_row() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("down")
        assert screen.chosen() == "ens224"
        for word, chosen in (
            ("e", "ens224"),
            ("ens19", "ens192"),
            ("ens224.", "ens224.7"),
            ("nothing", None),
        ):
            await screen.press("slash", *word)
            assert screen.chosen() == chosen, word
            await screen.press("escape", "down", "up")
        assert screen.chosen() is not None


async def test_no_matches_and_errors_are_said() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("slash", *"zzz")
        assert screen.lines() == [" No matches (Esc clears the filter)"]
        assert screen.drawn()[2].startswith("   DEVICE")
        assert note(screen).rstrip().endswith("0 of 3")
        await screen.press("ctrl+u", *"speed>")
        assert note(screen).rstrip().endswith("speed> needs a number, e.g. speed>1.5G")
        assert len(screen.lines()) > 1
        assert all(row.isascii() for row in screen.drawn())


async def test_numbers_are_those_of_now() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS), counters(1.0, {2: (0, 0), 3: (0, 0)}))
        await screen.press("slash", *"rx>1M", "enter")
        assert titles(screen) == []
        await screen.receive(counters(2.0, {2: (0, 0), 3: (1_000_000, 0)}))
        assert titles(screen) == ["ens224"]
        assert screen.chosen() == "ens224"
        await screen.receive(counters(3.0, {2: (1_000_000, 0), 3: (1_000_000, 0)}))
        assert titles(screen) == ["ens192"]
        assert screen.chosen() == "ens192"


async def test_hidden_virtual_interfaces_that_pass_are_counted() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("slash", *"br0", "enter")
        assert "Virtual interfaces ▸ 1 hidden (o)" in screen.lines()[0]
        await screen.press("o", "space", "escape")
        assert titles(screen) == ["Virtual interfaces", "br0"]


async def test_only_hidden_virtual_interfaces_pass_once_the_cursor_was_set() -> None:
    """The cursor was on a line that the shorter list does not have."""
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}))
        await screen.show_diagnosis(Diagnosis((), ()))
        await screen.press("down", "slash", *"br0")
        assert "Virtual interfaces ▸ 1 hidden (o)" in screen.lines()[0]
        await screen.press("escape")
        assert len(titles(screen)) > 2


async def test_the_filter_stays_for_another_host_and_in_other_views() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        for number, name in enumerate(("vm1", "vm2")):
            links = [link(2 + number, "ens192", bus="pci"), link(8, "ens224", bus="pci")]
            hosts[name].send(
                SourceState("live"), hello(), inventory(*links), counters(1.0, {2: (0, 0)})
            )
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.settle()
        await screen.press("slash", *"ens192 host:vm", "enter", "right_square_bracket")
        await screen.settle()
        assert "[● vm2]" in screen.drawn()[1]
        assert titles(screen) == ["ens192"]
        await screen.press("2", "right")
        assert screen.chosen() == "ens192"
        await screen.press("1")
        assert note(screen).split()[0] == "ens192"
        await screen.app.open_link("vm1", 8)
        await screen.settle()
        assert screen.chosen() == "ens224", "what is to be shown is not filtered out"
        assert not screen.app.screen.query_one("#device-filter").display


async def test_the_filter_in_a_recording() -> None:
    async with screen_with_replay(DEMO, NARROW, start=37.0) as screen:
        await screen.press("slash", *"virtio", "enter")
        assert titles(screen)[1:] == ["ens256"]
        assert " / Filter " in screen.drawn()[-1]
        await screen.press("escape")
        assert len(titles(screen)) > 2


async def test_filter_of_the_findings() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}))
        found = (
            finding(subject="ens192", title="is slow"),
            finding(subject="ens224", title="is down"),
        )
        await screen.show_diagnosis(Diagnosis(found, ()))
        await screen.press("4", "slash", *"DOWN 224")
        listed = screen.app.screen.query_one(FindingList)
        assert [entry.about for entry in listed.entries] == [found[1]]
        assert listed.chosen == found[1]
        assert note(screen).split()[-3:] == ["1", "of", "2"]
        await screen.press("x")
        assert screen.lines(FindingList) == [" No matches (Esc clears the filter)"]
        await screen.press("escape")
        assert [entry.about for entry in listed.entries] == list(found)
        assert listed.has_focus
        assert isinstance(screen.app.screen, LiveScreen) and screen.app.screen.view == "findings"


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_filter_of_the_queues_and_of_the_cpus(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        await screen.press("right", "right", "2")
        queues = screen.app.screen.query_one(QueueView)
        assert queues._keys == ["0", "1", "2", "3"]
        await screen.press("slash", *"irq:57")
        assert queues._keys == ["3"]
        assert note(screen).split() == ["irq:57", "1", "of", "4"]
        await screen.press("enter")
        assert queues.has_focus and "irq:57" in note(screen)
        await screen.press("3")
        cpus = screen.app.screen.query_one(CpuView)
        assert cpus._keys == ["0", "1", "2", "3"], "the filter of the queues"
        assert not any(one.display for one in screen.app.screen.query(FilterLine))
        await screen.press("slash", *"1-2", "enter")
        assert cpus._keys == ["1", "2"] and cpus.has_focus
        await screen.press("slash", "9")
        assert cpus._keys == [] and any("No matches" in row for row in screen.drawn())
        await screen.press("escape")
        assert cpus._keys == ["0", "1", "2", "3"] and cpus.has_focus
        await screen.press("2")
        assert queues._keys == ["3"], "as it was left"
        await screen.press("escape")
        assert queues._keys == ["0", "1", "2", "3"]
        assert isinstance(screen.app.screen, LiveScreen) and screen.app.screen.view == "queues"
        await screen.press("slash", *"rx>")
        assert "rx> needs a number" in note(screen)
