"""seccomp(2) (Linux 3.5): this process and its later children do not change the attributes of
files, start no program, and set no limits of other processes.

Landlock does not forbid to change mode, owner, times, flags and extended attributes of a file,
which root may for its own files without any capability, nor to execute a program that is in memory
only, nor to give another process of root a limit of CPU time that ends it. A filter sees the
numbers of system calls, which differ between architectures: those of two families are known here.
io_uring would make some of them unseen.
"""

from __future__ import annotations

import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMON = (425, 452, 463, 466, 469)
"""Since Linux 5.1 the same on all: io_uring_setup, fchmodat2, setxattrat, removexattrat,
file_setattr."""
X86_64 = (
    *(59, 322),  # execve, execveat
    *(90, 91, 268),  # chmod, fchmod, fchmodat
    *(92, 93, 94, 260),  # chown, fchown, lchown, fchownat
    *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
    *(188, 189, 190, 197, 198, 199),  # setxattr, removexattr, and those of links and descriptors
)
"""arch/x86/entry/syscalls/syscall_64.tbl"""
GENERIC = (
    *(221, 281),  # execve, execveat
    *(52, 53, 54, 55),  # fchmod, fchmodat, fchownat, fchown
    88,  # utimensat
    *(5, 6, 7, 14, 15, 16),  # setxattr, removexattr, and those of links and descriptors
)
"""include/uapi/asm-generic/unistd.h"""
MACHINES = {
    "x86_64": (0xC000003E, X86_64, (302, 16)),
    "aarch64": (0xC00000B7, GENERIC, (261, 29)),
    "riscv64": (0xC00000F3, GENERIC, (261, 29)),
    "loongarch64": (0xC0000102, GENERIC, (261, 29)),
}
"""``uname -m`` → AUDIT_ARCH_* (linux/audit.h), numbers, and those of prlimit64 and ioctl."""
FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820
"""linux/fs.h, with _IOW of asm-generic/ioctl.h (mips, powerpc and sparc have another)."""
POINTER_BYTES = 8
"""A program of 32 bits on these has other numbers."""
X32_BIT = 0x40000000
"""On x86_64 another set of numbers begins here."""

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
"""struct seccomp_data; of an argument the lower 32 bits, as all these machines are
little-endian."""
LOAD, JUMP_EQUAL, JUMP_NOT_BELOW, RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_JMP | BPF_JGE | BPF_K, BPF_RET |
BPF_K."""
INSTRUCTION, PROGRAM = struct.Struct("=HBBI"), struct.Struct("@HP")
"""struct sock_filter, struct sock_fprog."""


class Condition:
    """Of a call that is refused if (`refused`), or unless, its argument has a value."""

    def __init__(self, number: int, argument: int, value: int, *, refused: bool) -> None:
        self.number, self.argument, self.value, self.refused = number, argument, value, refused


def forbid_attributes_and_programs() -> None:
    """Refuse these system calls with EPERM from now on. no_new_privs must be set. Raises OSError:
    EOPNOTSUPP on an architecture that is not known here."""
    known = MACHINES.get(os.uname().machine)
    if known is None or struct.calcsize("P") != POINTER_BYTES:
        raise OSError(errno.EOPNOTSUPP, f"the system calls of {os.uname().machine} are not known")
    architecture, numbers, (prlimit, ioctl) = known
    conditions = (
        Condition(prlimit, 0, 0, refused=False),  # process 0: this one
        Condition(ioctl, 1, FS_IOC_SETFLAGS, refused=True),
        Condition(ioctl, 1, FS_IOC_FSSETXATTR, refused=True),
    )
    _install(filter_program(architecture, (*numbers, *COMMON), conditions))


def filter_program(
    architecture: int, numbers: tuple[int, ...], conditions: tuple[Condition, ...]
) -> bytes:
    """The filter: all others are allowed; those of another architecture are refused."""
    last = 4 + len(numbers) + 4 * len(conditions) + 1  # the instruction that refuses
    instructions = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (JUMP_EQUAL, 0, last - 2, architecture),
        (LOAD, 0, 0, NUMBER_OFFSET),
        (JUMP_NOT_BELOW, last - 4, 0, X32_BIT),
    ]
    for number in numbers:
        instructions.append((JUMP_EQUAL, last - 1 - len(instructions), 0, number))
    for one in conditions:
        instructions.append((JUMP_EQUAL, 0, 3, one.number))
        instructions.append((LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * one.argument))
        refuse = last - 1 - len(instructions)
        instructions.append(
            (JUMP_EQUAL, refuse if one.refused else 0, 0 if one.refused else refuse, one.value)
        )
        instructions.append((LOAD, 0, 0, NUMBER_OFFSET))
    instructions += [
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EPERM),
    ]
    return b"".join(INSTRUCTION.pack(*one) for one in instructions)


def _install(program: bytes) -> None:
    """prctl(2) copies the program. Raises OSError."""
    try:
        import ctypes

        library: Any = ctypes.CDLL(None, use_errno=True)
        instructions = ctypes.create_string_buffer(program, len(program))
        described = PROGRAM.pack(len(program) // INSTRUCTION.size, ctypes.addressof(instructions))
        result = library.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), described, 0, 0)
    except (ImportError, AttributeError) as error:
        raise OSError(f"Python has no ctypes: {error}") from error
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
