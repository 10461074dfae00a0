"""Matches and targets of xtables → `FilterCondition`s and a verdict. Pure.

iptables-legacy has them in its table, iptables-nft in expressions "match" and "target". Sources:
linux/netfilter/x_tables.h, xt_conntrack.h, xt_state.h, xt_physdev.h, xt_mark.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nictop.probe.kernel.netlink import text
from nictop.probe.records import FilterCondition

IFNAMSIZ = 16
CONNTRACK_FLAGS = struct.Struct("=HH")
CONNTRACK_FLAGS_OFFSET = 8 * 16 + 2 * 4 + 2 + 4 * 2
"""struct xt_conntrack_mtinfo1 to 3: eight addresses, expires_min and _max, l4proto, four ports."""
CONNTRACK_STATE, CONNTRACK_STATUS, CONNTRACK_STATE_ALIAS = 0x1, 0x40, 0x2000
CONNECTION_STATES = {
    "invalid": 0x01,
    "established": 0x02,
    "related": 0x04,
    "new": 0x08,
    "snat": 0x40,
    "dnat": 0x80,
    "untracked": 0x100,
}
"""XT_CONNTRACK_STATE_*; revision 1 has a mask of 8 bits."""
NAT_BITS = CONNECTION_STATES["snat"] | CONNECTION_STATES["dnat"]
STATE_UNTRACKED = 1 << 6
"""XT_STATE_UNTRACKED: other than in conntrack."""
PHYSDEV_IN, PHYSDEV_OUT, PHYSDEV_BRIDGED = 0x01, 0x02, 0x04
PHYSDEV_FLAGS = struct.Struct("=BB")

PROTOCOL_NAMES = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6"}
NO_CONDITIONS = ("comment",)
"""Matches that are always true."""
RATE_MATCHES = ("limit", "hashlimit", "connlimit", "quota", "statistic")
PASSING_TARGETS = (
    *(
        "LOG",
        "NFLOG",
        "ULOG",
        "MARK",
        "CONNMARK",
        "CLASSIFY",
        "TCPMSS",
        "TTL",
        "HL",
        "DSCP",
        "TOS",
        "TRACE",
        "SET",
    ),
    *(
        "CHECKSUM",
        "NOTRACK",
        "CT",
        "ECN",
        "AUDIT",
        "SECMARK",
        "CONNSECMARK",
        "RATEEST",
        "LED",
        "IDLETIMER",
        "TEE",
    ),
)
"""Targets after which the next rule decides (XT_CONTINUE)."""
MSS_TARGET = "TCPMSS"
"""It reduces the MSS in packets with SYN: what they announce fits the path."""


def conditions_of_match(name: str, revision: int, data: bytes) -> Iterator[FilterCondition]:
    """The conditions of one match; one that is not known is "other"."""
    if name in NO_CONDITIONS:
        return
    found = None
    if name in MATCHES:
        found = MATCHES[name](revision, data)
    if found is not None:
        yield from found
    elif name in RATE_MATCHES:
        yield FilterCondition("limit", (name,))
    else:
        yield FilterCondition("other", (name,))


def verdict_of_target(name: str) -> tuple[str, str]:
    """(verdict, what is unknown) of a target that is not a standard one."""
    if name == "REJECT":
        return "reject", ""
    if name not in PASSING_TARGETS:
        return "unknown", name
    if name == MSS_TARGET:
        return "", name
    return "", ""


def protocol_name(number: int) -> str:
    return PROTOCOL_NAMES.get(number, str(number))


def interface(name: bytes, mask: bytes) -> str:
    """An interface name of xtables: ``br0``, ``tap*``; "": any."""
    length = next((position for position, byte in enumerate(mask) if not byte), len(mask))
    if not length:
        return ""
    begins_with = length <= len(text(name).encode()) and length < IFNAMSIZ
    return f"{text(name[:length])}*" if begins_with else text(name)


def _conntrack(revision: int, data: bytes) -> list[FilterCondition] | None:
    end = CONNTRACK_FLAGS_OFFSET + CONNTRACK_FLAGS.size
    if revision not in (1, 2, 3) or len(data) < end + 4:
        return None
    flags, inverted = CONNTRACK_FLAGS.unpack_from(data, CONNTRACK_FLAGS_OFFSET)
    states = data[end]
    if revision > 1:
        states = struct.unpack_from("=H", data, end)[0]
    flags &= ~CONNTRACK_STATE_ALIAS
    found: list[FilterCondition] = []
    if flags & CONNTRACK_STATE:
        found += _states(states, bool(inverted & CONNTRACK_STATE))
    if flags & ~CONNTRACK_STATE:
        found.append(FilterCondition("other", ("conntrack",)))
    return found


def _states(mask: int, negated: bool) -> Iterator[FilterCondition]:
    names = tuple(
        name for name, bit in CONNECTION_STATES.items() if mask & bit and not bit & NAT_BITS
    )
    nat = tuple(name for name, bit in CONNECTION_STATES.items() if mask & bit & NAT_BITS)
    if names and nat:  # one of both
        yield FilterCondition("other", ("conntrack",))
    elif names:
        yield FilterCondition("state", names, negated)
    elif nat:
        yield FilterCondition("nat", nat, negated)
    else:
        yield FilterCondition("other", ("conntrack",))


def _state(_: int, data: bytes) -> list[FilterCondition] | None:
    """struct xt_state_info."""
    if len(data) < 4:
        return None
    mask = struct.unpack_from("=I", data)[0]
    names = []
    for name in ("invalid", "established", "related", "new"):
        if mask & CONNECTION_STATES[name]:
            names.append(name)
    if mask & STATE_UNTRACKED:
        names.append("untracked")
    if not names:
        return None
    return [FilterCondition("state", tuple(names))]


def _physdev(_: int, data: bytes) -> list[FilterCondition] | None:
    """struct xt_physdev_info."""
    if len(data) < 4 * IFNAMSIZ + PHYSDEV_FLAGS.size:
        return None
    names = [data[start : start + IFNAMSIZ] for start in range(0, 4 * IFNAMSIZ, IFNAMSIZ)]
    inverted, wanted = PHYSDEV_FLAGS.unpack_from(data, 4 * IFNAMSIZ)
    if wanted & ~(PHYSDEV_IN | PHYSDEV_OUT | PHYSDEV_BRIDGED):
        return None
    found = []
    for flag, what, name, mask in (
        (PHYSDEV_IN, "port_in", names[0], names[1]),
        (PHYSDEV_OUT, "port_out", names[2], names[3]),
    ):
        if wanted & flag:
            found.append(FilterCondition(what, (interface(name, mask),), bool(inverted & flag)))
    if wanted & PHYSDEV_BRIDGED:
        found.append(FilterCondition("bridged", (), bool(inverted & PHYSDEV_BRIDGED)))
    return found


def _mark(revision: int, data: bytes) -> list[FilterCondition] | None:
    """struct xt_mark_mtinfo1: mark, mask, invert."""
    if revision != 1 or len(data) < 9:
        return None
    mark, mask, inverted = struct.unpack_from("=IIB", data)
    if not mark or not mask:
        return None
    return [FilterCondition("mark", (), bool(inverted))]


MATCHES = {"conntrack": _conntrack, "state": _state, "physdev": _physdev, "mark": _mark}
