"""The devices and profiles of NetworkManager that a change affects. Pure.

From the operations of a change and NetworkManager's present state; yields `AffectedProfiles`, or a
sentence why the name of a profile is ambiguous or unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.networkmanager.state import BusProfile, Device, NmState

ANY_INTERFACE = ("*", "")
"""Interface names in a profile that may be activated on any device."""


@dataclass(frozen=True)
class AffectedProfiles:
    """Interface names, UUIDs of profiles, and names of profiles that the change adds. `modified`:
    UUIDs of those whose settings it changes."""

    interfaces: tuple[str, ...]
    uuids: tuple[str, ...]
    added: tuple[str, ...]
    modified: tuple[str, ...] = ()


def affected_profiles(
    operations: Iterable[Operation], now: NmState
) -> tuple[AffectedProfiles | None, str]:
    """(what the operations may change, why it cannot be determined). A later operation may name a
    profile that an earlier one adds or renames; operations on kernel settings are skipped."""
    interfaces: set[str] = set()
    uuids: set[str] = set()
    added: list[str] = []
    modified: dict[str, None] = {}
    names: dict[str, str] = {}
    for operation in operations:
        if not operation.uses_networkmanager:
            continue
        settings = dict(operation.settings)
        interfaces |= {operation.interface, settings.get("connection.interface-name", "")}
        if operation.kind == "profile add":
            added.append(operation.profile)
            if operation.interface in ANY_INTERFACE:
                interfaces |= set(now.devices)
        if operation.kind not in ("profile modify", "profile up"):
            continue
        if operation.profile in added:
            if now.profiles_named(operation.profile):  # which one is meant?
                return None, f"a NetworkManager profile has the name {operation.profile} already"
            continue
        found = now.profiles_named(names.get(operation.profile, operation.profile))
        if len(found) != 1:
            return (
                None,
                f"{len(found) or 'no'} NetworkManager profiles have the name {operation.profile}",
            )
        uuids.add(found[0].uuid)
        if operation.kind == "profile modify":
            modified[found[0].uuid] = None
        interfaces |= possible_interfaces(found[0], now)
        if "connection.id" in settings:
            names[settings["connection.id"]] = found[0].uuid
    known = sorted(with_upper_devices(interfaces & now.devices.keys(), now.devices))
    uuids |= {now.current_profile(now.devices[name]) for name in known} - {""}
    return AffectedProfiles(tuple(known), tuple(sorted(uuids)), tuple(added), tuple(modified)), ""


def possible_interfaces(profile: BusProfile, now: NmState) -> set[str]:
    """Interfaces where a profile is active, or which it is bound to; without both, all where it is
    available."""
    up = {device.interface for device in now.devices.values() if device.active == profile.uuid}
    if profile.interface_name:
        return up | {profile.interface_name}
    return up or {
        device.interface
        for device in now.devices.values()
        if profile.path in device.available_profiles
    }


def with_upper_devices(names: Iterable[str], devices: Mapping[str, Device]) -> set[str]:
    """The devices, their ports and the devices above them (VLANs), which are configured again with
    them."""
    found = set(names)
    while True:
        paths = {devices[name].path for name in found}
        above = {name for name, device in devices.items() if paths & set(device.lower_paths)}
        if above <= found:
            return found
        found |= above
