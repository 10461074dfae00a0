"""Who answers for an address: the MAC addresses in the replies to ARP requests or neighbour
solicitations.

Needs root: a packet socket for ARP, a raw ICMPv6 socket for neighbour discovery. The kernel
receives the replies too, as after any request of its own. More than one MAC address is a duplicate
address, or one host that answers on several NICs (ARP flux).
"""

from __future__ import annotations

import select
import socket
import struct
import time

from nictop.probe.kernel.backports import colon_hex
from nictop.probe.light_tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ETH_P_ARP, ARPHRD_ETHER = 0x0806, 1
ARP_REQUEST, ARP_REPLY = 1, 2
ARP = struct.Struct("!HHBBH6s4s6s4s")
"""Hardware type, protocol type, their address lengths, operation, sender MAC and IP, target MAC and
IP (RFC 826)."""
BROADCAST = b"\xff" * 6
ND_SOLICIT, ND_ADVERT = 135, 136
ND = struct.Struct("!BBHI16s")
"""Type, code, checksum, flags, target (RFC 4861)."""
ND_SOURCE_LLADDR, ND_TARGET_LLADDR = 1, 2
IPV6_MULTICAST_HOPS, IPV6_MULTICAST_IF, ICMPV6_FILTER = 18, 17, 1


class NeighbourSchedule(NamedTuple):
    """How often an address is asked for."""

    requests: int
    interval: float
    """Seconds between two requests, and after the last one."""


MAX_MACS = 16
MAX_REPLIES = 256
"""Replies that are read."""


def answering_macs(
    address: str, source: str, ifindex: int, pace: NeighbourSchedule
) -> tuple[str, ...]:
    """The MAC addresses that answer for `address` on a NIC, in the order of their first answers.
    Raises OSError; ValueError when the NIC has no Ethernet address."""
    name = socket.if_indextoname(ifindex)
    own = mac_of(name)
    if len(own) != 6 or own == bytes(6):
        raise ValueError(f"{name} has no Ethernet address")
    if ":" in address:
        return _advertising_macs(address, source, ifindex, own, pace)
    return _replying_macs(address, source, name, own, pace)


def mac_of(name: str) -> bytes:
    """Ethernet address of a NIC, b"" if it has another kind. Raises OSError."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as packets:
        packets.bind((name, 0))
        _, _, _, hardware, address = packets.getsockname()
    return bytes(address) if hardware == ARPHRD_ETHER else b""


def arp_request(mac: bytes, source: str, address: str) -> bytes:
    sender, target = socket.inet_aton(source), socket.inet_aton(address)
    return ARP.pack(ARPHRD_ETHER, 0x0800, 6, 4, ARP_REQUEST, mac, sender, bytes(6), target)


def parse_arp_reply(packet: bytes, address: bytes) -> str | None:
    """MAC address of the sender of an ARP reply for `address`, which is packed; None: any other
    packet."""
    if len(packet) < ARP.size:
        return None
    hardware, protocol, _, _, operation, mac, sender, _, _ = ARP.unpack_from(packet)
    is_reply = (hardware, protocol, operation) == (ARPHRD_ETHER, 0x0800, ARP_REPLY)
    return colon_hex(mac) if is_reply and sender == address else None


def neighbour_solicitation(mac: bytes, address: str) -> bytes:
    """Without checksum, which the kernel adds."""
    target = socket.inet_pton(socket.AF_INET6, address)
    return ND.pack(ND_SOLICIT, 0, 0, 0, target) + bytes((ND_SOURCE_LLADDR, 1)) + mac


def parse_advertisement(message: bytes, address: bytes) -> str | None:
    """Target link-layer address of a neighbour advertisement for `address`, which is packed; None:
    any other message."""
    if len(message) < ND.size:
        return None
    kind, _, _, _, target = ND.unpack_from(message)
    if kind != ND_ADVERT or target != address:
        return None
    offset = ND.size
    while offset + 2 <= len(message) and message[offset + 1]:
        option, length = message[offset], 8 * message[offset + 1]
        if option == ND_TARGET_LLADDR and offset + 8 <= len(message):
            return colon_hex(message[offset + 2 : offset + 8])
        offset += length
    return None


def _replying_macs(
    address: str, source: str, name: str, own: bytes, pace: NeighbourSchedule
) -> tuple[str, ...]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as packets:
        packets.bind((name, ETH_P_ARP))
        request = arp_request(own, source, address)

        def send() -> None:
            packets.sendto(request, (name, ETH_P_ARP, 0, ARPHRD_ETHER, BROADCAST))

        wanted = socket.inet_aton(address)
        return _collect(packets, send, lambda packet: parse_arp_reply(packet, wanted), pace)


def _advertising_macs(
    address: str, source: str, ifindex: int, own: bytes, pace: NeighbourSchedule
) -> tuple[str, ...]:
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as messages:
        words = [0xFFFFFFFF] * 8  # struct icmp6_filter: a set bit blocks that type
        words[ND_ADVERT >> 5] &= ~(1 << (ND_ADVERT & 31))
        messages.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *words))
        messages.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 255)
        messages.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_IF, ifindex)
        messages.bind((source, 0, 0, ifindex if source.startswith("fe80") else 0))
        group = "ff02::1:ff" + socket.inet_pton(socket.AF_INET6, address)[13:].hex().zfill(6)
        group = f"{group[:12]}:{group[12:]}"
        request = neighbour_solicitation(own, address)

        def send() -> None:
            messages.sendto(request, (group, 0, 0, ifindex))

        wanted = socket.inet_pton(socket.AF_INET6, address)
        return _collect(messages, send, lambda message: parse_advertisement(message, wanted), pace)


def _collect(
    connection: socket.socket,
    send: Callable[[], None],
    parse: Callable[[bytes], str | None],
    pace: NeighbourSchedule,
) -> tuple[str, ...]:
    found: dict[str, None] = {}
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    replies = 0
    for _ in range(pace.requests):
        send()
        end = time.monotonic() + pace.interval
        while replies < MAX_REPLIES and len(found) < MAX_MACS:
            left = end - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                break
            replies += 1
            mac = parse(connection.recv(2048, socket.MSG_DONTWAIT))
            if mac is not None:
                found[mac] = None
    return tuple(found)
