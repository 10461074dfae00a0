"""Two hosts shared by the tests of one module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.traffic.pair import Pair, pair


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_pair() -> AsyncIterator[Pair]:
    """A pair at 100 Mb/s; its tests run in the event loop of their module."""
    async with pair("100mbit") as both:
        yield both
