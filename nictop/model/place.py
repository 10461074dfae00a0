"""Where a NIC is in its machine: NUMA node, port, slot, what is below the same port; the CPUs that
take its interrupts; the guest that has it, with the threads that carry its packets.

Reads nothing; takes what sysfs and the threads of the inventory say. Only network functions are in
the inventory: what else is below a port is not known. Texts are not sanitized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from nictop.model.devices.links import functions_by_address
from nictop.model.devices.tree import Row
from nictop.model.facts.guests import owner_of
from nictop.model.facts.hardware import pci_name, pcie_text
from nictop.model.guests.owners import NicOwner
from nictop.model.parts import threads_of
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list
from nictop.model.queues.plan import QueueInterrupt, queue_plan
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import absence_reason, count_noun, is_virtual, state_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, PciFunction, Thread
from nictop.probe.records.unreadable import NOT_READ_YET

MAX_OTHERS = 8
"""Functions below the same port that are named; the others are counted."""
MAX_THREADS = 6
"""Threads that are named; the others are counted."""
ROOT_BUS = "00"


@dataclass(frozen=True)
class PlaceLine:
    """One line of the drawing."""

    depth: int
    """Below which of the lines before it is."""
    name: str
    """``NUMA node 0``, ``port 0000:00:1c.0``"""
    text: str = ""
    cost: str = ""
    """Why it costs time or throughput; "": it does not, as far as is known."""
    is_own: bool = False
    """It is the NIC itself."""


def has_place(row: Row, snapshot: Snapshot) -> bool:
    """A PCI function, or what a guest has."""
    return row.pci is not None or owner_of(row, snapshot) is not None


def place_of(row: Row, snapshot: Snapshot) -> tuple[PlaceLine, ...]:
    """From the machine down to the NIC, then what serves it."""
    lines: list[PlaceLine] = []
    node = None if row.pci is None else row.pci.numa_node
    if row.pci is not None:
        lines += _hardware(row, row.pci, snapshot)
    if row.link is not None:
        lines += _interrupts(row.link, node, snapshot)
    owner = owner_of(row, snapshot)
    if owner is not None:
        lines += _guest(row, owner, node, snapshot)
    return tuple(lines)


# ---------------------------------------------------------------------------------------- hardware


def _hardware(row: Row, function: PciFunction, snapshot: Snapshot) -> Iterator[PlaceLine]:
    yield PlaceLine(0, "machine", _nodes_text(snapshot))
    yield PlaceLine(1, *_node_name(function, snapshot))
    by_address = functions_by_address(snapshot.pci)
    physical = by_address.get(function.physical_function or "")
    upper = physical or function  # a VF has the port of its PF
    depth = 2
    if upper.parent is not None:
        yield _port(upper, upper.parent)
        depth = 3
    others = [one for one in snapshot.pci if _is_beside(one, upper)]
    yield _own_function(depth, upper, function, snapshot, count=len(others))
    if physical is not None:
        number = "?" if function.virtual_function is None else function.virtual_function
        text = f"VF {number} of it"
        yield PlaceLine(depth + 1, function.address, text, is_own=row.link is None)
    if row.link is not None:
        yield PlaceLine(depth + (2 if physical else 1), *_link_text(row.link), is_own=True)
    functions = [one for one in snapshot.pci if one.physical_function == function.address]
    if functions:
        yield PlaceLine(depth + 1, count_noun(len(functions), "VF"), "share its link")
    yield from _others(depth, others, snapshot)


def _nodes_text(snapshot: Snapshot) -> str:
    """``2 NUMA nodes``"""
    platform = snapshot.inventory.platform if snapshot.inventory is not None else None
    if platform is None or not platform.node_cpus:
        return "NUMA nodes not known"
    return count_noun(len(platform.node_cpus), "NUMA node")


def _node_name(function: PciFunction, snapshot: Snapshot) -> tuple[str, str]:
    """Name and CPUs of its node."""
    node = function.numa_node
    if node is None:
        why = function.unreadable.get("numa_node")
        text = "not reported by firmware"
        if why is not None:
            text = absence_reason(why, function.driver)
        return "NUMA node", text
    platform = snapshot.inventory.platform if snapshot.inventory is not None else None
    cpus = platform.node_cpus.get(node) if platform is not None else None
    return f"NUMA node {node}", "CPUs not known" if cpus is None else f"CPUs {cpus}"


def _port(function: PciFunction, parent: str) -> PlaceLine:
    """On bus 0 a port is one of the root complex; others may be ports of switches."""
    kind = "root port" if parent.split(":")[1:2] == [ROOT_BUS] else "port"
    text = "" if function.parent_link is None else f"PCIe {pcie_text(function.parent_link)[0]}"
    return PlaceLine(2, f"{kind} {parent}", text)


def _is_beside(one: PciFunction, function: PciFunction) -> bool:
    """Below the same port, without VFs: they are counted with their PF."""
    if one.address == function.address or one.physical_function is not None:
        return False
    return function.parent is not None and one.parent == function.parent


def _own_function(
    depth: int, upper: PciFunction, function: PciFunction, snapshot: Snapshot, *, count: int
) -> PlaceLine:
    """Its slot. A link below its maximum costs throughput, and so do others at the same port."""
    text, tone = pcie_text(upper.link)
    costs = []
    if tone == "warn":
        costs.append("slower or narrower than it can be")
    if count:
        costs.append(f"shares the port with {count_noun(count, 'function')}")
    parts = [pci_name(upper)]
    if upper.link is not None:
        parts.append(f"PCIe {text}")
    has_netdev = any(link.pci_address == upper.address for link in snapshot.links.values())
    is_own = upper is function and not has_netdev
    return PlaceLine(depth, upper.address, " · ".join(parts), "; ".join(costs), is_own=is_own)


def _link_text(link: Link) -> tuple[str, str]:
    return link.name, state_text(link)[0]


def _others(depth: int, others: Sequence[PciFunction], snapshot: Snapshot) -> Iterator[PlaceLine]:
    """Below the same port."""
    names: dict[str, list[str]] = {}
    for link in snapshot.links.values():
        if link.pci_address is not None:
            names.setdefault(link.pci_address, []).append(link.name)
    for one in others[:MAX_OTHERS]:
        own = ", ".join(names.get(one.address, ()))
        text = f"{own} · {pci_name(one)}" if own else pci_name(one)
        yield PlaceLine(depth, one.address, text)
    if len(others) > MAX_OTHERS:
        yield PlaceLine(depth, f"{len(others) - MAX_OTHERS} more", "functions")


# ------------------------------------------------------------------------------------------- CPUs


def _node_of_cpu(snapshot: Snapshot) -> Mapping[int, int]:
    """CPU → node; empty with a single node: nothing is far there."""
    platform = snapshot.inventory.platform if snapshot.inventory is not None else None
    if platform is None or len(platform.node_cpus) < 2:
        return {}
    nodes: dict[int, int] = {}
    for node, text in platform.node_cpus.items():
        for cpu in parse_cpu_list(text) or ():
            nodes[cpu] = node
    return nodes


def _cpus_text(cpus: Iterable[int], nodes: Mapping[int, int]) -> str:
    """``CPUs 2-5 (node 0)``"""
    listed = sorted(set(cpus))
    word = "CPU" if len(listed) == 1 else "CPUs"
    text = f"{word} {format_cpu_list(listed)}"
    found = sorted({nodes[cpu] for cpu in listed if cpu in nodes})
    if found:
        noun = "node" if len(found) == 1 else "nodes"
        text += f" ({noun} {', '.join(map(str, found))})"
    return text


def _far_text(cpus: Iterable[int], node: int | None, nodes: Mapping[int, int]) -> str:
    """Which of the CPUs are on another node than the NIC; "": none is, or it is not known."""
    if node is None:
        return ""
    far = sorted({cpu for cpu in cpus if nodes.get(cpu, node) != node})
    if not far:
        return ""
    word = "CPU" if len(far) == 1 else "CPUs"
    return f"{word} {format_cpu_list(far)} on another node than the NIC"


def _interrupts(link: Link, node: int | None, snapshot: Snapshot) -> Iterator[PlaceLine]:
    """The CPUs that take them. Where none is known to be that of a queue, all of the NIC."""
    plan = queue_plan(link, snapshot.inventory)
    interrupts: dict[int, QueueInterrupt] = {}
    for queue in plan.queues:
        for interrupt in queue.interrupts:
            interrupts[interrupt.number] = interrupt
    noun = "queue interrupt"
    if not interrupts:
        interrupts = {interrupt.number: interrupt for interrupt in plan.unmapped}
        noun = "interrupt"
    if interrupts:
        number = count_noun(len(interrupts), noun)
        yield _interrupts_line(number, interrupts.values(), node, snapshot)
    elif not is_virtual(link):
        yield PlaceLine(0, "interrupts", _absence_text(snapshot))


def _interrupts_line(
    number: str, interrupts: Iterable[QueueInterrupt], node: int | None, snapshot: Snapshot
) -> PlaceLine:
    """`number`: ``8 queue interrupts``; `node`: that of the NIC."""
    nodes = _node_of_cpu(snapshot)
    cpus: list[int] = []
    unknown = 0
    for interrupt in interrupts:
        if interrupt.effective is None:
            unknown += 1
        else:
            cpus += interrupt.effective
    if not cpus:
        return PlaceLine(0, number, "CPUs not known")
    text = f"to {_cpus_text(cpus, nodes)}"
    if unknown:
        text += f", of {unknown} not known"
    return PlaceLine(0, number, text, _far_text(cpus, node, nodes))


def _absence_text(snapshot: Snapshot) -> str:
    """Why no interrupt of a NIC is known."""
    if snapshot.inventory is None or "interrupts" in snapshot.inventory.pending:
        return NOT_READ_YET
    why = snapshot.inventory.unreadable.get("interrupts")
    return "none known" if why is None else absence_reason(why, None)


# ------------------------------------------------------------------------------------------ guests


def _guest(row: Row, owner: NicOwner, node: int | None, snapshot: Snapshot) -> Iterator[PlaceLine]:
    """Who has it, and on which CPUs its threads ran last."""
    vcpus = owner.guest.vcpus if owner.guest is not None else None
    text = "" if vcpus is None else count_noun(vcpus, "vCPU")
    yield PlaceLine(0, owner.text, text)
    ifindex = None if row.link is None else row.link.ifindex
    own = [thread for thread in threads_of(snapshot) if _is_of(thread, owner, ifindex)]
    vhost = [thread for thread in own if thread.kind == "vhost"]
    vcpus_of_guest = [thread for thread in own if thread.kind == "vcpu"]
    nodes = _node_of_cpu(snapshot)
    vcpu_nodes = {nodes.get(cpu) for cpu in _last_cpus(vcpus_of_guest, snapshot)}
    if vhost:
        cpus = _last_cpus(vhost, snapshot)
        cost = _far_text(cpus, node, nodes) or _apart_text(cpus, vcpu_nodes, nodes)
        yield _threads("vhost", vhost, cost, snapshot)
    if vcpus_of_guest:
        cost = _far_text(_last_cpus(vcpus_of_guest, snapshot), node, nodes)
        yield _threads("vCPU", vcpus_of_guest, cost, snapshot)


def _is_of(thread: Thread, owner: NicOwner, ifindex: int | None) -> bool:
    """Of the guest, or for this tap."""
    if thread.kind == "vhost" and ifindex is not None and ifindex in thread.links:
        return True
    return thread.machine is not None and thread.machine == owner.name


def _last_cpus(threads: Sequence[Thread], snapshot: Snapshot) -> list[int]:
    """On which each ran last, of those of which it is known."""
    shares = {} if snapshot.rates is None else snapshot.rates.threads
    cpus: list[int] = []
    for thread in threads:
        share = shares.get(thread.tid)
        if share is not None and share.cpu is not None:
            cpus.append(share.cpu)
    return cpus


def _apart_text(cpus: Iterable[int], vcpu_nodes: Set[int | None], nodes: Mapping[int, int]) -> str:
    """Which of the CPUs of vhost threads are on a node where no vCPU is: packets are copied from
    one node to the other. "": none is, or it is not known."""
    if not vcpu_nodes or None in vcpu_nodes:
        return ""
    apart = sorted({cpu for cpu in cpus if cpu in nodes and nodes[cpu] not in vcpu_nodes})
    if not apart:
        return ""
    word = "CPU" if len(apart) == 1 else "CPUs"
    return f"{word} {format_cpu_list(apart)} on another node than the vCPUs"


def _threads(name: str, threads: Sequence[Thread], cost: str, snapshot: Snapshot) -> PlaceLine:
    cpus, nodes = _last_cpus(threads, snapshot), _node_of_cpu(snapshot)
    tids = ", ".join(str(thread.tid) for thread in threads[:MAX_THREADS])
    if len(threads) > MAX_THREADS:
        tids += f" and {len(threads) - MAX_THREADS} more"
    ran = f"ran last on {_cpus_text(cpus, nodes)}" if cpus else "CPU not known yet"
    label = count_noun(len(threads), f"{name} thread")
    return PlaceLine(1, label, f"{tids} · {ran}", cost)
