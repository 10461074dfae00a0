"""The data sockets of the built-in generator, and how a client connects them.

Opens TCP or UDP sockets and sends a greeting on each; every wait for the server has a timeout.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time

from nictop.probe.traffic.builtin.handshake import ANSWER_GO, NO_TOKEN, Greeting, parse_challenge
from nictop.probe.traffic.builtin.options import BuiltinOptions

BUILTIN_CONNECT_TIMEOUT = 5.0
"""Seconds for the connections of a client, and again for the server's answers."""
GREETING_RETRY_SECONDS = 0.1
"""Seconds between two greetings by datagram."""
SO_MAX_PACING_RATE = 47


class DataSockets:
    """The data sockets of a run, in stream order."""

    def __init__(
        self, sockets: list[socket.socket], cookie: bytes, listener: socket.socket | None = None
    ) -> None:
        self.sockets, self.cookie = sockets, cookie
        self.listener = listener
        """Of a server with a connection for each transaction."""


def connect(address: str, port: int, options: BuiltinOptions, cookie: bytes) -> DataSockets:
    """Open the data sockets of a client. Raises OSError."""
    sockets: list[socket.socket] = []
    end = time.monotonic() + BUILTIN_CONNECT_TIMEOUT
    target = socket_address(address, port, udp=options.udp)
    while len(sockets) < options.connections:
        connection = socket.socket(
            target[0], socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM
        )
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
    if options.udp:
        DatagramGreetings(sockets, cookie).exchange()
    else:
        _exchange_greetings(sockets, cookie)
    return DataSockets(sockets, cookie)


def _exchange_greetings(sockets: list[socket.socket], cookie: bytes) -> None:
    for number, connection in enumerate(sockets):
        connection.sendall(Greeting(cookie, number).packed())
    for connection in sockets:
        connection.settimeout(BUILTIN_CONNECT_TIMEOUT)
        try:
            _check_answer(read_exactly(connection, len(ANSWER_GO)))
        except socket.timeout:
            raise OSError(errno.ETIMEDOUT, "the server does not answer") from None


class DatagramGreetings:
    """The greetings of a client by datagram. Each is repeated until it is answered; it has the
    token of the last challenge."""

    def __init__(self, sockets: list[socket.socket], cookie: bytes) -> None:
        self._cookie = cookie
        self._unanswered = dict(enumerate(sockets))
        self._tokens = dict.fromkeys(self._unanswered, NO_TOKEN)
        self._next = dict.fromkeys(self._unanswered, 0.0)
        """Stream → CLOCK_MONOTONIC of its next greeting."""

    def exchange(self) -> None:
        """Raises OSError if the server does not answer."""
        end = time.monotonic() + BUILTIN_CONNECT_TIMEOUT
        while self._unanswered:
            now = time.monotonic()
            if now >= end:
                raise OSError(errno.ETIMEDOUT, "the server does not answer")
            for number in self._unanswered:
                if now >= self._next[number]:
                    self._greet(number, now)
            poll = select.poll()
            for connection in self._unanswered.values():
                poll.register(connection, select.POLLIN)
            readable = {descriptor for descriptor, _ in poll.poll(GREETING_RETRY_SECONDS * 1000)}
            for number, connection in list(self._unanswered.items()):
                if connection.fileno() in readable:
                    self._receive(number)

    def _greet(self, number: int, now: float) -> None:
        self._next[number] = now + GREETING_RETRY_SECONDS
        self._unanswered[number].send(Greeting(self._cookie, number, self._tokens[number]).packed())

    def _receive(self, number: int) -> None:
        connection = self._unanswered[number]
        connection.setblocking(False)
        answer = connection.recv(65536)
        token = parse_challenge(answer)
        if token:
            self._tokens[number] = token
            self._greet(number, time.monotonic())
            return
        if len(answer) == len(ANSWER_GO):  # else data of a sending server overtook the answer
            _check_answer(answer)
        del self._unanswered[number]


def _check_answer(answer: bytes) -> None:
    if not answer:
        raise OSError(errno.EPROTO, "the server closed the connection")
    if answer != ANSWER_GO:
        raise OSError(errno.EPROTO, "the server is not the built-in generator")


def set_connect_options(connection: socket.socket, options: BuiltinOptions) -> None:
    """Set options that must be set before connecting, and all others."""
    set_listener_options(connection, options)
    set_socket_options(connection, options)


def set_listener_options(connection: socket.socket, options: BuiltinOptions) -> None:
    """Set options that a listening socket needs before its client connects."""
    if options.mss and not options.udp:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, options.mss)
    if options.window:
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, buffer, options.window)
    if options.bind_device:
        connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options.bind_device.encode() + b"\0"
        )


def set_socket_options(connection: socket.socket, options: BuiltinOptions) -> None:
    """Set options that may be set at any time."""
    if options.tos:
        option = socket.IPPROTO_IP, socket.IP_TOS
        if connection.family == socket.AF_INET6:
            option = socket.IPPROTO_IPV6, socket.IPV6_TCLASS
        connection.setsockopt(*option, options.tos)
    if options.udp:
        return
    if options.congestion:
        connection.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_CONGESTION, options.congestion.encode("ascii")
        )
    if options.no_delay:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if options.bitrate:
        rate = min(options.bitrate // 8, (1 << 32) - 2)  # 64 bits since Linux 5.0
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=I", rate))


def socket_address(address: str, port: int, *, udp: bool) -> tuple[int, tuple[object, ...]]:
    """(address family, socket address) of a numeric address with its zone. Raises OSError."""
    socket_type = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    addresses = socket.getaddrinfo(
        address, port, type=socket_type, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    )
    return addresses[0][0], addresses[0][4]


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """`size` bytes, or fewer at the end of the connection. Raises OSError, also after the socket's
    timeout."""
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            break
        data += chunk
    return data
