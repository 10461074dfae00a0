"""What somebody else changes between two runs: whether the hosts show it afterwards.

Reads inventories of the watched hosts. Nothing is changed by nictop itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from nictop.model.text.terminal import clean
from nictop.traffic.plan.endpoints import refreshed
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.variables import not_shown
from nictop.traffic.run.host import RunHost

PAUSE = 0.5
"""Seconds between two looks at hosts that do not show a change yet."""


@dataclass(frozen=True)
class Waits:
    """Seconds after which a change is not waited for any longer."""

    between: float = 300.0
    """For the command that makes it: a virtual machine may be started again meanwhile."""
    shown: float = 20.0
    """Until the inventories show it, and the NICs have their carrier again."""
    back: float = 60.0
    """For a lost host to be there again."""


def away(plan: RunPlan, hosts: Mapping[str, RunHost]) -> str:
    """Which end is not there now, and why; clean, "" when both are."""
    for name in dict.fromkeys((plan.client.host, plan.server.host)):
        host = hosts.get(name)
        if host is None:
            return f"{clean(name)} is not watched"
        if host.snapshot.state != "live" or host.snapshot.counters is None:
            return f"{clean(name)}: {clean(host.snapshot.message) or host.snapshot.state}"
    return ""


async def back(plan: RunPlan, hosts: Mapping[str, RunHost], seconds: float) -> str:
    """Wait for ends that are away; who is still away then, "" when nobody is."""
    end = time.monotonic() + seconds
    for name in dict.fromkeys((plan.client.host, plan.server.host)):
        if name in hosts:
            await hosts[name].session.until(partial(_is_settled, hosts[name]), end - time.monotonic())
    return away(plan, hosts)


def _is_settled(host: RunHost) -> bool:
    """There, or never again."""
    state = host.snapshot.state
    return state == "failed" or (state == "live" and host.snapshot.counters is not None)


async def looked(plan: RunPlan, hosts: Mapping[str, RunHost], seconds: float) -> RunPlan:
    """New inventories of both ends; the plan with the NICs that bear its addresses now."""
    ends = [hosts[name] for name in dict.fromkeys((plan.client.host, plan.server.host)) if name in hosts]
    await asyncio.gather(*(host.refresh(seconds) for host in ends))
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    return replace(plan, client=refreshed(plan.client, snapshots), server=refreshed(plan.server, snapshots))


async def until_shown(
    variable: str, value: str, plan: RunPlan, hosts: Mapping[str, RunHost], seconds: float
) -> tuple[RunPlan, str]:
    """Look at both ends until they show a change; the plan with the NICs as they are then, and why it is not as it
    should be ("": it is)."""
    end = time.monotonic() + seconds
    while True:
        plan = await looked(plan, hosts, max(PAUSE, end - time.monotonic()))
        why = missing(variable, value, plan, hosts)
        left = end - time.monotonic()
        if not why or left <= 0:
            return plan, why
        await asyncio.sleep(min(PAUSE, left))


def missing(variable: str, value: str, plan: RunPlan, hosts: Mapping[str, RunHost]) -> str:
    """What the newest pictures of the ends lack; clean, "" when nothing."""
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    return not_shown(variable, value, plan, snapshots) or "; ".join(_without_carrier(plan, hosts))


def _without_carrier(plan: RunPlan, hosts: Mapping[str, RunHost]) -> Iterable[str]:
    for place in (plan.client, plan.server):
        host = hosts.get(place.host)
        link = host.snapshot.links.get(place.ifindex or 0) if host is not None else None
        if link is not None and link.carrier is not True:
            yield f"{clean(place.host)}: {clean(link.name)} has no carrier"
