"""Which devices and profiles of NetworkManager a change concerns. Pure.

From the operations of a change and what NetworkManager has now; yields `AffectedProfiles`, or the sentence why
NetworkManager would not know what is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nictop.probe.changes.grammar.actions import Operation
from nictop.probe.changes.networkmanager.state import BusProfile, Device, NetworkManagerNow

ANY = ("*", "")
"""The interface of a profile for whatever device there is."""


@dataclass(frozen=True)
class AffectedProfiles:
    """What a change may touch: interface names, UUIDs of profiles, and names of profiles that it adds."""

    interfaces: tuple[str, ...]
    uuids: tuple[str, ...]
    added: tuple[str, ...]


def concern(operations: Iterable[Operation], now: NetworkManagerNow) -> tuple[AffectedProfiles | None, str]:
    """(What the operations may touch, why that cannot be told). A later one may name what an earlier one adds or
    renames; those that are not NetworkManager's are passed over."""
    interfaces: set[str] = set()
    uuids: set[str] = set()
    added: list[str] = []
    names: dict[str, str] = {}
    for operation in operations:
        if not operation.is_networkmanagers:
            continue
        settings = dict(operation.settings)
        interfaces |= {operation.interface, settings.get("connection.interface-name", "")}
        if operation.kind == "profile add":
            added.append(operation.profile)
            if operation.interface in ANY:
                interfaces |= set(now.devices)
        if operation.kind not in ("profile modify", "profile up") or operation.profile in added:
            continue
        found = now.profiles_called(names.get(operation.profile, operation.profile))
        if len(found) != 1:
            return None, f"{len(found) or 'no'} profiles of NetworkManager are called {operation.profile}"
        uuids.add(found[0].uuid)
        interfaces |= possible_interfaces(found[0], now)
        if "connection.id" in settings:
            names[settings["connection.id"]] = found[0].uuid
    known = sorted(with_those_above(interfaces & now.devices.keys(), now.devices))
    uuids |= {now.devices[name].active for name in known} - {""}
    return AffectedProfiles(tuple(known), tuple(sorted(uuids)), tuple(added)), ""


def possible_interfaces(profile: BusProfile, now: NetworkManagerNow) -> set[str]:
    """Where a profile is up, where it belongs, or, when it is bound to none, wherever it could come up."""
    up = {device.interface for device in now.devices.values() if device.active == profile.uuid}
    if profile.interface_name:
        return up | {profile.interface_name}
    return up or {device.interface for device in now.devices.values() if profile.path in device.available}


def with_those_above(names: Iterable[str], devices: Mapping[str, Device]) -> set[str]:
    """The devices, their ports and whatever stands on them (VLANs): those are set up anew with them."""
    found = set(names)
    while True:
        paths = {devices[name].path for name in found}
        above = {name for name, device in devices.items() if paths & set(device.stands_on)}
        if above <= found:
            return found
        found |= above
