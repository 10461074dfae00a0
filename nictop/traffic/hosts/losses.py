"""The counters of lost packets of all hosts of a run, as their probes read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nictop.probe.records import LossCount, TrafficLine, TrafficRequest
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox

LossCounts = dict[str, tuple[LossCount, ...]]
"""By host."""


async def read_losses(
    hosts: Mapping[str, RunHost],
    inbox: TrafficInbox,
    identity: str,
    *,
    nics: Mapping[str, int],
    seconds: float,
    others: Callable[[TrafficLine], object] = lambda _: None,
) -> LossCounts:
    """Of the hosts that answer within `seconds`. `identity`: of the requests; `nics`: host →
    ifindex of its chosen NIC; `others`: called with lines of other requests, which there are only
    if a generator runs meanwhile. Raises RunFailed when the host of an end is lost."""
    waiting = {}
    for number, (name, host) in enumerate(hosts.items()):
        if name not in inbox.lost and host.snapshot.state == "live":
            waiting[f"{identity}-{number}"] = name
    for request, name in waiting.items():
        await hosts[name].request(TrafficRequest(request, "losses", ifindex=nics.get(name, 0)))
    found: LossCounts = {}
    deadline = time.monotonic() + seconds
    while waiting:
        line = await inbox.next(deadline)
        if line is None:
            break
        if line.id in waiting:
            name = waiting.pop(line.id)
            if line.kind == "losses":
                found[name] = line.losses or ()
        else:
            others(line)
    return found
