"""Profiles that NetworkManager made up: "Wired connection 1" and its kin, in all their states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from nictop.model.managers.networkmanager_states import ACTIVATED, DISCONNECTED, FAILED, UNAVAILABLE, UNMANAGED
from nictop.model.managers.profile_match import is_disconnected_by_user
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.profiles import (
    ADDRESS_PLACEHOLDER,
    bring_up,
    global_addresses,
    has_address,
    modify,
    new_profile,
    other_profiles,
    own_name,
    profile_evidence,
    quoted_name,
    rename,
    static_settings,
)
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import address_evidence, is_waiting_vf, managed_nics, state_evidence
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import link_finding

FAMILY: Family = "profiles and names"
MADE_UP_NAME = re.compile(r"Wired connection \d{1,4}")
Case = tuple[Link, ManagedDevice, Profile]
WHY_GENERATED = (
    "nmcli changes profiles, not interfaces: nmcli con mod with the interface's name finds nothing. "
    "The profile is gone at the next reboot, and asks DHCP, whatever your network has."
)


@host_rule(
    FAMILY,
    "critical",
    yields_to=(
        "profile_names_a_missing_interface",
        "profile_names_a_missing_mac_address",
        "configuration_names_an_old_name",
    ),
    needs=("pci.physical_function",),
    uses=("networkmanager",),
)
def profile_is_generated(host: HostFacts) -> Outcomes:
    """A NIC depends on a profile that NetworkManager made up, because none of yours fits it.

    NetworkManager gives every Ethernet device without a profile one of its own, "Wired connection 1", kept in memory
    only and set to DHCP. Where there is no DHCP the NIC never gets an address, nmcli con show has no DEVICE beside
    the profile, and nmcli con mod INTERFACE answers "unknown connection".

    Known from the flag NM_GENERATED of the profile (without VOLATILE and EXTERNAL, which mark descriptions of what
    others set up), never from its name. Critical: the NIC has no address, and DHCP was given up or failed. Warning: it
    works, or DHCP is still being tried. Info: the link has no carrier, or is a virtual function without an address
    whose physical function is on this host: it has no guest yet, and is told once for all of its port. Silent when one
    of your profiles runs the NIC: the made-up one is only a leftover then, and when the NIC was disconnected by hand.

    Changing the profile saves it to disk and clears the flag; it need not be deleted. A profile of your own wins over
    it (autoconnect-priority -999), but takes over only when it is brought up.

    Sources: NetworkManager.conf(5) no-auto-default; NetworkManager src/core/settings/nm-settings.c device_realized;
    community.general#8583; ushiboy/nmcli#35.
    """
    manager = host.profiles.manager
    if manager is None or not any(profile.generated for profile in manager.profiles):
        return
    waiting: dict[str, list[Case]] = {}
    for link, device, profile in _cases(host, manager):
        if is_waiting_vf(host, link) and not has_address(link):
            physical = host.functions[link.pci_address or ""].physical_function or ""
            waiting.setdefault(physical, []).append((link, device, profile))
        else:
            yield _generated(host, link, device, profile)
    for (link, device, profile), *others in waiting.values():
        finding = _generated(host, link, device, profile)
        names = ", ".join(other.name for other, _, _ in others)
        also = (Evidence("as well", names, "NetworkManager"),) if others else ()
        yield replace(finding, severity="info", evidence=(*finding.evidence, *also))


def _cases(host: HostFacts, manager: NetworkManager) -> Iterator[Case]:
    """NICs that depend on a made-up profile, and that profile."""
    for link in host.links:
        device = manager.devices.get(link.ifindex)
        profile = host.profiles.generated(link) if device is not None and device.state > UNMANAGED else None
        if device is None or profile is None:
            continue
        active = host.profiles.active(link)
        if active is not None and active.uuid != profile.uuid and not active.external:
            continue
        if active is None and (host.profiles.user_profiles(link) or is_disconnected_by_user(device)):
            continue
        yield link, device, profile


def _generated(host: HostFacts, link: Link, device: ManagedDevice, profile: Profile) -> Finding:
    severity, title = _state(link, device, profile)
    proper = host.profiles.user_profiles(link)
    active = host.profiles.active(link)
    by_hand = active is not None and active.external
    if by_hand:
        severity, title = "warning", f"was set up by hand, and has only the made-up {quoted_name(profile.id)}"
    static = by_hand or not global_addresses(link)
    fixes: tuple[Fix, ...]
    if by_hand:  # a new profile of the interface's name could not be told from the description
        fixes = (rename(host, link, profile, static=True),)
    elif proper:
        title = f"runs on the made-up {quoted_name(profile.id)}, not on your {quoted_name(proper[0].profile.id)}"
        fixes = (_take_over(host, link, profile, proper[0].profile), rename(host, link, profile, static=static))
    else:
        fixes = (
            rename(host, link, profile, static=static),
            new_profile(host, link, static=static, replaced=profile),
        )
    return link_finding(
        severity,
        host,
        link,
        title,
        evidence=(
            *profile_evidence(profile),
            Evidence("made by", "NetworkManager itself", "NetworkManager: Settings.Connection.Flags, NM_GENERATED"),
            state_evidence(device),
            address_evidence(link),
            *other_profiles(host, link, but=profile),
        ),
        why=WHY_GENERATED,
        fixes=fixes,
    )


def _state(link: Link, device: ManagedDevice, profile: Profile) -> tuple[Severity, str]:
    name = quoted_name(profile.id)
    if device.state == UNAVAILABLE:
        return "info", f"has no carrier, and only the made-up profile {name}"
    if device.state == ACTIVATED:
        if global_addresses(link) or profile.ipv4.method != "auto":
            return "warning", f"is run by {name}, a profile NetworkManager made up"
        severity: Severity = "warning" if has_address(link) else "critical"
        return severity, f"gets no IPv4 address by {name}, which NetworkManager made up"
    if device.state not in (DISCONNECTED, FAILED):
        return "warning", f"waits for DHCP by {name}, which NetworkManager made up"
    return "critical", f"has no address: DHCP by {name} failed, a made-up profile"


def _take_over(host: HostFacts, link: Link, generated: Profile, proper: Profile) -> Fix:
    lines, undo = [bring_up(host, proper)], [bring_up(host, generated)]
    notes = ["NetworkManager does not change the profile of a NIC that is up by itself."]
    if not proper.autoconnect:
        lines.insert(0, modify(host, proper, "connection.autoconnect", "yes"))
        undo.insert(0, modify(host, proper, "connection.autoconnect", "no"))
    if proper.ipv4.method == "auto" and not global_addresses(link):
        lines.insert(0, modify(host, proper, *static_settings(link)))
        undo.insert(0, modify(host, proper, "ipv4.method", "auto", "ipv4.addresses", ""))
        notes.append(f"Put the address in for {ADDRESS_PLACEHOLDER}, as DHCP gives none.")
    return Fix("here", "let your own profile take over", tuple(lines), True, tuple(undo), " ".join(notes))


@host_rule(
    FAMILY,
    "info",
    yields_to=("two_profiles_compete", "dhcp_never_answered", "profile_failed", "configuration_names_an_old_name"),
    uses=("networkmanager",),
)
def profile_still_called_wired_connection(host: HostFacts) -> Outcomes:
    """A profile was made up by NetworkManager, then edited and saved, but is still called "Wired connection 1".

    The name says nothing of the NIC, and the number changes from machine to machine: nmcli con mod with the
    interface's name finds no profile.

    Known from the name of a saved profile that runs a NIC, or is the first that fits it. The flag NM_GENERATED is
    gone since the profile was edited. A profile with the flag is reported as generated instead.

    Source: NetworkManager src/core/devices/nm-device-ethernet.c new_default_connection.
    """
    for link, _ in managed_nics(host):
        profile = _profile_of(host, link)
        if profile is None or profile.generated or MADE_UP_NAME.fullmatch(profile.id) is None:
            continue
        yield link_finding(
            "info",
            host,
            link,
            f"has a profile of yours that is still called {quoted_name(profile.id)}",
            evidence=(*profile_evidence(profile), address_evidence(link)),
            why=f"nmcli con mod {link.name} finds no profile, and the name does not tell which NIC it is for.",
            fixes=(own_name(host, link, profile),),
        )


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "profile_still_called_wired_connection",
        "two_profiles_compete",
        "dhcp_never_answered",
        "profile_failed",
        "configuration_names_an_old_name",
    ),
    uses=("networkmanager",),
)
def no_profile_of_this_name(host: HostFacts) -> Outcomes:
    """nmcli con mod with the name of this interface finds no profile, or that of another interface.

    nmcli addresses profiles by their own name or UUID, not by interface. Warning: a profile of that name exists, but
    another one runs the NIC, so that what is typed changes the wrong one. Info: there is none of that name
    ("unknown connection").

    Only for NICs whose active profile somebody wrote and whose name does not contain the interface's: "System eth0" or
    "cloud-init eth0" explain themselves. Ports of a bond or bridge are left out.

    Sources: nmcli(1); ushiboy/nmcli#35; community.general#8583.
    """
    for link, _ in managed_nics(host):
        profile = host.profiles.active(link)
        if profile is None or profile.generated or profile.external or profile.controller:
            continue
        if link.name in profile.id or any(altname in profile.id for altname in link.altnames):
            continue
        other = host.profiles.ids.get(link.name, 0) > 0
        effect = "would change another profile" if other else "finds no profile"
        yield link_finding(
            "warning" if other else "info",
            host,
            link,
            f"is run by {quoted_name(profile.id)}: nmcli con mod {link.name} {effect}",
            evidence=(*profile_evidence(profile), *other_profiles(host, link, but=profile)),
            why="nmcli changes profiles by their own name, which need not be that of the interface.",
            fixes=(own_name(host, link, profile),),
        )


def _profile_of(host: HostFacts, link: Link) -> Profile | None:
    """The profile that runs a NIC, else the first that would."""
    active = host.profiles.active(link)
    if active is not None:
        return active
    return next((match.profile for match in host.profiles.user_profiles(link) if not match.wait_reason), None)
