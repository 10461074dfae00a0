"""Several hosts on one screen: what one of them does or fails to do never takes anything from the
others."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.model.columns.overview import COLUMNS
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Address, ChangeLine, Line, Outdated, Request
from nictop.rules import Diagnosis, Skipped
from nictop.rules.unchecked import NOT_CHECKED_AGAIN
from nictop.tui.screens.dialogs.dialog import OVER_TITLE
from nictop.tui.screens.dialogs.menu import MenuEntry, MenuScreen
from nictop.tui.screens.dialogs.question import NOT_WAITING, QuestionScreen
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base import button_row
from nictop.tui.widgets.base.button_row import ButtonRow
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import FindingList
from nictop.tui.widgets.status.host_table import HostTable
from nictop.wire.budget import OVERLOADED_MESSAGE
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Question
from tests.support.dialogs import button_labels, dialog_text
from tests.support.findings import finding
from tests.support.hostile import SHORT as HOSTILE
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, ScriptedHosts, screen_with_hosts, wait_until


def nics(*names: str, address: str = "") -> Line:
    """An inventory with NICs from ifindex 2 on, the first one with an address."""
    known = (Address("ipv4", address, 24, "global", ()),) if address else ()
    links = [
        link(number, name, bus="pci", addresses=known if number == 2 else ())
        for number, name in enumerate(names, 2)
    ]
    return inventory(link(1, "lo", type=772, flags=0x49), *links)


async def receive_from(
    screen: Screen, hosts: ScriptedHosts, name: str, *items: Line | SourceState
) -> None:
    """Let a host say something, and wait until it is in the picture."""
    hosts[name].send(*items)
    await wait_until(screen, lambda: hosts[name].is_drained)
    await screen.settle()
    await wait_until(screen, lambda: not screen.nictop.hosts.pending)
    await screen.settle()


async def two(screen: Screen, hosts: ScriptedHosts) -> None:
    await receive_from(screen, hosts, "vm1", hello(), nics("ens192", "ens224", address="192.0.2.1"))
    await receive_from(
        screen, hosts, "vm2", hello(), nics("eth0", "eth1", "eth2", address="192.0.2.2")
    )
    for name in ("vm1", "vm2"):
        await receive_from(
            screen, hosts, name, counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000_000, 0)})
        )


async def test_hosts_are_named_with_the_event_that_their_values_are_older_than() -> None:
    async with screen_with_hosts("vm1", "vm2", "vm3", size=(200, 40)) as (screen, hosts):
        for name in ("vm1", "vm2", "vm3"):
            await receive_from(screen, hosts, name, hello(), nics("eth0"))
        await screen.show_diagnosis(Diagnosis((finding(severity="warning"),), ()))
        for name in ("vm1", "vm3"):
            await receive_from(screen, hosts, name, Line(outdated=Outdated(1e6, "default route")))
        changed = ChangeLine(1e6, "x", "applied")
        await receive_from(screen, hosts, "vm2", Line(change=changed))
        await screen.press("4")
        drawn = " ".join(" ".join(screen.drawn()).split())
        assert "vm1, vm3: read before an event · vm2: read before it" in drawn


async def test_a_host_of_which_nothing_comes_stays_named_in_the_title_of_findings() -> None:
    """The words on it vanished when the connection was lost, when they are needed most."""
    async with screen_with_hosts("vm1", "vm2", size=(200, 40)) as (screen, hosts):
        await two(screen, hosts)
        await screen.show_diagnosis(Diagnosis((finding(severity="warning"),), ()))
        await screen.press("4")
        lost = SourceState("lost", "connection timed out", 4.0)
        await receive_from(screen, hosts, "vm2", lost)
        screen.nictop.hosts.count_down()
        await wait_until(screen, lambda: "vm2: no data" in "\n".join(screen.drawn()))
        await receive_from(screen, hosts, "vm1", lost)
        screen.nictop.hosts.count_down()
        await wait_until(screen, lambda: "no data of 2 hosts" in "\n".join(screen.drawn()))


def hosts_line(screen: Screen) -> str:
    return screen.drawn()[1]


# -------------------------------------------------------------------------------- one after another


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_first_host_is_shown_and_all_are_named(size: tuple[int, int]) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        await two(screen, hosts)
        assert "[● vm1]" in hosts_line(screen)
        assert " ● vm2 " in hosts_line(screen)
        assert any("ens192" in line for line in screen.lines())
        assert not any("eth0" in line for line in screen.lines())


async def test_another_host_is_a_key_away_and_the_cursor_waits_where_it_was() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("down")
        assert screen.chosen() == "ens224"
        await screen.press("right_square_bracket")
        assert "[● vm2]" in hosts_line(screen)
        assert screen.chosen() == "eth0"
        assert any("1.00 G" in line for line in screen.lines() if "eth0" in line)
        await screen.press("end", "left_square_bracket")
        assert screen.chosen() == "ens224"
        await screen.press("greater_than_sign")
        assert screen.chosen() == "Virtual interfaces"


async def test_the_next_host_shows_the_interface_of_the_same_name() -> None:
    """Also behind a host that has none of that name, and though another one was chosen there
    before."""
    async with screen_with_hosts("vm1", "vm2", "vm3") as (screen, hosts):
        for name, names in (
            ("vm1", ("ens1", "ens2")),
            ("vm2", ("ens1",)),
            ("vm3", ("ens0", "ens1", "ens2")),
        ):
            await receive_from(
                screen, hosts, name, hello(), nics(*names), counters(1.0, {2: (0, 0)})
            )
        for view in ("1", "2", "3"):
            await screen.press(view)
            for key, expected in (
                ("right", "ens2"),
                ("]", "ens1"),
                ("]", "ens2"),
                ("left", "ens1"),
                ("]", "ens1"),
            ):
                await screen.press({"]": "right_square_bracket"}.get(key, key))
                assert screen.chosen() == expected
        assert "[● vm1]" in hosts_line(screen)


async def test_only_the_probe_that_somebody_looks_at_reads_queues() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        assert hosts["vm1"].requests[-1] == Request(watch=(2,))
        assert hosts["vm2"].requests == []
        await screen.press("3", "o", "right_square_bracket")
        await wait_until(screen, lambda: Request(machine=True) in hosts["vm2"].requests)
        assert hosts["vm1"].requests[-1] == Request(watch=(), machine=False)
        assert Request(watch=(2,)) in hosts["vm2"].requests


async def test_the_interval_is_that_of_all_hosts() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("plus")
        assert hosts["vm1"].requests[-1] == hosts["vm2"].requests[-1] == Request(interval=0.5)


async def test_a_frozen_picture_is_frozen_on_every_host() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("space")
        await receive_from(screen, hosts, "vm2", counters(3.0, {2: (125_000_000, 0)}))
        await screen.press("right_square_bracket")
        assert any("1.00 G" in line for line in screen.lines() if "eth0" in line)
        await screen.press("space")
        assert not any("1.00 G" in line for line in screen.lines() if "eth0" in line)


async def test_with_one_host_there_is_no_trace_of_others() -> None:
    async with screen_with_hosts("vm1") as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics("ens192"))
        assert "[" not in hosts_line(screen)
        assert "5 Hosts 6" in screen.drawn()[0]
        await screen.press("right_square_bracket")
        live = screen.app.screen
        assert isinstance(live, LiveScreen)
        assert live.view == "devices"


# --------------------------------------------------------------------------------------- in trouble


async def test_a_host_that_fails_is_said_and_the_others_go_on() -> None:
    async with screen_with_hosts("vm1", "pve") as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics("ens192"))
        await receive_from(
            screen, hosts, "pve", SourceState("failed", "no python3 there; dnf install python3")
        )
        assert "✖ pve failed" in hosts_line(screen)
        await receive_from(
            screen, hosts, "vm1", counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000_000, 0)})
        )
        assert any("1.00 G" in line for line in screen.lines() if "ens192" in line)
        await screen.press("right_square_bracket")
        assert "dnf install python3" in screen.lines(FindingsPanel)[0]


async def test_a_host_that_failed_has_no_values_of_the_host_before() -> None:
    async with screen_with_hosts("vm1", "pve", size=WIDE) as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics("ens192"))
        await receive_from(
            screen, hosts, "vm1", counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000_000, 0)})
        )
        assert any("RX 1.00 Gb/s" in line for line in screen.drawn())
        await receive_from(screen, hosts, "pve", SourceState("failed", "no python3 there"))
        await screen.press("right_square_bracket")
        await screen.settle()
        assert not [line for line in screen.drawn() if "b/s" in line or "┤" in line]


async def test_a_host_that_failed_is_marked_the_same_everywhere_and_offers_nothing_to_open() -> (
    None
):
    async with screen_with_hosts("vm1", "pve", size=NARROW) as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics("ens192"))
        assert "Enter Open" in screen.drawn()[-1]
        await receive_from(screen, hosts, "pve", SourceState("failed", "no python3 there"))
        await screen.press("greater_than_sign")
        *_, processors, worst, keys = screen.drawn()
        assert "[✖ pve failed" in hosts_line(screen)
        assert worst.startswith(" ✖ no python3 there")
        assert "no rates yet" not in processors and "not read" in processors
        assert not any(hint in keys for hint in ("Enter Open", "/ Filter", "o View"))
        await screen.press("enter")
        assert not screen.app.screen.has_class("-detail")
        await screen.press("less_than_sign")
        assert "Enter Open" in screen.drawn()[-1] and "o View" in screen.drawn()[-1]


async def test_a_source_that_breaks_is_a_host_that_failed() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        hosts["vm2"].send(None)  # type: ignore[arg-type]  # as a bug of ours would
        await wait_until(screen, lambda: "✖ vm2 failed" in hosts_line(screen))
        await receive_from(screen, hosts, "vm1", nics("ens300"))
        assert any("ens300" in line for line in screen.lines())


@pytest.mark.parametrize("view", ["1", "5"])
async def test_all_lines_of_a_screen_tell_the_same_seconds(
    monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    """They are drawn one after the other, and each read the clock: ``2 s`` was above ``1 s``."""
    async with screen_with_hosts("vm1", size=NARROW) as (screen, hosts):
        await screen.press(view)
        began = time.monotonic()
        ticks = itertools.count()

        def later() -> float:
            return began + 30 + 1.3 * next(ticks)

        monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", later)
        hosts["vm1"].send(
            SourceState("connecting"), SourceState("connecting", stage="login", target="root")
        )
        await wait_until(screen, lambda: "logging in, " in "\n".join(screen.drawn()))
        for _ in range(3):
            screen.nictop.hosts.count_down()
            await screen.settle()
            seconds = re.findall(r"(?:logging in, |log in .* )(\d+) s", "\n".join(screen.drawn()))
            assert len(seconds) > 1 and len(set(seconds)) == 1, "\n".join(screen.drawn())


async def test_lost_values_are_grey_and_old_and_the_next_attempt_is_counted_down() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        live = screen.app.screen
        await receive_from(
            screen, hosts, "vm1", SourceState("lost", "vm1: connection timed out; is it up?", 4.0)
        )
        notice = screen.lines(FindingsPanel)[0].strip()
        assert notice.startswith("✖ vm1: connection timed out; is it up? · reconnecting in ")
        assert re.search(r"no data for \d+ s +\(key 4\)$", notice)
        assert "✖ vm1 no answer, retry in" in hosts_line(screen)
        assert live.has_class("-stale")
        (row,) = [line for line in screen.lines() if "ens192" in line]
        assert "1.00 G" not in row, "a rate is one of now"
        await screen.press("right_square_bracket")
        assert not live.has_class("-stale")
        await screen.press("left_square_bracket")
        await receive_from(screen, hosts, "vm1", hello())
        assert not live.has_class("-stale")
        assert "does not answer" not in screen.lines(FindingsPanel)[0]


async def test_a_finding_that_was_not_checked_again_has_the_same_mark_everywhere() -> None:
    """In Devices, Hosts, their table of interfaces, the tab, the line at the bottom, and the list,
    where its page says why."""
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        old = replace(finding(subject="ens192"), host="vm1", ifindex=2, severity="warning")
        skipped = Skipped(old.rule, "vm1", "", "NetworkManager (D-Bus): not read yet")
        await screen.show_diagnosis(
            Diagnosis((), (skipped,), ("vm1", "vm2"), unchecked=(old,)),
        )
        assert "4 Findings ▲1?" in screen.drawn()[0]
        assert screen.lines(FindingsPanel)[0].startswith(" ? ")
        (row,) = [line for line in screen.lines() if "ens192" in line]
        assert "?" in row[:5] and "▲" not in row, row
        await screen.press("5")
        drawn = screen.drawn()[2:-2]
        assert any("▲1?" in line for line in drawn), drawn
        marked = [line for line in drawn if "vm1" in line and "ens192" in line]
        assert marked and all("▲ " not in line for line in marked), marked
        assert any("warning?" in line for line in marked), marked
        await screen.press("4")
        page = "\n".join(screen.drawn())
        assert "?" in screen.lines(FindingList)[0][:4], screen.lines(FindingList)
        assert "? warning" in page and "waiting on vm1: NetworkManager" in page, page
        assert f"{NOT_CHECKED_AGAIN}: NetworkManager (D-Bus): not read yet" in page, page


async def test_what_a_host_that_is_lost_shares_with_another_has_its_age() -> None:
    async with screen_with_hosts("vm1", "vm2", size=(200, 50)) as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        assert "is also on" not in "\n".join(screen.drawn())
        shares = "vm1 ens192 shares 192.0.2.0/24 with vm2 eth0"
        await wait_until(screen, lambda: shares in "\n".join(screen.drawn()))
        assert "(no data" not in "\n".join(screen.drawn())
        lost = SourceState("lost", "vm2: connection timed out", 4.0)
        await receive_from(screen, hosts, "vm2", lost)
        drawn = "\n".join(screen.drawn())
        assert re.search(rf"{shares} \(no data for \d+ s\)", drawn), drawn


async def test_many_hosts_have_the_chosen_one_in_sight() -> None:
    names = [f"host{number:02}" for number in range(40)]
    async with screen_with_hosts(*names, size=NARROW) as (screen, hosts):
        await receive_from(screen, hosts, "host00", hello(), nics("ens192"))
        for _ in range(20):
            await screen.press("right_square_bracket")
        assert "host20" in hosts_line(screen)
        assert " +" in hosts_line(screen)
        assert len(hosts_line(screen)) == NARROW[0]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_no_text_of_a_host_is_obeyed(glyphs: Glyphs) -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW, glyphs=glyphs) as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics(HOSTILE))
        await receive_from(screen, hosts, "vm2", SourceState("failed", HOSTILE))
        for key in ("5", "right_square_bracket", "down", "escape"):
            await screen.press(key)
            drawn = "".join(screen.drawn())
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
            assert drawn.isascii() or not glyphs.is_ascii


# ----------------------------------------------------------------------------------------- overview


async def test_the_overview_has_every_nic_of_every_host() -> None:
    async with screen_with_hosts("vm1", "vm2", "pve") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        shown = [line.split()[:2] for line in screen.lines(OverviewTable)]
        assert shown == [
            ["vm1", "ens192"],
            ["vm1", "ens224"],
            *(["vm2", f"eth{n}"] for n in range(3)),
            ["pve", "not"],
        ]
        assert any("vm1 ens192 shares 192.0.2.0/24 with vm2 eth0" in row for row in screen.drawn())
        screen.app.screen.query_one(OverviewTable).focus()
        await screen.press("end", "up", "enter")
        assert "[● vm2]" in hosts_line(screen)
        assert screen.chosen() == "eth2"
        assert screen.app.screen.query_one(DeviceTable).has_focus


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_overview_of_hosts_with_virtual_links_alone_has_these(
    size: tuple[int, int],
) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        for name in ("vm1", "vm2"):
            links = inventory(link(1, "lo", type=772, flags=0x49), link(2, "veth0", kind="veth"))
            await receive_from(screen, hosts, name, hello(), links)
        await screen.press("5")
        table = screen.app.screen.query_one(OverviewTable)
        assert any("Interfaces: 2 · 2 virtual hidden (o)" in row for row in screen.drawn()) is (
            size == WIDE
        )
        assert [line.split()[1] for line in screen.lines(OverviewTable)] == ["veth0", "veth0"]
        assert any("vm1 veth0: no peer found on other hosts" in row for row in screen.drawn())
        await screen.press("o")
        assert table.border_title == "Interfaces: 4"


async def test_the_overview_marks_the_worst_finding_of_each_nic() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        findings = (
            finding(host="vm2", subject="eth1", severity="critical"),
            finding(host="vm2", subject="eth1"),
            finding(host="vm1", subject="ens192", severity="info"),
        )
        ifindexes = {"eth1": 3, "ens192": 2}
        about_links = tuple(replace(one, ifindex=ifindexes[one.subject]) for one in findings)
        await screen.show_diagnosis(Diagnosis(about_links, ()))
        await screen.press("5")
        lines = screen.lines(OverviewTable)
        assert [line[1] for line in lines] == ["·", " ", " ", "✖", " "]
        assert "critical" in lines[3]
        assert "info" in lines[0]


async def test_columns_without_room_are_counted_in_the_header() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        header = next(row for row in screen.drawn() if " NIC " in row)
        for title in ("HOST", "LINK", "RX b/s", "TX b/s", "drops", "drops/s"):
            assert title in header
        assert re.search(r" \+\d+▸$", header)


async def test_only_a_table_that_a_key_scrolls_has_the_arrow_of_more_columns() -> None:
    async with screen_with_hosts("vm1", "vm2", size=(60, 20)) as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        headers = {
            title: next(row for row in screen.drawn() if title in row).rstrip()
            for title in (" STATE ", " NIC ")
        }
        assert re.search(r" \+\d+$", headers[" STATE "])
        assert re.search(r" \+\d+▸$", headers[" NIC "])
        await screen.press("1", "enter", "enter")
        header = next(row for row in screen.drawn() if " PROCESS " in row).rstrip()
        assert re.search(r" \+\d+$", header), header


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_every_column_can_be_reached(size: tuple[int, int]) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        table = screen.app.screen.query_one(OverviewTable)
        table.focus()
        seen: set[str] = set()
        for key in ("right",) * len(COLUMNS):
            seen |= {column.key for column in table._columns}
            await screen.press(key)
        assert seen == {column.key for column in COLUMNS}
        (header,) = [row for row in screen.drawn() if " NIC " in row]
        assert "◂ HOST" in header and "▸" not in header and " MAC" in header
        for _ in COLUMNS:
            await screen.press("left")
        (header,) = [row for row in screen.drawn() if " NIC " in row]
        assert "◂" not in header and "LINK" in header
        y = screen.drawn().index(header)
        await screen.pilot.click(offset=(header.index("▸"), y))
        assert "◂" in screen.drawn()[y] and "LINK" not in screen.drawn()[y]
        await screen.pilot.click(offset=(screen.drawn()[y].index("◂"), y))
        assert screen.drawn()[y] == header
        await screen.press("right")
        await screen.pilot.resize_terminal(300, 50)
        assert not any("◂ HOST" in row for row in screen.drawn())


async def test_the_title_of_the_sorted_column_has_its_mark() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        table = screen.app.screen.query_one(OverviewTable)
        for column in table._columns:
            table.sort_by(column.key, descending=True)
            await screen.settle()
            assert any(f"{column.title}▾" in row for row in screen.drawn()), column.title


async def test_clicks_in_the_overview() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        lines = (
            link(2, "ens192", bus="pci"),
            link(3, "ens224", bus="pci"),
            link(5, "veth0", kind="veth"),
        )
        await receive_from(screen, hosts, "vm1", inventory(*lines, time=9.0))
        await screen.press("5")
        table = screen.app.screen.query_one(OverviewTable)
        rows = screen.drawn()
        y = next(number for number, row in enumerate(rows) if "Interfaces: " in row)
        await screen.pilot.click(offset=(rows[y].index("Interfaces"), y))
        assert table.order.column == "" and "hidden" in screen.drawn()[y]
        await screen.pilot.click(offset=(rows[y].index("hidden"), y))
        await screen.settle()
        assert "hidden" not in screen.drawn()[y] and table.order.column == ""
        await screen.pilot.click(offset=(10, y + 3))
        assert table.index == 1 and screen.app.screen.query(OverviewTable)
        await screen.pilot.click(offset=(10, y + 3))
        await screen.settle()
        assert screen.app.screen.query(DeviceTable) and screen.chosen() == "ens224"


async def test_filtering_changes_no_width() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        table = screen.app.screen.query_one(OverviewTable)
        before = table.region.width
        await screen.press("slash", *"ens")
        assert table.region.width == before


async def test_the_overview_is_sorted_by_a_column_and_stands_still() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5")
        table = screen.app.screen.query_one(OverviewTable)
        while table.order.column != "name":
            await screen.press("s")
        assert [line.split()[1] for line in screen.lines(OverviewTable)] == [
            "ens192",
            "ens224",
            "eth0",
            "eth1",
            "eth2",
        ]
        await screen.press("S")
        assert screen.lines(OverviewTable)[0].split()[1] == "eth2"
        while table.order.column != "in":
            await screen.press("s")
        order = [line.split()[:2] for line in screen.lines(OverviewTable)]
        await receive_from(
            screen, hosts, "vm1", counters(3.0, {2: (125_000_000, 0), 3: (900_000_000, 0)})
        )
        assert [line.split()[:2] for line in screen.lines(OverviewTable)] == order


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_filter_says_what_it_does_not_understand(size: tuple[int, int]) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5", "slash", *"eth1")
        assert [line.split()[1] for line in screen.lines(OverviewTable)] == ["eth1"]
        await screen.press("x")
        assert screen.lines(OverviewTable) == [" No matches (Esc clears the filter)"]
        await screen.press("backspace", *(" ", "q", "equals_sign", "3"))
        assert any('unknown key "q"; keys: ' in row for row in screen.drawn())
        await screen.press("escape")
        assert len(screen.lines(OverviewTable)) == 5
        assert screen.app.screen.query_one(OverviewTable).has_focus
        await screen.press("escape")
        assert screen.app.screen.query_one(DeviceTable).has_focus


async def test_a_filter_stays_after_enter_and_a_slash_in_it_is_a_slash() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5", "slash", *"address:192.0.2.2/32", "enter")
        assert screen.app.screen.query_one("#nic-filter", TextInput).value == "address:192.0.2.2/32"
        assert [line.split()[:2] for line in screen.lines(OverviewTable)] == [["vm2", "eth0"]]


# -------------------------------------------------------------------------------------------- hosts


def facts(screen: Screen) -> str:
    view = screen.app.screen.query_one("#host-facts", LineWidget)
    return "\n".join("".join(text for text, _ in line) for line in view.lines)


async def test_the_hosts_screen_says_how_each_host_is_and_what_to_do() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics("ens192"))
        await receive_from(
            screen, hosts, "vm2", SourceState("failed", "no python3 there; dnf install python3")
        )
        await screen.press("5")
        assert isinstance(screen.app.screen, HostsScreen)
        table = screen.lines(HostTable)
        assert "vm1" in table[0] and "live" in table[0] and "vm1.example" in table[0]
        assert "vm2" in table[1] and "failed" in table[1]
        assert facts(screen).startswith(" root · Linux ")
        await screen.press("down")
        assert "dnf install python3" in facts(screen)
        await screen.press("enter")
        assert "[✖ vm2 failed: no python3 there]" in hosts_line(screen)


async def test_a_host_is_added_while_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with screen_with_hosts("vm1") as (screen, hosts):
        await receive_from(screen, hosts, "vm1", hello(), nics("ens192"))
        await screen.press("5", "e", "enter", *"pve=root@pve:x", "enter")
        assert any("'x' is not a valid port" in row for row in screen.drawn())
        await screen.press("backspace", *"22", "enter")
        assert [source.name for source in hosts.sources] == ["vm1", "pve"]
        await receive_from(screen, hosts, "pve", hello(), nics("eno1"))
        await screen.press("e", "enter", *"vm1", "enter")
        assert any("a host with the label vm1 is already watched" in row for row in screen.drawn())
        await screen.press("escape", "escape", "right_square_bracket")
        assert screen.chosen() == "eno1"


async def test_a_host_is_removed_and_the_last_one_stays() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5", "e", "end", "enter")
        await wait_until(screen, lambda: hosts["vm1"].closed)
        assert [line.split()[1] for line in screen.lines(HostTable)] == ["vm2"]
        await screen.press("e")
        assert any("The last host stays" in row for row in screen.drawn())
        await screen.press("escape", "escape")
        assert screen.chosen() == "eth0"
        await wait_until(screen, lambda: "[" not in hosts_line(screen))


async def test_a_host_is_tried_again_at_once_and_keeps_its_past() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await receive_from(
            screen, hosts, "vm1", SourceState("lost", "vm1: connection timed out", 30.0)
        )
        await screen.press("5", "e", "down", "enter")
        await wait_until(
            screen, lambda: len([one for one in hosts.sources if one.name == "vm1"]) == 2
        )
        assert hosts.sources[0].closed
        await receive_from(screen, hosts, "vm1", hello(), counters(9.0, {2: (125_000_000, 0)}))
        await screen.press("escape")
        assert len(screen.nictop.hosts.session.history.series(("rx_bits", 2))) > 1
        assert "[● vm1]" in hosts_line(screen)


# ---------------------------------------------------------------------------------------- questions

KEY = Question(
    "host_key",
    "pve",
    "The host key of pve is not known.",
    secret=False,
    fingerprint="SHA256:abc+/xyz",
)
FILE = "/home/me/.ssh/known_hosts.d/lab"
PASSWORD = Question("password", "vm1", "Password for root on vm1")


async def asked(
    screen: Screen, hosts: ScriptedHosts, question: Question
) -> asyncio.Task[str | None]:
    """A question is on its way, and its dialog is shown when no other one is."""

    async def ask() -> str | None:
        return await hosts.asks[question.host](question)

    task = asyncio.ensure_future(ask())
    await wait_until(screen, lambda: isinstance(screen.app.screen, QuestionScreen))
    await screen.settle()
    return task


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("right", "enter"), "yes"),
        (("tab", "enter"), "yes"),
        (("left", "enter"), "yes"),
        (("right", "right", "enter"), None),
        (("enter",), None),
        (("right", "escape"), None),
        (("y", "e", "s", "enter"), None),
    ],
)
async def test_a_host_key_is_accepted_by_its_button_and_nothing_else(
    keys: tuple[str, ...], answer: str | None
) -> None:
    async with screen_with_hosts("vm1", "pve", size=NARROW) as (screen, hosts):
        task = await asked(screen, hosts, KEY)
        assert any("SHA256:abc+/xyz" in row for row in screen.drawn())
        await screen.press(*keys)
        assert await task == answer
        assert isinstance(screen.app.screen, LiveScreen)


@pytest.mark.parametrize(
    ("file", "says"),
    [(FILE, f"Trust adds the key to {FILE}."), ("", "Trust is valid until nictop quits.")],
)
async def test_the_dialog_names_the_file_that_a_host_key_is_added_to(file: str, says: str) -> None:
    async with screen_with_hosts("pve", size=NARROW) as (screen, hosts):
        task = await asked(screen, hosts, replace(KEY, file=file))
        assert any(says in row for row in screen.drawn())
        await screen.press("escape")
        assert await task is None


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_a_password_is_not_shown(glyphs: Glyphs) -> None:
    async with screen_with_hosts("vm1", size=NARROW, glyphs=glyphs) as (screen, hosts):
        task = await asked(screen, hosts, PASSWORD)
        await screen.press(*"hunter2")
        drawn = "".join(screen.drawn())
        assert "hunter2" not in drawn
        assert ("*" if glyphs.is_ascii else "•") * 7 in drawn
        assert drawn.isascii() or not glyphs.is_ascii
        await screen.press("enter")
        assert await task == "hunter2"


async def test_a_prompt_that_is_no_secret_is_shown() -> None:
    async with screen_with_hosts("vm1") as (screen, hosts):
        task = await asked(
            screen, hosts, Question("prompt", "vm1", "Token [red]serial[/]", secret=False)
        )
        await screen.press(*"1234")
        assert any("1234" in row for row in screen.drawn())
        assert any("Token [red]serial[/]" in row for row in screen.drawn())
        await screen.press("enter")
        assert await task == "1234"


async def test_questions_of_several_hosts_come_one_after_another() -> None:
    async with screen_with_hosts("vm1", "pve") as (screen, hosts):
        first = await asked(screen, hosts, PASSWORD)
        second = asyncio.ensure_future(hosts.asks["pve"](KEY))
        await screen.settle()
        assert any("vm1: password" in row for row in screen.drawn())
        await screen.press("x", "enter")
        assert await first == "x"
        await wait_until(
            screen, lambda: any("pve: unknown host key" in row for row in screen.drawn())
        )
        await screen.press("escape")
        assert await second is None


@pytest.mark.parametrize("question", [PASSWORD, KEY], ids=["password", "key"])
async def test_a_question_whose_caller_is_cancelled_stays_and_says_so(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closed under the hands of who typed the password: the rest were keys of the view."""
    monkeypatch.setattr(button_row, "NEW_STAGE_SECONDS", 0.0)
    async with screen_with_hosts("vm1", "pve") as (screen, hosts):
        first = await asked(screen, hosts, question)
        await screen.press("h", "u")
        first.cancel()
        await wait_until(screen, lambda: OVER_TITLE in "".join(screen.drawn()))
        assert NOT_WAITING[:50] in dialog_text(screen) and button_labels(screen) == ["OK"]
        await screen.press(*"nt2q")
        assert isinstance(screen.app.screen, QuestionScreen), "no key is for the view"
        assert isinstance(screen.app.focused, ButtonRow)
        await screen.press("enter")
        assert isinstance(screen.app.screen, LiveScreen)
        second = await asked(screen, hosts, KEY)
        await screen.press("escape")
        assert await second is None


async def test_the_next_question_takes_the_place_of_one_that_has_ended() -> None:
    """Of a host that is connected again and again while nobody is there."""
    async with screen_with_hosts("vm1", "pve") as (screen, hosts):
        for _ in range(3):
            question = await asked(screen, hosts, PASSWORD)
            await wait_until(screen, lambda: "vm1: password" in "".join(screen.drawn()))
            question.cancel()
            await wait_until(screen, lambda: OVER_TITLE in "".join(screen.drawn()))
        await screen.press("escape")
        await wait_until(screen, lambda: isinstance(screen.app.screen, LiveScreen))


async def test_a_question_that_ends_behind_another_dialog_says_so_later() -> None:
    async with screen_with_hosts("vm1", "pve") as (screen, hosts):
        question = await asked(screen, hosts, PASSWORD)
        above = MenuScreen("Above", [MenuEntry("An entry", lambda: None)])
        screen.app.push_screen(above)
        await wait_until(screen, lambda: screen.app.screen is above and above.is_open)
        question.cancel()
        await wait_until(
            screen,
            lambda: any(getattr(one, "has_ended", False) for one in screen.app.screen_stack),
        )
        await screen.press("escape")
        await wait_until(screen, lambda: OVER_TITLE in "".join(screen.drawn()))
        assert button_labels(screen) == ["OK"]


async def test_snapshots_of_many_hosts_are_drawn_together() -> None:
    """However much is received, the screens get the newest of each host, a few times a second."""
    names = [f"host{number}" for number in range(16)]
    async with screen_with_hosts(*names) as (screen, hosts):
        for name in names:
            hosts[name].send(hello(), nics("ens192"))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        costs: list[float] = []
        screen.nictop.hosts.changed.subscribe(lambda: costs.append(time.monotonic()))
        for name in names[1:]:
            for number in range(20):
                hosts[name].send(counters(float(number), {2: (number, 0)}))
        await wait_until(
            screen,
            lambda: all(len(one.history.times()) == 20 for one in screen.nictop.hosts.sessions[1:]),
        )
        assert len(costs) < 150 < 15 * 20


async def test_an_overloaded_host_is_said_everywhere_and_so_is_its_end() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await receive_from(
            screen, hosts, "vm1", SourceState("live", OVERLOADED_MESSAGE, overloaded=True)
        )
        assert "● vm1 overloaded" in hosts_line(screen) and "vm2 overloaded" not in hosts_line(
            screen
        )
        assert OVERLOADED_MESSAGE in " ".join(screen.drawn())
        await receive_from(screen, hosts, "vm1", nics("ens192", "ens224", address="192.0.2.1"))
        assert "overloaded: the host sends more data" in " ".join(screen.drawn())
        await screen.press("5")
        await wait_until(
            screen, lambda: any("overloaded" in line and "vm1" in line for line in screen.drawn())
        )
        assert OVERLOADED_MESSAGE in facts(screen).replace("\n ", " ")
        await screen.press("escape")
        await receive_from(screen, hosts, "vm1", SourceState("live", "", overloaded=False))
        assert not [line for line in screen.drawn() if "overloaded" in line]
        await receive_from(
            screen, hosts, "vm2", SourceState("live", OVERLOADED_MESSAGE, overloaded=True)
        )
        await receive_from(screen, hosts, "vm2", SourceState("lost", "gone", 60.0))
        assert "overloaded" not in hosts_line(screen)
