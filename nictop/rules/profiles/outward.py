"""Addresses that other hosts can reach through a device, and whether two links may be in one
network.

Pure. Included: links with a device, and bridges, bonds, VLANs and the like above one; veths only if
their peer is a watched link. Not included: bridges used only by containers or virtual machines
(docker0, virbr0, lxdbr0), which are internal to their host, so that equal addresses are no
conflict.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.links import global_addresses
from nictop.model.devices.subnets import LinkAddress, separation
from nictop.model.snapshot import is_same_machine
from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Address, Link
from nictop.rules.host import HostFacts

KINDS_ABOVE_SEVERAL_LINKS = ("bridge", "bond", "team")
KINDS_ABOVE_ONE_LINK = ("vlan", "macvlan", "ipvlan")
"""Kinds of links that stand for the device below them."""
MAX_STACK_DEPTH = 4
"""VLAN above a bridge above a bond above a NIC."""


@dataclass(frozen=True, eq=False)
class NetworkPlace:
    """An address of a link of a watched host."""

    host: HostFacts
    link: Link
    address: Address
    configured_only: bool = False
    """A profile sets it, and the link does not have it."""

    @property
    def written(self) -> str:
        """``192.0.2.1/24``"""
        return f"{self.address.address}/{self.address.prefix_length}"

    @property
    def named(self) -> str:
        """``web1 ens224``"""
        return f"{self.host.name} {self.link.name}"


def leads_to_namespace(link: Link) -> bool:
    """A veth whose other end is in another network namespace, as that of a container."""
    return link.kind == "veth" and link.lower_namespace is not None


def has_neighbours_outside(host: HostFacts, link: Link) -> bool:
    """Other hosts or network namespaces can reach its addresses."""
    return leads_to_namespace(link) or is_outward(host, link)


def is_outward(host: HostFacts, link: Link, depth: int = MAX_STACK_DEPTH) -> bool:
    """What it sends leaves the host by a device."""
    if link.bus is not None:
        return True
    if depth == 0:
        return False
    if link.kind in KINDS_ABOVE_SEVERAL_LINKS:
        ports = (port for port in host.links if port.master == link.ifindex)
        return any(is_outward(host, port, depth - 1) for port in ports)
    if (
        link.kind in KINDS_ABOVE_ONE_LINK
        and link.lower is not None
        and link.lower_namespace is None
    ):
        below = host.snapshot.links.get(link.lower)
        return below is not None and is_outward(host, below, depth - 1)
    return False


def outward_addresses(host: HostFacts) -> Iterator[NetworkPlace]:
    """Global addresses of links that are up and have a carrier, refused duplicates among them."""
    for link in host.links:
        is_usable = bool(link.flags & IFF_UP) and link.carrier is True
        if not is_usable or not link.addresses:
            continue
        if is_outward(host, link) or link.kind == "veth":
            for address in global_addresses(link):
                yield NetworkPlace(host, link, address)


def may_be_one_network(one: NetworkPlace, other: NetworkPlace) -> bool:
    """The two links can be in one network, as far as the hosts show."""
    if is_same_link(one, other) or one.host.name == other.host.name:
        return False
    if "veth" in (one.link.kind, other.link.kind):
        return _are_veth_peers(one, other)
    places = (LinkAddress(place.host.snapshot, place.link, place.address) for place in (one, other))
    return separation(*places) is None


def is_same_link(one: NetworkPlace, other: NetworkPlace) -> bool:
    """One machine that is watched under two names."""
    if not is_same_machine(one.host.snapshot, other.host.snapshot):
        return False
    return (one.link.ifindex, one.link.name, one.link.address) == (
        other.link.ifindex,
        other.link.name,
        other.link.address,
    )


def _are_veth_peers(one: NetworkPlace, other: NetworkPlace) -> bool:
    """Both ends of one veth pair."""
    if not is_same_machine(one.host.snapshot, other.host.snapshot):
        return False
    if one.link.kind != "veth" or other.link.kind != "veth":
        return False
    peers = _peer(one.link), _peer(other.link)
    return peers == (other.link.ifindex, one.link.ifindex)


def _peer(link: Link) -> int | None:
    """ifindex of the other end of a veth pair. In another namespace, which has its own numbering,
    it may equal the ifindex of the link; then `Link.lower` is None."""
    if link.lower is None and link.lower_namespace is not None:
        return link.ifindex
    return link.lower


def carries_session(place: NetworkPlace) -> bool:
    """The connection from which this host is watched ends at the address."""
    return place.host.inventory.platform.session_address == place.address.address
