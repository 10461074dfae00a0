"""A run in a recording, read in parts while somebody looks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nictop
from nictop.recording.reader import Recording
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import run_marks
from nictop.traffic.live.run_view import RunView

DEMO = Path(nictop.__file__).parent / "recording" / "demo.nictop"
INTO_THE_RUN = 12.0


def times(picture: RunView | None) -> list[list[float]]:
    assert picture is not None
    return [[one.time for one in host.series] for host in picture.hosts]


async def test_looking_while_it_is_read_changes_nothing() -> None:
    """The axis moves when a quicker line is read; what was placed on it before must not stay where it was."""
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
