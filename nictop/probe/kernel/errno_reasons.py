"""Why a system call failed, in the words of `records.Unreadable`: one table for all readers. Nothing is read here."""

from __future__ import annotations

import errno

ENOTSUPP = 524
"""A number of the kernel's own that some drivers let through."""

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

NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP", errno.EAGAIN: "EAGAIN", ENOTSUPP: "ENOTSUPP"}
"""Where Python knows a second name for the number, or none."""


def name(number: int) -> str:
    """The kernel's name of an errno: ``ENODEV``."""
    return NAMES.get(number) or errno.errorcode.get(number, f"errno {number}")
