"""The plan of a run, parsed from the arguments of its generators, which `nictop.traffic.generators` makes.

Reads nothing. Recordings are untrusted input: invalid arguments give no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, get_args

from nictop.model.snapshot import Snapshot
from nictop.probe.records import TrafficRequest
from nictop.traffic.plan.plan import (
    DEFAULT_LOADED_RATE,
    LOAD_RAMP_SECONDS,
    LOAD_START_SECONDS,
    Endpoint,
    RunPlan,
    TestKind,
    plan_problems,
)

MAX_GENERATOR_ARGUMENTS = 100

VALUE_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "-t": ("time", int), "-P": ("streams", int), "-O": ("omit", int), "-b": ("bitrate", int), "-l": ("length", int),
    "-M": ("mss", int), "-w": ("window", int), "-C": ("congestion", str), "-i": ("interval", float),
    "-S": ("dscp", lambda text: int(text) >> 2),
    "--time": ("time", int), "--streams": ("streams", int), "--omit": ("omit", int), "--bitrate": ("bitrate", int),
    "--length": ("length", int), "--mss": ("mss", int), "--window": ("window", int),
    "--congestion": ("congestion", str), "--interval": ("interval", float),
    "--tos": ("dscp", lambda text: int(text) >> 2),
    "--test": ("test", str), "--response": ("response_size", int), "--files": ("files", int),
    "--rate": ("rate", int),
}  # fmt: skip
"""Option with a value → field of `RunPlan`, and the function that parses the value."""
FLAG_OPTIONS: dict[str, tuple[str, Any]] = {
    "-u": ("protocol", "udp"), "--udp": ("protocol", "udp"), "-R": ("direction", "reverse"),
    "--reverse": ("direction", "reverse"), "--bidir": ("direction", "bidirectional"), "-Z": ("zerocopy", True),
}  # fmt: skip
LOAD_FIELDS = ("direction", "streams", "bitrate", "length", "mss", "window", "congestion", "zerocopy")
"""Fields of the plan of a loaded run that are options of its bulk flow only."""
IGNORED_OPTIONS = ("-A", "--affinity", "-B", "--bind", "--connect-timeout", "-f", "--accept", "--server-bitrate-limit")
"""Options with a value that is not part of the plan, or is only about one end."""


def recorded_plan(
    client: TrafficRequest, server: TrafficRequest, snapshots: tuple[Snapshot, Snapshot]
) -> RunPlan | None:
    """The plan of a run. `client`, `server`: requests to start the generators; `snapshots`: of client and server, in
    which the NICs are found by their addresses. None: the requests are not those of a valid plan."""
    try:
        found = {**_parse_options(server.arguments), **_parse_options(client.arguments)}
        if "test" in found:
            found["request_size"] = found.pop("length", None)
        address = server.address or client.address or ""
        plan = replace(
            RunPlan(
                _endpoint(snapshots[0], _value(client.arguments, ("-B", "--bind")) or ""),
                _endpoint(snapshots[1], address),
                generator=client.generator or "iperf3",
                port=server.port,
            ),
            **found,
            client_cpu=_cpu(client.arguments),
            server_cpu=_cpu(server.arguments),
        )
        if plan.generator == "iperf3" and plan.protocol == "udp" and plan.bitrate == 0:
            plan = replace(plan, bitrate=None)  # iperf3: -b 0 means unlimited
        return None if plan_problems(plan) or plan.test not in get_args(TestKind) else plan
    except (ValueError, OverflowError):
        return None


def loaded_plan(requests: RunPlan, server: TrafficRequest, client: TrafficRequest | None = None) -> RunPlan | None:
    """The plan of a loaded run. `requests`: of its part with requests; `server`, `client`: requests to start the
    generators of its bulk flow; client None: not sent yet, a flow with default options is assumed. None: they are not
    those of a valid plan."""
    try:
        arguments = client.arguments if client is not None else ()
        found = {name: value for name, value in _parse_options(arguments).items() if name in LOAD_FIELDS}
        plan = replace(
            requests,
            test="loaded",
            time=(requests.time - LOAD_RAMP_SECONDS - LOAD_START_SECONDS) // 2,
            rate=None if requests.rate == DEFAULT_LOADED_RATE else requests.rate,
            generator=server.generator or "iperf3",
            **found,
        )
        return None if plan_problems(plan) else plan
    except (ValueError, OverflowError):
        return None


def _parse_options(arguments: Sequence[str]) -> dict[str, Any]:
    known = {field.name for field in fields(RunPlan)}
    found: dict[str, Any] = {}
    rest = iter(arguments[:MAX_GENERATOR_ARGUMENTS])
    for option in rest:
        if option in FLAG_OPTIONS:
            name, value = FLAG_OPTIONS[option]
            found[name] = value
        elif option in VALUE_OPTIONS:
            name, parse = VALUE_OPTIONS[option]
            assert name in known
            found[name] = parse(next(rest, ""))
        elif option in IGNORED_OPTIONS:
            next(rest, None)
    return found


def _value(arguments: Sequence[str], options: Sequence[str]) -> str | None:
    for option, value in pairwise(arguments):
        if option in options:
            return value
    return None


def _cpu(arguments: Sequence[str]) -> int | None:
    value = _value(arguments, ("-A", "--affinity"))
    return None if value is None else int(value)


def _endpoint(snapshot: Snapshot, address: str) -> Endpoint:
    """The NIC is the link with this address; None if there is none or several."""
    bare = address.partition("%")[0]
    ifindexes = [link.ifindex for link in snapshot.links.values() if any(one.address == bare for one in link.addresses)]
    return Endpoint(snapshot.host, ifindexes[0] if len(ifindexes) == 1 else None, address)
