"""Firewalls on the server's host: the run says which and how to let it in, and the printed line does just that."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from nictop.model.text.words import IFF_NOARP
from nictop.probe.records import Link
from nictop.traffic.run.events import RunTimeouts
from nictop.traffic.run.failures import Kind
from tests.support.probe import wait_until
from tests.traffic.pair import LIMIT, Pair, why_not
from tests.traffic.real_runs import carried_out, failed

REASON = why_not() or ("nft is not installed" if shutil.which("nft") is None else None)
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]

FENCE = """
table inet fence {{
  chain in {{
    type filter hook input priority 0; policy accept;
    ct state established accept
    {rule}
  }}
}}
"""
SHORT = RunTimeouts(first_byte=3.0, stall=2.0)


@pytest_asyncio.fixture(loop_scope="module")
async def both(module_pair: Pair) -> AsyncIterator[Pair]:
    """Two hosts that all tests here share; each leaves no firewall and no generator on them."""
    yield module_pair
    module_pair.server.run(["nft", "flush", "ruleset"])
    assert module_pair.generators() == []


def fenced(both: Pair, rule: str) -> None:
    both.server.run(["nft", "-f", "-"], input="flush ruleset\n" + FENCE.format(rule=rule))


ADDRESSES = (("198.18.0.1", "198.18.0.2"), ("fd00:0::1", "fd00:0::2"))


RULES: dict[str, tuple[Kind, str]] = {
    "reject with icmpx type admin-prohibited": ("prohibited", "was refused at once"),
    "reject with tcp reset": ("refused", "are reset, though the server listens there"),
    "drop": ("timeout", "nothing answered at"),
}
"""What the server's firewall does → kind of the failure, words of its sentence."""


@pytest.mark.parametrize("rule", RULES)
async def test_what_a_firewall_does_is_told_apart(both: Pair, rule: str) -> None:
    """Over IPv4 and IPv6 at the same time: their ICMP becomes other errors."""
    kind, words = RULES[rule]
    plans = [
        both.plan(client=both.place("a", address=client), server=both.place("b", address=server), port=port)
        for (client, server), port in zip(ADDRESSES, (5201, 5301), strict=True)
    ]
    fenced(both, f"tcp dport {{ 5201, 5301 }} {rule}")
    for result, _ in await asyncio.gather(*(carried_out(both, plan=plan) for plan in plans)):
        found, plan = result.failure, result.plan
        assert found is not None
        assert (found.kind, found.host) == (kind, "b") and words in found.sentence, found
        assert "possible: the nftables input chain inet fence in on b, a firewall between the hosts" in found.sentence
        assert "; excluded: firewall of a (output), route of a (by nictopt), " in found.sentence
        (command,) = found.commands
        assert "insert rule inet fence in" in command
        assert f"saddr {plan.client.address} tcp dport {plan.port} accept" in command


async def test_udp_that_is_dropped_while_the_ends_agree_over_tcp(both: Pair) -> None:
    fenced(both, "udp dport 5201 drop")
    found = await failed(both, protocol="udp", bitrate=5_000_000, limits=SHORT)
    assert (found.kind, found.host) == ("start", "b") and "may drop UDP to port 5201" in found.sentence
    assert ["tcp dport" in found.commands[0], "udp dport" in found.commands[1]] == [True, True]


async def test_the_printed_line_opens_the_port_and_closes_it_again(both: Pair) -> None:
    fenced(both, "tcp dport 5201 reject with tcp reset")
    (command,) = (await failed(both)).commands
    assert "; sleep 121; " in command
    with typed(both, command) as shell:
        await asyncio.to_thread(wait_until, lambda: "saddr 198.18.0.1" in rules(both))
        result, _ = await carried_out(both)
        assert result.failure is None and result.goodput
        for pid in sleeping(shell.pid):  # its time is over
            os.kill(pid, signal.SIGTERM)
        await asyncio.to_thread(shell.wait, LIMIT)
        assert "saddr" not in rules(both) and "reject with tcp reset" in rules(both)
    assert (await failed(both)).kind == "refused"


@contextmanager
def typed(both: Pair, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """The line in a shell of root on the server's host, which ends when what it has put into the background does."""
    inside = ["ip", "netns", "exec", both.server.name, "bash", "-c", f"{command} wait"]
    with subprocess.Popen(inside, start_new_session=True) as shell:
        try:
            yield shell
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)


def rules(both: Pair) -> str:
    return both.server.run(["nft", "list", "ruleset"])


def sleeping(session: int) -> list[int]:
    """The sleeps of a session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    command, _, rest = file.read().partition("(")[2].rpartition(")")
                if command == "sleep" and int(rest.split()[3]) == session:
                    found.append(int(name))
            except OSError:
                continue
    return found


async def test_a_route_that_forbids_it_without_any_firewall_of_the_server(both: Pair) -> None:
    """What a router on the way answers."""
    both.server.run(["sh", "-c", "cd /proc/sys/net/ipv4; echo 1 > ip_forward; echo 1 > ip_nonlocal_bind"])
    both.server.run(["ip", "route", "add", "prohibit", "198.18.9.2"])
    both.client.run(["ip", "route", "add", "198.18.9.2", "via", "198.18.0.2"])
    found = await failed(both, server=both.place("b", address="198.18.9.2"))
    assert (found.kind, found.commands, found.host) == ("prohibited", (), "")
    assert "; excluded: firewall of b (input), firewall of a (output), route of a (by nictopt)" in found.sentence
    assert "possible: a firewall between the hosts, a prohibit route of a router" in found.sentence


OUTPUT = """
table inet gate {
  chain out {
    type filter hook output priority 0; policy accept;
    tcp dport 5201 drop
  }
}
"""


async def test_a_firewall_of_the_client_is_no_firewall_of_the_server(both: Pair) -> None:
    both.client.run(["nft", "-f", "-"], input=OUTPUT)
    try:
        found = await failed(both, limits=SHORT)
    finally:
        both.client.run(["nft", "flush", "ruleset"])
    assert (found.kind, found.commands) in (("timeout", ()), ("start", ())), found
    assert "; possible: the nftables output chain inet gate out on a, " in found.sentence


async def test_an_address_that_both_hosts_have(both: Pair) -> None:
    """The client connects to itself."""
    link = both.place("a").ifindex
    name = both.hosts["a"].snapshot.links[link or 0].name
    both.client.run(["ip", "address", "add", "198.18.0.2/32", "dev", name])
    try:
        assert await seen(both, "a", lambda one: any(two.address == "198.18.0.2" for two in one.addresses))
        found = await failed(both)
    finally:
        both.client.run(["ip", "address", "del", "198.18.0.2/32", "dev", name])
    assert await seen(both, "a", lambda one: all(two.address != "198.18.0.2" for two in one.addresses))
    assert (found.kind, found.commands) == ("duplicate", ())
    assert found.sentence.startswith(f"a has 198.18.0.2 itself, on {name}, as b has")


@pytest.mark.parametrize("host", ["a", "b"])
async def test_arp_that_is_off(both: Pair, host: str) -> None:
    """On one end or the other; the command that is printed switches it on, and the run goes."""
    namespace = {"a": both.client, "b": both.server}[host]
    name = both.hosts[host].snapshot.links[both.place(host).ifindex or 0].name
    for one in (both.client, both.server):
        one.run(["ip", "neighbour", "flush", "all"])
    namespace.run(["ip", "link", "set", "dev", name, "arp", "off"])
    assert await seen(both, host, lambda one: bool(one.flags & IFF_NOARP))
    found = await failed(both)
    assert (found.kind, found.host) == ("no_neighbour", host), found
    assert found.sentence.startswith(f"ARP is off on {name} of {host}")
    namespace.run(list(found.commands[0].split()))
    assert await seen(both, host, lambda one: not one.flags & IFF_NOARP)
    result, _ = await carried_out(both)
    assert result.failure is None and result.goodput


async def seen(both: Pair, host: str, fact: Callable[[Link], bool]) -> bool:
    """The host's inventory shows it."""
    followed, ifindex = both.hosts[host], both.place(host).ifindex or 0
    return await followed.session.until(lambda: fact(followed.snapshot.links[ifindex]), LIMIT)
