"""The figure that a command reports: known formats, expressions of the user, and outputs that have
none."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from nictop.traffic.analysis.command_figure import (
    figure_by_expression,
    known_figure,
    reported_error,
    text_beside_json,
    why_no_known_figure,
)
from nictop.traffic.analysis.workload import last_lines
from nictop.traffic.plan.formats import FORMATS
from nictop.traffic.results.workload import CommandFigure
from tests.traffic.plans import captured

FIO = {
    "fio version": "fio-3.33",
    "jobs": [
        {"jobname": "a", "read": {"bw_bytes": 1000000, "bw": 976}, "write": {"bw_bytes": 0}},
        {"jobname": "b", "read": {"bw_bytes": 500000, "bw": 488}, "write": {"bw_bytes": 0}},
    ],
}
IPERF3 = {
    "start": {"version": "iperf 3.12"},
    "end": {
        "sum_sent": {"bits_per_second": 9.5e9},
        "sum_received": {"bits_per_second": 9.41e9},
    },
}
WRK = """\
Running 10s test @ http://192.0.2.1/
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
  7453272 requests in 10.00s, 6.03GB read
Requests/sec: 745326.77
Transfer/sec:    617.27MB
"""
AB = """\
Time taken for tests:   0.421 seconds
Requests per second:    2375.30 [#/sec] (mean)
Time per request:       0.421 [ms] (mean)
"""
SYSBENCH_MEMORY = """\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
102400.00 MiB transferred (7432.55 MiB/sec)
"""
SYSBENCH_OLTP = """\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
    transactions:                        4812   (480.93 per sec.)
"""
RSYNC = """\
sending incremental file list
sent 1,048,946 bytes  received 35 bytes  419,592.40 bytes/sec
total size is 1,048,576  speedup is 1.00
"""
RSYNC_GERMAN = """\
sent 1.048.946 bytes  received 35 bytes  419.592,40 bytes/sec
total size is 1.048.576  speedup is 1,00
"""
DD = """\
1000+0 records in
1000+0 records out
1048576000 bytes (1.0 GB, 1000 MiB) copied, 0.934434 s, 1.1 GB/s
"""


@pytest.mark.parametrize(
    ("stdout", "stderr", "figure"),
    [
        (json.dumps(FIO), "", CommandFigure("read bandwidth", 12e6, "b/s", "fio JSON")),
        (
            "fio: a note\n" + json.dumps(FIO, indent=2),
            "",
            CommandFigure("read bandwidth", 12e6, "b/s", "fio JSON"),
        ),
        (json.dumps(IPERF3), "", CommandFigure("received", 9.41e9, "b/s", "iperf3 JSON")),
        (WRK, "", CommandFigure("requests/s", 745326.77, "1/s", "wrk")),
        (AB, "", CommandFigure("requests/s", 2375.30, "1/s", "ab")),
        (SYSBENCH_MEMORY, "", CommandFigure("throughput", 7432.55 * 8 * 2**20, "b/s", "sysbench")),
        (SYSBENCH_OLTP, "", CommandFigure("events/s", 480.93, "1/s", "sysbench")),
        (RSYNC, "", CommandFigure("rate", 8 * 419592.40, "b/s", "rsync")),
        (RSYNC_GERMAN, "", CommandFigure("rate", 8 * 419592.40, "b/s", "rsync")),
        ("1 bytes  299,80 bytes/sec", "", CommandFigure("rate", 8 * 299.80, "b/s", "rsync")),
        ("", DD, CommandFigure("rate", 8.8e9, "b/s", "dd")),
    ],
)
def test_figure_of_a_known_format(stdout: str, stderr: str, figure: CommandFigure) -> None:
    found = known_figure(stdout, stderr)
    assert found is not None and found.source in FORMATS
    assert (found.name, found.unit, found.source) == (figure.name, figure.unit, figure.source)
    assert found.value == pytest.approx(figure.value)


def test_a_rate_of_rsync_in_units_of_1000_or_1024_is_not_read() -> None:
    output = "sent 10.49M bytes  received 35 bytes  20.97M bytes/sec\n"
    assert known_figure(output, "") is None and "without -h" in why_no_known_figure(output, "")
    assert why_no_known_figure(RSYNC, "") == ""


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (json.dumps({**IPERF3, "error": "unable to connect to server: refused"}), "unable to con"),
        ('{"event":"start","data":{}}\n{"event":"error","data":"the server is busy"}', "the serv"),
        (json.dumps(IPERF3), ""),
        (json.dumps({**IPERF3, "error": 7}), ""),
        (json.dumps({"error": "of another format"}), ""),
        ('{"event":"error","data":{}}', ""),
        ("{" * 100_000, ""),
    ],
)
def test_what_iperf3_says_is_wrong(output: str, error: str) -> None:
    found = reported_error(output)
    assert found.startswith(error) and bool(found) == bool(error)


def test_text_beside_json() -> None:
    assert text_beside_json("fio: refused\n" + json.dumps(FIO, indent=2) + "\n").split("\n") == [
        "fio: refused",
        "",
        "",
        "",
    ]
    assert text_beside_json("{\nno JSON") == "{\nno JSON"


@pytest.mark.parametrize(
    ("version", "name", "figure"),
    [
        ("3.18", "stream_tcp", "received"),
        ("3.21", "stream_udp", "received"),
        ("3.21", "stream_bidirectional", "received in both directions"),
        ("3.21+", "stream_udp_bidirectional", "received in both directions"),
    ],
)
def test_figure_of_iperf3_that_streams_json(version: str, name: str, figure: str) -> None:
    """The same as of -J, whose object it may print too (--json-stream-full-output)."""
    lines = captured(version, f"{name}.client")
    end = json.loads(lines[-1])["data"]
    whole = json.dumps({"start": {}, "intervals": [], "end": end}, indent="\t")
    for output in ("\n".join(lines), "\n".join([*lines, whole]), whole):
        found = known_figure(output, "")
        assert found is not None and (found.name, found.source) == (figure, "iperf3 JSON")
        parts = [part for part in end if part.startswith("sum_received")]
        assert found.value == sum(end[part]["bits_per_second"] for part in parts)


@pytest.mark.parametrize(
    "output",
    [
        "",
        '{"event":"start","data":{}}\n{"event":"end","data":{}}',
        '{"event":"start","data":{}}\n{"event":"end","data":[7]}',
        '{"event":"start","data":{}}\n{"event":"end",',
        "nothing known",
        "{",
        "{}",
        "[1]",
        '{"fio version": "x", "jobs": 7}',
        '{"fio version": "x", "jobs": [7, {"read": 8}]}',
        '{"fio version": "x", "jobs": [{"read": {"bw_bytes": "much"}}]}',
        '{"fio version": "x", "jobs": [{"read": {"bw_bytes": -1}}]}',
        '{"fio version": "x", "jobs": [{"read": {"bw_bytes": NaN}}]}',
        '{"start": {}, "end": {"sum": {"bits_per_second": true}}}',
        '{"start": {}, "end": {"sum": {"bits_per_second": 1' + "0" * 400 + "}}}",
        "{" * 100_000,
        "copied, 1 s, 9..9 GB/s",
        "Requests/sec: 1.2.3",
    ],
)
def test_output_without_a_figure(output: str) -> None:
    assert known_figure(output, "") is None


@pytest.mark.parametrize(
    ("output", "expression", "value", "unit"),
    [
        ("total 12.5 MB/s\n", r"total ([\d.]+)", 1e8, "b/s"),
        ("total 12.5MB/s", r"total (\S+)", 1e8, "b/s"),
        ("took 1,250 ms.", r"took ([\d,]+)", 1.25, "s"),
        ("took 1.5 s", r"took .*", 1.5, "s"),
        ("first 1\nlast 2\n", r"\d", 2.0, ""),
        ("score: 42 points", r"score: (?P<value>\d+) (?P<unit>\w+)", 42.0, "points"),
        ("12 iops", r"(\d+) iops", 12.0, "1/s"),
        ("speed 3 Gbit/s", r"speed (\d+)", 3e9, "b/s"),
        ("1.5e3 widgets", r"([\d.e]+) widgets", 1500.0, "widgets"),
        ("1,5 GB/s", r"([\d.,]+) GB", 1.2e10, "b/s"),
        ("1.234,56 points", r"([\d.,]+)", 1234.56, "points"),
        ("1,234.56 points", r"([\d.,]+)", 1234.56, "points"),
        ("1.234.567 points, 1 warning", r"^(\S+)", 1234567.0, "points"),
        ("0,125 points", r"^(\S+)", 0.125, "points"),
        ("12, as always", r".*", 12.0, ""),
    ],
)
def test_figure_by_an_expression(output: str, expression: str, value: float, unit: str) -> None:
    figure, why = figure_by_expression(output, re.compile(expression))
    assert figure is not None and not why
    assert figure.value == pytest.approx(value)
    assert figure.unit == unit


@pytest.mark.parametrize(
    ("output", "expression", "why"),
    [
        ("nothing", r"(\d+)", "--value matches nothing in its output"),
        (
            "x" * 3000 + " 7 MB/s",
            r"(\d+)",
            "--value matches nothing in the first 2000 characters of its lines",
        ),
        ("none here", r"none", "--value matches 'none', which has no number"),
        ("a b", r"(x)?a", "--value matches 'a', which has no number"),
        ("1,2,3", r".*", "--value matches '1,2,3', which has no number"),
    ],
)
def test_why_an_expression_finds_no_figure(output: str, expression: str, why: str) -> None:
    assert figure_by_expression(output, re.compile(expression)) == (None, why)


@pytest.mark.parametrize(
    ("expression", "output"),
    [
        (r"(a+)+$", "a" * 60 + "!"),
        (r"(?:a|a)*b", "a" * 1000),
        (r"^(.*?,){30}P", ",".join(["1"] * 900)),
    ],
)
def test_a_search_that_does_not_end_is_ended(expression: str, output: str) -> None:
    """The output of a host cannot make an expression of the user stop nictop."""
    output = "12 MB/s\n" + output
    figure, why = figure_by_expression(output, re.compile(expression))
    assert (figure, why) == (None, "--value took more than 1 s")


def test_a_search_that_could_not_be_ended_is_not_begun() -> None:
    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(figure_by_expression, "a" * 60, re.compile(r"(a+)+$"))
        with pytest.raises(RuntimeError):
            searching.result()


def test_last_lines_are_those_that_a_terminal_shows() -> None:
    assert last_lines("a:\tb\n\t\tc") == ("a:  b", "        c")
    assert last_lines("a\n10 %\r50 %\r100 %\nb\r\n\n") == ("a", "100 %", "b")
    assert last_lines("\n".join(map(str, range(100)))) == tuple(map(str, range(88, 100)))
    assert last_lines(" \n") == () and last_lines("x" * 1000) == ("x" * 300,)
