"""``python -m tests.support.not_linux ARGUMENTS``: nictop on a simulated Unix that is not Linux.

Names that only Linux has are removed from the standard library, modules that need them cannot be
imported, and files below /proc and /sys cannot be opened, except by psutil, which does not use them
on other systems.
"""

from __future__ import annotations

import asyncio.unix_events  # noqa: F401  (the imports below check for Linux names)
import os
import select
import signal
import socket
import sys
import time
from types import ModuleType

import psutil
import textual.app
import textual.drivers.linux_driver  # noqa: F401

LINUX_NAMES = {
    os: (
        "sched_getaffinity", "sched_setaffinity", "pipe2", "posix_fallocate", "posix_fadvise",
        "memfd_create", "setns", "unshare", "eventfd", "pidfd_open", "splice", "copy_file_range",
        "listxattr", "getxattr", "getrandom",
    ),
    socket: ("AF_NETLINK", "AF_PACKET", "AF_VSOCK", "SO_BINDTODEVICE", "SO_PEERCRED",
        "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
    select: ("epoll",),
    signal: ("pidfd_send_signal",),
    time: ("CLOCK_BOOTTIME",),
}  # fmt: skip
MISSING_MODULES = (
    "jeepney",
    "asyncssh",
    "nictop.hosts.connect",
    "nictop.wire.local",
    "nictop.wire.ssh.source",
)
PSUTIL_DIRECTORY = os.path.dirname(psutil.__file__)


def refuse_linux_files(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook: raises FileNotFoundError for files that other systems do not have."""
    if event != "open" or not str(arguments[0]).startswith(("/proc", "/sys")):
        return
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith(PSUTIL_DIRECTORY):
            return
        frame = frame.f_back
    raise FileNotFoundError(f"{arguments[0]}: this is not Linux")


def remove_linux() -> None:
    for module, names in LINUX_NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    absent: dict[str, ModuleType | None] = dict.fromkeys(MISSING_MODULES)
    sys.modules.update(absent)  # type: ignore[arg-type]  # None: importing it fails
    sys.platform = "darwin"
    sys.addaudithook(refuse_linux_files)


if __name__ == "__main__":
    remove_linux()
    from nictop.__main__ import main

    sys.exit(main())
