"""IP subnets shared by netdevs of several hosts, and their differences.

Reads nothing. Addresses of global scope count; link-local and loopback ones do not, nor does a
prefix with a single address (/32, /128) or with all addresses (/0). The same subnet need not be the
same network: differences are reported.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Literal

from nictop.model.devices.links import reported_speed
from nictop.model.devices.netdevs import Disagreement, End, Netdev, disagreements
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Address, Link, Platform

KINDS_WITH_SPEED = ("bond", "team", "vlan", "macvlan", "ipvlan")
"""Kinds of virtual links whose speed is that of a device below; others (bridge, veth, tap) report a
false one."""

CLOUD_PROVIDERS = (
    "aws",
    "gcp",
    "oci",
    "alibaba",
    "digitalocean",
    "hetzner",
    "tencent",
    "openstack",
)
"""`Platform.environment` of guests whose addresses the cloud gives out; Azure is another one."""
USER_GUEST, USER_GATEWAY = ".15", ".2"
"""Ends of 10.0.2.15 and 10.0.2.2: the lease and the gateway that QEMU's user network and
VirtualBox' NAT give to every guest, each in a network of its own, whose numbers can be chosen
(``net=``)."""

Separation = Literal["nat", "cloud", "vlan", "session"]
"""Why two addresses are known to be in different networks. nat: each guest has its own. cloud: a
cloud gives out the addresses. vlan: VLANs with different IDs. session: both hosts are watched via
the same address."""


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
    """Ordered by host, ifindex and address."""
    duplicates: tuple[str, ...] = ()
    """Addresses of several netdevs: a duplicate, or two networks with the same subnet. Their
    netdevs are left out of `disagreements`."""
    separate: tuple[tuple[str, Separation], ...] = ()
    """Those of the duplicates whose netdevs are known to be in different networks, and why."""
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each once, in the order of the members."""
        return tuple(dict.fromkeys(member.end.host for member in self.members))


@dataclass(frozen=True)
class _Prefix:
    """Subnet of an address."""

    network: str
    address: str
    order: tuple[int, int, int]
    """IP version, network address as a number, prefix length."""


def subnets(
    found: Iterable[Netdev], port_vlans: Mapping[End, int] | None = None
) -> tuple[SharedSubnet, ...]:
    """The shared subnets, IPv4 first, then by network address. `port_vlans`: the VLAN in which a
    physical function puts all packets of a virtual function."""
    groups: dict[_Prefix, list[tuple[Netdev, str]]] = {}
    for netdev in found:
        for prefix in dict.fromkeys(_prefixes(netdev.link)):
            key = _Prefix(prefix.network, "", prefix.order)
            groups.setdefault(key, []).append((netdev, prefix.address))
    result = []
    for prefix, members in sorted(groups.items(), key=lambda group: group[0].order):
        outer = _without_inner_bridges(members)
        if len({netdev.end.host for netdev, _ in outer}) > 1:
            result.append(_subnet(prefix, outer, port_vlans or {}))
    return tuple(result)


def _prefixes(link: Link) -> Iterable[_Prefix]:
    for address in link.addresses:
        if address.scope != "global" or "dadfailed" in address.flags:
            continue
        prefix = _prefix(address.address, address.prefix_length)
        if prefix is not None:
            yield prefix


@lru_cache(maxsize=16384)  # called again with every inventory of any host
def _prefix(address: str, prefix_length: int) -> _Prefix | None:
    if "%" in address or "/" in address:
        return None
    try:
        interface = ipaddress.ip_interface(f"{address}/{prefix_length}")
    except ValueError:
        return None
    ip, network = interface.ip, interface.network
    if ip.is_link_local or ip.is_loopback:
        return None
    if network.prefixlen in (0, network.max_prefixlen):
        return None
    order = (network.version, int(network.network_address), network.prefixlen)
    return _Prefix(str(network), str(ip), order)


def _without_inner_bridges(members: Sequence[tuple[Netdev, str]]) -> list[tuple[Netdev, str]]:
    """Without bridges that have the same address on several hosts (docker0, virbr0): each is an
    internal network of its host."""
    bridges: dict[str, set[str]] = {}
    for netdev, address in members:
        if netdev.link.kind == "bridge":
            bridges.setdefault(address, set()).add(netdev.end.host)
    outer = []
    for netdev, address in members:
        if netdev.link.kind != "bridge" or len(bridges[address]) == 1:
            outer.append((netdev, address))
    return outer


def _subnet(
    prefix: _Prefix, members: Sequence[tuple[Netdev, str]], port_vlans: Mapping[End, int]
) -> SharedSubnet:
    counts = Counter(address for _, address in members)
    duplicates = tuple(address for address, number in counts.items() if number > 1)
    separate = []
    for address in duplicates:
        why = _separation(address, members)
        if why is not None:
            separate.append((address, why))
    mtus: dict[End, str | None] = {}
    speeds: dict[End, str | None] = {}
    vlans: dict[End, str | None] = {}
    for netdev, address in members:
        if counts[address] == 1:
            mtus[netdev.end] = str(netdev.link.mtu)
            speeds[netdev.end] = speed(netdev.link)
            vlans[netdev.end] = _vlan(netdev.end, netdev.link, port_vlans)
    return SharedSubnet(
        network=prefix.network,
        family="ipv4" if prefix.order[0] == 4 else "ipv6",
        members=tuple(Member(netdev.end, address) for netdev, address in members),
        duplicates=duplicates,
        separate=tuple(separate),
        disagreements=(
            *disagreements("mtu", mtus.items()),
            *disagreements("speed", speeds.items()),
            *disagreements("vlan", vlans.items()),
        ),
    )


class LinkAddress(NamedTuple):
    """An address of a link of a host."""

    snapshot: Snapshot
    link: Link
    address: Address


def separation(one: LinkAddress, other: LinkAddress) -> Separation | None:
    """Why two links of different hosts cannot be in one network; None: they can, as far as the
    hosts show."""
    tags = vlan_id(one.link), vlan_id(other.link)
    if None not in tags and tags[0] != tags[1]:
        return "vlan"
    both = (_platform(one), _platform(other))
    platforms = [platform for platform in both if platform is not None]
    if any(platform.environment in (*CLOUD_PROVIDERS, "azure") for platform in platforms):
        return "cloud"  # it lets no other address be used; what is equal is in two networks
    if _is_in_user_network(one) and _is_in_user_network(other):
        return "nat"
    address = one.address.address
    if address != other.address.address:
        return None
    sessions = [platform.session_address for platform in platforms]
    if sessions == [address, address]:
        return "session"
    return None


def _separation(address: str, members: Sequence[tuple[Netdev, str]]) -> Separation | None:
    """A reason, if there is one for each pair of the netdevs that have the address."""
    places = []
    for netdev in dict.fromkeys(netdev for netdev, known in members if known == address):
        for own in netdev.link.addresses:
            prefix = _prefix(own.address, own.prefix_length)
            if prefix is not None and prefix.address == address:
                places.append(LinkAddress(netdev.snapshot, netdev.link, own))
    if all(map(_is_in_user_network, places)):
        return "nat"  # of hundreds of guests
    found: Separation | None = None
    for one, other in combinations(places, 2):
        found = separation(one, other)
        if found is None:
            break
    return found


def _platform(place: LinkAddress) -> Platform | None:
    if place.snapshot.inventory is None:
        return None
    return place.snapshot.inventory.platform


def _is_in_user_network(place: LinkAddress) -> bool:
    platform = _platform(place)
    if platform is None or platform.hypervisor is None:
        return False
    network, dot, last = place.address.address.rpartition(".")
    if f"{dot}{last}" != USER_GUEST or "permanent" in place.address.flags:
        return False
    gateways = {route.gateway for route in place.link.default_routes}
    return f"{network}{USER_GATEWAY}" in gateways


def speed(link: Link) -> str | None:
    """``10G``; None: not known, or a false one of a virtual link."""
    if link.bus is None and link.kind not in KINDS_WITH_SPEED:
        return None
    megabits = reported_speed(link)
    if megabits is None:
        return None
    return units.link_speed(megabits)


def _vlan(end: End, link: Link, port_vlans: Mapping[End, int]) -> str | None:
    """The known VLAN of the packets of a netdev. None: not known, the switch may add one."""
    number = port_vlans.get(end) or vlan_id(link)
    if number is None:
        return None
    return str(number)


def vlan_id(link: Link) -> int | None:
    """VLAN ID of a VLAN netdev."""
    if link.kind != "vlan":
        return None
    number = link.details.get("vlan_id")
    if not isinstance(number, int):
        return None
    return number
