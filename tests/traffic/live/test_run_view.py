"""A run is drawn from what was really told: every value stands at its time, live as in the result, and what nobody told
is not made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import Counters, Hello, Line, TrafficSocket
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.analysis.nic_load import packets_between
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.live.flow_view import Arrival
from nictop.traffic.live.run_view import LiveRun, RunView, moment, picture_of, roles, whole
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Flow, IntervalPoint, Result, SocketFigures
from nictop.traffic.run.events import Finished, IntervalMeasured, Sockets, Stage
from nictop.traffic.run.host import RunHost
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.pictures import busy, flow, picture, steady
from tests.traffic.plans import PLAN
from tests.traffic.runs import result

AXIS = 1000.0
"""Where the axis of the runs below begins, on this machine's clock."""
HELLO = Hello(1, "1", "a", "6.1", "x86_64", "3.11", 1, 0, "boot", 100, 0.0, 0.0, 0.2)


def host(name: str, records: Sequence[Counters] = ()) -> RunHost:
    """A host whose clock is this machine's, with these records."""
    one = RunHost(session_of(ScriptedSource(name)))
    one.session.process(Line(hello=HELLO), AXIS)
    for record in records:
        one.session.process(Line(counters=record), record.time)
    return one


def counters(time: float, user: int = 0, packets: int = 0, dropped: int = 0) -> Counters:
    """One CPU with so many ticks in user, the rest idle; NIC 4 with so many packets in, half as many out."""
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


def watching(plan: RunPlan = PLAN, **hosts: RunHost) -> LiveRun:
    return LiveRun(plan, {"a": host("a"), "b": host("b")} | hosts)


SIDES: dict[str, Side] = {"a": "client", "b": "server"}


def told(watch: LiveRun, name: str, one: Interval, late: float = 0.05) -> None:
    """A line that comes a little after its interval."""
    came = one.end - (watch.plan.omit if one.omitted else 0) + late
    watch.take(IntervalMeasured(name, came, one, SIDES[name]), now=AXIS + came)


def test_before_the_first_byte_there_is_the_stage_and_the_ceiling_but_no_value() -> None:
    watch = watching(replace(PLAN, omit=2))
    watch.take(Stage("checking", "looking for generators on both hosts"), now=AXIS)
    shown = watch.picture(AXIS + 1)
    assert shown.stage == "looking for generators on both hosts"
    assert shown.seconds == -2.0
    assert shown.flows[0].arrivals == ()
    assert shown.ceiling is not None and shown.ceiling.goodput is None, "no NIC is known of these hosts"
    assert [(one.role, one.host) for one in shown.hosts] == [("client", "a"), ("server", "b")]


def test_what_the_receiver_tells_is_the_goodput_and_what_the_sender_tells_is_not() -> None:
    watch = watching()
    told(watch, "a", interval(0.5, 2e9, sends=True))
    told(watch, "b", interval(0.5, 1e9))
    shown = watch.picture(AXIS + 0.6)
    assert shown.flows[0].arrivals == (Arrival(0.5, 0.5, 1e9),)
    assert shown.flows[0].sendings[0].retransmits == 2
    assert shown.seconds == pytest.approx(0.6)


def test_the_quickest_line_tells_where_the_axis_is() -> None:
    watch = watching()
    for way in (0.3, 0.01, 0.2):
        watch.take(IntervalMeasured("b", 0.5, interval(0.5), "server"), now=AXIS + 0.5 + way)
    assert watch.picture(AXIS + 2).seconds == pytest.approx(1.99)


def test_the_sender_stands_in_for_a_receiver_that_says_nothing() -> None:
    watch = watching()
    told(watch, "a", interval(0.5, 2e9, sends=True))
    assert watch.picture(AXIS + 1).flows[0].arrivals == (Arrival(0.5, 0.5, 2e9),)


def test_omitted_seconds_are_before_zero() -> None:
    watch = watching(replace(PLAN, omit=2))
    told(watch, "b", interval(0.5, 1e9, omitted=True))
    told(watch, "b", interval(0.5, 3e9))
    assert [(one.time, one.bits_per_second) for one in watch.picture(AXIS).flows[0].arrivals] == [
        (-1.5, 1e9),
        (0.5, 3e9),
    ]


def test_each_direction_of_a_bidirectional_run_is_told_by_its_receiver() -> None:
    watch = watching(replace(PLAN, direction="bidirectional"))
    for name, one in (("b", interval(0.5, 1e9)), ("a", interval(0.5, 2e9)), ("a", interval(0.5, 5e9, sends=True))):
        told(watch, name, one)
    assert [(one.words, one.arrivals[0].bits_per_second) for one in watch.picture(AXIS + 1).flows] == [
        ("a → b", 1e9),
        ("b → a", 2e9),
    ]


def test_both_directions_on_one_host_are_two() -> None:
    one_host = replace(PLAN, direction="bidirectional", server=PLAN.client)
    watch = LiveRun(one_host, {"a": host("a")})
    for end in (0.5, 1.0):
        watch.take(IntervalMeasured("a", end, interval(end, 2e9), "client"), now=AXIS + end)
        watch.take(IntervalMeasured("a", end, interval(end, 1e9), "server"), now=AXIS + end)
    both = ((0.5, (socket(1, 10**7, 90, rtt=250), socket(2, 90, 10**7, rtt=700))), (1.0, (socket(1, 2 * 10**7, 90),)))
    for end, sockets in both:
        watch.take(Sockets("a", end, sockets, "client"), now=AXIS + end)
    shown = watch.picture(AXIS + 1)
    assert [[one.bits_per_second for one in flow.arrivals] for flow in shown.flows] == [[1e9, 1e9], [2e9, 2e9]]
    assert [len(one.sendings) for one in shown.flows] == [1, 0], "what the client sends is the first direction"
    assert len(shown.hosts) == 1


def test_sockets_tell_the_goodput_where_the_generator_is_silent() -> None:
    """12.5 MB in half a second are 200 Mb/s; the connection that controls the run is none of it."""
    watch = watching()
    for number in range(3):
        now = AXIS + 0.5 * number
        sockets = (socket(1, 0, 1 + 12_500_000 * number), socket(2, 300, 400))
        watch.take(Sockets("b", None, sockets, "server"), now=now)
    shown = watch.picture(AXIS + 1).flows[0]
    assert shown.by_sockets
    assert [one.bits_per_second for one in shown.arrivals] == pytest.approx([2e8, 2e8], rel=1e-6)
    told(watch, "b", interval(0.5, 1e9))
    shown = watch.picture(AXIS + 1).flows[0]
    assert not shown.by_sockets and len(shown.arrivals) == 1


def test_sockets_of_the_sender_tell_retransmits_round_trip_and_window() -> None:
    watch = watching()
    told(watch, "b", interval(0.5))
    for time, again, rtt in ((0.5, 4, 250), (1.0, 9, 700)):
        both = (socket(1, 10**7, 90, retransmits=again, rtt=rtt), socket(2, 10**7, 90), socket(3, 500, 400, rtt=9999))
        watch.take(Sockets("a", time, both, "client"), now=AXIS + time)
    (sending,) = watch.picture(AXIS + 1).flows[0].sendings
    assert (sending.time, sending.seconds, sending.retransmits, sending.rtt) == (1.0, 0.5, 5, 700)
    assert sending.congestion_window == 2 * 10 * 1448


def test_a_host_is_counted_in_windows_of_a_second_on_the_axis_of_the_run() -> None:
    """Five records a second: the last of every five closes a window. Half of it was busy, 1000 packets came."""
    records = [
        counters(AXIS + 0.2 * number, user=10 * number, packets=200 * number, dropped=number) for number in range(11)
    ]
    watch = watching(b=host("b", records))
    told(watch, "b", interval(2.0), late=0.0)
    shown = watch.picture(AXIS + 2).hosts[1]
    assert [round(one.time, 3) for one in shown.series] == [1.0, 2.0]
    assert [one.user for one in shown.series] == pytest.approx([0.5, 0.5], abs=0.01)
    assert watch.picture(AXIS + 2).hosts[0].series == ()
    assert shown.packets == (), "the chosen NIC of b is another one"


def test_packets_and_drops_are_those_of_the_chosen_nic() -> None:
    records = [counters(AXIS + number, packets=1000 * number, dropped=3 * number) for number in range(3)]
    watch = watching(a=host("a", records))
    told(watch, "b", interval(0.5), late=0.0)
    shown = watch.picture(AXIS + 2).hosts[0]
    assert [(one.received, one.sent, one.dropped) for one in shown.packets] == [(1000.0, 500.0, 3)] * 2
    assert [one.time for one in shown.packets] == [1.0, 2.0]


def test_what_was_drawn_of_a_host_moves_when_the_axis_is_found_to_lie_elsewhere() -> None:
    one = host("a", [counters(AXIS + number, packets=1000 * number) for number in range(3)])
    watch = watching(a=one)
    watch.take(IntervalMeasured("b", 0.5, interval(0.5), "server"), now=AXIS + 0.8)
    (first, _) = watch.picture(AXIS + 2).hosts[0].series
    watch.take(IntervalMeasured("b", 1.0, interval(1.0), "server"), now=AXIS + 1.0)
    shown = watch.picture(AXIS + 2).hosts[0]
    assert first.time == pytest.approx(0.7)
    for series in (shown.series, shown.packets, shown.carrying):
        assert [point.time for point in series] == pytest.approx([1.0, 2.0])


def test_a_picture_takes_each_record_once() -> None:
    one = host("b", [counters(AXIS), counters(AXIS + 1, user=50)])
    watch = watching(b=one)
    told(watch, "b", interval(0.5), late=0.0)
    assert len(watch.picture(AXIS + 1).hosts[1].series) == 1
    one.session.process(Line(counters=counters(AXIS + 2, user=75)), AXIS + 2)
    for _ in range(3):
        assert [round(load.user, 2) for load in watch.picture(AXIS + 2).hosts[1].series] == [0.5, 0.25]


def test_counters_that_ran_backwards_have_no_rate() -> None:
    step = packets_between(counters(1.0, packets=1000, dropped=5), counters(2.0, packets=10, dropped=1), 4, 2.0)
    assert step is not None and (step.received, step.sent, step.dropped) == (None, None, 0)
    assert packets_between(counters(1.0), counters(2.0), 9, 2.0) is None


def test_a_series_to_which_nothing_was_added_is_the_same_object() -> None:
    """Who draws it sees at once that there is nothing to draw."""
    watch = watching(b=host("b", [counters(AXIS), counters(AXIS + 1)]))
    told(watch, "b", interval(0.5), late=0.0)
    before, after = watch.picture(AXIS + 1), watch.picture(AXIS + 1.2)
    assert after.flows[0].arrivals is before.flows[0].arrivals
    assert after.hosts[1].series is before.hosts[1].series and len(after.hosts[1].series) == 1
    told(watch, "b", interval(1.0), late=0.0)
    assert len(before.flows[0].arrivals) == 1 and len(watch.picture(AXIS + 2).flows[0].arrivals) == 2


def finished() -> Result:
    receiver = tuple(IntervalPoint(0.5 * (number + 1), interval(0.5 * (number + 1), 4e9)) for number in range(4))
    one = Flow("a", "b", None, Total(False, False, 2.0, 4e9), receiver, 7)
    loads = (HostLoad("a", "client", busy(2.0), (busy(1.0), busy(2.0)), ring_drops=11), HostLoad("b", "server", None))
    figures = (SocketFigures("a", 310, 1448, 100, None, None),)
    return result(flows=(one,), hosts=loads, sockets=figures, facts={"client nic": "ens4\x1b[2J"})


def test_a_kept_run_has_the_same_shape_as_one_that_was_watched() -> None:
    kept = picture_of(finished())
    watch = watching()
    told(watch, "b", interval(0.5, 1e9))
    watch.take(Finished(finished()), now=AXIS + 3)
    live = watch.picture(AXIS + 99)
    for shown in (kept, live):
        assert shown.seconds == 2.0 and shown.stage == "" and shown.result == finished()
        assert [one.bits_per_second for one in shown.flows[0].arrivals] == [4e9] * 4
        assert [len(one.series) for one in shown.hosts] == [2, 0]
    assert kept.hosts[0].nic == "ens4\\x1b[2J", "a name does not move the cursor"


def test_what_counts_of_a_run_comes_from_its_totals() -> None:
    over = whole(picture_of(finished()))
    assert over is not None
    (one,) = over.flows
    assert one.arrival is not None and one.arrival.bits_per_second == 4e9
    assert one.sending is not None
    assert (one.sending.retransmits, one.sending.rtt, one.sending.congestion_window) == (7, 310, 144_800)
    assert over.hosts[0].busy == busy(2.0) and over.hosts[1].busy is None
    assert over.hosts[0].packets is not None and over.hosts[0].packets.dropped == 11
    assert over.hosts[0].packets.received is None, "nobody counted packets"
    assert whole(picture(flow(steady(1e9)))) is None


def test_a_moment_has_the_interval_and_the_window_in_which_it_lies() -> None:
    shown = picture(flow(lambda end: end * 1e9))
    found = moment(shown, 3.2)
    assert found.flows[0].arrival is not None and found.flows[0].arrival.time == 3.5
    assert found.hosts[1].busy is not None and found.hosts[1].busy.time == 4.0
    assert moment(shown, 3.5).flows[0].arrival == found.flows[0].arrival
    newest = moment(shown)
    assert newest.flows[0].arrival is not None and newest.flows[0].arrival.time == 10.0


def test_outside_of_the_run_and_in_a_gap_nothing_is_known() -> None:
    shown = picture(flow(steady(1e9)))
    assert moment(shown, -0.1).flows[0].arrival is None
    assert moment(shown, 10.1).flows[0].arrival is None
    gap = replace(shown.flows[0], arrivals=tuple(one for one in shown.flows[0].arrivals if not 4 < one.time < 6))
    assert moment(replace(shown, flows=(gap,)), 5.0).flows[0].arrival is None
    assert moment(replace(shown, hosts=(replace(shown.hosts[0], series=()),)), 5.0).hosts[0].busy is None


def test_observers_come_last_and_a_host_that_is_both_ends_is_the_client() -> None:
    hosts = dict.fromkeys(("c", "b", "a", "d"))
    assert [(name, role) for name, role, _ in roles(PLAN, hosts)] == [
        ("a", "client"), ("b", "server"), ("c", "observer"), ("d", "observer")
    ]  # fmt: skip
    both = replace(PLAN, server=PLAN.client)
    assert [(name, role) for name, role, _ in roles(both, {"a": None})] == [("a", "client")]


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
            Sockets,
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
def test_whatever_is_told_in_whatever_order_makes_a_picture_in_order(
    events: list[IntervalMeasured | Sockets], direction: str, omit: int
) -> None:
    watch = watching(replace(PLAN, direction=direction, omit=omit))  # type: ignore[arg-type]
    for number, event in enumerate(events):
        watch.take(event, now=AXIS + number)
    shown: RunView = watch.picture(AXIS + 60)
    for one in shown.flows:
        times = [arrival.time for arrival in one.arrivals]
        assert times == sorted(times)
        assert all(arrival.bits_per_second >= 0 for arrival in one.arrivals)
    moment(shown, 5.0)
    assert shown.ends >= shown.plan.time
