"""PCI network functions: driver, PCIe link, NUMA node, IOMMU group, and the tree of physical and virtual functions.

Reads /sys/bus/pci/devices/ADDRESS/ of every function of class 0x02xxxx (network) and 0x0c06xx (InfiniBand); bridges are
left out. Yields `PciFunction` records; names come from a lookup (see `pci_names`), asked once for all.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import replace

from nictop.probe.inventory.pci.names import Lookup, read_names
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import Folder, parse_integer, read_text, why_unreadable
from nictop.probe.records import PcieLink, PciFunction, Sriov, Unreadable

ADDRESS = pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
VIRTUAL_FUNCTION = pattern(r"virtfn([0-9]{1,5})", re.ASCII)
SPEED = pattern(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?GT/s", re.ASCII)
CONVENTIONAL = 256
"""Bytes of configuration space of every PCI function; PCI Express has 4096. Only root reads beyond the first 64."""
EXTENDED = 4096
LARGEST_CHAIN = (EXTENDED - CONVENTIONAL) // 8
"""Extended capabilities are 8 bytes at least: a longer chain runs in a circle."""
SRIOV_CAPABILITY = 0x0010
"""PCI_EXT_CAP_ID_SRIOV, linux/pci_regs.h."""
UNKNOWN_WIDTH = (0, 63, 255)
"""0: no link. 63 and 255: all ones, read from a function that does not answer."""


def read_pci(sys: str = "/sys", lookup: Lookup = read_names) -> tuple[tuple[PciFunction, ...], Unreadable | None]:
    """All PCI network functions by address, and why there are none when the bus cannot be read.

    A kernel without PCI has no such directory: then there are simply none.
    """
    devices = os.path.join(sys, "bus/pci/devices")
    try:
        addresses = sorted(os.listdir(devices))
    except OSError as error:
        return (), None if isinstance(error, FileNotFoundError) else why_unreadable(error, devices)
    found = [read_function(devices, address) for address in addresses if ADDRESS.fullmatch(address)]
    functions = [function for function in found if function is not None]
    names = lookup({function.address: (function.vendor_id, function.device_id) for function in functions})
    numbers = {
        address: number
        for function in functions
        if function.sriov is not None
        for number, address in enumerate(function.sriov.virtual_functions)
    }
    complete = []
    for function in functions:
        vendor, device = names.get(function.address, (None, None))
        number = numbers.get(function.address) if function.physical_function else None
        complete.append(replace(function, vendor_name=vendor, device_name=device, virtual_function=number))
    return tuple(complete), None


def read_function(devices: str, address: str) -> PciFunction | None:
    """One function below `devices` (/sys/bus/pci/devices); None when it is no network function or has just gone."""
    path = os.path.join(devices, address)
    content = read_text(os.path.join(path, "class"))
    class_code = parse_integer(content, 16) if isinstance(content, str) else None
    if class_code is None or not is_network_class(class_code):
        return None
    folder = Folder(path)
    vendor, device = folder.integer("vendor_id", "vendor", 16), folder.integer("device_id", "device", 16)
    if vendor is None or device is None:
        return None
    physical = folder.link("physical_function", "physfn")
    parent = os.path.basename(os.path.dirname(os.path.realpath(path)))
    is_bridge = ADDRESS.fullmatch(parent) is not None
    enable, numa = folder.integer("enabled", "enable"), folder.integer("numa_node", "numa_node")
    override = folder.text("driver_override", "driver_override")
    sriov = read_sriov(folder)
    function = PciFunction(
        address=address,
        class_code=class_code,
        vendor_id=vendor,
        device_id=device,
        subsystem_vendor_id=folder.integer("subsystem_vendor_id", "subsystem_vendor", 16),
        subsystem_device_id=folder.integer("subsystem_device_id", "subsystem_device", 16),
        revision=folder.integer("revision", "revision", 16),
        driver=folder.link("driver", "driver"),
        driver_override=None if override == "(null)" else override,
        enabled=None if enable is None else enable > 0,
        iommu_group=read_iommu_group(folder),
        numa_node=None if numa is None or numa < 0 else numa,
        link=None if physical else read_pcie_link(folder, "link"),
        parent=parent if is_bridge else None,
        parent_link=read_parent_link(devices, parent, folder) if is_bridge else None,
        sriov=sriov,
        physical_function=physical,
        sriov_capable=sriov is not None or (False if physical else read_sriov_capable(path)),
        modalias=folder.text("modalias", "modalias"),
        rdma_devices=folder.names("rdma_devices", "infiniband"),
    )
    return replace(function, unreadable=folder.unreadable)


def is_network_class(class_code: int) -> bool:
    """Base class 0x02, or sub class 0x0c06: InfiniBand as a serial bus."""
    return class_code >> 16 == 0x02 or class_code >> 8 == 0x0C06


def read_iommu_group(folder: Folder) -> int | None:
    """Number behind the link ``iommu_group``."""
    group = folder.link("iommu_group", "iommu_group")
    if group is None:
        return None
    number = parse_integer(group)
    if number is None:
        folder.malformed("iommu_group", "iommu_group", group)
    return number


def read_parent_link(devices: str, parent: str, folder: Folder) -> PcieLink | None:
    """The bridge's side of the link; what fails is noted in the function's folder."""
    above = Folder(os.path.join(devices, parent))
    link = read_pcie_link(above, "parent_link")
    folder.unreadable.update(above.unreadable)
    return link


def read_pcie_link(folder: Folder, field: str) -> PcieLink | None:
    """current_link_speed, current_link_width, max_…; None when the function shows none of the four."""
    speeds = [folder.text(field, name) for name in ("current_link_speed", "max_link_speed")]
    widths = [folder.integer(field, name) for name in ("current_link_width", "max_link_width")]
    if speeds == [None, None] and widths == [None, None]:
        return None
    current, maximum = (parse_speed(text or "") for text in speeds)
    lanes, max_lanes = (None if width in UNKNOWN_WIDTH else width for width in widths)
    return PcieLink(current, lanes, maximum, max_lanes)


def parse_speed(text: str) -> float | None:
    """GT/s of ``8.0 GT/s PCIe``; None for ``Unknown``."""
    match = SPEED.match(text)
    return float(match.group(1)) if match else None


def read_sriov(folder: Folder) -> Sriov | None:
    """The SR-IOV capability: None without sriov_totalvfs, or when a number of it could not be read."""
    total = folder.integer("sriov", "sriov_totalvfs")
    if total is None:
        return None
    number = folder.integer("sriov", "sriov_numvfs")
    if number is None:
        return None
    autoprobe = folder.integer("sriov", "sriov_drivers_autoprobe")
    by_number = {}
    for name in folder.names("sriov"):
        match = VIRTUAL_FUNCTION.fullmatch(name)
        address = folder.link("sriov", name) if match else None
        if match and address:
            by_number[int(match.group(1))] = address
    # the kernel numbers them without a gap; it removes the first one first, and what is left then has no right number
    functions: list[str] = []
    while len(functions) in by_number:
        functions.append(by_number[len(functions)])
    return Sriov(total, number, None if autoprobe is None else autoprobe == 1, tuple(functions))


def read_sriov_capable(path: str) -> bool | None:
    """Whether the extended capabilities of the function at `path` name SR-IOV; None when that cannot be read now.

    A function that sleeps is not woken up for it.
    """
    if read_text(os.path.join(path, "power/runtime_status")) == "suspended":
        return None
    try:
        descriptor = os.open(os.path.join(path, "config"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_size == CONVENTIONAL:
            return False
        return parse_sriov_capable(os.pread(descriptor, EXTENDED, 0))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def parse_sriov_capable(config: bytes) -> bool | None:
    """Whether the extended capabilities, chained from byte 0x100 on, name SR-IOV; None when they are cut off or loop.

    Each begins with 16 bits of id, 4 of version and 12 of the next one's offset; 0 is the end, all ones no answer.
    """
    if len(config) == CONVENTIONAL:
        return False
    offset = CONVENTIONAL
    for _ in range(LARGEST_CHAIN):
        if offset + 4 > len(config):
            return None
        header: int = struct.unpack_from("<I", config, offset)[0]
        if header == 0xFFFFFFFF:
            return None
        if header & 0xFFFF == SRIOV_CAPABILITY:
            return True
        offset = header >> 20 & 0xFFC
        if offset < CONVENTIONAL:
            return False
    return None
