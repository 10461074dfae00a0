"""Which virtual functions of a host somebody uses: a guest, a program, or this host itself.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link, PciFunction, VirtualFunction

PASSTHROUGH_DRIVERS = frozenset(
    ("vfio-pci", "mlx5_vfio_pci", "ice_vfio_pci", "uio_pci_generic", "igb_uio", "pci-stub", "pciback", "xen-pciback")
)
"""Drivers that keep a function for a guest or for a program."""

Functions = Mapping[str, PciFunction]
LinksOfFunction = Mapping[str, tuple[Link, ...]]


def virtual_function(port: Link, number: int, functions: Functions) -> PciFunction | None:
    """PCI function of VF `number` of the physical function that carries `port`."""
    physical = functions.get(port.pci_address or "")
    if physical is None or physical.sriov is None or not 0 <= number < len(physical.sriov.virtual_functions):
        return None
    return functions.get(physical.sriov.virtual_functions[number])


def is_in_use(function: PciFunction | None, links_of_function: LinksOfFunction) -> bool:
    """A guest has it open (vfio switches a function on for that long), or it is a link here that is up."""
    if function is None:
        return False
    if function.driver in PASSTHROUGH_DRIVERS:
        return function.enabled is not False
    return any(link.flags & IFF_UP for link in links_of_function.get(function.address, ()))


def functions_in_use(
    links: Iterable[Link], functions: Functions, links_of_function: LinksOfFunction
) -> tuple[tuple[Link, VirtualFunction], ...]:
    """(netdev of the physical function, what it enforces) of each VF in use."""
    return tuple(
        (port, one)
        for port in links
        for one in port.virtual_functions
        if is_in_use(virtual_function(port, one.number, functions), links_of_function)
    )
