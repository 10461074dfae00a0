"""Connections are opened a few at a time, and none that does not answer holds up the others."""

from __future__ import annotations

import asyncio

from nictop.wire.ssh.connection import MAX_HANDSHAKES, _handshake_slot
from tests.support.items import LIMIT


async def test_a_slot_is_waited_for_until_one_is_given_back() -> None:
    releases = [await _handshake_slot() for _ in range(MAX_HANDSHAKES)]
    waiting = [asyncio.ensure_future(_handshake_slot()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    releases[0]()
    releases[0]()  # once more gives nothing back
    await asyncio.wait_for(waiting[0], LIMIT)
    assert not waiting[1].done()
    for release in (*releases[1:], waiting[0].result()):
        release()
    (await asyncio.wait_for(waiting[1], LIMIT))()


async def test_who_gives_nothing_back_keeps_others_waiting_for_a_short_time_only() -> None:
    for _ in range(3 * MAX_HANDSHAKES):
        await asyncio.wait_for(_handshake_slot(), LIMIT)
