"""Who uses the chosen NIC, on the screen: the probe reads it only while it is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import ContentSwitcher

from nictop.model.columns.connections import OTHER_PARTS
from nictop.model.text.glyphs import ASCII
from nictop.probe.records import Request
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.connections import ConnectionList
from nictop.wire.source import SourceState
from tests.support.connections import busy_reading, connection, line, of_plain_user
from tests.support.lines import counters, hello, inventory, link
from tests.support.recordings import host_items, write_recording
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import NARROW, Screen, live_screen, wait_until

NICS = (
    link(1, "lo", type=772, flags=0x49),
    link(2, "ens192", bus="pci"),
    link(3, "ens224", bus="pci", master=4),
)
BRIDGE = link(4, "br0", kind="bridge")
HOST = (
    hello(),
    inventory(*NICS, BRIDGE),
    counters(1.0, {2: (0, 0)}),
    counters(2.0, {2: (7_300_000, 117_500_000)}),
)


async def begin(screen: Screen) -> None:
    await screen.receive(*HOST)
    await screen.press("enter", "enter")


def requests(screen: Screen) -> list[tuple[int, ...]]:
    return [one.connections for one in screen.source.requests if one.connections is not None]


def shown(screen: Screen) -> str | None:
    return screen.app.screen.query_one("#views", ContentSwitcher).current


def texts(screen: Screen, name: str) -> list[str]:
    view = screen.app.screen.query_one(name, LineWidget)
    return ["".join(text for text, _ in one) for one in view.lines]


async def test_connections_of_a_lost_host_are_not_said_to_be_read() -> None:
    async with live_screen(NARROW) as screen:
        await begin(screen)
        assert "Reading connections…" in screen.lines(ConnectionList)[0]
        await screen.receive(SourceState("lost", "connection to guest lost", 5.0))
        host = screen.nictop.hosts.chosen
        said = f"Connections not read: {host} is not connected"
        assert said in screen.lines(ConnectionList)[0]
        await screen.receive(SourceState("live"), hello())
        assert "Reading connections…" in screen.lines(ConnectionList)[0]


async def test_enter_twice_shows_who_uses_the_nic() -> None:
    async with live_screen(NARROW) as screen:
        await begin(screen)
        assert requests(screen) == [(2,)]
        assert "Reading connections…" in screen.lines(ConnectionList)[0]
        assert "Reading connections…" in screen.drawn()[4], (
            "below the name of the NIC and the titles, without a gap"
        )
        await screen.receive(line(busy_reading()))
        rows = screen.lines(ConnectionList)
        assert (
            "568 M nginx" in rows[0]
            and "198.51.100.1:50001" in rows[0]
            and rows[0].rstrip().endswith("network")
        )
        users = texts(screen, "#connection-users")
        assert "RX 58.4 Mb/s · TX 940 Mb/s · TCP payload 90 %, other 10 %" in users[0]
        assert users[1].startswith(" nginx ×15") and "83 %" in users[1]
        assert users[4].startswith(" 1 more, other") and "10 %" in users[4]
        assert " ".join(map(str.strip, users[5:])).endswith(f"other: {OTHER_PARTS}")
        assert max(map(len, users)) <= NARROW[0]
        assert any("rtt 340 µs" in text for text in texts(screen, "#connection-facts"))
        assert screen.drawn()[-1].split()[:2] == ["←→", "Interface"]


async def test_the_probe_stops_when_it_is_no_longer_shown() -> None:
    async with live_screen() as screen:
        await begin(screen)
        await screen.press("escape")
        assert requests(screen) == [(2,), ()]
        assert screen.app.screen.has_class("-detail")
        await screen.press("enter")
        assert requests(screen)[-1] == (2,)
        for key in ("2", "5", "6"):
            await screen.press(key)
            assert requests(screen)[-1] == ()
            await screen.press("1", "enter")
            assert requests(screen)[-1] == (2,)


async def test_a_dialog_in_front_of_it_changes_nothing() -> None:
    async with live_screen() as screen:
        await begin(screen)
        await screen.press("question_mark")
        await screen.press("escape")
        assert requests(screen) == [(2,)]


async def test_the_next_interface_with_the_links_above_it() -> None:
    async with live_screen() as screen:
        await begin(screen)
        await screen.receive(line(busy_reading()))
        await screen.pilot.click("#connection-users", offset=(len(" ens192 ") + 1, 0))
        assert requests(screen) == [(2,), (3, 4)]
        await screen.press("left")
        assert requests(screen)[-1] == (2,)
        await screen.press("right")
        assert requests(screen)[-1] == (3, 4)
        assert "Reading connections…" in screen.lines(ConnectionList)[0]


async def test_the_cursor_stays_on_its_connection() -> None:
    async with live_screen() as screen:
        await begin(screen)
        await screen.receive(line(busy_reading()))
        await screen.press("down", "down")
        faster = connection(3, sent=99_000_000, remote="2001:db8:12:5::9")
        others = [one for one in busy_reading().connections if one.cookie != 3]
        await screen.receive(line(replace(busy_reading(), connections=(faster, *others))))
        table = screen.app.screen.query_one(ConnectionList)
        assert (table.index, table.chosen and table.chosen.connection.cookie) == (0, 3)
        assert "2001:db8:12:5::9" in texts(screen, "#connection-facts")[0]


async def test_filter_and_order() -> None:
    async with live_screen() as screen:
        await begin(screen)
        await screen.receive(line(busy_reading()))
        await screen.press("slash", *"nfs")
        assert "No matches" in screen.lines(ConnectionList)[0]
        await screen.press("escape", "slash", *"tx>50M", "enter")
        assert len(screen.lines(ConnectionList)) == 3
        assert screen.app.screen.query_one("#connection-filter", FilterLine).value == "tx>50M"
        await screen.press("s")
        assert "SHARE▾" in "".join(screen.drawn())
        await screen.press("S")
        assert "75.2 M" in screen.lines(ConnectionList)[0]
        await screen.press("escape", "escape")
        assert shown(screen) == "devices"


async def test_of_a_plain_user_in_ascii() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await begin(screen)
        await screen.receive(line(of_plain_user(busy_reading())))
        assert "".join(screen.drawn()).isascii()
        assert "nginx.service" in screen.lines(ConnectionList)[0]
        assert "needs root" in "".join(texts(screen, "#connection-users"))
        assert "needs root" in "".join(texts(screen, "#connection-facts"))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (40, 12), (200, 50)])
async def test_sizes(size: tuple[int, int]) -> None:
    """The chosen connection is in sight at every size."""
    async with live_screen(size) as screen:
        await begin(screen)
        await screen.receive(line(busy_reading()))
        assert any("568 M" in row and "nginx" in row for row in screen.drawn())
        await screen.press("end")
        assert any("514" in row for row in screen.drawn())


async def test_another_host_is_asked_instead() -> None:
    """And after a lost connection the request is sent again by the source (`merge_settings`)."""
    async with live_screen() as screen:
        await begin(screen)
        assert screen.source.requests[-1] == Request(connections=(2,))
        assert screen.nictop.hosts.session.settings.connections == (2,)


async def test_from_the_palette() -> None:
    async with live_screen() as screen:
        await screen.receive(*HOST)
        await screen.press("4", "colon", *"Show connections")
        await wait_until(screen, lambda: "Devices: Show connections" in "".join(screen.drawn()))
        await screen.press("enter")
        await wait_until(screen, lambda: requests(screen) == [(2,)])
        await screen.press("escape")
        assert shown(screen) == "devices"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Connections were shown for one reading, 2.6 s after the begin."""
    path = tmp_path / "monday.nictop"
    items = host_items("vm1", 30)
    write_recording(
        path, [*items[:7], ("vm1", line(busy_reading(time=1002.85)), 1002.85), *items[7:]]
    )
    return path


async def test_in_a_recording(recording: Path) -> None:
    """They are there while they were shown."""
    async with screen_with_replay(recording, start=3.0) as screen:
        await screen.press("down", "enter", "enter")
        assert "568 M nginx" in screen.lines(ConnectionList)[0]
        await screen.seek(1020.0)
        said = " ".join(line.strip() for line in screen.lines(ConnectionList))
        assert said.startswith(
            "No connections of this interface are recorded at this time. A host is asked"
        )
        assert "To record them: nictop HOST, start the recording (r)" in said and "…" not in said
