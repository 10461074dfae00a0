"""ifupdown's interfaces files and ifcfg files → `ConfigurationEntry`. Pure.

interfaces(5): one entry per ``iface`` stanza, and the files to read next (``source``). ifcfg: shell assignments, with
names of Red Hat and SUSE (nm-settings-ifcfg-rh(5), ifcfg(5)).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NamedTuple

from nictop.probe.inventory.configuration.ethtool_settings import parse_ethtool_line, parse_stanza_line
from nictop.probe.inventory.configuration.lines import joined_lines
from nictop.probe.inventory.configuration.sriov import parse_numvfs_line
from nictop.probe.inventory.routing.resolvers import is_address
from nictop.probe.kernel.patterns import pattern
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
STANZAS = ("auto", "iface", "mapping", "source", "source-directory", "no-auto-down", "no-scripts", "rename", "template")
MEMBER_OPTIONS = ("bridge-ports", "bond-slaves", "slaves", "vlan-raw-device")
"""Options with names of other links; with underscores as well (bridge-utils-interfaces(5), ifenslave, vlan)."""
MEMBER_KEYS = ("BRIDGE_PORTS", "ETHERDEVICE", "PHYSDEV")
"""Of ifcfg files; the ports of a bond are in BONDING_SLAVE_0, BONDING_SLAVE0, …"""
NO_MEMBERS = ("none", "all", "regex", "noregex")
ASSIGNMENT = pattern(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
FALSE_VALUES = ("no", "false", "off", "0")


class SourceDirective(NamedTuple):
    """``source`` and ``source-directory``: an absolute path with shell wildcards; `directory`: all files in it."""

    pattern: str
    directory: bool


def parse_interfaces(text: str, file: str) -> tuple[list[ConfigurationEntry], list[SourceDirective]]:
    """(Stanzas in their order, files to read next)."""
    entries: list[ConfigurationEntry] = []
    others: list[ConfigurationEntry] = []
    sources = []
    inside = False
    for line, content in joined_lines(text):
        words = content.split()
        if words[0] == "iface" and len(words) >= 2:
            family, method = words[2] if len(words) > 2 else "", words[3] if len(words) > 3 else ""
            found = STANZA_METHODS.get((family, method), method)
            entries.append(
                ConfigurationEntry("ifupdown", file, line, names=(words[1],), methods=(found,) if found else ())
            )
            inside = True
        elif words[0] in STANZAS or words[0].startswith("allow-"):
            inside = False
            if words[0] in ("source", "source-directory") and len(words) > 1:
                pattern = os.path.join(os.path.dirname(file), words[1])
                sources.append(SourceDirective(pattern, words[0] == "source-directory"))
        elif inside:
            if words[0].replace("_", "-") in MEMBER_OPTIONS:
                members = (one for one in words[1:] if one not in NO_MEMBERS)
                entries[-1] = replace(entries[-1], members=(*entries[-1].members, *members))
            if words[0] == "gateway" and len(words) > 1 and is_address(words[1]):
                entries[-1] = replace(entries[-1], gateways=(words[1],))
            request = parse_numvfs_line(content)
            if request is not None:
                entries[-1] = replace(entries[-1], virtual_functions=request.functions)
            for name, settings in parse_stanza_line(content).items():
                if name in ("", *entries[-1].names):
                    entries[-1] = replace(entries[-1], ethtool={**entries[-1].ethtool, **settings})
                else:
                    others.append(ConfigurationEntry("other", file, line, names=(name,), ethtool=settings))
    return [*entries, *others], sources


def parse_ifcfg(text: str, file: str) -> ConfigurationEntry | None:
    """One ifcfg file; without DEVICE and HWADDR it is for the interface in its file name. None: no assignments."""
    values = parse_assignments(text)
    if not values:
        return None
    device, address = values.get("DEVICE", ""), values.get("HWADDR", "").lower()
    own_name = os.path.basename(file).partition("ifcfg-")[2]
    methods = list(BOOT_PROTOCOLS.get(values.get("BOOTPROTO", "").lower(), ()))
    if any(key.startswith("IPADDR") for key in values) and "static" not in methods:
        methods.append("static")
    if values.get("DHCPV6C", "").lower() == "yes":
        methods.append("dhcp6")
    calls = values.get("ETHTOOL_OPTS", "").replace(";", "; ethtool ")
    settings = parse_ethtool_line(f"ethtool {calls}")
    return ConfigurationEntry(
        owner="ifcfg",
        file=file,
        line=1,
        names=(device,) if device else () if address or not own_name else (own_name,),
        addresses=(address,) if address else (),
        methods=tuple(methods),
        ignores=values.get("NM_CONTROLLED", "").lower() in FALSE_VALUES,
        ethtool=next(iter(settings.values()), {}),
        members=tuple(
            name
            for key, value in values.items()
            if key in MEMBER_KEYS or key.startswith("BONDING_SLAVE")
            for name in value.split()
        ),
    )


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
