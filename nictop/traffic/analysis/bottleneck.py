"""The bottleneck of a run, as one sentence with its evidence, or what was excluded.

Reads nothing; takes a `Result`. Causes are examined in the order in which one hides the next: the requested rate, the
limits of a cloud instance, the ceiling, steal by the hypervisor, a CPU limit of the generator's cgroup, a full CPU or
thread, all CPUs full, windows, losses.
A cause is named only if its arithmetic gives the measured rate (`cpu_limits`, `path_limits`). Otherwise the bottleneck
is "not determined", with what is possible and what is excluded, each with its figures. The network between the hosts
and the hypervisor below a guest are named only if nothing on either host remains.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.text import units
from nictop.traffic.analysis import cpu_limits, path_limits
from nictop.traffic.analysis.judgement import Judgement, combined, is_above_ceiling, on_one_machine, packets_text
from nictop.traffic.analysis.loss_causes import why_nothing_arrived
from nictop.traffic.analysis.setup_facts import NicSetup
from nictop.traffic.results.result import REACHED_SHARE, Flow, Result

AT_CEILING_SHARE = 0.97
"""Of the ceiling: measured runs over a shaped wire reach 0.995 to 1.000 of it, UDP 0.982."""


def bottleneck(result: Result, setups: Mapping[str, NicSetup] | None = None) -> str:
    """The sentence; "" for a run without goodput or a failed one, as its rate is not meaningful. `setups`: host → its
    chosen NIC."""
    if result.failure is not None:
        return ""
    if result.empty_flows:
        return _nothing_arrived(result)
    flows = [flow for flow in result.flows if flow.goodput is not None]
    if not flows:
        return ""
    flow = max(flows, key=lambda one: one.goodput or 0.0)
    nics = setups or {}
    found = combined(
        (
            path_limits.qdiscs(result, flow, nics),
            _bitrate(result, flow),
            path_limits.instance_limits(result, flow, nics),
            _ceiling(result),
            cpu_limits.steal(result, flow),
            cpu_limits.throttled(result, flow),
            cpu_limits.full_cpus(result, flow, nics),
            cpu_limits.all_cpus(result, flow),
            path_limits.windows(result, flow, nics),
            path_limits.losses(result, flow, nics),
        )
    )
    text = found.cause or _not_determined(result, flow, found)
    retransmits = path_limits.retransmitted(result, flow)
    more = (
        retransmits if "retransmits" not in text else "",
        path_limits.tunnel_hint(result, flow, nics),
    )
    return "; ".join((text, *filter(None, more)))


def _nothing_arrived(result: Result) -> str:
    flows = result.empty_flows
    ways = " and ".join(f"from {flow.sender} to {flow.receiver}" for flow in flows)
    sent = units.bytes_(sum((flow.sent.bytes or 0) for flow in flows if flow.sent is not None))
    parts = [f"nothing arrived {ways}"]
    if any(flow.sent is not None and flow.sent.bytes for flow in flows):
        # What a sender of TCP has written may still be in its socket buffer.
        is_udp = result.plan.protocol == "udp"
        parts.append(f"all {sent} that were sent are lost" if is_udp else f"written: {sent}")
    return "; ".join((*parts, *why_nothing_arrived(result)))


def _bitrate(result: Result, flow: Flow) -> Judgement:
    requested = (result.plan.bitrate or 0) * result.plan.streams
    if not requested:
        return Judgement()
    if (flow.goodput or 0.0) >= REACHED_SHARE * requested:
        return Judgement(f"requested rate {units.bits_per_second(requested)}")
    return Judgement("", (f"requested rate ({units.bits_per_second(requested)})",))


def _ceiling(result: Result) -> Judgement:
    share, ceiling = result.of_ceiling, result.ceiling
    if share is None or ceiling is None:
        return Judgement()
    if is_above_ceiling(result):
        return Judgement("", ("line rate (exceeded)",))
    if share < AT_CEILING_SHARE:
        return Judgement("", (f"line rate ({units.percentage(share)} of it)",))
    return Judgement(f"line rate: {units.percentage(share)} of {ceiling.sentence}")


def _not_determined(result: Result, flow: Flow, found: Judgement) -> str:
    """What remains possible, and what was excluded."""
    rate = packets_text(result, flow).removeprefix(", at ")
    text = f"not determined{f' ({rate})' if rate else ''}"
    excluded = f"; excluded: {', '.join(found.excluded)}" if found.excluded else ""
    if found.possible:
        return f"{text}; possible: {', '.join(found.possible)}{excluded}"
    remaining = (
        "both ends share this machine"
        if on_one_machine(result)
        else ("network between the hosts, hypervisor of a guest")
    )
    return f"{text}; possible: {remaining}{excluded}"
