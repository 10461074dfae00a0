"""Whether the chains of a host let the frames pass that its bridges forward between ports, and what guests send out.

Reads nothing. Bridged IP packets come to the chains at hook forward of nftables and iptables if br_netfilter is loaded
and the sysctl or the option of the bridge says so (kernel net/bridge/br_netfilter_hooks.c: br_nf_pre_routing,
br_nf_forward_ip): input and output interface are the bridge itself. Frames with a VLAN tag do not, unless
bridge-nf-filter-vlan-tagged is 1. Chains of the family bridge get every frame, with its ports as interfaces.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nictop.model.devices.bridges import filters_vlans, pvid
from nictop.model.devices.filter_evaluation import (
    FAMILY_CHAINS,
    PASSED,
    Evaluator,
    Frame,
    FrameFamily,
    Network,
    Refusal,
    Verdict,
)
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import IFF_UP
from nictop.probe.records import FilterCondition, FilterRule, Link, PacketChain, Unreadable

CALLS: Mapping[FrameFamily, str] = {"ipv4": "iptables", "ipv6": "ip6tables"}
"""Frames → end of the names of the sysctl and of the bridge option."""
FAMILY_NAMES: Mapping[FrameFamily, str] = {"ipv4": "IPv4", "ipv6": "IPv6", "arp": "ARP"}
MAX_PORTS = 32
"""Ports of a bridge that are examined one by one, where rules name ports."""


@dataclass(frozen=True)
class BridgeFilter:
    """Frames between ports of a bridge that its host refuses."""

    bridge: Link
    ports: tuple[Link, ...]
    """Ports of guests whose frames are refused, by name."""
    refusals: Mapping[FrameFamily, Refusal]
    """By kind of frame, ipv4 before ipv6."""
    passes: tuple[str, ...] = ()
    """Protocols that are accepted nevertheless."""


@dataclass(frozen=True)
class ForwardFilters:
    """Findings about all bridges of a host."""

    refused: tuple[BridgeFilter, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Name of a bridge → why it is not known whether its frames pass."""


# ------------------------------------------------------------------------------------------------- bridges and ports


def is_guest_port(link: Link, snapshot: Snapshot) -> bool:
    """A tap, a veth whose other end is in another network namespace or on another bridge, or the representor of a
    VF."""
    if link.kind == "tun":
        return True
    if link.kind == "veth":
        if link.lower_namespace is not None or link.lower is None:
            return True
        peer = snapshot.links.get(link.lower)
        return peer is not None and peer.master is not None
    port = link.physical_port or ""
    return port.startswith("pf") and "vf" in port


def forwarding_ports(bridge: Link, snapshot: Snapshot) -> tuple[Link, ...]:
    """Ports of a bridge that are up and have a carrier, by name."""
    ports = [
        link
        for link in snapshot.links.values()
        if link.master == bridge.ifindex and link.flags & IFF_UP and link.carrier is not False
    ]
    return tuple(sorted(ports, key=lambda link: link.name))


def netfilter_calls(bridge: Link, snapshot: Snapshot, family: FrameFamily) -> tuple[bool, bool]:
    """(by the sysctl, by the option of the bridge) whether br_netfilter passes its frames to the chains."""
    inventory = snapshot.inventory
    name = CALLS.get(family)
    sysctl = inventory.settings.sysctl if inventory is not None else {}
    value = sysctl.get(f"net.bridge.bridge-nf-call-{name}")
    if value is None:  # not loaded: the option has no effect
        return False, False
    return value != 0, bridge.details.get(f"bridge_nf_call_{name}") is True


def _filtered_ports(ports: Sequence[Link], bridge: Link, snapshot: Snapshot) -> tuple[Link, ...]:
    """Ports whose frames have no VLAN tag on both sides, so that br_netfilter takes them."""
    inventory = snapshot.inventory
    sysctl = inventory.settings.sysctl if inventory is not None else {}
    if not filters_vlans(bridge) or sysctl.get("net.bridge.bridge-nf-filter-vlan-tagged"):
        return tuple(ports)
    members: dict[int, list[Link]] = {}
    for port in ports:
        own = pvid(port.bridge_vlans or ())
        is_untagged = own is not None and any(
            one.untagged and one.first <= own <= one.last for one in port.bridge_vlans or ()
        )
        if own is not None and is_untagged:
            members.setdefault(own, []).append(port)
    return tuple(port for one in members.values() if len(one) > 1 for port in one)


# ---------------------------------------------------------------------------------------------------- the whole host


def forward_filters(snapshot: Snapshot) -> ForwardFilters:
    """Bridges with guests whose frames the chains of the host refuse."""
    inventory = snapshot.inventory
    if inventory is None:
        return ForwardFilters()
    bridges = [link for link in snapshot.links.values() if link.kind == "bridge" and link.flags & IFF_UP]
    if not bridges or not (inventory.filters.chains or inventory.filters.unreadable or inventory.unreadable):
        return ForwardFilters()
    refused: list[BridgeFilter] = []
    unknown: dict[str, str] = {}
    evaluator = Evaluator(inventory.filters.chains)
    for bridge in sorted(bridges, key=lambda link: link.ifindex):
        ports = forwarding_ports(bridge, snapshot)
        guests = [port for port in ports if is_guest_port(port, snapshot)]
        if not guests or len(ports) < 2:
            continue
        found = _bridge_filter(bridge, ports, guests, snapshot, evaluator)
        if isinstance(found, str):
            unknown[bridge.name] = found
        elif found is not None:
            refused.append(found)
    return ForwardFilters(tuple(refused), unknown)


def _bridge_filter(
    bridge: Link, ports: Sequence[Link], guests: Sequence[Link], snapshot: Snapshot, evaluator: Evaluator
) -> BridgeFilter | str | None:
    """What refuses frames of guests on a bridge; why it is not known; None: nothing does."""
    unreadable = _unreadable(bridge, snapshot)
    refusals: dict[FrameFamily, Refusal] = {}
    cut_off: dict[str, Link] = {}
    passes: dict[str, None] = {}
    unknown = ""
    for family in FAMILY_CHAINS:
        by_netfilter = any(netfilter_calls(bridge, snapshot, family))
        untagged = _filtered_ports(ports, bridge, snapshot) if by_netfilter else ()
        chains = evaluator.chains_for(family, frozenset(port.name for port in untagged))
        if not chains:
            continue
        known = {port.ifindex for port in untagged}
        own = [port for port in guests if port.ifindex in known] if untagged else list(guests)
        for port in own[:MAX_PORTS]:
            others = frozenset(one.name for one in (untagged or ports) if one is not port)
            networks, elsewhere = bridge_networks(bridge, family), other_networks(bridge, snapshot, family)
            frame = Frame(family, bridge.name, frozenset((port.name,)), others, networks, elsewhere)
            verdict = _verdict_for_port(evaluator, chains, frame)
            unknown = unknown or verdict.unknown
            if verdict.refusal is not None:
                refusals.setdefault(family, verdict.refusal)
                passes.update(dict.fromkeys(verdict.passes))
                cut_off[port.name] = port
            if not evaluator.names_ports(chains):
                if verdict.refusal is not None:
                    cut_off.update({one.name: one for one in own})
                break
    if refusals:
        return BridgeFilter(bridge, tuple(cut_off[name] for name in sorted(cut_off)), refusals, tuple(passes))
    return unreadable or unknown or None


def _verdict_for_port(evaluator: Evaluator, chains: Sequence[PacketChain], outward: Frame) -> Verdict:
    """Frames from a port to the others, and back: one direction that is refused cuts it off."""
    back = replace(outward, inputs=outward.outputs, outputs=outward.inputs)
    verdicts = [evaluator.verdict(chains, frame) for frame in (outward, back)]
    refused = next((one for one in verdicts if one.refusal is not None), None)
    return refused or next((one for one in verdicts if one.unknown), verdicts[0])


def other_networks(bridge: Link, snapshot: Snapshot, family: FrameFamily) -> tuple[Network, ...]:
    """Subnets of the other links of a host."""
    others = (link for link in snapshot.links.values() if link is not bridge and link.addresses)
    return tuple(network for link in others for network in bridge_networks(link, family))


def bridge_networks(bridge: Link, family: FrameFamily) -> tuple[Network, ...]:
    """Subnets of the addresses of a bridge, without link-local ones."""
    found = []
    for address in bridge.addresses:
        if address.family == family and address.scope != "link":
            try:
                found.append(ipaddress.ip_network(f"{address.address}/{address.prefix_length}", strict=False))
            except ValueError:
                continue
    return tuple(found)


def _unreadable(bridge: Link, snapshot: Snapshot) -> str:
    """Why some chains are missing that frames of the bridge may come to; "": they are known, or all are missing."""
    inventory = snapshot.inventory
    if inventory is None or not any(any(netfilter_calls(bridge, snapshot, family)) for family in FAMILY_CHAINS):
        return ""
    reasons: dict[str, Unreadable] = inventory.filters.unreadable
    if "filters" in inventory.unreadable:
        return ""
    return "; ".join(
        f"{source}: {why.detail or why.reason}" for source, why in reasons.items() if source != "nft_local"
    )


@dataclass(frozen=True)
class RoutedRefusal:
    """Packets of guests that are to leave the host, as another chain shows, and are refused."""

    bridge: Link
    ports: tuple[Link, ...]
    outward: Link
    """Link of the default route."""
    meant: Refusal
    """The rule that shows it: it accepts what comes from their bridge, or translates their addresses."""
    is_translated: bool
    refusal: Refusal


def routed_refusals(snapshot: Snapshot) -> Iterator[RoutedRefusal]:
    """Bridges of guests that the host routes, and whose packets to the default route do not get through all chains.

    A chain alone that refuses them may be there on purpose; one that accepts them by name, and source NAT for their
    subnet, say that they are to pass.
    """
    inventory = snapshot.inventory
    if inventory is None or not inventory.settings.sysctl.get("net.ipv4.ip_forward"):
        return
    if not any(one.hook == "forward" for one in inventory.filters.chains):
        return
    ways = [link for link in snapshot.links.values() if any(one.family == "ipv4" for one in link.default_routes)]
    outward = min(ways, key=lambda link: min(one.metric for one in link.default_routes), default=None)
    evaluator = Evaluator(inventory.filters.chains)
    for bridge in sorted(snapshot.links.values(), key=lambda link: link.ifindex):
        networks = bridge_networks(bridge, "ipv4") if bridge.kind == "bridge" else ()
        if outward is None or outward is bridge or not networks:
            continue
        guests = tuple(port for port in forwarding_ports(bridge, snapshot) if is_guest_port(port, snapshot))
        if not guests:
            continue
        names = frozenset(port.name for port in guests)
        frame = Frame("ipv4", bridge.name, names, names, networks, is_routed_to=outward.name)
        refusal = _routed_refusal(evaluator, frame)
        accepting = evaluator.rule_for(frame, "accept") if refusal is not None else None
        meant = accepting or (evaluator.rule_for(frame, "nat") if refusal is not None else None)
        if refusal is not None and meant is not None:
            yield RoutedRefusal(bridge, guests, outward, meant, accepting is None, refusal)


def _routed_refusal(evaluator: Evaluator, frame: Frame) -> Refusal | None:
    """What refuses a routed frame, not by a rule for its bridge."""
    for chain in evaluator.chains_for(frame.family, frame.inputs):
        refusal = evaluator.chain_verdict(chain, frame).refusal if chain.family != "bridge" else None
        if refusal is not None:
            return None if refusal.is_meant else refusal
    return None


# ------------------------------------------------------------------------------------------- where an accept must go


def with_accept(chains: Sequence[PacketChain], into: PacketChain, bridge: str) -> tuple[PacketChain, ...]:
    """The chains with a first rule in one of them that accepts what is bridged between ports of the bridge."""
    conditions = (FilterCondition("in", (bridge,)), FilterCondition("out", (bridge,)))
    rule = FilterRule("accept", conditions=conditions)
    return tuple(replace(one, rules=(rule, *one.rules)) if one is into else one for one in chains)


def places_to_accept(
    snapshot: Snapshot, found: BridgeFilter, family: FrameFamily, user_chain: str
) -> list[PacketChain]:
    """Chains into which such a rule must go, so that every base chain accepts the frames of this family: the chain of
    that name, where it comes early enough, else the base chain itself."""
    inventory = snapshot.inventory
    if inventory is None:
        return []
    chains = inventory.filters.chains
    ports = forwarding_ports(found.bridge, snapshot)
    names = frozenset(port.name for port in ports)
    networks, elsewhere = bridge_networks(found.bridge, family), other_networks(found.bridge, snapshot, family)
    frame = Frame(family, found.bridge.name, names, names, networks, elsewhere)
    places = []
    for chain in chains:
        if chain.hook != "forward" or chain.family not in FAMILY_CHAINS[family]:
            continue
        if Evaluator(chains).chain_verdict(chain, frame).refusal is None:
            continue
        places.append(_place(chains, chain, frame, user_chain))
    return places


def _place(chains: Sequence[PacketChain], base: PacketChain, frame: Frame, user_chain: str) -> PacketChain:
    same_table = (base.backend, base.family, base.table)
    for chain in chains:
        if chain.name == user_chain and (chain.backend, chain.family, chain.table) == same_table:
            changed = with_accept(chains, chain, frame.bridge)
            if Evaluator(changed).chain_verdict(base, frame) == PASSED:
                return chain
    return base
