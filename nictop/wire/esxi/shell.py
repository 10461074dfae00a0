"""A shell on an ESXi host: commands one after the other, each with its output, exit status and
limits.

The shell reads the commands from its stdin; nothing is written to the host. Marks around each
output contain a random word and a number, so that output before them, and of an earlier command, is
ignored. A command that takes too long is killed. The shell ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.errors import HostUnreachable
from nictop.probe.light_dataclasses import dataclass
from nictop.wire.channel import STDERR_DATATYPE
from nictop.wire.errors import TransientError, connection_lost, last_line, sanitize
from nictop.wire.inbox import Inbox
from nictop.wire.ssh.channel import open_channel
from nictop.wire.ssh.receive_limit import receive_limit
from nictop.wire.timeout import with_timeout

if TYPE_CHECKING:
    import asyncssh

COMMAND_TIMEOUT = 20.0
"""Seconds that a command may take; esxcli needs up to a second."""
KILL_TIMEOUT = 5.0
"""Seconds until a killed command has ended."""
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
"""Bytes of one output that are stored: net-stats prints 300 bytes for each world and 1500 for each
port."""
MAX_DISCARDED_BYTES = 64 * 1024 * 1024
"""Bytes of one output beyond that; after more the host is given up."""
MAX_MARK_BYTES = 100
"""A mark is shorter. Of what was searched before, so much is searched again."""
MAX_STDERR_BYTES = 2000
SEARCH_PATH = "/bin:/sbin:/usr/bin:/usr/sbin:/usr/lib/vmware/bin"
"""Appended to PATH, which a session without login may lack."""
SETTINGS = f'LC_ALL=C LANG=C PATH="$PATH:{SEARCH_PATH}"; export LC_ALL LANG PATH'
RUN = 'echo; echo "$0 begin $$"; exec "$@"'
"""Program of the shell that becomes the command: its process ID is that of the command."""


@dataclass(frozen=True)
class Output:
    """What a command printed."""

    text: bytes
    problem: str = ""
    """Why it cannot be used: exit status, timeout, too long; "" if there is no problem."""


class EsxiShell:
    """`start` opens it, `run` runs one command at a time. `inbox`: nothing is received while it is
    full."""

    def __init__(self, ssh: asyncssh.SSHClientConnection, host: str, inbox: Inbox) -> None:
        self._ssh, self._host, self._inbox = ssh, sanitize(host), inbox
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._word = f"nictop-{secrets.token_hex(8)}"
        self._number = 0
        self._received = bytearray()
        self._discarded = self._ignored = 0
        """Bytes of the output beyond the limit, and bytes before it."""
        self._stderr = bytearray()
        self._pid = 0
        self._status: int | None = None
        self._has_begun = False
        self._begin = self._end = re.compile(rb"(?!)")
        """Match the marks of the command that runs; at first nothing."""
        self._changed = asyncio.Event()
        self._lost: HostUnreachable | None = None

    async def start(self) -> None:
        """Open the shell. Raises TransientError or PermanentError."""
        self._channel = await open_channel(self._ssh, "exec sh", self, self._host)
        self._write(SETTINGS)

    async def run(self, words: Sequence[str], timeout: float = COMMAND_TIMEOUT) -> Output:
        """Run a command; raises HostUnreachable when the shell has ended or does not answer."""
        mark = self._next_mark()
        command = " ".join(map(shlex.quote, ["sh", "-c", RUN, mark, *words]))
        self._write(f'{command} </dev/null; status=$?; echo; echo "{mark} end $status"')
        note = ""
        if not await self._ends_within(timeout):
            note = f"no answer within {timeout:g} s"
            await self._kill()
        text = bytes(self._received)
        if not note and self._status:
            detail = last_line(self._stderr.decode("utf-8", "replace")) or last_line(
                text.decode("utf-8", "replace")
            )
            note = f"status {self._status}" + (f": {detail}" if detail else "")
        if not note and self._discarded:
            note = f"more than {MAX_OUTPUT_BYTES} bytes"
        return Output(text, note)

    def _next_mark(self) -> str:
        """The mark of the next command, for which everything received is reset."""
        self._number += 1
        mark = f"{self._word}-{self._number}"
        self._received.clear()
        self._stderr.clear()
        self._discarded = self._ignored = self._pid = 0
        self._status, self._has_begun = None, False
        self._begin = re.compile(rb"\n%s begin ([0-9]{1,10})\n" % mark.encode())
        self._end = re.compile(rb"\n%s end ([0-9]{1,3})\r?\n" % mark.encode())
        return mark

    async def _ends_within(self, seconds: float) -> bool:
        """Whether the command has ended; raises HostUnreachable."""

        async def ended() -> None:
            while self._status is None and self._lost is None:
                self._changed.clear()
                await self._changed.wait()

        with contextlib.suppress(asyncio.TimeoutError):
            await with_timeout(seconds, ended())
        if self._lost is not None:
            raise self._lost
        return self._status is not None

    async def _kill(self) -> None:
        import asyncssh

        if self._pid > 1:
            with contextlib.suppress(asyncio.TimeoutError, asyncssh.Error, OSError):
                await with_timeout(
                    KILL_TIMEOUT,
                    self._ssh.run(
                        f"kill -9 {self._pid}", request_pty=False, stdin=asyncssh.DEVNULL
                    ),
                )
        if not await self._ends_within(KILL_TIMEOUT):
            raise TransientError(
                f"no more data from {self._host}", "check that the host is up, and try ssh"
            )

    async def close(self) -> None:
        """End the shell; a command that is running ends at its own end."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write_eof()
            self._channel.abort()
            self.resume()

    def resume(self) -> None:
        """The inbox has room again."""
        receive_limit(self._ssh).release()

    def _write(self, line: str) -> None:
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(OSError):  # it is being closed already
                self._channel.write(f"{line}\n".encode())

    # -------------------------------------------------------------------- received from the channel

    def receive(self, data: bytes, datatype: int | None) -> None:
        was_full = self._inbox.is_full
        self._inbox.put(b"", other_bytes=len(data))
        if datatype == STDERR_DATATYPE:
            self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]
        elif self._status is None:
            self._receive_output(data)
        if self._inbox.is_full and not was_full:
            receive_limit(self._ssh).hold()

    def _receive_output(self, data: bytes) -> None:
        received = self._received
        searched = max(0, len(received) - MAX_MARK_BYTES)
        received += data
        if not self._has_begun:
            self._find_begin()
            searched = 0
        end = self._end.search(received, searched) if self._has_begun else None
        if end is not None:
            self._status = int(end[1])
            del received[end.start() :]
            self._changed.set()
        if len(received) > MAX_OUTPUT_BYTES:
            # the end is kept: it may be the beginning of the mark
            self._discarded += len(received) - MAX_OUTPUT_BYTES
            del received[MAX_OUTPUT_BYTES - 2 * MAX_MARK_BYTES : -2 * MAX_MARK_BYTES]
        if self._ignored + self._discarded > MAX_DISCARDED_BYTES:
            self._lose(TransientError(f"{self._host} sends too much data"))

    def _find_begin(self) -> None:
        """Remove what precedes the output."""
        received = self._received
        begin = self._begin.search(received)
        if begin is not None:
            self._has_begun, self._pid = True, int(begin[1])
            del received[: begin.end()]
            received[:0] = b"\n"  # the mark of the end may follow at once
            return
        ignored = max(0, len(received) - MAX_MARK_BYTES)
        self._ignored += ignored
        del received[:ignored]

    def end_of_output(self) -> None:
        self._lose(TransientError(f"the shell on {self._host} ended"))

    def set_exit_status(self, status: int | None, signal: str = "") -> None:
        """Not used: `end_of_output` follows or precedes it."""

    def channel_closed(self, error: Exception | None) -> None:
        if isinstance(error, HostUnreachable):
            self._lose(error)
            return
        self._lose(connection_lost(self._host, error))

    def _lose(self, error: HostUnreachable) -> None:
        self._lost = self._lost or error
        self._changed.set()
