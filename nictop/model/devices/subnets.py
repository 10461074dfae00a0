"""Which netdevs of several hosts share an IP subnet, and whether they agree about it.

Reads nothing. Addresses of global scope count; link-local and loopback ones do not, nor does a prefix that holds one
address (/32, /128) or all of them (/0). Equal numbers need not be one wire: what speaks against it is told.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from nictop.model.devices.netdevs import Disagreement, End, Netdev, disagreements
from nictop.model.text import units
from nictop.probe.records import Link

REAL_SPEED = ("bond", "team", "vlan", "macvlan", "ipvlan")
"""Kinds of virtual links whose speed is that of a device below; others (bridge, veth, tap) make one up."""


@dataclass(frozen=True)
class Member:
    """An address in a subnet."""

    end: End
    address: str


@dataclass(frozen=True)
class SharedSubnet:
    """A subnet with members on at least two hosts."""

    network: str
    """``192.0.2.0/24``"""
    family: Literal["ipv4", "ipv6"]
    members: tuple[Member, ...]
    """By host, ifindex and address."""
    duplicates: tuple[str, ...] = ()
    """Addresses that several netdevs bear: a duplicate, or two networks with the same numbers. Who bears one is left
    out of `disagreements`."""
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each once, in the order of the members."""
        return tuple(dict.fromkeys(member.end.host for member in self.members))


@dataclass(frozen=True)
class _Place:
    """What an address with its prefix length means."""

    network: str
    address: str
    order: tuple[int, int, int]
    """Version, number of the network, prefix length."""


def subnets(found: Iterable[Netdev], port_vlans: Mapping[End, int] | None = None) -> tuple[SharedSubnet, ...]:
    """The subnets of some netdevs, IPv4 first, then by number. `port_vlans`: the VLAN that a physical function puts
    around everything of a virtual function."""
    groups: dict[_Place, list[tuple[Netdev, str]]] = {}
    for netdev in found:
        for place in dict.fromkeys(_places(netdev.link)):
            key = _Place(place.network, "", place.order)
            groups.setdefault(key, []).append((netdev, place.address))
    result = []
    for place, members in sorted(groups.items(), key=lambda group: group[0].order):
        kept = _without_inner_bridges(members)
        if len({netdev.end.host for netdev, _ in kept}) > 1:
            result.append(_subnet(place, kept, port_vlans or {}))
    return tuple(result)


def _places(link: Link) -> Iterable[_Place]:
    for one in link.addresses:
        place = (
            _place(one.address, one.prefix_length) if one.scope == "global" and "dadfailed" not in one.flags else None
        )
        if place is not None:
            yield place


@lru_cache(maxsize=16384)  # asked again with every inventory of any host
def _place(address: str, prefix_length: int) -> _Place | None:
    if "%" in address or "/" in address:
        return None
    try:
        interface = ipaddress.ip_interface(f"{address}/{prefix_length}")
    except ValueError:
        return None
    ip, network = interface.ip, interface.network
    if ip.is_link_local or ip.is_loopback or not 0 < network.prefixlen < network.max_prefixlen:
        return None
    return _Place(str(network), str(ip), (network.version, int(network.network_address), network.prefixlen))


def _without_inner_bridges(members: Sequence[tuple[Netdev, str]]) -> list[tuple[Netdev, str]]:
    """Bridges that bear the same address on several hosts (docker0, virbr0) are each the inside of their own host."""
    bridges: dict[str, set[str]] = {}
    for netdev, address in members:
        if netdev.link.kind == "bridge":
            bridges.setdefault(address, set()).add(netdev.end.host)
    return [
        (netdev, address) for netdev, address in members if netdev.link.kind != "bridge" or len(bridges[address]) == 1
    ]


def _subnet(place: _Place, members: Sequence[tuple[Netdev, str]], port_vlans: Mapping[End, int]) -> SharedSubnet:
    borne = Counter(address for _, address in members)
    duplicates = tuple(address for address, number in borne.items() if number > 1)
    sure = {netdev.end: netdev.link for netdev, address in members if borne[address] == 1}
    return SharedSubnet(
        network=place.network,
        family="ipv4" if place.order[0] == 4 else "ipv6",
        members=tuple(Member(netdev.end, address) for netdev, address in members),
        duplicates=duplicates,
        disagreements=(
            *disagreements("mtu", ((end, str(link.mtu)) for end, link in sure.items())),
            *disagreements("speed", ((end, speed(link)) for end, link in sure.items())),
            *disagreements("vlan", ((end, _vlan(end, link, port_vlans)) for end, link in sure.items())),
        ),
    )


def speed(link: Link) -> str | None:
    """``10G``; None: not known, or made up by a virtual link."""
    settings = link.ethtool.settings
    if settings is None or settings.speed is None or (link.bus is None and link.kind not in REAL_SPEED):
        return None
    return units.link_speed(settings.speed)


def _vlan(end: End, link: Link, port_vlans: Mapping[End, int]) -> str | None:
    """The VLAN that is known to be around the packets of a netdev. None: nobody says, the switch may add one."""
    number = port_vlans.get(end) or vlan_id(link)
    return None if number is None else str(number)


def vlan_id(link: Link) -> int | None:
    """Of a VLAN netdev."""
    number = link.details.get("vlan_id") if link.kind == "vlan" else None
    return number if isinstance(number, int) else None
