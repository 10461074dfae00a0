"""The strip of processors: where each CPU spends its time, as bars while there is room and as one mark per CPU beyond.

     2 CPUs  █ user  31  ▓ system   4  ▒ softirq  38  ▚ irq   1  ░ steal   0  ▞ guest   0  idle  26 %
     0 █████▓▒▒▒▒▒▒▒▒▒▒▒▒▒···· 82%   1 ██▓················· 12%

Each kind has its own texture besides its colour.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.rates.links import CpuShares
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine
from nictop.tui.widgets.charts.sparkline import stacked

KINDS = ("user", "system", "softirq", "irq", "steal", "guest")
"""Order in the bar and in the legend; the names are fields of `CpuShares` and styles of `LineView`."""

MIN_CPU_BAR_CELLS = 8
MAX_CPU_BAR_CELLS = 40
CPU_BAR_EXTRA_CELLS = 9
"""Cells of a bar's own: blanks, per cent and the gap to the next."""
SPACED_LEGEND_CELLS = 96
"""Cells from which on the legend has blanks between mark and word."""
SATURATED = 0.85
"""Share of a CPU's time in interrupts and softirqs: packets wait for this one, however idle the others are."""
MAX_STRIP_ROWS = {"-short": 1, "-medium": 2, "-tall": 4}
"""Height class of the screen → rows that the strip may take."""


def draw_processors(
    cpus: Mapping[int, CpuShares], width: int, rows: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """At most `rows` lines (the first is the legend with the mean over all CPUs), each at most `width` cells wide."""
    if not cpus:
        return [((" CPU  no rates yet", "dim"),)]
    lines = [_legend(cpus, width, glyphs)]
    rows -= 1
    if rows < 1:
        return lines
    label = max(2, len(str(max(cpus))))
    smallest = label + MIN_CPU_BAR_CELLS + CPU_BAR_EXTRA_CELLS
    per_row = max(1, min(len(cpus), width // smallest))
    if -(-len(cpus) // per_row) <= rows:
        while (
            per_row > 1
            and -(-len(cpus) // (per_row - 1)) <= rows
            and width // per_row - label - CPU_BAR_EXTRA_CELLS < MAX_CPU_BAR_CELLS
        ):
            per_row -= 1
        return lines + _bars(cpus, width // per_row, per_row, label, glyphs)
    return lines + _marks(cpus, width, rows, glyphs)


def _legend(cpus: Mapping[int, CpuShares], width: int, glyphs: Glyphs) -> SpanLine:
    """Means over all CPUs, each at a fixed position, then the saturated CPU, if any."""
    tight = width < SPACED_LEGEND_CELLS
    gap, digits = ("", 2) if tight else (" ", 3)
    spans: list[Span] = [(f" {len(cpus)} CPU{'s' if len(cpus) > 1 else ''}", "title")]
    for kind in KINDS:
        mean = 100 * sum(getattr(shares, kind) for shares in cpus.values()) / len(cpus)
        mark, name = kind_label(kind, glyphs)
        spans.append((f"{gap} {mark}{gap if mark else ''}", kind))
        spans.append((f"{name} {mean:>{digits}.0f}", "" if mean >= 0.5 else "dim"))
    hot = saturated(cpus)
    if hot is None:
        idle = 100 * sum(shares.idle + shares.iowait for shares in cpus.values()) / len(cpus)
        spans.append((f"{gap} idle {idle:>3.0f} %", "dim"))
    else:
        softirq = "" if tight else f" softirq {100 * _interrupted(cpus[hot]):.0f} %"
        spans.append((f"{gap} {glyphs.warning} CPU{hot}{softirq}", "bad"))
    return tuple(spans)


def kind_label(kind: str, glyphs: Glyphs) -> tuple[str, str]:
    """The mark of a kind, and its name; in ASCII the mark is the capital letter in the name: ``softirQ``."""
    mark = glyphs.work[KINDS.index(kind)]
    return ("", kind.replace(mark.lower(), mark, 1)) if glyphs.is_ascii else (mark, kind)


def saturated(cpus: Mapping[int, CpuShares]) -> int | None:
    """The CPU with the largest share of interrupts and softirqs, if that is at least `SATURATED`; else None."""
    hottest = max(cpus, key=lambda cpu: _interrupted(cpus[cpu]))
    return hottest if _interrupted(cpus[hottest]) >= SATURATED else None


def _interrupted(shares: CpuShares) -> float:
    return shares.softirq + shares.irq


def _bars(cpus: Mapping[int, CpuShares], cell: int, per_row: int, label: int, glyphs: Glyphs) -> list[SpanLine]:
    bar = min(MAX_CPU_BAR_CELLS, cell - label - CPU_BAR_EXTRA_CELLS)
    marks = dict(zip(KINDS, glyphs.work, strict=True))
    lines: list[SpanLine] = []
    row: list[Span] = []
    for count, (cpu, shares) in enumerate(sorted(cpus.items()), 1):
        cells = stacked([getattr(shares, kind) for kind in KINDS], bar)
        row.append((f" {cpu:>{label}} ", "title"))
        row += [(marks[kind] * number, kind) for kind, number in zip(KINDS, cells, strict=True) if number]
        row.append((glyphs.idle * (bar - sum(cells)), "dim"))
        tone = "bad" if _interrupted(shares) >= SATURATED else "" if shares.busy >= 0.005 else "dim"
        row.append((f" {100 * shares.busy:3.0f}%  ", tone))
        if count % per_row == 0 or count == len(cpus):
            lines.append(tuple(row))
            row = []
    return lines


def _marks(cpus: Mapping[int, CpuShares], width: int, rows: int, glyphs: Glyphs) -> list[SpanLine]:
    """One cell per CPU (or per range of CPUs, the busiest of it): height is the load, colour what it is spent on."""
    levels = glyphs.levels
    numbers = sorted(cpus)
    label = 2 * len(str(numbers[-1])) + 3
    room = max(1, width - label)
    fold = -(-len(numbers) // (room * rows))
    per_row = room * fold
    lines: list[SpanLine] = []
    for first in range(0, len(numbers), per_row):
        members = numbers[first : first + per_row]
        row: list[Span] = [(f"{members[0]}-{members[-1]}".rjust(label - 1) + " ", "title")]
        for start in range(0, len(members), fold):
            shares = max((cpus[cpu] for cpu in members[start : start + fold]), key=lambda one: one.busy)
            level = levels[max(1, round(shares.busy * (len(levels) - 1)))]
            row.append((level, max(KINDS, key=lambda kind: float(getattr(shares, kind)))))
        lines.append(tuple(row))
    return lines


class ProcessorStrip(LineView):
    """Draws the newest CPU shares of one host into as many rows as its height gives."""

    can_focus = False

    def show(self, snapshot: Snapshot) -> None:
        """Draw the newest shares in as many rows as they need and the screen can spare."""
        cpus = snapshot.rates.cpus if snapshot.rates is not None else {}
        most = next((rows for name, rows in MAX_STRIP_ROWS.items() if self.screen.has_class(name)), 2)
        lines = draw_processors(cpus, self.size.width, most, glyphs=self.glyphs)
        self.take_rows(max(len(lines), min(2, most)))
        self.show_lines(lines)
