"""What chains do with a frame: compared with a packet that is passed from rule to rule, and what
stays open."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.filter_evaluation import PASSED, Evaluator, Frame
from nictop.model.devices.forward_filters import with_accept
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import FilterCondition, FilterRule, PacketChain

BRIDGE = Frame("ipv4", "br0", frozenset(("tap0",)), frozenset(("tap1", "eno1")))
NAMES = ("one", "two", "three")
OTHER = FilterCondition("other", ("set",))
CONDITIONS = (
    FilterCondition("in", ("br0",)),
    FilterCondition("in", ("br0",), negated=True),
    FilterCondition("out", ("br*", "lo")),
    FilterCondition("out", ("docker0",)),
    FilterCondition("protocol", ("tcp", "udp")),
    FilterCondition("state", ("established", "related")),
    FilterCondition("state", ("established",), negated=True),
    FilterCondition("port_in", ("tap0",)),
    FilterCondition("bridged"),
)
TRUE = (True, False, True, False, True, False, True, True, True)
"""Which of them hold for `BRIDGE`, with TCP."""
rules = st.builds(
    FilterRule,
    verdict=st.sampled_from(("", "accept", "drop", "reject", "return", "jump", "goto")),
    target=st.sampled_from(NAMES),
    conditions=st.lists(st.sampled_from(CONDITIONS), max_size=2).map(tuple),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[PacketChain, ...]:
    """A base chain and chains that call only those after them: loops are refused by the kernel."""
    lists = [draw(st.lists(rules, max_size=4)) for _ in range(len(NAMES) + 1)]
    policy = draw(st.sampled_from(("accept", "drop")))
    chains = [
        PacketChain("nft", "ip", "filter", "FORWARD", "forward", 0, policy, rules=tuple(lists[0]))
    ]
    for number, name in enumerate(NAMES):
        later = NAMES[number + 1 :]
        kept = [
            one
            for one in lists[number + 1]
            if one.verdict not in ("jump", "goto") or one.target in later
        ]
        chains.append(PacketChain("nft", "ip", "filter", name, rules=tuple(kept)))
    return tuple(chains)


def passed_on(chains: tuple[PacketChain, ...], chain: PacketChain) -> str:
    """The verdict of a chain for one packet; return: none."""
    holds = dict(zip(CONDITIONS, TRUE, strict=True))
    for rule in chain.rules:
        if not all(holds[one] for one in rule.conditions):
            continue
        if rule.verdict in ("accept", "drop", "reject", "return"):
            return rule.verdict
        if rule.verdict in ("jump", "goto"):
            called = passed_on(chains, next(one for one in chains if one.name == rule.target))
            if called != "return" or rule.verdict == "goto":
                return called
    return "return"


@given(tables())
def test_every_rule_that_is_understood(chains: tuple[PacketChain, ...]) -> None:
    verdict = passed_on(chains, chains[0])
    wanted = chains[0].policy if verdict == "return" else verdict
    found = Evaluator(chains).chain_verdict(chains[0], BRIDGE)
    assert not found.unknown and not found.is_partial
    assert (found.refusal is None) == (wanted == "accept")
    if found.refusal is not None:
        assert (found.refusal.rule is None) == (verdict == "return")


@given(
    tables(),
    st.integers(0, 3),
    st.integers(0, 4),
    st.sampled_from(("accept", "drop", "unknown", "return")),
)
def test_a_rule_that_is_not_understood_proves_nothing(
    chains: tuple[PacketChain, ...], number: int, place: int, verdict: str
) -> None:
    """With such a rule the chain either does what it did without it, or nothing is claimed."""
    one = chains[number]
    rule = FilterRule(verdict, conditions=(OTHER,))
    changed = tuple(
        replace(chain, rules=(*chain.rules[:place], rule, *chain.rules[place:]))
        if chain is one
        else chain
        for chain in chains
    )
    before = Evaluator(chains).chain_verdict(chains[0], BRIDGE)
    after = Evaluator(changed).chain_verdict(changed[0], BRIDGE)
    if after.refusal is not None:
        assert before.refusal is not None or verdict == "drop"
        assert before.refusal is not None, "a drop that may not apply refuses nothing for certain"
    if after == PASSED:
        assert before == PASSED


@given(tables())
def test_an_accept_before_all_rules_lets_it_pass(chains: tuple[PacketChain, ...]) -> None:
    changed = with_accept(chains, chains[0], "br0")
    assert Evaluator(changed).chain_verdict(changed[0], BRIDGE) == PASSED


def test_chains_that_call_each_other_end() -> None:
    """No kernel has them."""
    one = PacketChain(
        "nft", "ip", "t", "f", "forward", 0, "drop", rules=(FilterRule("jump", "two"),)
    )
    two = PacketChain(
        "nft", "ip", "t", "two", rules=(FilterRule("jump", "two"), FilterRule("jump", "two"))
    )
    found = Evaluator((one, two)).chain_verdict(one, BRIDGE)
    assert found.refusal is None and "too many rules" in found.unknown
