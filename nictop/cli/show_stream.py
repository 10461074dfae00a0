"""``nictop show --format jsonl``: one JSON object per line for each reading, until Ctrl-C.

A reader that is slower than the readings gets the newest ones: nothing is stored for it but one
line of each host.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Any

from nictop.cli.hosts import connect_host, wanted_hosts
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.session import HostSession
from nictop.report.facts.stream import HostLines
from nictop.wire.source import SourceState

LAST_WRITE_SECONDS = 1.0
"""For what is not written yet when it ends."""


def run(options: argparse.Namespace) -> int:
    if options.at is not None:
        raise NictopError("--format jsonl shows live hosts", "of a recording: --format json")
    return asyncio.run(_Stream(options).run())


class _Stream:
    def __init__(self, options: argparse.Namespace) -> None:
        self._sessions = []
        for host in wanted_hosts(options.hosts):
            source = connect_host(host, options)
            self._sessions.append(HostSession(host, source, window=False, watch_devices=True))
        self._lines = {session.name: HostLines(session.name) for session in self._sessions}
        self._has_lines = asyncio.Event()
        self._is_ended = False

    async def run(self) -> int:
        """Until a signal, or all hosts have failed."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        following = asyncio.gather(*map(self._follow, self._sessions))
        writing = asyncio.ensure_future(self._write())
        stopped = asyncio.ensure_future(stop.wait())
        ends: set[asyncio.Future[Any]] = {following, writing, stopped}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            await asyncio.gather(*(session.close() for session in self._sessions))
            await asyncio.gather(following, return_exceptions=True)
        self._is_ended = True
        self._has_lines.set()
        with suppress(asyncio.TimeoutError):  # a reader that has stopped reading
            await asyncio.wait_for(writing, LAST_WRITE_SECONDS)
        return 0 if stop.is_set() else HostUnreachable.exit_code

    async def _follow(self, session: HostSession) -> None:
        def note(item: object, _: object) -> None:
            if isinstance(item, SourceState):
                lines.note_state(item)
            else:
                lines.note_item(session.snapshot)
            if lines.is_waiting:
                self._has_lines.set()

        lines = self._lines[session.name]
        session.subscribe(note)
        await session.run()

    async def _write(self) -> None:
        """Write what is waiting. A pipe that is full does not stop the connections. Raises
        BrokenPipeError."""
        while not self._is_ended:
            await self._has_lines.wait()
            self._has_lines.clear()
            text = "".join(lines.take() for lines in self._lines.values())
            await write_when_possible(text.encode("ascii"))


async def write_when_possible(data: bytes) -> None:
    """Write to stdout, in parts that a pipe takes without waiting once it takes any (pipe(7),
    PIPE_BUF). Raises BrokenPipeError, and NictopError for any other failure."""
    if sys.stdout is None:
        raise NictopError("stdout is closed")
    descriptor = sys.stdout.fileno()
    for begin in range(0, len(data), select.PIPE_BUF):
        await _writable(descriptor)
        try:
            os.write(descriptor, data[begin : begin + select.PIPE_BUF])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise NictopError(f"cannot write to stdout: {error.strerror}") from None


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    is_writable = loop.create_future()

    def note() -> None:
        if not is_writable.done():
            is_writable.set_result(None)

    try:
        loop.add_writer(descriptor, note)
    except PermissionError:  # a file: epoll_ctl(2), EPERM
        return
    try:
        await is_writable
    finally:
        loop.remove_writer(descriptor)
