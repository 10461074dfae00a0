"""What a host sends during a run takes limited memory, and what is missing is told."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from nictop.probe.records import Counters, GeneratorFloor, LatencyCounts, Line, TrafficLine
from nictop.traffic.failures import RunFailed
from nictop.traffic.hosts import counter_records, inbox
from nictop.traffic.hosts.counter_records import CounterRecords
from nictop.traffic.hosts.host import MAX_FLOORS, RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.wire.source import SourceState
from tests.support.sources import ScriptedSource, session_of


def line(text: str) -> TrafficLine:
    return TrafficLine(1.0, "run-c", "output", text=text)


def opened(ends: tuple[str, ...] = ("a",)) -> TrafficInbox:
    one = TrafficInbox({"a": RunHost(session_of(ScriptedSource("a")))}, ends)
    one.open()
    return one


def test_lines_that_nobody_takes_are_limited_and_the_run_fails() -> None:
    one, sent = opened(), 1000
    for _ in range(sent):
        one._receive("a", line("x" * 100_000))
    kept = len(one._pending)
    assert 100 < kept < sent and kept * 100_000 < inbox.MAX_PENDING_BYTES
    with pytest.raises(RunFailed, match="a: it sends more lines than are processed"):
        asyncio.run(one.next(time.monotonic() + 60))


def test_lines_that_are_taken_do_not_count() -> None:
    one = opened()

    async def taken() -> int:
        count = 0
        for _ in range(1000):
            one._receive("a", line("x" * 100_000))
            count += await one.next(time.monotonic() + 60) is not None
        return count

    assert asyncio.run(taken()) == 1000


def test_a_run_that_ends_gets_the_lines_that_are_left() -> None:
    one = opened()
    for _ in range(1000):
        one._receive("a", line("x" * 100_000))
    one.end()
    assert asyncio.run(one.next(time.monotonic() + 60)) is not None


def test_a_lost_end_is_noticed_among_very_many_states() -> None:
    one = opened()
    for _ in range(2 * inbox.MAX_PENDING_STATES):
        one._receive("a", SourceState("live"))
    assert len(one._pending) == inbox.MAX_PENDING_STATES
    one._receive("a", SourceState("lost", "gone"))
    with pytest.raises(RunFailed, match="a: gone"):
        asyncio.run(one.next(time.monotonic() + 60))


def counters(number: int, size: int) -> Counters:
    return Counters(float(number), {1: (number,) * size}, {})


def test_few_records_are_all_kept() -> None:
    records = CounterRecords()
    for number in range(600):
        records.add(counters(number, 300))
    assert [one.time for one in records.kept] == list(map(float, range(600)))


def test_of_many_values_the_records_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_records, "MAX_COUNTER_VALUES", 10_000)
    records = CounterRecords()
    for number in range(1001):
        records.add(counters(number, 99))
        kept = [one.time for one in records.kept]
        assert kept[0] == 0.0 and kept[-1] == float(number)
        assert sum(map(counter_records._values, records.kept)) <= 10_000
        regular = kept[:-1] if len(kept) > 2 else kept
        assert len({after - before for before, after in pairwise(regular)}) <= 1
    assert len(records.kept) > 40


def test_very_large_records_leave_the_first_and_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_records, "MAX_COUNTER_VALUES", 10)
    records = CounterRecords()
    for number in range(50):
        records.add(counters(number, 1000))
    assert len(records.kept) == 2 and (records.kept[0].time, records.kept[1].time) == (0.0, 49.0)


def test_nested_values_are_counted() -> None:
    found = Counters(1.0, {}, {}, vfs={1: dict.fromkeys(range(100), (0,) * 8)})
    assert counter_records._values(found) >= 800


def test_measurements_of_generators_are_limited() -> None:
    host = RunHost(session_of(ScriptedSource("a")))
    for number in range(3 * MAX_FLOORS):
        floor = GeneratorFloor((str(number),), 1.0, 1, 0, LatencyCounts(0, ()))
        host.session.process(Line(traffic=TrafficLine(1.0, "run-c", "floor", floor=floor)), 1.0)
    assert len(host.floors) == MAX_FLOORS
