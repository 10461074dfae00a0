"""What is between two NICs of watched hosts, as far as it is watched or told: taps and bridges of a
hypervisor, physical functions, ports of switches.

Reads nothing; takes the result of `pairs`. Names in the texts are not sanitized.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.lldp import switch_port
from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import Pairs, TapPair, VirtualFunctionPair
from nictop.model.devices.subnets import SharedSubnet
from nictop.model.facts.pairs import PairFact
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import LINK_UP, Tone, state_mark, state_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link

MAX_CHAINS = 6
"""Of one NIC."""
HOP = " – "
NOT_KNOWN = "… not watched …"


@dataclass(frozen=True)
class _Half:
    """From a NIC outwards."""

    hops: tuple[str, ...]
    meets: tuple[str, str] | None = None
    """What the last hop is connected to: its identity, and its name. None: it is not known."""
    is_up: bool = True
    """All links of it."""


@dataclass(frozen=True)
class PairChain:
    """From one NIC to another."""

    own: End
    other: End
    hops: tuple[str, ...]
    is_up: bool
    """All links of it that are known."""

    @property
    def is_whole(self) -> bool:
        return NOT_KNOWN not in self.hops


def pair_chain_facts(
    end: End, found: Pairs, snapshots: Mapping[str, Snapshot]
) -> tuple[PairFact, ...]:
    """``to vm2 ens3: vm1 ens3 – pve tap100i0 – bridge vmbr0 – pve tap101i0 – vm2 ens3``"""
    facts: list[PairFact] = []
    for chain in pair_chains(end, found, snapshots):
        tone: Tone = "normal" if chain.is_up else "warn"
        facts.append(PairFact(f"to {chain.hops[-1]}: {HOP.join(chain.hops)}", tone))
    return tuple(facts)


def pair_chains(end: End, found: Pairs, snapshots: Mapping[str, Snapshot]) -> tuple[PairChain, ...]:
    """For each NIC of another host in the same subnet; without those between which nothing is
    known. `snapshots`: by host."""
    halves = _Halves(found, snapshots)
    own = halves.of(end)
    if own is None:
        return ()
    chains: list[PairChain] = []
    for other in _others(end, found.subnets):
        their = halves.of(other)
        if their is None or (own.meets is None and their.meets is None):
            continue
        hops = _joined(own, their)
        chains.append(PairChain(end, other, hops, own.is_up and their.is_up))
        if len(chains) == MAX_CHAINS:
            break
    return tuple(chains)


def _others(end: End, subnets: Sequence[SharedSubnet]) -> Iterator[End]:
    """NICs of other hosts that share a subnet with it, without those in another network."""
    seen: set[End] = set()
    for subnet in subnets:
        apart = dict(subnet.separate)
        own = {member.address for member in subnet.members if member.end == end}
        if not own - apart.keys():
            continue
        for member in subnet.members:
            is_other = member.end.host != end.host and member.address not in apart
            if is_other and member.end not in seen:
                seen.add(member.end)
                yield member.end


def _joined(own: _Half, their: _Half) -> tuple[str, ...]:
    middle = [own.meets[1] if own.meets else "", their.meets[1] if their.meets else ""]
    if own.meets is not None and their.meets is not None and own.meets[0] == their.meets[0]:
        middle = [own.meets[1]]
    else:
        middle = [middle[0], NOT_KNOWN, middle[1]]
    return (*own.hops, *filter(None, middle), *reversed(their.hops))


class _Halves:
    """The pairs by the NIC of the guest, and the newest state of all hosts."""

    def __init__(self, found: Pairs, snapshots: Mapping[str, Snapshot]) -> None:
        self._taps = {tap.guest: tap for tap in found.taps}
        self._functions = {pair.guest: pair for pair in found.virtual_functions}
        self._snapshots = snapshots

    def of(self, end: End) -> _Half | None:
        """None: the NIC is not there any more."""
        link = self._link(end)
        if link is None:
            return None
        first = _hop(end, link)
        if end in self._taps:
            return self._by_tap(first, link, self._taps[end])
        if end in self._functions:
            return self._by_function(first, link, self._functions[end])
        return _to_switch(first, link, self._snapshots[end.host])

    def _by_tap(self, first: str, link: Link, pair: TapPair) -> _Half:
        port = self._link(pair.tap)
        if port is None:
            return _Half((first,), None, _is_up(link))
        vlans = f" ({pair.vlans})" if pair.vlans else ""
        hops = (first, f"{_hop(pair.tap, port)}{vlans}")
        meets = None
        if pair.bridge:
            meets = (f"bridge {pair.tap.host} {pair.bridge}", f"bridge {pair.bridge}")
        return _Half(hops, meets, _is_up(link) and _is_up(port))

    def _by_function(self, first: str, link: Link, pair: VirtualFunctionPair) -> _Half:
        physical = self._link(pair.physical)
        vlan = f" (VLAN {pair.port_vlan})" if pair.port_vlan else ""
        hops = (first, f"VF {pair.number}{vlan}")
        if physical is None:
            return _Half(hops, None, _is_up(link))
        identity = f"function {pair.physical.host} {pair.physical.ifindex}"
        meets = (identity, _hop(pair.physical, physical))
        return _Half(hops, meets, _is_up(link) and _is_up(physical))

    def _link(self, end: End) -> Link | None:
        snapshot = self._snapshots.get(end.host)
        return None if snapshot is None else snapshot.links.get(end.ifindex)


def _to_switch(first: str, link: Link, snapshot: Snapshot) -> _Half:
    """By LLDP."""
    switch = switch_port(link, snapshot)
    if switch is None:
        return _Half((first,), None, _is_up(link))
    name = switch.system_name or switch.chassis
    hops = (first, f"port {switch.port}")
    return _Half(hops, (f"switch {switch.chassis}", f"switch {name}"), _is_up(link))


def _is_up(link: Link) -> bool:
    return state_mark(link) == LINK_UP


def _hop(end: End, link: Link) -> str:
    """``vm1 ens3``, ``pve tap100i0 (no carrier)``"""
    state = "" if _is_up(link) else f" ({state_text(link)[0]})"
    return f"{end.host} {link.name}{state}"
