"""PCI network functions. /sys/bus/pci/devices/."""

from __future__ import annotations

from dataclasses import dataclass, field

from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True)
class PcieLink:
    """One side of a PCIe link: what was negotiated and what this side could do."""

    speed: float | None
    """GT/s per lane, current_link_speed; None when the file says "Unknown"."""
    width: int | None
    """Lanes, current_link_width; None for 0 (a virtual function, or a virtual slot, has none)."""
    max_speed: float | None
    """GT/s per lane, max_link_speed."""
    max_width: int | None
    """Lanes, max_link_width."""


@dataclass(frozen=True)
class Sriov:
    """The SR-IOV capability of a physical function."""

    total_vfs: int
    """sriov_totalvfs: as many as firmware and driver allow."""
    num_vfs: int
    """sriov_numvfs: as many as there are now."""
    autoprobe: bool | None
    """sriov_drivers_autoprobe: new VFs get a driver on this host."""
    virtual_functions: tuple[str, ...]
    """PCI addresses by VF number, from the links virtfn0, virtfn1, …"""


@dataclass(frozen=True)
class PciFunction:
    """A PCI network function: class 0x02xx (network) or 0x0c06/0x0207 (InfiniBand). /sys/bus/pci/devices/ADDRESS/."""

    address: str
    """domain:bus:device.function, ``0000:02:00.0``"""
    class_code: int
    """24 bits, ``class``: base class, sub class, programming interface."""
    vendor_id: int
    device_id: int
    subsystem_vendor_id: int | None
    subsystem_device_id: int | None
    revision: int | None
    vendor_name: str | None = None
    """From the udev hardware database, else pci.ids, else None."""
    device_name: str | None = None
    driver: str | None = None
    """Name of the bound driver (link ``driver``); None: no driver has it. ``vfio-pci`` is a driver too."""
    driver_override: str | None = None
    """driver_override, None for "(null)"."""
    enabled: bool | None = None
    """``enable``: some driver has switched the function on."""
    iommu_group: int | None = None
    """Number of the IOMMU group; None: no IOMMU, or it is off."""
    numa_node: int | None = None
    """numa_node; None for -1 (the firmware did not say)."""
    link: PcieLink | None = None
    """None: not PCI Express, or a virtual function."""
    parent: str | None = None
    """PCI address of the bridge above; None on the root bus."""
    parent_link: PcieLink | None = None
    """The bridge's side of the same link: a slot can limit the card."""
    sriov: Sriov | None = None
    """None: no SR-IOV capability that this kernel shows."""
    physical_function: str | None = None
    """Address of the physical function, for a VF whose PF is on this host (link ``physfn``)."""
    virtual_function: int | None = None
    """VF number N below that physical function (its link virtfnN)."""
    sriov_capable: bool | None = None
    """The SR-IOV extended capability is in its configuration space; None: not readable without root."""
    modalias: str | None = None
    """``pci:v00008086d…``: what modprobe looks a driver up by."""
    rdma_devices: tuple[str, ...] = ()
    """Names below ``infiniband/``."""
    created: float | None = None
    """Of a virtual function: seconds, CLOCK_MONOTONIC, when udev first saw it. None: at boot, or not known; only read
    while there are `KernelMessage`. USEC_INITIALIZED, /run/udev/data/+pci:ADDRESS"""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
