"""MAC addresses of VFs and of cloned machines: random at every boot, or duplicate.

Reads nothing; rules about `Link.address_assignment`, `VirtualFunction.address` and
`Platform.machine_id_hash` of all watched hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from nictop.model.devices.devlink import is_switchdev
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS, is_virtual_function
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Fix, WhereToType
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.hypervisors import fixes_of_places, has_linux_hypervisor, hypervisor_places
from nictop.rules.fixes.profiles import bring_up, modify
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import link_messages, newest_evidence
from nictop.rules.profiles.nics import is_unassigned_vf
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import host_finding, is_up, link_finding
from nictop.rules.vf.facts import (
    function_of,
    is_port_of_netvsc,
    is_same_machine,
    own_links,
    set_vf_fix,
    vf_name,
)

MAX_SHOWN = 4
"""VFs of one port in a finding."""
NEW_MACHINE_ID = (
    command("rm", "-f", "/etc/machine-id", "/var/lib/dbus/machine-id"),
    command("systemd-machine-id-setup"),
    command("reboot"),
)


@pair_rule(
    "warning",
    yields_to=("vf_was_made_while_its_port_was_down",),
    needs=("pci.physical_function",),
    uses=("links.address_assignment",),
)
def vf_address_is_random(hosts: Sequence[HostFacts]) -> Outcomes:
    """The VF of a guest has no configured MAC address: its driver generates a random one at every
    boot.

    nictop reads addr_assign_type "random" of the VF's netdev: the hypervisor has set no address.
    DHCP then assigns another lease, profiles with the old address do not match, and neighbours
    cache the old address.

    Not reported: links that are down, and VFs of this host's own NIC without an IP address.

    Sources: kernel drivers/net/ethernet/intel/iavf/iavf_main.c ("Invalid MAC address … using
    random"), OpenNebula/one#3329, canonical/lxd#8431.
    """
    for host in hosts:
        for link in host.links:
            if not _has_random_address(host, link) or is_port_of_netvsc(host, link):
                continue
            if is_unassigned_vf(host, link) and not link.addresses:
                continue
            kind_file = f"/sys/class/net/{link.name}/addr_assign_type"
            messages = link_messages(host, link, "random_address", within=math.inf)
            yield link_finding(
                "warning",
                host,
                link,
                "random MAC address, changes at every boot",
                evidence=(
                    Evidence("MAC address", link.address or "none", f"ip link show {link.name}"),
                    Evidence("assignment type", "random", kind_file),
                    *newest_evidence(messages),
                ),
                why="DHCP leases, profiles, licences and filters bound to the address fail after "
                "the next boot.",
                fixes=_address_fixes(host, link),
            )


def _has_random_address(host: HostFacts, link: Link) -> bool:
    """It is a VF that is up."""
    if link.address_assignment != "random" or not is_up(link):
        return False
    return is_virtual_function(link, host.functions)


def _address_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    on_port = []
    if has_linux_hypervisor(host.inventory.platform):
        change = command("ip", "link", "set", "<PF>", "vf", "<N>", "mac", link.address or "<MAC>")
        note = "Before the guest starts. On Proxmox VE: in a hookscript of the guest."
        title = "Set the MAC address on the PF"
        on_port.append(Fix("hypervisor", title, (change,), False, (), note))
    return fixes_of_places(host.inventory.platform, GUEST_DEFINITION_FIXES, on_port)


GUEST_DEFINITION_FIXES: dict[WhereToType, Fix] = {
    "libvirt": Fix(
        "libvirt",
        "Set the MAC address in the guest definition",
        (command("virsh", "edit", "<DOMAIN>"),),
        True,
        (),
        "<interface type='hostdev' managed='yes'><mac address='…'/> instead of a bare <hostdev>: "
        "libvirt then sets the address at every start of the guest.",
    ),
    "esxi": Fix(
        "esxi",
        "Set the MAC address of the adapter",
        (),
        True,
        (),
        "Edit settings → network adapter (SR-IOV passthrough) → MAC address: manual.",
    ),
}


@pair_rule("warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def vf_has_no_administrative_address(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VF was assigned to a guest without a MAC address: the guest has to make one, mostly a
    random one at every boot.

    nictop reads 00:00:00:00:00:00 as the address (IFLA_VFINFO_LIST) of a VF that is bound to
    vfio-pci and that a guest has open.

    Not reported: the guest is watched and the finding is reported there, the VF is not in use, and
    switchdev mode, where addresses are set elsewhere.

    Sources: kernel drivers/net/ethernet/intel/ice/ice_sriov.c; ip-link(8) vf mac.
    """
    if any(map(_has_guest_with_random_address, hosts)):
        return  # reported there
    for host in hosts:
        for port, functions in _used_by_port(host, _is_passed_on_without_address):
            shown = _names(host, port, functions)
            value = f"{ZERO_MAC_ADDRESS}: {shown}"
            yield link_finding(
                "warning",
                host,
                port,
                f"{shown}: no MAC address set on the PF",
                evidence=(Evidence("MAC address", value, f"ip link show {port.name}"),),
                why="Unless the guest sets an address itself, its driver generates a random one at "
                "every start: another DHCP lease, and profiles that no longer match.",
                fixes=tuple(_set_address_fix(port, vf.number) for vf in functions[:MAX_SHOWN]),
            )


def _has_guest_with_random_address(host: HostFacts) -> bool:
    for link in host.links:
        is_random = link.address_assignment == "random"
        if is_random and is_virtual_function(link, host.functions):
            return True
    return False


Test = Callable[[HostFacts, Link, VirtualFunction], bool]


def _used_by_port(host: HostFacts, test: Test) -> Iterator[tuple[Link, list[VirtualFunction]]]:
    """(port, those of its VFs in use that meet the test), where there are any."""
    found: dict[int, list[VirtualFunction]] = {}
    for port, function in host.used_virtual_functions:
        if test(host, port, function):
            found.setdefault(port.ifindex, []).append(function)
    for ifindex, functions in found.items():
        yield host.snapshot.links[ifindex], functions


def _names(host: HostFacts, port: Link, functions: Sequence[VirtualFunction]) -> str:
    return ", ".join(vf_name(host, port, function.number) for function in functions[:MAX_SHOWN])


def _is_passed_on_without_address(host: HostFacts, port: Link, function: VirtualFunction) -> bool:
    bound = function_of(host, port, function.number)
    if bound is None or bound.driver not in PASSTHROUGH_DRIVERS:
        return False
    if is_switchdev(port, host.inventory) or function.address != ZERO_MAC_ADDRESS:
        return False
    # With spoof check on, the guest sends nothing at all: another finding.
    return not _is_checked_without_address(host, port, function)


@host_rule(
    "critical",
    needs=("pci.enabled",),
    uses=("ethtool.driver", "pci.driver", "pci.sriov", "devlink"),
)
def spoof_check_has_no_address(host: HostFacts) -> Outcomes:
    """A VF of an mlx5 NIC has spoof check on and no MAC address on its PF: everything that it sends
    is dropped.

    nictop reads both of each VF in use (IFLA_VFINFO_LIST). The NIC passes only frames with the
    address that the PF has set, here 00:00:00:00:00:00. Off is the default; programs that "restore"
    it to on cause this.

    Not reported: other drivers, which take the address of the VF's driver, and switchdev mode.

    Sources: kernel mlx5/core/esw/acl/ingress_lgcy.c, mlx5/core/esw/legacy.c ("Spoofchk in set while
    MAC is invalid"); sriov-cni#114, danm#246.
    """
    for port, functions in _used_by_port(host, _is_checked_without_address):
        shown = _names(host, port, functions)
        source = f"ip link show {port.name}"
        fixes: list[Fix] = []
        for function in functions[:MAX_SHOWN]:
            fixes += _address_or_no_check(host, port, function)
        yield link_finding(
            "critical",
            host,
            port,
            f"{shown}: spoof check without a MAC address drops all it sends",
            evidence=(
                Evidence("spoof check", f"on: {shown}", source),
                Evidence("MAC address", f"{ZERO_MAC_ADDRESS}: {shown}", source),
            ),
            why="The NIC compares the source address of each frame with the address that the PF "
            "has set for the VF.",
            fixes=tuple(fixes),
        )


def _is_checked_without_address(host: HostFacts, port: Link, function: VirtualFunction) -> bool:
    if link_driver(port) != "mlx5_core" or is_switchdev(port, host.inventory):
        return False
    return function.spoof_check is True and function.address == ZERO_MAC_ADDRESS


def _address_or_no_check(host: HostFacts, port: Link, function: VirtualFunction) -> tuple[Fix, ...]:
    number = function.number
    own = [link.address for link in own_links(host, port, number) if link.address]
    address, note = "<MAC>", "Replace <MAC> with the address that the guest uses."
    if own:
        address, note = own[0], ""
    title, undo = f"Set the MAC address of VF {number}", ("mac", ZERO_MAC_ADDRESS)
    set_address = set_vf_fix("here", title, port, number, "mac", address, undo=undo, note=note)
    title, undo = f"Turn spoof check off for VF {number}", ("spoofchk", "on")
    return set_address, set_vf_fix("here", title, port, number, "spoofchk", "off", undo=undo)


def _set_address_fix(port: Link, number: int) -> Fix:
    change, undo = with_undo(
        ("ip", "link", "set", "dev", port.name, "vf", str(number), "mac"), "<MAC>", ZERO_MAC_ADDRESS
    )
    note = (
        "Replace <MAC> with an unused address, e.g. 02:…; the guest uses it after its next start."
    )
    return Fix("here", f"Set the MAC address of VF {number}", (change,), False, (undo,), note)


@pair_rule("critical", uses=("links.address_assignment",))
def address_is_used_twice(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched machines have NICs with the same MAC address.

    nictop compares the addresses of all links that have hardware and are up. Causes: cloned guests
    with the address of their template, addresses that systemd derives from equal machine-ids
    (MACAddressPolicy=persistent), or an address that was set although another NIC has it. The
    finding names the NIC whose address is not its permanent one (IFLA_PERM_ADDRESS,
    addr_assign_type); if that does not decide, the NIC that was found last.

    Not reported: one machine that is watched twice (same boot ID), and bridges, veths and other
    links without hardware, whose addresses do not leave the machine by themselves.

    Sources: systemd/systemd#14744, machine-id(5), systemd.link(5).
    """
    if len(hosts) < 2:
        return
    for address, places in _places_by_address(hosts).items():
        ranked = sorted(places, key=lambda place: _is_overridden(place[1]))
        host, link = ranked[-1]
        others = [place for place in ranked[:-1] if not is_same_machine(place[0], host)]
        if not others:
            continue
        names = [f"{other.name} {theirs.name}" for other, theirs in others]
        is_cloned = any(_have_one_machine_id(host, other) for other, _ in others)
        machine_id = "identical" if is_cloned else "different"
        yield link_finding(
            "critical",
            host,
            link,
            f"duplicate MAC address, also on {names[0]}",
            evidence=(
                Evidence("MAC address", address, "ip link"),
                *_own_address(link),
                Evidence("also used by", ", ".join(names), "ip link"),
                Evidence("machine-id", machine_id, "/etc/machine-id"),
            ),
            why="In one network, switches forward to the port that last used the address: both "
            "NICs miss packets, or one gets none. In separate networks it does no harm.",
            fixes=_duplicate_fixes(host, link, cloned=is_cloned),
        )


def _places_by_address(hosts: Sequence[HostFacts]) -> dict[str, list[tuple[HostFacts, Link]]]:
    """MAC address → (host, NIC) in use that have it."""
    found: dict[str, list[tuple[HostFacts, Link]]] = {}
    for host in hosts:
        for link in host.links:
            if link.address and _is_hardware_in_use(link):
                found.setdefault(link.address, []).append((host, link))
    return found


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
    kind = link.address_assignment or ""
    return (Evidence("assignment type", kind, f"/sys/class/net/{link.name}/addr_assign_type"),)


def _is_hardware_in_use(link: Link) -> bool:
    if link.type != ARPHRD_ETHER or link.bus is None or link.kind is not None:
        return False
    if link.address == ZERO_MAC_ADDRESS or link.master is not None:
        return False
    return is_up(link)


def _have_one_machine_id(host: HostFacts, other: HostFacts) -> bool:
    own = host.inventory.platform.machine_id_hash
    return own is not None and own == other.inventory.platform.machine_id_hash


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
    fixes: list[Fix] = []
    new_machine_id = (_new_machine_id_fix(link),) if cloned else ()
    if link.address_assignment != "permanent":  # systemd may have derived it
        fixes += new_machine_id
    note = "A copied guest has the addresses of its template: let the hypervisor generate new ones."
    of_hypervisor = {}
    for place in hypervisor_places(host.inventory.platform):
        title = "Set another MAC address for the adapter"
        of_hypervisor[place] = Fix(place, title, (), True, (), note)
    note = "Replace <MAC> with an unused address, e.g. 02:…"
    title, steps = "Set another MAC address", (command(*change, "<MAC>"),)
    here = Fix("here", title, steps, False, (undo,), note)
    fixes += fixes_of_places(host.inventory.platform, of_hypervisor, (here,))
    if link.address_assignment == "permanent":
        fixes += new_machine_id
    return tuple(fixes)


def _new_machine_id_fix(link: Link) -> Fix:
    note = "Everything derived from the machine-id changes: DHCP leases, the journal directory."
    if link.address_assignment == "permanent":
        note = f"The address of this NIC stays: it is not derived from it. {note}"
    return Fix("here", "Generate a new machine-id for this clone", NEW_MACHINE_ID, True, (), note)


def _permanent_in_profile(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Where a NetworkManager profile sets the address."""
    profile = host.own_profile(link)
    if profile is None:
        return ()
    address = profile.cloned_mac_address
    if not address or address in ("preserve", "permanent"):
        return ()
    name, up = "802-3-ethernet.cloned-mac-address", bring_up(host, profile)
    change = modify(host, profile, name, "permanent")
    undo = modify(host, profile, name, address)
    title = "Also set the permanent address in its profile"
    return (Fix("here", title, (change, up), True, (undo, up)),)


@pair_rule("warning", needs=("platform",))
def machine_id_is_cloned(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched machines have the same machine-id: one is a clone of the other, or both of one
    template.

    nictop compares hashes of /etc/machine-id. DHCP clients identify themselves with it (DUID), so
    that both may get the same address, and systemd derives the same MAC addresses for virtual
    links.

    Not reported: one machine that is watched twice (same boot ID), containers, and machines whose
    NICs already have the same MAC address (see `address_is_used_twice`).

    Sources: machine-id(5), systemd.network(5) DUIDType=, systemd/systemd#14744.
    """
    by_id: dict[str, list[HostFacts]] = {}
    for host in hosts:
        digest = host.inventory.platform.machine_id_hash
        if digest is not None and not host.is_container:
            by_id.setdefault(digest, []).append(host)
    for digest, machines in by_id.items():
        first = machines[0]
        others = [host for host in machines[1:] if not is_same_machine(host, first)]
        if not others or any(_share_an_address(first, host) for host in others):
            continue
        names = ", ".join(host.name for host in machines if host is not others[0])
        yield host_finding(
            "warning",
            others[0],
            "",
            f"same machine-id as {names}",
            evidence=(Evidence("machine-id hash", digest, "/etc/machine-id"),),
            why="In one network, a DHCP server may treat both as one machine and assign one "
            "address to both, which then disturb each other.",
            fixes=(
                Fix("here", "Generate a new machine-id for this clone", NEW_MACHINE_ID, True, ()),
            ),
        )


def _share_an_address(host: HostFacts, other: HostFacts) -> bool:
    own = {link.address for link in filter(_is_hardware_in_use, host.links)} - {None, ""}
    theirs = {link.address for link in filter(_is_hardware_in_use, other.links)}
    return not own.isdisjoint(theirs)
