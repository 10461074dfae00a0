"""A process on a watched host, whose stdin, stdout and stderr are those of a probe.

`Carrier` starts it: over SSH (`wire.ssh.channel`) or on this machine (`wire.local_channel`). A
probe in a guest or container is a command wrapped in others (`wire.guests`), so that it needs no
carrier of its own.
"""

from __future__ import annotations

from typing import Protocol

STDERR_DATATYPE = 1
"""Datatype of stderr, as asyncssh has it (stdout has None)."""


class ChannelListener(Protocol):
    """Callbacks for the data and the end of a channel."""

    def receive(self, data: bytes, datatype: int | None) -> None: ...

    def end_of_output(self) -> None: ...

    def set_exit_status(self, status: int | None, signal: str = "") -> None: ...

    def channel_closed(self, error: Exception | None) -> None: ...


class Channel(Protocol):
    """One running process. Methods may raise OSError when it has ended."""

    def write(self, data: bytes) -> None: ...

    def write_eof(self) -> None: ...

    def is_closing(self) -> bool: ...

    def abort(self) -> None: ...

    def hold(self) -> None:
        """Receive nothing more, as there is no room."""

    def release(self) -> None:
        """Receive again."""


class Carrier(Protocol):
    """Starts processes on one host."""

    async def open(self, command: str, listener: ChannelListener, host: str) -> Channel:
        """Run a command line of a shell; raises TransientError or PermanentError with `host` in
        the message."""

    async def output(self, command: str, timeout: float) -> str:
        """What a command prints to stdout, without any input; "" if it fails or takes longer than
        `timeout` seconds."""
