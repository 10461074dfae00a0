"""Attributes of a link (linux/if_link.h), of its virtual functions, and its operational states.
Nothing is read."""

from __future__ import annotations

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_QDISC, IFLA_MASTER, IFLA_WIRELESS = (
    1,
    3,
    4,
    5,
    6,
    10,
    11,
)
IFLA_TXQLEN, IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_IFALIAS, IFLA_NUM_VF, IFLA_VFINFO_LIST = (
    13,
    16,
    18,
    20,
    21,
    22,
)
IFLA_PROMISCUITY, IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES = 30, 31, 32
IFLA_CARRIER, IFLA_CARRIER_CHANGES, IFLA_PHYS_SWITCH_ID, IFLA_LINK_NETNSID, IFLA_PHYS_PORT_NAME = (
    33,
    35,
    36,
    37,
    38,
)
IFLA_MIN_MTU, IFLA_MAX_MTU, IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PERM_ADDRESS = 50, 51, 52, 53, 54
IFLA_PARENT_DEV_NAME, IFLA_PARENT_DEV_BUS_NAME = 56, 57
IFLA_XDP, IFLA_XDP_ATTACHED, IFLA_XDP_PROG_ID = 43, 2, 4
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 4, 5

IFLA_VF_INFO = 1
IFLA_VF_MAC, IFLA_VF_VLAN, IFLA_VF_TX_RATE, IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE, IFLA_VF_RATE = (
    1,
    2,
    3,
    4,
    5,
    6,
)
IFLA_VF_RSS_QUERY_EN, IFLA_VF_STATS, IFLA_VF_TRUST, IFLA_VF_VLAN_LIST, IFLA_VF_VLAN_INFO = (
    7,
    8,
    9,
    12,
    1,
)
(
    IFLA_VF_STATS_RX_PACKETS,
    IFLA_VF_STATS_TX_PACKETS,
    IFLA_VF_STATS_RX_BYTES,
    IFLA_VF_STATS_TX_BYTES,
) = 0, 1, 2, 3
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

OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
"""Names by IF_OPER_* number (RFC 2863), as ``ip link`` and /sys/class/net/*/operstate have them."""


def operstate_name(number: int) -> str:
    """Name of an IFLA_OPERSTATE number."""
    return OPERSTATES[number] if number < len(OPERSTATES) else "unknown"
