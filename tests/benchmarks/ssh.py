"""Over a real sshd on loopback: time to the first counters of a remote host, and the cost of
watching many hosts."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import asyncssh

from nictop.probe.records import Line
from nictop.wire.ssh.bundle import bundle
from nictop.wire.ssh.source import SshSource
from tests.benchmarks.probe import on_cpu
from tests.benchmarks.results import Result
from tests.support.follower import Follower
from tests.support.probe import is_alive, wait_until
from tests.support.sshd import Sshd, command_line, why_no_sshd

HOSTS = 16
SETTLE = 4.0
"""Seconds until connections, sources and first inventories are complete."""


@contextmanager
def sshd() -> Iterator[Sshd]:
    reason = why_no_sshd()
    if reason is not None:
        sys.exit(f"the benchmarks of ssh need an sshd: {reason}")
    os.environ.pop("SSH_AUTH_SOCK", None)
    with tempfile.TemporaryDirectory(prefix="nictop-") as folder:
        server = Sshd(Path(folder))
        try:
            yield server
        finally:
            server.stop()


def first_counters(quick: bool) -> Iterator[Result]:
    bundle()
    yield Result(
        "ssh: bytes sent ahead of the first counters", len(bundle().first), 10_000, "bytes"
    )
    with sshd() as server:
        ours, theirs, inventories = asyncio.run(alternating(server, 4 if quick else 15))
    yield Result("ssh: asyncssh connect and `true`, 1 host", theirs * 1e3, None, "ms")
    yield Result("ssh: first counters, 1 host", ours * 1e3, None, "ms")
    yield Result("ssh: first counters beside connect and `true`", ours / theirs, 1.4, "times")
    yield Result("ssh: from the first counters to the inventory", inventories, 1.0, "s")


async def alternating(server: Sshd, rounds: int) -> tuple[float, float, float]:
    """Median seconds: to our first counters, for connecting and running `true`, and from counters
    to inventory."""
    ours, theirs, inventories = [], [], []
    for number in range(rounds + 1):
        begin = time.monotonic()
        async with asyncssh.connect(
            server.address,
            server.port,
            username=server.user,
            client_keys=[str(server.key)],
            known_hosts=str(server.known_hosts),
            config=[str(server.client_config)],
        ) as connection:
            await connection.run("true", check=True)
            taken = time.monotonic() - begin
        begin = time.monotonic()
        counters, inventory = await arrivals(SshSource(server.target(), 1.0))
        if number:  # the first round includes imports
            theirs.append(taken)
            ours.append(counters - begin)
            inventories.append(inventory - counters)
    return statistics.median(ours), statistics.median(theirs), statistics.median(inventories)


async def arrivals(source: SshSource) -> tuple[float, float]:
    """Times (monotonic) of the first counters and of the first inventory."""
    counters = 0.0
    async with aclosing(source.items()) as items:
        async for item in items:
            if not isinstance(item, Line):
                if item.state in ("lost", "failed"):
                    raise RuntimeError(item.message)
            elif item.counters is not None:
                counters = counters or time.monotonic()
            elif item.inventory is not None:
                await source.close()
                return counters, time.monotonic()
    raise RuntimeError("the source ended early")


def many_at_once(quick: bool) -> Iterator[Result]:
    bundle()
    rounds = 2 if quick else 5
    with sshd() as server:
        asyncio.run(arrivals(SshSource(server.target(), 1.0)))  # imports
        single = statistics.median(plain_ssh(server) for _ in range(rounds))
        firsts, inventories = zip(
            *(asyncio.run(connect_all(server)) for _ in range(rounds)), strict=True
        )
    yield Result(
        f"ssh: first counters of all of {HOSTS} hosts", statistics.median(firsts), 1.2, "s"
    )
    yield Result(
        f"ssh: the same beside {HOSTS} × `ssh host true`",
        statistics.median(firsts) / (HOSTS * single),
        1,
        "times",
    )
    yield Result(
        f"ssh: inventories of all of {HOSTS} hosts", statistics.median(inventories), None, "s"
    )


def plain_ssh(server: Sshd) -> float:
    """Elapsed seconds of OpenSSH's client for `true`."""
    known = f"UserKnownHostsFile={server.known_hosts}"
    command = [
        "ssh",
        "-F",
        "none",
        "-i",
        str(server.key),
        "-p",
        str(server.port),
        "-o",
        known,
        "-o",
        "BatchMode=yes",
    ]
    begin = time.monotonic()
    subprocess.run(
        [*command, f"{server.user}@{server.address}", "true"], check=True, capture_output=True
    )
    return time.monotonic() - begin


async def connect_all(server: Sshd) -> tuple[float, float]:
    begin = time.monotonic()
    times = await asyncio.gather(*(arrivals(SshSource(server.target(), 1.0)) for _ in range(HOSTS)))
    return max(one for one, _ in times) - begin, max(one for _, one in times) - begin


def watching_many(quick: bool) -> Iterator[Result]:
    bundle()
    seconds = 5.0 if quick else 20.0
    with sshd() as server:
        share, lines = asyncio.run(watched(server, HOSTS, 0.1, seconds))
        yield Result(
            f"ssh: {HOSTS} hosts at 10 Hz: CPU of the watching side", 100 * share, 12, "% of a core"
        )
        yield Result(
            f"ssh: {HOSTS} hosts at 10 Hz: counters heard per second",
            lines / seconds,
            None,
            "lines",
        )
        few, _ = asyncio.run(watched(server, HOSTS, 1.0, seconds))
        many, _ = asyncio.run(watched(server, 4 * HOSTS, 1.0, seconds))
        yield Result(
            f"ssh: {4 * HOSTS} hosts at 1 Hz: CPU of the watching side",
            100 * many,
            None,
            "% of a core",
        )
        yield Result(
            f"ssh: cost per host, {4 * HOSTS} beside {HOSTS} at 1 Hz",
            many / (4 * few),
            None,
            "times",
        )


async def watched(server: Sshd, hosts: int, interval: float, seconds: float) -> tuple[float, int]:
    """CPU seconds of this process per second, decoding included, and the number of counters records
    received."""
    async with follow_all(server, hosts, interval) as received:
        before, received[0], begin = time.process_time(), 0, time.monotonic()
        await asyncio.sleep(seconds)
        return (time.process_time() - before) / (time.monotonic() - begin), received[0]


@asynccontextmanager
async def follow_all(server: Sshd, hosts: int, interval: float) -> AsyncIterator[list[int]]:
    """Yields the number of counters records received, after every host has settled."""
    sources = [SshSource(server.target(), interval) for _ in range(hosts)]
    received = [0]
    taken: set[int] = set()
    all_settled = asyncio.Event()

    async def follow(number: int) -> None:
        async with aclosing(sources[number].items()) as items:
            async for item in items:
                if isinstance(item, Line) and item.counters is not None:
                    received[0] += 1
                elif isinstance(item, Line) and item.inventory is not None:
                    taken.add(number)
                    if len(taken) == hosts:
                        all_settled.set()

    tasks = [asyncio.ensure_future(follow(number)) for number in range(hosts)]
    await all_settled.wait()
    await asyncio.sleep(SETTLE)
    yield received
    await asyncio.gather(*(source.close() for source in sources))
    await asyncio.gather(*tasks)


def remote_probe_at_rest(quick: bool) -> Iterator[Result]:
    with sshd() as server:
        share, memory = asyncio.run(probe_usage(server, 10.0 if quick else 57.0))
    yield Result("ssh: remote probe at 1 Hz: CPU", 100 * share, 0.2, "% of a core")
    yield Result("ssh: remote probe at 1 Hz: resident memory", memory, 16, "MB")


async def probe_usage(server: Sshd, seconds: float) -> tuple[float, float]:
    async with follow_all(server, 1, 1.0):
        (pid,) = server.probes()
        before, begin = on_cpu(pid), time.monotonic()
        await asyncio.sleep(seconds)
        share = (on_cpu(pid) - before) / (time.monotonic() - begin)
        return share, resident(pid)


def resident(pid: int) -> float:
    """MB. /proc/PID/status."""
    status = Path(f"/proc/{pid}/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
        * 1024
        / 1e6
    )


def probe_ends(quick: bool) -> Iterator[Result]:
    """Seconds until the probes have ended after their client is killed, and after its sessions are
    killed."""
    with sshd() as server:
        server.set_python(sys.executable)
        rounds = 3 if quick else 9
        client = [seconds_to_end(server, lambda follower: follower.kill()) for _ in range(rounds)]
        session = [seconds_to_end(server, lambda _: kill_sessions(server)) for _ in range(rounds)]
    yield Result(
        "ssh: from SIGKILL of the client to the end of its probes",
        statistics.median(client),
        1.0,
        "s",
    )
    yield Result(
        "ssh: from SIGKILL of sshd's sessions to the end of the probes",
        statistics.median(session),
        1.0,
        "s",
    )


def seconds_to_end(server: Sshd, kill: Callable[[Follower], object]) -> float:
    with Follower(server.target(), 5) as follower:
        follower.wait_until(lambda: len(follower.details("hello")) == 5)
        probes = [pid for pid in follower.details("hello") if isinstance(pid, int)]
        begin = time.monotonic()
        kill(follower)
        wait_until(lambda: not any(map(is_alive, probes)))
        return time.monotonic() - begin


def kill_sessions(server: Sshd) -> None:
    """Kill sshd's session processes; the probes then read end of file from stdin."""
    for pid in server.sessions():
        if b"sshd" in command_line(pid):
            os.kill(pid, signal.SIGKILL)
