"""Devices and profiles of NetworkManager over the system bus → `NetworkManager`.

One call returns all objects (org.freedesktop.DBus.ObjectManager.GetManagedObjects on /org/freedesktop); then
GetSettings of every profile and GetAppliedConnection of every active device, many calls at a time. Secrets are not
requested, and the service is not started by the calls. The timeout is extended while NetworkManager uses CPU
(`dbus_calls`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from nictop.probe.inventory.lldp.networkmanager import parse_neighbours
from nictop.probe.inventory.managers.networkd import valid_mtu
from nictop.probe.inventory.managers.networkmanager_conf import read_networkmanager_configuration
from nictop.probe.inventory.managers.networkmanager_profile import Part, Settings, number, parse_profile, text, texts
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel.dbus_calls import BusConnection, DbusReply, unwrap_variants
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile, Unreadable

REPLY_TIMEOUT = 2.0
"""Seconds without a reply and without CPU use of NetworkManager: one that hangs must not delay the inventory."""
NETWORKMANAGER_TIMEOUT = 20.0
"""Seconds for the whole connection, however busy NetworkManager is."""
MAX_PENDING_CALLS = 64
"""Calls without reply: a system bus refuses more than 128."""
MAX_PROFILES = 2000
MAX_ROUTERS = 8
"""Of one lease."""
MAX_APPLIED = 256
"""Active devices whose applied settings are read."""
APPLIED_TYPES = (1, 9, 10, 11, 13, 15, 20)
"""NM_DEVICE_TYPE_*: Ethernet, InfiniBand, bond, VLAN, bridge, team, veth."""
ACTIVATED = 100
"""NM_DEVICE_STATE_ACTIVATED"""

SERVICE = "org.freedesktop.NetworkManager"
ROOT = "/org/freedesktop/NetworkManager"
PROFILE_INTERFACE = f"{SERVICE}.Settings.Connection"
NOT_RUNNING = {
    f"{bus.BUS_NAME}.Error.{name}" for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected")
}
"""NoReply is sent by the bus when the service ends before it has replied."""
NO_SUCH_OBJECT = {f"{bus.BUS_NAME}.Error.{name}" for name in ("UnknownMethod", "UnknownObject", "UnknownInterface")}

Objects = dict[str, dict[str, Part]]
"""Object path → interface → property → value without D-Bus types."""


def read_networkmanager(
    links: tuple[Link, ...], *, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
) -> tuple[NetworkManager | None, Unreadable | None]:
    """(NetworkManager's state, why it could not be read). Both None: there is no bus, or it does not run.

    `links`: of the same inventory. Never raises for failures of the bus or of NetworkManager.
    """
    address = bus.bus_address(run)
    if not address:
        return None, Unreadable("failed", "DBUS_SYSTEM_BUS_ADDRESS is not a Unix socket")
    try:
        connection = BusConnection(address, REPLY_TIMEOUT, longest=NETWORKMANAGER_TIMEOUT)
    except FileNotFoundError:
        return None, None
    except ImportError:
        return None, Unreadable("missing", "the Python library jeepney (D-Bus) is missing")
    except (OSError, ValueError, EOFError) as error:
        return None, why_failed(error, f"the system bus at {address.lstrip(chr(0))}")
    with connection:
        try:
            found, trouble = request_all(connection, links)
        except (OSError, ValueError, EOFError) as error:
            return None, why_failed(error, "NetworkManager")
    if found is None:
        return None, trouble
    return replace(found, configuration=read_networkmanager_configuration(etc=etc, run=run, usr=usr, var=var)), None


def why_failed(error: Exception, who: str) -> Unreadable:
    """`Unreadable` for an exception of the connection; `who`: the bus or the service."""
    if isinstance(error, TimeoutError) and not error.errno:
        return Unreadable("failed", f"{who} did not answer: {str(error) or f'no reply within {REPLY_TIMEOUT:g} s'}")
    if isinstance(error, OSError) and error.errno:
        return unreadable_from_error(error, who)
    return Unreadable("failed", f"{who}: {error or type(error).__name__}")


def request_all(connection: BusConnection, links: tuple[Link, ...]) -> tuple[NetworkManager | None, Unreadable | None]:
    """Objects, then settings. If some settings are missing the reason is in `NetworkManager.unreadable`."""
    connection.wait_for(SERVICE)
    (managed,) = connection.call(SERVICE, [("/org/freedesktop", f"{bus.BUS_NAME}.ObjectManager", "GetManagedObjects")])
    if managed.error in NOT_RUNNING:
        return None, None
    if managed.error is not None:
        refused = "AccessDenied" in managed.error
        return None, Unreadable("needs_root" if refused else "failed", managed.error_text())
    objects = untyped_objects(managed.body[0] if managed.body else None)
    if ROOT not in objects:
        return None, Unreadable("malformed", f"GetManagedObjects: no {ROOT}")
    paths = profile_paths(objects)
    unreadable = {}
    replies: dict[str, DbusReply] = {}
    try:
        for first in range(0, min(len(paths), MAX_PROFILES), MAX_PENDING_CALLS):
            batch = paths[first : min(first + MAX_PENDING_CALLS, MAX_PROFILES)]
            for number, reply in connection.each(SERVICE, ((path, PROFILE_INTERFACE, "GetSettings") for path in batch)):
                replies[batch[number]] = reply
    except (OSError, ValueError, EOFError) as error:
        unreadable["profiles"] = why_failed(error, f"NetworkManager (after {len(replies)} of {len(paths)} profiles)")
    if len(paths) > MAX_PROFILES:
        unreadable["profiles"] = Unreadable("failed", f"only {MAX_PROFILES} of {len(paths)} profiles were read")
    settings = {path: replies[path] for path in paths if path in replies}
    devices = active_devices(objects)[:MAX_APPLIED]
    applied: dict[str, DbusReply] = {}
    try:
        for first in range(0, len(devices), MAX_PENDING_CALLS):
            batch = devices[first : first + MAX_PENDING_CALLS]
            calls = ((path, f"{SERVICE}.Device", "GetAppliedConnection") for path in batch)
            for number, reply in connection.each(SERVICE, calls, ("u", (0,))):
                applied[batch[number]] = reply
    except (OSError, ValueError, EOFError) as error:
        unreadable["applied"] = why_failed(error, f"NetworkManager (after {len(applied)} of {len(devices)} devices)")
    return replace(parse_objects(objects, settings, links, applied), unreadable=unreadable), None


def active_devices(objects: Objects) -> list[str]:
    """Paths of the activated devices whose settings a profile can have."""
    found = []
    for path, interfaces in objects.items():
        device = interfaces.get(f"{SERVICE}.Device", {})
        if number(device, "State") == ACTIVATED and number(device, "DeviceType") in APPLIED_TYPES:
            found.append(path)
    return sorted(found, key=lambda path: (len(path), path))


def untyped_objects(tree: object) -> Objects:
    """The reply to GetManagedObjects without types; malformed parts are left out."""
    if not isinstance(tree, dict):
        return {}
    return {
        path: {name: unwrap_variants(values) for name, values in interfaces.items() if isinstance(values, dict)}
        for path, interfaces in tree.items()
        if isinstance(interfaces, dict)
    }


def profile_paths(objects: Objects) -> list[str]:
    """Paths of the profiles, by number."""
    paths = [path for path, interfaces in objects.items() if PROFILE_INTERFACE in interfaces]
    return sorted(paths, key=lambda path: (len(path), path))


def parse_objects(
    objects: Objects,
    settings: dict[str, DbusReply],
    links: Iterable[Link],
    applied: Mapping[str, DbusReply] = MappingProxyType({}),
) -> NetworkManager:
    """The record, from all objects and the replies to GetSettings and GetAppliedConnection by path."""
    manager = objects.get(ROOT, {}).get(SERVICE, {})
    parsed = {
        path: profile_of(path, objects.get(path, {}).get(PROFILE_INTERFACE, {}), settings[path]) for path in settings
    }
    profiles = {path: profile for path, profile in parsed.items() if profile is not None}
    uuids = {path: profile.uuid for path, profile in profiles.items()}
    numbers = {link.name: link.ifindex for link in links}
    devices: dict[int, ManagedDevice] = {}
    by_uuid = {profile.uuid: profile for profile in profiles.values()}
    for path, interfaces in objects.items():
        properties = interfaces.get(f"{SERVICE}.Device", {})
        names = (text(properties, "Interface"), os.path.basename(text(properties, "Udi") or ""))
        ifindex = next((numbers[name] for name in names if name in numbers), None)
        if ifindex is not None:
            device = parse_device(interfaces, objects, uuids)
            stored = by_uuid.get(device.active_profile or "")
            devices[ifindex] = replace(device, applied=applied_profile(applied.get(path), stored))
    return NetworkManager(
        version=text(manager, "Version") or "",
        startup=manager.get("Startup") is True,
        networking_enabled=manager.get("NetworkingEnabled") is not False,
        devices=dict(sorted(devices.items())),
        profiles=tuple(profiles.values()),
    )


def profile_of(path: str, properties: Part, reply: DbusReply) -> Profile | None:
    """One profile; None: it has been removed. `properties`: of its object."""
    if reply.error in NO_SUCH_OBJECT:
        return None
    settings: Settings = {}
    unreadable = {}
    if reply.error is not None:  # a profile of other users
        refused = "PermissionDenied" in reply.error or "AccessDenied" in reply.error
        unreadable["settings"] = Unreadable("needs_root" if refused else "failed", reply.error_text())
    elif reply.body and isinstance(reply.body[0], dict):
        settings = {name: unwrap_variants(part) for name, part in reply.body[0].items() if isinstance(part, dict)}
    return parse_profile(path, properties, settings, unreadable)


def applied_profile(reply: DbusReply | None, stored: Profile | None) -> Profile | None:
    """The profile as it was applied, if it differs from the stored one; None: it does not, or that is not known."""
    if reply is None or stored is None or stored.external or stored.unreadable or reply.error is not None:
        return None
    if not reply.body or not isinstance(reply.body[0], dict):
        return None
    settings = {name: unwrap_variants(part) for name, part in reply.body[0].items() if isinstance(part, dict)}
    found = parse_profile(stored.path, {}, settings, {})
    known = ("filename", "unsaved", "generated", "volatile", "external", "nm_generated_default", "timestamp")
    found = replace(found, **{name: getattr(stored, name) for name in known})
    return found if found.uuid == stored.uuid and found != stored else None


def parse_device(interfaces: dict[str, Part], objects: Objects, uuids: dict[str, str]) -> ManagedDevice:
    """One device. `interfaces`: of its object. `uuids`: path of a profile → UUID."""
    properties = interfaces[f"{SERVICE}.Device"]
    active = objects.get(text(properties, "ActiveConnection") or "/", {}).get(f"{SERVICE}.Connection.Active")
    reason: Any = properties.get("StateReason")
    permanent = next(filter(None, (text(part, "PermHwAddress") for part in interfaces.values())), None)
    return ManagedDevice(
        interface=text(properties, "Interface") or "",
        type=number(properties, "DeviceType"),
        state=number(properties, "State"),
        reason=reason[1] if isinstance(reason, tuple) and reason[1:] and type(reason[1]) is int else 0,
        managed=properties.get("Managed") is True,
        autoconnect=properties.get("Autoconnect") is True,
        active_profile=None if active is None else text(active, "Uuid"),
        active_state=None if active is None else number(active, "State"),
        available_profiles=tuple(uuids[path] for path in texts(properties, "AvailableConnections") if uuids.get(path)),
        permanent_address=None if permanent is None else permanent.lower(),
        lldp=parse_neighbours(properties.get("LldpNeighbors")),
        dhcp_routers=dhcp_routers(objects.get(text(properties, "Dhcp4Config") or "/", {})),
        dhcp_mtu=offered_mtu(objects.get(text(properties, "Dhcp4Config") or "/", {})),
    )


def dhcp_routers(interfaces: dict[str, Part]) -> tuple[str, ...]:
    """Addresses in the option ``routers`` of a lease, which are separated by blanks."""
    options = interfaces.get(f"{SERVICE}.DHCP4Config", {}).get("Options")
    written = text(options, "routers") if isinstance(options, dict) else None
    return tuple((written or "").split()[:MAX_ROUTERS])


def offered_mtu(interfaces: dict[str, Part]) -> int | None:
    """MTU in the DHCP lease of a device. `interfaces`: of its object Dhcp4Config."""
    options = interfaces.get(f"{SERVICE}.DHCP4Config", {}).get("Options")
    value = options.get("interface_mtu") if isinstance(options, dict) else None
    return valid_mtu(value) if isinstance(value, str) else None
