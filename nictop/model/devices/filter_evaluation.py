"""What the chains of a packet filter do with a frame that passes a bridge, or with a packet that it routes.

Reads nothing. A packet passes if every base chain accepts it. A rule that may or may not apply, to this packet or by
what is known of it, leaves open what its chain does: then nothing is claimed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from nictop.probe.records import FilterCondition, FilterRule, PacketChain

FrameFamily = Literal["ipv4", "ipv6", "arp"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FAMILY_CHAINS: Mapping[FrameFamily, tuple[str, ...]] = {"ipv4": ("ip", "inet"), "ipv6": ("ip6", "inet"), "arp": ()}
"""Frames → families of the chains that they come to by br_netfilter."""
OTHER_PROTOCOLS: Mapping[FrameFamily, tuple[str, ...]] = {"ipv4": ("udp", "icmp"), "ipv6": ("udp", "icmpv6"), "arp": ()}
"""Besides TCP: a firewall may let ICMP pass and nothing else."""
REFUSALS = ("drop", "reject")
BRIDGE_HOOKS = ("prerouting", "forward", "postrouting")
SOURCE_NAT = ("masq", "nat", "MASQUERADE", "SNAT")
"""Expressions of nftables and targets of xtables."""
MAX_STEPS = 6_000
"""Rules that are examined for one host."""
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
    other_networks: tuple[Network, ...] = ()
    """Subnets of the other links of the host, in which no end is."""
    protocol: str = "tcp"
    """tcp, udp, icmp or icmpv6."""
    is_routed_to: str = ""
    """Interface that it is routed to; "": bridged."""
    on_ports: bool = False
    """Input and output interface are ports: it is in a chain of the family bridge."""


def chain_text(chain: PacketChain) -> str:
    """``FORWARD (iptables)``, ``inet filter forward``"""
    is_iptables = chain.backend == "iptables" or (chain.table in ("filter", "nat") and chain.family in ("ip", "ip6"))
    if is_iptables:
        return f"{'ip6tables' if chain.family == 'ip6' else 'iptables'} {chain.name}"
    return f"nft {chain.family} {chain.table} {chain.name}"


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
        self._refusing = {
            (one.backend, one.family, one.table)
            for one in self.chains
            if any(rule.verdict in (*REFUSALS, "unknown") for rule in one.rules)
        }
        """Tables in which a rule may refuse something."""
        self._names_ports = any(
            condition.what in ("port_in", "port_out") for one in self.chains for condition in _conditions(one)
        )

    def chains_for(self, family: FrameFamily, untagged: frozenset[str]) -> tuple[PacketChain, ...]:
        """Base chains that frames come to. `untagged`: ports that br_netfilter filters; none: it does not."""
        families = FAMILY_CHAINS[family] if untagged else ()
        return tuple(
            one
            for one in self.chains
            if (one.hook == "forward" and one.family in families)
            or (one.family == "bridge" and one.hook in BRIDGE_HOOKS)
        )

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
        if chain.policy == "accept" and (chain.backend, chain.family, chain.table) not in self._refusing:
            return PASSED
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
    """The rule names the bridge as input and as output: it is there to separate its ports (Docker: icc=false). Or it
    names a port."""
    exact = [one for one in rule.conditions if not one.negated and not any("*" in value for value in one.values)]
    named = {one.what for one in exact if one.what in ("in", "out")}
    if any(one.what in ("port_in", "port_out") for one in exact):
        return True
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
    names = frozenset(own)
    matching = names.intersection(condition.values)
    for value in condition.values:
        if value.endswith("*"):
            matching |= {name for name in names if name.startswith(value[:-1])}
    return True if matching == names else None if matching else False


def _is_new(condition: FilterCondition, _: Frame) -> bool:
    """Frames of a new connection; the others follow only if these pass."""
    return "new" in condition.values


def _has_source(condition: FilterCondition, frame: Frame) -> bool | None:
    """The sender is in a subnet of the bridge, if it has any."""
    return _is_in(condition, frame)


def _has_destination(condition: FilterCondition, frame: Frame) -> bool | None:
    """So is the receiver, unless the packet is routed."""
    if not frame.is_routed_to:
        return _is_in(condition, frame)
    return False if _is_in(condition, frame) is True else None


def _is_in(condition: FilterCondition, frame: Frame) -> bool | None:
    """Whether every address of the networks of a frame is in those of the condition; None: some are, or not known. A
    bridge may have more subnets than its own address tells: others are only excluded if another link has them."""
    found: set[bool | None] = set()
    for value in condition.values if frame.networks else ():
        try:
            wanted = ipaddress.ip_network(value, strict=False)
        except ValueError:
            return None
        found.update(_is_network_in(own, wanted, frame) for own in frame.networks)
    return found.pop() if len(found) == 1 else None


def _is_network_in(own: Network, wanted: Network, frame: Frame) -> bool | None:
    if own.version != wanted.version:
        return False
    if own.overlaps(wanted):
        return True if wanted.prefixlen <= own.prefixlen else None
    is_elsewhere = any(one.version == wanted.version and one.overlaps(wanted) for one in frame.other_networks)
    return False if frame.is_routed_to or is_elsewhere else None


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
