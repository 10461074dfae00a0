"""Runs, experiments and stored results as text, Markdown and JSON: the order of the parts, and that
text of hosts and files cannot control a terminal."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.ceiling import Ceiling
from nictop.model.devices.netdevs import End
from nictop.model.facts import width
from nictop.model.text.glyphs import ASCII, UNICODE
from nictop.model.text.units import wall_time_text
from nictop.probe.records import PathReplies
from nictop.report.path import path_text
from nictop.report.runs.comparison import comparison_text, figure_rows
from nictop.report.runs.json import (
    KeptDocument,
    TrafficDocument,
    compare_json,
    compare_schema,
    stored_runs_json,
    stored_runs_schema,
    traffic_json,
    traffic_schema,
)
from nictop.report.runs.markdown import comparison_markdown, experiment_markdown
from nictop.report.runs.points import column_titles, point_cells, set_up_points
from nictop.report.runs.sentences import result_sentences
from nictop.report.runs.text import experiment_text, run_text, stored_runs_text
from nictop.traffic.analysis.comparison import Comparison, Ratio, compare, spread
from nictop.traffic.experiment.steps import Experiment
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.plan.plan import Direction, Endpoint
from nictop.traffic.results.host_load import Machine
from nictop.traffic.results.path_proof import Carried, HostProof, PathProof
from nictop.traffic.results.result import IntervalPoint, Result, SocketFigures
from nictop.traffic.results.selection import StoredRun, StoredRuns
from tests.cli.commands.test_report import check as matches_schema
from tests.support.hostile import NAME as HOSTILE
from tests.test_borders import loaded_by
from tests.traffic.analysis.test_transactions import floor, rr
from tests.traffic.plans import PLAN
from tests.traffic.runs import BLACK_HOLE, FACTS, flow, load, path_test, result

ASKED = Experiment(
    "experiment", (), "sweep", "length", label="first", notes=("built-in generator used",)
)
VLAN_FAILED = PathProof("failed", "b: ens5 carried only 0 B; ens4 (other) carried 5.82 GiB")


def stored(made: Result, number: int = 1, **more: object) -> StoredRun:
    run = StoredRun(
        f"run{number}", "experiment", made, 1_790_000_000.0 + number, "0.1", number=number
    )
    return replace(run, **more)  # type: ignore[arg-type]


def sweep() -> list[StoredRun]:
    """Three runs each of two message sizes; one of the second failed."""
    found = []
    for number in range(6):
        made = result(2.0 + number)
        if number == 5:
            made = result(failure=Failure("stall", "no more data"), flows=())
        value = "4K" if number < 3 else "1M"
        found.append(
            stored(made, number + 1, kind="sweep", group=value, variable="length", value=value)
        )
    return found


def hostile() -> Result:
    seen = Carried(End(HOSTILE, 3), HOSTILE, "other", 1.0, 2.0)
    proof = PathProof("failed", HOSTILE, (HostProof(HOSTILE, "failed", None, HOSTILE),), (seen,))
    return result(
        plan=replace(
            PLAN,
            client=Endpoint(HOSTILE, 4, HOSTILE),
            server=Endpoint(HOSTILE, 5, HOSTILE),
            congestion=HOSTILE,
        ),
        flows=(flow(5.0, sender=HOSTILE, receiver=HOSTILE, sent=Total(True, True, 10.0, 5e9)),),
        hosts=(load(HOSTILE), load(HOSTILE, "server", steal=2.0)),
        sockets=(SocketFigures(HOSTILE, 31, 1448, 10, 0.1, 0.1, HOSTILE),),
        ceiling=Ceiling(9e9, 8e5, HOSTILE),
        proof=proof,
        failure=Failure("timeout", HOSTILE, (HOSTILE, "```"), HOSTILE),
        bottleneck=HOSTILE,
        facts={"client nic": HOSTILE, "server nic": HOSTILE, HOSTILE: HOSTILE},
        notes=(HOSTILE,),
        path_test=path_test(
            replace(BLACK_HOLE, host=HOSTILE, subject=HOSTILE, title=HOSTILE, why=HOSTILE)
        ),
    )


def hostile_comparison() -> list[StoredRun]:
    words = {"value": HOSTILE, "variable": "setup", "label": HOSTILE}
    return [
        stored(hostile(), number, kind="compare", group="AB"[number % 2], **words)
        for number in range(4)
    ]


# ------------------------------------------------------------------------------------ the sentences


def test_singular_and_plural() -> None:
    lost = Total(False, False, 10.0, 1e9, packets=1, lost=1)
    figures = SocketFigures("a", None, None, 1, 0.0, 0.0)
    made = result(flows=(flow(1.0, received=lost, retransmits=1),), sockets=(figures,))
    made = replace(
        made, flows=(replace(made.flows[0], sent=Total(True, True, 10.0, 1e9, retransmits=1)),)
    )
    sentences = {one.kind: one.text for one in result_sentences(made)}
    assert "1 of 1 datagram lost" in sentences["goodput"]
    assert sentences["sender"].startswith(
        "1.00 Gb/s taken by the socket of a, 1 retransmit (0.80 per GB), cwnd 1 segment"
    )
    assert stored_runs_text(
        StoredRuns(left_out=1, results=((Path("/r/1.json"), stored(made)),)), 120
    ).endswith("not listed: 1 older result\n")


def test_seconds_of_both_ends_are_named_if_they_differ() -> None:
    ends = flow(1.0, sent=Total(True, True, 11.0, 0.95e9), received=Total(False, False, 10.0, 1e9))
    (text,) = [one.text for one in result_sentences(result(flows=(ends,))) if one.kind == "sender"]
    assert text == "950 Mb/s taken by the socket of a in 11.0 s (received in 10.0 s), 0 retransmits"


def test_sentences_of_a_run_that_may_be_ranked() -> None:
    sent = Total(True, True, 10.0, 5.01e9, retransmits=12)
    figures = SocketFigures("a", 312, 1448, 130, 0.0, 0.0, "cubic")
    made = result(
        flows=(flow(5.0, sent=sent, retransmits=12),),
        sockets=(figures,),
        bottleneck="the sender's core",
    )
    sentences = {one.kind: one.text for one in result_sentences(made)}
    assert sentences == {
        "goodput": "5.00 Gb/s received by b, 53 % of line rate",
        "ceiling": "9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps",
        "sender": "5.01 Gb/s taken by the socket of a, 12 retransmits (1.92 per GB), rtt 312 µs, cwnd 130 "
        "segments, MSS 1448, cubic",
        "held back": "the sender's core",
        "path": "verified over IPv4: a: ens4 carried it; b: ens5 carried it",
        "client": "a: 0.60 of 4 cores busy on average, 0.10 core per Gb/s (user 0.10, system "
        "0.30, softirq 0.20); "
        "hottest CPU 2: average 50 %, softirq 20 %",
        "server": "b: 0.60 of 4 cores busy on average, 0.10 core per Gb/s (user 0.10, system "
        "0.30, softirq 0.20); "
        "hottest CPU 2: average 50 %, softirq 20 %",
    }


def test_sentences_of_a_failed_run_begin_with_failure_and_commands() -> None:
    failed = Failure("timeout", "nothing answered at 192.0.2.2 port 5201", ("ufw allow 5201",), "b")
    sentences = result_sentences(
        result(failure=failed, flows=(), hosts=(load("a", busy=None),), proof=None)
    )
    assert [one.kind for one in sentences] == ["failed", "failed", "type"]
    assert (
        sentences[1].text.startswith("run this command on b")
        and sentences[2].text == "ufw allow 5201"
    )


@pytest.mark.parametrize(
    ("commands", "opens", "sentence"),
    [
        (("ip neighbour show to 192.0.2.1",), False, "more about it on b: this command"),
        (("nft list ruleset",), False, "more about it on b: this command"),
        (("sysctl -w net/ipv4/conf/ens4/rp_filter=2",), False, "run this command on b"),
        (("ip link set a up", "ip link set b up"), False, "run these commands on b"),
        (
            ("firewall-cmd --add-port=1/tcp --timeout=9", "(ufw allow 1) &"),
            True,
            "run the commands of its firewall on b; they also close the port again",
        ),
        (
            ("firewall-cmd --add-port=1/tcp", "firewall-cmd --add-port=1/udp"),
            True,
            "run these commands on b; they also close the port again",
        ),
        (("(ufw allow 1) &",), True, "run this command on b; it also closes the port again"),
    ],
)
def test_commands_of_a_failure_are_introduced_as_what_they_are(
    commands: tuple[str, ...], opens: bool, sentence: str
) -> None:
    """Not as something to be run if they only show more, and not as alternatives if all of them
    are needed."""
    failed = Failure("filtered", "it is blocked", commands, "b", opens)
    sentences = result_sentences(result(failure=failed, flows=(), hosts=(), proof=None))
    assert [one.text for one in sentences] == ["it is blocked", sentence, *commands]


def test_an_unproven_path_is_listed_once_and_is_the_reason() -> None:
    sentences = [
        one
        for one in result_sentences(result(proof=VLAN_FAILED))
        if one.kind in ("path", "not ranked")
    ]
    assert [one.text for one in sentences] == [
        f"not verified: {VLAN_FAILED.sentence}",
        "path not verified",
    ]


def test_both_directions_and_datagrams() -> None:
    lossy = Total(False, False, 10.0, 1e9, packets=1000, lost=10, jitter=0.05)
    sentences = [
        one.text
        for one in result_sentences(
            result(flows=(flow(5.0), flow(1.0, received=lossy, receiver="a")))
        )
    ]
    assert sentences[:3] == [
        "5.00 Gb/s received by b, 53 % of line rate",
        "1.00 Gb/s received by a, 11 % of line rate; 10 of 1000 datagrams lost (1.0 %), jitter 50.0 µs",
        "6.00 Gb/s total of both directions",
    ]


def test_both_directions_of_different_seconds() -> None:
    """A test that broke off: the total is one of the same seconds, and each mean names its own."""
    plan = replace(PLAN, direction="bidirectional", time=10)
    there = Total(False, False, 18.0, 9e6)
    back = Total(False, False, 10.0, 6e6)
    flows = (
        flow(0, received=there, points=seconds_of(18, 10e6, until=16)),
        flow(0, received=back, sender="b", receiver="a", points=seconds_of(10, 6e6)),
    )
    failed = Failure("stall", "no more data between a and b")
    texts = [one.text for one in result_sentences(result(plan=plan, flows=flows, failure=failed))]
    assert texts[1:4] == [
        "▲ failed: 9.00 Mb/s received by b, mean of 18.0 s (planned: 10 s), nothing after 16.0 s, "
        "0.1 % of line rate",
        "▲ failed: 6.00 Mb/s received by a, mean of 10.0 s, 0.1 % of line rate",
        "▲ failed: 16.0 Mb/s total of both directions, mean of the first 10.0 s",
    ]
    stored = tuple(replace(one, points=()) for one in flows)
    unknown = result(plan=plan, flows=stored, failure=failed)
    assert unknown.goodput is None, "not known without the intervals"


def test_directions_of_a_stopped_test_name_their_seconds() -> None:
    """Its ends have reported until then as far as they could: 16.1 + 21.9 was told with 40.1."""
    plan = replace(PLAN, direction="bidirectional", time=20)
    there, back = Total(False, False, 11.11, 9e6), Total(False, False, 10.08, 6e6)
    flows = (
        flow(0, received=there, points=seconds_of(11, 9e6)),
        flow(0, received=back, sender="b", receiver="a", points=seconds_of(10, 6e6)),
    )
    made = result(plan=plan, flows=flows, stopped=11.2)
    texts = [one.text for one in result_sentences(made) if one.kind == "goodput"]
    assert texts[0].startswith("▲ stopped early: 9.00 Mb/s received by b, mean of 11.1 s")
    assert texts[1].startswith(
        "▲ stopped early: 6.00 Mb/s received by a, mean of 10.1 s (planned: 20 s), "
    )
    assert texts[2].endswith("total of both directions, mean of the first 10.1 s")
    equal = replace(made, flows=(flows[0], replace(flows[1], received=replace(back, seconds=11.1))))
    means = [one.text for one in result_sentences(equal) if one.kind == "goodput"]
    assert all("mean of 11.1 s (planned: 20 s)" in text for text in means[:2])


def test_seconds_that_are_not_as_planned_are_named_without_a_failure() -> None:
    """A link was lost for 15 s, and the generators waited for it."""
    late = Total(False, False, 24.3, 4.7e6)
    lost = "b ens5 lost its carrier at second 1, back at second 16"
    made = result(flows=(flow(0, received=late),), event=lost, incident="link_lost")
    texts = [one.text for one in result_sentences(made)]
    assert texts[:1] == [lost]
    assert texts[1].startswith(
        "▲ lost its link: 4.70 Mb/s received by b, mean of 24.3 s (planned: 2 s)"
    )


def seconds_of(count: int, rate: float, *, until: int = 99) -> tuple[IntervalPoint, ...]:
    """Intervals of one second each."""
    points = []
    for number in range(count):
        arrived = rate if number < until else 0.0
        points.append(
            IntervalPoint(number + 1.0, Interval(number, number + 1.0, arrived, sends=False))
        )
    return tuple(points)


@pytest.mark.parametrize("wall", [math.inf, -1e300, math.nan])
def test_an_invalid_time(wall: float) -> None:
    assert wall_time_text(wall) == "–"


def test_text_of_runs_imports_no_screen_and_no_network_library() -> None:
    assert (
        loaded_by("nictop.report.runs.text") & {"textual", "rich", "asyncssh", "msgspec", "asyncio"}
        == set()
    )


# --------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("direction", "ends", "hosts"),
    [
        ("forward", "a ens4 192.0.2.1 → b ens5 192.0.2.2 port 5201", "a → b"),
        ("reverse", "b ens5 192.0.2.2 port 5201 → a ens4 192.0.2.1", "b → a"),
        ("bidirectional", "a ens4 192.0.2.1 ↔ b ens5 192.0.2.2 port 5201", "a ↔ b"),
    ],
)
def test_the_arrow_points_from_the_sender_to_the_receiver(
    direction: Direction, ends: str, hosts: str
) -> None:
    facts = {**FACTS, "client nic": "ens4", "server nic": "ens5"}
    made = result(plan=replace(PLAN, direction=direction), facts=facts)
    assert run_text(made, 80).splitlines()[0] == ends
    runs = [
        StoredRun(f"run{number}", "x", made, made.wall, "0", "repeat", number=number)
        for number in (1, 2)
    ]
    assert f"2 runs, {hosts}, TCP" in experiment_text(runs, 80)
    assert f" {hosts} TCP " in stored_runs_text(StoredRuns(((Path("run1"), runs[0]),)), 120)
    assert UNICODE.encode(hosts) == hosts and ASCII.encode(hosts).isascii()


def test_text_of_a_run_at_80_columns() -> None:
    text = run_text(result(bottleneck="the wire", facts={**FACTS, "client nic": "ens4"}), 80)
    assert text.splitlines() == [
        "a ens4 192.0.2.1 → b 192.0.2.2 port 5201",
        "client → server, TCP, 1 stream, 2 s, iperf3 · 2026-09-21 14:13:20 UTC",
        "",
        "goodput      5.00 Gb/s received by b, 53 % of line rate",
        "path         verified over IPv4: a: ens4 carried it; b: ens5 carried it",
        "bottleneck   the wire",
        "line rate    9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps",
        "",
        "CPU            busy  per Gb/s  user  system  softirq  steal     hottest",
        "client a  0.60 of 4      0.10  0.10    0.30     0.20      0  CPU 2 50 %",
        "server b  0.60 of 4      0.10  0.10    0.30     0.20      0  CPU 2 50 %",
    ]


@pytest.mark.parametrize(
    ("complete", "sentence"),
    [
        (True, "largest packet 1400 of 1500 bytes"),
        (False, "largest packet 1400 or more of 1500 bytes"),
    ],
)
def test_the_largest_packet_of_a_search_that_did_not_end(complete: bool, sentence: str) -> None:
    test = path_test(BLACK_HOLE, largest=1400)
    first, back = test.result.directions
    assert first.test is not None
    tested = replace(
        first.test, sizes=tuple(replace(one, complete=complete) for one in first.test.sizes)
    )
    cut = replace(test, result=replace(test.result, directions=(replace(first, test=tested), back)))
    assert f"RTT median 200 µs, asked by a; {sentence}" in run_text(result(path_test=cut), 120)


def test_text_with_a_path_test() -> None:
    """What it measured, what it found, and at the end the findings with their commands."""
    made = result(path_test=path_test(BLACK_HOLE, largest=1400))
    lines = run_text(made, 80).splitlines()
    at = lines.index(
        "path test    warning: a ens4: MTU black hole to b: packets above 1400 bytes are"
    )
    assert lines[at + 1 : at + 6] == [
        "             lost (MTU of this NIC: 1500)",
        "path test    a → b: RTT median 200 µs, asked by a; largest packet 1400 of 1500",
        "             bytes",
        "             b → a: not tested: b: no answer",
        "line rate    9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps",
    ]
    assert (
        "▲ not ranked path test: MTU black hole to b: packets above 1400 bytes are lost"
        in "\n".join(lines)
    )
    last = lines[
        lines.index(
            "▲ warning a ens4: MTU black hole to b: packets above 1400 bytes are lost (MTU of"
        ) :
    ]
    assert (
        "             ip link set dev ens4 mtu 1400" in last
        and last[-1] == "  rule     path_mtu_black_hole"
    )
    markdown = experiment_markdown([stored(made)])
    assert (
        "- **path test** a → b: RTT median 200 µs, asked by a" in markdown
        and "### ▲ warning: a ens4: MTU black hole" in markdown
    )
    assert "```\nip link set dev ens4 mtu 1400\n```" in markdown


@pytest.mark.parametrize(
    ("back", "words"),
    [
        (
            0.0249,
            "UDP RTT: 176 ms asked by a, 24.9 ms by b: both are round trips; why they differ is",
        ),
        (0.1, ""),
        (None, ""),
    ],
)
def test_round_trips_that_differ_much_are_called_that(back: float | None, words: str) -> None:
    """They are two measurements of one path, and show no direction of it."""
    report = path_test()
    there, _ = report.result.directions
    assert there.test is not None
    replies = (PathReplies("udp", "", 3, (0.176,) * 3), PathReplies("tcp", "", 1, (0.176,)))
    slow = replace(there, test=replace(there.test, replies=replies))
    returned = replace(
        there,
        sender=there.receiver,
        receiver=there.sender,
        test=replace(
            there.test, replies=(PathReplies("udp", "", 3, () if back is None else (back,) * 3),)
        ),
    )
    measured = replace(report, result=replace(report.result, directions=(slow, returned)))
    text = " ".join(run_text(result(path_test=measured), 120).split())
    path = " ".join(path_text(measured.report, 120).split())
    assert (words in text and words in path) if words else "both are round trips" not in text + path


def test_findings_of_path_tests_are_listed_once_for_several_runs() -> None:
    runs = [
        replace(one, result=replace(one.result, path_test=path_test(BLACK_HOLE))) for one in sweep()
    ]
    text = experiment_text(runs, 200)
    assert text.count("warning: a ens4: MTU black hole to b") == 1 and "RTT median" not in text


def test_json_has_the_path_test() -> None:
    document = json.loads(traffic_json(ASKED, [stored(result(path_test=path_test(BLACK_HOLE)))]))
    (run,) = document["runs"]
    assert [one["kind"] for one in run["sentences"]].count("path test") == 2
    assert run["kept"]["result"]["path_test"]["findings"][0]["rule"] == "path_mtu_black_hole"


def test_costs_keep_their_table_with_three_hosts_at_80_columns() -> None:
    hosts = (
        load("alma-load-001"),
        load("alma-load-002", "server"),
        load("pve.example", "observer", guest=2.0),
    )
    assert run_text(result(hosts=hosts), 80).splitlines()[-4:] == [
        "CPU                        busy  per Gb/s  softirq  steal  guest     hottest",
        "client alma-load-001  0.60 of 4      0.10     0.20      0      0  CPU 2 50 %",
        "server alma-load-002  0.60 of 4      0.10     0.20      0      0  CPU 2 50 %",
        "observer pve.example  2.60 of 4      0.10     0.20      0   2.00  CPU 2 50 %",
    ]
    assert "  user  system  softirq  steal  guest  " in run_text(result(hosts=hosts), 120)
    assert "CPU observer pve.example: 2.60 of 4 cores busy" in run_text(result(hosts=hosts), 60)


def test_the_cpu_table_is_followed_by_the_virtual_machines_of_an_esxi_host() -> None:
    """The end that is one of them, and the busiest one; the same in the sentences where the table
    does not fit."""
    machines = (
        Machine("db1", 1.69, None, ready=0.12, costop=0.02),
        Machine("web2", 1.5, None, ready=0.0, costop=0.0),
        Machine("web1", 1.1, None, ready=0.003, costop=0.0, end="b"),
    )
    hosts = (load("a"), load("b", "server"), load("esx1", "observer", machines=machines))
    assert run_text(result(hosts=hosts), 80).splitlines()[-3:] == [
        "observer esx1  0.60 of 4      0.10  0.10    0.30     0.20      0  CPU 2 50 %",
        "             esx1: VM db1: 1.69 cores, CPU ready 12 %, co-stop 2.0 %",
        "             esx1: VM web1 (b): 1.10 cores, CPU ready 0.3 %, co-stop 0 %",
    ]
    narrow = " ".join(run_text(result(hosts=hosts), 50).split())
    assert "; VM db1: 1.69 cores, CPU ready 12 %, co-stop 2.0 %; VM web1 (b): 1.10 cores" in narrow


def test_commands_are_separated_by_blank_lines() -> None:
    failed = Failure("timeout", "nothing answered", ("ufw allow 5201", "nft add rule"), "b")
    lines = run_text(result(failure=failed, flows=(), hosts=()), 80).splitlines()
    assert lines[5:8] == [f"{'':13}ufw allow 5201", "", f"{'':13}nft add rule"]


def test_text_of_a_sweep_has_one_line_per_value() -> None:
    text = experiment_text(sweep(), 120)
    assert text == experiment_text(sweep(), 80)
    assert text.splitlines()[:6] == [
        "sweep of length, 3 runs each, a → b, TCP, 2 s each, iperf3",
        "",
        "length    runs     median  lowest  highest  ceiling  CPU client a  CPU server b",
        "4K           3  3.00 Gb/s  2.00 G   4.00 G     32 %          0.10          0.10",
        "1M      2 of 3  5.50 Gb/s  5.00 G   6.00 G     58 %          0.10          0.10",
        "CPU: cores that were busy for each Gb/s",
    ]
    assert "✖ failed     1M: no more data" in text
    assert "  CPU client a 0.10, CPU server b 0.10" in experiment_text(sweep(), 60).splitlines()


def test_points_count_failed_runs_and_leave_them_out_of_the_figures() -> None:
    first, second = set_up_points(sweep())
    assert (first.value, len(first.runs), first.failed) == ("4K", 3, 0)
    assert (second.value, len(second.runs), second.failed) == ("1M", 3, 1)
    assert second.main == spread([5e9, 6e9])
    assert any("failed: " in reason for reason in second.unranked)


def test_a_set_up_whose_runs_all_failed_has_the_columns_of_the_others() -> None:
    """Its runs ended before any host was measured."""
    failed = replace(result(), failure=Failure("stall", "no data"), hosts=(), flows=())
    compared = partial(stored, kind="compare", variable="queues")
    runs = [compared(failed, group="1", value="1")]
    runs += [compared(result(), number, group="4", value="4") for number in (2, 3)]
    for ordered in (runs, runs[::-1]):
        points = set_up_points(ordered)
        titles = column_titles(points, "queues")
        assert {len(point_cells(point)) for point in points} == {len(titles)}
        for columns in (40, 80, 200):
            text = " ".join(experiment_text(ordered, columns).split())
            assert "0 of 1" in text and "5.00 Gb/s" in text
        assert "0 of 1" in experiment_markdown(ordered)


@pytest.mark.parametrize("columns", [-1, 40, 60, 80, 120, 200, 999])
def test_text_fits_the_width(columns: int) -> None:
    limit = max(40, min(200, columns))
    bad = hostile_comparison()
    runs = StoredRuns(
        tuple((Path(HOSTILE), one) for one in (*bad, *sweep())),
        ((Path("/x") / HOSTILE, HOSTILE),),
        3,
    )
    versus = compare([one.result for one in bad[::2]], [result(), result()], names=(HOSTILE, "b"))
    for text in (
        run_text(hostile(), columns),
        run_text(result(), columns),
        experiment_text(sweep(), columns),
        experiment_text(bad, columns),
        stored_runs_text(runs, columns),
        comparison_text(versus, (HOSTILE, "b"), columns),
    ):
        assert [
            line for line in text.splitlines() if width(line) > limit and " " in line.strip()
        ] == []
        assert all(character == "\n" or character.isprintable() for character in text)


def test_ascii() -> None:
    for made in (hostile(), result(proof=VLAN_FAILED)):
        text = ASCII.encode(run_text(made, 80, ASCII))
        assert text.isascii()
    assert "! not ranked" in run_text(result(proof=VLAN_FAILED), 80, ASCII)
    assert "X failed" in run_text(hostile(), 80, ASCII)


@given(st.text(), st.floats(allow_nan=True), st.sampled_from([40, 80, 120]))
def test_arbitrary_names_and_numbers_are_laid_out(name: str, number: float, columns: int) -> None:
    rates = flow(
        1.0,
        sender=name,
        received=Total(False, False, 1.0, number, packets=5, lost=2, jitter=number),
    )
    made = result(
        flows=(rates,), hosts=(load(name, per_gigabit=abs(number)),), bottleneck=name, wall=number
    )
    text = experiment_text(
        [stored(made), stored(made, 2, group=name, value=name)], columns
    ) + run_text(made, columns)
    assert all(character == "\n" or character.isprintable() for character in text)
    json.loads(traffic_json(ASKED, [stored(made)]))


# -------------------------------------------------------------------------- a comparison, and lists


def test_the_verdict_is_first_and_differences_are_last() -> None:
    a = [result(5.0 + 0.01 * number) for number in range(5)]
    b = [result(8.0 + 0.01 * number, facts={**FACTS, "server queues": "4"}) for number in range(5)]
    text = comparison_text(
        compare(a, b, names=("1 queue", "4 queues")), ("1 queue", "4 queues"), 80
    )
    lines = text.splitlines()
    assert lines[:2] == ["A: 1 queue", "B: 4 queues"]
    assert lines[3].startswith(
        "verdict      Better: 4 queues = 1.60× of 1 queue (+60 %, 95 % CI 1.60–1.60)"
    )
    rows = [" ".join(line.split()) for line in lines]
    assert "geometric mean A B B/A (95 % interval)" in rows
    assert "goodput 5.02 Gb/s 8.02 Gb/s 1.60 (1.60 to 1.60)" in rows
    assert "goodput, median 5.02 Gb/s 8.02 Gb/s" in rows
    assert lines[-2:] == ["differs        A  B", "server queues  –  4"]


def test_the_ratio_is_in_the_row_of_its_figures() -> None:
    """Medians 5 and 4 would make 0.80; the pairs make 0.79."""
    versus = compare(
        [result(rate) for rate in (5.0, 8.0, 4.0)], [result(rate) for rate in (4.0, 7.0, 2.8)]
    )
    titles, means, *_ = rows = figure_rows(versus)
    assert (
        versus.ratio is not None and versus.goodput_a is not None and versus.goodput_b is not None
    )
    assert (
        versus.goodput_a.geometric_mean is not None and versus.goodput_b.geometric_mean is not None
    )
    assert versus.goodput_b.geometric_mean / versus.goodput_a.geometric_mean == pytest.approx(
        versus.ratio.estimate
    )
    assert (titles[0], means[0]) == ("geometric mean", "goodput") and means[3].startswith("0.79 ")
    assert ("goodput, median", "5.00 Gb/s", "4.00 Gb/s", "") in rows


def test_a_run_without_goodput_has_no_geometric_mean() -> None:
    some = spread([0.0, 1e9])
    assert some is not None and some.geometric_mean is None


def test_a_refusal_has_every_reason() -> None:
    versus = compare([result()], [result()])
    assert versus.verdict == "refused"
    text = comparison_text(versus, ("A", "B"), 80)
    assert (
        "B/A 1.00 (+0 %)\n▲ Not ranked\n  one run each: spread unknown; repeat with --repeat 5\n"
        in text
    )


def test_a_reason_of_several_runs_is_listed_once() -> None:
    a = [result(proof=VLAN_FAILED), result(), result(proof=VLAN_FAILED)]
    text = comparison_text(compare(a, [result()] * 3), ("A", "B"), 120)
    assert text.count(VLAN_FAILED.sentence) == 1
    assert f"▲ Not ranked\n  A 1, A 3: path not verified: {VLAN_FAILED.sentence}" in text


def test_the_bottleneck_is_that_of_the_median_run() -> None:
    runs = [
        stored(result(rate, bottleneck=f"cause {rate:g}"), int(rate), kind="repeat")
        for rate in (9.0, 2.0, 4.0)
    ]
    text = experiment_text(runs, 80)
    assert "bottleneck   cause 4\n" in text and "cause 9" not in text and "cause 2" not in text


def test_the_list_names_files_without_results() -> None:
    assert stored_runs_text(StoredRuns(), 80) == "no stored results\n"
    runs = StoredRuns(
        ((Path("/r/1.json"), stored(result())),), ((Path("/r/2.json"), "not a nictop result"),), 7
    )
    lines = stored_runs_text(runs, 120).splitlines()
    assert lines[0].split() == ["written", "run", "experiment", "what", "result"]
    assert (
        " ".join(lines[1].split()) == "2026-09-21 14:13:21 UTC run1 experiment a → b TCP 5.00 Gb/s"
    )
    assert lines[2:] == ["not listed: 7 older results", "2.json: not a nictop result"]


# ----------------------------------------------------------------------------------- Markdown, JSON


def test_hostile_text_is_escaped_in_markdown() -> None:
    bad = hostile_comparison()
    text = experiment_markdown(bad) + comparison_markdown(
        compare([hostile()], [result()]), (HOSTILE, "b")
    )
    outside, fence = [], ""
    for line in text.splitlines():
        if len(line) >= 3 and set(line) == {"`"} and (not fence or len(line) >= len(fence)):
            fence = "" if fence else line
        elif not fence:
            outside.append(line)
    assert not fence
    prose = "\n".join(outside)
    assert (
        "<b>" not in prose and "[/x]" not in prose and "\x1b" not in text and "\u202e" not in text
    )
    assert "\\<b\\>" in prose


def test_markdown_of_a_sweep() -> None:
    lines = experiment_markdown(sweep()).splitlines()
    assert lines[4].startswith("| length | runs | median | lowest | highest | ceiling |")
    assert lines[6].startswith("| 4K | 3 | 3.00 Gb/s | 2.00 G | 4.00 G | 32 % |")
    assert "- **goodput** 2.00 Gb/s received by b, 21 % of line rate" in lines


def test_the_schemas_describe_the_documents() -> None:
    odd = stored(replace(hostile(), path_test=path_test(BLACK_HOLE)), 7, kind="compare", group="A")
    runs = [*sweep(), odd, stored(rr(floors=(floor(20),)), 8)]
    versus = compare([one.result for one in sweep()[:3]], [result()] * 3)
    listed = StoredRuns(tuple((Path(one.identity), one) for one in runs), ((Path("x"), "no"),), 1)
    for text, schema in (
        (traffic_json(ASKED, runs, ended_early=HOSTILE, comparison=versus), traffic_schema()),
        (traffic_json(ASKED, []), traffic_schema()),
        (stored_runs_json(listed), stored_runs_schema()),
        (compare_json(versus, [("a", runs[:3]), ("b", runs)]), compare_schema()),
    ):
        assert text.isascii()
        sentences = json.loads(schema)
        matches_schema(json.loads(text), sentences, sentences["$defs"])


def test_json_is_unchanged() -> None:
    document = msgspec.json.decode(traffic_json(ASKED, sweep()), type=TrafficDocument)
    assert [one.kept for one in document.runs] == sweep()
    assert (document.kind, document.variable, document.label) == ("sweep", "length", "first")
    assert document.notes == ASKED.notes
    assert (
        document.runs[0].ranked and document.runs[0].goodput == 2e9 and not document.runs[5].ranked
    )
    listed = msgspec.json.decode(
        stored_runs_json(StoredRuns(((Path("/r"), sweep()[0]),))), type=KeptDocument
    )
    assert listed.runs[0].file == "/r" and listed.runs[0].run.kept == sweep()[0]


def test_infinite_numbers_become_valid_json() -> None:
    versus = Comparison("not settled", "x", ratio=Ratio(1.0, 0.0, math.inf))
    sentences = json.loads(compare_json(versus, [("a", []), ("b", [])]))
    assert sentences["comparison"]["ratio"]["high"] > 1e308
