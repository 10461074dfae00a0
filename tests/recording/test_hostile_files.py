"""A small file may unpack to much, claim what is not so, or go on for ever: reading it is limited,
and done in steps.

`tests.campaign.recordings` measures memory and times of the commands on the same files.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from nictop.hosts.specification import MAX_HOSTS
from nictop.model.history import MAX_HISTORY_VALUES
from nictop.model.window import MAX_WINDOW_VALUES
from nictop.probe.records import Line
from nictop.recording import playback as playback_module
from nictop.recording import reader as reader_module
from nictop.recording.file import frame_file, index
from nictop.recording.file.frames import SYNC_MARKER, FrameHeader, RecordingError, parse_header
from nictop.recording.playback import Playback, ReadingBudget
from nictop.recording.reader import HOST_FILE_BYTES, NOT_YET, RecordedItem, Recording
from nictop.replay import results
from nictop.replay.search import new_events
from nictop.tui.controllers.replay import Replay
from nictop.wire.budget import input_received
from tests.campaign import hostile_host
from tests.campaign import hostile_recordings as hostile
from tests.campaign.hostile_recordings import BEGIN, File, line_of, payload
from tests.recording.test_reader import truncated_before_index
from tests.support.recordings import host_items, read_all, write_recording

QUICK = (
    "smallest-objects", "names-in-the-index", "keys-that-lie", "an-end-without-end",
    "long-marks-in-the-index", "many-runs", "runs-with-floods", "holes", "many-templates",
    "rows-of-counters", "hosts-with-large-inventories", "deep-nesting",
)  # fmt: skip
"""Kinds that are written at once."""
STEPS = 60
FEW_STEPS = {"smallest-objects": 5}
"""Each of these makes 60,000 objects, the same ones again."""


def made(path: Path, *names: str) -> File:
    file = File(path)
    for number, name in enumerate(names, 1):
        file.key(number=number, name=name)
    return file


@pytest.mark.parametrize("kind", QUICK)
def test_a_hostile_file_is_opened_and_read_or_refused(tmp_path: Path, kind: str) -> None:
    hostile.write(kind, tmp_path / "r")
    steps = FEW_STEPS.get(kind, STEPS)
    tracemalloc.start()
    try:
        with Recording.open(str(tmp_path / "r"), whole=False) as recording:
            assert 1 <= len(recording.hosts) <= MAX_HOSTS
            for name in recording.hosts[:8]:
                reader = recording.reader(name, recording.begin)
                for _ in range(steps):
                    if reader.step() is None:
                        break
                starts = recording.start_time_steps(name, recording.end, 60.0)
                for _ in itertools.islice(starts, steps):
                    pass
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    except RecordingError as error:
        assert error.message
    finally:
        tracemalloc.stop()


def test_hosts_above_the_limit_are_left_out_and_told(tmp_path: Path) -> None:
    assert index.MAX_RECORDED_HOSTS == MAX_HOSTS
    file = made(tmp_path / "r", *(f"h{number}" for number in range(MAX_HOSTS + 3)))
    file.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(recording.hosts) == MAX_HOSTS
        assert recording.left_out == f"only the first {MAX_HOSTS} of {MAX_HOSTS + 3} hosts are read"


@pytest.mark.parametrize(
    "claims",
    [
        {"hosts": {str(number): "a" for number in range(MAX_HOSTS + 1)}},
        {"hosts": {"1": "x" * 5000}},
        {"hosts": {"70000": "a"}},
        {"keys": [[1, 0.5, 1]] * (index.MAX_KEYS + 2)},
        {"keys": [[2, 0.5, 1]]},
        {"marks": [[BEGIN, "a", "r-c", "started"]] * (index.MAX_MARK_BRACKETS + 1)},
        {"marks": [[BEGIN, "a", "x" * 201, "started"]]},
        {"marks": [[BEGIN, "a", "r-c", "other"]]},
        {"marks": [[1e13, "a", "r-c", "started"]]},
        {"begin": -1e13},
        {"end": 1e300},
    ],
    ids=lambda claims: next(iter(claims)),
)
def test_an_index_that_claims_too_much_is_not_believed(
    tmp_path: Path, claims: dict[str, object]
) -> None:
    file = made(tmp_path / "r", "a")
    file.end(**claims)
    file.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        assert (recording.hosts, recording.marks, recording.begin, recording.end) == (
            ("a",),
            (),
            BEGIN,
            BEGIN,
        )


def test_an_index_of_many_key_frames_is_decoded_in_parts(tmp_path: Path) -> None:
    file = made(tmp_path / "r", "a")
    keys = [[1, 1000.0 + number, 30 + number % 5] for number in range(20_000)]
    file.end(keys=keys)
    file.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        known = recording._index.keys[1]
    assert (list(known.times), list(known.offsets)) == (
        [key[1] for key in keys],
        [key[2] for key in keys],
    )


def test_frames_that_claim_marks_are_not_unpacked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made(tmp_path / "r", "a")
    for _ in range(3 * index.MAX_FALSE_FLAGS):
        file.items(payload([("state", b"{}")]), marks=True)
    file.close()
    tried = []
    unpack = index.marks_of

    def counted(plain: bytes, first: float, host: str) -> list[index.Mark]:
        tried.append(1)
        return unpack(plain, first, host)

    monkeypatch.setattr(index, "marks_of", counted)
    with Recording.open(str(tmp_path / "r")):
        assert len(tried) == index.MAX_FALSE_FLAGS


def test_the_search_behind_damage_ends_and_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made(tmp_path / "r", "a")
    file.write(SYNC_MARKER * 5000)
    file.key()
    file.close()
    parsed: list[int] = []
    parse = parse_header

    def counted(data: bytes) -> FrameHeader | None:
        parsed.append(1)
        return parse(data)

    monkeypatch.setattr(frame_file, "parse_header", counted)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(parsed) < frame_file.MAX_FALSE_MARKERS + 10
        assert read_all(recording, "a") and len(parsed) < 2 * frame_file.MAX_FALSE_MARKERS + 20
        parsed.clear()
        assert not recording.refresh() and len(parsed) < 2 * frame_file.MAX_FALSE_MARKERS


def test_a_long_search_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made(tmp_path / "r", "a")
    file.grow(40 * 1024 * 1024)
    file.close()
    read: list[int] = []
    original = frame_file.FrameFile.read

    def counted(self: frame_file.FrameFile, size: int, offset: int) -> bytes:
        read.append(size)
        return original(self, size, offset)

    monkeypatch.setattr(frame_file.FrameFile, "read", counted)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert sum(read) > 40 * 1024 * 1024
        read.clear()
        assert not recording.refresh() and sum(read) < 3 * 1024 * 1024


def test_without_an_index_the_rest_is_found_by_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_recording(tmp_path / "r", host_items("a", 100))
    (tmp_path / "cut").write_bytes(truncated_before_index(tmp_path / "r"))
    monkeypatch.setattr(reader_module, "SCAN_SECONDS", -1.0)
    with Recording.open(str(tmp_path / "cut")) as recording:
        end = recording.end
    with Recording.open(str(tmp_path / "cut"), whole=False) as recording:
        assert recording.hosts == ("a",) and recording.end < end
        while recording.end < end:
            assert recording.refresh()


def test_reading_without_steps_ends_after_some_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_recording(tmp_path / "r", host_items("a", 10))
    monkeypatch.setattr(reader_module, "MAX_READ_SECONDS", -9.0)
    with Recording.open(str(tmp_path / "r")) as recording:
        recording.limit_reading_time()
        with pytest.raises(RecordingError, match="takes more than"):
            read_all(recording, "a")
    monkeypatch.setattr(reader_module, "MAX_OPEN_SECONDS", -1.0)
    with pytest.raises(RecordingError, match="takes more than"):
        Recording.open(str(tmp_path / "r"))


def test_readers_take_steps_without_an_item(tmp_path: Path) -> None:
    file = made(tmp_path / "r", "a", "b")
    for _ in range(3 * frame_file.STEP_HEADERS):
        file.items(payload([]), number=2)
    file.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        reader = recording.reader("a", BEGIN)
        steps = list(
            itertools.takewhile(lambda found: found is not None, iter(reader.step, object()))
        )
        assert steps.count(NOT_YET) >= 3 and len(steps) - steps.count(NOT_YET) == 2
        assert isinstance(recording.reader("a", BEGIN).next(), RecordedItem)


def test_hosts_of_a_small_file_share_the_memory_of_one(tmp_path: Path) -> None:
    def host_file(path: Path, count: int, size: int = 0) -> None:
        file = made(path, *(f"h{number}" for number in range(count)))
        file.write(bytes(size))
        file.key(number=1, name="h0")
        file.close()

    host_file(tmp_path / "one", 1)
    host_file(tmp_path / "many", 20)
    host_file(tmp_path / "large", 20, 20 * HOST_FILE_BYTES)
    for name, share in (("one", 1.0), ("many", 0.05), ("large", 1.0)):
        with Recording.open(str(tmp_path / name)) as recording:
            assert recording.memory_share == pytest.approx(share, abs=0.01), name


def test_what_is_too_large_for_one_of_many_hosts_is_left_out_and_told(tmp_path: Path) -> None:
    file = made(tmp_path / "r", *(f"h{number}" for number in range(30)))
    links = [hostile_host.link(number) for number in range(2000)]
    texts = [
        ("line", line_of(hostile_host.inventory(links))),
        (
            "line",
            hostile.json_line(
                "counters", time=1.0, cpus={str(cpu): [1] * 10 for cpu in range(900)}
            ),
        ),
        ("line", line_of(hostile_host.counters(1))),
    ]
    file.items(payload(texts), number=1)
    file.items(payload([("line", b" " * 8_000_000)]), number=1, time=BEGIN + 1)
    file.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        lines = [one.item for one in read_all(recording, "h0") if isinstance(one.item, Line)]
    troubles = [line.trouble.message for line in lines if line.trouble is not None]
    reason = "too large for one of 30 hosts in a recording of this size"
    assert troubles == [*[f"invalid line in the recording: {reason}"] * 2, f"left out: {reason}"]
    assert [line.counters.time for line in lines if line.counters is not None] == [1.0]


def test_window_and_history_of_a_host_are_shorter_with_a_share_of_the_memory() -> None:
    from nictop.hosts.session import HostSession
    from nictop.hosts.specification import RECORDED, Host

    session = HostSession(Host("a", RECORDED), memory_share=0.1)
    assert session.window._max_values == MAX_WINDOW_VALUES / 10
    assert session.history._max_values == MAX_HISTORY_VALUES / 10


def test_a_search_leaves_out_the_years_without_readings(tmp_path: Path) -> None:
    items = host_items("a", 20)
    later = [(name, item, time + hostile.YEAR_SECONDS) for name, item, time in host_items("a", 20)]
    write_recording(tmp_path / "r", [*items, *later])
    times: list[float] = []

    async def search() -> None:
        with Recording.open(str(tmp_path / "r")) as recording:
            async for _ in new_events(recording, recording.begin, recording.end, times.append):
                pass

    asyncio.run(search())
    assert 8 <= len(times) < 20 and times[-1] - times[0] > hostile.YEAR_SECONDS


def test_reading_is_slowed_down_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run after each slice, and after the burst in pauses as long as the work."""
    waits: list[float] = []

    async def pause(_: object, end: float) -> None:
        waits.append(end)

    async def work() -> tuple[bool, bool]:
        monkeypatch.setattr(playback_module, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(playback_module, "LONG_SLICE_SECONDS", 1e9)
        monkeypatch.setattr("nictop.wire.budget.HostScheduler.pause", pause)
        budget = ReadingBudget(1)
        await budget.charge(await budget.begin())
        before = budget.is_exceeded, len(waits)
        budget._remaining = -1e9
        await budget.charge(await budget.begin() - 1.0)
        assert before == (False, 0)
        return budget.is_exceeded, len(waits) == 1

    assert asyncio.run(work()) == (True, True)


def test_each_host_that_waits_for_its_turn_waits_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the one that reads when the key comes: hundreds of others would read a slice each
    before it is drawn."""
    waits: list[float] = []

    async def pause(_: object, end: float) -> None:
        waits.append(end)
        await asyncio.sleep(0)

    async def work() -> None:
        monkeypatch.setattr(playback_module, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr("nictop.wire.budget.HostScheduler.pause", pause)
        budget = ReadingBudget(3)
        budget._restarted_at = -1e9
        input_received()
        await asyncio.gather(budget.charge(await budget.begin()), budget.begin(), budget.begin())

    asyncio.run(work())
    assert len(waits) == 3


def test_the_status_line_says_that_values_are_late(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", host_items("a", 3))
    with Recording.open(str(tmp_path / "r")) as recording:
        replay = Replay.__new__(Replay)
        replay.playback, replay._searching = Playback(recording), ""
        assert replay.note == ""
        replay.playback.budget._slowed_at = time.monotonic()
        assert (
            replay.note
            == "the recording has more data than can be read in time: values are delayed"
        )


def test_a_line_longer_than_readers_accept_is_counted_as_missing(tmp_path: Path) -> None:
    from nictop.probe.records import MAX_LINE_BYTES, Trouble
    from nictop.recording.writer import Recorder

    async def written() -> int:
        recorder = Recorder(str(tmp_path / "r"))
        recorder.record("a", Line(trouble=Trouble(1.0, "x" * MAX_LINE_BYTES)), 1.0)
        recorder.record("a", Line(trouble=Trouble(1.0, "after")), 1.0)
        await recorder.close()
        assert not recorder.trouble
        return recorder.dropped

    assert asyncio.run(written()) == 1
    with Recording.open(str(tmp_path / "r")) as recording:
        lines = [one.item for one in read_all(recording, "a") if isinstance(one.item, Line)]
    messages = [line.trouble.message for line in lines if line.trouble is not None]
    assert messages == [
        "1 line is missing in the recording here: there was no time or no room for more",
        "after",
    ]


def test_digits_in_a_file_are_no_number(tmp_path: Path) -> None:
    file = made(tmp_path / "r", "a")
    file.items(
        payload(
            [("missing", b"9" * 4000), ("missing", b"1_0"), ("missing", b"-5"), ("missing", b"7")]
        )
    )
    table = json.dumps([[10**30, "line", 2, False]]).encode()
    file.items(struct.pack("<I", len(table)) + table + b"{}", time=BEGIN + 1)
    file.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        lines = [one.item for one in read_all(recording, "a") if isinstance(one.item, Line)]
    messages = [line.trouble.message for line in lines if line.trouble is not None]
    assert [message.partition(":")[0] for message in messages[:3]] == [
        "invalid line in the recording"
    ] * 3
    assert messages[3].startswith("7 lines are missing") and "damaged" in messages[4]


async def test_results_above_a_size_are_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("r0", "r1", "r2")
    file = made(tmp_path / "r", "a")
    for number, name in enumerate(names):
        texts = [
            (
                "request",
                json.dumps({"run_note": {"run": name, "kind": kind, "text": text}}).encode(),
            )
            for kind, text in (("plan", "{}"), ("result", "x" * 1000))
        ]
        file.items(payload(texts, step=1000), time=BEGIN + number, span=1, marks=True)
    file.close()
    monkeypatch.setattr(results, "MAX_NOTED_BYTES", 2500)
    with Recording.open(str(tmp_path / "r")) as recording:
        found = await results.recorded_results(recording, recording.end)
    is_invalid = [
        one.sentence.endswith("its result in the recording is not valid") for one in found.missing
    ]
    assert not found.runs and is_invalid == [True, True, False]
    assert found.missing[2].sentence.endswith("is not shown: the results before it are large")
