"""Different prefix lengths of watched hosts that are in one network."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from functools import lru_cache

from nictop.model.devices.subnets import vlan_id
from nictop.model.text.ip_addresses import Network, parse_network
from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Evidence, Fix, Skipped, on_peer
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.profiles import bring_up, modify, profile_of_address
from nictop.rules.host import HostFacts
from nictop.rules.profiles.outward import (
    NetworkPlace,
    is_join_unknown,
    may_be_one_network,
    network_evidence,
    outward_addresses,
    why_join_is_unknown,
)
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routes.rewriting import routes_lost_with_address
from nictop.rules.subjects import UNREAD_OF_ADDRESS, link_finding, set_address

LONGEST_SHARED_PREFIX = {4: 30, 6: 126}
"""Longest prefix of a subnet with several hosts."""
REMOVED_FIRST_NOTE = (
    "The address is removed for a moment: IPv6 takes an address only once, whatever its prefix "
    "length."
)


@pair_rule(
    "warning",
    yields_to=("ip_address_is_on_two_hosts",),
    needs=("platform", "routes"),
    uses=("addresses",),
)
def prefix_length_differs(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched hosts have addresses in one subnet, with different prefix lengths.

    For a part of the subnet the host with the longer prefix uses a gateway, or has no route:
    requests and replies take different paths, and the broadcast addresses differ.

    nictop compares addresses of links with a device that are up and have a carrier, and of veths
    whose other ends are watched or on one bridge of a watched host, or which neighbour tables show
    to be in one network (see ip_address_is_on_two_hosts); where that is not known of two veths of
    one machine, the check is among those that are skipped. Two of them are considered to be in one
    network if each is in the subnet of the other, or if one is and both links have the same default
    gateway. Not reported: other overlapping ranges, such as a /8 of one site and a /24 of another,
    VLANs with different IDs, clouds, user networks of QEMU, and bridges without a device.

    Sources: RFC 950; RFC 1122 section 3.3.1.1; ip-address(8).
    """
    if len(hosts) < 2:
        return
    by_length: dict[int, list[NetworkPlace]] = {}
    for place in (place for host in hosts for place in outward_addresses(host)):
        network = network_of(place.written)
        if network is not None:
            by_length.setdefault(network.prefixlen, []).append(place)
    done: set[tuple[str, int, str]] = set()
    unknown: set[tuple[str, int, str]] = set()
    for wide, narrow in _overlapping(by_length):
        if not _are_for_one_network(wide, narrow):
            continue
        place, other = _minority(wide, narrow, by_length)
        key = (place.host.name, place.link.ifindex, place.address.address)
        if key in done:
            continue
        if not may_be_one_network(wide, narrow, hosts):
            if key not in unknown and is_join_unknown(wide, narrow, hosts):
                unknown.add(key)
                yield _not_known(place, other, hosts)
            continue
        done.add(key)
        length, right = place.address.prefix_length, other.address.prefix_length
        yield link_finding(
            "warning",
            place.host,
            place.link,
            f"prefix length {length}, but {right} on {other.named}",
            evidence=(
                Evidence(
                    f"address on {place.host.name}",
                    f"{place.written} on {place.link.name}",
                    "ip address",
                ),
                Evidence(
                    f"address on {other.host.name}",
                    f"{other.written} on {other.link.name}",
                    "ip address",
                ),
                *_gateways(place, other),
                *_one_network(place, other, hosts),
            ),
            why="The hosts have different subnets: some addresses are on-link for one host, and "
            "reached via a gateway "
            "or not at all by the other.",
            fixes=(
                _fix(place, right, "here"),
                *on_peer(other.host.name, (_fix(other, length, "peer"),)),
            ),
            item=place.address.address,
            also=[(other.host, other.link)],
        )


def _overlapping(
    by_length: dict[int, list[NetworkPlace]],
) -> Iterator[tuple[NetworkPlace, NetworkPlace]]:
    """(wider, narrower) of which the narrower one's address is in the wider one's subnet; looked up
    by network."""
    lengths = sorted(by_length)
    for wider in lengths:
        members: dict[Network, list[NetworkPlace]] = {}
        for place in by_length[wider]:
            network = network_of(place.written)
            if network is not None:
                members.setdefault(network, []).append(place)
        for narrower in (length for length in lengths if length > wider):
            for place in by_length[narrower]:
                around = network_of(f"{place.address.address}/{wider}")
                for other in members.get(around, ()) if around is not None else ():
                    yield other, place


def _not_known(place: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]) -> Skipped:
    reason = (
        f"{place.written}, but {other.written} on {other.named}: "
        f"{why_join_is_unknown(place, other, hosts)}"
    )
    return Skipped("", place.host.name, place.link.name, reason, "not_watched")


def _one_network(
    place: NetworkPlace, other: NetworkPlace, hosts: Sequence[HostFacts]
) -> Iterator[Evidence]:
    shown = network_evidence(place, other, hosts)
    if shown is not None:
        yield shown


def _are_for_one_network(wide: NetworkPlace, narrow: NetworkPlace) -> bool:
    """As far as their addresses, VLANs and gateways say."""
    if wide.address.address == narrow.address.address:
        return False
    if vlan_id(wide.link) != vlan_id(narrow.link):
        return False
    inner = network_of(narrow.written)
    gateways = _gateway(wide), _gateway(narrow)
    if inner is not None and ipaddress.ip_address(wide.address.address) in inner:
        return None in gateways or gateways[0] == gateways[1]
    return None not in gateways and gateways[0] == gateways[1]


def _gateway(place: NetworkPlace) -> str | None:
    routes = (route for route in place.link.default_routes if route.family == place.address.family)
    return next((route.gateway for route in routes if route.gateway), None)


def _minority(
    wide: NetworkPlace, narrow: NetworkPlace, by_length: dict[int, list[NetworkPlace]]
) -> tuple[NetworkPlace, NetworkPlace]:
    """(the one to change, the other): the length that fewer addresses of the wider subnet have;
    else the longer one."""
    network = network_of(wide.written)

    def having(place: NetworkPlace) -> int:
        found = by_length[place.address.prefix_length]
        return sum(
            network is not None and ipaddress.ip_address(one.address.address) in network
            for one in found
        )

    return (wide, narrow) if having(wide) < having(narrow) else (narrow, wide)


def _gateways(*places: NetworkPlace) -> Iterator[Evidence]:
    found = {_gateway(place) for place in places} - {None}
    if found:
        yield Evidence("default gateway", ", ".join(sorted(map(str, found))), "ip route")


def _fix(place: NetworkPlace, length: int, where: str) -> Fix:
    written = f"{place.address.address}/{length}"
    profile = profile_of_address(place.host, place.link, place.written)
    peer = where == "peer"
    title = f"{'Or set' if peer else 'Set'} prefix length {length} on {place.link.name}"
    if profile is not None:
        name = f"{place.address.family}.addresses"
        change = modify(place.host, profile, f"+{name}", written, f"-{name}", place.written)
        back = modify(place.host, profile, f"+{name}", place.written, f"-{name}", written)
        again = bring_up(place.host, profile)
        return Fix("peer" if peer else "here", title, (change, again), True, (back, again))
    if "permanent" not in place.address.flags:
        return Fix(
            "peer" if peer else "here",
            title,
            (),
            True,
            (),
            "The address is from DHCP: change the prefix length on the DHCP server.",
        )
    notes = []
    routes: tuple[Command, ...] = ()
    if place.address.family == "ipv6":
        lost = routes_lost_with_address(place.host, place.link, place.address)
        routes = lost.restored
        notes += [REMOVED_FIRST_NOTE, *filter(None, (lost.note,))]
    notes.append(_lost_options(place, length))
    entries = place.host.configuration.addressing(place.link)
    if entries:
        notes.append(f"Persistent: also change it in {entries[0].file}.")
    return Fix(
        "peer" if peer else "here",
        title,
        (*_exchange(place, place.address.prefix_length, length), *routes),
        False,
        (*_exchange(place, length, place.address.prefix_length), *routes),
        " ".join(notes),
    )


def _lost_options(place: NetworkPlace, length: int) -> str:
    """What the address with another prefix length does not have, and its undo does not restore."""
    unread = UNREAD_OF_ADDRESS[place.address.family]
    text = (
        f"The commands and the undo set the address without its {unread}, if it has them. The "
        "rollback of nictop sets them again, or nictop refuses the change."
    )
    if "mngtmpaddr" in place.address.flags and length != 64:
        text += " Temporary addresses (mngtmpaddr) need a /64."
    return text


def _exchange(place: NetworkPlace, old: int, new: int) -> tuple[Command, Command]:
    """The commands that set another prefix length; the address keeps its flags.

    IPv4 takes the address with both lengths, so that the link is never without it and its routes
    stay. IPv6 takes an address once, whatever its prefix length (EEXIST, "address already
    assigned"): net/ipv6/addrconf.c ipv6_add_addr_hash(). With it goes the route to its subnet,
    which returns; routes via a gateway stay: ipv6_del_addr(), cleanup_prefix_route(),
    rt6_remove_prefsrc()."""
    add = set_address(place.link, replace(place.address, prefix_length=new))
    removed = f"{place.address.address}/{old}"
    drop = command("ip", "address", "del", removed, "dev", place.link.name)
    if place.address.family == "ipv6":
        return drop, add
    return add, drop


@lru_cache(maxsize=4096)
def network_of(written: str) -> Network | None:
    """The subnet of ``ADDRESS/LENGTH``; None: it cannot have other hosts, or is not valid."""
    network = parse_network(written)
    if network is None or network.is_link_local:
        return None
    if not 0 < network.prefixlen <= LONGEST_SHARED_PREFIX[network.version]:
        return None
    return network
