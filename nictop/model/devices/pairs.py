"""Relations between NICs of several watched hosts: shared subnets, VF and guest's NIC, tap and guest's NIC.

Reads nothing; takes the newest snapshot of every host. Addresses are looked up in a dict, not compared host by host, so
that the cost grows linearly with the number of hosts. A MAC address that would give several pairs gives none; it is
reported as ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from nictop.model.devices.bridges import filters_vlans, outer_port, vlans_text
from nictop.model.devices.netdevs import Disagreement, End, Netdev, disagreements, netdevs
from nictop.model.devices.subnets import SharedSubnet, speed, subnets, vlan_id
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.snapshot import Snapshot, has_platform
from nictop.model.text.words import mtu_of
from nictop.probe.records import Link, VirtualFunction

TAP_KINDS = ("tun", "macvtap", "vnic")
"""Kinds of links to which the NIC of a virtual machine is connected."""
LIBVIRT_TAP_PREFIX = "fe:"
"""First octet of the MAC address that libvirt gives to a tap, followed by those of the guest: the highest one, so that
no bridge takes it for its own address."""

KnownBy = Literal["address", "forwarding", "machine", "veth"]


@dataclass(frozen=True)
class VirtualFunctionPair:
    """A virtual function of one host that is a NIC of another host, by the MAC address that its physical function
    assigned."""

    physical: End
    """Netdev of the physical function."""
    number: int
    """Number of the VF."""
    guest: End
    address: str
    port_vlan: int | None = None
    """VLAN in which the physical function puts all packets of the VF; None: none."""
    disagreements: tuple[Disagreement, ...] = ()


@dataclass(frozen=True)
class TapPair:
    """A tap, macvtap, port of an ESXi switch or container's veth of one host that is connected to the NIC of another
    host."""

    tap: End
    guest: End
    address: str
    """MAC address of the guest's NIC."""
    known_by: KnownBy
    """address: by the tap's own MAC address. forwarding: the bridge has the guest's MAC address on this port. machine:
    by the command line of the virtual machine. veth: the ends of a veth in two network namespaces of one machine."""
    machine: str | None = None
    """Name of the virtual machine whose process has the tap open, if known."""
    vhost: tuple[int, ...] = ()
    """Thread ids of that machine's vhost threads."""
    disagreements: tuple[Disagreement, ...] = ()
    bridge: str = ""
    """Name of the bridge by which the tap is in its network (`outer_port`); "": none."""
    port: str = ""
    """Name of its port that leads to the tap."""
    vlans: str = ""
    """VLANs of the port (`vlans_text`); "": no VLAN filtering."""


@dataclass(frozen=True)
class Ambiguity:
    """A MAC address that identifies no pair: cloned machines, or two functions with the same address."""

    address: str
    ends: tuple[End, ...]
    """All netdevs that have the address or lead to it."""


@dataclass(frozen=True)
class Pairs:
    """All relations."""

    subnets: tuple[SharedSubnet, ...] = ()
    virtual_functions: tuple[VirtualFunctionPair, ...] = ()
    """Ordered by host and netdev of the physical function, and number."""
    taps: tuple[TapPair, ...] = ()
    """Ordered by host and ifindex of the tap."""
    ambiguous: tuple[Ambiguity, ...] = ()


def pairs(snapshots: Iterable[Snapshot]) -> Pairs:
    """All relations of these hosts, including one that is away: its last snapshot counts. Without those of which only
    the links are read yet: whether a network is that of another host, their platform and settings say."""
    found = netdevs(filter(has_platform, snapshots))
    guests = _by_address(found)
    functions, ambiguities = _virtual_functions(found, guests)
    taps, tap_ambiguities = _TapPairing(found, guests).pairs()
    ambiguous = {ambiguity.address: ambiguity for ambiguity in (*ambiguities, *tap_ambiguities)}
    return Pairs(
        subnets=subnets(found, {pair.guest: pair.port_vlan for pair in functions if pair.port_vlan}),
        virtual_functions=functions,
        taps=taps,
        ambiguous=tuple(ambiguous[address] for address in sorted(ambiguous)),
    )


def mac_addresses(netdev: Netdev) -> tuple[str, ...]:
    """MAC addresses by which other hosts may know a NIC. All ports of a bond have the address of one of them."""
    link = netdev.link
    above = netdev.snapshot.links.get(link.master) if link.master is not None else None
    is_shared = above is not None and above.kind in ("bond", "team") and link.permanent_address is not None
    known = (link.permanent_address, None if is_shared else link.address)
    return tuple(dict.fromkeys(address for address in known if address and address != ZERO_MAC_ADDRESS))


def _by_address(found: Sequence[Netdev]) -> dict[str, list[Netdev]]:
    """MAC address → netdevs that can be the guest's end: devices, and veths into another namespace."""
    result: dict[str, list[Netdev]] = {}
    for netdev in found:
        if netdev.link.bus is not None or _is_into_namespace(netdev):
            for address in mac_addresses(netdev):
                result.setdefault(address, []).append(netdev)
    return result


def _is_into_namespace(netdev: Netdev) -> bool:
    return netdev.link.kind == "veth" and netdev.link.lower_namespace is not None


# ---------------------------------------------------------------------------------------------------- virtual functions


def _virtual_functions(
    found: Sequence[Netdev], guests: dict[str, list[Netdev]]
) -> tuple[tuple[VirtualFunctionPair, ...], list[Ambiguity]]:
    claims: dict[str, dict[tuple[object, ...], tuple[Netdev, VirtualFunction]]] = {}
    for port in found:
        for function in port.link.virtual_functions:
            if function.address and function.address != ZERO_MAC_ADDRESS:
                # the netdevs of a function with several ports list the same VFs
                key = (port.end.host, port.link.pci_address or port.end.ifindex, function.number)
                claims.setdefault(function.address, {}).setdefault(key, (port, function))
    tagged = _tagged(found) if claims else {}
    result, ambiguities = [], []
    for address, claimed in claims.items():
        owners = {port.end.host for port, _ in claimed.values()}
        inner = [netdev for netdev in guests.get(address, ()) if netdev.link.bus == "pci"]
        if not inner or any(netdev.end.host in owners for netdev in inner):
            continue  # a VF used on the host of its PF is below that in the tree
        if len(inner) > 1 or len(claimed) > 1:
            ends = (*(port.end for port, _ in claimed.values()), *(netdev.end for netdev in inner))
            ambiguities.append(Ambiguity(address, tuple(dict.fromkeys(ends))))
            continue
        ((port, function),) = claimed.values()
        result.append(_function_pair(port, function, inner[0], tagged.get(inner[0].end, [])))
    result.sort(key=lambda pair: (pair.physical, pair.number))
    return tuple(result), ambiguities


def _function_pair(port: Netdev, function: VirtualFunction, guest: Netdev, tags: list[int]) -> VirtualFunctionPair:
    port_vlan_text = f"port VLAN {function.vlan}" if function.vlan and tags else None
    guest_vlans = f"tags {', '.join(map(str, sorted(tags)))}" if tags else None
    return VirtualFunctionPair(
        physical=port.end,
        number=function.number,
        guest=guest.end,
        address=function.address or "",
        port_vlan=function.vlan or None,
        disagreements=(
            *disagreements("mtu", ((one.end, _mtu(one.link)) for one in (port, guest))),
            *disagreements("speed", ((one.end, speed(one.link)) for one in (port, guest))),
            *disagreements("vlan", ((port.end, port_vlan_text), (guest.end, guest_vlans))),
        ),
    )


def _mtu(link: Link) -> str | None:
    known = mtu_of(link)
    return None if known is None else str(known)


def _tagged(found: Sequence[Netdev]) -> dict[End, list[int]]:
    """Netdev → IDs of the VLANs on it."""
    result: dict[End, list[int]] = {}
    for netdev in found:
        number, lower = vlan_id(netdev.link), netdev.link.lower
        if number is not None and lower is not None and netdev.link.lower_namespace is None:
            result.setdefault(End(netdev.end.host, lower), []).append(number)
    return result


# ---------------------------------------------------------------------------------------------------------------- taps


@dataclass(frozen=True, eq=False)
class _Claim:
    tap: Netdev
    known_by: KnownBy


class _TapPairing:
    """Pairs of taps and guests."""

    def __init__(self, found: Sequence[Netdev], guests: dict[str, list[Netdev]]) -> None:
        self._guests = guests
        self._claims: dict[str, dict[End, _Claim]] = {}
        taps = [one for one in found if one.link.kind in TAP_KINDS and one.link.details.get("tun_type") != "tun"]
        if taps:
            self._claim_by_address(taps)
            self._claim_by_machine(taps)
        self._claim_by_veth(found)
        self._claim_by_forwarding([*taps, *(one for one in found if _is_into_namespace(one))])

    def pairs(self) -> tuple[tuple[TapPair, ...], list[Ambiguity]]:
        """Unambiguous addresses first: the guests behind a tap are needed to resolve guests of guests."""
        resolved: dict[str, tuple[Netdev, list[_Claim]]] = {}
        ambiguities = []
        for address, claimed in self._claims.items():
            guest, others = self._guest(address, claimed)
            if guest is None:
                if others:
                    ends = (*claimed, *(one.end for one in others))
                    ambiguities.append(Ambiguity(address, tuple(dict.fromkeys(ends))))
                continue
            outer = [claim for claim in claimed.values() if claim.tap.end.host != guest.end.host]
            by_address = [claim for claim in outer if claim.known_by != "forwarding"]
            if outer:
                resolved[address] = (guest, by_address or outer)
        behind: dict[End, set[str]] = {}
        for guest, claims in resolved.values():
            if len(claims) == 1:
                behind.setdefault(claims[0].tap.end, set()).add(guest.end.host)
        result: dict[tuple[End, End], TapPair] = {}
        for address, (guest, claims) in resolved.items():
            nearest = _nearest(claims, behind)
            if len(nearest) == 1:
                pair = _tap_pair(nearest[0], guest, address)
                result.setdefault((pair.tap, pair.guest), pair)
            else:
                ambiguities.append(Ambiguity(address, (*(claim.tap.end for claim in nearest), guest.end)))
        return tuple(sorted(result.values(), key=lambda pair: (pair.tap, pair.guest))), ambiguities

    def _guest(self, address: str, claimed: dict[End, _Claim]) -> tuple[Netdev | None, list[Netdev]]:
        """The NIC with a MAC address; or all of them, when they are on several hosts."""
        with_address = [one for one in self._guests.get(address, ()) if one.end not in claimed]
        outside = [one for one in with_address if any(end.host != one.end.host for end in claimed)]
        if len({one.end.host for one in outside}) > 1:
            return None, outside
        # net_failover creates three netdevs with one address in a guest: the paravirtual one is connected to the tap
        return min(outside, key=lambda one: (one.link.bus != "virtio", one.end.ifindex), default=None), []

    def _claim_by_address(self, taps: Iterable[Netdev]) -> None:
        by_tail: dict[str, list[str]] = {}
        for address in self._guests:
            by_tail.setdefault(address[len(LIBVIRT_TAP_PREFIX) :], []).append(address)
        for tap in taps:
            for own in mac_addresses(tap):
                if own in self._guests:
                    self._claim(own, tap, "address")
                elif own.startswith(LIBVIRT_TAP_PREFIX):
                    for address in by_tail.get(own[len(LIBVIRT_TAP_PREFIX) :], ()):
                        self._claim(address, tap, "address")

    def _claim_by_machine(self, taps: Iterable[Netdev]) -> None:
        by_end = {tap.end: tap for tap in taps}
        for snapshot in {tap.end.host: tap.snapshot for tap in by_end.values()}.values():
            for thread in snapshot.inventory.threads if snapshot.inventory is not None else ():
                for ifindex, address in thread.nics.items():
                    tap = by_end.get(End(snapshot.host, ifindex))
                    if tap is not None:
                        self._claim(address, tap, "machine")

    def _claim_by_veth(self, found: Iterable[Netdev]) -> None:
        """A veth on a bridge, and its other end in a namespace that is watched as another host. The numbers at both
        ends must identify one pair."""
        ends: dict[tuple[str, int, int], list[Netdev]] = {}
        for one in found:
            hello = one.snapshot.hello
            if _is_into_namespace(one) and hello is not None and hello.boot_id:
                ends.setdefault((hello.boot_id, one.end.ifindex, one.link.lower or one.end.ifindex), []).append(one)
        for (boot, own, other), ports in ends.items():
            peers = ends.get((boot, other, own), [])
            if len(ports) == len(peers) == 1 and ports[0].link.master is not None and peers[0].link.master is None:
                for address in mac_addresses(peers[0]):
                    self._claim(address, ports[0], "veth")

    def _claim_by_forwarding(self, ports: Iterable[Netdev]) -> None:
        """Only for ports that lead to one machine: an uplink learns the addresses of the whole network."""
        by_end = {port.end: port for port in ports}
        for snapshot in {port.end.host: port.snapshot for port in by_end.values()}.values():
            for entry in snapshot.inventory.forwarding if snapshot.inventory is not None else ():
                port = by_end.get(End(snapshot.host, entry.ifindex))
                if port is not None and not entry.self_entry and entry.address != port.link.address:
                    self._claim(entry.address, port, "forwarding")

    def _claim(self, address: str, tap: Netdev, known_by: KnownBy) -> None:
        if address in self._guests:
            self._claims.setdefault(address, {}).setdefault(tap.end, _Claim(tap, known_by))


def _nearest(claims: list[_Claim], behind: dict[End, set[str]]) -> list[_Claim]:
    """Without the taps that lead to the guest only through another host which is itself a guest behind them."""
    hosts = {claim.tap.end.host for claim in claims}
    return [claim for claim in claims if not behind.get(claim.tap.end, set()) & hosts - {claim.tap.end.host}] or claims


def _tap_pair(claim: _Claim, guest: Netdev, address: str) -> TapPair:
    tap = claim.tap
    threads = tap.snapshot.inventory.threads if tap.snapshot.inventory is not None else ()
    own = [thread for thread in threads if tap.end.ifindex in thread.links]
    port, bridge = outer_port(tap.link, tap.snapshot.links) or (None, None)
    vlans = port.bridge_vlans if port is not None and bridge is not None and filters_vlans(bridge) else None
    return TapPair(
        tap=tap.end,
        guest=guest.end,
        address=address,
        known_by=claim.known_by,
        machine=next((thread.machine for thread in own if thread.machine), None),
        vhost=tuple(thread.tid for thread in own if thread.kind == "vhost"),
        bridge=bridge.name if bridge is not None else "",
        port=port.name if port is not None else "",
        vlans=vlans_text(vlans) if vlans is not None else "",
        disagreements=disagreements("mtu", ((one.end, _mtu(one.link)) for one in (tap, guest))),
    )


def peers(found: Pairs) -> dict[End, tuple[End, ...]]:
    """Netdev → the other ends of its VF and tap pairs, each once."""
    result: dict[End, dict[End, None]] = {}
    for one, other in chain(
        ((pair.physical, pair.guest) for pair in found.virtual_functions),
        ((pair.tap, pair.guest) for pair in found.taps),
    ):
        result.setdefault(one, {})[other] = None
        result.setdefault(other, {})[one] = None
    return {end: tuple(others) for end, others in result.items()}
