"""Ports of bonds: which are used, and what their LACP state means.

Pure. Port state bits: IEEE 802.1AX-2014 6.4.2.3, linux/if_bonding.h LACP_STATE_*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nictop.model.devices.links import link_at, ports_of
from nictop.probe.records import BondPort, Link

LACP_MODE = "802.3ad"
NO_PARTNER = "00:00:00:00:00:00"
"""MAC address of the partner while no LACPDU was received."""
ACTIVE_PORT_MODES = ("active-backup", "balance-tlb", "balance-alb")
"""Modes with an active port and a primary."""
HASH_MODES = ("balance-xor", LACP_MODE)
"""Modes in which the hash policy always chooses the port that sends."""
AGGREGATION, SYNCHRONIZATION, COLLECTING, DISTRIBUTING = 0x04, 0x08, 0x10, 0x20
DEFAULTED, EXPIRED = 0x40, 0x80
IN_USE = COLLECTING | DISTRIBUTING
STATE_TEXTS = (
    (0x01, "active", "passive"),
    (0x02, "short timeout", "long timeout"),
    (AGGREGATION, "aggregatable", "individual"),
    (SYNCHRONIZATION, "in sync", "out of sync"),
    (COLLECTING, "collecting", "not collecting"),
    (DISTRIBUTING, "distributing", "not distributing"),
    (DEFAULTED, "defaulted", ""),
    (EXPIRED, "expired", ""),
)
"""Bit, its text when it is set, its text when it is not."""


def is_aggregate(link: Link) -> bool:
    """A bond or a team: virtual, but in place of the NICs that are its ports."""
    return link.bond is not None or link.team is not None


def bond_ports(bond: Link, links: Mapping[int, Link]) -> tuple[Link, ...]:
    """The ports of a bond, by ifindex."""
    ports = [port for port in ports_of(bond, links) if port.bond_port is not None]
    return tuple(sorted(ports, key=lambda port: port.ifindex))


def is_usable(link: Link) -> bool:
    """A port of a bond whose link monitor says up."""
    return link.bond_port is not None and link.bond_port.mii_status == "up"


def speaks_lacp(port: BondPort) -> bool:
    return port.actor_state is not None and port.partner_state is not None


def has_no_partner(port: BondPort) -> bool:
    """No LACPDU was received: the actor uses default values. While EXPIRED is set as well it still
    waits (3 s)."""
    return port.actor_state is not None and port.actor_state & (DEFAULTED | EXPIRED) == DEFAULTED


def has_partner(port: BondPort) -> bool:
    """LACPDUs are received."""
    return port.actor_state is not None and not port.actor_state & (DEFAULTED | EXPIRED)


def is_in_use(port: BondPort) -> bool:
    """Both ends collect and distribute."""
    actor, partner = port.actor_state or 0, port.partner_state or 0
    return actor & partner & IN_USE == IN_USE


def is_settled(port: BondPort) -> bool:
    """Negotiation is over: the first 60 s after a change have passed, as far as is known."""
    return "monitoring" not in (port.actor_churn, port.partner_churn)


def state_text(state: int | None) -> str:
    """``active, long timeout, aggregatable, in sync, collecting, distributing``"""
    if state is None:
        return "unknown"
    texts = (set_ if state & bit else clear for bit, set_, clear in STATE_TEXTS)
    return ", ".join(text for text in texts if text)


def partner_text(address: str | None) -> str:
    """MAC address of an LACP partner."""
    if address is None:
        return "unknown"
    if address == NO_PARTNER:
        return "none (no LACPDU received)"
    return address


def bond_text(link: Link, links: Mapping[int, Link]) -> tuple[str, bool]:
    """``802.3ad · 2 of 2 ports in use``, ``active-backup · active eno1 (2 of 2 ports up)``, and
    whether all ports are used or ready. `link`: a bond."""
    bond, ports = link.bond, bond_ports(link, links)
    if bond is None:
        return "unknown", False
    usable = [port for port in ports if is_usable(port)]
    up = f"{len(usable)} of {len(ports)} ports up"
    are_all_usable = len(usable) == len(ports)
    if bond.mode in ACTIVE_PORT_MODES:
        active = link_at(bond.active_port, links)
        if active is None:
            return f"{bond.mode} · active none ({up})", False
        return f"{bond.mode} · active {active.name} ({up})", are_all_usable
    speaking = [port for port in ports if _satisfies(port, speaks_lacp)]
    if bond.mode != LACP_MODE or not speaking:
        return f"{bond.mode} · {up}", are_all_usable
    if bond.partner == NO_PARTNER:
        return f"{bond.mode} · no LACP partner ({up})", False
    used = [port for port in usable if _satisfies(port, is_in_use)]
    return f"{bond.mode} · {len(used)} of {len(ports)} ports in use", len(used) == len(ports)


def _satisfies(port: Link, test: Callable[[BondPort], bool]) -> bool:
    return port.bond_port is not None and test(port.bond_port)


def role_text(port: BondPort) -> str:
    """``active`` or ``backup``"""
    return "active" if port.active else "backup"


def port_text(port: Link, master: Link) -> tuple[str, bool]:
    """State of a port of a bond or team (agg: aggregator): ``active``, ``backup``, ``down``, ``agg
    2``, ``agg 2 unused``; "": unknown; and whether it is usable and, with LACP, used."""
    state = port.bond_port
    if state is None:
        return _team_port_text(port, master)
    if state.mii_status != "up":
        return state.mii_status, False
    if master.bond is not None and master.bond.mode == LACP_MODE and speaks_lacp(state):
        if is_in_use(state):
            return f"agg {state.aggregator}", True
        return f"agg {state.aggregator} unused", False
    return role_text(state), True


def _team_port_text(port: Link, master: Link) -> tuple[str, bool]:
    if master.team is None:
        return "", True
    for member in master.team.ports:
        if member.ifindex != port.ifindex:
            continue
        if not member.has_link:
            return "down", False
        if member.enabled is False:
            return "backup", True
        return "active", True
    return "", True
