"""What may be done to a host: the words of an action → an `Operation`, or a sentence why not. Pure.

An allow-list. What stands here can be asked for and nothing else: some settings of NetworkManager's profiles
(`grammar_networkmanager`), ethtool -L -G -K -C, the MTU of a link and that it is up, what a VF may do, an address, and
a few files below /proc and /sys. An operation carries words of its own, made of what has been understood: those are
run, never the ones that came.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "profile modify",
    "profile add",
    "profile up",
    "device reapply",
    "channels",
    "rings",
    "features",
    "coalescing",
    "mtu",
    "up",
    "down",
    "virtual function",
    "address add",
    "address del",
    "affinity",
    "steering",
    "virtual functions",
    "sysctl",
]
NETWORKMANAGER: tuple[Kind, ...] = ("profile modify", "profile add", "profile up", "device reapply")
"""Taken back by NetworkManager's checkpoint, not by commands."""

MOST_WORDS, LONGEST_WORD = 64, 1024
LINK_NAME = re.compile(r"(?!-|\.{1,2}$)[^\s/:\x00-\x20\x7f]+")
"""dev_valid_name(), and none that a program takes for an option."""
LONGEST_NAME = 15
"""Bytes: IFNAMSIZ without its NUL."""
NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
FEATURE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
MASK = re.compile(r"[0-9a-f]{1,8}(?:,[0-9a-f]{8}){0,255}", re.ASCII)
CPU_LIST = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?){0,255}", re.ASCII)
HARDWARE_ADDRESS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)

AFFINITY = re.compile(r"/proc/irq/([0-9]{1,7})/smp_affinity_list", re.ASCII)
STEERING = re.compile(
    r"/sys/class/net/([^/]+)/queues/((?:rx-[0-9]{1,5}/(?:rps_cpus|rps_flow_cnt))|tx-[0-9]{1,5}/xps_cpus)"
)
LINK_NUMVFS = re.compile(r"/sys/class/net/([^/]+)/device/sriov_numvfs")
PCI_NUMVFS = re.compile(r"/sys/bus/pci/devices/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/sriov_numvfs", re.ASCII)
SYSCTL = re.compile(
    r"/proc/sys/net/core/(netdev_max_backlog|netdev_budget|netdev_budget_usecs|rps_sock_flow_entries)", re.ASCII
)

ETHTOOL: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "-L": ("channels", ("rx", "tx", "other", "combined")),
    "-G": ("rings", ("rx", "rx-mini", "rx-jumbo", "tx")),
    "-C": (
        "coalescing",
        (
            *("adaptive-rx", "adaptive-tx", "rx-usecs", "rx-frames", "rx-usecs-irq", "rx-frames-irq"),
            *("tx-usecs", "tx-frames", "tx-usecs-irq", "tx-frames-irq", "stats-block-usecs"),
            *("pkt-rate-low", "rx-usecs-low", "rx-frame-low", "tx-usecs-low", "tx-frame-low"),
            *("pkt-rate-high", "rx-usecs-high", "rx-frame-high", "tx-usecs-high", "tx-frame-high", "sample-interval"),
        ),
    ),
}
"""Option → what it sets, and its names; -K takes any feature."""
SWITCHES = ("adaptive-rx", "adaptive-tx")
VF_WORDS: dict[str, tuple[str, ...]] = {
    "spoofchk": ("on", "off"),
    "trust": ("on", "off"),
    "state": ("auto", "enable", "disable"),
}
VF_NUMBERS = {"vlan": 4094, "qos": 7, "max_tx_rate": 0xFFFFFFFF, "min_tx_rate": 0xFFFFFFFF}
MOST_FLOWS = 1 << 20
"""Entries of the tables of receive flow steering: the kernel takes 512 times as many, and gigabytes for them."""
SMALLEST_MTU, LARGEST_MTU = 68, 65535


@dataclass(frozen=True)
class Operation:
    """One action that is understood. What does not belong to its kind is empty."""

    kind: Kind
    words: tuple[str, ...]
    """What is run, or ("write", PATH, TEXT)."""
    subject: str
    """Interface, ``irq 30``, profile, PCI function or setting."""
    settings: tuple[tuple[str, str], ...] = ()
    """Name → value, in the order of the words. NetworkManager: properties, as they came."""
    interface: str = ""
    number: int = -1
    """Of a VF or an interrupt."""
    profile: str = ""
    """NetworkManager: id or UUID of the profile, as it came; of an added one its con-name."""

    @property
    def is_networkmanagers(self) -> bool:
        return self.kind in NETWORKMANAGER


def parse_action(words: Sequence[str], *, undoing: bool = False) -> Operation:
    """The operation that some words mean. `undoing`: also what only takes something back (a link down, no VFs).

    Raises ValueError with a sentence for everything else.
    """
    if not words or len(words) > MOST_WORDS or not all(map(is_word, words)):
        raise ValueError(f"an action is made of 1 to {MOST_WORDS} words without control characters")
    program, rest = words[0], list(words[1:])
    if program == "nmcli":
        from nictop.probe.changes.grammar.nmcli import parse_nmcli

        return parse_nmcli(rest)
    if program == "ethtool":
        return parse_ethtool(rest)
    if program == "ip":
        return parse_ip(rest, undoing)
    if program == "write":
        return parse_write(rest, undoing)
    raise ValueError("nictop runs nmcli, ethtool and ip, and writes a few files of the kernel, nothing else")


def is_word(value: object) -> bool:
    """Whether a value can be one argument of a program, and can be said of it."""
    if not isinstance(value, str) or len(value) > LONGEST_WORD:
        return False
    return not any(
        character < " " or "\x7f" <= character < "\xa0" or "\ud800" <= character < "\ue000" for character in value
    )


def link_name(word: str) -> str:
    """The name of a link. Raises ValueError."""
    if not LINK_NAME.fullmatch(word) or len(word.encode()) > LONGEST_NAME:
        raise ValueError(f"{word!r} is no name of an interface")
    return word


def integer(word: str, most: int, what: str, least: int = 0) -> str:
    """The number as the kernel prints it. Raises ValueError."""
    if not NUMBER.fullmatch(word) or not least <= int(word) <= most:
        raise ValueError(f"{what} is not a number from {least} to {most}")
    return str(int(word))


def pairs(words: Sequence[str], what: str) -> list[tuple[str, str]]:
    """Names and values that follow one another, each name once. Raises ValueError."""
    if not words or len(words) % 2 or len(set(words[::2])) < len(words) // 2:
        raise ValueError(f"{what} takes names with one value each")
    return list(zip(words[::2], words[1::2]))


def parse_ethtool(words: list[str]) -> Operation:
    """``-L NAME combined 4``"""
    if len(words) < 4 or (words[0] != "-K" and words[0] not in ETHTOOL):
        raise ValueError("ethtool is run with -L, -G, -K or -C, a name and what to set")
    option, name = words[0], link_name(words[1])
    settings = pairs(words[2:], f"ethtool {option}")
    if option == "-K":
        kind: Kind = "features"
        if not all(FEATURE.fullmatch(feature) and value in ("on", "off") for feature, value in settings):
            raise ValueError("ethtool -K takes names of features with on or off")
    else:
        kind, names = ETHTOOL[option]
        for position, (key, value) in enumerate(settings):
            if key not in names:
                raise ValueError(f"ethtool {option} knows {', '.join(names)}")
            if key not in SWITCHES:
                settings[position] = (key, integer(value, 0xFFFFFFFF, key))
            elif value not in ("on", "off"):
                raise ValueError(f"{key} is on or off")
    run = ("ethtool", option, name, *(word for pair in settings for word in pair))
    return Operation(kind, run, name, tuple(settings), name)


def parse_ip(words: list[str], undoing: bool) -> Operation:
    """``link set dev NAME …`` or ``address add|del ADDRESS/LENGTH dev NAME``"""
    if words[:2] == ["link", "set"]:
        rest = words[3:] if words[2:3] == ["dev"] else words[2:]
        if len(rest) >= 2:
            return parse_link_set(link_name(rest[0]), rest[1:], undoing)
    elif words[:1] in (["address"], ["addr"]) and len(words) == 5 and words[1] in ("add", "del") and words[3] == "dev":
        try:
            address = ipaddress.ip_interface(words[2])
        except ValueError:
            raise ValueError(f"{words[2]!r} is no address with a prefix length") from None
        if "/" not in words[2] or "%" in words[2]:
            raise ValueError(f"{words[2]!r} is no address with a prefix length")
        name, text = link_name(words[4]), address.with_prefixlen
        kind: Kind = "address add" if words[1] == "add" else "address del"
        state = "present" if words[1] == "add" else "absent"
        return Operation(kind, ("ip", "address", words[1], text, "dev", name), name, ((text, state),), name)
    raise ValueError("ip is run as ip link set … mtu, up or vf, and as ip address add or del")


def parse_link_set(name: str, words: list[str], undoing: bool) -> Operation:
    """What follows ``ip link set dev NAME``."""
    start = ("ip", "link", "set", "dev", name)
    if words == ["up"] or (undoing and words == ["down"]):
        return Operation("up" if words == ["up"] else "down", (*start, words[0]), name, (("link", words[0]),), name)
    if words[0] == "mtu" and len(words) == 2:
        mtu = integer(words[1], LARGEST_MTU, "the MTU", SMALLEST_MTU)
        return Operation("mtu", (*start, "mtu", mtu), name, (("mtu", mtu),), name)
    if words[0] == "vf" and len(words) >= 4:
        number = integer(words[1], 65535, "vf")
        settings = tuple(vf_setting(*pair) for pair in pairs(words[2:], "vf"))
        names = [key for key, _ in settings]
        if "qos" in names and "vlan" not in names[: names.index("qos")][-1:]:
            raise ValueError("qos stands behind a vlan")
        run = (*start, "vf", number, *(word for pair in settings for word in pair))
        return Operation("virtual function", run, name, settings, name, number=int(number))
    raise ValueError("ip link set takes mtu NUMBER, up, or vf NUMBER with what it may do")


def vf_setting(key: str, value: str) -> tuple[str, str]:
    """One attribute of a VF. Raises ValueError."""
    if key == "mac":
        value = value.lower()
        if not HARDWARE_ADDRESS.fullmatch(value) or int(value[:2], 16) & 1:
            raise ValueError(f"{value!r} is no hardware address of one station")
        return key, value
    if key in VF_NUMBERS:
        return key, integer(value, VF_NUMBERS[key], key)
    if value not in VF_WORDS.get(key, ()):
        raise ValueError(f"a VF has {', '.join(('mac', *VF_NUMBERS, *VF_WORDS))}, each with values of its own")
    return key, value


def parse_write(words: list[str], undoing: bool) -> Operation:
    """``PATH TEXT``: the path stands in the table above as a whole."""
    if len(words) != 2:
        raise ValueError("write takes a path and a text")
    path, text = words
    run = ("write", path, text)
    if found := AFFINITY.fullmatch(path):
        if not CPU_LIST.fullmatch(text):
            raise ValueError(f"{text!r} is no list of CPUs")
        number = int(found[1])
        return Operation("affinity", run, f"irq {number}", (("smp_affinity_list", text),), number=number)
    if found := STEERING.fullmatch(path):
        name, place = link_name(found[1]), found[2]
        if place.endswith("rps_flow_cnt"):
            text = integer(text, MOST_FLOWS, "rps_flow_cnt")
        elif not MASK.fullmatch(text):
            raise ValueError(f"{text!r} is no mask of CPUs")
        return Operation("steering", ("write", path, text), name, ((place, text),), name)
    link, function = LINK_NUMVFS.fullmatch(path), PCI_NUMVFS.fullmatch(path)
    if link or function:
        text = integer(text, 65535, "sriov_numvfs", 0 if undoing else 1)
        name = link_name(link[1]) if link else ""
        subject = name or (function[1] if function else "")
        return Operation("virtual functions", ("write", path, text), subject, (("sriov_numvfs", text),), name)
    if found := SYSCTL.fullmatch(path):
        text = integer(text, MOST_FLOWS if found[1] == "rps_sock_flow_entries" else 0x7FFFFFFF, found[1])
        return Operation("sysctl", ("write", path, text), f"net.core.{found[1]}", ((found[1], text),))
    raise ValueError("this file is not one of those that nictop writes")
