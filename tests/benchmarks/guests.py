"""Cost of finding the guests of a hypervisor with 200 virtual machines, as part of its inventory.

The machines are stand-ins: processes with the name, arguments (30 devices as libvirt writes them)
and descriptors (a tap, 60 others) of QEMU, in a network namespace. The readers are held to reading
by the kernel, as those of a root probe: what they may not see themselves its helper looks up, whose
CPU time counts, too.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from nictop.probe.inventory.scheduler import RESCAN_SECONDS, RESCAN_SECONDS_WITHOUT_EVENTS
from tests.benchmarks.results import Result
from tests.support.namespaces import Namespace

MACHINES = 200
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
def machines(namespace: Namespace) -> Iterator[None]:
    """`MACHINES` stand-ins in a namespace."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["ip", "netns", "exec", namespace.name, sys.executable, "-c", SPAWN]
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
