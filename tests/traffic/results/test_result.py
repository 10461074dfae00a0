"""Figures of a result follow from its totals, and a result can be written and read back."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from nictop.model.devices.ceiling import Framing
from nictop.report.runs.run_document import cost_rows
from nictop.report.runs.sentences import host_cost_text
from nictop.traffic.analysis.assemble import notes_of
from nictop.traffic.analysis.framing import carried_per_byte
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.results.host_load import ThreadLoad
from nictop.traffic.results.measures import cpu_per_gigabit
from nictop.traffic.results.path_proof import HostProof, PathProof
from nictop.traffic.results.result import (
    MISLEADING_FINDINGS,
    Flow,
    IntervalPoint,
    Result,
    SocketFigures,
)
from tests.traffic.runs import BLACK_HOLE, flow, load, path_test, result


def test_figures_follow_from_the_receivers_total() -> None:
    run = result(8.0, flows=(flow(8.0, retransmits=20),))
    assert run.goodput == 8e9 and run.of_ceiling == pytest.approx(8 / 9.41)
    assert run.flows[0].retransmits_per_gigabyte == pytest.approx(2.0)
    assert run.why_not_ranked == ()
    both = result(flows=(flow(8.0), flow(6.0, sender="b", receiver="a")))
    assert both.goodput == 14e9 and both.of_ceiling == pytest.approx(7 / 9.41)
    half = result(flows=(flow(8.0), Flow("b", "a", Total(True, True, 1.0, 1e9), None)))
    assert half.goodput is None and half.why_not_ranked


def test_lost_datagrams_are_not_other_traffic() -> None:
    sent, arrived = (
        Total(True, True, 10.0, 4e9),
        Total(False, False, 10.0, 1e9, packets=40, lost=30),
    )
    lossy = flow(1.0, sent=sent, received=arrived)
    datagrams = Framing(1500, 4, "udp", length=1448)
    bare = carried_per_byte(datagrams, ())
    assert 1.0 < bare < 1.1
    assert carried_per_byte(datagrams, (lossy,)) == pytest.approx(4 * bare)
    gone = flow(0.0, sent=sent, received=replace(arrived, bits_per_second=0.0))
    assert carried_per_byte(datagrams, (gone, flow(1.0))) == bare
    assert carried_per_byte(Framing(1500, 4, "tcp"), (lossy,)) < 1.1, "TCP sends again what is lost"


def test_repeated_segments_are_counted_by_the_sender() -> None:
    """They are not other traffic."""
    framing, total = Framing(1500, 4, "tcp"), Total(False, False, 1.0, 8e6, 14_480_000.0)
    clean = Flow("a", "b", None, total, retransmits=0)
    repeated = replace(clean, retransmits=3000)  # of 10,000 segments
    bare = carried_per_byte(framing, ())
    assert carried_per_byte(framing, (clean,)) == bare
    assert carried_per_byte(framing, (repeated,)) == pytest.approx(1.3 * bare, rel=0.01)


@pytest.mark.parametrize(
    ("retransmits", "included"),
    [(0, "other traffic than this test"), (None, "retransmissions of this test, or other traffic")],
)
def test_note_of_more_bytes_than_the_test_moved(retransmits: int | None, included: str) -> None:
    end = HostProof("a", "proven", "virtual", "a: lab0 carried 15.1 MiB", foreign=True)
    proof = PathProof("proven", end.sentence, (end,))
    run = result(8.0, flows=(flow(8.0, retransmits=retransmits),), proof=proof)
    assert notes_of(run) == (f"a: lab0 carried 15.1 MiB: includes {included}",)


def test_result_is_read_back_unchanged() -> None:
    run = result(
        8.0,
        flows=(flow(8.0, points=(IntervalPoint(0.5, Interval(0.0, 0.5, 8e9, False)),)),),
        hosts=(load("a", cpus={0: 0.5, 2: 0.1}), load("b", "server")),
        sockets=(SocketFigures("a", 200, 1448, 10, 0.1, None, "cubic"),),
    )
    assert msgspec.json.decode(msgspec.json.encode(run), type=Result) == run


@pytest.mark.parametrize("rule", MISLEADING_FINDINGS)
def test_run_is_not_ranked_if_its_path_test_makes_it_misleading(rule: str) -> None:
    found = replace(BLACK_HOLE, rule=rule, title="ev\x1bil")
    assert result(path_test=path_test(found)).why_not_ranked == ("path test: ev\\x1bil",)
    assert result(path_test=path_test(replace(found, rule="path_mtu_smaller"))).why_not_ranked == ()
    assert result(path_test=path_test()).why_not_ranked == ()


def test_drops_of_both_directions_are_said() -> None:
    dropping = replace(load("a"), ring_drops=12, send_drops=9)
    words = "12 packets dropped by the NIC; 9 packets dropped instead of sent"
    assert words in host_cost_text(dropping)
    assert "dropped" not in host_cost_text(replace(load("a"), ring_drops=0, send_drops=0))


def test_there_is_no_cpu_cost_if_most_cpu_time_is_not_by_the_test() -> None:
    """The kernel counts what all programs use; stress has filled the CPUs before any test."""
    own = ThreadLoad("iperf3", 12, 0.3, (0,), generator=True)
    stress = ThreadLoad("stress", 80, 0.9, (0,))
    busy = load("a", user=1.5, system=0.2, softirq=0.1)
    filled = replace(busy, threads=(stress, own), per_transaction=73e-6)
    assert filled.is_busy_by_others
    assert (filled.cost_per_gigabit, filled.cost_per_transaction) == (None, None)
    text = host_cost_text(filled)
    assert "per Gb/s" not in text and "per transaction" not in text
    assert "no CPU cost: most of its busy time is not by this test" in text
    run = result(hosts=(filled, load("b", "server")))
    assert cpu_per_gigabit(run) is None
    titles, *rows = cost_rows(run.hosts)
    assert "per transaction" not in titles and len(titles) == len(rows[0]), "no cost is known"
    other_end = replace(stress, other_end=True)
    for mine in ((own, other_end), (own, replace(stress, generator=True)), (stress,), None):
        told = replace(filled, threads=mine)
        assert not told.is_busy_by_others and told.cost_per_transaction == 73e-6
