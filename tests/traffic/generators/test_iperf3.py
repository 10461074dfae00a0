"""Captured output of several iperf3 versions is parsed; no input breaks the parsers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import TrafficTools
from nictop.traffic.generators.intervals import (
    ErrorMessage,
    GeneratorInfo,
    GeneratorOutput,
    Interval,
    Total,
)
from nictop.traffic.generators.iperf3 import (
    iperf3_client_arguments,
    iperf3_output,
    iperf3_server_arguments,
)
from nictop.traffic.generators.iperf3_json import JsonOutput
from nictop.traffic.generators.iperf3_text import TextOutput
from tests.traffic.plans import PLAN, captured, error_text, tools

LINK_BITS_PER_SECOND = 382.4e6
"""Payload rate of the link that the captures were made over: 400 Mb/s of Ethernet frames."""


def parsed(
    lines: list[str], *, as_json: bool = False, nominal: float = 0.5
) -> list[GeneratorOutput]:
    parser = JsonOutput(nominal) if as_json else TextOutput(nominal)
    return [one for line in lines for one in parser.feed(line)] + [*parser.finish()]


def intervals(outputs: list[GeneratorOutput], *, sends: bool) -> list[Interval]:
    return [one for one in outputs if isinstance(one, Interval) and one.sends == sends]


def total(outputs: list[GeneratorOutput], *, sends: bool, by_sender: bool) -> Total:
    (only,) = [
        one
        for one in outputs
        if isinstance(one, Total) and (one.sends, one.by_sender) == (sends, by_sender)
    ]
    return only


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_text_of_sender_and_receiver(version: str) -> None:
    client, server = (
        parsed(captured(version, "tcp.client")),
        parsed(captured(version, "tcp.server")),
    )
    sent, arrived = intervals(client, sends=True), intervals(server, sends=False)
    assert [(one.start, one.end) for one in sent] == [
        (0.0, 0.5),
        (0.5, 1.0),
        (1.0, 1.5),
        (1.5, 2.0),
    ]
    # the last interval of the server, a few milliseconds, is ignored
    assert [one.start for one in arrived] == [0.0, 0.5, 1.0, 1.5]
    assert all(one.retransmits == 0 and one.congestion_window for one in sent)
    assert all(one.retransmits is None for one in arrived)
    for one in (
        total(client, sends=True, by_sender=False),
        total(server, sends=False, by_sender=False),
    ):
        assert one.bits_per_second == pytest.approx(LINK_BITS_PER_SECOND, rel=0.01)
    assert total(client, sends=True, by_sender=True).retransmits == 0
    assert not any(isinstance(one, ErrorMessage) for one in client + server)


def test_numbers_of_a_text_line() -> None:
    outputs = intervals(parsed(captured("3.12", "tcp.client")), sends=True)
    assert outputs[0] == Interval(0.0, 0.5, 412_366_000.0, True, 1, False, 0, 300 * 1024)


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_streams_are_summed_and_sum_lines_ignored(version: str) -> None:
    lines = captured(version, "streams.client")
    outputs = intervals(parsed(lines), sends=True)
    assert [one.streams for one in outputs] == [4] * len(outputs)
    assert [one.start for one in outputs if not one.omitted] == [0.0, 0.5, 1.0, 1.5]
    assert any(one.omitted for one in outputs)
    sums = {
        tuple(map(float, line.split()[1].split("-"))): float(line.split("Bytes")[1].split()[0])
        * 1e3
        for line in lines
        if line.startswith("[SUM]") and "sec" in line and "omitted" not in line
    }
    for one in outputs:
        if (one.start, one.end) in sums and not one.omitted:
            # each line is rounded to a kbit/s
            assert one.bits_per_second == pytest.approx(sums[one.start, one.end], abs=6e3)
    assert len(sums) >= 3
    whole = total(parsed(lines), sends=True, by_sender=False)
    last = next(line for line in lines if line.startswith("[SUM]") and line.endswith("receiver"))
    assert whole.bits_per_second == pytest.approx(
        float(last.split("Bytes")[1].split()[0]) * 1e3, abs=4e3
    )


def test_first_interval_after_the_omitted_ones_is_corrected() -> None:
    lines = captured("3.21", "streams.client")
    assert any(
        line.startswith("[SUM]   0.50-0.50   sec  22.2 MBytes  186707 Kbits/sec") for line in lines
    )
    first = next(one for one in intervals(parsed(lines), sends=True) if not one.omitted)
    assert (first.start, first.end) == (0.0, 0.5)
    assert first.bits_per_second == pytest.approx(22.2 * 1024**2 * 8 / 0.5, rel=0.01)


def test_interval_is_complete_with_the_line_of_its_last_stream() -> None:
    parser = TextOutput(0.5)
    complete = [line for line in captured("3.12", "streams.client") if parser.feed(line)]
    assert (
        complete[:2]
        == [line for line in captured("3.12", "streams.client") if line.startswith("[ 12]  ")][:2]
    )


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_reverse_run(version: str) -> None:
    client, server = (
        parsed(captured(version, "reverse.client")),
        parsed(captured(version, "reverse.server")),
    )
    assert len(intervals(client, sends=False)) == len(intervals(server, sends=True)) == 4
    assert intervals(client, sends=True) == intervals(server, sends=False) == []
    assert total(client, sends=False, by_sender=False).bits_per_second == pytest.approx(
        LINK_BITS_PER_SECOND, rel=0.01
    )
    assert total(client, sends=False, by_sender=True).retransmits == 0


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_bidirectional_run_of_two_streams(version: str) -> None:
    for end in ("client", "server"):
        outputs = parsed(captured(version, f"bidirectional.{end}"))
        for sends in (True, False):
            own = intervals(outputs, sends=sends)
            assert [one.start for one in own][:4] == [0.0, 0.5, 1.0, 1.5]
            assert [one.streams for one in own] == [2] * len(own)
        assert total(outputs, sends=False, by_sender=False).bits_per_second == pytest.approx(
            LINK_BITS_PER_SECOND, rel=0.02
        )


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_udp_run(version: str) -> None:
    client, server = (
        parsed(captured(version, "udp.client")),
        parsed(captured(version, "udp.server")),
    )
    assert all(one.packets and one.lost is None for one in intervals(client, sends=True))
    arrived = intervals(server, sends=False)
    assert all(one.packets and one.lost == 0 and one.jitter is not None for one in arrived)
    whole = total(server, sends=False, by_sender=False)
    # datagrams of the last few milliseconds are in no interval
    assert (
        whole.lost == 0
        and 0 <= (whole.packets or 0) - sum(one.packets or 0 for one in arrived) < 10
    )
    back = parsed(captured(version, "udp_reverse.client"))
    assert [one.lost for one in intervals(back, sends=False)] == [0] * 4


@pytest.mark.parametrize("version", ["3.18", "3.21"])
def test_json_intervals_and_totals(version: str) -> None:
    client = parsed(captured(version, "stream_tcp.client"), as_json=True)
    server = parsed(captured(version, "stream_tcp.server"), as_json=True)
    sent, arrived = intervals(client, sends=True), intervals(server, sends=False)
    assert len([one for one in sent if not one.omitted]) == 4 and sent[0].omitted
    assert all(one.rtt and one.congestion_window and one.retransmits == 0 for one in sent)
    # the first interval after the omitted ones reports one second instead of a half
    counting = [one for one in arrived if not one.omitted]
    assert all(
        one.bits_per_second == pytest.approx(LINK_BITS_PER_SECOND, rel=0.02) for one in counting
    )
    assert [round(one.start, 1) for one in counting] == [0.0, 0.5, 1.0, 1.5]
    assert total(server, sends=False, by_sender=False).bits_per_second == pytest.approx(
        LINK_BITS_PER_SECOND, rel=0.01
    )
    assert not [one for one in server if isinstance(one, Total) and one.by_sender]
    assert GeneratorInfo(f"iperf {version}", 1448, 131072) in client


@pytest.mark.parametrize("version", ["3.18", "3.21"])
def test_json_of_streams_both_directions_and_udp(version: str) -> None:
    streams = intervals(
        parsed(captured(version, "stream_streams.client"), as_json=True), sends=False
    )
    assert [one.streams for one in streams][:4] == [2] * 4
    both = parsed(captured(version, "stream_bidirectional.client"), as_json=True)
    assert len(intervals(both, sends=True)) == len(intervals(both, sends=False)) == 4
    assert total(both, sends=False, by_sender=False).bits_per_second == pytest.approx(
        LINK_BITS_PER_SECOND, rel=0.02
    )
    arrived = intervals(parsed(captured(version, "stream_udp.server"), as_json=True), sends=False)
    assert all(one.packets and one.lost == 0 for one in arrived)


@pytest.mark.parametrize("version", ["3.18", "3.21", "3.21+"])
def test_json_of_a_udp_client_has_what_its_server_received(version: str) -> None:
    """All that is known of a server that nictop did not start: of 3.21+ it is one of 3.12."""
    client = parsed(captured(version, "stream_udp.client"), as_json=True)
    sent = total(client, sends=True, by_sender=True)
    received = total(client, sends=True, by_sender=False)
    assert received.packets == sent.packets and received.lost == 0 and received.jitter is not None
    assert len([one for one in client if isinstance(one, Total)]) == 2
    (remote,) = [
        one.remote_cpu for one in client if isinstance(one, GeneratorInfo) and one.remote_cpu
    ]
    assert 0 < remote < 1


def test_json_of_udp_in_the_other_direction_and_in_both() -> None:
    back = parsed(captured("3.21+", "stream_udp_reverse.client"), as_json=True)
    assert [(one.sends, one.by_sender) for one in back if isinstance(one, Total)] == [
        (False, True),
        (False, False),
    ]
    both = parsed(captured("3.21+", "stream_udp_bidirectional.client"), as_json=True)
    for outputs, sends in ((back, False), (both, False), (both, True)):
        received = total(outputs, sends=sends, by_sender=False)
        assert (received.packets, received.lost, received.bytes) == (20, 0, 655360)
        sent = total(outputs, sends=sends, by_sender=True)
        # an old server does not tell how many packets it has sent, and its zero is none
        assert (sent.packets, sent.lost, sent.jitter) == (20 if sends else None, None, None)


def test_errors_in_text_and_json() -> None:
    refused = "unable to connect to server"
    for version in ("3.12", "3.21"):
        (problem,) = parsed(error_text(version, "refused.client").splitlines())
        assert isinstance(problem, ErrorMessage) and problem.text.startswith(refused)
    (problem,) = parsed(captured("3.21", "stream_refused.client"), as_json=True)
    assert isinstance(problem, ErrorMessage) and problem.text.endswith("Connection refused")
    (problem,) = parsed(error_text("3.12", "client_killed.server").splitlines())
    assert problem == ErrorMessage("the client has unexpectedly closed the connection")


def test_repeated_line_of_an_interrupted_client_is_ignored() -> None:
    lines = captured("3.12", "server_killed.client")
    assert lines[-1] == lines[-2]
    assert [one.start for one in intervals(parsed(lines), sends=True)] == [0.0, 0.5]


# ------------------------------------------------------------------------------------ invalid input


@given(
    st.lists(
        st.text()
        | st.sampled_from(captured("3.12", "bidirectional.server") + captured("3.12", "udp.server"))
    )
)
def test_any_text_is_parsed(lines: list[str]) -> None:
    for one in parsed(lines):
        assert isinstance(one, (Interval, Total, ErrorMessage, GeneratorInfo))


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(("streams", "socket", "end", "bytes")), inner)
    ),
)


@given(
    st.lists(
        st.builds(
            lambda event, data: json.dumps({"event": event, "data": data}),
            st.sampled_from(("start", "interval", "end", "error", "else")),
            DOCUMENTS,
        )
        | st.text().map(lambda text: "{" + text)
    )
)
def test_any_json_is_parsed(lines: list[str]) -> None:
    for one in parsed(lines, as_json=True):
        assert isinstance(one, (Interval, Total, ErrorMessage, GeneratorInfo))


@given(st.data())
def test_any_mutation_of_a_captured_json_line_is_parsed(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(captured("3.21", "stream_bidirectional.client")))
    position = data.draw(st.integers(0, len(line)))
    for one in parsed(
        [line[:position] + data.draw(st.text(max_size=5)) + line[position + 1 :]], as_json=True
    ):
        assert isinstance(one, (Interval, Total, ErrorMessage, GeneratorInfo))


def test_huge_lines_and_numbers_are_ignored() -> None:
    assert parsed(["9" * 10_000_000, "[" * 100_000]) == []
    assert (
        parsed(
            ['{"event":"interval","data":' + "[" * 100_000, '{"event":' + "9" * 5000 + "}"],
            as_json=True,
        )
        == []
    )
    row = '{"event":"interval","data":{"streams":[{"socket":5,"start":0,"end":1,"bytes":%s}]}}'
    assert parsed([row % "1e400", row % "NaN", row % "-1", row % '"x"'], as_json=True) == []


# ------------------------------------------------------------------------------------ command lines


def test_command_lines_of_both_formats() -> None:
    text_tools, json_tools = tools("3.12"), tools("3.21")
    assert iperf3_server_arguments(PLAN, text_tools) == ("--forceflush", "-f", "k", "-i", "0.5")
    assert iperf3_server_arguments(replace(PLAN, server_cpu=1), json_tools) == (
        "--json-stream",
        "-i",
        "0.5",
        "-A",
        "1",
    )
    plan = replace(
        PLAN,
        direction="reverse",
        streams=4,
        omit=1,
        length=1024,
        mss=100,
        window=65536,
        congestion="cubic",
        dscp=46,
        client_cpu=0,
        zerocopy=True,
        bitrate=10**9,
    )
    assert " ".join(iperf3_client_arguments(plan, text_tools)) == (
        "--forceflush -f k -i 0.5 --connect-timeout 5000 -B 192.0.2.1 -t 2 -P 4 -R -Z -O 1 -b "
        "1000000000 -l 1024 "
        "-M 100 -w 65536 -C cubic -S 184 -A 0"
    )
    both = iperf3_client_arguments(replace(PLAN, direction="bidirectional"), json_tools)
    assert "--bidir" in both and "-R" not in both


def test_udp_without_a_bitrate_is_not_limited_to_the_default_of_1_mbit() -> None:
    arguments = iperf3_client_arguments(replace(PLAN, protocol="udp"), tools())
    assert arguments[arguments.index("-b") + 1] == "0" and "-u" in arguments


def test_parser_matches_the_requested_format() -> None:
    for version, name in (("3.12", "tcp.client"), ("3.21", "stream_tcp.client")):
        output = iperf3_output(PLAN, tools(version))
        outputs = [one for line in captured(version, name) for one in output.feed(line)] + [
            *output.finish()
        ]
        assert len([one for one in outputs if isinstance(one, Interval) and not one.omitted]) == 4
    assert iperf3_client_arguments(PLAN, TrafficTools())[0] == "--forceflush"


def test_a_server_limits_the_rate_of_a_foreign_client() -> None:
    """Only where the plan has a rate, and far above it."""

    def limit(**options: Any) -> str | None:
        words = iperf3_server_arguments(replace(PLAN, **options), tools())
        return dict(pairwise(words)).get("--server-bitrate-limit")

    assert limit() is None and limit(bitrate=10**13, streams=128) is None
    assert limit(bitrate=10**6, streams=3) == "12000000"
    assert limit(bitrate=10**6, direction="bidirectional") == "8000000"
    without = replace(tools(), options=("--forceflush",))
    assert "--server-bitrate-limit" not in iperf3_server_arguments(
        replace(PLAN, bitrate=10**6), without
    )


def test_the_client_that_a_server_has_accepted() -> None:
    """As text and as JSON; every captured server names one."""
    for version, name in (("3.12", "streams.server"), ("3.12", "udp.server")):
        peers = [
            one.peer for one in parsed(captured(version, name)) if isinstance(one, GeneratorInfo)
        ]
        assert peers and all(peers), (version, name)
    start = {
        "event": "start",
        "data": {"accepted_connection": {"host": "192.0.2.7", "port": 5}, "version": "iperf 3.18"},
    }
    (found,) = JsonOutput(0.5).feed(json.dumps(start))
    assert isinstance(found, GeneratorInfo) and found.peer == "192.0.2.7"
    start["data"]["accepted_connection"] = {"host": ["x"]}  # type: ignore[index]
    (found,) = JsonOutput(0.5).feed(json.dumps(start))
    assert isinstance(found, GeneratorInfo) and found.peer == ""
