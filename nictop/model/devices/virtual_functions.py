"""Which netdevs are virtual functions, and which virtual functions are in use: by a guest, a
program, or this host.

Reads nothing; takes links and PCI functions of one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from nictop.model.devices.links import ethtool_driver, function_of
from nictop.model.devices.vf_address import pci_address_of_vf
from nictop.model.text.words import IFF_UP
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link, PciFunction, VirtualFunction

VF_DRIVERS = frozenset(
    (
        "iavf",
        "i40evf",
        "ixgbevf",
        "igbvf",
        "cxgb4vf",
        "cxgb3vf",
        "nicvf",
        "bnx2xvf",
        "wx_vf",
        "txgbevf",
    )
)
"""Drivers of virtual functions only; mlx5_core, bnxt_en and others drive both kinds."""
VF_DEVICES = frozenset(
    (0x15B3, device)
    for device in (0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E)
)
"""(vendor, device): Mellanox' virtual functions,
drivers/net/ethernet/mellanox/{mlx4,mlx5/core}/main.c."""
VF_NAME = pattern(r"\bVirtual Function\b|\bVF\b")
"""How pci.ids calls them: ``Ethernet Virtual Function 700 Series``, ``ConnectX Family mlx5Gen
Virtual Function``."""
VFIO_DRIVERS = frozenset(
    ("vfio-pci", "mlx5_vfio_pci", "pds_vfio_pci", "virtio_vfio_pci", "ice_vfio_pci")
)
"""VFIO drivers of NICs, drivers/vfio/pci; ice_vfio_pci is Intel's own, for ice."""
PASSTHROUGH_DRIVERS = VFIO_DRIVERS | {
    "uio_pci_generic",
    "igb_uio",
    "pci-stub",
    "pciback",
    "xen-pciback",
}
"""Drivers that reserve a function for a guest or for a program."""

Functions = Mapping[str, PciFunction]
"""By PCI address."""
LinksOfFunction = Mapping[str, tuple[Link, ...]]
"""PCI address → netdevs of the function."""


def is_virtual_function(link: Link, functions: Functions) -> bool:
    """The netdev is one of a virtual function, of this host's own NIC or of that of the hypervisor
    below."""
    if ethtool_driver(link) in VF_DRIVERS:
        return True
    function = function_of(link, functions)
    if function is None or link.bus != "pci":
        return False
    return is_virtual(function)


def is_virtual(function: PciFunction) -> bool:
    """A virtual function of a NIC of this host, or of the hypervisor below."""
    return function.physical_function is not None or _is_vf_by_id(
        function.vendor_id, function.device_id, function.device_name
    )


@lru_cache(maxsize=4096)
def _is_vf_by_id(vendor_id: int, device_id: int, name: str | None) -> bool:
    if (vendor_id, device_id) in VF_DEVICES:
        return True
    return VF_NAME.search(name or "") is not None


def pci_function_of_vf(port: Link, number: int, functions: Functions) -> PciFunction | None:
    """PCI function of that VF; None: it is not one of this host."""
    address = pci_address_of_vf(port, number, functions)
    return functions.get(address) if address is not None else None


def is_in_use(function: PciFunction | None, links_of_function: LinksOfFunction) -> bool:
    """A guest has it open (vfio enables a function for that long), or it is a link here that is
    up."""
    if function is None:
        return False
    if function.driver in PASSTHROUGH_DRIVERS:
        return function.enabled is not False
    return any(link.flags & IFF_UP for link in links_of_function.get(function.address, ()))


def virtual_functions_in_use(
    links: Iterable[Link], functions: Functions, links_of_function: LinksOfFunction
) -> tuple[tuple[Link, VirtualFunction], ...]:
    """(netdev of the physical function, what it enforces) of each VF in use."""
    found = []
    for port in links:
        for vf in port.virtual_functions:
            function = pci_function_of_vf(port, vf.number, functions)
            if is_in_use(function, links_of_function):
                found.append((port, vf))
    return tuple(found)
