"""The last minutes of live hosts: looked back at on the same screens, and saved, while the hosts
are read all the time."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest
from textual.events import Key

from nictop.hosts.specification import Host
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Line
from nictop.recording.reader import Recording
from nictop.replay.position import wall_clock_text
from nictop.tui.app import NictopApp
from nictop.tui.controllers.look_back import PresentTimeline
from nictop.tui.controllers.recent import RecentPast
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.dialogs.menu import MenuList
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.files import recent_text
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.detail import TrafficChart
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.status.replay_line import ReplayLine, draw_present, past_text
from nictop.wire.source import SourceState
from tests.support.lines import change, counters, hello, inventory, link
from tests.support.recordings import read_all
from tests.support.screen import (
    NARROW,
    WIDE,
    Screen,
    ScriptedHosts,
    running,
    screen_with_hosts,
    wait_until,
)
from tests.support.sources import ScriptedSource

PAST_SECONDS = 200


@asynccontextmanager
async def watched(
    *names: str, size: tuple[int, int] = NARROW, glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[Screen, ScriptedHosts]]:
    """Hosts that were watched for `PAST_SECONDS`: each second more than the one before, and that
    are watched now."""
    hosts = ScriptedHosts()
    wanted = [Host(name, f"{name}.example") for name in names]
    app = NictopApp(hosts.connect, wanted, glyphs=glyphs, keeps_past=True)
    recent = app.nictop.recent
    assert recent is not None
    begin = monotonic() - PAST_SECONDS
    for name in names:
        recent.record(name, SourceState("live"), begin)
        recent.record(name, hello(), begin)
        told = inventory(link(1, "lo"), link(2, "ens192"), link(3, "ens224"), time=begin)
        recent.record(name, told, begin)
        for second in range(PAST_SECONDS - 5):
            recent.record(name, reading(begin + second, second), begin + second)
    async with running(app, size) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: bool(app.screen.query(DeviceTable)))
        for name in names:
            now = monotonic()
            hosts[name].send(
                SourceState("live"), hello(), told, reading(now - 1, 0), reading(now, 0)
            )
        await wait_until(screen, lambda: app.nictop.hosts.session.snapshot.counters is not None)
        await screen.settle()
        yield screen, hosts


def reading(time: float, second: int) -> Line:
    """ens192 received as many bits in each second as it is, in thousands."""
    received = sum(range(second + 1)) * 125
    return counters(time, {1: (0, 0), 2: (received, 0), 3: (0, 0)})


def timeline(screen: Screen) -> str:
    """ "": it is not drawn yet."""
    return next(iter(screen.lines(ReplayLine)), "")


async def go_back(screen: Screen, *keys: str) -> None:
    """To the timeline, and these keys on it, each when the one before has its effect."""
    await screen.press("g")
    for key in keys:
        await screen.press(key)
        await wait_until(screen, lambda: is_settled(screen))
    await screen.settle()


def is_settled(screen: Screen) -> bool:
    """The past is read and drawn."""
    replay = screen.app.shown.replay
    is_read = replay is not None and replay.settled.is_set()
    return is_read and shows_past(screen) and " ago" in timeline(screen)


def shows_past(screen: Screen) -> bool:
    return isinstance(screen.app.screen, FramedScreen) and screen.app.screen.shows_past


def shown_tab(screen: Screen) -> str:
    assert isinstance(screen.app.screen, FramedScreen)
    return screen.app.screen.tab


def chart_ends(screen: Screen) -> set[str]:
    """The last word of the time axis of each chart in sight."""
    ends = set()
    for chart in screen.app.screen.query(TrafficChart):
        lines = ["".join(text for text, _ in line) for line in chart.lines if chart.display]
        ends |= {line.split()[-1] for line in lines if "-60 s" in line}
    return ends


async def test_an_axis_says_the_time_of_its_end_unless_that_is_now() -> None:
    async with watched("vm1", size=WIDE) as (screen, _):
        assert chart_ends(screen) == {"now"}
        await screen.press("space")
        (paused,) = chart_ends(screen)
        assert re.fullmatch(r"\d\d:\d\d:\d\d", paused)
        await screen.press("space")
        await go_back(screen, "pageup")
        shown = re.search(r"\d\d:\d\d:\d\d", timeline(screen))
        assert shown is not None and chart_ends(screen) == {shown[0]}


async def test_two_minutes_ago_is_three_keys_away() -> None:
    async with watched("vm1") as (screen, _):
        assert timeline(screen) == " g ◂ 3 min "
        await go_back(screen, "pageup", "pageup")
        assert shows_past(screen)
        assert "2 min " in timeline(screen) and " s ago" in timeline(screen)
        row = next(line for line in screen.lines() if "ens192" in line)
        rate = re.search(r"([0-9.]+) k", row)  # kb/s: as many as seconds had passed
        assert rate is not None and 70 < float(rate[1]) < 85
        assert " g Now " in screen.drawn()[-1]


async def test_keys_that_are_pressed_fast_are_added() -> None:
    """Before the first one has its effect."""
    async with watched("vm1") as (screen, _):
        await screen.press("g")
        line = screen.app.screen.query_one(ReplayLine)
        for _ in range(2):
            line.action_skip(-60)
        await wait_until(screen, lambda: is_settled(screen) and " ago" in timeline(screen))
        assert "2 min " in timeline(screen)
        await screen.press("g", "g", "g")
        await wait_until(screen, lambda: not shows_past(screen))


@pytest.mark.parametrize("keys", [("pageup",) * 5, ("home", "left"), ("home", "pageup")])
async def test_a_step_beyond_the_begin_says_where_it_has_ended(keys: tuple[str, ...]) -> None:
    """Also the first one, which opens the past, and several that were pressed at once."""
    async with watched("vm1") as (screen, _):
        await screen.press("g", *keys)
        await wait_until(screen, lambda: is_settled(screen) and "3 min " in timeline(screen))
        recording = screen.app.shown.replay.playback.recording  # type: ignore[union-attr]
        begin = wall_clock_text(recording.wall_time(recording.begin))
        await wait_until(screen, lambda: bool(screen.app._notifications))
        told = {one.message for one in screen.app._notifications}
        assert told == {f"There is no earlier reading: the last minutes begin at {begin}."}


@pytest.mark.parametrize(("kept", "shown"), [(30.0, 30.0), (600.0, 600.0), (890.0, 600.0)])
def test_the_line_of_now_promises_only_what_is_always_there(
    kept: float, shown: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest five minutes are dropped at once: ``15 min`` became ``10 min`` while it was
    read."""
    recent = RecentPast(lambda: "")
    monkeypatch.setattr(RecentPast, "seconds", kept)
    assert PresentTimeline(recent, lambda *_, **__: None, lambda *_: None).seconds == shown
    assert recent_text(recent) == ("30 s" if kept == 30.0 else "10 min"), "the menu says the same"


async def test_no_key_is_lost_while_the_past_is_opened() -> None:
    """Whenever they come: before the recording is open, and before its screen has the focus."""
    async with watched("vm1") as (screen, _):
        await screen.press("g")
        app = screen.app
        for _ in range(3):
            app.post_message(Key("pageup", None))
            for _ in range(15):
                await asyncio.sleep(0)
        await wait_until(screen, lambda: app._type_ahead.is_idle and is_settled(screen))
        await wait_until(screen, lambda: "3 min " in timeline(screen) and shows_past(screen))
        assert app.screen.focused is app.screen.query_one(ReplayLine)


async def test_a_key_of_the_line_of_now_moves_in_the_past_that_it_has_opened() -> None:
    async with watched("vm1") as (screen, _):
        await go_back(screen, "pageup")
        screen.app.look_back(monotonic() - 60)
        await wait_until(screen, lambda: is_settled(screen) and "2 min " in timeline(screen))


@pytest.mark.parametrize("key", ["g", "escape"])
async def test_the_timeline_of_now_is_left_by_the_key_that_has_opened_it(key: str) -> None:
    async with watched("vm1") as (screen, _):
        for view in "14":
            await screen.press(view)
            before = screen.app.screen.focused
            await screen.press("g")
            assert isinstance(screen.app.screen.focused, ReplayLine)
            assert " g Leave " in screen.drawn()[-1]
            await screen.press(key)
            assert screen.app.screen.focused is before and before is not None
            assert not shows_past(screen) and shown_tab(screen) in ("devices", "findings")
        await screen.press("1", "shift+tab", "g")
        assert not isinstance(screen.app.screen.focused, ReplayLine)


@pytest.mark.parametrize("key", ["n", "right", "pagedown", "end"])
async def test_there_is_nothing_later_than_now(key: str) -> None:
    async with watched("vm1") as (screen, _):
        await screen.press("g", key)
        messages = [one.message for one in screen.app._notifications]
        assert messages == ["This is now: there is nothing later."]
        assert not shows_past(screen)


async def test_the_previous_event_is_searched_for_from_now() -> None:
    async with watched("vm1") as (screen, hosts):
        received = monotonic()
        hosts["vm1"].send(change(2, "ens192", carrier=False, time=received))
        await wait_until(screen, lambda: monotonic() > received + 0.1)
        hosts["vm1"].send(reading(monotonic(), 0))
        await screen.settle()
        await screen.press("g", "N")
        await wait_until(screen, lambda: shows_past(screen) and is_settled(screen))
        await wait_until(screen, lambda: bool(screen.app._notifications))
        (message,) = (one.message for one in screen.app._notifications)
        assert "ens192" in message, message


async def test_from_the_form_of_a_test_the_devices_are_shown() -> None:
    """No test was made then."""
    async with watched("vm1", "vm2", size=WIDE) as (screen, _):
        await screen.press("6")
        await go_back(screen, "pageup")
        assert shows_past(screen) and shown_tab(screen) == "devices"


async def test_without_memory_for_it_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, flags: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("os.memfd_create", refuse)
    hosts = ScriptedHosts()
    app = NictopApp(hosts.connect, [Host("vm1", "vm1.example")], keeps_past=True)
    async with running(app, NARROW) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: bool(app.screen.query(DeviceTable)))
        hosts["vm1"].send(SourceState("live"), hello())
        await screen.press("g", "pageup")
        await wait_until(screen, lambda: bool(app._notifications))
        messages = [one.message for one in app._notifications]
        assert len(messages) == 1 and "the last minutes are not kept" in messages[0]


@pytest.mark.parametrize("key", ["end", "g", "escape"])
async def test_the_present_is_one_key_away_and_was_read_meanwhile(key: str) -> None:
    async with watched("vm1") as (screen, hosts):
        live = screen.app.screen
        await go_back(screen, "pageup")
        before = screen.lines()
        later = monotonic() + 1
        hosts["vm1"].send(reading(later, 40))
        await screen.settle()
        assert screen.lines() == before
        if key == "escape":
            await screen.press("1")  # from the timeline to the devices
        await screen.press(key)
        await wait_until(screen, lambda: not shows_past(screen))
        assert screen.app.screen is live
        snapshot = screen.nictop.hosts.session.snapshot
        assert snapshot.counters is not None and snapshot.counters.time == later
        assert timeline(screen) == " g ◂ 3 min "
        assert not any(mode.startswith("past") for mode in screen.app._modes)


async def test_every_view_shows_the_past_and_comes_back_to_the_same_view() -> None:
    async with watched("vm1", "vm2", size=WIDE) as (screen, _):
        await screen.press("]", "5")
        assert shown_tab(screen) == "hosts"
        await go_back(screen, "left")
        assert shown_tab(screen) == "hosts" and shows_past(screen)
        assert screen.app.shown.hosts.chosen == "vm2"
        for key in ("2", "3", "4", "7", "1"):
            await screen.press(key)
            assert shows_past(screen), key
            assert " ago" in timeline(screen)
        await screen.press("6")  # no test was recorded
        assert shows_past(screen)
        await screen.press("3", "g")
        await wait_until(screen, lambda: not shows_past(screen))
        assert shown_tab(screen) == "cpus"


async def test_nothing_is_started_in_the_past() -> None:
    async with watched("vm1") as (screen, _):
        await go_back(screen, "pageup")
        await screen.press("1", "e")
        texts = {one.message for one in screen.app._notifications}
        assert texts == {"Not available in the past. g: back to now"}
        await screen.press("r")
        menu = screen.app.screen.query_one(MenuList)
        labels = {entry.label: entry.enabled for entry in menu.entries}
        assert labels == {
            "Start recording…": True,
            "Save the last 3 min…": True,
            "Write report…": True,
        }
        assert screen.app.shown.hosts.session.source.pids == ()


async def test_the_chosen_interface_stays_chosen() -> None:
    async with watched("vm1") as (screen, _):
        screen.app.screen.query_one(DeviceTable).choose_link(3)
        assert screen.chosen() == "ens224"
        await go_back(screen, "pageup")
        assert screen.chosen() == "ens224"


async def test_the_last_minutes_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "saved.nictop"
    async with watched("vm1", "vm2") as (screen, _):
        await screen.press("r", "down", "enter")
        entry = screen.app.screen
        assert isinstance(entry, LineEntry)
        entry.query_one(TextInput).value = str(path)
        await screen.press("enter")
        await wait_until(screen, lambda: isinstance(screen.app.screen, LiveScreen))
        messages = [one.message for one in screen.app._notifications]
        assert any(str(path) in message for message in messages)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Recording.open(str(path)) as saved:
        assert saved.hosts == ("vm1", "vm2") and saved.closed
        assert saved.end - saved.begin >= PAST_SECONDS - 10
        assert len(read_all(saved, "vm1")) > PAST_SECONDS - 10


async def test_the_begin_of_the_past_is_its_end_when_nothing_was_received() -> None:
    app = NictopApp(ScriptedHosts().connect, [Host("vm1", "vm1.example")], keeps_past=True)
    async with running(app, NARROW) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: bool(app.screen.query(DeviceTable)))
        await screen.press("g", "left")
        await wait_until(screen, lambda: bool(app._notifications) or shows_past(screen))
        messages = [one.message for one in app._notifications]
        assert messages == ["nothing was received yet"] or shows_past(screen)


async def test_a_screen_without_a_past_has_no_timeline() -> None:
    async with screen_with_hosts("vm1", size=NARROW) as (screen, _):
        line = screen.app.screen.query_one(ReplayLine)
        assert not line.display and not line.can_focus
        await screen.press("g")
        assert not shows_past(screen)


async def test_leaving_the_program_in_the_past_closes_everything() -> None:
    async with watched("vm1") as (screen, hosts):
        await go_back(screen, "pageup")
        past = screen.app.shown
    assert hosts["vm1"].closed
    assert all(not task.get_name().startswith("past") for task in asyncio.all_tasks())
    assert past.hosts.sessions


async def test_in_ascii_and_with_another_key_the_line_says_the_same() -> None:
    async with watched("vm1", glyphs=ASCII) as (screen, _):
        assert timeline(screen) == " g < 3 min "
        await go_back(screen, "pageup")
        assert all(text.isascii() for text in screen.drawn())


def test_how_long_ago_it_was_is_said_in_minutes_and_seconds() -> None:
    assert [past_text(seconds) for seconds in (0.2, 59.4, 60, 130)] == [
        "0 s ago",
        "59 s ago",
        "1 min 0 s ago",
        "2 min 10 s ago",
    ]
    assert draw_present(30, "g", glyphs=UNICODE) == ((" g ◂ <1 min ", "dim"),)
