"""Everything about the chosen device: its traffic of the last 60 s, its facts, and its findings.

RX 9.41 Gb/s   10 G┤      ▆██████████
812 kpps          0┤▂▄▆██████████████
                    -60 s         now
State         up, 10G full · MTU 1500
Errors        rx_missed_errors 12.0 k/s
── Findings of this interface ────────
▲ receive ring is 256 of 4096
    ethtool -G ens192 rx 4096
── Link ──────────────────────────────
speed         10000 Mb/s · full duplex
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from nictop.model.devices.tree import Row
from nictop.model.facts import SUMMARY, Fact, Section, fit, is_virtual, width, wrap
from nictop.model.facts.facts import link_facts
from nictop.model.facts.pairs import PairFact
from nictop.model.facts.summary import summary_line
from nictop.model.history import History
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules.wording import SEVERITY_LABELS, command_lines, fixes_with_commands, more_commands, severity_mark
from nictop.tui.keys import LINK_PANEL_KEYS
from nictop.tui.widgets.base.line_view import TONES, LineView, Span, SpanLine, cut_spans, section_line
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.charts.plot import TICK_CELLS, ReadingRange, column_means, reading_ranges, time_chart
from nictop.tui.widgets.devices.table import HISTORY_SECONDS, DeviceFindings, all_findings_of

if TYPE_CHECKING:
    from nictop.rules import Finding

LABEL_WIDTH = 13
NUMBERS_CELLS = 15
"""Cells of the numbers at the left of a chart: ``RX 9.41 Gb/s``."""
MIN_BESIDE_CELLS = 56
"""Cells from which on RX and TX stand beside each other."""
NO_ROW = " No interface is chosen"
MIN_SUMMARY_ROWS = 5
"""Rows from which on the summary has a line for each fact."""


def draw_facts(sections: Sequence[Section], width: int) -> list[SpanLine]:
    """Sections as lines: a rule with the title (the summary has none: it belongs to the title of the panel), then label
    and text; long texts wrap below themselves."""
    lines: list[SpanLine] = []
    for section in sections:
        if section.title != SUMMARY:
            lines.append(section_line(section.title, width))
        for fact in section.facts:
            room = max(10, width - LABEL_WIDTH - 3)
            for number, part in enumerate(wrap(fact.text, room)):
                label = fit(fact.label, LABEL_WIDTH) if number == 0 else " " * LABEL_WIDTH
                lines.append(((f" {label} ", "dim"), (part, TONES[fact.tone])))
    return lines


def draw_summary_line(facts: Sequence[Fact], cells: int, rows: int, glyphs: Glyphs = UNICODE) -> list[SpanLine]:
    """The facts behind each other, each whole, in at most `rows` lines; where some are left out, with an ellipsis."""
    lines: list[list[Span]] = [[]]
    used = 0
    for fact in facts:
        text = glyphs.text(fact.text)
        if used and used + 3 + width(text) > cells - (2 if len(lines) == rows else 1):
            if len(lines) == rows:
                lines[-1].append((" …", "dim"))
                break
            lines.append([])
            used = 0
        lines[-1] += [(" · " if used else " ", "dim"), (text, TONES[fact.tone])]
        used += width(text) + (3 if used else 1)
    return [tuple(cut_spans(line, cells)) for line in lines]


def draw_findings_of(findings: Sequence[Finding], cells: int, glyphs: Glyphs = UNICODE) -> list[SpanLine]:
    """The findings of one device, worst first: mark, title, the first command of the first fix, and how many follow."""
    lines: list[SpanLine] = []
    for finding in findings:
        mark: Span = (
            f" {severity_mark(finding.severity, glyphs=glyphs)} ",
            TONES[SEVERITY_LABELS[finding.severity].tone],
        )
        for number, part in enumerate(wrap(glyphs.text(finding.title), max(10, cells - 4))):
            lines.append((mark if number == 0 else ("   ", ""), (part, "title")))
        fix = next(iter(fixes_with_commands(finding)), None)
        if fix is not None:
            command = command_lines(fix.commands[0], max(10, cells - 3), where=fix.where, shown=glyphs.text)
            lines += [((f"   {part}", ""),) for part in command]
            if fix.commands[1:]:
                lines.append(((f"   {more_commands(len(fix.commands) - 1)}", "dim"),))
    return [section_line("Findings of this interface", cells), *lines] if lines else []


@dataclass(frozen=True)
class Direction:
    """What one of the two charts shows: numbers of now, and bits per second over time."""

    name: str
    style: str
    series: Sequence[float | None]
    bits: float | None
    packets: float | None

    def numbers(self, speed: int | None) -> list[str]:
        """Rate, packets per second, share of `speed` (Mb/s; None: it says nothing), highest reading."""
        numbers = [f"{self.name} {units.bits_per_second(self.bits)}", units.packets_per_second(self.packets)]
        if speed and self.bits is not None:
            numbers.append(f"{units.percentage(self.bits / (speed * 1e6))} of {units.link_speed(speed)}")
        return [*numbers, f"peak {units.bits_per_second(self.peak)}"] if self.peak else numbers

    @property
    def peak(self) -> float:
        """Bits per second of the highest reading."""
        return max((value for value in (*self.series, self.bits) if value is not None), default=0.0)


def directions(row: Row, snapshot: Snapshot, history: History) -> tuple[Direction, ...]:
    """RX and TX of the netdev of `row`; none for a row without one."""
    if row.link is None:
        return ()
    ifindex = row.link.ifindex
    rates = snapshot.rates.links.get(ifindex) if snapshot.rates is not None else None
    return tuple(
        Direction(
            side.upper(),
            style,
            history.series((f"{side}_bits", ifindex)),
            getattr(rates, f"{side}_bits", None),
            getattr(rates, f"{side}_packets", None),
        )
        for side, style in (("rx", "in"), ("tx", "out"))
    )


def draw_traffic(
    both: Sequence[Direction],
    times: Sequence[float],
    cells: int,
    rows: int,
    *,
    beside: bool,
    speed: int | None = None,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The charts of all directions, `beside` or above each other, each `rows` high with a time axis below: numbers at
    the left, bits per second of the last 60 s at the right, each column the mean of its readings. `times`: of the
    readings. `speed`: Mb/s of the link, where a share of it means something."""
    room = cells // max(1, len(both)) if beside else cells
    columns = room - NUMBERS_CELLS - TICK_CELLS - 1
    ranges = reading_ranges(times, HISTORY_SECONDS, max(0, columns))
    charts = [_chart(one.numbers(speed), one, ranges, rows, glyphs) for one in both]
    if not beside:
        return [line for chart in charts for line in chart]
    return [tuple(span for line in parts for span in line) for parts in zip(*charts, strict=True)]


def _chart(
    numbers: Sequence[str], one: Direction, ranges: Sequence[ReadingRange], rows: int, glyphs: Glyphs
) -> list[SpanLine]:
    heads = [(fit(f" {text}", NUMBERS_CELLS), "" if number else one.style) for number, text in enumerate(numbers)]
    heads += [(" " * NUMBERS_CELLS, "")] * (rows + 1)
    drawn = time_chart(column_means(one.series, ranges), rows, HISTORY_SECONDS, one.style, peak=one.peak, glyphs=glyphs)
    return [(head, *line, (" ", "")) for head, line in zip(heads, drawn, strict=False)]


class TrafficChart(LineView):
    """RX and TX of one link over the last 60 s, in as many rows as it is given."""

    can_focus = False

    def show(self, row: Row, snapshot: Snapshot, history: History, shape: ChartShape) -> None:
        settings = row.link.ethtool.settings if row.link is not None else None
        lines = draw_traffic(
            directions(row, snapshot, history),
            history.times(),
            self.size.width,
            shape.rows,
            beside=shape.beside,
            speed=None if settings is None or row.link is None or is_virtual(row.link) else settings.speed,
            glyphs=self.glyphs,
        )
        self.show_lines(lines)


@dataclass(frozen=True)
class ChartShape:
    """How RX and TX are drawn."""

    rows: int
    """Of each chart, without its time axis; 0: there is no room for charts."""
    beside: bool

    @property
    def height(self) -> int:
        """Rows of both charts together."""
        return (self.rows + 1) * (1 if self.beside else 2) if self.rows else 0


def chart_shape(cells: int, height: int) -> ChartShape:
    """Charts beside each other where each is wide enough; they take at most half of `height` rows, if that is more
    than the one line of facts that remains in any case."""
    beside = cells >= MIN_BESIDE_CELLS
    room = max(height // 2, min(height - 1, 3))
    rows = next((rows for rows in (8, 5, 4, 3, 2) if ChartShape(rows, beside).height <= room), 0)
    return ChartShape(rows, beside)


class FactsView(LineView):
    """The facts of the chosen row."""

    marks_more = True
    has_page_keys = True
    """The keys that scroll by a page are for it also while the table has the focus."""

    @property
    def more_key(self) -> str:
        return super().more_key if self.has_focus or self.has_page_keys else "Tab PgDn"

    def page(self, pages: int) -> None:
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)


class LinkPanel(WhileOpen, Vertical):
    """Chart and facts of the chosen row."""

    BINDINGS: ClassVar[list[BindingType]] = LINK_PANEL_KEYS

    def compose(self) -> ComposeResult:
        yield TrafficChart(id="traffic")
        yield FactsView(id="facts")

    def action_scroll(self, lines: int) -> None:
        self.query_one(FactsView).scroll_relative(y=lines, animate=False)

    def show(
        self,
        row: Row | None,
        snapshot: Snapshot,
        history: History,
        findings: DeviceFindings,
        peers: Sequence[PairFact] = (),
        *,
        with_chart: bool = True,
    ) -> None:
        """Draw `row` (None: nothing to choose yet) from `snapshot`. `peers`: on other hosts. `with_chart`: else it is
        drawn elsewhere."""
        chart, view = self.query_one(TrafficChart), self.query_one(FactsView)
        shape = chart_shape(self.content_size.width, self.content_size.height)
        drawn = with_chart and shape.rows > 0 and row is not None and row.link is not None
        if chart.display != drawn:
            chart.display = drawn
        if row is None:
            view.show_lines([((NO_ROW, "dim"),)])
            return
        if drawn:
            chart.take_rows(shape.height)
            chart.show(row, snapshot, history, shape)
        height = self.content_size.height - (shape.height if drawn else 0)
        view.set_class(height < MIN_SUMMARY_ROWS, "-brief")
        view.show_lines(draw_detail(row, snapshot, findings, view.size.width, height, peers=peers, glyphs=self.glyphs))


def draw_detail(
    row: Row,
    snapshot: Snapshot,
    findings: DeviceFindings,
    cells: int,
    height: int,
    *,
    peers: Sequence[PairFact] = (),
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """Summary, findings, and all other facts of a row. The summary is one line where `height` rows are too few for
    more."""
    sections = link_facts(row, snapshot)
    summary = [one for one in sections if one.title == SUMMARY]
    others = [one for one in sections if one.title != SUMMARY]
    if peers:
        facts = tuple(Fact("Peer", glyphs.text(one.text), one.tone) for one in peers)
        others.insert(0, Section("Other hosts", facts))
    lines = draw_facts(summary, cells)
    if row.link is not None and summary and height < MIN_SUMMARY_ROWS:
        lines = draw_summary_line(summary_line(row.link, row.pci, snapshot), cells, max(1, height), glyphs)
    return [*lines, *draw_findings_of(all_findings_of(row, findings), cells, glyphs), *draw_facts(others, cells)]


def draw_subject(
    snapshot: Snapshot,
    ifindex: int | None,
    address: str,
    cells: int,
    *,
    findings: DeviceFindings,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The same of a netdev, else of the PCI function with this address, else of the host, wherever it is listed."""
    link = snapshot.links.get(ifindex) if ifindex is not None else None
    address = link.pci_address or "" if link is not None else address
    function = next((one for one in snapshot.pci if one.address == address), None)
    if link is not None:
        row = Row(f"link:{link.ifindex}", "link", 0, link.name, function, link)
    elif function is not None:
        row = Row(f"pci:{address}", "pci", 0, address, function)
    else:
        row = Row("host", "host", 0, snapshot.host)
    return draw_detail(row, snapshot, findings, cells, MIN_SUMMARY_ROWS, glyphs=glyphs)
