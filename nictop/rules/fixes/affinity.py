"""Which CPU each interrupt of a NIC is assigned to, and the commands that set and restore it. Pure.

Both directions of a queue are assigned to one CPU, queue after queue. One by one, drivers with an
interrupt for each direction (virtio_net, igbvf) would receive on every second CPU only. Interrupts
that serve no queue (link changes, mailbox, configuration) are rare and are not moved. Where neither
a name nor a NAPI instance identifies the queues, interrupts are assigned one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.queues.plan import queue_plan
from nictop.probe.records import Interrupt, Link
from nictop.rules.fixes.commands import Command, echo
from nictop.rules.host import HostFacts


def interrupt_cpus(host: HostFacts, link: Link, cpus: Sequence[int]) -> dict[int, int]:
    """Number of an interrupt → its one of `cpus`; {}: no interrupt of the NIC can be moved."""
    if is_assigned_by_kernel(host, link):
        return {}
    return {number: cpus[place % len(cpus)] for number, place in _positions(host, link).items()}


def is_assigned_by_kernel(host: HostFacts, link: Link) -> bool:
    """Whether user space cannot move the interrupts of the queues: see `Interrupt.movable`. Those
    that serve no queue can often be moved (pre_vectors and post_vectors of `struct irq_affinity`),
    which gains nothing."""
    return any(interrupt.movable is False for interrupt in _interrupts_of_queues(host, link))


def is_spread_by_kernel(host: HostFacts, link: Link) -> bool:
    """Whether the interrupts of the queues have different CPUs, as irq_create_affinity_masks
    (kernel/irq/affinity.c) assigns them; all the same where the interrupt controller cannot move
    any."""
    return len({interrupt.allowed_cpus for interrupt in _interrupts_of_queues(host, link)}) > 1


def is_known_to_be_movable(host: HostFacts, link: Link) -> bool:
    """False: some may be managed by the kernel, which this kernel does not show."""
    return all(interrupt.movable is True for interrupt in _interrupts_of_queues(host, link))


def affinity_commands(places: Mapping[int, int]) -> tuple[Command, ...]:
    """The commands that move the interrupts."""
    return tuple(_assign(number, cpu) for number, cpu in places.items())


def _assign(number: int, cpus: int | str) -> Command:
    return echo(cpus, f"/proc/irq/{number}/smp_affinity_list")


def affinity_undo(host: HostFacts, link: Link, places: Mapping[int, int]) -> tuple[Command, ...]:
    """The commands that restore the present affinity."""
    allowed = {
        interrupt.number: interrupt.allowed_cpus or "" for interrupt in _interrupts(host, link)
    }
    return tuple(_assign(number, allowed[number]) for number in places)


def _interrupts(host: HostFacts, link: Link) -> Sequence[Interrupt]:
    return host.interrupts_of(link)


def _interrupts_of_queues(host: HostFacts, link: Link) -> list[Interrupt]:
    positions = _positions(host, link)
    return [interrupt for interrupt in _interrupts(host, link) if interrupt.number in positions]


def _positions(host: HostFacts, link: Link) -> dict[int, int]:
    """Number of an interrupt → the index of its queue among those in use; its own index where no
    queue is known."""
    numbers = [
        interrupt.number
        for interrupt in _interrupts(host, link)
        if parse_cpu_list(interrupt.allowed_cpus)
    ]
    found = _queue_positions(host, link, numbers)
    return found or {number: place for place, number in enumerate(numbers)}


def _queue_positions(host: HostFacts, link: Link, numbers: Sequence[int]) -> dict[int, int]:
    """Number of an interrupt → the index of its queue among those in use."""
    queues = queue_plan(link, host.inventory).queues
    used = [queue for queue in queues if queue.has_rx or queue.has_tx]
    found: dict[int, int] = {}
    for place, queue in enumerate(used):
        for interrupt in queue.interrupts:
            found.setdefault(interrupt.number, place)
    return {number: found[number] for number in numbers if number in found}
