"""Text about a run: how far it is, and how long the rest will take. Names in it are as the hosts report them, not yet
clean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.text import units

if TYPE_CHECKING:
    from nictop.traffic.live.run_view import RunView
    from nictop.tui.controllers.traffic import TrafficController


def goodput_text(picture: RunView) -> str:
    """``3.21 Gb/s``: received now, all directions together; "" before anything was."""
    newest = [flow.arrivals[-1].bits_per_second for flow in picture.flows if flow.arrivals]
    return units.bits_per_second(sum(newest)) if newest else ""


def time_text(picture: RunView) -> str:
    """``7 of 20 s``; ``omitting 2 s`` while what is measured does not count; "" before the first byte."""
    if picture.seconds <= picture.start or not any(flow.arrivals for flow in picture.flows):
        return ""
    if picture.seconds < 0:
        return f"omitting, {-picture.seconds:.0f} s"
    return f"{min(picture.seconds, picture.end):.0f} of {picture.plan.time} s"


def run_status(traffic: TrafficController) -> str:
    """For the status line: ``▶ 3.21 Gb/s 7 of 20 s``; "" when no run is running."""
    if not traffic.running:
        return ""
    if traffic.asks:
        return "▶ waits for you"
    picture = traffic.view()
    said = " ".join(part for part in (goodput_text(picture), time_text(picture)) if part) if picture else ""
    return f"▶ {said or 'a run begins'}"


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
    """``vm1 ens224 → vm2 ens224``, the sender first."""
    nics = {host.host: host.nic for host in picture.hosts}
    first, arrow, second = picture.plan.drawn_ends
    words = (f"{place.host} {nics.get(place.host) or place.address}" for place in (first, second))
    return f" {arrow} ".join(words)
