"""iperf3: command line arguments of both ends, and the parser of its output.

Reads nothing. The probe adds role, port and address (``-s -1 -p PORT -B ADDRESS``, ``-c ADDRESS -p
PORT``); the arguments here follow them. Output is JSON where iperf3 can write each interval as JSON
(3.17 and later), text otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.probe.records import TrafficTools
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.generators.iperf3_json import JsonOutput
from nictop.traffic.generators.iperf3_text import TextOutput
from nictop.traffic.plan.plan import Direction, RunPlan
from nictop.traffic.plan.tools import streams_json

IPERF3_CONNECT_TIMEOUT_MS = 5000
BITRATE_LIMIT_FACTOR = 4
"""Limit of a server beside the rate of the plan. iperf3 ends a run whose mean of five seconds is
above it. A sender that was paused catches up at full speed: after five seconds
(`RunTimeouts.stall`) that mean is twice the rate."""
DIRECTION_ARGUMENTS: dict[Direction, list[str]] = {
    "forward": [],
    "reverse": ["-R"],
    "bidirectional": ["--bidir"],
}
NOT_ON_WINDOWS = ("-C", "-Z")
"""Options that iperf3.exe does not have: -C is for Linux and FreeBSD only (iperf3(1)), -Z needs
sendfile(2), which Cygwin does not have."""
MAX_BITRATE_LIMIT = 10**15
"""Bits per second, exclusive: what the probe accepts as a value."""


def iperf3_server_arguments(plan: RunPlan, tools: TrafficTools) -> tuple[str, ...]:
    return (*_format(plan, tools), *_bitrate_limit(plan, tools), *_affinity(plan.server_cpu))


def iperf3_client_arguments(plan: RunPlan, tools: TrafficTools) -> tuple[str, ...]:
    arguments = [*_format(plan, tools)]
    if "--connect-timeout" in tools.options:
        arguments += ["--connect-timeout", str(IPERF3_CONNECT_TIMEOUT_MS)]
    if plan.client.address:
        arguments += ["-B", plan.client.address]
    return (*arguments, *_test_arguments(plan))


def iperf3_typed_command(plan: RunPlan, program: str) -> str:
    """``iperf3 -c 192.0.2.2 -p 5201 -t 10 -P 1``, to be typed on the host of a foreign client."""
    words = [program, "-c", plan.server.address, "-p", str(plan.port), *_test_arguments(plan)]
    return " ".join(map(shell_quote, words))


def options_unknown_to_windows(plan: RunPlan) -> tuple[str, ...]:
    """Of the typed command."""
    return tuple(word for word in _test_arguments(plan) if word in NOT_ON_WINDOWS)


def _test_arguments(plan: RunPlan) -> tuple[str, ...]:
    """What is sent, and how."""
    arguments = ["-t", str(plan.time), "-P", str(plan.streams)]
    bitrate = plan.bitrate
    if plan.protocol == "udp":
        arguments.append("-u")
        bitrate = bitrate or 0  # unlimited; without -b, iperf3 sends UDP with 1 Mbit/s
    arguments += DIRECTION_ARGUMENTS[plan.direction]
    if plan.zerocopy:
        arguments.append("-Z")
    for option, value in (
        ("-O", plan.omit or None),
        ("-b", bitrate),
        ("-l", plan.length),
        ("-M", plan.mss),
        ("-w", plan.window),
        ("-C", plan.congestion),
        ("-S", plan.type_of_service),
    ):
        if value is not None:
            arguments += [option, str(value)]
    return (*arguments, *_affinity(plan.client_cpu))


def _bitrate_limit(plan: RunPlan, tools: TrafficTools) -> Sequence[str]:
    """For a client that is not that of the run: it gets no more than a few times the rate of the
    plan."""
    if plan.bitrate is None or "--server-bitrate-limit" not in tools.options:
        return ()
    directions = 2 if plan.direction == "bidirectional" else 1
    limit = BITRATE_LIMIT_FACTOR * plan.bitrate * plan.streams * directions
    if not 0 < limit < MAX_BITRATE_LIMIT:
        return ()
    return ("--server-bitrate-limit", str(limit))


def _format(plan: RunPlan, tools: TrafficTools) -> Sequence[str]:
    options: tuple[str, ...]
    options = ("--json-stream",) if streams_json(tools) else ("--forceflush", "-f", "k")
    if plan.foreign_side == "server" and not streams_json(tools):
        options += ("-V",)  # with the CPU of the server
    return (*options, "-i", f"{plan.interval:g}")


def _affinity(cpu: int | None) -> Sequence[str]:
    if cpu is None:
        return ()
    return ("-A", str(cpu))


def iperf3_output(plan: RunPlan, tools: TrafficTools) -> JsonOutput | TextOutput:
    """The parser for the output of one end."""
    if streams_json(tools):
        return JsonOutput(plan.interval)
    return TextOutput(plan.interval)
