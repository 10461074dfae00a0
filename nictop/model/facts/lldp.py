"""Facts about the port of the switch that a netdev is connected to. Reads nothing; returns
unsanitized text."""

from __future__ import annotations

from nictop.model.devices.lldp import (
    AGGREGATION_TEXTS,
    may_have_switch,
    neighbours,
    why_no_neighbour,
)
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.records import Link, LldpNeighbour

TITLE = "Switch port"
SOURCE_TEXTS = {"listened": "received by listening", "networkd": "received by systemd-networkd"}


def lldp_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """A section for each neighbour."""
    sections: tuple[Section, ...] = ()
    for neighbour in neighbours(link, snapshot):
        sections += section(TITLE, _facts(neighbour))
    return sections


def no_neighbour_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    """Why none is known, for a netdev that may be connected to a switch."""
    if not may_have_switch(link) or neighbours(link, snapshot):
        return []
    return [Fact(TITLE, f"not known: {why_no_neighbour(link, snapshot).text}", "dim")]


def _facts(neighbour: LldpNeighbour) -> list[Fact]:
    facts = [
        Fact("Switch", _names(neighbour.system_name, neighbour.chassis)),
        Fact("Port", _names(neighbour.port, neighbour.port_description)),
    ]
    vlans = []
    if neighbour.pvid is not None:
        vlans.append(f"PVID {neighbour.pvid}")
    if neighbour.vlans:
        vlans.append(f"announces {format_cpu_list(neighbour.vlans)}")
    if vlans:
        facts.append(Fact("VLANs", " · ".join(vlans)))
    if neighbour.max_frame is not None:
        facts.append(Fact("Max frame", f"{neighbour.max_frame} bytes"))
    if neighbour.aggregation is not None:
        text = AGGREGATION_TEXTS[neighbour.aggregation]
        if neighbour.aggregation_port:
            text += f" (port {neighbour.aggregation_port})"
        facts.append(Fact("Aggregation", text))
    if neighbour.management_addresses:
        facts.append(Fact("Management", ", ".join(neighbour.management_addresses)))
    if neighbour.system_description:
        facts.append(Fact("System", " ".join(neighbour.system_description.split())))
    if neighbour.capabilities:
        facts.append(Fact("Capabilities", ", ".join(neighbour.capabilities)))
    return [*facts, Fact(neighbour.protocol, _origin(neighbour), "dim")]


def _names(*names: str) -> str:
    """Those that are known, each once."""
    return " · ".join(dict.fromkeys(filter(None, names))) or "unnamed"


def _origin(neighbour: LldpNeighbour) -> str:
    """Who received it, and how old it is."""
    parts = [SOURCE_TEXTS.get(neighbour.source, f"received by {neighbour.source}")]
    if neighbour.ttl is not None:
        parts.append(f"valid for {neighbour.ttl} s")
    if neighbour.age is not None:
        parts.append(f"{units.duration(neighbour.age)} old when read")
    return " · ".join(parts)
