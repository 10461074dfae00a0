"""PCI network functions from sysfs: IDs, names, drivers, PCIe links, SR-IOV, IOMMU groups.

In: /sys/bus/pci, /sys/kernel/iommu_groups, udev's database or pci.ids. Out: `PciFunction` and
`IommuGroup` records.
"""
