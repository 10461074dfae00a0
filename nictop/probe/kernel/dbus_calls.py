"""Method calls on the system bus, several in flight at once, over a Unix socket; jeepney encodes
and decodes them.

A call times out when nothing is received for a while, neither the service nor the bus uses CPU, and
the host has idle CPUs (`waiting`): a busy service on a slow host gets more time. Yields
`DbusReply`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from typing import Any

from nictop.probe.inventory.child import cpu_time
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel.waiting import Wait
from nictop.probe.light_dataclasses import dataclass

MAX_REPLY_BYTES = 32 * 1024 * 1024
"""Bytes in one message: enough for about ten thousand devices."""
REPLY_RECV_BYTES = 256 * 1024


@dataclass(frozen=True)
class DbusReply:
    """The reply to one method call: a body, or the name and the text of an error."""

    body: tuple[Any, ...]
    error: str | None = None
    text: str = ""

    def error_text(self) -> str:
        """Error name and text in one line."""
        return f"{self.error}: {self.text}" if self.text else f"{self.error}"


class BusConnection:
    """A connection to the bus at `address`, closed at the end of a ``with``.

    Every method raises OSError, EOFError when the bus closes the connection, ValueError for a
    malformed message, and ImportError without jeepney. TimeoutError: nothing was received for
    `limit` seconds, in which the host was not busy and neither the bus nor the service passed to
    `wait_for` used CPU time, or `longest` seconds have passed since the connection was made.
    `proc`: root of procfs.
    """

    def __init__(
        self, address: str, limit: float, *, longest: float = 0.0, proc: str = "/proc"
    ) -> None:
        self._proc = proc
        self._wait = Wait(limit, longest, proc=proc)
        self._workers: dict[int, float] = {}
        """Process id of the service and of the bus → CPU seconds that it had used when the wait
        began."""
        self._serial = 0
        self._buffer = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._set_timeout()
            self._socket.connect(address)
            import jeepney

            self._jeepney = jeepney
            self._authenticate()
            (hello,) = self.call(bus.BUS_NAME, [("/org/freedesktop/DBus", bus.BUS_NAME, "Hello")])
            if hello.error is not None:
                raise ConnectionError(hello.error_text())
        except socket.timeout:
            self._socket.close()
            raise TimeoutError from None  # before Python 3.10 socket.timeout is not TimeoutError
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> BusConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, service: str, calls: Iterable[tuple[str, str, str]]) -> list[DbusReply]:
        """Replies to (object path, interface, method) without arguments, in the order of the calls.

        A service that is not running is not started.
        """
        replies = dict(self.each(service, calls))
        return [replies[number] for number in sorted(replies)]

    def each(
        self,
        service: str,
        calls: Iterable[tuple[str, str, str]],
        arguments: tuple[str, tuple[Any, ...]] = ("", ()),
    ) -> Iterator[tuple[int, DbusReply]]:
        """(index of the call, its reply), in the order of arrival: replies received before an error
        are yielded.

        `arguments`: signature and body of every call.
        """
        jeepney = self._jeepney
        pending = {}
        data = b""
        for number, (path, interface, method) in enumerate(calls):
            self._serial += 1
            message = jeepney.new_method_call(
                jeepney.DBusAddress(path, service, interface), method, *arguments
            )
            message.header.flags = jeepney.MessageFlag.no_auto_start
            data += message.serialise(self._serial)
            pending[self._serial] = number
        self._send(data)
        while pending:
            serial, reply = self._next_reply()
            if serial in pending:
                yield pending.pop(serial), reply

    def wait_for(self, service: str) -> None:
        """Extend the timeout from now on while the process that owns the bus name `service`, or the
        bus, uses CPU time."""
        pending = []
        for name in (service, bus.BUS_NAME):
            self._serial += 1
            pending.append(self._serial)
            self._send(bus.bus_method_call("GetConnectionUnixProcessID", self._serial, name))
        while pending:
            number, reply = self._next_reply()
            if number in pending:
                pending.remove(number)
                if reply.body and isinstance(reply.body[0], int):
                    self._workers[reply.body[0]] = cpu_time(reply.body[0])

    def _send(self, data: bytes) -> None:
        self._set_timeout()
        try:
            self._socket.sendall(data)
        except socket.timeout:
            raise TimeoutError from None

    def _authenticate(self) -> None:
        self._socket.sendall(bus.authentication_request(os.geteuid()))
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > bus.MAX_AUTH_REPLY_BYTES:
                raise ValueError("no answer to the authentication")
            self._receive()
        line, _, rest = bytes(self._buffer).partition(b"\r\n")
        if not line.startswith(b"OK"):
            raise ConnectionError(f"refused: {line[:100].decode('utf-8', 'replace')}")
        self._buffer = bytearray(rest)
        self._socket.sendall(b"BEGIN\r\n")

    def _next_reply(self) -> tuple[int, DbusReply]:
        """(Serial number of the call that this replies to, 0 for a signal or a call; the reply)."""
        while True:
            length = bus.message_length(self._buffer, MAX_REPLY_BYTES)
            if length and len(self._buffer) >= length:
                break
            self._receive()
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        jeepney = self._jeepney
        try:
            message = jeepney.Message.from_buffer(data)
        except (
            Exception
        ) as error:  # jeepney does not validate: malformed input raises any exception
            raise ValueError(f"{type(error).__name__} in an answer of the bus") from None
        fields = message.header.fields
        serial = fields.get(jeepney.HeaderFields.reply_serial, 0)
        if message.header.message_type is jeepney.MessageType.error:
            text = message.body[0] if message.body and isinstance(message.body[0], str) else ""
            return serial, DbusReply((), str(fields.get(jeepney.HeaderFields.error_name)), text)
        if message.header.message_type is jeepney.MessageType.method_return:
            return serial, DbusReply(tuple(message.body))
        return 0, DbusReply(())

    def _receive(self) -> None:
        while True:
            try:
                self._set_timeout()
                part = self._socket.recv(REPLY_RECV_BYTES)
                break
            except (socket.timeout, TimeoutError):
                # before Python 3.10 socket.timeout is not TimeoutError
                self._extend_wait()
        if not part:
            raise EOFError("the bus closed the connection")
        self._buffer += part
        self._wait.restart()

    def _extend_wait(self) -> None:
        """Wait longer if a worker has used CPU time or is running, or the host is busy; else raise
        TimeoutError."""
        is_worked_on = False
        for pid, before in self._workers.items():
            used, state = cpu_time(pid), process_state(pid, self._proc)
            if state in ("T", "t"):
                raise TimeoutError(f"its process {pid} is stopped")
            is_worked_on = is_worked_on or used > before or state in ("R", "D")
            self._workers[pid] = used
        self._wait.extend(is_worked_on=is_worked_on)

    def _set_timeout(self) -> None:
        """Let the next socket operation time out at the end of the wait. Raises TimeoutError when
        that has passed."""
        self._socket.settimeout(self._wait.remaining())


def process_state(pid: int, proc: str = "/proc") -> str:
    """State letter of a process (R, S, D, T, …), field 3 of /proc/PID/stat; "" when it cannot be
    read."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii", "replace")
    except (OSError, IndexError):
        return ""


def unwrap_variants(value: object) -> Any:
    """A value decoded by jeepney with each variant, a pair (signature, value), replaced by its
    value."""
    if isinstance(value, dict):
        return {key: unwrap_variants(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unwrap_variants(item) for item in value]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return unwrap_variants(value[1])
    return value
