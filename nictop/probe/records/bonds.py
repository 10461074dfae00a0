"""Bonds and teams: their settings, and the state of each of their ports."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Bond:
    """Settings of a bond, and its active aggregator. RTM_GETLINK: IFLA_INFO_DATA, IFLA_BOND_*."""

    mode: str
    """balance-rr, active-backup, balance-xor, broadcast, 802.3ad, balance-tlb or balance-alb.
    IFLA_BOND_MODE"""
    active_port: int | None = None
    """ifindex; None: the mode has none, or no port is usable. IFLA_BOND_ACTIVE_SLAVE"""
    primary: int | None = None
    """ifindex of the preferred port. IFLA_BOND_PRIMARY"""
    primary_reselect: str | None = None
    """always, better or failure: when `primary` becomes active again. IFLA_BOND_PRIMARY_RESELECT"""
    fail_over_mac: str | None = None
    """none, active or follow: whose MAC address the bond has. IFLA_BOND_FAIL_OVER_MAC"""
    miimon: int | None = None
    """Milliseconds between checks of the ports' carrier; 0: off. IFLA_BOND_MIIMON"""
    up_delay: int | None = None
    down_delay: int | None = None
    """Milliseconds. IFLA_BOND_UPDELAY, IFLA_BOND_DOWNDELAY"""
    arp_interval: int | None = None
    """Milliseconds between ARP requests that check the ports; 0: off. IFLA_BOND_ARP_INTERVAL"""
    hash_policy: str | None = None
    """layer2, layer2+3, layer3+4, encap2+3, encap3+4 or vlan+srcmac. IFLA_BOND_XMIT_HASH_POLICY"""
    min_links: int | None = None
    """Ports of the active aggregator below which the bond has no carrier. IFLA_BOND_MIN_LINKS"""
    lacp_rate: str | None = None
    """slow (30 s) or fast (1 s): interval of the LACPDUs that the partner is asked for.
    IFLA_BOND_AD_LACP_RATE"""
    lacp_active: bool | None = None
    """False: LACPDUs are not sent periodically. IFLA_BOND_AD_LACP_ACTIVE, Linux 5.15"""
    aggregator: int | None = None
    """Id of the active aggregator. IFLA_BOND_AD_INFO_AGGREGATOR"""
    aggregator_ports: int | None = None
    """Number of its ports. IFLA_BOND_AD_INFO_NUM_PORTS"""
    actor_key: int | None = None
    partner_key: int | None = None
    """Of the active aggregator. IFLA_BOND_AD_INFO_ACTOR_KEY, IFLA_BOND_AD_INFO_PARTNER_KEY"""
    partner: str | None = None
    """MAC address of its partner; 00:00:00:00:00:00: no LACPDU was received.
    IFLA_BOND_AD_INFO_PARTNER_MAC"""


@dataclass(frozen=True, slots=True)
class LacpEnd:
    """One end of an LACP port. /proc/net/bonding/BOND: "details actor lacp pdu", "details partner
    lacp pdu"."""

    system: str
    """MAC address; 00:00:00:00:00:00: no LACPDU was received."""
    key: int
    """Ports with the same key of one system can be aggregated."""
    system_priority: int
    port_priority: int
    port: int
    """Number."""


@dataclass(frozen=True, slots=True)
class BondPort:
    """State of a port of a bond. RTM_GETLINK: IFLA_INFO_SLAVE_DATA, IFLA_BOND_SLAVE_*;
    /proc/net/bonding/BOND."""

    active: bool
    """False: backup, the port receives nothing for the bond and sends nothing.
    IFLA_BOND_SLAVE_STATE"""
    mii_status: str
    """up, going down, down or going back (the two between: in downdelay or updelay).
    IFLA_BOND_SLAVE_MII_STATUS"""
    link_failures: int | None = None
    """Since it was added to the bond. IFLA_BOND_SLAVE_LINK_FAILURE_COUNT"""
    aggregator: int | None = None
    """802.3ad: id. IFLA_BOND_SLAVE_AD_AGGREGATOR_ID"""
    actor_state: int | None = None
    partner_state: int | None = None
    """802.3ad: port state bits of IEEE 802.1AX 6.4.2.3, from bit 0: activity, short timeout,
    aggregation, synchronization, collecting, distributing, defaulted, expired.
    IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE, IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE"""
    actor: LacpEnd | None = None
    partner: LacpEnd | None = None
    """802.3ad; needs CAP_NET_ADMIN."""
    actor_churn: str | None = None
    partner_churn: str | None = None
    """802.3ad: none, monitoring (the first 60 s) or churned (not in sync after them).
    IFLA_BOND_SLAVE_AD_CHURN_*, or /proc/net/bonding."""
    actor_churns: int | None = None
    partner_churns: int | None = None
    """How often it was churned."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TeamPort:
    """A port of a team. Generic netlink, family team: TEAM_CMD_PORT_LIST_GET and options of the
    port."""

    ifindex: int
    has_link: bool
    """TEAM_ATTR_PORT_LINKUP"""
    enabled: bool | None = None
    """Used by the team; set by teamd, with LACP only while the port is selected. Option enabled."""
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Team:
    """A team. Generic netlink, family team: TEAM_CMD_OPTIONS_GET. Its LACP state is known to teamd
    only."""

    mode: str | None = None
    """roundrobin, activebackup, loadbalance, broadcast or random. Option mode"""
    active_port: int | None = None
    """ifindex; activebackup only. Option activeport"""
    ports: tuple[TeamPort, ...] = ()
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
