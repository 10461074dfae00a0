"""Managers that tried to set a NIC up and failed: DHCP without an answer, other failures, systemd-networkd."""

from __future__ import annotations

from nictop.model.managers.networkmanager_states import ACTIVATED, DISCONNECTED, FAILED, IP_CONFIG
from nictop.probe.records import Link, ManagedDevice, Profile
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.commands import command, shell_quote
from nictop.rules.fixes.profiles import (
    ADDRESS_PLACEHOLDER,
    bring_up,
    global_addresses,
    has_address,
    modify,
    profile_arguments,
    profile_evidence,
    quoted_name,
    static_settings,
)
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import address_evidence, is_nic, managed_nics, state_evidence
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import link_finding

FAMILY: Family = "profiles and names"
NO_ADDRESS_REASONS = frozenset((5, 6, 15, 16, 17))
"""NM_DEVICE_STATE_REASON_*: IP_CONFIG_UNAVAILABLE, IP_CONFIG_EXPIRED, DHCP_START_FAILED, DHCP_ERROR, DHCP_FAILED."""
NO_DHCP_CAUSES = (
    "No DHCP server in this network or VLAN, a wrong port group or bridge below, or a filter for unknown MAC addresses."
)


@host_rule(
    FAMILY,
    "critical",
    yields_to=(
        "profile_is_generated",
        "profile_names_a_missing_interface",
        "profile_names_a_missing_mac_address",
        "configuration_names_an_old_name",
    ),
    needs=("addresses",),
    uses=("configuration", "networkd", "networkmanager"),
)
def dhcp_never_answered(host: HostFacts) -> Outcomes:
    """A NIC asks for its address by DHCP and gets no answer.

    NetworkManager asks for 45 seconds, four times, then leaves the NIC disconnected and tries again every five
    minutes; systemd-networkd stays "configuring". A network of your own between two machines usually has no DHCP.

    Critical: NetworkManager has failed or given up, or networkd waits, and the NIC has no address. Warning: it is being
    tried at this moment, or only IPv6 works. Info: IPv6 has a default route, so that the network may have no IPv4. A
    NIC that was disconnected by hand, has no carrier or whose manager is still starting is not reported.

    Sources: NetworkManager.conf(5) ipv4.dhcp-timeout, autoconnect-retries-default; NetworkManager
    src/core/nm-policy.c; networkctl(1).
    """
    manager = host.profiles.manager
    for link, device in managed_nics(host):
        if manager is None or manager.startup or global_addresses(link):
            continue
        profile = host.profiles.attempted(link)
        if profile is None or profile.ipv4.method != "auto" or profile.controller is not None:
            continue
        failure = _dhcp_state(link, device)
        if failure is None:
            continue
        yield link_finding(
            failure[0],
            host,
            link,
            failure[1],
            evidence=(*profile_evidence(profile), state_evidence(device), address_evidence(link)),
            why=f"Without an address nothing but IPv6 on the link works. {NO_DHCP_CAUSES}",
            fixes=_static(host, link, profile),
        )
    yield from _networkd_waits(host)


def _dhcp_state(link: Link, device: ManagedDevice) -> tuple[Severity, str] | None:
    """(How bad it is, what is said); None: no failure."""
    if device.state == ACTIVATED and any(route.family == "ipv6" for route in link.default_routes):
        return "info", "has IPv6 only: DHCP does not answer"
    if device.state == ACTIVATED:
        return "warning" if has_address(link) else "critical", "has no IPv4 address: DHCP does not answer"
    if device.state == IP_CONFIG:
        return "warning", "waits for DHCP to answer"
    if device.state == FAILED and device.reason in NO_ADDRESS_REASONS:
        return "critical", "has no address: DHCP never answered"
    if device.state == DISCONNECTED:
        return "critical", "has no address: NetworkManager gave DHCP up for now"
    return None


def _static(host: HostFacts, link: Link, profile: Profile) -> tuple[Fix, ...]:
    return (
        Fix(
            "here",
            "give it a static address",
            (modify(host, profile, *static_settings(link)), bring_up(host, profile)),
            True,
            (modify(host, profile, "ipv4.method", "auto", "ipv4.addresses", ""), bring_up(host, profile)),
            f"Put the address in for {ADDRESS_PLACEHOLDER}, such as 192.0.2.10/24.",
        ),
        Fix(
            "here", "ask DHCP once more", (bring_up(host, profile),), None, note="After the network has been repaired."
        ),
    )


def _networkd_waits(host: HostFacts) -> Outcomes:
    for ifindex, state in host.inventory.networkd.items():
        link = host.snapshot.links.get(ifindex)
        if link is None or state.setup_state != "configuring" or not is_nic(host, link) or global_addresses(link):
            continue
        entries = host.configuration.addressing(link)
        asks = any("dhcp4" in entry.methods for entry in entries)
        if not asks or link.carrier is not True:
            continue
        file = state.network_file or entries[0].file
        yield link_finding(
            "warning" if has_address(link) else "critical",
            host,
            link,
            "waits for DHCP to answer",
            evidence=(
                Evidence(
                    "state",
                    f"{state.setup_state}, {state.operational_state}",
                    f"networkctl status {shell_quote(link.name)}",
                ),
                Evidence("asked for by", file, "networkctl"),
                address_evidence(link),
            ),
            why=f"systemd-networkd goes on asking; until then the NIC has no IPv4 address. {NO_DHCP_CAUSES}",
            fixes=(
                Fix("here", "give it a static address", (), True, note=f"Put it in {entries[0].file} instead of DHCP."),
                Fix("here", "ask once more", (command("networkctl", "reconfigure", link.name),)),
            ),
        )


@host_rule(
    FAMILY,
    "critical",
    yields_to=("profile_is_generated", "dhcp_never_answered", "ip_address_is_on_two_hosts"),
    needs=("networkmanager",),
)
def profile_failed(host: HostFacts) -> Outcomes:
    """NetworkManager tried to bring a profile up on a NIC and failed, for another reason than DHCP.

    The reason is NetworkManager's own: an address that another machine has, SR-IOV that could not be set up, a VLAN or
    bond below that is missing, 802.1X, missing firmware.

    Reported for the state failed, and for a disconnected NIC with carrier whose profile has static addresses and would
    have come up by itself: NetworkManager tries four times, then waits. Not while NetworkManager is starting.

    Source: NM_DEVICE_STATE_REASON_* in NetworkManager's nm-dbus-interface.h; nm-settings-nmcli(5)
    connection.autoconnect-retries.
    """
    manager = host.profiles.manager
    for link, device in managed_nics(host):
        if manager is None or manager.startup or device.state not in (FAILED, DISCONNECTED):
            continue
        profile = host.profiles.attempted(link)
        if profile is None or (device.state == DISCONNECTED and (profile.ipv4.method == "auto" or has_address(link))):
            continue
        lines = [command("journalctl", "-b", "-u", "NetworkManager", "--grep", link.name, "-n", "50")]
        yield link_finding(
            "critical",
            host,
            link,
            f"could not be set up by {quoted_name(profile.id)}",
            evidence=(*profile_evidence(profile), state_evidence(device), address_evidence(link)),
            why="The NIC lacks what its profile sets. NetworkManager's journal names the step that failed.",
            fixes=(
                Fix("here", "see what failed", tuple(lines)),
                Fix("here", "try again", (command("nmcli", "con", "up", *profile_arguments(host, profile)),)),
            ),
        )


@host_rule(FAMILY, "critical", uses=("networkd",))
def networkd_failed(host: HostFacts) -> Outcomes:
    """systemd-networkd could not set a NIC up.

    Its state file says "failed": an address, route, or setting of the .network file was refused by the kernel. What
    comes after the refused part is not set either.

    Read from /run/systemd/netif/links; netplan's files end up there too.

    Source: networkctl(1), setup state failed.
    """
    for ifindex, state in host.inventory.networkd.items():
        link = host.snapshot.links.get(ifindex)
        if link is None or state.setup_state != "failed":
            continue
        netplan = "netplan-" in (state.network_file or "")
        again = command("netplan", "apply") if netplan else command("networkctl", "reconfigure", link.name)
        yield link_finding(
            "critical",
            host,
            link,
            "could not be set up by systemd-networkd",
            evidence=(
                Evidence("setup state", "failed", f"/run/systemd/netif/links/{ifindex}"),
                Evidence("file", state.network_file or "none", "networkctl"),
                address_evidence(link),
            ),
            why="The kernel refused a part of the configuration; the journal names it.",
            fixes=(
                Fix(
                    "here",
                    "see what was refused",
                    (command("journalctl", "-b", "-u", "systemd-networkd", "--grep", link.name, "-n", "50"),),
                ),
                Fix("here", "try again after the file was corrected", (again,)),
            ),
        )
