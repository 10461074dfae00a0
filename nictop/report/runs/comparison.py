"""Comparison of set-up A with set-up B: the verdict, the figures of both, and their differences.

Reads nothing; takes a `Comparison`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean, wrap
from nictop.report.document import Block, Fact, Facts, Items, Line, Section, Table, lines_of
from nictop.report.render.text import text_of
from nictop.report.runs.run_document import RUN_LABEL_CELLS
from nictop.report.runs.sentences import CostUnit, cost_value_text, factor_text
from nictop.report.text_table import aligned_table, labelled_lines, max_line_width
from nictop.traffic.analysis.comparison import (
    VERDICT_LABELS,
    ComparedFigure,
    Comparison,
    Cost,
    Ratio,
    Spread,
)

NO_VERDICT = f"{UNICODE.warning} {VERDICT_LABELS['refused']}"
RUN_PREFIX = re.compile(r"(.{1,200}? \d+): ", re.ASCII)
"""Beginning of a refusal that is about one run: ``A 1: `` (see `comparison.compare`)."""
FIGURE_TITLES = ("geometric mean", "A", "B", "B/A (95 % interval)")
DIFFERENCE_TITLES = ("differs", "A", "B")
COMMAND = "nictop compare"


def comparison_text(
    comparison: Comparison, names: tuple[str, str], columns: int, glyphs: Glyphs = UNICODE
) -> str:
    """Verdict, figures and differences, with a final newline. `glyphs`: for the marks."""
    differences = tuple(difference_tables(comparison))
    blocks = (
        set_up_names(names),
        Section(tuple(verdict_blocks(comparison))),
        Section(tuple(figure_tables(comparison))),
        Section(differences),
    )
    return text_of(blocks, columns, glyphs)


def comparison_section(comparison: Comparison, names: tuple[str, str]) -> Section:
    """A comparison, for a page."""
    return Section(comparison_page_blocks(comparison, names), "Comparison", COMMAND)


def comparison_page_blocks(comparison: Comparison, names: tuple[str, str]) -> tuple[Block, ...]:
    differences = tuple(difference_tables(comparison))
    return (
        set_up_names(names),
        *verdict_blocks(comparison),
        *figure_tables(comparison),
        *(Section((table,), "In what the two differ", form="fold") for table in differences),
    )


def set_up_names(names: tuple[str, str]) -> Items:
    return Items(lines_of((f"A: {names[0]}", f"B: {names[1]}")))


def verdict_blocks(comparison: Comparison) -> Iterator[Block]:
    """The verdict, or what is known and the reasons why there is none."""
    reasons = refusal_reasons(comparison)
    if not reasons:
        yield Facts((Fact("verdict", comparison.sentence, "verdict"),), RUN_LABEL_CELLS)
        return
    if known := comparison.known_text:
        yield Line(known)
    yield Line(NO_VERDICT, "verdict")
    yield Items(lines_of(reasons), indent=2)


def refusal_reasons(comparison: Comparison) -> tuple[str, ...]:
    """Why there is no verdict, each reason once, with the runs that have it: ``A 1, A 2: CPU not
    measured``."""
    runs_of: dict[str, list[str]] = {}
    for refusal in comparison.refusals:
        run = RUN_PREFIX.match(refusal)
        if run is None:
            runs_of.setdefault(refusal, [])
        else:
            runs_of.setdefault(refusal[run.end() :], []).append(run[1])
    return tuple(_refusal_text(reason, runs) for reason, runs in runs_of.items())


def _refusal_text(reason: str, runs: Sequence[str]) -> str:
    return f"{', '.join(runs)}: {reason}" if runs else reason


# ------------------------------------------------------------------------------------------ figures


def figure_tables(comparison: Comparison) -> Iterator[Table]:
    """The table of `figure_rows`; nothing if there are none."""
    titles, *rows = figure_rows(comparison)
    if rows:
        yield Table(titles, tuple(rows), layout=partial(_figure_lines, rows))


def _figure_lines(rows: Sequence[tuple[str, ...]], room: int) -> Iterator[str]:
    """A table if it fits, else a sentence per row."""
    table = aligned_table([FIGURE_TITLES, *rows])
    if max_line_width(table) <= room:
        yield from table
        return
    yield FIGURE_TITLES[0]
    for what, a, b, ratio in rows:
        text = f"{what}: A {a}, B {b}"
        if ratio:
            text += f", B/A {ratio}"
        yield from wrap(text, room)


def figure_rows(comparison: Comparison) -> Sequence[tuple[str, ...]]:
    """(figure, A, B, B/A), titles first: goodput, or transactions and latencies, and CPU cost of
    each host. B/A is in the rows of geometric means only, as it is their ratio; that of the medians
    differs."""
    figures = [figure for figure in comparison.figures if _spreads(figure) != (None, None)]
    rows: list[tuple[str, ...]] = [
        FIGURE_TITLES,
        *map(_mean_row, figures),
        *map(_cost_row, comparison.costs),
    ]
    for number, figure in enumerate(figures):
        rows += _spread_rows(figure)
        if number == 0:
            rows += (_number_of_runs(figure), *_caveat_rows(comparison))
    return rows


def _spreads(figure: ComparedFigure) -> tuple[Spread | None, Spread | None]:
    """Of A and B."""
    return figure.a, figure.b


def _mean_row(figure: ComparedFigure) -> tuple[str, ...]:
    means = map(_geometric_mean, _spreads(figure))
    return (figure.measure.title, *map(figure.measure.text, means), ratio_text(figure.ratio))


def _cost_row(cost: Cost) -> tuple[str, ...]:
    means = (_cost_mean_text(_geometric_mean(spread), cost.per) for spread in (cost.a, cost.b))
    return (f"CPU per {cost.per}, {cost.role}", *means, ratio_text(cost.ratio))


def _cost_mean_text(mean: float | None, unit: CostUnit) -> str:
    return units.UNKNOWN if mean is None else cost_value_text(mean, unit)


def _geometric_mean(spread: Spread | None) -> float | None:
    return None if spread is None else spread.geometric_mean


def _spread_rows(figure: ComparedFigure) -> Iterator[tuple[str, ...]]:
    """Median, lowest and highest run of both."""
    labels = {"median": f"{figure.measure.title}, median", "lowest": "lowest", "highest": "highest"}
    for name, label in labels.items():
        values = (_value_of(spread, name) for spread in _spreads(figure))
        yield (label, *map(figure.measure.text, values), "")


def _value_of(spread: Spread | None, name: str) -> float | None:
    return None if spread is None else getattr(spread, name)


def _number_of_runs(figure: ComparedFigure) -> tuple[str, ...]:
    return ("runs", *map(_number_in, _spreads(figure)), "")


def _number_in(spread: Spread | None) -> str:
    return "0" if spread is None else str(len(spread.values))


def _caveat_rows(comparison: Comparison) -> Sequence[tuple[str, ...]]:
    """What the figures of A and B lack; no row if they lack nothing."""
    if not any(comparison.caveats):
        return ()
    return (("caveat", *map(_caveat_cell, comparison.caveats), ""),)


def _caveat_cell(caveat: str) -> str:
    return f"{UNICODE.warning} {caveat}" if caveat else "path verified"


def ratio_text(ratio: Ratio | None) -> str:
    """``1.60 (1.55 to 1.66)``"""
    if ratio is None:
        return units.UNKNOWN
    low, high = factor_text(ratio.low), factor_text(ratio.high)
    return f"{factor_text(ratio.estimate)} ({low} to {high})"


def difference_tables(comparison: Comparison) -> Iterator[Table]:
    """In what the set-ups differ; nothing if they do not."""
    differences = comparison.difference_texts
    if differences:
        layout = partial(_difference_lines, differences)
        yield Table(DIFFERENCE_TITLES, differences, left=3, layout=layout)


def _difference_lines(differences: Sequence[tuple[str, str, str]], room: int) -> Iterator[str]:
    """A table if it fits, else each value on a line of its own."""
    table = aligned_table([DIFFERENCE_TITLES, *differences], left=3)
    if max_line_width(table) <= room:
        yield from table
        return
    yield DIFFERENCE_TITLES[0]
    for what, a, b in differences:
        yield from wrap(f"  {clean(what)}", room)
        yield from labelled_lines("A", a, room, label_cells=1, indent=4)
        yield from labelled_lines("B", b, room, label_cells=1, indent=4)
