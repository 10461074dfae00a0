"""Text of series that is kept from one scrape to the next is that of the present inventory."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from nictop.metrics.collector import HostCollector
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import (
    QUEUE_COUNTERS,
    Counters,
    Interrupt,
    Inventory,
    Line,
    Queue,
    VirtualFunction,
)
from tests.support.lines import change, counters, gone, hello, inventory, link


def some_inventory(random: Random, time: float) -> Inventory:
    """Some NICs with queues, whose interrupts have other names and queues each time."""
    links = []
    interrupts = []
    for number in range(2, 2 + random.randint(1, 4)):
        name = random.choice((f"ens{number}", f"eth{number}"))
        queues = tuple(Queue("rx", queue) for queue in range(random.randint(1, 3)))
        functions = (VirtualFunction(0, None),) if random.random() < 0.3 else ()
        mtu = random.choice((1500, 9000))
        links.append(
            link(
                number,
                name,
                bus=random.choice(("pci", None)),
                queues=queues,
                mtu=mtu,
                virtual_functions=functions,
            )
        )
        interrupts += [
            Interrupt(10 * number + queue.number, (f"{name}-{random.choice('ab')}",), None)
            for queue in queues
        ]
    known = inventory(*links, time=time).inventory
    assert known is not None
    return replace(known, interrupts=tuple(interrupts))


def some_counters(random: Random, time: float) -> Counters:
    numbers = range(2, 6)
    record = counters(time, {number: (random.randrange(10**6), 5) for number in numbers}).counters
    assert record is not None
    values: tuple[int | None, ...] = tuple(random.randrange(10**6) for _ in QUEUE_COUNTERS)
    queues: dict[int, tuple[tuple[str, int, tuple[int | None, ...]], ...]] = {}
    for number in numbers:
        queues[number] = (("rx", 0, values), ("tx", 1, values))
    interrupts = {10 * number: {0: 5, random.randint(1, 2): 7} for number in numbers}
    return replace(record, queues=queues, interrupts=interrupts)


def some_line(random: Random, time: float) -> Line:
    kind = random.random()
    if kind < 0.2:
        return Line(inventory=some_inventory(random, time))
    if kind < 0.3:
        return change(random.randint(2, 5), "renamed", time=time)
    if kind < 0.4:
        return gone(random.randint(2, 5), "gone", time=time)
    return Line(counters=some_counters(random, time))


@pytest.mark.parametrize("seed", range(20))
def test_the_samples_are_those_of_a_new_collector(seed: int) -> None:
    random = Random(seed)
    snapshot = advance(with_state(Snapshot.empty("vm"), "live", ""), hello())
    kept = HostCollector("vm")
    for step in range(60):
        before = snapshot
        snapshot = advance(snapshot, some_line(random, float(step)))
        assert kept.samples(snapshot, 0.5) == HostCollector("vm").samples(snapshot, 0.5)
        if snapshot.inventory is not None and random.random() < 0.2:  # an equal one
            assert before is not snapshot
            snapshot = advance(snapshot, Line(inventory=replace(snapshot.inventory)))
