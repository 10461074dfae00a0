"""``nictop show --format jsonl`` of this machine."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.namespaces import ROOT
from tests.support.probe import TEST_TIMEOUT, wait_until


@contextmanager
def streaming(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "nictop", "show", "--format", "jsonl", *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(output: IO[bytes] | None) -> dict[str, Any]:
    assert output is not None
    line: dict[str, Any] = json.loads(output.readline())
    return line


def test_one_line_for_each_reading_until_ctrl_c() -> None:
    with streaming("--interval", "0.1") as process:
        found = [next_line(process.stdout) for _ in range(8)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=TEST_TIMEOUT)
    states = [line["state"] for line in found if "state" in line]
    readings = [line for line in found if "counters" in line]
    assert states == ["connecting", "live"] and len(readings) == 6
    assert "lo" in readings[0]["counters_by_name"]["links"]
    assert ["inventory" in line for line in readings[:2]] == [True, False]
    times = [line["wall"] for line in readings]
    assert times == sorted(set(times))
    assert all(json.loads(line) for line in rest.splitlines())
    assert (process.returncode, errors) == (0, b"")


def test_a_reader_that_ends() -> None:
    with streaming("--interval", "0.1") as process:
        next_line(process.stdout)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.wait(TEST_TIMEOUT)
    assert errors == b"" and process.returncode == 0


def test_a_reader_that_does_not_read_stops_neither_the_host_nor_the_end() -> None:
    with streaming("--interval", "0.1") as process:
        assert process.stdout is not None
        wait_until_full(process.stdout)
        process.send_signal(signal.SIGINT)
        process.wait(TEST_TIMEOUT)
        text = process.stdout.read()
    assert process.returncode == 0 and b'"counters"' in text


def wait_until_full(output: IO[bytes]) -> None:
    """Until the pipe takes no more. Not a number of bytes: a page of it may be partly used, and a
    user with many pipes gets smaller ones (``man 7 pipe``)."""
    writing_end = os.open(f"/proc/self/fd/{output.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        poll = select.poll()
        poll.register(writing_end, select.POLLOUT)
        wait_until(lambda: not poll.poll(0))
    finally:
        os.close(writing_end)


def test_it_writes_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "lines"
    command = [sys.executable, "-m", "nictop", "show", "--format", "jsonl", "--interval", "0.1"]
    with (
        target.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, cwd=ROOT) as process,
    ):
        try:
            wait_until(lambda: target.read_bytes().count(b"\n") > 4)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(TEST_TIMEOUT)
    lines = target.read_text().splitlines()
    assert len(lines) > 4 and all(json.loads(line)["host"] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["x.nictop"], "is a recording, not a host"),
        (["x.nictop", "--at", "+1"], "shows live hosts"),
        (["--connections"], "cannot be combined"),
        (["--schema"], "cannot be combined"),
        (["--lldp"], "cannot be combined"),
    ],
)
def test_what_it_cannot_show(tmp_path: Path, arguments: list[str], why: str) -> None:
    from tests.support.recordings import host_items, write_recording

    write_recording(tmp_path / "x.nictop", host_items("a", 2))
    refused = subprocess.run(
        [sys.executable, "-m", "nictop", "show", "--format", "jsonl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=TEST_TIMEOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert refused.returncode == 2 and refused.stdout == "" and why in refused.stderr
