"""What belongs together on several watched hosts: shared subnets, VF and guest's NIC, tap and guest's NIC.

Reads nothing; takes the newest snapshot of every host. Addresses are looked up, never compared host by host, so that 64
hosts cost 64 times as much as one. A MAC address that would make several pairs makes none: it is told as ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from nictop.model.devices.netdevs import Disagreement, End, Netdev, disagreements, netdevs
from nictop.model.devices.subnets import SharedSubnet, speed, subnets, vlan_id
from nictop.model.facts.hardware import NO_ADDRESS
from nictop.model.snapshot import Snapshot
from nictop.probe.records import VirtualFunction

TAPS = ("tun", "macvtap")
"""Kinds of links that a virtual machine's NIC ends in."""
COPIED = "fe:"
"""libvirt gives a tap the guest's MAC address with this first octet: the highest there is, so that no bridge takes it
for its own."""

KnownBy = Literal["address", "forwarding"]


@dataclass(frozen=True)
class VirtualFunctionPair:
    """A virtual function of one host that is a NIC of another, by the MAC address that its physical function gave
    it."""

    physical: End
    """Netdev of the physical function."""
    number: int
    """Of the VF."""
    guest: End
    address: str
    port_vlan: int | None = None
    """VLAN that the physical function puts around everything of the VF; None: none."""
    disagreements: tuple[Disagreement, ...] = ()


@dataclass(frozen=True)
class TapPair:
    """A tap, macvtap or container's veth of one host, behind which is the NIC of another."""

    tap: End
    guest: End
    address: str
    """MAC of the guest's NIC."""
    known_by: KnownBy
    """address: the tap's own MAC. forwarding: the bridge has the guest's MAC behind it."""
    machine: str | None = None
    """Name of the virtual machine, when its process is known to have the tap open."""
    vhost: tuple[int, ...] = ()
    """Thread ids of that machine's vhost threads."""
    disagreements: tuple[Disagreement, ...] = ()


@dataclass(frozen=True)
class Ambiguity:
    """A MAC address that says less than it should: cloned machines, or the same address given to two functions."""

    address: str
    ends: tuple[End, ...]
    """All that bear it or claim to lead to it."""


@dataclass(frozen=True)
class Pairs:
    """All that is known to belong together."""

    subnets: tuple[SharedSubnet, ...] = ()
    virtual_functions: tuple[VirtualFunctionPair, ...] = ()
    """By host and netdev of the physical function, and number."""
    taps: tuple[TapPair, ...] = ()
    """By host and ifindex of the tap."""
    ambiguous: tuple[Ambiguity, ...] = ()


def pairs(snapshots: Iterable[Snapshot]) -> Pairs:
    """Everything that belongs together on these hosts, also on one that is away: its last facts count."""
    found = netdevs(snapshots)
    guests = _by_address(found)
    functions, puzzles = _virtual_functions(found, guests)
    taps, more_puzzles = _Taps(found, guests).pairs()
    ambiguous = {puzzle.address: puzzle for puzzle in (*puzzles, *more_puzzles)}
    return Pairs(
        subnets=subnets(found, {pair.guest: pair.port_vlan for pair in functions if pair.port_vlan}),
        virtual_functions=functions,
        taps=taps,
        ambiguous=tuple(ambiguous[address] for address in sorted(ambiguous)),
    )


def mac_addresses(netdev: Netdev) -> tuple[str, ...]:
    """Those by which others may know a NIC. The ports of a bond all bear the address of one of them."""
    link = netdev.link
    above = netdev.snapshot.links.get(link.master) if link.master is not None else None
    lent = above is not None and above.kind in ("bond", "team") and link.permanent_address is not None
    known = (link.permanent_address, None if lent else link.address)
    return tuple(dict.fromkeys(address for address in known if address and address != NO_ADDRESS))


def _by_address(found: Sequence[Netdev]) -> dict[str, list[Netdev]]:
    """MAC address → netdevs that can be the inner end of something: devices, and veths into another namespace."""
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
            if function.address and function.address != NO_ADDRESS:
                # the netdevs of a function with several ports tell of the same VFs
                key = (port.end.host, port.link.pci_address or port.end.ifindex, function.number)
                claims.setdefault(function.address, {}).setdefault(key, (port, function))
    tagged = _tagged(found) if claims else {}
    result, puzzles = [], []
    for address, claimed in claims.items():
        owners = {port.end.host for port, _ in claimed.values()}
        inner = [netdev for netdev in guests.get(address, ()) if netdev.link.bus == "pci"]
        if not inner or any(netdev.end.host in owners for netdev in inner):
            continue  # a VF that is used where its PF is stands below it in the tree
        if len(inner) > 1 or len(claimed) > 1:
            ends = (*(port.end for port, _ in claimed.values()), *(netdev.end for netdev in inner))
            puzzles.append(Ambiguity(address, tuple(dict.fromkeys(ends))))
            continue
        ((port, function),) = claimed.values()
        result.append(_function_pair(port, function, inner[0], tagged.get(inner[0].end, [])))
    result.sort(key=lambda pair: (pair.physical, pair.number))
    return tuple(result), puzzles


def _function_pair(port: Netdev, function: VirtualFunction, guest: Netdev, tags: list[int]) -> VirtualFunctionPair:
    around = f"port VLAN {function.vlan}" if function.vlan and tags else None
    inside = f"tags {', '.join(map(str, sorted(tags)))}" if tags else None
    return VirtualFunctionPair(
        physical=port.end,
        number=function.number,
        guest=guest.end,
        address=function.address or "",
        port_vlan=function.vlan or None,
        disagreements=(
            *disagreements("mtu", ((one.end, str(one.link.mtu)) for one in (port, guest))),
            *disagreements("speed", ((one.end, speed(one.link)) for one in (port, guest))),
            *disagreements("vlan", ((port.end, around), (guest.end, inside))),
        ),
    )


def _tagged(found: Sequence[Netdev]) -> dict[End, list[int]]:
    """Netdev → VLANs that are made on it."""
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


class _Taps:
    """Who leads to whom."""

    def __init__(self, found: Sequence[Netdev], guests: dict[str, list[Netdev]]) -> None:
        self._guests = guests
        self._claims: dict[str, dict[End, _Claim]] = {}
        taps = [one for one in found if one.link.kind in TAPS and one.link.details.get("tun_type") != "tun"]
        if taps:
            self._claim_by_address(taps)
        self._claim_by_forwarding([*taps, *(one for one in found if _is_into_namespace(one))])

    def pairs(self) -> tuple[tuple[TapPair, ...], list[Ambiguity]]:
        """What is clear is settled first: who is a guest behind which tap decides who is behind a guest of it."""
        settled: dict[str, tuple[Netdev, list[_Claim]]] = {}
        puzzles = []
        for address, claimed in self._claims.items():
            guest, others = self._guest(address, claimed)
            if guest is None:
                if others:
                    ends = (*claimed, *(one.end for one in others))
                    puzzles.append(Ambiguity(address, tuple(dict.fromkeys(ends))))
                continue
            outer = [claim for claim in claimed.values() if claim.tap.end.host != guest.end.host]
            by_address = [claim for claim in outer if claim.known_by == "address"]
            if outer:
                settled[address] = (guest, by_address or outer)
        behind: dict[End, set[str]] = {}
        for guest, claims in settled.values():
            if len(claims) == 1:
                behind.setdefault(claims[0].tap.end, set()).add(guest.end.host)
        result: dict[tuple[End, End], TapPair] = {}
        for address, (guest, claims) in settled.items():
            nearest = _nearest(claims, behind)
            if len(nearest) == 1:
                pair = _tap_pair(nearest[0], guest, address)
                result.setdefault((pair.tap, pair.guest), pair)
            else:
                puzzles.append(Ambiguity(address, (*(claim.tap.end for claim in nearest), guest.end)))
        return tuple(sorted(result.values(), key=lambda pair: (pair.tap, pair.guest))), puzzles

    def _guest(self, address: str, claimed: dict[End, _Claim]) -> tuple[Netdev | None, list[Netdev]]:
        """The NIC that bears a MAC address; else all of them, when they are on several hosts."""
        bearing = [one for one in self._guests.get(address, ()) if one.end not in claimed]
        outside = [one for one in bearing if any(end.host != one.end.host for end in claimed)]
        if len({one.end.host for one in outside}) > 1:
            return None, outside
        # net_failover puts three netdevs with one address into a guest: the paravirtual one is behind the tap
        return min(outside, key=lambda one: (one.link.bus != "virtio", one.end.ifindex), default=None), []

    def _claim_by_address(self, taps: Iterable[Netdev]) -> None:
        by_tail: dict[str, list[str]] = {}
        for address in self._guests:
            by_tail.setdefault(address[len(COPIED) :], []).append(address)
        for tap in taps:
            for own in mac_addresses(tap):
                if own in self._guests:
                    self._claim(own, tap, "address")
                elif own.startswith(COPIED):
                    for address in by_tail.get(own[len(COPIED) :], ()):
                        self._claim(address, tap, "address")

    def _claim_by_forwarding(self, ports: Iterable[Netdev]) -> None:
        """Only of ports that lead to one machine: an uplink learns the addresses of the whole network."""
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
    """Without the taps that lead there only through another claimant, who is a guest behind them itself."""
    hosts = {claim.tap.end.host for claim in claims}
    return [claim for claim in claims if not behind.get(claim.tap.end, set()) & hosts - {claim.tap.end.host}] or claims


def _tap_pair(claim: _Claim, guest: Netdev, address: str) -> TapPair:
    tap = claim.tap
    threads = tap.snapshot.inventory.threads if tap.snapshot.inventory is not None else ()
    own = [thread for thread in threads if tap.end.ifindex in thread.links]
    return TapPair(
        tap=tap.end,
        guest=guest.end,
        address=address,
        known_by=claim.known_by,
        machine=next((thread.machine for thread in own if thread.machine), None),
        vhost=tuple(thread.tid for thread in own if thread.kind == "vhost"),
        disagreements=disagreements("mtu", ((one.end, str(one.link.mtu)) for one in (tap, guest))),
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
