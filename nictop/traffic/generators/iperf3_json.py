"""The lines that iperf3 writes with ``--json-stream`` (3.17 and later) → intervals and totals.

Reads nothing. Each line is ``{"event": "start" | "interval" | "end" | "error" | …, "data": …}``. Rates are made of
bytes and times here, because the first interval after the omitted ones names a wrong duration; the streams are summed,
and the sums that it names are left out. Text between the lines is read as text (warnings, errors of older habits).
"""

from __future__ import annotations

import json
import math

from nictop.traffic.generators.intervals import (
    Detail,
    Gathering,
    GeneratorOutput,
    Interval,
    Problem,
    StreamInterval,
    Total,
)

LONGEST_LINE = 4 * 1024 * 1024
"""128 streams in an "end" take 200 kB."""


class JsonOutput:
    """One end's lines in order."""

    def __init__(self, nominal: float) -> None:
        self._nominal = nominal
        self._gathering = {True: Gathering(nominal), False: Gathering(nominal)}
        self._ends: dict[int, tuple[bool, float]] = {}

    def feed(self, line: str) -> tuple[GeneratorOutput, ...]:
        """What a line completes; () for one that says nothing."""
        if len(line) > LONGEST_LINE:
            return ()
        if not line.startswith("{"):
            text = line[:500].strip().removeprefix("iperf3: ")
            known = ("error", "interrupt", "the client has")
            return (Problem(text.removeprefix("error - ")),) if text.startswith(known) else ()
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return ()
        if not isinstance(event, dict):
            return ()
        name, data = event.get("event"), event.get("data")
        if name == "error" and isinstance(data, str):
            return (Problem(data[:500]),)
        if not isinstance(data, dict):
            return ()
        if name == "interval":
            return self._interval(data)
        if name == "start":
            return _details(data)
        return _totals(data) if name == "end" else ()

    def finish(self) -> tuple[GeneratorOutput, ...]:
        return ()

    def _interval(self, data: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        rows = [row for row in map(self._row, _objects(data.get("streams"))) if row is not None]
        said: list[GeneratorOutput] = []
        for gathering in self._gathering.values():
            for row in rows:
                if self._gathering[row.interval.sends] is gathering:
                    said += gathering.take(row)
            said += gathering.finish()
        return tuple(said)

    def _row(self, stream: dict[str, object]) -> StreamInterval | None:
        socket, end, size = whole(stream.get("socket")), number(stream.get("end")), number(stream.get("bytes"))
        start = number(stream.get("start"))
        if socket is None or start is None or end is None or size is None:
            return None
        omitted, sends = stream.get("omitted") is True, stream.get("sender") is True
        before = self._ends.get(socket)
        if before is not None and before[0] == omitted:
            start = before[1]
        elif omitted != (before is not None and before[0]):
            start = 0.0
        self._ends[socket] = (omitted, end)
        if not end > start:
            return None
        return StreamInterval(
            socket,
            Interval(
                start=start,
                end=end,
                bits_per_second=size * 8 / (end - start),
                sends=sends,
                omitted=omitted,
                retransmits=whole(stream.get("retransmits")) if sends else None,
                congestion_window=whole(stream.get("snd_cwnd")),
                rtt=whole(stream.get("rtt")),
                packets=whole(stream.get("packets")),
                lost=whole(stream.get("lost_packets")),
                jitter=number(stream.get("jitter_ms")),
            ),
        )


def _details(data: dict[str, object]) -> tuple[GeneratorOutput, ...]:
    test = data.get("test_start")
    version = data.get("version")
    return (
        Detail(
            version=version[:100] if isinstance(version, str) else "",
            mss=whole(data.get("tcp_mss_default")) or whole(data.get("tcp_mss")) or None,
            length=whole(test.get("blksize")) if isinstance(test, dict) else None,
        ),
    )


def _totals(data: dict[str, object]) -> tuple[GeneratorOutput, ...]:
    """``sum_sent`` and ``sum_received`` of this direction; with --bidir also of the other one."""
    said: list[GeneratorOutput] = []
    for suffix in ("", "_bidir_reverse"):
        for name, by_sender in ((f"sum_sent{suffix}", True), (f"sum_received{suffix}", False)):
            found = data.get(name)
            total = _total(found, by_sender) if isinstance(found, dict) else None
            if total is not None:
                said.append(total)
    congestion = data.get("sender_tcp_congestion")
    if isinstance(congestion, str):
        said.append(Detail(congestion=congestion[:32]))
    return tuple(said)


def _total(found: dict[str, object], by_sender: bool) -> Total | None:
    seconds, size = number(found.get("seconds")), number(found.get("bytes"))
    sends = found.get("sender") is True
    # the server has no figure of the other end: it says 0 for what the client sent
    if not seconds or size is None or (size == 0 and by_sender != sends):
        return None
    return Total(
        sends=sends,
        by_sender=by_sender,
        seconds=seconds,
        bits_per_second=size * 8 / seconds,
        bytes=size,
        retransmits=whole(found.get("retransmits")) if by_sender else None,
        packets=whole(found.get("packets")),
        lost=whole(found.get("lost_packets")),
        jitter=number(found.get("jitter_ms")),
    )


def _objects(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number(value: object) -> float | None:
    """A finite number of a size that can be reckoned with, not below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: object) -> int | None:
    """The same, without its fraction."""
    known = number(value)
    return None if known is None else int(known)
