"""The live screen, driven by keys: what a tired person on a console relies on."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from nictop.app import NictopApp, wants_ascii
from nictop.probe.records import Request
from nictop.widgets.device_table import DeviceTable
from nictop.widgets.link_panel import FactsView, TrafficChart
from nictop.widgets.processors import ProcessorStrip
from nictop.wire.local import LocalSource
from nictop.wire.source import SourceState
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live, wait_until
from tests.support.sources import ScriptedSource

NICS = (link(1, "lo", type=772, flags=0x49), link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci"))


async def test_the_answer_is_there_without_a_key() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000_000, 0)}))
        (line,) = [line for line in screen.lines() if "ens192" in line]
        assert "1.00 G" in line
        assert screen.chosen() == "ens192"
        assert "1.00 Gb/s" in screen.lines(TrafficChart)[0]
        assert any("1500" in line for line in screen.lines(FactsView))


async def test_before_the_first_line_the_screen_says_what_it_waits_for() -> None:
    async with live() as screen:
        await screen.hear(SourceState("connecting", ""))
        assert any("connecting" in row for row in screen.drawn())
        assert "no inventory yet" in screen.lines()[0]


async def test_moving_asks_the_probe_to_watch_that_device() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS))
        assert screen.source.requests[-1] == Request(watch=(2,))
        await screen.press("down")
        assert screen.chosen() == "ens224"
        assert screen.source.requests[-1] == Request(watch=(3,))
        await screen.press("k")
        assert screen.chosen() == "ens192"


async def test_the_cursor_stays_with_its_device() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS))
        await screen.press("down")
        await screen.hear(inventory(*NICS, link(9, "ens100", bus="pci"), time=2.0), change(1, "lo", time=3.0))
        assert screen.chosen() == "ens224"
        await screen.hear(change(3, "wan0", time=4.0))
        assert screen.chosen() == "wan0"


async def test_a_device_that_vanishes_under_the_cursor_leaves_it_in_place() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS))
        await screen.press("down")
        await screen.hear(gone(3, "ens224"))
        assert not any("ens224" in line for line in screen.lines())
        assert screen.chosen() is not None
        await screen.press("down", "up")


async def test_a_new_device_and_a_lost_carrier_show_before_the_inventory() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS), change(7, "ens161"), change(3, "ens224", carrier=False))
        assert any("ens161" in line for line in screen.lines())
        (line,) = [line for line in screen.lines() if "ens224" in line]
        assert "▽" in line


async def test_freeze_keeps_the_picture_and_the_history_goes_on() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000, 0)}))
        await screen.press("space")
        frozen = screen.lines()
        await screen.hear(counters(3.0, {2: (125_000_000, 0)}))
        assert screen.lines() == frozen
        assert any("FROZEN" in row for row in screen.drawn())
        assert len(screen.app.history.series(("rx_bits", 2))) == 2
        await screen.press("space")
        assert screen.lines() != frozen
        assert not any("FROZEN" in row for row in screen.drawn())


async def test_packets_instead_of_bits() -> None:
    async with live(NARROW) as screen:
        await screen.hear(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000_000, 0)}))
        await screen.press("p")
        (line,) = [line for line in screen.lines() if "ens192" in line]
        assert "125 k" in line
        assert "1.00 G" not in line


async def test_links_without_a_device_can_be_hidden() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS, link(5, "veth0", kind="veth")))
        assert any("veth0" in line for line in screen.lines())
        await screen.press("v")
        assert not any("veth0" in line for line in screen.lines())
        await screen.press("v")
        assert any("veth0" in line for line in screen.lines())


async def test_enter_gives_the_device_the_screen_and_escape_takes_it_back() -> None:
    async with live(NARROW) as screen:
        await screen.hear(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (0, 0)}))
        await screen.press("enter")
        assert not screen.app.screen.query_one(DeviceTable).display
        assert screen.app.screen.query_one(FactsView).size.height > 10
        await screen.press("escape")
        assert screen.app.screen.query_one(DeviceTable).display
        assert screen.app.screen.query_one(DeviceTable).has_focus


async def test_update_and_interval_are_asked_of_the_probe() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS))
        await screen.press("u", "plus", "minus", "minus")
        assert screen.source.requests[-4:] == [
            Request(inventory=True),
            Request(interval=0.5),
            Request(interval=1.0),
            Request(interval=2.0),
        ]


async def test_a_lost_host_is_said_and_its_last_values_stay() -> None:
    async with live() as screen:
        await screen.hear(hello(), inventory(*NICS), SourceState("lost", "the probe ended with signal 9", 2.0))
        assert "the probe ended with signal 9" in str(screen.app.screen.query_one("#banner", Static).content)
        assert any("ens192" in line for line in screen.lines())
        await screen.hear(hello())
        assert not screen.app.screen.query_one("#banner", Static).display


@pytest.mark.parametrize("size", [WIDE, NARROW, (200, 60), (60, 15), (40, 10), (20, 5), (3, 3)])
async def test_any_size_draws(size: tuple[int, int]) -> None:
    async with live() as screen:
        cpus = [(1, 0, 1, 10, 0, 0, 0, 0, 0, 0)] * 4
        await screen.hear(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}, cpus))
        await screen.pilot.resize_terminal(*size)
        await screen.hear(counters(2.0, {2: (125_000, 0)}, [(9, 0, 2, 99, 0, 0, 0, 0, 0, 0)] * 4))
        await screen.press("enter", "down", "escape", "down")
        assert screen.drawn()


HOSTILE = ("[red]x[/]", "tap[/x]", "a\x1b[2Jb", "é漢字", "\u202egnp", "x" * 40, "[", "'\"$(id)")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_no_name_is_obeyed(name: str, size: tuple[int, int]) -> None:
    async with live(size) as screen:
        await screen.hear(hello(), inventory(link(2, name, bus="pci", alias=name, altnames=(name,))))
        await screen.hear(SourceState("lost", f"trouble with {name}", 1.0))
        drawn = "".join(screen.drawn())
        assert "\x1b" not in drawn
        assert "\u202e" not in drawn
        shown = {"a\x1b[2Jb": r"a\x1b[2Jb", "\u202egnp": r"\u202egnp", "x" * 40: "xxxx"}.get(name, name)
        assert shown in drawn
        await screen.press("enter", "escape", "question_mark", "escape")


async def test_an_ascii_console_gets_only_ascii() -> None:
    async with live(NARROW, ascii_only=True) as screen:
        cpus = [(1, 0, 1, 10, 0, 0, 0, 0, 0, 0)] * 2
        await screen.hear(hello(), inventory(*NICS, link(4, "漢")), counters(1.0, {2: (0, 0)}, cpus))
        await screen.hear(counters(2.0, {2: (125_000, 5_000)}, [(9, 0, 2, 99, 0, 0, 9, 9, 0, 0)] * 2))
        for keys in ("down", "enter", "escape", "question_mark"):
            await screen.press(keys)
            strange = [row for row in screen.drawn() if not row.isascii()]
            assert strange == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "linux", "LANG": "C.UTF-8"}, True),
        ({"TERM": "vt220", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "xterm-256color", "LANG": "C"}, True),
        ({"TERM": "xterm-256color", "LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "xterm-256color", "LANG": "de_DE.utf8"}, False),
        ({"TERM": "tmux-256color", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({}, True),
    ],
)
def test_plain_consoles_are_recognised(environment: dict[str, str], expected: bool) -> None:
    assert wants_ascii(environment) is expected


async def test_help_lists_every_key() -> None:
    async with live() as screen:
        await screen.press("question_mark")
        shown = "\n".join(screen.drawn())
        for words in ("stop the picture", "read everything again", "the device above", "no carrier"):
            assert words in shown
        await screen.press("escape")
        assert screen.app.screen.query(DeviceTable)


async def test_this_host_for_real() -> None:
    source = LocalSource(interval=0.1)
    app = NictopApp(lambda: source, interval=0.1)
    async with app.run_test(size=NARROW) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: any(" lo " in line for line in screen.lines()))
        await wait_until(screen, lambda: any("idle" in line for line in screen.lines(ProcessorStrip)))
