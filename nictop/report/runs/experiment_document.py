"""An experiment as a document: its comparison, the figures of its set-ups, and its runs.

Reads nothing; takes stored runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nictop.model.text.glyphs import UNICODE
from nictop.model.text.terminal import wrap
from nictop.model.text.units import wall_time_text
from nictop.probe.light_dataclasses import replace
from nictop.report.document import (
    Bar,
    BarChart,
    BarCost,
    Block,
    Fact,
    Facts,
    Line,
    Section,
    Table,
    Toned,
    lines_of,
)
from nictop.report.runs.comparison import comparison_section
from nictop.report.runs.limits import shortened
from nictop.report.runs.points import (
    SetUpPoint,
    column_titles,
    cost_note,
    experiment_summary,
    median_run,
    point_cells,
    set_up_points,
)
from nictop.report.runs.run_document import (
    RUN_LABEL_CELLS,
    run_blocks,
    run_page_blocks,
    sentence_fact,
)
from nictop.report.runs.sentences import (
    KIND_LABELS,
    Kind,
    ResultSentence,
    ceiling_texts,
    cost_with_unit,
    host_role_text,
    result_sentences,
)
from nictop.report.text_table import aligned_table, max_line_width
from nictop.traffic.results.selection import StoredRun

if TYPE_CHECKING:
    from nictop.report.page import ReportedExperiment

COMMAND = "nictop traffic"
"""Title in Markdown."""
COMMON_KINDS = ("failed", "type", "path finding", "note", "not ranked")
"""Kinds of sentences that are listed for every run."""
MEDIAN_KINDS: tuple[Kind, ...] = ("under load", "held back")
"""Kinds of sentences that are listed for the run with the median of each set-up."""
COMMON_ORDER: tuple[Kind, ...] = (
    "failed",
    "type",
    *MEDIAN_KINDS,
    "path finding",
    "note",
    "not ranked",
)
SUMMARY_COLUMNS = 6
"""Leading columns of the table of an experiment: name, runs, goodput, share of the ceiling."""


def experiment_blocks(runs: Sequence[StoredRun]) -> tuple[Block, ...]:
    """An experiment, for a terminal: one line per set-up, then what is true of its runs, each once.
    A single run as by `run_blocks`."""
    if len(runs) == 1:
        return run_blocks(runs[0].result)
    points = set_up_points(runs)
    if not points:
        return ()
    has_figures = any(point.main for point in points)
    note = lines_of([cost_note(points)] if has_figures else ())
    facts = (*ceiling_facts(runs), *common_facts(points))
    return (
        Line(experiment_summary(runs)),
        Section((points_table(points, runs[0].variable), *note)),
        Section((Facts(facts, RUN_LABEL_CELLS),)),
    )


def experiment_section(experiment: ReportedExperiment, number: int) -> Section:
    """An experiment, for a page: its comparison, the figures of its set-ups, and each run."""
    anchor, entry = f"traffic-{number}", f"Traffic {number}"
    comparison = experiment.comparison
    compared = None
    if comparison is not None:
        compared = comparison_section(comparison, experiment.names)
    if compared is not None and not experiment.runs:
        title = f"{entry}: comparison"
        return replace(compared, title=title, anchor=anchor, entry=entry)
    blocks = experiment_page_blocks(experiment.runs)
    if compared is not None:
        blocks = (compared, *blocks)
    return Section(blocks, entry, COMMAND, anchor=anchor, entry=entry)


def experiment_page_blocks(runs: Sequence[StoredRun]) -> tuple[Block, ...]:
    if len(runs) == 1:
        return (Section(run_page_blocks(runs[0].result), form="box"),)
    points = set_up_points(runs)
    if not points:
        return ()
    return (
        Line(experiment_summary(runs)),
        bars_of(points, runs),
        points_table(points, runs[0].variable),
        Line(cost_note(points), "dim"),
        *map(numbered_run, runs),
    )


def numbered_run(run: StoredRun) -> Section:
    group = run.group if run.group != run.value else ""
    name = " ".join(filter(None, (group, run.variable, run.value)))
    title = f"Run {run.number}"
    if name:
        title += f": {name}"
    blocks = (Section(run_page_blocks(run.result), form="box"),)
    return Section(blocks, title, note=Toned(wall_time_text(run.result.wall), "dim"), form="fold")


def points_table(points: Sequence[SetUpPoint], variable: str) -> Table:
    titles = column_titles(points, variable)
    rows = tuple(map(point_cells, points))
    return Table(titles, rows, layout=partial(_point_lines, titles, rows))


def _point_lines(
    titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], room: int
) -> Iterator[str]:
    """The table of set-ups; if it does not fit, its last columns, or all but the first, follow
    below each line."""
    for columns in (len(titles), SUMMARY_COLUMNS):
        table = aligned_table([titles[:columns], *(row[:columns] for row in rows)])
        if max_line_width(table) <= room:
            yield table[0]
            for line, row in zip(table[1:], rows, strict=True):
                yield line
                yield from _further_cells(titles[columns:], row[columns:], room)
            return
    yield from wrap(titles[0], room)
    for row in rows:
        yield from wrap(row[0], room)
        yield from _further_cells(titles[1:], row[1:], room)


def _further_cells(titles: Sequence[str], cells: Sequence[str], room: int) -> Iterator[str]:
    text = ", ".join(f"{title} {cell}" for title, cell in zip(titles, cells, strict=True))
    if text:
        yield from (f"  {part}" for part in wrap(text, room - 2))


def ceiling_facts(runs: Sequence[StoredRun]) -> Iterator[Fact]:
    """That of the first run which has one."""
    for run in runs:
        if run.result.ceiling is not None:
            for text in ceiling_texts(run.result):
                yield Fact(KIND_LABELS["ceiling"], text)
            return


def common_facts(points: Sequence[SetUpPoint]) -> Iterator[Fact]:
    """Bottlenecks, notes, failures and reasons: each once, with the set-ups it applies to."""
    names_of: dict[ResultSentence, dict[str, None]] = {}
    for point in points:
        name = point_cells(point)[0]
        for sentence in listed_sentences(point):
            names_of.setdefault(sentence, {})[name] = None
    in_order = sorted(names_of, key=lambda sentence: COMMON_ORDER.index(sentence.kind))
    for sentence in in_order:
        kind, text = sentence
        names = names_of[sentence]
        if kind != "type" and len(names) < len(points):
            text = f"{', '.join(names)}: {text}"
        yield sentence_fact(ResultSentence(kind, text), ())


def listed_sentences(point: SetUpPoint) -> Iterator[ResultSentence]:
    """Those of the runs of a set-up that are about more than the figures of one run."""
    middle = median_run(point)
    for run in point.runs:
        kinds = (*COMMON_KINDS, *MEDIAN_KINDS) if run is middle else COMMON_KINDS
        for sentence in result_sentences(run.result):
            if sentence.kind in kinds:
                yield shortened(run.result.limits, sentence)


def bars_of(points: Sequence[SetUpPoint], runs: Sequence[StoredRun]) -> BarChart:
    """The deciding figure of each set-up."""
    measure = points[0].measures[0]
    variable = runs[0].variable
    title = measure.title
    if variable:
        title += f" by {variable}"
    ceiling = None
    if measure.name == "goodput":
        ceiling = common_ceiling(runs)
    bars = tuple(map(bar_of, points))
    return BarChart(bars, title, ceiling, cost_note(points).removeprefix("CPU: "))


def bar_of(point: SetUpPoint) -> Bar:
    label = point.value or point.group or "all"
    known, measure = point.main, point.measures[0]
    if known is None:
        return Bar(label, None, text=marked(measure.text(None), point))
    text = marked(measure.text(known.median), point)
    costs = tuple(costs_of(point))
    return Bar(label, known.median, known.lowest, known.highest, known.values, text, costs)


def costs_of(point: SetUpPoint) -> Iterator[BarCost]:
    """The median of each host that has one."""
    for role, host, cost in point.costs:
        if cost is not None:
            text = cost_with_unit(cost.median, point.cost_unit)
            yield BarCost(host_role_text(role, host), cost.median, text)


def marked(figure: str, point: SetUpPoint) -> str:
    """With the mark of a caveat; the table has its words."""
    return f"{figure} {UNICODE.warning}" if point.caveat else figure


def common_ceiling(runs: Sequence[StoredRun]) -> float | None:
    """The ceiling (bits per second) of all runs, for what all directions carry together; None: it
    differs, or is unknown."""
    ceilings = {run.result.total_ceiling for run in runs}
    return ceilings.pop() if len(ceilings) == 1 else None
