"""The last minutes in memory: read as one recording, limited for each host, and written to a
file."""

from __future__ import annotations

import random
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from nictop.probe.records import Line, Trouble
from nictop.recording.file.frames import EmptyRecording, RecordingError
from nictop.recording.reader import Recording
from nictop.recording.recent import RecentSegments, open_recent, write_recent
from nictop.recording.writer import Recorder
from tests.recording.test_kept import counters_from, in_parts, is_another_file, state_at, two_hosts
from tests.support.probe import wait_until
from tests.support.recordings import TimedItem, host_items, lines_of, read_all


class SegmentsByHand(RecentSegments):
    """A segment ends when the test says so, and is deleted when the test says so."""

    ends = False
    keeps = True

    def is_full(self, seconds: float, size: int) -> bool:
        return self.ends

    def delete_old(self, newest: str) -> None:
        self.seconds = 1e9 if self.keeps else 0.0
        super().delete_old(newest)


@asynccontextmanager
async def recorded(
    parts: Sequence[Sequence[TimedItem]], *, keeps: bool = True
) -> AsyncIterator[tuple[SegmentsByHand, Recorder]]:
    """Each part is a segment; the last one is not ended."""
    segments = SegmentsByHand()
    segments.keeps = keeps
    recorder = Recorder(segments, boot_id="b1")
    try:
        for number, part in enumerate(parts):
            if number:
                before, segments.ends = recorder.path, True
                recorder._wake.set()
                wait_until(partial(is_another_file, recorder, before))
                segments.ends = False
            for host, item, time in part:
                recorder.record(host, item, time)
            await recorder.flush()
        yield segments, recorder
    finally:
        await recorder.close()
        segments.close()


async def test_all_segments_are_read_as_one_recording(tmp_path: Path) -> None:
    items = two_hosts(60)
    path = tmp_path / "one"
    whole = Recorder(str(path))
    for host, item, time in items:
        whole.record(host, item, time)
    await whole.close()
    async with recorded(in_parts(items, 5)) as (segments, recorder):
        assert (recorder.trouble, recorder.dropped) == ("", 0)
        with open_recent(segments) as found, Recording.open(str(path)) as one:
            assert (found.hosts, found.begin, found.closed) == (one.hosts, one.begin, True)
            for host in ("a", "b"):
                for since in (found.begin, 1033.3, found.end):
                    assert state_at(found, host, since) == state_at(one, host, since)
                    assert counters_from(found, host, since) == counters_from(one, host, since)


async def test_the_file_has_the_same_items_and_is_readable_by_its_owner_only(
    tmp_path: Path,
) -> None:
    path = tmp_path / "saved"
    async with recorded(in_parts(two_hosts(60), 5)) as (segments, _):
        size = write_recent(segments, str(path))
        assert size == path.stat().st_size
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with open_recent(segments) as found, Recording.open(str(path)) as saved:
            assert (saved.hosts, saved.closed, saved.damage_count) == (found.hosts, True, 0)
            assert (saved.begin, saved.end) == (found.begin, found.end)
            assert saved.wall_time(saved.begin) == pytest.approx(found.wall_time(found.begin))
            for host in ("a", "b"):
                assert read_all(saved, host) == read_all(found, host)
                assert state_at(saved, host, 1040.0) == state_at(found, host, 1040.0)
        with pytest.raises(RecordingError, match="already exists"):
            write_recent(segments, str(path))


async def test_what_is_read_stays_when_it_is_deleted() -> None:
    items = two_hosts(60)
    parts = in_parts(items, 3)
    async with recorded(parts[:2]) as (segments, recorder):
        with open_recent(segments) as found:
            before = read_all(found, "a")
            size = segments.size
            segments.keeps, segments.ends = False, True
            path = recorder.path
            recorder._wake.set()
            wait_until(partial(is_another_file, recorder, path))
            segments.ends = False
            wait_until(lambda: segments.size < size)
            assert read_all(found, "a") == before
        with open_recent(segments) as newest:
            assert newest.begin > items[0][2]
            assert state_at(newest, "a", newest.end)  # the whole state is in it


async def test_nothing_is_there_before_the_first_item() -> None:
    async with recorded(()) as (segments, _):
        with pytest.raises(EmptyRecording, match="nothing was received yet"):
            open_recent(segments)


async def test_a_host_that_sends_too_much_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RecentSegments, "host_bytes", 20_000)
    noise: list[TimedItem] = []
    for number in range(300):
        time = 1000.0 + number
        text = random.Random(number).randbytes(800).hex()
        noise.append(("a", Line(trouble=Trouble(time, text)), time))
    quiet = host_items("b", 300)
    async with recorded([[*noise, *quiet], host_items("a", 5, begin=1400.0)]) as (segments, _):
        with open_recent(segments) as found:
            assert len(counters_from(found, "b", found.begin)) == 300
            assert segments.size < 60_000
            texts = [
                line.trouble.message for line in lines_of(read_all(found, "a")) if line.trouble
            ]
            assert any("no time or no room" in text for text in texts)
            assert len(counters_from(found, "a", 1399.0)) == 5  # it is in the next segment again
