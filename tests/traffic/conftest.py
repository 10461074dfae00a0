"""Two hosts that the tests of one module share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.traffic.pair import Pair, pair


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_pair() -> AsyncIterator[Pair]:
    """At 100 Mb/s; the tests that use it run in the event loop of their module."""
    async with pair("100mbit") as both:
        yield both
