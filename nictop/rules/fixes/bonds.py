"""Fixes of bonds: an option now and persistently, and another mode.

Reads nothing. Sources: ip-link(8), kernel Documentation/networking/bonding.rst, nm-settings-nmcli(5) bond.options,
netplan-yaml(5), systemd.netdev(5) [Bond].
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.probe.records import Bond, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.persistence import (
    NEXT_ACTIVATION_NOTE,
    SAFE_NAME,
    active_profile,
    ifupdown_stanza,
    is_run_by_networkd,
    stanza_fix,
)
from nictop.rules.host import HostFacts
from nictop.rules.routing.rewriting import lost_routes

NETPLAN_NAMES = {
    "xmit_hash_policy": "transmit-hash-policy",
    "primary": "primary",
    "miimon": "mii-monitor-interval",
    "min_links": "min-links",
}
NETWORKD_NAMES = {"xmit_hash_policy": "TransmitHashPolicy", "miimon": "MIIMonitorSec", "min_links": "MinLinks"}
DEFAULT_MIIMON = 100
"""Milliseconds, as recommended by the kernel documentation."""
BOND_MODE_NOTE = "The link is interrupted for some seconds. Also change the mode where the bond is configured."


def set_option(link: Link, option: str, value: str) -> Command:
    return command("ip", "link", "set", "dev", link.name, "type", "bond", option, value)


def option_fixes(
    host: HostFacts, link: Link, option: str, value: str, *, old: str, undo: Command | None = None
) -> tuple[Fix, ...]:
    """An option that can be changed while the bond is up: now, and in what configures the bond. `old`: the present
    value; "" if it is not set. `undo`: restores it, if that is not ``ip link`` with `old`."""
    back = undo if undo is not None else set_option(link, option, old)
    now = Fix("here", "Set now", (set_option(link, option, value),), persistent=False, undo=(back,))
    stored = _stored_option(host, link, option, value, old)
    return (now,) if stored is None else (now, stored)


def _stored_option(host: HostFacts, link: Link, option: str, value: str, old: str) -> Fix | None:
    profile = active_profile(host, link)
    if profile is not None:
        modify = ("nmcli", "con", "mod", "uuid", profile)
        back = ("+bond.options", f"{option}={old}") if old else ("-bond.options", option)
        return Fix(
            "here",
            "Store in the NetworkManager profile",
            (command(*modify, "+bond.options", f"{option}={value}"),),
            persistent=True,
            undo=(command(*modify, *back),),
            note=NEXT_ACTIVATION_NOTE,
        )
    if SAFE_NAME.fullmatch(link.name) is None:
        return None
    stanza = ifupdown_stanza(host, link)
    if stanza is not None:
        return stanza_fix(link, stanza, f"up {set_option(link, option, value)} || true")
    if any(one.owner == "netplan" and link.name in one.names for one in host.inventory.configuration):
        key = f"bonds.{link.name.replace('.', chr(92) + '.')}.parameters.{NETPLAN_NAMES[option]}"
        return Fix(
            "here",
            "Store in netplan",
            (command("netplan", "set", f"{key}={value}"),),
            persistent=True,
            undo=(command("netplan", "set", f"{key}={old or 'null'}"),),
            note="Takes effect with netplan apply or at the next boot; the command above applies it now.",
        )
    if is_run_by_networkd(host, link) and option in NETWORKD_NAMES:
        setting = f"{NETWORKD_NAMES[option]}={value}{'ms' if option == 'miimon' else ''}"
        note = f"In its .netdev file, section [Bond]: {setting}."
        return Fix("here", "Store in the .netdev file", (), persistent=True, note=note)
    return None


def active_backup_fix(host: HostFacts, link: Link, bond: Bond, ports: Sequence[Link]) -> Fix:
    """Mode active-backup, which needs nothing of the switch. The mode can only be changed without ports."""
    title = "Use active-backup, which needs no LACP"
    options = _mode_options(bond)
    profile = active_profile(host, link)
    if profile is not None:
        members = [uuid for uuid in (active_profile(host, port) for port in ports) if uuid is not None]
        up = [command("nmcli", "con", "up", "uuid", uuid) for uuid in (profile, *members)]
        modify = ("nmcli", "con", "mod", "uuid", profile, "bond.options")
        return Fix(
            "here",
            title,
            (command(*modify, f"mode=active-backup,miimon={DEFAULT_MIIMON}"), *up),
            persistent=True,
            undo=(command(*modify, ",".join(f"{name}={value}" for name, value in options)), *up),
            note="Replaces the bond options of the profile. The link is interrupted for some seconds.",
        )
    old = [word for pair in options for word in pair]
    routes = lost_routes(host, link, ("ipv4", "ipv6"))
    return Fix(
        "here",
        title,
        (*_with_options(link, ports, ["mode", "active-backup", "miimon", str(DEFAULT_MIIMON)]), *routes.commands),
        persistent=False,
        undo=(*_with_options(link, ports, old), *routes.commands),
        note=" ".join(filter(None, (BOND_MODE_NOTE, routes.note))),
    )


def _mode_options(bond: Bond) -> list[tuple[str, str]]:
    found = [("mode", bond.mode), ("miimon", str(bond.miimon or DEFAULT_MIIMON))]
    if bond.lacp_rate in ("slow", "fast"):
        found.append(("lacp_rate", bond.lacp_rate))
    if bond.hash_policy is not None:
        found.append(("xmit_hash_policy", bond.hash_policy))
    if bond.min_links:
        found.append(("min_links", str(bond.min_links)))
    return found


def _with_options(link: Link, ports: Sequence[Link], options: Sequence[str]) -> tuple[Command, ...]:
    """Options that can only be set while the bond is down and has no ports; ports that leave a bond are set down, and
    a link that is set down loses its routes."""
    return (
        *(command("ip", "link", "set", "dev", port.name, "nomaster") for port in ports),
        command("ip", "link", "set", "dev", link.name, "down"),
        command("ip", "link", "set", "dev", link.name, "type", "bond", *options),
        *(command("ip", "link", "set", "dev", port.name, "master", link.name) for port in ports),
        command("ip", "link", "set", "dev", link.name, "up"),
    )
