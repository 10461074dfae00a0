"""LLDP and CDP frames of a switch, for tests of their parsers and to be sent on a veth."""

from __future__ import annotations

import socket
import struct

from tests.support.namespaces import Namespace

ROUTER = b"\x00\x11\x22\x33\x44\x55"
OUI_802_1, OUI_802_3 = b"\x00\x80\xc2", b"\x00\x12\x0f"
NEAREST_BRIDGE = bytes.fromhex("0180c200000e")


def tlv(kind: int, value: bytes) -> bytes:
    """Type (7 bits), length (9 bits), value."""
    return struct.pack(">H", kind << 9 | len(value)) + value


def lldpdu(
    *more: bytes,
    chassis: bytes = b"\4" + ROUTER,
    port: bytes = b"\5Ethernet1/7",
    ttl: int = 120,
    name: str = "sw1",
) -> bytes:
    """Chassis, port and TTL, the name, bridge and router capability, then `more` TLVs."""
    capabilities = tlv(7, struct.pack(">HH", 0x14, 0x14))
    begin = tlv(1, chassis) + tlv(2, port) + tlv(3, struct.pack(">H", ttl))
    return begin + tlv(5, name.encode()) + capabilities + b"".join(more) + tlv(0, b"")


def pvid(vlan: int) -> bytes:
    return tlv(127, OUI_802_1 + b"\1" + struct.pack(">H", vlan))


def vlan_name(vlan: int, name: bytes = b"users") -> bytes:
    return tlv(127, OUI_802_1 + b"\3" + struct.pack(">HB", vlan, len(name)) + name)


def max_frame(size: int) -> bytes:
    return tlv(127, OUI_802_3 + b"\4" + struct.pack(">H", size))


def aggregation(status: int, port: int = 0, oui: bytes = OUI_802_3, subtype: int = 3) -> bytes:
    return tlv(127, oui + struct.pack(">BBI", subtype, status, port))


def management(family: int, address: bytes) -> bytes:
    return tlv(
        8, bytes((1 + len(address), family)) + address + b"\2" + struct.pack(">I", 1) + b"\0"
    )


def lldp_frame(payload: bytes, destination: bytes = NEAREST_BRIDGE) -> bytes:
    return destination + ROUTER + b"\x88\xcc" + payload


def cdp_frame(*tlvs: tuple[int, bytes], ttl: int = 180) -> bytes:
    payload = (
        bytes((2, ttl))
        + b"\0\0"
        + b"".join(struct.pack(">HH", kind, 4 + len(one)) + one for kind, one in tlvs)
    )
    body = bytes.fromhex("aaaa0300000c2000") + payload
    return bytes.fromhex("01000ccccccc") + ROUTER + struct.pack(">H", len(body)) + body


def send_frame(namespace: Namespace, name: str, frame: bytes) -> None:
    """Send it from a link of the namespace."""

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as channel:
            channel.bind((name, 0))
            channel.send(frame.ljust(60, b"\0"))

    namespace.call(send)
