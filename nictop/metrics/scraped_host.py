"""One host of the metrics endpoint, reconnected until nictop ends.

A scrape reads the newest snapshot and its age; it requests nothing from the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from nictop.hosts.session import HostSession, Item, is_silent
from nictop.hosts.specification import Host
from nictop.metrics.collector import HostCollector
from nictop.metrics.series import Sample
from nictop.model.snapshot import Snapshot
from nictop.wire.errors import internal_error_text
from nictop.wire.source import Source, SourceState

FAILED_RETRY_SECONDS = 60.0
"""Until the next connection to a host that failed permanently: the cause may have been repaired."""

Connect = Callable[[Host], Source]
ReportStatus = Callable[[str], None]


class ScrapedHost:
    """`connect` creates its source, a new one after each failure; `report_status` is called with
    the state of the connection whenever that changes."""

    def __init__(
        self,
        host: Host,
        connect: Connect,
        interval: float,
        report_status: ReportStatus,
        *,
        retry_seconds: float = FAILED_RETRY_SECONDS,
    ) -> None:
        self.session = HostSession(host, watch_devices=True)
        self.session.subscribe(self._receive)
        self.name = host.label
        self.collector = HostCollector(self.name)
        self._connect, self._report_status = connect, report_status
        self._interval, self._retry_seconds = interval, retry_seconds
        self._counters_at: float | None = None
        """When the newest counters were received, CLOCK_MONOTONIC of this machine."""
        self._reported = ("", "")
        self._reported_failure = ""

    def age(self, now: float) -> float | None:
        """Seconds since its newest counters were received; None: none were."""
        return None if self._counters_at is None else max(0.0, now - self._counters_at)

    def is_up(self, now: float) -> bool:
        age = self.age(now)
        return (
            self.session.snapshot.state == "live"
            and age is not None
            and not is_silent(age, self._interval)
        )

    def samples(self, now: float) -> list[Sample]:
        """All samples of the host, or an exception and none; only valid while it is up."""
        return self.collector.samples(self.session.snapshot, self.age(now) or 0.0)

    def report_failure(self, error: Exception) -> None:
        """Report that its samples could not be made; once per error."""
        sentence = internal_error_text(error)
        if sentence != self._reported_failure:
            self._reported_failure = sentence
            self._report_status(f"{self.name}: {sentence}")

    async def run(self, delay: float = 0.0) -> None:
        """Process its items until cancelled; begins after `delay` seconds."""
        session = self.session
        await asyncio.sleep(delay)
        while True:
            try:
                session.replace_source(self._connect(session.host))
                await session.run()
            except Exception as error:  # the other hosts continue
                session.fail(internal_error_text(error))
            finally:
                await session.close()
            if session.snapshot.state != "failed":
                session.fail("connection closed")
            await asyncio.sleep(self._retry_seconds)

    def _receive(self, item: Item, _: Snapshot) -> None:
        if not isinstance(item, SourceState) and item.counters is not None:
            self._counters_at = monotonic()
        self._report_state()

    def _report_state(self) -> None:
        """Report how the connection is, if that has changed; errors of a live probe are not part of
        it."""
        snapshot = self.session.snapshot
        now = (snapshot.state, "" if snapshot.state == "live" else snapshot.message)
        if now != self._reported and snapshot.state != "connecting":
            self._reported = now
            self._report_status(f"{self.name}: {': '.join(part for part in now if part)}")
