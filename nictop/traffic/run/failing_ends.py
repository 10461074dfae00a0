"""What ends a run before its end: a generator that fails, or serves another client.

What was not connected is asked of both hosts: their routes to each other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Request, TrafficRequest
from nictop.traffic.failures import Failure, RunFailed
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import FlowGroup, RunLog
from nictop.traffic.record.strangers import served_text
from nictop.traffic.run.events import RunTimeouts
from nictop.traffic.run.failure_cause import (
    NOT_CONNECTED_KINDS,
    SECONDARY_KINDS,
    end_failure,
    no_result_failure,
    taken_server,
)
from nictop.traffic.run.link_loss import with_early_loss


class FailingEnds:
    """Those of one run, whose lines are added to its log."""

    def __init__(self, log: RunLog, inbox: TrafficInbox, limits: RunTimeouts) -> None:
        self._log, self._inbox, self._limits = log, inbox, limits

    async def check(self) -> None:
        """Raise RunFailed for an end that failed while others run, which might wait for ever, or
        for a server that serves another client."""
        for group in self._log.groups:
            client, server = group.ends["client"], group.ends["server"]
            if server.stranger:
                raise RunFailed(Failure("busy", served_text(group.plan, server.stranger)))
            for end, other in ((client, server), (server, client)):
                is_left = other.ended is None or group is not self._log.last
                if is_left and _has_failed(end):
                    original = await self._original(end, other, group)
                    raise await self.failed(partial(end_failure, end=original), group)

    async def check_ended(self) -> None:
        """The last group is over: raise RunFailed if it has no result."""
        group = self._log.last
        ends = (group.ends["client"], group.ends["server"])
        for end in sorted(ends, key=lambda end: not end.failed):
            if end.failed or end.problems:
                raise await self.failed(partial(end_failure, end=end), group)
        if not any(end.totals for end in ends):
            raise RunFailed(no_result_failure(self._log.of(group)))

    async def failed(self, reason: Callable[[RunLog], Failure], group: FlowGroup) -> RunFailed:
        """The cause; if no connection was made, with the routes of both hosts to each other."""
        log = self._log.of(group)
        await read_events(log, self._limits.inventory)
        found = taken_server(log) or reason(log)
        if found.kind in NOT_CONNECTED_KINDS:
            await self._request_paths(group)
            found = reason(log)
        found = with_early_loss(log, found)
        if group is not self._log.first:
            found = replace(found, sentence=f"bulk flow: {found.sentence}")
        return RunFailed(found)

    async def _request_paths(self, group: FlowGroup) -> None:
        """Request the route from both hosts; an end whose host does not answer in time has no
        path."""
        deadline = time.monotonic() + self._limits.path
        plan, waiting = self._log.plan, {}
        for end, here, there in (
            (group.ends["client"], plan.client, plan.server),
            (group.ends["server"], plan.server, plan.client),
        ):
            name = f"{end.identity}-path"
            waiting[name] = end
            address, ifindex = there.address.partition("%")[0], here.ifindex or 0
            await self._log.hosts[end.host].request(
                TrafficRequest(name, "path", address=address, source=here.address, ifindex=ifindex)
            )
        while waiting:
            line = await self._inbox.next(deadline)
            if line is None:
                return
            if line.id in waiting:
                waiting.pop(line.id).path = line.path
            self._log.add_line(line)

    async def _original(self, end: RunEnd, other: RunEnd, group: FlowGroup) -> RunEnd:
        """The end with the original error. If an end only reports the loss of the other one, the
        message of that is waited for."""
        deadline, log = time.monotonic() + self._limits.settle, self._log.of(group)
        while end_failure(log, end).kind in SECONDARY_KINDS and other.ended is None:
            line = await self._inbox.next(deadline)
            if line is None:
                break
            self._log.add_line(line)
        if other.death:
            return other
        return other if other.failed and not end.failed else end


async def read_events(log: RunLog, seconds: float) -> None:
    """Wait for inventories of the watched ends that have read what happened there: that an address
    was removed is in no other line."""
    names = dict.fromkeys((log.plan.client.host, log.plan.server.host))
    hosts = (log.hosts[name] for name in names if name in log.hosts)
    waiting = [_read_event(host, seconds) for host in hosts if _has_unread_event(host)]
    await asyncio.gather(*waiting)


def _has_unread_event(host: RunHost) -> bool:
    snapshot = host.snapshot
    if snapshot.state != "live" or snapshot.inventory is None:
        return False
    return snapshot.inventory_pending or snapshot.unread_event is not None


async def _read_event(host: RunHost, seconds: float) -> None:
    try:
        await host.session.request(Request(inventory=True))
    except NictopError:  # it is lost: nothing more is known of it
        return
    await host.session.until(lambda: not _has_unread_event(host), seconds)


def _has_failed(end: RunEnd) -> bool:
    """It reports that it failed, or has ended with an error message."""
    if end.failed:
        return True
    return bool(end.problems) and end.ended is not None
