"""PCI network functions. /sys/bus/pci/devices/."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class PcieLink:
    """One end of a PCIe link: negotiated and maximum speed and width."""

    speed: float | None
    """GT/s per lane, current_link_speed; None when the file contains "Unknown"."""
    width: int | None
    """Lanes, current_link_width; None for 0 (a virtual function, or a virtual slot, has none)."""
    max_speed: float | None
    """GT/s per lane, max_link_speed."""
    max_width: int | None
    """Lanes, max_link_width."""


@dataclass(frozen=True, slots=True)
class PcieErrors:
    """Errors that one PCI Express function has reported since the kernel found it (Advanced Error
    Reporting).

    An error may be counted at the other end of the link too, or only there. All are 0 where the
    firmware handles the errors. Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats
    """

    correctable: int
    """TOTAL_ERR_COR of aer_dev_correctable: messages, each of which may report several errors."""
    nonfatal: int
    """TOTAL_ERR_NONFATAL of aer_dev_nonfatal."""
    fatal: int
    """TOTAL_ERR_FATAL of aer_dev_fatal."""
    correctable_kinds: dict[str, int] = field(default_factory=dict)
    """The kernel's name of an error (``BadTLP``, ``Timeout``) → errors; only those above 0."""
    nonfatal_kinds: dict[str, int] = field(default_factory=dict)
    fatal_kinds: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sriov:
    """The SR-IOV capability of a physical function."""

    total_vfs: int
    """sriov_totalvfs: maximum of firmware and driver."""
    num_vfs: int
    """sriov_numvfs: current number."""
    autoprobe: bool | None
    """sriov_drivers_autoprobe: drivers of this host are bound to new VFs."""
    virtual_functions: tuple[str, ...]
    """PCI addresses by VF number, from the links virtfn0, virtfn1, …"""
    has_addresses: bool | None = None
    """The memory of VFs (VF BARs) has bus addresses: lines 7 to 12 of ``resource``. Without them no
    VF can be made (sriov_enable in drivers/pci/iov.c: ENOMEM). None: not known."""


@dataclass(frozen=True, slots=True)
class SriovCapability:
    """The SR-IOV capability as the device has it, of a function for which the kernel shows none.
    include/uapi/linux/pci_regs.h, PCI_SRIOV_…"""

    total_vfs: int
    """TotalVFs. 0: its firmware offers none."""
    page_sizes: int
    """Supported Page Sizes: bit N is set for pages of 2^(N + 12) bytes."""


@dataclass(frozen=True, slots=True)
class PciFunction:
    """A PCI network function: class 0x02xx (network) or 0x0c06/0x0207 (InfiniBand).
    /sys/bus/pci/devices/ADDRESS/."""

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
    """Name of the bound driver (link ``driver``); None: not bound. ``vfio-pci`` is a driver too."""
    driver_override: str | None = None
    """driver_override, None for "(null)"."""
    virtio_device: str | None = None
    """``virtio1``: what virtio-pci made of the function, the device of a driver of its own; None:
    another driver."""
    virtio_driver: str | None = None
    """Of `virtio_device`: virtio_net; None: not bound. /sys/bus/virtio/devices/NAME/driver"""
    enabled: bool | None = None
    """``enable``: the function has been enabled, usually by a driver."""
    iommu_group: int | None = None
    """Number of the IOMMU group; None: no IOMMU, or it is disabled."""
    numa_node: int | None = None
    """numa_node; None for -1 (not reported by the firmware)."""
    link: PcieLink | None = None
    """None: not PCI Express, or a virtual function."""
    parent: str | None = None
    """PCI address of the upstream bridge; None on the root bus."""
    parent_link: PcieLink | None = None
    """The bridge's end of the same link: the slot may limit the speed of the card."""
    errors: PcieErrors | None = None
    """None: the kernel or the function has no error counters (no AER, Linux before 4.19)."""
    parent_errors: PcieErrors | None = None
    """Those of the upstream bridge `parent`. None also for a VF: its physical function has them."""
    aspm: dict[str, bool] = field(default_factory=dict)
    """Power saving of the PCIe link: file of ``link/`` (l0s_aspm, l1_aspm, l1_1_aspm, l1_2_aspm,
    l1_1_pcipm, l1_2_pcipm, clkpm) → enabled, for each that both ends support. Empty: none, a VF, or
    a kernel that does not control it (pcie_aspm=off, firmware, Linux before 5.5); then the settings
    of the firmware are in effect."""
    reset_methods: tuple[str, ...] | None = None
    """reset_method: enabled ways to reset this function alone, the first is tried first (``flr``,
    ``bus``). Empty: the kernel cannot reset it. None: not known (Linux before 5.15)."""
    sriov: Sriov | None = None
    """None: the kernel reports no SR-IOV capability."""
    physical_function: str | None = None
    """Address of the physical function, for a VF whose PF is on this host (link ``physfn``)."""
    virtual_function: int | None = None
    """VF number N below that physical function (its link virtfnN)."""
    sriov_capable: bool | None = None
    """The SR-IOV extended capability is in its configuration space; None: not readable without
    root."""
    sriov_capability: SriovCapability | None = None
    """What that capability has, of a function without `sriov`. None: not read, or there is none."""
    modalias: str | None = None
    """``pci:v00008086d…``: by which modprobe finds a driver."""
    rdma_devices: tuple[str, ...] = ()
    """Names below ``infiniband/``."""
    created: float | None = None
    """Of a virtual function: seconds, CLOCK_MONOTONIC, when udev first processed it. None: at boot,
    or unknown; only read if there are `KernelMessage`s. USEC_INITIALIZED,
    /run/udev/data/+pci:ADDRESS"""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
