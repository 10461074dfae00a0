"""All that ethtool(8) shows of the links, with as few requests as possible.

Sends each command of the generic netlink family ``ethtool`` once for all devices (a dump), one
request for the names of features, link modes and hash functions, and uses the ioctl for driver
information and counters and for what the netlink family of this kernel does not have. Returns one
`Ethtool` per link; parts that could not be read have a reason in `unreadable`. Module EEPROM and
driver counters are read only of links with a device: virtual ones have no hardware.
"""

from __future__ import annotations

import errno
import functools
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from nictop.probe.inventory.ethtool import ioctl as ethtool_ioctl
from nictop.probe.inventory.ethtool import messages as parse
from nictop.probe.inventory.ethtool import transceivers as modules
from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.netlink import (
    NETLINK_GENERIC,
    NetlinkError,
    NetlinkSocket,
    iter_attributes,
    pack_attribute,
    pack_u32,
)
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import DriverInfo, Ethtool, Feature, Link, Module, Unreadable

FAMILY = "ethtool"
NLA_F_NESTED = 0x8000
ETHTOOL_FLAG_COMPACT_BITSETS, ETHTOOL_FLAG_STATS = 1, 4
ETHTOOL_A_HEADER_DEV_INDEX, ETHTOOL_A_HEADER_FLAGS = 1, 3
ETHTOOL_A_HEADER = 1
"""ETHTOOL_A_*_HEADER: the first attribute of every message."""
ETHTOOL_A_STRINGSETS_STRINGSET = 1
ETHTOOL_A_MODULE_EEPROM_OFFSET, ETHTOOL_A_MODULE_EEPROM_LENGTH, ETHTOOL_A_MODULE_EEPROM_PAGE = (
    2,
    3,
    4,
)
ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS, ETHTOOL_A_MODULE_EEPROM_DATA = 6, 7
(
    ETHTOOL_MSG_STRSET_GET,
    ETHTOOL_MSG_LINKINFO_GET,
    ETHTOOL_MSG_LINKMODES_GET,
    ETHTOOL_MSG_LINKSTATE_GET,
) = 1, 2, 4, 6
(
    ETHTOOL_MSG_FEATURES_GET,
    ETHTOOL_MSG_PRIVFLAGS_GET,
    ETHTOOL_MSG_RINGS_GET,
    ETHTOOL_MSG_CHANNELS_GET,
) = 11, 13, 15, 17
ETHTOOL_MSG_COALESCE_GET, ETHTOOL_MSG_PAUSE_GET, ETHTOOL_MSG_EEE_GET, ETHTOOL_MSG_FEC_GET = (
    19,
    21,
    23,
    29,
)
ETHTOOL_MSG_MODULE_EEPROM_GET, ETHTOOL_MSG_RSS_GET = 31, 38
ETH_SS_FEATURES, ETH_SS_RSS_HASH_FUNCS, ETH_SS_LINK_MODES = 4, 5, 9

NETLINK_COMMANDS = (
    ("link_info", ETHTOOL_MSG_LINKINFO_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("settings", ETHTOOL_MSG_LINKMODES_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("state", ETHTOOL_MSG_LINKSTATE_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("features", ETHTOOL_MSG_FEATURES_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("private_flags", ETHTOOL_MSG_PRIVFLAGS_GET, 0),
    ("rings", ETHTOOL_MSG_RINGS_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("channels", ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("coalescing", ETHTOOL_MSG_COALESCE_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("pause", ETHTOOL_MSG_PAUSE_GET, ETHTOOL_FLAG_COMPACT_BITSETS | ETHTOOL_FLAG_STATS),
    ("eee", ETHTOOL_MSG_EEE_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("fec", ETHTOOL_MSG_FEC_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
    ("rss", ETHTOOL_MSG_RSS_GET, ETHTOOL_FLAG_COMPACT_BITSETS),
)
"""(Part of the record, command, flags). Private flags without compact bit sets include their
names."""

IOCTL_READERS: Mapping[str, Callable[[socket.socket, str], object]] = {
    "settings": ethtool_ioctl.read_settings,
    "state": ethtool_ioctl.read_state,
    "features": ethtool_ioctl.read_features,
    "rings": ethtool_ioctl.read_rings,
    "channels": ethtool_ioctl.read_channels,
    "coalescing": ethtool_ioctl.read_coalescing,
    "pause": ethtool_ioctl.read_pause,
    "rss": ethtool_ioctl.read_rss,
}
NOT_OFFERED = Unreadable("not_offered", "EOPNOTSUPP")
UDP_HASH_DRIVER = "hv_netvsc"
"""The only driver whose UDP hash a rule uses: it hashes fragments differently."""
IOCTL_PARTS = ("module", "driver_counter_names", "driver_counters")
PARTS = tuple(part for part, _, _ in NETLINK_COMMANDS if part != "link_info")

Attributes = dict[int, bytes]
Strings = Mapping[int, Sequence[str]]


@dataclass(frozen=True)
class CommandReplies:
    """Replies to one command by ifindex: attributes, or the reason of an error; `known`: the kernel
    has the command."""

    known: bool = True
    found: dict[int, Attributes] = field(default_factory=dict)
    refused: dict[int, Unreadable] = field(default_factory=dict)


def read_ethtool(links: Sequence[Link]) -> tuple[dict[int, Ethtool], Unreadable | None]:
    """ifindex → record of each link, and why the netlink family cannot be used, if so. Never raises
    OSError."""
    ifindexes = [link.ifindex for link in links]
    answers: dict[str, CommandReplies] = {}
    strings: Strings = {}
    modules_read: dict[int, Module | Unreadable] = {}
    trouble = None
    try:
        with NetlinkSocket(NETLINK_GENERIC) as netlink:
            strings = read_string_sets(netlink)
            for part, command, flags in NETLINK_COMMANDS:
                answers[part] = request_all(netlink, command, flags, ifindexes)
            for link in links:
                if link.bus is not None:
                    modules_read[link.ifindex] = read_module(netlink, link.ifindex)
    except OSError as error:
        trouble = unreadable_from_error(error, "generic netlink ethtool")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        return {
            link.ifindex: read_link(
                control,
                link,
                answers,
                strings,
                module=modules_read.get(link.ifindex),
                trouble=trouble,
            )
            for link in links
        }, trouble


def header(flags: int, ifindex: int | None = None) -> bytes:
    """The header attribute of a request: flags, and the device; None: all devices."""
    body = b"" if ifindex is None else pack_u32(ETHTOOL_A_HEADER_DEV_INDEX, ifindex)
    return pack_attribute(
        ETHTOOL_A_HEADER | NLA_F_NESTED, body + pack_u32(ETHTOOL_A_HEADER_FLAGS, flags)
    )


def read_string_sets(netlink: NetlinkSocket) -> Strings:
    """Names of features, hash functions and link modes; none on a kernel that lacks one of the sets
    (before 5.6)."""
    wanted = b"".join(
        pack_attribute(
            ETHTOOL_A_STRINGSETS_STRINGSET | NLA_F_NESTED,
            pack_u32(parse.ETHTOOL_A_STRINGSET_ID, string_set),
        )
        for string_set in (ETH_SS_FEATURES, ETH_SS_RSS_HASH_FUNCS, ETH_SS_LINK_MODES)
    )
    request = header(0) + pack_attribute(parse.ETHTOOL_A_STRSET_STRINGSETS | NLA_F_NESTED, wanted)
    replies = netlink.generic(FAMILY, ETHTOOL_MSG_STRSET_GET, request)
    return parse.parse_string_sets(dict(iter_attributes(replies[0]))) if replies else {}


def request_all(
    netlink: NetlinkSocket, command: int, flags: int, ifindexes: Sequence[int]
) -> CommandReplies:
    """One command for all devices. A dump omits devices that do not support it, but ends at the
    first device that fails with another error (ENODEV of a suspended one): then one request is sent
    for each device."""
    try:
        bodies = netlink.generic(FAMILY, command, header(flags), dump=True)
    except NetlinkError as error:
        if error.errno == errno.EOPNOTSUPP:
            return CommandReplies(known=False)
        if error.errno == errno.ETIMEDOUT:
            raise
        return request_each(netlink, command, flags, ifindexes)
    replies = CommandReplies()
    for body in bodies:
        add_reply(replies, body)
    return replies


def request_each(
    netlink: NetlinkSocket, command: int, flags: int, ifindexes: Sequence[int]
) -> CommandReplies:
    """One command, one request per device."""
    replies = CommandReplies()
    for ifindex in ifindexes:
        try:
            for body in netlink.generic(FAMILY, command, header(flags, ifindex)):
                add_reply(replies, body)
        except NetlinkError as error:
            if error.errno == errno.ETIMEDOUT:
                raise
            replies.refused[ifindex] = unreadable_from_error(error)
    return replies


def add_reply(replies: CommandReplies, body: bytes) -> None:
    """Add one reply under its device. Only the first is kept: RSS sends the default context before
    the others."""
    attributes = dict(iter_attributes(body))
    ifindex = number(
        dict(iter_attributes(attributes.get(ETHTOOL_A_HEADER, b""))), ETHTOOL_A_HEADER_DEV_INDEX
    )
    if ifindex is not None:
        replies.found.setdefault(ifindex, attributes)


def read_module(netlink: NetlinkSocket, ifindex: int) -> Module | Unreadable:
    """Read the EEPROM pages of a transceiver, half a page per request, and parse them."""
    pages: dict[modules.Page, bytes] = {}
    try:
        pages[modules.LOWER] = read_page(netlink, ifindex, modules.LOWER)
    except NetlinkError as error:
        if error.errno == errno.ETIMEDOUT:
            raise
        return unreadable_from_error(error, "MODULE_EEPROM_GET")
    for page in modules.pages_to_read(pages[modules.LOWER]):
        try:
            pages[page] = read_page(netlink, ifindex, page)
        except NetlinkError as error:
            if error.errno == errno.ETIMEDOUT:
                raise
    module = modules.parse_module(pages)
    return module or Unreadable(
        "malformed", f"unknown module EEPROM, first bytes {pages[modules.LOWER][:4].hex()}"
    )


def read_page(netlink: NetlinkSocket, ifindex: int, page: modules.Page) -> bytes:
    """128 bytes of the EEPROM."""
    request = header(0, ifindex) + pack_u32(ETHTOOL_A_MODULE_EEPROM_OFFSET, page.offset)
    request += pack_u32(ETHTOOL_A_MODULE_EEPROM_LENGTH, 128)
    request += pack_attribute(ETHTOOL_A_MODULE_EEPROM_PAGE, bytes([page.page]))
    request += pack_attribute(ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS, bytes([page.address]))
    replies = netlink.generic(FAMILY, ETHTOOL_MSG_MODULE_EEPROM_GET, request)
    if not replies:
        return b""
    return dict(iter_attributes(replies[0])).get(ETHTOOL_A_MODULE_EEPROM_DATA, b"")


def read_link(
    control: socket.socket,
    link: Link,
    answers: Mapping[str, CommandReplies],
    strings: Strings,
    *,
    module: Module | Unreadable | None,
    trouble: Unreadable | None,
) -> Ethtool:
    """The record of one link from the replies; parts that this kernel's netlink does not have are
    read by ioctl."""
    try:
        name = socket.if_indextoname(link.ifindex)
    except OSError as error:
        return unread(Unreadable("vanished", unreadable_from_error(error).detail))
    if trouble is not None and trouble.reason == "failed":
        return unread(trouble)  # a hanging driver would hang in the ioctl as well
    values: dict[str, object] = {"driver": read_by_ioctl(control, name, ethtool_ioctl.read_driver)}
    for part in PARTS:
        value = part_from_replies(part, link.ifindex, answers, strings)
        if isinstance(value, Unreadable) and value.reason == "missing":
            if part in IOCTL_READERS:
                value = read_by_ioctl(control, name, IOCTL_READERS[part])
            else:
                value = trouble or value
        values[part] = value
    values["module"] = module_of(control, name, link, module)
    counters = read_by_ioctl(control, name, ethtool_ioctl.read_driver_counters)
    if not isinstance(counters, tuple):  # unreadable
        counters = counters, counters
    values["driver_counter_names"], values["driver_counters"] = counters
    driver = values["driver"]
    if isinstance(driver, DriverInfo) and driver.driver == UDP_HASH_DRIVER:
        values["udp_hash"] = read_by_ioctl(control, name, ethtool_ioctl.read_udp_hash)
    return record_of(values)


def record_of(values: Mapping[str, object]) -> Ethtool:
    """`values`: part → what was read, or why it could not be."""
    readable: dict[str, Any] = {}
    unreadable: dict[str, Unreadable] = {}
    for part, value in values.items():
        if isinstance(value, Unreadable):
            unreadable[part] = value
        else:
            readable[part] = value
    return Ethtool(**readable, unreadable=unreadable)


def unread(why: Unreadable) -> Ethtool:
    """The record of a link of which nothing could be read."""
    return Ethtool(unreadable=dict.fromkeys((*PARTS, "driver", *IOCTL_PARTS), why))


def module_of(
    control: socket.socket, name: str, link: Link, module: Module | Unreadable | None
) -> Module | Unreadable:
    """The transceiver; `module`: as read by netlink, None: not tried."""
    if link.bus is None:
        return Unreadable("not_offered", "the interface has no device")
    if module is None:
        return read_module_by_ioctl(control, name)
    if isinstance(module, Unreadable) and module.reason == "not_offered":
        return read_module_by_ioctl(control, name)
    return module


def read_by_ioctl(
    control: socket.socket, name: str, read: Callable[[socket.socket, str], object]
) -> object:
    """The result of `read`, or why it failed."""
    try:
        return read(control, name)
    except OSError as error:
        return unreadable_from_error(error, "SIOCETHTOOL")


def read_module_by_ioctl(control: socket.socket, name: str) -> Module | Unreadable:
    """The transceiver before Linux 5.13, whose netlink family replies EOPNOTSUPP to the unknown
    command."""
    eeprom = read_by_ioctl(control, name, ethtool_ioctl.read_module)
    if isinstance(eeprom, Unreadable):
        return eeprom
    if not isinstance(eeprom, bytes):
        return Unreadable("failed", "SIOCETHTOOL")
    pages = {
        modules.LOWER: eeprom[:128],
        modules.UPPER: eeprom[128:256],
        modules.SFP_DIAGNOSTICS: eeprom[256:384],
    }
    return modules.parse_module(pages) or Unreadable(
        "malformed", f"unknown module EEPROM, first bytes {eeprom[:4].hex()}"
    )


def part_from_replies(
    part: str, ifindex: int, answers: Mapping[str, CommandReplies], strings: Strings
) -> object:
    """One part of the record from the replies; Unreadable "missing" when this kernel's netlink does
    not have it."""
    replies = answers.get(part, CommandReplies(known=False))
    if not replies.known:
        return Unreadable("missing", f"ethtool netlink has no {part.replace('_', ' ')}")
    attributes = replies.found.get(ifindex)
    if attributes is None:
        return replies.refused.get(ifindex) or NOT_OFFERED
    if part == "settings":
        info: Attributes = {}
        if "link_info" in answers:
            info = answers["link_info"].found.get(ifindex, {})
        return parse.parse_link_modes(
            attributes, strings.get(ETH_SS_LINK_MODES, ()), parse.parse_link_info(info)
        )
    if part == "features":
        bitsets = tuple(attributes.get(kind) for kind in parse.FEATURE_BITSETS)
        return features(bitsets, tuple(strings.get(ETH_SS_FEATURES, ())))
    if part == "rss":
        return parse.parse_rss(attributes, strings.get(ETH_SS_RSS_HASH_FUNCS, ()))
    return PARSERS[part](attributes)


PARSERS: Mapping[str, Callable[[Attributes], object]] = {
    "state": parse.parse_link_state,
    "private_flags": parse.parse_private_flags,
    "rings": parse.parse_rings,
    "channels": parse.parse_channels,
    "coalescing": parse.parse_coalescing,
    "pause": parse.parse_pause,
    "eee": parse.parse_eee,
    "fec": parse.parse_fec,
}


@functools.lru_cache(maxsize=64)
def features(bitsets: tuple[bytes | None, ...], names: tuple[str, ...]) -> tuple[Feature, ...]:
    """Features of four bit sets, cached: links of one type have the same ones, about sixty records
    each."""
    found = {kind: bits for kind, bits in zip(parse.FEATURE_BITSETS, bitsets) if bits is not None}
    return parse.parse_features(found, names)
