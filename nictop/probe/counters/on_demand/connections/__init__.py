"""The sockets that use a NIC, read only while they are shown: `reader` combines the other
modules."""
