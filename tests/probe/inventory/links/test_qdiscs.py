"""Queueing disciplines: real ones of kinds that every kernel has, messages encoded by pyroute2,
arbitrary bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg import sched_cake, sched_netem, tcmsg

from nictop.probe.inventory.links.qdisc_messages import (
    TCMSG,
    TrafficClass,
    name_of,
    parse_class,
    parse_qdisc,
    with_classes,
)
from nictop.probe.inventory.links.qdiscs import read_qdiscs, with_qdiscs
from nictop.probe.kernel.netlink import pack_attribute, pack_text
from nictop.probe.records import Link, Qdisc
from tests.support.namespaces import Namespace

ROOT = 0xFFFFFFFF
NETLINK_HEADER = 16


def message(kind: str, options: bytes, *, handle: int = 0x10000, parent: int = ROOT) -> bytes:
    return TCMSG.pack(0, 3, handle, parent, 0) + pack_text(1, kind) + pack_attribute(2, options)


def by_pyroute2(kind: str, options: dict[str, Any]) -> bytes:
    made = tcmsg()
    made["index"], made["handle"], made["parent"] = 3, 0x10000, ROOT
    made["attrs"] = [["TCA_KIND", kind], ["TCA_OPTIONS", options]]
    made.encode()
    return bytes(made.data[NETLINK_HEADER:])


def parsed(payload: bytes) -> Qdisc:
    found = parse_qdisc(payload)
    assert found is not None
    assert found[:2] == (3, 0x10000)
    return found[2]


def test_netem_encoded_by_pyroute2() -> None:
    wanted = {"delay": 20000, "jitter": 5000, "loss": 1.0, "duplicate": 2.0, "rate": "10mbit"}
    found = parsed(
        by_pyroute2(
            "netem", sched_netem.get_parameters({**wanted, "prob_corrupt": 3, "prob_reorder": 25})
        )
    )
    assert (found.kind, found.handle, found.parent, found.rate) == ("netem", "1:", None, 10_000_000)
    assert (found.delay, found.jitter) == pytest.approx((0.02, 0.005))
    shares = (found.loss, found.duplicate, found.corrupt, found.reorder)
    assert shares == pytest.approx((0.01, 0.02, 0.03, 0.25))


def test_netem_with_64_bit_attributes() -> None:
    """Delay in nanoseconds, a rate above 32 bits, the loss model of Gilbert and Elliott."""
    start = struct.pack("=IIIIII", 5, 1000, 0, 0, 0, 0)
    whole = 0xFFFFFFFF
    model = struct.pack(
        "=IIII", whole // 100, whole // 10, whole, 0
    )  # in the bad state for 1 of 11 packets, and all of these are lost
    options = (
        start
        + pack_attribute(10, struct.pack("=q", 1_500_000))
        + pack_attribute(8, struct.pack("=Q", 5_000_000_000))
    )
    found = parsed(
        message(
            "netem",
            options
            + pack_attribute(6, struct.pack("=IiIi", whole, 0, 0, 0))
            + pack_attribute(5, pack_attribute(2, model)),
        )
    )
    assert found.delay == pytest.approx(0.0015)
    assert found.rate == 40_000_000_000
    assert found.loss == pytest.approx(1 / 11, rel=1e-6)
    assert (
        parsed(message("netem", start + pack_attribute(5, pack_attribute(1, bytes(20))))).loss
        is None
    )
    assert parse_qdisc(message("netem", struct.pack("=IIIIII", 0, 1000, 0, 0, 0, 0))) is None


def test_dropped_packets() -> None:
    """Of the statistics of a discipline; older kernels have the basic ones only."""
    start = struct.pack("=IIIIII", 5, 1000, 0, 0, 0, 0)
    queue = struct.pack("=IIIII", 0, 0, 17, 0, 3)
    assert (
        parsed(message("netem", start) + pack_attribute(7, pack_attribute(3, queue))).dropped == 17
    )
    assert (
        parsed(message("netem", start) + pack_attribute(7, pack_attribute(1, bytes(16)))).dropped
        is None
    )
    assert (
        parsed(message("netem", start) + pack_attribute(7, pack_attribute(3, queue[:8]))).dropped
        is None
    )


def test_limits() -> None:
    assert (
        parsed(by_pyroute2("cake", sched_cake.get_parameters({"bandwidth": "20mbit"}))).rate
        == 20_000_000
    )
    assert parse_qdisc(message("cake", pack_attribute(2, struct.pack("=Q", 0)))) is None
    fq = parsed(
        message(
            "fq",
            pack_attribute(1, struct.pack("=I", 10000))
            + pack_attribute(7, struct.pack("=I", 6_250_000)),
        )
    )
    assert (fq.rate, fq.per_flow) == (50_000_000, True)
    assert parse_qdisc(message("fq", pack_attribute(7, struct.pack("=I", ROOT)))) is None
    assert parse_qdisc(message("fq_codel", b"")) is None


def test_hfsc() -> None:
    record = parsed(message("hfsc", struct.pack("=H", 0x10)))
    upper = pack_attribute(3, struct.pack("=III", 0, 0, 3_750_000))
    limited = parse_class(message("hfsc", upper, handle=0x10010, parent=0x10000))
    free = parse_class(
        message(
            "hfsc", pack_attribute(2, struct.pack("=III", 0, 0, 1)), handle=0x10020, parent=0x10000
        )
    )
    assert limited is not None and free is not None
    found = with_classes(record, 0x10000, [limited])
    assert found is not None and (found.rate, found.limits_all) == (30_000_000, True)
    assert with_classes(record, 0x10000, [limited, free]) is None


def test_classes_that_are_their_own_ancestors() -> None:
    """No kernel sends such messages."""
    classes = [
        TrafficClass(0x10001, 0x10002, 1),
        TrafficClass(0x10002, 0x10001, 1),
        TrafficClass(0x10003, 0x10001, 9),
    ]
    found = with_classes(Qdisc("htb", "1:", default_class=3), 0x10000, classes)
    assert found is not None and found.rate == 1


@pytest.mark.parametrize(("handle", "name"), [(0x80010000, "8001:"), (0x1000A, "1:a"), (1, ":1")])
def test_handle_names(handle: int, name: str) -> None:
    assert name_of(handle) == name


@given(st.binary(max_size=120), st.sampled_from(["netem", "tbf", "htb", "hfsc", "fq", "cake"]))
def test_any_bytes_are_a_discipline_or_none(options: bytes, kind: str) -> None:
    for payload in (options, message(kind, options), message(kind, pack_attribute(1, options))):
        parse_qdisc(payload)
        parse_class(payload)


def test_real_disciplines(namespace: Namespace) -> None:
    def tc(line: str) -> None:
        namespace.run(["tc", *line.split()])

    for name in ("one", "two", "free"):
        namespace.run(
            ["ip", "link", "add", "name", name, "type", "veth", "peer", "name", f"{name}9"]
        )
        namespace.run(["ip", "link", "set", "dev", name, "up"])
    assert namespace.call(read_qdiscs) == ({}, {})
    tc("qdisc add dev one root handle 7: tbf rate 100mbit burst 32k latency 50ms")
    tc("qdisc add dev two root handle 1: htb default 10")
    tc("class add dev two parent 1: classid 1:1 htb rate 50mbit ceil 50mbit overhead 24 mpu 84")
    tc("class add dev two parent 1:1 classid 1:10 htb rate 10mbit ceil 70mbit overhead 24 mpu 84")
    tc("class add dev two parent 1:1 classid 1:20 htb rate 10mbit ceil 20mbit")
    tc("qdisc add dev two parent 1:20 handle 20: tbf rate 7mbit burst 32k latency 50ms")
    tc("qdisc add dev free root handle 1: htb")
    tc("class add dev free parent 1: classid 1:1 htb rate 50mbit ceil 5gbit")
    number = {
        name: int(
            namespace.run(["sh", "-c", f"cat /proc/net/dev_snmp6/{name} | head -1"]).split()[1]
        )
        for name in ("one", "two", "free")
    }
    links = tuple(Link(ifindex, name, 1, 1, "up", True, 1500) for name, ifindex in number.items())
    found, trouble = namespace.call(lambda: with_qdiscs(links))
    assert trouble is None
    assert {link.name: link.traffic_control for link in found} == {
        "one": (Qdisc("tbf", "7:", rate=100_000_000, burst=32768, limit=657_768, dropped=0),),
        "two": (
            Qdisc(
                "htb",
                "1:",
                rate=50_000_000,
                overhead=24,
                smallest=84,
                default_class=0x10,
                dropped=0,
            ),
            Qdisc("tbf", "20:", "1:20", rate=7_000_000, burst=32768, limit=76_518, dropped=0),
        ),
        "free": (
            Qdisc("htb", "1:", rate=5_000_000_000, default_class=0, limits_all=False, dropped=0),
        ),
    }


@pytest.mark.parametrize("rate", ["64kbit", "7mbit", "124mbit", "126mbit", "300mbit", "9gbit"])
def test_the_burst_of_an_undo_is_what_the_kernel_has(namespace: Namespace, rate: str) -> None:
    """Each undo would take some bytes away. The kernel keeps a time in ticks, which tc rounds down
    to microseconds."""
    namespace.run(["ip", "link", "set", "dev", "lo", "up"])
    lo = Link(1, "lo", 772, 0x49, "unknown", True, 65536)
    for size in (32_768, 99_991, 150_000, 150_001):
        seen: list[tuple[int | None, str]] = []
        burst: int | None = size
        for _ in range(3):
            words = f"rate {rate} burst {burst}b limit 200000b"
            namespace.run(["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", *words.split()])
            (link,), _ = namespace.call(lambda: with_qdiscs((lo,)))
            burst = link.traffic_control[0].burst
            seen.append((burst, namespace.run(["tc", "qdisc", "show", "dev", "lo", "root"])))
            namespace.run(["tc", "qdisc", "del", "dev", "lo", "root"])
        (shown,) = {text.split(" rate ")[1] for _, text in seen}
        assert len({one for one, _ in seen}) == 1, (size, seen, shown)
