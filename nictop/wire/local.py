"""The probe of this machine: a child process that speaks lines through pipes.

The child runs isolated (`-I -S`) with just the directories that hold nictop and jeepney, so that neither the
user's environment nor a virtual environment's start-up code costs or changes anything. It ends when its stdin closes,
whatever happens to this process. A probe that dies, hangs or talks nonsense is said and started again, ever later. Its
CLOCK_MONOTONIC is the one of this process, which is told as an exact estimate after each hello.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

from nictop.errors import NictopError
from nictop.probe.records import Clock, Line, Request
from nictop.wire.budget import HostBudget
from nictop.wire.codec import ProtocolMismatch, encode_request
from nictop.wire.inbox import Inbox
from nictop.wire.retry import HEALTHY, LONGEST_RETRY, SHORTEST_RETRY, retry_delay
from nictop.wire.source import SourceState
from nictop.wire.timeout import within

LIBRARIES = ("nictop", "jeepney")
FIRST_WORD = 10.0
"""Seconds until the hello must have come."""
SILENCE = 10.0
"""Seconds without a line, on top of three intervals, after which a probe counts as hung."""
PATIENCE = 0.5
"""Seconds that the end of stdin, then SIGTERM, may take to end the probe."""
READ = 256 * 1024
COMPLAINT = 2000
"""Bytes of stderr that are kept."""


class LocalSource:
    """Lines of this machine.

    `eager`: rates at once, over the first fifth of a second. `parts`: see `connect`. `allow_changes`: the probe may
    change this machine when it is asked to. `python` runs the probe; `command` replaces the whole command line (tests
    do that).
    """

    def __init__(
        self,
        interval: float = 1.0,
        *,
        eager: bool = False,
        parts: bool = False,
        allow_changes: bool = False,
        python: str = sys.executable,
        command: Sequence[str] | None = None,
        name: str | None = None,
        retry: tuple[float, float] = (SHORTEST_RETRY, LONGEST_RETRY),
        silence: float = SILENCE,
    ) -> None:
        self.name = name or os.uname().nodename
        self._wanted = Request(interval=interval)
        self._options = ["--eager"] * eager + ["--parts"] * parts + ["--allow-changes"] * allow_changes
        self._python = python
        self._command = command
        self._retry = retry
        self._silence = silence
        self._budget = HostBudget()
        self._run: _Run | None = None
        self._closed = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the running probe."""
        return self._run.process.pid if self._run is not None else None

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self.pid is None else (self.pid,)

    async def items(self) -> AsyncGenerator[Line | SourceState, None]:
        """See `Source.items`."""
        with self._budget:
            async with aclosing(self._items()) as items:
                async for item in items:
                    yield item

    async def _items(self) -> AsyncGenerator[Line | SourceState, None]:
        failures = 0
        while not self._closed.is_set():
            yield SourceState("connecting")
            try:
                run = self._run = await _Run.start(self._command_line(), self._wanted, self._silence, self._budget)
            except (OSError, ValueError) as error:
                yield SourceState("failed", f"the probe cannot be started: {error}")
                return
            try:
                # closed while the process was being made: nobody else knows it
                while not self._closed.is_set() and (item := await run.next()) is not None:
                    yield item
            finally:
                await run.end()
                self._run = None
            if self._closed.is_set():
                return
            if run.hopeless:
                yield SourceState("failed", run.epitaph())
                return
            failures = 1 if run.lived() >= HEALTHY else failures + 1
            delay = retry_delay(failures, *self._retry)
            yield SourceState("lost", run.epitaph(), delay)
            with contextlib.suppress(asyncio.TimeoutError):
                await within(delay, self._closed.wait())

    async def request(self, request: Request) -> None:
        """See `Source.request`."""
        self._wanted = Request(
            interval=self._wanted.interval if request.interval is None else request.interval,
            watch=self._wanted.watch if request.watch is None else request.watch,
            machine=self._wanted.machine if request.machine is None else request.machine,
            recheck=self._wanted.recheck if request.recheck is None else request.recheck,
        )
        if self._run is not None:
            self._run.interval = self._wanted.interval or 1.0
            self._run.send(request)

    async def close(self) -> None:
        """See `Source.close`."""
        self._closed.set()
        if self._run is not None:
            await self._run.end()

    def _command_line(self) -> Sequence[str]:
        return self._command or probe_command(self._python, "--interval", f"{self._wanted.interval:g}", *self._options)


class _Run:
    """One life of the probe: its process, what reads it, and why it ended."""

    def __init__(self, process: Process, wanted: Request, silence: float, budget: HostBudget) -> None:
        self.process = process
        self._room = asyncio.Event()
        self.inbox = Inbox(budget, self._room.set)
        self._clock: Line | None = None
        """Said after the hello."""
        self.hopeless = False
        self.interval = wanted.interval or 1.0
        if wanted.watch or wanted.machine or wanted.recheck:
            self.send(Request(watch=wanted.watch, machine=wanted.machine, recheck=wanted.recheck))
        self._silence = silence
        self._started = time.monotonic()
        self._reason = ""
        self._complaint = bytearray()
        self._ending: asyncio.Future[None] | None = None
        self._readers = (asyncio.ensure_future(self._read_lines()), asyncio.ensure_future(self._read_complaints()))

    @classmethod
    async def start(cls, command: Sequence[str], wanted: Request, silence: float, budget: HostBudget) -> _Run:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        return cls(process, wanted, silence, budget)

    def lived(self) -> float:
        return time.monotonic() - self._started if self.inbox.hearing.heard else 0.0

    def send(self, request: Request) -> None:
        if self.process.stdin is not None and not self.process.stdin.is_closing():
            self.process.stdin.write(encode_request(request))

    async def end(self) -> None:
        """End the process, gently first, and wait until it has gone. Every caller waits for the same end."""
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
        # asyncio reports the end only when the pipes have ended too: somebody must read what is left in them
        drains = [asyncio.ensure_future(_drain(stream)) for stream in (self.process.stdout, self.process.stderr)]
        for ending in (None, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                if ending is not None:
                    self.process.send_signal(ending)
            if await _gone(self.process, PATIENCE):
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
            self.hopeless = isinstance(error, ProtocolMismatch)
            return None
        if isinstance(item, Line) and item.hello is not None:
            self._clock = Line(clock=Clock(time.monotonic(), offset=0.0, uncertainty=0.0))
        return item

    async def _read_lines(self) -> None:
        """Into the inbox, while there is room: a probe that is not read drops counters by itself."""
        stream = self.process.stdout
        assert stream is not None
        inbox = self.inbox
        try:
            while True:
                limit = self._silence + 3 * self.interval if inbox.hearing.heard else FIRST_WORD
                part = await within(min(limit, self._silence + 3 * self.interval), stream.read(READ))
                if not part:
                    break
                inbox.put(part)
                if inbox.is_full:
                    self._room.clear()
                    await self._room.wait()
        except asyncio.TimeoutError:
            self._reason = "the probe has fallen silent" if inbox.hearing.heard else "the probe did not say anything"
        except OSError as error:
            self._reason = f"the probe cannot be heard: {error}"
        inbox.close()

    async def _read_complaints(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        while part := await stream.read(READ):
            self._complaint = (self._complaint + part)[-COMPLAINT:]

    def epitaph(self) -> str:
        """Why it ended, in a sentence, with the last line it wrote to stderr."""
        reason = self._reason
        code = self.process.returncode
        if not reason and code is not None and code < 0:
            reason = f"the probe was ended by {_signal_name(-code)}"
        elif not reason:
            reason = f"the probe ended with status {code}"
        said = self._complaint.decode("utf-8", "replace").strip().splitlines()
        return f"{reason}: {said[-1].strip()}" if said else reason


def probe_command(python: str, *arguments: str) -> list[str]:
    """Command line that runs the probe of this very nictop under any Python >= 3.9.

    The directories go behind the standard library's, so that nothing in them can take its place.
    """
    start = f"import sys; sys.path += {library_directories()!r}; "
    start += f"from nictop.probe.__main__ import main; sys.exit(main({list(arguments)!r}))"
    return [python, "-I", "-S", "-c", start]


def library_directories() -> list[str]:
    """Where `LIBRARIES` are, without importing them; those that are not installed are left out."""
    found: list[str] = []
    for library in LIBRARIES:
        specification = find_spec(library)
        for place in (specification.submodule_search_locations or ()) if specification is not None else ():
            directory = str(Path(place).resolve().parent)
            if directory not in found:
                found.append(directory)
    return found


async def _drain(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(READ):
        pass


async def _gone(process: Process, seconds: float) -> bool:
    try:
        await within(seconds, process.wait())
    except asyncio.TimeoutError:
        return False
    return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
