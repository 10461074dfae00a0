"""Everything ethtool can say of the links, in as few calls as possible.

Asks the generic netlink family ``ethtool`` once per command for all devices (a dump), once for the names of features,
link modes and hash functions, and uses the ioctl for driver information and counters, and for whatever this kernel's
netlink does not have. Yields one `Ethtool` per link; a part that could not be had has its reason in `unreadable`.

Module EEPROM and driver counters are asked only of links with a device: virtual ones have neither modules nor hardware.
"""

from __future__ import annotations

import errno
import functools
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from nictop.probe.inventory.ethtool import ioctl as ethtool_ioctl
from nictop.probe.inventory.ethtool import messages as parse
from nictop.probe.inventory.ethtool import transceivers as modules
from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.netlink import NETLINK_GENERIC, NetlinkError, NetlinkSocket, iterate, pack, pack_u32
from nictop.probe.kernel.sysfs import why_unreadable
from nictop.probe.records import DriverInfo, Ethtool, Feature, Link, Module, Unreadable

FAMILY = "ethtool"
NESTED = 0x8000
COMPACT, STATISTICS = 1, 4
"""ETHTOOL_FLAG_COMPACT_BITSETS, ETHTOOL_FLAG_STATS."""
HEADER_INDEX, HEADER_FLAGS = 1, 3
STRSET_GET, MODULE_EEPROM_GET = 1, 31
FEATURE_NAMES, HASH_NAMES, MODE_NAMES = 4, 5, 9
"""ETH_SS_FEATURES, ETH_SS_RSS_HASH_FUNCS, ETH_SS_LINK_MODES."""

COMMANDS = (
    ("link_info", 2, COMPACT),
    ("settings", 4, COMPACT),
    ("state", 6, COMPACT),
    ("features", 11, COMPACT),
    ("private_flags", 13, 0),
    ("rings", 15, COMPACT),
    ("channels", 17, COMPACT),
    ("coalescing", 19, COMPACT),
    ("pause", 21, COMPACT | STATISTICS),
    ("eee", 23, COMPACT),
    ("fec", 29, COMPACT),
    ("rss", 38, COMPACT),
)
"""Part of the record, ETHTOOL_MSG_*_GET, flags. Private flags without compact bit sets bring their names along."""

FALLBACKS: Mapping[str, Callable[[socket.socket, str], object]] = {
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
HASHES_FRAGMENTS_APART = "hv_netvsc"
"""The driver of which a rule wants to know the hash of UDP."""
BY_IOCTL = ("module", "driver_counter_names", "driver_counters")
PARTS = tuple(part for part, _, _ in COMMANDS if part != "link_info")

Attributes = dict[int, bytes]
Strings = Mapping[int, Sequence[str]]


@dataclass(frozen=True)
class CommandReplies:
    """What one command brought: attributes or a refusal by ifindex, or that this kernel does not know the command."""

    known: bool = True
    found: dict[int, Attributes] = field(default_factory=dict)
    refused: dict[int, Unreadable] = field(default_factory=dict)


def read_ethtool(links: Sequence[Link]) -> tuple[dict[int, Ethtool], Unreadable | None]:
    """ifindex → record for each of the links, and why the netlink family is not there, if so. Never raises OSError."""
    ifindexes = [link.ifindex for link in links]
    answers: dict[str, CommandReplies] = {}
    strings: Strings = {}
    modules_read: dict[int, Module | Unreadable] = {}
    trouble = None
    try:
        with NetlinkSocket(NETLINK_GENERIC) as netlink:
            strings = read_string_sets(netlink)
            for part, command, flags in COMMANDS:
                answers[part] = ask(netlink, command, flags, ifindexes)
            for link in links:
                if link.bus is not None:
                    modules_read[link.ifindex] = read_module(netlink, link.ifindex)
    except OSError as error:
        trouble = why_unreadable(error, "generic netlink ethtool")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        return {
            link.ifindex: read_one(
                control, link, answers, strings, module=modules_read.get(link.ifindex), trouble=trouble
            )
            for link in links
        }, trouble


def header(flags: int, ifindex: int | None = None) -> bytes:
    """ETHTOOL_A_*_HEADER: flags, and the device unless all are meant."""
    body = b"" if ifindex is None else pack_u32(HEADER_INDEX, ifindex)
    return pack(1 | NESTED, body + pack_u32(HEADER_FLAGS, flags))


def read_string_sets(netlink: NetlinkSocket) -> Strings:
    """Names of features, hash functions and link modes; a kernel that lacks one of the sets (before 5.6) gives none."""
    wanted = b"".join(
        pack(1 | NESTED, pack_u32(1, string_set)) for string_set in (FEATURE_NAMES, HASH_NAMES, MODE_NAMES)
    )
    replies = netlink.generic(FAMILY, STRSET_GET, header(0) + pack(2 | NESTED, wanted))
    return parse.parse_string_sets(dict(iterate(replies[0]))) if replies else {}


def ask(netlink: NetlinkSocket, command: int, flags: int, ifindexes: Sequence[int]) -> CommandReplies:
    """One command of all devices. A dump leaves out devices that do not offer it, but ends at the first device that
    fails in another way (ENODEV of a suspended one): then each is asked by itself."""
    try:
        bodies = netlink.generic(FAMILY, command, header(flags), dump=True)
    except NetlinkError as error:
        if error.errno == errno.EOPNOTSUPP:
            return CommandReplies(known=False)
        if error.errno == errno.ETIMEDOUT:
            raise
        return ask_each(netlink, command, flags, ifindexes)
    answers = CommandReplies()
    for body in bodies:
        add(answers, body)
    return answers


def ask_each(netlink: NetlinkSocket, command: int, flags: int, ifindexes: Sequence[int]) -> CommandReplies:
    """One command, device by device."""
    answers = CommandReplies()
    for ifindex in ifindexes:
        try:
            for body in netlink.generic(FAMILY, command, header(flags, ifindex)):
                add(answers, body)
        except NetlinkError as error:
            if error.errno == errno.ETIMEDOUT:
                raise
            answers.refused[ifindex] = why_unreadable(error)
    return answers


def add(answers: CommandReplies, body: bytes) -> None:
    """Note one reply under its device. The first counts: RSS sends further contexts after the default one."""
    attributes = dict(iterate(body))
    ifindex = number(dict(iterate(attributes.get(1, b""))), HEADER_INDEX)
    if ifindex is not None:
        answers.found.setdefault(ifindex, attributes)


def read_module(netlink: NetlinkSocket, ifindex: int) -> Module | Unreadable:
    """The transceiver's pages, half a page at a time, and what they say."""
    pages: dict[modules.Page, bytes] = {}
    try:
        pages[modules.LOWER] = read_page(netlink, ifindex, modules.LOWER)
    except NetlinkError as error:
        if error.errno == errno.ETIMEDOUT:
            raise
        return why_unreadable(error, "MODULE_EEPROM_GET")
    for page in modules.pages_to_read(pages[modules.LOWER]):
        try:
            pages[page] = read_page(netlink, ifindex, page)
        except NetlinkError as error:
            if error.errno == errno.ETIMEDOUT:
                raise
    module = modules.parse_module(pages)
    return module or Unreadable("malformed", f"module EEPROM begins with {pages[modules.LOWER][:4].hex()}")


def read_page(netlink: NetlinkSocket, ifindex: int, page: modules.Page) -> bytes:
    """128 bytes of the EEPROM."""
    request = header(0, ifindex) + pack_u32(2, page.offset) + pack_u32(3, 128)
    request += pack(4, bytes([page.page])) + pack(6, bytes([page.address]))
    replies = netlink.generic(FAMILY, MODULE_EEPROM_GET, request)
    return dict(iterate(replies[0])).get(7, b"") if replies else b""


def read_one(
    control: socket.socket,
    link: Link,
    answers: Mapping[str, CommandReplies],
    strings: Strings,
    *,
    module: Module | Unreadable | None,
    trouble: Unreadable | None,
) -> Ethtool:
    """The record of one link from the answers; what netlink does not know is asked here by ioctl."""
    try:
        name = socket.if_indextoname(link.ifindex)
    except OSError as error:
        gone = Unreadable("vanished", why_unreadable(error).detail)
        return Ethtool(unreadable=dict.fromkeys((*PARTS, "driver", *BY_IOCTL), gone))
    if trouble is not None and trouble.reason == "failed":  # a driver that hangs would hang the ioctl, too
        return Ethtool(unreadable=dict.fromkeys((*PARTS, "driver", *BY_IOCTL), trouble))
    values: dict[str, object] = {"driver": by_ioctl(control, name, ethtool_ioctl.read_driver)}
    for part in PARTS:
        value = part_of(part, link.ifindex, answers, strings)
        if isinstance(value, Unreadable) and value.reason == "missing":
            fallback = FALLBACKS.get(part)
            value = by_ioctl(control, name, fallback) if fallback else trouble or value
        values[part] = value
    if link.bus is None:
        module = Unreadable("not_offered", "a link without a device")
    elif module is None or (isinstance(module, Unreadable) and module.reason == "not_offered"):
        module = read_module_by_ioctl(control, name)
    counters = by_ioctl(control, name, ethtool_ioctl.read_driver_counters)
    names, numbers = counters if isinstance(counters, tuple) else (counters, counters)
    values.update(module=module, driver_counter_names=names, driver_counters=numbers)
    driver = values["driver"]
    if isinstance(driver, DriverInfo) and driver.driver == HASHES_FRAGMENTS_APART:
        values["udp_hash"] = by_ioctl(control, name, ethtool_ioctl.read_udp_hash)
    unreadable = {part: value for part, value in values.items() if isinstance(value, Unreadable)}
    readable: dict[str, Any] = {part: value for part, value in values.items() if part not in unreadable}
    return Ethtool(**readable, unreadable=unreadable)


def by_ioctl(control: socket.socket, name: str, read: Callable[[socket.socket, str], object]) -> object:
    """What the reader yields, or why it cannot."""
    try:
        return read(control, name)
    except OSError as error:
        return why_unreadable(error, "SIOCETHTOOL")


def read_module_by_ioctl(control: socket.socket, name: str) -> Module | Unreadable:
    """The transceiver before Linux 5.13, whose netlink answers EOPNOTSUPP to a command it has never heard of."""
    flat = by_ioctl(control, name, ethtool_ioctl.read_module)
    if not isinstance(flat, bytes):
        return flat if isinstance(flat, Unreadable) else Unreadable("failed", "SIOCETHTOOL")
    pages = {modules.LOWER: flat[:128], modules.UPPER: flat[128:256], modules.SFP_DIAGNOSTICS: flat[256:384]}
    return modules.parse_module(pages) or Unreadable("malformed", f"module EEPROM begins with {flat[:4].hex()}")


def part_of(part: str, ifindex: int, answers: Mapping[str, CommandReplies], strings: Strings) -> object:
    """A part of the record from netlink; Unreadable, "missing" when this kernel's netlink does not have it."""
    answer = answers.get(part, CommandReplies(known=False))
    if not answer.known:
        return Unreadable("missing", f"ethtool netlink has no {part.replace('_', ' ')}")
    attributes = answer.found.get(ifindex)
    if attributes is None:
        return answer.refused.get(ifindex) or NOT_OFFERED
    if part == "settings":
        info = answers["link_info"].found.get(ifindex) if "link_info" in answers else None
        return parse.parse_link_modes(attributes, strings.get(MODE_NAMES, ()), parse.parse_link_info(info or {}))
    if part == "features":
        return features(tuple(attributes.get(kind) for kind in range(2, 6)), tuple(strings.get(FEATURE_NAMES, ())))
    if part == "rss":
        return parse.parse_rss(attributes, strings.get(HASH_NAMES, ()))
    return SIMPLE[part](attributes)


SIMPLE: Mapping[str, Callable[[Attributes], object]] = {
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
    """Features of four bit sets. Links of one kind have the same ones, and sixty records each are not free."""
    return parse.parse_features({kind: bits for kind, bits in enumerate(bitsets, 2) if bits is not None}, names)
