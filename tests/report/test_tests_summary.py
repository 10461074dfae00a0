"""The top of a report says what became of its tests, whatever the checks say."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import Report, report_of
from nictop.report.tests_summary import test_lines as lines_of
from nictop.report.tests_summary import tests_verdict as verdict_of
from nictop.rules import Diagnosis
from nictop.traffic.failures import Failure
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import WithoutResult
from tests.support.reports import rich_report
from tests.traffic.runs import result

FAILED = result(failure=Failure("refused", "connection refused by b"), flows=())
UNVERIFIED = result(proof=PathProof("failed", "a: ens4 carried only 12 kB"))


def stored(number: int, one: Result, experiment: str = "") -> StoredRun:
    return StoredRun(f"x-{number}", experiment or f"x{number}", one, 1.0, "0", number=number)


def report(*results: Result, **more: object) -> Report:
    runs = [stored(number, one) for number, one in enumerate(results, 1)]
    made = report_of((), runs, wall=0.0, **more)  # type: ignore[arg-type]
    return replace(made, hosts=rich_report().hosts, diagnosis=Diagnosis((), ()))


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([result()], ""),
        ([FAILED], "✖ 1 of 1 test failed"),
        ([result(), FAILED, UNVERIFIED], "✖ 1 of 3 tests failed, 1 not verified"),
        ([UNVERIFIED, UNVERIFIED], "▲ 2 of 2 tests not verified"),
        ([result(stopped=1.0)], "▲ 1 of 1 test stopped early"),
        ([result(stopped=1.0), UNVERIFIED], "▲ 1 of 2 tests stopped early, 1 not verified"),
    ],
)
def test_every_test_has_a_line_before_the_findings(results: list[Result], verdict: str) -> None:
    made = report(*results)
    assert verdict_of(lines_of(made)) == verdict
    for text in (
        html.unescape(re.sub(r"<style>.*?</style>", "", html_page(made), flags=re.DOTALL)),
        markdown_page(made),
    ):
        assert "No problems found" in text, "of the checks"
        assert ("✓ No problems found" in text) == (not verdict)
        top = text[: text.index("No problems found")]
        assert all(f"Traffic {number}" in top for number in range(1, len(results) + 1))
        assert ("connection refused by b" in top) == (FAILED in results)
        assert top.count(verdict) >= 2, "of the tests, and before that of the checks"
        assert ("path not verified" in top) == (UNVERIFIED in results)


@pytest.mark.parametrize(
    ("has_failed", "standing", "verdict"),
    [(True, "failed", "1 of 1 test failed"), (False, "missing", "1 of 1 test without a result")],
)
def test_a_test_without_a_result_is_told(has_failed: bool, standing: str, verdict: str) -> None:
    """One that was still running at the time of the report has not failed."""
    sentence = "no result of the test (client a, server b) at 10:00:00: stopped"
    made = report(without_result=(WithoutResult(sentence, has_failed),))
    assert [(one.name, one.standing) for one in lines_of(made)] == [("", standing)]
    for page in (html_page, markdown_page):
        assert "stopped" in page(made) and verdict in page(made)
        assert has_failed or "1 test failed" not in page(made)


def test_of_repeated_runs_those_that_failed_are_counted() -> None:
    runs = [
        stored(number, one, "x")
        for number, one in enumerate((result(), replace(FAILED, wall=2.0)), 1)
    ]
    (line,) = lines_of(report_of((), runs, wall=0.0))
    assert line.standing == "failed"
    assert line.text == "a → b: 5.00 Gb/s, ✖ failed (1 of 2 runs): connection refused by b"
