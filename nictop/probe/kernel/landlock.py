"""Landlock (Linux 5.13): this process and its later children write no file, start no program and
signal no other one.

landlock(7), Documentation/userspace-api/landlock.rst. The numbers of its system calls are the same
on all architectures but alpha. What a kernel offers depends on the version of its ABI; later
versions add to it.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION, RULE_PATH_BENEATH = 1, 1
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
FILE_RIGHTS = {
    1: 0b1111111110011,
    2: 1 << 13,
    3: TRUNCATE,
    5: 1 << 15,
}
"""ABI → rights for files that it adds: execute, write, remove and make files of each kind, without
reading; to link and rename, to truncate, ioctl of devices."""
NETWORK_ABI, NETWORK_RIGHTS = 4, 0b11
"""To bind and to connect TCP sockets."""
SIGNAL_ABI, SIGNAL_SCOPE = 6, 1 << 1
RULESET, PATH_BENEATH = struct.Struct("=QQQ"), struct.Struct("=Qi")
WRITABLE = (os.devnull,)


def abi_version() -> int:
    """Raises OSError: ENOSYS without Landlock in the kernel, EOPNOTSUPP if it is not enabled at
    boot."""
    return _call(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)


def restrict_self() -> int:
    """Forbid everything that the ABI of this kernel can, but reading and /dev/null; returns the
    ABI. no_new_privs must be set. Descriptors that are open stay as they are. Raises OSError."""
    abi = abi_version()
    rights = sum(right for since, right in FILE_RIGHTS.items() if abi >= since)
    network = NETWORK_RIGHTS if abi >= NETWORK_ABI else 0
    scopes = SIGNAL_SCOPE if abi >= SIGNAL_ABI else 0
    size = 8 * (1 + (abi >= NETWORK_ABI) + (abi >= SIGNAL_ABI))
    ruleset = _call(CREATE_RULESET, RULESET.pack(rights, network, scopes)[:size], size, 0)
    try:
        for path in WRITABLE:
            _allow_writing(ruleset, path, rights & (WRITE_FILE | TRUNCATE))
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi


def _allow_writing(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(ADD_RULE, ruleset, RULE_PATH_BENEATH, PATH_BENEATH.pack(rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: Any) -> int:
    """syscall(2). Raises OSError."""
    try:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        library.syscall.restype = ctypes.c_long
        words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
        result: int = library.syscall(ctypes.c_long(number), *words)
    except (ImportError, AttributeError) as error:
        raise OSError(f"Python has no ctypes: {error}") from error
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
