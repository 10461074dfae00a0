"""IP addresses that are known to be in use by others than a NIC that gets one.

Pure. Known are those of watched hosts, of the guests and network namespaces of all of them, those
that their DHCP servers have given out, and the neighbour table of the host of the NIC. Which others
are in use is not known: an example in the subnet of watched hosts that the NIC is joined with by
veths is said to be one that nictop has seen nobody use.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from nictop.model.guests.owners import guest_text
from nictop.model.snapshot import is_same_machine, is_same_namespace
from nictop.model.text.ip_addresses import parse_network
from nictop.model.text.terminal import clean
from nictop.probe.records import GuestNic, Link
from nictop.rules import HostFacts
from nictop.rules.far_ends import are_two_ends
from nictop.rules.profiles.outward import (
    NetworkPlace,
    may_be_one_network,
    outward_addresses,
    veth_of,
)
from nictop.rules.subjects import names_text

EXAMPLE = "192.0.2.10/24"
"""RFC 5737: it should be nobody's."""
MAX_NAMED = 2
"""Users of an address, or addresses in use, in one sentence."""
MAX_TRIED = 254
"""Addresses of a subnet of which one may be unused."""
LINK_LOCAL = "fe80:"


def users_of(
    address: str, host: HostFacts, link: Link, others: Sequence[HostFacts] = ()
) -> tuple[str, ...]:
    """Who has an address, besides the NIC: links of watched hosts (``netns:a lab0``); if there are
    none, guests and neighbours, which may be the same ones. Each once."""
    wanted = _parsed(address)
    if wanted is None:
        return ()
    for known in (_of_watched_hosts(host, link, others), _of_unwatched(host, link, others)):
        found = [user for one, user in known if _parsed(one) == wanted]
        if found:
            return tuple(dict.fromkeys(found))
    return ()


def taken_text(address: str, host: HostFacts, link: Link, others: Sequence[HostFacts] = ()) -> str:
    """``198.18.0.1 is in use: netns:a lab0``; "": nobody is known to have it but the NIC."""
    users = users_of(address, host, link, others)
    if not users:
        return ""
    return f"{clean(address.partition('/')[0])} is in use: {names_text(users, MAX_NAMED)}"


def example_text(host: HostFacts, link: Link, others: Sequence[HostFacts] = ()) -> str:
    """``e.g. 198.18.0.2/24, not seen in use``: in the subnet of the watched hosts at the other end
    of the NIC; if there are none ``in use: 198.18.0.1``: what is known to be in use in the network
    of the NIC; if nothing is, ``e.g. 192.0.2.10/24``, unless somebody has that address."""
    for peer in joined_addresses(host, link, others):
        unused = _unused_address(peer, host, link, others)
        if unused:
            return f"e.g. {unused}, not seen in use"
    near = tuple(dict.fromkeys(_near(host, link)))
    if near:
        more = f" and {len(near) - MAX_NAMED} more" if len(near) > MAX_NAMED else ""
        return f"in use: {', '.join(near[:MAX_NAMED])}{more}"
    return "" if users_of(EXAMPLE, host, link, others) else f"e.g. {EXAMPLE}"


def joined_addresses(
    host: HostFacts, link: Link, others: Sequence[HostFacts]
) -> Iterator[NetworkPlace]:
    """Addresses of watched hosts that are in one network with the NIC: joined by veths."""
    veth, hosts = veth_of(host, link), (host, *others)
    if veth is None:
        return
    for other in others:
        for place in outward_addresses(other):
            own = NetworkPlace(host, link, place.address, veth=veth)
            if place.veth is not None and may_be_one_network(own, place, hosts):
                yield place


def _unused_address(
    peer: NetworkPlace, host: HostFacts, link: Link, others: Sequence[HostFacts]
) -> str:
    """``198.18.0.2/24``: the next IPv4 address of the subnet that nobody is known to have; "": none
    of the next `MAX_TRIED`, or the subnet ends."""
    network, own = parse_network(peer.written), _parsed(peer.written)
    if network is None or own is None or network.version != 4:
        return ""
    for number in range(1, MAX_TRIED + 1):
        address = own + number
        if address not in network or address == network.broadcast_address:
            return ""
        if not users_of(str(address), host, link, others):
            return f"{address}/{network.prefixlen}"
    return ""


def _near(host: HostFacts, link: Link) -> Iterator[str]:
    """Addresses at the other end of the NIC, and of its neighbours; IPv4 first."""
    found = [*_addresses_at_other_end(host, link)]
    for ifindex, address, _ in _neighbours(host):
        if ifindex == link.ifindex:
            found.append(address)
    for address in sorted(found, key=lambda address: ":" in address):
        if not address.startswith(LINK_LOCAL):
            yield address


def _addresses_at_other_end(host: HostFacts, link: Link) -> Iterator[str]:
    owner = host.snapshot.owners.of_link(link.ifindex)
    if owner is not None and owner.nic is not None and not owner.is_stopped:
        for address in owner.nic.addresses:
            yield address.partition("/")[0]


def _of_watched_hosts(
    host: HostFacts, link: Link, others: Sequence[HostFacts]
) -> Iterator[tuple[str, str]]:
    """(Address, who has it)."""
    for one in (host, *others):
        is_same = one is host or is_same_namespace(one.snapshot, host.snapshot)
        for other in one.links:
            if is_same and other.ifindex == link.ifindex:
                continue
            for known in other.addresses:
                yield known.address, f"{clean(one.name)} {clean(other.name)}"


def _of_unwatched(
    host: HostFacts, link: Link, others: Sequence[HostFacts]
) -> Iterator[tuple[str, str]]:
    for one in (host, *others):
        yield from _of_guests(one, host, link)
        yield from _of_leases(one)
    for ifindex, address, mac in _neighbours(host):
        near = host.link_at(ifindex)
        name = "" if near is None else f" at {clean(near.name)}"
        yield address, f"{clean(mac)}{name} (neighbour table)"


def _of_guests(one: HostFacts, host: HostFacts, link: Link) -> Iterator[tuple[str, str]]:
    """Of those that run. Not the NIC itself, which may be one of a guest of another host."""
    of = "" if one is host else f" of {clean(one.name)}"
    for guest in one.inventory.guests or ():
        if guest.state != "running":
            continue
        name = f"{clean(guest_text(guest.name, guest.kind))}{of}"
        for nic in guest.nics:
            is_unknown = nic.address in (None, link.address)
            if one is not host and (is_unknown or _is_other_end(one, nic, host, link)):
                continue
            for address in nic.addresses:
                yield address.partition("/")[0], name


def _is_other_end(one: HostFacts, nic: GuestNic, host: HostFacts, link: Link) -> bool:
    """The NIC of the guest is the link: a veth whose MAC address may be newer than its guest."""
    near = one.link_at(nic.link)
    if near is None or near.kind != "veth" or link.kind != "veth":
        return False
    return is_same_machine(one.snapshot, host.snapshot) and are_two_ends(near, link)


def _of_leases(one: HostFacts) -> Iterator[tuple[str, str]]:
    for lease in one.inventory.leases:
        if lease.expires is None or lease.expires > one.inventory.wall:
            yield lease.address, f"{clean(lease.mac)} (DHCP lease of {clean(lease.source)})"


def _neighbours(host: HostFacts) -> Iterator[tuple[int, str, str]]:
    """(ifindex, address, MAC address) of those that have answered."""
    routing = host.inventory.routing
    for neighbour in () if routing is None else routing.neighbours:
        if neighbour.mac is not None:
            yield neighbour.ifindex, neighbour.address, neighbour.mac


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Without its prefix length."""
    try:
        return ipaddress.ip_address(text.partition("/")[0])
    except ValueError:
        return None
