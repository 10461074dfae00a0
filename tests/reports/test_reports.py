"""Each public report is answered as its file says, by the probe's own log reader and all rules."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.reports.library import Report, evaluate, reports

REPORTS = reports()
MAX_OF_ONE_KIND = 3


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_report(report: Report) -> None:
    result = evaluate(report)
    assert result.score == report.expected_score, result.problems


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_file_is_complete(report: Report) -> None:
    content = report.content
    assert content["source"] and all(
        one.startswith(("https://", "http://")) for one in content["source"]
    )
    assert content["saw"] and content["cause"] and content["confirmed"]
    assert content.get("expect") or content.get("never")
    assert ("limits" in content) == ("score" in content)


def test_no_report_gets_harmful_advice() -> None:
    assert [report.name for report in REPORTS if evaluate(report).score == "wrong advice"] == []


def test_at_most_three_of_one_kind() -> None:
    kinds = Counter((report.content["kind"], report.content["driver"]) for report in REPORTS)
    assert [kind for kind, number in kinds.items() if number > MAX_OF_ONE_KIND] == []
