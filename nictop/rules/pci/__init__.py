"""Rules about PCI functions, drivers, passthrough and SR-IOV."""
