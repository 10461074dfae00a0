"""Threads that process packets → `Thread`: ksoftirqd, NAPI and vhost threads of the kernel, and
those of QEMU.

Reads the names of all processes (`processes`), /proc/PID/stat of those named like such a kernel
thread (to check that it is one) and task/ of QEMU processes (`qemu`). Processes that end in between
are left out. With hidepid an ordinary user cannot see threads of others, which is reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from nictop.probe.inventory.machine.processes import PID, read_processes
from nictop.probe.inventory.machine.qemu import VirtualMachine, read_running_machines
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, Thread, Unreadable

ThreadKind = Literal["ksoftirqd", "napi", "vhost", "vcpu", "vm"]

KERNEL_THREADS: tuple[tuple[str, ThreadKind], ...] = (
    ("ksoftirqd/", "ksoftirqd"),
    ("napi/", "napi"),
    ("vhost-", "vhost"),
)
"""Prefix of comm → kind."""
VHOST_COMM = pattern(r"vhost-([0-9]{1,10})", re.ASCII)
VCPU_COMM = pattern(r"(?:CPU [0-9]{1,6}|ALL CPUs)/[A-Za-z]+", re.ASCII)
"""``CPU 0/KVM``; ``ALL CPUs/TCG`` emulates all in turn. Only with ``debug-threads=on`` (libvirt,
Proxmox)."""
PF_KTHREAD = 0x00200000
"""linux/sched.h; in field 9 of /proc/PID/stat."""
MAX_MACHINE_THREADS = 8192
"""Limits the cost of the inventory and of the counters: 500 machines with 16 threads each."""


def read_threads(
    links: Iterable[Link],
    proc: str = "/proc",
    processes: Mapping[int, str] | None = None,
    machines: Iterable[VirtualMachine] | None = None,
) -> tuple[tuple[Thread, ...], Unreadable | None]:
    """Threads by id, and why some may be missing. Never raises OSError.

    `links`: of this network namespace; a machine with links in another one has a reason in
    `unreadable`. `processes`: pid → comm, if already read; then a failure of that is reported by
    the caller. `machines`: those among the processes, if already read.
    """
    trouble: Unreadable | None = None
    if processes is None:
        processes, trouble = read_processes(proc)
    kernel: list[Thread] = []
    for pid, comm in processes.items():
        kind = next((kind for start, kind in KERNEL_THREADS if comm.startswith(start)), None)
        if kind is not None and is_kernel_thread(pid, proc):
            kernel.append(Thread(pid, pid, comm, kind))
    if machines is None:
        machines = read_running_machines(processes, links, proc)
    emulated: list[Thread] = []
    for machine in machines:
        emulated += read_machine_threads(machine, proc, MAX_MACHINE_THREADS - len(emulated))
    if len(emulated) >= MAX_MACHINE_THREADS:
        trouble = Unreadable(
            "failed", f"more than {MAX_MACHINE_THREADS} threads of virtual machines"
        )
    owners = {thread.tid: thread for thread in emulated}
    found = [*emulated, *(with_owner(thread, owners) for thread in kernel)]
    return tuple(sorted(found, key=lambda thread: thread.tid)), trouble


def is_kernel_thread(pid: int, proc: str) -> bool:
    """Whether the flags in /proc/PID/stat say so; any process may have the name ``ksoftirqd/0``."""
    content = read_text(f"{proc}/{pid}/stat")
    return isinstance(content, str) and bool((parse_flags(content) or 0) & PF_KTHREAD)


def parse_flags(stat: str) -> int | None:
    """PF_* of a task: field 9 of /proc/PID/stat, counted from the last parenthesis: the name may
    contain others."""
    fields = stat.rpartition(")")[2].split()
    return parse_integer(fields[6]) if len(fields) > 6 else None


def read_machine_threads(machine: VirtualMachine, proc: str, limit: int) -> list[Thread]:
    """At most `limit` threads of a QEMU process, lowest ids first; none when it has ended."""
    path = f"{proc}/{machine.pid}/task"
    try:
        numbers = sorted(int(name) for name in os.listdir(path) if PID.fullmatch(name))
    except OSError:
        return []
    threads = []
    for tid in numbers[: max(limit, 0)]:
        comm = read_text(f"{path}/{tid}/comm")
        if isinstance(comm, str):
            kind = thread_kind(comm)
            own = {"nics": machine.nics} if tid == machine.pid else {}
            threads.append(
                Thread(
                    tid,
                    machine.pid,
                    comm,
                    kind,
                    machine.name,
                    machine.links,
                    unreadable=machine.unreadable,
                    **own,
                )
            )
    return threads


def thread_kind(comm: str) -> ThreadKind:
    """Kind of a thread of a QEMU process. Since Linux 6.4 these include vhost threads."""
    if VCPU_COMM.fullmatch(comm):
        return "vcpu"
    return "vhost" if VHOST_COMM.fullmatch(comm) else "vm"


def with_owner(thread: Thread, owners: dict[int, Thread]) -> Thread:
    """A vhost thread of the kernel (before Linux 6.4) with machine and links of the process in its
    name."""
    match = VHOST_COMM.fullmatch(thread.name)
    owner = owners.get(int(match[1])) if match else None
    if owner is None:
        return thread
    return replace(thread, machine=owner.machine, links=owner.links, unreadable=owner.unreadable)
