"""Guided set-up: a form and its commands, then the change and the check of its result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import (
    ChangeLine,
    Line,
    Link,
    LinkChange,
    PciFunction,
    PlannedAction,
    Unreadable,
)
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.tui.screens.changes.guided import SetUpScreen
from nictop.tui.screens.changes.screen import HostChangeScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.button_row import ButtonRow
from nictop.tui.widgets.changes.guided_fields import JOBS, MTU
from nictop.tui.widgets.changes.guided_form import SetUpForm
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.wire.source import SourceState
from tests.support.change_screen import (
    read_mtu,
    screen_with_changes,
    screen_with_changes_in_namespace,
)
from tests.support.changes import LINK, PEER
from tests.support.dialogs import dialog_text, press_button
from tests.support.findings import host_of_case
from tests.support.hostile import SHORT as HOSTILE
from tests.support.lines import counters, hello, inventory, link
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.networkmanager import private_networkmanager, why_no_networkmanager
from tests.support.rule_cases import probe_lines
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until

SIZES = [WIDE, NARROW, (60, 15), (40, 10), (20, 5), (3, 3)]


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def namespaces() -> Iterator[None]:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    return iter([None])


def shows(screen: Screen, kind: type[object]) -> bool:
    """Whether that screen is on top."""
    return isinstance(screen.app.screen, kind)


def form(screen: Screen) -> list[str]:
    return [" ".join(line.split()) for line in screen.lines(SetUpForm)]


async def open_on(screen: Screen, name: str) -> None:
    """The key e on the line of a NIC."""
    table = screen.app.screen.query_one(DeviceTable)
    snapshot = screen.nictop.hosts.session.snapshot
    (ifindex,) = (one.ifindex for one in snapshot.links.values() if one.name == name)
    if f" {name} " not in "\n".join(screen.lines()):
        await screen.press("o", "space", "escape")
    table.choose_link(ifindex)
    await screen.press("e")
    assert shows(screen, SetUpScreen)
    await screen.settle()


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_without_networkmanager_the_lines_of_the_usual_managers_are_shown(
    size: tuple[int, int],
) -> None:
    async with live_screen(size) as screen:
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci")), counters(1.0, {2: (0, 0)})
        )
        await open_on(screen, "ens192")
        await screen.press("down", "down", *"192.0.2.10/24")
        await screen.settle()
        page = dialog_text(screen)
        for words in (
            "ip address add 192.0.2.10/24 dev ens192",
            "netplan set",
            "/etc/systemd/network/10-ens192.network",
            "iface ens192 inet static",
        ):
            assert words in page, words


PENDING = ("ethtool", "services", "networkmanager", "networkd", "configuration")


def partly_read(*pending: str, detail: str = NOT_READ_YET) -> Line:
    """The inventory of one NIC in which these sources have not been read yet, or failed."""
    line = inventory(link(2, "ens192", bus="pci"))
    assert line.inventory is not None
    unreadable = {source: Unreadable("failed", detail) for source in pending}
    left = pending if detail == NOT_READ_YET else ()
    return Line(inventory=replace(line.inventory, unreadable=unreadable, pending=left))


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_what_is_not_read_yet_is_not_missing(size: tuple[int, int]) -> None:
    """The dialog follows the inventory, and keeps what was typed."""
    async with live_screen(size) as screen:
        await screen.receive(hello(), partly_read(*PENDING), counters(1.0, {2: (0, 0)}))
        await open_on(screen, "ens192")
        await screen.press("down", "down", *"192.0.2.10/24")
        await screen.settle()
        page = dialog_text(screen)
        assert "NetworkManager (D-Bus): not read yet" in page
        assert "does not run" not in page and "ip address" not in page
        await screen.receive(partly_read("configuration"))
        assert "network configuration files: not read yet" in dialog_text(screen)
        await screen.receive(inventory(link(2, "ens192", bus="pci")))
        await screen.settle()
        page = dialog_text(screen)
        assert (
            "does not run NetworkManager" in page
            and "ip address add 192.0.2.10/24 dev ens192" in page
        )


async def test_queues_of_a_driver_that_is_not_read_yet() -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), partly_read(*PENDING), counters(1.0, {2: (0, 0)}))
        await open_on(screen, "ens192")
        await screen.press("right", "down", "2")
        await screen.settle()
        assert "ethtool: not read yet" in dialog_text(screen)
        assert "not supported" not in "\n".join(screen.lines())


async def test_a_manager_that_did_not_answer_is_not_absent() -> None:
    async with live_screen(WIDE) as screen:
        silent = partly_read("networkmanager", detail="its process 812 is stopped")
        await screen.receive(hello(), silent, counters(1.0, {2: (0, 0)}))
        await open_on(screen, "ens192")
        await screen.press("down", "down", *"192.0.2.10/24")
        await screen.settle()
        page = dialog_text(screen)
        assert "not readable (its process 812 is stopped)" in page and "ip address" not in page


def queues(namespace: Namespace) -> list[str]:
    """Those in use now, as ethtool has it."""
    current = namespace.run(["ethtool", "-l", LINK]).partition("Current hardware settings")[2]
    return re.findall(r"^(?:RX|TX):\s+(\d+)$", current, re.MULTILINE)


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_queues_are_set_seen_and_kept(size: tuple[int, int]) -> None:
    async with screen_with_changes_in_namespace(size) as (screen, namespace):
        await open_on(screen, LINK)
        await screen.press("right", "down")
        assert "1 to 4, current 4" in "\n".join(form(screen))
        await screen.press("9")
        assert f"{LINK} supports 1 to 4 queues" in screen.dialog_text()
        await screen.press("enter")
        assert shows(screen, SetUpScreen), "what cannot be done is not asked for"
        await screen.press("backspace", "2")
        assert f"ethtool -L {LINK} rx 2 tx 2" in screen.dialog_text()
        await screen.press("enter")
        await screen.wait_for_stage("prepared")
        assert shows(screen, HostChangeScreen)
        assert queues(namespace) == ["4", "4"]
        await screen.press("right", "enter")
        await screen.wait_for_text(f"✓ {LINK} has 2 receive queues")
        assert queues(namespace) == ["2", "2"]
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Kept: the new values stay")
        assert f"✓ {LINK} has 2 receive queues" in screen.dialog_text()
        assert "Lost on reboot; to make it persistent" in screen.dialog_text()
        await press_button(screen, "Close")
        assert shows(screen, LiveScreen)
        assert queues(namespace) == ["2", "2"]
        assert screen.nictop.changes.typed == {}, "it was applied"


async def test_what_was_typed_is_there_again_until_the_nic_changes() -> None:
    nic = link(2, "ens192", bus="pci", mtu=1500)
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        await open_on(screen, "ens192")
        assert "typed before" not in dialog_text(screen)
        await screen.press("down", "down", *"192.0.2.99/24", "escape")
        await screen.receive(inventory(nic, time=2.0))
        await open_on(screen, "ens192")
        assert "Address/prefix 192.0.2.99/24" in "\n".join(form(screen))
        assert "As typed before: kept until it is applied or ens192 changes." in dialog_text(screen)
        await screen.press("escape")
        await screen.receive(inventory(replace(nic, mtu=9000), time=3.0))
        await open_on(screen, "ens192")
        assert "192.0.2.99" not in "\n".join(form(screen))
        assert "What was typed before is not kept: ens192 has changed" in dialog_text(screen)
        await screen.press("escape")
        await open_on(screen, "ens192")
        assert "typed before" not in dialog_text(screen)


async def choose_mtu(screen: Screen) -> None:
    await open_on(screen, LINK)
    await screen.press(*["right"] * JOBS.index(MTU), "down")


async def test_a_choice_that_was_turned_is_not_called_typed() -> None:
    nic = link(2, "ens192", bus="pci", mtu=1500)
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        await open_on(screen, "ens192")
        await screen.press("right", "escape")
        await screen.receive(inventory(replace(nic, mtu=9000), time=2.0))
        await open_on(screen, "ens192")
        assert "What was typed before" not in dialog_text(screen)


async def test_the_open_form_follows_an_mtu_that_an_event_tells() -> None:
    nic = link(2, "ens192", bus="pci", mtu=1500)
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        await open_on(screen, "ens192")
        await screen.press("left", "left")
        assert "current 1500" in "\n".join(form(screen))
        change = LinkChange(
            2.0, 2, False, "ens192", nic.operstate, nic.carrier, nic.flags, mtu=1400
        )
        await screen.receive(Line(link_change=change))
        assert "current 1400" in "\n".join(form(screen))


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_an_mtu_is_set_seen_and_kept(size: tuple[int, int]) -> None:
    async with screen_with_changes_in_namespace(size) as (screen, namespace):
        await choose_mtu(screen)
        assert "576 to 65535, current 1500" in "\n".join(form(screen))
        await screen.press(*"99999")
        assert f"on {LINK}, but 576 to 65535" in screen.dialog_text()
        await screen.press("ctrl+u", *"9000")
        assert f"ip link set dev {LINK} mtu 9000" in screen.dialog_text()
        assert (
            f"expected finding: {PEER}: MTU 1500, but 9000 at its other end ({LINK})"
            in screen.dialog_text()
        )
        await screen.press("enter")
        await screen.wait_for_stage("prepared")
        assert read_mtu(namespace) == 1500
        assert "hosts in its subnets with an MTU below 9000 may drop frames" in screen.dialog_text()
        await screen.press("right", "enter")
        await screen.wait_for_text(f"✓ {LINK} has MTU 9000")
        assert read_mtu(namespace) == 9000
        await screen.press("right", "enter")
        await screen.wait_for_text("✓ Kept: the new values stay")
        assert "Lost on reboot; to make it persistent" in screen.dialog_text()
        await press_button(screen, "Close")
        assert read_mtu(namespace) == 9000


@pytest.mark.usefixtures("namespaces")
async def test_an_mtu_has_its_whole_plan_without_allow_changes() -> None:
    async with screen_with_changes_in_namespace(allow_changes=False) as (screen, namespace):
        await choose_mtu(screen)
        await screen.press(*"9000")
        assert "Changes of this host are disabled" in screen.dialog_text()
        await screen.press("enter")
        await screen.wait_for_stage("prepared")
        text = screen.dialog_text()
        for part in (
            "mtu 1500",
            "mtu 9000",
            "rollback",
            "hosts in its subnets with",
        ):
            assert part in text, text
        await screen.press("escape")
        assert read_mtu(namespace) == 1500


@pytest.mark.skipif(why_no_networkmanager() is not None, reason=why_no_networkmanager() or "")
async def test_an_address_of_its_own() -> None:
    """By the profile that NetworkManager made up, which has its name afterwards; and no default
    route."""
    with private_networkmanager("ens37") as manager:
        manager.wait_for(lambda: manager.device_state("ens37") >= 40)
        async with screen_with_changes(manager.prefix) as screen:
            await open_on(screen, "ens37")
            await screen.press("down", "down", *"192.0.2.10/24")
            assert "ipv4.addresses 192.0.2.10/24" in screen.dialog_text()
            await screen.press("enter")
            await screen.wait_for_stage("prepared")
            await screen.press("right", "enter")
            await screen.wait_for_text("✓ ens37 has 192.0.2.10/24")
            await screen.press("right", "enter")
            await screen.wait_for_text("✓ Kept: the new values stay")
        assert (
            manager.nmcli("-g", "GENERAL.CONNECTION", "device", "show", "ens37").strip() == "ens37"
        )
        assert "default" not in manager.namespace.run(["ip", "route"])


async def guest(screen: Screen) -> None:
    """The host of a rule case: ens224 is run by "Wired connection 1", and the host is not to be
    changed."""
    await screen.receive(*probe_lines(host_of_case("profiles", "profile_is_generated")))
    await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
    await screen.settle()


async def test_fields_without_effect_are_not_shown() -> None:
    async with live_screen(WIDE) as screen:
        await guest(screen)
        await open_on(screen, "ens224")
        assert [line.split()[0] for line in form(screen)] == [
            "Action",
            "Method",
            "Address/prefix",
            "Default",
            "NetworkManager",
        ]
        await screen.press("down", "right")
        assert [line.split()[0] for line in form(screen)] == [
            "Action",
            "Method",
            "Default",
            "NetworkManager",
        ]
        await screen.press("left", "down", "down", "right")
        assert [line.split()[0] for line in form(screen)] == [
            "Action",
            "Method",
            "Address/prefix",
            "Default",
            "Gateway",
            "NetworkManager",
        ]


async def test_tab_goes_through_the_fields_and_the_buttons_and_one_cursor_is_drawn() -> None:
    """What is typed after it is in the next field."""
    async with live_screen(NARROW) as screen:
        await guest(screen)
        await open_on(screen, "ens224")
        fields, row = screen.app.screen.query_one(SetUpForm), screen.app.screen.query_one(ButtonRow)
        await screen.press("tab", "tab", *"192.0.2.9")
        assert fields.words[fields.chosen.name] == "192.0.2.9" and fields.chosen.label.startswith(
            "Address"
        )
        for _ in range(len(fields.shown) - 2):
            await screen.press("tab")
        assert (screen.app.screen.focused, row.chosen) == (row, 0)
        (buttons,) = screen.lines(ButtonRow)
        assert buttons.count("▸") == 1
        await screen.press("shift+tab")
        assert (screen.app.screen.focused, fields.chosen) == (fields, fields.shown[-1])
        (buttons,) = screen.lines(ButtonRow)
        assert "▸" not in buttons


async def test_a_click_on_an_arrow_selects_another_choice() -> None:
    async with live_screen(WIDE) as screen:
        await guest(screen)
        await open_on(screen, "ens224")
        (first,) = (line for line in screen.lines(SetUpForm) if "Action" in line)
        await screen.pilot.click(SetUpForm, (first.index("▸", 1), 0))
        await screen.settle()
        assert form(screen)[0].endswith("◂ Set queues ▸")
        (first,) = (line for line in screen.lines(SetUpForm) if "Action" in line)
        await screen.pilot.click(SetUpForm, (first.index("◂"), 0))
        await screen.settle()
        assert form(screen)[0].endswith("◂ Set IP address ▸")


async def test_what_is_missing_is_asked_for_and_the_gate_is_the_same() -> None:
    """Without --allow-changes it ends where a fix does: with the plan of the host."""
    async with live_screen(WIDE) as screen:
        await guest(screen)
        await open_on(screen, "ens224")
        await screen.press("enter")
        assert shows(screen, SetUpScreen)
        assert "Enter the address" in dialog_text(screen)
        await screen.press("down", "down", *"192.0.2.10/24", "enter")
        assert shows(screen, HostChangeScreen)
        await screen.press("y")
        assert (
            "ipv4.addresses 192.0.2.10/24" in screen.app.clipboard
            and "ipv4.addresses" in dialog_text(screen)
        )
        await wait_until(screen, lambda: any(one.change for one in screen.source.requests))
        request = next(one.change for one in screen.source.requests if one.change)
        plan = tuple(
            PlannedAction(words, "before", "after", (), "ens224") for words in request.actions
        )
        await screen.receive(
            Line(change=ChangeLine(1.0, request.id, "prepared", plan=plan, fingerprint="f"))
        )
        assert "Changes are disabled for" in dialog_text(screen)
        await screen.press("escape")
        assert shows(screen, LiveScreen)
        assert {one.change.step for one in screen.source.requests if one.change} == {"prepare"}


async def test_a_nic_must_be_chosen() -> None:
    async with live_screen(WIDE) as screen:
        await guest(screen)
        screen.opener.open_set_up(screen.nictop.hosts.chosen, None)
        await screen.settle()
        assert shows(screen, LiveScreen)
        assert any("Choose a NIC first" in row for row in screen.drawn())


def on_function(ifindex: int, name: str, address: str) -> Link:
    return link(ifindex, name, bus="pci", pci_address=address)


async def test_on_a_pci_function_it_is_its_netdev() -> None:
    """Of several there is a menu; the key is not offered for a function without one."""
    one, two, none = (f"0000:0{number}:00.0" for number in (1, 2, 3))
    functions = tuple(
        PciFunction(address, 0x020000, 0x8086, 0x10CA, None, None, None)
        for address in (one, two, none)
    )
    links = (
        on_function(2, "ens1", one),
        on_function(3, "ens2a", two),
        on_function(4, "ens2b", two),
    )
    async with live_screen(WIDE) as screen:
        line = inventory(*links)
        assert line.inventory is not None
        await screen.receive(hello(), Line(inventory=replace(line.inventory, pci=functions)))
        table = screen.app.screen.query_one(DeviceTable)
        rows = [row.key for row in table._rows]
        for address, title in ((one, "set up ens1"), (two, "Set up")):
            table.choose_index(rows.index(f"pci:{address}"))
            await screen.settle()
            assert any("e Show set-up" in row for row in screen.drawn()[-1:])
            await screen.press("e")
            assert any(title in row for row in screen.drawn())
            if address == two:
                await screen.press("down", "enter")
                assert any("set up ens2b" in row for row in screen.drawn())
            await screen.press("escape")
        table.choose_index(rows.index(f"pci:{none}"))
        await screen.settle()
        assert not any("e Show set-up" in row for row in screen.drawn()[-1:])
        await screen.press("e")
        assert shows(screen, LiveScreen)


async def test_in_the_findings_it_is_the_nic_of_the_finding() -> None:
    async with live_screen(WIDE) as screen:
        await guest(screen)
        await screen.press("4", "e")
        assert shows(screen, SetUpScreen)
        assert any("set up ens224" in row for row in screen.drawn())


async def test_in_the_overview_it_is_the_nic_of_the_line() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        for name in ("vm1", "vm2"):
            hosts[name].send(
                hello(), inventory(link(2, f"nic-{name}", bus="pci")), counters(1.0, {2: (0, 0)})
            )
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("5")
        screen.app.screen.query_one(OverviewTable).focus()
        await wait_until(screen, lambda: any("nic-vm2" in row for row in screen.drawn()))
        await screen.press("end", "e", "end", "enter")
        assert shows(screen, SetUpScreen)
        assert any("vm2: set up nic-vm2" in row for row in screen.drawn())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_hostile_names_and_small_terminals(size: tuple[int, int], glyphs: Glyphs) -> None:
    async with live_screen(size, glyphs=glyphs) as screen:
        await screen.receive(
            hello(), inventory(link(2, HOSTILE, bus="pci")), counters(1.0, {2: (0, 0)})
        )
        await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
        screen.opener.open_set_up(screen.nictop.hosts.chosen, 2)
        await screen.settle()
        for keys in ((), ("right",), ("right",), ("right",), ("down", *HOSTILE)):
            await screen.pilot.press(*keys)
            await screen.settle()
            drawn = "\n".join(screen.drawn())
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
            assert not glyphs.is_ascii or size[1] < 10 or drawn.isascii()
        assert shows(screen, SetUpScreen)


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (
            SourceState("lost", "connection to guest lost", 5.0),
            "they are read again once it is connected.",
        ),
        (
            SourceState("failed", "permission denied for root"),
            "it is not connected to any more (permission denied for root).",
        ),
    ],
    ids=["lost", "failed"],
)
async def test_values_of_a_lost_host_are_not_said_to_be_read_again(
    state: SourceState, end: str
) -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci")), counters(1.0, {2: (0, 0)})
        )
        await screen.press("e")
        assert isinstance(screen.app.screen, SetUpScreen)
        await screen.receive(state)
        text = dialog_text(screen)
        assert f"The values were read before its data stopped; {end}" in text
        assert "will be read again" not in text
