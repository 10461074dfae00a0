"""The figure that a command itself reports: by a regular expression of the user, or in a known
format.

Reads nothing. Formats: fio ``--output-format=json`` (HOWTO, "JSON output": bytes/s in
``bw_bytes``), iperf3 ``-J`` and ``--json-stream``, wrk (README, ``Requests/sec:``), ab (manual,
``Requests per second:``), sysbench (``transactions: N (R per sec.)``, ``(R MiB/sec)``), dd
(coreutils manual, ``copied, 1.2 s, 3.4 GB/s``), rsync (manual, ``bytes/sec``; with the decimal
comma of its locale). Outputs are not trusted: an invalid one has no figure.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from nictop.model.text.terminal import clean
from nictop.rules.cpu_limit import TooLong, limited
from nictop.traffic.results.workload import CommandFigure

MAX_NAME_CHARS, MAX_UNIT_CHARS = 60, 16
MAX_SEARCHED_CHARS = 64 * 1024
"""Of each output, its end, in which an expression of the user is searched."""
NO_MATCH = "--value matches nothing in its output"
NO_MATCH_IN_END = "--value matches nothing in the last 64 KiB of its output"
MAX_LINE_CHARS = 2000
"""Of each line that are searched: the time of an expression may grow with the square of it."""
NO_MATCH_IN_LINES = f"--value matches nothing in the first {MAX_LINE_CHARS} characters of its lines"
MAX_SEARCH_SECONDS = 1.0
"""Of CPU time for that search: an expression of the user may take exponential time on what a host
sends."""
NUMBER = re.compile(
    r"[-+]?(?:\d(?:[\d.,]{0,40}\d)?|[.,]\d{1,30})\.?(?:[eE][-+]?\d{1,3})?", re.ASCII
)
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:\.\d{3})+|(?:,\d{3})+)", re.ASCII)
"""A whole number in groups of three digits."""
RATE_UNITS = {
    "b/s": 1.0, "kb/s": 8e3, "mb/s": 8e6, "gb/s": 8e9, "tb/s": 8e12, "kib/s": 8 * 2.0**10,
    "mib/s": 8 * 2.0**20, "gib/s": 8 * 2.0**30, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9,
    "kbits/sec": 1e3, "mbits/sec": 1e6, "gbits/sec": 1e9, "mib/sec": 8 * 2.0**20,
    "kb/sec": 8e3, "mb/sec": 8e6, "gb/sec": 8e9, "bytes/sec": 8.0, "bytes/s": 8.0,
}  # fmt: skip
"""Unit, lower case → bits per second. ``kB/s`` and ``MB/s`` are bytes, ``Mbit/s`` are bits."""
TIME_UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6,
              "usec": 1e-6, "µs": 1e-6, "ns": 1e-9}  # fmt: skip
COUNT_UNITS = ("iops", "req/s", "requests/sec", "tps", "ops/s", "/s", "transactions/s")
IPERF3_BITS_PER_SECOND = "bits_per_second"
OTHER_DIRECTION = "_bidir_reverse"
"""Suffix of a sum of the server's direction with --bidir, since 3.11."""
END_EVENT = re.compile(r'^\{"event":"end",', re.MULTILINE)
ERROR_EVENT = re.compile(r'^\{"event":"error",', re.MULTILINE)
DD = re.compile(r"copied, [\d.]{1,20}(?:e[-+]?\d{1,3})? s, ([\d.]{1,20}) ([kMGT]?B)/s", re.ASCII)
RSYNC = re.compile(r"(?<![\d.,])([\d.,]{1,30}) bytes/sec", re.ASCII)
RSYNC_HUMAN = re.compile(r"(?<![\d.,])[\d.,]{1,30}[KMGTPE] bytes/sec", re.ASCII)
RSYNC_HUMAN_TEXT = (
    "with -h, the units of rsync may be of 1000 or of 1024; it is read without -h, or by --value"
)
"""RsyncProject/rsync, lib/compat.c, do_big_num: -h has units of 1000, -hh of 1024, with the same
letters."""
WRK = re.compile(r"^Requests/sec: {1,10}([\d.]{1,20})$", re.ASCII | re.MULTILINE)
AB = re.compile(r"^Requests per second: {1,10}([\d.]{1,20}) ", re.ASCII | re.MULTILINE)
SYSBENCH_RATE = re.compile(r"\(([\d.]{1,20}) (MiB/sec)\)", re.ASCII)
SYSBENCH_COUNT = re.compile(r"transactions: {1,40}\d{1,20} {1,10}\(([\d.]{1,20}) per sec", re.ASCII)
SYSBENCH_EVENTS = re.compile(r"events per second: {1,40}([\d.]{1,20})", re.ASCII)


def figure_by_expression(
    text: str, expression: re.Pattern[str]
) -> tuple[CommandFigure | None, str]:
    """(the figure of the last match, why there is none). The first group is the number, else the
    whole match; a group ``unit`` is its unit, else the word behind the number. `text`: as
    `searched_text` makes it.

    To be called in the main thread: nowhere else can the search be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("expressions of the user are searched in the main thread")
    try:
        found = limited(MAX_SEARCH_SECONDS, partial(_last_match, text, expression))
    except TooLong:
        return None, f"--value took more than {MAX_SEARCH_SECONDS:g} s"
    if found is None:
        is_cut = any(len(line) > MAX_LINE_CHARS for line in text.splitlines())
        return None, NO_MATCH_IN_LINES if is_cut else NO_MATCH
    groups = found.groupdict()
    captured = groups.get("value")
    if captured is None:
        captured = found.group(1) if expression.groups else found.group()
    number = NUMBER.search(captured or "")
    value = _number(number.group()) if number is not None else None
    if value is None or number is None:
        return (
            None,
            f"--value matches {clean(found.group())[:MAX_NAME_CHARS]!r}, which has no number",
        )
    unit = groups.get("unit") or _unit_behind(found, captured or "", number)
    return scaled_figure("", value, unit, "--value"), ""


def searched_text(stdout: str, stderr: str) -> str:
    """The end of both, so that much of one does not hide the other."""
    return f"{stdout[-MAX_SEARCHED_CHARS:]}\n{stderr[-MAX_SEARCHED_CHARS:]}"


def _last_match(text: str, expression: re.Pattern[str]) -> re.Match[str] | None:
    """That is not empty, as the last one of ``.*`` is."""
    found = None
    for line in text.splitlines():
        for match in expression.finditer(line[:MAX_LINE_CHARS]):
            found = match if match.group() else found
    return found


def _unit_behind(match: re.Match[str], captured: str, number: re.Match[str]) -> str:
    """The word behind the number: in the group itself, or right after it in the line."""
    rest = captured[number.end() :].strip()
    if not rest:
        end = match.end(1) if match.re.groups else match.end()
        rest = match.string[end : end + 2 * MAX_UNIT_CHARS].strip()
    word = rest.split(maxsplit=1)[0] if rest else ""
    word = word.strip(".,;:()[]\"'")
    return word if re.fullmatch(r"[A-Za-zµ/%]{1,16}", word) else ""


def scaled_figure(name: str, value: float, unit: str, source: str) -> CommandFigure:
    """In bits per second or seconds, if the unit is a known one; else as it is."""
    lower = unit.lower()
    if lower in RATE_UNITS and unit != "b/s":
        return CommandFigure(name or "rate", value * RATE_UNITS[lower], "b/s", source)
    if unit == "b/s":
        return CommandFigure(name or "rate", value, "b/s", source)
    if unit in TIME_UNITS:
        return CommandFigure(name or "time", value * TIME_UNITS[unit], "s", source, True)
    if lower in COUNT_UNITS:
        return CommandFigure(name or "rate", value, "1/s", source)
    return CommandFigure(name or "figure", value, unit[:MAX_UNIT_CHARS], source)


def known_figure(stdout: str, stderr: str) -> CommandFigure | None:
    """That of a known format; None: it is none of them."""
    record = _json_object(stdout)
    if record is not None:
        return _fio(record) or _iperf3(record) or _iperf3_events(stdout)
    for find in (_wrk, _ab, _sysbench, _rsync, _dd):
        figure = find(f"{stdout}\n{stderr}")
        if figure is not None:
            return figure
    return None


def why_no_known_figure(stdout: str, stderr: str) -> str:
    """Of a known format whose figure cannot be read; "": it is none."""
    return RSYNC_HUMAN_TEXT if RSYNC_HUMAN.search(f"{stdout}\n{stderr}") else ""


def reported_error(stdout: str) -> str:
    """What iperf3 says is wrong in its JSON; "": nothing. With -J it may end with exit status 0
    without having connected (seen with 3.12)."""
    event, record = _last(ERROR_EVENT, stdout), _json_object(stdout)
    error = None
    if event is not None:
        found = _json_object(stdout[event.start() :])
        error = found.get("data") if found is not None else None
    elif record is not None and "start" in record:
        error = record.get("error")
    return error if isinstance(error, str) else ""


def text_beside_json(stdout: str) -> str:
    """What a command wrote before and behind a JSON object: that of fio has no messages."""
    for begin in _object_starts(stdout):
        try:
            _, end = json.JSONDecoder(parse_int=float).raw_decode(stdout, begin)
        except (ValueError, RecursionError):
            continue
        return f"{stdout[:begin]}\n{stdout[end:]}"
    return stdout


def _json_object(text: str) -> Mapping[str, Any] | None:
    """The last JSON object in a text; fio may write a line before it."""
    for begin in _object_starts(text):
        try:
            found, _ = json.JSONDecoder(parse_int=float).raw_decode(text, begin)
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, dict) else None
    return None


def _object_starts(text: str) -> Iterator[int]:
    """Of lines that begin with a brace, a few."""
    matches = re.finditer(r"^\{", text, re.MULTILINE)
    for _, match in zip(range(8), matches, strict=False):
        yield match.start()


def _fio(record: Mapping[str, Any]) -> CommandFigure | None:
    """Bandwidth of all jobs in the direction that moved more."""
    jobs = record.get("jobs")
    if not isinstance(jobs, list) or "fio version" not in record:
        return None
    sums = {"read": 0.0, "write": 0.0}
    for job in jobs:
        for direction in sums:
            part = job.get(direction) if isinstance(job, dict) else None
            if not isinstance(part, dict):
                continue
            rate = _finite(part.get("bw_bytes"))
            if rate is None:  # fio before 3.0 has KiB/s
                rate = (_finite(part.get("bw")) or 0.0) * 1024
            sums[direction] += rate
    direction = max(sums, key=lambda name: sums[name])
    if not sums[direction]:
        return None
    name = f"{direction} bandwidth"
    if min(sums.values()):
        name = "read and write bandwidth"
    return CommandFigure(name, 8 * sum(sums.values()), "b/s", "fio JSON")


def _iperf3(record: Mapping[str, Any]) -> CommandFigure | None:
    end = record.get("end")
    if not isinstance(end, dict) or "start" not in record:
        return None
    for part, name in (("sum_received", "received"), ("sum", "rate"), ("sum_sent", "sent")):
        rate, back = _bits_per_second(end, part), _bits_per_second(end, f"{part}{OTHER_DIRECTION}")
        if rate is not None and back is not None:
            return CommandFigure(f"{name} in both directions", rate + back, "b/s", "iperf3 JSON")
        if rate is not None:
            return CommandFigure(name, rate, "b/s", "iperf3 JSON")
    return None


def _bits_per_second(end: Mapping[str, Any], part: str) -> float | None:
    found = end.get(part)
    return _finite(found.get(IPERF3_BITS_PER_SECOND)) if isinstance(found, dict) else None


def _iperf3_events(text: str) -> CommandFigure | None:
    """Of the last event of ``--json-stream`` (3.17), which has what ``-J`` has as ``end``
    (esnet/iperf, src/iperf_api.c: iperf_json_finish)."""
    event = _last(END_EVENT, text)
    found = _json_object(text[event.start() :]) if event is not None else None
    return _iperf3({"start": None, "end": found.get("data")}) if found is not None else None


def _wrk(text: str) -> CommandFigure | None:
    return _by_pattern(text, WRK, "requests/s", "1/s", "wrk")


def _ab(text: str) -> CommandFigure | None:
    return _by_pattern(text, AB, "requests/s", "1/s", "ab")


def _sysbench(text: str) -> CommandFigure | None:
    if "sysbench " not in text:
        return None
    match = _last(SYSBENCH_RATE, text)
    if match is not None:
        value = _number(match.group(1))
        if value is not None:
            return scaled_figure("throughput", value, match.group(2), "sysbench")
    for pattern in (SYSBENCH_COUNT, SYSBENCH_EVENTS):
        figure = _by_pattern(text, pattern, "events/s", "1/s", "sysbench")
        if figure is not None:
            return figure
    return None


def _rsync(text: str) -> CommandFigure | None:
    match = _last(RSYNC, text)
    value = _number(match.group(1)) if match is not None else None
    if value is None:
        return None
    return CommandFigure("rate", 8 * value, "b/s", "rsync")


def _dd(text: str) -> CommandFigure | None:
    """GNU dd: from its bytes and seconds it computes a rate of three digits."""
    match = _last(DD, text)
    if match is None:
        return None
    value = _number(match.group(1))
    if value is None:
        return None
    return scaled_figure("rate", value, f"{match.group(2)}/s", "dd")


def _by_pattern(
    text: str, pattern: re.Pattern[str], name: str, unit: str, source: str
) -> CommandFigure | None:
    match = _last(pattern, text)
    value = _number(match.group(1)) if match is not None else None
    return None if value is None else CommandFigure(name, value, unit, source)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007  the last one
        pass
    return found


def _number(text: str) -> float | None:
    """None: it is none."""
    number, exponent, power = text.lower().partition("e")
    try:
        return _finite(float(_with_decimal_point(number) + exponent + power))
    except ValueError:
        return None


def _with_decimal_point(number: str) -> str:
    """Without groups of digits, and with a point for the decimal comma of a locale. Of a point and
    a comma the last one is decimal; alone, before three digits, a comma is between thousands
    (``1,250``) and a point is not (``1.250``)."""
    if number.count(".") == 1 and "," not in number:
        return number
    if GROUPED.fullmatch(number):
        return number.replace(",", "").replace(".", "")
    whole, decimal, fraction = number.rpartition(max(".,", key=number.rfind))
    if not decimal:
        return number
    if GROUPED.fullmatch(whole) and decimal not in whole:
        whole = whole.replace(",", "").replace(".", "")
    return f"{whole}.{fraction}"


def _finite(value: object) -> float | None:
    """None: not a number, or one that cannot be measured."""
    if not isinstance(value, float) or not math.isfinite(value) or value < 0:
        return None
    return value
