"""A guest under load, as captured from a real probe: the NIC ens256 sends over four queues."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

from nictop.model.queues.plan import queue_plan
from nictop.model.queues.trends import QueueKey, Trends, cpu_busy, queue_rates
from nictop.model.rates.links import CpuShares, Rates
from nictop.model.snapshot import Snapshot, advance
from nictop.model.window import RatesWindow
from nictop.probe.records import Interrupt, Link, Queue
from nictop.tui.widgets.base.line_widget import SpanLine
from tests.support.captured import captured_lines


@lru_cache(maxsize=1)
def loaded_guest() -> tuple[Snapshot, tuple[Rates, ...]]:
    """The last snapshot, and the rates of the last minute."""
    snapshot, window = Snapshot.empty("alma-load-001"), RatesWindow()
    for line in captured_lines("virtio-4-queues"):
        snapshot = advance(snapshot, line)
        window.add(snapshot)
    return snapshot, window.parts


def link_of(snapshot: Snapshot, name: str = "ens256") -> Link:
    return next(link for link in snapshot.links.values() if link.name == name)


def text(lines: list[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def queue_trends(link: Link, snapshot: Snapshot, parts: tuple[Rates, ...] = ()) -> Trends[QueueKey]:
    trends: Trends[QueueKey] = Trends()
    plan = queue_plan(link, snapshot.inventory)
    trends.update(parts, plan, partial(queue_rates, plan, link.ifindex))
    return trends


def cpu_trends(parts: tuple[Rates, ...]) -> Trends[int]:
    trends: Trends[int] = Trends()
    trends.update(parts, None, cpu_busy)
    return trends


def shares(**kinds: float) -> CpuShares:
    values = (
        dict.fromkeys(("user", "system", "irq", "softirq", "steal", "guest", "iowait"), 0.0) | kinds
    )
    return CpuShares(**values, idle=1.0 - sum(values.values()), split=True)


def big_host(queues: int, cpus: int, nodes: dict[int, str] | None = None) -> Snapshot:
    """The guest with as many queues and CPUs as asked for; queue 5 goes to the last CPU, and only
    that one is busy."""
    guest, _ = loaded_guest()
    assert guest.inventory is not None and guest.rates is not None
    interrupts = tuple(
        Interrupt(
            1000 + number,
            (f"virtio2-input.{number}",),
            "0000:03:00.0",
            effective_cpus=str(number % cpus),
        )
        for number in range(queues)
    )
    nic = replace(link_of(guest), queues=tuple(Queue("rx", number) for number in range(queues)))
    links = tuple(nic if one.ifindex == nic.ifindex else one for one in guest.inventory.links)
    platform = replace(guest.inventory.platform, node_cpus=nodes or {})
    inventory = replace(guest.inventory, interrupts=interrupts, links=links, platform=platform)
    irqs: dict[int, dict[int, float]] = {one.number: {} for one in interrupts} | {
        1005: {cpus - 1: 5000.0}
    }
    rates = replace(
        guest.rates,
        interrupts=irqs,
        cpus=dict.fromkeys(range(cpus), shares(user=0.3)),
        queues={},
        driver={},
    )
    return replace(
        guest, inventory=inventory, links={one.ifindex: one for one in links}, rates=rates
    )
