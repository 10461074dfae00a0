"""Firewalls on the host of the server: the failure names the firewall, and its command opens the
port."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from nictop.model.text.words import IFF_NOARP
from nictop.probe.records import Link
from nictop.traffic.failures import Kind
from nictop.traffic.run.events import RunTimeouts
from tests.support.probe import wait_until
from tests.traffic.pair import LIMIT, Pair, missing_requirement
from tests.traffic.real_runs import complete_run, failed

REASON = missing_requirement() or ("nft is not installed" if shutil.which("nft") is None else None)
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]

RULESET = """
table inet fence {{
  chain in {{
    type filter hook input priority 0; policy accept;
    ct state established accept
    {rule}
  }}
}}
"""
SHORT_TIMEOUTS = RunTimeouts(first_byte=3.0, stall=2.0)


@pytest_asyncio.fixture(loop_scope="module")
async def both(module_pair: Pair) -> AsyncIterator[Pair]:
    """Two hosts that all tests here share; each leaves no firewall and no generator on them."""
    yield module_pair
    module_pair.server.run(["nft", "flush", "ruleset"])
    assert module_pair.generators() == []


def load_rule(both: Pair, rule: str) -> None:
    both.server.run(["nft", "-f", "-"], input="flush ruleset\n" + RULESET.format(rule=rule))


ADDRESSES = (("198.18.0.1", "198.18.0.2"), ("fd00:0::1", "fd00:0::2"))


RULES: dict[str, tuple[Kind, str]] = {
    "reject with icmpx type admin-prohibited": ("prohibited", "rejected by a firewall or a router"),
    "reject with tcp reset": ("refused", "are refused although the server listens"),
    "drop": ("timeout", "no answer from"),
}
"""Rule of the server's firewall → kind of the failure, part of its sentence."""


@pytest.mark.parametrize("rule", RULES)
async def test_firewall_rules_have_different_failures(both: Pair, rule: str) -> None:
    """Over IPv4 and IPv6 at the same time: their ICMP messages give different errors."""
    kind, words = RULES[rule]
    plans = [
        both.plan(
            client=both.endpoint("a", address=client),
            server=both.endpoint("b", address=server),
            port=port,
        )
        for (client, server), port in zip(ADDRESSES, (5201, 5301), strict=True)
    ]
    load_rule(both, f"tcp dport {{ 5201, 5301 }} {rule}")
    for result, _ in await asyncio.gather(*(complete_run(both, plan=plan) for plan in plans)):
        found, plan = result.failure, result.plan
        assert found is not None
        assert (found.kind, found.host) == (kind, "b") and words in found.sentence, found
        assert "possible: the nftables input chain inet fence in on b" in found.sentence
        assert "; excluded: firewall of a (output), route of a (by nictopt), " in found.sentence
        # the packet socket of the path test has seen them before the firewall of b
        assert ("a firewall between the hosts on the way back" in found.sentence) == (
            kind == "timeout"
        )
        assert "a firewall between the hosts," not in found.sentence
        assert re.search(
            r", a firewall on the way to b \(\d+ packets? arrived there\)", found.sentence
        )
        (command,) = found.commands
        assert "insert rule inet fence in" in command
        assert f"saddr {plan.client.address} tcp dport {plan.port} accept" in command


async def test_dropped_udp_with_a_tcp_control_connection(both: Pair) -> None:
    load_rule(both, "udp dport 5201 drop")
    found = await failed(both, protocol="udp", bitrate=5_000_000, limits=SHORT_TIMEOUTS)
    assert (found.kind, found.host) == (
        "start",
        "b",
    ) and "may drop UDP to port 5201" in found.sentence
    assert ["tcp dport" in found.commands[0], "udp dport" in found.commands[1]] == [True, True]


async def test_printed_command_opens_the_port_and_closes_it_again(both: Pair) -> None:
    load_rule(both, "tcp dport 5201 reject with tcp reset")
    (command,) = (await failed(both)).commands
    assert "; sleep 121; " in command
    with typed_command(both, command) as shell:
        await asyncio.to_thread(wait_until, lambda: "saddr 198.18.0.1" in rules(both))
        result, _ = await complete_run(both)
        assert result.failure is None and result.goodput
        for pid in sleep_pids(shell.pid):  # the time of the command is over
            os.kill(pid, signal.SIGTERM)
        await asyncio.to_thread(shell.wait, LIMIT)
        assert "saddr" not in rules(both) and "reject with tcp reset" in rules(both)
    assert (await failed(both)).kind == "refused"


@contextmanager
def typed_command(both: Pair, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a root shell on the host of the server; the shell ends with its background
    processes."""
    inside = ["ip", "netns", "exec", both.server.name, "bash", "-c", f"{command} wait"]
    with subprocess.Popen(inside, start_new_session=True) as shell:
        try:
            yield shell
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)


def rules(both: Pair) -> str:
    return both.server.run(["nft", "list", "ruleset"])


def sleep_pids(session: int) -> list[int]:
    """PIDs of the sleep processes of a session."""
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


async def test_prohibit_route_without_a_firewall_of_the_server(both: Pair) -> None:
    """The answer of a router on the path."""
    both.server.run(
        ["sh", "-c", "cd /proc/sys/net/ipv4; echo 1 > ip_forward; echo 1 > ip_nonlocal_bind"]
    )
    both.server.run(["ip", "route", "add", "prohibit", "198.18.9.2"])
    both.client.run(["ip", "route", "add", "198.18.9.2", "via", "198.18.0.2"])
    found = await failed(both, server=both.endpoint("b", address="198.18.9.2"))
    assert (found.kind, found.commands, found.host) == ("prohibited", (), "")
    assert (
        "; excluded: firewall of b (input), firewall of a (output), route of a (by nictopt)"
        in found.sentence
    )
    assert "possible: a router that rejects it or does not reach it" in found.sentence


OUTPUT = """
table inet gate {
  chain out {
    type filter hook output priority 0; policy accept;
    tcp dport 5201 drop
  }
}
"""


async def test_firewall_of_the_client(both: Pair) -> None:
    both.client.run(["nft", "-f", "-"], input=OUTPUT)
    try:
        found = await failed(both, limits=SHORT_TIMEOUTS)
    finally:
        both.client.run(["nft", "flush", "ruleset"])
    assert (found.kind, found.commands) in (("timeout", ()), ("start", ())), found
    assert "; possible: the nftables output chain inet gate out on a, " in found.sentence


async def test_address_of_both_hosts(both: Pair) -> None:
    """The client connects to its own address."""
    link = both.endpoint("a").ifindex
    name = both.hosts["a"].snapshot.links[link or 0].name
    both.client.run(["ip", "address", "add", "198.18.0.2/32", "dev", name])
    try:
        assert await wait_for_link(
            both, "a", lambda one: any(two.address == "198.18.0.2" for two in one.addresses)
        )
        found = await failed(both)
    finally:
        both.client.run(["ip", "address", "del", "198.18.0.2/32", "dev", name])
    assert await wait_for_link(
        both, "a", lambda one: all(two.address != "198.18.0.2" for two in one.addresses)
    )
    assert (found.kind, found.commands) == ("duplicate", ())
    assert found.sentence.startswith(f"198.18.0.2 is an address of a, on {name}, and of b: ")


@pytest.mark.parametrize("host", ["a", "b"])
async def test_arp_is_off(both: Pair, host: str) -> None:
    """On either end; the printed command switches it on, then a run succeeds."""
    namespace = {"a": both.client, "b": both.server}[host]
    name = both.hosts[host].snapshot.links[both.endpoint(host).ifindex or 0].name
    for one in (both.client, both.server):
        one.run(["ip", "neighbour", "flush", "all"])
    namespace.run(["ip", "link", "set", "dev", name, "arp", "off"])
    assert await wait_for_link(both, host, lambda one: bool(one.flags & IFF_NOARP))
    found = await failed(both)
    assert (found.kind, found.host) == ("no_neighbour", host), found
    assert found.sentence.startswith(f"ARP is off on {name} of {host}")
    namespace.run(list(found.commands[0].split()))
    assert await wait_for_link(both, host, lambda one: not one.flags & IFF_NOARP)
    result, _ = await complete_run(both)
    assert result.failure is None and result.goodput


async def wait_for_link(both: Pair, host: str, fact: Callable[[Link], bool]) -> bool:
    """Wait until the inventory of the host shows it."""
    host_, ifindex = both.hosts[host], both.endpoint(host).ifindex or 0
    return await host_.session.until(lambda: fact(host_.snapshot.links[ifindex]), LIMIT)
