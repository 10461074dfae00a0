"""NET_DM_CMD_PACKET_ALERT (linux/net_dropmon.h) → `Drop`, and the addresses in the first bytes of
its packet. Pure.

A missing or malformed attribute gives fewer values, never an exception.
"""

from __future__ import annotations

import socket
from typing import Optional

from nictop.probe.kernel.backports import colon_hex
from nictop.probe.kernel.netlink import iter_attributes, text, unsigned
from nictop.probe.light_tuples import NamedTuple

NET_DM_ATTR_SYMBOL, NET_DM_ATTR_IN_PORT, NET_DM_ATTR_PROTO, NET_DM_ATTR_PAYLOAD = 3, 4, 6, 7
NET_DM_ATTR_ORIG_LEN, NET_DM_ATTR_ORIGIN = 10, 14
NET_DM_ATTR_HW_TRAP_GROUP_NAME, NET_DM_ATTR_HW_TRAP_NAME, NET_DM_ATTR_REASON = 15, 16, 23
NET_DM_ATTR_PORT_NETDEV_IFINDEX = 0
NET_DM_ORIGIN_HW = 1

ETH_HLEN, VLAN_HLEN = 14, 4
ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = 0x0800, 0x0806, 0x86DD
VLAN_PROTOCOLS = (0x8100, 0x88A8)
MAX_VLAN_TAGS = 2
IP_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6"}
WITH_PORTS = ("tcp", "udp", "132", "136")
"""132, 136: SCTP and UDP-Lite have their ports at the same place."""

Flow = tuple[str, str, str, Optional[int]]
"""Protocol, source, destination, destination port, as in `DropFlow`."""


class Drop(NamedTuple):
    """One dropped packet."""

    hardware: bool
    reason: str
    place: str
    trap_group: str
    ifindex: int | None
    size: int
    """Bytes."""
    protocol: int
    """Ethertype: skb->protocol."""
    packet: bytes
    """Its first bytes, from the link-layer header on."""


def parse_drop(attributes: bytes) -> Drop:
    found = dict(iter_attributes(attributes))
    port = dict(iter_attributes(found.get(NET_DM_ATTR_IN_PORT, b"")))
    hardware = unsigned(found.get(NET_DM_ATTR_ORIGIN, b"")) == NET_DM_ORIGIN_HW
    if hardware:
        reason, place = "", text(found.get(NET_DM_ATTR_HW_TRAP_NAME, b""))
    else:
        reason, place = (
            text(found.get(NET_DM_ATTR_REASON, b"")),
            parse_symbol(text(found.get(NET_DM_ATTR_SYMBOL, b""))),
        )
    return Drop(
        hardware,
        reason,
        place,
        text(found.get(NET_DM_ATTR_HW_TRAP_GROUP_NAME, b"")),
        unsigned(port.get(NET_DM_ATTR_PORT_NETDEV_IFINDEX, b"")) or None,
        unsigned(found.get(NET_DM_ATTR_ORIG_LEN, b"")),
        unsigned(found.get(NET_DM_ATTR_PROTO, b"")),
        found.get(NET_DM_ATTR_PAYLOAD, b""),
    )


def parse_symbol(symbol: str) -> str:
    """``tbf_enqueue [sch_tbf]`` of ``tbf_enqueue+0x1a6/0x2b0 [sch_tbf]``; the kernel cuts the
    symbol at 39 characters, and with it the name of a module."""
    name, plus, rest = symbol.partition("+")
    _, bracket, module = rest.partition("[")
    return f"{name} [{module}" if plus and bracket and module.endswith("]") else name


def link_header_bytes(packet: bytes, protocol: int) -> int:
    """Bytes of the Ethernet header with its VLAN tags; 0: the packet begins with its IP header."""
    offset = ETH_HLEN - 2
    for _ in range(1 + MAX_VLAN_TAGS):
        ethertype = int.from_bytes(packet[offset : offset + 2], "big")
        if ethertype not in VLAN_PROTOCOLS:
            break
        offset += VLAN_HLEN
    if ethertype != protocol and protocol not in VLAN_PROTOCOLS:
        version = packet[0] >> 4 if packet else 0
        if (protocol, version) in ((ETH_P_IP, 4), (ETH_P_IPV6, 6)):
            return 0
    return offset + 2


def parse_flow(packet: bytes, protocol: int) -> Flow:
    """Addresses of a packet; "" where its first bytes do not have them."""
    start = link_header_bytes(packet, protocol)
    if start and protocol in VLAN_PROTOCOLS:
        protocol = int.from_bytes(packet[start - 2 : start], "big")
    body = packet[start:]
    flow = None
    if protocol == ETH_P_IP:
        flow = _ipv4_flow(body)
    elif protocol == ETH_P_IPV6:
        flow = _ipv6_flow(body)
    elif protocol == ETH_P_ARP:
        flow = _arp_flow(body)
    if flow is not None:
        return flow
    name = f"0x{protocol:04x}"
    if not start:
        return name, "", "", None
    return name, mac_text(packet[6:12]), mac_text(packet[:6]), None


def _ipv4_flow(body: bytes) -> Flow | None:
    """None: its header is not complete."""
    if len(body) < 20 or body[0] >> 4 != 4:
        return None
    name = IP_PROTOCOLS.get(body[9], str(body[9]))
    port = None
    fragment_offset = int.from_bytes(body[6:8], "big") & 0x1FFF
    if fragment_offset == 0:  # only the first fragment has the header with the port
        port = _port(name, body[(body[0] & 0xF) * 4 :])
    source = socket.inet_ntop(socket.AF_INET, body[12:16])
    return name, source, socket.inet_ntop(socket.AF_INET, body[16:20]), port


def _ipv6_flow(body: bytes) -> Flow | None:
    """None: its header is not complete."""
    if len(body) < 40 or body[0] >> 4 != 6:
        return None
    name = IP_PROTOCOLS.get(body[6], str(body[6]))
    source = socket.inet_ntop(socket.AF_INET6, body[8:24])
    destination = socket.inet_ntop(socket.AF_INET6, body[24:40])
    return name, source, destination, _port(name, body[40:])


def _arp_flow(body: bytes) -> Flow | None:
    """Addresses of sender and target; None: it is not complete, or not of Ethernet and IPv4."""
    if len(body) < 28 or body[4:6] != b"\x06\x04":
        return None
    source = socket.inet_ntop(socket.AF_INET, body[14:18])
    return "arp", source, socket.inet_ntop(socket.AF_INET, body[24:28]), None


def parse_macs(packet: bytes, protocol: int) -> tuple[str, str]:
    """Source and destination; "" without an Ethernet header."""
    if not link_header_bytes(packet, protocol):
        return "", ""
    return mac_text(packet[6:12]), mac_text(packet[:6])


def mac_text(octets: bytes) -> str:
    return colon_hex(octets) if len(octets) == 6 else ""


def _port(protocol: str, body: bytes) -> int | None:
    return int.from_bytes(body[2:4], "big") if protocol in WITH_PORTS and len(body) >= 4 else None
