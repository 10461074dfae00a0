"""Describe what NetworkManager operations would change: values before and after, affected links,
interruptions.

Reads devices and profiles over the system bus, and the properties as ``nmcli -g`` prints them, so
that they compare with what was typed. Changes nothing.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence

from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.networkmanager.affected import affected_profiles
from nictop.probe.plan.networkmanager.kernel_settings import refuse_lasting_settings
from nictop.probe.plan.networkmanager.state import (
    BUS_ERRORS,
    Device,
    NmClient,
    NmState,
    read_nm_state,
)
from nictop.probe.plan.programs import find_program, program_environment

DESCRIBE_TIMEOUT = 15.0
"""Seconds for the bus, and for each nmcli."""


@dataclass(frozen=True)
class Description:
    """One NetworkManager operation; see `records.PlannedAction`."""

    before: str
    after: str
    subject: str
    links: tuple[str, ...]
    """Interfaces that may be configured again, now or by the undo."""
    disturbs: tuple[str, ...]
    persistent: bool


def describe(operations: Sequence[Operation]) -> list[Description]:
    """One description for each operation. Raises ValueError with a sentence: a profile is ambiguous
    or unknown, a setting could not be undone, or NetworkManager does not answer."""
    try:
        with NmClient(bus.bus_address(), DESCRIBE_TIMEOUT) as client:
            now = read_nm_state(client)
    except ImportError:
        raise ValueError("the Python library jeepney (D-Bus) is missing") from None
    except FileNotFoundError:
        raise ValueError("NetworkManager is not running: no system bus") from None
    except TimeoutError:
        raise ValueError("NetworkManager did not answer in time") from None
    except BUS_ERRORS as error:
        raise ValueError(str(error) or type(error).__name__) from None
    described = []
    for index, operation in enumerate(operations):
        affected, problem = affected_profiles(operations[: index + 1], now)
        if affected is None:
            raise ValueError(problem)
        refuse_lasting_settings(operation, operations[:index], now)
        described.append(describe_operation(operation, operations[:index], now))
    return described


def describe_operation(
    operation: Operation, earlier: Sequence[Operation], now: NmState
) -> Description:
    """`earlier`: the operations before it, which may add or rename its profile."""
    settings = " ".join(f"{key} {shlex.quote(value)}" for key, value in operation.settings)
    profile = operation.profile
    links = affected_interfaces(operation, [*earlier], now)
    disturbs = (
        *(f"reconfigures {name}: short traffic interruption" for name in links),
        *rollback_limits(links, now),
    )
    if operation.kind == "profile add":
        after = f"profile for {operation.interface}"
        if settings:
            after += f" {settings}"
        return Description(name_conflicts(profile, now), after, profile, links, (), True)
    if operation.kind == "device reapply":
        return Description(
            "current settings of the interface",
            "settings of its profile",
            operation.interface,
            links,
            disturbs,
            False,
        )
    if operation.kind == "profile up":
        before = active_profiles_text(links, now) or "not active"
        return Description(before, f"active: {profile}", profile, links, disturbs, False)
    found = now.profiles_named(profile)
    is_added_before = any(one.profile == profile and one.kind == "profile add" for one in earlier)
    if is_added_before or not found:
        return Description("settings of the new profile", settings, profile, links, (), True)
    before = read_properties(found[0].uuid, [key.lstrip("+-") for key, _ in operation.settings])
    return Description(before, settings, found[0].id, links, (), True)


def active_profiles_text(links: Sequence[str], now: NmState) -> str:
    """``ens3: static, ens4: none`` of the devices with these names."""
    return ", ".join(
        f"{device.interface}: {active_profile_name(device, now)}"
        for device in now.devices.values()
        if device.interface in links
    )


def rollback_limits(links: Sequence[str], now: NmState) -> Iterator[str]:
    """Sentences about what a rollback cannot bring back: a profile that ends with its
    activation."""
    for name in links:
        device = now.devices.get(name)
        profile = None if device is None else now.profiles.get(device.active)
        if device is None or profile is None or not profile.is_temporary:
            continue
        if not device.external:
            yield (
                f"{name}: its profile {profile.id} is temporary: a rollback restores the "
                "addresses, which NetworkManager then only describes"
            )
        elif profile.is_empty:
            yield (
                f"{name}: NetworkManager only describes it, without an address: after a "
                "rollback it has none, and is disconnected"
            )
        else:
            yield (
                f"{name}: NetworkManager only describes it: a rollback restores the addresses "
                "that others have set, and then it is described again"
            )


def name_conflicts(name: str, now: NmState) -> str:
    """Text about profiles that already have this name, or this UUID."""
    found = sorted(one.uuid for one in now.profiles_named(name))
    return f"existing profile of this name: {', '.join(found)}" if found else "no such profile"


def affected_interfaces(
    operation: Operation, earlier: list[Operation], now: NmState
) -> tuple[str, ...]:
    """Interfaces that one operation affects, with those above them."""
    related = [one for one in earlier if one.kind in ("profile add", "profile modify")]
    alone, _ = affected_profiles([operation], now)
    if alone is None:  # it names what an earlier one makes
        alone, _ = affected_profiles([*related, operation], now)
    return alone.interfaces if alone is not None else ()


def active_profile_name(device: Device, now: NmState) -> str:
    profile = now.profiles.get(device.active)
    if profile is None:
        return "no active profile"
    return f"{profile.id} (external)" if device.external else profile.id


def read_properties(uuid: str, names: Sequence[str]) -> str:
    """Properties of a profile with their values, quoted as in a shell, in one line. Raises
    ValueError."""
    nmcli = find_program("nmcli")
    values = []
    for name in dict.fromkeys(names):
        try:
            done = subprocess.run(
                [nmcli, "-e", "no", "-g", name, "con", "show", "uuid", uuid],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=program_environment(),
                timeout=DESCRIBE_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(
                f"nmcli cannot read {name}: no answer within {DESCRIBE_TIMEOUT:g} s"
            ) from None
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"nmcli cannot read {name}: {error}") from None
        if done.returncode:
            raise ValueError(f"NetworkManager has no property {name}")
        values.append(
            f"{name} {shlex.quote(' '.join(done.stdout.decode('utf-8', 'replace').split()))}"
        )
    return " ".join(values)
