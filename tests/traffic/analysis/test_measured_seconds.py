"""All figures of a run are of the same seconds, however it has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.stopped import totals_of_intervals, totals_of_planned_seconds
from nictop.traffic.analysis.transactions import transaction_figures
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.live.run_view import result_view
from nictop.traffic.live.samples import run_totals
from nictop.traffic.record.log import RunLog, measured_window, new_groups
from nictop.traffic.results.host_load import Packets
from nictop.traffic.results.result import Flow, IntervalPoint
from tests.traffic.analysis.test_transactions import RR, interval, rr
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, load, result
from tests.traffic.watched import quiet_host

IDLE_AFTER = 4
"""Seconds with packets, in windows until second 11."""
WINDOWS = tuple(
    Packets(float(second), 1.0, 100.0 if second <= IDLE_AFTER else 0.0, 50.0, 0)
    for second in range(1, 12)
)


def reports(seconds: int, bits: float = 8e6) -> tuple[IntervalPoint, ...]:
    return tuple(
        IntervalPoint(float(end), Interval(end - 1.0, float(end), bits, sends=False))
        for end in range(1, seconds + 1)
    )


@pytest.mark.parametrize(
    "ended",
    [
        {"stopped": 4.1},
        {"failure": Failure("stall", "no data")},
    ],
    ids=["stopped", "failed"],
)
def test_packets_per_second_are_of_the_measured_seconds(ended: dict[str, object]) -> None:
    """Not of those in which the generators were ended, and nothing was sent."""
    hosts = (load("a", packets=WINDOWS), load("b", "server", packets=WINDOWS))
    received = None if "failure" in ended else Total(False, False, 4.02, 8e6, 4.02e6)
    made = result(
        flows=(flow(1.0, received=received, points=reports(IDLE_AFTER)),),
        hosts=hosts,
        plan=replace(PLAN, time=10),
    )
    totals = run_totals(result_view(replace(made, **ended)))  # type: ignore[arg-type]
    assert totals is not None
    for host in totals.hosts:
        assert host.packets is not None and host.packets.received == 100.0


def test_packets_per_second_of_transactions_that_were_stopped() -> None:
    hosts = (load("a", packets=WINDOWS), load("b", "server", packets=WINDOWS))
    made = rr(seconds=4.02, stopped=4.1, hosts=hosts)
    totals = run_totals(result_view(made))
    assert totals is not None and totals.hosts[0].packets is not None
    assert totals.hosts[0].packets.received == 100.0
    assert made.why_not_ranked[0].startswith("stopped after 4.0 of "), "as the transactions say"


def test_the_goodput_of_a_run_that_failed_says_until_when_data_was_received() -> None:
    """Its mean is over all reported seconds."""
    empty = tuple(
        IntervalPoint(float(end), Interval(end - 1.0, float(end), 0.0, sends=False))
        for end in (5, 6, 7)
    )
    received = Total(False, False, 7.0, 8e6, 7e6)
    made = result(flows=(flow(1.0, received=received, points=(*reports(4), *empty)),))
    failed = replace(made, failure=Failure("stall", "no data"))
    (text,) = (one.text for one in result_sentences(failed) if one.kind == "goodput")
    assert ", mean of 7.00 s" in text and ", nothing after 4.00 s" in text
    (text,) = (one.text for one in result_sentences(made) if one.kind == "goodput")
    assert "nothing after" not in text
    whole = replace(failed, flows=(flow(1.0, received=received, points=reports(7)),))
    (text,) = (one.text for one in result_sentences(whole) if one.kind == "goodput")
    assert "nothing after" not in text


def test_intervals_after_the_stop_do_not_count() -> None:
    """A generator that takes seconds to end reports them."""
    idle = tuple(
        IntervalPoint(float(end), Interval(end - 1.0, float(end), 0.0, sends=False))
        for end in (5, 6, 7)
    )
    ended = totals_of_intervals(Flow("a", "b", None, None, (*reports(4), *idle)), 4.1)
    assert ended.received is not None
    assert (ended.received.seconds, ended.received.bits_per_second) == (4.0, 8e6)
    pending = [(4.0, interval(3, 50)), (11.0, interval(10, 0))]
    figures = transaction_figures(RR, None, pending, (), stopped=4.1)
    assert figures is not None and figures.seconds == 1


def log_of(seconds: int, *, total: float | None = None, **ended: object) -> RunLog:
    """A run of 10 s from the axis 0 whose server has reported so many."""
    plan = replace(PLAN, time=10, interval=1.0)
    log = RunLog(plan, new_groups(plan, "run"), {name: quiet_host(name) for name in "ab"}, 0.0)
    end = log.ends["server"]
    end.run_start = 0.0
    end.intervals = [(float(one.time), one.interval) for one in reports(seconds)]
    if total is not None:
        end.totals = [Total(False, False, total, 8e6)]
    return replace(log, **ended)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        (log_of(10, total=10.04), 10.0),
        (log_of(4, stopped=4.1), 4.0),
        (log_of(11, stopped=4.1), 4.0),
        (log_of(4, failure=Failure("stall", "no data")), 4.0),
        (log_of(10, total=41.0), 41.0),
        (log_of(4, total=4.0), 4.0),
        (log_of(0, stopped=0.4), 0.4),
    ],
    ids=["as planned", "stopped", "ended late", "failed", "waited", "ended early", "no interval"],
)
def test_the_window_of_the_loads(log: RunLog, seconds: float) -> None:
    """Goodput, CPU time and packets are of the same window."""
    assert measured_window(log) == (0.0, seconds)


def test_rates_of_a_failed_run_are_of_the_planned_seconds() -> None:
    """The sender waited 37 s for a peer that was gone, and divides by all of it."""
    idle = tuple(
        IntervalPoint(float(end), Interval(end - 1.0, float(end), 0.0, sends=True))
        for end in range(5, 48)
    )
    sent = tuple(
        replace(point, interval=replace(point.interval, sends=True)) for point in reports(4)
    )
    total = Total(True, True, 47.0, 32e6 / 47, 4e6, retransmits=4)
    failed = Flow("a", "b", total, None, retransmits=4, sent_points=(*sent, *idle))
    cut = totals_of_planned_seconds(failed, 10)
    assert cut.sent is not None and cut.retransmits == 4
    assert (cut.sent.seconds, cut.sent.bits_per_second) == (10.0, 3.2e6)
    unknown = totals_of_planned_seconds(replace(failed, sent_points=()), 10)
    assert unknown.sent is None
    in_time = replace(failed, sent=replace(total, seconds=10.2))
    assert totals_of_planned_seconds(in_time, 10) == in_time
    run = result(flows=(cut,), failure=Failure("stall", "no data"))
    texts = [one.text for one in result_sentences(run) if one.kind == "sender"]
    assert texts == ["3.20 Mb/s taken by the socket of a in 10.0 s, 4 retransmits"]
