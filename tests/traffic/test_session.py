"""A run session before its first run: which hosts it waits for, and when it does not."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession, running
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.run.events import Stage
from nictop.traffic.session import RunSession
from nictop.wire.source import SourceState
from tests.support.lines import counters, inventory, link
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.emitted import emitted

REQUEST = RunRequest("a", "b", observers=("c",))


def hosts() -> tuple[dict[str, ScriptedSource], list[HostSession]]:
    """Client, server and observer; none has sent anything."""
    sources = {name: ScriptedSource(name) for name in "abc"}
    return sources, [session_of(source) for source in sources.values()]


def make_ready(source: ScriptedSource) -> None:
    source.send(SourceState("live"), inventory(link(1, "ens4")), counters(1.0, {1: (0, 0)}))


async def stages(run: RunSession, sessions: list[HostSession]) -> list[str]:
    """Sentences of the stages, until it ends."""
    sentences = []
    async with running(*sessions), aclosing(emitted(run.run)) as events:
        async for event in events:
            assert isinstance(event, Stage)
            sentences.append(event.sentence)
    return sentences


async def test_every_host_has_to_send_its_inventory_in_time() -> None:
    sources, sessions = hosts()
    make_ready(sources["a"])
    make_ready(sources["b"])
    with pytest.raises(HostUnreachable, match=r"^c: no complete answer within 0.2 s$"):
        await stages(RunSession(REQUEST, sessions, timeout=0.2), sessions)


@pytest.mark.parametrize("name", ["a", "b", "c"])
async def test_a_lost_host_ends_the_wait_with_a_time_limit(name: str) -> None:
    sources, sessions = hosts()
    sources[name].send(SourceState("lost", "no route to host", 1.0))
    with pytest.raises(HostUnreachable, match=rf"^{name}: no route to host$"):
        await stages(RunSession(REQUEST, sessions, timeout=60.0), sessions)


async def test_without_a_time_limit_lost_ends_are_waited_for() -> None:
    sources, sessions = hosts()
    run = RunSession(REQUEST, sessions)
    sentences = []
    sources["c"].send(SourceState("failed", "no such host"))  # an observer
    async with running(*sessions):
        with pytest.raises(HostUnreachable, match=r"^b: permission denied$"):
            async with aclosing(emitted(run.run)) as events:
                async for event in events:
                    assert isinstance(event, Stage)
                    sentences.append(event.sentence)
                    if event.sentence == "waiting for a: connecting":
                        sources["a"].send(SourceState("lost", "no route to host", 1.0))
                    elif event.sentence == "waiting for a: lost":
                        make_ready(sources["a"])
                    elif event.sentence == "waiting for b: connecting":
                        sources["b"].send(SourceState("failed", "permission denied"))
        assert not run.stop()
    assert list(dict.fromkeys(sentences)) == [
        "waiting for a: connecting",
        "waiting for a: lost",
        "waiting for b: connecting",
    ]
