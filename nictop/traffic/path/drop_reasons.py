"""Why the kernels of both ends, and of watched hosts between them, drop packets of a path test: the
drop monitor while the test is repeated.

Only as root, in the initial network namespace, and only for a test whose losses no counter
explains: the monitor slows a host that drops many packets.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack

from nictop.hosts.session import slowest_factor, until
from nictop.probe.records import DropReport, TrafficLine, TrafficRequest
from nictop.traffic.hosts.host import RunHost, TrafficItem, is_root

MONITOR_SECONDS = 8.0
"""A repeated test without an answer takes three."""
REFUSAL_SECONDS = 1.0
"""For a probe to say that its kernel does not offer it."""
END_SECONDS = 10.0
"""For the kernel to stop it."""
USABLE_STATES = ("complete", "stopped")


async def read_drop_reasons(
    hosts: Iterable[RunHost], repeat: Callable[[], Awaitable[object]]
) -> dict[str, DropReport]:
    """Host → what it dropped during `repeat`; without hosts whose kernel or rights do not offer
    it."""
    monitored = [host for host in hosts if _can_monitor(host)]
    if not monitored:
        return {}
    identity = f"{uuid.uuid4().hex[:12]}-drops"
    replies: dict[str, TrafficLine] = {}

    def take(name: str, item: TrafficItem) -> None:
        if not isinstance(item, TrafficLine) or item.id != identity:
            return
        if item.kind in ("drops", "failed"):
            replies[name] = item

    def all_answered() -> bool:
        return len(replies) == len(monitored)

    sessions = [host.session for host in monitored]
    with ExitStack() as stack:
        for host in monitored:
            stack.callback(host.subscribe(take))
        try:
            for host in monitored:
                await host.request(TrafficRequest(identity, "drops", deadline=MONITOR_SECONDS))
            if await until(sessions, all_answered, REFUSAL_SECONDS):
                return {}
            await repeat()
            limit = MONITOR_SECONDS + slowest_factor(sessions) * END_SECONDS
            await until(sessions, all_answered, limit)
        finally:
            for host in monitored:
                if host.name not in replies and not host.session.is_unreachable:
                    await host.request(TrafficRequest(identity, "stop"))
    return _usable_reports(replies)


def _usable_reports(replies: Mapping[str, TrafficLine]) -> dict[str, DropReport]:
    reports = {}
    for name, line in replies.items():
        if line.drops is not None and line.drops.state in USABLE_STATES:
            reports[name] = line.drops
    return reports


def _can_monitor(host: RunHost) -> bool:
    """It is live, and its probe runs as root."""
    return host.snapshot.state == "live" and is_root(host.snapshot)
