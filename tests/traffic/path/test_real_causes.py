"""Causes that a path test names before it says "a firewall" or "not in one network", between real
probes in network namespaces: each fires, and its healthy twin is silent."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import pytest_asyncio

from nictop.report.path import path_text
from nictop.rules.finding import Finding
from nictop.traffic.path.outcomes import outcome_of
from nictop.traffic.path.result import PathReport, PathRequest
from nictop.traffic.path.session import PathSession
from tests.support.namespaces import Namespace, applied, why_no_namespaces
from tests.traffic.pair import LIMIT, WIRE, Pair, add_veth, followed, namespaces, pair, source
from tests.traffic.path.real_paths import (
    ADDRESSES,
    ROUTED,
    SECOND,
    measured,
    only,
    refreshed,
    replies_of,
    routed,
    rule_set,
    run_commands,
    tested,
)

REASON = why_no_namespaces()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Pair]:
    """Two hosts with two veths between them."""
    async with pair(None) as made:
        add_veth(made.client, made.server, wire=SECOND, net=1)
        await made.wait_for_link(SECOND)
        await refreshed(made)
        yield made


def rules_of(report: PathReport) -> list[tuple[str, str]]:
    return [(one.rule, one.host) for one in report.findings]


# ---------------------------------------------------------------------------- filters of the sender


async def test_own_filter_of_all_packets(both: Pair) -> None:
    """EPERM for ICMP and UDP, silence for TCP: nothing between the hosts is named, of the answers
    neither."""
    with rule_set(both.client, "ip daddr 198.18.0.2 drop;", "output"):
        report = await tested(both)
    assert [outcome_of(measured(report), one).kind for one in ("icmp", "udp")] == [
        "blocked",
        "blocked",
    ]
    found = only(report, "path_blocked_here")
    assert rules_of(report) == [("path_blocked_here", "a")] and found.severity == "critical"
    assert found.title == "this host itself does not send to 198.18.0.2 (EPERM)"
    assert any(
        one.what == "output chain" and one.value == "inet t c, policy accept"
        for one in found.evidence
    )
    assert not any(word in f"{found.title} {found.why}" for word in ("router", "bridge", "VLAN"))


async def test_own_filter_of_udp_and_tcp(both: Pair) -> None:
    """The kernel does not report a SYN that the same filter drops: it is not looked for between the
    hosts."""
    with rule_set(both.client, "udp dport 5201 drop; tcp dport 5201 drop;", "output"):
        report = await tested(both, port=5201)
    found = only(report, "path_firewall")
    assert found.title == "a itself does not send UDP port 5201 to b (EPERM); TCP is not answered"


# ---------------------------------------------------------------------------- one address, two hosts


async def test_address_that_the_other_host_also_has(both: Pair) -> None:
    """It answers itself: that is no answer of the other host, and no firewall is named."""
    add, remove = (f"ip address {word} 198.18.0.1/32 dev lo" for word in ("add", "del"))
    with applied(both.server, add, remove):
        await refreshed(both)
        report = await tested(both)
        found = only(report, "path_own_address")
        assert rules_of(report) == [("path_own_address", "b")] and found.severity == "critical"
        assert found.title == "has 198.18.0.1 of a itself: nothing it sends there reaches a"
        assert found.subject == "lo"
    await refreshed(both)
    assert (await tested(both)).findings == ()


# ------------------------------------------------------------------------------------ routes, rules


@pytest.mark.parametrize("kind", ["prohibit", "unreachable", "blackhole"])
@pytest.mark.parametrize("version", [4, 6])
async def test_rule_that_refuses(both: Pair, version: int, kind: str) -> None:
    """By its priority, with the line of ``ip rule``; not as a missing ICMP socket."""
    address = ADDRESSES[version][1]
    rule = f"ip -{version} rule"
    with applied(both.client, f"{rule} add to {address} {kind} pref 77", f"{rule} del pref 77"):
        report = await tested(both, ADDRESSES[version])
    found = only(report, "path_no_route")
    assert found.title == f"routing rule 77 makes {address} (b) {kind}: nothing is sent"
    length = 32 if version == 4 else 128
    assert ("routing rule", f"77: from all to {address}/{length} {kind}") in [
        (one.what, one.value) for one in found.evidence
    ]
    assert str(found.fixes[0].commands[0]) == f"ip -{version} rule show priority 77"
    assert both.client.run(str(found.fixes[0].commands[0]).split()) == "", "it is deleted by now"
    test = measured(report)
    assert "icmp" not in test.unreadable and outcome_of(test, "icmp").kind == "no_route"
    assert (await tested(both, ADDRESSES[version])).findings == ()


async def test_table_that_refuses(both: Pair) -> None:
    with (
        applied(both.client, "ip rule add to 198.18.0.2 lookup 100 pref 78", "ip rule del pref 78"),
        applied(
            both.client,
            "ip route add unreachable 198.18.0.0/30 table 100 proto static",
            "ip route del unreachable 198.18.0.0/30 table 100",
        ),
        applied(
            both.client,
            "ip route add unreachable 198.18.0.2/31 table 101",
            "ip route flush table 101",
        ),
    ):
        report = await tested(both)
    found = only(report, "path_no_route")
    assert found.title == "the route to 198.18.0.2 (b) is of type unreachable: nothing is sent"
    values = {one.what: one.value for one in found.evidence}
    assert values["routing rule"] == "78: from all to 198.18.0.2/32 lookup 100"
    assert values["entry"] == "unreachable 198.18.0.0/30 table 100 proto static"
    assert replies_of(measured(report), "icmp").error == "EHOSTUNREACH"


async def test_selected_nic_is_not_used(both: Pair) -> None:
    """Both directions go by the other NIC. With the addresses of that one nothing is found."""
    one = f"ip route add 198.18.0.2/32 dev {SECOND} src 198.18.0.1"
    other = f"ip route add 198.18.0.1/32 dev {SECOND} src 198.18.0.2"
    with (
        applied(both.client, one, one.replace("add", "del")),
        applied(both.server, other, other.replace("add", "del")),
    ):
        report = await tested(both)
        assert rules_of(report) == [("path_nic_not_used", "a"), ("path_nic_not_used", "b")]
        found = report.findings[0]
        assert (found.subject, found.severity) == (WIRE, "warning"), "the exit code is not 0"
        assert found.title == f"not used: traffic with b goes by another NIC ({SECOND})"
        request = PathRequest("a", "b", SECOND, "198.18.1.1", SECOND, "198.18.1.2")
        sessions = [host.session for host in both.hosts.values()]
        assert (await PathSession(request, sessions, timeout=LIMIT).run()).findings == ()


async def test_nic_of_an_end_is_down() -> None:
    """Named once, though neither direction works; its commands bring the path back."""
    async with pair(None) as made:
        made.server.run(["ip", "link", "set", "dev", WIRE, "down"])
        await refreshed(made)
        report = await tested(made)
        assert rules_of(report) == [("path_nic_down", "b")]
        (found,) = report.findings
        assert (found.subject, found.title) == (WIRE, "administratively down")
        run_commands(made.server, found.fixes[0].commands)
        await refreshed(made)
        await made.wait_for_link(WIRE)
        assert (await tested(made)).findings == ()


# --------------------------------------------------------------------------------------- neighbours


async def test_silent_gateway(both: Pair) -> None:
    """Not the other end but the gateway has no MAC address."""
    with applied(
        both.client, "ip route add 198.18.0.2/32 via 198.18.0.77", "ip route del 198.18.0.2/32"
    ):
        report = await tested(both)
    found = only(report, "path_gateway_silent")
    assert (found.host, found.severity) == ("a", "critical")
    assert found.title == "gateway 198.18.0.77 does not answer ARP"
    assert "path_no_neighbour" not in {one.rule for one in report.findings}
    assert [one.protocol for one in measured(report).replies] == ["icmp", "udp"], (
        "nothing more could leave"
    )


async def test_old_entry_beside_silence(both: Pair) -> None:
    """All packets pass by the known MAC address, and nobody answers ARP: that is a finding. A
    static entry needs no answers."""
    await tested(both)
    ignore = f"sysctl -qw net.ipv4.conf.{WIRE}.arp_ignore"
    with applied(both.server, f"{ignore}=8", f"{ignore}=0"):
        report = await tested(both)
        mac = both.server.run(["cat", f"/sys/class/net/{WIRE}/address"]).strip()
        with applied(
            both.client,
            f"ip neighbour replace 198.18.0.2 lladdr {mac} dev {WIRE} nud permanent",
            f"ip neighbour del 198.18.0.2 dev {WIRE}",
        ):
            static = await tested(both)
    assert outcome_of(measured(report), "udp").kind == "answered" and measured(report).macs == ()
    assert (
        rules_of(report) == [("path_neighbour_unconfirmed", "a")]
        and report.findings[0].severity == "warning"
    )
    assert measured(static).macs == () and static.findings == ()


async def test_arp_that_is_off_at_the_other_end_is_the_cause(both: Pair) -> None:
    """Not another VLAN or a switch port, which would look the same to the sender."""
    off, on = (f"ip link set dev {WIRE} arp {state}" for state in ("off", "on"))
    with applied(both.server, off, on):
        both.client.run(["ip", "neighbour", "flush", "dev", WIRE])
        await refreshed(both)
        report = await tested(both)
    await refreshed(both)
    (found,) = (
        one for one in report.findings if (one.rule, one.host) == ("path_no_neighbour", "a")
    )
    assert found.title == f"no MAC address for 198.18.0.2: ARP is off on b {WIRE}"
    assert [(fix.where, fix.peer) for fix in found.fixes] == [("peer", "b")]
    assert [str(step) for step in found.fixes[0].commands] == [on]


async def test_static_entry_and_a_firewall(both: Pair) -> None:
    """What arrives is not told as a missing neighbour, though nobody answers ARP."""
    ignore = f"sysctl -qw net.ipv4.conf.{WIRE}.arp_ignore"
    mac = both.server.run(["cat", f"/sys/class/net/{WIRE}/address"]).strip()
    with (
        applied(both.server, f"{ignore}=8", f"{ignore}=0"),
        applied(
            both.client,
            f"ip neighbour replace 198.18.0.2 lladdr {mac} dev {WIRE} nud permanent",
            f"ip neighbour del 198.18.0.2 dev {WIRE}",
        ),
        rule_set(both.server, "ip saddr 198.18.0.1 drop;"),
    ):
        report = await tested(both)
    assert ("path_no_answer", "b") in rules_of(report) and (
        "path_no_neighbour",
        "a",
    ) not in rules_of(report)


async def test_packets_for_another_mac_address_are_not_received(both: Pair) -> None:
    """The NIC sees them, and its IP stack drops them: no firewall there is suspected."""
    wrong = "02:00:00:00:00:99"
    with (
        applied(both.client, f"ip link set dev {WIRE} arp off", f"ip link set dev {WIRE} arp on"),
        applied(
            both.client,
            f"ip neighbour replace 198.18.0.2 lladdr {wrong} dev {WIRE} nud permanent",
            f"ip neighbour del 198.18.0.2 dev {WIRE}",
        ),
    ):
        await refreshed(both)
        report = await tested(both)
    await refreshed(both)
    direction = report.result.directions[0]
    listener = direction.listener
    assert listener is not None and listener.arrived == () == listener.delivered
    assert listener.misaddressed
    told = f"  received  nothing: packets at {WIRE} are for another MAC address, and dropped"
    assert told in path_text(report, 120).splitlines()
    (found,) = (one for one in report.findings if (one.rule, one.host) == ("path_lost", "a"))
    assert "come there for another MAC address: it drops them" in found.title
    assert ("sent to", wrong) in [(one.what, one.value) for one in found.evidence]
    assert rules_of(report) == [("path_lost", "a")], "b answers nothing: it receives nothing"
    assert [str(step) for step in found.fixes[0].commands] == [
        f"ip neigh del 198.18.0.2 dev {WIRE}"
    ]


# ------------------------------------------------------------------------- macvlan of the other end


@asynccontextmanager
async def above_one_nic(mode: str, kind: str = "macvlan") -> AsyncIterator[Pair]:
    """Host a has the NIC, host b the macvlan above it."""
    with namespaces() as (client, server), namespaces() as (wire, _):
        client.run(
            ["ip", "link", "add", WIRE, "type", "veth", "peer", "name", "far", "netns", wire.name]
        )
        client.run(["ip", "link", "set", WIRE, "up"])
        wire.run(["ip", "link", "set", "far", "up"])
        if not client.try_link("upper", "link", WIRE, "type", kind, "mode", mode):
            pytest.skip(f"this kernel has no {kind}")
        client.run(["ip", "link", "set", "upper", "netns", server.name])
        server.run(["ip", "link", "set", "upper", "name", WIRE])
        server.run(["ip", "link", "set", WIRE, "up"])
        for number, namespace in enumerate((client, server), 1):
            namespace.run(["ip", "address", "add", f"198.18.0.{number}/24", "dev", WIRE])
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            yield both


@pytest.mark.parametrize("mode", ["bridge", "vepa"])
async def test_macvlan_above_the_other_end(mode: str) -> None:
    """By design; with the printed commands they reach each other."""
    async with above_one_nic(mode) as both:
        report = await tested(both)
        found = only(report, "path_separated")
        assert rules_of(report) == [("path_separated", "a")], report.findings
        assert (found.subject, found.severity) == (WIRE, "critical")
        assert found.title == f"cannot reach the macvlan {WIRE} of b above it"
        for fix in found.fixes:
            run_commands(both.client if fix.where == "here" else both.server, fix.commands)
        await refreshed(both)
        assert outcome_of(measured(await tested(both)), "udp").kind == "answered"


async def test_siblings_of_mode_private() -> None:
    """Two macvlans above one NIC; with the printed command on both they reach each other."""
    with namespaces() as (client, server), namespaces() as (host, _):
        host.run(["ip", "link", "add", "eth", "type", "veth", "peer", "name", "far"])
        for name in ("eth", "far"):
            host.run(["ip", "link", "set", name, "up"])
        for number, namespace in enumerate((client, server), 1):
            if not host.try_link("upper", "link", "eth", "type", "macvlan", "mode", "private"):
                pytest.skip("this kernel has no macvlan")
            host.run(["ip", "link", "set", "upper", "netns", namespace.name])
            namespace.run(["ip", "link", "set", "upper", "name", WIRE])
            namespace.run(["ip", "link", "set", WIRE, "up"])
            namespace.run(["ip", "address", "add", f"198.18.0.{number}/24", "dev", WIRE])
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            report = await tested(both)
            assert [one.rule for one in report.findings] == ["path_separated"] * 2
            for finding, namespace in zip(report.findings, (client, server), strict=True):
                run_commands(namespace, finding.fixes[0].commands)
            await refreshed(both)
            assert (await tested(both)).findings == ()


# ----------------------------------------------------------------------------- only ICMP, and drops


async def test_only_icmp_passes() -> None:
    """A router lets only ICMP pass, in both directions: critical, and it says what is not known."""
    async with routed(1500) as (both, router):
        assert (await tested(both, ROUTED)).findings == ()
        with rule_set(router, "ip protocol { udp, tcp } drop;", "forward"):
            report = await tested(both, ROUTED)
    found = only(report, "path_only_icmp")
    assert rules_of(report) == [("path_only_icmp", "a")] and found.severity == "critical"
    values = {one.what: one.value for one in found.evidence}
    assert (
        values["UDP and TCP at b"] == "0 packets arrived"
        and values["firewall of b"] == "none that filters input"
    )


async def test_firewalls_of_both_ends_are_no_outage(both: Pair) -> None:
    """Both hosts drop what they did not ask for: a random port tells nothing about the path."""
    closed = "ct state established accept; ip protocol { udp, tcp } drop;"
    with rule_set(both.client, closed), rule_set(both.server, closed):
        report = await tested(both)
    assert {one.severity for one in report.findings} == {"info"}, report.findings


async def test_qdisc_of_the_sender_drops(both: Pair) -> None:
    """Its counter names it; nothing between the hosts is guessed."""
    mac = both.server.run(["cat", f"/sys/class/net/{WIRE}/address"]).strip()
    with (
        applied(
            both.client,
            f"ip neighbour replace 198.18.0.2 lladdr {mac} dev {WIRE} nud permanent",
            f"ip neighbour del 198.18.0.2 dev {WIRE}",
        ),
        applied(
            both.client, f"tc qdisc add dev {WIRE} root blackhole", f"tc qdisc del dev {WIRE} root"
        ),
    ):
        report = await tested(both)
    found = only(report, "path_dropped")
    assert (found.host, found.subject, found.severity) == ("a", WIRE, "critical")
    assert "dropped by qdisc blackhole" in found.title and "path_lost" not in {
        one.rule for one in report.findings
    }


@contextmanager
def forwarded(switch: Namespace, ports: tuple[str, str]) -> Iterator[None]:
    """A program that copies frames between two links, and does not complete their checksums."""

    def opened(name: str) -> socket.socket:
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        frames.bind((name, 0))
        return frames

    sockets = switch.call(lambda: tuple(map(opened, ports)))
    ended, end = socket.socketpair()

    def copy() -> None:
        while True:
            readable, _, _ = select.select([*sockets, ended], [], [])
            if ended in readable:
                return
            for one in readable:
                frame, address = one.recvfrom(65536)
                if address[2] != socket.PACKET_OUTGOING:
                    sockets[one is sockets[0]].send(frame)

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        end.send(b"x")
        thread.join()
        for one in (*sockets, ended, end):
            one.close()


async def test_wrong_checksums() -> None:
    """The sender leaves checksums to its NIC, and nothing completes them. The printed command cures
    it."""
    with namespaces() as (client, server), namespaces() as (switch, _):
        for number, host in enumerate((client, server), 1):
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
                    f"port{number}",
                    "netns",
                    switch.name,
                ]
            )
            host.run(["ip", "address", "add", f"198.18.0.{number}/24", "dev", WIRE])
            host.run(["ip", "link", "set", WIRE, "up"])
            switch.run(["ip", "link", "set", f"port{number}", "up"])
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            with forwarded(switch, ("port1", "port2")):
                report = await tested(both)
                found: list[Finding] = [
                    one for one in report.findings if one.rule == "path_checksums_wrong"
                ]
                assert [(one.host, one.severity) for one in found] == [
                    ("a", "critical"),
                    ("b", "critical"),
                ]
                assert (
                    found[0].title == "UDP and TCP to b arrive with wrong checksums and are dropped"
                )
                for finding, namespace in zip(found, (client, server), strict=True):
                    assert "ethtool -K" in str(finding.fixes[0].commands[0])
                    run_commands(namespace, finding.fixes[0].commands)
                await refreshed(both)
                assert not {one.rule for one in (await tested(both)).findings} & {
                    "path_checksums_wrong",
                    "path_only_icmp",
                }
