"""Experiments between two real probes: order of the steps, manual changes, and the hosts
afterwards."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.errors import NictopError
from nictop.probe.records import Request
from nictop.traffic.analysis.comparison import compare
from nictop.traffic.experiment.experiment import (
    ChangeRequired,
    Experiment,
    ExperimentEnded,
    ExperimentEvent,
    ExperimentStep,
    ManualChangeTimeouts,
    PauseStarted,
    SaveFailed,
    StepEnded,
    StepStarted,
    prepare_experiment,
    run_experiment,
)
from nictop.traffic.experiment.hook import run_hook
from nictop.traffic.plan.request import RunRequest, parse_values
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.selection import StoredRun, save_run, select_by_value
from nictop.traffic.run.events import RunFinished, Stage
from nictop.wire.source import SourceState
from nictop.wire.timeout import with_timeout
from tests.support.probe import is_alive, wait_until
from tests.traffic.emitted import experiment_events
from tests.traffic.pair import LIMIT, WIRE, Pair, missing_requirement, pair

REASON = missing_requirement()
real = pytest.mark.skipif(REASON is not None, reason=REASON or "")

REQUEST = RunRequest("a", "b", client_nic=WIRE, server_nic=WIRE, time=1, interval=0.2, rest=0.0)
CHANGE_TIMEOUTS = ManualChangeTimeouts(between=20.0, shown=3.0, back=10.0)


async def prepared_experiment(both: Pair, **more: object) -> Experiment:
    return await prepare_experiment(replace(REQUEST, **more), both.hosts)  # type: ignore[arg-type]


async def all_events(events: AsyncGenerator[ExperimentEvent, None]) -> list[ExperimentEvent]:
    async with aclosing(events):
        return [event async for event in events]


def events_of(events: list[ExperimentEvent], kind: type) -> list[object]:
    return [event for event in events if isinstance(event, kind)]


def end_event(events: list[ExperimentEvent]) -> ExperimentEnded:
    assert isinstance(events[-1], ExperimentEnded)
    return events[-1]


async def wait_for_interval(both: Pair, seconds: float) -> bool:
    """Wait until both probes read counters at that interval."""

    def found(name: str) -> bool:
        times = [record.time for record in both.hosts[name].records]
        return len(times) > 2 and all(
            abs(after - before - seconds) < seconds / 2
            for before, after in zip(times[-3:], times[-2:], strict=False)
        )

    results = [
        await host.session.until(lambda name=name: found(name), LIMIT)  # type: ignore[misc]
        for name, host in both.hosts.items()
    ]
    return all(results)


@real
async def test_comparison_alternates_and_is_stored(tmp_path: Path) -> None:
    async with pair() as both:
        experiment = await prepared_experiment(
            both, compare=parse_values("bitrate=50M,100M"), repeat=2, rest=0.05, label="rates"
        )
        for name, host in both.hosts.items():
            await host.session.request(Request(interval=0.5, watch=()))
            assert not host.session.in_run, name
        nic, host = both.endpoint("a").ifindex, both.hosts["a"]
        counted = 0
        events: list[ExperimentEvent] = []
        async for event in experiment_events(
            experiment, both.hosts, keep=lambda kept: save_run(kept, tmp_path)
        ):
            events.append(event)
            if isinstance(event, RunFinished):
                # read every 0.2 s, with the driver's counters of the chosen NIC
                assert host.session.in_run and len(host.records) > 4
                counted += sum(nic in record.driver for record in host.records)
        assert counted
        began = [event for event in events if isinstance(event, StepStarted)]
        assert [event.step.group for event in began] == ["A", "B", "B", "A"]
        assert [(event.number, event.total) for event in began] == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert [one.seconds_left for one in began] == sorted(
            (one.seconds_left for one in began), reverse=True
        )
        kinds = Counter(type(event) for event in events)
        assert (
            kinds[StepEnded] == kinds[RunFinished] == 4
            and kinds[PauseStarted] == 3
            and kinds[SaveFailed] == 0
        )
        results = end_event(events).results
        assert (
            end_event(events).reason == ""
            and [kept.result.failure for kept in results] == [None] * 4
        )
        rates = [kept.result.plan.bitrate for kept in results]
        assert rates == [50e6, 100e6, 100e6, 50e6]
        for kept, rate in zip(
            results, rates, strict=True
        ):  # less where the machine is busy with other work
            assert rate is not None and 0 < (kept.result.goodput or 0) <= 1.1 * rate
        (name_a, a), (name_b, b) = select_by_value(["rates"], tmp_path)[""]
        assert (name_a, name_b) == ("bitrate 50M", "bitrate 100M")
        assert (a, b) == ([results[0], results[3]], [results[1], results[2]])
        # a run within one machine is never ranked; but the compared bitrate is no reason
        verdict = compare(
            [one.result for one in a], [one.result for one in b], compared=("bitrate",)
        )
        assert verdict.refusals and not any("differ" in why for why in verdict.refusals)
        assert not any(host.session.in_run for host in both.hosts.values())
        assert await wait_for_interval(both, 0.5)
        assert both.generators() == []


@real
async def test_failed_step_does_not_end_the_experiment(tmp_path: Path) -> None:
    async with pair() as both:
        experiment = await prepared_experiment(
            both, sweep=parse_values("congestion=cubic,reno"), generator="iperf3"
        )
        # refused only by the kernel, as if a module had been unloaded
        first = experiment.steps[0]
        broken = replace(first, plan=replace(first.plan, congestion="nosuch"))
        experiment = replace(experiment, steps=(broken, *experiment.steps))

        def full(_: StoredRun) -> None:
            raise NictopError("No space left on device")

        events = await all_events(experiment_events(experiment, both.hosts, keep=full))
        failed, *others = end_event(events).results
        assert failed.result.failure is not None and "nosuch" in failed.result.failure.sentence
        assert [one.result.failure for one in others] == [None, None]
        # a result that cannot be stored is reported, and remains in memory
        assert [event.number for event in events if isinstance(event, SaveFailed)] == [1, 2, 3]
        assert end_event(events).reason == ""


FAILS_ONCE = """#!/bin/sh
case "$*" in *--version*|*--help*) exec {iperf3} "$@";; esac
[ -e {marker} ] || {{ : > {marker}; echo 'iperf3: error - unable to receive control message' >&2; exit 1; }}
exec {iperf3} "$@"
"""


@real
@pytest.mark.parametrize("repeat", [1, 2])
async def test_accidental_failure_is_repeated_if_there_are_other_runs(
    open_folder: Path, repeat: int
) -> None:
    """Seen with guests: one of fifty runs ends with this message, and would prevent the verdict of
    a comparison."""
    program, marker = open_folder / "iperf3", open_folder / "failed"
    program.write_text(FAILS_ONCE.format(iperf3=shutil.which("iperf3"), marker=marker))
    program.chmod(0o755)
    async with pair("100mbit", tools=(str(open_folder), "")) as both:
        experiment = await prepared_experiment(both, repeat=repeat)
        events = await all_events(
            experiment_events(experiment, both.hosts, change_timeouts=CHANGE_TIMEOUTS)
        )
        assert marker.exists() and both.generators() == []
        results = [kept.result for kept in end_event(events).results]
        repeated = [
            event
            for event in events
            if isinstance(event, Stage) and event.sentence.startswith("retrying")
        ]
        if repeat == 1:
            assert (
                results[0].failure is not None
                and results[0].failure.kind == "control_message"
                and not repeated
            )
        else:
            assert [result.failure for result in results] == [None, None] and len(repeated) == 1
            assert any(
                "the first attempt failed: control connection lost" in note
                for note in results[0].notes
            )
            assert not any("attempt" in note for note in results[1].notes)


@real
async def test_manual_change_is_requested_and_checked() -> None:
    async with pair() as both:
        experiment = await prepared_experiment(both, sweep=parse_values("mtu=1500,1400,1300"))
        requested: list[str] = []

        async def change(step: ExperimentStep) -> bool:
            requested.append(step.value)
            if step.value == "1400":
                for namespace in (both.client, both.server):
                    namespace.run(["ip", "link", "set", WIRE, "mtu", "1400"])
            return True

        events = await all_events(
            experiment_events(
                experiment,
                both.hosts,
                change=change,
                change_timeouts=replace(CHANGE_TIMEOUTS, shown=0.5),
            )
        )
        # the first value is already in force: no request
        assert requested == ["1400", "1300"]
        wanted = [event for event in events if isinstance(event, ChangeRequired)]
        assert wanted[0].sentence.startswith(
            f"MTU of {WIRE} on a: 1400, {WIRE} on b: 1400 (current: a: {WIRE} MTU 1500"
        )
        first, second, third = end_event(events).results
        assert [one.result.facts.get("mtu") for one in (first, second)] == ["1500", "1400"]
        assert third.result.failure is not None
        assert third.result.failure.sentence.startswith(f"change not in effect: a: {WIRE} MTU 1400")
        assert third.result.flows == () and both.generators() == []


@real
async def test_change_is_not_made() -> None:
    async with pair() as both:
        experiment = await prepared_experiment(both, sweep=parse_values("setup=x,y"))

        async def refuse(step: ExperimentStep) -> bool:
            return step.value == "x"

        events = await all_events(experiment_events(experiment, both.hosts, change=refuse))
        assert [kept.value for kept in end_event(events).results] == ["x"]
        assert end_event(events).reason == "change not confirmed: setup y"
        events = await all_events(experiment_events(experiment, both.hosts))
        assert end_event(events).results == () and "no terminal to ask" in end_event(events).reason


@real
async def test_command_makes_the_change() -> None:
    async with pair() as both:
        command = (
            f"for n in {both.client.name} {both.server.name}; do "
            'ip -n $n link set "$NICTOP_CLIENT_NIC" mtu "$NICTOP_VALUE" || exit 1; done'
        )
        experiment = await prepared_experiment(
            both, compare=parse_values("mtu=1500,1400"), repeat=1, between=command
        )
        events = await all_events(
            experiment_events(experiment, both.hosts, change_timeouts=CHANGE_TIMEOUTS)
        )
        assert [kept.result.facts["mtu"] for kept in end_event(events).results] == ["1500", "1400"]
        assert events_of(events, ChangeRequired) == []
        failing = replace(experiment, steps=experiment.steps[:1], between="echo gone wrong; exit 3")
        events = await all_events(
            experiment_events(failing, both.hosts, change_timeouts=CHANGE_TIMEOUTS)
        )
        (kept,) = end_event(events).results
        assert kept.result.failure is not None
        assert (
            kept.result.failure.sentence
            == "command 'echo gone wrong; exit 3' ended with status 3: gone wrong"
        )


@real
async def test_closed_experiment_leaves_nothing_behind() -> None:
    async with pair() as both:
        for host in both.hosts.values():
            await host.session.request(Request(interval=0.5, watch=()))
        for stage in ("checking", "listening", "running", "intervalmeasured", "pausestarted"):
            experiment = await prepared_experiment(both, repeat=3, rest=60.0)
            reached = asyncio.Event()
            task = asyncio.ensure_future(
                signal_at(experiment_events(experiment, both.hosts), stage, reached)
            )
            await with_timeout(60.0, reached.wait())
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled() and both.generators() == [], stage
            assert not any(host.session.in_run for host in both.hosts.values()), stage
        assert await wait_for_interval(both, 0.5)
        # closed by its reader
        async with aclosing(experiment_events(experiment, both.hosts)) as events:
            async for event in events:
                if isinstance(event, IntervalMeasured):
                    break
        assert both.generators() == [] and not any(
            host.session.in_run for host in both.hosts.values()
        )


async def signal_at(
    events: AsyncGenerator[ExperimentEvent, None], name: str, reached: asyncio.Event
) -> None:
    """Read the events; set `reached` at a stage, at the first interval or at a pause."""
    async with aclosing(events):
        async for event in events:
            stage = event.name if isinstance(event, Stage) else ""
            if name in (stage, type(event).__name__.lower()):
                reached.set()


@real
async def test_stopped_experiment_has_what_was_measured() -> None:
    async with pair() as both:
        experiment = await prepared_experiment(both, repeat=3, time=30, rest=60.0)
        stop, written = asyncio.Event(), list[StoredRun]()
        events: list[ExperimentEvent] = []
        async for event in experiment_events(
            experiment, both.hosts, keep=written.append, stop=stop
        ):
            events.append(event)
            if isinstance(event, IntervalMeasured) and event.interval.end >= 0.6:
                stop.set()
        (one,) = end_event(events).results
        assert end_event(events).reason == "stopped" and [one] == written
        assert one.result.stopped is not None and one.result.goodput and one.result.why_not_ranked
        assert both.generators() == [] and not any(
            host.session.in_run for host in both.hosts.values()
        )
        # stopped during a pause, or while a change is requested: no other step starts
        resting = replace(
            experiment, steps=tuple(replace(step, plan=both.plan()) for step in experiment.steps)
        )
        stop, events = asyncio.Event(), []
        async for event in experiment_events(resting, both.hosts, stop=stop):
            events.append(event)
            if isinstance(event, PauseStarted):
                stop.set()
        assert len(end_event(events).results) == 1 and end_event(events).reason == "stopped"
        asking = await prepared_experiment(both, sweep=parse_values("setup=x,y"))
        stop = asyncio.Event()

        async def change(step: ExperimentStep) -> bool:
            stop.set()
            await asyncio.Event().wait()
            return True

        events = await all_events(experiment_events(asking, both.hosts, change=change, stop=stop))
        assert end_event(events) == ExperimentEnded((), "stopped")


@real
async def test_a_host_that_does_not_come_back_ends_it() -> None:
    async with pair() as both:
        experiment = await prepared_experiment(both, repeat=3)
        events: list[ExperimentEvent] = []
        closing: list[asyncio.Future[None]] = []

        def emit(event: ExperimentEvent) -> None:
            events.append(event)
            if isinstance(event, StepEnded):
                closing.append(asyncio.ensure_future(both.sources["b"].close()))
                both.hosts["b"].session.process(SourceState("lost", "the probe ended", 1.0))

        timeouts = replace(CHANGE_TIMEOUTS, back=0.5)
        await run_experiment(experiment, both.hosts, emit, change_timeouts=timeouts)
        await asyncio.gather(*closing)
        assert [kept.number for kept in end_event(events).results] == [1]
        assert end_event(events).reason == "b: the probe ended"
        with pytest.raises(NictopError, match="b: the probe ended"):
            await both.hosts["b"].tools(0.5)


# ------------------------------------------------------------------------- the command between runs


async def test_command_has_an_environment_and_no_input() -> None:
    script = 'test "$NICTOP_VALUE" = "a b;c" && ! read -r line'
    assert await run_hook(script, {"NICTOP_VALUE": "a b;c"}, 10.0) == ""


async def test_message_of_a_failed_command_is_printable() -> None:
    why = await run_hook("printf 'one\\n\\033[31mtwo\\n' >&2; echo three; exit 7", {}, 10.0)
    assert why.startswith("command 'printf ") and why.endswith(
        "; exit 7' ended with status 7: \\x1b[31mtwo"
    )
    assert why.isprintable()
    long = await run_hook(f"false {'x' * 100}", {}, 10.0)
    assert long == f"command 'false {'x' * 54}…' ended with status 1"
    assert (
        await run_hook("kill -9 $$", {}, 10.0) == "command 'kill -9 $$' ended by signal 9 (SIGKILL)"
    )
    assert "cannot be started" in await run_hook("true", {"X": "a\0b"}, 10.0)


async def test_long_output_of_a_command_does_not_block_or_fill_memory() -> None:
    why = await run_hook("yes | head -c 20000000; echo last; exit 1", {}, 30.0)
    assert why == "command 'yes | head -c 20000000; echo last; exit 1' ended with status 1: last"


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM; sleep 600 & echo $! $$ > {note}; wait; sleep 600",
        "sh -c \"trap '' TERM; sleep 600\" & echo $! $$ > {note}; wait",
    ],
    ids=["itself", "a child"],
)
async def test_command_that_does_not_end_is_stopped_with_its_session(
    script: str, tmp_path: Path
) -> None:
    note = tmp_path / "pids"
    why = await run_hook(script.format(note=note), {}, 3.0)
    assert why.startswith("command ") and why.endswith(" timed out after 3.00 s")
    pids = [int(pid) for pid in note.read_text().split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)))


async def test_cancelled_command_is_stopped(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    os.mkfifo(note)
    task = asyncio.ensure_future(run_hook(f"echo $$ > {note}; sleep 600", {}, 600.0))
    pid = int(await asyncio.to_thread(note.read_text))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and not is_alive(pid)


async def test_background_process_of_a_command_is_not_waited_for(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    assert await run_hook(f"sleep 600 & echo $! > {note}", {}, 10.0) == ""
    pid = int(note.read_text())
    assert is_alive(pid)
    os.kill(pid, 9)
