"""A report as a document: tests in a line each, findings, hosts, runs and comparisons, path tests.

Reads nothing; takes a `Report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop import __version__
from nictop.report.document import Block, Document, Items, Line, Section, Style, Verdict, lines_of
from nictop.report.facts.host_section import host_section
from nictop.report.facts.peers import Peers
from nictop.report.findings.document import findings_section
from nictop.report.page import Report, made_at_text, title_text
from nictop.report.path import path_section
from nictop.report.runs.experiment_document import experiment_section
from nictop.report.tests_summary import Standing, TestLine, test_lines, tests_verdict
from nictop.rules import Finding
from nictop.rules.by_device import device_findings

STANDING_STYLES: dict[Standing, Style] = {
    "failed": "bad",
    "problem": "warn",
    "doubtful": "warn",
    "missing": "warn",
    "good": "good",
}


def report_document(report: Report) -> Document:
    title = f"nictop report: {title_text(report)}"
    about = f"{made_at_text(report)} · nictop {__version__}"
    return Document(title, about, tuple(_sections(report)))


def _sections(report: Report) -> Iterator[Section]:
    tests = test_lines(report)
    if tests:
        yield tests_section(tests)
    if report.hosts or report.unreachable:
        yield findings_section(
            report.hosts,
            report.diagnosis,
            report.unreachable,
            skipped=True,
            beside=tests_verdict(tests),
        )
    peers = Peers([host.snapshot for host in report.hosts])
    for number, host in enumerate(report.hosts, 1):
        open_links = links_with_findings(host.name, report.diagnosis.findings)
        findings = device_findings(report.diagnosis, host.name)
        yield host_section(host, number, open_links, findings, peers)
    for number, experiment in enumerate(report.experiments, 1):
        yield experiment_section(experiment, number)
    for number, path in enumerate(report.path_tests, 1):
        yield path_section(path, number)
    if report.hidden:
        yield Section((Items(lines_of(report.hidden)),), "Redaction", form="footer")


def tests_section(tests: Sequence[TestLine]) -> Section:
    """What became of each test."""
    blocks: list[Block] = []
    if verdict := tests_verdict(tests):
        blocks.append(Verdict(verdict, tone="bad"))
    blocks.append(Items(tuple(map(_test_item, tests))))
    return Section(tuple(blocks), "Tests", anchor="tests", entry="Tests")


def _test_item(test: TestLine) -> Line:
    text = test.text
    if test.name:
        text = f"{test.name}: {text}"
    return Line(text, STANDING_STYLES[test.standing])


def links_with_findings(host: str, findings: Iterable[Finding]) -> set[int | None]:
    """ifindexes"""
    return {finding.ifindex for finding in findings if finding.host == host}
