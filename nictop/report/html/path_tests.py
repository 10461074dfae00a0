"""A path test as HTML: what was measured each way, and the findings with their commands.

Reads nothing; takes a stored test.
"""

from __future__ import annotations

from nictop.model.text.units import wall_time_text
from nictop.report.html.elements import Html, element, html_lines
from nictop.report.html.findings import finding_html
from nictop.report.path import ends_text, measured_lines, verdict_of_path
from nictop.traffic.path.store import StoredPath

LINE_CELLS = 120


def path_test_html(path: StoredPath, number: int) -> Html:
    """The section of one test."""
    report = path.test.report
    written = wall_time_text(report.result.wall)
    is_good = not report.findings and not any(one.failure for one in report.result.directions)
    return element(
        "section",
        element("h2", "Path test"),
        element("h3", ends_text(report)),
        element("p", f"{written} · {path.label}" if path.label else written, class_="dim"),
        element("p", verdict_of_path(report), class_="verdict good" if is_good else "verdict"),
        element("pre", html_lines(measured_lines(report, LINE_CELLS))),
        *(finding_html(one, True) for one in report.findings),
        id_=f"path-{number}",
    )
