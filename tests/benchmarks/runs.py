"""Complete runs of `nictop.traffic.run.run` over two real sshds: goodput compared with the same
iperf3 started without nictop, CPU cost on each host, time to the first byte, and time until all
processes have ended."""

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
from enum import Enum
from pathlib import Path

from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.run.events import RunFinished
from tests.benchmarks.probe import on_cpu
from tests.benchmarks.results import Result
from tests.benchmarks.terminals import Terminal, cpu_seconds
from tests.benchmarks.traffic import CONTROL, interval
from tests.support.sshd import Sshd, command_line, why_no_sshd
from tests.traffic.emitted import Run
from tests.traffic.pair import (
    WIRE,
    Pair,
    missing_requirement,
    namespaces,
    pair_over_ssh,
    ssh_servers,
)

Doors = dict[str, Sshd]
PORT = 5999


@asynccontextmanager
async def both_hosts() -> AsyncIterator[tuple[Pair, Doors]]:
    skip_where_impossible()
    with tempfile.TemporaryDirectory(prefix="nictop-") as folder:
        async with pair_over_ssh(Path(folder)) as (both, doors):
            yield both, doors


def skip_where_impossible() -> None:
    reason = missing_requirement() or why_no_sshd()
    if reason is not None:
        sys.exit(f"the benchmarks of runs cannot be made here: {reason}")
    os.environ.pop("SSH_AUTH_SOCK", None)


WIRE_10G = [
    "tc",
    "qdisc",
    "replace",
    "dev",
    WIRE,
    "root",
    "tbf",
    "rate",
    "10gbit",
    "burst",
    "4m",
    "latency",
    "5ms",
]
PACKET_BY_PACKET = ["ethtool", "-K", WIRE, "tso", "off", "gso", "off", "gro", "off"]


class Processor(Enum):
    """Which processes are pinned to one CPU."""

    ANY = "any"
    SHARED_BY_ENDS = "shared by ends"
    SHARED_BY_ALL = "shared by all"


def compared_with_bare_iperf3(quick: bool) -> Iterator[Result]:
    """Over a link limited to 10 Gb/s; with both ends on one CPU that is saturated by packets
    without offloads; and with all processes of both hosts on that CPU, where other work reduces
    goodput twice as much as with a CPU per host.

    An unlimited veth on two CPUs proves nothing: successive runs of iperf3 alone differ by up to a
    factor of three.
    """
    pairs, seconds = (3, 1) if quick else (15, 3)
    most = 1 / 0.99
    for what, set_up, processor, bound in (
        ("a wire of 10 Gb/s", WIRE_10G, Processor.ANY, most),
        ("a busy processor", PACKET_BY_PACKET, Processor.SHARED_BY_ENDS, most),
        ("all on one processor", PACKET_BY_PACKET, Processor.SHARED_BY_ALL, None),
    ):
        ratios, noise, costs = asyncio.run(alternating_runs(pairs, seconds, set_up, processor))
        name = f"run, {what}: goodput of bare iperf3 beside"
        yield from with_interval(f"{name} nictop's", ratios, bound, "times")
        yield from with_interval(f"{name} itself", noise, None, "times")
        for side, words in (("a", "client"), ("b", "server")):
            shares = [one[side] * 100 for one in costs]
            yield from with_interval(
                f"run, {what}: probe and sshd of the {words}, 5 Hz", shares, 1.5, "% of a core"
            )


def with_interval(
    what: str, found: list[float], bound: float | None, unit: str
) -> Iterator[Result]:
    """The median of `found` and its 95 % confidence interval."""
    low, high = interval(found)
    yield Result(what, statistics.median(found), bound, unit)
    yield Result("… 95 % interval, lower end", low, None, unit)
    yield Result("… 95 % interval, upper end", high, None, unit)


async def alternating_runs(
    pairs: int, seconds: int, set_up: list[str], processor: Processor
) -> tuple[list[float], list[float], list[dict[str, float]]]:
    """For each pair: ratio of goodput bare to ours, bare to bare, and host → share of a core used
    by nictop. The order rotates from pair to pair."""
    ratios, noise, costs = [], [], []
    processors = os.sched_getaffinity(0)
    shared = None if processor is Processor.ANY else min(processors)
    async with both_hosts() as (both, doors):
        for namespace in (both.client, both.server):
            namespace.run(set_up)
        try:
            if shared is not None:  # nictop itself would run on neither host
                os.sched_setaffinity(0, processors - {shared} or processors)
            if shared is not None and processor is Processor.SHARED_BY_ALL:
                for pid in (pid for door in doors.values() for pid in door.sessions()):
                    with suppress(OSError):
                        os.sched_setaffinity(pid, {shared})
            for number in range(pairs + 1):
                found: dict[str, float] = {}
                cost: dict[str, float] = {}
                ways = ("bare", "ours", "again")
                for way in (*ways[number % 3 :], *ways[: number % 3]):
                    if way == "ours":
                        found[way], cost = await watched(both, doors, seconds, shared)
                    else:
                        found[way] = await asyncio.to_thread(bare, both, seconds, shared)
                if number:  # the first pair is a warm-up
                    ratios.append(found["bare"] / found["ours"])
                    noise.append(found["bare"] / found["again"])
                    costs.append(cost)
        finally:
            os.sched_setaffinity(0, processors)
    return ratios, noise, costs


async def watched(
    both: Pair, doors: Doors, seconds: int, cpu: int | None
) -> tuple[float, dict[str, float]]:
    """A run by nictop: goodput in bits per second, and host → share of a core from the first to the
    last interval."""
    begin: tuple[float, dict[str, float]] | None = None
    shares: dict[str, float] = {}
    plan = both.plan(time=seconds, congestion=CONTROL, port=PORT, client_cpu=cpu, server_cpu=cpu)
    async for event in Run(plan, both.hosts).events():
        if isinstance(event, IntervalMeasured) and not event.interval.sends:
            now, used = time.monotonic(), cpu_seconds_per_host(doors)
            if begin is None:
                begin = now, used
            elif now > begin[0]:
                shares = {name: (used[name] - begin[1][name]) / (now - begin[0]) for name in doors}
        if isinstance(event, RunFinished):
            assert event.result.failure is None and event.result.goodput is not None, (
                event.result.failure
            )
            return event.result.goodput, shares
    raise AssertionError("a run without an end")


def cpu_seconds_per_host(doors: Doors) -> dict[str, float]:
    """CPU seconds of the descendants of each sshd, without iperf3."""
    found = dict.fromkeys(doors, 0.0)
    for name, door in doors.items():
        for pid in door.sessions():
            words = command_line(pid).split(b"\0")
            if words[0] and not words[0].endswith(b"iperf3"):  # empty while it exits
                with suppress(OSError):
                    found[name] += on_cpu(pid)
    return found


def bare(both: Pair, seconds: int, cpu: int | None) -> float:
    """Goodput of iperf3 without nictop, both ends in new sessions as the probe starts them."""
    address, port = both.endpoint("b").address, str(PORT)
    pinned = [] if cpu is None else ["-A", str(cpu)]
    inside = ["ip", "netns", "exec", both.server.name]
    command = [
        *inside,
        "iperf3",
        "-s",
        "-1",
        "-p",
        port,
        "-B",
        address,
        "--forceflush",
        "-i",
        "0.2",
        *pinned,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as server:
        while f":{PORT:04X} 00000000:0000 0A" not in both.server.run(["cat", "/proc/net/tcp"]):
            pass
        words = [
            "iperf3",
            "-c",
            address,
            "-p",
            port,
            "-t",
            str(seconds),
            "-C",
            CONTROL,
            "-i",
            "0.2",
            "-J",
            *pinned,
        ]
        report = json.loads(both.client.run(["setsid", "-w", *words]))
        server.communicate()
    return float(report["end"]["sum_received"]["bits_per_second"])


CONFIG = """Host {name}
HostName {door.address}
Port {door.port}
User {door.user}
IdentityFile {door.key}
UserKnownHostsFile {door.known_hosts}
"""
RUN_LONGER_KEYS = b"\x1b[B\x1b[B100"
"""Keys in the form: two fields down, 100 seconds."""
FIRST_INTERVALS_SECONDS = 2.0
"""Seconds until the first intervals are drawn."""


def whole_screen(quick: bool) -> Iterator[Result]:
    """CPU of nictop in a 120×36 terminal while it draws a run between two hosts over SSH."""
    seconds = 10 if quick else 40
    skip_where_impossible()
    with (
        tempfile.TemporaryDirectory(prefix="nictop-") as folder,
        namespaces() as (client, server),
        ssh_servers(Path(folder), client, server) as both_doors,
    ):
        for namespace in (client, server):
            namespace.run(WIRE_10G)
        (Path(folder) / ".ssh").mkdir()
        config = "".join(CONFIG.format(name=name, door=door) for name, door in both_doors.items())
        (Path(folder) / ".ssh" / "config").write_text(config)
        with Terminal([sys.executable, "-m", "nictop", "a", "b"], HOME=folder) as terminal:
            wait_for_output(terminal, b"idle")
            terminal.type(b"t")
            wait_for_output(terminal, b"198.18.0.0/24")
            terminal.type(b"\t")
            terminal.read(1.0)
            terminal.type(RUN_LONGER_KEYS + b"\r")
            wait_for_output(terminal, b"kpps")
            terminal.read(FIRST_INTERVALS_SECONDS)
            before, start = cpu_seconds(terminal.pid), time.monotonic()
            terminal.read(seconds, lambda _: False)
            used, elapsed = cpu_seconds(terminal.pid) - before, time.monotonic() - start
            if b"arrived at" in terminal.output:
                raise RuntimeError("the run ended before it was measured to the end")
        yield Result(
            "run: nictop itself while it draws one, 120×36",
            100 * used / elapsed,
            3.0,
            "% of a core",
        )


def wait_for_output(terminal: Terminal, expected: bytes) -> None:
    """Wait until `expected` is in new output."""
    shown = len(terminal.output)
    if terminal.read(20.0, lambda output: expected in output[shown:]) is None:
        raise RuntimeError(f"nictop never drew {expected!r}: {terminal.output[-400:]!r}")


def start_and_stop_times(quick: bool) -> Iterator[Result]:
    for generator in ("iperf3", "builtin"):
        begun, ended = asyncio.run(begins_and_ends(generator, 3 if quick else 15))
        yield Result(
            f"run: {generator}, from the request to the first byte",
            statistics.median(begun),
            1.0,
            "s",
        )
        yield Result("run: … the slowest", max(begun), None, "s")
        yield Result(
            f"run: {generator}, from stop to the end of both", statistics.median(ended), 0.5, "s"
        )
        yield Result("run: … the slowest", max(ended), None, "s")


async def begins_and_ends(generator: str, times: int) -> tuple[list[float], list[float]]:
    """Seconds until the begin of the first interval, and seconds to end the children after the
    iterator is closed."""
    begun, ended = [], []
    async with both_hosts() as (both, _):
        for _ in range(times):
            plan = both.plan(time=20, generator=generator, interval=0.1)
            begin = time.monotonic()
            async with aclosing(Run(plan, both.hosts).events()) as events:
                async for event in events:
                    if isinstance(event, IntervalMeasured) and not event.interval.sends:
                        begun.append(time.monotonic() - event.interval.end - begin)
                        break
                left = time.monotonic()
            ended.append(time.monotonic() - left)
            assert not both.generators()
    return begun, ended
