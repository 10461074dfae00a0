"""Recordings: their size, the cost of writing, and the time to the first frame from one of a whole
day.

A host with 10 NICs of 8 queues each and 16 CPUs, with realistic rates: one NIC carries 100,000
packets per second in each direction, two carry little, seven receive occasional broadcasts. The
selected NIC is watched, as on the screen; `all` are watched by ``nictop record``.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import LINK_COUNTERS, Counters, Inventory, Line, Link
from nictop.recording.host_writer import HostFrames, encode_item
from nictop.recording.keep import Keep, KeptDirectory
from nictop.recording.playback import HISTORY_SECONDS, Playback
from nictop.recording.reader import Recording
from nictop.recording.recent import RecentSegments, open_recent, write_recent
from nictop.recording.writer import Recorder, Segments
from nictop.wire.source import SourceState
from tests.benchmarks.replays import replay_screens
from tests.benchmarks.results import Result
from tests.benchmarks.rules import nic
from tests.support.lines import hello, inventory
from tests.support.probe import wait_until

NICS, QUEUES, CPUS = 10, 8, 16
FEW_NICS = 4
"""Of a guest, or a usual host."""
LOADS = ([12_500.0] * QUEUES, *[[1000.0, 1000.0, 3.0, *[0.0] * 5]] * 2, *[[0.5, *[0.0] * 7]] * 7)
"""Packets per second in each queue of each NIC."""
GENERATED_SECONDS = 600
"""Seconds that are generated; a longer recording repeats them."""
HOUR = 3600
RECENT_HOSTS = 16


class Host:
    """Generates random counters, the same in every run."""

    def __init__(self, watched: int, busy: bool = False) -> None:
        self._random, self._values = Random(1), dict[tuple[object, ...], int]()
        self._watched, self._loads = watched, [LOADS[0]] * NICS if busy else LOADS

    def more(self, rate: float, *key: object) -> int:
        """A counter increment of about `rate`."""
        known = self._values.setdefault(key, self._random.randrange(10**9) if rate else 0)
        if rate > 20:
            known += max(0, int(self._random.gauss(rate, rate * 0.05 + rate**0.5)))
        elif rate:
            known += sum(self._random.random() < rate / 4 for _ in range(4))
        self._values[key] = known
        return known

    def bytes_of(self, packets: int, size: int, *key: object) -> int:
        known = self._values.setdefault(key, self._random.randrange(10**9))
        self._values[key] = known + int(
            packets * size * (self._random.gauss(1, 0.02) if packets > 50 else 1)
        )
        return self._values[key]

    def counters(self, second: int) -> Counters:
        links, queues, interrupts = {}, {}, {}
        for number, loads in enumerate(self._loads):
            ifindex = number + 2
            links[ifindex], rows = self._nic(ifindex, loads)
            if number < self._watched:
                queues[ifindex] = rows
            for queue, load in enumerate(loads):
                hot = (number + queue) % CPUS
                interrupts[10 * ifindex + queue] = {
                    hot: self.more(min(load, 8000.0) / 2, "irq", ifindex, queue)
                }
        busy = self._loads[0][0]
        ticks = (3.0, 0.0, 4.0, 80.0, 0.0, 0.0, 6.0, 1.0, 0.0, 0.0)
        return Counters(
            time=round(1000.0 + second + self._random.random() * 2e-3, 9),
            links=links,
            cpus={
                cpu: tuple(self.more(rate, "cpu", cpu, n) for n, rate in enumerate(ticks))
                for cpu in range(CPUS)
            },
            queues=queues,
            interrupts=interrupts,
            softirqs={
                cpu: (self.more(0.3, "tx", cpu), self.more(900.0, "rx", cpu)) for cpu in range(CPUS)
            },
            softnet={
                cpu: (self.more(busy, "net", cpu), 0, self.more(0.2, "late", cpu), 0, 0)
                for cpu in range(CPUS)
            },
        )

    def _nic(
        self, ifindex: int, loads: list[float]
    ) -> tuple[tuple[int, ...], tuple[tuple[str, int, tuple[int | None, ...]], ...]]:
        rows: list[tuple[str, int, tuple[int | None, ...]]] = []
        sums = dict.fromkeys(LINK_COUNTERS, 0)
        for way, size in (("rx", 1400), ("tx", 66)):
            for queue, load in enumerate(loads):
                before = self._values.get((way, ifindex, queue))
                packets = self.more(load, way, ifindex, queue)
                data = self.bytes_of(
                    packets - (before or packets), size, way, ifindex, queue, "bytes"
                )
                sums[f"{way}_packets"] += packets
                sums[f"{way}_bytes"] += data
                numbers = (packets, data, None, None, 0, None)
                rows.append(
                    (way, queue, numbers if way == "rx" else (None, None, packets, data, None, 0))
                )
        return tuple(sums.values()), tuple(rows)


@lru_cache(maxsize=4)
def generated_counters(
    watched: int, busy: bool = False, seconds: int = GENERATED_SECONDS
) -> tuple[Counters, ...]:
    host = Host(watched, busy)
    return tuple(host.counters(second) for second in range(seconds))


def with_nics(record: Counters, nics: int) -> Counters:
    """Only of the first NICs."""
    end = nics + 2
    return replace(
        record,
        links={ifindex: values for ifindex, values in record.links.items() if ifindex < end},
        queues={ifindex: rows for ifindex, rows in record.queues.items() if ifindex < end},
        interrupts={
            number: values for number, values in record.interrupts.items() if number < 10 * end
        },
    )


def make_inventory(nics: int = NICS) -> Line:
    """The inventory of these NICs."""
    made: Inventory | None = inventory().inventory
    assert made is not None
    links: list[Link] = []
    for number in range(nics):
        one = nic(f"0000:{number + 1:02x}:00.0")
        links.append(
            replace(
                one, ifindex=number + 2, name=f"ens{number + 1}", queues=one.queues[: 2 * QUEUES]
            )
        )
    return Line(inventory=replace(made, links=tuple(links)))


def size(watched: int, busy: bool = False) -> float:
    """MB per hour at 1 Hz, including key frames and an inventory every five minutes."""
    frames, written, inventory_line = HostFrames(1, "a"), 0, make_inventory()
    for second in range(HOUR):
        items = (
            [hello(), inventory_line]
            if second == 0
            else [inventory_line]
            if second % 300 == 0
            else []
        )
        record = generated_counters(watched, busy)[second % GENERATED_SECONDS]
        moved = replace(record, time=record.time + second // GENERATED_SECONDS * GENERATED_SECONDS)
        for item in (*items, Line(counters=moved)):
            encoded_item = encode_item(item)
            assert encoded_item is not None
            written += sum(len(frame.data) for frame in frames.add(item, *encoded_item, moved.time))
    return (written + sum(len(frame.data) for frame in frames.end_frame())) / 1e6


def recording_size(quick: bool) -> Iterator[Result]:
    yield Result("recording: one NIC of ten watched, an hour at 1 Hz", size(1), 2.0, "MB")
    yield Result("recording: all ten watched (nictop record)", size(NICS), 2.0, "MB")
    if not quick:
        yield Result(
            "recording: all ten watched and all of them busy", size(NICS, busy=True), None, "MB"
        )


def recording_cost(quick: bool) -> Iterator[Result]:
    """CPU of receiving, packing and writing per second of recording, all threads together."""
    seconds = 120 if quick else 600
    inventory_line, records = make_inventory(), generated_counters(NICS)[:seconds]
    for rate, bound in ((1, 0.5), (10, 3.0)):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            asyncio.run(written(os.path.join(folder, "r"), inventory_line, records, rate))
            used = time.process_time() - begin
        share = 100 * used * rate / len(records)
        yield Result(f"recording: ten NICs watched at {rate} Hz: CPU", share, bound, "% of a core")


def kept_cost(quick: bool) -> Iterator[Result]:
    """``nictop record --keep`` of 16 hosts, of which all queues are read: CPU of an hour (quick: of
    five minutes) per second, all threads together; without receiving, which a source does."""
    seconds = 300 if quick else HOUR
    for nics in (FEW_NICS, NICS):
        items = (
            make_inventory(nics),
            tuple(with_nics(one, nics) for one in generated_counters(NICS)),
        )
        with tempfile.TemporaryDirectory() as folder:
            directory = KeptDirectory(os.path.join(folder, "kept"), Keep(24 * HOUR, None))
            begin = time.process_time()
            recorder = asyncio.run(all_hosts_written(directory, *items, seconds))
            asyncio.run(recorder.close())
            share = 100 * (time.process_time() - begin) / seconds
            directory.close()
        what = f"record --keep: {RECENT_HOSTS} hosts with {nics} NICs: CPU"
        yield Result(what, share, 1.0, "% of a core")


async def written(
    path: str, inventory_line: Line, records: tuple[Counters, ...], rate: int
) -> None:
    recorder = Recorder(path)
    recorder.record("a", hello(), 1000.0)
    recorder.record("a", inventory_line, 1000.0)
    for number, record in enumerate(records):
        recorder.record("a", Line(counters=record), 1000.0 + number / rate)
        await asyncio.sleep(0)
    await recorder.close()
    assert not recorder.dropped, recorder.trouble


def recent_cost(quick: bool) -> Iterator[Result]:
    """The last minutes of 16 hosts in memory, of which the queues of one NIC each are read: CPU per
    second, all threads together; memory; the time to open them and to save them."""
    seconds = 60 if quick else 600
    segments = RecentSegments()
    begin = time.process_time()
    recorder = asyncio.run(
        all_hosts_written(segments, make_inventory(), generated_counters(1), seconds)
    )
    share = 100 * (time.process_time() - begin) / seconds
    yield Result(f"look back: {RECENT_HOSTS} hosts at 1 Hz: CPU", share, 1.0, "% of a core")
    yield Result(
        f"look back: memory of a host for {seconds} s",
        segments.size / RECENT_HOSTS / 1e6,
        1.0,
        "MB",
    )
    begin = time.process_time()
    with open_recent(segments) as recording:
        read_window(recording, recording.end)
    yield Result("look back: opened and shown", time.process_time() - begin, 0.3, "s")
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        write_recent(segments, os.path.join(folder, "r"))
        yield Result("look back: saved", time.process_time() - begin, 0.3, "s")
    asyncio.run(recorder.close())
    segments.close()


async def all_hosts_written(
    segments: Segments, inventory_line: Line, records: tuple[Counters, ...], seconds: int
) -> Recorder:
    """`RECENT_HOSTS` hosts at 1 Hz, with an inventory every five minutes."""
    recorder = Recorder(segments)
    names = [f"vm{number}" for number in range(RECENT_HOSTS)]
    for name in names:
        recorder.record(name, hello(), 1000.0)
    for second in range(seconds):
        moved = replace(records[second % GENERATED_SECONDS], time=1000.0 + second)
        for name in names:
            if second % 300 == 0:
                recorder.record(name, inventory_line, 1000.0 + second)
            recorder.record(name, Line(counters=moved), moved.time)
        if second % 50 == 0:
            await recorder.flush()
    await recorder.flush()
    assert not recorder.dropped, recorder.trouble
    return recorder


def recording_day(quick: bool) -> Iterator[Result]:
    """Opening, seeking and memory for a file of one day (quick: three hours), without and with the
    screens."""
    hours = 3 if quick else 24
    with tempfile.TemporaryDirectory() as folder:
        whole, cut = os.path.join(folder, "r"), os.path.join(folder, "cut")
        asyncio.run(written_hours(whole, hours))
        yield Result(f"recording of {hours} h: its size", os.path.getsize(whole) / 1e6, None, "MB")
        with open(whole, "rb") as file, open(cut, "wb") as other:
            other.write(file.read()[:-30])
        for path, which in ((whole, "with its index"), (cut, "cut, without one")):
            begin = time.perf_counter()
            with Recording.open(path) as recording:
                read_window(recording, recording.begin + HISTORY_SECONDS)
            yield Result(
                f"recording of {hours} h, {which}: to the first picture",
                time.perf_counter() - begin,
                1.0,
                "s",
            )
        yield from seeks(whole, hours)
        yield from replay_screens(whole, hours, quick)


def seeks(path: str, hours: int) -> Iterator[Result]:
    took, random = [], Random(2)
    tracemalloc.start()
    with Recording.open(path) as recording:
        opened, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for _ in range(20):
            place = recording.begin + random.random() * (recording.end - recording.begin)
            begin = time.perf_counter()
            read_window(recording, place)
            took.append(time.perf_counter() - begin)
        tracemalloc.start()
        read_window(recording, recording.end)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    yield Result(f"recording of {hours} h: a seek, median", statistics.median(took), 0.2, "s")
    yield Result(f"recording of {hours} h: a seek, longest of {len(took)}", max(took), 0.4, "s")
    yield Result(f"recording of {hours} h: memory of the open index", opened / 1e6, 5.0, "MB")
    yield Result(f"recording of {hours} h: most memory while seeking", peak / 1e6, 50.0, "MB")


def read_window(recording: Recording, place: float) -> Snapshot:
    """What a playback does on a seek: the inventory, then a window of counters."""

    async def last_snapshot() -> Snapshot:
        playback = Playback(recording)
        playback.seek(place)
        host = recording.hosts[0]
        snapshot, source = Snapshot.empty(host), playback.source(host)
        steps = recording.counter_time_steps(host, place - HISTORY_SECONDS, playback.now())
        last = max(time for time in steps if time is not None)
        async for item in source.items():
            if isinstance(item, Line):
                snapshot = advance(snapshot, item)
                if item.counters is not None and item.counters.time >= last - 0.01:
                    break
        return snapshot

    return asyncio.run(last_snapshot())


async def written_hours(path: str, hours: int) -> None:
    recorder = Recorder(path)
    inventory_line, records = make_inventory(), generated_counters(NICS)
    recorder.record("a", SourceState("live"), 1000.0)
    recorder.record("a", hello(), 1000.0)
    for second in range(hours * HOUR):
        if second % 300 == 0:
            recorder.record("a", inventory_line, 1000.0 + second)
        moved = replace(records[second % GENERATED_SECONDS], time=1000.0 + second)
        recorder.record("a", Line(counters=moved), moved.time)
        if second % 500 == 0:
            await asyncio.to_thread(wait_until, lambda: recorder._queued_bytes < 4_000_000)
    await recorder.close()
    assert not recorder.dropped, recorder.trouble
