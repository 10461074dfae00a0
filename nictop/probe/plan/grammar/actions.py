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
from nictop.probe.plan.grammar.operation import Kind, Operation, flattened, integer, link_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    WriteParser = Callable[[re.Match[str], str, bool], Operation]
    """The match of the path, the text, and whether it is an undo → the operation. Raises
    ValueError."""

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
    "preferred_lft": re.compile(r"[0-9]{1,10}", re.ASCII),
}
"""Option of ``ip address add`` in an undo → its values."""
ADDRESS_FLAGS = {
    "nodad": 0x02, "home": 0x10, "mngtmpaddr": 0x100, "noprefixroute": 0x200, "autojoin": 0x400,
}  # fmt: skip
"""Word of ``ip address add`` → IFA_F_*: all that inet6_rtm_newaddr() of net/ipv6/addrconf.c takes,
but "optimistic", which is about one detection of duplicates."""
MAX_FLOW_ENTRIES = 1 << 20
"""Entries of a receive flow steering table. The kernel accepts 512 times as many, which would use
gigabytes."""
MIN_MTU, MAX_MTU = 68, 65535
MAX_IDENTIFY_SECONDS = 60
NOT_WRITTEN = "nictop does not write this file"


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
    option = words[0] if words else ""
    if option == "-p" and len(words) == 3:
        return _identify_operation(words[1], words[2])
    is_allowed = option == "-K" or option in ETHTOOL_SETTINGS
    if not is_allowed or len(words) < 4:
        raise ValueError(
            "ethtool: only -L, -G, -K, -C and -p with an interface and settings are allowed"
        )
    name = link_name(words[1])
    given = pairs(words[2:], f"ethtool {option}")
    kind: Kind = "features"
    if option == "-K":
        settings = _feature_settings(given)
    else:
        kind, names = ETHTOOL_SETTINGS[option]
        settings = tuple(_ethtool_setting(option, names, key, value) for key, value in given)
    run = ("ethtool", option, name, *flattened(settings))
    return Operation(kind, run, name, settings, name)


def _identify_operation(word: str, duration: str) -> Operation:
    name = link_name(word)
    seconds = integer(duration, MAX_IDENTIFY_SECONDS, "the number of seconds", 1)
    run = ("ethtool", "-p", name, seconds)
    return Operation("identify", run, name, (("identify", seconds),), name)


def _feature_settings(given: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    for feature, value in given:
        if not FEATURE_NAME.fullmatch(feature) or value not in ("on", "off"):
            raise ValueError("ethtool -K: each feature needs on or off")
    return tuple(given)


def _ethtool_setting(option: str, names: Sequence[str], key: str, value: str) -> tuple[str, str]:
    if key not in names:
        raise ValueError(f"ethtool {option}: only {', '.join(names)} are allowed")
    if key not in ON_OFF_SETTINGS:
        return key, integer(value, 0xFFFFFFFF, key)
    if value not in ("on", "off"):
        raise ValueError(f"{key} must be on or off")
    return key, value


def parse_ip(words: list[str], undoing: bool) -> Operation:
    """``link set dev NAME …`` or ``address add|del ADDRESS/LENGTH dev NAME``; raises ValueError."""
    if words[:2] == ["link", "set"]:
        rest = words[3:] if words[2:3] == ["dev"] else words[2:]
        if len(rest) >= 2:
            return parse_link_set(link_name(rest[0]), rest[1:], undoing)
    elif words[:1] in (["address"], ["addr"]) and len(words) >= 5:
        verb, address, word, name = words[1:5]
        if verb in ("add", "del") and word == "dev":
            return _address_operation(verb, address, name, words[5:], undoing)
    raise ValueError(
        "ip: only ip link set (mtu, up, vf, type) and ip address (add, del) are allowed"
    )


def _address_operation(
    verb: str, word: str, name: str, options: list[str], undoing: bool
) -> Operation:
    """``ip address add|del ADDRESS/LENGTH dev NAME``, with `options`; raises ValueError."""
    try:
        address = ipaddress.ip_interface(word)
    except ValueError:
        raise ValueError(f"{word!r} is not an address with prefix length") from None
    if "/" not in word or "%" in word:
        raise ValueError(f"{word!r} is not an address with prefix length")
    name, text = link_name(name), address.with_prefixlen
    kind: Kind = "address add"
    state = "present"
    if verb == "del":
        kind, state = "address del", "absent"
    words = address_options(options, verb, undoing=undoing)
    run = ("ip", "address", verb, text, "dev", name, *words)
    return Operation(kind, run, name, ((text, state),), name)


def address_options(words: list[str], verb: str, *, undoing: bool) -> tuple[str, ...]:
    """The words after ``ip address add ADDRESS/LENGTH dev NAME``: flags, and whether it is
    preferred; in an undo all that the address had. Raises ValueError."""
    if not words:
        return ()
    flags = [word for word in ADDRESS_FLAGS if word in words]
    rest = [word for word in words if word not in ADDRESS_FLAGS]
    is_allowed = undoing or rest in ([], ["preferred_lft", "0"])
    if verb != "add" or not is_allowed:
        raise ValueError("ip address: only an address and dev NAME are allowed")
    found = pairs(rest, "ip address add") if rest else []
    for key, value in found:
        if key not in ADDRESS_OPTIONS or not ADDRESS_OPTIONS[key].fullmatch(value):
            raise ValueError(
                f"ip address add: only {', '.join((*ADDRESS_OPTIONS, *ADDRESS_FLAGS))} are allowed"
            )
    return (*flattened(found), *flags)


def parse_link_set(name: str, words: list[str], undoing: bool) -> Operation:
    """The words after ``ip link set dev NAME``; raises ValueError."""
    start = ("ip", "link", "set", "dev", name)
    if words == ["up"]:
        return Operation("up", (*start, "up"), name, (("link", "up"),), name)
    if words == ["down"] and undoing:
        return Operation("down", (*start, "down"), name, (("link", "down"),), name)
    if words[:1] == ["mtu"] and len(words) == 2:
        mtu = integer(words[1], MAX_MTU, "the MTU", MIN_MTU)
        return Operation("mtu", (*start, "mtu", mtu), name, (("mtu", mtu),), name)
    if words[:1] == ["vf"] and len(words) >= 4:
        number = integer(words[1], 65535, "vf")
        settings = vf_settings(words[2:])
        run = (*start, "vf", number, *flattened(settings))
        return Operation("virtual function", run, name, settings, name, number=int(number))
    if words[:1] == ["type"]:
        return parse_link_type(name, words[1:])
    raise ValueError(
        "ip link set: only mtu NUMBER, up, vf NUMBER with settings, and type with an option are "
        "allowed"
    )


def vf_settings(words: list[str]) -> tuple[tuple[str, str], ...]:
    """The words after ``vf NUMBER``: ``vlan 7 qos 3``. Raises ValueError."""
    settings = tuple(vf_setting(key, value) for key, value in pairs(words, "vf"))
    names = [key for key, _ in settings]
    if "qos" in names and "vlan" not in names[: names.index("qos")][-1:]:
        raise ValueError("qos must follow vlan")
    return settings


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
    """``PATH TEXT``; the whole path must match one of `WRITTEN_FILES`. Raises ValueError."""
    if len(words) != 2:
        raise ValueError("write: path and text needed")
    path, text = words
    for pattern, operation in WRITTEN_FILES:
        match = pattern.fullmatch(path)
        if match:
            return operation(match, text, undoing)
    raise ValueError(NOT_WRITTEN)


def _affinity_write(path: re.Match[str], text: str, _undoing: bool) -> Operation:
    if not CPU_LIST.fullmatch(text):
        raise ValueError(f"{text!r} is not a CPU list")
    number = int(path[1])
    settings = (("smp_affinity_list", text),)
    return Operation("affinity", ("write", path[0], text), f"irq {number}", settings, number=number)


def _steering_write(path: re.Match[str], text: str, _undoing: bool) -> Operation:
    name, queue_file = link_name(path[1]), path[2]
    if queue_file.endswith("rps_flow_cnt"):
        text = integer(text, MAX_FLOW_ENTRIES, "rps_flow_cnt")
    elif not CPU_MASK.fullmatch(text):
        raise ValueError(f"{text!r} is not a CPU mask")
    return Operation("steering", ("write", path[0], text), name, ((queue_file, text),), name)


def _link_numvfs_write(path: re.Match[str], text: str, undoing: bool) -> Operation:
    number = _vf_number(text, undoing)
    name = link_name(path[1])
    settings = (("sriov_numvfs", number),)
    return Operation("virtual functions", ("write", path[0], number), name, settings, name)


def _function_numvfs_write(path: re.Match[str], text: str, undoing: bool) -> Operation:
    number = _vf_number(text, undoing)
    settings = (("sriov_numvfs", number),)
    return Operation("virtual functions", ("write", path[0], number), path[1], settings)


def _vf_number(text: str, undoing: bool) -> str:
    """None at all only in an undo."""
    return integer(text, 65535, "sriov_numvfs", 0 if undoing else 1)


def _primary_port_write(path: re.Match[str], text: str, undoing: bool) -> Operation:
    """Only an undo, and only that there is no primary port: ``ip link`` has no word for that."""
    if text or not undoing:
        raise ValueError(NOT_WRITTEN)
    name = link_name(path[1])
    return Operation("bond", ("write", path[0], ""), name, (("primary", ""),), name)


def _sysctl_write(path: re.Match[str], text: str, _undoing: bool) -> Operation:
    name = path[1]
    maximum = MAX_FLOW_ENTRIES if name == "rps_sock_flow_entries" else 0x7FFFFFFF
    number = integer(text, maximum, name)
    return Operation("sysctl", ("write", path[0], number), f"net.core.{name}", ((name, number),))


WRITTEN_FILES: tuple[tuple[re.Pattern[str], WriteParser], ...] = (
    (AFFINITY_PATH, _affinity_write),
    (STEERING_PATH, _steering_write),
    (LINK_NUMVFS_PATH, _link_numvfs_write),
    (PCI_NUMVFS_PATH, _function_numvfs_write),
    (BONDING_PRIMARY_PATH, _primary_port_write),
    (SYSCTL_PATH, _sysctl_write),
)
