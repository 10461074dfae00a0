"""What is said about a subject, without a form: sections of lines, facts, tables, findings and
charts.

One function for each subject makes it (hosts, findings, a run, a comparison, a path test, drops,
connections); `render.text`, `render.markdown` and `render.html` draw every document. Texts are raw:
the renderers clean and escape them. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from nictop.model.text.words import Tone
from nictop.probe.light_dataclasses import dataclass

if TYPE_CHECKING:  # `nictop show` starts without the rules and without traffic
    from nictop.model.columns.column import Column
    from nictop.model.place import PlaceLine
    from nictop.rules.finding import Finding
    from nictop.rules.fixes.commands import Step
    from nictop.traffic.results.result import Result

Style = Literal[Tone, "verdict", "code"]
"""How a text is drawn, where the form of the document has styles."""
Mark = Literal["", "critical", "warning"]
PART_SEPARATOR = " │ "
Form = Literal["plain", "box", "fold", "detail", "reference", "footer"]
"""plain: a title, and below it the blocks. box: with a frame on an HTML page. fold: opened by a
click there; in a text its title is underlined. detail: also folded in Markdown. reference: a
chapter of an HTML page; in Markdown a text that is folded. footer: at the end of a page."""


@dataclass(frozen=True)
class Line:
    """A sentence of its own."""

    text: str
    style: Style = "normal"


@dataclass(frozen=True)
class Verdict:
    """What the whole comes to."""

    text: str
    detail: str = ""
    """What it rests on."""
    tone: Tone = "normal"


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    lines: tuple[Line, ...]
    indent: int = 0
    """Cells before each line of a text."""


@dataclass(frozen=True)
class Toned:
    """A cell of a table in a style of its own."""

    text: str
    style: Style


@dataclass(frozen=True)
class PartLine:
    """Parts in a row: a line of a text has as many as fit, and none is broken."""

    parts: tuple[Toned, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells with a title for each column."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str | Toned, ...], ...]
    left: int = 1
    """Number of columns with text; those behind have numbers and are flush right."""
    layout: Callable[[int], Iterable[str]] | None = None
    """Its lines in a text of so many cells. None: each column is as wide as its widest cell."""
    indent: int = 0
    """Cells before each line of a text."""
    name: str = ""
    """Class on an HTML page."""


@dataclass(frozen=True)
class Head:
    """The name before the columns of a row, with its place in a tree."""

    guides: str
    name: str


@dataclass(frozen=True)
class ColumnTable:
    """A table of the columns that the screen has: in a text those that have room."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    page_columns: Callable[[], Sequence[Column[Any]]]
    """Makes those of an HTML page, which may be wider than a terminal."""
    title: str = ""
    heads: tuple[Head, ...] = ()
    """Of each row; (): the rows have no names."""
    indent: int = 0


@dataclass(frozen=True)
class Fact:
    """A sentence with a label, and what belongs to it."""

    label: str
    text: str = ""
    style: Style = "normal"
    mark: Mark = ""
    """Before the label of a text."""
    kind: str = ""
    """In a text, facts of one kind have their label once; "": each has its label."""
    table: Table | None = None
    commands: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Facts that belong together."""

    facts: tuple[Fact, ...]
    label_cells: int
    """Of a text, so that the facts of several lists stand straight."""
    title: str = ""
    indent: int = 0


@dataclass(frozen=True)
class FindingBlock:
    """A finding of a rule, with its evidence and commands."""

    finding: Finding
    names_host: bool
    """The name of its host is said."""
    apply: Step | None = None
    """The command that applies a fix; None: none is said."""


@dataclass(frozen=True)
class RunCharts:
    """What was measured in a run over time; of requests also the histogram of latencies."""

    result: Result


@dataclass(frozen=True)
class BarCost:
    """What one host paid for a set-up."""

    host: str
    """With its role."""
    value: float
    text: str
    """With its unit."""


@dataclass(frozen=True)
class Bar:
    """One set-up in a chart."""

    label: str
    value: float | None
    """Bits or transactions per second; None: no run was completed."""
    low: float | None = None
    high: float | None = None
    each: tuple[float, ...] = ()
    """The value of every run."""
    text: str = ""
    """The value with its unit; "": bits per second."""
    costs: tuple[BarCost, ...] = ()
    """Of the hosts whose cost is known."""


@dataclass(frozen=True)
class BarChart:
    """A bar for each set-up, beside the table that has its figures."""

    bars: tuple[Bar, ...]
    title: str
    ceiling: float | None = None
    """Bits per second; None: not drawn."""
    cost_title: str = ""
    """What `Bar.costs` are."""


@dataclass(frozen=True)
class PlaceDrawing:
    """Where a NIC is in its machine: boxes on an HTML page, a tree elsewhere."""

    title: str
    """Of the boxes, which may stand alone."""
    lines: Callable[[], Sequence[PlaceLine]]
    heading: str
    """Above the tree."""
    indent: int
    """Cells before each line of a tree."""


@dataclass(frozen=True)
class Data:
    """All data as JSON, on an HTML page only: the other forms have ``--format json``."""

    title: str
    json: Callable[[], str]
    """Makes printable ASCII."""


@dataclass(frozen=True)
class Section:
    """Blocks that belong together."""

    blocks: tuple[Block, ...]
    title: str = ""
    command: str = ""
    """That prints the section: its title in Markdown; "": `title` is."""
    note: Toned | None = None
    """Beside the title on an HTML page."""
    form: Form = "plain"
    is_open: bool = False
    """Of a fold."""
    anchor: str = ""
    """For the contents of a page; "": the section is part of another one."""
    entry: str = ""
    """Its name in the contents."""


Block = (
    Line
    | Verdict
    | Items
    | PartLine
    | Table
    | ColumnTable
    | Facts
    | FindingBlock
    | RunCharts
    | BarChart
    | PlaceDrawing
    | Data
    | Section
)


@dataclass(frozen=True)
class Document:
    """A whole page."""

    title: str
    about: str
    """When and by what it was made."""
    blocks: tuple[Block, ...]


def lines_of(texts: Iterable[str], style: Style = "normal") -> tuple[Line, ...]:
    """Each text as a line."""
    return tuple(Line(text, style) for text in texts)
