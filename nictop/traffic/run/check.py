"""The check before a run: are both hosts live, which generators do they have, and the path between
them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficLine
from nictop.traffic.failures import Failure, RunFailed
from nictop.traffic.generators import output_parser
from nictop.traffic.hosts.host import PROBE_REPLY_TIMEOUT, RunHost, check_request
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.path.run import PathRun
from nictop.traffic.plan.problem import sentences
from nictop.traffic.plan.tools import refusals
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import RunLog
from nictop.traffic.run.events import RunTimeouts
from nictop.traffic.run.path_test import run_path_report


async def request_checks(log: RunLog, limits: RunTimeouts) -> float:
    """Ask both hosts for their generators; until when they may answer. Raises RunFailed."""
    deadline = time.monotonic() + limits.check
    for end in (log.ends["server"], log.ends["client"]):
        await _require_live(log.hosts[end.host], deadline)
        await log.hosts[end.host].request(check_request(end.identity, limits.check))
    return deadline


async def _require_live(host: RunHost, deadline: float) -> None:
    """Raise RunFailed unless the host is live: a request to a lost probe would get no answer and no
    error."""
    await host.session.until(
        lambda: host.snapshot.state != "connecting", deadline - time.monotonic()
    )
    if host.snapshot.state != "live":
        state = clean(host.snapshot.message) or f"it is {host.snapshot.state}"
        raise RunFailed(Failure("unreachable", f"{clean(host.name)}: {state}"))


async def check(
    log: RunLog, path: PathRun, inbox: TrafficInbox, limits: RunTimeouts, deadline: float
) -> None:
    """Test the path while the probes look for their generators, until `deadline`. Raises
    RunFailed."""
    await path.begin()
    while _without_tools(log) or path.stage != "over":
        missing = _without_tools(log)
        until = min(deadline, path.deadline) if missing else path.deadline
        line = await inbox.next(until)
        if line is None:
            await path.expire()
            if missing and time.monotonic() >= deadline:
                names = ", ".join(clean(end.host) for end in missing)
                late = f"{names}: no answer from the probe within {limits.check:g} s"
                raise RunFailed(Failure("tools", late))
            continue
        await path.add(line)
        if missing:
            seconds = limits.check - (deadline - time.monotonic())
            _add_tools(log, line, missing, seconds)
    log.tested = time.monotonic()
    tools = {end.host: end.tools for end in log.ends.values() if end.tools is not None}
    log.path_test = run_path_report(log.plan, path, log.hosts, tools)


def _without_tools(log: RunLog) -> list[RunEnd]:
    """Ends whose hosts have not answered yet."""
    return [end for end in log.ends.values() if end.tools is None]


def _add_tools(log: RunLog, line: TrafficLine, missing: Sequence[RunEnd], seconds: float) -> None:
    """Take the answer to a check, which took so many `seconds`. Raises RunFailed."""
    for end in missing:
        if line.id != f"{end.identity}-check":
            continue
        if line.kind == "failed":
            raise RunFailed(Failure("tools", f"{clean(end.host)}: {clean(line.text)}"))
        if line.tools is not None:
            log.hosts[end.host].session.slowness.note(seconds, PROBE_REPLY_TIMEOUT)
            for group in log.groups:
                group.ends[end.side].tools = line.tools
                own = output_parser(group.plan, line.tools, end.side)
                group.ends[end.side].output = own
    client, server = log.ends["client"].tools, log.ends["server"].tools
    if client is None or server is None:
        return
    refused = refusals(log.plan, client, server)
    if refused:
        raise RunFailed(Failure("option", sentences(refused)))
