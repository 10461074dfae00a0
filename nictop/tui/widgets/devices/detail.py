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
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from nictop.model.devices.links import functions_by_address, link_at
from nictop.model.devices.ports import wire_rates
from nictop.model.devices.tree import Row, row_of_host, row_of_link
from nictop.model.facts import SUMMARY, Fact, Section, fit, is_virtual, width, wrap
from nictop.model.facts.facts import FixedSections, fixed_sections, link_facts
from nictop.model.facts.pairs import PairFact
from nictop.model.facts.summary import summary_line
from nictop.model.history import History
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.rules.by_device import DeviceFindings, findings_of
from nictop.rules.chain import ChainStep, has_chain, nic_chain
from nictop.rules.wording import (
    command_lines,
    fixes_with_commands,
    more_commands,
)
from nictop.tui.keys import LINK_PANEL_KEYS
from nictop.tui.widgets.base.line_widget import (
    TONES,
    LineWidget,
    Span,
    SpanLine,
    cut_spans,
    section_line,
    span_cells,
)
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.charts.plot import (
    HISTORY_SECONDS,
    NOW,
    TICK_CELLS,
    AxisEnd,
    ReadingRange,
    column_means,
    present,
    reading_ranges,
    time_chart,
)
from nictop.tui.widgets.charts.sparkline import highest
from nictop.tui.widgets.devices.chain import ChainView, draw_chain
from nictop.tui.widgets.findings.panel import severity_span

if TYPE_CHECKING:
    from nictop.probe.records import Link
    from nictop.rules import Finding, Fix

LABEL_WIDTH = 13
NUMBERS_CELLS = 15
"""Cells of the numbers at the left of a chart: ``RX 9.41 Gb/s``."""
MEANS_TEXT, MEANS_WORD = "chart: means", "means"
"""Beside its time axis, where a column is the mean of several readings: the highest one and the
newest one are not in sight. The word is in the axis if the numbers need its row."""
GAP_TEXT, GAP_WORD = "no data {}", "gap"
"""The same, where readings are missing: for how long. It is more important."""
MIN_READINGS = 3
"""Fewer are no course: a column between two readings has the value of one of them. Their number is
said instead of all this."""
MIN_BESIDE_CELLS = 56
"""Cells from which on RX and TX stand beside each other."""
NO_ROW = " No interface is chosen"
MIN_SUMMARY_ROWS = 5
"""Rows from which on the summary has a line for each fact."""
MIN_FACT_ROWS = 1
"""Of facts below the layers."""
SUMMARY_SEPARATOR = " · "


def draw_facts(sections: Sequence[Section], width: int) -> list[SpanLine]:
    """Sections as lines: a rule with the title (the summary has none: it belongs to the title of
    the panel), then label and text; long texts wrap below themselves."""
    lines: list[SpanLine] = []
    for section in sections:
        if section.title != SUMMARY:
            lines.append(section_line(section.title, width))
        for fact in section.facts:
            label = fact.label
            for part in wrap(fact.text, max(10, width - LABEL_WIDTH - 3)):
                lines.append(((f" {fit(label, LABEL_WIDTH)} ", "dim"), (part, TONES[fact.tone])))
                label = ""
    return lines


def draw_summary_line(
    facts: Sequence[Fact], cells: int, rows: int, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The facts behind each other, each whole, in at most `rows` lines; where some are left out,
    with an ellipsis."""
    lines: list[list[Span]] = [[]]
    for fact in facts:
        line, is_last = lines[-1], len(lines) == rows
        text = glyphs.text(fact.text)
        room = cells - span_cells(line) - (2 if is_last else 1)
        if line and width(SUMMARY_SEPARATOR) + width(text) > room:
            if is_last:
                line.append((" …", "dim"))
                break
            line = []
            lines.append(line)
        line += [(SUMMARY_SEPARATOR if line else " ", "dim"), (text, TONES[fact.tone])]
    return [tuple(cut_spans(line, cells)) for line in lines]


def draw_findings_of(
    findings: Sequence[Finding], cells: int, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The findings of one device, worst first: mark, title, the first command of the first fix, and
    how many follow."""
    if not findings:
        return []
    lines = [section_line("Findings of this interface", cells)]
    for finding in findings:
        lead = severity_span(finding, glyphs)
        for part in wrap(glyphs.text(finding.title), max(10, cells - 4)):
            lines.append((lead, (part, "title")))
            lead = ("   ", "")
        fix = next(iter(fixes_with_commands(finding)), None)
        if fix is not None:
            lines += _command_lines(fix, cells, glyphs)
    return lines


def _command_lines(fix: Fix, cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """The first command, and how many follow."""
    first, *others = fix.commands
    parts = command_lines(first, max(10, cells - 3), where=fix.where, shown=glyphs.text)
    lines: list[SpanLine] = [((f"   {part}", ""),) for part in parts]
    if others:
        lines.append(((f"   {more_commands(len(others))}", "dim"),))
    return lines


@dataclass(frozen=True)
class Direction:
    """What one of the two charts shows: numbers of now, and bits per second over time."""

    name: str
    style: str
    series: Sequence[float | None]
    bits: float | None
    packets: float | None

    def numbers(self, speed: int | None, peak: float) -> list[str]:
        """Rate, packets per second, share of `speed` (Mb/s; None: it says nothing), `peak`."""
        numbers = [
            f"{self.name} {units.bits_per_second(self.bits)}",
            units.packets_per_second(self.packets),
        ]
        if speed and self.bits is not None:
            share = self.bits / (speed * 1e6)
            numbers.append(f"{units.percentage(share)} of {units.link_speed(speed)}")
        if peak:
            numbers.append(f"peak {units.bits_per_second(peak)}")
        return numbers

    def peak(self, ranges: Sequence[ReadingRange]) -> float:
        """Bits per second of the highest reading in the columns of a chart, or now."""
        oldest = min((begin for begin, end in ranges if begin < end), default=0)
        shown = self.series[oldest:] if oldest else ()
        return highest((*shown, self.bits))


def directions(row: Row, snapshot: Snapshot, history: History) -> tuple[Direction, ...]:
    """RX and TX of the netdev of `row` (of a port with VFs: of the port); none for a row without
    one."""
    if row.link is None:
        return ()
    ifindex = row.link.ifindex
    received, sent = history.series(("rx_bits", ifindex)), history.series(("tx_bits", ifindex))
    rates = wire_rates(snapshot).get(ifindex)
    if rates is None:
        return (
            Direction("RX", "in", received, None, None),
            Direction("TX", "out", sent, None, None),
        )
    return (
        Direction("RX", "in", received, rates.rx_bits, rates.rx_packets),
        Direction("TX", "out", sent, rates.tx_bits, rates.tx_packets),
    )


def draw_traffic(
    both: Sequence[Direction],
    times: Sequence[float],
    cells: int,
    rows: int,
    *,
    beside: bool,
    speed: int | None = None,
    end: str = NOW,
    gap: float = 0.0,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The charts of all directions, `beside` or above each other, each `rows` high with a time axis
    below: numbers at the left, bits per second of the last 60 s at the right, each column the mean
    of its readings. `times`: of the readings. `speed`: Mb/s of the link, where a share of it means
    something. `end`: see `time_axis`. `gap`: seconds without readings in that time."""
    room = cells
    if beside:
        room = cells // max(1, len(both))
    columns = room - NUMBERS_CELLS - TICK_CELLS - 1
    ranges = reading_ranges(times, HISTORY_SECONDS, max(0, columns))
    charts = [
        _chart(direction, speed, ranges, rows, end=end, gap=gap, glyphs=glyphs)
        for direction in both
    ]
    if beside:
        return [tuple(chain.from_iterable(lines)) for lines in zip(*charts, strict=True)]
    return list(chain.from_iterable(charts))


def _chart(
    direction: Direction,
    speed: int | None,
    ranges: Sequence[ReadingRange],
    rows: int,
    *,
    end: str,
    gap: float,
    glyphs: Glyphs,
) -> list[SpanLine]:
    """`gap`: seconds without readings."""
    peak = direction.peak(ranges)
    rate, *others = direction.numbers(speed, peak)
    heads = [_head(rate, direction.style), *(_head(text) for text in others)]
    heads += [_head("")] * (rows - len(heads))
    has_means = any(after - first > 1 for first, after in ranges)
    has_room = len(heads) == rows
    few = _few_readings(direction.series, ranges)
    if few and has_room:
        heads.append(_head(few, "warn"))
    elif gap and has_room:
        heads.append(_head(GAP_TEXT.format(units.whole_seconds(gap)), "warn"))
    elif has_means and has_room:
        heads.append(_head(MEANS_TEXT, "dim"))
    heads.append(_head(""))
    means = column_means(direction.series, ranges)
    drawn = time_chart(
        means,
        rows,
        HISTORY_SECONDS,
        direction.style,
        peak=peak,
        end=end,
        glyphs=glyphs,
    )
    hides_peak = max((mean for mean in means if mean is not None), default=0.0) < peak
    word = few
    if gap and not few:
        word = GAP_WORD
    elif has_means and hides_peak and not few:
        word = MEANS_WORD
    if word and not has_room:
        ((axis, style),) = drawn[-1]
        drawn[-1] = ((with_word(axis, end, word), style),)
    return [(head, *line, (" ", "")) for head, line in zip(heads, drawn, strict=False)]


def _few_readings(series: Sequence[float | None], ranges: Sequence[ReadingRange]) -> str:
    """``2 readings`` if that is all that the columns have; "": they have none, or enough."""
    oldest = min((begin for begin, end in ranges if begin < end), default=0)
    shown = series[oldest:] if oldest else ()
    count = sum(value is not None for value in shown)
    return count_noun(count, "reading") if 0 < count < MIN_READINGS else ""


def _head(text: str, style: str = "") -> Span:
    """What is at the left of a row of a chart."""
    return fit(f" {text}", NUMBERS_CELLS), style


def with_word(axis: str, end: str, word: str) -> str:
    """``-60 s   means now``; the word takes the place of the beginning where both do not fit."""
    words = f" {word} {end}"
    if len(axis) < len(words):
        return axis
    begin = axis[: -len(words)]
    covered = axis[-len(words) : -len(end)]
    return (" " * len(begin) if covered.strip() else begin) + words


class TrafficChart(LineWidget):
    """RX and TX of one link over the last 60 s, in as many rows as it is given."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.axis_end: AxisEnd = present

    def show(self, row: Row, snapshot: Snapshot, history: History, shape: ChartShape) -> None:
        lines = draw_traffic(
            directions(row, snapshot, history),
            history.times(),
            self.size.width,
            shape.rows,
            beside=shape.beside,
            speed=_known_speed(row.link),
            end=self.axis_end(),
            gap=history.seconds_without_readings(HISTORY_SECONDS),
            glyphs=self.glyphs,
        )
        self.show_lines(lines)


def _known_speed(link: Link | None) -> int | None:
    """Mb/s; None: it is not known, or says nothing, as that of a tap."""
    if link is None or is_virtual(link) or link.ethtool.settings is None:
        return None
    return link.ethtool.settings.speed


@dataclass(frozen=True)
class ChartShape:
    """How RX and TX are drawn."""

    rows: int
    """Of each chart, without its time axis; 0: there is no room for charts."""
    beside: bool

    @property
    def height(self) -> int:
        """Rows of both charts together."""
        if not self.rows:
            return 0
        if self.beside:
            return self.rows + 1
        return 2 * (self.rows + 1)


def chart_shape(cells: int, height: int) -> ChartShape:
    """Charts beside each other where each is wide enough; they take at most half of `height` rows,
    if that is more than the one line of facts that remains in any case."""
    beside = cells >= MIN_BESIDE_CELLS
    room = max(height // 2, min(height - 1, 3))
    for rows in (8, 5, 4, 3, 2):
        shape = ChartShape(rows, beside)
        if shape.height <= room:
            return shape
    return ChartShape(0, beside)


class FactLines(LineWidget):
    """The facts of the chosen row."""

    marks_more = True
    has_page_keys = True
    """The keys that scroll by a page are for it also while the table has the focus."""

    @property
    def more_key(self) -> str:
        key = super().more_key
        if self.has_focus or self.has_page_keys or isinstance(self.screen.focused, ChainView):
            return key
        return f"{self.key_label('pane')} {key}"

    def page(self, pages: int) -> None:
        self.scroll_pages(pages)


class LinkPanel(WhileOpen, Vertical):
    """Chart and facts of the chosen row."""

    BINDINGS: ClassVar[list[BindingType]] = LINK_PANEL_KEYS
    _fixed: tuple[tuple[object, ...], FixedSections] | None = None
    """What they were computed from, and the sections."""

    def compose(self) -> ComposeResult:
        yield TrafficChart(id="traffic")
        yield ChainView(id="chain")
        yield FactLines(id="facts")

    def action_scroll(self, lines: int) -> None:
        self.query_one(FactLines).scroll_rows(lines)

    def on_chain_view_moved(self) -> None:
        self.query_one(FactLines).refresh()

    def on_chain_view_scroll_requested(self, event: ChainView.ScrollRequested) -> None:
        self.action_scroll(event.lines)
        self.query_one(FactLines).page(event.pages)

    def show(
        self,
        row: Row | None,
        snapshot: Snapshot,
        history: History,
        findings: DeviceFindings,
        peers: Sequence[PairFact] = (),
        *,
        with_chart: bool = True,
        is_checked: bool,
    ) -> None:
        """Draw `row` (None: nothing to choose yet) from `snapshot`. `peers`: on other hosts.
        `with_chart`: else it is drawn elsewhere. `is_checked`: see `DeviceTable`."""
        chart, view = self.query_one(TrafficChart), self.query_one(FactLines)
        chain_view = self.query_one(ChainView)
        height = self.content_size.height
        shape = chart_shape(self.content_size.width, height)
        has_link = row is not None and row.link is not None
        has_chart = has_link and with_chart and shape.rows > 0
        if chart.display != has_chart:
            chart.display = has_chart
        if row is None:
            chain_view.hide()
            view.show_lines([((NO_ROW, "dim"),)])
            return
        if has_chart:
            chart.take_rows(shape.height)
            chart.show(row, snapshot, history, shape)
            height -= shape.height
        layers = chain_of(row, snapshot, findings_of(row, findings), is_checked=is_checked)
        room = height - MIN_FACT_ROWS
        has_chain_view = chain_view.show(row.key, layers, self.content_size.width, room)
        height -= chain_view.rows if has_chain_view else 0
        view.set_class(height < MIN_SUMMARY_ROWS, "-brief")
        view.show_lines(
            draw_detail(
                row,
                snapshot,
                findings,
                view.size.width,
                height,
                peers=peers,
                layers=() if has_chain_view else layers,
                glyphs=self.glyphs,
                fixed=self._fixed_sections(row, snapshot),
            )
        )

    def _fixed_sections(self, row: Row, snapshot: Snapshot) -> FixedSections:
        """Computed once for an inventory."""
        given = (row.link, row.pci, snapshot.links, snapshot.inventory)
        if self._fixed is None or not all(map(is_, self._fixed[0], given)):
            self._fixed = given, fixed_sections(row, snapshot)
        return self._fixed[1]


def draw_detail(
    row: Row,
    snapshot: Snapshot,
    findings: DeviceFindings,
    cells: int,
    height: int,
    *,
    peers: Sequence[PairFact] = (),
    layers: Sequence[ChainStep] = (),
    glyphs: Glyphs = UNICODE,
    fixed: FixedSections | None = None,
) -> list[SpanLine]:
    """Summary, chain (`layers`), findings, and all other facts of a row. The summary is one line
    where `height` rows are too few for more; the chain is above it where there is room for
    both. `fixed`: see `link_facts`."""
    sections = link_facts(row, snapshot, fixed)
    summary = [section for section in sections if section.title == SUMMARY]
    others = [section for section in sections if section.title != SUMMARY]
    if peers:
        facts = tuple(Fact("Peer", glyphs.text(peer.text), peer.tone) for peer in peers)
        others.insert(0, Section("Other hosts", facts))
    own = findings_of(row, findings)
    chain = draw_chain(layers, cells, glyphs=glyphs)
    lines = draw_facts(summary, cells)
    if row.link is not None and summary and height < MIN_SUMMARY_ROWS:
        brief = summary_line(row.link, row.pci, snapshot)
        lines = draw_summary_line(brief, cells, max(1, height), glyphs)
    if height >= len(chain) + MIN_SUMMARY_ROWS:
        lines = [*chain, *lines]
    else:
        lines = [*lines, *chain]
    return [
        *lines,
        *draw_findings_of(own, cells, glyphs),
        *draw_facts(others, cells),
    ]


def chain_of(
    row: Row, snapshot: Snapshot, findings: Sequence[Finding], *, is_checked: bool
) -> tuple[ChainStep, ...]:
    """The layers of a row; none for what has no chain, or is not read yet."""
    if not has_chain(row):
        return ()
    return nic_chain(row.link, row.pci, snapshot, findings, is_checked=is_checked)


def row_at(ifindex: int | None, address: str, snapshot: Snapshot) -> Row | None:
    """The netdev, else the PCI function with this address, wherever it is listed; None: there is
    neither."""
    link = link_at(ifindex, snapshot.links)
    if link is not None:
        return row_of_link(link, snapshot)
    function = functions_by_address(snapshot.pci).get(address)
    return None if function is None else Row(f"pci:{address}", "pci", 0, address, function)


def draw_subject(
    snapshot: Snapshot,
    ifindex: int | None,
    address: str,
    cells: int,
    *,
    findings: DeviceFindings,
    is_checked: bool,
    lists_findings: bool = True,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The same of a netdev, else of the PCI function with this address, else of the host, wherever
    it is listed. The chain has the marks of `findings`, also where they are not listed."""
    row = row_at(ifindex, address, snapshot) or row_of_host(snapshot)
    layers = chain_of(row, snapshot, findings_of(row, findings), is_checked=is_checked)
    listed = findings if lists_findings else {}
    return draw_detail(row, snapshot, listed, cells, MIN_SUMMARY_ROWS, layers=layers, glyphs=glyphs)
