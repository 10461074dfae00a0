"""Dropped packets, counted by reason, place and NIC: `Drop` → `DropGroup`. Pure; of limited
size."""

from __future__ import annotations

from typing import Optional

from nictop.probe.records import DropFlow, DropGroup
from nictop.probe.traffic.drops.messages import Drop, Flow, parse_flow, parse_macs

MAX_GROUPS = 256
MAX_FLOWS = 64
"""Counted in one group."""
MAX_REPORTED_FLOWS = 5

Key = tuple[bool, str, str, str, Optional[int], str]
"""Whether hardware dropped it, reason, place, trap group, ifindex; source MAC address of a packet
that was not received."""


class _Counts:
    def __init__(self, mac: str) -> None:
        self.packets = self.bytes = 0
        self.mac = mac
        self.flows: dict[Flow, int] = {}


class DropCounter:
    """Counts packets; `packets` has all of them, `groups` those of the first `MAX_GROUPS`
    groups."""

    def __init__(self) -> None:
        self.packets = 0
        self._counts: dict[Key, _Counts] = {}

    def add(self, drop: Drop) -> None:
        self.packets += 1
        source, destination = parse_macs(drop.packet, drop.protocol)
        mac = destination if drop.ifindex else source
        key = (
            drop.hardware,
            drop.reason,
            drop.place,
            drop.trap_group,
            drop.ifindex,
            "" if drop.ifindex else source,
        )
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= MAX_GROUPS:
                return
            counts = self._counts[key] = _Counts(mac)
        counts.packets += 1
        counts.bytes += drop.size
        if counts.mac != mac:
            counts.mac = ""
        flow = parse_flow(drop.packet, drop.protocol)
        if flow in counts.flows or len(counts.flows) < MAX_FLOWS:
            counts.flows[flow] = counts.flows.get(flow, 0) + 1

    def groups(self) -> tuple[DropGroup, ...]:
        """By packets, in descending order."""
        found = []
        for key, counts in sorted(self._counts.items(), key=lambda one: -one[1].packets):
            hardware, reason, place, trap_group, ifindex, _ = key
            flows = sorted(counts.flows.items(), key=lambda one: -one[1])[:MAX_REPORTED_FLOWS]
            group = DropGroup(
                reason=reason,
                place=place,
                ifindex=ifindex,
                packets=counts.packets,
                bytes=counts.bytes,
                mac=counts.mac or None,
                hardware=hardware,
                trap_group=trap_group,
                flows=tuple(DropFlow(*flow, packets) for flow, packets in flows),
            )
            found.append(group)
        return tuple(found)
