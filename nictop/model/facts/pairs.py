"""Sentences about the relations of one NIC to other hosts.

Reads nothing; takes the result of `pairs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.model.devices.netdevs import Disagreement, End
from nictop.model.devices.pairs import Ambiguity, Pairs, TapPair, VirtualFunctionPair
from nictop.model.devices.subnets import Separation, SharedSubnet
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import Tone
from nictop.probe.light_dataclasses import dataclass

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
    for ambiguity in found.ambiguous:
        if end in ambiguity.ends:
            facts.append(_ambiguity_fact(ambiguity, end, names))
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
    peers: dict[End, str] = {}
    for pair in found.taps:
        peers[pair.tap] = _named(pair.guest, names)
        peers[pair.guest] = _named(pair.tap, names)
    return peers


def netdev_names(snapshots: Iterable[Snapshot]) -> dict[End, str]:
    """Netdev → name."""
    names: dict[End, str] = {}
    for snapshot in snapshots:
        for ifindex, link in snapshot.links.items():
            names[End(snapshot.host, ifindex)] = link.name
    return names


def with_ages(names: Mapping[End, str], ages: Mapping[str, str]) -> Mapping[End, str]:
    """The names, with the age of what is known of them: ``ens192 (no data for 40 s)``. `ages`: host
    → that, of those that are not live."""
    if not ages:
        return names
    found = {}
    for end, name in names.items():
        age = ages.get(end.host)
        found[end] = f"{name} ({age})" if age else name
    return found


def _function_facts(
    end: End, pair: VirtualFunctionPair, names: Mapping[End, str]
) -> list[PairFact]:
    if end == pair.guest:
        text = f"is VF {pair.number} of {_named(pair.physical, names)} (MAC {pair.address})"
    else:
        text = f"VF {pair.number} is {_named(pair.guest, names)} (MAC {pair.address})"
    if pair.port_vlan:
        text += f", in VLAN {pair.port_vlan} of the port"
    return [PairFact(text), *_disagreements(end, pair.disagreements, names)]


def _tap_facts(end: End, pair: TapPair, names: Mapping[End, str]) -> list[PairFact]:
    other = pair.tap if end == pair.guest else pair.guest
    text = f"↔ {_named(other, names)} ({KNOWN_BY_TEXTS[pair.known_by]})"
    if pair.bridge:
        text += f"; port {pair.port} of {pair.bridge}"
    if pair.vlans:
        text += f": {pair.vlans}"
    if pair.machine:
        text += f"; VM {pair.machine}"
    if pair.vhost:
        text += f"; vhost threads {', '.join(map(str, pair.vhost))}"
    return [PairFact(text), *_disagreements(end, pair.disagreements, names)]


def _subnet_facts(end: End, subnet: SharedSubnet, names: Mapping[End, str]) -> list[PairFact]:
    own = {member.address for member in subnet.members if member.end == end}
    elsewhere = [member for member in subnet.members if member.end != end]
    separate = dict(subnet.separate)
    apart = own & separate.keys()
    others = dict.fromkeys(member.end for member in elsewhere if member.address not in apart)
    facts = []
    if others:
        facts.append(PairFact(f"shares {subnet.network} with {_listed(tuple(others), names)}"))
    for address in subnet.duplicates:
        if address not in own:
            continue
        same = dict.fromkeys(member.end for member in elsewhere if member.address == address)
        also = f"{address} is also on {_listed(tuple(same), names)}"
        if address in separate:
            facts.append(PairFact(f"{also}: {SEPARATION_TEXTS[separate[address]]}"))
        else:
            facts.append(PairFact(f"{also}: duplicate address or overlapping subnets", "warn"))
    return [*facts, *_disagreements(end, subnet.disagreements, names)]


def _disagreements(
    end: End, found: Iterable[Disagreement], names: Mapping[End, str]
) -> list[PairFact]:
    """Values of others that differ from the one of `end`; differences among the others are reported
    at their NICs."""
    facts = []
    for disagreement in found:
        sides = dict(disagreement.sides)
        own = next((value for value, ends in sides.items() if end in ends), None)
        if own is None:
            continue
        del sides[own]
        others = [f"{value} on {_listed(ends, names)}" for value, ends in sides.items()]
        name = PROPERTY_NAMES[disagreement.what]
        facts.append(PairFact(f"{name} {own} here, {', '.join(others)}", "warn"))
    return facts


def _ambiguity_fact(one: Ambiguity, end: End, names: Mapping[End, str]) -> PairFact:
    others = tuple(other for other in one.ends if other != end)
    return PairFact(f"MAC {one.address} is ambiguous: also on {_listed(others, names)}", "warn")


def _named(end: End, names: Mapping[End, str]) -> str:
    return f"{end.host} {names.get(end, end.ifindex)}"


def _listed(ends: Sequence[End], names: Mapping[End, str]) -> str:
    listed = ", ".join(_named(end, names) for end in ends[:MAX_NAMED_NETDEVS])
    more = len(ends) - MAX_NAMED_NETDEVS
    if more > 0:
        return f"{listed} and {more} more"
    return listed
