"""Who runs a netdev, in a word for a column: the active profile by its name, or the manager where it has none.

Reads nothing; yields raw text: names of profiles are free text of the machine.
"""

from __future__ import annotations

from nictop.model.managers.link_managers import ManagerName, active_profile, described_only, is_managed, link_manager
from nictop.model.managers.networkmanager_states import FAILED
from nictop.model.managers.profile_match import is_made_up
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text import units
from nictop.model.text.words import Tone
from nictop.probe.records import Link

ACTIVATED = 100
"""NM_DEVICE_STATE_ACTIVATED"""
SHORT: dict[ManagerName, str] = {"systemd-networkd": "networkd", "network-scripts": "ifcfg"}


def profile_name(link: Link, snapshot: Snapshot) -> tuple[str, Tone]:
    """``ens224``, ``Wired connection 1``, ``networkd``, ``netplan``; a dash for a netdev that nobody manages, or that
    has no profile up. Yellow: made up by NetworkManager, or not up yet. Red: it failed."""
    inventory, configuration = snapshot.inventory, snapshot.configuration
    if inventory is None or configuration is None or link.type == ARPHRD_VOID:
        return units.UNKNOWN, "dim"
    manager = inventory.networkmanager
    device = manager.devices.get(link.ifindex) if manager is not None else None
    if device is not None and is_managed(device):
        profile = active_profile(device, inventory)
        if not described_only(device, profile):
            if profile is None:
                return units.UNKNOWN, "bad" if device.state == FAILED else "dim"
            usual = device.state == ACTIVATED and not is_made_up(profile)
            return profile.id, "bad" if device.state == FAILED else "normal" if usual else "warn"
    elif not inventory.networkd and not inventory.configuration:
        return units.UNKNOWN, "dim"
    found = link_manager(link, inventory, configuration)
    if found.name in ("nobody", "the kernel", "NetworkManager"):
        return units.UNKNOWN, "dim"
    name = found.written_by if found.written_by == "netplan" else SHORT.get(found.name, found.name)
    return name, "bad" if found.tone == "bad" else "warn" if found.tone == "warn" else "normal"
