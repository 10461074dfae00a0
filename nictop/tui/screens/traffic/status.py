"""Text about a run: ends, options, progress, remaining time. Names in it are not yet clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.text import units
from nictop.report.runs.sentences import plan_options

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs
    from nictop.traffic.live.run_view import RunView
    from nictop.tui.controllers.traffic import TrafficController

PROGRESS_CELLS = 10


def goodput_text(picture: RunView) -> str:
    """``3.21 Gb/s``: of the result, or received now; all directions together; "" before anything was."""
    if picture.result is not None:
        return units.bits_per_second(picture.result.goodput) if picture.result.goodput is not None else ""
    newest = [flow.arrivals[-1].bits_per_second for flow in picture.flows if flow.arrivals]
    return units.bits_per_second(sum(newest)) if newest else ""


def time_text(picture: RunView) -> str:
    """``7 of 20 s``; ``omitting 2 s`` before the measured seconds; "" before the first byte."""
    if picture.seconds <= picture.start or not any(flow.arrivals for flow in picture.flows):
        return ""
    if picture.seconds < 0:
        return f"omitting, {-picture.seconds:.0f} s"
    return f"{min(picture.seconds, picture.end):.0f} of {picture.plan.time} s"


def progress_bar(picture: RunView, glyphs: Glyphs) -> str:
    """The measured seconds that have passed, as a bar; "" before the first byte."""
    if not time_text(picture):
        return ""
    left, passed = glyphs.countdown[1], glyphs.countdown[0]
    done = round(PROGRESS_CELLS * min(1.0, max(0.0, picture.seconds / picture.plan.time)))
    return passed * done + left * (PROGRESS_CELLS - done)


def run_status(traffic: TrafficController) -> str:
    """For the status line: ``▶ 3.21 Gb/s 7 of 20 s``; "" when no run is running."""
    if not traffic.running:
        return ""
    if traffic.asks:
        return "▶ waits for you"
    picture = traffic.view()
    said = " ".join(part for part in (goodput_text(picture), time_text(picture)) if part) if picture else ""
    return f"▶ {said or 'test starting'}"


def progress_text(traffic: TrafficController) -> str:
    """``run 3 of 20 · B: queues 4 · 2 min left``; "" for a single run, and when none is running."""
    began = traffic.began
    if began is None or began.total < 2:
        return ""
    said = [f"run {began.number} of {began.total}"]
    if began.step.label:
        said.append(began.step.label)
    left = traffic.seconds_left
    if left is not None:
        said.append(f"{units.duration(max(1, round(left)))} left")
    return " · ".join(said)


def ends_text(picture: RunView) -> str:
    """``vm1:ens224 → vm2:ens224``, the sender first."""
    nics = {host.host: host.nic for host in picture.hosts}
    first, arrow, second = picture.plan.drawn_ends
    words = (f"{place.host}:{nics.get(place.host) or place.address}" for place in (first, second))
    return f" {arrow} ".join(words)


def options_text(picture: RunView) -> str:
    """``TCP ×4 · 10 s``, and the options that are not default."""
    plan = picture.plan
    return " · ".join((f"{plan.protocol.upper()} ×{plan.streams}", f"{plan.time} s", *plan_options(plan)))
