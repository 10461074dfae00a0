"""Wait for a coroutine with a time limit, or until an event is set.

Replaces `asyncio.wait_for`, which before Python 3.12 loses a cancellation that happens when the
awaitable completes (CPython issue 86296), and `asyncio.timeout`, which Python 3.10 does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
DELIVERY_ITERATIONS = 4
"""Iterations of the event loop after which received bytes have reached the coroutine that reads
them."""


class Process(Protocol):
    def wait(self) -> Coroutine[Any, Any, object]:
        """Until it has ended."""


class EventSetError(Exception):
    """The event of `run_until` was set."""


async def run_until(event: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`. Raises EventSetError if `event` is set before it is returned; `work` is
    cancelled then, as it is when the caller is, and has ended when this returns."""
    task, waiter = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if event.is_set():
            raise EventSetError
        return task.result()
    finally:
        task.cancel()
        waiter.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)


async def ends_within(process: Process, seconds: float) -> bool:
    """Whether a process has ended after `seconds` at most."""
    try:
        await with_timeout(seconds, process.wait())
    except asyncio.TimeoutError:
        return False
    return True


async def with_timeout(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`. Raises asyncio.TimeoutError if there is none after `seconds`; `work` is
    cancelled then, as it is when the caller is, and has ended when this returns.

    Data received in time counts, even if this process got no CPU time, or was stopped, until the
    time was over.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
        for _ in range(DELIVERY_ITERATIONS):
            if not task.done():
                await asyncio.sleep(0)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        elif not task.cancelled():
            # raised by `result`; after a cancellation it is not retrieved otherwise
            task.exception()
