"""The text that iperf3 writes with ``--forceflush -f k`` (3.5 and later) → intervals and totals.

Reads nothing. The [SUM] lines come an interval late and are left out: streams are summed here. No locale is in it. The
first interval after the omitted ones may name a wrong start and rate, which is put right.

    [  5]   0.50-1.00   sec  22.9 MBytes  384714 Kbits/sec    0    204 KBytes       (omitted)
    [  9][RX-C]   0.00-0.50   sec  11.2 MBytes  187753 Kbits/sec
    [  5]   0.00-2.00   sec  11.9 MBytes  49976 Kbits/sec  0.001 ms  0/8629 (0%)  receiver
"""

from __future__ import annotations

import re

from nictop.traffic.generators.intervals import (
    Gathering,
    GeneratorOutput,
    Interval,
    Problem,
    StreamInterval,
    Total,
    total_of,
)

SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BINARY_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LONGEST_LINE = 500

_CONNECTED = re.compile(r"\[ *(\d{1,9})\] local .{1,64} port \d{1,5} connected to ", re.ASCII)
_REVERSE = re.compile(r"Reverse mode, remote host .{1,64} is sending", re.ASCII)
_ROW = re.compile(
    r"\[ *(?P<stream>\d{1,9})\](?:\[(?P<way>[TR])X-[CS]\])? +(?P<start>\d{1,6}\.\d\d)-(?P<end>\d{1,6}\.\d\d) +sec +"
    r"(?P<size>\d{1,9}(?:\.\d{1,3})?) (?P<size_unit>[KMGT]?)Bytes +"
    r"(?P<rate>\d{1,15}(?:\.\d{1,3})?) (?P<unit>[KMGT]?)bits/sec(?P<rest>.{0,120})",
    re.ASCII,
)
_TCP = re.compile(r" +(\d{1,12}) +(\d{1,6}(?:\.\d{1,3})?) ([KMGT]?)Bytes\b", re.ASCII)
_RETRANSMITS = re.compile(r" +(\d{1,12}) +sender\b", re.ASCII)
_DATAGRAMS = re.compile(r" +(\d{1,15}) *(?:\(omitted\) *)?$", re.ASCII)
_JITTER = re.compile(r" +(\d{1,9}\.\d{1,9}) ms +(-?\d{1,15})/(\d{1,15}) \(", re.ASCII)
_PROBLEM = re.compile(r"(?:iperf3: )?(?:error|interrupt|the client has)\b", re.ASCII)


class TextOutput:
    """One end's lines in order."""

    def __init__(self, nominal: float) -> None:
        self._gathering = {True: Gathering(nominal), False: Gathering(nominal)}
        self._connected: set[int] = set()
        self._totals: dict[tuple[bool, bool], list[Total]] = {}
        self._receives = False
        self._omitted: set[int] = set()
        """Streams whose last interval did not count."""

    def feed(self, line: str) -> tuple[GeneratorOutput, ...]:
        """What a line completes; () for one that says nothing."""
        line = line[:LONGEST_LINE].rstrip()
        found = _ROW.match(line)
        if found is not None:
            return self._row(found)
        connected = _CONNECTED.match(line)
        if connected is not None:
            self._connected.add(int(connected[1]))
        elif _REVERSE.match(line):
            self._receives = True
        elif _PROBLEM.match(line.removeprefix("iperf3: ")):
            return (Problem(line.removeprefix("iperf3: ").removeprefix("error - ")),)
        return ()

    def finish(self) -> tuple[GeneratorOutput, ...]:
        """Intervals that some stream has not told, and the totals."""
        said: list[GeneratorOutput] = [*self._gathering[True].finish(), *self._gathering[False].finish()]
        said += map(_whole, self._totals.values())
        self._totals = {}
        return tuple(said)

    def _row(self, found: re.Match[str]) -> tuple[GeneratorOutput, ...]:
        rest, way = found["rest"], found["way"]
        rate = float(found["rate"]) * SCALE[found["unit"]]
        start, end = float(found["start"]), float(found["end"])
        sends = way == "T" if way else self._sends(rest)
        if rest.rstrip().endswith(("sender", "receiver")):
            by_sender = rest.rstrip().endswith("sender")
            retransmits, jitter = _RETRANSMITS.match(rest), _JITTER.match(rest)
            # without roles the line of a TCP sender has its retransmits also where it did not send
            sends = sends if way else not self._receives
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
        if not way and not sends:
            self._receives = True
        stream = int(found["stream"])
        if "(omitted)" in rest:
            self._omitted.add(stream)
        elif stream in self._omitted:
            self._omitted.discard(stream)
            if start > 0 and end > 0:
                # the clock was set back within this interval: it names a start of before, and a rate over both times
                start, rate = 0.0, float(found["size"]) * BINARY_SCALE[found["size_unit"]] * 8 / end
        return self._gather(stream, _interval(start, end, rate, sends, rest), bool(way))

    def _gather(self, stream: int, interval: Interval, told_way: bool) -> tuple[GeneratorOutput, ...]:
        gathering = self._gathering[interval.sends]
        if not told_way:
            gathering.streams = frozenset(self._connected)
        return gathering.take(StreamInterval(stream, interval))

    def _sends(self, rest: str) -> bool:
        """A TCP sender tells retransmits, a UDP sender its datagrams; a receiver neither."""
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
        congestion_window=round(float(tcp[2]) * BINARY_SCALE[tcp[3]]) if tcp else None,
        packets=int(packets) if packets is not None else None,
        lost=int(jitter[2]) if jitter else None,
        jitter=float(jitter[1]) if jitter else None,
    )


def _whole(streams: list[Total]) -> Total:
    first = streams[0]
    return Total(
        sends=first.sends,
        by_sender=first.by_sender,
        seconds=max(one.seconds for one in streams),
        bits_per_second=sum(one.bits_per_second for one in streams),
        retransmits=total_of(one.retransmits for one in streams),
        packets=total_of(one.packets for one in streams),
        lost=total_of(one.lost for one in streams),
        jitter=max((one.jitter for one in streams if one.jitter is not None), default=None),
    )
