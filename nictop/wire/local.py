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
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.kernel.exits import exit_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Clock, Line, Request
from nictop.wire.budget import BYTE_CPU_SECONDS, PART_CPU_SECONDS, HostBudget
from nictop.wire.codec import ProtocolMismatch, encode_request
from nictop.wire.errors import PermanentError, SilentHost, TransientError
from nictop.wire.inbox import Inbox
from nictop.wire.local_channel import LocalCarrier
from nictop.wire.reconnecting import MAX_RETRY_SECONDS, MIN_RETRY_SECONDS, ReconnectingSource
from nictop.wire.slowness import Slowness
from nictop.wire.source import SourceState
from nictop.wire.timeout import ends_within, with_timeout

LIBRARIES = ("nictop", "jeepney")
HELLO_TIMEOUT = 10.0
"""Seconds until the first line of a probe."""
SILENCE_TIMEOUT = 10.0
"""Seconds without a line, on top of three intervals, after which a probe counts as hung."""
EXIT_TIMEOUT = 0.5
"""Seconds that the end of stdin, then SIGTERM, may take to end the probe."""
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
        name: str | None = None,
        retry: tuple[float, float] = (MIN_RETRY_SECONDS, MAX_RETRY_SECONDS),
        silence_timeout: float = SILENCE_TIMEOUT,
    ) -> None:
        super().__init__(name or os.uname().nodename, interval, retry)
        self._options = (
            ["--eager"] * eager
            + ["--parts"] * parts
            + ["--allow-changes"] * allow_changes
            + ["--allow-workload"] * allow_workload
        )
        self._python = python
        self._command = command
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
            run = await _Run.start(
                self._command_line(), self._settings, self._silence_timeout, self._budget
            )
        except (OSError, ValueError) as error:
            raise PermanentError(f"cannot start the probe: {error}") from None
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

    def _command_line(self) -> Sequence[str]:
        return self._command or probe_command(
            self._python, "--interval", f"{self._settings.interval:g}", *self._options
        )


class _Run:
    """One process of the probe, from its start to its end."""

    def __init__(
        self, process: Process, settings: Request, silence_timeout: float, budget: HostBudget
    ) -> None:
        self.process = process
        self._room = asyncio.Event()
        self.inbox, self._budget = Inbox(budget, self._room.set), budget
        self._clock: Line | None = None
        """Yielded after the hello."""
        self._fatal = False
        """Another process would end the same way."""
        self.interval = settings.interval or 1.0
        if settings.watch or settings.machine or settings.recheck or settings.connections:
            self.send(replace(settings, interval=None))
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

    @classmethod
    async def start(
        cls, command: Sequence[str], settings: Request, silence_timeout: float, budget: HostBudget
    ) -> _Run:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        return cls(process, settings, silence_timeout, budget)

    def send(self, request: Request) -> None:
        if self.process.stdin is not None and not self.process.stdin.is_closing():
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
        if self.process.stdin is not None:
            self.process.stdin.close()
        # asyncio reports the end only when the pipes have ended too: read what is left in them
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
        assert stream is not None
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
        stream = self.process.stderr
        assert stream is not None
        while part := await stream.read(PIPE_READ_BYTES):
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


def probe_command(python: str, *arguments: str) -> list[str]:
    """Command line that runs the probe of this very nictop under any Python >= 3.9: a local one.

    The directories go behind the standard library's, so that nothing in them can take its place.
    """
    start = f"import sys; sys.path += {library_directories()!r}; "
    start += f"from nictop.probe.__main__ import main; sys.exit(main({list(arguments)!r}))"
    return [python, "-I", "-S", "-c", start]


def library_directories(libraries: Iterable[str] = LIBRARIES) -> list[str]:
    """Where they are, without importing them; those that are not installed are left out."""
    found: list[str] = []
    for library in libraries:
        specification = find_spec(library)
        if specification is None:
            continue
        for place in specification.submodule_search_locations or ():
            directory = str(Path(place).resolve().parent)
            if directory not in found:
                found.append(directory)
    return found


async def _drain(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(PIPE_READ_BYTES):
        pass
