"""The channel of one remote command, without a terminal and without local environment variables.

Passes received data to a `ChannelListener`. A consumer without room holds the whole connection
(`receive_limit`): a channel that is paused would buffer a window of messages that hold one byte
each. asyncssh is imported inside the functions: the connection has loaded it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING

from nictop.wire.channel import ChannelListener
from nictop.wire.errors import PermanentError, TransientError, sanitize
from nictop.wire.ssh.receive_limit import ReceiveLimit, receive_limit
from nictop.wire.timeout import with_timeout

if TYPE_CHECKING:
    import asyncssh

QUICKACK_SECONDS = 0.1
"""Longest duration of `enable_quickack` in seconds."""

CHANNEL_WINDOW_BYTES = 1024 * 1024
"""Bytes that the host may send before they are received here."""


MIN_PACKET_BYTES = 1024
"""Least size of a packet that a host must take: every implementation takes 32768 (RFC 4253 section
6.1). One that takes a byte at a time makes a packet of each byte of the probe, and the library
makes them all at once."""


class SshCarrier:
    """Runs commands on the host of one connection. See `Carrier`."""

    def __init__(self, ssh: asyncssh.SSHClientConnection) -> None:
        self._ssh = ssh

    async def open(self, command: str, listener: ChannelListener, host: str) -> SshChannel:
        """See `Carrier.open`."""
        channel = await open_channel(self._ssh, command, listener, host)
        return SshChannel(channel, receive_limit(self._ssh))

    async def output(self, command: str, timeout: float) -> str:
        """See `Carrier.output`."""
        import asyncssh

        with contextlib.suppress(asyncio.TimeoutError, asyncssh.Error, OSError):
            work = self._ssh.run(command, request_pty=False, stdin=asyncssh.DEVNULL)
            completed = await with_timeout(timeout, work)
            return str(completed.stdout or "")
        return ""


class SshChannel:
    """See `Channel`."""

    def __init__(self, channel: asyncssh.SSHClientChannel[bytes], limit: ReceiveLimit) -> None:
        self.write, self.write_eof, self.abort = channel.write, channel.write_eof, channel.abort
        self.is_closing = channel.is_closing
        self.hold, self.release = limit.hold, limit.release


async def open_channel(
    ssh: asyncssh.SSHClientConnection, command: str, listener: ChannelListener, host: str
) -> asyncssh.SSHClientChannel[bytes]:
    """Run `command`; raises TransientError or PermanentError with `host` in the message."""
    import asyncssh

    session = type("Session", (_Session, asyncssh.SSHClientSession), {})
    quickack = asyncio.ensure_future(enable_quickack(ssh))
    try:
        channel, _ = await ssh.create_session(
            lambda: session(listener, receive_limit(ssh)),
            command,
            encoding=None,
            request_pty=False,
            env={},
            send_env=[],
            window=CHANNEL_WINDOW_BYTES,
        )
    except asyncssh.ChannelOpenError as error:
        raise PermanentError(
            f"{host} refuses to run commands: {sanitize(error.reason)}",
            "check MaxSessions and ForceCommand in its sshd_config",
        ) from None
    except (asyncssh.Error, OSError) as error:
        raise TransientError(f"{host} closed the connection: {sanitize(str(error))}") from None
    finally:
        quickack.cancel()
    check_packet_size(channel, host)
    return channel


def check_packet_size(channel: object, host: str) -> None:
    """Raises PermanentError if the other end of a channel takes only tiny packets."""
    size = getattr(channel, "_send_pktsize", MIN_PACKET_BYTES)  # asyncssh has no other way to it
    if size < MIN_PACKET_BYTES:
        raise PermanentError(
            f"{host} takes packets of at most {size} B",
            "check that a current sshd listens on this port",
        )


async def enable_quickack(ssh: asyncssh.SSHClientConnection) -> None:
    """Set TCP_QUICKACK until cancelled, for `QUICKACK_SECONDS` seconds at most. After the login
    sshd sends a small packet and holds back its answer to our next request until that one is
    acknowledged (Nagle's algorithm); the local kernel would delay the acknowledgement by 40 ms. The
    kernel resets the option by itself, so it is set repeatedly."""
    end = time.monotonic() + QUICKACK_SECONDS
    connection, option = ssh.get_extra_info("socket"), getattr(socket, "TCP_QUICKACK", None)
    with contextlib.suppress(OSError, AttributeError):  # a ProxyCommand has a pipe, not a socket
        while option is not None and time.monotonic() < end:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
            await asyncio.sleep(0.002)


class _Session:
    """Methods that asyncssh calls; combined with its SSHClientSession once that is loaded."""

    def __init__(self, listener: ChannelListener, limit: ReceiveLimit) -> None:
        self._listener, self._limit = listener, limit

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._limit.delivered(len(data))
        self._listener.receive(data, datatype)

    def eof_received(self) -> bool:
        self._listener.end_of_output()
        return True

    def exit_status_received(self, status: int) -> None:
        self._listener.set_exit_status(status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._listener.set_exit_status(None, signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.channel_closed(exc)
