"""The server of the built-in generator: waits for its client and all of its streams.

Accepts any connection, reads a greeting of exact length, and closes those that send none or that of
another run (port scans, idle connections, other programs), without an answer. It answers when all
streams of the run have sent theirs; what happens then is in its own options. Every wait has a
timeout. With UDP, each stream gets its own socket on the same port, connected to its client, once
that has repeated a challenge: a forged sender address gets no more bytes than were sent in its
name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import time

from nictop.probe.traffic.builtin.connections import (
    BUILTIN_CONNECT_TIMEOUT,
    GREETING_RETRY_SECONDS,
    DataSockets,
    set_connect_options,
    set_listener_options,
    set_socket_options,
    socket_address,
)
from nictop.probe.traffic.builtin.handshake import (
    ANSWER_GO,
    GREETING,
    TOKEN_BYTES,
    Greeting,
    packed_challenge,
    parse_greeting,
)
from nictop.probe.traffic.builtin.options import BuiltinOptions
from nictop.probe.traffic.greetings import NO_GREETING, WRONG_COOKIE, ExpectedPeer, is_equal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GREETING_TIMEOUT = 3.0
"""Seconds for a connection to send its greeting."""
MAX_PENDING_CONNECTIONS, MAX_FOREIGN_CONNECTIONS = 256, 64
"""Connections without a greeting at once: of all, and of other addresses than the client's."""
MAX_CHALLENGED_SENDERS = 1024
"""Senders of greetings with the cookie of the run."""
BACKLOG = 128


def accept_client(
    address: str, port: int, options: BuiltinOptions, client: ExpectedPeer
) -> DataSockets:
    """The connections of the client; `client` counts what was refused. Raises OSError."""
    socket_type = socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_open_listener(address, socket_type))
        set_listener_options(listener, options)
        if not options.udp:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        any_address = "::" if listener.family == socket.AF_INET6 else "0.0.0.0"
        listener.bind(socket_address(address or any_address, port, udp=options.udp)[1])
        listener.setblocking(False)
        group = StreamGroup(options, client)
        if options.udp:
            DatagramStreams(listener, group, options).accept()
        else:
            listener.listen(BACKLOG)
            _accept_streams(listener, group)
        connections = group.start_streams()
        if options.test == "crr":
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
    """The streams of the client so far."""

    def __init__(self, options: BuiltinOptions, client: ExpectedPeer) -> None:
        self.client, self._options = client, options
        self._sockets: dict[int, socket.socket] = {}
        self._end = time.monotonic() + options.accept

    @property
    def sockets(self) -> list[socket.socket]:
        return list(self._sockets.values())

    @property
    def complete(self) -> bool:
        return len(self._sockets) == self._options.connections

    def check_timeout(self) -> None:
        """Raises OSError when the client or some of its streams are late."""
        if time.monotonic() >= self._end:
            raise OSError(
                errno.ETIMEDOUT,
                "not all streams connected" if self._sockets else "no client connected",
            )

    def match_greeting(self, data: bytes, sender: str) -> Greeting | None:
        """The greeting of a stream that is missing, else None."""
        greeting = parse_greeting(data)
        if greeting is None:
            self.client.refused.add(WRONG_COOKIE, sender)
            return None
        if not self.client.accepts(greeting.cookie, sender):
            return None
        is_missing = (
            greeting.stream < self._options.connections and greeting.stream not in self._sockets
        )
        return greeting if is_missing else None

    def add_stream(self, connection: socket.socket, greeting: Greeting) -> None:
        if not self._sockets:
            self._end = time.monotonic() + BUILTIN_CONNECT_TIMEOUT
        self._sockets[greeting.stream] = connection

    def start_streams(self) -> DataSockets:
        """Set the options on all sockets, and send the answer that starts the traffic."""
        sockets = [self._sockets[number] for number in range(self._options.connections)]
        for connection in sockets:
            connection.setblocking(True)
            set_socket_options(connection, self._options)
            connection.send(ANSWER_GO)
        return DataSockets(sockets, self.client.cookie)


class PendingConnection:
    """A connection that has not sent its whole greeting yet."""

    def __init__(self, connection: socket.socket, sender: str, *, foreign: bool) -> None:
        self.connection, self.sender, self.is_foreign = connection, sender, foreign
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


def _accept_streams(listener: socket.socket, group: StreamGroup) -> None:
    pending: dict[int, PendingConnection] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while not group.complete:
            group.check_timeout()
            for descriptor, _ in poll.poll(GREETING_RETRY_SECONDS * 1000):
                if descriptor == listener.fileno():
                    _accept(listener, pending, poll, group)
                elif pending[descriptor].receive():
                    poll.unregister(descriptor)
                    _assign_stream(pending.pop(descriptor), group)
            for descriptor, pending_connection in list(pending.items()):
                if time.monotonic() >= pending_connection.deadline:
                    poll.unregister(descriptor)
                    _refuse(pending.pop(descriptor), group)
    finally:
        for pending_connection in pending.values():
            pending_connection.connection.close()


def _accept(
    listener: socket.socket,
    pending: dict[int, PendingConnection],
    poll: select.poll,
    group: StreamGroup,
) -> None:
    try:
        connection, sender = listener.accept()
    except OSError:  # closed meanwhile
        return
    accepted = PendingConnection(
        connection, sender[0], foreign=not group.client.is_address(sender[0])
    )
    foreign = sum(one.is_foreign for one in pending.values())
    if len(pending) >= MAX_PENDING_CONNECTIONS or (
        accepted.is_foreign and foreign >= MAX_FOREIGN_CONNECTIONS
    ):
        _refuse(accepted, group)
        return
    connection.setblocking(False)
    pending[connection.fileno()] = accepted
    poll.register(connection, select.POLLIN)


def _assign_stream(pending_connection: PendingConnection, group: StreamGroup) -> None:
    if not pending_connection.received:
        _refuse(pending_connection, group)
        return
    greeting = group.match_greeting(pending_connection.received, pending_connection.sender)
    if greeting is None:
        pending_connection.connection.close()
        return
    group.add_stream(pending_connection.connection, greeting)


def _refuse(pending_connection: PendingConnection, group: StreamGroup) -> None:
    """Close and count a connection whose greeting is not complete."""
    reason = WRONG_COOKIE if pending_connection.received else NO_GREETING
    group.client.refused.add(reason, pending_connection.sender)
    pending_connection.connection.close()


class DatagramStreams:
    """Greetings by datagram: a challenge for each sender, and a socket for each one that has
    repeated it."""

    def __init__(
        self, listener: socket.socket, group: StreamGroup, options: BuiltinOptions
    ) -> None:
        self._listener, self._group, self._options = listener, group, options
        self._tokens: dict[Any, bytes] = {}
        """Address and port of a sender → token of its challenge."""

    def accept(self) -> None:
        """Until the group is complete. Raises OSError."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while not self._group.complete:
            self._group.check_timeout()
            if not poll.poll(GREETING_RETRY_SECONDS * 1000):
                continue
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._receive()

    def _receive(self) -> None:
        received, sender = self._listener.recvfrom(65536)
        greeting = self._group.match_greeting(received, sender[0])
        if greeting is None:
            return
        token = self._tokens.get(sender)
        if token is not None and is_equal(greeting.token, token):
            self._group.add_stream(self._connected_socket(sender), greeting)
            return
        if token is None and len(self._tokens) >= MAX_CHALLENGED_SENDERS:
            return
        if token is None:
            token = self._tokens[sender] = os.urandom(TOKEN_BYTES)
        with contextlib.suppress(OSError):  # no route to a forged sender
            self._listener.sendto(packed_challenge(token), sender)

    def _connected_socket(self, sender: Any) -> socket.socket:
        listener = self._listener
        connection = socket.socket(listener.family, socket.SOCK_DGRAM)
        if listener.family == socket.AF_INET6:
            v6_only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6_only)
        set_connect_options(connection, self._options)
        sharing = [listener, *self._group.sockets, connection]
        set_address_reuse(sharing, reuse=True)
        try:
            connection.bind(listener.getsockname())
        finally:
            set_address_reuse(sharing, reuse=False)
        connection.connect(sender)
        return connection


def set_address_reuse(sockets: list[socket.socket], *, reuse: bool) -> None:
    """Whether other sockets may be bound to the same port. Only while those of the server are: any
    process of the host could bind one, and would get the greetings of the client."""
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
