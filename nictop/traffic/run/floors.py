"""The built-in generator alone, measured on each end before a run of requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficLine, TrafficRequest
from nictop.traffic.generators import Side, floor_arguments
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.run.events import Emit, Stage


async def measure_floors(
    plan: RunPlan,
    ends: Iterable[tuple[Side, RunHost]],
    inbox: TrafficInbox,
    emit: Emit,
    *,
    identity: str,
    seconds: float,
) -> None:
    """On one host after the other: both may be one machine. Each host is measured once for all runs
    with the same options. `identity`: of the requests; `seconds`: time limit of each."""
    for side, host in ends:
        arguments = floor_arguments(plan.requests, side)
        if arguments in host.floors:
            continue
        where = f"on {clean(host.name)} (loopback)"
        emit(Stage("checking", f"measuring latency of the generator {where}"))
        request = TrafficRequest(
            f"{identity}-floor-{side[0]}", "floor", arguments=arguments, deadline=seconds
        )
        await host.request(request)
        line = None
        try:
            line = await _reply(inbox, request.id, ("floor", "failed"), time.monotonic() + seconds)
        finally:
            if line is None and host.name not in inbox.lost:
                await host.request(TrafficRequest(request.id, "stop"))
        if line is None or line.floor is None:
            late = f"no answer within {seconds:g} s"
            host.floors[arguments] = late if line is None else clean(line.text)


async def _reply(
    inbox: TrafficInbox, identity: str, kinds: Sequence[str], deadline: float
) -> TrafficLine | None:
    """The next line with that id and of one of these kinds; None at the deadline. Others are
    ignored."""
    while True:
        line = await inbox.next(deadline)
        if line is None or (line.id == identity and line.kind in kinds):
            return line
