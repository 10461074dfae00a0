"""What was heard of a run → its `Result`: one axis for all hosts, totals, load, proof, ceiling, bottleneck.

Reads nothing. The axis begins where the seconds that count begin; what was omitted is before 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nictop.model.devices.ceiling import (
    Ceiling,
    Framing,
    Limit,
    ceiling,
    end_limits,
    framing_of,
    payload_and_wire,
    transmit_rates,
)
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Counters
from nictop.traffic.analysis.bottleneck import bottleneck
from nictop.traffic.analysis.cpu_load import HostLoad, HostRole, host_load
from nictop.traffic.analysis.judgement import is_above_ceiling
from nictop.traffic.analysis.path_proof import ObservedHost, PathProof, proof
from nictop.traffic.analysis.setup_facts import NicSetup, facts, nic_setup
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Total
from nictop.traffic.live.flow_view import with_sockets
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.tools import differences
from nictop.traffic.results.result import Flow, IntervalPoint, Result, SocketFigures
from nictop.traffic.run.endpoint import RunEnd, socket_figures, socket_retransmits
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.stopped import stopped_too_early, until_stopped

WIRE_ONLY = 24
"""Bytes of a frame that no netdev counts: preamble, gap and FCS."""


@dataclass(frozen=True, eq=False)
class RunLog:
    """All that a run has left."""

    plan: RunPlan
    ends: Mapping[Side, RunEnd]
    hosts: Mapping[str, RunHost]
    wall: float
    """Seconds since the epoch at its start."""
    before: Mapping[str, Counters | None]
    """Host → the last record before the first byte."""
    after: Mapping[str, Counters | None]
    """Host → the first record after the last byte."""
    failure: Failure | None = None
    stopped: float | None = None
    """Seconds that had counted when somebody stopped it; None: nobody did."""

    @property
    def seconds(self) -> float:
        """That count."""
        return float(self.plan.time) if self.stopped is None else self.stopped


def result_of(heard: RunLog) -> Result:
    """The run as a value; also of one that failed, with what there is of it."""
    plan, axis = heard.plan, zero(heard)
    snapshots = {name: host.snapshot for name, host in heard.hosts.items()}
    flows = tuple(_flow(heard, side, axis) for side in plan.sending)
    if heard.stopped is not None:
        flows = tuple(map(until_stopped, flows))
    tools = {side: end.tools for side, end in heard.ends.items() if end.tools is not None}
    both = "client" in tools and "server" in tools
    figures = _sockets(heard, axis)
    result = Result(
        plan=plan,
        wall=heard.wall,
        flows=flows,
        hosts=_loads(heard, flows, axis),
        sockets=figures,
        ceiling=run_ceiling(plan, snapshots),
        proof=_proof(heard, flows) if axis is not None else None,
        failure=heard.failure or stopped_too_early(heard.stopped, flows),
        stopped=heard.stopped,
        facts=facts(plan, snapshots, tools),
        notes=differences(tools["client"], tools["server"]) if both and plan.generator == "iperf3" else (),
        clock_uncertainty=_uncertainty(heard),
    )
    return replace(
        result, bottleneck=bottleneck(result, _setups(plan, snapshots)), notes=(*result.notes, *_notes(result))
    )


def run_ceiling(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> Ceiling:
    """What the wire between the chosen NICs can carry; known before the run."""
    framing = run_framing(plan, snapshots)
    found = pairs(snapshots.values())
    rates = transmit_rates(snapshots.values(), found)
    limits: list[Limit] = []
    unknown: list[str] = []
    for place in (plan.client, plan.server):
        snapshot = snapshots.get(place.host)
        if snapshot is None or place.ifindex is None:
            unknown.append(f"no NIC of {place.host} was chosen")
            continue
        known, why = end_limits(snapshot, place.ifindex, rates, sends=place.host in plan.senders)
        limits += known
        unknown += [why] if why else []
    return ceiling(limits, framing, unknown)


def run_framing(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> Framing:
    """How its payload is packed."""
    base = Framing(1500, plan.ip_version, plan.protocol, mss=plan.mss)
    if plan.protocol == "udp":
        base = replace(base, length=plan.length or 1448)
    ends = []
    for place in (plan.client, plan.server):
        snapshot = snapshots.get(place.host)
        ends.append((snapshot if snapshot is not None else Snapshot.empty(place.host), place.ifindex or 0))
    tags = {one.guest: one.port_vlan for one in pairs(snapshots.values()).virtual_functions if one.port_vlan}
    return framing_of(ends[0], ends[1], base, tags)


def zero(heard: RunLog) -> float | None:
    """Where the axis begins, in seconds of this machine's CLOCK_MONOTONIC: told by the client, else by the server."""
    for side in ("client", "server"):
        end = heard.ends[side]
        anchor = end.anchor
        if anchor is not None:
            return anchor + end.omitted - heard.hosts[end.host].offset.seconds
    return None


def first_after(host: RunHost, moment: float) -> Counters | None:
    """The first counter record of a moment on the host's clock, or later; None: it has not come."""
    return next((record for record in host.records if record.time >= moment), None)


def has_told(host: RunHost, moment: float) -> bool:
    """That record is there, or will not come."""
    return first_after(host, moment) is not None or host.snapshot.state != "live"


# ------------------------------------------------------------------------------------------------------- directions


def _flow(heard: RunLog, sender: Side, axis: float | None) -> Flow:
    plan = heard.plan
    giving, taking = heard.ends["client"], heard.ends["server"]
    if sender == "server":
        giving, taking = taking, giving
    sent = giving.total(sends=True, by_sender=True) or taking.total(sends=False, by_sender=True)
    received = taking.total(sends=False, by_sender=False) or giving.total(sends=True, by_sender=False)
    retransmits = sent.retransmits if sent is not None else None
    if retransmits is None and plan.protocol == "tcp" and axis is not None:
        retransmits = socket_retransmits(giving, *_window(heard, giving, axis))
    return Flow(
        giving.host,
        taking.host,
        sent,
        received,
        _points(heard, taking, False, axis) or _points(heard, giving, True, axis),
        retransmits,
        _sent_points(heard, giving, axis),
    )


def _points(heard: RunLog, end: RunEnd, sends: bool, axis: float | None) -> tuple[IntervalPoint, ...]:
    anchor = end.anchor
    if anchor is None or axis is None:
        return ()
    shift = anchor - heard.hosts[end.host].offset.seconds - axis
    return tuple(
        IntervalPoint(shift + one.end + (0.0 if one.omitted else end.omitted), one)
        for _, one in end.intervals
        if one.sends == sends
    )


def _sent_points(heard: RunLog, end: RunEnd, axis: float | None) -> tuple[IntervalPoint, ...]:
    points = _points(heard, end, True, axis)
    if axis is None or heard.plan.protocol == "udp":
        return points
    shift = axis + heard.hosts[end.host].offset.seconds
    return with_sockets(points, ((time - shift, sockets) for time, sockets in end.sockets), heard.plan.interval)


def _window(heard: RunLog, end: RunEnd, axis: float) -> tuple[float, float]:
    """What counts, on the clock of an end's host."""
    since = axis + heard.hosts[end.host].offset.seconds
    return since, since + heard.seconds + heard.plan.interval


def _sockets(heard: RunLog, axis: float | None) -> tuple[SocketFigures, ...]:
    if axis is None or heard.plan.protocol == "udp":
        return ()
    found = []
    for side in heard.plan.sending:
        end = heard.ends[side]
        figures = socket_figures(end, *_window(heard, end, axis))
        found += [figures] if figures is not None else []
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ load, proof


def _loads(heard: RunLog, flows: Sequence[Flow], axis: float | None) -> tuple[HostLoad, ...]:
    goodput = sum(flow.goodput or 0.0 for flow in flows)
    found = []
    for name, role, place in _roles(heard):
        host = heard.hosts.get(name)
        if axis is None or host is None:
            found.append(HostLoad(name, role, None))
            continue
        found.append(
            host_load(
                name,
                role,
                tuple(host.records),
                (0.0, heard.seconds),
                offset=host.offset.seconds + axis,
                snapshot=host.snapshot,
                bits_per_second=goodput or None,
                ifindex=place.ifindex if place is not None else None,
                readings=[line for end in heard.ends.values() if end.host == name for line in end.threads],
                pids=_pids(heard, host),
            )
        )
    return tuple(found)


def _pids(heard: RunLog, host: RunHost) -> frozenset[int]:
    """Processes of both ends that run on the machine of a host: it may have two names."""

    def machine(name: str) -> str:
        known = heard.hosts.get(name)
        hello = known.snapshot.hello if known is not None else None
        return (hello.boot_id if hello is not None else "") or name

    here = machine(host.name)
    return frozenset(end.pid for end in heard.ends.values() if end.pid is not None and machine(end.host) == here)


def _roles(heard: RunLog) -> list[tuple[str, HostRole, Endpoint | None]]:
    plan = heard.plan
    ends: list[tuple[str, HostRole, Endpoint | None]] = [(plan.client.host, "client", plan.client)]
    if plan.server.host != plan.client.host:
        ends.append((plan.server.host, "server", plan.server))
    known = {name for name, _, _ in ends}
    return ends + [(name, "observer", None) for name in heard.hosts if name not in known]


def _proof(heard: RunLog, flows: Sequence[Flow]) -> PathProof:
    moved = {flow.sender: [0.0, 0.0] for flow in flows} | {flow.receiver: [0.0, 0.0] for flow in flows}
    for flow in flows:
        size = max(sum(point.interval.bytes for point in flow.points), _size(flow.received))
        moved[flow.receiver][0] += size
        moved[flow.sender][1] += size
    framing = run_framing(heard.plan, {name: host.snapshot for name, host in heard.hosts.items()})
    watched = {
        name: ObservedHost(heard.before.get(name), heard.after.get(name), host.snapshot)
        for name, host in heard.hosts.items()
    }
    expected = {host: (pair[0], pair[1]) for host, pair in moved.items()}
    return proof(
        heard.plan,
        watched,
        expected,
        carried_for_each_byte(framing, flows),
        headers=carried_for_each_byte(framing, ()),
        failed=heard.failure is not None,
    )


def carried_for_each_byte(framing: Framing, flows: Sequence[Flow]) -> float:
    """Bytes that a netdev counts at most for each one that arrived: headers, and the datagrams that were lost behind
    it, of the flow that lost most."""
    payload, wire = payload_and_wire(framing)
    overhead = (wire - WIRE_ONLY) / payload if payload else 1.0
    if framing.protocol != "udp":
        return overhead
    sizes = [(_size(flow.sent), _size(flow.received)) for flow in flows]
    return overhead * max((sent / arrived for sent, arrived in sizes if sent > arrived > 0), default=1.0)


def _size(total: Total | None) -> float:
    if total is None:
        return 0.0
    return total.bytes if total.bytes is not None else total.bits_per_second * total.seconds / 8


def _setups(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> dict[str, NicSetup]:
    """Of the chosen NICs, by host."""
    found = {}
    for place in (plan.client, plan.server):
        snapshot = snapshots.get(place.host)
        link = snapshot.links.get(place.ifindex or 0) if snapshot is not None else None
        if snapshot is not None and link is not None:
            found[place.host] = nic_setup(link, snapshot)
    return found


def _notes(result: Result) -> tuple[str, ...]:
    ends = result.proof.hosts if result.proof is not None else ()
    found = [f"{one.sentence}: more than the run, so that there was other traffic" for one in ends if one.foreign]
    if result.stopped is not None:  # what was under way when it was stopped is in no interval
        found = [f"stopped after {result.stopped:.1f} of {result.plan.time} s"]
    if is_above_ceiling(result):
        found.append("more than the wire can carry: the ceiling does not limit this path")
    return tuple(found)


def _uncertainty(heard: RunLog) -> float | None:
    """Of the host whose clock is known worst."""
    known = [host.offset.uncertainty for host in heard.hosts.values()]
    return max((one for one in known if one is not None), default=None) if None not in known else None
