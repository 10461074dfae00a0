"""A recording on the screens: what was drawn live is drawn again, and the keys of the playback do
what they say."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from textual.events import Key

from nictop.cli.commands.demo import DEMO_NIC, DEMO_START_SECONDS
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.snapshot import BEFORE_SILENCE, outdated_text
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Line
from nictop.recording.playback import PlaybackSource
from nictop.recording.reader import Recording
from nictop.recording.writer import Recorder, recorded_source
from nictop.replay.position import wall_clock_text
from nictop.replay.run import RecordedRun
from nictop.tui.app import NictopApp
from nictop.tui.controllers.display import Display
from nictop.tui.controllers.replay import SPEEDS
from nictop.tui.screens.dialogs.go_to_time import ask_time
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.screens.replay.run import RecordedRunScreen
from nictop.tui.screens.traffic.results import StoredRunScreen
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.findings.panel import NOT_READ_THEN_TEXT, READING_TEXT, FindingsPanel
from nictop.tui.widgets.status.replay_line import ReplayLine
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.wire.source import SourceState
from tests.cli.commands.test_demo import DEMO
from tests.support.captured import captured_lines
from tests.support.findings import lines_of_case
from tests.support.recordings import TimedItem, host_items, write_recording
from tests.support.replay_screen import ScreenWithReplay, screen_with_replay
from tests.support.screen import NARROW, NO_COST, WIDE, Screen, running, wait_until
from tests.support.sources import ScriptedSource

# --------------------------------------------------------------------------------- the same screens


GUEST = captured_lines("igb-vfs-vmxnet3-virtio")
QUEUES = captured_lines("virtio-4-queues")
PROFILES = lines_of_case("profiles", "profile_is_generated")
HOSTS: dict[str, list[Line]] = {
    "alma-load-001": QUEUES,
    "alma-load-002": GUEST,
    "alma-load-003": PROFILES,
}
KEYS: dict[str, tuple[str, ...]] = {
    "devices": (),
    "findings": ("4",),
    "queues": ("1", "right", "right", "2"),
    "CPUs": ("3",),
    "overview": ("5",),
}
"""What brings each view, one after the other."""
Sample = tuple[float, list[str]]
"""A moment of the recording, and what is drawn then."""


@pytest.mark.parametrize(
    ("views", "hosts", "size"),
    [
        (("devices", "findings", "queues", "CPUs"), 1, NARROW),
        (tuple(KEYS), 3, WIDE),
        (("overview",), 3, NARROW),
        (("devices",), 1, WIDE),
    ],
)
async def test_a_replay_draws_what_was_drawn_live(
    views: tuple[str, ...],
    hosts: int,
    size: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StatusLine, "COST_EVERY", NO_COST)
    path = tmp_path / "a.nictop"
    drawn_live = await _live_samples(list(HOSTS)[:hosts], views, size, path, monkeypatch)
    async with screen_with_replay(path, size) as screen:
        for view, samples in drawn_live.items():
            assert view == "findings" or len({tuple(drawn) for _, drawn in samples}) > 1, (
                view
            )  # something moves
            await screen.press(*KEYS[view])
            for moment, drawn in (*samples, samples[0]):
                await screen.seek(moment)
                await screen.until(lambda: screen.nictop.diagnosis.result is not None)
                await screen.nictop.diagnosis.renew()  # the first one may lack hosts
                await screen.settle()
                shown = await steady(screen)
                assert "▶" in screen.drawn()[1] or "■" in screen.drawn()[1]
                assert shown == drawn, (view, moment)


async def _live_samples(
    names: list[str],
    views: tuple[str, ...],
    size: tuple[int, int],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, list[Sample]]:
    """What is drawn live in three seconds of each view; the clock moves only in between."""
    clock = _Time()
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", clock.monotonic)
    monkeypatch.setattr("nictop.recording.writer.time", clock)
    recorder = Recorder(str(path))
    sources = {name: ScriptedSource(name) for name in names}
    app = NictopApp(
        lambda host, ask: recorded_source(sources[host.label], recorder),
        [Host(name, name) for name in names],
    )
    samples: dict[str, list[Sample]] = {}
    async with running(app, size) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        for name, source in sources.items():
            source.send(SourceState("live"), *HOSTS[name])
        await wait_until(screen, lambda: isinstance(app.screen, LiveScreen))
        await wait_until(screen, lambda: all(source.is_drained for source in sources.values()))
        seconds = count(1)
        for view in views:
            await screen.press(*KEYS[view])
            samples[view] = [
                await _a_second_of(screen, clock, sources, next(seconds)) for _ in range(3)
            ]
    await recorder.close()
    assert (recorder.trouble, recorder.dropped) == ("", 0)
    return samples


async def _a_second_of(
    screen: Screen, clock: _Time, sources: dict[str, ScriptedSource], second: int
) -> Sample:
    """Every host counts on by a second, and that is drawn."""
    clock.now += 1.0
    for name, source in sources.items():
        source.send(_a_second_later(HOSTS[name], second))
    await wait_until(screen, lambda: all(source.is_drained for source in sources.values()))
    await screen.settle()
    await wait_until(screen, lambda: not screen.nictop.hosts.pending)
    await screen.nictop.diagnosis.renew()  # one that runs already is of before
    await screen.settle()
    return clock.now, await steady(screen)


async def steady(screen: Screen) -> list[str]:
    """What is drawn once nothing is laid out anew any more, without the lines of the timeline and
    of the keys; of the hosts the interfaces, as a recorded host has no address. An axis ends with
    "now", or with the time of a recording."""
    drawn: list[str] = []
    while drawn != (drawn := screen.drawn()):
        await screen.settle()
    hosts = isinstance(screen.app.screen, HostsScreen)
    lines = screen.lines(OverviewTable) if hosts else [drawn[0], *drawn[2:-1]]
    return [re.split("-60 s |last 60 s", line)[0] for line in lines]


class _Time:
    """The clocks of the live screen and of its recorder."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1.7e9 + self.now


def _a_second_later(lines: list[Line], second: int) -> Line:
    """The last counters of a host, with everything counting on, ever faster."""
    last = next(line.counters for line in reversed(lines) if line.counters is not None)
    step = second * second

    def more(table: dict[int, tuple[int, ...]], by: int) -> dict[int, tuple[int, ...]]:
        return {
            key: tuple(value + by * step for value in row[:4]) + row[4:]
            for key, row in table.items()
        }

    return Line(
        counters=replace(
            last,
            time=last.time + second,
            links=more(last.links, 125_000),
            cpus={
                cpu: (row[0] + 2 * step, *row[1:3], row[3] + 90 * second, *row[4:])
                for cpu, row in last.cpus.items()
            },
            softirqs=more(last.softirqs, 500),
            driver={
                key: tuple(value + 1000 * step for value in row) for key, row in last.driver.items()
            },
            interrupts={
                number: {cpu: value + 400 * step for cpu, value in row.items()}
                for number, row in last.interrupts.items()
            },
        )
    )


def shown(screen: ScreenWithReplay) -> type[object]:
    return type(screen.app.screen)


async def made(path: Path, times: list[TimedItem]) -> None:
    """A closed recording."""
    await asyncio.to_thread(write_recording, path, times)


# -------------------------------------------------------------------------------------- what is cut


async def test_a_file_that_was_cut_is_shown_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.nictop"
    await made(path, host_items("vm1", 20))
    data = path.read_bytes()
    with Recording.open(str(path)) as recording:
        frames = [
            offset
            for offset, header in filter(None, recording.iter_frames(0))
            if header is not None
        ]
        begin, last = recording.begin, frames[-1]
    for cut in (last, (last + len(data)) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        async with screen_with_replay(path, NARROW) as screen:
            await screen.seek(begin + 2.7)
            assert any("ens192" in row for row in screen.drawn()), cut
            screen.replay.edge()
            await screen.wait_until_shown()
            assert screen.nictop.hosts.session.snapshot.inventory is not None


NAMES = ("a\x1b[2J[red]b", "<script>", "[/]", "", "local", "x" * 3000, "other")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_names_in_a_file_are_text(glyphs: Glyphs, tmp_path: Path) -> None:
    """Each as that of the host that is shown, then all of them in a row."""
    path = tmp_path / "a.nictop"
    await made(
        path, sorted((one for name in NAMES for one in host_items(name, 5)), key=lambda one: one[2])
    )
    async with screen_with_replay(path, NARROW, glyphs=glyphs) as screen:
        screen.replay.edge()
        await screen.wait_until_shown()
        assert set(screen.nictop.hosts.by_name) == set(NAMES)
        seen = set()
        for keys in (*(("right_square_bracket",) for _ in NAMES), ("5",)):
            await screen.press(*keys)
            seen.add(screen.nictop.hosts.chosen)
            assert "\x1b" not in "\n".join(screen.drawn()), keys
        assert seen == set(NAMES)
        assert sum(" live " in row for row in screen.drawn()) >= len(NAMES)


@pytest.mark.parametrize(
    ("size", "start"),
    [(WIDE, DEMO_START_SECONDS), (NARROW, DEMO_START_SECONDS), (NARROW, 26.0), ((60, 20), 68.0)],
)
async def test_no_escapes_on_an_ascii_console(size: tuple[int, int], start: float) -> None:
    """Views, help and facts of the demo contain only characters that have an ASCII form; also where
    Textual cuts a title in a border, as of findings of a host that was read before an event."""
    async with screen_with_replay(DEMO, size, start=start, nic=DEMO_NIC, glyphs=ASCII) as screen:
        await screen.until(lambda: screen.nictop.diagnosis.result is not None)
        for keys in ("1", "enter", "2", "3", "4", "enter", "5", "down", "6", "7", "enter"):
            await screen.press(keys)
            rows = screen.drawn()
            assert [
                row for row in rows if not row.isascii() or "\\u" in row or "\\x" in row
            ] == [], keys
        for key in "1234567":
            await screen.press(key, "question_mark")
            lines = screen.text("#help-lines")
            assert lines.isascii() and "\\" not in lines, key
            await screen.press("escape")


# ----------------------------------------------------------------------------------------- the keys


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A minute of one host, read once a second."""
    path = tmp_path / "one.nictop"
    write_recording(path, host_items("vm1", 60))
    return path


def readings(screen: ScreenWithReplay) -> float:
    """Time of the counters that are shown."""
    newest = screen.nictop.hosts.session.snapshot.counters
    assert newest is not None
    return newest.time


async def test_play_pause_and_speed(one: Path) -> None:
    async with screen_with_replay(one, start=10.0) as screen:
        assert screen.text("#replay").startswith(" ▶ ")
        first = readings(screen)
        await screen.advance_clock(3.0)
        await screen.until(lambda: readings(screen) == pytest.approx(first + 3))
        await screen.press("space")
        await screen.advance_clock(30.0)
        assert readings(screen) == pytest.approx(first + 3)
        assert "paused" in screen.text("#replay")
        await screen.press("plus", "plus", "space")
        assert "×5" in screen.text("#replay")
        await screen.advance_clock(2.0)
        await screen.until(lambda: readings(screen) == pytest.approx(first + 13))
        await screen.press("minus")
        assert "×2" in screen.text("#replay")


@pytest.mark.parametrize("view", ["1", "4", "5", "6"])
async def test_the_footer_says_what_space_does_now(view: str) -> None:
    async with screen_with_replay(DEMO, WIDE, start=DEMO_START_SECONDS) as screen:
        await screen.press(view)
        for state in ("Pause", "Play", "Pause"):
            await screen.settle()
            assert screen.app.screen.active_bindings["space"].binding.description == state
            hints = [
                word
                for word in ("Pause", "Play", "Resume")
                if f"Space {word} " in screen.drawn()[-1]
            ]
            assert hints == [state] or (hints == [] and view == "1"), screen.drawn()[-1]
            await screen.press("space")
        await screen.press("space")
        await screen.seek(screen.replay.playback.end)
        await screen.settle()
        assert screen.app.screen.active_bindings["space"].binding.description == "Play", (
            "from its beginning"
        )


async def test_the_test_of_a_recording_says_which_keys_step() -> None:
    async with screen_with_replay(DEMO, WIDE, start=DEMO_START_SECONDS) as screen:
        await screen.press("6")
        await screen.settle()
        assert " Tab Timeline " in screen.drawn()[-1]
        await screen.press("question_mark")
        help_text = screen.text("#help-lines")
        assert "Timeline of the recording; Tab goes to it" in help_text
        for words in ("previous reading", "60 s back", "go to a time"):
            assert (
                words in help_text.partition("Timeline of the recording")[2].partition("Marks")[0]
            )
        await screen.press("escape", "tab")
        assert screen.app.focused is screen.app.screen.query_one(ReplayLine)
        await screen.settle()
        assert " ←→ Reading " in screen.drawn()[-1] and "Tab Timeline" not in screen.drawn()[-1]
        before = screen.replay.playback.now()
        await screen.press("right")
        assert before < screen.replay.playback.now() <= before + 2
        focused = set()
        for _ in range(8):
            await screen.press("tab")
            focused.add(screen.app.focused)
        assert set(screen.app.screen.focus_chain) == focused, "Tab reaches every pane"


async def test_dialog_for_a_time_has_examples_of_the_recording(one: Path) -> None:
    async with screen_with_replay(one) as screen:
        recording = screen.replay.playback.recording
        half = (recording.end - recording.begin) // 2
        await screen.press("question_mark", *"timeline")
        assert "timeline: go to a time" in screen.text("#help-lines")
        await screen.press("escape", "escape")
        ask_time(screen.app.screen)  # type: ignore[arg-type]
        await screen.settle()
        times = (recording.begin + half, recording.begin, recording.end)
        example, begin, end = (wall_clock_text(recording.wall_time(time)) for time in times)
        assert " ".join(screen.text("#dialog-text").split()) == (
            f"{example}, +{half:g} (seconds from the beginning), or end. The recording goes from "
            f"{begin} to {end}."
        )


async def test_keys_behind_a_line_are_for_what_is_below_it(one: Path) -> None:
    """Also while the line is being taken: the Enter for the next time was lost in the dialog, and
    its digits chose views."""
    is_asked, is_ready = asyncio.Event(), asyncio.Event()

    async def take(_: str) -> str:
        is_asked.set()
        await is_ready.wait()
        return ""

    async with screen_with_replay(one, start=30.3) as screen:
        await screen.press("shift+tab")
        begin, below = screen.replay.playback.recording.begin, screen.app.screen
        await screen.app.push_screen(LineEntry("Go to time", "", "", take, holds_keys=True))
        await screen.settle()
        driver = screen.app._driver
        assert driver is not None
        for key in ("x", "enter", "enter", *"+25", "enter"):
            event = Key(key, key if len(key) == 1 else None)
            event.set_sender(screen.app)
            driver.send_message(event)
        await is_asked.wait()
        await screen.app.animator.wait_for_idle()
        is_ready.set()
        await wait_until(screen, lambda: screen.replay.playback.now() == begin + 25)
        await screen.settle()
        assert screen.app.screen is below


async def test_the_line_below_a_past_time_says_that_it_is_being_read(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that the checks run when an inventory has been read: they had run."""
    async with screen_with_replay(one, start=30.3) as screen:
        await screen.until(lambda: screen.nictop.diagnosis.result is not None)
        line, frame = screen.app.screen.query_one(FindingsPanel), screen.app.screen
        assert isinstance(frame, FramedScreen)
        monkeypatch.setattr(Display, "diagnosis", None)
        monkeypatch.setattr(PlaybackSource, "is_catching_up", True)
        frame._draw_findings_line()
        assert line.lines[0][0][0].strip() == READING_TEXT
        monkeypatch.setattr(PlaybackSource, "is_catching_up", False)
        for session in screen.nictop.hosts.sessions:
            session.snapshot = replace(session.snapshot, inventory=None)
        frame._draw_findings_line()
        assert line.lines[0][0][0].strip() == NOT_READ_THEN_TEXT


async def test_seek_and_step(one: Path) -> None:
    async with screen_with_replay(one, start=30.3) as screen:
        first = readings(screen)
        await screen.press("shift+tab")
        assert screen.app.focused is screen.app.screen.query_one(ReplayLine)
        for key, expected in (
            ("left", first),
            ("left", first - 1),
            ("right", first),
            ("pageup", 1000.25),
            ("pagedown", 1059.85),
            ("home", 1000.25),
            ("end", 1059.85),
        ):
            await screen.press(key)
            await screen.wait_until_shown()
            if expected <= 1000.25:
                assert screen.nictop.hosts.session.snapshot.counters is None
            else:
                await screen.until(
                    lambda expected=expected: readings(screen) == pytest.approx(expected)  # type: ignore[misc]
                )


async def test_history_and_rates_after_a_jump_are_those_of_the_moment(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StatusLine, "COST_EVERY", NO_COST)
    async with screen_with_replay(one, start=5.0) as screen:
        await screen.seek(1050.0)
        late = await steady(screen)
        await screen.seek(1012.0)
        assert await steady(screen) != late
        await screen.seek(1050.0)
        assert await steady(screen) == late


async def test_go_to_a_time(one: Path) -> None:
    async with screen_with_replay(one) as screen:
        await screen.press("shift+tab", "enter", *"+40", "enter")
        await screen.until(lambda: screen.nictop.now() == pytest.approx(1040.25))
        await screen.wait_until_shown()
        assert readings(screen) == pytest.approx(1039.85)
        await screen.press("enter", *"+900", "enter")
        assert "is outside the recording" in screen.text("#entry-error")
        await screen.press("escape", "enter", *"end", "enter")
        await screen.until(lambda: screen.replay.playback.at_end)
        assert "at the end" in screen.text("#replay")


async def test_it_begins_anew_at_its_end_when_it_is_to_loop(one: Path) -> None:
    async with screen_with_replay(one, start=20.0, loop=True) as screen:
        screen.replay.edge()
        await screen.until(lambda: screen.nictop.now() == pytest.approx(1020.25))
        await screen.wait_until_shown()
        assert readings(screen) == pytest.approx(1019.85)


@pytest.mark.parametrize(
    ("key", "words"),
    [("e", "Not available in a recording"), ("6", "No traffic test was recorded")],
)
async def test_what_a_recording_cannot_do_is_said(key: str, words: str, one: Path) -> None:
    async with screen_with_replay(one) as screen:
        await screen.press(key)
        assert any(words in text for text in screen.notifications())


async def test_hosts_of_a_recording_are_what_they_are(one: Path) -> None:
    async with screen_with_replay(one) as screen:
        await screen.press("5", "e")
        assert any("Not available in a recording" in text for text in screen.notifications())
        assert list(screen.nictop.hosts.by_name) == ["vm1"]


async def test_a_host_that_fell_silent_is_silent_again(tmp_path: Path) -> None:
    path = tmp_path / "a.nictop"
    await made(path, [*host_items("vm1", 5), *host_items("vm2", 60)])
    async with screen_with_replay(path) as screen:
        await screen.seek(1035.0)
        assert "no data for 30 s" in "\n".join(screen.drawn()[:3])
        assert outdated_text(screen.nictop.hosts.by_name["vm1"].snapshot) == BEFORE_SILENCE
        await screen.seek(1004.0)
        assert outdated_text(screen.nictop.hosts.by_name["vm1"].snapshot) == ""
        assert "silent" not in "\n".join(screen.drawn()[:3])


async def test_a_file_that_is_still_being_written_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nictop.recording.writer.MAX_FRAME_SECONDS", 0.0)
    path = tmp_path / "a.nictop"
    recorder = Recorder(str(path))
    begin = recorder.begin - 60.0  # in the past: frames are due by the clock of this machine
    times = sorted(
        [*host_items("vm1", 40, begin=begin), *host_items("vm2", 20, begin=begin + 20.0)],
        key=lambda one: one[2],
    )
    try:
        for host, item, moment in times[:15]:
            recorder.record(host, item, moment)
        while recorder.size < 500:  # noqa: ASYNC110  (a thread writes it)
            await asyncio.sleep(0)
        async with screen_with_replay(path) as screen:
            await screen.until(lambda: screen.replay.playback.end > times[14][2])
            screen.replay.edge()
            await screen.wait_until_shown()
            assert "newest" in screen.text("#replay")
            assert list(screen.nictop.hosts.by_name) == ["vm1"]
            for host, item, moment in times[15:]:
                recorder.record(host, item, moment)
            await recorder.close()
            await screen.until(lambda: list(screen.nictop.hosts.by_name) == ["vm1", "vm2"])
            await screen.advance_clock(100.0)
            await screen.until(lambda: "at the end" in screen.text("#replay"))
            for one in screen.nictop.hosts.by_name.values():
                await screen.until(lambda one=one: _seconds(one) == pytest.approx(begin + 39.6))  # type: ignore[misc]
    finally:
        await recorder.close()


def _seconds(one: HostSession) -> float:
    return one.snapshot.counters.time if one.snapshot.counters is not None else 0.0


# -------------------------------------------------------------------------------- findings and runs


async def test_next_and_previous_run_of_the_demo() -> None:
    async with screen_with_replay(DEMO, start=1.0) as screen:
        runs = screen.replay.runs
        seen = []
        while not any("No next warning" in text for text in screen.notifications()):
            await screen.press("n")
            await screen.until(lambda: not screen.replay.searches)
            seen.append(screen.nictop.now())
        assert {run.begin for run in runs} <= set(seen)
        back = []
        while not any("No previous warning" in text for text in screen.notifications()):
            await screen.press("N")
            await screen.until(lambda: not screen.replay.searches)
            back.append(screen.nictop.now())
        assert {run.begin for run in runs} <= {*back, seen[-1]}


async def test_events_are_counted_while_the_first_is_searched_for() -> None:
    async with screen_with_replay(DEMO, start=3.0) as screen:
        seen = []
        for _ in range(3):
            await screen.press("n")
            await screen.until(lambda: not screen.replay.searches)
            seen.append(screen.nictop.now())
        screen.replay.seek(screen.replay.playback.begin + 3.0)
        screen.replay.playback.pause()
        for direction in (1, 1, 1, 1, -1):
            screen.replay.search(direction)
        await screen.until(lambda: screen.nictop.now() == seen[-1])
        screen.replay.search(1)
        screen.replay.search(-1)
        await screen.until(lambda: not screen.replay.searches)
        assert screen.nictop.now() == seen[-1]


async def test_at_both_ends_a_key_says_that_there_is_no_reading() -> None:
    async with screen_with_replay(DEMO, start=3.0) as screen:
        await screen.press("g", "space", "end")
        await screen.until(screen.replay.settled.is_set)
        recording = screen.replay.playback.recording
        begin, end = (
            wall_clock_text(recording.wall_time(time)) for time in (recording.begin, recording.end)
        )
        earlier = f": There is no earlier reading: the recording begins at {begin}."
        later = f": There is no later reading: the recording ends at {end}."
        for key, words in (
            ("pagedown", later),
            ("right", later),
            ("end", later),
            ("home", ""),
            ("pageup", earlier),
            ("left", earlier),
            ("home", earlier),
        ):
            screen.app.clear_notifications()
            await screen.press(key)
            told = screen.notifications()
            await screen.until(screen.replay.settled.is_set)
            assert [one for one in told if one.endswith(words)] if words else not told, (key, told)


async def test_a_jump_that_ends_before_its_aim_says_where() -> None:
    """Less than 60 s are before and behind the position."""
    async with screen_with_replay(DEMO, start=20.0) as screen:
        playback = screen.replay.playback
        await screen.press("g", "space")
        await screen.until(screen.replay.settled.is_set)
        for key, edge, words in (
            ("pageup", playback.begin, "earlier reading: the recording begins at"),
            ("pagedown", playback.begin + 60, ""),
            ("pagedown", playback.end, "later reading: the recording ends at"),
        ):
            screen.app.clear_notifications()
            await screen.press(key)
            told = screen.notifications()
            await screen.until(screen.replay.settled.is_set)
            assert playback.now() == edge, key
            assert any(words in one for one in told) if words else not told, (key, told)


async def test_the_fastest_and_the_slowest_speed_are_said() -> None:
    async with screen_with_replay(DEMO, start=3.0) as screen:
        for key, speed in (("plus", SPEEDS[-1]), ("minus", SPEEDS[0])):
            while screen.replay.playback.speed != speed:
                await screen.press(key)
            screen.app.clear_notifications()
            await screen.press(key)
            (told,) = screen.notifications()
            assert told.endswith(f"×{speed:g}: there is no further step."), told


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_demo_starts_with_traffic_on_the_chosen_nic(size: tuple[int, int]) -> None:
    async with screen_with_replay(DEMO, size, start=DEMO_START_SECONDS, nic=DEMO_NIC) as screen:
        for _ in screen.nictop.hosts.sessions:
            (row,) = (row for row in screen.drawn() if row.startswith("▸"))
            assert DEMO_NIC in row and re.search(r"\d M ", row), row
            await screen.press("2")
            assert DEMO_NIC in screen.drawn()[2]
            assert re.search(r"100 %|\d\d %", "\n".join(screen.drawn()))
            await screen.press("1", "right_square_bracket")
        await screen.press("6")
        assert shown(screen) is RecordedRunScreen
        await screen.until(lambda: "TCP ×1" in screen.drawn()[2])
        await screen.until(lambda: any("█" in row for row in screen.drawn()[3:]))


async def test_in_every_view_of_the_demo_what_is_copied_is_on_the_screen() -> None:
    """Of every interface, and of some findings: the first command in full, or nothing is copied."""
    taken = dict.fromkeys(PARTS_WITH_COMMANDS, 0)
    async with screen_with_replay(DEMO, (200, 80), start=DEMO_START_SECONDS) as screen:
        await screen.until(lambda: screen.nictop.diagnosis.result is not None)
        for key, choices in (("1", 7), ("2", 6), ("3", 2), ("4", 4)):
            await screen.press("1", "home")
            for _ in range(choices):
                await screen.press(key)
                taken[key] += await copies_what_is_drawn(screen, key)
                await screen.press("down" if key in "14" else "right")
    assert taken["1"] and taken["2"] and taken["4"] and not taken["3"], taken


PARTS_WITH_COMMANDS = {"1": "#facts", "2": "#queues", "3": "#cpus", "4": "#finding-page"}


async def copies_what_is_drawn(screen: ScreenWithReplay, key: str) -> bool:
    """Whether something is copied; it must be in the view that is shown."""
    await screen.settle()
    shown = "".join(screen.text(PARTS_WITH_COMMANDS[key]).replace("\\", "").split())
    screen.app.copy_to_clipboard("")
    await screen.press("y")
    first = screen.app.clipboard.partition("\n")[0]
    assert "".join(first.split()) in shown, (key, first, shown)
    return bool(first)


async def test_the_run_of_the_demo_is_drawn_and_judged() -> None:
    async with screen_with_replay(DEMO, WIDE) as screen:
        first, second = screen.replay.runs
        await screen.seek(first.begin - 5)
        await screen.press("6")
        assert shown(screen) is RecordedRunScreen
        assert "it begins at" in screen.text("#run-sentences")
        await screen.seek(first.begin + 20)
        await screen.until(lambda: "of 16 s" in screen.text("#run-title"))
        assert any("█" in row for row in screen.drawn())
        assert first.end is not None
        await screen.seek(first.end + 5)
        await screen.until(lambda: "received by alma-load-002" in screen.text("#run-sentences"))
        assert "verified" in screen.text("#run-sentences")
        await screen.press("n")
        await screen.until(lambda: "test 2 of 2" in screen.text("#run-title"))
        await screen.press("enter")
        await screen.until(lambda: screen.nictop.now() == second.begin)
        await screen.press("escape")
        assert shown(screen) is LiveScreen


async def test_no_finding_of_the_time_that_was_left_is_one_of_the_new_time() -> None:
    """The rules run again by a timer; until the hosts of the new time are read, those of the time
    before are there."""
    async with screen_with_replay(DEMO, start=28.0) as screen:
        diagnosis = screen.nictop.diagnosis
        await screen.until(lambda: diagnosis.result is not None and bool(diagnosis.result.findings))
        gone = diagnosis.result
        diagnosis.forget()
        await diagnosis.renew()
        assert diagnosis.result is None
        await screen.seek(screen.replay.playback.recording.begin + 26.0)
        await screen.until(lambda: diagnosis.result is not None)
        assert diagnosis.result is not gone


class Gate:
    """Holds the reading of recorded tests: what is shown meanwhile, as on a slow machine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.begun = 0
        advance = RecordedRun.advance

        async def held(run: RecordedRun, now: float) -> None:
            self.begun += 1
            await self.open.wait()
            await advance(run, now)

        patch.setattr(RecordedRun, "advance", held)


async def until_drawn(screen: ScreenWithReplay, words: str) -> None:
    await screen.until(lambda: words in "\n".join(screen.drawn()))


async def test_after_a_jump_a_test_is_not_shown_as_it_was_at_another_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither its result inside of it, nor that it begins at its end."""
    gate = Gate(monkeypatch)
    async with screen_with_replay(DEMO, WIDE) as screen:
        first = screen.replay.runs[0]
        assert first.end is not None
        await screen.press("6")
        for before, shown_there, after in (
            (first.end + 5, "received by", first.begin + 20),
            (first.begin - 5, "begins at", first.end + 5),
            (first.begin + 20, "of 16 s", first.end + 5),
        ):
            await screen.seek(before)
            screen.app.clear_notifications()  # one says where the recording begins
            await until_drawn(screen, shown_there)
            gate.open.clear()
            await screen.seek(after)
            await screen.settle()
            drawn = "\n".join(screen.drawn())
            assert "Reading the recording up to this time" in drawn, drawn
            wrong = re.search(
                "received by|begins (at|with)|being started|of 16 s|bottleneck", drawn
            )
            assert wrong is None, (wrong, drawn)
            gate.open.set()
            await until_drawn(screen, "of 16 s" if after < first.end else "received by")


async def test_the_reading_of_a_test_is_not_begun_anew_at_each_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a slow machine it would never be shown."""
    gate = Gate(monkeypatch)
    async with screen_with_replay(DEMO, WIDE) as screen:
        await screen.press("6")
        await screen.seek(screen.replay.runs[0].begin + 20)
        await screen.until(lambda: "of 16 s" in screen.text("#run-title"))
        gate.open.clear()
        begun = gate.begun
        for _ in range(5):
            screen.replay.changed.publish()
            await screen.settle()
        assert gate.begun == begun + 1
        gate.open.set()


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_demo_offers_only_what_works_in_a_recording(size: tuple[int, int]) -> None:
    async with screen_with_replay(DEMO, size, start=DEMO_START_SECONDS) as screen:
        for key in "1234567":
            await screen.press(key)
            if key == "6":
                await screen.until(lambda: "retransmits" in "\n".join(screen.drawn()))
            await screen.settle()
            footer = screen.drawn()[-1]
            for hint in ("Set up", "Apply", "Add host", "Start", "Reconnect"):
                assert hint not in footer, key
            is_full = size == NARROW and key == "6"  # Tab and Enter are needed there
            assert (" o View " in footer) == (key not in "37" and not is_full), key


async def test_results_are_those_that_were_known_at_the_time_that_is_shown() -> None:
    """Each when its test has ended, also after a jump back; a later one is not told before."""
    async with screen_with_replay(DEMO, NARROW, start=DEMO_START_SECONDS) as screen:
        first, second = screen.replay.runs
        assert first.end is not None and second.end is not None

        def listed() -> list[str]:
            return [
                goodput for goodput in ("81.6 M", "200 M") if goodput in "\n".join(screen.drawn())
            ]

        await screen.press("7")
        await screen.until(
            lambda: "No traffic test has ended at this time" in "\n".join(screen.drawn())
        )
        assert listed() == [] and " m Mark A/B " not in screen.drawn()[-1]
        for moment, expected in (
            (first.end - 0.5, []),
            (first.end + 0.5, ["81.6 M"]),
            (second.end - 0.5, ["81.6 M"]),
            (second.end + 0.5, ["81.6 M", "200 M"]),
            (second.begin, ["81.6 M"]),
            (first.begin, []),
        ):
            await screen.seek(moment)
            await screen.settle()
            assert listed() == expected, "\n".join([f"at {moment}:", *screen.drawn()])


async def test_both_hosts_of_a_running_test_are_named_on_a_narrow_screen() -> None:
    async with screen_with_replay(DEMO, (60, 20), start=DEMO_START_SECONDS) as screen:
        await screen.press("7")
        await screen.until(
            lambda: "No traffic test has ended at this time" in "\n".join(screen.drawn())
        )
        text = " ".join(" ".join(screen.drawn()).split())
        for run in screen.replay.runs:
            assert run.hosts_text in text
        assert "Test 1 of 2 has been running since" in text


async def test_results_are_those_of_the_recording() -> None:
    async with screen_with_replay(DEMO, NARROW, start=DEMO_START_SECONDS) as screen:
        await screen.seek(screen.replay.playback.end)
        await screen.press("7")
        await screen.until(lambda: "200" in "\n".join(screen.drawn()))
        assert "81.6" in "\n".join(screen.drawn())
        assert " m Mark A/B " in screen.drawn()[-1]
        await screen.press("m", "down", "m")
        assert any("A against B" in row for row in screen.drawn())
        await screen.press("enter")
        assert isinstance(screen.app.screen, StoredRunScreen)
        await screen.until(
            lambda: "81.6 Mb/s received by alma-load-002" in "\n".join(screen.drawn())
        )


async def test_a_recording_without_tests_has_no_results(tmp_path: Path) -> None:
    await asyncio.to_thread(write_recording, tmp_path / "r", host_items("a", 20))
    async with screen_with_replay(tmp_path / "r", NARROW) as screen:
        await screen.press("7")
        await screen.until(lambda: "No traffic test was recorded." in "\n".join(screen.drawn()))
        assert screen.drawn()[-1].startswith(" / Filter  Esc Back  ")


async def test_the_report_of_a_moment_has_the_runs_that_were_over(tmp_path: Path) -> None:
    async with screen_with_replay(DEMO, NARROW) as screen:
        first, second = screen.replay.runs
        assert first.end is not None
        pages: list[str] = []
        for moment in (second.begin + 3, screen.replay.playback.end):
            await screen.seek(moment)
            path = tmp_path / f"{len(pages)}.html"
            await screen.press("r", "end", "enter")
            screen.app.screen.query_one("#entry-line", TextInput).value = str(path)
            await screen.press("enter")
            await screen.until(lambda: shown(screen) is LiveScreen)
            if not pages:
                await screen.until(
                    lambda: "still running at this time" in "\n".join(screen.notifications())
                )
            pages.append(await asyncio.to_thread(path.read_text))
        assert [page.count('class="run"') for page in pages] == [1, 2]
        assert "81.6 Mb/s received" in pages[0] and "200 Mb/s" not in pages[0]
        assert "200 Mb/s received" in pages[1]
