"""Comparisons at equal load are decided by CPU, and refused for runs that did not reach it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.report.runs.comparison import comparison_text
from nictop.report.runs.sentences import host_cost_text, result_sentences
from nictop.traffic.analysis.comparison import Comparison, compare, equal_load
from nictop.traffic.results.measures import busy_cores
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import Result
from tests.traffic.analysis.test_transactions import RR, latencies, rr
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, load, result

PACED = replace(RR, rate=1000)
LIMITED = replace(PLAN, bitrate=1_000_000_000)


def bulk(
    cores: float, gigabits: float = 1.0, *, plan: object = LIMITED, observer: float | None = None
) -> Result:
    """A run at 1 Gb/s; `cores` are busy at each end."""
    own: dict[str, object] = {"user": cores, "system": 0.0, "softirq": 0.0}
    hosts = [
        load("a", "client", per_gigabit=cores, **own),
        load("b", "server", per_gigabit=cores, **own),
    ]
    if observer is not None:
        # time in guests is a part of the busy cores
        hosts.append(
            load("pve", "observer", user=observer, system=0.0, softirq=0.0, guest=2 * cores)
        )
    return result(gigabits, plan=plan, hosts=tuple(hosts), ceiling=None)


def paced(cores: float, median: float, count: int = 10_000) -> Result:
    """A run at 1000 requests per second."""
    own: dict[str, object] = {"user": cores, "system": 0.0, "softirq": 0.0}
    hosts = tuple(
        load(host, role, per_gigabit=None, per_transaction=cores / 1000, **own)
        for host, role in (("a", "client"), ("b", "server"))
    )
    return rr(median, PACED, latency=latencies(median, count), hosts=hosts)


def verdicts(comparison: Comparison) -> list[tuple[str, str]]:
    return [(one.name, one.verdict) for one in comparison.figures]


def spread_of(made: Result, number: int) -> Result:
    """With another goodput: it may vary within the tolerance."""
    return replace(made, flows=(flow(1.0 - number / 1000),))


def test_the_requested_load() -> None:
    assert LIMITED.requested_load == 1e9
    assert replace(LIMITED, streams=4, direction="bidirectional").requested_load == 8e9
    assert PACED.requested_load == 1000.0
    for plan in (PLAN, RR, replace(PLAN, test="loaded", bitrate=5, rate=300)):
        assert plan.requested_load is None
    assert equal_load([bulk(0.5), bulk(0.6)]) == 1e9
    assert equal_load([bulk(0.5), bulk(0.5, plan=replace(LIMITED, streams=2))]) is None
    assert equal_load([result(), result()]) is None


def test_time_in_guests_counts_once() -> None:
    assert busy_cores(bulk(0.5)) == pytest.approx(1.0)
    assert busy_cores(bulk(0.5, observer=0.3)) == pytest.approx(1.3)
    assert busy_cores(result(hosts=(load("a"), load("b", "server", busy=None)))) is None
    assert busy_cores(result(hosts=())) is None
    one_machine = PathProof(
        "failed", "both ends are on one machine: no NIC involved", one_machine=True
    )
    assert busy_cores(replace(bulk(0.5, observer=0.3), proof=one_machine)) == pytest.approx(0.8)


def test_a_host_that_is_the_machine_of_another_one_counts_once() -> None:
    made = bulk(0.5, observer=0.3)
    *ends, observer = made.hosts
    again = replace(made, hosts=(*ends, replace(observer, machine_of=ends[0].host)))
    assert busy_cores(again) == pytest.approx(1.0)
    text = host_cost_text(again.hosts[-1])
    assert f"the same machine as {ends[0].host}: its CPUs count once in a verdict" in text


def test_bulk_runs_at_equal_load_are_decided_by_cpu() -> None:
    a = [spread_of(bulk(0.8, observer=0.5), number) for number in range(3)]
    b = [spread_of(bulk(0.4, observer=0.1), number) for number in range(3)]
    found = compare(a, b, names=("vswitch", "passthrough"), compared=("setup",))
    assert found.verdict == "better" and found.equal_load == 1e9
    assert verdicts(found) == [("cpu", "better"), ("goodput", "same")]
    assert found.sentence.startswith(
        "Better: passthrough = 0.43× the CPU of vswitch at 1.00 Gb/s (-57 %, 95 % CI "
    )
    assert found.goodput_a is not None and [one.role for one in found.costs] == [
        "client",
        "server",
        "observer",
    ]
    text = comparison_text(found, ("vswitch", "passthrough"), 120)
    assert "CPU, median" in text and "2.10 cores" in text and "CPU per Gb/s, client" in text
    worse = compare(b, a)
    assert worse.verdict == "worse"


def test_without_a_requested_load_goodput_decides() -> None:
    found = compare([bulk(0.8, plan=PLAN)] * 3, [bulk(0.4, 1.5, plan=PLAN)] * 3)
    assert found.equal_load is None and verdicts(found) == [("goodput", "better")]


def test_runs_that_did_not_reach_the_load_are_not_ranked() -> None:
    slow = bulk(0.4, 0.81)
    found = compare([bulk(0.8)] * 3, [bulk(0.4), slow, bulk(0.4)])
    assert found.verdict == "refused"
    assert found.refusals == ("B 2: requested load not reached: 810 Mb/s of 1.00 Gb/s",)
    assert slow.why_not_ranked == (), "it may be compared with runs at another load"
    (text, *_) = [one.text for one in result_sentences(slow) if one.kind == "goodput"]
    assert text == "810 Mb/s received by b, 81 % of the requested 1.00 Gb/s"
    assert "requested" not in "".join(
        one.text for one in result_sentences(bulk(0.4)) if one.kind == "goodput"
    )
    few = paced(0.1, 80, 9000)
    assert (
        "A 1: requested load not reached: 900/s of 1.00 k/s"
        in compare([few] * 3, [paced(0.1, 80)] * 3).refusals
    )
    (text, *_) = [one.text for one in result_sentences(few) if one.kind == "transactions"]
    assert text.endswith(", 90 % of the requested 1.00 k/s")


@pytest.mark.parametrize(
    ("cores", "median", "verdict", "sentence"),
    [
        (0.05, 80.0, "better", "Better: B = 0.50× the CPU of A at 1.00 k/s (-50 %, "),
        (0.1, 40.0, "better", "Better: B = 1.00× the CPU of A"),
        (0.1, 160.0, "worse", "Worse: B = 1.00× the CPU of A"),
        (0.1, 80.0, "same", "No difference: B = 1.00× the CPU of A"),
        (0.05, 160.0, "not settled", "Inconclusive: B = 0.50× the CPU of A"),
        (0.05, 40.0, "better", "Better: B = 0.50× the CPU of A"),
    ],
)
def test_requests_at_equal_load_are_decided_by_cpu_and_latency(
    cores: float, median: float, verdict: str, sentence: str
) -> None:
    found = compare([paced(0.1, 80.0)] * 3, [paced(cores, median)] * 3)
    assert found.verdict == verdict and found.sentence.startswith(sentence)
    assert [name for name, _ in verdicts(found)] == ["cpu", "p50", "p99"]
    assert found.sentence.endswith(". The figures disagree.") == (verdict == "not settled")
    assert [one.per for one in found.costs] == ["transaction", "transaction"]


def test_a_wide_spread_of_cpu_has_no_verdict() -> None:
    found = compare([paced(0.1, 80.0), paced(0.3, 80.0), paced(0.1, 80.0)], [paced(0.2, 40.0)] * 3)
    assert found.verdict == "not settled" and "High variance" in found.sentence
