"""The command line of ``nictop traffic`` that means the same as a `RunRequest`: the inverse of its option parser.

Reads nothing. Options that are default are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.plan.request import RunRequest, Values

DEFAULT = RunRequest("", "")


def command_line(request: RunRequest, arguments: Mapping[str, str], *, self_test: bool = False) -> str:
    """``nictop traffic web1 web2 --reverse --streams 4``, quoted for a shell. `arguments`: name of a host → what is
    typed for it, if that is another word."""
    words = ["nictop", "traffic"]
    words += ["--self-test"] if self_test else [arguments.get(one, one) for one in (request.client, request.server)]
    return " ".join(map(shell_quote, (*words, *_options(request, arguments))))


def _options(request: RunRequest, arguments: Mapping[str, str]) -> Iterator[str]:
    for side in ("client", "server"):
        for kind in ("nic", "address"):
            if value := getattr(request, f"{side}_{kind}"):
                yield from _with_value(f"{side}_{kind}", value)
    if request.ip_version is not None:
        yield f"-{request.ip_version}"
    if request.direction != "forward":
        yield f"--{request.direction}"
    if request.test != "bulk":
        yield from _with_value("test", request.test)
    if request.request_size is not None:
        response = f":{_scaled(request.response_size, 1024)}" if request.response_size is not None else ""
        yield from _with_value("size", f"{_scaled(request.request_size, 1024)}{response}")
    if request.protocol == "udp":
        yield "--udp"
    for name in (
        "time",
        "omit",
        "streams",
        "mss",
        "dscp",
        "client_cpu",
        "server_cpu",
        "port",
        "repeat",
        "files",
        "rate",
    ):
        value = getattr(request, name)
        if value != getattr(DEFAULT, name) or (name == "time" and request.files is not None):  # another default
            yield from _with_value(name, str(value))
    if request.bitrate is not None:
        yield from _with_value("bitrate", _scaled(request.bitrate, 1000))
    for name in ("length", "window"):
        if (size := getattr(request, name)) is not None:
            yield from _with_value(name, _scaled(size, 1024))
    if request.congestion is not None:
        yield from _with_value("congestion", request.congestion)
    if request.zerocopy:
        yield "--zerocopy"
    if request.generator != "auto":
        yield from _with_value("generator", request.generator)
    for name in ("sweep", "compare"):
        values: Values | None = getattr(request, name)
        if values is not None:
            yield from _with_value(name, f"{values[0]}={','.join(values[1])}")
    for name in ("between", "label"):
        if text := getattr(request, name):
            yield from _with_value(name, text)
    for name in ("rest", "interval"):
        if (seconds := getattr(request, name)) != getattr(DEFAULT, name):
            yield from _with_value(name, f"{seconds:.6f}".rstrip("0").rstrip("."))
    for host in request.observers:
        yield from _with_value("observe", arguments.get(host, host))


def _with_value(name: str, value: str) -> tuple[str, ...]:
    """An option and its value; in one word if the value would be read as an option."""
    option = f"--{name.replace('_', '-')}"
    return (f"{option}={value}",) if value.startswith("-") else (option, value)


def _scaled(value: int, factor: int) -> str:
    """``128K``, ``1G``: with the largest prefix that leaves a whole number."""
    for power, prefix in ((3, "G"), (2, "M"), (1, "K")):
        if value and value % factor**power == 0:
            return f"{value // factor**power}{prefix}"
    return str(value)
