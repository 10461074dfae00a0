"""However a run is interrupted, it reports the cause and leaves no generator on either host."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.run.events import RunTimeouts
from tests.support.kills import kill_matrix
from tests.support.probe import wait_until
from tests.support.sshd import Sshd, skip_without_sshd
from tests.traffic.background_run import STAGES, BackgroundRun
from tests.traffic.emitted import Run
from tests.traffic.pair import LIMIT, WIRE, Pair, missing_requirement, pair_over_ssh
from tests.traffic.real_runs import after_first_byte

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]

SHORT_TIMEOUTS = RunTimeouts(first_byte=3.0, stall=2.0)
LINE_STAGES = tuple(f"after line {number}" for number in range(1, 21))
"""Lines that both probes report of the run, also between the stages."""


@pytest_asyncio.fixture(loop_scope="module")
async def both(module_pair: Pair) -> AsyncIterator[Pair]:
    """Two hosts that all tests here share; each leaves no generator on them."""
    yield module_pair
    assert module_pair.generators() == []


async def wait_for_end(run: BackgroundRun) -> None:
    """Wait until the run is over; its child processes have ended by then."""
    await asyncio.wait({run.task}, timeout=LIMIT)
    assert run.task.done() and run.children == []


async def wait_for_hosts(both: Pair) -> None:
    """Wait until both hosts are live and run no generator: the previous test is over."""
    for host in both.hosts.values():
        assert await host.session.until(lambda host=host: host.snapshot.state == "live", LIMIT)  # type: ignore[misc]
    await asyncio.to_thread(wait_until, lambda: both.generators() == [], LIMIT)


# ---------------------------------------------------------------------------------------- cancelled


@kill_matrix(STAGES)
async def test_cancelled_run(both: Pair, stage: str, kill: int) -> None:
    with BackgroundRun(both, both.plan(time=60)) as run:
        await run.until(stage)
        run.task.cancel()
        await wait_for_end(run)
    assert run.task.cancelled()
    assert stage != "first byte" or len(run.pids) == 2


@kill_matrix(LINE_STAGES)
async def test_run_cancelled_between_stages(both: Pair, stage: str, kill: int) -> None:
    with BackgroundRun(both, both.plan(time=60)) as run:
        await run.until_lines(1 + LINE_STAGES.index(stage))
        run.task.cancel()
        await wait_for_end(run)
    assert run.task.cancelled()


async def test_iterator_closed(both: Pair) -> None:
    assert await after_first_byte(Run(both.plan(time=60), both.hosts))


# ------------------------------------------------------------------------------- by other processes


GENERATOR_STAGES = {
    "server listening": ("b", "listening"),
    "server receiving": ("b", "first byte"),
    "client starting": ("a", "running"),
    "client sending": ("a", "first byte"),
}


@kill_matrix(tuple(GENERATOR_STAGES), ("SIGTERM", "SIGKILL"))
async def test_generator_killed(both: Pair, stage: str, kill: int, variant: str) -> None:
    host, reached = GENERATOR_STAGES[stage]
    with BackgroundRun(both, both.plan(time=60)) as run:
        await run.until(reached)
        while host not in run.pids:
            await run.until_lines(run.line_count + 1)
        os.kill(run.pids[host], signal.Signals[variant])
        await wait_for_end(run)
    assert run.result is not None and run.result.failure is not None
    assert run.result.failure.kind in (
        "control_message",
        "interrupted",
        "refused",
        "other",
        "died",
    ), run.result.failure


@kill_matrix(STAGES, ("client's", "server's"))
async def test_probe_killed(both: Pair, stage: str, kill: int, variant: str) -> None:
    """Its child process ends with it, and that of the other host is stopped."""
    host = {"client's": "a", "server's": "b"}[variant]
    await wait_for_hosts(both)
    (pid,) = both.sources[host].pids
    await lost_connection(both, host, stage, partial(os.kill, pid, signal.SIGKILL))


@kill_matrix(STAGES, ("client's", "server's"))
async def test_sshd_session_killed(
    pair_with_sshd: tuple[Pair, dict[str, Sshd]], stage: str, kill: int, variant: str
) -> None:
    await kill_session(pair_with_sshd, variant, stage)


@kill_matrix(("running", "loading", "bulk flow"), ("client's", "server's"))
async def test_sshd_session_killed_during_a_loaded_run(
    pair_with_sshd: tuple[Pair, dict[str, Sshd]], stage: str, kill: int, variant: str
) -> None:
    await kill_session(
        pair_with_sshd, variant, stage, pair_with_sshd[0].plan(test="loaded", time=1)
    )


async def kill_session(
    pair_with_sshd: tuple[Pair, dict[str, Sshd]],
    variant: str,
    stage: str,
    plan: RunPlan | None = None,
) -> None:
    both, servers = pair_with_sshd
    host = {"client's": "a", "server's": "b"}[variant]
    await wait_for_hosts(both)
    session = servers[host].sessions()[0]
    await lost_connection(both, host, stage, partial(os.kill, session, signal.SIGKILL), plan)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair_with_sshd(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Pair, dict[str, Sshd]]]:
    skip_without_sshd()
    folder: Path = tmp_path_factory.mktemp("sshd")
    async with pair_over_ssh(folder, "100mbit") as both:
        yield both


async def lost_connection(
    both: Pair, name: str, stage: str, kill: Callable[[], object], plan: RunPlan | None = None
) -> None:
    """A run during which the connection to one host is lost; the host is live again afterwards."""
    await wait_for_hosts(both)
    with BackgroundRun(both, plan or both.plan(time=60)) as run:
        await run.until(stage)
        kill()
        await asyncio.wait({run.task}, timeout=LIMIT)
        assert run.task.done()
        # the lost probe ends its child process itself
        await asyncio.to_thread(wait_until, lambda: run.children == [], LIMIT)
        assert run.result is not None and run.result.failure is not None
        assert run.result.failure.kind == "unreachable", run.result.failure
        assert run.result.failure.sentence.startswith(f"{name}: ")
        await wait_for_hosts(both)


# ----------------------------------------------------------------------------------- by the network


@kill_matrix(("listening", "first byte"))
async def test_link_down_during_the_run(both: Pair, stage: str, kill: int) -> None:
    """Before the client has connected, and while data flows."""
    try:
        with BackgroundRun(both, both.plan(time=60), SHORT_TIMEOUTS) as run:
            await run.until(stage)
            both.server.run(["ip", "link", "set", WIRE, "down"])
            await wait_for_end(run)
    finally:
        await asyncio.to_thread(restore_link, both)
    assert run.result is not None and run.result.failure is not None
    assert run.result.failure.kind == "stall", run.result.failure
    sentence = run.result.failure.sentence
    at_time = r"at second \d"
    if stage == "listening":  # the first byte may come before the command has set it down
        at_time = rf"({at_time}|\d+ s after the path test)"
    words = rf": b {WIRE} was set down {at_time}|: the link of {WIRE} on "
    assert re.search(words, sentence), f"with or without an event of it: {sentence}"


async def test_an_address_that_is_removed_during_the_run_is_named(both: Pair) -> None:
    plan = both.plan(time=60)
    address = f"{plan.server.address}/24"
    try:
        with BackgroundRun(both, plan, SHORT_TIMEOUTS) as run:
            await run.until("first byte")
            both.server.run(["ip", "address", "del", address, "dev", WIRE])
            await wait_for_end(run)
    finally:
        both.server.run(["ip", "address", "add", address, "dev", WIRE])
        assert await both.hosts["b"].refresh(LIMIT)
    assert run.result is not None and run.result.failure is not None
    assert run.result.failure.kind == "stall", run.result.failure
    lost = rf": b {WIRE} lost its address {re.escape(plan.server.address)} (at|by|between) second "
    assert re.search(lost, run.result.failure.sentence), run.result.failure


async def test_path_of_a_run_with_a_link_down_is_not_verified(
    pair_with_sshd: tuple[Pair, dict[str, Sshd]],
) -> None:
    """Two machines by their boot ids; packets in flight when the link went down are in no
    interval."""
    both, _ = pair_with_sshd
    await wait_for_hosts(both)
    try:
        with BackgroundRun(both, both.plan(time=60), SHORT_TIMEOUTS) as run:
            await run.until("first byte")
            both.server.run(["ip", "link", "set", WIRE, "down"])
            await wait_for_end(run)
    finally:
        await asyncio.to_thread(restore_link, both)
    assert run.result is not None and run.result.failure is not None
    proof = run.result.proof
    assert proof is not None and not proof.one_machine
    assert proof.verdict == "unknown" and proof.sentence.startswith(
        "the test failed while data was in flight: "
    )
    assert run.result.bottleneck == ""


def restore_link(both: Pair) -> None:
    """Set the link of the server up, and wait until it is as before the test."""
    both.server.run(["ip", "link", "set", WIRE, "up"])
    for namespace in (both.client, both.server):
        state = ["cat", f"/sys/class/net/{WIRE}/operstate"]
        wait_until(lambda namespace=namespace, state=state: namespace.run(state) == "up\n")  # type: ignore[misc]
        namespace.run(["ip", "neighbour", "flush", "dev", WIRE])


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
async def test_dropped_large_packets_are_an_mtu_black_hole(both: Pair) -> None:
    hole = (
        "table ip hole { chain out { type filter hook output priority 0; meta length > 1200 "
        "drop; }\n}"
    )
    both.client.run(["nft", "-f", "-"], input=hole)
    try:
        with BackgroundRun(both, both.plan(time=60), SHORT_TIMEOUTS) as run:
            await wait_for_end(run)
    finally:
        both.client.run(["nft", "delete", "table", "ip", "hole"])
    assert run.result is not None and run.result.failure is not None
    assert run.result.failure.kind == "black_hole", run.result.failure
