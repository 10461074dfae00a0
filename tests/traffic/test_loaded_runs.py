"""Real loaded runs between two probes: phases, queues, live view, recording, failures, endings."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nictop.recording.reader import Recording
from nictop.recording.writer import Recorder, recorded_source
from nictop.replay.results import recorded_results
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import run_marks
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.loaded import added_latency
from nictop.traffic.generators.intervals import TransactionInterval
from nictop.traffic.live.run_view import LiveRun, result_view
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.results.store import StoredRun, encode_run, parse_run
from nictop.traffic.run.events import RunEvent, RunFinished, RunTimeouts
from tests.support.kills import kill_matrix
from tests.support.probe import wait_until
from tests.support.sshd import skip_without_sshd
from tests.traffic.background_run import LOADED_STAGES, BackgroundRun
from tests.traffic.emitted import Run
from tests.traffic.pair import (
    LIMIT,
    WIRE,
    Pair,
    add_veth,
    followed,
    missing_requirement,
    namespaces,
    pair,
    pair_over_ssh,
    shaper_arguments,
    source,
)
from tests.traffic.real_runs import failed
from tests.traffic.test_run_ends import SHORT_TIMEOUTS, restore_link
from tests.traffic.test_transaction_runs import wait_for_idle

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
RATE = "20mbit"
DEEP, SHALLOW = ("limit", "1m"), ("limit", "24k")
"""Queues of 420 ms and of 10 ms at that rate."""
KINDS: dict[str, dict[str, Any]] = {
    "iperf3": {},
    "reverse": {"direction": "reverse", "omit": 1, "rate": 500},
    "bidirectional": {"direction": "bidirectional"},
    "builtin": {
        "generator": "builtin",
        "protocol": "udp",
        "request_size": 100,
        "response_size": 300,
    },
    "builtin reverse": {
        "generator": "builtin",
        "direction": "reverse",
        "streams": 2,
        "bitrate": 5_000_000,
    },
}


def loaded_plan(both: Pair, **options: Any) -> RunPlan:
    return both.plan(**{"test": "loaded", "time": 2, **options})


async def run_of(both: Pair, plan: RunPlan) -> tuple[Result, list[RunEvent], LiveRun]:
    live, events = LiveRun(plan, both.hosts), []
    async for event in Run(plan, both.hosts).events():
        live.process(event)
        live.view()
        events.append(event)
    assert isinstance(events[-1], RunFinished)
    return events[-1].result, events, live


@pytest.mark.parametrize("kind", KINDS)
async def test_phases_of_a_run(module_pair: Pair, kind: str) -> None:
    plan = loaded_plan(module_pair, **KINDS[kind])
    result, events, live = await run_of(module_pair, plan)
    figures = result.transactions
    assert result.failure is None and figures is not None and figures.idle is not None, (
        result.failure
    )
    assert len(result.flows) == len(plan.sending) and all(flow.goodput for flow in result.flows)
    reported = [one for one in events if isinstance(one, IntervalMeasured)]
    requests = [one.interval for one in reported if isinstance(one.interval, TransactionInterval)]
    bulk = [one for one in reported if not isinstance(one.interval, TransactionInterval)]
    assert all(one.load for one in bulk) and bulk
    summaries = [
        one.latency.summary() for one in requests
    ]  # the last one may arrive while the end is waited for
    assert [point.latency for point in figures.points][: len(summaries)] == summaries
    # nothing of the bulk flow is in the idle phase, and its rise is in neither
    begun = min(one.time - one.interval.seconds for one in bulk if one.time is not None)
    assert figures.loaded_since is not None and figures.loaded_since > begun
    assert figures.idle.seconds <= begun and figures.seconds <= plan.time
    for phase in (figures.idle, figures):
        assert phase.seconds > 0 and phase.latency.count > 0
    counted = sum(one.latency.count for one in requests if not one.omitted)
    assert figures.idle.latency.count + figures.latency.count < counted, (
        "the rise of the bulk flow is left out"
    )
    view = live.view()
    assert (
        view.transactions == figures.points
        and view.result is result
        and view.loaded_since is not None
    )
    assert begun == pytest.approx(view.loaded_since, abs=plan.interval)
    assert all(flow.points for flow in view.flows)
    check_proof_and_loads(result)
    stored = StoredRun("x", "x", result, 1.0, "0")
    assert parse_run(encode_run(stored)) == stored
    assert result_view(result).loaded_since is not None
    kinds = [one.kind for one in result_sentences(result)]
    assert {"under load", "idle", "loaded", "goodput", "path", "floor"} <= set(kinds)
    await wait_for_idle(module_pair)


def check_proof_and_loads(result: Result) -> None:
    """A run within one machine is never ranked, but its netdevs are checked."""
    assert result.proof is not None and result.proof.one_machine and result.why_not_ranked
    assert [one.verdict for one in result.proof.hosts] == ["proven", "proven"], result.proof
    assert not any(one.foreign for one in result.proof.hosts), result.proof
    assert {one.host for one in result.sockets} == set(result.plan.senders)
    for load in result.hosts:
        assert load.per_transaction is None
        assert load.busy is None or load.per_gigabit == pytest.approx(
            load.busy.total / (result.goodput or 1) * 1e9
        )


@pytest.mark.parametrize(
    "options", [{}, {"direction": "reverse", "protocol": "udp", "rate": 1000, "bitrate": 2_000_000}]
)
async def test_path_of_two_machines_is_verified(tmp_path: Path, options: dict[str, Any]) -> None:
    """Two machines by their boot ids. The second run has a bulk flow that hardly carries more than
    the requests."""
    skip_without_sshd()
    async with pair_over_ssh(tmp_path, "100mbit") as (both, _):
        result, _, _ = await run_of(both, loaded_plan(both, **options))
    proof = result.proof
    assert result.failure is None and proof is not None and not proof.one_machine
    assert proof.verdict == "proven" and not any(one.foreign for one in proof.hosts), proof


async def shaped(both: Pair, queue: tuple[str, ...]) -> Result:
    """A run through a queue of that length; cubic fills it, whatever the default of the host is."""
    both.client.run(
        [
            "tc",
            "qdisc",
            "replace",
            "dev",
            WIRE,
            "root",
            "handle",
            "1:",
            "tbf",
            "rate",
            RATE,
            "burst",
            "16k",
            *queue,
        ]
    )
    plan = loaded_plan(both, time=3, congestion="cubic")
    result, _, _ = await run_of(both, plan)
    assert result.failure is None, result.failure
    return result


def medians(result: Result) -> tuple[float, float]:
    found = added_latency(result)
    assert found is not None
    return found


async def test_a_deep_queue_delays_the_requests_and_a_shallow_one_does_not() -> None:
    """The ratio of both queues is 40; whatever else the machine does delays the requests of both
    runs."""
    async with pair(None) as both:
        if "cubic" not in (await both.hosts["a"].tools()).congestion_controls:
            pytest.skip("this kernel has no cubic")
        deep = await shaped(both, DEEP)
        shallow = await shaped(both, SHALLOW)
        idle, loaded = medians(deep)
        assert loaded > 5 * idle and loaded > 3 * medians(shallow)[1], (
            medians(deep),
            medians(shallow),
        )
        found = deep.transactions
        assert found is not None and found.delay.startswith(
            "packets wait in a queue (bufferbloat, about "
        )
        (text, *_) = [one.text for one in result_sentences(deep) if one.kind == "under load"]
        assert " more for each round trip) at " in text and "bufferbloat" in text
        assert deep.bottleneck.startswith("qdisc tbf rate 20Mbit of nictopt on a")


async def test_fq_codel_takes_the_delay_away() -> None:
    async with pair(None) as both:
        deep = await shaped(both, DEEP)
        fair = ["tc", "qdisc", "add", "dev", WIRE, "parent", "1:1", "fq_codel"]
        both.client.run(fair, check=False)
        if "fq_codel" not in both.client.run(["tc", "qdisc", "show", "dev", WIRE]):
            pytest.skip("this kernel has no fq_codel")
        result, _, _ = await run_of(both, loaded_plan(both, time=3, congestion="cubic"))
        assert 3 * medians(result)[1] < medians(deep)[1]


async def test_run_stopped_in_its_idle_phase(module_pair: Pair) -> None:
    run = Run(loaded_plan(module_pair, time=60), module_pair.hosts)
    events = []
    async for event in run.events():
        events.append(event)
        if isinstance(event, IntervalMeasured) and event.interval.end >= 0.5:
            run.stop()
    assert isinstance(events[-1], RunFinished)
    result = events[-1].result
    assert result.failure is None and result.stopped is not None and result.transactions is not None
    assert result.transactions.idle is not None and result.transactions.latency.count == 0
    assert result.why_not_ranked[0].startswith("stopped after ")
    assert "under load" not in [one.kind for one in result_sentences(result)]
    await wait_for_idle(module_pair)


async def test_a_port_in_use_is_skipped_by_both_servers(module_pair: Pair) -> None:
    plan = loaded_plan(module_pair, time=1, port=5700)
    first = BackgroundRun(module_pair, module_pair.plan(time=60, port=5701, bitrate=1_000_000))
    with first:
        await first.until("first byte")
        result, _, _ = await run_of(module_pair, plan)
        first.task.cancel()
        await asyncio.wait({first.task}, timeout=LIMIT)
    assert result.failure is None and result.plan.port == 5700 and result.goodput, result.failure


async def test_a_bulk_flow_that_still_sends_at_the_deadline(module_pair: Pair) -> None:
    """It has sent all the time, however late it was started."""
    plan = loaded_plan(module_pair, generator="builtin", time=1)
    found = await failed(module_pair, plan=plan, limits=RunTimeouts(grace=0.0))
    assert found.kind == "deadline" and found.sentence.startswith(
        "bulk flow: the test did not end within "
    ), found


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
async def test_a_firewall_that_drops_the_bulk_flow_only(module_pair: Pair) -> None:
    """The path test is of the port of the requests; the commands open that of the bulk flow."""
    rules = (
        "table inet only { chain in { type filter hook input priority 0; tcp dport 5202 drop; }\n}"
    )
    module_pair.server.run(["nft", "-f", "-"], input=rules)
    try:
        result, _, _ = await run_of(module_pair, loaded_plan(module_pair, time=1))
    finally:
        module_pair.server.run(["nft", "delete", "table", "inet", "only"])
    failure = result.failure
    assert (
        failure is not None
        and failure.sentence.startswith("bulk flow: ")
        and "port 5202" in failure.sentence
    )
    assert (
        failure.host == "b"
        and failure.commands
        and all("5202" in command for command in failure.commands)
    )
    assert result.why_not_ranked and "idle" in [one.kind for one in result_sentences(result)]
    await wait_for_idle(module_pair)


# ---------------------------------------------------------------------------------------- recording


async def test_recorded_run_has_the_same_result(tmp_path: Path) -> None:
    path = str(tmp_path / "run.nictop")
    recorder = Recorder(path)
    with namespaces() as (client, server):
        add_veth(client, server, shaper_arguments("50mbit"))
        sources = [
            recorded_source(source(one, name), recorder)
            for one, name in ((client, "a"), (server, "b"))
        ]
        async with followed(client, server, sources) as both:
            plan = loaded_plan(
                both, direction="reverse", streams=2, rate=300, request_size=64, response_size=100
            )
            result, _, _ = await run_of(both, plan)
    await recorder.close()
    assert result.failure is None and result.transactions is not None
    with Recording.open(path) as recording:
        (marks,) = run_marks(recording)
        assert (
            marks.is_complete
            and (marks.client, marks.server) == ("a", "b")
            and marks.end is not None
        )
        run = RecordedRun(recording, marks)
        await run.advance(marks.begin + 1.5)
        early = run.view()
        assert early is not None and early.plan.test == "loaded" and early.plan.time == plan.time
        assert early.loaded_since is None and early.result is None
        (found,) = (await recorded_results(recording, recording.end)).runs
        await run.advance(recording.end)
        view = run.view()
    again = found.result
    assert replace(again.plan, port=plan.port) == plan and again.transactions is not None
    assert again.transactions.latency == result.transactions.latency
    assert again.transactions.idle == result.transactions.idle
    assert again.goodput == result.goodput and [one.sender for one in again.flows] == ["b"]
    assert view is not None and view.loaded_since is not None and view.result is not None
    assert (
        view.result.transactions == again.transactions
        and view.transactions == again.transactions.points
    )
    assert [flow.sender for flow in view.flows] == ["b"] and view.flows[0].points


# ------------------------------------------------------------------------------------------ endings


@kill_matrix(LOADED_STAGES)
async def test_cancelled_run_leaves_nothing(module_pair: Pair, stage: str, kill: int) -> None:
    await wait_for_idle(module_pair)
    # a rate that was not measured before: the stage "checking" measures the generator alone
    rate = 201 + LOADED_STAGES.index(stage) + 10 * kill
    with BackgroundRun(
        module_pair, loaded_plan(module_pair, time=idle_seconds(stage), rate=rate)
    ) as run:
        await run.until(stage)
        run.task.cancel()
        await asyncio.wait({run.task}, timeout=LIMIT)
    assert run.task.cancelled() and run.children == []
    assert stage != "bulk flow" or (len(run.pids), len(run.bulk_pids)) == (2, 2)
    await wait_for_idle(module_pair)


def idle_seconds(stage: str) -> int:
    """The bulk flow is started soon if the stage is about it, else it is not."""
    return 1 if stage in ("loading", "bulk flow") else 60


VICTIMS = ("client", "server", "client of the bulk flow", "server of the bulk flow")


@kill_matrix(("first byte", "bulk flow"), victims=VICTIMS)
async def test_killed_generator_ends_the_run(
    module_pair: Pair, stage: str, kill: int, victim: str
) -> None:
    if stage == "first byte" and victim == "client of the bulk flow":
        pytest.skip("it is not started yet")
    await wait_for_idle(module_pair)
    host = "a" if victim.startswith("client") else "b"
    # the bulk flow is slow, so that a run of some seconds is not over before
    plan = loaded_plan(module_pair, time=60 if stage == "first byte" else 3, bitrate=5_000_000)
    with BackgroundRun(module_pair, plan) as run:
        await run.until(stage)
        os.kill((run.bulk_pids if "bulk" in victim else run.pids)[host], signal.SIGKILL)
        await asyncio.wait({run.task}, timeout=LIMIT)
        assert run.task.done() and run.children == []
    assert run.result is not None and run.result.failure is not None and run.result.why_not_ranked
    assert run.result.failure.sentence.startswith("bulk flow: ") == ("bulk" in victim), (
        run.result.failure
    )
    await wait_for_idle(module_pair)


@kill_matrix(LOADED_STAGES, ("client's", "server's"))
async def test_probe_killed(module_pair: Pair, stage: str, kill: int, variant: str) -> None:
    """Its child processes end with it, and those of the other host are stopped."""
    name = {"client's": "a", "server's": "b"}[variant]
    for host in module_pair.hosts.values():
        assert await host.session.until(lambda host=host: host.snapshot.state == "live", LIMIT)  # type: ignore[misc]
    await wait_for_idle(module_pair)
    with BackgroundRun(module_pair, loaded_plan(module_pair, time=idle_seconds(stage))) as run:
        await run.until(stage)
        (pid,) = module_pair.sources[name].pids
        os.kill(pid, signal.SIGKILL)
        await asyncio.wait({run.task}, timeout=LIMIT)
        assert run.task.done()
        await asyncio.to_thread(wait_until, lambda: run.children == [], LIMIT)
    assert run.result is not None and run.result.failure is not None
    assert run.result.failure.kind == "unreachable", run.result.failure
    for host in module_pair.hosts.values():
        assert await host.session.until(lambda host=host: host.snapshot.state == "live", LIMIT)  # type: ignore[misc]


@pytest.mark.parametrize("stage", ["first byte", "bulk flow"])
async def test_link_down_during_a_run(module_pair: Pair, stage: str) -> None:
    try:
        with BackgroundRun(
            module_pair, loaded_plan(module_pair, time=idle_seconds(stage)), SHORT_TIMEOUTS
        ) as run:
            await run.until(stage)
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
