"""Profiles that compete for a NIC, or are bound to a name or a MAC address that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.managers.networkmanager_states import ACTIVATED, ip_settings_text
from nictop.model.managers.profile_match import ETHERNET, ProfileMatch
from nictop.probe.records import Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.profiles import (
    bring_up,
    has_address,
    modify,
    new_profile,
    profile_arguments,
    profile_evidence,
    quoted_name,
)
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import address_evidence, managed_nics, without_profile
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

FAMILY: Family = "profiles and names"


@host_rule(FAMILY, "warning", yields_to=("dhcp_never_answered", "profile_failed"), needs=("networkmanager",))
def two_profiles_compete(host: HostFacts) -> Outcomes:
    """Two profiles with different addresses want the same NIC, and only the time of their last use decides.

    NetworkManager takes the profile with the highest autoconnect-priority; among equal ones the one that was up last.
    Bringing the other one up once is enough to change what the next reboot does: a wrong address, or none.

    Reported when at least two saved profiles fit the NIC, connect by themselves, have the same priority as the first
    and set addresses, gateway, MTU or controller differently. Profiles that NetworkManager made up, that are up on
    another NIC, or that may be up on several at once do not count.

    Sources: NetworkManager src/core/settings/nm-settings-connection.c nm_settings_connection_cmp_autoconnect_priority;
    cloud-init#4121; open-vm-tools#742.
    """
    for link, device in managed_nics(host):
        rivals = _rivals(host, link)
        if len(rivals) < 2:
            continue
        active = next((one for one in rivals if one.uuid == device.active_profile), rivals[0])
        others = [one for one in rivals if one.uuid != active.uuid]
        keep = [modify(host, active, "connection.autoconnect-priority", str(active.autoconnect_priority + 10))]
        back = [modify(host, active, "connection.autoconnect-priority", str(active.autoconnect_priority))]
        off = [modify(host, one, "connection.autoconnect", "no") for one in others]
        on = [modify(host, one, "connection.autoconnect", "yes") for one in others]
        gone = [command("nmcli", "con", "delete", *profile_arguments(host, one)) for one in others]
        yield link_finding(
            "warning",
            host,
            link,
            f"is wanted by {quoted_name(rivals[0].id)} and {quoted_name(rivals[1].id)}: the last used wins",
            evidence=tuple(_rival_evidence(one, active) for one in rivals[:4]),
            why="After a reboot the NIC may come up with the other profile's addresses.",
            fixes=(
                Fix("here", f"let {quoted_name(active.id)} win", tuple(keep), True, tuple(back)),
                Fix("here", "keep the others for use by hand only", tuple(off), True, tuple(on)),
                Fix("here", "delete the others", tuple(gone), True, note="This cannot be undone."),
            ),
        )


def _rivals(host: HostFacts, link: Link) -> list[Profile]:
    """Profiles of equal rank for a link, that differ, the first one first."""
    if sum(one.autoconnect for one in host.profiles.candidates(link)) < 2:
        return []
    found = [one.profile for one in host.profiles.user_profiles(link) if _connects(one)]
    found = [one for one in found if one.autoconnect_priority == found[0].autoconnect_priority]
    first = found[:1]
    return first + [one for one in found[1:] if _settings(one) != _settings(first[0])]


def _connects(match: ProfileMatch) -> bool:
    profile = match.profile
    bound_or_busy = profile.interface_name is not None or profile.mac_address is not None
    return not match.wait_reason and profile.multi_connect != 3 and (bound_or_busy or profile.timestamp > 0)


def _settings(profile: Profile) -> tuple[object, ...]:
    return profile.ipv4, profile.ipv6, profile.mtu, profile.controller


def _rival_evidence(profile: Profile, active: Profile) -> Evidence:
    used = (
        "up last"
        if profile.uuid == active.uuid
        else f"last up {profile.timestamp}"
        if profile.timestamp
        else "never up"
    )
    text = f"{ip_settings_text(profile.ipv4, 'ipv4')}; priority {profile.autoconnect_priority}; {used}"
    return Evidence(f"profile {quoted_name(profile.id)}", text, "nmcli con show " + profile.uuid)


@host_rule(FAMILY, "critical", yields_to=("configuration_names_an_old_name",), uses=("networkmanager",))
def profile_names_a_missing_interface(host: HostFacts) -> Outcomes:
    """A profile is bound to an interface name that no interface has, while a NIC has no profile of its own.

    The profile never comes up ("mismatching interface name"), and the NIC runs on a profile that NetworkManager made
    up, or on none. It happens after a NIC was replaced, moved to another slot or passed through anew, and on clones.

    Reported for the NIC when the profile bears its name or it is the only such NIC, else for the profile. Profiles of
    bridges, bonds, VLANs and the like make their device themselves and do not count; a left-over profile on a host
    where every NIC has its own is no finding.

    Sources: NetworkManager src/core/devices/nm-device.c check_connection_compatible; community.general#5809, #1089.
    """
    idle = without_profile(host)
    for link, profile in _strays(host, idle, by_name=True):
        name = profile.interface_name or ""
        yield _stray(host, link, profile, f"interface {name}")


@host_rule(
    FAMILY,
    "critical",
    yields_to=("configuration_names_an_old_name", "profile_names_a_missing_interface"),
    uses=("networkmanager",),
)
def profile_names_a_missing_mac_address(host: HostFacts) -> Outcomes:
    """A profile is bound to a MAC address that no NIC has, while a NIC has no profile of its own.

    Clones of a machine and NICs that were made anew keep profiles (or ifcfg files with HWADDR) of the old NIC. Such a
    profile fits no device, even when its interface name is right.

    The address is compared with the permanent addresses of all NICs, as NetworkManager does. Reported for the NIC when
    the profile bears its name or it is the only one without a profile, else for the profile.

    Sources: NetworkManager src/core/devices/nm-device-ethernet.c check_connection_compatible; kubevirt#1251.
    """
    idle = without_profile(host)
    for link, profile in _strays(host, idle, by_name=False):
        address = profile.mac_address or ""
        yield _stray(host, link, profile, f"MAC address {address}")


def _strays(host: HostFacts, idle: tuple[Link, ...], *, by_name: bool) -> Iterator[tuple[Link | None, Profile]]:
    """(The NIC that a profile bound to what is not there was meant for, the profile); None: it cannot be told. One
    profile per NIC, the one that NetworkManager would prefer."""
    if not idle:
        return
    taken: set[int] = set()
    ambiguous: list[Profile] = []
    for profile in _unbindable(host, by_name=by_name):
        wanted = next((one for one in idle if one.name in (profile.interface_name, profile.id)), None)
        if wanted is None:
            ambiguous.append(profile)
        elif wanted.ifindex not in taken:
            taken.add(wanted.ifindex)
            yield wanted, profile
    left = [link for link in idle if link.ifindex not in taken]
    if len(left) == 1 and len(ambiguous) == 1:
        yield left[0], ambiguous[0]
    elif left:
        for profile in ambiguous:
            yield None, profile


def _unbindable(host: HostFacts, *, by_name: bool) -> Iterator[Profile]:
    names = host.profiles.names
    for profile in host.profiles.profiles:
        if (
            profile.generated
            or profile.external
            or not profile.autoconnect
            or not host.profiles.missing_binding(profile)
        ):
            continue
        if profile.interface_name in host.links_by_name and profile.interface_name not in names:
            continue  # an altname: reported as an old name
        if by_name == (profile.interface_name is not None and profile.interface_name not in names):
            yield profile


def _stray(host: HostFacts, link: Link | None, profile: Profile, missing: str) -> Finding:
    evidence = (*profile_evidence(profile), Evidence("bound to", f"{missing}, which is not there", "ip link"))
    why = "A profile that is bound to what is not there fits no device; NetworkManager ignores it without a word."
    if link is None:
        fix = Fix("here", "bind it to an interface", (_bind(host, profile, "<INTERFACE>"),), True)
        title = f"is a profile for {missing}, which is not there"
        return host_finding(
            "critical",
            host,
            profile.id,
            title,
            evidence=evidence,
            why=why,
            fixes=(fix,),
        )
    works = has_address(link)
    return link_finding(
        "warning" if works else "critical",
        host,
        link,
        f"has no profile: {quoted_name(profile.id)} is for {missing}",
        evidence=(*evidence, address_evidence(link), *_runs_on(host, link)),
        why=why,
        fixes=(
            Fix(
                "here",
                "bind the profile to this interface",
                (_bind(host, profile, link.name), bring_up(host, profile)),
                True,
                (_unbind(host, profile),),
                f"Its addresses: {ip_settings_text(profile.ipv4, 'ipv4')}.",
            ),
            new_profile(host, link, static=not works),
        ),
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


def _runs_on(host: HostFacts, link: Link) -> Iterator[Evidence]:
    device, active = host.profiles.device(link), host.profiles.active(link)
    if device is not None and active is not None and active.generated:
        state = "is up" if device.state == ACTIVATED else "is tried"
        yield Evidence("meanwhile", f"{quoted_name(active.id)}, made up by NetworkManager, {state}", "nmcli device")
