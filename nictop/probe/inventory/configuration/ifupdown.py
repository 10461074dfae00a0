"""ifupdown's interfaces files and ifcfg files → `ConfigurationEntry`. Pure.

interfaces(5): one entry per ``iface`` stanza, and the files to read next (``source``). ifcfg: shell
assignments, with names of Red Hat and SUSE (nm-settings-ifcfg-rh(5), ifcfg(5)).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from nictop.probe.inventory.configuration.ethtool_settings import (
    parse_ethtool_line,
    parse_stanza_line,
)
from nictop.probe.inventory.configuration.lines import joined_lines
from nictop.probe.inventory.configuration.sriov import parse_numvfs_line
from nictop.probe.inventory.routing.resolvers import is_address
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ConfigurationEntry

STANZA_METHODS = {
    ("inet", "dhcp"): "dhcp4",
    ("inet6", "dhcp"): "dhcp6",
    ("inet6", "auto"): "auto",
}
BOOT_PROTOCOLS = {
    "dhcp": ("dhcp4",),
    "bootp": ("dhcp4",),
    "dhcp4": ("dhcp4",),
    "dhcp6": ("dhcp6",),
    "dhcp+autoip": ("dhcp4",),
    "static": ("static",),
}
STANZAS = (
    "auto",
    "iface",
    "mapping",
    "source",
    "source-directory",
    "no-auto-down",
    "no-scripts",
    "rename",
    "template",
)
MEMBER_OPTIONS = ("bridge-ports", "bond-slaves", "slaves", "vlan-raw-device")
"""Options with names of other links; with underscores as well (bridge-utils-interfaces(5),
ifenslave, vlan)."""
MEMBER_KEYS = ("BRIDGE_PORTS", "ETHERDEVICE", "PHYSDEV")
"""Of ifcfg files; the ports of a bond are in BONDING_SLAVE_0, BONDING_SLAVE0, …"""
NO_MEMBERS = ("none", "all", "regex", "noregex")
ASSIGNMENT = pattern(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
FALSE_VALUES = ("no", "false", "off", "0")


class SourceDirective(NamedTuple):
    """``source`` and ``source-directory``: an absolute path with shell wildcards; `directory`: all
    files in it."""

    pattern: str
    directory: bool


def parse_interfaces(
    text: str, file: str
) -> tuple[list[ConfigurationEntry], list[SourceDirective]]:
    """(Stanzas in their order, files to read next)."""
    entries: list[ConfigurationEntry] = []
    others: list[ConfigurationEntry] = []
    sources = []
    inside = False
    for line, content in joined_lines(text):
        words = content.split()
        if words[0] == "iface" and len(words) >= 2:
            entries.append(stanza_of(words, file, line))
            inside = True
        elif words[0] in STANZAS or words[0].startswith("allow-"):
            inside = False
            if words[0] in ("source", "source-directory") and len(words) > 1:
                pattern = os.path.join(os.path.dirname(file), words[1])
                sources.append(SourceDirective(pattern, words[0] == "source-directory"))
        elif inside:
            entries[-1] = with_option(entries[-1], content)
            for name, settings in parse_stanza_line(content).items():
                if name in ("", *entries[-1].names):
                    entries[-1] = replace(entries[-1], ethtool={**entries[-1].ethtool, **settings})
                else:
                    others.append(
                        ConfigurationEntry("other", file, line, names=(name,), ethtool=settings)
                    )
    return [*entries, *others], sources


def stanza_of(words: list[str], file: str, line: int) -> ConfigurationEntry:
    """``iface NAME FAMILY METHOD``, of which the last two may be missing."""
    family, method = (*words[2:], "", "")[:2]
    method = STANZA_METHODS.get((family, method), method)
    methods = (method,) if method else ()
    return ConfigurationEntry("ifupdown", file, line, names=(words[1],), methods=methods)


def with_option(entry: ConfigurationEntry, content: str) -> ConfigurationEntry:
    """The stanza after one of its lines; other options leave it as it is."""
    name, *values = content.split()
    if name.replace("_", "-") in MEMBER_OPTIONS:
        members = [value for value in values if value not in NO_MEMBERS]
        entry = replace(entry, members=(*entry.members, *members))
    if name == "gateway" and values and is_address(values[0]):
        entry = replace(entry, gateways=(values[0],))
    request = parse_numvfs_line(content)
    if request is not None:
        entry = replace(entry, virtual_functions=request.functions)
    return entry


def parse_ifcfg(text: str, file: str) -> ConfigurationEntry | None:
    """One ifcfg file; without DEVICE and HWADDR it is for the interface in its file name. None: no
    assignments."""
    values = parse_assignments(text)
    if not values:
        return None
    address = values.get("HWADDR", "").lower()
    name = values.get("DEVICE", "")
    if not name and not address:
        name = os.path.basename(file).partition("ifcfg-")[2]
    calls = values.get("ETHTOOL_OPTS", "").replace(";", "; ethtool ")
    settings = parse_ethtool_line(f"ethtool {calls}")
    return ConfigurationEntry(
        owner="ifcfg",
        file=file,
        line=1,
        names=(name,) if name else (),
        addresses=(address,) if address else (),
        methods=ifcfg_methods(values),
        ignores=values.get("NM_CONTROLLED", "").lower() in FALSE_VALUES,
        ethtool=next(iter(settings.values()), {}),
        members=ifcfg_members(values),
    )


def ifcfg_methods(values: Mapping[str, str]) -> tuple[str, ...]:
    """How the addresses of a link are set."""
    methods = list(BOOT_PROTOCOLS.get(values.get("BOOTPROTO", "").lower(), ()))
    has_address = any(key.startswith("IPADDR") for key in values)
    if has_address and "static" not in methods:
        methods.append("static")
    if values.get("DHCPV6C", "").lower() == "yes":
        methods.append("dhcp6")
    return tuple(methods)


def ifcfg_members(values: Mapping[str, str]) -> tuple[str, ...]:
    """Names of other links."""
    members: list[str] = []
    for key, value in values.items():
        if key in MEMBER_KEYS or key.startswith("BONDING_SLAVE"):
            members += value.split()
    return tuple(members)


def parse_assignments(text: str) -> dict[str, str]:
    """``NAME="value"`` lines of a shell file, without quotes; nothing is expanded."""
    import shlex

    values = {}
    for match in filter(None, map(ASSIGNMENT.match, text.splitlines())):
        try:
            words = shlex.split(match[2], comments=True)
        except ValueError:  # a quote that is not closed
            words = [match[2].strip("\"'")]
        values[match[1]] = words[0] if words else ""
    return values
