"""How nictop leaves a terminal: a closed or blocked one does not delay its exit, a signal restores
it first."""

from __future__ import annotations

import os
import pty
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from nictop.cli.commands.demo import DEMO_FILE
from nictop.tui.driver import TerminalDriver, TerminalOutput
from tests.cli.commands.test_demo import environment
from tests.cli.test_faults import NICTOP
from tests.support.namespaces import ROOT
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.terminal import TerminalProgram

DEMO = str(ROOT / "nictop" / "recording" / DEMO_FILE)


class Writing(TerminalDriver):
    """The writing part of the terminal driver."""

    def __init__(self, writer: WriterThread) -> None:
        self._writer_thread = writer


@contextmanager
def writing_to(closed: bool) -> Iterator[WriterThread]:
    """A writer thread, and the event that its terminal is closed."""
    master, slave = pty.openpty()
    file = os.fdopen(slave, "w")
    writer = WriterThread(TerminalOutput(file))  # type: ignore[arg-type]
    if closed:
        os.close(master)
    writer.start()
    try:
        yield writer
    finally:
        if not closed:
            os.close(master)
            writer._queue.put(None)
        writer.join(TEST_TIMEOUT)
        with suppress(OSError):
            file.close()


def write_much(writer: WriterThread) -> None:
    for _ in range(10 * MAX_QUEUED_WRITES):
        writer.write("x")


def test_writes_to_a_closed_terminal_are_discarded() -> None:
    with writing_to(closed=True) as writer:
        writing = threading.Thread(target=write_much, args=(writer,), daemon=True)
        writing.start()
        writing.join(TEST_TIMEOUT)
        assert not writing.is_alive() and writer.is_alive()
        Writing(writer).close()
        writer.join(TEST_TIMEOUT)
        assert not writer.is_alive()


def test_a_blocked_terminal_does_not_delay_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nictop.tui.driver.LAST_WRITE_SECONDS", 0.0)
    with writing_to(closed=False) as writer:
        writer.write("x" * 1_000_000)
        wait_until(writer._queue.empty)
        for _ in range(MAX_QUEUED_WRITES):
            writer.write("x")
        Writing(writer).close()
        assert writer.is_alive() and writer.daemon


@pytest.mark.parametrize(
    "handler", [signal.SIG_DFL, signal.SIG_IGN], ids=["SIGHUP", "SIGHUP ignored"]
)
@pytest.mark.parametrize("number", [None, signal.SIGTERM], ids=["closed", "closed and SIGTERM"])
def test_nictop_ends_with_its_terminal_while_it_draws(
    number: signal.Signals | None, handler: signal.Handlers, tmp_path: Path
) -> None:
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path))
    before = signal.signal(
        signal.SIGHUP, handler
    )  # a program inherits what is ignored: nohup nictop demo
    try:
        screen = TerminalProgram([*NICTOP, "demo"], tmp_path, variables, (80, 24))
    finally:
        signal.signal(signal.SIGHUP, before)
    with screen:
        screen.wait_for_text("ens192")
        screen.hang_up()
        if number is not None:
            os.kill(screen.pid, number)
        wait_until(screen.has_ended)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "command", [(), ("demo",), ("replay", DEMO)], ids=["live", "demo", "replay"]
)
def test_the_terminal_is_as_before_after_a_signal(
    command: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path))
    with TerminalProgram([*NICTOP, *command], tmp_path, variables, (80, 24)) as screen:
        screen.wait_for_text("Devices")
        screen.wait_for_text("Quit")
        os.kill(screen.pid, number)
        assert screen.wait_for_end() == 128 + number
        assert screen.output.rindex(b"\x1b[?1049l") > screen.output.rindex(b"\x1b[?1049h")
        assert screen.output.rindex(b"\x1b[?25h") > screen.output.rindex(b"\x1b[?25l"), (
            "the cursor is visible"
        )
