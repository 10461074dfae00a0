"""What drops or limits packets of a link before they come to the network stack, or after they have left it.

Reads nothing: policers and drops of tc at ingress and clsact, rules of nftables with a rate, XDP programs. These are
facts for rules, and possible causes for path tests and traffic tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from nictop.model.devices.traffic_control import impairs
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.records import FilterRule, Link, PacketChain, Qdisc, TcAction, TcFilter

PLAIN_CONDITIONS = ("limit", "in", "out", "family")
"""Of a rule that limits everything on a link, not one service."""
RECEIVING_HOOKS = ("ingress", "prerouting", "input", "forward")


class TcLimit(NamedTuple):
    """A filter of tc that drops what it matches, or what exceeds a rate."""

    filter: TcFilter
    action: TcAction

    @property
    def drops_all(self) -> bool:
        """It drops every packet of its protocol."""
        return self.action.kind == "gact" and self.action.verdict == "drop" and self.filter.matches_all


class RedirectLimit(NamedTuple):
    """Received packets are redirected to another link, whose queueing discipline holds them back."""

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
    """It applies to everything on its links: no address, protocol or port is compared."""


def ingress_limits(link: Link) -> tuple[TcLimit, ...]:
    """What tc drops or limits on a link, in the order in which packets come to it; ingress before egress."""
    found = []
    for one in sorted(link.tc_filters, key=lambda one: (one.hook == "egress", one.priority)):
        for action in one.actions:
            is_police = action.kind == "police" and action.rate is not None and action.verdict in ("drop", "")
            is_drop = action.kind == "gact" and action.verdict == "drop"
            if is_police or is_drop:
                found.append(TcLimit(one, action))
    return tuple(found)


def redirect_limits(link: Link, snapshot: Snapshot) -> Iterator[RedirectLimit]:
    """Redirections of everything that a link receives to a link (an ifb) whose qdisc limits or changes it."""
    speed = link.ethtool.settings.speed if link.ethtool.settings is not None else None
    for one in link.tc_filters:
        targets = [action.target for action in one.actions if action.kind == "mirred" and action.verdict == "stolen"]
        target = snapshot.links.get(targets[0] or 0) if one.hook == "ingress" and one.matches_all and targets else None
        acting = [qdisc for qdisc in target.traffic_control if impairs(qdisc, speed)] if target is not None else []
        if target is not None and acting:
            yield RedirectLimit(one, target, acting[0])


def limit_text(limit: TcLimit) -> str:
    """``police rate 20 Mb/s (u32)``, ``drop (matchall)``"""
    if limit.action.rate is None:
        return f"drop ({limit.filter.kind})"
    return f"police rate {units.bits_per_second(limit.action.rate)} ({limit.filter.kind})"


def rate_rules(snapshot: Snapshot) -> Iterator[RateRule]:
    """Rules of the host's packet filter that drop what exceeds a rate."""
    inventory = snapshot.inventory
    for chain in inventory.filters.chains if inventory is not None else ():
        for rule in chain.rules:
            if rule.verdict not in ("drop", "reject"):
                continue
            limit = next((one for one in rule.conditions if one.what == "limit" and not one.negated), None)
            if limit is not None:
                is_plain = chain.hook != "" and all(one.what in PLAIN_CONDITIONS for one in rule.conditions)
                yield RateRule(chain, rule, rate_text(limit.values[0] if limit.values else ""), is_plain)


def rate_text(rate: str) -> str:
    """``16 Mb/s``, ``10 packets/s``; as it is if it is neither."""
    number, _, unit = rate.partition(" ")
    try:
        value = float(number)
    except ValueError:
        return rate
    if not math.isfinite(value):
        return rate
    return units.bits_per_second(value * 8) if unit == "bytes/s" else f"{value:g} {unit}"


def is_limited_by(rule: RateRule, link: Link) -> bool:
    """The rule applies to what the link receives or sends; a rule without an interface applies to all."""
    if rule.chain.links:
        return link.name in rule.chain.links
    named = [one for one in rule.rule.conditions if one.what in ("in", "out") and not one.negated]
    return all(any(value in (link.name, "") for value in one.values) for one in named)


def xdp_drop_counters(link: Link) -> tuple[str, ...]:
    """Names of the driver's counters of packets that XDP programs dropped; those of the whole NIC, if it has any."""
    names = [name for name in link.ethtool.driver_counter_names or () if "xdp_drop" in name.lower()]
    whole = [name for name in names if not any(character.isdigit() for character in name)]
    return tuple(dict.fromkeys(name.strip() for name in whole or names))
