"""The legend above the chart of a run: marks, and their values now or at the cursor.

Pure functions. Text that does not fit is shortened, then cut; no line is wider than its width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from nictop.model.facts import clean, fit
from nictop.model.facts import width as cells
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.words import count_noun
from nictop.report.runs.sentences import unplanned_seconds
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.samples import FlowSample, RunSample
from nictop.traffic.plan.plan import NETWORK
from nictop.traffic.results.host_load import Busy
from nictop.traffic.results.result import Flow, Result
from nictop.tui.widgets.base.line_widget import Span, SpanLine, cut_spans, span_cells
from nictop.tui.widgets.charts.plot import axis_time_text
from nictop.tui.widgets.traffic.latency_drawing import latency_legend
from nictop.tui.widgets.traffic.viewport import Scale, Viewport, chosen_host, cpu_share

FLOW_STYLES = ("in", "out")
CPU_STYLE = "system"
CEILING_STYLE = "title"
LEGENDS = ((True, 0, 0), (True, 0, 1), (True, 1, 1), (False, 1, 1), (False, 2, 2))
"""(peaks are shown, how short the directions are, how short the CPU is): the first one that fits is
drawn."""


def draw_legend(
    run_view: RunView,
    view: Viewport,
    values: RunSample,
    axis_unit: str,
    width: int,
    *,
    peaks: Sequence[float],
    margin: int,
    glyphs: Glyphs,
) -> SpanLine:
    """`margin`: cells of the axis at the left, over which its unit stands; 0: there is none.
    `peaks`: bits per second of the highest interval of each direction in sight."""
    unit = f"{axis_unit:>{max(0, margin - 1)}} " if margin else ""
    lead: list[Span] = [(unit, "dim"), *_cursor_spans(run_view, view)]
    if any(flow.is_passing for flow in values.flows):
        # those readings are dropped when the receiver reports its own: a peak does not fall
        peaks = ()
    for has_peaks, flow_shortness, cpu_shortness in LEGENDS:
        shown_peaks = peaks if has_peaks else ()
        if run_view.plan.has_requests:
            # at the right of the title is the rate, too, but not that at the cursor
            is_brief = view.cursor is None and cpu_shortness > 0
            rates = latency_legend(run_view, view.cursor, glyphs, brief=is_brief)
            rates += _flows(run_view, view, values.flows, glyphs, peaks=(), shortness=2)
        else:
            rates = _flows(
                run_view, view, values.flows, glyphs, peaks=shown_peaks, shortness=flow_shortness
            )
        spans = [*lead, *rates, *_cpu(run_view, view, values, cpu_shortness)]
        spans = [(glyphs.text(text), style) for text, style in spans]
        if span_cells(spans) <= width:
            return tuple(spans)
    without_cpu = [(glyphs.text(text), style) for text, style in (*lead, *rates)]
    return tuple((glyphs.text(text), style) for text, style in cut_spans(without_cpu, width))


def _cursor_spans(run_view: RunView, view: Viewport) -> Iterator[Span]:
    """``at 3.2 s``"""
    if view.cursor is None:
        return
    span = run_view.end - run_view.start
    time = axis_time_text(view.cursor, span)
    yield (f" at {time} s " if span <= 180 else f" at {time} ", "title")


def direction_text(flow: Flow) -> str:
    """``a → b``, without control characters."""
    return f"{clean(flow.sender)} → {clean(flow.receiver)}"


def flow_style(run_view: RunView, number: int) -> str:
    """Of a direction; beside latencies, whose style is the first one, of the others."""
    return FLOW_STYLES[(number + run_view.plan.has_requests) % len(FLOW_STYLES)]


def _flows(
    run_view: RunView,
    view: Viewport,
    flows: Sequence[FlowSample],
    glyphs: Glyphs,
    *,
    peaks: Sequence[float],
    shortness: int,
) -> list[Span]:
    """Of each direction: ``▬ a → b mean 9.41 Gb/s of 5 s peak 9.5 Gb/s``, as far as known."""
    mean_of = run_view.result if view.cursor is None else None
    marks = [glyphs.flow] if len(flows) == 1 else [glyphs.upper_flow, glyphs.lower_flow]
    spans: list[Span] = []
    for number, sample in enumerate(flows):
        mark = marks[min(number, len(marks) - 1)]
        spans.append((f" {mark} ", flow_style(run_view, number)))
        spans += _direction_spans(sample, flows, shortness)
        if mean_of is not None and peaks:
            spans.append(("mean ", "dim"))
        spans += _rate_spans(sample, mean_of, has_origin=shortness == 0)
        if peaks:
            spans.append((f"peak {units.bits_per_second(peaks[number])} ", "dim"))
    return spans


def _direction_spans(
    sample: FlowSample, flows: Sequence[FlowSample], shortness: int
) -> Iterator[Span]:
    """Of the only flow nothing, where it is to be short: the title names both ends."""
    if shortness == 0:
        yield f"{direction_text(sample.flow)} ", ""
    elif len(flows) > 1:
        yield f"{_short_direction(sample.flow, flows[0].flow, shortness)} ", ""


def _rate_spans(sample: FlowSample, mean_of: Result | None, *, has_origin: bool) -> Iterator[Span]:
    """`mean_of`: the result of which it is the mean rate; None: it is that of one moment."""
    rate = None
    if sample.arrival is not None:
        rate = sample.arrival.bits_per_second
    yield f"{units.bits_per_second(rate):>9} ", "title"
    if mean_of is not None:
        seconds = unplanned_seconds(mean_of, sample.flow)
        if seconds is not None:
            yield f"of {units.duration(seconds)} ", "dim"
    if has_origin and sample.is_passing and rate is not None:
        yield _origin_text(sample), "dim"


def _short_direction(flow: Flow, first: Flow, shortness: int) -> str:
    """``sent`` or ``received`` by the one host of a workload; else ``to b``, or an arrow as in
    ``a ↔ b`` of the title."""
    if NETWORK in (flow.sender, flow.receiver):
        return "sent" if flow.receiver == NETWORK else "received"
    if shortness == 1:
        return f"to {clean(flow.receiver)}"
    return "→" if flow.sender == first.sender else "←"


def _origin_text(sample: FlowSample) -> str:
    """Where the rate is from until the receiver's generator reports what arrived."""
    return "by its sockets " if sample.by_sockets else "sent "


def _cpu(run_view: RunView, view: Viewport, values: RunSample, shortness: int) -> list[Span]:
    host = chosen_host(run_view, view)
    if host is None:
        return []
    of_host = {sample.host.host: sample for sample in reversed(values.hosts)}.get(host.host)
    busy = None if of_host is None else of_host.busy
    name = "CPU"
    if shortness < 2:
        name = f"{_cpu_name(busy, view)} of {clean(host.host)}"
    spans: list[Span] = [("  ", ""), (f"{name} ", CPU_STYLE)]
    if busy is None:
        return [*spans, (f"{units.UNKNOWN:>5}", "title")]
    share = f"{100 * cpu_share(busy, view.hottest):.0f} %"
    if of_host is not None and of_host.age is not None:
        old = f" {units.whole_seconds(of_host.age)} ago" if shortness < 2 else " then"
        return [*spans, (f"{share:>5}{old}", "dim")]
    spans.append((f"{share:>5}", "title"))
    if shortness == 0 and not view.hottest:
        spans.append((f" of {count_noun(busy.cores, 'core')}", "dim"))
    return spans


def _cpu_name(busy: Busy | None, view: Viewport) -> str:
    """``CPU 2 (hottest)``"""
    if not view.hottest:
        return "CPU"
    return "hottest CPU" if busy is None else f"CPU {busy.hottest} (hottest)"


def draw_ceiling_text(
    run_view: RunView, scale: Scale, width: int, *, margin: int, glyphs: Glyphs
) -> SpanLine:
    """The line rate with its number, or why there is none; of directions that differ the
    numbers."""
    ceiling = run_view.ceiling
    if ceiling is None:
        return ()
    own = [flow.ceiling.goodput for flow in run_view.flows if flow.ceiling is not None]
    known = own or [ceiling.goodput]
    words = f"line rate {ceiling.sentence}"
    if own:
        directions = (f"{direction_text(flow)} {_ceiling_number(flow)}" for flow in run_view.flows)
        words = f"line rate {', '.join(directions)}"
    mark = glyphs.ceiling * 2
    if not any(scale.ceilings):
        mark = "  "
        if any(known):
            words = f"above this scale: {words}"
    room = max(0, width - margin - 4)
    text = shown(words, min(room, cells(glyphs.text(words))), glyphs)
    return cut(((" " * margin + f" {mark} ", CEILING_STYLE), (text, "")), width)


def _ceiling_number(flow: Flow) -> str:
    if flow.ceiling is None or flow.ceiling.goodput is None:
        return "not known"
    return units.bits_per_second(flow.ceiling.goodput)


def shown(text: str, width: int, glyphs: Glyphs, align: Literal["left", "right"] = "left") -> str:
    """Text as it is drawn, in exactly `width` cells."""
    return glyphs.text(fit(glyphs.text(text), width, align))


def cut(line: SpanLine, width: int) -> SpanLine:
    """The part of a line that fits; a wide character that does not fit is left out."""
    spans: list[Span] = []
    for text, style in line:
        if cells(text) > width:
            return (*spans, *_cut_span(text, style, width))
        if text:
            spans.append((text, style))
        width -= cells(text)
    return tuple(spans)


def _cut_span(text: str, style: str, width: int) -> Iterator[Span]:
    kept = ""
    for character in text:
        if cells(kept + character) > width:
            break
        kept += character
    if kept:
        yield kept, style
