"""Real tests of requests and responses between two probes: figures, live view, stored file,
endings."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing, suppress
from typing import Any

import pytest

from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.comparison import compare
from nictop.traffic.analysis.transactions import MANY_LOST_SHARE
from nictop.traffic.generators.intervals import TransactionInterval
from nictop.traffic.generators.latency import merged
from nictop.traffic.live.run_view import LiveRun, result_view
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import TRANSACTION_SCHEMA, Result
from nictop.traffic.results.store import StoredRun, encode_run, parse_run
from nictop.traffic.run.events import RunEvent, RunFinished, Stage
from tests.support.kills import kill_matrix
from tests.support.probe import wait_until
from tests.traffic.background_run import STAGES, BackgroundRun
from tests.traffic.emitted import Run
from tests.traffic.pair import LIMIT, WIRE, Pair, missing_requirement, pair, processes_in
from tests.traffic.test_run_ends import SHORT_TIMEOUTS, restore_link

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
IPV6 = {"client": "fd00:0::1", "server": "fd00:0::2"}
KINDS: dict[str, dict[str, Any]] = {
    "rr": {"test": "rr"},
    "udp": {
        "test": "rr",
        "protocol": "udp",
        "request_size": 100,
        "response_size": 2000,
        "streams": 2,
    },
    "crr": {"test": "crr", "streams": 2},
    "files": {"test": "crr", "files": 300, "request_size": 64, "response_size": 4096, "time": 30},
    "ipv6": {"test": "rr", "request_size": 1, "omit": 1},
    "on schedule": {"test": "rr", "streams": 2, "rate": 300},
    "udp on schedule": {"test": "rr", "protocol": "udp", "rate": 300, "omit": 1},
}


def transaction_plan(both: Pair, **options: Any) -> RunPlan:
    return both.plan(generator="builtin", **{"time": 2, **options})


async def events_of(run: Run) -> tuple[Result, list[RunEvent]]:
    events = [event async for event in run.events()]
    assert isinstance(events[-1], RunFinished)
    return events[-1].result, events


@pytest.mark.parametrize("kind", KINDS)
async def test_figures_of_a_run(module_pair: Pair, kind: str) -> None:
    options = dict(KINDS[kind])
    if kind == "ipv6":
        ends = {"client": "a", "server": "b"}
        options |= {
            side: module_pair.endpoint(name, address=IPV6[side]) for side, name in ends.items()
        }
    plan = transaction_plan(module_pair, **options)
    live = LiveRun(plan, module_pair.hosts)
    run = Run(plan, module_pair.hosts)
    events: list[RunEvent] = []
    async for event in run.events():
        live.process(event)
        events.append(event)
    last = events[-1]
    assert isinstance(last, RunFinished)
    result = last.result
    figures = result.transactions
    assert (
        result.failure is None
        and figures is not None
        and result.flows == ()
        and result.goodput is None
    )
    assert figures.latency.count > 0 and figures.rate == figures.latency.count / figures.seconds
    # on a loaded machine a step of one may take longer than it is waited for
    assert figures.lost_share < MANY_LOST_SHARE
    assert (figures.connect is not None) == (plan.test == "crr") and figures.ended_early == ""
    if plan.files is not None:
        assert figures.latency.count == plan.files and figures.seconds < plan.time
    else:
        assert figures.seconds == plan.time
    # the intervals are parts of the total
    intervals = [one.interval for one in events if isinstance(one, IntervalMeasured)]
    assert all(isinstance(one, TransactionInterval) for one in intervals)
    counted = merged(
        one.latency for one in intervals if isinstance(one, TransactionInterval) and not one.omitted
    )
    assert all(
        count <= figures.latency.counts.get(bucket, 0) for bucket, count in counted.counts.items()
    )
    assert [point.latency.count for point in figures.points] == [
        one.latency.count for one in intervals if isinstance(one, TransactionInterval)
    ]
    if plan.rate is None:  # a closed loop
        assert figures.latency.sum / 1e9 <= plan.streams * (figures.seconds + 1.0)
    else:  # an interval that was omitted may end some requests later
        planned = plan.rate * plan.time
        assert figures.latency.count == planned or (
            plan.omit and abs(figures.latency.count - planned) < plan.rate
        )
        assert (
            figures.points
            and sum(one.latency.count for one in figures.points) == plan.rate * plan.seconds
        )
        assert result.reached_load or plan.omit
    check_proof_and_floors(result)
    view = live.view()
    assert view.transactions == figures.points and view.series and view.result is result
    stored = StoredRun("x", "x", result, 1.0, "0")
    assert parse_run(encode_run(stored)) == stored and result.schema == TRANSACTION_SCHEMA
    assert result_view(result).transactions == figures.points


def check_proof_and_floors(result: Result) -> None:
    """A run within one machine is never ranked, but its netdevs are checked."""
    figures = result.transactions
    assert (
        figures is not None
        and result.proof is not None
        and result.proof.one_machine
        and result.why_not_ranked
    )
    few = figures.latency.count < 1000
    assert few or [one.verdict for one in result.proof.hosts] == ["proven", "proven"], result.proof
    assert not any(one.foreign for one in result.proof.hosts), result.proof
    assert [one.host for one in figures.floors] == ["a", "b"]
    for floor in figures.floors:
        assert floor.latency is not None and floor.latency.count > 0 and floor.rate, floor
        assert (floor.connect is not None) == (figures.connect is not None)
    for load in result.hosts:
        if load.busy is not None:
            assert load.per_transaction == pytest.approx(load.busy.total / (figures.rate or 1))
        assert load.per_gigabit is None
    kinds = [one.kind for one in result_sentences(result)]
    assert {"transactions", "latency", "path", "floor"} <= set(kinds) and "goodput" not in kinds


async def test_generator_alone_is_measured_once(module_pair: Pair) -> None:
    plan = transaction_plan(module_pair, test="rr", time=1, request_size=77)
    stages = []
    for _ in range(2):
        _, events = await events_of(Run(plan, module_pair.hosts))
        stages.append([event.sentence for event in events if isinstance(event, Stage)])
    measured = [f"measuring latency of the generator on {host} (loopback)" for host in ("b", "a")]
    assert stages[0][1:3] == measured and not set(measured) & set(stages[1])


async def test_stopped_run_has_what_was_measured(module_pair: Pair) -> None:
    run = Run(transaction_plan(module_pair, test="rr", time=60), module_pair.hosts)
    seen = []
    async for event in run.events():
        seen.append(event)
        if isinstance(event, IntervalMeasured) and event.interval.end >= 0.5:
            run.stop()
    assert isinstance(seen[-1], RunFinished)
    result = seen[-1].result
    assert result.failure is None and result.stopped is not None and result.transactions is not None
    reported = [one.interval for one in seen if isinstance(one, IntervalMeasured)]
    shown = merged(one.latency for one in reported)  # type: ignore[attr-defined]
    counts = (
        result.transactions.latency.counts
    )  # with an interval that arrived while it was stopped
    assert shown.counts and all(counts[bucket] >= count for bucket, count in shown.counts.items())
    assert result.why_not_ranked[0].startswith("stopped after ")


async def test_loopback_is_limited_by_the_generator_or_says_what_it_needs(
    module_pair: Pair,
) -> None:
    loopback = Endpoint("a", 1, "127.0.0.1")
    plan = transaction_plan(module_pair, test="rr", client=loopback, server=loopback)
    result, _ = await events_of(Run(plan, module_pair.hosts))
    figures = result.transactions
    assert (
        result.failure is None
        and figures is not None
        and len(figures.floors) == 1
        and figures.floor is not None
    )
    median = figures.latency.summary().p50
    assert median is not None and figures.limited_by_generator == (median <= 1.2 * figures.floor)


async def test_runs_below_the_requested_load_are_not_ranked(module_pair: Pair) -> None:
    """The path carries 100 Mb/s."""
    reached, missed = [
        (await events_of(Run(module_pair.plan(bitrate=rate, time=2), module_pair.hosts)))[0]
        for rate in (5_000_000, 200_000_000)
    ]
    assert reached.reached_load and reached.load == reached.goodput and not missed.reached_load
    assert "% of the requested 200 Mb/s" in "".join(one.text for one in result_sentences(missed))
    refusals = compare([missed] * 3, [missed] * 3).refusals
    assert any(one.startswith("A 1: requested load not reached: ") for one in refusals), (
        refusals,
        missed.failure,
    )
    assert not any(
        "requested load" in one for one in compare([reached] * 3, [reached] * 3).refusals
    )


@kill_matrix(STAGES, ("rr", "crr"))
async def test_cancelled_run_leaves_nothing(
    module_pair: Pair, stage: str, kill: int, variant: str
) -> None:
    await wait_for_idle(module_pair)
    # sizes that were not measured before: the stage "checking" measures the generator alone
    size = 64 + STAGES.index(stage) + 10 * kill
    plan = transaction_plan(module_pair, test=variant, time=60, request_size=size, streams=2)
    with BackgroundRun(module_pair, plan) as run:
        await run.until(stage)
        run.task.cancel()
        await asyncio.wait({run.task}, timeout=LIMIT)
    assert run.task.cancelled() and run.children == []
    await wait_for_idle(module_pair)


@kill_matrix(("client", "server"), ("rr", "crr"))
async def test_killed_generator_ends_the_run(
    module_pair: Pair, stage: str, kill: int, variant: str
) -> None:
    await wait_for_idle(module_pair)
    host = {"client": "a", "server": "b"}[stage]
    plan = transaction_plan(module_pair, test=variant, time=60, streams=2)
    with BackgroundRun(module_pair, plan) as run:
        await run.until("first byte")
        os.kill(run.pids[host], signal.SIGKILL)
        await asyncio.wait({run.task}, timeout=LIMIT)
        assert run.task.done() and run.children == []
    assert run.result is not None and run.result.failure is not None
    await wait_for_idle(module_pair)


async def test_link_down_during_a_run(module_pair: Pair) -> None:
    try:
        plan = transaction_plan(module_pair, test="rr", time=60)
        with BackgroundRun(module_pair, plan, SHORT_TIMEOUTS) as run:
            await run.until("first byte")
            module_pair.server.run(["ip", "link", "set", WIRE, "down"])
            await asyncio.wait({run.task}, timeout=LIMIT)
    finally:
        await asyncio.to_thread(restore_link, module_pair)
    assert (
        run.result is not None
        and run.result.failure is not None
        and run.result.failure.kind == "stall"
    )
    await wait_for_idle(module_pair)


async def wait_for_idle(both: Pair) -> None:
    """Wait until no child of either probe has a session of its own: every generator has ended."""
    await asyncio.to_thread(wait_until, lambda: generator_processes(both) == [], LIMIT)


def generator_processes(both: Pair) -> list[int]:
    probes = {pid for one in both.sources.values() for pid in one.pids}
    found = []
    for namespace in (both.client, both.server):
        pids = processes_in(namespace)
        for pid in pids:
            with suppress(ProcessLookupError):
                found += [pid] if os.getsid(pid) in set(pids) - probes else []
    return found


async def test_delay_of_a_qdisc_is_the_bottleneck() -> None:
    async with pair(None) as both:
        both.client.run(
            ["tc", "qdisc", "add", "dev", WIRE, "root", "netem", "delay", "5ms"], check=False
        )
        if "netem" not in both.client.run(["tc", "qdisc", "show", "dev", WIRE]):
            pytest.skip("this kernel has no netem")
        assert await both.hosts["a"].refresh()
        async with aclosing(Run(transaction_plan(both, test="rr"), both.hosts).events()) as events:
            seen = [event async for event in events]
    assert isinstance(seen[-1], RunFinished) and seen[-1].result.transactions is not None
    median = seen[-1].result.transactions.latency.summary().p50
    assert median is not None and median >= 5e-3
    assert seen[-1].result.bottleneck.startswith(
        "qdisc netem delay 5ms of nictopt on a: 5.00 ms of the median latency"
    )
