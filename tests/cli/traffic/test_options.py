"""Arguments of ``nictop traffic``: the request they make, and the progress that is printed during
the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.cli.arguments import parse
from nictop.cli.traffic.options import request_of
from nictop.cli.traffic.progress import ProgressLines
from nictop.errors import NictopError
from nictop.probe.traffic.builtin.latency_buckets import bucket_of
from nictop.traffic.experiment.experiment import (
    ChangeRequired,
    Experiment,
    ExperimentEnded,
    ExperimentEvent,
    ExperimentStep,
    PauseStarted,
    SaveFailed,
    StepEnded,
    StepStarted,
)
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Interval, TransactionInterval
from nictop.traffic.generators.latency import LatencyHistogram
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.record.log import IntervalMeasured, SocketSample
from nictop.traffic.run.events import RunEvent, Stage
from tests.cli.test_run_report import stored
from tests.support.hostile import NAME as HOSTILE
from tests.traffic.plans import PLAN
from tests.traffic.record.test_endpoint import socket
from tests.traffic.runs import result


def parsed(line: str, *, plain: bool = True) -> RunRequest:
    return request_of(parse(["traffic", *line.split()]), plain=plain)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b", RunRequest("a", "b", interval=1.0)),
        (
            "a b --reverse --streams 4 --omit 2",
            RunRequest("a", "b", interval=1.0, direction="reverse", streams=4, omit=2),
        ),
        (
            "192.0.2.5 b --foreign --wait 60",
            RunRequest(
                "192.0.2.5", "b", interval=1.0, foreign=True, foreign_client=True, wait=60
            ),
        ),
        ("a 192.0.2.5 --foreign", RunRequest("a", "192.0.2.5", interval=1.0, foreign=True)),
        ("a b --generator ntttcp", RunRequest("a", "b", interval=1.0, generator="ntttcp")),
        ("a b --bidirectional -6", RunRequest("a", "b", interval=1.0, direction="bidirectional",
            ip_version=6)),
        ("a b --udp --bitrate 2.5G", RunRequest("a", "b", interval=1.0, protocol="udp",
            bitrate=2_500_000_000)),
        (
            "a b --length 128K --mss 1000 --window 1M --dscp ef --congestion bbr --zerocopy",
            RunRequest(
                "a",
                "b",
                interval=1.0,
                length=131072,
                mss=1000,
                window=1048576,
                dscp=46,
                congestion="bbr",
                zerocopy=True,
            ),
        ),
        (
            "a b --client-nic ens4 --server-address 192.0.2.2 --client-cpu 0 --server-cpu 3 "
            "--port 6000",
            RunRequest(
                "a",
                "b",
                "ens4",
                server_address="192.0.2.2",
                interval=1.0,
                client_cpu=0,
                server_cpu=3,
                port=6000,
            ),
        ),
        (
            "a b --repeat 5 --rest 0.5 --sweep queues=2,4 --label x --between true --generator "
            "builtin",
            RunRequest(
                "a",
                "b",
                interval=1.0,
                repeat=5,
                rest=0.5,
                sweep=("queues", ("2", "4")),
                label="x",
                between="true",
                generator="builtin",
            ),
        ),
        ("a b --compare mss=default,100", RunRequest("a", "b", interval=1.0, compare=("mss",
            ("default", "100")))),
        ("--interval 0.2 a b", RunRequest("a", "b", interval=0.2)),
    ],
)  # fmt: skip
def test_arguments_make_a_request(line: str, expected: RunRequest) -> None:
    assert parsed(line) == expected


def test_the_chart_has_two_points_a_second_by_default() -> None:
    assert parsed("a b", plain=False).interval == 0.5
    assert parsed("a b --interval 2", plain=False).interval == 2.0


def test_a_limit_that_one_generator_has_is_no_limit_where_both_may_be_used() -> None:
    assert parsed("a b --length 2M").length == 2 << 20
    with pytest.raises(NictopError, match="block size of iperf3 must be at most 1048576"):
        parsed("a b --length 2M --generator iperf3")
    with pytest.raises(NictopError, match=r"iperf3 \(block size.*\), built-in \(.*direction"):
        parsed("a b --length 2M --bidirectional")
    with pytest.raises(
        NictopError, match=r"^invalid options: zerocopy is an option of TCP, not of UDP$"
    ):
        parsed("a b --udp --zerocopy")
    with pytest.raises(NictopError, match=r"^--compare needs two values of mss, not 1"):
        parsed("a b --compare mss=100")
    with pytest.raises(NictopError, match="sends in one direction"):
        parsed("a b --bidirectional --generator builtin")


# ----------------------------------------------------------------------------------------- progress


def progress_lines(*events: ExperimentEvent, steps: int = 2) -> list[str]:
    """Lines about these events of an experiment with so many steps."""
    progress = ProgressLines(Experiment("x", (ExperimentStep(PLAN, ""),) * steps))
    return [line for event in events for line in progress.lines(event)]


def arrived(start: float, **more: object) -> RunEvent:
    return IntervalMeasured(
        "b",
        start + 1,
        Interval(start, start + 1, 5e9, False, **more),  # type: ignore[arg-type]
        "server",
    )


def test_a_line_per_interval_with_what_the_sender_lost() -> None:
    began = StepStarted(1, 1, ExperimentStep(PLAN, ""), 10.0)
    lost = [
        SocketSample("a", None, (socket(1, 0, retransmits=number, rtt=312),), "client")
        for number in (3, 3, 10, 11)
    ]
    sends = IntervalMeasured("a", 1.0, Interval(0.0, 1.0, 6e9, True), "client")
    foreign = SocketSample("b", None, (socket(9, 0, retransmits=500, rtt=999),), "server")
    later = [event for number in (1, 2, 3) for event in (lost[number], arrived(number))]
    lines = progress_lines(began, lost[0], sends, foreign, arrived(0), *later, steps=1)
    assert lines == [
        "from a 192.0.2.1 to b 192.0.2.2",
        "      1.0 s  5.00 Gb/s  3 retransmits  rtt 312 µs",
        "      2.0 s  5.00 Gb/s  rtt 312 µs",
        "      3.0 s  5.00 Gb/s  7 retransmits  rtt 312 µs",
        "      4.0 s  5.00 Gb/s  1 retransmit  rtt 312 µs",
    ]


def test_datagrams_and_seconds_that_do_not_count() -> None:
    began = StepStarted(1, 1, ExperimentStep(PLAN, ""), 10.0)
    *_, line = progress_lines(began, arrived(0, packets=1000, lost=12, omitted=True))
    assert line == "      1.0 s  5.00 Gb/s  12 of 1000 lost  (omitted)"


def test_the_rest_at_the_end_of_a_run_has_no_rate() -> None:
    """Two transactions in 4.37 ms are not 458 per second of the run."""
    plan = replace(PLAN, test="rr", interval=1.0)
    began = StepStarted(1, 1, ExperimentStep(plan, ""), 10.0)
    found = LatencyHistogram({bucket_of(50_000): 2}, 100_000)
    whole = TransactionInterval(3.0, 4.0, 0.0, False, latency=found)
    rest = replace(whole, start=4.0, end=4.00437)
    events = [IntervalMeasured("a", one.end, one, "client") for one in (whole, rest)]
    *_, first, last = progress_lines(began, *events, steps=1)
    assert "2.00/s" in first
    assert "/s" not in last and "2 in 4.37 ms" in last


def test_steps_of_an_experiment() -> None:
    step = ExperimentStep(PLAN, "B: MSS 100, 2 of 3", change="x")
    failed = stored(result(failure=Failure("stall", "nothing arrived")))
    lines = progress_lines(
        StepStarted(2, 2, step, 95.4),
        Stage("starting", "starting the server"),
        Stage("changing", "waiting until it is so"),
        StepEnded(2, stored(result(5.0))),
        StepEnded(2, failed),
        PauseStarted(2.0),
        ChangeRequired(step, "queues of ens4 on a: 4"),
        SaveFailed(2, "the disk is full"),
        ExperimentEnded((), "nobody makes the change"),
    )
    assert lines == [
        "run 2 of 2: B: MSS 100, 2 of 3, about 1 min 35 s left",
        "  waiting until it is so",
        "  5.00 Gb/s, 53 % of line rate",
        "  failed: nothing arrived",
        "pause 2.00 s",
        "change now: queues of ens4 on a: 4",
        "not saved: the disk is full",
        "ended early: nobody makes the change",
    ]


def test_nothing_hostile_is_said() -> None:
    step = ExperimentStep(PLAN, HOSTILE)
    for line in progress_lines(
        StepStarted(1, 2, step, 1.0),
        Stage("x", HOSTILE),
        ChangeRequired(step, HOSTILE),
        SaveFailed(1, HOSTILE),
        ExperimentEnded((), HOSTILE),
        StepEnded(1, stored(result(failure=Failure("other", HOSTILE)))),
    ):
        assert line.isprintable()
