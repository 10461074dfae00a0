"""Text about a run: ends, options, progress, remaining time. Names in it are not yet clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE
from nictop.model.text.names import names_in_path
from nictop.model.text.terminal import clean, width
from nictop.model.text.words import count_noun
from nictop.report.runs.sentences import hosts_text, plan_options, result_sentences
from nictop.traffic.analysis.loaded import added_latency
from nictop.traffic.results.caveats import caveat_of, caveat_of_runs, with_caveat

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs
    from nictop.traffic.live.run_view import RunView
    from nictop.traffic.results.result import Result
    from nictop.tui.controllers.traffic import TrafficController

PROGRESS_CELLS = 10
WHOLE_ENDS_CELLS = 1000


def headline_text(run_view: RunView, glyphs: Glyphs = UNICODE, room: int = 1000) -> str:
    """`goodput_text`, with what the result lacks: ``3.21 Gb/s ▲ path not verified``; ``3.21 Gb/s ▲ not verified`` if
    that does not fit into `room` cells."""
    text, result = goodput_text(run_view), run_view.result
    if result is None:
        return text
    caveat = caveat_of(result)
    if width(with_caveat(text, caveat, glyphs)) > room:
        caveat = caveat.removeprefix("path ")
    return with_caveat(text, caveat, glyphs) if text else f"{glyphs.warning} {caveat}" if caveat else ""


def goodput_text(run_view: RunView) -> str:
    """``3.21 Gb/s``: of the result, or received now; all directions together; ``12.3 k/s p50 78.1 µs`` of requests and
    responses, ``p50 310 µs idle, 48.2 ms loaded 94.1 Mb/s`` beside a bulk flow; "" before anything was."""
    if run_view.plan.test == "loaded" and run_view.flows:
        return _loaded_text(run_view)
    if run_view.plan.has_requests:
        return _transactions_text(run_view)
    if run_view.result is not None:
        return units.bits_per_second(run_view.result.goodput) if run_view.result.goodput is not None else ""
    newest = [flow.arrivals[-1].bits_per_second for flow in run_view.flows if flow.arrivals]
    return units.bits_per_second(sum(newest)) if newest else ""


def _loaded_text(run_view: RunView) -> str:
    """``p50 310 µs idle, 48.2 ms loaded 94.1 Mb/s``; while it runs, the newest interval."""
    medians = added_latency(run_view.result) if run_view.result is not None else None
    if run_view.result is not None and medians is not None:
        idle, loaded = map(units.duration, medians)
        return f"p50 {idle} idle, {loaded} loaded {units.bits_per_second(run_view.result.goodput)}"
    if run_view.result is not None or not run_view.transactions:
        return ""
    newest = [flow.arrivals[-1].bits_per_second for flow in run_view.flows if flow.arrivals]
    text = f"p50 {units.duration(run_view.transactions[-1].latency.p50)}"
    return f"{text} {units.bits_per_second(sum(newest))}" if newest else f"{text} idle"


def _transactions_text(run_view: RunView) -> str:
    figures = run_view.result.transactions if run_view.result is not None else None
    if figures is not None:
        rate, median = figures.rate, figures.latency.summary().p50
    elif run_view.transactions and run_view.result is None:
        rate, median = run_view.transactions[-1].rate, run_view.transactions[-1].latency.p50
    else:
        return ""
    return f"{units.per_second(rate)} p50 {units.duration(median)}"


def time_text(run_view: RunView) -> str:
    """``7 of 20 s``; ``omitting, 2 s`` before the measured seconds; "" before the first byte. A run that takes longer,
    because its ends still report their totals, stays at ``20 of 20 s``."""
    if run_view.seconds <= run_view.start or not run_view.series:
        return ""
    if run_view.seconds < 0:
        return f"omitting, {-run_view.seconds:.0f} s"
    planned = run_view.plan.span
    return f"{min(int(run_view.seconds), planned)} of {planned} s"


def progress_bar(run_view: RunView, glyphs: Glyphs) -> str:
    """The measured seconds that have passed, as a bar; "" before the first byte."""
    if not time_text(run_view):
        return ""
    left, passed = glyphs.countdown[1], glyphs.countdown[0]
    done = round(PROGRESS_CELLS * min(1.0, max(0.0, run_view.seconds / run_view.plan.span)))
    return passed * done + left * (PROGRESS_CELLS - done)


def run_status(traffic: TrafficController) -> str:
    """For the status line: ``▶ 3.21 Gb/s 7 of 20 s``; "" when no run is running."""
    if not traffic.running:
        return ""
    if traffic.awaits_answer:
        return "▶ waits for you"
    run_view = traffic.view()
    parts = " ".join(part for part in (goodput_text(run_view), time_text(run_view)) if part) if run_view else ""
    return f"▶ {parts or 'test starting'}"


def end_text(traffic: TrafficController) -> str:
    """``Test finished: 877 Mb/s (key 6)``: of the experiment that ended last, with the key of its view."""
    ended, run_view = traffic.ended[-1], traffic.view()
    if not ended.results:
        return f"Test failed: {ended.trouble} (key 6)"
    failed = next((run.result.failure for run in ended.results if run.result.failure is not None), None)
    if failed is not None and len(ended.results) == 1:
        return f"Test failed: {failed.sentence} (key 6)"
    if len(ended.results) > 1 or run_view is None or not goodput_text(run_view):
        caveat = caveat_of_runs(run.result for run in ended.results)
        return f"Test finished: {with_caveat(count_noun(len(ended.results), 'run'), caveat)} (key 6)"
    return f"Test finished: {headline_text(run_view)} (key 6)"


def last_result_text(traffic: TrafficController) -> str:
    """``Last result, vm1 → vm2: 9.41 Gb/s received by vm2 …``: of the experiment before, if it is
    this nictop's; "": none."""
    stored = [one for ended in traffic.ended for one in ended.results]
    return result_line("Last result", stored[-1].result) if stored else ""


def result_line(title: str, result: Result) -> str:
    """The most important sentence about a result, after a title and its direction."""
    sentences = result_sentences(result)
    return f"{title}, {hosts_text(result.plan)}: {sentences[0].text}" if sentences else ""


def progress_text(traffic: TrafficController) -> str:
    """``run 3 of 20 · B: queues 4 · 2 min left``; "" for a single run, and when none is running."""
    began = traffic.began
    if began is None or began.total < 2:
        return ""
    parts = [f"run {began.number} of {began.total}"]
    if began.step.label:
        parts.append(began.step.label)
    left = traffic.seconds_left
    if left is not None:
        parts.append(f"{units.duration(max(1, round(left)))} left")
    return " · ".join(parts)


def ends_text(run_view: RunView, cells: int = WHOLE_ENDS_CELLS) -> str:
    """``vm1:ens224 → vm2:ens224``, the sender first; names of hosts are cut where it has not enough `cells`."""
    nics = {host.host: host.nic for host in run_view.hosts}
    first, arrow, second = run_view.plan.drawn_ends
    ends = [f":{nics.get(place.host) or place.address}" for place in (first, second)]
    rest = sum(width(clean(end)) for end in ends) + len(" <-> ")
    hosts = names_in_path((first.host, second.host), rest, cells)
    return f"{hosts[0]}{ends[0]} {arrow} {hosts[1]}{ends[1]}"


def options_text(run_view: RunView) -> str:
    """``TCP ×4 · 10 s``, and the options that are not default."""
    plan = run_view.plan
    test = (plan.test,) if plan.test != "bulk" else ()
    return " · ".join((*test, f"{plan.protocol.upper()} ×{plan.streams}", f"{plan.time} s", *plan_options(plan)))
