"""The view of a run has every reported value at its time, live as in the result, and no other values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import Counters, Hello, Line, TrafficSocket
from nictop.traffic.analysis.assemble import host_roles
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.analysis.nic_load import packets_between
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.live.flow_view import ReceivedInterval
from nictop.traffic.live.run_view import LiveRun, RunView, result_view, run_totals, sample_at
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Flow, IntervalPoint, Result, SocketFigures
from nictop.traffic.run.events import IntervalMeasured, RunFinished, SocketSample, Stage
from nictop.traffic.run.host import RunHost
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.pictures import busy, flow, run_view, steady
from tests.traffic.plans import PLAN
from tests.traffic.runs import result

AXIS_START = 1000.0
"""Start of the axis, on the clock of this machine."""
HELLO = Hello(1, "1", "a", "6.1", "x86_64", "3.11", 1, 0, "boot", 100, 0.0, 0.0, 0.2)


def host(name: str, records: Sequence[Counters] = ()) -> RunHost:
    """A host with the clock of this machine and these records."""
    one = RunHost(session_of(ScriptedSource(name)))
    one.session.process(Line(hello=HELLO), AXIS_START)
    for record in records:
        one.session.process(Line(counters=record), record.time)
    return one


def counters(time: float, user: int = 0, packets: int = 0, dropped: int = 0) -> Counters:
    """One CPU with `user` ticks, the rest idle; NIC 4 with `packets` received and half as many sent."""
    idle = round(time * 100) - user
    link = (packets, packets // 2, 0, 0, 0, 0, dropped, *(0,) * 18)
    return Counters(time=time, links={4: link}, cpus={0: (user, 0, 0, idle, 0, 0, 0, 0, 0, 0)})


def interval(end: float, rate: float = 1e9, *, sends: bool = False, omitted: bool = False) -> Interval:
    return Interval(end - 0.5, end, rate, sends, omitted=omitted, retransmits=2 if sends else None)


def socket(inode: int, acked: int, received: int, **more: int) -> TrafficSocket:
    made = TrafficSocket(
        inode=inode, state="established", local="192.0.2.1", local_port=1, remote="192.0.2.2", remote_port=5201,
        congestion_control="cubic", bytes_acked=acked, bytes_received=received, retransmits=0, rtt=300, rttvar=1,
        minimum_rtt=1, congestion_window=10, snd_mss=1448, pacing_rate=None, delivery_rate=None, lost=0,
        bytes_retransmitted=None, busy_time=None, window_limited=None, buffer_limited=None, send_window=None,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def live_run(plan: RunPlan = PLAN, **hosts: RunHost) -> LiveRun:
    return LiveRun(plan, {"a": host("a"), "b": host("b")} | hosts)


SIDES: dict[str, Side] = {"a": "client", "b": "server"}


def report(live: LiveRun, name: str, one: Interval, late: float = 0.05) -> None:
    """Report an interval, `late` seconds after its end."""
    reported_at = one.end - (live.plan.omit if one.omitted else 0) + late
    live.process(IntervalMeasured(name, reported_at, one, SIDES[name]), now=AXIS_START + reported_at)


def test_view_before_the_first_byte() -> None:
    live = live_run(replace(PLAN, omit=2))
    live.process(Stage("checking", "checking iperf3 on both hosts"), now=AXIS_START)
    view = live.view(AXIS_START + 1)
    assert view.stage == "checking iperf3 on both hosts"
    assert view.seconds == -2.0
    assert view.flows[0].arrivals == ()
    assert view.ceiling is not None and view.ceiling.goodput is None, "no NIC is known of these hosts"
    assert [(one.role, one.host) for one in view.hosts] == [("client", "a"), ("server", "b")]


def test_goodput_is_reported_by_the_receiver() -> None:
    live = live_run()
    report(live, "a", interval(0.5, 2e9, sends=True))
    report(live, "b", interval(0.5, 1e9))
    view = live.view(AXIS_START + 0.6)
    assert view.flows[0].arrivals == (ReceivedInterval(0.5, 0.5, 1e9),)
    assert view.flows[0].sender_states[0].retransmits == 2
    assert view.seconds == pytest.approx(0.6)


def test_axis_is_given_by_the_earliest_line() -> None:
    live = live_run()
    for delay in (0.3, 0.01, 0.2):
        live.process(IntervalMeasured("b", 0.5, interval(0.5), "server"), now=AXIS_START + 0.5 + delay)
    assert live.view(AXIS_START + 2).seconds == pytest.approx(1.99)


def test_intervals_of_the_sender_if_the_receiver_reports_none() -> None:
    live = live_run()
    report(live, "a", interval(0.5, 2e9, sends=True))
    assert live.view(AXIS_START + 1).flows[0].arrivals == (ReceivedInterval(0.5, 0.5, 2e9),)


def test_omitted_seconds_are_before_zero() -> None:
    live = live_run(replace(PLAN, omit=2))
    report(live, "b", interval(0.5, 1e9, omitted=True))
    report(live, "b", interval(0.5, 3e9))
    assert [(one.time, one.bits_per_second) for one in live.view(AXIS_START).flows[0].arrivals] == [
        (-1.5, 1e9),
        (0.5, 3e9),
    ]


def test_directions_are_reported_by_their_receivers() -> None:
    live = live_run(replace(PLAN, direction="bidirectional"))
    for name, one in (("b", interval(0.5, 1e9)), ("a", interval(0.5, 2e9)), ("a", interval(0.5, 5e9, sends=True))):
        report(live, name, one)
    assert [(one.label, one.arrivals[0].bits_per_second) for one in live.view(AXIS_START + 1).flows] == [
        ("a → b", 1e9),
        ("b → a", 2e9),
    ]


def test_bidirectional_run_on_one_host() -> None:
    one_host = replace(PLAN, direction="bidirectional", server=PLAN.client)
    live = LiveRun(one_host, {"a": host("a")})
    for end in (0.5, 1.0):
        live.process(IntervalMeasured("a", end, interval(end, 2e9), "client"), now=AXIS_START + end)
        live.process(IntervalMeasured("a", end, interval(end, 1e9), "server"), now=AXIS_START + end)
    both = ((0.5, (socket(1, 10**7, 90, rtt=250), socket(2, 90, 10**7, rtt=700))), (1.0, (socket(1, 2 * 10**7, 90),)))
    for end, sockets in both:
        live.process(SocketSample("a", end, sockets, "client"), now=AXIS_START + end)
    view = live.view(AXIS_START + 1)
    assert [[one.bits_per_second for one in flow.arrivals] for flow in view.flows] == [[1e9, 1e9], [2e9, 2e9]]
    assert [len(one.sender_states) for one in view.flows] == [1, 0], "what the client sends is the first direction"
    assert len(view.hosts) == 1


def test_goodput_of_sockets_if_the_generator_reports_none() -> None:
    """12.5 MB in half a second are 200 Mb/s, without the control connection."""
    live = live_run()
    for number in range(3):
        now = AXIS_START + 0.5 * number
        sockets = (socket(1, 0, 50 + 12_500_000 * number), socket(2, 300, 400))
        live.process(SocketSample("b", None, sockets, "server"), now=now)
    view = live.view(AXIS_START + 1).flows[0]
    assert [one.bits_per_second for one in view.arrivals] == pytest.approx([2e8, 2e8], rel=1e-5)
    report(live, "b", interval(0.5, 1e9))
    view = live.view(AXIS_START + 1).flows[0]
    assert len(view.arrivals) == 1


def test_the_control_connection_of_iperf3_is_no_first_byte() -> None:
    live = live_run()
    samples = (
        (socket(2, 300, 400),),
        (socket(1, 0, 37), socket(2, 300, 400)),
        (socket(1, 0, 900), socket(2, 300, 400)),
    )
    for number, sockets in enumerate(samples):
        assert not live.has_data
        live.process(SocketSample("b", None, sockets, "server"), now=AXIS_START + number)
    assert live.has_data and live.view(AXIS_START + 2).seconds == 0
    builtin = LiveRun(replace(PLAN, generator="builtin"), {})
    builtin.process(SocketSample("b", None, (socket(1, 0, 900),), "server"), now=AXIS_START)
    assert builtin.has_data


def test_readings_of_sockets_are_told_as_such_until_a_generator_reports() -> None:
    live = live_run()
    for number in range(3):
        sockets = (socket(1, 0, 50 + 12_500_000 * number), socket(2, 300, 400))
        live.process(SocketSample("b", None, sockets, "server"), now=AXIS_START + 0.5 * number)
    assert live.view(AXIS_START + 1).flows[0].by_sockets
    report(live, "b", interval(0.5, 1e9))
    assert not live.view(AXIS_START + 1).flows[0].by_sockets


def test_retransmits_round_trip_and_window_of_the_senders_sockets() -> None:
    live = live_run()
    report(live, "b", interval(0.5))
    for time, retransmits, rtt in ((0.5, 4, 250), (1.0, 9, 700)):
        both = (
            socket(1, 10**7, 90, retransmits=retransmits, rtt=rtt),
            socket(2, 10**7, 90),
            socket(3, 500, 400, rtt=9999),
        )
        live.process(SocketSample("a", time, both, "client"), now=AXIS_START + time)
    (sending,) = live.view(AXIS_START + 1).flows[0].sender_states
    assert (sending.time, sending.seconds, sending.retransmits, sending.rtt) == (1.0, 0.5, 5, 700)
    assert sending.congestion_window == 2 * 10 * 1448


def test_counts_while_it_runs_are_those_of_all_measured_seconds() -> None:
    """What the result counts must not jump from 0 to its value at the end of the run."""
    live = live_run()
    for time, retransmits in ((0.2, 600), (0.4, 850), (0.6, 858), (0.8, 858)):
        sockets = (socket(1, 10**7, 90, retransmits=retransmits),)
        live.process(SocketSample("a", time, sockets, "client"), now=AXIS_START + time)
    view = live.view(AXIS_START + 1)
    newest, moment = sample_at(view).flows[0].sending, sample_at(view, 0.5).flows[0].sending
    assert newest is not None and newest.retransmits == 858 and not sample_at(view).is_moment
    assert moment is not None and moment.retransmits == 8 and sample_at(view, 0.5).is_moment


def test_counts_while_it_runs_leave_out_the_omitted_seconds() -> None:
    live = live_run(replace(PLAN, omit=1))
    for time, retransmits in ((-0.5, 600), (0.0, 850), (0.5, 858), (1.0, 861)):
        sockets = (socket(1, 10**7, 90, retransmits=retransmits),)
        live.process(SocketSample("a", time, sockets, "client"), now=AXIS_START + time)
    sending = sample_at(live.view(AXIS_START + 1)).flows[0].sending
    assert sending is not None and sending.retransmits == 11


def test_datagrams_and_drops_while_it_runs_are_those_of_all_measured_seconds() -> None:
    live = live_run(replace(PLAN, protocol="udp"))
    for end, lost in ((0.5, 90), (1.0, 0)):
        report(live, "b", replace(interval(end), packets=1000, lost=lost))
    arrival = sample_at(live.view(AXIS_START + 1)).flows[0].arrival
    assert arrival is not None and (arrival.lost, arrival.packets) == (90, 2000)
    view = run_view(flow(steady(1e9)))
    dropped = tuple(replace(one, dropped=2) for one in view.hosts[1].packets)
    packets = sample_at(replace(view, hosts=(replace(view.hosts[1], packets=dropped),))).hosts[0].packets
    assert packets is not None and packets.dropped == 2 * len(dropped)


def test_host_series_have_windows_of_a_second_on_the_axis() -> None:
    """Five records a second: every fifth ends a window, which is half busy and has 1000 packets received."""
    records = [
        counters(AXIS_START + 0.2 * number, user=10 * number, packets=200 * number, dropped=number)
        for number in range(11)
    ]
    live = live_run(b=host("b", records))
    report(live, "b", interval(2.0), late=0.0)
    view = live.view(AXIS_START + 2).hosts[1]
    assert [round(one.time, 3) for one in view.series] == [1.0, 2.0]
    assert [one.user for one in view.series] == pytest.approx([0.5, 0.5], abs=0.01)
    assert live.view(AXIS_START + 2).hosts[0].series == ()
    assert view.packets == (), "the chosen NIC of b is another one"


def test_packets_and_drops_of_the_chosen_nic() -> None:
    records = [counters(AXIS_START + number, packets=1000 * number, dropped=3 * number) for number in range(3)]
    live = live_run(a=host("a", records))
    report(live, "b", interval(0.5), late=0.0)
    view = live.view(AXIS_START + 2).hosts[0]
    assert [(one.received, one.sent, one.dropped) for one in view.packets] == [(1000.0, 500.0, 3)] * 2
    assert [one.time for one in view.packets] == [1.0, 2.0]


@pytest.mark.parametrize("omit", [0, 1])
def test_newest_values_of_a_host_are_of_the_run(omit: int) -> None:
    """A window that began before the first byte is not told beside the goodput of the test."""
    begin = AXIS_START - omit
    idle = [counters(begin - 2.3 + number, packets=7) for number in range(3)]
    watched = host("a", [*idle, counters(begin + 0.7, user=70, packets=7000)])
    live = live_run(replace(PLAN, omit=omit), a=watched)
    report(live, "b", interval(0.5, omitted=bool(omit)), late=0.0)
    early = live.view(begin + 0.8)
    newest = sample_at(early).hosts[0]
    assert not early.hosts[0].is_of_run and early.hosts[0].queues == ()
    assert (newest.busy, newest.packets, newest.carrying) == (None, None, None)
    watched.session.process(Line(counters=counters(begin + 1.7, user=170, packets=17_000)), begin + 1.7)
    view = live.view(begin + 1.8)
    newest = sample_at(view).hosts[0]
    assert view.hosts[0].is_of_run and newest.carrying is not None
    assert newest.packets is not None and newest.packets.received == pytest.approx(10_000)
    assert newest.busy is not None and newest.busy.user == pytest.approx(1.0, abs=0.01)
    assert sample_at(live_run(a=host("a")).view(begin)).hosts[0].busy is None


def test_host_series_move_with_the_axis() -> None:
    one = host("a", [counters(AXIS_START + number, packets=1000 * number) for number in range(3)])
    live = live_run(a=one)
    live.process(IntervalMeasured("b", 0.5, interval(0.5), "server"), now=AXIS_START + 0.8)
    (first, _) = live.view(AXIS_START + 2).hosts[0].series
    live.process(IntervalMeasured("b", 1.0, interval(1.0), "server"), now=AXIS_START + 1.0)
    view = live.view(AXIS_START + 2).hosts[0]
    assert first.time == pytest.approx(0.7)
    for series in (view.series, view.packets, view.carrying):
        assert [point.time for point in series] == pytest.approx([1.0, 2.0])


def test_each_record_is_counted_once() -> None:
    one = host("b", [counters(AXIS_START), counters(AXIS_START + 1, user=50)])
    live = live_run(b=one)
    report(live, "b", interval(0.5), late=0.0)
    assert len(live.view(AXIS_START + 1).hosts[1].series) == 1
    one.session.process(Line(counters=counters(AXIS_START + 2, user=75)), AXIS_START + 2)
    for _ in range(3):
        assert [round(load.user, 2) for load in live.view(AXIS_START + 2).hosts[1].series] == [0.5, 0.25]


def test_decreased_counters_have_no_rate() -> None:
    step = packets_between(counters(1.0, packets=1000, dropped=5), counters(2.0, packets=10, dropped=1), 4, 2.0)
    assert step is not None and (step.received, step.sent, step.dropped) == (None, None, 0)
    assert packets_between(counters(1.0), counters(2.0), 9, 2.0) is None


def test_unchanged_series_is_the_same_object() -> None:
    """So that a chart can skip redrawing."""
    live = live_run(b=host("b", [counters(AXIS_START), counters(AXIS_START + 1)]))
    report(live, "b", interval(0.5), late=0.0)
    before, after = live.view(AXIS_START + 1), live.view(AXIS_START + 1.2)
    assert after.flows[0].arrivals is before.flows[0].arrivals
    assert after.hosts[1].series is before.hosts[1].series and len(after.hosts[1].series) == 1
    report(live, "b", interval(1.0), late=0.0)
    assert len(before.flows[0].arrivals) == 1 and len(live.view(AXIS_START + 2).flows[0].arrivals) == 2


def finished() -> Result:
    receiver = tuple(IntervalPoint(0.5 * (number + 1), interval(0.5 * (number + 1), 4e9)) for number in range(4))
    one = Flow("a", "b", None, Total(False, False, 2.0, 4e9), receiver, 7)
    loads = (HostLoad("a", "client", busy(2.0), (busy(1.0), busy(2.0)), ring_drops=11), HostLoad("b", "server", None))
    figures = (SocketFigures("a", 310, 1448, 100, None, None),)
    return result(flows=(one,), hosts=loads, sockets=figures, facts={"client nic": "ens4\x1b[2J"})


def test_views_of_a_stored_and_a_watched_run() -> None:
    stored = result_view(finished())
    live = live_run()
    report(live, "b", interval(0.5, 1e9))
    live.process(RunFinished(finished()), now=AXIS_START + 3)
    watched = live.view(AXIS_START + 99)
    for view in (stored, watched):
        assert view.seconds == 2.0 and view.stage == "" and view.result == finished()
        assert [one.bits_per_second for one in view.flows[0].arrivals] == [4e9] * 4
        assert [len(one.series) for one in view.hosts] == [2, 0]
    assert stored.hosts[0].nic == "ens4\\x1b[2J", "a name does not move the cursor"


def test_measured_seconds_come_from_the_totals() -> None:
    totals = run_totals(result_view(finished()))
    assert totals is not None
    (one,) = totals.flows
    assert one.arrival is not None and one.arrival.bits_per_second == 4e9
    assert one.sending is not None
    assert (one.sending.retransmits, one.sending.rtt, one.sending.congestion_window) == (7, 310, 144_800)
    assert totals.hosts[0].busy == busy(2.0) and totals.hosts[1].busy is None
    assert totals.hosts[0].packets is not None and totals.hosts[0].packets.dropped == 11
    assert totals.hosts[0].packets.received is None, "nobody counted packets"
    assert run_totals(run_view(flow(steady(1e9)))) is None


def test_moment_has_the_interval_and_window_that_contain_it() -> None:
    view = run_view(flow(lambda end: end * 1e9))
    found = sample_at(view, 3.2)
    assert found.flows[0].arrival is not None and found.flows[0].arrival.time == 3.5
    assert found.hosts[1].busy is not None and found.hosts[1].busy.time == 4.0
    assert sample_at(view, 3.5).flows[0].arrival == found.flows[0].arrival
    newest = sample_at(view)
    assert newest.flows[0].arrival is not None and newest.flows[0].arrival.time == 10.0


def test_moment_outside_of_the_run_and_in_a_gap_has_no_values() -> None:
    view = run_view(flow(steady(1e9)))
    assert sample_at(view, -0.1).flows[0].arrival is None
    assert sample_at(view, 10.1).flows[0].arrival is None
    gap = replace(view.flows[0], arrivals=tuple(one for one in view.flows[0].arrivals if not 4 < one.time < 6))
    assert sample_at(replace(view, flows=(gap,)), 5.0).flows[0].arrival is None
    assert sample_at(replace(view, hosts=(replace(view.hosts[0], series=()),)), 5.0).hosts[0].busy is None


def test_roles_of_hosts() -> None:
    hosts = dict.fromkeys(("c", "b", "a", "d"))
    assert [(name, role) for name, role, _ in host_roles(PLAN, hosts)] == [
        ("a", "client"), ("b", "server"), ("c", "observer"), ("d", "observer")
    ]  # fmt: skip
    both = replace(PLAN, server=PLAN.client)
    assert [(name, role) for name, role, _ in host_roles(both, {"a": None})] == [("a", "client")]


EVENTS = st.lists(
    st.one_of(
        st.builds(
            IntervalMeasured,
            st.sampled_from(("a", "b", "nobody")),
            st.none() | st.floats(-10, 100),
            st.builds(
                Interval,
                st.floats(0, 50),
                st.floats(0, 50),
                st.floats(0, 1e12),
                st.booleans(),
                omitted=st.booleans(),
                retransmits=st.none() | st.integers(0, 9),
            ),
            st.sampled_from(("client", "server")),
        ),
        st.builds(
            SocketSample,
            st.sampled_from(("a", "b")),
            st.none() | st.floats(-10, 100),
            st.lists(
                st.builds(socket, st.integers(1, 3), st.integers(0, 10**9), st.integers(0, 10**9)), max_size=3
            ).map(tuple),
            st.sampled_from(("client", "server")),
        ),
    ),
    max_size=20,
)


@given(EVENTS, st.sampled_from(("forward", "reverse", "bidirectional")), st.integers(0, 3))
def test_series_are_ordered_whatever_events_arrive(
    events: list[IntervalMeasured | SocketSample], direction: str, omit: int
) -> None:
    live = live_run(replace(PLAN, direction=direction, omit=omit))  # type: ignore[arg-type]
    for number, event in enumerate(events):
        live.process(event, now=AXIS_START + number)
    view: RunView = live.view(AXIS_START + 60)
    for one in view.flows:
        times = [arrival.time for arrival in one.arrivals]
        assert times == sorted(times)
        assert all(arrival.bits_per_second >= 0 for arrival in one.arrivals)
    sample_at(view, 5.0)
    assert view.end >= view.plan.time
