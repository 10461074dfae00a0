"""A playback yields what the host sent, at the recorded times, from any position; the test controls
its clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Line, Request
from nictop.recording.playback import (
    HISTORY_SECONDS,
    MAX_SPEED,
    MIN_SPEED,
    Playback,
    PlaybackSource,
)
from nictop.recording.reader import Recording
from nictop.recording.writer import Recorder
from nictop.wire.source import Source, SourceState
from tests.support.items import ITEM_TIMEOUT, Item, has_record, items_until
from tests.support.recordings import TimedItem, host_items, write_recording

BEGIN = 1000.25


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


class Consumer:
    """Follows a source as the screens do: discards its state after a jump."""

    def __init__(self, playback: Playback, source: PlaybackSource) -> None:
        self._playback, self._source = playback, source
        self._jumps = playback.jumps
        self.items: list[Item] = []
        self.snapshot = Snapshot.empty(source.name)

    async def follow(self) -> None:
        async for item in self._source.items():
            if self._playback.jumps != self._jumps:
                self._jumps, self.items, self.snapshot = (
                    self._playback.jumps,
                    [],
                    Snapshot.empty(self._source.name),
                )
            self.items.append(item)
            if isinstance(item, SourceState):
                self.snapshot = with_state(self.snapshot, item.state, item.message)
            else:
                self.snapshot = advance(self.snapshot, item)

    async def close(self) -> None:
        await self._source.close()

    @property
    def newest(self) -> float | None:
        return self.snapshot.counters.time if self.snapshot.counters is not None else None


class OpenPlayback:
    """An open playback with a consumer of each of its hosts."""

    def __init__(self, playback: Playback, clock: ManualClock) -> None:
        self.playback, self.clock = playback, clock
        self.sources = playback.sources()
        self.consumers = [Consumer(playback, source) for source in self.sources]
        self.tasks = [asyncio.ensure_future(consumer.follow()) for consumer in self.consumers]

    async def until(self, fact: Callable[[], object]) -> None:
        end = time.monotonic() + ITEM_TIMEOUT
        while not fact():
            assert time.monotonic() < end, "did not come true in time"
            await asyncio.wait(self.tasks, timeout=0)

    def advance_clock(self, seconds: float) -> None:
        """Advance the clock and wake the waiting sources."""
        self.clock.now += seconds
        self.playback.wake()


@asynccontextmanager
async def open_playback(path: Path, window: float = HISTORY_SECONDS) -> AsyncIterator[OpenPlayback]:
    clock = ManualClock()
    with Recording.open(str(path)) as recording:
        one = OpenPlayback(Playback(recording, window=window, clock=clock), clock)
        try:
            yield one
        finally:
            for source in one.sources:
                await source.close()
            await asyncio.wait_for(asyncio.gather(*one.tasks), ITEM_TIMEOUT)


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts; the second begins later and sends twice as often."""
    path = tmp_path_factory.mktemp("hour") / "r"
    sent: list[TimedItem] = [*host_items("a", 900), *host_items("b", 1000, BEGIN + 100, 0.5)]
    write_recording(path, sorted(sent, key=lambda one: one[2]))
    return path


def is_paused(playback: Playback) -> bool:
    return not playback.playing


def expected(host: list[TimedItem], at: float) -> Snapshot:
    """The snapshot at that time for a consumer of the live host."""
    snapshot = Snapshot.empty(host[0][0])
    for _, item, moment in host:
        if moment > at:
            break
        if isinstance(item, SourceState):
            snapshot = with_state(snapshot, item.state, item.message)
        elif isinstance(item, Line):
            snapshot = advance(snapshot, item)
    return snapshot


def has_items(consumer: Consumer, items: int) -> bool:
    return len(consumer.items) >= items


def has_snapshot(consumer: Consumer, snapshot: Snapshot) -> bool:
    return are_equal(consumer.snapshot, snapshot)


def are_equal(one: Snapshot, other: Snapshot) -> bool:
    """Equal in all but the histories of links, which begin where the reading begins."""
    return repr(replace(one, histories={})) == repr(replace(other, histories={}))


def test_playback_sources_implement_source(hour: Path) -> None:
    with Recording.open(str(hour)) as recording:
        sources: tuple[Source, ...] = Playback(recording).sources()
    assert [source.name for source in sources] == ["a", "b"] and sources[0].pids == ()


async def test_playback_starts_paused_at_the_beginning(hour: Path) -> None:
    async with open_playback(hour) as one:
        assert (one.playback.now(), one.playback.playing) == (BEGIN, False)
        a = one.consumers[0]
        await one.until(lambda: len(a.items) == 3)
        one.advance_clock(1000.0)
        await asyncio.sleep(0)
        assert a.snapshot.hello is not None and a.snapshot.inventory is None and len(a.items) == 3
        assert one.playback.now() == BEGIN


async def test_items_are_yielded_at_their_recorded_times(hour: Path) -> None:
    live = host_items("a", 900)
    async with open_playback(hour) as one:
        a = one.consumers[0]
        one.playback.play()
        for seconds in (0.5, 0.1, 1.0, 7.0, 33.3):
            one.advance_clock(seconds)
            now = one.playback.now()
            sent = sum(moment <= now for _, _, moment in live)
            await one.until(partial(has_items, a, sent))
            await asyncio.wait(one.tasks, timeout=0)
            assert len(a.items) == sent
        assert are_equal(a.snapshot, expected(live, one.playback.now()))
        one.playback.pause()
        one.advance_clock(100.0)
        assert one.playback.now() == pytest.approx(BEGIN + 41.9)


async def test_speed_scales_time(hour: Path) -> None:
    async with open_playback(hour) as one:
        one.playback.play()
        one.playback.speed = 10.0
        one.advance_clock(6.0)
        one.playback.speed = 0.5
        one.advance_clock(6.0)
        assert one.playback.now() == pytest.approx(BEGIN + 63.0)
        await one.until(lambda: one.consumers[0].newest == pytest.approx(BEGIN + 62.6))
        for requested, speed in ((1000.0, MAX_SPEED), (0.0, MIN_SPEED)):
            one.playback.speed = requested
            assert one.playback.speed == speed


@pytest.mark.parametrize(
    "offset", [0.0, 0.55, 1.7, 42.0, 299.9, 300.6, 301.0, 650.3, 899.0, 5000.0]
)
async def test_after_a_seek_the_snapshot_equals_the_live_one(hour: Path, offset: float) -> None:
    """Inventory, counters and rates of every host, from whatever position playback jumped."""
    hosts = [host_items("a", 900), host_items("b", 1000, BEGIN + 100, 0.5)]
    async with open_playback(hour) as one:
        for start in (BEGIN, BEGIN + 700.0):
            one.playback.seek(start)
            await asyncio.sleep(0)
            one.playback.seek(BEGIN + offset)
            now = one.playback.now()
            for consumer, live in zip(one.consumers, hosts, strict=True):
                if now < live[0][2]:
                    continue
                snapshot = expected(live, now)
                await one.until(partial(has_snapshot, consumer, snapshot))


async def test_a_seek_yields_one_window_of_history(hour: Path) -> None:
    async with open_playback(hour, window=20.0) as one:
        one.playback.seek(BEGIN + 500.0)
        await one.until(lambda: one.consumers[0].newest == BEGIN + 0.6 + 499)
        times = [
            i.counters.time
            for i in one.consumers[0].items
            if isinstance(i, Line) and i.counters is not None
        ]
        assert len(times) == 20 and times[0] >= BEGIN + 480.0


async def test_no_item_of_before_follows_a_seek(hour: Path) -> None:
    """Not even the item that was due when the jump came."""
    with Recording.open(str(hour)) as recording:
        clock = ManualClock()
        playback = Playback(recording, clock=clock)
        source = playback.sources()[0]
        items = source.items()
        playback.play()
        clock.now += 400.0
        await items_until(items, has_record("counters"))
        playback.seek(BEGIN + 10.0)
        received = await items_until(items, has_record("counters"))
        expected_items = [item for _, item, _ in host_items("a", 1)]
        assert received == expected_items
        await source.close()
        await items.aclose()


async def test_step_moves_to_the_next_counters_of_any_host(hour: Path) -> None:
    async with open_playback(hour) as one:
        one.playback.play()
        one.playback.step()
        assert one.playback.now() == BEGIN + 0.6
        assert is_paused(one.playback)
        one.playback.step(2)
        assert one.playback.now() == pytest.approx(BEGIN + 2.6)
        await one.until(lambda: one.consumers[0].newest == pytest.approx(BEGIN + 2.6))
        one.playback.step(-1)
        assert one.playback.now() == pytest.approx(BEGIN + 1.6)
        await one.until(lambda: one.consumers[0].newest == pytest.approx(BEGIN + 1.6))
        one.playback.seek(BEGIN + 200.0)
        one.playback.step(3)
        assert one.playback.now() == pytest.approx(BEGIN + 201.1)
        one.playback.step(-9999)
        assert one.playback.now() == pytest.approx(BEGIN + 0.6)
        one.playback.seek(one.playback.end)
        one.playback.step()
        assert one.playback.now() == one.playback.end


async def test_playback_stops_at_the_end_and_restarts(hour: Path) -> None:
    async with open_playback(hour) as one:
        one.playback.seek(BEGIN + 890.0)
        one.playback.play()
        assert one.playback.now() < one.playback.end
        one.advance_clock(100.0)
        assert one.playback.at_end and one.playback.now() == one.playback.end
        await one.until(lambda: one.consumers[0].newest == pytest.approx(BEGIN + 899.6))
        one.playback.play()
        assert one.playback.now() == BEGIN
        await one.until(lambda: one.consumers[0].newest is None)


async def test_a_later_source_begins_at_the_current_position(hour: Path) -> None:
    """As screens do after a jump: a new source and an empty state."""
    async with open_playback(hour, window=5.0) as one:
        one.playback.seek(BEGIN + 500.0)
        late = Consumer(one.playback, one.playback.source("a"))
        task = asyncio.ensure_future(late.follow())
        await one.until(partial(has_snapshot, late, expected(host_items("a", 900), BEGIN + 500.0)))
        times = [
            i.counters.time for i in late.items if isinstance(i, Line) and i.counters is not None
        ]
        assert min(times) >= BEGIN + 495.0
        await late.close()
        await asyncio.wait_for(task, ITEM_TIMEOUT)


async def test_wall_clock(hour: Path) -> None:
    async with open_playback(hour) as one:
        begin = one.playback.wall_now()
        one.playback.seek(BEGIN + 60.0)
        assert one.playback.wall_now() - begin == pytest.approx(60.0, abs=1e-3)


async def test_requests_are_ignored(hour: Path) -> None:
    async with open_playback(hour) as one:
        await one.sources[0].request(Request(inventory=True))
        await one.sources[0].close()
        await one.sources[0].close()


async def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "r"))
    sent = host_items("a", 40)
    for host, item, moment in sent[:20]:
        recorder.record(host, item, moment)
    await recorder.flush()
    async with open_playback(tmp_path / "r") as one:
        one.playback.seek(one.playback.end)
        one.playback.play()
        known = one.playback.end
        await one.until(lambda: one.consumers[0].newest is not None)
        for host, item, moment in sent[20:]:
            recorder.record(host, item, moment)
        await recorder.close()
        one.advance_clock(60.0)
        recording = one.playback.recording
        # a slow machine reads what is new in several parts
        await one.until(lambda: recording.closed or (recording.refresh() and recording.closed))
        assert one.playback.end > known
        one.advance_clock(60.0)
        await one.until(lambda: one.consumers[0].newest == sent[-1][2])
