"""Set kernel settings by netlink in this process, as ip, bridge and ethtool do: rollbacks need no
program, so that they work when no process id, memory or descriptor is free for one.

Takes an `Operation`, yields the message of rtnetlink or of the generic netlink family ethtool. Not
for attributes of VFs (the kernel takes rates together, and drivers differ), nor for what is written
to files.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Callable

from nictop.probe.inventory.ethtool import messages as ethtool
from nictop.probe.inventory.ethtool.reader import FAMILY, NLA_F_NESTED, header
from nictop.probe.inventory.links.bond_messages import (
    HASH_POLICIES,
    IFLA_BOND_ACTIVE_SLAVE,
    IFLA_BOND_MIIMON,
    IFLA_BOND_MIN_LINKS,
    IFLA_BOND_PRIMARY,
    IFLA_BOND_XMIT_HASH_POLICY,
)
from nictop.probe.inventory.links.messages import (
    BRIDGE_PORT_FLAGS,
    IFLA_BR_VLAN_FILTERING,
    IFLA_BRPORT_COST,
    IFLA_BRPORT_STATE,
)
from nictop.probe.inventory.links.routes import IFA_CACHEINFO, IFA_CACHEINFO_STRUCT
from nictop.probe.kernel.if_link import IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MTU
from nictop.probe.kernel.netlink import (
    NETLINK_GENERIC,
    NETLINK_ROUTE,
    NetlinkSocket,
    pack_attribute,
    pack_text,
    pack_u32,
)
from nictop.probe.kernel.rtnetlink import (
    IFA_ADDRESS,
    IFA_FLAGS,
    IFA_LOCAL,
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_NEWADDR,
    RTM_NEWLINK,
)
from nictop.probe.plan.current_state import read_ifindex
from nictop.probe.plan.grammar.actions import ADDRESS_FLAGS
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.undo import (
    IFA_BROADCAST,
    IFA_LABEL,
    IFA_RT_PRIORITY,
    INFINITE_SECONDS,
    default_scope,
)

SET_TIMEOUT = 20.0
"""Seconds; a driver that resets its device needs several."""
RTM_SETLINK = 19
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
IFLA_PROTINFO, IFLA_AF_SPEC = 12, 26
IFLA_BRIDGE_FLAGS, IFLA_BRIDGE_VLAN_INFO, BRIDGE_FLAGS_SELF = 0, 2, 2
BRIDGE_VLAN_FLAGS = {"pvid": 2, "untagged": 4}
(
    ETHTOOL_MSG_FEATURES_SET,
    ETHTOOL_MSG_RINGS_SET,
    ETHTOOL_MSG_CHANNELS_SET,
    ETHTOOL_MSG_COALESCE_SET,
) = 12, 16, 18, 20
ETHTOOL_A_BITSET_BITS_BIT = 1
ON_OFF = {"off": 0, "on": 1}
BOND_NUMBERS = {"miimon": IFLA_BOND_MIIMON, "min_links": IFLA_BOND_MIN_LINKS}
BOND_PORTS = {"primary": IFLA_BOND_PRIMARY, "active_slave": IFLA_BOND_ACTIVE_SLAVE}

RouteMessage = tuple[int, bytes, int]
"""Type, payload and flags of an rtnetlink message."""


def set_by_netlink(operation: Operation) -> bool:
    """Whether the kernel was asked for the settings of an operation; not for the kinds that this
    module does not have. The caller reads the result. Raises OSError, and ValueError when the link
    does not exist."""
    if operation.words[0] == "write":
        return False
    if operation.kind in ROUTE_MESSAGES:
        kind, payload, flags = ROUTE_MESSAGES[operation.kind](
            operation, read_ifindex(operation.interface)
        )
        with NetlinkSocket(NETLINK_ROUTE, SET_TIMEOUT) as netlink:
            netlink.request(kind, payload, flags)
        return True
    if operation.kind in ETHTOOL_MESSAGES:
        command, attributes = ETHTOOL_MESSAGES[operation.kind]
        request = header(0, read_ifindex(operation.interface)) + attributes(operation)
        with NetlinkSocket(NETLINK_GENERIC, SET_TIMEOUT) as netlink:
            netlink.generic(FAMILY, command, request)
        return True
    return False


def nested(kind: int, value: bytes) -> bytes:
    return pack_attribute(kind | NLA_F_NESTED, value)


def pack_u8(kind: int, value: int) -> bytes:
    return pack_attribute(kind, bytes((value,)))


# ---------------------------------------------------------------------------------------- rtnetlink


def link_mtu(operation: Operation, index: int) -> RouteMessage:
    ((_, mtu),) = operation.settings
    return (
        RTM_NEWLINK,
        IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0) + pack_u32(IFLA_MTU, int(mtu)),
        0,
    )


def link_state(operation: Operation, index: int) -> RouteMessage:
    flags = IFF_UP if operation.kind == "up" else 0
    return RTM_NEWLINK, IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, flags, IFF_UP), 0


def link_address(operation: Operation, index: int) -> RouteMessage:
    """As ``ip address add``: what has no option is not set, and the scope is global but for
    loopback addresses."""
    ((text, _),) = operation.settings
    interface = ipaddress.ip_interface(text)
    family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
    words = operation.words[6:]
    options = dict(zip(words[::2], words[1::2]))
    scope = int(options.get("scope", default_scope(text)))
    packed = interface.ip.packed
    payload = IFADDRMSG.pack(family, interface.network.prefixlen, 0, scope, index)
    payload += pack_attribute(IFA_LOCAL, packed) + pack_attribute(IFA_ADDRESS, packed)
    if "broadcast" in options:
        payload += pack_attribute(IFA_BROADCAST, ipaddress.ip_address(options["broadcast"]).packed)
    if "label" in options:
        payload += pack_text(IFA_LABEL, options["label"])
    if "metric" in options:
        payload += pack_u32(IFA_RT_PRIORITY, int(options["metric"]))
    if "preferred_lft" in options:
        seconds = int(options["preferred_lft"]), INFINITE_SECONDS, 0, 0
        payload += pack_attribute(IFA_CACHEINFO, IFA_CACHEINFO_STRUCT.pack(*seconds))
    payload += pack_u32(IFA_FLAGS, sum(bit for word, bit in ADDRESS_FLAGS.items() if word in words))
    if operation.kind == "address add":
        return RTM_NEWADDR, payload, NLM_F_CREATE | NLM_F_EXCL
    return RTM_DELADDR, payload, 0


def bridge_vlan(operation: Operation, index: int) -> RouteMessage:
    flags = sum(number for word, number in BRIDGE_VLAN_FLAGS.items() if word in operation.words[7:])
    info = pack_attribute(IFLA_BRIDGE_VLAN_INFO, struct.pack("=HH", flags, operation.number))
    if "self" in operation.words[7:]:
        info = pack_attribute(IFLA_BRIDGE_FLAGS, struct.pack("=H", BRIDGE_FLAGS_SELF)) + info
    kind = RTM_SETLINK if operation.kind == "bridge vlan add" else RTM_DELLINK
    return kind, IFINFOMSG.pack(socket.AF_BRIDGE, 0, index, 0, 0) + nested(IFLA_AF_SPEC, info), 0


def bridge_port(operation: Operation, index: int) -> RouteMessage:
    ((key, value),) = operation.settings
    if key == "cost":
        setting = pack_u32(IFLA_BRPORT_COST, int(value))
    elif key == "state":
        setting = pack_u8(IFLA_BRPORT_STATE, int(value))
    else:
        setting = pack_u8(BRIDGE_PORT_FLAGS[key], ON_OFF[value])
    return (
        RTM_SETLINK,
        IFINFOMSG.pack(socket.AF_BRIDGE, 0, index, 0, 0) + nested(IFLA_PROTINFO, setting),
        0,
    )


def bridge(operation: Operation, index: int) -> RouteMessage:
    ((_, value),) = operation.settings
    return link_information(index, "bridge", pack_u8(IFLA_BR_VLAN_FILTERING, int(value)))


def bond(operation: Operation, index: int) -> RouteMessage:
    ((key, value),) = operation.settings
    if key in BOND_NUMBERS:
        setting = pack_u32(BOND_NUMBERS[key], int(value))
    elif key in BOND_PORTS:
        setting = pack_u32(BOND_PORTS[key], read_ifindex(value))
    else:
        numbers = {name: number for number, name in HASH_POLICIES.items()}
        setting = pack_u8(IFLA_BOND_XMIT_HASH_POLICY, numbers[value])
    return link_information(index, "bond", setting)


def link_information(index: int, kind: str, data: bytes) -> RouteMessage:
    information = pack_text(IFLA_INFO_KIND, kind) + nested(IFLA_INFO_DATA, data)
    return (
        RTM_NEWLINK,
        IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0) + nested(IFLA_LINKINFO, information),
        0,
    )


ROUTE_MESSAGES: dict[str, Callable[[Operation, int], RouteMessage]] = {
    "mtu": link_mtu,
    "up": link_state,
    "down": link_state,
    "address add": link_address,
    "address del": link_address,
    "bridge vlan add": bridge_vlan,
    "bridge vlan del": bridge_vlan,
    "bridge port": bridge_port,
    "bridge": bridge,
    "bond": bond,
}

# ------------------------------------------------------------------------------------------ ethtool


def feature_attributes(operation: Operation) -> bytes:
    """ETHTOOL_A_FEATURES_WANTED: the features of the operation, by name; others are left alone."""
    bits = b""
    for name, value in operation.settings:
        bit = pack_text(ethtool.ETHTOOL_A_BITSET_BIT_NAME, name)
        if value == "on":
            bit += pack_attribute(ethtool.ETHTOOL_A_BITSET_BIT_VALUE, b"")
        bits += nested(ETHTOOL_A_BITSET_BITS_BIT, bit)
    return nested(ethtool.ETHTOOL_A_FEATURES_WANTED, nested(ethtool.ETHTOOL_A_BITSET_BITS, bits))


def ring_attributes(operation: Operation) -> bytes:
    pairs = (
        (ethtool.RING_FIELDS[key.replace("-", "_")], value) for key, value in operation.settings
    )
    return b"".join(pack_u32(kind, int(value)) for kind, value in pairs)


def channel_attributes(operation: Operation) -> bytes:
    return b"".join(
        pack_u32(ethtool.CHANNEL_FIELDS[key], int(value)) for key, value in operation.settings
    )


def coalescing_attributes(operation: Operation) -> bytes:
    """Switches have one byte."""
    packed = b""
    for key, value in operation.settings:
        kind = ethtool.ETHTOOL_A_COALESCE_RX_USECS + ethtool.COALESCING.index(key)
        packed += pack_u8(kind, ON_OFF[value]) if value in ON_OFF else pack_u32(kind, int(value))
    return packed


ETHTOOL_MESSAGES: dict[str, tuple[int, Callable[[Operation], bytes]]] = {
    "features": (ETHTOOL_MSG_FEATURES_SET, feature_attributes),
    "rings": (ETHTOOL_MSG_RINGS_SET, ring_attributes),
    "channels": (ETHTOOL_MSG_CHANNELS_SET, channel_attributes),
    "coalescing": (ETHTOOL_MSG_COALESCE_SET, coalescing_attributes),
}
