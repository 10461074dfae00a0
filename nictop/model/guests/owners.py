"""Whose a NIC is: the guest that has a tap, a veth, a PCI function or a VF.

Reads nothing; takes the inventory of one host. Everything that names an owner asks `NicOwners`:
`Snapshot.owners` of the tree of devices, findings, reports, metrics and results. The owner is who
has the NIC open, or in whose network namespace it is; of a NIC that nobody has, the stopped guest
whose configuration names it. Older recordings have no guests: there the threads of virtual machines
say it; on ESXi the list of VFs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from nictop.model.devices.vf_address import pci_address_of_vf
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import (
    GuestNic,
    HostedGuest,
    Inventory,
    Link,
    PciFunction,
    VirtualFunction,
)

GuestKind = Literal["vm", "container", "namespace"]
KIND_WORDS: Mapping[GuestKind, str] = {
    "vm": "VM",
    "container": "container",
    "namespace": "namespace",
}
STANDING_CONDITIONS = ("paused", "crashed", "pmsuspended")
"""`HostedGuest.condition` of a guest that has a process, and in which nothing runs."""


@dataclass(frozen=True)
class NicOwner:
    """A guest that has a NIC."""

    name: str
    kind: GuestKind = "vm"
    is_stopped: bool = False
    nic: GuestNic | None = None
    """As the inventory has it; None: from an older recording, or of ESXi."""
    guest: HostedGuest | None = None
    """That has the NIC; None as `nic`."""

    @property
    def text(self) -> str:
        """``VM web1``, ``container db``, ``VM web2, stopped``"""
        return guest_text(self.name, self.kind, is_stopped=self.is_stopped)


def guest_text(name: str, kind: GuestKind, *, is_stopped: bool = False) -> str:
    stopped = ", stopped" if is_stopped else ""
    return f"{KIND_WORDS[kind]} {name}{stopped}"


class NicOwners:
    """Owners of the NICs of one host."""

    def __init__(
        self,
        inventory: Inventory | None,
        links: Mapping[int, Link],
        functions: Iterable[PciFunction],
    ) -> None:
        self._functions = {function.address: function for function in functions}
        self._by_link: dict[int, NicOwner] = {}
        self._by_function: dict[str, NicOwner] = {}
        self._by_lower: dict[int, list[NicOwner]] = {}
        for owner in _owners(inventory):
            self._add(owner)
        if inventory is not None and inventory.guests is None:
            for ifindex, owner in _owners_by_threads(inventory):
                self._by_link.setdefault(ifindex, owner)
        self._links = links

    def _add(self, owner: NicOwner) -> None:
        """Running guests come first, so that a stopped one takes nothing from them."""
        nic = owner.nic
        if nic is None:
            return
        if nic.link is not None:
            self._by_link.setdefault(nic.link, owner)
        if nic.pci_address is not None:
            self._by_function.setdefault(nic.pci_address, owner)
        if nic.lower is not None:
            self._by_lower.setdefault(nic.lower, []).append(owner)

    def of_link(self, ifindex: int) -> NicOwner | None:
        """Of a tap, macvtap or veth, or of the device of a netdev."""
        found = self._by_link.get(ifindex)
        if found is not None:
            return found
        link = self._links.get(ifindex)
        if link is None or link.pci_address is None or link.bus != "pci":
            return None
        return self._by_function.get(link.pci_address)

    def of_function(self, address: str) -> NicOwner | None:
        """Of a PCI function."""
        return self._by_function.get(address)

    def of_vf(self, port: Link, function: VirtualFunction) -> NicOwner | None:
        """Of VF `function` of the physical function whose netdev is `port`."""
        if function.machine is not None:
            return NicOwner(function.machine)
        address = pci_address_of_vf(port, function.number, self._functions)
        return self._by_function.get(address) if address is not None else None

    def of_vf_number(self, port: Link, number: int) -> NicOwner | None:
        """Of the VF with this number, also if the netdev of the physical function does not list
        it."""
        for function in port.virtual_functions:
            if function.number == number:
                return self.of_vf(port, function)
        address = pci_address_of_vf(port, number, self._functions)
        return self._by_function.get(address) if address is not None else None

    def above(self, ifindex: int) -> tuple[NicOwner, ...]:
        """Containers with a macvlan, ipvlan or VLAN link on this one."""
        return tuple(self._by_lower.get(ifindex, ()))


def _owners(inventory: Inventory | None) -> Iterator[NicOwner]:
    """Of each NIC of each guest; running guests first."""
    guests = (inventory.guests if inventory is not None else None) or ()
    for guest in sorted(guests, key=_is_stopped):
        for nic in guest.nics:
            yield NicOwner(guest.name, guest.kind, _is_stopped(guest), nic, guest)


def _is_stopped(guest: HostedGuest) -> bool:
    return guest.state == "stopped"


def _owners_by_threads(inventory: Inventory) -> Iterator[tuple[int, NicOwner]]:
    """(ifindex, owner) of the links that a virtual machine has open."""
    for thread in inventory.threads:
        if thread.machine:
            for ifindex in thread.links:
                yield ifindex, NicOwner(thread.machine)
