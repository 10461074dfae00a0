"""The options of a run as they are typed: one table of fields, and the request of their texts.

Reads nothing. An empty field is the default. Letters in brackets are the options of iperf3. Two values of the field
vary are a comparison, any other number is a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from nictop.errors import NictopError
from nictop.traffic.plan.plan import Direction
from nictop.traffic.plan.quantities import (
    low_rate_question,
    parse_bit_rate,
    parse_byte_count,
    parse_cpu,
    parse_dscp,
    parse_seconds,
    parse_whole_number,
)
from nictop.traffic.plan.request import RunRequest, parse_values
from nictop.tui.widgets.base.form import Field, next_choice
from nictop.tui.widgets.base.form import presets as presets_of

__all__ = ["FIELDS", "Field", "field_of", "next_choice", "presets", "request_of_form"]

ALL_OTHERS, NOBODY = "all other hosts", "none"
NO, YES = "no", "yes"
DIRECTIONS: dict[str, Direction] = {
    "client → server": "forward",
    "server → client": "reverse",
    "both": "bidirectional",
}
"""Choice of the field direction → its value."""

FIELDS = (
    Field("direction", "direction", "", None, tuple(DIRECTIONS), common=True),
    Field("protocol", "protocol", "", None, ("tcp", "udp"), common=True),
    Field("time", "seconds", "measured seconds (-t)", parse_whole_number, preset="10", common=True),
    Field("streams", "streams", "parallel connections, 1 to 128 (-P)", parse_whole_number, preset="1", common=True),
    Field("length", "block size", "bytes per write or datagram: 128K, 1M (-l)", parse_byte_count, common=True),
    Field("bitrate", "rate", "b/s per stream: 500M, 2.5G (-b)", parse_bit_rate, common=True),
    Field("repeat", "runs", "runs per variant (5 recommended)", parse_whole_number, preset="1", common=True),
    Field("vary", "vary", "streams=1,4  length=512,4K,8M  mtu=  nic= …", parse_values, empty="nothing", common=True),
    Field("label", "label", "label for the saved result", empty="none", common=True),
    Field("generator", "tool", "auto: iperf3 if both hosts have it", None, ("auto", "iperf3", "builtin")),
    Field("between", "command", "setup command between variants (mtu, queues, setup)", empty="none: you are asked"),
    Field("rest", "pause", "seconds between two runs", parse_seconds, preset="2"),
    Field("observers", "also monitor", "CPU and NICs of these hosts", None, (ALL_OTHERS, NOBODY)),
    Field("omit", "omit", "seconds before the measured ones (-O)", parse_whole_number, preset="0"),
    Field("mss", "MSS", "TCP maximum segment size, 88 to 32767 bytes (-M)", parse_whole_number),
    Field("window", "window", "socket buffer size: 256K, 4M (-w)", parse_byte_count),
    Field("congestion", "congestion", "congestion control: cubic, bbr (-C)"),
    Field("dscp", "DSCP", "0 to 63, ef, af41 (--dscp)", parse_dscp),
    Field("client_cpu", "client CPU", "CPU affinity of the client process (-A)", parse_cpu),
    Field("server_cpu", "server CPU", "CPU affinity of the server process (-A)", parse_cpu),
    Field("zerocopy", "zerocopy", "sendfile (-Z)", lambda word: word == YES, (NO, YES)),
    Field("port", "port", "1 to 65535 (-p)", parse_whole_number, preset="5201"),
    Field("interval", "interval", "seconds between two reports, from 0.1 (-i)", parse_seconds, preset="0.5"),
)
"""In the order in which they are shown."""

BY_NAME = {field.name: field for field in FIELDS}

PLAN_NAMES = {
    "client CPU": "client_cpu", "server CPU": "server_cpu", "congestion control": "congestion",
    "rate": "bitrate", "bidirectional": "direction", "runs": "repeat", "block size": "length",
    "sweep": "vary", "compare": "vary", "pause": "rest",
}  # fmt: skip
"""How a sentence about a plan begins → the field that it is about, where that is not its name."""


def presets() -> dict[str, str]:
    """Initial value of each field."""
    return presets_of(FIELDS)


def request_of_form(
    words: Mapping[str, str], client: str, server: str, others: tuple[str, ...]
) -> tuple[RunRequest, dict[str, str]]:
    """The request, of whose endpoints only the hosts are set, and name of a field → why its text is invalid. `others`:
    hosts that may be monitored too."""
    found: dict[str, object] = {}
    problems: dict[str, str] = {}
    for field in FIELDS:
        word = words.get(field.name, "").strip()
        if field.name == "observers":
            found["observers"] = () if word == NOBODY else others
        elif field.name == "direction":
            found["direction"] = DIRECTIONS.get(word, "forward")
        elif word:
            try:
                found[field.name] = word if field.parse is None else field.parse(word)
            except NictopError as error:
                sentence = error.message.partition(": ")[2] or error.message
                problems[field.name] = f"{sentence}; {error.hint}" if error.hint else sentence
    varied = found.pop("vary", None)
    if isinstance(varied, tuple):
        found["compare" if len(varied[1]) == 2 else "sweep"] = varied
    return replace(RunRequest(client, server), **found), problems  # type: ignore[arg-type]


def rate_question(words: Mapping[str, str]) -> str:
    """Whether the rate was meant so low; "" if it is not, or invalid."""
    try:
        return low_rate_question(parse_bit_rate(words["bitrate"]))
    except NictopError:
        return ""


def labelled(name: str, problem: str) -> str:
    """What is wrong with a field, with its label unless the sentence begins with it."""
    label = BY_NAME[name].label
    return problem if problem.startswith(label) else f"{label}: {problem}"


def field_of(sentence: str) -> str | None:
    """Name of the field that a sentence about a plan refers to, by its beginning; None: no particular one."""
    for words, name in PLAN_NAMES.items():
        if sentence.startswith(words):
            return name
    first = sentence.partition(" ")[0].rstrip(":").lower()
    return first if first in BY_NAME else None


assert {field.name for field in FIELDS} - {"vary"} <= {field.name for field in fields(RunRequest)}
