"""NICs without an address: one that was just passed to a guest has no stanza, one that has a stanza
may still have no address, and one that NetworkManager only describes has lost it."""

from __future__ import annotations

from itertools import chain

from nictop.model.devices.links import has_global_address
from nictop.model.managers.configuration import file_and_line
from nictop.model.managers.link_managers import is_only_described
from nictop.model.managers.networkmanager_states import ACTIVATED
from nictop.model.text.words import IFF_PROMISC
from nictop.model.virtual_chain import is_own_veth
from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.address_files import AddressRequest, address_files, addressing_manager
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import (
    ADDRESS_NOTE,
    ADDRESS_PLACEHOLDER,
    activate,
    new_profile,
    other_profiles,
    profile_evidence,
)
from nictop.rules.host import HostFacts
from nictop.rules.link.carrier_causes import NIC_FAULTS
from nictop.rules.link.flags import address_obstacles, obstacles_text
from nictop.rules.profiles.naming_files import configuration_matches_a_missing_mac_address
from nictop.rules.profiles.nics import (
    address_evidence,
    is_managed_by_networkd,
    is_set_up,
    is_unassigned_vf,
    managed_nics,
    nics,
    set_up_otherwise,
)
from nictop.rules.profiles.old_names import configuration_names_a_missing_link
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

OTHER_CAUSES = (
    *NIC_FAULTS,
    "hypervisor_has_disconnected_the_nic",
    "configuration_names_an_old_name",
    "name_belongs_to_another_nic",
    "networkmanager_does_not_run",
    "networkd_does_not_run",
)
"""Rules that say why a NIC has no address."""
ARPHRD_PPP = 512
LINES_OF_A_FILE = ("netplan", "ifupdown", "networkd", "ifcfg", "cloud-init")
"""Owners of stanzas that say what a NIC is for, also without an address."""
GIVES_ADDRESS = frozenset(("dhcp4", "static"))
STARTED_SECONDS = 180.0
"""Since the boot: before, addresses may still be set."""
WHY_DHCP = (
    "No DHCP server has answered, the configuration was not applied since it was written, or the "
    "address was removed. A private network between two machines usually has no DHCP server."
)
WHY_STATIC = (
    "The configuration was not applied since it was written, that has failed, or the address was "
    "removed."
)
BY_DHCP = AddressRequest(None)
"""Without a default route: the host may have one by another NIC."""


@host_rule(
    "warning",
    yields_to=OTHER_CAUSES,
    needs=(
        "addresses",
        "configuration",
        "networkmanager",
        "routing",
        "pci.physical_function",
        "platform.hypervisor",
    ),
    uses=("networkd",),
)
def nothing_configures_the_nic(host: HostFacts) -> Outcomes:
    """A NIC has no IP address, and no configuration of it was found.

    A NIC that was just passed to a guest: netplan, ifupdown, systemd-networkd and ifcfg files
    configure only what is written down, by name or by MAC address, so it stays as the kernel made
    it, down and without an address.

    Only hosts on which NetworkManager does not run (other rules check those). Warning: in a guest,
    where each NIC was added on purpose, or in a container. Info: elsewhere, if it has a carrier.

    Not reported: while a configuration file could not be read; hosts with a stanza of a name or MAC
    address that no NIC has (other rules say that one of these NICs is meant); a NIC that a stanza
    mentions, also without addresses; one that is used without an address: port of a bridge or bond,
    below a VLAN or macvlan, with VFs, in promiscuous mode, with an XDP program, or with a route; a
    VF beside its PF; hosts with a PPP link, which may be on it.

    Sources: netplan(5); interfaces(5); systemd.network(5): a NIC that no file matches is unmanaged.
    """
    if host.profiles.manager is not None or any(link.type == ARPHRD_PPP for link in host.links):
        return
    idle = [link for link in _own_nics(host) if _is_idle(host, link)]
    if not idle or _names_a_missing_nic(host):
        return
    for link in idle:
        has = "no address but link-local ones" if link.addresses else "no IP address"
        title = f"{has}, and nothing configures it"
        why = "Only what a configuration names gets a global address."
        if not is_up(link):
            title = f"down, {title}"
            why = "Only what a configuration names gets an address and is set up."
        obstacles = list(address_obstacles(host, link))
        yield link_finding(
            "warning" if host.is_guest else "info",
            host,
            link,
            title,
            evidence=(
                Evidence("state", _state(link), f"ip link show dev {link.name}"),
                address_evidence(link),
                Evidence("stanzas", "none", "netplan, ifupdown, networkd, ifcfg files"),
                *chain.from_iterable(one.evidence for one in obstacles),
            ),
            why=why + obstacles_text(obstacles),
            fixes=(*_fixes(host, link), *(one.fix for one in obstacles)),
        )


@host_rule(
    "critical",
    yields_to=(*OTHER_CAUSES, "dhcp_never_answered", "networkd_failed"),
    needs=("addresses", "configuration", "networkmanager"),
    uses=("networkd",),
)
def configured_address_is_missing(host: HostFacts) -> Outcomes:
    """A NIC is up and has a carrier, its configuration gives it an address, and it has none.

    No DHCP server has answered, the configuration was not applied (ifup or netplan apply did not
    run after it was written, or failed), or somebody removed the address. nictop reads the stanzas
    of netplan, ifupdown, networkd and ifcfg files with DHCP or a static address. Critical: no other
    NIC of the host has an address. Else warning.

    Not reported: NICs that NetworkManager runs, those that systemd-networkd still configures (other
    rules check both), ports of bridges and bonds, and the first minutes after the boot.

    Sources: interfaces(5), ifup(8); netplan-apply(8); systemd.network(5).
    """
    if host.inventory.time < STARTED_SECONDS:
        return
    is_alone = not any(map(has_global_address, host.links))
    for link in nics(host):
        entry = _unapplied_entry(host, link)
        if entry is None or not is_up(link) or not link.carrier or has_global_address(link):
            continue
        how = "DHCP" if "dhcp4" in entry.methods else "a static address"
        yield link_finding(
            "critical" if is_alone else "warning",
            host,
            link,
            f"no IP address, although {entry.owner} configures {how}",
            evidence=(
                Evidence("state", _state(link), f"ip link show dev {link.name}"),
                address_evidence(link),
                Evidence("configured in", f"{file_and_line(entry)}: {how}", entry.file),
            ),
            why=WHY_DHCP if how == "DHCP" else WHY_STATIC,
            fixes=_apply_fixes(link, entry),
        )


@host_rule(
    "warning",
    yields_to=OTHER_CAUSES,
    needs=("addresses", "configuration", "networkmanager", "routing", "pci.physical_function"),
    uses=("networkd",),
)
def networkmanager_only_describes_the_nic(host: HostFacts) -> Outcomes:
    """A NIC has a carrier and no IP address, and NetworkManager only describes it: nothing gives it
    an address.

    NetworkManager leaves a NIC alone that another program has configured: nmcli says "connected
    (externally)", with a profile in memory that describes what was found. It begins that only for a
    NIC with an address (or a port), and does not end it when the address is removed: no profile is
    activated automatically, also where one matches.

    Not reported: NICs that systemd-networkd or a stanza of ifupdown or netplan configures; those
    that are used without an address (below a VLAN or macvlan, with VFs, in promiscuous mode, with
    an XDP program, or with a route); a VF beside its PF.

    Sources: NetworkManager src/core/devices/nm-device.c nm_device_generate_connection; nmcli(1).
    """
    for link, device in managed_nics(host):
        described = host.profiles.active(link)
        if device.state != ACTIVATED or described is None:
            continue
        if not is_only_described(device, described):
            continue
        if not link.carrier or has_global_address(link) or set_up_otherwise(host, link):
            continue
        if is_unassigned_vf(host, link) or _is_used(host, link):
            continue
        obstacles = list(address_obstacles(host, link))
        yield link_finding(
            "warning",
            host,
            link,
            "no IP address, and NetworkManager only describes it (external)",
            evidence=(
                Evidence("state", "connected (externally)", "nmcli device"),
                *profile_evidence(described),
                address_evidence(link),
                *other_profiles(host, link),
                *chain.from_iterable(one.evidence for one in obstacles),
            ),
            why="NetworkManager leaves it to whoever had given it an address, and activates no "
            "profile by itself." + obstacles_text(obstacles),
            fixes=(*_profile_fixes(host, link), *(one.fix for one in obstacles)),
        )


def _profile_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Activate the profile that fits; else add one."""
    for match in host.profiles.user_profiles(link):
        return (activate(host, link, match.profile),)
    return (new_profile(host, link, static=True), new_profile(host, link, static=False))


def _unapplied_entry(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """The stanza that gives the NIC an address; None: there is none, or its manager is at work or
    is done."""
    if host.profiles.device(link) is not None or is_managed_by_networkd(host, link):
        return None
    for entry in host.configuration.addressing(link):
        if entry.owner != "cloud-init" and not GIVES_ADDRESS.isdisjoint(entry.methods):
            return entry
    return None


def _apply_fixes(link: Link, entry: ConfigurationEntry) -> tuple[Fix, ...]:
    apply = {
        "netplan": command("netplan", "apply"),
        "networkd": command("networkctl", "reload"),
        "ifcfg": command("ifup", link.name),  # of network-scripts and wicked: without --force
    }.get(entry.owner, command("ifup", "--force", link.name))
    return (Fix("here", "Apply the configuration", (apply,), True),)


def _own_nics(host: HostFacts) -> list[Link]:
    """Those with a device, and the veth of a container that has no such NIC."""
    found = [link for link in nics(host) if not is_unassigned_vf(host, link)]
    veths = [link for link in host.links if link.kind == "veth"]
    return found + [link for link in veths if is_own_veth(link, host.snapshot)]


def _is_idle(host: HostFacts, link: Link) -> bool:
    if not host.is_guest and not link.carrier:  # a spare port
        return False
    if is_set_up(host, link) or _is_mentioned(host, link):
        return False
    return not _is_used(host, link)


def _names_a_missing_nic(host: HostFacts) -> bool:
    """A stanza has a name or a MAC address that no NIC has."""
    for rule in (configuration_names_a_missing_link, configuration_matches_a_missing_mac_address):
        if any(True for _ in rule(host)):
            return True
    return False


def _is_mentioned(host: HostFacts, link: Link) -> bool:
    """A stanza is about it, or a profile of a NetworkManager that does not run."""
    if host.profiles.user_profiles(link):
        return True
    return any(entry.owner in LINES_OF_A_FILE for entry in host.configuration.entries(link))


def _is_used(host: HostFacts, link: Link) -> bool:
    """Without an address."""
    if link.flags & IFF_PROMISC or link.xdp is not None:
        return True
    if any(_is_on(other, link) for other in host.links):
        return True
    function, routing = host.function_of(link), host.inventory.routing
    if function is not None and function.sriov is not None and function.sriov.num_vfs:
        return True
    return routing is None or any(route.ifindex == link.ifindex for route in routing.routes)


def _is_on(other: Link, link: Link) -> bool:
    """A VLAN, a macvlan, or the other end of a veth."""
    return other.lower == link.ifindex and other.lower_namespace is None


def _state(link: Link) -> str:
    if not is_up(link):
        return "administratively down"
    return "up" if link.carrier else "up, no carrier"


def _fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """An address until the next reboot; and by DHCP at each boot, by the manager of the host."""
    lines = [command("ip", "address", "add", ADDRESS_PLACEHOLDER, "dev", link.name)]
    undo = [command("ip", "address", "del", ADDRESS_PLACEHOLDER, "dev", link.name)]
    if not is_up(link):
        lines.insert(0, command("ip", "link", "set", "dev", link.name, "up"))
        undo.append(command("ip", "link", "set", "dev", link.name, "down"))
    now = Fix(
        "here",
        "Set an address until the next reboot",
        tuple(lines),
        False,
        tuple(undo),
        note=ADDRESS_NOTE,
    )
    if not addressing_manager(host):
        return (now,)
    return (now, *address_files(host, link, BY_DHCP)[:1])
