"""CPU time of a scrape of `nictop metrics`: 16 hosts with 30 NICs of 8 queues, compared with
prometheus-client."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from nictop.metrics.catalogue import METRICS
from nictop.metrics.collector import HostCollector
from nictop.metrics.exposition import exposition_text, gzip_body
from nictop.metrics.series import Sample
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import (
    CPU_TIMES,
    LINK_COUNTERS,
    Counters,
    Hello,
    Interrupt,
    Inventory,
    Line,
    PciFunction,
)
from tests.benchmarks.results import Result
from tests.benchmarks.rules import PLATFORM, nic, numbered

HOSTS, NICS, QUEUES, CPUS = 16, 30, 8, 16
LABEL = re.compile(r'(\w+)="([^"]*)"')
BOUND, AFTER_BOUND = 40, 150
"""Milliseconds."""


def scrape(quick: bool) -> Iterator[Result]:
    """Every host has new values for every scrape; the first scrapes, and those after an inventory,
    are separate."""
    rounds = 5 if quick else 20
    hosts = [
        (HostCollector(f"host{number}"), large_host(f"host{number}")) for number in range(HOSTS)
    ]
    first = once(hosts, 1)[0]
    costs = [once(hosts, second) for second in range(2, rounds + 2)]
    lines = costs[-1][1].count(b"\n")
    renewed = [
        (collector, advance(snapshot, Line(inventory=inventory(snapshot.host))))
        for collector, snapshot in hosts
    ]
    after = once(renewed, rounds + 2)[0]
    changed = [
        (collector, advance(snapshot, Line(inventory=inventory(snapshot.host, mtu=9000))))
        for collector, snapshot in hosts
    ]
    after_change = once(changed, rounds + 3)[0]
    registry = CollectorRegistry()
    registry.register(SameSeries(list(samples(hosts, 2))))
    peer = []
    for _ in range(2 if quick else 5):
        start = time.process_time()
        generate_latest(registry)  # type: ignore[no-untyped-call]
        peer.append(time.process_time() - start)
    ours = statistics.median(cost for cost, _ in costs)
    what = f"metrics: scrape of {HOSTS} hosts × {NICS} NICs × {QUEUES} queues"
    yield Result(what, ours * 1e3, BOUND, "ms CPU")
    yield Result("… lines of it", lines, None, "lines")
    yield Result("… its size", len(costs[-1][1]) / 1e6, None, "MB")
    yield Result(
        "… beside generate_latest of the same series, made before",
        ours / statistics.median(peer),
        0.5,
        "times",
    )
    yield Result("… the first one", first * 1e3, None, "ms CPU")
    yield Result("… the one after new inventories of all hosts", after * 1e3, 70, "ms CPU")
    what = "… after new inventories with another MTU of each NIC"
    yield Result(what, after_change * 1e3, AFTER_BOUND, "ms CPU")


def once(hosts: list[tuple[HostCollector, Snapshot]], second: int) -> tuple[float, bytes]:
    """CPU seconds of one response including its compression, and the response."""
    received = [
        (collector, advance(snapshot, Line(counters=counters(second))))
        for collector, snapshot in hosts
    ]
    start = time.process_time()
    samples_of_all = (
        sample for collector, snapshot in received for sample in collector.samples(snapshot, 0.5)
    )
    answer = exposition_text(samples_of_all, openmetrics=True)
    gzip_body(answer)
    return time.process_time() - start, answer


def samples(hosts: list[tuple[HostCollector, Snapshot]], second: int) -> Iterator[Sample]:
    for collector, snapshot in hosts:
        yield from collector.samples(advance(snapshot, Line(counters=counters(second))), 0.5)


class SameSeries(Collector):
    """The same samples as families of prometheus-client, prepared in advance: only its text output
    is measured."""

    def __init__(self, wanted: list[Sample]) -> None:
        self._families = [Metric(one.name, one.help, one.kind, one.unit) for one in METRICS]
        for place, beginning, value in wanted:
            name, _, labels = beginning.removesuffix("} ").partition("{")
            self._families[place].add_sample(name, dict(LABEL.findall(labels)), value)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def large_host(name: str) -> Snapshot:
    hello = Hello(1, "0", name, "6.12.0", "x86_64", "3.11", 1, 0, "b", 100, 0.0, 0.0, 1.0)
    snapshot = with_state(Snapshot.empty(name), "live", "")
    return advance(advance(snapshot, Line(hello=hello)), Line(inventory=inventory(name)))


def inventory(name: str, *, mtu: int = 1500) -> Inventory:
    first = nic("0000:02:00.0")
    one = replace(
        first, mtu=mtu, queues=tuple(queue for queue in first.queues if queue.number < QUEUES)
    )
    links = tuple(numbered(one, ifindex) for ifindex in range(2, NICS + 2))
    functions = tuple(
        PciFunction(
            str(link.pci_address),
            0x020000,
            0x8086,
            0x159B,
            None,
            None,
            2,
            driver="ice",
            enabled=True,
        )
        for link in links
    )
    interrupts = tuple(
        Interrupt(100 * link.ifindex + queue, (f"ice-{link.name}-TxRx-{queue}",), link.pci_address)
        for link in links
        for queue in range(QUEUES)
    )
    return Inventory(
        3600.0, 0.0, 0.1, "start", replace(PLATFORM, hypervisor=name), functions, links, interrupts
    )


def counters(second: int) -> Counters:
    """Every value changes."""
    queue = tuple(1_000_000 + second for _ in range(6))
    queues = tuple((side, number, queue) for side in ("rx", "tx") for number in range(QUEUES))
    ifindexes = range(2, NICS + 2)
    return Counters(
        time=3600.0 + second,
        links=dict.fromkeys(ifindexes, tuple(1_000_000_000_000 + second for _ in LINK_COUNTERS)),
        cpus={cpu: tuple(1000 * second + cpu for _ in CPU_TIMES) for cpu in range(CPUS)},
        queues=dict.fromkeys(ifindexes, queues),
        interrupts={
            100 * ifindex + number: {number: 900 * second}
            for ifindex in ifindexes
            for number in range(QUEUES)
        },
        softirqs=dict.fromkeys(range(CPUS), (10 * second, 900 * second)),
        softnet=dict.fromkeys(range(CPUS), (3000 * second, 0, 0, 0, 0)),
    )
