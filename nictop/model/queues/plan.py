"""The static part of the queue map, from an inventory: NAPI instance, interrupt and CPUs of each queue.

Reads nothing. The interrupt of a queue is the one of its NAPI instance (``napi-get``), else the one whose name contains
the queue (`vectors`); a hv_netvsc queue has a vmbus channel instead. Other interrupts are unmapped.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nictop.model.queues.cpu_lists import parse_cpu_list, parse_cpu_mask
from nictop.model.queues.driver_counters import QueuePositions, Side, link_queue_positions
from nictop.model.queues.vectors import OTHER, Direction, Role, Vector, vectors
from nictop.model.text.words import driver_name
from nictop.probe.records import Channel, Interrupt, Inventory, Link, Queue


@dataclass(frozen=True)
class QueueInterrupt:
    """An interrupt of a netdev, and the queues it serves."""

    number: int
    name: str
    """As named by its driver; several handlers are joined by commas; "" when unknown."""
    direction: Direction
    role: Role
    shared: bool
    """It serves all queues of the netdev: its rate is not that of a single queue."""
    allowed: tuple[int, ...] | None
    """CPUs, smp_affinity_list. None: not known."""
    effective: tuple[int, ...] | None
    """CPUs to which it is delivered, effective_affinity_list."""
    local: bool | None
    """Those CPUs belong to the NUMA node of the NIC; None: a machine with one node, or the node is not known."""


@dataclass(frozen=True)
class PlannedQueue:
    """One queue number of a netdev, both directions."""

    number: int
    has_rx: bool
    has_tx: bool
    """False: there is no such queue. Both False: only an interrupt exists (``ethtool -L`` disabled the queue)."""
    napis: tuple[int, ...]
    napi_threads: tuple[int, ...]
    """Threads that poll them (threaded NAPI)."""
    interrupts: tuple[QueueInterrupt, ...]
    channel: Channel | None
    xps: tuple[int, ...] | None
    """CPUs that transmit through this queue; (): transmit packet steering is off. None: not settable, or no such
    queue."""
    rps: tuple[int, ...] | None
    """CPUs that process this queue's packets; (): receive packet steering is off."""
    rps_flow_count: int | None
    rx_positions: QueuePositions
    tx_positions: QueuePositions


@dataclass(frozen=True)
class QueuePlan:
    """The plan of one netdev."""

    queues: tuple[PlannedQueue, ...]
    """By number."""
    others: tuple[QueueInterrupt, ...]
    """Interrupts that serve no queue according to their name: link changes, mailbox, configuration."""
    unmapped: tuple[QueueInterrupt, ...]
    """Interrupts that could not be assigned."""


_plans: dict[int, dict[int, tuple[Link, QueuePlan]]] = {}
"""Id of an inventory that exists → id of a link → the link, so that its id is unique, and its plan."""
MAX_CACHED_PLANS = 512
"""Plans for each inventory: a link that changes is another object."""


def queue_plan(link: Link, inventory: Inventory | None) -> QueuePlan:
    """The plan of `link`, cached for this link object as long as the inventory object exists."""
    if inventory is None:
        return make_queue_plan(link, None)
    plans = _plans.get(id(inventory))
    if plans is None:
        plans = _plans[id(inventory)] = {}
        weakref.finalize(inventory, _plans.pop, id(inventory)).atexit = False
    known = plans.get(id(link))
    if known is not None:
        return known[1]
    plan = make_queue_plan(link, inventory)
    if len(plans) >= MAX_CACHED_PLANS:
        del plans[next(iter(plans))]
    plans[id(link)] = (link, plan)
    return plan


def make_queue_plan(link: Link, inventory: Inventory | None) -> QueuePlan:
    """The plan of `link`, without the cache."""
    driver = _driver(link, inventory)
    interrupts = _interrupts_of(link, driver, inventory)
    napi_irq = {napi.id: napi.irq for napi in link.napis if napi.irq is not None}
    node_cpus = _node_cpus(link, interrupts, inventory)
    by_napi: dict[int, list[Queue]] = {}
    for queue in link.queues:
        irq = napi_irq.get(queue.napi) if queue.napi is not None else None
        if irq is not None:
            by_napi.setdefault(irq, []).append(queue)
    assigned: list[tuple[int | None, QueueInterrupt]] = []
    unassigned = [one for one in interrupts if one.number not in by_napi]
    for irq, queues in by_napi.items():
        record = next((one for one in interrupts if one.number == irq), Interrupt(irq, (), link.pci_address))
        assigned += _assigned_by_napi(record, queues, node_cpus)
    unmapped = []
    is_shared_function = _shares_event_queues(link, driver, inventory)
    for record, found in zip(unassigned, _classified(driver, interrupts, unassigned), strict=True):
        if found is None or (is_shared_function and found.role == "queue"):
            unmapped.append(_interrupt(record, OTHER, node_cpus))
        else:
            assigned.append((found.queue, _interrupt(record, found, node_cpus)))
    return QueuePlan(
        queues=_planned(link, link_queue_positions(driver, link, _peer(link, inventory)), assigned),
        others=tuple(one for _, one in assigned if one.role != "queue"),
        unmapped=tuple(unmapped),
    )


def _driver(link: Link, inventory: Inventory | None) -> str | None:
    functions = inventory.pci if inventory is not None else ()
    pci = next((one for one in functions if one.address == link.pci_address), None)
    return driver_name(link, pci)


def _peer(link: Link, inventory: Inventory | None) -> Link | None:
    """The lower link in this network namespace; for a veth, its other end."""
    if inventory is None or link.lower_namespace is not None:
        return None
    return next((one for one in inventory.links if one.ifindex == link.lower), None)


# ------------------------------------------------------------------------------------------------------- interrupts


def _interrupts_of(link: Link, driver: str | None, inventory: Inventory | None) -> tuple[Interrupt, ...]:
    """Interrupts by PCI function; of xen event channels and platform devices by the name that their driver assigns."""
    if inventory is None:
        return ()
    if link.pci_address is not None:
        return tuple(one for one in inventory.interrupts if one.pci_address == link.pci_address)
    if link.device is None:
        return ()
    names = [link.name, *link.altnames]
    if link.bus == "xen" or driver == "vif":
        names.append(link.device.replace("vif-", "vif"))  # vif-0 on xenbus, vif0-q0-tx in event channels
        names.append(re.sub(r"^vif(\d{1,9})-(\d{1,9})$", r"vif\1.\2", link.device))
    begins = tuple(f"{name}-" for name in names)
    return tuple(
        one
        for one in inventory.interrupts
        if one.pci_address is None and any(action in names or action.startswith(begins) for action in one.actions)
    )


def _shares_event_queues(link: Link, driver: str | None, inventory: Inventory | None) -> bool:
    """Two ports of one mlx4 function share its event queues: which queue of which port uses one is known only to
    mlx4_assign_eq, not visible in its name."""
    if driver not in ("mlx4_en", "mlx4_core") or inventory is None:
        return False
    return any(other.ifindex != link.ifindex and other.pci_address == link.pci_address for other in inventory.links)


def _classified(
    driver: str | None, all_interrupts: Sequence[Interrupt], unassigned: Sequence[Interrupt]
) -> list[Vector | None]:
    """The vectors of the interrupts in `unassigned` by their names; some names can be interpreted only with all names
    of the device."""
    if driver is None:
        return [None for _ in unassigned]
    actions = [action for one in all_interrupts for action in one.actions or ("",)]
    # An INTx line is shared with other devices: their names must not hide that it is the only vector.
    is_only_interrupt = len(all_interrupts) == 1 and len(actions) > 1
    found = iter(vectors(driver, actions))
    by_number: dict[int, Vector | None] = {}
    for one in all_interrupts:
        served = [next(found) for _ in one.actions or ("",)]
        if is_only_interrupt:
            served += [vectors(driver, [action])[0] for action in one.actions]
        known = [vector for vector in served if vector is not None]
        by_number[one.number] = next((vector for vector in known if vector.role == "queue"), next(iter(known), None))
    return [by_number[one.number] for one in unassigned]


def _assigned_by_napi(
    record: Interrupt, queues: Sequence[Queue], node_cpus: frozenset[int] | None
) -> list[tuple[int | None, QueueInterrupt]]:
    directions: dict[int, set[str]] = {}
    for queue in queues:
        directions.setdefault(queue.number, set()).add(queue.direction)
    result: list[tuple[int | None, QueueInterrupt]] = []
    for number, both in directions.items():
        direction: Direction = "both" if len(both) == 2 else ("rx" if "rx" in both else "tx")
        one = _interrupt(record, Vector(direction, number, "queue"), node_cpus)
        result.append((number, replace(one, shared=len(directions) > 1)))
    return result


def _interrupt(record: Interrupt, found: Vector, node_cpus: frozenset[int] | None) -> QueueInterrupt:
    allowed, effective = parse_cpu_list(record.allowed_cpus), parse_cpu_list(record.effective_cpus)
    cpus = effective or allowed
    return QueueInterrupt(
        number=record.number,
        name=", ".join(record.actions),
        direction=found.direction,
        role=found.role,
        shared=found.role == "queue" and found.queue is None,
        allowed=allowed,
        effective=effective,
        local=node_cpus.issuperset(cpus) if node_cpus is not None and cpus else None,
    )


def _node_cpus(link: Link, interrupts: Sequence[Interrupt], inventory: Inventory | None) -> frozenset[int] | None:
    """CPUs of the NUMA node of the NIC; None with a single node, or when the node is not known."""
    if inventory is None or len(inventory.platform.node_cpus) < 2:
        return None
    node = next((one.numa_node for one in inventory.pci if one.address == link.pci_address), None)
    if node is None:
        node = next((one.numa_node for one in interrupts if one.numa_node is not None), None)
    cpus = parse_cpu_list(inventory.platform.node_cpus.get(node)) if node is not None else None
    return frozenset(cpus) if cpus else None


# ----------------------------------------------------------------------------------------------------------- queues


def _planned(
    link: Link,
    positions: Mapping[tuple[Side, int], QueuePositions],
    assigned: Sequence[tuple[int | None, QueueInterrupt]],
) -> tuple[PlannedQueue, ...]:
    queues = {(queue.direction, queue.number): queue for queue in link.queues}
    shared = [one for number, one in assigned if number is None and one.role == "queue"]
    own: dict[int, list[QueueInterrupt]] = {}
    for number, one in assigned:
        if number is not None and one.role == "queue":
            own.setdefault(number, []).append(one)
    numbers = {queue.number for queue in link.queues} or {number for _, number in positions} or {0 for _ in shared[:1]}
    threads = {napi.id: napi.thread for napi in link.napis}
    channels = _channels_by_queue(link)
    all_numbers = sorted(numbers | own.keys() | channels.keys())
    if len(all_numbers) == 1:
        shared = [replace(one, shared=False) for one in shared]
    result = []
    for number in all_numbers:
        rx, tx = queues.get(("rx", number)), queues.get(("tx", number))
        napis = tuple(dict.fromkeys(queue.napi for queue in (rx, tx) if queue is not None and queue.napi is not None))
        result.append(
            PlannedQueue(
                number=number,
                has_rx=rx is not None or (not queues and ("rx", number) in positions),
                has_tx=tx is not None or (not queues and ("tx", number) in positions),
                napis=napis,
                napi_threads=tuple(thread for thread in map(threads.get, napis) if thread is not None),
                interrupts=tuple(sorted([*own.get(number, ()), *shared], key=lambda one: one.number)),
                channel=channels.get(number),
                xps=parse_cpu_mask(tx.xps_cpus) if tx is not None else None,
                rps=parse_cpu_mask(rx.rps_cpus) if rx is not None else None,
                rps_flow_count=rx.rps_flow_count if rx is not None else None,
                rx_positions=positions.get(("rx", number), _NONE),
                tx_positions=positions.get(("tx", number), _NONE),
            )
        )
    return tuple(result)


def _channels_by_queue(link: Link) -> dict[int, Channel]:
    """By the reported queue number; if some have none, in the order of their ids, which begins with the primary
    channel."""
    channels = sorted(link.channels, key=lambda channel: channel.id)
    by_queue = {channel.queue: channel for channel in channels if channel.queue is not None}
    if len(by_queue) == len(channels):
        return {number: channel for number, channel in by_queue.items() if number is not None}
    return dict(enumerate(channels))


_NONE = QueuePositions()
