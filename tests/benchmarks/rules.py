"""All rules over a large host: 200 links, one of them with 64 queues, a minute of rates."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import (
    CPU_TIMES,
    LINK_COUNTERS,
    Address,
    Channels,
    Counters,
    DriverInfo,
    Ethtool,
    Feature,
    Hello,
    Interrupt,
    Inventory,
    Line,
    Link,
    LinkSettings,
    PciFunction,
    Platform,
    Queue,
    Rings,
    Rss,
)
from nictop.rules import RULES, Watched, diagnose
from tests.benchmarks.results import Result

LINKS, QUEUES, CPUS, SECONDS = 200, 64, 64, 60
BOUND = 10
"""Milliseconds."""
FEATURES = ("rx-checksum", "tx-checksum-ip-generic", "tx-scatter-gather", "tx-tcp-segmentation", "rx-gro")


def all_rules(quick: bool) -> Iterator[Result]:
    host = large_host()
    findings = diagnose([host]).findings
    if findings:
        raise RuntimeError(f"the host is healthy, and nictop says: {[(one.rule, one.subject) for one in findings]}")
    rounds = 5 if quick else 30
    seconds = [cpu_seconds(host) for _ in range(rounds)]
    what = f"all {len(RULES)} rules, {LINKS} links, {QUEUES} queues, {SECONDS} s of rates"
    yield Result(what, statistics.median(seconds) * 1e3, BOUND, "ms CPU")
    costs = {}
    for rule in RULES.values():
        costs[rule.name] = statistics.median(cpu_seconds(host, rule.name) for _ in range(3))
    for name in sorted(costs, key=lambda name: -costs[name])[:3]:
        yield Result(f"… of these {name}", costs[name] * 1e3, None, "ms CPU")


def cpu_seconds(host: Watched, rule: str | None = None) -> float:
    """Of one diagnosis; what rules derive together is derived anew, as it is for every new snapshot."""
    fresh = Watched(host.snapshot, host.window)
    begin = time.process_time()
    diagnose([fresh], None if rule is None else [RULES[rule]])
    return time.process_time() - begin


def large_host() -> Watched:
    hello = Hello(1, "0", "large", "6.12.0", "x86_64", "3.11", 1, 0, "b", 100, 0.0, 0.0, 1.0)
    snapshot = with_state(Snapshot.empty("large"), "live", "")
    snapshot = advance(advance(snapshot, Line(hello=hello)), Line(inventory=inventory()))
    window = []
    for second in range(SECONDS + 1):
        snapshot = advance(snapshot, Line(counters=counters(second)))
        if snapshot.rates is not None:
            window.append(snapshot.rates)
    return Watched(snapshot, tuple(window))


def inventory() -> Inventory:
    platform = Platform(
        None, "Dell Inc.", "PowerEdge", "Debian 12", "debian", f"0-{CPUS - 1}", f"0-{CPUS - 1}", "0", 90
    )
    function = PciFunction("0000:3b:00.0", 0x020000, 0x8086, 0x159B, None, None, 2, driver="ice", enabled=True)
    interrupts = tuple(
        Interrupt(100 + number, (f"ice-ens1-TxRx-{number}",), function.address, None, str(number), str(number))
        for number in range(QUEUES)
    )
    links = (nic(function.address), *(container_end(number) for number in range(3, LINKS + 2)))
    return Inventory(3600.0, 0.0, 0.1, "start", platform, (function,), links, interrupts)


def nic(pci_address: str) -> Link:
    queues = [Queue("rx", number, rps_cpus="0") for number in range(QUEUES)]
    queues += [Queue("tx", number, xps_cpus=f"{1 << number % 32:x}") for number in range(QUEUES)]
    return Link(
        ifindex=2,
        name="ens1",
        type=1,
        flags=0x11043,
        operstate="up",
        carrier=True,
        mtu=1500,
        carrier_changes=2,
        address="02:00:00:00:00:02",
        permanent_address="02:00:00:00:00:02",
        address_assignment="permanent",
        bus="pci",
        device=pci_address,
        pci_address=pci_address,
        addresses=(Address("ipv4", "192.0.2.1", 24, "global", ("permanent",)),),
        queues=tuple(queues),
        ethtool=Ethtool(
            driver=DriverInfo("ice", "", "", pci_address),
            settings=LinkSettings(25000, "full", False, "da", "internal"),
            channels=Channels(None, None, None, QUEUES, None, None, None, QUEUES),
            rings=Rings(2048, None, None, 2048, 8160, None, None, 8160),
            features=tuple(Feature(name, active=True, wanted=True, fixed=False) for name in FEATURES),
            rss=Rss(tuple(number % QUEUES for number in range(512)), "toeplitz", 52),
        ),
    )


def container_end(ifindex: int) -> Link:
    driver = DriverInfo("veth", "", "", "")
    return replace(
        Link(ifindex, f"veth{ifindex}", 1, 0x11043, "up", True, 1500, kind="veth"),
        address=f"02:00:00:00:{ifindex >> 8:02x}:{ifindex & 255:02x}",
        queues=(Queue("rx", 0, rps_cpus="0"), Queue("tx", 0)),
        ethtool=Ethtool(driver=driver, settings=LinkSettings(10000, "full", False, "tp", "internal")),
    )


def counters(second: int) -> Counters:
    """A busy hour: the NIC carries 200,000 packets per second over all of its queues."""
    traffic = {"rx_packets": 100_000, "tx_packets": 100_000, "rx_bytes": 100_000_000, "tx_bytes": 100_000_000}
    busy = tuple(traffic.get(name, 0) * second for name in LINK_COUNTERS)
    quiet = tuple(value // 1000 for value in busy)
    times = {"user": 20, "system": 5, "softirq": 10, "idle": 65}
    return Counters(
        time=float(second),
        links={2: busy, **dict.fromkeys(range(3, LINKS + 2), quiet)},
        cpus={cpu: tuple(times.get(name, 0) * second for name in CPU_TIMES) for cpu in range(CPUS)},
        interrupts={100 + number: {number: 900 * second} for number in range(QUEUES)},
        softirqs=dict.fromkeys(range(CPUS), (10 * second, 900 * second)),
        softnet=dict.fromkeys(range(CPUS), (3000 * second, 0, 0, 0, 0)),
    )
