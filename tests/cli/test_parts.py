"""Incomplete inventories: they do not end the observation of a host, and rules are not evaluated
too early."""

from __future__ import annotations

import asyncio
import dataclasses

from nictop.cli.hosts import are_incomplete, as_far_as_checked
from nictop.cli.progress_line import waiting_text
from nictop.hosts.observe import Answer, Unreachable, observe, observe_all
from nictop.model.snapshot import Snapshot
from nictop.probe.inventory.collect import MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.records import Inventory, Line, LinkChange, Outdated, Request, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.report.diff.compare import compare_sides
from nictop.report.diff.document import AS_READ, diff_text
from nictop.report.diff.findings import Side
from nictop.report.facts.hosts import hosts_text
from nictop.report.findings.check import check_text
from nictop.rules import HostFacts, diagnose
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


async def incomplete_answer(*lines: Line) -> Answer:
    """Of a host that sends nothing after these lines, when its time is over."""
    source = ScriptedSource()
    source.send(SourceState("live"), Line(hello=HELLO), *lines)
    session = session_of(source, watch_devices=True)
    (answer,) = await observe_all([session], interval=0.01, timeout=0.05)
    return answer


async def test_at_the_limit_of_its_time_a_host_is_shown_and_checked_as_far_as_it_was_read() -> None:
    links = dataclasses.replace(late_inventory("no reply"), pending=("networkmanager",))
    unread = {"networkmanager": Unreadable("failed", NOT_READ_YET)}
    partly = dataclasses.replace(links, unreadable=unread)
    answer = await incomplete_answer(Line(inventory=partly), reading(1))
    assert not isinstance(answer, Unreachable) and are_incomplete([answer])
    snapshot, window = answer
    assert snapshot.inventory == partly
    assert snapshot.incomplete.startswith("no complete answer within ")
    facts = HostFacts(snapshot, window.parts)
    (checked,) = as_far_as_checked([answer])
    assert checked == answer
    text = check_text([facts], diagnose([facts]), 200)
    assert f"not complete: {snapshot.incomplete}" in text
    assert "no checks ran" not in text and "✓" not in text
    assert "NetworkManager (D-Bus): not read yet" in text
    assert f"not complete: {snapshot.incomplete}" in hosts_text([answer], 200)
    side = Side("a", snapshot, diagnose([facts]))
    diff = diff_text(compare_sides(side, side), 200)
    assert f"a: not complete: {snapshot.incomplete}" in diff and AS_READ in diff


async def test_interfaces_alone_are_shown_and_not_checked() -> None:
    links = dataclasses.replace(inventory(), pending=(*MACHINE_SOURCES, *MANAGER_SOURCES))
    answer = await incomplete_answer(Line(inventory=links))
    assert not isinstance(answer, Unreachable) and "DEVICE" in hosts_text([answer], 200)
    (checked,) = as_far_as_checked([answer])
    assert isinstance(checked, Unreachable)
    assert checked.sentence.startswith("only interfaces were read")


async def test_a_host_of_which_nothing_was_read_is_not_shown() -> None:
    assert isinstance(await incomplete_answer(), Unreachable)


async def test_why_a_host_was_lost_before_is_said_with_why_it_is_not_reached_now() -> None:
    source = ScriptedSource("vm1")
    source.send(
        SourceState("live"),
        SourceState("lost", "no more data from vm1 for 20 s", 0.5, silent=True),
        SourceState("connecting"),
        SourceState("failed", "SSH handshake not completed within 15 s"),
    )
    (answer,) = await observe_all([session_of(source)], interval=0.1)
    assert isinstance(answer, Unreachable)
    assert answer.sentence == (
        "SSH handshake not completed within 15 s; before that: no more data from vm1 for 20 s"
    )
