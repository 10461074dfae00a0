"""Traffic runs, experiments and comparisons as Markdown, for a ticket or a chat.

Reads nothing. Text from hosts and files is escaped: it cannot become markup (`findings.markdown`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.text.terminal import clean
from nictop.model.text.units import wall_time_text
from nictop.report.findings.markdown import escape_markdown, fenced_block, finding_markdown
from nictop.report.runs.comparison import NO_VERDICT, figure_rows, refusal_reasons
from nictop.report.runs.histogram import histogram_lines
from nictop.report.runs.limits import LIMIT_TITLES, bottleneck_headline, limit_cells
from nictop.report.runs.points import column_titles, cost_note, experiment_summary, point_cells, set_up_points
from nictop.report.runs.sentences import KIND_LABELS, endpoints_text, plan_text, result_sentences
from nictop.traffic.analysis.comparison import Comparison
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun

HISTOGRAM_CELLS = 80


def run_markdown(result: Result) -> str:
    """One run; with a final newline."""
    lines = ["## nictop traffic", "", *_run_lines(result)]
    return "\n".join(lines) + "\n"


def experiment_markdown(kept: Sequence[StoredRun]) -> str:
    """A table with a row per set-up, then each run; a single run without the table. "": there are no runs."""
    if len(kept) == 1:
        return run_markdown(kept[0].result)
    found = set_up_points(kept)
    if not found:
        return ""
    lines = ["## nictop traffic", "", escape_markdown(experiment_summary(kept)), ""]
    lines += [*_table([column_titles(found, kept[0].variable), *map(point_cells, found)]), "", cost_note(found)]
    for one in kept:
        name = " ".join(part for part in (one.group, one.variable, one.value) if part)
        lines += [
            "",
            f"### Run {one.number}" + (f": {escape_markdown(name)}" if name else ""),
            "",
            *_run_lines(one.result),
        ]
    return "\n".join(lines) + "\n"


def comparison_markdown(comparison: Comparison, names: tuple[str, str]) -> str:
    """Verdict, figures, differences; with a final newline."""
    lines = ["## nictop compare", "", f"- A: {escape_markdown(names[0])}", f"- B: {escape_markdown(names[1])}", ""]
    why = refusal_reasons(comparison)
    if why:
        known = comparison.known_text
        lines += [escape_markdown(known), ""] if known else []
        lines += [f"**{NO_VERDICT}**", "", *(f"- {escape_markdown(reason)}" for reason in why)]
    else:
        lines += [f"**verdict**: {escape_markdown(comparison.sentence)}"]
    rows = figure_rows(comparison)
    lines += ["", *_table(rows)] if len(rows) > 1 else []
    if comparison.differences:
        lines += ["", *_table([("differs", "A", "B"), *comparison.differences])]
    return "\n".join(lines) + "\n"


def _run_lines(result: Result) -> Iterator[str]:
    yield f"{escape_markdown(endpoints_text(result))}<br>"
    yield f"{escape_markdown(plan_text(result.plan))} · {wall_time_text(result.wall)}"
    yield ""
    commands: list[str] = []
    for kind, text in result_sentences(result):
        if kind == "type":
            commands.append(text)
            continue
        yield from _fenced(commands)
        if kind == "held back" and result.limits:
            yield f"- **{KIND_LABELS[kind]}** {escape_markdown(bottleneck_headline(result.limits))}"
            continue
        yield f"- **{KIND_LABELS.get(kind, kind)}** {escape_markdown(text)}"
    yield from _fenced(commands)
    if result.limits:
        yield from ("", *_table([LIMIT_TITLES, *limit_cells(result.limits)]))
    if result.transactions is not None and (bars := histogram_lines(result.transactions.latency, HISTOGRAM_CELLS)):
        yield from ("", "Histogram: latency from, transactions", "", *fenced_block(bars))
    if result.facts:
        rows = [("what", "value"), *result.facts.items()]
        yield from ("", "<details><summary>Set-up of the run</summary>", "", *_table(rows), "", "</details>")
    for finding in result.path_test.report.findings if result.path_test is not None else ():
        yield ""
        yield from finding_markdown(finding, True)


def _fenced(commands: list[str]) -> Iterator[str]:
    if commands:
        yield from (*fenced_block(commands), "")
        commands.clear()


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(escape_markdown(clean(cell)) for cell in row)} |"
        if not number:
            yield "|" + "---|" * len(row)
