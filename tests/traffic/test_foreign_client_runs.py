"""Runs whose client is started by somebody else, by the command that nictop says: what is measured,
and what is said if it does not come, is another one, or does something else."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from nictop.report.runs.sentences import endpoints_text, result_sentences
from nictop.traffic.experiment.experiment import prepare_experiment
from nictop.traffic.live.run_view import LiveRun
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import encode_run, parse_run
from nictop.traffic.run.events import COMMAND, RunFinished, RunTimeouts, Stage
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until
from tests.traffic.emitted import Run
from tests.traffic.pair import Pair, missing_requirement, pair

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
CLIENT, SERVER, OTHER = "198.18.0.1", "198.18.0.2", "198.18.0.77"
Typed = Callable[[list[str]], Sequence[str]]
"""What nictop said → what somebody types."""


@pytest.fixture(autouse=True)
def another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other namespace stands for one, as its boot id does between two watched ends."""
    place = "nictop.traffic.analysis.path_proof._place_on_this_machine"
    monkeypatch.setattr(place, lambda *_: "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Pair]:
    """Of which only "b" is used as a host: the namespace of "a" is somebody else's."""
    async with pair("100mbit") as made:
        del made.hosts["a"]
        made.client.run(["ip", "address", "add", f"{OTHER}/24", "dev", "nictopt"])
        yield made


def plan(both: Pair, port: int, **more: Any) -> RunPlan:
    client = Endpoint(CLIENT, None, CLIENT)
    found = RunPlan(
        client,
        both.endpoint("b"),
        foreign=True,
        foreign_client=True,
        wait=60,
        time=1,
        interval=0.2,
        port=port,
    )
    return replace(found, **more)


@contextmanager
def typed(namespace: Namespace, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program of somebody else, in the namespace of the client."""
    argv = ["ip", "netns", "exec", namespace.name, *words]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def exactly(words: list[str]) -> Sequence[str]:
    return words


class Watched:
    """A run, and somebody who types: `types` are what is typed when nictop waits, one after the
    other."""

    def __init__(self, both: Pair, run: RunPlan, *types: Typed) -> None:
        self.both, self.plan, self._types = both, run, list(types)
        self.said: list[Stage] = []
        self.live = LiveRun(run, both.hosts)

    async def result(self, limits: RunTimeouts | None = None) -> Result:
        running = Run(self.plan, self.both.hosts, limits=limits)
        words: list[str] = []
        with ExitStack() as stack:
            self.programs: list[subprocess.Popen[bytes]] = []
            async for event in running.events():
                self.live.process(event)
                assert self.live.view() is not None
                if isinstance(event, Stage):
                    self.said.append(event)
                    if event.name == COMMAND and event.sentence.startswith("type on "):
                        words = shlex.split(event.sentence.partition(": ")[2])
                    if event.name == "client" and self._types:
                        argv = self._types.pop(0)(words)
                        self.programs.append(stack.enter_context(typed(self.both.client, argv)))
                self.on_event(running, event)
                if isinstance(event, RunFinished):
                    return event.result
        raise AssertionError("no result")

    def on_event(self, running: Run, event: object) -> None:
        """For what is done at an event."""

    def sentences(self, name: str) -> list[str]:
        return [stage.sentence for stage in self.said if stage.name == name]


def texts(result: Result) -> str:
    return "\n".join(f"{kind}: {text}" for kind, text in result_sentences(result))


def nothing_is_left(both: Pair) -> bool:
    """No server of nictop listens any more."""
    return "iperf3" not in both.server.run(["ss", "-Hltnp"])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
async def test_server_is_measured_and_the_client_is_seen_from_outside(
    both: Pair, direction: str
) -> None:
    watched = Watched(both, plan(both, 5321, direction=direction, streams=2, time=2), exactly)
    result = await watched.result()
    assert result.failure is None, result.failure
    assert all(flow.goodput is not None and flow.goodput > 10e6 for flow in result.flows)
    assert [(load.host, load.role) for load in result.hosts] == [("b", "server")]
    assert result.hosts[0].busy is not None
    assert result.proof is not None and result.proof.verdict == "proven", result.proof
    assert result.proof.sentence.endswith(f"; {CLIENT} is not watched")
    assert result.foreign is not None and result.foreign.differs == ()
    said = texts(result)
    assert f"foreign client: {CLIENT}: seen only from outside" in said
    assert endpoints_text(result).count(CLIENT) == 1
    assert ("acknowledged by its TCP" in said) == (direction != "forward")
    assert result.why_not_ranked == ()
    stored = parse_run(encode_run(StoredRun("1", "1", result, 0.0, "0", "run")))
    assert isinstance(stored, StoredRun) and stored.result.foreign == result.foreign


async def test_both_commands_are_said(both: Pair) -> None:
    watched = Watched(both, plan(both, 5322, mss=1000), exactly)
    await watched.result()
    said = "-c 198.18.0.2 -p 5322 -t 1 -P 1 -M 1000"
    assert watched.sentences(COMMAND) == [
        f"type on {CLIENT}: iperf3 {said}",
        f"on Windows: iperf3.exe {said}",
    ]
    assert watched.sentences("client") == ["waiting for it to connect, at most 60 s"]


async def test_udp(both: Pair) -> None:
    watched = Watched(both, plan(both, 5323, protocol="udp", bitrate=5_000_000), exactly)
    result = await watched.result()
    assert result.failure is None and result.flows[0].received is not None
    assert result.flows[0].received.packets


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        (["-R"], "reverse, not forward"),
        (["-u", "-b", "5M"], "UDP, not TCP"),
        (["-P", "3"], "3 streams, not 1"),
        (["-t", "4"], "4 s, not 1"),
    ],
)
async def test_client_that_does_something_else(both: Pair, more: list[str], differs: str) -> None:
    """It is measured as what it is, and not ranked."""
    watched = Watched(both, plan(both, 5324), lambda words: [*words, *more])
    result = await watched.result()
    assert result.failure is None, result.failure
    assert result.foreign is not None and result.foreign.differs == (differs,)
    assert f"it did another test than was to be typed: {differs}" in texts(result)
    assert f"another test than was to be typed: {differs}" in result.why_not_ranked
    assert result.flows[0].sender == ("b" if "-R" in more else CLIENT)


async def test_client_that_goes_on(both: Pair) -> None:
    watched = Watched(both, plan(both, 5325), lambda words: [*words, "-t", "60"])
    result = await watched.result(RunTimeouts(grace=1.0))
    assert result.failure is not None and result.failure.kind == "deadline"
    assert f"{CLIENT} went on after the 1 s of the typed command" in result.failure.sentence
    assert nothing_is_left(both)


async def test_client_does_not_come(both: Pair) -> None:
    result = await Watched(both, plan(both, 5326, wait=1)).result()
    assert result.failure is not None and result.failure.kind == "timeout"
    sentence = result.failure.sentence
    assert sentence.startswith(f"no client of {CLIENT} has sent data to {SERVER} port 5326 within")
    assert "possible: it was not started, " in sentence
    assert result.flows[0].goodput is None and nothing_is_left(both)


async def test_firewall_of_the_server_is_named_if_nobody_comes(both: Pair) -> None:
    both.server.run(["nft", "add", "table", "inet", "filter"])
    chain = "{ type filter hook input priority 0 ; policy drop ; }"
    both.server.run(["nft", "add", "chain", "inet", "filter", "input", chain])
    try:
        result = await Watched(both, plan(both, 5327, wait=2), exactly).result()
    finally:
        both.server.run(["nft", "delete", "table", "inet", "filter"])
    assert result.failure is not None and result.failure.host == "b"
    assert "the nftables input chain inet filter input on b" in result.failure.sentence
    assert any(f"saddr {CLIENT} tcp dport 5327" in text for text in result.failure.commands)


async def test_client_of_another_address(both: Pair) -> None:
    """It is told, and the right one is still served."""
    watched = Watched(
        both, plan(both, 5328), lambda words: [*words, "-B", OTHER, "-t", "30"], exactly
    )
    result = await watched.result()
    assert result.failure is None, result.failure
    said = f"{OTHER} has connected, which is not {CLIENT}: the server listens again"
    assert said in watched.sentences("client")
    assert len(watched.sentences(COMMAND)) == 2  # the port is still the same


async def test_translated_client_is_named(both: Pair) -> None:
    watched = Watched(both, plan(both, 5329, wait=3), lambda words: [*words, "-B", OTHER])
    result = await watched.result()
    assert result.failure is not None and "; 1 connection: " in result.failure.sentence
    assert f"if {OTHER} is the client (NAT), name it by that address" in result.failure.sentence


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("", "a connection was no iperf3 client"),
        ("s.sendall(bytes(100000));", "a connection was no iperf3 client"),
        ("import time; time.sleep(60);", "has sent nothing within 1.5 s"),
    ],
)
async def test_connection_that_is_no_client(both: Pair, code: str, said: str) -> None:
    """As of a port scan, of iperf 2, or of a program that says nothing."""
    script = f"import socket; s=socket.create_connection(('{SERVER}',5330)); {code} s.close()"
    stranger = ["python3", "-c", script]
    watched = Watched(both, plan(both, 5330), lambda _: stranger, exactly)
    result = await watched.result(RunTimeouts(first_byte=1.5))
    assert result.failure is None, result.failure
    assert any(said in sentence for sentence in watched.sentences("client"))


class GoesAway(Watched):
    """The client ends in the middle."""

    number = signal.SIGKILL

    def on_event(self, running: Run, event: object) -> None:
        if isinstance(event, IntervalMeasured):
            with suppress(ProcessLookupError):
                os.killpg(self.programs[-1].pid, self.number)


class GoesAtOnce(GoesAway):
    """As soon as it has connected; it may have sent much until then."""

    def on_event(self, running: Run, event: object) -> None:
        if isinstance(event, Stage) and event.sentence.endswith("has connected"):
            with suppress(ProcessLookupError):
                os.killpg(self.programs[-1].pid, self.number)


async def test_client_that_goes_within_its_first_interval(both: Pair) -> None:
    """It is not said to have sent nothing."""
    watched = GoesAtOnce(both, plan(both, 5332, wait=5, interval=5.0), exactly)
    result = await watched.result()
    assert result.failure is not None and result.failure.kind == "timeout"
    said = f"; 1 connection: the client of {CLIENT} has ended within its first interval"
    assert said in result.failure.sentence
    assert f"no client of {CLIENT} was measured at {SERVER} port 5332" in result.failure.sentence


class IsInterrupted(GoesAway):
    number = signal.SIGINT


@pytest.mark.parametrize("kind", [GoesAway, IsInterrupted])
async def test_client_goes_away(both: Pair, kind: type[GoesAway]) -> None:
    result = await kind(both, plan(both, 5331, time=30), exactly).result()
    assert result.failure is not None and result.failure.kind == "interrupted"
    assert result.failure.sentence.startswith(f"the client on {CLIENT} has gone after ")
    assert " of 30 s: " in result.failure.sentence
    assert result.flows[0].points and nothing_is_left(both)


async def test_port_in_use(both: Pair) -> None:
    """The next one is said."""
    listed = ["ss", "-Hltn", "sport = 5332"]
    with typed(both.server, ["iperf3", "-s", "-p", "5332"]):
        wait_until(lambda: both.server.run(listed), pause=0.05)
        watched = Watched(both, plan(both, 5332), exactly)
        result = await watched.result()
    assert result.failure is None and result.plan.port == 5333, result.failure
    assert "-p 5333" in watched.sentences(COMMAND)[0]


class StoppedAt(Watched):
    """Ctrl-C at a stage."""

    stage = ""

    def on_event(self, running: Run, event: object) -> None:
        is_stage = isinstance(event, Stage) and event.name == self.stage
        if is_stage or (self.stage == "interval" and isinstance(event, IntervalMeasured)):
            running.stop()


@pytest.mark.parametrize(
    "stage", ["checking", "starting", "listening", "command", "client", "running", "interval"]
)
async def test_stop_at_each_stage_leaves_nothing(both: Pair, stage: str) -> None:
    watched = StoppedAt(both, plan(both, 5333, time=30), exactly)
    watched.stage = stage
    result = await watched.result()
    assert result.stopped is not None
    assert nothing_is_left(both)


async def test_endpoint_of_the_server_is_that_in_the_subnet(both: Pair) -> None:
    request = RunRequest(CLIENT, "b", foreign=True, foreign_client=True, time=1)
    experiment = await prepare_experiment(request, both.hosts)
    (step,) = experiment.steps
    assert step.plan.server == both.endpoint("b")
    assert step.plan.client == Endpoint(CLIENT, None, CLIENT)
    assert any("only what is seen from b is known" in note for note in experiment.notes)
