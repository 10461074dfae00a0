"""Runs in a guest, started by its QEMU guest agent: joins the pipes of a command with the agent
(`relay_format`).

When the agent has opened both pipes, this process closes its own copies, so that each side notices
the end of the other. stdout is compressed: its lines are alike, and a record may then hold several.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import zlib

from nictop.probe.reach.relay_format import (
    CONTENT_BYTES,
    ENDED,
    ERRORS,
    HEADER,
    INPUT_DESCRIPTOR,
    OUTPUT,
    OUTPUT_DESCRIPTOR,
    RECORD_BYTES,
    START,
    START_SECONDS,
    TAKEN,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

READ_BYTES = 32768
MAX_WAITING_BYTES = 65536
"""Bytes of records that wait for the agent; then the command is not read."""
STALL_SECONDS = 20.0
"""Seconds without any input, and without room for output, after which the bridge is gone: the agent
does not close the pipes of one that was killed."""
END_SECONDS = 2.0
"""Seconds that the command may take to end after its input and after SIGTERM, and the last records
to be read."""


class Relay:
    """Of one command."""

    def __init__(self, words: Sequence[str], input_end: int, output_end: int) -> None:
        self._input, self._output = input_end, output_end
        self._child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        stdin, stdout, stderr = self._child.stdin, self._child.stdout, self._child.stderr
        assert stdin is not None and stdout is not None and stderr is not None
        self._stdin, self._stdout, self._stderr = stdin.fileno(), stdout.fileno(), stderr.fileno()
        for descriptor in (input_end, output_end, self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._open = {self._stdout, self._stderr}
        self._has_input = self._has_reader = self._has_stdin = True
        self._end_deadline = 0.0
        self._heard_at = time.monotonic()
        self._for_child, self._for_agent = bytearray(), bytearray()
        self._taken = self._told = 0
        """Bytes of input that were taken, and those that were told."""
        self._compressor = zlib.compressobj()

    def run(self) -> None:
        """Until the command has ended."""
        while self._open:
            self._wait()
            self._write_to_child()
            self._write_to_agent()
            if self._taken != self._told and not self._for_agent:  # no other record tells it
                self._add_record(TAKEN, b"")
                self._write_to_agent()
            if not self._has_input and not self._for_child:
                self._end_child()
        self._add_record(ENDED, str(self._exit_status()).encode())
        self._write_last()

    def _wait(self) -> None:
        """Until something can be read or written."""
        poll = select.poll()
        self._register_inputs(poll)
        self._register_outputs(poll)
        ready = poll.poll(self._timeout())
        if not ready and self._is_stalled():
            self._lose_reader()
        for descriptor, _ in ready:
            if descriptor == self._input:
                self._read_input()
            elif descriptor in self._open:
                self._read_child(descriptor)
            elif descriptor == self._output and not self._for_agent:
                self._lose_reader()

    def _register_inputs(self, poll: select.poll) -> None:
        """What is read, as long as there is room for it."""
        if self._has_input and len(self._for_child) < READ_BYTES:
            poll.register(self._input, select.POLLIN)
        if len(self._for_agent) < MAX_WAITING_BYTES:
            for descriptor in self._open:
                poll.register(descriptor, select.POLLIN)

    def _register_outputs(self, poll: select.poll) -> None:
        """What is written, if something waits for it. Without events, only its end is reported."""
        if self._for_child and self._has_stdin:
            poll.register(self._stdin, select.POLLOUT)
        if self._has_reader:
            poll.register(self._output, select.POLLOUT if self._for_agent else 0)

    def _is_stalled(self) -> bool:
        """Records wait for the agent, and nothing was heard of the bridge for long."""
        return bool(self._for_agent) and time.monotonic() - self._heard_at > STALL_SECONDS

    def _timeout(self) -> float | None:
        """Milliseconds; None: only a descriptor ends the wait."""
        if not self._has_input:
            return END_SECONDS * 1000
        return STALL_SECONDS * 1000 if self._for_agent else None

    def _read_input(self) -> None:
        self._heard_at = time.monotonic()
        data = read(self._input)
        if data == b"":
            self._has_input = False
        elif data is not None:
            self._for_child += data

    def _read_child(self, descriptor: int) -> None:
        data = read(descriptor)
        if data is None:
            return
        if not data:
            self._open.discard(descriptor)
        elif descriptor == self._stderr:
            self._add(ERRORS, data)
        else:
            packed = self._compressor.compress(data)
            self._add(OUTPUT, packed + self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def _add(self, kind: bytes, content: bytes) -> None:
        for begin in range(0, len(content), CONTENT_BYTES):
            self._add_record(kind, content[begin : begin + CONTENT_BYTES])

    def _add_record(self, kind: bytes, content: bytes) -> None:
        if not self._has_reader:
            return
        self._told = self._taken
        made_ms = int(time.monotonic() * 1000)
        record = HEADER.pack(kind, len(content), self._taken & 0xFFFFFFFF, made_ms & 0xFFFFFFFF)
        record += content
        self._for_agent += record.ljust(RECORD_BYTES, b"\0")

    def _write_to_child(self) -> None:
        written = write(self._stdin, self._for_child) if self._has_stdin else None
        if written is None:  # it has closed its stdin: the input has no use
            written = len(self._for_child)
        self._taken += written
        del self._for_child[:written]

    def _write_to_agent(self) -> None:
        """As many whole records as the pipe has room for."""
        while self._for_agent:
            written = write(self._output, self._for_agent[:RECORD_BYTES])
            if written is None:
                self._lose_reader()
            if not written:
                return
            del self._for_agent[:written]

    def _lose_reader(self) -> None:
        """The agent, or the bridge, is gone."""
        self._has_reader = self._has_input = False
        self._for_agent.clear()
        self._for_child.clear()

    def _end_child(self) -> None:
        """By the end of its stdin, then by signals."""
        now = time.monotonic()
        if self._has_stdin and self._child.stdin is not None:
            self._has_stdin = False
            self._child.stdin.close()
            self._end_deadline = now + END_SECONDS
        elif now >= self._end_deadline + END_SECONDS:
            self._kill(signal.SIGKILL)
            self._open.clear()
        elif now >= self._end_deadline:
            self._kill(signal.SIGTERM)

    def _kill(self, number: int) -> None:
        """Send a signal to the command and to what it has started."""
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, number)

    def _exit_status(self) -> int:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                return self._child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill(number)
        return self._child.wait()

    def _write_last(self) -> None:
        """The records that wait, if they are read soon."""
        deadline = time.monotonic() + END_SECONDS
        self._write_to_agent()
        while self._for_agent and time.monotonic() < deadline:
            poll = select.poll()
            poll.register(self._output, select.POLLOUT)
            poll.poll(END_SECONDS * 1000)
            self._write_to_agent()


def read(descriptor: int) -> bytes | None:
    """What there is; b"" at the end; None: nothing now."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def write(descriptor: int, data: bytes | bytearray) -> int | None:
    """How many bytes were written; None: nobody reads."""
    try:
        return os.write(descriptor, data) if data else 0
    except BlockingIOError:
        return 0
    except OSError:
        return None


def open_pipes() -> tuple[int, int]:
    """The ends of this process. The others get the numbers at which the agent opens them; that of
    the input is the last, so that it means that both are there."""
    input_end, input_other = os.pipe()
    output_other, output_end = os.pipe()
    os.dup2(output_other, OUTPUT_DESCRIPTOR, False)
    os.dup2(input_other, INPUT_DESCRIPTOR, False)
    os.close(input_other)
    os.close(output_other)
    return input_end, output_end


def main(words: Sequence[str]) -> int:
    """Run `words`."""
    input_end, output_end = open_pipes()
    ready, _, _ = select.select([input_end], [], [], START_SECONDS)
    if not ready or os.read(input_end, 1) != START:
        return 1
    os.close(INPUT_DESCRIPTOR)
    os.close(OUTPUT_DESCRIPTOR)
    try:
        relay = Relay(words, input_end, output_end)
    except OSError as error:
        sys.stderr.write(f"nictop-guest: cannot start a shell in the guest: {error.strerror}\n")
        return 1
    relay.run()
    return 0
