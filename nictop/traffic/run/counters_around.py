"""The counters of all hosts right before the first byte of a run and right after its last one."""

from __future__ import annotations

import time
from functools import partial

from nictop.probe.records import Counters
from nictop.probe.traffic.loss_differences import increases
from nictop.traffic.failures import RunFailed
from nictop.traffic.hosts.host import RunHost, chosen_nics
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.hosts.losses import LossCounts, read_losses
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import RunLog, first_record_since, has_record_since
from nictop.traffic.run.events import RunTimeouts

KEPT_SECONDS = 3.0
"""Of records before a client that is waited for: its first interval is reported that much later at
most."""


class CountersAround:
    """Of one run, for its log. `identity`: of the run."""

    def __init__(
        self, log: RunLog, inbox: TrafficInbox, limits: RunTimeouts, identity: str
    ) -> None:
        self._log, self._inbox, self._limits = log, inbox, limits
        self._identity = identity
        self._lost_before: LossCounts = {}
        self._refreshes = 0

    async def begin(self) -> None:
        """Before the servers are started."""
        self._lost_before = await self._read_losses("before")
        for host in self._log.hosts.values():
            host.clear_records()

    async def begin_again(self) -> None:
        """While a server waits for its client, so that what happens before that comes is not
        counted; the newest seconds are kept."""
        self._refreshes += 1
        self._lost_before = await self._read_losses(f"before{self._refreshes}")
        for host in self._log.hosts.values():
            host.keep_records(KEPT_SECONDS)

    def note_at(self, end: RunEnd) -> None:
        """The counters right before the run of an end, which began by itself."""
        if end.run_start is None:
            return
        began = end.run_start - self._log.hosts[end.host].offset.seconds
        self._log.before = {
            name: _last_record_before(host, began + host.offset.seconds)
            for name, host in self._log.hosts.items()
        }

    def note(self) -> None:
        """Before the client is started."""
        self._log.nics = chosen_nics(self._log.plan, self._log.hosts)
        self._log.before = {name: host.snapshot.counters for name, host in self._log.hosts.items()}

    async def end(self) -> None:
        """Once each host has sent a counter record after the end, or is late."""
        log = self._log
        if not log.before or all(end.run_start is None for end in log.ends.values()):
            return
        finish = {name: _end_on(log, host) for name, host in log.hosts.items()}
        deadline = time.monotonic() + self._limits.counters
        for name, host in log.hosts.items():
            if name not in self._inbox.lost:
                has_record = partial(has_record_since, host, finish[name])
                await host.session.until(has_record, deadline - time.monotonic())
        log.after = {
            name: first_record_since(host, finish[name]) for name, host in log.hosts.items()
        }
        log.losses = await self._losses()

    async def _losses(self) -> LossCounts:
        """Host → counters of lost packets that rose during the run."""
        try:
            after = await self._read_losses("after")
        except RunFailed:  # a host was lost meanwhile
            return {}
        rose = {}
        for name, before in self._lost_before.items():
            if name in after:
                rose[name] = increases(before, after[name])
        return rose

    async def _read_losses(self, when: str) -> LossCounts:
        plan = self._log.plan
        nics = {end.host: end.ifindex or 0 for end in (plan.server, plan.client)}
        return await read_losses(
            self._log.hosts,
            self._inbox,
            f"{self._identity}-losses-{when}",
            nics=nics,
            seconds=self._limits.losses,
            others=self._log.add_line,
        )


def _last_record_before(host: RunHost, time: float) -> Counters | None:
    """By the clock of the host; the oldest one if all are later."""
    earlier = [record for record in host.records if record.time <= time]
    if earlier:
        return earlier[-1]
    return host.records[0] if host.records else None


def _end_on(log: RunLog, host: RunHost) -> float:
    """Time at which the last generator ended, on the clock of a host."""
    ended = []
    for end in log.all_ends:
        if end.ended is not None:
            ended.append(end.ended - log.hosts[end.host].offset.seconds)
    return max(ended, default=time.monotonic()) + host.offset.seconds
