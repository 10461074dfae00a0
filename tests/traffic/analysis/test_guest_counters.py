"""Counters of a guest's NIC on its hypervisor: those of a tap are the other way round, those of a VF
are its own."""

from __future__ import annotations

from nictop.probe.records import LINK_COUNTERS, VF_COUNTERS, Counters, StorageActivity
from nictop.report.runs.sentences import result_sentences, storage_text
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
from nictop.traffic.results.measures import measures_of
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


def test_storage_in_words() -> None:
    disk = StorageActivity(
        "nbd0", "block", 4.0, 1000, 2, 4_096_000, 8192, 0.31, 0.0, 0.6, 0.0012, 0.0
    )
    assert storage_text(disk) == (
        "nbd0: 1000 reads of 4.00 KiB, 310 µs each (slowest second 1.20 ms), 2 writes of 4.00 KiB, "
        "less than 500 µs each; busy 60 %"
    )
    share = StorageActivity("192.0.2.5", "nfs", 4.0, writes=10, written_bytes=655360,
                            write_seconds=0.05)  # fmt: skip
    assert storage_text(share) == "NFS 192.0.2.5: 10 writes of 64.0 KiB, 5.00 ms each"


def test_latency_of_storage_is_a_figure_of_a_sweep() -> None:
    endpoint = Endpoint("a", 3, "")
    disk = StorageActivity("nbd0", "block", 4.0, 90, 10, 0, 0, 0.1, 0.1)
    figures = WorkloadFigures(4.0, storage=(disk,))
    plan = RunPlan(endpoint, endpoint, test="workload", workload="fio")
    result = Result(plan, 0.0, schema=WORKLOAD_SCHEMA, workload=figures)
    last = measures_of(result)[-1]
    assert last.title == "storage latency" and last.text(last.value(result)) == "2.00 ms"
    without = Result(plan, 0.0, schema=WORKLOAD_SCHEMA, workload=WorkloadFigures(4.0))
    assert all(measure.title != "storage latency" for measure in measures_of(without))


def test_latency_of_storage_is_that_of_the_device_with_most_bytes() -> None:
    endpoint = Endpoint("a", 3, "")
    own_disk = StorageActivity("vda", "block", 11.6, 0, 41, 0, 290_000, 0.0, 0.43)
    read = StorageActivity("nbd0", "block", 11.6, 36, 0, 36 << 20, 0, 15.4)
    figures = WorkloadFigures(11.6, storage=(own_disk, read))
    plan = RunPlan(endpoint, endpoint, test="workload", workload="fio")
    result = Result(plan, 0.0, schema=WORKLOAD_SCHEMA, workload=figures)
    last = measures_of(result)[-1]
    assert last.text(last.value(result)) == "428 ms"
