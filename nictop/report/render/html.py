"""A document as elements of an HTML page. Severity is shown as a mark, a word and a colour.

Reads nothing. Text from hosts cannot become markup (`html.elements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nictop.model.columns.column import Column
from nictop.report.document import (
    PART_SEPARATOR,
    BarChart,
    Block,
    ColumnTable,
    Data,
    Fact,
    Facts,
    FindingBlock,
    Head,
    Items,
    Line,
    PartLine,
    PlaceDrawing,
    RunCharts,
    Section,
    Style,
    Table,
    Toned,
    Verdict,
)
from nictop.report.html.charts import bar_chart, run_chart
from nictop.report.html.elements import (
    LINE_END,
    Html,
    details_element,
    element,
    html_lines,
    join_html,
    table,
)
from nictop.report.html.latency_charts import latency_charts
from nictop.report.html.place import place_figure
from nictop.rules import Finding, Fix
from nictop.rules.wording import SEVERITY_LABELS, finding_mark, place_text, subject_text

LONG_TEXT_COLUMNS = ("profile", "ip")
"""Columns of the screen whose text may be of any length."""
STYLE_CLASSES: dict[Style, str] = {"normal": "", "title": ""}
"""Class of a style that has another name, or none."""
VERDICT_CLASSES = {"good": "verdict good", "bad": "verdict bad"}
TOP_LEVEL = 2
"""Of the title of a chapter: ``h2``."""
MAX_LEVEL = 4


def html_blocks(blocks: Iterable[Block], level: int = TOP_LEVEL) -> Iterator[Html]:
    """The elements of all blocks. `level`: number of a heading."""
    for block in blocks:
        yield from DRAW[type(block)](block, level)


def class_of(style: Style) -> str:
    return STYLE_CLASSES.get(style, style)


def section_html(section: Section, level: int) -> Iterator[Html]:
    if section.form in ("fold", "detail"):
        yield folded_html(section, level)
        return
    if section.form == "box":
        yield element("article", *html_blocks(section.blocks, level), class_="run")
        return
    inner = html_blocks(section.blocks, level + 1 if section.title else level)
    parts = [*heading(section.title, level), *inner]
    if section.form == "footer":
        yield element("footer", *parts)
    elif section.anchor:
        yield element("section", *parts, id_=section.anchor)
    else:
        yield from parts


def heading(title: str, level: int) -> Iterator[Html]:
    if title:
        yield element(f"h{min(level, MAX_LEVEL)}", title)


def folded_html(section: Section, level: int) -> Html:
    summary = [element("bdi", section.title)]
    if section.note is not None:
        summary.append(
            element("span", f" · {section.note.text}", class_=class_of(section.note.style))
        )
    inner = join_html(html_blocks(section.blocks, level + 1), LINE_END)
    return details_element(join_html(summary), inner, open_=section.is_open)


def line_html(line: Line, level: int) -> Iterator[Html]:
    if line.style == "title":
        yield element("h3", line.text)
    else:
        yield element("p", line.text, class_=class_of(line.style))


def verdict_html(verdict: Verdict, level: int) -> Iterator[Html]:
    class_ = VERDICT_CLASSES.get(verdict.tone, "verdict")
    if verdict.detail:
        yield element("p", element("span", verdict.text, class_=class_), f" ({verdict.detail})")
    else:
        yield element("p", verdict.text, class_=class_)


def items_html(items: Items, level: int) -> Iterator[Html]:
    if items.lines:
        yield element("ul", *map(item_html, items.lines))


def item_html(item: Line) -> Html:
    return element("li", item.text, class_=class_of(item.style))


def part_line_html(line: PartLine, level: int) -> Iterator[Html]:
    parts: list[Html | str] = []
    for part in line.parts:
        if parts:
            parts.append(PART_SEPARATOR)
        parts.append(element("span", part.text, class_=class_of(part.style)))
    yield element("p", *parts, class_="chain")


def table_html(block: Table, level: int) -> Iterator[Html]:
    rows = (map(cell_html, row) for row in block.rows)
    yield table(block.titles, rows, class_=block.name, numbers_from=block.left)


def cell_html(cell: str | Toned) -> str:
    if isinstance(cell, Toned) and cell.style == "code":
        return element("code", cell.text)
    if isinstance(cell, Toned):
        return element("td", cell.text, class_=class_of(cell.style))
    return cell


# ---------------------------------------------------------------------------- columns of the screen


def column_table_html(block: ColumnTable, level: int) -> Iterator[Html]:
    if block.title:
        yield element("h4", block.title.capitalize())
    columns = block.page_columns()
    titles = [column.title for column in columns]
    if block.heads:
        yield table(["device", *titles], tree_rows(block, columns), class_="tree")
    else:
        yield table(titles, (cell_texts(columns, row) for row in block.rows))


def tree_rows(block: ColumnTable, columns: Sequence[Column[Any]]) -> Iterator[list[Html]]:
    """The cells of each row, its name first."""
    for head, row in zip(block.heads, block.rows, strict=True):
        yield [head_html(head), *(screen_cell(column, row) for column in columns)]


def cell_texts(columns: Iterable[Column[Any]], row: object) -> Iterator[str]:
    for column in columns:
        yield column.cell(row)[0].strip()


def head_html(head: Head) -> Html:
    guides = (element("span", head.guides, class_="guide"),) if head.guides else ()
    return element("td", *guides, element("bdi", head.name))


def screen_cell(column: Column[Any], row: object) -> Html:
    content, tone = column.cell(row)
    classes = [column_class(column), class_of(tone)]
    return element("td", content.strip(), class_=" ".join(filter(None, classes)))


def column_class(column: Column[Any]) -> str:
    if column.align == "right":
        return "number"
    return "long" if column.key in LONG_TEXT_COLUMNS else ""


# ---------------------------------------------------------------------------------- facts, findings


def facts_html(facts: Facts, level: int) -> Iterator[Html]:
    if facts.title:
        yield element("h4", facts.title)
    yield element("dl", join_html(map(fact_html, facts.facts), LINE_END))


def fact_html(fact: Fact) -> Html:
    parts: list[str] = [fact.text]
    if fact.table is not None:
        parts += table_html(fact.table, TOP_LEVEL)
    parts += command_block(map(str, fact.commands))
    return join_html(
        (element("dt", fact.label), element("dd", *parts, class_=class_of(fact.style)))
    )


def command_block(commands: Iterable[str]) -> Iterator[Html]:
    """The commands as preformatted lines; no element without commands."""
    lines = html_lines(commands)
    if lines:
        yield element("pre", lines)


def finding_html(block: FindingBlock, level: int) -> Iterator[Html]:
    finding = block.finding
    word = SEVERITY_LABELS[finding.severity].word
    subject = subject_text(finding, several_hosts=block.names_host)
    mark = element("span", f"{finding_mark(finding)} {word}", class_="mark")
    yield element(
        "article",
        element("h3", mark, " ", element("bdi", subject), f": {finding.title}"),
        element("p", finding.why),
        *evidence_html(finding),
        *fixes_html(finding),
        element("p", "Rule ", element("code", finding.rule), class_="dim"),
        class_=f"finding {finding.severity}",
    )


def evidence_html(finding: Finding) -> Iterator[Html]:
    if finding.evidence:
        rows = ((fact.what, fact.value, fact.source) for fact in finding.evidence)
        yield table(("evidence", "value", "source"), rows)


def fixes_html(finding: Finding) -> Iterator[Html]:
    for fix in finding.fixes:
        yield from fix_html(finding, fix)


def fix_html(finding: Finding, fix: Fix) -> Iterator[Html]:
    place = element("span", f" ({place_text(finding.host, fix)})", class_="place")
    yield element("h4", fix.title, place)
    yield from command_block(map(str, fix.commands))
    if fix.note:
        yield element("p", fix.note)
    if fix.undo:
        yield element("p", "Undo:")
        yield from command_block(map(str, fix.undo))


# ------------------------------------------------------------------------------------- charts, data


def run_charts_html(charts: RunCharts, level: int) -> Iterator[Html]:
    yield run_chart(charts.result)
    yield latency_charts(charts.result)


def bar_chart_html(chart: BarChart, level: int) -> Iterator[Html]:
    yield bar_chart(chart)


def place_html(drawing: PlaceDrawing, level: int) -> Iterator[Html]:
    lines = drawing.lines()
    if lines:
        yield place_figure(lines, drawing.title)


def data_html(data: Data, level: int) -> Iterator[Html]:
    yield details_element(data.title, element("pre", Html(escaped_json(data.json()))))


def escaped_json(ascii_json: str) -> str:
    """JSON as HTML; it consists of printable ASCII and line ends."""
    return ascii_json.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


DRAW: dict[type, Callable[[Any, int], Iterable[Html]]] = {
    Section: section_html,
    Line: line_html,
    PartLine: part_line_html,
    Verdict: verdict_html,
    Items: items_html,
    Table: table_html,
    ColumnTable: column_table_html,
    Facts: facts_html,
    FindingBlock: finding_html,
    RunCharts: run_charts_html,
    BarChart: bar_chart_html,
    PlaceDrawing: place_html,
    Data: data_html,
}
