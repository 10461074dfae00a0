"""Addresses that other hosts can reach through a device, and whether two links may be in one
network.

Pure. Included: links with a device, and bridges, bonds, VLANs and the like above one; veths, and
VLANs above one, only if a watched link is at its other end, or on the same bridge of a watched
host, or if neighbour tables show one network. Not included: bridges used only by containers or
virtual machines (docker0, virbr0, lxdbr0), which are internal to their host, so that equal
addresses are no conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bridges import filters_vlans, outer_port, pvid
from nictop.model.devices.links import global_addresses, link_at
from nictop.model.devices.subnets import LinkAddress, Separation, separation
from nictop.model.snapshot import is_same_machine, is_same_namespace
from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Address, Link
from nictop.rules.far_ends import EndKey, are_two_ends, far_ends, place_of_other_end
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.routes.segments import WatchedLink, evidence_of_one_network

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
    veth: Link | None = None
    """By which it is reached, the link itself or one below; None: by a device."""

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
        veth = veth_of(host, link)
        if veth is None and not is_outward(host, link):
            continue
        for address in global_addresses(link):
            yield NetworkPlace(host, link, address, veth=veth)


def veth_of(host: HostFacts, link: Link) -> Link | None:
    """The link itself, or the one below VLANs; None: it is no veth."""
    below: Link | None = link
    for _ in range(MAX_STACK_DEPTH):
        if below is None or below.kind == "veth":
            return below
        if below.kind not in KINDS_ABOVE_ONE_LINK or below.lower_namespace is not None:
            return None
        below = link_at(below.lower, host.snapshot.links)
    return None


def may_be_one_network(
    one: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts] = ()
) -> bool:
    """The two links can be in one network, as far as the hosts show. `hosts`: all watched ones."""
    if is_same_link(one, other) or one.host.name == other.host.name:
        return False
    if _needs_proof(one) or _needs_proof(other):
        is_shown = are_joined(one, other, hosts) or network_evidence(one, other, hosts) is not None
        if not is_shown:
            return False
    return _separation(one, other) is None


def _needs_proof(place: NetworkPlace) -> bool:
    """It reaches other hosts by veths only, or is not known to reach any."""
    return place.veth is not None or not is_outward(place.host, place.link)


def addresses_of_veth_bridges(hosts: Sequence[HostFacts]) -> Iterator[NetworkPlace]:
    """Global addresses of the bridges without a device on whose ports other watched hosts are."""
    reached = {(one.host, one.bridge) for one in bridged_veths(tuple(hosts)).values()}
    for host in hosts:
        for link in host.links:
            is_usable = bool(link.flags & IFF_UP) and link.carrier is True
            is_reached = (host.name, link.ifindex) in reached
            if is_usable and is_reached and not is_outward(host, link):
                for address in global_addresses(link):
                    yield NetworkPlace(host, link, address)


def is_join_unknown(one: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> bool:
    """Two veths of one machine, of which one leads to no watched host, as far as is known: what is
    there may join them or not. For two that `may_be_one_network` does not show to be joined."""
    if one.veth is None or other.veth is None or one.host.name == other.host.name:
        return False
    if not is_same_machine(one.host.snapshot, other.host.snapshot) or is_same_link(one, other):
        return False
    if _separation(one, other) is not None:
        return False
    return bool(_without_watched_end((one, other), hosts))


def why_join_is_unknown(one: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> str:
    """The end of a sentence about two places of which `is_join_unknown` is true."""
    texts = []
    for host, veth in _without_watched_end((one, other), hosts):
        where = place_of_other_end(host, veth)
        texts.append(f"{host.name} {veth.name}" + (f" ({where})" if where else ""))
    return (
        "not known whether both are in one network, because no watched host is known to be at the "
        f"other end of {' and '.join(texts)}"
    )


def _without_watched_end(
    places: Sequence[NetworkPlace], hosts: Sequence[HostFacts]
) -> list[tuple[HostFacts, Link]]:
    """The veths of places whose other end is that of no watched host, as far as is known."""
    ends = far_ends(tuple(hosts))
    found = []
    for place in places:
        if place.veth is not None and (place.host.name, place.veth.ifindex) not in ends:
            found.append((place.host, place.veth))
    return found


def network_evidence(
    one: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]
) -> Evidence | None:
    """What neighbour tables show of one network; None: nothing."""
    mine, theirs = WatchedLink(one.host, one.link), WatchedLink(other.host, other.link)
    return evidence_of_one_network(mine, theirs, hosts)


def _separation(one: NetworkPlace, other: NetworkPlace) -> Separation | None:
    places = (LinkAddress(place.host.snapshot, place.link, place.address) for place in (one, other))
    return separation(*places)


def is_same_link(one: NetworkPlace, other: NetworkPlace) -> bool:
    """One machine, or namespace, that is watched under two names."""
    if not is_same_namespace(one.host.snapshot, other.host.snapshot):
        return False
    return (one.link.ifindex, one.link.name, one.link.address) == (
        other.link.ifindex,
        other.link.name,
        other.link.address,
    )


def are_joined(one: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> bool:
    """Their veths are the ends of one pair, or reach the same bridge, which may be one of them."""
    if one.veth is None or other.veth is None:
        return _is_on_the_bridge(one, other, hosts) or _is_on_the_bridge(other, one, hosts)
    if not is_same_machine(one.host.snapshot, other.host.snapshot):
        return False
    if are_two_ends(one.veth, other.veth):
        return True
    networks = bridged_veths(tuple(hosts))
    mine = networks.get((one.host.name, one.veth.ifindex))
    return mine is not None and mine == networks.get((other.host.name, other.veth.ifindex))


def _is_on_the_bridge(
    place: NetworkPlace, bridge: NetworkPlace, hosts: Sequence[HostFacts]
) -> bool:
    """The veth of a place reaches a bridge that does not filter VLANs and has the other address."""
    if place.veth is None:
        return False
    network = bridged_veths(tuple(hosts)).get((place.host.name, place.veth.ifindex))
    return network == BridgedNetwork(bridge.host.name, bridge.link.ifindex, None)


def joined_text(one: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> str:
    """``the two ends of one veth pair``; "": it is not known that they are joined."""
    if not are_joined(one, other, hosts):
        return ""
    if one.veth is None or other.veth is None:
        return "on one bridge"
    if are_two_ends(one.veth, other.veth):
        return "the two ends of one veth pair"
    return "veths of one bridge"


class BridgedNetwork(NamedTuple):
    """A bridge of a watched host."""

    host: str
    bridge: int
    vlan: int | None
    """Of frames without a tag; None: the bridge does not filter VLANs, or the port has none."""


@once_per_diagnosis
def bridged_veths(hosts: tuple[HostFacts, ...]) -> dict[EndKey, BridgedNetwork]:
    """Veth → the bridge of another watched host on which its other end is a port."""
    found = {}
    for end, far in far_ends(hosts).items():
        network = _network_of_port(far.host, far.link)
        if network is not None:
            found[end] = network
    return found


def _network_of_port(host: HostFacts, port: Link) -> BridgedNetwork | None:
    """None: it is no port."""
    found = outer_port(port, host.snapshot.links)
    if found is None:
        return None
    outer, bridge = found
    vlan = pvid(outer.bridge_vlans or ()) if filters_vlans(bridge) else None
    return BridgedNetwork(host.name, bridge.ifindex, vlan)


def carries_session(place: NetworkPlace) -> bool:
    """The connection from which this host is watched ends at the address."""
    return place.host.inventory.platform.session_address == place.address.address
