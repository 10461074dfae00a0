"""Whether the virtual functions of a device are in use: then their number is not taken back.

Reads virtfnN/ below the physical function's directory in /sys: the driver, and the interface with its flags, its master
and its addresses. A VF that a guest has is bound to a driver that passes it through; one whose interface is not seen
here may be in another network namespace.
"""

from __future__ import annotations

import os
import re

from nictop.probe.changes.plan.current_state import Roots, read_addresses
from nictop.probe.kernel.sysfs import Folder, parse_integer, read_text

FUNCTION = re.compile(r"virtfn[0-9]{1,5}", re.ASCII)
PASSED_THROUGH = re.compile(r"vfio|uio|pci-stub|pciback|xen")
LINK_LOCAL = "link"


def why_in_use(device: str, roots: Roots) -> str:
    """Who has a VF of the function at `device`, in words; "": nobody."""
    folder = Folder(device)
    for name in filter(FUNCTION.fullmatch, folder.names("functions")):
        address = folder.link("functions", name) or name
        driver = folder.link("functions", f"{name}/driver")
        if driver is None:
            continue
        if PASSED_THROUGH.search(driver):
            return f"{address} is passed through ({driver})"
        interfaces = folder.names("functions", f"{name}/net")
        if not interfaces:
            return f"{address} is bound to {driver} and has no interface here"
        for interface in interfaces:
            why = why_link_in_use(interface, roots)
            if why:
                return f"{address} is {why}"
    return ""


def why_link_in_use(name: str, roots: Roots) -> str:
    """What an interface is used for; "": nothing."""
    path = f"{roots.sys}/class/net/{name}"
    if os.path.lexists(f"{path}/master"):
        return f"{name}, a port of {Folder(path).link('master', 'master')}"
    try:
        addresses = [one for one in read_addresses(name) if one.scope != LINK_LOCAL]
    except (ValueError, OSError):
        flags = read_text(f"{path}/flags")
        number = parse_integer(flags, 16) if isinstance(flags, str) else None
        return f"{name}, which cannot be looked at" if number is None or number & 1 else ""
    return f"{name} with {addresses[0].address}" if addresses else ""
