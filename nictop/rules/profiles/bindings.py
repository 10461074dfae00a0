"""Profiles that conflict on a NIC, or are bound to an interface name or a MAC address that does not
exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from nictop.model.devices.links import has_global_address
from nictop.model.managers.networkmanager_states import ip_settings_text
from nictop.model.managers.profile_match import ETHERNET, ProfileMatch
from nictop.probe.records import Link, ManagedDevice, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.profiles import (
    bring_up,
    modify,
    new_profile,
    profile_arguments,
    profile_evidence,
    quoted_name,
)
from nictop.rules.host import HostFacts
from nictop.rules.profiles.candidates import candidate_evidence, proposal
from nictop.rules.profiles.naming_files import NamingCause, naming_cause
from nictop.rules.profiles.nics import (
    address_evidence,
    has_nic_without_interface,
    managed_nics,
    nics,
    use_text,
    without_profile,
)
from nictop.rules.profiles.old_names import is_of_a_nic
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

MAX_PRIORITY = 999
"""Of connection.autoconnect-priority, nm-settings-nmcli(5)."""
MULTI_CONNECT_MULTIPLE = 3
"""NM_CONNECTION_MULTI_CONNECT_MULTIPLE."""


@host_rule(
    "warning",
    yields_to=("dhcp_never_answered", "profile_failed"),
    needs=("networkmanager",),
)
def two_profiles_compete(host: HostFacts) -> Outcomes:
    """Two profiles with different settings match the same NIC with the same priority.

    NetworkManager activates the profile with the highest autoconnect-priority, and of equal ones
    the one that was last active. Activating the other profile once changes which one is used after
    the next reboot: a wrong address, or none.

    Reported if at least two saved profiles match the NIC, are activated automatically, have the
    same priority as the first and differ in addresses, gateway, MTU or controller. Not counted:
    profiles that NetworkManager generated, that are active on another NIC, or that may be active on
    several at once.

    Sources: NetworkManager src/core/settings/nm-settings-connection.c
    nm_settings_connection_cmp_autoconnect_priority; cloud-init#4121; open-vm-tools#742.
    """
    for link, device in managed_nics(host):
        profiles = _conflicting_profiles(host, link)
        if len(profiles) < 2:
            continue
        active = next(
            (profile for profile in profiles if profile.uuid == device.active_profile), profiles[0]
        )
        others = [profile for profile in profiles if profile.uuid != active.uuid]
        first, second = (quoted_name(profile.id) for profile in profiles[:2])
        yield link_finding(
            "warning",
            host,
            link,
            f"profiles {first} and {second} conflict",
            evidence=tuple(_conflict_evidence(profile, device) for profile in profiles[:4]),
            why="Both match this NIC with the same priority. NetworkManager activates the one "
            "that was last active. After a reboot the NIC may have the other profile's addresses.",
            fixes=_one_profile_fixes(host, active, others),
        )


def _one_profile_fixes(
    host: HostFacts, active: Profile, others: Sequence[Profile]
) -> tuple[Fix, ...]:
    """So that only the active one is used, in three ways."""
    name, priority = "connection.autoconnect-priority", active.autoconnect_priority
    raised = modify(host, active, name, str(priority + 10))
    restored = modify(host, active, name, str(priority))
    off, on, deleted = [], [], []
    for profile in others:
        off.append(modify(host, profile, "connection.autoconnect", "no"))
        on.append(modify(host, profile, "connection.autoconnect", "yes"))
        deleted.append(command("nmcli", "con", "delete", *profile_arguments(host, profile)))
    rest = _rest_text(active, others)
    higher = f"Give {quoted_name(active.id)} a higher priority"
    first = (Fix("here", higher, (raised,), True, (restored,)),)
    return (
        *(first if priority + 10 <= MAX_PRIORITY else ()),
        Fix("here", f"Disable autoconnect of {rest}", tuple(off), True, tuple(on)),
        Fix("here", f"Delete {rest}", tuple(deleted), True, note="This cannot be undone."),
    )


def _rest_text(active: Profile, others: Sequence[Profile]) -> str:
    if len(others) > 1:
        return "the other profiles"
    if others and others[0].id != active.id:
        return f"profile {quoted_name(others[0].id)}"
    return "the other profile"


def _conflicting_profiles(host: HostFacts, link: Link) -> list[Profile]:
    """Profiles for a link that have the same priority as the first one and differ from it, and that
    one."""
    candidates = host.profiles.candidates(link)
    if len(candidates) < 2 or sum(candidate.autoconnect for candidate in candidates) < 2:
        return []
    profiles = [match.profile for match in host.profiles.user_profiles(link) if _connects(match)]
    first, found = profiles[:1], profiles[:1]
    for profile in profiles[1:]:
        is_equal = profile.autoconnect_priority == first[0].autoconnect_priority
        if is_equal and _settings(profile) != _settings(first[0]):
            found.append(profile)
    return found


def _connects(match: ProfileMatch) -> bool:
    """It is activated by itself, on this NIC alone."""
    profile = match.profile
    if match.wait_reason or profile.multi_connect == MULTI_CONNECT_MULTIPLE:
        return False
    if profile.interface_name is not None or profile.mac_address is not None:
        return True
    return profile.timestamp > 0


def _settings(profile: Profile) -> tuple[object, ...]:
    return profile.ipv4, profile.ipv6, profile.mtu, profile.controller


def _conflict_evidence(profile: Profile, device: ManagedDevice) -> Evidence:
    used = _last_active(profile.timestamp)
    if profile.uuid == device.active_profile:
        used = use_text(device)
    settings = ip_settings_text(profile.ipv4, "ipv4")
    text = f"{settings}; priority {profile.autoconnect_priority}; {used}"
    return Evidence(f"profile {quoted_name(profile.id)}", text, "nmcli con show " + profile.uuid)


def _last_active(timestamp: int) -> str:
    """``last active 2026-05-01 10:00 UTC``; `timestamp`: seconds since the epoch, 0: never."""
    if not timestamp:
        return "no activation recorded"
    try:
        moment = datetime(1970, 1, 1) + timedelta(seconds=timestamp)
    except OverflowError:  # what a host sends
        return f"last active at {timestamp}"
    return f"last active {moment:%Y-%m-%d %H:%M} UTC"


@host_rule("critical", yields_to=("configuration_names_an_old_name",), uses=("networkmanager",))
def profile_names_a_missing_interface(host: HostFacts) -> Outcomes:
    """A profile is bound to an interface name that does not exist, and a NIC has no matching
    profile.

    The profile is never activated ("mismatching interface name"), and the NIC uses an
    auto-generated profile, or none. Causes: a NIC was replaced, moved to another slot or passed
    through again, or the machine was cloned.

    Reported for the NIC if the profile has its name or it is the only NIC without a matching
    profile, otherwise for the profile. Not reported: profiles of bridges, bonds, VLANs and the
    like, which create their own device, unused profiles on a host where every NIC has a matching
    one, and profiles without the name of a NIC while a NIC has no driver: they may be for that one.

    Sources: NetworkManager src/core/devices/nm-device.c check_connection_compatible;
    community.general#5809, #1089.
    """
    idle = without_profile(host)
    for link, profile in _unmatched_profiles(host, idle, by_name=True):
        yield _unmatched_finding(
            host, link, profile, "name", profile.interface_name or "", idle=idle
        )


@host_rule(
    "critical",
    yields_to=("configuration_names_an_old_name", "profile_names_a_missing_interface"),
    uses=("networkmanager",),
)
def profile_names_a_missing_mac_address(host: HostFacts) -> Outcomes:
    """A profile is bound to a MAC address that no NIC has, and a NIC has no matching profile.

    Cloned machines and recreated NICs still have the profiles (or ifcfg files with HWADDR) of the
    old NIC. Such a profile matches no device, even if its interface name is correct.

    The address is compared with the permanent addresses of all NICs, as NetworkManager does.
    Reported for the NIC if the profile has its name or it is the only NIC without a matching
    profile, otherwise for the profile.

    Sources: NetworkManager src/core/devices/nm-device-ethernet.c check_connection_compatible;
    kubevirt#1251.
    """
    idle = without_profile(host)
    for link, profile in _unmatched_profiles(host, idle, by_name=False):
        yield _unmatched_finding(
            host, link, profile, "MAC address", profile.mac_address or "", idle=idle
        )


@host_rule("critical", needs=("networkmanager",), uses=("addresses",))
def vlan_profile_names_a_missing_parent(host: HostFacts) -> Outcomes:
    """A VLAN profile of NetworkManager is for a NIC that does not exist: the VLAN is not created.

    The NIC was renamed, and vlan.parent still has its old name; or it was removed.

    Reported if the VLAN link does not exist, the parent has the form of a NIC's name and no link
    has it, also not as an altname. Not reported: profiles that are activated manually only, and
    while a NIC has no driver, which may be the parent.

    Source: nm-settings-nmcli(5) vlan.parent.
    """
    if has_nic_without_interface(host):
        return
    for profile in host.profiles.profiles:
        parent = _missing_parent(host, profile)
        if not parent or profile.interface_name in host.links_by_name:
            continue
        found = [link for link in nics(host) if link.carrier]
        new, note = "<INTERFACE>", ""
        if len(found) == 1:
            new = found[0].name
        elif found:
            note = proposal(parent, (parent,), found)
        change = modify(host, profile, "vlan.parent", new)
        undo = modify(host, profile, "vlan.parent", parent)
        title = "Use the present name of the NIC"
        yield host_finding(
            "critical",
            host,
            profile.id,
            f"VLAN profile names {parent}, which does not exist",
            evidence=(
                *profile_evidence(profile),
                Evidence("vlan.parent", f"{parent} (not found)", "ip link"),
                *candidate_evidence(found, "NICs with a carrier"),
            ),
            why="NetworkManager creates the VLAN when its parent appears under this name.",
            fixes=(Fix("here", title, (change, bring_up(host, profile)), True, (undo,), note),),
        )


def _missing_parent(host: HostFacts, profile: Profile) -> str | None:
    """Name of a NIC that is not there, of a VLAN profile that is activated by itself."""
    if profile.type != "vlan" or profile.external or not profile.autoconnect:
        return None
    parent = profile.vlan_parent
    if not parent or not is_of_a_nic(parent):
        return None
    if parent in host.profiles.by_uuid or parent in host.links_by_name:
        return None
    return parent


def _unmatched_profiles(
    host: HostFacts, idle: tuple[Link, ...], *, by_name: bool
) -> Iterator[tuple[Link | None, Profile]]:
    """(NIC, profile) for profiles whose interface name or MAC address does not exist: the NIC that
    the profile is probably for, None if that is ambiguous. One profile per NIC, the first in
    NetworkManager's order."""
    if not idle:
        return
    assigned: set[int] = set()
    ambiguous: list[Profile] = []
    for profile in _unbindable(host, by_name=by_name):
        wanted = _named_like(profile, idle)
        if wanted is None:
            ambiguous.append(profile)
        elif wanted.ifindex not in assigned:
            assigned.add(wanted.ifindex)
            yield wanted, profile
    if has_nic_without_interface(host):
        return  # any of them may be for that NIC
    left = [link for link in idle if link.ifindex not in assigned]
    if len(left) == 1 and len(ambiguous) == 1:
        yield left[0], ambiguous[0]
    elif left:
        for profile in ambiguous:
            yield None, profile


def _named_like(profile: Profile, links: Sequence[Link]) -> Link | None:
    """The link whose name the profile has, as its own name or as that of its interface."""
    for link in links:
        if link.name in (profile.interface_name, profile.id):
            return link
    return None


def _unbindable(host: HostFacts, *, by_name: bool) -> Iterator[Profile]:
    """Profiles for an interface name (else a MAC address) that does not exist."""
    for profile in host.profiles.profiles:
        if profile.generated or profile.external or not profile.autoconnect:
            continue
        if not host.profiles.missing_binding(profile):
            continue
        name = profile.interface_name
        is_of_no_link = name is not None and name not in host.profiles.names
        if is_of_no_link and name in host.links_by_name:
            continue  # an altname: reported as an old name
        if by_name == is_of_no_link:
            yield profile


def _unmatched_finding(
    host: HostFacts,
    link: Link | None,
    profile: Profile,
    kind: str,
    value: str,
    *,
    idle: Sequence[Link],
) -> Finding:
    """`kind`: ``name`` or ``MAC address``, with its `value`. `idle`: the NICs that no profile
    matches."""
    missing = f"interface {value}" if kind == "name" else f"{kind} {value}"
    evidence = [
        *profile_evidence(profile),
        Evidence("bound to", f"{missing} (not found)", "ip link"),
    ]
    why = (
        f"The profile matches no device, because no NIC has this {kind}. NetworkManager skips "
        f"it without a message."
    )
    if link is not None:
        cause = naming_cause(host, value, link) if kind == "name" else None
        return _unmatched_nic(
            host, link, profile, value=value, cause=cause, evidence=evidence, why=why
        )
    note = ""
    if kind == "name":
        names = [other.interface_name or "" for other in _unbindable(host, by_name=True)]
        note = proposal(value, names, idle)
    bind = _bind(host, profile, "<INTERFACE>")
    return host_finding(
        "critical",
        host,
        profile.id,
        f"profile is bound to missing {missing}",
        evidence=(*evidence, *candidate_evidence(idle)),
        why=why,
        fixes=(Fix("here", "Bind the profile to an interface", (bind,), True, note=note),),
    )


def _unmatched_nic(
    host: HostFacts,
    link: Link,
    profile: Profile,
    *,
    value: str,
    cause: NamingCause | None,
    evidence: list[Evidence],
    why: str,
) -> Finding:
    """The finding about the NIC that the profile is probably for."""
    is_working = has_global_address(link)
    bind = (_bind(host, profile, link.name), bring_up(host, profile))
    note = f"IPv4 settings of the profile: {ip_settings_text(profile.ipv4, 'ipv4')}."
    title = f"Bind the profile to {link.name}"
    fixes = [Fix("here", title, bind, True, (_unbind(host, profile),), note)]
    if cause is not None:
        evidence = [*evidence, cause.evidence]
        why = f"{why} {cause.why}"
        fixes.append(cause.fix)
    fixes.append(new_profile(host, link, static=not is_working))
    return link_finding(
        "warning" if is_working else "critical",
        host,
        link,
        f"no saved profile matches; {quoted_name(profile.id)} is bound to missing {value}",
        evidence=(*evidence, address_evidence(link), *_current_profile(host, link)),
        why=why,
        fixes=tuple(fixes),
    )


def _bind(host: HostFacts, profile: Profile, name: str) -> Command:
    settings = ["connection.interface-name", name]
    if profile.mac_address is not None:
        settings += [f"{profile.type or ETHERNET}.mac-address", ""]
    return modify(host, profile, *settings)


def _unbind(host: HostFacts, profile: Profile) -> Command:
    settings = ["connection.interface-name", profile.interface_name or ""]
    if profile.mac_address is not None:
        settings += [f"{profile.type or ETHERNET}.mac-address", profile.mac_address]
    return modify(host, profile, *settings)


def _current_profile(host: HostFacts, link: Link) -> Iterator[Evidence]:
    device, active = host.profiles.device(link), host.profiles.active(link)
    if device is None or active is None or not active.generated:
        return
    value = f"{quoted_name(active.id)}, auto-generated, {use_text(device)}"
    yield Evidence("current profile", value, "nmcli device")
