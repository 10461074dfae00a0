"""Configuration files that name or match links: netplan, ifupdown, networkd, udev, ifcfg, SR-IOV
services.

In: files below /etc, /run, /usr/lib and /var/lib. Out: `ConfigurationEntry` records; file contents
never leave the host. `collect` finds the files and calls the ``parse_…`` functions of the other
modules. Another kind of file: its parser in a module here, and a function in `collect`.
"""
