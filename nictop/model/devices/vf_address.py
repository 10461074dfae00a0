"""The PCI address of a virtual function, by the list of its physical function.

Reads nothing; imports only `links` of the model, so that a snapshot can use it."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.devices.links import function_of
from nictop.probe.records import Link, PciFunction


def pci_address_of_vf(port: Link, number: int, functions: Mapping[str, PciFunction]) -> str | None:
    """PCI address of VF `number` of the physical function whose netdev is `port`."""
    physical = function_of(port, functions)
    if physical is None or physical.sriov is None:
        return None
    addresses = physical.sriov.virtual_functions
    return addresses[number] if 0 <= number < len(addresses) else None
