"""Rules of nftables (NFT_MSG_NEWRULE) → `FilterRule`s. Pure.

A rule is a list of expressions: some load a value into a register, others compare it, the last may
have a verdict. What is not understood becomes a condition "other", so that nobody takes the rule
for one that applies to all packets. Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Mapping, Sequence

from nictop.probe.inventory.filters.xtables import (
    MSS_TARGET,
    conditions_of_match,
    protocol_name,
    verdict_of_target,
)
from nictop.probe.kernel import nftables
from nictop.probe.kernel.netlink import iter_attributes, text
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import FilterCondition, FilterRule

NFTA_RULE_EXPRESSIONS = 4
NFTA_EXPR_NAME, NFTA_EXPR_DATA = 1, 2
DREG, KEY = 1, 2
"""NFTA_META_* and NFTA_CT_*: where the value is loaded to, and what."""
NFTA_META_SREG, NFTA_CT_SREG = 3, 4
NFTA_CMP_SREG, NFTA_CMP_OP, NFTA_CMP_DATA = 1, 2, 3
NFT_CMP_EQ, NFT_CMP_NEQ = 0, 1
NFTA_BITWISE_SREG, NFTA_BITWISE_DREG, NFTA_BITWISE_MASK, NFTA_BITWISE_XOR = 1, 2, 4, 5
NFTA_PAYLOAD_DREG, NFTA_PAYLOAD_BASE, NFTA_PAYLOAD_OFFSET, NFTA_PAYLOAD_LEN, NFTA_PAYLOAD_SREG = (
    1,
    2,
    3,
    4,
    5,
)
NFT_PAYLOAD_LL_HEADER, NFT_PAYLOAD_NETWORK_HEADER = 0, 1
NFTA_LOOKUP_SET, NFTA_LOOKUP_SREG, NFTA_LOOKUP_DREG, NFTA_LOOKUP_FLAGS = 1, 2, 3, 5
NFT_LOOKUP_F_INV = 1
NFTA_LIMIT_RATE, NFTA_LIMIT_UNIT, NFTA_LIMIT_TYPE, NFTA_LIMIT_FLAGS = 1, 2, 4, 5
NFT_LIMIT_F_INV = 1
NFTA_IMMEDIATE_DREG, NFTA_IMMEDIATE_DATA = 1, 2
NFTA_DATA_VALUE, NFTA_DATA_VERDICT = 1, 2
NFTA_VERDICT_CODE, NFTA_VERDICT_CHAIN = 1, 2
NFT_REG_VERDICT = 0
NFTA_MATCH_NAME, NFTA_MATCH_REV, NFTA_MATCH_INFO = 1, 2, 3
NFTA_EXTHDR_TYPE, NFTA_EXTHDR_OP, NFTA_EXTHDR_SREG = 2, 6, 7
NFT_EXTHDR_OP_TCPOPT, TCPOPT_MAXSEG = 1, 2
NFTA_LIST_ELEM = 1
NFTA_SET_ELEM_LIST_ELEMENTS = 3
NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_DATA, NFTA_SET_ELEM_FLAGS, NFTA_SET_ELEM_KEY_END = 1, 2, 3, 10
NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL = 1, 2

META_FIELDS = {
    4: "in index",
    5: "out index",
    6: "in",
    7: "out",
    17: "bridge_in",
    18: "bridge_out",
    1: "ether type",
    3: "mark",
    15: "family",
    16: "protocol",
}
"""NFT_META_* → what is compared."""
CT_FIELDS = {0: "state", 2: "status", 3: "mark"}
"""NFT_CT_*"""
NF_QUEUE = 3
VERDICTS = {
    0: "drop",
    1: "accept",
    NF_QUEUE: "unknown",
    -1: "",
    -2: "",
    -3: "jump",
    -4: "goto",
    -5: "return",
}
"""NF_* and NFT_*."""
DECIDING_EXPRESSIONS = ("queue", "fwd", "tproxy", "synproxy", "masq", "redir", "nat")
"""Expressions that may end a rule in another way."""
PASSING_EXPRESSIONS = ("counter", "log", "notrack", "last", "dup")
"""Expressions that neither compare nor decide."""
FAMILIES = {nftables.NFPROTO_IPV4: "ipv4", nftables.NFPROTO_IPV6: "ipv6"}
ETHER_TYPES = {0x0800: "ipv4", 0x86DD: "ipv6", 0x0806: "arp"}
STATES = {0x01: "invalid", 0x02: "established", 0x04: "related", 0x08: "new", 0x40: "untracked"}
"""NF_CT_STATE_BIT"""
NAT_STATUS = {0x10: "snat", 0x20: "dnat"}
"""IPS_SRC_NAT, IPS_DST_NAT"""
ADDRESS_FIELDS = {
    (12, 4): "source",
    (16, 4): "destination",
    (8, 16): "source",
    (24, 16): "destination",
}
"""(offset in the IP header, length of the whole address)"""
ETHER_TYPE_FIELD = (12, 2)
PROTOCOL_FIELDS = ((9, 1), (6, 1))
"""Protocol of IPv4, next header of IPv6."""
MAX_ELEMENTS = 64
"""Of one set; a set with more is not understood."""

Elements = Sequence[tuple[bytes, str, str]]
"""(key, verdict, target) of each element of a set; no verdict: not a verdict map."""
Expression = tuple[str, dict[int, bytes]]
"""Name and attributes."""
Sets = Mapping[str, Elements]
"""By name."""


def _constant(what: str, value: bytes) -> tuple[str, str] | None:
    """(what, name) of a value that has one; None: it is not known."""
    if what == "family":
        name = FAMILIES.get(value[0] if value else 0)
    elif what == "ether type":
        what, name = "family", ETHER_TYPES.get(int.from_bytes(value, "big"))
    elif what == "state":
        name = STATES.get(int.from_bytes(value, sys.byteorder))
    else:
        name = None
    if name is None:
        return None
    return what, name


class Loaded(NamedTuple):
    """What a register holds."""

    what: str
    """As `FilterCondition.what`, or the name of something that is not understood."""
    size: int = 0
    """Bytes of an address."""
    mask: bytes | None = None
    """Bits of it that are left."""


UNKNOWN = Loaded("other")


def rule_fields(body: bytes) -> dict[int, bytes]:
    """Attributes of a rule."""
    return dict(iter_attributes(body[nftables.NFGENMSG.size :]))


def is_of_chain(fields: Mapping[int, bytes], table: str, chain: str) -> bool:
    """The rule is in this chain."""
    found = (
        text(fields.get(kind, b"")) for kind in (nftables.NFTA_RULE_TABLE, nftables.NFTA_RULE_CHAIN)
    )
    return tuple(found) == (table, chain)


def expressions_of(fields: Mapping[int, bytes]) -> list[Expression]:
    """The expressions of a rule, in their order."""
    found: list[Expression] = []
    for kind, element in iter_attributes(fields.get(NFTA_RULE_EXPRESSIONS, b"")):
        if kind == NFTA_LIST_ELEM:
            parts = dict(iter_attributes(element))
            name = text(parts.get(NFTA_EXPR_NAME, b""))
            found.append((name, dict(iter_attributes(parts.get(NFTA_EXPR_DATA, b"")))))
    return found


def sets_of(expressions: Iterable[Expression]) -> list[str]:
    """Names of the sets that a rule looks up."""
    return [
        text(fields.get(NFTA_LOOKUP_SET, b"")) for name, fields in expressions if name == "lookup"
    ]


def rules_of(
    expressions: Iterable[Expression], names: Mapping[int, str], sets: Sets
) -> tuple[FilterRule, ...]:
    """A rule; one with a verdict map gives one for each of its elements. `names`: of links by
    ifindex. `sets`: elements of the sets of its table; one that is missing is not understood."""
    parser = _RuleParser(names, sets)
    for name, fields in expressions:
        parser.take(name, fields)
    return parser.rules()


def parse_rule(body: bytes, names: Mapping[int, str], sets: Sets) -> tuple[FilterRule, ...]:
    """A message with a rule; see `rules_of`."""
    return rules_of(expressions_of(rule_fields(body)), names, sets)


def parse_elements(bodies: Iterable[bytes]) -> Elements | None:
    """Elements of a set (NFT_MSG_NEWSETELEM); None: there are ranges among them, or too many."""
    found: list[tuple[bytes, str, str]] = []
    for body in bodies:
        fields = dict(iter_attributes(body[nftables.NFGENMSG.size :]))
        for _, element in iter_attributes(fields.get(NFTA_SET_ELEM_LIST_ELEMENTS, b"")):
            parts = dict(iter_attributes(element))
            key = dict(iter_attributes(parts.get(NFTA_SET_ELEM_KEY, b""))).get(NFTA_DATA_VALUE)
            is_range = (
                nftables.number(parts.get(NFTA_SET_ELEM_FLAGS)) or NFTA_SET_ELEM_KEY_END in parts
            )
            if key is None or is_range or len(found) >= MAX_ELEMENTS:
                return None
            data = dict(iter_attributes(parts.get(NFTA_SET_ELEM_DATA, b"")))
            found.append((key, *_verdict(data.get(NFTA_DATA_VERDICT))))
    return tuple(found)


def _verdict(value: bytes | None) -> tuple[str, str]:
    """(verdict, target) of NFTA_DATA_VERDICT."""
    if value is None:
        return "", ""
    fields = dict(iter_attributes(value))
    if NFTA_VERDICT_CODE not in fields:
        return "unknown", ""
    code = nftables.signed(fields[NFTA_VERDICT_CODE])
    verdict = VERDICTS.get(code, "unknown")
    if code == NF_QUEUE:
        return verdict, "queue"
    if verdict in ("jump", "goto"):
        return verdict, text(fields.get(NFTA_VERDICT_CHAIN, b""))
    return verdict, ""


class _RuleParser:
    """Follows the registers through the expressions of one rule."""

    def __init__(self, names: Mapping[int, str], sets: Sets) -> None:
        self.names, self.sets = names, sets
        self.registers: dict[int | None, Loaded] = {}
        self.unused = 0
        """Values loaded since the last comparison: two are compared together."""
        self.conditions: list[FilterCondition] = []
        self.verdict, self.target = "", ""
        self.packets: int | None = None
        self.conditions_before_counter = 0
        self.branches: list[tuple[FilterCondition, str, str]] = []
        """Of a verdict map."""

    def rules(self) -> tuple[FilterRule, ...]:
        counts_all = (
            len(self.conditions) > self.conditions_before_counter
        )  # ``counter tcp dport 22 drop``
        packets = None if counts_all else self.packets
        whole = FilterRule(self.verdict, self.target, tuple(self.conditions), packets)
        if not self.branches:
            return (whole,)
        return tuple(
            replace(
                whole,
                verdict=verdict,
                target=target,
                conditions=(*whole.conditions, condition),
                packets=None,
            )
            for condition, verdict, target in self.branches
        )

    def take(self, name: str, fields: Mapping[int, bytes]) -> None:
        """The next expression."""
        step = STEPS.get(name)
        if step is not None:
            step(self, fields)
        elif name in DECIDING_EXPRESSIONS:
            self.verdict, self.target = "unknown", name
        elif name not in PASSING_EXPRESSIONS:
            self._other(name)

    def _other(self, name: str) -> None:
        """An expression that may compare or decide something."""
        self.conditions.append(FilterCondition("other", (name,)))
        self.registers.clear()  # it may have loaded something into one
        self.unused = 0

    def _load(self, fields: Mapping[int, bytes], register: int, value: Loaded) -> None:
        self.registers[nftables.number(fields.get(register))] = value
        self.unused += 1

    def meta(self, fields: Mapping[int, bytes]) -> None:
        if NFTA_META_SREG not in fields:  # otherwise it sets a value
            key = nftables.number(fields.get(KEY)) or 0
            self._load(fields, DREG, Loaded(META_FIELDS.get(key, "other")))

    def ct(self, fields: Mapping[int, bytes]) -> None:
        if NFTA_CT_SREG not in fields:
            self._load(
                fields, DREG, Loaded(CT_FIELDS.get(nftables.number(fields.get(KEY)) or 0, "other"))
            )

    def payload(self, fields: Mapping[int, bytes]) -> None:
        if NFTA_PAYLOAD_SREG not in fields:
            self._load(fields, NFTA_PAYLOAD_DREG, _payload_field(fields))

    def bitwise(self, fields: Mapping[int, bytes]) -> None:
        source = self.registers.get(nftables.number(fields.get(NFTA_BITWISE_SREG)), UNKNOWN)
        mask = _value(fields.get(NFTA_BITWISE_MASK))
        xor = _value(fields.get(NFTA_BITWISE_XOR))
        result = UNKNOWN
        if mask is not None and source.mask is None and not any(xor or b""):
            result = source._replace(mask=mask)
        self.registers[nftables.number(fields.get(NFTA_BITWISE_DREG))] = result

    def cmp(self, fields: Mapping[int, bytes]) -> None:
        loaded = self.registers.get(nftables.number(fields.get(NFTA_CMP_SREG)), UNKNOWN)
        operator, value = (
            nftables.number(fields.get(NFTA_CMP_OP)) or 0,
            _value(fields.get(NFTA_CMP_DATA)),
        )
        condition = None
        if value is not None and operator in (NFT_CMP_EQ, NFT_CMP_NEQ):
            condition = self._compared(loaded, value, operator == NFT_CMP_NEQ)
        self.conditions.append(condition or FilterCondition("other", (loaded.what,)))
        self.unused = 0

    def _compared(self, loaded: Loaded, value: bytes, negated: bool) -> FilterCondition | None:
        if loaded.what == "mark":
            return FilterCondition("mark", (), negated if any(value) else not negated)
        if loaded.mask is not None and loaded.what in ("state", "status"):
            if any(value):
                return None
            return _bits(loaded.what, loaded.mask, not negated)
        found = self._named(loaded, value)
        if found is None:
            return None
        what, name = found
        return FilterCondition(what, (name,), negated)

    def _named(self, loaded: Loaded, value: bytes) -> tuple[str, str] | None:
        """(what, value as text) of a comparison for equality."""
        if loaded.what in ("source", "destination"):
            return _prefix(loaded, value)
        if loaded.mask is not None:
            return None
        if loaded.what in ("in", "out", "bridge_in", "bridge_out"):
            name = text(value)
            if b"\0" not in value:
                name += "*"
            return loaded.what, name
        if loaded.what in ("in index", "out index"):
            index = int.from_bytes(value, sys.byteorder)
            return loaded.what.split(" ")[0], self.names.get(index, f"ifindex {index}")
        if loaded.what == "protocol":
            return loaded.what, protocol_name(value[0]) if len(value) == 1 else "?"
        return _constant(loaded.what, value)

    def lookup(self, fields: Mapping[int, bytes]) -> None:
        loaded = self.registers.get(nftables.number(fields.get(NFTA_LOOKUP_SREG)), UNKNOWN)
        is_single = self.unused <= 1
        self.unused = 0
        elements: Elements = []
        if is_single:
            elements = self.sets.get(text(fields.get(NFTA_LOOKUP_SET, b""))) or []
        named = [found for found in (self._named(loaded, one[0]) for one in elements) if found]
        is_known = bool(elements) and len(named) == len(elements)
        is_map, result = NFTA_LOOKUP_DREG in fields, nftables.number(fields.get(NFTA_LOOKUP_DREG))
        if result not in (NFT_REG_VERDICT, None):
            self.registers[result] = UNKNOWN
            self.conditions.append(FilterCondition("other", ("map",)))
            return
        if not is_known:
            self.conditions.append(FilterCondition("other", ("set",)))
            if is_map:
                self.verdict, self.target = "unknown", "verdict map"
            return
        if is_map:
            for (_, verdict, target), (what, value) in zip(elements, named):
                self.branches.append((FilterCondition(what, (value,)), verdict, target))
            return
        flags = nftables.number(fields.get(NFTA_LOOKUP_FLAGS)) or 0
        values = tuple(value for _, value in named)
        is_inverted = bool(flags & NFT_LOOKUP_F_INV)
        self.conditions.append(FilterCondition(named[0][0], values, is_inverted))

    def immediate(self, fields: Mapping[int, bytes]) -> None:
        data = dict(iter_attributes(fields.get(NFTA_IMMEDIATE_DATA, b"")))
        if NFTA_DATA_VERDICT in data:
            self.verdict, self.target = _verdict(data[NFTA_DATA_VERDICT])

    def counter(self, fields: Mapping[int, bytes]) -> None:
        self.packets = nftables.number(fields.get(nftables.COUNTER_PACKETS)) or 0
        self.conditions_before_counter = len(self.conditions)

    def reject(self, _: Mapping[int, bytes]) -> None:
        self.verdict, self.target = "reject", ""

    def limit(self, fields: Mapping[int, bytes]) -> None:
        rate, seconds = (
            nftables.number(fields.get(kind)) or 1 for kind in (NFTA_LIMIT_RATE, NFTA_LIMIT_UNIT)
        )
        unit = "bytes/s" if nftables.number(fields.get(NFTA_LIMIT_TYPE)) else "packets/s"
        over = (nftables.number(fields.get(NFTA_LIMIT_FLAGS)) or 0) & NFT_LIMIT_F_INV
        self.conditions.append(FilterCondition("limit", (f"{rate / seconds:g} {unit}",), not over))

    def match(self, fields: Mapping[int, bytes]) -> None:
        name = text(fields.get(NFTA_MATCH_NAME, b""))
        revision = nftables.number(fields.get(NFTA_MATCH_REV)) or 0
        self.conditions += conditions_of_match(name, revision, fields.get(NFTA_MATCH_INFO, b""))

    def rt(self, fields: Mapping[int, bytes]) -> None:
        self._load(fields, DREG, UNKNOWN)

    def exthdr(self, fields: Mapping[int, bytes]) -> None:
        """``tcp option maxseg size set …`` neither compares nor decides."""
        kind, operation = (
            nftables.number(fields.get(one)) for one in (NFTA_EXTHDR_TYPE, NFTA_EXTHDR_OP)
        )
        is_written = NFTA_EXTHDR_SREG in fields and operation == NFT_EXTHDR_OP_TCPOPT
        if not is_written or kind != TCPOPT_MAXSEG:
            self._other("exthdr")
        elif not self.verdict:
            self.target = MSS_TARGET

    def target_of_xtables(self, fields: Mapping[int, bytes]) -> None:
        self.verdict, self.target = verdict_of_target(text(fields.get(NFTA_MATCH_NAME, b"")))


STEPS = {
    "meta": _RuleParser.meta,
    "ct": _RuleParser.ct,
    "payload": _RuleParser.payload,
    "bitwise": _RuleParser.bitwise,
    "cmp": _RuleParser.cmp,
    "lookup": _RuleParser.lookup,
    "immediate": _RuleParser.immediate,
    "counter": _RuleParser.counter,
    "reject": _RuleParser.reject,
    "limit": _RuleParser.limit,
    "match": _RuleParser.match,
    "target": _RuleParser.target_of_xtables,
    "rt": _RuleParser.rt,
    "exthdr": _RuleParser.exthdr,
}
"""Name of an expression → what it does; any other is a condition that is not understood."""


def _value(attribute: bytes | None) -> bytes | None:
    """NFTA_DATA_VALUE of a nested attribute."""
    return dict(iter_attributes(attribute or b"")).get(NFTA_DATA_VALUE)


def _payload_field(fields: Mapping[int, bytes]) -> Loaded:
    """What a part of a header is: an address, or as much of it as its prefix has whole bytes; the
    EtherType."""
    base, offset = (
        nftables.number(fields.get(NFTA_PAYLOAD_BASE)),
        nftables.number(fields.get(NFTA_PAYLOAD_OFFSET)),
    )
    length = nftables.number(fields.get(NFTA_PAYLOAD_LEN)) or 0
    if base == NFT_PAYLOAD_LL_HEADER and (offset, length) == ETHER_TYPE_FIELD:
        return Loaded("ether type")
    if base == NFT_PAYLOAD_NETWORK_HEADER:
        for (start, size), what in ADDRESS_FIELDS.items():
            if offset == start and 0 < length <= size:
                return Loaded(what, size)
        if (offset, length) in PROTOCOL_FIELDS:
            return Loaded("protocol")
    return UNKNOWN


def _prefix(loaded: Loaded, value: bytes) -> tuple[str, str] | None:
    """``10.244.0.0/16``: the address or prefix that is compared."""
    mask = loaded.mask
    if mask is None:
        mask = b"\xff" * len(value)
    if len(mask) != len(value) or len(value) > loaded.size:
        return None
    bits = "".join(f"{byte:08b}" for byte in mask)
    length = len(bits.partition("0")[0])
    if "1" in bits[length:]:
        return None
    family = socket.AF_INET if loaded.size == 4 else socket.AF_INET6
    return loaded.what, f"{socket.inet_ntop(family, value.ljust(loaded.size, bytes(1)))}/{length}"


def _bits(what: str, mask: bytes, negated: bool) -> FilterCondition | None:
    """The condition that one of the bits is set; `negated`: none of them."""
    names = {"state": STATES, "status": NAT_STATUS}[what]
    number = int.from_bytes(mask, sys.byteorder)
    if not number or number & ~sum(names):
        return None
    found = tuple(name for bit, name in names.items() if number & bit)
    if what == "status":
        return FilterCondition("nat", found, negated)
    return FilterCondition("state", found, negated)
