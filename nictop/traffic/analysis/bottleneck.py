"""What held a run back, in one sentence with its evidence, or what was excluded.

Reads nothing; takes a `Result`. Looked for in the order in which one hides the next: the rate asked for, the ceiling,
the hypervisor that gives time to others, a CPU or thread that is full, CPUs that all are, windows, losses. A cause is
named only when its arithmetic gives the measured rate (`cpu_limits`, `path_limits`). Otherwise it is "not determined":
with what is possible and what is excluded, each with its figures. The network between the hosts and the hypervisor
below a guest are named only when nothing on either host is left.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.text import units
from nictop.traffic.analysis import cpu_limits, path_limits
from nictop.traffic.analysis.judgement import Judgement, is_above_ceiling, on_one_machine, packets, together
from nictop.traffic.analysis.setup_facts import NicSetup
from nictop.traffic.results.result import Flow, Result

AT_CEILING = 0.97
"""Share of the ceiling: measured runs over a shaped wire reach 0.995 to 1.000 of it, UDP 0.982."""
AT_BITRATE = 0.98


def bottleneck(result: Result, setups: Mapping[str, NicSetup] | None = None) -> str:
    """The sentence; "" for a run without goodput, or one that failed: how far it came is no rate. `setups`: host →
    its chosen NIC."""
    flows = [flow for flow in result.flows if flow.goodput is not None]
    if not flows or result.failure is not None:
        return ""
    flow = max(flows, key=lambda one: one.goodput or 0.0)
    nics = setups or {}
    found = together(
        (
            path_limits.qdiscs(result, flow, nics),
            _bitrate(result, flow),
            _ceiling(result),
            cpu_limits.steal(result, flow),
            cpu_limits.cpus(result, flow, nics),
            cpu_limits.all_cpus(result, flow),
            path_limits.windows(result, flow),
            path_limits.losses(result, flow, nics),
        )
    )
    if not found.cause:
        return _not_determined(result, flow, found)
    again = path_limits.retransmitted(result, flow)
    return f"{found.cause}, while {again}" if again and "retransmits" not in found.cause else found.cause


def _bitrate(result: Result, flow: Flow) -> Judgement:
    asked = (result.plan.bitrate or 0) * result.plan.streams
    if not asked:
        return Judgement()
    if (flow.goodput or 0.0) >= AT_BITRATE * asked:
        return Judgement(f"the bitrate that was asked for: {units.bits_per_second(asked)}")
    return Judgement("", (f"bitrate asked for ({units.bits_per_second(asked)})",))


def _ceiling(result: Result) -> Judgement:
    share, ceiling = result.of_ceiling, result.ceiling
    if share is None or ceiling is None:
        return Judgement()
    if is_above_ceiling(result):
        return Judgement("", ("ceiling (exceeded)",))
    if share < AT_CEILING:
        return Judgement("", (f"ceiling ({units.percentage(share)} of it)",))
    return Judgement(f"the ceiling: {units.percentage(share)} of {ceiling.sentence}")


def _not_determined(result: Result, flow: Flow, found: Judgement) -> str:
    """What is left, and what was looked at, so that nobody looks there again."""
    rate = packets(result, flow).removeprefix(", at ")
    told = f"not determined{f' ({rate})' if rate else ''}"
    excluded = f"; excluded: {', '.join(found.excluded)}" if found.excluded else ""
    if found.possible:
        return f"{told}; possible: {', '.join(found.possible)}{excluded}"
    left = (
        "how both ends share this machine"
        if on_one_machine(result)
        else ("the network between the hosts, or the hypervisor below a guest")
    )
    return f"{told}; possible: {left}{excluded}"
