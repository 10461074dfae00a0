"""What is said of an iperf3 server that refuses a test: errors as clients of 3.12 and 3.21 print
them, against a server of 3.21 with each of its limits."""

from __future__ import annotations

import pytest

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficLine
from nictop.traffic.generators import output_parser
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.run.foreign import foreign_failure
from tests.traffic.plans import PLAN, tools

FOREIGN = replace(PLAN, foreign=True, server=Endpoint("192.0.2.50", None, "192.0.2.50"), port=5299)
ERROR = '{"event":"error","data":"%s"}\n{"event":"end","data":{}}'


@pytest.mark.parametrize(
    ("version", "printed", "sentence"),
    [
        (
            "3.12",
            "iperf3: error - total required bandwidth is larger than server limit",
            "limits the rate (--server-bitrate-limit): a lower rate is needed: total required",
        ),
        (
            "3.21",
            ERROR % "SERVER ERROR - total required bandwidth is larger than server limit",
            "limits the rate (--server-bitrate-limit): a lower rate is needed: SERVER ERROR",
        ),
        (
            "3.21",
            ERROR
            % "SERVER ERROR - client's requested duration exceeds the server's maximum permitted "
            "limit",
            "limits the duration (--server-max-duration): fewer seconds are needed: SERVER",
        ),
        (
            "3.12",
            "iperf3: error - int_errno=37: ",
            "has refused the test, for a reason that the client's version of iperf3 does not know: ",
        ),
        (
            "3.12",
            "iperf3: error - control socket has closed unexpectedly",
            "has closed the connection before the test began: it may want a user name and password",
        ),
        (
            "3.21",
            ERROR % "control socket has closed unexpectedly",
            "has closed the connection before the test began: it may want a user name and password",
        ),
        ("3.21", ERROR % "test authorization failed", "wants a user name and password, which"),
        (
            "3.21",
            ERROR % "SERVER ERROR - the server is busy running a test. try again later",
            "serves another client",
        ),
    ],
)
def test_server_that_refuses(version: str, printed: str, sentence: str) -> None:
    client = RunEnd("client", "vm1", "run-c")
    client.output = output_parser(FOREIGN, tools(version), "client")
    client.add_line(TrafficLine(1.0, "run-c", "started", pid=7))
    for line in printed.splitlines():
        client.add_line(TrafficLine(1.2, "run-c", "output", stream="stderr", text=line))
    client.add_line(TrafficLine(1.3, "run-c", "exit", status=1))
    said = foreign_failure(FOREIGN, client).sentence
    assert said.startswith(f"the iperf3 server at 192.0.2.50 port 5299 {sentence}"), said
