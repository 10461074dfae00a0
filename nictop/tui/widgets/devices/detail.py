"""Everything about the chosen device: its traffic over time, and below it the facts, section by section.

in   9.41 Gb/s ▂▄▆██████████
      812 kpps ██████████████
out  21.3 Mb/s ▁▁▂▂▂▂▂▂▂▂▂▂▂▂
     42.1 kpps ██████████████
state         up, 10G full · MTU 1500
trouble       rx_missed_errors 12.0 k/s
── Link ──────────────────────
speed         10000 Mb/s · full duplex
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from nictop.model.devices.tree import Row
from nictop.model.facts import SUMMARY, Section, fit, is_virtual, wrap
from nictop.model.facts.facts import link_facts
from nictop.model.history import History
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.keys import LINK_PANEL_KEYS
from nictop.tui.widgets.base.line_view import TONES, LineView, SpanLine, section_line
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.charts.sparkline import area, nice_ceiling

LABEL_WIDTH = 13
CHART_LABEL_WIDTH = 18
CHART_ONE_ROW_LABEL_WIDTH = 27


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


@dataclass(frozen=True)
class Direction:
    """What one of the two charts shows: numbers of now, and bits per second over time."""

    name: str
    style: str
    series: Sequence[float | None]
    bits: float | None
    packets: float | None

    def labels(self, rows: int, top: float, speed: int | None) -> list[str]:
        """Labels at the left, as many as there are rows; in a single row, bits and packets side by side."""
        bits, packets = units.bits_per_second(self.bits), units.packets_per_second(self.packets)
        if rows == 1:
            return [f" {self.name:<4}{bits:>10} {packets:>10} "]
        labels = [f" {self.name:<5}{bits:>10}", f"      {packets:>10}"]
        if any(self.series):
            labels.append(f" scale{units.bits_per_second(top):>10}")
        if speed and self.bits is not None:
            share = units.percentage(self.bits / (speed * 1e6))
            labels.append(f" {f'{share} of {units.link_speed(speed)}':>15}")
        return labels


def directions(row: Row, snapshot: Snapshot, history: History) -> tuple[Direction, ...]:
    """In and out of the netdev of `row`; none for a row without one."""
    if row.link is None:
        return ()
    ifindex = row.link.ifindex
    rates = snapshot.rates.links.get(ifindex) if snapshot.rates is not None else None
    received, sent = history.series(("rx_bits", ifindex)), history.series(("tx_bits", ifindex))
    if rates is None:
        return Direction("in", "in", received, None, None), Direction("out", "out", sent, None, None)
    return (
        Direction("in", "in", received, rates.rx_bits, rates.rx_packets),
        Direction("out", "out", sent, rates.tx_bits, rates.tx_packets),
    )


def draw_traffic(
    both: Sequence[Direction], width: int, height: int, *, speed: int | None = None, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """Charts above each other, `height` rows together: numbers at the left, bits per second over time at the right,
    one column per reading. `speed`: Mb/s of the link, where a share of it means something."""
    rows = max(1, height // max(1, len(both)))
    beside = CHART_LABEL_WIDTH if rows > 1 else CHART_ONE_ROW_LABEL_WIDTH
    chart = max(0, width - beside - 1)
    lines: list[SpanLine] = []
    for one in both:
        shown = one.series[-chart:] if chart else ()
        top = nice_ceiling(max((value for value in shown if value is not None), default=0.0))
        labels = one.labels(rows, top, speed)
        drawn = area(shown, chart, rows, top, glyphs=glyphs)
        for index in range(rows):
            label = labels[index] if index < len(labels) else ""
            lines.append(((f"{label:<{beside}}", one.style if index == 0 else "dim"), (drawn[index], one.style)))
    return lines


class TrafficChart(LineView):
    """In and out of one link over time, in as many rows as its height gives."""

    can_focus = False


class FactsView(LineView):
    """The facts of the chosen row."""


class LinkPanel(WhileOpen, Vertical):
    """Chart and facts of the chosen row."""

    BINDINGS: ClassVar[list[BindingType]] = LINK_PANEL_KEYS

    def compose(self) -> ComposeResult:
        yield TrafficChart(id="traffic")
        yield FactsView(id="facts")

    def action_scroll(self, lines: int) -> None:
        self.query_one(FactsView).scroll_relative(y=lines, animate=False)

    def show(self, row: Row | None, snapshot: Snapshot, history: History) -> None:
        """Draw `row` (None: nothing to choose yet) from `snapshot`."""
        chart, view = self.query_one(TrafficChart), self.query_one(FactsView)
        link = row.link if row is not None else None
        if chart.display != (link is not None):
            chart.display = link is not None
        chart.take_rows(chart_rows(self.size.height))
        if row is None:
            view.show_lines([])
            return
        if link is not None:
            settings = link.ethtool.settings
            lines = draw_traffic(
                directions(row, snapshot, history),
                chart.size.width,
                chart.size.height,
                speed=None if settings is None or is_virtual(link) else settings.speed,
                glyphs=self.glyphs,
            )
            chart.show_lines(lines)
        view.show_lines(draw_facts(link_facts(row, snapshot), view.size.width))


def chart_rows(height: int) -> int:
    """Rows that both charts take of a panel of `height` rows: at most a third, so that the summary stays in view."""
    return next((rows for rows in (8, 6, 4) if height >= 3 * rows), 2)
