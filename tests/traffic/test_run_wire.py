"""The formula of the ceiling beside real runs over wires that charge for every byte of a frame, its gap included."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nictop.model.devices.ceiling import goodput
from nictop.traffic.analysis.assemble import run_framing
from nictop.traffic.plan.plan import RunPlan
from tests.support.namespaces import Namespace
from tests.traffic.pair import Pair, followed, joined, namespaces, source, why_not
from tests.traffic.real_runs import carried_out

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

RATE = 4_000_000
"""Bits per second: slow enough for packets of 100 bytes on a busy machine."""
TOLERANCE = 0.01
STARVED = 0.03
"""Less than that: a sender that is not let run in time leaves the wire idle."""
SAVED = 0.05
"""Seconds for which a wire that nobody serves keeps its right to send: who is late by less makes up for it. All of it
is spent in the seconds that do not count."""
UNDER_WAY = 65536
"""Bytes: always enough for a wire to go on with, and never so many that its queue is full. Nothing is sent twice."""
UNCOUNTED = 24
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
"""Each with a wire of its own between the same two hosts."""


def charged(namespace: Namespace, wire: str, mtu: int) -> None:
    """Every packet by itself, as long as it is on Ethernet."""
    namespace.run(["ip", "link", "set", wire, "gso_max_segs", "1", "mtu", str(mtu)])
    namespace.run(["tc", "qdisc", "add", "dev", wire, "root", "handle", "1:", "htb", "default", "1"])
    shape = ["rate", f"{RATE}bit", "ceil", f"{RATE}bit", "overhead", str(UNCOUNTED), "mpu", "84"]
    saved = str(int(RATE / 8 * SAVED))
    shape += ["burst", saved, "cburst", saved]
    namespace.run(["tc", "class", "add", "dev", wire, "parent", "1:", "classid", "1:1", "htb", *shape])
    namespace.run(["tc", "qdisc", "add", "dev", wire, "parent", "1:1", "pfifo", "limit", "1000"])


def planned(both: Pair, number: int, version: str, options: dict[str, Any]) -> RunPlan:
    wire = f"nictopt{number}"
    addresses = (
        (f"198.18.{number}.1", f"198.18.{number}.2")
        if version == "IPv4"
        else (f"fd00:{number}::1", f"fd00:{number}::2")
    )
    client, server = (both.place(host, wire, one) for host, one in zip("ab", addresses, strict=True))
    options = {name: value for name, value in options.items() if name != "mtu"}
    if options.get("protocol") == "udp":
        options["bitrate"] = RATE
    else:
        options |= {"window": UNDER_WAY}
    return RunPlan(client, server, time=5, omit=1, interval=0.5, port=5210 + 10 * number, **options)


async def test_what_a_wire_can_carry() -> None:
    with namespaces() as (client, server):
        for number, (_, options) in enumerate(WIRES):
            joined(client, server, wire=f"nictopt{number}", net=number)
            for namespace in (client, server):
                charged(namespace, f"nictopt{number}", options.get("mtu", 1500))
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            plans = [planned(both, number, *wire) for number, wire in enumerate(WIRES)]
            runs = await asyncio.gather(*(carried_out(both, plan=plan) for plan in plans))
            snapshots = {name: host.snapshot for name, host in both.hosts.items()}
    found = {}
    for wire, plan, (result, _) in zip(WIRES, plans, runs, strict=True):
        assert result.failure is None and result.goodput is not None, (wire, result.failure)
        found[str(wire)] = result.goodput / goodput(RATE, run_framing(plan, snapshots))
    within = {wire: -STARVED <= share - 1 <= TOLERANCE for wire, share in found.items()}
    assert all(within.values()), found
