"""A document as text for a terminal: at most so many cells per line, unless a word of a command is
wider.

Reads nothing. Text from hosts is cleaned: it cannot control a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nictop.model.columns.column import fit_columns
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean, fit, width, wrap
from nictop.probe.light_dataclasses import dataclass
from nictop.report.document import (
    PART_SEPARATOR,
    BarChart,
    Block,
    ColumnTable,
    Data,
    Fact,
    Facts,
    FindingBlock,
    Items,
    Line,
    PartLine,
    PlaceDrawing,
    RunCharts,
    Section,
    Table,
    Toned,
    Verdict,
)
from nictop.report.place import place_text
from nictop.report.render.paint import Paint, plain
from nictop.report.text_table import aligned_table, labelled_lines, layout_width

if TYPE_CHECKING:  # `nictop show` starts without the rules
    from nictop.rules.fixes.commands import Step

MIN_NAME_CELLS, MIN_TREE_NAME_CELLS = 12, 30
"""Of the names in a tree: at least, and how many they may take from the columns beside them."""
TREE_NAME_SHARE = 3
"""Part of a wide line that they may take."""


def text_of(
    blocks: Iterable[Block], columns: int, glyphs: Glyphs = UNICODE, paint: Paint = plain
) -> str:
    """The blocks in lines of at most `columns` cells (40 to 200), with a final newline; "" without
    blocks. `glyphs`: for the marks; the caller encodes the other text (`Glyphs.encode`). `paint`:
    makes the colours."""
    lines = [
        line.rstrip() for line in TextRenderer(layout_width(columns), glyphs, paint).lines(blocks)
    ]
    if not lines:
        return ""
    return ("\n".join(lines) + "\n").replace(UNICODE.warning, glyphs.warning)


def text_lines(blocks: Iterable[Block], room: int) -> list[str]:
    """The blocks as lines for a page: `room` is not limited."""
    return [line.rstrip() for line in TextRenderer(room).lines(blocks)]


@dataclass(frozen=True)
class TextRenderer:
    """Draws blocks as lines."""

    room: int
    """Cells of a line."""
    glyphs: Glyphs = UNICODE
    paint: Paint = plain

    def lines(self, blocks: Iterable[Block]) -> Iterator[str]:
        """All blocks, with an empty line around sections and findings."""
        before: Block | None = None
        for block in blocks:
            drawn = tuple(DRAW[type(block)](self, block))
            if not drawn:
                continue
            if before is not None and any(map(_stands_apart, (before, block))):
                yield ""
            yield from drawn
            before = block

    def section(self, section: Section) -> Iterator[str]:
        if section.title:
            yield from wrap(section.title, self.room)
        if section.title and section.form == "fold":
            yield "=" * min(self.room, width(clean(section.title)))
        yield from self.lines(section.blocks)

    def line(self, line: Line) -> Iterator[str]:
        for part in wrap(line.text, self.room):
            yield self.paint(line.style, part)

    def verdict(self, verdict: Verdict) -> Iterator[str]:
        text = verdict.text
        if verdict.detail:
            text += f" ({verdict.detail})"
        yield from self.line(Line(text, verdict.tone))

    def items(self, items: Items) -> Iterator[str]:
        indent = " " * items.indent
        for item in items.lines:
            for part in wrap(item.text, self.room - items.indent):
                yield self.paint(item.style, indent + part)

    def part_line(self, line: PartLine) -> Iterator[str]:
        drawn = ""
        for part in line.parts:
            text = self.glyphs.text(clean(part.text))
            longer = f"{drawn}{PART_SEPARATOR}{text}" if drawn else text
            if drawn and width(longer) > self.room:
                yield drawn
                longer = text
            drawn = longer
        yield from wrap(drawn, self.room)

    def table(self, table: Table) -> Iterator[str]:
        indent = " " * table.indent
        for line in self._table_lines(table, self.room - table.indent):
            yield indent + line

    def _table_lines(self, table: Table, room: int) -> Iterable[str]:
        if table.layout is not None:
            return table.layout(room)
        rows = [tuple(map(cell_text, row)) for row in table.rows]
        return aligned_table([table.titles, *rows], table.left)

    # ------------------------------------------------------------------------ columns of the screen

    def column_table(self, table: ColumnTable) -> Iterator[str]:
        if table.title:
            yield table.title
        draw = self._tree if table.heads else self._plain_columns
        indent = " " * table.indent
        for line in draw(table, self.room - table.indent):
            yield indent + line

    def _plain_columns(self, table: ColumnTable, room: int) -> Iterator[str]:
        columns = fit_columns(table.columns, room)
        yield " ".join(column.heading for column in columns)
        for row in table.rows:
            yield " ".join(column.text(row) for column in columns)

    def _tree(self, table: ColumnTable, room: int) -> Iterator[str]:
        """Names with the columns that fit beside them."""
        widest = max(width(head.guides) + width(clean(head.name)) for head in table.heads)
        most = max(MIN_TREE_NAME_CELLS, room // TREE_NAME_SHARE)
        name_cells = min(max(widest, MIN_NAME_CELLS), most)
        columns = fit_columns(table.columns, room - name_cells)
        yield " ".join([fit("DEVICE", name_cells), *(column.heading for column in columns)])
        for head, row in zip(table.heads, table.rows, strict=True):
            line = head.guides + clean(head.name)
            cells = [column.text(row) for column in columns]
            if any(cell.strip() for cell in cells):
                line = " ".join([fit(line, name_cells), *cells])
            yield fit(line, room)

    # ---------------------------------------------------------------------------------------- facts

    def facts(self, facts: Facts) -> Iterator[str]:
        if facts.title:
            yield facts.title
        before = Fact("")
        for fact in facts.facts:
            if fact.commands and before.commands:
                yield ""  # separates two commands
            yield from self._fact(
                fact, facts, is_labelled=not fact.kind or fact.kind != before.kind
            )
            before = fact

    def _fact(self, fact: Fact, facts: Facts, *, is_labelled: bool) -> Iterator[str]:
        label = self._label(fact) if is_labelled else ""
        begin = facts.indent + facts.label_cells + 1
        if fact.text:
            yield from labelled_lines(
                label, fact.text, self.room, label_cells=facts.label_cells, indent=facts.indent
            )
        if fact.table is not None:
            yield from (
                " " * begin + line for line in self._table_lines(fact.table, self.room - begin)
            )
        for line in self._commands(fact.commands, self.room - begin):
            yield f"{' ' * facts.indent}{fit(label, facts.label_cells)} {line}"
            label = ""  # of the first line only

    def _label(self, fact: Fact) -> str:
        if not fact.mark:
            return fact.label
        marks = {"critical": self.glyphs.critical, "warning": self.glyphs.warning}
        return f"{marks[fact.mark]} {fact.label}"

    def _commands(self, steps: Sequence[Step], room: int) -> Iterator[str]:
        if steps:
            from nictop.rules.wording import command_lines

            for step in steps:
                yield from command_lines(step, room, cut=False)

    def finding(self, block: FindingBlock) -> Iterator[str]:
        from nictop.report.render.finding_text import finding_lines

        yield from finding_lines(
            block.finding,
            self.room,
            block.names_host,
            self.glyphs,
            self.paint,
            apply=block.apply,
        )

    # --------------------------------------------------------------------------------------- charts

    def run_charts(self, charts: RunCharts) -> Iterator[str]:
        """The histogram of latencies; a text has no chart over time."""
        figures = charts.result.transactions
        if figures is None:
            return
        from nictop.report.runs.histogram import HISTOGRAM_TITLE, histogram_lines

        bars = histogram_lines(figures.latency, self.room, glyphs=self.glyphs)
        if bars:
            yield HISTOGRAM_TITLE
            yield from bars

    def place(self, drawing: PlaceDrawing) -> Iterator[str]:
        room = self.room - drawing.indent
        tree = place_text(drawing.lines(), room, glyphs=self.glyphs)
        if tree:
            yield from wrap(drawing.heading, self.room)
        for line in tree:
            yield " " * drawing.indent + line

    def nothing(self, block: BarChart | Data) -> Sequence[str]:
        """A table or facts beside it say the same."""
        return ()


DRAW: dict[type, Callable[[TextRenderer, Any], Iterable[str]]] = {
    Section: TextRenderer.section,
    PartLine: TextRenderer.part_line,
    Line: TextRenderer.line,
    Verdict: TextRenderer.verdict,
    Items: TextRenderer.items,
    Table: TextRenderer.table,
    ColumnTable: TextRenderer.column_table,
    Facts: TextRenderer.facts,
    FindingBlock: TextRenderer.finding,
    RunCharts: TextRenderer.run_charts,
    BarChart: TextRenderer.nothing,
    PlaceDrawing: TextRenderer.place,
    Data: TextRenderer.nothing,
}


def _stands_apart(block: Block) -> bool:
    return isinstance(block, (Section, FindingBlock))


def cell_text(cell: str | Toned) -> str:
    return cell.text if isinstance(cell, Toned) else cell
