"""The probe of this machine: a child process that writes lines to a pipe.

The child runs isolated (`-I -S`) with just the directories that hold nictop and jeepney, so that
neither the user's environment nor a virtual environment's start-up code costs or changes anything.
It ends when its stdin closes, whatever happens to this process. If it ends, hangs or writes what is
no record, that is reported and it is started again, after growing delays. Its CLOCK_MONOTONIC is
the one of this process: an exact estimate follows each hello.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from subprocess import Popen
from typing import IO

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.kernel.exits import exit_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Clock, Line, Request
from nictop.wire.budget import BYTE_CPU_SECONDS, PART_CPU_SECONDS, HostBudget
from nictop.wire.codec import ProtocolMismatch, encode_request
from nictop.wire.errors import PermanentError, SilentHost, TransientError
from nictop.wire.inbox import Inbox
from nictop.wire.local_channel import LocalCarrier
from nictop.wire.probe_process import (
    EXIT_TIMEOUT,
    StartedProbe,
    end_process,
    local_probe_command,
    start_process,
)
from nictop.wire.reconnecting import MAX_RETRY_SECONDS, MIN_RETRY_SECONDS, ReconnectingSource
from nictop.wire.slowness import Slowness
from nictop.wire.source import SourceState
from nictop.wire.timeout import ends_within, with_timeout

HELLO_TIMEOUT = 10.0
"""Seconds until the first line of a probe."""
SILENCE_TIMEOUT = 10.0
"""Seconds without a line, on top of three intervals, after which a probe counts as hung."""
EXIT_POLL_SECONDS = 0.005
"""Between two looks whether the process has ended, when it is to end."""
PIPE_READ_BYTES = 256 * 1024
MAX_STDERR_BYTES = 2000
"""The last ones are stored, for the reason why it ended."""


class LocalSource(ReconnectingSource):
    """Lines of this machine.

    `eager`: rates at once, over the first fifth of a second. `parts`: see `connect`.
    `allow_changes`: the probe may change this machine when it is requested to; `allow_workload`: it
    may run a command of the user. `python` runs the
    probe; `command` replaces the whole command line (used by tests).
    """

    def __init__(
        self,
        interval: float = 1.0,
        *,
        eager: bool = False,
        parts: bool = False,
        allow_changes: bool = False,
        allow_workload: bool = False,
        python: str = sys.executable,
        command: Sequence[str] | None = None,
        started: StartedProbe | None = None,
        name: str | None = None,
        retry: tuple[float, float] = (MIN_RETRY_SECONDS, MAX_RETRY_SECONDS),
        silence_timeout: float = SILENCE_TIMEOUT,
    ) -> None:
        super().__init__(name or os.uname().nodename, interval, retry)
        self._options = {
            "eager": eager,
            "parts": parts,
            "allow_changes": allow_changes,
            "allow_workload": allow_workload,
        }
        self._python = python
        self._command = command
        self._started = started
        self._silence_timeout = silence_timeout
        self._run: _Run | None = None

    @property
    def pid(self) -> int | None:
        """Of the running probe."""
        return self._run.process.pid if self._run is not None else None

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self.pid is None else (self.pid,)

    async def _attempt(self) -> AsyncGenerator[Line | SourceState, None]:
        try:
            process = await ProbeProcess.open(self._start_process())
        except (OSError, ValueError) as error:
            raise PermanentError(f"cannot start the probe: {error}") from None
        run = _Run(process, self._settings, self._silence_timeout, self._budget)
        self._run = run
        try:
            # it may have been closed while the process was started, before `close` could know of it
            while not self._closed.is_set() and (item := await run.next()) is not None:
                yield item
        finally:
            await run.end()
            self._run = None
        raise run.exit_error()

    async def program_output(self, words: Sequence[str], timeout: float) -> str:
        """What a program on this machine prints; "" if it fails or takes longer."""
        return await LocalCarrier(self._budget).output(shlex.join(words), timeout)

    def _send(self, request: Request) -> None:
        if self._run is not None:
            self._run.interval = self._settings.interval or 1.0
            self._run.send(request)

    async def close(self) -> None:
        """See `Source.close`."""
        self._closed.set()
        if self._run is not None:
            await self._run.end()

    def _start_process(self) -> Popen[bytes]:
        """Raises OSError and ValueError."""
        command = self._command or local_probe_command(
            self._settings.interval or 1.0, python=self._python, **self._options
        )
        started, self._started = self._started, None
        if started is not None:
            process = started.take(command)
            started.close()
            if process is not None:
                return process
        return start_process(command)


class ProbeProcess:
    """A running process in the event loop, which by itself can only start one. `open` it."""

    def __init__(
        self, process: Popen[bytes], stdin: asyncio.WriteTransport, outputs: Sequence[OutputPipe]
    ) -> None:
        self._process = process
        self.stdin = stdin
        self._outputs = outputs
        self.stdout, self.stderr = (output.reader for output in outputs)

    @classmethod
    async def open(cls, process: Popen[bytes]) -> ProbeProcess:
        """A process that was started by `start_process`. Raises OSError; it has ended then."""
        try:
            loop = asyncio.get_running_loop()
            stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            outputs = [await OutputPipe.open(pipe) for pipe in (process.stdout, process.stderr)]
        except BaseException:
            end_process(process)
            raise
        return cls(process, stdin, outputs)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Minus the number of the signal that ended it; None: it runs."""
        return self._process.returncode

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def wait(self) -> None:
        """Until it has ended."""
        while self._process.poll() is None:  # noqa: ASYNC110  (the kernel tells only the parent)
            await asyncio.sleep(EXIT_POLL_SECONDS)

    def close_outputs(self) -> None:
        for output in self._outputs:
            output.transport.close()


class OutputPipe:
    """The end of a pipe that is read."""

    def __init__(self, transport: asyncio.BaseTransport, reader: asyncio.StreamReader) -> None:
        self.transport, self.reader = transport, reader

    @classmethod
    async def open(cls, pipe: IO[bytes] | None) -> OutputPipe:
        """Raises OSError."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        return cls(transport, reader)


class _Run:
    """One process of the probe, from its start to its end."""

    def __init__(
        self, process: ProbeProcess, settings: Request, silence_timeout: float, budget: HostBudget
    ) -> None:
        self.process = process
        self._room = asyncio.Event()
        self.inbox, self._budget = Inbox(budget, self._room.set), budget
        self._clock: Line | None = None
        """Yielded after the hello."""
        self._fatal = False
        """Another process would end the same way."""
        self.interval = settings.interval or 1.0
        requested = replace(settings, interval=None)
        if requested != Request():
            self.send(requested)
        self._silence_timeout = silence_timeout
        self._reason = ""
        self._is_silent = False
        self._slowness = Slowness()
        self._stderr = bytearray()
        self._ending: asyncio.Future[None] | None = None
        self._readers = (
            asyncio.ensure_future(self._read_lines()),
            asyncio.ensure_future(self._read_stderr()),
        )

    def send(self, request: Request) -> None:
        if not self.process.stdin.is_closing():
            self.process.stdin.write(encode_request(request))

    async def end(self) -> None:
        """End the process by the end of its stdin, SIGTERM, then SIGKILL; all callers wait for the
        same end."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        self.inbox.close(forget=True)
        self.process.stdin.close()
        # a process that writes ends only when its output is read
        drains = [
            asyncio.ensure_future(_drain(stream))
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for ending in (None, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                if ending is not None:
                    self.process.send_signal(ending)
            if await ends_within(self.process, EXIT_TIMEOUT):
                break
        for drain in drains:
            drain.cancel()
        await asyncio.gather(*drains, return_exceptions=True)
        self.process.close_outputs()

    async def next(self) -> Line | SourceState | None:
        """The next item; None at the end."""
        if self._clock is not None:
            line, self._clock = self._clock, None
            return line
        try:
            item = await self.inbox.next()
        except NictopError as error:
            self._reason = error.message
            self._fatal = isinstance(error, ProtocolMismatch)
            return None
        if isinstance(item, Line) and item.hello is not None:
            self._clock = Line(clock=Clock(time.monotonic(), offset=0.0, uncertainty=0.0))
        return item

    async def _read_lines(self) -> None:
        """Into the inbox, while there is room: a probe that is not read drops counters by
        itself."""
        stream = self.process.stdout
        inbox = self.inbox
        try:
            while True:
                timeout = self._slowness.factor * self._silence_timeout + 3 * self.interval
                if not inbox.reader.line_count:
                    timeout = min(timeout, HELLO_TIMEOUT)
                began = time.monotonic()
                part = await with_timeout(timeout, stream.read(PIPE_READ_BYTES))
                waited = time.monotonic() - began - 3 * self.interval
                self._slowness.note(waited, self._silence_timeout)
                if not part:
                    break
                inbox.put(part)
                self._charge(part)
                if inbox.is_full:
                    self._room.clear()
                    await self._room.wait()
        except asyncio.TimeoutError:
            self._reason = "no data from the probe"
            if inbox.reader.line_count:
                self._reason, self._is_silent = "no more data from the probe", True
        except OSError as error:
            self._reason = f"cannot read from the probe: {error}"
        inbox.close()

    def _charge(self, part: bytes) -> None:
        """Charge what the event loop needed to read it."""
        self._budget.charge(PART_CPU_SECONDS + len(part) * BYTE_CPU_SECONDS)

    async def _read_stderr(self) -> None:
        while part := await self.process.stderr.read(PIPE_READ_BYTES):
            self._stderr = (self._stderr + part)[-MAX_STDERR_BYTES:]
            self._charge(part)

    def exit_error(self) -> HostUnreachable:
        """Why it ended, with the last line that it wrote to stderr."""
        reason, hint = self._reason, ""
        code = self.process.returncode
        if not reason:
            reason, hint = f"the probe {exit_text(code)}", _kill_hint(code)
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        if lines:
            reason += f": {lines[-1].strip()}"
        if self._fatal:
            return PermanentError(reason)
        return SilentHost(reason) if self._is_silent else TransientError(reason, hint)


def _kill_hint(code: int | None) -> str:
    """What to do if it was killed; "" otherwise."""
    from nictop.wire.ssh.exit_reason import KILL_HINT

    return KILL_HINT if code == -signal.SIGKILL else ""


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(PIPE_READ_BYTES):
        pass
