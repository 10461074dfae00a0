"""A watched hypervisor whose packet filter drops what is bridged between the two ends of a test.

Reads nothing. An end is a guest of it if its NIC is connected to a tap, or its veth to a port, of a
bridge there (`nictop.model.devices.pairs`). If both ends are outside the hypervisor itself, what
they send to each other passes that bridge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from nictop.model.devices.bridges import bridge_of
from nictop.model.devices.filter_evaluation import FrameFamily
from nictop.model.devices.forward_filters import BridgeFilter, forward_filters
from nictop.model.devices.pairs import TapPair, pairs
from nictop.model.snapshot import Snapshot
from nictop.probe.light_tuples import NamedTuple
from nictop.rules.host import HostFacts


class RefusingBridge(NamedTuple):
    """A bridge whose frames are dropped, and its host."""

    host: HostFacts
    found: BridgeFilter


def refusing_bridge(
    snapshots: Mapping[str, Snapshot], ends: Iterable[tuple[str, int | None]], *, is_ipv6: bool
) -> RefusingBridge | None:
    """The first bridge that an end is connected to and that does not let its packets pass; None:
    there is none, or no hypervisor is watched. `ends`: host and ifindex of both."""
    both = tuple(ends)
    names = {host for host, _ in both}
    family: FrameFamily = "ipv6" if is_ipv6 else "ipv4"
    known = [snapshot for snapshot in snapshots.values() if snapshot.inventory is not None]
    if len(known) < 2:
        return None
    for tap in pairs(known).taps:
        is_of_end = (tap.guest.host, tap.guest.ifindex) in both
        if not is_of_end or tap.tap.host in names:
            continue
        host = HostFacts(snapshots[tap.tap.host])
        refusing = _first_refusing(host, _bridges_of(host, tap), family)
        if refusing is not None:
            return RefusingBridge(host, refusing)
    return None


def _first_refusing(
    host: HostFacts, bridges: Collection[str], family: FrameFamily
) -> BridgeFilter | None:
    """Of these bridges, that drops frames of the family, or ARP."""
    if not bridges:
        return None
    for found in forward_filters(host.snapshot).refused:
        is_refused = family in found.refusals or "arp" in found.refusals
        if is_refused and found.bridge.name in bridges:
            return found
    return None


def _bridges_of(host: HostFacts, tap: TapPair) -> set[str]:
    """Names of the bridges that a tap is a port of, as pairs and its master say."""
    found = {tap.bridge} if tap.bridge else set()
    port = host.link_at(tap.tap.ifindex)
    bridge = bridge_of(port, host.snapshot.links) if port is not None else None
    if bridge is not None:
        found.add(bridge.name)
    return found
