"""What the chains of a packet filter do with a frame that passes a bridge, or with a packet that it
routes.

Reads nothing. A packet passes if every base chain accepts it. A rule that may or may not apply, to
this packet or by what is known of it, leaves open what its chain does: then nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from nictop.model.text.ip_addresses import Network, parse_network
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import FilterCondition, FilterRule, PacketChain

FrameFamily = Literal["ipv4", "ipv6", "arp"]
FAMILY_CHAINS: Mapping[FrameFamily, tuple[str, ...]] = {
    "ipv4": ("ip", "inet"),
    "ipv6": ("ip6", "inet"),
    "arp": (),
}
"""Frames → families of the chains that they come to by br_netfilter."""
OTHER_PROTOCOLS: Mapping[FrameFamily, tuple[str, ...]] = {
    "ipv4": ("udp", "icmp"),
    "ipv6": ("udp", "icmpv6"),
    "arp": (),
}
"""Besides TCP: a firewall may let ICMP pass and nothing else."""
REFUSALS = ("drop", "reject")
BRIDGE_HOOKS = ("prerouting", "forward", "postrouting")
PORT_CONDITIONS = ("port_in", "port_out")
HOOKS_BY_PURPOSE = {"accept": "forward", "nat": "nat"}
IPTABLES_PROGRAMS = {"ip6": "ip6tables"}
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
        if self.chain.rules:
            last = self.chain.rules[-1]
            is_counter = not last.verdict and not last.conditions
            if is_counter and last.packets:
                return last.packets
        return self.chain.packets


@dataclass(frozen=True)
class FilterVerdict:
    """What the chains do with frames of one kind."""

    refusal: Refusal | None = None
    """Every frame of a new connection is refused by it."""
    unknown: str = ""
    """What is not known, so that it cannot be said whether frames pass."""
    is_partial: bool = False
    """Some pass and some do not, by addresses, ports and the like."""
    passes: tuple[str, ...] = ()
    """Protocols that are accepted although new TCP connections are refused: icmp."""


PASSED = FilterVerdict()


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
    is_table_of_iptables = chain.table in ("filter", "nat") and chain.family in ("ip", "ip6")
    if chain.backend == "iptables" or is_table_of_iptables:
        return f"{IPTABLES_PROGRAMS.get(chain.family, 'iptables')} {chain.name}"
    return f"nft {chain.family} {chain.table} {chain.name}"


def table_of(chain: PacketChain) -> tuple[str, str, str]:
    """The table of a chain; names of chains are unique in one."""
    return chain.backend, chain.family, chain.table


def _may_refuse(chain: PacketChain) -> bool:
    return any(rule.verdict in (*REFUSALS, "unknown") for rule in chain.rules)


def _names_port(chain: PacketChain) -> bool:
    return any(condition.what in PORT_CONDITIONS for condition in _conditions(chain))


def decisive(verdicts: Sequence[FilterVerdict]) -> FilterVerdict | None:
    """The first one that refuses, else the first one that is not known; None: there is neither."""
    for verdict in verdicts:
        if verdict.refusal is not None:
            return verdict
    for verdict in verdicts:
        if verdict.unknown:
            return verdict
    return None


class _End(NamedTuple):
    """One way in which a chain may end."""

    verdict: str
    at: PacketChain
    rule: FilterRule | None


class Evaluator:
    """Follows frames through the chains of a host."""

    def __init__(self, chains: Iterable[PacketChain]) -> None:
        self.chains = tuple(chains)
        self.by_name = {(table_of(chain), chain.name): chain for chain in self.chains}
        self.steps = 0
        self._refusing = {table_of(chain) for chain in self.chains if _may_refuse(chain)}
        """Tables in which a rule may refuse something."""
        self._names_ports = any(map(_names_port, self.chains))

    def chains_for(self, family: FrameFamily, untagged: frozenset[str]) -> tuple[PacketChain, ...]:
        """Base chains that frames come to. `untagged`: ports that br_netfilter filters; none: it
        does not."""
        found = []
        for chain in self.chains:
            if chain.family == "bridge":
                is_passed = chain.hook in BRIDGE_HOOKS
            else:
                is_routed = chain.hook == "forward" and chain.family in FAMILY_CHAINS[family]
                is_passed = is_routed and bool(untagged)
            if is_passed:
                found.append(chain)
        return tuple(found)

    def names_ports(self, chains: Iterable[PacketChain]) -> bool:
        """The verdict may differ between ports of one bridge."""
        return self._names_ports or any(chain.family == "bridge" for chain in chains)

    def verdict(self, chains: Sequence[PacketChain], frame: Frame) -> FilterVerdict:
        """What all base chains together do. Refused: TCP is, and UDP is not accepted by a rule for
        all of it."""
        found = self._protocol_verdict(chains, frame)
        if found.refusal is None:
            return found
        passes = []
        for protocol in OTHER_PROTOCOLS[frame.family]:
            other = self._protocol_verdict(chains, replace(frame, protocol=protocol))
            if other == PASSED:
                passes.append(protocol)
        if "udp" in passes:
            return FilterVerdict(is_partial=True)
        return replace(found, passes=tuple(passes))

    def _protocol_verdict(self, chains: Iterable[PacketChain], frame: Frame) -> FilterVerdict:
        verdicts = [self.chain_verdict(chain, frame) for chain in chains]
        is_partial = any(verdict.is_partial for verdict in verdicts)
        return decisive(verdicts) or FilterVerdict(is_partial=is_partial)

    def chain_verdict(self, chain: PacketChain, frame: Frame) -> FilterVerdict:
        """What one base chain does."""
        if chain.policy == "accept" and table_of(chain) not in self._refusing:
            return PASSED
        if chain.family == "bridge":
            frame = replace(frame, on_ports=True)
        ends, goes_on = self._ends(chain, frame, 0)
        if goes_on:
            ends = [*ends, _End(chain.policy, chain, None)]
        return _verdict_of_ends(chain, ends, frame)

    def rule_for(self, frame: Frame, purpose: Literal["accept", "nat"]) -> Refusal | None:
        """The rule that accepts a frame because of its bridge, or translates the addresses of its
        subnet."""
        for chain in self.chains:
            is_at_hook = chain.hook == HOOKS_BY_PURPOSE[purpose]
            if not is_at_hook or chain.family not in FAMILY_CHAINS[frame.family]:
                continue
            ends, _ = self._ends(chain, frame, 0)
            for verdict, place, rule in ends:
                if rule is not None and _is_for_bridge(verdict, rule, frame, purpose):
                    return Refusal(chain, place, rule)
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
            if rule.verdict == "return":
                may_return = True
            elif rule.verdict in ("jump", "goto"):
                called_ends, comes_back = self._ends_of_called(chain, rule, frame, depth)
                ends += called_ends
                if rule.verdict == "goto":
                    may_return = may_return or comes_back
                elif comes_back:
                    is_over = False
            else:
                ends.append(_End(rule.verdict, chain, rule))
            if is_over:
                return ends, may_return
        return ends, True

    def _ends_of_called(
        self, chain: PacketChain, rule: FilterRule, frame: Frame, depth: int
    ) -> tuple[list[_End], bool]:
        """`_ends` of the chain that a rule calls."""
        called = self.by_name.get((table_of(chain), rule.target))
        if called is None:
            return [_End("unknown", chain, rule)], True
        return self._ends(called, frame, depth + 1)


def _verdict_of_ends(chain: PacketChain, ends: Sequence[_End], frame: Frame) -> FilterVerdict:
    """What a base chain does that may end in these ways."""
    verdicts = {end.verdict for end in ends}
    if verdicts == {"accept"}:
        return PASSED
    for end in ends:
        if end.verdict not in ("accept", *REFUSALS):
            return FilterVerdict(unknown=f"{chain_text(end.at)}: a rule with {_unknown_text(end)}")
    if "accept" in verdicts:
        return FilterVerdict(is_partial=True)
    last = ends[-1]
    is_meant = last.rule is not None and _is_meant(last.rule, frame)
    return FilterVerdict(Refusal(chain, last.at, last.rule, is_meant))


def _unknown_text(end: _End) -> str:
    """What is not known of an end: the target of its rule, or the verdict."""
    text = end.verdict
    if end.rule is not None:
        text = end.rule.target
    return text or "an unknown verdict"


def _conditions(chain: PacketChain) -> Iterable[FilterCondition]:
    for rule in chain.rules:
        yield from rule.conditions


def _is_meant(rule: FilterRule, frame: Frame) -> bool:
    """The rule names the bridge as input and as output: it is there to separate its ports (Docker:
    icc=false). Or it names a port."""
    compared = {condition.what for condition in rule.conditions if _is_exact(condition)}
    if compared.intersection(PORT_CONDITIONS):
        return True
    directions = compared & {"in", "out"}
    if frame.on_ports or frame.is_routed_to:
        return bool(directions)
    return directions == {"in", "out"}


def _is_exact(condition: FilterCondition) -> bool:
    """It is true for certain names only."""
    return not condition.negated and not any("*" in value for value in condition.values)


def _is_for_bridge(verdict: str, rule: FilterRule, frame: Frame, purpose: str) -> bool:
    conditions = [condition for condition in rule.conditions if not condition.negated]
    if purpose == "nat":
        sources = [condition for condition in conditions if condition.what == "source"]
        is_of_subnet = any(_has_source(condition, frame) for condition in sources)
        return rule.target in SOURCE_NAT and is_of_subnet
    inputs = [condition for condition in conditions if condition.what == "in"]
    is_named = any(frame.bridge in condition.values for condition in inputs)
    if verdict != "accept" or not is_named:
        return False
    return rule_applies(rule, frame) is True


def rule_applies(rule: FilterRule, frame: Frame) -> bool | None:
    """Whether all conditions of a rule are true for a frame; None: for some frames, or not
    known."""
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
    if judge is None:
        return None
    holds = judge(condition, frame)
    if holds is None:
        return None
    return holds is not condition.negated


def _interface(condition: FilterCondition, own: Iterable[str]) -> bool | None:
    names = frozenset(own)
    matching = names.intersection(condition.values)
    for value in condition.values:
        if value.endswith("*"):
            matching |= {name for name in names if name.startswith(value[:-1])}
    if matching == names:
        return True
    if matching:
        return None
    return False


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
    if _is_in(condition, frame) is True:
        return False
    return None


def _is_in(condition: FilterCondition, frame: Frame) -> bool | None:
    """Whether every address of the networks of a frame is in those of the condition; None: some
    are, or not known. A bridge may have more subnets than its own address tells: others are only
    excluded if another link has them."""
    if not frame.networks:
        return None
    answers: set[bool | None] = set()
    for value in condition.values:
        wanted = parse_network(value)
        if wanted is None:
            return None
        answers.update(_is_network_in(own, wanted, frame) for own in frame.networks)
    if len(answers) != 1:
        return None
    return answers.pop()


def _is_network_in(own: Network, wanted: Network, frame: Frame) -> bool | None:
    if own.version != wanted.version:
        return False
    if own.overlaps(wanted):
        if wanted.prefixlen <= own.prefixlen:
            return True
        return None
    if frame.is_routed_to:
        return False
    for network in frame.other_networks:
        if network.version == wanted.version and network.overlaps(wanted):
            return False
    return None


def _in(condition: FilterCondition, frame: Frame) -> bool | None:
    if frame.on_ports:
        return _interface(condition, frame.inputs)
    return _interface(condition, (frame.bridge,))


def _out(condition: FilterCondition, frame: Frame) -> bool | None:
    if frame.on_ports:
        return _interface(condition, frame.outputs)
    return _interface(condition, (frame.is_routed_to or frame.bridge,))


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
"""What is compared → whether that is so for a frame that nothing has marked or translated; any
other is not known."""
