"""ioctl SIOCETHTOOL: for what ethtool netlink does not have, and for everything on kernels without
ethtool netlink.

Driver information, driver counters and their names are only here; link settings, rings, channels,
coalescing, pause, features, RSS and the module EEPROM are used before Linux 5.6 (RSS: before 6.3,
EEPROM: before 5.13). Each function takes a datagram socket and the name of a link, returns a record
and raises the kernel's OSError. Structures: linux/ethtool.h. Nothing here changes a setting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from array import array
from typing import Optional

from nictop.probe.inventory.ethtool.messages import (
    COALESCING,
    DUPLEXES,
    PORTS,
    TRANSCEIVERS,
    bit_names,
    feature_list,
    known_speed,
    mode_names,
    words_as_integer,
)
from nictop.probe.records import (
    Channels,
    DriverInfo,
    Feature,
    LinkSettings,
    LinkState,
    Pause,
    Rings,
    Rss,
)

SIOCETHTOOL = 0x8946
IFREQ = struct.Struct("16sP16x")

ETHTOOL_GDRVINFO, ETHTOOL_GLINK, ETHTOOL_GCOALESCE, ETHTOOL_GRINGPARAM, ETHTOOL_GPAUSEPARAM = (
    3,
    0x0A,
    0x0E,
    0x10,
    0x12,
)
ETHTOOL_GSTRINGS, ETHTOOL_GSTATS, ETHTOOL_GSSET_INFO, ETHTOOL_GFEATURES, ETHTOOL_GCHANNELS = (
    0x1B,
    0x1D,
    0x37,
    0x3A,
    0x3C,
)
ETHTOOL_GMODULEINFO, ETHTOOL_GMODULEEEPROM, ETHTOOL_GRSSH, ETHTOOL_GLINKSETTINGS = (
    0x42,
    0x43,
    0x46,
    0x4C,
)
ETH_SS_STATS, ETH_SS_FEATURES = 1, 4
ETHTOOL_GRXFH, UDP_V4_FLOW = 0x29, 0x02
RXH_IP, RXH_L4 = 0x10 | 0x20, 0x40 | 0x80
"""Bits of a receive flow hash: RXH_IP_SRC and RXH_IP_DST; RXH_L4_B_0_1 and RXH_L4_B_2_3 (the
ports)."""

HASH_FUNCTIONS = ("toeplitz", "xor", "crc32")
EXTRA_ENTRIES = 512
"""Added to the number of entries that the kernel reported: it copies as many as the driver has at
that time, without checking the size of the buffer, and ``ethtool -L`` between the two calls may add
the counters of a queue."""
MAX_EEPROM_BYTES = 1024
ETH_GSTRING_LEN = 32

LINK_MODE_NAMES = """
10baseT/Half 10baseT/Full 100baseT/Half 100baseT/Full 1000baseT/Half 1000baseT/Full Autoneg TP AUI
MII FIBRE BNC 10000baseT/Full Pause Asym_Pause 2500baseX/Full Backplane 1000baseKX/Full
10000baseKX4/Full 10000baseKR/Full 10000baseR_FEC 20000baseMLD2/Full 20000baseKR2/Full
40000baseKR4/Full 40000baseCR4/Full 40000baseSR4/Full 40000baseLR4/Full 56000baseKR4/Full
56000baseCR4/Full 56000baseSR4/Full 56000baseLR4/Full 25000baseCR/Full 25000baseKR/Full
25000baseSR/Full 50000baseCR2/Full 50000baseKR2/Full 100000baseKR4/Full 100000baseSR4/Full
100000baseCR4/Full 100000baseLR4_ER4/Full 50000baseSR2/Full 1000baseX/Full 10000baseCR/Full
10000baseSR/Full 10000baseLR/Full 10000baseLRM/Full 10000baseER/Full 2500baseT/Full 5000baseT/Full
None RS BASER 50000baseKR/Full 50000baseSR/Full 50000baseCR/Full 50000baseLR_ER_FR/Full
50000baseDR/Full 100000baseKR2/Full 100000baseSR2/Full 100000baseCR2/Full
100000baseLR2_ER2_FR2/Full 100000baseDR2/Full 200000baseKR4/Full 200000baseSR4/Full
200000baseLR4_ER4_FR4/Full 200000baseDR4/Full 200000baseCR4/Full 100baseT1/Full 1000baseT1/Full
400000baseKR8/Full 400000baseSR8/Full 400000baseLR8_ER8_FR8/Full 400000baseDR8/Full
400000baseCR8/Full LLRS
"""
LINK_MODES = tuple(LINK_MODE_NAMES.split())
"""ETHTOOL_LINK_MODE_* in the order of their bits, as of Linux 5.6: newer kernels report the names
themselves."""


def call(control: socket.socket, name: str, request: bytes, extra_bytes: int = 0) -> bytes:
    """One SIOCETHTOOL: the buffer, `request` and `extra_bytes` more bytes, as the kernel has
    overwritten it."""
    buffer = array("B", request + bytes(extra_bytes))
    fcntl.ioctl(control, SIOCETHTOOL, IFREQ.pack(os.fsencode(name)[:15], buffer.buffer_info()[0]))
    return buffer.tobytes()


def words(control: socket.socket, name: str, command: int, count: int) -> tuple[int, ...]:
    """The u32 values after the command in a structure that consists of u32 only."""
    return struct.unpack(
        f"={count}I", call(control, name, struct.pack("=I", command), 4 * count)[4:]
    )


def string(value: bytes) -> str:
    """A fixed-size string field up to its NUL."""
    return value.split(b"\0", 1)[0].decode("utf-8", "replace")


def read_driver(control: socket.socket, name: str) -> DriverInfo:
    """ETHTOOL_GDRVINFO."""
    return parse_driver(call(control, name, struct.pack("=I", ETHTOOL_GDRVINFO), 192))


def parse_driver(value: bytes) -> DriverInfo:
    """struct ethtool_drvinfo: driver, version, fw_version, bus_info."""
    return DriverInfo(
        string(value[4:36]), string(value[36:68]), string(value[68:100]), string(value[100:132])
    )


def read_udp_hash(control: socket.socket, name: str) -> tuple[str, ...]:
    """ETHTOOL_GRXFH: the fields by which UDP over IPv4 is hashed: ``addresses``, ``ports``,
    ``other``."""
    return parse_flow_hash(call(control, name, struct.pack("=II", ETHTOOL_GRXFH, UDP_V4_FLOW), 184))


def parse_flow_hash(value: bytes) -> tuple[str, ...]:
    """struct ethtool_rxnfc: command, flow type, RXH_* bits."""
    bits = struct.unpack_from("=Q", value, 8)[0] if len(value) >= 16 else 0
    fields = (("addresses", RXH_IP), ("ports", RXH_L4), ("other", ~(RXH_IP | RXH_L4)))
    return tuple(field for field, mask in fields if bits & mask)


def read_strings(control: socket.socket, name: str, string_set: int) -> tuple[str, ...]:
    """ETHTOOL_GSSET_INFO and ETHTOOL_GSTRINGS: the strings of a set, with leading spaces (vmxnet3
    indents)."""
    info = call(control, name, struct.pack("=IIQ", ETHTOOL_GSSET_INFO, 0, 1 << string_set), 4)
    if not struct.unpack_from("=Q", info, 8)[0]:
        return ()
    count = struct.unpack_from("=I", info, 16)[0]
    request = struct.pack("=III", ETHTOOL_GSTRINGS, string_set, 0)
    return parse_strings(call(control, name, request, (count + EXTRA_ENTRIES) * ETH_GSTRING_LEN))


def parse_strings(value: bytes) -> tuple[str, ...]:
    """struct ethtool_gstrings: command, string set, count; then strings of ETH_GSTRING_LEN
    bytes."""
    if len(value) < 12:
        return ()
    count = min(struct.unpack_from("=I", value, 8)[0], (len(value) - 12) // ETH_GSTRING_LEN)
    starts = range(12, 12 + count * ETH_GSTRING_LEN, ETH_GSTRING_LEN)
    return tuple(string(value[start : start + ETH_GSTRING_LEN]) for start in starts)


def read_driver_counters(
    control: socket.socket, name: str
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names and values of the driver's counters; empty when it has none.

    Read again when their number has changed in between, so that every value belongs to its name.
    """
    for _ in range(3):
        names = read_strings(control, name, ETH_SS_STATS)
        if not names:
            return (), ()
        request = struct.pack("=II", ETHTOOL_GSTATS, len(names))
        values = parse_driver_counters(
            call(control, name, request, (len(names) + EXTRA_ENTRIES) * 8)
        )
        if len(values) == len(names):
            return names, values
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def parse_driver_counters(value: bytes) -> tuple[int, ...]:
    """struct ethtool_stats: command, count; then u64 values."""
    if len(value) < 8:
        return ()
    count = min(struct.unpack_from("=I", value, 4)[0], (len(value) - 8) // 8)
    return struct.unpack_from(f"={count}Q", value, 8)


LINK_SETTINGS = struct.Struct("=IIBBBBBBBbB31x")
"""struct ethtool_link_settings up to its bit maps: command, speed, duplex, port, phy_address,
autoneg, mdio_support, eth_tp_mdix, eth_tp_mdix_ctrl, link_mode_masks_nwords, transceiver."""


def read_settings(control: socket.socket, name: str) -> LinkSettings:
    """ETHTOOL_GLINKSETTINGS: the first call returns the length of the bit maps (negated), the
    second the bit maps."""
    reply = call(control, name, struct.pack("=I", ETHTOOL_GLINKSETTINGS), LINK_SETTINGS.size - 4)
    count = -LINK_SETTINGS.unpack(reply)[9]
    if count <= 0:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    request = LINK_SETTINGS.pack(ETHTOOL_GLINKSETTINGS, *([0] * 8), count, 0)
    return parse_settings(call(control, name, request, 12 * count))


def parse_settings(value: bytes) -> LinkSettings:
    """struct ethtool_link_settings with its three bit maps: supported, advertised, partner."""
    if len(value) < LINK_SETTINGS.size:
        return LinkSettings(None, None, None, None, None)
    _, speed, duplex, port, _, autonegotiation, _, _, _, count, transceiver = (
        LINK_SETTINGS.unpack_from(value)
    )
    size = 4 * max(count, 0)
    starts = (LINK_SETTINGS.size + size * position for position in range(3))
    supported, advertised, partner = (
        words_as_integer(value[start : start + size]) for start in starts
    )
    return LinkSettings(
        speed=known_speed(speed),
        duplex=DUPLEXES.get(duplex),
        autonegotiation=autonegotiation == 1,
        port=PORTS.get(port, f"unknown {port}"),
        transceiver=TRANSCEIVERS.get(transceiver, f"unknown {transceiver}"),
        supported=mode_names(supported, LINK_MODES),
        advertised=mode_names(advertised, LINK_MODES),
        partner=mode_names(partner, LINK_MODES),
    )


def read_state(control: socket.socket, name: str) -> LinkState:
    """ETHTOOL_GLINK."""
    return LinkState(words(control, name, ETHTOOL_GLINK, 1)[0] != 0)


FourValues = tuple[Optional[int], Optional[int], Optional[int], Optional[int]]


def current_and_maximum(values: tuple[int, ...]) -> tuple[FourValues, FourValues]:
    """(current values, maxima) of four maxima followed by four current values; None where the
    maximum is 0."""
    a, b, c, d = (current if maximum else None for maximum, current in zip(values[:4], values[4:]))
    e, f, g, h = (maximum or None for maximum in values[:4])
    return (a, b, c, d), (e, f, g, h)


def read_rings(control: socket.socket, name: str) -> Rings:
    """ETHTOOL_GRINGPARAM; a type of ring with a maximum of 0 does not exist."""
    current, maxima = current_and_maximum(words(control, name, ETHTOOL_GRINGPARAM, 8))
    return Rings(*current, *maxima)


def read_channels(control: socket.socket, name: str) -> Channels:
    """ETHTOOL_GCHANNELS; a type of channel with a maximum of 0 does not exist."""
    current, maxima = current_and_maximum(words(control, name, ETHTOOL_GCHANNELS, 8))
    return Channels(*current, *maxima)


def read_coalescing(control: socket.socket, name: str) -> dict[str, int]:
    """ETHTOOL_GCOALESCE without zeros: a zero may also mean that the driver does not have the
    parameter."""
    return {
        key: value
        for key, value in zip(COALESCING, words(control, name, ETHTOOL_GCOALESCE, 22))
        if value
    }


def read_pause(control: socket.socket, name: str) -> Pause:
    """ETHTOOL_GPAUSEPARAM."""
    autonegotiation, rx, tx = words(control, name, ETHTOOL_GPAUSEPARAM, 3)
    return Pause(autonegotiation != 0, rx != 0, tx != 0)


def read_features(control: socket.socket, name: str) -> tuple[Feature, ...]:
    """ETHTOOL_GFEATURES: struct ethtool_get_features_block, 32 features each: available, requested,
    active, never_changed."""
    names = read_strings(control, name, ETH_SS_FEATURES)
    blocks = (len(names) + 31) // 32
    reply = call(control, name, struct.pack("=II", ETHTOOL_GFEATURES, blocks), 16 * blocks)
    sets = [0, 0, 0, 0]
    for index, block in enumerate(struct.iter_unpack("=IIII", reply[8 : 8 + 16 * blocks])):
        sets = [bits | word << (32 * index) for bits, word in zip(sets, block)]
    available, requested, active, never_changed = sets
    return feature_list(names, available, requested, active, never_changed)


RXFH = struct.Struct("=IIIIB3xI")
"""struct ethtool_rxfh up to its table: command, rss_context, indir_size, key_size, hfunc,
reserved."""


def read_rss(control: socket.socket, name: str) -> Rss:
    """ETHTOOL_GRSSH: the first call returns the sizes, the second table and key."""
    _, _, slots, key, _, _ = RXFH.unpack(
        call(control, name, struct.pack("=I", ETHTOOL_GRSSH), RXFH.size - 4)
    )
    reply = call(control, name, RXFH.pack(ETHTOOL_GRSSH, 0, slots, key, 0, 0), 4 * slots + key)
    functions = bit_names(RXFH.unpack_from(reply)[4], HASH_FUNCTIONS)
    table = struct.unpack_from(f"={slots}I", reply, RXFH.size)
    return Rss(table, functions[0] if functions else None, key or None)


def read_module(control: socket.socket, name: str) -> bytes:
    """ETHTOOL_GMODULEINFO and ETHTOOL_GMODULEEEPROM: the whole EEPROM in one piece (SFP: A0h, then
    A2h)."""
    _, length = words(control, name, ETHTOOL_GMODULEINFO, 10)[:2]
    length = min(length, MAX_EEPROM_BYTES)
    return call(control, name, struct.pack("=IIII", ETHTOOL_GMODULEEEPROM, 0, 0, length), length)[
        16:
    ]
