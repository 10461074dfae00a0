"""Runs in recordings of an older nictop, which did not note their plans and results.

The plan is parsed from the arguments of the generators, which `nictop.traffic.generators` makes;
the result is made by the code that makes that of live runs. Recordings are untrusted input: invalid
arguments give no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, get_args

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Counters, Link, Request, TrafficRequest
from nictop.recording.reader import NOT_YET, Recording
from nictop.replay.items import items_of_hosts
from nictop.replay.run_index import RunMarks
from nictop.traffic.analysis.assemble import result_of
from nictop.traffic.failures import Failure
from nictop.traffic.generators import Side
from nictop.traffic.plan.plan import (
    DEFAULT_LOADED_RATE,
    LOAD_RAMP_SECONDS,
    LOAD_START_SECONDS,
    Endpoint,
    RunPlan,
    TestKind,
)
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.record.log import RunLog, first_record_since, has_record_since
from nictop.traffic.results.result import Result
from nictop.traffic.run.failure_cause import end_failure, no_result_failure

MAX_GENERATOR_ARGUMENTS = 100

VALUE_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "-t": ("time", int), "-P": ("streams", int), "-O": ("omit", int), "-b": ("bitrate", int),
    "-l": ("length", int), "-M": ("mss", int), "-w": ("window", int), "-C": ("congestion", str),
    "-i": ("interval", float), "-S": ("dscp", lambda text: int(text) >> 2),
    "--time": ("time", int), "--streams": ("streams", int), "--omit": ("omit", int),
    "--bitrate": ("bitrate", int), "--length": ("length", int), "--mss": ("mss", int),
    "--window": ("window", int), "--congestion": ("congestion", str), "--interval": ("interval",
    float), "--tos": ("dscp", lambda text: int(text) >> 2),
    "--test": ("test", str), "--response": ("response_size", int), "--files": ("files", int),
    "--rate": ("rate", int),
}  # fmt: skip
"""Option with a value → field of `RunPlan`, and the function that parses the value."""
FLAG_OPTIONS: dict[str, tuple[str, Any]] = {
    "-u": ("protocol", "udp"), "--udp": ("protocol", "udp"), "-R": ("direction", "reverse"),
    "--reverse": ("direction", "reverse"), "--bidir": ("direction", "bidirectional"),
    "-Z": ("zerocopy", True),
}  # fmt: skip
RUN_TAIL_SECONDS = 4.0
"""Seconds after the end of the run in which each host sends a last counter record."""
Requests = dict[tuple[int, Side], TrafficRequest]
"""Number of a flow group, and side → the request to start its generator."""
LOAD_FIELDS = (
    "direction",
    "streams",
    "bitrate",
    "length",
    "mss",
    "window",
    "congestion",
    "zerocopy",
)
"""Fields of the plan of a loaded run that are options of its bulk flow only."""
IGNORED_OPTIONS = (
    "-A",
    "--affinity",
    "-B",
    "--bind",
    "--connect-timeout",
    "-f",
    "--accept",
    "--server-bitrate-limit",
)
"""Options with a value that is not part of the plan, or is only about one end."""


def recorded_plan(
    client: TrafficRequest, server: TrafficRequest, snapshots: tuple[Snapshot, Snapshot]
) -> RunPlan | None:
    """The plan of a run. `client`, `server`: requests to start the generators; `snapshots`: of
    client and server, in which the NICs are found by their addresses. None: the requests are not
    those of a valid plan."""
    try:
        plan = _parsed_plan(client, server, snapshots)
        is_invalid = plan.test not in get_args(TestKind) or bool(plan_problems(plan))
    except (ValueError, OverflowError):
        return None
    if is_invalid:
        return None
    return plan


def _parsed_plan(
    client: TrafficRequest, server: TrafficRequest, snapshots: tuple[Snapshot, Snapshot]
) -> RunPlan:
    """ValueError, OverflowError: an argument is not valid."""
    found = {**_parse_options(server.arguments), **_parse_options(client.arguments)}
    if "test" in found:
        found["request_size"] = found.pop("length", None)
    bound_address = _value(client.arguments, ("-B", "--bind")) or ""
    address = server.address or client.address or ""
    generator = client.generator or "iperf3"
    is_unlimited = found.get("protocol") == "udp" and found.get("bitrate") == 0
    if generator == "iperf3" and is_unlimited:  # iperf3: -b 0 means unlimited
        found["bitrate"] = None
    plan = RunPlan(
        _endpoint(snapshots[0], bound_address),
        _endpoint(snapshots[1], address),
        generator=generator,
        port=server.port,
    )
    return replace(
        plan, **found, client_cpu=_cpu(client.arguments), server_cpu=_cpu(server.arguments)
    )


def loaded_plan(
    requests: RunPlan, server: TrafficRequest, client: TrafficRequest | None = None
) -> RunPlan | None:
    """The plan of a loaded run. `requests`: of its part with requests; `server`, `client`: requests
    to start the generators of its bulk flow; client None: not sent yet, a flow with default options
    is assumed. None: they are not those of a valid plan."""
    rate = requests.rate
    if rate == DEFAULT_LOADED_RATE:
        rate = None
    try:
        plan = replace(
            requests,
            test="loaded",
            time=(requests.time - LOAD_RAMP_SECONDS - LOAD_START_SECONDS) // 2,
            rate=rate,
            generator=server.generator or "iperf3",
            **_load_options(client),
        )
        is_invalid = bool(plan_problems(plan))
    except (ValueError, OverflowError):
        return None
    if is_invalid:
        return None
    return plan


def _load_options(client: TrafficRequest | None) -> dict[str, Any]:
    """Fields of the plan of a loaded run that its bulk flow has set."""
    if client is None:
        return {}
    options = _parse_options(client.arguments)
    return {name: options[name] for name in LOAD_FIELDS if name in options}


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
    if value is None:
        return None
    return int(value)


def _endpoint(snapshot: Snapshot, address: str) -> Endpoint:
    """The NIC is the link with this address; None if there is none or several."""
    bare = address.partition("%")[0]
    owners = [link for link in snapshot.links.values() if _has_address(link, bare)]
    if len(owners) != 1:
        return Endpoint(snapshot.host, None, address)
    return Endpoint(snapshot.host, owners[0].ifindex, address)


def _has_address(link: Link, address: str) -> bool:
    return any(own.address == address for own in link.addresses)


def coming_request(
    recording: Recording, marks: RunMarks, identity: str, now: float
) -> TrafficRequest | None:
    """To the client of a bulk flow, which is started later: its options were known to the user from
    the beginning. None: it is not in the recording. `identity`: of the client."""
    for found in items_of_hosts(recording, (marks.client,), now):
        if found is NOT_YET:
            continue
        recorded, _ = found
        if isinstance(recorded.item, Request):
            request = recorded.item.traffic
            if request is not None and (request.id, request.action) == (identity, "start"):
                return request
        if marks.end is not None and recorded.time > marks.end:
            break
    return None


def failure_of_ends(log: RunLog) -> Failure | None:
    """As the generators reported it; None: they did not."""
    ends = (log.last.ends["client"], log.last.ends["server"])
    for end in sorted(ends, key=lambda end: not end.failed):
        if end.failed or end.problems:
            return end_failure(log.of(log.last), end)
    return None


def derived_result(
    log: RunLog, requests: Requests, stopped: Failure | None, last: float
) -> Result | None:
    """The result, once both ends are over and every host has sent a counter record after that, or
    is late at the time `last`; None: not yet. `stopped`: why nictop stopped its generators."""
    if not _are_over(log, requests):
        return None
    ended = _ended(log)
    read_after = {name: ended + host.offset.seconds for name, host in log.hosts.items()}
    have_records = [has_record_since(host, read_after[name]) for name, host in log.hosts.items()]
    is_late = last >= ended + RUN_TAIL_SECONDS
    if not is_late and not all(have_records):
        return None
    before: dict[str, Counters | None] = {}
    after: dict[str, Counters | None] = {}
    for name, host in log.hosts.items():
        before[name] = next(iter(host.records), None)
        after[name] = first_record_since(host, read_after[name])
    log.before, log.after = before, after
    log.failure = stopped or failure_of_ends(log)
    has_totals = any(end.totals for end in log.last.ends.values())
    if log.failure is None and not has_totals:
        log.failure = no_result_failure(log.of(log.last))
    return result_of(log)


def _ended(log: RunLog) -> float:
    """When its last generator ended, on the common time axis."""
    times = []
    for end in log.all_ends:
        if end.ended:
            times.append(end.ended - log.hosts[end.host].offset.seconds)
    return max(times)


def _are_over(log: RunLog, requests: Requests) -> bool:
    """All generators that were started have ended."""
    for number, group in enumerate(log.groups):
        for side, end in group.ends.items():
            was_started = number == 0 or (number, side) in requests
            if was_started and end.ended is None:
                return False
    return True
