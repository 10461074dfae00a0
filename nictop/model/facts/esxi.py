"""Virtual machines of an ESXi host: CPU time, CPU ready and co-stop, ports and VFs.

Reads nothing; returns a section of unsanitized text.
"""

from __future__ import annotations

from collections import Counter

from nictop.model.devices.links import link_at
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.parts import threads_of
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import count_noun, warn_if

MAX_WAIT_SHARE = 0.05
"""CPU ready or co-stop of a virtual machine above which it is highlighted."""


def machine_section(snapshot: Snapshot) -> tuple[Section, ...]:
    """One line for each virtual machine that has a port or a VF."""
    vcpus = Counter(thread.pid for thread in threads_of(snapshot) if thread.kind == "vcpu")
    functions = _functions_of_machines(snapshot)
    facts = []
    machines = [consumer for consumer in cpu_consumers(snapshot) if consumer.kind == "machine"]
    for machine in sorted(machines, key=lambda one: one.name):
        ports = [ifindex for ifindex in machine.links if ifindex in snapshot.links]
        parts = [
            count_noun(vcpus[machine.pid], "vCPU"),
            *_cpu_texts(machine),
            *(_port_text(ifindex, snapshot) for ifindex in ports),
            *functions.pop(machine.name, []),
        ]
        is_slow = max(machine.ready or 0.0, machine.costop or 0.0) > MAX_WAIT_SHARE
        facts.append(Fact(machine.name, " · ".join(parts), warn_if(is_slow)))
    for name, own in sorted(functions.items()):
        facts.append(Fact(name, " · ".join(["CPU not reported", *own])))
    return section("Virtual machines", facts)


def _functions_of_machines(snapshot: Snapshot) -> dict[str, list[str]]:
    """Virtual machine → its VFs."""
    functions: dict[str, list[str]] = {}
    for link in snapshot.links.values():
        for vf in link.virtual_functions:
            if vf.machine is not None:
                functions.setdefault(vf.machine, []).append(f"VF {vf.number} of {link.name}")
    return functions


def _cpu_texts(machine: CpuConsumer) -> list[str]:
    if machine.total is None:
        return ["no rates yet"]
    return [
        f"{units.percentage(machine.total)} of a CPU",
        f"CPU ready {units.percentage(machine.ready)}",
        f"co-stop {units.percentage(machine.costop)}",
    ]


def _port_text(ifindex: int, snapshot: Snapshot) -> str:
    link = snapshot.links[ifindex]
    uplink = link_at(link.lower, snapshot.links)
    if uplink is None:
        return link.name
    return f"{link.name} by {uplink.name}"
