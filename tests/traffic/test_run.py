"""Real runs between two real probes: the numbers are iperf3's, and whatever happens, nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import aclosing
from dataclasses import replace

import pytest

from nictop.traffic.events import Event, Finished, Limits, Measured, Stage
from nictop.traffic.plan import Place
from nictop.traffic.result import Result
from nictop.traffic.run import Run
from tests.support.probe import wait_until
from tests.traffic.pair import LIMIT, Pair, pair, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

HELD_TO = 382.4e6
"""Payload bits per second of 400 Mb/s of frames, as tc charges them (without preamble, FCS and gap)."""


async def carried_out(both: Pair, *, limits: Limits | None = None, **more: object) -> tuple[Result, list[Event]]:
    events = [event async for event in Run(both.plan(**more), both.hosts, limits=limits).events()]
    assert isinstance(events[-1], Finished)
    return events[-1].result, events


async def after_first_byte(both: Pair, run: Run) -> list[Event]:
    """Events until something has arrived; then the iterator is closed."""
    seen: list[Event] = []
    async with aclosing(run.events()) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, Measured) and not event.interval.sends:
                break
    return seen


def other_server(both: Pair) -> subprocess.Popen[bytes]:
    command = ["ip", "netns", "exec", both.server.name, "iperf3", "-s", "-1", "-p", "5201"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


async def test_every_kind_of_run_over_one_pair() -> None:
    async with pair() as both:
        result, events = await carried_out(both)
        assert result.failure is None
        assert result.goodput == pytest.approx(HELD_TO, rel=0.02)
        assert [event.name for event in events if isinstance(event, Stage)] == [
            "checking",
            "starting",
            "listening",
            "running",
            "ending",
        ]
        (flow,) = result.flows
        assert (flow.sender, flow.receiver, flow.retransmits) == ("a", "b", 0)
        assert [round(point.time, 1) for point in flow.points] == [round(0.2 * n, 1) for n in range(1, 11)]
        (figures,) = result.sockets
        assert (figures.host, figures.snd_mss) == ("a", 1448) and figures.rtt
        for load in result.hosts:
            assert load.busy is not None and 0 < load.busy.total <= load.busy.cores
            assert load.per_gigabit == pytest.approx(load.busy.total / (result.goodput or 1) * 1e9)
        # one machine is never ranked, and its netdevs are looked at all the same
        assert result.proof is not None and result.proof.verdict == "failed" and result.why_not_ranked
        assert [one.verdict for one in result.proof.hosts] == ["proven", "proven"]
        assert result.facts["client driver"] == "veth" and result.facts["mtu"] == "1500"

        result, _ = await carried_out(both, direction="reverse", streams=4, omit=1)
        (flow,) = result.flows
        assert (flow.sender, flow.receiver) == ("b", "a") and flow.goodput == pytest.approx(HELD_TO, rel=0.03)
        assert flow.points[0].time < 0 and flow.points[-1].time == pytest.approx(2.0, abs=0.1)
        assert flow.points[0].interval.streams == 4

        result, _ = await carried_out(both, direction="bidirectional")
        assert [flow.sender for flow in result.flows] == ["a", "b"]
        assert result.goodput == pytest.approx(2 * HELD_TO, rel=0.05)

        result, _ = await carried_out(both, protocol="udp", bitrate=50_000_000)
        assert result.goodput == pytest.approx(50e6, rel=0.01)
        assert result.flows[0].received is not None and result.flows[0].received.lost == 0
        assert result.bottleneck == "the bitrate that was asked for: 50.0 Mb/s"

        result, _ = await carried_out(both, generator="builtin", length=2 << 20, streams=2)
        assert result.failure is None and result.goodput == pytest.approx(HELD_TO, rel=0.03)
        assert both.generators() == []


async def test_over_loopback_it_is_said_to_measure_no_nic() -> None:
    async with pair(rate=None) as both:
        loopback = Place("a", 1, "127.0.0.1")
        result, _ = await carried_out(both, client=loopback, server=loopback, direction="reverse", time=1)
        assert result.failure is None and result.goodput is not None and result.goodput > HELD_TO
        assert result.proof is not None and result.proof.verdict == "failed"
        assert result.why_not_ranked[0].startswith("the path is not proven: both ends are on one machine")


async def test_a_port_that_is_taken_is_not_used() -> None:
    async with pair() as both:
        listener = other_server(both)
        try:
            both.server.run(["sh", "-c", "until grep -q ':1451 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done"])
            result, _ = await carried_out(both, time=1)
            assert result.failure is None and result.plan.port == 5202
        finally:
            listener.kill()
            listener.wait(LIMIT)


async def test_nothing_stays_when_the_iterator_is_left_or_the_task_cancelled() -> None:
    async with pair() as both:
        plan = both.plan(time=60)
        seen = await after_first_byte(both, Run(plan, both.hosts))
        assert any(isinstance(event, Measured) for event in seen)
        assert both.generators() == []
        for stage in ("checking", "starting", "listening", "running"):
            reached = asyncio.Event()
            task = asyncio.ensure_future(until_stage(Run(plan, both.hosts), stage, reached))
            await reached.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert both.generators() == [], stage


async def until_stage(run: Run, stage: str, reached: asyncio.Event) -> None:
    """Follow a run; tell when it has come to a stage."""
    async with aclosing(run.events()) as events:
        async for event in events:
            if isinstance(event, Stage) and event.name == stage:
                reached.set()


async def test_a_link_that_dies_ends_the_run() -> None:
    async with pair() as both:
        run = Run(both.plan(time=60), both.hosts, limits=Limits(stall=1.0))
        result = None
        async for event in run.events():
            if isinstance(event, Measured) and not event.interval.sends and event.interval.start > 0.3:
                both.server.run(["ip", "link", "set", "nictopt", "down"])
            if isinstance(event, Finished):
                result = event.result
        assert result is not None and result.failure is not None
        assert result.failure.kind == "stall", result.failure
        assert result.flows[0].points
        assert both.generators() == []


async def test_a_probe_that_is_killed_takes_its_generator_with_it() -> None:
    async with pair() as both:
        result = None
        killed = False
        async for event in Run(both.plan(time=60), both.hosts).events():
            if isinstance(event, Measured) and not event.interval.sends and not killed:
                killed = True
                (pid,) = both.sources["b"].pids
                os.kill(pid, signal.SIGKILL)
            if isinstance(event, Finished):
                result = event.result
        assert result is not None and result.failure is not None
        assert result.failure.kind in ("unreachable", "control_message"), result.failure
        wait_until(lambda: both.generators() == [])


async def test_large_packets_that_vanish_are_an_mtu_black_hole() -> None:
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed: packets would not be segmented before they are measured")
    async with pair(rate=None) as both:
        both.client.run(["ethtool", "-K", "nictopt", "tso", "off", "gso", "off"])
        both.server.run(["ip", "link", "set", "nictopt", "mtu", "700"])
        both.server.run(["ip", "route", "change", "198.18.0.0/24", "dev", "nictopt", "advmss", "1460"])
        result, _ = await carried_out(both, limits=Limits(first_byte=2.0, stall=1.0), time=30)
        assert result.failure is not None and result.failure.kind == "black_hole", result.failure
        assert both.generators() == []


async def test_a_firewall_is_named_with_the_way_to_open_it() -> None:
    async with pair() as both:
        both.server.run(["sh", "-c", "cd /proc/sys/net/ipv4; echo 1 > ip_forward; echo 1 > ip_nonlocal_bind"])
        both.server.run(["ip", "route", "add", "prohibit", "198.18.9.2"])
        both.client.run(["ip", "route", "add", "198.18.9.2", "via", "198.18.0.2"])
        server = replace(both.plan().server, address="198.18.9.2")
        result, _ = await carried_out(both, server=server)
        assert result.failure is not None and result.failure.kind == "prohibited", result.failure
        assert any("--add-port=5201/tcp --timeout=" in command for command in result.failure.commands)
        assert result.failure.host == "b" and result.goodput is None
        assert both.generators() == []


async def test_a_run_that_goes_by_another_nic_is_caught() -> None:
    async with pair() as both:
        both.client.run(
            ["ip", "link", "add", "nictopw", "type", "veth", "peer", "name", "nictopw", "netns", both.server.name]
        )
        for namespace, own, other in ((both.client, "1", "2"), (both.server, "2", "1")):
            namespace.run(["ip", "link", "set", "nictopw", "up"])
            namespace.run(["sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter"])
            namespace.run(["ip", "route", "add", f"198.18.0.{other}/32", "dev", "nictopw", "src", f"198.18.0.{own}"])
        await both.knows("nictopw")
        result, _ = await carried_out(both)
        assert result.failure is None and result.proof is not None
        client, server = result.proof.hosts
        assert (client.verdict, server.verdict) == ("failed", "failed")
        assert "nictopw (other) carried" in client.sentence and "a: nictopt carried" in client.sentence
