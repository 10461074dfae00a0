"""A report as one HTML file: findings, then hosts, then runs and path tests. It has no script and loads nothing.

Reads nothing; takes a `Report`. Text from hosts cannot become markup (`html.elements`), and the content security policy
of the page forbids to run or to load anything (`html.style`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop import __version__
from nictop.report.findings.check import NO_HOST_ANSWERED, unreachable_host_text
from nictop.report.html.elements import LINE_END, Html, element, join_html
from nictop.report.html.findings import findings_html
from nictop.report.html.hosts import host_html
from nictop.report.html.path_tests import path_test_html
from nictop.report.html.runs import experiment_html
from nictop.report.html.style import CONTENT_SECURITY_POLICY, STYLE_SHEET
from nictop.report.page import Report, made_at_text, title_text
from nictop.report.tests_summary import Standing, TestLine, test_lines, tests_verdict

TEST_CLASSES: dict[Standing, str] = {"failed": "bad", "problem": "warn", "doubtful": "warn", "good": "good"}


def html_page(report: Report) -> str:
    """The file, with a final newline; ASCII, so that it does not depend on the encoding that a server declares."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=CONTENT_SECURITY_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"nictop report: {title_text(report)}"),
        element("style", Html(STYLE_SHEET)),
    )
    page = element("html", head, element("body", join_html(_body(report), LINE_END)), lang="en")
    return ("<!DOCTYPE html>\n" + page).encode("ascii", "xmlcharrefreplace").decode() + "\n"


def _body(report: Report) -> Iterator[Html]:
    yield element("h1", f"nictop report: {title_text(report)}")
    yield element("p", f"{made_at_text(report)} · nictop {__version__}", class_="dim")
    yield from _contents(report)
    tests = test_lines(report)
    yield from _tests(tests)
    for host in report.unreachable:
        yield element("p", unreachable_host_text(host), class_="bad")
    if report.hosts:
        hosts = len(report.hosts) + len(report.unreachable)
        unread = [one.host for one in report.unreachable]
        yield findings_html(report.diagnosis, hosts, unread, beside=tests_verdict(tests))
    elif report.unreachable:
        yield element("p", NO_HOST_ANSWERED, class_="verdict bad")
    for number, facts in enumerate(report.hosts, 1):
        about = {one.ifindex for one in report.diagnosis.findings if one.host == facts.name}
        yield host_html(facts, number, about)
    for number, experiment in enumerate(report.experiments, 1):
        yield experiment_html(experiment, number)
    for number, path in enumerate(report.path_tests, 1):
        yield path_test_html(path, number)
    if report.hidden:
        yield element("footer", element("h2", "Redaction"), *(element("p", sentence) for sentence in report.hidden))


def _tests(tests: Sequence[TestLine]) -> Iterator[Html]:
    """What became of each test; nothing if there are none."""
    if not tests:
        return
    verdict = tests_verdict(tests)
    rows = []
    for line in tests:
        name = f"{line.name}: " if line.name else ""
        rows.append(element("li", f"{name}{line.text}", class_=TEST_CLASSES[line.standing]))
    head = element("p", verdict, class_="verdict bad") if verdict else Html("")
    yield element("section", element("h2", "Tests"), head, element("ul", *rows), id_="tests")


def _contents(report: Report) -> Iterator[Html]:
    chapters = [("findings", "Findings")] if report.hosts else []
    chapters = [("tests", "Tests"), *chapters] if test_lines(report) else chapters
    chapters += [(f"host-{number}", host.name) for number, host in enumerate(report.hosts, 1)]
    chapters += [(f"traffic-{number}", f"Traffic {number}") for number in range(1, len(report.experiments) + 1)]
    chapters += [(f"path-{number}", f"Path test {number}") for number in range(1, len(report.path_tests) + 1)]
    if len(chapters) > 1:
        yield element("nav", join_html((element("a", name, href=f"#{anchor}") for anchor, name in chapters), LINE_END))
