"""When a host is connected to again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from nictop.errors import HostUnreachable
from nictop.probe.records import Line
from nictop.wire.reconnecting import MAX_RECENT_RETRY_SECONDS, ReconnectingSource
from nictop.wire.source import SourceState


class Unsteady(ReconnectingSource):
    """The first connection has one line, if `answers`; no further one has any."""

    def __init__(self, *, answers: bool) -> None:
        super().__init__("vm1", 1.0, (3600.0, 3600.0))
        self._answers = answers

    async def _attempt(self) -> AsyncGenerator[Line | SourceState, None]:
        if self._answers:
            yield Line()
        raise HostUnreachable("away")


@pytest.mark.parametrize(("answers", "is_soon"), [(True, True), (False, False)])
async def test_a_host_that_was_read_a_moment_ago_is_not_waited_for_long(
    answers: bool, is_soon: bool
) -> None:
    """A rebooted guest answered SSH for up to 30 s before the next attempt."""
    async with aclosing(Unsteady(answers=answers).items()) as items:
        async for item in items:
            if isinstance(item, SourceState) and item.retry_in is not None:
                assert (item.retry_in <= MAX_RECENT_RETRY_SECONDS) is is_soon
                return
    raise AssertionError("it was not lost")
