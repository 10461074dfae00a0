"""Threads that spend CPU on packets: ksoftirqd, NAPI and vhost threads of the kernel, and the virtual machines.

Reads the names of all processes (see `processes`), /proc/PID/stat of those named like a kernel thread that matters (is
it one?) and task/ of QEMU processes (see `virtual_machines`). Yields `Thread` records. Processes may end at any moment:
what has gone is left out. With hidepid an ordinary user sees no thread of others, which is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from nictop.probe.inventory.machine.processes import NUMBER, read_processes
from nictop.probe.inventory.machine.qemu import CANDIDATE, VirtualMachine, read_machines
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.records import Link, Thread, Unreadable

Kind = Literal["ksoftirqd", "napi", "vhost", "vcpu", "vm"]

KERNEL_THREADS: tuple[tuple[str, Kind], ...] = (("ksoftirqd/", "ksoftirqd"), ("napi/", "napi"), ("vhost-", "vhost"))
VHOST = pattern(r"vhost-([0-9]{1,10})", re.ASCII)
PROCESSOR = pattern(r"(?:CPU [0-9]{1,6}|ALL CPUs)/[A-Za-z]+", re.ASCII)
"""``CPU 0/KVM``; ``ALL CPUs/TCG`` emulates them in turn. Named so with ``debug-threads=on`` only (libvirt, Proxmox)."""
PF_KTHREAD = 0x00200000
"""linux/sched.h; field 9 of /proc/PID/stat."""
MOST_THREADS = 8192
"""A bound for the cost of a pass and of the counters that follow: 500 machines with 16 threads each."""


def read_threads(
    links: Iterable[Link], proc: str = "/proc", processes: Mapping[int, str] | None = None
) -> tuple[tuple[Thread, ...], Unreadable | None]:
    """Threads by id, and why some may be missing. Never raises OSError.

    `links` are those of this network namespace; a machine with links in another one says so. `processes`: pid → comm
    when they have been read already; then what is wrong with them is for their reader to say.
    """
    trouble: Unreadable | None = None
    if processes is None:
        processes, trouble = read_processes(proc)
    kernel: list[Thread] = []
    candidates: dict[int, str] = {}
    for pid, comm in processes.items():
        kind = next((kind for start, kind in KERNEL_THREADS if comm.startswith(start)), None)
        if kind is not None and is_kernel_thread(pid, proc):
            kernel.append(Thread(pid, pid, comm, kind))
        elif CANDIDATE.fullmatch(comm):
            candidates[pid] = comm
    emulated: list[Thread] = []
    for machine in read_machines(candidates, links, proc):
        emulated += read_machine_threads(machine, proc, MOST_THREADS - len(emulated))
    if len(emulated) >= MOST_THREADS:
        trouble = Unreadable("failed", f"more than {MOST_THREADS} threads of virtual machines")
    owners = {thread.tid: thread for thread in emulated}
    found = [*emulated, *(with_owner(thread, owners) for thread in kernel)]
    return tuple(sorted(found, key=lambda thread: thread.tid)), trouble


def is_kernel_thread(pid: int, proc: str) -> bool:
    """The flags in /proc/PID/stat say so: anybody may name a process ``ksoftirqd/0``."""
    content = read_text(f"{proc}/{pid}/stat")
    return isinstance(content, str) and bool((parse_flags(content) or 0) & PF_KTHREAD)


def parse_flags(stat: str) -> int | None:
    """PF_* of a task: field 9 of /proc/PID/stat. The name before it may hold blanks and parentheses."""
    fields = stat.rpartition(")")[2].split()
    return parse_integer(fields[6]) if len(fields) > 6 else None


def read_machine_threads(machine: VirtualMachine, proc: str, most: int) -> list[Thread]:
    """At most `most` threads of a QEMU process, lowest ids first; none when it has ended."""
    path = f"{proc}/{machine.pid}/task"
    try:
        numbers = sorted(int(name) for name in os.listdir(path) if NUMBER.fullmatch(name))
    except OSError:
        return []
    threads = []
    for tid in numbers[: max(most, 0)]:
        comm = read_text(f"{path}/{tid}/comm")
        if isinstance(comm, str):
            kind = kind_of(comm)
            threads.append(
                Thread(tid, machine.pid, comm, kind, machine.name, machine.links, unreadable=machine.unreadable)
            )
    return threads


def kind_of(comm: str) -> Kind:
    """What a thread of a QEMU process is. Since Linux 6.4 vhost threads are among them."""
    if PROCESSOR.fullmatch(comm):
        return "vcpu"
    return "vhost" if VHOST.fullmatch(comm) else "vm"


def with_owner(thread: Thread, owners: dict[int, Thread]) -> Thread:
    """A vhost thread of the kernel (before Linux 6.4) with machine and links of the thread that it is named after."""
    match = VHOST.fullmatch(thread.name)
    owner = owners.get(int(match[1])) if match else None
    if owner is None:
        return thread
    return replace(thread, machine=owner.machine, links=owner.links, unreadable=owner.unreadable)
