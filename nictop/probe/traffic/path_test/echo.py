"""Packets to the other end that it answers: ICMP echo (answered by its kernel) and UDP (answered by
its probe).

All are sent with DF set, whatever path MTU the kernel knows (IP_PMTUDISC_PROBE). ICMP uses an
unprivileged datagram socket where net.ipv4.ping_group_range allows that, else a raw socket.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

from nictop.probe.kernel import errno_reasons
from nictop.probe.records import IcmpError
from nictop.probe.traffic.path_test.icmp_errors import (
    SOL_IP,
    SOL_IPV6,
    enable_errors,
    is_too_big,
    read_errors,
)
from nictop.probe.traffic.path_test.packets import ANSWER as UDP_ANSWER
from nictop.probe.traffic.path_test.packets import (
    ECHO_TYPES,
    ICMP_HEADER,
    IP_HEADER_BYTES,
    MAX_SEQUENCE,
    REQUEST,
    UDP_HEADER_BYTES,
    datagram,
    echo_request,
    parse_datagram,
    parse_echo_reply,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
IPV6_MTU_DISCOVER, IPV6_DONTFRAG = 23, 62
SOL_RAW, ICMP_FILTER, ICMPV6_FILTER = 255, 1, 1
MAX_ANSWER_BYTES = 65536
MAX_READS = 64
"""Answers read at once."""
MAX_ERRORS = 8
"""Distinct ICMP errors that are stored."""


class NotConnected(OSError):
    """The socket was made, but there is no route to the other end, or the source address cannot be
    used."""


class Echo:
    """Packets of one protocol over one connected socket. Sizes are those of the whole IP packet."""

    protocol: Literal["icmp", "udp"]
    method = ""
    header_bytes = 0
    """Of IP and the protocol."""

    def __init__(self, connection: socket.socket, cookie: bytes) -> None:
        self.socket, self.family, self.cookie = connection, connection.family, cookie
        self.errors: list[IcmpError] = []
        """Distinct ones, oldest first."""
        self.too_big: IcmpError | None = None
        """The newest "fragmentation needed"."""
        self.count = 0
        """Packets sent."""
        self.error = ""
        """Name of the first errno of a packet that could not be sent, except EMSGSIZE."""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def close(self) -> None:
        self.socket.close()

    def send(self, size: int) -> int | None:
        """Send a packet; its sequence number, None: it could not be sent."""
        sequence = self.count & MAX_SEQUENCE
        packet = self._packet(sequence, size - self.header_bytes)
        for _ in range(2):  # the first attempt may report the error of an earlier packet
            try:
                self.socket.send(packet)
            except OSError as error:
                number = error.errno or 0
                self._read_errors()
            else:
                self.count += 1
                return sequence
        if number != errno.EMSGSIZE:
            self.error = self.error or errno_reasons.name(number)
        return None

    def receive(self, timeout: float) -> list[tuple[int, float]]:
        """(sequence number, CLOCK_MONOTONIC) of answers; returns as soon as there is an answer or
        an error."""
        self._poll.poll(max(0.0, timeout) * 1000)
        now, answers = time.monotonic(), []
        for _ in range(MAX_READS):
            try:
                data = self.socket.recv(MAX_ANSWER_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                continue  # of an earlier packet; the error queue has it
            sequence = self._sequence(data)
            if sequence is not None:
                answers.append((sequence, now))
        self._read_errors()
        return answers

    def _read_errors(self) -> None:
        for error in read_errors(self.socket):
            if is_too_big(error):
                self.too_big = error
            elif error not in self.errors and len(self.errors) < MAX_ERRORS:
                self.errors.append(error)

    def _packet(self, sequence: int, size: int) -> bytes:
        raise NotImplementedError

    def _sequence(self, data: bytes) -> int | None:
        raise NotImplementedError


class IcmpEcho(Echo):
    """Echo requests. Raises NotConnected; OSError when neither kind of socket is allowed."""

    protocol: Literal["icmp", "udp"] = "icmp"

    def __init__(self, source: Any, target: Any, cookie: bytes) -> None:
        """`source`, `target`: address tuples of the socket module."""
        family = socket.AF_INET6 if len(target) == 4 else socket.AF_INET
        connection, self.method = _icmp_socket(family)
        _connect(connection, source, target)
        super().__init__(connection, cookie)
        self.header_bytes = IP_HEADER_BYTES[family] + ICMP_HEADER.size
        self._identifier = os.getpid() & 0xFFFF

    def _packet(self, sequence: int, size: int) -> bytes:
        return echo_request(
            self.family, self.cookie, self._identifier, sequence, size + ICMP_HEADER.size
        )

    def _sequence(self, data: bytes) -> int | None:
        return parse_echo_reply(self.family, data, self.cookie)


class UdpEcho(Echo):
    """Datagrams to the listener of the other end. Raises NotConnected."""

    protocol: Literal["icmp", "udp"] = "udp"

    def __init__(self, source: Any, target: Any, cookie: bytes) -> None:
        family = socket.AF_INET6 if len(target) == 4 else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_DGRAM)
        _connect(connection, source, target)
        super().__init__(connection, cookie)
        self.header_bytes = IP_HEADER_BYTES[family] + UDP_HEADER_BYTES

    def _packet(self, sequence: int, size: int) -> bytes:
        return datagram(REQUEST, self.cookie, sequence, size)

    def _sequence(self, data: bytes) -> int | None:
        return parse_datagram(data, UDP_ANSWER, self.cookie)


def _icmp_socket(family: int) -> tuple[socket.socket, str]:
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    try:
        return socket.socket(family, socket.SOCK_DGRAM, protocol), "datagram"
    except OSError:
        connection = socket.socket(family, socket.SOCK_RAW, protocol)
    reply = ECHO_TYPES[family][1]
    if family == socket.AF_INET6:
        blocked = bytearray(b"\xff" * 32)  # struct icmp6_filter: a set bit blocks that type
        words = list(struct.unpack("=8I", blocked))
        words[reply >> 5] &= ~(1 << (reply & 31))
        connection.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *words))
    else:
        connection.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~(1 << reply)))
    return connection, "raw"


def _connect(connection: socket.socket, source: Any, target: Any) -> None:
    """Bind and connect, with DF set and ICMP errors queued. Closes the socket and raises
    NotConnected."""
    try:
        if connection.family == socket.AF_INET6:
            connection.setsockopt(SOL_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            connection.setsockopt(SOL_IPV6, IPV6_DONTFRAG, 1)
        else:
            connection.setsockopt(SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        enable_errors(connection)
        connection.bind(source)
        connection.connect(target)
    except OSError as error:
        connection.close()
        raise NotConnected(error.errno, error.strerror) from error
