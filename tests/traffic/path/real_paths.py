"""Path tests between the two real probes of a pair, and the networks between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from nictop.probe.records import PathReplies, PathSize, PathTest
from nictop.rules.finding import Finding
from nictop.traffic.path.result import PathReport, PathRequest
from nictop.traffic.path.session import PathSession
from tests.support.namespaces import Namespace
from tests.traffic.pair import LIMIT, WIRE, Pair, followed, namespaces, source

SECOND = "second"
ADDRESSES = {4: ("198.18.0.1", "198.18.0.2"), 6: ("fd00::1", "fd00::2")}
ROUTED = ("198.18.1.2", "198.18.2.2")


async def tested(
    both: Pair, addresses: tuple[str, str] = ADDRESSES[4], *, port: int = 0
) -> PathReport:
    """A path test between the two addresses on `WIRE`."""
    request = PathRequest("a", "b", WIRE, addresses[0], WIRE, addresses[1], port=port)
    return await PathSession(
        request, [host.session for host in both.hosts.values()], timeout=LIMIT
    ).run()


def measured(report: PathReport, side: int = 0) -> PathTest:
    """What the first or the second host found out."""
    test = report.result.directions[side].test
    assert test is not None, report.result.directions[side].failure
    return test


def replies_of(test: PathTest, protocol: str) -> PathReplies:
    return next(one for one in test.replies if one.protocol == protocol)


def sizes_of(test: PathTest) -> dict[str, PathSize]:
    return {one.protocol: one for one in test.sizes}


def only(report: PathReport, rule: str) -> Finding:
    (found,) = [one for one in report.findings if one.rule == rule]
    return found


def run_commands(namespace: Namespace, lines: Iterator[object] | tuple[object, ...]) -> None:
    """Type commands as they are printed."""
    for line in lines:
        namespace.run(["sh", "-c", str(line)])


@contextmanager
def rule_set(namespace: Namespace, rules: str, hook: str = "input") -> Iterator[None]:
    """A base chain with these rules."""
    text = f"table inet t {{ chain c {{ type filter hook {hook} priority 0; {rules} }}; }}"
    namespace.run(["nft", "-f", "-"], input=text)
    try:
        yield
    finally:
        namespace.run(["nft", "flush", "ruleset"])


async def refreshed(both: Pair) -> None:
    """Wait for new inventories of both hosts."""
    for host in both.hosts.values():
        assert await host.refresh(LIMIT)


@asynccontextmanager
async def routed(mtu: int = 1400) -> AsyncIterator[tuple[Pair, Namespace]]:
    """Two hosts with a router between them, whose links have another MTU than those of the
    hosts."""
    with namespaces() as (client, server), namespaces() as (router, _):
        for number, host in ((1, client), (2, server)):
            link = f"to{number}"
            host.run(
                [
                    "ip",
                    "link",
                    "add",
                    WIRE,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    link,
                    "netns",
                    router.name,
                ]
            )
            host.run(["ip", "address", "add", f"198.18.{number}.2/24", "dev", WIRE])
            host.run(["ip", "link", "set", WIRE, "up"])
            router.run(["ip", "address", "add", f"198.18.{number}.1/24", "dev", link])
            router.run(["ip", "link", "set", link, "up"])
            router.run(["ip", "link", "set", link, "mtu", str(mtu if number == 2 else 1500)])
            host.run(["ip", "route", "add", "default", "via", f"198.18.{number}.1"])
        router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            yield both, router


@asynccontextmanager
async def bridged() -> AsyncIterator[tuple[Pair, Namespace, Namespace]]:
    """Two hosts and a third namespace on one bridge."""
    with namespaces() as (client, server), namespaces() as (third, switch):
        if not switch.try_link("br0", "type", "bridge"):
            pytest.skip("this kernel has no bridges")
        switch.run(["ip", "link", "set", "br0", "up"])
        for number, host in enumerate((client, server, third), 1):
            port = f"port{number}"
            host.run(
                [
                    "ip",
                    "link",
                    "add",
                    WIRE,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    port,
                    "netns",
                    switch.name,
                ]
            )
            switch.run(["ip", "link", "set", port, "master", "br0", "up"])
            host.run(["ip", "address", "add", f"198.18.0.{number}/24", "dev", WIRE])
            host.run(["ip", "address", "add", f"fd00::{number}/64", "dev", WIRE, "nodad"])
            host.run(["ip", "link", "set", WIRE, "up"])
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            yield both, third, switch
