"""The cause of a failed run: messages of both ends and what the hosts report → a `Failure`.

Reads nothing. Called by `run` when an end fails and when a time limit is exceeded.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean
from nictop.probe.records import Firewalls
from nictop.traffic.analysis.assemble import RunLog
from nictop.traffic.generators import Side
from nictop.traffic.path.findings.tested_direction import PROTOCOLS
from nictop.traffic.path.outcomes import outcome_of
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.failures import Failure, causes_text, failure, kind_of, opening_commands
from nictop.traffic.run.hypervisor_cause import or_hypervisor
from nictop.traffic.run.strangers import is_stranger, served_text
from nictop.traffic.run.unreachable import endpoint_link, examined, link_down, visible_cause

SECONDARY_KINDS = ("control_message", "interrupted", "refused", "stall")
"""How the other end reports the loss of one end."""
NOT_CONNECTED_KINDS = ("timeout", "prohibited", "no_neighbour", "refused", "no_route", "start")
"""The connection was not made: causes that both hosts show come before possible ones."""
BLACK_HOLE_MAX_BYTES = 64 * 1024
"""Payload of small packets that arrive although no full-sized one does."""
NO_PARAMETERS = "unable to receive parameters from client"
"""Of a server of iperf3 whose connection has ended, or has sent something else."""
MAX_STDERR_IN_MESSAGE = 200
"""Characters."""


def timeout_failure(log: RunLog, payload_bytes: float, seconds: float, *, is_deadline: bool) -> Failure:
    """The cause if a time limit was exceeded, `seconds` after the start of the client and after `payload_bytes` were
    received. `is_deadline`: that of the whole run."""
    plan = log.plan
    sent = any(one.sends and one.bits_per_second for end in log.ends.values() for _, one in end.intervals)
    where = f"between {clean(plan.client.host)} and {clean(plan.server.host)}"
    down = link_down(log)
    if down:
        return Failure("stall", f"no more data {where}: {down}")
    ended, *others = sorted(log.ends.values(), key=lambda end: end.ended is None)
    if ended.ended is not None and not ended.problems and any(end.ended is None for end in others):
        return Failure("other", f"{clean(ended.host)}: the {ended.side} ended without a result")
    if is_deadline:
        return Failure("deadline", f"the test did not end within {seconds:.0f} s")
    if sent and payload_bytes < BLACK_HOLE_MAX_BYTES and plan.protocol == "tcp":
        return Failure(
            "black_hole",
            f"connected, but no full-sized packets {where}: MTU black hole (smaller MTU on the path, or "
            "jumbo frames on one side only)",
        )
    if payload_bytes:
        return Failure("stall", f"no more data {where}: connectivity lost after {seconds:.0f} s")
    problem = next((end.first_problem for end in log.ends.values() if end.first_problem), None)
    if problem is not None:
        return error_failure(log, problem[1], problem[0])
    cause = or_hypervisor(log, visible_cause(log))
    if cause is not None:
        return cause
    message = f"no data received {where} within {seconds:.0f} s"
    if plan.protocol == "udp":
        commands = opening_commands(plan, _server_link(log), _firewalls(log, "server"))
        message += f": a firewall that accepts TCP may drop UDP to port {plan.port}"
        return Failure("start", message, commands, plan.server.host if commands else "", bool(commands))
    listed = causes_text(plan, "timeout", _firewalls(log, "server"), _firewalls(log, "client"), examined(log))
    return Failure("start", message + listed)


def first_cause(reported: Failure | None, lost: Failure) -> Failure | None:
    """The cause of a failed run if a host was lost right afterwards: the other end may have reported the consequence
    first."""
    return lost if reported is not None and reported.kind in SECONDARY_KINDS else reported


def end_failure(log: RunLog, end: RunEnd) -> Failure:
    """The cause of the failure of an end."""
    if end.death:
        return _death(log, end)
    problem = end.first_problem
    if problem is not None:
        return error_failure(log, problem[1], problem[0])
    if kind_of(end.failed, 0.0) == "other":
        last_line = f": {clean(end.stderr_lines[-1])[:MAX_STDERR_IN_MESSAGE]}" if end.stderr_lines else ""
        return Failure(
            "other", f"{clean(end.host)}: {clean(end.failed) or 'ended without an error message'}{last_line}"
        )
    return error_failure(log, end.failed, 0.0)


def _death(log: RunLog, end: RunEnd) -> Failure:
    """``iperf3 on vm2 ended by signal 11 (SIGSEGV): /tmp is full``"""
    last_error = end.problems[0][1] if end.problems else end.stderr_lines[-1] if end.stderr_lines else ""
    shown = clean(last_error)[:MAX_STDERR_IN_MESSAGE]
    text = f"{log.plan.generator} on {clean(end.host)} {clean(end.death)}"
    return Failure("died", f"{text}: {shown}" if shown and shown not in text else text)


def taken_server(log: RunLog) -> Failure | None:
    """The cause if another client took the place of the run's at the server of iperf3, which serves one; None: it did
    not, as far as is known."""
    server, client = log.ends["server"], log.ends["client"]
    if log.plan.generator != "iperf3" or not server.listening:
        return None
    problem = client.first_problem
    is_refused = problem is not None and kind_of(problem[1], problem[0]) in ("refused", "busy")
    if is_refused and is_stranger(server.peer, log.plan.client.address):
        return Failure("busy", served_text(log.plan, server.peer))
    if not is_refused or server.ended is None or server.death or server.peer:
        return None
    ended = f"iperf3's server on {clean(server.host)} had ended when {clean(client.host)} connected"
    if server.first_problem is None and not server.failed:
        return Failure("busy", f"{ended}; possible: another connection had come first")
    if server.first_problem is not None and server.first_problem[1].lower().startswith(NO_PARAMETERS):
        return Failure("busy", f"{ended}: another connection had come first")
    return None


def no_result_failure(log: RunLog) -> Failure:
    """The failure of a run whose ends both ended normally, without totals."""
    stderr_line = next((line for end in log.ends.values() for line in end.stderr_lines), "")
    more = f": {clean(stderr_line)[:MAX_STDERR_IN_MESSAGE]}" if stderr_line else ""
    return Failure("other", f"both ends ended without a result{more}")


def error_failure(log: RunLog, text: str, seconds: float) -> Failure:
    """The failure for an error text of an end, with what is known of both hosts: see `failures.failure`."""
    server = log.ends["server"]
    if server.listening and kind_of(text, seconds) in NOT_CONNECTED_KINDS:
        cause = or_hypervisor(log, visible_cause(log))
        if cause is not None:
            return cause
    return failure(
        log.plan,
        text if server.listening else f"cannot listen: {text}",
        seconds,
        link=_server_link(log),
        firewalls=_firewalls(log, "server"),
        client_firewalls=_firewalls(log, "client"),
        listens=server.listening and server.ended is None,
        prohibited=_router_prohibits(log),
        examined=examined(log),
    )


def _router_prohibits(log: RunLog) -> bool:
    """A router answered so to the path test before the run; it may not answer again, as it limits such answers."""
    test = log.path_test.result.directions[0].test if log.path_test is not None else None
    outcomes = [outcome_of(test, protocol) for protocol in PROTOCOLS] if test is not None else []
    return any(one.kind == "prohibited" and one.source != log.plan.server.address for one in outcomes)


def _server_link(log: RunLog) -> str | None:
    link = endpoint_link(log, log.plan.server)
    return link.name if link is not None else None


def _firewalls(log: RunLog, side: Side) -> Firewalls | None:
    tools = log.ends[side].tools
    return tools.firewalls if tools is not None else None
