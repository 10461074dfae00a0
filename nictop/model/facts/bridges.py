"""Facts about a bridge and about a port of a bridge: VLANs, STP state, settings of the port.

Reads nothing; returns sections of unsanitized text.
"""

from __future__ import annotations

from nictop.model.devices.bridges import bridge_of, default_pvid, filters_vlans, vlans_text
from nictop.model.facts.filters import netfilter_facts
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import IFF_UP, Tone, on_off
from nictop.probe.records import BridgePort, Link

MAX_PORT_LINES = 32
"""Ports that are listed one by one."""
PORT_SETTINGS = (("learning", "learning"), ("isolated", "isolated"), ("hairpin", "hairpin"))
PORT_SETTINGS_IF_CHANGED = (
    ("neigh_suppress", "neigh_suppress", False),
    ("flood", "flood", True),
    ("guard", "BPDU guard", False),
    ("locked", "locked", False),
)
"""Field of `BridgePort`, its name, and the value that is not shown."""


def bridge_section(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """The section of a bridge or of one of its ports; none for other links."""
    if link.kind == "bridge":
        return _bridge(link, snapshot)
    bridge = bridge_of(link, snapshot.links)
    return () if bridge is None or link.bridge_port is None else _port(link, link.bridge_port, bridge)


def _bridge(bridge: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    stp = bridge.details.get("bridge_stp")
    facts = [] if stp is None else [Fact("STP", on_off(bool(stp)))]
    filtering = bridge.details.get("bridge_vlan_filtering")
    if filtering is None:
        facts.append(Fact("Filtering", "not supported by this kernel", "dim"))
    else:
        parts = [on_off(bool(filtering))]
        if filtering:
            default = default_pvid(bridge)
            parts += [str(bridge.details.get("bridge_vlan_protocol", "802.1Q"))]
            parts += [f"default PVID {default or 'none'}"] if default is not None else []
        facts.append(Fact("Filtering", " · ".join(parts)))
    facts += netfilter_facts(bridge, snapshot)
    if filtering and bridge.bridge_vlans is not None:
        facts.append(Fact("VLANs of host", vlans_text(bridge.bridge_vlans)))
    ports = sorted((one for one in snapshot.links.values() if one.master == bridge.ifindex), key=lambda one: one.name)
    for port in ports[:MAX_PORT_LINES]:
        if port.bridge_port is not None:
            state, tone = _state(port, port.bridge_port)
            shown = f" · {vlans_text(port.bridge_vlans)}" if filtering and port.bridge_vlans is not None else ""
            facts.append(Fact("Port", f"{port.name}: {state}{shown}", tone))
    if len(ports) > MAX_PORT_LINES:
        facts.append(Fact("Port", f"{len(ports) - MAX_PORT_LINES} more", "dim"))
    return section("Bridge", facts)


def _port(link: Link, port: BridgePort, bridge: Link) -> tuple[Section, ...]:
    state, tone = _state(link, port)
    facts = [Fact("Bridge", f"{bridge.name} · {state}", tone)]
    if not filters_vlans(bridge):
        facts.append(Fact("VLANs", "VLAN filtering off: all pass, with and without tags"))
    elif link.bridge_vlans is not None:
        facts.append(Fact("VLANs", vlans_text(link.bridge_vlans)))
    settings = [f"{name} {on_off(getattr(port, field))}" for field, name in PORT_SETTINGS]
    settings += [
        f"{name} {on_off(getattr(port, field))}"
        for field, name, normal in PORT_SETTINGS_IF_CHANGED
        if getattr(port, field) is not normal
    ]
    return section("Bridge port", [*facts, Fact("Settings", " · ".join(settings))])


def _state(link: Link, port: BridgePort) -> tuple[str, Tone]:
    """STP state; that of a link without carrier is always disabled."""
    is_usable = bool(link.flags & IFF_UP) and link.carrier is True
    return port.state, "warn" if is_usable and port.state != "forwarding" else "normal"
