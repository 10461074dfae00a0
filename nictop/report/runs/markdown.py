"""Traffic runs, experiments and comparisons as Markdown, for a ticket or a chat. Reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.report.document import Section
from nictop.report.render.markdown import markdown_of
from nictop.report.runs.comparison import comparison_section
from nictop.report.runs.experiment_document import COMMAND, experiment_page_blocks
from nictop.report.runs.run_document import run_page_blocks
from nictop.traffic.analysis.comparison import Comparison
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun


def run_markdown(result: Result) -> str:
    """One run; with a final newline."""
    return markdown_of([Section(run_page_blocks(result), command=COMMAND)])


def experiment_markdown(runs: Sequence[StoredRun]) -> str:
    """A table with a row per set-up, then each run; a single run without the table. "": there are
    no runs."""
    return markdown_of([Section(experiment_page_blocks(runs), command=COMMAND)])


def comparison_markdown(comparison: Comparison, names: tuple[str, str]) -> str:
    """Verdict, figures, differences; with a final newline."""
    return markdown_of([comparison_section(comparison, names)])
