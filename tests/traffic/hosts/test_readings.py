"""What is said while the first readings of the hosts of a test are waited for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from nictop.errors import HostUnreachable
from nictop.model.snapshot import State
from nictop.probe.records import Line, Trouble
from nictop.traffic.failures import RunFailed
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.hosts.readings import wait_for_platforms, wait_for_readings
from nictop.wire.source import SourceState
from tests.model.hosts import HELLO, counters, inventory, link_counters
from tests.support.sources import ScriptedSource, session_of

COUNTED = Line(counters=counters(101.0, {4: link_counters(rx_bytes=1)}))


async def test_each_sentence_is_said_once() -> None:
    """Also while another host advances."""
    one, two = (session_of(ScriptedSource(name)) for name in ("vm1", "vm2"))
    said: list[str] = []
    for session in (one, two):
        session.process(SourceState("connecting"))
        session.process(SourceState("connecting", stage="probe"))
    waiting = asyncio.ensure_future(wait_for_readings((one, two), None, said.append))
    reached = SourceState("live"), Line(hello=HELLO), Line(inventory=inventory()), COUNTED
    for session in (two, one):
        for item in reached:
            await asyncio.sleep(0)
            session.process(item)
            await asyncio.sleep(0)
    await waiting
    assert said[0] == "waiting for vm1: starting probe"
    assert len(said) == len(set(said)), said


async def test_a_step_that_lasts_is_said_again_with_its_seconds_and_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the end with the step that took too long."""
    monkeypatch.setattr("nictop.traffic.hosts.readings.LONG_WAIT_SECONDS", 0.01)
    one, said = session_of(ScriptedSource("vm1")), list[str]()
    for item in (SourceState("connecting"), SourceState("live"), Line(hello=HELLO)):
        one.process(item)
    with pytest.raises(HostUnreachable) as raised:
        await wait_for_readings((one,), 0.1, said.append)
    assert raised.value.message == "vm1: no complete answer within 0.1 s: reading interfaces"
    assert said[:2] == [
        "waiting for vm1: reading interfaces",
        "waiting for vm1: reading interfaces, 0 s; 0 s in all (limit 0 s)",
    ]
    is_told = asyncio.Event()

    def tell(sentence: str) -> None:
        if sentence.endswith("reading interfaces, 0 s; 0 s in all"):
            is_told.set()

    waiting = asyncio.ensure_future(wait_for_readings((one,), None, tell))
    await is_told.wait()
    waiting.cancel()


async def test_a_host_of_which_only_the_links_are_read_is_waited_for() -> None:
    """What its NICs are connected to is in the next part of its inventory."""
    one, said = session_of(ScriptedSource("vm1")), list[str]()
    whole = inventory()
    for item in (
        SourceState("live"),
        Line(hello=HELLO),
        Line(inventory=replace(whole, pending=("platform", "networkmanager"))),
        COUNTED,
    ):
        one.process(item)
    waiting = asyncio.ensure_future(wait_for_platforms((one,), said.append))
    await asyncio.sleep(0)
    assert not waiting.done() and said == ["waiting for vm1: reading inventory, at most 20 s"]
    one.process(Line(inventory=replace(whole, pending=("networkmanager",))))
    await waiting
    await wait_for_platforms((one,), said.append)
    assert len(said) == 1


async def test_a_wait_that_ended_without_the_inventory_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nictop.traffic.hosts.readings.PLATFORM_SECONDS", 0.01)
    one = session_of(ScriptedSource("vm1"))
    part = Line(inventory=replace(inventory(), pending=("platform", "networkmanager")))
    for item in (SourceState("live"), Line(hello=HELLO), part, COUNTED):
        one.process(item)
    missing = await wait_for_platforms((one,), lambda _: None)
    assert missing == "inventory of vm1 not complete after 0 s"
    one.process(Line(trouble=Trouble(102.0, "the inventory was stopped: no progress", "inventory")))
    missing = await wait_for_platforms((one,), lambda _: None)
    assert missing.endswith("not complete after 0 s (the inventory was stopped: no progress)")


@pytest.mark.parametrize("state", ["lost", "failed"])
async def test_a_test_of_a_host_that_is_lost_already_ends_at_once(state: State) -> None:
    """It waited for an answer until its time limit, and said that it was testing."""
    one = RunHost(session_of(ScriptedSource("vm1")))
    for item in (SourceState("live"), Line(hello=HELLO), Line(inventory=inventory()), COUNTED):
        one.session.process(item)
    one.session.process(SourceState(state, "connection to vm1 lost"))
    inbox = TrafficInbox({"vm1": one}, {"vm1"})
    inbox.open()
    with pytest.raises(RunFailed) as raised:
        await inbox.next(time.monotonic() + 60.0)
    assert raised.value.failure.sentence == "vm1: connection to vm1 lost"
    inbox.close()


async def test_an_observer_that_is_lost_ends_no_test() -> None:
    one = RunHost(session_of(ScriptedSource("vm1")))
    one.session.process(SourceState("lost", "connection to vm1 lost"))
    inbox = TrafficInbox({"vm1": one}, ())
    inbox.open()
    assert await inbox.next(time.monotonic()) is None
    inbox.close()
