"""One end of a test of requests and responses: its processes (`transactions`), their counts, and
the reports.

Each line of the client's stdout is one object:

``{"event": "start", "role", "protocol", "test", "streams", "length", "response", "time", "omit",
"connections", "congestion_control"}``
``{"event": "interval", "start", "end", "omitted", "transactions", "lost", "latency": {"sum",
"buckets"}, …}`` ``{"event": "end", "seconds", "transactions", "lost", "latency", "stopped",
"cpu_user", "cpu_system", …}`` ``{"event": "error", "text"}``, and exit status 1.

"sum" is in nanoseconds, "buckets" as by `latency_buckets.packed_counts`; crr adds "connect" of the
same form. Intervals have the transactions that ended in them. "stopped": why the client ended
before its time; "": it did not. The server reports "start" and "end", with the number of
transactions that it served, the first of each process among them.
"""

from __future__ import annotations

import select
import socket
import time
from functools import partial

from nictop.probe.traffic.builtin import paced, transactions
from nictop.probe.traffic.builtin.connections import set_socket_options
from nictop.probe.traffic.builtin.host_limits import HostUsage, shortage_before, shortage_during
from nictop.probe.traffic.builtin.latency_buckets import SUB_BUCKETS, packed_counts
from nictop.probe.traffic.builtin.paced import paced_task
from nictop.probe.traffic.builtin.reports import (
    MIN_INTERVAL_SECONDS,
    ReportSchedule,
    report,
    report_refused,
)
from nictop.probe.traffic.builtin.transactions import ConnectTask, SharedCounts, TransactionTask
from nictop.probe.traffic.builtin.workers import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nictop.probe.traffic.builtin.connections import DataSockets
    from nictop.probe.traffic.builtin.options import BuiltinOptions

FORK_SECONDS = 0.004
"""For each process and its first transaction, until all of them begin together."""
TRANSACTION_GRACE_SECONDS = 4.0
"""Seconds after the planned end until the run is aborted: longer than every timeout of a
transaction."""
EXCHANGES = {
    (True, True): transactions.exchange_datagrams,
    (True, False): transactions.exchange_stream,
    (False, True): transactions.serve_datagrams,
    (False, False): transactions.serve_stream,
}
"""(of the client, over UDP) → work of a process of rr."""
ACCEPT_TIMEOUT_SECONDS = 1.0
USAGE_CHECK_SECONDS = 1.0
"""Between two checks of what a server with many connections uses of its host."""


class BucketCounts:
    """The counts of all processes in the same buckets, read again and again from when they were
    0."""

    def __init__(self, parts: list[memoryview]) -> None:
        self._parts = parts
        self._last = [bytes(part.nbytes) for part in parts]

    def added(self) -> list[int]:
        """Transactions by bucket since the last call. Only what has changed is read one by one."""
        added = [0] * len(self._parts[0])
        for number, part in enumerate(self._parts):
            before, now = self._last[number], bytes(part)
            self._last[number] = now
            for first in range(0, len(added), SUB_BUCKETS):
                chunk = slice(8 * first, 8 * (first + SUB_BUCKETS))
                if now[chunk] != before[chunk]:
                    pairs = zip(
                        memoryview(now[chunk]).cast("Q"), memoryview(before[chunk]).cast("Q")
                    )
                    for bucket, (new, old) in enumerate(pairs, first):
                        added[bucket] += new - old
        return added


class TransactionMeter:
    """The figures of all processes: of an interval, and of all intervals that are not omitted."""

    def __init__(self, counts: list[SharedCounts], *, connects: bool) -> None:
        self._counts = counts
        self._buckets = {"latency": BucketCounts([one.latency for one in counts])}
        self._sums = {"latency": transactions.LATENCY_SUM}
        if connects:
            self._buckets["connect"] = BucketCounts([one.connect for one in counts])
            self._sums["connect"] = transactions.CONNECT_SUM
        self._last: dict[int, int] = {}
        self._total: dict[str, list[int]] = {}
        self._total_fields: dict[int, int] = {}

    def interval(self, *, counted: bool) -> dict[str, Any]:
        """Figures since the last call."""
        fields = {
            field: sum(one.fields[field] for one in self._counts)
            for field in (transactions.LOST, *self._sums.values())
        }
        moved = {field: value - self._last.get(field, 0) for field, value in fields.items()}
        self._last = fields
        added = {name: buckets.added() for name, buckets in self._buckets.items()}
        if counted:
            for name, values in added.items():
                self._total[name] = [
                    sum(pair) for pair in zip(self._total.get(name, [0] * len(values)), values)
                ]
            for field, value in moved.items():
                self._total_fields[field] = self._total_fields.get(field, 0) + value
        return self._figures(added, moved)

    def total(self) -> dict[str, Any]:
        """Figures of all counted intervals."""
        return self._figures(
            {name: self._total.get(name, []) for name in self._buckets}, self._total_fields
        )

    def _figures(self, counts: dict[str, list[int]], fields: dict[int, int]) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: {"sum": max(0, fields.get(self._sums[name], 0)), "buckets": packed_counts(values)}
            for name, values in counts.items()
        }
        return {
            "transactions": sum(counts["latency"]),
            "lost": fields.get(transactions.LOST, 0),
            **found,
        }


class TransactionRun:
    """One end of a run."""

    def __init__(self, role: str, connections: DataSockets, options: BuiltinOptions) -> None:
        self._is_client, self._connections, self._options = role == "client", connections, options
        self._connects = options.test == "crr"
        self._counts = [SharedCounts() for _ in range(options.streams)]
        self._usage = HostUsage()
        self._error = self._stopped = ""

    def run(self) -> int:
        """Start, report, end; returns the exit status."""
        if self._connects:
            shortage = shortage_before(self._usage, len(self._counts))
            if shortage:
                report("error", text=f"not started: {shortage}")
                return 1
        self._report_start()
        workers = Workers()
        start = time.monotonic() + FORK_SECONDS * len(self._counts)
        try:
            for number, counts in enumerate(self._counts):
                workers.start(self._work(number, counts, start))
            total = self._watch(workers, start) if self._is_client else self._serve(workers, start)
        finally:
            workers.kill()
        if self._error or workers.failed:
            report("error", text=workers.error or self._error or "a process ended early")
            return 1
        report("end", **total)
        return 0

    def _work(self, number: int, counts: SharedCounts, start: float) -> Any:
        """The function of one process."""
        sockets, cookie, options = (
            self._connections.sockets,
            self._connections.cookie,
            self._options,
        )
        sizes = options.length, options.response
        end = start + options.seconds
        if not self._connects:
            task = TransactionTask(sockets[number], sizes, (start, end), cookie)
            if self._is_client and options.rate:
                return partial(paced.exchange, paced_task(task, options, number), counts)
            return partial(EXCHANGES[self._is_client, options.udp], task, counts)
        if self._is_client:
            share = options.files // len(self._counts) + (
                number < options.files % len(self._counts)
            )
            if options.files and not share:
                return lambda: None
            connect = ConnectTask(
                sockets[0], sizes, (start, end), cookie, options=options, files=share
            )
            return partial(transactions.connect_and_exchange, connect, counts)
        listener = self._connections.listener
        assert listener is not None
        set_socket_options(listener, options)
        transactions.set_timeout(listener, ACCEPT_TIMEOUT_SECONDS)
        accept = TransactionTask(listener, sizes, (0.0, end), cookie)
        client = sockets[0].getpeername()[0]
        return partial(transactions.accept_and_serve, accept, client, counts)

    def _watch(self, workers: Workers, start: float) -> dict[str, Any]:
        """The client: report until all processes have ended; returns the fields of the last
        report."""
        poll, meter = workers.all_started(), TransactionMeter(self._counts, connects=self._connects)
        schedule = ReportSchedule(self._options.interval, self._options.omit)
        limit, last = start + self._options.seconds + TRANSACTION_GRACE_SECONDS, start
        ended = False
        while not ended:
            now = time.monotonic()
            if now >= limit:
                self._error = "no answer from the server"
                return {}
            ended = bool(
                poll.poll(max(0.0, min(schedule.next(), limit - start) - (now - start)) * 1000)
            )
            now = self._finish_time(start) if ended else time.monotonic()
            if not ended and now - start < schedule.next():
                continue
            figures = meter.interval(counted=not schedule.omitting)
            if now - last > MIN_INTERVAL_SECONDS:
                omitted, begin, end = schedule.advance(now - start)
                report("interval", start=begin, end=end, omitted=omitted, **figures)
            last = now
            if self._connects and not ended:
                self._stopped = shortage_during(HostUsage(), self._usage)
                ended = bool(self._stopped)
        if self._stopped:
            now = time.monotonic()
            workers.kill()
        else:
            now = self._finish_time(start)
        cpu_times = workers.reap()
        return {
            **meter.total(),
            "seconds": round(max(0.0, self._measured_seconds(now - start)), 6),
            "stopped": self._stopped,
            **cpu_times,
        }

    def _measured_seconds(self, seconds: float) -> float:
        """`seconds`: from the start until the last transaction ended."""
        planned = self._options.seconds - self._options.omit
        if self._options.rate:
            # the last one may be answered before the next one would have been due
            return planned
        measured = seconds - self._options.omit
        if self._options.files or self._stopped:
            return measured
        # the last transactions began in time, and were waited for
        return min(measured, planned)

    def _serve(self, workers: Workers, start: float) -> dict[str, Any]:
        """The server: until its processes have ended, or its client has; returns the fields of the
        last report."""
        poll = workers.all_started()
        control = self._connections.sockets[0]
        if self._connects:
            control.setblocking(False)
            poll.register(control, select.POLLIN)
        limit = start + self._options.seconds + 2 * TRANSACTION_GRACE_SECONDS
        while True:
            now = time.monotonic()
            if now >= limit:
                self._error = "no more data from the other end"
                return {}
            events = poll.poll(max(0.0, min(limit - now, USAGE_CHECK_SECONDS)) * 1000)
            if any(descriptor == workers.pipe for descriptor, _ in events):
                break
            if events and not self._is_open(control):
                workers.kill()
                break
            shortage = shortage_during(HostUsage(), self._usage) if self._connects else ""
            if shortage:
                self._error = f"stopped: {shortage}"
                return {}
        served = sum(one.fields[transactions.DONE] for one in self._counts)
        if self._connects:
            report_refused(transactions.refused_connections(self._counts))
        cpu_times = workers.reap()
        return {
            "transactions": served,
            "seconds": round(max(0.0, time.monotonic() - start), 6),
            **cpu_times,
        }

    def _is_open(self, control: socket.socket) -> bool:
        """Whether the client still has its control connection, on which it sends nothing."""
        try:
            return bool(control.recv(4096))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _finish_time(self, start: float) -> float:
        """When the last transaction ended (CLOCK_MONOTONIC)."""
        latest = max(one.fields[transactions.FINISHED] for one in self._counts) / 1e9
        return latest if latest > start else time.monotonic()

    def _report_start(self) -> None:
        sockets, options, algorithm = self._connections.sockets, self._options, b""
        if not options.udp:
            algorithm = sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        report(
            "start",
            role="client" if self._is_client else "server",
            protocol="udp" if options.udp else "tcp",
            test=options.test,
            streams=len(self._counts),
            length=options.length,
            response=options.response,
            time=options.time,
            omit=options.omit,
            connections=[[*end.getsockname()[:2], *end.getpeername()[:2]] for end in sockets],
            congestion_control=algorithm.split(b"\0")[0].decode("ascii", "replace"),
        )
