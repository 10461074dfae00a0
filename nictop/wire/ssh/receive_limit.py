"""What one SSH connection may cost: all bytes of a host pass here before the SSH library handles
them.

They are passed on in small pieces, as the library's work for a read grows with the square of its
size. The CPU time is charged to the budget of the host, whatever the messages are; an overloaded
host waits for its turn, and its socket is not read meanwhile. It is not read either while the
consumer has no room: the library would buffer messages of one byte each. A host that sends many
bytes which reach no consumer (SSH_MSG_IGNORE, DEBUG, UNIMPLEMENTED, new keys again and again, a
long login) loses the connection.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from nictop.limits import MAX_SMALL_LINE_BYTES
from nictop.wire.budget import HostBudget
from nictop.wire.errors import TransientError, sanitize

if TYPE_CHECKING:
    import asyncssh

PIECE_BYTES = 4 * 1024
"""At once: a hundred of the smallest messages, which take 10 ms."""
LOGIN_CPU_SECONDS = 0.1
"""Of one connection that are not charged: the cryptography of a login takes 0.03, more than a host
may use at once when there are many."""
MAX_USELESS_BYTES, USELESS_BYTES_PER_SECOND = 512 * 1024, 4 * 1024
"""Bytes that reach no consumer: at once, and per second. A login takes 10,000, new keys 5,000, a
keepalive 100."""
MESSAGE_BYTES = 128
"""Of each message that reaches a consumer, its header, padding and checksum, and its part of what
the two ends tell each other."""
EXTRA_NAME = "nictop_receive_limit"
"""Name of the limit in the extra information of its connection."""


class ReceiveLimit:
    """`attach` puts it in front of a connection. `outer`: that of the hop before, which passes the
    bytes of this one on and is what waits."""

    def __init__(self, budget: HostBudget, host: str, outer: ReceiveLimit | None = None) -> None:
        self._budget, self._host, self._outer = budget, sanitize(host), outer
        self._connection: asyncssh.SSHClientConnection | None = None
        self._pass_on: Any = None
        self._waiting = b""
        """Received and not passed on."""
        self._free_seconds = LOGIN_CPU_SECONDS
        self._useless_left, self._refilled_at = float(MAX_USELESS_BYTES), time.monotonic()
        self._is_held = self._is_ended = False
        self._task: asyncio.Task[None] | None = None

    def attach(self, connection: asyncssh.SSHClientConnection) -> None:
        """To be called before anything is received."""
        self._connection, self._pass_on = connection, connection.data_received
        connection.data_received = self.receive  # type: ignore[method-assign]
        connection.set_extra_info(**{EXTRA_NAME: self})

    def receive(self, data: bytes, datatype: object = None) -> None:
        """In place of the connection's own method."""
        if self._is_ended:
            return
        if self._outer is not None:
            self._outer.delivered(len(data))
            self._pass_piece(data)
            return
        self._waiting += data
        if self._task is None and not self._is_held and self._budget.has_time():
            self._pass_slice()
        if self._waiting:
            self._continue_later()

    def delivered(self, size: int) -> None:
        """So many bytes of a message have reached a consumer."""
        self._useless_left = min(
            float(MAX_USELESS_BYTES), self._useless_left + size + MESSAGE_BYTES
        )

    def hold(self) -> None:
        """The consumer has no room."""
        outermost = self._outermost
        outermost._is_held = True
        outermost._set_reading(False)

    def release(self) -> None:
        """The consumer has room again."""
        outermost = self._outermost
        outermost._is_held = False
        outermost._continue_later()

    def end(self) -> None:
        """The connection has ended."""
        self._is_ended, self._waiting = True, b""
        if self._task is not None:
            self._task.cancel()

    @property
    def _outermost(self) -> ReceiveLimit:
        return self if self._outer is None else self._outer._outermost

    def _continue_later(self) -> None:
        if self._is_ended:
            return
        self._set_reading(False)
        if self._task is None and not self._is_held:
            self._task = asyncio.ensure_future(self._pass_waiting())

    async def _pass_waiting(self) -> None:
        """Until nothing waits, or the consumer has no room."""
        self._budget.has_backlog = True
        try:
            while self._waiting and not self._is_held:
                was_overloaded = self._budget.overloaded
                await self._budget.wait_for_turn(MAX_SMALL_LINE_BYTES + 1)
                if was_overloaded or not self._budget.overloaded:
                    self._pass_slice()
        finally:
            self._task = None
            self._budget.has_backlog = False
        if not self._is_held:
            self._set_reading(True)

    def _pass_slice(self) -> None:
        """As many pieces as a host may have handled at once, one at least."""
        cpu_begin, begin = time.thread_time(), time.monotonic()
        end = begin + self._budget.slice_seconds
        position, waiting = 0, self._waiting
        while position < len(waiting) and not self._is_held and not self._is_ended:
            self._pass_piece(waiting[position : position + PIECE_BYTES])
            position += PIECE_BYTES
            if time.monotonic() >= end:
                break
        self._waiting = b"" if self._is_ended else waiting[position:]
        self._charge(time.thread_time() - cpu_begin, time.monotonic() - begin)

    def _pass_piece(self, piece: bytes) -> None:
        now = time.monotonic()
        gained = (now - self._refilled_at) * USELESS_BYTES_PER_SECOND
        self._refilled_at = now
        self._useless_left = min(float(MAX_USELESS_BYTES), self._useless_left + gained) - len(piece)
        self._pass_on(piece)
        if self._useless_left < 0 and not self._is_ended and self._connection is not None:
            self.end()
            self._connection.connection_lost(
                TransientError(
                    f"{self._host} sends too many SSH messages without data", "check the sshd there"
                )
            )

    def _charge(self, seconds: float, elapsed: float) -> None:
        free = min(seconds, self._free_seconds)
        self._free_seconds -= free
        if seconds > free:
            self._budget.charge(seconds - free, elapsed)

    def _set_reading(self, is_reading: bool) -> None:
        """Whether the socket is read, or the output of a ProxyCommand."""
        transport = getattr(self._connection, "_transport", None)  # asyncssh has no other way to it
        pipe = getattr(getattr(transport, "_transport", None), "get_pipe_transport", None)
        if pipe is not None:
            transport = pipe(1)
        if transport is not None:
            change = transport.resume_reading if is_reading else transport.pause_reading
            change()


def receive_limit(ssh: asyncssh.SSHClientConnection) -> ReceiveLimit:
    """That of a connection which `wire.ssh.connection` has opened."""
    found = ssh.get_extra_info(EXTRA_NAME)
    assert isinstance(found, ReceiveLimit)
    return found
