"""The options of a run as they are typed: one table of fields, and the request of their texts.

Reads nothing. An empty field is the default. Letters in brackets are the options of iperf3. Two
values of the field vary are a comparison, any other number is a sweep; so are several sizes.
`TESTS` has the kinds of tests, and which fields do not apply to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.traffic.plan.plan import Direction, TestKind
from nictop.traffic.plan.quantities import (
    low_rate_question,
    parse_bit_rate,
    parse_byte_count,
    parse_cpu,
    parse_dscp,
    parse_seconds,
    parse_whole_number,
)
from nictop.traffic.plan.request import RunRequest, parse_values, with_sizes
from nictop.tui.widgets.base.form import Field, next_choice
from nictop.tui.widgets.base.form import presets as presets_of

__all__ = ["FIELDS", "Field", "form_field_of", "next_choice", "presets", "request_of_form"]


@dataclass(frozen=True)
class KindOfTest:
    """A kind of test in the form."""

    text: str
    """Shown beside the choice."""
    without: frozenset[str]
    """Fields that do not apply to it: hidden, and their texts are ignored."""
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a field → its label and the text beside it, where they differ from those of
    `FIELDS`."""


NOT_BULK = frozenset(("size", "files", "rate"))
BULK_ONLY = frozenset(("direction", "length", "bitrate", "zerocopy", "generator"))
CONNECTIONS = ("connections", "1 to 128, each one transaction at a time")
TESTS: dict[TestKind, KindOfTest] = {
    "bulk": KindOfTest("full speed: goodput", NOT_BULK),
    "rr": KindOfTest(
        "request and response: latency",
        BULK_ONLY | {"files"},
        {"streams": CONNECTIONS, "vary": ("vary", "size=1,64,4K  streams=1,16  mtu=  nic= …")},
    ),
    "crr": KindOfTest(
        "connect, request, response, close",
        BULK_ONLY | {"protocol", "rate"},
        {"streams": CONNECTIONS, "vary": ("vary", "size=1,64,4K  streams=1,16  mtu=  nic= …")},
    ),
    "loaded": KindOfTest(
        "rr idle, then during a bulk flow",
        frozenset(("files",)),
        {
            "time": ("seconds", "of each phase: idle, loaded (-t)"),
            "streams": ("streams", "of the bulk flow, 1 to 128 (-P)"),
            "bitrate": ("rate", "b/s per stream of the bulk flow: 500M (-b)"),
            "protocol": ("protocol", "of the requests; the bulk flow is TCP"),
        },
    ),
}
"""In the order in which they are offered."""

ALL_OTHERS, NOBODY = "all other hosts", "none"
NO, YES = "no", "yes"
DIRECTIONS: dict[str, Direction] = {
    "client → server": "forward",
    "server → client": "reverse",
    "both": "bidirectional",
}
"""Choice of the field direction → its value."""

FIELDS = (
    Field("test", "test", "", None, tuple(TESTS), common=True),
    Field("direction", "direction", "", None, tuple(DIRECTIONS), common=True),
    Field("protocol", "protocol", "", None, ("tcp", "udp"), common=True),
    Field("time", "seconds", "measured seconds (-t)", parse_whole_number, preset="10", common=True),
    Field(
        "streams",
        "streams",
        "parallel connections, 1 to 128 (-P)",
        parse_whole_number,
        preset="1",
        common=True,
    ),
    Field(
        "length",
        "block size",
        "bytes per write or datagram: 128K, 1M (-l)",
        parse_byte_count,
        common=True,
    ),
    Field(
        "size",
        "size",
        "bytes; request:response 64:4K; several 1,64",
        None,
        empty="64 bytes",
        common=True,
    ),
    Field(
        "files",
        "files",
        "transactions after which it ends",
        parse_whole_number,
        empty="no limit",
        common=True,
    ),
    Field(
        "rate",
        "request rate",
        "requests/s on schedule (--rate)",
        parse_whole_number,
        empty="default",
        common=True,
    ),
    Field("bitrate", "rate", "b/s per stream: 500M, 2.5G (-b)", parse_bit_rate, common=True),
    Field(
        "repeat",
        "runs",
        "runs per variant (5 recommended)",
        parse_whole_number,
        preset="1",
        common=True,
    ),
    Field(
        "vary",
        "vary",
        "streams=1,4  length=512,4K,8M  mtu=  nic= …",
        parse_values,
        empty="nothing",
        common=True,
    ),
    Field("label", "label", "label for the saved result", empty="none", common=True),
    Field(
        "generator",
        "tool",
        "auto: iperf3 if both hosts have it",
        None,
        ("auto", "iperf3", "builtin", "ntttcp"),
    ),
    Field(
        "between",
        "command",
        "setup command between variants (mtu, queues, setup)",
        empty="none: you are asked",
    ),
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
    Field(
        "interval",
        "interval",
        "seconds between two reports, from 0.1 (-i)",
        parse_seconds,
        preset="0.5",
    ),
)
"""In the order in which they are shown."""

BY_NAME = {form_field.name: form_field for form_field in FIELDS}

FORM_NAMES = {
    "request_size": "size", "response_size": "size", "sweep": "vary", "compare": "vary",
}  # fmt: skip
"""Field of a request → the field of the form, where their names differ."""


def presets() -> dict[str, str]:
    """Initial value of each field."""
    return presets_of(FIELDS)


def test_of(words: Mapping[str, str]) -> TestKind:
    """The kind of test that is chosen."""
    word = words.get("test", "")
    return word if word in TESTS else "bulk"


def request_of_form(
    words: Mapping[str, str], client: str, server: str, others: tuple[str, ...]
) -> tuple[RunRequest, dict[str, str]]:
    """The request, of whose endpoints only the hosts are set, and name of a field → why its text is
    invalid. `others`: hosts that may be monitored too."""
    problems: dict[str, str] = {}
    options: dict[str, object] = {"test": test_of(words)}
    for form_field in FIELDS:
        name = form_field.name
        if name in ("test", "size") or not belongs(name, words):
            continue
        try:
            options |= _options_of(form_field, words.get(name, "").strip(), others)
        except NictopError as error:
            problems[name] = problem_text(error)
    request = replace(RunRequest(client, server), **options)  # type: ignore[arg-type]
    sizes = words.get("size", "").strip()
    if sizes and belongs("size", words):
        try:
            request = with_sizes(request, sizes)
        except NictopError as error:
            problems["size"] = problem_text(error)
    return request, problems


def _options_of(form_field: Field, word: str, others: tuple[str, ...]) -> dict[str, object]:
    """Field of the request → what was typed; {}: its default. Raises NictopError if the text is
    invalid."""
    name = form_field.name
    if name == "observers":
        return {name: () if word == NOBODY else others}
    if name == "direction":
        return {name: DIRECTIONS.get(word, "forward")}
    if not word:
        return {}
    value = word if form_field.parse is None else form_field.parse(word)
    return varied_options(value) if name == "vary" else {name: value}


def varied_options(value: object) -> dict[str, object]:
    """Two values of a variable are compared, any other number is a sweep."""
    if not isinstance(value, tuple):
        return {}
    return {"compare" if len(value[1]) == 2 else "sweep": value}


def problem_text(error: NictopError) -> str:
    """Beside a field: without its name."""
    sentence = error.message.partition(": ")[2] or error.message
    return f"{sentence}; {error.hint}" if error.hint else sentence


def rate_question(words: Mapping[str, str]) -> str:
    """Whether the rate was meant so low; "" if it is not, or invalid."""
    try:
        return low_rate_question(parse_bit_rate(words["bitrate"]))
    except NictopError:
        return ""


def label_of(name: str, words: Mapping[str, str]) -> str:
    """Label of a field in the chosen kind of test."""
    texts = TESTS[test_of(words)].texts
    return texts[name][0] if name in texts else BY_NAME[name].label


def labelled(name: str, problem: str, words: Mapping[str, str]) -> str:
    """What is wrong with a field, with its label unless the sentence begins with it."""
    label = label_of(name, words)
    return problem if problem.startswith(label) else f"{label}: {problem}"


def belongs(name: str, words: Mapping[str, str]) -> bool:
    """Whether the field applies to the chosen kind of test."""
    return name not in TESTS[test_of(words)].without


def form_field_of(name: str, request: RunRequest, words: Mapping[str, str]) -> str:
    """The field of the form in which a field of the request was typed; "": in none of those of this
    test. A variable is typed in vary, not in the field that it varies."""
    field = FORM_NAMES.get(name, name)
    varied = request.compare or request.sweep
    is_varied = varied is not None and field == varied[0]
    if is_varied and words.get("vary", "").strip():
        return "vary"
    return field if field in BY_NAME and belongs(field, words) else ""


assert set(BY_NAME) - {"vary", "size"} <= {option.name for option in fields(RunRequest)}
