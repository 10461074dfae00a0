"""IP addresses that are known to be in use by others than a NIC that gets one.

Pure. Known are those of watched hosts, of the guests and network namespaces of all of them, those
that their DHCP servers have given out, and the neighbour table of the host of the NIC. Which others
are in use is not known: no address is offered as a free one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from nictop.model.guests.owners import guest_text
from nictop.model.snapshot import is_same_namespace
from nictop.model.text.terminal import clean
from nictop.probe.records import Link
from nictop.rules import HostFacts

EXAMPLE = "192.0.2.10/24"
"""RFC 5737: it should be nobody's."""
MAX_NAMED = 2
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


def example_text(host: HostFacts, link: Link, others: Sequence[HostFacts] = ()) -> str:
    """``in use: 198.18.0.1``: what is known to be in use in the network of the NIC; if nothing is,
    ``e.g. 192.0.2.10/24``, unless somebody has that address."""
    near = tuple(dict.fromkeys(_near(host, link)))
    if near:
        more = f" and {len(near) - MAX_NAMED} more" if len(near) > MAX_NAMED else ""
        return f"in use: {', '.join(near[:MAX_NAMED])}{more}"
    return "" if users_of(EXAMPLE, host, link, others) else f"e.g. {EXAMPLE}"


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
            if one is not host and nic.address in (None, link.address):
                continue
            for address in nic.addresses:
                yield address.partition("/")[0], name


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
