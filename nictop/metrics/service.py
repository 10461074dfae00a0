"""Observes hosts, evaluates the rules periodically, and responds to scrapes with the newest data.

Reads the sources of the hosts, and the cost of this process (/proc/self, through
prometheus-client).
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence

from prometheus_client import ProcessCollector

from nictop import __version__
from nictop.hosts.observe import diagnose_in_slices
from nictop.hosts.specification import Host
from nictop.metrics.catalogue import METRIC_INDEXES
from nictop.metrics.collector import finding_samples
from nictop.metrics.exposition import (
    content_type,
    exposition_text,
    gzip_body,
    wants_gzip,
    wants_openmetrics,
)
from nictop.metrics.host_names import HostNames
from nictop.metrics.scraped_host import Connect, ReportStatus, ScrapedHost
from nictop.metrics.series import Sample, sample
from nictop.metrics.server import ListenAddress, MetricsServer, Response
from nictop.metrics.web_config import WebConfig
from nictop.rules import Diagnosis

DIAGNOSIS_INTERVAL_SECONDS = 5.0
"""Pause between two diagnoses."""

DIAGNOSIS_POLL_SECONDS = 0.5
"""Pause if there is no host to diagnose."""

MIN_DIAGNOSIS_PAUSE_RATIO = 50.0
"""Minimum pause / time of a diagnosis: with hundreds of hosts, too, diagnoses take at most two per
cent of a CPU."""

HOST_START_SPACING_SECONDS = 0.02
"""Seconds between the starts of two hosts: a connection takes this process about as long for
cryptography."""

RESPONSE_CACHE_SECONDS = 0.1
"""Seconds for which a response is reused: counters do not change more often, and many requests cost
little."""


class MetricsService:
    """The hosts, the newest diagnosis of all of them, and responses to scrapes."""

    def __init__(
        self, hosts: Sequence[Host], connect: Connect, interval: float, report_status: ReportStatus
    ) -> None:
        self.hosts = tuple(ScrapedHost(host, connect, interval, report_status) for host in hosts)
        self._diagnosis: Diagnosis | None = None
        self._diagnosed: tuple[str, ...] = ()
        """Names of the hosts in the diagnosis."""
        self._diagnoses, self._diagnosis_seconds = 0, 0.0
        self._scrapes, self._scrape_seconds = 0, 0.0
        self._process = ProcessCollector(namespace="nictop", registry=None)
        self._responses: dict[tuple[bool, bool], tuple[float, bytes]] = {}
        """(OpenMetrics, gzip) → CLOCK_MONOTONIC when the response was made, and its body."""

    async def run(self) -> None:
        """Observe and diagnose the hosts until cancelled."""
        tasks = [
            asyncio.ensure_future(host.run(number * HOST_START_SPACING_SECONDS))
            for number, host in enumerate(self.hosts)
        ]
        tasks.append(asyncio.ensure_future(self._diagnose_periodically()))
        try:
            await asyncio.gather(*tasks)
        finally:
            await asyncio.gather(
                *(host.session.close() for host in self.hosts), return_exceptions=True
            )
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------------------ diagnosis

    async def _diagnose_periodically(self) -> None:
        while True:
            took = await self._diagnose()
            pause = DIAGNOSIS_INTERVAL_SECONDS if self._diagnosed else DIAGNOSIS_POLL_SECONDS
            await asyncio.sleep(max(pause, MIN_DIAGNOSIS_PAUSE_RATIO * took))

    async def _diagnose(self) -> float:
        """Evaluate all rules for the hosts that are up, while scrapes are served; return the
        seconds that it took."""
        now = time.monotonic()
        up = [host for host in self.hosts if host.is_up(now)]
        known = [host for host in up if host.session.snapshot.inventory is not None]
        if not known:
            self._diagnosis, self._diagnosed = None, ()
            return 0.0
        self._diagnosis, seconds = await diagnose_in_slices(host.session.facts for host in known)
        self._diagnosed = tuple(host.name for host in known)
        self._diagnoses += 1
        self._diagnosis_seconds += seconds
        return time.monotonic() - now

    # -------------------------------------------------------------------------------------- answers

    def answer(self, accept: str, accept_encoding: str) -> Response:
        """The current samples, in the format and encoding of the request headers."""
        kind = openmetrics, gzip = wants_openmetrics(accept), wants_gzip(accept_encoding)
        made, body = self._responses.get(kind, (0.0, b""))
        now = time.monotonic()
        if not body or now - made > RESPONSE_CACHE_SECONDS:
            start = time.thread_time()
            body = exposition_text(self._samples(now), openmetrics=openmetrics)
            if gzip:
                body = gzip_body(body)
            self._responses[kind] = (now, body)
            self._scrapes += 1
            self._scrape_seconds += time.thread_time() - start
        return Response(200, content_type(openmetrics), body, encoding="gzip" if gzip else "")

    def _samples(self, now: float) -> Iterator[Sample]:
        for host in self.hosts:
            up = host.is_up(now)
            if up:
                try:
                    yield from host.samples(now)
                except Exception as error:  # the other hosts continue
                    up = False
                    host.report_failure(error)
            yield sample("nictop_host_up", (host.name,), int(up))
            if up and self._diagnosis is not None and host.name in self._diagnosed:
                yield from finding_samples(host.name, self._diagnosis)
        yield sample("nictop_hosts", (), len(self.hosts))
        yield sample("nictop_build", (__version__,), 1)
        yield sample("nictop_scrapes", (), self._scrapes)
        yield sample("nictop_scrape_cpu_seconds", (), self._scrape_seconds)
        yield sample("nictop_diagnoses", (), self._diagnoses)
        yield sample("nictop_diagnosis_cpu_seconds", (), self._diagnosis_seconds)
        for family in self._process.collect():
            if family.name in METRIC_INDEXES and family.samples:
                yield sample(family.name, (), family.samples[0].value)


async def serve(
    hosts: Sequence[Host],
    connect: Connect,
    listening: ListenAddress,
    *,
    interval: float,
    report_status: ReportStatus,
    names: HostNames | None = None,
    web: WebConfig | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then end everything that was started. Raises NictopError if
    the address cannot be used."""
    service = MetricsService(hosts, connect, interval, report_status)
    server = MetricsServer(service.answer, names=names, web=web)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    address = await server.listen(listening)
    scheme = "https" if web is not None and web.context is not None else "http"
    report_status(
        f"{scheme}://{address}/metrics ({len(hosts)} host{'s' if len(hosts) != 1 else ''})"
    )
    running = asyncio.ensure_future(service.run())  # ends only by cancellation or an error
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        stopped.cancel()
        await server.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
