"""A source that did not answer in time is waited for before a change is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nictop.changes.guided.set_up import NotKnown, give_address
from nictop.changes.job import ChangeJob
from nictop.cli.change import host as module
from nictop.cli.change.host import when_known
from nictop.errors import NictopError
from nictop.hosts.session import HostSession, running
from nictop.probe.records import Line, Unreadable
from nictop.rules.fixes.address_files import AddressRequest
from nictop.wire.source import SourceState
from tests.support.lines import hello, inventory, link
from tests.support.sources import ScriptedSource, session_of

NIC = link(2, "ens192", bus="pci")
LATE = Unreadable("failed", "NetworkManager did not answer: no reply within 2 s")
STOPPED = Unreadable("failed", "NetworkManager did not answer: its process 812 is stopped")


def inventory_with(why: Unreadable | None, time: float) -> Line:
    line = inventory(NIC, time=time)
    assert line.inventory is not None
    unreadable = {} if why is None else {"networkmanager": why}
    return Line(inventory=replace(line.inventory, unreadable=unreadable))


def job_of(session: HostSession) -> ChangeJob:
    return give_address(session.facts, NIC, AddressRequest("192.0.2.7/24", "", False, False))


async def test_a_slow_manager_is_waited_for_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = ScriptedSource()
    session = session_of(source)
    async with running(session):
        source.send(SourceState("live"), hello(), inventory_with(LATE, 1.0))
        await session.until(lambda: session.snapshot.inventory, 10.0)
        waiting = asyncio.ensure_future(when_known(session, lambda: job_of(session)))
        source.send(inventory_with(LATE, 6.0), inventory_with(None, 16.0))
        job = await asyncio.wait_for(waiting, 10.0)
    assert "ens192" in job.title
    shown = capsys.readouterr().err
    assert "no reply within 2 s" in shown and "it is read again, for up to 40 s" in shown


@pytest.mark.parametrize(("why", "words"), [(LATE, "tried again for 0 s"), (STOPPED, "stopped")])
async def test_it_is_refused_with_the_reason_where_waiting_does_not_help(
    why: Unreadable, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_AGAIN_SECONDS", 0.0)
    source = ScriptedSource()
    session = session_of(source)
    async with running(session):
        source.send(SourceState("live"), hello(), inventory_with(why, 1.0))
        await session.until(lambda: session.snapshot.inventory, 10.0)
        with pytest.raises(NictopError, match=words):
            await when_known(session, lambda: job_of(session))


async def test_a_host_that_is_lost_meanwhile_is_not_waited_for() -> None:
    source = ScriptedSource()
    session = session_of(source)
    async with running(session):
        source.send(SourceState("live"), hello(), inventory_with(LATE, 1.0))
        await session.until(lambda: session.snapshot.inventory, 10.0)
        waiting = asyncio.ensure_future(when_known(session, lambda: job_of(session)))
        source.send(SourceState("failed", "connection refused"))
        with pytest.raises(NotKnown):
            await asyncio.wait_for(waiting, 10.0)
