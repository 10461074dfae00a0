"""Lines of another machine: a probe that is sent there over SSH, runs from memory, and leaves nothing behind.

One connection per host and one probe on it. What ends is told in a sentence and tried again, ever later; what would end
the same way again (rights, host keys, no Python) is not. The remote end goes when its stdin ends, which it does in
every way a connection can die but one, and in that one, a network that has gone, when our pings stay away.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.records import Clock, Line, Request
from nictop.wire.budget import HostBudget
from nictop.wire.errors import PermanentError, sentence
from nictop.wire.retry import HEALTHY, LONGEST_RETRY, SHORTEST_RETRY, retry_delay
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Ask, Credentials
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.bundle import Bundle, bundle
from nictop.wire.ssh.connection import CONNECT, Connection, SshTarget, connect
from nictop.wire.ssh.host_keys import Policy
from nictop.wire.ssh.remote_probe import HEARTBEAT, RemoteProbe, Rights
from nictop.wire.timeout import within

__all__ = ["SshSource", "SshTarget"]

Result = TypeVar("Result")


class SshSource:
    """Lines of `target`. See `Source`.

    `ask`: answers questions (`authentication.Question`); without it nobody is asked. `host_keys`: what to do with an
    unknown host key; by default "ask" where there is somebody to ask, "refuse" otherwise. `eager`, `parts`: see
    `LocalSource`.
    """

    pids: tuple[int, ...] = ()
    """asyncssh lives in this process."""

    def __init__(
        self,
        target: SshTarget,
        interval: float = 1.0,
        *,
        eager: bool = False,
        parts: bool = False,
        ask: Ask | None = None,
        host_keys: Policy | None = None,
        retry: tuple[float, float] = (SHORTEST_RETRY, LONGEST_RETRY),
        patience: float = CONNECT,
    ) -> None:
        self.name = target.name
        self.clock: Clock | None = None
        """The newest estimate of the host's clock; None: not measured yet."""
        self._target = target
        self._wanted = Request(interval=interval)
        self._options = ["--eager"] * eager + ["--parts"] * parts + ["--allow-changes"] * target.allow_changes
        self._answers = Credentials(ask)
        self._policy: Policy = host_keys or ("ask" if ask is not None else "refuse")
        self._retry = retry
        self._patience = patience
        self._budget = HostBudget()
        self._connection = Connection()
        self._probe: RemoteProbe | None = None
        self._leaving = asyncio.Lock()
        self._closed = asyncio.Event()

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
            begin, heard = time.monotonic(), 0
            error: HostUnreachable | None = None
            try:
                probe = await self._unless_closed(self._reached())
                while True:
                    item = await probe.next()
                    if item is None and probe.wants_password and not self._closed.is_set():
                        await probe.end(0.0)
                        probe = await self._unless_closed(self._started("password"))
                        continue
                    if item is None:
                        break
                    if isinstance(item, Line) and item.clock is not None:
                        self.clock = item.clock
                    yield item
                heard, error = probe.inbox.hearing.heard, probe.error
            except HostUnreachable as failure:
                error = failure
            except NictopError as failure:
                error = PermanentError(failure.message, failure.hint)
            except _Closed:
                return
            finally:
                await self._leave()
            if self._closed.is_set() or error is None:
                return
            if isinstance(error, PermanentError):
                yield SourceState("failed", sentence(error))
                return
            failures = 1 if heard and time.monotonic() - begin >= HEALTHY else failures + 1
            delay = retry_delay(failures, *self._retry)
            yield SourceState("lost", sentence(error), delay)
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
        if self._probe is not None:
            self._probe.send(request)

    async def close(self) -> None:
        """See `Source.close`."""
        self._closed.set()
        await self._leave()

    async def _reached(self) -> RemoteProbe:
        """Connected, and the probe is on its way. What has been opened is left to `_leave`."""
        packing = asyncio.get_running_loop().run_in_executor(None, self._packed)  # while the network is waited for
        try:
            self._connection = await connect(self._target, self._answers, self._policy, self._patience)
        finally:
            await asyncio.gather(packing, return_exceptions=True)
        return await self._started("quiet" if self._target.sudo else "")

    async def _started(self, rights: Rights) -> RemoteProbe:
        packed = self._packed()
        arguments = ["--interval", f"{self._wanted.interval:g}", "--heartbeat", f"{HEARTBEAT:g}"]
        arguments += self._options
        command = RemoteCommand(arguments, len(packed.start), len(packed.frames))
        probe = self._probe = RemoteProbe(command, packed, self._target.name, self._answers, self._budget)
        wanted = Request(watch=self._wanted.watch, machine=self._wanted.machine, recheck=self._wanted.recheck)
        await probe.start(self._connection.ssh, rights, [wanted] if wanted != Request() else [])
        return probe

    def _packed(self) -> Bundle:
        return bundle(allow_changes=self._target.allow_changes)

    async def _unless_closed(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`; `_Closed` when the source is closed before it is there."""
        task, closed = asyncio.ensure_future(work), asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({task, closed}, return_when=asyncio.FIRST_COMPLETED)
            if self._closed.is_set():
                raise _Closed  # whatever `work` came to: its connection may have been taken from under it
            return task.result()
        finally:
            for waiting in (task, closed):
                waiting.cancel()
            await asyncio.gather(task, closed, return_exceptions=True)

    async def _leave(self) -> None:
        """End the probe and the connection, whatever there is of them. Every caller waits for the same end."""
        async with self._leaving:
            probe, self._probe = self._probe, None
            connection, self._connection = self._connection, Connection()
            if probe is not None:
                await probe.end()
                if connection.hops:
                    await probe.awaken(connection.ssh)
            await connection.close()


class _Closed(Exception):
    """The source has been closed meanwhile."""
