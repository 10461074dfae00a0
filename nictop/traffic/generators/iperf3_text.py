"""Text that iperf3 writes with ``--forceflush -f k`` (3.5 and later) → intervals and totals.

Reads nothing. [SUM] lines are one interval late and ignored: streams are summed here. The text has
no locale. The first interval after the omitted ones may report a wrong start and rate, which are
corrected.

    [  5]   0.50-1.00   sec  22.9 MBytes  384714 Kbits/sec    0    204 KBytes       (omitted)
    [  9][RX-C]   0.00-0.50   sec  11.2 MBytes  187753 Kbits/sec
    [  5]   0.00-2.00   sec  11.9 MBytes  49976 Kbits/sec  0.001 ms  0/8629 (0%)  receiver
"""

from __future__ import annotations

import re

from nictop.model.rates.links import sum_known
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.traffic.generators.intervals import (
    ErrorMessage,
    GeneratorInfo,
    GeneratorOutput,
    Interval,
    StreamInterval,
    StreamSum,
    Total,
    max_known,
)

DECIMAL_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BINARY_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MAX_TEXT_LINE_CHARACTERS = 500

_CONNECTED = re.compile(r"\[ *(\d{1,9})\] local .{1,64} port \d{1,5} connected to ", re.ASCII)
_ACCEPTED = re.compile(r"Accepted connection from ([^\s,]{2,64}), port \d{1,5}", re.ASCII)
_REVERSE = re.compile(r"Reverse mode, remote host .{1,64} is sending", re.ASCII)
_ROW = re.compile(
    r"\[ *(?P<stream>\d{1,9})\](?:\[(?P<role>[TR])X-[CS]\])? "
    r"+(?P<start>\d{1,6}\.\d\d)-(?P<end>\d{1,6}\.\d\d) +sec +"
    r"(?P<size>\d{1,9}(?:\.\d{1,3})?) (?P<size_unit>[KMGT]?)Bytes +"
    r"(?P<rate>\d{1,15}(?:\.\d{1,3})?) (?P<unit>[KMGT]?)bits/sec(?P<rest>.{0,120})",
    re.ASCII,
)
_TCP = re.compile(r" +(\d{1,12}) +(\d{1,6}(?:\.\d{1,3})?) ([KMGT]?)Bytes\b", re.ASCII)
_RETRANSMITS = re.compile(r" +(\d{1,12}) +sender\b", re.ASCII)
_DATAGRAMS = re.compile(r" +(\d{1,15}) *(?:\(omitted\) *)?$", re.ASCII)
_JITTER = re.compile(r" +(\d{1,9}\.\d{1,9}) ms +(-?\d{1,15})/(\d{1,15}) \(", re.ASCII)
_CPU = re.compile(
    r"CPU Utilization: local/\w{6,8} \d{1,6}\.\d% \([^()]{1,40}\), "
    r"remote/\w{6,8} (\d{1,6}\.\d)% \(",
    re.ASCII,
)
"""With -V: of the program, in percent of one core."""
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

    def feed(self, line: str, time: float = 0.0) -> tuple[GeneratorOutput, ...]:
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
        elif line.startswith("CPU "):
            found = _CPU.match(line)
            if found is not None:
                return (GeneratorInfo(remote_cpu=float(found[1]) / 100),)
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
        rest = match["rest"]
        if rest.rstrip().endswith(("sender", "receiver")):
            self._add_total(match)
            return ()
        role = match["role"]
        sends = role == "T" if role else _is_sender_line(rest)
        if not role and not sends:
            self._receives = True
        rate = float(match["rate"]) * DECIMAL_FACTORS[match["unit"]]
        start, end = float(match["start"]), float(match["end"])
        stream = int(match["stream"])
        if "(omitted)" in rest:
            self._omitted.add(stream)
        elif stream in self._omitted:
            self._omitted.discard(stream)
            if start > 0 and end > 0:
                # the clock was reset within this interval: it reports a start before that, and a
                # rate over both times
                size = float(match["size"]) * BINARY_FACTORS[match["size_unit"]]
                start, rate = 0.0, size * 8 / end
        return self._add(stream, _interval(start, end, rate, sends, rest), bool(role))

    def _add_total(self, match: re.Match[str]) -> None:
        """A line of one stream at the end."""
        rest, role = match["rest"], match["role"]
        by_sender = rest.rstrip().endswith("sender")
        # without roles (before --bidir), the line of a TCP sender reports retransmits even where
        # this end received
        sends = role == "T" if role else not self._receives
        retransmits, datagrams = _RETRANSMITS.match(rest), _datagrams(rest)
        total = Total(
            sends,
            by_sender,
            float(match["end"]) - float(match["start"]),
            float(match["rate"]) * DECIMAL_FACTORS[match["unit"]],
            retransmits=int(retransmits[1]) if retransmits else None,
            packets=datagrams.packets,
            lost=datagrams.lost,
            jitter=datagrams.jitter,
        )
        self._totals.setdefault((sends, by_sender), []).append(total)

    def _add(self, stream: int, interval: Interval, has_role: bool) -> tuple[GeneratorOutput, ...]:
        stream_sum = self._sums[interval.sends]
        if not has_role:
            stream_sum.streams = frozenset(self._connected)
        return stream_sum.add(StreamInterval(stream, interval))


def _is_sender_line(rest: str) -> bool:
    """A TCP sender reports retransmits, a UDP sender datagrams; a receiver neither."""
    return bool(_TCP.match(rest) or _DATAGRAMS.match(rest))


def _interval(start: float, end: float, rate: float, sends: bool, rest: str) -> Interval:
    datagrams = _datagrams(rest)
    interval = Interval(
        start=start,
        end=end,
        bits_per_second=rate,
        sends=sends,
        omitted="(omitted)" in rest,
        packets=datagrams.packets,
        lost=datagrams.lost,
        jitter=datagrams.jitter,
    )
    tcp = _TCP.match(rest)
    if tcp is not None:
        window = round(float(tcp[2]) * BINARY_FACTORS[tcp[3]])
        return replace(interval, retransmits=int(tcp[1]), congestion_window=window)
    sent = _DATAGRAMS.match(rest)
    if sent is not None and datagrams.jitter is None:
        return replace(interval, packets=int(sent[1]))
    return interval


class Datagrams(NamedTuple):
    """What a receiver of UDP reports; None: the line is of something else."""

    jitter: float | None = None
    """ms"""
    lost: int | None = None
    packets: int | None = None


def _datagrams(rest: str) -> Datagrams:
    match = _JITTER.match(rest)
    if match is None:
        return Datagrams()
    return Datagrams(float(match[1]), int(match[2]), int(match[3]))


def _summed_totals(streams: list[Total]) -> Total:
    first = streams[0]
    return Total(
        sends=first.sends,
        by_sender=first.by_sender,
        seconds=max(total.seconds for total in streams),
        bits_per_second=sum(total.bits_per_second for total in streams),
        retransmits=sum_known(total.retransmits for total in streams),
        packets=sum_known(total.packets for total in streams),
        lost=sum_known(total.lost for total in streams),
        jitter=max_known(total.jitter for total in streams),
    )
