"""RTM_NEWLINK (linux/if_link.h), virtual functions included → records. Pure.

A missing attribute, or one of the wrong size, is None: a malformed message gives fewer values,
never an exception.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Literal, Optional

from nictop.probe.inventory.links.tunnels import parse_tunnel
from nictop.probe.kernel import if_link
from nictop.probe.kernel import rtnetlink as rt
from nictop.probe.kernel.backports import colon_hex
from nictop.probe.kernel.netlink import iter_attributes, text, unsigned
from nictop.probe.records import LINK_COUNTERS, BridgePort, Link, Unreadable, VirtualFunction

IFLA_VLAN_ID, IFLA_VLAN_PROTOCOL = 1, 5
IFLA_VXLAN_ID, IFLA_VXLAN_PORT = 1, 15
IFLA_BOND_MODE, IFLA_BOND_ACTIVE_SLAVE = 1, 2
IFLA_MACVLAN_MODE, IFLA_IPVLAN_MODE, IFLA_VRF_TABLE = 1, 1, 1
IFLA_TUN_TYPE, IFLA_TUN_MULTI_QUEUE, IFLA_TUN_NUM_QUEUES = 3, 7, 8
IFLA_BR_STP_STATE, IFLA_BR_VLAN_FILTERING, IFLA_BR_VLAN_PROTOCOL, IFLA_BR_VLAN_DEFAULT_PVID = (
    5,
    7,
    8,
    39,
)
IFLA_BR_GROUP_FWD_MASK = 9
IFLA_BR_NF_CALL_IPTABLES, IFLA_BR_NF_CALL_IP6TABLES, IFLA_BR_NF_CALL_ARPTABLES = 36, 37, 38
IFLA_AF_SPEC, IFLA_INET6_CONF, DEVCONF_DISABLE_IPV6 = 26, 2, 26
IFLA_BRPORT_STATE, IFLA_BRPORT_COST, IFLA_BRPORT_BRIDGE_ID = 1, 3, 14

VLAN_PROTOCOLS = {0x8100: "802.1Q", 0x88A8: "802.1ad"}
VF_LINK_STATES: tuple[Literal["auto", "enable", "disable"], ...] = ("auto", "enable", "disable")
"""IFLA_VF_LINK_STATE_*"""
BOND_MODES = dict(
    enumerate(
        (
            "balance-rr",
            "active-backup",
            "balance-xor",
            "broadcast",
            "802.3ad",
            "balance-tlb",
            "balance-alb",
        )
    )
)
MACVLAN_MODES = {1: "private", 2: "vepa", 4: "bridge", 8: "passthru", 16: "source"}
IPVLAN_MODES = {0: "l2", 1: "l3", 2: "l3s"}
TUN_TYPES = {1: "tun", 2: "tap"}
XDP_MODES: Mapping[int, Literal["driver", "generic", "hardware", "several"]] = {
    1: "driver",
    2: "generic",
    3: "hardware",
    4: "several",
}
"""XDP_ATTACHED_*"""
VF_SETTING_UNKNOWN = 0xFFFFFFFF
"""-1: the driver does not report the setting."""

Details = tuple[tuple[str, int, Optional[Mapping[int, str]]], ...]
MACVLAN_DETAILS: Details = (("macvlan_mode", IFLA_MACVLAN_MODE, MACVLAN_MODES),)
DETAILS: Mapping[str, Details] = {
    "vlan": (("vlan_id", IFLA_VLAN_ID, None),),
    "vxlan": (("vxlan_id", IFLA_VXLAN_ID, None),),
    "bond": (
        ("bond_mode", IFLA_BOND_MODE, BOND_MODES),
        ("bond_active", IFLA_BOND_ACTIVE_SLAVE, None),
    ),
    "macvlan": MACVLAN_DETAILS,
    "macvtap": MACVLAN_DETAILS,
    "ipvlan": (("ipvlan_mode", IFLA_IPVLAN_MODE, IPVLAN_MODES),),
    "tun": (
        ("tun_type", IFLA_TUN_TYPE, TUN_TYPES),
        ("tun_multi_queue", IFLA_TUN_MULTI_QUEUE, None),
        ("tun_queues", IFLA_TUN_NUM_QUEUES, None),
    ),
    "bridge": (
        ("bridge_stp", IFLA_BR_STP_STATE, None),
        ("bridge_vlan_filtering", IFLA_BR_VLAN_FILTERING, None),
        ("bridge_default_pvid", IFLA_BR_VLAN_DEFAULT_PVID, None),
        ("bridge_group_fwd_mask", IFLA_BR_GROUP_FWD_MASK, None),
        ("bridge_nf_call_iptables", IFLA_BR_NF_CALL_IPTABLES, None),
        ("bridge_nf_call_ip6tables", IFLA_BR_NF_CALL_IP6TABLES, None),
        ("bridge_nf_call_arptables", IFLA_BR_NF_CALL_ARPTABLES, None),
    ),
    "vrf": (("vrf_table", IFLA_VRF_TABLE, None),),
}
"""Kind of link → (key in `Link.details`, attribute in IFLA_INFO_DATA, names of its values or None
for a number)."""
PROTOCOL_DETAILS = {
    "vlan": ("vlan_protocol", IFLA_VLAN_PROTOCOL),
    "bridge": ("bridge_vlan_protocol", IFLA_BR_VLAN_PROTOCOL),
}
"""Kind of link → (key, attribute in network byte order)."""
FLAG_DETAILS = {
    *("tun_multi_queue", "bridge_stp", "bridge_vlan_filtering"),
    *("bridge_nf_call_iptables", "bridge_nf_call_ip6tables", "bridge_nf_call_arptables"),
}
"""Keys whose value is true or false."""

BRIDGE_PORT_STATES = ("disabled", "listening", "learning", "forwarding", "blocking")
"""BR_STATE_*"""
BRIDGE_PORT_FLAGS = {
    "hairpin": 4,
    "guard": 5,
    "learning": 8,
    "flood": 9,
    "bcast_flood": 30,
    "neigh_suppress": 32,
    "isolated": 33,
    "locked": 39,
}
"""Field of `BridgePort` → attribute (IFLA_BRPORT_*); an older kernel has fewer."""

Attributes = Mapping[int, bytes]


def number(attributes: Attributes, kind: int) -> int | None:
    """Value of an unsigned attribute of 1, 2, 4 or 8 bytes; None when it is missing or of another
    size."""
    value = attributes.get(kind)
    if value is None or len(value) not in (1, 2, 4, 8):
        return None
    return unsigned(value)


def flag(attributes: Attributes, kind: int) -> bool | None:
    """Whether a number is not 0; None when it is missing."""
    value = number(attributes, kind)
    if value is None:
        return None
    return value != 0


def named(attributes: Attributes, kind: int, names: Mapping[int, str]) -> str | None:
    """Name of a number; ``unknown 9`` for one that is newer than this program. None when it is
    missing."""
    value = number(attributes, kind)
    if value is None:
        return None
    return names.get(value, f"unknown {value}")


def name(attributes: Attributes, kind: int) -> str | None:
    """Text of an attribute; None when it is missing or empty."""
    return text(attributes.get(kind, b"")) or None


def hardware_address(value: bytes | None) -> str | None:
    """``52:54:00:00:aa:01``; None for no bytes."""
    if not value:
        return None
    return colon_hex(value)


def parse_link(payload: bytes) -> Link | None:
    """A link without the fields from sysfs, RTM_GETADDR and ethtool; None without index, name or
    MTU."""
    if len(payload) < rt.IFINFOMSG.size:
        return None
    _, hardware_type, ifindex, flags, _ = rt.IFINFOMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[rt.IFINFOMSG.size :]))
    mtu = number(found, if_link.IFLA_MTU)
    if if_link.IFLA_IFNAME not in found or mtu is None or ifindex <= 0:
        return None
    info = dict(iter_attributes(found.get(if_link.IFLA_LINKINFO, b"")))
    kind = name(info, if_link.IFLA_INFO_KIND)
    kind_data = info.get(if_link.IFLA_INFO_DATA, b"")
    state = number(found, if_link.IFLA_OPERSTATE) or 0
    address = found.get(if_link.IFLA_ADDRESS, b"")
    xdp = dict(iter_attributes(found.get(if_link.IFLA_XDP, b"")))
    functions = parse_virtual_functions(found.get(if_link.IFLA_VFINFO_LIST, b""), len(address))
    return Link(
        ifindex=ifindex,
        name=text(found[if_link.IFLA_IFNAME]),
        type=hardware_type,
        flags=flags,
        operstate=if_link.operstate_name(state),
        carrier=parse_carrier(found, flags),
        mtu=mtu,
        altnames=parse_altnames(found.get(if_link.IFLA_PROP_LIST, b"")),
        alias=name(found, if_link.IFLA_IFALIAS),
        kind=kind,
        details=parse_details(kind, kind_data),
        carrier_changes=number(found, if_link.IFLA_CARRIER_CHANGES),
        min_mtu=number(found, if_link.IFLA_MIN_MTU),
        max_mtu=number(found, if_link.IFLA_MAX_MTU),
        address=hardware_address(address),
        permanent_address=hardware_address(found.get(if_link.IFLA_PERM_ADDRESS)),
        master=number(found, if_link.IFLA_MASTER) or None,
        lower=parse_lower(found, ifindex),
        lower_namespace=signed(found.get(if_link.IFLA_LINK_NETNSID)),
        qdisc=name(found, if_link.IFLA_QDISC),
        tx_queue_length=number(found, if_link.IFLA_TXQLEN),
        num_tx_queues=number(found, if_link.IFLA_NUM_TX_QUEUES),
        num_rx_queues=number(found, if_link.IFLA_NUM_RX_QUEUES),
        promiscuity=number(found, if_link.IFLA_PROMISCUITY) or 0,
        bus=name(found, if_link.IFLA_PARENT_DEV_BUS_NAME),
        device=name(found, if_link.IFLA_PARENT_DEV_NAME),
        physical_port=name(found, if_link.IFLA_PHYS_PORT_NAME),
        port_id=found.get(if_link.IFLA_PHYS_PORT_ID, b"").hex() or None,
        switch_id=found.get(if_link.IFLA_PHYS_SWITCH_ID, b"").hex() or None,
        virtual_functions=functions,
        counters=parse_counters(found.get(rt.IFLA_STATS64, b"")),
        unreadable=missing_functions(number(found, if_link.IFLA_NUM_VF) or 0, len(functions)),
        bridge_port=parse_bridge_port(info),
        tunnel=parse_tunnel(kind or "", kind_data),
        xdp=XDP_MODES.get(number(xdp, if_link.IFLA_XDP_ATTACHED) or 0),
        xdp_program=number(xdp, if_link.IFLA_XDP_PROG_ID) or None,
        ipv6_disabled=parse_ipv6_disabled(found.get(IFLA_AF_SPEC, b"")),
    )


def parse_ipv6_disabled(families: bytes) -> bool:
    """disable_ipv6 of IFLA_INET6_CONF (DEVCONF_*, int32 each); inet6_fill_ifla6_attrs,
    net/ipv6/addrconf.c."""
    ipv6 = dict(iter_attributes(families)).get(socket.AF_INET6, b"")
    settings = dict(iter_attributes(ipv6)).get(IFLA_INET6_CONF, b"")
    value = settings[4 * DEVCONF_DISABLE_IPV6 : 4 * DEVCONF_DISABLE_IPV6 + 4]
    return any(value)


def parse_carrier(found: Attributes, flags: int) -> bool | None:
    """None: not known, as of a link that is administratively down."""
    carrier = number(found, if_link.IFLA_CARRIER)
    if carrier is None or not flags & rt.IFF_UP:
        return None
    return carrier != 0


def parse_altnames(properties: bytes) -> tuple[str, ...]:
    names = []
    for kind, value in iter_attributes(properties):
        if kind == if_link.IFLA_ALT_IFNAME:
            names.append(text(value))
    return tuple(names)


def parse_lower(found: Attributes, ifindex: int) -> int | None:
    """ifindex of the device below, or of the other end of a veth. Some kinds name themselves."""
    lower = number(found, if_link.IFLA_LINK)
    if not lower or lower == ifindex:
        return None
    return lower


def missing_functions(total: int, listed: int) -> dict[str, Unreadable]:
    """Why `virtual_functions` is incomplete: a list of more than about 200 does not fit into one
    attribute."""
    if listed >= total:
        return {}
    return {
        "virtual_functions": Unreadable(
            "failed", f"the kernel listed {listed} of {total} virtual functions"
        )
    }


def signed(value: bytes | None) -> int | None:
    """Value of a signed 32-bit attribute."""
    if value is None or len(value) != 4:
        return None
    return int(struct.unpack("=i", value)[0])


def parse_counters(value: bytes) -> tuple[int, ...] | None:
    """struct rtnl_link_stats64, as many fields as this kernel and `LINK_COUNTERS` have in
    common."""
    count = min(len(value) // 8, len(LINK_COUNTERS))
    if not count:
        return None
    return struct.unpack_from(f"={count}Q", value)


def parse_details(kind: str | None, value: bytes) -> dict[str, int | str | bool]:
    """`Link.details`: the attributes of IFLA_INFO_DATA in `DETAILS`, and those that are in network
    byte order."""
    found = dict(iter_attributes(value))
    details: dict[str, int | str | bool] = {}
    for key, attribute, names in DETAILS.get(kind or "", ()):
        setting = number(found, attribute)
        if setting is None:
            continue
        if key in FLAG_DETAILS:
            details[key] = setting != 0
        elif names is None:
            details[key] = setting
        else:
            details[key] = names.get(setting, f"unknown {setting}")
    key, attribute = PROTOCOL_DETAILS.get(kind or "", ("", -1))
    protocol = int.from_bytes(found.get(attribute, b""), "big")
    if protocol:
        details[key] = VLAN_PROTOCOLS.get(protocol, f"0x{protocol:04x}")
    if kind == "vxlan" and len(found.get(IFLA_VXLAN_PORT, b"")) == 2:
        details["vxlan_port"] = int.from_bytes(found[IFLA_VXLAN_PORT], "big")
    return details


def parse_bridge_port(info: Attributes) -> BridgePort | None:
    """The settings of a port of a bridge in IFLA_LINKINFO; None for other links."""
    if text(info.get(if_link.IFLA_INFO_SLAVE_KIND, b"")) != "bridge":
        return None
    found = dict(iter_attributes(info.get(if_link.IFLA_INFO_SLAVE_DATA, b"")))
    state = number(found, IFLA_BRPORT_STATE)
    if state is None or state >= len(BRIDGE_PORT_STATES):
        return None
    flags = {name: number(found, attribute) for name, attribute in BRIDGE_PORT_FLAGS.items()}
    return BridgePort(
        state=BRIDGE_PORT_STATES[state],
        cost=number(found, IFLA_BRPORT_COST),
        designated_bridge=hardware_address(found.get(IFLA_BRPORT_BRIDGE_ID, b"")[2:8]),
        **{name: value != 0 for name, value in flags.items() if value is not None},
    )


def parse_virtual_functions(value: bytes, address_length: int) -> tuple[VirtualFunction, ...]:
    """IFLA_VFINFO_LIST; `address_length`: of the address of the physical function (the kernel pads
    to 32 bytes).

    For a driver without counters per VF the kernel sends zeros: when all counters of all VFs are
    zero they are left out: they do not mean that there was no traffic.
    """
    entries = []
    for kind, content in iter_attributes(value):
        if kind == if_link.IFLA_VF_INFO:
            entries.append(dict(iter_attributes(content)))
    counters = [
        parse_virtual_function_counters(entry.get(if_link.IFLA_VF_STATS, b"")) for entry in entries
    ]
    if not any(map(any, counters)):
        counters = [()] * len(entries)
    functions = []
    for entry, values in zip(entries, counters):
        function = parse_virtual_function(entry, values, address_length)
        if function is not None:
            functions.append(function)
    return tuple(functions)


def parse_virtual_function(
    entry: Attributes, counters: tuple[int, ...], address_length: int
) -> VirtualFunction | None:
    """An IFLA_VF_INFO; None without number."""
    mac = entry.get(if_link.IFLA_VF_MAC, b"")
    if len(mac) < 4:
        return None
    vlan, qos, vlan_protocol = parse_port_vlan(entry)
    _, old_max_rate = words(entry, if_link.IFLA_VF_TX_RATE, 2)
    _, min_rate, max_rate = words(entry, if_link.IFLA_VF_RATE, 3)
    if max_rate is None:
        max_rate = old_max_rate
    _, state = words(entry, if_link.IFLA_VF_LINK_STATE, 2)
    link_state = None
    if state is not None and state < len(VF_LINK_STATES):
        link_state = VF_LINK_STATES[state]
    return VirtualFunction(
        number=unsigned(mac[:4]),
        address=hardware_address(mac[4 : 4 + min(address_length, 32)]),
        vlan=vlan,
        qos=qos,
        vlan_protocol=vlan_protocol,
        spoof_check=setting(entry, if_link.IFLA_VF_SPOOFCHK),
        trust=setting(entry, if_link.IFLA_VF_TRUST),
        link_state=link_state,
        min_tx_rate=min_rate,
        max_tx_rate=max_rate,
        rss_query=setting(entry, if_link.IFLA_VF_RSS_QUERY_EN),
        counters=counters or None,
    )


def words(attributes: Attributes, kind: int, count: int) -> tuple[int | None, ...]:
    """`count` u32 values of a structure; None for each when the attribute is missing or too
    short."""
    value = attributes.get(kind, b"")
    if len(value) < 4 * count:
        return (None,) * count
    return struct.unpack_from(f"={count}I", value)


def setting(attributes: Attributes, kind: int) -> bool | None:
    """An on/off setting of a VF (struct ifla_vf_*: vf, setting); None when the driver does not
    report it."""
    _, value = words(attributes, kind, 2)
    if value is None or value == VF_SETTING_UNKNOWN:
        return None
    return value != 0


def parse_port_vlan(entry: Attributes) -> tuple[int | None, int | None, str | None]:
    """VLAN id, priority and protocol of a VF: from IFLA_VF_VLAN_LIST, else from the older
    IFLA_VF_VLAN."""
    for kind, value in iter_attributes(entry.get(if_link.IFLA_VF_VLAN_LIST, b"")):
        if kind == if_link.IFLA_VF_VLAN_INFO and len(value) >= 14:
            _, vlan, qos = struct.unpack_from("=III", value)
            protocol = int.from_bytes(value[12:14], "big")
            return vlan, qos, VLAN_PROTOCOLS.get(protocol, f"0x{protocol:04x}")
    _, vlan, qos = words(entry, if_link.IFLA_VF_VLAN, 3)
    return vlan, qos, None


def parse_virtual_function_counters(value: bytes) -> tuple[int, ...]:
    """`VF_COUNTERS`; older kernels have fewer of them."""
    found = dict(iter_attributes(value))
    counters = []
    for kind in if_link.VF_STATS_ATTRIBUTES:
        count = number(found, kind)
        if count is None:
            break
        counters.append(count)
    return tuple(counters)
