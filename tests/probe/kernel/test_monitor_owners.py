"""Whose processes are believed when they say that they are a virtual machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nictop.probe.kernel.monitor_owners import MonitorOwners, is_inside, owner_of
from nictop.probe.kernel.regular_files import read_regular, regular_text

PASSWD = """root:x:0:0::/root:/bin/sh
alice:x:1000:1000::/home/alice:/bin/sh
bob;\x1b:x:1001:1001::/home/bob:/bin/sh
libvirt-qemu:x:64055:108::/var/lib/libvirt:/usr/sbin/nologin
vms:x:700:700::/:/bin/false
bad
also:bad:x1
"""
QEMU = "/usr/bin/qemu-system-x86_64"


def owners(etc: Path, conf: str = "", own: int = 0) -> MonitorOwners:
    (etc / "passwd").write_text(PASSWD)
    (etc / "libvirt").mkdir(exist_ok=True)
    (etc / "libvirt/qemu.conf").write_text(conf)
    return MonitorOwners(str(etc), own)


def test_users_that_run_virtual_machines(tmp_path: Path) -> None:
    known = owners(tmp_path)
    assert known.doubt(0, QEMU) == known.doubt(64055, QEMU) == ""
    assert known.doubt(1000, QEMU) == "run by user alice"
    assert known.doubt(1001, QEMU) == "run by user bob;?"
    assert known.doubt(4711, QEMU) == "run by user 4711"
    assert owners(tmp_path, own=1000).doubt(1000, QEMU) == ""


@pytest.mark.parametrize(
    ("conf", "believed"),
    [
        ('user = "vms"', {700}),
        ('#user = "vms"', set()),
        ('user = "alice"\n user="vms" # last', {700}),
        ('user = "+4711"', {4711}),
        ('user = "4711"', {4711}),
        ("user = x\x00", set()),
    ],
)
def test_the_user_in_the_configuration_of_libvirt(
    tmp_path: Path, conf: str, believed: set[int]
) -> None:
    known = owners(tmp_path, conf)
    assert {uid for uid in (700, 1000, 4711) if not known.doubt(uid, QEMU)} == believed


@pytest.mark.parametrize(
    "program",
    [
        *(None, QEMU, f"{QEMU} (deleted)", "/usr/libexec/qemu-kvm", "/usr/bin/kvm (deleted)"),
        *("/nix/store/x/bin/.qemu-system-x86_64-wrapped", "/lib64/ld-linux-x86-64.so.2"),
        *("/lib/ld-musl-x86_64.so.1", "/lib/x86_64-linux-gnu/ld-2.31.so", "/usr/bin/firecracker"),
    ],
)
def test_programs_that_are_emulators(tmp_path: Path, program: str | None) -> None:
    assert owners(tmp_path).doubt(0, program) == ""


@pytest.mark.parametrize("name", ["sudo", "su", "qemu-ga", "qemu-img", "ld", "x\nnictop: kvm", ""])
def test_programs_that_are_not(tmp_path: Path, name: str) -> None:
    doubt = owners(tmp_path).doubt(0, f"/usr/bin/{name}")
    assert doubt.startswith("its program is ") and doubt.isprintable()


def test_the_owner_of_a_process() -> None:
    assert owner_of(os.getpid(), "/proc") == os.geteuid()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Whoever may write the directory of a file may put a FIFO there, which has no end."""
    os.mkfifo(tmp_path / "fifo")
    assert read_regular(str(tmp_path / "fifo"), 10) is None
    assert regular_text(str(tmp_path / "fifo"), 10) == regular_text(str(tmp_path / "no"), 10) == ""
    (tmp_path / "file").write_text("0123456789abc")
    assert regular_text(str(tmp_path / "file"), 10) == "0123456789"
    assert regular_text("a\0b", 10) == ""


@pytest.mark.parametrize(
    ("status", "expected"),
    [("NSpid:\t4711\n", False), ("NSpid:\t4711\t5\n", True), ("Name:\tNSpid: 1 2\n", False)],
)
def test_root_of_a_container_is_not_believed(tmp_path: Path, status: str, expected: bool) -> None:
    """It is often root of the host, and its programs may have any name."""
    (tmp_path / "50").mkdir()
    (tmp_path / "50/status").write_text(f"Name:\tkvm\n{status}Threads:\t1\n")
    assert is_inside(50, str(tmp_path)) is expected
    doubt = owners(tmp_path).doubt(0, QEMU, is_inside=is_inside(50, str(tmp_path)))
    assert doubt == "run in a container" * expected
    assert not is_inside(51, str(tmp_path)) and not is_inside(os.getpid(), "/proc")
