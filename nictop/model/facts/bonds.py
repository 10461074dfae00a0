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
    speaks_lacp,
    state_text,
)
from nictop.model.facts.links import link_name
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import absence_reason, count_noun
from nictop.probe.records import Bond, BondPort, LacpEnd, Link, Team

LACP_RATE_TEXTS = {"slow": "slow (30 s)", "fast": "fast (1 s)"}
MAX_PORT_LINES = 16


def bond_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """Of a bond, a team, or a port of a bond; else none."""
    sections: tuple[Section, ...] = ()
    if link.bond is not None:
        sections += section("Bond", _bond(link, link.bond, snapshot))
    if link.bond_port is not None:
        master = snapshot.links.get(link.master) if link.master is not None else None
        sections += section("Bond port", _port(link.bond_port, master))
    if link.team is not None:
        sections += section("Team", _team(link.team, snapshot))
    return sections


def _bond(link: Link, bond: Bond, snapshot: Snapshot) -> list[Fact]:
    facts = [Fact("Mode", bond.mode)]
    if bond.mode in ACTIVE_PORT_MODES:
        chosen = "none" if bond.primary is None else link_name(bond.primary, snapshot)
        reselect = f", primary_reselect {bond.primary_reselect}" if bond.primary and bond.primary_reselect else ""
        active = "none" if bond.active_port is None else link_name(bond.active_port, snapshot)
        facts.append(Fact("Active port", active, "warn" if bond.active_port is None else "normal"))
        facts.append(Fact("Primary", chosen + reselect))
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


def _lacp(bond: Bond) -> list[Fact]:
    rate = LACP_RATE_TEXTS.get(bond.lacp_rate or "", bond.lacp_rate or "unknown")
    sends = " · lacp_active off" if bond.lacp_active is False else ""
    facts = [Fact("LACP rate", rate + sends, "warn" if sends else "normal")]
    if bond.aggregator is None:
        return [*facts, Fact("Aggregator", "none active", "warn")]
    number = count_noun(bond.aggregator_ports, "port") if bond.aggregator_ports is not None else "ports unknown"
    keys = f"key {bond.actor_key}, partner key {bond.partner_key}"
    return [
        *facts,
        Fact("Aggregator", f"{bond.aggregator} · {number} · {keys}"),
        Fact("LACP partner", partner_text(bond.partner), "warn" if bond.partner == NO_PARTNER else "normal"),
    ]


def _monitoring(bond: Bond) -> Fact:
    parts = []
    if bond.miimon:
        parts.append(f"miimon {bond.miimon} ms")
        parts += [
            f"{name} {delay} ms"
            for name, delay in (("updelay", bond.up_delay), ("downdelay", bond.down_delay))
            if delay
        ]
    if bond.arp_interval:
        parts.append(f"arp_interval {bond.arp_interval} ms")
    if bond.miimon is None:
        return Fact("Link monitor", "unknown", "dim")
    return Fact("Link monitor", ", ".join(parts) or "off", "normal" if parts else "warn")


def _port_line(link: Link, bond: Bond) -> Fact:
    port = link.bond_port
    assert port is not None
    parts = [port.mii_status]
    if bond.mode in ACTIVE_PORT_MODES:
        parts.append("active" if port.active else "backup")
    warns = port.mii_status != "up"
    if bond.mode == LACP_MODE and speaks_lacp(port):
        if has_no_partner(port):
            parts.append("no partner")
        else:
            parts.append("in use" if is_in_use(port) else "not in use")
        if port.aggregator is not None:
            parts.append(f"aggregator {port.aggregator}")
        warns = warns or not is_in_use(port)
    if port.link_failures:
        parts.append(count_noun(port.link_failures, "link failure"))
    return Fact("Port", f"{link.name}: {', '.join(parts)}", "warn" if warns else "normal")


def _port(port: BondPort, master: Link | None) -> list[Fact]:
    bond = master.bond if master is not None else None
    role = " · active" if port.active else " · backup"
    failures = f" · {count_noun(port.link_failures, 'link failure')}" if port.link_failures is not None else ""
    facts = [Fact("MII status", f"{port.mii_status}{role}{failures}", "normal" if port.mii_status == "up" else "warn")]
    if port.actor_state is None and port.aggregator is None:
        return facts
    other = bond is not None and bond.aggregator is not None and port.aggregator != bond.aggregator
    suffix = f" (the bond uses {bond.aggregator})" if bond is not None and other else ""
    facts += [
        Fact("Aggregator", f"{port.aggregator}{suffix}", "warn" if other else "normal"),
        Fact("Actor state", state_text(port.actor_state), "normal" if is_in_use(port) else "warn"),
        Fact("Partner state", state_text(port.partner_state), "normal" if is_in_use(port) else "warn"),
        _end("Actor", port.actor, port),
        _end("Partner", port.partner, port),
    ]
    if port.actor_churn is not None or port.partner_churn is not None:
        counts = f" ({port.actor_churns or 0} and {port.partner_churns or 0} times)"
        churned = "churned" in (port.actor_churn, port.partner_churn)
        text = f"actor {port.actor_churn or 'unknown'}, partner {port.partner_churn or 'unknown'}"
        shown = counts if port.actor_churns or port.partner_churns else ""
        facts.append(Fact("Churn", text + shown, "warn" if churned else "normal"))
    return facts


def _end(label: str, end: LacpEnd | None, port: BondPort) -> Fact:
    if end is None:
        return Fact(label, absence_reason(port.unreadable.get(label.lower()), None), "dim")
    numbers = f"key {end.key} · port {end.port} · priority {end.system_priority}, port {end.port_priority}"
    return Fact(label, f"{partner_text(end.system)} · {numbers}", "warn" if end.system == NO_PARTNER else "normal")


def _team(team: Team, snapshot: Snapshot) -> list[Fact]:
    if team.mode is None and team.unreadable:
        return [Fact("Mode", absence_reason(team.unreadable.get("mode"), None), "dim")]
    facts = [Fact("Mode", team.mode or "none")]
    if team.mode == "activebackup":
        active = "none" if team.active_port is None else link_name(team.active_port, snapshot)
        facts.append(Fact("Active port", active, "warn" if team.active_port is None else "normal"))
    for one in team.ports:
        used = {True: ", enabled", False: ", disabled", None: ""}[one.enabled]
        text = f"{link_name(one.ifindex, snapshot)}: {'link' if one.has_link else 'no link'}{used}"
        facts.append(Fact("Port", text, "normal" if one.has_link and one.enabled is not False else "warn"))
    if team.mode == "loadbalance":
        facts.append(Fact("LACP", "known to teamd only (teamdctl NAME state)", "dim"))
    return facts
