"""How a run that came to no good end ended: what its two ends have said, and for how long nothing came → a `Failure`.

Reads nothing. Called by `run` when an end fails, and when its own watches lose their patience.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean
from nictop.probe.records import Firewalls
from nictop.traffic.analysis.assemble import RunLog
from nictop.traffic.generators import Side
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.events import RunTimeouts
from nictop.traffic.run.failures import Failure, failure, kind_of, opening, possible
from nictop.traffic.run.unreachable import examined, link_down, link_of, seen_cause

SEEN_FROM_AFAR = ("control_message", "interrupted", "refused", "stall")
"""How the loss of one host looks to the other end."""
NOT_CONNECTED = ("timeout", "prohibited", "no_neighbour", "refused", "no_route", "start")
"""The connection was not made: what both hosts show about that comes before what is possible."""
TRICKLE = 64 * 1024
"""Bytes: what small packets carry while no full one gets through."""


def hung(heard: RunLog, limits: RunTimeouts, moved: float, seconds: float) -> Failure:
    """Nothing came any more, `seconds` after the client's start and `moved` bytes of payload."""
    plan = heard.plan
    sent = any(one.sends and one.bits_per_second for end in heard.ends.values() for _, one in end.intervals)
    where = f"between {clean(plan.client.host)} and {clean(plan.server.host)}"
    down = link_down(heard)
    if down:
        return Failure("stall", f"nothing arrived any more {where}: {down}")
    over, *others = sorted(heard.ends.values(), key=lambda end: end.ended is None)
    if over.ended is not None and not over.problems and any(end.ended is None for end in others):
        return Failure(
            "other", f"{clean(over.host)}: the {over.side} ended without a result, and the other end waited in vain"
        )
    if seconds >= plan.seconds + limits.grace:
        return Failure("deadline", f"the run did not come to its end within {seconds:.0f} s")
    if sent and moved < TRICKLE and plan.protocol == "tcp":
        return Failure(
            "black_hole",
            f"the connection stood and then nothing full-sized came through {where}: an MTU black hole (a smaller "
            "MTU on the way, or jumbo frames on one side only)",
        )
    if moved:
        return Failure("stall", f"nothing arrived any more {where}: the link or the way died after {seconds:.0f} s")
    problem = next((end.first_problem for end in heard.ends.values() if end.first_problem), None)
    if problem is not None:
        return failure_of(heard, problem[1], problem[0])
    cause = seen_cause(heard)
    if cause is not None:
        return cause
    silent = f"not one byte arrived {where} within {seconds:.0f} s"
    if plan.protocol == "udp":
        opens = opening(plan, _link(heard), _firewalls(heard, "server"))
        silent += f": a firewall that lets TCP in may drop UDP to port {plan.port}"
        return Failure("start", silent, opens, plan.server.host if opens else "", bool(opens))
    listed = possible(plan, "timeout", _firewalls(heard, "server"), _firewalls(heard, "client"), examined(heard))
    return Failure("start", silent + listed)


def first_cause(told: Failure | None, lost: Failure) -> Failure | None:
    """Of a run that failed, and a host that was found lost right afterwards: the other end may have said so first."""
    return lost if told is not None and told.kind in SEEN_FROM_AFAR else told


def why(heard: RunLog, end: RunEnd) -> Failure:
    """What became of an end that failed."""
    problem = end.first_problem
    if problem is not None:
        return failure_of(heard, problem[1], problem[0])
    if kind_of(end.failed, 0.0) == "other":
        said = f": {clean(end.complaints[-1])[:200]}" if end.complaints else ""
        return Failure("other", f"{clean(end.host)}: {clean(end.failed) or 'it ended without a word'}{said}")
    return failure_of(heard, end.failed, 0.0)


def without_result(heard: RunLog) -> Failure:
    """Both ends have ended, and all seemed well."""
    said = next((line for end in heard.ends.values() for line in end.complaints), "")
    more = f": {clean(said)[:200]}" if said else ""
    return Failure("other", f"both ends are done, and neither has told a result{more}")


def failure_of(heard: RunLog, text: str, seconds: float) -> Failure:
    """An error text, with what is known of the server's host: see `failures.failure`."""
    server = heard.ends["server"]
    if server.listening and kind_of(text, seconds) in NOT_CONNECTED:
        cause = seen_cause(heard)
        if cause is not None:
            return cause
    return failure(
        heard.plan,
        text if server.listening else f"cannot listen: {text}",
        seconds,
        link=_link(heard),
        firewalls=_firewalls(heard, "server"),
        clients=_firewalls(heard, "client"),
        listens=server.listening and server.ended is None,
        examined=examined(heard),
    )


def _link(heard: RunLog) -> str | None:
    link = link_of(heard, heard.plan.server)
    return link.name if link is not None else None


def _firewalls(heard: RunLog, side: Side) -> Firewalls | None:
    tools = heard.ends[side].tools
    return tools.firewalls if tools is not None else None
