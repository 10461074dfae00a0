"""NICs of guests and containers with the ports of bridges that they are connected to, and the VLANs
that they use.

Reads nothing. Two watched hosts are joined by MAC address (`nictop.model.devices.pairs`); in one
network namespace the ends of a veth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from nictop.model.devices.bridges import (
    AwarePort,
    aware_port,
    bridge_of,
    filters_vlans,
    pvid,
    veth_peer,
)
from nictop.model.devices.links import has_global_address
from nictop.model.devices.pairs import pairs
from nictop.model.devices.subnets import vlan_id
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import BridgeVlan, Link
from nictop.rules.far_ends import EndKey, far_ends
from nictop.rules.finding import WhereToType
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.profiles.outward import is_outward
from nictop.rules.routes.segments import WatchedLink
from nictop.rules.subjects import is_up

TUNNEL_KINDS = ("vxlan", "geneve", "gretap", "ip6gretap", "batadv", "wireguard")
"""Kinds of ports that lead to other hosts without a device of their own."""
DEFAULT_PROTOCOL = "802.1Q"


@dataclass(frozen=True, eq=False)
class Attachment:
    """A NIC, and the tap or veth of a bridge that it is connected to."""

    guest: HostFacts
    nic: Link
    owner: HostFacts
    """Host of the bridge."""
    tap: Link
    """The other end of the NIC."""
    machine: str | None = None
    """Name of the virtual machine."""

    @property
    def place(self) -> WhereToType:
        """Where commands about the bridge are typed."""
        return "here" if self.guest is self.owner else "peer"

    @cached_property
    def aware(self) -> AwarePort | None:
        """Port of a bridge with VLAN filtering."""
        return aware_port(self.tap, self.owner.snapshot.links)

    @cached_property
    def base(self) -> Link:
        """What VLAN links are above: the NIC, or the bond of which it is a port."""
        above = self.guest.master_of(self.nic)
        return above if above is not None and above.kind in ("bond", "team") else self.nic

    @cached_property
    def vlan_links(self) -> tuple[Link, ...]:
        """VLAN links of the guest on this NIC that are up."""
        found = []
        for link in self.guest.links:
            is_on_base = link.lower == self.base.ifindex and link.lower_namespace is None
            if link.kind == "vlan" and is_on_base and is_up(link) and vlan_id(link):
                found.append(link)
        return tuple(found)

    @cached_property
    def sends_untagged(self) -> bool:
        """The NIC itself is in use: it has an address, or no VLAN links. Not known for a port of
        the guest's bridge."""
        if not is_up(self.base) or self.base.carrier is not True or self.base.master is not None:
            return False
        return not self.vlan_links or has_global_address(self.base)

    @cached_property
    def vlans(self) -> frozenset[int]:
        """IDs of the VLANs on its port that the guest uses."""
        found = {vlan_id(link) for link in self.vlan_links}
        if self.aware is not None and self.sends_untagged:
            found.add(pvid(self.aware.vlans))
        return frozenset(number for number in found if number is not None)


def is_working(link: Link) -> bool:
    return is_up(link) and link.carrier is True


def has_filtering_bridge(host: HostFacts) -> bool:
    return any(link.kind == "bridge" and filters_vlans(link) for link in host.links)


def vlans_of(link: Link) -> tuple[BridgeVlan, ...]:
    """Of a bridge port, or of a bridge itself; (): none, or not known."""
    return link.bridge_vlans or ()


def ports_of(host: HostFacts, bridge: Link) -> tuple[Link, ...]:
    return host.ports.get(bridge.ifindex, ())


def uplinks(host: HostFacts, bridge: Link) -> tuple[Link, ...]:
    """Ports that are up, with a carrier, and lead to other hosts."""
    found = []
    for port in ports_of(host, bridge):
        if is_working(port) and (port.kind in TUNNEL_KINDS or is_outward(host, port)):
            found.append(port)
    return tuple(found)


def vlan_protocol(link: Link) -> object:
    """802.1Q or 802.1ad: of a VLAN link, or of a bridge."""
    return link.details.get(
        "vlan_protocol" if link.kind == "vlan" else "bridge_vlan_protocol", DEFAULT_PROTOCOL
    )


def attachments(hosts: Sequence[HostFacts]) -> tuple[Attachment, ...]:
    """Every watched NIC that is connected to a bridge of a watched host."""
    return _attachments(tuple(hosts))


@once_per_diagnosis
def nics_behind_ports(hosts: tuple[HostFacts, ...]) -> dict[EndKey, WatchedLink]:
    """Tap or veth → the NIC of a watched host that is connected to it."""
    found = {}
    for at in attachments(hosts):
        found[at.owner.name, at.tap.ifindex] = WatchedLink(at.guest, at.nic)
    for key, far in far_ends(hosts).items():
        found[key] = WatchedLink(*far)
    return found


@once_per_diagnosis
def _attachments(hosts: tuple[HostFacts, ...]) -> tuple[Attachment, ...]:
    """Computed once for all rules of a diagnosis: hosts are compared by identity."""
    found = [attachment for host in hosts for attachment in _by_veth(host)]
    if len(hosts) > 1 and any(link.kind == "bridge" for host in hosts for link in host.links):
        by_name = {host.name: host for host in hosts}
        for pair in pairs([host.snapshot for host in hosts]).taps:
            guest, owner = by_name[pair.guest.host], by_name[pair.tap.host]
            tap = owner.snapshot.links[pair.tap.ifindex]
            if bridge_of(tap, owner.snapshot.links) is not None:
                nic = guest.snapshot.links[pair.guest.ifindex]
                found.append(Attachment(guest, nic, owner, tap, pair.machine))
    return tuple(found)


def _by_veth(host: HostFacts) -> Iterator[Attachment]:
    """Veths of which the other end is on a bridge of the same network namespace."""
    for link in host.links:
        if link.master is not None:
            continue
        peer = veth_peer(link, host.snapshot.links)
        if peer is not None and bridge_of(peer, host.snapshot.links) is not None:
            yield Attachment(host, link, host, peer)
