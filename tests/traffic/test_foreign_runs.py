"""Runs against an iperf3 server that nictop did not start: what is known of both ends, and what is
said if it is busy, gone, at another port or no iperf3."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from nictop.report.runs.sentences import endpoints_text, result_sentences
from nictop.traffic.experiment.experiment import prepare_experiment
from nictop.traffic.live.run_view import LiveRun
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import RunFinished, RunTimeouts
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until
from tests.traffic.emitted import Run
from tests.traffic.pair import Pair, missing_requirement, pair

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
SERVER = "198.18.0.2"
GREETING = (
    "import socket; s=socket.create_server(('198.18.0.2', {port})); "
    "c=[];\nwhile True: k,_=s.accept(); k.sendall(b'SSH-2.0-x\\r\\n'); c.append(k)"
)
SILENT = GREETING.replace("k.sendall(b'SSH-2.0-x\\r\\n'); ", "")


@pytest.fixture(autouse=True)
def another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other namespace stands for one, as its boot id does between two watched ends."""
    place = "nictop.traffic.analysis.path_proof._place_on_this_machine"
    monkeypatch.setattr(place, lambda *_: "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Pair]:
    """Of which only "a" is used as a host: the namespace of "b" is somebody else's."""
    async with pair("100mbit") as made:
        del made.hosts["b"]
        yield made


@contextmanager
def listening(namespace: Namespace, port: int, *command: str) -> Iterator[None]:
    """Another program's server; ``iperf3 -s`` without a command."""
    argv = command or ("iperf3", "-s", "-p", str(port))
    whole = ["ip", "netns", "exec", namespace.name, *argv]
    with subprocess.Popen(whole, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            wait_until(lambda: namespace.run(["ss", "-Hltn", f"sport = {port}"]), pause=0.05)
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def plan(both: Pair, port: int, **more: Any) -> RunPlan:
    server = Endpoint(SERVER, None, SERVER)
    found = RunPlan(both.endpoint("a"), server, foreign=True, time=1, interval=0.2, port=port)
    return replace(found, **more)


async def result_of(
    both: Pair, port: int, limits: RunTimeouts | None = None, **more: Any
) -> Result:
    run = plan(both, port, **more)
    live = LiveRun(run, both.hosts)
    async for event in Run(run, both.hosts, limits=limits).events():
        live.process(event)
        assert live.view() is not None
        if isinstance(event, RunFinished):
            return event.result
    raise AssertionError("no result")


def texts(result: Result) -> str:
    return "\n".join(f"{kind}: {text}" for kind, text in result_sentences(result))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
async def test_client_is_measured_and_the_rest_is_reported_by_iperf3(
    both: Pair, direction: str
) -> None:
    with listening(both.server, 5311):
        result = await result_of(both, 5311, direction=direction, streams=2)
    assert result.failure is None, result.failure
    assert all(flow.goodput is not None and flow.goodput > 10e6 for flow in result.flows)
    assert [load.host for load in result.hosts] == ["a"]
    assert result.proof is not None and result.proof.verdict == "proven"
    assert result.proof.sentence.endswith(f"; {SERVER} is not watched")
    # as text, iperf3 before 3.17 reports no CPU of a server that sends
    assert result.foreign is not None
    assert direction == "reverse" or result.foreign.cpu is not None
    said = texts(result)
    assert f"foreign: {SERVER}: " in said and "(reported by iperf3)" in said
    assert endpoints_text(result).count(SERVER) == 1
    assert result.why_not_ranked in ((), ("a: CPU not measured",))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
async def test_what_was_measured_until_it_is_stopped_is_kept(both: Pair, direction: str) -> None:
    """Of what it has sent, as far as the TCP of the other end has acknowledged it."""
    with listening(both.server, 5316):
        planned = plan(both, 5316, direction=direction, time=60)
        live, running = LiveRun(planned, both.hosts), Run(planned, both.hosts)
        made: Result | None = None
        async for event in running.events():
            live.process(event)
            if isinstance(event, RunFinished):
                made = event.result
            elif live.view().has_figures:
                running.stop()
    assert made is not None
    assert made.stopped is not None and made.failure is None, made.failure
    assert made.goodput is not None and made.goodput > 10e6
    said = texts(made)
    acknowledged = f"received by {SERVER} (acknowledged by its TCP)" in said
    assert acknowledged == (direction != "reverse"), said


async def test_udp(both: Pair) -> None:
    with listening(both.server, 5312):
        result = await result_of(both, 5312, protocol="udp", bitrate=5_000_000)
    assert result.failure is None and result.flows[0].received is not None
    assert result.flows[0].received.packets


async def test_server_that_serves_another_client(both: Pair) -> None:
    other = ["ip", "netns", "exec", both.client.name, "iperf3", "-c", SERVER, "-p", "5313"]
    with listening(both.server, 5313), started([*other, "-t", "60"]):
        listed = ["ss", "-Htn", "state", "established", "dport = 5313"]
        wait_until(lambda: len(both.client.run(listed).splitlines()) >= 2, pause=0.05)
        result = await result_of(both, 5313)
    assert result.failure is not None and result.failure.kind == "busy"
    assert f"at {SERVER} port 5313 serves another client" in result.failure.sentence


@contextmanager
def started(command: list[str]) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        yield
        process.kill()


async def test_nothing_listens_there(both: Pair) -> None:
    result = await result_of(both, 5314)
    assert result.failure is not None and result.failure.kind == "refused"
    assert result.failure.sentence.startswith(f"connection refused at {SERVER} port 5314: no ")
    assert result.flows[0].goodput is None


@pytest.mark.parametrize("code", [GREETING, SILENT])
async def test_something_else_listens_there(both: Pair, code: str) -> None:
    limits = RunTimeouts(first_byte=1.5)
    with listening(both.server, 5315, "python3", "-c", code.format(port=5315)):
        result = await result_of(both, 5315, limits)
    assert result.failure is not None
    assert "is not an iperf3 server" in result.failure.sentence or (
        "what answers at" in result.failure.sentence
    )


async def test_server_that_serves_one_client(both: Pair) -> None:
    """The second run is refused."""
    with listening(both.server, 5316, "iperf3", "-s", "-1", "-p", "5316"):
        first = await result_of(both, 5316)
        second = await result_of(both, 5316)
    assert first.failure is None
    assert second.failure is not None and "one with -1 serves one client" in second.failure.sentence


async def test_endpoint_of_the_client_is_that_in_the_subnet(both: Pair) -> None:
    request = RunRequest("a", SERVER, foreign=True, time=1)
    experiment = await prepare_experiment(request, both.hosts)
    (step,) = experiment.steps
    assert step.plan.client == both.endpoint("a")
    assert step.plan.server == Endpoint(SERVER, None, SERVER)
    assert any("is not watched" in note for note in experiment.notes)
