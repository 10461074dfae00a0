"""A path test that nictop ends because its time limit is over says so."""

from __future__ import annotations

from nictop.probe.records import PathListener, TrafficLine
from nictop.probe.traffic.requests import MAX_PATH_TEST_SECONDS
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.path.run import PathRun, PathTimeouts
from nictop.traffic.plan.plan import EndpointPair
from nictop.traffic.run.events import RunTimeouts
from nictop.wire.slowness import MAX_TIME_FACTOR
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.plans import CLIENT, SERVER


async def path_run(limits: PathTimeouts) -> PathRun:
    hosts = {name: RunHost(session_of(ScriptedSource(name))) for name in ("a", "b")}
    run = PathRun(EndpointPair("", CLIENT, SERVER), hosts, timeouts=limits, identity="x")
    await run.begin()
    return run


async def test_a_listener_that_does_not_answer_in_time() -> None:
    run = await path_run(PathTimeouts(0.0, 0.0, 0.0))
    while run.stage != "over":
        await run.expire()
    # its answer to the request to stop
    run.record(
        TrafficLine(
            0.0, "x-path_listen-1", "failed", text="path test was stopped before it answered"
        )
    )
    ended = "no answer within 0 s, the time limit of nictop, which ended the path test"
    assert [one.failure for one in run.result().directions] == [f"b: {ended}", f"a: {ended}"]


async def test_a_test_that_was_stopped_at_its_limit_is_not_told_as_stopped_alone() -> None:
    run = await path_run(PathTimeouts(60.0, 0.0, 0.0))
    listener = PathListener(4567)
    for side in (0, 1):
        await run.add(
            TrafficLine(0.0, f"x-path_listen-{side}", "path_listener", path_listener=listener)
        )
    assert run.stage == "testing"
    await run.add(TrafficLine(0.0, "x-path_test-1", "failed", text="no permission"))
    await run.expire()
    await run.add(
        TrafficLine(0.0, "x-path_test-0", "failed", text="path test was stopped before it answered")
    )
    first, second = (one.failure for one in run.result().directions)
    assert first == "a: no answer within 0 s, the time limit of nictop, which ended the path test"
    assert second == "b: no permission"


def test_limits_of_slow_hosts() -> None:
    """A probe accepts them, and a usual host has the usual ones."""
    usual, slow = PathTimeouts(), PathTimeouts().for_slow(MAX_TIME_FACTOR)
    assert PathTimeouts().for_slow(1.0) == usual
    assert (slow.listen, slow.test, slow.stop) == (60.0, 90.0, 12.0)
    assert slow.listen + slow.test + 5 * slow.stop <= MAX_PATH_TEST_SECONDS
    run = RunTimeouts().for_slow(MAX_TIME_FACTOR)
    assert 2 * run.path_test + 5 * run.stop <= MAX_PATH_TEST_SECONDS
    assert (run.check, run.ports) == (100.0, RunTimeouts().ports)
