"""The whole program in a pseudo-terminal: first paint, first rates, CPU with traffic on all of 30
NICs, compared with other programs."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.benchmarks.links import veth_namespace
from tests.benchmarks.results import Result
from tests.benchmarks.terminals import Terminal, cpu_seconds
from tests.support.lines import counters, hello, inventory, link
from tests.support.namespaces import ROOT, Namespace
from tests.support.screen import live_screen

LINKS = 30
EMPTY_APP = "from textual.app import App\nclass Empty(App): pass\nEmpty().run()"
PAINTED = b"\x1b[36;1H"
"""The last of 36 rows is being drawn: a full frame."""
RATES = b"softirq"
"""A word in the legend of the CPUs, which is drawn with the first rates."""
SETTLE = 6.0
"""Seconds until start-up is complete."""

TRAFFIC = """
import os, select, socket, sys
senders = []
for number in range(int(sys.argv[1])):
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((f"left{number}", 0))
    senders.append(sender)
frame = b"\\xff" * 12 + b"\\x88\\xb5" + bytes(486)
count = 0
while not select.select([0], [], [], 0.05)[0]:
    count += 1
    for number, sender in enumerate(senders):
        for _ in range(1 + (count + number) % 7):
            sender.send(frame)
"""


def nictop(interval: float = 1.0) -> list[str]:
    return [sys.executable, "-m", "nictop", "--interval", f"{interval:g}"]


def first_paint(quick: bool) -> Iterator[Result]:
    """From the start of the process to a full frame, and to the first rates, compared with an empty
    application."""
    runs = 3 if quick else 11
    empty = painted([sys.executable, "-c", EMPTY_APP], runs, PAINTED)
    ours = painted(nictop(), runs, PAINTED)
    rates = painted(nictop(), runs, RATES)
    yield Result("first paint of an empty Textual app", empty * 1e3, None, "ms")
    yield Result("first paint of nictop", ours * 1e3, None, "ms")
    yield Result("first paint, against the empty app", ours / empty, 1.5, "times")
    yield Result("from first paint to real numbers", (rates - ours) * 1e3, 300, "ms")


def painted(argv: Sequence[str], runs: int, until: bytes) -> float:
    """Median seconds from start until `until` is in the output."""
    times = []
    for _ in range(runs):
        with Terminal(argv) as terminal:
            elapsed = terminal.read(15.0, lambda output: until in output)
            if elapsed is None:
                raise RuntimeError(f"{argv} never drew {until!r}: {terminal.output[-400:]!r}")
            times.append(elapsed)
    return statistics.median(times)


def devices_view(quick: bool) -> Iterator[Result]:
    """One reading of 30 NICs that all move, from its line to the drawn screen, without a
    terminal."""
    readings = 20 if quick else 100
    for width, height in ((80, 24), (120, 36), (200, 50)):
        seconds = asyncio.run(devices_reading((width, height), readings))
        yield Result(
            f"Devices with {LINKS} NICs that move, {width}×{height}: one reading",
            seconds * 1e3,
            None,
            "ms CPU",
        )


async def devices_reading(size: tuple[int, int], readings: int) -> float:
    """Median CPU seconds of one reading, once 60 s are in the history."""
    numbers = range(2, LINKS + 2)
    async with live_screen(size) as screen:
        await screen.receive(
            hello(), inventory(*(link(number, f"ens{number}", bus="pci") for number in numbers))
        )
        spent = []
        for moment in range(60 + readings):
            moved = {
                number: (moment * 10_000 * number + (moment % 7) * number, moment * 999 * number)
                for number in numbers
            }
            cpus = [(moment * 31, 0, moment * 7, moment * 50, 0, 0, moment * 12, 0, 0, 0)] * 4
            begin = time.process_time()
            await screen.receive(counters(float(moment), moved, cpus))
            spent.append(time.process_time() - begin)
    return statistics.median(spent[60:])


def whole_program(quick: bool) -> Iterator[Result]:
    """nictop with its probe, and comparable programs, all in the same namespace with the same
    traffic."""
    seconds = 8.0 if quick else 30.0
    with veth_namespace(LINKS) as namespace, traffic(namespace):
        for interval, bound in ((1.0, 1.65), (0.1, 9.0)):
            share = share_of_a_core(namespace, nictop(interval), seconds)
            yield Result(
                f"nictop at {1 / interval:g} Hz, {LINKS} NICs that move, 120×36: CPU",
                share,
                bound,
                "% of a core",
            )
        for name, argv in other_programs().items():
            yield Result(
                f"{name}: CPU", share_of_a_core(namespace, argv, seconds), None, "% of a core"
            )


def other_programs() -> dict[str, list[str]]:
    """Comparable programs that are installed here, each at one refresh per second (btop: its
    default of 2 s)."""
    known = {
        "btop, every 2 s": ["btop"],
        "bmon, every second": ["bmon", "-r", "1", "-o", "curses"],
        "network-top of netutils-linux, every second": ["network-top", "--interval", "1"],
    }
    return {name: argv for name, argv in known.items() if shutil.which(argv[0])}


def share_of_a_core(namespace: Namespace, argv: Sequence[str], seconds: float) -> float:
    """CPU of a program and its children in a 120×36 terminal, in per cent of one core, after
    start-up."""
    with Terminal(["ip", "netns", "exec", namespace.name, *argv]) as terminal:
        terminal.read(SETTLE)
        before, start = cpu_seconds(terminal.pid), time.monotonic()
        terminal.read(seconds)
        used, elapsed = cpu_seconds(terminal.pid) - before, time.monotonic() - start
    if before == 0.0 and used == 0.0:
        raise RuntimeError(f"{argv[0]} did not run")
    return 100 * used / elapsed


@contextmanager
def traffic(namespace: Namespace) -> Iterator[None]:
    """Frames of 500 bytes over every pair, 20 to 140 per second, while the context is active."""
    command = [
        "ip",
        "netns",
        "exec",
        namespace.name,
        sys.executable,
        "-c",
        TRAFFIC,
        str(LINKS // 2),
    ]
    sender = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT)
    try:
        yield
    finally:
        sender.communicate()
        if sender.returncode:
            raise RuntimeError("the traffic did not last")
