"""Real runs, watched: what is drawn while one goes on is what its result says in the end, and what a kept file says."""

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
from nictop.traffic.analysis.cpu_load import SHORTEST_WINDOW, windows
from nictop.traffic.experiment.experiment import READING
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.flow_view import SHORTEST_STEP
from nictop.traffic.live.host_view import SLIPPED
from nictop.traffic.live.run_view import LiveRun, RunView, moment, picture_of, whole
from nictop.traffic.results.result import Result
from nictop.traffic.results.store import StoredRun, encoded, parse_kept
from nictop.traffic.run.endpoint import CONTROL_BYTES
from nictop.traffic.run.events import Event, Finished, IntervalMeasured, Sockets
from nictop.traffic.run.run import Run
from tests.traffic.pair import WIRE, pair, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

RATE, HELD_TO = "20mbit", 19.12e6
"""Payload bits per second of 20 Mb/s of frames, as tc charges them (without preamble, FCS and gap)."""
INTERVAL = 0.2
"""Seconds: that of the pair's plans."""

RUNS: dict[str, dict[str, Any]] = {
    "forward": {"time": 3},
    "with losses": {"time": 2},
    "reverse": {"direction": "reverse", "omit": 1, "time": 2},
    "reverse builtin": {"direction": "reverse", "omit": 1, "time": 2, "generator": "builtin"},
    "bidirectional": {"direction": "bidirectional", "time": 2},
}
LOSING = ["tc", "qdisc", "change", "dev", WIRE, "root", "tbf", "rate", RATE, "burst", "16k", "limit", "32k"]
"""A queue that is shorter than what a sender has under way."""


@dataclass(frozen=True, eq=False)
class Watched:
    """One run."""

    events: list[Event]
    """What it told, but for its result."""
    axis: float
    """Where it begins by the event that came quickest, seconds of this machine's CLOCK_MONOTONIC."""
    ended: float
    """When the result came, on the same clock."""
    records: dict[str, tuple[Counters, ...]]
    """What both hosts had counted by then."""
    offsets: dict[str, float]
    """How their clocks then lay to that of this machine, as far as their lines tell."""
    live: RunView
    """The last picture before its end."""
    over: RunView
    """The one after it, of who has watched it."""
    kept: RunView
    """That of the file that is kept of it."""

    @property
    def result(self) -> Result:
        assert self.over.result is not None and self.over.result.failure is None, self.over.result
        return self.over.result

    def intervals(self, side: Side, *, sends: bool) -> list[Interval]:
        """What one end has told of one direction."""
        told = [event for event in self.events if isinstance(event, IntervalMeasured) and event.side == side]
        return [event.interval for event in told if event.interval.sends == sends]

    def looks(self, side: Side) -> dict[float, TrafficSocket]:
        """Time on the axis, once that is known → the connection by which an end sends, in the order of the looks."""
        looks = self._looks(side)
        found = {look.time: _sending(look) for look in looks if look.time is not None}
        # at the end only the connection may be left that controls the run
        return {time: one for time, one in found.items() if (one.bytes_acked or 0) > CONTROL_BYTES}

    def round_trips(self, side: Side) -> set[int | None]:
        """Those of all looks at the connection by which an end sends, µs."""
        return {_sending(look).rtt for look in self._looks(side)}

    def _looks(self, side: Side) -> list[Sockets]:
        return [one for one in self.events if isinstance(one, Sockets) and one.side == side and one.sockets]


def _sending(look: Sockets) -> TrafficSocket:
    return max(look.sockets, key=lambda one: one.bytes_acked or 0)


async def watched(options: dict[str, Any], *, losing: bool) -> Watched:
    """On two hosts of its own."""
    async with pair(RATE) as both:
        if losing:
            both.client.run(LOSING)
        plan = both.plan(**options)
        for name, host in both.hosts.items():
            await host.session.join_run(READING, both.place(name).ifindex)
        run, watching = Run(plan, both.hosts), LiveRun(plan, both.hosts)
        seen: list[Event] = []
        axis = math.inf
        async with aclosing(run.events()) as events:
            async for event in events:
                now = time.monotonic()
                if isinstance(event, Finished):
                    live = watching.picture(now)
                    kept = parse_kept(encoded(StoredRun("x-1", "x", event.result, 0.0, "1")))
                    records = {name: tuple(host.records) for name, host in both.hosts.items()}
                    offsets = {name: host.offset.seconds for name, host in both.hosts.items()}
                else:
                    seen.append(event)
                if isinstance(event, (IntervalMeasured, Sockets)) and event.time is not None:
                    axis = min(axis, now - event.time)
                watching.take(event, now)
                watching.picture(now)
        return Watched(seen, axis, now, records, offsets, live, watching.picture(now), picture_of(kept.result))


@pytest.fixture(scope="module")
def runs() -> dict[str, Watched]:
    """All at the same time."""

    async def every() -> list[Watched]:
        return await asyncio.gather(*(watched(options, losing=name == "with losses") for name, options in RUNS.items()))

    return dict(zip(RUNS, asyncio.run(every()), strict=True))


def shift(ones: Sequence[float], others: Sequence[float]) -> float:
    """By how much all others are later: every one by the same."""
    assert len(ones) == len(others) > 0
    first = others[0] - ones[0]
    assert [other - one for one, other in zip(ones, others, strict=True)] == pytest.approx([first] * len(ones))
    return first


def test_a_run_looks_alike_while_it_goes_on_and_after_it(runs: dict[str, Watched]) -> None:
    one = runs["forward"]
    (flow,), (final,) = one.live.flows, one.over.flows
    told = one.intervals("server", sends=False)
    assert [arrival.time for arrival in flow.arrivals] == [interval.end for interval in told]
    assert flow.arrivals[0].time >= INTERVAL and flow.arrivals[-1].time > 3 - INTERVAL
    assert [one.bits_per_second for one in flow.arrivals] == [one.bits_per_second for one in final.arrivals]
    # the file knows when the server began on the client's axis, and a watcher of its lines does not
    later = shift([one.time for one in flow.arrivals], [one.time for one in final.arrivals])
    assert abs(later) < INTERVAL / 2
    assert one.live.seconds == one.ended - one.axis >= 3
    counted = [one.retransmits for one in final.sendings if one.retransmits is not None]
    assert len(counted) == len(final.sendings) and sum(counted) == one.result.flows[0].retransmits


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_file_shows_the_directions_that_were_watched(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    assert one.result.failure is None
    for live, kept in zip(one.live.flows, one.kept.flows, strict=True):
        assert (live.words, live.side) == (kept.words, kept.side)
        assert [one.bits_per_second for one in live.arrivals] == [one.bits_per_second for one in kept.arrivals]
        told = one.intervals(live.side, sends=True)
        assert [one.retransmits for one in kept.sendings] == [one.retransmits for one in told]
        assert kept.sendings and None not in [one.retransmits for one in told]
        # an interval that the probe, on a busy machine, took no look near to has none
        known = {one.rtt for one in kept.sendings if one.rtt is not None}
        assert known and known <= one.round_trips(live.side)
        pairs = zip(told, kept.sendings, strict=True)
        assert all(one.congestion_window in (None, drawn.congestion_window) for one, drawn in pairs)


@pytest.mark.parametrize("name", RUNS)
def test_who_watches_sees_the_sockets_of_every_look(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    for live in one.live.flows:
        looks = one.looks(live.side)
        steps = [time for before, time in pairwise(looks) if time - before >= SHORTEST_STEP]
        assert [one.time for one in live.sendings] == steps
        for sending in live.sendings:
            look, before = looks[sending.time], looks[sending.time - sending.seconds]
            assert sending.retransmits == look.retransmits - before.retransmits
            assert (sending.rtt, sending.congestion_window) == (look.rtt, look.congestion_window * look.snd_mss)


@pytest.mark.parametrize("name", ["forward", "with losses", "bidirectional"])
def test_the_generator_and_the_sockets_count_the_same_retransmits(runs: dict[str, Watched], name: str) -> None:
    """Both read one counter of the kernel, which only grows, at other moments: each lies between two of the other."""
    one = runs[name]
    for kept in one.kept.flows:
        looks = one.looks(kept.side)
        late = shift([one.end for one in one.intervals(kept.side, sends=True)], [one.time for one in kept.sendings])
        bound = 0
        for sending, total in zip(
            kept.sendings, accumulate(one.retransmits or 0 for one in kept.sendings), strict=True
        ):
            before = [look.retransmits for time, look in looks.items() if time <= sending.time - late - INTERVAL]
            after = [look.retransmits for time, look in looks.items() if time >= sending.time - late + INTERVAL]
            assert max(before, default=0) <= total <= min(after, default=math.inf)
            bound += bool(before and after)
        assert bound >= 3
    if name == "with losses":
        assert (one.result.flows[0].retransmits or 0) > 0


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_file_shows_the_hosts_that_were_watched(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    for live, kept in zip(one.live.hosts, one.kept.hosts, strict=True):
        assert (live.role, live.host, live.nic) == (kept.role, kept.host, WIRE)
        ends = [after.time - one.offsets[live.host] - one.axis for _, after in windows(one.records[live.host])]
        assert [at.time for at in live.packets] == pytest.approx(ends, abs=SLIPPED)
        # either knows where the axis begins as well as lines have come by then: on a busy machine to half a second
        later = shift([at.time for at in live.packets], [at.time for at in kept.packets])
        assert abs(later) < SHORTEST_WINDOW
        for seen, told in ((live.series, kept.series), (live.packets, kept.packets), (live.carrying, kept.carrying)):
            assert [replace(at, time=0.0) for at in seen] == [replace(at, time=0.0) for at in told]
            assert shift([at.time for at in seen], [at.time for at in told]) == pytest.approx(later)


def test_hosts_are_counted_second_by_second(runs: dict[str, Watched]) -> None:
    one = runs["forward"]
    for host, shown in zip(one.live.hosts, one.kept.hosts, strict=True):
        assert all(0 < one.total <= one.cores + 1e-9 for one in host.series)
        packets = shown.packets
        assert all(one.seconds >= SHORTEST_WINDOW for one in packets)
        # a record of before the first byte opens the first window; one that comes after the last byte closes the last
        # window or comes less than a window later
        assert packets[0].time - packets[0].seconds <= 0 and packets[-1].time > 3 - SHORTEST_WINDOW
        plan = one.result.plan
        received, sent = counted(
            one.records[host.host], (plan.client if host.role == "client" else plan.server).ifindex
        )
        assert sum((one.received or 0.0) * one.seconds for one in packets) == pytest.approx(received)
        assert sum((one.sent or 0.0) * one.seconds for one in packets) == pytest.approx(sent)
        assert received > 100 and sent > 100
    for picture in (one.over, one.kept):
        receiver = moment(picture, 1.0).hosts[1].packets
        assert receiver is not None and receiver.received and receiver.dropped == 0
        total = whole(picture)
        assert total is not None and total.flows[0].arrival is not None
        assert total.flows[0].arrival.bits_per_second == pytest.approx(one.result.goodput, rel=0.05)
        assert 0 < total.flows[0].arrival.bits_per_second <= HELD_TO * 1.05
        assert total.hosts[1].packets is not None and total.hosts[1].packets.received


def counted(records: Sequence[Counters], ifindex: int | None) -> tuple[int, int]:
    """Packets that a NIC has received and sent in the windows of a run."""
    closed = windows(records)
    first, last = closed[0][0].links[ifindex or 0], closed[-1][1].links[ifindex or 0]
    columns = [LINK_COUNTERS.index(name) for name in ("rx_packets", "tx_packets")]
    received, sent = (last[column] - first[column] for column in columns)
    return received, sent


@pytest.mark.parametrize("name", ["reverse", "reverse builtin"])
def test_omitted_seconds_of_the_other_direction_are_before_zero(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    (flow,) = one.live.flows
    assert (flow.sender, flow.receiver, flow.side) == ("b", "a", "server")
    told = one.intervals("client", sends=False)
    assert [one.time for one in flow.arrivals] == sorted(one.end - one.omitted for one in told)
    assert -1 + INTERVAL <= flow.arrivals[0].time < 0 and flow.arrivals[-1].time > 2 - INTERVAL
    assert flow.sendings, "the server's sockets were looked at"


def test_two_directions_are_told_apart(runs: dict[str, Watched]) -> None:
    one = runs["bidirectional"]
    assert [flow.words for flow in one.live.flows] == ["a → b", "b → a"]
    for shown, flow in zip(one.live.flows, one.result.flows, strict=True):
        assert flow.goodput is not None
        size = sum(one.bits_per_second * one.seconds for one in shown.arrivals)
        assert size / sum(one.seconds for one in shown.arrivals) == pytest.approx(flow.goodput, rel=0.03)
