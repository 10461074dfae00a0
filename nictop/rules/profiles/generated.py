"""Profiles that NetworkManager generated, such as "Wired connection 1", in all their states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from nictop.model.managers.networkmanager_states import ACTIVATED, DISCONNECTED, FAILED, UNAVAILABLE, UNMANAGED
from nictop.model.managers.profile_match import is_disconnected_by_user, is_in_memory
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import shell_quote
from nictop.rules.fixes.profiles import (
    ADDRESS_NOTE,
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
from nictop.rules.profiles.nics import address_evidence, is_unassigned_vf, managed_nics, state_evidence
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import link_finding

FAMILY: Family = "profiles and names"
GENERATED_NAME = re.compile(r"Wired connection \d{1,4}")
TEMPORARY = (
    " It is in /run only, from `nmcli con add` or `mod` with --temporary: a reboot deletes it, or brings back the copy "
    "on disk."
)
Case = tuple[Link, ManagedDevice, Profile]


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
    """A NIC uses a profile that NetworkManager generated, because no other profile matches it.

    NetworkManager generates a profile for every Ethernet device without one: "Wired connection 1", in memory only, with
    DHCP. Without a DHCP server the NIC never gets an address, nmcli con show has no DEVICE for the profile, and nmcli
    con mod INTERFACE fails with "unknown connection".

    Detected by the flag NM_GENERATED of the profile (without VOLATILE and EXTERNAL, which mark devices configured
    outside NetworkManager), never by its name. Critical: the NIC has no address, and DHCP timed out or failed, also
    while it is retried. Warning: the NIC works, or DHCP is in progress for the first time. Info: the NIC has no
    carrier, or is a virtual function without an address whose physical function is on this host: it is not assigned to
    a guest yet, and is reported once per port. Not reported: NICs with one of your profiles active, and NICs that were
    disconnected manually.

    Modifying the profile saves it to disk and clears the flag; it need not be deleted. A profile of your own takes
    precedence (the generated one has autoconnect-priority -999), but is used only when it is next activated.

    Sources: NetworkManager.conf(5) no-auto-default; NetworkManager src/core/settings/nm-settings.c device_realized;
    community.general#8583; ushiboy/nmcli#35.
    """
    manager = host.profiles.manager
    if manager is None or not any(profile.generated for profile in manager.profiles):
        return
    waiting: dict[str, list[Case]] = {}
    for link, device, profile in _cases(host, manager):
        if is_unassigned_vf(host, link) and not has_address(link):
            physical = host.functions[link.pci_address or ""].physical_function or ""
            waiting.setdefault(physical, []).append((link, device, profile))
        else:
            yield _generated(host, link, device, profile)
    for (link, device, profile), *others in waiting.values():
        finding = _generated(host, link, device, profile)
        names = ", ".join(other.name for other, _, _ in others)
        also = (Evidence("also affected", names, "NetworkManager"),) if others else ()
        yield replace(finding, severity="info", evidence=(*finding.evidence, *also))


def _cases(host: HostFacts, manager: NetworkManager) -> Iterator[Case]:
    """NICs that depend on a generated profile, and that profile. A port of another link needs no profile: a VF below a
    Hyper-V NIC that has one is the business of `address_on_a_lower_link`."""
    for link in host.links:
        if link.master is not None:
            continue
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
    severity, title = _state(link, device, profile, has_failed=link.ifindex in host.snapshot.without_lease)
    own = host.profiles.user_profiles(link)
    active = host.profiles.active(link)
    external = active is not None and active.external
    if external:
        severity, title = "warning", f"configured externally; auto-generated profile {quoted_name(profile.id)}"
    static = external or not global_addresses(link)
    fixes: tuple[Fix, ...]
    if external:  # NetworkManager's profile for the external configuration has the interface's name, too
        fixes = (rename(host, link, profile, static=True),)
    elif own:
        title = f"uses auto-generated {quoted_name(profile.id)}, not your {quoted_name(own[0].profile.id)}"
        fixes = (_activate_own(host, link, profile, own[0].profile), rename(host, link, profile, static=static))
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
            Evidence(
                "created by",
                "NetworkManager (auto-generated)",
                "NetworkManager: Settings.Connection.Flags, NM_GENERATED",
            ),
            state_evidence(device),
            address_evidence(link),
            *other_profiles(host, link, but=profile),
        ),
        why=f"{_nmcli_effect(host, link)} This profile is in memory only (lost on reboot) and uses DHCP.",
        fixes=fixes,
    )


def _nmcli_effect(host: HostFacts, link: Link) -> str:
    """What ``nmcli con mod`` does with the name of a link whose profile has another name."""
    name = shell_quote(link.name)
    if host.profiles.ids.get(link.name):
        return f"nmcli modifies profiles, not interfaces, so `nmcli con mod {name}` modifies another profile."
    return f"nmcli modifies profiles, not interfaces, so `nmcli con mod {name}` fails."


def _state(link: Link, device: ManagedDevice, profile: Profile, *, has_failed: bool) -> tuple[Severity, str]:
    """(severity, title). `has_failed`: the last activation ended without an address."""
    name = quoted_name(profile.id)
    if device.state == UNAVAILABLE:
        return "info", f"no carrier; auto-generated profile {name}"
    if device.state == ACTIVATED:
        if global_addresses(link) or profile.ipv4.method != "auto":
            return "warning", f"uses the auto-generated profile {name}"
        severity: Severity = "warning" if has_address(link) else "critical"
        return severity, f"no IPv4 address; auto-generated profile {name}"
    if device.state not in (DISCONNECTED, FAILED) and not has_failed:
        return "warning", f"no DHCP reply yet; auto-generated profile {name}"
    return "critical", f"DHCP failed; auto-generated profile {name}"


def _activate_own(host: HostFacts, link: Link, generated: Profile, own: Profile) -> Fix:
    lines, undo = [bring_up(host, own)], [bring_up(host, generated)]
    notes = ["NetworkManager does not switch the profile of an active NIC automatically."]
    if not own.autoconnect:
        lines.insert(0, modify(host, own, "connection.autoconnect", "yes"))
        undo.insert(0, modify(host, own, "connection.autoconnect", "no"))
    if own.ipv4.method == "auto" and not global_addresses(link):
        lines.insert(0, modify(host, own, *static_settings(link)))
        undo.insert(0, modify(host, own, "ipv4.method", "auto", "ipv4.addresses", ""))
        notes.append(ADDRESS_NOTE)
    return Fix("here", f"Activate your profile {quoted_name(own.id)}", tuple(lines), True, tuple(undo), " ".join(notes))


@host_rule(
    FAMILY,
    "info",
    yields_to=("two_profiles_compete", "dhcp_never_answered", "profile_failed", "configuration_names_an_old_name"),
    uses=("networkmanager",),
)
def profile_still_called_wired_connection(host: HostFacts) -> Outcomes:
    """A profile of yours still has its auto-generated name, such as "Wired connection 1".

    The name does not identify the NIC, and the number differs from machine to machine: nmcli con mod with the
    interface's name finds no profile.

    Detected by the name of a profile that is active on a NIC, or is the first that matches it. The flag NM_GENERATED
    was cleared when the profile was edited. A profile with the flag is reported by profile_is_generated. A temporary
    profile (nmcli con add or mod with --temporary) is in /run only, and lost on reboot.

    Source: NetworkManager src/core/devices/nm-device-ethernet.c new_default_connection.
    """
    for link, _ in managed_nics(host):
        profile = _profile_of(host, link)
        if profile is None or profile.generated or GENERATED_NAME.fullmatch(profile.id) is None:
            continue
        temporary = is_in_memory(profile)
        yield link_finding(
            "info",
            host,
            link,
            f"{'temporary' if temporary else 'saved'} profile has a generated name: {quoted_name(profile.id)}",
            evidence=(*profile_evidence(profile), address_evidence(link)),
            why=f"{_nmcli_effect(host, link)} The name does not show which NIC the profile is for."
            f"{TEMPORARY if temporary else ''}",
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

    nmcli selects profiles by name or UUID, not by interface. Warning: a profile with the name of the interface exists,
    but another one is active on the NIC, so commands modify the wrong profile. Info: no profile has that name ("unknown
    connection").

    Reported for NICs whose active profile was not generated, if its name does not contain that of the interface:
    "System eth0" and "cloud-init eth0" are clear. Not reported: ports of a bond or bridge.

    Sources: nmcli(1); ushiboy/nmcli#35; community.general#8583.
    """
    for link, _ in managed_nics(host):
        profile = host.profiles.active(link)
        if profile is None or profile.generated or profile.external or profile.controller:
            continue
        if link.name in profile.id or any(altname in profile.id for altname in link.altnames):
            continue
        other = host.profiles.ids.get(link.name, 0) > 0
        yield link_finding(
            "warning" if other else "info",
            host,
            link,
            f"active profile is {quoted_name(profile.id)}; {'another one' if other else 'none'} is named {link.name}",
            evidence=(*profile_evidence(profile), *other_profiles(host, link, but=profile)),
            why=_nmcli_effect(host, link),
            fixes=(own_name(host, link, profile),),
        )


def _profile_of(host: HostFacts, link: Link) -> Profile | None:
    """The profile that is active on a NIC, else the first that would be activated."""
    active = host.profiles.active(link)
    if active is not None:
        return active
    return next((match.profile for match in host.profiles.user_profiles(link) if not match.wait_reason), None)
