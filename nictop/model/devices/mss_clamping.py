"""Whether a packet filter reduces the MSS that forwarded TCP connections announce.

Reads nothing; rules of nftables and iptables with TCPMSS or ``tcp option maxseg size set``.
"""

from __future__ import annotations

from nictop.probe.records import FilterCondition, FilterRule, Inventory

TARGET = "TCPMSS"
SOURCES = ("nft", "nft_local", "iptables")
"""Keys of `PacketFilters.unreadable` without which a rule may be missed."""


def reduces_mss(inventory: Inventory, outgoing: str, incoming: str) -> bool | None:
    """A rule reduces the MSS of what is forwarded between two links. None: not known, because rules
    could not be read; those of the table mangle of iptables-legacy never are."""
    filters = inventory.filters
    for chain in filters.chains:
        if any(_reduces(rule, outgoing, incoming) for rule in chain.rules):
            return True
    if "filters" in inventory.unreadable or filters.unreadable.keys() & set(SOURCES):
        return None
    if any(chain.backend == "iptables" for chain in filters.chains):
        return None
    return False


def _reduces(rule: FilterRule, outgoing: str, incoming: str) -> bool:
    if rule.target != TARGET or rule.verdict:
        return False
    names = {"out": outgoing, "in": incoming}
    for condition in rule.conditions:
        if condition.what in names and not _holds(condition, names[condition.what]):
            return False
    return True


def _holds(condition: FilterCondition, name: str) -> bool:
    is_named = any(_is_name(name, pattern) for pattern in condition.values)
    return is_named != condition.negated


def _is_name(name: str, pattern: str) -> bool:
    """``eth*`` stands for all names with this begin."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern
