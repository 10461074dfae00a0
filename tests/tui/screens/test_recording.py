"""The menu of the key r: a recording of what is watched, and a report of what is shown."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nictop.model.snapshot import Snapshot, advance, outdated_text
from nictop.model.text import units
from nictop.model.text.glyphs import ASCII
from nictop.probe.records import Line, Outdated
from nictop.recording.file.open import create_file
from nictop.recording.reader import Recording
from nictop.replay.position import wall_clock_text
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.live.files import file_name
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.wire.source import SourceState
from tests.support.captured import captured_lines
from tests.support.lines import counters
from tests.support.recordings import lines_of, read_all
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import (
    NARROW,
    NO_COST,
    SCREEN_TIMEOUT,
    WIDE,
    Screen,
    live_screen,
    screen_with_hosts,
    wait_until,
)
from tests.support.traffic_screen import two_hosts
from tests.traffic.pair import missing_requirement

GUEST = captured_lines("igb-vfs-vmxnet3-virtio")
real = pytest.mark.skipif(missing_requirement() is not None, reason=str(missing_requirement()))


def status(screen: Screen) -> str:
    return "".join(text for text, _ in screen.app.screen.query_one(StatusLine).lines[0])


def notification_text(screen: Screen) -> str:
    return "\n".join(f"{one.title}: {one.message}" for one in screen.app._notifications)


RECORD, REPORT = ("r", "home", "enter"), ("r", "end", "enter")
"""Keys that choose an entry of the menu."""


async def name_it(screen: Screen, keys: tuple[str, ...], path: Path | str) -> None:
    """Press the keys, and give the file this name."""
    await screen.press(*keys)
    assert isinstance(screen.app.screen, LineEntry)
    screen.app.screen.query_one("#entry-line", TextInput).value = str(path)
    await screen.press("enter")
    await wait_until(
        screen, lambda: isinstance(screen.app.screen, LiveScreen) or complaint(screen) != ""
    )


def complaint(screen: Screen) -> str:
    views = screen.app.screen.query("#entry-error").results(LineWidget)
    return "".join(text for view in views for line in view.lines for text, _ in line)


async def test_the_field_for_the_name_has_a_label_and_a_cursor_on_a_console() -> None:
    """In reverse: the Linux console has no bright backgrounds."""
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.press(*RECORD)
        line = screen.app.screen.query_one("#entry-line", TextInput)
        row = screen.app.screen._compositor.render_strips()[line.region.y]
        assert "| File: nictop-" in row.text
        (cursor,) = [
            one for one in row if one.style is not None and one.style.reverse and one.text == " "
        ][:1]
        assert line.cursor_position == len(line.value)
        assert row.text.index(line.value) + len(line.value) == sum(
            len(one.text) for one in list(row)[: list(row).index(cursor)]
        )


# ---------------------------------------------------------------------------------------- recording


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_recording_starts_with_what_is_known(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.nictop"
    async with live_screen(size) as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await wait_until(screen, lambda: screen.source.is_drained)
        await name_it(screen, RECORD, path)
        assert "● REC" in status(screen)
        last = await count_on(screen)
        await screen.press(*RECORD)
        await wait_until(screen, lambda: "Recorded" in notification_text(screen))
        assert "REC" not in status(screen)
        assert str(path) in notification_text(screen)
        assert "nothing to show" not in notification_text(screen)
        await count_on(screen)
    assert path.stat().st_mode & 0o777 == 0o600
    with Recording.open(str(path)) as recording:
        (name,) = recording.hosts
        lines = lines_of(read_all(recording, name))
        times = [line.counters.time for line in lines if line.counters is not None]
        assert times[-1] == last
        assert sum(line.inventory is not None for line in lines) == 1
        first = [one.item for one in read_all(recording, name) if one.time <= recording.begin]
        assert sum(isinstance(one, Line) and one.counters is not None for one in first) == 2
        assert SourceState("live") in first, "its first moment has all that was known"
    async with screen_with_replay(path, size) as shown:
        shown.replay.edge()
        await shown.wait_until_shown()
        assert any("82576" in row for row in shown.drawn())


async def test_a_recording_begins_with_the_event_that_the_inventory_is_older_than(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without a directory is of the current one, and the notice says which that is."""
    monkeypatch.chdir(tmp_path)
    event = Line(outdated=Outdated(1e9, "address"))
    of_link = Line(outdated=Outdated(1e9 + 1.0, "link"))
    async with live_screen() as screen:
        await screen.receive(SourceState("live"), *GUEST, event, of_link)
        await wait_until(screen, lambda: screen.source.is_drained)
        await name_it(screen, RECORD, "a.nictop")
        await screen.press(*RECORD)
        await wait_until(screen, lambda: "Recorded" in notification_text(screen))
        assert str(tmp_path / "a.nictop") in notification_text(screen)
    with Recording.open(str(tmp_path / "a.nictop")) as recording:
        (name,) = recording.hosts
        snapshot = Snapshot.empty(name)
        for line in lines_of(read_all(recording, name)):
            snapshot = advance(snapshot, line)
    assert outdated_text(snapshot) == "read before an event (address)"


async def test_a_recording_without_a_reading_is_told(tmp_path: Path) -> None:
    async with live_screen() as screen:
        await screen.receive(SourceState("connecting"))
        await name_it(screen, RECORD, tmp_path / "a.nictop")
        await screen.press(*RECORD)
        await wait_until(screen, lambda: "Recorded" in notification_text(screen))
        assert "No host has sent a reading: there is nothing to show in it." in notification_text(
            screen
        )


async def test_the_status_shows_how_long_it_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_screen() as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await screen.press(*RECORD)
        assert "r, Stop recording ends it" in " ".join(
            " ".join(screen.drawn()).replace("│", " ").split()
        )
        await screen.press("escape")
        await name_it(screen, RECORD, tmp_path / "a.nictop")
        assert "● REC 00:0" in status(screen)
        began = screen.nictop.recording._began
        monkeypatch.setattr("nictop.tui.controllers.recording.monotonic", lambda: began + 3725.5)
        assert screen.nictop.recording.status.startswith("● REC 62:05 ")


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_click_on_the_mark_of_the_recording_opens_its_menu(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # cost and size change the column of the mark when they are drawn with other widths
    monkeypatch.setattr(StatusLine, "COST_EVERY", NO_COST)
    monkeypatch.setattr(units, "bytes_", lambda _: "1.00 KiB")
    async with live_screen(size) as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await name_it(screen, RECORD, tmp_path / "a.nictop")
        column = screen.drawn()[1].index("● REC")
        await screen.pilot.click(StatusLine, offset=(column - 1, 0))
        assert isinstance(screen.app.screen, LiveScreen)
        await screen.pilot.click(StatusLine, offset=(column + len("● REC 00:00"), 0))
        await wait_until(screen, lambda: any("Stop recording" in row for row in screen.drawn()))
        await screen.press("enter")
        await wait_until(screen, lambda: "Recorded" in notification_text(screen))


async def count_on(screen: Screen) -> float:
    """The host counts once more, and the screen has it; the time of that."""
    last = screen.nictop.hosts.session.snapshot.counters
    assert last is not None
    time = last.time + 1
    await screen.receive(counters(time, {1: (0, 0)}))
    await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.counters is not last)
    return time


async def test_a_name_that_is_taken_is_said_and_can_be_corrected(tmp_path: Path) -> None:
    path = tmp_path / "a.nictop"
    path.write_text("mine")
    async with live_screen() as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await name_it(screen, RECORD, path)
        assert "already exists" in complaint(screen)
        await screen.press("end", "backspace", "x", "enter")
        await wait_until(screen, lambda: screen.nictop.recording.running)
        await screen.press(*RECORD)
        await wait_until(screen, lambda: not screen.nictop.recording.running)
        await wait_until(screen, lambda: "Recorded" in notification_text(screen))
    assert path.read_text() == "mine"
    assert (tmp_path / "a.nictox").exists()


async def test_leaving_ends_the_recording_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.nictop"
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        for name in ("vm1", "vm2"):
            hosts[name].send(SourceState("live"), *GUEST)
        await wait_until(screen, lambda: not screen.nictop.hosts.pending)
        await name_it(screen, RECORD, path)
        await screen.settle()
    with Recording.open(str(path)) as recording:
        assert recording.closed
        assert recording.hosts == ("vm1", "vm2")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("not root: no file system can be mounted")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=False
    )
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_is_said_and_the_watch_goes_on(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(b"x" * 60 * 1024)
    async with live_screen() as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await name_it(screen, RECORD, small_disk / "a.nictop")
        await screen.receive(*GUEST * 40)
        await wait_until(screen, lambda: "No space left on device" in notification_text(screen))
        assert "REC" in status(screen) and "!" in status(screen)
        await wait_until(screen, lambda: screen.source.is_drained)
        await count_on(screen)
        await screen.press(*RECORD)
        await wait_until(screen, lambda: "Recording ended" in notification_text(screen))


async def test_a_directory_that_vanishes_ends_it_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with live_screen() as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await name_it(screen, RECORD, folder / "a.nictop")
        assert "REC" in status(screen)
        (folder / "a.nictop").unlink()
        folder.rmdir()
        await screen.receive(*GUEST)
        await wait_until(
            screen,
            lambda: (
                f"recording stopped: {folder}/a.nictop was removed" in notification_text(screen)
            ),
        )
        await wait_until(screen, lambda: "REC" not in status(screen))
        await name_it(screen, RECORD, folder / "a.nictop")
        # wrapped: the folder is long
        assert f"cannotwrite{folder}/a.nictop:Nosuchfileordirectory" in complaint(screen).replace(
            " ", ""
        )


@real
async def test_a_run_that_was_recorded_is_drawn_and_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are those of the live run, to the last digit; nothing but the start of its clock
    is not known."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "a.nictop"
    async with two_hosts() as runs:
        await name_it(runs, RECORD, path)
        await runs.start(2)
        await runs.wait_until_finished()
        (kept,) = runs.nictop.traffic.results
        live_result = kept.result
        await runs.nictop.recording.end()
    async with screen_with_replay(path) as screen:
        (marks,) = screen.replay.runs
        assert (marks.client, marks.server) == ("a", "b")
        screen.replay.edge()
        await screen.wait_until_shown()
        await screen.press("6")
        await screen.until(lambda: "received by b" in screen.text("#run-sentences"))
        picture = screen.app.screen.run_view()  # type: ignore[attr-defined]
        assert picture.result is not None
        assert picture.result.plan == live_result.plan
        assert picture.result.goodput == live_result.goodput
        assert picture.result.flows == live_result.flows
        assert [one.sentence for one in picture.result.proof.hosts] == [
            one.sentence
            for one in live_result.proof.hosts  # type: ignore[union-attr]
        ]


# ------------------------------------------------------------------------------------------- report


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_report_of_what_is_shown(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    async with screen_with_hosts("vm1", "pve", size=size) as (screen, hosts):
        hosts["vm1"].send(SourceState("live"), *GUEST)
        hosts["pve"].send(SourceState("failed", "no Python on pve <b>"))
        await wait_until(
            screen,
            lambda: not screen.nictop.hosts.pending and screen.nictop.diagnosis.result is not None,
        )
        await name_it(screen, REPORT, path)
        await wait_until(screen, lambda: "Report written" in notification_text(screen))
        assert str(path) in notification_text(screen)
        await name_it(screen, REPORT, path)
        assert "is there already" in complaint(screen)
    assert path.stat().st_mode & 0o777 == 0o600
    page = path.read_text()
    assert "82576" in page and "no Python on pve &lt;b&gt;" in page


async def test_the_report_of_a_recording_is_of_its_moment(tmp_path: Path) -> None:
    path, page = tmp_path / "a.nictop", tmp_path / "a.html"
    async with live_screen() as screen:
        await screen.receive(SourceState("live"), *GUEST)
        await name_it(screen, RECORD, path)
        await screen.press(*RECORD)
        await wait_until(screen, lambda: "Recorded" in notification_text(screen))
    async with screen_with_replay(path) as shown:
        shown.replay.edge()
        await shown.wait_until_shown()
        moment = wall_clock_text(shown.nictop.here().wall, date=True)
        await shown.press(*REPORT)
        assert f"with the state at {moment}" in " ".join(
            " ".join(shown.drawn()).replace("│", " ").split()
        )
        await shown.press("escape")
        await name_it(shown, REPORT, page)
        await wait_until(shown, page.exists)
        await asyncio.to_thread(page.read_text)
    assert "82576" in page.read_text()


@pytest.mark.parametrize("way", ["the dialog is left", "it is ended", "nictop is ended"])
async def test_a_file_that_the_disk_takes_long_to_begin(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left running: no thread, no open file, no recording that the next r would end."""
    started, disk = threading.Event(), threading.Event()

    def slow(path: str, *, force: bool = False) -> int:
        started.set()
        assert disk.wait(SCREEN_TIMEOUT)
        return create_file(path, force=force)

    monkeypatch.setattr("nictop.recording.writer.create_file", slow)
    path = tmp_path / "a.nictop"
    async with live_screen() as screen:
        await screen.press(*RECORD)
        screen.app.screen.query_one("#entry-line", TextInput).value = str(path)
        await screen.press("enter")
        await wait_until(screen, started.is_set)
        recording = screen.nictop.recording
        assert await recording.start(str(tmp_path / "b.nictop")) == "a recording is already running"
        if way == "the dialog is left":
            await screen.press("escape")
            disk.set()
            await wait_until(screen, lambda: recording._opening is None)
            assert not path.exists()
        elif way == "it is ended":
            ending = asyncio.create_task(recording.end())
            await screen.settle()
            disk.set()
            await ending
            assert path.exists()
        else:
            disk.set()
    assert not recording.running and recording._opening is None
    assert not [thread for thread in threading.enumerate() if thread.name == "recorder"]
    assert not (tmp_path / "b.nictop").exists()


@pytest.mark.parametrize(
    "host", ["vm1", "../../etc/passwd", "a b\x1b[2J", "", "…", "x" * 500, "-rf", ".hidden"]
)
def test_names_of_files_are_harmless(host: str) -> None:
    name = file_name((host,), 1.7e9, "nictop")
    assert name.startswith("nictop-") and name.endswith(".nictop")
    assert "/" not in name and name.isascii() and name.isprintable() and len(name) < 100
    assert file_name((host, "other"), 1.7e9, "html").startswith("nictop-2-hosts-")


async def test_a_recording_that_ends_while_its_menu_is_open_is_not_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The entry that stops it began another one."""
    is_running = [True]
    async with live_screen(NARROW) as screen:
        recording = type(screen.nictop.recording)
        monkeypatch.setattr(recording, "running", property(lambda _: is_running[0]))
        await screen.press("r")
        assert any("Stop recording" in row for row in screen.drawn())
        is_running[0] = False
        screen.nictop.hosts.changed.publish()
        await wait_until(
            screen, lambda: any("Stop recording  not any more" in row for row in screen.drawn())
        )
