"""ntttcp: command line arguments of both ends, what is to be typed on other hosts, and the parser
of its output.

Reads nothing. The probe adds role, address, port and ``-N``. One stream is one port of the receiver
and one thread on both sides. ntttcp flushes a line ``Real-time throughput`` after half a second or
a little more (throughputmanagement.c), without a time: the intervals are those between the lines.
Its count of retransmits is that of the whole host, and is not used.
"""

from __future__ import annotations

import os
import re

from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.generators.intervals import (
    MAX_ERROR_CHARACTERS,
    ErrorMessage,
    GeneratorOutput,
    Interval,
    Total,
)
from nictop.traffic.plan.plan import RunPlan

FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""format_throughput in util.c."""
MAX_LINE_CHARACTERS = 300
MIN_INTERVAL_SECONDS = 0.05
_RATE = re.compile(r"Real-time throughput: (\d{1,6}(?:\.\d{1,3})?)([KMGT]?)bps", re.ASCII)
_LOG = re.compile(r"\d\d:\d\d:\d\d (INFO|ERR ): (.*)", re.ASCII)
_DURATION = re.compile(r"test duration\s{1,4}:(\d{1,6}\.\d{1,3}) seconds", re.ASCII)
_BYTES = re.compile(r"total bytes\s{1,4}:(\d{1,18})", re.ASCII)
_ERRNO = re.compile(r"errno = (\d{1,3})$", re.ASCII)
BEGINS, WARMED_UP = "connections created in", "Test warmup completed"
FAILED = "failed to "
"""Begins the text of an error that it does not end with: it goes on for its time."""
LEAST_SECONDS = 0.5
"""Before the first line of a receiver, which does not say when its sender begins."""


def ntttcp_receiver_arguments(plan: RunPlan) -> tuple[str, ...]:
    return _arguments(plan)


def ntttcp_sender_arguments(plan: RunPlan) -> tuple[str, ...]:
    length = () if plan.length is None else ("-b", str(plan.length))
    return (*_arguments(plan), "-n", "1", *length)


def _arguments(plan: RunPlan) -> tuple[str, ...]:
    warm_up = ("-W", str(plan.omit)) if plan.omit else ()
    version = ("-6",) if plan.ip_version == 6 else ()
    return ("-P", str(plan.streams), "-t", str(plan.time), *warm_up, *version)


def ntttcp_typed_command(plan: RunPlan, role: str) -> str:
    """For Linux. `role`: ``-r`` or ``-s``."""
    more = ntttcp_receiver_arguments(plan) if role == "-r" else ntttcp_sender_arguments(plan)
    words = ["ntttcp", role, plan.server.address, "-p", str(plan.port), "-N", *more]
    return " ".join(map(shell_quote, words))


def ntttcp_windows_command(plan: RunPlan, role: str) -> str:
    """``ntttcp.exe -s -m 2,*,192.0.2.2 -p 5201 -ns -t 10``: threads, any CPU, the receiver."""
    mapping = f"{plan.streams},*,{plan.server.address}"
    words = ["ntttcp.exe", role, "-m", mapping, "-p", str(plan.port), "-ns", "-t", str(plan.time)]
    if plan.omit:
        words += ["-wu", str(plan.omit)]
    if plan.length is not None and role == "-s":
        words += ["-l", str(plan.length)]
    if plan.ip_version == 6:
        words.append("-6")
    return " ".join(words)


class NtttcpOutput:
    """Parser of the lines of one end, in order. `sends`: it is the sender."""

    def __init__(self, *, sends: bool, omit: int) -> None:
        self._sends, self._is_warming_up = sends, omit > 0
        self._began: float | None = None
        """Time of the line at which the interval that runs has begun, seconds of its host."""
        self._elapsed = 0.0
        """Seconds of the intervals so far, without those of the warm-up."""
        self._seconds: float | None = None
        self._bytes: int | None = None

    def feed(self, line: str, time: float = 0.0) -> tuple[GeneratorOutput, ...]:
        line = line[:MAX_LINE_CHARACTERS].rstrip()
        rate = _RATE.match(line)
        if rate is not None:
            return self._interval(float(rate[1]) * FACTORS[rate[2]], time)
        logged = _LOG.match(line)
        if logged is None:
            return ()
        text = logged[2].strip()
        if logged[1] != "INFO" or text.startswith(FAILED):
            return (ErrorMessage(_readable(text)[:MAX_ERROR_CHARACTERS]),)
        if BEGINS in text:
            self._began = time
        elif text.startswith(WARMED_UP):
            self._is_warming_up, self._elapsed, self._began = False, 0.0, time
        elif duration := _DURATION.match(text):
            self._seconds = float(duration[1])
        elif size := _BYTES.match(text):
            self._bytes = int(size[1])
        return ()

    def finish(self) -> tuple[GeneratorOutput, ...]:
        if not self._seconds or self._bytes is None:
            return ()
        rate = 8 * self._bytes / self._seconds
        total = Total(self._sends, self._sends, self._seconds, rate, float(self._bytes))
        return (total,)

    def _interval(self, rate: float, time: float) -> tuple[Interval, ...]:
        began = time - LEAST_SECONDS if self._began is None else self._began
        if time - began < MIN_INTERVAL_SECONDS:
            return ()
        start, self._elapsed = self._elapsed, self._elapsed + time - began
        self._began = time
        return (Interval(start, self._elapsed, rate, self._sends, omitted=self._is_warming_up),)


def _readable(text: str) -> str:
    """``… errno = 111`` with its meaning."""
    number = _ERRNO.search(text)
    return f"{text} ({os.strerror(int(number[1]))})" if number is not None else text
