"""A real run, watched: what is drawn while it goes on is what its result says in the end."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from nictop.traffic.events import Finished
from nictop.traffic.picture import RunPicture, Watching, moment, picture_of, whole
from nictop.traffic.run import Run
from tests.traffic.pair import Pair, pair, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

HELD_TO = 382.4e6
"""Payload bits per second of 400 Mb/s of frames, as tc charges them (without preamble, FCS and gap)."""


async def watched(both: Pair, **more: object) -> tuple[RunPicture, RunPicture]:
    """(the last picture before the end, the one after it)"""
    plan = both.plan(**more)  # type: ignore[arg-type]
    run, watching = Run(plan, both.hosts), Watching(plan, both.hosts)
    before = watching.picture()
    async with aclosing(run.events()) as events:
        async for event in events:
            if isinstance(event, Finished):
                before = watching.picture()
            watching.take(event)
            watching.picture()
    return before, watching.picture()


async def test_a_run_looks_alike_while_it_goes_on_and_after_it() -> None:
    async with pair() as both:
        live, over = await watched(both, time=3)
    assert over.result is not None and over.result.failure is None
    (flow,), (final,) = live.flows, over.flows
    assert [round(one.time, 1) for one in flow.arrivals] == [round(0.2 * number, 1) for number in range(1, 16)]
    assert [one.bits_per_second for one in flow.arrivals] == [one.bits_per_second for one in final.arrivals]
    assert [one.time for one in flow.arrivals] == pytest.approx([one.time for one in final.arrivals], abs=0.1)
    assert final.sendings and all(one.rtt and one.congestion_window for one in final.sendings)
    assert all(one.retransmits == 0 for one in final.sendings)
    assert 3 <= live.seconds < 8


async def test_its_hosts_are_counted_second_by_second() -> None:
    async with pair() as both:
        live, over = await watched(both, time=3)
    for host in live.hosts:
        assert 2 <= len(host.series) <= 6 and all(0 < one.total <= one.cores for one in host.series[:2])
        assert host.nic == "nictopt"
    sender, receiver = (moment(over, 2.0).hosts[number].packets for number in range(2))
    assert sender is not None and receiver is not None
    assert receiver.received == pytest.approx(sender.sent, rel=0.5) and receiver.dropped == 0
    total = whole(over)
    assert total is not None and total.flows[0].arrival is not None
    assert total.flows[0].arrival.bits_per_second == pytest.approx(HELD_TO, rel=0.05)
    assert total.hosts[1].packets is not None and (total.hosts[1].packets.received or 0) > 100


@pytest.mark.parametrize("generator", ["iperf3", "builtin"])
async def test_omitted_seconds_of_the_other_direction_are_before_zero(generator: str) -> None:
    async with pair() as both:
        live, over = await watched(both, generator=generator, direction="reverse", omit=1, time=2)
    (flow,) = live.flows
    assert (flow.sender, flow.receiver, flow.side) == ("b", "a", "server")
    assert flow.arrivals[0].time == pytest.approx(-0.8, abs=0.1) and flow.arrivals[-1].time == pytest.approx(2, abs=0.3)
    assert flow.sendings, "the server's sockets were looked at"
    assert over.result is not None
    assert [one.bits_per_second for one in over.flows[0].arrivals] == [
        one.bits_per_second for one in picture_of(over.result).flows[0].arrivals
    ]


async def test_two_directions_are_told_apart() -> None:
    async with pair() as both:
        live, over = await watched(both, direction="bidirectional", time=2)
    assert [one.words for one in live.flows] == ["a → b", "b → a"]
    assert over.result is not None
    for shown, flow in zip(live.flows, over.result.flows, strict=True):
        assert flow.goodput is not None
        mean = sum(one.bits_per_second for one in shown.arrivals) / len(shown.arrivals)
        assert mean == pytest.approx(flow.goodput, rel=0.15)
