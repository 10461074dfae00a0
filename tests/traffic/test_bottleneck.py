"""The sentence names what held the run back, and nothing that hides behind something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.ceiling import Ceiling
from nictop.traffic.bottleneck import bottleneck
from nictop.traffic.load import Machine
from nictop.traffic.measured import Total
from nictop.traffic.proof import Proof
from nictop.traffic.result import Result, SocketFigures
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, load, result

WINDOW = SocketFigures("a", 20_000, 1448, 40, 0.8, 0.0, "cubic")
BUFFER = replace(WINDOW, window_limited=0.0, buffer_limited=0.6)
HELD = SocketFigures("a", 200, 1448, 90, 0.0, 0.0, "cubic")
"""86 segments are under way at 5 Gb/s and 200 µs."""
FREE = replace(HELD, congestion_window=4000)
BBR = replace(HELD, congestion_control="bbr")
RECEIVES = load("b", "server", hottest=2, hottest_busy=0.99, hottest_softirq=0.98)
SENDS = load("a", hottest=1, hottest_busy=0.97, hottest_softirq=0.1)
LOST = Total(False, False, 10.0, 5e9, packets=1000, lost=200)
MANY = (flow(5.0, retransmits=6250),)
"""1000 for each of 6.25 GB."""
VERY_MANY = (flow(5.0, retransmits=100_000),)
"""16 000 for each GB: 2.3 % of all segments."""
LOCAL = Proof("failed", "both ends are on one machine", one_machine=True)
MACHINES = (Machine("vm1", 0.95, 0.11, (1,)), Machine("vm2", 0.8, None, (0,)))
TWO_CORES = {"cores": 2, "user": 1.2, "system": 0.4, "softirq": 0.23, "hottest": 1, "hottest_busy": 0.92}
"""1.83 of 2 are busy."""
SMALL = replace(HELD, snd_mss=88)
SLOW = Ceiling(4.94e9, 7e6, "4.94 Gb/s: 10 GbE, MTU 1500, IPv4, MSS 100, TCP timestamps")


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (result(9.40), "the wire: 100 % of the ceiling, 9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps"),
        (result(0.99, plan=replace(PLAN, bitrate=500_000_000, streams=2)), "the bitrate that was asked for: 1.00 Gb/s"),
        (result(hosts=(load("a", steal=0.4), RECEIVES)), "the hypervisor of a: it gave 10 % of its CPU time to others"),
        (result(hosts=(SENDS, RECEIVES)), "the receiver's CPU 2 on b: 98 % softirq, single queue"),
        (result(hosts=(SENDS, load("b", "server"))), "the sender's CPU 1 on a: 97 % busy, most of it outside of inter"),
        (result(sockets=(WINDOW,)), "the receiver's window: it held the sender back for 80 % of the time, rtt 20.0 ms"),
        (result(sockets=(BUFFER,)), "the sender's socket buffer: too small for 60 % of the time"),
        (result(flows=(flow(5.0, received=LOST),)), "packets that are lost on the way: 20 % of the datagrams"),
        (
            result(flows=MANY, hosts=(load("a"), load("b", "server", ring_drops=40))),
            "the ring of b: its NIC dropped 40 packets",
        ),
        (result(), "not found: b CPU 2 at 50 %, a CPU 2 at 50 %, 53 % of the ceiling; it may lie between the hosts"),
        (result(ceiling=Ceiling(None, None, "no ceiling"), hosts=()), "not found: nothing was counted"),
    ],
)
def test_what_it_was(run: Result, sentence: str) -> None:
    assert bottleneck(run, {"b": 1}).startswith(sentence)


def test_more_than_the_ceiling_is_no_answer() -> None:
    """Something else held it back, as a core does here."""
    assert bottleneck(result(11.0, hosts=(SENDS, RECEIVES))).startswith("the receiver's CPU 2 on b")
    assert bottleneck(result(9.55, hosts=(SENDS, RECEIVES))).startswith("the wire: 101 % of the ceiling")
    assert bottleneck(result(11.0)) == (
        "not found: b CPU 2 at 50 %, a CPU 2 at 50 %, more than the ceiling; "
        "it may lie between the hosts, or below a guest"
    )


def test_a_core_that_another_program_may_have_is_not_said_to_be_the_applications() -> None:
    crowded = load("b", "server", hottest_busy=1.0, user=1.9, system=0.2)
    told = bottleneck(result(hosts=(load("a"), crowded), sockets=(SMALL,)))
    assert told.startswith("the receiver's CPU 2 on b: 100 % busy, and programs have most of this host's time")
    assert told.endswith("the application, or another program")


# -------------------------------------------------------------------------------------------------------- hypervisors


def test_a_hypervisor_whose_cpus_are_busy_is_named_before_packets_that_are_lost() -> None:
    host = load("lab", "observer", machines=MACHINES, **TWO_CORES)
    run = result(hosts=(load("a"), load("b", "server"), host), flows=MANY, sockets=(HELD,))
    assert bottleneck(run) == (
        "the hypervisor lab: 1.83 of 2 cores are busy, CPU 1 at 92 %; the most for vm1 0.95 (vhost 0.11), "
        "vm2 0.80, while 1.00 k segments per GB were retransmitted"
    )
    # the same host with two more cores has room
    roomy = load("lab", "observer", machines=MACHINES, **{**TWO_CORES, "cores": 4})
    run = replace(run, hosts=(*run.hosts[:2], roomy))
    assert bottleneck(run).startswith("packets that are lost on the way")


def test_a_full_core_of_a_hypervisor_counts_where_a_virtual_machine_runs_on_it() -> None:
    host = load("lab", "observer", machines=MACHINES, cores=64, hottest=1, hottest_busy=0.99)
    run = result(hosts=(load("a"), load("b", "server"), host))
    assert bottleneck(run).startswith("the hypervisor lab: 0.60 of 64 cores are busy, CPU 1 at 99 %")
    elsewhere = replace(host, machines=MACHINES[1:])
    assert bottleneck(replace(run, hosts=(*run.hosts[:2], elsewhere))).startswith("not found")


def test_an_observer_without_virtual_machines_may_be_busy_with_anything() -> None:
    host = load("build", "observer", **TWO_CORES)
    assert bottleneck(result(hosts=(load("a"), load("b", "server"), host))).startswith("not found")


def test_an_end_whose_cpus_are_all_busy_needs_no_full_core() -> None:
    busy = load("b", "server", **TWO_CORES)
    assert bottleneck(result(hosts=(load("a"), busy))) == "the CPUs of b: 1.83 of 2 cores are busy, CPU 1 at 92 %"
    assert bottleneck(result(hosts=(load("a"), load("b", "server", **{**TWO_CORES, "user": 1.1})))).startswith("not f")


# ------------------------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("figures", "flows", "cause"),
    [
        (HELD, MANY, True),
        (replace(HELD, window_limited=None, buffer_limited=None), MANY, True),  # a kernel that does not count these
        (HELD, (flow(5.0, retransmits=60),), False),
        (FREE, MANY, False),  # fifty times of what was under way
        (replace(HELD, rtt=None), MANY, False),
        (BBR, MANY, False),
        (BBR, VERY_MANY, True),
        (replace(BBR, congestion_control="bbr3"), MANY, False),
    ],
)
def test_retransmissions_are_a_cause_only_of_a_sender_that_slows_down_for_them(
    figures: SocketFigures, flows: object, cause: bool
) -> None:
    said = bottleneck(result(flows=flows, sockets=(figures,)))
    assert said.startswith("packets that are lost on the way: " if cause else "not found: ")
    assert ("segments per GB were retransmitted" in said) == (flows in (MANY, VERY_MANY))


def test_what_the_congestion_window_held_is_told_with_it() -> None:
    assert bottleneck(result(flows=MANY, sockets=(HELD,))) == (
        "packets that are lost on the way: 1.00 k segments per GB were retransmitted, and the congestion window held "
        "the sender back: 90 segments, rtt 200 µs"
    )
    assert bottleneck(result(flows=VERY_MANY, sockets=(BBR,))).endswith(", more than BBR takes no notice of")


def test_nothing_is_lost_on_the_way_within_one_machine() -> None:
    said = bottleneck(result(flows=MANY, sockets=(HELD,), proof=LOCAL))
    assert said.startswith("not found: ") and said.endswith("; it may lie in how both ends share this machine")
    assert "1.00 k segments per GB were retransmitted" in said


def test_retransmissions_beside_a_cause_are_evidence() -> None:
    said = bottleneck(result(flows=MANY, sockets=(HELD,), hosts=(SENDS, RECEIVES)))
    assert said.startswith("the receiver's CPU 2") and said.endswith(
        ", while 1.00 k segments per GB were retransmitted"
    )
    assert "retransmitted" not in bottleneck(result(sockets=(HELD,), hosts=(SENDS, RECEIVES)))


def test_a_few_drops_without_any_loss_are_not_it() -> None:
    run = result(hosts=(load("a"), load("b", "server", ring_drops=40)))
    assert bottleneck(run).startswith("not found")


# ------------------------------------------------------------------------------------------------------------ packets


def test_small_segments_are_limited_by_their_number() -> None:
    """1.408 Gb/s of 88 bytes are two million a second."""
    run = result(1.408, sockets=(SMALL,), hosts=(SENDS, RECEIVES), ceiling=SLOW)
    assert bottleneck(run, {"b": 1}) == (
        "the receiver's CPU 2 on b: 98 % softirq, single queue, at 2.00 Mpps of 88 B each: "
        "their number costs, not their bytes"
    )
    assert "pps" not in bottleneck(replace(run, sockets=(HELD,)))
    idle = bottleneck(replace(run, hosts=(load("a"), load("b", "server"))))
    assert ", 2.00 Mpps of 88 B each: their number costs, not their bytes;" in idle
    # nobody read the sockets: what was asked for
    assert "1.76 Mpps of 100 B" in bottleneck(replace(run, sockets=(), plan=replace(PLAN, mss=100)))


def test_datagrams_are_counted_whatever_their_size() -> None:
    run = result(1.0, plan=replace(PLAN, protocol="udp", length=1250), hosts=(SENDS, load("b", "server")))
    assert bottleneck(run).endswith("the application's core, at 100 kpps of 1250 B each")
    small = replace(run, plan=replace(run.plan, length=125))
    assert bottleneck(small).endswith("1.00 Mpps of 125 B each: their number costs, not their bytes")


# -------------------------------------------------------------------------------------------------------------- words


def test_no_goodput_no_sentence() -> None:
    assert bottleneck(result(flows=())) == ""


def test_names_of_machines_cannot_move_the_cursor() -> None:
    hostile = load("b\x1b[2J", "server", hottest_busy=0.99, hottest_softirq=0.9)
    run = result(hosts=(hostile,), flows=(flow(5.0, receiver="b\x1b[2J"),))
    assert "\x1b" not in bottleneck(run)
    host = load("lab\x1b[2J", "observer", machines=(Machine("vm\x1b[1m", 1.0, None),), **TWO_CORES)
    said = bottleneck(result(hosts=(host,)))
    assert "vm" in said and "\x1b" not in said
