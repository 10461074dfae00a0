"""Tests of a report in a line each, for its top: what was reached, what failed, what is not verified.

Reads nothing; takes a `Report`. All text is clean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nictop.model.text.glyphs import UNICODE
from nictop.model.text.terminal import clean
from nictop.report.page import Report
from nictop.report.path import ends_text, verdict_of_path
from nictop.report.runs.points import SetUpPoint, point_cells, set_up_points
from nictop.report.runs.sentences import hosts_text
from nictop.traffic.path.store import StoredPath
from nictop.traffic.results.caveats import with_caveat
from nictop.traffic.results.selection import StoredRun

Standing = Literal["failed", "problem", "doubtful", "good"]
STANDING_TEXTS: dict[Standing, str] = {"failed": "failed", "problem": "found a problem", "doubtful": "not verified"}


@dataclass(frozen=True)
class TestLine:
    """One set-up of an experiment, or one path test."""

    __test__ = False

    name: str
    """``Traffic 1``, as in the contents; "": it is not in the report."""
    text: str
    standing: Standing


def test_lines(report: Report) -> tuple[TestLine, ...]:
    """In the order of the report; last those without a result."""
    found: list[TestLine] = []
    for number, experiment in enumerate(report.experiments, 1):
        points = set_up_points(experiment.runs)
        found += [_run_line(f"Traffic {number}", point, several=len(points) > 1) for point in points]
    found += [_path_line(f"Path test {number}", path) for number, path in enumerate(report.path_tests, 1)]
    found += [TestLine("", f"{UNICODE.critical} {clean(text)}", "failed") for text in report.without_result]
    return tuple(found)


def tests_verdict(lines: Sequence[TestLine]) -> str:
    """``✖ 1 of 2 tests failed, 1 not verified``; "": all are good, or there are none."""
    parts: list[str] = []
    for standing, words in STANDING_TEXTS.items():
        number = sum(line.standing == standing for line in lines)
        if number:
            parts.append(f"{number} {words}" if parts else f"{number} of {_counted(lines)} {words}")
    if not parts:
        return ""
    has_failed = any(line.standing == "failed" for line in lines)
    return f"{UNICODE.critical if has_failed else UNICODE.warning} {', '.join(parts)}"


def _counted(lines: Sequence[TestLine]) -> str:
    return "1 test" if len(lines) == 1 else f"{len(lines)} tests"


def _run_line(name: str, point: SetUpPoint, *, several: bool) -> TestLine:
    first = point.runs[0]
    parts = [*_varied(first, point, several)]
    failures = tuple(_failures(point))
    if point.main is not None:
        parts.append(with_caveat(point.measures[0].text(point.main.median), point.caveat))
    if failures:
        of_all = f" ({len(failures)} of {len(point.runs)} runs)" if len(point.runs) > 1 else ""
        parts.append(f"{UNICODE.critical} failed{of_all}: {failures[0]}")
    standing: Standing = "failed" if failures else "doubtful" if point.caveat else "good"
    ends = hosts_text(first.result.plan)
    return TestLine(name, f"{ends}: {', '.join(parts)}" if parts else ends, standing)


def _varied(first: StoredRun, point: SetUpPoint, several: bool) -> Iterator[str]:
    if first.label:
        yield clean(first.label)
    if several:
        yield f"{clean(first.variable)} {point_cells(point)[0]}".strip()


def _failures(point: SetUpPoint) -> Iterator[str]:
    for run in point.runs:
        if run.result.failure is not None:
            yield clean(run.result.failure.sentence)


def _path_line(name: str, path: StoredPath) -> TestLine:
    report = path.test.report
    standing: Standing = "problem" if any(one.severity != "info" for one in report.findings) else "good"
    if any(one.failure for one in report.result.directions):
        standing = "failed"
    return TestLine(name, f"{ends_text(report)}: {verdict_of_path(report)}", standing)
