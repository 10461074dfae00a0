"""The static part of the queue map, from an inventory: NAPI instance, interrupt and CPUs of each
queue.

Reads nothing. The interrupt of a queue is the one of its NAPI instance (``napi-get``), else the one
whose name contains the queue (`vectors`); a hv_netvsc queue has a vmbus channel instead. Other
interrupts are unmapped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from nictop.model.devices.links import function_of, functions_by_address
from nictop.model.per_inventory import PerInventory
from nictop.model.queues.cpu_lists import parse_cpu_list, parse_cpu_mask
from nictop.model.queues.driver_counters import QueuePositions, Side, link_queue_positions
from nictop.model.queues.vectors import OTHER, Direction, Role, Vector, vectors
from nictop.model.text.words import driver_name
from nictop.probe.light_dataclasses import dataclass, replace
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
    """Those CPUs belong to the NUMA node of the NIC; None: a machine with one node, or the node is
    not known."""


@dataclass(frozen=True)
class PlannedQueue:
    """One queue number of a netdev, both directions."""

    number: int
    has_rx: bool
    has_tx: bool
    """False: there is no such queue. Both False: only an interrupt exists (``ethtool -L`` disabled
    the queue)."""
    napis: tuple[int, ...]
    napi_threads: tuple[int, ...]
    """Threads that poll them (threaded NAPI)."""
    interrupts: tuple[QueueInterrupt, ...]
    channel: Channel | None
    xps: tuple[int, ...] | None
    """CPUs that transmit through this queue; (): transmit packet steering is off. None: not
    settable, or no such queue."""
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
    """Interrupts that serve no queue according to their name: link changes, mailbox,
    configuration."""
    unmapped: tuple[QueueInterrupt, ...]
    """Interrupts that could not be assigned."""


KnownPlans = dict[int, tuple[Link, QueuePlan]]
"""Id of a link → the link, so that its id is unique, and its plan."""


def _no_plans(inventory: Inventory) -> KnownPlans:
    return {}


_plans = PerInventory(_no_plans)
MAX_CACHED_PLANS = 512
"""Plans for each inventory: a link that changes is another object."""


def queue_plan(link: Link, inventory: Inventory | None) -> QueuePlan:
    """The plan of `link`, cached for this link object as long as the inventory object exists."""
    if inventory is None:
        return make_queue_plan(link, None)
    plans = _plans(inventory)
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
    node_cpus = _node_cpus(link, interrupts, inventory)
    # reversed: of two records with one number the first counts
    by_number = {record.number: record for record in reversed(interrupts)}
    queues_of = _queues_by_interrupt(link)
    assigned: list[tuple[int | None, QueueInterrupt]] = []
    for irq, queues in queues_of.items():
        record = by_number.get(irq, Interrupt(irq, (), link.pci_address))
        assigned += _assigned_by_napi(record, queues, node_cpus)
    unassigned = [record for record in interrupts if record.number not in queues_of]
    unmapped = []
    is_shared_function = _shares_event_queues(link, driver, inventory)
    named = _classified(driver, interrupts, unassigned)
    for record, vector in zip(unassigned, named, strict=True):
        if vector is None or (is_shared_function and vector.role == "queue"):
            unmapped.append(_interrupt(record, OTHER, node_cpus))
        else:
            assigned.append((vector.queue, _interrupt(record, vector, node_cpus)))
    positions = link_queue_positions(driver, link, _peer(link, inventory))
    return QueuePlan(
        queues=_planned(link, positions, assigned),
        others=tuple(interrupt for _, interrupt in assigned if interrupt.role != "queue"),
        unmapped=tuple(unmapped),
    )


def _queues_by_interrupt(link: Link) -> dict[int, list[Queue]]:
    """Number of an interrupt → the queues whose NAPI instance it has."""
    napi_irq = {napi.id: napi.irq for napi in link.napis if napi.irq is not None}
    by_irq: dict[int, list[Queue]] = {}
    for queue in link.queues:
        if queue.napi is not None and queue.napi in napi_irq:
            by_irq.setdefault(napi_irq[queue.napi], []).append(queue)
    return by_irq


def _driver(link: Link, inventory: Inventory | None) -> str | None:
    if inventory is None:
        return driver_name(link, None)
    functions = functions_by_address(reversed(inventory.pci))
    return driver_name(link, function_of(link, functions))


def _peer(link: Link, inventory: Inventory | None) -> Link | None:
    """The lower link in this network namespace; for a veth, its other end."""
    if inventory is None or link.lower_namespace is not None:
        return None
    return next((other for other in inventory.links if other.ifindex == link.lower), None)


# --------------------------------------------------------------------------------------- interrupts


def _interrupts_of(
    link: Link, driver: str | None, inventory: Inventory | None
) -> tuple[Interrupt, ...]:
    """Interrupts by PCI function; of xen event channels and platform devices by the name that their
    driver assigns."""
    if inventory is None:
        return ()
    interrupts = inventory.interrupts
    if link.pci_address is not None:
        return tuple(
            interrupt for interrupt in interrupts if interrupt.pci_address == link.pci_address
        )
    if link.device is None:
        return ()
    names = _action_names(link, link.device, driver)
    begins = tuple(f"{name}-" for name in names)
    found = []
    for interrupt in interrupts:
        if interrupt.pci_address is not None:
            continue
        if any(action in names or action.startswith(begins) for action in interrupt.actions):
            found.append(interrupt)
    return tuple(found)


def _action_names(link: Link, device: str, driver: str | None) -> list[str]:
    """Names of a link, with which the handlers of its interrupts begin."""
    names = [link.name, *link.altnames]
    if link.bus == "xen" or driver == "vif":
        # vif-0 on xenbus, vif0-q0-tx in event channels
        names.append(device.replace("vif-", "vif"))
        names.append(re.sub(r"^vif(\d{1,9})-(\d{1,9})$", r"vif\1.\2", device))
    return names


def _shares_event_queues(link: Link, driver: str | None, inventory: Inventory | None) -> bool:
    """Two ports of one mlx4 function share its event queues: which queue of which port uses one is
    known only to mlx4_assign_eq, not visible in its name."""
    if driver not in ("mlx4_en", "mlx4_core") or inventory is None:
        return False
    ports = [other for other in inventory.links if other.pci_address == link.pci_address]
    return any(port.ifindex != link.ifindex for port in ports)


def _classified(
    driver: str | None, all_interrupts: Sequence[Interrupt], unassigned: Sequence[Interrupt]
) -> list[Vector | None]:
    """The vectors of the interrupts in `unassigned` by their names; some names can be interpreted
    only with all names of the device."""
    if driver is None:
        return [None] * len(unassigned)
    actions: list[str] = []
    for interrupt in all_interrupts:
        actions += _actions(interrupt)
    # An INTx line is shared with other devices: their names must not hide that it is the only
    # vector.
    is_only_interrupt = len(all_interrupts) == 1 and len(actions) > 1
    found = iter(vectors(driver, actions))
    by_number: dict[int, Vector | None] = {}
    for interrupt in all_interrupts:
        served = [next(found) for _ in _actions(interrupt)]
        if is_only_interrupt:
            served += [vectors(driver, [action])[0] for action in interrupt.actions]
        by_number[interrupt.number] = _deciding(served)
    return [by_number[interrupt.number] for interrupt in unassigned]


def _actions(interrupt: Interrupt) -> Sequence[str]:
    """Names of its handlers, at least one."""
    return interrupt.actions or ("",)


def _deciding(found: Sequence[Vector | None]) -> Vector | None:
    """The first one of a queue, else the first one."""
    known = [vector for vector in found if vector is not None]
    of_queues = [vector for vector in known if vector.role == "queue"]
    return next(iter([*of_queues, *known]), None)


def _assigned_by_napi(
    record: Interrupt, queues: Sequence[Queue], node_cpus: frozenset[int] | None
) -> list[tuple[int | None, QueueInterrupt]]:
    sides: dict[int, set[Direction]] = {}
    for queue in queues:
        sides.setdefault(queue.number, set()).add(queue.direction)
    result: list[tuple[int | None, QueueInterrupt]] = []
    for number, directions in sides.items():
        direction: Direction = "both"
        if len(directions) == 1:
            (direction,) = directions
        interrupt = _interrupt(record, Vector(direction, number, "queue"), node_cpus)
        result.append((number, replace(interrupt, shared=len(sides) > 1)))
    return result


def _interrupt(
    record: Interrupt, vector: Vector, node_cpus: frozenset[int] | None
) -> QueueInterrupt:
    allowed, effective = parse_cpu_list(record.allowed_cpus), parse_cpu_list(record.effective_cpus)
    cpus = effective or allowed
    local = None
    if cpus and node_cpus is not None:
        local = node_cpus.issuperset(cpus)
    return QueueInterrupt(
        number=record.number,
        name=", ".join(record.actions),
        direction=vector.direction,
        role=vector.role,
        shared=vector.role == "queue" and vector.queue is None,
        allowed=allowed,
        effective=effective,
        local=local,
    )


def _node_cpus(
    link: Link, interrupts: Sequence[Interrupt], inventory: Inventory | None
) -> frozenset[int] | None:
    """CPUs of the NUMA node of the NIC; None with a single node, or when the node is not known."""
    if inventory is None or len(inventory.platform.node_cpus) < 2:
        return None
    node = _numa_node(link, interrupts, inventory)
    if node is None:
        return None
    cpus = parse_cpu_list(inventory.platform.node_cpus.get(node))
    if not cpus:
        return None
    return frozenset(cpus)


def _numa_node(link: Link, interrupts: Sequence[Interrupt], inventory: Inventory) -> int | None:
    """That of the PCI function of the NIC, else of the first of its interrupts that has one."""
    for function in inventory.pci:
        if function.address == link.pci_address and function.numa_node is not None:
            return function.numa_node
    for interrupt in interrupts:
        if interrupt.numa_node is not None:
            return interrupt.numa_node
    return None


# ------------------------------------------------------------------------------------------- queues


def _planned(
    link: Link,
    positions: Mapping[tuple[Side, int], QueuePositions],
    assigned: Sequence[tuple[int | None, QueueInterrupt]],
) -> tuple[PlannedQueue, ...]:
    """By number: queues of the link, else those that the driver counts, else one if there is an
    interrupt; and those that have an interrupt or a channel of their own."""
    own, shared = _interrupts_of_queues(assigned)
    sides = {(queue.direction, queue.number): queue for queue in link.queues}
    existing: Collection[tuple[Side, int]] = sides or positions
    numbers = {number for _, number in existing}
    if shared and not numbers:
        numbers = {0}
    channels = _channels_by_queue(link)
    all_numbers = sorted(numbers | own.keys() | channels.keys())
    if len(all_numbers) == 1:
        shared = [replace(interrupt, shared=False) for interrupt in shared]
    threads = {napi.id: napi.thread for napi in link.napis if napi.thread is not None}
    result = []
    for number in all_numbers:
        rx, tx = sides.get(("rx", number)), sides.get(("tx", number))
        napis = _napis(rx, tx)
        interrupts = [*own.get(number, ()), *shared]
        interrupts.sort(key=attrgetter("number"))
        result.append(
            PlannedQueue(
                number=number,
                has_rx=("rx", number) in existing,
                has_tx=("tx", number) in existing,
                napis=napis,
                napi_threads=tuple(threads[napi] for napi in napis if napi in threads),
                interrupts=tuple(interrupts),
                channel=channels.get(number),
                xps=_xps_cpus(tx),
                rps=_rps_cpus(rx),
                rps_flow_count=_rps_flow_count(rx),
                rx_positions=positions.get(("rx", number), _NONE),
                tx_positions=positions.get(("tx", number), _NONE),
            )
        )
    return tuple(result)


def _xps_cpus(tx: Queue | None) -> tuple[int, ...] | None:
    if tx is None:
        return None
    return parse_cpu_mask(tx.xps_cpus)


def _rps_cpus(rx: Queue | None) -> tuple[int, ...] | None:
    if rx is None:
        return None
    return parse_cpu_mask(rx.rps_cpus)


def _rps_flow_count(rx: Queue | None) -> int | None:
    if rx is None:
        return None
    return rx.rps_flow_count


def _interrupts_of_queues(
    assigned: Sequence[tuple[int | None, QueueInterrupt]],
) -> tuple[dict[int, list[QueueInterrupt]], list[QueueInterrupt]]:
    """Queue number → its own interrupts; and those that serve all queues."""
    own: dict[int, list[QueueInterrupt]] = {}
    shared: list[QueueInterrupt] = []
    for number, interrupt in assigned:
        if interrupt.role != "queue":
            continue
        if number is None:
            shared.append(interrupt)
        else:
            own.setdefault(number, []).append(interrupt)
    return own, shared


def _napis(rx: Queue | None, tx: Queue | None) -> tuple[int, ...]:
    """NAPI instances of both directions, each once."""
    napis: dict[int, None] = {}
    for queue in (rx, tx):
        if queue is not None and queue.napi is not None:
            napis[queue.napi] = None
    return tuple(napis)


def _channels_by_queue(link: Link) -> dict[int, Channel]:
    """By the reported queue number; if some have none, in the order of their ids, which begins with
    the primary channel."""
    channels = sorted(link.channels, key=attrgetter("id"))
    by_queue: dict[int, Channel] = {}
    for channel in channels:
        if channel.queue is not None:
            by_queue[channel.queue] = channel
    if len(by_queue) < len(channels):
        return dict(enumerate(channels))
    return by_queue


_NONE = QueuePositions()
