"""What holds real runs back: a process of others that fills the server's CPU, a shaper."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nictop.traffic.results.result import Result
from tests.traffic.pair import WIRE, pair, why_not
from tests.traffic.real_runs import carried_out

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
CPU = max(os.sched_getaffinity(0))
HOG = f'import os; os.sched_setaffinity(0, {{{CPU}}}); print("+", flush=True)\nwhile True: pass'
ATTEMPTS = 5
"""Runs: other processes of this machine may have more of that CPU meanwhile, and three are told."""


@pytest.fixture
def hog() -> Iterator[int]:
    """Its process id."""
    with subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "+\n"
        yield process.pid
        process.kill()


async def test_a_process_that_fills_the_servers_cpu_is_named(hog: int) -> None:
    async with pair(None) as both:
        for _ in range(ATTEMPTS):
            result, _ = await carried_out(both, time=3, server_cpu=CPU)
            _check_threads(result, hog)
            if f"(pid {hog}) " in result.bottleneck:
                break
    assert result.bottleneck.startswith(f"the receiver's CPU {CPU} on b: 100 % busy, shared with other processes: ")
    assert f"python (pid {hog}) " in result.bottleneck or f"python3 (pid {hog}) " in result.bottleneck
    assert "; the generator iperf3 (pid " in result.bottleneck


def _check_threads(result: Result, hog: int) -> None:
    """Read on that host, whatever else runs there."""
    assert result.failure is None and result.goodput
    server = next(load for load in result.hosts if load.host == "b")
    assert server.threads is not None and any(one.cpu == CPU and one.busy >= 0.95 for one in server.full)
    told = next(one for one in server.threads if one.pid == hog)
    assert told.cpus == (CPU,) and not told.generator and not told.other_end
    own = next(one for one in server.threads if one.generator)
    assert own.name.startswith("iperf3") and own.cpus == (CPU,)


async def test_a_shaper_that_is_reached_is_the_cause() -> None:
    """Whatever else runs on this machine."""
    async with pair("50mbit") as both:
        result, _ = await carried_out(both, time=3)
    assert result.failure is None
    assert result.bottleneck.startswith(
        f"the qdisc tbf rate 50Mbit of {WIRE} on a: sends at most 50.0 Mb/s, headers included; 4"
    )
    assert f" Mb/s arrived: tc -s qdisc show dev {WIRE}" in result.bottleneck
