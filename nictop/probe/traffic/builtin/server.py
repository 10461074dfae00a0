"""The server's end of the built-in generator: waits for one client and all of its streams.

Takes whoever comes, reads each greeting to its exact length, drops what is none (a port scan, a connection that says
nothing), and answers when all streams of a run have come. Every wait ends. With UDP each stream gets a socket of its
own at the same port, connected to its client.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time

from nictop.probe.traffic.builtin.connections import AGAIN, CONNECT, Connections, adorn, prepare, resolved
from nictop.probe.traffic.builtin.handshake import BUSY, GO, GREETING, Greeting, parse_greeting
from nictop.probe.traffic.builtin.options import LONGEST_DATAGRAM, LONGEST_MESSAGE, BuiltinOptions

SILENT = 3.0
"""Seconds that a connection may take for its greeting."""
MOST_GUESTS = 256
"""Connections without a greeting at once."""
BACKLOG = 128


def served(address: str, port: int, options: BuiltinOptions) -> Connections:
    """A server's, when its client has come. Raises OSError."""
    kind = socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM
    with _listener(address, kind) as listener:
        prepare(listener, options)
        if not options.udp:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        any_address = "::" if listener.family == socket.AF_INET6 else "0.0.0.0"
        listener.bind(resolved(address or any_address, port, udp=options.udp)[1])
        listener.setblocking(False)
        party = StreamGroup(LONGEST_DATAGRAM if options.udp else LONGEST_MESSAGE, options)
        if options.udp:
            # only now, so that a second server at this port is refused, but the data sockets of this one are not
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _receive_datagrams(listener, party, options)
        else:
            listener.listen(BACKLOG)
            _receive_guests(listener, party, options)
    return party.begin()


def _listener(address: str, kind: socket.SocketKind) -> socket.socket:
    if address:
        return socket.socket(resolved(address, 0, udp=False)[0], kind)
    try:
        listener = socket.socket(socket.AF_INET6, kind)
    except OSError:  # a host without IPv6
        return socket.socket(socket.AF_INET, kind)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return listener


class StreamGroup:
    """The streams of one client that have come so far. `longest`: bytes of a message that are allowed."""

    def __init__(self, longest: int, options: BuiltinOptions) -> None:
        self._longest, self._options = longest, options
        self._sockets: dict[int, socket.socket] = {}
        self._greeting: Greeting | None = None
        self._end = time.monotonic() + options.accept

    @property
    def complete(self) -> bool:
        return self._greeting is not None and len(self._sockets) == self._greeting.streams

    def check_time(self) -> None:
        """Raises OSError when nobody has come in time."""
        if time.monotonic() >= self._end:
            raise OSError(errno.ETIMEDOUT, "not all streams have come" if self._sockets else "no client has come")

    def wanted(self, data: bytes) -> Greeting | None:
        """The greeting of a stream that belongs to this party and is not here yet; the first one makes the party."""
        greeting = parse_greeting(data, self._longest)
        if greeting is None or (self._greeting is not None and greeting.cookie != self._greeting.cookie):
            return None
        return None if greeting.stream in self._sockets else greeting

    def admit(self, connection: socket.socket, greeting: Greeting) -> None:
        if self._greeting is None:
            self._greeting = greeting
            self._end = time.monotonic() + CONNECT
        self._sockets[greeting.stream] = connection

    def begin(self) -> Connections:
        """Tell all of them to begin, in the manner that the client has asked for."""
        assert self._greeting is not None
        greeting, options = self._greeting, self._options
        options.bitrate, options.congestion = greeting.bitrate, greeting.congestion
        options.tos, options.no_delay = greeting.tos, greeting.no_delay
        sockets = [self._sockets[number] for number in range(greeting.streams)]
        for connection in sockets:
            connection.setblocking(True)
            adorn(connection, options)
            connection.send(GO)
        return Connections(sockets, greeting)


class PendingConnection:
    """A connection that has not greeted yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.said = b""
        self.leave_by = time.monotonic() + SILENT

    def listen(self) -> bool:
        """Read on; True: there is nothing more to wait for."""
        try:
            part = self.connection.recv(GREETING.size - len(self.said))
        except BlockingIOError:
            return False
        except OSError:
            return True
        self.said += part
        return not part or len(self.said) == GREETING.size


def _receive_guests(listener: socket.socket, party: StreamGroup, options: BuiltinOptions) -> None:
    guests: dict[int, PendingConnection] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while not party.complete:
            party.check_time()
            for descriptor, _ in poll.poll(AGAIN * 1000):
                if descriptor == listener.fileno():
                    _open_the_door(listener, guests, poll)
                elif guests[descriptor].listen():
                    poll.unregister(descriptor)
                    _seat(guests.pop(descriptor), party)
            for descriptor, guest in list(guests.items()):
                if time.monotonic() >= guest.leave_by:
                    poll.unregister(descriptor)
                    guests.pop(descriptor).connection.close()
    finally:
        for guest in guests.values():
            guest.connection.close()


def _open_the_door(listener: socket.socket, guests: dict[int, PendingConnection], poll: select.poll) -> None:
    try:
        connection = listener.accept()[0]
    except OSError:  # it has gone again
        return
    if len(guests) >= MOST_GUESTS:
        connection.close()
        return
    connection.setblocking(False)
    guests[connection.fileno()] = PendingConnection(connection)
    poll.register(connection, select.POLLIN)


def _seat(guest: PendingConnection, party: StreamGroup) -> None:
    greeting = party.wanted(guest.said)
    if greeting is not None:
        party.admit(guest.connection, greeting)
        return
    if parse_greeting(guest.said, LONGEST_MESSAGE) is not None:
        with contextlib.suppress(OSError):
            guest.connection.send(BUSY)
    guest.connection.close()


def _receive_datagrams(listener: socket.socket, party: StreamGroup, options: BuiltinOptions) -> None:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not party.complete:
        party.check_time()
        if not poll.poll(AGAIN * 1000):
            continue
        try:
            said, sender = listener.recvfrom(65536)
        except OSError:
            continue
        greeting = party.wanted(said)
        if greeting is None:
            continue
        connection = socket.socket(listener.family, socket.SOCK_DGRAM)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        prepare(connection, options)
        connection.bind(listener.getsockname())
        connection.connect(sender)
        party.admit(connection, greeting)
