"""Virtual machines of an ESXi host: CPU time, CPU ready and co-stop, ports and VFs.

Reads nothing; returns a section of unsanitized text.
"""

from __future__ import annotations

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import count_noun

MAX_WAIT_SHARE = 0.05
"""CPU ready or co-stop of a virtual machine above which it is highlighted."""


def machine_section(snapshot: Snapshot) -> tuple[Section, ...]:
    """One line for each virtual machine that has a port or a VF."""
    threads = snapshot.inventory.threads if snapshot.inventory is not None else ()
    vcpus: dict[int, int] = {}
    for thread in threads:
        if thread.kind == "vcpu":
            vcpus[thread.pid] = vcpus.get(thread.pid, 0) + 1
    functions: dict[str, list[str]] = {}
    for link in snapshot.links.values():
        for one in link.virtual_functions:
            if one.machine is not None:
                functions.setdefault(one.machine, []).append(f"VF {one.number} of {link.name}")
    facts = []
    machines = [one for one in cpu_consumers(snapshot) if one.kind == "machine"]
    for machine in sorted(machines, key=lambda one: one.name):
        parts = [count_noun(vcpus.get(machine.pid, 0), "vCPU"), *_cpu_texts(machine)]
        parts += [_port_text(ifindex, snapshot) for ifindex in machine.links if ifindex in snapshot.links]
        parts += functions.pop(machine.name, [])
        is_slow = max(machine.ready or 0.0, machine.costop or 0.0) > MAX_WAIT_SHARE
        facts.append(Fact(machine.name, " · ".join(parts), "warn" if is_slow else "normal"))
    facts += [Fact(name, " · ".join(["CPU not reported", *found])) for name, found in sorted(functions.items())]
    return section("Virtual machines", facts) if facts else ()


def _cpu_texts(machine: CpuConsumer) -> list[str]:
    if machine.total is None:
        return ["no rates yet"]
    ready, costop = (units.UNKNOWN if one is None else units.percentage(one) for one in (machine.ready, machine.costop))
    return [f"{units.percentage(machine.total)} of a CPU", f"CPU ready {ready}", f"co-stop {costop}"]


def _port_text(ifindex: int, snapshot: Snapshot) -> str:
    link = snapshot.links[ifindex]
    uplink = snapshot.links.get(link.lower) if link.lower is not None else None
    return f"{link.name} by {uplink.name}" if uplink is not None else link.name
