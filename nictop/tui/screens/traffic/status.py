"""Text about a run: ends, options, progress, remaining time. Names in it are not yet clean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE
from nictop.model.text.names import names_in_path
from nictop.model.text.terminal import clean, width
from nictop.model.text.words import count_noun
from nictop.report.runs.sentences import (
    hosts_text,
    measured_text,
    plan_options,
    result_sentences,
    seconds_text,
    workload_plan_text,
)
from nictop.traffic.analysis.loaded import added_latency
from nictop.traffic.generators.intervals import has_rate
from nictop.traffic.results.caveats import caveat_of, caveat_of_runs, with_caveat
from nictop.traffic.results.measures import deciding_text
from nictop.traffic.run.events import FINAL_COUNTERS

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs
    from nictop.traffic.live.run_view import RunView
    from nictop.traffic.results.result import Result
    from nictop.tui.controllers.traffic import TrafficController
    from nictop.tui.keys import KeyLabels

PROGRESS_CELLS = 10
LATE_SECONDS = 3.0
"""After the planned end: until then generators report their totals."""
GENERATOR_NAMES = {
    "iperf3": "iperf3", "builtin": "the built-in generator", "ntttcp": "ntttcp",
}  # fmt: skip
WHOLE_ENDS_CELLS = 1000


def headline_text(run_view: RunView, glyphs: Glyphs = UNICODE, room: int = 1000) -> str:
    """`goodput_text`, with what the result lacks: ``3.21 Gb/s ▲ path not verified``; ``3.21 Gb/s ▲
    not verified`` if that does not fit into `room` cells. While it runs, ``link lost at second 7``
    until a whole interval was measured since then. ``✖ failed``, as in the lists of results."""
    text, result = goodput_text(run_view), run_view.result
    if result is None:
        return text or _loss_text(run_view)
    if result.failure is not None:
        return f"{glyphs.critical} failed"
    caveat = caveat_of(result)
    if width(with_caveat(text, caveat, glyphs)) > room:
        caveat = caveat.removeprefix("path ")
    if not text and caveat:
        return f"{glyphs.warning} {caveat}"
    return with_caveat(text, caveat, glyphs) if text else ""


def _loss_text(run_view: RunView) -> str:
    return "" if run_view.loss is None else run_view.loss.loss_text


def goodput_text(run_view: RunView) -> str:
    """``3.21 Gb/s``: of the result, or received now (`RunView.newest_rate`); all directions
    together; ``12.3 k/s p50 78.1 µs`` of requests and responses, ``p50 310 µs idle, 48.2 ms loaded
    94.1 Mb/s`` beside a bulk flow; "" before anything was, or if nothing is known of now."""
    if run_view.plan.test == "loaded" and run_view.flows:
        return _loaded_text(run_view)
    if run_view.plan.has_requests:
        return _transactions_text(run_view)
    goodput = _goodput_now(run_view)
    if run_view.result is not None and run_view.plan.is_of_one_host:
        return deciding_text(run_view.result) if run_view.result.workload is not None else ""
    if run_view.result is not None:
        goodput = run_view.result.goodput
    return "" if goodput is None else units.bits_per_second(goodput)


def _goodput_now(run_view: RunView) -> float | None:
    """Of the newest interval of each direction; None: nothing was received, or of a direction
    nothing newer was reported, or only what was sent."""
    if any(map(run_view.is_only_sent, range(len(run_view.flows)))):
        return None
    newest = [run_view.arrival_now(flow) for flow in run_view.flows if flow.points]
    known = [point.interval.bits_per_second for point in newest if point is not None]
    return sum(known) if known and len(known) == len(newest) else None


def _loaded_text(run_view: RunView) -> str:
    """``p50 310 µs idle, 48.2 ms loaded 94.1 Mb/s``; while it runs, the newest interval."""
    result = run_view.result
    if result is not None:
        medians = added_latency(result)
        if medians is None:
            return ""
        idle, loaded = map(units.duration, medians)
        return f"p50 {idle} idle, {loaded} loaded {units.bits_per_second(result.goodput)}"
    newest = run_view.newest_rate(run_view.transactions)
    if newest is None:
        return ""
    goodput = _goodput_now(run_view)
    beside = "idle" if run_view.loaded_since is None else units.bits_per_second(goodput)
    return f"p50 {units.duration(newest.latency.p50)} {beside}"


def _transactions_text(run_view: RunView) -> str:
    if run_view.result is not None:
        figures = run_view.result.transactions
        if figures is None:
            return ""
        rate, median = figures.rate, figures.latency.summary().p50
    else:
        newest = run_view.newest_rate(run_view.transactions)
        if newest is None:
            return ""
        if not has_rate(newest.seconds, run_view.plan.interval):
            return f"p50 {units.duration(newest.latency.p50)}"
        rate, median = newest.rate, newest.latency.p50
    return f"{units.per_second(rate)} p50 {units.duration(median)}"


def time_text(run_view: RunView) -> str:
    """``7 of 20 s``; ``omitting, 2 s`` before the measured seconds; "" before the first byte. A run
    that takes longer, because its ends still report their totals, stays at ``20 of 20 s``."""
    if run_view.seconds <= run_view.start:
        return ""
    if run_view.plan.is_of_one_host:  # it is measured from its begin on
        return f"{int(run_view.seconds)} s"
    if not run_view.series:
        return ""
    if run_view.seconds < 0:
        return f"omitting, {-run_view.seconds:.0f} s"
    planned = run_view.plan.span
    return f"{min(int(run_view.seconds), planned)} of {planned} s"


def late_text(run_view: RunView, stop_key: str) -> str:
    """``10 s are over; waiting for iperf3 on vm2 to end: 12 s, at most 20 s (Enter: stop)``; "" as
    for `_late_stage`. `stop_key`: label of the key that stops the test."""
    doing, planned = _late_stage(run_view), run_view.plan.span
    if not doing:
        return ""
    waited = int(run_view.seconds - planned)
    if doing == FINAL_COUNTERS:
        return f"{planned} s are over; {doing}, {waited} s"
    hosts = " and ".join(map(clean, run_view.running_hosts))
    if hosts:
        doing = doing.replace(" to end", f" on {hosts} to end")
    text = f"{planned} s are over; {doing}: {waited} s"
    if run_view.grace is not None and waited <= run_view.grace:
        text += f", at most {math.ceil(run_view.grace)} s"
    return f"{text} ({stop_key}: stop)"


def _late_stage(run_view: RunView) -> str:
    """What is waited for; "": it runs, or has just come to its planned end."""
    plan = run_view.plan
    if plan.is_of_one_host or plan.is_open_ended or not run_view.series:
        return ""
    if run_view.seconds - plan.span < LATE_SECONDS or run_view.result is not None:
        return ""
    if run_view.stage == FINAL_COUNTERS:
        return FINAL_COUNTERS
    return f"waiting for {GENERATOR_NAMES[plan.generator]} to end"


def progress_bar(run_view: RunView, glyphs: Glyphs) -> str:
    """The measured seconds that have passed, as a bar; "" before the first byte."""
    if not time_text(run_view) or run_view.plan.is_of_one_host:
        return ""
    left, passed = glyphs.countdown[1], glyphs.countdown[0]
    done = int(PROGRESS_CELLS * min(1.0, max(0.0, run_view.seconds / run_view.plan.span)))
    return passed * done + left * (PROGRESS_CELLS - done)


def run_status(traffic: TrafficController) -> str:
    """For the status line: ``▶ 3.21 Gb/s 7 of 20 s``, ``▶ 0 b/s 7 of 20 s vm1 ens224 lost its
    carrier``; "" when no run is running."""
    if not traffic.running:
        return ""
    if traffic.awaits_answer:
        return "▶ waits for you"
    if traffic.is_stopping:
        return "▶ stopping"
    run_view = traffic.view()
    parts: list[str] = []
    if run_view is not None:
        rate, time = goodput_text(run_view), time_text(run_view)
        if time and not rate and run_view.loss is None:
            rate = "measuring"
        parts += filter(None, (rate, time, _late_stage(run_view)))
        if run_view.incidents:
            parts.append((run_view.loss or run_view.incidents[0]).brief)
    return f"▶ {' '.join(parts) or 'test starting'}"


def end_text(traffic: TrafficController, labels: KeyLabels) -> str:
    """``Test finished: 877 Mb/s (key 6)``: of the experiment that ended last, with the key of its
    view."""
    return f"{_end_sentence(traffic)} (key {labels('traffic')})"


def _end_sentence(traffic: TrafficController) -> str:
    ended = traffic.ended[-1]
    results = [run.result for run in ended.results]
    if not results:
        return f"Test failed: {ended.trouble}"
    failure = results[0].failure
    if len(results) == 1 and failure is not None:
        return f"Test failed: {failure.sentence}"
    run_view = traffic.view()
    if len(results) == 1 and run_view is not None and goodput_text(run_view):
        return f"Test finished: {headline_text(run_view)}"
    runs = count_noun(len(results), "run")
    return f"Test finished: {with_caveat(runs, caveat_of_runs(results))}"


def last_result_text(traffic: TrafficController) -> str:
    """``Last result, vm1 → vm2: 9.41 Gb/s received by vm2 …``: of the experiment before, if it is
    this nictop's; "": none."""
    for ended in reversed(traffic.ended):
        if ended.results:
            return result_line("Last result", ended.results[-1].result)
    return ""


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
    if left is not None and not began.step.plan.is_open_ended:
        parts.append(f"{units.duration(max(1, round(left)))} left")
    return " · ".join(parts)


def ends_text(run_view: RunView, cells: int = WHOLE_ENDS_CELLS) -> str:
    """``vm1:ens224 → vm2:ens224``, the sender first; names of hosts are cut where it has not enough
    `cells`."""
    nics = {load.host: run_view.nic_of(load) for load in run_view.hosts}
    if run_view.plan.is_of_one_host:
        host = run_view.plan.client.host
        return ":".join(filter(None, (clean(host), nics.get(host, ""))))
    first, arrow, second = run_view.plan.drawn_ends
    ends = [f":{nics.get(place.host) or place.address}" for place in (first, second)]
    rest = sum(width(clean(end)) for end in ends) + len(" <-> ")
    hosts = names_in_path((first.host, second.host), rest, cells)
    return f"{hosts[0]}{ends[0]} {arrow} {hosts[1]}{ends[1]}"


def options_text(run_view: RunView) -> str:
    """``TCP ×4 · 10 s``, and the options that are not default."""
    plan = run_view.plan
    if plan.is_of_one_host:
        return workload_plan_text(plan)
    result = run_view.result
    seconds = seconds_text(plan) if result is None else measured_text(result)
    options = [f"{plan.protocol.upper()} ×{plan.streams}", seconds, *plan_options(plan)]
    if plan.test != "bulk":
        options.insert(0, plan.test)
    return " · ".join(options)
