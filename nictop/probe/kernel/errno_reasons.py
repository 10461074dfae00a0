"""errno → the reason in `records.Unreadable`: one table for all readers. Pure."""

from __future__ import annotations

import errno

ENOTSUPP = 524
"""Internal to the kernel (include/linux/errno.h), but some drivers return it to user space."""

REASONS = {
    errno.EOPNOTSUPP: "not_offered",
    errno.EINVAL: "not_offered",
    errno.ENOSYS: "not_offered",
    errno.ENOTTY: "not_offered",
    ENOTSUPP: "not_offered",
    errno.EPERM: "needs_root",
    errno.EACCES: "needs_root",
    errno.ENOENT: "missing",
    errno.ENODEV: "vanished",
    errno.ENXIO: "vanished",
}
"""errno → `Unreadable.reason`; every other number is "failed"."""

PREFERRED_NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP", errno.EAGAIN: "EAGAIN", ENOTSUPP: "ENOTSUPP"}
"""Numbers for which `errno.errorcode` has another name, or none."""


def name(number: int) -> str:
    """Symbolic name of an errno: ``ENODEV``."""
    return PREFERRED_NAMES.get(number) or errno.errorcode.get(number, f"errno {number}")
