"""Runs as HTML: each with a chart and its sentences; sweeps and repeats as bars; comparisons with their verdict.

Reads nothing; takes experiments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.text.glyphs import UNICODE
from nictop.model.text.units import wall_time_text
from nictop.report.html.charts import Bar, bar_chart, run_chart
from nictop.report.html.elements import Html, details_element, element, join_html, table
from nictop.report.html.findings import command_block, finding_html
from nictop.report.html.latency_charts import latency_charts
from nictop.report.page import ReportedExperiment
from nictop.report.runs.comparison import NO_VERDICT, figure_rows, refusal_reasons
from nictop.report.runs.limits import LIMIT_TITLES, bottleneck_headline, limit_cells
from nictop.report.runs.points import (
    SetUpPoint,
    column_titles,
    cost_note,
    experiment_summary,
    point_cells,
    set_up_points,
)
from nictop.report.runs.sentences import KIND_LABELS, endpoints_text, plan_text, result_sentences
from nictop.traffic.analysis.comparison import Comparison
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun

SENTENCE_CLASSES = {
    "failed": "bad",
    "path finding": "warn",
    "not ranked": "warn",
    "goodput": "verdict",
    "transactions": "verdict",
    "under load": "verdict",
}
VERDICT_CLASSES = {"cause": "verdict", "possible": "", "excluded": "dim"}


def experiment_html(experiment: ReportedExperiment, number: int) -> Html:
    """The section of one experiment; a single run has no bars and no table."""
    runs = experiment.runs
    if len(runs) == 1:
        return element("section", element("h2", "Traffic"), _run(runs[0].result), id_=f"traffic-{number}")
    return element(
        "section",
        element("h2", "Traffic: ", experiment_summary(runs) or "comparison"),
        *(_comparison(experiment.comparison, experiment) if experiment.comparison is not None else ()),
        *(_points(runs) if runs else ()),
        *(details_element(_title(one), _run(one.result)) for one in runs),
        id_=f"traffic-{number}",
    )


def _title(run: StoredRun) -> Html:
    name = " ".join(part for part in (run.group, run.variable, run.value) if part)
    title = f"Run {run.number}" + (f": {name}" if name else "")
    return join_html((element("bdi", title), element("span", f" · {wall_time_text(run.result.wall)}", class_="dim")))


def _run(result: Result) -> Html:
    findings = result.path_test.report.findings if result.path_test is not None else ()
    return element(
        "article",
        element("h3", endpoints_text(result)),
        element("p", f"{plan_text(result.plan)} · {wall_time_text(result.wall)}", class_="dim"),
        run_chart(result),
        latency_charts(result),
        *_sentences(result),
        *(finding_html(one, True) for one in findings),
        *_setup(result),
        class_="run",
    )


def _sentences(result: Result) -> Iterator[Html]:
    """The sentences about a run (`result_sentences`); commands come last."""
    commands: list[str] = []
    rows: list[Html] = []
    for kind, text in result_sentences(result):
        if kind == "type":
            commands.append(text)
        elif kind == "held back" and result.limits:
            shown = element(
                "dd", bottleneck_headline(result.limits), table(LIMIT_TITLES, _limits(result), class_="limits")
            )
            rows.append(join_html((element("dt", KIND_LABELS[kind]), shown)))
        else:
            rows.append(
                join_html(
                    (
                        element("dt", KIND_LABELS.get(kind, kind)),
                        element("dd", text, class_=_sentence_class(kind, text)),
                    )
                )
            )
    yield element("dl", *rows)
    yield from command_block(commands)


def _limits(result: Result) -> Iterator[tuple[str, str, Html]]:
    for limit, value, verdict in limit_cells(result.limits):
        yield limit, value, element("td", verdict, class_=VERDICT_CLASSES[verdict])


def _sentence_class(kind: str, text: str) -> str:
    """A figure with a caveat is no verdict."""
    return "warn" if text.startswith(UNICODE.warning) else SENTENCE_CLASSES.get(kind, "")


def _setup(result: Result) -> Iterator[Html]:
    if result.facts:
        yield details_element("Set-up of the run", table(("what", "value"), result.facts.items()))


def _points(runs: Sequence[StoredRun]) -> Iterator[Html]:
    found = set_up_points(runs)
    bars = [
        Bar(
            point.value or point.group or "all",
            point.main.median if point.main is not None else None,
            point.main.lowest if point.main is not None else None,
            point.main.highest if point.main is not None else None,
            point.main.values if point.main is not None else (),
            _bar_text(point),
        )
        for point in found
    ]
    measure = found[0].measures[0]
    title = f"{measure.title} by {runs[0].variable}" if runs[0].variable else measure.title
    yield bar_chart(bars, title, _ceiling(runs) if measure.name == "goodput" else None)
    yield table(column_titles(found, runs[0].variable), map(point_cells, found), numbers_from=1)
    yield element("p", cost_note(found), class_="dim")


def _bar_text(point: SetUpPoint) -> str:
    """With the mark of a caveat; the table has its words."""
    value = point.measures[0].text(point.main.median if point.main is not None else None)
    return f"{value} {UNICODE.warning}" if point.caveat else value


def _ceiling(runs: Sequence[StoredRun]) -> float | None:
    """The ceiling (bits per second) of all runs; None: it differs, or is unknown."""
    known = {one.result.ceiling.goodput if one.result.ceiling is not None else None for one in runs}
    return known.pop() if len(known) == 1 else None


def _comparison(comparison: Comparison, experiment: ReportedExperiment) -> Iterator[Html]:
    reasons = refusal_reasons(comparison)
    if reasons:
        if known := comparison.known_text:
            yield element("p", known)
        yield element("p", f"{UNICODE.warning} {NO_VERDICT}", class_="verdict")
        yield element("ul", *(element("li", reason) for reason in reasons))
    else:
        yield element("p", comparison.sentence, class_="verdict")
    yield element("p", "A: ", element("bdi", experiment.names[0]), " · B: ", element("bdi", experiment.names[1]))
    rows = figure_rows(comparison)
    if len(rows) > 1:
        yield table(rows[0], rows[1:], numbers_from=1)
    if comparison.differences:
        yield details_element("In what the two differ", table(("differs", "A", "B"), comparison.differences))
