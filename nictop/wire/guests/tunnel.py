"""The way of an SSH connection through a process on a host: for a guest that only this host, or
another guest of it, can reach.

The process (`nictop.probe.reach.connect_socket`) is a channel; the SSH library gets one end of a
pair of sockets, and what passes the other is carried by the channel.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Sequence
from typing import cast

from nictop.errors import HostUnreachable
from nictop.wire.channel import STDERR_DATATYPE, Carrier, Channel
from nictop.wire.guests.levels import Level, ssh_address
from nictop.wire.guests.programs import program_words
from nictop.wire.guests.reasons import own_sentence, unreached_reason
from nictop.wire.guests.wrapping import new_marks, prefix_words

MAX_STDERR_BYTES = 2000
DEFAULT_PORT = 22


class ProcessTunnel(asyncio.Protocol):
    """`open` starts it; `socket` is for the SSH library."""

    def __init__(self, host: str, levels: Sequence[Level]) -> None:
        """`levels`: those on the way, and last the one that is connected to."""
        self._host, self._levels = host, levels
        self._marks = new_marks(levels)
        self.socket, self._own = socket.socketpair()
        self._channel: Channel | None = None
        self._transport: asyncio.Transport | None = None
        self._stderr = b""
        self._status: int | None = None

    async def open(self, carrier: Carrier) -> None:
        """Raises TransientError or PermanentError."""
        level = self._levels[-1]
        _, address, port = ssh_address(level)
        *outer, own = self._marks
        words = [*prefix_words(self._levels[:-1], 0.0, marks=outer)]
        words += program_words("connect_socket", own)
        words += [level.kind, address, str(port or DEFAULT_PORT)]
        self._own.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=self._own)
        command = " ".join(["exec", *map(shlex.quote, words)])
        self._channel = await carrier.open(command, self, self._host)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.abort()
        if self._transport is not None:
            self._transport.abort()
        self.socket.close()

    def failure(self) -> HostUnreachable | None:
        """Why it has ended; None: it said nothing."""
        text = self._stderr.decode("utf-8", "replace")
        if not text.strip():
            return None
        lines = [line for line in text.splitlines() if line.strip()]
        sentence = own_sentence(text, self._marks)
        return unreached_reason(self._host, self._levels, self._status, sentence, lines[-1])

    # ---------------------------------------------------------------------- from the SSH library

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write_eof()

    def pause_writing(self) -> None:
        if self._channel is not None:
            self._channel.hold()

    def resume_writing(self) -> None:
        if self._channel is not None:
            self._channel.release()

    # ------------------------------------------------------------------------- from the channel

    def receive(self, data: bytes, datatype: int | None) -> None:
        if datatype == STDERR_DATATYPE:
            self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]
        elif self._transport is not None:
            self._transport.write(data)

    def end_of_output(self) -> None:
        """`channel_closed` follows."""

    def set_exit_status(self, status: int | None, signal: str = "") -> None:
        self._status = status

    def channel_closed(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._transport.close()
