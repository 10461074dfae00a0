"""Configuration with interface names that were changed, or that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from nictop.model.devices.links import has_global_address
from nictop.model.managers.configuration import ADDRESSING, file_and_line
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import ConfigurationEntry, Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import bring_up, modify, profile_evidence, quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.profiles.candidates import candidate_evidence, proposal
from nictop.rules.profiles.naming_files import naming_cause
from nictop.rules.profiles.nics import (
    address_evidence,
    has_nic_without_interface,
    managed_nics,
    nics,
    unconfigured_nics,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

EXACT_NAME = pattern(r"[^*?\[\]!]+")
NIC_NAME = pattern(r"(?:en|eth|ib)[a-zA-Z]*[0-9][a-zA-Z0-9]*")
"""Names that udev or the kernel assign to NICs; bridges, bonds and VLANs are created by their
configuration."""
USB_NIC_NAME = pattern(r"enx[0-9a-f]{12}")
"""Name of a USB NIC, by its MAC address; it may be unplugged."""
FILE_OWNERS = ("netplan", "ifupdown", "networkd", "ifcfg")
MAX_NAMES = 3
WHY_MISSING = "The configured interface does not exist, and a NIC of this host has no address."


@host_rule("critical", uses=("configuration", "networkmanager"))
def configuration_names_an_old_name(host: HostFacts) -> Outcomes:
    """A NIC was renamed, but its profile or a configuration file still uses the old name, which is
    now only an altname.

    Added or removed cards, another slot, PCIe hotplug, a new kernel or a new driver change
    predictable names (ens18 becomes enp6s18, f0 becomes f0np0). The old name often remains as an
    altname: ip link accepts it, but NetworkManager compares profiles with the current name only,
    and ifcfg files and most versions of ifupdown do so, too.

    Reported for a NetworkManager profile that is bound to an altname of a NIC that no profile
    matches, for an ifupdown or ifcfg stanza with that name if the NIC has no address, and for one
    that uses the NIC by that name (bridge-ports, bond-slaves, vlan-raw-device) while it is neither
    a port nor below a VLAN. netplan and systemd-networkd support altnames.

    Sources: NetworkManager src/core/devices/nm-device.c; systemd.net-naming-scheme(7);
    systemd#24102; openmediavault#1888; harvester#9877, #9802; home-assistant/os#2174.
    """
    seen: set[int] = set()
    for link, _ in managed_nics(host):
        profile = _old_profile(host, link)
        if profile is not None and not host.profiles.user_profiles(link):
            seen.add(link.ifindex)
            yield _old_profile_finding(host, link, profile)
    for link in nics(host):
        if not link.altnames or link.ifindex in seen or has_global_address(link):
            continue
        user = _old_member(host, link)
        if user is not None:
            yield _old_member_file(host, link, user)
            continue
        entry = _old_stanza(host, link)
        if entry is not None:
            yield _old_file(host, link, entry)


def _old_profile(host: HostFacts, link: Link) -> Profile | None:
    """The first profile that is bound to an altname of the link; None: there is none, or the
    altname is the name of another interface."""
    if not any(map(host.profiles.is_named, link.altnames)):
        return None
    for profile in host.profiles.profiles:
        if profile.interface_name in link.altnames and not profile.external:
            return None if profile.interface_name in host.profiles.names else profile
    return None


def _old_profile_finding(host: HostFacts, link: Link, profile: Profile) -> Finding:
    old = profile.interface_name or ""
    modify_profile = ("nmcli", "con", "mod", "uuid", profile.uuid)
    change = ["connection.interface-name", link.name]
    undo = ["connection.interface-name", old]
    if profile.id == old:
        change += ["connection.id", link.name]
        undo += ["connection.id", old]
    up = command("nmcli", "con", "up", "uuid", profile.uuid)
    bind = Fix(
        "here",
        f"Bind the profile to {link.name}",
        (command(*modify_profile, *change), up),
        True,
        (command(*modify_profile, *undo),),
    )
    return link_finding(
        "warning" if has_global_address(link) else "critical",
        host,
        link,
        f"renamed from {old}; profile {quoted_name(profile.id)} uses the old name",
        evidence=(*profile_evidence(profile), _names(link), address_evidence(link)),
        why="NetworkManager ignores altnames: the profile matches no interface and is not used "
        "for this NIC.",
        fixes=(bind, *_by_address(host, link)),
    )


def _by_address(host: HostFacts, link: Link) -> Iterator[Fix]:
    """Bind the profile to the MAC address, which renaming does not change."""
    profiles = host.profiles.profiles
    named = [profile for profile in profiles if profile.interface_name in link.altnames]
    address = link.permanent_address
    if not named or address is None:
        return
    profile = named[0]
    if profile.mac_address is not None:
        return
    old = profile.interface_name or ""
    name, mac_address = "connection.interface-name", f"{profile.type}.mac-address"
    change = modify(host, profile, name, "", mac_address, address)
    undo = modify(host, profile, name, old, mac_address, "")
    yield Fix(
        "here",
        "Bind the profile to the MAC address instead",
        (change, bring_up(host, profile)),
        True,
        (undo,),
    )


def _names(link: Link) -> Evidence:
    return Evidence("names", f"{link.name}; altnames {', '.join(link.altnames)}", "ip link")


def _old_stanza(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """The stanza with an altname of the link, if none applies to the link itself."""
    entries = host.configuration.entries(link)
    for entry in entries:
        applies = link.name in entry.names or entry.addresses
        if entry.owner in ADDRESSING and applies:
            return None
    for entry in entries:
        if entry.owner not in ("ifupdown", "ifcfg") or entry.ignores:
            continue
        if _first_of(entry.names, link.altnames) is not None:
            return entry
    return None


def _first_of(names: Iterable[str], wanted: Collection[str]) -> str | None:
    """The first of the names that is wanted."""
    for name in names:
        if name in wanted:
            return name
    return None


def _old_file(host: HostFacts, link: Link, entry: ConfigurationEntry) -> Finding:
    old = _first_of(entry.names, link.altnames) or ""
    return link_finding(
        "critical",
        host,
        link,
        f"renamed from {old}; {entry.owner} uses the old name",
        evidence=(
            Evidence("stanza", old, file_and_line(entry)),
            _names(link),
            address_evidence(link),
        ),
        why="The name in the stanza is only an altname now, by which not every program finds a "
        "NIC, and this one has no address.",
        fixes=(_rewrite(entry, old, link), *_ifup(entry, link)),
    )


def _old_member(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """The stanza of a bridge, bond or VLAN that uses the link by an old name, and does not have
    it."""
    if any(vlan.lower == link.ifindex for vlan in host.links_by_kind.get("vlan", ())):
        return None
    for stanza in host.configuration.stanzas:
        if stanza.owner == "ifupdown" and _first_of(stanza.members, link.altnames) is not None:
            return stanza
    return None


def _old_member_file(host: HostFacts, link: Link, entry: ConfigurationEntry) -> Finding:
    old = _first_of(entry.members, link.altnames) or ""
    user = entry.names[0]
    return link_finding(
        "critical",
        host,
        link,
        f"renamed from {old}; {user} uses the old name",
        evidence=(
            Evidence(f"stanza {user}", old, file_and_line(entry)),
            _names(link),
            _master_evidence(user),
        ),
        why=f"The stanza of {user} has a name of this NIC that is only an altname now, and {user} "
        f"is without this NIC.",
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
        yield Fix(
            "here",
            f"Make it a port of {above.name} now",
            (change, up),
            False,
            (command(*name, "nomaster"),),
        )
    elif host.inventory.services.proxmox is not None:
        yield Fix("here", "Apply now", (command("ifreload", "-a"),), None)
    else:
        note = f"ifdown and ifup of {entry.names[0]}: its connections are interrupted."
        yield Fix("here", "Apply now, or at the next boot", (), None, note=note)


def _rewrite(entry: ConfigurationEntry, old: str, new: Link) -> Fix:
    """GNU sed, whole words only; a name with other characters than letters and digits is left to
    the editor."""
    title = f"Use the current name in {entry.file}"
    if not (NIC_NAME.fullmatch(old) and NIC_NAME.fullmatch(new.name)):
        return Fix("here", title, (), True, note=f"Replace {old} by {new.name}.")
    change = command("sed", "-i", rf"s/\b{old}\b/{new.name}/g", entry.file)
    undo = command("sed", "-i", rf"s/\b{new.name}\b/{old}/g", entry.file)
    return Fix("here", title, (change,), True, (undo,), "Check the file afterwards.")


def _ifup(entry: ConfigurationEntry, link: Link) -> Iterator[Fix]:
    if entry.owner == "ifupdown":
        yield Fix(
            "here",
            f"Bring up {link.name} now",
            (command("ifup", link.name),),
            None,
            (command("ifdown", link.name),),
        )
    elif entry.owner == "netplan":
        yield Fix(
            "here",
            "Apply now",
            (command("netplan", "try"),),
            None,
            note="netplan try reverts unless you confirm.",
        )


@host_rule(
    "critical",
    yields_to=(
        "configuration_names_an_old_name",
        "profile_names_a_missing_interface",
        "networking_is_switched_off",
    ),
    needs=("addresses",),
    uses=("configuration",),
)
def configuration_names_a_missing_link(host: HostFacts) -> Outcomes:
    """netplan, ifupdown or networkd configure an interface that does not exist, and a NIC is not
    configured.

    Usually the NIC had another name when the file was written: it was moved, replaced or passed
    through again. With ifupdown and auto, networking.service fails too.

    Stanzas of bridges, bonds and VLANs that use such a name (bridge-ports, bond-slaves,
    vlan-raw-device, interfaces, link) count as well, if nothing else is there in its place; a
    warning while another NIC is in use. If a udev rule or .link file gives the name to a card that
    is gone, or a second one another name to this NIC, that is named as the cause.

    Reported for the NIC if it is the only one that is not configured and only one name is missing,
    otherwise for the missing names. Only exact names in the form of NIC names count: not bridges,
    bonds or VLANs, which are created by their own configuration, nor USB NICs named after their MAC
    address. Reported only if some NIC has no address, no profile and no stanza. A stanza without
    addresses (manual) counts only if no NIC of the host is in use. Not reported while a NIC has no
    driver: the name may be that of its interface.

    Sources: interfaces(5); netplan(5) match; openmediavault#1888; systemd#24102.
    """
    owners = {stanza.owner for stanza in host.configuration.stanzas}
    if owners.isdisjoint(FILE_OWNERS):
        return
    idle = unconfigured_nics(host)
    if not idle or has_nic_without_interface(host):
        return
    is_connected = any(map(_is_connected, host.links))
    missing = _missing_members(host)
    for name, entry in _missing_names(host, is_connected=is_connected):
        missing.setdefault(name, entry)
    if len(idle) == 1 and len(missing) == 1:
        ((old, entry),) = missing.items()
        severity = _severity(entry, old, is_connected=is_connected)
        yield _missing_of_one(host, entry, old, idle[0], severity=severity)
        return
    for old, entry in list(missing.items())[:MAX_NAMES]:
        title = f"Replace {old} in {entry.file} by the name of the NIC"
        note = proposal(old, tuple(missing), idle)
        yield host_finding(
            _severity(entry, old, is_connected=is_connected),
            host,
            old,
            f"configured by {entry.owner}, but does not exist",
            evidence=(*_stanza(entry, old), *candidate_evidence(idle)),
            why=WHY_MISSING,
            fixes=(Fix("here", title, (), True, note=note),),
        )


def _is_connected(link: Link) -> bool:
    """A NIC with an address, or a port."""
    if link.bus is None:
        return False
    return has_global_address(link) or link.master is not None


def _severity(entry: ConfigurationEntry, name: str, *, is_connected: bool) -> Severity:
    """Of a missing member of a bridge, bond or VLAN: a warning while a NIC is in use."""
    if is_connected and _is_member(entry, name):
        return "warning"
    return "critical"


def _missing_names(
    host: HostFacts, *, is_connected: bool
) -> Iterator[tuple[str, ConfigurationEntry]]:
    """Names of NICs that stanzas configure and no link has. One without addresses (manual) counts
    only if no NIC is in use."""
    for entry in host.configuration.stanzas:
        if entry.owner not in FILE_OWNERS or entry.addresses or entry.ignores:
            continue
        if is_connected and set(entry.methods) <= {"manual"}:
            continue
        for name in map(_base, entry.names):
            if _is_missing_nic(host, name):
                yield name, entry


def _is_member(entry: ConfigurationEntry, name: str) -> bool:
    return name in map(_base, entry.members)


def _missing_of_one(
    host: HostFacts, entry: ConfigurationEntry, old: str, link: Link, *, severity: Severity
) -> Finding:
    evidence = [*_stanza(entry, old), address_evidence(link)]
    fixes = [_rewrite(entry, old, link)]
    if _is_member(entry, old):
        title = f"not configured; {entry.names[0]} uses missing interface {old}"
        fixes += _attach(host, entry, link)
    else:
        title = f"not configured; {entry.owner} configures missing interface {old}"
        fixes += _ifup(entry, link)
    why = WHY_MISSING
    cause = naming_cause(host, old, link)
    if cause is not None:
        fixes = [cause.fix, *fixes]
        evidence.append(cause.evidence)
        why = f"{WHY_MISSING} {cause.why}"
    return link_finding(
        severity, host, link, title, evidence=tuple(evidence), why=why, fixes=tuple(fixes)
    )


def _missing_members(host: HostFacts) -> dict[str, ConfigurationEntry]:
    """Names of NICs that bridges, bonds and VLANs use in their stanzas, and that no link has, where
    a NIC is missing there: no other NIC is a port, or the VLAN does not exist."""
    found: dict[str, ConfigurationEntry] = {}
    for entry in host.configuration.stanzas:
        if entry.owner not in FILE_OWNERS or not entry.members or not entry.names:
            continue
        if _has_a_nic(host, entry.names[0]):
            continue
        for name in map(_base, entry.members):
            if _is_missing_nic(host, name):
                found.setdefault(name, entry)
    return found


def _has_a_nic(host: HostFacts, name: str) -> bool:
    link = host.links_by_name.get(name)
    if link is None:
        return False
    if link.kind == "vlan":
        return True
    for port in host.ports_of(link):
        if port.bus is not None or port.kind in ("bond", "vlan", "team"):
            return True
    return False


def _base(name: str) -> str:
    """``eno1.100`` → ``eno1``, the NIC below the VLAN."""
    base, dot, number = name.rpartition(".")
    return base if dot and number.isdecimal() else name


def _is_missing_nic(host: HostFacts, name: str) -> bool:
    return is_of_a_nic(name) and name not in host.links_by_name


def is_of_a_nic(name: str) -> bool:
    """It has the form of the names of NICs."""
    if USB_NIC_NAME.fullmatch(name) is not None:
        return False
    return bool(EXACT_NAME.fullmatch(name) and NIC_NAME.fullmatch(name))


def _stanza(entry: ConfigurationEntry, name: str) -> tuple[Evidence, ...]:
    return Evidence("stanza", name, file_and_line(entry)), Evidence(
        "interface", "does not exist", "ip link"
    )
