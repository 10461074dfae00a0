"""The part of the queue map that an inventory fixes: which queue has which NAPI instance, interrupt and CPUs.

Reads nothing. The interrupt of a queue is the one that its NAPI instance names (``napi-get``), else the one whose name
says so (`vectors`); a hv_netvsc queue has a vmbus channel instead. What no source explains is kept as unmapped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nictop.model.queues.cpu_lists import parse_cpu_list, parse_cpu_mask
from nictop.model.queues.driver_counters import QueuePositions, Side, link_queue_positions
from nictop.model.queues.vectors import OTHER, Direction, Role, Vector, vectors
from nictop.model.text.words import driver_name
from nictop.probe.records import Channel, Interrupt, Inventory, Link, Queue


@dataclass(frozen=True)
class QueueInterrupt:
    """An interrupt of a netdev, and what it serves."""

    number: int
    name: str
    """As its driver named it; several handlers are joined by commas, "" when nobody says."""
    direction: Direction
    role: Role
    shared: bool
    """It serves every queue of the netdev: its rate is not the rate of any one of them."""
    allowed: tuple[int, ...] | None
    """CPUs, smp_affinity_list. None: not known."""
    effective: tuple[int, ...] | None
    """CPUs it really goes to, effective_affinity_list."""
    local: bool | None
    """Those CPUs belong to the NUMA node of the NIC; None: a machine of one node, or the node is not known."""


@dataclass(frozen=True)
class PlannedQueue:
    """One queue number of a netdev, both directions."""

    number: int
    has_rx: bool
    has_tx: bool
    """False: there is no such queue; both: only an interrupt is left of it (``ethtool -L`` took it out of use)."""
    napis: tuple[int, ...]
    napi_threads: tuple[int, ...]
    """Threads that poll them (threaded NAPI)."""
    interrupts: tuple[QueueInterrupt, ...]
    channel: Channel | None
    xps: tuple[int, ...] | None
    """CPUs that transmit by this queue; (): transmit packet steering is off. None: not settable, or no such queue."""
    rps: tuple[int, ...] | None
    """CPUs that this queue's packets are handed to; (): receive packet steering is off."""
    rps_flow_count: int | None
    rx_positions: QueuePositions
    tx_positions: QueuePositions


@dataclass(frozen=True)
class QueuePlan:
    """All of one netdev."""

    queues: tuple[PlannedQueue, ...]
    """By number."""
    others: tuple[QueueInterrupt, ...]
    """Interrupts that serve no queue by their name: link changes, mailbox, configuration."""
    unmapped: tuple[QueueInterrupt, ...]
    """Interrupts that no source explains."""


_plans: dict[tuple[int, int], tuple[Inventory | None, Link, QueuePlan]] = {}
MOST_PLANS = 64
"""Plans kept; a plan is remade when its link or its inventory is another object."""


def queue_plan(link: Link, inventory: Inventory | None) -> QueuePlan:
    """The plan of `link`, made once for this inventory and this state of the link."""
    key = (id(link), id(inventory))
    known = _plans.get(key)
    if known is not None:
        return known[2]  # both objects are held there, so that no other one can have these ids
    plan = make_queue_plan(link, inventory)
    while len(_plans) >= MOST_PLANS:
        del _plans[next(iter(_plans))]
    _plans[key] = (inventory, link, plan)
    return plan


def make_queue_plan(link: Link, inventory: Inventory | None) -> QueuePlan:
    """The same, always made anew."""
    driver = _driver(link, inventory)
    interrupts = _interrupts_of(link, driver, inventory)
    napi_irq = {napi.id: napi.irq for napi in link.napis if napi.irq is not None}
    near = _near_cpus(link, interrupts, inventory)
    by_napi: dict[int, list[Queue]] = {}
    for queue in link.queues:
        irq = napi_irq.get(queue.napi) if queue.napi is not None else None
        if irq is not None:
            by_napi.setdefault(irq, []).append(queue)
    placed: list[tuple[int | None, QueueInterrupt]] = []
    left = [one for one in interrupts if one.number not in by_napi]
    for irq, queues in by_napi.items():
        record = next((one for one in interrupts if one.number == irq), Interrupt(irq, (), link.pci_address))
        placed += _placed_by_napi(record, queues, near)
    unmapped = []
    mixed = _ports_are_mixed(link, driver, inventory)
    for record, found in zip(left, _classified(driver, interrupts, left), strict=True):
        if found is None or (mixed and found.role == "queue"):
            unmapped.append(_interrupt(record, OTHER, near))
        else:
            placed.append((found.queue, _interrupt(record, found, near)))
    return QueuePlan(
        queues=_planned(link, link_queue_positions(driver, link, _peer(link, inventory)), placed),
        others=tuple(one for _, one in placed if one.role != "queue"),
        unmapped=tuple(unmapped),
    )


def _driver(link: Link, inventory: Inventory | None) -> str | None:
    functions = inventory.pci if inventory is not None else ()
    pci = next((one for one in functions if one.address == link.pci_address), None)
    return driver_name(link, pci)


def _peer(link: Link, inventory: Inventory | None) -> Link | None:
    """The link below in this network namespace, which for a veth is its other end."""
    if inventory is None or link.lower_namespace is not None:
        return None
    return next((one for one in inventory.links if one.ifindex == link.lower), None)


# ------------------------------------------------------------------------------------------------------- interrupts


def _interrupts_of(link: Link, driver: str | None, inventory: Inventory | None) -> tuple[Interrupt, ...]:
    """By PCI function; xen event channels and platform devices by the name that their driver gives them."""
    if inventory is None:
        return ()
    if link.pci_address is not None:
        return tuple(one for one in inventory.interrupts if one.pci_address == link.pci_address)
    if link.device is None:
        return ()
    names = [link.name, *link.altnames]
    if link.bus == "xen" or driver == "vif":
        names.append(link.device.replace("vif-", "vif"))  # xenbus calls it vif-0, its event channels vif0-q0-tx
        names.append(re.sub(r"^vif(\d{1,9})-(\d{1,9})$", r"vif\1.\2", link.device))
    begins = tuple(f"{name}-" for name in names)
    return tuple(
        one
        for one in inventory.interrupts
        if one.pci_address is None and any(action in names or action.startswith(begins) for action in one.actions)
    )


def _ports_are_mixed(link: Link, driver: str | None, inventory: Inventory | None) -> bool:
    """Two ports of one mlx4 function share its event queues: which one serves which port's queue, mlx4_assign_eq knows
    and no name tells."""
    if driver not in ("mlx4_en", "mlx4_core") or inventory is None:
        return False
    return any(other.ifindex != link.ifindex and other.pci_address == link.pci_address for other in inventory.links)


def _classified(driver: str | None, all_of_them: Sequence[Interrupt], left: Sequence[Interrupt]) -> list[Vector | None]:
    """What each of `left` serves by its name; the names of all are needed to read some."""
    if driver is None:
        return [None for _ in left]
    actions = [action for one in all_of_them for action in one.actions or ("",)]
    # An INTx line is shared with strangers: their names must not keep a sole vector from being recognised.
    alone = len(all_of_them) == 1 and len(actions) > 1
    found = iter(vectors(driver, actions))
    by_number: dict[int, Vector | None] = {}
    for one in all_of_them:
        served = [next(found) for _ in one.actions or ("",)]
        if alone:
            served += [vectors(driver, [action])[0] for action in one.actions]
        known = [vector for vector in served if vector is not None]
        by_number[one.number] = next((vector for vector in known if vector.role == "queue"), next(iter(known), None))
    return [by_number[one.number] for one in left]


def _placed_by_napi(
    record: Interrupt, queues: Sequence[Queue], near: frozenset[int] | None
) -> list[tuple[int | None, QueueInterrupt]]:
    directions: dict[int, set[str]] = {}
    for queue in queues:
        directions.setdefault(queue.number, set()).add(queue.direction)
    result: list[tuple[int | None, QueueInterrupt]] = []
    for number, both in directions.items():
        direction: Direction = "both" if len(both) == 2 else ("rx" if "rx" in both else "tx")
        one = _interrupt(record, Vector(direction, number, "queue"), near)
        result.append((number, replace(one, shared=len(directions) > 1)))
    return result


def _interrupt(record: Interrupt, found: Vector, near: frozenset[int] | None) -> QueueInterrupt:
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
        local=near.issuperset(cpus) if near is not None and cpus else None,
    )


def _near_cpus(link: Link, interrupts: Sequence[Interrupt], inventory: Inventory | None) -> frozenset[int] | None:
    """CPUs of the NUMA node that the NIC is attached to; None where there is nothing to be far from."""
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
    placed: Sequence[tuple[int | None, QueueInterrupt]],
) -> tuple[PlannedQueue, ...]:
    queues = {(queue.direction, queue.number): queue for queue in link.queues}
    of_all = [one for number, one in placed if number is None and one.role == "queue"]
    own: dict[int, list[QueueInterrupt]] = {}
    for number, one in placed:
        if number is not None and one.role == "queue":
            own.setdefault(number, []).append(one)
    numbers = {queue.number for queue in link.queues} or {number for _, number in positions} or {0 for _ in of_all[:1]}
    threads = {napi.id: napi.thread for napi in link.napis}
    channels = _channels_by_queue(link)
    every = sorted(numbers | own.keys() | channels.keys())
    if len(every) == 1:
        of_all = [replace(one, shared=False) for one in of_all]
    result = []
    for number in every:
        rx, tx = queues.get(("rx", number)), queues.get(("tx", number))
        napis = tuple(dict.fromkeys(queue.napi for queue in (rx, tx) if queue is not None and queue.napi is not None))
        result.append(
            PlannedQueue(
                number=number,
                has_rx=rx is not None or (not queues and ("rx", number) in positions),
                has_tx=tx is not None or (not queues and ("tx", number) in positions),
                napis=napis,
                napi_threads=tuple(thread for thread in map(threads.get, napis) if thread is not None),
                interrupts=tuple(sorted([*own.get(number, ()), *of_all], key=lambda one: one.number)),
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
    """By the queue number that they tell; where not all do, the primary one first, then as they were offered."""
    channels = sorted(link.channels, key=lambda channel: channel.id)
    told = {channel.queue: channel for channel in channels if channel.queue is not None}
    if len(told) == len(channels):
        return {number: channel for number, channel in told.items() if number is not None}
    return dict(enumerate(channels))


_NONE = QueuePositions()
