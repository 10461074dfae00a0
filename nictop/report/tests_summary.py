"""Tests of a report in a line each, for its top: what was reached, what failed, what is in doubt.

Reads nothing; takes a `Report`. All text is clean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from nictop.model.text.glyphs import UNICODE
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.report.page import Report
from nictop.report.path import ends_text, is_receipt_known, verdict_of_path
from nictop.report.runs.points import SetUpPoint, point_cells, set_up_points
from nictop.report.runs.sentences import hosts_text
from nictop.traffic.path.result import PathReport
from nictop.traffic.path.store import StoredPath
from nictop.traffic.results.caveats import (
    LINK_LOST,
    NIC_EVENT,
    NOT_CHECKED,
    NOT_VERIFIED,
    OTHER_TRAFFIC,
    STOPPED,
    with_caveat,
)
from nictop.traffic.results.store import StoredRun, WithoutResult

Standing = Literal["failed", "problem", "doubtful", "missing", "good"]
STANDING_TEXTS: dict[Standing, str] = {
    "failed": "failed",
    "problem": "found a problem",
    "doubtful": "in doubt",
    "missing": "without a result",
}
DOUBT_TEXTS = {
    NOT_VERIFIED: "not verified",
    NOT_CHECKED: "not checked",
    STOPPED: STOPPED,
    LINK_LOST: "with a lost link",
    NIC_EVENT: "with a NIC event",
    OTHER_TRAFFIC: "with other traffic",
}
"""Caveat of all runs of a set-up → how it is counted; several: as `STANDING_TEXTS` says."""


@dataclass(frozen=True)
class TestLine:
    """One set-up of an experiment, or one path test."""

    __test__ = False

    name: str
    """``Traffic 1``, as in the contents; "": it is not in the report."""
    text: str
    standing: Standing
    counted_as: str = ""
    """In `tests_verdict`; "": as its standing."""


def test_lines(report: Report) -> tuple[TestLine, ...]:
    """In the order of the report; last those without a result."""
    found: list[TestLine] = []
    for number, experiment in enumerate(report.experiments, 1):
        points = set_up_points(experiment.runs)
        found += [
            _run_line(f"Traffic {number}", point, several=len(points) > 1) for point in points
        ]
    found += [
        _path_line(f"Path test {number}", path) for number, path in enumerate(report.path_tests, 1)
    ]
    found += map(_line_without_result, report.without_result)
    return tuple(found)


def _line_without_result(test: WithoutResult) -> TestLine:
    """One that was still running has not failed."""
    if test.has_failed:
        return TestLine("", f"{UNICODE.critical} {clean(test.sentence)}", "failed")
    return TestLine("", f"{UNICODE.warning} {clean(test.sentence)}", "missing")


def tests_verdict(lines: Sequence[TestLine]) -> str:
    """``✖ 1 of 2 tests failed, 1 not verified``; "": all are good, or there are none."""
    parts: list[str] = []
    for standing, usual in STANDING_TEXTS.items():
        words = Counter(line.counted_as or usual for line in lines if line.standing == standing)
        for text, number in words.items():
            of_all = "" if parts else f" of {_counted(lines)}"
            parts.append(f"{number}{of_all} {text}")
    if not parts:
        return ""
    has_failed = any(line.standing == "failed" for line in lines)
    mark = UNICODE.critical if has_failed else UNICODE.warning
    return f"{mark} {', '.join(parts)}"


def _counted(lines: Sequence[TestLine]) -> str:
    return "1 test" if len(lines) == 1 else f"{len(lines)} tests"


def _run_line(name: str, point: SetUpPoint, *, several: bool) -> TestLine:
    first = point.runs[0]
    parts = [*_varied(first, point, several)]
    failures = tuple(_failures(point))
    if point.main is not None:
        parts.append(with_caveat(point.measures[0].text(point.main.median), point.caveat))
    if failures:
        failed = "failed"
        if len(point.runs) > 1:
            failed += f" ({len(failures)} of {len(point.runs)} runs)"
        parts.append(f"{UNICODE.critical} {failed}: {failures[0]}")
    text = hosts_text(first.result.plan)
    if parts:
        text += f": {', '.join(parts)}"
    standing = _standing_of(point)
    counted_as = DOUBT_TEXTS.get(point.caveat, "") if standing == "doubtful" else ""
    return TestLine(name, text, standing, counted_as)


def _standing_of(point: SetUpPoint) -> Standing:
    if point.failed:
        return "failed"
    return "doubtful" if point.caveat else "good"


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
    return TestLine(name, f"{ends_text(report)}: {verdict_of_path(report)}", _path_standing(report))


def _path_standing(report: PathReport) -> Standing:
    if any(direction.failure for direction in report.result.directions):
        return "failed"
    if any(finding.severity != "info" for finding in report.findings):
        return "problem"
    return "good" if all(map(is_receipt_known, report.result.directions)) else "doubtful"
