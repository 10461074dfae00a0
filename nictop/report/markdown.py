"""A report as Markdown: findings, then the facts of each host (folded), then runs, comparisons and path tests.

Reads nothing; takes a `Report`. Text from hosts is escaped: it cannot become markup (`findings.markdown`).
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop import __version__
from nictop.model.columns.connections import nic_texts
from nictop.model.text.units import wall_time_text
from nictop.report.facts.connections import host_connections, table_lines
from nictop.report.facts.host import show_text
from nictop.report.findings.markdown import check_markdown, escape_markdown, fenced_block, finding_markdown
from nictop.report.html.elements import text
from nictop.report.page import Report, made_at_text, title_text
from nictop.report.path import ends_text, measured_lines, verdict_of_path
from nictop.report.runs.markdown import comparison_markdown, experiment_markdown
from nictop.report.tests_summary import TestLine, test_lines, tests_verdict
from nictop.rules import HostFacts
from nictop.traffic.path.store import StoredPath

MARKDOWN_FACT_CELLS = 120
"""Width of the facts, which are a fenced code block."""


def markdown_page(report: Report) -> str:
    """The report, with a final newline."""
    parts = [
        f"# nictop report: {escape_markdown(title_text(report))}\n\n{made_at_text(report)} · nictop {__version__}\n"
    ]
    tests = test_lines(report)
    parts += [_tests(tests)] if tests else []
    if report.hosts or report.unreachable:
        beside = tests_verdict(tests)
        parts.append(check_markdown(report.hosts, report.diagnosis, report.unreachable, skipped=True, beside=beside))
    for host in report.hosts:
        facts = "\n".join(fenced_block(show_text(host.snapshot, MARKDOWN_FACT_CELLS).splitlines()))
        # HTML, not Markdown: backslash escapes have no effect in it
        name = text(host.name).replace("@", "@<!-- -->")  # GitHub finds names of users in HTML, too
        parts.append(f"<details><summary>Details of {name}</summary>\n{facts}\n{_connections(host)}\n</details>\n")
    for experiment in report.experiments:
        if experiment.comparison is not None:
            parts.append(comparison_markdown(experiment.comparison, experiment.names))
        parts.append(experiment_markdown(experiment.runs))
    parts += map(_path_test, report.path_tests)
    if report.hidden:
        parts.append(
            "## Redaction\n\n" + "\n".join(f"- {escape_markdown(sentence)}" for sentence in report.hidden) + "\n"
        )
    return "\n".join(parts)


def _connections(host: HostFacts) -> str:
    """Who used the NIC whose connections were shown; "": none were."""
    found = host_connections(host.snapshot).connections
    if found is None:
        return ""
    about = " · ".join((f"Connections of {found.nic}", *nic_texts(found)))
    lines = [line.rstrip() for line in table_lines(found, MARKDOWN_FACT_CELLS)]
    return "\n".join(("", escape_markdown(about), *fenced_block(lines), ""))


def _tests(tests: Sequence[TestLine]) -> str:
    verdict = tests_verdict(tests)
    lines = ["## Tests", "", *([f"**{verdict}**", ""] if verdict else [])]
    for line in tests:
        name = f"{line.name}: " if line.name else ""
        lines.append(f"- {escape_markdown(f'{name}{line.text}')}")
    return "\n".join(lines) + "\n"


def _path_test(path: StoredPath) -> str:
    report = path.test.report
    label = f" · {escape_markdown(path.label)}" if path.label else ""
    lines = ["## nictop path", "", f"{escape_markdown(ends_text(report))}<br>"]
    lines += [f"{wall_time_text(report.result.wall)}{label}", "", f"**{verdict_of_path(report)}**"]
    lines += fenced_block(measured_lines(report, MARKDOWN_FACT_CELLS))
    for finding in report.findings:
        lines += ["", *finding_markdown(finding, True)]
    return "\n".join(lines) + "\n"
