"""A source whose items come from the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.probe.records import Line, Request
from nictop.wire.source import Source, SourceState


def session_of(source: Source, **options: Any) -> HostSession:
    """A session with the name of its source."""
    return HostSession(Host(source.name, source.name), source, **options)


class ScriptedSource:
    """Yields the items passed to `send`, in order; stores the requests."""

    pids: tuple[int, ...] = ()

    def __init__(self, name: str = "alma-load-001") -> None:
        self.name = name
        self.requests: list[Request] = []
        self.closed = False
        self._queue: asyncio.Queue[Line | SourceState] = asyncio.Queue()

    def send(self, *items: Line | SourceState) -> None:
        for item in items:
            self._queue.put_nowait(item)

    @property
    def is_drained(self) -> bool:
        """Whether all items have been read."""
        return self._queue.empty()

    async def items(self) -> AsyncIterator[Line | SourceState]:
        while True:
            yield await self._queue.get()

    async def request(self, request: Request) -> None:
        self.requests.append(request)

    async def close(self) -> None:
        self.closed = True
