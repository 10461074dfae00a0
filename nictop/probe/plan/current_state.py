"""The present values of the settings that an operation would change: an `Operation` → setting names
with values.

Reads with the probe's own code (ethtool netlink and ioctl, rtnetlink, files below /proc and /sys),
one link at a time; output of programs is not used. The same function reads before the change, after
it and after the undo, and so decides whether a change took effect. The roots of /proc and /sys are
parameters.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import socket
from collections.abc import Callable

from nictop.probe.inventory.ethtool import reader as ethtool
from nictop.probe.inventory.links.bond_messages import with_bond
from nictop.probe.inventory.links.bridge_vlans import read_vlans
from nictop.probe.inventory.links.messages import parse_link
from nictop.probe.inventory.links.routes import parse_address
from nictop.probe.kernel.netlink import NETLINK_GENERIC, NETLINK_ROUTE, NetlinkSocket, pack_u32
from nictop.probe.kernel.rtnetlink import (
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    IFLA_EXT_MASK,
    RTEXT_FILTER_VF,
    RTM_GETADDR,
    RTM_GETLINK,
)
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.grammar.bridges_bonds import BOND_PORTS, PORT_STATES
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.records import Address, Channels, Feature, Link, Rings, Unreadable

FEATURE_GROUPS = {
    name: pattern
    for names, pattern in (
        (("rx", "rx-checksumming"), "rx-checksum"),
        (("tx", "tx-checksumming"), "tx-checksum-*"),
        (("sg", "scatter-gather"), "tx-scatter-gather*"),
        (("tso", "tcp-segmentation-offload"), "tx-tcp*-segmentation"),
        (("gso", "generic-segmentation-offload"), "tx-generic-segmentation"),
        (("gro", "generic-receive-offload"), "rx-gro"),
        (("lro", "large-receive-offload"), "rx-lro"),
        (("rxvlan", "rx-vlan-offload"), "rx-vlan-hw-parse"),
        (("txvlan", "tx-vlan-offload"), "tx-vlan-hw-insert"),
        (("ntuple", "ntuple-filters"), "rx-ntuple-filter"),
        (("rxhash", "receive-hashing"), "rx-hashing"),
    )
    for name in names
}
"""Short and long names of ``ethtool -K`` → pattern of the kernel's feature names (off_flag_def in
ethtool.c)."""

State = dict[str, str]
"""Setting → value, as ethtool, ip or the file writes it."""


@dataclass(frozen=True)
class Roots:
    """Where sysfs and procfs are mounted."""

    sys: str = "/sys"
    proc: str = "/proc"

    def path(self, path: str) -> str:
        """The file for a path of an action, which begins with ``/sys/`` or ``/proc/``."""
        root, suffix = (self.sys, path[4:]) if path.startswith("/sys/") else (self.proc, path[5:])
        return root + suffix


def read_state(operation: Operation, roots: Roots) -> State:
    """The present state of the settings of `operation`. Raises ValueError with a sentence: the
    setting does not exist on this host, or it cannot be read."""
    try:
        return READERS[operation.kind](operation, roots)
    except OSError as error:
        raise ValueError(f"cannot read {operation.subject}: {error.strerror or error}") from None


def target_state(operation: Operation, before: State) -> State:
    """What `read_state` returns once the operation is done."""
    if operation.kind == "features":
        wanted = {}
        for key, value in operation.settings:
            wanted.update(dict.fromkeys(matching_features(key, before), value))
        return wanted
    if operation.kind == "identify":
        return {"LED": f"blinks for {operation.settings[0][1]} s, then normal"}
    if operation.kind == "virtual function":  # a vlan without a qos means qos 0
        return {key: dict(operation.settings).get(key, "0") for key in before}
    return dict(operation.settings)


def equal(one: State, other: State) -> bool:
    """Whether two states are equal, regardless of notation (``f`` and ``0000000f``, ``0-1`` and
    ``0,1``)."""
    return one.keys() == other.keys() and all(
        comparable(key, one[key]) == comparable(key, other[key]) for key in one
    )


def comparable(key: str, value: str) -> object:
    """A value in a form independent of its notation: a mask as int, a CPU list as frozenset, else
    the text."""
    if key.endswith(("rps_cpus", "xps_cpus")):
        try:
            return int(value.replace(",", "") or "0", 16)
        except ValueError:
            return value
    if key == "smp_affinity_list":
        cpus: set[int] = set()
        for part in value.split(","):
            first, dash, last = part.partition("-")
            low, high = parse_integer(first), parse_integer(last) if dash else parse_integer(first)
            if low is None or high is None or high - low > 65536:
                return value
            cpus.update(range(low, high + 1))
        return frozenset(cpus)
    return value


def as_text(state: State) -> str:
    """In one line: ``combined 4``."""
    return " ".join(f"{name} {value}" for name, value in state.items())


def read_ifindex(name: str) -> int:
    """ifindex of an interface name. Raises ValueError when there is no such link."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise ValueError(f"no interface {name}") from None


def read_link(name: str) -> Link:
    """One link with its VFs (RTM_GETLINK with RTEXT_FILTER_VF). Raises ValueError and OSError."""
    index = read_ifindex(name)
    query = IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0) + pack_u32(
        IFLA_EXT_MASK, RTEXT_FILTER_VF
    )
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for _, payload in netlink.request(RTM_GETLINK, query):
            link = parse_link(payload)
            if link is not None:
                return with_bond(link, payload)
    raise ValueError(f"the kernel reports nothing about {name}")


def read_ethtool_part(name: str, part: str) -> object:
    """One field of `records.Ethtool` of one link. Raises ValueError and OSError."""
    index = read_ifindex(name)
    command, flags = next(
        (command, flags) for one, command, flags in ethtool.NETLINK_COMMANDS if one == part
    )
    value: object = Unreadable("missing")
    try:
        with NetlinkSocket(NETLINK_GENERIC) as netlink:
            strings = ethtool.read_string_sets(netlink) if part == "features" else {}
            answers = {part: ethtool.request_each(netlink, command, flags, [index])}
        value = ethtool.part_from_replies(part, index, answers, strings)
    except OSError as error:
        if error.errno != errno.ENOENT:  # a kernel without the family: the ioctl below
            raise
    if isinstance(value, Unreadable):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            value = ethtool.read_by_ioctl(control, name, ethtool.IOCTL_READERS[part])
    if isinstance(value, Unreadable):
        raise ValueError(f"the driver of {name} does not support {part}: {value.detail}")
    return value


def read_counts(operation: Operation, part: str, kind: type) -> State:
    """Settings of `records.Channels` or `records.Rings`: record fields with a maximum each. Raises
    ValueError."""
    record = read_ethtool_part(operation.interface, part)
    assert isinstance(record, kind)
    state = {}
    for key, wanted in operation.settings:
        now, maximum = (getattr(record, field + key.replace("-", "_")) for field in ("", "max_"))
        if now is None or maximum is None:
            raise ValueError(f"{operation.interface} has no {key} {part}")
        if int(wanted) > maximum:
            raise ValueError(f"{operation.interface} has at most {maximum} {key} {part}")
        state[key] = str(now)
    return state


def read_features(operation: Operation, _: Roots) -> State:
    """All changeable features of the link that the operation sets."""
    record = read_ethtool_part(operation.interface, "features")
    assert isinstance(record, tuple)
    features = [one for one in record if isinstance(one, Feature) and not one.fixed]
    now = {one.name: "on" if one.active else "off" for one in features}
    state: State = {}
    for key, _value in operation.settings:
        names = matching_features(key, now)
        if not names:
            raise ValueError(f"{operation.interface} has no changeable feature {key}")
        state.update({name: now[name] for name in names})
    return state


def matching_features(key: str, state: State) -> list[str]:
    """Names in `state` that ``ethtool -K`` sets by the name `key`."""
    return [
        name
        for name in state
        if name == key or fnmatch.fnmatchcase(name, FEATURE_GROUPS.get(key, ""))
    ]


def read_coalescing(operation: Operation, _: Roots) -> State:
    """Coalescing settings (ethtool -c). Raises ValueError for those that the driver does not
    have."""
    record = read_ethtool_part(operation.interface, "coalescing")
    assert isinstance(record, dict)
    missing = [key for key, _value in operation.settings if key not in record]
    if missing:
        raise ValueError(
            f"the driver of {operation.interface} does not support {', '.join(missing)}"
        )
    words = {"adaptive-rx": ("off", "on"), "adaptive-tx": ("off", "on")}
    return {
        key: words[key][bool(record[key])] if key in words else str(record[key])
        for key, _value in operation.settings
    }


def read_mtu(operation: Operation, _: Roots) -> State:
    link = read_link(operation.interface)
    wanted = int(operation.settings[0][1])
    if wanted < (link.min_mtu or 0) or (link.max_mtu and wanted > link.max_mtu):
        raise ValueError(
            f"the driver of {operation.interface} accepts an MTU of {link.min_mtu} to "
            f"{link.max_mtu}"
        )
    return {"mtu": str(link.mtu)}


def read_admin_state(operation: Operation, _: Roots) -> State:
    return {"link": "up" if read_link(operation.interface).flags & IFF_UP else "down"}


def read_vf(operation: Operation, _: Roots) -> State:
    """Attributes of one VF (IFLA_VFINFO_LIST); a vlan includes its qos. Raises ValueError for those
    the driver does not report, and for an 802.1ad VLAN, which ip could not restore."""
    name = operation.interface
    found = [one for one in read_link(name).virtual_functions if one.number == operation.number]
    if not found:
        raise ValueError(f"{name} has no VF {operation.number}")
    one = found[0]
    flags = {None: None, True: "on", False: "off"}
    known = {
        "mac": one.address,
        "vlan": one.vlan,
        "qos": one.qos,
        "max_tx_rate": one.max_tx_rate,
        "min_tx_rate": one.min_tx_rate,
        "spoofchk": flags[one.spoof_check],
        "trust": flags[one.trust],
        "state": one.link_state,
    }
    keys = [key for key, _value in operation.settings]
    if "vlan" in keys and "qos" not in keys:
        keys.append("qos")
    if "vlan" in keys and one.vlan and one.vlan_protocol not in (None, "802.1Q"):
        raise ValueError(
            f"VF {operation.number} of {name} has an {one.vlan_protocol} VLAN, which could not be "
            f"restored"
        )
    missing = [key for key in keys if known[key] is None]
    if missing:
        raise ValueError(f"the driver of {name} does not report {', '.join(missing)} of a VF")
    return {key: str(known[key]) for key in keys}


def read_vlan(operation: Operation, _: Roots) -> State:
    """One VLAN of a bridge port or bridge, and its PVID if that would be changed."""
    vlans = read_vlans().get(read_ifindex(operation.interface), ())
    found = next((one for one in vlans if one.first <= operation.number <= one.last), None)
    state = "absent"
    if found is not None:
        flags = (("pvid", found.pvid), ("untagged", found.untagged))
        state = " ".join(name for name, is_set in flags if is_set) or "tagged"
    pvid = next((str(one.first) for one in vlans if one.pvid), "none")
    values = {"pvid": pvid}
    return {key: values.get(key, state) for key, _value in operation.settings}


def read_bridge_port(operation: Operation, _: Roots) -> State:
    port = read_link(operation.interface).bridge_port
    (key, _value), *_rest = operation.settings
    if port is None:
        raise ValueError(f"{operation.interface} is not a port of a bridge")
    if key == "state":
        return {key: str(PORT_STATES.index(port.state))}
    value = getattr(port, key)
    if value is None:
        raise ValueError(f"the kernel does not report {key} of {operation.interface}")
    if key == "cost":
        return {key: str(value)}
    return {key: "on" if value else "off"}


def read_bridge(operation: Operation, _: Roots) -> State:
    value = read_link(operation.interface).details.get("bridge_vlan_filtering")
    if value is None:
        raise ValueError(f"{operation.interface} is not a bridge")
    return {"vlan_filtering": "1" if value else "0"}


def read_bond(operation: Operation, _: Roots) -> State:
    name, key = operation.interface, operation.settings[0][0]
    bond = read_link(name).bond
    if bond is None:
        raise ValueError(f"{name} is not a bond")
    if key in BOND_PORTS:
        index = bond.primary if key == "primary" else bond.active_port
        return {key: "" if index is None else socket.if_indextoname(index)}
    value = bond.hash_policy if key == "xmit_hash_policy" else getattr(bond, key)
    if value is None:
        raise ValueError(f"the kernel does not report {key} of {name}")
    return {key: str(value)}


def read_addresses(name: str) -> list[Address]:
    """Addresses of one link. Raises ValueError and OSError."""
    index = read_ifindex(name)
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        payloads = netlink.dump(RTM_GETADDR, IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, index))
    parsed = [parse_address(payload) for _, payload in payloads]
    return [one[1] for one in parsed if one is not None and one[0] == index]


def read_address(operation: Operation, _: Roots) -> State:
    text = operation.settings[0][0]
    now = {f"{one.address}/{one.prefix_length}" for one in read_addresses(operation.interface)}
    return {text: "present" if text in now else "absent"}


def read_led(operation: Operation, _: Roots) -> State:
    """The kernel does not report it: outside ``ethtool -p`` it shows link and traffic."""
    read_ifindex(operation.interface)
    return {"LED": "normal"}


def read_file(operation: Operation, roots: Roots) -> State:
    """A file with one value. Raises ValueError, also when sysfs belongs to another network
    namespace."""
    if operation.interface:
        index = read_text(f"{roots.sys}/class/net/{operation.interface}/ifindex")
        if roots == Roots() and (
            not isinstance(index, str) or parse_integer(index) != read_ifindex(operation.interface)
        ):
            raise ValueError(
                f"/sys belongs to another network namespace without {operation.interface}"
            )
    content = read_text(roots.path(operation.words[1]))
    if isinstance(content, Unreadable):
        problem = f"{operation.subject} has no {os.path.basename(operation.words[1])}"
        if content.reason != "missing":
            problem += f" that can be read: {content.detail}"
        raise ValueError(problem)
    return {operation.settings[0][0]: content}


READERS: dict[str, Callable[[Operation, Roots], State]] = {
    "channels": lambda operation, _: read_counts(operation, "channels", Channels),
    "rings": lambda operation, _: read_counts(operation, "rings", Rings),
    "features": read_features,
    "coalescing": read_coalescing,
    "mtu": read_mtu,
    "up": read_admin_state,
    "down": read_admin_state,
    "virtual function": read_vf,
    "address add": read_address,
    "address del": read_address,
    "affinity": read_file,
    "steering": read_file,
    "virtual functions": read_file,
    "sysctl": read_file,
    "bridge vlan add": read_vlan,
    "bridge vlan del": read_vlan,
    "bridge port": read_bridge_port,
    "bridge": read_bridge,
    "bond": read_bond,
    "identify": read_led,
}
