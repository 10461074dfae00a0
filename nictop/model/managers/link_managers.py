"""The manager of a link, with its state and the reason.

Reads nothing. NetworkManager and systemd-networkd (state files) report their state; netplan may have written the files
of networkd. ifupdown and network-scripts have only configuration, so a stanza that applies to the link counts if no
other manager has it. cloud-init writes the files of the others and is named with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nictop.model.managers.configuration import LinkConfiguration, file_and_line
from nictop.model.managers.networkmanager_states import ACTIVATED, FAILED, UNMANAGED, device_state_text, reason_text
from nictop.model.managers.profile_match import is_generated_default
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text import units
from nictop.model.text.words import IFF_LOOPBACK
from nictop.probe.records import ConfigurationEntry, Inventory, Link, ManagedDevice, NetworkdLink, Profile

if TYPE_CHECKING:
    from nictop.model.text.words import Tone

ManagerName = Literal["NetworkManager", "systemd-networkd", "ifupdown", "network-scripts", "the kernel", "none"]

NETWORKD_STATES: dict[str, tuple[str, Tone]] = {
    "configured": ("configured", "good"),
    "configuring": ("configuring", "warn"),
    "pending": ("pending: waiting for udev", "warn"),
    "initialized": ("initialized, not configured yet", "warn"),
    "failed": ("failed", "bad"),
    "linger": ("linger: interface removed", "dim"),
    "unmanaged": ("unmanaged: no .network file matches", "dim"),
}
NETPLAN_FILE_PART = "netplan-"
"""Part of the names of the files that netplan writes below /run/systemd/network."""
MANAGERS_BY_OWNER: dict[str, ManagerName] = {"ifupdown": "ifupdown", "ifcfg": "network-scripts"}
COLUMN_NAMES: dict[ManagerName, str] = {"systemd-networkd": "networkd", "network-scripts": "ifcfg"}
"""Shorter names for a table column."""


@dataclass(frozen=True)
class LinkManager:
    """The manager of a link; "none" if it has no manager."""

    name: ManagerName
    state: str
    """Text with the reason; "" when the manager reports none."""
    tone: Tone
    written_by: str | None = None
    """netplan or cloud-init, which wrote the configuration of the manager."""
    files: tuple[str, ...] = ()
    """``FILE:LINE`` of the stanzas that apply."""


def link_manager(link: Link, inventory: Inventory, configuration: LinkConfiguration) -> LinkManager:
    """The present manager of a link. For "none", `state` is the reason; it is never empty."""
    manager = inventory.networkmanager
    device = manager.devices.get(link.ifindex) if manager is not None else None
    entries = configuration.addressing(link)
    written_by = next((entry.owner for entry in entries if entry.owner in ("netplan", "cloud-init")), None)
    files = tuple(file_and_line(entry) for entry in entries)
    if device is not None and is_managed(device) and not is_only_described(device, active_profile(device, inventory)):
        tone: Tone = "good" if device.state == ACTIVATED else "bad" if device.state == FAILED else "warn"
        return LinkManager("NetworkManager", device_state_text(device.state, device.reason), tone, written_by, files)
    networkd = inventory.networkd.get(link.ifindex)
    if networkd is not None and networkd.setup_state not in ("unmanaged", "linger"):
        text, tone = NETWORKD_STATES.get(networkd.setup_state, (networkd.setup_state, "normal"))
        if NETPLAN_FILE_PART in (networkd.network_file or ""):
            written_by = "netplan"
        files = files or ((networkd.network_file,) if networkd.network_file else ())
        state = f"{text}, {networkd.operational_state}" if networkd.operational_state else text
        return LinkManager("systemd-networkd", state, tone, written_by, files)
    by_file = _by_file(entries, inventory)
    if by_file is not None:
        return LinkManager(by_file, "", "normal", written_by, files)
    if link.flags & IFF_LOOPBACK:
        return LinkManager("the kernel", "", "normal")
    return LinkManager("none", _why_unmanaged(device, networkd, inventory), "dim", written_by, files)


def is_managed(device: ManagedDevice) -> bool:
    """NetworkManager manages the device, in whatever state."""
    return device.state > UNMANAGED


def active_profile(device: ManagedDevice, inventory: Inventory) -> Profile | None:
    """The profile that is active or being activated on the device."""
    if device.active_profile is None or inventory.networkmanager is None:
        return None
    return next((one for one in inventory.networkmanager.profiles if one.uuid == device.active_profile), None)


def is_only_described(device: ManagedDevice, profile: Profile | None) -> bool:
    """Whether the active profile only describes a configuration that was not made by NetworkManager."""
    return profile is not None and profile.external and profile.uuid == device.active_profile


def _by_file(entries: tuple[ConfigurationEntry, ...], inventory: Inventory) -> ManagerName | None:
    for entry in entries:
        if entry.owner == "ifcfg" and inventory.networkmanager is not None:
            continue  # NetworkManager reads these files: a link that it does not manage is excluded on purpose
        name = MANAGERS_BY_OWNER.get(entry.owner)
        if name is not None:
            return name
    return None


def _why_unmanaged(device: ManagedDevice | None, networkd: NetworkdLink | None, inventory: Inventory) -> str:
    parts = []
    if device is not None and not is_managed(device):
        parts.append(": ".join(filter(None, ("unmanaged in NetworkManager", reason_text(device.reason)))))
    elif device is not None:
        parts.append("configured outside NetworkManager")
    elif "networkmanager" in inventory.unreadable:
        why = inventory.unreadable["networkmanager"]
        parts.append(f"NetworkManager not readable{f': {why.detail}' if why.detail else ''}")
    if networkd is not None:
        parts.append(f"systemd-networkd: {NETWORKD_STATES.get(networkd.setup_state, (networkd.setup_state, ''))[0]}")
    parts += [f"{one.name} not running: unit {one.unit}" for one in inventory.stopped_managers]
    if parts:
        return "; ".join(parts)
    running = [
        name
        for name, runs in (("NetworkManager", inventory.networkmanager), ("networkd", inventory.services.networkd))
        if runs is not None
    ]
    return f"not known to {' or '.join(running)}" if running else "no NetworkManager or networkd"


def profile_name(link: Link, snapshot: Snapshot) -> tuple[str, Tone]:
    """For a table column: the name of the active profile, else the manager: ``ens224``, ``Wired connection 1``,
    ``networkd``, ``netplan``; a dash if the link has neither. The tone is "warn" for a profile that NetworkManager
    generated or that is not active yet, "bad" if it failed. Names of profiles are arbitrary text, not escaped here."""
    inventory, configuration = snapshot.inventory, snapshot.configuration
    if inventory is None or configuration is None or link.type == ARPHRD_VOID:
        return units.UNKNOWN, "dim"
    manager = inventory.networkmanager
    device = manager.devices.get(link.ifindex) if manager is not None else None
    if device is not None and is_managed(device):
        profile = active_profile(device, inventory)
        if not is_only_described(device, profile):
            if profile is None:
                return units.UNKNOWN, "bad" if device.state == FAILED else "dim"
            usual = device.state == ACTIVATED and not is_generated_default(profile)
            return profile.id, "bad" if device.state == FAILED else "normal" if usual else "warn"
    elif not inventory.networkd and not inventory.configuration:
        return units.UNKNOWN, "dim"
    found = link_manager(link, inventory, configuration)
    if found.name in ("none", "the kernel", "NetworkManager"):
        return units.UNKNOWN, "dim"
    name = found.written_by if found.written_by == "netplan" else COLUMN_NAMES.get(found.name, found.name)
    return name, "bad" if found.tone == "bad" else "warn" if found.tone == "warn" else "normal"
