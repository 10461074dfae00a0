"""NICs that a hypervisor emulates register by register: which a guest has.

Reads nothing. QEMU gives each PCI device that has no subsystem of its own 1af4:1100 (hw/pci/pci.c,
pci_default_sub_vendor_id), which no hardware has; so it marks e1000, rtl8139, pcnet and igb. Its
e1000e has the subsystem 8086:0000 (hw/net/e1000e.c), VMware's NICs have VMware's.
"""

from __future__ import annotations

from nictop.model.devices.links import ethtool_driver
from nictop.probe.records import Link, PciFunction

EMULATED_NICS = {
    "e1000": "Intel 82540/82545",
    "8139cp": "Realtek 8139",
    "8139too": "Realtek 8139",
    "pcnet32": "AMD PCnet",
}
"""Drivers of NICs so old that in a virtual machine they are always emulated."""
VMWARE, INTEL = 0x15AD, 0x8086
QEMU_SUBSYSTEM = (0x1AF4, 0x1100)
"""(vendor, device), include/linux/pci_ids.h PCI_SUBVENDOR_ID_REDHAT_QUMRANET and
PCI_SUBDEVICE_ID_QEMU."""
EMULATED_82574 = 0x10D3
"""Device ID of the e1000e that VMware and QEMU emulate."""


def is_emulated_nic(link: Link, function: PciFunction | None) -> bool:
    """Of a guest: the hypervisor emulates a physical NIC. False of paravirtual ones (virtio), which
    have QEMU's subsystem as well."""
    driver = ethtool_driver(link)
    if driver in EMULATED_NICS:
        return True
    if function is None or link.bus != "pci":
        return False
    subsystem = (function.subsystem_vendor_id, function.subsystem_device_id)
    if subsystem == QEMU_SUBSYSTEM:
        return driver != "virtio_net"
    if driver != "e1000e" or function.device_id != EMULATED_82574:
        return False
    return subsystem[0] == VMWARE or subsystem == (INTEL, 0)
