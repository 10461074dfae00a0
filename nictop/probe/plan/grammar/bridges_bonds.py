"""Parse the words of changes of bridges and bonds into an `Operation`, or reject them (ValueError).
Pure.

Allowed are a VLAN of a bridge port or bridge, some settings of a bridge port (``bridge``),
``vlan_filtering`` of a bridge and some options of a bond (``ip link set … type``): those that can
be changed while the link is up and restored by a command of the same kind. See bridge(8),
ip-link(8).
"""

from __future__ import annotations

import re

from nictop.probe.plan.grammar.operation import Kind, Operation, integer, link_name

MAX_VLAN_ID = 4094
MAX_PATH_COST = 65535
"""BR_MAX_PATH_COST"""
PORT_FLAGS = (
    *("guard", "hairpin", "learning", "flood", "bcast_flood", "isolated"),
    *("neigh_suppress", "locked"),
)
"""Settings of a port that are on or off; names of bridge(8)."""
PORT_STATES = ("disabled", "listening", "learning", "forwarding", "blocking")
"""By number, as bridge(8) sets them (BR_STATE_*)."""
HASH_POLICIES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac")
BOND_NUMBERS = {"miimon": 60_000, "min_links": 1024}
"""Option → largest value."""
BOND_PORTS = ("primary", "active_slave")
"""Options whose value is a port."""
BOND_OPTIONS = (*BOND_NUMBERS, *BOND_PORTS, "xmit_hash_policy")
BONDING_PRIMARY_PATH = re.compile(r"/sys/class/net/([^/]+)/bonding/primary")
"""An empty text removes the primary, for which ip(8) has no word."""


def parse_bridge(words: list[str]) -> Operation:
    """``vlan add|del dev NAME vid NUMBER [pvid] [untagged] [self]`` or ``link set dev NAME SETTING
    VALUE``; raises ValueError."""
    if (
        words[:1] == ["vlan"]
        and len(words) >= 6
        and words[1] in ("add", "del")
        and words[2] == "dev"
    ):
        if words[4] == "vid":
            return parse_vlan(words[1] == "add", link_name(words[3]), words[5], words[6:])
    elif words[:3] == ["link", "set", "dev"] and len(words) == 6:
        return parse_port(link_name(words[3]), words[4], words[5])
    raise ValueError("bridge: only vlan add, vlan del and link set with one setting are allowed")


def parse_vlan(is_add: bool, name: str, vid: str, flags: list[str]) -> Operation:
    """Raises ValueError."""
    number = integer(vid, MAX_VLAN_ID, "vid", 1)
    allowed = ("pvid", "untagged", "self") if is_add else ("self",)
    if flags != [flag for flag in allowed if flag in flags]:
        raise ValueError(
            f"bridge vlan: only {', '.join(allowed)} are allowed after the number, in this order"
        )
    state = " ".join(flag for flag in flags if flag != "self") or "tagged"
    settings = [(f"vlan {number}", state if is_add else "absent")]
    if "pvid" in flags:
        settings.append(("pvid", number))
    verb = "add" if is_add else "del"
    run = ("bridge", "vlan", verb, "dev", name, "vid", number, *flags)
    kind: Kind = "bridge vlan add" if is_add else "bridge vlan del"
    return Operation(kind, run, name, tuple(settings), name, number=int(number))


def parse_port(name: str, key: str, value: str) -> Operation:
    """Raises ValueError."""
    if key == "cost":
        value = integer(value, MAX_PATH_COST, key, 1)
    elif key == "state":
        value = integer(value, len(PORT_STATES) - 1, key)
    elif key not in PORT_FLAGS:
        raise ValueError(f"bridge link set: only cost, state, {', '.join(PORT_FLAGS)} are allowed")
    elif value not in ("on", "off"):
        raise ValueError(f"{key} must be on or off")
    return Operation(
        "bridge port",
        ("bridge", "link", "set", "dev", name, key, value),
        name,
        ((key, value),),
        name,
    )


def parse_link_type(name: str, words: list[str]) -> Operation:
    """The words after ``ip link set dev NAME type``: ``bridge vlan_filtering 0|1`` or ``bond OPTION
    VALUE``; raises ValueError."""
    start = ("ip", "link", "set", "dev", name, "type")
    if words[:2] == ["bridge", "vlan_filtering"] and len(words) == 3 and words[2] in ("0", "1"):
        return Operation("bridge", (*start, *words), name, (("vlan_filtering", words[2]),), name)
    if words[:1] == ["bond"] and len(words) == 3:
        key, value = words[1], bond_value(*words[1:])
        return Operation("bond", (*start, "bond", key, value), name, ((key, value),), name)
    raise ValueError(
        "ip link set type: only bridge vlan_filtering and one option of a bond are allowed"
    )


def bond_value(key: str, value: str) -> str:
    """Raises ValueError."""
    if key in BOND_PORTS:
        return link_name(value)
    if key == "xmit_hash_policy" and value in HASH_POLICIES:
        return value
    if key in BOND_NUMBERS:
        return integer(value, BOND_NUMBERS[key], key)
    raise ValueError(f"bond: only {', '.join(BOND_OPTIONS)} with valid values are allowed")
