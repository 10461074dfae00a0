"""Which settings of ethtool are stored for a link, and where: what somebody has set on purpose.

Reads nothing; NetworkManager profiles and configuration files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.managers.configuration import file_and_line
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Evidence
from nictop.rules.fixes.current_settings import OFFLOAD_FEATURES, current_settings
from nictop.rules.fixes.persistent_names import PROFILE_NAMES, PROFILE_OPTIONS
from nictop.rules.host import HostFacts

SWITCHES = {"on": "1", "off": "0"}


class Stored(NamedTuple):
    """One stored setting; 1 is on, 0 is off."""

    value: int
    where: str


def stored_settings(host: HostFacts, link: Link, profile: str | None) -> dict[str, Stored]:
    """Name in a NetworkManager profile (``feature-tso``) → what is stored for the link in files or,
    else, in the profile with the UUID `profile`."""
    found = stored_in_files(host, link)
    manager = host.inventory.networkmanager
    if manager is None or profile is None:
        return found
    for candidate in manager.profiles:
        if candidate.uuid == profile:
            for name, value in candidate.ethtool.items():
                found.setdefault(name, Stored(value, f'profile "{candidate.id}"'))
    return found


def stored_in_files(host: HostFacts, link: Link, *, for_any: bool = True) -> dict[str, Stored]:
    """Of several files, the first: which one is read or run last is not known. `for_any`: also
    scripts and rules whose interface is a variable."""
    found: dict[str, Stored] = {}
    for entry in host.configuration.entries(link):
        if not for_any and _is_for_any(entry):
            continue
        for name, value in entry.ethtool.items():
            found.setdefault(name, Stored(value, file_and_line(entry)))
    return found


def _is_for_any(entry: ConfigurationEntry) -> bool:
    return entry.names == ("*",) and not (entry.addresses or entry.drivers or entry.paths)


def _stored_name(option: str, parameter: str) -> str:
    """``feature-tso``: of a parameter of ``ethtool OPTION``."""
    prefix, _ = PROFILE_OPTIONS.get(option, ("", (0, 0)))
    return f"{prefix}-{PROFILE_NAMES.get(parameter, parameter)}"


def is_stored_off(stored: Mapping[str, Stored], offload: str) -> bool:
    """`offload`: short name, ``tso``; its kernel features count as well."""
    for name in (offload, *OFFLOAD_FEATURES.get(offload, ())):
        setting = stored.get(f"feature-{name}")
        if setting is not None and setting.value == 0:
            return True
    return False


def stored_on_purpose(
    host: HostFacts, link: Link, profile: str | None, option: str, parameter: str
) -> tuple[Evidence, ...]:
    """Where the present value of a parameter of ``ethtool OPTION`` is stored; (): it is not.
    `profile`: UUID."""
    now = current_settings(link, option).get(parameter)
    setting = stored_settings(host, link, profile).get(_stored_name(option, parameter))
    if now is None or setting is None or _differs(setting, now):
        return ()
    return (Evidence(f"stored for {parameter}", now, setting.where),)


def _differs(setting: Stored, value: str) -> bool:
    """`value`: as ethtool(8) prints it."""
    return str(setting.value) != SWITCHES.get(value, value)


def other_places(host: HostFacts, link: Link, option: str, values: Sequence[str]) -> list[str]:
    """Files that store another value for a parameter of ``ethtool OPTION``."""
    stored = stored_in_files(host, link, for_any=False)
    places = []
    for name, value in zip(values[::2], values[1::2], strict=False):
        setting = stored.get(_stored_name(option, name))
        if setting is not None and _differs(setting, value):
            places.append(setting.where)
    return list(dict.fromkeys(places))
