"""What is known of one layer of a NIC: the facts about it, of all that are known of its row.

Reads nothing; texts are not sanitized.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from nictop.model.chain import ANSWERED, Step
from nictop.model.devices.tree import Row
from nictop.model.facts.facts import link_facts
from nictop.model.facts.kernel_log import TITLE as KERNEL_LOG
from nictop.model.facts.routing import UNANSWERED_STATES
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import Tone
from nictop.probe.records import Link, Neighbour, Routing

ALL: Collection[str] = ()
"""Labels of a section of which all facts are about a layer."""
MAX_NEIGHBOURS = 12
"""Named ones; the others are counted."""
HARDWARE = ("Device", "Address", "PCIe", "PCIe slot", "PCIe errors", "NUMA node", "IOMMU group")
NAMES = ("MAC", "Permanent MAC", "Altnames", "Alias")
SECTIONS: Mapping[Step, Mapping[str, Collection[str]]] = {
    "slot": {"PCI function": HARDWARE, "Virtual function": ALL},
    "driver": {"Driver": ALL, "PCI function": ("PCI driver", "SR-IOV", "Reset methods")}
    | dict.fromkeys(("Devlink", KERNEL_LOG, "Not available"), ALL),
    "name": {"Addresses": NAMES, "Link": ("Kind",)},
    "link": {"Summary": ("Values", "State", "Errors"), "Link": ALL}
    | dict.fromkeys(("Link parameters", "Module", "Bond port"), ALL),
    "port": {"Switch port": ALL, "Bridge port": ALL, "Bond port": ALL, "Virtual function": ALL}
    | {"Link": ("Switch port", "Master")},
    "profile": {"Manager": ALL, "Active profile": ALL, "Other profiles": ALL},
    "address": {"Addresses": ("Address", "IPv4", "IPv6", "IPv4 sysctls")},
    "gateway": {"Addresses": ("Default route",)},
    "peers": {"Addresses": ("IPv4", "IPv6")},
    "load": {"Summary": ("Errors",), "Link": ("Qdisc", "Traffic control", "tc filters")}
    | dict.fromkeys(("Queues", "Counters", "Queue rates", "Driver counters", "Offloads"), ALL),
    "ports": {"Bond": ALL, "Team": ALL, "Bridge": ("STP", "Port"), "Link": ("Ports",)},
    "vlan": {"Bridge": ("Filtering", "VLANs of host")},
    "parent": {"Link": ("Kind",)},
    "guest": {"Guest": ALL},
    "other end": {"Guest": ALL, "Other end": ALL},
}
"""Layer → titles of the sections with facts about it, each with their labels (`ALL`: all)."""


def step_sections(step: Step, row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """May be empty. Of the gateway and the peers, the neighbour table has more than a row."""
    wanted = SECTIONS[step]
    found: list[Section] = []
    for known in link_facts(row, snapshot):
        labels = wanted.get(known.title)
        if labels is None:
            continue
        facts = [fact for fact in known.facts if labels is ALL or fact.label in labels]
        found += section(known.title, facts)
    if row.link is not None and step in ("gateway", "peers"):
        found += section("Neighbours", list(_neighbours(step, row.link, snapshot)))
    return tuple(found)


def _neighbours(step: Step, link: Link, snapshot: Snapshot) -> Iterator[Fact]:
    """Entries of the neighbour table: those of the gateways, or all, silent ones first."""
    routing: Routing | None = None if snapshot.inventory is None else snapshot.inventory.routing
    known = routing.neighbours if routing is not None else ()
    gateways = {route.gateway for route in link.default_routes}
    own = [entry for entry in known if entry.ifindex == link.ifindex]
    if step == "gateway":
        own = [entry for entry in own if entry.address in gateways]
    own.sort(key=lambda entry: entry.nud_state not in UNANSWERED_STATES)
    for entry in own[:MAX_NEIGHBOURS]:
        label = "Gateway" if entry.address in gateways else "Neighbour"
        yield Fact(label, neighbour_text(entry), _tone(entry))
    if len(own) > MAX_NEIGHBOURS:
        yield Fact("Further", f"{len(own) - MAX_NEIGHBOURS} neighbours", "dim")


def neighbour_text(entry: Neighbour) -> str:
    """``192.0.2.1 · reachable · 52:54:00:12:35:02``"""
    return " · ".join(filter(None, (entry.address, entry.nud_state, entry.mac)))


def _tone(entry: Neighbour) -> Tone:
    if entry.nud_state in UNANSWERED_STATES:
        return "warn"
    return "good" if entry.nud_state in ANSWERED else "normal"
