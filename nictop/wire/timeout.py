"""Waiting for something, but not for ever, and never deaf to a cancellation meanwhile.

Until Python 3.12 `asyncio.wait_for` forgets that it was cancelled when what it waits for comes at the same moment
(CPython issue 86296): the task that was to end goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
TURNS = 4
"""Turns of the event loop that bytes which have arrived take at most to whoever reads them."""


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`. Raises asyncio.TimeoutError when it has none after `seconds`; it is cancelled then, as it
    is when the caller is, and has ended when this returns.

    What has come by then counts, though this process got no CPU, or was stopped, until the time was over.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
        for _ in range(TURNS):
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
            task.exception()  # it is told by `result`; after a cancellation nobody asks for it
