"""Who runs a process that says that it is a virtual machine, and whether that is believed.

A command line is what its process says: any user may write the name, the socket or the MAC address
of a guest of others into one. Believed is a process of root, of this process's own user, or of a
user whose virtual machines an administrator runs, if its program is an emulator: the words of a
program with the set-user-ID bit (``exec -a qemu-system-x86_64 sudo …``) are those of its caller.
Root of a container is often root of the host, and chooses its programs: nothing in a PID namespace
below this one is believed (NSpid in /proc/PID/status, proc_pid_status(5)), as of KubeVirt.

Users: libvirt's default is qemu (Red Hat, SUSE, Gentoo; Nutanix AHV and oVirt are such hosts) or
libvirt-qemu (Debian, Ubuntu; m4/virt-driver-qemu.m4, meson.build), and ``user`` of
/etc/libvirt/qemu.conf; Proxmox runs QEMU as root; Incus and LXD give it ``-runas incus`` or ``lxd``
(driver_qemu.go, UnprivUser). The owner of /proc/PID is the effective user also of a process that is
not dumpable (fs/proc/base.c, task_dump_owner).
"""

from __future__ import annotations

import os
import re

from nictop.probe.kernel.regular_files import regular_text

USERS = ("qemu", "libvirt-qemu", "incus", "lxd")
PROGRAM = re.compile(
    r"\.?(?:kvm|qemu|qemu-kvm|qemu-dm|qemu-system-.*|cloud-hypervisor.*|firecracker.*|crosvm.*)"
    r"|ld-(?:linux|musl).*|ld[-.][0-9.]*so.*",
    re.DOTALL,
)
"""File name of an emulator, also of one that a package wraps (``.qemu-system-x86_64-wrapped``), and
of the dynamic loader, which starts one."""
DELETED = " (deleted)"
"""Behind the path of a program that was replaced meanwhile (proc_pid_exe(5))."""
LIBVIRT_USER = re.compile(r"^[ \t]*user[ \t]*=[ \t]*\"([^\"\n]{1,64})\"", re.MULTILINE)
MAX_PASSWD_BYTES = 1024 * 1024
MAX_CONF_BYTES = 256 * 1024
NSPID = re.compile(r"^NSpid:([0-9 \t]+)$", re.MULTILINE)
MAX_STATUS_BYTES = 16384
MAX_NAME_CHARS = 32


class MonitorOwners:
    """Of this host. `own`: user ID whose processes are believed besides."""

    def __init__(self, etc: str = "/etc", own: int | None = None) -> None:
        self._names = user_names(regular_text(f"{etc}/passwd", MAX_PASSWD_BYTES))
        conf = regular_text(f"{etc}/libvirt/qemu.conf", MAX_CONF_BYTES)
        configured = LIBVIRT_USER.findall(conf)[-1:]
        users = {*USERS, *configured}
        self._believed = {0, os.geteuid() if own is None else own}
        self._believed |= {uid for uid, name in self._names.items() if name in users}
        for user in configured:
            number = user[1:] if user.startswith("+") else user
            if number.isdigit() and user not in self._names.values():
                self._believed.add(int(number))

    def doubt(self, uid: int, program: str | None, *, is_inside: bool = False) -> str:
        """``run by user alice``: why what the process says is not believed; "": it is. `program`:
        path of what it runs; None: not known. `is_inside`: it is in a container."""
        if uid not in self._believed:
            return f"run by user {self._names.get(uid, uid)}"
        if is_inside:
            return "run in a container"
        name = (program or "").rpartition("/")[2]
        if name.endswith(DELETED):
            name = name[: -len(DELETED)]
        if program is not None and not PROGRAM.fullmatch(name):
            return f"its program is {shown(name)}, not an emulator"
        return ""


def user_names(passwd: str) -> dict[int, str]:
    """User ID → name; of several names the first, as getpwuid(3)."""
    names = {}  # type: dict[int, str]
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit() and len(fields[2]) <= 10:
            names.setdefault(int(fields[2]), shown(fields[0]))
    return names


def shown(name: str, limit: int = MAX_NAME_CHARS) -> str:
    """On one line, bounded."""
    return "".join(char if char.isprintable() else "?" for char in name[:limit])


def is_inside(pid: int, proc: str) -> bool:
    """A process is in a PID namespace below the one of `proc` (Linux 4.1)."""
    try:
        with open(f"{proc}/{pid}/status", "rb") as file:
            found = NSPID.search(file.read(MAX_STATUS_BYTES).decode("utf-8", "replace"))
    except OSError:
        return False
    return found is not None and len(found[1].split()) > 1


def owner_of(pid: int, proc: str) -> int:
    """User ID of a process. Raises OSError."""
    return os.stat(f"{proc}/{pid}").st_uid
