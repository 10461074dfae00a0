"""The filter of system calls, run here by an interpreter of its instructions, for every
architecture."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from nictop.probe.kernel import seccomp

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
FORBIDDEN = re.compile(
    r"execve(at)?|f?l?chown(at)?|f?chmod(at2?)?|utime(s|nsat)?|futimesat|[lf]?(set|remove)"
    r"xattr(at)?|io_uring_setup"
    r"|file_setattr"
)
REFUSED = seccomp.SECCOMP_RET_ERRNO | errno.EPERM


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the filter returns."""
    instructions = [seccomp.INSTRUCTION.unpack(one) for one in re.findall(rb"(?s).{8}", program)]
    loaded = {seccomp.NUMBER_OFFSET: number, seccomp.ARCHITECTURE_OFFSET: architecture}
    loaded.update(
        {seccomp.ARGUMENTS_OFFSET + 8 * place: value for place, value in enumerate(arguments)}
    )
    position = value = 0
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        if code == seccomp.RETURN:
            return int(operand)
        if code == seccomp.LOAD:
            value = loaded[operand]
        else:
            is_true = value == operand if code == seccomp.JUMP_EQUAL else value >= operand
            position += if_true if is_true else if_false


def installed(machine: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The filter that a process on this machine installs."""
    programs: list[bytes] = []
    pretend(machine, monkeypatch)
    monkeypatch.setattr(seccomp, "_install", programs.append)
    seccomp.forbid_attributes_and_programs()
    (program,) = programs
    return program


def pretend(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*names[:4], machine)))


@pytest.mark.parametrize("machine", sorted(seccomp.MACHINES))
def test_only_the_listed_calls_are_refused(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    architecture, numbers, _ = seccomp.MACHINES[machine]
    program = installed(machine, monkeypatch)
    found = {number: verdict(program, architecture, number, 0, 0) for number in range(600)}
    assert {number for number, result in found.items() if result == REFUSED} == {
        *numbers,
        *seccomp.COMMON,
    }
    assert set(found.values()) == {REFUSED, seccomp.SECCOMP_RET_ALLOW}


@pytest.mark.parametrize("machine", sorted(seccomp.MACHINES))
def test_what_is_refused_by_its_arguments(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    architecture, _, (prlimit, ioctl) = seccomp.MACHINES[machine]
    program = installed(machine, monkeypatch)

    def is_refused(number: int, *arguments: int) -> bool:
        return verdict(program, architecture, number, *arguments) == REFUSED

    assert is_refused(prlimit, 4711, 0) and not is_refused(prlimit, 0, 7)
    assert is_refused(ioctl, 3, seccomp.FS_IOC_SETFLAGS) and is_refused(
        ioctl, 3, seccomp.FS_IOC_FSSETXATTR
    )
    assert not is_refused(ioctl, 3, 0x8946), "SIOCETHTOOL"


@pytest.mark.parametrize("machine", sorted(seccomp.MACHINES))
def test_calls_of_another_architecture_are_refused(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers mean other calls: of 32-bit programs, and x32."""
    architecture, _, _ = seccomp.MACHINES[machine]
    program = installed(machine, monkeypatch)
    assert verdict(program, 0x40000003, 0) == REFUSED
    assert verdict(program, architecture, seccomp.X32_BIT) == REFUSED


@pytest.mark.parametrize("machine", sorted(HEADERS))
def test_the_numbers_are_those_of_the_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is not installed")
    found = re.findall(
        r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", HEADERS[machine].read_text(), re.MULTILINE
    )
    named = {int(number) for name, number in found if FORBIDDEN.fullmatch(name)}
    by_name = {name: int(number) for name, number in found}
    assert seccomp.MACHINES[machine][2] == (by_name["prlimit64"], by_name["ioctl"])
    listed = {*seccomp.MACHINES[machine][1], *seccomp.COMMON}
    newest = max(int(number) for _, number in found)
    assert named == {number for number in listed if number <= newest}


@pytest.mark.parametrize(("machine", "pointer_bytes"), [("s390x", 8), ("i686", 4), ("x86_64", 4)])
def test_an_architecture_that_is_not_known_is_told(
    machine: str, pointer_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a program of 32 bits on a kernel of 64: a filter for the kernel's would refuse all its
    calls."""
    pretend(machine, monkeypatch)
    monkeypatch.setattr(
        seccomp, "POINTER_BYTES", seccomp.POINTER_BYTES + (0 if pointer_bytes == 8 else 1)
    )
    monkeypatch.setattr(seccomp, "_install", lambda program: pytest.fail("installed"))
    with pytest.raises(OSError, match=f"the system calls of {machine} are not known") as raised:
        seccomp.forbid_attributes_and_programs()
    assert raised.value.errno == errno.EOPNOTSUPP
