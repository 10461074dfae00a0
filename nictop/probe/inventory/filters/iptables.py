"""Tables of iptables-legacy and ip6tables-legacy: FORWARD of filter and POSTROUTING of nat, and the
chains they call.

getsockopt(2) with IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES (linux/netfilter_ipv4/ip_tables.h,
ip6_tables.h), which need CAP_NET_ADMIN. They load a table that does not exist yet: nothing is
requested unless /proc/net/ip_tables_names lists it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from nictop.probe.inventory.filters.xtables import (
    conditions_of_match,
    interface,
    protocol_name,
    verdict_of_target,
)
from nictop.probe.kernel.netlink import text
from nictop.probe.kernel.sysfs import read_text, unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import FilterCondition, FilterRule, PacketChain, Unreadable

TABLES = (("filter", "forward", 2, "FORWARD"), ("nat", "nat", 4, "POSTROUTING"))
"""(table, `PacketChain.hook`, NF_INET_FORWARD or NF_INET_POST_ROUTING, name of the base chain)"""
SO_GET_INFO, SO_GET_ENTRIES = 64, 65
"""IPT_SO_GET_INFO and IP6T_SO_GET_INFO are equal, and so are GET_ENTRIES."""
NAME = struct.Struct("=32s")
INFO = struct.Struct("=32sI5I5III")
"""struct ipt_getinfo: name, valid hooks, entry and underflow of each hook, number of entries, their
size."""
GET_ENTRIES_SIZE = struct.Struct("=32sI")
GET_ENTRIES_HEADER = 40
"""struct ipt_get_entries: name, size, then the entries, aligned to 8 bytes."""
MAX_TABLE_BYTES = 4 * 1024 * 1024
MAX_RULES = 2000
"""That a forwarded packet can come to."""
MATCH_HEADER = struct.Struct("=H29sB")
"""struct xt_entry_match and xt_entry_target: size, name, revision."""
MATCH_HEADER_SIZE = 32
INVERTED_IN, INVERTED_OUT, INVERTED_SOURCE, INVERTED_DESTINATION, INVERTED_PROTOCOL = (
    0x01,
    0x02,
    0x08,
    0x10,
    0x40,
)
FLAG_FRAGMENT = 0x01
QUEUE_VERDICT = -4
VERDICTS = {-1: "drop", -2: "accept", QUEUE_VERDICT: "unknown", -5: "return"}
"""-NF_DROP - 1, -NF_ACCEPT - 1, -NF_QUEUE - 1, XT_RETURN"""


class Layout(NamedTuple):
    """Where the fields of struct ipt_entry or ip6t_entry are."""

    family: str
    level: int
    domain: int
    address_size: int
    names: int
    """Offset of the interface names, after the addresses and masks."""
    protocol: int
    flags: int
    inverted: int
    target_offset: int
    counters: int
    size: int
    goto: int
    """IPT_F_GOTO or IP6T_F_GOTO"""


IPV4 = Layout("ip", socket.IPPROTO_IP, socket.AF_INET, 4, 16, 80, 82, 83, 88, 96, 112, 0x02)
IPV6 = Layout(
    "ip6", socket.IPPROTO_IPV6, socket.AF_INET6, 16, 64, 128, 131, 132, 140, 152, 168, 0x04
)


class TableRule(NamedTuple):
    """One rule of the table."""

    offset: int
    next: int
    """Offset of the entry after it."""
    conditions: tuple[FilterCondition, ...]
    verdict: str
    target: str
    jump: int | None
    """Offset to which it jumps."""
    packets: int
    chain: str
    """It begins the chain of this name (target ERROR); "": a rule."""


def read_iptables_chains(
    proc: str = "/proc",
) -> tuple[tuple[PacketChain, ...], dict[str, Unreadable]]:
    """Chains of both families, and why they are missing. Never raises OSError."""
    found: list[PacketChain] = []
    unreadable: dict[str, Unreadable] = {}
    for source, file, layout in (
        ("iptables", "ip_tables_names", IPV4),
        ("ip6tables", "ip6_tables_names", IPV6),
    ):
        names = read_text(os.path.join(proc, "net", file))
        if isinstance(names, Unreadable):
            if names.reason != "missing":
                unreadable[source] = names
            continue
        for table, *_ in TABLES:
            chains = _read_table(layout, table) if table in names.split() else ()
            if isinstance(chains, Unreadable):
                unreadable[source if table == "filter" else f"{source}_{table}"] = chains
            else:
                found += chains
    return tuple(found), unreadable


def _read_table(layout: Layout, table: str) -> tuple[PacketChain, ...] | Unreadable:
    try:
        with socket.socket(layout.domain, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as requests:
            info = _getsockopt(
                requests, layout.level, SO_GET_INFO, NAME.pack(table.encode()), INFO.size
            )
            size = INFO.unpack(info)[-1]
            if size > MAX_TABLE_BYTES:
                return Unreadable(
                    "failed", f"table of more than {MAX_TABLE_BYTES // 1024 // 1024} MiB"
                )
            header = GET_ENTRIES_SIZE.pack(table.encode(), size)
            whole = _getsockopt(
                requests, layout.level, SO_GET_ENTRIES, header, GET_ENTRIES_HEADER + size
            )
    except OSError as error:
        return unreadable_from_error(error, "iptables")
    except ImportError:
        return Unreadable("failed", "this Python has no ctypes")
    found = parse_table(layout.family, table, info, whole[GET_ENTRIES_HEADER:])
    return Unreadable("malformed", "iptables") if found is None else found


def _getsockopt(
    requests: socket.socket, level: int, option: int, request: bytes, size: int
) -> bytes:
    """getsockopt(2) whose buffer has a request in it; that of Python has none. Raises OSError and
    ImportError."""
    import ctypes

    buffer = ctypes.create_string_buffer(request, size)
    length = ctypes.c_uint32(size)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(requests.fileno(), level, option, buffer, ctypes.byref(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return buffer.raw[: length.value]


def parse_table(
    family: str, table: str, info: bytes, entries: bytes
) -> tuple[PacketChain, ...] | Unreadable | None:
    """The chain of `TABLES` and the chains that it calls; `family`: ip or ip6. None: malformed."""
    number, base = next((one[2:] for one in TABLES if one[0] == table), TABLES[0][2:])
    layout = IPV6 if family == IPV6.family else IPV4
    if len(info) < INFO.size:
        return None
    fields = INFO.unpack_from(info)
    hooks, start, end = fields[1], fields[2 + number], fields[7 + number]
    if not hooks & 1 << number:
        return ()
    by_offset = {entry.offset: entry for entry in iter_entries(layout, entries)}
    names = {entry.next: entry.chain for entry in by_offset.values() if entry.chain}
    names[start] = base
    policy = by_offset.get(end)
    if policy is None or policy.verdict not in ("accept", "drop"):
        return None
    chains = _called_chains(by_offset, names, start, end)
    if not isinstance(chains, dict):
        return chains
    found = []
    for offset, own in chains.items():
        rules = [_rule(entry, names) for entry in own]
        own_policy = policy if offset == start else None
        found.append(_record(layout, table, names[offset], rules, own_policy))
    return tuple(found)


def _called_chains(
    by_offset: dict[int, TableRule], names: dict[int, str], start: int, end: int
) -> dict[int, list[TableRule]] | Unreadable | None:
    """Offset of a chain → its rules: of the base chain, which ends at `end`, and of those that it
    calls. None: one that is called does not exist."""
    chains: dict[int, list[TableRule]] = {}
    count = 0
    waiting = [start]
    while waiting:
        offset = waiting.pop(0)
        if offset in chains:
            continue
        if offset not in names:
            return None
        rules = _chain_rules(by_offset, offset, end if offset == start else None)
        count += len(rules)
        if count > MAX_RULES:
            return Unreadable("failed", f"more than {MAX_RULES} rules")
        if offset != start:
            rules = rules[:-1]  # the last one of a chain is its return
        chains[offset] = rules
        waiting += _jumps(rules)
    return chains


def _jumps(rules: list[TableRule]) -> list[int]:
    return [rule.jump for rule in rules if rule.jump is not None]


def _record(
    layout: Layout, table: str, name: str, rules: list[FilterRule], policy: TableRule | None
) -> PacketChain:
    """`policy`: of the base chain."""
    chain = PacketChain(
        backend="iptables", family=layout.family, table=table, name=name, rules=tuple(rules)
    )
    if policy is None:
        return chain
    hook = next((one[1] for one in TABLES if one[0] == table), "")
    return replace(chain, hook=hook, policy=policy.verdict, packets=policy.packets)


def _rule(entry: TableRule, names: dict[int, str]) -> FilterRule:
    target = entry.target
    if entry.jump is not None:
        target = names.get(entry.jump, "")
    return FilterRule(entry.verdict, target, entry.conditions, entry.packets)


def _chain_rules(entries: dict[int, TableRule], start: int, end: int | None) -> list[TableRule]:
    """Entries from `start` to the policy at `end`, or to the next chain."""
    found: list[TableRule] = []
    offset = start
    while offset != end and len(found) <= MAX_RULES + 1:
        entry = entries.get(offset)
        if entry is None or entry.chain:
            break
        found.append(entry)
        offset = entry.next
    return found


def iter_entries(layout: Layout, data: bytes) -> Iterator[TableRule]:
    """The entries of a table; stops at the first that does not fit."""
    offset = 0
    while offset + layout.size <= len(data):
        target_offset, next_offset = struct.unpack_from("=HH", data, offset + layout.target_offset)
        end = offset + next_offset
        if not layout.size <= target_offset <= next_offset - MATCH_HEADER_SIZE or end > len(data):
            return
        yield _entry(layout, data, offset, offset + target_offset, end)
        offset = end


def _entry(layout: Layout, data: bytes, offset: int, target: int, end: int) -> TableRule:
    conditions = (
        *_packet_conditions(layout, data, offset),
        *_match_conditions(data, offset + layout.size, target),
    )
    packets = struct.unpack_from("=Q", data, offset + layout.counters)[0]
    name = text(MATCH_HEADER.unpack_from(data, target)[1])
    value = data[target + MATCH_HEADER_SIZE : end]
    verdict, unknown, jump, chain = "", "", None, ""
    if name == "ERROR":
        chain = text(value) or "ERROR"
    elif name:
        verdict, unknown = verdict_of_target(name)
    else:
        code = struct.unpack_from("=i", value)[0] if len(value) >= 4 else QUEUE_VERDICT
        if code == QUEUE_VERDICT:
            verdict, unknown = VERDICTS.get(code, "unknown"), "queue"
        elif code < 0:
            verdict = VERDICTS.get(code, "unknown")
        elif code != end:  # otherwise a rule without a target: the next one follows
            jump, verdict = code, "goto" if data[offset + layout.flags] & layout.goto else "jump"
    return TableRule(offset, end, conditions, verdict, unknown, jump, packets, chain)


def _match_conditions(data: bytes, position: int, end: int) -> Iterator[FilterCondition]:
    """Of the struct xt_entry_match of a rule."""
    while position + MATCH_HEADER_SIZE <= end:
        size, name, revision = MATCH_HEADER.unpack_from(data, position)
        if size < MATCH_HEADER_SIZE or position + size > end:
            yield FilterCondition("other", ("malformed",))
            return
        content = data[position + MATCH_HEADER_SIZE : position + size]
        yield from conditions_of_match(text(name), revision, content)
        position += size


def _packet_conditions(layout: Layout, data: bytes, offset: int) -> Iterator[FilterCondition]:
    """struct ipt_ip or ip6t_ip6: addresses, interfaces, protocol."""
    inverted, size = data[offset + layout.inverted], layout.address_size
    addresses = [data[offset + size * index : offset + size * (index + 1)] for index in range(4)]
    for what, value, mask, flag in (
        ("source", addresses[0], addresses[2], INVERTED_SOURCE),
        ("destination", addresses[1], addresses[3], INVERTED_DESTINATION),
    ):
        if any(mask):
            yield _address_condition(layout, what, value, mask, bool(inverted & flag))
    names = [data[offset + layout.names + 16 * index :][:16] for index in range(4)]
    for what, name, mask, flag in (
        ("in", names[0], names[2], INVERTED_IN),
        ("out", names[1], names[3], INVERTED_OUT),
    ):
        wanted = interface(name, mask)
        if wanted:
            yield FilterCondition(what, (wanted,), bool(inverted & flag))
    protocol = struct.unpack_from("=H", data, offset + layout.protocol)[0]
    if protocol:
        yield FilterCondition(
            "protocol", (protocol_name(protocol),), bool(inverted & INVERTED_PROTOCOL)
        )
    if layout is IPV4 and data[offset + layout.flags] & FLAG_FRAGMENT:
        yield FilterCondition("other", ("fragment",))


def _address_condition(
    layout: Layout, what: str, value: bytes, mask: bytes, negated: bool
) -> FilterCondition:
    bits = "".join(f"{byte:08b}" for byte in mask)
    length = len(bits.partition("0")[0])
    if "1" in bits[length:]:
        return FilterCondition("other", (what,))
    return FilterCondition(what, (f"{socket.inet_ntop(layout.domain, value)}/{length}",), negated)
