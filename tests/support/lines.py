"""Small literal hosts: a hello, an inventory of plain links, counters."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.probe.records import (
    LINK_COUNTERS,
    Counters,
    Hello,
    Inventory,
    Line,
    Link,
    LinkChange,
    Platform,
)

IFF_UP_RUNNING = 0x11043


def hello() -> Line:
    return Line(
        hello=Hello(
            protocol=1,
            version="0",
            hostname="alma-load-001",
            kernel="6.12",
            machine="x86_64",
            python="3.11",
            pid=1,
            euid=0,
            boot_id="b",
            clock_ticks=100,
            monotonic=0.0,
            wall=0.0,
            interval=1.0,
        )
    )


def link(ifindex: int, name: str, **fields: object) -> Link:
    facts: dict[str, object] = {
        "ifindex": ifindex,
        "name": name,
        "type": 1,
        "flags": IFF_UP_RUNNING,
        "operstate": "up",
        "carrier": True,
        "mtu": 1500,
    }
    return Link(**(facts | fields))  # type: ignore[arg-type]


def inventory(*links: Link, time: float = 0.0) -> Line:
    platform = Platform("kvm", "QEMU", "Standard PC", "Debian", "debian", "0-1", "0-1", "0", 0)
    return Line(inventory=Inventory(time, time, 0.1, "start", platform, (), links))


def counters(
    time: float, links: dict[int, tuple[int, int]], cpus: Iterable[tuple[int, ...]] = ()
) -> Line:
    """`links`: ifindex → (received bytes, sent bytes); one packet per 1000 bytes."""
    values = {}
    for ifindex, (received, sent) in links.items():
        row = dict.fromkeys(LINK_COUNTERS, 0) | {
            "rx_bytes": received,
            "tx_bytes": sent,
            "rx_packets": received // 1000,
            "tx_packets": sent // 1000,
        }
        values[ifindex] = tuple(row.values())
    return Line(counters=Counters(time, values, dict(enumerate(cpus))))


def gone(ifindex: int, name: str, time: float = 1.0) -> Line:
    return Line(link_change=LinkChange(time, ifindex, True, name, "down", None, 0, 1500))


def change(ifindex: int, name: str, *, carrier: bool = True, time: float = 1.0) -> Line:
    state = "up" if carrier else "down"
    return Line(
        link_change=LinkChange(time, ifindex, False, name, state, carrier, IFF_UP_RUNNING, 1500)
    )
