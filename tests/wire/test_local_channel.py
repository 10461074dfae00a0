"""Processes of this machine as channels: what a probe in a guest of this machine needs."""

from __future__ import annotations

import asyncio

import pytest

from nictop.wire.budget import HostBudget
from nictop.wire.channel import STDERR_DATATYPE
from nictop.wire.local_channel import LocalCarrier, LocalChannel
from tests.support.probe import TEST_TIMEOUT, is_alive


class Listener:
    """Stores what is received."""

    def __init__(self) -> None:
        self.received = {None: b"", STDERR_DATATYPE: b""}
        self.status: tuple[int | None, str] | None = None
        self.changed = asyncio.Event()
        self.closed = asyncio.Event()

    def receive(self, data: bytes, datatype: int | None) -> None:
        self.received[datatype] += data
        self.changed.set()

    def end_of_output(self) -> None: ...

    def set_exit_status(self, status: int | None, signal: str = "") -> None:
        self.status = (status, signal)

    def channel_closed(self, error: Exception | None) -> None:
        self.closed.set()

    async def has(self, wanted: bytes) -> None:
        async def wait() -> None:
            while wanted not in self.received[None]:
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), TEST_TIMEOUT)

    async def end(self) -> None:
        await asyncio.wait_for(self.closed.wait(), TEST_TIMEOUT)


async def opened(command: str) -> tuple[LocalCarrier, LocalChannel, Listener]:
    listener, carrier = Listener(), LocalCarrier(HostBudget())
    return carrier, await carrier.open(command, listener, "vm1"), listener


async def test_bytes_in_and_out_and_the_end() -> None:
    _, channel, listener = await opened("cat; echo oops >&2; exit 7")
    data = bytes(range(256)) * 1000
    channel.write(data)
    channel.write_eof()
    await listener.end()
    assert listener.received == {None: data, STDERR_DATATYPE: b"oops\n"}
    assert listener.status == (7, "")


async def test_the_signal_that_has_killed_it() -> None:
    _, _, listener = await opened("kill -KILL $$")
    await listener.end()
    assert listener.status == (None, "KILL")


async def test_a_process_that_ignores_all_but_sigkill_is_ended() -> None:
    carrier, channel, listener = await opened(
        "trap '' TERM HUP; echo ready; while :; do read x; done"
    )
    await listener.has(b"ready")
    channel.abort()
    assert is_alive(channel.pid)
    await carrier.close()
    assert not is_alive(channel.pid) and listener.status == (None, "KILL")


async def test_output_is_held_until_there_is_room() -> None:
    _, channel, listener = await opened("echo first; read x; echo second; read x")
    await listener.has(b"first\n")
    channel.hold()
    channel.write(b"\n")
    for _ in range(20):
        await asyncio.sleep(0)
    assert listener.received[None] == b"first\n"
    channel.release()
    await listener.has(b"second\n")
    channel.write_eof()
    await listener.end()


async def test_output_of_a_command() -> None:
    carrier = LocalCarrier(HostBudget())
    assert await carrier.output("echo found; echo oops >&2", TEST_TIMEOUT) == "found\n"
    assert await carrier.output("sleep 600", 0.0) == ""


async def test_a_session_of_its_own() -> None:
    """Ctrl+C of the terminal, which is sent to the group of nictop, does not end it."""
    carrier, channel, listener = await opened("ps -o sid= -p $$; read x")
    await listener.has(str(channel.pid).encode())
    await carrier.close()


@pytest.mark.parametrize("command", ["exec nictop-does-not-exist", "exit 127"])
async def test_a_command_that_does_not_exist(command: str) -> None:
    _, _, listener = await opened(command)
    await listener.end()
    assert listener.status == (127, "")
