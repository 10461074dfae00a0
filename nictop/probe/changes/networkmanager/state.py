"""What NetworkManager has now, with all types of D-Bus, so that it can be given back: devices, profiles, who it is.

Asked for over the system bus (GetManagedObjects, then GetSettings of each profile). Yields `NetworkManagerNow`. Calls
block, for a plain process without an event loop; nothing here changes anything by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nictop.probe.inventory.managers.networkmanager import (
    AT_ONCE,
    NOT_RUNNING,
    PROFILE,
    ROOT,
    SERVICE,
    Objects,
    plain_objects,
    profile_paths,
)
from nictop.probe.inventory.managers.networkmanager_profile import Part, number, text, texts
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel.dbus_calls import Conversation, DbusReply, plain

TROUBLE = (OSError, EOFError, ValueError)
"""What a conversation raises when the bus or NetworkManager ends, hangs or talks nonsense."""
EXTERNAL, VOLATILE = 0x8, 0x4
ACTIVATED = 100

Typed = dict[str, dict[str, Any]]
"""Setting → property → (D-Bus signature, value)."""


@dataclass(frozen=True)
class Device:
    """org.freedesktop.NetworkManager.Device."""

    interface: str
    path: str
    state: int
    """NM_DEVICE_STATE_*."""
    managed: bool
    autoconnect: bool
    active: str
    """UUID of the profile that is up or coming up; empty: none."""
    active_path: str
    """Of that activation; another one each time."""
    specs: tuple[str, ...]
    """As no-auto-default.state names it: hardware addresses, upper case, and ``interface-name:=NAME``."""
    available: tuple[str, ...]
    """Paths of profiles that could come up on it."""
    stands_on: tuple[str, ...]
    """Paths of its controller's and parent's devices."""


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
    settings: Typed
    """Without secrets."""

    @property
    def only_describes(self) -> bool:
        """It shows what somebody else set up, or goes with its device: nothing that could be brought back."""
        return bool(self.flags & (EXTERNAL | VOLATILE))

    @property
    def in_memory(self) -> bool:
        return self.unsaved or not self.filename


@dataclass(frozen=True)
class NetworkManagerNow:
    """`owner`: unique name on the bus, another one after each start."""

    owner: str
    devices: dict[str, Device]
    """By interface name."""
    profiles: dict[str, BusProfile]
    """By UUID."""
    starting: bool = False
    """Devices on which nothing is up may come up at any moment."""

    def profiles_called(self, name: str) -> list[BusProfile]:
        """The profile of that UUID, else those of that name."""
        by_uuid = self.profiles.get(name)
        return [by_uuid] if by_uuid else [one for one in self.profiles.values() if one.id == name]


class Asking(Conversation):
    """A conversation in which calls have arguments. Raises what `Conversation` does."""

    def __enter__(self) -> Asking:
        return self

    def ask(self, path: str, interface: str, method: str, signature: str = "", *body: Any) -> DbusReply:
        """One call of NetworkManager, or of the bus when `interface` is the bus's. The service is not started by it.
        ConnectionError when NetworkManager does not run, or ends before it has answered: that is no refusal."""
        jeepney = self._jeepney
        self._serial += 1
        service = bus.BUS if interface == bus.BUS else SERVICE
        address = jeepney.DBusAddress(path, service, interface)
        message = jeepney.new_method_call(address, method, signature or None, body)
        message.header.flags = jeepney.MessageFlag.no_auto_start
        self._hasten()
        self._socket.sendall(message.serialise(self._serial))
        while True:
            serial, answer = self._next_answer()
            if serial == self._serial and answer.error in NOT_RUNNING:
                raise ConnectionError("NetworkManager does not run")
            if serial == self._serial:
                return answer

    def demand(self, path: str, interface: str, method: str, signature: str = "", *body: Any) -> tuple[Any, ...]:
        """The body of the answer; what `ask` raises, and ValueError for a refusal."""
        answer = self.ask(path, interface, method, signature, *body)
        if answer.error is not None:
            raise ValueError(answer.complaint())
        return answer.body


def read_networkmanager_now(asking: Asking) -> NetworkManagerNow:
    """Devices and profiles. ConnectionError: NetworkManager does not run; else what `Asking` raises."""
    owner = asking.ask("/org/freedesktop/DBus", bus.BUS, "GetNameOwner", "s", SERVICE)
    if owner.error is not None or not owner.body:
        raise ConnectionError("NetworkManager does not run")
    (tree,) = asking.demand("/org/freedesktop", f"{bus.BUS}.ObjectManager", "GetManagedObjects")
    objects = plain_objects(tree)
    if ROOT not in objects:
        raise ConnectionError("NetworkManager is only starting")
    paths = profile_paths(objects)
    answers: list[DbusReply] = []
    for first in range(0, len(paths), AT_ONCE):
        answers += asking.call(SERVICE, ((path, PROFILE, "GetSettings") for path in paths[first : first + AT_ONCE]))
    return parse_now(str(owner.body[0]), objects, dict(zip(paths, answers)))


def parse_now(owner: str, objects: Objects, answers: dict[str, DbusReply]) -> NetworkManagerNow:
    """From all objects and, by path, the answers to GetSettings. A profile without readable settings is left out."""
    profiles = {}
    for path, answer in answers.items():
        settings = answer.body[0] if answer.body and isinstance(answer.body[0], dict) else {}
        profile = parse_profile_now(path, objects.get(path, {}).get(PROFILE, {}), settings)
        if profile.uuid:
            profiles[profile.uuid] = profile
    devices = {}
    for path, interfaces in objects.items():
        if isinstance(interfaces.get(f"{SERVICE}.Device"), dict):
            device = parse_device_now(path, interfaces, objects)
            if device.interface:
                devices[device.interface] = device
    starting = objects.get(ROOT, {}).get(SERVICE, {}).get("Startup") is True
    return NetworkManagerNow(owner, devices, profiles, starting)


def parse_profile_now(path: str, facts: Part, settings: Typed) -> BusProfile:
    about = plain(settings.get("connection", {}))
    about = about if isinstance(about, dict) else {}
    return BusProfile(
        path=path,
        uuid=text(about, "uuid") or "",
        id=text(about, "id") or "",
        interface_name=text(about, "interface-name") or "",
        filename=text(facts, "Filename") or "",
        flags=number(facts, "Flags"),
        unsaved=facts.get("Unsaved") is True,
        settings=settings,
    )


def parse_device_now(path: str, interfaces: dict[str, Part], objects: Objects) -> Device:
    facts = interfaces[f"{SERVICE}.Device"]
    name = text(facts, "Interface") or ""
    activation = text(facts, "ActiveConnection") or "/"
    active = objects.get(activation, {}).get(f"{SERVICE}.Connection.Active", {})
    addresses = {text(part, key) for part in interfaces.values() for key in ("HwAddress", "PermHwAddress")}
    below = [text(part, "Parent") for part in interfaces.values()]
    below += [text(active, "Controller") or text(active, "Master")]
    return Device(
        interface=name,
        path=path,
        state=number(facts, "State"),
        managed=facts.get("Managed") is True,
        autoconnect=facts.get("Autoconnect") is True,
        active=text(active, "Uuid") or "",
        active_path=activation,
        specs=(*sorted(address.upper() for address in addresses if address), f"interface-name:={name}"),
        available=texts(facts, "AvailableConnections"),
        stands_on=tuple(other for other in below if other and other != "/"),
    )


def same_settings(one: Typed, other: Typed) -> bool:
    """Whether two profiles say the same. When they were last up is no part of that."""
    return without_timestamp(one) == without_timestamp(other)


def without_timestamp(settings: Typed) -> dict[str, Any]:
    whole = plain(settings)
    about = {key: value for key, value in whole.get("connection", {}).items() if key != "timestamp"}
    return {**whole, "connection": about}
