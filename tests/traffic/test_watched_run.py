"""Real runs, watched: what is drawn while one goes on is what its result says in the end, and what a kept file says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from nictop.traffic.events import Finished
from nictop.traffic.experiment import READING
from nictop.traffic.flow_picture import Sending
from nictop.traffic.kept_files import Kept, encoded, parse_kept
from nictop.traffic.picture import RunPicture, Watching, moment, picture_of, whole
from nictop.traffic.result import Result
from nictop.traffic.run import Run
from tests.traffic.pair import pair, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

HELD_TO = 95.6e6
"""Payload bits per second of 100 Mb/s of frames, as tc charges them (without preamble, FCS and gap)."""

RUNS: dict[str, dict[str, Any]] = {
    "forward": {"time": 3},
    "reverse": {"direction": "reverse", "omit": 1, "time": 2},
    "reverse builtin": {"direction": "reverse", "omit": 1, "time": 2, "generator": "builtin"},
    "bidirectional": {"direction": "bidirectional", "time": 2},
}


@dataclass(frozen=True, eq=False)
class Watched:
    """One run."""

    live: RunPicture
    """The last picture before its end."""
    over: RunPicture
    """The one after it, of who has watched it."""
    kept: RunPicture
    """That of the file that is kept of it."""

    @property
    def result(self) -> Result:
        assert self.over.result is not None and self.over.result.failure is None, self.over.result
        return self.over.result


async def watched(options: dict[str, Any]) -> Watched:
    """On two hosts of its own."""
    async with pair("100mbit") as both:
        plan = both.plan(**options)
        for name, host in both.hosts.items():
            await host.attend(READING, both.place(name).ifindex)
        run, watching = Run(plan, both.hosts), Watching(plan, both.hosts)
        live = watching.picture()
        async with aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, Finished):
                    live = watching.picture()
                    kept = parse_kept(encoded(Kept("x-1", "x", event.result, 0.0, "1")))
                watching.take(event)
                watching.picture()
        return Watched(live, watching.picture(), picture_of(kept.result))


@pytest.fixture(scope="module")
def runs() -> dict[str, Watched]:
    """All at the same time."""

    async def every() -> list[Watched]:
        return await asyncio.gather(*(watched(options) for options in RUNS.values()))

    return dict(zip(RUNS, asyncio.run(every()), strict=True))


def test_a_run_looks_alike_while_it_goes_on_and_after_it(runs: dict[str, Watched]) -> None:
    one = runs["forward"]
    (flow,), (final,) = one.live.flows, one.over.flows
    assert one.result.failure is None
    assert [round(arrival.time, 1) for arrival in flow.arrivals] == [round(0.2 * number, 1) for number in range(1, 16)]
    assert [one.bits_per_second for one in flow.arrivals] == [one.bits_per_second for one in final.arrivals]
    assert [one.time for one in flow.arrivals] == pytest.approx([one.time for one in final.arrivals], abs=0.1)
    counted = [one.retransmits for one in final.sendings if one.retransmits is not None]
    assert len(counted) == len(final.sendings) and sum(counted) == one.result.flows[0].retransmits
    assert 3 <= one.live.seconds < 8


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_file_shows_the_directions_that_were_watched(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    assert one.result.failure is None
    for live, kept in zip(one.live.flows, one.kept.flows, strict=True):
        assert (live.words, live.side) == (kept.words, kept.side)
        assert [one.bits_per_second for one in live.arrivals] == [one.bits_per_second for one in kept.arrivals]
        assert kept.sendings and all(one.rtt and one.congestion_window for one in kept.sendings)
        # who watches looks at the sockets of the first half second in vain: the axis is not known yet
        assert abs(after(1.0, live.sendings) - after(1.0, kept.sendings)) <= 3
        assert resent(kept.sendings) == pytest.approx(resent(live.sendings), rel=0.2, abs=10)


def after(time: float, sendings: Sequence[Sending]) -> int:
    return sum(one.time > time for one in sendings)


def resent(sendings: Sequence[Sending]) -> int:
    """Segments, from the moment on that both have seen."""
    return sum(one.retransmits or 0 for one in sendings if one.time > 1.0)


@pytest.mark.parametrize("name", RUNS)
def test_a_kept_file_shows_the_hosts_that_were_watched(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    for live, kept in zip(one.live.hosts, one.kept.hosts, strict=True):
        assert (live.role, live.host, live.nic) == (kept.role, kept.host, "nictopt")
        for seen, told in ((live.series, kept.series), (live.packets, kept.packets), (live.carrying, kept.carrying)):
            # a second more may have been over before the last record came
            assert seen and 0 <= len(told) - len(seen) <= 1
            assert [at.time for at in told][: len(seen)] == pytest.approx([at.time for at in seen], abs=0.1)
        pairs = list(zip(live.packets, kept.packets, strict=False))
        assert [(one.received, one.sent, one.dropped) for one, _ in pairs] == [
            (one.received, one.sent, one.dropped) for _, one in pairs
        ]
        assert [(one.queue, one.queues, one.cpus) for one in live.carrying] == [
            (one.queue, one.queues, one.cpus) for one in kept.carrying[: len(live.carrying)]
        ]
        assert [one.user for one in live.series] == [one.user for one in kept.series[: len(live.series)]]


def test_hosts_are_counted_second_by_second(runs: dict[str, Watched]) -> None:
    one = runs["forward"]
    for host in one.live.hosts:
        assert 2 <= len(host.series) <= 6 and all(0 < one.total <= one.cores for one in host.series[:2])
    for shown in (one.over, one.kept):
        sender, receiver = (moment(shown, 2.0).hosts[number].packets for number in range(2))
        assert sender is not None and receiver is not None
        assert receiver.received == pytest.approx(sender.sent, rel=0.5) and receiver.dropped == 0
        total = whole(shown)
        assert total is not None and total.flows[0].arrival is not None
        assert total.flows[0].arrival.bits_per_second == pytest.approx(HELD_TO, rel=0.05)
        assert total.hosts[1].packets is not None and (total.hosts[1].packets.received or 0) > 100


@pytest.mark.parametrize("name", ["reverse", "reverse builtin"])
def test_omitted_seconds_of_the_other_direction_are_before_zero(runs: dict[str, Watched], name: str) -> None:
    one = runs[name]
    (flow,) = one.live.flows
    assert (flow.sender, flow.receiver, flow.side) == ("b", "a", "server")
    assert flow.arrivals[0].time == pytest.approx(-0.8, abs=0.1) and flow.arrivals[-1].time == pytest.approx(2, abs=0.3)
    assert flow.sendings, "the server's sockets were looked at"


def test_two_directions_are_told_apart(runs: dict[str, Watched]) -> None:
    one = runs["bidirectional"]
    assert [flow.words for flow in one.live.flows] == ["a → b", "b → a"]
    for shown, flow in zip(one.live.flows, one.result.flows, strict=True):
        assert flow.goodput is not None
        mean = sum(one.bits_per_second for one in shown.arrivals) / len(shown.arrivals)
        assert mean == pytest.approx(flow.goodput, rel=0.15)
