"""Whether virtual functions of a device are in use: then an undo does not remove them.

Reads virtfnN/ below the physical function's directory in sysfs: the driver, and the interface with
its flags, master and addresses. A VF assigned to a guest is bound to a pass-through driver; a VF
whose interface is not visible may be in another network namespace.
"""

from __future__ import annotations

import os
import re

from nictop.probe.kernel.rtnetlink import IFF_UP
from nictop.probe.kernel.sysfs import SysfsDirectory, parse_integer, read_text
from nictop.probe.plan.current_state import Roots, read_addresses

VIRTFN_LINK = re.compile(r"virtfn[0-9]{1,5}", re.ASCII)
PASSTHROUGH_DRIVER = re.compile(r"vfio|uio|pci-stub|pciback|xen")
LINK_SCOPE = "link"
"""Scope of addresses that do not count as use."""


def find_vf_in_use(device: str, roots: Roots) -> str:
    """Which VF of the device at path `device` is in use and by what, as text; "": none."""
    folder = SysfsDirectory(device)
    for name in filter(VIRTFN_LINK.fullmatch, folder.names("functions")):
        address = folder.link("functions", name) or name
        driver = folder.link("functions", f"{name}/driver")
        if driver is None:
            continue
        if PASSTHROUGH_DRIVER.search(driver):
            return f"{address} is passed through to a guest ({driver})"
        interfaces = folder.names("functions", f"{name}/net")
        if not interfaces:
            return f"{address} is bound to {driver} and has no interface here"
        for interface in interfaces:
            use = find_link_use(interface, roots)
            if use:
                return f"{address} is {use}"
    return ""


def find_link_use(name: str, roots: Roots) -> str:
    """What an interface is used for, as text; "": nothing."""
    path = f"{roots.sys}/class/net/{name}"
    if os.path.lexists(f"{path}/master"):
        return f"{name}, a port of {SysfsDirectory(path).link('master', 'master')}"
    try:
        addresses = [one for one in read_addresses(name) if one.scope != LINK_SCOPE]
    except (ValueError, OSError):
        flags = read_text(f"{path}/flags")
        number = parse_integer(flags, 16) if isinstance(flags, str) else None
        return f"{name}, which cannot be checked" if number is None or number & IFF_UP else ""
    return f"{name} with {addresses[0].address}" if addresses else ""
