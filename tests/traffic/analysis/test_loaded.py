"""Loaded runs: phases, where the additional latency arises, sentences, ranking, comparison."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from nictop.cli.traffic.progress import ProgressLines
from nictop.probe.traffic.builtin.latency_buckets import bucket_of
from nictop.report.render.text import text_of
from nictop.report.runs.comparison import comparison_text
from nictop.report.runs.json import run_report, traffic_schema
from nictop.report.runs.markdown import run_markdown
from nictop.report.runs.points import column_titles, point_cells, set_up_points
from nictop.report.runs.run_document import run_titles
from nictop.report.runs.sentences import plan_text, result_sentences
from nictop.report.runs.text import experiment_text, run_text
from nictop.traffic.analysis.comparison import compare, compare_stored_runs
from nictop.traffic.analysis.loaded import added_latency, delay_text, loaded_figures
from nictop.traffic.experiment.experiment import Experiment, ExperimentStep, StepStarted
from nictop.traffic.generators.intervals import Interval, TransactionInterval
from nictop.traffic.generators.latency import EMPTY, LatencyHistogram
from nictop.traffic.plan.plan import LOAD_RAMP_SECONDS, RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import Problem
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.host_load import Busy, BusyCpu
from nictop.traffic.results.result import ExaminedLimit, Result, SocketFigures
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import encode_run, parse_run
from nictop.traffic.results.transactions import IdlePhase, TransactionFigures
from nictop.traffic.run.events import Stage
from tests.traffic.analysis.test_transactions import floor, latencies
from tests.traffic.plans import PLAN
from tests.traffic.runs import FACTS, flow, load, result

LOADED = replace(PLAN, test="loaded", time=10)
SOCKETS = SocketFigures("a", 47_500, 1448, 400, 0.0, 0.0, "cubic")


def loaded(
    median: float = 310.0,
    busy: float = 48_200.0,
    megabits: float = 94.1,
    count: int = 2000,
    **more: object,
) -> Result:
    """A run whose medians are `median` and `busy` µs. `more`: fields of `Result` and of
    `TransactionFigures`."""
    own = {
        name: value
        for name, value in more.items()
        if name in TransactionFigures.__dataclass_fields__
    }
    figures = TransactionFigures(
        10.0,
        latencies(busy, count),
        idle=IdlePhase(10.0, latencies(median, count)),
        loaded_since=12.2,
    )
    made = result(
        plan=LOADED,
        flows=(flow(megabits / 1000),),
        ceiling=None,
        sockets=(SOCKETS,),
        transactions=replace(figures, **own),  # type: ignore[arg-type]
        schema=2,
    )
    made = replace(made, **{name: value for name, value in more.items() if name not in own})  # type: ignore[arg-type]
    if made.transactions is None:
        return made
    return replace(made, transactions=replace(made.transactions, delay=delay_text(made)))


# ------------------------------------------------------------------------------------------- plan


def test_a_loaded_run_is_a_run_of_requests_and_a_bulk_flow() -> None:
    plan = replace(
        LOADED, direction="reverse", protocol="udp", bitrate=5, streams=4, length=9, mss=900,
        window=5000, omit=1, congestion="cubic", zerocopy=True, dscp=46, request_size=8,
        response_size=9, client_cpu=1, port=65535,
    )  # fmt: skip
    requests, bulk = plan.requests, plan.load
    assert bulk is not None and plan_problems(plan) == ()
    assert (requests.test, requests.generator, requests.protocol, requests.rate) == (
        "rr",
        "builtin",
        "udp",
        200,
    )
    assert (requests.streams, requests.bitrate, requests.direction, requests.omit) == (
        1,
        None,
        "forward",
        1,
    )
    assert (requests.sizes, requests.dscp, requests.client_cpu, requests.port) == (
        (8, 9),
        46,
        1,
        65535,
    )
    assert (bulk.test, bulk.generator, bulk.protocol, bulk.rate) == ("bulk", "iperf3", "tcp", None)
    assert (bulk.streams, bulk.bitrate, bulk.direction, bulk.omit) == (
        4,
        5,
        "reverse",
        LOAD_RAMP_SECONDS,
    )
    assert (bulk.length, bulk.mss, bulk.window, bulk.congestion, bulk.zerocopy) == (
        9,
        900,
        5000,
        "cubic",
        True,
    )
    assert (bulk.time, bulk.port, plan.seconds, plan.span) == (10, 65534, 23, 22)
    assert requests.time > plan.span, "the requests outlast the bulk flow"
    assert plan_problems(requests) == plan_problems(bulk) == ()
    assert (PLAN.requests, PLAN.load) == (PLAN, None)
    assert plan.sending == ("server",) and replace(LOADED, direction="bidirectional").sending == (
        "client",
        "server",
    )
    assert replace(LOADED, rate=1000).requests.rate == 1000


@pytest.mark.parametrize(
    ("seconds", "interval", "found"), [(10, 0.5, 0.5), (1, 0.5, 0.2), (600, 60.0, 5.0)]
)
def test_several_reports_of_both_parts_lie_in_each_phase(
    seconds: int, interval: float, found: float
) -> None:
    """A report that is not wholly in a phase is not counted, and the bulk flow is started after
    one."""
    plan = replace(LOADED, time=seconds, interval=interval)
    assert plan.load is not None and plan.requests.interval == plan.load.interval == found


def test_too_many_streams_are_those_of_the_bulk_flow() -> None:
    (problem,) = plan_problems(replace(LOADED, streams=129))
    assert problem == Problem("streams", "streams must be 1 to 128, not 129")


# ------------------------------------------------------------------------------------------- phases


def interval(
    end: float, median: int, *, count: int = 100, omitted: bool = False
) -> tuple[float, TransactionInterval]:
    """(end on the axis, an interval of 1 s with so many requests of `median` µs)"""
    found = LatencyHistogram({bucket_of(1000 * median): count}, 1000 * median * count)
    return end, TransactionInterval(
        end - 1, end, 0.0, False, omitted=omitted, lost=median // 1000, latency=found
    )


IDLE, STARTING, RAMP, UNDER_LOAD, AFTER = 100, 2000, 9000, 50_000, 70_000
TIMELINE = [
    interval(0, 9_999, omitted=True), interval(1, IDLE), interval(2, IDLE), interval(3, STARTING),
    interval(4, RAMP), interval(5, RAMP), interval(6, UNDER_LOAD), interval(7, UNDER_LOAD),
    interval(8, AFTER),
]  # fmt: skip


def test_only_intervals_within_a_phase_count() -> None:
    """The bulk flow is started at 2.3 s, its measured seconds are those from 4.6 to 7.5 s."""
    found = loaded_figures(TIMELINE, 2.3, (4.6, 7.5), (floor(20),))
    assert found is not None and found.idle is not None
    assert (found.idle.seconds, found.idle.lost, list(found.idle.latency.counts)) == (
        2.0,
        0,
        [bucket_of(1000 * IDLE)],
    )
    assert (found.seconds, found.lost, list(found.latency.counts)) == (
        2.0,
        100,
        [bucket_of(1000 * UNDER_LOAD)],
    )
    assert (
        found.loaded_since == 4.6
        and len(found.points) == len(TIMELINE)
        and found.floors == (floor(20),)
    )
    assert found.rate == 100.0


@pytest.mark.parametrize(("begun", "window"), [(2.0, (5.0, 7.0)), (2.04, (4.96, 7.04))])
def test_an_interval_that_ends_with_a_phase_is_not_in_it(
    begun: float, window: tuple[float, float]
) -> None:
    """Lines of generators may come late: which one was first is not known then."""
    found = loaded_figures(TIMELINE, begun, window, ())
    assert found is not None and found.idle is not None
    assert (found.idle.seconds, found.seconds) == (1.0, 0.0) and found.loaded_since is None


def test_the_interval_after_which_the_bulk_flow_is_started_is_idle() -> None:
    """It was received before: whatever the times say, which are known to 50 ms."""
    for begun in (2.0, 2.03, 1.98):
        found = loaded_figures(TIMELINE, begun, (5.0, 7.0), (), 2.0)
        assert found is not None and found.idle is not None
        assert found.idle.seconds == 2.0, "without the omitted one, and that of the start"


def test_a_result_says_of_how_much_of_a_phase_it_is() -> None:
    short = "(of 10 s: intervals that lie only partly in the phase are left out)"
    assert sentences(loaded(seconds=8.0))["loaded"].endswith(f" in 8.00 s {short}")
    assert short not in sentences(loaded())["loaded"]
    assert short not in sentences(loaded(seconds=8.0, stopped=20.0))["loaded"]


def test_a_run_that_was_stopped_in_its_idle_phase() -> None:
    found = loaded_figures(TIMELINE[:3], None, None, ())
    assert found is not None and found.idle is not None and found.idle.seconds == 2.0
    assert (found.seconds, found.latency.count, found.loaded_since) == (0, 0, None)
    made = loaded(transactions=found, flows=(flow(0.0, received=None),), stopped=2.1)
    assert made.why_not_ranked[0] == "stopped after 2.0 of 22 s" and made.transactions == found
    kinds = [one.kind for one in result_sentences(made)]
    assert "idle" in kinds and "loaded" not in kinds and "under load" not in kinds
    assert loaded_figures([interval(1, IDLE, count=0)], None, None, ()) is None


# ---------------------------------------------------------------------------------- where it arises


def test_round_trips_of_the_bulk_flow_tell_a_queue_from_a_busy_cpu() -> None:
    assert loaded().transactions is not None
    assert delay_text(loaded()) == "packets wait in a queue (bufferbloat, about 542 KiB)"
    short = (replace(SOCKETS, rtt=400),)
    expected = (
        "processes wait for a CPU, not packets in a queue (round-trip time of the bulk flow 400 µs)"
    )
    assert delay_text(loaded(sockets=short)) == expected
    full = (load("a", full=(BusyCpu(2, 1.0, 0.5),)), load("b", "server"))
    assert delay_text(loaded(sockets=short, hosts=full)).endswith("(CPU 2 on a 100 % busy)")
    far = loaded(
        median=100_000, busy=160_000, floors=(floor(90),), sockets=(replace(SOCKETS, rtt=101_000),)
    )
    assert delay_text(far).startswith("processes wait for a CPU"), (
        "the round-trip time of a long way is no queue"
    )
    far = replace(far, sockets=(replace(SOCKETS, rtt=155_000),))
    assert delay_text(far).startswith("packets wait in a queue")
    assert delay_text(loaded(sockets=())) == "cause not determined"
    assert delay_text(loaded(busy=400)) == delay_text(loaded(busy=200)) == "no queue builds up"
    assert delay_text(loaded(flows=(flow(0.0, received=None),))) == ""
    assert delay_text(loaded(count=10)) == "", "too few samples"


def test_a_generator_that_is_slower_over_loopback_than_over_the_path_leaves_the_cause_open() -> (
    None
):
    """Its latency is no part of the idle one then: the processes wait for a CPU."""
    slow = loaded(
        median=3600,
        busy=14_400,
        floors=(floor(5050), floor(5750)),
        sockets=(replace(SOCKETS, rtt=7520),),
    )
    assert delay_text(slow) == (
        "cause not determined: packets wait in a queue, or processes for a CPU "
        "(round-trip time of the bulk flow 7.52 ms)"
    )
    assert delay_text(replace(slow, sockets=(replace(SOCKETS, rtt=14_000),))).startswith(
        "packets wait in a queue ("
    )
    assert delay_text(replace(slow, sockets=(replace(SOCKETS, rtt=4000),))).startswith(
        "processes wait for a CPU"
    )
    full = (load("a", full=(BusyCpu(2, 1.0, 0.5),)), load("b", "server"))
    assert delay_text(loaded(hosts=full)).endswith(
        ", about 542 KiB), or for a CPU (CPU 2 on a 100 % busy)"
    )


def test_a_full_cpu_is_named_beside_a_queue_unless_a_qdisc_has_it() -> None:
    """Also one that was as full in the idle phase."""
    full = load("a", full=(BusyCpu(2, 1.0, 0.5),))
    assert full.busy is not None
    hot = replace(full.busy, hottest=2, hottest_busy=1.0)
    queue = "packets wait in a queue (bufferbloat, about 542 KiB)"

    def told(*series: Busy, limits: tuple[ExaminedLimit, ...] = ()) -> str:
        hosts = (replace(full, series=series), load("b", "server"))
        return delay_text(loaded(hosts=hosts, limits=limits))

    made = loaded()
    assert made.transactions is not None and made.transactions.loaded_since is not None
    idle_end = made.transactions.loaded_since - LOAD_RAMP_SECONDS
    early, late = replace(hot, time=idle_end - 1), replace(hot, time=idle_end + 3)
    now = f"{queue}, or for a CPU (CPU 2 on a 100 % busy)"
    always = f"{queue}, or for a CPU (CPU 2 on a 100 % busy, also when idle)"
    assert told(early, late) == always
    assert told(replace(early, hottest=1), late) == now, "another CPU was"
    assert told(late) == now, "not known of the idle phase"
    every = replace(early, hottest=1, user=float(early.cores))
    assert told(every, late) == always, "all CPUs were"
    limit = ExaminedLimit("qdisc tbf rate 200Mbit of ens4 on a", "95 % of it", "cause")
    assert told(late, limits=(limit,)) == queue


def test_a_queue_is_not_larger_than_its_round_trip_time() -> None:
    """30 ms of 47.9 ms: 94.1 Mb/s carry 353 kB in them."""
    assert "about 341 KiB" in delay_text(loaded(sockets=(replace(SOCKETS, rtt=30_000),)))


# ------------------------------------------------------------------------------------------ ranking


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"transactions": None}, "idle phase: requests in 0.0 of 10 s"),
        ({"idle": None}, "idle phase: requests in 0.0 of 10 s"),
        ({"idle": IdlePhase(3.0, latencies(300, 600))}, "idle phase: requests in 3.0 of 10 s"),
        ({"seconds": 4.5}, "loaded phase: requests in 4.5 of 10 s"),
        ({"latency": EMPTY}, "loaded phase: 0 requests, 20 needed"),
        ({"count": 19}, "idle phase: 19 requests, 20 needed"),
        ({"lost": 30}, "loaded phase: 1.5 % of the requests lost, their latency is unknown"),
        ({"flows": (flow(0.0),)}, "no bulk flow beside the requests"),
        ({"flows": (flow(0.1), flow(0.0, received=None))}, "no bulk flow beside the requests"),
        ({"busy": 100, "floors": (floor(90),)}, "limited by the generator"),
    ],
)
def test_figures_that_cannot_be_trusted_are_not_ranked(
    wrong: dict[str, object], reason: str
) -> None:
    made = loaded(**wrong)  # type: ignore[arg-type]
    assert reason in made.why_not_ranked
    assert loaded().why_not_ranked == ()
    assert compare([made] * 3, [loaded()] * 3).verdict == "refused"


def test_an_idle_latency_near_that_of_the_generator_is_ranked_and_named() -> None:
    made = loaded(median=100, floors=(floor(90),))
    assert made.why_not_ranked == ()
    assert (
        "; idle is limited by the generator (89.9 µs over loopback)"
        in sentences(made)["under load"]
    )


# ------------------------------------------------------------------------------------------- texts


def sentences(made: Result) -> dict[str, str]:
    return {one.kind: one.text for one in result_sentences(made)}


def test_one_sentence_has_both_latencies_and_their_cause() -> None:
    found = sentences(loaded())
    assert found["under load"] == (
        "p50 310 µs idle, 48.1 ms loaded (155×: 47.8 ms more for each round trip) at 94.1 Mb/s: "
        "packets wait in a "
        "queue (bufferbloat, about 542 KiB); p99 402 µs idle, 62.8 ms loaded"
    )
    assert (
        found["idle"].endswith("; 2000 requests in 10.0 s")
        and "p99.9 too few samples (10000 needed)" in found["idle"]
    )
    assert (
        list(found)[:3] == ["under load", "idle", "loaded"]
        and "transactions" not in found
        and "rtt" not in found
    )
    assert found["goodput"].startswith("94.1 Mb/s received by b")
    assert sentences(loaded(lost=4))["loaded"].endswith("; 2004 requests in 10.0 s, 4 lost (0.2 %)")
    less = sentences(loaded(median=400, busy=200))["under load"]
    assert "(0.50×: 200 µs less for each round trip)" in less and "no queue builds up" in less


def test_text_markdown_and_json() -> None:
    made = loaded()
    text = run_text(made, 100)
    assert (
        "\nunder load   p50 310 µs idle, " in text
        and "requests over TCP" in text
        and "10.0 s idle, 10.0 s loaded" in " ".join(text.split())
    )
    assert "per Gb/s" in text and "per transaction" not in text
    assert "**under load**" in run_markdown(made)
    stored = StoredRun("x-1", "x", made, 1.0, "0")
    assert parse_run(encode_run(stored)) == stored
    report = run_report(stored)
    assert (
        report.idle_latency is not None
        and report.latency is not None
        and report.goodput == pytest.approx(94.1e6)
    )
    assert report.latency.p50 is not None and report.idle_latency.p50 is not None
    assert report.latency.p50 > 100 * report.idle_latency.p50
    assert "idle_latency" in json.loads(traffic_schema())["$defs"]["RunReport"]["properties"]
    assert msgspec.json.decode(msgspec.json.encode(report), type=type(report)) == report
    idle_only = replace(loaded().transactions, seconds=0.0, loaded_since=None)  # type: ignore[type-var]
    assert "10.0 s idle, no requests measured under load" in plan_text(LOADED, idle_only)
    assert plan_text(replace(LOADED, protocol="udp", streams=2, rate=500)) == (
        "latency under load, bulk flow client → server, 2 streams, requests over UDP, 10 s idle, "
        "10 s loaded, "
        "64 B, 500 requests/s, iperf3"
    )


def test_the_seconds_of_a_result_are_those_that_were_measured() -> None:
    """The first ones beside the bulk flow are in no figure: 3 s are planned, and 2.40 s counted."""
    made = loaded()
    assert made.transactions is not None and made.transactions.idle is not None
    made = replace(made, transactions=replace(made.transactions, seconds=2.4))
    text = text_of(run_titles(made), 200)
    assert "2.40 s loaded" in text and "10 s" not in text.replace("10.0 s idle", "")
    assert " in 2.40 s" in sentences(made)["loaded"]


def test_lines_on_the_command_line() -> None:
    step = ExperimentStep(LOADED, "")
    lines = ProgressLines(Experiment("x", (step,)))
    list(lines.lines(StepStarted(1, 1, step, 30.0)))
    requests = interval(3, 1000, count=200)[1]
    bulk = Interval(0.0, 1.0, 94.1e6, False)
    rising = Interval(0.0, 1.0, 50e6, False, omitted=True)

    def shown(one: Interval, *, load: bool = False) -> list[str]:
        return list(
            lines.lines(
                IntervalMeasured(
                    "b" if load else "a", 3.0, one, "server" if load else "client", load
                )
            )
        )

    (idle,) = shown(requests)
    assert idle.endswith("  idle") and "p50 1.00 ms" in idle
    assert list(lines.lines(Stage("loading", "starting the bulk flow beside the requests"))) != []
    assert shown(requests)[0].endswith("  (bulk flow starting)")
    assert shown(rising, load=True) == []
    assert shown(requests)[0].endswith("  beside 50.0 Mb/s  (bulk flow starting)")
    assert (
        shown(bulk, load=True)
        == shown(replace(bulk, sends=True, bits_per_second=99e6), load=True)
        == []
    )
    (busy,) = shown(requests)
    assert busy.endswith("  beside 94.1 Mb/s")


# --------------------------------------------------------------------------------------- comparison


def stored(made: Result, number: int, group: str) -> StoredRun:
    return StoredRun(
        f"x-{number}",
        "x",
        made,
        1.0,
        "0",
        "compare",
        "",
        group,
        "setup",
        {"A": "fifo", "B": "codel"}[group],
        number,
    )


def test_loaded_runs_are_compared_by_their_loaded_latency_and_goodput() -> None:
    a = [stored(loaded(busy=48_000 + number), number, "A") for number in range(3)]
    b = [stored(loaded(busy=5000 + number, megabits=93.0), number, "B") for number in range(3)]
    found = compare_stored_runs(a, b, ("fifo", "codel"))
    assert [(one.name, one.verdict) for one in found.figures] == [
        ("loaded p50", "better"), ("loaded p99", "better"), ("goodput", "same"),
    ]  # fmt: skip
    assert found.verdict == "better" and found.sentence.startswith(
        "Better: codel = 0.10× the loaded latency p50 of fifo (-90 %, 95 % CI 0.10–0.10); loaded "
        "latency p99 0.10×"
    )
    assert "goodput 0.99× (0.99–0.99, no difference)" in found.sentence
    assert found.goodput_a is not None and found.goodput_a.median == pytest.approx(94.1e6)
    text = comparison_text(found, ("fifo", "codel"), 120)
    assert "loaded latency p50, median" in text and "CPU per Gb/s, client" in text
    points = set_up_points([*a, *b])
    assert column_titles(points, "setup")[2:7] == (
        "median",
        "lowest",
        "highest",
        "loaded latency p99",
        "goodput",
    )
    assert point_cells(points[0])[2].endswith(" ms") and point_cells(points[0])[3].endswith(" ms")
    text = experiment_text([*a, *b], 120)
    assert "10 s idle and loaded each" in text
    assert (
        "under load   A: fifo: p50 310 µs idle, 48" in text
        and "B: codel: p50 310 µs idle, 5.0" in text
    ), text
    assert added_latency(a[0].result) is not None


def test_another_request_rate_is_not_comparable() -> None:
    slow = [loaded(facts={**FACTS, "request rate": "200"})] * 3
    fast = [loaded(facts={**FACTS, "request rate": "1000"})] * 3
    assert "request rate differs: 200/s and 1000/s" in compare(slow, fast).refusals


def test_plan_of_another_test_is_refused() -> None:
    other: RunPlan = replace(PLAN, time=10)
    assert (
        "different tests: loaded, bulk"
        in compare([loaded()] * 3, [result(plan=other)] * 3).refusals
    )
