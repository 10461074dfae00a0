"""The channel of one remote command, without a terminal and with nothing of our environment.

Yields what is heard to a `ChannelListener`. asyncssh is loaded where a connection exists already.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Protocol

from nictop.wire.errors import PermanentError, TransientError, plain

if TYPE_CHECKING:
    import asyncssh

STDERR = 1
"""Type of the data that is not stdout's."""
HASTE = 0.1
"""Seconds that `acknowledge_at_once` goes on at most."""

WINDOW = 1024 * 1024
"""Bytes that the host may send while the channel is paused: the SSH library keeps them."""


class ChannelListener(Protocol):
    """Who is told what the channel says."""

    def hear(self, data: bytes, datatype: int | None) -> None: ...

    def end_of_output(self) -> None: ...

    def status(self, status: int | None, signal: str = "") -> None: ...

    def finish(self, error: Exception | None) -> None: ...


async def open_channel(
    ssh: asyncssh.SSHClientConnection, command: str, listener: ChannelListener, host: str
) -> asyncssh.SSHClientChannel[bytes]:
    """Run `command`; raises TransientError or PermanentError, with `host` in the sentence."""
    import asyncssh

    session = type("Session", (_Session, asyncssh.SSHClientSession), {})
    haste = asyncio.ensure_future(acknowledge_at_once(ssh))
    try:
        channel, _ = await ssh.create_session(
            lambda: session(listener),
            command,
            encoding=None,
            request_pty=False,
            env={},
            send_env=[],
            window=WINDOW,
        )
    except asyncssh.ChannelOpenError as error:
        raise PermanentError(f"{host} runs no commands: {plain(error.reason)}", "see ForceCommand there") from None
    except (asyncssh.Error, OSError) as error:
        raise TransientError(f"{host} has broken off the connection: {plain(str(error))}") from None
    finally:
        haste.cancel()
    return channel


async def acknowledge_at_once(ssh: asyncssh.SSHClientConnection) -> None:
    """Until cancelled, for `HASTE` seconds at most. sshd says something small after the login and holds back its answer
    to our next request until that is acknowledged (Nagle there), which the kernel here likes to do 40 ms later; it
    forgets soon that it was told not to."""
    end = time.monotonic() + HASTE
    connection, option = ssh.get_extra_info("socket"), getattr(socket, "TCP_QUICKACK", None)
    with contextlib.suppress(OSError, AttributeError):  # a proxy's pipe is no socket
        while option is not None and time.monotonic() < end:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
            await asyncio.sleep(0.002)


class _Session:
    """What asyncssh calls; mixed with its SSHClientSession where that is loaded."""

    def __init__(self, listener: ChannelListener) -> None:
        self._listener = listener

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._listener.hear(data, datatype)

    def eof_received(self) -> bool:
        self._listener.end_of_output()
        return True

    def exit_status_received(self, status: int) -> None:
        self._listener.status(status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._listener.status(None, signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.finish(exc)
