"""CPU time spent on packets, by consumer: virtual machines with their vhost threads, ksoftirqd,
NAPI threads.

Reads nothing; takes the threads of the inventory and their shares of the last interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from nictop.model.parts import threads_of
from nictop.model.rates.links import sum_known
from nictop.model.rates.load import ThreadShare
from nictop.model.snapshot import Snapshot
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Thread

_OWNER = pattern(r"vhost-(\d{1,9})")
"""drivers/vhost/vhost.c names its thread after the process that owns the device."""


@dataclass(frozen=True)
class CpuConsumer:
    """A virtual machine, or one thread of the kernel. Shares are of one CPU and are added: 2.0 is
    two CPUs."""

    kind: Literal["machine", "vhost", "ksoftirqd", "napi"]
    """vhost: of a process that is not a known virtual machine."""
    name: str
    """Name of the virtual machine or of the thread."""
    pid: int
    """Process of the virtual machine, or id of the thread."""
    total: float | None
    """None: no rate yet."""
    vcpu: float | None = None
    """Share of its virtual processors; None: not known, also if none of its threads has a name of
    one (QEMU names its threads only with ``-name debug-threads=on``, as libvirt does). Only virtual
    machines have this and the next two."""
    rest: float | None = None
    """Share of its other threads: device emulation, I/O, migration. None: not known, also if
    virtual processors may be among them."""
    vhost: float | None = None
    """Share of its vhost threads: packets between tap and guest; None: it has none, or not
    known."""
    cpus: tuple[int, ...] = ()
    """CPUs on which its busy threads ran last."""
    links: tuple[int, ...] = ()
    """ifindexes of its tap and macvtap links, where they are known."""
    threads: int = 1
    ready: float | None = None
    """Share of the time in which its virtual CPUs were ready to run and got no CPU, mean of all.
    Only of ESXi, as the next one."""
    costop: float | None = None
    """Share of the time in which its virtual CPUs waited for each other."""


def cpu_consumers(snapshot: Snapshot) -> tuple[CpuConsumer, ...]:
    """The busiest first; idle ones and those without a rate last, by name."""
    shares: dict[int, ThreadShare] = {}
    if snapshot.rates is not None:
        shares = snapshot.rates.threads
    groups: dict[int, list[Thread]] = {}
    lines: list[CpuConsumer] = []
    for thread in threads_of(snapshot):
        if thread.kind in ("ksoftirqd", "napi"):
            lines.append(_thread_consumer(thread, shares))
        else:
            groups.setdefault(_owner(thread), []).append(thread)
    lines += [_process_consumer(owner, members, shares) for owner, members in groups.items()]
    return tuple(sorted(lines, key=lambda line: (-(line.total or 0.0), line.name, line.pid)))


def _owner(thread: Thread) -> int:
    """The process that a thread works for: since Linux 6.4 a vhost thread is one of QEMU's; before,
    it has its own process, and only its name contains the owner."""
    if thread.kind == "vhost":
        match = _OWNER.fullmatch(thread.name)
        if match is not None:
            return int(match[1])
    return thread.pid


def _thread_consumer(thread: Thread, shares: dict[int, ThreadShare]) -> CpuConsumer:
    total: float | None = None
    cpus: tuple[int, ...] = ()
    share = shares.get(thread.tid)
    if share is not None:
        total = share.total
        if share.cpu is not None:
            cpus = (share.cpu,)
    return CpuConsumer(
        kind="napi" if thread.kind == "napi" else "ksoftirqd",
        name=thread.name,
        pid=thread.tid,
        total=total,
        cpus=cpus,
        links=thread.links,
    )


def _process_consumer(
    owner: int, members: list[Thread], shares: dict[int, ThreadShare]
) -> CpuConsumer:
    """A virtual machine with its vhost threads, or the vhost threads of another process."""
    vcpu = _used(members, "vcpu", shares)
    are_named = any(thread.kind == "vcpu" for thread in members)
    rest = _used(members, "vm", shares) if are_named else None
    measured = [shares[thread.tid] for thread in members if thread.tid in shares]
    running = [share for share in measured if share.total]
    links: set[int] = set()
    for thread in members:
        links.update(thread.links)
    is_machine, name = _machine(owner, members)
    return CpuConsumer(
        kind="machine" if is_machine else "vhost",
        name=name,
        pid=owner,
        total=sum_known(share.total for share in measured),
        vcpu=vcpu,
        rest=rest,
        vhost=_used(members, "vhost", shares),
        cpus=tuple(sorted({share.cpu for share in running if share.cpu is not None})),
        links=tuple(sorted(links)),
        threads=len(members),
        ready=_waited(members, "ready", shares),
        costop=_waited(members, "costop", shares),
    )


def _machine(owner: int, members: Sequence[Thread]) -> tuple[bool, str]:
    """Whether threads are those of a virtual machine, and their name."""
    name = next((thread.machine for thread in members if thread.machine), None)
    if name:
        return True, name
    if any(thread.kind in ("vcpu", "vm") for thread in members):
        return True, f"pid {owner}"
    return False, members[0].name


def _used(members: Sequence[Thread], kind: str, shares: Mapping[int, ThreadShare]) -> float | None:
    """Share of the threads of one kind; None: there are none, or nothing is known of them."""
    tids = [thread.tid for thread in members if thread.kind == kind]
    return sum_known(shares[tid].total for tid in tids if tid in shares)


def _waited(
    members: Sequence[Thread], part: str, shares: Mapping[int, ThreadShare]
) -> float | None:
    """Mean of `ready` or `costop` over the virtual CPUs; None: not known of all of them."""
    vcpus = [shares.get(thread.tid) for thread in members if thread.kind == "vcpu"]
    values: list[float | None] = [getattr(share, part) for share in vcpus if share is not None]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known) / len(known)
