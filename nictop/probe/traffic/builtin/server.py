"""The server of the built-in generator: waits for one client and all of its streams.

Accepts any connection, reads a greeting of exact length, closes those that send none (port scans, idle connections),
and answers when all streams of a run have sent theirs. Every wait has a timeout. With UDP, each stream gets its own
socket on the same port, connected to its client.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time

from nictop.probe.traffic.builtin.connections import (
    BUILTIN_CONNECT_TIMEOUT,
    GREETING_RETRY_SECONDS,
    Connections,
    set_connect_options,
    set_socket_options,
    socket_address,
)
from nictop.probe.traffic.builtin.handshake import ANSWER_BUSY, ANSWER_GO, GREETING, Greeting, parse_greeting
from nictop.probe.traffic.builtin.options import MAX_DATAGRAM_BYTES, MAX_STREAM_MESSAGE_BYTES, BuiltinOptions

GREETING_TIMEOUT = 3.0
"""Seconds for a connection to send its greeting."""
MAX_PENDING_CONNECTIONS = 256
"""Connections without a greeting at once."""
BACKLOG = 128


def accept_client(address: str, port: int, options: BuiltinOptions) -> Connections:
    """The connections of one client. Raises OSError."""
    socket_type = socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_open_listener(address, socket_type))
        set_connect_options(listener, options)
        if not options.udp:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        any_address = "::" if listener.family == socket.AF_INET6 else "0.0.0.0"
        listener.bind(socket_address(address or any_address, port, udp=options.udp)[1])
        listener.setblocking(False)
        group = StreamGroup(MAX_DATAGRAM_BYTES if options.udp else MAX_STREAM_MESSAGE_BYTES, options)
        if options.udp:
            # set after bind: a second server at this port fails, the data sockets of this one do not
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _accept_datagram_streams(listener, group, options)
        else:
            listener.listen(BACKLOG)
            _accept_streams(listener, group, options)
        connections = group.start_streams()
        if connections.test == "crr":
            stack.pop_all()  # the listener stays open
            connections.listener = listener
    return connections


def _open_listener(address: str, socket_type: socket.SocketKind) -> socket.socket:
    if address:
        return socket.socket(socket_address(address, 0, udp=False)[0], socket_type)
    try:
        listener = socket.socket(socket.AF_INET6, socket_type)
    except OSError:  # a host without IPv6
        return socket.socket(socket.AF_INET, socket_type)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return listener


class StreamGroup:
    """The streams of one client so far. `max_length`: largest message length that is accepted."""

    def __init__(self, max_length: int, options: BuiltinOptions) -> None:
        self._max_length, self._options = max_length, options
        self._sockets: dict[int, socket.socket] = {}
        self._greeting: Greeting | None = None
        self._end = time.monotonic() + options.accept

    @property
    def complete(self) -> bool:
        return self._greeting is not None and len(self._sockets) == self._greeting.streams

    def check_timeout(self) -> None:
        """Raises OSError when the client or some of its streams are late."""
        if time.monotonic() >= self._end:
            raise OSError(errno.ETIMEDOUT, "not all streams connected" if self._sockets else "no client connected")

    def match_greeting(self, data: bytes) -> Greeting | None:
        """The greeting of a new stream of this group, else None; the first greeting determines the group."""
        greeting = parse_greeting(data, self._max_length)
        if greeting is None or (self._greeting is not None and greeting.cookie != self._greeting.cookie):
            return None
        return None if greeting.stream in self._sockets else greeting

    def add_stream(self, connection: socket.socket, greeting: Greeting) -> None:
        if self._greeting is None:
            self._greeting = greeting
            self._end = time.monotonic() + BUILTIN_CONNECT_TIMEOUT
        self._sockets[greeting.stream] = connection

    def start_streams(self) -> Connections:
        """Set the client's options on all sockets, and send the answer that starts the traffic."""
        assert self._greeting is not None
        greeting, options = self._greeting, self._options
        options.bitrate, options.congestion = greeting.bitrate, greeting.congestion
        options.tos, options.no_delay = greeting.tos, greeting.no_delay
        sockets = [self._sockets[number] for number in range(greeting.streams)]
        for connection in sockets:
            connection.setblocking(True)
            set_socket_options(connection, options)
            connection.send(ANSWER_GO)
        return Connections(sockets, greeting)


class PendingConnection:
    """A connection that has not sent its whole greeting yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.deadline = time.monotonic() + GREETING_TIMEOUT

    def receive(self) -> bool:
        """Read more of the greeting; True when it is complete or the connection has ended."""
        try:
            data = self.connection.recv(GREETING.size - len(self.received))
        except BlockingIOError:
            return False
        except OSError:
            return True
        self.received += data
        return not data or len(self.received) == GREETING.size


def _accept_streams(listener: socket.socket, group: StreamGroup, options: BuiltinOptions) -> None:
    pending: dict[int, PendingConnection] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while not group.complete:
            group.check_timeout()
            for descriptor, _ in poll.poll(GREETING_RETRY_SECONDS * 1000):
                if descriptor == listener.fileno():
                    _accept(listener, pending, poll)
                elif pending[descriptor].receive():
                    poll.unregister(descriptor)
                    _assign_stream(pending.pop(descriptor), group)
            for descriptor, pending_connection in list(pending.items()):
                if time.monotonic() >= pending_connection.deadline:
                    poll.unregister(descriptor)
                    pending.pop(descriptor).connection.close()
    finally:
        for pending_connection in pending.values():
            pending_connection.connection.close()


def _accept(listener: socket.socket, pending: dict[int, PendingConnection], poll: select.poll) -> None:
    try:
        connection = listener.accept()[0]
    except OSError:  # closed meanwhile
        return
    if len(pending) >= MAX_PENDING_CONNECTIONS:
        connection.close()
        return
    connection.setblocking(False)
    pending[connection.fileno()] = PendingConnection(connection)
    poll.register(connection, select.POLLIN)


def _assign_stream(pending_connection: PendingConnection, group: StreamGroup) -> None:
    greeting = group.match_greeting(pending_connection.received)
    if greeting is not None:
        group.add_stream(pending_connection.connection, greeting)
        return
    if parse_greeting(pending_connection.received, MAX_STREAM_MESSAGE_BYTES) is not None:
        with contextlib.suppress(OSError):
            pending_connection.connection.send(ANSWER_BUSY)
    pending_connection.connection.close()


def _accept_datagram_streams(listener: socket.socket, group: StreamGroup, options: BuiltinOptions) -> None:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not group.complete:
        group.check_timeout()
        if not poll.poll(GREETING_RETRY_SECONDS * 1000):
            continue
        try:
            received, sender = listener.recvfrom(65536)
        except OSError:
            continue
        greeting = group.match_greeting(received)
        if greeting is None:
            continue
        connection = socket.socket(listener.family, socket.SOCK_DGRAM)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            v6_only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6_only)
        set_connect_options(connection, options)
        connection.bind(listener.getsockname())
        connection.connect(sender)
        group.add_stream(connection, greeting)
