"""Segments of a directory: written one after the other, deleted when they are old, read as one
recording."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from nictop.recording import keep
from nictop.recording.file.frames import EmptyRecording, RecordingError
from nictop.recording.keep import Keep, KeptDirectory, has_segments, segment_name
from nictop.recording.reader import RecordedItem, Recording
from nictop.recording.segments import open_recording
from nictop.recording.writer import Recorder
from nictop.wire.source import SourceState
from tests.campaign import hostile_directories
from tests.support.lines import hello, inventory, link
from tests.support.probe import wait_until
from tests.support.recordings import TimedItem, host_items, lines_of, read_all, write_recording

SEGMENT_BYTES = 3000


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "MIN_SEGMENT_BYTES", SEGMENT_BYTES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def named(second: int, number: int = 0) -> str:
    """The name of a segment that began at this second."""
    return segment_name(f"20260101T{second:06}Z", number)


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


async def record_in(
    path: Path, parts: Sequence[Sequence[TimedItem]], limit: int = 10**9, boot_id: str = "b1"
) -> None:
    """Record into the directory, so that each part ends a segment."""
    directory = KeptDirectory(str(path), Keep(bytes=limit))
    recorder = Recorder(directory, boot_id=boot_id)
    try:
        for part in parts:
            before = recorder.path
            directory.keep = Keep(bytes=limit)
            for host, item, time in part:
                recorder.record(host, item, time)
            directory.keep = Keep(bytes=1)  # whatever was written is enough for a segment
            recorder._wake.set()
            wait_until(partial(is_another_file, recorder, before))
    finally:
        await recorder.close()
        directory.close()
    assert recorder.trouble == "" and recorder.dropped == 0


def is_another_file(recorder: Recorder, path: str) -> bool:
    return recorder.path != path


def has_grown(recorder: Recorder, size: int) -> bool:
    return recorder.size > size


def in_parts(items: Sequence[TimedItem], count: int) -> list[list[TimedItem]]:
    size = -(-len(items) // count)
    return [list(items[begin : begin + size]) for begin in range(0, len(items), size)]


def two_hosts(seconds: int) -> list[TimedItem]:
    items = host_items("a", seconds) + host_items("b", seconds, begin=1002.0)
    return sorted(items, key=lambda item: item[2])


# ----------------------------------------------------------------------------------- read as one


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is deleted, however small the segments are."""
    monkeypatch.setattr(KeptDirectory, "_too_many", lambda self, segments: [])
    monkeypatch.setattr(keep, "MIN_SEGMENT_BYTES", 1)


@pytest.mark.usefixtures("unlimited")
async def test_a_directory_reads_as_one_file_with_the_same_items(
    path: Path, tmp_path: Path
) -> None:
    items = two_hosts(60)
    await record_in(path, in_parts(items, 7))
    await asyncio_write(tmp_path / "one", items)
    assert len(names(path)) >= 7
    with open_recording(str(path)) as kept, Recording.open(str(tmp_path / "one")) as one:
        assert (kept.hosts, kept.begin, kept.closed) == (one.hosts, one.begin, True)
        assert kept.end == pytest.approx(one.end, abs=0.002)  # spans are in milliseconds
        for host in ("a", "b"):
            for since in (kept.begin, 1010.0, 1033.3, 1058.0, kept.end):
                assert state_at(kept, host, since) == state_at(one, host, since), since
                assert counters_from(kept, host, since) == counters_from(one, host, since), since


async def asyncio_write(path: Path, items: Sequence[TimedItem]) -> None:
    recorder = Recorder(str(path))
    for host, item, time in items:
        recorder.record(host, item, time)
    await recorder.close()


def counters_from(recording: Recording, host: str, since: float) -> list[object]:
    lines = lines_of(read_all(recording, host, since))
    return [line.counters for line in lines if line.counters is not None]


def state_at(recording: Recording, host: str, since: float) -> tuple[object, object]:
    """The newest hello and inventory that a reader gets that begins there."""
    lines = lines_of(read_all(recording, host, since))
    hellos = [line.hello for line in lines if line.hello is not None]
    inventories = [line.inventory for line in lines if line.inventory is not None]
    return hellos[-1], inventories[-1]


@pytest.mark.usefixtures("unlimited")
async def test_each_segment_is_a_recording_with_the_state_of_all_hosts(path: Path) -> None:
    await record_in(path, in_parts(two_hosts(40), 4))
    for name in names(path)[1:-1]:
        with Recording.open(str(path / name)) as segment:
            assert segment.closed and set(segment.hosts) == {"a", "b"}
            for host in segment.hosts:
                found = [item.received for item in read_all(segment, host)]
                assert SourceState("live") in found
                assert any(getattr(item, "inventory", None) is not None for item in found)


@pytest.mark.usefixtures("unlimited")
async def test_hosts_that_have_other_numbers_after_a_restart_of_the_recorder(path: Path) -> None:
    await record_in(path, [host_items("a", 5), host_items("b", 5, begin=1010.0)])
    await record_in(path, [host_items("b", 5, begin=1020.0), host_items("a", 5, begin=1030.0)])
    with open_recording(str(path)) as kept:
        assert kept.hosts == ("a", "b")
        times = {host: [item.time for item in read_all(kept, host)] for host in kept.hosts}
    assert min(times["a"]) < 1001 and max(times["a"]) > 1030
    assert min(times["b"]) > 1009 and 1020 < max(times["b"]) < 1030


@pytest.mark.usefixtures("unlimited")
async def test_it_grows_with_the_recorder(path: Path) -> None:
    directory = KeptDirectory(str(path), Keep(bytes=1))
    recorder = Recorder(directory, boot_id="b1")
    try:
        for host, item, time in host_items("a", 3):
            recorder.record(host, item, time)
        recorder._wake.set()
        wait_until(lambda: len(names(path)) > 1)
        with open_recording(str(path)) as kept:
            assert not kept.closed
            reader = kept.reader("a", kept.begin)
            first = take(reader)
            assert len(first) >= 7
            for host, item, time in host_items("a", 3, begin=1100.0):
                recorder.record(host, item, time)
            await recorder.close()
            directory.close()
            wait_until(lambda: kept.refresh() and kept.closed)
            assert [item.time for item in take(reader)][-1] > 1100
    finally:
        await recorder.close()
        directory.close()


def take(reader: object) -> list[RecordedItem]:
    return list(iter(reader.next, None))  # type: ignore[attr-defined]


@pytest.mark.usefixtures("unlimited")
async def test_it_is_valid_at_any_cut(path: Path) -> None:
    """The machine was switched off: the newest segment ends anywhere."""
    await record_in(path, in_parts(two_hosts(30), 3))
    files = names(path)
    newest = path / [name for name in files if (path / name).stat().st_size > 1000][-1]
    for name in files[files.index(newest.name) + 1 :]:
        (path / name).unlink()
    whole = newest.read_bytes()
    with open_recording(str(path)) as kept:
        complete = counters_from(kept, "a", kept.begin)
    chosen = random.Random(7).sample(range(1, len(whole)), 60)
    for size in (0, *chosen):
        newest.write_bytes(whole[:size])
        with open_recording(str(path)) as kept:
            found = counters_from(kept, "a", kept.begin)
        assert found == complete[: len(found)] and len(found) >= 15, size


# --------------------------------------------------------------------------- what is deleted


async def test_the_oldest_are_deleted_when_there_is_too_much(path: Path) -> None:
    limit = 16 * SEGMENT_BYTES
    directory = KeptDirectory(str(path), Keep(bytes=limit))
    recorder = Recorder(directory, boot_id="b1")
    for number in range(200):
        begin = 1000.0 + 10 * number
        before = recorder.size
        for host, item, time in host_items(f"host{number % 7}", 6, begin=begin):
            recorder.record(host, item, time)
        recorder._wake.set()
        wait_until(partial(has_grown, recorder, before))
    await recorder.close()
    directory.close()
    assert recorder.trouble == ""
    with open_recording(str(path)) as kept:
        assert kept.begin > 1500 and kept.end > 2990


@pytest.mark.parametrize(
    ("sizes", "limit", "kept"),
    [
        ([1000] * 20, 16 * SEGMENT_BYTES, 20),
        ([SEGMENT_BYTES] * 20, 16 * SEGMENT_BYTES, 15),
        ([50_000, *[SEGMENT_BYTES] * 9], 16 * SEGMENT_BYTES, 9),
        ([*[SEGMENT_BYTES] * 9, 50_000], 16 * SEGMENT_BYTES, 0),
        ([10], 1, 0),
    ],
)
def test_with_a_new_segment_there_is_not_more_than_the_size(
    path: Path, sizes: list[int], limit: int, kept: int
) -> None:
    path.mkdir()
    for second, size in enumerate([*sizes, 0]):
        (path / named(second)).write_bytes(b"x" * size)
    directory = KeptDirectory(str(path), Keep(bytes=limit))
    directory.delete_old(str(path / named(len(sizes))))
    directory.close()
    assert names(path) == [named(second) for second in range(len(sizes) - kept, len(sizes) + 1)]


def test_what_is_older_than_the_time_is_deleted(path: Path) -> None:
    path.mkdir()
    old, new, current = (named(wall) for wall in (1000, 2000, 3000))
    for name in (old, new, current):
        (path / name).write_bytes(b"x")
    os.utime(path / old, (1000, 1000))
    directory = KeptDirectory(str(path), Keep(seconds=3600))
    directory.delete_old(str(path / current))
    assert names(path) == [new, current]
    os.utime(path / current, (1000, 1000))  # an old file that is being written: the clock is wrong
    directory.delete_old(str(path / current))
    assert names(path) == [new, current]
    directory.close()


def test_nothing_is_older_because_the_time_of_day_was_set_forwards(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.mkdir()
    now = os.stat(path).st_mtime
    before, current = named(1000), named(2000)
    for name in (before, current):
        (path / name).write_bytes(b"x")
    directory = KeptDirectory(str(path), Keep(seconds=3600))
    directory.delete_old(str(path / current))
    monkeypatch.setattr("nictop.recording.keep.time.time", lambda: now + 86_400)
    directory.delete_old(str(path / current))
    directory.close()
    assert names(path) == [before, current]


def test_the_order_of_names_is_that_of_times_after_the_time_of_day_was_set_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that follows asks for the names after the last one; the oldest are deleted first."""
    times = [1_790_000_000.0 + step for step in (0, -3600, -3599, 3600)]
    directory = KeptDirectory(str(path), Keep(seconds=3600))
    made = []
    for wall in times:
        monkeypatch.setattr("nictop.recording.keep.time.time", partial(float, wall))
        made.append(directory.new_path())
        os.close(directory.create(made[-1]))
    assert made == sorted(made) and len(set(made)) == 4
    last = path / segment_name("20360101T000000Z", 9999)
    last.write_bytes(b"")
    following = directory.new_path()
    directory.close()
    assert os.path.basename(following) == segment_name("20360101T000001Z", 0)


def test_no_other_file_is_deleted(path: Path, tmp_path: Path) -> None:
    path.mkdir()
    outside = tmp_path / "outside"
    outside.write_bytes(b"x" * 10)
    others = ["letter.txt", "monday.nictop", "nictop-20260101T000000Z-0000.nictop.bak"]
    for name in others:
        (path / name).write_bytes(b"x")
        os.utime(path / name, (1, 1))
    a_link, a_directory = named(1000), named(1001)
    (path / a_link).symlink_to(outside)
    (path / a_directory).mkdir()
    directory = KeptDirectory(str(path), Keep(seconds=600, bytes=1))
    directory.delete_old("none")
    directory.close()
    assert names(path) == sorted([*others, a_link, a_directory]) and outside.exists()


def test_one_recorder_at_a_time(path: Path) -> None:
    first = KeptDirectory(str(path), Keep(seconds=600))
    with pytest.raises(RecordingError, match="another nictop records to"):
        KeptDirectory(str(path), Keep(seconds=600))
    first.close()
    KeptDirectory(str(path), Keep(seconds=600)).close()
    assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["file", "link", "missing"])
def test_what_is_no_directory_is_refused(path: Path, tmp_path: Path, kind: str) -> None:
    if kind == "file":
        path.write_text("mine")
    if kind == "link":
        path.symlink_to(tmp_path)
    place = path / "deeper" / "still" if kind == "missing" else path
    with pytest.raises(RecordingError):
        KeptDirectory(str(place), Keep(seconds=600))
    assert kind != "file" or path.read_text() == "mine"


def test_another_directory_in_its_place_is_left_alone(path: Path, tmp_path: Path) -> None:
    """A user who may write above the directory cannot have files written or deleted elsewhere."""
    path.mkdir()
    directory = KeptDirectory(str(path), Keep(bytes=1))
    moved, others = tmp_path / "moved", tmp_path / "others"
    path.rename(moved)
    others.mkdir()
    for second in (1, 2):
        (others / named(second)).write_bytes(b"theirs")
    path.symlink_to(others)
    newest = directory.new_path()
    os.close(directory.create(newest))
    (moved / named(3)).write_bytes(b"old")
    directory.delete_old(newest)
    directory.close()
    assert names(moved) == [os.path.basename(newest)]
    assert names(others) == [named(1), named(2)]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_directory_in_which_others_may_write_is_refused(path: Path, mode: int) -> None:
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(RecordingError, match="other users may write in"):
        KeptDirectory(str(path), Keep(seconds=600))
    path.chmod(0o755)
    KeptDirectory(str(path), Keep(seconds=600)).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a directory of another user")
def test_a_directory_of_another_user_is_refused(path: Path) -> None:
    path.mkdir()
    os.chown(path, 65534, 65534)
    with pytest.raises(RecordingError, match="belongs to another user"):
        KeptDirectory(str(path), Keep(seconds=600))


@pytest.mark.usefixtures("unlimited")
async def test_a_full_segment_goes_on_when_no_other_can_be_made(path: Path) -> None:
    directory = KeptDirectory(str(path), Keep(bytes=1))
    recorder = Recorder(directory, retry=0.0, boot_id="b1")
    refuse = RecordingError("cannot write there")

    def no_path() -> str:
        raise refuse

    made, directory.new_path = directory.new_path, no_path  # type: ignore[method-assign]
    for host, item, time in host_items("a", 40):
        recorder.record(host, item, time)
    recorder._wake.set()
    wait_until(lambda: recorder.trouble == "cannot write there")
    directory.new_path = made  # type: ignore[method-assign]
    recorder._wake.set()
    wait_until(lambda: len(names(path)) == 2)
    await recorder.close()
    directory.close()
    with open_recording(str(path)) as kept:
        assert len(counters_from(kept, "a", kept.begin)) == 40 and recorder.dropped == 0


# ------------------------------------------------------------------- several starts of the machine


@pytest.mark.usefixtures("unlimited")
async def test_a_time_chooses_the_start_of_the_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nictop.recording.writer.time.time", lambda: 1_700_000_000.0)
    monkeypatch.setattr("nictop.recording.writer.time.monotonic", lambda: 1000.0)
    await record_in(path, [host_items("a", 30)], boot_id="first")
    monkeypatch.setattr("nictop.recording.writer.time.time", lambda: 1_700_086_400.0)
    await record_in(path, [host_items("b", 30)], boot_id="second")
    with open_recording(str(path)) as kept:
        assert kept.hosts == ("b",) and kept.boot_id == "second"
        assert "before a restart: 2023-11-1" in kept.left_out
    when = "2023-11-14T22:13:35"
    with open_recording(str(path), time_text=when) as kept:
        assert kept.hosts == ("a",) and kept.boot_id == "first"
    with pytest.raises(RecordingError, match="outside"):
        open_recording(str(path), time_text="2020-01-01T00:00:00")


# ------------------------------------------------------------------------------------- hostile


@pytest.fixture
def hostile(path: Path) -> Iterator[Path]:
    path.mkdir()
    (path / named(1000)).write_bytes(b"")
    (path / named(1001)).write_bytes(os.urandom(5000))
    (path / named(1002)).symlink_to("/dev/zero")
    os.mkfifo(path / named(1003))
    (path / named(1004)).mkdir()
    yield path


def test_what_is_no_segment_is_left_out(hostile: Path) -> None:
    with pytest.raises(RecordingError, match="a directory without a recording"):
        open_recording(str(hostile))
    write_recording(hostile / named(1005), host_items("a", 3))
    with open_recording(str(hostile)) as kept:
        assert len(read_all(kept, "a")) == 7


def test_a_segment_twice_and_one_with_many_hosts(path: Path) -> None:
    path.mkdir()
    items = [item for number in range(300) for item in host_items(f"h{number}", 1)]
    write_recording(path / named(1000), items)
    (path / named(1001)).write_bytes((path / named(1000)).read_bytes())
    others = [item for number in range(300, 600) for item in host_items(f"h{number}", 1)]
    write_recording(path / named(1002), others)
    for name in names(path):
        assert has_segments(str(path)), name
    with open_recording(str(path)) as kept:
        kept.limit_reading_time()
        assert len(kept.hosts) in (300, 512)
        assert len(read_all(kept, kept.hosts[0])) >= 5


@pytest.mark.parametrize("kind", [name for name in hostile_directories.KINDS if name != "holes"])
def test_a_hostile_directory_is_read_or_refused(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all sizes: `tests.campaign`."""
    monkeypatch.setattr(hostile_directories, "SEGMENTS", 24)
    hostile_directories.write(kind, path)
    tracemalloc.start()
    try:
        with open_recording(str(path)) as kept:
            kept.limit_reading_time()
            assert 1 <= len(kept.hosts) <= 512
            for name in kept.hosts[:4]:
                reader = kept.reader(name, kept.begin)
                for _ in range(60):
                    if reader.step() is None:
                        break
        assert tracemalloc.get_traced_memory()[1] < 96 * 1024 * 1024
    except RecordingError as error:
        assert error.message
    finally:
        tracemalloc.stop()


def test_a_directory_without_data(path: Path) -> None:
    write = [("a", SourceState("connecting"), 1000.0)]
    path.mkdir()
    with pytest.raises(RecordingError, match="without a recording"):
        open_recording(str(path))
    assert not has_segments(str(path)) and not has_segments(str(path / "none"))
    write_recording(path / named(1000), [])
    with pytest.raises(EmptyRecording):
        open_recording(str(path))
    write_recording(path / named(1001), write)
    with open_recording(str(path)) as kept:
        assert kept.hosts == ("a",)


def test_of_many_segments_the_newest_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nictop.recording.segments.MAX_SEGMENTS", 3)
    monkeypatch.setattr("nictop.recording.segments.local_text", lambda wall: f"at {wall:.0f}")
    path.mkdir()
    for number in range(6):
        items: list[TimedItem] = [
            ("a", hello(), 1000.0 + number),
            ("a", inventory(link(1, f"n{number}"), time=1000.0), 1000.5 + number),
        ]
        write_recording(path / named(1000 + number), items)
    with open_recording(str(path)) as kept:
        assert kept.left_out.count("at 1") == 2  # of each no boot ID is known: a start of its own
