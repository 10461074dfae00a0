"""NICs that NetworkManager does not configure: unmanaged, no profile, networking disabled, no carrier."""

from __future__ import annotations

from nictop.model.managers.configuration import file_and_line
from nictop.model.managers.device_specs import matches_device
from nictop.model.managers.networkmanager_states import DISCONNECTED, UNAVAILABLE, UNMANAGED
from nictop.model.managers.profile_match import (
    AUTOCONNECT_OFF,
    DISCONNECTED_MANUALLY,
    is_disconnected_by_user,
    is_generated_default,
)
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
from nictop.rules.link.carrier_causes import plug_in_fixes
from nictop.rules.profiles.nics import (
    is_nic,
    is_unassigned_vf,
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
SET_WITH_NMCLI = "nmcli device set"
"""Why a link is unmanaged until the next reboot: there is no file to edit."""


@host_rule(FAMILY, "critical", needs=("addresses",), uses=("networkmanager",))
def networking_is_switched_off(host: HostFacts) -> Outcomes:
    """NetworkManager is running, but networking is disabled: it manages no NIC.

    nmcli networking off persists across reboots (/var/lib/NetworkManager/NetworkManager.state).

    Detected by NetworkManager's property NetworkingEnabled. Not reported if no NIC depends on it: each has an address
    or is configured by another manager.

    Source: nmcli(1) networking.
    """
    manager = host.profiles.manager
    if manager is None or manager.networking_enabled:
        return
    idle = [link for link in nics(host) if not has_address(link) and not set_up_otherwise(host, link)]
    if not idle:
        return
    yield host_finding(
        "critical",
        host,
        "",
        "networking is disabled in NetworkManager",
        evidence=(
            Evidence("networking", "off", "NetworkManager: NetworkingEnabled"),
            Evidence("NICs without an address", ", ".join(link.name for link in idle[:5]), "ip address"),
        ),
        why="NetworkManager configures no NIC until networking is enabled again, even after a reboot.",
        fixes=(
            Fix(
                "here",
                "Enable networking",
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
    """A NIC is unmanaged in NetworkManager, and nothing else configures it.

    nmcli reports "device is strictly unmanaged" or ignores the NIC. Causes: unmanaged-devices or managed=0 in
    NetworkManager's configuration, a udev rule that sets NM_UNMANAGED, or nmcli device set.

    Warning: a profile is bound to this NIC. Info: otherwise. Not reported: NICs with an address, NICs configured by
    systemd-networkd, ifupdown or netplan, ports (a VF below a Hyper-V NIC must be unmanaged), and virtual functions
    that are not assigned to a guest yet.

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
        if set_up_otherwise(host, link) or (is_unassigned_vf(host, link) and not bound):
            continue
        origins = _origins(host, link, device, manager.configuration)
        fixes = [
            Fix(
                "here",
                "Set managed until the next reboot",
                (command("nmcli", "device", "set", link.name, "managed", "yes"),),
                False,
                (command("nmcli", "device", "set", link.name, "managed", "no"),),
            )
        ]
        if origins and origins[0].value != SET_WITH_NMCLI:
            note = f"Remove the interface from {origins[0].value}, then run: systemctl reload NetworkManager."
            fixes.append(Fix("here", "Remove the unmanaged setting", (), True, note=note))
        yield link_finding(
            "warning" if bound else "info",
            host,
            link,
            f"unmanaged in NetworkManager; profile {quoted_name(bound[0].id)} is not used"
            if bound
            else "unmanaged in NetworkManager, not configured elsewhere",
            evidence=(state_evidence(device), *origins),
            why="NetworkManager does not activate a profile, set an address or bring the link up.",
            fixes=tuple(fixes),
        )


def _origins(
    host: HostFacts, link: Link, device: ManagedDevice, configuration: NetworkManagerConfiguration
) -> tuple[Evidence, ...]:
    """The settings that make the link unmanaged."""
    found = []
    address = device.permanent_address or link.permanent_address
    for field, option in (("unmanaged_devices", "unmanaged-devices"), ("device_unmanaged", "managed=0")):
        specs: tuple[str, ...] = getattr(configuration, field)
        if matches_device(specs, name=link.name, address=address, driver=link_driver(link), kind=device.type):
            where = configuration.origins.get(field, "NetworkManager.conf")
            found.append(Evidence("set by", f"{option} in {where}", "NetworkManager.conf"))
    found += [
        Evidence("set by", f"NM_UNMANAGED in {file_and_line(entry)}", entry.file)
        for entry in host.configuration.entries(link)
        if entry.ignores and entry.owner in ("udev", "other")
    ]
    if device.reason == UNMANAGED_USER_EXPLICIT:
        found.append(Evidence("set by", SET_WITH_NMCLI, "NetworkManager: Device.StateReason"))
    if device.reason == UNMANAGED_USER_UDEV and not found:
        found.append(Evidence("set by", "a udev rule with NM_UNMANAGED", "NetworkManager: Device.StateReason"))
    return tuple(found)


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "profile_names_a_missing_interface",
        "profile_names_a_missing_mac_address",
        "configuration_names_an_old_name",
        "configuration_names_a_missing_link",
        "name_belongs_to_another_nic",
    ),
    needs=("addresses", "networkmanager"),
)
def no_profile_matches(host: HostFacts) -> Outcomes:
    """A NIC has a carrier but no matching profile: NetworkManager does not configure it.

    Its state stays "disconnected". On servers NetworkManager is often configured not to generate profiles
    (no-auto-default=*, as in the package NetworkManager-config-server). It also generates no second one for a NIC whose
    generated profile was deleted.

    Reported for NICs that NetworkManager manages, in state disconnected with a carrier, if no profile matches. Not
    reported: virtual functions whose physical function is on this host, and NICs after nmcli device disconnect.

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
            "no profile matches; disconnected",
            evidence=(
                state_evidence(device),
                Evidence("matching profiles", "none", "nmcli con show"),
                *_generation_evidence(link, device, configuration),
                *other_profiles(host, link),
            ),
            why="The link is up, but without a profile NetworkManager sets no address.",
            fixes=(new_profile(host, link, static=True), new_profile(host, link, static=False)),
        )


def _generation_evidence(
    link: Link, device: ManagedDevice, configuration: NetworkManagerConfiguration
) -> tuple[Evidence, ...]:
    """Why NetworkManager did not generate a profile."""
    address = device.permanent_address or link.permanent_address
    facts = {"name": link.name, "address": address, "driver": link_driver(link), "kind": device.type}
    if matches_device(configuration.no_auto_default, **facts):  # type: ignore[arg-type]
        where = configuration.origins.get("no_auto_default", "NetworkManager.conf")
        return (Evidence("auto-generation", f"off: no-auto-default={','.join(configuration.no_auto_default)}", where),)
    if matches_device(configuration.no_auto_default_state, **facts):  # type: ignore[arg-type]
        where = "/var/lib/NetworkManager/no-auto-default.state"
        return (Evidence("auto-generation", "off: the generated profile was deleted or edited", where),)
    return ()


@host_rule(FAMILY, "info", uses=("networkmanager",))
def profile_does_not_connect_by_itself(host: HostFacts) -> Outcomes:
    """A NIC is disconnected although a profile matches, because the profile is not activated automatically.

    Either connection.autoconnect of the profile is no, or the NIC was disconnected with nmcli device disconnect or
    nmcli con down; the latter lasts until a profile is activated manually or NetworkManager restarts.

    Only for NICs in state disconnected with a carrier and without an address. Not reported if another profile would be
    activated automatically.

    Source: nm-settings-nmcli(5) connection.autoconnect; nmcli(1) device disconnect.
    """
    for link, device in managed_nics(host):
        if device.state != DISCONNECTED or link.carrier is not True or has_address(link):
            continue
        fitting = host.profiles.fitting(link)
        if not fitting or any(not one.wait_reason for one in fitting):
            continue
        chosen = next((one for one in fitting if one.wait_reason in (AUTOCONNECT_OFF, DISCONNECTED_MANUALLY)), None)
        if chosen is None:
            continue
        profile = chosen.profile
        lines, undo = [bring_up(host, profile)], [command("nmcli", "device", "disconnect", link.name)]
        title = "Activate the profile"
        if not profile.autoconnect:
            title += " and enable autoconnect"
            lines.insert(0, modify(host, profile, "connection.autoconnect", "yes"))
            undo.append(modify(host, profile, "connection.autoconnect", "no"))
        manually = is_disconnected_by_user(device)
        yield link_finding(
            "info",
            host,
            link,
            "disconnected manually"
            if manually
            else f"disconnected; profile {quoted_name(profile.id)} has autoconnect off",
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                Evidence("profile state", chosen.wait_reason, "nmcli con show"),
            ),
            why="The NIC has no address until the profile is activated.",
            fixes=(Fix("here", title, tuple(lines), True, tuple(undo)),),
        )


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "profile_is_generated",
        "vf_has_no_carrier",
        "vf_link_is_disabled",
        "port_of_virtual_functions_is_down",
        "driver_has_detached_the_nic",
        "driver_cannot_bring_the_link_up",
        "transceiver_is_refused",
        "nic_firmware_failed",
        "nic_reports_a_hardware_fault",
        "nic_has_no_msix",
        "vf_was_made_while_its_port_was_down",
        "vf_is_reset_repeatedly",
        "transmit_queue_timed_out",
        "nic_is_reset_repeatedly",
    ),
    needs=("networkmanager",),
)
def link_down_profile_waits(host: HostFacts) -> Outcomes:
    """A NIC with a profile has no carrier: its addresses are unreachable until the link is up.

    nmcli con show fills the DEVICE column for active profiles only. If it is empty, the profile can still be the right
    one for the NIC: it is activated when the link comes up.

    Reported for NICs that are administratively up and have no carrier, with a profile that is bound to them by name or
    MAC address and was active before or has static addresses, or with an active profile (ignore-carrier). Info: the
    profile is not activated automatically. Not reported: spare ports, that is a profile with DHCP that was never
    active, as installers create one for every port.

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
            why="The addresses of the profile are not usable until the link is up. Until then nmcli con show has no "
            "DEVICE for an inactive profile.",
            fixes=plug_in_fixes(host, link),
        )


def _without_carrier(host: HostFacts, link: Link, device: ManagedDevice) -> tuple[Profile, Severity, str] | None:
    """The profile for a NIC without carrier, severity and title; None: no finding."""
    active = host.profiles.active(link)
    if active is not None:
        if active.external or is_generated_default(active):
            return None
        return active, "warning", f"no carrier; profile {quoted_name(active.id)} is active"
    if device.state != UNAVAILABLE:
        return None
    used = [
        one for one in host.profiles.user_profiles(link) if one.profile.timestamp or one.profile.ipv4.method != "auto"
    ]
    bound = [one for one in used if one.profile.interface_name or one.profile.mac_address]
    for one in bound:
        if not one.wait_reason:
            return one.profile, "warning", f"no carrier; profile {quoted_name(one.profile.id)} is not active"
    manual = [one.profile for one in bound if not one.profile.autoconnect or is_disconnected_by_user(device)]
    if manual:
        return manual[0], "info", f"no carrier; profile {quoted_name(manual[0].id)} is activated manually only"
    return None
