"""Relations between NICs of several watched hosts: shared subnets, VF and guest's NIC, tap and
guest's NIC.

Reads nothing; takes the newest snapshot of every host. Addresses are looked up in a dict, not
compared host by host, so that the cost grows linearly with the number of hosts. A MAC address that
would give several pairs gives none; it is reported as ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from nictop.model.devices.bridges import filters_vlans, outer_port, vlans_text
from nictop.model.devices.links import is_into_namespace, link_at
from nictop.model.devices.netdevs import Disagreement, End, Netdev, disagreements, netdevs
from nictop.model.devices.subnets import SharedSubnet, speed, subnets, vlan_id
from nictop.model.devices.switch_ports import named_vlans
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.parts import boot_id, forwarding_entries, threads_of
from nictop.model.snapshot import Snapshot, has_platform
from nictop.model.text.words import mtu_of
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, VirtualFunction

TAP_KINDS = ("tun", "macvtap", "vnic")
"""Kinds of links to which the NIC of a virtual machine is connected."""
LIBVIRT_TAP_PREFIX = "fe:"
"""First octet of the MAC address that libvirt gives to a tap, followed by those of the guest: the
highest one, so that no bridge takes it for its own address."""

KnownBy = Literal["address", "forwarding", "machine", "veth"]


@dataclass(frozen=True)
class VirtualFunctionPair:
    """A virtual function of one host that is a NIC of another host, by the MAC address that its
    physical function assigned."""

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
    """A tap, macvtap, port of an ESXi switch or container's veth of one host that is connected to
    the NIC of another host."""

    tap: End
    guest: End
    address: str
    """MAC address of the guest's NIC."""
    known_by: KnownBy
    """address: by the tap's own MAC address. forwarding: the bridge has the guest's MAC address on
    this port. machine: by the command line of the virtual machine. veth: the ends of a veth in two
    network namespaces of one machine."""
    machine: str | None = None
    """Name of the virtual machine whose process has the tap open, if known."""
    vhost: tuple[int, ...] = ()
    """Thread ids of that machine's vhost threads."""
    disagreements: tuple[Disagreement, ...] = ()
    bridge: str = ""
    """Name of the bridge by which the tap is in its network (`outer_port`), also of Open vSwitch;
    "": none."""
    port: str = ""
    """Name of its port that leads to the tap."""
    vlans: str = ""
    """VLANs of the port (`vlans_text`, `named_vlans`); "": no VLAN filtering."""


@dataclass(frozen=True)
class Ambiguity:
    """A MAC address that identifies no pair: cloned machines, or two functions with the same
    address."""

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
    """All relations of these hosts, including one that is away: its last snapshot counts. Without
    those of which only the links are read yet: whether a network is that of another host, their
    platform and settings say."""
    found = netdevs(filter(has_platform, snapshots))
    guests = _by_address(found)
    functions, ambiguities = _virtual_functions(found, guests)
    taps, tap_ambiguities = _TapPairing(found, guests).pairs()
    ambiguous = {ambiguity.address: ambiguity for ambiguity in (*ambiguities, *tap_ambiguities)}
    port_vlans = {pair.guest: pair.port_vlan for pair in functions if pair.port_vlan}
    return Pairs(
        subnets=subnets(found, port_vlans),
        virtual_functions=functions,
        taps=taps,
        ambiguous=tuple(ambiguous[address] for address in sorted(ambiguous)),
    )


def mac_addresses(netdev: Netdev) -> tuple[str, ...]:
    """MAC addresses by which other hosts may know a NIC. All ports of a bond have the address of
    one of them."""
    link = netdev.link
    addresses = [link.permanent_address]
    if link.permanent_address is None or not _is_aggregated(netdev):
        addresses.append(link.address)
    known = [address for address in addresses if address and address != ZERO_MAC_ADDRESS]
    return tuple(dict.fromkeys(known))


def _by_address(found: Sequence[Netdev]) -> dict[str, list[Netdev]]:
    """MAC address → netdevs that can be the guest's end: devices, and veths into another
    namespace."""
    result: dict[str, list[Netdev]] = {}
    for netdev in found:
        if netdev.link.bus is not None or _is_into_namespace(netdev):
            for address in mac_addresses(netdev):
                result.setdefault(address, []).append(netdev)
    return result


def _is_into_namespace(netdev: Netdev) -> bool:
    return is_into_namespace(netdev.link)


def _is_tap(netdev: Netdev) -> bool:
    """It carries frames, not packets."""
    return netdev.link.kind in TAP_KINDS and netdev.link.details.get("tun_type") != "tun"


# -------------------------------------------------------------------------------- virtual functions


def _is_aggregated(netdev: Netdev) -> bool:
    """It is a port of a bond or team."""
    above = link_at(netdev.link.master, netdev.snapshot.links)
    return above is not None and above.kind in ("bond", "team")


def _virtual_functions(
    found: Sequence[Netdev], guests: dict[str, list[Netdev]]
) -> tuple[tuple[VirtualFunctionPair, ...], list[Ambiguity]]:
    claims = _claimed_functions(found)
    if not claims:
        return (), []
    tagged = _tagged(found)
    result, ambiguities = [], []
    for address, claimed in claims.items():
        ports = [port for port, _ in claimed]
        inner = [netdev for netdev in guests.get(address, ()) if netdev.link.bus == "pci"]
        if not inner or _hosts(inner) & _hosts(ports):
            continue  # a VF used on the host of its PF is below that in the tree
        if len(inner) > 1 or len(claimed) > 1:
            ends = dict.fromkeys(netdev.end for netdev in (*ports, *inner))
            ambiguities.append(Ambiguity(address, tuple(ends)))
            continue
        ((port, function),), (guest,) = claimed, inner
        result.append(_function_pair(port, function, guest, tagged.get(guest.end, [])))
    result.sort(key=lambda pair: (pair.physical, pair.number))
    return tuple(result), ambiguities


def _hosts(found: Iterable[Netdev]) -> set[str]:
    return {netdev.end.host for netdev in found}


def _claimed_functions(
    found: Sequence[Netdev],
) -> dict[str, list[tuple[Netdev, VirtualFunction]]]:
    """MAC address → virtual functions with it, each with a netdev of its physical function: those
    of a function with several ports list the same VFs."""
    claims: dict[str, dict[tuple[object, ...], tuple[Netdev, VirtualFunction]]] = {}
    for port in found:
        physical = port.link.pci_address or port.end.ifindex
        for function in port.link.virtual_functions:
            if function.address and function.address != ZERO_MAC_ADDRESS:
                key = (port.end.host, physical, function.number)
                claims.setdefault(function.address, {}).setdefault(key, (port, function))
    return {address: list(claimed.values()) for address, claimed in claims.items()}


def _function_pair(
    port: Netdev, function: VirtualFunction, guest: Netdev, tags: list[int]
) -> VirtualFunctionPair:
    port_vlan = guest_vlans = None
    if tags:
        guest_vlans = f"tags {', '.join(map(str, sorted(tags)))}"
    if tags and function.vlan:
        port_vlan = f"port VLAN {function.vlan}"
    ends = (port, guest)
    return VirtualFunctionPair(
        physical=port.end,
        number=function.number,
        guest=guest.end,
        address=function.address or "",
        port_vlan=function.vlan or None,
        disagreements=(
            *disagreements("mtu", [(netdev.end, _mtu(netdev.link)) for netdev in ends]),
            *disagreements("speed", [(netdev.end, speed(netdev.link)) for netdev in ends]),
            *disagreements("vlan", [(port.end, port_vlan), (guest.end, guest_vlans)]),
        ),
    )


def paired_functions(
    pair: VirtualFunctionPair, snapshots: Mapping[str, Snapshot]
) -> Iterator[VirtualFunction]:
    """What the netdev of the physical function of a pair reports now of the VF; nothing if it is
    gone. `snapshots`: by host."""
    owner = snapshots.get(pair.physical.host)
    if owner is None:
        return
    port = owner.links.get(pair.physical.ifindex)
    if port is None:
        return
    for function in port.virtual_functions:
        if function.number == pair.number:
            yield function


def _mtu(link: Link) -> str | None:
    known = mtu_of(link)
    if known is None:
        return None
    return str(known)


def _tagged(found: Sequence[Netdev]) -> dict[End, list[int]]:
    """Netdev → IDs of the VLANs on it."""
    result: dict[End, list[int]] = {}
    for netdev in found:
        number, lower = vlan_id(netdev.link), netdev.link.lower
        if number is None or lower is None:
            continue
        if netdev.link.lower_namespace is None:
            result.setdefault(End(netdev.end.host, lower), []).append(number)
    return result


# --------------------------------------------------------------------------------------------- taps


@dataclass(frozen=True, eq=False)
class _Claim:
    tap: Netdev
    known_by: KnownBy


class _TapPairing:
    """Pairs of taps and guests."""

    def __init__(self, found: Sequence[Netdev], guests: dict[str, list[Netdev]]) -> None:
        self._guests = guests
        self._claims: dict[str, dict[End, _Claim]] = {}
        taps = [netdev for netdev in found if _is_tap(netdev)]
        if taps:
            self._claim_by_address(taps)
            self._claim_by_machine(taps)
        self._claim_by_veth(found)
        self._claim_by_forwarding([*taps, *filter(_is_into_namespace, found)])

    def pairs(self) -> tuple[tuple[TapPair, ...], list[Ambiguity]]:
        """Unambiguous addresses first: the guests behind a tap are needed to resolve guests of
        guests."""
        ambiguities: list[Ambiguity] = []
        resolved = self._resolved(ambiguities)
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
                ends = [*(claim.tap.end for claim in nearest), guest.end]
                ambiguities.append(Ambiguity(address, tuple(ends)))
        return tuple(result[ends] for ends in sorted(result)), ambiguities

    def _resolved(self, ambiguities: list[Ambiguity]) -> dict[str, tuple[Netdev, list[_Claim]]]:
        """MAC address → the NIC that has it, and the taps on other hosts that lead to it. To
        `ambiguities` those are added that several hosts have."""
        resolved: dict[str, tuple[Netdev, list[_Claim]]] = {}
        for address, claimed in self._claims.items():
            guest, others = self._guest(address, claimed)
            if others:
                ends = (*claimed, *(netdev.end for netdev in others))
                ambiguities.append(Ambiguity(address, tuple(dict.fromkeys(ends))))
            if guest is None:
                continue
            outer = [claim for claim in claimed.values() if claim.tap.end.host != guest.end.host]
            by_address = [claim for claim in outer if claim.known_by != "forwarding"]
            if outer:
                resolved[address] = (guest, by_address or outer)
        return resolved

    def _guest(
        self, address: str, claimed: dict[End, _Claim]
    ) -> tuple[Netdev | None, list[Netdev]]:
        """The NIC with a MAC address; or all of them, when they are on several hosts."""
        outside = []
        for netdev in self._guests.get(address, ()):
            is_elsewhere = any(end.host != netdev.end.host for end in claimed)
            if is_elsewhere and netdev.end not in claimed:
                outside.append(netdev)
        if len({netdev.end.host for netdev in outside}) > 1:
            return None, outside
        # net_failover creates three netdevs with one address in a guest: the paravirtual one is
        # connected to the tap
        outside.sort(key=lambda netdev: (netdev.link.bus != "virtio", netdev.end.ifindex))
        return next(iter(outside), None), []

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
        for snapshot in _snapshots(by_end.values()):
            for thread in threads_of(snapshot):
                for ifindex, address in thread.nics.items():
                    tap = by_end.get(End(snapshot.host, ifindex))
                    if tap is not None:
                        self._claim(address, tap, "machine")

    def _claim_by_veth(self, found: Iterable[Netdev]) -> None:
        """A veth on a bridge, and its other end in a namespace that is watched as another host. The
        numbers at both ends must identify one pair."""
        ends = _ends_of_veths(found)
        for (boot, own, other), ports in ends.items():
            peers = ends.get((boot, other, own), [])
            if len(ports) != 1 or len(peers) != 1:
                continue
            (port,), (peer,) = ports, peers
            if port.link.master is not None and peer.link.master is None:
                for address in mac_addresses(peer):
                    self._claim(address, port, "veth")

    def _claim_by_forwarding(self, ports: Iterable[Netdev]) -> None:
        """Only for ports that lead to one machine: an uplink learns the addresses of the whole
        network."""
        by_end = {port.end: port for port in ports}
        for snapshot in _snapshots(by_end.values()):
            for entry in forwarding_entries(snapshot):
                port = by_end.get(End(snapshot.host, entry.ifindex))
                if port is None or entry.self_entry or entry.set_as:
                    continue
                if entry.address != port.link.address:
                    self._claim(entry.address, port, "forwarding")

    def _claim(self, address: str, tap: Netdev, known_by: KnownBy) -> None:
        if address in self._guests:
            self._claims.setdefault(address, {}).setdefault(tap.end, _Claim(tap, known_by))


def _snapshots(found: Iterable[Netdev]) -> Iterable[Snapshot]:
    """Those of the hosts of netdevs, each once."""
    return {netdev.end.host: netdev.snapshot for netdev in found}.values()


def _ends_of_veths(found: Iterable[Netdev]) -> dict[tuple[str, int, int], list[Netdev]]:
    """(boot ID, own number, number of the other end) → veths into another namespace."""
    ends: dict[tuple[str, int, int], list[Netdev]] = {}
    for netdev in found:
        boot, own = boot_id(netdev.snapshot), netdev.end.ifindex
        if boot and _is_into_namespace(netdev):
            ends.setdefault((boot, own, netdev.link.lower or own), []).append(netdev)
    return ends


def _nearest(claims: list[_Claim], behind: dict[End, set[str]]) -> list[_Claim]:
    """Without the taps that lead to the guest only through another host which is itself a guest
    behind them."""
    hosts = {claim.tap.end.host for claim in claims}
    nearest = []
    for claim in claims:
        others = hosts - {claim.tap.end.host}
        if not behind.get(claim.tap.end, set()) & others:
            nearest.append(claim)
    return nearest or claims


def _tap_pair(claim: _Claim, guest: Netdev, address: str) -> TapPair:
    tap = claim.tap
    own = [thread for thread in threads_of(tap.snapshot) if tap.end.ifindex in thread.links]
    bridge, port, vlans = _place_on_bridge(tap)
    mtus = [(netdev.end, _mtu(netdev.link)) for netdev in (tap, guest)]
    return TapPair(
        tap=tap.end,
        guest=guest.end,
        address=address,
        known_by=claim.known_by,
        machine=next((thread.machine for thread in own if thread.machine), None),
        vhost=tuple(thread.tid for thread in own if thread.kind == "vhost"),
        bridge=bridge,
        port=port,
        vlans=vlans,
        disagreements=disagreements("mtu", mtus),
    )


def _place_on_bridge(tap: Netdev) -> tuple[str, str, str]:
    """Name of the bridge by which a tap is in its network, name and VLANs of the port there; "" for
    what there is not."""
    switched = tap.snapshot.switch_ports.of_link(tap.link)
    if switched is not None:
        return switched.bridge, switched.name, named_vlans(switched)
    found = outer_port(tap.link, tap.snapshot.links)
    if found is None:
        return "", "", ""
    port, bridge = found
    vlans = ""
    if filters_vlans(bridge) and port.bridge_vlans is not None:
        vlans = vlans_text(port.bridge_vlans)
    return bridge.name, port.name, vlans


def peers(found: Pairs) -> dict[End, tuple[End, ...]]:
    """Netdev → the other ends of its VF and tap pairs, each once."""
    ends = [(pair.physical, pair.guest) for pair in found.virtual_functions]
    ends += [(pair.tap, pair.guest) for pair in found.taps]
    result: dict[End, dict[End, None]] = {}
    for end, other in ends:
        result.setdefault(end, {})[other] = None
        result.setdefault(other, {})[end] = None
    return {end: tuple(others) for end, others in result.items()}
