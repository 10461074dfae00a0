"""MAC addresses of VFs and of cloned machines: random at every boot, or duplicate.

Reads nothing; rules about `Link.address_assignment`, `VirtualFunction.address` and `Platform.machine_id_hash` of all
watched hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from nictop.model.devices.devlink import is_switchdev
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, is_virtual_function
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.hypervisors import has_linux_hypervisor, hypervisor_places
from nictop.rules.fixes.profiles import bring_up, modify
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import link_messages
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import host_finding, link_finding
from nictop.rules.vf.facts import (
    function_of,
    is_port_of_netvsc,
    is_same_machine,
    is_up,
    own_links,
    set_vf_fix,
)

FAMILY: Final = "VF attributes and path"
MAX_SHOWN = 4
"""VFs of one port in a finding."""
NEW_MACHINE_ID = (
    command("rm", "-f", "/etc/machine-id", "/var/lib/dbus/machine-id"),
    command("systemd-machine-id-setup"),
    command("reboot"),
)


@pair_rule(
    FAMILY,
    "warning",
    yields_to=("vf_was_made_while_its_port_was_down",),
    needs=("pci.physical_function",),
    uses=("links.address_assignment",),
)
def vf_address_is_random(hosts: Sequence[HostFacts]) -> Outcomes:
    """The VF of a guest has no configured MAC address: its driver generates a random one at every boot.

    nictop reads addr_assign_type "random" of the VF's netdev: the hypervisor has set no address. DHCP then assigns
    another lease, profiles with the old address do not match, and neighbours cache the old address.

    Not reported: links that are down, and VFs of this host's own NIC without an IP address.

    Sources: kernel drivers/net/ethernet/intel/iavf/iavf_main.c ("Invalid MAC address … using random"),
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
                "random MAC address, changes at every boot",
                evidence=(
                    Evidence("MAC address", link.address or "none", f"ip link show {link.name}"),
                    Evidence("assignment type", "random", f"/sys/class/net/{link.name}/addr_assign_type"),
                    *_random_evidence(host, link),
                ),
                why="DHCP leases, profiles, licences and filters bound to the address fail after the next boot.",
                fixes=_address_fixes(host, link),
            )


def _random_evidence(host: HostFacts, link: Link) -> tuple[Evidence, ...]:
    """What the driver logged about it."""
    messages = link_messages(host, link, "random_address", within=math.inf)
    return (Evidence("kernel message", messages.newest.text, "/dev/kmsg"),) if messages is not None else ()


def _address_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    fixes = []
    for place in hypervisor_places(host.inventory.platform):
        if place == "libvirt":
            note = (
                "<interface type='hostdev' managed='yes'><mac address='…'/> instead of a bare <hostdev>: libvirt "
                "then sets the address at every start of the guest."
            )
            fixes.append(
                Fix(
                    "libvirt",
                    "Set the MAC address in the guest definition",
                    (command("virsh", "edit", "<DOMAIN>"),),
                    True,
                    (),
                    note,
                )
            )
        elif place == "esxi":
            note = "Edit settings → network adapter (SR-IOV passthrough) → MAC address: manual."
            fixes.append(Fix("esxi", "Set the MAC address of the adapter", (), True, (), note))
    if has_linux_hypervisor(host.inventory.platform):
        change = command("ip", "link", "set", "<PF>", "vf", "<N>", "mac", link.address or "<MAC>")
        note = "Before the guest starts. On Proxmox VE: in a hookscript of the guest."
        fixes.append(Fix("hypervisor", "Set the MAC address on the PF", (change,), False, (), note))
    return tuple(fixes)


@pair_rule(FAMILY, "warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def vf_has_no_administrative_address(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VF was assigned to a guest without a MAC address: the guest generates a random one at every boot.

    nictop reads 00:00:00:00:00:00 as the address (IFLA_VFINFO_LIST) of a VF that is bound to vfio-pci and that a guest
    has open.

    Not reported: the guest is watched and the finding is reported there, the VF is not in use, and switchdev mode,
    where addresses are set elsewhere.

    Sources: kernel drivers/net/ethernet/intel/ice/ice_sriov.c; ip-link(8) vf mac.
    """
    reported_by_guest = any(
        link.address_assignment == "random" and is_virtual_function(link, host.functions)
        for host in hosts
        for link in host.links
    )
    for host in () if reported_by_guest else hosts:
        for port, functions in _used_by_port(host, _is_passed_on_without_address):
            shown = _names(functions)
            yield link_finding(
                "warning",
                host,
                port,
                f"{shown}: no MAC address set, random in the guest",
                evidence=(Evidence("MAC address", f"{ZERO_MAC_ADDRESS}: {shown}", f"ip link show {port.name}"),),
                why="The guest's driver generates a random address at every start: another DHCP lease, and profiles "
                "that no longer match.",
                fixes=tuple(_set_address_fix(port, one.number) for one in functions[:MAX_SHOWN]),
            )


Test = Callable[[HostFacts, Link, VirtualFunction], bool]


def _used_by_port(host: HostFacts, test: Test) -> Iterator[tuple[Link, list[VirtualFunction]]]:
    """(port, those of its VFs in use that meet the test), where there are any."""
    found: dict[int, list[VirtualFunction]] = {}
    for port, function in host.used_virtual_functions:
        if test(host, port, function):
            found.setdefault(port.ifindex, []).append(function)
    for ifindex, functions in found.items():
        yield host.snapshot.links[ifindex], functions


def _names(functions: Sequence[VirtualFunction]) -> str:
    return ", ".join(f"VF {one.number}" for one in functions[:MAX_SHOWN])


def _is_passed_on_without_address(host: HostFacts, port: Link, function: VirtualFunction) -> bool:
    bound = function_of(host, port, function.number)
    if bound is None or bound.driver not in PASSTHROUGH_DRIVERS or is_switchdev(port, host.inventory):
        return False
    # With spoof check on, the guest sends nothing at all: another finding.
    return function.address == ZERO_MAC_ADDRESS and not _is_checked_without_address(host, port, function)


@host_rule(FAMILY, "critical", needs=("pci.enabled",), uses=("ethtool.driver", "pci.driver", "pci.sriov", "devlink"))
def spoof_check_has_no_address(host: HostFacts) -> Outcomes:
    """A VF of an mlx5 NIC has spoof check on and no MAC address on its PF: everything that it sends is dropped.

    nictop reads both of each VF in use (IFLA_VFINFO_LIST). The NIC passes only frames with the address that the PF has
    set, here 00:00:00:00:00:00. Off is the default; programs that "restore" it to on cause this.

    Not reported: other drivers, which take the address of the VF's driver, and switchdev mode.

    Sources: kernel mlx5/core/esw/acl/ingress_lgcy.c, mlx5/core/esw/legacy.c ("Spoofchk in set while MAC is invalid");
    sriov-cni#114, danm#246.
    """
    for port, functions in _used_by_port(host, _is_checked_without_address):
        shown = _names(functions)
        yield link_finding(
            "critical",
            host,
            port,
            f"{shown}: spoof check without a MAC address drops all it sends",
            evidence=(
                Evidence("spoof check", f"on: {shown}", f"ip link show {port.name}"),
                Evidence("MAC address", f"{ZERO_MAC_ADDRESS}: {shown}", f"ip link show {port.name}"),
            ),
            why="The NIC compares the source address of each frame with the address that the PF has set for the VF.",
            fixes=tuple(fix for one in functions[:MAX_SHOWN] for fix in _address_or_no_check(host, port, one)),
        )


def _is_checked_without_address(host: HostFacts, port: Link, function: VirtualFunction) -> bool:
    if link_driver(port) != "mlx5_core" or is_switchdev(port, host.inventory):
        return False
    return function.spoof_check is True and function.address == ZERO_MAC_ADDRESS


def _address_or_no_check(host: HostFacts, port: Link, function: VirtualFunction) -> tuple[Fix, ...]:
    number = function.number
    own = next((one.address for one in own_links(host, port, number) if one.address), None)
    note = "" if own else "Replace <MAC> with the address that the guest uses."
    title = f"Set the MAC address of VF {number}"
    return (
        set_vf_fix("here", title, port, number, "mac", own or "<MAC>", undo=("mac", ZERO_MAC_ADDRESS), note=note),
        set_vf_fix("here", f"Turn spoof check off for VF {number}", port, number, "spoofchk", "off",
                   undo=("spoofchk", "on")),
    )  # fmt: skip


def _set_address_fix(port: Link, number: int) -> Fix:
    change, undo = with_undo(
        ("ip", "link", "set", "dev", port.name, "vf", str(number), "mac"), "<MAC>", ZERO_MAC_ADDRESS
    )
    note = "Replace <MAC> with an unused address, e.g. 02:…; the guest uses it after its next start."
    return Fix("here", f"Set the MAC address of VF {number}", (change,), False, (undo,), note)


@pair_rule(FAMILY, "critical", uses=("links.address_assignment",))
def address_is_used_twice(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched machines have NICs with the same MAC address.

    nictop compares the addresses of all links that have hardware and are up. Causes: cloned guests with the address of
    their template, addresses that systemd derives from equal machine-ids (MACAddressPolicy=persistent), or an address
    that was set although another NIC has it. The finding names the NIC whose address is not its permanent one
    (IFLA_PERM_ADDRESS, addr_assign_type); if that does not decide, the NIC that was found last.

    Not reported: one machine that is watched twice (same boot ID), and bridges, veths and other links without hardware,
    whose addresses do not leave the machine by themselves.

    Sources: systemd/systemd#14744, machine-id(5), systemd.link(5).
    """
    if len(hosts) < 2:
        return
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
        names = ", ".join(f"{one.name} {theirs.name}" for one, theirs in others)
        cloned = any(_have_one_machine_id(host, one) for one, _ in others)
        yield link_finding(
            "critical",
            host,
            link,
            f"duplicate MAC address, also on {others[0][0].name} {others[0][1].name}",
            evidence=(
                Evidence("MAC address", address, "ip link"),
                *_own_address(link),
                Evidence("also used by", names, "ip link"),
                Evidence("machine-id", "identical" if cloned else "different", "/etc/machine-id"),
            ),
            why="Switches forward to the port that last used the address: both NICs miss packets, or one gets none.",
            fixes=_duplicate_fixes(host, link, cloned=cloned),
        )


def _is_overridden(link: Link) -> bool:
    """It has another address than its hardware or the hypervisor has set."""
    if link.permanent_address is not None:
        return link.permanent_address != link.address
    return link.address_assignment not in ("permanent", None)


def _own_address(link: Link) -> tuple[Evidence, ...]:
    if not _is_overridden(link):
        return ()
    if link.permanent_address is not None:
        return (Evidence("permanent address", link.permanent_address, f"ethtool -P {link.name}"),)
    return (Evidence("assignment type", link.address_assignment or "", f"/sys/class/net/{link.name}/addr_assign_type"),)


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
        note = "Interrupts connections over this link."
        title = "Restore its permanent MAC address"
        return (
            Fix("here", title, (command(*change, own),), False, (undo,), note),
            *_permanent_in_profile(host, link),
        )
    fixes = []
    if cloned:
        note = "Everything derived from the machine-id changes: DHCP leases, the journal directory."
        fixes.append(Fix("here", "Generate a new machine-id for this clone", NEW_MACHINE_ID, True, (), note))
    for place in hypervisor_places(host.inventory.platform):
        note = "A copied guest has the addresses of its template: let the hypervisor generate new ones."
        fixes.append(Fix(place, "Set another MAC address for the adapter", (), True, (), note))
    note = "Replace <MAC> with an unused address, e.g. 02:…"
    fixes.append(Fix("here", "Set another MAC address", (command(*change, "<MAC>"),), False, (undo,), note))
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
            "Also set the permanent address in its profile",
            (modify(host, profile, name, "permanent"), bring_up(host, profile)),
            True,
            (modify(host, profile, name, profile.cloned_mac_address or ""), bring_up(host, profile)),
        ),
    )


@pair_rule(FAMILY, "warning", needs=("platform",))
def machine_id_is_cloned(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched machines have the same machine-id: one is a clone of the other, or both of one template.

    nictop compares hashes of /etc/machine-id. DHCP clients identify themselves with it (DUID), so that both may get the
    same address, and systemd derives the same MAC addresses for virtual links.

    Not reported: one machine that is watched twice (same boot ID), containers, and machines whose NICs already have the
    same MAC address (see `address_is_used_twice`).

    Sources: machine-id(5), systemd.network(5) DUIDType=, systemd/systemd#14744.
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
            f"same machine-id as {names}",
            evidence=(Evidence("machine-id hash", digest, "/etc/machine-id"),),
            why="A DHCP server may treat both as one machine and assign one address to both; it then works for "
            "neither.",
            fixes=(Fix("here", "Generate a new machine-id for this clone", NEW_MACHINE_ID, True, ()),),
        )


def _share_an_address(one: HostFacts, other: HostFacts) -> bool:
    mine = {link.address for link in one.links if link.address and _is_hardware_in_use(link)}
    return any(link.address in mine for link in other.links if _is_hardware_in_use(link))
