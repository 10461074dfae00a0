"""NetworkManager's own configuration files → `NetworkManagerConfiguration`.

Reads /usr/lib/NetworkManager/conf.d, /run/NetworkManager/conf.d, /etc/NetworkManager/NetworkManager.conf and its
conf.d, in this order, and /var/lib/NetworkManager/no-auto-default.state: whose generated profile was deleted.
NetworkManager.conf(5). What was set over D-Bus or with ``nmcli device set`` is not in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from nictop.probe.inventory.configuration.files import Files
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import NetworkManagerConfiguration

SECTION = pattern(r"\[(.+)\]\s*\Z")
NO = ("no", "false", "off", "0")
OPTIONS = {("main", "no-auto-default"): "no_auto_default", ("keyfile", "unmanaged-devices"): "unmanaged_devices"}
"""(Section, key) → field: lists of device specs."""


class Setting(NamedTuple):
    """One line ``key=value``; `operator` is "", "+" (append) or "-" (remove)."""

    section: str
    key: str
    operator: str
    value: str


def read_networkmanager_configuration(
    *, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
) -> NetworkManagerConfiguration:
    """The files together; those that cannot be read are named in `unreadable` under their path."""
    files = Files()
    own = os.path.join(etc, "NetworkManager")
    shipped = [os.path.join(root, "NetworkManager/conf.d") for root in (os.path.join(usr, "lib"), run)]
    extra = files.listed(os.path.join(own, "conf.d"), ".conf")
    hidden = {os.path.basename(path) for path in extra}
    paths: list[str] = []
    for place in reversed(shipped):  # a file in /run hides that of the same name in /usr
        found = [path for path in files.listed(place, ".conf") if os.path.basename(path) not in hidden]
        hidden.update(map(os.path.basename, found))
        paths[:0] = found
    paths += [os.path.join(own, "NetworkManager.conf"), *extra]
    texts = [(path, text) for path, text in ((path, files.text(path)) for path in paths) if text is not None]
    state = files.text(os.path.join(var, "lib/NetworkManager/no-auto-default.state"))
    return parse_networkmanager_configuration(texts, state or "", files)


def parse_networkmanager_configuration(
    texts: Iterable[tuple[str, str]], state: str, files: Files | None = None
) -> NetworkManagerConfiguration:
    """`texts`: (path, contents) in the order of reading; of a list the last setting counts, and ``+=`` adds to it.
    `state`: no-auto-default.state. `files`: who knows what could not be read."""
    lists: dict[str, list[str]] = {field: [] for field in OPTIONS.values()}
    sections: dict[str, tuple[dict[str, str], str]] = {}
    origins = {}
    for path, text in texts:
        settings = parse_settings(text)
        if switched_off(settings):
            continue
        for setting in settings:
            field = OPTIONS.get((setting.section, setting.key))
            if field is not None:
                lists[field] = changed(lists[field], setting)
                origins[field] = path
            elif setting.section.split("-")[0] == "device":
                values, _ = sections.get(setting.section, ({}, ""))
                sections[setting.section] = ({**values, setting.key: setting.value}, path)
    unmanaged = []
    for values, path in sections.values():
        if values.get("managed", "").lower() in NO:
            unmanaged += specs(values.get("match-device", "*"))
            origins["device_unmanaged"] = path
    return NetworkManagerConfiguration(
        no_auto_default=tuple(lists["no_auto_default"]),
        no_auto_default_state=tuple(map(device_of_state, filter(None, map(str.strip, state.splitlines())))),
        unmanaged_devices=tuple(lists["unmanaged_devices"]),
        device_unmanaged=tuple(unmanaged),
        origins=origins,
        unreadable={} if files is None else files.unreadable,
    )


def parse_settings(text: str) -> list[Setting]:
    """Lines of a GLib key file; comments, blank lines and what stands before the first section are left out."""
    found = []
    section = ""
    for line in map(str.strip, text.splitlines()):
        heading = SECTION.match(line)
        if heading:
            section = heading[1]
        elif section and "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            key = key.rstrip()
            operator = key[-1:] if key[-1:] in ("+", "-") else ""
            found.append(Setting(section, key[: len(key) - len(operator)].rstrip(), operator, value.strip()))
    return found


def switched_off(settings: Iterable[Setting]) -> bool:
    """``[.config] enable=false``; conditions on versions and environment are taken as true."""
    return any(
        setting.section == ".config" and setting.key == "enable" and setting.value.lower() in NO for setting in settings
    )


def device_of_state(line: str) -> str:
    """A MAC address, in lower case as everywhere here, or ``interface-name:=NAME``."""
    return line if line.startswith("interface-name:") else line.lower()


def changed(before: list[str], setting: Setting) -> list[str]:
    values = specs(setting.value)
    if setting.operator == "+":
        return before + [value for value in values if value not in before]
    if setting.operator == "-":
        return [value for value in before if value not in values]
    return values


def specs(value: str) -> list[str]:
    """Device specs, separated by commas or semicolons; a backslash keeps the next character from separating."""
    found = [""]
    characters = iter(value)
    for character in characters:
        if character == "\\":
            found[-1] += next(characters, "")
        elif character in ",;":
            found.append("")
        else:
            found[-1] += character
    return [spec.strip() for spec in found if spec.strip()]
