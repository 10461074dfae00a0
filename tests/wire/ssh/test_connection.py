"""Few connections are opened at the same time, and one that does not answer does not delay the
others."""

from __future__ import annotations

import asyncio

from nictop.wire.ssh.connection import MAX_HANDSHAKES, _handshake_slot
from tests.support.items import ITEM_TIMEOUT


async def test_a_slot_is_available_after_another_is_released() -> None:
    releases = [await _handshake_slot() for _ in range(MAX_HANDSHAKES)]
    waiting = [asyncio.ensure_future(_handshake_slot()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    releases[0]()
    releases[0]()  # a second call releases nothing
    await asyncio.wait_for(waiting[0], ITEM_TIMEOUT)
    assert not waiting[1].done()
    for release in (*releases[1:], waiting[0].result()):
        release()
    (await asyncio.wait_for(waiting[1], ITEM_TIMEOUT))()


async def test_a_slot_is_released_after_a_time_limit() -> None:
    for _ in range(3 * MAX_HANDSHAKES):
        await asyncio.wait_for(_handshake_slot(), ITEM_TIMEOUT)
