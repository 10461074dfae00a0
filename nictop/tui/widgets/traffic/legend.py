"""The legend above the chart of a run: marks, and their values now or at the cursor.

Pure functions. Text that does not fit is shortened, then cut; no line is wider than its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nictop.model.facts import clean, fit
from nictop.model.facts import width as cells
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.words import count_noun
from nictop.traffic.live.run_view import FlowSample, RunSample, RunView
from nictop.tui.widgets.base.line_view import Span, SpanLine
from nictop.tui.widgets.charts.plot import axis_time_text
from nictop.tui.widgets.traffic.latency_drawing import latency_legend
from nictop.tui.widgets.traffic.viewport import Scale, View, chosen_host, cpu_share

FLOW_STYLES = ("in", "out")
CPU_STYLE = "system"
CEILING_STYLE = "title"


def draw_legend(
    run_view: RunView,
    view: View,
    values: RunSample,
    axis_unit: str,
    width: int,
    *,
    peaks: Sequence[float],
    margin: int,
    glyphs: Glyphs,
) -> SpanLine:
    """`margin`: cells of the axis at the left, over which its unit stands; 0: there is none. `peaks`: bits per second
    of the highest interval of each direction in sight."""
    unit = f"{axis_unit:>{max(0, margin - 1)}} " if margin else ""
    lead: list[Span] = [(unit, "dim")]
    if view.cursor is not None:
        span = run_view.end - run_view.start
        lead.append((f" at {axis_time_text(view.cursor, span)} {'s' if span <= 180 else ''}".rstrip() + " ", "title"))
    if any(flow.by_sockets for flow in run_view.flows):
        peaks = ()  # those readings are dropped when a generator reports its own: a peak does not fall
    is_mean = view.cursor is None and run_view.result is not None
    for shown_peaks, flow_shortness, cpu_shortness in (
        (peaks, 0, 0),
        (peaks, 0, 1),
        (peaks, 1, 1),
        ((), 1, 1),
        ((), 2, 2),
    ):
        rates = _flows(run_view, values.flows, shown_peaks, flow_shortness, glyphs, is_mean=is_mean)
        if run_view.plan.has_requests:  # at the right of the title is the rate, too, but not that at the cursor
            brief = view.cursor is None and cpu_shortness > 0
            rates = latency_legend(run_view, view.cursor, glyphs, brief=brief)
            rates += _flows(run_view, values.flows, (), 2, glyphs, is_mean=False)
        spans = [*lead, *rates, *_cpu(run_view, view, values, cpu_shortness)]
        spans = [(glyphs.text(text), style) for text, style in spans]
        used = sum(cells(text) for text, _ in spans)
        if used <= width:
            return tuple(spans)
    spans = [(glyphs.text(text), style) for text, style in (*lead, *rates)]  # no "CPU" without its number
    return cut(tuple(spans), width)


def flow_style(run_view: RunView, number: int) -> str:
    """Of a direction; beside latencies, whose style is the first one, of the others."""
    return FLOW_STYLES[(number + run_view.plan.has_requests) % len(FLOW_STYLES)]


def _flows(
    run_view: RunView,
    flows: Sequence[FlowSample],
    peaks: Sequence[float],
    shortness: int,
    glyphs: Glyphs,
    *,
    is_mean: bool,
) -> list[Span]:
    spans: list[Span] = []
    for number, one in enumerate(flows):
        mark = glyphs.flow if len(flows) == 1 else glyphs.upper_flow if number == 0 else glyphs.lower_flow
        rate = units.bits_per_second(one.arrival.bits_per_second if one.arrival is not None else None)
        spans.append((f" {mark} ", flow_style(run_view, number)))
        if shortness == 0:
            spans.append((f"{one.flow.label} ", ""))
        elif shortness == 1 and len(flows) > 1:
            spans.append((f"to {clean(one.flow.receiver)} ", ""))
        spans += [("mean ", "dim")] if is_mean and peaks else []
        spans.append((f"{rate:>9} ", "title"))
        spans += [("by its sockets ", "dim")] if shortness == 0 and one.flow.by_sockets else []
        spans += [(f"peak {units.bits_per_second(peaks[number])} ", "dim")] if peaks else []
    return spans


def _cpu(run_view: RunView, view: View, values: RunSample, shortness: int) -> list[Span]:
    host = chosen_host(run_view, view)
    if host is None:
        return []
    busy = next((one.busy for one in values.hosts if one.host.host == host.host), None)
    share = f"{100 * cpu_share(busy, view.hottest):.0f} %" if busy is not None else units.UNKNOWN
    what = (
        f"CPU {busy.hottest} (hottest)"
        if view.hottest and busy is not None
        else "hottest CPU"
        if view.hottest
        else "CPU"
    )
    spans: list[Span] = [("  ", "")]
    spans.append((f"{what} of {clean(host.host)} " if shortness < 2 else "CPU ", CPU_STYLE))
    spans.append((f"{share:>5}", "title"))
    if shortness == 0 and busy is not None and not view.hottest:
        spans.append((f" of {count_noun(busy.cores, 'core')}", "dim"))
    return spans


def draw_ceiling_text(run_view: RunView, scale: Scale, width: int, *, margin: int, glyphs: Glyphs) -> SpanLine:
    """The line rate with its number, or why there is none."""
    ceiling = run_view.ceiling
    if ceiling is None:
        return ()
    mark = glyphs.ceiling * 2 if scale.ceiling is not None else "  "
    words = f"line rate {ceiling.sentence}"
    if ceiling.goodput is not None and scale.ceiling is None:
        words = f"above this scale: {words}"
    room = max(0, width - margin - 4)
    text = shown(words, min(room, cells(glyphs.text(words))), glyphs)
    return cut(((" " * margin + f" {mark} ", CEILING_STYLE), (text, "")), width)


def shown(text: str, width: int, glyphs: Glyphs, align: Literal["left", "right"] = "left") -> str:
    """Text as it is drawn, in exactly `width` cells."""
    return glyphs.text(fit(glyphs.text(text), width, align))


def cut(line: SpanLine, width: int) -> SpanLine:
    """The part of a line that fits; a wide character that does not fit is left out."""
    found: list[Span] = []
    for text, style in line:
        if cells(text) > width:
            kept = ""
            for character in text:
                if cells(kept + character) > width:
                    break
                kept += character
            return (*found, (kept, style)) if kept else tuple(found)
        if text:
            found.append((text, style))
        width -= cells(text)
    return tuple(found)
