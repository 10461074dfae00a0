"""Headers and sizes of the packets of a run, and the limit of the wire between its NICs.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.devices.ceiling import (
    Ceiling,
    Framing,
    Limit,
    ceiling,
    combined_framing,
    end_limits,
    payload_and_wire,
    transmit_rates,
)
from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.traffic.generators.intervals import Total
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.results.result import Flow, datagram_bytes

UNCOUNTED_FRAME_BYTES = 24
"""Bytes of a frame that no netdev counts: preamble, gap and FCS."""
DEFAULT_MTU = 1500


def run_ceilings(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> tuple[Ceiling, ...]:
    """Limit of the wire between the chosen NICs for each of the flows: what limits only what an end
    sends does not limit what it receives. Known before the run; () of a run without bulk flows."""
    if not plan.has_bulk:
        return ()
    framing = run_framing(plan, snapshots)
    found = pairs(snapshots.values())
    rates = transmit_rates(snapshots.values(), found)
    return tuple(_flow_ceiling(plan, snapshots, framing, rates, host) for host in plan.senders)


def with_ceilings(flows: Sequence[Flow], ceilings: Sequence[Ceiling]) -> tuple[Flow, ...]:
    """Each with its own, if they differ."""
    if len({ceiling.sentence for ceiling in ceilings}) < 2:
        return tuple(flows)
    return tuple(
        replace(flow, ceiling=ceiling) for flow, ceiling in zip(flows, ceilings, strict=True)
    )


def _flow_ceiling(
    plan: RunPlan,
    snapshots: Mapping[str, Snapshot],
    framing: Framing,
    rates: Mapping[End, int],
    sender: str,
) -> Ceiling:
    limits: list[Limit] = []
    unknown: list[str] = []
    for endpoint in plan.watched_ends:
        snapshot = snapshots.get(endpoint.host)
        if snapshot is None or endpoint.ifindex is None:
            unknown.append(f"no NIC selected on {endpoint.host}")
            continue
        known, why = end_limits(snapshot, endpoint.ifindex, rates, sends=endpoint.host == sender)
        limits += known
        if why:
            unknown.append(why)
    return ceiling(limits, framing, unknown)


def run_framing(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> Framing:
    """Headers and sizes of the packets of the run."""
    plan = plan.load or plan
    base = Framing(DEFAULT_MTU, plan.ip_version, plan.protocol, mss=plan.mss)
    if plan.protocol == "udp":
        base = replace(base, length=datagram_bytes(plan))
    tags = {
        function.guest: function.port_vlan
        for function in pairs(snapshots.values()).virtual_functions
        if function.port_vlan
    }
    client, server = _nic(plan.client, snapshots), _nic(plan.server, snapshots)
    return combined_framing(client, server, base, tags)


def _nic(endpoint: Endpoint, snapshots: Mapping[str, Snapshot]) -> tuple[Snapshot, int]:
    """Its host, empty if that is not known, and its ifindex."""
    snapshot = snapshots.get(endpoint.host)
    if snapshot is None:
        snapshot = Snapshot.empty(endpoint.host)
    return snapshot, endpoint.ifindex or 0


def carried_per_byte(framing: Framing, flows: Sequence[Flow]) -> float:
    """Bytes that a netdev counts at most for each byte of payload that arrived: headers, and lost
    datagrams or repeated segments, of the flow that lost the largest share."""
    payload, wire = payload_and_wire(framing)
    overhead = (wire - UNCOUNTED_FRAME_BYTES) / payload if payload else 1.0
    shares = [_sent_per_byte(flow, framing, payload) for flow in flows]
    return overhead * max(shares, default=1.0)


def _sent_per_byte(flow: Flow, framing: Framing, payload: float) -> float:
    """Bytes that were sent for each one that arrived, at least 1. `payload`: bytes of a packet."""
    sent, arrived = total_bytes(flow.sent), total_bytes(flow.received)
    if framing.protocol != "udp":  # what a sender reports was written to its sockets
        sent = arrived + (flow.retransmits or 0) * payload
    return sent / arrived if sent > arrived > 0 else 1.0


def total_bytes(total: Total | None) -> float:
    """Payload."""
    if total is None:
        return 0.0
    if total.bytes is not None:
        return total.bytes
    return total.bits_per_second * total.seconds / 8
