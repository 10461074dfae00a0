"""Read items from a source under test; every wait has a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from nictop.probe.records import Line
from nictop.wire.source import SourceState

Item = Line | SourceState
ITEM_TIMEOUT = 90.0


async def items_until(
    items: AsyncIterator[Item], wanted: Callable[[Item], object], limit: float = ITEM_TIMEOUT
) -> list[Item]:
    """Items up to and including the first for which `wanted` is true."""
    received: list[Item] = []

    async def receive() -> None:
        async for item in items:
            received.append(item)
            if wanted(item):
                return
        raise AssertionError(f"the source ended; received: {received[-5:]}")

    try:
        await asyncio.wait_for(receive(), limit)
    except asyncio.TimeoutError:
        raise AssertionError(
            f"not received within {limit} s; received: "
            f"{[str(item)[:300] for item in received[-5:]]}"
        ) from None
    return received


async def next_state(
    items: AsyncIterator[Item], name: str, limit: float = ITEM_TIMEOUT
) -> SourceState:
    """The next `SourceState` with this state."""
    last = (await items_until(items, is_state(name), limit))[-1]
    assert isinstance(last, SourceState)
    return last


def is_state(name: str) -> Callable[[Item], bool]:
    return lambda item: isinstance(item, SourceState) and item.state == name


def has_record(record: str) -> Callable[[Item], bool]:
    return lambda item: isinstance(item, Line) and getattr(item, record) is not None
