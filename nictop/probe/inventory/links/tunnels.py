"""Settings of tunnel links, and the other ends of veths in other network namespaces.

`parse_tunnel` is pure: IFLA_INFO_DATA of vxlan, geneve, gre and IP-in-IP tunnels (linux/if_link.h,
linux/if_tunnel.h) → `Tunnel`; a missing or malformed attribute gives the default. `with_veth_peers`
sends RTM_GETLINK with IFLA_TARGET_NETNSID for each veth whose peer is in a namespace that has an id
here.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterable, Mapping

from nictop.probe.kernel import if_link
from nictop.probe.kernel.backports import colon_hex
from nictop.probe.kernel.netlink import (
    NetlinkSocket,
    iter_attributes,
    pack_attribute,
    text,
    unsigned,
)
from nictop.probe.kernel.rtnetlink import IFINFOMSG, RTM_GETLINK
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link, Tunnel, VethPeer

IFLA_TARGET_NETNSID = 46
"""Also called IFLA_IF_NETNSID. An older kernel ignores it, and describes a link of this
namespace."""
MAX_PEERS = 256
"""Veths whose other end is asked for: some 60 µs of CPU time each."""

GONE = (errno.ENODEV, errno.EINVAL)
"""The link, or its namespace, was removed in between."""


class Attributes(NamedTuple):
    """Numbers of the attributes of one kind of tunnel; 0: it has none."""

    local: tuple[int, ...]
    remote: tuple[int, ...]
    """Several: one for each address family."""
    lower: int = 0
    port: int = 0
    number: int = 0
    external: int = 0
    external_is_flag: bool = False
    """The attribute has no value: that it is there is the value."""
    flags: int = 0
    encapsulation: int = 0
    pmtu_discovery: int = 0


VXLAN = Attributes((4, 17), (2, 16), 3, 15, 1, 25)
GENEVE = Attributes((), (2, 7), 0, 5, 1, 6, external_is_flag=True)
GRE = Attributes(
    (6,), (7,), 1, external=18, external_is_flag=True, flags=3, encapsulation=14, pmtu_discovery=10
)
IP_TUNNEL = Attributes(
    (2,), (3,), 1, external=19, external_is_flag=True, encapsulation=15, pmtu_discovery=10
)
"""IFLA_VXLAN_*, IFLA_GENEVE_*, IFLA_GRE_*, IFLA_IPTUN_*."""
KINDS: Mapping[str, Attributes] = {
    "vxlan": VXLAN,
    "geneve": GENEVE,
    **dict.fromkeys(("gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan"), GRE),
    **dict.fromkeys(("ipip", "sit", "ip6tnl"), IP_TUNNEL),
}


ADDRESS_FAMILIES = {4: socket.AF_INET, 16: socket.AF_INET6}
"""By length of an address."""


def parse_tunnel(kind: str, value: bytes) -> Tunnel | None:
    """`value`: IFLA_INFO_DATA; None: a kind of link that is no tunnel, or WireGuard, which has no
    attributes."""
    numbers = KINDS.get(kind)
    if numbers is None:
        return None
    found = dict(iter_attributes(value))
    external = found.get(numbers.external) if numbers.external else None
    discovery = host_number(found, numbers.pmtu_discovery, 1)
    return Tunnel(
        local=first_address(found, numbers.local),
        remote=first_address(found, numbers.remote),
        port=network_number(found, numbers.port, 2) or None,
        number=host_number(found, numbers.number),
        lower=host_number(found, numbers.lower) or None,
        external=external is not None and (numbers.external_is_flag or any(external)),
        flags=network_number(found, numbers.flags, 2),
        encapsulation=host_number(found, numbers.encapsulation, 2) or 0,
        pmtu_discovery=None if discovery is None else discovery != 0,
    )


def first_address(found: Mapping[int, bytes], kinds: Iterable[int]) -> str | None:
    """The first address that is set; all zeros: none."""
    for kind in kinds:
        value = found.get(kind, b"")
        if any(value) and len(value) in ADDRESS_FAMILIES:
            return socket.inet_ntop(ADDRESS_FAMILIES[len(value)], value)
    return None


def host_number(found: Mapping[int, bytes], kind: int, size: int = 4) -> int | None:
    """`kind` 0: this kind of tunnel has no such attribute; of the next one, too."""
    value = found.get(kind, b"")
    if not kind or len(value) != size:
        return None
    return unsigned(value)


def network_number(found: Mapping[int, bytes], kind: int, size: int) -> int:
    value = found.get(kind, b"")
    if not kind or len(value) != size:
        return 0
    return int.from_bytes(value, "big")


# -------------------------------------------------------------------------------------------- veths


def with_veth_peers(netlink: NetlinkSocket, links: Iterable[Link]) -> list[Link]:
    """The links with `Link.veth_peer`. What may not be asked for (EACCES without root) is left
    out."""
    complete, asked, may_ask = [], 0, True
    for link in links:
        peer = None
        if may_ask and asked < MAX_PEERS and is_across_namespaces(link):
            asked += 1
            try:
                peer = read_peer(netlink, link)
            except OSError as error:
                may_ask = error.errno in GONE
        complete.append(link if peer is None else replace(link, veth_peer=peer))
    return complete


def is_across_namespaces(link: Link) -> bool:
    if link.kind != "veth" or link.lower_namespace is None:
        return False
    return link.lower_namespace >= 0


def read_peer(netlink: NetlinkSocket, link: Link) -> VethPeer | None:
    """Raises OSError: the kernel refused the request, or the link is gone."""
    number = link.lower or link.ifindex  # None: it has the same number there
    namespace = link.lower_namespace or 0
    target = pack_attribute(IFLA_TARGET_NETNSID, namespace.to_bytes(4, sys.byteorder))
    for _, payload in netlink.request(
        RTM_GETLINK, IFINFOMSG.pack(socket.AF_UNSPEC, 0, number, 0, 0) + target
    ):
        peer = parse_peer(payload, link.ifindex, number, namespace)
        if peer is not None:
            return peer
    return None


def parse_peer(payload: bytes, ifindex: int, peer: int, namespace: int) -> VethPeer | None:
    """The other end of a veth with the number `ifindex`; None: the reply is not about link `peer`
    of the namespace."""
    if len(payload) < IFINFOMSG.size:
        return None
    found = dict(iter_attributes(payload[IFINFOMSG.size :]))
    number = IFINFOMSG.unpack_from(payload)[2]
    name = text(found.get(if_link.IFLA_IFNAME, b""))
    mtu = found.get(if_link.IFLA_MTU, b"")
    info = dict(iter_attributes(found.get(if_link.IFLA_LINKINFO, b"")))
    is_from_there = found.get(IFLA_TARGET_NETNSID, b"") == namespace.to_bytes(4, sys.byteorder)
    is_veth = text(info.get(if_link.IFLA_INFO_KIND, b"")) == "veth"
    points_here = host_number(found, if_link.IFLA_LINK) == ifindex
    if (
        not (is_from_there and is_veth and points_here)
        or number != peer
        or not name
        or len(mtu) != 4
    ):
        return None
    address = found.get(if_link.IFLA_ADDRESS)
    return VethPeer(name, unsigned(mtu), colon_hex(address) if address else None)
