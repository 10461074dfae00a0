"""NICs that NetworkManager leaves alone: unmanaged, without a profile, switched off, waiting for a cable or a hand."""

from __future__ import annotations

from nictop.model.managers.configuration import file_and_line
from nictop.model.managers.device_specs import matches_device
from nictop.model.managers.networkmanager_states import DISCONNECTED, UNAVAILABLE, UNMANAGED
from nictop.model.managers.profile_match import is_disconnected_by_user, is_generated_default
from nictop.probe.records import Link, ManagedDevice, NetworkManagerConfiguration, Profile
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import (
    bring_up,
    has_address,
    modify,
    new_profile,
    other_profiles,
    profile_evidence,
    quoted_name,
)
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.link.carrier import plug_in_fixes
from nictop.rules.profiles.nics import (
    is_nic,
    is_waiting_vf,
    managed_nics,
    nics,
    set_up_otherwise,
    state_evidence,
    without_profile,
)
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

FAMILY: Family = "profiles and names"
UNMANAGED_USER_EXPLICIT, UNMANAGED_USER_UDEV = 75, 77
"""NM_DEVICE_STATE_REASON_*: UNMANAGED_USER_EXPLICIT, UNMANAGED_USER_UDEV."""


@host_rule(FAMILY, "critical", needs=("addresses",), uses=("networkmanager",))
def networking_is_switched_off(host: HostFacts) -> Outcomes:
    """NetworkManager runs, but was told to switch networking off: it manages no NIC at all.

    nmcli networking off is remembered over reboots (/var/lib/NetworkManager/NetworkManager.state).

    Known from NetworkManager's property NetworkingEnabled. Silent where no NIC is left for it: all of them are managed
    by others or have addresses.

    Source: nmcli(1) networking.
    """
    manager = host.profiles.manager
    if manager is None:
        return
    idle = [link for link in nics(host) if not has_address(link) and not set_up_otherwise(host, link)]
    if manager.networking_enabled or not idle:
        return
    yield host_finding(
        "critical",
        host,
        "",
        "networking is switched off in NetworkManager",
        evidence=(
            Evidence("networking", "off", "NetworkManager: NetworkingEnabled"),
            Evidence("NICs without an address", ", ".join(link.name for link in idle[:5]), "ip address"),
        ),
        why="NetworkManager sets no NIC up until it is switched on again, also after a reboot.",
        fixes=(
            Fix(
                "here",
                "switch networking on",
                (command("nmcli", "networking", "on"),),
                True,
                (command("nmcli", "networking", "off"),),
            ),
        ),
    )


@host_rule(
    FAMILY,
    "warning",
    yields_to=("networking_is_switched_off",),
    needs=("addresses", "configuration", "pci.physical_function"),
    uses=("networkmanager",),
)
def link_is_unmanaged(host: HostFacts) -> Outcomes:
    """NetworkManager was told to leave a NIC alone, and nobody else sets it up.

    nmcli says "device is strictly unmanaged" or does nothing with it. The order comes from unmanaged-devices or
    managed=0 in NetworkManager's configuration, from a udev rule that sets NM_UNMANAGED, or from nmcli device set.

    Warning when a profile is bound to this very NIC, info otherwise. Silent when the NIC has an address (somebody set
    it up), when systemd-networkd or a stanza of ifupdown or netplan cares for it, for ports (a VF below a Hyper-V NIC
    must be unmanaged), and for virtual functions that wait for a guest.

    Sources: NetworkManager.conf(5) Device List Format; nmstate#1627, #484; home-assistant/os#1314; warewulf#1154.
    """
    manager = host.profiles.manager
    if manager is None or not manager.networking_enabled:
        return
    for link in host.links:
        device = manager.devices.get(link.ifindex)
        if device is None or device.state != UNMANAGED or not is_nic(host, link) or has_address(link):
            continue
        bound = [one.profile for one in host.profiles.user_profiles(link) if one.profile.interface_name == link.name]
        if set_up_otherwise(host, link) or (is_waiting_vf(host, link) and not bound):
            continue
        origins = _origins(host, link, device, manager.configuration)
        fixes = [
            Fix(
                "here",
                "manage it until the next reboot",
                (command("nmcli", "device", "set", link.name, "managed", "yes"),),
                False,
                (command("nmcli", "device", "set", link.name, "managed", "no"),),
            )
        ]
        if origins:
            note = f"Take the interface out of {origins[0].value}, then: systemctl reload NetworkManager."
            fixes.append(Fix("here", "remove the order", (), True, note=note))
        yield link_finding(
            "warning" if bound else "info",
            host,
            link,
            f"is left alone by NetworkManager, so {quoted_name(bound[0].id)} cannot come up"
            if bound
            else "is left alone by NetworkManager, and nobody else sets it up",
            evidence=(state_evidence(device), *origins),
            why="It gets neither a profile nor an address, and is not even switched on.",
            fixes=tuple(fixes),
        )


def _origins(
    host: HostFacts, link: Link, device: ManagedDevice, configuration: NetworkManagerConfiguration
) -> tuple[Evidence, ...]:
    """Who says that the link is to be left alone."""
    found = []
    address = device.permanent_address or link.permanent_address
    for field, option in (("unmanaged_devices", "unmanaged-devices"), ("device_unmanaged", "managed=0")):
        specs: tuple[str, ...] = getattr(configuration, field)
        if matches_device(specs, name=link.name, address=address, driver=link_driver(link), kind=device.type):
            where = configuration.origins.get(field, "NetworkManager.conf")
            found.append(Evidence("told by", f"{option} in {where}", "NetworkManager.conf"))
    found += [
        Evidence("told by", f"NM_UNMANAGED in {file_and_line(entry)}", entry.file)
        for entry in host.configuration.entries(link)
        if entry.ignores and entry.owner in ("udev", "other")
    ]
    if device.reason == UNMANAGED_USER_EXPLICIT:
        found.append(Evidence("told by", "nmcli device set", "NetworkManager: Device.StateReason"))
    if device.reason == UNMANAGED_USER_UDEV and not found:
        found.append(Evidence("told by", "a udev rule with NM_UNMANAGED", "NetworkManager: Device.StateReason"))
    return tuple(found)


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "profile_names_a_missing_interface",
        "profile_names_a_missing_mac_address",
        "configuration_names_an_old_name",
        "configuration_names_a_missing_link",
    ),
    needs=("addresses", "networkmanager"),
)
def no_profile_matches(host: HostFacts) -> Outcomes:
    """A NIC has its link, but there is no profile for it: NetworkManager does nothing with it.

    It stays "disconnected". On servers NetworkManager is often told not to make profiles by itself (no-auto-default=*,
    as NetworkManager-config-server does); it also never makes a second one for a NIC whose made-up profile was deleted.

    Reported for NICs that NetworkManager manages, in state disconnected with a carrier, without any profile that fits.
    Silent for virtual functions whose physical function is on this host, and after nmcli device disconnect.

    Sources: NetworkManager.conf(5) no-auto-default; /usr/lib/NetworkManager/conf.d/00-server.conf.
    """
    idle = frozenset(link.ifindex for link in without_profile(host))
    for link, device in managed_nics(host):
        if link.ifindex not in idle or device.state != DISCONNECTED or link.carrier is not True:
            continue
        if host.profiles.fitting(link) or host.profiles.active(link) is not None or has_address(link):
            continue
        if is_disconnected_by_user(device):
            continue
        manager = host.profiles.manager
        configuration = manager.configuration if manager is not None else NetworkManagerConfiguration()
        yield link_finding(
            "warning",
            host,
            link,
            "has no profile: NetworkManager leaves it disconnected",
            evidence=(
                state_evidence(device),
                Evidence("profiles that fit", "none", "nmcli con show"),
                *_why_none_made(link, device, configuration),
                *other_profiles(host, link),
            ),
            why="Without a profile NetworkManager gives a NIC no address, although its link is up.",
            fixes=(new_profile(host, link, static=True), new_profile(host, link, static=False)),
        )


def _why_none_made(
    link: Link, device: ManagedDevice, configuration: NetworkManagerConfiguration
) -> tuple[Evidence, ...]:
    """Why NetworkManager did not make one up."""
    address = device.permanent_address or link.permanent_address
    facts = {"name": link.name, "address": address, "driver": link_driver(link), "kind": device.type}
    if matches_device(configuration.no_auto_default, **facts):  # type: ignore[arg-type]
        where = configuration.origins.get("no_auto_default", "NetworkManager.conf")
        return (Evidence("none is made", f"no-auto-default={','.join(configuration.no_auto_default)}", where),)
    if matches_device(configuration.no_auto_default_state, **facts):  # type: ignore[arg-type]
        where = "/var/lib/NetworkManager/no-auto-default.state"
        return (Evidence("none is made", "its made-up profile was deleted or edited", where),)
    return ()


@host_rule(FAMILY, "info", uses=("networkmanager",))
def profile_does_not_connect_by_itself(host: HostFacts) -> Outcomes:
    """A NIC is disconnected although a profile fits, because the profile or the NIC only connects by hand.

    Either connection.autoconnect of the profile is no, or the NIC was disconnected with nmcli device disconnect or con
    down, which lasts until a profile is brought up by hand or NetworkManager starts anew.

    Only for NICs in state disconnected with a carrier and without an address. When another profile would connect by
    itself, nothing is said here.

    Source: nm-settings-nmcli(5) connection.autoconnect; nmcli(1) device disconnect.
    """
    for link, device in managed_nics(host):
        if device.state != DISCONNECTED or link.carrier is not True or has_address(link):
            continue
        fitting = host.profiles.fitting(link)
        if not fitting or any(not one.wait_reason for one in fitting):
            continue
        chosen = next((one for one in fitting if one.wait_reason.startswith(("does not", "waits: "))), None)
        if chosen is None:
            continue
        profile = chosen.profile
        lines, undo = [bring_up(host, profile)], [command("nmcli", "device", "disconnect", link.name)]
        if not profile.autoconnect:
            lines.insert(0, modify(host, profile, "connection.autoconnect", "yes"))
            undo.append(modify(host, profile, "connection.autoconnect", "no"))
        by_hand = is_disconnected_by_user(device)
        yield link_finding(
            "info",
            host,
            link,
            "was disconnected by hand" if by_hand else f"waits: {quoted_name(profile.id)} only connects by hand",
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                Evidence("it", chosen.wait_reason, "nmcli con show"),
            ),
            why="It has no address until somebody brings the profile up.",
            fixes=(Fix("here", "bring the profile up", tuple(lines), True, tuple(undo)),),
        )


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "profile_is_generated",
        "vf_has_no_carrier",
        "vf_link_is_disabled",
        "port_of_virtual_functions_is_down",
    ),
    needs=("networkmanager",),
)
def link_down_profile_waits(host: HostFacts) -> Outcomes:
    """A NIC that a profile is to set up has no carrier: its addresses cannot be reached until the link is back.

    nmcli con show fills its DEVICE column for active profiles only. An empty one does not mean that the profile does
    not belong to the NIC: it comes up by itself when the link does.

    Reported for NICs that are switched on and have no carrier, with a profile that is bound to them by name or MAC
    address and was up before or has static addresses, or with an active one (ignore-carrier). Info: the profile
    connects by hand only. Silent about spare ports: a profile with DHCP that was never up, as installers write one for
    every port.

    Sources: NetworkManager src/core/devices/nm-device.c check_connection_available; NetworkManager.conf(5)
    ignore-carrier; openfollow#51.
    """
    for link, device in managed_nics(host):
        problem = _without_carrier(host, link, device) if link.carrier is False else None
        if problem is None:
            continue
        profile, severity, title = problem
        state = link.ethtool.state
        why_down = f", {state.extended_state}" if state is not None and state.extended_state else ""
        yield link_finding(
            severity,
            host,
            link,
            title,
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                Evidence("carrier", f"0{why_down}", f"/sys/class/net/{link.name}/carrier"),
            ),
            why="What the profile sets cannot be used until the link is back. That nmcli shows no device beside the "
            "profile follows from it.",
            fixes=plug_in_fixes(host, link),
        )


def _without_carrier(host: HostFacts, link: Link, device: ManagedDevice) -> tuple[Profile, Severity, str] | None:
    """The profile that wants the NIC, how bad it is that it has no carrier, and the words for it."""
    active = host.profiles.active(link)
    if active is not None:
        if active.external or is_generated_default(active):
            return None
        return active, "warning", f"has no carrier, although {quoted_name(active.id)} is up on it"
    if device.state != UNAVAILABLE:
        return None
    used = [
        one for one in host.profiles.user_profiles(link) if one.profile.timestamp or one.profile.ipv4.method != "auto"
    ]
    bound = [one for one in used if one.profile.interface_name or one.profile.mac_address]
    for one in bound:
        if not one.wait_reason:
            return one.profile, "warning", f"has no carrier; {quoted_name(one.profile.id)} waits for it"
    by_hand = [one.profile for one in bound if not one.profile.autoconnect or is_disconnected_by_user(device)]
    if by_hand:
        return by_hand[0], "info", f"has no carrier; {quoted_name(by_hand[0].id)} connects by hand only"
    return None
