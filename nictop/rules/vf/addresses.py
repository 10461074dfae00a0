"""MAC addresses of virtual functions and of cloned machines: made up at every boot, or used twice.

Reads nothing; rules about `Link.address_assignment`, `VirtualFunction.address` and `Platform.machine_id_hash` of all
watched hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, is_virtual_function
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.hypervisors import has_linux_hypervisor, hypervisor_places
from nictop.rules.fixes.profiles import bring_up, modify
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import host_finding, link_finding
from nictop.rules.vf.facts import (
    function_of,
    is_port_of_netvsc,
    is_same_machine,
    is_up,
)

FAMILY: Final = "VF attributes and path"
NEW_MACHINE_ID = (
    command("rm", "-f", "/etc/machine-id", "/var/lib/dbus/machine-id"),
    command("systemd-machine-id-setup"),
    command("reboot"),
)


@pair_rule(FAMILY, "warning", needs=("pci.physical_function",), uses=("links.address_assignment",))
def vf_address_is_random(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest's virtual function has no MAC address of its own: its driver makes up another one at every boot.

    nictop reads addr_assign_type "random" of a virtual function's netdev. The host has set no address, so that DHCP
    gives another lease, profiles that name the address do not match, and neighbours keep the old one.

    Silent about links that are switched off, and about virtual functions of this host's own NIC without an address.

    Known from drivers/net/ethernet/intel/iavf/iavf_main.c ("Invalid MAC address … using random"),
    OpenNebula/one#3329, canonical/lxd#8431.
    """
    for host in hosts:
        for link in host.links:
            if link.address_assignment != "random" or not is_up(link) or not is_virtual_function(link, host.functions):
                continue
            function = host.functions.get(link.pci_address or "")
            own = function is not None and function.physical_function is not None
            if (own and not link.addresses) or is_port_of_netvsc(host, link):
                continue
            yield link_finding(
                "warning",
                host,
                link,
                "gets another MAC address at every boot",
                evidence=(
                    Evidence("address", link.address or "none", f"ip link show {link.name}"),
                    Evidence("how it was given", "random", f"/sys/class/net/{link.name}/addr_assign_type"),
                ),
                why="Leases, profiles, licences and filters that go by the address break at the next boot.",
                fixes=_address_fixes(host, link),
            )


def _address_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    fixes = []
    for place in hypervisor_places(host.inventory.platform):
        if place == "libvirt":
            note = (
                "<interface type='hostdev' managed='yes'><mac address='…'/> in place of a bare <hostdev>: libvirt "
                "then sets the address whenever the guest starts."
            )
            fixes.append(
                Fix("libvirt", "give it with the guest", (command("virsh", "edit", "<DOMAIN>"),), True, (), note)
            )
        elif place == "esxi":
            note = "Edit settings → network adapter (SR-IOV passthrough) → MAC address: manual."
            fixes.append(Fix("esxi", "set the address of the adapter", (), True, (), note))
    if has_linux_hypervisor(host.inventory.platform):
        change = command("ip", "link", "set", "<PF>", "vf", "<N>", "mac", link.address or "<MAC>")
        note = "Before the guest starts; Proxmox VE: in a hookscript of the guest."
        fixes.append(Fix("hypervisor", "set it on its port", (change,), False, (), note))
    return tuple(fixes)


@pair_rule(FAMILY, "warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def vf_has_no_administrative_address(hosts: Sequence[HostFacts]) -> Outcomes:
    """A virtual function was given to a guest without a MAC address, so that the guest makes one up at every boot.

    nictop reads 00:00:00:00:00:00 as the address of a virtual function (IFLA_VFINFO_LIST) that vfio-pci has and a guest
    has open.

    Silent when that guest is watched too and says so itself, when the virtual function is not in use, and in switchdev
    mode, where addresses are set elsewhere.

    Known from drivers/net/ethernet/intel/ice/ice_sriov.c, ip-link(8) vf mac.
    """
    guests_say = any(
        link.address_assignment == "random" and is_virtual_function(link, host.functions)
        for host in hosts
        for link in host.links
    )
    for host in () if guests_say else hosts:
        bare: dict[int, list[int]] = {}
        for port, one in host.used_virtual_functions:
            function = function_of(host, port, one.number)
            passed_on = function is not None and function.driver in PASSTHROUGH_DRIVERS
            if passed_on and one.address == ZERO_MAC_ADDRESS and not port.switch_id:
                bare.setdefault(port.ifindex, []).append(one.number)
        for ifindex, numbers in bare.items():
            port = host.snapshot.links[ifindex]
            shown = ", ".join(f"VF {number}" for number in numbers[:4])
            yield link_finding(
                "warning",
                host,
                port,
                f"gave {shown} no MAC address: the guest makes one up",
                evidence=(Evidence("address", f"{ZERO_MAC_ADDRESS}: {shown}", f"ip link show {port.name}"),),
                why="The guest's driver takes a random address at every start: another DHCP lease, profiles that no "
                "longer match.",
                fixes=tuple(_choose_address(port, number) for number in numbers[:4]),
            )


def _choose_address(port: Link, number: int) -> Fix:
    change, undo = (
        command("ip", "link", "set", port.name, "vf", str(number), "mac", one) for one in ("<MAC>", ZERO_MAC_ADDRESS)
    )
    note = "Any address that nobody else has, as 02:…; the guest takes it when it starts next."
    return Fix("here", f"set the address of VF {number}", (change,), False, (undo,), note)


@pair_rule(FAMILY, "critical", uses=("links.address_assignment",))
def address_is_used_twice(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched machines have NICs with the same MAC address.

    nictop compares the addresses of all links with hardware behind them that are up. Cloned guests keep the address of
    their template, addresses that systemd derives (MACAddressPolicy=persistent) are equal where the machine-id is, and
    an address may have been set that is another NIC's own. The NIC to change is the one whose address is not its
    permanent one (IFLA_PERM_ADDRESS, addr_assign_type); where that does not tell them apart, the one found later.

    Silent when the two are one machine that is watched twice (same boot), and about bridges, veths and other links
    without hardware, whose addresses never leave the machine by themselves.

    Known from systemd/systemd#14744, machine-id(5), systemd.link(5).
    """
    seen: dict[str, list[tuple[HostFacts, Link]]] = {}
    for host in hosts:
        for link in host.links:
            if link.address and _is_hardware_in_use(link):
                seen.setdefault(link.address, []).append((host, link))
    for address, places in seen.items():
        ranked = sorted(places, key=lambda place: _is_overridden(place[1]))
        host, link = ranked[-1]
        others = [(one, theirs) for one, theirs in ranked[:-1] if not is_same_machine(one, host)]
        if not others:
            continue
        names = ", ".join(f"{theirs.name} of {one.name}" for one, theirs in others)
        cloned = any(_have_one_machine_id(host, one) for one, _ in others)
        yield link_finding(
            "critical",
            host,
            link,
            f"has the same MAC address as {others[0][1].name} of {others[0][0].name}",
            evidence=(
                Evidence("address", address, "ip link"),
                *_own_address(link),
                Evidence("also used by", names, "ip link"),
                Evidence("machine-id", "the same" if cloned else "different", "/etc/machine-id"),
            ),
            why="Switches send frames to whoever spoke last: both lose packets in turns, or one has no connection.",
            fixes=_duplicate_fixes(host, link, cloned=cloned),
        )


def _is_overridden(link: Link) -> bool:
    """Somebody gave it another address than the one that its hardware, or the hypervisor, has for it."""
    if link.permanent_address is not None:
        return link.permanent_address != link.address
    return link.address_assignment not in ("permanent", None)


def _own_address(link: Link) -> tuple[Evidence, ...]:
    if not _is_overridden(link):
        return ()
    if link.permanent_address is not None:
        return (Evidence("permanent address", link.permanent_address, f"ethtool -P {link.name}"),)
    return (
        Evidence("how it was given", link.address_assignment or "", f"/sys/class/net/{link.name}/addr_assign_type"),
    )


def _is_hardware_in_use(link: Link) -> bool:
    has_device = link.type == ARPHRD_ETHER and link.bus is not None and link.kind is None
    return has_device and link.address != ZERO_MAC_ADDRESS and link.master is None and is_up(link)


def _have_one_machine_id(one: HostFacts, other: HostFacts) -> bool:
    mine, theirs = one.inventory.platform.machine_id_hash, other.inventory.platform.machine_id_hash
    return mine is not None and mine == theirs


def _duplicate_fixes(host: HostFacts, link: Link, *, cloned: bool) -> tuple[Fix, ...]:
    change = ("ip", "link", "set", "dev", link.name, "address")
    undo = command(*change, link.address or "")
    own = link.permanent_address
    if own is not None and own != link.address:
        note = "Ends connections over this link."
        title = "take its permanent address again until the next reboot"
        return (
            Fix("here", title, (command(*change, own),), False, (undo,), note),
            *_permanent_in_profile(host, link),
        )
    fixes = []
    if cloned:
        note = "Everything that goes by the machine-id changes: DHCP leases, the journal's folder."
        fixes.append(Fix("here", "give this clone a machine-id of its own", NEW_MACHINE_ID, True, (), note))
    for place in hypervisor_places(host.inventory.platform):
        note = "A guest that was copied keeps the addresses of its template: let the hypervisor make new ones."
        fixes.append(Fix(place, "give its adapter another address", (), True, (), note))
    note = "Any address that nobody else has, as 02:…"
    fixes.append(
        Fix("here", "take another one until the next reboot", (command(*change, "<MAC>"),), False, (undo,), note)
    )
    return tuple(fixes)


def _permanent_in_profile(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Where a NetworkManager profile sets the address."""
    profile = host.profiles.active(link)
    if profile is None or profile.external or profile.cloned_mac_address in (None, "", "preserve", "permanent"):
        return ()
    name = "802-3-ethernet.cloned-mac-address"
    return (
        Fix(
            "here",
            "and in its profile",
            (modify(host, profile, name, "permanent"), bring_up(host, profile)),
            True,
            (modify(host, profile, name, profile.cloned_mac_address or ""), bring_up(host, profile)),
        ),
    )


@pair_rule(FAMILY, "warning", needs=("platform",))
def machine_id_is_cloned(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched machines have the same machine-id: one was copied from the other, or both from one template.

    nictop compares hashes of /etc/machine-id. DHCP clients identify themselves by it (DUID), so that both may be given
    the same address, and systemd derives the same MAC addresses for virtual links.

    Silent when the two are one machine that is watched twice (same boot), for containers, and when their NICs already
    have the same MAC address, which `address_is_used_twice` tells.

    Known from machine-id(5), systemd.network(5) DUIDType=, systemd/systemd#14744.
    """
    by_id: dict[str, list[HostFacts]] = {}
    for host in hosts:
        platform = host.inventory.platform
        if platform.machine_id_hash is not None and "container" not in platform.roles:
            by_id.setdefault(platform.machine_id_hash, []).append(host)
    for digest, machines in by_id.items():
        others = [host for host in machines[1:] if not is_same_machine(host, machines[0])]
        if not others or any(_share_an_address(machines[0], host) for host in others):
            continue
        names = ", ".join(host.name for host in machines if host is not others[0])
        yield host_finding(
            "warning",
            others[0],
            "",
            f"has the same machine-id as {names}",
            evidence=(Evidence("hash of the machine-id", digest, "/etc/machine-id"),),
            why="A DHCP server may take both for one machine and give them one address, which then works for neither.",
            fixes=(Fix("here", "give this clone a machine-id of its own", NEW_MACHINE_ID, True, ()),),
        )


def _share_an_address(one: HostFacts, other: HostFacts) -> bool:
    mine = {link.address for link in one.links if link.address and _is_hardware_in_use(link)}
    return any(link.address in mine for link in other.links if _is_hardware_in_use(link))
