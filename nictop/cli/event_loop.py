"""An event loop for one command."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def result_of(work: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` returns, without its last step on the result: it asks for the handler of
    SIGINT, and `signal.getsignal` makes the text of that one, of its task and of all that the task
    has returned (Python 3.11, `asyncio/runners.py: Runner.run`)."""
    results = []

    async def without_result() -> None:
        results.append(await work)

    asyncio.run(without_result())
    return results[0]
