"""A listening socket of a test answers nobody but the other end: who has no cookie, or another
address, gets no byte, and is counted."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.records import TrafficLine
from nictop.probe.traffic import greetings
from nictop.probe.traffic.builtin import floor
from nictop.probe.traffic.builtin.handshake import (
    ANSWER_GO,
    CHALLENGE,
    GREETING,
    TOKEN_BYTES,
    Greeting,
    parse_challenge,
)
from nictop.probe.traffic.greetings import (
    MAX_REFUSED_ADDRESSES,
    NO_GREETING,
    WRONG_ADDRESS,
    WRONG_COOKIE,
    ExpectedPeer,
    RefusedSenders,
)
from nictop.probe.traffic.path_test.packets import ANSWER, REQUEST, datagram, parse_datagram
from tests.support import namespaces
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, Probe
from tests.support.traffic import COOKIE, PORT, lines_until, next_line, of_kind, start_request

NO_NAMESPACES = namespaces.why_no_namespaces()
RIGHT, WRONG = bytes.fromhex(COOKIE), bytes(16)
SERVER, CLIENT, STRANGER, VICTIM = "127.0.0.2", "127.0.0.1", "127.0.0.66", "127.0.0.9"
SILENCE = 0.3
"""Seconds for which a stranger waits for an answer: one over loopback takes less than a
millisecond."""


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    if NO_NAMESPACES:
        pytest.skip(NO_NAMESPACES)
    made = Namespace()
    yield made
    made.remove()


@pytest.fixture
def probe(namespace: Namespace) -> Iterator[Probe]:
    with Probe("--interval", "60", namespace=namespace) as made:
        yield made


def start_server(
    probe: Probe, *arguments: str, address: str | None = SERVER, peer: str = CLIENT
) -> None:
    probe.send(start_request("server", "builtin", *arguments, address=address, peer=peer))
    assert lines_until(probe, "server", "listening", "failed", "exit")[-1].kind == "listening"


def run_client(probe: Probe, *arguments: str, address: str = SERVER, bind: str = CLIENT) -> Any:
    """What the client and the server reported at the end, and whom the server refused."""
    probe.send(start_request("client", "builtin", *arguments, "--bind", bind, address=address))
    ended: dict[str, list[TrafficLine]] = {"client": [], "server": []}

    def is_over(line: Any) -> bool:
        if line.traffic is not None and line.traffic.id in ended:
            ended[line.traffic.id].append(line.traffic)
        return all(lines and lines[-1].kind == "exit" for lines in ended.values())

    probe.wait_for(is_over)
    reports = {
        name: [json.loads(one.text) for one in lines if one.kind == "output"]
        for name, lines in ended.items()
    }
    assert [reports[name][-1]["event"] for name in reports] == ["end", "end"], reports
    return reports["client"][-1], reports["server"][-1], refused(reports["server"])


def refused(reports: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """(reason, address) → count"""
    senders = [
        one for report in reports if report["event"] == "refused" for one in report["senders"]
    ]
    return {(one["reason"], one["address"]): one["count"] for one in senders}


def greeted(source: str, cookie: bytes, *, address: str = SERVER) -> bytes:
    """What a client with that cookie gets over TCP until the server closes the connection, or is
    silent."""
    with socket.create_connection((address, PORT), 5, (source, 0)) as connection:
        connection.sendall(Greeting(cookie, 0).packed())
        return received(connection)


def received(connection: socket.socket) -> bytes:
    data = b""
    connection.settimeout(SILENCE)
    try:
        while chunk := connection.recv(65536):
            data += chunk
    except (TimeoutError, ConnectionResetError):
        pass
    return data


@pytest.mark.parametrize(
    "test", [(), ("--reverse",), ("--test", "rr"), ("--test", "crr"), ("--streams", "3")], ids=str
)
@pytest.mark.parametrize("bound", [SERVER, None], ids=["one address", "any address"])
def test_strangers_get_no_byte_over_tcp(
    namespace: Namespace, probe: Probe, test: tuple[str, ...], bound: str | None
) -> None:
    """Whatever the first connection sends: the run is that of the client with the cookie."""
    arguments = (*test, "--time", "0.2")
    start_server(probe, *arguments, address=bound)

    def attack() -> list[bytes]:
        with socket.create_connection((SERVER, PORT), 5, (STRANGER, 0)):
            pass  # a port scan
        return [
            greeted(CLIENT, WRONG),
            greeted(STRANGER, RIGHT),
            greeted(STRANGER, WRONG),
            greeted(STRANGER, WRONG),
        ]

    assert namespace.call(attack) == [b""] * 4
    client, server, found = run_client(probe, *arguments)
    moved = "transactions" if "--test" in test else "bytes"
    assert client[moved] > 0 < server[moved]
    assert found == {
        (NO_GREETING, STRANGER): 1,
        (WRONG_COOKIE, CLIENT): 1,
        (WRONG_ADDRESS, STRANGER): 1,
        (WRONG_COOKIE, STRANGER): 2,
    }


def test_strangers_get_no_byte_over_ipv6(namespace: Namespace, probe: Probe) -> None:
    arguments = ("--time", "0.2", "--reverse")
    start_server(probe, *arguments, address="::1", peer="::1")
    assert namespace.call(lambda: greeted("::1", WRONG, address="::1")) == b""
    client, _, found = run_client(probe, *arguments, address="::1", bind="::1")
    assert client["bytes"] > 0 and found == {(WRONG_COOKIE, "::1"): 1}


def test_many_silent_connections_leave_room_for_the_client(
    namespace: Namespace, probe: Probe
) -> None:
    """More than the server keeps at once, of all connections without a greeting."""
    start_server(probe, "--time", "0.2")

    def connect_many() -> list[socket.socket]:
        return [socket.create_connection((SERVER, PORT), 5, (STRANGER, 0)) for _ in range(300)]

    silent = namespace.call(connect_many)
    try:
        client, _, found = run_client(probe, "--time", "0.2")
    finally:
        for one in silent:
            one.close()
    assert client["bytes"] > 0 and found[NO_GREETING, STRANGER] >= 200


def test_the_server_does_what_its_own_options_say(namespace: Namespace, probe: Probe) -> None:
    """Whoever has the cookie cannot make it send."""
    start_server(probe, "--time", "0.2")

    def greet() -> bytes:
        with socket.create_connection((SERVER, PORT), 5, (CLIENT, 0)) as connection:
            connection.sendall(Greeting(RIGHT, 0).packed())
            connection.sendall(b"x" * 100)
            return received(connection)

    assert namespace.call(greet) == ANSWER_GO
    [end] = [
        json.loads(one.text)
        for one in lines_until(probe, "server", "exit")
        if '"event":"end"' in one.text
    ]
    assert end["bytes"] == 100


def send_forged(source: tuple[str, int], payload: bytes) -> None:
    """A datagram to the server in the name of another sender."""
    udp = struct.pack(">HHHH", source[1], PORT, 8 + len(payload), 0) + payload
    addresses = socket.inet_aton(source[0]), socket.inet_aton(SERVER)
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, *addresses)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(header + udp, (SERVER, 0))


@pytest.mark.parametrize(
    "test", [(), ("--reverse",), ("--test", "rr"), ("--streams", "3")], ids=str
)
def test_strangers_get_no_byte_over_udp(
    namespace: Namespace, probe: Probe, test: tuple[str, ...]
) -> None:
    """Nor does anybody in whose name they send: without the cookie nothing is sent, with it no more
    than was received, until who receives it has answered."""
    arguments = (*test, "--udp", "--bitrate", "20M", "--time", "0.2")
    arguments = tuple(
        word for word in arguments if "rr" not in test or word not in ("--bitrate", "20M")
    )
    start_server(probe, *arguments)
    greeting = Greeting(RIGHT, 0).packed()

    def attack() -> list[bytes]:
        answers = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as victim:
            victim.bind((VICTIM, 0))
            for payload in (Greeting(WRONG, 0).packed(), greeting, b"x" * 2000):
                send_forged(victim.getsockname(), payload)
            answers.append(received(victim))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind((CLIENT, 0))
            send_forged(client.getsockname(), Greeting(WRONG, 0).packed())
            answers.append(received(client))
            for _ in range(3):  # the cookie, the address, but not the token
                send_forged(
                    client.getsockname(), Greeting(RIGHT, 0, os.urandom(TOKEN_BYTES)).packed()
                )
            answers.append(received(client))
        return answers

    to_victim, without_cookie, challenges = namespace.call(attack)
    assert to_victim == without_cookie == b""
    assert len(challenges) == 3 * CHALLENGE.size < 3 * GREETING.size and parse_challenge(
        challenges[: CHALLENGE.size]
    )
    client, server, found = run_client(probe, *arguments)
    moved = "transactions" if "rr" in test else "bytes"
    assert client[moved] > 0 < server[moved]
    assert found == {
        (WRONG_COOKIE, VICTIM): 2,
        (WRONG_ADDRESS, VICTIM): 1,
        (WRONG_COOKIE, CLIENT): 1,
    }


def test_no_other_process_shares_the_port(namespace: Namespace, probe: Probe) -> None:
    """It would get the greetings of the client, and the cookie in them. Neither before nor during a
    run."""
    arguments = ("--udp", "--bitrate", "20M", "--streams", "3", "--time", "1")
    start_server(probe, *arguments)

    def bind() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="Address already in use"):
                other.bind((SERVER, PORT))

    namespace.call(bind)
    probe.send(start_request("client", "builtin", *arguments, "--bind", CLIENT, address=SERVER))
    probe.wait_for(of_kind("output", name="client"))
    namespace.call(bind)
    reports = [
        json.loads(one.text) for one in lines_until(probe, "server", "exit") if one.kind == "output"
    ]
    assert reports[-1]["event"] == "end" and all(reports[-1]["streams"])


def test_each_transaction_with_its_own_connection_has_the_cookie(
    namespace: Namespace, probe: Probe
) -> None:
    """Another program on the client's host, or elsewhere, gets no response."""
    arguments = ("--test", "crr", "--time", "1", "--response", "1000")
    start_server(probe, *arguments)
    probe.send(start_request("client", "builtin", *arguments, "--bind", CLIENT, address=SERVER))
    probe.wait_for(of_kind("output", name="client"))

    def attack() -> list[bytes]:
        answers = []
        for source, request in (
            (CLIENT, bytes(64)),
            (STRANGER, RIGHT + bytes(48)),
            (CLIENT, RIGHT + bytes(48)),
        ):
            with socket.create_connection((SERVER, PORT), 5, (source, 0)) as connection:
                connection.sendall(request)
                answers.append(received(connection))
        return answers

    assert [len(answer) for answer in namespace.call(attack)] == [0, 0, 1000]
    reports = [
        json.loads(one.text) for one in lines_until(probe, "server", "exit") if one.kind == "output"
    ]
    assert reports[-1]["event"] == "end"
    counts = refused(reports)
    assert sum(counts.values()) == 2 and {reason for reason, _ in counts} == {WRONG_COOKIE}


def test_who_was_refused_is_told_when_the_server_is_stopped(
    namespace: Namespace, probe: Probe
) -> None:
    start_server(probe)
    namespace.call(lambda: greeted(STRANGER, WRONG))
    probe.send({"traffic": {"id": "server", "action": "stop"}})
    lines = lines_until(probe, "server", "exit")
    assert refused([json.loads(one.text) for one in lines if one.kind == "output"]) == {
        (WRONG_COOKIE, STRANGER): 1
    }
    assert lines[-1].signal == 15


def test_the_cookie_is_nowhere_to_be_seen(probe: Probe) -> None:
    """Neither in the processes of the host (ps) nor in what the probe sends."""
    probe.send(start_request("server", "builtin", address=SERVER, peer=CLIENT))
    lines = lines_until(probe, "server", "listening", "failed")
    assert lines[-1].kind == "listening" and COOKIE not in repr(lines)
    for pid in (lines[0].pid, probe.process.pid):
        for name in ("cmdline", "environ"):
            assert COOKIE.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    probe.send({"traffic": {"id": "server", "action": "stop"}})
    assert COOKIE not in repr(lines_until(probe, "server", "exit"))


@pytest.mark.parametrize("cookie", [None, "", "0" * 31, "g" * 32, 7])
def test_no_generator_starts_without_a_cookie(probe: Probe, cookie: object) -> None:
    for role in ("server", "client"):
        probe.send(start_request(role, "builtin", address=SERVER, cookie=cookie))
        assert "cookie is not" in next_line(probe, "failed", name=role).text
    probe.send(start_request("server", "builtin", address=SERVER, peer="vm1"))
    assert "peer is not" in next_line(probe, "failed").text


# ---------------------------------------------------------------------------------------- path test


def test_path_listener_answers_its_other_end_only(namespace: Namespace, probe: Probe) -> None:
    """A stranger's datagrams and connections neither get a byte nor use up what the listener
    reads."""
    fields = {
        "address": CLIENT,
        "source": SERVER,
        "port": 0,
        "ifindex": 1,
        "cookie": COOKIE,
        "deadline": 20.0,
    }
    probe.send({"traffic": {"id": "listener", "action": "path_listen", **fields}})
    port = _listener(next_line(probe, "path_listener")).port

    def ask() -> list[bytes]:
        answers = []
        for source, cookie in (
            (STRANGER, RIGHT),
            (STRANGER, WRONG),
            (CLIENT, WRONG),
            (CLIENT, RIGHT),
        ):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.bind((source, 0))
                asking.sendto(datagram(REQUEST, cookie, 5, 60), (SERVER, port))
                answers.append(received(asking))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
            flood.connect((SERVER, port))
            for _ in range(6000):
                flood.send(b"x")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.bind((CLIENT, 0))
            for _ in range(20):  # the flood may have filled the socket's buffer
                asking.sendto(datagram(REQUEST, RIGHT, 6), (SERVER, port))
                if answer := received(asking):
                    break
            answers.append(answer)
        with socket.create_connection((SERVER, port), 5, (STRANGER, 0)) as connection:
            connection.settimeout(TEST_TIMEOUT)
            answers.append(connection.recv(10))  # until it is closed
        return answers

    *silent, first, second, connected = namespace.call(ask)
    assert silent == [b"", b"", b""] and connected == b""
    assert parse_datagram(first, ANSWER, RIGHT) == 5 and parse_datagram(second, ANSWER, RIGHT) == 6
    probe.send({"traffic": {"id": "listener", "action": "stop"}})
    found = {
        (one.reason, one.address): one.count
        for one in _listener(next_line(probe, "path_listener")).refused
    }
    assert found.pop((WRONG_COOKIE, CLIENT)) > 100
    assert found == {
        (WRONG_ADDRESS, STRANGER): 1,
        (WRONG_COOKIE, STRANGER): 1,
        (NO_GREETING, STRANGER): 1,
    }


def _listener(line: TrafficLine) -> Any:
    assert line.path_listener is not None
    return line.path_listener


# ------------------------------------------------------------------------------------------- parts


def test_cookies_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, by the function of hmac."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(greetings, "_compare_digest", compare)
    peer = ExpectedPeer(RIGHT, CLIENT)
    assert (
        peer.accepts(RIGHT, CLIENT)
        and not peer.accepts(WRONG, CLIENT)
        and not peer.accepts(RIGHT, STRANGER)
    )
    assert parse_datagram(datagram(REQUEST, RIGHT, 1), REQUEST, RIGHT) == 1
    assert compared == [(RIGHT, RIGHT), (WRONG, RIGHT), (RIGHT, RIGHT), (RIGHT, RIGHT)]


@pytest.mark.parametrize(
    ("expected", "sender", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8:0::1", "2001:db8::1", True),
        ("fe80::1%ens3", "fe80::1%ens4", True),
        ("2001:db8::1", "192.0.2.1", False),
        ("", "198.51.100.9", True),
    ],
)
def test_address_of_the_other_end(expected: str, sender: str, is_same: bool) -> None:
    assert ExpectedPeer(RIGHT, expected).is_address(sender) is is_same


def test_refused_senders_are_bounded() -> None:
    counted = RefusedSenders()
    for number in range(1000):
        counted.add(WRONG_COOKIE, f"::ffff:10.0.{number // 250}.{number % 250}")
    found = counted.fields()
    assert len(found) == MAX_REFUSED_ADDRESSES + 1 and sum(one["count"] for one in found) == 1000
    assert found[0]["address"] == "10.0.0.0" and found[-1]["address"] == ""


def test_the_generator_alone_is_not_taken_over_by_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the same host, which connects to its listener on loopback first."""
    with socket.create_server((CLIENT, 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        client = socket.create_connection(listener.getsockname())
        with other, client, floor.accept_from(listener, client.getsockname()) as server:
            assert server.getpeername() == client.getsockname()
            assert other.recv(10) == b""
