"""iperf3: command line arguments of both ends, and the parser of its output.

Reads nothing. The probe adds role, port and address (``-s -1 -p PORT -B ADDRESS``, ``-c ADDRESS -p PORT``); the
arguments here follow them. Output is JSON where iperf3 can write each interval as JSON (3.17 and later), text
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.probe.records import TrafficTools
from nictop.traffic.generators.iperf3_json import JsonOutput
from nictop.traffic.generators.iperf3_text import TextOutput
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.tools import streams_json

IPERF3_CONNECT_TIMEOUT_MS = 5000


def iperf3_server_arguments(plan: RunPlan, tools: TrafficTools) -> tuple[str, ...]:
    return (*_format(plan, tools), *_affinity(plan.server_cpu))


def iperf3_client_arguments(plan: RunPlan, tools: TrafficTools) -> tuple[str, ...]:
    arguments = [*_format(plan, tools), "-t", str(plan.time), "-P", str(plan.streams)]
    arguments += ["--connect-timeout", str(IPERF3_CONNECT_TIMEOUT_MS)] if "--connect-timeout" in tools.options else []
    arguments += ["-B", plan.client.address]
    arguments += ["-u"] if plan.protocol == "udp" else []
    arguments += {"forward": [], "reverse": ["-R"], "bidirectional": ["--bidir"]}[plan.direction]
    arguments += ["-Z"] if plan.zerocopy else []
    bitrate = 0 if plan.bitrate is None and plan.protocol == "udp" else plan.bitrate
    for option, value in (
        ("-O", plan.omit or None),
        ("-b", bitrate),
        ("-l", plan.length),
        ("-M", plan.mss),
        ("-w", plan.window),
        ("-C", plan.congestion),
        ("-S", None if plan.dscp is None else plan.dscp << 2),
    ):
        arguments += [] if value is None else [option, str(value)]
    return (*arguments, *_affinity(plan.client_cpu))


def _format(plan: RunPlan, tools: TrafficTools) -> Sequence[str]:
    options = ("--json-stream",) if streams_json(tools) else ("--forceflush", "-f", "k")
    return (*options, "-i", f"{plan.interval:g}")


def _affinity(cpu: int | None) -> Sequence[str]:
    return () if cpu is None else ("-A", str(cpu))


def iperf3_output(plan: RunPlan, tools: TrafficTools) -> JsonOutput | TextOutput:
    """The parser for the output of one end."""
    return JsonOutput(plan.interval) if streams_json(tools) else TextOutput(plan.interval)
