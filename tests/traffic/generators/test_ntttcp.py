"""Output of ntttcp for Linux 1.4.3 → intervals and totals; its command lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.probe.records import TrafficTools
from nictop.probe.traffic.ntttcp import ntttcp_arguments, ntttcp_ports
from nictop.traffic.generators import generator_arguments, typed_commands
from nictop.traffic.generators.intervals import ErrorMessage, Interval, Total
from nictop.traffic.generators.ntttcp import NtttcpOutput
from nictop.traffic.plan.plan import Endpoint, RunPlan

SENDER = (
    (1.0, "NTTTCP for Linux 1.4.3"),
    (1.0, "13:16:41 INFO: 2 connections created in 858 microseconds"),
    (1.6, "Real-time throughput: 15.79Gbps"),
    (2.4, "Real-time throughput: 950.00Mbps"),
    (3.0, "13:16:43 INFO: Test run completed."),
    (3.0, "13:16:43 INFO: test duration\t:2.00 seconds"),
    (3.0, "13:16:43 INFO: total bytes\t:3520593920"),
    (3.0, "13:16:43 INFO: \t throughput\t:14.08Gbps"),
    (3.0, "13:16:43 INFO: \t retrans segs\t:28"),
)
PLAN = RunPlan(
    Endpoint("a", 3, "192.0.2.1"), Endpoint("b", 4, "192.0.2.2"), "ntttcp", streams=2, omit=1
)


def test_intervals_are_those_between_the_lines() -> None:
    output = NtttcpOutput(sends=True, omit=0)
    found = [item for time, line in SENDER for item in output.feed(line, time)]
    first, second = found
    assert isinstance(first, Interval) and isinstance(second, Interval)
    assert (first.start, first.end) == pytest.approx((0.0, 0.6))
    assert (second.start, second.end) == pytest.approx((0.6, 1.4))
    assert (first.bits_per_second, second.bits_per_second) == (15.79e9, 950e6)
    assert first.sends and second.sends
    total = Total(True, True, 2.0, 8 * 3520593920 / 2, 3520593920.0)
    assert output.finish() == (total,)


def test_receiver_says_no_begin() -> None:
    output = NtttcpOutput(sends=False, omit=0)
    output.feed("13:16:41 INFO: 2 threads created", 1.0)
    assert output.feed("Real-time throughput: 0.00bps", 9.0) == (Interval(0.0, 0.5, 0.0, False),)


def test_warm_up_is_omitted() -> None:
    output = NtttcpOutput(sends=False, omit=1)
    (first,) = output.feed("Real-time throughput: 1.00Gbps", 5.0)
    output.feed("13:16:43 INFO: Test warmup completed.", 5.2)
    (second,) = output.feed("Real-time throughput: 1.00Gbps", 5.7)
    assert isinstance(first, Interval) and first.omitted
    assert isinstance(second, Interval) and not second.omitted
    assert (second.start, second.end) == pytest.approx((0.0, 0.5))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "13:02:10 ERR : failed to connect to receiver: 127.0.0.1:5798 on socket: 3. errno = 111",
            "Connection refused",
        ),
        (
            "13:19:49 INFO: failed to connect to receiver: 127.0.0.1:5799 on socket[3]. "
            "return = -1, errno = 111",
            "Connection refused",
        ),
    ],
)
def test_errors(line: str, text: str) -> None:
    (message,) = NtttcpOutput(sends=True, omit=0).feed(line, 1.0)
    assert isinstance(message, ErrorMessage) and text in message.text


@pytest.mark.parametrize("line", ["", "Real-time throughput: fastbps", "x" * 10_000, "{}"])
def test_other_lines(line: str) -> None:
    output = NtttcpOutput(sends=True, omit=0)
    assert output.feed(line, 1.0) == () and output.finish() == ()


def test_arguments_of_both_ends_are_allowed_by_the_probe() -> None:
    for side, role in (("client", "-s"), ("server", "-r")):
        arguments = list(generator_arguments(PLAN, side, TrafficTools()))  # type: ignore[arg-type]
        whole = ntttcp_arguments(side, 5201, "192.0.2.2", arguments)
        assert whole[:5] == [role, "192.0.2.2", "-p", "5201", "-N"]
        assert ntttcp_ports(arguments) == 2


@pytest.mark.parametrize("words", [["-O", "/tmp/x"], ["-D"], ["-P"], ["-P", "1;x"], ["-t", "²"]])
def test_other_arguments_are_not(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"not allowed|invalid value"):
        ntttcp_arguments("client", 5201, "192.0.2.2", words)


def test_typed_commands() -> None:
    client = replace(PLAN, foreign=True, foreign_client=True)
    assert typed_commands(client) == (
        "ntttcp -s 192.0.2.2 -p 5201 -N -P 2 -t 10 -W 1 -n 1",
        "on Windows: ntttcp.exe -s -m 2,*,192.0.2.2 -p 5201 -ns -t 10 -wu 1",
    )
    server = replace(PLAN, foreign=True, omit=0)
    assert typed_commands(server)[1] == (
        "on Windows: ntttcp.exe -r -m 2,*,192.0.2.2 -p 5201 -ns -t 10"
    )
