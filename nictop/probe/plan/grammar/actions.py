"""Parse the words of an action into an `Operation`, or reject it with a sentence (ValueError).
Pure.

This is an allow-list: only the operations defined here can be requested. They are some settings of
NetworkManager profiles (`nmcli`), ethtool -L -G -K -C -p, the MTU of a link, setting a link up,
attributes of a VF, an address, VLANs and settings of bridges, options of bonds, and a few files
below /proc and /sys. The words in an operation are built from the parsed values; only those are
run, never the words that were received.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from nictop.probe.plan.grammar.bridges_bonds import (
    BONDING_PRIMARY_PATH,
    parse_bridge,
    parse_link_type,
)
from nictop.probe.plan.grammar.nmcli import parse_nmcli
from nictop.probe.plan.grammar.operation import Kind, Operation, integer, link_name

MAX_ACTION_WORDS, MAX_WORD_CHARS = 64, 1024
FEATURE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
CPU_MASK = re.compile(r"[0-9a-f]{1,8}(?:,[0-9a-f]{8}){0,255}", re.ASCII)
CPU_LIST = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?){0,255}", re.ASCII)
HARDWARE_ADDRESS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)

AFFINITY_PATH = re.compile(r"/proc/irq/([0-9]{1,7})/smp_affinity_list", re.ASCII)
STEERING_PATH = re.compile(
    r"/sys/class/net/([^/]+)/queues/((?:rx-[0-9]{1,5}/(?:rps_cpus|rps_flow_cnt))|tx-[0-9]{1,5}/"
    r"xps_cpus)"
)
LINK_NUMVFS_PATH = re.compile(r"/sys/class/net/([^/]+)/device/sriov_numvfs")
PCI_NUMVFS_PATH = re.compile(
    r"/sys/bus/pci/devices/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/sriov_numvfs", re.ASCII
)
SYSCTL_PATH = re.compile(
    r"/proc/sys/net/core/(netdev_max_backlog|netdev_budget|netdev_budget_usecs|"
    r"rps_sock_flow_entries)",
    re.ASCII,
)

ETHTOOL_SETTINGS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "-L": ("channels", ("rx", "tx", "other", "combined")),
    "-G": ("rings", ("rx", "rx-mini", "rx-jumbo", "tx")),
    "-C": (
        "coalescing",
        (
            *(
                "adaptive-rx",
                "adaptive-tx",
                "rx-usecs",
                "rx-frames",
                "rx-usecs-irq",
                "rx-frames-irq",
            ),
            *("tx-usecs", "tx-frames", "tx-usecs-irq", "tx-frames-irq", "stats-block-usecs"),
            *("pkt-rate-low", "rx-usecs-low", "rx-frame-low", "tx-usecs-low", "tx-frame-low"),
            *(
                "pkt-rate-high",
                "rx-usecs-high",
                "rx-frame-high",
                "tx-usecs-high",
                "tx-frame-high",
                "sample-interval",
            ),
        ),
    ),
}
"""Option of ethtool → kind of operation and the names of its settings. -K takes any feature
name."""
ON_OFF_SETTINGS = ("adaptive-rx", "adaptive-tx")
VF_CHOICES: dict[str, tuple[str, ...]] = {
    "spoofchk": ("on", "off"),
    "trust": ("on", "off"),
    "state": ("auto", "enable", "disable"),
}
"""Attribute of a VF → its values."""
VF_MAXIMA = {"vlan": 4094, "qos": 7, "max_tx_rate": 0xFFFFFFFF, "min_tx_rate": 0xFFFFFFFF}
"""Numeric attribute of a VF → its largest value."""
ADDRESS_OPTIONS = {
    "broadcast": re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", re.ASCII),
    "label": re.compile(r"(?!-)[^\s/\x00-\x20\x7f]{1,15}"),
    "scope": re.compile(r"[0-9]{1,3}", re.ASCII),
    "metric": re.compile(r"[0-9]{1,10}", re.ASCII),
}
"""Option of ``ip address add`` in an undo → its values."""
ADDRESS_FLAGS = {"nodad": 0x02, "noprefixroute": 0x200}
"""Word of ``ip address add`` in an undo → IFA_F_*."""
MAX_FLOW_ENTRIES = 1 << 20
"""Entries of a receive flow steering table. The kernel accepts 512 times as many, which would use
gigabytes."""
MIN_MTU, MAX_MTU = 68, 65535
MAX_IDENTIFY_SECONDS = 60


def parse_action(words: Sequence[str], *, undoing: bool = False) -> Operation:
    """The operation for the words of an action. `undoing` also allows what only an undo needs (link
    down, no VFs).

    Raises ValueError with a sentence for everything else.
    """
    if not words or len(words) > MAX_ACTION_WORDS or not all(map(is_word, words)):
        raise ValueError(
            f"an action must have 1 to {MAX_ACTION_WORDS} words without control characters"
        )
    program, rest = words[0], list(words[1:])
    if program == "nmcli":
        return parse_nmcli(rest)
    if program == "ethtool":
        return parse_ethtool(rest)
    if program == "ip":
        return parse_ip(rest, undoing)
    if program == "bridge":
        return parse_bridge(rest)
    if program == "write":
        return parse_write(rest, undoing)
    raise ValueError("only nmcli, ethtool, ip, bridge and writes to some kernel files are allowed")


def is_word(value: object) -> bool:
    """Whether a value can be one argument of a program and can be shown: no control characters, no
    surrogates."""
    if not isinstance(value, str) or len(value) > MAX_WORD_CHARS:
        return False
    return not any(
        character < " " or "\x7f" <= character < "\xa0" or "\ud800" <= character < "\ue000"
        for character in value
    )


def pairs(words: Sequence[str], label: str) -> list[tuple[str, str]]:
    """(name, value) from alternating words, each name once. Raises ValueError."""
    if not words or len(words) % 2 or len(set(words[::2])) < len(words) // 2:
        raise ValueError(f"{label}: only pairs of NAME and VALUE are allowed")
    return list(zip(words[::2], words[1::2]))


def parse_ethtool(words: list[str]) -> Operation:
    """``-L NAME combined 4`` or ``-p NAME 10``; raises ValueError."""
    if words[:1] == ["-p"] and len(words) == 3:
        name, seconds = (
            link_name(words[1]),
            integer(words[2], MAX_IDENTIFY_SECONDS, "the number of seconds", 1),
        )
        return Operation(
            "identify", ("ethtool", "-p", name, seconds), name, (("identify", seconds),), name
        )
    if len(words) < 4 or (words[0] != "-K" and words[0] not in ETHTOOL_SETTINGS):
        raise ValueError(
            "ethtool: only -L, -G, -K, -C and -p with an interface and settings are allowed"
        )
    option, name = words[0], link_name(words[1])
    settings = pairs(words[2:], f"ethtool {option}")
    if option == "-K":
        kind: Kind = "features"
        if not all(
            FEATURE_NAME.fullmatch(feature) and value in ("on", "off")
            for feature, value in settings
        ):
            raise ValueError("ethtool -K: each feature needs on or off")
    else:
        kind, names = ETHTOOL_SETTINGS[option]
        for position, (key, value) in enumerate(settings):
            if key not in names:
                raise ValueError(f"ethtool {option}: only {', '.join(names)} are allowed")
            if key not in ON_OFF_SETTINGS:
                settings[position] = (key, integer(value, 0xFFFFFFFF, key))
            elif value not in ("on", "off"):
                raise ValueError(f"{key} must be on or off")
    run = ("ethtool", option, name, *(word for pair in settings for word in pair))
    return Operation(kind, run, name, tuple(settings), name)


def parse_ip(words: list[str], undoing: bool) -> Operation:
    """``link set dev NAME …`` or ``address add|del ADDRESS/LENGTH dev NAME``; raises ValueError."""
    if words[:2] == ["link", "set"]:
        rest = words[3:] if words[2:3] == ["dev"] else words[2:]
        if len(rest) >= 2:
            return parse_link_set(link_name(rest[0]), rest[1:], undoing)
    elif (
        words[:1] in (["address"], ["addr"])
        and len(words) >= 5
        and words[1] in ("add", "del")
        and words[3] == "dev"
    ):
        try:
            address = ipaddress.ip_interface(words[2])
        except ValueError:
            raise ValueError(f"{words[2]!r} is not an address with prefix length") from None
        if "/" not in words[2] or "%" in words[2]:
            raise ValueError(f"{words[2]!r} is not an address with prefix length")
        name, text = link_name(words[4]), address.with_prefixlen
        kind: Kind = "address add" if words[1] == "add" else "address del"
        state = "present" if words[1] == "add" else "absent"
        run = (
            "ip",
            "address",
            words[1],
            text,
            "dev",
            name,
            *address_options(words[5:], undoing and state == "present"),
        )
        return Operation(kind, run, name, ((text, state),), name)
    raise ValueError(
        "ip: only ip link set (mtu, up, vf, type) and ip address (add, del) are allowed"
    )


def address_options(words: list[str], allowed: bool) -> tuple[str, ...]:
    """The words after ``ip address add ADDRESS/LENGTH dev NAME``, in an undo: what the address had.
    Raises ValueError."""
    flags = [word for word in ADDRESS_FLAGS if word in words]
    rest = [word for word in words if word not in ADDRESS_FLAGS]
    if words and not allowed:
        raise ValueError("ip address: only an address and dev NAME are allowed")
    found = dict(pairs(rest, "ip address add")) if rest else {}
    for key, value in found.items():
        if key not in ADDRESS_OPTIONS or not ADDRESS_OPTIONS[key].fullmatch(value):
            raise ValueError(
                f"ip address add: only {', '.join((*ADDRESS_OPTIONS, *ADDRESS_FLAGS))} are allowed"
            )
    return (*(word for pair in found.items() for word in pair), *flags)


def parse_link_set(name: str, words: list[str], undoing: bool) -> Operation:
    """The words after ``ip link set dev NAME``; raises ValueError."""
    start = ("ip", "link", "set", "dev", name)
    if words == ["up"] or (undoing and words == ["down"]):
        return Operation(
            "up" if words == ["up"] else "down",
            (*start, words[0]),
            name,
            (("link", words[0]),),
            name,
        )
    if words[:1] == ["mtu"] and len(words) == 2:
        mtu = integer(words[1], MAX_MTU, "the MTU", MIN_MTU)
        return Operation("mtu", (*start, "mtu", mtu), name, (("mtu", mtu),), name)
    if words[:1] == ["vf"] and len(words) >= 4:
        number = integer(words[1], 65535, "vf")
        settings = tuple(vf_setting(*pair) for pair in pairs(words[2:], "vf"))
        names = [key for key, _ in settings]
        if "qos" in names and "vlan" not in names[: names.index("qos")][-1:]:
            raise ValueError("qos must follow vlan")
        run = (*start, "vf", number, *(word for pair in settings for word in pair))
        return Operation("virtual function", run, name, settings, name, number=int(number))
    if words[:1] == ["type"]:
        return parse_link_type(name, words[1:])
    raise ValueError(
        "ip link set: only mtu NUMBER, up, vf NUMBER with settings, and type with an option are "
        "allowed"
    )


def vf_setting(key: str, value: str) -> tuple[str, str]:
    """One attribute of a VF and its checked value. Raises ValueError."""
    if key == "mac":
        value = value.lower()
        if not HARDWARE_ADDRESS.fullmatch(value) or int(value[:2], 16) & 1:
            raise ValueError(f"{value!r} is not a unicast MAC address")
        return key, value
    if key in VF_MAXIMA:
        return key, integer(value, VF_MAXIMA[key], key)
    if value not in VF_CHOICES.get(key, ()):
        raise ValueError(
            f"ip link set vf: only {', '.join(('mac', *VF_MAXIMA, *VF_CHOICES))} with valid "
            f"values are allowed"
        )
    return key, value


def parse_write(words: list[str], undoing: bool) -> Operation:
    """``PATH TEXT``; the whole path must match one of the patterns above. Raises ValueError."""
    if len(words) != 2:
        raise ValueError("write: path and text needed")
    path, text = words
    run = ("write", path, text)
    match = AFFINITY_PATH.fullmatch(path)
    if match:
        if not CPU_LIST.fullmatch(text):
            raise ValueError(f"{text!r} is not a CPU list")
        number = int(match[1])
        return Operation(
            "affinity", run, f"irq {number}", (("smp_affinity_list", text),), number=number
        )
    match = STEERING_PATH.fullmatch(path)
    if match:
        name, queue_file = link_name(match[1]), match[2]
        if queue_file.endswith("rps_flow_cnt"):
            text = integer(text, MAX_FLOW_ENTRIES, "rps_flow_cnt")
        elif not CPU_MASK.fullmatch(text):
            raise ValueError(f"{text!r} is not a CPU mask")
        return Operation("steering", ("write", path, text), name, ((queue_file, text),), name)
    link, function = LINK_NUMVFS_PATH.fullmatch(path), PCI_NUMVFS_PATH.fullmatch(path)
    if link or function:
        text = integer(text, 65535, "sriov_numvfs", 0 if undoing else 1)
        name = link_name(link[1]) if link else ""
        subject = name or (function[1] if function else "")
        return Operation(
            "virtual functions", ("write", path, text), subject, (("sriov_numvfs", text),), name
        )
    match = BONDING_PRIMARY_PATH.fullmatch(path)
    if undoing and match and not text:
        name = link_name(match[1])
        return Operation("bond", run, name, (("primary", ""),), name)
    match = SYSCTL_PATH.fullmatch(path)
    if match:
        text = integer(
            text, MAX_FLOW_ENTRIES if match[1] == "rps_sock_flow_entries" else 0x7FFFFFFF, match[1]
        )
        return Operation(
            "sysctl", ("write", path, text), f"net.core.{match[1]}", ((match[1], text),)
        )
    raise ValueError("nictop does not write this file")
