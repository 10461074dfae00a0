"""The guests of a host in the Hosts view: reached by key, filtered, sorted, opened, at both sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual._callback import invoke

from nictop.hosts.guests import host_of_guest
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.guests.agent_facts import AgentFacts, AgentsTold, guest_key
from nictop.model.snapshot import BEFORE_SILENCE, Snapshot
from nictop.probe.records import Line, Unreadable
from nictop.tui.palette import NictopCommands, PaletteEntry
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.widgets.devices.guest_table import GuestTable
from nictop.tui.widgets.devices.guests import GuestPane
from nictop.tui.widgets.devices.overview import OverviewPane
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.wire.source import SourceState
from tests.model.guests.hypervisor import WEB1, hypervisor, hypervisor_inventory
from tests.support.lines import hello
from tests.support.screen import (
    NARROW,
    WIDE,
    Screen,
    ScriptedHosts,
    screen_with_hosts,
    wait_until,
)
from tests.tui.screens.test_several_hosts import nics, receive_from


async def hosts_view(screen: Screen, hosts: ScriptedHosts) -> None:
    """A hypervisor with guests, and a host without, in the Hosts view."""
    snapshot = hypervisor()
    lines = [Line(counters=snapshot.before), Line(counters=snapshot.counters)]
    await receive_from(
        screen, hosts, "pve", hello(), Line(inventory=hypervisor_inventory()), *lines
    )
    await receive_from(screen, hosts, "vm2", hello(), nics("eth0"))
    await screen.press("5")
    assert isinstance(screen.app.screen, HostsScreen)


def panes(screen: Screen) -> tuple[bool, bool]:
    """Whether the interfaces and the guests are shown."""
    view = screen.app.screen
    return bool(view.query_one(OverviewPane).display), bool(view.query_one(GuestPane).display)


def shown(screen: Screen) -> list[str]:
    """The lines of the table of guests."""
    lines = screen.app.screen.query_one(GuestTable).lines
    return ["".join(text for text, _ in line).strip() for line in lines]


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_guests_of_the_chosen_host(size: tuple[int, int]) -> None:
    async with screen_with_hosts("pve", "vm2", size=size) as (screen, hosts):
        await hosts_view(screen, hosts)
        assert panes(screen) == (True, False)
        await screen.press("o", "o")
        assert panes(screen) == (False, True)
        drawn = screen.drawn()
        assert max(map(len, drawn)) <= size[0]
        tap = next(line for line in drawn if "tap101i0" in line and "web1" in line)
        assert "running" in tap and "8.00 k" in tap and "16.0 k" in tap
        assert any("VF 0 of ens1f0" in line for line in drawn)
        words = " ".join(" ".join(drawn).replace("│", " ").split())
        assert "veth5, MTU 1500 at both ends · port veth5 of vmbr0" in words
        await screen.press("o")
        assert panes(screen) == (True, False)


async def test_guests_of_a_silent_host_have_no_rates_and_their_age() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o")
        assert BEFORE_SILENCE not in "".join(screen.drawn())
        lost = SourceState("lost", "pve: connection reset", 4.0)
        await receive_from(screen, hosts, "pve", lost)
        screen.nictop.hosts.count_down()
        await screen.settle()
        drawn = screen.drawn()
        assert any(BEFORE_SILENCE in line for line in drawn)
        tap = next(line for line in drawn if "tap101i0" in line and "web1" in line)
        assert "8.00 k" not in tap and "16.0 k" not in tap


async def test_a_host_without_guests_has_no_third_view() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("down", "o", "o")
        assert panes(screen) == (True, False)
        assert not screen.app.screen.query_one(OverviewPane).virtual
        view = screen.app.screen
        assert isinstance(view, HostsScreen)
        view.action_guests()
        await screen.settle()
        assert any("No guests are known" in line for line in shown(screen))


async def test_the_table_below_the_hosts_keeps_the_focus() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        view = screen.app.screen
        view.query_one(OverviewTable).focus()
        await screen.settle()
        seen = []
        for _ in range(3):
            await screen.press("o")
            seen.append(type(view.focused))
        assert seen == [OverviewTable, GuestTable, OverviewTable]


async def test_what_is_chosen_is_measured() -> None:
    """A guest, an interface or a host of this view, not what is selected on Devices."""
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        view = screen.app.screen
        assert isinstance(view, HostsScreen)
        await screen.press("down")
        assert view.measured == ("vm2", "", "")
        await screen.press("up", "o", "o")
        view.query_one(GuestTable).focus()
        await screen.settle()
        guest = view.query_one(GuestPane).chosen
        assert guest is not None and guest.shown_link is not None
        assert view.measured == ("pve", guest.shown_link.name, guest.guest.name)
        request = screen.app._measurement(view.measured)
        assert (request.client, request.guest) == ("pve", guest.guest.name)
        assert request.observers == ("vm2",) and request.test == "manual"
        await screen.press("e")
        entry = f"Measure what {guest.text} sends and receives (b)"
        assert entry in "\n".join(screen.drawn())
        await screen.press("escape", "o")
        row = view.query_one(OverviewPane).chosen
        assert row is not None and row.link is not None
        assert view.measured == (row.end.host, row.link.name, "")


async def test_another_host_shows_its_guests() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "down")
        assert not any("tap101i0" in line for line in shown(screen))
        await screen.press("up")
        assert any("tap101i0" in line for line in shown(screen))


async def test_filter_and_order() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "slash", *"web1", "enter")
        assert len(shown(screen)) == 2
        await screen.press("s")
        await screen.press("escape")
        assert len(shown(screen)) == 8
        screen.app.screen.sort_table("rx")  # type: ignore[attr-defined]
        await screen.settle()
        assert shown(screen)[0].startswith("web1") and "VF 0" in shown(screen)[0]


def test_how_a_guest_is_reached() -> None:
    """As written on the command line; names that cannot be written are not."""
    host = Host("pve", "pve.example", user="root", allow_changes=True)

    def written(**fields: object) -> str:
        found = host_of_guest(host, replace(WEB1, **fields))  # type: ignore[arg-type]
        assert found is None or (found.user, found.allow_changes) == ("root", False)
        return found.label if found is not None else ""

    assert written() == "pve/web1"
    assert written(name="web 1") == "pve/101"
    assert written(name="docker:x", id="-1") == ""
    assert written(name="db", product="docker", id="a" * 64) == "pve/docker:db"
    assert written(name="ct1", product="lxc", id="105") == "pve/lxc:105"
    assert written(name="ct1", product="lxc", id="") == "pve/lxc:ct1"
    assert written(name="c1", product="lxd") == "pve/incus:c1"
    assert written(name="blue", product="netns", id="") == "pve/netns:blue"
    assert written(product="cloud-hypervisor") == ""


async def test_enter_watches_the_guest_then_shows_its_devices() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "tab", "tab")
        table = screen.app.screen.query_one(GuestTable)
        table.choose_index(3)
        table.focus()
        await screen.press("enter")
        assert list(screen.app.nictop.hosts.by_name) == ["pve", "vm2", "pve/web1"]
        await screen.press("enter")
        assert screen.app.nictop.hosts.chosen == "pve/web1"


async def test_all_guests_that_run_are_watched() -> None:
    """Each once; the stopped one is not."""
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        for _ in range(2):
            await screen.press("e", *3 * ["down"], "enter")
            names = list(screen.app.nictop.hosts.by_name)
            assert names == ["pve", "vm2", "pve/lxc:105", "pve/db1", "pve/web1"]
        none = replace(hypervisor_inventory(), guests=())
        hosts["vm2"].send(Line(inventory=none))
        await wait_until(screen, lambda: hosts["vm2"].is_drained)
        await screen.press("down", "w")
        await screen.settle()
        assert "no guest of vm2 that runs can be watched" in "\n".join(screen.drawn())


async def test_guests_that_are_not_read_are_not_none() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await screen.press("5", "w")
        await screen.settle()
        assert "the guests of pve are not known: not read yet" in "\n".join(screen.drawn())
        hidden = {"guests": Unreadable("needs_root")}
        hosts["pve"].send(
            hello(), Line(inventory=replace(hypervisor_inventory(), guests=None, unreadable=hidden))
        )
        await wait_until(screen, lambda: hosts["pve"].is_drained)
        await screen.press("w")
        await screen.settle()
        assert "the guests of pve are not known: needs root" in "\n".join(screen.drawn())


async def test_a_guest_that_is_watched_by_its_number_is_not_watched_again() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        assert screen.app.nictop.hosts.add("pve/101") == ""
        assert screen.app.nictop.hosts.watch_guests("pve", [WEB1]) == ""
        assert list(screen.app.nictop.hosts.by_name) == ["pve", "vm2", "pve/101"]


async def test_a_stopped_guest_is_not_watched() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "tab", "tab")
        table = screen.app.screen.query_one(GuestTable)
        table.choose_index(table.count - 1)
        table.focus()
        await screen.press("enter")
        assert list(screen.app.nictop.hosts.by_name) == ["pve", "vm2"]
        assert "VM old is stopped" in "\n".join(screen.drawn())


@pytest.mark.parametrize(("number", "opened"), [(3, "tap101i0"), (4, "ens1f0"), (1, "ens1f0")])
async def test_the_menu_shows_the_link_of_the_guest(number: int, opened: str) -> None:
    """A tap, or the physical function of a VF, or the link below a macvlan."""
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "tab", "tab")
        screen.app.screen.query_one(GuestTable).choose_index(number)
        screen.app.screen.query_one(GuestTable).focus()
        await screen.press("e")
        await screen.press("end", "enter")
        assert (screen.chosen() or "").startswith(opened)


async def test_guests_are_in_the_palette_until_they_are_watched() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)

        def offered() -> list[PaletteEntry]:
            found = NictopCommands(screen.app.screen)._commands()
            return [one for one in found if one.text.startswith("Host: Watch ")]

        wanted = ["container ct1 of pve", "VM db1 of pve", "VM web1 of pve"]
        assert [one.text for one in offered()] == [f"Host: Watch {name}" for name in wanted]
        await invoke(offered()[1].run)
        assert "pve/db1" in screen.app.nictop.hosts.by_name
        assert len(offered()) == 2


# ------------------------------------------------------------------------------------------- agents


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_what_the_agents_tell_is_in_the_details(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked from the menu, and only then."""
    told = AgentFacts("Windows Server 2022", cpus=4, is_windows=True)

    async def ask(session: HostSession, snapshot: Snapshot) -> AgentsTold:
        found = {guest_key(WEB1): told}
        session.note_agents(found)
        return found

    monkeypatch.setattr("nictop.hosts.agents.ask_agents", ask)
    async with screen_with_hosts("pve", "vm2", size=size) as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "tab", "tab")
        table = screen.app.screen.query_one(GuestTable)
        table.choose_index(3)
        table.focus()
        assert "Windows" not in "\n".join(screen.drawn())
        await screen.press("e", *4 * ["down"], "enter")
        await wait_until(screen, lambda: "Windows Server 2022" in "\n".join(screen.drawn()))
        drawn = screen.drawn()
        assert max(map(len, drawn)) <= size[0]
        assert "cannot be watched: Windows" in " ".join(line.strip(" │|") for line in drawn)


async def test_why_a_watched_guest_is_not_read_is_in_the_details() -> None:
    async with screen_with_hosts("pve", "vm2") as (screen, hosts):
        await hosts_view(screen, hosts)
        await screen.press("o", "o", "tab", "tab")
        table = screen.app.screen.query_one(GuestTable)
        table.choose_index(3)
        table.focus()
        await screen.press("enter")
        why = "a Windows guest: nictop reads Linux"
        await receive_from(screen, hosts, "pve/web1", SourceState("failed", why))
        assert f"watched as pve/web1: {why}" in "\n".join(screen.drawn())
