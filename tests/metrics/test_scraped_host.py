"""One scripted host of the metrics service: up or down, reconnected after any failure, isolated
from other hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from nictop.hosts.specification import Host
from nictop.metrics import service as metrics_service
from nictop.metrics.scraped_host import ScrapedHost
from nictop.metrics.service import MetricsService
from nictop.model.snapshot import SILENT_AFTER_SECONDS
from nictop.probe.records import Line
from nictop.wire.source import SourceState
from tests.metrics.answers import series, series_with, values
from tests.support.rule_cases import base, probe_lines
from tests.support.sources import ScriptedSource

WAIT_TIMEOUT = 90.0
LIVE = SourceState("live")


def lines(name: str = "kvm-guest") -> list[Line]:
    return probe_lines(base(name))


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110  (no event signals the condition)
            await asyncio.sleep(0)

    await asyncio.wait_for(wait(), WAIT_TIMEOUT)


class EndingSource(ScriptedSource):
    """A source that ends after the items it was given."""

    async def items(self) -> AsyncIterator[Line | SourceState]:
        while not self.is_drained:
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


async def test_a_host_is_up_while_its_lines_are_received() -> None:
    source, messages = ScriptedSource("vm"), list[str]()
    host = ScrapedHost(Host("vm", "vm"), lambda _: source, 1.0, messages.append)
    async with following(host):
        source.send(SourceState("connecting"), LIVE)
        await until(lambda: source.is_drained and host.session.snapshot.state == "live")
        assert not host.is_up(0.0) and host.age(0.0) is None
        source.send(*lines())
        await until(lambda: source.is_drained and host.age(0.0) is not None)
        now = asyncio.get_running_loop().time()  # CLOCK_MONOTONIC
        assert host.is_up(now) and not host.is_up(now + SILENT_AFTER_SECONDS + 3.0)
        (request,) = source.requests
        devices = [
            one.ifindex for one in host.session.snapshot.links.values() if one.device is not None
        ]
        assert devices and request.watch == tuple(sorted(devices))
        source.send(
            SourceState("lost", "the connection broke", 1.0),
            SourceState("lost", "the connection broke", 2.0),
        )
        await until(lambda: source.is_drained and host.session.snapshot.state == "lost")
        assert not host.is_up(now)
    assert messages == ["vm: live", "vm: lost: the connection broke"]
    assert source.closed


async def test_an_unreachable_host_is_retried() -> None:
    sources, messages = list[EndingSource](), list[str]()

    def connect(_: Host) -> EndingSource:
        source = EndingSource("vm")
        source.send(*([SourceState("failed", "no such host")] if not sources else [LIVE, *lines()]))
        sources.append(source)
        return source

    host = ScrapedHost(Host("vm", "vm"), connect, 1.0, messages.append, retry_seconds=0.0)
    async with following(host):
        await until(lambda: len(sources) > 2)
    assert messages[:2] == ["vm: failed: no such host", "vm: live"] and all(
        source.closed for source in sources
    )


async def test_an_internal_error_is_reported_and_the_host_is_retried() -> None:
    tries, messages = list[Host](), list[str]()

    def connect(host: Host) -> ScriptedSource:
        tries.append(host)
        raise RuntimeError("broken")

    async with following(
        ScrapedHost(Host("vm", "vm"), connect, 1.0, messages.append, retry_seconds=0.0)
    ):
        await until(lambda: len(tries) > 2)
    assert messages == ["vm: failed: internal error: RuntimeError: broken"]


async def test_a_host_whose_series_fail_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = {name: ScriptedSource(name) for name in ("good", "bad")}
    messages: list[str] = []
    service = MetricsService(
        [Host(name, name) for name in sources],
        lambda host: sources[host.label],
        60.0,
        messages.append,
    )
    running = asyncio.ensure_future(service.run())
    try:
        for source in sources.values():
            source.send(LIVE, *lines())
        await until(lambda: all(host.age(0.0) is not None for host in service.hosts))

        def fails(*_: object) -> None:
            raise OverflowError("too large")

        monkeypatch.setattr(service.hosts[1].collector, "samples", fails)
        for _ in range(2):
            found = values(service.answer("application/openmetrics-text", "").body)
            assert found[series("nictop_host_up", host="good")] == 1
            assert found[series("nictop_host_up", host="bad")] == 0
            assert series_with(found, "nictop_link_bytes_total", host="good")
            assert {key[0] for key in found if ("host", "bad") in key[1]} == {"nictop_host_up"}
            service._responses.clear()
        assert messages.count("bad: internal error: OverflowError: too large") == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert all(source.closed for source in sources.values())


async def test_responses_are_cached_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests do not cause as much work."""
    service = MetricsService([], lambda host: ScriptedSource(host.label), 1.0, lambda _: None)
    monkeypatch.setattr(metrics_service, "RESPONSE_CACHE_SECONDS", 3600.0)
    first = service.answer("", "gzip")
    assert service.answer("", "gzip").body is first.body
    assert service.answer("", "").body is not first.body
    monkeypatch.setattr(metrics_service, "RESPONSE_CACHE_SECONDS", -1.0)
    assert service.answer("", "gzip").body is not first.body
