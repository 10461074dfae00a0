"""The built-in generator of traffic: TCP or UDP over plain sockets, without anything to install.

Runs in a child process of the probe, which ends it whatever happens. It makes the connections, then one process for
each stream (`built_in_streams`), and reads TCP_INFO of their sockets meanwhile. Each line of its stdout is one object:

``{"event": "start", "role", "sender", "protocol": "tcp" or "udp", "streams", "length", "time", "omit",
"connections": [[local address, port, remote address, port], …], "snd_mss", "congestion_control"}``
``{"event": "interval", "start", "end", "bytes", "streams": [bytes of each], "omitted", …}``
``{"event": "end", "seconds", "bytes", "streams", "cpu_user", "cpu_system", …}``
``{"event": "error", "text"}``, and exit status 1.

Seconds count from the start of the traffic; those omitted come first and count anew after it, as iperf3 does it. Bytes
of a sender are those that were acknowledged (TCP) or sent (UDP), of a receiver those that came. A TCP sender adds
"retransmits" of the interval, or of the whole run with the omitted part, to both kinds; UDP adds "packets", and a
receiver "lost", "out_of_order" and "jitter" (seconds, of the first stream). What comes within a millisecond after an
interval is in the total only.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import socket
import time

from nictop.probe.traffic.builtin import streams
from nictop.probe.traffic.builtin.connections import Connections, connected
from nictop.probe.traffic.builtin.handshake import GO, GREETING
from nictop.probe.traffic.builtin.options import BuiltinOptions, parse_options
from nictop.probe.traffic.builtin.server import served
from nictop.probe.traffic.sock_diag import parse_information

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

INFORMATION = 256
"""Bytes of struct tcp_info that are asked for; this kernel may have fewer."""
GRACE = 3.0
"""Seconds after the planned end until it is enforced."""
SHORTEST_INTERVAL = 0.001


def run(role: str, address: str, port: int, words: Sequence[str]) -> int:
    """One run, as server or client, from connections to the last report; returns the exit status."""
    try:
        options = parse_options(words)
        if options.affinity is not None:
            os.sched_setaffinity(0, {options.affinity})
        ends = served(address, port, options) if role == "server" else connected(address, port, options)
        traffic = BuiltinRun(role, ends, options)
    except (OSError, ValueError) as error:
        said = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        _say("error", text=said)
        return 1
    return traffic.run()


class BuiltinRun:
    """The streams of one run, and what is reported of them."""

    def __init__(self, role: str, ends: Connections, options: BuiltinOptions) -> None:
        self._role, self._ends, self._options = role, ends, options
        self._sends = ends.reverse == (role == "server")
        self._slots = [memoryview(mmap.mmap(-1, streams.SLOT * 8)).cast("Q") for _ in ends.sockets]
        self._pids: dict[int, int] = {}
        self._failure = ""
        self._greeted = GREETING.size + self._sends if self._sends == (role == "client") else len(GO)
        """What the kernel has counted before the first byte that matters, the client's SYN with it when it has been
        acknowledged. Not looked up: the data may have come already."""

    def run(self) -> int:
        """Start, report, end; returns the exit status."""
        first = [self._figures(number) for number in range(len(self._slots))]
        readable, writable = os.pipe()  # at its end when no stream runs any more
        complaints, complaint = os.pipe()
        os.dup2(complaint, 2)
        os.close(complaint)
        start = time.monotonic()
        self._say_start(first)
        try:
            for number, connection in enumerate(self._ends.sockets):
                task = streams.StreamTask(
                    connection,
                    sends=self._sends,
                    udp=self._options.udp,
                    length=self._ends.length,
                    seconds=self._ends.seconds,
                    bitrate=self._ends.bitrate,
                )
                self._pids[streams.start_stream(task, self._slots[number], start)] = number
            os.close(writable)
            used = self._watch(readable, start, first)
        finally:
            self._kill()
        if self._failure:
            os.set_blocking(complaints, False)
            _say("error", text=_last_words(complaints) or self._failure)
            return 1
        _say("end", **used)
        return 0

    def _watch(self, readable: int, start: float, first: list[dict[str, int]]) -> dict[str, Any]:
        """Report until all streams have ended; returns the fields of the last report."""
        poll = select.poll()
        poll.register(readable, 0)
        report = ReportSchedule(self._options.interval, self._ends.omit)
        before, last, counted = first, start, [0] * len(first)
        limit = start + self._ends.seconds + GRACE
        ended = False
        while not ended:
            now = time.monotonic()
            if now >= limit:
                self._failure = "the other end has fallen silent"
                return {}
            ended = bool(poll.poll(max(0.0, min(report.next(), limit - start) - (now - start)) * 1000))
            now = self._finished(start) if ended else time.monotonic()
            if not ended and now - start < report.next():
                continue
            figures = [self._figures(number) for number in range(len(first))]
            moved = [max(0, new["bytes"] - old["bytes"]) for new, old in zip(figures, before)]
            counted = [0 if report.omitting else sum(pair) for pair in zip(counted, moved)]
            if now - last > SHORTEST_INTERVAL:  # else the end has come right after an interval
                omitted, begin, end = report.advance(now - start)
                _say("interval", start=begin, end=end, omitted=omitted, **self._fields(moved, figures, before))
            before, last = figures, now
        used = self._reap()
        total = {
            **self._fields(counted, before, first),
            "seconds": round(max(0.0, now - start - self._ends.omit), 6),
        }
        return {**total, "sender": self._sends, **used}

    def _figures(self, number: int) -> dict[str, int]:
        """Counts of one stream: bytes, retransmits and what else the kernel says."""
        slot = self._slots[number]
        if self._options.udp:
            return {
                "bytes": slot[streams.BYTES],
                "packets": slot[streams.PACKETS],
                "lost": slot[streams.LOST],
                "out_of_order": slot[streams.LATE],
                "jitter": slot[streams.JITTER],
            }
        connection = self._ends.sockets[number]
        figures = parse_information(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFORMATION))
        moved = figures["bytes_acked" if self._sends else "bytes_received"] if figures is not None else None
        if figures is None or moved is None:  # before Linux 4.1
            return {"bytes": slot[streams.BYTES], "retransmits": 0, "snd_mss": 0}
        # not more than the stream has sent or read: the kernel counts the end of a connection as a byte
        count = min(max(0, moved - self._greeted), slot[streams.BYTES])
        return {"bytes": count, "retransmits": figures["retransmits"], "snd_mss": figures["snd_mss"]}

    def _fields(self, moved: list[int], now: list[dict[str, int]], before: list[dict[str, int]]) -> dict[str, Any]:
        """Of an interval or the whole run: bytes, and the difference of the other counts."""
        fields: dict[str, Any] = {"bytes": sum(moved), "streams": moved}
        names = ["packets"] if self._options.udp else ["retransmits"] if self._sends else []
        if self._options.udp and not self._sends:
            names += ["lost", "out_of_order"]
            fields["jitter"] = now[0]["jitter"] / 1e9
        for name in names:
            fields[name] = sum(new[name] - old[name] for new, old in zip(now, before))
        if not self._options.udp:
            fields["snd_mss"] = min(figures["snd_mss"] for figures in now)
        return fields

    def _finished(self, start: float) -> float:
        """When the last byte was sent or came."""
        latest = max(slot[streams.FINISHED] for slot in self._slots) / 1e9
        return latest if latest > start else time.monotonic()

    def _say_start(self, first: list[dict[str, int]]) -> None:
        algorithm = b""
        if not self._options.udp:
            algorithm = self._ends.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        _say(
            "start",
            role=self._role,
            sender=self._sends,
            protocol="udp" if self._options.udp else "tcp",
            streams=len(first),
            length=self._ends.length,
            time=round(self._ends.seconds - self._ends.omit, 6),
            omit=self._ends.omit,
            connections=[[*end.getsockname()[:2], *end.getpeername()[:2]] for end in self._ends.sockets],
            snd_mss=min(figures.get("snd_mss", 0) for figures in first),
            congestion_control=algorithm.split(b"\0")[0].decode("ascii", "replace"),
        )

    def _reap(self) -> dict[str, float]:
        """Wait for the streams, which have ended; CPU seconds of them all."""
        user = system = 0.0
        for pid in list(self._pids):
            _, status, usage = os.wait4(pid, 0)
            del self._pids[pid]
            user, system = user + usage.ru_utime, system + usage.ru_stime
            if status:
                self._failure = "a stream has ended early"
        return {"cpu_user": round(user, 6), "cpu_system": round(system, 6)}

    def _kill(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            os.waitpid(pid, 0)
        self._pids.clear()


class ReportSchedule:
    """Ends of the intervals in seconds from the start: `interval` apart, the first ones until `omit` omitted."""

    def __init__(self, interval: float, omit: float) -> None:
        self._interval, self._omit = interval, omit
        self._base, self._count, self._last = 0.0, 1, 0.0
        self.omitting = omit > 0

    def next(self) -> float:
        """When the next interval ends."""
        end = self._base + self._count * self._interval
        return min(end, self._omit) if self.omitting else end

    def advance(self, elapsed: float) -> tuple[bool, float, float]:
        """An interval ends at `elapsed`: (omitted, start, end), the latter two from the start of its part."""
        omitted, start = self.omitting, self._last - self._base
        end = elapsed - self._base
        self._last = elapsed
        if omitted and elapsed >= self._omit:
            self.omitting, self._base, self._count = False, elapsed, 1
        else:
            self._count = int(end / self._interval + 1e-6) + 1
        return omitted, round(start, 6), round(end, 6)


def _last_words(descriptor: int) -> str:
    try:
        said = os.read(descriptor, 4096).decode("utf-8", "replace").strip().splitlines()
    except BlockingIOError:
        return ""
    return said[-1] if said else ""


def _say(event: str, **fields: object) -> None:
    line = json.dumps({"event": event, **fields}, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"
    while line:
        line = line[os.write(1, line) :]
