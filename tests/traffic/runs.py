"""Results made of literal values, for the tests of the analysis."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.ceiling import Ceiling
from nictop.probe.records import PathListener, PathReplies, PathSize, PathTest, TrafficPath
from nictop.rules.finding import Evidence
from nictop.traffic.generators.intervals import Total
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult
from nictop.traffic.path.stored import StoredFinding, StoredFix, StoredPathTest
from nictop.traffic.results.host_load import Busy, HostLoad
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import Flow, Result
from tests.traffic.plans import PLAN

FACTS = {
    "generator": "iperf3",
    "mtu": "1500",
    "client iperf3": "iperf3 3.12",
    "client driver": "virtio_net",
}
BUSY = Busy(10.0, 0.1, 0.3, 0.0, 0.2, 0.0, 0.0, 4, 2, 0.5, 0.2)
PROVEN = PathProof("proven", "a: ens4 carried it; b: ens5 carried it")


def load(host: str, role: str = "client", **more: object) -> HostLoad:
    """A host with four cores that are half idle; `more`: fields of `HostLoad` and `Busy`."""
    busy = {name: value for name, value in more.items() if name in Busy.__dataclass_fields__}
    rest = {name: value for name, value in more.items() if name not in busy}
    made = HostLoad(host, role, replace(BUSY, **busy), per_gigabit=0.1)  # type: ignore[arg-type]
    return replace(made, **rest)  # type: ignore[arg-type]


def flow(gigabits: float, **more: object) -> Flow:
    received = Total(False, False, 10.0, gigabits * 1e9, gigabits * 1e9 * 10 / 8)
    return replace(Flow("a", "b", None, received, (), 0), **more)  # type: ignore[arg-type]


def result(gigabits: float = 5.0, **more: object) -> Result:
    """A run of 10 s from a to b that may be ranked."""
    made = Result(
        PLAN,
        1_790_000_000.0,
        (flow(gigabits),),
        (load("a"), load("b", "server")),
        ceiling=Ceiling(9.41e9, 8e5, "9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps"),
        proof=PROVEN,
        facts=FACTS,
    )
    return replace(made, **more)  # type: ignore[arg-type]


BLACK_HOLE = StoredFinding(
    "path_mtu_black_hole",
    "warning",
    "a",
    "ens4",
    "MTU black hole to b: packets above 1400 bytes are lost (MTU of this NIC: 1500)",
    (Evidence("largest packet to b", "1400 of 1500 bytes", "UDP with DF"),),
    "Small packets pass: ping and SSH work, large transfers hang.",
    (
        StoredFix(
            "here", "Set MTU 1400 on ens4", ("ip link set dev ens4 mtu 1400",), persistent=False
        ),
    ),
    4,
)
"""What a path test found."""


def path_test(*findings: StoredFinding, largest: int = 1500) -> StoredPathTest:
    """The path test before a run from a to b: there as it should be, not tested on the way back."""
    a = PathEnd("a", "ens4", 4, "192.0.2.1", "52:54:00:00:00:01", 1500, root=True, nics={4: "ens4"})
    b = PathEnd(
        "b", "ens5", 5, "192.0.2.2", "52:54:00:00:00:02", 1500, root=False, nics={5: "ens5"}
    )
    test = PathTest(
        address=b.address,
        source=a.address,
        port=5201,
        mtu=1500,
        path=TrafficPath(b.address, a.address, "unicast", 4, None, "reachable", b.mac),
        replies=(PathReplies("udp", "", 10, (0.0002,) * 10), PathReplies("tcp", "", 1, (0.0003,))),
        sizes=(PathSize("udp", 1500, largest),),
    )
    there = PathDirection(a, b, test, PathListener(5201, ended=True))
    result = PathResult(
        1_790_000_000.0, "", 5201, (there, PathDirection(b, a, failure="b: no answer"))
    )
    return StoredPathTest(result, findings)
