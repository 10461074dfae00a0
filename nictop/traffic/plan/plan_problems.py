"""What is invalid in a plan itself, whatever the hosts support (`tools.refusals` lists that).

Reads nothing.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator

from nictop.traffic.plan.plan import (
    LOAD_RAMP_SECONDS,
    LOAD_START_SECONDS,
    MAX_BITRATE,
    MAX_BUILTIN_MESSAGE_BYTES,
    MAX_COMMAND_CHARS,
    MAX_CPU,
    MAX_FILES,
    MAX_INTERVAL_SECONDS,
    MAX_IPERF3_MESSAGE_BYTES,
    MAX_MSS,
    MAX_OMIT_SECONDS,
    MAX_PATTERN_CHARS,
    MAX_PORT,
    MAX_REQUEST_RATE,
    MAX_STREAMS,
    MAX_TIME_SECONDS,
    MAX_TRANSACTION_REPORTS,
    MAX_UDP_PAYLOAD_BYTES,
    MAX_WAIT_SECONDS,
    MAX_WINDOW_BYTES,
    MIN_DATAGRAM_BYTES,
    MIN_INTERVAL_SECONDS,
    MIN_MSS,
    MIN_REQUEST_DATAGRAM_BYTES,
    MIN_WINDOW_BYTES,
    RunPlan,
)
from nictop.traffic.plan.problem import Problem

RANGES = (
    ("mss", "mss", MIN_MSS, MAX_MSS),
    ("window", "window", MIN_WINDOW_BYTES, MAX_WINDOW_BYTES),
    ("bitrate", "rate", 1, MAX_BITRATE),
    ("dscp", "dscp", 0, 63),
    ("client_cpu", "client CPU", 0, MAX_CPU),
    ("server_cpu", "server CPU", 0, MAX_CPU),
    ("port", "port", 1, MAX_PORT),
    ("wait", "wait", 1, MAX_WAIT_SECONDS),
)
"""Field, its name in a sentence, least and largest value; before them come those that depend on the
test."""
BULK_OPTIONS = (
    ("direction", "reverse and bidirectional are options"),
    ("bitrate", "rate is an option"),
    ("zerocopy", "zerocopy is an option"),
)
"""Field that a test of requests and responses does not have, and how the sentence on it begins."""


GENERATOR_OPTIONS = (
    ("foreign", "a foreign end"), ("wait", "wait"),
    ("direction", "direction"), ("protocol", "protocol"), ("bitrate", "rate"), ("omit", "omit"),
    ("streams", "streams"), ("length", "block size"), ("mss", "mss"), ("window", "window"),
    ("congestion", "congestion control"), ("dscp", "dscp"), ("client_cpu", "client CPU"),
    ("server_cpu", "server CPU"), ("zerocopy", "zerocopy"), ("port", "port"),
    ("request_size", "size"), ("files", "files"), ("rate", "request rate"),
)  # fmt: skip
"""Field that a workload does not have, and its name."""
GUEST_BY_HAND = "a guest is measured by hand (--manual)"
WORKLOAD_OPTIONS = (
    ("workload", "the command"),
    ("value_pattern", "value"),
    ("judged_by", "by"),
)


def plan_problems(plan: RunPlan) -> tuple[Problem, ...]:
    """() if nothing is invalid."""
    return tuple(_problems(plan))


def _problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.is_of_one_host:
        yield from _one_host_problems(plan)
        return
    if plan.foreign or plan.foreign_client:
        yield from _foreign_problems(plan)
    for field, name in WORKLOAD_OPTIONS:
        if getattr(plan, field):
            yield Problem(field, f"{name} is an option of a workload")
    if plan.guest:
        yield Problem("guest", GUEST_BY_HAND)
    yield from _end_problems(plan)
    yield from _range_problems(plan)
    bulk = plan.load or plan
    yield from _length_problems(bulk)
    yield from _protocol_problems(bulk)
    if plan.has_requests:
        yield from _transaction_problems(plan.requests)
    else:
        yield from _bulk_problems(plan)


def _end_problems(plan: RunPlan) -> Iterator[Problem]:
    versions = set()
    for endpoint in (plan.client, plan.server):
        try:
            versions.add(ipaddress.ip_address(endpoint.address).version)
        except ValueError:
            yield Problem("", f'"{endpoint.address}" is not an IP address')
    if len(versions) > 1:
        yield Problem("", "one end has an IPv4 address, the other an IPv6 address")
    if plan.client == plan.server and not _is_loopback(plan.client.address):
        yield Problem("", "client and server are the same address")


def _foreign_problems(plan: RunPlan) -> Iterator[Problem]:
    side, end = plan.foreign_side, plan.foreign_end
    if side is None or end is None:
        yield Problem("foreign_client", "a client that somebody starts is one of --foreign")
        return
    if plan.test != "bulk":
        yield Problem("test", f"a foreign {side} is one of iperf3: it has no test {plan.test}")
    if plan.generator == "builtin":
        yield Problem("generator", f"a foreign {side} is one of iperf3 or ntttcp")
    if side == "server" and plan.server_cpu is not None:
        yield Problem("server_cpu", "the CPU of a foreign server cannot be chosen")
    if end.host != end.address:
        yield Problem("", f"a foreign {side} is named by its address")


def _one_host_problems(plan: RunPlan) -> Iterator[Problem]:
    yield from _range_problems(plan)
    if plan.client != plan.server:
        yield Problem("", "a workload has one host: --observe monitors others")
    if plan.test == "workload":
        yield from _command_problems(plan)
    if plan.guest and plan.test != "manual":
        yield Problem("guest", GUEST_BY_HAND)
    elif plan.test != "workload" and (plan.workload or plan.value_pattern):
        yield Problem("workload", "a measurement by hand has no command")
    default = RunPlan(plan.client, plan.server)
    for field, name in GENERATOR_OPTIONS:
        if getattr(plan, field) != getattr(default, field):
            yield Problem(field, f"{name} is an option of traffic that nictop generates")


def _command_problems(plan: RunPlan) -> Iterator[Problem]:
    command = plan.workload
    if not command.strip():
        yield Problem("workload", "the command is missing, e.g. --workload 'fio job.fio'")
    elif len(command) > MAX_COMMAND_CHARS or not command.isprintable():
        longest = f"of at most {MAX_COMMAND_CHARS} characters, without tabs"
        yield Problem("workload", f"the command is not one line {longest}: put it into a script")
    pattern = plan.value_pattern
    if len(pattern) > MAX_PATTERN_CHARS or not pattern.isprintable():
        longest = f"of at most {MAX_PATTERN_CHARS} characters"
        yield Problem("value_pattern", f"value is not a regular expression {longest}")


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _range_problems(plan: RunPlan) -> Iterator[Problem]:
    streams = "streams" if plan.has_bulk else "connections"
    ranges = (
        ("time", "time", 1, _longest_time(plan)),
        ("omit", "omit", 0, MAX_OMIT_SECONDS),
        ("streams", streams, 1, MAX_STREAMS),
        *RANGES,
    )
    for field, name, least, most in ranges:
        value = getattr(plan, field)
        if value is not None and not least <= value <= most:
            yield Problem(field, f"{name} must be {least} to {most}, not {value}")
    if not MIN_INTERVAL_SECONDS <= plan.interval <= MAX_INTERVAL_SECONDS:
        least_and_most = f"{MIN_INTERVAL_SECONDS:g} to {MAX_INTERVAL_SECONDS} s"
        yield Problem("interval", f"interval must be {least_and_most}, not {plan.interval:g}")


def _longest_time(plan: RunPlan) -> int:
    """Seconds; of a loaded run, of each phase."""
    longest = MAX_TIME_SECONDS - max(0, min(plan.omit, MAX_OMIT_SECONDS))
    if plan.test == "loaded":
        return (longest - LOAD_RAMP_SECONDS - LOAD_START_SECONDS) // 2
    if plan.foreign_client:
        return longest - max(0, min(plan.wait, MAX_WAIT_SECONDS))
    return longest


def _length_problems(plan: RunPlan) -> Iterator[Problem]:
    length, is_udp = plan.length, plan.protocol == "udp"
    if length is None:
        return
    least = MIN_DATAGRAM_BYTES if is_udp else 1
    generator, most = "iperf3", MAX_IPERF3_MESSAGE_BYTES
    if plan.generator == "builtin":
        generator, most = "the built-in generator", MAX_BUILTIN_MESSAGE_BYTES
    if length < least:
        yield Problem("length", f"block size must be at least {least}, not {length}")
    elif is_udp and length > MAX_UDP_PAYLOAD_BYTES:
        most_of_udp = f"at most {MAX_UDP_PAYLOAD_BYTES}, not {length}"
        yield Problem("length", f"block size of UDP must be {most_of_udp}")
    elif length > most:
        yield Problem("length", f"block size of {generator} must be at most {most}, not {length}")


def _bulk_problems(plan: RunPlan) -> Iterator[Problem]:
    size = plan.request_size or plan.response_size
    for field, name, value, tests in (
        ("request_size", "size", size, "tests rr, crr and loaded"),
        ("files", "files", plan.files, "test crr"),
        ("rate", "request rate", plan.rate, "tests rr and loaded"),
    ):
        if value is not None:
            yield Problem(field, f"{name} is an option of the {tests}")


def _transaction_problems(plan: RunPlan) -> Iterator[Problem]:
    """`plan`: of the requests alone."""
    if plan.generator != "builtin":
        yield Problem("generator", f"{plan.generator} has no request/response test")
    is_set = {
        "direction": plan.direction != "forward",
        "bitrate": plan.bitrate is not None,
        "zerocopy": plan.zerocopy,
    }
    for field, words in BULK_OPTIONS:
        if is_set[field]:
            yield Problem(field, f"{words} of the bulk test, not of {plan.test}")
    if plan.length is not None:
        instead = f"use size for {plan.test}"
        yield Problem("length", f"block size is an option of the bulk test: {instead}")
    if plan.test == "crr" and plan.protocol == "udp":
        yield Problem("protocol", "crr needs TCP: UDP has no connections")
    yield from _files_problems(plan)
    yield from _request_rate_problems(plan)
    yield from _report_problems(plan)
    yield from _size_problems(plan)


def _files_problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.files is None:
        return
    if plan.test != "crr":
        yield Problem("files", "files is an option of the test crr")
    if not 1 <= plan.files <= MAX_FILES:
        yield Problem("files", f"files must be 1 to {MAX_FILES}, not {plan.files}")
    if plan.omit:
        yield Problem("files", "files excludes omit")


def _request_rate_problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.rate is None:
        return
    if plan.test == "crr":
        yield Problem("rate", "request rate is an option of the tests rr and loaded")
    elif not plan.streams <= plan.rate <= MAX_REQUEST_RATE:
        least = f"{plan.streams} (one per connection)"
        allowed = f"{least} to {MAX_REQUEST_RATE}"
        yield Problem("rate", f"request rate must be {allowed}, not {plan.rate}")


def _report_problems(plan: RunPlan) -> Iterator[Problem]:
    """Each report of such a test has a histogram: their number is limited."""
    if plan.interval <= 0 or plan.time <= MAX_TRANSACTION_REPORTS * plan.interval:
        return
    shortest = math.ceil(10 * plan.time / MAX_TRANSACTION_REPORTS) / 10
    in_run = f"in a run of {plan.time} s, not {plan.interval:g}"
    yield Problem("interval", f"interval must be at least {shortest:g} s {in_run}")


def _size_problems(plan: RunPlan) -> Iterator[Problem]:
    least, most = 1, MAX_BUILTIN_MESSAGE_BYTES
    if plan.protocol == "udp":
        least, most = MIN_REQUEST_DATAGRAM_BYTES, MAX_UDP_PAYLOAD_BYTES
    for size in dict.fromkeys((plan.request_size, plan.response_size)):
        if size is not None and not least <= size <= most:
            yield Problem("request_size", f"size must be {least} to {most}, not {size}")


def _protocol_problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.generator == "builtin":
        yield from _builtin_problems(plan)
    if plan.generator == "ntttcp":
        yield from _ntttcp_problems(plan)
    if plan.protocol == "udp":
        yield from _udp_problems(plan)
    if plan.congestion is not None and not plan.congestion.replace("_", "").isalnum():
        yield Problem("congestion", f'congestion control: "{plan.congestion}" is not a name')


def _builtin_problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.direction == "bidirectional":
        why = "the built-in generator sends in one direction"
        yield Problem("direction", f"bidirectional needs iperf3: {why}")
    if plan.zerocopy and plan.protocol == "tcp":
        yield Problem("zerocopy", "zerocopy needs iperf3")


NTTTCP_LACKS = ("bitrate", "mss", "window", "congestion", "dscp", "client_cpu", "server_cpu")
"""Fields of options that nictop does not use with ntttcp, or that it does not have."""


def _ntttcp_problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.test != "bulk":
        yield Problem("generator", f"ntttcp has no test {plan.test}")
    if plan.direction != "forward":
        why = "the client sends: name the hosts the other way round"
        yield Problem("direction", f"ntttcp has no {plan.direction} mode: {why}")
    if plan.protocol == "udp":
        yield Problem("protocol", "with ntttcp TCP is measured: it does not report lost datagrams")
    for field in NTTTCP_LACKS:
        if getattr(plan, field) is not None:
            yield Problem(field, f"{field.replace('_', ' ')} is not an option with ntttcp")
    if plan.zerocopy:
        yield Problem("zerocopy", "zerocopy is not an option with ntttcp")
    if plan.port + plan.streams - 1 > MAX_PORT:
        yield Problem("port", f"ntttcp uses {plan.streams} ports from the first one on")


def _udp_problems(plan: RunPlan) -> Iterator[Problem]:
    if plan.mss is not None:
        yield Problem("mss", "mss is an option of TCP, not of UDP")
    if plan.congestion is not None:
        yield Problem("congestion", "congestion control is an option of TCP, not of UDP")
    if plan.zerocopy:
        yield Problem("zerocopy", "zerocopy is an option of TCP, not of UDP")
