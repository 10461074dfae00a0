"""A watched hypervisor whose packet filter drops what is bridged between the two ends of a test.

Reads nothing. An end is a guest of it if its NIC is connected to a tap, or its veth to a port, of a bridge there
(`nictop.model.devices.pairs`). If both ends are outside the hypervisor itself, what they send to each other passes that
bridge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nictop.model.devices.bridges import bridge_of
from nictop.model.devices.forward_filters import BridgeFilter, FrameFamily, forward_filters
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.rules.host import HostFacts


class RefusingBridge(NamedTuple):
    """A bridge whose frames are dropped, and its host."""

    host: HostFacts
    found: BridgeFilter


def refusing_bridge(
    snapshots: Mapping[str, Snapshot], ends: Iterable[tuple[str, int | None]], *, is_ipv6: bool
) -> RefusingBridge | None:
    """The first bridge that an end is connected to and that does not let its packets pass; None: there is none, or no
    hypervisor is watched. `ends`: host and ifindex of both."""
    both = tuple(ends)
    names = {host for host, _ in both}
    family: FrameFamily = "ipv6" if is_ipv6 else "ipv4"
    known = [snapshot for snapshot in snapshots.values() if snapshot.inventory is not None]
    if len(known) < 2:
        return None
    for tap in pairs(known).taps:
        host = snapshots[tap.tap.host]
        if (tap.guest.host, tap.guest.ifindex) not in both or tap.tap.host in names:
            continue
        port = host.links.get(tap.tap.ifindex)
        bridge = bridge_of(port, host.links) if port is not None else None
        bridges = {tap.bridge, bridge.name if bridge is not None else ""} - {""}
        for found in forward_filters(host).refused if bridges else ():
            if found.bridge.name in bridges and {family, "arp"}.intersection(found.refusals):
                return RefusingBridge(HostFacts(host), found)
    return None
