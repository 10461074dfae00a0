"""The loop that all front ends share: the items of a source become snapshots.

Live, remote and replayed hosts differ only in their `Source`; from here on nobody knows which one it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from nictop.errors import HostUnreachable
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Request
from nictop.wire.source import Source, SourceState

ONCE_PATIENCE = 20.0
"""Seconds that `snapshot_once` waits beyond the intervals: the probe's own limit for an inventory is half of it."""

READINGS = 3
"""Counter records after the inventory: one may have been on its way, then two to compare."""

MOST_WATCHED = 64
"""As many links as a probe accepts to watch."""


async def snapshots(source: Source) -> AsyncIterator[Snapshot]:
    """Yield the state of the source's host after every item it sends; ends when the source does."""
    snapshot = Snapshot.empty(source.name)
    async for item in source.items():
        if isinstance(item, SourceState):
            snapshot = with_state(snapshot, item.state, item.message)
        else:
            snapshot = advance(snapshot, item)
        yield snapshot


async def snapshot_once(source: Source, *, interval: float = 1.0, patience: float = ONCE_PATIENCE) -> Snapshot:
    """Wait for the first complete picture of a host: the inventory, and rates of everything in it, over one `interval`
    (seconds, that of the source). The source is closed afterwards.

    Raises HostUnreachable when the source is lost or fails before that, or when that takes `patience` seconds more than
    the intervals it needs.
    """
    limit = patience + (READINGS + 1) * interval
    try:
        return await asyncio.wait_for(_first_complete(source), limit)
    except asyncio.TimeoutError:
        raise HostUnreachable(f"{source.name}: no complete answer within {limit:g} s") from None
    finally:
        await source.close()


async def _first_complete(source: Source) -> Snapshot:
    """The probe knows what to count only after the inventory: rates of all of it need two readings after that."""
    newest, readings = None, -1
    async for snapshot in snapshots(source):
        if snapshot.state in ("lost", "failed"):
            raise HostUnreachable(f"{source.name}: {snapshot.message}")
        if snapshot.inventory is None:
            continue
        if readings < 0:
            await source.request(Request(watch=_devices(snapshot)))
            newest, readings = snapshot.counters, 0
        elif snapshot.counters is not newest:
            newest, readings = snapshot.counters, readings + 1
            if snapshot.rates is not None and (_counts_drivers(snapshot) or readings >= READINGS):
                return snapshot
    raise HostUnreachable(f"{source.name}: ended before it had told everything")


def _devices(snapshot: Snapshot) -> tuple[int, ...]:
    """The links whose queue and driver counters are worth asking for, as many as a probe watches."""
    return tuple(link.ifindex for link in snapshot.links.values() if link.device is not None)[:MOST_WATCHED]


def _counts_drivers(snapshot: Snapshot) -> bool:
    """Both records that the rates compare were taken after the probe had heard what to watch."""
    return all(
        record is not None and (record.driver or record.queues) for record in (snapshot.before, snapshot.counters)
    )
