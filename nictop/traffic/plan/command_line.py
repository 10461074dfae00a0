"""The command line of ``nictop traffic`` that means the same as a `RunRequest`: the inverse of its
option parser.

Reads nothing. Options that are default are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.plan.plan import DEFAULT_WORKLOAD_SECONDS
from nictop.traffic.plan.request import RunRequest, Values

DEFAULT = RunRequest("", "")


PLAIN_NUMBERS = (
    *("time", "omit", "streams", "mss", "dscp", "client_cpu", "server_cpu", "port", "repeat"),
    *("files", "rate", "wait"),
)
SCALED_NUMBERS = (("bitrate", 1000), ("length", 1024), ("window", 1024))
"""Options with a number that is written with a prefix, and the factor of its prefixes."""


def command_line(
    request: RunRequest, arguments: Mapping[str, str], *, self_test: bool = False
) -> str:
    """``nictop traffic web1 web2 --reverse --streams 4``, quoted for a shell. `arguments`: name of
    a host → what is typed for it, if that is another word."""
    words = ["nictop", "traffic"]
    if self_test:
        words.append("--self-test")
    elif request.is_of_one_host:
        words.append(arguments.get(request.client, request.client))
    else:
        words += [arguments.get(name, name) for name in (request.client, request.server)]
    return " ".join(map(shell_quote, (*words, *_options(request, arguments))))


def _options(request: RunRequest, arguments: Mapping[str, str]) -> Iterator[str]:
    yield from _endpoint_options(request)
    if request.foreign:
        yield "--foreign"
    if request.direction != "forward":
        yield f"--{request.direction}"
    if request.is_of_one_host:
        yield from _one_host_options(request)
    elif request.test != "bulk":
        yield from _with_value("test", request.test)
    if request.request_size is not None:
        yield from _with_value("size", _sizes_text(request))
    if request.protocol == "udp":
        yield "--udp"
    yield from _number_options(request)
    if request.congestion is not None:
        yield from _with_value("congestion", request.congestion)
    if request.zerocopy:
        yield "--zerocopy"
    if request.generator != "auto":
        yield from _with_value("generator", request.generator)
    yield from _experiment_options(request)
    for host in request.observers:
        yield from _with_value("observe", arguments.get(host, host))


def _endpoint_options(request: RunRequest) -> Iterator[str]:
    for name in ("client_nic", "client_address", "server_nic", "server_address"):
        value = getattr(request, name)
        if value:
            yield from _with_value(name, value)
    if request.ip_version is not None:
        yield f"-{request.ip_version}"


def _one_host_options(request: RunRequest) -> Iterator[str]:
    if request.guest:
        yield from _with_value("guest", request.guest)
    if request.test == "manual":
        yield "--manual"
    else:
        yield from _with_value("workload", request.workload)
    if request.value_pattern:
        yield from _with_value("value", request.value_pattern)
    if request.judged_by is not None:
        yield from _with_value("by", request.judged_by)


def _sizes_text(request: RunRequest) -> str:
    """``64``, ``64:4K``"""
    size = _scaled(request.request_size or 0, 1024)
    if request.response_size is None:
        return size
    return f"{size}:{_scaled(request.response_size, 1024)}"


def _number_options(request: RunRequest) -> Iterator[str]:
    for name in PLAIN_NUMBERS:
        value = getattr(request, name)
        # with files, another number of seconds is the default
        is_needed = name == "time" and request.files is not None
        default = getattr(DEFAULT, name)
        if name == "time" and request.is_of_one_host:
            default = DEFAULT_WORKLOAD_SECONDS
        if is_needed or value != default:
            yield from _with_value(name, str(value))
    for name, factor in SCALED_NUMBERS:
        value = getattr(request, name)
        if value is not None:
            yield from _with_value(name, _scaled(value, factor))


def _experiment_options(request: RunRequest) -> Iterator[str]:
    for name in ("sweep", "compare"):
        values: Values | None = getattr(request, name)
        if values is not None:
            yield from _with_value(name, f"{values[0]}={','.join(values[1])}")
    for name in ("between", "label"):
        text = getattr(request, name)
        if text:
            yield from _with_value(name, text)
    for name in ("rest", "interval"):
        seconds = getattr(request, name)
        if seconds != getattr(DEFAULT, name):
            yield from _with_value(name, f"{seconds:.6f}".rstrip("0").rstrip("."))


def _with_value(name: str, value: str) -> tuple[str, ...]:
    """An option and its value; in one word if the value would be read as an option."""
    option = f"--{name.replace('_', '-')}"
    if value.startswith("-"):
        return (f"{option}={value}",)
    return (option, value)


def _scaled(value: int, factor: int) -> str:
    """``128K``, ``1G``: with the largest prefix that leaves a whole number."""
    for power, prefix in ((3, "G"), (2, "M"), (1, "K")):
        if value and value % factor**power == 0:
            return f"{value // factor**power}{prefix}"
    return str(value)
