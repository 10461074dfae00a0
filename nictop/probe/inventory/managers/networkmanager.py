"""NetworkManager: its devices and profiles, asked for over the system bus.

One call gets all objects (org.freedesktop.DBus.ObjectManager.GetManagedObjects on /org/freedesktop), then GetSettings
of every profile, many at a time; secrets are never asked for, and NetworkManager is not started by being asked. Yields
`NetworkManager`. It is waited for as long as it is at work (`bus_calls`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nictop.probe.inventory.managers.networkmanager_conf import read_networkmanager_configuration
from nictop.probe.inventory.managers.networkmanager_profile import Part, Settings, number, parse_profile, text, texts
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel.dbus_calls import Conversation, DbusReply, plain
from nictop.probe.kernel.sysfs import why_unreadable
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile, Unreadable

LIMIT = 2.0
"""Seconds without an answer and without any work of NetworkManager: one that hangs must not hold up the rest."""
LONGEST = 20.0
"""Seconds for the whole conversation, however much NetworkManager works."""
AT_ONCE = 64
"""Calls on their way: a system bus refuses more than 128 that have no answer yet."""
MOST_PROFILES = 2000

SERVICE = "org.freedesktop.NetworkManager"
ROOT = "/org/freedesktop/NetworkManager"
PROFILE = f"{SERVICE}.Settings.Connection"
NOT_RUNNING = {f"{bus.BUS}.Error.{name}" for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected")}
"""NoReply comes from the bus when the service ends before it has answered; our own limit is another matter."""
NO_SUCH_OBJECT = {f"{bus.BUS}.Error.{name}" for name in ("UnknownMethod", "UnknownObject", "UnknownInterface")}

Objects = dict[str, dict[str, Part]]
"""Object path → interface → property → value without its D-Bus type."""


def read_networkmanager(
    links: tuple[Link, ...], *, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
) -> tuple[NetworkManager | None, Unreadable | None]:
    """(What NetworkManager says, why it could not be asked). Both None: there is no bus, or it does not run.

    `links`: those of the same inventory. Never raises for what the bus or NetworkManager does.
    """
    where = bus.bus_address(run)
    if not where:
        return None, Unreadable("failed", "DBUS_SYSTEM_BUS_ADDRESS names no Unix socket")
    try:
        conversation = Conversation(where, LIMIT, longest=LONGEST)
    except FileNotFoundError:
        return None, None
    except ImportError:
        return None, Unreadable("missing", "jeepney, the library that speaks D-Bus, is not there")
    except (OSError, ValueError, EOFError) as error:
        return None, why_silent(error, f"the system bus at {where.lstrip(chr(0))}")
    with conversation:
        try:
            found, trouble = ask(conversation, links)
        except (OSError, ValueError, EOFError) as error:
            return None, why_silent(error, "NetworkManager")
    if found is None:
        return None, trouble
    return replace(found, configuration=read_networkmanager_configuration(etc=etc, run=run, usr=usr, var=var)), None


def why_silent(error: Exception, who: str) -> Unreadable:
    """The reason behind a conversation that broke off."""
    if isinstance(error, TimeoutError) and not error.errno:
        return Unreadable("failed", f"{who} did not answer: {str(error) or f'nothing came for {LIMIT:g} s'}")
    if isinstance(error, OSError) and error.errno:
        return why_unreadable(error, who)
    return Unreadable("failed", f"{who}: {error or type(error).__name__}")


def ask(conversation: Conversation, links: tuple[Link, ...]) -> tuple[NetworkManager | None, Unreadable | None]:
    """Objects, then settings. What is late among the settings is noted in `NetworkManager.unreadable`."""
    conversation.wait_for(SERVICE)
    (managed,) = conversation.call(SERVICE, [("/org/freedesktop", f"{bus.BUS}.ObjectManager", "GetManagedObjects")])
    if managed.error in NOT_RUNNING:
        return None, None
    if managed.error is not None:
        refused = "AccessDenied" in managed.error
        return None, Unreadable("needs_root" if refused else "failed", managed.complaint())
    objects = plain_objects(managed.body[0] if managed.body else None)
    if ROOT not in objects:
        return None, Unreadable("malformed", f"GetManagedObjects: no {ROOT}")
    paths = profile_paths(objects)
    unreadable = {}
    answers: dict[str, DbusReply] = {}
    try:
        for first in range(0, min(len(paths), MOST_PROFILES), AT_ONCE):
            part = paths[first : min(first + AT_ONCE, MOST_PROFILES)]
            for number, answer in conversation.each(SERVICE, ((path, PROFILE, "GetSettings") for path in part)):
                answers[part[number]] = answer
    except (OSError, ValueError, EOFError) as error:
        unreadable["profiles"] = why_silent(error, f"after {len(answers)} of {len(paths)} profiles NetworkManager")
    if len(paths) > MOST_PROFILES:
        unreadable["profiles"] = Unreadable("failed", f"{len(paths)} profiles: only {MOST_PROFILES} were read")
    settings = {path: answers[path] for path in paths if path in answers}
    return replace(parse_objects(objects, settings, links), unreadable=unreadable), None


def plain_objects(tree: object) -> Objects:
    """The answer of GetManagedObjects, without types; what has another shape is left out."""
    if not isinstance(tree, dict):
        return {}
    return {
        path: {name: plain(values) for name, values in interfaces.items() if isinstance(values, dict)}
        for path, interfaces in tree.items()
        if isinstance(interfaces, dict)
    }


def profile_paths(objects: Objects) -> list[str]:
    """Paths of the profiles, in the order of their numbers."""
    paths = [path for path, interfaces in objects.items() if PROFILE in interfaces]
    return sorted(paths, key=lambda path: (len(path), path))


def parse_objects(objects: Objects, settings: dict[str, DbusReply], links: Iterable[Link]) -> NetworkManager:
    """The record, from all objects and, by path, the answers to GetSettings."""
    about = objects.get(ROOT, {}).get(SERVICE, {})
    parsed = {path: profile_of(path, objects.get(path, {}).get(PROFILE, {}), settings[path]) for path in settings}
    profiles = {path: profile for path, profile in parsed.items() if profile is not None}
    uuids = {path: profile.uuid for path, profile in profiles.items()}
    numbers = {link.name: link.ifindex for link in links}
    devices: dict[int, ManagedDevice] = {}
    for interfaces in objects.values():
        facts = interfaces.get(f"{SERVICE}.Device", {})
        names = (text(facts, "Interface"), os.path.basename(text(facts, "Udi") or ""))
        ifindex = next((numbers[name] for name in names if name in numbers), None)
        if ifindex is not None:
            devices[ifindex] = parse_device(interfaces, objects, uuids)
    return NetworkManager(
        version=text(about, "Version") or "",
        startup=about.get("Startup") is True,
        networking_enabled=about.get("NetworkingEnabled") is not False,
        devices=dict(sorted(devices.items())),
        profiles=tuple(profiles.values()),
    )


def profile_of(path: str, facts: Part, answer: DbusReply) -> Profile | None:
    """One profile; None: it has gone meanwhile. `facts`: the properties of its object."""
    if answer.error in NO_SUCH_OBJECT:
        return None
    settings: Settings = {}
    unreadable = {}
    if answer.error is not None:  # a profile that belongs to other users
        refused = "PermissionDenied" in answer.error or "AccessDenied" in answer.error
        unreadable["settings"] = Unreadable("needs_root" if refused else "failed", answer.complaint())
    elif answer.body and isinstance(answer.body[0], dict):
        settings = {name: plain(part) for name, part in answer.body[0].items() if isinstance(part, dict)}
    return parse_profile(path, facts, settings, unreadable)


def parse_device(interfaces: dict[str, Part], objects: Objects, uuids: dict[str, str]) -> ManagedDevice:
    """One device. `interfaces`: of its object. `uuids`: path of a profile → UUID."""
    facts = interfaces[f"{SERVICE}.Device"]
    active = objects.get(text(facts, "ActiveConnection") or "/", {}).get(f"{SERVICE}.Connection.Active")
    reason: Any = facts.get("StateReason")
    permanent = next(filter(None, (text(part, "PermHwAddress") for part in interfaces.values())), None)
    return ManagedDevice(
        interface=text(facts, "Interface") or "",
        type=number(facts, "DeviceType"),
        state=number(facts, "State"),
        reason=reason[1] if isinstance(reason, tuple) and reason[1:] and isinstance(reason[1], int) else 0,
        managed=facts.get("Managed") is True,
        autoconnect=facts.get("Autoconnect") is True,
        active_profile=None if active is None else text(active, "Uuid"),
        active_state=None if active is None else number(active, "State"),
        available_profiles=tuple(uuids[path] for path in texts(facts, "AvailableConnections") if uuids.get(path)),
        permanent_address=None if permanent is None else permanent.lower(),
    )
