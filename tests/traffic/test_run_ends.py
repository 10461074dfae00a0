"""Every way a run can be cut short, many times each: it says why, and no generator is left on either host."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from nictop.traffic.events import Limits
from nictop.traffic.plan import Plan
from nictop.traffic.run import Run
from tests.support.sshd import skip_without_sshd
from tests.traffic.pair import LIMIT, WIRE, Pair, pair, pair_over_ssh, why_not
from tests.traffic.real_runs import after_first_byte
from tests.traffic.traced import STAGES, Traced

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

TIMES = 20
AT_ONCE = 10
"""Runs side by side on the same two hosts."""
SHORT = Limits(first_byte=1.5, stall=0.6)


def plans(both: Pair) -> list[Plan]:
    """Long ones that do not meet."""
    return [both.plan(time=60, port=5210 + 10 * number) for number in range(AT_ONCE)]


async def all_cut(
    both: Pair, cut: Callable[[Traced, int], Awaitable[None]], limits: Limits | None = None
) -> list[Traced]:
    """`TIMES` runs, `AT_ONCE` of them side by side, each cut short; all have ended, and so have their children."""
    runs: list[Traced] = []
    while len(runs) < TIMES:
        with ExitStack() as stack:
            some = [stack.enter_context(Traced(both, plan, limits)) for plan in plans(both)]
            await asyncio.gather(*(cut(one, len(runs) + number) for number, one in enumerate(some)))
            await asyncio.wait({one.task for one in some}, timeout=LIMIT)
        runs += some
        assert [one for one in some if not one.task.done() or one.children] == []
        assert both.generators() == []
    return runs


# ------------------------------------------------------------------------------------------------------------- by us


@pytest.mark.parametrize("stage", STAGES)
async def test_a_cancelled_run(stage: str) -> None:
    async def cut(one: Traced, number: int) -> None:
        await one.until(stage)
        one.task.cancel()

    async with pair("100mbit") as both:
        runs = await all_cut(both, cut)
        assert all(one.task.cancelled() for one in runs)
        assert stage != "first byte" or all(len(one.pids) == 2 for one in runs)


async def test_a_run_that_is_cancelled_after_the_first_the_second_and_each_later_line() -> None:
    """Also between the stages."""

    async def cut(one: Traced, number: int) -> None:
        await one.until_heard(number + 1)
        one.task.cancel()

    async with pair("100mbit") as both:
        runs = await all_cut(both, cut)
        assert all(one.task.cancelled() for one in runs)


async def test_an_iterator_that_is_left() -> None:
    async with pair("100mbit") as both:
        seen = await asyncio.gather(*(after_first_byte(Run(plan, both.hosts)) for plan in plans(both)))
        assert all(seen) and both.generators() == []


# --------------------------------------------------------------------------------------------------- by somebody else


@pytest.mark.parametrize(
    ("host", "stage"), [("b", "listening"), ("b", "first byte"), ("a", "running"), ("a", "first byte")]
)
async def test_a_generator_that_is_killed(host: str, stage: str) -> None:
    async def cut(one: Traced, number: int) -> None:
        await one.until(stage)
        while host not in one.pids:
            await one.until_heard(one.heard + 1)
        os.kill(one.pids[host], signal.SIGTERM if number % 2 else signal.SIGKILL)

    async with pair("100mbit") as both:
        for one in await all_cut(both, cut):
            assert one.result is not None and one.result.failure is not None, host
            assert one.result.failure.kind in ("control_message", "interrupted", "refused", "other"), one.result.failure


async def test_a_probe_that_is_killed() -> None:
    """On either side, at every stage: its children go with it, and the other ones are stopped."""

    async def kills(both: Pair, first: int) -> None:
        for number in range(first, first + TIMES // 2):
            (pid,) = both.sources["ab"[number % 2]].pids
            await survived(both, number, partial(os.kill, pid, signal.SIGKILL))

    async with pair("100mbit") as one, pair("100mbit") as other, pair("100mbit") as third, pair("100mbit") as fourth:
        pairs = (one, other, third, fourth)
        await asyncio.gather(*(kills(both, number * TIMES // 2) for number, both in enumerate(pairs)))


async def survived(both: Pair, number: int, kill: Callable[[], object]) -> None:
    """A run whose connection to one side is cut, the side and the stage by number; both sides are back afterwards."""
    name, stage = "ab"[number % 2], STAGES[number // 2 % len(STAGES)]
    with Traced(both, both.plan(time=60, port=5210 + number)) as run:
        await run.until(stage)
        kill()
        await asyncio.wait({run.task}, timeout=LIMIT)
        assert run.result is not None and run.result.failure is not None
        assert run.result.failure.kind == "unreachable", run.result.failure
        assert run.result.failure.sentence.startswith(f"{name}: ")
        host = both.hosts[name]
        assert await host.until(lambda: host.snapshot.state == "live", LIMIT)
        assert run.children == [] and both.generators() == []


async def test_a_session_of_sshd_that_is_killed(tmp_path: Path) -> None:
    skip_without_sshd()

    async def kills(part: int) -> None:
        folder = tmp_path / str(part)
        folder.mkdir()
        async with pair_over_ssh(folder, "100mbit") as (both, doors):
            for number in range(part * TIMES // 2, (part + 1) * TIMES // 2):
                session = doors["ab"[number % 2]].sessions()[0]
                await survived(both, number, partial(os.kill, session, signal.SIGKILL))

    await asyncio.gather(kills(0), kills(1))


# ------------------------------------------------------------------------------------------------------- by the network


async def test_a_link_that_dies_under_the_run() -> None:
    """After the first byte, and before the client is there."""
    async with pair("100mbit") as both:
        waiting: list[Traced] = []

        async def cut(one: Traced, number: int) -> None:
            await one.until("first byte" if number < AT_ONCE else "listening")
            waiting.append(one)
            if len(waiting) % AT_ONCE == 0:
                both.server.run(["ip", "link", "set", WIRE, "down"])

        async def mended(one: Traced, number: int) -> None:
            both.server.run(["ip", "link", "set", WIRE, "up"])
            await cut(one, number)

        runs = await all_cut(both, mended, SHORT)
        for one in runs:
            assert one.result is not None and one.result.failure is not None
            assert one.result.failure.kind == "stall", one.result.failure
            assert f": the link of {WIRE} on " in one.result.failure.sentence


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
async def test_large_packets_that_vanish_are_an_mtu_black_hole() -> None:
    async def nothing(one: Traced, number: int) -> None:
        """Such a run ends by itself."""

    async with pair("100mbit") as both:
        hole = "table ip hole { chain out { type filter hook output priority 0; meta length > 1200 drop; }\n}"
        both.client.run(["nft", "-f", "-"], input=hole)
        for one in await all_cut(both, nothing, SHORT):
            assert one.result is not None and one.result.failure is not None
            assert one.result.failure.kind == "black_hole", one.result.failure
