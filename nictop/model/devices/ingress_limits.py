"""What drops or limits packets of a link before they come to the network stack, or after they have
left it.

Reads nothing: policers and drops of tc at ingress and clsact, rules of nftables with a rate, XDP
programs. These are facts for rules, and possible causes for path tests and traffic tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nictop.model.devices.links import reported_speed
from nictop.model.devices.traffic_control import impairs
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import (
    FilterCondition,
    FilterRule,
    Link,
    PacketChain,
    Qdisc,
    TcAction,
    TcFilter,
)

PLAIN_CONDITIONS = ("limit", "in", "out", "family")
"""Of a rule that limits everything on a link, not one service."""


REFUSALS = ("drop", "reject")


class TcLimit(NamedTuple):
    """A filter of tc that drops what it matches, or what exceeds a rate."""

    filter: TcFilter
    action: TcAction

    @property
    def drops_all(self) -> bool:
        """It drops every packet of its protocol."""
        return _is_drop(self.action) and self.filter.matches_all


class RedirectLimit(NamedTuple):
    """Received packets are redirected to another link, whose queueing discipline holds them
    back."""

    filter: TcFilter
    target: Link
    qdisc: Qdisc


class RateRule(NamedTuple):
    """A rule of nftables or iptables that drops what exceeds a rate."""

    chain: PacketChain
    rule: FilterRule
    rate: str
    """``2e+07 bytes/s``; or the name of the match with the rate."""
    is_plain: bool
    """It applies to everything on its links: no address, protocol or port is compared, and no rule
    before it in its chain may accept or pass on a packet."""

    @property
    def names_links(self) -> bool:
        """It is for some links; else all links share the rate."""
        return bool(self.chain.links or _conditions(self.rule, ("in", "out")))


def ingress_limits(link: Link) -> tuple[TcLimit, ...]:
    """What tc drops or limits on a link, in the order in which packets come to it; ingress before
    egress."""
    found = []
    for tc_filter in sorted(link.tc_filters, key=_filter_order):
        for action in tc_filter.actions:
            if _is_police(action) or _is_drop(action):
                found.append(TcLimit(tc_filter, action))
    return tuple(found)


def _filter_order(tc_filter: TcFilter) -> tuple[bool, int]:
    return tc_filter.hook == "egress", tc_filter.priority


def _is_drop(action: TcAction) -> bool:
    return action.kind == "gact" and action.verdict == "drop"


def _is_police(action: TcAction) -> bool:
    """It drops what exceeds its rate."""
    if action.kind != "police" or action.rate is None:
        return False
    return action.verdict in ("drop", "")


def redirect_limits(link: Link, snapshot: Snapshot) -> Iterator[RedirectLimit]:
    """Redirections of everything that a link receives to a link (an ifb) whose qdisc limits or
    changes it."""
    speed = reported_speed(link)
    for tc_filter in link.tc_filters:
        if tc_filter.hook != "ingress" or not tc_filter.matches_all:
            continue
        target = snapshot.links.get(_redirect_target(tc_filter) or 0)
        if target is None:
            continue
        for qdisc in target.traffic_control:
            if impairs(qdisc, speed):
                yield RedirectLimit(tc_filter, target, qdisc)
                break


def limit_text(limit: TcLimit) -> str:
    """``police rate 20 Mb/s (u32)``, ``drop (matchall)``"""
    if limit.action.rate is None:
        return f"drop ({limit.filter.kind})"
    return f"police rate {units.bits_per_second(limit.action.rate)} ({limit.filter.kind})"


def _redirect_target(tc_filter: TcFilter) -> int | None:
    """ifindex of the link to which packets are redirected first."""
    for action in tc_filter.actions:
        if action.kind == "mirred" and action.verdict == "stolen":
            return action.target
    return None


def rate_rules(snapshot: Snapshot) -> Iterator[RateRule]:
    """Rules of the host's packet filter that drop what exceeds a rate."""
    inventory = snapshot.inventory
    if inventory is None:
        return
    for chain in inventory.filters.chains:
        is_first = True
        for rule in chain.rules:
            found = _rate_rule(chain, rule, is_first=is_first)
            if found is not None:
                yield found
            is_first = is_first and rule.verdict in ("", *REFUSALS)


def _rate_rule(chain: PacketChain, rule: FilterRule, *, is_first: bool) -> RateRule | None:
    """`is_first`: no rule before it may have accepted a packet, or passed it on."""
    if rule.verdict not in REFUSALS:
        return None
    limits = _conditions(rule, ("limit",))
    if not limits:
        return None
    rate = next(iter(limits[0].values), "")
    compared = {condition.what for condition in rule.conditions}
    is_plain = is_first and chain.hook != "" and compared <= set(PLAIN_CONDITIONS)
    return RateRule(chain, rule, rate_text(rate), is_plain)


def _conditions(rule: FilterRule, kinds: Sequence[str]) -> list[FilterCondition]:
    """Those of these kinds that are not negated."""
    found = []
    for condition in rule.conditions:
        if condition.what in kinds and not condition.negated:
            found.append(condition)
    return found


def rate_text(rate: str) -> str:
    """``16 Mb/s``, ``10 packets/s``; as it is if it is neither."""
    number, _, unit = rate.partition(" ")
    try:
        value = float(number)
    except ValueError:
        return rate
    if not math.isfinite(value):
        return rate
    if unit == "bytes/s":
        return units.bits_per_second(value * 8)
    return f"{value:g} {unit}"


def is_limited_by(rule: RateRule, link: Link) -> bool:
    """The rule applies to what the link receives or sends; a rule without an interface applies to
    all."""
    if rule.chain.links:
        return link.name in rule.chain.links
    for condition in _conditions(rule.rule, ("in", "out")):
        if not {link.name, ""} & set(condition.values):
            return False
    return True


def xdp_drop_counters(link: Link) -> tuple[str, ...]:
    """Names of the driver's counters of packets that XDP programs dropped; those of the whole NIC,
    if it has any."""
    names = [name for name in link.ethtool.driver_counter_names or () if "xdp_drop" in name.lower()]
    whole = [name for name in names if not any(character.isdigit() for character in name)]
    return tuple(dict.fromkeys(name.strip() for name in whole or names))
