"""The stored results by set-up, one line each: when, hosts, NIC, runs, goodput or transactions, CPU
cost, test.

  WHEN        HOSTS     NIC  RUNS    RESULT PATH                     CPU COST TEST
A 11-21 08:01 vm1 → vm2 ens3    5 9.38 Gb/s verified          0.31 cores/Gb/s TCP ×1 20 s MTU 1500
iperf3
B 11-21 08:04 vm1 ↔ vm2 ens3    5  12.4 k/s ▲ not verified 40.1 µs/transaction rr TCP ×1 20 s 64 B
                                   MTU 1500
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.message import Message

from nictop.model.columns.column import REMAINING_WIDTH, Cell, Column, sized_columns
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.names import names_in_path
from nictop.model.text.terminal import clean, fit_middle, width, wrap
from nictop.model.text.units import wall_time_text
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.report.runs.points import SetUpPoint, set_up_points
from nictop.report.runs.sentences import (
    DIRECTION_TEXTS,
    cost_value_text,
    hosts_text,
    off_plan_seconds,
    plan_options,
    workload_plan_text,
)
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.filter_line import no_matches
from nictop.tui.widgets.base.line_widget import SpanLine
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
"""Whether a result is not verified → (columns that are left out, cells that the last one must then
have), one set after the other. The result, and that it is not verified, are never left out."""


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
        return " ".join(filter(None, (self.first.label, self.varied)))

    @property
    def varied(self) -> str:
        """``queues 4``; "": nothing was varied."""
        return f"{self.first.variable} {self.first.value}" if self.first.value else ""


def _runs(row: ResultGroup) -> str:
    """``5``; ``4/5``: one of them has failed."""
    count, failed = len(row.point.runs), row.point.failed
    return f"{count - failed}/{count}" if failed else str(count)


def _deciding(row: ResultGroup) -> Cell:
    figure = row.point.main
    if figure is None and row.point.failed == len(row.point.runs):
        return f"{UNICODE.critical} failed", "bad"
    if figure is None:
        return row.point.measures[0].text(None), "dim"
    return row.point.measures[0].text(figure.median), "title"


def _path(row: ResultGroup) -> Cell:
    """``verified``, ``one end`` (the other one is not watched), ``▲ not verified``, ``▲ stopped
    early``; "": there is no figure that it could be about."""
    if row.point.main is None:
        return "", "normal"
    if not row.point.caveat:
        plan = row.first.result.plan
        if plan.is_of_one_host:
            return "", "normal"
        return "one end" if plan.foreign else "verified", "normal"
    return f"{UNICODE.warning} {row.point.caveat.replace('path ', '')}", "warn"


def _hosts(row: ResultGroup) -> str:
    """``vm1 → vm2``: the sender first, as in the list of ``nictop traffic``."""
    return hosts_text(row.first.result.plan)


def _nics(row: ResultGroup) -> str:
    """``ens4/ens5``: of client and server; one name if they are the same."""
    facts = row.first.result.facts
    names = dict.fromkeys((facts.get("client nic", ""), facts.get("server nic", "")))
    return "/".join(filter(None, names))


def set_up_text(row: ResultGroup, room: int = REMAINING_WIDTH) -> str:
    """Label, varied value, protocol and streams, seconds, MTU, options, tool: as many of them as
    fit into `room` cells, and the first one in any case. The varied value tells the set-ups of a
    comparison apart: it comes before a label beside which it does not fit."""
    text, *rest = _set_up_words(row, room)
    for word in rest:
        if width(f"{text} {word}") > room:
            break
        text = f"{text} {word}"
    return text


def _set_up_words(row: ResultGroup, room: int) -> list[str]:
    run, plan, mtu = row.first, row.first.result.plan, row.first.result.facts.get("mtu")
    words = [run.label]
    if run.value:
        varied = f"{run.variable}={run.value}"
        has_room = width(clean(f"{run.label} {varied}")) <= room
        words = [run.label, varied] if has_room else [varied]
    if plan.is_of_one_host:
        words += [workload_plan_text(plan), f"MTU {mtu}" if mtu else ""]
        return [clean(word) for word in words if word]
    if plan.test != "bulk":
        words.append(plan.test)
    words += [f"{plan.protocol.upper()} ×{plan.streams}", *_seconds_words(row)]
    if mtu:
        words.append(f"MTU {mtu}" if mtu.isdecimal() else "MTU changed")
    words += [*plan_options(plan), plan.generator]
    return [clean(word) for word in words if word]


def _seconds_words(row: ResultGroup) -> Sequence[str]:
    """``10 s``; ``24.6 s (planned: 10 s)``; ``10 s–24.6 s (planned: 10 s)``: of runs of which some
    did not last as planned."""
    planned = f"{row.first.result.plan.time} s"
    results = [run.result for run in row.point.runs]
    whole = [result for result in results if result.failure is None]
    results = whole or results
    unplanned = [off_plan_seconds(result) for result in results]
    if not any(unplanned):
        return (planned,)
    lasted = sorted(
        other or float(result.plan.time) for result, other in zip(results, unplanned, strict=True)
    )
    ends = dict.fromkeys(units.duration(seconds) for seconds in (lasted[0], lasted[-1]))
    return "–".join(ends), f"(planned: {planned})"


def _cost(row: ResultGroup) -> str:
    """Of the client or the server, whichever is higher."""
    highest: float | None = None
    for role, _, spread in row.point.costs:
        if spread is not None and role != "observer":
            highest = spread.median if highest is None else max(highest, spread.median)
    if highest is None or row.point.cost_unit == "busy":  # of the whole host
        return units.UNKNOWN
    unit = " cores/Gb/s" if row.point.cost_unit == "Gb/s" else "/transaction"
    return f"{cost_value_text(highest, row.point.cost_unit)}{unit}"


COLUMNS: tuple[Column[ResultGroup], ...] = (
    Column("when", "WHEN", "", MAX_CELLS, 1, "left",
        lambda row: wall_time_text(row.first.result.wall)[WHEN],
        source="start of the first run (clock of this machine)"),
    Column("hosts", "HOSTS", "", MAX_CELLS, 1, "left", _hosts,
        source="client and server, with the direction of the payload (test plan)"),
    Column("nic", "NIC", "", MAX_NIC_CELLS, 1, "left", _nics,
        source="interfaces of client and server (test plan)"),
    Column("runs", "RUNS", "", MAX_CELLS, 1, "right", _runs,
        source="completed runs, or completed/all (saved results)"),
    Column("goodput", "RESULT", "b/s, transactions/s or latency", MAX_CELLS, 1, "right", _deciding,
        source="goodput, of rr and crr transactions, of loaded p50 under load; of several runs "
               "the median (receiver of "
        "iperf3 or the built-in generator)"),
    Column("path", "PATH", "", MAX_CELLS, 1, "left", _path,
        source="whether the test ended normally and the chosen interfaces carried it (their "
               "counters)"),
    Column("cost", "CPU COST", "cores per Gb/s, of rr and crr CPU time per transaction", MAX_CELLS,
        1, "right", _cost,
        source="busy CPU cores: of the client or the server, whichever is higher; of several runs "
               "the median "
        "(/proc/stat)"),
    Column("test", "TEST", "", REMAINING_WIDTH, 1, "left", set_up_text,
        source="label, varied value, protocol, streams, seconds, MTU, tool (test plan)"),
)  # fmt: skip


def accepts(row: ResultGroup, words: Sequence[str]) -> bool:
    """Whether every word (in lower case) is in a cell of the row, or is its direction, label,
    address or generator."""
    plan = row.first.result.plan
    texts = (column.cell(row)[0] for column in COLUMNS if column.key != "cost")
    more = (
        plan.direction,
        DIRECTION_TEXTS[plan.direction],
        plan.client.address,
        plan.server.address,
    )
    text = " ".join((*texts, *more)).casefold()
    return all(word in text for word in words)


def set_ups(runs: Sequence[StoredRun]) -> tuple[ResultGroup, ...]:
    """Newest experiment first; within one, in the order of their first runs."""
    experiments: dict[str, list[StoredRun]] = {}
    for run in runs:
        experiments.setdefault(run.experiment, []).append(run)
    groups: list[ResultGroup] = []
    for identity, members in experiments.items():
        ordered = tuple(sorted(members, key=lambda run: run.number))
        for point in set_up_points(ordered):
            groups.append(ResultGroup(f"{identity} {point.group} {point.value}", point, ordered))
    return tuple(groups)


def fitting_columns(
    rows: Sequence[ResultGroup], room: int, glyphs: Glyphs
) -> Sequence[Column[ResultGroup]]:
    """The columns of a list of `room` cells. Where the names of the hosts are too long, both are
    cut."""
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
        plan = row.first.result.plan
        if plan.is_of_one_host:
            return fit_middle(plan.client.host, cells).rstrip()
        first, arrow, second = plan.drawn_ends
        hosts = names_in_path((first.host, second.host), len(" <-> "), cells)
        return f"{hosts[0]} {arrow} {hosts[1]}"

    columns = list(chosen)
    for number, column in enumerate(columns):
        if column.key == "hosts":
            columns[number] = replace(column, width=cells, value=in_short)
    return columns


class SetUpList(ChoiceList):
    """Two of the lines may be marked: A and B. Posts `Chosen` when the cursor is on another
    line."""

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
        if index is None or index >= len(self._rows):
            return None
        return self._rows[index]

    @property
    def count(self) -> int:
        return len(self._rows)

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def marked(self, letter: str) -> ResultGroup | None:
        for row in self._all:
            if row.key == self.marks.get(letter):
                return row
        return None

    def mark(self) -> None:
        """Mark the chosen line: as A, then another one as B, then again; a marked line loses its
        mark."""
        row = self.chosen
        if row is None:
            return
        marks = {letter: key for letter, key in self.marks.items() if key != row.key}
        was_marked = marks != self.marks
        if not was_marked:
            is_b_next = "A" in marks and "B" not in marks
            marks["B" if is_b_next else "A"] = row.key
        self.marks = marks
        self.redraw()

    def swap(self) -> None:
        """A becomes B, and B becomes A."""
        self.marks = {"B" if letter == "A" else "A": key for letter, key in self.marks.items()}
        self.redraw()

    @property
    def compared(self) -> tuple[ResultGroup, ResultGroup] | None:
        """A and B; without marks, the two set-ups of the chosen comparison. None: there are no
        two."""
        a, b = self.marked("A"), self.marked("B")
        if a is not None and b is not None:
            return a, b
        row = self.chosen
        if self.marks or row is None or row.first.kind != "compare":
            return None
        both = [group for group in self._all if group.first.experiment == row.first.experiment]
        return (both[0], both[1]) if len(both) == 2 else None

    def show(
        self, rows: Sequence[ResultGroup], empty: Sequence[str], words: Sequence[str] = ()
    ) -> None:
        """Draw those of `rows` that contain all `words`; `empty`: lines to show when there are no
        rows."""
        self._all = self._rows = rows
        self._empty = (no_matches(self.key_label),) if rows else empty
        if words:
            self._rows = [row for row in rows if accepts(row, words)]
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    def redraw(self) -> None:
        rows, letters = self._rows, {key: letter for letter, key in self.marks.items()}
        room = self.scrollable_content_region.width - 2
        if not rows:
            lines: list[SpanLine] = []
            for text in self._empty:
                lines += [((f" {part}", ""),) for part in wrap(text, room) or ("",)]
            self.show_lines(lines, ((" ", ""),))
            return
        columns = fitting_columns(rows, room, self.glyphs)

        def line(index: int) -> SpanLine:
            mark = (f" {letters.get(rows[index].key, ' ')}", "accent")
            return (mark, *cell_spans(columns, rows[index], self.glyphs))

        self.show_drawn(len(rows), line, (("  " + headings(columns), ""),), self.index)
