"""Profiles that NetworkManager generated, such as "Wired connection 1", in all their states."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.link_history import losses_after_the_first_carrier
from nictop.model.devices.links import global_addresses, has_global_address
from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DEACTIVATING,
    DISCONNECTED,
    UNAVAILABLE,
    UNMANAGED,
    has_failed,
)
from nictop.model.managers.profile_match import is_disconnected_by_user, is_in_memory
from nictop.model.text.words import count_noun
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import shell_quote
from nictop.rules.fixes.profiles import (
    ADDRESS_NOTE,
    bring_up,
    modify,
    new_profile,
    other_profiles,
    own_name,
    profile_evidence,
    quoted_name,
    rename,
    set_link_up,
    static_settings,
)
from nictop.rules.host import HostFacts
from nictop.rules.link.carrier_causes import CAUSES, nic_kind, plug_in_fixes
from nictop.rules.profiles.dhcp_attempts import dhcp_attempts
from nictop.rules.profiles.nics import (
    address_evidence,
    is_unassigned_vf,
    managed_nics,
    state_evidence,
    use_text,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

GENERATED_NAME = pattern(r"Wired connection \d{1,4}")
TEMPORARY = (
    " It is in /run only, as `nmcli con add` or `mod` with --temporary makes it: a reboot deletes "
    "it, or brings back the copy on disk."
)
SINCE_CREATED = "since it was created"
Case = tuple[Link, ManagedDevice, Profile]


@host_rule(
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
    """A NIC depends on a profile that NetworkManager generated: it is the active one, or the only
    one that matches.

    NetworkManager generates a profile for every Ethernet device without one: "Wired connection 1",
    in memory only, with DHCP. Without a DHCP server the NIC never gets an IPv4 address, between two
    attempts nmcli con show has no DEVICE for the profile, and nmcli con mod INTERFACE fails with
    "unknown connection".

    Detected by the flag NM_GENERATED of the profile (without VOLATILE and EXTERNAL, which mark
    devices configured outside NetworkManager), never by its name. Critical: the NIC has no address,
    and an attempt has failed, also while the next one is made. Warning: the NIC works, or DHCP is
    in progress and no failure was seen, the NIC is between two activations, or has lost its carrier
    since it is there. Info: the NIC is down or never had a carrier, or is a virtual
    function without an address whose physical function is on this host: it is not assigned to a
    guest yet, and those of a port in the same state are reported once. Not reported: NICs with
    another profile active, also one that only describes what was set outside NetworkManager
    ("connected (externally)"), and NICs that were disconnected manually.

    Without a carrier what is missing is the carrier, and no profile helps: the fix is that of the
    port.

    Modifying the profile saves it to disk and clears the flag; it need not be deleted. A profile of
    your own takes precedence (the generated one has autoconnect-priority -999), but is used only
    when it is next activated.

    Sources: NetworkManager.conf(5) no-auto-default; NetworkManager src/core/settings/nm-settings.c
    device_realized; community.general#8583; ushiboy/nmcli#35.
    """
    manager = host.profiles.manager
    if manager is None or not any(profile.generated for profile in manager.profiles):
        return
    waiting: dict[tuple[str, str], list[Case]] = {}
    for link, device, profile in _cases(host, manager):
        if is_unassigned_vf(host, link) and not has_global_address(link):
            physical = host.functions[link.pci_address or ""].physical_function or ""
            state = _state(host, link, device, profile)[1]
            waiting.setdefault((physical, state), []).append((link, device, profile))
        else:
            yield _generated(host, link, device, profile)
    for (link, device, profile), *others in waiting.values():
        finding = _generated(host, link, device, profile, is_assigned=False)
        if others:
            names = ", ".join(other.name for other, _, _ in others)
            also = names if len(others) == 1 else f"{len(others)} more VFs"
            evidence = Evidence("also affected", names, "NetworkManager")
            finding = replace(
                finding,
                title=f"{finding.title}; also {also}",
                evidence=(*finding.evidence, evidence),
                also=tuple((host.name, other.ifindex) for other, _, _ in others),
            )
        yield replace(finding, severity="info")


def _cases(host: HostFacts, manager: NetworkManager) -> Iterator[Case]:
    """NICs that depend on a generated profile, and that profile. A port of another link needs no
    profile: a VF below a Hyper-V NIC that has one is the business of `address_on_a_lower_link`."""
    for link in host.links:
        device = manager.devices.get(link.ifindex)
        if link.master is not None or device is None or device.state <= UNMANAGED:
            continue
        profile = host.profiles.generated(link)
        if profile is not None and _depends_on(host, link, device, profile):
            yield link, device, profile


def _depends_on(host: HostFacts, link: Link, device: ManagedDevice, profile: Profile) -> bool:
    """The NIC uses the profile, or has no other one."""
    if device.active_profile is not None:
        return device.active_profile == profile.uuid
    return not host.profiles.user_profiles(link) and not is_disconnected_by_user(device)


def _generated(
    host: HostFacts,
    link: Link,
    device: ManagedDevice,
    profile: Profile,
    *,
    is_assigned: bool = True,
) -> Finding:
    """`is_assigned`: not a virtual function that waits for a guest."""
    severity, title, outlook = _state(host, link, device, profile)
    own = host.profiles.user_profiles(link)
    static = not global_addresses(link, "ipv4")
    title = f"{title} {quoted_name(profile.id)}"
    fixes = [rename(host, link, profile, static=static)]
    effect = _nmcli_effect(host, link)
    why = f"{effect} This profile is in memory only (lost on reboot) and uses DHCP."
    if outlook and is_assigned:
        why += f" {outlook}"
    if not is_up(link):
        fixes.insert(0, set_link_up(link))
    elif _waits_for_carrier(link, device):  # no profile helps
        return link_finding(
            severity,
            host,
            link,
            title,
            evidence=(
                _carrier_evidence(link),
                *profile_evidence(profile),
                state_evidence(device),
            ),
            why=f"{CAUSES[nic_kind(host, link)].down} {why}",
            fixes=plug_in_fixes(host, link),
        )
    if own:
        first = own[0].profile
        title = f"uses auto-generated {quoted_name(profile.id)}, not your {quoted_name(first.id)}"
        fixes.insert(0, _activate_own(host, link, profile, first))
    else:
        fixes.append(new_profile(host, link, static=static, replaced=profile))
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
        why=why,
        fixes=tuple(fixes),
    )


def _waits_for_carrier(link: Link, device: ManagedDevice) -> bool:
    return device.state == UNAVAILABLE and link.carrier is False


def _carrier_evidence(link: Link) -> Evidence:
    value = "none"
    if link.carrier_changes is not None:
        value += f", {count_noun(link.carrier_changes, 'change')} {SINCE_CREATED}"
    return Evidence("carrier", value, f"ip -d -s link show dev {link.name}")


def _nmcli_effect(host: HostFacts, link: Link) -> str:
    """What ``nmcli con mod`` does with the name of a link whose profile has another name."""
    name = shell_quote(link.name)
    if host.profiles.ids.get(link.name):
        return (
            f"nmcli modifies profiles, not interfaces, so `nmcli con mod {name}` modifies "
            f"another profile."
        )
    return f"nmcli modifies profiles, not interfaces, so `nmcli con mod {name}` fails."


def _state(
    host: HostFacts, link: Link, device: ManagedDevice, profile: Profile
) -> tuple[Severity, str, str]:
    """(severity, title before the name of the profile, sentences about its attempts)."""
    uses = "uses the auto-generated profile"
    severity, state, outlook = _progress(host, link, device, profile)
    if not state:
        return severity, uses, outlook
    return severity, f"{state}; auto-generated profile", outlook


def _progress(
    host: HostFacts, link: Link, device: ManagedDevice, profile: Profile
) -> tuple[Severity, str, str]:
    """(severity, state of the NIC, sentences about its attempts); no state: the profile is active
    and nothing is missing."""
    needs_address = profile.ipv4.method == "auto" and not global_addresses(link, "ipv4")
    if device.state == UNAVAILABLE:
        return _unavailable(host, link)
    if device.state == ACTIVATED:
        if not needs_address:
            return "warning", "", ""
        severity: Severity = "warning" if has_global_address(link) else "critical"
        return severity, "no IPv4 address", ""
    attempts = dhcp_attempts(host, link, device, profile) if needs_address else None
    if attempts is not None:
        return attempts
    if has_failed(device.state, device.reason):
        return "critical", "activation failed", ""
    if device.state == DISCONNECTED:
        return "warning", "disconnected", ""
    if device.state == DEACTIVATING:
        return "warning", "being deactivated", ""
    return "warning", "being activated", ""


def _unavailable(host: HostFacts, link: Link) -> tuple[Severity, str, str]:
    """A port without a cable is no fault; one that has lost it was in use, also before it was
    watched."""
    if not is_up(link):
        return "info", "down", ""
    history = host.history_of(link)
    changes = link.carrier_changes or 0
    is_lost = link.carrier is False and losses_after_the_first_carrier(changes, has_carrier=False)
    if is_lost or (history is not None and history.new_losses):
        return "warning", "lost its carrier", ""
    return "info", "no carrier", ""


def _activate_own(host: HostFacts, link: Link, generated: Profile, own: Profile) -> Fix:
    lines, undo = [bring_up(host, own)], [bring_up(host, generated)]
    notes = ["NetworkManager does not switch the profile of an active NIC automatically."]
    if not own.autoconnect:
        lines.insert(0, modify(host, own, "connection.autoconnect", "yes"))
        undo.insert(0, modify(host, own, "connection.autoconnect", "no"))
    if own.ipv4.method == "auto" and not global_addresses(link, "ipv4"):
        lines.insert(0, modify(host, own, *static_settings(link)))
        undo.insert(0, modify(host, own, "ipv4.method", "auto", "ipv4.addresses", ""))
        notes.append(ADDRESS_NOTE)
    return Fix(
        "here",
        f"Activate your profile {quoted_name(own.id)}",
        tuple(lines),
        True,
        tuple(undo),
        " ".join(notes),
    )


@host_rule(
    "info",
    yields_to=(
        "two_profiles_compete",
        "dhcp_never_answered",
        "profile_failed",
        "configuration_names_an_old_name",
    ),
    uses=("networkmanager",),
)
def profile_still_called_wired_connection(host: HostFacts) -> Outcomes:
    """A profile of yours still has its auto-generated name, such as "Wired connection 1".

    The name does not identify the NIC, and the number differs from machine to machine: nmcli con
    mod with the interface's name finds no profile.

    Detected by the name of a profile that is active on a NIC, or is the first that matches it. The
    flag NM_GENERATED was cleared when the profile was edited. A profile with the flag is reported
    by profile_is_generated. A temporary profile (nmcli con add or mod with --temporary) is in /run
    only, and lost on reboot.

    Source: NetworkManager src/core/devices/nm-device-ethernet.c new_default_connection.
    """
    if not any(map(GENERATED_NAME.fullmatch, host.profiles.ids)):
        return
    for link, _ in managed_nics(host):
        profile = _profile_of(host, link)
        if profile is None or profile.generated or GENERATED_NAME.fullmatch(profile.id) is None:
            continue
        kind, note = "saved", ""
        if is_in_memory(profile):
            kind, note = "temporary", TEMPORARY
        yield link_finding(
            "info",
            host,
            link,
            f"{kind} profile has a generated name: {quoted_name(profile.id)}",
            evidence=(*profile_evidence(profile), address_evidence(link)),
            why=f"{_nmcli_effect(host, link)} The name does not show which NIC the profile is for."
            f"{note}",
            fixes=(own_name(host, link, profile),),
        )


@host_rule(
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

    nmcli selects profiles by name or UUID, not by interface. Warning: a profile with the name of
    the interface exists, but another one is active on the NIC, so commands modify the wrong
    profile. Info: no profile has that name ("unknown connection").

    Reported for NICs whose active profile was not generated, if its name does not contain that of
    the interface: "System eth0" and "cloud-init eth0" are clear. Not reported: ports of a bond or
    bridge.

    Sources: nmcli(1); ushiboy/nmcli#35; community.general#8583.
    """
    for link, device in managed_nics(host):
        profile = host.profiles.active(link)
        if profile is None or profile.generated or profile.external or profile.controller:
            continue
        if link.name in profile.id or any(name in profile.id for name in link.altnames):
            continue
        severity: Severity = "info"
        which = "none"
        if host.profiles.ids.get(link.name, 0) > 0:
            severity = "warning"
            which = "another one"
        use = use_text(device)
        yield link_finding(
            severity,
            host,
            link,
            f"profile {quoted_name(profile.id)} is {use}; {which} is named {link.name}",
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                *other_profiles(host, link, but=profile),
            ),
            why=_nmcli_effect(host, link),
            fixes=(own_name(host, link, profile),),
        )


def _profile_of(host: HostFacts, link: Link) -> Profile | None:
    """The profile that is active on a NIC, else the first that would be activated."""
    active = host.profiles.active(link)
    if active is not None:
        return active
    for match in host.profiles.user_profiles(link):
        if not match.wait_reason:
            return match.profile
    return None
