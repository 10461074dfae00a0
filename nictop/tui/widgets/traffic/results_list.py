"""The set-ups of which results are kept, one line each: when, between whom, what was special, what arrived.

  WHEN              ENDS                RUNS  GOODPUT    WHAT
A 2026-11-21 08:01  vm1 → vm2              5  9.38 Gb/s  compare queues 1
B 2026-11-21 08:01  vm1 → vm2              5  9.41 Gb/s  compare queues 4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nictop.model.columns.column import REMAINING_WIDTH, Cell, Column, sized_columns
from nictop.model.text import units
from nictop.report.runs.points import SetUpPoint, set_up_points
from nictop.report.runs.sentences import hosts_text, wall_time_text
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.base.table_line import cell_spans, headings

MINUTES = len("2026-11-21 08:01")
MAX_CELLS = 40
"""Width of a column but the last."""


@dataclass(frozen=True)
class ResultGroup:
    """Runs of one set-up of one experiment."""

    key: str
    point: SetUpPoint
    experiment: tuple[StoredRun, ...]
    """All runs of the experiment, in order."""

    @property
    def first(self) -> StoredRun:
        return self.point.runs[0]

    @property
    def name(self) -> str:
        """Its name in a comparison: label and varied value, or the number of its run."""
        kept = self.first
        varied = f"{kept.variable} {kept.value}" if kept.value else ""
        return " ".join(part for part in (kept.label, varied) if part) or f"run {kept.identity}"


def _runs(row: ResultGroup) -> str:
    found = row.point
    return f"{len(found.runs) - found.failed}/{len(found.runs)}" if found.failed else str(len(found.runs))


def _goodput(row: ResultGroup) -> Cell:
    goodput = row.point.goodput
    return (units.bits_per_second(goodput.median), "title") if goodput is not None else ("failed", "bad")


def _what(row: ResultGroup) -> str:
    kept, plan = row.first, row.first.result.plan
    varied = f"{kept.variable} {kept.value}" if kept.value else ""
    words = (kept.label, kept.kind if kept.kind != "run" else "", varied, plan.protocol.upper(), plan.generator)
    return " ".join(word for word in words if word)


COLUMNS: tuple[Column[ResultGroup], ...] = (
    Column("when", "WHEN", "", MAX_CELLS, 1, "left", lambda row: wall_time_text(row.first.result.wall)[:MINUTES]),
    Column("ends", "ENDS", "", MAX_CELLS, 1, "left", lambda row: hosts_text(row.first.result.plan)),
    Column("runs", "RUNS", "", MAX_CELLS, 1, "right", _runs),
    Column("goodput", "GOODPUT", "", MAX_CELLS, 1, "right", _goodput),
    Column("what", "WHAT", "", REMAINING_WIDTH, 1, "left", _what),
)


def set_ups(runs: Sequence[StoredRun]) -> tuple[ResultGroup, ...]:
    """Newest experiment first; within one, in the order of their first runs."""
    experiments: dict[str, list[StoredRun]] = {}
    for one in runs:
        experiments.setdefault(one.experiment, []).append(one)
    found = []
    for identity, members in experiments.items():
        ordered = tuple(sorted(members, key=lambda one: one.number))
        found += [ResultGroup(f"{identity} {one.group} {one.value}", one, ordered) for one in set_up_points(ordered)]
    return tuple(found)


class SetUpList(ChoiceView):
    """Two of the lines may be marked: A and B."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[ResultGroup, ...] = ()
        self.marks: dict[str, str] = {}
        """A or B → key of its set-up."""
        self._empty: Sequence[str] = ()

    @property
    def chosen(self) -> ResultGroup | None:
        index = self.index
        return None if index is None or index >= len(self._rows) else self._rows[index]

    def marked(self, letter: str) -> ResultGroup | None:
        return next((row for row in self._rows if row.key == self.marks.get(letter)), None)

    def mark(self, letter: str) -> None:
        """Mark the chosen line with `letter`; marking it again removes the mark."""
        row = self.chosen
        if row is None:
            return
        if self.marks.get(letter) == row.key:
            del self.marks[letter]
        else:
            self.marks = {one: key for one, key in self.marks.items() if key != row.key} | {letter: row.key}
        self.redraw()

    def show(self, rows: Sequence[ResultGroup], empty: Sequence[str]) -> None:
        """Draw `rows`; `empty`: lines to show when there are none."""
        self._rows, self._empty = tuple(rows), empty
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    def redraw(self) -> None:
        if not self._rows:
            self.show_lines([((f" {line}", ""),) for line in self._empty], ((" ", ""),))
            return
        rows, letters = self._rows, {key: letter for letter, key in self.marks.items()}
        columns = sized_columns(COLUMNS, rows, self.scrollable_content_region.width - 2)

        def line(index: int) -> SpanLine:
            mark = (f" {letters.get(rows[index].key, ' ')}", "accent")
            return (mark, *cell_spans(columns, rows[index], self.glyphs))

        self.show_drawn(len(rows), line, (("  " + headings(columns), ""),), self.index)
