"""Incomplete inventories: they do not end the observation of a host, and rules are not evaluated too early."""

from __future__ import annotations

import asyncio
import dataclasses

from nictop.hosts.observe import observe
from nictop.probe.inventory.collect import MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.records import Line
from nictop.wire.local import LocalSource
from nictop.wire.source import SourceState
from tests.model.hosts import HELLO, counters, inventory, link_counters
from tests.support.sources import ScriptedSource, session_of


def reading(second: int) -> Line:
    return Line(counters=counters(100.0 + second, {4: link_counters(rx_bytes=second)}))


async def test_observation_ends_with_the_complete_inventory_and_counts_from_its_first_part() -> None:
    source = ScriptedSource()
    whole = inventory()
    links = dataclasses.replace(whole, pending=(*MACHINE_SOURCES, *MANAGER_SOURCES))
    machine = dataclasses.replace(whole, pending=MANAGER_SOURCES)
    source.send(SourceState("live"), Line(hello=HELLO), Line(inventory=links), reading(1), reading(2))
    source.send(Line(inventory=machine), *map(reading, range(3, 9)))
    look = asyncio.ensure_future(observe(session_of(source, watch_devices=True), interval=60.0, seconds=3.0))
    while not source.is_drained:  # noqa: ASYNC110  a source of a test tells nobody
        await asyncio.sleep(0)
    assert not look.done() and len(source.requests) == 1 and source.requests[0].watch
    source.send(Line(inventory=whole))
    snapshot, window = await look
    assert snapshot.inventory is whole
    assert window.seconds >= 3.0 and window.parts[0].elapsed == 1.0


async def test_a_real_host_is_complete() -> None:
    snapshot, window = await observe(
        session_of(LocalSource(0.1, parts=True), watch_devices=True), interval=0.1, seconds=0.3
    )
    assert snapshot.inventory is not None and not snapshot.inventory.pending
    assert window.parts
