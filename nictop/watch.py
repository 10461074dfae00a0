"""The loop that all front ends share: the items of a source become snapshots.

Live, remote and replayed hosts differ only in their `Source`; from here on nobody knows which one it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from nictop.errors import HostUnreachable
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.wire.source import Source, SourceState

ONCE_TIMEOUT = 20.0
"""Seconds that `snapshot_once` waits for a complete picture: the probe's own limit for an inventory is half of it."""


async def snapshots(source: Source) -> AsyncIterator[Snapshot]:
    """Yield the state of the source's host after every item it sends; ends when the source does."""
    snapshot = Snapshot.empty(source.name)
    async for item in source.items():
        if isinstance(item, SourceState):
            snapshot = with_state(snapshot, item.state, item.message)
        else:
            snapshot = advance(snapshot, item)
        yield snapshot


async def snapshot_once(source: Source, timeout: float = ONCE_TIMEOUT) -> Snapshot:
    """Wait for the first complete picture of a host: inventory, counters and rates. The source is closed afterwards.

    Raises HostUnreachable when the source is lost or fails before that, or after `timeout` seconds.
    """
    try:
        return await asyncio.wait_for(_first_complete(source), timeout)
    except asyncio.TimeoutError:
        raise HostUnreachable(f"{source.name}: no complete answer within {timeout:g} s") from None
    finally:
        await source.close()


async def _first_complete(source: Source) -> Snapshot:
    async for snapshot in snapshots(source):
        if snapshot.state in ("lost", "failed"):
            raise HostUnreachable(f"{source.name}: {snapshot.message}")
        if snapshot.inventory is not None and snapshot.rates is not None:
            return snapshot
    raise HostUnreachable(f"{source.name}: ended before it had told everything")
