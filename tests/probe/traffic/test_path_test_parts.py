"""Parts of a path test: requests, packets, ICMP errors, neighbour replies, the search for the
largest packet."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import IcmpError, PathReplies
from nictop.probe.traffic.greetings import packed_address
from nictop.probe.traffic.path_test.echo import Echo, UdpEcho
from nictop.probe.traffic.path_test.icmp_errors import (
    EXTENDED_ERROR,
    is_too_big,
    parse_extended_error,
)
from nictop.probe.traffic.path_test.listener import (
    attach_filter,
    is_answer_packet,
    packet_filter,
    parse_ancillary,
    parse_packet,
    read_echo_replies,
)
from nictop.probe.traffic.path_test.neighbours import (
    ARP,
    ND,
    arp_request,
    neighbour_solicitation,
    parse_advertisement,
    parse_arp_reply,
)
from nictop.probe.traffic.path_test.packets import (
    ANSWER,
    ICMP_HEADER,
    REQUEST,
    checksum,
    datagram,
    echo_request,
    parse_datagram,
    parse_echo_reply,
)
from nictop.probe.traffic.path_test.sizes import largest_passing
from nictop.probe.traffic.path_test.tester import SHORT, search_size, socket_address
from nictop.probe.traffic.requests import TrafficCommand

COOKIE = bytes(range(16))
MAC = bytes.fromhex("525400aabbcc")
REQUEST_FIELDS: dict[str, Any] = {
    "id": "t", "action": "path_test", "address": "192.0.2.2", "source": "192.0.2.1", "port": 5201,
    "cookie": COOKIE.hex(), "deadline": 60.0, "ifindex": 3,
}  # fmt: skip


# ----------------------------------------------------------------------------------------- requests


def test_valid_requests() -> None:
    command = TrafficCommand(REQUEST_FIELDS)
    assert (command.port, command.cookie, command.deadline, command.ifindex) == (
        5201,
        COOKIE.hex(),
        60.0,
        3,
    )
    assert TrafficCommand(REQUEST_FIELDS | {"action": "path_listen", "port": 0}).port == 0


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"cookie": "0" * 31}, "cookie is not 32 hexadecimal digits"),
        ({"cookie": None}, "cookie is not 32 hexadecimal digits"),
        ({"port": 0}, "port is not a number from 1 to 65535"),
        ({"port": True}, "port is not a number from 1 to 65535"),
        ({"deadline": 241}, "deadline is not a number of seconds above 0 and up to 240"),
        ({"address": "vm2"}, "address and source are not two numeric addresses of one IP version"),
        (
            {"source": "fd00::1"},
            "address and source are not two numeric addresses of one IP version",
        ),
        ({"action": "path_listen", "port": -1}, "port is not a number from 0 to 65535"),
    ],
)
def test_invalid_requests(changed: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        TrafficCommand(REQUEST_FIELDS | changed)


# ------------------------------------------------------------------------------------------ packets


@pytest.mark.parametrize("size", [24, 56, 57, 1472])
def test_echo_request(size: int) -> None:
    message = echo_request(socket.AF_INET, COOKIE, 7, 513, size)
    assert len(message) == size and checksum(message) == 0
    kind, code, _, identifier, sequence = ICMP_HEADER.unpack_from(message)
    assert (kind, code, identifier, sequence) == (8, 0, 7, 513)
    assert parse_echo_reply(socket.AF_INET, message, COOKIE) is None, "a request is no reply"
    reply = ICMP_HEADER.pack(0, 0, 0, 7, 513) + message[8:]
    assert parse_echo_reply(socket.AF_INET, reply, COOKIE) == 513
    assert parse_echo_reply(socket.AF_INET, bytes([0x45]) + bytes(19) + reply, COOKIE) == 513
    assert parse_echo_reply(socket.AF_INET, reply, COOKIE[::-1]) is None
    six = echo_request(socket.AF_INET6, COOKIE, 7, 2, size)
    assert parse_echo_reply(socket.AF_INET6, bytes([129]) + six[1:], COOKIE) == 2


def test_datagram() -> None:
    payload = datagram(REQUEST, COOKIE, 70000, 100)
    assert len(payload) == 100 and parse_datagram(payload, REQUEST, COOKIE) == 70000
    assert (
        parse_datagram(payload, ANSWER, COOKIE) is None
        and parse_datagram(payload, REQUEST, bytes(16)) is None
    )
    assert len(datagram(ANSWER, COOKIE, 1)) <= len(datagram(REQUEST, COOKIE, 1))


@given(st.binary(max_size=80))
def test_any_bytes_are_parsed(data: bytes) -> None:
    """Malformed packets give None, never an exception."""
    for family in (socket.AF_INET, socket.AF_INET6):
        assert parse_echo_reply(family, data, COOKIE) is None
        parse_packet(data, family)
    assert parse_datagram(data, REQUEST, COOKIE) is None
    assert parse_arp_reply(data, socket.inet_aton("192.0.2.2")) is None
    assert parse_advertisement(data, socket.inet_pton(socket.AF_INET6, "fd00::2")) is None
    parse_extended_error(data)
    parse_ancillary([(0, 8, data), (41, 50, data), (0, 2, data)])


def test_received_packet() -> None:
    four = bytes.fromhex("45000054 00004000 40110000 c0000201 c0000202".replace(" ", ""))
    assert parse_packet(four, socket.AF_INET) == ("udp", 84, 64)
    six = bytes([0x60, 0, 0, 0, 0, 100, 58, 63]) + bytes(32)
    assert parse_packet(six, socket.AF_INET6) == ("icmp", 140, 63)
    assert parse_ancillary(
        [(0, 8, struct.pack("=I", 4) + bytes(8)), (0, 2, struct.pack("=i", 63))]
    ) == (4, 63)
    assert parse_ancillary(
        [(41, 50, bytes(16) + struct.pack("=I", 5)), (41, 52, struct.pack("=i", 62))]
    ) == (5, 62)


# -------------------------------------------------------------------------------------- ICMP errors

FOUR = struct.pack("=H", socket.AF_INET) + bytes(2) + bytes([198, 18, 1, 1]) + bytes(8)
SIX = (
    struct.pack("=H", socket.AF_INET6)
    + bytes(6)
    + socket.inet_pton(socket.AF_INET6, "fd00::1")
    + bytes(4)
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (EXTENDED_ERROR.pack(90, 2, 3, 4, 1400, 0) + FOUR, IcmpError(3, 4, "198.18.1.1", 1400)),
        (EXTENDED_ERROR.pack(111, 2, 3, 3, 0, 0) + FOUR, IcmpError(3, 3, "198.18.1.1")),
        (EXTENDED_ERROR.pack(90, 3, 2, 0, 1280, 0) + SIX, IcmpError(2, 0, "fd00::1", 1280)),
        (EXTENDED_ERROR.pack(90, 1, 0, 0, 1500, 0) + FOUR, None),
    ],
)
def test_extended_error(data: bytes, expected: IcmpError | None) -> None:
    assert parse_extended_error(data) == expected
    assert expected is None or is_too_big(expected) == (expected.mtu is not None)


# --------------------------------------------------------------------------------------- neighbours


def test_arp_reply() -> None:
    request = arp_request(MAC, "192.0.2.1", "192.0.2.2")
    fields = list(ARP.unpack(request))
    assert fields[4:] == [1, MAC, bytes([192, 0, 2, 1]), bytes(6), bytes([192, 0, 2, 2])]
    reply = ARP.pack(
        1, 0x0800, 6, 4, 2, MAC, bytes([192, 0, 2, 2]), bytes(6), bytes([192, 0, 2, 1])
    ) + bytes(18)
    assert parse_arp_reply(reply, socket.inet_aton("192.0.2.2")) == "52:54:00:aa:bb:cc"
    assert (
        parse_arp_reply(reply, socket.inet_aton("192.0.2.3")) is None
        and parse_arp_reply(request, socket.inet_aton("192.0.2.1")) is None
    )


def test_neighbour_advertisement() -> None:
    solicitation = neighbour_solicitation(MAC, "fd00::2")
    assert solicitation[:1] == b"\x87" and solicitation[-8:] == b"\1\1" + MAC
    target = socket.inet_pton(socket.AF_INET6, "fd00::2")
    message = ND.pack(136, 0, 0, 0x60000000, target) + b"\x0e\1" + bytes(6) + b"\2\1" + MAC
    assert (
        parse_advertisement(message, socket.inet_pton(socket.AF_INET6, "fd00::2"))
        == "52:54:00:aa:bb:cc"
    )
    assert parse_advertisement(message, socket.inet_pton(socket.AF_INET6, "fd00::3")) is None
    assert parse_advertisement(message[:24] + b"\2\0" + MAC, target) is None, (
        "an option of no length"
    )


# ------------------------------------------------------------------------------------ packet filter


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_packet_filter(family: socket.AddressFamily, address: str) -> None:
    """The kernel accepts the program; datagrams of a socket go through it as they are."""
    program = packet_filter(family, packed_address(address), 5201, COOKIE)
    assert len(program) % 8 == 0 and len(program) // 8 < 64
    with (
        socket.socket(family, socket.SOCK_DGRAM) as receiver,
        socket.socket(family, socket.SOCK_DGRAM) as sender,
    ):
        attach_filter(receiver, program)
        receiver.bind((address, 0))
        sender.sendto(b"not an IP packet", receiver.getsockname())
        with pytest.raises(BlockingIOError):
            receiver.recv(100, socket.MSG_DONTWAIT)


def test_filter_runs_on_whole_packets() -> None:
    """The program, interpreted: packets of the test pass, all others do not."""
    own = bytes([192, 0, 2, 2])
    program = packet_filter(socket.AF_INET, own, 5201, COOKIE)

    def header(protocol: int, source: bytes = own) -> bytes:
        return (
            bytes([0x45, 0, 0, 84, 0, 0, 0x40, 0, 64, protocol, 0, 0])
            + source
            + bytes([192, 0, 2, 1])
        )

    ports = struct.pack("!HH", 40000, 5201) + bytes(40)
    echo = echo_request(socket.AF_INET, COOKIE, 1, 1, 64)
    for packet in (header(1) + echo, header(17) + ports, header(6) + ports):
        assert accepted(program, packet)
        assert not accepted(program, packet.replace(own, bytes([192, 0, 2, 3]), 1))
        assert not is_answer_packet(packet, socket.AF_INET, 5201)
    to_tester = struct.pack("!HHHH", 5201, 40001, 0, 0)
    answers = (header(1) + b"\0" + echo[1:], header(17) + to_tester + datagram(ANSWER, COOKIE, 1))
    for packet in answers:
        assert accepted(program, packet) and is_answer_packet(packet, socket.AF_INET, 5201)
    for packet in (
        header(1) + echo_request(socket.AF_INET, bytes(16), 1, 1, 64),
        header(1) + b"\3" + echo[1:],
        header(17) + to_tester + datagram(REQUEST, COOKIE, 1),
        header(17) + to_tester + datagram(ANSWER, bytes(16), 1),
        header(17) + ports[::-1],
        header(47) + ports,
        b"\x46" + header(17)[1:] + bytes(4) + ports,
        b"",
    ):
        assert not accepted(program, packet)


def accepted(program: bytes, packet: bytes) -> bool:
    """Classic BPF (linux/filter.h), as far as the program uses it."""
    position, value = 0, 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("=HBBI", program, 8 * position)
        position += 1
        if code == 0x06:
            return bool(operand)
        if code == 0x15:
            position += if_true if value == operand else if_false
            continue
        size = {0x20: 4, 0x28: 2, 0x30: 1}[code]
        if operand + size > len(packet):
            return False
        value = int.from_bytes(packet[operand : operand + size], "big")


# ------------------------------------------------------------------------------------------- search


def path_of(
    mtu: int, *, reports: bool, asked: list[int]
) -> Callable[[int], tuple[bool, int | None]]:
    def passes(size: int) -> tuple[bool, int | None]:
        asked.append(size)
        return size <= mtu, mtu if reports and size > mtu else None

    return passes


@given(
    st.integers(84, 65535),
    st.integers(84, 65535),
    st.booleans(),
    st.lists(st.integers(0, 70000), max_size=3),
)
def test_search(mtu: int, limit: int, reports: bool, guesses: list[int]) -> None:
    asked: list[int] = []
    found = largest_passing(path_of(mtu, reports=reports, asked=asked), 84, max(84, limit), guesses)
    assert found == min(mtu, max(84, limit))
    assert len(asked) <= 1 + 16 + 2 * len(guesses) + 2


def test_search_with_hints_is_short() -> None:
    asked: list[int] = []
    assert largest_passing(path_of(1400, reports=True, asked=asked), 84, 9000) == 1400
    assert asked == [9000, 1400, 1401]
    asked.clear()
    assert largest_passing(path_of(1400, reports=False, asked=asked), 84, 9000, [1400]) == 1400
    assert asked == [9000, 1400, 1401]


# ------------------------------------------------------------------------------------------ sockets


def test_refused_datagram_has_the_icmp_error() -> None:
    """Nobody listens on the port: the error queue has the sender of the ICMP error."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    echo = UdpEcho(("127.0.0.1", 0), ("127.0.0.1", port), COOKIE)
    try:
        assert echo.send(100) == 0
        assert echo.receive(1.0) == [] and echo.errors == [IcmpError(3, 3, "127.0.0.1")]
    finally:
        echo.close()


def test_link_local_address_has_a_scope() -> None:
    assert socket_address("fe80::1%eth0", 7, 3) == ("fe80::1", 7, 0, 3)
    assert socket_address("fd00::1", 7, 3) == ("fd00::1", 7, 0, 0)
    assert socket_address("192.0.2.1", 7, 3) == ("192.0.2.1", 7)


class ScriptedPath(Echo):
    """Answers packets up to a size, until so many packets were sent."""

    protocol = "udp"
    header_bytes = 28

    def __init__(self, mtu: int, *, ends_after: int = 100_000) -> None:
        self.mtu, self.left, self.count, self.too_big = mtu, ends_after, 0, None
        self.answers: list[tuple[int, float]] = []

    def send(self, size: int) -> int | None:
        self.count += 1
        self.left -= 1
        if size <= self.mtu and self.left >= 0:
            self.answers.append((self.count, 0.0))
        return self.count

    def receive(self, timeout: float) -> list[tuple[int, float]]:
        found, self.answers = self.answers, []
        return found


@pytest.mark.parametrize("ends_after", [0, 2])
def test_a_path_that_ends_during_the_search_has_no_size(ends_after: int) -> None:
    """As when a cable is pulled: what is lost then is not lost for its size."""
    extent = SHORT._replace(size_copies=1, min_size_timeout=0.001)
    measured, deadline = PathReplies("udp", sent=1, rtts=(0.0001,)), time.monotonic() + 3600
    found = search_size(
        ScriptedPath(1400, ends_after=ends_after), measured, 9000, [], extent=extent,
        deadline=deadline,
    )  # fmt: skip
    assert (found.largest, found.complete, found.silent) == (None, False, True)
    found = search_size(ScriptedPath(1400), measured, 9000, [], extent=extent, deadline=deadline)
    assert (found.largest, found.complete, found.silent) == (1400, True, False)


@pytest.mark.parametrize(
    ("name", "is_ipv6", "text", "value"),
    [
        ("snmp", False, "Icmp: InMsgs InEchos OutEchoReps\nIcmp: 9 7 5\n", 5),
        ("snmp6", True, "Icmp6InEchos           \t7\nIcmp6OutEchoReplies    \t5\n", 5),
        ("snmp", False, "Icmp: InMsgs\nIcmp: 9\n", None),
        ("snmp6", True, "Icmp6OutEchoReplies    \tx\n", None),
    ],
)
def test_echo_replies_are_read(
    tmp_path: Path, name: str, is_ipv6: bool, text: str, value: int | None
) -> None:
    assert read_echo_replies(is_ipv6, str(tmp_path)) is None
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / name).write_text(text)
    assert read_echo_replies(is_ipv6, str(tmp_path)) == value
