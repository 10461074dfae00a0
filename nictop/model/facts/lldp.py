"""Facts about the port of the switch that a netdev is connected to. Reads nothing; returns unsanitized text."""

from __future__ import annotations

from nictop.model.devices.lldp import AGGREGATION_TEXTS, may_have_switch, neighbours, why_no_neighbour
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.records import Link, LldpNeighbour

TITLE = "Switch port"
SOURCE_TEXTS = {"listened": "received by listening", "networkd": "received by systemd-networkd"}


def lldp_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """A section for each neighbour."""
    return tuple(one for neighbour in neighbours(link, snapshot) for one in section(TITLE, _facts(neighbour)))


def no_neighbour_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    """Why none is known, for a netdev that may be connected to a switch."""
    if not may_have_switch(link) or neighbours(link, snapshot):
        return []
    return [Fact(TITLE, f"not known: {why_no_neighbour(link, snapshot).text}", "dim")]


def _facts(one: LldpNeighbour) -> list[Fact]:
    facts = [
        Fact("Switch", " · ".join(dict.fromkeys(filter(None, (one.system_name, one.chassis)))) or "unnamed"),
        Fact("Port", " · ".join(dict.fromkeys(filter(None, (one.port, one.port_description)))) or "unnamed"),
    ]
    vlans = [f"PVID {one.pvid}"] if one.pvid is not None else []
    vlans += [f"announces {format_cpu_list(one.vlans)}"] if one.vlans else []
    if vlans:
        facts.append(Fact("VLANs", " · ".join(vlans)))
    if one.max_frame is not None:
        facts.append(Fact("Max frame", f"{one.max_frame} bytes"))
    if one.aggregation is not None:
        port = f" (port {one.aggregation_port})" if one.aggregation_port else ""
        facts.append(Fact("Aggregation", AGGREGATION_TEXTS[one.aggregation] + port))
    if one.management_addresses:
        facts.append(Fact("Management", ", ".join(one.management_addresses)))
    if one.system_description:
        facts.append(Fact("System", " ".join(one.system_description.split())))
    if one.capabilities:
        facts.append(Fact("Capabilities", ", ".join(one.capabilities)))
    origin = [SOURCE_TEXTS.get(one.source, f"received by {one.source}")]
    origin += [f"valid for {one.ttl} s"] if one.ttl is not None else []
    origin += [f"{units.duration(one.age)} old"] if one.age is not None else []
    return [*facts, Fact(one.protocol, " · ".join(origin), "dim")]
