"""The options of a run as they are typed: one table of fields, and the request that their texts make.

Reads nothing. An empty field is the default. `request_of_form` returns the request, and why each invalid text is
invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from nictop.errors import NictopError
from nictop.model.text.words import count_noun
from nictop.traffic.plan.quantities import (
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

ALL_OTHERS, NOBODY = "all other hosts", "nobody"
NO, YES = "no", "yes"


FIELDS = (
    Field("direction", "direction", "who sends", None, ("forward", "reverse", "bidirectional"), common=True),
    Field("protocol", "protocol", "", None, ("tcp", "udp"), common=True),
    Field("time", "time", "seconds that count", parse_whole_number, preset="10", common=True),
    Field("streams", "streams", "1 to 128", parse_whole_number, preset="1", common=True),
    Field("length", "message size", "128K, 1M: bytes of one write or datagram", parse_byte_count, common=True),
    Field("bitrate", "bitrate", "500M, 2.5G: bits per second of each stream", parse_bit_rate, common=True),
    Field(
        "repeat", "repeat", "runs of each set-up; five make a comparison", parse_whole_number, preset="1", common=True
    ),
    Field(
        "generator", "generator", "auto: iperf3 where both have it", None, ("auto", "iperf3", "builtin"), common=True
    ),
    Field("sweep", "sweep", "length=512,4K,128K  mss=  streams=  queues=  mtu=", parse_values, empty="none"),
    Field("compare", "compare", "streams=1,4  nic=ens224,ens256  setup=A,B: exactly two", parse_values, empty="none"),
    Field("between", "between", "a command that makes the change; without one you are asked", empty="none"),
    Field("rest", "rest", "seconds between two runs", parse_seconds, preset="2"),
    Field("observers", "observe", "whose CPUs and NICs are watched too", None, (ALL_OTHERS, NOBODY)),
    Field("label", "label", "words under which the results are kept", empty="none"),
    Field("omit", "omit", "seconds at the beginning that do not count", parse_whole_number, preset="0"),
    Field("mss", "MSS", "88 to 32767 bytes", parse_whole_number),
    Field("window", "window", "256K, 4M: bytes of the socket buffers", parse_byte_count),
    Field("congestion", "congestion", "cubic, bbr, reno: what both kernels have"),
    Field("dscp", "DSCP", "0 to 63, ef, af41", parse_dscp),
    Field("client_cpu", "client's CPU", "the CPU that its generator runs on", parse_cpu),
    Field("server_cpu", "server's CPU", "the CPU that its generator runs on", parse_cpu),
    Field("zerocopy", "zerocopy", "send without copying", lambda word: word == YES, (NO, YES)),
    Field("port", "port", "1 to 65535", parse_whole_number, preset="5201"),
    Field("interval", "interval", "seconds between two points, from 0.1", parse_seconds, preset="0.5"),
)
"""In the order in which they are shown."""

BY_NAME = {field.name: field for field in FIELDS}

PLAN_NAMES = {
    "client's CPU": "client_cpu", "server's CPU": "server_cpu", "congestion control": "congestion",
    "a bitrate": "bitrate", "traffic in both directions": "direction",
}  # fmt: skip
"""How a sentence about a plan begins → the field that it is about, where that is not its name."""


def presets() -> dict[str, str]:
    """Initial value of each field."""
    return presets_of(FIELDS)


def request_of_form(
    words: Mapping[str, str], client: str, server: str, others: tuple[str, ...]
) -> tuple[RunRequest, dict[str, str]]:
    """The request, of whose endpoints only the hosts are set, and name of a field → why its text is invalid. `others`:
    hosts that may observe."""
    found: dict[str, object] = {}
    problems: dict[str, str] = {}
    for field in FIELDS:
        word = words.get(field.name, "").strip()
        if field.name == "observers":
            found["observers"] = () if word == NOBODY else others
        elif word:
            try:
                found[field.name] = word if field.parse is None else field.parse(word)
            except NictopError as error:
                sentence = error.message.partition(": ")[2] or error.message
                problems[field.name] = f"{sentence}; {error.hint}" if error.hint else sentence
    compared = found.get("compare")
    if isinstance(compared, tuple) and len(compared[1]) != 2:
        problems["compare"] = f"{count_noun(len(compared[1]), 'value')}, and a comparison is of exactly two"
        del found["compare"]
    return replace(RunRequest(client, server), **found), problems  # type: ignore[arg-type]


def field_of(sentence: str) -> str | None:
    """Name of the field that a sentence about a plan refers to, by its beginning; None: no particular one."""
    for words, name in PLAN_NAMES.items():
        if sentence.startswith(words):
            return name
    first = sentence.partition(" ")[0].rstrip(":").lower()
    return first if first in BY_NAME else None


assert {field.name for field in FIELDS} <= {field.name for field in fields(RunRequest)}
