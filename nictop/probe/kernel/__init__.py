"""Access to the kernel that several readers share: netlink, sysfs, D-Bus, open file descriptors.

In: system calls. Out: bytes, messages, attribute values. Nothing here is specific to network
devices.
"""
