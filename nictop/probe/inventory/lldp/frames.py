"""LLDP and CDP frames → `LldpNeighbour`. Pure.

LLDP: IEEE 802.1AB-2016 chapter 8, annex D (802.1) and IEEE 802.3 clause 79 (802.3). CDP: as
Wireshark decodes it.
"""

from __future__ import annotations

import socket
import struct

from nictop.probe.kernel.backports import colon_hex
from nictop.probe.records import LldpNeighbour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    Source = Literal["NetworkManager", "networkd", "lldpd", "listened"]

ETHERNET_HEADER_BYTES = 14
LLDP_ETHERTYPE = b"\x88\xcc"
CDP_ADDRESS = bytes.fromhex("01000ccccccc")
CDP_SNAP = bytes.fromhex("aaaa0300000c2000")
"""LLC and SNAP header behind the length."""
CDP_HEADER_BYTES = 4
"""Version, TTL, checksum."""
MAX_TLVS = 256
MAX_VLANS = 256
MAX_ADDRESSES = 16
MAX_TEXT_BYTES = 255

(
    END,
    CHASSIS,
    PORT,
    TTL,
    PORT_DESCRIPTION,
    SYSTEM_NAME,
    SYSTEM_DESCRIPTION,
    CAPABILITIES,
    MANAGEMENT,
) = range(9)
ORGANIZATION = 127
OUI_802_1, OUI_802_3 = b"\x00\x80\xc2", b"\x00\x12\x0f"
PORT_VLAN_ID, VLAN_NAME, AGGREGATION_802_1 = 1, 3, 7
AGGREGATION_802_3, MAX_FRAME_SIZE = 3, 4
CHASSIS_MAC, CHASSIS_NETWORK, PORT_MAC, PORT_NETWORK = 4, 5, 3, 4
"""Subtypes of a chassis ID and of a port ID that are not text."""
FAMILIES = {1: (socket.AF_INET, 4), 2: (socket.AF_INET6, 16)}
"""IANA address family → family, length."""
CAPABILITY_NAMES = (
    *(
        "other",
        "repeater",
        "bridge",
        "WLAN access point",
        "router",
        "telephone",
        "DOCSIS",
        "station",
    ),
    *("C-VLAN", "S-VLAN", "TPMR"),
)
TEXT_FIELDS = {
    PORT_DESCRIPTION: "port_description",
    SYSTEM_NAME: "system_name",
    SYSTEM_DESCRIPTION: "system_description",
}
CDP_TEXT_FIELDS = {
    0x0001: "chassis",
    0x0003: "port",
    0x0005: "system_description",
    0x0014: "system_name",
}
CDP_ADDRESSES, CDP_NATIVE_VLAN, CDP_MANAGEMENT = 0x0002, 0x000A, 0x0016


def parse_frame(frame: bytes, source: Source) -> LldpNeighbour | None:
    """The neighbour that sent an Ethernet frame; None: not LLDP or CDP, malformed, or the
    announcement that it ends (TTL 0)."""
    if frame[12:14] == LLDP_ETHERTYPE:
        return parse_lldp(frame[ETHERNET_HEADER_BYTES:], source)
    if frame[:6] == CDP_ADDRESS and frame[14:22] == CDP_SNAP:
        return parse_cdp(frame[22:], source)
    return None


def parse_lldp(payload: bytes, source: Source) -> LldpNeighbour | None:
    """An LLDPDU; None without chassis, port and TTL at its start, or with TTL 0."""
    tlvs = list(lldp_tlvs(payload))
    if [kind for kind, _ in tlvs[:3]] != [CHASSIS, PORT, TTL]:
        return None
    chassis, port, time_to_live = (value for _, value in tlvs[:3])
    if min(len(chassis), len(port), len(time_to_live)) < 2:
        return None
    ttl = int.from_bytes(time_to_live[:2], "big")
    if not ttl:
        return None
    addresses: dict[str, None] = {}
    vlans: set[int] = set()
    found = _optional_fields(tlvs[3:], addresses, vlans)
    return LldpNeighbour(
        source,
        chassis=identity(chassis, CHASSIS_MAC, CHASSIS_NETWORK),
        port=identity(port, PORT_MAC, PORT_NETWORK),
        ttl=ttl,
        management_addresses=tuple(addresses),
        vlans=tuple(sorted(vlans)[:MAX_VLANS]),
        **found,
    )


def _optional_fields(
    tlvs: list[tuple[int, bytes]], addresses: dict[str, None], vlans: set[int]
) -> dict[str, Any]:
    """Fields of `records.LldpNeighbour`; management addresses and VLANs are added to both."""
    found: dict[str, Any] = {}
    for kind, value in tlvs:
        if kind in TEXT_FIELDS:
            found[TEXT_FIELDS[kind]] = text(value)
        elif kind == CAPABILITIES and len(value) >= 4:
            found["capabilities"] = capability_names(int.from_bytes(value[2:4], "big"))
        elif kind == MANAGEMENT:
            address = management_address(value)
            if address is not None and len(addresses) < MAX_ADDRESSES:
                addresses[address] = None
        elif kind == ORGANIZATION:
            parse_organization(value, found, vlans)
    return found


def management_address(value: bytes) -> str | None:
    """Of a management TLV: length, then address family and address."""
    if not value or len(value) <= value[0]:
        return None
    return network_address(value[1 : 1 + value[0]])


def parse_organization(value: bytes, found: dict[str, Any], vlans: set[int]) -> None:
    """An organizationally specific TLV."""
    if value[:3] == OUI_802_1:
        parse_802_1(value[3:], found, vlans)
    elif value[:3] == OUI_802_3:
        parse_802_3(value[3:], found)


def lldp_tlvs(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, value) up to the end of the LLDPDU, at most `MAX_TLVS`; a TLV that is cut off ends
    it."""
    position = 0
    for _ in range(MAX_TLVS):
        if position + 2 > len(payload):
            return
        head = int.from_bytes(payload[position : position + 2], "big")
        kind, end = head >> 9, position + 2 + (head & 0x1FF)
        if kind == END or end > len(payload):
            return
        yield kind, payload[position + 2 : end]
        position = end


def parse_802_1(value: bytes, found: dict[str, Any], vlans: set[int]) -> None:
    """An organizationally specific TLV of IEEE 802.1, behind its OUI."""
    subtype, content = value[:1], value[1:]
    if subtype == bytes((PORT_VLAN_ID,)) and len(content) >= 2:
        found["pvid"] = vlan_id(content[:2])
    elif subtype == bytes((VLAN_NAME,)) and len(content) >= 2:
        vlan = vlan_id(content[:2])
        if vlan is not None:
            vlans.add(vlan)
    elif subtype == bytes((AGGREGATION_802_1,)):
        parse_aggregation(content, found)


def parse_802_3(value: bytes, found: dict[str, Any]) -> None:
    """An organizationally specific TLV of IEEE 802.3, behind its OUI."""
    if value[:1] == bytes((AGGREGATION_802_3,)):
        parse_aggregation(value[1:], found)
    elif value[:1] == bytes((MAX_FRAME_SIZE,)) and len(value) >= 3:
        found["max_frame"] = int.from_bytes(value[1:3], "big") or None


def parse_aggregation(value: bytes, found: dict[str, Any]) -> None:
    """Status and port ID of the link aggregation TLV."""
    if len(value) < 5:
        return
    status = value[0]
    if status & 2:
        found["aggregation"] = "enabled"
    elif status & 1:
        found["aggregation"] = "capable"
    else:
        found["aggregation"] = "no"
    found["aggregation_port"] = int.from_bytes(value[1:5], "big") or None


def parse_cdp(payload: bytes, source: Source) -> LldpNeighbour | None:
    """A CDP packet behind its SNAP header; None without device ID and port, or with TTL 0."""
    if len(payload) < CDP_HEADER_BYTES or not payload[1]:
        return None
    found: dict[str, Any] = {}
    addresses: dict[str, None] = {}
    for kind, value in cdp_tlvs(payload):
        if kind in CDP_TEXT_FIELDS:
            found[CDP_TEXT_FIELDS[kind]] = text(value)
        elif kind == CDP_NATIVE_VLAN and len(value) >= 2:
            found["pvid"] = vlan_id(value[:2])
        elif kind in (CDP_ADDRESSES, CDP_MANAGEMENT):
            addresses.update(dict.fromkeys(cdp_addresses(value)))
    if not found.get("chassis") or not found.get("port"):
        return None
    return LldpNeighbour(
        source,
        "CDP",
        ttl=payload[1],
        management_addresses=tuple(addresses)[:MAX_ADDRESSES],
        **found,
    )


def cdp_tlvs(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, value) of a CDP packet, at most `MAX_TLVS`; a TLV that is cut off ends it."""
    position = CDP_HEADER_BYTES
    for _ in range(MAX_TLVS):
        if position + 4 > len(payload):
            return
        kind, length = struct.unpack_from(">HH", payload, position)
        if length < 4 or position + length > len(payload):
            return
        yield kind, payload[position + 4 : position + length]
        position += length


def cdp_addresses(value: bytes) -> Iterator[str]:
    """IPv4 and IPv6 addresses of a CDP address list."""
    position = 4
    for _ in range(min(int.from_bytes(value[:4], "big"), MAX_ADDRESSES)):
        if position + 2 > len(value):
            return
        position += 2 + value[position + 1]  # type and length of the protocol, and the protocol
        length = int.from_bytes(value[position : position + 2], "big")
        address = value[position + 2 : position + 2 + length]
        position += 2 + length
        family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(address))
        if family is not None:
            yield socket.inet_ntop(family, address)


def identity(value: bytes, mac: int, network: int) -> str:
    """A chassis or port ID behind its TLV header; `mac`, `network`: its subtypes that are not
    text."""
    subtype, content = value[0], value[1:]
    if subtype == mac and len(content) == 6:
        return colon_hex(content)
    if subtype == network:
        return network_address(content) or content.hex()
    return text(content)


def network_address(value: bytes) -> str | None:
    """IANA address family and address; None for other families."""
    if not value or value[0] not in FAMILIES:
        return None
    family, length = FAMILIES[value[0]]
    if len(value) != 1 + length:
        return None
    return socket.inet_ntop(family, value[1:])


def vlan_id(value: bytes) -> int | None:
    """1 to 4094; None: another number, which means "none"."""
    number = int.from_bytes(value, "big")
    if not 0 < number < 4095:
        return None
    return number


def capability_names(bits: int) -> tuple[str, ...]:
    return tuple(name for number, name in enumerate(CAPABILITY_NAMES) if bits >> number & 1)


def text(value: bytes) -> str:
    """At most `MAX_TEXT_BYTES`, without NUL and white space around it."""
    return value[:MAX_TEXT_BYTES].decode("utf-8", "replace").strip("\0 \t\r\n")
