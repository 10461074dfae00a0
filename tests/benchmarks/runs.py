"""Whole runs of `nictop.traffic.run` over two real sshds: goodput beside the same iperf3 started by hand, what it costs
each host meanwhile, how soon the first byte is there, and how soon nothing runs any more."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from nictop.traffic.events import Finished, Measured
from nictop.traffic.run import Run
from tests.benchmarks.probe import on_cpu
from tests.benchmarks.results import Result
from tests.benchmarks.traffic import CONTROL, interval
from tests.support.sshd import Sshd, command_line, why_no_sshd
from tests.traffic.pair import Pair, pair_over_ssh, why_not

Doors = dict[str, Sshd]
PORT = 5999


@asynccontextmanager
async def both_hosts() -> AsyncIterator[tuple[Pair, Doors]]:
    reason = why_not() or why_no_sshd()
    if reason is not None:
        sys.exit(f"the benchmarks of runs cannot be made here: {reason}")
    os.environ.pop("SSH_AUTH_SOCK", None)
    with tempfile.TemporaryDirectory(prefix="nictop-") as folder:
        async with pair_over_ssh(Path(folder)) as (both, doors):
            yield both, doors


def beside_bare(quick: bool) -> Iterator[Result]:
    """Pairs one after the other, in turns the one first and the other one, so that a busy machine hits both alike."""
    pairs, seconds = (3, 1) if quick else (15, 3)
    ratios, costs = asyncio.run(in_turns(pairs, seconds))
    low, high = interval(ratios)
    what = f"run: goodput of bare iperf3 beside nictop's, {pairs} pairs"
    yield Result(what, statistics.median(ratios), 1 / 0.99, "times")
    yield Result("run: … 95 % interval, lower end", low, None, "times")
    yield Result("run: … 95 % interval, upper end", high, None, "times")
    for name, words in (("a", "client"), ("b", "server")):
        shares = [one[name] * 100 for one in costs]
        low, high = interval(shares)
        yield Result(f"run: probe and sshd of the {words}, 5 Hz", statistics.median(shares), 1.5, "% of a core")
        yield Result("run: … 95 % interval, lower end", low, None, "% of a core")
        yield Result("run: … 95 % interval, upper end", high, None, "% of a core")


async def in_turns(pairs: int, seconds: int) -> tuple[list[float], list[dict[str, float]]]:
    """Goodput of bare beside ours, and host → share of a core that watching took, of each pair."""
    ratios, costs = [], []
    async with both_hosts() as (both, doors):
        for number in range(pairs + 1):
            found = {}
            for way in ("bare", "ours") if number % 2 else ("ours", "bare"):
                if way == "bare":
                    found[way] = await asyncio.to_thread(bare, both, seconds)
                else:
                    found[way], cost = await watched(both, doors, seconds)
            if number:  # the first pair warms everything up
                ratios.append(found["bare"] / found["ours"])
                costs.append(cost)
    return ratios, costs


async def watched(both: Pair, doors: Doors, seconds: int) -> tuple[float, dict[str, float]]:
    """A run by nictop: bits per second that arrived, and what each host spent from the first to the last interval."""
    begin: tuple[float, dict[str, float]] | None = None
    shares: dict[str, float] = {}
    plan = both.plan(time=seconds, congestion=CONTROL, port=PORT)
    async for event in Run(plan, both.hosts).events():
        if isinstance(event, Measured) and not event.interval.sends:
            now, used = time.monotonic(), spent(doors)
            if begin is None:
                begin = now, used
            elif now > begin[0]:
                shares = {name: (used[name] - begin[1][name]) / (now - begin[0]) for name in doors}
        if isinstance(event, Finished):
            assert event.result.failure is None and event.result.goodput is not None, event.result.failure
            return event.result.goodput, shares
    raise AssertionError("a run without an end")


def spent(doors: Doors) -> dict[str, float]:
    """Seconds of CPU of the processes below each sshd that make no traffic."""
    found = dict.fromkeys(doors, 0.0)
    for name, door in doors.items():
        for pid in door.sessions():
            words = command_line(pid).split(b"\0")
            if words[0] and not words[0].endswith(b"iperf3"):  # no words: it is ending, whatever it was
                with suppress(OSError):
                    found[name] += on_cpu(pid)
    return found


def bare(both: Pair, seconds: int) -> float:
    """Goodput of iperf3 by itself, both ends in sessions of their own as the probe starts them."""
    address, port = both.place("b").address, str(PORT)
    inside = ["ip", "netns", "exec", both.server.name]
    command = [*inside, "iperf3", "-s", "-1", "-p", port, "-B", address, "--forceflush", "-i", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as server:
        while f":{PORT:04X} 00000000:0000 0A" not in both.server.run(["cat", "/proc/net/tcp"]):
            pass
        words = ["iperf3", "-c", address, "-p", port, "-t", str(seconds), "-C", CONTROL, "-i", "0.2", "-J"]
        report = json.loads(both.client.run(["setsid", "-w", *words]))
        server.communicate()
    return float(report["end"]["sum_received"]["bits_per_second"])


def how_soon(quick: bool) -> Iterator[Result]:
    for generator in ("iperf3", "builtin"):
        begun, ended = asyncio.run(begins_and_ends(generator, 3 if quick else 15))
        yield Result(f"run: {generator}, from the request to the first byte", statistics.median(begun), 1.0, "s")
        yield Result("run: … the slowest", max(begun), None, "s")
        yield Result(f"run: {generator}, from stop to the end of both", statistics.median(ended), 0.5, "s")
        yield Result("run: … the slowest", max(ended), None, "s")


async def begins_and_ends(generator: str, times: int) -> tuple[list[float], list[float]]:
    """Seconds until the first interval had begun, and until an iterator that was left had ended its children."""
    begun, ended = [], []
    async with both_hosts() as (both, _):
        for _ in range(times):
            plan = both.plan(time=20, generator=generator, interval=0.1)
            begin = time.monotonic()
            async with aclosing(Run(plan, both.hosts).events()) as events:
                async for event in events:
                    if isinstance(event, Measured) and not event.interval.sends:
                        begun.append(time.monotonic() - event.interval.end - begin)
                        break
                left = time.monotonic()
            ended.append(time.monotonic() - left)
            assert not both.generators()
    return begun, ended
