"""PCI functions from sysfs: IDs, drivers, SR-IOV, link speed, IOMMU groups, names."""
