"""Configured numbers of VFs: in NetworkManager profiles, .link files, udev rules, scripts.

Reads nothing; joins `ConfigurationEntry.virtual_functions` and `Profile.sriov_total_vfs` with the
PCI function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.text.wildcards import matches
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import ConfigurationEntry, Link, PciFunction, Profile
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts


@dataclass(frozen=True)
class ConfiguredVfs:
    """A configured number of VFs, and where it is configured."""

    count: int
    where: str
    """``/etc/udev/rules.d/70-sriov.rules:1``, ``NetworkManager profile "ens224":
    sriov.total-vfs``"""
    is_of_networkmanager: bool = False

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
        self.profiles: list[Profile] = []
        manager = host.inventory.networkmanager
        if manager is not None:
            self.profiles = [
                profile for profile in manager.profiles if profile.sriov_total_vfs is not None
            ]

    def of(self, function: PciFunction, *, exactly: bool = False) -> list[ConfiguredVfs]:
        """The numbers configured for this function; a source with the number in a variable is left
        out. `exactly`: by its name or address; not by its driver, nor by a pattern that is for
        other NICs, too."""
        if not self.entries and not self.profiles:
            return []  # as on nearly every host
        links = self.host.links_of_function.get(function.address, ())
        entries = [
            entry
            for entry in self.entries
            if entry.virtual_functions is not None and names_function(entry, function, links)
        ]
        found = [
            ConfiguredVfs(entry.virtual_functions or 0, f"{entry.file}:{entry.line}")
            for entry in entries
            if not exactly or _names_one(entry)
        ]
        return found + [
            ConfiguredVfs(
                profile.sriov_total_vfs,
                f'NetworkManager profile "{profile.id}": sriov.total-vfs',
                is_of_networkmanager=True,
            )
            for profile in self.profiles
            if profile.sriov_total_vfs is not None
            and any(_is_for(self.host, profile, link) for link in links)
        ]

    def covers(self, function: PciFunction) -> bool:
        """VFs of this function are configured, with a number or with a variable."""
        if self.of(function):
            return True
        links = self.host.links_of_function.get(function.address, ())
        return any(names_function(entry, function, links) for entry in self.entries)

    @property
    def has_unknown_targets(self) -> bool:
        """Something writes sriov_numvfs of a NIC that is named by a variable."""
        for entry in self.entries:
            if not (entry.names or entry.addresses or entry.drivers or entry.paths):
                return True
        return False


def _is_for(host: HostFacts, profile: Profile, link: Link) -> bool:
    device = host.profiles.device(link)
    if device is not None and device.active_profile is not None:
        return device.active_profile == profile.uuid
    if not profile.autoconnect:
        return False
    if profile.interface_name in (link.name, *link.altnames):
        return True
    if profile.mac_address is None:
        return False
    return profile.mac_address in (link.permanent_address, link.address)


def names_function(entry: ConfigurationEntry, function: PciFunction, links: Iterable[Link]) -> bool:
    """The stanza matches the function, its driver or one of its links."""
    names: list[str] = []
    addresses: list[str | None] = []
    for link in links:
        names += [link.name, *link.altnames]
        addresses += [link.permanent_address, link.address]
    driver = function.driver or ""
    given: tuple[tuple[Sequence[str], Sequence[str]], ...] = (
        (entry.names, names),
        (entry.addresses, [address for address in addresses if address]),
        (entry.drivers, [driver.replace("-", "_"), driver]),
        (entry.paths, [function.address, f"pci-{function.address}"]),
    )
    parts = [(patterns, values) for patterns, values in given if patterns]
    return bool(parts) and all(_any_matches(patterns, values) for patterns, values in parts)


def _names_one(entry: ConfigurationEntry) -> bool:
    """One of its patterns has no wildcard."""
    for pattern in (*entry.names, *entry.addresses, *entry.paths):
        if set(pattern).isdisjoint("*?[!"):
            return True
    return False


def _any_matches(patterns: Iterable[str], values: Sequence[str]) -> bool:
    """Shell patterns; those with a leading ``!`` exclude."""
    wanted = []
    for pattern in patterns:
        if not pattern.startswith("!"):
            wanted.append(pattern)
        elif any(matches(value, pattern[1:]) for value in values):
            return False
    return not wanted or any(matches(value, pattern) for pattern in wanted for value in values)
