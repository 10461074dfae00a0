"""What it costs to watch a guest by its agent, beside the same over SSH."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

from nictop.probe.records import Line
from nictop.wire.guests.levels import parse_levels
from nictop.wire.guests.source import LocalGuestSource
from nictop.wire.ssh.source import SshSource, SshTarget
from tests.benchmarks.probe import on_cpu
from tests.benchmarks.results import Result
from tests.benchmarks.ssh import SETTLE, sshd
from tests.support.guest_agent import GuestAgent

INTERVAL = 1.0


def agent_channel(quick: bool) -> Iterator[Result]:
    """CPU of all processes that carry the lines, nictop included, without that of the probe."""
    seconds = 15.0 if quick else 60.0
    with sshd() as server, tempfile.TemporaryDirectory(prefix="nictop-") as folder:
        server.set_python(sys.executable)
        agent = GuestAgent(Path(folder) / "guest", python=sys.executable, has_port=False)
        try:
            guest = SshTarget("local", label="guest")
            by_agent = LocalGuestSource(guest, INTERVAL, levels=parse_levels(agent.level))
            channel = asyncio.run(
                share_of_channel(
                    by_agent,
                    lambda: [agent.process.pid, *agent.bridges(), *agent.children()],
                    seconds,
                )
            )
            by_ssh = SshSource(server.target(), INTERVAL)
            ssh = asyncio.run(share_of_channel(by_ssh, server.sessions, seconds))
        finally:
            agent.stop()
    yield Result("guests: SSH channel at 1 Hz: CPU", 100 * ssh, None, "% of a core")
    yield Result("guests: agent channel at 1 Hz: CPU", 100 * channel, None, "% of a core")
    yield Result("guests: agent channel beside the SSH channel", channel / ssh, 3.0, "times")


async def share_of_channel(
    source: SshSource, processes: Callable[[], list[int]], seconds: float
) -> float:
    """Share of a core, in a quiet minute after the start."""
    pid = 0
    settled = asyncio.Event()

    async def follow() -> None:
        nonlocal pid
        async with aclosing(source.items()) as items:
            async for item in items:
                if isinstance(item, Line) and item.hello is not None:
                    pid = item.hello.pid
                elif isinstance(item, Line) and item.inventory is not None:
                    settled.set()

    task = asyncio.ensure_future(follow())
    await settled.wait()
    await asyncio.sleep(SETTLE)
    carrying = [one for one in processes() if one != pid]
    before, begin = on_cpus(carrying), time.monotonic()
    await asyncio.sleep(seconds)
    share = (on_cpus(carrying) - before) / (time.monotonic() - begin)
    await source.close()
    await task
    return share


def on_cpus(pids: list[int]) -> float:
    """Seconds of these processes and of this one."""
    return sum(map(on_cpu, [*pids, os.getpid()]))
