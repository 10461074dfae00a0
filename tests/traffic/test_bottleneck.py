"""The sentence names what held the run back, and nothing that hides behind something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.ceiling import Ceiling
from nictop.traffic.bottleneck import bottleneck
from nictop.traffic.measured import Total
from nictop.traffic.result import Result, SocketFigures
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, load, result

WINDOW = SocketFigures("a", 20_000, 1448, 40, 0.8, 0.0)
BUFFER = replace(WINDOW, window_limited=0.0, buffer_limited=0.6)
RECEIVES = load("b", "server", hottest=2, hottest_busy=0.99, hottest_softirq=0.98)
SENDS = load("a", hottest=1, hottest_busy=0.97, hottest_softirq=0.1)
LOST = Total(False, False, 10.0, 5e9, packets=1000, lost=200)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (result(9.40), "the wire: 100 % of the ceiling, 9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps"),
        (result(11.0), "no wire: 117 % of the ceiling"),
        (result(0.99, plan=replace(PLAN, bitrate=500_000_000, streams=2)), "the bitrate that was asked for: 1.00 Gb/s"),
        (result(hosts=(load("a", steal=0.4), RECEIVES)), "the hypervisor of a: it gave 10 % of its CPU time to others"),
        (result(hosts=(SENDS, RECEIVES)), "the receiver's CPU 2 on b: 98 % softirq, single queue"),
        (result(hosts=(SENDS, load("b", "server"))), "the sender's CPU 1 on a: 97 % busy, most of it outside of inter"),
        (result(sockets=(WINDOW,)), "the receiver's window: it held the sender back for 80 % of the time, rtt 20.0 ms"),
        (result(sockets=(BUFFER,)), "the sender's socket buffer: too small for 60 % of the time"),
        (result(flows=(flow(5.0, retransmits=6250),)), "packets that are lost on the way: 1000 retransmits per GB"),
        (result(flows=(flow(5.0, received=LOST),)), "packets that are lost on the way: 20 % of the datagrams"),
        (
            result(flows=(flow(5.0, retransmits=6250),), hosts=(load("a"), load("b", "server", ring_drops=40))),
            "the ring of b: its NIC dropped 40 packets",
        ),
        (result(), "not found: b CPU 2 at 50 %, a CPU 2 at 50 %, 53 % of the ceiling"),
        (result(ceiling=Ceiling(None, None, "no ceiling"), hosts=()), "not found: nothing was counted"),
    ],
)
def test_what_it_was(run: Result, sentence: str) -> None:
    assert bottleneck(run, {"b": 1}).startswith(sentence)


def test_a_few_drops_without_any_loss_are_not_it() -> None:
    run = result(hosts=(load("a"), load("b", "server", ring_drops=40)))
    assert bottleneck(run).startswith("not found")


def test_no_goodput_no_sentence() -> None:
    assert bottleneck(result(flows=())) == ""


def test_names_of_hosts_cannot_move_the_cursor() -> None:
    hostile = load("b\x1b[2J", "server", hottest_busy=0.99, hottest_softirq=0.9)
    run = result(hosts=(hostile,), flows=(flow(5.0, receiver="b\x1b[2J"),))
    assert "\x1b" not in bottleneck(run)
