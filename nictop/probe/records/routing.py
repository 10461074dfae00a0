"""Routing of the host: neighbour tables, routes, policy rules and name servers, as the kernel and
resolv.conf have them."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry of the neighbour table: ARP, or neighbour discovery (IPv6). RTM_GETNEIGH; at most
    4096."""

    ifindex: int
    address: str
    """IP address. NDA_DST"""
    nud_state: str
    """incomplete (asked, no answer yet), reachable, stale, delay, probe, failed (asked three times,
    no answer) or permanent (static). NUD_*; those without address resolution (NUD_NOARP) are left
    out."""
    mac: str | None = None
    """NDA_LLADDR, lower case; None: incomplete or failed."""
    router: bool = False
    """It has said that it is an IPv6 router. NTF_ROUTER"""
    since_update: float | None = None
    """Seconds since its state or MAC address last changed: a failed entry that is in use is asked
    for again at once, one that is not in use remains as it is. NDA_CACHEINFO: ndm_updated"""


@dataclass(frozen=True, slots=True)
class TableRoute:
    """A next hop of a route in any table. RTM_GETROUTE. Left out: local, broadcast and multicast
    addresses, link-local prefixes, and the default route that old kernels have on lo (unreachable,
    metric 4294967295)."""

    family: Literal["ipv4", "ipv6"]
    destination: str
    """``192.0.2.0/24``; ``0.0.0.0/0`` and ``::/0``: default."""
    type: str
    """unicast, or one that refuses packets: unreachable, blackhole, prohibit, throw (look in the
    next table). RTN_*"""
    table: int
    """254 is main."""
    protocol: int
    """Who added it: 2 kernel, 3 ip-route(8), 4 static, 9 router advertisement, 16 DHCP, …
    RTPROT_*"""
    metric: int = 0
    """RTA_PRIORITY; the lowest is used."""
    ifindex: int | None = None
    """Outgoing link. None: of a type that refuses packets, or not told (RTA_NH_ID alone)."""
    gateway: str | None = None
    """None: on-link."""
    onlink: bool = False
    """The gateway was declared to be on the link, whatever its address. RTNH_F_ONLINK"""
    usable: bool = True
    """False: its link is down or has no carrier. RTNH_F_DEAD, RTNH_F_LINKDOWN"""
    source: str = ""
    """``2001:db8::/56``: only for packets from these addresses. RTA_SRC"""
    expires: float | None = None
    """Seconds until it ends unless it is renewed, IPv6 only; None: it does not end. RTA_CACHEINFO:
    rta_expires"""
    preferred_source: str = ""
    """Source address of its packets, unless the socket has one. RTA_PREFSRC"""
    options: tuple[str, ...] = ()
    """Words of ip-route(8) for what else it has: ``scope link mtu 1400``. rtm_scope if it is not
    the usual one, RTA_METRICS, RTA_PREF"""
    unread: tuple[str, ...] = ()
    """Names of what it has that nictop has no words for: encap, realms, congctl."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule that selects a routing table. RTM_GETRULE, ``ip rule``."""

    family: Literal["ipv4", "ipv6"]
    priority: int
    action: str
    """table, goto, nop, or one that refuses packets: blackhole, unreachable, prohibit. FR_ACT_*"""
    table: int | None = None
    """Action table: its number."""
    target: int | None = None
    """Action goto: priority of the rule to go on with."""
    source: str = ""
    destination: str = ""
    """``192.0.2.7/32``; "": all."""
    inverted: bool = False
    """``not``: for the packets that do not match."""
    mark: int | None = None
    mark_mask: int | None = None
    """``fwmark``; None: any."""
    input_link: str = ""
    """``iif``; lo: packets of this host."""
    output_link: str = ""
    """``oif``; sockets that are bound to this link."""
    suppressed_length: int | None = None
    """Routes found with this prefix length or a shorter one do not count. FRA_SUPPRESS_PREFIXLEN"""
    other_selectors: tuple[str, ...] = ()
    """Names of further conditions: l3mdev, uidrange, ipproto, sport, dport, tos, …"""


@dataclass(frozen=True, slots=True)
class Routing:
    """What decides where packets of this host go."""

    neighbours: tuple[Neighbour, ...] = ()
    routes: tuple[TableRoute, ...] = ()
    """In the order of the kernel; default routes of the tables main and default are also in
    `Link.default_routes`."""
    rules: tuple[PolicyRule, ...] = ()
    """In the order of evaluation, IPv4 first, with the kernel's own. Empty: a kernel without them
    has the tables local and main only."""
    name_servers: tuple[str, ...] = ()
    """Addresses of resolv.conf; if that has only the local stub of systemd-resolved, those that it
    asks."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """By field; of ``neighbours`` and ``routes`` too many entries are in it: the first ones were
    read."""
    has_route_options: bool = False
    """Preferred source, options and what is unread of routes were looked at; versions before did
    not."""
