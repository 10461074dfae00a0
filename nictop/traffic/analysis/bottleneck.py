"""The bottleneck of a run: one sentence with its evidence, and a table of all limits that were
examined.

Reads nothing; takes a `Result`. Causes are examined in the order in which one hides the next: the
requested rate, the limits of a cloud instance, the ceiling, a port shared with VFs, steal by the
hypervisor, a CPU limit of the generator's cgroup, a full CPU or thread, all CPUs full, windows,
losses.
A cause is named only if its arithmetic gives the measured rate (`cpu_limits`, `path_limits`,
`qdisc_limits`).
Otherwise the bottleneck is "not determined", with what is possible and what is excluded, each with
its figures. The network between the hosts and the hypervisor below a guest are named only if
nothing on either host remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.model.devices.ceiling import ethernet_text
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.traffic.analysis import cpu_limits, path_limits, qdisc_limits
from nictop.traffic.analysis.judgement import (
    Judgement,
    Phrase,
    combined,
    is_above_ceiling,
    limit_rows,
    on_one_machine,
    packets_text,
    undetermined_text,
)
from nictop.traffic.analysis.loss_causes import why_nothing_arrived
from nictop.traffic.analysis.setup_facts import NicSetup
from nictop.traffic.results.port_load import PortLoad
from nictop.traffic.results.result import (
    REACHED_SHARE,
    ExaminedLimit,
    Flow,
    Result,
    lost_by_size,
)

AT_CEILING_SHARE = 0.97
"""Of the ceiling: measured runs over a shaped wire reach 0.995 to 1.000 of it, UDP 0.982."""


def bottleneck(result: Result, setups: Mapping[str, NicSetup] | None = None) -> str:
    """The sentence; "" for a run without goodput or a failed one, as its rate is not meaningful.
    `setups`: host → its chosen NIC."""
    return examined_bottleneck(result, setups)[0]


def examined_bottleneck(
    result: Result, setups: Mapping[str, NicSetup] | None = None
) -> tuple[str, tuple[ExaminedLimit, ...]]:
    """The sentence of `bottleneck`, and all limits that were examined: the cause first, then the
    possible ones."""
    if result.failure is not None:
        return "", ()
    if result.empty_flows:
        return _nothing_arrived(result), ()
    flows = [flow for flow in result.flows if flow.goodput is not None]
    if not flows:
        return "", ()
    flow = max(flows, key=lambda flow: flow.goodput_or_zero)
    nics = setups or {}
    found = _judgement(result, flow, nics)
    rate = packets_text(result, flow).removeprefix(", at ") if found.cause is None else ""
    retransmits = path_limits.retransmitted(result, flow)
    more = tuple(_more_possible(found, retransmits, path_limits.tunnel_hint(result, flow, nics)))
    rates = (Phrase("packet rate", f" ({rate})"),) if rate else ()
    rows = limit_rows(replace(found, possible=(*found.possible, *rates, *more)))
    return _sentence(found, rate, retransmits, more), rows


def _judgement(result: Result, flow: Flow, nics: Mapping[str, NicSetup]) -> Judgement:
    """Of all limits, each of which hides the next one."""
    found = combined(
        (
            qdisc_limits.qdiscs(result, flow, nics),
            _bitrate(result, flow),
            qdisc_limits.instance_limits(result, flow, nics),
            _ceiling(result, flow),
            _ports(result, flow),
            cpu_limits.steal(result, flow),
            cpu_limits.throttled(result, flow),
            cpu_limits.full_cpus(result, flow, nics),
            cpu_limits.all_cpus(result, flow),
            path_limits.windows(result, flow, nics),
            path_limits.losses(result, flow, nics),
        )
    )
    unseen = cpu_limits.unseen_hypervisors(result, flow)
    if result.foreign is not None:
        unseen = (*unseen, Phrase(f"host of {clean(result.foreign.address)}", " (not watched)"))
    if found.cause is None and not found.possible:
        return replace(found, possible=_beyond_the_hosts(result, unseen))
    return replace(found, possible=(*found.possible, *unseen))


def _sentence(found: Judgement, rate: str, retransmits: str, more: tuple[Phrase, ...]) -> str:
    """`more`: what is possible beside the limits. Retransmits of which a limit gives the figures
    are a fact."""
    if found.cause is None:
        return undetermined_text(replace(found, possible=(*found.possible, *more)), rate)
    text = str(found.cause)
    others = ", ".join(map(str, more))
    is_said = "retransmits" in text or retransmits in others
    if retransmits and not is_said:
        text += f"; {retransmits}"
    if not more:
        return text
    return f"{text}; possible: {others}"


def _more_possible(found: Judgement, retransmits: str, hint: Phrase | None) -> Iterator[Phrase]:
    """Losses that no limit names, and what to try."""
    phrases = [*found.possible, *found.excluded]
    if found.cause is not None:
        phrases.append(found.cause)
    is_named = any("retransmits" in str(phrase) for phrase in phrases)
    if retransmits and not is_named:
        yield Phrase("losses", f" ({retransmits})")
    if hint is not None:
        yield hint


def _nothing_arrived(result: Result) -> str:
    flows = result.empty_flows
    ways = " and ".join(f"from {flow.sender} to {flow.receiver}" for flow in flows)
    parts = [f"nothing arrived {ways}"]
    sent = sum(flow.sent.bytes or 0 for flow in flows if flow.sent is not None)
    if sent:
        # What a sender of TCP has written may still be in its socket buffer.
        is_udp = result.plan.protocol == "udp"
        size = units.bytes_(sent)
        parts.append(f"all {size} that were sent are lost" if is_udp else f"written: {size}")
    for flow in flows:
        parts += lost_by_size(result, flow.sender)
    return "; ".join((*parts, *why_nothing_arrived(result)))


def _bitrate(result: Result, flow: Flow) -> Judgement:
    if not result.plan.bitrate:
        return Judgement()
    requested = result.plan.bitrate * result.plan.streams
    rate = units.bits_per_second(requested)
    if flow.goodput_or_zero >= REACHED_SHARE * requested:
        return Judgement.of_cause("requested rate", f" {rate}")
    return Judgement.of_excluded("requested rate", f" ({rate})")


def _ceiling(result: Result, flow: Flow) -> Judgement:
    """Of the direction of the flow, which is named if the other one has a different ceiling."""
    share, ceiling = result.share_of_ceiling(flow), result.ceiling_of(flow)
    if share is None or ceiling is None:
        return Judgement()
    limit = "line rate"
    if flow.ceiling is not None:
        limit = f"line rate from {clean(flow.sender)} to {clean(flow.receiver)}"
    if is_above_ceiling(result):
        return Judgement.of_excluded(limit, " (exceeded)")
    if share < AT_CEILING_SHARE:
        return Judgement.of_excluded(limit, f" ({units.percentage(share)} of it)")
    return Judgement.of_cause(limit, f": {units.percentage(share)} of {ceiling.sentence}")


def _ports(result: Result, flow: Flow) -> Judgement:
    """The line rate of ports that functions share: the NIC counts at the port what all of them
    carry."""
    is_alone = (result.share_of_ceiling(flow) or 0.0) >= AT_CEILING_SHARE
    if is_alone:
        return Judgement()
    return combined(_port(port, flow) for port in result.ports)


def _port(port: PortLoad, flow: Flow) -> Judgement:
    """In the direction in which the flow passes it."""
    sends = port.end == flow.sender
    counted, wire = (port.sent, port.wire_sent) if sends else (port.received, port.wire_received)
    limit = f"port {port.device} of {clean(port.host)}"
    if counted is None:
        return Judgement.of_possible(limit, f" with its VFs ({port.unknown})")
    others = " and other functions" if port.is_shared else ""
    rate = f"{units.bits_per_second(counted)} with its VFs{others}"
    if not port.speed:
        return Judgement.of_possible(limit, f" ({rate}, link speed unknown)")
    share = (wire or counted) / (port.speed * 1e6)
    of_line = f"{units.percentage(share)} of {ethernet_text(port.speed)}"
    if share < AT_CEILING_SHARE:
        return Judgement.of_excluded(limit, f" ({rate}, {of_line})")
    test = units.bits_per_second(flow.goodput_or_zero)
    return Judgement.of_cause(limit, f": {rate}, {of_line}; goodput of this test {test}")


def _beyond_the_hosts(result: Result, unseen: tuple[Phrase, ...]) -> tuple[Phrase, ...]:
    """What remains if nothing on either host does. `unseen`: hypervisors whose steal is not
    shown."""
    if on_one_machine(result):
        return (Phrase("both ends share this machine"), *unseen)
    hypervisors = unseen or (Phrase("hypervisor of a guest"),)
    return (Phrase("network between the hosts"), *hypervisors)
