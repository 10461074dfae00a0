"""The plan of a run, from what both probes were asked to start: the words of `nictop.traffic.generators`, read back.

Pure. What a file says is not to be trusted: words that mean no plan give none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

from nictop.model.snapshot import Snapshot
from nictop.probe.records import TrafficRequest
from nictop.traffic.plan.plan import Endpoint, RunPlan, problems

MAX_GENERATOR_ARGUMENTS = 100

VALUE_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "-t": ("time", int), "-P": ("streams", int), "-O": ("omit", int), "-b": ("bitrate", int), "-l": ("length", int),
    "-M": ("mss", int), "-w": ("window", int), "-C": ("congestion", str), "-i": ("interval", float),
    "-S": ("dscp", lambda text: int(text) >> 2),
    "--time": ("time", int), "--streams": ("streams", int), "--omit": ("omit", int), "--bitrate": ("bitrate", int),
    "--length": ("length", int), "--mss": ("mss", int), "--window": ("window", int),
    "--congestion": ("congestion", str), "--interval": ("interval", float),
    "--tos": ("dscp", lambda text: int(text) >> 2),
}  # fmt: skip
"""Option that has a value → field of `RunPlan`, and how it is read."""
FLAG_OPTIONS: dict[str, tuple[str, Any]] = {
    "-u": ("protocol", "udp"), "--udp": ("protocol", "udp"), "-R": ("direction", "reverse"),
    "--reverse": ("direction", "reverse"), "--bidir": ("direction", "bidirectional"), "-Z": ("zerocopy", True),
}  # fmt: skip
IGNORED_OPTIONS = ("-A", "--affinity", "-B", "--bind", "--connect-timeout", "-f", "--accept")
"""Options with a value that is of one end, or of no plan."""


def recorded_plan(
    client: TrafficRequest, server: TrafficRequest, snapshots: tuple[Snapshot, Snapshot]
) -> RunPlan | None:
    """What both ends were asked to do; `snapshots`: of client and server. The NICs are those that bear the addresses:
    nothing else of them is asked for. None: it is no run."""
    try:
        found = {**_told(server.arguments), **_told(client.arguments)}
        address = server.address or client.address or ""
        plan = replace(
            RunPlan(
                _place(snapshots[0], _value(client.arguments, ("-B", "--bind")) or ""),
                _place(snapshots[1], address),
                generator=client.generator or "iperf3",
                port=server.port,
            ),
            **found,
            client_cpu=_cpu(client.arguments),
            server_cpu=_cpu(server.arguments),
        )
        if plan.generator == "iperf3" and plan.protocol == "udp" and plan.bitrate == 0:
            plan = replace(plan, bitrate=None)  # iperf3 is told so for "as fast as it goes"
        return None if problems(plan) else plan
    except (ValueError, OverflowError):
        return None


def _told(words: Sequence[str]) -> dict[str, Any]:
    known = {field.name for field in fields(RunPlan)}
    found: dict[str, Any] = {}
    left = iter(words[:MAX_GENERATOR_ARGUMENTS])
    for word in left:
        if word in FLAG_OPTIONS:
            name, value = FLAG_OPTIONS[word]
            found[name] = value
        elif word in VALUE_OPTIONS:
            name, read = VALUE_OPTIONS[word]
            assert name in known
            found[name] = read(next(left, ""))
        elif word in IGNORED_OPTIONS:
            next(left, None)
    return found


def _value(words: Sequence[str], options: Sequence[str]) -> str | None:
    for word, value in pairwise(words):
        if word in options:
            return value
    return None


def _cpu(words: Sequence[str]) -> int | None:
    value = _value(words, ("-A", "--affinity"))
    return None if value is None else int(value)


def _place(snapshot: Snapshot, address: str) -> Endpoint:
    """The NIC is the one that bears the address; None when several do, or none."""
    bare = address.partition("%")[0]
    bearing = [link.ifindex for link in snapshot.links.values() if any(one.address == bare for one in link.addresses)]
    return Endpoint(snapshot.host, bearing[0] if len(bearing) == 1 else None, address)
