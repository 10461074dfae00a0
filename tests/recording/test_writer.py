"""The recorder does not block, protects its file, and reports what it could not write."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.probe.records import Line, Request, TrafficRequest
from nictop.recording.file.frames import RecordingError
from nictop.recording.reader import Recording
from nictop.recording.writer import Recorder, recorded_source
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link
from tests.support.namespaces import ROOT
from tests.support.probe import is_alive, wait_until
from tests.support.recordings import host_items, lines_of, read_all
from tests.support.sources import ScriptedSource


def record_counters(recorder: Recorder, seconds: int, name: str = "a") -> None:
    for host, item, time in host_items(name, seconds):
        recorder.record(host, item, time)


def troubles(path: Path, name: str = "a") -> list[str]:
    with Recording.open(str(path)) as recording:
        return [
            line.trouble.message
            for line in lines_of(read_all(recording, name))
            if line.trouble is not None
        ]


# --------------------------------------------------------------------------------------------- file


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        recorder = Recorder(str(tmp_path / "r"))
    finally:
        os.umask(before)
    await recorder.close()
    assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o600


async def test_files_are_overwritten_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(b"precious" * 100_000)
    path.chmod(0o644)
    with pytest.raises(RecordingError, match="already exists") as caught:
        Recorder(str(path))
    assert "--force" in caught.value.hint and path.read_bytes().startswith(b"precious")
    recorder = Recorder(str(path), force=True)
    record_counters(recorder, 3)
    await recorder.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Recording.open(str(path)) as recording:
        assert len(read_all(recording, "a")) == 7


@pytest.mark.parametrize("force", [False, True])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, force: bool) -> None:
    target, link = tmp_path / "precious", tmp_path / "r"
    target.write_bytes(b"precious")
    link.symlink_to(target)
    with pytest.raises(RecordingError, match="is a symbolic link"):
        Recorder(str(link), force=force)
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecordingError, match="is a symbolic link"):
        Recorder(str(link), force=force)
    assert target.read_bytes() == b"precious" and not (tmp_path / "nowhere").exists()


def test_special_files_and_hard_links_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"precious")
    os.link(tmp_path / "one", tmp_path / "two")
    os.mkfifo(tmp_path / "fifo")
    refused = {
        "two": "has more than one hard link",
        "fifo": "is not a regular file",
        ".": r"cannot write .*: Is a directory",
        "no/where": r"cannot write .*: No such file",
        "a\0b": "is not a valid file name",
    }
    for name, expected in refused.items():
        with pytest.raises(RecordingError, match=expected):
            Recorder(f"{tmp_path}/{name}", force=True)
    assert (tmp_path / "one").read_bytes() == b"precious"


async def test_an_active_recording_is_not_overwritten(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "r"))
    record_counters(recorder, 3)
    with pytest.raises(RecordingError, match="is being written by another nictop"):
        Recorder(str(tmp_path / "r"), force=True)
    await recorder.close()
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(read_all(recording, "a")) == 7


# ---------------------------------------------------------------------------------------- data loss


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel does not extend files of this process beyond `size` (EFBIG), like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_recording_continues_after_a_full_disk(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "r"), retry=0.0)
    with file_size_limit(recorder.size + 200):
        record_counters(recorder, 30)
        await asyncio.to_thread(wait_until, lambda: recorder.trouble)
        assert f"cannot write {tmp_path}/r: File too large" in recorder.trouble
        await asyncio.to_thread(wait_until, lambda: recorder.dropped)
    for second in range(40, 60):
        recorder.record("a", counters(1000.0 + second, {2: (second, second)}), 1000.0 + second)
    await recorder.close()
    assert recorder.trouble == ""
    with Recording.open(str(tmp_path / "r")) as recording:
        received = lines_of(read_all(recording, "a"))
        assert recording.closed and recording.damage_count == 0
    messages = [line.trouble.message for line in received if line.trouble is not None]
    assert messages and messages[0].endswith(
        "lines are missing in the recording here: there was no time or no room for more"
    )
    assert sum(int(sentence.split()[0]) for sentence in messages) == recorder.dropped
    assert hello() in received
    assert [line.counters.time for line in received if line.counters is not None][-20:] == list(
        range(1040, 1060)
    )


async def test_removing_the_file_ends_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "r"))
    (tmp_path / "r").unlink()
    await asyncio.to_thread(wait_until, lambda: recorder.has_failed)
    assert recorder.trouble == f"recording stopped: {tmp_path}/r was removed"
    record_counters(recorder, 3)
    assert recorder.dropped == 7
    await recorder.close()
    assert os.listdir(tmp_path) == []


async def test_a_slow_disk_drops_lines_but_does_not_block(tmp_path: Path) -> None:
    """While the thread cannot write, the queue is bounded, and dropped items are counted."""
    recorder = Recorder(str(tmp_path / "r"), max_queue_bytes=20_000)
    stuck, go_on = threading.Event(), threading.Event()
    write = recorder._append

    def slow(data: bytes) -> None:
        stuck.set()
        go_on.wait(120)
        write(data)

    recorder._append = slow  # type: ignore[method-assign]
    recorder.record("a", hello(), 1.0)
    recorder._wake.set()
    await asyncio.to_thread(stuck.wait, 120)
    for second in range(2000):
        recorder.record("a", counters(2.0 + second, {2: (second, second)}), 2.0 + second)
        assert recorder._queued_bytes <= 20_000
    assert recorder.dropped > 1000
    go_on.set()
    await recorder.close()
    (message,) = troubles(tmp_path / "r")
    assert message.startswith(f"{recorder.dropped} lines are missing")
    with Recording.open(str(tmp_path / "r")) as recording:
        assert len(read_all(recording, "a")) == 1 + 2000 - recorder.dropped + 1


async def test_text_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "r"))
    recorder.record("a", hello(), 1.0)
    recorder.record("a", SourceState("lost", "\udcff"), 2.0)
    recorder.record("a", hello(), 3.0)
    await recorder.close()
    assert recorder.dropped == 1
    assert troubles(tmp_path / "r") == [
        "1 line is missing in the recording here: there was no time or no room for more"
    ]


def test_a_killed_recorder_leaves_a_readable_file(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from nictop.recording.writer import Recorder\n"
        "from tests.support.recordings import host_items\n"
        "recorder = Recorder(sys.argv[1])\n"
        "for host, item, at in host_items('a', 60): recorder.record(host, item, at)\n"
        "print('heard', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"heard\n"
            wait_until(lambda: counter_record_count(tmp_path / "r") >= 50)
        finally:
            process.send_signal(signal.SIGKILL)
    assert not is_alive(process.pid)
    with Recording.open(str(tmp_path / "r")) as recording:
        assert not recording.closed and recording.damage_count == 0
    with (tmp_path / "r").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def counter_record_count(path: Path) -> int:
    try:
        with Recording.open(str(path)) as recording:
            return sum(
                line.counters is not None
                for name in recording.hosts
                for line in lines_of(read_all(recording, name))
            )
    except RecordingError:
        return 0


# ------------------------------------------------------------------------------------------- source


async def test_a_recorded_source_passes_everything_through(tmp_path: Path) -> None:
    source, recorder = ScriptedSource("a"), Recorder(str(tmp_path / "r"))
    expected = [item for _, item, _ in host_items("a", 4) if isinstance(item, Line | SourceState)]
    source.send(*expected)
    wrapped = recorded_source(source, recorder)
    assert (wrapped.name, wrapped.pids) == ("a", ())
    received = []
    async for item in wrapped.items():
        received.append(item)
        if len(received) == 2:
            await wrapped.request(Request(watch=(2,)))
            await wrapped.request(Request(ping=1))
        if source.is_drained:
            break
    await wrapped.close()
    await recorder.close()
    assert received == expected and source.closed
    assert source.requests == [Request(watch=(2,)), Request(ping=1)]
    with Recording.open(str(tmp_path / "r")) as recording:
        items = [one.item for one in read_all(recording, "a")]
        assert items == [*expected[:2], Request(watch=(2,)), *expected[2:]]
        times = [one.time for one in read_all(recording, "a")]
        assert times == sorted(times) and times[0] >= recorder.begin


async def test_the_cookie_of_a_test_is_not_recorded(tmp_path: Path) -> None:
    """Who can read the file cannot take the place of an end of a test that runs; all else of the
    request is there."""
    source, recorder = ScriptedSource("a"), Recorder(str(tmp_path / "r"))
    wrapped = recorded_source(source, recorder)
    listen = TrafficRequest(
        "p", "path_listen", address="192.0.2.1", source="192.0.2.2", cookie="0a" * 16, deadline=5
    )
    start = TrafficRequest(
        "s", "start", role="server", generator="builtin", port=1, cookie="0b" * 16, peer="192.0.2.1"
    )
    for request in (listen, start):
        await wrapped.request(Request(traffic=request))
    await wrapped.close()
    await recorder.close()
    assert source.requests == [Request(traffic=listen), Request(traffic=start)]
    with Recording.open(str(tmp_path / "r")) as recording:
        items = [one.item for one in read_all(recording, "a")]
    assert items == [Request(traffic=replace(one, cookie="")) for one in (listen, start)]


class SwitchedRecorder:
    """Records nothing; `running` as it is set."""

    running = False

    def record(self, host: str, item: object, now: float) -> None:
        pass


async def test_while_it_is_recorded_a_source_reads_the_queues_of_all_devices() -> None:
    source, recorder = ScriptedSource("a"), SwitchedRecorder()
    wrapped = recorded_source(source, recorder)
    items = wrapped.items()

    async def receive(item: Line) -> list[tuple[int, ...] | None]:
        source.requests.clear()
        source.send(item)
        assert await anext(items) == item
        return [request.watch for request in source.requests]

    devices = [
        link(3, "ens224", device="0000:02:00.0"),
        link(2, "ens192", device="0000:01:00.0"),
        link(1, "lo"),
    ]
    assert await receive(inventory(*devices)) == []
    await wrapped.request(Request(watch=(3,)))
    assert source.requests == [Request(watch=(3,))]
    recorder.running = True
    assert await receive(counters(1.0, {})) == [(3, 2)]
    assert await receive(counters(2.0, {})) == []
    assert await receive(inventory(*devices, link(4, "ens256", device="0000:03:00.0"))) == [
        (3, 2, 4)
    ]
    await wrapped.request(Request(watch=(2,), interval=0.5))
    assert source.requests[-1] == Request(watch=(2, 3, 4), interval=0.5)
    await wrapped.request(Request(machine=True))
    assert source.requests[-1] == Request(machine=True)
    recorder.running = False
    assert await receive(counters(3.0, {})) == [(2,)]
