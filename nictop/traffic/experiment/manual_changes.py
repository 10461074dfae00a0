"""Manual changes between two runs: whether the hosts show them.

Reads inventories of the watched hosts. nictop itself changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from functools import partial

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.hosts.host import RunHost, link_of
from nictop.traffic.plan.endpoints import updated_endpoint
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.variables import not_in_force

CHECK_SECONDS = 0.5
"""Between two inventories of hosts that do not show a change yet."""


@dataclass(frozen=True)
class ManualChangeTimeouts:
    """Time limits of manual changes, in seconds."""

    between: float = 300.0
    """For the command that makes it: it may restart a virtual machine."""
    shown: float = 20.0
    """Until the inventories show it and the NICs have carrier."""
    back: float = 60.0
    """Until a lost host is live again."""


def unavailable_end(plan: RunPlan, hosts: Mapping[str, RunHost]) -> str:
    """The first end that is not live, and why, without control characters; "" if both are."""
    for name in (end.host for end in plan.watched_ends):
        host = hosts.get(name)
        if host is None:
            return f"{clean(name)} is not watched"
        if not _is_live(host):
            return f"{clean(name)}: {clean(host.snapshot.message) or host.snapshot.state}"
    return ""


def _is_live(host: RunHost) -> bool:
    """And its counters are read."""
    return host.snapshot.state == "live" and host.snapshot.counters is not None


async def wait_for_ends(plan: RunPlan, hosts: Mapping[str, RunHost], seconds: float) -> str:
    """Wait for ends that are not live; returns the one that still is not, "" if both are live."""
    end = time.monotonic() + seconds
    for name in (end.host for end in plan.watched_ends):
        if name in hosts:
            await hosts[name].session.until(
                partial(_is_settled, hosts[name]), end - time.monotonic()
            )
    return unavailable_end(plan, hosts)


def _is_settled(host: RunHost) -> bool:
    """Live, or failed for good."""
    return host.snapshot.state == "failed" or _is_live(host)


async def refreshed_plan(plan: RunPlan, hosts: Mapping[str, RunHost], seconds: float) -> RunPlan:
    """Request new inventories of both ends; returns the plan with the NICs that have its addresses
    now."""
    names = {end.host for end in plan.watched_ends} & hosts.keys()
    await asyncio.gather(*(hosts[name].refresh(seconds) for name in sorted(names)))
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    return replace(
        plan,
        client=updated_endpoint(plan.client, snapshots),
        server=updated_endpoint(plan.server, snapshots),
    )


async def wait_for_change(
    variable: str, value: str, plan: RunPlan, hosts: Mapping[str, RunHost], seconds: float
) -> tuple[RunPlan, str]:
    """Request inventories of both ends until they show a change. Returns the plan with the NICs of
    then, and why the change is not in force; "" if it is."""
    end = time.monotonic() + seconds
    while True:
        plan = await refreshed_plan(plan, hosts, max(CHECK_SECONDS, end - time.monotonic()))
        reason = unmet_change(variable, value, plan, hosts)
        remaining = end - time.monotonic()
        if not reason or remaining <= 0:
            return plan, reason
        await asyncio.sleep(min(CHECK_SECONDS, remaining))


def change_sentence(change: str, missing: str) -> str:
    """``MTU of ens4 on a: 9000 (current: a: ens4 MTU 1500, required 9000)``. `missing`: of
    `unmet_change`."""
    return f"{change} (current: {missing})" if missing else change


def unmet_change(variable: str, value: str, plan: RunPlan, hosts: Mapping[str, RunHost]) -> str:
    """Which change the newest inventories do not show, or which NIC has no carrier, without control
    characters; "" if none."""
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    unmet = not_in_force(variable, value, plan, snapshots)
    if unmet:
        return unmet
    return "; ".join(_without_carrier(plan, hosts))


def _without_carrier(plan: RunPlan, hosts: Mapping[str, RunHost]) -> Iterable[str]:
    for endpoint in (plan.client, plan.server):
        link = link_of(endpoint, hosts)
        if link is not None and link.carrier is not True:
            yield f"{clean(endpoint.host)}: {clean(link.name)} has no carrier"
