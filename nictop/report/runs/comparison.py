"""Comparison of set-up A with set-up B as text: the verdict, the figures of both, and their differences.

Reads nothing; takes a `Comparison`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean, wrap
from nictop.report.runs.sentences import cost_value_text
from nictop.report.runs.text import labelled
from nictop.report.text_table import aligned_table, layout_width, max_line_width
from nictop.traffic.analysis.comparison import VERDICT_LABELS, Comparison, Ratio

NO_VERDICT = VERDICT_LABELS["refused"]
"""Follows the mark of a warning."""
RUN_PREFIX = re.compile(r"(.{1,200}? \d+): ", re.ASCII)
"""Beginning of a refusal that is about one run: ``A 1: `` (see `comparison.compare`)."""


def comparison_text(comparison: Comparison, names: tuple[str, str], columns: int, glyphs: Glyphs = UNICODE) -> str:
    """Verdict, figures and differences, with a final newline. `glyphs`: for the marks."""
    room = layout_width(columns)
    lines = [*wrap(f"A: {names[0]}", room), *wrap(f"B: {names[1]}", room), ""]
    lines += verdict_lines(comparison, room, glyphs)
    table = aligned_table(figure_rows(comparison))
    if len(table) > 1:
        lines += ["", *(table if max_line_width(table) <= room else _narrow(comparison, room))]
    lines += _difference_lines(comparison, room)
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text.replace(UNICODE.warning, glyphs.warning)


def verdict_lines(comparison: Comparison, room: int, glyphs: Glyphs = UNICODE) -> Iterator[str]:
    """The verdict, or what is known and the reasons why there is none, each on its own line."""
    reasons = refusal_reasons(comparison)
    if not reasons:
        yield from labelled("verdict", comparison.sentence, room)
        return
    if known := comparison.known_text:
        yield from wrap(known, room)
    yield f"{glyphs.warning} {NO_VERDICT}"
    for reason in reasons:
        yield from (f"  {part}" for part in wrap(reason, room - 2))


def refusal_reasons(comparison: Comparison) -> tuple[str, ...]:
    """Why there is no verdict, each reason once, with the runs that have it: ``A 1, A 2: CPU not measured``."""
    found: dict[str, list[str]] = {}
    for refusal in comparison.refusals:
        run = RUN_PREFIX.match(refusal)
        runs = found.setdefault(refusal[run.end() :] if run else refusal, [])
        runs += [run[1]] if run else []
    return tuple(f"{', '.join(runs)}: {reason}" if runs else reason for reason, runs in found.items())


def figure_rows(comparison: Comparison) -> Sequence[tuple[str, ...]]:
    """(figure, A, B, B/A), titles first: goodput, or transactions and latencies, and CPU cost of each host. B/A is in
    the rows of geometric means only, as it is their ratio; that of the medians differs."""
    rows: list[tuple[str, ...]] = [("geometric mean", "A", "B", "B/A (95 % interval)")]
    figures = [one for one in comparison.figures if one.a is not None or one.b is not None]
    for one in figures:
        means = [None if spread is None else spread.geometric_mean for spread in (one.a, one.b)]
        rows.append((one.measure.title, *map(one.measure.text, means), ratio_text(one.ratio)))
    for cost in comparison.costs:
        means = [None if spread is None else spread.geometric_mean for spread in (cost.a, cost.b)]
        each = (units.UNKNOWN if mean is None else cost_value_text(mean, cost.per) for mean in means)
        rows.append((f"CPU per {cost.per}, {clean(cost.role)}", *each, ratio_text(cost.ratio)))
    for number, one in enumerate(figures):
        spreads = one.a, one.b
        for label, name in ((f"{one.measure.title}, median", "median"), ("lowest", "lowest"), ("highest", "highest")):
            values = (None if spread is None else getattr(spread, name) for spread in spreads)
            rows.append((label, *map(one.measure.text, values), ""))
        if not number:
            runs = (str(len(spread.values)) if spread is not None else "0" for spread in spreads)
            rows.append(("runs", *runs, ""))
            rows += _caveat_rows(comparison)
    return rows


def _caveat_rows(comparison: Comparison) -> Sequence[tuple[str, ...]]:
    """What the figures of A and B lack; no row if they lack nothing."""
    if not any(comparison.caveats):
        return ()
    cells = (f"{UNICODE.warning} {caveat}" if caveat else "path verified" for caveat in comparison.caveats)
    return (("caveat", *cells, ""),)


def ratio_text(ratio: Ratio | None) -> str:
    """``1.60 (1.55 to 1.66)``"""
    if ratio is None:
        return units.UNKNOWN
    return f"{_factor(ratio.estimate)} ({_factor(ratio.low)} to {_factor(ratio.high)})"


def _factor(value: float) -> str:
    return units.significant(value) if value < 999.5 else units.quantity(value, "")


def _narrow(comparison: Comparison, room: int) -> Iterator[str]:
    titles, *rows = figure_rows(comparison)
    yield titles[0]
    for what, a, b, ratio in rows:
        yield from wrap(f"{what}: A {a}, B {b}" + (f", B/A {ratio}" if ratio else ""), room)


def _difference_lines(comparison: Comparison, room: int) -> Iterator[str]:
    """Differences of the set-ups, as a table if it fits, else each value on a line of its own."""
    if not comparison.differences:
        return
    yield ""
    table = aligned_table([("differs", "A", "B"), *comparison.differences], left=3)
    if max_line_width(table) <= room:
        yield from table
        return
    yield "differs"
    for what, one, other in comparison.differences:
        yield from wrap(f"  {clean(what)}", room)
        yield from (f"    A {part}" if not number else f"      {part}" for number, part in _numbered(one, room))
        yield from (f"    B {part}" if not number else f"      {part}" for number, part in _numbered(other, room))


def _numbered(text: str, room: int) -> Iterator[tuple[int, str]]:
    return enumerate(wrap(text, room - 6))
