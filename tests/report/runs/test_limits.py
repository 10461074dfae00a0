"""The table of the bottleneck: each limit with its value and verdict, in every report and on the
screen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.terminal import width
from nictop.report.html.page import html_page
from nictop.report.page import report_of
from nictop.report.runs.limits import bottleneck_headline, limit_lines
from nictop.report.runs.markdown import run_markdown
from nictop.report.runs.sentences import result_sentences
from nictop.report.runs.text import experiment_text, run_text
from nictop.traffic.results.result import ExaminedLimit
from nictop.traffic.results.selection import StoredRun
from nictop.tui.screens.traffic.run_page import sentence_lines
from tests.support.reports import WALL, stored_run
from tests.traffic.runs import result

CAUSE = ExaminedLimit("CPU 2 on b (receiver)", "98 % softirq, single queue", "cause")
LIMITS = (
    CAUSE,
    ExaminedLimit("TCP windows and buffers", "sockets of a not read", "possible"),
    ExaminedLimit("receive window", "11.9 MiB / 20.0 ms = 5.00 Gb/s", "excluded"),
    ExaminedLimit("root qdisc fq_codel of ens4 on a", "", "excluded"),
)
RUN = result(bottleneck="CPU 2 on b (receiver), 98 % softirq, single queue", limits=LIMITS)


def test_text_of_a_run_has_the_table() -> None:
    lines = run_text(RUN, 100).splitlines()
    at = lines.index("bottleneck   CPU 2 on b (receiver)")
    assert lines[at + 1 : at + 6] == [
        "             limit                    value                           verdict",
        "             CPU 2 on b (receiver)    98 % softirq, single queue      cause",
        "             TCP windows and buffers  sockets of a not read           possible",
        "             receive window           11.9 MiB / 20.0 ms = 5.00 Gb/s  excluded",
        "             root qdisc fq_codel of ens4 on a                         excluded",
    ]
    assert "98 % softirq, single queue, " not in run_text(RUN, 100)


@pytest.mark.parametrize("columns", [40, 100])
def test_a_limit_of_which_nothing_is_known_says_so(columns: int) -> None:
    network = ExaminedLimit("network between the hosts", "", "possible")
    text = " ".join(line.text for line in limit_lines((network,), columns))
    assert "not known" in " ".join(text.split())
    assert "| network between the hosts | not known | possible |" in run_markdown(
        replace(RUN, limits=(network,))
    )


@pytest.mark.parametrize("columns", [40, 56, 80, 120, 200])
def test_no_word_of_the_table_is_lost_at_any_width(columns: int) -> None:
    lines = [one.text for one in limit_lines(LIMITS, columns)]
    assert max(map(width, lines)) <= columns
    for one in LIMITS:
        for word in (*one.limit.split(), *one.value.split(), one.verdict):
            assert any(word in line for line in lines), word


def test_a_run_of_an_older_version_has_the_sentence() -> None:
    old = result(bottleneck="the wire")
    assert "bottleneck   the wire" in run_text(old, 80).splitlines()
    assert "- **bottleneck** the wire" in run_markdown(old)


def test_headline_without_a_cause() -> None:
    assert (
        bottleneck_headline(LIMITS[1:]) == "not determined"
        and bottleneck_headline(LIMITS) == CAUSE.limit
    )


def test_a_list_of_runs_has_the_cause_or_what_is_possible() -> None:
    runs = [
        StoredRun(f"r{number}", "x", RUN, WALL, "0", "repeat", number=number) for number in (1, 2)
    ]
    text = experiment_text(runs, 120)
    assert (
        "bottleneck   CPU 2 on b (receiver): 98 % softirq, single queue\n" in text
        and "receive window" not in text
    )
    open_end = replace(RUN, limits=LIMITS[1:])
    text = experiment_text([replace(one, result=open_end) for one in runs], 120)
    assert "bottleneck   not determined; possible: TCP windows and buffers\n" in text


def test_markdown_and_html_have_the_table() -> None:
    markdown = run_markdown(RUN).replace("\\", "")
    assert "- **bottleneck** CPU 2 on b (receiver)" in markdown
    assert (
        "| limit | value | verdict |\n|---|---|---|\n| CPU 2 on b (receiver) | 98 % softirq"
        in markdown
    )
    page = html_page(report_of([], [stored_run(1, "one", RUN)], wall=WALL))
    rows = re.findall(
        r"<tr><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td></tr>", page
    )
    assert [(one.limit, one.value, one.verdict) for one in LIMITS] == [
        row for row in rows if row[2] in VERDICTS
    ]


VERDICTS = ("cause", "possible", "excluded")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_screen_has_the_table(glyphs: Glyphs) -> None:
    texts = [(one.kind, one.text) for one in result_sentences(RUN)]
    lines = sentence_lines(texts, 118, glyphs=glyphs, limits=RUN.limits)
    drawn = ["".join(text for text, _ in line) for line in lines]
    at = drawn.index(" bottleneck CPU 2 on b (receiver)")
    assert [line.split()[-1] for line in drawn[at + 1 : at + 6]] == [
        "verdict",
        *(one.verdict for one in LIMITS),
    ]
    assert len({line.rindex(line.split()[-1]) for line in drawn[at + 1 : at + 6]}) == 1, (
        "columns stand straight"
    )
    paths = [number for number, line in enumerate(drawn) if line.startswith(" path ")]
    assert paths[0] < at, "the path verdict comes before the table"
