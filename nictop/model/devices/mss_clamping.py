"""Whether a packet filter reduces the MSS that forwarded TCP connections announce.

Reads nothing; rules of nftables and iptables with TCPMSS or ``tcp option maxseg size set``.
"""

from __future__ import annotations

from nictop.probe.records import FilterCondition, FilterRule, Inventory

TARGET = "TCPMSS"
SOURCES = ("nft", "nft_local", "iptables")
"""Keys of `PacketFilters.unreadable` without which a rule may be missed."""


def reduces_mss(inventory: Inventory, outgoing: str, incoming: str) -> bool | None:
    """A rule reduces the MSS of what is forwarded between two links. None: not known, because rules could not be read;
    those of the table mangle of iptables-legacy never are."""
    chains = inventory.filters.chains
    if any(_reduces(rule, outgoing, incoming) for chain in chains for rule in chain.rules):
        return True
    is_unknown = "filters" in inventory.unreadable or any(one in inventory.filters.unreadable for one in SOURCES)
    return None if is_unknown or any(chain.backend == "iptables" for chain in chains) else False


def _reduces(rule: FilterRule, outgoing: str, incoming: str) -> bool:
    if rule.target != TARGET or rule.verdict:
        return False
    names = {"out": outgoing, "in": incoming}
    return all(_holds(one, names[one.what]) for one in rule.conditions if one.what in names)


def _holds(condition: FilterCondition, name: str) -> bool:
    is_one = any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in condition.values)
    return is_one != condition.negated
