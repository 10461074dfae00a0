"""VFs among the links, whether they are used, and the PF of each on the watched hosts.

Reads nothing. On one host a VF is found by its PCI function (``physfn``, ``virtfnN``), also in a
container that is watched as a host of its own; between two hosts by the MAC address that the PF has
set for it (IFLA_VFINFO_LIST) and that the guest's netdev has. Where the addresses differ, which is
a fault itself, the only VF in use of that kind of a hypervisor that runs a machine with the guest's
name is taken for the guest's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from nictop.model.devices.virtual_functions import (
    is_in_use,
    is_virtual,
    is_virtual_function,
    pci_function_of_vf,
)
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.snapshot import is_same_machine as watched_twice
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link, PciFunction, VirtualFunction
from nictop.rules.finding import Fix, WhereToType
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts, link_driver, once_per_diagnosis, once_per_host

PASSTHROUGH_PARAMETERS = ("intel_iommu=on", "amd_iommu=on", "iommu=pt", "amd_iommu=pt")
"""Kernel command line parameters that enable passthrough."""
PCI_DEVICES = "/sys/bus/pci/devices"
REPORTING_DRIVERS = ("igb", "ixgbe", "i40e", "ice")
"""PF drivers that log rejected requests."""
PERSISTENCE_NOTE = (
    "Reset when the VFs are created again. Persistent: sriov.vfs of the PF's NetworkManager "
    "profile, [SR-IOV] in its "
    ".network file, or this command where the VFs are created."
)


def vf_name(host: HostFacts, port: Link, number: int) -> str:
    """``VF 3``, or ``VF 3 (VM web1)`` of a guest."""
    owner = host.snapshot.owners.of_vf_number(port, number)
    return f"VF {number}" if owner is None else f"VF {number} ({owner.text})"


def is_port_of_netvsc(host: HostFacts, link: Link) -> bool:
    """Its master is Hyper-V's synthetic NIC, which is the one to configure."""
    above = host.master_of(link)
    return above is not None and link_driver(above) == "hv_netvsc"


def function_of(host: HostFacts, port: Link, number: int) -> PciFunction | None:
    """PCI function of VF `number` of the physical function that carries `port`."""
    return pci_function_of_vf(port, number, host.functions)


def own_links(host: HostFacts, port: Link, number: int) -> tuple[Link, ...]:
    """Netdevs of VF `number` on the same host."""
    function = function_of(host, port, number)
    if function is None:
        return ()
    return host.links_of_function.get(function.address, ())


def port_of_function(host: HostFacts, address: str) -> Link | None:
    """The netdev of a physical function that has VFs, by the PCI address of the function."""
    for link in host.links_of_function.get(address, ()):
        if link.virtual_functions:
            return link
    return None


def may_have_any_address(port: Link, function: VirtualFunction) -> bool:
    """The NIC delivers frames for each address that the VF asks for, and lets it send with each:
    mellanox/mlx5/core/eswitch.c, esw_add_uc_addr, while spoof check is off."""
    return link_driver(port) == "mlx5_core" and function.spoof_check is not True


def has_used_functions(host: HostFacts) -> bool:
    """VFs are in use whose PF's driver logs rejected requests."""
    return any(link_driver(port) in REPORTING_DRIVERS for port, _ in host.used_virtual_functions)


@once_per_host
def has_virtual_functions(host: HostFacts) -> bool:
    """A netdev or a function of this host is a VF."""
    if any(is_virtual(function) for function in host.snapshot.pci):
        return True
    return any(is_virtual_function(link, host.functions) for link in host.links)


def is_used(host: HostFacts, port: Link, number: int) -> bool:
    """A guest has VF `number` of `port` open, or it is a link here that is up."""
    return is_in_use(function_of(host, port, number), host.links_of_function)


@dataclass(frozen=True, eq=False)
class Pair:
    """The netdev of a VF and the settings of the VF on its PF."""

    guest: HostFacts
    link: Link
    physical: HostFacts
    port: Link
    """Netdev of the physical function."""
    function: VirtualFunction
    by: Literal["PCI address", "MAC address", "name of the virtual machine"] = "MAC address"
    """What both sides have in common."""

    @property
    def place(self) -> WhereToType:
        """Where commands about the physical function are typed."""
        return "here" if self.guest is self.physical else "peer"

    @property
    def port_text(self) -> str:
        """``VF 3 of enp59s0f0 on hypervisor``"""
        owner = self.physical.snapshot.owners.of_vf(self.port, self.function)
        guest = f" ({owner.text})" if owner is not None else ""
        return f"VF {self.function.number} of {self.port.name}{guest} on {self.physical.name}"


def pairs(hosts: Sequence[HostFacts]) -> tuple[Pair, ...]:
    """Every VF of which both sides are watched, on one host or on two."""
    return _pairs(tuple(hosts))


@once_per_diagnosis
def _pairs(hosts: tuple[HostFacts, ...]) -> tuple[Pair, ...]:
    """Computed once for all rules of a diagnosis: hosts are compared by identity."""
    claims: dict[str, list[_Claim]] = {}
    found = []
    for host, port, function in _all_functions(hosts):
        own = own_links(host, port, function.number)
        found += [Pair(host, link, host, port, function, "PCI address") for link in own]
        has_address = function.address and function.address != ZERO_MAC_ADDRESS
        if not own and has_address:
            claims.setdefault(function.address or "", []).append((host, port, function))
    found += _in_containers(hosts)
    if claims:
        found += _across(hosts, claims, {_link_key(pair) for pair in found})
    if len(hosts) > 1:
        found += _by_machine_name(hosts, found)
    return tuple(found)


_Claim = tuple[HostFacts, Link, VirtualFunction]
"""A host, the netdev of a physical function of it, and one of its VFs."""


def _all_functions(hosts: Iterable[HostFacts]) -> Iterator[_Claim]:
    for host in hosts:
        for port in host.links:
            for function in port.virtual_functions:
                yield host, port, function


def _link_key(pair: Pair) -> tuple[str, int]:
    return pair.guest.name, pair.link.ifindex


def _in_containers(hosts: Sequence[HostFacts]) -> Iterator[Pair]:
    """VFs in the network namespace of a container: the same kernel, so the same PCI address."""
    for guest in hosts:
        if not guest.is_container:
            continue
        for host, port, function in _all_functions(_others_on_the_kernel(hosts, guest)):
            own = function_of(host, port, function.number)
            if own is None:
                continue
            for link in guest.links_of_function.get(own.address, ()):
                yield Pair(guest, link, host, port, function, "PCI address")


def _others_on_the_kernel(hosts: Sequence[HostFacts], guest: HostFacts) -> list[HostFacts]:
    found = []
    for host in hosts:
        if host is not guest and watched_twice(host.snapshot, guest.snapshot):
            found.append(host)
    return found


def _by_machine_name(hosts: Sequence[HostFacts], known: Sequence[Pair]) -> Iterator[Pair]:
    """The VF of a guest whose MAC address is that of no VF of its hypervisor."""
    paired = {_link_key(pair) for pair in known}
    taken = {(pair.physical.name, pair.port.ifindex, pair.function.number) for pair in known}
    for guest in hosts:
        links = _unpaired_functions(guest, paired)
        if len(links) != 1:
            continue
        free = []
        for host, port, function in _used_functions_of_hypervisors(hosts, guest):
            is_free = (host.name, port.ifindex, function.number) not in taken
            if is_free and _is_alike(host, port, function, guest, links[0]):
                free.append((host, port, function))
        if len(free) == 1:
            yield Pair(guest, links[0], *free[0], "name of the virtual machine")


def _unpaired_functions(guest: HostFacts, paired: set[tuple[str, int]]) -> list[Link]:
    """Netdevs of VFs whose PF is not known yet."""
    found = []
    for link in guest.links:
        if (guest.name, link.ifindex) in paired:
            continue
        if is_virtual_function(link, guest.functions):
            found.append(link)
    return found


def _used_functions_of_hypervisors(
    hosts: Sequence[HostFacts], guest: HostFacts
) -> Iterator[_Claim]:
    """Of the hosts that run the guest."""
    for host in hosts:
        if host is not guest and runs_machine(host, guest):
            for port, function in host.used_virtual_functions:
                yield host, port, function


def runs_machine(host: HostFacts, guest: HostFacts) -> bool:
    """A QEMU process of the host has the guest's hostname as its name."""
    hello = guest.snapshot.hello
    name = hello.hostname.partition(".")[0] if hello is not None else ""
    if not name:
        return False
    return any(thread.machine == name for thread in host.inventory.threads)


def _is_alike(
    host: HostFacts, port: Link, function: VirtualFunction, guest: HostFacts, link: Link
) -> bool:
    """Both are the same kind of PCI device."""
    here = function_of(host, port, function.number)
    there = guest.function_of(link)
    if here is None or there is None:
        return False
    return (here.vendor_id, here.device_id) == (there.vendor_id, there.device_id)


def _across(
    hosts: Sequence[HostFacts], claims: dict[str, list[_Claim]], known: set[tuple[str, int]]
) -> Iterator[Pair]:
    """The VFs of guests that have the MAC address of exactly one VF of another machine."""
    for guest in hosts:
        for link in guest.links:
            if (guest.name, link.ifindex) in known:
                continue
            claimed = claims.get(link.permanent_address or "")
            if not claimed:
                claimed = claims.get(link.address or "", [])
            others = [claim for claim in claimed if not is_same_machine(guest, claim[0])]
            if len(others) == 1 and is_virtual_function(link, guest.functions):
                yield Pair(guest, link, *others[0])


def is_same_machine(one: HostFacts, other: HostFacts) -> bool:
    """Watched twice, under two names."""
    return one is other or watched_twice(one.snapshot, other.snapshot)


def set_vf_fix(
    where: WhereToType,
    title: str,
    port: Link,
    number: int,
    *attributes: str,
    undo: Sequence[str] = (),
    note: str = "",
) -> Fix:
    """``ip link set PF vf N …`` (ip-link(8)). `undo`: attributes that restore the old state."""
    set_vf = ("ip", "link", "set", "dev", port.name, "vf", str(number))
    fix = Fix(
        where=where,
        title=title,
        commands=(command(*set_vf, *attributes),),
        persistent=False,
        note=f"{note} {PERSISTENCE_NOTE}".strip(),
    )
    if undo:
        return replace(fix, undo=(command(*set_vf, *undo),))
    return fix
