"""Configuration files that name or match links: netplan, ifupdown, networkd, udev, SR-IOV services.

`collect` finds the files and calls ``parse_…`` of the others; text of a file never leaves the host.
"""
