"""NetworkManager's signals on the system bus → whether the inventory is out of date. Small: part of
the probe process.

The connection only receives: it subscribes to the signals of NetworkManager's objects and to its
start and stop, and drops their contents. No method of NetworkManager is called, so that no signal
is caused by this program. Without a bus there are no events; the connection is retried at
intervals.
"""

from __future__ import annotations

import os
import socket

from nictop.probe.kernel import dbus_wire as bus

BUS_RETRY_SECONDS = 10.0
"""Until the next attempt to connect; a failed attempt costs some microseconds."""
SIGNAL_RECV_BYTES = 64 * 1024
MAX_RECVS_PER_WAKE = 64
"""Calls of recv per wake-up, so that many signals cannot delay the counters."""

SERVICE = "org.freedesktop.NetworkManager"
ROOT = "/org/freedesktop/NetworkManager"
MATCH_RULES = (
    f"type='signal',sender='{SERVICE}',path_namespace='{ROOT}'",
    f"type='signal',sender='{bus.BUS_NAME}',interface='{bus.BUS_NAME}',member='NameOwnerChanged',"
    f"arg0='{SERVICE}'",
)
INVENTORY_OBJECTS = ("Settings", "Devices", "ActiveConnection")
"""Below `ROOT`: what `inventory.managers.networkmanager` reads. Without access points, whose
LastSeen and Strength change continuously, and without addresses and leases, which rtnetlink
reports."""
VOLATILE_INTERFACES = (f"{SERVICE}.Device.Statistics", f"{SERVICE}.Device.Wireless")
"""Device interfaces whose properties change continuously."""


class NetworkManagerSignals:
    """One connection to the bus at `address`, a path or an abstract name; "" never connects.

    `descriptor`: to be polled for reading, -1 while not connected. `retry_at`: CLOCK_MONOTONIC at
    which to call `connect`, None while connected.
    """

    def __init__(self, address: str) -> None:
        self.descriptor = -1
        self.retry_at: float | None = 0.0
        self._address = address
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._authenticated = False
        self._was_connected = False

    def connect(self, now: float) -> None:
        """Try to connect, without blocking; a failure only sets `retry_at`."""
        self.retry_at = now + BUS_RETRY_SECONDS
        if not self._address:
            return
        connection = socket.socket(
            socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        )
        try:
            connection.connect(self._address)
            connection.send(bus.authentication_request(os.geteuid()))
        except (OSError, ValueError):  # ValueError: not a valid socket address
            connection.close()
            return
        self._socket, self.descriptor, self.retry_at = connection, connection.fileno(), None
        self._buffer.clear()
        self._authenticated = False

    def read(self, now: float) -> bool:
        """Read what has been received; whether the inventory is out of date.

        The end of the stream or a malformed message closes the connection (`descriptor` becomes
        -1). If it had been authenticated, the inventory is out of date then, and again after the
        next authentication.
        """
        stale = False
        try:
            for _ in range(MAX_RECVS_PER_WAKE):
                part = self._socket.recv(SIGNAL_RECV_BYTES) if self._socket is not None else b""
                if not part:
                    raise ConnectionResetError
                self._buffer += part
                if not self._authenticated:
                    stale = self._authenticate() or stale
                if self._authenticated:
                    stale = self._parse_signals() or stale
        except BlockingIOError:
            pass
        except (OSError, ValueError, IndexError):
            stale = stale or self._authenticated
            self.close()
            self.retry_at = now + BUS_RETRY_SECONDS
        return stale

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self.descriptor, self._authenticated = None, -1, False
        self._buffer.clear()

    def _authenticate(self) -> bool:
        """When the bus has replied "OK": start the message stream and subscribe. Whether this is a
        reconnection."""
        line, end, rest = bytes(self._buffer).partition(b"\r\n")
        if not end:
            if len(line) > bus.MAX_AUTH_REPLY_BYTES:
                raise ValueError("no answer to the authentication")
            return False
        if not line.startswith(b"OK") or self._socket is None:
            raise ValueError("the bus refuses")
        data = b"BEGIN\r\n" + bus.bus_method_call("Hello", 1)
        for serial, rule in enumerate(MATCH_RULES, 2):
            data += bus.bus_method_call("AddMatch", serial, rule, bus.NO_REPLY_EXPECTED)
        self._socket.send(data)
        self._buffer = bytearray(rest)
        reconnected, self._authenticated, self._was_connected = self._was_connected, True, True
        return reconnected

    def _parse_signals(self) -> bool:
        stale = False
        start = 0
        while True:
            length = bus.message_length(self._buffer[start : start + bus.FIXED_HEADER_BYTES])
            if not length or start + length > len(self._buffer):
                del self._buffer[:start]
                return stale
            stale = stale or parse_signal_relevance(bytes(self._buffer[start : start + length]))
            start += length


def parse_signal_relevance(message: bytes) -> bool:
    """Whether a D-Bus message can change the inventory. ValueError or IndexError: malformed."""
    kind, fields, first = bus.parse_message(message)
    if kind != bus.SIGNAL:
        return False
    path = fields.get(bus.PATH, "")
    if fields.get(bus.MEMBER) == "NameOwnerChanged":
        return first == SERVICE
    if path == ROOT:
        return True
    below, _, rest = path.partition(ROOT + "/")
    return (
        not below and rest.split("/")[0] in INVENTORY_OBJECTS and first not in VOLATILE_INTERFACES
    )
