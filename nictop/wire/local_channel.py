"""Processes of this machine as channels: the way to guests and containers of this machine.

The command is run by sh, in a session of its own, so that Ctrl+C of the terminal does not end it.
It ends with its stdin, also when nictop is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import cast

from nictop.wire.budget import BYTE_CPU_SECONDS, PART_CPU_SECONDS, HostBudget
from nictop.wire.channel import STDERR_DATATYPE, ChannelListener
from nictop.wire.errors import PermanentError
from nictop.wire.timeout import with_timeout

STDIN, STDOUT = 0, 1
EXIT_TIMEOUT = 0.5
"""Seconds that SIGTERM may take to end a process, before SIGKILL."""


class LocalCarrier:
    """Runs commands on this machine; `close` ends all of them. What they write is charged to
    `budget`."""

    def __init__(self, budget: HostBudget) -> None:
        self._budget = budget
        self._channels: list[LocalChannel] = []

    async def open(self, command: str, listener: ChannelListener, host: str) -> LocalChannel:
        """See `Carrier.open`."""
        try:
            transport, protocol = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Process(listener, self._charge),
                "sh",
                "-c",
                command,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise PermanentError(f"cannot start a process to reach {host}: {error}") from None
        channel = LocalChannel(transport, protocol)
        self._channels.append(channel)
        return channel

    async def output(self, command: str, timeout: float) -> str:
        """See `Carrier.output`."""
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            printed, _ = await with_timeout(timeout, process.communicate())
        except asyncio.TimeoutError:
            return ""
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return printed.decode("utf-8", "replace")

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the processes that run."""
        return tuple(channel.pid for channel in self._channels if not channel.has_ended)

    async def close(self) -> None:
        """End all processes, by SIGTERM, then SIGKILL."""
        channels, self._channels = self._channels, []
        await asyncio.gather(*(channel.end() for channel in channels))

    def _charge(self, size: int) -> None:
        """Charge what the event loop needed to read so many bytes."""
        self._budget.charge(PART_CPU_SECONDS + size * BYTE_CPU_SECONDS)


class LocalChannel:
    """See `Channel`."""

    def __init__(self, transport: asyncio.SubprocessTransport, process: _Process) -> None:
        self._transport, self._process = transport, process
        self.pid: int = transport.get_pid()

    @property
    def has_ended(self) -> bool:
        return self._process.has_ended.is_set()

    @property
    def _stdin(self) -> asyncio.WriteTransport:
        return cast(asyncio.WriteTransport, self._transport.get_pipe_transport(STDIN))

    @property
    def _stdout(self) -> asyncio.ReadTransport:
        return cast(asyncio.ReadTransport, self._transport.get_pipe_transport(STDOUT))

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    def write_eof(self) -> None:
        self._stdin.close()

    def is_closing(self) -> bool:
        return self._stdin.is_closing()

    def hold(self) -> None:
        self._stdout.pause_reading()

    def release(self) -> None:
        self._stdout.resume_reading()

    def abort(self) -> None:
        """SIGTERM; `end` waits for what that does."""
        self._signal(signal.SIGTERM)

    async def end(self) -> None:
        """Until the process has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            with contextlib.suppress(asyncio.TimeoutError):
                await with_timeout(EXIT_TIMEOUT, self._process.has_ended.wait())
        self._transport.close()

    def _signal(self, number: int) -> None:
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                self._transport.send_signal(number)


class _Process(asyncio.SubprocessProtocol):
    """Passes on what is received from one process."""

    def __init__(self, listener: ChannelListener, charge: Callable[[int], None]) -> None:
        self._listener, self._charge = listener, charge
        self._transport: asyncio.SubprocessTransport | None = None
        self.has_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._charge(len(data))
        self._listener.receive(data, None if fd == STDOUT else STDERR_DATATYPE)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == STDOUT:
            self._listener.end_of_output()

    def process_exited(self) -> None:
        assert self._transport is not None
        code = self._transport.get_returncode()
        if code is not None and code < 0:
            self._listener.set_exit_status(None, signal_name(-code))
        else:
            self._listener.set_exit_status(code)
        self.has_ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._transport.close()
        self._listener.channel_closed(exc)


def signal_name(number: int) -> str:
    """``KILL`` of 9"""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)
