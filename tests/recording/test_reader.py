"""What was heard comes back from any moment on; a cut, damaged or foreign file is read as far as it goes."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import Clock, Counters, Line, Pong, Request, TrafficLine, TrafficRequest
from nictop.recording.file.frames import (
    FORMAT,
    HEADER_SIZE,
    INDEX,
    ITEMS,
    KEY,
    MAGIC,
    PREFIX,
    TRAILER_SIZE,
    RecordingError,
    pack,
    parse_header,
    trailer,
)
from nictop.recording.file.open import is_recording
from nictop.recording.host_writer import KEY_EVERY
from nictop.recording.reader import Recording
from nictop.wire.source import SourceState
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.recorded import recorded
from tests.support.recordings import Told, a_host, everything, lines, record

GUESTS = ("wired-connection-1", "virtio-4-queues", "igb-vfs-vmxnet3-virtio")
SAID = {name: recorded(name) for name in GUESTS}
HOSTILE = "ev\x1b[2J\u202eil[/x]\n'; rm -rf ~"


def guests() -> list[Told]:
    """What probes said on real guests, side by side."""
    told: list[Told] = []
    for name in GUESTS:
        for number, line in enumerate(recorded(name)):
            told.append((name, line, 50.0 + number))
    return sorted(told, key=lambda one: one[2])


def offsets(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Every frame of a file: where it begins, where it ends, its kind."""
    offset = len(PREFIX)
    while (header := parse_header(data[offset : offset + HEADER_SIZE])) is not None:
        yield offset, offset + header.size, header.kind
        offset += header.size


def without_end(path: Path) -> bytes:
    """As it is when the recorder was killed after its last frame."""
    data = path.read_bytes()
    begin = next(begin for begin, _, kind in offsets(data) if kind == INDEX)
    return data[:begin]


# -------------------------------------------------------------------------------------------------- what comes back


def test_real_guests_come_back_line_by_line(tmp_path: Path) -> None:
    told = guests()
    record(tmp_path / "r", told)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == GUESTS
        assert recording.begin == 50.0
        assert recording.end == pytest.approx(max(time for _, _, time in told), abs=2e-3)
        assert recording.closed and recording.damages == 0
        for name in GUESTS:
            heard = everything(recording, name)
            assert [one.item for one in heard] == recorded(name)
            assert [one.time for one in heard] == [time for host, _, time in told if host == name]


def test_states_requests_and_clocks_come_back_and_pongs_do_not(tmp_path: Path) -> None:
    lost = SourceState("lost", "it has fallen silent", 3.5)
    ask = Request(watch=(2, 3), traffic=TrafficRequest("run-1", "stop"))
    clock = Line(clock=Clock(9.0, -3.5, 0.001))
    told: list[Told] = [("a", hello(), 1.0), ("a", ask, 2.0), ("a", clock, 3.0), ("a", lost, 4.0)]
    record(tmp_path / "r", [*told, ("a", Line(pong=Pong(1, 2.0)), 5.0), ("a", Line(), 6.0)])
    with Recording.open(str(tmp_path / "r")) as recording:
        assert [(one.item, one.time) for one in everything(recording, "a")] == [(item, time) for _, item, time in told]


def test_names_of_any_kind_come_back(tmp_path: Path) -> None:
    record(tmp_path / "r", [(HOSTILE, hello(), 1.0), ("", hello(), 1.0), ("\udcff", hello(), 1.0)])
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == (HOSTILE, "", "?")
        assert lines(everything(recording, HOSTILE)) == [hello()]


def test_marks_are_the_begin_and_end_of_generators(tmp_path: Path) -> None:
    kinds = ("tools", "started", "output", "exit")
    traffic: list[Told] = [
        ("a", Line(traffic=TrafficLine(float(number), "run-1", kind)), 10.0 + number)  # type: ignore[arg-type]
        for number, kind in enumerate(kinds)
    ]
    record(tmp_path / "r", [*a_host("a", 3, 1.0), *traffic])
    (tmp_path / "cut").write_bytes(without_end(tmp_path / "r"))
    for name in ("r", "cut"):
        with Recording.open(str(tmp_path / name)) as recording:
            marks = [(mark.time, mark.host, mark.id, mark.kind) for mark in recording.marks]
            assert marks == [(11.0, "a", "run-1", "started"), (13.0, "a", "run-1", "exit")]


def test_wall_clock_and_back(tmp_path: Path) -> None:
    record(tmp_path / "r", a_host("a", 3))
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.at_wall(recording.wall(1234.5)) == pytest.approx(1234.5, abs=1e-3)


# ------------------------------------------------------------------------------------------------------------ seeking


def test_reading_begins_with_all_that_is_known_there(tmp_path: Path) -> None:
    """Hello, newest inventory, what changed since, clock and state; then the counters from that moment on."""
    told = a_host("a", 700)
    second = inventory(link(2, "ens192"), link(9, "new"), time=1300.0)
    clock = Line(clock=Clock(1.0, 2.0, 0.1))
    changes = [change(2, "old", time=1200.0), change(9, "renamed", time=1310.0), gone(2, "ens192", 1311.0)]
    told += [("a", changes[0], 1200.1), ("a", second, 1300.2), ("a", clock, 1300.3)]
    told += [("a", changes[1], 1310.1), ("a", changes[2], 1311.1)]
    told.sort(key=lambda one: one[2])
    record(tmp_path / "r", told)
    with Recording.open(str(tmp_path / "r")) as recording:
        heard = everything(recording, "a", since=1650.0)
        key = next(one.time for one in heard)
        assert 1650.0 - KEY_EVERY < key <= 1650.0
        known = [one.item for one in heard if one.time <= 1650.0]
        assert known == [hello(), second, changes[1], changes[2], clock, SourceState("live")]
        counted = [one for one in heard if isinstance(one.item, Line) and one.item.counters is not None]
        assert [one.item for one in counted] == [item for _, item, time in told if time >= 1650.0]
        assert len(counted) == 50


def test_a_host_that_was_booted_anew_has_forgotten_everything(tmp_path: Path) -> None:
    first = hello()
    assert first.hello is not None
    booted = Line(hello=replace(first.hello, boot_id="c"))
    told = [*a_host("a", 5), ("a", booted, 1010.0), ("a", counters(1400.0, {2: (0, 0)}), 1400.0)]
    record(tmp_path / "r", told)
    with Recording.open(str(tmp_path / "r")) as recording:
        known = [one.item for one in everything(recording, "a", since=1400.0)]
        assert known == [booted, SourceState("live"), told[-1][1]]


def test_times_of_readings_are_told_without_reading_them(tmp_path: Path) -> None:
    record(tmp_path / "r", a_host("a", 20))
    with Recording.open(str(tmp_path / "r")) as recording:
        times = [one.time for one in everything(recording, "a") if isinstance(one.item, Line) and one.item.counters]
        assert recording.counted("a", 1005.0, 1010.0) == [time for time in times if 1005.0 <= time <= 1010.0]
        assert recording.counted("a", 1006.85, 1006.85) == [1006.85]


def test_the_index_says_what_a_scan_finds(tmp_path: Path) -> None:
    record(tmp_path / "r", [*a_host("a", 650), *a_host("b", 10)])
    (tmp_path / "cut").write_bytes(without_end(tmp_path / "r"))
    with Recording.open(str(tmp_path / "r")) as whole, Recording.open(str(tmp_path / "cut")) as cut:
        assert (whole.closed, cut.closed) == (True, False)
        assert (whole.hosts, whole.begin, whole.end, whole.marks) == (cut.hosts, cut.begin, cut.end, cut.marks)
        assert whole._index.keys == cut._index.keys and len(whole._index.keys) == 4
        assert everything(whole, "a", 1400.0) == everything(cut, "a", 1400.0)


# --------------------------------------------------------------------------------------------------- cut and damaged


def test_a_file_cut_at_every_byte_of_its_last_frame_opens(tmp_path: Path) -> None:
    record(tmp_path / "r", a_host("a", 12))
    data = without_end(tmp_path / "r")
    frames = list(offsets(data))
    begin, end, kind = frames[-1]
    assert kind == ITEMS and end == len(data) and len(frames) > 3
    path = tmp_path / "cut"
    path.write_bytes(data[:begin])
    with Recording.open(str(path)) as recording:
        expected = everything(recording, "a")
    assert len(expected) > 5
    for cut in range(begin, end):
        path.write_bytes(data[:cut])
        with Recording.open(str(path)) as recording:
            assert not recording.closed and recording.damages == 0
            assert everything(recording, "a") == expected


def test_a_file_cut_within_its_end_is_whole(tmp_path: Path) -> None:
    record(tmp_path / "r", a_host("a", 12))
    data, items = (tmp_path / "r").read_bytes(), len(without_end(tmp_path / "r"))
    with Recording.open(str(tmp_path / "r")) as recording:
        expected = everything(recording, "a")
    for cut in range(items, len(data)):
        (tmp_path / "cut").write_bytes(data[:cut])
        with Recording.open(str(tmp_path / "cut")) as recording:
            assert everything(recording, "a") == expected


def test_a_damaged_frame_is_said_and_the_next_key_frame_goes_on(tmp_path: Path) -> None:
    told = a_host("a", 700)
    record(tmp_path / "r", told)
    data = bytearray((tmp_path / "r").read_bytes())
    items = [begin for begin, _, kind in offsets(bytes(data)) if kind == ITEMS]
    data[items[3] + HEADER_SIZE + 5] ^= 0xFF
    (tmp_path / "r").write_bytes(data)
    with Recording.open(str(tmp_path / "r")) as recording:
        heard = everything(recording, "a")
    said = [line.trouble.message for line in lines(heard) if line.trouble is not None]
    assert said == ["the recording is damaged here: something is missing"]
    numbers = [one.time for one in heard if isinstance(one.item, Line) and one.item.counters is not None]
    assert len(numbers) < 420 and numbers[-1] == told[-1][2]
    known = [item for _, item, _ in told]
    assert all(line in known for line in lines(heard) if line.trouble is None)


def test_a_damaged_header_is_jumped_over(tmp_path: Path) -> None:
    told = a_host("a", 700)
    record(tmp_path / "r", told)
    data = bytearray(without_end(tmp_path / "r"))
    items = [begin for begin, _, kind in offsets(bytes(data)) if kind == ITEMS]
    data[items[3] + 20] ^= 0xFF
    (tmp_path / "r").write_bytes(data)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.damages == 1
        assert recording.end == pytest.approx(told[-1][2], abs=2e-3)
        heard = lines(everything(recording, "a"))
    assert [line.trouble is not None for line in heard].count(True) == 1
    assert heard[-1] == told[-1][1]


@pytest.fixture(scope="module")
def bytes_of_guests() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder) / "r", guests())
        yield (Path(folder) / "r").read_bytes()


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 10**6))
def test_wrong_bytes_give_what_was_said_or_a_sentence(
    bytes_of_guests: bytes, wrong: list[tuple[int, int]], cut: int
) -> None:
    """Nothing is ever told that no probe has said."""
    data = bytearray(bytes_of_guests)
    for place, value in wrong:
        data[place % len(data)] = value
    data = data[: len(data) - cut % 3000]
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            recording = Recording.open(file.name)
        except RecordingError as error:
            assert error.message
            return
        with recording:
            for name in set(recording.hosts) & set(GUESTS):
                for line in lines(everything(recording, name)):
                    assert line.trouble is not None or line in SAID[name]


# ------------------------------------------------------------------------------------------------------------ foreign


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"hello\n", "is no recording"),
        (gzip.compress(b"hello" * 1000, mtime=0), "is no recording"),
        (MAGIC[:5], "is no recording"),
        (MAGIC, "was cut off"),
        (PREFIX, "is damaged at its beginning"),
        (PREFIX + b"\0" * 100_000, "is damaged at its beginning"),
        (MAGIC + (FORMAT + 1).to_bytes(2, "little"), "was made by a newer nictop"),
        (PREFIX + pack(1, b"{}"), "is damaged at its beginning"),
    ],
    ids=["empty", "text", "gzip", "begun", "magic", "prefix", "zeros", "newer", "no-header"],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(RecordingError, match=said):
        Recording.open(str(tmp_path / "x"))


def test_programs_folders_and_nothing_are_no_recordings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused = {
        sys.executable: "is no recording",
        str(tmp_path): "is not a regular file",
        str(tmp_path / "fifo"): "is not a regular file",
        str(tmp_path / "none"): "No such file",
        "a\0b": "is no name",
    }
    for path, said in refused.items():
        with pytest.raises(RecordingError, match=said):
            Recording.open(path)
        assert not is_recording(path)


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A terabyte of nothing behind the first frames."""
    record(tmp_path / "r", a_host("a", 5))
    with (tmp_path / "r").open("r+b") as file:
        file.truncate(1 << 40)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(everything(recording, "a")) == 9


@pytest.mark.parametrize(
    "lie",
    [
        b'{"hosts":{"1":"x"},"keys":[[1,1.0,99999999]],"marks":[],"begin":1,"end":2}',
        b"{}",
        b"[" * 100_000,
        b" " * 9_000_000,
    ],
    ids=["offsets beyond the file", "nothing in it", "marks without end", "blanks"],
)
def test_an_index_that_lies_is_not_believed(tmp_path: Path, lie: bytes) -> None:
    record(tmp_path / "r", a_host("a", 5))
    data = without_end(tmp_path / "r")
    (tmp_path / "r").write_bytes(data + pack(INDEX, lie) + trailer(len(data)))
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == ("a",) and len(everything(recording, "a")) == 9


def test_an_end_of_zeros_is_none(tmp_path: Path) -> None:
    record(tmp_path / "r", a_host("a", 5))
    data = without_end(tmp_path / "r")
    (tmp_path / "r").write_bytes(data + b"\0" * TRAILER_SIZE)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(everything(recording, "a")) == 9


def test_a_key_frame_of_strange_lines_is_told_as_trouble(tmp_path: Path) -> None:
    """Sound checksums around nonsense: what cannot be understood is said, the rest is heard."""
    record(tmp_path / "r", a_host("a", 3))
    data = without_end(tmp_path / "r")
    first, end, kind = next((begin, end, kind) for begin, end, kind in offsets(data) if kind == KEY)
    table = b'[[0,"host",1],[0,"line",3],[0,"state",2],[0,"missing",1],[0,"request",4]]'
    plain = len(table).to_bytes(4, "little") + table + b"a{x}[]?null"
    (tmp_path / "r").write_bytes(data[:first] + pack(kind, plain, host=1, sequence=1, time=1000.25) + data[end:])
    with Recording.open(str(tmp_path / "r")) as recording:
        heard = lines(everything(recording, "a"))
    troubles = [line.trouble.message for line in heard if line.trouble is not None]
    assert len(troubles) == 4 and all("cannot be understood" in said for said in troubles)
    assert len([line for line in heard if line.counters is not None]) == 3


# -------------------------------------------------------------------------------------------------- earlier versions


def test_the_recording_of_format_1_still_opens() -> None:
    """Made by the first version that recorded; never to be made anew."""
    path = Path(__file__).parent.parent / "data" / "recordings" / "format-1.nictop"
    with Recording.open(str(path)) as recording:
        assert recording.hosts == ("wired-connection-1", "virtio-4-queues") and recording.closed
        assert [mark.kind for mark in recording.marks] == ["started", "exit"]
        for name in recording.hosts:
            heard = lines(everything(recording, name))
            assert [line for line in heard if line.traffic is None] == recorded(name)
        newest = [line.counters for line in heard if line.counters is not None][-1]
        assert isinstance(newest, Counters) and newest.links[2][0] > 0
