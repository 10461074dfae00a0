"""What rtnetlink says of links, from bytes to records. Pure: nothing is read here.

Takes the payload of RTM_NEWLINK (linux/if_link.h), virtual functions included. An attribute that is absent or too short
counts as "not said": a garbled message yields fewer facts, never an exception.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Literal

from nictop.probe.kernel import rtnetlink as rt
from nictop.probe.kernel.netlink import iterate, text, unsigned
from nictop.probe.records import LINK_COUNTERS, Link, Unreadable, VirtualFunction

VLAN_PROTOCOLS = {0x8100: "802.1Q", 0x88A8: "802.1ad"}
LINK_STATES: tuple[Literal["auto", "enable", "disable"], ...] = ("auto", "enable", "disable")
BOND_MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
MACVLAN_MODES = {1: "private", 2: "vepa", 4: "bridge", 8: "passthru", 16: "source"}

Attributes = Mapping[int, bytes]


def number(attributes: Attributes, kind: int) -> int | None:
    """An unsigned attribute of 1, 2, 4 or 8 bytes; None when it is absent or of another size."""
    value = attributes.get(kind)
    return unsigned(value) if value is not None and len(value) in (1, 2, 4, 8) else None


def hardware_address(value: bytes | None) -> str | None:
    """``52:54:00:00:aa:01``; None for no bytes."""
    return value.hex(":") if value else None


def parse_link(payload: bytes) -> Link | None:
    """A link without what sysfs, RTM_GETADDR and ethtool add. None when not even index, name and MTU are there."""
    if len(payload) < rt.IFINFOMSG.size:
        return None
    _, hardware_type, ifindex, flags, _ = rt.IFINFOMSG.unpack_from(payload)
    found = dict(iterate(payload[rt.IFINFOMSG.size :]))
    mtu = number(found, rt.IFLA_MTU)
    if rt.IFLA_IFNAME not in found or mtu is None or ifindex <= 0:
        return None
    info = dict(iterate(found.get(rt.IFLA_LINKINFO, b"")))
    kind = text(info.get(rt.IFLA_INFO_KIND, b"")) or None
    carrier, state = number(found, rt.IFLA_CARRIER), number(found, rt.IFLA_OPERSTATE) or 0
    below = number(found, rt.IFLA_LINK)
    address = found.get(rt.IFLA_ADDRESS, b"")
    functions = parse_virtual_functions(found.get(rt.IFLA_VFINFO_LIST, b""), len(address))
    return Link(
        ifindex=ifindex,
        name=text(found[rt.IFLA_IFNAME]),
        type=hardware_type,
        flags=flags,
        operstate=rt.operstate_name(state),
        carrier=None if carrier is None or not flags & rt.IFF_UP else carrier != 0,
        mtu=mtu,
        altnames=tuple(text(v) for k, v in iterate(found.get(rt.IFLA_PROP_LIST, b"")) if k == rt.IFLA_ALT_IFNAME),
        alias=text(found.get(rt.IFLA_IFALIAS, b"")) or None,
        kind=kind,
        details=parse_details(kind, info.get(rt.IFLA_INFO_DATA, b"")),
        carrier_changes=number(found, rt.IFLA_CARRIER_CHANGES),
        min_mtu=number(found, rt.IFLA_MIN_MTU),
        max_mtu=number(found, rt.IFLA_MAX_MTU),
        address=hardware_address(address),
        permanent_address=hardware_address(found.get(rt.IFLA_PERM_ADDRESS)),
        master=number(found, rt.IFLA_MASTER) or None,
        lower=below if below and below != ifindex else None,
        lower_namespace=signed(found.get(rt.IFLA_LINK_NETNSID)),
        qdisc=text(found.get(rt.IFLA_QDISC, b"")) or None,
        tx_queue_length=number(found, rt.IFLA_TXQLEN),
        num_tx_queues=number(found, rt.IFLA_NUM_TX_QUEUES),
        num_rx_queues=number(found, rt.IFLA_NUM_RX_QUEUES),
        promiscuity=number(found, rt.IFLA_PROMISCUITY) or 0,
        bus=text(found.get(rt.IFLA_PARENT_DEV_BUS_NAME, b"")) or None,
        device=text(found.get(rt.IFLA_PARENT_DEV_NAME, b"")) or None,
        physical_port=text(found.get(rt.IFLA_PHYS_PORT_NAME, b"")) or None,
        switch_id=found.get(rt.IFLA_PHYS_SWITCH_ID, b"").hex() or None,
        virtual_functions=functions,
        counters=parse_counters(found.get(rt.IFLA_STATS64, b"")),
        unreadable=missing_functions(number(found, rt.IFLA_NUM_VF) or 0, len(functions)),
    )


def missing_functions(promised: int, listed: int) -> dict[str, Unreadable]:
    """Why `virtual_functions` is incomplete: the list of more than about 200 does not fit into one attribute."""
    if listed >= promised:
        return {}
    return {"virtual_functions": Unreadable("failed", f"the kernel listed {listed} of {promised} virtual functions")}


def signed(value: bytes | None) -> int | None:
    """A signed 32-bit attribute."""
    return int(struct.unpack("=i", value)[0]) if value is not None and len(value) == 4 else None


def parse_counters(value: bytes) -> tuple[int, ...] | None:
    """struct rtnl_link_stats64, as many fields as both this kernel and `LINK_COUNTERS` have."""
    count = min(len(value) // 8, len(LINK_COUNTERS))
    return struct.unpack_from(f"={count}Q", value) if count else None


def parse_details(kind: str | None, value: bytes) -> dict[str, int | str | bool]:
    """The few attributes of rt.IFLA_INFO_DATA that tell what a link of this kind is for."""
    found = dict(iterate(value))
    details: dict[str, int | str | bool] = {}

    def put(name: str, attribute: int, names: Mapping[int, str] | tuple[str, ...] | None = None) -> None:
        said = number(found, attribute)
        if said is None:
            return
        table = dict(enumerate(names)) if isinstance(names, tuple) else names
        details[name] = said if table is None else table.get(said, f"unknown {said}")

    def put_flag(name: str, attribute: int) -> None:
        if (said := number(found, attribute)) is not None:
            details[name] = said != 0

    if kind == "vlan":
        put("vlan_id", 1)
        protocol = int.from_bytes(found.get(5, b""), "big")
        if protocol:
            details["vlan_protocol"] = VLAN_PROTOCOLS.get(protocol, f"0x{protocol:04x}")
    elif kind == "vxlan":
        put("vxlan_id", 1)
        if len(found.get(15, b"")) == 2:
            details["vxlan_port"] = int.from_bytes(found[15], "big")
    elif kind == "bond":
        put("bond_mode", 1, BOND_MODES)
        put("bond_active", 2)
    elif kind in ("macvlan", "macvtap"):
        put("macvlan_mode", 1, MACVLAN_MODES)
    elif kind == "ipvlan":
        put("ipvlan_mode", 1, ("l2", "l3", "l3s"))
    elif kind == "tun":
        put("tun_type", 3, {1: "tun", 2: "tap"})
        put_flag("tun_multi_queue", 7)
        put("tun_queues", 8)
    elif kind == "bridge":
        put_flag("bridge_stp", 5)
        put_flag("bridge_vlan_filtering", 7)
    elif kind == "vrf":
        put("vrf_table", 1)
    return details


def parse_virtual_functions(value: bytes, address_length: int) -> tuple[VirtualFunction, ...]:
    """IFLA_VFINFO_LIST; `address_length` is that of the physical function's own address (the kernel pads to 32 bytes).

    The kernel sends counters of zero for a driver that does not count per VF. When all counters of all VFs are zero,
    they say nothing and are left out, so that no silence is claimed that nobody has measured.
    """
    entries = [dict(iterate(entry)) for kind, entry in iterate(value) if kind == rt.IFLA_VF_INFO]
    counters = [parse_virtual_function_counters(entry.get(rt.IFLA_VF_STATS, b"")) for entry in entries]
    counted = any(any(values) for values in counters)
    functions = []
    for entry, values in zip(entries, counters):
        mac = entry.get(rt.IFLA_VF_MAC, b"")
        if len(mac) < 4:
            continue
        vlan = parse_port_vlan(entry)
        rate = words(entry, rt.IFLA_VF_RATE, 3)
        old_rate = words(entry, rt.IFLA_VF_TX_RATE, 2)
        state = words(entry, rt.IFLA_VF_LINK_STATE, 2)[1]
        functions.append(
            VirtualFunction(
                number=unsigned(mac[:4]),
                address=hardware_address(mac[4 : 4 + min(address_length, 32)]),
                vlan=vlan[0],
                qos=vlan[1],
                vlan_protocol=vlan[2],
                spoof_check=setting(entry, rt.IFLA_VF_SPOOFCHK),
                trust=setting(entry, rt.IFLA_VF_TRUST),
                link_state=LINK_STATES[state] if state is not None and state < len(LINK_STATES) else None,
                min_tx_rate=rate[1],
                max_tx_rate=old_rate[1] if rate[2] is None else rate[2],
                rss_query=setting(entry, rt.IFLA_VF_RSS_QUERY_EN),
                counters=values if counted and values else None,
            )
        )
    return tuple(functions)


def words(attributes: Attributes, kind: int, count: int) -> tuple[int | None, ...]:
    """`count` u32 of a structure, None each when it is absent or too short."""
    value = attributes.get(kind, b"")
    return struct.unpack_from(f"={count}I", value) if len(value) >= 4 * count else (None,) * count


def setting(attributes: Attributes, kind: int) -> bool | None:
    """An on/off setting of a VF; the kernel sends -1 when the driver does not say."""
    value = words(attributes, kind, 2)[1]
    return None if value is None or value == 0xFFFFFFFF else value != 0


def parse_port_vlan(entry: Attributes) -> tuple[int | None, int | None, str | None]:
    """VLAN id, priority and protocol of a VF: from the list with protocols, else from the older rt.IFLA_VF_VLAN."""
    for kind, value in iterate(entry.get(rt.IFLA_VF_VLAN_LIST, b"")):
        if kind == rt.IFLA_VF_VLAN_INFO and len(value) >= 14:
            _, vlan, qos = struct.unpack_from("=III", value)
            protocol = int.from_bytes(value[12:14], "big")
            return vlan, qos, VLAN_PROTOCOLS.get(protocol, f"0x{protocol:04x}")
    _, vlan, qos = words(entry, rt.IFLA_VF_VLAN, 3)
    return vlan, qos, None


def parse_virtual_function_counters(value: bytes) -> tuple[int, ...]:
    """`VF_COUNTERS`; older kernels send a shorter prefix."""
    found = dict(iterate(value))
    counters = []
    for kind in rt.VF_STATS_ATTRIBUTES:
        count = number(found, kind)
        if count is None:
            break
        counters.append(count)
    return tuple(counters)
