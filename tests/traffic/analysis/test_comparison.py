"""A verdict is given if the runs support it, and refused with the reason otherwise."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.traffic.analysis.comparison import (
    alternating_order,
    compare,
    fact_texts,
    pair_ratio,
    spread,
)
from nictop.traffic.failures import Failure
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import ExaminedLimit, Result
from tests.traffic.plans import PLAN
from tests.traffic.runs import FACTS, load, result


def runs(*gigabits: float, **more: object) -> list[Result]:
    return [result(one, **more) for one in gigabits]


def test_order_alternates() -> None:
    assert "".join(alternating_order(5)) == "ABBAABBAAB"
    assert alternating_order(0) == ()
    places = [
        sum(index for index, name in enumerate(alternating_order(6)) if name == which)
        for which in "AB"
    ]
    assert places[0] == places[1]


@pytest.mark.parametrize("good", [0, 2])
def test_run_that_did_not_start_differs_in_nothing_that_is_not_known(good: int) -> None:
    """As after a set-up command that failed: its facts were not read."""
    failed = replace(
        result(), flows=(), failure=Failure("start", "the set-up command failed"), facts={}
    )
    compared = compare([failed, *runs(*[5.0] * good), failed][:3], runs(5.0, 5.0, 5.0))
    assert compared.verdict == "refused" and compared.differences == ()
    assert "failed" in compared.sentence and "differs: –" not in compared.sentence


def test_students_interval() -> None:
    # logarithms of the ratios: 0.1, 0.2, 0.3; mean 0.2, deviation 0.1; t(0.975; 2) = 4.303, through
    # the root of 3
    a = [1.0, 1.0, 1.0]
    b = [math.exp(0.1), math.exp(0.2), math.exp(0.3)]
    found = pair_ratio(a, b)
    assert found is not None
    assert found.estimate == pytest.approx(math.exp(0.2))
    assert found.low == pytest.approx(math.exp(0.2 - 4.303 * 0.1 / math.sqrt(3)))
    assert found.high == pytest.approx(math.exp(0.2 + 4.303 * 0.1 / math.sqrt(3)))


def test_interval_of_equal_ratios_has_no_width() -> None:
    found = pair_ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert found is not None and (found.low, found.estimate, found.high) == pytest.approx(
        (2.0, 2.0, 2.0)
    )


@given(st.lists(st.tuples(st.floats(1e-6, 1e13), st.floats(1e-6, 1e13)), min_size=2, max_size=50))
def test_swapped_comparison_has_the_inverse_interval(values: list[tuple[float, float]]) -> None:
    there = pair_ratio([a for a, _ in values], [b for _, b in values])
    back = pair_ratio([b for _, b in values], [a for a, _ in values])
    assert there is not None and back is not None
    assert 0 <= there.low <= there.estimate * 1.0000001 and there.estimate <= there.high * 1.0000001
    assert back.estimate == pytest.approx(1 / there.estimate)
    if there.low > 0 and math.isfinite(there.high):
        assert back.low == pytest.approx(1 / there.high) and back.high == pytest.approx(
            1 / there.low
        )


@pytest.mark.parametrize(
    "pairs",
    [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([0.0, 1.0], [1.0, 1.0]), ([math.nan, 1.0], [1.0, 1.0])],
)
def test_pairs_without_a_ratio(pairs: tuple[list[float], list[float]]) -> None:
    assert pair_ratio(*pairs) is None


def test_spread() -> None:
    found = spread([3.0, 1.0, 2.0])
    assert found is not None and (found.median, found.lowest, found.highest) == (2.0, 1.0, 3.0)
    assert spread([]) is None


def test_verdicts() -> None:
    a = runs(5.0, 5.1, 4.9, 5.0, 5.05)
    better = compare(a, runs(9.0, 9.1, 9.0, 9.2, 9.1), names=("virtio", "passthrough"))
    assert better.verdict == "better"
    assert better.sentence.startswith("Better: passthrough = 1.81× of virtio")
    assert compare(runs(9.0, 9.1, 9.0), runs(5.0, 5.1, 4.9)).verdict == "worse"
    assert compare(a, runs(5.0, 5.11, 4.9, 5.01, 5.04)).verdict == "same"
    unsettled = compare(a, runs(4.0, 7.0, 5.0, 6.5, 4.2))
    assert unsettled.verdict == "not settled" and "add runs" in unsettled.sentence
    assert "check for other load" in unsettled.sentence
    assert (better.goodput_a, better.goodput_b) != (None, None)


def test_cpu_cost_is_compared() -> None:
    cheap = (load("a", per_gigabit=0.05), load("b", "server", per_gigabit=0.08))
    found = compare(runs(5.0, 5.1, 4.9), runs(5.0, 5.1, 4.9, hosts=cheap))
    client, server = found.costs
    assert client.ratio is not None and client.ratio.estimate == pytest.approx(0.5)
    assert server.a is not None and server.b is not None
    assert (server.a.median, server.b.median) == pytest.approx((0.10, 0.08))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"facts": FACTS | {"mtu": "9000"}}, "mtu differs: 1500 and 9000"),
        (
            {"facts": FACTS | {"client iperf3": "iperf3 3.22"}},
            "client iperf3 differs: iperf3 3.12 and",
        ),
        ({"hosts": (load("a", steal=0.4), load("b", "server"))}, "a: 10 % CPU steal"),
        ({"hosts": (load("a", busy=None), load("b", "server"))}, "a: CPU not measured"),
        (
            {"proof": PathProof("failed", "a: ens3 carried it")},
            "path not verified: a: ens3 carried it",
        ),
        ({"proof": None}, "path not checked"),
        ({"failure": Failure("stall", "the link died")}, "failed: the link died"),
        ({"flows": ()}, "goodput of the receiver unknown"),
    ],
)
def test_runs_that_are_not_ranked(wrong: dict[str, object], reason: str) -> None:
    found = compare(runs(5.0, 5.1, 4.9), runs(9.0, 9.1, 9.0, **wrong))
    assert found.verdict == "refused" and found.ratio is None
    assert any(reason in one for one in found.refusals), found.refusals


def test_of_single_runs_the_difference_is_told_and_then_why_they_are_not_ranked() -> None:
    found = compare(runs(5.0), runs(8.0))
    assert found.sentence == (
        "A 5.00 Gb/s, B 8.00 Gb/s: B/A 1.60 (+60 %). Not ranked: one run each: spread unknown; "
        "repeat with --repeat 5"
    )
    assert compare(runs(5.0), []).sentence.startswith(
        "A 5.00 Gb/s, B no completed run. Not ranked: "
    )


def test_a_planned_duration_is_called_that_and_the_measured_one_is_said_if_it_differs() -> None:
    """The cable was cut: the generators took longer than planned."""
    (five,) = runs(5.0, plan=replace(PLAN, time=5), facts=FACTS | {"time": "5"})
    (ten,) = runs(5.0, plan=replace(PLAN, time=10), facts=FACTS | {"time": "10"})

    def with_seconds(run: Result, seconds: float) -> Result:
        (one,) = run.flows
        assert one.received is not None
        received = replace(one.received, seconds=seconds)
        return replace(run, flows=(replace(one, received=received),))

    five = with_seconds(five, 5.0)
    refusals = compare([with_seconds(ten, 10.02)], [five]).refusals
    assert "planned duration of the test differs: 10 s and 5 s" in refusals
    cut = compare([with_seconds(ten, 17.3)], [five]).refusals
    words = "planned duration of the test differs: 10 s and 5 s (measured: 17.3 s and 5.00 s)"
    assert words in cut


def test_what_differs_has_its_name_and_its_unit() -> None:
    """``time: 2 → 3`` says neither what it is the time of, nor in what."""
    short, long = FACTS | {"time": "2", "bitrate": "default"}, FACTS | {"time": "3"}
    found = compare(runs(5.0, facts=short), runs(8.0, facts=long | {"bitrate": "10000000"}))
    assert found.difference_texts == (
        ("planned duration of the test", "2 s", "3 s"),
        ("bitrate", "default", "10.0 Mb/s"),
    )
    words = "planned duration of the test differs: 2 s and 3 s"
    assert any(one.startswith(words) for one in found.refusals)
    close = fact_texts("bitrate", "10000000", "10000001")
    assert close == ("10000000", "10000001"), "three digits are alike"


def test_a_difference_within_the_spread_of_the_runs_is_called_that() -> None:
    assert "(+6 %, within the spread of the runs)" in compare(runs(5, 6), runs(5.5, 6.2)).known_text


def test_steal_of_an_observer_is_ignored() -> None:
    hosts = (load("a"), load("b", "server"), load("hypervisor", "observer", steal=3.0))
    assert compare(runs(5.0, 5.1, 4.9), runs(9.0, 9.1, 9.0, hosts=hosts)).verdict == "better"


def test_too_few_and_unpaired_runs_have_no_verdict() -> None:
    two = compare(runs(5.0, 5.1), runs(9.0, 9.1))
    assert two.refusals == ("A has 2 runs, B has 2 runs, 3 needed: repeat with --repeat 5",)
    assert two.sentence.startswith(
        "A 5.05 Gb/s, B 9.05 Gb/s (medians): B/A 1.79 (+79 %, more than the spread of the runs). "
        "Not ranked: A has 2 runs,"
    )
    assert (
        "unequal number of runs: 3 of A, 4 of B"
        in compare(runs(5, 5, 5), runs(9, 9, 9, 9)).refusals
    )
    assert compare([], []).verdict == "refused"


def test_only_compared_facts_may_differ() -> None:
    other = FACTS | {"mtu": "9000", "client driver": "igbvf"}
    found = compare(runs(5, 5.1, 4.9), runs(9, 9.1, 9.2, facts=other), compared=("mtu",))
    assert found.verdict == "better"
    assert found.differences == (("mtu", "1500", "9000"), ("client driver", "virtio_net", "igbvf"))


def test_repeats_of_one_set_up_must_not_differ() -> None:
    mixed = [result(5.0), result(5.0, facts=FACTS | {"mtu": "9000"}), result(5.0)]
    assert "mtu differs between the runs of A" in compare(mixed, runs(9, 9, 9)).refusals


def test_the_limits_that_the_results_name_are_told_where_they_differ() -> None:
    """One of 10 Gb/s by a CPU, one of 200 Mb/s by tbf: only the hosts were named."""
    fast = replace(result(10.0), limits=(ExaminedLimit("CPU 1 on b", "99 %", "cause"),))
    slow = replace(result(0.2), limits=(ExaminedLimit("tbf of lab0 on a", "200 Mb/s", "cause"),))
    unknown = replace(result(5.0), limits=(ExaminedLimit("CPU 1 on b", "", "possible"),))
    rows = compare([fast], [slow]).difference_texts
    assert ("held back by", "CPU 1 on b", "tbf of lab0 on a") in rows
    rows = compare([fast], [unknown]).difference_texts
    assert ("held back by", "CPU 1 on b", "not determined") in rows
    assert compare([fast], [fast]).difference_texts == ()
