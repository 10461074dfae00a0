"""Which facts of a side are not known, and why: another thing than that it has none.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.lldp import neighbours, why_no_neighbour
from nictop.model.facts import absence_reason
from nictop.model.facts.ethtool import PART_NAMES
from nictop.model.facts.lldp import TITLE as LLDP_TITLE
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text.words import UNKNOWN_REASONS
from nictop.probe.records import Link, PciFunction, Unreadable
from nictop.rules import HostFacts
from nictop.rules.sources import SOURCES, missing, reason_text

LINK_NOT_READ = "inventory pending"
"""Of a link of which no inventory has read anything."""
ROUTING_NOT_READ = "routes and rules not read"
"""By an older probe, or of an ESXi host."""
NOT_KNOWN = "not known: "
"""Before the reason, in place of a value."""
MANAGERS = ("networkmanager", "networkd", "configuration")
SECTION_SOURCES: Mapping[str, Sequence[str]] = {
    "Manager": MANAGERS,
    "Active profile": MANAGERS,
    "Other profiles": MANAGERS,
    "Network managers": MANAGERS,
    "Profiles without a device": MANAGERS,
    "Addresses": ("addresses", "routes"),
    "Routing": ("routing", "settings"),
    "Routes": ("routing.routes",),
    "Packet filters": ("filters",),
    "Devlink": ("devlink",),
    "Bond": ("bonds", "networkmanager"),
    "Bond port": ("bonds",),
    "Team": ("teams",),
    "Bridge": ("bridge_vlans", "forwarding", "switch_ports"),
    "Bridge port": ("bridge_vlans", "switch_ports"),
    "Guest": ("guests",),
    "Virtual machines": ("guests",),
    "Host": ("platform",),
    "PCI function": ("pci",),
    "Queue CPUs": ("queues", "interrupts"),
}
"""Title of a section → sources (`nictop.rules.sources`) without one of which a fact of it may be
absent."""
LABEL_SOURCES: Mapping[tuple[str, str], Sequence[str]] = {
    ("Link", "MTU by DHCP"): MANAGERS,
    ("Routing", "Refusing route"): ("routing.routes",),
    ("Routing", "Policy rule"): ("routing.rules",),
    ("Routing", "Name servers"): ("routing.name_servers",),
    ("Link", "Qdisc"): ("qdiscs",),
    ("Link", "Traffic control"): ("qdiscs",),
}
"""The same for single labels of other sections: (title, label)."""
ETHTOOL_FIELDS: Mapping[tuple[str, str], str] = {
    ("Queues", "Channels"): "channels",
    ("Queues", "Rings"): "rings",
    ("Queues", "Coalescing"): "coalescing",
    ("Queues", "RSS"): "rss",
    ("Queues", "RSS hash"): "rss",
    ("Link", "Port"): "settings",
}
"""(Title, label) → the field of `Ethtool` that it is of."""
ETHTOOL_SECTIONS: Mapping[str, Sequence[str]] = {
    "Offloads": ("features",),
    "Module": ("module",),
    "Link parameters": tuple(PART_NAMES),
}
"""Title → the fields of `Ethtool` that its facts are of."""


class UnknownFacts:
    """Of one side: of its host, or with `link` of one NIC."""

    def __init__(self, snapshot: Snapshot, link: Link | None = None) -> None:
        self._link = link
        self._host = HostFacts(snapshot) if snapshot.inventory is not None else None
        self._function = _function_of(link, snapshot)
        self._reasons = dict(self._reasons_by_text(snapshot))

    def reason(self, section: str, label: str, text: str) -> str:
        """Why the fact is not known; "": it is, or there is none. `text`: the fact; "": the side
        has none."""
        if text:
            told = text.removeprefix(NOT_KNOWN) if text.startswith(NOT_KNOWN) else ""
            return next((why for known, why in self._reasons.items() if known in text), told)
        if self._link is not None and is_unread_link(self._link):
            return LINK_NOT_READ
        return self._absence_reason(section, label)

    def _reasons_by_text(self, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
        """(Text in place of a value that could not be read, why it could not)"""
        records: list[Mapping[str, Unreadable]] = []
        if snapshot.inventory is not None:
            records.append(snapshot.inventory.platform.unreadable)
            for source, why in snapshot.inventory.unreadable.items():
                if why.reason in UNKNOWN_REASONS and source in SOURCES:
                    yield absence_reason(why, None), reason_text(source, why)
        if self._link is not None:
            records += [self._link.unreadable, self._link.ethtool.unreadable]
        if self._function is not None:
            records.append(self._function.unreadable)
        for unreadable in records:
            for why in unreadable.values():
                if why.reason in UNKNOWN_REASONS:
                    text = absence_reason(why, None)
                    yield text, text
        if self._link is not None and is_unread_link(self._link):
            yield LINK_NOT_READ, LINK_NOT_READ

    def _absence_reason(self, section: str, label: str) -> str:
        """Why the side may have the fact although none was read."""
        if self._host is None:
            return LINK_NOT_READ
        if section in ("Routing", "Routes") and self._host.inventory.routing is None:
            why = self._host.inventory.unreadable.get("routing")
            return ROUTING_NOT_READ if why is None else reason_text("routing", why)
        if section == LLDP_TITLE and self._link is not None:
            is_known = neighbours(self._link, self._host.snapshot)
            return "" if is_known else why_no_neighbour(self._link, self._host.snapshot).text
        for field in self._ethtool_fields(section, label):
            why = self._ethtool_failure(field)
            if why is not None:
                return reason_text("ethtool", why)
        sources = LABEL_SOURCES.get((section, label)) or SECTION_SOURCES.get(section, ())
        for source in sources:
            for subject, why in missing(source, self._host, ""):
                if why.reason in UNKNOWN_REASONS and self._is_about(subject):
                    return reason_text(source, why)
        return ""

    def _ethtool_fields(self, section: str, label: str) -> Iterable[str]:
        field = ETHTOOL_FIELDS.get((section, label))
        if field is not None:
            return (field,)
        return ETHTOOL_SECTIONS.get(section, ())

    def _ethtool_failure(self, field: str) -> Unreadable | None:
        if self._link is None:
            return None
        why = self._link.ethtool.unreadable.get(field)
        if why is None or why.reason not in UNKNOWN_REASONS:
            return None
        return why

    def _is_about(self, subject: str) -> bool:
        """`subject`: of what could not be read; "": the whole host."""
        names = {""}
        if self._link is not None:
            names.add(self._link.name)
        if self._function is not None:
            names.add(self._function.address)
        return subject in names


def _function_of(link: Link | None, snapshot: Snapshot) -> PciFunction | None:
    if link is None or link.pci_address is None:
        return None
    for function in snapshot.pci:
        if function.address == link.pci_address:
            return function
    return None
