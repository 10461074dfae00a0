"""Bottlenecks of real runs: another process that fills the server's CPU, a shaper."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nictop.traffic.results.result import Result
from tests.traffic.pair import WIRE, missing_requirement, pair
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
CPU = max(os.sched_getaffinity(0))
BUSY_LOOP = f"""
import os
os.sched_setaffinity(0, {{{CPU}}})
try:
    os.nice(-5)  # only three processes are reported: it gets more of that CPU than others of this machine
except PermissionError:
    pass
print("+", flush=True)
while True:
    pass
"""


@pytest.fixture
def busy_pid() -> Iterator[int]:
    """PID of a process that fills a CPU, in a session of its own: the scheduler gives each session
    the same share (sched_autogroup_enabled), however many processes the tests have in theirs."""
    command = [sys.executable, "-c", BUSY_LOOP]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "+\n"
        yield process.pid
        process.kill()


async def test_process_that_fills_the_cpu_of_the_generators_is_named(busy_pid: int) -> None:
    """As the bottleneck, or as a possible one where the generators needed little of that CPU: other
    processes of this machine may run there too."""
    async with pair(None) as both:
        result, _ = await complete_run(both, time=3, client_cpu=CPU, server_cpu=CPU)
        _check_threads(result, busy_pid)
    named = (
        rf"CPU {CPU} on (a \(sender\)|b \(receiver\)|a and b \(one machine\)), .*(shared with "
        rf"other processes |also )seen there \(time on all CPUs, in % of one\): "
    )
    possible = rf"\b[ab] CPU {CPU} at [\d.]+ %( \([^)]*\))?, most of it not by this test: "
    assert re.search(f"{named}|{possible}", result.bottleneck)
    assert re.search(rf"\bpython3? \(pid {busy_pid}\) ", result.bottleneck)


def _check_threads(result: Result, busy_pid: int) -> None:
    """The threads of the server's host were read, whatever else runs there."""
    assert result.failure is None and result.goodput
    server = next(load for load in result.hosts if load.host == "b")
    assert server.threads is not None and any(
        one.cpu == CPU and one.busy >= 0.95 for one in server.full
    )
    busy = next(one for one in server.threads if one.pid == busy_pid)
    assert busy.cpus == (CPU,) and not busy.generator and not busy.other_end
    own = next(one for one in server.threads if one.generator)
    assert own.name.startswith("iperf3") and own.cpus == (CPU,)


async def test_shaper_is_the_bottleneck() -> None:
    """Independent of other load of this machine."""
    async with pair("50mbit") as both:
        result, _ = await complete_run(both, time=3)
    assert result.failure is None
    assert result.bottleneck.startswith(
        f"qdisc tbf rate 50Mbit of {WIRE} on a: sends at most 50.0 Mb/s, headers included; 4"
    )
    assert f" Mb/s received: tc -s qdisc show dev {WIRE}" in result.bottleneck
