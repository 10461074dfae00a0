"""The data sockets of the built-in generator, and how a client connects them.

Opens TCP or UDP sockets and sends a greeting on each; every wait for the server has a timeout.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

from nictop.probe.traffic.builtin.handshake import ANSWER_BUSY, ANSWER_GO, Greeting
from nictop.probe.traffic.builtin.options import BuiltinOptions

BUILTIN_CONNECT_TIMEOUT = 5.0
"""Seconds for the connections of a client, and again for the server's answers."""
GREETING_RETRY_SECONDS = 0.1
"""Seconds between two greetings by datagram."""
SO_MAX_PACING_RATE = 47


class Connections:
    """The data sockets of a run, in stream order, and its parameters from the greeting."""

    def __init__(self, sockets: list[socket.socket], greeting: Greeting, listener: socket.socket | None = None) -> None:
        self.sockets = sockets
        self.listener = listener
        """Of a server with a connection for each transaction."""
        self.reverse, self.length = greeting.reverse, greeting.length
        self.seconds, self.omit, self.bitrate = greeting.seconds, greeting.omit, greeting.bitrate
        self.test, self.response, self.workers = greeting.test, greeting.response, greeting.workers
        self.cookie = greeting.cookie


def connect(address: str, port: int, options: BuiltinOptions) -> Connections:
    """Open the data sockets of a client. Raises OSError."""
    cookie = os.urandom(16)
    sockets: list[socket.socket] = []
    end = time.monotonic() + BUILTIN_CONNECT_TIMEOUT
    target = socket_address(address, port, udp=options.udp)
    streams = 1 if options.test == "crr" else options.streams
    while len(sockets) < streams:
        connection = socket.socket(target[0], socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM)
        sockets.append(connection)
        set_connect_options(connection, options)
        connection.settimeout(max(0.01, end - time.monotonic()))
        if options.bind:
            connection.bind(socket_address(options.bind, 0, udp=options.udp)[1])
        try:
            connection.connect(target[1])
        except OSError as error:  # the same text as iperf3
            message = f"unable to connect to server: {error.strerror or error}"
            raise OSError(error.errno or errno.ETIMEDOUT, message) from None
    greetings = [
        Greeting(
            cookie, number, streams, options.length, options.time + options.omit,
            omit=options.omit, reverse=options.reverse, no_delay=options.no_delay, bitrate=options.bitrate,
            tos=options.tos, congestion=options.congestion, test=options.test, response=options.response,
            workers=options.streams,
        )
        for number in range(streams)
    ]  # fmt: skip
    if options.udp:
        _exchange_datagram_greetings(sockets, greetings)
    else:
        for connection, greeting in zip(sockets, greetings):
            connection.sendall(greeting.packed())
        for connection in sockets:
            connection.settimeout(BUILTIN_CONNECT_TIMEOUT)
            try:
                _check_answer(read_exactly(connection, len(ANSWER_GO)))
            except socket.timeout:
                raise OSError(errno.ETIMEDOUT, "the server does not answer") from None
    return Connections(sockets, greetings[0])


def _exchange_datagram_greetings(sockets: list[socket.socket], greetings: list[Greeting]) -> None:
    end = time.monotonic() + BUILTIN_CONNECT_TIMEOUT
    unanswered = dict(enumerate(sockets))
    while unanswered:
        if time.monotonic() >= end:
            raise OSError(errno.ETIMEDOUT, "the server does not answer")
        for number, connection in unanswered.items():
            connection.send(greetings[number].packed())
        poll = select.poll()
        for connection in unanswered.values():
            poll.register(connection, select.POLLIN)
        answered = {descriptor for descriptor, _ in poll.poll(GREETING_RETRY_SECONDS * 1000)}
        for number, connection in list(unanswered.items()):
            if connection.fileno() in answered:
                connection.setblocking(False)
                answer = connection.recv(65536)
                if len(answer) == len(ANSWER_GO):  # else data of a sending server overtook the answer
                    _check_answer(answer)
                del unanswered[number]


def _check_answer(answer: bytes) -> None:
    if answer == ANSWER_BUSY:
        raise OSError(errno.EBUSY, "the server is busy running a test")
    if answer != ANSWER_GO:
        text = "the server is not the built-in generator" if answer else "the server closed the connection"
        raise OSError(errno.EPROTO, text)


def set_connect_options(connection: socket.socket, options: BuiltinOptions) -> None:
    """Set options that must be set before connecting, and all others."""
    if options.mss and not options.udp:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, options.mss)
    if options.window:
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, buffer, options.window)
    if options.bind_device:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options.bind_device.encode() + b"\0")
    set_socket_options(connection, options)


def set_socket_options(connection: socket.socket, options: BuiltinOptions) -> None:
    """Set options that may be set at any time."""
    if options.tos:
        is_ipv6 = connection.family == socket.AF_INET6
        option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if is_ipv6 else (socket.IPPROTO_IP, socket.IP_TOS)
        connection.setsockopt(*option, options.tos)
    if options.udp:
        return
    if options.congestion:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, options.congestion.encode("ascii"))
    if options.no_delay:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if options.bitrate:
        rate = min(options.bitrate // 8, (1 << 32) - 2)  # 64 bits since Linux 5.0
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=I", rate))


def socket_address(address: str, port: int, *, udp: bool) -> tuple[int, tuple[object, ...]]:
    """(address family, socket address) of a numeric address with its zone. Raises OSError."""
    socket_type = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    addresses = socket.getaddrinfo(address, port, type=socket_type, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
    return addresses[0][0], addresses[0][4]


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """`size` bytes, or fewer at the end of the connection. Raises OSError, also after the socket's timeout."""
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            break
        data += chunk
    return data
