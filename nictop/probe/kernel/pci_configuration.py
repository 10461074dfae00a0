"""Descriptors of the configuration space of PCI network functions, which a root probe opens before
it gives up its rights.

The kernel returns more than the first 64 bytes only to who had CAP_SYS_ADMIN when the file was
opened (pci_read_config in drivers/pci/pci-sysfs.c). The descriptors are read only; children of the
probe inherit them.
"""

from __future__ import annotations

import os

MAX_KEPT = 64
"""Descriptors."""
NETWORK_CLASSES = ("0x02", "0x0c06")
"""Network controllers, and InfiniBand controllers."""

CLASS_CHARS = 8

_kept: dict[str, int] = {}
"""Path of the file → descriptor."""


def keep_configurations(sys: str = "/sys") -> None:
    """Open the files whose extended capabilities are needed: of functions that show no SR-IOV and
    are not virtual."""
    devices = os.path.join(sys, "bus/pci/devices")
    try:
        addresses = sorted(os.listdir(devices))
    except OSError:
        return
    for address in addresses:
        path = os.path.join(devices, address)
        is_network = _class_of(path).startswith(NETWORK_CLASSES)
        if is_network and not any(
            os.path.lexists(os.path.join(path, name)) for name in ("physfn", "sriov_totalvfs")
        ):
            _keep(os.path.join(path, "config"))
        if len(_kept) == MAX_KEPT:
            return


def _class_of(path: str) -> str:
    """``0x020000``; "" if it cannot be read."""
    try:
        with open(os.path.join(path, "class"), encoding="ascii", errors="replace") as file:
            return file.read(CLASS_CHARS)
    except OSError:
        return ""


def _keep(path: str) -> None:
    try:
        _kept[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # the inventory says so


def open_configuration(path: str) -> int:
    """A descriptor of a file ``config``, to be closed; a kept one, unless its function is gone.
    Raises OSError."""
    kept = _kept.get(path)
    if kept is not None:
        try:
            os.pread(kept, 1, 0)
            return os.dup(kept)
        except OSError:
            os.close(_kept.pop(path))
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
