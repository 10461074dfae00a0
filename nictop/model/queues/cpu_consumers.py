"""CPU time spent on packets, by consumer: virtual machines with their vhost threads, ksoftirqd, NAPI threads.

Reads nothing; takes the threads of the inventory and their shares of the last interval.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from nictop.model.rates.load import ThreadShare
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Thread

_OWNER = re.compile(r"vhost-(\d{1,9})")
"""drivers/vhost/vhost.c names its thread after the process that owns the device."""


@dataclass(frozen=True)
class CpuConsumer:
    """A virtual machine, or one thread of the kernel. Shares are of one CPU and are added: 2.0 is two CPUs."""

    kind: Literal["machine", "vhost", "ksoftirqd", "napi"]
    """vhost: of a process that is not a known virtual machine."""
    name: str
    """Name of the virtual machine or of the thread."""
    pid: int
    """Process of the virtual machine, or id of the thread."""
    total: float | None
    """None: no rate yet."""
    vcpu: float | None = None
    """Share of its virtual processors. Only virtual machines have this and the next two."""
    rest: float | None = None
    """Share of its other threads: device emulation, I/O, migration."""
    vhost: float | None = None
    """Share of its vhost threads: packets between tap and guest."""
    cpus: tuple[int, ...] = ()
    """CPUs on which its busy threads ran last."""
    links: tuple[int, ...] = ()
    """ifindexes of its tap and macvtap links, where they are known."""
    threads: int = 1
    ready: float | None = None
    """Share of the time in which its virtual CPUs were ready to run and got no CPU, mean of all. Only of ESXi, as the
    next one."""
    costop: float | None = None
    """Share of the time in which its virtual CPUs waited for each other."""


def cpu_consumers(snapshot: Snapshot) -> tuple[CpuConsumer, ...]:
    """The busiest first; idle ones and those without a rate last, by name."""
    threads = snapshot.inventory.threads if snapshot.inventory is not None else ()
    shares = snapshot.rates.threads if snapshot.rates is not None else {}
    groups: dict[int, list[Thread]] = {}
    lines: list[CpuConsumer] = []
    for thread in threads:
        if thread.kind in ("ksoftirqd", "napi"):
            lines.append(_thread_consumer(thread, shares))
        else:
            groups.setdefault(_owner(thread), []).append(thread)
    lines += [_process_consumer(owner, members, shares) for owner, members in groups.items()]
    return tuple(sorted(lines, key=lambda line: (-(line.total or 0.0), line.name, line.pid)))


def _owner(thread: Thread) -> int:
    """The process that a thread works for: since Linux 6.4 a vhost thread is one of QEMU's; before, it has its own
    process, and only its name contains the owner."""
    if thread.kind == "vhost":
        match = _OWNER.fullmatch(thread.name)
        if match is not None:
            return int(match[1])
    return thread.pid


def _thread_consumer(thread: Thread, shares: dict[int, ThreadShare]) -> CpuConsumer:
    share = shares.get(thread.tid)
    return CpuConsumer(
        kind="napi" if thread.kind == "napi" else "ksoftirqd",
        name=thread.name,
        pid=thread.tid,
        total=share.total if share is not None else None,
        cpus=(share.cpu,) if share is not None and share.cpu is not None else (),
        links=thread.links,
    )


def _process_consumer(owner: int, members: list[Thread], shares: dict[int, ThreadShare]) -> CpuConsumer:
    def used(*kinds: str) -> float | None:
        known = [shares[one.tid].total for one in members if one.kind in kinds and one.tid in shares]
        if known:
            return sum(known)
        return None if any(one.kind in kinds for one in members) else 0.0

    def waited(part: str) -> float | None:
        vcpus = [getattr(shares[one.tid], part) for one in members if one.kind == "vcpu" and one.tid in shares]
        return sum(vcpus) / len(vcpus) if vcpus and None not in vcpus else None

    running = [shares[one.tid] for one in members if one.tid in shares and shares[one.tid].total]
    is_machine = any(one.kind in ("vcpu", "vm") for one in members)
    name = next((one.machine for one in members if one.machine), None)
    parts = {"vcpu": used("vcpu"), "rest": used("vm"), "vhost": used("vhost")}
    known = [part for part in parts.values() if part is not None]
    return CpuConsumer(
        kind="machine" if is_machine or name else "vhost",
        name=name or (f"pid {owner}" if is_machine else members[0].name),
        pid=owner,
        total=sum(known) if any(one.tid in shares for one in members) else None,
        **parts,
        cpus=tuple(sorted({one.cpu for one in running if one.cpu is not None})),
        links=tuple(sorted({link for one in members for link in one.links})),
        threads=len(members),
        ready=waited("ready"),
        costop=waited("costop"),
    )
