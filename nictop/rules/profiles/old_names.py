"""Configuration with interface names that were changed, or that do not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nictop.model.managers.configuration import ADDRESSING, file_and_line
from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import bring_up, has_address, modify, profile_evidence, quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.profiles.candidates import candidate_evidence, proposal
from nictop.rules.profiles.naming_files import naming_cause
from nictop.rules.profiles.nics import address_evidence, managed_nics, nics, unconfigured_nics
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

FAMILY: Family = "profiles and names"
EXACT_NAME = re.compile(r"[^*?\[\]!]+")
NIC_NAME = re.compile(r"(?:en|eth|ib)[a-zA-Z]*[0-9][a-zA-Z0-9]*")
"""Names that udev or the kernel assign to NICs; bridges, bonds and VLANs are created by their configuration."""
USB_NIC_NAME = re.compile(r"enx[0-9a-f]{12}")
"""Name of a USB NIC, by its MAC address; it may be unplugged."""
FILE_OWNERS = ("netplan", "ifupdown", "networkd", "ifcfg")
MAX_NAMES = 3
WHY_MISSING = "The configured interface does not exist, and a NIC of this host has no address."


@host_rule(FAMILY, "critical", uses=("configuration", "networkmanager"))
def configuration_names_an_old_name(host: HostFacts) -> Outcomes:
    """A NIC was renamed, but its profile or a configuration file still uses the old name, which is now only an altname.

    Added or removed cards, another slot, PCIe hotplug, a new kernel or a new driver change predictable names (ens18
    becomes enp6s18, f0 becomes f0np0). The old name often remains as an altname: ip link accepts it, but NetworkManager
    compares profiles with the current name only, and so do ifupdown and ifcfg files.

    Reported for a NetworkManager profile that is bound to an altname of a NIC that no profile matches, for an ifupdown
    or ifcfg stanza with that name if the NIC has no address, and for one that uses the NIC by that name (bridge-ports,
    bond-slaves, vlan-raw-device) while it is neither a port nor below a VLAN. netplan and systemd-networkd support
    altnames.

    Sources: NetworkManager src/core/devices/nm-device.c; systemd.net-naming-scheme(7); systemd#24102;
    openmediavault#1888; harvester#9877, #9802; home-assistant/os#2174.
    """
    seen: set[int] = set()
    for link, _ in managed_nics(host):
        if not any(map(host.profiles.is_named, link.altnames)) or host.profiles.user_profiles(link):
            continue
        finding = _old_profile(host, link)
        if finding is not None:
            seen.add(link.ifindex)
            yield finding
    for link in nics(host):
        if not link.altnames or link.ifindex in seen or has_address(link):
            continue
        user = _old_member(host, link)
        entry = _old_stanza(host, link) if user is None else None
        if user is not None:
            yield _old_member_file(host, link, user)
        elif entry is not None:
            yield _old_file(host, link, entry)


def _old_profile(host: HostFacts, link: Link) -> Finding | None:
    profiles = host.profiles.profiles
    profile = next((one for one in profiles if one.interface_name in link.altnames and not one.external), None)
    if profile is None or (profile.interface_name in host.profiles.names):
        return None
    old = profile.interface_name or ""
    name = ("connection.id", link.name) if profile.id == old else ()
    undo = ("connection.id", old) if profile.id == old else ()
    lines = [command("nmcli", "con", "mod", "uuid", profile.uuid, "connection.interface-name", link.name, *name)]
    lines.append(command("nmcli", "con", "up", "uuid", profile.uuid))
    return link_finding(
        "warning" if has_address(link) else "critical",
        host,
        link,
        f"renamed from {old}; profile {quoted_name(profile.id)} uses the old name",
        evidence=(*profile_evidence(profile), _names(link), address_evidence(link)),
        why="NetworkManager ignores altnames: the profile matches no interface and is not used for this NIC.",
        fixes=(
            Fix(
                "here",
                f"Bind the profile to {link.name}",
                tuple(lines),
                True,
                (command("nmcli", "con", "mod", "uuid", profile.uuid, "connection.interface-name", old, *undo),),
            ),
            *_by_address(host, link),
        ),
    )


def _by_address(host: HostFacts, link: Link) -> Iterator[Fix]:
    """Bind the profile to the MAC address, which renaming does not change."""
    profile = next((one for one in host.profiles.profiles if one.interface_name in link.altnames), None)
    if profile is None or link.permanent_address is None or profile.mac_address is not None:
        return
    kind = profile.type
    lines = modify(host, profile, "connection.interface-name", "", f"{kind}.mac-address", link.permanent_address)
    undo = modify(host, profile, "connection.interface-name", profile.interface_name or "", f"{kind}.mac-address", "")
    yield Fix("here", "Bind the profile to the MAC address instead", (lines, bring_up(host, profile)), True, (undo,))


def _names(link: Link) -> Evidence:
    return Evidence("names", f"{link.name}; altnames {', '.join(link.altnames)}", "ip link")


def _old_stanza(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    entries = host.configuration.entries(link)
    if any(link.name in entry.names or entry.addresses for entry in entries if entry.owner in ADDRESSING):
        return None
    old = (entry for entry in entries if entry.owner in ("ifupdown", "ifcfg") and not entry.ignores)
    return next((entry for entry in old if any(name in link.altnames for name in entry.names)), None)


def _old_file(host: HostFacts, link: Link, entry: ConfigurationEntry) -> Finding:
    old = next(name for name in entry.names if name in link.altnames)
    return link_finding(
        "critical",
        host,
        link,
        f"renamed from {old}; {entry.owner} uses the old name",
        evidence=(Evidence("stanza", old, file_and_line(entry)), _names(link), address_evidence(link)),
        why="The name in the stanza is only an altname, so the NIC is not configured and has no address.",
        fixes=(_rewrite(entry, old, link), *_ifup(entry, link)),
    )


def _old_member(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """The stanza of a bridge, bond or VLAN that uses the link by an old name, and does not have it."""
    if any(one.kind == "vlan" and one.lower == link.ifindex for one in host.links):
        return None
    users = (one for one in host.configuration.stanzas if one.owner == "ifupdown" and one.members)
    return next((one for one in users if set(one.members).intersection(link.altnames)), None)


def _old_member_file(host: HostFacts, link: Link, entry: ConfigurationEntry) -> Finding:
    old = next(name for name in entry.members if name in link.altnames)
    user = entry.names[0]
    return link_finding(
        "critical",
        host,
        link,
        f"renamed from {old}; {user} uses the old name",
        evidence=(Evidence(f"stanza {user}", old, file_and_line(entry)), _names(link), _master_evidence(user)),
        why=f"The stanza of {user} names an interface that is not there: {user} is without this NIC.",
        fixes=(_rewrite(entry, old, link), *_attach(host, entry, link)),
    )


def _master_evidence(user: str) -> Evidence:
    return Evidence("port", f"not of {user}", "ip link")


def _attach(host: HostFacts, entry: ConfigurationEntry, link: Link) -> Iterator[Fix]:
    """Now: a bridge takes a port at once; the rest is for ifupdown."""
    above = host.links_by_name.get(entry.names[0])
    if above is not None and above.kind == "bridge":
        name = ("ip", "link", "set", "dev", link.name)
        change, up = command(*name, "master", above.name), command(*name, "up")
        yield Fix("here", f"Make it a port of {above.name} now", (change, up), False, (command(*name, "nomaster"),))
    elif host.inventory.services.proxmox is not None:
        yield Fix("here", "Apply now", (command("ifreload", "-a"),), None)
    else:
        note = f"ifdown and ifup of {entry.names[0]}: its connections are interrupted."
        yield Fix("here", "Apply now, or at the next boot", (), None, note=note)


def _rewrite(entry: ConfigurationEntry, old: str, new: Link) -> Fix:
    """GNU sed, whole words only; a name with other characters than letters and digits is left to the editor."""
    title = f"Use the current name in {entry.file}"
    if not (NIC_NAME.fullmatch(old) and NIC_NAME.fullmatch(new.name)):
        return Fix("here", title, (), True, note=f"Replace {old} by {new.name}.")
    change = command("sed", "-i", rf"s/\b{old}\b/{new.name}/g", entry.file)
    undo = command("sed", "-i", rf"s/\b{new.name}\b/{old}/g", entry.file)
    return Fix("here", title, (change,), True, (undo,), "Check the file afterwards.")


def _ifup(entry: ConfigurationEntry, link: Link) -> Iterator[Fix]:
    if entry.owner == "ifupdown":
        yield Fix(
            "here", f"Bring up {link.name} now", (command("ifup", link.name),), None, (command("ifdown", link.name),)
        )
    elif entry.owner == "netplan":
        yield Fix(
            "here", "Apply now", (command("netplan", "try"),), None, note="netplan try reverts unless you confirm."
        )


@host_rule(
    FAMILY,
    "critical",
    yields_to=("configuration_names_an_old_name", "profile_names_a_missing_interface", "networking_is_switched_off"),
    needs=("addresses",),
    uses=("configuration",),
)
def configuration_names_a_missing_link(host: HostFacts) -> Outcomes:
    """netplan, ifupdown or networkd configure an interface that does not exist, and a NIC is not configured.

    Usually the NIC had another name when the file was written: it was moved, replaced or passed through again. With
    ifupdown, networking.service fails too.

    Stanzas of bridges, bonds and VLANs that use such a name (bridge-ports, bond-slaves, vlan-raw-device, interfaces,
    link) count as well, if nothing else is there in its place; a warning while another NIC is in use. If a udev rule or
    .link file gives the name to a card that is gone, or a second one another name to this NIC, that is named as the
    cause.

    Reported for the NIC if it is the only one that is not configured and only one name is missing, otherwise for the
    missing names. Only exact names in the form of NIC names count: not bridges, bonds or VLANs, which are created by
    their own configuration, nor USB NICs named after their MAC address. Reported only if some NIC has no address, no
    profile and no stanza. A stanza without addresses (manual) counts only if no NIC of the host is in use.

    Sources: interfaces(5); netplan(5) match; openmediavault#1888; systemd#24102.
    """
    idle = unconfigured_nics(host) if any(entry.owner in FILE_OWNERS for entry in host.configuration.stanzas) else ()
    if not idle:
        return
    missing = _missing_members(host)
    is_connected = any(link.bus is not None and (has_address(link) or link.master is not None) for link in host.links)
    for entry in host.configuration.stanzas:
        if is_connected and set(entry.methods) <= {"manual"}:
            continue
        if entry.owner in FILE_OWNERS and not entry.addresses and not entry.ignores:
            names = (_base(name) for name in entry.names if is_of_a_nic(_base(name)))
            missing.update({name: entry for name in names if name not in host.links_by_name and name not in missing})
    if len(idle) == 1 and len(missing) == 1:
        ((old, entry),) = missing.items()
        severity: Severity = "warning" if is_connected and _is_member(entry, old) else "critical"
        yield _missing_of_one(host, entry, old, idle[0], severity=severity)
        return
    for old, entry in list(missing.items())[:MAX_NAMES]:
        title = f"configured by {entry.owner}, but does not exist"
        note = proposal(old, tuple(missing), idle)
        fix = Fix("here", f"Replace {old} in {entry.file} by the name of the NIC", (), True, note=note)
        yield host_finding(
            "warning" if is_connected and _is_member(entry, old) else "critical",
            host,
            old,
            title,
            evidence=(*_stanza(entry, old), *candidate_evidence(idle)),
            why=WHY_MISSING,
            fixes=(fix,),
        )


def _is_member(entry: ConfigurationEntry, name: str) -> bool:
    return name in map(_base, entry.members)


def _missing_of_one(host: HostFacts, entry: ConfigurationEntry, old: str, link: Link, *, severity: Severity) -> Finding:
    user = entry.names[0] if _is_member(entry, old) else None
    title = (
        f"not configured; {user} uses missing interface {old}"
        if user is not None
        else f"not configured; {entry.owner} configures missing interface {old}"
    )
    fixes = (_rewrite(entry, old, link), *(_ifup(entry, link) if user is None else _attach(host, entry, link)))
    evidence = (*_stanza(entry, old), address_evidence(link))
    why = WHY_MISSING
    cause = naming_cause(host, old, link)
    if cause is not None:
        fixes, evidence, why = (cause.fix, *fixes), (*evidence, cause.evidence), f"{WHY_MISSING} {cause.why}"
    return link_finding(severity, host, link, title, evidence=evidence, why=why, fixes=fixes)


def _missing_members(host: HostFacts) -> dict[str, ConfigurationEntry]:
    """Names of NICs that bridges, bonds and VLANs use in their stanzas, and that no link has, where a NIC is missing
    there: no other NIC is a port, or the VLAN does not exist."""
    found: dict[str, ConfigurationEntry] = {}
    for entry in host.configuration.stanzas:
        if entry.owner not in FILE_OWNERS or not entry.members or not entry.names or _has_a_nic(host, entry.names[0]):
            continue
        for name in map(_base, entry.members):
            if is_of_a_nic(name) and name not in host.links_by_name:
                found.setdefault(name, entry)
    return found


def _has_a_nic(host: HostFacts, name: str) -> bool:
    link = host.links_by_name.get(name)
    if link is None:
        return False
    return link.kind == "vlan" or any(one.bus is not None or one.kind in ("bond", "vlan", "team")
                                      for one in host.ports.get(link.ifindex, ()))  # fmt: skip


def _base(name: str) -> str:
    """``eno1.100`` → ``eno1``, the NIC below the VLAN."""
    base, dot, number = name.rpartition(".")
    return base if dot and number.isdecimal() else name


def is_of_a_nic(name: str) -> bool:
    return bool(EXACT_NAME.fullmatch(name) and NIC_NAME.fullmatch(name)) and USB_NIC_NAME.fullmatch(name) is None


def _stanza(entry: ConfigurationEntry, name: str) -> tuple[Evidence, ...]:
    return Evidence("stanza", name, file_and_line(entry)), Evidence("interface", "does not exist", "ip link")
