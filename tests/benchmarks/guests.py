"""Cost of finding the guests of a hypervisor with 200 virtual machines, as part of its inventory, and
of watching them: all that its probe does at 1 Hz for the view of guests.

The machines are stand-ins: processes with the name, arguments (30 devices as libvirt writes them)
and descriptors (a tap, 60 others) of QEMU, in a network namespace. The readers are held to reading
by the kernel, as those of a root probe: what they may not see themselves its helper looks up, whose
CPU time counts, too. Those that are watched have four virtual CPUs and a vhost thread each.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nictop.probe.inventory.scheduler import RESCAN_SECONDS, RESCAN_SECONDS_WITHOUT_EVENTS
from tests.benchmarks.probe import SETTLE, on_cpu, read_output, resident_memory
from tests.benchmarks.results import Result
from tests.support.namespaces import Namespace
from tests.support.probe import Probe

MACHINES = 200
SESSION_FILES = 1024
"""Soft limit of open files of a login."""
IDLE_SECONDS, RUNNING_SECONDS = 3600.0, 0.9
MAX_CORE_SHARE = 1.0
"""Per cent of a CPU."""
SPAWN = r"""
import fcntl, os, struct, subprocess, sys
number, folder = int(sys.argv[1]), sys.argv[2]
program = os.path.join(folder, "qemu-system-x86_64")
os.symlink(os.path.realpath("/bin/sh"), program)
port = '{"driver":"pcie-root-port","port":16,"chassis":1,"id":"pci.1","bus":"pcie.0","addr":"0x2"}'
machines = []
for machine in range(number):
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"vnet%d" % machine, 0x1002))
    descriptors = [tap, *(os.open("/dev/null", os.O_RDONLY) for _ in range(60))]
    words = [program, "-c", "read end", "q", "-name", f"guest=web{machine}", "-smp", "4"]
    words += ["-netdev", f'{{"type":"tap","fds":"{tap}","vhost":true,"id":"h0"}}']
    mac = f"52:54:00:00:{machine >> 8:02x}:{machine & 255:02x}"
    words += ["-device", f'{{"driver":"virtio-net-pci","netdev":"h0","mac":"{mac}"}}']
    words += ["-device", port] * 30
    machines.append(subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=descriptors))
    for descriptor in descriptors:
        os.close(descriptor)
print("started", flush=True)
sys.stdin.read()
for machine in machines:
    machine.stdin.close()
    machine.wait()
"""
THREADS = r"""
import os, sys, threading
ready = threading.Semaphore(0)
def wait(name):
    seconds = float(sys.argv[1])
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(name)
    ready.release()
    while not end.acquire(timeout=seconds):
        pass
end = threading.Semaphore(0)
names = [*(f"CPU {number}/KVM" for number in range(4)), f"vhost-{os.getpid()}"]
for name in names:
    threading.Thread(target=wait, args=(name,), daemon=True).start()
for name in names:
    ready.acquire()
print("started", flush=True)
sys.stdin.read()
os._exit(0)
"""
"""The threads of a machine, as KVM has them since Linux 6.4."""
READ = r"""
import json, os, time
from nictop.probe import restriction
from nictop.probe.inventory import collect
helper = restriction.give_up_rights(allow_changes=False)
def used():
    with open(f"/proc/{helper._pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")
spent = []
call = collect.SourceReader.call
def timed(self, function, *given, **named):
    before = used()
    try:
        return call(self, function, *given, **named)
    finally:
        if collect.READERS[function][0] == "guests":
            spent[-1] += used() - before
collect.SourceReader.call = timed
whole = []
for _ in range(TIMES):
    spent.append(0.0)
    before = used()
    inventory = collect.take_inventory("test")
    whole.append(used() - before)
nics = [nic for guest in inventory.guests for nic in guest.nics if nic.address and nic.link]
print(json.dumps([spent, whole, len(nics)]))
helper.close()
"""


@contextmanager
def machines(namespace: Namespace, spawn: str = SPAWN) -> Iterator[None]:
    """`MACHINES` stand-ins in a namespace."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["ip", "netns", "exec", namespace.name, sys.executable, "-c", spawn]
        words += [str(MACHINES), folder]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdin is not None and parent.stdout is not None
            try:
                assert parent.stdout.readline() == "started\n"
                yield
            finally:
                parent.stdin.close()


def guests_of_many_machines(quick: bool) -> Iterator[Result]:
    """CPU time of the guests alone, and of the whole inventory that has them."""
    namespace = Namespace()
    try:
        with machines(namespace):
            text = namespace.python(READ.replace("TIMES", "3" if quick else "9"))
    finally:
        namespace.remove()
    spent, whole, found = json.loads(text)
    assert found == MACHINES, found
    seconds, all_seconds = statistics.median(spent), statistics.median(whole)
    yield Result(f"guests of {MACHINES} machines: CPU", 1e3 * seconds, None, "ms")
    yield Result("the whole inventory with them: CPU", 1e3 * all_seconds, None, "ms")
    share = 100 * seconds / RESCAN_SECONDS_WITHOUT_EVENTS
    yield Result("guests, without events from the kernel", share, MAX_CORE_SHARE, "% of a CPU")
    share = 100 * all_seconds / RESCAN_SECONDS
    yield Result("the whole inventory, at its usual interval", share, MAX_CORE_SHARE, "% of a CPU")


@contextmanager
def soft_limit(files: int) -> Iterator[None]:
    """Of open files, for the processes that are started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def with_threads(seconds: float) -> str:
    """`SPAWN` with machines that have threads: Python by the name of QEMU, without its libraries.
    `seconds`: after which each thread runs again for a moment."""
    spawn = SPAWN.replace('os.path.realpath("/bin/sh")', "os.path.realpath(sys.executable)")
    spawn = spawn.replace('"-c", "read end", "q",', f'"-I", "-S", "-c", {THREADS!r}, "{seconds}",')
    machine = (
        "machines.append(subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=descriptors))"
    )
    piped = machine.replace("stdin=subprocess.PIPE,", "stdin=subprocess.PIPE, stdout=-1,")
    return spawn.replace(machine, f"{piped}\n    machines[-1].stdout.readline()")


def usage_between_inventories(namespace: Namespace, seconds: float) -> tuple[float, float]:
    """CPU in per cent of a core of a probe at 1 Hz that has sent its first inventory, and its
    resident memory in MB."""
    with Probe("--interval", "1", namespace=namespace) as probe:
        probe.wait_for(lambda line: line.inventory is not None and not line.inventory.pending)
        read_output(probe, SETTLE)
        before, begin = on_cpu(probe.process.pid), time.monotonic()
        read_output(probe, seconds)
        used, elapsed = on_cpu(probe.process.pid) - before, time.monotonic() - begin
        memory = resident_memory(probe.process.pid)
    return 100 * used / elapsed, memory


def watched_guests(quick: bool) -> Iterator[Result]:
    """What the probe uses between two inventories, and with them: no guest runs; all threads of all
    guests run in each second."""
    for what, seconds in (("at rest", IDLE_SECONDS), ("that run", RUNNING_SECONDS)):
        namespace = Namespace()
        try:
            with machines(namespace, with_threads(seconds)):
                with soft_limit(SESSION_FILES):
                    share, memory = usage_between_inventories(namespace, 15.0 if quick else 45.0)
                text = namespace.python(READ.replace("TIMES", "3"))
        finally:
            namespace.remove()
        _, whole, found = json.loads(text)
        assert found == MACHINES, found
        inventories = 100 * statistics.median(whole) / RESCAN_SECONDS
        shown = f"{MACHINES} guests {what}"
        yield Result(f"{shown} at 1 Hz: the probe", share, None, "% of a CPU")
        yield Result("their inventory, at its usual interval", inventories, None, "% of a CPU")
        yield Result(f"{shown}: both", share + inventories, MAX_CORE_SHARE, "% of a CPU")
        yield Result(f"{shown}: resident memory of the probe", memory, None, "MB")
