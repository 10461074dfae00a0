"""The commands that change a setting of a link now, and those that make it survive a reboot.

Reads nothing. Who configures the link decides the persistent form: a NetworkManager profile, a
drop-in of a .link file (systemd-networkd, netplan), a line in an ifupdown stanza, else a udev rule.
Sources: nm-settings-nmcli(5), ethtool(8), systemd.link(5), interfaces(5), udev(7), sysctl.d(5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import cycle, islice

from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import (
    Command,
    ManualStep,
    Step,
    command,
    echo,
    joined,
    print_lines,
)
from nictop.rules.fixes.current_settings import current_settings
from nictop.rules.fixes.persistent_names import link_file_lines, networkmanager_settings
from nictop.rules.fixes.stored_settings import other_places
from nictop.rules.host import HostFacts, lasting_address, link_driver

SAFE_NAME = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Names without special characters for sed, udev rules and file names."""
ETHTOOL_PATH = "/usr/sbin/ethtool"
"""udev runs programs by their full path; on current distributions /sbin is the same folder."""
SETTING_NAMES = {
    "-L": "channels",
    "-G": "rings",
    "-K": "offloads",
    "-C": "coalescing",
    "-A": "pause",
    "-s": "speed",
    "--set-eee": "eee",
    "--set-priv-flags": "private-flags",
}
PER_LINK_FOLDERS = ("conf", "neigh")
"""Below net.ipv4 and net.ipv6: one folder for each link, ``all`` and ``default``."""
UNSAFE_NAME_NOTE = (
    "No command: the interface name has characters that are not safe in "
    "configuration files. Edit the file manually."
)
NEXT_ACTIVATION_NOTE = "Takes effect at the next activation of the profile."


def ethtool_fixes(
    host: HostFacts, link: Link, arguments: Sequence[str], *, note: str = ""
) -> tuple[Fix, ...]:
    """``ethtool OPTION LINK …`` now, with what undoes it, and the persistent form of whoever
    configures the link.

    `arguments`: option and values, ``["-L", "combined", "4"]``. `note`: of the command that acts at
    once. The caller has checked that the driver accepts these values.
    """
    option, *values = arguments
    undo = _undo(link, option, values)
    if option == "-X" and not undo:
        note = f"{note} {TABLE_NOTE}".lstrip()
    now = Fix(
        where="here",
        title="Set now",
        commands=(command("ethtool", option, link.name, *values),),
        persistent=False,
        undo=undo,
        note=note,
    )
    return now, _with_other_places(
        _persistent(host, link, option, values), other_places(host, link, option, values)
    )


def _with_other_places(fix: Fix, places: Sequence[str]) -> Fix:
    """`places`: file and line that store another value. Both run, and which one is last is not
    known."""
    commands = " ".join(map(str, fix.commands))
    kept = [place for place in places if f"> {place.rpartition(':')[0]}" not in commands]
    if not kept:
        return fix
    note = f"First remove the other value from {' and '.join(kept)}."
    return replace(fix, note=f"{note} {fix.note}".rstrip())


def _undo(link: Link, option: str, values: Sequence[str]) -> tuple[Step, ...]:
    if option == "-X":
        return _undo_table(link)
    before = current_settings(link, option)
    old: list[str] = []
    for name in values[::2]:
        value = before.get(name)
        if value is None:
            return ()
        old += [name, str(value)]
    if not old or old == list(values):
        return ()
    return (command("ethtool", option, link.name, *old),)


TABLE_NOTE = "No single command makes the present table again: note it (ethtool -x)."


def _undo_table(link: Link) -> tuple[Step, ...]:
    """Of the RSS table; (): no command makes the present one again."""
    rss = link.ethtool.rss
    table = () if rss is None else rss.indirection or ()
    if not table:
        return (command("ethtool", "-X", link.name, "default"),)
    number = len(set(table))
    in_turn = islice(cycle(range(number)), len(table))
    if list(table) != list(in_turn):
        return ()
    return (command("ethtool", "-X", link.name, "equal", str(number)),)


def _persistent(host: HostFacts, link: Link, option: str, values: Sequence[str]) -> Fix:
    profile = active_profile(host, link)
    if profile is not None:
        words = networkmanager_settings(host, option, values)
        if words is not None:
            return _in_the_profile(profile, words, _cleared(words))
    if SAFE_NAME.fullmatch(link.name) is None:
        return Fix("here", "Make persistent", (), persistent=True, note=UNSAFE_NAME_NOTE)
    stanza = ifupdown_stanza(host, link)
    if stanza is not None and profile is None:
        change = command("ethtool", option, link.name, *values)
        return stanza_fix(link, stanza, f"up {change} || true")
    name = _setting_name(option, values)
    if is_run_by_networkd(host, link):
        lines = link_file_lines(option, values)
        if lines is not None:
            return _drop_in(host, link, name, lines)
    return udev_fix(link, name, f'RUN+="{ETHTOOL_PATH} {option} $name {" ".join(values)}"')


def _in_the_profile(profile: str, words: Sequence[str], before: Sequence[str]) -> Fix:
    """`profile`: UUID."""
    modify = ("nmcli", "con", "mod", "uuid", profile)
    return Fix(
        where="here",
        title="Store in the NetworkManager profile",
        commands=(command(*modify, *words),),
        persistent=True,
        undo=(command(*modify, *before),),
        note=NEXT_ACTIVATION_NOTE,
    )


def _setting_name(option: str, values: Sequence[str]) -> str:
    """Part of a file name. Several findings may advise offloads of one link: none replaces the file
    of another."""
    name = SETTING_NAMES.get(option, "ethtool")
    return "-".join([name, *values[::2]]) if option == "-K" else name


def _cleared(words: Sequence[str]) -> list[str]:
    """The same properties with NetworkManager's defaults."""
    found = []
    for name in words[::2]:
        found += [name, ""]
    return found


# -------------------------------------------------------------------------------- who configures it


def active_profile(host: HostFacts, link: Link) -> str | None:
    """UUID of the NetworkManager profile that is active on the link; None: NetworkManager does not
    manage the link, or the profile only describes an external configuration."""
    manager = host.inventory.networkmanager
    if manager is None or link.ifindex not in manager.devices:
        return None
    device = manager.devices[link.ifindex]
    if not device.managed or not device.active_profile or device.external:
        return None
    for profile in manager.profiles:
        if profile.uuid == device.active_profile and profile.external:
            return None
    return device.active_profile


def is_run_by_networkd(host: HostFacts, link: Link) -> bool:
    found = host.inventory.networkd.get(link.ifindex)
    return found is not None and found.setup_state not in ("unmanaged", "")


def network_file(host: HostFacts, link: Link) -> str | None:
    """The .network file of a link that systemd-networkd configures."""
    found = host.inventory.networkd.get(link.ifindex)
    if found is None or not is_run_by_networkd(host, link):
        return None
    return found.network_file or None


def drop_in_folder(file: str) -> str:
    """Of a .network or .link file: ``/etc/systemd/network/10-lan.network.d``."""
    return f"/etc/systemd/network/{file.rpartition('/')[2]}.d"


def is_in_netplan(host: HostFacts, link: Link) -> bool:
    for entry in host.inventory.configuration:
        if entry.owner == "netplan" and link.name in entry.names:
            return True
    return False


def netplan_key(section: str, link: Link, setting: str) -> str:
    """``bonds.bond0.parameters.primary``: dots of a name are escaped."""
    name = link.name.replace(".", r"\.")
    return f"{section}.{name}.{setting}"


def ifupdown_stanza(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """The ``iface`` stanza of the link, where no other manager has it."""
    if is_run_by_networkd(host, link):
        return None
    for entry in host.inventory.configuration:
        if entry.owner == "ifupdown" and link.name in entry.names:
            return entry
    return None


def _link_file(host: HostFacts, link: Link) -> str | None:
    """The .link file that matches this link, so that another one would not be read; None: there is
    none."""
    for entry in host.inventory.configuration:
        if entry.owner == "link" and _is_about(entry, link):
            return entry.file
    return None


def _is_about(link_file: ConfigurationEntry, link: Link) -> bool:
    if link_file.new_name == link.name or link.name in link_file.names:
        return True
    addresses = {link.permanent_address, link.address} - {None}
    return not addresses.isdisjoint(link_file.addresses)


# ------------------------------------------------------------------------------ where it is written


def stanza_fix(link: Link, stanza: ConfigurationEntry, line: str) -> Fix:
    """One more line below the first ``iface`` line of the link; GNU sed."""
    space, name = "[[:space:]]", escaped_pattern(link.name)
    stanza_start = f"^{space}*iface{space}{space}*{name}{space}"
    insert = f"0,/{stanza_start}/{{//a\\    {line}"
    return Fix(
        where="here",
        title=f"Store in {stanza.file}",
        commands=(command("sed", "-i", "-e", insert, "-e", "}", stanza.file),),
        persistent=True,
        undo=(command("sed", "-i", f"/^ *{escaped_pattern(line)}$/d", stanza.file),),
        note="Takes effect at the next ifup.",
    )


def escaped_pattern(text: str) -> str:
    """As a basic regular expression between slashes."""
    return re.sub(r"[][\\.*^$/]", r"\\\g<0>", text)


def udev_fix(link: Link, kind: str, assignment: str) -> Fix:
    """A rule that acts whenever the NIC appears; it matches the MAC address, which renaming does
    not change. That of a virtual link may change, or be random: its name does not."""
    address = lasting_address(link)
    is_made_by_software = link.bus is None and link.kind is not None
    has_address = address is not None and not is_made_by_software
    match = f'ATTR{{address}}=="{address}"' if has_address else f'KERNEL=="{link.name}"'
    driver = link_driver(link)
    parts = ['ACTION=="add"', 'SUBSYSTEM=="net"', match]
    if driver is not None and SAFE_NAME.fullmatch(driver):
        parts.append(f'ENV{{ID_NET_DRIVER}}=="{driver}"')
    file = f"/etc/udev/rules.d/90-{link.name}-{kind}.rules"
    return Fix(
        where="here",
        title="Store in a udev rule",
        commands=(echo(", ".join([*parts, assignment]), file),),
        persistent=True,
        undo=(command("rm", file),),
        note="Takes effect at the next boot.",
    )


def _drop_in(host: HostFacts, link: Link, kind: str, lines: Sequence[str]) -> Fix:
    existing = _link_file(host, link)
    file = existing or f"/etc/systemd/network/50-{link.name}.link"
    folder = drop_in_folder(file)
    commands: list[Step] = []
    if existing is None:
        commands.append(_new_link_file(link, file))
    commands.append(command("mkdir", "-p", folder))
    commands.append(print_lines(["[Link]", *lines], f"{folder}/{kind}.conf"))
    return Fix(
        where="here",
        title="Store in a .link file",
        commands=tuple(commands),
        persistent=True,
        undo=(command("rm", f"{folder}/{kind}.conf"),),
        note="udev reads it at the next boot.",
    )


def _new_link_file(link: Link, file: str) -> ManualStep:
    """A .link file that changes nothing: only the first matching one is read, so it repeats
    99-default.link."""
    match = [f"MACAddress={lasting_address(link)}"]
    driver = link_driver(link)
    if driver is not None and SAFE_NAME.fullmatch(driver):
        match.append(f"Driver={driver}")
    default = [
        "NamePolicy=keep kernel database onboard slot path",
        "AlternativeNamesPolicy=database onboard slot path",
        "MACAddressPolicy=persistent",
    ]
    return joined(
        "||",
        command("test", "-e", file),
        print_lines(["[Match]", *match, "[Link]", *default], file),
    )


# ------------------------------------------------------------------------------------------- others


def one_fix(title: str, fixes: Sequence[Fix], note: str) -> Fix:
    """Several that act at once as one, whose undo is that of the last one first."""
    commands: list[Step] = []
    undo: list[Step] = []
    for fix in fixes:
        commands += fix.commands
        undo = [*fix.undo, *undo]
    return Fix("here", title, tuple(commands), False, tuple(undo), note)


def sysctl_fixes(
    host: HostFacts, name: str, value: int, *, old: int | None = None
) -> tuple[Fix, Fix]:
    """A kernel setting now, with its undo, and persistently. `old`: its value, if it is not in
    `Settings.sysctl`."""
    old = host.inventory.settings.sysctl.get(name, old)
    undo = () if old is None else (command("sysctl", "-w", f"{name}={old}"),)
    now = Fix(
        where="here",
        title="Set now",
        commands=(command("sysctl", "-w", f"{name}={value}"),),
        persistent=False,
        undo=undo,
    )
    file = f"/etc/sysctl.d/90-{sysctl_file_part(name)}.conf"
    stored = Fix(
        where="here",
        title="Store in /etc/sysctl.d",
        commands=(echo(f"{name} = {value}", file),),
        persistent=True,
        undo=(command("rm", file),),
        note="Read at the next boot.",
    )
    return now, stored


def sysctl_file_part(name: str) -> str:
    """Part of a file name that no other setting has: ``net.ipv4.conf.ens224.rp_filter`` →
    ``ens224-rp-filter``."""
    _, family, *place, setting = name.split(".")
    parts = ["ipv6"] if family == "ipv6" else []
    if place and place[0] in PER_LINK_FOLDERS:
        parts += [word for word in place[1:] if word != "all"]
    return "-".join([*parts, setting]).replace("_", "-").replace("/", "-")


MIN_IPV4_MTU, MIN_IPV6_MTU = 576, 1280
"""RFC 791: each host takes packets of 576 bytes; RFC 8200: on a link with a smaller MTU than 1280
there is no IPv6."""
PROFILE_MTUS = {
    "wireguard": "wireguard.mtu",
    "ip-tunnel": "ip-tunnel.mtu",
    "infiniband": "infiniband.mtu",
}
"""Type of a NetworkManager profile → property with the MTU; 802-3-ethernet.mtu in all others."""
NETPLAN_SECTIONS = {
    "bridge": "bridges",
    "bond": "bonds",
    "vlan": "vlans",
    "vxlan": "tunnels",
    "wireguard": "tunnels",
}
"""Kind of link → section of netplan; ``ethernets`` for a NIC."""


def smallest_mtu(*, is_ipv6: bool) -> int:
    """Bytes below which no MTU is ever proposed: a path that passes less has a filter or a broken
    offload."""
    return MIN_IPV6_MTU if is_ipv6 else MIN_IPV4_MTU


WHOLE_PATH_NOTE = "Every switch, bridge and port group on the path must support it."
"""Of a larger MTU."""


def can_have_mtu(link: Link, mtu: int) -> bool:
    """The link accepts it, and what uses the link works with it."""
    is_ipv6 = any(address.family == "ipv6" for address in link.addresses)
    return smallest_mtu(is_ipv6=is_ipv6) <= mtu and not (link.max_mtu and mtu > link.max_mtu)


def mtu_fixes(host: HostFacts, link: Link, mtu: int) -> tuple[Fix, ...]:
    """Another MTU now, with its undo, and persistently; none if the link cannot have it
    (`can_have_mtu`)."""
    if not can_have_mtu(link, mtu):
        return ()
    now = Fix(
        where="here",
        title="Set now",
        commands=(_set_mtu(link, mtu),),
        persistent=False,
        undo=(_set_mtu(link, link.mtu),),
    )
    return now, _stored_mtu(host, link, mtu)


def _set_mtu(link: Link, mtu: int) -> Command:
    return command("ip", "link", "set", "dev", link.name, "mtu", str(mtu))


def _stored_mtu(host: HostFacts, link: Link, mtu: int) -> Fix:
    profile = active_profile(host, link)
    if profile is not None:
        kind, old = _profile_mtu(host, profile)
        name = PROFILE_MTUS.get(kind, "802-3-ethernet.mtu")
        return _in_the_profile(profile, [name, str(mtu)], [name, str(old)])
    if SAFE_NAME.fullmatch(link.name) is None:
        return Fix("here", "Make persistent", (), persistent=True, note=UNSAFE_NAME_NOTE)
    stanza = ifupdown_stanza(host, link)
    if stanza is not None:
        return stanza_fix(link, stanza, f"up {_set_mtu(link, mtu)} || true")
    if not is_run_by_networkd(host, link):
        return udev_fix(link, "mtu", f'ATTR{{mtu}}="{mtu}"')
    if is_in_netplan(host, link):
        section = NETPLAN_SECTIONS.get(link.kind or "", "ethernets")
        return netplan_fix(netplan_key(section, link, "mtu"), str(mtu), "")
    return _drop_in(host, link, "mtu", [f"MTUBytes={mtu}"])


def netplan_fix(key: str, value: str, old: str) -> Fix:
    """`old`: "": it is not set."""
    return Fix(
        where="here",
        title="Store in netplan",
        commands=(command("netplan", "set", f"{key}={value}"),),
        persistent=True,
        undo=(command("netplan", "set", f"{key}={old or 'null'}"),),
        note="Takes effect with netplan apply or at the next boot.",
    )


def _profile_mtu(host: HostFacts, uuid: str) -> tuple[str, int]:
    """(type, MTU) of a profile; 0: automatic."""
    manager = host.inventory.networkmanager
    profiles = manager.profiles if manager is not None else ()
    for profile in profiles:
        if profile.uuid == uuid:
            return profile.type, profile.mtu or 0
    return "", 0
