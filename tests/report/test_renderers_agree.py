"""What a report says in one format it says in the others: each fact and sentence, but for what is
listed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest

from nictop import __version__
from nictop.cli.hosts import read_recorded_hosts
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.snapshot import advance
from nictop.model.text.units import wall_time_text
from nictop.model.window import RatesWindow
from nictop.report import tests_summary, text_table
from nictop.report.document import Document, Section
from nictop.report.drops import TITLES as TABLE_TITLES
from nictop.report.drops import host_section
from nictop.report.facts.connections import connections_text
from nictop.report.facts.host import show_text
from nictop.report.findings.check import check_text
from nictop.report.findings.hosts import unreachable_host_text
from nictop.report.html.page import html_document, html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import Report, ReportedExperiment, made_at_text, report_of, title_text
from nictop.report.path import path_text
from nictop.report.render import markdown
from nictop.report.render.text import text_of
from nictop.report.runs.comparison import comparison_text
from nictop.report.runs.text import experiment_text, run_text
from nictop.rules.by_device import device_findings
from nictop.traffic.analysis.comparison import compare_stored_runs
from nictop.traffic.path.store import StoredPath
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from tests.cli.commands.test_demo import DEMO
from tests.report import test_drops as drops
from tests.support import connections
from tests.support.findings import finding
from tests.support.kept_runs import demo_runs, kept_runs
from tests.support.reports import (
    CAPTURED_GUESTS,
    WALL,
    captured_guest,
    full_result,
    latency_result,
    rich_report,
    stored_run,
)
from tests.support.rule_cases import CASES_DIRECTORY, base, host_facts
from tests.traffic.runs import BLACK_HOLE, path_test

WIDE = 2_000
"""Cells of a line, so that no sentence is wrapped and every column has room."""
SKIPPED_ELEMENTS = ("figure", "style", "title", "nav", "th")
"""Drawings, which the texts have in another form, and titles of columns."""
BLOCKS = ("p", "li", "dt", "dd", "td", "h1", "h2", "h3", "h4", "summary", "pre", "div")


TITLES = (
    r"^(nictop "
    r"(check|traffic|compare|path)|findings|value|source|evidence|limit|verdict|what|why|rule|"
    r"link|mac|irq|subject|reason)$"
    r"|^(steal|profile|vector|ceiling|geometric mean|mtu master|numa "
    r"pcie|undo|set-up|tests|fix|differs)$"
    r"|^(histogram|traffic( \d+)?|comparison|▲ not ranked)$"
    r"|^(rx (pps|b/s) tx .*|irq/s on cpu|irq affinity .*|in what the two differ|latency from|b/a|"
    r"95 % interval)$"
    r"|^(who|share|share rx b/s .*|process|port limited by|retr/s|rtt container/unit|pid local)$"
    r"|^(place in the machine|of devices beside it only network functions)$"
    r"|^(skipped checks|details of |all data|set-up of the run|redaction|run \d+)",
    "titles of sections and columns",
)
TREE_COLUMNS = (
    r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$",
    "the tree of the page has no column for the address of virtual links",
)
RANGE = (r"^\d+(\.\d+)? [nμm]?s$", "a range of a histogram without a bar")
TINY_SHARE = (r"^<\.01$", "in the table of CPU cost; too small for a sentence")
COST_SENTENCE = (
    r" (busy on average|core per gb/s|cpu per transaction)$|^average \d|^(client|server) ",
    "a table in the text",
)
HOTTEST_SOFTIRQ = (r"softirq [0-9.]+ %", "the table of the text has the softirq time of all CPUs")
ONLY_IN: dict[str, tuple[tuple[str, str], ...]] = {
    "text": (TITLES, TREE_COLUMNS, RANGE, TINY_SHARE),
    "markdown": (
        TITLES,
        TREE_COLUMNS,
        RANGE,
        TINY_SHARE,
        COST_SENTENCE,
        HOTTEST_SOFTIRQ,
    ),
    "html": (TITLES, COST_SENTENCE, HOTTEST_SOFTIRQ),
}
"""Format → (pattern of a fact that another one lacks, why)."""
BASES = sorted(one.stem for one in (CASES_DIRECTORY / "bases").glob("*.json"))
MIN_CUT_CHARS = 3
"""Of a text that has been cut."""
LABELS = r"^(evidence|▲ not ranked|✖ failed|transactions) "
"""That fill their column, so that a single blank is behind them."""
CLAUSES = r"[;:,·] | ?[()] ?"
LEFT_OUT = ("All data (JSON)", "Latency histogram as a table")
"""Titles of parts of the page that the other formats have in another form."""
BRIDGE = "vmbr0"
FORMAT_1 = Path(__file__).parents[1] / "data" / "recordings" / "format-1.nictop"


class Blocks(HTMLParser):
    """The text of each block of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = [""]
        self._skipped = 0
        self._is_left_out = False
        self._is_of_place = self._is_in_place = False
        """In the drawing of a place, which the texts have as a tree; in one of its texts."""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "svg":
            self._is_of_place = (dict(attrs).get("aria-label") or "").endswith(": place")
        if tag == "text" and self._is_of_place:
            self._is_in_place = True
            self.blocks.append("")
        if tag in SKIPPED_ELEMENTS:
            self._skipped += 1
        if tag in BLOCKS:
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in SKIPPED_ELEMENTS:
            self._skipped -= 1
        if tag in BLOCKS:
            self.blocks.append("")
        if tag == "text":
            self._is_in_place = False
        if tag == "details":
            self._is_left_out = False

    def handle_data(self, data: str) -> None:
        if data in LEFT_OUT:
            self._is_left_out = True
        is_shown = self._is_in_place or not self._skipped
        if is_shown and not self._is_left_out:
            self.blocks[-1] += data


def of_html(page: str) -> list[str]:
    return [line for block in Blocks(page).blocks for line in block.splitlines()]


def of_markdown(page: str) -> list[str]:
    """Lines, cells and headings without their marks."""
    found: list[str] = []
    is_fenced = False
    for line in page.splitlines():
        if re.fullmatch("`{3,}", line):
            is_fenced = not is_fenced
        elif is_fenced:
            found.append(line)
        elif not re.fullmatch(r"\|(---\|)+", line):
            cells = re.split(r"(?<!\\)\|", line) if line.startswith("| ") else [line]
            found += (plain_markdown(cell) for cell in cells)
    return found


def plain_markdown(text: str) -> str:
    text = re.sub(r"(?<!\\)<[^>]*>", "", text)
    text = re.sub(r"^(#+|-) ", "", text)
    text = re.sub(r"(?<!\\)(\*\*|`)", "", text)
    return re.sub(r"\\(.)", r"\1", text)


def of_text(page: str) -> list[str]:
    return page.splitlines()


def plain(text: str) -> str:
    """In one line, without guides of a tree, marks and differences of case."""
    return " ".join(re.sub("[│├└─┬▸]", " ", text).casefold().split())


def facts(lines: Iterable[str]) -> Iterator[str]:
    """The parts of lines between wide gaps: cells and sentences."""
    for line in lines:
        if re.search("[▏▎▍▌▋▊▉█]", line):
            continue  # a histogram: each format draws as many ranges as there is room for
        for part in re.split(r"\s{2,}|[│├└─]+", re.sub(LABELS, "", line.strip())):
            found = plain(part)
            if re.search(r"\w", found):
                yield found


def bare(word: str) -> str:
    return word.strip(":;,.()·")


def lost_clauses(fact: str, other: str, words: frozenset[str]) -> list[str]:
    """Clauses of a fact that are not in the other text, neither as a whole nor word by word, as
    where cells stand close together. Cut texts are compared by what is left of them."""
    if fact in other:
        return []
    clauses = [one for one in re.split(CLAUSES, fact) if one.strip("·:;, ")]
    return [
        clause
        for clause in clauses
        if clause not in other and not all(is_word_in(bare(word), words) for word in clause.split())
    ]


def is_word_in(word: str, words: frozenset[str]) -> bool:
    """The word, or one that is cut at its end or in its middle, as names and addresses in columns
    are."""
    if word in words:
        return True
    first, cut, last = word.partition("…")
    if cut:
        return any(whole.startswith(first) and whole.endswith(last) for whole in words)
    return any(is_cut_of(one, word) for one in words if "…" in one)


def is_cut_of(short: str, word: str) -> bool:
    first, _, last = short.partition("…")
    return len(first) >= MIN_CUT_CHARS and word.startswith(first) and word.endswith(last)


def missing(of: Iterable[str], other: Iterable[str]) -> list[str]:
    whole = " ".join(map(plain, other))
    words = frozenset(map(bare, whole.split()))
    return list(
        dict.fromkeys(lost for fact in facts(of) for lost in lost_clauses(fact, whole, words))
    )


# ------------------------------------------------------------------------------------- the subjects


def text_page(report: Report) -> str:
    """The report as the commands print it: show, check, traffic, compare, path."""
    lines = [
        f"nictop report: {title_text(report)}",
        f"{made_at_text(report)} · nictop {__version__}",
        tests_summary.tests_verdict(tests_summary.test_lines(report)),
    ]
    lines += [
        f"{line.name}: {line.text}" if line.name else line.text
        for line in tests_summary.test_lines(report)
    ]
    lines += [unreachable_host_text(one) for one in report.unreachable]
    if report.hosts or report.unreachable:
        lines.append(
            check_text(report.hosts, report.diagnosis, WIDE, report.unreachable, skipped=True)
        )
    lines += [
        show_text(host.snapshot, WIDE, device_findings(report.diagnosis, host.name))
        for host in report.hosts
    ]
    lines += [
        connections_text([(host.snapshot, RatesWindow())], WIDE)
        for host in report.hosts
        if host.snapshot.connections
    ]
    for experiment in report.experiments:
        lines.append(experiment_text(experiment.runs, WIDE))
        lines += [run_text(one.result, WIDE) for one in experiment.runs]
        if experiment.comparison is not None:
            lines.append(comparison_text(experiment.comparison, experiment.names, WIDE))
    for path in report.path_tests:
        lines += [
            path.label,
            wall_time_text(path.test.report.result.wall),
            path_text(path.test.report, WIDE),
        ]
    return "\n".join((*lines, *report.hidden))


def answer_of(host: dict[str, object]) -> Answer:
    """Of a host of the rule cases."""
    facts = host_facts(host)
    window = RatesWindow()
    window.add(facts.snapshot)
    return facts.snapshot, window


def of_answers(*found: Answer) -> Report:
    return report_of(found, wall=WALL)


def switched_bridge() -> Report:
    """A virtual link that has heard a neighbour."""
    listened = {
        "br0": {"protocol": "LLDP", "system_name": "switch-7", "port": "Gi1/0/3", "pvid": 17}
    }
    return of_answers(answer_of({"base": "proxmox-host", "listened": {BRIDGE: listened["br0"]}}))


def with_connections() -> Report:
    snapshot, window = captured_guest(CAPTURED_GUESTS[0], "guest")
    assert snapshot.counters is not None
    ifindex = next(link.ifindex for link in snapshot.links.values() if link.bus)
    return of_answers(
        (
            advance(
                snapshot,
                connections.line(connections.busy_reading(snapshot.counters.time, (ifindex,))),
            ),
            window,
        )
    )


def disconnected() -> Report:
    snapshot, window = captured_guest(CAPTURED_GUESTS[0], "guest")
    return of_answers(
        (replace(snapshot, state="failed", message="the connection was lost"), window)
    )


def refused_comparison() -> Report:
    """Without a verdict, for reasons that several runs have."""
    a, b = ([stored_run(number, name, full_result(4.0)) for number in (1, 2)] for name in "ab")
    comparison = replace(
        compare_stored_runs(a, b, ("first", "second")),
        verdict="refused",
        refusals=(
            "first 1: CPU not measured",
            "first 2: CPU not measured",
            "different tests: bulk, rr",
        ),
    )
    assert comparison.known_text
    return replace(
        of_answers(), experiments=(ReportedExperiment((), ("first", "second"), comparison),)
    )


def with_ring_drops() -> Result:
    found = full_result(5.0)
    return replace(
        found, hosts=tuple(replace(one, ring_drops=12, send_drops=9) for one in found.hosts)
    )


def of_runs(runs: Iterable[StoredRun]) -> Report:
    return report_of((), tuple(runs), wall=WALL)


SUBJECTS: dict[str, Callable[[], Report]] = {
    **{
        f"captured: {name}": partial(lambda name: of_answers(captured_guest(name, "guest")), name)
        for name in CAPTURED_GUESTS
    },
    **{
        f"host: {name}": partial(lambda name: of_answers(answer_of(base(name))), name)
        for name in BASES
    },
    "recording: demo": lambda: of_answers(*read_recorded_hosts(str(DEMO), None)),
    "recording: format 1": lambda: of_answers(*read_recorded_hosts(str(FORMAT_1), None)),
    "host: a bridge with a neighbour": switched_bridge,
    "host: connections": with_connections,
    "host: connection lost": disconnected,
    "hosts: none": lambda: of_answers(
        Unreachable("vm3", "203.0.113.7 port 22: connection timed out")
    ),
    "hosts: one of two": lambda: of_answers(
        answer_of(base("docker-host")),
        Unreachable("vm3", "203.0.113.7 port 22: connection timed out"),
    ),
    "everything": rich_report,
    "runs: latency": lambda: of_runs([stored_run(1, "latency", latency_result())]),
    "runs: drops": lambda: of_runs([stored_run(1, "drops", with_ring_drops())]),
    "runs: demo": lambda: of_runs(demo_runs()),
    **{
        f"runs: {archive}": partial(lambda name: of_runs(chain(*kept_runs(name).values())), archive)
        for archive in ("lab", "self-test")
    },
    "comparison: refused": refused_comparison,
    "path test": lambda: report_of(
        (), (), [StoredPath("3fa2", path_test(BLACK_HOLE), WALL, "0")], wall=WALL
    ),
}
FORMATS: dict[str, tuple[Callable[[Report], str], Callable[[str], list[str]]]] = {
    "text": (text_page, of_text),
    "markdown": (markdown_page, of_markdown),
    "html": (html_page, of_html),
}
PAIRS = [(one, other) for one in FORMATS for other in FORMATS if one != other]


@cache
def lines_of(subject: str, name: str) -> list[str]:
    draw, parts = FORMATS[name]
    return parts(draw(report_named(subject)))


@cache
def report_named(subject: str) -> Report:
    return SUBJECTS[subject]()


@pytest.fixture(autouse=True)
def wide_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_table, "MAX_LAYOUT_CELLS", WIDE)
    monkeypatch.setattr(markdown, "FACT_CELLS", WIDE)


def set_up_texts(report: Report) -> frozenset[str]:
    """Of the set-up of runs, which the text does not repeat: it is for the terminal in which they
    were made."""
    runs = [run for experiment in report.experiments for run in experiment.runs]
    texts = [text for run in runs for pair in run.result.facts.items() for text in pair]
    return frozenset(
        bare(part) for text in texts for part in (plain(text), *re.split(CLAUSES, plain(text)))
    )


def lost(subject: str, one: str, other: str) -> list[str]:
    """What a format has and the other one has not, without what is listed."""
    left_out = set_up_texts(report_named(subject)) if other == "text" else frozenset()
    return [
        clause
        for clause in missing(lines_of(subject, one), lines_of(subject, other))
        if bare(clause) not in left_out
        and not any(re.search(pattern, clause) for pattern, _ in ONLY_IN[one])
    ]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_fact_of_one_format_is_in_the_others(subject: str) -> None:
    for one, other in PAIRS:
        assert lost(subject, one, other) == [], f"in {one}, not in {other}"


# ---------------------------------------------------------------------------------- dropped packets


def dropped() -> tuple[Section, ...]:
    """What two hosts dropped, one of them with a finding, and a host that was not monitored."""
    found = finding(rule="rp_filter_drops_an_asymmetric_path", subject="ens3", title="drops")
    explained = replace(drops.RESULT, rows=(replace(drops.ROW, findings=(found,)), drops.EXPECTED))
    refused = replace(drops.RESULT, host="vm2", report=replace(drops.REPORT, state="busy"))
    return tuple(map(host_section, (drops.RESULT, explained, refused)))


def test_each_fact_about_dropped_packets_is_in_all_formats() -> None:
    """`nictop drops` prints them as text only; the others can draw every document."""
    sections = dropped()
    lines = {
        "text": of_text(text_of(sections, WIDE)),
        "markdown": of_markdown(markdown.markdown_of(sections)),
        "html": of_html(html_document(Document("", "", sections))),
    }
    for one, other in PAIRS:
        lost_clauses = missing(lines[one], lines[other])
        assert [clause for clause in lost_clauses if clause not in DROPS_TITLES] == [], (one, other)


DROPS_TITLES = tuple(title.casefold() for title in TABLE_TITLES)
