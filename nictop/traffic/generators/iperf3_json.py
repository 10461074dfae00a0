"""Lines that iperf3 writes with ``--json-stream`` (3.17 and later) → intervals and totals.

Reads nothing. Each line is ``{"event": "start" | "interval" | "end" | "error" | …, "data": …}``.
Rates are computed from bytes and times, because the first interval after the omitted ones reports a
wrong duration. Streams are summed here; the sums in the output are ignored. Other lines are read as
text (warnings, errors of older versions).
"""

from __future__ import annotations

import json

from nictop.traffic.generators.intervals import (
    MAX_CONGESTION_CHARACTERS,
    MAX_ERROR_CHARACTERS,
    MAX_PEER_CHARACTERS,
    MAX_VERSION_CHARACTERS,
    ErrorMessage,
    GeneratorInfo,
    GeneratorOutput,
    Interval,
    StreamInterval,
    StreamSum,
    Total,
)

MAX_JSON_LINE_CHARACTERS = 4 * 1024 * 1024
"""An "end" event with 128 streams takes 200 kB."""
MAX_NUMBER = 1e18
"""Larger numbers are ignored."""


class JsonOutput:
    """Parser of the lines of one end, in order."""

    def __init__(self, nominal: float) -> None:
        self._sums = {True: StreamSum(nominal), False: StreamSum(nominal)}
        self._ends: dict[int, tuple[bool, float]] = {}

    def feed(self, line: str, time: float = 0.0) -> tuple[GeneratorOutput, ...]:
        """What a line completes; () if it is invalid."""
        if len(line) > MAX_JSON_LINE_CHARACTERS:
            return ()
        if not line.startswith("{"):
            return _error_messages(line)
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return ()
        if not isinstance(event, dict):
            return ()
        name, data = event.get("event"), event.get("data")
        if name == "error" and isinstance(data, str):
            return (ErrorMessage(data[:MAX_ERROR_CHARACTERS]),)
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
        rows = [row for row in map(self._row, _dicts(data.get("streams"))) if row is not None]
        outputs: list[GeneratorOutput] = []
        for sends, stream_sum in self._sums.items():
            for row in rows:
                if row.interval.sends == sends:
                    outputs += stream_sum.add(row)
            outputs += stream_sum.finish()
        return tuple(outputs)

    def _row(self, stream: dict[str, object]) -> StreamInterval | None:
        socket, end, size = (
            integer(stream.get("socket")),
            number(stream.get("end")),
            number(stream.get("bytes")),
        )
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
                retransmits=integer(stream.get("retransmits")) if sends else None,
                congestion_window=integer(stream.get("snd_cwnd")),
                rtt=integer(stream.get("rtt")),
                packets=integer(stream.get("packets")),
                lost=integer(stream.get("lost_packets")),
                jitter=number(stream.get("jitter_ms")),
            ),
        )


def _error_messages(line: str) -> tuple[ErrorMessage, ...]:
    """Of a line that is text."""
    text = line[:MAX_ERROR_CHARACTERS].strip().removeprefix("iperf3: ")
    if not text.startswith(("error", "interrupt", "the client has")):
        return ()
    return (ErrorMessage(text.removeprefix("error - ")),)


def _details(data: dict[str, object]) -> tuple[GeneratorOutput, ...]:
    test = data.get("test_start")
    accepted = data.get("accepted_connection")
    peer = accepted.get("host") if isinstance(accepted, dict) else None
    return (
        GeneratorInfo(
            version=_text(data.get("version"), MAX_VERSION_CHARACTERS),
            mss=integer(data.get("tcp_mss_default")) or integer(data.get("tcp_mss")) or None,
            length=integer(test.get("blksize")) if isinstance(test, dict) else None,
            peer=_text(peer, MAX_PEER_CHARACTERS),
        ),
    )


def _text(value: object, most: int) -> str:
    """At most so many characters; "": not a text."""
    if not isinstance(value, str):
        return ""
    return value[:most]


def _totals(data: dict[str, object]) -> tuple[GeneratorOutput, ...]:
    """``sum_sent`` and ``sum_received`` of this direction; with --bidir also those of the other
    one. With UDP their ``sender`` is fixed, true and false; that of ``sum`` is this end's
    (esnet/iperf, src/iperf_api.c: iperf_print_results)."""
    outputs: list[GeneratorOutput] = []
    for suffix in ("", "_bidir_reverse"):
        direction = data.get(f"sum{suffix}")
        for name, by_sender in ((f"sum_sent{suffix}", True), (f"sum_received{suffix}", False)):
            summary = data.get(name)
            if not isinstance(summary, dict):
                continue
            sends = _sends(direction if isinstance(direction, dict) else summary)
            total = _total(summary, sends, by_sender)
            if total is not None:
                outputs.append(total)
    remote = _remote_cpu(data.get("cpu_utilization_percent"))
    if remote is not None:
        outputs.append(GeneratorInfo(remote_cpu=remote))
    congestion = data.get("sender_tcp_congestion")
    if isinstance(congestion, str):
        outputs.append(GeneratorInfo(congestion=congestion[:MAX_CONGESTION_CHARACTERS]))
    return tuple(outputs)


def _remote_cpu(value: object) -> float | None:
    """Cores, from percent of one core."""
    if not isinstance(value, dict):
        return None
    percent = number(value.get("remote_total"))
    return None if percent is None else percent / 100


def _sends(summary: dict[str, object]) -> bool:
    """This end sends in the direction of a summary."""
    return summary.get("sender") is True


def _total(summary: dict[str, object], sends: bool, by_sender: bool) -> Total | None:
    seconds, size = number(summary.get("seconds")), number(summary.get("bytes"))
    # the server does not know the figure of the other end: it reports 0 bytes for what the client
    # sent
    if not seconds or size is None or (size == 0 and by_sender != sends):
        return None
    packets = integer(summary.get("packets"))
    if size and not packets:
        packets = None  # a UDP server of 3.12 that sends does not tell how many
    return Total(
        sends=sends,
        by_sender=by_sender,
        seconds=seconds,
        bits_per_second=size * 8 / seconds,
        bytes=size,
        retransmits=integer(summary.get("retransmits")) if by_sender else None,
        packets=packets,
        lost=None if by_sender else integer(summary.get("lost_packets")),
        jitter=None if by_sender else number(summary.get("jitter_ms")),
    )


def _dicts(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def number(value: object) -> float | None:
    """A finite number, not negative and at most `MAX_NUMBER`; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # false for infinity and for what is no number
    if not 0 <= value < MAX_NUMBER:
        return None
    return float(value)


def integer(value: object) -> int | None:
    """The same, rounded down."""
    known = number(value)
    if known is None:
        return None
    return int(known)
