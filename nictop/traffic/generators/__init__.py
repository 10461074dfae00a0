"""The two generators behind one shape: what to ask a probe for, and how to read what comes back."""

from __future__ import annotations

from typing import Literal, Protocol

from nictop.probe.records import TrafficTools
from nictop.traffic.generators.builtin import BuiltInOutput, client_words, server_words
from nictop.traffic.generators.intervals import GeneratorOutput
from nictop.traffic.generators.iperf3 import Iperf3Output, client_arguments, server_arguments
from nictop.traffic.plan.plan import RunPlan

Side = Literal["client", "server"]


class Output(Protocol):
    """Takes the lines of one end in order."""

    def feed(self, line: str) -> tuple[GeneratorOutput, ...]:
        """What a line completes; garbage completes nothing."""

    def finish(self) -> tuple[GeneratorOutput, ...]:
        """What is still held when no more lines come."""


def arguments(plan: RunPlan, side: Side, tools: TrafficTools) -> tuple[str, ...]:
    """Options of one end's command line, without what the probe says itself."""
    if plan.generator == "builtin":
        return client_words(plan) if side == "client" else server_words(plan)
    return client_arguments(plan, tools) if side == "client" else server_arguments(plan, tools)


def output(plan: RunPlan, tools: TrafficTools) -> Output:
    """What reads the lines of one end."""
    return BuiltInOutput(plan.interval) if plan.generator == "builtin" else Iperf3Output(plan, tools)
