"""Bonds, teams and their ports: settings, and the LACP state.

Reads nothing; returns sections of unsanitized text.
"""

from __future__ import annotations

from nictop.model.devices.bonds import (
    ACTIVE_PORT_MODES,
    HASH_MODES,
    LACP_MODE,
    NO_PARTNER,
    bond_ports,
    has_no_partner,
    is_in_use,
    partner_text,
    role_text,
    speaks_lacp,
    state_text,
)
from nictop.model.devices.links import link_at
from nictop.model.facts.links import link_name
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import absence_reason, count_noun, warn_if
from nictop.probe.records import Bond, BondPort, LacpEnd, Link, Team, TeamPort

LACP_RATE_TEXTS = {"slow": "slow (30 s)", "fast": "fast (1 s)"}
MAX_PORT_LINES = 16


def bond_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """Of a bond, a team, or a port of a bond; else none."""
    sections: tuple[Section, ...] = ()
    if link.bond is not None:
        sections += section("Bond", _bond(link, link.bond, snapshot))
    if link.bond_port is not None:
        master = link_at(link.master, snapshot.links)
        sections += section("Bond port", _port(link.bond_port, master))
    if link.team is not None:
        sections += section("Team", _team(link.team, snapshot))
    return sections


def _bond(link: Link, bond: Bond, snapshot: Snapshot) -> list[Fact]:
    facts = [Fact("Mode", bond.mode)]
    if bond.mode in ACTIVE_PORT_MODES:
        facts.append(_active_port(bond.active_port, snapshot))
        facts.append(_primary(bond, snapshot))
    if bond.mode == LACP_MODE:
        facts += _lacp(bond)
    if bond.hash_policy is not None and bond.mode in HASH_MODES:
        facts.append(Fact("Hash policy", bond.hash_policy))
    facts.append(_monitoring(bond))
    if bond.min_links:
        facts.append(Fact("Min links", str(bond.min_links)))
    if bond.fail_over_mac not in (None, "none"):
        facts.append(Fact("Fail over MAC", str(bond.fail_over_mac)))
    ports = bond_ports(link, snapshot.links)
    facts += [_port_line(port, bond) for port in ports[:MAX_PORT_LINES]]
    return facts


def _active_port(ifindex: int | None, snapshot: Snapshot) -> Fact:
    """Of a bond or team of which one port carries the packets."""
    if ifindex is None:
        return Fact("Active port", "none", "warn")
    return Fact("Active port", link_name(ifindex, snapshot))


def _primary(bond: Bond, snapshot: Snapshot) -> Fact:
    if bond.primary is None:
        return Fact("Primary", "none")
    name = link_name(bond.primary, snapshot)
    if bond.primary and bond.primary_reselect:
        return Fact("Primary", f"{name}, primary_reselect {bond.primary_reselect}")
    return Fact("Primary", name)


def _lacp(bond: Bond) -> list[Fact]:
    rate = LACP_RATE_TEXTS.get(bond.lacp_rate or "", bond.lacp_rate or "unknown")
    sends = " · lacp_active off" if bond.lacp_active is False else ""
    facts = [Fact("LACP rate", rate + sends, warn_if(sends))]
    if bond.aggregator is None:
        return [*facts, Fact("Aggregator", "none active", "warn")]
    number = "ports unknown"
    if bond.aggregator_ports is not None:
        number = count_noun(bond.aggregator_ports, "port")
    keys = f"key {bond.actor_key}, partner key {bond.partner_key}"
    has_no_partner_now = bond.partner == NO_PARTNER
    return [
        *facts,
        Fact("Aggregator", f"{bond.aggregator} · {number} · {keys}"),
        Fact("LACP partner", partner_text(bond.partner), warn_if(has_no_partner_now)),
    ]


def _monitoring(bond: Bond) -> Fact:
    if bond.miimon is None:
        return Fact("Link monitor", "unknown", "dim")
    parts = []
    if bond.miimon:
        parts.append(f"miimon {bond.miimon} ms")
        if bond.up_delay:
            parts.append(f"updelay {bond.up_delay} ms")
        if bond.down_delay:
            parts.append(f"downdelay {bond.down_delay} ms")
    if bond.arp_interval:
        parts.append(f"arp_interval {bond.arp_interval} ms")
    return Fact("Link monitor", ", ".join(parts) or "off", warn_if(not parts))


def _port_line(link: Link, bond: Bond) -> Fact:
    port = link.bond_port
    assert port is not None
    parts = [port.mii_status]
    if bond.mode in ACTIVE_PORT_MODES:
        parts.append(role_text(port))
    is_bad = port.mii_status != "up"
    if bond.mode == LACP_MODE and speaks_lacp(port):
        parts.append(_lacp_use(port))
        if port.aggregator is not None:
            parts.append(f"aggregator {port.aggregator}")
        is_bad = is_bad or not is_in_use(port)
    if port.link_failures:
        parts.append(count_noun(port.link_failures, "link failure"))
    return Fact("Port", f"{link.name}: {', '.join(parts)}", warn_if(is_bad))


def _lacp_use(port: BondPort) -> str:
    if has_no_partner(port):
        return "no partner"
    if is_in_use(port):
        return "in use"
    return "not in use"


def _port(port: BondPort, master: Link | None) -> list[Fact]:
    parts = [port.mii_status, role_text(port)]
    if port.link_failures is not None:
        parts.append(count_noun(port.link_failures, "link failure"))
    facts = [Fact("MII status", " · ".join(parts), warn_if(port.mii_status != "up"))]
    if port.actor_state is None and port.aggregator is None:
        return facts
    tone = warn_if(not is_in_use(port))
    facts += [
        _aggregator(port, master),
        Fact("Actor state", state_text(port.actor_state), tone),
        Fact("Partner state", state_text(port.partner_state), tone),
        _end("Actor", port.actor, port),
        _end("Partner", port.partner, port),
    ]
    if port.actor_churn is not None or port.partner_churn is not None:
        facts.append(_churn(port))
    return facts


def _aggregator(port: BondPort, master: Link | None) -> Fact:
    """That of a port, and that of its bond if it is another one."""
    used = None
    if master is not None and master.bond is not None:
        used = master.bond.aggregator
    if used is None or used == port.aggregator:
        return Fact("Aggregator", f"{port.aggregator}")
    return Fact("Aggregator", f"{port.aggregator} (the bond uses {used})", "warn")


def _churn(port: BondPort) -> Fact:
    """Whether actor and partner agree for long enough (802.1AX churn detection)."""
    text = f"actor {port.actor_churn or 'unknown'}, partner {port.partner_churn or 'unknown'}"
    if port.actor_churns or port.partner_churns:
        text += f" ({port.actor_churns or 0} and {port.partner_churns or 0} times)"
    has_churned = "churned" in (port.actor_churn, port.partner_churn)
    return Fact("Churn", text, warn_if(has_churned))


def _end(label: str, end: LacpEnd | None, port: BondPort) -> Fact:
    if end is None:
        return Fact(label, absence_reason(port.unreadable.get(label.lower()), None), "dim")
    parts = [
        partner_text(end.system),
        f"key {end.key}",
        f"port {end.port}",
        f"priority {end.system_priority}, port {end.port_priority}",
    ]
    return Fact(label, " · ".join(parts), warn_if(end.system == NO_PARTNER))


def _team(team: Team, snapshot: Snapshot) -> list[Fact]:
    if team.mode is None and team.unreadable:
        return [Fact("Mode", absence_reason(team.unreadable.get("mode"), None), "dim")]
    facts = [Fact("Mode", team.mode or "none")]
    if team.mode == "activebackup":
        facts.append(_active_port(team.active_port, snapshot))
    facts += [_team_port(port, snapshot) for port in team.ports]
    if team.mode == "loadbalance":
        facts.append(Fact("LACP", "known to teamd only (teamdctl NAME state)", "dim"))
    return facts


def _team_port(port: TeamPort, snapshot: Snapshot) -> Fact:
    state = "link" if port.has_link else "no link"
    use = {True: ", enabled", False: ", disabled", None: ""}[port.enabled]
    is_good = port.has_link and port.enabled is not False
    return Fact("Port", f"{link_name(port.ifindex, snapshot)}: {state}{use}", warn_if(not is_good))
