"""Who adds routes: RTPROT_* of linux/rtnetlink.h. Nothing is read."""

from __future__ import annotations

RTPROT_KERNEL, RTPROT_BOOT, RTPROT_STATIC, RTPROT_RA, RTPROT_DHCP = 2, 3, 4, 9, 16
AUTOMATIC_ROUTES = {
    1: "an ICMP redirect",
    RTPROT_KERNEL: "the kernel",
    RTPROT_RA: "router advertisements",
    RTPROT_DHCP: "DHCP",
}
ROUTING_DAEMONS = {
    8: "gated",
    10: "mrtd",
    11: "zebra",
    12: "bird",
    13: "dnrouted",
    14: "xorp",
    15: "netsukuku",
    17: "mrouted",
    18: "keepalived",
    42: "babel",
    99: "Open/R",
    186: "BGP",
    187: "IS-IS",
    188: "OSPF",
    189: "RIP",
    192: "EIGRP",
}
FIRST_ROUTING_PROTOCOL = 186
"""From here on only routing daemons have numbers."""


def route_owner(protocol: int) -> str:
    """What adds, changes and removes routes with this RTPROT_* by itself; "": nothing, they are
    static.

    Nothing else may rewrite such a route: the one that replaces it is static, loses its lifetime
    and other next hops, and its owner does not know it.
    """
    return AUTOMATIC_ROUTES.get(protocol, "") or routing_daemon(protocol)


def routing_daemon(protocol: int) -> str:
    """BGP, BIRD, FRR, keepalived, …; "": the route is of something else."""
    return ROUTING_DAEMONS.get(
        protocol, "a routing daemon" if protocol >= FIRST_ROUTING_PROTOCOL else ""
    )
