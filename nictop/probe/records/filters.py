"""Packet filters of a network namespace: chains of nftables and iptables, and what their rules
compare."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """One comparison of a rule. A rule applies to packets for which all of its conditions are
    true."""

    what: str
    """in, out: interface (a bridge for bridged packets that netfilter gets; in the family bridge a
    port). port_in, port_out: port of a bridge (physdev). bridge_in, bridge_out: bridge of that port
    (ibrname, obrname). bridged: physdev-is-bridged. state: of the connection (new, established,
    related, invalid, untracked). nat: snat, dnat. mark: has one. family: ipv4, ipv6 or arp.
    protocol: tcp, udp, icmp, icmpv6, or its number. source, destination: an address with prefix
    length. limit: more than a rate (``2e+07 bytes/s``), or a match with a rate of its own (its
    name). other: anything else, `values` name it."""
    values: tuple[str, ...] = ()
    """It is one of these; ``tap*``: begins with."""
    negated: bool = False
    """It is none of these."""


@dataclass(frozen=True, slots=True)
class FilterRule:
    """A rule of a chain; an anonymous verdict map is one rule for each of its entries."""

    verdict: str = ""
    """accept, drop, reject, return, jump or goto (to `target`); "": the next rule decides. unknown:
    what it does with a packet is not known."""
    target: str = ""
    """Chain of jump and goto; what is unknown; TCPMSS without a verdict: the rule reduces the MSS
    of TCP."""
    conditions: tuple[FilterCondition, ...] = ()
    packets: int | None = None
    """Packets to which it applied; None: not counted."""


@dataclass(frozen=True, slots=True)
class PacketChain:
    """A chain that packets pass at a hook, or one that such a chain calls."""

    backend: Literal["nft", "iptables"]
    """nft: nftables, also what iptables-nft has created. iptables: iptables-legacy."""
    family: str
    """ip, ip6, inet, bridge or netdev."""
    table: str
    name: str
    hook: str = ""
    """forward, ingress, prerouting, input, output or postrouting; nat: source NAT (type nat at
    postrouting), without filters. "": called by another chain."""
    priority: int = 0
    policy: str = ""
    """accept or drop: for packets on which no rule decides. "": called by another chain."""
    packets: int | None = None
    """Packets on which no rule decided; None: not counted."""
    links: tuple[str, ...] = ()
    """Hook ingress: names of the links."""
    rules: tuple[FilterRule, ...] = ()


@dataclass(frozen=True, slots=True)
class PacketFilters:
    """What filters the packets of this network namespace. nf_tables netlink (NFT_MSG_GETCHAIN,
    GETRULE, GETSETELEM), IPT_SO_GET_ENTRIES and IP6T_SO_GET_ENTRIES. Needs root."""

    chains: tuple[PacketChain, ...] = ()
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """nft, nft_local (all hooks but forward), iptables, ip6tables → why their chains are
    missing."""
