"""What real iperf3 of several versions says is read right, and nothing that it says can break the reader."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import TrafficTools
from nictop.traffic.generators.intervals import Detail, GeneratorOutput, Interval, Problem, Total
from nictop.traffic.generators.iperf3 import Iperf3Output, client_arguments, server_arguments
from nictop.traffic.generators.iperf3_json import JsonOutput
from nictop.traffic.generators.iperf3_text import TextOutput
from tests.traffic.plans import PLAN, captured, complaint, tools

HELD_TO = 382.4e6
"""Payload bits per second of the link the captures were made over: 400 Mb/s of Ethernet frames."""


def said(lines: list[str], *, as_json: bool = False, nominal: float = 0.5) -> list[GeneratorOutput]:
    parser = JsonOutput(nominal) if as_json else TextOutput(nominal)
    return [one for line in lines for one in parser.feed(line)] + [*parser.finish()]


def intervals(found: list[GeneratorOutput], *, sends: bool) -> list[Interval]:
    return [one for one in found if isinstance(one, Interval) and one.sends == sends]


def total(found: list[GeneratorOutput], *, sends: bool, by_sender: bool) -> Total:
    (only,) = [one for one in found if isinstance(one, Total) and (one.sends, one.by_sender) == (sends, by_sender)]
    return only


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_text_of_a_sender_and_a_receiver(version: str) -> None:
    client, server = said(captured(version, "tcp.client")), said(captured(version, "tcp.server"))
    sent, arrived = intervals(client, sends=True), intervals(server, sends=False)
    assert [(one.start, one.end) for one in sent] == [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5), (1.5, 2.0)]
    # the server's last interval of some milliseconds is none
    assert [one.start for one in arrived] == [0.0, 0.5, 1.0, 1.5]
    assert all(one.retransmits == 0 and one.congestion_window for one in sent)
    assert all(one.retransmits is None for one in arrived)
    for one in (total(client, sends=True, by_sender=False), total(server, sends=False, by_sender=False)):
        assert one.bits_per_second == pytest.approx(HELD_TO, rel=0.01)
    assert total(client, sends=True, by_sender=True).retransmits == 0
    assert not any(isinstance(one, Problem) for one in client + server)


def test_the_numbers_are_the_ones_on_the_lines() -> None:
    found = intervals(said(captured("3.12", "tcp.client")), sends=True)
    assert found[0] == Interval(0.0, 0.5, 412_366_000.0, True, 1, False, 0, 300 * 1024)


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_streams_are_summed_and_the_sum_lines_left_out(version: str) -> None:
    lines = captured(version, "streams.client")
    found = intervals(said(lines), sends=True)
    assert [one.streams for one in found] == [4] * len(found)
    assert [one.start for one in found if not one.omitted] == [0.0, 0.5, 1.0, 1.5]
    assert any(one.omitted for one in found)
    told = {
        tuple(map(float, line.split()[1].split("-"))): float(line.split("Bytes")[1].split()[0]) * 1e3
        for line in lines
        if line.startswith("[SUM]") and "sec" in line and "omitted" not in line
    }
    for one in found:
        if (one.start, one.end) in told and not one.omitted:
            # each line is rounded to a kbit/s
            assert one.bits_per_second == pytest.approx(told[one.start, one.end], abs=6e3)
    assert len(told) >= 3
    whole = total(said(lines), sends=True, by_sender=False)
    last = next(line for line in lines if line.startswith("[SUM]") and line.endswith("receiver"))
    assert whole.bits_per_second == pytest.approx(float(last.split("Bytes")[1].split()[0]) * 1e3, abs=4e3)


def test_the_first_interval_that_counts_is_put_right() -> None:
    lines = captured("3.21", "streams.client")
    assert any(line.startswith("[SUM]   0.50-0.50   sec  22.2 MBytes  186707 Kbits/sec") for line in lines)
    first = next(one for one in intervals(said(lines), sends=True) if not one.omitted)
    assert (first.start, first.end) == (0.0, 0.5)
    assert first.bits_per_second == pytest.approx(22.2 * 1024**2 * 8 / 0.5, rel=0.01)


def test_an_interval_is_known_when_its_last_stream_has_told_it_not_when_the_sum_comes() -> None:
    parser = TextOutput(0.5)
    complete = [line for line in captured("3.12", "streams.client") if parser.feed(line)]
    assert complete[:2] == [line for line in captured("3.12", "streams.client") if line.startswith("[ 12]  ")][:2]


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_reverse(version: str) -> None:
    client, server = said(captured(version, "reverse.client")), said(captured(version, "reverse.server"))
    assert len(intervals(client, sends=False)) == len(intervals(server, sends=True)) == 4
    assert intervals(client, sends=True) == intervals(server, sends=False) == []
    assert total(client, sends=False, by_sender=False).bits_per_second == pytest.approx(HELD_TO, rel=0.01)
    assert total(client, sends=False, by_sender=True).retransmits == 0


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_both_directions_of_two_streams_each(version: str) -> None:
    for end in ("client", "server"):
        found = said(captured(version, f"bidirectional.{end}"))
        for sends in (True, False):
            own = intervals(found, sends=sends)
            assert [one.start for one in own][:4] == [0.0, 0.5, 1.0, 1.5]
            assert [one.streams for one in own] == [2] * len(own)
        assert total(found, sends=False, by_sender=False).bits_per_second == pytest.approx(HELD_TO, rel=0.02)


@pytest.mark.parametrize("version", ["3.12", "3.21"])
def test_datagrams(version: str) -> None:
    client, server = said(captured(version, "udp.client")), said(captured(version, "udp.server"))
    assert all(one.packets and one.lost is None for one in intervals(client, sends=True))
    arrived = intervals(server, sends=False)
    assert all(one.packets and one.lost == 0 and one.jitter is not None for one in arrived)
    whole = total(server, sends=False, by_sender=False)
    # what came in the last few milliseconds is in no interval
    assert whole.lost == 0 and 0 <= (whole.packets or 0) - sum(one.packets or 0 for one in arrived) < 10
    back = said(captured(version, "udp_reverse.client"))
    assert [one.lost for one in intervals(back, sends=False)] == [0] * 4


@pytest.mark.parametrize("version", ["3.18", "3.21"])
def test_json_has_the_same_in_it(version: str) -> None:
    client = said(captured(version, "stream_tcp.client"), as_json=True)
    server = said(captured(version, "stream_tcp.server"), as_json=True)
    sent, arrived = intervals(client, sends=True), intervals(server, sends=False)
    assert len([one for one in sent if not one.omitted]) == 4 and sent[0].omitted
    assert all(one.rtt and one.congestion_window and one.retransmits == 0 for one in sent)
    # the first interval that counts names one second where it was half of one
    counting = [one for one in arrived if not one.omitted]
    assert all(one.bits_per_second == pytest.approx(HELD_TO, rel=0.02) for one in counting)
    assert [round(one.start, 1) for one in counting] == [0.0, 0.5, 1.0, 1.5]
    assert total(server, sends=False, by_sender=False).bits_per_second == pytest.approx(HELD_TO, rel=0.01)
    assert not [one for one in server if isinstance(one, Total) and one.by_sender]
    assert Detail(f"iperf {version}", 1448, 131072) in client


@pytest.mark.parametrize("version", ["3.18", "3.21"])
def test_json_of_streams_directions_and_datagrams(version: str) -> None:
    streams = intervals(said(captured(version, "stream_streams.client"), as_json=True), sends=False)
    assert [one.streams for one in streams][:4] == [2] * 4
    both = said(captured(version, "stream_bidirectional.client"), as_json=True)
    assert len(intervals(both, sends=True)) == len(intervals(both, sends=False)) == 4
    assert total(both, sends=False, by_sender=False).bits_per_second == pytest.approx(HELD_TO, rel=0.02)
    arrived = intervals(said(captured(version, "stream_udp.server"), as_json=True), sends=False)
    assert all(one.packets and one.lost == 0 for one in arrived)


def test_errors_are_told_in_either_form() -> None:
    refused = "unable to connect to server"
    for version in ("3.12", "3.21"):
        (problem,) = said(complaint(version, "refused.client").splitlines())
        assert isinstance(problem, Problem) and problem.text.startswith(refused)
    (problem,) = said(captured("3.21", "stream_refused.client"), as_json=True)
    assert isinstance(problem, Problem) and problem.text.endswith("Connection refused")
    (problem,) = said(complaint("3.12", "client_killed.server").splitlines())
    assert problem == Problem("the client has unexpectedly closed the connection")


def test_an_interrupted_client_repeats_a_line_that_is_counted_once() -> None:
    lines = captured("3.12", "server_killed.client")
    assert lines[-1] == lines[-2]
    assert [one.start for one in intervals(said(lines), sends=True)] == [0.0, 0.5]


# ---------------------------------------------------------------------------------------------------- garbage


@given(st.lists(st.text() | st.sampled_from(captured("3.12", "bidirectional.server") + captured("3.12", "udp.server"))))
def test_any_text_is_survived(lines: list[str]) -> None:
    for one in said(lines):
        assert isinstance(one, (Interval, Total, Problem))


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("streams", "socket", "end", "bytes")), inner),
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
def test_any_json_is_survived(lines: list[str]) -> None:
    for one in said(lines, as_json=True):
        assert isinstance(one, (Interval, Total, Problem, Detail))


@given(st.data())
def test_any_change_of_a_real_json_line_is_survived(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(captured("3.21", "stream_bidirectional.client")))
    place = data.draw(st.integers(0, len(line)))
    for one in said([line[:place] + data.draw(st.text(max_size=5)) + line[place + 1 :]], as_json=True):
        assert isinstance(one, (Interval, Total, Problem, Detail))


def test_endless_lines_and_numbers_are_survived() -> None:
    assert said(["9" * 10_000_000, "[" * 100_000]) == []
    assert said(['{"event":"interval","data":' + "[" * 100_000, '{"event":' + "9" * 5000 + "}"], as_json=True) == []
    row = '{"event":"interval","data":{"streams":[{"socket":5,"start":0,"end":1,"bytes":%s}]}}'
    assert said([row % "1e400", row % "NaN", row % "-1", row % '"x"'], as_json=True) == []


# ------------------------------------------------------------------------------------------------- command lines


def test_command_lines_of_both_forms() -> None:
    old, new = tools("3.12"), tools("3.21")
    assert server_arguments(PLAN, old) == ("--forceflush", "-f", "k", "-i", "0.5")
    assert server_arguments(replace(PLAN, server_cpu=1), new) == ("--json-stream", "-i", "0.5", "-A", "1")
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
    assert " ".join(client_arguments(plan, old)) == (
        "--forceflush -f k -i 0.5 -t 2 -P 4 --connect-timeout 5000 -B 192.0.2.1 -R -Z -O 1 -b 1000000000 -l 1024 "
        "-M 100 -w 65536 -C cubic -S 184 -A 0"
    )
    both = client_arguments(replace(PLAN, direction="bidirectional"), new)
    assert "--bidir" in both and "-R" not in both


def test_udp_without_a_bitrate_is_not_held_to_the_default_of_1_mbit() -> None:
    words = client_arguments(replace(PLAN, protocol="udp"), tools())
    assert words[words.index("-b") + 1] == "0" and "-u" in words


def test_the_form_of_the_output_is_the_one_that_was_asked_for() -> None:
    for version, name in (("3.12", "tcp.client"), ("3.21", "stream_tcp.client")):
        output = Iperf3Output(PLAN, tools(version))
        found = [one for line in captured(version, name) for one in output.feed(line)] + [*output.finish()]
        assert len([one for one in found if isinstance(one, Interval) and not one.omitted]) == 4
    assert client_arguments(PLAN, TrafficTools())[0] == "--forceflush"
