"""Items are restored from any time on; a truncated, damaged or foreign file is read as far as
possible."""

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

from nictop.model.snapshot import Snapshot, advance, outdated_text
from nictop.probe.records import (
    ChangeLine,
    Clock,
    Counters,
    Line,
    Outdated,
    PlannedAction,
    Pong,
    Request,
    TrafficLine,
    TrafficRequest,
)
from nictop.probe.records.unreadable import NOT_RECORDED, Unreadable
from nictop.recording.file.frames import (
    FORMAT,
    HEADER_SIZE,
    INDEX_FRAME,
    ITEMS_FRAME,
    KEY_FRAME,
    RECORDING_MAGIC,
    RECORDING_PREFIX,
    TRAILER_SIZE,
    RecordingError,
    encode_trailer,
    pack_frame,
    parse_header,
)
from nictop.recording.file.open import is_recording_file
from nictop.recording.host_writer import KEY_FRAME_SECONDS
from nictop.recording.reader import Recording
from nictop.rules import HostFacts, diagnose
from nictop.wire.source import SourceState
from tests.support.captured import captured_lines
from tests.support.hostile import NAME as HOSTILE
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.recordings import TimedItem, host_items, lines_of, read_all, write_recording

GUEST_NAMES = ("wired-connection-1", "virtio-4-queues", "igb-vfs-vmxnet3-virtio")
LINES_BY_GUEST = {name: captured_lines(name) for name in GUEST_NAMES}


def as_captured(item: object) -> object:
    """Without the marks of what the probes of that time did not read."""
    if not isinstance(item, Line) or item.inventory is None:
        return item
    unreadable = item.inventory.unreadable
    known = {name: why for name, why in unreadable.items() if why.detail != NOT_RECORDED}
    return Line(inventory=replace(item.inventory, unreadable=known))


def guest_items() -> list[TimedItem]:
    """Lines that probes sent on real guests, interleaved."""
    items: list[TimedItem] = []
    for name in GUEST_NAMES:
        for number, line in enumerate(captured_lines(name)):
            items.append((name, line, 50.0 + number))
    return sorted(items, key=lambda one: one[2])


def offsets(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(begin, end, kind) of every frame of a file."""
    offset = len(RECORDING_PREFIX)
    while (header := parse_header(data[offset : offset + HEADER_SIZE])) is not None:
        yield offset, offset + header.size, header.kind
        offset += header.size


def truncated_before_index(path: Path) -> bytes:
    """The file as a recorder leaves it that was killed after its last frame."""
    data = path.read_bytes()
    begin = next(begin for begin, _, kind in offsets(data) if kind == INDEX_FRAME)
    return data[:begin]


# --------------------------------------------------------------------------------------- round trip


def test_recorded_guests_are_restored_line_by_line(tmp_path: Path) -> None:
    items = guest_items()
    write_recording(tmp_path / "r", items)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == GUEST_NAMES
        assert recording.begin == 50.0
        assert recording.end == pytest.approx(max(time for _, _, time in items), abs=2e-3)
        assert recording.closed and recording.damage_count == 0
        for name in GUEST_NAMES:
            read = read_all(recording, name)
            assert [as_captured(one.item) for one in read] == captured_lines(name)
            assert [one.time for one in read] == [time for host, _, time in items if host == name]


def test_states_requests_and_clocks_are_restored_without_pongs(tmp_path: Path) -> None:
    lost = SourceState("lost", "no more data from it", 3.5)
    ask = Request(watch=(2, 3), traffic=TrafficRequest("run-1", "stop"))
    clock = Line(clock=Clock(9.0, -3.5, 0.001))
    items: list[TimedItem] = [
        ("a", hello(), 1.0),
        ("a", ask, 2.0),
        ("a", clock, 3.0),
        ("a", lost, 4.0),
    ]
    write_recording(
        tmp_path / "r", [*items, ("a", Line(pong=Pong(1, 2.0)), 5.0), ("a", Line(), 6.0)]
    )
    with Recording.open(str(tmp_path / "r")) as recording:
        assert [(one.item, one.time) for one in read_all(recording, "a")] == [
            (item, time) for _, item, time in items
        ]


def test_any_host_name_is_restored(tmp_path: Path) -> None:
    write_recording(
        tmp_path / "r", [(HOSTILE, hello(), 1.0), ("", hello(), 1.0), ("\udcff", hello(), 1.0)]
    )
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == (HOSTILE, "", "?")
        assert lines_of(read_all(recording, HOSTILE)) == [hello()]


def test_marks_are_start_and_end_of_generators(tmp_path: Path) -> None:
    kinds = ("tools", "started", "output", "exit")
    traffic: list[TimedItem] = [
        ("a", Line(traffic=TrafficLine(float(number), "run-1", kind)), 10.0 + number)  # type: ignore[arg-type]
        for number, kind in enumerate(kinds)
    ]
    write_recording(tmp_path / "r", [*host_items("a", 3, 1.0), *traffic])
    (tmp_path / "cut").write_bytes(truncated_before_index(tmp_path / "r"))
    for name in ("r", "cut"):
        with Recording.open(str(tmp_path / name)) as recording:
            marks = [(mark.time, mark.host, mark.id, mark.kind) for mark in recording.marks]
            assert marks == [(11.0, "a", "run-1", "started"), (13.0, "a", "run-1", "exit")]


def test_wall_clock_and_back(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", host_items("a", 3))
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.at_wall(recording.wall_time(1234.5)) == pytest.approx(1234.5, abs=1e-3)


# ------------------------------------------------------------------------------------------ seeking


def test_reading_begins_with_the_state_of_the_key_frame(tmp_path: Path) -> None:
    """Hello, newest inventory, changes since, clock and state; then the counters from that time
    on."""
    items = host_items("a", 700)
    second = inventory(link(2, "ens192"), link(9, "new"), time=1300.0)
    clock = Line(clock=Clock(1.0, 2.0, 0.1))
    changes = [
        change(2, "old", time=1200.0),
        change(9, "renamed", time=1310.0),
        gone(2, "ens192", 1311.0),
    ]
    items += [("a", changes[0], 1200.1), ("a", second, 1300.2), ("a", clock, 1300.3)]
    items += [("a", changes[1], 1310.1), ("a", changes[2], 1311.1)]
    items.sort(key=lambda one: one[2])
    write_recording(tmp_path / "r", items)
    with Recording.open(str(tmp_path / "r")) as recording:
        read = read_all(recording, "a", since=1650.0)
        key = next(one.time for one in read)
        assert 1650.0 - KEY_FRAME_SECONDS < key <= 1650.0
        known = [one.item for one in read if one.time <= 1650.0]
        assert known == [hello(), second, changes[1], changes[2], clock, SourceState("live")]
        counted = [
            one for one in read if isinstance(one.item, Line) and one.item.counters is not None
        ]
        assert [one.item for one in counted] == [item for _, item, time in items if time >= 1650.0]
        assert len(counted) == 50


@pytest.mark.parametrize("line", ["outdated", "change"])
def test_a_host_that_was_changed_is_so_in_a_recording_begun_afterwards(
    tmp_path: Path, line: str
) -> None:
    """Values read before the change are called so, as on the live screen, until they are read
    again."""
    words = "read before an event (address)"
    told = Line(outdated=Outdated(1005.0, "address"))
    if line == "change":
        told, words = Line(change=ChangeLine(1005.0, "c", "applied")), "read before it changed"
    newer = inventory(link(2, "ens192"), time=1008.0)
    items: list[TimedItem] = [
        ("a", SourceState("live"), 1000.0),
        ("a", hello(), 1000.0),
        ("a", inventory(link(2, "ens192"), time=1001.0), 1001.0),
        ("a", told, 1005.0),
        ("a", Line(outdated=Outdated(1006.0, "link")), 1006.0),  # which does not hide the other
        *(("a", counters(time, {2: (0, 0)}), time) for time in (1400.0, 1401.0)),
        ("a", newer, 1800.0),
        *(("a", counters(time, {2: (0, 0)}), time) for time in (2200.0, 2201.0)),
    ]
    write_recording(tmp_path / "r", items)
    with Recording.open(str(tmp_path / "r")) as recording:
        for since, is_before in ((1400.0, True), (2200.0, False)):
            host = Snapshot.empty("a")
            for one in read_all(recording, "a", since=since):
                if isinstance(one.item, Line) and one.time <= since:
                    host = advance(host, one.item)
            assert host.inventory is not None, since
            assert outdated_text(host) == (words if is_before else ""), since


def test_a_reboot_clears_the_state(tmp_path: Path) -> None:
    first = hello()
    assert first.hello is not None
    booted = Line(hello=replace(first.hello, boot_id="c"))
    items = [
        *host_items("a", 5),
        ("a", booted, 1010.0),
        ("a", counters(1400.0, {2: (0, 0)}), 1400.0),
    ]
    write_recording(tmp_path / "r", items)
    with Recording.open(str(tmp_path / "r")) as recording:
        known = [one.item for one in read_all(recording, "a", since=1400.0)]
        assert known == [booted, SourceState("live"), items[-1][1]]


def test_times_of_counters_without_decoding_lines(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", host_items("a", 20))
    with Recording.open(str(tmp_path / "r")) as recording:
        times = [
            one.time
            for one in read_all(recording, "a")
            if isinstance(one.item, Line) and one.item.counters
        ]
        some = [step for step in recording.counter_time_steps("a", 1005.0, 1010.0) if step]
        one = [step for step in recording.counter_time_steps("a", 1006.85, 1006.85) if step]
    assert some == [time for time in times if 1005.0 <= time <= 1010.0] and one == [1006.85]


def test_index_and_scan_agree(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", [*host_items("a", 650), *host_items("b", 10)])
    (tmp_path / "cut").write_bytes(truncated_before_index(tmp_path / "r"))
    with Recording.open(str(tmp_path / "r")) as whole, Recording.open(str(tmp_path / "cut")) as cut:
        assert (whole.closed, cut.closed) == (True, False)
        assert (whole.hosts, whole.begin, whole.end, whole.marks) == (
            cut.hosts,
            cut.begin,
            cut.end,
            cut.marks,
        )
        assert whole._index.keys == cut._index.keys and whole._index.key_count == 4
        assert read_all(whole, "a", 1400.0) == read_all(cut, "a", 1400.0)


# ---------------------------------------------------------------------------------- cut and damaged


def test_a_file_truncated_in_its_last_frame_opens(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", host_items("a", 12))
    data = truncated_before_index(tmp_path / "r")
    frames = list(offsets(data))
    begin, end, kind = frames[-1]
    assert kind == ITEMS_FRAME and end == len(data) and len(frames) > 3
    path = tmp_path / "cut"
    path.write_bytes(data[:begin])
    with Recording.open(str(path)) as recording:
        expected = read_all(recording, "a")
    assert len(expected) > 5
    for cut in range(begin, end):
        path.write_bytes(data[:cut])
        with Recording.open(str(path)) as recording:
            assert not recording.closed and recording.damage_count == 0
            assert read_all(recording, "a") == expected


def test_a_file_truncated_in_its_index_is_complete(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", host_items("a", 12))
    data, items = (tmp_path / "r").read_bytes(), len(truncated_before_index(tmp_path / "r"))
    with Recording.open(str(tmp_path / "r")) as recording:
        expected = read_all(recording, "a")
    for cut in range(items, len(data)):
        (tmp_path / "cut").write_bytes(data[:cut])
        with Recording.open(str(tmp_path / "cut")) as recording:
            assert read_all(recording, "a") == expected


def test_after_a_damaged_frame_reading_continues_at_the_next_key_frame(tmp_path: Path) -> None:
    items = host_items("a", 700)
    write_recording(tmp_path / "r", items)
    data = bytearray((tmp_path / "r").read_bytes())
    item_frames = [begin for begin, _, kind in offsets(bytes(data)) if kind == ITEMS_FRAME]
    data[item_frames[3] + HEADER_SIZE + 5] ^= 0xFF
    (tmp_path / "r").write_bytes(data)
    with Recording.open(str(tmp_path / "r")) as recording:
        read = read_all(recording, "a")
    message = [line.trouble.message for line in lines_of(read) if line.trouble is not None]
    assert message == ["the recording is damaged here: data is missing"]
    numbers = [
        one.time for one in read if isinstance(one.item, Line) and one.item.counters is not None
    ]
    assert len(numbers) < 420 and numbers[-1] == items[-1][2]
    known = [item for _, item, _ in items]
    assert all(line in known for line in lines_of(read) if line.trouble is None)


def test_a_damaged_header_is_skipped(tmp_path: Path) -> None:
    items = host_items("a", 700)
    write_recording(tmp_path / "r", items)
    data = bytearray(truncated_before_index(tmp_path / "r"))
    item_frames = [begin for begin, _, kind in offsets(bytes(data)) if kind == ITEMS_FRAME]
    data[item_frames[3] + 20] ^= 0xFF
    (tmp_path / "r").write_bytes(data)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.damage_count == 1
        assert recording.end == pytest.approx(items[-1][2], abs=2e-3)
        read = lines_of(read_all(recording, "a"))
    assert [line.trouble is not None for line in read].count(True) == 1
    assert read[-1] == items[-1][1]


@pytest.fixture(scope="module")
def guest_bytes() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_recording(Path(folder) / "r", guest_items())
        yield (Path(folder) / "r").read_bytes()


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_wrong_bytes_give_recorded_lines_or_an_error(
    guest_bytes: bytes, wrong: list[tuple[int, int]], cut: int
) -> None:
    """No line is returned that was not recorded."""
    data = bytearray(guest_bytes)
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
            for name in set(recording.hosts) & set(GUEST_NAMES):
                for line in lines_of(read_all(recording, name)):
                    assert line.trouble is not None or as_captured(line) in LINES_BY_GUEST[name]


# ------------------------------------------------------------------------------------------ foreign


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"hello\n", "is not a nictop recording"),
        (gzip.compress(b"hello" * 1000, mtime=0), "is not a nictop recording"),
        (RECORDING_MAGIC[:5], "is not a nictop recording"),
        (RECORDING_MAGIC, "is truncated: it contains no data"),
        (RECORDING_PREFIX, "is damaged at the start"),
        (RECORDING_PREFIX + b"\0" * 100_000, "is damaged at the start"),
        (
            RECORDING_MAGIC + (FORMAT + 1).to_bytes(2, "little"),
            f"has the unknown format {FORMAT + 1}; this nictop reads {FORMAT}",
        ),
        (RECORDING_PREFIX + pack_frame(1, b"{}"), "is damaged at the start"),
    ],
    ids=["empty", "text", "gzip", "begun", "magic", "prefix", "zeros", "newer", "no-header"],
)
def test_other_files_are_rejected(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(RecordingError, match=message):
        Recording.open(str(tmp_path / "x"))


def test_programs_folders_and_missing_files_are_not_recordings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused = {
        sys.executable: "is not a nictop recording",
        str(tmp_path): "is not a regular file",
        str(tmp_path / "fifo"): "is not a regular file",
        str(tmp_path / "none"): "No such file",
        "a\0b": "is not a valid file name",
    }
    for path, message in refused.items():
        with pytest.raises(RecordingError, match=message):
            Recording.open(path)
        assert not is_recording_file(path)


def test_a_huge_sparse_file_is_not_read_completely(tmp_path: Path) -> None:
    """A sparse terabyte after the first frames."""
    write_recording(tmp_path / "r", host_items("a", 5))
    with (tmp_path / "r").open("r+b") as file:
        file.truncate(1 << 40)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(read_all(recording, "a")) == 9


@pytest.mark.parametrize(
    "false_index",
    [
        b'{"hosts":{"1":"x"},"keys":[[1,1.0,99999999]],"marks":[],"begin":1,"end":2}',
        b"{}",
        b"[" * 100_000,
        b" " * 9_000_000,
    ],
    ids=["offsets beyond the file", "nothing in it", "marks without end", "blanks"],
)
def test_an_invalid_index_is_ignored(tmp_path: Path, false_index: bytes) -> None:
    write_recording(tmp_path / "r", host_items("a", 5))
    data = truncated_before_index(tmp_path / "r")
    (tmp_path / "r").write_bytes(
        data + pack_frame(INDEX_FRAME, false_index) + encode_trailer(len(data))
    )
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == ("a",) and len(read_all(recording, "a")) == 9


def test_a_trailer_of_zeros_is_ignored(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", host_items("a", 5))
    data = truncated_before_index(tmp_path / "r")
    (tmp_path / "r").write_bytes(data + b"\0" * TRAILER_SIZE)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(read_all(recording, "a")) == 9


def test_invalid_lines_in_a_key_frame_are_reported_as_trouble(tmp_path: Path) -> None:
    """Invalid lines in frames with valid checksums: they are reported, the others are read."""
    write_recording(tmp_path / "r", host_items("a", 3))
    data = truncated_before_index(tmp_path / "r")
    first, end, kind = next(
        (begin, end, kind) for begin, end, kind in offsets(data) if kind == KEY_FRAME
    )
    table = b'[[0,"host",1],[0,"line",3],[0,"state",2],[0,"missing",1],[0,"request",4]]'
    plain = len(table).to_bytes(4, "little") + table + b"a{x}[]?null"
    (tmp_path / "r").write_bytes(
        data[:first] + pack_frame(kind, plain, host=1, sequence=1, time=1000.25) + data[end:]
    )
    with Recording.open(str(tmp_path / "r")) as recording:
        read = lines_of(read_all(recording, "a"))
    troubles = [line.trouble.message for line in read if line.trouble is not None]
    assert len(troubles) == 4 and all(
        message.startswith("invalid line in the recording: ") for message in troubles
    )
    assert len([line for line in read if line.counters is not None]) == 3


# --------------------------------------------------------------------------------- earlier versions


def test_the_recording_of_format_1_still_opens() -> None:
    """Recorded by the first version that could record; must not be replaced."""
    path = Path(__file__).parent.parent / "data" / "recordings" / "format-1.nictop"
    with Recording.open(str(path)) as recording:
        assert recording.hosts == ("wired-connection-1", "virtio-4-queues") and recording.closed
        assert [mark.kind for mark in recording.marks] == ["started", "exit"]
        for name in recording.hosts:
            read = lines_of(read_all(recording, name))
            items = [as_captured(line) for line in read if line.traffic is None]
            assert items == captured_lines(name)
        newest = [line.counters for line in read if line.counters is not None][-1]
        assert isinstance(newest, Counters) and newest.links[2][0] > 0


def test_changes_recorded_with_earlier_texts(tmp_path: Path) -> None:
    """Texts of a plan and reasons are shown as they were recorded."""
    action = PlannedAction(
        ("ethtool", "-L", "ens256", "combined", "4"), "not there yet", "combined 4", (), "ens256",
        disturbs=("resets ens256: no traffic for a moment", "this very SSH connection goes over "
                                                            "ens256"),
    )  # fmt: skip
    replies = [
        Line(change=ChangeLine(2.0, "c1", "prepared", plan=(action,), fingerprint="ab")),
        Line(change=ChangeLine(3.0, "c1", "undoing", "nobody said in time that it shall stay")),
        Line(change=ChangeLine(4.0, "c1", "undone", "as asked")),
    ]
    write_recording(tmp_path / "r", [("a", hello(), 1.0), *(("a", line, 2.0) for line in replies)])
    with Recording.open(str(tmp_path / "r")) as recording:
        assert lines_of(read_all(recording, "a")) == [hello(), *replies]


def test_what_an_older_nictop_did_not_record_is_not_known() -> None:
    """No field of the inventory: nothing has been read of it, and no check of it has run."""
    path = Path(__file__).parent.parent / "data" / "recordings" / "format-1.nictop"
    with Recording.open(str(path)) as recording:
        lines = lines_of(read_all(recording, recording.hosts[0]))
    inventory = next(line.inventory for line in lines if line.inventory is not None)
    not_recorded = Unreadable("failed", NOT_RECORDED)
    for source in ("routing", "guests", "filters", "lldp"):
        assert inventory.unreadable[source] == not_recorded
    assert "settings" not in inventory.unreadable
    snapshot = Snapshot.empty("vm1")
    for line in lines:
        snapshot = advance(snapshot, line)
    skipped = diagnose([HostFacts(snapshot)]).skipped
    assert any(check.reason.endswith(NOT_RECORDED) for check in skipped)
