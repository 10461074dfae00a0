"""NetworkManager's present state with all D-Bus types, so that it can be restored: devices,
profiles, bus name.

Read over the system bus (GetManagedObjects, then GetSettings of each profile). Yields `NmState`.
Calls block; nothing here changes anything by itself.
"""

from __future__ import annotations

from typing import Any

from nictop.probe.inventory.managers.networkmanager import (
    MAX_PENDING_CALLS,
    NOT_RUNNING,
    PROFILE_INTERFACE,
    ROOT,
    SERVICE,
    Objects,
    is_external,
    profile_paths,
    untyped_objects,
)
from nictop.probe.inventory.managers.networkmanager_profile import Part, number, text, texts
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel.dbus_calls import BusConnection, DbusReply, unwrap_variants
from nictop.probe.light_dataclasses import dataclass

BUS_ERRORS = (OSError, EOFError, ValueError)
"""Raised by a conversation when the bus or NetworkManager ends, hangs, or sends malformed data."""
NM_SETTINGS_CONNECTION_FLAG_EXTERNAL, NM_SETTINGS_CONNECTION_FLAG_VOLATILE = 0x8, 0x4
NM_DEVICE_STATE_DISCONNECTED, NM_DEVICE_STATE_ACTIVATED = 30, 100
NM_DEVICE_STATE_REASON_USER_REQUESTED, NM_DEVICE_STATE_REASON_NEW_ACTIVATION = 39, 60

TypedSettings = dict[str, dict[str, Any]]
"""Setting → property → (D-Bus signature, value)."""


@dataclass(frozen=True)
class Device:
    """org.freedesktop.NetworkManager.Device."""

    interface: str
    path: str
    state: int
    """NM_DEVICE_STATE_*."""
    reason: int
    """NM_DEVICE_STATE_REASON_*."""
    managed: bool
    autoconnect: bool
    active: str
    """UUID of the profile that is active or being activated; empty: none."""
    active_path: str
    """Object path of that activation, which differs each time."""
    specs: tuple[str, ...]
    """Names in no-auto-default.state: hardware addresses in upper case, and
    ``interface-name:=NAME``."""
    available_profiles: tuple[str, ...]
    """Object paths of profiles that could be activated on it."""
    lower_paths: tuple[str, ...]
    """Object paths of its controller and of its parent."""
    external: bool = False
    """Others have configured it, and its activation only describes that (`is_external`)."""

    @property
    def waits(self) -> bool:
        """It has no active profile, and NetworkManager activates one when it can: for example after
        a DHCP timeout."""
        others = (NM_DEVICE_STATE_REASON_USER_REQUESTED, NM_DEVICE_STATE_REASON_NEW_ACTIVATION)
        is_disconnected = self.state == NM_DEVICE_STATE_DISCONNECTED and not self.active
        return is_disconnected and self.autoconnect and self.reason not in others


@dataclass(frozen=True)
class BusProfile:
    """org.freedesktop.NetworkManager.Settings.Connection."""

    path: str
    uuid: str
    id: str
    interface_name: str
    filename: str
    flags: int
    """NMSettingsConnectionFlags."""
    unsaved: bool
    settings: TypedSettings
    """Without secrets."""

    @property
    def is_temporary(self) -> bool:
        """It describes a configuration made by others (external), or exists only as long as its
        device (volatile): it cannot be restored."""
        return bool(
            self.flags
            & (NM_SETTINGS_CONNECTION_FLAG_EXTERNAL | NM_SETTINGS_CONNECTION_FLAG_VOLATILE)
        )

    @property
    def is_empty(self) -> bool:
        """No address is in it, and no controller: NetworkManager makes no profile that describes
        this (nm-device.c: nm_device_generate_connection), and only goes on with one that it made
        before."""
        connection, ipv4, ipv6 = (
            unwrap_variants(self.settings.get(part, {})) for part in ("connection", "ipv4", "ipv6")
        )
        has_controller = text(connection, "controller") or text(connection, "master")
        return (
            not has_controller
            and text(ipv4, "method") in (None, "disabled")
            and text(ipv6, "method") in (None, "disabled", "ignore")
        )

    @property
    def in_memory(self) -> bool:
        return self.unsaved or not self.filename


@dataclass(frozen=True)
class NmState:
    """`owner`: unique name on the bus, which differs after each start."""

    owner: str
    devices: dict[str, Device]
    """By interface name."""
    profiles: dict[str, BusProfile]
    """By UUID."""
    starting: bool = False
    """Profiles may still be activated on devices without one."""

    def profiles_named(self, name: str) -> list[BusProfile]:
        """The profile with that UUID, else those with that name."""
        by_uuid = self.profiles.get(name)
        return [by_uuid] if by_uuid else [one for one in self.profiles.values() if one.id == name]

    def current_profile(self, device: Device) -> str:
        """UUID of the profile that is active or being activated on a device, or that NetworkManager
        activates there next; empty: none."""
        if not device.waits:
            return device.active
        active = {one.active for one in self.devices.values()}
        candidates = []
        for profile in self.profiles.values():
            connection = unwrap_variants(profile.settings.get("connection", {}))
            is_available = profile.path in device.available_profiles and profile.uuid not in active
            if is_available and connection.get("autoconnect") is not False:
                rank = (number(connection, "autoconnect-priority"), number(connection, "timestamp"))
                candidates.append((rank, profile.uuid))
        return max(candidates)[1] if candidates else ""


class NotRunning(ConnectionError):
    """The bus says that NetworkManager does not run."""


class NmClient(BusConnection):
    """Calls of NetworkManager with arguments. Raises what `BusConnection` does."""

    def __enter__(self) -> NmClient:
        return self

    def request(
        self, path: str, interface: str, method: str, signature: str = "", *body: Any
    ) -> DbusReply:
        """One call of NetworkManager, or of the bus when `interface` is the bus's; does not start
        the service. Raises NotRunning, which is not a refusal, when NetworkManager does not run or
        ends before it answers."""
        jeepney = self._jeepney
        self._serial += 1
        service = bus.BUS_NAME if interface == bus.BUS_NAME else SERVICE
        address = jeepney.DBusAddress(path, service, interface)
        message = jeepney.new_method_call(address, method, signature or None, body)
        message.header.flags = jeepney.MessageFlag.no_auto_start
        self._set_timeout()
        self._socket.sendall(message.serialise(self._serial))
        while True:
            serial, answer = self._next_reply()
            if serial == self._serial and answer.error in NOT_RUNNING:
                raise NotRunning("NetworkManager is not running")
            if serial == self._serial:
                return answer

    def require(
        self, path: str, interface: str, method: str, signature: str = "", *body: Any
    ) -> tuple[Any, ...]:
        """The body of the reply. Raises what `request` does, and ValueError for an error reply."""
        answer = self.request(path, interface, method, signature, *body)
        if answer.error is not None:
            raise ValueError(answer.error_text())
        return answer.body


def read_nm_state(client: NmClient) -> NmState:
    """Devices and profiles. Raises ConnectionError when NetworkManager does not run, else what
    `NmClient` does."""
    owner = client.request("/org/freedesktop/DBus", bus.BUS_NAME, "GetNameOwner", "s", SERVICE)
    if owner.error is not None or not owner.body:
        raise ConnectionError("NetworkManager is not running")
    (tree,) = client.require(
        "/org/freedesktop", f"{bus.BUS_NAME}.ObjectManager", "GetManagedObjects"
    )
    objects = untyped_objects(tree)
    if ROOT not in objects:
        raise ConnectionError("NetworkManager is still starting")
    paths = profile_paths(objects)
    answers: list[DbusReply] = []
    for first in range(0, len(paths), MAX_PENDING_CALLS):
        answers += client.call(
            SERVICE,
            (
                (path, PROFILE_INTERFACE, "GetSettings")
                for path in paths[first : first + MAX_PENDING_CALLS]
            ),
        )
    return parse_state(str(owner.body[0]), objects, dict(zip(paths, answers)))


def parse_state(owner: str, objects: Objects, answers: dict[str, DbusReply]) -> NmState:
    """From all objects and, by path, the replies to GetSettings. Profiles without readable settings
    are omitted."""
    profiles = {}
    for path, answer in answers.items():
        settings = answer.body[0] if answer.body and isinstance(answer.body[0], dict) else {}
        profile = parse_bus_profile(
            path, objects.get(path, {}).get(PROFILE_INTERFACE, {}), settings
        )
        if profile.uuid:
            profiles[profile.uuid] = profile
    devices = {}
    for path, interfaces in objects.items():
        if isinstance(interfaces.get(f"{SERVICE}.Device"), dict):
            device = parse_bus_device(path, interfaces, objects)
            if device.interface:
                devices[device.interface] = device
    starting = objects.get(ROOT, {}).get(SERVICE, {}).get("Startup") is True
    return NmState(owner, devices, profiles, starting)


def parse_bus_profile(path: str, facts: Part, settings: TypedSettings) -> BusProfile:
    """From the properties of a Settings.Connection object and the reply to GetSettings."""
    connection_fields = unwrap_variants(settings.get("connection", {}))
    connection_fields = connection_fields if isinstance(connection_fields, dict) else {}
    return BusProfile(
        path=path,
        uuid=text(connection_fields, "uuid") or "",
        id=text(connection_fields, "id") or "",
        interface_name=text(connection_fields, "interface-name") or "",
        filename=text(facts, "Filename") or "",
        flags=number(facts, "Flags"),
        unsaved=facts.get("Unsaved") is True,
        settings=settings,
    )


def parse_bus_device(path: str, interfaces: dict[str, Part], objects: Objects) -> Device:
    """From the interfaces of a device object, with its ActiveConnection looked up in `objects`."""
    facts = interfaces[f"{SERVICE}.Device"]
    name = text(facts, "Interface") or ""
    activation = text(facts, "ActiveConnection") or "/"
    active = objects.get(activation, {}).get(f"{SERVICE}.Connection.Active", {})
    addresses = {
        text(part, key) for part in interfaces.values() for key in ("HwAddress", "PermHwAddress")
    }
    below = [text(part, "Parent") for part in interfaces.values()]
    below += [text(active, "Controller") or text(active, "Master")]
    state_reason, reason = facts.get("StateReason"), 0
    if isinstance(state_reason, tuple) and len(state_reason) > 1:
        reason = state_reason[1] if isinstance(state_reason[1], int) else 0
    return Device(
        interface=name,
        path=path,
        state=number(facts, "State"),
        reason=reason,
        managed=facts.get("Managed") is True,
        autoconnect=facts.get("Autoconnect") is True,
        active=text(active, "Uuid") or "",
        active_path=activation,
        specs=(
            *sorted(address.upper() for address in addresses if address),
            f"interface-name:={name}",
        ),
        available_profiles=texts(facts, "AvailableConnections"),
        lower_paths=tuple(other for other in below if other and other != "/"),
        external=is_external(active),
    )


def settings_equal(one: TypedSettings, other: TypedSettings) -> bool:
    """Whether two profiles have the same settings, apart from the time of their last activation."""
    return without_timestamp(one) == without_timestamp(other)


def without_timestamp(settings: TypedSettings) -> dict[str, Any]:
    plain_settings = unwrap_variants(settings)
    connection = {
        key: value
        for key, value in plain_settings.get("connection", {}).items()
        if key != "timestamp"
    }
    return {**plain_settings, "connection": connection}
