"""What a host sends about changes does not accumulate while nobody reads it."""

from __future__ import annotations

import time

from nictop.changes.inbox import MAX_PENDING, ChangeInbox
from nictop.model.snapshot import Snapshot
from nictop.probe.records import ChangeLine, Line


async def test_replies_above_those_of_a_change_are_dropped() -> None:
    inbox = ChangeInbox("mine", lambda: ())
    for number in range(2 * MAX_PENDING):
        for name in ("other", "mine"):
            inbox.receive(
                Line(change=ChangeLine(float(number), name, "applying")), Snapshot("h", "live", "")
            )
    received = []
    while (item := await inbox.next(time.monotonic())) is not None:
        assert isinstance(item, ChangeLine) and item.id == "mine"
        received.append(item.time)
    assert received == list(range(MAX_PENDING))
