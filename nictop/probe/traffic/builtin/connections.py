"""The data sockets of the built-in generator, and how a client makes them: each with a greeting, and no other.

Opens TCP or UDP sockets; every wait for the server ends.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

from nictop.probe.traffic.builtin.handshake import BUSY, GO, Greeting
from nictop.probe.traffic.builtin.options import BuiltinOptions

CONNECT = 5.0
"""Seconds for the connections of a client, and then for the answer of the server."""
AGAIN = 0.1
"""Seconds between two greetings in datagrams."""
SO_MAX_PACING_RATE = 47


class Connections:
    """The data sockets of a run, in the order of its streams, and what the client said about it."""

    def __init__(self, sockets: list[socket.socket], greeting: Greeting) -> None:
        self.sockets = sockets
        self.reverse, self.length = greeting.reverse, greeting.length
        self.seconds, self.omit, self.bitrate = greeting.seconds, greeting.omit, greeting.bitrate


def connected(address: str, port: int, options: BuiltinOptions) -> Connections:
    """A client's. Raises OSError."""
    cookie = os.urandom(16)
    made: list[socket.socket] = []
    end = time.monotonic() + CONNECT
    target = resolved(address, port, udp=options.udp)
    while len(made) < options.streams:
        connection = socket.socket(target[0], socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM)
        made.append(connection)
        prepare(connection, options)
        connection.settimeout(max(0.01, end - time.monotonic()))
        if options.bind:
            connection.bind(resolved(options.bind, 0, udp=options.udp)[1])
        try:
            connection.connect(target[1])
        except OSError as error:  # in the words of iperf3
            said = f"unable to connect to server: {error.strerror or error}"
            raise OSError(error.errno or errno.ETIMEDOUT, said) from None
    greetings = [
        Greeting(
            cookie, number, options.streams, options.length, options.time + options.omit,
            omit=options.omit, reverse=options.reverse, no_delay=options.no_delay, bitrate=options.bitrate,
            tos=options.tos, congestion=options.congestion,
        )
        for number in range(options.streams)
    ]  # fmt: skip
    if options.udp:
        _greet_in_datagrams(made, greetings)
    else:
        for connection, greeting in zip(made, greetings):
            connection.sendall(greeting.packed())
        for connection in made:
            connection.settimeout(CONNECT)
            try:
                _take_answer(read_exactly(connection, len(GO)))
            except socket.timeout:
                raise OSError(errno.ETIMEDOUT, "the server does not answer") from None
    return Connections(made, greetings[0])


def _greet_in_datagrams(made: list[socket.socket], greetings: list[Greeting]) -> None:
    end = time.monotonic() + CONNECT
    waiting = dict(enumerate(made))
    while waiting:
        if time.monotonic() >= end:
            raise OSError(errno.ETIMEDOUT, "the server does not answer")
        for number, connection in waiting.items():
            connection.send(greetings[number].packed())
        poll = select.poll()
        for connection in waiting.values():
            poll.register(connection, select.POLLIN)
        answered = {descriptor for descriptor, _ in poll.poll(AGAIN * 1000)}
        for number, connection in list(waiting.items()):
            if connection.fileno() in answered:
                connection.setblocking(False)
                answer = connection.recv(65536)
                if len(answer) == len(GO):  # else the data of a server that sends has overtaken it
                    _take_answer(answer)
                del waiting[number]


def _take_answer(answer: bytes) -> None:
    if answer == BUSY:
        raise OSError(errno.EBUSY, "the server is busy running a test")
    if answer != GO:
        text = "what listens there is not the built-in generator" if answer else "the server has hung up"
        raise OSError(errno.EPROTO, text)


def prepare(connection: socket.socket, options: BuiltinOptions) -> None:
    """What must be set before a connection is made."""
    if options.mss and not options.udp:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, options.mss)
    if options.window:
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, buffer, options.window)
    if options.bind_device:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options.bind_device.encode() + b"\0")
    adorn(connection, options)


def adorn(connection: socket.socket, options: BuiltinOptions) -> None:
    """What may be set at any time."""
    if options.tos:
        if connection.family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, options.tos)
        else:
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, options.tos)
    if options.udp:
        return
    if options.congestion:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, options.congestion.encode("ascii"))
    if options.no_delay:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if options.bitrate:
        rate = min(options.bitrate // 8, (1 << 32) - 2)  # wider ones need Linux 5.0
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=I", rate))


def resolved(address: str, port: int, *, udp: bool) -> tuple[int, tuple[object, ...]]:
    """Family and socket address of a numeric address, with its zone. Raises OSError."""
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    found = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
    return found[0][0], found[0][4]


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer at the end of the connection. Raises OSError, also when they do not come in time."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            break
        data += part
    return data
