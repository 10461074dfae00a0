"""Mounts of their own for this process and its children: /run is empty there.

Names of network namespaces are files in /run/netns (ip-netns(8)). Here they are in a file system
that no other process sees, and which ends, with the namespaces, when the last of its processes does
(mount_namespaces(7)). As /run is empty, nothing there leads to the daemons of this machine either:
NetworkManager, systemd and others have their sockets in it, and what they manage is not in the lab.

Without root, a user namespace is tried first (user_namespaces(7)); some systems do not allow it.
"""

from __future__ import annotations

import ctypes
import os

from nictop.errors import NictopError

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
NO_ROOT_HINT = (
    "use: sudo nictop lab (without root it needs user namespaces: the sysctls "
    "user.max_user_namespaces, kernel.unprivileged_userns_clone (Debian) and "
    "kernel.apparmor_restrict_unprivileged_userns (Ubuntu))"
)
NO_RIGHTS_HINT = "root needs CAP_SYS_ADMIN and CAP_NET_ADMIN: a container often has neither"


def enter_own_mounts() -> None:
    """Move this process there. Raises NictopError. Call it before any thread is started."""
    is_root = os.geteuid() == 0
    try:
        if not is_root:
            _become_root_of_a_user_namespace()
        _call("unshare", CLONE_NEWNS)
        _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        _call("mount", b"nictop-lab", b"/run", b"tmpfs", 0, b"mode=755")
        os.mkdir("/run/netns")
    except OSError as error:
        raise NictopError(
            f"namespaces cannot be made here: {error.strerror}",
            NO_RIGHTS_HINT if is_root else NO_ROOT_HINT,
        ) from None
    os.environ.pop("DBUS_SYSTEM_BUS_ADDRESS", None)


def _become_root_of_a_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER)
    # without setgroups(2), as an unprivileged user may set the map of groups only then
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {user} 1"),
        ("gid_map", f"0 {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def _call(function: str, *arguments: object) -> None:
    """Of the C library. Raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
