"""Two sweeps of the same variable, value by value: the figures of both and the verdict of each
value.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.report.document import Block, Items, Section, Table, lines_of
from nictop.report.render.markdown import markdown_of
from nictop.report.render.text import text_of
from nictop.report.runs.comparison import COMMAND, ratio_text, refusal_reasons, set_up_names
from nictop.traffic.analysis.comparison import (
    VERDICT_LABELS,
    ComparedFigure,
    Comparison,
    Spread,
    compare_stored_runs,
)
from nictop.traffic.results.selection import ByValue


@dataclass(frozen=True)
class ComparedSweeps:
    """Two sweeps, and the comparison of each of their values."""

    names: tuple[str, str]
    variable: str
    comparisons: Mapping[str, Comparison]
    """By value, in the order of the sweeps."""


def compare_sweeps(by_value: ByValue) -> ComparedSweeps:
    """`by_value`: not empty."""
    variable, comparisons = "", {}
    for value, ((name_a, a), (name_b, b)) in by_value.items():
        names, variable = (name_a, name_b), (*a, *b)[0].variable
        comparisons[value] = compare_stored_runs(a, b, names)
    return ComparedSweeps(names, variable, comparisons)


def sweeps_text(sweeps: ComparedSweeps, columns: int, glyphs: Glyphs = UNICODE) -> str:
    """With a final newline. `glyphs`: for the marks."""
    return text_of(tuple(_blocks(sweeps)), columns, glyphs)


def sweeps_markdown(sweeps: ComparedSweeps) -> str:
    """With a final newline."""
    return markdown_of([Section(tuple(_blocks(sweeps)), "Comparison", COMMAND)])


def _blocks(sweeps: ComparedSweeps) -> Iterator[Block]:
    comparisons = sweeps.comparisons
    yield set_up_names(sweeps.names)
    titles = (clean(sweeps.variable), *_figure_titles(comparisons.values()), "verdict")
    rows = tuple(_row(value, comparison) for value, comparison in comparisons.items())
    yield Section((Table(titles, rows),))
    if reasons := tuple(_reasons(comparisons)):
        yield Section((Items(lines_of(reasons)),), "Why there is no verdict")


def _figure_titles(comparisons: Iterable[Comparison]) -> tuple[str, str, str]:
    """With the name of the figure, which is that of all values."""
    named = dict.fromkeys(comparison.figures[0].measure.title for comparison in comparisons)
    return f"A, median {' or '.join(named)}", "B", "B/A (95 % interval)"


def _row(value: str, comparison: Comparison) -> tuple[str, ...]:
    figure = comparison.figures[0]
    caveat_a, caveat_b = comparison.caveats
    return (
        clean(value),
        _median_text(figure, figure.a, caveat_a),
        _median_text(figure, figure.b, caveat_b),
        ratio_text(figure.ratio),
        VERDICT_LABELS[comparison.verdict],
    )


def _median_text(figure: ComparedFigure, spread: Spread | None, caveat: str) -> str:
    """``8.00 Gb/s``, ``8.00 Gb/s ▲ path not verified``"""
    if spread is None:
        return units.UNKNOWN
    text = figure.measure.text(spread.median)
    return f"{text} {UNICODE.warning} {caveat}" if caveat else text


def _reasons(comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    """Each reason once, with its values: ``4K, 16K: one run each: spread unknown``."""
    values_of: dict[str, list[str]] = {}
    for value, comparison in comparisons.items():
        for reason in refusal_reasons(comparison):
            values_of.setdefault(reason, []).append(clean(value))
    for reason, values in values_of.items():
        yield f"{_values_text(values, len(comparisons))}: {reason}"


def _values_text(values: Sequence[str], count: int) -> str:
    return "all" if len(values) == count > 1 else ", ".join(values)
