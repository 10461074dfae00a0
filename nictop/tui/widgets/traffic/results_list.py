"""The stored results by set-up, one line each: when, hosts, NIC, runs, goodput or transactions, CPU cost, test.

  WHEN        HOSTS     NIC  RUNS    RESULT PATH                     CPU COST TEST
A 11-21 08:01 vm1 → vm2 ens3    5 9.38 Gb/s verified          0.31 cores/Gb/s TCP ×1 20 s MTU 1500 iperf3
B 11-21 08:04 vm1 ↔ vm2 ens3    5  12.4 k/s ▲ not verified 40.1 µs/transaction rr TCP ×1 20 s 64 B MTU 1500
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from textual.message import Message

from nictop.model.columns.column import REMAINING_WIDTH, Cell, Column, sized_columns
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.names import names_in_path
from nictop.model.text.terminal import clean, width
from nictop.model.text.units import wall_time_text
from nictop.report.runs.points import SetUpPoint, set_up_points
from nictop.report.runs.sentences import DIRECTION_TEXTS, cost_value_text, hosts_text, plan_options
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.base.filter_line import NO_MATCHES
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.base.table_line import cell_spans, encoded_columns, headings

WHEN = slice(len("2026-"), len("2026-11-21 08:01"))
MAX_CELLS, MAX_NIC_CELLS = 40, 20
"""Widths of the columns but the last."""
MIN_TEST_CELLS, MIN_LABEL_CELLS = 20, 8
"""Of the last column: with fewer, others are left out; and what is left of it in a narrow list."""
MIN_HOSTS_CELLS = 17
"""Of both hosts of a narrow list."""
LEFT_OUT: dict[bool, tuple[tuple[tuple[str, ...], int], ...]] = {
    False: (
        ((), MIN_TEST_CELLS),
        (("cost",), MIN_TEST_CELLS),
        (("cost", "path"), MIN_LABEL_CELLS),
        (("cost", "path", "nic"), MIN_LABEL_CELLS),
        (("cost", "path", "nic", "runs"), MIN_LABEL_CELLS),
        (("cost", "path", "nic", "runs", "when"), MIN_LABEL_CELLS),
    ),
    True: (
        ((), MIN_TEST_CELLS),
        (("cost",), MIN_TEST_CELLS),
        (("cost", "nic"), MIN_LABEL_CELLS),
        (("cost", "nic", "runs"), MIN_LABEL_CELLS),
        (("cost", "nic", "runs", "when"), MIN_LABEL_CELLS),
    ),
}
"""Whether a result is not verified → (columns that are left out, cells that the last one must then have), one set after
the other. The result, and that it is not verified, are never left out."""


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
        """Its name in a comparison: label and varied value; "" without both."""
        return " ".join(part for part in (self.first.label, self.varied) if part)

    @property
    def varied(self) -> str:
        """``queues 4``; "": nothing was varied."""
        return f"{self.first.variable} {self.first.value}" if self.first.value else ""


def _runs(row: ResultGroup) -> str:
    found = row.point
    return f"{len(found.runs) - found.failed}/{len(found.runs)}" if found.failed else str(len(found.runs))


def _deciding(row: ResultGroup) -> Cell:
    found = row.point.main
    return (
        (row.point.measures[0].text(found.median), "title")
        if found is not None
        else (f"{UNICODE.critical} failed", "bad")
    )


def _path(row: ResultGroup) -> Cell:
    """``verified``, ``▲ not verified``, ``▲ stopped early``; "": there is no figure that it could be about."""
    if row.point.main is None:
        return "", "normal"
    caveat = row.point.caveat.replace("path ", "")
    return (f"{UNICODE.warning} {caveat}", "warn") if caveat else ("verified", "normal")


def _hosts(row: ResultGroup) -> str:
    """``vm1 → vm2``: the sender first, as in the list of ``nictop traffic``."""
    return hosts_text(row.first.result.plan)


def _nics(row: ResultGroup) -> str:
    """``ens4/ens5``: of client and server; one name if they are the same."""
    facts = row.first.result.facts
    return "/".join(dict.fromkeys(nic for side in ("client", "server") if (nic := facts.get(f"{side} nic"))))


def set_up_text(row: ResultGroup, room: int = REMAINING_WIDTH) -> str:
    """Label, varied value, protocol and streams, seconds, MTU, options, tool: as many of them as fit into `room` cells,
    and the first one in any case. The varied value tells the set-ups of a comparison apart: it comes before a label
    beside which it does not fit."""
    run, plan, facts = row.first, row.first.result.plan, row.first.result.facts
    varied = f"{run.variable}={run.value}" if run.value else ""
    label = "" if varied and width(clean(f"{run.label} {varied}")) > room else run.label
    words = (
        label,
        varied,
        plan.test if plan.test != "bulk" else "",
        f"{plan.protocol.upper()} ×{plan.streams}",
        f"{plan.time} s",
        f"MTU {facts['mtu']}" if facts.get("mtu") else "",
        *plan_options(plan),
        plan.generator,
    )
    text, *rest = [clean(word) for word in words if word]
    for word in rest:
        if width(f"{text} {word}") > room:
            break
        text = f"{text} {word}"
    return text


def _cost(row: ResultGroup) -> str:
    known = [spread.median for role, _, spread in row.point.costs if spread is not None and role != "observer"]
    if not known:
        return units.UNKNOWN
    unit = " cores/Gb/s" if row.point.cost_unit == "Gb/s" else "/transaction"
    return f"{cost_value_text(max(known), row.point.cost_unit)}{unit}"


COLUMNS: tuple[Column[ResultGroup], ...] = (
    Column("when", "WHEN", "", MAX_CELLS, 1, "left", lambda row: wall_time_text(row.first.result.wall)[WHEN],
        source="start of the first run (clock of this machine)"),
    Column("hosts", "HOSTS", "", MAX_CELLS, 1, "left", _hosts,
        source="client and server, with the direction of the payload (test plan)"),
    Column("nic", "NIC", "", MAX_NIC_CELLS, 1, "left", _nics,
        source="interfaces of client and server (test plan)"),
    Column("runs", "RUNS", "", MAX_CELLS, 1, "right", _runs,
        source="completed runs, or completed/all (saved results)"),
    Column("goodput", "RESULT", "b/s, transactions/s or latency", MAX_CELLS, 1, "right", _deciding,
        source="goodput, of rr and crr transactions, of loaded p50 under load; of several runs the median (receiver of "
        "iperf3 or the built-in generator)"),
    Column("path", "PATH", "", MAX_CELLS, 1, "left", _path,
        source="whether the test ended normally and the chosen interfaces carried it (their counters)"),
    Column("cost", "CPU COST", "cores per Gb/s, of rr and crr CPU time per transaction", MAX_CELLS, 1, "right", _cost,
        source="busy CPU cores: of the client or the server, whichever is higher; of several runs the median "
        "(/proc/stat)"),
    Column("test", "TEST", "", REMAINING_WIDTH, 1, "left", set_up_text,
        source="label, varied value, protocol, streams, seconds, MTU, tool (test plan)"),
)  # fmt: skip


def accepts(row: ResultGroup, words: Sequence[str]) -> bool:
    """Whether every word (in lower case) is in a cell of the row, or is its direction, label, address or generator."""
    plan = row.first.result.plan
    texts = (column.cell(row)[0] for column in COLUMNS if column.key != "cost")
    more = (plan.direction, DIRECTION_TEXTS[plan.direction], plan.client.address, plan.server.address)
    text = " ".join((*texts, *more)).casefold()
    return all(word in text for word in words)


def set_ups(runs: Sequence[StoredRun]) -> tuple[ResultGroup, ...]:
    """Newest experiment first; within one, in the order of their first runs."""
    experiments: dict[str, list[StoredRun]] = {}
    for one in runs:
        experiments.setdefault(one.experiment, []).append(one)
    found: list[ResultGroup] = []
    for identity, members in experiments.items():
        ordered = tuple(sorted(members, key=lambda one: one.number))
        found += [ResultGroup(f"{identity} {one.group} {one.value}", one, ordered) for one in set_up_points(ordered)]
    return tuple(found)


def fitting_columns(rows: Sequence[ResultGroup], room: int, glyphs: Glyphs) -> Sequence[Column[ResultGroup]]:
    """The columns of a list of `room` cells. Where the names of the hosts are too long, both are cut."""
    has_caveat = any(row.point.caveat for row in rows)
    for left_out, least in LEFT_OUT[has_caveat]:
        chosen = [column for column in COLUMNS if column.key not in left_out]
        *_, last = sized_columns(encoded_columns(chosen, glyphs), rows, room)
        if last.width >= least:
            break
    if last.width < MIN_LABEL_CELLS or any(width(_hosts(row)) > MAX_CELLS for row in rows):
        chosen = _with_short_hosts(chosen, rows, room, glyphs)
        *_, last = sized_columns(encoded_columns(chosen, glyphs), rows, room)
    shortened = (*chosen[:-1], replace(last, value=partial(set_up_text, room=last.width)))
    return sized_columns(encoded_columns(shortened, glyphs), rows, room)


def _with_short_hosts(
    chosen: Sequence[Column[ResultGroup]], rows: Sequence[ResultGroup], room: int, glyphs: Glyphs
) -> list[Column[ResultGroup]]:
    """The hosts in as few cells as leave the other columns whole and the last one its label."""
    *others, _ = sized_columns(encoded_columns(chosen, glyphs), rows, REMAINING_WIDTH)
    used = sum(column.width + 1 for column in others if column.key != "hosts")
    cells = max(MIN_HOSTS_CELLS, min(MAX_CELLS, room - used - MIN_LABEL_CELLS - 2))

    def in_short(row: ResultGroup) -> str:
        first, arrow, second = row.first.result.plan.drawn_ends
        hosts = names_in_path((first.host, second.host), len(" <-> "), cells)
        return f"{hosts[0]} {arrow} {hosts[1]}"

    return [replace(one, width=cells, value=in_short) if one.key == "hosts" else one for one in chosen]


class SetUpList(ChoiceView):
    """Two of the lines may be marked: A and B. Posts `Chosen` when the cursor is on another line."""

    class Chosen(Message):
        """The cursor is on another line."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._all: Sequence[ResultGroup] = ()
        self._rows: Sequence[ResultGroup] = ()
        """Those of them that the filter accepts."""
        self.marks: dict[str, str] = {}
        """A or B → key of its set-up."""
        self._empty: Sequence[str] = ()

    @property
    def chosen(self) -> ResultGroup | None:
        index = self.index
        return None if index is None or index >= len(self._rows) else self._rows[index]

    @property
    def count(self) -> int:
        return len(self._rows)

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def marked(self, letter: str) -> ResultGroup | None:
        return next((row for row in self._all if row.key == self.marks.get(letter)), None)

    def mark(self) -> None:
        """Mark the chosen line: as A, then another one as B, then again; a marked line loses its mark."""
        row = self.chosen
        if row is None:
            return
        marks = {letter: key for letter, key in self.marks.items() if key != row.key}
        if marks == self.marks:
            marks["A" if "A" not in marks or "B" in marks else "B"] = row.key
        self.marks = marks
        self.redraw()

    def swap(self) -> None:
        """A becomes B, and B becomes A."""
        self.marks = {"B" if letter == "A" else "A": key for letter, key in self.marks.items()}
        self.redraw()

    @property
    def compared(self) -> tuple[ResultGroup, ResultGroup] | None:
        """A and B; without marks, the two set-ups of the chosen comparison. None: there are no two."""
        a, b = self.marked("A"), self.marked("B")
        if a is not None and b is not None:
            return a, b
        row = self.chosen
        if self.marks or row is None or row.first.kind != "compare":
            return None
        both = [one for one in self._all if one.first.experiment == row.first.experiment]
        return (both[0], both[1]) if len(both) == 2 else None

    def show(self, rows: Sequence[ResultGroup], empty: Sequence[str], words: Sequence[str] = ()) -> None:
        """Draw those of `rows` that contain all `words`; `empty`: lines to show when there are no rows."""
        self._all, self._empty = rows, (NO_MATCHES.strip(),) if rows else empty
        self._rows = [row for row in rows if accepts(row, words)] if words else rows
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    def redraw(self) -> None:
        if not self._rows:
            self.show_lines([((f" {line}", ""),) for line in self._empty], ((" ", ""),))
            return
        rows, letters = self._rows, {key: letter for letter, key in self.marks.items()}
        room = self.scrollable_content_region.width - 2
        columns = fitting_columns(rows, room, self.glyphs)

        def line(index: int) -> SpanLine:
            mark = (f" {letters.get(rows[index].key, ' ')}", "accent")
            return (mark, *cell_spans(columns, rows[index], self.glyphs))

        self.show_drawn(len(rows), line, (("  " + headings(columns), ""),), self.index)
