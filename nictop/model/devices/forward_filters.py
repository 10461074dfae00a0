"""Whether the chains of a host let the frames pass that its bridges forward between ports, and what
guests send out.

Reads nothing. Bridged IP packets come to the chains at hook forward of nftables and iptables if
br_netfilter is loaded and the sysctl or the option of the bridge says so (kernel
net/bridge/br_netfilter_hooks.c: br_nf_pre_routing, br_nf_forward_ip): input and output interface
are the bridge itself. Frames with a VLAN tag do not, unless bridge-nf-filter-vlan-tagged is 1.
Chains of the family bridge get every frame, with its ports as interfaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.bridges import filters_vlans, pvid
from nictop.model.devices.filter_evaluation import (
    FAMILY_CHAINS,
    PASSED,
    Evaluator,
    FilterVerdict,
    Frame,
    FrameFamily,
    Refusal,
    decisive,
    table_of,
)
from nictop.model.devices.links import ports_of
from nictop.model.parts import sysctl_values
from nictop.model.snapshot import Snapshot
from nictop.model.text.ip_addresses import Network, address_network
from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import FilterCondition, FilterRule, Link, PacketChain

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


# -------------------------------------------------------------------------------- bridges and ports


def is_guest_port(link: Link, snapshot: Snapshot) -> bool:
    """A tap, a veth whose other end is in another network namespace or on another bridge, or the
    representor of a VF."""
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
    ports = []
    for port in ports_of(bridge, snapshot.links):
        if port.flags & IFF_UP and port.carrier is not False:
            ports.append(port)
    return tuple(sorted(ports, key=lambda port: port.name))


def netfilter_calls(bridge: Link, snapshot: Snapshot, family: FrameFamily) -> tuple[bool, bool]:
    """(by the sysctl, by the option of the bridge) whether br_netfilter passes its frames to the
    chains."""
    name = CALLS.get(family)
    value = sysctl_values(snapshot).get(f"net.bridge.bridge-nf-call-{name}")
    if value is None:  # not loaded: the option has no effect
        return False, False
    return value != 0, bridge.details.get(f"bridge_nf_call_{name}") is True


def _filtered_ports(ports: Sequence[Link], bridge: Link, snapshot: Snapshot) -> tuple[Link, ...]:
    """Ports whose frames have no VLAN tag on both sides, so that br_netfilter takes them."""
    takes_tagged = sysctl_values(snapshot).get("net.bridge.bridge-nf-filter-vlan-tagged")
    if takes_tagged or not filters_vlans(bridge):
        return tuple(ports)
    members: dict[int, list[Link]] = {}
    for port in ports:
        vlan = _untagged_vlan(port)
        if vlan is not None:
            members.setdefault(vlan, []).append(port)
    taken: list[Link] = []
    for alike in members.values():
        if len(alike) > 1:
            taken += alike
    return tuple(taken)


# ----------------------------------------------------------------------------------- the whole host


def _untagged_vlan(port: Link) -> int | None:
    """The VLAN that frames without a tag belong to in both directions."""
    vlans = port.bridge_vlans or ()
    own = pvid(vlans)
    if own is None:
        return None
    for vlan in vlans:
        if vlan.untagged and vlan.first <= own <= vlan.last:
            return own
    return None


def _bridges(snapshot: Snapshot) -> list[Link]:
    """By ifindex."""
    bridges = [link for link in snapshot.links.values() if link.kind == "bridge"]
    return sorted(bridges, key=lambda bridge: bridge.ifindex)


def _guest_ports(ports: Iterable[Link], snapshot: Snapshot) -> list[Link]:
    return [port for port in ports if is_guest_port(port, snapshot)]


def forward_filters(snapshot: Snapshot) -> ForwardFilters:
    """Bridges with guests whose frames the chains of the host refuse."""
    inventory = snapshot.inventory
    if inventory is None:
        return ForwardFilters()
    filters = inventory.filters
    if not (filters.chains or filters.unreadable or inventory.unreadable):
        return ForwardFilters()
    refused: list[BridgeFilter] = []
    unknown: dict[str, str] = {}
    evaluator = Evaluator(filters.chains)
    for bridge in _bridges(snapshot):
        if not bridge.flags & IFF_UP:
            continue
        ports = forwarding_ports(bridge, snapshot)
        guests = _guest_ports(ports, snapshot)
        if not guests or len(ports) < 2:
            continue
        result = _bridge_filter(bridge, ports, guests, snapshot, evaluator)
        if isinstance(result, str):
            unknown[bridge.name] = result
        elif result is not None:
            refused.append(result)
    return ForwardFilters(tuple(refused), unknown)


def _bridge_filter(
    bridge: Link,
    ports: Sequence[Link],
    guests: Sequence[Link],
    snapshot: Snapshot,
    evaluator: Evaluator,
) -> BridgeFilter | str | None:
    """What refuses frames of guests on a bridge; why it is not known; None: nothing does."""
    refusals: dict[FrameFamily, Refusal] = {}
    cut_off: dict[str, Link] = {}
    passes: dict[str, None] = {}
    unknown = ""
    for family in FAMILY_CHAINS:
        for alike, verdict in _verdicts(bridge, ports, guests, snapshot, evaluator, family=family):
            unknown = unknown or verdict.unknown
            if verdict.refusal is None:
                continue
            refusals.setdefault(family, verdict.refusal)
            passes.update(dict.fromkeys(verdict.passes))
            for port in alike:
                cut_off[port.name] = port
    if not refusals:
        return _unreadable(bridge, snapshot) or unknown or None
    guests_cut_off = tuple(cut_off[name] for name in sorted(cut_off))
    return BridgeFilter(bridge, guests_cut_off, refusals, tuple(passes))


def _verdicts(
    bridge: Link,
    ports: Sequence[Link],
    guests: Sequence[Link],
    snapshot: Snapshot,
    evaluator: Evaluator,
    *,
    family: FrameFamily,
) -> Iterator[tuple[list[Link], FilterVerdict]]:
    """(ports of guests that the chains treat alike, what happens to their frames)"""
    untagged: Sequence[Link] = ()
    if any(netfilter_calls(bridge, snapshot, family)):
        untagged = _filtered_ports(ports, bridge, snapshot)
    chains = evaluator.chains_for(family, frozenset(port.name for port in untagged))
    between = untagged or ports
    asked = _ports_of(guests, between)
    if not chains or not asked:
        return
    groups = [asked]
    if evaluator.names_ports(chains):
        groups = [[port] for port in asked[:MAX_PORTS]]
    for alike in groups:
        outward = _outward(alike[0], between, bridge, family, snapshot)
        yield alike, _verdict_for_port(evaluator, chains, outward)


def _verdict_for_port(
    evaluator: Evaluator, chains: Sequence[PacketChain], outward: Frame
) -> FilterVerdict:
    """Frames from a port to the others, and back: one direction that is refused cuts it off."""
    back = replace(outward, inputs=outward.outputs, outputs=outward.inputs)
    verdicts = [evaluator.verdict(chains, frame) for frame in (outward, back)]
    return decisive(verdicts) or verdicts[0]


def other_networks(bridge: Link, snapshot: Snapshot, family: FrameFamily) -> tuple[Network, ...]:
    """Subnets of the other links of a host."""
    networks: list[Network] = []
    for link in snapshot.links.values():
        if link is not bridge:
            networks += bridge_networks(link, family)
    return tuple(networks)


def _ports_of(guests: Sequence[Link], ports: Sequence[Link]) -> list[Link]:
    """Those of the guests that are among some ports."""
    known = {port.ifindex for port in ports}
    return [port for port in guests if port.ifindex in known]


def _outward(
    port: Link, ports: Sequence[Link], bridge: Link, family: FrameFamily, snapshot: Snapshot
) -> Frame:
    """A frame from a port to the others."""
    others = frozenset(other.name for other in ports if other is not port)
    networks = bridge_networks(bridge, family)
    elsewhere = other_networks(bridge, snapshot, family)
    return Frame(family, bridge.name, frozenset((port.name,)), others, networks, elsewhere)


def bridge_networks(bridge: Link, family: FrameFamily) -> tuple[Network, ...]:
    """Subnets of the addresses of a bridge, without link-local ones."""
    networks = []
    for address in bridge.addresses:
        if address.family != family or address.scope == "link":
            continue
        network = address_network(address)
        if network is not None:
            networks.append(network)
    return tuple(networks)


def _unreadable(bridge: Link, snapshot: Snapshot) -> str:
    """Why some chains are missing that frames of the bridge may come to; "": they are known, or all
    are missing."""
    inventory = snapshot.inventory
    if inventory is None or "filters" in inventory.unreadable:
        return ""
    if not any(any(netfilter_calls(bridge, snapshot, family)) for family in FAMILY_CHAINS):
        return ""
    reasons = []
    for source, why in inventory.filters.unreadable.items():
        if source != "nft_local":
            reasons.append(f"{source}: {why.detail or why.reason}")
    return "; ".join(reasons)


@dataclass(frozen=True)
class RoutedRefusal:
    """Packets of guests that are to leave the host, as another chain shows, and are refused."""

    bridge: Link
    ports: tuple[Link, ...]
    outward: Link
    """Link of the default route."""
    meant: Refusal
    """The rule that shows it: it accepts what comes from their bridge, or translates their
    addresses."""
    is_translated: bool
    refusal: Refusal


def routed_refusals(snapshot: Snapshot) -> Iterator[RoutedRefusal]:
    """Bridges of guests that the host routes, and whose packets to the default route do not get
    through all chains.

    A chain alone that refuses them may be there on purpose; one that accepts them by name, and
    source NAT for their subnet, say that they are to pass.
    """
    inventory = snapshot.inventory
    if inventory is None or not inventory.settings.sysctl.get("net.ipv4.ip_forward"):
        return
    if not any(chain.hook == "forward" for chain in inventory.filters.chains):
        return
    outward = _default_route_link(snapshot)
    if outward is None:
        return
    evaluator = Evaluator(inventory.filters.chains)
    for bridge in _bridges(snapshot):
        if bridge is outward:
            continue
        found = _routed_refusal(bridge, outward, snapshot, evaluator)
        if found is not None:
            yield found


def _routed_refusal(
    bridge: Link, outward: Link, snapshot: Snapshot, evaluator: Evaluator
) -> RoutedRefusal | None:
    """That of the guests of a bridge; None: their packets pass, or nothing says they should."""
    networks = bridge_networks(bridge, "ipv4")
    guests = tuple(_guest_ports(forwarding_ports(bridge, snapshot), snapshot))
    if not networks or not guests:
        return None
    names = frozenset(port.name for port in guests)
    frame = Frame("ipv4", bridge.name, names, names, networks, is_routed_to=outward.name)
    refusal = _refusal_of_routed(evaluator, frame)
    if refusal is None:
        return None
    accepting = evaluator.rule_for(frame, "accept")
    if accepting is not None:
        return RoutedRefusal(bridge, guests, outward, accepting, False, refusal)
    translating = evaluator.rule_for(frame, "nat")
    if translating is not None:
        return RoutedRefusal(bridge, guests, outward, translating, True, refusal)
    return None


def _default_route_link(snapshot: Snapshot) -> Link | None:
    """The one with the lowest metric of those that have an IPv4 default route."""
    links = []
    for link in snapshot.links.values():
        if any(route.family == "ipv4" for route in link.default_routes):
            links.append(link)
    return min(
        links, key=lambda link: min(route.metric for route in link.default_routes), default=None
    )


def _refusal_of_routed(evaluator: Evaluator, frame: Frame) -> Refusal | None:
    """What refuses a routed frame, not by a rule for its bridge."""
    for packet_chain in evaluator.chains_for(frame.family, frame.inputs):
        if packet_chain.family == "bridge":
            continue
        refusal = evaluator.chain_verdict(packet_chain, frame).refusal
        if refusal is None:
            continue
        if refusal.is_meant:
            return None
        return refusal
    return None


# -------------------------------------------------------------------------- where an accept must go


def with_accept(
    chains: Sequence[PacketChain], into: PacketChain, bridge: str
) -> tuple[PacketChain, ...]:
    """The chains with a first rule in one of them that accepts what is bridged between ports of the
    bridge."""
    conditions = (FilterCondition("in", (bridge,)), FilterCondition("out", (bridge,)))
    rule = FilterRule("accept", conditions=conditions)
    accepting = replace(into, rules=(rule, *into.rules))
    return tuple(accepting if chain is into else chain for chain in chains)


def places_to_accept(
    snapshot: Snapshot, found: BridgeFilter, family: FrameFamily, user_chain: str
) -> list[PacketChain]:
    """Chains into which such a rule must go, so that every base chain accepts the frames of this
    family: the chain of that name, where it comes early enough, else the base chain itself."""
    inventory = snapshot.inventory
    if inventory is None:
        return []
    chains, bridge = inventory.filters.chains, found.bridge
    names = frozenset(port.name for port in forwarding_ports(bridge, snapshot))
    networks = bridge_networks(bridge, family)
    elsewhere = other_networks(bridge, snapshot, family)
    frame = Frame(family, bridge.name, names, names, networks, elsewhere)
    places = []
    for base in chains:
        if base.hook != "forward" or base.family not in FAMILY_CHAINS[family]:
            continue
        if Evaluator(chains).chain_verdict(base, frame).refusal is not None:
            places.append(_place(chains, base, frame, user_chain))
    return places


def _place(
    chains: Sequence[PacketChain], base: PacketChain, frame: Frame, user_chain: str
) -> PacketChain:
    for chain in chains:
        if chain.name != user_chain or table_of(chain) != table_of(base):
            continue
        changed = with_accept(chains, chain, frame.bridge)
        if Evaluator(changed).chain_verdict(base, frame) == PASSED:
            return chain
    return base
