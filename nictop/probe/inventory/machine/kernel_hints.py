"""Texts of kernel messages about problems of NICs; the comment names the subsystem or driver of each.

From the kernel's source code. A module of its own and small, because the probe process searches new messages for them;
`kernel_log` reads and selects the messages.
"""

from __future__ import annotations

HINTS = (
    b"override administratively set",  # igb, ixgbe, i40e, ice: a VF wants another address or VLAN
    b"is not trusted, switch the VF",  # i40e, ice: more addresses or VLANs than an untrusted VF may have
    b"Cannot add more MAC addresses",  # i40e
    b"Can't add more MAC addresses",  # ice
    b"Failed to add MAC filter",  # iavf: the physical function refused
    b"Invalid MAC address ",  # iavf, idpf, hinic: "…, using random"
    b"Assigning random MAC address",  # igbvf, ixgbevf
    b"MAC address not assigned by administrator",  # igbvf, ixgbevf
    b"Is the PF interface up?",  # igbvf, ixgbevf
    b"Spoof event(s) detected on VF",  # igb
    b" Spoofed packets detected",  # ixgbe
    b"Malicious Driver Detection event",  # i40e, ice, ixgbe
    b"Data path switched ",  # hv_netvsc
    b"NETDEV WATCHDOG",  # net/sched/sch_generic.c
    b"TX timeout on queue",  # virtio_net
    b"Detected Tx Unit Hang",  # e1000, igb, ixgbe, fm10k
    b"etected Tx hang",  # drivers of other vendors
    b"Detected Hardware Unit Hang",  # e1000e
    b": intr type ",  # vmxnet3: "intr type 3, mode 0, 5 vectors allocated"
    b"martian source ",  # net/ipv4/route.c
    b"neighbor table overflow",  # net/core/neighbour.c
    b"eighbour table overflow",  # the same on older kernels
    b"nf_conntrack: table full",  # nf_conntrack: "…, dropping packet", since 6.15 "… in netns 4026531840, dropping …"
    b"with own address as source address",  # net/bridge: a duplicate MAC address, or a loop
    b"IPv6 duplicate address ",  # net/ipv6/addrconf.c
)
"""A message with one of these texts is about a problem of a NIC."""
FUNCTION_HINTS = (
    b"not enough MMIO resources for SR-IOV",  # drivers/pci/iov.c
    b"SR-IOV: bus number out of range",  # drivers/pci/iov.c
    b"available PCIe bandwidth",  # drivers/pci/pci.c: ", limited by", or that there is enough since then
    b"ineligible for IOMMU domain attach",  # drivers/iommu/intel
    b"PCIe Bus Error: severity=",  # drivers/pci/pcie/aer.c
    b"DDP package file was not found",  # ice
    b"etting MAC ",  # igb, ixgbe ("setting MAC … on VF 0"), i40e, ice: the administrator gave a VF another one
)
"""The same, but any PCI device may cause them: they count in messages that begin with a network function only."""
FIRMWARE_HINT = b"irmware"
"""Of a network function, and only with an error, see `kernel_log`."""
MAX_KMSG_BYTES = 8192
"""Bytes of a record in /dev/kmsg, CONSOLE_EXT_LOG_MAX."""
