"""Which NICs of watched hosts are in one Ethernet segment, by the MAC addresses that they have seen
of each other.

Reads nothing. A NIC that has the MAC address of another one in its neighbour table, or a bridge
that learned it on a port, is connected to it. Static entries are not used: an administrator wrote
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.snapshot import is_same_machine
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.routes.facts import has_answered, neighbours
from nictop.rules.subjects import VIRTUAL_ROUTER_PREFIX

LinkKey = tuple[str, int]
"""Host and ifindex."""
REPEATED_MAC_PREFIXES = (
    VIRTUAL_ROUTER_PREFIX,
    "00:00:0c:07:ac:",  # HSRP (RFC 2281)
    "00:00:0c:9f:f",  # HSRP version 2
    "00:05:73:a0:",  # HSRP for IPv6
    "00:07:b4:",  # GLBP
    "02:42:",  # Docker: made of the IPv4 address (libnetwork netutils.GenerateMACFromIP)
    "0a:58:",  # OVN-Kubernetes, the bridge plugin of CNI: likewise
    "ee:ee:ee:ee:ee:ee",  # Calico: the host end of each veth
)
"""Of MAC addresses that separate networks have, too."""
LOCALLY_ADMINISTERED_DIGITS = frozenset("2367abef")
"""Second digit of a MAC address that no manufacturer has assigned (IEEE 802, bit 0x02). User
networks of QEMU, clouds and copied virtual machines have the same ones in many places."""


@dataclass(frozen=True)
class Sighting:
    """A link of one host has seen the MAC address of a link of another one."""

    host: HostFacts
    link: Link
    other_host: HostFacts
    other: Link
    address: str
    """IP address that answered with this MAC address; "": learned by a bridge."""
    port: str = ""
    """Port on which the bridge learned it."""

    def end_on(self, host: HostFacts) -> Link:
        """The link on this one of the two hosts."""
        return self.link if self.host is host else self.other

    @property
    def text(self) -> str:
        """``MAC address 02:… of vm1 ens224 (neighbour 192.0.2.7)``"""
        how = f"neighbour {self.address}" if self.address else f"learned on port {self.port}"
        return (
            f"MAC address {self.other.address} of {self.other_host.name} {self.other.name} ({how})"
        )


class SeenSegments:
    """What all watched hosts have seen of each other."""

    def __init__(self, hosts: Sequence[HostFacts]) -> None:
        self._between: dict[tuple[LinkKey, str], list[Sighting]] = {}
        self._connected: set[tuple[LinkKey, LinkKey]] = set()
        addresses = links_by_mac_address(tuple(hosts))
        for host in hosts:
            for link, mac, address, port in (
                *_neighbour_addresses(host),
                *_learned_addresses(host),
            ):
                for other_host, other in addresses.get(mac, ()):
                    if other_host is not host:
                        self._add(Sighting(host, link, other_host, other, address, port))

    def _add(self, sighting: Sighting) -> None:
        one = sighting.host.name, sighting.link.ifindex
        other = sighting.other_host.name, sighting.other.ifindex
        self._connected |= {(one, other), (other, one)}
        self._between.setdefault((one, other[0]), []).append(sighting)
        self._between.setdefault((other, one[0]), []).append(sighting)

    @property
    def is_empty(self) -> bool:
        return not self._between

    def are_connected(self, one: LinkKey, other: LinkKey) -> bool:
        """Either of the two links has seen the other one."""
        return (one, other) in self._connected

    def sighting(self, one: LinkKey, other: LinkKey) -> Sighting | None:
        """The first by which one of the two links has seen the other one."""
        for sighting in self.between(one, other[0]):
            ends = {
                (sighting.host.name, sighting.link.ifindex),
                (sighting.other_host.name, sighting.other.ifindex),
            }
            if ends == {one, other}:
                return sighting
        return None

    def between(self, link: LinkKey, host: str) -> Sequence[Sighting]:
        """What a link and a host have seen of each other."""
        return self._between.get((link, host), ())


@once_per_diagnosis
def segments(hosts: tuple[HostFacts, ...]) -> SeenSegments:
    """Computed once for all rules of a diagnosis: hosts are compared by identity."""
    return SeenSegments(hosts)


class WatchedLink(NamedTuple):
    """A link of a watched host."""

    host: HostFacts
    link: Link

    @property
    def key(self) -> LinkKey:
        return self.host.name, self.link.ifindex

    @property
    def named(self) -> str:
        """``web1 ens224``"""
        return f"{self.host.name} {self.link.name}"


def evidence_of_one_network(
    one: WatchedLink, other: WatchedLink, hosts: Sequence[HostFacts]
) -> Evidence | None:
    """That two links are in one Ethernet segment: one has seen the MAC address of the other, or
    both have a neighbour with the same IP and MAC address. MAC addresses that separate networks may
    have as well show nothing; of two machines these are all that are locally administered."""
    is_one_machine = is_same_machine(one.host.snapshot, other.host.snapshot)
    sighting = segments(tuple(hosts)).sighting(one.key, other.key)
    if sighting is not None and _identifies(sighting.other.address, is_one_machine=is_one_machine):
        value = f"{sighting.host.name} {sighting.link.name} has {sighting.text}"
        return Evidence("one network", value, f"ip neigh show dev {sighting.link.name}")
    theirs = neighbours(other.host).get(other.link.ifindex, {})
    for address, entry in neighbours(one.host).get(one.link.ifindex, {}).items():
        same = theirs.get(address)
        if same is None or same.mac != entry.mac:
            continue
        if not (has_answered(entry) and has_answered(same)):
            continue
        if _identifies(entry.mac, is_one_machine=is_one_machine):
            value = f"both have the neighbour {address} with the MAC address {entry.mac}"
            return Evidence("one network", value, f"ip neigh show dev {one.link.name}")
    return None


def _identifies(mac: str | None, *, is_one_machine: bool) -> bool:
    """The MAC address is that of one NIC, as far as its octets show."""
    if mac is None or mac.startswith(REPEATED_MAC_PREFIXES):
        return False
    return is_one_machine or mac[1:2] not in LOCALLY_ADMINISTERED_DIGITS


@once_per_diagnosis
def links_by_mac_address(
    hosts: tuple[HostFacts, ...],
) -> dict[str, list[tuple[HostFacts, Link]]]:
    """MAC address → links that send with it; an address on two hosts is left out."""
    found: dict[str, list[tuple[HostFacts, Link]]] = {}
    for host in hosts:
        for link in host.links:
            if link.address and link.address.strip("0:"):
                found.setdefault(link.address, []).append((host, link))
    unique = {}
    for mac, places in found.items():
        if len({host.name for host, _ in places}) == 1:
            unique[mac] = places
    return unique


def _neighbour_addresses(host: HostFacts) -> Iterator[tuple[Link, str, str, str]]:
    routing = host.inventory.routing
    for entry in routing.neighbours if routing is not None else ():
        link = host.snapshot.links.get(entry.ifindex)
        if link is not None and entry.mac is not None and has_answered(entry):
            yield link, entry.mac, entry.address, ""


def _learned_addresses(host: HostFacts) -> Iterator[tuple[Link, str, str, str]]:
    """By bridges on ports with a device; the bridge stands for the port, as it has the IP
    address."""
    for entry in host.inventory.forwarding:
        if not entry.is_learned:
            continue
        bridge, port = host.link_at(entry.master), host.link_at(entry.ifindex)
        if bridge is not None and port is not None and port.bus is not None:
            yield bridge, entry.address, "", port.name
