"""The traffic generators, iperf3, ntttcp and the built-in one, behind one interface: command line
arguments and output parsers."""

from __future__ import annotations

from typing import Literal, Protocol

from nictop.probe.records import TrafficTools
from nictop.traffic.generators.builtin import (
    BUILTIN_ACCEPT_SECONDS,
    BuiltInOutput,
    builtin_client_arguments,
    builtin_floor_arguments,
    builtin_server_arguments,
)
from nictop.traffic.generators.intervals import GeneratorOutput
from nictop.traffic.generators.iperf3 import (
    iperf3_client_arguments,
    iperf3_output,
    iperf3_server_arguments,
    iperf3_typed_command,
    options_unknown_to_windows,
)
from nictop.traffic.generators.ntttcp import (
    NtttcpOutput,
    ntttcp_receiver_arguments,
    ntttcp_sender_arguments,
    ntttcp_typed_command,
    ntttcp_windows_command,
)
from nictop.traffic.plan.plan import RunPlan

Side = Literal["client", "server"]


class OutputParser(Protocol):
    """Parses the output of one end; lines are fed in order."""

    def feed(self, line: str, time: float = 0.0) -> tuple[GeneratorOutput, ...]:
        """What a line completes; nothing if it is invalid. `time`: when it was written, seconds of
        its host."""

    def finish(self) -> tuple[GeneratorOutput, ...]:
        """What is still incomplete when the output has ended."""


def generator_arguments(
    plan: RunPlan, side: Side, tools: TrafficTools, *, delay: int = 0
) -> tuple[str, ...]:
    """Command line arguments of one end, without those that the probe adds itself. `delay`: seconds
    after which the client is started."""
    if plan.generator == "builtin":
        if side == "client":
            return builtin_client_arguments(plan)
        return builtin_server_arguments(plan, BUILTIN_ACCEPT_SECONDS + delay)
    if plan.generator == "ntttcp":
        if side == "client":
            return ntttcp_sender_arguments(plan)
        return ntttcp_receiver_arguments(plan)
    if side == "client":
        return iperf3_client_arguments(plan, tools)
    return iperf3_server_arguments(plan, tools)


def typed_commands(plan: RunPlan) -> tuple[str, ...]:
    """For the host of the foreign end: the command, and that for Windows, each with where it is for
    if it is not the first one."""
    if plan.generator == "ntttcp":
        role = "-s" if plan.foreign_side == "client" else "-r"
        windows = f"on Windows: {ntttcp_windows_command(plan, role)}"
        return ntttcp_typed_command(plan, role), windows
    windows = f"on Windows: {iperf3_typed_command(plan, 'iperf3.exe')}"
    lacking = options_unknown_to_windows(plan)
    if lacking:
        windows = f"on Windows iperf3.exe has no {', '.join(lacking)}"
    return iperf3_typed_command(plan, "iperf3"), windows


def floor_arguments(plan: RunPlan, side: Side) -> tuple[str, ...]:
    """Arguments of a measurement of the built-in generator alone, on the host of one end."""
    return builtin_floor_arguments(plan, plan.client_cpu if side == "client" else plan.server_cpu)


def output_parser(plan: RunPlan, tools: TrafficTools, side: Side) -> OutputParser:
    """The parser for the output of one end."""
    if plan.generator == "ntttcp":
        return NtttcpOutput(sends=side == "client", omit=plan.omit)
    if plan.generator == "builtin":
        return BuiltInOutput(plan.interval)
    return iperf3_output(plan, tools)
