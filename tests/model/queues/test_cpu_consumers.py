"""CPU consumers: each thread is counted once, for the virtual machine it belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Thread
from tests.model.hosts import HELLO, counters, inventory, snapshot_of

THREADS = (
    Thread(15, 15, "ksoftirqd/0", "ksoftirqd"),
    Thread(99, 99, "napi/eth0-8193", "napi", links=(4,)),
    Thread(1000, 1000, "kvm", "vm", "web", (21,)),
    Thread(1001, 1000, "CPU 0/KVM", "vcpu", "web", (21,)),
    Thread(1002, 1000, "CPU 1/KVM", "vcpu", "web", (21,)),
    Thread(1003, 1000, "vhost-1000", "vhost", "web", (21,)),  # Linux 6.4: a thread of QEMU
    Thread(2000, 2000, "kvm", "vm", "web", (22,)),  # another guest with the same name
    Thread(2001, 2000, "CPU 0/KVM", "vcpu", "web", (22,)),
    Thread(2050, 2050, "vhost-2000", "vhost", "web", (22,)),  # before: a process of its own
    Thread(3050, 3050, "vhost-3000", "vhost"),
)


def busy_host() -> Snapshot:
    first = counters(1.0, threads={thread.tid: (0, 0, 0) for thread in THREADS})
    second = counters(
        2.0,
        threads={15: (0, 85, 0), 99: (0, 5, 2), 1000: (10, 5, 4), 1001: (50, 30, 5), 1002: (0, 0,
            6), 1003: (0, 40, 7),
                 2000: (0, 0, 1), 2001: (2, 0, 1), 2050: (0, 1, 3), 3050: (0, 10, 1)},
    )  # fmt: skip
    return snapshot_of(HELLO, replace(inventory(), threads=THREADS), first, second)


def test_virtual_machines_and_kernel_threads() -> None:
    found = cpu_consumers(busy_host())
    assert [(one.kind, one.name, one.pid) for one in found] == [
        ("machine", "web", 1000),
        ("ksoftirqd", "ksoftirqd/0", 15),
        ("vhost", "vhost-3000", 3000),
        ("napi", "napi/eth0-8193", 99),
        ("machine", "web", 2000),
    ]
    web = found[0]
    assert web.total == pytest.approx(1.35)
    assert [web.vcpu, web.rest, web.vhost] == pytest.approx([0.8, 0.15, 0.4])
    assert (web.cpus, web.links, web.threads) == ((4, 5, 7), (21,), 4)
    assert found[4].vhost == pytest.approx(0.01)
    assert found[1].total == pytest.approx(0.85)
    assert found[1].cpus == (0,)
    assert found[3].links == (4,)


def test_every_thread_is_counted_once() -> None:
    snapshot = busy_host()
    assert snapshot.rates is not None
    spent = sum(share.total for share in snapshot.rates.threads.values())
    assert sum(one.total or 0 for one in cpu_consumers(snapshot)) == pytest.approx(spent)
    assert sum(one.threads for one in cpu_consumers(snapshot)) == len(THREADS)


def test_names_before_the_first_rates() -> None:
    found = cpu_consumers(snapshot_of(HELLO, replace(inventory(), threads=THREADS)))
    assert {one.name for one in found} == {"web", "ksoftirqd/0", "vhost-3000", "napi/eth0-8193"}
    assert all(one.total is None for one in found)


def test_a_machine_without_a_name_and_without_vhost() -> None:
    threads = (Thread(500, 500, "qemu-system-x86", "vm"),)
    snapshot = snapshot_of(HELLO, replace(inventory(), threads=threads))
    assert cpu_consumers(snapshot) == (CpuConsumer("machine", "pid 500", 500, None),)


def test_threads_without_names_are_neither_virtual_cpus_nor_others() -> None:
    """QEMU without debug-threads=on: the virtual CPUs have the name of the process."""
    threads = tuple(Thread(tid, 1000, "qemu-system-x86", "vm", "web") for tid in (1000, 1001))
    snapshot = replace(busy_host(), inventory=replace(inventory(), threads=threads))
    (web,) = cpu_consumers(snapshot)
    assert web.total == pytest.approx(0.95)
    assert (web.vcpu, web.rest, web.vhost) == (None, None, None)


def test_empty_snapshot() -> None:
    assert cpu_consumers(Snapshot.empty("nobody")) == ()
