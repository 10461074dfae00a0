"""Attributes of the generic netlink family ``ethtool`` → records. Pure.

Each parser takes the attributes of one reply (linux/ethtool_netlink.h; attribute 1 is the header
with the device). A missing attribute, or one of the wrong size, is None.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Literal

from nictop.probe.inventory.links.messages import flag, named, number
from nictop.probe.kernel.netlink import iter_attributes, text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import (
    Channels,
    Eee,
    Feature,
    Fec,
    LinkSettings,
    LinkState,
    Pause,
    Rings,
    Rss,
)

Attributes = Mapping[int, bytes]
Names = Sequence[str]
"""A string set: bit number or index → name."""

PORTS = {0: "tp", 1: "aui", 2: "mii", 3: "fibre", 4: "bnc", 5: "da", 0xEF: "none", 0xFF: "other"}
DUPLEXES: dict[int, Literal["half", "full"]] = {0: "half", 1: "full"}
TRANSCEIVERS = {0: "internal", 1: "external"}
UNKNOWN_SPEEDS = (None, 0, 0xFFFF, 0xFFFFFFFF)
EXTENDED_STATES = dict(
    enumerate(
        (
            "autoneg",
            "link training failure",
            "link logical mismatch",
            "bad signal integrity",
            "no cable",
            "cable issue",
            "EEPROM issue",
            "calibration failure",
            "power budget exceeded",
            "overheat",
            "module",
        )
    )
)
TCP_DATA_SPLITS = ("unknown", "disabled", "enabled")
"""ETHTOOL_TCP_DATA_SPLIT_*"""
FEC_MODES = {49: "Off", 50: "RS", 51: "BASER", 74: "LLRS"}
"""Bits of ETHTOOL_LINK_MODE_FEC_*."""
COALESCING = (
    "rx-usecs",
    "rx-frames",
    "rx-usecs-irq",
    "rx-frames-irq",
    "tx-usecs",
    "tx-frames",
    "tx-usecs-irq",
    "tx-frames-irq",
    "stats-block-usecs",
    "adaptive-rx",
    "adaptive-tx",
    "pkt-rate-low",
    "rx-usecs-low",
    "rx-frame-low",
    "tx-usecs-low",
    "tx-frame-low",
    "pkt-rate-high",
    "rx-usecs-high",
    "rx-frame-high",
    "tx-usecs-high",
    "tx-frame-high",
    "sample-interval",
    "cqe-mode-tx",
    "cqe-mode-rx",
    "tx-aggr-max-bytes",
    "tx-aggr-max-frames",
    "tx-aggr-time-usecs",
)
"""Names of ``ethtool -c`` in the order of ETHTOOL_A_COALESCE_*, from
ETHTOOL_A_COALESCE_RX_USECS."""

ETHTOOL_A_BITSET_BITS, ETHTOOL_A_BITSET_VALUE, ETHTOOL_A_BITSET_MASK = 3, 4, 5
ETHTOOL_A_BITSET_BIT_NAME, ETHTOOL_A_BITSET_BIT_VALUE = 2, 3
ETHTOOL_A_STRSET_STRINGSETS = 2
ETHTOOL_A_STRINGSET_ID, ETHTOOL_A_STRINGSET_COUNT, ETHTOOL_A_STRINGSET_STRINGS = 1, 2, 3
ETHTOOL_A_STRING_INDEX, ETHTOOL_A_STRING_VALUE = 1, 2
ETHTOOL_A_LINKINFO_PORT, ETHTOOL_A_LINKINFO_TRANSCEIVER = 2, 6
ETHTOOL_A_LINKMODES_AUTONEG, ETHTOOL_A_LINKMODES_OURS, ETHTOOL_A_LINKMODES_PEER = 2, 3, 4
ETHTOOL_A_LINKMODES_SPEED, ETHTOOL_A_LINKMODES_DUPLEX, ETHTOOL_A_LINKMODES_LANES = 5, 6, 9
ETHTOOL_A_LINKSTATE_LINK, ETHTOOL_A_LINKSTATE_EXT_STATE, ETHTOOL_A_LINKSTATE_EXT_DOWN_CNT = 2, 5, 7
(
    ETHTOOL_A_FEATURES_HW,
    ETHTOOL_A_FEATURES_WANTED,
    ETHTOOL_A_FEATURES_ACTIVE,
    ETHTOOL_A_FEATURES_NOCHANGE,
) = 2, 3, 4, 5
ETHTOOL_A_PRIVFLAGS_FLAGS = 2
(
    ETHTOOL_A_RINGS_RX_MAX,
    ETHTOOL_A_RINGS_RX_MINI_MAX,
    ETHTOOL_A_RINGS_RX_JUMBO_MAX,
    ETHTOOL_A_RINGS_TX_MAX,
) = 2, 3, 4, 5
ETHTOOL_A_RINGS_RX, ETHTOOL_A_RINGS_RX_MINI, ETHTOOL_A_RINGS_RX_JUMBO, ETHTOOL_A_RINGS_TX = (
    6,
    7,
    8,
    9,
)
ETHTOOL_A_RINGS_RX_BUF_LEN, ETHTOOL_A_RINGS_TCP_DATA_SPLIT = 10, 11
ETHTOOL_A_CHANNELS_RX_MAX, ETHTOOL_A_CHANNELS_TX_MAX, ETHTOOL_A_CHANNELS_OTHER_MAX = 2, 3, 4
ETHTOOL_A_CHANNELS_COMBINED_MAX, ETHTOOL_A_CHANNELS_RX_COUNT, ETHTOOL_A_CHANNELS_TX_COUNT = 5, 6, 7
ETHTOOL_A_CHANNELS_OTHER_COUNT, ETHTOOL_A_CHANNELS_COMBINED_COUNT = 8, 9
ETHTOOL_A_COALESCE_RX_USECS = 2
ETHTOOL_A_PAUSE_AUTONEG, ETHTOOL_A_PAUSE_RX, ETHTOOL_A_PAUSE_TX, ETHTOOL_A_PAUSE_STATS = 2, 3, 4, 5
ETHTOOL_A_PAUSE_STAT_TX_FRAMES, ETHTOOL_A_PAUSE_STAT_RX_FRAMES = 2, 3
ETHTOOL_A_FEC_MODES, ETHTOOL_A_FEC_AUTO, ETHTOOL_A_FEC_ACTIVE = 2, 3, 4
(
    ETHTOOL_A_EEE_ACTIVE,
    ETHTOOL_A_EEE_ENABLED,
    ETHTOOL_A_EEE_TX_LPI_ENABLED,
    ETHTOOL_A_EEE_TX_LPI_TIMER,
) = 4, 5, 6, 7
ETHTOOL_A_RSS_HFUNC, ETHTOOL_A_RSS_INDIR, ETHTOOL_A_RSS_HKEY = 3, 4, 5

FEATURE_BITSETS = (
    ETHTOOL_A_FEATURES_HW,
    ETHTOOL_A_FEATURES_WANTED,
    ETHTOOL_A_FEATURES_ACTIVE,
    ETHTOOL_A_FEATURES_NOCHANGE,
)
RING_FIELDS = {
    "max_rx": ETHTOOL_A_RINGS_RX_MAX,
    "max_rx_mini": ETHTOOL_A_RINGS_RX_MINI_MAX,
    "max_rx_jumbo": ETHTOOL_A_RINGS_RX_JUMBO_MAX,
    "max_tx": ETHTOOL_A_RINGS_TX_MAX,
    "rx": ETHTOOL_A_RINGS_RX,
    "rx_mini": ETHTOOL_A_RINGS_RX_MINI,
    "rx_jumbo": ETHTOOL_A_RINGS_RX_JUMBO,
    "tx": ETHTOOL_A_RINGS_TX,
    "rx_buffer_length": ETHTOOL_A_RINGS_RX_BUF_LEN,
}
"""Field of `Rings` → attribute."""
CHANNEL_FIELDS = {
    "max_rx": ETHTOOL_A_CHANNELS_RX_MAX,
    "max_tx": ETHTOOL_A_CHANNELS_TX_MAX,
    "max_other": ETHTOOL_A_CHANNELS_OTHER_MAX,
    "max_combined": ETHTOOL_A_CHANNELS_COMBINED_MAX,
    "rx": ETHTOOL_A_CHANNELS_RX_COUNT,
    "tx": ETHTOOL_A_CHANNELS_TX_COUNT,
    "other": ETHTOOL_A_CHANNELS_OTHER_COUNT,
    "combined": ETHTOOL_A_CHANNELS_COMBINED_COUNT,
}
"""Field of `Channels` → attribute."""


def parse_bitset(value: bytes | None) -> tuple[int, int]:
    """(value, mask) of a compact bitset as integers, bit 0 lowest; without a mask it equals the
    value."""
    found = dict(iter_attributes(value or b""))
    bits = words_as_integer(found.get(ETHTOOL_A_BITSET_VALUE, b""))
    if ETHTOOL_A_BITSET_MASK not in found:
        return bits, bits
    return bits, words_as_integer(found[ETHTOOL_A_BITSET_MASK])


def words_as_integer(value: bytes) -> int:
    """u32 words in host byte order, least significant word first, as one integer."""
    result = 0
    for index, (word,) in enumerate(struct.iter_unpack("=I", value[: len(value) & ~3])):
        result |= word << (32 * index)
    return result


def bit_names(bits: int, names: Names) -> tuple[str, ...]:
    """Names of the bits that are set; ``bit N`` for a bit without name."""
    result = []
    bit = 0
    while bits:
        if bits & 1:
            name = names[bit] if bit < len(names) else ""
            result.append(name or f"bit {bit}")
        bits >>= 1
        bit += 1
    return tuple(result)


def parse_string_sets(attributes: Attributes) -> dict[int, tuple[str, ...]]:
    """String set id → strings, of a reply to ETHTOOL_MSG_STRSET_GET."""
    sets = {}
    for _, entry in iter_attributes(attributes.get(ETHTOOL_A_STRSET_STRINGSETS, b"")):
        found = dict(iter_attributes(entry))
        identity, count = (
            number(found, ETHTOOL_A_STRINGSET_ID),
            number(found, ETHTOOL_A_STRINGSET_COUNT),
        )
        if identity is None or count is None:
            continue
        strings: dict[int, str] = {}
        for _, item in iter_attributes(found.get(ETHTOOL_A_STRINGSET_STRINGS, b"")):
            pair = dict(iter_attributes(item))
            index = number(pair, ETHTOOL_A_STRING_INDEX)
            if index is not None:
                strings[index] = text(pair.get(ETHTOOL_A_STRING_VALUE, b""))
        sets[identity] = tuple(strings.get(index, "") for index in range(min(count, len(strings))))
    return sets


def parse_link_info(attributes: Attributes) -> LinkSettings:
    """ETHTOOL_MSG_LINKINFO_GET: port and transceiver; `parse_link_modes` adds the other fields."""
    return LinkSettings(
        speed=None,
        duplex=None,
        autonegotiation=None,
        port=named(attributes, ETHTOOL_A_LINKINFO_PORT, PORTS),
        transceiver=named(attributes, ETHTOOL_A_LINKINFO_TRANSCEIVER, TRANSCEIVERS),
    )


def parse_link_modes(
    attributes: Attributes, names: Names, info: LinkSettings | None
) -> LinkSettings:
    """ETHTOOL_MSG_LINKMODES_GET: `info` with speed, duplex, autonegotiation and the sets of link
    modes."""
    advertised, supported = parse_bitset(attributes.get(ETHTOOL_A_LINKMODES_OURS))
    partner, _ = parse_bitset(attributes.get(ETHTOOL_A_LINKMODES_PEER))
    autonegotiation = number(attributes, ETHTOOL_A_LINKMODES_AUTONEG)
    duplex = number(attributes, ETHTOOL_A_LINKMODES_DUPLEX)
    return replace(
        info or LinkSettings(None, None, None, None, None),
        autonegotiation=None if autonegotiation is None else autonegotiation == 1,
        speed=known_speed(number(attributes, ETHTOOL_A_LINKMODES_SPEED)),
        duplex=None if duplex is None else DUPLEXES.get(duplex),
        lanes=number(attributes, ETHTOOL_A_LINKMODES_LANES) or None,
        supported=mode_names(supported, names),
        advertised=mode_names(advertised & supported, names),
        partner=mode_names(partner, names),
    )


def known_speed(speed: int | None) -> int | None:
    """Mb/s; None for the values by which drivers report an unknown speed: 0, SPEED_UNKNOWN, and its
    lower 16 bits."""
    if speed in UNKNOWN_SPEEDS:
        return None
    return speed


def mode_names(bits: int, names: Names) -> tuple[str, ...]:
    """Names of link modes; without the ports, pause and FEC of the same bit set, whose names have
    no ``base``."""
    return tuple(
        name for name in bit_names(bits, names) if "base" in name or name.startswith("bit ")
    )


def parse_link_state(attributes: Attributes) -> LinkState:
    """ETHTOOL_MSG_LINKSTATE_GET."""
    return LinkState(
        flag(attributes, ETHTOOL_A_LINKSTATE_LINK),
        named(attributes, ETHTOOL_A_LINKSTATE_EXT_STATE, EXTENDED_STATES),
        number(attributes, ETHTOOL_A_LINKSTATE_EXT_DOWN_CNT),
    )


def parse_features(attributes: Attributes, names: Names) -> tuple[Feature, ...]:
    """ETHTOOL_MSG_FEATURES_GET: one record for each name of the string set ETH_SS_FEATURES."""
    hardware, wanted, active, never_changed = (
        parse_bitset(attributes.get(kind))[0] for kind in FEATURE_BITSETS
    )
    return feature_list(names, hardware, wanted, active, never_changed)


def feature_list(
    names: Names, hardware: int, wanted: int, active: int, never_changed: int
) -> tuple[Feature, ...]:
    """Features from four bit sets, which netlink and ioctl have in common."""
    changeable = hardware & ~never_changed
    return tuple(
        Feature(name, bool(active >> bit & 1), bool(wanted >> bit & 1), not changeable >> bit & 1)
        for bit, name in enumerate(names)
        if name
    )


def parse_private_flags(attributes: Attributes) -> dict[str, bool]:
    """ETHTOOL_MSG_PRIVFLAGS_GET without ETHTOOL_FLAG_COMPACT_BITSETS: each bit with its name."""
    flags = {}
    bitset = dict(iter_attributes(attributes.get(ETHTOOL_A_PRIVFLAGS_FLAGS, b"")))
    for _, entry in iter_attributes(bitset.get(ETHTOOL_A_BITSET_BITS, b"")):
        found = dict(iter_attributes(entry))
        name = text(found.get(ETHTOOL_A_BITSET_BIT_NAME, b""))
        if name:
            flags[name] = ETHTOOL_A_BITSET_BIT_VALUE in found
    return flags


def parse_rings(attributes: Attributes) -> Rings:
    """ETHTOOL_MSG_RINGS_GET."""
    split = number(attributes, ETHTOOL_A_RINGS_TCP_DATA_SPLIT)
    data_split = None
    if split is not None and split < len(TCP_DATA_SPLITS):
        data_split = TCP_DATA_SPLITS[split]
    return Rings(
        **{field: number(attributes, kind) for field, kind in RING_FIELDS.items()},
        tcp_data_split=data_split,
    )


def parse_channels(attributes: Attributes) -> Channels:
    """ETHTOOL_MSG_CHANNELS_GET."""
    return Channels(**{field: number(attributes, kind) for field, kind in CHANNEL_FIELDS.items()})


def parse_coalescing(attributes: Attributes) -> dict[str, int]:
    """ETHTOOL_MSG_COALESCE_GET: the parameters that the driver supports, and those that are not
    zero."""
    values = (
        (name, number(attributes, kind))
        for kind, name in enumerate(COALESCING, ETHTOOL_A_COALESCE_RX_USECS)
    )
    return {name: value for name, value in values if value is not None}


def parse_pause(attributes: Attributes) -> Pause:
    """ETHTOOL_MSG_PAUSE_GET with ETHTOOL_FLAG_STATS."""
    statistics = dict(iter_attributes(attributes.get(ETHTOOL_A_PAUSE_STATS, b"")))
    return Pause(
        autonegotiation=bool(number(attributes, ETHTOOL_A_PAUSE_AUTONEG)),
        rx=bool(number(attributes, ETHTOOL_A_PAUSE_RX)),
        tx=bool(number(attributes, ETHTOOL_A_PAUSE_TX)),
        rx_frames=number(statistics, ETHTOOL_A_PAUSE_STAT_RX_FRAMES),
        tx_frames=number(statistics, ETHTOOL_A_PAUSE_STAT_TX_FRAMES),
    )


def parse_fec(attributes: Attributes) -> Fec:
    """ETHTOOL_MSG_FEC_GET."""
    modes, _ = parse_bitset(attributes.get(ETHTOOL_A_FEC_MODES))
    active = number(attributes, ETHTOOL_A_FEC_ACTIVE)
    return Fec(
        configured=tuple(name for bit, name in FEC_MODES.items() if modes >> bit & 1),
        automatic=bool(number(attributes, ETHTOOL_A_FEC_AUTO)),
        active=None if active is None else FEC_MODES.get(active, f"bit {active}"),
    )


def parse_eee(attributes: Attributes) -> Eee:
    """ETHTOOL_MSG_EEE_GET."""
    return Eee(
        enabled=bool(number(attributes, ETHTOOL_A_EEE_ENABLED)),
        active=bool(number(attributes, ETHTOOL_A_EEE_ACTIVE)),
        tx_low_power=flag(attributes, ETHTOOL_A_EEE_TX_LPI_ENABLED),
        tx_timer=number(attributes, ETHTOOL_A_EEE_TX_LPI_TIMER),
    )


def parse_rss(attributes: Attributes, names: Names) -> Rss:
    """ETHTOOL_MSG_RSS_GET of the default context; `names`: the string set ETH_SS_RSS_HASH_FUNCS."""
    key = attributes.get(ETHTOOL_A_RSS_HKEY)
    functions = bit_names(number(attributes, ETHTOOL_A_RSS_HFUNC) or 0, names)
    table = attributes.get(ETHTOOL_A_RSS_INDIR, b"")
    return Rss(
        indirection=struct.unpack_from(f"={len(table) // 4}I", table),
        hash_function=functions[0] if functions else None,
        key_length=len(key) if key else None,
    )
