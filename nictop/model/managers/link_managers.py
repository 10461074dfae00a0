"""The manager of a link, with its state and the reason.

Reads nothing. NetworkManager and systemd-networkd (state files) report their state; netplan may
have written the files of networkd. ifupdown and network-scripts have only configuration, so a
stanza that applies to the link counts if no other manager has it. cloud-init writes the files of
the others and is named with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from nictop.model.managers.configuration import LinkConfiguration, file_and_line
from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    FAILED,
    UNMANAGED,
    device_state_text,
    reason_text,
)
from nictop.model.managers.profile_match import is_generated_default
from nictop.model.parts import managed_devices
from nictop.model.per_inventory import profiles_of_inventory
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text import units
from nictop.model.text.words import IFF_LOOPBACK, dim_if, warn_if
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import (
    ConfigurationEntry,
    Inventory,
    Link,
    ManagedDevice,
    NetworkdLink,
    Profile,
)

if TYPE_CHECKING:
    from nictop.model.text.words import Tone

ManagerName = Literal[
    "NetworkManager", "systemd-networkd", "ifupdown", "network-scripts", "the kernel", "none"
]

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


EXTERNAL = "(external)"
"""In a column, for a link that NetworkManager only describes, as nmcli does: ``connected
(externally)``. Its profile has the name of the link."""
NOT_READ = "?"
"""In a column, for what may be there: a dash says that there is none."""


class LinkManager(NamedTuple):
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
    device = managed_devices(inventory.networkmanager).get(link.ifindex)
    networkd = inventory.networkd.get(link.ifindex)
    entries = configuration.addressing(link)
    files = tuple(map(file_and_line, entries))
    written_by = _writer(entries)
    if device is not None and _is_controlled(device, inventory):
        state = device_state_text(device.state, device.reason)
        return LinkManager("NetworkManager", state, _device_tone(device), written_by, files)
    if networkd is not None and networkd.setup_state not in ("unmanaged", "linger"):
        return _by_networkd(networkd, written_by, files)
    by_file = _by_file(entries, inventory)
    if by_file is not None:
        return LinkManager(by_file, "", "normal", written_by, files)
    if link.flags & IFF_LOOPBACK:
        return LinkManager("the kernel", "", "normal")
    why = _why_unmanaged(device, networkd, inventory)
    return LinkManager("none", why, "dim", written_by, files)


def is_managed(device: ManagedDevice) -> bool:
    """NetworkManager manages the device, in whatever state."""
    return device.state > UNMANAGED


def active_profile(device: ManagedDevice, inventory: Inventory) -> Profile | None:
    """The profile that is active or being activated on the device."""
    if device.active_profile is None:
        return None
    return profiles_of_inventory(inventory).get(device.active_profile)


def is_only_described(device: ManagedDevice, profile: Profile | None) -> bool:
    """Whether the active profile only describes a configuration that was not made by
    NetworkManager. Such a profile can be activated, too: then it is NetworkManager's."""
    if device.external is not None:
        return device.external
    if profile is None:
        return False
    return profile.external and profile.uuid == device.active_profile


def is_activated(link: Link, inventory: Inventory) -> bool:
    """NetworkManager manages it, and is ready with that: `link_manager` has tone "good"."""
    device = managed_devices(inventory.networkmanager).get(link.ifindex)
    return device is not None and device.state == ACTIVATED and _is_controlled(device, inventory)


def _writer(entries: Iterable[ConfigurationEntry]) -> str | None:
    """What wrote the configuration of the manager."""
    for entry in entries:
        if entry.owner in ("netplan", "cloud-init"):
            return entry.owner
    return None


def _by_file(entries: tuple[ConfigurationEntry, ...], inventory: Inventory) -> ManagerName | None:
    for entry in entries:
        if entry.owner == "ifcfg" and inventory.networkmanager is not None:
            # NetworkManager reads these files: a link it does not manage is excluded on purpose
            continue
        name = MANAGERS_BY_OWNER.get(entry.owner)
        if name is not None:
            return name
    return None


def _is_controlled(device: ManagedDevice, inventory: Inventory) -> bool:
    """NetworkManager manages the device, and has not only found its configuration."""
    profile = active_profile(device, inventory)
    return is_managed(device) and not is_only_described(device, profile)


def _device_tone(device: ManagedDevice) -> Tone:
    if device.state == ACTIVATED:
        return "good"
    if device.state == FAILED:
        return "bad"
    return "warn"


def _by_networkd(
    networkd: NetworkdLink, written_by: str | None, files: tuple[str, ...]
) -> LinkManager:
    """A link that systemd-networkd manages, perhaps by a file of netplan."""
    state, tone = NETWORKD_STATES.get(networkd.setup_state, (networkd.setup_state, "normal"))
    if networkd.operational_state:
        state = f"{state}, {networkd.operational_state}"
    if networkd.network_file:
        files = files or (networkd.network_file,)
        if NETPLAN_FILE_PART in networkd.network_file:
            written_by = "netplan"
    return LinkManager("systemd-networkd", state, tone, written_by, files)


def _why_unmanaged(
    device: ManagedDevice | None, networkd: NetworkdLink | None, inventory: Inventory
) -> str:
    parts = []
    if device is not None:
        parts.append(_why_not_networkmanager(device))
    elif "networkmanager" in inventory.unreadable:
        text = "NetworkManager not readable"
        why = inventory.unreadable["networkmanager"].detail
        if why:
            text += f": {why}"
        parts.append(text)
    if networkd is not None:
        state, _ = NETWORKD_STATES.get(networkd.setup_state, (networkd.setup_state, ""))
        parts.append(f"systemd-networkd: {state}")
    parts += [
        f"{manager.name} not running: unit {manager.unit}" for manager in inventory.stopped_managers
    ]
    if parts:
        return "; ".join(parts)
    running = []
    if inventory.networkmanager is not None:
        running.append("NetworkManager")
    if inventory.services.networkd is not None:
        running.append("networkd")
    if not running:
        return "no NetworkManager or networkd"
    return f"not known to {' or '.join(running)}"


def _why_not_networkmanager(device: ManagedDevice) -> str:
    if is_managed(device):
        return "NetworkManager only describes it: connected (externally)"
    text = "unmanaged in NetworkManager"
    reason = reason_text(device.reason)
    if reason:
        text += f": {reason}"
    return text


def profile_name(link: Link, snapshot: Snapshot) -> tuple[str, Tone]:
    """For a table column: the name of the active profile, else the manager: ``ens224``, ``Wired
    connection 1``, ``networkd``, ``netplan``; `EXTERNAL` if NetworkManager only describes it, a
    dash if the link has neither, ``?`` if they are not read. The tone is "warn" for a profile that
    NetworkManager generated or that is not active yet, "bad" if it failed. Names of profiles are
    arbitrary text, not escaped here."""
    inventory, configuration = snapshot.inventory, snapshot.configuration
    if inventory is None or configuration is None or is_unread_link(link):
        return NOT_READ, "dim"
    device = managed_devices(inventory.networkmanager).get(link.ifindex)
    if device is not None and is_managed(device):
        profile = active_profile(device, inventory)
        if not is_only_described(device, profile):
            return _active_profile_name(device, profile)
    elif not inventory.networkd and not inventory.configuration:
        return _no_manager(inventory), "dim"
    present = link_manager(link, inventory, configuration)
    if present.name != "none":
        return _manager_name(present)
    is_described = device is not None and is_managed(device)
    return EXTERNAL if is_described else _no_manager(inventory), "dim"


def _no_manager(inventory: Inventory) -> str:
    """Of a link without one, as far as is known."""
    return NOT_READ if "networkmanager" in inventory.unreadable else units.UNKNOWN


def _manager_name(present: LinkManager) -> tuple[str, Tone]:
    """That of a manager whose links have no profiles."""
    if present.name in ("the kernel", "NetworkManager"):
        return units.UNKNOWN, "dim"
    name: str = COLUMN_NAMES.get(present.name, present.name)
    if present.written_by == "netplan":
        name = "netplan"
    if present.tone in ("bad", "warn"):
        return name, present.tone
    return name, "normal"


def _active_profile_name(device: ManagedDevice, profile: Profile | None) -> tuple[str, Tone]:
    """That of a device that NetworkManager manages; None: it has no profile."""
    name, tone = units.UNKNOWN, dim_if(profile is None)
    if profile is not None:
        is_usual = device.state == ACTIVATED and not is_generated_default(profile)
        name, tone = profile.id, warn_if(not is_usual)
    if device.state == FAILED:
        return name, "bad"
    return name, tone
