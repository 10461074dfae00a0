"""Facts about a bridge and about a port of a bridge: VLANs, STP state, settings of the port.

Reads nothing; returns sections of unsanitized text.
"""

from __future__ import annotations

from nictop.model.devices.bridges import (
    bridge_of,
    default_pvid,
    filters_vlans,
    stp_state,
    vlans_text,
)
from nictop.model.devices.links import ports_of
from nictop.model.devices.switch_ports import is_on_datapath, switch_vlans
from nictop.model.facts.filters import netfilter_facts
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.guests.table import why_switch_ports_are_missing
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import IFF_UP, Tone, on_off, warn_if
from nictop.probe.records import BridgePort, Link, SwitchPort

MAX_PORT_LINES = 32
"""Ports that are listed one by one."""
PORT_SETTINGS = (("learning", "learning"), ("isolated", "isolated"), ("hairpin", "hairpin"))
PORT_SETTINGS_IF_CHANGED = (
    ("neigh_suppress", "neigh_suppress", False),
    ("flood", "flood", True),
    ("bcast_flood", "bcast_flood", True),
    ("guard", "BPDU guard", False),
    ("locked", "locked", False),
)
"""Field of `BridgePort`, its name, and the value that is not shown."""


def bridge_section(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """The section of a bridge or of one of its ports; none for other links."""
    if link.kind == "bridge":
        return _bridge(link, snapshot)
    switched = snapshot.switch_ports.of_link(link)
    if switched is not None:
        return _switch_port(switched)
    if is_on_datapath(link, snapshot.links):
        why = why_switch_ports_are_missing(snapshot)
        return section(
            "Bridge port", [Fact("Bridge", f"of Open vSwitch, not known: {why}", "warn")]
        )
    bridge = bridge_of(link, snapshot.links)
    if bridge is None or link.bridge_port is None:
        return ()
    return _port(link, link.bridge_port, bridge)


def _bridge(bridge: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    facts = []
    stp = bridge.details.get("bridge_stp")
    if stp is not None:
        facts.append(Fact("STP", on_off(bool(stp))))
    facts.append(_filtering(bridge))
    facts += netfilter_facts(bridge, snapshot)
    is_filtering = bool(bridge.details.get("bridge_vlan_filtering"))
    if is_filtering and bridge.bridge_vlans is not None:
        facts.append(Fact("VLANs of host", vlans_text(bridge.bridge_vlans)))
    ports = sorted(ports_of(bridge, snapshot.links), key=lambda port: port.name)
    for port in ports[:MAX_PORT_LINES]:
        if port.bridge_port is not None:
            facts.append(_port_fact(port, port.bridge_port, is_filtering=is_filtering))
    if len(ports) > MAX_PORT_LINES:
        facts.append(Fact("Port", f"{len(ports) - MAX_PORT_LINES} more", "dim"))
    return section("Bridge", facts)


def _port_fact(link: Link, port: BridgePort, *, is_filtering: bool) -> Fact:
    """One line about a port. `is_filtering`: its bridge filters VLANs."""
    state, tone = _state(link, port)
    text = f"{link.name}: {state}"
    if is_filtering and link.bridge_vlans is not None:
        text += f" · {vlans_text(link.bridge_vlans)}"
    return Fact("Port", text, tone)


def _filtering(bridge: Link) -> Fact:
    """Of VLANs, and the VLAN of frames without a tag."""
    filtering = bridge.details.get("bridge_vlan_filtering")
    if filtering is None:
        return Fact("Filtering", "not supported by this kernel", "dim")
    parts = [on_off(bool(filtering))]
    if filtering:
        parts.append(str(bridge.details.get("bridge_vlan_protocol", "802.1Q")))
        default = default_pvid(bridge)
        if default is not None:
            parts.append(f"default PVID {default or 'none'}")
    return Fact("Filtering", " · ".join(parts))


def _switch_port(port: SwitchPort) -> tuple[Section, ...]:
    """Of Open vSwitch; one for the host itself has the name of the bridge."""
    vlans = switch_vlans(port) or "all, with and without tags"
    facts = [Fact("Bridge", f"{port.bridge} · Open vSwitch"), Fact("VLANs", vlans)]
    return section("Bridge port", facts)


def _port(link: Link, port: BridgePort, bridge: Link) -> tuple[Section, ...]:
    state, tone = _state(link, port)
    facts = [Fact("Bridge", f"{bridge.name} · {state}", tone)]
    if not filters_vlans(bridge):
        facts.append(Fact("VLANs", "VLAN filtering off: all pass, with and without tags"))
    elif link.bridge_vlans is not None:
        facts.append(Fact("VLANs", vlans_text(link.bridge_vlans)))
    settings = [f"{name} {on_off(getattr(port, field))}" for field, name in PORT_SETTINGS]
    for field, name, normal in PORT_SETTINGS_IF_CHANGED:
        value = getattr(port, field)
        if value is not normal:
            settings.append(f"{name} {on_off(value)}")
    return section("Bridge port", [*facts, Fact("Settings", " · ".join(settings))])


def _state(link: Link, port: BridgePort) -> tuple[str, Tone]:
    """STP state; that of a link without carrier is always disabled."""
    is_usable = bool(link.flags & IFF_UP) and link.carrier is True
    if not port.state:
        return "state not read since the carrier changed", "dim"
    state = stp_state(link)
    return port.state, warn_if(is_usable and bool(state) and state != "forwarding")
