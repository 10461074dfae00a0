"""Textual's driver for a Linux terminal, but no input ends the program, and a closed terminal does
not block it.

Reads stdin, writes to stderr. The reading thread of Textual fails at any byte that is not UTF-8 and
at escape sequences that its parser does not know (``ESC [ 97 : 65 u`` of some terminals): here such
bytes are left out. Its writing thread fails when the terminal is closed, and 30 writes later the
program waits for it for ever and handles no signal: here such errors are ignored.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from codecs import getincrementaldecoder
from contextlib import suppress
from time import monotonic
from typing import IO, Any

from textual.events import Key, Paste
from textual.message import Message

from nictop.tui.terminal_input import (
    ESCAPE,
    MAX_COLUMNS,
    MAX_ROWS,
    PASTE_BEGIN,
    PASTE_END,
    TerminalInput,
)
from nictop.tui.textual_private import InputParser, PrivateDriver

READ_BYTES = 4096
TERMINAL_POLL_SECONDS = 0.1
"""Between two checks whether a lone escape was a key."""
TYPING_SECONDS = 2.0
"""After the last input, for which it is checked so; then the thread sleeps until there is input."""
MAX_UNANSWERED = 200
"""Messages that wait for the application; a key takes 2 KB."""
LAST_WRITE_SECONDS = 0.5
"""For which a terminal that blocks may delay the end."""


class TerminalOutput:
    """A terminal whose errors are ignored."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class ExitEvent(threading.Event):
    """Also wakes a thread that waits for a descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.fd, self._wake_fd = os.pipe()
        os.set_blocking(self.fd, False)

    def set(self) -> None:
        super().set()
        os.write(self._wake_fd, b"x")

    def clear(self) -> None:
        super().clear()
        with suppress(BlockingIOError):
            os.read(self.fd, READ_BYTES)


class TerminalDriver(PrivateDriver):
    """What cannot be read is left out; a closed terminal is a hang-up."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.exit_event: ExitEvent = ExitEvent()
        self._unanswered = 0
        """Messages since the application has taken all of them."""
        self.wrap_file(TerminalOutput)

    def close(self) -> None:
        """End the writing thread; it ends with the process if its terminal blocks."""
        self.end_writing(LAST_WRITE_SECONDS)

    def limited_size(self, columns: int, rows: int) -> tuple[int, int]:
        """What can be drawn: a size is what the terminal says."""
        return min(columns, MAX_COLUMNS), min(rows, MAX_ROWS)

    def suspend_process(self) -> None:
        """Leave the screen and stop the whole process group, as a terminal does it: Textual stops
        this process alone, and a shell waits for the script that has started it."""
        self.leave_screen()
        os.killpg(os.getpgrp(), signal.SIGSTOP)

    def run_input_thread(self) -> None:
        parser, decode = self.new_parser(), getincrementaldecoder("utf-8")("ignore").decode
        terminal, typed_at = TerminalInput(), monotonic()
        while not self.exit_event.is_set():
            pause = None
            if monotonic() - typed_at < TYPING_SECONDS:
                pause = TERMINAL_POLL_SECONDS
            ready, _, _ = select.select([self.fileno, self.exit_event.fd], [], [], pause)
            text = ""
            if self.fileno in ready:
                typed_at = monotonic()
                try:
                    data = os.read(self.fileno, READ_BYTES)
                except OSError:  # EIO: the other side is closed
                    data = b""
                if not data:
                    os.kill(os.getpid(), _hang_up_signal())
                    return
                text = decode(data)
            parts = terminal.take(text) if text else terminal.pause(monotonic() - typed_at)
            for part in (*parts, ""):
                parser = self._take(parser, part)
            self._wait_for_application()

    def _take(self, parser: InputParser, part: str) -> InputParser:
        """Let the parser read a part of the input, or (without one) check whether a sequence is
        complete. Returns the parser for what follows: one that has failed is of no use."""
        if part == ESCAPE:
            self._send(Key("escape", ESCAPE))
            return parser
        if part.startswith(PASTE_BEGIN):
            self._send(Paste(part[len(PASTE_BEGIN) : -len(PASTE_END)]))
            return parser
        try:
            for message in parser.feed(part) if part else parser.tick():
                self._send(message)
        except Exception:  # ValueError, OverflowError, ParseError
            return self.new_parser()
        return parser

    def _send(self, message: Message) -> None:
        self._unanswered += 1
        self.process_message(message)

    def _wait_for_application(self) -> None:
        """Until it has taken what was sent, if that is much: the terminal keeps the rest."""
        if self._unanswered < MAX_UNANSWERED:
            return
        self._unanswered = 0
        taken = threading.Event()
        self.call_application(taken.set)
        while not taken.wait(TERMINAL_POLL_SECONDS) and not self.exit_event.is_set():
            pass


def _hang_up_signal() -> signal.Signals:
    """One that ends this process: nohup(1) leaves SIGHUP ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGTERM
    return signal.SIGHUP
