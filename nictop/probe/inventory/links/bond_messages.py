"""Bonding attributes of RTM_NEWLINK (linux/if_link.h) and the text of /proc/net/bonding/BOND →
records. Pure.

A missing attribute, or one of the wrong size, is None; lines that are not understood are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nictop.probe.inventory.links.messages import (
    BOND_MODES,
    IFLA_BOND_MODE,
    flag,
    hardware_address,
    named,
    number,
)
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.if_link import IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO
from nictop.probe.kernel.netlink import iter_attributes, text
from nictop.probe.kernel.rtnetlink import IFINFOMSG
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Bond, BondPort, LacpEnd, Link, Unreadable

IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 4, 5
IFLA_BOND_ACTIVE_SLAVE, IFLA_BOND_MIIMON, IFLA_BOND_UPDELAY, IFLA_BOND_DOWNDELAY = 2, 3, 4, 5
IFLA_BOND_ARP_INTERVAL, IFLA_BOND_PRIMARY, IFLA_BOND_PRIMARY_RESELECT, IFLA_BOND_FAIL_OVER_MAC = (
    7,
    11,
    12,
    13,
)
IFLA_BOND_XMIT_HASH_POLICY, IFLA_BOND_MIN_LINKS, IFLA_BOND_AD_LACP_RATE, IFLA_BOND_AD_INFO = (
    14,
    18,
    21,
    23,
)
IFLA_BOND_AD_LACP_ACTIVE = 29
IFLA_BOND_AD_INFO_AGGREGATOR, IFLA_BOND_AD_INFO_NUM_PORTS, IFLA_BOND_AD_INFO_ACTOR_KEY = 1, 2, 3
IFLA_BOND_AD_INFO_PARTNER_KEY, IFLA_BOND_AD_INFO_PARTNER_MAC = 4, 5
IFLA_BOND_SLAVE_STATE, IFLA_BOND_SLAVE_MII_STATUS, IFLA_BOND_SLAVE_LINK_FAILURE_COUNT = 1, 2, 3
IFLA_BOND_SLAVE_AD_AGGREGATOR_ID, IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE = 6, 7
IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE = 8
IFLA_BOND_SLAVE_AD_CHURN_ACTOR_STATE, IFLA_BOND_SLAVE_AD_CHURN_PARTNER_STATE = 11, 12

LACP_MODE = "802.3ad"
HASH_POLICIES = dict(
    enumerate(("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"))
)
PRIMARY_RESELECT = dict(enumerate(("always", "better", "failure")))
FAIL_OVER_MAC = dict(enumerate(("none", "active", "follow")))
LACP_RATES = dict(enumerate(("slow", "fast")))
MII_STATES = dict(enumerate(("up", "going down", "down", "going back")))
"""BOND_LINK_UP, BOND_LINK_FAIL, BOND_LINK_DOWN, BOND_LINK_BACK"""

MAC_ADDRESS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
CHURN_STATES = {0: "monitoring", 1: "churned", 2: "none"}
"""AD_CHURN_MONITOR, AD_CHURN, AD_NO_CHURN"""


def with_bond(link: Link, payload: bytes) -> Link:
    """The link of an RTM_NEWLINK with `Link.bond` or `Link.bond_port`."""
    if b"bond\0" not in payload:
        return link
    found = dict(iter_attributes(payload[IFINFOMSG.size :]))
    info = dict(iter_attributes(found.get(IFLA_LINKINFO, b"")))
    if text(info.get(IFLA_INFO_KIND, b"")) == "bond":
        link = replace(link, bond=parse_bond(info.get(IFLA_INFO_DATA, b"")))
    if text(info.get(IFLA_INFO_SLAVE_KIND, b"")) == "bond":
        link = replace(link, bond_port=parse_bond_port(info.get(IFLA_INFO_SLAVE_DATA, b"")))
    return link


def parse_bond(value: bytes) -> Bond | None:
    """IFLA_INFO_DATA of a bond; None without a mode."""
    found = dict(iter_attributes(value))
    mode = named(found, IFLA_BOND_MODE, BOND_MODES)
    if mode is None:
        return None
    active = dict(iter_attributes(found.get(IFLA_BOND_AD_INFO, b"")))
    bond = Bond(
        mode=mode,
        active_port=number(found, IFLA_BOND_ACTIVE_SLAVE) or None,
        primary=number(found, IFLA_BOND_PRIMARY) or None,
        primary_reselect=named(found, IFLA_BOND_PRIMARY_RESELECT, PRIMARY_RESELECT),
        fail_over_mac=named(found, IFLA_BOND_FAIL_OVER_MAC, FAIL_OVER_MAC),
        miimon=number(found, IFLA_BOND_MIIMON),
        up_delay=number(found, IFLA_BOND_UPDELAY),
        down_delay=number(found, IFLA_BOND_DOWNDELAY),
        arp_interval=number(found, IFLA_BOND_ARP_INTERVAL),
        hash_policy=named(found, IFLA_BOND_XMIT_HASH_POLICY, HASH_POLICIES),
        min_links=number(found, IFLA_BOND_MIN_LINKS),
        aggregator=number(active, IFLA_BOND_AD_INFO_AGGREGATOR),
        aggregator_ports=number(active, IFLA_BOND_AD_INFO_NUM_PORTS),
        actor_key=number(active, IFLA_BOND_AD_INFO_ACTOR_KEY),
        partner_key=number(active, IFLA_BOND_AD_INFO_PARTNER_KEY),
        partner=hardware_address(active.get(IFLA_BOND_AD_INFO_PARTNER_MAC)),
    )
    if mode != LACP_MODE:
        return bond
    return replace(
        bond,
        lacp_rate=named(found, IFLA_BOND_AD_LACP_RATE, LACP_RATES),
        lacp_active=flag(found, IFLA_BOND_AD_LACP_ACTIVE),
    )


def parse_bond_port(value: bytes) -> BondPort | None:
    """IFLA_INFO_SLAVE_DATA of a port of a bond; None without state."""
    found = dict(iter_attributes(value))
    state = number(found, IFLA_BOND_SLAVE_STATE)
    mii = named(found, IFLA_BOND_SLAVE_MII_STATUS, MII_STATES)
    if state is None or mii is None:
        return None
    return BondPort(
        active=state == 0,
        mii_status=mii,
        link_failures=number(found, IFLA_BOND_SLAVE_LINK_FAILURE_COUNT),
        aggregator=number(found, IFLA_BOND_SLAVE_AD_AGGREGATOR_ID),
        actor_state=number(found, IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE),
        partner_state=number(found, IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE),
        actor_churn=churn(found, IFLA_BOND_SLAVE_AD_CHURN_ACTOR_STATE),
        partner_churn=churn(found, IFLA_BOND_SLAVE_AD_CHURN_PARTNER_STATE),
    )


def churn(found: Mapping[int, bytes], attribute: int) -> str | None:
    value = number(found, attribute)
    if value is None:
        return None
    return CHURN_STATES.get(value)


def with_lacp_details(port: BondPort, lines: Mapping[str, str]) -> BondPort:
    """The port with what only /proc/net/bonding has. `lines`: see `parse_proc_bonding`."""
    if not lines:
        return port
    actor = _lacp_end(lines, "actor", "port key")
    partner = _lacp_end(lines, "partner", "oper key")
    unreadable = dict(port.unreadable)
    hidden = Unreadable("needs_root", "/proc/net/bonding: LACPDU details only with CAP_NET_ADMIN")
    if actor is None:
        unreadable["actor"] = hidden
    if partner is None:
        unreadable["partner"] = hidden
    return replace(
        port,
        actor=actor,
        partner=partner,
        actor_churn=_churn_state(lines, "actor") or port.actor_churn,
        partner_churn=_churn_state(lines, "partner") or port.partner_churn,
        actor_churns=_decimal(lines.get("actor churned count")),
        partner_churns=_decimal(lines.get("partner churned count")),
        unreadable=unreadable,
    )


def _churn_state(lines: Mapping[str, str], end: str) -> str | None:
    state = lines.get(f"{end} churn state")
    if state not in CHURN_STATES.values():
        return None
    return state


def _lacp_end(lines: Mapping[str, str], end: str, key: str) -> LacpEnd | None:
    system = lines.get(f"{end} system mac address", "")
    names = (key, "system priority", "port priority", "port number")
    values = [_decimal(lines.get(f"{end} {name}")) for name in names]
    known = [value for value in values if value is not None]
    if not MAC_ADDRESS.fullmatch(system) or len(known) < len(values):
        return None
    return LacpEnd(system, *known)


def _decimal(value: str | None) -> int | None:
    if value is None or not is_ascii(value) or not value.isdecimal():
        return None
    if len(value) >= 20:
        return None
    return int(value)


def parse_proc_bonding(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Name of each 802.3ad port → its lines: label in lower case → value. Labels of the two LACPDUs
    begin with ``actor`` or ``partner``."""
    ports: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    end = ""
    for line in lines:
        label, colon, value = line.strip().partition(":")
        if not colon:
            continue
        label, value = label.lower(), value.strip()
        if label == "slave interface":
            current, end = ports.setdefault(value, {}), ""
        elif label in ("details actor lacp pdu", "details partner lacp pdu"):
            end = f"{label.split()[1]} "
        else:
            current[end + label] = value
    return {name: port for name, port in ports.items() if "aggregator id" in port}
