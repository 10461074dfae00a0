"""Everything about the chosen device: its traffic over time, and below it the facts, section by section.

in   9.41 Gb/s ▂▄▆██████████
     0.81 Mpps ██████████████
out  21.3 Mb/s ▁▁▂▂▂▂▂▂▂▂▂▂▂▂
── Link ──────────────────────
state        up 10G full · autonegotiation off
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from nictop.model import units
from nictop.model.history import History
from nictop.model.rates import LinkRates
from nictop.model.snapshot import Snapshot
from nictop.model.tree import Row
from nictop.model.wording import Section, fit, link_facts, wrap
from nictop.widgets.graphs import area, nice_ceiling
from nictop.widgets.line_view import LineView, SpanLine

TONES = {"normal": "", "dim": "dim", "good": "good", "warn": "warn", "bad": "bad"}
LABEL_WIDTH = 15
CHART_LABEL_WIDTH = 18


def draw_facts(sections: Sequence[Section], width: int) -> list[SpanLine]:
    """Sections as lines: a rule with the title, then label and text; long texts wrap below themselves."""
    lines: list[SpanLine] = []
    for section in sections:
        title = f" ── {section.title} "
        lines.append(((title, "accent"), ("─" * max(0, width - len(title) - 1), "dim")))
        for fact in section.facts:
            room = max(10, width - LABEL_WIDTH - 3)
            for number, part in enumerate(wrap(fact.text, room)):
                label = fit(fact.label, LABEL_WIDTH) if number == 0 else " " * LABEL_WIDTH
                lines.append(((f" {label} ", "dim"), (part, TONES[fact.tone])))
    return lines


def draw_traffic(
    rates: LinkRates | None,
    received: Sequence[float | None],
    sent: Sequence[float | None],
    width: int,
    height: int,
    *,
    ascii_only: bool = False,
) -> list[SpanLine]:
    """Two charts, in above out, `height` rows together: numbers at the left, bits per second over time at the right."""
    rows = max(1, height // 2)
    chart = max(0, width - CHART_LABEL_WIDTH - 1)
    numbers = (
        ("in", "in", received, rates.rx_bits if rates else None, rates.rx_packets if rates else None),
        ("out", "out", sent, rates.tx_bits if rates else None, rates.tx_packets if rates else None),
    )
    lines: list[SpanLine] = []
    for name, style, series, bits, packets in numbers:
        shown = series[-chart:] if chart else ()
        top = nice_ceiling(max((value for value in shown if value is not None), default=0.0))
        labels = [
            f" {name:<4}{units.bits_per_second(bits):>11}",
            f"     {units.packets_per_second(packets):>11}",
            f" top {units.bits_per_second(top):>11}",
        ]
        drawn = area(shown, chart, rows, top, ascii_only=ascii_only)
        for index in range(rows):
            label = labels[index] if index < len(labels) else ""
            lines.append(((f"{label:<{CHART_LABEL_WIDTH}}", style if index == 0 else "dim"), (drawn[index], style)))
    return lines


class TrafficChart(LineView):
    """In and out of one link over time, in as many rows as its height gives."""

    can_focus = False


class FactsView(LineView):
    """The facts of the chosen row; scrolls with the usual keys."""


class LinkPanel(Vertical):
    """Chart and facts of the chosen row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Up", show=False, id="link.up"),
        Binding("down,j", "scroll(1)", "Down", show=False, id="link.down"),
    ]

    def __init__(self, *, ascii_only: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        yield TrafficChart(ascii_only=self._ascii_only, id="traffic")
        yield FactsView(ascii_only=self._ascii_only, id="facts")

    def action_scroll(self, lines: int) -> None:
        self.query_one(FactsView).scroll_relative(y=lines, animate=False)

    def show(self, row: Row | None, snapshot: Snapshot, history: History) -> None:
        """Draw `row` (None: nothing to choose yet) from `snapshot`."""
        chart, view = self.query_one(TrafficChart), self.query_one(FactsView)
        link = row.link if row is not None else None
        chart.display = link is not None
        if row is None:
            view.show_lines([])
            return
        if link is not None:
            rates = snapshot.rates.links.get(link.ifindex) if snapshot.rates is not None else None
            chart.show_lines(
                draw_traffic(
                    rates,
                    history.series(("rx_bits", link.ifindex)),
                    history.series(("tx_bits", link.ifindex)),
                    chart.size.width,
                    chart.size.height,
                    ascii_only=self._ascii_only,
                )
            )
        view.show_lines(draw_facts(link_facts(row, snapshot), view.size.width))
