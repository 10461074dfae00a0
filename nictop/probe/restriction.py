"""A root probe gives up the rights that reading does not need, so that the kernel holds it to
reading.

After its helper (`helper`) has been forked, the probe keeps the capabilities of its readers
(`READERS`), sets no_new_privs, and forbids itself by Landlock to write files, to start programs and
to signal other processes, and by seccomp to change the attributes of files. Its children inherit
that. A host on which a part of this is not possible is read all the same; what is held is a fact of
the inventory (`records.Restriction`).

What remains: requests over netlink, as far as they need CAP_NET_ADMIN only, and what daemons do for
root over D-Bus.
"""

from __future__ import annotations

import errno
import os

from nictop.probe.helper import Helper, start_helper
from nictop.probe.kernel import landlock, seccomp
from nictop.probe.kernel.capabilities import (
    NUMBERS,
    held_capabilities,
    keep_capabilities,
    set_no_new_privileges,
)
from nictop.probe.kernel.other_processes import ask_through
from nictop.probe.kernel.pci_configuration import keep_configurations
from nictop.probe.traffic.user import why_stays_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nictop.probe.records import Restriction

READERS = {
    "net_admin": "packet filters, transceivers, LACP partners, teams, other network namespaces",
    "net_broadcast": "changes in other network namespaces",
    "dac_read_search": "files and directories of other users",
    "syslog": "kernel messages",
}
"""Capability → what cannot be read without it."""
REASONS = {
    errno.ENOSYS: "the kernel has no Landlock (Linux 5.13)",
    errno.EOPNOTSUPP: "Landlock is not enabled at boot (lsm=)",
    errno.EPERM: "Landlock is refused, as by the seccomp filter of a container",
    errno.E2BIG: "there are 16 Landlock rulesets already",
}

_fields: dict[str, Any] | None = None
"""Of a `records.Restriction`; None: this process is not restricted."""


def give_up_rights(*, allow_changes: bool, allow_workload: bool = False) -> Helper | None:
    """Fork the helper and restrict this process. None without root: there is nothing to give up.
    Raises OSError when no process can be made."""
    global _fields  # noqa: PLW0603
    if os.geteuid() != 0:
        return None
    helper = start_helper(allow_changes=allow_changes, allow_workload=allow_workload)
    keep_configurations()
    _fields = restrict_process()
    _fields["allow_changes"] = allow_changes
    ask_through(helper.channel)
    return helper


def read_restriction() -> Restriction | None:
    """Of this process, a child of the probe."""
    if _fields is None:
        return None
    from nictop.probe.records import Restriction

    return Restriction(**_fields)


def restrict_process() -> dict[str, Any]:
    """Restrict this process as far as possible; returns the fields of a `records.Restriction` but
    `allow_changes`."""
    fields: dict[str, Any] = {
        "landlock": None,
        "why_no_landlock": "",
        "capabilities": None,
        "why_all_capabilities": "",
    }
    fields["why_tests_are_root"] = _text_or_error(why_stays_root)
    try:
        keep_capabilities(READERS)
        held = held_capabilities()
        fields["capabilities"] = tuple(name for name, number in NUMBERS.items() if number in held)
    except OSError as error:
        fields["why_all_capabilities"] = str(error)
    try:
        set_no_new_privileges()
        fields["landlock"] = landlock.restrict_self()
    except OSError as error:
        fields["why_no_landlock"] = REASONS.get(error.errno or 0, str(error))
    fields["why_no_seccomp"] = _forbid_attributes()
    return fields


def _forbid_attributes() -> str:
    """ "", or why that is not possible."""
    try:
        seccomp.forbid_attributes_and_programs()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _text_or_error(why: Callable[[], str]) -> str:
    try:
        return why()
    except OSError as error:
        return str(error)
