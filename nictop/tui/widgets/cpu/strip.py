"""The CPUs in one line: where each spends its time, as bars while there is room and as one mark per
CPU beyond; then the means over all of them.

     4 CPUs  0 ██▓▒▒▒▒···  82%  1 █▓········  12%   █ user 31 ▓ sys 4 ▒ softirq 38 ░ steal 0  idle
     26 %

Each kind has its own texture besides its colour; where a mark is a CPU, the legend has the numbers
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from nictop.model.facts import fit
from nictop.model.rates.cpus import REPORTED_WITHOUT_SPLIT, CpuShares
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, cut_spans, whole_spans
from nictop.tui.widgets.charts.sparkline import stacked

KINDS = ("user", "system", "softirq", "irq", "steal", "guest")
"""Order in the bar and in the legend; the names are fields of `CpuShares` and styles of
`LineWidget`."""

MAIN_KINDS = ("user", "system", "softirq", "steal")
"""Those of a narrow legend."""
LEGEND_NAMES = {"system": "sys"}

MIN_CPU_BAR_CELLS, SHORT_CPU_BAR_CELLS = 3, 5
MAX_CPU_BAR_CELLS = 20
CPU_BAR_EXTRA_CELLS = 6
"""Cells of a bar's own: blanks and per cent."""
SATURATED = 0.85
"""Share of a CPU's time in interrupts and softirqs: packets wait for this one, however idle the
others are."""


def draw_processors(
    cpus: Mapping[int, CpuShares], width: int, *, glyphs: Glyphs = UNICODE
) -> SpanLine:
    """One line of at most `width` cells: number of CPUs, each CPU, and means over all of them, as
    many as leave room. What there is room for depends on the width and on the number of CPUs alone:
    nothing moves."""
    if not cpus:
        return ((fit(" CPU  no rates yet", width), "dim"),)
    plural = "s" if len(cpus) > 1 else ""
    title: Span = (f" {len(cpus)} CPU{plural} ", "title")
    legend, room = _legend_and_room(cpus, width - len(title[0]), glyphs)
    hot = saturated(cpus)
    warning = ""
    if hot is not None:
        warning = f" {glyphs.warning} CPU{hot}"
    room -= max(0, len(warning) - _cells(legend))
    drawn = [title, *_cpus(cpus, max(0, room), glyphs), *_legend_spans(legend, warning)]
    if cells_of(drawn) > width:
        drawn = cut_spans(drawn, width)
    return tuple(drawn)


Legend = list[list[Span]]
"""Entries, each shown as a whole or not at all."""


LEGENDS = (
    (KINDS, True, True, 2 * SHORT_CPU_BAR_CELLS),
    (MAIN_KINDS, True, True, 2 * SHORT_CPU_BAR_CELLS),
    (MAIN_KINDS, False, True, SHORT_CPU_BAR_CELLS),
    (MAIN_KINDS, False, False, MIN_CPU_BAR_CELLS),
)
"""From the longest to the shortest: kinds, whether idle time and the means are in it, and the cells
that a CPU has to have then."""


def _legend_and_room(
    cpus: Mapping[int, CpuShares], width: int, glyphs: Glyphs
) -> tuple[Legend, int]:
    """The longest legend that leaves room for a bar of each CPU, else for a mark of each, and the
    cells that it leaves."""
    own = len(cpus) * (len(str(max(cpus))) + CPU_BAR_EXTRA_CELLS)
    for kinds, has_idle, means, bar in LEGENDS:
        legend = _legend(cpus, kinds, glyphs, means=means)
        if has_idle:
            legend.append(_idle(cpus))
        room = width - _cells(legend)
        if room >= own + len(cpus) * bar:
            return legend, room
    return _room_of_marks(cpus, width, glyphs)


def _legend_spans(legend: Legend, warning: str) -> list[Span]:
    """All entries; a `warning` takes the place of the last ones, at the same width."""
    if not warning:
        return list(chain.from_iterable(legend))
    room = max(0, _cells(legend) - len(warning))
    spans = whole_spans(legend, room)
    return [*spans, (" " * (room - cells_of(spans)), ""), (warning, "warn")]


def _cells(legend: Legend) -> int:
    return sum(map(cells_of, legend))


MIN_MARKS_CELLS = 16
"""Cells of the CPUs where they have a mark each."""


def _room_of_marks(cpus: Mapping[int, CpuShares], width: int, glyphs: Glyphs) -> tuple[Legend, int]:
    """Legend, and cells of the CPUs where they have a mark each: its height is the load, so that
    the legend has no textures, but the numbers."""
    idle = _idle(cpus)
    for more, kinds in (([idle], KINDS), ([idle], MAIN_KINDS), ([], MAIN_KINDS)):
        legend = [*_legend(cpus, kinds, glyphs, marks=False), *more]
        if width - _cells(legend) >= MIN_MARKS_CELLS:
            return legend, width - _cells(legend)
    return [], width


def cells_of(spans: Iterable[Span]) -> int:
    return sum(len(text) for text, _ in spans)


def _legend(
    cpus: Mapping[int, CpuShares],
    kinds: Sequence[str],
    glyphs: Glyphs,
    *,
    means: bool = True,
    marks: bool = True,
) -> Legend:
    """Mark (unless `marks` is false) and name of each kind, with the mean over all CPUs in per
    cent; always as wide."""
    entries: Legend = [[(" ", "")]]
    is_split = all(shares.split for shares in cpus.values())
    for kind in kinds:
        if not is_split and kind not in REPORTED_WITHOUT_SPLIT:
            continue
        mean = 100 * sum(getattr(shares, kind) for shares in cpus.values()) / len(cpus)
        text = LEGEND_NAMES.get(kind, kind)
        if marks:
            mark, text = kind_label(kind, glyphs, text)
            entry: list[Span] = [(f" {mark}", kind)]
        else:
            entry = [(" ", ""), (text, kind)]
            text = ""
        if means:
            text += f" {mean:>2.0f}"
        entry.append((text, "" if mean >= 0.5 else "dim"))
        entries.append(entry)
    return entries


def _idle(cpus: Mapping[int, CpuShares]) -> list[Span]:
    mean = 100 * sum(shares.idle + shares.iowait for shares in cpus.values()) / len(cpus)
    return [(f"  idle {mean:>3.0f} %", "dim")]


def _cpus(cpus: Mapping[int, CpuShares], room: int, glyphs: Glyphs) -> list[Span]:
    """In exactly `room` cells: a bar for each CPU, or else a mark."""
    label = len(str(max(cpus)))
    bar = min(MAX_CPU_BAR_CELLS, room // len(cpus) - label - CPU_BAR_EXTRA_CELLS)
    if bar >= MIN_CPU_BAR_CELLS:
        spans = _bars(cpus, bar, label, glyphs)
    else:
        spans = _marks(cpus, room, glyphs)
    return [*spans, (" " * max(0, room - cells_of(spans)), "")]


def kind_label(kind: str, glyphs: Glyphs, name: str = "") -> tuple[str, str]:
    """The mark of a kind, and its `name` ("": the kind); in ASCII the mark is the capital letter in
    the name: ``softirQ``."""
    mark, name = glyphs.work[KINDS.index(kind)], name or kind
    if glyphs.is_ascii:
        return "", name.replace(mark.lower(), mark, 1)
    return mark, name


def saturated(cpus: Mapping[int, CpuShares]) -> int | None:
    """The CPU with the largest share of interrupts and softirqs, if that is at least `SATURATED`;
    else None."""
    hottest = max(cpus, key=lambda cpu: _interrupted(cpus[cpu]))
    if _interrupted(cpus[hottest]) < SATURATED:
        return None
    return hottest


def _interrupted(shares: CpuShares) -> float:
    return shares.softirq + shares.irq


def _bars(cpus: Mapping[int, CpuShares], bar: int, label: int, glyphs: Glyphs) -> list[Span]:
    marks = dict(zip(KINDS, glyphs.work, strict=True))
    spans: list[Span] = []
    for cpu, shares in sorted(cpus.items()):
        cells = stacked([getattr(shares, kind) for kind in KINDS], bar)
        spans.append((f" {cpu:>{label}} ", "title"))
        spans += [
            (marks[kind] * number, kind)
            for kind, number in zip(KINDS, cells, strict=True)
            if number
        ]
        spans.append((glyphs.idle * (bar - sum(cells)), "dim"))
        spans.append((f"{100 * shares.busy:3.0f}%", _busy_style(shares)))
    return spans


def _busy_style(shares: CpuShares) -> str:
    if _interrupted(shares) >= SATURATED:
        return "warn"
    return "" if shares.busy >= 0.005 else "dim"


def _marks(cpus: Mapping[int, CpuShares], room: int, glyphs: Glyphs) -> list[Span]:
    """One cell per CPU (or per range of CPUs, the busiest of it): height is the load, colour what
    it is spent on."""
    levels = glyphs.levels
    numbers = sorted(cpus)
    label = f" {numbers[0]} "
    if len(numbers) > 1:
        label = f" {numbers[0]}-{numbers[-1]} "
    room -= len(label)
    if room < 1:
        return []
    fold = -(-len(numbers) // room)
    spans: list[Span] = [(label, "title")]
    for start in range(0, len(numbers), fold):
        busiest = max(numbers[start : start + fold], key=lambda cpu: cpus[cpu].busy)
        shares = cpus[busiest]
        level = levels[max(1, round(shares.busy * (len(levels) - 1)))]
        spans.append((level, max(KINDS, key=lambda kind: float(getattr(shares, kind)))))
    return spans


class ProcessorStrip(LineWidget):
    """Draws the newest CPU shares of one host into one line."""

    can_focus = False

    def show(self, snapshot: Snapshot, old: str = "") -> None:
        """`old`: how old its values are, in place of shares that are not those of now."""
        if old and snapshot.rates is not None:
            self.show_lines([((f" CPU  not shown: {old}", "dim"),)])
            return
        cpus: Mapping[int, CpuShares] = {}
        if snapshot.rates is not None:
            cpus = snapshot.rates.cpus
        if not cpus and snapshot.state == "failed":  # none will come
            self.show_lines([((" CPU  not read", "dim"),)])
            return
        self.show_lines([draw_processors(cpus, self.size.width, glyphs=self.glyphs)])
