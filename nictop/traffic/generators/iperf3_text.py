"""Text that iperf3 writes with ``--forceflush -f k`` (3.5 and later) → intervals and totals.

Reads nothing. [SUM] lines are one interval late and ignored: streams are summed here. The text has no locale. The first
interval after the omitted ones may report a wrong start and rate, which are corrected.

    [  5]   0.50-1.00   sec  22.9 MBytes  384714 Kbits/sec    0    204 KBytes       (omitted)
    [  9][RX-C]   0.00-0.50   sec  11.2 MBytes  187753 Kbits/sec
    [  5]   0.00-2.00   sec  11.9 MBytes  49976 Kbits/sec  0.001 ms  0/8629 (0%)  receiver
"""

from __future__ import annotations

import re

from nictop.model.rates.links import sum_known
from nictop.traffic.generators.intervals import (
    ErrorMessage,
    GeneratorInfo,
    GeneratorOutput,
    Interval,
    StreamInterval,
    StreamSum,
    Total,
)

DECIMAL_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BINARY_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MAX_TEXT_LINE_CHARACTERS = 500

_CONNECTED = re.compile(r"\[ *(\d{1,9})\] local .{1,64} port \d{1,5} connected to ", re.ASCII)
_ACCEPTED = re.compile(r"Accepted connection from ([^\s,]{2,64}), port \d{1,5}", re.ASCII)
_REVERSE = re.compile(r"Reverse mode, remote host .{1,64} is sending", re.ASCII)
_ROW = re.compile(
    r"\[ *(?P<stream>\d{1,9})\](?:\[(?P<role>[TR])X-[CS]\])? +(?P<start>\d{1,6}\.\d\d)-(?P<end>\d{1,6}\.\d\d) +sec +"
    r"(?P<size>\d{1,9}(?:\.\d{1,3})?) (?P<size_unit>[KMGT]?)Bytes +"
    r"(?P<rate>\d{1,15}(?:\.\d{1,3})?) (?P<unit>[KMGT]?)bits/sec(?P<rest>.{0,120})",
    re.ASCII,
)
_TCP = re.compile(r" +(\d{1,12}) +(\d{1,6}(?:\.\d{1,3})?) ([KMGT]?)Bytes\b", re.ASCII)
_RETRANSMITS = re.compile(r" +(\d{1,12}) +sender\b", re.ASCII)
_DATAGRAMS = re.compile(r" +(\d{1,15}) *(?:\(omitted\) *)?$", re.ASCII)
_JITTER = re.compile(r" +(\d{1,9}\.\d{1,9}) ms +(-?\d{1,15})/(\d{1,15}) \(", re.ASCII)
_ERROR = re.compile(r"(?:iperf3: )?(?:error|interrupt|the client has)\b", re.ASCII)


class TextOutput:
    """Parser of the lines of one end, in order."""

    def __init__(self, nominal: float) -> None:
        self._sums = {True: StreamSum(nominal), False: StreamSum(nominal)}
        self._connected: set[int] = set()
        self._totals: dict[tuple[bool, bool], list[Total]] = {}
        self._receives = False
        self._omitted: set[int] = set()
        """Sockets of streams whose last interval was omitted."""

    def feed(self, line: str) -> tuple[GeneratorOutput, ...]:
        """What a line completes; () if it is invalid."""
        line = line[:MAX_TEXT_LINE_CHARACTERS].rstrip()
        match = _ROW.match(line)
        if match is not None:
            return self._row(match)
        accepted = _ACCEPTED.match(line)
        if accepted is not None:
            return (GeneratorInfo(peer=accepted[1]),)
        connected = _CONNECTED.match(line)
        if connected is not None:
            self._connected.add(int(connected[1]))
        elif _REVERSE.match(line):
            self._receives = True
        elif _ERROR.match(line.removeprefix("iperf3: ")):
            return (ErrorMessage(line.removeprefix("iperf3: ").removeprefix("error - ")),)
        return ()

    def finish(self) -> tuple[GeneratorOutput, ...]:
        """Intervals that not all streams have reported, and the totals."""
        outputs: list[GeneratorOutput] = [*self._sums[True].finish(), *self._sums[False].finish()]
        outputs += map(_summed_totals, self._totals.values())
        self._totals = {}
        return tuple(outputs)

    def _row(self, match: re.Match[str]) -> tuple[GeneratorOutput, ...]:
        rest, role = match["rest"], match["role"]
        rate = float(match["rate"]) * DECIMAL_FACTORS[match["unit"]]
        start, end = float(match["start"]), float(match["end"])
        sends = role == "T" if role else _is_sender_line(rest)
        if rest.rstrip().endswith(("sender", "receiver")):
            by_sender = rest.rstrip().endswith("sender")
            retransmits, jitter = _RETRANSMITS.match(rest), _JITTER.match(rest)
            # without roles (before --bidir), the line of a TCP sender reports retransmits even where this end received
            sends = sends if role else not self._receives
            total = Total(
                sends,
                by_sender,
                end - start,
                rate,
                retransmits=int(retransmits[1]) if retransmits else None,
                packets=int(jitter[3]) if jitter else None,
                lost=int(jitter[2]) if jitter else None,
                jitter=float(jitter[1]) if jitter else None,
            )
            self._totals.setdefault((sends, by_sender), []).append(total)
            return ()
        if not role and not sends:
            self._receives = True
        stream = int(match["stream"])
        if "(omitted)" in rest:
            self._omitted.add(stream)
        elif stream in self._omitted:
            self._omitted.discard(stream)
            if start > 0 and end > 0:
                # the clock was reset within this interval: it reports a start before that, and a rate over both times
                start, rate = 0.0, float(match["size"]) * BINARY_FACTORS[match["size_unit"]] * 8 / end
        return self._add(stream, _interval(start, end, rate, sends, rest), bool(role))

    def _add(self, stream: int, interval: Interval, has_role: bool) -> tuple[GeneratorOutput, ...]:
        stream_sum = self._sums[interval.sends]
        if not has_role:
            stream_sum.streams = frozenset(self._connected)
        return stream_sum.add(StreamInterval(stream, interval))


def _is_sender_line(rest: str) -> bool:
    """A TCP sender reports retransmits, a UDP sender datagrams; a receiver neither."""
    return bool(_TCP.match(rest) or _DATAGRAMS.match(rest))


def _interval(start: float, end: float, rate: float, sends: bool, rest: str) -> Interval:
    tcp, jitter = _TCP.match(rest), _JITTER.match(rest)
    datagrams = _DATAGRAMS.match(rest) if tcp is None and jitter is None else None
    packets = jitter[3] if jitter else datagrams[1] if datagrams else None
    return Interval(
        start=start,
        end=end,
        bits_per_second=rate,
        sends=sends,
        omitted="(omitted)" in rest,
        retransmits=int(tcp[1]) if tcp else None,
        congestion_window=round(float(tcp[2]) * BINARY_FACTORS[tcp[3]]) if tcp else None,
        packets=int(packets) if packets is not None else None,
        lost=int(jitter[2]) if jitter else None,
        jitter=float(jitter[1]) if jitter else None,
    )


def _summed_totals(streams: list[Total]) -> Total:
    first = streams[0]
    return Total(
        sends=first.sends,
        by_sender=first.by_sender,
        seconds=max(one.seconds for one in streams),
        bits_per_second=sum(one.bits_per_second for one in streams),
        retransmits=sum_known(one.retransmits for one in streams),
        packets=sum_known(one.packets for one in streams),
        lost=sum_known(one.lost for one in streams),
        jitter=max((one.jitter for one in streams if one.jitter is not None), default=None),
    )
