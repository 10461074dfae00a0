"""Long names and addresses on small screens: what tells two things apart stays in sight, whatever
is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Address, Line
from nictop.rules import Diagnosis
from nictop.tui.screens.dialogs.question import QuestionScreen
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.widgets.devices.connections import ConnectionList
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.page import FindingPage
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import FindingList
from nictop.tui.widgets.traffic.pair_table import PairTable
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Question
from tests.support.connections import busy_reading, line
from tests.support.findings import finding
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import Screen, ScriptedHosts, live_screen, screen_with_hosts, wait_until
from tests.tui.screens.live import test_connections

SIZES = [(60, 20), (80, 24), (120, 36), (200, 50)]
character_sets = pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
LONG = "a-virtual-machine-with-a-very-long-name-in-the-production-of-rack"
HOSTS = (f"{LONG}-1", "db", f"{LONG}-2", f"b{LONG}-1")
PORTS = ("enp129s15f7np0", "enp129s15f7np1", "enp129s15f7np2", "enp129s15f7np3v")


@pytest.fixture(autouse=True)
def no_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of whoever runs the tests are not shown."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def host(name: str, number: int) -> list[Line]:
    """A host with all `PORTS`, each in a network of its own with those of the other hosts."""
    greeting = hello()
    assert greeting.hello is not None
    ports = [
        link(
            place + 2,
            port,
            bus="pci",
            address=f"52:54:00:00:{place:02x}:{number:02x}",
            addresses=(
                Address(
                    "ipv6", f"2001:db8:1234:{place}:9abc:def0:1234:{number:x}", 64, "global", ()
                ),
            ),
        )
        for place, port in enumerate(PORTS)
    ]
    own = replace(greeting.hello, hostname=name, boot_id=name)
    traffic = {one.ifindex: (10_000, 10_000) for one in ports}
    return [
        replace(greeting, hello=own),
        inventory(*ports),
        counters(1.0, traffic),
        counters(2.0, traffic),
    ]


async def each_size(screen: Screen) -> AsyncIterator[tuple[int, int]]:
    """The screen in one size after the other."""
    for size in SIZES:
        await screen.pilot.resize_terminal(*size)
        await screen.settle()
        yield size


async def receive(screen: Screen, hosts: ScriptedHosts) -> None:
    for number, name in enumerate(HOSTS, 1):
        hosts[name].send(*host(name, number))
    await wait_until(
        screen,
        lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending,
    )
    await screen.settle()


def shown(
    screen: Screen, kind: type[DeviceTable] | type[OverviewTable] | type[PairTable]
) -> list[str]:
    """The rows of a list as they are drawn, without its titles and its cursor."""
    view = screen.app.screen.query_one(kind)
    region = view.content_region
    rows = screen.drawn()[region.y + 1 : region.bottom]
    return [
        row[region.x + 1 : region.right].rstrip()
        for row in rows
        if row[region.x + 1 : region.right].strip()
    ]


@character_sets
async def test_interfaces_that_differ_at_their_end_look_different(glyphs: Glyphs) -> None:
    async with live_screen(glyphs=glyphs) as screen:
        await screen.receive(*host("vm1", 1))
        async for _ in each_size(screen):
            rows = [row[2:].split()[0] for row in shown(screen, DeviceTable) if "np" in row]
            assert len(rows) == len(set(rows)) == len(PORTS), rows
            assert all(row[-1] == port[-1] for row, port in zip(rows, PORTS, strict=True)), rows


async def test_all_hosts_and_their_interfaces_look_different() -> None:
    async with screen_with_hosts(*HOSTS) as (screen, hosts):
        await receive(screen, hosts)
        await screen.press("5")
        assert isinstance(screen.app.screen, HostsScreen)
        async for _, height in each_size(screen):
            rows = shown(screen, OverviewTable)
            assert len(rows) >= min(4, height // 5), (
                "the facts of one interface leave room for the list"
            )
            ends = [tuple(row[2:].split()[:2]) for row in rows if "np" in row]
            assert len(set(ends)) == len(ends) > 2, rows
            hosts_shown = [
                row.partition("● ")[2].split()[0] for row in screen.drawn()[2:] if "● " in row
            ]
            assert len(set(hosts_shown)) == len(HOSTS), hosts_shown


@character_sets
async def test_the_list_of_findings_tells_hosts_apart_and_keeps_the_number_of_checks(
    glyphs: Glyphs,
) -> None:
    async with screen_with_hosts(*HOSTS, glyphs=glyphs) as (screen, hosts):
        await receive(screen, hosts)
        hosts["db"].send(SourceState("failed", "no python3"))
        await screen.press("4")
        found = tuple(finding(host=name, subject="ens224", title="is slow") for name in HOSTS)
        await screen.show_diagnosis(
            Diagnosis(found, (), tuple(name for name in HOSTS if name != "db"))
        )
        async for _ in each_size(screen):
            listed = screen.app.screen.query_one(FindingList)
            lines = ["".join(text for text, _ in one) for one in listed.lines]
            marks = [one.partition("ens224")[0] for one in lines if "ens224" in one]
            assert len(set(marks)) == len(HOSTS), lines
            row = screen.drawn()[screen.app.screen.query_one(FindingPage).region.y]
            assert "checks" in row, row


async def test_the_worst_finding_is_read_beside_a_long_host_name() -> None:
    async with screen_with_hosts(*HOSTS) as (screen, hosts):
        await receive(screen, hosts)
        await screen.show_diagnosis(
            Diagnosis((finding(host=HOSTS[0], subject="ens224", title="no carrier"),), ())
        )
        async for _ in each_size(screen):
            row = screen.drawn()[screen.app.screen.query_one(FindingsPanel).region.y]
            assert "ens224: no carrier" in row, row


@character_sets
async def test_a_path_keeps_both_interfaces_and_tells_its_hosts_apart(glyphs: Glyphs) -> None:
    async with screen_with_hosts(*HOSTS, glyphs=glyphs) as (screen, hosts):
        await receive(screen, hosts)
        await screen.press("6")
        await wait_until(screen, lambda: screen.app.screen.query_one(PairTable).count > 0)
        async for _ in each_size(screen):
            rows = shown(screen, PairTable)
            assert rows
            for row in rows:
                client, _, server = row.partition(glyphs.text(" ↔ "))
                name, colon, rest = server.strip().partition(":")
                assert client.strip().split(":")[-1] in PORTS and colon, row
                assert rest.split()[0] in PORTS, row
                assert client.split(":")[0].strip() != name, row


async def test_peers_and_ports_of_connections_are_in_sight() -> None:
    async with live_screen() as screen:
        await test_connections.begin(screen)
        reading = busy_reading()
        local, remote = (
            "2001:db8:1234:5678:9abc:def0:1234:9999",
            "2001:db8:1234:5678:9abc:def0:1234:5678",
        )
        named = tuple(
            replace(one, local=local, remote=remote, process="a-program-with-a-long-name")
            for one in reading.connections
        )
        await screen.receive(line(replace(reading, connections=named)))
        async for _ in each_size(screen):
            rows = screen.lines(ConnectionList)
            assert all(f":{50001 + place}" in row for place, row in enumerate(rows[:3])), rows[:3]
            title = next(row for row in screen.drawn() if "── tcp " in row)
            assert "99]:443 ↔ [20" in title and "]:50001 established" in title, title
            assert any("×18" in row for row in screen.drawn()), (
                "the number of connections of the program"
            )


async def test_the_end_of_what_is_typed_is_in_sight() -> None:
    async with live_screen() as screen:
        await screen.receive(*host("vm1", 1))
        await screen.press(
            "down", "e", "down", "down", *"2001:db8:1234:5678:9abc:def0:1234:5678/64"
        )
        async for _ in each_size(screen):
            row = next(one for one in screen.drawn() if "Address/prefix" in one)
            assert "def0:1234:5678/64▏" in row, row
        await screen.press("down")
        async for _ in each_size(screen):
            row = next(one for one in screen.drawn() if "Address/prefix" in one)
            assert "2001:db8:1234:5678" in row, row


@character_sets
async def test_the_field_of_a_question_has_a_label(glyphs: Glyphs) -> None:
    labels = {
        "password": "Password:",
        "passphrase": "Passphrase:",
        "prompt": "Answer:",
        "sudo": "Password:",
    }
    async with screen_with_hosts("vm1", glyphs=glyphs) as (screen, hosts):
        for kind, label in labels.items():
            question = Question(kind, "vm1", "Something of root at vm1", secret=kind != "prompt")  # type: ignore[arg-type]
            asking = asyncio.ensure_future(hosts.asks["vm1"](question))
            await wait_until(screen, lambda: isinstance(screen.app.screen, QuestionScreen))
            await screen.press(*"abc")
            async for _ in each_size(screen):
                typed = "abc" if kind == "prompt" else "***" if glyphs.is_ascii else "•••"
                assert any(f"{label} {typed}" in row for row in screen.drawn()), "\n".join(
                    screen.drawn()
                )
            await screen.press("enter")
            assert await asking == "abc"


async def test_a_host_without_interfaces_says_what_follows() -> None:
    async with live_screen((60, 20)) as screen:
        await screen.receive(hello(), inventory(), counters(1.0, {}), counters(2.0, {}))
        for key in ("1", "2", "3"):
            await screen.press(key)
            assert any(
                "No network interfaces; one that is added is shown at once" in row
                for row in screen.drawn()
            )
        await screen.press("1", "e")
        assert [one.message for one in screen.app._notifications] == [
            "alma-load-001 has no network interfaces."
        ]
