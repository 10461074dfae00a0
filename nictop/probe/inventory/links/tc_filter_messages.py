"""RTM_NEWTFILTER (linux/pkt_cls.h, linux/pkt_sched.h) → `TcFilter`. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.inventory.links.qdisc_messages import (
    SCHEDULER_TICK_SECONDS,
    TC_RATESPEC,
    TCMSG,
    rate_spec,
)
from nictop.probe.kernel.netlink import iter_attributes, text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TcAction, TcFilter

TCA_KIND, TCA_OPTIONS, TCA_STATS = 1, 2, 3
ACTIONS_OF_KIND = {
    "u32": 7,
    "flower": 3,
    "matchall": 2,
    "bpf": 1,
    "basic": 3,
    "fw": 4,
    "cgroup": 1,
    "flow": 13,
}
"""TCA_*_ACT"""
POLICE_OF_KIND = {"u32": 6, "bpf": 2, "fw": 2}
"""TCA_*_POLICE: a policer that is no action, from old programs and ``tc filter … police``; its
statistics are those of the message (tcf_exts_dump_stats)."""
TC_STATS = struct.Struct("=QII")
"""Begin of struct tc_stats: bytes, packets, drops."""
TCA_U32_SEL, TCA_BPF_NAME = 5, 7
TC_U32_SEL = struct.Struct("=BBBxHHhhI")
TC_U32_KEY = struct.Struct("=IIii")
"""struct tc_u32_key: mask, value, offset, mask of the offset."""
TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_ACT_STATS = 1, 2, 4
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_PKT64 = 1, 3, 8
GNET_STATS_BASIC = struct.Struct("=QI")
GNET_STATS_QUEUE = struct.Struct("=IIIII")
TCA_POLICE_TBF, TCA_POLICE_RATE64 = 1, 8
TC_POLICE_HEAD = struct.Struct("=IiIII")
"""struct tc_police: index, verdict above the rate, limit, burst in ticks, MTU; then the rates."""
TCA_GACT_PARMS, TCA_MIRRED_PARMS = 2, 2
TC_GEN = struct.Struct("=IIiii")
"""tc_gen of every action: index, capabilities, verdict, two reference counts."""
TC_MIRRED_TARGET = struct.Struct("=iI")
VERDICTS = {
    -1: "continue",
    0: "pass",
    1: "reclassify",
    2: "drop",
    3: "pipe",
    4: "stolen",
    5: "queued",
    7: "redirect",
}
"""TC_ACT_*"""
PROTOCOLS = {0x0003: "all", 0x0800: "ip", 0x86DD: "ipv6", 0x0806: "arp", 0x8100: "802.1Q"}
MAX_ACTIONS = 32
"""TCA_ACT_MAX_PRIO"""


def parse_filter(payload: bytes, hook: str) -> TcFilter | None:
    """A filter; None: malformed, or the head of a list of filters, which does nothing."""
    if len(payload) < TCMSG.size:
        return None
    info = TCMSG.unpack_from(payload)[4]
    found = dict(iter_attributes(payload[TCMSG.size :]))
    kind, options = (
        text(found.get(TCA_KIND, b"")),
        dict(iter_attributes(found.get(TCA_OPTIONS, b""))),
    )
    if not kind or not options:
        return None
    is_node = kind == "u32" and TCA_U32_SEL not in options
    if is_node:
        return None
    protocol = int.from_bytes(struct.pack("=H", info & 0xFFFF), "big")
    tc_filter = TcFilter(
        hook="egress" if hook == "egress" else "ingress",
        kind=kind,
        protocol=PROTOCOLS.get(protocol, f"0x{protocol:04x}"),
        priority=info >> 16,
        matches_all=kind == "matchall",
        name="",
        actions=tuple(parse_actions(options, kind, found.get(TCA_STATS, b""))),
    )
    if kind == "u32":
        return replace(tc_filter, matches_all=u32_matches_all(options[TCA_U32_SEL]))
    if kind == "bpf":
        return replace(tc_filter, name=text(options.get(TCA_BPF_NAME, b"")))
    return tc_filter


def u32_matches_all(value: bytes) -> bool:
    """Whether no key of struct tc_u32_sel compares any bit."""
    if len(value) < TC_U32_SEL.size:
        return False
    count = TC_U32_SEL.unpack_from(value)[2]
    if len(value) < TC_U32_SEL.size + count * TC_U32_KEY.size:
        return False
    keys = (
        TC_U32_KEY.unpack_from(value, TC_U32_SEL.size + index * TC_U32_KEY.size)
        for index in range(count)
    )
    return not any(mask for mask, _, _, _ in keys)


def parse_actions(options: Attributes, kind: str, statistics: bytes = b"") -> Iterator[TcAction]:
    """The actions of a filter of this kind, in their order. `statistics`: those of the filter,
    TCA_STATS."""
    police = options.get(POLICE_OF_KIND.get(kind, -1))
    if police is not None:
        yield parse_police(old_policer(statistics), dict(iter_attributes(police)))
    listed = list(iter_attributes(options.get(ACTIONS_OF_KIND.get(kind, -1), b"")))
    for _, value in listed[:MAX_ACTIONS]:
        fields = dict(iter_attributes(value))
        name = text(fields.get(TCA_ACT_KIND, b""))
        if not name:
            continue
        action = with_statistics(TcAction(name), fields.get(TCA_ACT_STATS, b""))
        if name in PARSERS:
            own_options = dict(iter_attributes(fields.get(TCA_ACT_OPTIONS, b"")))
            action = PARSERS[name](action, own_options)
        yield action


def old_policer(statistics: bytes) -> TcAction:
    if len(statistics) < TC_STATS.size:
        return TcAction("police")
    _, packets, dropped = TC_STATS.unpack_from(statistics)
    return TcAction("police", packets=packets, dropped=dropped)


def with_statistics(action: TcAction, statistics: bytes) -> TcAction:
    """TCA_ACT_STATS: packets, and drops."""
    found = dict(iter_attributes(statistics))
    basic, queue = found.get(TCA_STATS_BASIC, b""), found.get(TCA_STATS_QUEUE, b"")
    packets = number(found, TCA_STATS_PKT64)
    if packets is None and len(basic) >= GNET_STATS_BASIC.size:
        packets = GNET_STATS_BASIC.unpack_from(basic)[1]
    dropped = None
    if len(queue) >= GNET_STATS_QUEUE.size:
        dropped = GNET_STATS_QUEUE.unpack_from(queue)[2]
    return replace(action, packets=packets, dropped=dropped)


def parse_police(bare: TcAction, options: Attributes) -> TcAction:
    value = options.get(TCA_POLICE_TBF, b"")
    if len(value) < TC_POLICE_HEAD.size + TC_RATESPEC.size:
        return bare
    _, verdict, _, burst, _ = TC_POLICE_HEAD.unpack_from(value)
    action = replace(bare, verdict=VERDICTS.get(verdict, ""))
    spec = rate_spec(value[TC_POLICE_HEAD.size :], number(options, TCA_POLICE_RATE64))
    if spec is None or not spec[0]:
        return action
    rate = spec[0]
    return replace(action, rate=rate, burst=round(burst * SCHEDULER_TICK_SECONDS * rate / 8))


def parse_gact(bare: TcAction, options: Attributes) -> TcAction:
    value = options.get(TCA_GACT_PARMS, b"")
    if len(value) < TC_GEN.size:
        return bare
    return replace(bare, verdict=VERDICTS.get(TC_GEN.unpack_from(value)[2], ""))


def parse_mirred(bare: TcAction, options: Attributes) -> TcAction:
    value = options.get(TCA_MIRRED_PARMS, b"")
    if len(value) < TC_GEN.size + TC_MIRRED_TARGET.size:
        return bare
    _, target = TC_MIRRED_TARGET.unpack_from(value, TC_GEN.size)
    return replace(bare, verdict=VERDICTS.get(TC_GEN.unpack_from(value)[2], ""), target=target)


PARSERS = {"police": parse_police, "gact": parse_gact, "mirred": parse_mirred}
"""Kind of an action → parser of its options; of others only the statistics are known."""
