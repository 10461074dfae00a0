"""Whether the chains of a host let the frames pass that its bridges forward between ports.

Reads nothing. Bridged IP packets come to the chains at hook forward of nftables and iptables if br_netfilter is loaded
and the sysctl or the option of the bridge says so (kernel net/bridge/br_netfilter_hooks.c: br_nf_pre_routing,
br_nf_forward_ip): input and output interface are the bridge itself. Frames with a VLAN tag do not, unless
bridge-nf-filter-vlan-tagged is 1. Chains of the family bridge get every frame, with its ports as interfaces.

A packet passes if every base chain accepts it. A rule that may or may not apply leaves open what its chain does.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from nictop.model.devices.bridges import filters_vlans, pvid
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import IFF_UP
from nictop.probe.records import FilterCondition, FilterRule, Link, PacketChain, Unreadable

FrameFamily = Literal["ipv4", "ipv6", "arp"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FAMILY_CHAINS: Mapping[FrameFamily, tuple[str, ...]] = {"ipv4": ("ip", "inet"), "ipv6": ("ip6", "inet"), "arp": ()}
"""Frames → families of the chains that they come to by br_netfilter."""
CALLS: Mapping[FrameFamily, str] = {"ipv4": "iptables", "ipv6": "ip6tables"}
"""Frames → end of the names of the sysctl and of the bridge option."""
FAMILY_NAMES: Mapping[FrameFamily, str] = {"ipv4": "IPv4", "ipv6": "IPv6", "arp": "ARP"}
OTHER_PROTOCOLS: Mapping[FrameFamily, tuple[str, ...]] = {"ipv4": ("udp", "icmp"), "ipv6": ("udp", "icmpv6"), "arp": ()}
"""Besides TCP: a firewall may let ICMP pass and nothing else."""
REFUSALS = ("drop", "reject")
SOURCE_NAT = ("masq", "nat", "MASQUERADE", "SNAT")
"""Expressions of nftables and targets of xtables."""
MAX_STEPS = 20_000
"""Rules that are examined for one host."""
MAX_PORTS = 32
"""Ports of a bridge that are examined one by one, where rules name ports."""
MAX_DEPTH = 16
"""Calls of chains: NFT_JUMP_STACK_SIZE."""


class Refusal(NamedTuple):
    """What refuses a frame: a rule, or the policy of a base chain."""

    chain: PacketChain
    """The base chain."""
    at: PacketChain
    """The chain with the rule: the base chain, or one that it calls."""
    rule: FilterRule | None
    """None: the policy."""
    is_meant: bool = False
    """It is a rule for these frames alone: it names the bridge as input and output, or the port."""

    @property
    def packets(self) -> int | None:
        """Packets that it has refused, of all bridges and routes; None: not counted."""
        if self.rule is not None:
            return self.rule.packets
        last = self.chain.rules[-1] if self.chain.rules else None
        is_count = last is not None and not last.verdict and not last.conditions
        return last.packets if last is not None and is_count and last.packets else self.chain.packets


@dataclass(frozen=True)
class Verdict:
    """What the chains do with frames of one kind."""

    refusal: Refusal | None = None
    """Every frame of a new connection is refused by it."""
    unknown: str = ""
    """What is not known, so that it cannot be said whether frames pass."""
    is_partial: bool = False
    """Some pass and some do not, by addresses, ports and the like."""
    passes: tuple[str, ...] = ()
    """Protocols that are accepted although new TCP connections are refused: icmp."""


PASSED = Verdict()


@dataclass(frozen=True)
class Frame:
    """A frame of a new connection, from some port of a bridge to some port."""

    family: FrameFamily
    bridge: str
    inputs: frozenset[str]
    """Ports that it may come from."""
    outputs: frozenset[str]
    """Ports that it may go to."""
    networks: tuple[Network, ...] = ()
    """Subnets of the bridge, in which both ends are if there are any."""
    protocol: str = "tcp"
    """tcp, udp, icmp or icmpv6."""
    is_routed_to: str = ""
    """Interface that it is routed to; "": bridged."""
    on_ports: bool = False
    """Input and output interface are ports: it is in a chain of the family bridge."""


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
        own = [port for port in guests if port in untagged] if untagged else list(guests)
        for port in own[:MAX_PORTS]:
            others = frozenset(one.name for one in (untagged or ports) if one is not port)
            networks = bridge_networks(bridge, family)
            frame = Frame(family, bridge.name, frozenset((port.name,)), others, networks)
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
    """Why chains are missing that frames of the bridge may come to; "": they are known, or there are none."""
    inventory = snapshot.inventory
    if inventory is None or not any(any(netfilter_calls(bridge, snapshot, family)) for family in FAMILY_CHAINS):
        return ""
    reasons: dict[str, Unreadable] = inventory.filters.unreadable
    if "filters" in inventory.unreadable:
        return "packet filters: not readable"
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


# --------------------------------------------------------------------------------------------------------- evaluation


class _End(NamedTuple):
    """One way in which a chain may end."""

    verdict: str
    at: PacketChain
    rule: FilterRule | None


class Evaluator:
    """Follows frames through the chains of a host."""

    def __init__(self, chains: Iterable[PacketChain]) -> None:
        self.chains = tuple(chains)
        self.by_name = {(one.backend, one.family, one.table, one.name): one for one in self.chains}
        self.steps = 0
        self._names_ports = any(
            condition.what in ("port_in", "port_out") for one in self.chains for condition in _conditions(one)
        )

    def chains_for(self, family: FrameFamily, untagged: frozenset[str]) -> tuple[PacketChain, ...]:
        """Base chains that frames come to. `untagged`: ports that br_netfilter filters; none: it does not."""
        families = (*(FAMILY_CHAINS[family] if untagged else ()), "bridge")
        return tuple(one for one in self.chains if one.hook == "forward" and one.family in families)

    def names_ports(self, chains: Iterable[PacketChain]) -> bool:
        """The verdict may differ between ports of one bridge."""
        return self._names_ports or any(one.family == "bridge" for one in chains)

    def verdict(self, chains: Sequence[PacketChain], frame: Frame) -> Verdict:
        """What all base chains together do. Refused: TCP is, and UDP is not accepted by a rule for all of it."""
        found = self._protocol_verdict(chains, frame)
        if found.refusal is None:
            return found
        passes = []
        for protocol in OTHER_PROTOCOLS[frame.family]:
            other = self._protocol_verdict(chains, replace(frame, protocol=protocol))
            if other == PASSED:
                passes.append(protocol)
        return Verdict(is_partial=True) if "udp" in passes else replace(found, passes=tuple(passes))

    def _protocol_verdict(self, chains: Iterable[PacketChain], frame: Frame) -> Verdict:
        verdicts = [self.chain_verdict(chain, frame) for chain in chains]
        refused = next((one for one in verdicts if one.refusal is not None), None)
        if refused is not None:
            return refused
        unknown = next((one for one in verdicts if one.unknown), None)
        return unknown or Verdict(is_partial=any(one.is_partial for one in verdicts))

    def chain_verdict(self, chain: PacketChain, frame: Frame) -> Verdict:
        """What one base chain does."""
        if chain.family == "bridge":
            frame = replace(frame, on_ports=True)
        ends, goes_on = self._ends(chain, frame, 0)
        if goes_on:
            ends = [*ends, _End(chain.policy, chain, None)]
        verdicts = {end.verdict for end in ends}
        if verdicts == {"accept"}:
            return PASSED
        open_end = next((end for end in ends if end.verdict not in ("accept", *REFUSALS)), None)
        if open_end is not None:
            target = open_end.rule.target if open_end.rule is not None else open_end.verdict
            return Verdict(unknown=f"{chain_text(open_end.at)}: a rule with {target or 'an unknown verdict'}")
        if "accept" in verdicts:
            return Verdict(is_partial=True)
        last = ends[-1]
        is_meant = last.rule is not None and _is_meant(last.rule, frame)
        return Verdict(Refusal(chain, last.at, last.rule, is_meant))

    def rule_for(self, frame: Frame, purpose: Literal["accept", "nat"]) -> Refusal | None:
        """The rule that accepts a frame because of its bridge, or translates the addresses of its subnet."""
        wanted = "forward" if purpose == "accept" else "nat"
        for chain in self.chains:
            if chain.hook != wanted or chain.family not in FAMILY_CHAINS[frame.family]:
                continue
            for end in self._ends(chain, frame, 0)[0]:
                if end.rule is None or not _is_for_bridge(end, frame, purpose):
                    continue
                return Refusal(chain, end.at, end.rule)
        return None

    def _ends(self, chain: PacketChain, frame: Frame, depth: int) -> tuple[list[_End], bool]:
        """(how the chain may end, whether it may go on after its last rule or by return)."""
        ends: list[_End] = []
        may_return = False
        for rule in chain.rules:
            self.steps += 1
            if depth > MAX_DEPTH or self.steps > MAX_STEPS:
                return [*ends, _End("too many rules", chain, None)], False
            applies = rule_applies(rule, frame)
            if applies is False or not rule.verdict:
                continue
            is_over = applies is True
            if rule.verdict in ("jump", "goto"):
                called = self.by_name.get((chain.backend, chain.family, chain.table, rule.target))
                inner, comes_back = ([_End("unknown", chain, rule)], True)
                if called is not None:
                    inner, comes_back = self._ends(called, frame, depth + 1)
                ends += inner
                if rule.verdict == "goto":
                    may_return = may_return or comes_back
                else:
                    is_over = is_over and not comes_back
            elif rule.verdict == "return":
                may_return = True
            else:
                ends.append(_End(rule.verdict, chain, rule))
            if is_over:
                return ends, may_return
        return ends, True


def _conditions(chain: PacketChain) -> Iterable[FilterCondition]:
    for rule in chain.rules:
        yield from rule.conditions


def _is_meant(rule: FilterRule, frame: Frame) -> bool:
    """The rule names the bridge as input and as output: it is there to separate its ports (Docker: icc=false). In a
    chain of the family bridge: it names a port."""
    named = {one.what for one in rule.conditions if one.what in ("in", "out") and not one.negated}
    return bool(named) if frame.on_ports or frame.is_routed_to else named == {"in", "out"}


def _is_for_bridge(end: _End, frame: Frame, purpose: str) -> bool:
    conditions = [one for one in (end.rule.conditions if end.rule is not None else ()) if not one.negated]
    if purpose == "accept":
        named = any(one.what == "in" and frame.bridge in one.values for one in conditions)
        return end.verdict == "accept" and named and end.rule is not None and rule_applies(end.rule, frame) is True
    of_subnet = any(one.what == "source" and _has_source(one, frame) for one in conditions)
    return end.rule is not None and end.rule.target in SOURCE_NAT and of_subnet


def rule_applies(rule: FilterRule, frame: Frame) -> bool | None:
    """Whether all conditions of a rule are true for a frame; None: for some frames, or not known."""
    result: bool | None = True
    for condition in rule.conditions:
        holds = _holds(condition, frame)
        if holds is False:
            return False
        if holds is None:
            result = None
    return result


def _holds(condition: FilterCondition, frame: Frame) -> bool | None:
    judge = JUDGES.get(condition.what)
    holds = judge(condition, frame) if judge is not None else None
    return None if holds is None else holds is not condition.negated


def _interface(condition: FilterCondition, own: Iterable[str]) -> bool | None:
    found = {any(_name_matches(value, name) for value in condition.values) for name in own}
    return found.pop() if len(found) == 1 else None


def _name_matches(value: str, name: str) -> bool:
    return name.startswith(value[:-1]) if value.endswith("*") else name == value


def _is_new(condition: FilterCondition, _: Frame) -> bool:
    """Frames of a new connection; the others follow only if these pass."""
    return "new" in condition.values


def _has_source(condition: FilterCondition, frame: Frame) -> bool | None:
    """The sender is in a subnet of the bridge, if it has any."""
    return _is_in(condition, frame.networks)


def _has_destination(condition: FilterCondition, frame: Frame) -> bool | None:
    """So is the receiver, unless the packet is routed."""
    if not frame.is_routed_to:
        return _is_in(condition, frame.networks)
    return False if frame.networks and _is_in(condition, frame.networks) is True else None


def _is_in(condition: FilterCondition, networks: Sequence[Network]) -> bool | None:
    """Whether every address of the networks is in those of the condition; None: some are, or not known."""
    found: set[bool] = set()
    for value in condition.values if networks else ():
        try:
            wanted = ipaddress.ip_network(value, strict=False)
        except ValueError:
            return None
        for own in networks:
            if own.version != wanted.version or not own.overlaps(wanted):
                found.add(False)
            elif wanted.prefixlen <= own.prefixlen:
                found.add(True)
            else:
                return None
    return found.pop() if len(found) == 1 else None


def _in(condition: FilterCondition, frame: Frame) -> bool | None:
    return _interface(condition, frame.inputs if frame.on_ports else (frame.bridge,))


def _out(condition: FilterCondition, frame: Frame) -> bool | None:
    return _interface(condition, frame.outputs if frame.on_ports else (frame.is_routed_to or frame.bridge,))


def _bridge(condition: FilterCondition, frame: Frame) -> bool | None:
    return _interface(condition, (frame.bridge,))


JUDGES = {
    "in": _in,
    "out": _out,
    "port_in": lambda condition, frame: _interface(condition, frame.inputs),
    "port_out": lambda condition, frame: _interface(condition, frame.outputs),
    "bridge_in": _bridge,
    "bridge_out": _bridge,
    "bridged": lambda _, frame: not frame.is_routed_to,
    "state": _is_new,
    "nat": lambda *_: False,
    "mark": lambda *_: False,
    "protocol": lambda condition, frame: frame.protocol in condition.values,
    "family": lambda condition, frame: frame.family in condition.values,
    "source": _has_source,
    "destination": _has_destination,
}
"""What is compared → whether that is so for a frame that nothing has marked or translated; any other is not known."""


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
    frame = Frame(family, found.bridge.name, names, names, bridge_networks(found.bridge, family))
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


def chain_text(chain: PacketChain) -> str:
    """``FORWARD (iptables)``, ``inet filter forward``"""
    is_iptables = chain.backend == "iptables" or (chain.table in ("filter", "nat") and chain.family in ("ip", "ip6"))
    if is_iptables:
        return f"{'ip6tables' if chain.family == 'ip6' else 'iptables'} {chain.name}"
    return f"nft {chain.family} {chain.table} {chain.name}"
