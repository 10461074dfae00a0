"""Configured numbers of VFs: in NetworkManager profiles, .link files, udev rules, scripts.

Reads nothing; joins `ConfigurationEntry.virtual_functions` and `Profile.sriov_total_vfs` with the PCI function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nictop.model.text.wildcards import matches
from nictop.probe.records import ConfigurationEntry, Link, PciFunction, Profile
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts


@dataclass(frozen=True)
class ConfiguredVfs:
    """A configured number of VFs, and where it is configured."""

    count: int
    where: str
    """``/etc/udev/rules.d/70-sriov.rules:1``, ``NetworkManager profile "ens224": sriov.total-vfs``"""

    @property
    def evidence(self) -> Evidence:
        return Evidence("VFs configured", str(self.count), self.where)


class VfConfiguration:
    """The configuration of a host that is about VFs; built once per rule."""

    def __init__(self, host: HostFacts) -> None:
        self.host = host
        self.entries = [
            entry
            for entry in host.inventory.configuration
            if entry.virtual_functions is not None or entry.owner == "sriov"
        ]
        manager = host.inventory.networkmanager
        self.profiles = [
            one for one in (manager.profiles if manager is not None else ()) if one.sriov_total_vfs is not None
        ]

    def of(self, function: PciFunction, *, exactly: bool = False) -> list[ConfiguredVfs]:
        """The numbers configured for this function; a source with the number in a variable is left out. `exactly`: by
        its name or address; not by its driver, nor by a pattern that is for other NICs, too."""
        links = self.host.links_of_function.get(function.address, ())
        entries = [
            one for one in self.entries if one.virtual_functions is not None and names_function(one, function, links)
        ]
        found = [
            ConfiguredVfs(one.virtual_functions or 0, f"{one.file}:{one.line}")
            for one in entries
            if not exactly or _names_one(one)
        ]
        return found + [
            ConfiguredVfs(profile.sriov_total_vfs, f'NetworkManager profile "{profile.id}": sriov.total-vfs')
            for profile in self.profiles
            if profile.sriov_total_vfs is not None and any(_is_for(self.host, profile, link) for link in links)
        ]

    def covers(self, function: PciFunction) -> bool:
        """VFs of this function are configured, with a number or with a variable."""
        links = self.host.links_of_function.get(function.address, ())
        return bool(self.of(function)) or any(names_function(entry, function, links) for entry in self.entries)

    @property
    def has_unknown_targets(self) -> bool:
        """Something writes sriov_numvfs of a NIC that is named by a variable."""
        return any(not (one.names or one.addresses or one.drivers or one.paths) for one in self.entries)


def _is_for(host: HostFacts, profile: Profile, link: Link) -> bool:
    manager = host.inventory.networkmanager
    device = manager.devices.get(link.ifindex) if manager is not None else None
    if device is not None and device.active_profile is not None:
        return device.active_profile == profile.uuid
    names = (link.name, *link.altnames)
    return profile.autoconnect and (
        profile.interface_name in names
        or (profile.mac_address is not None and profile.mac_address in (link.permanent_address, link.address))
    )


def names_function(entry: ConfigurationEntry, function: PciFunction, links: Iterable[Link]) -> bool:
    """The stanza matches the function, its driver or one of its links."""
    links = tuple(links)
    driver = function.driver or ""
    given = (
        (entry.names, [name for link in links for name in (link.name, *link.altnames)]),
        (entry.addresses, [address for link in links for address in (link.permanent_address, link.address) if address]),
        (entry.drivers, [driver.replace("-", "_"), driver]),
        (entry.paths, [function.address, f"pci-{function.address}"]),
    )
    parts = [(patterns, values) for patterns, values in given if patterns]
    return bool(parts) and all(_any_matches(patterns, values) for patterns, values in parts)


def _names_one(entry: ConfigurationEntry) -> bool:
    return any(set(one).isdisjoint("*?[!") for one in (*entry.names, *entry.addresses, *entry.paths))


def _any_matches(patterns: Iterable[str], values: Iterable[str]) -> bool:
    """Shell patterns; those with a leading ``!`` exclude."""
    values, patterns = tuple(values), tuple(patterns)
    if any(matches(value, pattern[1:]) for pattern in patterns if pattern.startswith("!") for value in values):
        return False
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    return not wanted or any(matches(value, pattern) for pattern in wanted for value in values)
