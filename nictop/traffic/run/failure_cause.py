"""The cause of a failed run: messages of both ends and what the hosts report → a `Failure`.

Reads nothing. Called by `run` when an end fails and when a time limit is exceeded.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean
from nictop.probe.records import Firewalls
from nictop.traffic.failures import (
    Failure,
    causes_text,
    failure,
    kind_of,
    opened_by,
    opening_commands,
)
from nictop.traffic.generators import Side
from nictop.traffic.path.findings.tested_direction import PROTOCOLS
from nictop.traffic.path.outcomes import outcome_of
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import RunLog
from nictop.traffic.record.strangers import is_stranger, served_text
from nictop.traffic.results.result import LOST_BY_SIZE
from nictop.traffic.run.hypervisor_cause import or_hypervisor
from nictop.traffic.run.link_loss import link_loss, overcome_loss
from nictop.traffic.run.unreachable import endpoint_link, examined, visible_cause

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


def timeout_failure(
    log: RunLog, payload_bytes: float, seconds: float, *, is_deadline: bool
) -> Failure:
    """The cause if a time limit was exceeded, `seconds` after the start of the client and after
    `payload_bytes` were received. `is_deadline`: that of the whole run."""
    plan = log.plan
    where = f"between {clean(plan.client.host)} and {clean(plan.server.host)}"
    lost = link_loss(log)
    if lost:
        no_data = "no more data" if payload_bytes else "no data received"
        return Failure("stall", f"{no_data} {where}: {lost}")
    ended = _ended_alone(log)
    if ended is not None:
        return Failure("other", f"{clean(ended.host)}: the {ended.side} ended without a result")
    if is_deadline:
        late = f"the test did not end within {seconds:.0f} s"
        return Failure("deadline", late + overcome_loss(log))
    is_little = payload_bytes < BLACK_HOLE_MAX_BYTES
    if is_little and plan.protocol == "tcp" and _has_sent(log):
        causes = "smaller MTU on the path, or jumbo frames on one side only"
        no_data = "hardly any data" if payload_bytes else "no data"
        sentence = f"connected, but {no_data} received {where} within {seconds:.0f} s"
        tested = _tested_black_hole(log)
        why = f"path test: {tested}" if tested else f"possible: MTU black hole ({causes})"
        return Failure("black_hole", f"{sentence}; {why}")
    if payload_bytes:
        stalled = f"no more data {where}, {seconds:.0f} s after the start"
        return Failure("stall", stalled + overcome_loss(log))
    for end in log.ends.values():
        if end.first_problem is not None:
            return error_failure(log, end.first_problem[1], end.first_problem[0])
    cause = or_hypervisor(log, visible_cause(log))
    if cause is not None:
        return cause
    return _nothing_received(log, f"no data received {where} within {seconds:.0f} s")


def _tested_black_hole(log: RunLog) -> str:
    """What the path test before the run has found in a direction of it; "": nothing."""
    report = log.path_test
    for finding in report.findings if report is not None else ():
        if finding.rule in LOST_BY_SIZE and finding.host in log.plan.senders:
            return clean(finding.title)
    return ""


def _ended_alone(log: RunLog) -> RunEnd | None:
    """The end that ended without an error message while the other one runs; None: there is none."""
    client, server = log.ends["client"], log.ends["server"]
    for end, other in ((client, server), (server, client)):
        if end.ended is not None and other.ended is None and not end.problems:
            return end
    return None


def _has_sent(log: RunLog) -> bool:
    """An end reported that it sent payload."""
    for end in log.ends.values():
        for _, interval in end.intervals:
            if interval.sends and interval.bits_per_second:
                return True
    return False


def _nothing_received(log: RunLog, message: str) -> Failure:
    """No cause is seen: what is possible."""
    plan, firewalls = log.plan, _firewalls(log, "server")
    if plan.protocol == "udp":
        commands = opening_commands(plan, _server_link(log), firewalls)
        may_drop = f"a firewall that accepts TCP may drop UDP to port {plan.port}"
        return opened_by(plan, "start", f"{message}: {may_drop}", commands)
    causes = causes_text(plan, "timeout", firewalls, _firewalls(log, "client"), examined(log))
    return Failure("start", f"{message}{causes}")


def first_cause(reported: Failure | None, lost: Failure) -> Failure | None:
    """The cause of a failed run if a host was lost right afterwards: the other end may have
    reported the consequence first."""
    if reported is not None and reported.kind in SECONDARY_KINDS:
        return lost
    return reported


def end_failure(log: RunLog, end: RunEnd) -> Failure:
    """The cause of the failure of an end."""
    if end.death:
        return _death(log, end)
    problem = end.first_problem
    if problem is not None:
        return error_failure(log, problem[1], problem[0])
    if kind_of(end.failed, 0.0) != "other":
        return error_failure(log, end.failed, 0.0)
    why = clean(end.failed) or "ended without an error message"
    if end.stderr_lines:
        why += f": {clean(end.stderr_lines[-1])[:MAX_STDERR_IN_MESSAGE]}"
    return Failure("other", f"{clean(end.host)}: {why}")


def _death(log: RunLog, end: RunEnd) -> Failure:
    """``iperf3 on vm2 ended by signal 11 (SIGSEGV): /tmp is full``"""
    last_error = ""
    if end.problems:
        last_error = end.problems[0][1]
    elif end.stderr_lines:
        last_error = end.stderr_lines[-1]
    shown = clean(last_error)[:MAX_STDERR_IN_MESSAGE]
    text = f"{log.plan.generator} on {clean(end.host)} {clean(end.death)}"
    if shown and shown not in text:
        text += f": {shown}"
    return Failure("died", text)


def taken_server(log: RunLog) -> Failure | None:
    """The cause if another client took the place of the run's at the server of iperf3, which serves
    one; None: it did not, as far as is known."""
    server, client = log.ends["server"], log.ends["client"]
    if log.plan.generator != "iperf3" or not server.listening or not _is_refused(client):
        return None
    if is_stranger(server.peer, log.plan.client.address):
        return Failure("busy", served_text(log.plan, server.peer))
    if server.ended is None or server.death or server.peer:
        return None
    ended = f"iperf3's server on {clean(server.host)} had ended when {clean(client.host)} connected"
    if server.first_problem is not None:
        _, text = server.first_problem
        if text.lower().startswith(NO_PARAMETERS):
            return Failure("busy", f"{ended}: another connection had come first")
    elif not server.failed:
        return Failure("busy", f"{ended}; possible: another connection had come first")
    return None


def _is_refused(client: RunEnd) -> bool:
    """By what is at the port of the server."""
    if client.first_problem is None:
        return False
    seconds, text = client.first_problem
    return kind_of(text, seconds) in ("refused", "busy")


def no_result_failure(log: RunLog) -> Failure:
    """The failure of a run whose ends both ended normally, without totals."""
    sentence = "both ends ended without a result"
    for end in log.ends.values():
        if end.stderr_lines:
            first_line = clean(end.stderr_lines[0])[:MAX_STDERR_IN_MESSAGE]
            return Failure("other", f"{sentence}: {first_line}")
    return Failure("other", sentence)


def error_failure(log: RunLog, text: str, seconds: float) -> Failure:
    """The failure for an error text of an end, with what is known of both hosts: see
    `failures.failure`."""
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
    """A router answered so to the path test before the run; it may not answer again, as it limits
    such answers."""
    test = log.path_test.result.directions[0].test if log.path_test is not None else None
    if test is None:
        return False
    for protocol in PROTOCOLS:
        outcome = outcome_of(test, protocol)
        if outcome.kind == "prohibited" and outcome.source != log.plan.server.address:
            return True
    return False


def _server_link(log: RunLog) -> str | None:
    link = endpoint_link(log, log.plan.server)
    if link is None:
        return None
    return link.name


def _firewalls(log: RunLog, side: Side) -> Firewalls | None:
    tools = log.ends[side].tools
    if tools is None:
        return None
    return tools.firewalls
