"""The loop that all front ends share: the items of a source become snapshots.

Live, remote and replayed hosts differ only in their `Source`; from here on nobody knows which one it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from nictop.errors import HostUnreachable
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.model.window import RatesWindow
from nictop.probe.records import Line, Request
from nictop.rules import Diagnosis, HostFacts, diagnosis_steps
from nictop.wire.source import Source, SourceState

ONCE_PATIENCE = 50.0
"""Seconds that `observe` waits beyond the intervals: more than the probe's own limit for an inventory."""

HOSTS_PATIENCE = 90.0
"""The same for `observe_all`: a connection and the start of a remote probe may take their time before that."""

MOST_AT_ONCE = 64
"""Hosts that are connected to at the same time: each costs this process some 20 ms of cryptography, and is not given
much longer than that by its own sshd."""

READINGS = 3
"""Counter records after the inventory: one may have been on its way, then two to compare."""

NEARLY = 0.95
"""A probe that reads every second does so a little early at times: three such readings are three seconds."""

MOST_WATCHED = 64
"""As many links as a probe accepts to watch."""

DIAGNOSIS_SLICE = 0.01
"""Seconds of CPU that the rules are asked before other tasks have their turn."""

DIAGNOSIS_HURRY = 0.1
"""Seconds of CPU that a diagnosis may take without a pause: that of an honest host. From then on other tasks have twice
as much time after each slice as that took."""


async def diagnose_in_slices(hosts: Iterable[HostFacts]) -> tuple[Diagnosis, float]:
    """What all rules say about hosts, and the seconds of CPU that it took; other tasks run meanwhile. To be awaited in
    the main thread: elsewhere a rule that takes too long is not interrupted."""
    steps, seconds = diagnosis_steps(hosts), 0.0
    while True:
        begin = time.thread_time()
        try:
            while time.thread_time() - begin < DIAGNOSIS_SLICE:
                next(steps)
        except StopIteration as end:
            return end.value, seconds + time.thread_time() - begin
        took = time.thread_time() - begin
        seconds += took
        await asyncio.sleep(2 * took if seconds > DIAGNOSIS_HURRY else 0)


async def snapshots(source: Source) -> AsyncIterator[Snapshot]:
    """Yield the state of the source's host after every item it sends; ends when the source does."""
    async for _, snapshot in followed(source, Snapshot.empty(source.name)):
        yield snapshot


async def followed(source: Source, snapshot: Snapshot) -> AsyncIterator[tuple[Line | SourceState, Snapshot]]:
    """Every item of the source, and the state of its host after it; `snapshot` is what was known before."""
    async for item in source.items():
        if isinstance(item, SourceState):
            snapshot = with_state(snapshot, item.state, item.message)
        else:
            snapshot = advance(snapshot, item)
        yield item, snapshot


async def observe(
    source: Source, *, interval: float = 1.0, seconds: float = 0.0, patience: float = ONCE_PATIENCE
) -> tuple[Snapshot, RatesWindow]:
    """Wait for the first complete picture of a host: the inventory, and rates of everything in it, over one `interval`
    (seconds, that of the source); then go on until the window spans at least `seconds` of such rates. The source is
    closed afterwards.

    Raises HostUnreachable when the source is lost or fails before that, or when that takes `patience` seconds more than
    the intervals it needs.
    """
    limit = patience + (READINGS + 1) * interval + seconds
    said: list[str] = []
    try:
        return await asyncio.wait_for(_observed(source, seconds, said), limit)
    except asyncio.TimeoutError:
        why = f": {said[-1]}" if said and said[-1] else ""
        raise HostUnreachable(f"{source.name}: no complete answer within {limit:g} s{why}") from None
    finally:
        await source.close()


@dataclass(frozen=True)
class Unreachable:
    """A host that gave no complete answer."""

    host: str
    """Name of its source."""
    sentence: str
    """Why, and what to do next."""


Answer = tuple[Snapshot, RatesWindow] | Unreachable


async def observe_all(
    sources: Sequence[Source], *, interval: float = 1.0, seconds: float = 0.0, patience: float = HOSTS_PATIENCE
) -> tuple[Answer, ...]:
    """What `observe` says of each source, in their order; they are observed side by side, and one that fails takes
    nothing from the others."""
    room = asyncio.Semaphore(MOST_AT_ONCE)

    async def answer(source: Source) -> Answer:
        async with room:
            try:
                return await observe(source, interval=interval, seconds=seconds, patience=patience)
            except HostUnreachable as error:
                return Unreachable(source.name, error.message.removeprefix(f"{source.name}: "))

    return tuple(await asyncio.gather(*map(answer, sources)))


async def _observed(source: Source, seconds: float, said: list[str]) -> tuple[Snapshot, RatesWindow]:
    """The probe knows what to count only after the inventory: rates of all of it need two readings after that. What is
    the matter meanwhile is in `said`."""
    newest, readings = None, -1
    window = RatesWindow()
    async for snapshot in snapshots(source):
        said[:] = [snapshot.message]
        if snapshot.state in ("lost", "failed"):
            raise HostUnreachable(f"{source.name}: {snapshot.message}")
        if snapshot.inventory is None:
            continue
        if readings < 0:
            await source.request(Request(watch=_devices(snapshot)))
            newest, readings = snapshot.counters, 0
        elif snapshot.counters is not newest:
            newest, readings = snapshot.counters, readings + 1
            if snapshot.rates is not None and readings > 1 and (_counts_drivers(snapshot) or readings >= READINGS):
                window.take(snapshot)
        if window.parts and window.seconds >= seconds * NEARLY and not snapshot.inventory.pending:
            return snapshot, window
    raise HostUnreachable(f"{source.name}: ended before it had told everything")


def _devices(snapshot: Snapshot) -> tuple[int, ...]:
    """The links whose queue and driver counters are worth asking for, as many as a probe watches."""
    return tuple(link.ifindex for link in snapshot.links.values() if link.device is not None)[:MOST_WATCHED]


def _counts_drivers(snapshot: Snapshot) -> bool:
    """Both records that the rates compare were taken after the probe had heard what to watch."""
    return all(
        record is not None and (record.driver or record.queues) for record in (snapshot.before, snapshot.counters)
    )
