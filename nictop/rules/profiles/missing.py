"""NICs that NetworkManager does not configure: unmanaged, no profile, networking disabled, no
carrier."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.links import has_global_address
from nictop.model.managers.configuration import file_and_line
from nictop.model.managers.device_specs import matches_device
from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DISCONNECTED,
    UNAVAILABLE,
    UNMANAGED,
)
from nictop.model.managers.profile_match import (
    AUTOCONNECT_OFF,
    DISCONNECTED_MANUALLY,
    ProfileMatch,
    is_disconnected_by_user,
    is_generated_default,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, ManagedDevice, NetworkManagerConfiguration, Profile
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.commands import with_undo
from nictop.rules.fixes.profiles import (
    activate,
    bring_up,
    new_profile,
    other_profiles,
    profile_evidence,
    quoted_name,
    set_link_up,
)
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.link.carrier_causes import NIC_FAULTS, plug_in_fixes
from nictop.rules.profiles.nics import (
    devices_of_networkmanager,
    is_next_queued,
    is_nic,
    is_set_up,
    is_unassigned_vf,
    managed_nics,
    nics,
    state_evidence,
    use_text,
    without_profile,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, is_up, link_finding

UNMANAGED_USER_EXPLICIT, UNMANAGED_USER_SETTINGS, UNMANAGED_USER_UDEV = 75, 76, 77
"""NM_DEVICE_STATE_REASON_UNMANAGED_USER_*."""
STRICT_SETTING = "unmanaged-devices"
"""NetworkManager.conf(5), section keyfile: ``nmcli device set`` does not overrule it."""
SET_WITH_NMCLI = "nmcli device set"
"""Why a link is unmanaged until the next reboot: there is no file to edit."""


@host_rule("critical", needs=("addresses",), uses=("networkmanager",))
def networking_is_switched_off(host: HostFacts) -> Outcomes:
    """NetworkManager is running, but networking is disabled: it manages no NIC.

    nmcli networking off persists across reboots (/var/lib/NetworkManager/NetworkManager.state).

    Detected by NetworkManager's property NetworkingEnabled. Not reported if no NIC depends on it:
    each has an address or is configured by another manager.

    Source: nmcli(1) networking.
    """
    manager = host.profiles.manager
    if manager is None or manager.networking_enabled:
        return
    idle = []
    for link in nics(host):
        if not is_set_up(host, link):
            idle.append(link.name)
    if not idle:
        return
    on, off = with_undo(("nmcli", "networking"), "on", "off")
    yield host_finding(
        "critical",
        host,
        "",
        "networking is disabled in NetworkManager",
        evidence=(
            Evidence("networking", "off", "NetworkManager: NetworkingEnabled"),
            Evidence("NICs without an address", ", ".join(idle[:5]), "ip address"),
        ),
        why="NetworkManager configures no NIC until networking is enabled again, even after a "
        "reboot.",
        fixes=(Fix("here", "Enable networking", (on,), True, (off,)),),
    )


@host_rule(
    "warning",
    yields_to=("networking_is_switched_off",),
    needs=("addresses", "configuration", "pci.physical_function"),
    uses=("networkmanager",),
)
def link_is_unmanaged(host: HostFacts) -> Outcomes:
    """A NIC is unmanaged in NetworkManager, and nothing else configures it.

    nmcli reports "device is strictly unmanaged" or ignores the NIC. Causes: unmanaged-devices or
    managed=0 in NetworkManager's configuration, a udev rule that sets NM_UNMANAGED, or nmcli device
    set. The first one cannot be overruled by nmcli device set.

    Warning: a profile is bound to this NIC. Info: otherwise. Not reported: NICs with an address,
    NICs configured by systemd-networkd, ifupdown or netplan, ports (a VF below a Hyper-V NIC must
    be unmanaged), and virtual functions that are not assigned to a guest yet.

    Sources: NetworkManager.conf(5) Device List Format; nmstate#1627, #484; home-assistant/os#1314;
    warewulf#1154.
    """
    manager = host.profiles.manager
    if manager is None:
        return
    for link, device in devices_of_networkmanager(host):
        if device.state != UNMANAGED or not is_nic(host, link):
            continue
        if is_set_up(host, link):
            continue
        bound = _profiles_of_its_name(host, link)
        if is_unassigned_vf(host, link) and not bound:
            continue
        severity: Severity = "info"
        title = "unmanaged in NetworkManager, not configured elsewhere"
        if bound:
            severity = "warning"
            name = quoted_name(bound[0].id)
            title = f"unmanaged in NetworkManager; profile {name} is not used"
        origins = _origins(host, link, device, manager.configuration)
        yield link_finding(
            severity,
            host,
            link,
            title,
            evidence=(state_evidence(device), *origins),
            why="NetworkManager does not activate a profile, set an address or bring the link up.",
            fixes=_managed_fixes(link, device, origins),
        )


def _profiles_of_its_name(host: HostFacts, link: Link) -> list[Profile]:
    profiles = [match.profile for match in host.profiles.user_profiles(link)]
    return [profile for profile in profiles if profile.interface_name == link.name]


def _managed_fixes(
    link: Link, device: ManagedDevice, origins: Sequence[Evidence]
) -> tuple[Fix, ...]:
    """`origins`: settings that make the link unmanaged."""
    fixes = []
    is_strict = device.reason == UNMANAGED_USER_SETTINGS
    if not is_strict and not any(one.value.startswith(STRICT_SETTING) for one in origins):
        set_managed = ("nmcli", "device", "set", link.name, "managed")
        managed, unmanaged = with_undo(set_managed, "yes", "no")
        title = "Set managed until the next reboot"
        fixes.append(Fix("here", title, (managed,), False, (unmanaged,)))
    if origins and origins[0].value != SET_WITH_NMCLI:
        apply = "systemctl reload NetworkManager"
        if "NM_UNMANAGED" in origins[0].value:
            apply = "udevadm control --reload, udevadm trigger --subsystem-match=net"
        note = f"Remove the interface from {origins[0].value}, then run: {apply}."
        fixes.append(Fix("here", "Remove the unmanaged setting", (), True, note=note))
    return tuple(fixes)


def _origins(
    host: HostFacts, link: Link, device: ManagedDevice, configuration: NetworkManagerConfiguration
) -> tuple[Evidence, ...]:
    """The settings that make the link unmanaged."""
    found = []
    for field, option in (
        ("unmanaged_devices", "unmanaged-devices"),
        ("device_unmanaged", "managed=0"),
    ):
        specs: tuple[str, ...] = getattr(configuration, field)
        if _matches(specs, link, device):
            where = configuration.origins.get(field, "NetworkManager.conf")
            found.append(Evidence("set by", f"{option} in {where}", "NetworkManager.conf"))
    for entry in host.configuration.entries(link):
        if entry.ignores and entry.owner in ("udev", "other"):
            setting = f"NM_UNMANAGED in {file_and_line(entry)}"
            found.append(Evidence("set by", setting, entry.file))
    source = "NetworkManager: Device.StateReason"
    if device.reason == UNMANAGED_USER_EXPLICIT:
        found.append(Evidence("set by", SET_WITH_NMCLI, source))
    if device.reason == UNMANAGED_USER_UDEV and not found:
        found.append(Evidence("set by", "a udev rule with NM_UNMANAGED", source))
    return tuple(found)


def _matches(specs: Sequence[str], link: Link, device: ManagedDevice) -> bool:
    """One of the device specs of NetworkManager.conf(5) is for this NIC."""
    return matches_device(
        specs,
        name=link.name,
        address=device.permanent_address or link.permanent_address,
        driver=link_driver(link),
        kind=device.type,
    )


@host_rule(
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

    Its state stays "disconnected". On servers NetworkManager is often configured not to generate
    profiles (no-auto-default=*, as in the package NetworkManager-config-server). It also generates
    no second one for a NIC whose generated profile was deleted.

    Reported for NICs that NetworkManager manages, in state disconnected with a carrier, if no
    profile matches. Not reported: virtual functions whose physical function is on this host, NICs
    after nmcli device disconnect, and those on which another activation was requested.

    Sources: NetworkManager.conf(5) no-auto-default; /usr/lib/NetworkManager/conf.d/00-server.conf.
    """
    idle = frozenset(link.ifindex for link in without_profile(host))
    for link, device in managed_nics(host):
        if link.ifindex not in idle or device.state != DISCONNECTED or link.carrier is not True:
            continue
        if has_global_address(link) or is_disconnected_by_user(device) or is_next_queued(device):
            continue
        if host.profiles.fitting(link) or host.profiles.active(link) is not None:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "no profile matches; disconnected",
            evidence=(
                state_evidence(device),
                Evidence("matching profiles", "none", "nmcli con show"),
                *_generation_evidence(host, link, device),
                *other_profiles(host, link),
            ),
            why="The link is up, but without a profile NetworkManager sets no address.",
            fixes=(new_profile(host, link, static=True), new_profile(host, link, static=False)),
        )


def _generation_evidence(
    host: HostFacts, link: Link, device: ManagedDevice
) -> tuple[Evidence, ...]:
    """Why NetworkManager did not generate a profile."""
    manager = host.profiles.manager
    if manager is None:
        return ()
    configuration = manager.configuration
    if _matches(configuration.no_auto_default, link, device):
        where = configuration.origins.get("no_auto_default", "NetworkManager.conf")
        value = f"off: no-auto-default={','.join(configuration.no_auto_default)}"
        return (Evidence("auto-generation", value, where),)
    if _matches(configuration.no_auto_default_state, link, device):
        where = "/var/lib/NetworkManager/no-auto-default.state"
        value = "off: the generated profile was deleted or edited"
        return (Evidence("auto-generation", value, where),)
    return ()


@host_rule("info", uses=("networkmanager",))
def profile_does_not_connect_by_itself(host: HostFacts) -> Outcomes:
    """A NIC is disconnected although a profile matches, because the profile is not activated
    automatically.

    Either connection.autoconnect of the profile is no, or the NIC was disconnected with nmcli
    device disconnect or nmcli con down; the latter lasts until a profile is activated manually, the
    profile is modified (after nmcli con down), or NetworkManager restarts.

    Only for NICs in state disconnected with a carrier and without an address. Not reported if
    another profile would be activated automatically, or another activation was requested.

    Source: nm-settings-nmcli(5) connection.autoconnect; nmcli(1) device disconnect.
    """
    for link, device in managed_nics(host):
        if device.state != DISCONNECTED or link.carrier is not True or has_global_address(link):
            continue
        if is_next_queued(device):
            continue
        waiting = _waiting_for_the_user(host, link)
        if waiting is None:
            continue
        profile = waiting.profile
        title = f"disconnected; profile {quoted_name(profile.id)} has autoconnect off"
        if is_disconnected_by_user(device):
            title = "disconnected manually"
        yield link_finding(
            "info",
            host,
            link,
            title,
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                Evidence("profile state", waiting.wait_reason, "nmcli con show"),
            ),
            why="The NIC has no address until the profile is activated.",
            fixes=(activate(host, link, profile),),
        )


def _waiting_for_the_user(host: HostFacts, link: Link) -> ProfileMatch | None:
    """The first profile that only the user activates; None: there is none, or another one is
    activated by itself."""
    found = None
    for match in host.profiles.fitting(link):
        if not match.wait_reason:
            return None
        if found is None and match.wait_reason in (AUTOCONNECT_OFF, DISCONNECTED_MANUALLY):
            found = match
    return found


@host_rule(
    "warning",
    yields_to=(
        "profile_is_generated",
        "vf_has_no_carrier",
        "vf_link_is_disabled",
        "port_of_virtual_functions_is_down",
        "hypervisor_has_disconnected_the_nic",
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

    nmcli con show fills the DEVICE column for active profiles only. If it is empty, the profile can
    still be the right one for the NIC: it is activated when the link comes up.

    Reported for NICs that are administratively up and have no carrier, with a profile that is bound
    to them by name or MAC address and was active before or has static addresses, or with an active
    profile (ignore-carrier). Info: the profile is not activated automatically. Not reported: spare
    ports, that is a profile with DHCP that was never active, as installers create one for every
    port.

    Sources: NetworkManager src/core/devices/nm-device.c check_connection_available;
    NetworkManager.conf(5) ignore-carrier; openfollow#51.
    """
    for link, device in managed_nics(host):
        problem = _without_carrier(host, link, device) if link.carrier is False else None
        if problem is None:
            continue
        profile, severity, title = problem
        carrier, state = "0", link.ethtool.state
        if state is not None and state.extended_state:
            carrier += f", {state.extended_state}"
        yield link_finding(
            severity,
            host,
            link,
            title,
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                Evidence("carrier", carrier, f"/sys/class/net/{link.name}/carrier"),
            ),
            why="The addresses of the profile are not usable until the link is up. Until then "
            "nmcli con show has no DEVICE for an inactive profile.",
            fixes=plug_in_fixes(host, link),
        )


@host_rule("critical", yields_to=NIC_FAULTS, needs=("networkmanager",))
def link_with_a_profile_is_down(host: HostFacts) -> Outcomes:
    """A NIC with a profile is administratively down: NetworkManager calls it connected, later
    unavailable, and leaves it as it is.

    Somebody or something set it down without NetworkManager (ip link set dev … down), or it could
    not be brought up. nictop reads
    the flags of the link and the state of the device: activated, or unavailable with a profile that
    is bound to the NIC by name or MAC address and was active before or has static addresses.
    Critical: no other NIC of the host is up with a carrier. Else warning.

    Not reported: ports of bonds and bridges, profiles that describe what another program has
    configured, and those that are activated manually only.

    Sources: NetworkManager src/core/devices/nm-device.c; ip-link(8).
    """
    is_alone = not any(is_up(link) and link.carrier for link in host.links if link.bus is not None)
    for link, device in managed_nics(host):
        if is_up(link) or link.master is not None:
            continue
        profile, is_active = _profile_of_down_link(host, link, device)
        if profile is None:
            continue
        state = "is active" if is_active else "waits"
        yield link_finding(
            "critical" if is_alone else "warning",
            host,
            link,
            f"administratively down; profile {quoted_name(profile.id)} {state}",
            evidence=(
                *profile_evidence(profile),
                state_evidence(device),
                Evidence("state", "administratively down", f"ip link show dev {link.name}"),
            ),
            why="Nothing passes, and NetworkManager does nothing about it: something else has set "
            "it down, or it could not be brought up.",
            fixes=(_bring_up_fix(host, link, profile, is_active=is_active),),
        )


def _profile_of_down_link(
    host: HostFacts, link: Link, device: ManagedDevice
) -> tuple[Profile | None, bool]:
    """The profile that is active, or that waits for the link; and which of both."""
    active = host.profiles.active(link)
    if device.state == ACTIVATED and active is not None:
        is_own = not active.external and not is_generated_default(active)
        return (active, True) if is_own else (None, True)
    if device.state == UNAVAILABLE:
        for match in host.profiles.user_profiles(link):
            if _is_bound_and_used(match) and match.profile.autoconnect:
                return match.profile, False
    return None, False


def _bring_up_fix(host: HostFacts, link: Link, profile: Profile, *, is_active: bool) -> Fix:
    """NetworkManager activates a profile that waits by itself."""
    fix = set_link_up(link)
    if not is_active:
        return fix
    title = "Bring it up, and activate the profile again"
    return replace(fix, title=title, commands=(*fix.commands, bring_up(host, profile)), note="")


def _without_carrier(
    host: HostFacts, link: Link, device: ManagedDevice
) -> tuple[Profile, Severity, str] | None:
    """The profile for a NIC without carrier, severity and title; None: no finding."""
    active = host.profiles.active(link)
    if active is not None:
        if active.external or is_generated_default(active):
            return None
        state = f"profile {quoted_name(active.id)} is {use_text(device)}"
        return active, "warning", f"no carrier; {state}"
    if device.state != UNAVAILABLE:
        return None
    bound = [match for match in host.profiles.user_profiles(link) if _is_bound_and_used(match)]
    for match in bound:
        if not match.wait_reason:
            name = quoted_name(match.profile.id)
            return match.profile, "warning", f"no carrier; profile {name} is not active"
    for match in bound:
        if not match.profile.autoconnect or is_disconnected_by_user(device):
            name = quoted_name(match.profile.id)
            return match.profile, "info", f"no carrier; profile {name} is activated manually only"
    return None


def _is_bound_and_used(match: ProfileMatch) -> bool:
    """For this NIC alone, and it was active once or has settings of its own."""
    profile = match.profile
    if not profile.interface_name and not profile.mac_address:
        return False
    return bool(profile.timestamp) or profile.ipv4.method != "auto"
