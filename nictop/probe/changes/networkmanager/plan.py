"""What NetworkManager's part of a change would do, for the person who is asked: what is, what will be, what it touches.

Reads devices and profiles over the system bus, and the properties in question as ``nmcli -g`` prints them, so that they
can be compared with what was typed. Changes nothing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.probe.changes.apply import environment, find_program
from nictop.probe.changes.grammar.actions import Operation
from nictop.probe.changes.networkmanager.affected import concern
from nictop.probe.changes.networkmanager.kernel_settings import refuse_what_would_stay
from nictop.probe.changes.networkmanager.state import TROUBLE, Asking, NetworkManagerNow, read_networkmanager_now
from nictop.probe.kernel import dbus_wire as bus

LIMIT = 5.0
"""Seconds for the bus, and for each nmcli."""


@dataclass(frozen=True)
class Described:
    """One operation of NetworkManager's; see `records.PlannedAction`."""

    before: str
    after: str
    subject: str
    links: tuple[str, ...]
    """Interfaces it may set up anew, now or when it is taken back."""
    disturbs: tuple[str, ...]
    persistent: bool


def describe(operations: Sequence[Operation]) -> list[Described]:
    """One for each operation. Raises ValueError with a sentence: nobody would know what is meant, something could not
    be taken back, or NetworkManager does not answer."""
    try:
        with Asking(bus.bus_address(), LIMIT) as asking:
            now = read_networkmanager_now(asking)
    except ImportError:
        raise ValueError("jeepney, the library that speaks D-Bus, is not there") from None
    except FileNotFoundError:
        raise ValueError("NetworkManager does not run: there is no system bus") from None
    except TimeoutError:
        raise ValueError("NetworkManager did not answer in time") from None
    except TROUBLE as error:
        raise ValueError(str(error) or type(error).__name__) from None
    described = []
    for place, operation in enumerate(operations):
        all_so_far, complaint = concern(operations[: place + 1], now)
        if all_so_far is None:
            raise ValueError(complaint)
        refuse_what_would_stay(operation, operations[:place], now)
        described.append(describe_one(operation, operations[:place], now))
    return described


def describe_one(operation: Operation, earlier: Sequence[Operation], now: NetworkManagerNow) -> Described:
    """`earlier`: what is done before it, which may add the profile or give it its name."""
    settings = " ".join(f"{key} {value}" for key, value in operation.settings)
    made = [one for one in earlier if one.profile == operation.profile and one.kind == "profile add"]
    links = links_of(operation, [*earlier], now)
    anew = tuple(f"sets {name} up anew: no traffic for a moment" for name in links)
    if operation.kind == "profile add":
        after = f"a profile for {operation.interface}" + (f" {settings}" if settings else "")
        return Described(namesakes(operation.profile, now), after, operation.profile, links, (), True)
    if operation.kind == "device reapply":
        return Described("as it was set up", "as its profile says now", operation.interface, links, anew, False)
    found = now.profiles_called(operation.profile)
    if operation.kind == "profile up":
        up = [f"{one.interface}: {name_of(one.active, now)}" for one in now.devices.values() if one.interface in links]
        return Described(", ".join(up) or "not up", f"up: {operation.profile}", operation.profile, links, anew, False)
    if made or not found:
        return Described("as it was added", settings, operation.profile, links, (), True)
    before = read_properties(found[0].uuid, [key.lstrip("+-") for key, _ in operation.settings])
    return Described(before, settings, found[0].id, links, (), True)


def namesakes(name: str, now: NetworkManagerNow) -> str:
    """Profiles that are called so already, or would be taken for one that is."""
    found = sorted(one.uuid for one in now.profiles_called(name))
    return f"a profile of this name: {', '.join(found)}" if found else "no such profile"


def links_of(operation: Operation, earlier: list[Operation], now: NetworkManagerNow) -> tuple[str, ...]:
    """Interfaces that one operation is about, those on top of them included."""
    related = [one for one in earlier if one.kind in ("profile add", "profile modify")]
    alone, _ = concern([operation], now)
    if alone is None:  # it names what an earlier one makes
        alone, _ = concern([*related, operation], now)
    return alone.interfaces if alone is not None else ()


def name_of(uuid: str, now: NetworkManagerNow) -> str:
    return now.profiles[uuid].id if uuid in now.profiles else "nothing up"


def read_properties(uuid: str, names: Sequence[str]) -> str:
    """Properties of a profile and their values, in one line. Raises ValueError."""
    nmcli = find_program("nmcli")
    said = []
    for name in dict.fromkeys(names):
        try:
            done = subprocess.run(
                [nmcli, "-e", "no", "-g", name, "con", "show", "uuid", uuid],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=environment(),
                timeout=LIMIT,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"nmcli does not say what {name} is: {error}") from None
        if done.returncode:
            raise ValueError(f"NetworkManager knows no {name}")
        said.append(f"{name} {' '.join(done.stdout.decode('utf-8', 'replace').split()) or '(none)'}")
    return " ".join(said)
