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
from nictop.traffic.analysis.socket_samples import CONTROL_BYTES
from nictop.traffic.experiment.experiment import COUNTER_INTERVAL_SECONDS
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.flow_so_far import MIN_SOCKET_INTERVAL
from nictop.traffic.live.run_view import LiveRun, RunView, result_view
from nictop.traffic.live.samples import run_totals, sample_at
from nictop.traffic.live.series import PLACE_SECONDS
from nictop.traffic.record.log import IntervalMeasured, RunLog, axis_start
from nictop.traffic.results.result import Flow, IntervalPoint, Result, is_sender_state
from nictop.traffic.results.store import StoredRun, encode_run, parse_run
from nictop.traffic.run.events import RunBegan, RunEvent, RunFinished
from nictop.tui.widgets.traffic.legend import direction_text
from tests.traffic.emitted import Run
from tests.traffic.pair import WIRE, missing_requirement, pair

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

RATE, LINK_BITS_PER_SECOND = "20mbit", 19.12e6
"""Payload bits per second of 20 Mb/s of frames, as tc counts them (without preamble, FCS and
gap)."""
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
    log: RunLog
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
    def axis(self) -> float:
        """Start of the axis, seconds of this machine's CLOCK_MONOTONIC."""
        axis = axis_start(self.log)
        assert axis is not None
        return axis

    @property
    def result(self) -> Result:
        assert self.final_view.result is not None and self.final_view.result.failure is None, (
            self.final_view.result
        )
        return self.final_view.result

    def intervals(self, side: Side, *, sends: bool) -> list[Interval]:
        """Intervals of one direction that one end reported."""
        reported = [
            event
            for event in self.events
            if isinstance(event, IntervalMeasured) and event.side == side
        ]
        return [event.interval for event in reported if event.interval.sends == sends]

    def samples(self, side: Side) -> dict[float, TrafficSocket]:
        """Time on the axis → sample of the connection by which an end sends, in order."""
        origin = self.axis + self.offsets[self.log.ends[side].host]
        found = {time - origin: sending for time, sending in self._samples(side)}
        # at the end only the connection may be left that controls the run
        return {time: one for time, one in found.items() if (one.bytes_acked or 0) > CONTROL_BYTES}

    def round_trips(self, side: Side) -> set[int | None]:
        """Round trips in µs of all samples of the connection by which an end sends."""
        return {sending.rtt for _, sending in self._samples(side)}

    def _samples(self, side: Side) -> list[tuple[float, TrafficSocket]]:
        samples = self.log.ends[side].sockets
        return [(time, _sending(sockets)) for time, sockets in samples if sockets]

    def flows(self, view: RunView) -> list[tuple[Side, Flow]]:
        """With their sending ends."""
        return list(zip(self.result.plan.sending, view.flows, strict=True))


def _sending(sockets: Sequence[TrafficSocket]) -> TrafficSocket:
    return max(sockets, key=lambda one: one.bytes_acked or 0)


def rates(flow: Flow) -> list[float]:
    return [one.interval.bits_per_second for one in flow.points]


def states(flow: Flow) -> list[IntervalPoint]:
    """What the sender reported of its connections."""
    return [one for one in flow.reports_of_sender if is_sender_state(one.interval)]


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
                if isinstance(event, RunBegan):
                    log = event.log
                live_run.process(event)
                live_run.view(now)
        return WatchedRun(
            seen, log, now, records, offsets, live, live_run.view(now), result_view(stored.result)
        )


@pytest.fixture(scope="module")
def runs() -> dict[str, WatchedRun]:
    """All runs, carried out concurrently."""

    async def every() -> list[WatchedRun]:
        return await asyncio.gather(
            *(
                watch_run(options, short_queue=name == "with losses")
                for name, options in RUNS.items()
            )
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
    # when the server began on the axis of the client
    later = shift([interval.end for interval in reported], [point.time for point in flow.points])
    assert abs(later) < INTERVAL / 2
    assert flow.points[-1].time > 3 - INTERVAL
    assert rates(flow) == rates(final)
    later = shift([one.time for one in flow.points], [one.time for one in final.points])
    assert abs(later) <= PLACE_SECONDS
    assert one.live.seconds == one.ended - one.axis >= 3
    sent = [point.interval.retransmits for point in states(final)]
    counted = [count for count in sent if count is not None]
    assert len(counted) == len(sent) and sum(counted) == one.result.flows[0].retransmits


@pytest.mark.parametrize("name", RUNS)
def test_stored_flows_equal_the_live_ones(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    assert one.result.failure is None
    for (side, live), stored in zip(one.flows(one.live), one.stored.flows, strict=True):
        assert direction_text(live) == direction_text(stored)
        assert rates(live) == rates(stored)
        reported = one.intervals(side, sends=True)
        sent = [point.interval for point in states(stored)]
        assert [one.retransmits for one in sent] == [one.retransmits for one in reported]
        assert sent and None not in [one.retransmits for one in reported]
        # an interval without a socket sample nearby has no round trip
        known = {one.rtt for one in sent if one.rtt is not None}
        assert known and known <= one.round_trips(side)
        pairs = zip(reported, sent, strict=True)
        assert all(one.congestion_window in (None, drawn.congestion_window) for one, drawn in pairs)


@pytest.mark.parametrize("name", RUNS)
def test_live_view_has_every_socket_sample(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    for side, live in one.flows(one.live):
        samples = list(one.samples(side).items())
        first, last = samples[0][0] + PLACE_SECONDS, samples[-1][0] + PLACE_SECONDS
        drawn = [point for point in states(live) if first < point.time < last]
        steps = [
            (time, sample, before)
            for (since, before), (time, sample) in pairwise(samples)
            if time - since >= MIN_SOCKET_INTERVAL
        ]
        times = [time for time, _, _ in steps]
        assert [point.time for point in drawn] == pytest.approx(times, abs=PLACE_SECONDS)
        for point, (_, sample, before) in zip(drawn, steps, strict=True):
            sending = point.interval
            assert sending.retransmits == sample.retransmits - before.retransmits
            assert (sending.rtt, sending.congestion_window) == (
                sample.rtt,
                sample.congestion_window * sample.snd_mss,
            )


@pytest.mark.parametrize("name", ["forward", "with losses", "bidirectional"])
def test_generator_and_sockets_count_the_same_retransmits(
    runs: dict[str, WatchedRun], name: str
) -> None:
    """Both read one kernel counter, which only grows, at different times: each value lies between
    two of the other."""
    one = runs[name]
    for side, stored in one.flows(one.stored):
        samples = one.samples(side)
        late = shift(
            [one.end for one in one.intervals(side, sends=True)],
            [one.time for one in states(stored)],
        )
        bound = 0
        for sending, total in zip(
            states(stored),
            accumulate(one.interval.retransmits or 0 for one in states(stored)),
            strict=True,
        ):
            before = [
                sample.retransmits
                for time, sample in samples.items()
                if time <= sending.time - late - INTERVAL
            ]
            after = [
                sample.retransmits
                for time, sample in samples.items()
                if time >= sending.time - late + INTERVAL
            ]
            assert max(before, default=0) <= total <= min(after, default=math.inf)
            bound += bool(before and after)
        assert bound >= 3
    if name == "with losses":
        assert (one.result.flows[0].retransmits or 0) > 0


@pytest.mark.parametrize("name", RUNS)
def test_stored_hosts_equal_the_live_ones(runs: dict[str, WatchedRun], name: str) -> None:
    one = runs[name]
    for live, stored in zip(one.live.hosts, one.stored.hosts, strict=True):
        assert (live.role, live.host) == (stored.role, stored.host)
        assert one.live.nic_of(live) == one.stored.nic_of(stored) == WIRE
        ends = [
            after.time - one.offsets[live.host] - one.axis
            for _, after in windows(one.records[live.host])
        ]
        assert [at.time for at in live.packets] == pytest.approx(ends, abs=PLACE_SECONDS)
        later = shift([at.time for at in live.packets], [at.time for at in stored.packets])
        assert abs(later) <= PLACE_SECONDS
        for seen, reported in (
            (live.series, stored.series),
            (live.packets, stored.packets),
            (live.carrying, stored.carrying),
        ):
            assert [replace(at, time=0.0) for at in seen] == [
                replace(at, time=0.0) for at in reported
            ]
            assert shift([at.time for at in seen], [at.time for at in reported]) == pytest.approx(
                later, abs=1e-9
            )


def test_host_series_have_windows_of_a_second(runs: dict[str, WatchedRun]) -> None:
    one = runs["forward"]
    for host, stored_view in zip(one.live.hosts, one.stored.hosts, strict=True):
        assert all(0 < one.total <= one.cores + 1e-9 for one in host.series)
        packets = stored_view.packets
        assert all(one.seconds >= MIN_CPU_WINDOW_SECONDS for one in packets)
        # a record before the first byte opens the first window; one after the last byte closes the
        # last window or is less than a window later
        assert (
            packets[0].time - packets[0].seconds <= 0
            and packets[-1].time > 3 - MIN_CPU_WINDOW_SECONDS
        )
        plan = one.result.plan
        received, sent = counted(
            one.records[host.host], (plan.client if host.role == "client" else plan.server).ifindex
        )
        assert sum((one.received or 0.0) * one.seconds for one in packets) == pytest.approx(
            received
        )
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
def test_omitted_seconds_of_a_reverse_run_are_before_zero(
    runs: dict[str, WatchedRun], name: str
) -> None:
    one = runs[name]
    (flow,) = one.live.flows
    assert (flow.sender, flow.receiver, one.result.plan.sending) == ("b", "a", ("server",))
    reported = one.intervals("client", sends=False)
    ends = sorted(one.end - one.omitted for one in reported)
    assert [one.time for one in flow.points] == pytest.approx(ends, abs=1e-9)
    assert -1 + INTERVAL <= ends[0] < 0 and flow.points[-1].time > 2 - INTERVAL
    assert states(flow), "the server's sockets were looked at"


def test_bidirectional_flows(runs: dict[str, WatchedRun]) -> None:
    one = runs["bidirectional"]
    assert [direction_text(flow) for flow in one.live.flows] == ["a → b", "b → a"]
    for stored_view, flow in zip(one.live.flows, one.result.flows, strict=True):
        assert flow.goodput is not None
        size = sum(one.interval.bits_per_second * one.seconds for one in stored_view.points)
        assert size / sum(one.seconds for one in stored_view.points) == pytest.approx(
            flow.goodput, rel=0.03
        )
