"""Sentences about the relations of one NIC to other hosts.

Reads nothing; takes the result of `pairs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nictop.model.devices.netdevs import Disagreement, End
from nictop.model.devices.pairs import Ambiguity, Pairs, TapPair, VirtualFunctionPair
from nictop.model.devices.subnets import Separation, SharedSubnet
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import Tone

PROPERTY_NAMES = {"mtu": "MTU", "speed": "speed", "vlan": "VLAN"}
SEPARATION_TEXTS: dict[Separation, str] = {
    "nat": "each guest has its own NAT network (QEMU, VirtualBox)",
    "cloud": "two networks of the cloud",
    "vlan": "two VLANs",
    "session": "two networks, as both hosts are watched through this address",
}
KNOWN_BY_TEXTS = {
    "address": "same MAC",
    "forwarding": "learned on bridge",
    "machine": "MAC in the VM's configuration",
    "veth": "veth",
}
MAX_NAMED_NETDEVS = 6
"""Number of netdevs named in one sentence; the others are counted."""


@dataclass(frozen=True)
class PairFact:
    """A sentence about one NIC and those of other hosts. Names in it are not sanitized."""

    text: str
    tone: Tone = "normal"


def pair_facts(end: End, found: Pairs, names: Mapping[End, str]) -> tuple[PairFact, ...]:
    """All sentences about a NIC; may be empty. `names`: names of the netdevs (`netdev_names`)."""
    facts = list(peer_facts(end, found, names))
    for subnet in found.subnets:
        if any(member.end == end for member in subnet.members):
            facts += _subnet_facts(end, subnet, names)
    facts += [_ambiguity_fact(one, end, names) for one in found.ambiguous if end in one.ends]
    return tuple(facts)


def peer_facts(end: End, found: Pairs, names: Mapping[End, str]) -> tuple[PairFact, ...]:
    """Sentences about the other ends of its VF and tap pairs."""
    facts: list[PairFact] = []
    for function in found.virtual_functions:
        if end in (function.physical, function.guest):
            facts += _function_facts(end, function, names)
    for tap in found.taps:
        if end in (tap.tap, tap.guest):
            facts += _tap_facts(end, tap, names)
    return tuple(facts)


def tap_peer_names(found: Pairs, names: Mapping[End, str]) -> dict[End, str]:
    """Tap and guest's NIC → ``vm1 ens3``: the other end of their pair."""
    both = [ends for pair in found.taps for ends in ((pair.tap, pair.guest), (pair.guest, pair.tap))]
    return {end: _named(other, names) for end, other in both}


def netdev_names(snapshots: Iterable[Snapshot]) -> dict[End, str]:
    """Netdev → name."""
    return {End(one.host, ifindex): link.name for one in snapshots for ifindex, link in one.links.items()}


def _function_facts(end: End, pair: VirtualFunctionPair, names: Mapping[End, str]) -> list[PairFact]:
    vlan = f", in VLAN {pair.port_vlan} of the port" if pair.port_vlan else ""
    if end == pair.guest:
        text = f"is VF {pair.number} of {_named(pair.physical, names)} (MAC {pair.address}){vlan}"
    else:
        text = f"VF {pair.number} is {_named(pair.guest, names)} (MAC {pair.address}){vlan}"
    return [PairFact(text), *_disagreements(end, pair.disagreements, names)]


def _tap_facts(end: End, pair: TapPair, names: Mapping[End, str]) -> list[PairFact]:
    other = pair.tap if end == pair.guest else pair.guest
    known = KNOWN_BY_TEXTS[pair.known_by]
    machine = f"; VM {pair.machine}" if pair.machine else ""
    threads = f"; vhost threads {', '.join(map(str, pair.vhost))}" if pair.vhost else ""
    port = f"; port {pair.port} of {pair.bridge}" if pair.bridge else ""
    vlans = f": {pair.vlans}" if pair.vlans else ""
    text = f"↔ {_named(other, names)} ({known}){port}{vlans}{machine}{threads}"
    return [PairFact(text), *_disagreements(end, pair.disagreements, names)]


def _subnet_facts(end: End, subnet: SharedSubnet, names: Mapping[End, str]) -> list[PairFact]:
    own, separate = {member.address for member in subnet.members if member.end == end}, dict(subnet.separate)
    apart = own & separate.keys()
    others = dict.fromkeys(member.end for member in subnet.members if member.end != end and member.address not in apart)
    facts = [PairFact(f"shares {subnet.network} with {_listed(tuple(others), names)}")] if others else []
    for address in subnet.duplicates:
        if address in own:
            same = dict.fromkeys(one.end for one in subnet.members if one.address == address and one.end != end)
            also = f"{address} is also on {_listed(tuple(same), names)}"
            if address in separate:
                facts.append(PairFact(f"{also}: {SEPARATION_TEXTS[separate[address]]}"))
            else:
                facts.append(PairFact(f"{also}: duplicate address or overlapping subnets", "warn"))
    return [*facts, *_disagreements(end, subnet.disagreements, names)]


def _disagreements(end: End, found: Iterable[Disagreement], names: Mapping[End, str]) -> list[PairFact]:
    """Values of others that differ from the one of `end`; differences among the others are reported at their NICs."""
    facts = []
    for one in found:
        own = next((value for value, ends in one.sides if end in ends), None)
        if own is not None:
            rest = [f"{value} on {_listed(ends, names)}" for value, ends in one.sides if value != own]
            facts.append(PairFact(f"{PROPERTY_NAMES[one.what]} {own} here, {', '.join(rest)}", "warn"))
    return facts


def _ambiguity_fact(one: Ambiguity, end: End, names: Mapping[End, str]) -> PairFact:
    others = tuple(other for other in one.ends if other != end)
    return PairFact(f"MAC {one.address} is ambiguous: also on {_listed(others, names)}", "warn")


def _named(end: End, names: Mapping[End, str]) -> str:
    return f"{end.host} {names.get(end, end.ifindex)}"


def _listed(ends: Sequence[End], names: Mapping[End, str]) -> str:
    listed = ", ".join(_named(end, names) for end in ends[:MAX_NAMED_NETDEVS])
    return listed if len(ends) <= MAX_NAMED_NETDEVS else f"{listed} and {len(ends) - MAX_NAMED_NETDEVS} more"
