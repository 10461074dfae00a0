"""The commands that change a setting of a link now, and those that make it survive a reboot.

Reads nothing. Who configures the link decides the persistent form: a NetworkManager profile, a drop-in of a .link file
(systemd-networkd, netplan), a line in an ifupdown stanza, else a udev rule. Sources: nm-settings-nmcli(5), ethtool(8),
systemd.link(5), interfaces(5), udev(7), sysctl.d(5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import ManualStep, Step, command, echo, joined, print_lines
from nictop.rules.fixes.current_settings import current_settings
from nictop.rules.fixes.persistent_names import link_file_lines, networkmanager_settings
from nictop.rules.fixes.stored_settings import other_places
from nictop.rules.host import HostFacts, link_driver

SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
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
    "No command: the interface name has characters that are not safe in configuration files. Edit the file manually."
)
NEXT_ACTIVATION_NOTE = "Takes effect at the next activation of the profile; the command above applies it now."


def ethtool_fixes(host: HostFacts, link: Link, arguments: Sequence[str], *, note: str = "") -> tuple[Fix, ...]:
    """``ethtool OPTION LINK …`` now, with what undoes it, and the persistent form of whoever configures the link.

    `arguments`: option and values, ``["-L", "combined", "4"]``. `note`: of the command that acts at once. The
    caller has checked that the driver accepts these values.
    """
    option, *values = arguments
    now = Fix(
        where="here",
        title="Set now",
        commands=(command("ethtool", option, link.name, *values),),
        persistent=False,
        undo=_undo(link, option, values),
        note=note,
    )
    return now, _with_other_places(_persistent(host, link, option, values), other_places(host, link, option, values))


def _with_other_places(fix: Fix, places: Sequence[str]) -> Fix:
    """`places`: file and line that store another value. Both run, and which one is last is not known."""
    commands = " ".join(map(str, fix.commands))
    kept = [place for place in places if f"> {place.rpartition(':')[0]}" not in commands]
    if not kept:
        return fix
    note = f"First remove the other value from {' and '.join(kept)}."
    return replace(fix, note=f"{note} {fix.note}".rstrip())


def _undo(link: Link, option: str, values: Sequence[str]) -> tuple[Step, ...]:
    if option == "-X":
        return (command("ethtool", "-X", link.name, "default"),)
    before = current_settings(link, option)
    pairs = [(name, before.get(name)) for name in values[::2]]
    if not pairs or any(value is None for _, value in pairs):
        return ()
    old = [part for name, value in pairs for part in (name, str(value))]
    return () if old == list(values) else (command("ethtool", option, link.name, *old),)


def _persistent(host: HostFacts, link: Link, option: str, values: Sequence[str]) -> Fix:
    profile = active_profile(host, link)
    words = networkmanager_settings(host, option, values) if profile is not None else None
    if profile is not None and words is not None:
        return Fix(
            where="here",
            title="Store in the NetworkManager profile",
            commands=(command("nmcli", "con", "mod", "uuid", profile, *words),),
            persistent=True,
            undo=(command("nmcli", "con", "mod", "uuid", profile, *_cleared(words)),),
            note=NEXT_ACTIVATION_NOTE,
        )
    if SAFE_NAME.fullmatch(link.name) is None:
        return Fix("here", "Make persistent", (), persistent=True, note=UNSAFE_NAME_NOTE)
    stanza = ifupdown_stanza(host, link) if profile is None else None
    if stanza is not None:
        return stanza_fix(link, stanza, f"up {command('ethtool', option, link.name, *values)} || true")
    lines = link_file_lines(option, values) if is_run_by_networkd(host, link) else None
    if lines is not None:
        return _drop_in(host, link, _setting_name(option, values), lines)
    return udev_fix(link, _setting_name(option, values), f'RUN+="{ETHTOOL_PATH} {option} $name {" ".join(values)}"')


def _setting_name(option: str, values: Sequence[str]) -> str:
    """Part of a file name. Several findings may advise offloads of one link: none replaces the file of another."""
    name = SETTING_NAMES.get(option, "ethtool")
    return "-".join([name, *values[::2]]) if option == "-K" else name


def _cleared(words: Sequence[str]) -> list[str]:
    """The same properties with NetworkManager's defaults."""
    return [part for name in words[::2] for part in (name, "")]


# ------------------------------------------------------------------------------------------------- who configures it


def active_profile(host: HostFacts, link: Link) -> str | None:
    """UUID of the NetworkManager profile that is active on the link; None: NetworkManager does not manage the link, or
    the profile only describes an external configuration."""
    manager = host.inventory.networkmanager
    device = manager.devices.get(link.ifindex) if manager is not None else None
    if manager is None or device is None or not device.managed or not device.active_profile:
        return None
    profile = next((one for one in manager.profiles if one.uuid == device.active_profile), None)
    return None if profile is not None and profile.external else device.active_profile


def is_run_by_networkd(host: HostFacts, link: Link) -> bool:
    found = host.inventory.networkd.get(link.ifindex)
    return found is not None and found.setup_state not in ("unmanaged", "")


def ifupdown_stanza(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """The ``iface`` stanza of the link, where no other manager has it."""
    if is_run_by_networkd(host, link):
        return None
    return next(
        (one for one in host.inventory.configuration if one.owner == "ifupdown" and link.name in one.names), None
    )


def _link_file(host: HostFacts, link: Link) -> str | None:
    """The .link file that matches this link, so that another one would not be read; None: there is none."""
    addresses = {link.permanent_address, link.address} - {None}
    for one in host.inventory.configuration:
        if one.owner != "link":
            continue
        if one.new_name == link.name or link.name in one.names or addresses.intersection(one.addresses):
            return one.file
    return None


# ------------------------------------------------------------------------------------------------ where it is written


def stanza_fix(link: Link, stanza: ConfigurationEntry, line: str) -> Fix:
    """One more line below the first ``iface`` line of the link; GNU sed."""
    pattern = rf"^[[:space:]]*iface[[:space:]][[:space:]]*{escaped_pattern(link.name)}[[:space:]]"
    insert = f"0,/{pattern}/{{//a\\    {line}"
    return Fix(
        where="here",
        title=f"Store in {stanza.file}",
        commands=(command("sed", "-i", "-e", insert, "-e", "}", stanza.file),),
        persistent=True,
        undo=(command("sed", "-i", f"/^ *{escaped_pattern(line)}$/d", stanza.file),),
        note="Takes effect at the next ifup; the command above applies it now.",
    )


def escaped_pattern(text: str) -> str:
    """As a basic regular expression between slashes."""
    return re.sub(r"[][\\.*^$/]", r"\\\g<0>", text)


def udev_fix(link: Link, kind: str, assignment: str) -> Fix:
    """A rule that acts whenever the NIC appears; it matches the MAC address, which renaming does not change. That of a
    virtual link may change, or be random: its name does not."""
    address = link.permanent_address or link.address
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
        note="Takes effect at the next boot; the command above applies it now.",
    )


def _drop_in(host: HostFacts, link: Link, kind: str, lines: Sequence[str]) -> Fix:
    existing = _link_file(host, link)
    name = existing.rpartition("/")[2] if existing is not None else f"50-{link.name}.link"
    folder = f"/etc/systemd/network/{name}.d"
    commands: list[Step] = [] if existing is not None else [_new_link_file(link, f"/etc/systemd/network/{name}")]
    commands.append(command("mkdir", "-p", folder))
    commands.append(print_lines(["[Link]", *lines], f"{folder}/{kind}.conf"))
    return Fix(
        where="here",
        title="Store in a .link file",
        commands=tuple(commands),
        persistent=True,
        undo=(command("rm", f"{folder}/{kind}.conf"),),
        note="udev reads it at the next boot; the command above applies it now.",
    )


def _new_link_file(link: Link, file: str) -> ManualStep:
    """A .link file that changes nothing: only the first matching one is read, so it repeats 99-default.link."""
    match = [f"MACAddress={link.permanent_address or link.address}"]
    driver = link_driver(link)
    if driver is not None and SAFE_NAME.fullmatch(driver):
        match.append(f"Driver={driver}")
    default = [
        "NamePolicy=keep kernel database onboard slot path",
        "AlternativeNamesPolicy=database onboard slot path",
        "MACAddressPolicy=persistent",
    ]
    return joined("||", command("test", "-e", file), print_lines(["[Match]", *match, "[Link]", *default], file))


# --------------------------------------------------------------------------------------------------------- others


def sysctl_fixes(host: HostFacts, name: str, value: int, *, old: int | None = None) -> tuple[Fix, Fix]:
    """A kernel setting now, with its undo, and persistently. `old`: its value, if it is not in `Settings.sysctl`."""
    old = host.inventory.settings.sysctl.get(name, old)
    file = f"/etc/sysctl.d/90-{sysctl_file_part(name)}.conf"
    return (
        Fix(
            where="here",
            title="Set now",
            commands=(command("sysctl", "-w", f"{name}={value}"),),
            persistent=False,
            undo=(command("sysctl", "-w", f"{name}={old}"),) if old is not None else (),
        ),
        Fix(
            where="here",
            title="Store in /etc/sysctl.d",
            commands=(echo(f"{name} = {value}", file),),
            persistent=True,
            undo=(command("rm", file),),
            note="Read at the next boot; the command above applies it now.",
        ),
    )


def sysctl_file_part(name: str) -> str:
    """Part of a file name that no other setting has: ``net.ipv4.conf.ens224.rp_filter`` → ``ens224-rp-filter``."""
    _, family, *_, setting = name.split(".")
    scope = name.split(".")[3:-1] if name.split(".")[2] in PER_LINK_FOLDERS else []
    parts = [*(["ipv6"] if family == "ipv6" else []), *(one for one in scope if one != "all"), setting]
    return "-".join(parts).replace("_", "-").replace("/", "-")


MIN_IPV4_MTU, MIN_IPV6_MTU = 576, 1280
"""RFC 791: each host takes packets of 576 bytes; RFC 8200: on a link with a smaller MTU than 1280 there is no IPv6."""
PROFILE_MTUS = {"wireguard": "wireguard.mtu", "ip-tunnel": "ip-tunnel.mtu", "infiniband": "infiniband.mtu"}
"""Type of a NetworkManager profile → property with the MTU; 802-3-ethernet.mtu in all others."""
NETPLAN_SECTIONS = {"bridge": "bridges", "bond": "bonds", "vlan": "vlans", "vxlan": "tunnels", "wireguard": "tunnels"}
"""Kind of link → section of netplan; ``ethernets`` for a NIC."""


def smallest_mtu(*, is_ipv6: bool) -> int:
    """Bytes below which no MTU is ever proposed: a path that passes less has a filter or a broken offload."""
    return MIN_IPV6_MTU if is_ipv6 else MIN_IPV4_MTU


def can_have_mtu(link: Link, mtu: int) -> bool:
    """The link accepts it, and what uses the link works with it."""
    is_ipv6 = any(one.family == "ipv6" for one in link.addresses)
    return smallest_mtu(is_ipv6=is_ipv6) <= mtu and not (link.max_mtu and mtu > link.max_mtu)


def mtu_fixes(host: HostFacts, link: Link, mtu: int) -> tuple[Fix, ...]:
    """Another MTU now, with its undo, and persistently; none if the link cannot have it (`can_have_mtu`)."""
    if not can_have_mtu(link, mtu):
        return ()
    now = Fix(
        where="here",
        title="Set now",
        commands=(command("ip", "link", "set", "dev", link.name, "mtu", str(mtu)),),
        persistent=False,
        undo=(command("ip", "link", "set", "dev", link.name, "mtu", str(link.mtu)),),
    )
    profile = active_profile(host, link)
    if profile is not None:
        kind, old = _profile_mtu(host, profile)
        name = PROFILE_MTUS.get(kind, "802-3-ethernet.mtu")
        change = command("nmcli", "con", "mod", "uuid", profile, name, str(mtu))
        undo = command("nmcli", "con", "mod", "uuid", profile, name, str(old))
        title = "Store in the NetworkManager profile"
        return now, Fix("here", title, (change,), persistent=True, undo=(undo,), note=NEXT_ACTIVATION_NOTE)
    if SAFE_NAME.fullmatch(link.name) is None:
        return now, Fix("here", "Make persistent", (), persistent=True, note=UNSAFE_NAME_NOTE)
    stanza = ifupdown_stanza(host, link)
    if stanza is not None:
        line = f"up {command('ip', 'link', 'set', 'dev', link.name, 'mtu', str(mtu))} || true"
        return now, stanza_fix(link, stanza, line)
    netplan = any(one.owner == "netplan" and link.name in one.names for one in host.inventory.configuration)
    if netplan and is_run_by_networkd(host, link):
        section = NETPLAN_SECTIONS.get(link.kind or "", "ethernets")
        key = f"{section}.{link.name.replace('.', chr(92) + '.')}.mtu"
        change, undo = command("netplan", "set", f"{key}={mtu}"), command("netplan", "set", f"{key}=null")
        note = "Takes effect with netplan apply or at the next boot; the command above applies it now."
        return now, Fix("here", "Store in netplan", (change,), persistent=True, undo=(undo,), note=note)
    if is_run_by_networkd(host, link):
        return now, _drop_in(host, link, "mtu", [f"MTUBytes={mtu}"])
    return now, udev_fix(link, "mtu", f'ATTR{{mtu}}="{mtu}"')


def _profile_mtu(host: HostFacts, uuid: str) -> tuple[str, int]:
    """(type, MTU) of a profile; 0: automatic."""
    manager = host.inventory.networkmanager
    profiles = manager.profiles if manager is not None else ()
    return next(((one.type, one.mtu or 0) for one in profiles if one.uuid == uuid), ("", 0))
