"""What the generic netlink family ``ethtool`` says, from attributes to records. Pure: nothing is read here.

Takes the attributes of one reply each (linux/ethtool_netlink.h; attribute 1 is the header that names the device).
An attribute that is absent or of a wrong size counts as "not said".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.netlink import iterate, text
from nictop.probe.records import Channels, Eee, Feature, Fec, LinkSettings, LinkState, Pause, Rings, Rss

Attributes = Mapping[int, bytes]
Names = Sequence[str]
"""A string set: bit or index → name."""

PORTS = {0: "tp", 1: "aui", 2: "mii", 3: "fibre", 4: "bnc", 5: "da", 0xEF: "none", 0xFF: "other"}
DUPLEXES: dict[int, Literal["half", "full"]] = {0: "half", 1: "full"}
TRANSCEIVERS = {0: "internal", 1: "external"}
UNKNOWN_SPEEDS = (None, 0, 0xFFFF, 0xFFFFFFFF)
EXTENDED_STATES = (
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
DATA_SPLITS = ("unknown", "disabled", "enabled")
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
"""Names of ``ethtool -c`` for the attributes ETHTOOL_A_COALESCE_*, which begin with 2."""


def parse_bitset(value: bytes | None) -> tuple[int, int]:
    """(value, mask) of a compact bitset as integers, bit 0 first; without mask both are the list itself."""
    found = dict(iterate(value or b""))
    bits = words_as_integer(found.get(4, b""))
    mask = words_as_integer(found[5]) if 5 in found else bits
    return bits, mask


def words_as_integer(value: bytes) -> int:
    """u32 words in host order, lowest first, as one integer."""
    result = 0
    for position, (word,) in enumerate(struct.iter_unpack("=I", value[: len(value) & ~3])):
        result |= word << (32 * position)
    return result


def bit_names(bits: int, names: Names) -> tuple[str, ...]:
    """Names of the bits that are set; a bit without a name reads ``bit N``."""
    result = []
    position = 0
    while bits:
        if bits & 1:
            name = names[position] if position < len(names) else ""
            result.append(name or f"bit {position}")
        bits >>= 1
        position += 1
    return tuple(result)


def parse_string_sets(attributes: Attributes) -> dict[int, tuple[str, ...]]:
    """String set id → strings, of a reply to STRSET_GET."""
    sets = {}
    for _, entry in iterate(attributes.get(2, b"")):
        found = dict(iterate(entry))
        identity, count = number(found, 1), number(found, 2)
        if identity is None or count is None:
            continue
        strings: dict[int, str] = {}
        for _, item in iterate(found.get(3, b"")):
            pair = dict(iterate(item))
            index = number(pair, 1)
            if index is not None:
                strings[index] = text(pair.get(2, b""))
        sets[identity] = tuple(strings.get(index, "") for index in range(min(count, len(strings))))
    return sets


def parse_link_info(attributes: Attributes) -> LinkSettings:
    """LINKINFO: port and transceiver; the rest is for `parse_link_modes`."""
    port, transceiver = number(attributes, 2), number(attributes, 6)
    return LinkSettings(
        speed=None,
        duplex=None,
        autonegotiation=None,
        port=None if port is None else PORTS.get(port, f"unknown {port}"),
        transceiver=None if transceiver is None else TRANSCEIVERS.get(transceiver, f"unknown {transceiver}"),
    )


def parse_link_modes(attributes: Attributes, names: Names, info: LinkSettings | None) -> LinkSettings:
    """LINKMODES: speed, duplex, autonegotiation and the sets of modes, on top of what LINKINFO said."""
    advertised, supported = parse_bitset(attributes.get(3))
    partner, _ = parse_bitset(attributes.get(4))
    autonegotiation, duplex = number(attributes, 2), number(attributes, 6)
    return replace(
        info or LinkSettings(None, None, None, None, None),
        autonegotiation=None if autonegotiation is None else autonegotiation == 1,
        speed=known_speed(number(attributes, 5)),
        duplex=None if duplex is None else DUPLEXES.get(duplex),
        lanes=number(attributes, 9) or None,
        supported=mode_names(supported, names),
        advertised=mode_names(advertised & supported, names),
        partner=mode_names(partner, names),
    )


def known_speed(speed: int | None) -> int | None:
    """Mb/s; None for what drivers say when they do not know: 0, SPEED_UNKNOWN, and that cut to 16 bits."""
    return None if speed in UNKNOWN_SPEEDS else speed


def mode_names(bits: int, names: Names) -> tuple[str, ...]:
    """Link modes only: the same bit set also carries ports, pause and FEC, whose names have no ``base``."""
    return tuple(name for name in bit_names(bits, names) if "base" in name or name.startswith("bit "))


def parse_link_state(attributes: Attributes) -> LinkState:
    """LINKSTATE."""
    link, extended = number(attributes, 2), number(attributes, 5)
    if extended is None:
        state = None
    else:
        state = EXTENDED_STATES[extended] if extended < len(EXTENDED_STATES) else f"unknown {extended}"
    return LinkState(None if link is None else link != 0, state, number(attributes, 7))


def parse_features(attributes: Attributes, names: Names) -> tuple[Feature, ...]:
    """FEATURES: one for each name of the string set ``features``."""
    hardware, _ = parse_bitset(attributes.get(2))
    wanted, _ = parse_bitset(attributes.get(3))
    active, _ = parse_bitset(attributes.get(4))
    never_changed, _ = parse_bitset(attributes.get(5))
    return feature_list(names, hardware, wanted, active, never_changed)


def feature_list(names: Names, hardware: int, wanted: int, active: int, never_changed: int) -> tuple[Feature, ...]:
    """Features from the four bit sets that netlink and ioctl share."""
    changeable = hardware & ~never_changed
    return tuple(
        Feature(name, bool(active >> bit & 1), bool(wanted >> bit & 1), not changeable >> bit & 1)
        for bit, name in enumerate(names)
        if name
    )


def parse_private_flags(attributes: Attributes) -> dict[str, bool]:
    """PRIVFLAGS, asked for without the compact flag, so that each bit brings its name."""
    flags = {}
    bitset = dict(iterate(attributes.get(2, b"")))
    for _, entry in iterate(bitset.get(3, b"")):
        found = dict(iterate(entry))
        name = text(found.get(2, b""))
        if name:
            flags[name] = 3 in found
    return flags


def parse_rings(attributes: Attributes) -> Rings:
    """RINGS."""
    split = number(attributes, 11)
    return Rings(
        max_rx=number(attributes, 2),
        max_rx_mini=number(attributes, 3),
        max_rx_jumbo=number(attributes, 4),
        max_tx=number(attributes, 5),
        rx=number(attributes, 6),
        rx_mini=number(attributes, 7),
        rx_jumbo=number(attributes, 8),
        tx=number(attributes, 9),
        rx_buffer_length=number(attributes, 10),
        tcp_data_split=DATA_SPLITS[split] if split is not None and split < len(DATA_SPLITS) else None,
    )


def parse_channels(attributes: Attributes) -> Channels:
    """CHANNELS."""
    return Channels(
        max_rx=number(attributes, 2),
        max_tx=number(attributes, 3),
        max_other=number(attributes, 4),
        max_combined=number(attributes, 5),
        rx=number(attributes, 6),
        tx=number(attributes, 7),
        other=number(attributes, 8),
        combined=number(attributes, 9),
    )


def parse_coalescing(attributes: Attributes) -> dict[str, int]:
    """COALESCE: the kernel sends what the driver supports, and what is not zero."""
    values = ((name, number(attributes, kind)) for kind, name in enumerate(COALESCING, 2))
    return {name: value for name, value in values if value is not None}


def parse_pause(attributes: Attributes) -> Pause:
    """PAUSE, asked for with statistics."""
    statistics = dict(iterate(attributes.get(5, b"")))
    return Pause(
        autonegotiation=bool(number(attributes, 2)),
        rx=bool(number(attributes, 3)),
        tx=bool(number(attributes, 4)),
        rx_frames=number(statistics, 3),
        tx_frames=number(statistics, 2),
    )


def parse_fec(attributes: Attributes) -> Fec:
    """FEC."""
    modes, _ = parse_bitset(attributes.get(2))
    active = number(attributes, 4)
    return Fec(
        configured=tuple(name for bit, name in FEC_MODES.items() if modes >> bit & 1),
        automatic=bool(number(attributes, 3)),
        active=None if active is None else FEC_MODES.get(active, f"bit {active}"),
    )


def parse_eee(attributes: Attributes) -> Eee:
    """EEE."""
    low_power = number(attributes, 6)
    return Eee(
        enabled=bool(number(attributes, 5)),
        active=bool(number(attributes, 4)),
        tx_low_power=None if low_power is None else low_power != 0,
        tx_timer=number(attributes, 7),
    )


def parse_rss(attributes: Attributes, names: Names) -> Rss:
    """RSS of the default context; `names` is the string set of hash functions."""
    key = attributes.get(5)
    functions = bit_names(number(attributes, 3) or 0, names)
    table = attributes.get(4, b"")
    return Rss(
        indirection=struct.unpack_from(f"={len(table) // 4}I", table),
        hash_function=functions[0] if functions else None,
        key_length=len(key) if key else None,
    )
