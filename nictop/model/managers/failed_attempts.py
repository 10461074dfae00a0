"""Attempts of NetworkManager to get an address that have failed while a host was watched.

Reads nothing; compares inventories. NetworkManager itself does not tell: the reason of the state is
gone with the next attempt, and with the next change of the carrier.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DISCONNECTED,
    UNAVAILABLE,
    has_no_address,
)
from nictop.probe.records import Inventory, Link, ManagedDevice, NetworkManager

MAX_ATTEMPTS = 1000
"""That are remembered, the newest ones."""
FailedAttempts = Mapping[tuple[str, str], float]
"""(NIC, UUID of the profile) → CLOCK_MONOTONIC of the inventory that has shown the failure. Until
the profile is activated there or is deleted; a change of the carrier does not end it."""


def nic_key(link: Link) -> str:
    """Stays when the driver is bound to the device again."""
    return link.device or str(link.ifindex)


def failed_before(attempts: FailedAttempts, link: Link, uuid: str) -> float | None:
    """When the profile was seen to fail on the link; None: not seen."""
    return attempts.get((nic_key(link), uuid))


def with_inventory(
    known: FailedAttempts, before: Inventory | None, inventory: Inventory
) -> FailedAttempts:
    manager = inventory.networkmanager
    if manager is None:
        return known
    devices_before: Mapping[int, ManagedDevice] = {}
    if before is not None and before.networkmanager is not None:
        devices_before = before.networkmanager.devices
    uuids = {profile.uuid for profile in manager.profiles}
    found = {key: time for key, time in known.items() if key[1] in uuids}
    for link in inventory.links:
        device = manager.devices.get(link.ifindex)
        if device is None:
            continue
        earlier = devices_before.get(link.ifindex)
        if device.state == ACTIVATED:
            found.pop((nic_key(link), device.active_profile or ""), None)
        elif _has_failed_since(earlier, device):
            uuid = _attempted(earlier, device, manager)
            if uuid is not None:
                found[nic_key(link), uuid] = inventory.time
    newest = sorted(found, key=found.__getitem__)[-MAX_ATTEMPTS:]
    return {key: found[key] for key in newest}


def _has_failed_since(earlier: ManagedDevice | None, device: ManagedDevice) -> bool:
    """Not if it was seen already, and not of a device that was unavailable until now: nothing was
    attempted yet."""
    if not has_no_address(device.state, device.reason):
        return False
    if earlier is None or device.state != DISCONNECTED:
        return True
    if earlier.state <= UNAVAILABLE:
        return False
    return not has_no_address(earlier.state, earlier.reason)


def _attempted(
    earlier: ManagedDevice | None, device: ManagedDevice, manager: NetworkManager
) -> str | None:
    """The profile that has failed; None: not known."""
    if device.active_profile is not None:
        return device.active_profile
    if earlier is not None and earlier.active_profile is not None:
        return earlier.active_profile
    available = [
        profile
        for profile in manager.profiles
        if profile.uuid in device.available_profiles and profile.autoconnect
    ]
    highest = max((profile.autoconnect_priority for profile in available), default=0)
    first = [profile for profile in available if profile.autoconnect_priority == highest]
    return first[0].uuid if len(first) == 1 else None
