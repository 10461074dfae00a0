"""IOMMU groups with a network function → `IommuGroup`: the devices that can only be passed to a
guest together.

Reads /sys/kernel/iommu_groups/N/ (type, devices/), and class and driver of the members that are no
network functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nictop.probe.inventory.pci.functions import PCI_ADDRESS
from nictop.probe.kernel.sysfs import SysfsDirectory
from nictop.probe.records import IommuGroup, PciFunction, Unreadable


def read_iommu(
    functions: Iterable[PciFunction], sys: str = "/sys"
) -> tuple[tuple[IommuGroup, ...], Unreadable | None]:
    """Groups of `functions` by number, and why some may be missing or incomplete. Never raises
    OSError."""
    known = {function.address: function for function in functions}
    numbers = sorted(
        {function.iommu_group for function in known.values() if function.iommu_group is not None}
    )
    groups, trouble = [], None
    for number in numbers:
        folder = SysfsDirectory(os.path.join(sys, "kernel/iommu_groups", str(number)))
        members = [
            read_member(folder, address, known) for address in folder.names("iommu", "devices")
        ]
        groups.append(
            IommuGroup(
                number,
                tuple(member for member in members if member is not None),
                folder.text("iommu", "type"),
            )
        )
        trouble = folder.unreadable.get("iommu", trouble)
    return tuple(groups), trouble


def read_member(
    folder: SysfsDirectory, address: str, known: dict[str, PciFunction]
) -> tuple[str, int, str | None] | None:
    """(address, class code, driver) of a member; None: not a PCI device, or it has been removed."""
    function = known.get(address)
    if function is not None:
        return address, function.class_code, function.driver
    if not PCI_ADDRESS.fullmatch(address):
        return None
    class_code = folder.integer("iommu", f"devices/{address}/class", 16)
    if class_code is None:
        return None
    return address, class_code, folder.link("iommu", f"devices/{address}/driver")
