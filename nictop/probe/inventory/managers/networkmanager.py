"""Devices and profiles of NetworkManager over the system bus → `NetworkManager`.

One call returns all objects (org.freedesktop.DBus.ObjectManager.GetManagedObjects on
/org/freedesktop); then GetSettings of every profile and GetAppliedConnection of every active
device, many calls at a time. Secrets are not requested, and the service is not started by the
calls. The timeout is extended while NetworkManager uses CPU (`dbus_calls`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nictop.probe.inventory.lldp.networkmanager import parse_neighbours
from nictop.probe.inventory.managers.networkd import valid_mtu
from nictop.probe.inventory.managers.networkmanager_conf import read_networkmanager_configuration
from nictop.probe.inventory.managers.networkmanager_profile import (
    Part,
    Settings,
    number,
    parse_profile,
    text,
    texts,
)
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel.dbus_calls import BusConnection, DbusReply, unwrap_variants
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile, Unreadable

REPLY_TIMEOUT = 2.0
"""Seconds without a reply and without CPU use of NetworkManager: one that hangs must not delay the
inventory."""
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
NM_ACTIVATION_STATE_FLAG_EXTERNAL = 0x80
"""NMActivationStateFlags, from version 1.26 on."""
PROFILE_INTERFACE = f"{SERVICE}.Settings.Connection"
NOT_RUNNING = {
    f"{bus.BUS_NAME}.Error.{name}"
    for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected")
}
"""NoReply is sent by the bus when the service ends before it has replied."""
NO_SUCH_OBJECT = {
    f"{bus.BUS_NAME}.Error.{name}"
    for name in ("UnknownMethod", "UnknownObject", "UnknownInterface")
}

Objects = dict[str, dict[str, Part]]
"""Object path → interface → property → value without D-Bus types."""


def read_networkmanager(
    links: tuple[Link, ...],
    *,
    etc: str = "/etc",
    run: str = "/run",
    usr: str = "/usr",
    var: str = "/var",
) -> tuple[NetworkManager | None, Unreadable | None]:
    """(NetworkManager's state, why it could not be read). Both None: there is no bus, or it does
    not run.

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
    return replace(
        found, configuration=read_networkmanager_configuration(etc=etc, run=run, usr=usr, var=var)
    ), None


def why_failed(error: Exception, who: str) -> Unreadable:
    """`Unreadable` for an exception of the connection; `who`: the bus or the service."""
    if isinstance(error, TimeoutError) and not error.errno:
        return Unreadable(
            "failed",
            f"{who} did not answer: {str(error) or f'no reply within {REPLY_TIMEOUT:g} s'}",
        )
    if isinstance(error, OSError) and error.errno:
        return unreadable_from_error(error, who)
    return Unreadable("failed", f"{who}: {error or type(error).__name__}")


def request_all(
    connection: BusConnection, links: tuple[Link, ...]
) -> tuple[NetworkManager | None, Unreadable | None]:
    """Objects, then settings. If some settings are missing the reason is in
    `NetworkManager.unreadable`."""
    connection.wait_for(SERVICE)
    (managed,) = connection.call(
        SERVICE, [("/org/freedesktop", f"{bus.BUS_NAME}.ObjectManager", "GetManagedObjects")]
    )
    if managed.error in NOT_RUNNING:
        return None, None
    if managed.error is not None:
        refused = "AccessDenied" in managed.error
        return None, Unreadable("needs_root" if refused else "failed", managed.error_text())
    objects = untyped_objects(managed.body[0] if managed.body else None)
    if ROOT not in objects:
        return None, Unreadable("malformed", f"GetManagedObjects: no {ROOT}")
    unreadable = {}
    paths = profile_paths(objects)
    settings, error = request_each(
        connection, paths[:MAX_PROFILES], (PROFILE_INTERFACE, "GetSettings")
    )
    if error is not None:
        who = f"NetworkManager (after {len(settings)} of {len(paths)} profiles)"
        unreadable["profiles"] = why_failed(error, who)
    if len(paths) > MAX_PROFILES:
        unreadable["profiles"] = Unreadable(
            "failed", f"only {MAX_PROFILES} of {len(paths)} profiles were read"
        )
    devices = active_devices(objects)[:MAX_APPLIED]
    applied, error = request_each(
        connection, devices, (f"{SERVICE}.Device", "GetAppliedConnection"), ("u", (0,))
    )
    if error is not None:
        who = f"NetworkManager (after {len(applied)} of {len(devices)} devices)"
        unreadable["applied"] = why_failed(error, who)
    return replace(parse_objects(objects, settings, links, applied), unreadable=unreadable), None


def request_each(
    connection: BusConnection,
    paths: Sequence[str],
    method: tuple[str, str],
    *arguments: tuple[str, tuple[Any, ...]],
) -> tuple[dict[str, DbusReply], Exception | None]:
    """Path → reply to a method (interface, name) of each object, in the order of `paths`; and why
    some are missing."""
    replies: dict[str, DbusReply] = {}
    trouble = None
    try:
        for first in range(0, len(paths), MAX_PENDING_CALLS):
            batch = paths[first : first + MAX_PENDING_CALLS]
            calls = ((path, *method) for path in batch)
            for number, reply in connection.each(SERVICE, calls, *arguments):
                replies[batch[number]] = reply
    except (OSError, ValueError, EOFError) as error:
        trouble = error
    return {path: replies[path] for path in paths if path in replies}, trouble


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
        path: {
            name: unwrap_variants(values)
            for name, values in interfaces.items()
            if isinstance(values, dict)
        }
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
    """The record, from all objects and the replies to GetSettings and GetAppliedConnection by
    path."""
    manager = objects.get(ROOT, {}).get(SERVICE, {})
    profiles: dict[str, Profile] = {}
    for path, reply in settings.items():
        profile = profile_of(path, objects.get(path, {}).get(PROFILE_INTERFACE, {}), reply)
        if profile is not None:
            profiles[path] = profile
    uuids = {path: profile.uuid for path, profile in profiles.items()}
    by_uuid = {profile.uuid: profile for profile in profiles.values()}
    numbers = {link.name: link.ifindex for link in links}
    devices: dict[int, ManagedDevice] = {}
    for path, interfaces in objects.items():
        ifindex = ifindex_of(interfaces.get(f"{SERVICE}.Device", {}), numbers)
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


def ifindex_of(device: Part, numbers: Mapping[str, int]) -> int | None:
    """By its interface name, else by the last part of its udev path. `numbers`: by name of a
    link."""
    for name in (text(device, "Interface"), os.path.basename(text(device, "Udi") or "")):
        ifindex = numbers.get(name or "")
        if ifindex is not None:
            return ifindex
    return None


def profile_of(path: str, properties: Part, reply: DbusReply) -> Profile | None:
    """One profile; None: it has been removed. `properties`: of its object."""
    if reply.error in NO_SUCH_OBJECT:
        return None
    if reply.error is None:
        return parse_profile(path, properties, settings_of(reply) or {}, {})
    refused = "PermissionDenied" in reply.error or "AccessDenied" in reply.error
    why = Unreadable("needs_root" if refused else "failed", reply.error_text())
    return parse_profile(path, properties, {}, {"settings": why})  # a profile of other users


def settings_of(reply: DbusReply) -> Settings | None:
    """The settings of a profile in a reply, without types; None: there are none. Malformed parts
    are left out."""
    if not reply.body or not isinstance(reply.body[0], dict):
        return None
    return {
        name: unwrap_variants(part)
        for name, part in reply.body[0].items()
        if isinstance(part, dict)
    }


OF_STORED_ONLY = (
    "filename",
    "unsaved",
    "generated",
    "volatile",
    "external",
    "nm_generated_default",
    "timestamp",
)
"""Fields of `Profile` that are not in an applied profile."""


def applied_profile(reply: DbusReply | None, stored: Profile | None) -> Profile | None:
    """The profile as it was applied, if it differs from the stored one; None: it does not, or that
    is not known."""
    if reply is None or reply.error is not None:
        return None
    if stored is None or stored.external or stored.unreadable:
        return None
    settings = settings_of(reply)
    if settings is None:
        return None
    known = {name: getattr(stored, name) for name in OF_STORED_ONLY}
    applied = replace(parse_profile(stored.path, {}, settings, {}), **known)
    if applied.uuid != stored.uuid or applied == stored:
        return None
    return applied


def parse_device(
    interfaces: dict[str, Part], objects: Objects, uuids: dict[str, str]
) -> ManagedDevice:
    """One device. `interfaces`: of its object. `uuids`: path of a profile → UUID."""
    properties = interfaces[f"{SERVICE}.Device"]
    addresses = (text(part, "PermHwAddress") for part in interfaces.values())
    permanent = next(filter(None, addresses), None)
    profiles = [uuids.get(path) for path in texts(properties, "AvailableConnections")]
    lease = objects.get(text(properties, "Dhcp4Config") or "/", {})
    device = ManagedDevice(
        interface=text(properties, "Interface") or "",
        type=number(properties, "DeviceType"),
        state=number(properties, "State"),
        reason=state_reason(properties),
        managed=properties.get("Managed") is True,
        autoconnect=properties.get("Autoconnect") is True,
        available_profiles=tuple(filter(None, profiles)),
        permanent_address=permanent.lower() if permanent else None,
        lldp=parse_neighbours(properties.get("LldpNeighbors")),
        dhcp_routers=dhcp_routers(lease),
        dhcp_mtu=offered_mtu(lease),
    )
    connection = objects.get(text(properties, "ActiveConnection") or "/", {})
    active = connection.get(f"{SERVICE}.Connection.Active")
    if active is None:
        return device
    return replace(
        device,
        active_profile=text(active, "Uuid"),
        active_state=number(active, "State"),
        external=is_external(active),
    )


def is_external(active: Part) -> bool:
    """Whether NetworkManager only describes what others have configured, as nmcli's "connected
    (externally)". The flag of the profile stays when that profile is activated, this one does not.
    `active`: properties of a Connection.Active. Source: NMActivationStateFlags."""
    return bool(number(active, "StateFlags") & NM_ACTIVATION_STATE_FLAG_EXTERNAL)


def state_reason(properties: Part) -> int:
    """NM_DEVICE_STATE_REASON_*, the second one of (state, reason); 0: none."""
    reason = properties.get("StateReason")
    if not isinstance(reason, tuple) or len(reason) < 2:
        return 0
    if type(reason[1]) is not int:
        return 0
    return int(reason[1])


def dhcp_routers(interfaces: dict[str, Part]) -> tuple[str, ...]:
    """Addresses in the option ``routers`` of a lease, which are separated by blanks."""
    written = text(lease_options(interfaces), "routers") or ""
    return tuple(written.split()[:MAX_ROUTERS])


def lease_options(interfaces: dict[str, Part]) -> Part:
    """DHCP options of an object Dhcp4Config."""
    options = interfaces.get(f"{SERVICE}.DHCP4Config", {}).get("Options")
    if not isinstance(options, dict):
        return {}
    return options


def offered_mtu(interfaces: dict[str, Part]) -> int | None:
    """MTU in the DHCP lease of a device. `interfaces`: of its object Dhcp4Config."""
    value = lease_options(interfaces).get("interface_mtu")
    if not isinstance(value, str):
        return None
    return valid_mtu(value)
