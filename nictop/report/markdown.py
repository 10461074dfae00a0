"""A report as Markdown: findings, then the facts of each host (folded), then runs, comparisons and
path tests. Reads nothing; takes a `Report`."""

from __future__ import annotations

from nictop.report.page import Report
from nictop.report.render.markdown import markdown_document
from nictop.report.report_document import report_document


def markdown_page(report: Report) -> str:
    """The report, with a final newline."""
    return markdown_document(report_document(report))
