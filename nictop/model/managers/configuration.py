"""Which stanza of a configuration file applies to which link.

Reads nothing. A stanza names links (exactly or by shell patterns), MAC addresses, drivers or paths; all kinds that it
gives must hold, one of each kind is enough: systemd.network(5) [Match], netplan(5) ``match:``.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop import wildcards
from nictop.probe.records import ConfigurationEntry, Inventory, Link

ADDRESSING = ("netplan", "ifupdown", "networkd", "ifcfg", "cloud-init")
"""Owners whose stanzas set addresses; the others name links or ask for virtual functions."""
PATTERN = frozenset("*?[!")


class LinkConfiguration:
    """The stanzas of one inventory, by link. Exact names are looked up, only patterns are tried one by one."""

    def __init__(self, inventory: Inventory) -> None:
        networkd_runs = inventory.services.networkd is not None or bool(inventory.networkd)
        self.stanzas = tuple(one for one in inventory.configuration if networkd_runs or one.owner != "networkd")
        """All that somebody reads: .network files are there on many machines whose networkd does not run."""
        self._by_name: dict[str, list[ConfigurationEntry]] = {}
        self._others: list[ConfigurationEntry] = []
        for entry in self.stanzas:
            if entry.names and not any(PATTERN.intersection(name) for name in entry.names):
                for name in entry.names:
                    self._by_name.setdefault(name, []).append(entry)
            else:
                self._others.append(entry)

    def entries(self, link: Link) -> tuple[ConfigurationEntry, ...]:
        """Stanzas that apply to the link, those that name it exactly first."""
        named = [entry for name in (link.name, *link.altnames) for entry in self._by_name.get(name, ())]
        return tuple(entry for entry in (*named, *self._others) if applies(entry, link))

    def addressing(self, link: Link) -> tuple[ConfigurationEntry, ...]:
        """Those of them that say how the link gets its addresses."""
        found = (entry for entry in self.entries(link) if entry.owner in ADDRESSING and not entry.ignores)
        return tuple(entry for entry in found if entry.methods or entry.owner == "networkd")


def applies(entry: ConfigurationEntry, link: Link) -> bool:
    """All conditions of the stanza that can be seen hold for the link."""
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
    """One pattern matches one of the texts; ``!`` in front of a pattern turns it round (systemd does so for all)."""
    for pattern in patterns:
        negated = pattern.startswith("!")
        hit = any(text and wildcards.matches(text, pattern[1:] if negated else pattern) for text in texts)
        if hit != negated:
            return True
    return False


def place(entry: ConfigurationEntry) -> str:
    """``/etc/netplan/50-cloud-init.yaml:3``"""
    return f"{entry.file}:{entry.line}"


def kernel_driver(link: Link) -> str:
    """Name of the driver, else of the kind of a virtual link; "" when neither is known."""
    driver = link.ethtool.driver
    return (driver.driver if driver is not None else "") or link.kind or ""
