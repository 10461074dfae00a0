"""The live screen, driven by keys: what a tired person on a console relies on."""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

import pytest
from textual._styles_cache import StylesCache
from textual.geometry import Size
from textual.screen import ModalScreen

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Address, Bond, BondPort, Line, PciFunction, Queue, Request
from nictop.rules import Diagnosis
from nictop.rules.outdated import MAY_HAVE_CHANGED
from nictop.traffic.plan.request import RunRequest
from nictop.tui.app import NictopApp
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.terminal import wants_ascii
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.devices.detail import FactLines, LinkPanel
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.wire.local import LocalSource
from nictop.wire.source import SourceState
from tests.support.captured import captured_lines
from tests.support.hostile import SCREEN_NAMES
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen, running, wait_until
from tests.support.sources import ScriptedSource

NICS = (
    link(1, "lo", type=772, flags=0x49),
    link(2, "ens192", bus="pci"),
    link(3, "ens224", bus="pci"),
)


async def test_the_answer_is_there_without_a_key() -> None:
    async with live_screen() as screen:
        await screen.receive(
            hello(),
            inventory(*NICS),
            counters(1.0, {2: (0, 0)}),
            counters(2.0, {2: (125_000_000, 0)}),
        )
        (line,) = [line for line in screen.lines() if "ens192" in line]
        assert "1.00 G" in line
        assert screen.chosen() == "ens192"
        assert any("RX 1.00 Gb/s" in row for row in screen.drawn())
        assert any("1500" in line for line in screen.lines(FactLines))


async def test_before_the_first_line_the_screen_says_what_it_waits_for() -> None:
    async with live_screen() as screen:
        await screen.receive(SourceState("connecting", ""))
        assert any("starting probe" in row for row in screen.drawn())
        shown = [" ".join(line.split()) for line in screen.lines()]
        assert shown == [
            "alma-load-001: starting probe",
            "◌ start the probe 0 s",
            "· read interfaces",
            "· read the inventory",
            "· run the checks",
        ]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_of_a_host_that_failed_the_screen_says_why(glyphs: Glyphs) -> None:
    async with live_screen(NARROW, glyphs=glyphs) as screen:
        await screen.receive(
            SourceState("failed", "Host key of vm1 was rejected\x1b[2J " + "long " * 30)
        )
        lines = screen.lines()
        assert lines[0] == " alma-load-001: failed"
        assert lines[1].startswith(" Host key of vm1 was rejected\\x1b[2J")
        assert " long long nictop does not try again by itself. Press 5 " in " ".join(
            " ".join(lines).split()
        )


async def test_moving_asks_the_probe_to_watch_that_device() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS))
        assert screen.source.requests[-1] == Request(watch=(2,))
        await screen.press("down")
        assert screen.chosen() == "ens224"
        assert screen.source.requests[-1] == Request(watch=(3,))
        await screen.press("k")
        assert screen.chosen() == "ens192"


async def test_the_cursor_stays_with_its_device() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("down")
        await screen.receive(
            inventory(*NICS, link(9, "ens100", bus="pci"), time=2.0), change(1, "lo", time=3.0)
        )
        assert screen.chosen() == "ens224"
        await screen.receive(change(3, "wan0", time=4.0))
        assert screen.chosen() == "wan0"


async def test_when_a_device_vanishes_no_other_one_is_chosen_until_the_user_does() -> None:
    """A key that is pressed for it acts on no other one."""
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("down")
        assert screen.chosen() == "ens224"
        await screen.receive(gone(3, "ens224"))
        await screen.settle()
        assert screen.chosen() is None
        assert "ens224 is gone: no interface is chosen." in messages(screen)
        await screen.press("e")
        assert not isinstance(screen.app.screen, ModalScreen)
        live = screen.app.screen
        assert isinstance(live, LiveScreen) and live.body.fix is None
        await screen.press("up")
        assert screen.chosen() == "ens192"


async def test_a_virtual_interface_that_is_made_again_is_another_one() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(link(2, "lab0"), link(3, "lab1")))
        table = screen.app.screen.query_one(DeviceTable)
        while table.chosen is None or table.chosen.key != "link:2":
            await screen.press("down")
        await screen.receive(gone(2, "lab0"))
        await screen.receive(inventory(link(3, "lab1"), link(4, "lab0"), time=2.0))
        await screen.settle()
        assert table.chosen is not None and table.chosen.key == "link:4"
        assert any("a new interface of this name, is chosen" in text for text in messages(screen))


async def test_when_a_driver_is_unbound_its_function_is_chosen_then_its_next_netdev() -> None:
    """The default choice, too, does not go to another NIC."""
    address, other = "0000:0b:00.0", "0000:13:00.0"
    functions = tuple(pci_function(one) for one in (address, other))
    nic = link(3, "ens224", bus="pci", pci_address=address)
    neighbour = link(4, "ens256", bus="pci", pci_address=other)
    for key in ("", "down"):
        async with live_screen() as screen:
            await screen.receive(hello(), with_functions(inventory(nic, neighbour), functions))
            if key:
                await screen.press(key, "up")
            table = screen.app.screen.query_one(DeviceTable)
            while table.chosen is None or table.chosen.link is not nic:
                await screen.press("down")
            await screen.receive(
                gone(3, "ens224"), with_functions(inventory(neighbour, time=2.0), functions)
            )
            await screen.settle()
            chosen = table.chosen
            assert chosen is not None and chosen.pci is not None and chosen.link is None
            assert chosen.pci.address == address
            assert any("the same device, is chosen" in text for text in messages(screen))
            again = link(9, "ens224", bus="pci", pci_address=address)
            await screen.receive(with_functions(inventory(again, neighbour, time=3.0), functions))
            assert table.chosen is not None and table.chosen.pci is not None
            assert table.chosen.pci.address == address


def pci_function(address: str) -> PciFunction:
    return PciFunction(address, 0x020000, 0x1AF4, 0x1041, None, None, None)


def with_functions(line: Line, functions: tuple[PciFunction, ...]) -> Line:
    assert line.inventory is not None
    return replace(line, inventory=replace(line.inventory, pci=functions))


def messages(screen: Screen) -> list[str]:
    return [one.message for one in screen.app._notifications]


async def test_a_new_device_and_a_lost_carrier_show_before_the_inventory() -> None:
    async with live_screen() as screen:
        await screen.receive(
            hello(), inventory(*NICS), change(7, "ens161"), change(3, "ens224", carrier=False)
        )
        assert any("ens161" in line for line in screen.lines())
        (line,) = [line for line in screen.lines() if "ens224" in line]
        assert "▽" in line


async def test_freeze_keeps_the_picture_and_the_history_goes_on() -> None:
    async with live_screen() as screen:
        await screen.receive(
            hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000, 0)})
        )
        await screen.press("space")
        frozen = screen.lines()
        await screen.receive(counters(3.0, {2: (125_000_000, 0)}))
        assert screen.lines() == frozen
        assert any("PAUSED" in row for row in screen.drawn())
        assert len(screen.nictop.hosts.session.history.series(("rx_bits", 2))) == 2
        await screen.press("space")
        assert screen.lines() != frozen
        assert not any("PAUSED" in row for row in screen.drawn())


async def test_packets_instead_of_bits() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(
            hello(),
            inventory(*NICS),
            counters(1.0, {2: (0, 0)}),
            counters(2.0, {2: (125_000_000, 0)}),
        )
        await screen.press("o", "down", "space", "escape")
        (line,) = [line for line in screen.lines() if "ens192" in line]
        assert "125 k" in line
        assert "1.00 G" not in line


async def test_links_without_a_device_can_be_hidden() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS, link(5, "veth0", kind="veth")))
        assert screen.lines()[-1].strip() == "Virtual interfaces ▸ 2 hidden (o)"
        await screen.press("o", "space", "escape")
        assert any("veth0" in line for line in screen.lines())
        await screen.press("o", "space", "escape")
        assert not any("veth0" in line for line in screen.lines())
        await screen.press("o", "space", "escape")
        assert any("veth0" in line for line in screen.lines())


async def test_a_click_on_the_title_of_the_virtual_interfaces_shows_and_hides_them() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS, link(5, "veth0", kind="veth")))
        for shown in (True, False):
            y = next(
                number
                for number, row in enumerate(screen.drawn())
                if "Virtual interfaces" in row[:30]
            )
            await screen.pilot.click(offset=(10, y))
            await screen.settle()
            assert any("veth0" in line for line in screen.lines()) is shown


async def test_enter_gives_the_device_the_screen_and_escape_takes_it_back() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(
            hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (0, 0)})
        )
        facts = screen.app.screen.query_one(FactLines)
        before = facts.size.height
        await screen.press("enter")
        assert not screen.app.screen.query_one(DeviceTable).display
        assert facts.size.height > before
        assert (
            screen.app.screen.query_one(LinkPanel).size.height
            == screen.app.screen.query_one("#views").size.height - 1
        )
        await screen.press("escape")
        assert screen.app.screen.query_one(DeviceTable).display
        assert screen.app.screen.query_one(DeviceTable).has_focus


async def test_the_interval_is_requested_from_the_probe() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("plus", "minus", "minus")
        assert screen.source.requests[-3:] == [
            Request(interval=0.5),
            Request(interval=1.0),
            Request(interval=2.0),
        ]


async def test_a_lost_host_is_said_and_its_last_values_stay() -> None:
    async with live_screen() as screen:
        await screen.receive(
            hello(), inventory(*NICS), SourceState("lost", "the probe ended with signal 9", 2.0)
        )
        assert "the probe ended with signal 9" in screen.lines(FindingsPanel)[0]
        assert any("ens192" in line for line in screen.lines())
        await screen.receive(hello())
        assert "signal 9" not in screen.lines(FindingsPanel)[0]


@pytest.mark.parametrize("size", [WIDE, NARROW, (200, 60), (60, 15), (40, 10), (20, 5), (3, 3)])
async def test_any_size_draws(size: tuple[int, int]) -> None:
    async with live_screen() as screen:
        cpus = [(1, 0, 1, 10, 0, 0, 0, 0, 0, 0)] * 4
        await screen.receive(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}, cpus))
        await screen.pilot.resize_terminal(*size)
        await screen.receive(
            counters(2.0, {2: (125_000, 0)}, [(9, 0, 2, 99, 0, 0, 0, 0, 0, 0)] * 4)
        )
        await screen.press("enter", "down", "escape", "down")
        assert screen.drawn()


@pytest.mark.parametrize(("name", "shown"), SCREEN_NAMES.items())
async def test_no_name_is_obeyed(name: str, shown: str) -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(
            hello(), inventory(link(2, name, bus="pci", alias=name, altnames=(name,)))
        )
        await screen.receive(SourceState("lost", f"trouble with {name}", 1.0))
        for size in (WIDE, NARROW):
            await screen.pilot.resize_terminal(*size)
            await screen.settle()
            drawn = "".join(screen.drawn())
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
            assert shown in drawn, size
            await screen.press("enter", "escape", "question_mark", "escape")


async def test_an_ascii_console_gets_only_ascii() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        cpus = [(1, 0, 1, 10, 0, 0, 0, 0, 0, 0)] * 2
        await screen.receive(
            hello(), inventory(*NICS, link(4, "漢")), counters(1.0, {2: (0, 0)}, cpus)
        )
        await screen.receive(
            counters(2.0, {2: (125_000, 5_000)}, [(9, 0, 2, 99, 0, 0, 9, 9, 0, 0)] * 2)
        )
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


async def test_the_title_and_the_notice_are_ascii_too() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.receive(
            hello(),
            inventory(link(2, "漢字", bus="pci")),
            SourceState("lost", "täuscht\x1b[2J", 1.0),
        )
        rows = screen.drawn()
        assert [row for row in rows if not row.isascii() or "\x1b" in row] == []
        assert any(row.startswith(r"-\u6f22\u5b57-") for row in rows)


async def test_few_devices_leave_their_rows_to_the_facts() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(
            hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (0, 0)})
        )
        table, facts = (
            screen.app.screen.query_one(DeviceTable),
            screen.app.screen.query_one(FactLines),
        )
        few = facts.size.height
        assert table.size.height == len(screen.lines()) + 1
        more = [link(10 + number, f"eth{number}", bus="vmbus") for number in range(40)]
        await screen.receive(inventory(*NICS, *more, time=3.0))
        assert facts.size.height == 1 < few


async def test_one_line_has_the_facts_where_the_table_needs_the_rows() -> None:
    links = (*NICS, *(link(10 + n, f"eth{n}", bus="vmbus") for n in range(40)))
    async with live_screen(NARROW) as screen:
        await screen.receive(
            hello(), inventory(*links), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (0, 0)})
        )
        rows = [row.strip() for row in screen.drawn()]
        assert any(row.startswith("up") and "no errors or drops" in row for row in rows)


async def test_a_narrow_screen_shows_the_rates_before_their_past() -> None:
    async with live_screen((40, 10)) as screen:
        await screen.receive(
            hello(),
            inventory(*NICS),
            counters(1.0, {2: (0, 0)}),
            counters(2.0, {2: (125_000_000, 0)}),
        )
        (line,) = [line for line in screen.lines() if "ens192" in line]
        assert "1.00 G" in line


async def test_the_footer_names_help_and_quit_on_the_narrowest_screen() -> None:
    async with live_screen((40, 10)) as screen:
        await screen.receive(hello(), inventory(*NICS))
        assert screen.drawn()[-1] == " Enter Open  e Set-up    ? Help  q Quit "


async def test_a_bridge_that_is_down_is_not_chosen_before_a_link_that_is_up() -> None:
    async with live_screen() as screen:
        down = link(2, "br0", kind="bridge", flags=0x1002, operstate="down", carrier=None)
        await screen.receive(hello(), inventory(NICS[0], down, link(3, "veth0", kind="veth")))
        assert screen.chosen() == "veth0"


async def test_the_cursor_shows_on_a_terminal_without_colours() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.receive(hello(), inventory(*NICS))
        assert next(row for row in screen.drawn() if row.startswith(">")).split()[1] == "ens192"


async def test_a_name_uses_the_empty_cells_beside_it() -> None:
    pci = PciFunction(
        "0000:00:03.0",
        0x020000,
        0x1AF4,
        0x1041,
        None,
        None,
        None,
        device_name="A device with a long name",
    )
    async with live_screen(NARROW) as screen:
        alone = inventory(NICS[0])
        assert alone.inventory is not None
        await screen.receive(hello(), Line(inventory=replace(alone.inventory, pci=(pci,))))
        (line,) = [line for line in screen.lines() if "00:03.0" in line]
        assert "00:03.0 A device with" in line
        assert "no driver" in line


async def test_a_port_of_a_bond_names_it_and_its_state_there() -> None:
    ports = (
        link(2, "eno1", bus="pci", master=5, bond_port=BondPort(True, "up")),
        link(3, "eno2", bus="pci", master=5, bond_port=BondPort(False, "down")),
        link(4, "a-name-15-chars", bus="pci", master=5, bond_port=BondPort(False, "up")),
    )
    async with live_screen(NARROW) as screen:
        await screen.receive(
            hello(), inventory(*ports, link(5, "bond0", kind="bond", bond=Bond("active-backup", 2)))
        )
        lines = screen.lines()
        assert lines[0].split()[:3] == ["eno1", "bond0", "active"]
        assert lines[1].split()[:3] == ["eno2", "bond0", "down"] and lines[3].split()[0] == "bond0"


async def test_numbers_that_move_lay_nothing_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live_screen() as screen:
        cpus = [[(n, 0, 1, 10 * n, 0, 0, 0, 0, 0, 0)] * 4 for n in range(9)]
        await screen.receive(hello(), inventory(*NICS), counters(0.0, {2: (0, 0)}, cpus[0]))
        await screen.receive(counters(1.0, {2: (0, 0)}, cpus[1]))
        laid_out = []
        lay_out = LiveScreen._refresh_layout

        def counted(self: LiveScreen, size: Size | None = None, scroll: bool = False) -> None:
            laid_out.append(size)
            lay_out(self, size, scroll)

        monkeypatch.setattr(LiveScreen, "_refresh_layout", counted)
        for moment in range(2, 9):
            await screen.receive(counters(float(moment), {2: (moment * 125_000, 0)}, cpus[moment]))
        assert laid_out == []
        await screen.pilot.resize_terminal(100, 30)
        assert laid_out, "what this test looks at does happen"


async def test_control_c_leaves() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS))
        assert screen.app.screen.active_bindings["ctrl+c"].binding.action == "app.interrupt"
        await screen.press("question_mark")
        assert screen.app.screen.active_bindings["ctrl+c"].binding.action == "app.interrupt"


async def test_a_live_host_that_falls_silent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    async with live_screen(NARROW) as screen:
        await screen.receive(
            SourceState("live"), hello(), inventory(*NICS), counters(1.0, {2: (0, 0)})
        )
        now[0] += 4.0
        screen.nictop.hosts.count_down()
        await screen.settle()
        assert "no data" not in "".join(screen.lines(StatusLine))
        now[0] += 4.0
        screen.nictop.hosts.count_down()
        await screen.settle()
        assert "no data for 8 s" in "".join(screen.lines(StatusLine))
        now[0] += 1.0
        screen.app.screen.query_one(StatusLine).refresh_cost()
        line = "".join(screen.lines(StatusLine))
        assert "no data for 8 s" in line, "the seconds are those of the views below it"
        await screen.receive(counters(9.0, {2: (0, 0)}))
        assert "no data" not in "".join(screen.lines(StatusLine))


@pytest.mark.parametrize("is_lost", [True, False])
async def test_what_was_read_of_a_silent_host_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Also its links: nobody tells their events. With the next reading they are known again."""
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    async with live_screen(NARROW) as screen:
        address = Address("ipv6", "2001:db8::1", 64, "global", ("dadfailed",))
        nic = link(2, "ens224", bus="pci", flags=IFF_UP, addresses=(address,))
        lines = inventory(nic), counters(1.0, {2: (0, 0)})
        await screen.receive(SourceState("live"), hello(), *lines)
        await screen.nictop.diagnosis.renew()
        await screen.settle()
        known = "\n".join(screen.drawn())
        assert "? ↑" not in known and "link ✓" in known
        assert MAY_HAVE_CHANGED not in known and "✖ ens224" in known
        if is_lost:
            await screen.receive(SourceState("lost", "vm1: connection timed out", 4.0))
        now[0] += 8.0
        screen.nictop.hosts.count_down()
        await screen.settle()
        old = "\n".join(screen.drawn())
        assert "? ↑" in old and "link ✓" not in old and "name ✓" not in old
        assert "✖1?" in old
        await screen.nictop.diagnosis.renew()
        await screen.settle()
        await screen.press("4")
        assert f"{MAY_HAVE_CHANGED}: " in "\n".join(screen.drawn())
        await screen.press("5")
        assert "✖1?" in "\n".join(screen.drawn()), screen.drawn()
        await screen.press("1")
        await screen.receive(SourceState("live"), counters(9.0, {2: (0, 0)}))
        await screen.nictop.diagnosis.renew()
        await screen.settle()
        again = "\n".join(screen.drawn())
        assert "? ↑" not in again and "link ✓" in again and MAY_HAVE_CHANGED not in again


@pytest.mark.parametrize("size", [NARROW, WIDE])
@pytest.mark.parametrize("is_lost", [True, False])
async def test_old_values_are_not_those_of_now_in_any_view_of_a_host(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], is_lost: bool
) -> None:
    """Rates, bars and charts of a host that was lost, or sends nothing."""
    now = [1000.0]
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: now[0])
    async with live_screen(size) as screen:
        await screen.receive(SourceState("live"), *captured_lines("virtio-4-queues"))
        await screen.settle()
        current = {}
        for view in ("1", "2", "3"):
            await screen.press(view)
            current[view] = "\n".join(screen.drawn()[2:])
            assert "ago" not in current[view]
        now[0] += 20.0
        if is_lost:
            await screen.receive(SourceState("lost", "vm1: connection timed out", 4.0))
        now[0] += 12.0
        screen.nictop.hosts.count_down()
        await screen.settle()
        for view in ("1", "2", "3"):
            await screen.press(view)
            drawn = "\n".join(screen.drawn()[2:])
            assert "values of 32 s ago" in drawn, drawn
            assert "no rates yet" not in drawn, "there were some"
            assert " now" not in drawn.replace("what now", "").replace("no rates now", "").replace(
                "now\n  is", ""
            ), drawn
        now[0] += 2.0
        screen.nictop.hosts.count_down()
        await screen.settle()
        assert "values of 34 s ago" in "\n".join(screen.drawn()), "it counts"


async def test_the_own_cost_is_read_with_a_reading_while_these_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []
    monkeypatch.setattr(
        "nictop.tui.widgets.status.own_cost.OwnCost.refresh", lambda _, pids: read.append(pids)
    )
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}))
        status = screen.app.screen.query_one(StatusLine)
        status._ask_for_cost()
        assert not read
        await screen.receive(counters(2.0, {2: (0, 0)}))
        await screen.receive(counters(3.0, {2: (0, 0)}))
        assert len(read) == 1
        status._ask_for_cost()
        status._ask_for_cost()
        assert len(read) == 2, "no reading came meanwhile"


async def test_a_closed_screen_is_freed_with_what_it_has_drawn() -> None:
    """Textual's cache of colours had the style cache of every widget in its keys: 0.2 MiB for each
    closed help."""

    def caches() -> int:
        gc.collect()
        return sum(isinstance(one, StylesCache) for one in gc.get_objects())

    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS))
        before = 0
        for _ in range(3):
            await screen.press("question_mark", "escape")
            before = before or caches()
        assert caches() <= before  # what tests before this one have left may be freed meanwhile


async def test_an_inventory_that_was_replaced_is_freed() -> None:
    """After the checks have seen both: that of a large host takes tens of MB."""
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(*NICS, time=1.0))
        read = screen.nictop.hosts.session.snapshot.inventory
        assert read is not None
        first = ref(read)
        del read
        await screen.show_diagnosis(Diagnosis((), ()))
        await screen.receive(inventory(*NICS, time=2.0))
        await screen.show_diagnosis(Diagnosis((), ()))
        gc.collect()
        left = first()
        assert left is None, [type(holder) for holder in gc.get_referrers(left)]


async def test_help_lists_every_key() -> None:
    async with live_screen() as screen:
        await screen.press("question_mark")
        assert any("pause the display" in row for row in screen.drawn())
        shown = "\n".join(screen.lines(LineWidget))
        for words in (
            "pause the display",
            "view options",
            "line above",
            "no carrier",
            "view Queues",
        ):
            assert words in shown
        await screen.press("escape")
        assert screen.app.screen.query(DeviceTable)


async def load(screen: Screen) -> None:
    """A recorded guest whose virtio NIC (the second netdev after the first choice) sends over four
    queues."""
    await screen.receive(*captured_lines("virtio-4-queues"))
    await screen.press("right", "right")


@pytest.mark.parametrize("size", [WIDE, NARROW, (60, 15), (40, 10)])
async def test_queues_of_the_chosen_nic_and_its_cpus(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        await load(screen)
        assert screen.chosen() == "ens256"
        await screen.press("2")
        assert (
            not screen.app.screen.query_one(DeviceTable).display
            or screen.app.screen.query_one(QueueView).has_focus
        )
        assert any("ens256" in row for row in screen.drawn()[:3])
        assert any("3" in row.split()[:2] for row in screen.drawn()) or size[1] < 12
        await screen.press("3")
        assert screen.drawn()[2].lstrip(" │").startswith("ens256 ◂▸ virtio_net · 9 interrupts")
        await screen.press("left")
        assert screen.drawn()[2].lstrip(" │").startswith("ens224 ◂▸ ")
        await screen.press("escape")
        assert screen.app.screen.query_one(DeviceTable).has_focus
        assert screen.chosen() == "ens224"


@pytest.mark.parametrize("key", ["2", "3", "enter", "question_mark"])
async def test_more_below_is_marked(key: str) -> None:
    async with live_screen(NARROW) as screen:
        await load(screen)
        await screen.press(key)
        assert sum("▾ PgDn" in row for row in screen.drawn()) == 1
        await screen.press(*["pagedown"] * 16)
        assert not any("▾ PgDn" in row for row in screen.drawn())


@pytest.mark.parametrize("key", ["2", "3"])
async def test_footer_of_a_nic_begins_with_its_choice(key: str) -> None:
    async with live_screen(NARROW) as screen:
        await load(screen)
        await screen.press(key)
        assert screen.drawn()[-1].split()[:2] == ["←→", "Interface"]


async def test_no_key_is_named_by_the_characters_of_another_one_in_ascii() -> None:
    """``<-`` of ``←`` are the keys for the previous host and a longer interval."""
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await load(screen)
        await screen.press("2")
        assert screen.drawn()[-1].split()[:2] == ["Left/Right", "Interface"]
        await screen.press("question_mark")
        help_rows = [row for _ in range(12) for row in await _page(screen)]
        assert any("Left h " in row for row in help_rows)
        assert any("Up/Down Choose" in row for row in help_rows)
        assert not any("<- h" in row or "^v" in row for row in help_rows)
        await screen.press("escape", "1", "end", "2")
        assert any("Press Left Right to choose an interface" in row for row in screen.drawn())


async def _page(screen: Screen) -> list[str]:
    """What is drawn; then the next page."""
    rows = screen.drawn()
    await screen.press("pagedown")
    return rows


async def test_views_scroll_and_keys_belong_to_their_view() -> None:
    async with live_screen(NARROW) as screen:
        await load(screen)
        await screen.press("3")
        assert any("Top network threads" in row for row in screen.drawn())
        await screen.press("pagedown")
        assert any("virtio2-config" in row for row in screen.drawn())
        known = len(screen.source.requests)
        await screen.press("n", "s", "m")  # of other views: nothing happens here
        assert not screen.app.screen.query_one(QueueView).unfold
        assert not screen.app.screen.query_one(DeviceTable).packets
        assert len(screen.source.requests) == known


async def test_all_interrupts_are_read_only_while_they_are_shown() -> None:
    async with live_screen() as screen:
        await load(screen)
        assert not any(request.machine for request in screen.source.requests)
        await screen.press("3")
        assert not any("Local timer" in row for row in screen.drawn())
        await screen.press("o")
        assert screen.source.requests[-1] == Request(machine=True)
        assert any("Local timer" in row for row in screen.drawn())
        await screen.press("o")
        assert screen.source.requests[-1] == Request(machine=False)


async def test_idle_queues_fold_and_unfold() -> None:
    async with live_screen() as screen:
        nic = link(
            2, "ens192", bus="pci", queues=tuple(Queue("rx", number) for number in range(12))
        )
        quiet = [("rx", number, (0, 0, None, None, 0, None)) for number in range(12)]
        busy = [
            ("rx", number, (900 * (number == 7), 0, None, None, 0, None)) for number in range(12)
        ]
        await screen.receive(hello(), inventory(nic))
        for time, queues in ((1.0, quiet), (2.0, busy)):
            record = counters(time, {2: (0, 0)}).counters
            assert record is not None
            await screen.receive(Line(counters=replace(record, queues={2: tuple(queues)})))
        await screen.press("2")
        assert any("11 idle queues: 0-6,8-11" in line for line in screen.lines(QueueView))
        rows = [line.split()[0] for line in screen.lines(QueueView) if "idle queues" not in line]
        assert [first for first in rows if first.isdecimal()] == ["7"]
        await screen.press("o")
        assert len([line for line in screen.lines(QueueView) if line.split()[0].isdecimal()]) == 12


async def test_a_row_without_a_netdev_has_no_queues_and_says_so() -> None:
    async with live_screen() as screen:
        await load(screen)
        await screen.press("end", "2")
        assert any("Press ← → to choose an interface" in row for row in screen.drawn())
        await screen.press("e")
        assert [one.message for one in screen.app._notifications] == [
            "Press ← → to choose an interface."
        ]
        await screen.press("3")
        assert any("net pkt/s" in row for row in screen.drawn())


async def test_this_host_for_real() -> None:
    source = LocalSource(interval=0.1)
    app = NictopApp(lambda host, ask: source, interval=0.1)
    async with running(app, NARROW, notifications=False) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: screen.chosen() is not None)
        await wait_until(
            screen, lambda: any("user" in line for line in screen.lines(ProcessorStrip))
        )


@pytest.mark.parametrize("netdevs", [1, 2])
async def test_a_measurement_takes_the_interface_of_the_selected_device_or_asks(
    netdevs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the row of a PCI function selected, nothing but the CPUs was measured."""
    started: list[RunRequest] = []
    address = "0000:0b:00.0"
    links = []
    for number in range(netdevs):
        links.append(link(3 + number, f"ens{number}", bus="pci", pci_address=address))
    async with live_screen() as screen:
        monkeypatch.setattr(screen.nictop.traffic, "start", started.append)
        await screen.receive(
            hello(), with_functions(inventory(*links), (pci_function(address),)), counters(1.0, {})
        )
        table = screen.app.screen.query_one(DeviceTable)
        await screen.press("up")
        while table.chosen is None or table.chosen.pci is None or table.chosen.link is not None:
            await screen.press("up")
        await screen.press("b")
        if netdevs > 1:
            assert not started and "Measure which NIC?" in "\n".join(screen.drawn())
            await screen.press("down", "enter")
        (request,) = started
        assert (request.test, request.client_nic) == ("manual", links[-1].name)


async def test_a_measurement_of_an_interface_that_is_not_shown_asks_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Traffic and Results it was begun at once, on the interface that was selected on
    Devices."""
    started: list[RunRequest] = []
    async with live_screen() as screen:
        monkeypatch.setattr(screen.nictop.traffic, "start", started.append)
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci"))
        )
        await screen.press("down")
        host, nic = screen.nictop.hosts.chosen, screen.chosen()
        for view in ("6", "7", "4"):
            await screen.press(view, "b")
            drawn = " ".join(" ".join(screen.drawn()).split())
            assert f"Begin to measure {host} {nic}, selected on Devices" in drawn
            await screen.press("escape")
        assert not started
        await screen.press("6")
        assert any("b Measure" in row for row in screen.drawn())
        await screen.press("b", "enter")
        (request,) = started
        assert (request.client, request.client_nic) == (host, nic)


async def test_what_asks_a_lost_host_for_something_is_disabled() -> None:
    """The menu is open while the host is lost, and while it comes back."""
    async with live_screen() as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        host = screen.nictop.hosts.chosen
        await screen.press("1", "o")
        said = f"Listen for LLDP (35 s)  {host} is not connected"
        assert said not in "\n".join(screen.drawn())
        await screen.receive(SourceState("lost", "connection lost", 5.0))
        await wait_until(screen, lambda: said in "\n".join(screen.drawn()))
        await screen.receive(SourceState("live"), hello())
        await wait_until(screen, lambda: said not in "\n".join(screen.drawn()))
