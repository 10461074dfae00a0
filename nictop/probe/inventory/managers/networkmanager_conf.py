"""Configuration files of NetworkManager → `NetworkManagerConfiguration`.

Reads /usr/lib/NetworkManager/conf.d, /run/NetworkManager/conf.d,
/etc/NetworkManager/NetworkManager.conf and its conf.d, in this order, and
/var/lib/NetworkManager/no-auto-default.state: devices whose generated profile was deleted.
NetworkManager.conf(5). Settings over D-Bus or by ``nmcli device set`` are not in these files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nictop.probe.inventory.configuration.files import Files
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import NetworkManagerConfiguration

SECTION_HEADING = pattern(r"\[(.+)\]\s*\Z")
NO_VALUES = ("no", "false", "off", "0")
DEVICE_LISTS = {
    ("main", "no-auto-default"): "no_auto_default",
    ("keyfile", "unmanaged-devices"): "unmanaged_devices",
}
"""(Section, key) → record field: lists of device specifications."""


class Setting(NamedTuple):
    """One line ``key=value``; `operator` is "", "+" (append) or "-" (remove)."""

    section: str
    key: str
    operator: str
    value: str


def read_networkmanager_configuration(
    *, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
) -> NetworkManagerConfiguration:
    """All files together; those that cannot be read are in `unreadable`, by path."""
    files = Files()
    own = os.path.join(etc, "NetworkManager")
    shipped = [
        os.path.join(root, "NetworkManager/conf.d") for root in (os.path.join(usr, "lib"), run)
    ]
    extra = files.listed(os.path.join(own, "conf.d"), ".conf")
    hidden = {os.path.basename(path) for path in extra}
    paths: list[str] = []
    for directory in reversed(shipped):  # a file in /run replaces that of the same name in /usr
        found = [
            path
            for path in files.listed(directory, ".conf")
            if os.path.basename(path) not in hidden
        ]
        hidden.update(map(os.path.basename, found))
        paths[:0] = found
    paths += [os.path.join(own, "NetworkManager.conf"), *extra]
    texts = [
        (path, text)
        for path, text in ((path, files.text(path)) for path in paths)
        if text is not None
    ]
    state = files.text(os.path.join(var, "lib/NetworkManager/no-auto-default.state"))
    return parse_networkmanager_configuration(texts, state or "", files)


def parse_networkmanager_configuration(
    texts: Iterable[tuple[str, str]], state: str, files: Files | None = None
) -> NetworkManagerConfiguration:
    """`texts`: (path, contents) in the order of reading; the last setting of a list counts; ``+=``
    and ``-=`` modify. `state`: no-auto-default.state. `files`: has the unreadable files."""
    lists: dict[str, list[str]] = {field: [] for field in DEVICE_LISTS.values()}
    sections: dict[str, tuple[dict[str, str], str]] = {}
    origins = {}
    dhcp = ""
    for path, text in texts:
        settings = parse_settings(text)
        if is_disabled(settings):
            continue
        for setting in settings:
            field = DEVICE_LISTS.get((setting.section, setting.key))
            if field is not None:
                lists[field] = changed_list(lists[field], setting)
                origins[field] = path
            elif (setting.section, setting.key) == ("main", "dhcp"):
                dhcp, origins["dhcp"] = setting.value, path
            elif setting.section.split("-")[0] == "device":
                values, _ = sections.get(setting.section, ({}, ""))
                sections[setting.section] = ({**values, setting.key: setting.value}, path)
    unmanaged = []
    for values, path in sections.values():
        if values.get("managed", "").lower() in NO_VALUES:
            unmanaged += specs(values.get("match-device", "*"))
            origins["device_unmanaged"] = path
    return NetworkManagerConfiguration(
        no_auto_default=tuple(lists["no_auto_default"]),
        no_auto_default_state=tuple(
            map(state_device, filter(None, map(str.strip, state.splitlines())))
        ),
        unmanaged_devices=tuple(lists["unmanaged_devices"]),
        device_unmanaged=tuple(unmanaged),
        origins=origins,
        dhcp=dhcp,
        unreadable={} if files is None else files.unreadable,
    )


def parse_settings(text: str) -> list[Setting]:
    """Lines of a GLib key file, without comments, empty lines and lines before the first
    section."""
    found = []
    section = ""
    for line in map(str.strip, text.splitlines()):
        heading = SECTION_HEADING.match(line)
        if heading:
            section = heading[1]
        elif section and "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            key = key.rstrip()
            operator = key[-1:] if key[-1:] in ("+", "-") else ""
            found.append(
                Setting(section, key[: len(key) - len(operator)].rstrip(), operator, value.strip())
            )
    return found


def is_disabled(settings: Iterable[Setting]) -> bool:
    """``[.config] enable=false``; conditions on version and environment are assumed to be true."""
    return any(
        setting.section == ".config"
        and setting.key == "enable"
        and setting.value.lower() in NO_VALUES
        for setting in settings
    )


def state_device(line: str) -> str:
    """A MAC address, in lower case as in all records, or ``interface-name:=NAME``."""
    if line.startswith("interface-name:"):
        return line
    return line.lower()


def changed_list(before: list[str], setting: Setting) -> list[str]:
    values = specs(setting.value)
    if setting.operator == "+":
        return before + [value for value in values if value not in before]
    if setting.operator == "-":
        return [value for value in before if value not in values]
    return values


def specs(value: str) -> list[str]:
    """Device specifications, separated by commas or semicolons; a backslash escapes the next
    character."""
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
