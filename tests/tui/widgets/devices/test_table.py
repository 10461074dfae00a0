"""The table of devices: which columns are there at any width, marks of findings, VFs with their
netdev, hidden rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nictop.model.devices.tree import device_tree, guides
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Line, PciFunction
from nictop.rules import Diagnosis, Finding, Skipped
from nictop.rules.by_device import device_findings
from nictop.tui.widgets.devices.detail import FactLines
from nictop.tui.widgets.devices.table import DeviceTable, merged
from nictop.tui.widgets.devices.table_layout import layout
from nictop.wire.source import SourceState
from tests.model.hosts import live_host
from tests.support.findings import finding
from tests.support.lines import counters, hello, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, probe_lines
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until

NICS = (
    link(1, "lo", type=772, flags=0x49),
    link(2, "ens192", bus="pci"),
    link(3, "ens224", bus="pci"),
    link(4, "br0", kind="bridge"),
)


def about(ifindex: int, severity: str = "warning", **fields: object) -> Finding:
    found = replace(finding(severity=severity), ifindex=ifindex)  # type: ignore[arg-type]
    return replace(found, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("packets", [False, True])
@pytest.mark.parametrize("width", [*range(4, 130), 200, 300])
def test_the_columns_fill_the_width_and_a_missing_one_is_said(width: int, packets: bool) -> None:
    shape = layout(width, packets=packets)
    used = 3 + shape.name + sum(column.width + 1 for column in shape.columns)
    used += (shape.graph + shape.gap if shape.graph else 0) + (3 if shape.missing else 0)
    assert used == width or shape.name == 1
    assert (shape.missing == 0) == (width >= (78 if packets else 74))


def test_all_columns_of_the_sketch_at_80_and_in_the_left_part_of_120() -> None:
    for width in (74, 80):
        assert layout(width, packets=False).gap == (2 if width == 80 else 1)
        assert [column.title for column in layout(width, packets=False).columns] == [
            "LINK",
            "PROFILE",
            "RX b/s",
            "TX b/s",
            "drops",
        ]
    assert [column.title for column in layout(80, packets=True).columns] == [
        "LINK",
        "RX pps",
        "TX pps",
        "drops/s",
        "rx missed/s",
        "errors/s",
    ]


def test_a_vf_and_its_netdev_are_one_row() -> None:
    rows = merged(device_tree(live_host()))
    lines = [guides(row) + row.title for row in rows]
    assert lines[2:7] == [
        "│ ├ ens224",
        "│ │ └ ens224.100",
        "│ ├ VF0 ens224v0",
        "│ ├ VF 1 02:10.2",
        "│ └ VF 7",
    ]
    vf = rows[4]
    assert (vf.key, vf.kind, vf.depth) == ("link:5", "link", 2)
    assert vf.vf is not None and vf.uplink is not None and vf.pci is not None
    assert all(len(row.prefix) == row.depth for row in rows)


def test_findings_by_device() -> None:
    others = (about(7, host="vm2"), finding(subject="0000:02:00.0"))
    found = device_findings(
        Diagnosis((about(2, "critical"), about(2), *others), ()), "alma-load-001"
    )
    assert [one.severity for one in found[2]] == ["critical", "warning"]
    assert found.keys() == {2, "0000:02:00.0"}
    assert device_findings(None, "alma-load-001") == {}


async def publish(screen: Screen, *findings: Finding) -> None:
    await screen.receive(hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}))
    await screen.show_diagnosis(Diagnosis(findings, ()))


def row_with(screen: Screen, name: str) -> str:
    return next(row for row in screen.drawn() if name in row)


async def test_the_mark_of_the_worst_finding_stands_before_the_nic() -> None:
    async with live_screen(NARROW) as screen:
        await publish(screen, about(2, "critical"), about(2), about(3, "info"), about(4))
        assert row_with(screen, " ens192 ").startswith("▸✖ ens192")
        assert row_with(screen, " ens224 ").startswith(" · ens224")
        assert row_with(screen, "Virtual interfaces").startswith(
            " ▲ Virtual interfaces ▸ 2 hidden (o)"
        )
        await screen.show_diagnosis(Diagnosis((), ()))
        assert row_with(screen, " ens192 ").startswith("▸  ens192")


async def test_a_finding_that_is_checked_again_leaves_its_row_unknown() -> None:
    """The driver may be bound by now: a cross would say that it is not."""
    async with live_screen(NARROW) as screen:
        doubtful = about(2, "critical", outdated=True)
        await publish(screen, doubtful, about(3, "warning", outdated=True), about(3, "warning"))
        assert row_with(screen, " ens192 ").startswith("▸? ens192")
        assert row_with(screen, " ens224 ").startswith(" ▲ ens224"), "one is not doubtful"


async def test_a_finding_about_the_function_of_a_nic_marks_its_row_in_every_list() -> None:
    """The panel of the interface shows it, so the mark before its name is that of it."""
    of_function = replace(finding(severity="warning", subject="0000:03:00.0"), host="alma-load-001")
    other = about(2, "critical", host="alma-load-001")
    async with live_screen(NARROW) as screen:
        nics = [replace(nic, pci_address=f"0000:0{nic.ifindex}:00.0") for nic in NICS[1:3]]
        line = inventory(*nics)
        assert line.inventory is not None
        functions = tuple(
            PciFunction(nic.pci_address or "", 0x020000, 0x8086, 0x10CA, None, None, None)
            for nic in nics
        )
        line = Line(inventory=replace(line.inventory, pci=functions))
        await screen.receive(hello(), line, counters(1.0, {2: (0, 0)}))
        await screen.show_diagnosis(Diagnosis((other, about(3, "info"), of_function), ()))
        assert row_with(screen, " ens192 ").startswith("▸✖")
        assert row_with(screen, " ens224 ").startswith(" ▲")
        await screen.press("slash", *"finding:warning", "enter")
        assert row_with(screen, " ens224 ").startswith("▸▲")
        await screen.press("escape")
        await screen.press("5")
        assert row_with(screen, " ens224 ").startswith(" ▲")


async def test_marks_in_ascii() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await publish(screen, about(2, "critical"), about(3), about(4, "info"))
        assert row_with(screen, " ens192 ").startswith(">X ens192")
        assert row_with(screen, " ens224 ").startswith(" ! ens224")
        assert row_with(screen, "Virtual").startswith(" i Virtual interfaces > 2 hidden (o)")
        assert [row for row in screen.drawn() if not row.isascii()] == []


async def test_findings_of_the_interface_are_in_its_panel() -> None:
    async with live_screen(WIDE) as screen:
        await publish(screen, about(3, title="is slow"))
        assert not any("Findings of this interface" in line for line in screen.lines(FactLines))
        await screen.press("down")
        lines = screen.lines(FactLines)
        place = next(
            number for number, line in enumerate(lines) if "Findings of this interface" in line
        )
        assert lines[place + 1] == " ▲ is slow"
        assert "nmcli con mod" in lines[place + 2]


async def test_interfaces_without_a_device_are_shown_where_there_are_no_others() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(NICS[0], NICS[3]))
        assert any("br0" in line for line in screen.lines())


async def test_a_hidden_interface_that_is_chosen_is_shown() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        screen.app.screen.query_one(DeviceTable).choose_link(4)
        assert screen.chosen() == "br0"


def names(screen: Screen) -> list[str]:
    return [line.split()[0] for line in screen.lines()]


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_click_on_a_title_sorts_the_devices(size: tuple[int, int]) -> None:
    """The order is that of the time of the click, until another one; the title of the devices
    brings the tree back."""
    nics = [
        link(number, name, bus="pci", mtu=9000)
        for number, name in ((2, "ens9"), (3, "ens10"), (5, "ens1"))
    ]
    async with live_screen(size) as screen:
        await screen.receive(hello(), inventory(*nics, NICS[3]))
        await screen.receive(counters(1.0, dict.fromkeys((2, 3, 5), (0, 0))))
        await screen.receive(counters(2.0, {2: (1000, 0), 3: (3000, 0), 5: (0, 9000)}))
        tree = names(screen)
        assert tree == ["ens9", "ens10", "ens1", "Virtual"]
        await screen.press("down")
        table = screen.app.screen.query_one(DeviceTable)
        left = table.content_region.x - table.region.x
        top = table.content_region.y - table.region.y

        async def click(title: str) -> str:
            header = "".join(text for text, _ in table._header or ())
            await screen.pilot.click(DeviceTable, offset=(left + header.index(title), top))
            await screen.settle()
            return "".join(text for text, _ in table._header or ())

        assert "RX b/s▾ TX b/s" in await click("RX b/s")
        assert names(screen) == ["ens10", "ens9", "ens1", "Virtual"]
        assert screen.chosen() == "ens10", "the cursor stays on its device"
        await screen.receive(counters(3.0, {2: (90_000, 0), 3: (3000, 0), 5: (0, 90_000)}))
        assert names(screen) == ["ens10", "ens9", "ens1", "Virtual"]
        assert "▴" in await click("RX b/s")
        assert names(screen) == ["ens10", "ens1", "ens9", "Virtual"]
        await click("TX b/s")
        assert names(screen)[0] == "ens1"
        assert not {"▴", "▾"} & set(await click("DEVICE"))
        assert names(screen) == tree


async def test_the_key_sorts_the_devices_by_one_column_after_the_other() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(
            hello(), inventory(*NICS[1:], link(9, "ens5", bus="pci", carrier=False))
        )
        tree = names(screen)
        await screen.press("s")
        assert names(screen)[0] != "ens5"
        await screen.press("S")
        assert names(screen)[0] == "ens5"
        assert "LINK▴" in screen.drawn()[2]
        await screen.press(*"sssss")
        assert names(screen) == tree
        await screen.press("S")
        assert names(screen) == tree


async def test_a_sorted_list_is_filtered_and_shows_virtual_interfaces() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(*NICS))
        await screen.press("s", "o", "enter")
        assert set(names(screen)) == {"ens192", "ens224", "br0", "lo"}
        await screen.press("slash", *"ens", "enter")
        assert set(names(screen)) == {"ens192", "ens224"}
        await screen.press("slash", "escape")
        assert set(names(screen)) == {"ens192", "ens224", "br0", "lo"}


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (40, 10), (120, 36), (200, 50)])
async def test_the_chosen_row_stays_in_sight(size: tuple[int, int]) -> None:
    """At every size there are a list and at least one line of facts."""
    async with live_screen((200, 60)) as screen:
        links = [link(number, f"ens{number}", bus="pci") for number in range(2, 40)]
        await screen.receive(hello(), inventory(*links))
        await screen.press("end", "up")
        await screen.pilot.resize_terminal(*size)
        await screen.settle()
        assert any(row.startswith("▸") and " ens38 " in row for row in screen.drawn())
        assert any("speed unknown" in row for row in screen.drawn())


async def test_a_narrow_header_says_how_many_columns_are_missing() -> None:
    async with live_screen((40, 10)) as screen:
        await screen.receive(hello(), inventory(*NICS))
        assert row_with(screen, "DEVICE").split() == [
            "DEVICE",
            "LINK",
            "RX",
            "b/s",
            "TX",
            "b/s",
            "+3",
        ]


async def test_much_room_has_the_charts_below_the_table() -> None:
    async with live_screen((200, 50)) as screen:
        await screen.receive(
            hello(), inventory(*NICS), counters(1.0, {2: (0, 0)}), counters(2.0, {2: (125_000, 0)})
        )
        rows = screen.drawn()
        received = next(
            number for number, row in enumerate(rows) if row.startswith(" RX 1.00 Mb/s")
        )
        assert received > next(
            number for number, row in enumerate(rows) if "Virtual interfaces" in row
        )
        assert any("-60 s" in row and "now" in row for row in rows[received:])


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_a_tap_has_the_nic_of_the_guest_behind_it(glyphs: Glyphs) -> None:
    """Below its bridge; the panel has the VLANs of its port. The NIC of the guest keeps its
    profile."""
    arrow = glyphs.encode("↔")
    case = json.loads(
        (CASES_DIRECTORY / "bridges" / "vlan_is_not_on_the_bridge_port.json").read_text()
    )
    async with screen_with_hosts("pve", "web1", size=WIDE, glyphs=glyphs) as (screen, hosts):
        for host in case["fires"][0]["hosts"]:
            hosts[host["name"]].send(*probe_lines(host))
        await wait_until(
            screen,
            lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending,
        )
        table = screen.app.screen.query_one(DeviceTable)
        table.choose_link(6)
        await screen.settle()
        assert any("tap100i0" in row and f"{arrow} web1 enp1s0" in row for row in screen.lines())
        facts = " ".join(" ".join(screen.lines(FactLines)).split())
        assert f"{arrow} web1 enp1s0 (learned on bridge); port fwpr100p0 of vmbr0: PVID 10" in facts
        await screen.press("right_square_bracket")
        await screen.settle()
        assert not any(arrow in row for row in screen.lines())


PORTS = tuple(
    link(number, f"eth{number}", bus="pci", pci_address=f"0000:0{number}:00.0")
    for number in (2, 3, 4)
)


def of_ports(*found: Finding) -> Diagnosis:
    """A diagnosis of vm1, in which a check was skipped."""
    return Diagnosis(found, (Skipped("a_rule", "vm1", "", "needs root"),), ("vm1",))


async def test_the_first_row_chosen_is_the_nic_with_the_worst_finding() -> None:
    partly = inventory(*PORTS)
    assert partly.inventory is not None
    partly = replace(partly, inventory=replace(partly.inventory, pending=("drivers",)))
    async with screen_with_hosts("vm1") as (screen, hosts):
        hosts["vm1"].send(SourceState("live"), hello(), partly)
        await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.inventory is not None)
        table = screen.app.screen.query_one(DeviceTable)
        for found in (
            (),
            (about(4, "info", host="vm1"),),
            (about(4, host="vm1"), about(2, "info", host="vm1")),
            (about(3, "critical", host="vm1"), about(4, host="vm1")),
        ):
            await screen.show_diagnosis(of_ports(*found))
            assert screen.chosen() == "eth2", "it moves once, when the checks have read all"
        hosts["vm1"].send(inventory(*PORTS, time=1.0))
        await wait_until(
            screen, lambda: screen.nictop.hosts.session.snapshot.inventory != partly.inventory
        )
        await screen.show_diagnosis(
            of_ports(about(3, "critical", host="vm1"), about(4, host="vm1"))
        )
        assert table.chosen is not None and table.chosen.title == "eth3"
        settled = table.chosen
        await screen.show_diagnosis(of_ports(about(2, "critical", host="vm1")))
        assert table.chosen == settled, "all was read: the row stays while it is being read"


async def test_a_row_that_the_user_has_chosen_stays() -> None:
    async with screen_with_hosts("vm1") as (screen, hosts):
        hosts["vm1"].send(SourceState("live"), hello(), inventory(*PORTS), counters(1.0, {}))
        await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.inventory is not None)
        await screen.press("down")
        table = screen.app.screen.query_one(DeviceTable)
        chosen = table.chosen
        await screen.show_diagnosis(of_ports(about(4, host="vm1")))
        assert table.chosen == chosen


@pytest.mark.parametrize("size", [NARROW, WIDE])
@pytest.mark.parametrize("nics", [3, 40])
async def test_page_down_scrolls_what_the_hint_says(size: tuple[int, int], nics: int) -> None:
    links = tuple(
        link(number + 2, f"eth{number}", bus="pci", device=f"d{number}") for number in range(nics)
    )
    async with live_screen(size) as screen:
        await screen.receive(hello(), inventory(*links), counters(1.0, {}))
        table, facts = (
            screen.app.screen.query_one(DeviceTable),
            screen.app.screen.query_one(FactLines),
        )
        assert facts.virtual_size.height > facts.size.height
        hint = screen.drawn()[facts.region.bottom - 1]
        before = table.index
        await screen.press("pagedown")
        if nics == 3:
            assert "▾ PgDn" in hint and facts.scroll_offset.y > 0 and table.index == before
            await screen.press("pageup")
            assert facts.scroll_offset.y == 0
        else:
            assert "▾ Tab PgDn" in hint and facts.scroll_offset.y == 0 and table.index != before
            await screen.press("tab", "pagedown")
            assert facts.scroll_offset.y > 0
            assert "Tab PgDn" not in screen.drawn()[facts.region.bottom - 1]


async def test_a_wide_screen_has_the_charts_in_the_rows_below_a_short_table() -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), inventory(*PORTS), counters(1.0, {}))
        rows = screen.drawn()
        table = screen.app.screen.query_one(DeviceTable).region
        free = [row for row in rows[5 : table.bottom + 20] if not row[: table.width].strip()]
        panel = screen.app.screen.query_one("#link").region
        assert any("-60 s" in row[: panel.x] for row in rows) and not any(
            "-60 s" in row[panel.x :] for row in rows
        )
        assert len(free) < 12
