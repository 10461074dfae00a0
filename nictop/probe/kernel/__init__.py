"""Access to the kernel that several readers share: netlink, sysfs, D-Bus, kept file descriptors.

In: system calls. Out: bytes, messages, attribute values. Nothing here knows what a NIC is.
"""
