"""NICs whose manager failed to configure them: no DHCP reply, other failures, systemd-networkd."""

from __future__ import annotations

from nictop.model.devices.links import global_addresses, has_global_address
from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DISCONNECTED,
    has_failed,
    has_no_address,
)
from nictop.probe.records import Link, ManagedDevice, Profile
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command, shell_quote
from nictop.rules.fixes.profiles import (
    ADDRESS_NOTE,
    bring_up,
    is_shared,
    modify,
    new_profile,
    profile_arguments,
    profile_evidence,
    quoted_name,
    static_settings,
)
from nictop.rules.host import HostFacts
from nictop.rules.profiles.dhcp_attempts import NO_REPLY_YET, dhcp_attempts
from nictop.rules.profiles.naming_files import GENERATED_FOLDER
from nictop.rules.profiles.nics import (
    address_evidence,
    is_nic,
    managed_nics,
    state_evidence,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import PARAVIRTUAL_BUSES, has_default_route, link_finding

REJECTED = (
    "Also possible: replies arrive and dhclient rejects them, as a DHCP server on the same "
    "hypervisor sends them without a checksum."
)


@host_rule(
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
    """A NIC uses DHCP and has no IPv4 address.

    By default NetworkManager tries four times for 45 seconds, then leaves the NIC disconnected and
    retries every five minutes; systemd-networkd stays in setup state "configuring". A private
    network between two machines usually has no DHCP server.

    Critical: an attempt of NetworkManager has failed, also while it tries again, or networkd is
    waiting, and the NIC has no address. Warning: DHCP is in progress and no failure was seen, or
    the NIC has an IPv6 address only. An active profile without an IPv4 address: no reply, or
    somebody removed the address, which NetworkManager does not set again. Info: IPv6 has a default
    route, so the network may be IPv6-only. Not reported: a NIC that was disconnected manually or
    for another activation, has no carrier, or whose manager is still starting.

    A failure that was seen is remembered for the NIC and the profile until the profile is
    activated: NetworkManager itself does not tell it any more after a change of the carrier.

    If NetworkManager uses dhclient, and the NIC is a virtual one without a cable, replies may also
    be received and rejected: a DHCP server on the same hypervisor sends them without a checksum,
    which older versions of dhclient read as a wrong one.

    Sources: NetworkManager.conf(5) ipv4.dhcp-timeout, autoconnect-retries-default; NetworkManager
    src/core/nm-policy.c; networkctl(1); kubevirt/kubevirt#1715 and #16131, weaveworks/ignite#870,
    felix#40.
    """
    manager = host.profiles.manager
    for link, device in managed_nics(host):
        if manager is None or manager.startup or global_addresses(link, "ipv4"):
            continue
        profile = host.profiles.attempted(link)
        if profile is None or profile.ipv4.method != "auto" or profile.controller is not None:
            continue
        failure = _dhcp_state(host, link, device, profile)
        if failure is not None:
            severity, title, outlook = failure
            yield _dhcp_finding(
                host, link, device, profile, severity=severity, title=title, outlook=outlook
            )
    yield from _networkd_waits(host)


def _dhcp_finding(
    host: HostFacts,
    link: Link,
    device: ManagedDevice,
    profile: Profile,
    *,
    severity: Severity,
    title: str,
    outlook: str,
) -> Finding:
    evidence = [*profile_evidence(profile), state_evidence(device), address_evidence(link)]
    why = f"The NIC has no IPv4 address. {_possible_causes(host, device)}"
    if outlook:
        why += f" {outlook}"
    fixes = [*_static(host, link, profile)]
    client = _client_that_checks(host, link)
    if client is not None:
        title = title.replace("no DHCP reply", "no accepted DHCP reply")
        evidence.append(client)
        why += f" {REJECTED}"
        fixes += _rejected_replies()
    return link_finding(
        severity, host, link, title, evidence=tuple(evidence), why=why, fixes=tuple(fixes)
    )


def _possible_causes(host: HostFacts, device: ManagedDevice | None = None) -> str:
    """Of the missing address. `device`: of NetworkManager."""
    place = "wrong VLAN of the switch port"
    if host.is_container:
        place = "wrong bridge on the host of the container"
    elif host.is_guest:
        place = "wrong port group or bridge on the hypervisor"
    last = "a filter that blocks unknown MAC addresses"
    if device is not None and device.state == ACTIVATED:
        last += ", or somebody has removed the address"
    return f"Possible causes: no DHCP server in this network or VLAN, {place}, or {last}."


def _client_that_checks(host: HostFacts, link: Link) -> Evidence | None:
    """The DHCP client, if it may read a missing checksum as a wrong one and the NIC may get such
    packets: older versions of dhclient do not ask the kernel whether the checksum was computed
    (PACKET_AUXDATA; review of kubevirt/kubevirt#16131)."""
    if link.bus not in PARAVIRTUAL_BUSES and link.kind != "veth":
        return None
    process, manager = host.inventory.services.dhclient, host.inventory.networkmanager
    if process is not None:
        return Evidence("DHCP client", f"dhclient, pid {process}", "/proc/PID/comm")
    if manager is None or manager.configuration.dhcp != "dhclient":
        return None
    where = manager.configuration.origins.get("dhcp", "NetworkManager.conf")
    return Evidence("DHCP client", "dhclient", where)


def _rejected_replies() -> tuple[Fix, ...]:
    rule = ["POSTROUTING", "-p", "udp", "--dport", "68", "-j", "CHECKSUM", "--checksum-fill"]
    add = command("iptables", "-t", "mangle", "-A", *rule)
    remove = command("iptables", "-t", "mangle", "-D", *rule)
    return (
        Fix(
            "here",
            "See whether replies are rejected",
            (command("journalctl", "-b", "--grep", "bad udp checksum"),),
            note='dhclient writes "5 bad udp checksums in 5 packets".',
        ),
        Fix(
            "hypervisor",
            "If so, let the host of the DHCP server fill in checksums",
            (add,),
            False,
            (remove,),
        ),
    )


def _dhcp_state(
    host: HostFacts, link: Link, device: ManagedDevice, profile: Profile
) -> tuple[Severity, str, str] | None:
    """(severity, title, sentences about the attempts); None: no failure."""
    if device.state != ACTIVATED:
        return dhcp_attempts(host, link, device, profile)
    if has_default_route(link, "ipv6"):
        return "info", "no IPv4 address by DHCP; IPv6 only", ""
    severity: Severity = "warning" if has_global_address(link) else "critical"
    return severity, "no IPv4 address by DHCP", ""


def _static(host: HostFacts, link: Link, profile: Profile) -> tuple[Fix, ...]:
    up = bring_up(host, profile)
    retry = Fix("here", "Retry DHCP", (up,), None, note="Correct the network first.")
    if is_shared(host, profile):  # two NICs cannot have one address
        return new_profile(host, link, static=True), retry
    change = modify(host, profile, *static_settings(link))
    before = ",".join(profile.ipv4.addresses)
    undo = modify(host, profile, "ipv4.method", "auto", "ipv4.addresses", before)
    static = Fix("here", "Set a static address", (change, up), True, (undo, up), ADDRESS_NOTE)
    return static, retry


def _networkd_waits(host: HostFacts) -> Outcomes:
    for ifindex, state in host.inventory.networkd.items():
        link = host.link_at(ifindex)
        if link is None or state.setup_state != "configuring" or link.carrier is not True:
            continue
        entries = host.configuration.addressing(link)
        if not any("dhcp4" in entry.methods for entry in entries):
            continue
        if not is_nic(host, link) or global_addresses(link, "ipv4"):
            continue
        now = f"{state.setup_state}, {state.operational_state}"
        written = [entry.file for entry in entries if not entry.file.startswith(GENERATED_FOLDER)]
        file = written[0] if written else entries[0].file
        note = f"In {file}, replace DHCP by the address."
        retry = command("networkctl", "reconfigure", link.name)
        yield link_finding(
            "warning" if has_global_address(link) else "critical",
            host,
            link,
            NO_REPLY_YET,
            evidence=(
                Evidence("state", now, f"networkctl status {shell_quote(link.name)}"),
                Evidence("configured in", state.network_file or file, "networkctl"),
                address_evidence(link),
            ),
            why=f"The NIC has no IPv4 address; systemd-networkd keeps trying. "
            f"{_possible_causes(host)}",
            fixes=(
                Fix("here", "Set a static address", (), True, note=note),
                Fix("here", "Retry DHCP", (retry,)),
            ),
        )


@host_rule(
    "critical",
    yields_to=("profile_is_generated", "dhcp_never_answered", "ip_address_is_on_two_hosts"),
    needs=("networkmanager",),
)
def profile_failed(host: HostFacts) -> Outcomes:
    """NetworkManager failed to activate a profile on a NIC, for a reason other than DHCP.

    The reason is as reported by NetworkManager: an address in use by another machine, SR-IOV
    settings that could not be applied, a missing parent of a VLAN or bond, 802.1X, missing
    firmware.

    Reported for the state failed, and for a disconnected NIC with carrier whose profile is
    activated automatically: NetworkManager tries four times, then waits. Not reported while
    NetworkManager is starting, and not for a reason that is no failure: another activation was
    requested, the carrier came, the active profile was deleted.

    Source: NM_DEVICE_STATE_REASON_* in NetworkManager's nm-dbus-interface.h; nm-settings-nmcli(5)
    connection.autoconnect-retries.
    """
    manager = host.profiles.manager
    for link, device in managed_nics(host):
        if manager is None or manager.startup or not has_failed(device.state, device.reason):
            continue
        profile = host.profiles.attempted(link)
        if profile is None or _may_wait(link, device, profile):
            continue
        log = command("journalctl", "-b", "-u", "NetworkManager", "--grep", link.name, "-n", "50")
        up = command("nmcli", "con", "up", *profile_arguments(host, profile))
        yield link_finding(
            "critical",
            host,
            link,
            f"activation of profile {quoted_name(profile.id)} failed",
            evidence=(*profile_evidence(profile), state_evidence(device), address_evidence(link)),
            why="The settings of the profile are not applied. The log of NetworkManager shows "
            "which step failed.",
            fixes=(
                Fix("here", "Show the log of NetworkManager", (log,)),
                Fix("here", "Activate the profile again", (up,)),
            ),
        )


def _may_wait(link: Link, device: ManagedDevice, profile: Profile) -> bool:
    """NetworkManager tries DHCP again by itself, or an address is there."""
    if device.state != DISCONNECTED:
        return False
    is_about_dhcp = profile.ipv4.method == "auto" and has_no_address(device.state, device.reason)
    return is_about_dhcp or has_global_address(link)


@host_rule("critical", uses=("networkd",))
def networkd_failed(host: HostFacts) -> Outcomes:
    """systemd-networkd failed to configure a NIC.

    Its setup state is "failed": a step of the configuration failed, most often because the kernel
    rejected an address, route or setting of the .network file. What had not been applied by then is
    missing, and DHCP is stopped.

    Read from /run/systemd/netif/links. netplan with systemd-networkd is covered too.

    Sources: networkctl(1), setup state failed; systemd src/network/networkd-link.c
    (link_enter_failed).
    """
    for ifindex, state in host.inventory.networkd.items():
        link = host.link_at(ifindex)
        if link is None or state.setup_state != "failed":
            continue
        again, note = command("networkctl", "reconfigure", link.name), ""
        if "netplan-" in (state.network_file or ""):
            again, note = command("netplan", "apply"), "Applies what netplan has for every NIC."
        log = command("journalctl", "-b", "-u", "systemd-networkd", "--grep", link.name, "-n", "50")
        yield link_finding(
            "critical",
            host,
            link,
            "configuration by systemd-networkd failed",
            evidence=(
                Evidence("setup state", "failed", f"/run/systemd/netif/links/{ifindex}"),
                Evidence("file", state.network_file or "none", "networkctl"),
                address_evidence(link),
            ),
            why="A step of the configuration failed, usually a setting that the kernel rejected. "
            "The log of systemd-networkd shows which one.",
            fixes=(
                Fix("here", "Show the log of systemd-networkd", (log,)),
                Fix("here", "Apply the corrected file", (again,), note=note),
            ),
        )
