"""The view of a run has every reported value at its time, live as in the result, and no other
values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.cli.traffic.progress import ProgressLines
from nictop.probe.records import Counters, Hello, Line, LinkChange, TrafficSocket
from nictop.traffic.analysis.assemble import result_of
from nictop.traffic.analysis.host_loads import host_roles
from nictop.traffic.analysis.nic_load import packets_between
from nictop.traffic.experiment.steps import Experiment, ExperimentStep
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.live.flow_so_far import FlowNow
from nictop.traffic.live.host_so_far import LiveHostFigures
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.live.samples import run_totals, sample_at
from nictop.traffic.plan.plan import Direction, RunPlan
from nictop.traffic.record.log import SocketSample, new_groups
from nictop.traffic.results.host_load import HostLoad
from nictop.traffic.results.result import Flow, IntervalPoint, Result, SocketFigures
from nictop.traffic.run.events import RunBegan, RunFinished, Stage
from nictop.tui.screens.traffic.status import goodput_text, headline_text, late_text, run_status
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.chart_drawing import drawing_inputs as chart_inputs
from nictop.tui.widgets.traffic.hosts import draw_hosts
from nictop.tui.widgets.traffic.hosts import drawing_inputs as host_inputs
from nictop.tui.widgets.traffic.legend import direction_text
from nictop.tui.widgets.traffic.viewport import Viewport
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.pictures import altered, busy, flow, run_view, steady
from tests.traffic.plans import PLAN
from tests.traffic.runs import result
from tests.traffic.watched import AXIS_START, Watched

HELLO = Hello(1, "1", "a", "6.1", "x86_64", "3.11", 1, 0, "boot", 100, 0.0, 0.0, 0.2)


def host(name: str, records: Sequence[Counters] = ()) -> RunHost:
    """A host with the clock of this machine and these records."""
    one = RunHost(session_of(ScriptedSource(name)))
    one.session.process(Line(hello=HELLO), AXIS_START)
    for record in records:
        one.session.process(Line(counters=record), record.time)
    return one


def counters(time: float, user: int = 0, packets: int = 0, dropped: int = 0) -> Counters:
    """One CPU with `user` ticks, the rest idle; NIC 4 with `packets` received and half as many
    sent."""
    idle = round(time * 100) - user
    link = (packets, packets // 2, 0, 0, 0, 0, dropped, *(0,) * 18)
    return Counters(time=time, links={4: link}, cpus={0: (user, 0, 0, idle, 0, 0, 0, 0, 0, 0)})


def interval(
    end: float, rate: float = 1e9, *, sends: bool = False, omitted: bool = False
) -> Interval:
    return Interval(end - 0.5, end, rate, sends, omitted=omitted, retransmits=2 if sends else None)


def socket(inode: int, acked: int, received: int, **more: int) -> TrafficSocket:
    made = TrafficSocket(
        inode=inode, state="established", local="192.0.2.1", local_port=1, remote="192.0.2.2",
        remote_port=5201, congestion_control="cubic", bytes_acked=acked, bytes_received=received,
        retransmits=0, rtt=300, rttvar=1, minimum_rtt=1, congestion_window=10, snd_mss=1448,
        pacing_rate=None, delivery_rate=None, lost=0, bytes_retransmitted=None, busy_time=None,
        window_limited=None, buffer_limited=None, send_window=None,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def live_run(plan: RunPlan = PLAN, **hosts: RunHost) -> Watched:
    return Watched(plan, {"a": host("a"), "b": host("b")} | hosts)


SIDES: dict[str, Side] = {"a": "client", "b": "server"}


def rates(flow: Flow) -> list[tuple[float, float, float]]:
    """(end, seconds, rate) of what arrived."""
    return [(one.time, one.seconds, one.interval.bits_per_second) for one in flow.points]


CONTROL = socket(2, 300, 400)
"""The control connection of iperf3."""


def test_view_before_the_first_byte() -> None:
    live = live_run(replace(PLAN, omit=2))
    live.live.process(Stage("checking", "checking iperf3 on both hosts"))
    view = live.view(1)
    assert view.stage == "checking iperf3 on both hosts"
    assert view.seconds == -2.0
    assert view.flows[0].points == ()
    assert view.ceiling is not None and view.ceiling.goodput is None, (
        "no NIC is known of these hosts"
    )
    assert [(one.role, one.host) for one in view.hosts] == [("client", "a"), ("server", "b")]


def test_goodput_is_reported_by_the_receiver() -> None:
    live = live_run()
    live.report("client", interval(0.5, 2e9, sends=True))
    live.report("server", interval(0.5, 1e9))
    view = live.view(0.6)
    assert rates(view.flows[0]) == [(0.5, 0.5, 1e9)]
    assert view.flows[0].sent_points[0].interval.retransmits == 2
    assert view.seconds == pytest.approx(0.6)


def test_axis_is_given_by_the_earliest_line() -> None:
    live = live_run()
    for delay in (0.3, 0.01, 0.2):
        live.report("server", interval(0.5), late=delay)
    assert live.view(2).seconds == pytest.approx(1.99)


def test_intervals_of_the_sender_if_the_receiver_reports_none() -> None:
    live = live_run()
    live.report("client", interval(0.5, 2e9, sends=True))
    assert rates(live.view(1).flows[0]) == [(0.5, 0.5, 2e9)]


def test_omitted_seconds_are_before_zero() -> None:
    live = live_run(replace(PLAN, omit=2))
    live.report("server", interval(0.5, 1e9, omitted=True))
    live.report("server", interval(0.5, 3e9))
    assert rates(live.view(0).flows[0]) == [(-1.5, 0.5, 1e9), (0.5, 0.5, 3e9)]


def test_directions_are_reported_by_their_receivers() -> None:
    live = live_run(replace(PLAN, direction="bidirectional"))
    for name, one in (
        ("b", interval(0.5, 1e9)),
        ("a", interval(0.5, 2e9)),
        ("a", interval(0.5, 5e9, sends=True)),
    ):
        live.report(SIDES[name], one)
    assert [
        (direction_text(one), one.points[0].interval.bits_per_second) for one in live.view(1).flows
    ] == [
        ("a → b", 1e9),
        ("b → a", 2e9),
    ]


def test_what_an_end_has_not_reported_again_is_not_said_to_be_of_now() -> None:
    """The cable of one end is pulled: it reports 0 b/s, and the other one nothing."""
    live = live_run(replace(PLAN, direction="bidirectional", time=20))
    live.report("client", interval(1.0, 8e6))
    for end in (1.0, 2.0, 3.0, 4.0, 5.0):
        live.report("server", interval(end, 1e6 if end < 2 else 0.0))
    early, late = live.view(3.0), live.view(5.2)
    assert goodput_text(early) == "8.00 Mb/s"
    assert goodput_text(late) == ""
    arrived = [sample.arrival for sample in sample_at(late).flows]
    assert arrived[0] is not None and arrived[0].bits_per_second == 0.0
    assert arrived[1] is None
    assert rates(late.flows[1]) == [(1.0, 0.5, 8e6)], "the chart has it at its time"
    live.report("client", interval(20.0, 8e6))
    live.report("server", interval(20.0, 1e6))
    over = live.view(30.0)
    assert goodput_text(over) == "9.00 Mb/s", "its ends only report their totals"


def test_cpu_of_a_silent_host_stays_with_its_age() -> None:
    records = [counters(AXIS_START + second, user=40 * second) for second in range(3)]
    live = live_run(replace(PLAN, time=20), a=host("a", records))
    live.report("server", interval(0.5))
    shown, silent = sample_at(live.view(3.0)), sample_at(live.view(9.0))
    assert shown.hosts[0].busy is not None and shown.hosts[0].packets is not None
    assert shown.hosts[0].age is None
    assert silent.hosts[0].busy == shown.hosts[0].busy and silent.hosts[0].age == 7.0


def test_bidirectional_run_on_one_host() -> None:
    one_host = replace(PLAN, direction="bidirectional", server=PLAN.client)
    live = Watched(one_host, {"a": host("a")})
    for end in (0.5, 1.0):
        live.report("client", interval(end, 2e9))
        live.report("server", interval(end, 1e9))
    both = (
        (0.5, (socket(1, 10**7, 90, rtt=250), socket(2, 90, 10**7, rtt=700))),
        (1.0, (socket(1, 2 * 10**7, 90),)),
    )
    for end, sockets in both:
        live.sample("client", end, sockets)
    view = live.view(1)
    assert [[rate for _, _, rate in rates(flow)] for flow in view.flows] == [
        [1e9, 1e9],
        [2e9, 2e9],
    ]
    assert [len(one.sent_points) for one in view.flows] == [1, 0], (
        "what the client sends is the first direction"
    )
    assert len(view.hosts) == 1


def test_goodput_of_sockets_if_the_generator_reports_none() -> None:
    """12.5 MB in half a second are 200 Mb/s, without the control connection."""
    live = live_run()
    for number in range(3):
        sockets = (socket(1, 0, 50 + 12_500_000 * number), CONTROL)
        live.sample("server", 0.5 * number, sockets)
    view = live.view(1).flows[0]
    assert [rate for _, _, rate in rates(view)] == pytest.approx([2e8, 2e8], rel=1e-5)
    live.report("server", interval(0.5, 1e9))
    view = live.view(1).flows[0]
    assert len(view.points) == 1


def test_the_control_connection_of_iperf3_is_no_first_byte() -> None:
    live = live_run()
    samples = (
        (socket(2, 300, 400),),
        (socket(1, 0, 37), socket(2, 300, 400)),
        (socket(1, 0, 900), socket(2, 300, 400)),
    )
    for number, sockets in enumerate(samples):
        assert not live.live.has_data
        live.sample("server", number, sockets)
    assert live.live.has_data and live.view(2).seconds == 0
    builtin = Watched(replace(PLAN, generator="builtin"))
    builtin.sample("server", 0.0, (socket(1, 0, 900),))
    assert builtin.live.has_data


def test_readings_of_sockets_are_told_as_such_until_a_generator_reports() -> None:
    live = live_run()
    for number in range(3):
        live.sample("server", 0.5 * number, (socket(1, 0, 50 + 12_500_000 * number), CONTROL))
    assert live.view(1).flows_now == (FlowNow(by_sockets=True),)
    live.report("server", interval(0.5, 1e9))
    assert live.view(1).flows_now == (FlowNow(),)


@pytest.mark.parametrize("payload", [0, 5_000_000])
def test_nothing_arrives_by_sockets_before_the_first_payload(payload: int) -> None:
    """The server of a test in both directions sends already: what its control connection has
    received, and the cookie of a connection, is no rate of 0 b/s."""
    live = live_run(replace(PLAN, direction="bidirectional"))
    for number in range(3):
        incoming = socket(3, 0, 37 + payload * number)
        live.sample("server", 0.3 * number, (socket(1, 10**6 * number, 37), incoming, CONTROL))
    sample = sample_at(live.view(0.7)).flows[0]
    assert sample.sending is None
    assert (sample.arrival is None) == (payload == 0), sample.arrival


def test_a_direction_whose_connections_are_being_made_has_no_rate() -> None:
    """Its first interval of half a second is one of 0 bytes; one that stays at 0 is told as
    that."""
    live = live_run(replace(PLAN, direction="bidirectional"))
    live.report("server", interval(0.5, 0.0))
    live.report("server", interval(0.5, 36e6, sends=True))
    assert sample_at(live.view(0.6)).flows[0].arrival is None
    assert goodput_text(live.view(0.6)) == ""
    live.report("server", interval(1.0, 0.0))
    live.report("server", interval(1.0, 36e6, sends=True))
    blocked = sample_at(live.view(1.1)).flows[0].arrival
    assert blocked is not None and blocked.bits_per_second == 0.0
    began = live_run()
    began.report("server", interval(0.5, 1e9))
    shown = sample_at(began.view(0.6)).flows[0].arrival
    assert shown is not None and shown.bits_per_second == 1e9


def test_what_was_sent_is_told_as_such_until_the_receiver_reports() -> None:
    """Of a reversed test, the report of the sender may be first, and higher than what arrives."""
    live = Watched(replace(PLAN, direction="reverse"))
    live.report("server", interval(0.5, 9.47e6, sends=True))
    assert live.view(1).flows_now == (FlowNow(by_sender=True),)
    assert goodput_text(live.view(1)) == "", "the title and the frame have no room for the word"
    live.report("client", interval(0.5, 6.2e6))
    view = live.view(1)
    assert view.flows_now == (FlowNow(),)
    assert [point.interval.bits_per_second for point in view.flows[0].points] == [6.2e6]


def test_retransmits_round_trip_and_window_of_the_senders_sockets() -> None:
    live = live_run()
    live.report("server", interval(0.5))
    for time, retransmits, rtt in ((0.5, 4, 250), (1.0, 9, 700)):
        both = (
            socket(1, 10**7, 90, retransmits=retransmits, rtt=rtt),
            socket(2, 10**7, 90),
            socket(3, 500, 400, rtt=9999),
        )
        live.sample("client", time, both)
    (point,) = live.view(1).flows[0].sent_points
    sending = point.interval
    assert (point.time, sending.seconds, sending.retransmits, sending.rtt) == (1.0, 0.5, 5, 700)
    assert sending.congestion_window == 2 * 10 * 1448


def test_counts_while_it_runs_are_those_of_all_measured_seconds() -> None:
    """What the result counts must not jump from 0 to its value at the end of the run."""
    live = live_run()
    live.report("server", interval(0.5))
    for time, retransmits in ((0.2, 600), (0.4, 850), (0.6, 858), (0.8, 858)):
        live.sample("client", time, (socket(1, 10**7, 90, retransmits=retransmits), CONTROL))
    view = live.view(1)
    newest, moment = sample_at(view).flows[0].sending, sample_at(view, 0.5).flows[0].sending
    assert newest is not None and newest.retransmits == 858 and not sample_at(view).is_moment
    assert moment is not None and moment.retransmits == 8 and sample_at(view, 0.5).is_moment


def test_counts_while_it_runs_leave_out_what_comes_after_its_end() -> None:
    """Generators count until the end; their sockets send what is left in the buffers."""
    live = live_run()
    live.report("server", interval(0.5))
    end = float(PLAN.span)
    for time, retransmits in ((0.2, 600), (end - 0.5, 850), (end, 858), (end + 0.4, 886)):
        live.sample("client", time, (socket(1, 10**7, 90, retransmits=retransmits), CONTROL))
    live.report("server", interval(end))
    sending = sample_at(live.view(end)).flows[0].sending
    assert sending is not None and sending.retransmits == 858


def test_counts_while_it_runs_leave_out_the_omitted_seconds() -> None:
    live = live_run(replace(PLAN, omit=1))
    live.report("server", interval(0.5))
    for time, retransmits in ((-0.5, 600), (0.0, 850), (0.5, 858), (1.0, 861)):
        live.sample("client", time, (socket(1, 10**7, 90, retransmits=retransmits), CONTROL))
    sending = sample_at(live.view(1)).flows[0].sending
    assert sending is not None and sending.retransmits == 11


def test_datagrams_and_drops_while_it_runs_are_those_of_all_measured_seconds() -> None:
    live = live_run(replace(PLAN, protocol="udp"))
    for end, lost in ((0.5, 90), (1.0, 0)):
        live.report("server", replace(interval(end), packets=1000, lost=lost))
    arrival = sample_at(live.view(1)).flows[0].arrival
    assert arrival is not None and (arrival.lost, arrival.packets) == (90, 2000)
    view = run_view(flow(steady(1e9)))
    dropped = tuple(replace(one, dropped=2, send_dropped=3) for one in view.hosts[1].packets)
    receiver = replace(view.hosts[1], packets=dropped)
    packets = sample_at(altered(view, hosts=(receiver,))).hosts[0].packets
    assert packets is not None and packets.dropped == 2 * len(dropped)
    assert packets.send_dropped == 3 * len(dropped)


def test_host_series_have_windows_of_a_second_on_the_axis() -> None:
    """Five records a second: every fifth ends a window, which is half busy and has 1000 packets
    received."""
    records = [
        counters(AXIS_START + 0.2 * number, user=10 * number, packets=200 * number, dropped=number)
        for number in range(11)
    ]
    live = live_run(b=host("b", records))
    live.report("server", interval(2.0))
    view = live.view(2).hosts[1]
    assert [round(one.time, 3) for one in view.series] == [1.0, 2.0]
    assert [one.user for one in view.series] == pytest.approx([0.5, 0.5], abs=0.01)
    assert live.view(2).hosts[0].series == ()
    assert view.packets == (), "the chosen NIC of b is another one"


def test_packets_and_drops_of_the_chosen_nic() -> None:
    records = [
        counters(AXIS_START + number, packets=1000 * number, dropped=3 * number)
        for number in range(3)
    ]
    live = live_run(a=host("a", records))
    live.report("server", interval(0.5))
    view = live.view(2).hosts[0]
    assert [(one.received, one.sent, one.dropped) for one in view.packets] == [
        (1000.0, 500.0, 3)
    ] * 2
    assert [one.time for one in view.packets] == [1.0, 2.0]


@pytest.mark.parametrize("omit", [0, 1])
def test_newest_values_of_a_host_are_of_the_run(omit: int) -> None:
    """A window that began before the first byte is not told beside the goodput of the test."""
    begin = AXIS_START - omit
    idle = [counters(begin - 2.3 + number, packets=7) for number in range(3)]
    watched = host("a", [*idle, counters(begin + 0.7, user=70, packets=7000)])
    live = live_run(replace(PLAN, omit=omit), a=watched)
    live.report("server", interval(0.5, omitted=bool(omit)))
    early = live.view(0.8 - omit)
    newest = sample_at(early).hosts[0]
    assert early.host_now(early.hosts[0]) == LiveHostFigures((), is_of_run=False)
    assert (newest.busy, newest.packets, newest.carrying) == (None, None, None)
    watched.session.process(
        Line(counters=counters(begin + 1.7, user=170, packets=17_000)), begin + 1.7
    )
    view = live.view(1.8 - omit)
    newest = sample_at(view).hosts[0]
    assert view.host_now(view.hosts[0]).is_of_run and newest.carrying is not None
    assert newest.packets is not None and newest.packets.received == pytest.approx(10_000)
    assert newest.busy is not None and newest.busy.user == pytest.approx(1.0, abs=0.01)
    assert sample_at(live_run(a=host("a")).view(-omit)).hosts[0].busy is None


def test_newest_values_of_a_host_are_none_of_those_after_the_run() -> None:
    """While the final counters are read, a CPU of the host is full, and its NIC is idle."""
    end = AXIS_START + PLAN.time
    records = [counters(end - 1.5 + number, user=10 * number, packets=7) for number in range(2)]
    watched = host("a", records)
    live = live_run(a=watched)
    live.report("server", interval(0.5))
    during = sample_at(live.view(PLAN.time)).hosts[0]
    assert during.busy is not None and during.packets is not None
    for number in range(1, 4):
        later = counters(end - 0.5 + number, user=10 + 100 * number, packets=7)
        watched.session.process(Line(counters=later), end + number)
    view = live.view(PLAN.time + 4)
    assert view.hosts[0].series[-1].user > 0.9
    after = sample_at(view).hosts[0]
    assert after.busy is not None and after.busy.user < 0.9
    assert after.busy.time <= PLAN.time + 1


def test_host_series_move_with_the_axis() -> None:
    one = host("a", [counters(AXIS_START + number, packets=1000 * number) for number in range(3)])
    live = live_run(a=one)
    live.report("server", interval(0.5), late=0.3)
    (first, _) = live.view(2).hosts[0].series
    live.report("server", interval(1.0))
    view = live.view(2).hosts[0]
    assert first.time == pytest.approx(0.7)
    for series in (view.series, view.packets, view.carrying):
        assert [point.time for point in series] == pytest.approx([1.0, 2.0])


def test_each_record_is_counted_once() -> None:
    one = host("b", [counters(AXIS_START), counters(AXIS_START + 1, user=50)])
    live = live_run(b=one)
    live.report("server", interval(0.5))
    assert len(live.view(1).hosts[1].series) == 1
    one.session.process(Line(counters=counters(AXIS_START + 2, user=75)), AXIS_START + 2)
    for _ in range(3):
        assert [round(load.user, 2) for load in live.view(2).hosts[1].series] == [
            0.5,
            0.25,
        ]


def test_windows_do_not_overlap_when_records_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long run only some records are kept; the one at which a window began may be gone."""
    monkeypatch.setattr("nictop.traffic.hosts.counter_records.MAX_COUNTER_VALUES", 200)
    one = host("a", [counters(AXIS_START)])
    live = live_run(a=one)
    live.report("server", interval(0.5))
    for number in range(1, 100):
        time = AXIS_START + 0.5 * number
        one.session.process(Line(counters=counters(time, packets=10 * number)), time)
        live.view(0.5 * number)
    windows = live.view(50).hosts[0].packets
    assert len(windows) > 20
    for before, after in pairwise(windows):
        assert after.time - after.seconds >= before.time - 1e-6


def test_records_after_a_reboot_are_read() -> None:
    one = host("b", [counters(AXIS_START), counters(AXIS_START + 1, user=50)])
    live = live_run(b=one)
    live.report("client", interval(0.5, sends=True))
    assert len(live.view(1).hosts[1].series) == 1
    for number in range(3):
        rebooted = counters(5.0 + number, user=25 * number)
        one.session.process(Line(counters=rebooted), AXIS_START + 2 + number)
    assert sorted(round(busy.user, 2) for busy in live.view(5).hosts[1].series) == [0.25, 0.25, 0.5]


def test_a_run_that_is_repeated_begins_again() -> None:
    live = live_run()
    live.report("server", interval(0.5))
    live.live.process(RunFinished(finished()))
    assert live.view(1).result == finished()
    live.live.process(RunBegan(Watched(PLAN).log))
    view = live.view(1)
    assert view.result is None and view.flows[0].points == ()


def test_decreased_counters_have_no_rate() -> None:
    step = packets_between(
        counters(1.0, packets=1000, dropped=5), counters(2.0, packets=10, dropped=1), 4, 2.0
    )
    assert step is not None and (step.received, step.sent, step.dropped) == (None, None, 0)
    assert packets_between(counters(1.0), counters(2.0), 9, 2.0) is None


def test_unchanged_series_is_the_same_object() -> None:
    """So that a chart can skip redrawing."""
    live = live_run(b=host("b", [counters(AXIS_START), counters(AXIS_START + 1)]))
    live.report("server", interval(0.5))
    before, after = live.view(1), live.view(1.2)
    assert after.flows[0].points is before.flows[0].points
    assert after.hosts[1].series is before.hosts[1].series and len(after.hosts[1].series) == 1
    live.report("server", interval(1.0))
    assert len(before.flows[0].points) == 1 and len(live.view(2).flows[0].points) == 2


def test_what_a_generator_reported_that_was_replaced_is_gone() -> None:
    """As in the result: the built-in generator begins again when iperf3 has crashed."""
    live = live_run()
    live.report("server", interval(0.5, 2e9))
    assert rates(live.view(0.6).flows[0]) == [(0.5, 0.5, 2e9)]
    live.log.plan = replace(PLAN, generator="builtin")
    live.log.groups = new_groups(live.log.plan, "run-b")
    assert rates(live.view(0.7).flows[0]) == []
    live.axis += 4
    live.report("server", interval(0.5, 1e9))
    view = live.view(0.6)
    assert rates(view.flows[0]) == [(0.5, 0.5, 1e9)] and view.seconds == pytest.approx(0.6)
    assert view.plan.generator == "builtin"


def test_connections_of_the_requests_are_none_of_the_bulk_flow() -> None:
    live = live_run(replace(PLAN, test="loaded"))
    requests = live.log.first
    live.report("client", interval(0.5, 0.0, sends=True))
    for number in range(4):
        sockets = (socket(7, 90_000 + number, 80_000, rtt=99), CONTROL)
        live.sample("client", 0.2 * number, sockets, requests)
    assert live.view(1).flows[0].sent_points == ()
    for number in range(3):
        sockets = (socket(1, 10**7 * (number + 1), 90, rtt=700), CONTROL)
        live.sample("client", 1 + 0.2 * number, sockets)
        live.sample("client", 1 + 0.2 * number, (socket(7, 99_000, 80_000, rtt=99),), requests)
    states = [point.interval.rtt for point in live.view(2).flows[0].sent_points]
    assert states == [700, 700]


def test_the_control_connection_of_a_test_over_udp_sends_nothing_of_it() -> None:
    """It has a round trip, and the result has none."""
    live = live_run(replace(PLAN, protocol="udp"))
    live.report("client", interval(0.5, 1e9, sends=True))
    for number in range(3):
        live.sample("client", 0.2 * number, (socket(2, 300 + number, 400), socket(3, 900, 0)))
    sent = live.view(1).flows[0].sent_points
    assert [point.interval.rtt for point in sent] == [None]


def finished() -> Result:
    receiver = tuple(
        IntervalPoint(0.5 * (number + 1), interval(0.5 * (number + 1), 4e9)) for number in range(4)
    )
    one = Flow("a", "b", None, Total(False, False, 2.0, 4e9), receiver, 7)
    loads = (
        HostLoad("a", "client", busy(2.0), (busy(1.0), busy(2.0)), ring_drops=11, send_drops=9),
        HostLoad("b", "server", None),
    )
    figures = (SocketFigures("a", 310, 1448, 100, None, None),)
    return result(flows=(one,), hosts=loads, sockets=figures, facts={"client nic": "ens4\x1b[2J"})


def test_views_of_a_stored_and_a_watched_run() -> None:
    stored = result_view(finished())
    live = live_run()
    live.report("server", interval(0.5, 1e9))
    live.live.process(RunFinished(finished()))
    watched = live.view(99)
    for view in (stored, watched):
        assert view.seconds == 2.0 and view.stage == "" and view.result == finished()
        assert [rate for _, _, rate in rates(view.flows[0])] == [4e9] * 4
        assert [len(one.series) for one in view.hosts] == [2, 0]
    assert stored.nic_of(stored.hosts[0]) == "ens4\\x1b[2J", "a name does not move the cursor"


def test_measured_seconds_come_from_the_totals() -> None:
    totals = run_totals(result_view(finished()))
    assert totals is not None
    (one,) = totals.flows
    assert one.arrival is not None and one.arrival.bits_per_second == 4e9
    assert one.sending is not None
    assert (one.sending.retransmits, one.sending.rtt, one.sending.congestion_window) == (
        7,
        310,
        144_800,
    )
    assert totals.hosts[0].busy == busy(2.0) and totals.hosts[1].busy is None
    assert totals.hosts[0].packets is not None and totals.hosts[0].packets.dropped == 11
    assert totals.hosts[0].packets.send_dropped == 9
    assert totals.hosts[0].packets.received is None, "nobody counted packets"
    assert run_totals(run_view(flow(steady(1e9)))) is None


def test_counts_of_a_stopped_run_have_their_seconds() -> None:
    """While it ran, the sockets counted until now, and its generators until their last interval:
    125 retransmits became 101."""
    (one,) = finished().flows
    stopped = replace(one, sent=Total(True, True, 1.5, 4e9, retransmits=7))
    made = replace(finished(), flows=(stopped,), stopped=1.9)
    totals = run_totals(result_view(made))
    assert totals is not None and totals.names_seconds
    assert totals.flows[0].sending is not None and totals.flows[0].sending.seconds == 1.5
    planned = run_totals(result_view(finished()))
    assert planned is not None and not planned.names_seconds


def test_moment_has_the_interval_and_window_that_contain_it() -> None:
    view = run_view(flow(lambda end: end * 1e9))
    found = sample_at(view, 3.2)
    assert found.flows[0].arrival is not None and found.flows[0].arrival.bits_per_second == 3.5e9
    assert found.hosts[1].busy is not None and found.hosts[1].busy.time == 4.0
    assert sample_at(view, 3.5).flows[0].arrival == found.flows[0].arrival
    newest = sample_at(view)
    assert newest.flows[0].arrival is not None and newest.flows[0].arrival.bits_per_second == 10.0e9


def test_moment_outside_of_the_run_and_in_a_gap_has_no_values() -> None:
    view = run_view(flow(steady(1e9)))
    assert sample_at(view, -0.1).flows[0].arrival is None
    assert sample_at(view, 10.1).flows[0].arrival is None
    rest = tuple(one for one in view.flows[0].points if not 4 < one.time < 6)
    gap = replace(view.flows[0], points=rest)
    assert sample_at(altered(view, flows=(gap,)), 5.0).flows[0].arrival is None
    unread = replace(view.hosts[0], series=())
    assert sample_at(altered(view, hosts=(unread,)), 5.0).hosts[0].busy is None


def test_roles_of_hosts() -> None:
    hosts = dict.fromkeys(("c", "b", "a", "d"))
    assert [(name, role) for name, role, _ in host_roles(PLAN, hosts)] == [
        ("a", "client"), ("b", "server"), ("c", "observer"), ("d", "observer")
    ]  # fmt: skip
    both = replace(PLAN, server=PLAN.client)
    assert [(name, role) for name, role, _ in host_roles(both, {"a": None})] == [("a", "client")]


REPORTS = st.tuples(
    st.sampled_from(("client", "server")),
    st.builds(
        Interval,
        st.floats(0, 50),
        st.floats(0, 50),
        st.floats(0, 1e12),
        st.booleans(),
        omitted=st.booleans(),
        retransmits=st.none() | st.integers(0, 9),
    ),
    st.floats(0, 20),
)
SAMPLES = st.tuples(
    st.sampled_from(("client", "server")),
    st.floats(-10, 100),
    st.lists(
        st.builds(socket, st.integers(1, 3), st.integers(0, 10**9), st.integers(0, 10**9)),
        max_size=3,
    ).map(tuple),
)
LINES = st.lists(st.one_of(REPORTS, SAMPLES), max_size=20)
DIRECTIONS = st.sampled_from(("forward", "reverse", "bidirectional"))


def add(live: Watched, line: Any) -> None:
    """A report of a generator, or a sample of sockets."""
    side, second, third = line
    if isinstance(second, Interval):
        live.report(side, second, late=third)
    else:
        live.sample(side, second, third)


@given(LINES, DIRECTIONS, st.integers(0, 3))
def test_series_are_ordered_whatever_lines_arrive(
    lines: list[Any], direction: Any, omit: int
) -> None:
    live = live_run(replace(PLAN, direction=direction, omit=omit))
    for line in lines:
        add(live, line)
    view = live.view(60)
    for one in view.flows:
        times = [time for time, _, _ in rates(one)]
        assert times == sorted(times)
        assert all(rate >= 0 for _, _, rate in rates(one))
    sample_at(view, 5.0)
    assert view.end >= view.plan.time


@given(LINES, DIRECTIONS, st.integers(0, 3))
def test_looking_at_a_run_does_not_change_what_is_seen(
    lines: list[Any], direction: Any, omit: int
) -> None:
    """What is read line by line is what is read at once."""
    plan = replace(PLAN, direction=direction, omit=omit)
    watched, quiet = live_run(plan), live_run(plan)
    for number, line in enumerate(lines):
        add(watched, line)
        add(quiet, line)
        watched.view(number)
    often, once = watched.view(60), quiet.view(60)
    assert (often.seconds, often.flows_now) == (once.seconds, once.flows_now)
    for one, other in zip(often.flows, once.flows, strict=True):
        for points, others in (
            (one.points, other.points),
            (one.sent_points, other.sent_points),
        ):
            assert [point.interval for point in points] == [point.interval for point in others]
            assert [point.time for point in points] == pytest.approx(
                [point.time for point in others], abs=1e-9
            )


def test_a_lost_carrier_is_said_as_soon_as_it_is_received() -> None:
    """The cable of the NIC is pulled at second 4: not first when the test has failed."""
    one = host("a")
    live = live_run(replace(PLAN, client=replace(PLAN.client, ifindex=4)), a=one)
    live.report("server", interval(1.0))
    assert live.view(2.0).incidents == ()
    changed = LinkChange(AXIS_START + 4.2, 4, False, "ens4", "down", False, 0x1043, 1500)
    one.session.process(Line(link_change=changed), AXIS_START + 4.3)
    (found,) = live.view(5.0).incidents
    assert found.sentence.startswith("a ") and found.sentence.endswith(
        " lost its carrier at second 4"
    )
    progress = ProgressLines(Experiment("x", (ExperimentStep(live.log.plan, ""),)))
    list(progress.lines(RunBegan(live.log)))
    sample = SocketSample("a", None, (), "client")
    assert list(progress.lines(sample)) == [f"  {found.sentence}"]
    assert list(progress.lines(sample)) == [], "once"
    again = LinkChange(AXIS_START + 9.1, 4, False, "ens4", "up", True, 0x1043, 1500)
    one.session.process(Line(link_change=again), AXIS_START + 9.2)
    (returned,) = progress.lines(sample)
    assert returned.endswith(" has its link again at second 9")
    assert list(progress.lines(sample)) == [], "once"
    assert live.view(10.0).incidents[0].sentence == f"{found.sentence}, back at second 9"
    live.live.process(RunFinished(result()))
    assert live.view(20.0).incidents == (), "then the result says it"


def link_change(second: float, *, carrier: bool) -> Line:
    """Of the NIC of the client."""
    state = "up" if carrier else "down"
    time = AXIS_START + second
    return Line(link_change=LinkChange(time, 4, False, "ens4", state, carrier, 0x1043, 1500))


def status_text(view: RunView) -> str:
    """Of a test that runs, in the frame."""
    traffic = SimpleNamespace(
        running=True, awaits_answer=False, is_stopping=False, view=lambda: view
    )
    return run_status(traffic)  # type: ignore[arg-type]


def drawn(view: RunView) -> str:
    """Chart and hosts, without a title."""
    lines = [*draw_run(view, Viewport(), 80, 12), *draw_hosts(view, Viewport(), 120, 4)]
    return "\n".join("".join(text for text, _ in line) for line in lines)


def test_a_rate_of_before_a_lost_carrier_is_not_said_to_be_of_now() -> None:
    """The last whole second has 9.41 Gb/s; the link is down since, as its host has reported."""
    records = [counters(AXIS_START + second, packets=1000 * second) for second in range(5)]
    one = host("a", records)
    live = live_run(replace(PLAN, time=20, interval=1.0), a=one)
    for end in (1.0, 2.0, 3.0, 4.0):
        live.report("server", replace(interval(end, 9.41e9), start=end - 1))
    before = live.view(4.1)
    assert headline_text(before) == "9.41 Gb/s"
    assert "9.41 Gb/s" in drawn(before) and "RX 1.00 kpps" in drawn(before)
    one.session.process(link_change(4.2, carrier=False), AXIS_START + 4.3)
    lost = live.view(4.4)
    assert headline_text(lost) == "link lost at second 4"
    assert status_text(lost) == "▶ 4 of 20 s a ens4 lost its carrier"
    assert "a → b         – peak 9.41 Gb/s" in drawn(lost) and "kpps" not in drawn(lost)
    for inputs in (chart_inputs, host_inputs):
        assert inputs(lost, Viewport()) != inputs(before, Viewport()), "it is drawn again"
    live.report("server", replace(interval(5.0, 2e9), start=4.0))
    assert headline_text(live.view(5.1)) == "link lost at second 4", "a part of it was before"
    live.report("server", replace(interval(6.0, 0.0), start=5.0))
    assert headline_text(live.view(6.1)) == "0 b/s"


def test_a_rate_of_a_lost_link_is_not_said_of_a_link_that_is_back() -> None:
    one = host("a")
    live = live_run(replace(PLAN, time=20), a=one)
    one.session.process(link_change(2.2, carrier=False), AXIS_START + 2.3)
    live.report("server", interval(0.5))
    live.report("server", interval(4.0, 0.0))
    assert headline_text(live.view(4.1)) == "0 b/s"
    one.session.process(link_change(4.3, carrier=True), AXIS_START + 4.3)
    back = live.view(4.4)
    assert headline_text(back) == "" and status_text(back).startswith("▶ measuring 4 of 20 s ")
    live.report("server", interval(5.0, 1e9))
    assert headline_text(live.view(5.1)) == "1.00 Gb/s"
    one.session.process(link_change(6.2, carrier=False), AXIS_START + 6.3)
    again = live.view(6.4)
    assert headline_text(again) == "link lost at second 6", "the second loss, not the first one"


def is_saved(run: Watched, stopped: float) -> bool:
    """Its result is, if it is stopped at that time on the axis."""
    made = result_of(replace(run.log, stopped=stopped))
    return made.failure is None


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_what_is_said_to_be_saved_is_saved_if_the_run_is_stopped_then(direction: Direction) -> None:
    """At each moment: nothing, a report of the sender, omitted seconds, measured ones."""
    live = live_run(replace(PLAN, direction=direction, omit=1, time=20))
    reports: tuple[tuple[Side, Interval], ...] = (
        ("client", interval(0.5, sends=True, omitted=True)),
        ("server", interval(0.5, sends=True, omitted=True)),
        ("client", interval(0.5, omitted=True)),
        ("server", interval(0.5, omitted=True)),
        ("client", interval(0.5, sends=True)),
        ("server", interval(0.5, sends=True)),
        ("client", interval(0.5)),
        ("server", interval(0.5)),
    )
    told = [live.view(0.6).has_figures]
    assert is_saved(live, 0.6) == told[0]
    for side, one in reports:
        live.report(side, one)
        told.append(live.view(0.6).has_figures)
        assert is_saved(live, 0.6) == told[-1], (side, one)
    assert told == sorted(told) and told[-1] and not told[-3]


def test_generators_that_do_not_end_are_named_with_the_longest_time_of_waiting() -> None:
    run = Watched(PLAN)
    run.log.grace = 10.0
    run.report("server", Interval(0.0, 0.5, 1e9, False))
    assert late_text(run.view(4.5), "Enter") == ""
    told = "2 s are over; waiting for iperf3 on b and a to end: 6 s, at most 10 s (Enter: stop)"
    assert late_text(run.view(8.0), "Enter") == told
    run.log.ends["client"].ended = AXIS_START + 8.0
    told = "2 s are over; waiting for iperf3 on b to end: 7 s, at most 10 s (Enter: stop)"
    assert late_text(run.view(9.5), "Enter") == told
    run.log.grace = None
    assert late_text(run.view(9.5), "Enter").endswith("to end: 7 s (Enter: stop)")
