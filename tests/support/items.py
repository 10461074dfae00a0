"""Taking items from a source under test, with a limit on every wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from nictop.probe.records import Line
from nictop.wire.source import SourceState

Item = Line | SourceState
LIMIT = 90.0


async def until(items: AsyncIterator[Item], wanted: Callable[[Item], object], limit: float = LIMIT) -> list[Item]:
    """Items up to the first that `wanted` is true of."""
    heard: list[Item] = []

    async def listen() -> None:
        async for item in items:
            heard.append(item)
            if wanted(item):
                return
        raise AssertionError(f"the source ended; heard: {heard[-5:]}")

    try:
        await asyncio.wait_for(listen(), limit)
    except asyncio.TimeoutError:
        raise AssertionError(f"not heard within {limit} s; heard: {[str(item)[:300] for item in heard[-5:]]}") from None
    return heard


async def state(items: AsyncIterator[Item], name: str, limit: float = LIMIT) -> SourceState:
    """The next state of this name."""
    last = (await until(items, is_state(name), limit))[-1]
    assert isinstance(last, SourceState)
    return last


def is_state(name: str) -> Callable[[Item], bool]:
    return lambda item: isinstance(item, SourceState) and item.state == name


def has(record: str) -> Callable[[Item], bool]:
    return lambda item: isinstance(item, Line) and getattr(item, record) is not None
