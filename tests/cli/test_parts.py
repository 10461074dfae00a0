"""Incomplete inventories: they do not end the observation of a host, and rules are not evaluated
too early."""

from __future__ import annotations

import asyncio
import dataclasses

from nictop.cli.progress_line import waiting_text
from nictop.hosts.observe import observe
from nictop.model.snapshot import Snapshot
from nictop.probe.inventory.collect import MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.records import Inventory, Line, LinkChange, Outdated, Request, Unreadable
from nictop.wire.local import LocalSource
from nictop.wire.source import SourceState
from tests.model.hosts import HELLO, counters, inventory, link_counters
from tests.support.sources import ScriptedSource, session_of


def reading(second: int) -> Line:
    return Line(counters=counters(100.0 + second, {4: link_counters(rx_bytes=second)}))


async def test_observation_ends_with_the_complete_inventory_and_counts_from_its_first_part() -> (
    None
):
    source = ScriptedSource()
    whole = inventory()
    links = dataclasses.replace(whole, pending=(*MACHINE_SOURCES, *MANAGER_SOURCES))
    machine = dataclasses.replace(whole, pending=MANAGER_SOURCES)
    source.send(
        SourceState("live"), Line(hello=HELLO), Line(inventory=links), reading(1), reading(2)
    )
    source.send(Line(inventory=machine), *map(reading, range(3, 9)))
    look = asyncio.ensure_future(
        observe(session_of(source, watch_devices=True), interval=60.0, seconds=3.0)
    )
    while not source.is_drained:  # noqa: ASYNC110  a source of a test tells nobody
        await asyncio.sleep(0)
    watched = [one for one in source.requests if one.watch]
    assert not look.done() and len(watched) == 1
    source.send(Line(inventory=whole))
    snapshot, window = await look
    assert snapshot.inventory == whole
    assert window.seconds >= 3.0 and window.parts[0].elapsed == 1.0


GONE = Line(link_change=LinkChange(104.5, 4, True, "ens4", "down", None, 0, 1500))


async def answer_after(
    source: ScriptedSource, last: int, *new: Line
) -> tuple[Snapshot, list[Request]]:
    """Of a host whose complete inventory is followed by counters until second `last`, and then by
    `new`."""
    look = asyncio.ensure_future(
        observe(session_of(source, watch_devices=True), interval=60.0, seconds=float(last - 2))
    )
    source.send(
        SourceState("live"),
        Line(hello=HELLO),
        Line(inventory=inventory()),
        *map(reading, range(1, last + 1)),
    )
    while not source.is_drained and not look.done():  # noqa: ASYNC110  a source of a test tells nobody
        await asyncio.sleep(0)
    requests = [one for one in source.requests if one.inventory]
    assert not (new and look.done())
    source.send(*new)
    snapshot, _ = await look
    return snapshot, requests


async def test_what_happened_during_the_watch_is_in_the_answer() -> None:
    """Without any event: the inventory is read again."""
    later = dataclasses.replace(inventory(), time=112.0, links=())
    snapshot, requests = await answer_after(
        ScriptedSource(), 10, Line(inventory=later), reading(11)
    )
    assert snapshot.inventory == later and len(requests) == 1


async def test_an_event_during_the_watch_is_in_the_answer() -> None:
    source = ScriptedSource()
    session = session_of(source, watch_devices=True)
    look = asyncio.ensure_future(observe(session, interval=60.0, seconds=2.0))
    source.send(SourceState("live"), Line(hello=HELLO), Line(inventory=inventory()))
    source.send(*map(reading, range(1, 4)), GONE, *map(reading, range(4, 6)))
    while not source.is_drained:  # noqa: ASYNC110  a source of a test tells nobody
        await asyncio.sleep(0)
    assert not look.done() and session.snapshot.inventory_pending
    later = dataclasses.replace(inventory(), time=106.0, links=())
    source.send(Line(inventory=later), reading(6))
    assert (await look)[0].inventory == later


async def test_an_event_while_the_inventory_was_read_is_in_the_answer() -> None:
    """Its sources are of before and of after the event, and no link has changed."""
    source = ScriptedSource()
    look = asyncio.ensure_future(
        observe(session_of(source, watch_devices=True), interval=60.0, seconds=2.0)
    )
    event = Line(outdated=Outdated(100.5, "NetworkManager"))
    source.send(SourceState("live"), Line(hello=HELLO), event, Line(inventory=inventory()))
    source.send(*map(reading, range(1, 5)))
    while not source.is_drained:  # noqa: ASYNC110  a source of a test tells nobody
        await asyncio.sleep(0)
    assert not look.done() and [one for one in source.requests if one.inventory]
    later = dataclasses.replace(inventory(), time=106.0, links=())
    source.send(Line(inventory=later), reading(6))
    snapshot, _ = await look
    assert snapshot.inventory == later and snapshot.unread_event is None


def late_inventory(why: str) -> Inventory:
    reason = Unreadable("failed", f"NetworkManager did not answer: {why}")
    return dataclasses.replace(inventory(), unreadable={"networkmanager": reason})


async def test_a_manager_that_is_slow_to_answer_is_waited_for() -> None:
    """The probe asks it again some seconds later; until then it has not failed."""
    source = ScriptedSource()
    session = session_of(source, watch_devices=True)
    look = asyncio.ensure_future(observe(session, interval=60.0, seconds=2.0))
    late = late_inventory("no reply within 2 s")
    source.send(SourceState("live"), Line(hello=HELLO), Line(inventory=late))
    source.send(*map(reading, range(1, 5)))
    while not source.is_drained:  # noqa: ASYNC110  a source of a test tells nobody
        await asyncio.sleep(0)
    told = waiting_text([session], 2.0, 0.0)
    assert "NetworkManager did not answer in time and is asked again" in told
    later = dataclasses.replace(inventory(), time=106.0)
    source.send(Line(inventory=later), reading(6))
    assert (await look)[0].inventory == later


async def test_a_manager_that_is_stopped_is_not_waited_for() -> None:
    source = ScriptedSource()
    late = late_inventory("its process 812 is stopped")
    source.send(SourceState("live"), Line(hello=HELLO), Line(inventory=late))
    source.send(*map(reading, range(1, 5)))
    look = observe(session_of(source, watch_devices=True), interval=60.0, seconds=2.0)
    assert (await look)[0].inventory == late


async def test_a_manager_that_never_answers_is_not_waited_for_without_end() -> None:
    source = ScriptedSource()
    look = asyncio.ensure_future(
        observe(session_of(source, watch_devices=True), interval=60.0, seconds=2.0)
    )
    late = late_inventory("no reply within 2 s")
    source.send(SourceState("live"), Line(hello=HELLO), Line(inventory=late))
    source.send(*map(reading, range(1, 60)))
    assert (await look)[0].inventory == late


async def test_a_short_watch_needs_one_inventory() -> None:
    _, requests = await answer_after(ScriptedSource(), 4)
    assert requests == []


async def test_an_inventory_that_never_comes_is_not_waited_for_without_end() -> None:
    snapshot, requests = await answer_after(ScriptedSource(), 10, *map(reading, range(11, 40)))
    assert len(requests) == 1 and snapshot.counters is not None and snapshot.counters.time > 110.0


async def test_a_real_host_is_complete() -> None:
    snapshot, window = await observe(
        session_of(LocalSource(0.1, parts=True), watch_devices=True), interval=0.1, seconds=0.3
    )
    assert snapshot.inventory is not None and not snapshot.inventory.pending
    assert window.parts
