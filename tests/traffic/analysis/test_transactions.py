"""Figures, bottleneck, comparison and sentences of tests of requests and responses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.probe.records import GeneratorFloor, LatencyCounts, Qdisc
from nictop.probe.traffic.builtin.latency_buckets import bucket_of
from nictop.report.runs.comparison import comparison_text, figure_rows
from nictop.report.runs.points import column_titles, point_cells, set_up_points
from nictop.report.runs.sentences import plan_text, result_sentences
from nictop.report.runs.text import experiment_text, run_text, stored_runs_text
from nictop.traffic.analysis.comparison import compare, compare_stored_runs
from nictop.traffic.analysis.cpu_limits import SEEN_THERE
from nictop.traffic.analysis.setup_facts import (
    NicSetup,
    ReceiveCoalescing,
    SendQueueing,
    setup_facts,
)
from nictop.traffic.analysis.transactions import (
    floor_of,
    packet_bytes,
    transaction_bottleneck,
    transaction_figures,
)
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import TransactionInterval, TransactionTotal
from nictop.traffic.generators.latency import LatencyHistogram, LatencySummary
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.host_load import BusyCpu, ThreadLoad
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun, StoredRuns
from nictop.traffic.results.store import encode_run, parse_run
from nictop.traffic.results.transactions import Floor, TransactionFigures
from tests.traffic.plans import PLAN
from tests.traffic.runs import FACTS, load, result

RR = replace(PLAN, test="rr", generator="builtin", time=10)
FACTS_RR = {
    **FACTS,
    "generator": "builtin",
    "test": "rr",
    "request size": "64",
    "response size": "64",
}


def latencies(median: float, count: int = 100_000) -> LatencyHistogram:
    """`count` samples around a median in µs."""
    near = [bucket_of(round(1000 * median * factor)) for factor in (0.9, 1.0, 1.3)]
    counts = dict(zip(near, (count // 4, count // 2, count - count // 4 - count // 2), strict=True))
    return LatencyHistogram(counts, round(1000 * median * count))


def rr(median: float = 80.0, plan: RunPlan = RR, **more: object) -> Result:
    """A run of 10 s with one connection. `more`: fields of `Result` and of `TransactionFigures`."""
    own = {
        name: value
        for name, value in more.items()
        if name in TransactionFigures.__dataclass_fields__
    }
    figures = replace(TransactionFigures(10.0, latencies(median, round(1e7 / median))), **own)  # type: ignore[arg-type]
    hosts = tuple(
        replace(load(host, role), per_gigabit=None, per_transaction=median / 2e6)
        for host, role in (("a", "client"), ("b", "server"))
    )
    made = result(
        plan=plan,
        flows=(),
        ceiling=None,
        hosts=hosts,
        facts=FACTS_RR,
        transactions=figures,
        schema=2,
    )
    return replace(made, **{name: value for name, value in more.items() if name not in own})  # type: ignore[arg-type]


def floor(median: float, host: str = "a") -> Floor:
    return Floor(host, latencies(median, 10_000).summary(), rate=1e6 / median)


# ------------------------------------------------------------------------------------------ figures


def interval(
    start: float, count: int, *, omitted: bool = False, lost: int = 0
) -> TransactionInterval:
    found = LatencyHistogram({bucket_of(50_000): count}, 50_000 * count)
    return TransactionInterval(
        start, start + 1, 0.0, False, omitted=omitted, lost=lost, latency=found
    )


def test_figures_are_those_of_the_total() -> None:
    total = TransactionTotal(False, False, 2.0, 0.0, lost=1, latency=latencies(50, 400))
    reported = [
        (0.0, interval(0, 100, omitted=True)),
        (1.0, interval(0, 200)),
        (2.0, interval(1, 190, lost=1)),
    ]
    found = transaction_figures(RR, total, reported, (floor(20),), stopped=None)
    assert (
        found is not None
        and found.latency == total.latency
        and found.lost == 1
        and found.rate == 200.0
    )
    assert [(one.time, one.latency.count, one.lost) for one in found.points] == [
        (0.0, 100, 0),
        (1.0, 200, 0),
        (2.0, 190, 1),
    ]
    assert found.lost_share == pytest.approx(1 / 401)


def test_figures_of_a_stopped_run_are_its_measured_intervals() -> None:
    reported = [
        (0.0, interval(0, 100, omitted=True)),
        (1.0, interval(0, 200)),
        (2.0, interval(1, 190, lost=1)),
    ]
    found = transaction_figures(RR, None, reported, (), stopped=99.0)
    assert (
        found is not None and found.latency.count == 390 and (found.seconds, found.lost) == (2, 1)
    )
    assert transaction_figures(RR, None, reported[:1], (), stopped=99.0) is None


def test_figures_of_a_run_that_failed_are_those_until_its_last_answer() -> None:
    """There is no total: the generator waited in vain, and ended with an error."""
    empty = [(float(end), interval(end - 1, 0)) for end in (3, 4, 5)]
    reported = [(0.0, interval(0, 100, omitted=True)), (1.0, interval(0, 200)), *empty]
    found = transaction_figures(RR, None, reported, (), stopped=None)
    assert found is not None and (found.seconds, found.latency.count) == (1.0, 200)
    assert transaction_figures(RR, None, empty, (), stopped=None) is None
    failed = replace(rr(), transactions=found, failure=Failure("other", "no answer"), event="down")
    (rate,) = (one.text for one in result_sentences(failed) if one.kind == "transactions")
    assert rate == "▲ failed: 200 transactions/s (200 in 1.00 s, nothing after 1.00 s)"
    assert "nothing after" not in str(result_sentences(replace(failed, failure=None, event="")))


def test_files_that_were_not_reached() -> None:
    plan = replace(RR, test="crr", files=1000, time=60)
    total = TransactionTotal(False, False, 60.0, 0.0, latency=latencies(50, 813))
    found = transaction_figures(plan, total, (), (), stopped=None)
    assert found is not None and found.ended_early == "813 of 1000 transactions within 60 s"
    made = rr(plan=plan, ended_early=found.ended_early)
    assert "ended early: 813 of 1000 transactions within 60 s" in made.why_not_ranked


def test_replies_about_the_generator_alone() -> None:
    counts = LatencyCounts(20_000_000, (bucket_of(20_000), 1000))
    found = floor_of("a", GeneratorFloor((), 0.5, 1000, 0, counts))
    assert (
        found.rate == 2000.0
        and found.latency is not None
        and found.latency.p50 == pytest.approx(20e-6, rel=0.01)
    )
    assert floor_of("a", "Network is unreachable").problem == "Network is unreachable"
    assert floor_of("a", GeneratorFloor((), 0.5, 0, 0, LatencyCounts(0, ()))).latency is None
    assert floor_of("a", GeneratorFloor((), 0.5, 5, 0, LatencyCounts(0, (-5, 1)))).latency is None


def test_the_generator_alone_limits_a_run_that_is_not_far_above_it() -> None:
    assert rr(80, floors=(floor(60), floor(80, "b"))).why_not_ranked == (
        "limited by the generator",
    )
    assert rr(80, floors=(floor(20), floor(30, "b"))).why_not_ranked == ()
    unknown = rr(80, floors=(Floor("a", None, problem="no loopback"),))
    assert unknown.why_not_ranked == ()
    assert "a: not measured over loopback (no loopback)" in [
        one.text for one in result_sentences(unknown)
    ]
    assert rr(transactions=None).why_not_ranked == ("no transactions",)


def test_bytes_of_small_messages_are_mostly_headers() -> None:
    (sent, received), factor = packet_bytes(RR, 1000)
    assert sent == received == 1000 * (64 + 52) and 1 < factor < 3
    (sent, received), factor = packet_bytes(
        replace(RR, test="crr", request_size=1, response_size=100_000), 10
    )
    assert sent == 10 * (1 + 3 * 52) and received == 10 * (100_000 + 2 * 52)


# --------------------------------------------------------------------------------------- bottleneck


def limits(
    run: Result, setups: dict[str, NicSetup] | None = None
) -> tuple[str, list[tuple[str, str]]]:
    """The sentence, and (limit, verdict) of each row."""
    sentence, rows = transaction_bottleneck(run, setups or {})
    return sentence, [(one.limit, one.verdict) for one in rows]


def test_bottlenecks() -> None:
    sentence, rows = limits(rr())
    assert sentence.startswith(
        "not determined; possible: generator (its own latency was not measured), network"
    )
    assert ("lost requests", "excluded") in rows and ("CPU sleep states", "possible") in rows
    sentence, rows = limits(rr(floors=(floor(75),)))
    assert sentence.startswith("generator: 75.0 µs of the median latency of 80.") and rows[0] == (
        "generator",
        "cause",
    )
    assert "network between the hosts" not in dict(rows), (
        "what no counter shows is possible only without a cause"
    )
    lossy = rr(lost=10_000, plan=replace(RR, protocol="udp"))
    assert limits(lossy)[0].startswith("lost requests: 7.4 % of all; each stops its connection")
    netem = Qdisc("netem", "1:", delay=70e-6)
    delayed = {"a": NicSetup(qdiscs=(SendQueueing("ens4", "netem", (netem,)),), host="a")}
    assert limits(rr(), delayed)[0].startswith(
        "qdisc netem delay 70us of ens4 on a: 70.0 µs of the median"
    )
    sentence, rows = limits(rr(800), delayed)
    assert sentence.startswith("not determined")
    assert ("qdisc netem delay 70us of ens4 on a", "excluded") in rows
    assert ("qdisc netem delay 70us of ens4 on a", "possible") in limits(rr(120), delayed)[1]


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(12_000_000, "cause"), (20_000_000, "possible"), (100_000_000, "excluded"), (None, "")],
)
def test_a_limited_rate_is_examined(rate: int | None, verdict: str) -> None:
    """12,500 transactions of 116 bytes per second carry 11.6 Mb/s each way."""
    tbf = Qdisc("tbf", "1:", rate=rate)
    limited = {"a": NicSetup(qdiscs=(SendQueueing("ens4", "tbf", (tbf,)),), host="a")}
    rows = transaction_bottleneck(rr(floors=(floor(20),)), limited)[1]
    found = [(one.verdict, one.value) for one in rows if one.limit.startswith("qdisc tbf")]
    if not verdict:
        assert found == []
        return
    ((judged, value),) = found
    assert judged == verdict and "the transactions carry at least 11.6 Mb/s of" in value


@pytest.mark.parametrize(
    ("own", "verdict"),
    [(75, "cause"), (60, "possible"), (29, "possible"), (9, "possible"), (7, "excluded")],
)
def test_a_generator_that_takes_a_tenth_of_the_latency_is_not_excluded(
    own: int, verdict: str
) -> None:
    assert ("generator", verdict) in limits(rr(80, floors=(floor(own),)))[1]


@pytest.mark.parametrize(("mean", "verdict"), [(23_600, "possible"), (700, "excluded")])
def test_a_generator_with_a_long_mean_is_not_excluded_by_its_median(
    mean: float, verdict: str
) -> None:
    """698 µs of the median of 81.5 ms, but 23.6 ms of a mean of about that."""
    known = floor(698)
    assert known.latency is not None
    slow = replace(known, latency=replace(known.latency, mean=mean / 1e6))
    run = rr(81_500, floors=(slow,))
    assert ("generator", verdict) in limits(run)[1]
    texts = {one.kind: one.text for one in result_sentences(run)}
    assert ("p50 698 µs, mean 23.6 ms" in texts["floor"]) == (verdict == "possible")
    if verdict == "possible":
        rows = transaction_bottleneck(run, {})[1]
        (value,) = (one.value for one in rows if one.limit == "generator")
        assert value.startswith("23.6 ms of the mean latency of 8"), value


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (ReceiveCoalescing("ens4", {"rx-usecs": 0, "rx-frames": 1}), "none"),
        (ReceiveCoalescing("ens4", None, offered=False), "none"),
        (
            ReceiveCoalescing("ens4", None, offered=False, driver="vmxnet3"),
            "by the hypervisor, not known",
        ),
        (ReceiveCoalescing("ens4", {"rx-usecs": 3}), "at most 3.00 µs"),
        (ReceiveCoalescing("ens4", {"rx-usecs": 50, "adaptive-rx": 0}), "at most 50.0 µs"),
        (ReceiveCoalescing("ens4", {"rx-usecs": 50, "adaptive-rx": 1}), "adaptive"),
        (ReceiveCoalescing("ens4", {"rx-usecs": 3}, driver="igb"), "adaptive"),
        (ReceiveCoalescing("ens4", {"rx-usecs": 0, "rx-frames": 64}), "not known: no rx-usecs"),
        (ReceiveCoalescing("ens4", {}), "not known: no rx-usecs"),
        (ReceiveCoalescing("ens4", None), "not read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_interrupt_coalescing_is_judged_by_what_was_read(own: ReceiveCoalescing, text: str) -> None:
    setups = {"a": NicSetup(coalescing=(own,)), "b": NicSetup(coalescing=(NONE,))}
    rows = {one.limit: one for one in transaction_bottleneck(rr(80), setups)[1]}
    row = rows["interrupt coalescing"]
    assert row.value == f"ens4 of a {text}, ens4 of b none"
    assert row.verdict == ("excluded" if text in ("none", "at most 3.00 µs") else "possible")


NONE = ReceiveCoalescing("ens4", {"rx-usecs": 0, "rx-frames": 1})


def test_what_the_ends_do_not_have_is_excluded() -> None:
    absent = NicSetup(coalescing=(NONE,), idle_driver="none", is_guest=False)
    rows = {
        one.limit: (one.value, one.verdict)
        for one in transaction_bottleneck(rr(80), {"a": absent, "b": absent})[1]
    }
    told = "a none: no cpuidle driver, b none: no cpuidle driver"
    assert rows["CPU sleep states"] == (told, "excluded")
    assert rows["hypervisor"] == ("none detected on a and b", "excluded")
    there = replace(absent, idle_driver="intel_idle", is_guest=True)
    rows = {
        one.limit: (one.value, one.verdict)
        for one in transaction_bottleneck(rr(80), {"a": absent, "b": there})[1]
    }
    told = "a none: no cpuidle driver, b cpuidle driver intel_idle, time of its wake-ups not known"
    assert rows["CPU sleep states"] == (told, "possible")
    assert rows["hypervisor"] == ("", "possible")


def test_ends_on_one_machine_have_no_network_between_them() -> None:
    here = PathProof("failed", "both ends are on one machine", one_machine=True)
    rows = dict(limits(rr(80, proof=here))[1])
    assert "network between the hosts" not in rows
    assert rows["both ends share this machine"] == "possible"


def with_full_cpus(**full: tuple[BusyCpu, ThreadLoad]) -> Result:
    """A run with a nearly full CPU of these hosts, and the thread that ran there."""
    run = rr(floors=(floor(4),))
    hosts = {one.host: one for one in run.hosts}
    for name, (cpu, thread) in full.items():
        hosts[name] = replace(hosts[name], full=(cpu,), threads=(thread,))
    return replace(run, hosts=tuple(hosts.values()))


OTHERS = ThreadLoad("sh", 580, 0.97, (3,))
OWN = ThreadLoad("iperf3", 600, 0.9, (3,), generator=True)


def test_a_cpu_that_others_fill_is_possible_on_both_hosts() -> None:
    """Neither is the cause, and neither is excluded: the same share has the same verdict."""
    full = (BusyCpu(3, 0.98, 0.01), OTHERS)
    sentence, rows = transaction_bottleneck(with_full_cpus(a=full, b=full), {})
    assert sentence.startswith("not determined; possible: CPU 3 on a, 98 % busy, most of it not by")
    verdicts = {one.limit: (one.verdict, one.value) for one in rows}
    told = f"98 % busy, most of it not by this test; {SEEN_THERE}: sh (pid 580) 97 %"
    assert verdicts["CPU 3 on a"] == verdicts["CPU 3 on b"] == ("possible", told)


def test_a_cpu_that_the_run_fills_is_the_cause() -> None:
    run = with_full_cpus(b=(BusyCpu(3, 0.97, 0.02), OWN))
    assert limits(run)[0].startswith("CPU 3 on b, 97 % busy; seen there (time on all CPUs, in %")


def test_a_cpu_that_is_nearly_full_is_not_excluded() -> None:
    rows = limits(with_full_cpus(a=(BusyCpu(3, 0.94, 0.01), OTHERS)))[1]
    assert ("CPU 3 on a", "possible") in rows and ("CPU of b", "excluded") in rows


# --------------------------------------------------------------------------------------- comparison


def test_comparison_of_transactions_and_latencies() -> None:
    a, b = [rr(one) for one in (80, 81, 80)], [rr(one) for one in (60, 61, 60.5)]
    found = compare(a, b, names=("virtio", "igb"))
    assert found.verdict == "better" and found.goodput_a is None and found.goodput_b is None
    transactions, p50, p99 = found.figures
    assert (transactions.name, p50.name, p99.name) == ("transactions", "p50", "p99")
    assert (
        found.ratio == transactions.ratio
        and transactions.ratio is not None
        and transactions.ratio.estimate > 1.3
    )
    assert (
        p50.verdict == p99.verdict == "better"
        and p50.ratio is not None
        and p50.ratio.estimate < 0.8
    )
    assert found.sentence.startswith(
        "Better: igb = 1.33× the transactions/s of virtio (+33 %, 95 % CI 1.31–1.34); latency p50 "
        "0.75× ("
    )
    cost = found.costs[0]
    assert (cost.role, cost.per) == ("client", "transaction")
    assert cost.a is not None and cost.a.median == pytest.approx(40e-6, rel=0.01)
    assert cost.b is not None and cost.b.median == pytest.approx(30.2e-6, rel=0.01)
    rows = figure_rows(found)
    assert [row[0] for row in rows[1:6]] == [
        "transactions/s", "latency p50", "latency p99", "CPU per transaction, client", "CPU per "
                                                                                       "transaction, server",
    ]  # fmt: skip
    assert "latency p50, median" in comparison_text(found, ("virtio", "igb"), 100)
    assert compare(b, a).verdict == "worse" and compare(b, a).figures[1].verdict == "worse"


def test_a_percentile_with_too_few_samples_has_no_ratio() -> None:
    few = [rr(latency=latencies(80, 500)) for _ in range(3)]
    found = compare(few, [rr(latency=latencies(40, 500)) for _ in range(3)])
    assert (
        found.figures[2].ratio is None and "latency p99 unknown (too few samples)" in found.sentence
    )


def test_different_tests_are_not_compared() -> None:
    found = compare([rr()] * 3, [result()] * 3)
    assert found.verdict == "refused" and "different tests: rr, bulk" in found.refusals
    sizes = compare([rr()] * 3, [rr(facts={**FACTS_RR, "request size": "1"})] * 3)
    assert "request size differs: 64 B and 1 B" in sizes.refusals
    assert compare(
        [rr()] * 3, [rr(facts={**FACTS_RR, "request size": "1"})] * 3, compared=("request size",)
    ).ratio


def test_facts() -> None:
    found = setup_facts(replace(RR, files=None, request_size=1, response_size=4096), {}, {})
    assert (found["test"], found["request size"], found["response size"]) == ("rr", "1", "4096")
    assert "length" not in found and "test" not in setup_facts(PLAN, {}, {}), (
        "as in results of older versions"
    )


# ------------------------------------------------------------------------------------------- text


def test_sentences() -> None:
    made = rr(floors=(floor(20), floor(30, "b")), lost=2, plan=replace(RR, protocol="udp"))
    texts = {one.kind: one.text for one in result_sentences(made)}
    assert (
        texts["transactions"]
        == "12.5 k transactions/s (125000 in 10.0 s); 2 of 125002 requests lost (<0.1 %)"
    )
    assert texts["latency"].startswith("p50 80.") and "p99.9 10" in texts["latency"]
    assert texts["floor"] == "b: over loopback p50 30.0 µs, 33.3 k/s"
    assert ", 40.0 µs CPU per transaction" in texts["client"]
    few = {one.kind: one.text for one in result_sentences(rr(latency=latencies(80, 500)))}
    assert (
        "p99 too few samples (1000 needed), p99.9 too few samples (10000 needed)" in few["latency"]
    )


def test_plans_in_words() -> None:
    assert plan_text(RR) == "request/response, TCP, 1 connection, 10 s, 64 B, built-in generator"
    files = replace(
        RR, test="crr", streams=4, request_size=64, response_size=4096, files=1000, time=60
    )
    assert plan_text(files) == (
        "connect/request/response/close, TCP, 4 connections, at most 60 s, 64 B:4.00 KiB, 1000 "
        "transactions, "
        "built-in generator"
    )


def stored(made: Result, number: int, **more: object) -> StoredRun:
    run = StoredRun(
        f"run{number}", "experiment", made, 1_790_000_000.0 + number, "0.1", number=number
    )
    return replace(run, **more)  # type: ignore[arg-type]


def test_text_of_runs_and_lists() -> None:
    text = run_text(rr(), 100)
    assert (
        "request/response, TCP, 1 connection" in text
        and "per transaction" in text
        and "b/s" not in text
    )
    sweep = [
        stored(rr(80.0 + number), number, kind="sweep", variable="size", value=size, group=size)
        for number, size in enumerate(("1", "64", "4K"))
    ]
    points = set_up_points(sweep)
    assert column_titles(points, "size")[2:7] == (
        "median",
        "lowest",
        "highest",
        "latency p50",
        "latency p99",
    )
    assert point_cells(points[0])[:6] == ("1", "1", "12.5 k/s", "12.5 k", "12.5 k", "80.1 µs")
    assert "CPU time of all cores per transaction" in experiment_text(sweep, 120)
    listed = stored_runs_text(StoredRuns(tuple((Path("x"), one) for one in sweep[:1])), 120)
    assert " rr TCP size 1 " in listed and "12.5 k/s" in listed


def test_comparison_of_stored_runs_with_two_sizes() -> None:
    a = [
        stored(rr(), number, kind="compare", group="A", variable="size", value="64")
        for number in range(3)
    ]
    larger = rr(90, facts={**FACTS_RR, "request size": "4096", "response size": "4096"})
    b = [
        stored(larger, number, kind="compare", group="B", variable="size", value="4K")
        for number in range(3)
    ]
    assert compare_stored_runs(a, b, ("64", "4K")).verdict == "worse"


def test_unknown_latencies() -> None:
    nothing = LatencyHistogram({}, 0)
    assert nothing.summary() == LatencySummary(0) and rr(latency=nothing).why_not_ranked == (
        "no transactions",
    )
    assert TransactionFigures(0.0, nothing).rate is None


# ----------------------------------------------------------------------------------- stored results


def test_stored_results_of_both_kinds() -> None:
    """Those of older versions lack the new fields; of a new kind of test the schema is higher."""
    new = stored(rr(floors=(floor(20),)), 1)
    assert (
        parse_run(encode_run(new)) == new and json.loads(encode_run(new))["result"]["schema"] == 2
    )
    bulk = stored(result(), 2)
    old = json.loads(encode_run(bulk))
    assert old["result"]["schema"] == 1, "an older nictop can read it"
    del old["result"]["transactions"]
    for name in ("test", "request_size", "response_size", "files"):
        del old["result"]["plan"][name]
    for load_ in old["result"]["hosts"]:
        del load_["per_transaction"]
    assert parse_run(json.dumps(old).encode()) == bulk
