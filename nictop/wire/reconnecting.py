"""What the sources of live hosts have in common: one connection after another, with growing delays
between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.records import Line, Request
from nictop.wire.budget import HostBudget
from nictop.wire.errors import PermanentError, SilentHost, error_text
from nictop.wire.source import SourceState, merge_settings
from nictop.wire.timeout import with_timeout

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 30.0
RECENT_SECONDS, MAX_RECENT_RETRY_SECONDS = 600.0, 10.0
"""A host that has sent something within this time, as before its reboot, is not waited for longer:
it is back soon, and somebody may be looking."""
HEALTHY_SECONDS = 30.0
"""After a connection of this length the next failure counts as the first."""


class ReconnectingSource:
    """Subclasses implement `_attempt`, `_send` and `close`. `retry`: see `retry_delay`."""

    def __init__(self, name: str, interval: float, retry: tuple[float, float]) -> None:
        self.name = name
        self._settings = Request(interval=interval)
        """What every new probe is requested to do."""
        self._retry = retry
        self._budget = HostBudget()
        self._closed = asyncio.Event()

    def _attempt(self) -> AsyncGenerator[Line | SourceState, None]:
        """Items of one connection. Raises NictopError with the reason why it ended: PermanentError
        (or what is no HostUnreachable) if another attempt cannot help."""
        raise NotImplementedError

    def _send(self, request: Request) -> None:
        """Send a request to the probe, if there is one."""
        raise NotImplementedError

    async def items(self) -> AsyncGenerator[Line | SourceState, None]:
        """See `Source.items`."""
        failures = 0
        last_line: float | None = None
        with self._budget:
            while not self._closed.is_set():
                yield SourceState("connecting")
                begin, received = time.monotonic(), False
                error: NictopError | None = None
                try:
                    async with aclosing(self._attempt()) as items:
                        async for item in items:
                            if isinstance(item, Line):
                                received, last_line = True, time.monotonic()
                            yield item
                except NictopError as failure:
                    error = failure
                if self._closed.is_set() or error is None:
                    return
                if not _may_recover(error):
                    yield SourceState("failed", error_text(error))
                    return
                was_healthy = received and time.monotonic() - begin >= HEALTHY_SECONDS
                failures = 1 if was_healthy else failures + 1
                delay = retry_delay(failures, *self._retry)
                if last_line is not None and time.monotonic() - last_line < RECENT_SECONDS:
                    delay = min(delay, MAX_RECENT_RETRY_SECONDS * random.uniform(0.75, 1.0))
                is_silent = isinstance(error, SilentHost)
                yield SourceState("lost", error_text(error), delay, silent=is_silent)
                with contextlib.suppress(asyncio.TimeoutError):
                    await with_timeout(delay, self._closed.wait())

    async def request(self, request: Request) -> None:
        """See `Source.request`."""
        self._settings = merge_settings(self._settings, request)
        self._send(request)


def _may_recover(error: NictopError) -> bool:
    """Whether another attempt can help."""
    return isinstance(error, HostUnreachable) and not isinstance(error, PermanentError)


def retry_delay(
    failures: int, shortest: float = MIN_RETRY_SECONDS, longest: float = MAX_RETRY_SECONDS
) -> float:
    """Seconds to wait after so many failures in a row (1 is the first): exponential backoff with
    jitter, so that many nictops on one host, and many hosts behind one broken switch, do not
    reconnect at the same time."""
    ceiling: float = min(longest, shortest * 2.0 ** min(failures - 1, 30))
    return ceiling * random.uniform(0.75, 1.0)
