"""Path tests between real probes in network namespaces: each kind of broken path is found, and the
printed commands fix it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.records import IcmpError
from nictop.traffic.path.outcomes import outcome_of
from nictop.traffic.path.result import PathRequest
from nictop.traffic.path.session import PathSession
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace, applied, why_no_namespaces
from tests.support.probe import is_helper, wait_until
from tests.traffic.pair import (
    LIMIT,
    RETRY,
    WIRE,
    Pair,
    add_veth,
    followed,
    namespaces,
    pair,
    processes_in,
)
from tests.traffic.path.real_paths import (
    ADDRESSES,
    ROUTED,
    SECOND,
    bridged,
    measured,
    only,
    refreshed,
    replies_of,
    routed,
    rule_set,
    run_commands,
    sizes_of,
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
        yield made


# ------------------------------------------------------------------------------------------ healthy


@pytest.mark.parametrize("version", [4, 6])
async def test_healthy_path(both: Pair, version: int) -> None:
    report = await tested(both, ADDRESSES[version])
    assert report.findings == ()
    for side, direction in enumerate(report.result.directions):
        test = measured(report, side)
        assert [outcome_of(test, one).kind for one in ("icmp", "udp", "tcp")] == ["answered"] * 3
        assert {name: size.largest for name, size in sizes_of(test).items()} == {
            "icmp": 1500,
            "udp": 1500,
        }
        assert replies_of(test, "icmp").method == "raw" and test.packets < 300 and test.seconds < 10
        assert (
            test.macs == (direction.receiver.mac,)
            and test.path is not None
            and test.path.gateway is None
        )
        listener = direction.listener
        assert listener is not None and listener.ended and listener.arrived is not None
        assert {one.protocol for one in listener.arrived} == {"icmp", "udp", "tcp"}
        assert {one.ifindex for one in listener.arrived} == {direction.receiver.ifindex}
        assert [(one.largest, one.hop_limit) for one in listener.delivered] == [(1500, 64)]


async def test_nothing_is_left_behind(both: Pair) -> None:
    await tested(both)
    for namespace in (both.client, both.server):
        assert has_no_socket(namespace)
        await asyncio.to_thread(wait_until, partial(has_only_a_probe, namespace))


def has_no_socket(namespace: Namespace) -> bool:
    return namespace.run(["ss", "-Hanutw"]) == ""


def has_only_a_probe(namespace: Namespace) -> bool:
    """With its helper, and the child that takes its inventories."""
    return len([pid for pid in processes_in(namespace) if not is_helper(pid)]) <= 2


async def test_requested_port(both: Pair) -> None:
    report = await tested(both, port=5201)
    assert [measured(report, side).port for side in (0, 1)] == [
        5201,
        5201,
    ] and report.findings == ()


async def test_port_in_use(both: Pair) -> None:
    """The direction to that host is not tested; the other one is."""
    code = (
        "import socket,sys; s=socket.create_server(('198.18.0.2',5201)); print(flush=True); "
        "sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", both.server.name, sys.executable, "-c", code),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    report = await tested(both, port=5201)
    process.terminate()
    await process.wait()
    there, back = report.result.directions
    assert there.test is None and there.failure == "b: path test failed: Address already in use"
    assert back.test is not None and back.failure == ""


async def test_ordinary_user() -> None:
    """Without CAP_NET_RAW: ICMP where ping_group_range allows it, else the reason, and UDP
    instead."""
    with namespaces() as (client, server):
        add_veth(client, server)
        server.run(["sysctl", "-qw", "net.ipv4.ping_group_range=0 65534"])
        client.run(["sysctl", "-qw", "net.ipv4.ping_group_range=1 0"])
        sources = []
        for name, namespace in (("a", client), ("b", server)):
            limited = [
                "setpriv",
                "--bounding-set=-net_raw",
                *probe_command(sys.executable, "--interval", "0.2"),
            ]
            command = ["ip", "netns", "exec", namespace.name, *limited]
            sources.append(LocalSource(0.2, name=name, command=command, retry=RETRY))
        async with followed(client, server, sources) as both:
            report = await tested(both)
    assert report.findings == ()
    here, there = measured(report, 0), measured(report, 1)
    assert here.unreadable["icmp"].reason == "needs_root"
    assert here.unreadable["icmp"].detail == "net.ipv4.ping_group_range is 1 0"
    assert sizes_of(here).keys() == {"udp"} and replies_of(here, "udp").sent == 100
    assert "icmp" not in there.unreadable and replies_of(there, "icmp").method == "datagram"
    assert sizes_of(there)["icmp"].largest == 1500
    assert here.macs is None and here.unreadable["macs"].reason == "needs_root"
    listener = report.result.directions[0].listener
    assert listener is not None and listener.arrived is None and listener.delivered
    assert listener.unreadable["arrived"].reason == "needs_root"


# ---------------------------------------------------------------------------------------------- MTU


@pytest.mark.parametrize("version", [4, 6])
async def test_smaller_mtu_of_the_other_nic(both: Pair, version: int) -> None:
    """In one subnet no router reports it. With either printed command the finding is gone: which of
    the two MTUs is meant is not known. The first one is that of `check`: the veth passes more."""
    addresses = ADDRESSES[version]
    with applied(both.server, f"ip link set {WIRE} mtu 1400", f"ip link set {WIRE} mtu 1500"):
        await refreshed(both)
        report = await tested(both, addresses)
        found = only(report, "path_mtu_black_hole")
        assert (found.host, found.subject, found.severity) == ("a", WIRE, "warning")
        largest = sizes_of(measured(report))["udp"].largest
        assert (
            largest is not None
            and 1400 <= largest < 1500
            and sizes_of(measured(report))["icmp"].largest == largest
        )
        assert sizes_of(measured(report, 1))["udp"].largest == 1400
        raised, lowered = found.fixes
        titles = [f"Set MTU 1500 on {WIRE}", f"Or set MTU 1400 on {WIRE}"]
        assert [raised.title, lowered.title] == titles
        for fix, namespace in ((raised, both.server), (lowered, both.client)):
            with applied(namespace, str(fix.commands[0]), str(fix.undo[0])):
                await refreshed(both)
                assert (await tested(both, addresses)).findings == ()
    await refreshed(both)


async def test_router_reports_a_smaller_mtu() -> None:
    async with routed() as (both, _):
        report = await tested(both, ROUTED)
        size = sizes_of(measured(report))["udp"]
        assert (size.largest, size.too_big) == (1400, IcmpError(3, 4, "198.18.1.1", 1400))
        found = only(report, "path_mtu_smaller")
        assert (found.host, found.severity, found.fixes) == ("a", "info", ())
        assert found.title == "path MTU to b is 1400 (MTU of this NIC: 1500)"


async def test_black_hole_behind_a_router() -> None:
    """The router's ICMP errors are filtered. With the printed commands on both hosts the findings
    are gone."""
    async with routed() as (both, router):
        with rule_set(router, "icmp type destination-unreachable drop;", "output"):
            report = await tested(both, ROUTED)
            size = sizes_of(measured(report))["udp"]
            assert (size.largest, size.too_big) == (1400, None)
            findings = [one for one in report.findings if one.rule == "path_mtu_black_hole"]
            assert [one.host for one in findings] == ["a", "b"]
            for finding, namespace in zip(findings, (both.client, both.server), strict=True):
                assert [str(line) for line in finding.fixes[0].commands] == [
                    f"ip link set dev {WIRE} mtu 1400"
                ]
                run_commands(namespace, finding.fixes[0].commands)
            await refreshed(both)
            assert (await tested(both, ROUTED)).findings == ()


# ----------------------------------------------------------------------------------------- firewall


@pytest.mark.parametrize(
    ("rules", "kinds", "result"),
    [
        (
            "udp dport 5201 drop; tcp dport 5201 drop;",
            ("silent", "silent"),
            ", and no answer comes back",
        ),
        (
            "udp dport 5201 reject; tcp dport 5201 reject;",
            ("refused", "refused"),
            " and is refused",
        ),
        (
            "udp dport 5201 reject with icmpx type admin-prohibited; "
            "tcp dport 5201 reject with icmpx type admin-prohibited;",
            ("prohibited", "prohibited"),
            " and is prohibited",
        ),
    ],
    ids=["silent", "refused", "prohibited"],
)
@pytest.mark.parametrize("version", [4, 6])
async def test_firewall_of_the_receiver(
    both: Pair, rules: str, kinds: tuple[str, str], result: str, version: int
) -> None:
    """Only new packets are filtered, as by every usual rule set."""
    with rule_set(both.server, f"ct state established accept; {rules}"):
        report = await tested(both, ADDRESSES[version], port=5201)
    test = measured(report)
    assert (outcome_of(test, "udp").kind, outcome_of(test, "tcp").kind) == kinds
    assert (
        outcome_of(test, "icmp").kind == "answered"
        and outcome_of(measured(report, 1), "udp").kind == "answered"
    )
    found = only(report, "path_firewall")
    assert (found.host, found.subject, found.severity) == ("b", WIRE, "warning")
    assert found.title == f"UDP and TCP port 5201 from a arrives at b{result}"
    assert "Possible: a firewall of b" in found.why and found.fixes[0].persistent is None
    assert [str(line)[:11] for fix in found.fixes for line in fix.commands] == ["(trap '' HU"] * 2


async def test_icmp_echo_is_filtered(both: Pair) -> None:
    with rule_set(both.server, "icmp type echo-request drop;"):
        report = await tested(both)
    assert outcome_of(measured(report), "icmp").kind == "silent" and sizes_of(
        measured(report)
    ).keys() == {"udp"}
    found = only(report, "path_firewall_icmp")
    assert (found.host, found.severity) == ("b", "info")


async def test_own_firewall_blocks(both: Pair) -> None:
    with rule_set(both.client, "udp dport 5201 drop;", "output"):
        report = await tested(both, port=5201)
    assert outcome_of(measured(report), "udp").kind == "blocked"
    assert (
        only(report, "path_firewall").title == "a itself does not send UDP port 5201 to b (EPERM)"
    )


async def test_answers_are_dropped(both: Pair) -> None:
    """A rule set without connection tracking: datagrams arrive, their answers do not."""
    with rule_set(both.client, "udp sport 5201 udp dport != 5201 drop;"):
        report = await tested(both, port=5201)
    found = only(report, "path_firewall")
    title = "the answers of b over UDP arrive here and are dropped"
    assert (found.host, found.title) == ("a", title)


@pytest.mark.parametrize("version", [4, 6])
async def test_echo_replies_are_dropped(both: Pair, version: int) -> None:
    """By the firewall of the host that asks: the other end has answered all, which its counter
    shows."""
    kind = "icmp type" if version == 4 else "icmpv6 type"
    with rule_set(both.client, f"{kind} echo-reply drop;"):
        report = await tested(both, ADDRESSES[version])
    found = only(report, "path_firewall_icmp")
    title = "the answers of b to ICMP echo arrive here and are dropped"
    assert (found.host, found.title) == ("a", title)
    listener = report.result.directions[0].listener
    assert listener is not None and (listener.echo_replies or 0) >= 10


async def test_everything_is_dropped(both: Pair) -> None:
    """By the receiver's firewall: its packet socket sees what arrives."""
    with rule_set(
        both.server, "icmp type echo-request drop; udp dport > 0 drop; tcp dport > 0 drop;"
    ):
        report = await tested(both)
    found = [one for one in report.findings if one.severity == "critical"]
    assert [(one.rule, one.host) for one in found] == [("path_no_answer", "b")], found


async def test_packets_are_lost_between(both: Pair) -> None:
    """By a router or bridge without an answer: nothing arrives at the receiver."""
    async with routed() as (three, router):
        with rule_set(router, "ip daddr 198.18.2.2 drop;", "forward"):
            report = await tested(three, ROUTED)
    assert [(one.rule, one.host) for one in report.findings if one.rule == "path_lost"] == [
        ("path_lost", "a")
    ]


# ------------------------------------------------------------------------------- routes, neighbours


@pytest.mark.parametrize("kind", ["prohibit", "unreachable", "blackhole"])
@pytest.mark.parametrize("version", [4, 6])
async def test_discarding_route(both: Pair, kind: str, version: int) -> None:
    address = ADDRESSES[version][1]
    with applied(both.client, f"ip route add {kind} {address}", f"ip route del {kind} {address}"):
        report = await tested(both, ADDRESSES[version])
    found = only(report, "path_no_route")
    assert (
        found.host == "a"
        and found.title == f"the route to {address} (b) is of type {kind}: nothing is sent"
    )
    assert str(found.fixes[0].commands[0]) == f"ip -{version} route show table all type {kind}"


async def test_asymmetric_path_with_rp_filter(both: Pair) -> None:
    """The route back leaves by another NIC. With the printed command it is only asymmetric."""
    rp_filter = f"net.ipv4.conf.{WIRE}.rp_filter"
    with (
        applied(both.server, f"sysctl -qw {rp_filter}=1", f"sysctl -qw {rp_filter}=0"),
        applied(
            both.server,
            f"ip route add 198.18.0.1/32 dev {SECOND} src 198.18.0.2",
            f"ip route del 198.18.0.1/32 dev {SECOND}",
        ),
    ):
        await refreshed(both)
        report = await tested(both)
        found = only(report, "path_rp_filter")
        assert (found.host, found.subject, found.severity) == ("b", WIRE, "critical")
        assert [one.rule for one in report.findings] == ["path_rp_filter"]
        assert [str(line) for line in found.fixes[0].commands] == [f"sysctl -w {rp_filter}=2"]
        run_commands(both.server, found.fixes[0].commands)
        await refreshed(both)
        report = await tested(both)
        assert "path_rp_filter" not in {one.rule for one in report.findings}
        assert only(report, "path_asymmetric").host == "b"
    await refreshed(both)


async def test_rp_filter_counts_what_it_drops(both: Pair) -> None:
    """With a neighbour entry the packets arrive, and the kernel counts them."""
    rp_filter = f"net.ipv4.conf.{WIRE}.rp_filter"
    mac = both.server.run(["cat", f"/sys/class/net/{WIRE}/address"]).strip()
    with (
        applied(both.server, f"sysctl -qw {rp_filter}=1", f"sysctl -qw {rp_filter}=0"),
        applied(
            both.server,
            f"ip route add 198.18.0.1/32 dev {SECOND} src 198.18.0.2",
            f"ip route del 198.18.0.1/32 dev {SECOND}",
        ),
        applied(
            both.client,
            f"ip neighbour replace 198.18.0.2 lladdr {mac} dev {WIRE}",
            f"ip neighbour del 198.18.0.2 dev {WIRE}",
        ),
    ):
        await refreshed(both)
        report = await tested(both)
        listener = report.result.directions[0].listener
        assert listener is not None and (listener.rp_filter_drops or 0) >= 10
        found = only(report, "path_rp_filter")
        assert found.evidence[-1].what == "dropped during the test"
    await refreshed(both)


async def test_nobody_answers(both: Pair) -> None:
    """If only one host answered, the other one would learn its MAC address from its requests."""
    ignore = f"sysctl -qw net.ipv4.conf.{WIRE}.arp_ignore"
    with (
        applied(both.client, f"{ignore}=8", f"{ignore}=0"),
        applied(both.server, f"{ignore}=8", f"{ignore}=0"),
    ):
        for namespace in (both.client, both.server):
            namespace.run(["ip", "neighbour", "flush", "all"])
        report = await tested(both)
    found = [(one.rule, one.host, one.title) for one in report.findings]
    assert found == [
        ("path_no_neighbour", "a", "no MAC address for 198.18.0.2: no answer to ARP"),
        ("path_no_neighbour", "b", "no MAC address for 198.18.0.1: no answer to ARP"),
    ]


@pytest.mark.parametrize("version", [4, 6])
async def test_duplicate_address(version: int) -> None:
    address = ADDRESSES[version][1]
    length, nodad = (24, "") if version == 4 else (64, " nodad")
    async with bridged() as (both, third, _):
        assert (await tested(both, ADDRESSES[version])).findings == ()
        with applied(
            third,
            f"ip address add {address}/{length} dev {WIRE}{nodad}",
            f"ip address del {address}/{length} dev {WIRE}",
        ):
            report = await tested(both, ADDRESSES[version])
        found = only(report, "path_duplicate_address")
        assert (found.host, found.severity) == ("a", "critical")
        assert found.title == (
            f"2 MAC addresses answer for {address}: duplicate address, or proxy ARP"
        )
        other = third.run(["cat", f"/sys/class/net/{WIRE}/address"]).strip()
        texts = [one.value for one in found.evidence]
        assert f"{other} (not a watched NIC)" in texts and any(
            f"(b {WIRE})" in text for text in texts
        )


async def test_arp_flux() -> None:
    """A second NIC of the host in the same segment answers for the address of the first."""
    async with bridged() as (both, _, switch):
        both.server.run(
            [
                "ip",
                "link",
                "add",
                SECOND,
                "type",
                "veth",
                "peer",
                "name",
                "port9",
                "netns",
                switch.name,
            ]
        )
        switch.run(["ip", "link", "set", "port9", "master", "br0", "up"])
        both.server.run(["ip", "link", "set", SECOND, "up"])
        both.server.run(["ip", "address", "add", "198.18.0.9/24", "dev", SECOND])
        await both.hosts["b"].session.until(
            lambda: any(link.name == SECOND for link in both.hosts["b"].snapshot.links.values()),
            LIMIT,
        )
        await refreshed(both)
        found = only(await tested(both), "path_arp_flux")
        assert (found.host, found.subject, found.severity) == ("b", WIRE, "warning")
        run_commands(both.server, tuple(line for fix in found.fixes[::2] for line in fix.commands))
        assert [one.rule for one in (await tested(both)).findings] == []


# -------------------------------------------------------------------------------------- interrupted

STAGES = ("starting a listener on both hosts", "testing both directions")


@kill_matrix(STAGES, ("cancelled", "probe of a killed", "probe of b killed"))
async def test_interrupted(both: Pair, stage: str, kill: int, variant: str) -> None:
    """Nothing is left on either host."""
    for host in both.hosts.values():
        assert await host.session.until(lambda host=host: host.snapshot.state == "live", LIMIT)  # type: ignore[misc]
    reached = asyncio.Event()

    def progress(sentence: str) -> None:
        if sentence == stage:
            reached.set()

    request = PathRequest("a", "b", WIRE, ADDRESSES[4][0], WIRE, ADDRESSES[4][1])
    session = PathSession(request, [host.session for host in both.hosts.values()], timeout=LIMIT)
    task = asyncio.ensure_future(session.run(progress))
    await reached.wait()
    if variant == "cancelled":
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        name = variant.split()[2]
        (pid,) = both.sources[name].pids
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(HostUnreachable, match=f"^{name}: "):
            await task
    for host in both.hosts.values():
        assert await host.session.until(lambda host=host: host.snapshot.state == "live", LIMIT)  # type: ignore[misc]
    for namespace in (both.client, both.server):
        await asyncio.to_thread(wait_until, partial(has_no_socket, namespace))


async def test_request_that_means_no_pair(both: Pair) -> None:
    request = PathRequest("a", "b", "wrong")
    with pytest.raises(NictopError, match='a has no NIC "wrong"') as caught:
        await PathSession(
            request, [host.session for host in both.hosts.values()], timeout=LIMIT
        ).run()
    assert caught.value.hint.startswith(f"--nic {WIRE} (")
