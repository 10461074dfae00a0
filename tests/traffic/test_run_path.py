"""No connection because of a route, a filter or a neighbour: the failure names the cause that the
hosts report."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
import pytest_asyncio

from nictop.traffic.failures import Failure
from nictop.traffic.run.events import RunTimeouts
from tests.support.namespaces import Namespace, applied
from tests.traffic.pair import WIRE, Pair, add_veth, missing_requirement, pair
from tests.traffic.real_runs import complete_run, failed

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
SHORT_TIMEOUTS = RunTimeouts(first_byte=4.0, stall=2.0)
VETH2 = "second"
CLIENT, SERVER = {4: "198.18.0.1", 6: "fd00:0::1"}, {4: "198.18.0.2", 6: "fd00:0::2"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Pair]:
    """Two hosts with two veths between them."""
    async with pair("100mbit") as made:
        add_veth(made.client, made.server, wire=VETH2, net=1)
        await made.wait_for_link(VETH2)
        yield made


def second_mac(namespace: Namespace) -> str:
    return namespace.run(["cat", f"/sys/class/net/{VETH2}/address"]).strip()


async def failure_between(both: Pair, version: int, generator: str = "iperf3") -> Failure:
    return await failed(
        both,
        client=both.endpoint("a", address=CLIENT[version]),
        server=both.endpoint("b", address=SERVER[version]),
        generator=generator,
        limits=SHORT_TIMEOUTS,
    )


@pytest.mark.parametrize(
    ("host", "kind", "version", "generator"),
    [
        *itertools.product(
            "a", ["prohibit", "unreachable", "blackhole"], [4, 6], ["iperf3", "builtin"]
        ),
        ("b", "prohibit", 4, "iperf3"),
        ("b", "blackhole", 6, "builtin"),
    ],
)
async def test_discarding_route(
    both: Pair, host: str, kind: str, version: int, generator: str
) -> None:
    """On the way to the server, and on the way back."""
    namespace, address = {"a": (both.client, SERVER[version]), "b": (both.server, CLIENT[version])}[
        host
    ]
    with applied(namespace, f"ip route add {kind} {address}", f"ip route del {kind} {address}"):
        found = await failure_between(both, version, generator)
    assert (found.kind, found.host) == ("no_route", host), found
    assert found.sentence.startswith(
        f"the route of {host} to {address} is of type {kind}: nothing is sent"
    )
    (command,) = found.commands
    assert command == f"ip -{version} route show table all type {kind}"


@pytest.mark.parametrize("version", [4, 6])
async def test_rule_that_refuses(both: Pair, version: int) -> None:
    rule = f"ip -{version} rule"
    with applied(
        both.client, f"{rule} add to {SERVER[version]} unreachable pref 70", f"{rule} del pref 70"
    ):
        found = await failure_between(both, version)
    assert (found.kind, found.host) == ("no_route", "a"), found
    assert (
        "a routing rule of a refuses packets to " in found.sentence
        and "(70: from all to " in found.sentence
    )
    assert found.commands == (f"ip -{version} rule show priority 70",)


async def test_silent_gateway(both: Pair) -> None:
    """Not the server, but the gateway has no MAC address."""
    with applied(
        both.client, "ip route add 198.18.0.2/32 via 198.18.0.77", "ip route del 198.18.0.2/32"
    ):
        found = await failure_between(both, 4)
    assert (found.kind, found.host) == ("no_neighbour", "a"), found
    assert found.sentence.startswith(
        "the gateway 198.18.0.77, by which a sends to 198.18.0.2, does not answer on "
    )


async def test_own_filter(both: Pair) -> None:
    """EPERM of the client's kernel: no firewall between the hosts is named."""
    rules = (
        "table inet t { chain c { type filter hook output priority 0; ip daddr 198.18.0.2 "
        "drop; }; }"
    )
    both.client.run(["nft", "-f", "-"], input=rules)
    found = await failure_between(both, 4)
    both.client.run(["nft", "flush", "ruleset"])
    assert (found.kind, found.host) == ("filtered", "a"), found
    assert found.sentence.startswith("a does not let its own packets to 198.18.0.2 out (EPERM)")


async def test_no_route_back(both: Pair) -> None:
    with applied(
        both.server,
        f"ip route del 198.18.0.0/24 dev {WIRE}",
        f"ip route add 198.18.0.0/24 dev {WIRE} src 198.18.0.2",
    ):
        found = await failure_between(both, 4)
    assert (found.kind, found.host, found.sentence) == (
        "no_route",
        "b",
        "b has no route to 198.18.0.1",
    )


async def test_strict_reverse_path_filtering(both: Pair) -> None:
    """The route back leaves by another NIC; with the printed command the run succeeds."""
    rp_filter = f"net.ipv4.conf.{WIRE}.rp_filter"
    revert = f"ip route del 198.18.0.1/32 dev {VETH2}"
    with (
        applied(both.server, f"sysctl -qw {rp_filter}=1", f"sysctl -qw {rp_filter}=0"),
        applied(both.server, f"ip route add 198.18.0.1/32 dev {VETH2} src 198.18.0.2", revert),
    ):
        found = await failure_between(both, 4)
        assert (found.kind, found.host) == ("filtered", "b"), found
        assert found.sentence.startswith(
            f"b drops packets from 198.18.0.1: rp_filter is 1 (strict) on {WIRE}, and the route "
            f"back uses {VETH2};"
        )
        (command,) = found.commands
        both.server.run(shlex.split(command))
        result, _ = await complete_run(both)
        assert result.failure is None and result.goodput


@pytest.mark.parametrize("owner", ["a", "b"])
async def test_mac_address_of_another_nic(both: Pair, owner: str) -> None:
    """In a stale or static neighbour entry: an address of another host is the cause, one of the
    server is possible."""
    wrong = second_mac(both.client if owner == "a" else both.server)
    with applied(
        both.client,
        f"ip neighbour replace 198.18.0.2 lladdr {wrong} dev {WIRE}",
        f"ip neighbour del 198.18.0.2 dev {WIRE}",
    ):
        found = await failure_between(both, 4)
    if owner == "a":
        assert (found.kind, found.host) == ("duplicate", "a"), found
        assert found.sentence == f"a reaches 198.18.0.2 at {wrong}, which is {VETH2} of a, not of b"
    else:
        assert found.kind in ("timeout", "start") and not found.commands, found
        assert f", a reaches 198.18.0.2 at {wrong}, which is {VETH2} of b" in found.sentence
        assert "neighbour of a" not in found.sentence


async def test_neighbour_does_not_answer(both: Pair) -> None:
    """Neither of them: from a request of the server the client would learn its MAC address."""
    both.client.run(["ip", "neighbour", "flush", "all"])
    both.server.run(["ip", "neighbour", "flush", "all"])
    arp_ignore = f"net.ipv4.conf.{WIRE}.arp_ignore"
    with ExitStack() as settings:
        for host in (both.client, both.server):
            settings.enter_context(
                applied(host, f"sysctl -qw {arp_ignore}=8", f"sysctl -qw {arp_ignore}=0")
            )
        found = await failure_between(both, 4)
    assert found.kind == "no_neighbour", found
    assert found.sentence.startswith(f"a gets no MAC address for 198.18.0.2 on {WIRE} (neighbour ")
    assert "b does not receive broadcast frames" in found.sentence


PREROUTING_RULES = """
table inet early { chain first { type filter hook prerouting priority 0; tcp dport 5201 drop; }; }
"""


async def test_route_by_another_nic_is_listed(both: Pair) -> None:
    """Excluded causes are listed: the server drops it by a rule that nictop does not search for."""
    with applied(
        both.client,
        f"ip route add 198.18.0.2/32 dev {VETH2} src 198.18.0.1",
        f"ip route del 198.18.0.2/32 dev {VETH2}",
    ):
        mac = second_mac(both.server)
        both.server.run(["nft", "-f", "-"], input=PREROUTING_RULES)
        with applied(
            both.client,
            f"ip neighbour replace 198.18.0.2 lladdr {mac} dev {VETH2}",
            f"ip neighbour del 198.18.0.2 dev {VETH2}",
        ):
            found = await failure_between(both, 4)
        both.server.run(["nft", "flush", "ruleset"])
    assert found.kind in ("timeout", "start") and not found.commands, found
    assert f"the route of a to 198.18.0.2: it leaves by {VETH2}, not by {WIRE}" in found.sentence
    assert f"route of b (by {WIRE})" in found.sentence and "rp_filter of b (0)" in found.sentence
