"""Fixes of bonds: an option now and persistently, and another mode.

Reads nothing. Sources: ip-link(8), kernel Documentation/networking/bonding.rst,
nm-settings-nmcli(5) bond.options, netplan-yaml(5), systemd.netdev(5) [Bond].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.probe.records import Bond, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.persistence import (
    NEXT_ACTIVATION_NOTE,
    SAFE_NAME,
    active_profile,
    ifupdown_stanza,
    is_in_netplan,
    is_run_by_networkd,
    netplan_fix,
    netplan_key,
    stanza_fix,
)
from nictop.rules.host import HostFacts
from nictop.rules.routes.rewriting import addresses_again, lost_routes

NETPLAN_NAMES = {
    "xmit_hash_policy": "transmit-hash-policy",
    "primary": "primary",
    "miimon": "mii-monitor-interval",
    "min_links": "min-links",
}
NETWORKD_NAMES = {
    "xmit_hash_policy": "TransmitHashPolicy",
    "miimon": "MIIMonitorSec",
    "min_links": "MinLinks",
}
DEFAULT_MIIMON = 100
"""Milliseconds, as recommended by the kernel documentation."""
BOND_MODE_NOTE = (
    "The link is interrupted for some seconds. Also change the mode where the bond is configured."
)


def set_option(link: Link, option: str, value: str) -> Command:
    return command("ip", "link", "set", "dev", link.name, "type", "bond", option, value)


def option_fixes(
    host: HostFacts, link: Link, option: str, value: str, *, old: str, undo: Command | None = None
) -> tuple[Fix, ...]:
    """An option that can be changed while the bond is up: now, and in what configures the bond.
    `old`: the present value; "" if it is not set. `undo`: restores it, if that is not ``ip link``
    with `old`."""
    back = undo if undo is not None else set_option(link, option, old)
    now = Fix("here", "Set now", (set_option(link, option, value),), persistent=False, undo=(back,))
    stored = _stored_option(host, link, option, value, old)
    return (now,) if stored is None else (now, stored)


def _stored_option(host: HostFacts, link: Link, option: str, value: str, old: str) -> Fix | None:
    profile = active_profile(host, link)
    if profile is not None:
        return _in_the_profile(profile, option, value, old)
    if SAFE_NAME.fullmatch(link.name) is None:
        return None
    stanza = ifupdown_stanza(host, link)
    if stanza is not None:
        return stanza_fix(link, stanza, f"up {set_option(link, option, value)} || true")
    if is_in_netplan(host, link):
        setting = f"parameters.{NETPLAN_NAMES[option]}"
        return netplan_fix(netplan_key("bonds", link, setting), value, old)
    if is_run_by_networkd(host, link) and option in NETWORKD_NAMES:
        unit = "ms" if option == "miimon" else ""
        note = f"In its .netdev file, section [Bond]: {NETWORKD_NAMES[option]}={value}{unit}."
        return Fix("here", "Store in the .netdev file", (), persistent=True, note=note)
    return None


def _in_the_profile(profile: str, option: str, value: str, old: str) -> Fix:
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


def active_backup_fix(host: HostFacts, link: Link, bond: Bond, ports: Sequence[Link]) -> Fix:
    """Mode active-backup, which needs nothing of the switch. The mode can only be changed without
    ports."""
    options = _mode_options(bond)
    profile = active_profile(host, link)
    if profile is not None:
        profiles = [profile]
        for port in ports:
            member = active_profile(host, port)
            if member is not None:
                profiles.append(member)
        return _active_backup_of_profiles(profiles, options)
    old = [word for pair in options for word in pair]
    wanted = ["mode", "active-backup", "miimon", str(DEFAULT_MIIMON)]
    routes = lost_routes(host, link, ("ipv4", "ipv6"))
    again = (*addresses_again(link), *routes.commands)
    return Fix(
        "here",
        ACTIVE_BACKUP_TITLE,
        (*_with_options(link, ports, wanted), *again),
        persistent=False,
        undo=(*_with_options(link, ports, old), *again),
        note=f"{BOND_MODE_NOTE} {routes.note}".rstrip(),
    )


ACTIVE_BACKUP_TITLE = "Use active-backup, which needs no LACP"


def _active_backup_of_profiles(profiles: Sequence[str], before: Sequence[tuple[str, str]]) -> Fix:
    """`profiles`: UUIDs of the bond's and of those of its ports."""
    up = [command("nmcli", "con", "up", "uuid", uuid) for uuid in profiles]
    modify = ("nmcli", "con", "mod", "uuid", profiles[0], "bond.options")
    old = ",".join(f"{name}={value}" for name, value in before)
    return Fix(
        "here",
        ACTIVE_BACKUP_TITLE,
        (command(*modify, f"mode=active-backup,miimon={DEFAULT_MIIMON}"), *up),
        persistent=True,
        undo=(command(*modify, old), *up),
        note="Replaces the bond options of the profile. The link is interrupted for some seconds.",
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


def _with_options(link: Link, ports: Sequence[Link], options: Sequence[str]) -> Iterator[Command]:
    """Options that can only be set while the bond is down and has no ports; ports that leave a bond
    are set down, and a link that is set down loses its routes and IPv6 addresses."""
    change = ("ip", "link", "set", "dev")
    for port in ports:
        yield command(*change, port.name, "nomaster")
    yield command(*change, link.name, "down")
    yield command(*change, link.name, "type", "bond", *options)
    for port in ports:
        yield command(*change, port.name, "master", link.name)
    yield command(*change, link.name, "up")
