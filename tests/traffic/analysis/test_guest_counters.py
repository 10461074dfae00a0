"""Counters of a guest's NIC on its hypervisor: those of a tap are the other way round, those of a VF
are its own."""

from __future__ import annotations

from nictop.probe.records import LINK_COUNTERS, VF_COUNTERS, Counters
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.nic_rates import (
    RX_BYTES,
    TX_BYTES,
    TX_PACKETS,
    CountedNic,
    counted,
    has_counters,
    nic_points,
)
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.results.result import WORKLOAD_SCHEMA, Result
from nictop.traffic.results.workload import GuestFigures, NicTraffic, WorkloadFigures

TAP, PORT = 7, 3


def record(time: float, moved: int, *, has_vf: bool = True) -> Counters:
    """`moved`: bytes that the host has received from the tap, and that the VF has sent."""
    link = [0] * len(LINK_COUNTERS)
    link[RX_BYTES], link[TX_BYTES] = moved, 10
    link[LINK_COUNTERS.index("rx_packets")] = moved // 1000
    vf = [0] * len(VF_COUNTERS)
    vf[VF_COUNTERS.index("tx_bytes")] = moved
    return Counters(
        time,
        {TAP: tuple(link), PORT: (0,) * len(LINK_COUNTERS)},
        {},
        vfs={PORT: {2: tuple(vf)}} if has_vf else {},
    )


def test_what_a_tap_receives_is_what_the_guest_sends() -> None:
    tap = CountedNic(TAP, is_reversed=True)
    before, after = record(1.0, 0), record(2.0, 5000)
    assert counted(before, after, tap, TX_BYTES) == 5000
    assert counted(before, after, tap, TX_PACKETS) == 5
    assert counted(before, after, tap, RX_BYTES) == 0
    assert counted(before, after, CountedNic(TAP), RX_BYTES) == 5000


def test_vf_counts_as_its_guest_does_and_is_read_less_often() -> None:
    vf = CountedNic(PORT, vf=2)
    records = [record(1.0, 0), record(1.5, 0, has_vf=False), record(2.0, 5000)]
    assert counted(records[0], records[-1], vf, TX_BYTES) == 5000
    assert [has_counters(one, vf) for one in records] == [True, False, True]
    (point,) = nic_points(records, vf, 1.0, sends=True)
    assert point.interval.bits_per_second == 40_000


def test_cpu_of_the_guest_as_a_whole() -> None:
    endpoint = Endpoint("pve", TAP, "")
    figures = WorkloadFigures(
        10.0,
        "hand",
        nics=(NicTraffic("tap101i0", TAP, 1000, 2000, 1, 2, 10.0),),
        chosen_ifindex=TAP,
        guest=GuestFigures("win10", 1.1, 0.8, 0.2, 0.1),
        owners_unknown="the connections of a guest are not seen from its hypervisor",
    )
    plan = RunPlan(endpoint, endpoint, test="manual", guest="win10")
    result = Result(plan, 0.0, schema=WORKLOAD_SCHEMA, workload=figures)
    said = dict(result_sentences(result))
    assert said["guest"] == (
        "win10: 1.10 cores (virtual CPUs 0.80, vhost 0.20, other threads 0.10); seen from pve "
        "only: what runs in it is not known"
    )
    assert said["traffic"].startswith("tap101i0, as win10 sees it: ")
