"""Tunnels: links that put their packets into packets of another link, and the other end of a
veth."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Settings of a tunnel link (vxlan, geneve, gre, ipip, …). IFLA_INFO_DATA of RTM_GETLINK;
    WireGuard has none."""

    local: str | None = None
    """Source address of its packets; None: chosen for each packet by the route."""
    remote: str | None = None
    """Address, or multicast group, that it sends to; None: of each packet, by forwarding table or a
    program."""
    port: int | None = None
    """UDP destination port of vxlan and geneve."""
    number: int | None = None
    """Network identifier (VNI) of vxlan and geneve."""
    lower: int | None = None
    """ifindex of the link that it is bound to; None: by route."""
    external: bool = False
    """A program (Open vSwitch, Cilium) sets remote and VNI of each packet: ``external``, collect
    metadata."""
    flags: int = 0
    """gre: flags of sent packets, 0x8000 checksum, 0x2000 key, 0x1000 sequence number.
    IFLA_GRE_OFLAGS"""
    encapsulation: int = 0
    """gre, ipip, sit: 1 in UDP (fou), 2 in GUE, 0 neither. IFLA_GRE_ENCAP_TYPE,
    IFLA_IPTUN_ENCAP_TYPE"""
    pmtu_discovery: bool | None = None
    """gre, ipip, sit: False: its packets may be fragmented (``nopmtudisc``). IFLA_GRE_PMTUDISC,
    IFLA_IPTUN_PMTUDISC"""


@dataclass(frozen=True, slots=True)
class VethPeer:
    """The end of a veth in another network namespace. RTM_GETLINK with IFLA_TARGET_NETNSID (Linux
    4.16, root)."""

    name: str
    mtu: int
    """Bytes."""
    address: str | None = None
    """MAC address, lower case; None: not read, as in recordings before this field."""
