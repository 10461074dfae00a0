"""A run in a recording, read in parts while somebody looks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import nictop
from nictop.probe.records import Line, PathListener, Request, TrafficLine, TrafficRequest
from nictop.recording.file.run_note import RunNote
from nictop.recording.reader import Recording
from nictop.replay import run
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import run_marks
from nictop.traffic.live.run_view import RunView
from nictop.traffic.path.stored import StoredPathTest
from nictop.traffic.results.result import Result
from tests.support.recordings import read_all, write_recording
from tests.traffic.runs import path_test

DEMO = Path(nictop.__file__).parent / "recording" / "demo.nictop"
INTO_THE_RUN = 20.0


def times(picture: RunView | None) -> list[list[float]]:
    assert picture is not None
    return [[one.time for one in host.series] for host in picture.hosts]


async def test_looking_while_it_is_read_changes_nothing() -> None:
    """The axis moves when a quicker line is read; what was placed on it before must not stay where
    it was."""
    with Recording.open(str(DEMO)) as recording:
        (marks, *_) = run_marks(recording)
        quiet, watched = (RecordedRun(recording, marks) for _ in range(2))
        now = marks.begin + INTO_THE_RUN
        await quiet.advance(now)
        reading = asyncio.ensure_future(watched.advance(now))
        views = 0
        while not reading.done():
            views += 1
            watched.view()
            await asyncio.sleep(0)
        await reading
        assert views > 3
        assert times(watched.view()) == times(quiet.view())
        assert all(times(watched.view()))


async def test_a_run_whose_reading_is_cancelled_again_and_again_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when time passes while it is read: what was read before is neither lost nor read twice."""
    monkeypatch.setattr(run, "RUN_SLICE_SECONDS", 0.0)
    with Recording.open(str(DEMO)) as recording:
        (marks, *_) = run_marks(recording)
        assert marks.end is not None
        quiet, disturbed = (RecordedRun(recording, marks) for _ in range(2))
        await quiet.advance(marks.end)
        cancelled = 0
        while disturbed.view() is None:
            reading = asyncio.ensure_future(disturbed.advance(marks.end))
            for _ in range(10):
                await asyncio.sleep(0)
            cancelled += reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert cancelled > 10
        assert repr(disturbed.view()) == repr(quiet.view())


def test_a_server_of_a_bulk_flow_that_starts_after_the_client_is_ignored(tmp_path: Path) -> None:
    """A recording may contain anything: the plan is known by then, and it is not that of a loaded
    run."""
    with Recording.open(str(DEMO)) as recording:
        (marks, *_) = run_marks(recording)
        items = [
            (name, one.item, one.time)
            for name in recording.hosts
            for one in read_all(recording, name)
        ]
    late = TrafficRequest(f"{marks.identity}-ls", "start", role="server", port=5202)
    items.append((marks.server, Request(traffic=late), marks.begin + INTO_THE_RUN))
    write_recording(tmp_path / "run.nictop", sorted(items, key=lambda one: one[2]))
    with Recording.open(str(tmp_path / "run.nictop")) as recording:
        assert first_result(recording).plan.test == "bulk"


def test_path_test_before_the_run(tmp_path: Path) -> None:
    """Its lines are in the recording; a recording of a version without path tests has none."""
    with Recording.open(str(DEMO)) as recording:
        (marks, *_) = run_marks(recording)
        items = [
            (name, one.item, one.time)
            for name in recording.hosts
            for one in read_all(recording, name)
            if not isinstance(one.item, RunNote) and not is_of_path_test(one.item)
        ]
    write_recording(tmp_path / "without.nictop", sorted(items, key=lambda one: one[2]))
    with Recording.open(str(tmp_path / "without.nictop")) as recording:
        assert recorded_path_test(recording) is None
    test = path_test().result.directions[0].test
    assert test is not None
    time = marks.begin - 0.1
    for side, name in enumerate((marks.client, marks.server)):
        tested = TrafficLine(
            time, f"{marks.identity}-path_test-{side}", "path_test", path_test=test
        )
        listener = PathListener(5201, ended=True)
        listened = TrafficLine(
            time, f"{marks.identity}-path_listen-{side}", "path_listener", path_listener=listener
        )
        items += [(name, Line(traffic=one), time) for one in (tested, listened)]
    write_recording(tmp_path / "run.nictop", sorted(items, key=lambda one: one[2]))
    with Recording.open(str(tmp_path / "run.nictop")) as recording:
        found = recorded_path_test(recording)
    assert found is not None and [one.failure for one in found.result.directions] == ["", ""]
    assert [one.sender.host for one in found.result.directions] == [marks.client, marks.server]


def is_of_path_test(item: object) -> bool:
    traffic = item.traffic if isinstance(item, Line | Request) else None
    return traffic is not None and "-path_" in traffic.id


def recorded_path_test(recording: Recording) -> StoredPathTest | None:
    return first_result(recording).path_test


def first_result(recording: Recording) -> Result:
    """That of the first run."""
    (marks, *_) = run_marks(recording)
    run = RecordedRun(recording, marks)
    asyncio.run(run.advance(recording.end))
    view = run.view()
    assert view is not None and view.result is not None
    return view.result
