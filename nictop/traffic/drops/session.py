"""Monitors the dropped packets of one host for some seconds, as root, and says what they mean.

The work is done by the probe (`probe.traffic.drops`). However it ends, the drop monitor of the
kernel is stopped: by the process that started it there, when the child of the probe has ended.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.session import HostSession
from nictop.model.text.terminal import clean
from nictop.probe.records import DropReport, TrafficLine, TrafficRequest
from nictop.rules import RULES, diagnose
from nictop.traffic.drops.reasons import reason_of
from nictop.traffic.drops.result import DropsResult, drop_rows
from nictop.traffic.failures import RunFailed
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.hosts.readings import wait_for_readings

MAX_DROPS_SECONDS = 60.0
ANSWER_TIMEOUT = 30.0
"""Seconds after the end for the report: more than the probe gives its child."""

Progress = Callable[[str], object]
"""Called with a sentence for each stage."""


class DropsSession:
    """`session`: the host, whose items the caller processes. `timeout`: as for
    `wait_for_readings`."""

    def __init__(
        self, session: HostSession, seconds: float, *, timeout: float | None = None
    ) -> None:
        self._session, self._seconds, self._timeout = session, seconds, timeout

    async def run(
        self, progress: Progress = lambda _: None, waiting: Progress = lambda _: None
    ) -> DropsResult:
        """`waiting`: is told the steps until the host is read. Raises HostUnreachable if the host
        is not reached or lost, NictopError if its probe cannot do it."""
        host = RunHost(self._session)
        try:
            await wait_for_readings(
                [self._session], self._timeout, lambda sentence: waiting(clean(sentence))
            )
            wall = time.time()
            progress(f"{clean(host.name)}: monitoring dropped packets for {self._seconds:g} s")
            report = await self._report(host)
        finally:
            host.close()
        named: set[str] = set()
        for group in report.groups:
            named.update(reason_of(group).rules)
        rules = [rule for rule in RULES.values() if rule.name in named]
        findings = diagnose([self._session.facts], rules).findings
        return DropsResult(host.name, wall, report, drop_rows(report, host.snapshot, findings))

    async def _report(self, host: RunHost) -> DropReport:
        request = TrafficRequest(f"{uuid.uuid4().hex[:12]}-drops", "drops", deadline=self._seconds)
        inbox = TrafficInbox({host.name: host}, {host.name})
        inbox.open()
        line: TrafficLine | None = None
        is_lost = False
        try:
            await host.request(request)
            limit = ANSWER_TIMEOUT * host.session.slowness.factor
            deadline = time.monotonic() + self._seconds + limit
            while line is None or line.id != request.id:
                line = await inbox.next(deadline)
                if line is None:
                    raise HostUnreachable(f"{clean(host.name)}: no answer from the probe")
        except RunFailed as error:
            is_lost = True
            raise HostUnreachable(error.failure.sentence) from None
        finally:
            inbox.close()
            if not is_lost and (line is None or line.id != request.id):
                await host.request(TrafficRequest(request.id, "stop"))
        if line.drops is None:
            raise NictopError(f"{clean(host.name)}: {clean(line.text)}")
        return line.drops
