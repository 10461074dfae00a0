"""iperf3: the command lines of both ends, and its output line by line, whichever form it has.

Reads nothing. The probe puts role, port and address in front (``-s -1 -p PORT -B ADDRESS``, ``-c ADDRESS -p PORT``);
here is what follows. An end that can tell intervals as JSON is asked to (3.17 and later); any other one writes text.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.probe.records import TrafficTools
from nictop.traffic.generators.intervals import GeneratorOutput
from nictop.traffic.generators.iperf3_json import JsonOutput
from nictop.traffic.generators.iperf3_text import TextOutput
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.tools import streams_json

CONNECT_PATIENCE = 5000
"""Milliseconds."""


def server_arguments(plan: RunPlan, tools: TrafficTools) -> tuple[str, ...]:
    """Of the server's command line, without what the probe says itself."""
    return (*_form(plan, tools), *_pinned(plan.server_cpu))


def client_arguments(plan: RunPlan, tools: TrafficTools) -> tuple[str, ...]:
    """Of the client's command line, without what the probe says itself."""
    words = [*_form(plan, tools), "-t", str(plan.time), "-P", str(plan.streams)]
    words += ["--connect-timeout", str(CONNECT_PATIENCE)] if "--connect-timeout" in tools.options else []
    words += ["-B", plan.client.address]
    words += ["-u"] if plan.protocol == "udp" else []
    words += {"forward": [], "reverse": ["-R"], "bidirectional": ["--bidir"]}[plan.direction]
    words += ["-Z"] if plan.zerocopy else []
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
        words += [] if value is None else [option, str(value)]
    return (*words, *_pinned(plan.client_cpu))


def _form(plan: RunPlan, tools: TrafficTools) -> Sequence[str]:
    form = ("--json-stream",) if streams_json(tools) else ("--forceflush", "-f", "k")
    return (*form, "-i", f"{plan.interval:g}")


def _pinned(cpu: int | None) -> Sequence[str]:
    return () if cpu is None else ("-A", str(cpu))


class Iperf3Output:
    """What one end says, as values: intervals once all streams have told them, totals, and failures."""

    def __init__(self, plan: RunPlan, tools: TrafficTools) -> None:
        self._parser = JsonOutput(plan.interval) if streams_json(tools) else TextOutput(plan.interval)

    def feed(self, line: str) -> tuple[GeneratorOutput, ...]:
        """What a line completes. Garbage completes nothing."""
        return self._parser.feed(line)

    def finish(self) -> tuple[GeneratorOutput, ...]:
        """What is still held when no more lines come."""
        return self._parser.finish()
