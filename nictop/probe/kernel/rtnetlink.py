"""Constants of rtnetlink that several readers use: message types, link attributes, operational states. Nothing is read.

From linux/rtnetlink.h, linux/if_link.h and linux/if_addr.h. Separate from the records, so that the counters and the
events, which run in the long-lived probe process, import nothing but numbers.
"""

from __future__ import annotations

import struct

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS = 40, 41, 42
RTM_NEWNETCONF = 80

IFINFOMSG = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, ARPHRD type, ifindex, flags, change mask."""
IFADDRMSG = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, ifindex."""

IFF_UP = 0x1
RTEXT_FILTER_VF = 1

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_QDISC, IFLA_MASTER, IFLA_WIRELESS = 1, 3, 4, 5, 6, 10, 11
IFLA_TXQLEN, IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_IFALIAS, IFLA_NUM_VF, IFLA_VFINFO_LIST = 13, 16, 18, 20, 21, 22
IFLA_STATS64, IFLA_EXT_MASK, IFLA_PROMISCUITY, IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES = 23, 29, 30, 31, 32
IFLA_CARRIER, IFLA_CARRIER_CHANGES, IFLA_PHYS_SWITCH_ID, IFLA_LINK_NETNSID, IFLA_PHYS_PORT_NAME = 33, 35, 36, 37, 38
IFLA_MIN_MTU, IFLA_MAX_MTU, IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PERM_ADDRESS = 50, 51, 52, 53, 54
IFLA_PARENT_DEV_NAME, IFLA_PARENT_DEV_BUS_NAME = 56, 57
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2

IFLA_VF_INFO = 1
IFLA_VF_MAC, IFLA_VF_VLAN, IFLA_VF_TX_RATE, IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE, IFLA_VF_RATE = 1, 2, 3, 4, 5, 6
IFLA_VF_RSS_QUERY_EN, IFLA_VF_STATS, IFLA_VF_TRUST, IFLA_VF_VLAN_LIST, IFLA_VF_VLAN_INFO = 7, 8, 9, 12, 1
IFLA_VF_STATS_RX_PACKETS, IFLA_VF_STATS_TX_PACKETS, IFLA_VF_STATS_RX_BYTES, IFLA_VF_STATS_TX_BYTES = 0, 1, 2, 3
IFLA_VF_STATS_BROADCAST, IFLA_VF_STATS_MULTICAST = 4, 5
IFLA_VF_STATS_RX_DROPPED, IFLA_VF_STATS_TX_DROPPED = 7, 8
VF_STATS_ATTRIBUTES = (
    IFLA_VF_STATS_RX_PACKETS,
    IFLA_VF_STATS_TX_PACKETS,
    IFLA_VF_STATS_RX_BYTES,
    IFLA_VF_STATS_TX_BYTES,
    IFLA_VF_STATS_BROADCAST,
    IFLA_VF_STATS_MULTICAST,
    IFLA_VF_STATS_RX_DROPPED,
    IFLA_VF_STATS_TX_DROPPED,
)
"""In the order of `records.VF_COUNTERS`."""

IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8

OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
"""Names by IF_OPER_* number (RFC 2863), as ``ip link`` and /sys/class/net/*/operstate have them."""


def operstate_name(number: int) -> str:
    """Name of an IFLA_OPERSTATE number."""
    return OPERSTATES[number] if number < len(OPERSTATES) else "unknown"
