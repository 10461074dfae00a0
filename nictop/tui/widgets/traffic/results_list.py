"""The set-ups of which results are kept, one line each: when, between whom, what was special, what arrived.

  WHEN              ENDS                RUNS  GOODPUT    WHAT
A 2026-11-21 08:01  vm1 → vm2              5  9.38 Gb/s  compare queues 1
B 2026-11-21 08:01  vm1 → vm2              5  9.41 Gb/s  compare queues 4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nictop.model.facts import clean, fit, width
from nictop.model.text import units
from nictop.report.runs.points import SetUpPoint, points
from nictop.report.runs.sentences import moment_words
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.base.line_view import Span, SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView

TITLES = ("WHEN", "ENDS", "RUNS", "GOODPUT", "WHAT")
RIGHT = ("RUNS", "GOODPUT")
MINUTES = len("2026-11-21 08:01")
LONGEST = 40
"""Cells of a column but the last."""


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
        """As a comparison calls it: its label, what was varied, or when it was."""
        kept = self.first
        varied = f"{kept.variable} {kept.value}" if kept.value else ""
        return " ".join(part for part in (kept.label, varied) if part) or f"run {kept.identity}"

    @property
    def cells(self) -> tuple[str, ...]:
        """As `TITLES`, as the machines give them."""
        kept, found = self.first, self.point
        plan = kept.result.plan
        varied = f"{kept.variable} {kept.value}" if kept.value else ""
        words = (kept.label, kept.kind if kept.kind != "run" else "", varied, plan.protocol.upper(), plan.generator)
        runs = f"{len(found.runs) - found.failed}/{len(found.runs)}" if found.failed else str(len(found.runs))
        arrived = units.bits_per_second(found.goodput.median) if found.goodput is not None else "failed"
        return (
            moment_words(kept.result.wall)[:MINUTES],
            f"{plan.client.host} → {plan.server.host}",
            runs,
            arrived,
            " ".join(word for word in words if word),
        )


def set_ups(runs: Sequence[StoredRun]) -> tuple[ResultGroup, ...]:
    """Newest experiment first; within one, as they first came."""
    experiments: dict[str, list[StoredRun]] = {}
    for one in runs:
        experiments.setdefault(one.experiment, []).append(one)
    found = []
    for identity, members in experiments.items():
        ordered = tuple(sorted(members, key=lambda one: one.number))
        found += [ResultGroup(f"{identity} {one.group} {one.value}", one, ordered) for one in points(ordered)]
    return tuple(found)


class SetUpList(ChoiceView):
    """Marks say which one is A and which one B."""

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
        """The chosen line is that one now; a second time, it is not any more."""
        row = self.chosen
        if row is None:
            return
        if self.marks.get(letter) == row.key:
            del self.marks[letter]
        else:
            self.marks = {one: key for one, key in self.marks.items() if key != row.key} | {letter: row.key}
        self.redraw()

    def show(self, rows: Sequence[ResultGroup], empty: Sequence[str]) -> None:
        """Draw these; `empty`: what is said when there are none."""
        self._rows, self._empty = tuple(rows), empty
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    def redraw(self) -> None:
        if not self._rows:
            self.show_lines([((f" {line}", ""),) for line in self._empty], ((" ", ""),))
            return
        drawn = [row.cells for row in self._rows]
        sizes = self._sizes(drawn)
        header = "".join(f" {_fitted(title, title, size)}" for title, size in zip(TITLES, sizes, strict=True))
        letters = {key: letter for letter, key in self.marks.items()}
        self.show_drawn(
            len(drawn),
            lambda index: self._line_of_row(drawn[index], letters, self._rows[index].key, sizes),
            (("  " + header, ""),),
            self.index,
        )

    def _sizes(self, drawn: Sequence[Sequence[str]]) -> list[int]:
        wanted = [max(width(title), *(width(clean(cells[n])) for cells in drawn)) for n, title in enumerate(TITLES)]
        wanted = [*(min(size, LONGEST) for size in wanted[:-1]), wanted[-1]]
        room = self.scrollable_content_region.width - len(wanted) - 2
        sizes = []
        for size in wanted:
            sizes.append(max(0, min(size, room)))
            room -= sizes[-1]
        return sizes

    def _line_of_row(
        self, cells: Sequence[str], letters: Mapping[str, str], key: str, sizes: Sequence[int]
    ) -> SpanLine:
        spans: list[Span] = [(f" {letters.get(key, ' ')}", "accent")]
        for title, cell, size in zip(TITLES, cells, sizes, strict=True):
            text = self.glyphs.text(cell)
            style = "bad" if cell == "failed" else "title" if title == "GOODPUT" else ""
            spans.append((f" {_fitted(title, text, size)}", style))
        return tuple(spans)


def _fitted(title: str, text: str, size: int) -> str:
    return fit(text, size, "right" if title in RIGHT else "left")
