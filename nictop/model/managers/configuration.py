"""Configuration file stanzas that apply to a link.

Reads nothing. A stanza has conditions on names (exact or shell patterns), MAC addresses, drivers or paths. Every kind
of condition that it has must be met, by one value of that kind: systemd.network(5) [Match], netplan(5) ``match:``.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.text import wildcards
from nictop.probe.records import ConfigurationEntry, Inventory, Link

ADDRESSING = ("netplan", "ifupdown", "networkd", "ifcfg", "cloud-init")
"""Owners whose stanzas set addresses; the others set names or the number of virtual functions."""
WILDCARD_CHARACTERS = frozenset("*?[!")


class LinkConfiguration:
    """The stanzas of one inventory, by link. Exact names are looked up; only patterns are compared one by one."""

    def __init__(self, inventory: Inventory) -> None:
        networkd_runs = inventory.services.networkd is not None or bool(inventory.networkd)
        self.stanzas = tuple(one for one in inventory.configuration if networkd_runs or one.owner != "networkd")
        """All stanzas that are in use: many machines have .network files although networkd does not run."""
        self._by_name: dict[str, list[ConfigurationEntry]] = {}
        self._others: list[ConfigurationEntry] = []
        for entry in self.stanzas:
            if entry.names and not any(WILDCARD_CHARACTERS.intersection(name) for name in entry.names):
                for name in entry.names:
                    self._by_name.setdefault(name, []).append(entry)
            else:
                self._others.append(entry)

    def entries(self, link: Link) -> tuple[ConfigurationEntry, ...]:
        """Stanzas that apply to the link; those with its exact name first."""
        named = [entry for name in (link.name, *link.altnames) for entry in self._by_name.get(name, ())]
        return tuple(entry for entry in (*named, *self._others) if applies(entry, link))

    def addressing(self, link: Link) -> tuple[ConfigurationEntry, ...]:
        """Stanzas of the link that set its addresses."""
        found = (entry for entry in self.entries(link) if entry.owner in ADDRESSING and not entry.ignores)
        return tuple(entry for entry in found if entry.methods or entry.owner == "networkd")


def applies(entry: ConfigurationEntry, link: Link) -> bool:
    """Whether the link meets all conditions of the stanza that can be checked."""
    if not (entry.names or entry.addresses or entry.drivers or entry.paths):
        return False
    conditions = (
        (entry.names, (link.name, *link.altnames)),
        (entry.addresses, (link.permanent_address or "", link.address or "")),
        (entry.drivers, (kernel_driver(link),)),
        (entry.paths, (link.pci_address or "", f"pci-{link.pci_address}" if link.pci_address else "")),
    )
    return all(not patterns or any_matches(patterns, texts) for patterns, texts in conditions)


def any_matches(patterns: Iterable[str], texts: tuple[str, ...]) -> bool:
    """Whether a pattern matches one of the texts; a pattern with ``!`` in front matches when its text does not (systemd
    applies it to the whole list)."""
    for pattern in patterns:
        negated = pattern.startswith("!")
        hit = any(text and wildcards.matches(text, pattern[1:] if negated else pattern) for text in texts)
        if hit != negated:
            return True
    return False


def file_and_line(entry: ConfigurationEntry) -> str:
    """``/etc/netplan/50-cloud-init.yaml:3``"""
    return f"{entry.file}:{entry.line}"


def kernel_driver(link: Link) -> str:
    """Name of the driver, or else the kind of a virtual link; "" when neither is known."""
    driver = link.ethtool.driver
    return (driver.driver if driver is not None else "") or link.kind or ""
