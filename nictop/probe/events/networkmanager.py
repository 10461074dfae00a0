"""NetworkManager's signals on the system bus → "take a new inventory": small enough for the probe itself.

A connection of its own that only listens: it asks the bus for the signals of NetworkManager's objects and for word of
its coming and going, and drops what it hears. Nothing is ever called on NetworkManager, so that a reading can cause no
signal. Without a bus there is silence, and another attempt now and then.
"""

from __future__ import annotations

import os
import socket

from nictop.probe.kernel import dbus_wire as bus

RETRY = 10.0
"""Seconds until the next attempt to reach a bus; an attempt that fails costs some microseconds."""
RECEIVE = 64 * 1024
BATCH = 64
"""Reads per wake-up, so that a storm of signals cannot hold up the counters."""
LONGEST_GREETING = 4096
"""Bytes of the bus's answer to the authentication: one line."""

SERVICE = "org.freedesktop.NetworkManager"
ROOT = "/org/freedesktop/NetworkManager"
RULES = (
    f"type='signal',sender='{SERVICE}',path_namespace='{ROOT}'",
    f"type='signal',sender='{bus.BUS}',interface='{bus.BUS}',member='NameOwnerChanged',arg0='{SERVICE}'",
)
OBJECTS = ("Settings", "Devices", "ActiveConnection")
"""Below `ROOT`, what `profiles` reads. Not: access points, whose LastSeen and Strength move for ever, and the addresses
and leases, of which rtnetlink tells."""
RESTLESS = (f"{SERVICE}.Device.Statistics", f"{SERVICE}.Device.Wireless")
"""Interfaces of devices whose properties change by themselves."""


class BusSignals:
    """One connection to the bus at `address`, a path or an abstract name; "" is never reached.

    `descriptor` is to be polled for reading while it is not negative; `retry_at` (CLOCK_MONOTONIC) is when `connect`
    has something to do, None while connected.
    """

    def __init__(self, address: str) -> None:
        self.descriptor = -1
        self.retry_at: float | None = 0.0
        self._address = address
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._admitted = False
        self._was_heard = False

    def connect(self, now: float) -> None:
        """Try to reach the bus, without waiting and without complaint."""
        self.retry_at = now + RETRY
        if not self._address:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            connection.connect(self._address)
            connection.send(bus.authentication(os.geteuid()))
        except (OSError, ValueError):  # ValueError: no address at all
            connection.close()
            return
        self._socket, self.descriptor, self.retry_at = connection, connection.fileno(), None
        self._buffer.clear()
        self._admitted = False

    def take(self, now: float) -> bool:
        """Read what has arrived; True: a new inventory is worth taking.

        A bus that ends or talks nonsense ends the connection (`descriptor` becomes -1); when it was heard before, that
        too is a reason, and so is its return.
        """
        stale = False
        try:
            for _ in range(BATCH):
                part = self._socket.recv(RECEIVE) if self._socket is not None else b""
                if not part:
                    raise ConnectionResetError
                self._buffer += part
                if not self._admitted:
                    stale = self._enter() or stale
                if self._admitted:
                    stale = self._heard() or stale
        except BlockingIOError:
            pass
        except (OSError, ValueError, IndexError):
            stale = stale or self._admitted
            self.close()
            self.retry_at = now + RETRY
        return stale

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self.descriptor, self._admitted = None, -1, False
        self._buffer.clear()

    def _enter(self) -> bool:
        """Answer the bus's "OK": begin, and say what is wanted. True: it had been lost before."""
        line, end, rest = bytes(self._buffer).partition(b"\r\n")
        if not end:
            if len(line) > LONGEST_GREETING:
                raise ValueError("no answer to the authentication")
            return False
        if not line.startswith(b"OK") or self._socket is None:
            raise ValueError("the bus refuses")
        words = b"BEGIN\r\n" + bus.call_of_the_bus("Hello", 1)
        for serial, rule in enumerate(RULES, 2):
            words += bus.call_of_the_bus("AddMatch", serial, rule, bus.NO_REPLY_EXPECTED)
        self._socket.send(words)
        self._buffer = bytearray(rest)
        again, self._admitted, self._was_heard = self._was_heard, True, True
        return again

    def _heard(self) -> bool:
        stale = False
        start = 0
        while True:
            length = bus.message_length(self._buffer[start : start + bus.FIXED])
            if not length or start + length > len(self._buffer):
                del self._buffer[:start]
                return stale
            stale = stale or parse_signal_matters(bytes(self._buffer[start : start + length]))
            start += length


def parse_signal_matters(message: bytes) -> bool:
    """Whether a message of the bus can change what an inventory says. ValueError or IndexError: it is no message."""
    kind, fields, first = bus.parse_header(message)
    if kind != bus.SIGNAL:
        return False
    path = fields.get(bus.PATH, "")
    if fields.get(bus.MEMBER) == "NameOwnerChanged":
        return first == SERVICE
    if path == ROOT:
        return True
    below, _, rest = path.partition(ROOT + "/")
    return not below and rest.split("/")[0] in OBJECTS and first not in RESTLESS
