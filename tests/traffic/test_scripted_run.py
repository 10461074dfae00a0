"""Whatever probes report, in any order, or not: the run ends, reports the cause, and stops what it
started."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict, replace

import pytest

from nictop.hosts.session import running
from nictop.probe.records import (
    Line,
    PathListener,
    PathReplies,
    PathSize,
    PathTest,
    Request,
    TrafficLine,
    TrafficPath,
    TrafficRequest,
    TrafficTools,
)
from nictop.probe.traffic.requests import TrafficCommand
from nictop.traffic.hosts.host import CHECK_END_SECONDS, RunHost
from nictop.traffic.path.stored import stored_path_test
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import PathTested, RunEvent, RunFinished, RunTimeouts
from nictop.wire.slowness import MAX_TIME_FACTOR
from nictop.wire.source import SourceState
from tests.model.hosts import HELLO, counters, inventory
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.emitted import Run
from tests.traffic.plans import PLAN, captured, error_text, tools

SHORT_TIMEOUTS = RunTimeouts(
    check=0.2, path_test=0.2, listen=0.2, first_byte=0.3, stall=0.2, grace=0.3, path=0.2, stop=0.2,
    counters=0.05, ports=3,
)  # fmt: skip
"""Seconds; these tests exceed the time limits."""


class ScriptedProbe(ScriptedSource):
    """Answers traffic requests with scripted lines: the n-th start request with the n-th script.
    `path_answers`: action of a path test → its lines; without one it fails."""

    def __init__(self, name: str, known: TrafficTools | None, *scripts: list[TrafficLine]) -> None:
        super().__init__(name)
        self.known = known
        self.scripts = list(scripts)
        self.traffic: list[TrafficRequest] = []
        """Without those of path tests."""
        self.path_requests: list[TrafficRequest] = []
        self.path_answers: dict[str, list[TrafficLine]] = {}
        self.lost_at_start: SourceState | None = None
        self.send(
            Line(hello=replace(HELLO, boot_id=name)),
            Line(inventory=inventory()),
            Line(counters=counters(1.0)),
        )

    async def request(self, request: Request) -> None:
        await super().request(request)
        traffic = request.traffic
        if traffic is None:
            return
        if traffic.action.startswith("path_") or "-path_" in traffic.id:
            self.path_requests.append(traffic)
            for answer in self.path_answers.get(traffic.action, [line("failed", "no path test")]):
                self.send(Line(traffic=replace(answer, id=traffic.id)))
            return
        if traffic.action == "losses":
            self.send(Line(traffic=TrafficLine(1.0, traffic.id, "losses", losses=())))
            return
        self.traffic.append(traffic)
        if traffic.action == "check" and self.known is not None:
            self.send(Line(traffic=TrafficLine(1.0, traffic.id, "tools", tools=self.known)))
        elif traffic.action == "start" and self.lost_at_start is not None:
            self.send(self.lost_at_start)
        elif traffic.action == "start" and self.scripts:
            for one in self.scripts.pop(0):
                self.send(Line(traffic=replace(one, id=traffic.id)))
        elif traffic.action == "stop":
            self.send(Line(traffic=TrafficLine(99.0, traffic.id, "exit", signal=15)))

    @property
    def stopped(self) -> list[str]:
        return [traffic.id for traffic in self.traffic if traffic.action == "stop"]


def line(kind: str, text: str = "", time: float = 2.0, **more: object) -> TrafficLine:
    return TrafficLine(time, "", kind, text, **more)  # type: ignore[arg-type]


def output_lines(version: str, name: str, stream: str = "stdout") -> list[TrafficLine]:
    texts = (
        captured(version, name) if stream == "stdout" else error_text(version, name).splitlines()
    )
    return [line("output", text, 5.0, stream=stream) for text in texts]


STARTED = line("started", pid=7)
LISTENING = line("listening")
DONE = line("exit", status=0, time=6.0)
SERVER = [STARTED, LISTENING, *output_lines("3.12", "tcp.server"), DONE]
CLIENT = [STARTED, *output_lines("3.12", "tcp.client"), DONE]
PORT_IN_USE = [STARTED, *output_lines("3.12", "in_use.server", "stderr"), line("exit", status=1)]
"""The server cannot bind its port."""


async def complete_run(
    client: ScriptedProbe, server: ScriptedProbe, **more: object
) -> tuple[Result, list[RunEvent]]:
    hosts = {one.name: RunHost(session_of(one)) for one in (client, server)}
    async with running(*(host.session for host in hosts.values())):
        run = Run(replace(PLAN, **more), hosts, limits=SHORT_TIMEOUTS, identity="run")  # type: ignore[arg-type]
        async with aclosing(run.events()) as events:
            found = [event async for event in events]
    assert isinstance(found[-1], RunFinished)
    return found[-1].result, found


def probes(
    client: list[TrafficLine], *server: list[TrafficLine], version: str = "3.12"
) -> tuple[ScriptedProbe, ScriptedProbe]:
    return ScriptedProbe("a", tools(version), client), ScriptedProbe("b", tools(version), *server)


async def test_successful_run() -> None:
    client, server = probes(CLIENT, SERVER)
    result, events = await complete_run(client, server)
    assert result.failure is None and result.goodput == 383_295_000.0
    assert len([event for event in events if isinstance(event, IntervalMeasured)]) == 8
    assert client.stopped == server.stopped == []
    start = server.traffic[1]
    assert (start.role, start.port, start.address, start.sockets) == (
        "server",
        5201,
        "192.0.2.2",
        True,
    )
    # if the connection is lost, the probe ends the generator
    assert PLAN.seconds < start.deadline < PLAN.seconds + 30
    # no counters came after the run
    assert result.proof is not None and result.proof.verdict == "unknown" and result.why_not_ranked


# -------------------------------------------------------------------------- the path test before it

LISTENER = [line("path_listener", path_listener=PathListener(5201))]
ENDED = [
    line("path_listener", path_listener=PathListener(5201, ended=True)),
    line("exit", signal=15),
]


def path_test(largest: int = 1500) -> list[TrafficLine]:
    path = TrafficPath(
        "192.0.2.2", "192.0.2.1", "unicast", 4, None, "reachable", "52:54:00:00:00:01"
    )
    replies = (PathReplies("udp", "", 10, (0.0002,) * 10), PathReplies("tcp", "", 1, (0.0003,)))
    sizes = (PathSize("udp", 1500, largest),)
    test = PathTest("192.0.2.2", "192.0.2.1", 5201, 1500, path=path, replies=replies, sizes=sizes)
    return [line("path_test", path_test=test)]


def answers(largest: int = 1500) -> dict[str, list[TrafficLine]]:
    return {"path_listen": LISTENER, "path_test": path_test(largest), "stop": ENDED}


async def test_path_is_tested_before_the_run() -> None:
    client, server = probes(CLIENT, SERVER)
    client.path_answers, server.path_answers = answers(), answers()
    result, events = await complete_run(client, server)
    assert [one.action for one in client.path_requests] == ["path_listen", "path_test", "stop"]
    # on the server the port of the run is tested
    assert [one.port for one in client.path_requests] == [0, 5201, 0] and server.path_requests[
        0
    ].port == 5201
    assert all(
        one.short and one.cookie and 0 < one.deadline < 120 for one in client.path_requests[:2]
    )
    (tested,) = [event for event in events if isinstance(event, PathTested)]
    assert result.path_test == stored_path_test(tested.report) and tested.report.findings == ()
    assert [one.failure for one in tested.report.result.directions] == ["", ""]
    assert events.index(tested) < next(
        at for at, one in enumerate(events) if isinstance(one, IntervalMeasured)
    )


async def test_run_whose_path_test_shows_a_black_hole_is_not_ranked() -> None:
    client, server = probes(CLIENT, SERVER)
    client.path_answers, server.path_answers = answers(1400), answers()
    result, _ = await complete_run(client, server)
    assert result.failure is None and result.path_test is not None
    (finding,) = result.path_test.findings
    why = (
        "path test: MTU black hole to b: packets above 1400 bytes are lost (MTU of this NIC: 1500)"
    )
    assert finding.rule == "path_mtu_black_hole" and why in result.why_not_ranked


async def test_run_goes_on_without_a_path_test() -> None:
    """The probes cannot test, do not answer, or have answered nothing when the time is over."""
    client, server = probes(CLIENT, SERVER)
    result, events = await complete_run(client, server)
    assert result.failure is None and result.path_test is not None
    assert [one.failure for one in result.path_test.result.directions] == [
        "b: no path test",
        "a: no path test",
    ]
    assert any(isinstance(event, PathTested) for event in events)
    ended = "no answer within 0.2 s, the time limit of nictop, which ended the path test"
    for given, why in (
        ({"path_listen": [], "stop": ENDED}, "no answer"),
        ({"path_listen": LISTENER, "path_test": [], "stop": []}, ended),
    ):
        client, server = probes(CLIENT, SERVER)
        client.path_answers = server.path_answers = given
        result, _ = await complete_run(client, server)
        assert result.failure is None and result.path_test is not None
        assert [one.failure for one in result.path_test.result.directions] == [
            f"a: {why}",
            f"b: {why}",
        ]
        assert {one.action for one in client.path_requests} >= {"path_listen", "stop"}


async def test_path_test_is_stopped_with_the_run() -> None:
    """The options are refused while it runs."""
    client, server = probes(CLIENT, SERVER)
    client.known = server.known = TrafficTools()
    client.path_answers = server.path_answers = {
        "path_listen": LISTENER,
        "path_test": [],
        "stop": ENDED,
    }
    result, _ = await complete_run(client, server)
    assert result.failure is not None and "iperf3 is not installed" in result.failure.sentence
    for probe in (client, server):
        begun = {one.id for one in probe.path_requests if one.action != "stop"}
        assert begun == {one.id for one in probe.path_requests if one.action == "stop"}


async def test_iperf3_with_json_output() -> None:
    client = [STARTED, *output_lines("3.21", "stream_tcp.client"), DONE]
    server = [STARTED, LISTENING, *output_lines("3.21", "stream_tcp.server"), DONE]
    result, _ = await complete_run(*probes(client, server, version="3.21"), omit=1)
    assert result.failure is None and result.goodput == pytest.approx(382.4e6, rel=0.01)
    assert result.facts["client iperf3"] == "iperf3 3.21"


async def test_next_port_is_used_if_one_is_in_use() -> None:
    client, server = probes(CLIENT, PORT_IN_USE, PORT_IN_USE, SERVER)
    result, _ = await complete_run(client, server)
    assert (result.failure, result.plan.port) == (None, 5203)
    assert [traffic.port for traffic in server.traffic if traffic.action == "start"] == [
        5201,
        5202,
        5203,
    ]
    client, server = probes(CLIENT, PORT_IN_USE, PORT_IN_USE, PORT_IN_USE)
    result, _ = await complete_run(client, server)
    assert (
        result.failure is not None
        and result.failure.sentence == "ports 5201 to 5203 are in use on b"
    )
    assert [traffic.action for traffic in client.traffic] == ["check"]


async def test_lower_ports_are_used_if_there_are_no_higher_ones() -> None:
    client, server = probes(CLIENT, PORT_IN_USE, PORT_IN_USE, SERVER)
    result, _ = await complete_run(client, server, port=65534)
    assert (result.failure, result.plan.port) == (None, 65532)
    assert [traffic.port for traffic in server.traffic if traffic.action == "start"] == [
        65534,
        65533,
        65532,
    ]


@pytest.mark.parametrize(
    ("client", "server", "kind", "sentence"),
    [
        (CLIENT, [STARTED], "start", "b port 5201: server not listening after 0.2 s"),
        (CLIENT, [line("failed", "iperf3 vanished")], "other", "b: iperf3 vanished"),
        ([STARTED], [STARTED, LISTENING], "start", "no data received between a and b within"),
        (
            [STARTED, *output_lines("3.12", "refused.client", "stderr"), line("exit", status=1)],
            [STARTED, LISTENING, DONE],
            "busy",
            "iperf3's server on b had ended when a connected; possible: another connection had "
            "come first",
        ),
        (
            [STARTED, *output_lines("3.12", "refused.client", "stderr"), line("exit", status=1)],
            [
                STARTED,
                LISTENING,
                line("output", "iperf3: interrupt - the server has terminated"),
                DONE,
            ],
            "interrupted",
            "interrupted: ",
        ),
        (
            [STARTED, *output_lines("3.12", "refused.client", "stderr"), line("exit", status=1)],
            [STARTED, LISTENING],
            "refused",
            "connections to 192.0.2.2 port 5201 are refused although",
        ),
        (
            CLIENT,
            [
                STARTED,
                line("output", "iperf3: error - Permission denied", stream="stderr"),
                line("exit", status=1),
            ],
            "cannot_bind",
            "cannot bind the address or port",
        ),
        (
            [STARTED, line("exit", signal=9)],
            [STARTED, LISTENING],
            "died",
            "iperf3 on a ended by signal 9 (SIGKILL)",
        ),
        (
            [STARTED, line("exit", status=3)],
            [STARTED, LISTENING],
            "other",
            "a: ended with status 3",
        ),
        (
            [STARTED, *CLIENT[:6]],
            [STARTED, LISTENING, DONE],
            "other",
            "b: the server ended without a result",
        ),
        (
            [STARTED, *output_lines("3.12", "busy.client", "stderr"), line("exit", status=1)],
            [STARTED, LISTENING],
            "busy",
            "server busy at 192.0.2.2 port 5201",
        ),
        (CLIENT[:6], SERVER[:10], "stall", "no more data between a and b"),
        (
            CLIENT[:6],
            SERVER[:8],
            "black_hole",
            "connected, but no data received between a and b within 1 s; possible: MTU",
        ),
        # an interrupted client ends with status 0 from 3.19 on
        (
            [
                *CLIENT[:6],
                line(
                    "output",
                    "iperf3: interrupt - the client has terminated by signal",
                    stream="stderr",
                ),
                DONE,
            ],
            SERVER[:10],
            "interrupted",
            "interrupted",
        ),
        (
            [STARTED, line("output", "what?"), DONE],
            [STARTED, LISTENING, DONE],
            "other",
            "both ends ended without a result",
        ),
    ],
)
async def test_any_failure_ends_the_run_and_both_child_processes(
    client: list[TrafficLine], server: list[TrafficLine], kind: str, sentence: str
) -> None:
    both = probes(client, server)
    result, _ = await complete_run(*both)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.sentence[: len(sentence)]) == (kind, sentence)
    assert result.why_not_ranked[0].startswith("failed: ")
    for probe, script in zip(both, (client, server), strict=True):
        was_started = any(traffic.action == "start" for traffic in probe.traffic)
        ended = any(one.kind in ("exit", "failed") for one in script)
        assert bool(probe.stopped) == (was_started and not ended)


async def test_failure_by_a_black_hole_says_what_the_path_test_has_found() -> None:
    client, server = probes(CLIENT[:6], SERVER[:8])
    client.path_answers, server.path_answers = answers(1400), answers()
    result, _ = await complete_run(client, server)
    assert result.failure is not None and result.failure.kind == "black_hole"
    found = "; path test: MTU black hole to b: packets above 1400 bytes are lost"
    assert found in result.failure.sentence and "possible" not in result.failure.sentence


async def test_probe_without_traffic() -> None:
    client, server = ScriptedProbe("a", tools()), ScriptedProbe("b", None)
    result, _ = await complete_run(client, server)
    assert result.failure is not None and result.failure.sentence.startswith(
        "b: no answer from the probe within"
    )
    assert [traffic.action for traffic in (*client.traffic, *server.traffic)] == ["check", "check"]


async def test_nothing_is_started_for_an_invalid_plan() -> None:
    client, server = ScriptedProbe("a", tools()), ScriptedProbe("b", TrafficTools())
    result, _ = await complete_run(client, server)
    assert result.failure is not None and "b: iperf3 is not installed" in result.failure.sentence
    assert all(traffic.action == "check" for traffic in (*client.traffic, *server.traffic))
    client, server = probes(CLIENT, SERVER)
    result, _ = await complete_run(client, server, streams=0)
    assert result.failure is not None and client.traffic == server.traffic == []


async def test_loss_of_a_host_ends_the_run() -> None:
    client, server = probes([STARTED], [STARTED, LISTENING])
    client.scripts = []
    client.lost_at_start = SourceState("lost", "the connection was closed\x1b[2J", 1.0)
    result, _ = await complete_run(client, server)
    assert result.failure is not None and result.failure.kind == "unreachable"
    assert result.failure.sentence == "a: the connection was closed\\x1b[2J"
    assert server.stopped


async def test_unwatched_host() -> None:
    client, _ = probes(CLIENT, SERVER)
    run = Run(PLAN, {"a": RunHost(session_of(client))}, limits=SHORT_TIMEOUTS)
    *_, last = [event async for event in run.events()]
    assert isinstance(last, RunFinished) and last.result.failure is not None
    assert last.result.failure.sentence == "b is not watched"


async def test_one_clock_ends_the_check_of_the_tools() -> None:
    """That of the step that is shown: a probe that ended its own check earlier would say another
    time. Both follow the slowness of the host."""
    client, server = probes(CLIENT, SERVER)
    client.known = None
    result, _ = await complete_run(client, server)
    assert result.failure is not None
    assert result.failure.sentence == "a: no answer from the probe within 0.2 s"
    (check,) = [one for one in server.traffic if one.action == "check"]
    assert check.deadline == SHORT_TIMEOUTS.check + CHECK_END_SECONDS
    longest = RunTimeouts().for_slow(MAX_TIME_FACTOR).check + CHECK_END_SECONDS
    assert TrafficCommand(asdict(replace(check, deadline=longest))).deadline == longest
