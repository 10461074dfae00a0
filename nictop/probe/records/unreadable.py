"""What every record may contain: a value that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Unreadable:
    """A value that may exist but could not be read: data, not an exception."""

    reason: Literal["not_offered", "needs_root", "missing", "malformed", "vanished", "failed"]
    """not_offered: the driver has no such operation (EOPNOTSUPP, EINVAL of an ioctl, attribute absent).
    needs_root: EPERM or EACCES. missing: the kernel has no such file or family. malformed: not what the ABI promises.
    vanished: the device went away meanwhile (ENODEV, ENXIO). failed: any other errno, named in `detail`."""
    detail: str = ""
    """What the kernel said, and where: ``EOPNOTSUPP``, ``/sys/class/net/x/speed: Invalid argument``."""
