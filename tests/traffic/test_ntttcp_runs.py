"""Real runs of ntttcp for Linux: between two watched hosts, to a receiver and from a sender that
nictop does not start."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from nictop.errors import NictopError
from nictop.traffic.experiment.experiment import prepare_experiment
from nictop.traffic.generators import typed_commands
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import COMMAND, RunFinished, RunTimeouts
from tests.support.probe import wait_until
from tests.traffic.emitted import Run
from tests.traffic.pair import Pair, missing_requirement, pair
from tests.traffic.test_foreign_client_runs import Watched, exactly, texts, typed

REASON = missing_requirement()
if REASON is None and shutil.which("ntttcp") is None:
    REASON = "ntttcp is not installed (github.com/microsoft/ntttcp-for-linux)"
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
CLIENT, SERVER = "198.18.0.1", "198.18.0.2"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Pair]:
    async with pair("100mbit") as made:
        yield made


async def result_of(both: Pair, plan: RunPlan, limits: RunTimeouts | None = None) -> Result:
    async for event in Run(plan, both.hosts, limits=limits).events():
        if isinstance(event, RunFinished):
            return event.result
    raise AssertionError("no result")


async def test_between_two_hosts(both: Pair) -> None:
    plan = both.plan(generator="ntttcp", time=3, streams=2, port=5401)
    result = await result_of(both, plan)
    assert result.failure is None, result.failure
    (flow,) = result.flows
    assert flow.goodput is not None and 50e6 < flow.goodput < 110e6
    assert flow.points and flow.retransmits is not None
    assert result.proof is not None
    assert [host.verdict for host in result.proof.hosts] == ["proven", "proven"]
    assert result.sockets and result.facts["client ntttcp"].startswith("NTTTCP for Linux")


async def test_next_port_is_used_if_another_program_has_one(both: Pair) -> None:
    """ntttcp does not end, but says that it cannot bind."""
    with typed(both.server, ["iperf3", "-s", "-B", SERVER, "-p", "5451"]):
        wait_until(lambda: both.server.run(["ss", "-Hltn", "sport = 5451"]), pause=0.05)
        plan = both.plan(generator="ntttcp", time=1, port=5451)
        result = await result_of(both, plan)
    assert result.failure is None, result.failure
    assert result.plan.port == 5452
    assert "ntttcp" not in both.server.run(["ss", "-Hltnp"])


async def test_sender_that_somebody_starts(both: Pair) -> None:
    foreign = Endpoint(CLIENT, None, CLIENT)
    plan = RunPlan(
        foreign,
        both.endpoint("b"),
        "ntttcp",
        foreign=True,
        foreign_client=True,
        time=3,
        port=5411,
        wait=20,
    )
    watched = Watched(both, plan, exactly)
    result = await watched.result()
    assert result.failure is None, result.failure
    assert watched.sentences(COMMAND) == [
        f"type on {CLIENT}: ntttcp -s {SERVER} -p 5411 -N -P 1 -t 3 -n 1",
        f"on Windows: ntttcp.exe -s -m 1,*,{SERVER} -p 5411 -ns -t 3",
    ]
    assert result.flows[0].goodput is not None and result.flows[0].goodput > 50e6
    assert "seen only from outside" in texts(result)


async def test_sender_goes_away(both: Pair) -> None:
    """Its receiver goes on, and reports a mean over the planned seconds."""
    foreign = Endpoint(CLIENT, None, CLIENT)
    plan = RunPlan(
        foreign,
        both.endpoint("b"),
        "ntttcp",
        foreign=True,
        foreign_client=True,
        time=4,
        port=5421,
        wait=20,
    )
    watched = Watched(both, plan, lambda words: ["timeout", "-s", "KILL", "2", *words])
    result = await watched.result()
    assert result.failure is not None and result.failure.kind in ("interrupted", "stall")


async def test_receiver_that_somebody_starts(both: Pair) -> None:
    foreign = Endpoint(SERVER, None, SERVER)
    plan = RunPlan(both.endpoint("a"), foreign, "ntttcp", foreign=True, time=3, port=5431)
    command, windows = typed_commands(plan)
    assert windows == f"on Windows: ntttcp.exe -r -m 1,*,{SERVER} -p 5431 -ns -t 3"
    with typed(both.server, shlex.split(command)):
        listed = ["ss", "-Hltn", "sport = 5431"]
        wait_until(lambda: both.server.run(listed), pause=0.05)
        result = await result_of(both, plan)
    assert result.failure is None, result.failure
    assert result.flows[0].goodput is not None and result.flows[0].goodput > 50e6
    assert "acknowledged by its TCP" in texts(result)


async def test_receiver_that_does_not_run(both: Pair) -> None:
    foreign = Endpoint(SERVER, None, SERVER)
    plan = RunPlan(both.endpoint("a"), foreign, "ntttcp", foreign=True, time=1, port=5441)
    result = await result_of(both, plan)
    assert result.failure is not None and result.failure.kind == "refused"


async def test_what_is_to_run_there_is_said_before(both: Pair) -> None:
    request = RunRequest("a", SERVER, foreign=True, generator="ntttcp", time=1)
    experiment = await prepare_experiment(request, both.hosts)
    assert any(f"start on {SERVER} before each run: ntttcp -r " in n for n in experiment.notes)
    assert not any("iperf3" in note for note in experiment.notes)


async def test_option_that_it_does_not_have(both: Pair) -> None:
    request = RunRequest("a", "b", generator="ntttcp", direction="reverse")
    with pytest.raises(NictopError, match="name the hosts the other way round"):
        await prepare_experiment(request, both.hosts)
