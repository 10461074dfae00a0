"""Real runs: the live view agrees with the final result and with the stored file."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import pytest

from nictop.probe.records import LINK_COUNTERS, Counters, TrafficSocket
from nictop.traffic.analysis.cpu_load import MIN_CPU_WINDOW_SECONDS, windows
from nictop.traffic.experiment.experiment import COUNTER_INTERVAL_SECONDS
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.flow_view import MIN_SOCKET_INTERVAL
from nictop.traffic.live.host_view import MIN_SHIFT_SECONDS
from nictop.traffic.live.run_view import LiveRun, RunView, result_view, run_totals, sample_at
from nictop.traffic.results.result import Result
from nictop.traffic.results.store import StoredRun, encode_run, parse_run
from nictop.traffic.run.endpoint import CONTROL_BYTES
from nictop.traffic.run.events import IntervalMeasured, RunEvent, RunFinished, SocketSample
from nictop.traffic.run.run import Run
from tests.traffic.pair import WIRE, missing_requirement, pair

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

RATE, LINK_BITS_PER_SECOND = "20mbit", 19.12e6
"""Payload bits per second of 20 Mb/s of frames, as tc counts them (without preamble, FCS and gap)."""
INTERVAL = 0.2
"""Seconds, as in the plans of the pair."""

RUNS: dict[str, dict[str, Any]] = {
    "forward": {"time": 3},
    "with losses": {"time": 2},
    "reverse": {"direction": "reverse", "omit": 1, "time": 2},
    "reverse builtin": {"direction": "reverse", "omit": 1, "time": 2, "generator": "builtin"},
    "bidirectional": {"direction": "bidirectional", "time": 2},
}
SHORT_QUEUE = [
    "tc",
    "qdisc",
    "change",
    "dev",
    WIRE,
    "root",
    "tbf",
    "rate",
    RATE,
    "burst",
    "16k",
    "limit",
    "32k",
]
"""The queue is shorter than the bytes in flight of a sender."""


@dataclass(frozen=True, eq=False)
class WatchedRun:
    """A run with its live view."""

    events: list[RunEvent]
    """All events but the result."""
    axis: float
    """Start of the axis according to the earliest event, seconds of this machine's CLOCK_MONOTONIC."""
    ended: float
    """Time of the result, on the same clock."""
    records: dict[str, tuple[Counters, ...]]
    """Host → its counter records until then."""
    offsets: dict[str, float]
    """Host → offset of its clock to that of this machine, as measured then."""
    live: RunView
    """The last view before its end."""
    final_view: RunView
    """The live view after the result."""
    stored: RunView
    """The view of the stored result."""

    @property
    def result(self) -> Result:
        assert self.final_view.result is not None and self.final_view.result.failure is None, self.final_view.result
        return self.final_view.result

    def intervals(self, side: Side, *, sends: bool) -> list[Interval]:
        """Intervals of one direction that one end reported."""
        reported = [event for event in self.events if isinstance(event, IntervalMeasured) and event.side == side]
        return [event.interval for event in reported if event.interval.sends == sends]

    def samples(self, side: Side) -> dict[float, TrafficSocket]:
        """Time on the axis → sample of the connection by which an end sends, in order; without those before the axis is
        known."""
        samples = self._samples(side)
        found = {sample.time: _sending(sample) for sample in samples if sample.time is not None}
        # at the end only the connection may be left that controls the run
        return {time: one for time, one in found.items() if (one.bytes_acked or 0) > CONTROL_BYTES}

    def round_trips(self, side: Side) -> set[int | None]:
        """Round trips in µs of all samples of the connection by which an end sends."""
        return {_sending(sample).rtt for sample in self._samples(side)}

    def _samples(self, side: Side) -> list[SocketSample]:
        return [one for one in self.events if isinstance(one, SocketSample) and one.side == side and one.sockets]


def _sending(sample: SocketSample) -> TrafficSocket:
    return max(sample.sockets, key=lambda one: one.bytes_acked or 0)


async def watch_run(options: dict[str, Any], *, short_queue: bool) -> WatchedRun:
    """Complete a run on two new hosts."""
    async with pair(RATE) as both:
        if short_queue:
            both.client.run(SHORT_QUEUE)
        plan = both.plan(**options)
        for name, host in both.hosts.items():
            await host.session.join_run(COUNTER_INTERVAL_SECONDS, both.endpoint(name).ifindex)
        run, live_run = Run(plan, both.hosts), LiveRun(plan, both.hosts)
        seen: list[RunEvent] = []
        axis = math.inf
        async with aclosing(run.events()) as events:
            async for event in events:
                now = time.monotonic()
                if isinstance(event, RunFinished):
                    live = live_run.view(now)
                    stored = parse_run(encode_run(StoredRun("x-1", "x", event.result, 0.0, "1")))
                    records = {name: tuple(host.records) for name, host in both.hosts.items()}
                    offsets = {name: host.offset.seconds for name, host in both.hosts.items()}
                else:
                    seen.append(event)
                if isinstance(event, (IntervalMeasured, SocketSample)) and event.time is not None:
                    axis = min(axis, now - event.time)
                live_run.process(event, now)
                live_run.view(now)
        return WatchedRun(seen, axis, now, records, offsets, live, live_run.view(now), result_view(stored.result))


@pytest.fixture(scope="module")
def runs() -> dict[str, WatchedRun]:
    """All runs, carried out concurrently."""

    async def every() -> list[WatchedRun]:
        return await asyncio.gather(
            *(watch_run(options, short_queue=name == "with losses") for name, options in RUNS.items())
        )

    return dict(zip(RUNS, asyncio.run(every()), strict=True))


def shift(ones: Sequence[float], others: Sequence[float]) -> float:
    """How much later all others are; the same for each."""
    assert len(ones) == len(others) > 0
    first = others[0] - ones[0]
    assert [other - one for one, other in zip(ones, others, strict=True)] == pytest.approx(
        [first] * len(ones), abs=1e-9
    )
    return first


def test_live_view_equals_the_final_view(runs: dict[str, WatchedRun]) -> None:
    one = runs["forward"]
    (flow,), (final,) = one.live.flows, one.final_view.flows
    reported = one.intervals("server", sends=False)
    assert [arrival.time for arrival in flow.arrivals] == [interval.end for interval in reported]
    assert flow.arrivals[0].time >= INTERVAL and flow.arrivals[-1].time > 3 - INTERVAL
    assert [one.bits_per_second for one in flow.arrivals] == [one.bits_per_second for one in final.arrivals]
    # the file knows when the server began on the client's axis, and a watcher of its lines does not
    later = shift([one.time for one in flow.arrivals], [one.time for one in final.arrivals])
    assert abs(later) < INTERVAL / 2
    assert one.live.seconds == one.ended - one.axis >= 3
    counted = [one.retransmits for one in final.sender_states if one.retransmits is not None]
    assert len(counted) == len(final.sender_states) and sum(counted) == one.result.flows[0].retransmits


@pytest.mark.parametrize("name", RUNS)
def test_stored_flows_equal_the_live_ones(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    assert one.result.failure is None
    for live, stored in zip(one.live.flows, one.stored.flows, strict=True):
        assert (live.label, live.side) == (stored.label, stored.side)
        assert [one.bits_per_second for one in live.arrivals] == [one.bits_per_second for one in stored.arrivals]
        reported = one.intervals(live.side, sends=True)
        assert [one.retransmits for one in stored.sender_states] == [one.retransmits for one in reported]
        assert stored.sender_states and None not in [one.retransmits for one in reported]
        # an interval without a socket sample nearby has no round trip
        known = {one.rtt for one in stored.sender_states if one.rtt is not None}
        assert known and known <= one.round_trips(live.side)
        pairs = zip(reported, stored.sender_states, strict=True)
        assert all(one.congestion_window in (None, drawn.congestion_window) for one, drawn in pairs)


@pytest.mark.parametrize("name", RUNS)
def test_live_view_has_every_socket_sample(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    for live in one.live.flows:
        samples = one.samples(live.side)
        steps = [time for before, time in pairwise(samples) if time - before >= MIN_SOCKET_INTERVAL]
        assert [one.time for one in live.sender_states] == steps
        for sending in live.sender_states:
            sample, before = samples[sending.time], samples[sending.time - sending.seconds]
            assert sending.retransmits == sample.retransmits - before.retransmits
            assert (sending.rtt, sending.congestion_window) == (sample.rtt, sample.congestion_window * sample.snd_mss)


@pytest.mark.parametrize("name", ["forward", "with losses", "bidirectional"])
def test_generator_and_sockets_count_the_same_retransmits(runs: dict[str, WatchedRun], name: str) -> None:
    """Both read one kernel counter, which only grows, at different times: each value lies between two of the other."""
    one = runs[name]
    for stored in one.stored.flows:
        samples = one.samples(stored.side)
        late = shift(
            [one.end for one in one.intervals(stored.side, sends=True)], [one.time for one in stored.sender_states]
        )
        bound = 0
        for sending, total in zip(
            stored.sender_states, accumulate(one.retransmits or 0 for one in stored.sender_states), strict=True
        ):
            before = [sample.retransmits for time, sample in samples.items() if time <= sending.time - late - INTERVAL]
            after = [sample.retransmits for time, sample in samples.items() if time >= sending.time - late + INTERVAL]
            assert max(before, default=0) <= total <= min(after, default=math.inf)
            bound += bool(before and after)
        assert bound >= 3
    if name == "with losses":
        assert (one.result.flows[0].retransmits or 0) > 0


@pytest.mark.parametrize("name", RUNS)
def test_stored_hosts_equal_the_live_ones(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    for live, stored in zip(one.live.hosts, one.stored.hosts, strict=True):
        assert (live.role, live.host, live.nic) == (stored.role, stored.host, WIRE)
        ends = [after.time - one.offsets[live.host] - one.axis for _, after in windows(one.records[live.host])]
        assert [at.time for at in live.packets] == pytest.approx(ends, abs=MIN_SHIFT_SECONDS)
        # both know the start of the axis from the lines until then: on a busy machine within half a second
        later = shift([at.time for at in live.packets], [at.time for at in stored.packets])
        assert abs(later) < MIN_CPU_WINDOW_SECONDS
        for seen, reported in (
            (live.series, stored.series),
            (live.packets, stored.packets),
            (live.carrying, stored.carrying),
        ):
            assert [replace(at, time=0.0) for at in seen] == [replace(at, time=0.0) for at in reported]
            assert shift([at.time for at in seen], [at.time for at in reported]) == pytest.approx(later, abs=1e-9)


def test_host_series_have_windows_of_a_second(runs: dict[str, WatchedRun]) -> None:
    one = runs["forward"]
    for host, stored_view in zip(one.live.hosts, one.stored.hosts, strict=True):
        assert all(0 < one.total <= one.cores + 1e-9 for one in host.series)
        packets = stored_view.packets
        assert all(one.seconds >= MIN_CPU_WINDOW_SECONDS for one in packets)
        # a record before the first byte opens the first window; one after the last byte closes the last
        # window or is less than a window later
        assert packets[0].time - packets[0].seconds <= 0 and packets[-1].time > 3 - MIN_CPU_WINDOW_SECONDS
        plan = one.result.plan
        received, sent = counted(
            one.records[host.host], (plan.client if host.role == "client" else plan.server).ifindex
        )
        assert sum((one.received or 0.0) * one.seconds for one in packets) == pytest.approx(received)
        assert sum((one.sent or 0.0) * one.seconds for one in packets) == pytest.approx(sent)
        assert received > 100 and sent > 100
    for view in (one.final_view, one.stored):
        receiver = sample_at(view, 1.0).hosts[1].packets
        assert receiver is not None and receiver.received and receiver.dropped == 0
        total = run_totals(view)
        assert total is not None and total.flows[0].arrival is not None
        assert total.flows[0].arrival.bits_per_second == pytest.approx(one.result.goodput, rel=0.05)
        assert 0 < total.flows[0].arrival.bits_per_second <= LINK_BITS_PER_SECOND * 1.05
        assert total.hosts[1].packets is not None and total.hosts[1].packets.received


def counted(records: Sequence[Counters], ifindex: int | None) -> tuple[int, int]:
    """Packets that a NIC received and sent in the windows of a run."""
    closed = windows(records)
    first, last = closed[0][0].links[ifindex or 0], closed[-1][1].links[ifindex or 0]
    columns = [LINK_COUNTERS.index(name) for name in ("rx_packets", "tx_packets")]
    received, sent = (last[column] - first[column] for column in columns)
    return received, sent


@pytest.mark.parametrize("name", ["reverse", "reverse builtin"])
def test_omitted_seconds_of_a_reverse_run_are_before_zero(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    (flow,) = one.live.flows
    assert (flow.sender, flow.receiver, flow.side) == ("b", "a", "server")
    reported = one.intervals("client", sends=False)
    assert [one.time for one in flow.arrivals] == sorted(one.end - one.omitted for one in reported)
    assert -1 + INTERVAL <= flow.arrivals[0].time < 0 and flow.arrivals[-1].time > 2 - INTERVAL
    assert flow.sender_states, "the server's sockets were looked at"


def test_bidirectional_flows(runs: dict[str, WatchedRun]) -> None:
    one = runs["bidirectional"]
    assert [flow.label for flow in one.live.flows] == ["a → b", "b → a"]
    for stored_view, flow in zip(one.live.flows, one.result.flows, strict=True):
        assert flow.goodput is not None
        size = sum(one.bits_per_second * one.seconds for one in stored_view.arrivals)
        assert size / sum(one.seconds for one in stored_view.arrivals) == pytest.approx(flow.goodput, rel=0.03)
