"""The reason why a value could not be read; part of many records."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass

NOT_OFFERED_BY_ESXI = "not offered by ESXi"
"""`Unreadable.detail`, with the reason failed: ESXi has no such thing, or no command for it."""
NOT_RECORDED = "not in this recording, made by an older nictop"
"""`Unreadable.detail`, with the reason failed: the probe of that time did not read it."""
NOT_READ_YET = "not read yet"
"""`Unreadable.detail`, with the reason failed: the source is still being read
(`Inventory.pending`)."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that may exist but could not be read: data, not an exception."""

    reason: Literal["not_offered", "needs_root", "missing", "malformed", "vanished", "failed"]
    """not_offered: the driver has no such operation (EOPNOTSUPP, EINVAL of an ioctl, attribute
    absent). needs_root: EPERM or EACCES. missing: the kernel has no such file or family. malformed:
    not as the ABI documents. vanished: the device was removed (ENODEV, ENXIO). failed: any other
    errno, named in `detail`."""
    detail: str = ""
    """The error, and the file or request: ``EOPNOTSUPP``, ``/sys/class/net/x/speed: Invalid
    argument``."""
