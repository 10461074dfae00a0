"""The formula of the ceiling beside real runs over wires that charge for every byte of a frame, its gap included."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nictop.model.ceiling import goodput
from nictop.traffic.assembly import run_framing
from nictop.traffic.plan import Plan
from tests.support.namespaces import Namespace
from tests.traffic.pair import Pair, followed, joined, namespaces, source, why_not
from tests.traffic.real_runs import carried_out

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

RATE = 20_000_000
"""Bits per second: slow enough for packets of 100 bytes on a busy machine."""
TOLERANCE = 0.01
ATTEMPTS = 4
"""No run may be above the ceiling; a busy machine keeps some below it."""
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
    shape += ["burst", "3k", "cburst", "3k"] if mtu < 3000 else ["burst", "20k", "cburst", "20k"]
    namespace.run(["tc", "class", "add", "dev", wire, "parent", "1:", "classid", "1:1", "htb", *shape])
    namespace.run(["tc", "qdisc", "add", "dev", wire, "parent", "1:1", "pfifo", "limit", "50"])


def planned(both: Pair, number: int, version: str, options: dict[str, Any]) -> Plan:
    wire = f"nictopt{number}"
    addresses = (
        (f"198.18.{number}.1", f"198.18.{number}.2")
        if version == "IPv4"
        else (f"fd00:{number}::1", f"fd00:{number}::2")
    )
    client, server = (both.place(host, wire, one) for host, one in zip("ab", addresses, strict=True))
    options = {name: value for name, value in options.items() if name != "mtu"}
    bitrate = RATE if options.get("protocol") == "udp" else None
    return Plan(client, server, time=3, omit=1, interval=0.5, port=5210 + 10 * number, bitrate=bitrate, **options)


async def test_what_a_wire_can_carry() -> None:
    with namespaces() as (client, server):
        for number, (_, options) in enumerate(WIRES):
            joined(client, server, wire=f"nictopt{number}", net=number)
            for namespace in (client, server):
                charged(namespace, f"nictopt{number}", options.get("mtu", 1500))
        async with followed(client, server, [source(client, "a"), source(server, "b")]) as both:
            plans = {str(wire): planned(both, number, *wire) for number, wire in enumerate(WIRES)}
            found: dict[str, float] = {}
            for _ in range(ATTEMPTS):
                left = {wire: plan for wire, plan in plans.items() if found.get(wire, 0.0) < 1 - TOLERANCE}
                runs = await asyncio.gather(*(carried_out(both, plan=plan) for plan in left.values()))
                snapshots = {name: host.snapshot for name, host in both.hosts.items()}
                for (wire, plan), (result, _) in zip(left.items(), runs, strict=True):
                    assert result.failure is None and result.goodput is not None, (wire, result.failure)
                    found[wire] = result.goodput / goodput(RATE, run_framing(plan, snapshots))
                assert max(found.values()) < 1 + TOLERANCE, found
    assert min(found.values()) > 1 - TOLERANCE, found
