"""Calls on the system bus; several may be on their way at once.

Waiting ends when nothing comes for a while, but not as long as the service that is asked is at work: on a slow host it
needs its time.

Speaks through a Unix socket, with messages made and taken apart by jeepney. Yields `DbusReply`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nictop.probe.inventory.child import cpu_time
from nictop.probe.kernel import dbus_wire as bus

LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes: some ten thousand devices."""
RECEIVE = 256 * 1024
LONGEST_GREETING = 4096


@dataclass(frozen=True)
class DbusReply:
    """What came back for one call: a body, or the name and text of an error."""

    body: tuple[Any, ...]
    error: str | None = None
    text: str = ""

    def complaint(self) -> str:
        """The error in one line."""
        return f"{self.error}: {self.text}" if self.text else f"{self.error}"


class Conversation:
    """A connection to the bus at `address`, closed at the end of a ``with``.

    Every method raises OSError (TimeoutError after `limit` seconds in which nothing came and the service that is waited
    for did nothing, or `longest` seconds after the start of the conversation), EOFError when the bus ends, ValueError
    for nonsense and ImportError without jeepney. `proc`: where the state of the service's process is read.
    """

    def __init__(self, address: str, limit: float, *, longest: float = 0.0, proc: str = "/proc") -> None:
        begin = time.monotonic()
        self._limit, self._longest, self._proc = limit, begin + max(limit, longest), proc
        self._end = begin + limit
        self._pid, self._worked = 0, 0.0
        self._serial = 0
        self._buffer = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._hasten()
            self._socket.connect(address)
            import jeepney

            self._jeepney = jeepney
            self._authenticate()
            (hello,) = self.call(bus.BUS, [("/org/freedesktop/DBus", bus.BUS, "Hello")])
            if hello.error is not None:
                raise ConnectionError(hello.complaint())
        except socket.timeout:
            self._socket.close()
            raise TimeoutError from None  # Python 3.9 has two kinds
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, service: str, calls: Iterable[tuple[str, str, str]]) -> list[DbusReply]:
        """Answers to (object path, interface, method) without arguments, in the order of the calls. The service is not
        started when it does not run."""
        answers = dict(self.each(service, calls))
        return [answers[number] for number in sorted(answers)]

    def each(self, service: str, calls: Iterable[tuple[str, str, str]]) -> Iterator[tuple[int, DbusReply]]:
        """(number of the call, its answer) as they come: those that came before an error are there."""
        jeepney = self._jeepney
        awaited = {}
        words = b""
        for number, (path, interface, method) in enumerate(calls):
            self._serial += 1
            message = jeepney.new_method_call(jeepney.DBusAddress(path, service, interface), method)
            message.header.flags = jeepney.MessageFlag.no_auto_start
            words += message.serialise(self._serial)
            awaited[self._serial] = number
        self._send(words)
        while awaited:
            serial, answer = self._next_answer()
            if serial in awaited:
                yield awaited.pop(serial), answer

    def wait_for(self, service: str) -> None:
        """From now on that service's process is the one whose work counts."""
        self._serial += 1
        serial = self._serial
        self._send(bus.call_of_the_bus("GetConnectionUnixProcessID", serial, service))
        while True:
            number, answer = self._next_answer()
            if number == serial:
                self._pid = answer.body[0] if answer.body and isinstance(answer.body[0], int) else 0
                self._worked = cpu_time(self._pid)
                return

    def _send(self, words: bytes) -> None:
        self._hasten()
        try:
            self._socket.sendall(words)
        except socket.timeout:
            raise TimeoutError from None

    def _authenticate(self) -> None:
        self._socket.sendall(bus.authentication(os.geteuid()))
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > LONGEST_GREETING:
                raise ValueError("no answer to the authentication")
            self._receive()
        line, _, rest = bytes(self._buffer).partition(b"\r\n")
        if not line.startswith(b"OK"):
            raise ConnectionError(f"refused: {line[:100].decode('utf-8', 'replace')}")
        self._buffer = bytearray(rest)
        self._socket.sendall(b"BEGIN\r\n")

    def _next_answer(self) -> tuple[int, DbusReply]:
        """(Serial number of the call that is answered, 0 for whatever else the bus says; answer)."""
        while True:
            length = bus.message_length(self._buffer, LARGEST_ANSWER)
            if length and len(self._buffer) >= length:
                break
            self._receive()
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        jeepney = self._jeepney
        try:
            message = jeepney.Message.from_buffer(data)
        except Exception as error:  # it trusts its input, and fails in any way when that is no message
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
                self._hasten()
                part = self._socket.recv(RECEIVE)
                break
            except (socket.timeout, TimeoutError):  # Python 3.9 has two kinds
                self._wait_longer()
        if not part:
            raise EOFError("the bus closed the connection")
        self._buffer += part
        self._end = min(time.monotonic() + self._limit, self._longest)

    def _wait_longer(self) -> None:
        """Go on as long as the service does something; else raises TimeoutError."""
        if not self._pid:
            raise TimeoutError
        worked, state = cpu_time(self._pid), process_state(self._pid, self._proc)
        if state in ("T", "t"):
            raise TimeoutError(f"its process {self._pid} is stopped")
        if worked <= self._worked and state not in ("R", "D"):
            raise TimeoutError
        now = time.monotonic()
        if now >= self._longest:
            raise TimeoutError("it is at work, but slow")
        self._worked, self._end = worked, min(now + self._limit, self._longest)

    def _hasten(self) -> None:
        """The next wait ends with the conversation's time."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


def process_state(pid: int, proc: str = "/proc") -> str:
    """Its state as a letter (R, S, D, T, …), "" when it cannot be read. proc_pid_stat(5)."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii", "replace")
    except (OSError, IndexError):
        return ""


def plain(value: object) -> Any:
    """A value of jeepney's without D-Bus types: variants, which are pairs of signature and value, become the value."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return plain(value[1])
    return value
