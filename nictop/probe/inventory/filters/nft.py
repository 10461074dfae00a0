"""Filter chains of nftables and those of source NAT, and the chains that they call, with their
rules.

One dump of all chains, then one of the rules of each chain that a packet can come to: other rules,
such as those of destination NAT, are not read. The hook forward comes first: if there are too many
rules, those of other hooks are left out. Needs CAP_NET_ADMIN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.probe.inventory.filters.nft_rules import (
    Elements,
    expressions_of,
    is_of_chain,
    parse_elements,
    rule_fields,
    rules_of,
    sets_of,
)
from nictop.probe.kernel import nftables
from nictop.probe.kernel.netlink import DumpInterrupted, NetlinkSocket, pack_text
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import FilterRule, PacketChain, Unreadable

MAX_RULES = 2000
"""Of all chains together."""
MAX_CHAINS = 512
"""That a forwarded packet can come to."""
MAX_ALL_CHAINS = 10_000
"""Those of NAT included: kube-proxy creates several for each service."""
MAX_SETS = 64
"""Whose elements are read."""
INET_HOOKS = {
    0: "prerouting",
    1: "input",
    2: "forward",
    3: "output",
    4: "postrouting",
    5: "ingress",
}
"""NF_INET_*"""
HOOKS = {
    **{
        (family, number): hook
        for family in (nftables.NFPROTO_IPV4, nftables.NFPROTO_IPV6, nftables.NFPROTO_INET)
        for number, hook in INET_HOOKS.items()
    },
    **{(nftables.NFPROTO_BRIDGE, number): INET_HOOKS[number] for number in (0, 2, 4)},
    (nftables.NFPROTO_NETDEV, 0): "ingress",
}
"""(family, number of the hook) → hook; those of bridges have the same numbers (NF_BR_*), and
NF_NETDEV_INGRESS."""

CHANGED = "changed while it was read"
Key = tuple[int, str, str]
"""(family, table, chain)"""


class Incomplete(Exception):
    """The rules are not known; the reason is its text."""


class _Rule(NamedTuple):
    body: bytes
    generation: int


def read_nft_chains(
    names: Mapping[int, str], sys: str = "/sys", modules: str = "/lib/modules"
) -> tuple[tuple[PacketChain, ...], dict[str, Unreadable]]:
    """Chains at forward, then those at other hooks, each with what it calls; and why they are
    missing ("nft": all, "nft_local": of the other hooks). `names`: of links by ifindex. Never
    raises OSError."""
    if not nftables.has_nftables(sys, modules):
        return (), {}
    for is_last in (False, True):
        try:
            with nftables.open_socket() as kernel:
                return _read(kernel, names)
        except DumpInterrupted:
            trouble = Unreadable("failed", CHANGED)
        except Incomplete as error:
            trouble = Unreadable("failed", str(error))
        except OSError as error:
            if error.errno in nftables.NO_NFTABLES:
                return (), {}
            return (), {"nft": unreadable_from_error(error, "nf_tables")}
        if is_last or trouble.detail != CHANGED:
            break
    return (), {"nft": trouble}


def _read(
    kernel: NetlinkSocket, names: Mapping[int, str]
) -> tuple[tuple[PacketChain, ...], dict[str, Unreadable]]:
    dormant = set(
        map(nftables.parse_dormant_table, nftables.dump(kernel, nftables.NFT_MSG_GETTABLE))
    )
    try:
        bodies = nftables.bounded_dump(kernel, nftables.NFT_MSG_GETCHAIN, 0, b"", MAX_ALL_CHAINS)
    except nftables.TooMany as error:
        raise Incomplete(f"more than {MAX_ALL_CHAINS} chains") from error
    parsed = (nftables.parse_chain(body) for body in bodies)
    chains = {(one.family, one.table, one.name): one for one in parsed if one is not None}
    base = [key for key, one in chains.items() if hook_of(one) and key[:2] not in dormant]
    base.sort(key=lambda key: (hook_of(chains[key]), chains[key].priority, key))
    forward = [key for key in base if hook_of(chains[key]) == "forward"]
    reader = _RuleReader(kernel, names)
    found = _with_called(forward, chains, reader)
    try:
        local = _with_called([key for key in base if key not in forward], chains, reader)
    except Incomplete as error:
        if str(error) == CHANGED:
            raise
        return found, {"nft_local": Unreadable("failed", str(error))}
    known = set(map(_place, found))
    return (*found, *(one for one in local if _place(one) not in known)), {}


def _place(chain: PacketChain) -> tuple[str, str, str]:
    return chain.family, chain.table, chain.name


def _with_called(
    waiting: list[Key], chains: Mapping[Key, nftables.Chain], reader: _RuleReader
) -> tuple[PacketChain, ...]:
    """The chains, then those that they call. Raises Incomplete."""
    found: list[PacketChain] = []
    for key in waiting:  # grows
        if len(found) >= MAX_CHAINS:
            raise Incomplete(f"more than {MAX_CHAINS} chains")
        rules = reader.rules_of(key)
        called = [(*key[:2], rule.target) for rule in rules if rule.verdict in ("jump", "goto")]
        waiting += [one for one in dict.fromkeys(called) if one in chains and one not in waiting]
        found.append(_record(chains[key], rules))
    return tuple(found)


def hook_of(chain: nftables.Chain) -> str:
    """`PacketChain.hook`; "": it is called by others, or is of no interest."""
    if chain.hook is None:
        return ""
    name = HOOKS.get((chain.family, chain.hook), "")
    if chain.type == "filter":
        return name
    if chain.type == "nat" and name == "postrouting":
        return "nat"
    return ""


def _record(chain: nftables.Chain, rules: Sequence[FilterRule]) -> PacketChain:
    hook = hook_of(chain)
    return PacketChain(
        backend="nft",
        family=nftables.FAMILY_NAMES[chain.family],
        table=chain.table,
        name=chain.name,
        hook=hook,
        priority=chain.priority,
        policy=chain.policy if hook else "",
        packets=chain.packets if hook else None,
        links=chain.links,
        rules=tuple(rules),
    )


class _RuleReader:
    """Reads the rules of one chain after another."""

    def __init__(self, kernel: NetlinkSocket, names: Mapping[int, str]) -> None:
        self.kernel, self.names = kernel, names
        self.count = 0
        self.generations: set[int] = set()
        self.sets: dict[Key, Elements | None] = {}
        self.rules: dict[Key, list[FilterRule]] = {}

    def rules_of(self, key: Key) -> list[FilterRule]:
        if key in self.rules:
            return self.rules[key]
        family, table, chain = key
        wanted = pack_text(nftables.NFTA_RULE_TABLE, table) + pack_text(
            nftables.NFTA_RULE_CHAIN, chain
        )
        found: list[FilterRule] = []
        for body in self._dumped(nftables.NFT_MSG_GETRULE, family, wanted):
            fields = rule_fields(body)
            if not is_of_chain(fields, table, chain):
                continue  # an old kernel sends those of all chains
            expressions = expressions_of(fields)
            known = {name: self._elements(family, table, name) for name in sets_of(expressions)}
            sets = {name: elements for name, elements in known.items() if elements is not None}
            found += rules_of(expressions, self.names, sets)
        self.count += len(found)
        if self.count > MAX_RULES:
            raise Incomplete(f"more than {MAX_RULES} rules")
        self.rules[key] = found
        return found

    def _elements(self, family: int, table: str, name: str) -> Elements | None:
        key = (family, table, name)
        if key not in self.sets and len(self.sets) < MAX_SETS:
            wanted = pack_text(nftables.NFTA_SET_ELEM_LIST_TABLE, table)
            wanted += pack_text(nftables.NFTA_SET_ELEM_LIST_SET, name)
            self.sets[key] = parse_elements(
                self._dumped(nftables.NFT_MSG_GETSETELEM, family, wanted)
            )
        return self.sets.get(key)

    def _dumped(self, kind: int, family: int, wanted: bytes) -> list[bytes]:
        try:
            bodies = nftables.bounded_dump(self.kernel, kind, family, wanted, MAX_RULES)
        except nftables.TooMany as error:
            raise Incomplete(f"more than {MAX_RULES} rules") from error
        for body in bodies:
            if len(body) >= nftables.NFGENMSG.size:
                self.generations.add(nftables.NFGENMSG.unpack_from(body)[2])
        if len(self.generations) > 1:
            raise Incomplete(CHANGED)
        return bodies
