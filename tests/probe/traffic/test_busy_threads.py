"""Busy threads of a host: which they are, their CPU time since the last reading, and what could not
be read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.traffic.busy_threads import (
    MAX_CPU_SHARE,
    MAX_PROCESSES,
    MIN_READ_SECONDS,
    BusyThreadReader,
    Task,
)

TICKS = os.sysconf("SC_CLK_TCK")
BUSY_PROGRAM = (
    'import os, sys; os.sched_setaffinity(0, {{{cpu}}}); print("+", flush=True)\nwhile True: pass'
)
THREADS_PROGRAM = (
    "import threading\n"
    "def spin():\n"
    "    while True: pass\n"
    "threading.Thread(target=spin, daemon=True).start()\n"
    'print("+", flush=True)\n'
    "spin()"
)


def stat(pid: int, name: str, user: int, system: int, **other_fields: int) -> str:
    fields = {"parent": 1, "session": 1, "threads": 1, "started": 5, "cpu": 0} | other_fields
    columns = [
        "S",
        str(fields["parent"]),
        "1",
        str(fields["session"]),
        *["0"] * 7,
        str(user),
        str(system),
        *["0"] * 4,
    ]
    columns += [
        str(fields["threads"]),
        "0",
        str(fields["started"]),
        *["0"] * 16,
        str(fields["cpu"]),
        "0",
    ]
    return f"{pid} ({name}) {' '.join(columns)}\n"


def write(proc: Path, text: str, tid: int = 0) -> None:
    """The stat file of a process, or of one of its threads."""
    pid = text.split(maxsplit=1)[0]
    folder = proc / pid / "task" / str(tid) if tid else proc / pid
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A second passes with each reading."""
    now, read = [100.0], BusyThreadReader.read

    def tick(reader: BusyThreadReader) -> tuple[float, list[dict[str, Any]], dict[str, str] | None]:
        now[0] += 1.0
        return read(reader)

    monkeypatch.setattr("nictop.probe.traffic.busy_threads.time.monotonic", lambda: now[0])
    monkeypatch.setattr(BusyThreadReader, "read", tick)
    return now


@pytest.mark.parametrize("name", ["yes", "a) S 1 2 (b", "))) 9 9 9", "", "tmux: server"])
def test_line_with_any_name(name: str) -> None:
    task = Task(stat(7, name, 3, 4, session=9, threads=2, started=77, cpu=3).encode())
    assert (task.name, task.user, task.system, task.session) == (name, 3, 4, 9)
    assert (task.threads, task.started, task.processor, task.total) == (2, 77, 3, 7)
    assert Task(b"7 (\xff\n) " + stat(7, "", 3, 4).partition(") ")[2].encode()).name == "\ufffd\n"


@pytest.mark.parametrize("text", [b"", b"7 (yes) S 1", b"7 (yes) S 1 1 x" + b" 0" * 40])
def test_malformed_line(text: bytes) -> None:
    with pytest.raises(ValueError):
        Task(text)


def test_cpu_time_since_the_last_reading(tmp_path: Path, clock: list[float]) -> None:
    for text in (
        stat(1, "init", 9, 9),
        stat(20, "yes", 5000, 100),
        stat(30, "quiet", 700, 1),
        stat(40, "old", 50, 0),
    ):
        write(tmp_path, text)
    reader = BusyThreadReader(40, str(tmp_path))
    reader.begin()
    write(tmp_path, stat(20, "yes", 5060, 105, cpu=3))
    write(tmp_path, stat(30, "quiet", 703, 1))
    write(tmp_path, stat(40, "iperf3", 10, 20, started=99))  # the process id was reused
    write(tmp_path, stat(41, "iperf3", 1, 39, session=40, started=99))
    seconds, threads, unreadable = reader.read()
    assert (seconds, unreadable) == (1.0, None)
    assert [(one["name"], one["pid"], one["user"], one["system"],
        one["cpu"]) for one in threads] == [ ("yes", 20, 60, 5, 3), ("iperf3", 41, 1, 39, 0),
    ("iperf3", 40, 10, 20, 0),
    ]  # fmt: skip
    assert [one["generator"] for one in threads] == [False, True, True]
    assert reader.read()[1] == []


def test_seconds_of_a_process_are_those_between_its_own_readings(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy host delays the probe between the start of a reading and this process."""
    for text in (stat(20, "sh", 5000, 0), stat(1, "init", 9, 9)):
        write(tmp_path, text)
    reader = BusyThreadReader(40, str(tmp_path))
    reader.begin()
    write(tmp_path, stat(20, "sh", 5107, 0))
    listed = os.listdir

    def slow(path: str) -> list[str]:
        clock[0] += 0.07
        return listed(path)

    monkeypatch.setattr("nictop.probe.traffic.busy_threads.os.listdir", slow)
    seconds, (busy,), _ = reader.read()
    assert (seconds, busy["user"], busy["seconds"]) == (1.0, 107, 1.07)


def test_the_probe_and_its_children_are_marked_and_the_generator_is_not(
    tmp_path: Path, clock: list[float]
) -> None:
    own = os.getpid()
    reader = BusyThreadReader(own + 2, str(tmp_path))
    reader.begin()
    write(tmp_path, stat(own, "python3", 50, 0))
    write(tmp_path, stat(own + 1, "python3", 40, 0, parent=own))
    write(tmp_path, stat(own + 2, "iperf3", 30, 0, parent=own))
    write(tmp_path, stat(own + 3, "python3", 20, 0, parent=own + 9))
    marks = [(one["pid"] - own, one.get("probe", False)) for one in reader.read()[1]]
    assert marks == [(0, True), (1, True), (2, False), (3, False)]


def test_the_probe_that_a_helper_works_for_is_marked_too(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With root, tests are run by the helper: the probe that reads and writes is its parent."""
    own = os.getpid()
    monkeypatch.setattr("nictop.probe.kernel.own_process._of_probe", own + 1)
    reader = BusyThreadReader(own + 9, str(tmp_path))
    reader.begin()
    write(tmp_path, stat(own, "nictop-helper", 50, 0, parent=own + 1))
    write(tmp_path, stat(own + 1, "python3", 40, 0, parent=own + 5))
    write(tmp_path, stat(own + 2, "python3", 30, 0, parent=own + 1))
    write(tmp_path, stat(own + 5, "sudo", 20, 0))
    marks = [(one["pid"] - own, one.get("probe", False)) for one in reader.read()[1]]
    assert marks == [(0, True), (1, True), (2, True), (5, False)]


def test_threads_are_known_from_the_second_reading_on(tmp_path: Path, clock: list[float]) -> None:
    """For a process that had used CPU before: what each of its threads had used is unknown at
    first."""
    write(tmp_path, stat(1, "init", 0, 0))
    write(tmp_path, stat(20, "qemu", 500, 0, threads=2))
    reader = BusyThreadReader(99, str(tmp_path))
    reader.begin()
    for user in (560, 640):
        write(tmp_path, stat(20, "qemu", user, 0, threads=2))
        write(tmp_path, stat(20, "qemu", user - 300, 0, cpu=1), 20)
        write(tmp_path, stat(20, "CPU 0/KVM", 300, 0, cpu=2), 21)
        threads = reader.read()[1]
        records = [(one["name"], one["tid"], one["user"], one["cpu"]) for one in threads]
        assert records == [("qemu", 20, 60, None)] if user == 560 else [("qemu", 20, 80, 1)]


def test_threads_of_a_new_process(tmp_path: Path, clock: list[float]) -> None:
    write(tmp_path, stat(1, "init", 0, 0))
    reader = BusyThreadReader(99, str(tmp_path))
    reader.begin()
    write(tmp_path, stat(20, "iperf3", 90, 0, threads=2, session=99))
    write(tmp_path, stat(20, "iperf3", 20, 0, cpu=1), 20)
    write(tmp_path, stat(20, "iperf3", 70, 0, cpu=2, session=99), 21)
    assert [(one["tid"], one["user"], one["cpu"]) for one in reader.read()[1]] == [
        (21, 70, 2),
        (20, 20, 1),
    ]


def test_unreadable_processes_are_reported(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, stat(7, "mine", 0, 0))  # with hidepid there is no process 1
    reader = BusyThreadReader(7, str(tmp_path))
    assert reader.read()[2] == {"reason": "needs_root", "detail": f"{tmp_path}: hidepid"}
    write(tmp_path, stat(1, "init", 0, 0))
    assert reader.read()[2] is None
    write(tmp_path, "8 (cut")
    (tmp_path / "9").mkdir()  # ended meanwhile
    unreadable = reader.read()[2]
    assert unreadable is not None and unreadable["reason"] == "malformed"
    (tmp_path / "8" / "stat").unlink()
    monkeypatch.setattr("nictop.probe.traffic.busy_threads.MAX_PROCESSES", 1)
    assert reader.read()[2] == {"reason": "failed", "detail": f"{tmp_path}: more than 1 processes"}
    missing = BusyThreadReader(7, str(tmp_path / "none"))
    missing.begin()
    unreadable = missing.read()[2]
    assert missing.read()[1] == [] and unreadable is not None and unreadable["reason"] == "failed"


def test_interval_grows_with_the_cost_of_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_PROCESSES * 200e-6 / MAX_CPU_SHARE < 120, (
        "repeated even with the most processes on a slow host"
    )
    write(tmp_path, stat(1, "init", 0, 0))
    reader = BusyThreadReader(1, str(tmp_path))
    assert reader.interval == MIN_READ_SECONDS
    cpu_times = iter([10.0, 10.1])
    monkeypatch.setattr(
        "nictop.probe.traffic.busy_threads.time.process_time", lambda: next(cpu_times)
    )
    reader.read()
    assert reader.interval == pytest.approx(0.1 / MAX_CPU_SHARE)


def test_files_of_ended_processes_are_closed(tmp_path: Path, clock: list[float]) -> None:
    def open_files() -> list[str]:
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        return sorted(
            str(link.readlink())
            for link in links
            if link.is_symlink() and str(tmp_path) in str(link.readlink())
        )

    for pid in (1, 20):
        write(tmp_path, stat(pid, "yes", 0, 0))
    reader = BusyThreadReader(1, str(tmp_path))
    reader.begin()
    assert open_files() == [f"{tmp_path}/{pid}/stat" for pid in (1, 20)]
    (tmp_path / "20").rename(tmp_path / "gone")
    reader.read()
    assert open_files() == [f"{tmp_path}/1/stat"]
    reader.close()
    assert open_files() == []


@pytest.fixture
def busy_process() -> Iterator[subprocess.Popen[str]]:
    """A real busy loop on one CPU."""
    cpu = min(os.sched_getaffinity(0))
    code = BUSY_PROGRAM.format(cpu=cpu)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "+\n"
        yield process
        process.kill()


def ticks_used(pid: int) -> int:
    """CPU time of a process until now, in USER_HZ ticks."""
    return Task(Path(f"/proc/{pid}/stat").read_bytes()).total


def read_busy(
    reader: BusyThreadReader, pid: int, threads: int = 1
) -> dict[object, dict[str, object]]:
    """Thread id → record, once `threads` threads of a process were reported.

    Each reading waits until the process has used 0.2 s of CPU: with shorter intervals, no two
    threads might use a whole tick each.
    """
    found: dict[object, dict[str, object]] = {}
    while len(found) < threads:
        ticks_wanted = ticks_used(pid) + TICKS // 5
        while ticks_used(pid) < ticks_wanted:
            os.sched_yield()
        found |= {
            one["tid"]: one
            for one in reader.read()[1]
            if one["pid"] == pid and one["cpu"] is not None
        }
    return found


def test_real_busy_process(busy_process: subprocess.Popen[str]) -> None:
    reader = BusyThreadReader(os.getsid(0))
    reader.begin()
    (record,) = read_busy(reader, busy_process.pid).values()
    assert str(record["name"]).startswith("python") and record["tid"] == busy_process.pid
    assert (
        record["cpu"] == min(os.sched_getaffinity(0))
        and isinstance(record["user"], int)
        and record["user"] > 0
    )


def test_real_busy_threads() -> None:
    """They share the interpreter's lock, so that each uses a part of a core."""
    with subprocess.Popen(
        [sys.executable, "-c", THREADS_PROGRAM], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "+\n"
            reader = BusyThreadReader(process.pid)
            reader.begin()
            assert len(read_busy(reader, process.pid, 2)) == 2
        finally:
            process.kill()
