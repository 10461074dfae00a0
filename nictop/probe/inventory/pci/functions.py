"""PCI network functions → `PciFunction`: driver, PCIe link and its errors, NUMA node, IOMMU group,
physical and virtual functions.

Reads /sys/bus/pci/devices/ADDRESS/ of every function of class 0x02xxxx (network) or 0x0c06xx
(InfiniBand). Names come from a lookup (`names`), called once for all.
"""

from __future__ import annotations

import os
import re
import struct

from nictop.probe.inventory.pci.names import Lookup, read_names
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.pci_configuration import open_configuration
from nictop.probe.kernel.sysfs import (
    SysfsDirectory,
    parse_integer,
    read_text,
    unreadable_from_error,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import (
    PcieErrors,
    PcieLink,
    PciFunction,
    Sriov,
    SriovCapability,
    Unreadable,
)

PCI_ADDRESS = pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
VIRTIO_PCI = "virtio-pci"
VIRTIO_DEVICE = pattern(r"virtio[0-9]{1,5}", re.ASCII)
VIRTFN_LINK = pattern(r"virtfn([0-9]{1,5})", re.ASCII)
ERROR_COUNT = pattern(r"([!-~][ -~]{0,62}) ([0-9]{1,19})", re.ASCII)
"""A line of an ``aer_dev_`` file: name and count, which fits into 64 bits."""
RESET_METHOD = pattern(r"[a-z_]{1,32}", re.ASCII)
LINK_SPEED = pattern(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?GT/s", re.ASCII)
PCI_CFG_SPACE_SIZE = 256
"""Configuration space of every PCI function in bytes; only root can read more than the first 64."""
PCI_CFG_SPACE_EXP_SIZE = 4096
"""Of a PCI Express function."""
MAX_CAPABILITIES = (PCI_CFG_SPACE_EXP_SIZE - PCI_CFG_SPACE_SIZE) // 8
"""An extended capability has at least 8 bytes, so a longer chain is a loop."""
PCI_EXT_CAP_ID_SRIOV = 0x0010
PCI_SRIOV_TOTAL_VF, PCI_SRIOV_SUP_PGSIZE = 0x0E, 0x1C
"""Offsets in that capability, linux/pci_regs.h."""
RESOURCE_LINE = pattern(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})", re.ASCII)
"""First address, last address, flags: resource_show in drivers/pci/pci-sysfs.c."""
PCI_IOV_RESOURCES = slice(7, 13)
"""Lines of ``resource`` for the memory of VFs, include/linux/pci.h."""
IORESOURCE_UNSET = 0x20000000
"""No address assigned, include/linux/ioport.h."""
UNKNOWN_WIDTHS = (0, 63, 255)
"""0: no link. 63 and 255: all bits set, read from a function that does not respond."""
MAX_ERROR_KINDS = 64
"""In one file: the kernel has one for each of 32 bits (aer_uncorrectable_error_string in
drivers/pci/pcie/aer.c)."""
MAX_RESET_METHODS = 16
"""The kernel has 7 (pci_reset_fn_methods in drivers/pci/pci.c)."""
ASPM_FILES = ("l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm", "l1_1_pcipm", "l1_2_pcipm", "clkpm")
"""In ``link/``: aspm_ctrl_attrs in drivers/pci/pcie/aspm.c."""


def read_pci(
    sys: str = "/sys", lookup: Lookup = read_names
) -> tuple[tuple[PciFunction, ...], Unreadable | None]:
    """All PCI network functions by address, and why the bus could not be read.

    On a kernel without PCI the directory is missing, which is no failure.
    """
    devices = os.path.join(sys, "bus/pci/devices")
    try:
        addresses = sorted(os.listdir(devices))
    except FileNotFoundError:
        return (), None
    except OSError as error:
        return (), unreadable_from_error(error, devices)
    found = [
        read_function(devices, address) for address in addresses if PCI_ADDRESS.fullmatch(address)
    ]
    functions = [function for function in found if function is not None]
    names = lookup(
        {function.address: (function.vendor_id, function.device_id) for function in functions}
    )
    numbers = {}
    for function in functions:
        if function.sriov is not None:
            for index, address in enumerate(function.sriov.virtual_functions):
                numbers[address] = index
    complete = []
    for function in functions:
        vendor, device = names.get(function.address, (None, None))
        number = numbers.get(function.address) if function.physical_function else None
        complete.append(
            replace(function, vendor_name=vendor, device_name=device, virtual_function=number)
        )
    return tuple(complete), None


def read_function(devices: str, address: str) -> PciFunction | None:
    """One function in `devices` (/sys/bus/pci/devices); None when it is no network function or has
    been removed."""
    path = os.path.join(devices, address)
    class_code = read_class(path)
    if class_code is None or not is_network_class(class_code):
        return None
    folder = SysfsDirectory(path)
    vendor = folder.integer("vendor_id", "vendor", 16)
    device = folder.integer("device_id", "device", 16)
    if vendor is None or device is None:
        return None
    physical = folder.link("physical_function", "physfn")
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
        driver_override=read_driver_override(folder),
        enabled=read_enabled(folder),
        iommu_group=read_iommu_group(folder),
        numa_node=read_numa_node(folder),
        errors=read_errors(folder, "errors"),
        reset_methods=read_reset_methods(folder),
        sriov=sriov,
        physical_function=physical,
        modalias=folder.text("modalias", "modalias"),
        rdma_devices=folder.names("rdma_devices", "infiniband"),
    )
    if function.driver == VIRTIO_PCI:
        function = with_virtio_device(function, folder)
    if physical:
        function = replace(function, sriov_capable=sriov is not None)
    else:
        function = replace(function, link=read_pcie_link(folder, "link"), aspm=read_aspm(folder))
        function = with_sriov_capability(function, path)
    return with_parent(replace(function, unreadable=folder.unreadable), devices)


def read_class(path: str) -> int | None:
    """Base class, sub class and programming interface; None when the function has been removed."""
    content = read_text(os.path.join(path, "class"))
    if not isinstance(content, str):
        return None
    return parse_integer(content, 16)


def read_driver_override(folder: SysfsDirectory) -> str | None:
    override = folder.text("driver_override", "driver_override")
    if override == "(null)":
        return None
    return override


def read_enabled(folder: SysfsDirectory) -> bool | None:
    count = folder.integer("enabled", "enable")
    if count is None:
        return None
    return count > 0


def read_numa_node(folder: SysfsDirectory) -> int | None:
    """None: the firmware does not report it (-1)."""
    node = folder.integer("numa_node", "numa_node")
    if node is None or node < 0:
        return None
    return node


def with_virtio_device(function: PciFunction, folder: SysfsDirectory) -> PciFunction:
    """The function with its virtio device, and the driver of that."""
    name = read_virtio_device(folder.path)
    if name is None:
        return function
    driver = folder.link("virtio_driver", name + "/driver")
    return replace(function, virtio_device=name, virtio_driver=driver)


def with_parent(function: PciFunction, devices: str) -> PciFunction:
    """The function with the port above it: the slot of a card. Errors there are not those of one
    VF."""
    path = os.path.realpath(os.path.join(devices, function.address))
    parent = os.path.basename(os.path.dirname(path))
    if not PCI_ADDRESS.fullmatch(parent):
        return function
    port = SysfsDirectory(os.path.join(devices, parent))
    function = replace(function, parent=parent, parent_link=read_pcie_link(port, "parent_link"))
    if not function.physical_function:
        function = replace(function, parent_errors=read_errors(port, "parent_errors"))
    return replace(function, unreadable={**function.unreadable, **port.unreadable})


def is_network_class(class_code: int) -> bool:
    """Whether the base class is 0x02, or base class and sub class 0x0c06 (InfiniBand)."""
    return class_code >> 16 == 0x02 or class_code >> 8 == 0x0C06


def read_iommu_group(folder: SysfsDirectory) -> int | None:
    """Number of the group, from the link ``iommu_group``."""
    group = folder.link("iommu_group", "iommu_group")
    if group is None:
        return None
    number = parse_integer(group)
    if number is None:
        folder.add_malformed("iommu_group", "iommu_group", group)
    return number


def read_pcie_link(folder: SysfsDirectory, field: str) -> PcieLink | None:
    """current_link_speed, current_link_width and their maxima; None when the function has none of
    the four."""
    speeds = [folder.text(field, name) for name in ("current_link_speed", "max_link_speed")]
    widths = [folder.integer(field, name) for name in ("current_link_width", "max_link_width")]
    if speeds == [None, None] and widths == [None, None]:
        return None
    current, maximum = (parse_speed(text or "") for text in speeds)
    lanes, max_lanes = map(known_width, widths)
    return PcieLink(current, lanes, maximum, max_lanes)


def known_width(width: int | None) -> int | None:
    if width in UNKNOWN_WIDTHS:
        return None
    return width


def parse_speed(text: str) -> float | None:
    """GT/s of ``8.0 GT/s PCIe``; None for ``Unknown``."""
    match = LINK_SPEED.match(text)
    if match is None:
        return None
    return float(match.group(1))


def read_errors(folder: SysfsDirectory, field: str) -> PcieErrors | None:
    """The counters of Advanced Error Reporting; None when there are none, or one of the files could
    not be read.

    The kernel counts them in memory: the function itself is not accessed.
    """
    correctable = read_error_counts(folder, field, "aer_dev_correctable", "TOTAL_ERR_COR")
    if correctable is None:
        return None
    nonfatal = read_error_counts(folder, field, "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL")
    fatal = read_error_counts(folder, field, "aer_dev_fatal", "TOTAL_ERR_FATAL")
    if nonfatal is None or fatal is None:
        return None
    return PcieErrors(correctable[0], nonfatal[0], fatal[0], correctable[1], nonfatal[1], fatal[1])


def read_error_counts(
    folder: SysfsDirectory, field: str, name: str, total: str
) -> tuple[int, dict[str, int]] | None:
    """Total and kinds in the file `name`; None when it is missing or could not be read."""
    content = folder.text(field, name)
    if content is None:
        return None
    counts = parse_error_counts(content, total)
    if counts is None:
        folder.add_malformed(field, name, content)
    return counts


def parse_error_counts(text: str, total: str) -> tuple[int, dict[str, int]] | None:
    """The count of the line named `total`, and name → count of the other lines with a count above
    0.

    Each line is ``BadTLP 12``; of some kernels the names have spaces (``Receiver Error 2``). None:
    malformed.
    """
    lines = text.split("\n")
    if len(lines) > MAX_ERROR_KINDS:
        return None
    counts = {}
    for line in lines:
        match = ERROR_COUNT.fullmatch(line)
        if match is None:
            return None
        counts[match.group(1)] = int(match.group(2))
    number = counts.pop(total, None)
    if number is None:
        return None
    return number, {kind: count for kind, count in counts.items() if count > 0}


def read_aspm(folder: SysfsDirectory) -> dict[str, bool]:
    """File of ``link/`` → enabled. It has the files of supported states only; without any it is
    empty or missing."""
    supported = folder.names("aspm", "link")
    enabled = {}
    for name in ASPM_FILES:
        if name not in supported:
            continue
        state = folder.integer("aspm", f"link/{name}")
        if state is not None:
            enabled[name] = state > 0
    return enabled


def read_reset_methods(folder: SysfsDirectory) -> tuple[str, ...] | None:
    """Words of reset_method; empty when the kernel cannot reset the function, None when the methods
    are not known.

    A function that the kernel cannot reset has neither ``reset_method`` nor ``reset``; Linux before
    5.15 has only ``reset`` (pci_dev_reset_attr_is_visible in drivers/pci/pci-sysfs.c).
    """
    content = read_text(os.path.join(folder.path, "reset_method"))
    if isinstance(content, Unreadable):
        if content.reason == "missing":
            can_be_reset = os.path.lexists(os.path.join(folder.path, "reset"))
            return None if can_be_reset else ()
        folder.unreadable["reset_methods"] = content
        return None
    methods = parse_reset_methods(content)
    if methods is None:
        folder.add_malformed("reset_methods", "reset_method", content)
    return methods


def parse_reset_methods(text: str) -> tuple[str, ...] | None:
    """``flr bus`` → its words; None: malformed."""
    methods = text.split()
    if len(methods) > MAX_RESET_METHODS:
        return None
    if not all(RESET_METHOD.fullmatch(method) for method in methods):
        return None
    return tuple(methods)


def read_virtio_device(path: str) -> str | None:
    """Name of the virtio device below the folder of a function; None: there is none, or the folder
    cannot be read."""
    try:
        return next((one for one in sorted(os.listdir(path)) if VIRTIO_DEVICE.fullmatch(one)), None)
    except OSError:
        return None


def read_sriov(folder: SysfsDirectory) -> Sriov | None:
    """The SR-IOV capability; None without sriov_totalvfs, or when one of its files could not be
    read."""
    total = folder.integer("sriov", "sriov_totalvfs")
    if total is None:
        return None
    number = folder.integer("sriov", "sriov_numvfs")
    if number is None:
        return None
    autoprobe = folder.integer("sriov", "sriov_drivers_autoprobe")
    by_number = {}
    for name in folder.names("sriov"):
        match = VIRTFN_LINK.fullmatch(name)
        if match is None:
            continue
        address = folder.link("sriov", name)
        if address:
            by_number[int(match[1])] = address
    # the kernel numbers them without a gap, and removes them from 0 on: after a gap the numbers
    # would be wrong
    functions: list[str] = []
    while len(functions) in by_number:
        functions.append(by_number[len(functions)])
    resources = read_text(os.path.join(folder.path, "resource"))
    return Sriov(
        total,
        number,
        None if autoprobe is None else autoprobe == 1,
        tuple(functions),
        parse_vf_addresses(resources) if isinstance(resources, str) else None,
    )


def parse_vf_addresses(text: str) -> bool | None:
    """Whether the memory of VFs has addresses, by the file ``resource``; None: malformed. The
    kernel clears a range for which it has found none, or marks it; an unused line is 0."""
    assigned = False
    lines = text.splitlines()[PCI_IOV_RESOURCES]
    if len(lines) < PCI_IOV_RESOURCES.stop - PCI_IOV_RESOURCES.start:
        return None
    for line in lines:
        match = RESOURCE_LINE.fullmatch(line.strip())
        if match is None:
            return None
        first, _, flags = (int(number, 16) for number in match.groups())
        if flags & IORESOURCE_UNSET or (flags and not first):
            return False
        assigned = assigned or flags != 0
    return assigned


def with_sriov_capability(function: PciFunction, path: str) -> PciFunction:
    """Of a function that is not virtual: whether it has the capability, and what is in one that the
    kernel does not show."""
    if function.sriov is not None:
        return replace(function, sriov_capable=True)
    config = read_configuration(path)
    if config is None:
        return function
    capable, capability = parse_sriov_capable(config), parse_sriov_capability(config)
    return replace(function, sriov_capable=capable, sriov_capability=capability)


def read_sriov_capable(path: str) -> bool | None:
    """Whether the function at `path` has the SR-IOV extended capability; None when that cannot be
    read now."""
    config = read_configuration(path)
    return None if config is None else parse_sriov_capable(config)


def read_configuration(path: str) -> bytes | None:
    """The configuration space of the function at `path`; None when it cannot be read now.

    A function in runtime suspend is not woken up for it.
    """
    if read_text(os.path.join(path, "power/runtime_status")) == "suspended":
        return None
    try:
        descriptor = open_configuration(os.path.join(path, "config"))
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_size == PCI_CFG_SPACE_SIZE:
            return bytes(PCI_CFG_SPACE_SIZE)  # there are no extended capabilities
        return os.pread(descriptor, PCI_CFG_SPACE_EXP_SIZE, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def parse_sriov_capable(config: bytes) -> bool | None:
    """Whether SR-IOV is among the extended capabilities; None: truncated, or a loop."""
    offset = sriov_offset(config)
    return None if offset is None else offset > 0


def parse_sriov_capability(config: bytes) -> SriovCapability | None:
    """None: there is none, or it is truncated."""
    offset = sriov_offset(config)
    if not offset or offset + PCI_SRIOV_SUP_PGSIZE + 4 > len(config):
        return None
    (total,) = struct.unpack_from("<H", config, offset + PCI_SRIOV_TOTAL_VF)
    (page_sizes,) = struct.unpack_from("<I", config, offset + PCI_SRIOV_SUP_PGSIZE)
    return SriovCapability(total, page_sizes)


def sriov_offset(config: bytes) -> int | None:
    """Where SR-IOV is among the extended capabilities, a chain from offset 0x100 on; 0: it is not;
    None: truncated, or a loop.

    Each begins with 16 bits of id, 4 of version and 12 of the next offset; 0: end of the chain, all
    ones: no response.
    """
    if len(config) == PCI_CFG_SPACE_SIZE:
        return 0
    offset = PCI_CFG_SPACE_SIZE
    for _ in range(MAX_CAPABILITIES):
        if offset + 4 > len(config):
            return None
        header: int = struct.unpack_from("<I", config, offset)[0]
        if header == 0xFFFFFFFF:
            return None
        if header & 0xFFFF == PCI_EXT_CAP_ID_SRIOV:
            return offset
        offset = header >> 20 & 0xFFC
        if offset < PCI_CFG_SPACE_SIZE:
            return 0
    return None
