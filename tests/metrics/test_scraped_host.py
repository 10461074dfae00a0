"""One host behind the metrics, scripted: up or not, tried again whatever happens, and a failure that stays its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from nictop.hosts.session import SILENT_AFTER_SECONDS
from nictop.hosts.specification import Host
from nictop.metrics import service as metrics_service
from nictop.metrics.scraped_host import ScrapedHost
from nictop.metrics.service import MetricsService
from nictop.probe.records import Line
from nictop.wire.source import SourceState
from tests.metrics.answers import series, those, values
from tests.support.rule_cases import base, heard
from tests.support.sources import ScriptedSource

LIMIT = 90.0
LIVE = SourceState("live")


def lines(name: str = "kvm-guest") -> list[Line]:
    return heard(base(name))


async def until(fact: Callable[[], object]) -> None:
    async def look() -> None:
        while not fact():  # noqa: ASYNC110  (the fact is of the code under test, which tells nobody)
            await asyncio.sleep(0)

    await asyncio.wait_for(look(), LIMIT)


class Ending(ScriptedSource):
    """One that ends after what it was given."""

    async def items(self) -> AsyncIterator[Line | SourceState]:
        while not self.said_all:
            yield await self._queue.get()


@asynccontextmanager
async def following(host: ScrapedHost) -> AsyncIterator[None]:
    task = asyncio.ensure_future(host.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_up_is_who_is_heard_of() -> None:
    source, said = ScriptedSource("vm"), list[str]()
    host = ScrapedHost(Host("vm", "vm"), lambda _: source, 1.0, said.append)
    async with following(host):
        source.say(SourceState("connecting"), LIVE)
        await until(lambda: source.said_all and host.session.snapshot.state == "live")
        assert not host.is_up(0.0) and host.age(0.0) is None
        source.say(*lines())
        await until(lambda: source.said_all and host.age(0.0) is not None)
        now = asyncio.get_running_loop().time()  # CLOCK_MONOTONIC
        assert host.is_up(now) and not host.is_up(now + SILENT_AFTER_SECONDS + 3.0)
        (request,) = source.requests
        devices = [one.ifindex for one in host.session.snapshot.links.values() if one.device is not None]
        assert devices and request.watch == tuple(sorted(devices))
        source.say(SourceState("lost", "the connection broke", 1.0), SourceState("lost", "the connection broke", 2.0))
        await until(lambda: source.said_all and host.session.snapshot.state == "lost")
        assert not host.is_up(now)
    assert said == ["vm: live", "vm: lost: the connection broke"]
    assert source.closed


async def test_who_cannot_be_reached_is_tried_again() -> None:
    sources, said = list[Ending](), list[str]()

    def connect(_: Host) -> Ending:
        source = Ending("vm")
        source.say(*([SourceState("failed", "no such host")] if not sources else [LIVE, *lines()]))
        sources.append(source)
        return source

    host = ScrapedHost(Host("vm", "vm"), connect, 1.0, said.append, retry_seconds=0.0)
    async with following(host):
        await until(lambda: len(sources) > 2)
    assert said[:2] == ["vm: failed: no such host", "vm: live"] and all(source.closed for source in sources)


async def test_a_fault_of_our_own_is_said_and_survived() -> None:
    tries, said = list[Host](), list[str]()

    def connect(host: Host) -> ScriptedSource:
        tries.append(host)
        raise RuntimeError("broken")

    async with following(ScrapedHost(Host("vm", "vm"), connect, 1.0, said.append, retry_seconds=0.0)):
        await until(lambda: len(tries) > 2)
    assert said == ["vm: failed: nictop itself failed here: RuntimeError: broken"]


async def test_a_host_that_cannot_be_told_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {name: ScriptedSource(name) for name in ("good", "bad")}
    said: list[str] = []
    service = MetricsService(
        [Host(name, name) for name in sources], lambda host: sources[host.label], 60.0, said.append
    )
    running = asyncio.ensure_future(service.run())
    try:
        for source in sources.values():
            source.say(LIVE, *lines())
        await until(lambda: all(host.age(0.0) is not None for host in service.hosts))

        def fails(*_: object) -> None:
            raise OverflowError("too large")

        monkeypatch.setattr(service.hosts[1].collector, "samples", fails)
        for _ in range(2):
            found = values(service.answer("application/openmetrics-text", "").body)
            assert found[series("nictop_host_up", host="good")] == 1
            assert found[series("nictop_host_up", host="bad")] == 0
            assert those(found, "nictop_link_bytes_total", host="good")
            assert {key[0] for key in found if ("host", "bad") in key[1]} == {"nictop_host_up"}
            service._responses.clear()
        assert said.count("bad: nictop itself failed here: OverflowError: too large") == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert all(source.closed for source in sources.values())


async def test_answers_within_a_moment_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of requests does not make a flood of work."""
    service = MetricsService([], lambda host: ScriptedSource(host.label), 1.0, lambda _: None)
    monkeypatch.setattr(metrics_service, "FRESH", 3600.0)
    first = service.answer("", "gzip")
    assert service.answer("", "gzip").body is first.body
    assert service.answer("", "").body is not first.body
    monkeypatch.setattr(metrics_service, "FRESH", -1.0)
    assert service.answer("", "gzip").body is not first.body
