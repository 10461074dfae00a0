"""Others than its client come to the server of a run: they are refused and told, or iperf3 serves
them and that is told."""

from __future__ import annotations

import shutil
import socket
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from nictop.probe.records import RefusedSender
from nictop.probe.traffic.builtin.handshake import Greeting
from nictop.traffic.record.strangers import (
    expected_client,
    is_stranger,
    refused_texts,
    translated_texts,
)
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import RunEvent, RunFinished, Stage
from nictop.traffic.run.run import run
from tests.traffic.machines import machine, nic
from tests.traffic.pair import Pair, missing_requirement, pair
from tests.traffic.plans import PLAN
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
needs_nat = pytest.mark.skipif(
    shutil.which("nft") is None, reason="the nft command is not installed"
)
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=REASON or "")
STRANGER = "198.18.0.77"


async def run_with(both: Pair, attack: Any, **more: Any) -> tuple[Result, list[RunEvent]]:
    """A run during which `attack` is called with its port, when the server listens and the client
    is not started."""
    both.client.run(["ip", "address", "add", f"{STRANGER}/24", "dev", "nictopt"])
    events: list[RunEvent] = []

    def emit(event: RunEvent) -> None:
        events.append(event)
        if isinstance(event, Stage) and event.name == "listening":
            attack(int(event.sentence.rpartition(" port ")[2]))

    result = await run(both.plan(**more), both.hosts, emit)
    assert events[-1] == RunFinished(result)
    return result, events


def greet(both: Pair, port: int, *, udp: bool) -> None:
    """Three times, without the cookie."""

    def send() -> None:
        for _ in range(3):
            with socket.socket(
                socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
            ) as stranger:
                stranger.bind((STRANGER, 0))
                stranger.connect(("198.18.0.2", port))
                stranger.send(Greeting(bytes(16), 0).packed())
                if not udp:
                    stranger.settimeout(10)
                    assert stranger.recv(10) == b""

    both.client.call(send)


@needs_namespaces
@pytest.mark.parametrize(
    "options",
    [{}, {"direction": "reverse", "streams": 3}, {"protocol": "udp", "bitrate": 20_000_000},
        {"test": "rr"},
     {"test": "crr"}],
    ids=str,
)  # fmt: skip
async def test_refused_greetings_are_told_in_the_result(options: dict[str, Any]) -> None:
    async with pair("200mbit") as both:
        udp = options.get("protocol") == "udp"
        result, _ = await run_with(
            both, lambda port: greet(both, port, udp=udp), generator="builtin", **options
        )
        assert result.failure is None and result.has_carried
        assert [note for note in result.notes if "refused" in note] == [
            f"b: 3 greetings without the run's cookie, from {STRANGER}: refused"
        ]


@needs_namespaces
@pytest.mark.parametrize("direction", ["forward", "reverse"])
async def test_a_foreign_client_of_iperf3_is_told(direction: str) -> None:
    """It takes the place of the client: what it does is not the result of the run."""
    foreign: list[subprocess.Popen[bytes]] = []

    def connect(port: int) -> None:
        words = [
            "iperf3",
            "-c",
            "198.18.0.2",
            "-p",
            str(port),
            "-B",
            STRANGER,
            "-t",
            "20",
            "--forceflush",
        ]
        command = ["ip", "netns", "exec", both.client.name, *words]
        foreign.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert foreign[0].stdout is not None
        while b"connected to" not in foreign[0].stdout.readline():
            assert foreign[0].poll() is None

    async with pair("200mbit") as both:
        try:
            result, _ = await run_with(both, connect, direction=direction)
        finally:
            for one in foreign:
                one.kill()
                one.communicate()
        assert result.failure is not None and not result.has_carried and result.goodput is None
        assert result.failure.sentence == f"iperf3's server served {STRANGER}, not a (198.18.0.1)"
        assert not any(flow.points for flow in result.flows)
        assert both.generators() == []


@needs_namespaces
async def test_a_foreign_connection_that_says_nothing_is_told() -> None:
    """iperf3 waits for it, and for nobody else."""
    silent: list[socket.socket] = []

    def connect(port: int) -> None:
        silent.append(
            both.client.call(
                lambda: socket.create_connection(("198.18.0.2", port), 5, (STRANGER, 0))
            )
        )

    async with pair("200mbit") as both:
        try:
            result, _ = await run_with(both, connect)
        finally:
            for one in silent:
                one.close()
        assert result.failure is not None
        assert result.failure.sentence == f"iperf3's server served {STRANGER}, not a (198.18.0.1)"


@needs_namespaces
async def test_a_port_scan_of_iperf3s_server_is_told() -> None:
    """The server ends after it; that its client is refused then is not the doing of a firewall."""
    async with pair("200mbit") as both:

        def scan(port: int) -> None:
            socket.create_connection(("198.18.0.2", port), 5, (STRANGER, 0)).close()

        def connect(port: int) -> None:
            both.client.call(lambda: scan(port))
            listening = f"grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6"
            both.server.run(["sh", "-c", f"while {listening}; do :; done"])

        result, _ = await run_with(both, connect)
        assert result.failure is not None
        assert result.failure.sentence == (
            "iperf3's server on b had ended when a connected: another connection had come first"
        )


def translate(both: Pair, source: str, to: str) -> None:
    """On the way out of the client's host."""
    rules = "add table ip n; add chain ip n post { type nat hook postrouting priority 100; }"
    both.client.run(["nft", f"{rules}; add rule ip n post ip saddr {source} snat to {to}"])


@needs_namespaces
@needs_nat
@pytest.mark.parametrize(
    "options", [{}, {"test": "rr"}, {"protocol": "udp", "bitrate": 20_000_000}], ids=str
)
async def test_a_translated_client_is_served_and_told(options: dict[str, Any]) -> None:
    """The server cannot know under which address a router shows the client: the cookie decides."""
    async with pair("200mbit") as both:
        both.client.run(["ip", "address", "add", "10.77.0.1/32", "dev", "nictopt"])
        translate(both, "10.77.0.1", "198.18.0.1")
        plan = both.plan(generator="builtin", **options)
        plan = replace(plan, client=replace(plan.client, address="10.77.0.1"))
        result, _ = await complete_run(both, plan=plan)
        assert result.failure is None and result.has_carried
        assert "b saw a as 198.18.0.1, not 10.77.0.1: translated on the way (NAT)" in result.notes


@needs_namespaces
@needs_nat
async def test_another_address_of_the_same_subnet_is_refused_and_told() -> None:
    """Where the server's subnet has the client's address, the cookie alone is not enough."""
    async with pair("200mbit") as both:
        both.client.run(["ip", "address", "add", f"{STRANGER}/24", "dev", "nictopt"])
        translate(both, "198.18.0.1", STRANGER)
        result, _ = await complete_run(both, generator="builtin")
        assert result.failure is not None and not result.has_carried
        assert (
            f"b: 1 greeting with the run's cookie, but from another address than the client's, "
            f"from {STRANGER}: refused" in result.notes
        )


# ------------------------------------------------------------------------------------------- texts


def test_texts_of_refused_senders() -> None:
    refused = [
        RefusedSender("cookie", "192.0.2.7", 2),
        RefusedSender("silent", "192.0.2.7", 1),
        RefusedSender("cookie", "\x1b[2J", 1),
        RefusedSender("cookie", "", 5),
        RefusedSender("address", "198.51.100.1", 1),
    ]
    texts = refused_texts("vm2", refused)
    assert texts[0].startswith("vm2: 8 greetings without the run's cookie, from 192.0.2.7, ")
    assert texts[0].endswith(" and others: refused") and "\x1b" not in texts[0]
    assert texts[1:] == (
        "vm2: 1 connection without a greeting, from 192.0.2.7: refused",
        "vm2: 1 greeting with the run's cookie, but from another address than the client's, from "
        "198.51.100.1: refused",
    )
    many = [RefusedSender("cookie", f"192.0.2.{number}", 1) for number in range(8)]
    assert refused_texts("b", many) == (
        "b: 8 greetings without the run's cookie, from 192.0.2.0, 192.0.2.1, 192.0.2.2, 192.0.2.3 "
        "and others: refused",
    )
    assert refused_texts("b", [RefusedSender("cookie", "", 1)]) == (
        "b: 1 greeting without the run's cookie, from others: refused",
    )


def test_strangers_and_translated_addresses() -> None:
    assert not is_stranger("", "192.0.2.1") and not is_stranger("192.0.2.7", "")
    assert not is_stranger("::ffff:192.0.2.1", "192.0.2.1") and not is_stranger(
        "fe80::1%a", "fe80:0::1%b"
    )
    assert is_stranger("192.0.2.7", "192.0.2.1") and is_stranger("no address", "192.0.2.1")
    address = PLAN.client.address
    assert translated_texts(PLAN, address) == ()
    assert translated_texts(PLAN, "198.51.100.1") == (
        f"b saw a as 198.51.100.1, not {address}: translated on the way (NAT)",
    )


def test_the_address_of_the_client_is_expected_where_no_router_can_translate_it() -> None:
    server = replace(PLAN.server, address="fe80::2%ens5")
    for address, own, expected in (
        ("192.0.2.1", "192.0.2.2", "192.0.2.1"),
        ("192.0.3.1", "192.0.2.2", ""),
        ("fe80::1%ens4", "fe80::2", "fe80::1"),
        ("192.0.2.1", "2001:db8::2", ""),
    ):
        plan = replace(PLAN, client=replace(PLAN.client, address=address), server=server)
        assert expected_client(plan, machine("b", nic(5, "ens5", own))) == expected
        assert expected_client(plan, machine("b", nic(6, "ens6", own))) == "", "of another NIC"
    assert expected_client(PLAN, None) == ""
