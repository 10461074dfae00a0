"""capabilities(7) of this process and no_new_privs, by prctl(2), capget(2) and capset(2) of the C
library, as ctypes is loaded.

What has been given up cannot be had again: it is taken from the bounding set too, so that no
program gets it.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

NUMBERS = {
    "dac_override": 1,
    "dac_read_search": 2,
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "setpcap": 8,
    "net_bind_service": 10,
    "net_broadcast": 11,
    "net_admin": 12,
    "net_raw": 13,
    "sys_ptrace": 19,
    "sys_admin": 21,
    "syslog": 34,
}
"""linux/capability.h: those that any part of the probe may keep."""
MAX_CAPABILITY = 63
CAPABILITY_VERSION_3 = 0x20080522
CAP_HEADER, CAP_DATA = struct.Struct("=Ii"), struct.Struct("=6I")
"""Version and pid (0: this process); effective, permitted and inheritable, lower 32 bits, then
upper ones."""

PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 8, 24, 38, 47
PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL = 2, 4


def held_capabilities() -> frozenset[int]:
    """The numbers of the permitted ones. Raises OSError."""
    header, data = _buffers()
    if _library().capget(header, data):
        raise _last_error("capget")
    _, permitted, _, _, permitted_high, _ = CAP_DATA.unpack(data.raw)
    mask = permitted | permitted_high << 32
    return frozenset(number for number in range(MAX_CAPABILITY + 1) if mask >> number & 1)


def keep_capabilities(names: Iterable[str], *, for_programs: bool = False) -> None:
    """Give up all but these; those that this process does not have are left out. `for_programs`: a
    program that is executed as another user than root has them too (ambient set, Linux 4.3). Raises
    OSError."""
    held = held_capabilities()
    kept = {NUMBERS[name] for name in names} & held
    if NUMBERS["setpcap"] in held:
        for number in range(MAX_CAPABILITY + 1):
            if number not in kept:
                _prctl(
                    PR_CAPBSET_DROP, number
                )  # EINVAL: the kernel has no capability of this number
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)  # EINVAL: there is no ambient set
    mask = sum(1 << number for number in kept)
    inherited = mask if for_programs else 0
    words = [mask, mask, inherited]
    header, data = _buffers(
        CAP_DATA.pack(*(word & 0xFFFFFFFF for word in words), *(word >> 32 for word in words))
    )
    if _library().capset(header, data):
        raise _last_error("capset")
    if for_programs:
        for number in kept:
            _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number)


def keep_capabilities_over_setuid() -> None:
    """A change from root to another user then leaves the permitted ones. Raises OSError."""
    if _prctl(PR_SET_KEEPCAPS, 1):
        raise _last_error("PR_SET_KEEPCAPS")


def set_no_new_privileges() -> None:
    """No program that is executed gets more rights than this process (Linux 3.5). Raises
    OSError."""
    if _prctl(PR_SET_NO_NEW_PRIVS, 1):
        raise _last_error("PR_SET_NO_NEW_PRIVS")


def _buffers(values: bytes = bytes(CAP_DATA.size)) -> tuple[Any, Any]:
    import ctypes

    header = ctypes.create_string_buffer(CAP_HEADER.pack(CAPABILITY_VERSION_3, 0), CAP_HEADER.size)
    return header, ctypes.create_string_buffer(values, CAP_DATA.size)


def _prctl(option: int, *values: int) -> int:
    """Arguments that are not given are 0, as the kernel demands. Raises OSError when there is no
    prctl(2)."""
    import ctypes

    words = [*values, 0, 0, 0, 0][:4]
    result: int = _library().prctl(option, *map(ctypes.c_ulong, words))
    return result


def _library() -> Any:
    """The C library that Python uses, whatever its name is. Raises OSError."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, AttributeError) as error:
        raise OSError(f"Python has no ctypes: {error}") from error


def _last_error(call: str) -> OSError:
    import ctypes

    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
