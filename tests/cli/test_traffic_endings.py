"""``nictop traffic`` that is interrupted, killed or left: nothing stays behind; and what it does
with a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import uuid
from pathlib import Path

import msgspec
import pytest

from nictop.report.runs.json import TrafficDocument
from tests.cli.test_main import NICTOP, ROOT
from tests.cli.test_traffic_command import LIMIT, QUICK, needs_namespaces
from tests.support.kills import kill_matrix
from tests.support.namespaces import holders
from tests.support.probe import wait_until
from tests.support.traffic import MARK, marked_processes

LIMITED = ("--bitrate", "50M")
"""A rate that leaves the processors to other tests."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where results are kept."""
    return tmp_path


def start_nictop(state: Path, mark: str, *arguments: str) -> subprocess.Popen[str]:
    """nictop, to be ended by the test; its children carry the mark."""
    return subprocess.Popen(
        [*NICTOP, "traffic", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state), MARK: mark},
    )


STAGES = {
    "before the first line": "",
    "ends made": "from client",
    "checking iperf3": "checking iperf3",
    "path tested": "path test: ",
    "starting the server": "starting the server",
    "server listening": "the server listens",
    "waiting for the first byte": "waiting for the first byte",
    "first interval": " Mb/s",
    "last counters": "reading final counters",
    "between two runs": "pause 200 ms",
    "second run": "run 2 of 2",
}
"""Stage → what its line of progress contains."""
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}


@needs_namespaces
@kill_matrix(tuple(STAGES), tuple(SIGNALS))
def test_interrupted_run_leaves_nothing(state: Path, stage: str, kill: int, variant: str) -> None:
    number = (
        SIGNALS[variant] if STAGES[stage] else signal.SIGTERM
    )  # SIGINT means KeyboardInterrupt until it is handled
    mark = uuid.uuid4().hex
    process = start_nictop(
        state, mark, *QUICK, *LIMITED, "--repeat", "2", "--rest", "0.2", "--interval", "0.2"
    )
    assert process.stderr is not None
    output = [""]
    while STAGES[stage] not in output[-1]:
        output.append(process.stderr.readline())
        assert output[-1], output
    process.send_signal(number)
    _, rest = process.communicate(timeout=LIMIT)
    assert (marked_processes(mark), holders(process.pid)) == ([], []), output
    assert "Traceback" not in rest
    expected = {128 + number} if STAGES[stage] else {-signal.SIGTERM, 128 + signal.SIGTERM}
    assert process.returncode in expected, (output, rest)


LOADED_STAGES = {
    "servers listening": "port 5202",
    "idle phase": "  idle",
    "bulk flow started": "starting the bulk flow",
    "under load": "  beside ",
    "last counters": "reading final counters",
}
"""Stages of a loaded run in which other processes run than in those above."""


@needs_namespaces
@kill_matrix(tuple(LOADED_STAGES), (*SIGNALS, "SIGKILL"))
def test_interrupted_loaded_run_leaves_nothing(
    state: Path, stage: str, kill: int, variant: str
) -> None:
    mark = uuid.uuid4().hex
    arguments = (
        "--self-test",
        "--plain",
        "--test",
        "loaded",
        "--time",
        "1",
        *LIMITED,
        "--interval",
        "0.2",
    )
    process = start_nictop(state, mark, *arguments)
    assert process.stderr is not None
    output = [""]
    while LOADED_STAGES[stage] not in output[-1]:
        output.append(process.stderr.readline())
        assert output[-1], output
    process.send_signal(signal.Signals[variant])
    _, rest = process.communicate(timeout=LIMIT)
    if variant == "SIGKILL":  # its probes end by themselves
        wait_until(lambda: not marked_processes(mark))
    assert (marked_processes(mark), holders(process.pid)) == ([], []), output
    assert "Traceback" not in rest
    number = signal.Signals[variant]
    # the last counters are read within a moment: it may be over
    assert process.returncode in ({-number} if variant == "SIGKILL" else {128 + number}) | {0}, (
        output,
        rest,
    )


@needs_namespaces
def test_what_was_measured_before_the_interruption_is_printed(state: Path) -> None:
    process = start_nictop(
        state, uuid.uuid4().hex, *QUICK, *LIMITED, "--repeat", "5", "--format", "json"
    )
    assert process.stderr is not None
    while "run 2 of 5" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT)
    document = msgspec.json.decode(out, type=TrafficDocument)
    assert process.returncode == 130 and document.ended_early == "interrupted"
    assert document.runs[0].kept.result.stopped is None and len(document.runs) <= 2


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_reported_as_stopped(state: Path, number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    arguments = (
        "--self-test",
        "--time",
        "60",
        "--interval",
        "0.2",
        "--bitrate",
        "50M",
        "--format",
        "json",
    )
    process = start_nictop(state, mark, *arguments)
    assert process.stderr is not None
    while " Mb/s" not in (line := process.stderr.readline()):
        assert line
    while " Mb/s" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(number)
    out, rest = process.communicate(timeout=LIMIT)
    document = msgspec.json.decode(out, type=TrafficDocument)
    assert process.returncode == 128 + number and document.ended_early == "interrupted", rest
    (only,) = document.runs
    assert only.kept.result.stopped and only.kept.result.failure is None and not only.ranked
    assert only.goodput is not None and 20e6 < only.goodput < 100e6
    assert len(list(state.rglob("*.json"))) == 1, "it is kept"
    assert (marked_processes(mark), holders(process.pid)) == ([], [])


@needs_namespaces
def test_nothing_remains_of_a_killed_nictop(state: Path) -> None:
    mark = uuid.uuid4().hex
    process = start_nictop(state, mark, *QUICK[:2], *LIMITED, "--time", "30")
    assert process.stderr is not None
    while "waiting for the first byte" not in (line := process.stderr.readline()):
        assert line
    (holder,) = holders(process.pid)
    assert holder in marked_processes(mark)
    process.kill()
    process.communicate()
    wait_until(lambda: not marked_processes(mark))


@needs_namespaces
def test_the_reader_of_the_result_is_closed(state: Path) -> None:
    """``nictop traffic … | true``"""
    process = start_nictop(state, uuid.uuid4().hex, *QUICK, *LIMITED)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    assert process.wait(LIMIT) == 0
    process.stderr.close()


# ---------------------------------------------------------------------------------- with a terminal


@needs_namespaces
def test_the_user_is_asked_for_a_change(state: Path) -> None:
    """stdin is a terminal: enter is the answer."""
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [*NICTOP, "traffic", *QUICK, *LIMITED, "--sweep", "setup=one"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )
    os.close(terminal)
    try:
        assert process.stderr is not None
        while "then press Enter" not in (line := process.stderr.readline()):
            assert line
        os.write(keyboard, b"\n")
        out, rest = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, rest
        assert "received by server" in out
    finally:
        os.close(keyboard)


class Terminal:
    """nictop in a terminal of 24 lines and 80 columns."""

    def __init__(self, state: Path, mark: str, *arguments: str) -> None:
        self.keyboard, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [*NICTOP, "traffic", *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color", MARK: mark},
        )
        os.close(inner)
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Read until it shows this; AssertionError when it does not in time, or ends before."""
        while text not in self.seen:
            readable, _, _ = select.select([self.keyboard], [], [], LIMIT)
            assert readable, self.seen[-2000:]
            try:
                self.seen += os.read(self.keyboard, 1 << 16)
            except OSError:  # EIO: nobody has it open any more
                raise AssertionError(self.seen[-2000:]) from None

    def end(self) -> int:
        """Read what is left; its exit code. AssertionError when it does not end."""
        while True:
            readable, _, _ = select.select([self.keyboard], [], [], LIMIT)
            assert readable, self.seen[-2000:]
            try:
                part = os.read(self.keyboard, 1 << 16)
            except OSError:
                break
            self.seen += part
        os.close(self.keyboard)
        return self.process.wait(LIMIT)


@needs_namespaces
def test_with_a_terminal_the_screen_opens_and_the_result_is_printed_afterwards(state: Path) -> None:
    terminal = Terminal(
        state, uuid.uuid4().hex, "--self-test", "--time", "1", "--generator", "builtin", *LIMITED
    )
    terminal.until(b"received by server")
    terminal.until(
        b"again"
    )  # the key that is offered when the run is over; until then q asks first
    os.write(terminal.keyboard, b"q")
    assert terminal.end() == 0
    printed = terminal.seen.rpartition(b"\x1b[?1049l")[2].decode()
    assert "client → server, TCP, 1 stream, 1 s, rate 50.0 Mb/s, built-in generator" in printed
    assert "goodput " in printed and "not ranked path not verified" in printed


@needs_namespaces
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_screen_and_nothing_stays(state: Path, ending: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    terminal = Terminal(state, mark, "--self-test", "--time", "30", *LIMITED)
    terminal.until(b"Mb/s")
    wait_until(lambda: len(holders(terminal.process.pid)) == 1)
    terminal.process.send_signal(ending)
    assert terminal.end() == 128 + ending
    assert holders(terminal.process.pid) == []
    wait_until(lambda: not marked_processes(mark))
    assert b"\x1b[?1049l" in terminal.seen, "the terminal is as before"
