"""A document as Markdown, for a ticket or a chat.

Reads nothing. Text from hosts cannot become Markdown or HTML: it is cleaned, and every character
with a meaning is escaped; the fences of commands are longer than any run of backquotes in them. It
does not become a link either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from nictop.model.text.terminal import clean
from nictop.report.document import (
    PART_SEPARATOR,
    BarChart,
    Block,
    ColumnTable,
    Data,
    Document,
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
from nictop.report.html.elements import text
from nictop.report.place import place_text as place_tree
from nictop.report.render.text import cell_text, text_lines
from nictop.report.runs.histogram import HISTOGRAM_TITLE, histogram_lines
from nictop.rules import Evidence, Finding, Fix
from nictop.rules.wording import SEVERITY_LABELS, finding_mark, headline, place_text

HISTOGRAM_CELLS = 80
FACT_CELLS = 120
"""Width of what is a text in a fence: facts of hosts, tables of connections."""
MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:@$^=/])")
BACKQUOTE_RUN = re.compile("`+")
SAFE_PUNCTUATION = re.compile(r"(?<=\w)[-:](?=\w)|(?<=\w)\.(?=\d|\s|$)|[:()](?=\s|$)|(?<!/)/(?!/)")
"""Punctuation of sentences and numbers that has no meaning in Markdown at that position. A point
before a letter may be in a domain name, two slashes in a URL: renderers make links of both."""
MENTION = "\\@<!-- -->"
"""GitHub finds mail addresses and names of users after it has read the escapes: only markup behind
the character ends them. It shows nothing of a comment."""
TOP_LEVEL = 2
"""Number signs of the title of a chapter."""


def markdown_document(document: Document) -> str:
    """A page, with a final newline."""
    title = f"# {escape_markdown(document.title)}"
    return "\n".join([title, "", escape_markdown(document.about), "", markdown_of(document.blocks)])


def markdown_of(blocks: Iterable[Block]) -> str:
    """The blocks, with a final newline; "" without blocks."""
    return "".join(f"{line}\n" for line in block_lines(blocks, TOP_LEVEL))


def block_lines(blocks: Iterable[Block], level: int) -> Iterator[str]:
    """All blocks with an empty line between them; sentences that follow one another are one
    paragraph. `level`: number signs of a title."""
    is_first = True
    for drawn in drawn_blocks(in_order(blocks), level):
        if not is_first:
            yield ""
        yield from drawn
        is_first = False


def in_order(blocks: Iterable[Block]) -> Sequence[Block]:
    """A chart behind the sentences about it: in Markdown it is long."""
    ordered = list(blocks)
    for place, block in enumerate(ordered[:-1]):
        if isinstance(block, RunCharts):
            ordered[place], ordered[place + 1] = ordered[place + 1], block
            break
    return ordered


def drawn_blocks(blocks: Iterable[Block], level: int) -> Iterator[list[str]]:
    """The lines of each block or paragraph that has some."""
    for is_sentence, group in groupby(blocks, lambda block: isinstance(block, Line)):
        if is_sentence:
            yield paragraph(group)
            continue
        for block in group:
            drawn = list(DRAW[type(block)](block, level))
            if drawn:
                yield drawn


def paragraph(lines: Iterable[Any]) -> list[str]:
    """Each sentence in a line of its own."""
    *others, last = map(sentence, lines)
    return [*(f"{other}<br>" for other in others), last]


def sentence(line: Line) -> str:
    shown = escape_markdown(line.text)
    return f"**{shown}**" if line.style == "verdict" else shown


def section_lines(section: Section, level: int) -> Iterator[str]:
    if section.form == "reference":
        yield from reference_lines(section)
        return
    if section.form == "detail":
        yield from (
            summary(section.title),
            "",
            *block_lines(section.blocks, level),
            "",
            "</details>",
        )
        return
    title = section.command or section.title
    if not title:
        yield from block_lines(section.blocks, level)
        return
    inner = list(block_lines(section.blocks, level + 1))
    if inner:
        yield from (f"{'#' * level} {escape_markdown(title)}", "", *inner)


def reference_lines(section: Section) -> Iterator[str]:
    """As a text, which is folded."""
    yield summary(f"Details of {section.title}")
    yield from ("", *fenced_block(text_lines(section.blocks, FACT_CELLS)), "", "</details>")


def summary(title: str) -> str:
    """HTML, not Markdown: backslash escapes have no effect in it."""
    shown = text(title).replace("@", "@<!-- -->")  # GitHub finds names of users in HTML, too
    return f"<details><summary>{shown}</summary>"


def verdict_lines(verdict: Verdict, level: int) -> Iterator[str]:
    text = f"**{escape_markdown(verdict.text)}**"
    if verdict.detail:
        text += f" ({escape_markdown(verdict.detail)})"
    yield text


def item_lines(items: Items, level: int) -> Iterator[str]:
    for item in items.lines:
        yield f"- {escape_markdown(item.text)}"


def part_lines(line: PartLine, level: int) -> Iterator[str]:
    yield escape_markdown(PART_SEPARATOR.join(part.text for part in line.parts))


def table_lines(table: Table, level: int) -> Iterator[str]:
    yield row_text(map(escape_markdown, table.titles))
    yield "|" + "---|" * len(table.titles)
    for row in table.rows:
        yield row_text(map(cell_markdown, row))


def row_text(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell_markdown(cell: str | Toned) -> str:
    if isinstance(cell, Toned) and cell.style == "code":
        return inline_code(cell.text).replace("|", r"\|")  # it would end the cell, in code too
    return escape_markdown(cell_text(cell))


def column_table_lines(table: ColumnTable, level: int) -> Iterator[str]:
    """As a text, whose columns have been chosen for its width."""
    yield from fenced_block(text_lines([table], FACT_CELLS))


# ---------------------------------------------------------------------------------- facts, findings


def fact_lines(facts: Facts, level: int) -> Iterator[str]:
    """A list; the tables of facts are below it."""
    if facts.title:
        yield from (f"**{escape_markdown(facts.title)}**", "")
    for fact in facts.facts:
        yield from one_fact_lines(fact)
    for fact in facts.facts:
        if fact.table is not None:
            yield from ("", *table_lines(fact.table, level))


def one_fact_lines(fact: Fact) -> Iterator[str]:
    if fact.label:
        yield f"- **{escape_markdown(fact.label)}** {escape_markdown(fact.text)}".rstrip()
    if fact.commands:
        yield from ("", *fenced_block(map(str, fact.commands)), "")


def finding_lines(block: FindingBlock, level: int) -> Iterator[str]:
    finding = block.finding
    word = SEVERITY_LABELS[finding.severity].word
    title = escape_markdown(headline(finding, several_hosts=block.names_host))
    yield f"{'#' * level} {finding_mark(finding)} {word}: {title}"
    yield ""
    yield escape_markdown(finding.why)
    if finding.evidence:
        yield from ("", *table_lines(evidence_table(finding.evidence), level))
    for fix in finding.fixes:
        yield ""
        yield from fix_lines(finding, fix)
    yield ""
    yield f"Rule {inline_code(finding.rule)}"


def evidence_table(evidence: Iterable[Evidence]) -> Table:
    rows = tuple((fact.what, fact.value, fact.source) for fact in evidence)
    return Table(("evidence", "value", "source"), rows, left=3)


def fix_lines(finding: Finding, fix: Fix) -> Iterator[str]:
    yield f"**{escape_markdown(fix.title)}** ({escape_markdown(place_text(finding.host, fix))})"
    if fix.commands:
        yield from ("", *fenced_block(map(str, fix.commands)))
    if fix.note:
        yield ""
        yield escape_markdown(fix.note)
    if fix.undo:
        yield from ("", "Undo:", "", *fenced_block(map(str, fix.undo)))


# ------------------------------------------------------------------------------------------- charts


def chart_lines(charts: RunCharts, level: int) -> Iterator[str]:
    """The histogram of latencies; Markdown has no chart over time."""
    figures = charts.result.transactions
    if figures is None:
        return
    bars = histogram_lines(figures.latency, HISTOGRAM_CELLS)
    if bars:
        yield from (HISTOGRAM_TITLE, "", *fenced_block(bars))


def place_lines(drawing: PlaceDrawing, level: int) -> Iterator[str]:
    tree = place_tree(drawing.lines(), FACT_CELLS)
    if tree:
        yield from (f"**{escape_markdown(drawing.heading)}**", "", *fenced_block(tree))


def nothing(block: BarChart | Data, level: int) -> Sequence[str]:
    """A table or facts beside it say the same."""
    return ()


DRAW: dict[type, Callable[[Any, int], Iterable[str]]] = {
    Section: section_lines,
    PartLine: part_lines,
    Verdict: verdict_lines,
    Items: item_lines,
    Table: table_lines,
    ColumnTable: column_table_lines,
    Facts: fact_lines,
    FindingBlock: finding_lines,
    RunCharts: chart_lines,
    BarChart: nothing,
    PlaceDrawing: place_lines,
    Data: nothing,
}


# ----------------------------------------------------------------------------------------- escaping


def fenced_block(lines: Iterable[str]) -> Iterator[str]:
    """A fenced block of cleaned lines that no line can end."""
    cleaned = [clean(line) for line in lines]
    fence = "`" * max(3, 1 + longest_backquote_run(cleaned))
    yield fence
    yield from cleaned
    yield fence


def longest_backquote_run(lines: Iterable[str]) -> int:
    """Number of backquotes that follow one another; 0: there are none."""
    longest = 0
    for line in lines:
        for run in BACKQUOTE_RUN.findall(line):
            longest = max(longest, len(run))
    return longest


def escape_markdown(raw: str) -> str:
    """Cleaned text in which no character is Markdown or HTML, and no word becomes a link (GFM
    autolinks)."""
    return MARKDOWN_CHARACTERS.sub(escaped, clean(raw))


def escaped(match: re.Match[str]) -> str:
    if match[0] == "@":
        return MENTION
    is_safe = SAFE_PUNCTUATION.match(match.string, match.start()) is not None
    return match[0] if is_safe else f"\\{match[0]}"


def inline_code(raw: str) -> str:
    """Cleaned text as inline code."""
    cleaned = clean(raw)
    fence = "`" * (1 + longest_backquote_run([cleaned]))
    pad = " " if "`" in (cleaned[:1], cleaned[-1:]) else ""
    return f"{fence}{pad}{cleaned}{pad}{fence}"
