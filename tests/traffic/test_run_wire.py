"""The ceiling formula compared with real runs over veths whose shaper counts every byte of a frame,
also the gap."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nictop.model.devices.ceiling import goodput
from nictop.traffic.analysis.framing import run_framing
from nictop.traffic.plan.plan import RunPlan
from tests.support.namespaces import Namespace
from tests.traffic.pair import Pair, add_veth, followed, missing_requirement, namespaces, source
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

RATE = 4_000_000
"""Bits per second: slow enough for packets of 100 bytes on a busy machine."""
TOLERANCE = 0.01
IDLE_TOLERANCE = 0.03
"""Allowed shortfall: a sender that is not scheduled in time leaves the wire idle."""
BURST_SECONDS = 0.05
"""Seconds of credit of the shaper (burst): a sender that is late by less catches up. The credit is
spent in the omitted seconds."""
WINDOW_BYTES = 65536
"""Bytes in flight: enough to keep the wire busy, and too few to fill its queue, so that nothing is
retransmitted."""
UNCOUNTED_BYTES = 24
"""Bytes of a frame that a netdev does not count: preamble, FCS and gap."""

WIRES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("IPv4", {}),
    ("IPv6", {}),
    ("IPv4", {"mss": 100}),
    ("IPv6", {"mss": 500}),
    ("IPv4", {"mtu": 9000}),
    ("IPv4", {"protocol": "udp", "length": 1448}),
    ("IPv6", {"protocol": "udp", "length": 600}),
    ("IPv4", {"generator": "builtin"}),
)
"""Each over its own veth between the same two hosts."""


def shape_link(namespace: Namespace, wire: str, mtu: int) -> None:
    """Shape a veth: packets are not segmented later, and count as long as on Ethernet."""
    namespace.run(["ip", "link", "set", wire, "gso_max_segs", "1", "mtu", str(mtu)])
    namespace.run(
        ["tc", "qdisc", "add", "dev", wire, "root", "handle", "1:", "htb", "default", "1"]
    )
    options = [
        "rate",
        f"{RATE}bit",
        "ceil",
        f"{RATE}bit",
        "overhead",
        str(UNCOUNTED_BYTES),
        "mpu",
        "84",
    ]
    burst = str(int(RATE / 8 * BURST_SECONDS))
    options += ["burst", burst, "cburst", burst]
    namespace.run(
        ["tc", "class", "add", "dev", wire, "parent", "1:", "classid", "1:1", "htb", *options]
    )
    namespace.run(["tc", "qdisc", "add", "dev", wire, "parent", "1:1", "pfifo", "limit", "1000"])


def wire_plan(both: Pair, number: int, version: str, options: dict[str, Any]) -> RunPlan:
    wire = f"nictopt{number}"
    addresses = (
        (f"198.18.{number}.1", f"198.18.{number}.2")
        if version == "IPv4"
        else (f"fd00:{number}::1", f"fd00:{number}::2")
    )
    client, server = (
        both.endpoint(host, wire, one) for host, one in zip("ab", addresses, strict=True)
    )
    options = {name: value for name, value in options.items() if name != "mtu"}
    if options.get("protocol") == "udp":
        options["bitrate"] = RATE
    else:
        options |= {"window": WINDOW_BYTES}
    return RunPlan(client, server, time=5, omit=1, interval=0.5, port=5210 + 10 * number, **options)


async def test_goodput_equals_the_ceiling_of_the_wire() -> None:
    with namespaces() as (client, server):
        for number, (_, options) in enumerate(WIRES):
            add_veth(client, server, wire=f"nictopt{number}", net=number)
            for namespace in (client, server):
                shape_link(namespace, f"nictopt{number}", options.get("mtu", 1500))
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            plans = [wire_plan(both, number, *wire) for number, wire in enumerate(WIRES)]
            runs = await asyncio.gather(*(complete_run(both, plan=plan) for plan in plans))
            snapshots = {name: host.snapshot for name, host in both.hosts.items()}
    found = {}
    for wire, plan, (result, _) in zip(WIRES, plans, runs, strict=True):
        assert result.failure is None and result.goodput is not None, (wire, result.failure)
        found[str(wire)] = result.goodput / goodput(RATE, run_framing(plan, snapshots))
    within = {wire: -IDLE_TOLERANCE <= share - 1 <= TOLERANCE for wire, share in found.items()}
    assert all(within.values()), found
