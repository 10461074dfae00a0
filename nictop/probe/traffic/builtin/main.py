"""The built-in traffic generator: TCP or UDP over plain sockets, without any installed program.

Runs in a child process of the probe, which ends it in every case. It makes the connections, then
one process for each stream (`streams`), and reads TCP_INFO of their sockets meanwhile. Each line of
its stdout is one object:

``{"event": "start", "role", "sender", "protocol": "tcp" or "udp", "streams", "length", "time",
"omit", "connections": [[local address, port, remote address, port], …], "snd_mss",
"congestion_control"}`` ``{"event": "interval", "start", "end", "bytes", "streams": [bytes of each],
"omitted", …}`` ``{"event": "end", "seconds", "bytes", "streams", "cpu_user", "cpu_system", …}``
``{"event": "error", "text"}``, and exit status 1.

A server reports whom it has refused, before all others, or of crr at the end:
``{"event": "refused", "senders": [{"reason", "address", "count"}, …]}`` (see `traffic.greetings`).

Seconds count from the start of the traffic; omitted ones come first, and after them the count
starts at 0 again, as with iperf3. The bytes of a sender are those acknowledged (TCP) or sent (UDP),
of a receiver those received. A TCP sender adds "retransmits" of the interval, or of the whole run
including the omitted part; UDP adds "packets", and a UDP receiver "lost", "out_of_order" and
"jitter" (seconds, of the first stream). Bytes within the last millisecond after an interval are in
the total only.

Requests and responses (``--test``) are run by `transaction_run`, with reports of their own.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import time
from functools import partial

from nictop.probe.traffic.builtin import streams
from nictop.probe.traffic.builtin.connections import DataSockets, connect
from nictop.probe.traffic.builtin.handshake import ANSWER_GO, GREETING
from nictop.probe.traffic.builtin.options import BuiltinOptions, parse_options
from nictop.probe.traffic.builtin.reports import (
    MIN_INTERVAL_SECONDS,
    ReportSchedule,
    report,
    report_refused,
)
from nictop.probe.traffic.builtin.server import accept_client
from nictop.probe.traffic.builtin.workers import Workers
from nictop.probe.traffic.greetings import ExpectedPeer
from nictop.probe.traffic.sock_diag import parse_tcp_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

TCP_INFO_BYTES = 256
"""Bytes of struct tcp_info that are requested; the kernel may return fewer."""
END_GRACE_SECONDS = 3.0
"""Seconds after the planned end until the run is aborted."""


def run(role: str, address: str, port: int, arguments: Sequence[str], peer: ExpectedPeer) -> int:
    """One run as server or client, from the connections to the last report; returns the exit
    status. Both ends have the same cookie; a server accepts only its client."""
    try:
        options = parse_options(arguments)
        if options.affinity is not None:
            os.sched_setaffinity(0, {options.affinity})
        connections = _open_connections(role, address, port, options, peer)
        if options.test:
            from nictop.probe.traffic.builtin.transaction_run import TransactionRun

            return TransactionRun(role, connections, options).run()
        builtin_run = BuiltinRun(role, connections, options)
    except (OSError, ValueError) as error:
        report("error", text=getattr(error, "strerror", None) or str(error))
        return 1
    return builtin_run.run()


def _open_connections(
    role: str, address: str, port: int, options: BuiltinOptions, peer: ExpectedPeer
) -> DataSockets:
    """Raises OSError."""
    if role == "client":
        return connect(address, port, options, peer.cookie)

    def end(number: int, _: object) -> None:
        """Stopped while it waits for its client."""
        report_refused(peer.refused)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    try:
        return accept_client(address, port, options, peer)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        report_refused(peer.refused)


class BuiltinRun:
    """The streams of one run, and their reports."""

    def __init__(self, role: str, connections: DataSockets, options: BuiltinOptions) -> None:
        self._role, self._connections, self._options = role, connections, options
        self._sends = options.reverse == (role == "server")
        self._slots = [
            memoryview(mmap.mmap(-1, streams.SLOT_FIELDS * 8)).cast("Q")
            for _ in connections.sockets
        ]
        self._error = ""
        self._handshake_bytes = (
            GREETING.size + self._sends if self._sends == (role == "client") else len(ANSWER_GO)
        )
        """Bytes that the kernel has counted before the first byte of traffic, with the client's SYN
        once acknowledged. Calculated, not read: data may have been received already."""

    def run(self) -> int:
        """Start, report, end; returns the exit status."""
        first_counts = [self._read_counts(stream) for stream in range(len(self._slots))]
        workers = Workers()
        start = time.monotonic()
        self._report_start(first_counts)
        try:
            for connection, slot in zip(self._connections.sockets, self._slots):
                task = streams.StreamTask(
                    connection,
                    sends=self._sends,
                    udp=self._options.udp,
                    length=self._options.length,
                    seconds=self._options.seconds,
                    bitrate=self._options.bitrate,
                )
                workers.start(partial(streams.run_stream, task, slot, start))
            total_fields = self._watch(workers, start, first_counts)
        finally:
            workers.kill()
        if self._error or workers.failed:
            report("error", text=workers.error or self._error or "a stream ended early")
            return 1
        report("end", **total_fields)
        return 0

    def _watch(
        self, workers: Workers, start: float, first_counts: list[dict[str, int]]
    ) -> dict[str, Any]:
        """Report until all streams have ended; returns the fields of the last report."""
        poll = workers.all_started()
        schedule = ReportSchedule(self._options.interval, self._options.omit)
        before, last, counted = first_counts, start, [0] * len(first_counts)
        limit = start + self._options.seconds + END_GRACE_SECONDS
        ended = False
        while not ended:
            now = time.monotonic()
            if now >= limit:
                self._error = "no more data from the other end"
                return {}
            ended = bool(
                poll.poll(max(0.0, min(schedule.next(), limit - start) - (now - start)) * 1000)
            )
            now = self._finish_time(start) if ended else time.monotonic()
            if not ended and now - start < schedule.next():
                continue
            counts = [self._read_counts(stream) for stream in range(len(first_counts))]
            moved = [max(0, new["bytes"] - old["bytes"]) for new, old in zip(counts, before)]
            counted = [0 if schedule.omitting else sum(pair) for pair in zip(counted, moved)]
            if now - last > MIN_INTERVAL_SECONDS:  # else the run ended right after an interval
                omitted, begin, end = schedule.advance(now - start)
                report(
                    "interval",
                    start=begin,
                    end=end,
                    omitted=omitted,
                    **self._fields(moved, counts, before),
                )
            before, last = counts, now
        cpu_times = workers.reap()
        return {
            **self._fields(counted, before, first_counts),
            "seconds": round(max(0.0, now - start - self._options.omit), 6),
            "sender": self._sends,
            **cpu_times,
        }

    def _read_counts(self, stream: int) -> dict[str, int]:
        """Counts of one stream: bytes, and retransmits or UDP counts."""
        slot = self._slots[stream]
        if self._options.udp:
            return {
                "bytes": slot[streams.BYTES],
                "packets": slot[streams.PACKETS],
                "lost": slot[streams.LOST],
                "out_of_order": slot[streams.OUT_OF_ORDER],
                "jitter": slot[streams.JITTER],
            }
        connection = self._connections.sockets[stream]
        counts = parse_tcp_info(
            connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        )
        moved = None
        if counts is not None:
            moved = counts["bytes_acked"] if self._sends else counts["bytes_received"]
        if counts is None or moved is None:  # before Linux 4.1
            return {"bytes": slot[streams.BYTES], "retransmits": 0, "snd_mss": 0}
        # at most what the stream has sent or read: the kernel counts the FIN as a byte
        count = min(max(0, moved - self._handshake_bytes), slot[streams.BYTES])
        return {"bytes": count, "retransmits": counts["retransmits"], "snd_mss": counts["snd_mss"]}

    def _fields(
        self, moved: list[int], now: list[dict[str, int]], before: list[dict[str, int]]
    ) -> dict[str, Any]:
        """Bytes, and the differences of the other counts, of an interval or of the whole run."""
        fields: dict[str, Any] = {"bytes": sum(moved), "streams": moved}
        names = []
        if self._options.udp:
            names = ["packets"] if self._sends else ["packets", "lost", "out_of_order"]
        elif self._sends:
            names = ["retransmits"]
        if self._options.udp and not self._sends:
            fields["jitter"] = now[0]["jitter"] / 1e9
        for name in names:
            fields[name] = sum(new[name] - old[name] for new, old in zip(now, before))
        if not self._options.udp:
            fields["snd_mss"] = min(counts["snd_mss"] for counts in now)
        return fields

    def _finish_time(self, start: float) -> float:
        """When the last byte was sent or received (CLOCK_MONOTONIC)."""
        latest = max(slot[streams.FINISHED] for slot in self._slots) / 1e9
        return latest if latest > start else time.monotonic()

    def _report_start(self, first_counts: list[dict[str, int]]) -> None:
        algorithm = b""
        if not self._options.udp:
            algorithm = self._connections.sockets[0].getsockopt(
                socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16
            )
        report(
            "start",
            role=self._role,
            sender=self._sends,
            protocol="udp" if self._options.udp else "tcp",
            streams=len(first_counts),
            length=self._options.length,
            time=self._options.time,
            omit=self._options.omit,
            connections=[
                [*end.getsockname()[:2], *end.getpeername()[:2]]
                for end in self._connections.sockets
            ],
            snd_mss=min(counts.get("snd_mss", 0) for counts in first_counts),
            congestion_control=algorithm.split(b"\0")[0].decode("ascii", "replace"),
        )
