"""The bottleneck of a run as a table: limit, value, verdict.

CPU 2 on vm2 (receiver)  97 % softirq, single queue   cause
receive window           6.0 MiB / 300 µs = 168 Gb/s  excluded

Reads nothing. All texts are cleaned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from nictop.model.text.terminal import clean, fit, width, wrap
from nictop.probe.light_tuples import NamedTuple
from nictop.report.runs.sentences import ResultSentence
from nictop.report.text_table import GAP
from nictop.traffic.results.result import NOT_DETERMINED, ExaminedLimit, LimitVerdict

LIMIT_TITLES = ("limit", "value", "verdict")
VERDICT_CELLS = len("excluded")
UNKNOWN_VALUE = "not known"
MIN_TABLE_CELLS = 56
"""On a narrower terminal each limit is a sentence."""
MAX_LIMIT_SHARE = 0.4
"""Of the cells of limit and value together, for the limit."""


class LimitLine(NamedTuple):
    """One line of the table."""

    verdict: LimitVerdict | None
    """Of its row; None: the line of the titles."""
    text: str


def bottleneck_headline(limits: Sequence[ExaminedLimit]) -> str:
    """``CPU 2 on vm2 (receiver)``, or ``not determined``."""
    cause = cause_of(limits)
    return NOT_DETERMINED if cause is None else clean(cause.limit)


def bottleneck_summary(limits: Sequence[ExaminedLimit]) -> str:
    """The cause with its figures, or what is possible: for the list of several runs, without what
    was excluded."""
    cause = cause_of(limits)
    if cause is not None:
        return ": ".join(filter(None, (clean(cause.limit), clean(cause.value))))
    possible = [clean(limit.limit) for limit in limits if limit.verdict == "possible"]
    return f"{NOT_DETERMINED}; possible: {', '.join(possible)}"


def cause_of(limits: Sequence[ExaminedLimit]) -> ExaminedLimit | None:
    """What held the run back; None: it was not determined."""
    for limit in limits:
        if limit.verdict == "cause":
            return limit
    return None


def shortened(limits: Sequence[ExaminedLimit], sentence: ResultSentence) -> ResultSentence:
    """The sentence; that about the bottleneck without what was excluded."""
    if sentence.kind == "held back" and limits:
        return ResultSentence(sentence.kind, bottleneck_summary(limits))
    return sentence


def limit_cells(limits: Sequence[ExaminedLimit]) -> Iterator[tuple[str, str, str]]:
    """A row of the table for each limit."""
    for limit in limits:
        yield clean(limit.limit), _value(limit), limit.verdict


def _value(limit: ExaminedLimit) -> str:
    """Its figures; of a limit that is possible because nothing is known of it: ``not known``."""
    if not limit.value and limit.verdict == "possible":
        return UNKNOWN_VALUE
    return clean(limit.value)


def limit_lines(limits: Sequence[ExaminedLimit], room: int) -> Iterator[LimitLine]:
    """The table, with titles, in lines of at most `room` cells; long cells are wrapped."""
    if room < MIN_TABLE_CELLS:
        yield from _limit_sentences(limits, room)
        return
    widths: tuple[int, ...] = (
        *_column_cells(limits, room - VERDICT_CELLS - 2 * len(GAP)),
        VERDICT_CELLS,
    )
    yield LimitLine(None, _line(LIMIT_TITLES, widths))
    for limit in limits:
        value = _value(limit)
        if value:
            cells = widths
            columns: tuple[tuple[str, ...], ...] = (
                wrap(limit.limit, cells[0]),
                wrap(value, cells[1]),
                (limit.verdict,),
            )
        else:  # the limit takes both columns
            cells = (widths[0] + len(GAP) + widths[1], VERDICT_CELLS)
            columns = (wrap(limit.limit, cells[0]), (limit.verdict,))
        for parts in zip_longest(*columns, fillvalue=""):
            yield LimitLine(limit.verdict, _line(parts, cells))


def _column_cells(limits: Sequence[ExaminedLimit], room: int) -> tuple[int, int]:
    """Cells of limit and value: as many as they need, if both fit; else the limit is wrapped
    first."""
    rows = [LIMIT_TITLES, *(row for row in limit_cells(limits) if row[1])]
    longest = [max(width(row[column]) for row in rows) for column in (0, 1)]
    limit = min(longest[0], max(int(MAX_LIMIT_SHARE * room), room - longest[1]))
    return limit, min(longest[1], room - limit)


def _line(parts: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(fit(part, cells) for part, cells in zip(parts, widths, strict=True)).rstrip()


def _limit_sentences(limits: Sequence[ExaminedLimit], room: int) -> Iterator[LimitLine]:
    """``excluded: receive window: full 3 % of the time``"""
    for limit in limits:
        text = ": ".join(filter(None, (limit.verdict, limit.limit, _value(limit))))
        for part in wrap(text, room):
            yield LimitLine(limit.verdict, part)
