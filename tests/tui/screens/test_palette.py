"""The palette: what it lists, on any terminal, and that all of it works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual._callback import invoke
from textual.command import CommandList, Hit

from nictop.model.text.glyphs import ASCII
from nictop.tui.keys import TABS, checked_keymap
from nictop.tui.palette import NictopCommands, Palette, PaletteEntry
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.table import DeviceTable
from tests.cli.commands.test_demo import DEMO
from tests.support.lines import hello, inventory, link
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until

NICS = (link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci"))


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def commands(screen: Screen) -> list[PaletteEntry]:
    return list(NictopCommands(screen.app.screen)._commands())


@pytest.mark.parametrize("typed", ["", "devices", "zzzz"])
async def test_an_ascii_console_gets_only_ascii(typed: str) -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("colon", *typed)
        assert isinstance(screen.app.screen, Palette)
        await wait_until(screen, lambda: screen.app.screen.query_one(CommandList).option_count > 0)
        assert [row for row in screen.drawn() if not row.isascii()] == []


async def test_every_view_host_and_interface_is_listed_once() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        for number in range(1, 8):
            await screen.press(str(number))
            found = [command.text for command in commands(screen)]
            assert len(found) == len(set(found)), number
            wanted = {f"View: {tab.label}" for tab in TABS}
            host = screen.nictop.hosts.chosen
            wanted |= {
                f"Host: Show {host}",
                *(f"Interface: Show {name} on {host}" for name in ("ens192", "ens224")),
            }
            wanted |= {
                "Devices: Filter",
                "Findings: Filter",
                "Hosts: Filter",
                "Display: Read more often",
            }
            wanted |= {"Report: Write report", "Recording: Start recording", "Program: Quit"}
            assert wanted - set(found) == set(), number


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("record", "Recording: Start recording"),
        ("report", "Report: Write report"),
        ("sort", "Devices: Sort interfaces"),
        ("mark", "Results: Mark A/B"),
        ("interval", "Display: Read more often"),
        ("compare", "Results: Mark A/B"),
    ],
)
async def test_commands_are_found_by_their_text_and_their_help(typed: str, wanted: str) -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        hits = [hit async for hit in NictopCommands(screen.app.screen).search(typed)]
        assert isinstance(hits[0], Hit)
        best = max((hit for hit in hits if isinstance(hit, Hit)), key=lambda hit: hit.score)
        assert best.text == wanted


async def test_go_to_time_is_found_in_a_recording() -> None:
    async with screen_with_replay(DEMO, NARROW, start=37.0) as screen:
        found = [hit.text async for hit in NictopCommands(screen.app.screen).search("go to time")]
        assert "Recording: Go to time" in found


async def test_a_recording_without_all_interrupts_does_not_offer_them_and_its_key_says_so() -> None:
    async with screen_with_replay(DEMO, NARROW, start=37.0) as screen:
        offered = "CPUs: Show or hide all interrupts"
        assert offered not in [command.text for command in commands(screen)]
        await screen.press("3")
        assert "o View" not in screen.drawn()[-1]
        await screen.press("o")
        assert any("only the interrupts of NICs" in one for one in screen.notifications())
    async with live_screen() as screen:
        assert offered in [command.text for command in commands(screen)]


async def test_a_test_of_a_path_where_there_is_none_and_a_mark_of_no_result_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with live_screen() as screen:
        for text, words in (
            ("Traffic: Test the path", "Not tested: "),
            ("Results: Mark A/B", "No result to mark"),
        ):
            command = next(one for one in commands(screen) if one.text == text)
            await invoke(command.run)
            await screen.settle()
            assert any(words in row for row in screen.drawn()), text


async def test_every_command_is_described_in_words() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        for command in commands(screen):
            described = command.help.partition("  ")[2] or len(command.help) > 1
            assert described or command.text.startswith(("View:", "Program:")), command


async def test_keys_of_the_configuration_are_shown() -> None:
    keys = {
        "cpus": "f3",
        "options": "v",
        "filter": "ctrl+f",
        "record": "f7",
        "faster": "p",
        "quit": "ctrl+q",
        "open": "x",
    }
    wanted = {
        "View: CPUs": "f3",
        "Devices: Show packets or bits": "v",
        "Hosts: Filter": "ctrl+f",
        "Recording: Start recording": "f7",
        "Display: Read more often": "p",
        "Program: Quit": "ctrl+q",
        "Devices: Open": "x",
        "Display: Pause or resume": "Space",
    }
    async with live_screen(NARROW) as screen:
        screen.app.set_keymap(checked_keymap(keys, "config.toml"))
        await screen.receive(hello(), inventory(*NICS))
        found = {command.text: command.help.partition("  ")[0] for command in commands(screen)}
        assert {text: found[text] for text in wanted} == wanted
        assert "Devices: View" not in found


async def test_one_key_is_one_command_of_a_view() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        found = [command.text for command in commands(screen)]
        assert "Devices: View" not in found and "Devices: Show packets or bits" in found
        assert "Devices: Pause" not in found and "Display: Pause or resume" in found


async def test_all_that_is_offered_in_a_recording_works() -> None:
    async with screen_with_replay(DEMO, NARROW, start=37.0) as screen:
        texts = [command.text for command in commands(screen)]
        assert not {"Devices: Set up", "Devices: Apply fix", "Recording: Start recording"} & set(
            texts
        )
        for text in texts:
            if text.startswith(
                ("Program: Quit", "Interface:", "Recording: Next", "Recording: Previous")
            ):
                continue
            await screen.press("1")
            command = next(one for one in commands(screen) if one.text == text)
            await invoke(command.run)
            await screen.settle()
            assert not [one for one in screen.notifications() if "Not available" in one], text
            while not isinstance(screen.app.screen, FramedScreen):
                await screen.press("escape")
            while screen.app.screen.types:
                await screen.press("escape")


async def best(screen: Screen, typed: str) -> str:
    hits = [hit async for hit in NictopCommands(screen.app.screen).search(typed)]
    best = max((hit for hit in hits if isinstance(hit, Hit)), key=lambda hit: hit.score)
    assert best.text is not None
    return best.text


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("nic", "View: Devices"),
        ("nic ens224", "Interface: Show ens224 on guest"),
        ("ens224", "Interface: Show ens224 on guest"),
        ("find", "View: Findings"),
        ("FIND", "View: Findings"),
        ("dev", "View: Devices"),
        ("host", "View: Hosts"),
        ("traf", "View: Traffic"),
        ("sort drops", "Devices: Sort by drops"),
        ("sort drops/s", "Devices: Sort by drops/s"),
        ("hosts sort drops", "Hosts: Sort by drops"),
        ("filter cpus", "CPUs: Filter"),
        ("quit", "Program: Quit"),
        ("own", "Traffic: Measure a command"),
        ("own command", "Traffic: Measure a command"),
        ("measure flows", "Traffic: Measure what flows now"),
        ("foreign", "Traffic: Test against a host without a login"),
        ("iperf3", "Traffic: Test against a host without a login"),
        ("self", "Traffic: Start self-test"),
        ("firewall", "Traffic: Test the path"),
        ("rollback", "Change: Undo a kept change"),
        ("refresh", "Devices: Read inventory again"),
        ("faster", "Display: Read more often"),
        ("exit", "Program: Quit"),
        ("html", "Report: Write report"),
        ("delete", "Hosts: Add, remove or reconnect host"),
        ("show help", "Program: Show help"),
    ],
)
async def test_the_first_entry_is_the_one_whose_words_are_typed(typed: str, wanted: str) -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        assert (await best(screen, typed)).replace(screen.nictop.hosts.chosen, "guest") == wanted


async def test_sort_drops_sorts_by_drops() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))

        def orders() -> list[tuple[str, bool]]:
            shown = screen.app.screen
            tables = (*shown.query(DeviceTable), *shown.query(OverviewTable))
            return [(one.order.column, one.order.descending) for one in tables]

        for key in ("7", "5"):  # not a view that can be sorted; one that can
            await screen.press(key, "colon", *"sort drops", "enter")
            await wait_until(screen, lambda: orders() == [("drops", True)])


async def test_enter_right_behind_the_last_letter_is_for_all_that_was_typed() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        for typed, tab in (
            ("find", "findings"),
            ("traf", "traffic"),
            ("cpus", "cpus"),
            ("nic", "devices"),
        ):
            await screen.pilot.press("colon")
            for letter in typed:
                screen.app.simulate_key(letter)
            screen.app.simulate_key("enter")
            await wait_until(screen, lambda: getattr(screen.app.screen, "tab", "") == tab)  # noqa: B023


@pytest.mark.parametrize("size", [NARROW, WIDE, (40, 12)])
async def test_an_entry_is_one_line(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("colon")
        await wait_until(screen, lambda: screen.app.screen.query_one(CommandList).option_count > 0)
        rows = [row.strip() for row in screen.drawn()]
        first = next(number for number, row in enumerate(rows) if row.startswith("Devices:"))
        for row in rows[first : first + 5]:
            assert re.match(r"[A-Z][A-Za-z]+: [A-Z]", row), row
        assert size[0] < 80 or re.search(
            r"Devices: Open +Enter  the selected interface", "\n".join(rows)
        )


async def test_the_filters_are_explained() -> None:
    async with live_screen(WIDE) as screen:
        found = {command.text: command.help for command in commands(screen)}
        wanted = {
            "Devices": "speed>10G",
            "Hosts": "driver:igb",
            "Queues": "rx>1000",
            "CPUs": "busy>50",
        }
        for area, word in wanted.items():
            assert word in found[f"{area}: Filter"]
