"""Configuration file stanzas that apply to a link.

Reads nothing. A stanza has conditions on names (exact or shell patterns), MAC addresses, drivers or
paths. Every kind of condition that it has must be met, by one value of that kind:
systemd.network(5) [Match], netplan(5) ``match:``.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.devices.links import ethtool_driver
from nictop.model.text import wildcards
from nictop.probe.records import ConfigurationEntry, Inventory, Link

ADDRESSING = ("netplan", "ifupdown", "networkd", "ifcfg", "cloud-init")
"""Owners whose stanzas set addresses; the others set names or the number of virtual functions."""
WILDCARD_CHARACTERS = frozenset("*?[!")


class LinkConfiguration:
    """The stanzas of one inventory, by link. Exact names are looked up; only patterns are compared
    one by one."""

    def __init__(self, inventory: Inventory) -> None:
        self.stanzas = _used_stanzas(inventory)
        self._by_name: dict[str, list[ConfigurationEntry]] = {}
        self._others: list[ConfigurationEntry] = []
        for entry in self.stanzas:
            if not entry.names or _has_pattern(entry.names):
                self._others.append(entry)
                continue
            for name in entry.names:
                self._by_name.setdefault(name, []).append(entry)

    def entries(self, link: Link) -> tuple[ConfigurationEntry, ...]:
        """Stanzas that apply to the link; those with its exact name first."""
        if not self.stanzas:
            return ()
        candidates: list[ConfigurationEntry] = []
        for name in (link.name, *link.altnames):
            candidates += self._by_name.get(name, ())
        candidates += self._others
        return tuple([entry for entry in candidates if applies(entry, link)])

    def addressing(self, link: Link) -> tuple[ConfigurationEntry, ...]:
        """Stanzas of the link that set its addresses."""
        found = []
        for entry in self.entries(link):
            sets_addresses = entry.methods or entry.owner == "networkd"
            if sets_addresses and entry.owner in ADDRESSING and not entry.ignores:
                found.append(entry)
        return tuple(found)


def _used_stanzas(inventory: Inventory) -> tuple[ConfigurationEntry, ...]:
    """All but those of networkd if it does not run: many machines have .network files then."""
    if inventory.services.networkd is not None or inventory.networkd:
        return inventory.configuration
    return tuple(entry for entry in inventory.configuration if entry.owner != "networkd")


def _has_pattern(names: Iterable[str]) -> bool:
    return any(WILDCARD_CHARACTERS.intersection(name) for name in names)


def applies(entry: ConfigurationEntry, link: Link) -> bool:
    """Whether the link meets all conditions of the stanza that can be checked."""
    paths: tuple[str, ...] = ("",)
    if link.pci_address:
        paths = (link.pci_address, f"pci-{link.pci_address}")
    conditions = (
        (entry.names, (link.name, *link.altnames)),
        (entry.addresses, (link.permanent_address or "", link.address or "")),
        (entry.drivers, (kernel_driver(link),)),
        (entry.paths, paths),
    )
    checked = [(patterns, texts) for patterns, texts in conditions if patterns]
    return bool(checked) and all(any_matches(patterns, texts) for patterns, texts in checked)


def any_matches(patterns: Iterable[str], texts: tuple[str, ...]) -> bool:
    """Whether a pattern matches one of the texts; a pattern with ``!`` in front matches when its
    text does not (systemd applies it to the whole list)."""
    for pattern in patterns:
        is_negated = pattern.startswith("!")
        wanted = pattern.removeprefix("!")
        is_hit = any(text and wildcards.matches(text, wanted) for text in texts)
        if is_hit != is_negated:
            return True
    return False


def file_and_line(entry: ConfigurationEntry) -> str:
    """``/etc/netplan/50-cloud-init.yaml:3``"""
    return f"{entry.file}:{entry.line}"


def kernel_driver(link: Link) -> str:
    """Name of the driver, or else the kind of a virtual link; "" when neither is known."""
    return ethtool_driver(link) or link.kind or ""
