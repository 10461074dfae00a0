"""Real runs of every kind between two real probes, compared with the JSON report of iperf3."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nictop.traffic.analysis.framing import run_framing
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import RunEvent, RunFinished, Stage
from nictop.wire.ssh.source import SshSource
from tests.support.probe import PYTHONS, interpreters
from tests.support.sshd import skip_without_sshd
from tests.traffic.emitted import Run
from tests.traffic.pair import (
    WIRE,
    Pair,
    add_veth,
    followed,
    missing_requirement,
    namespaces,
    pair,
    ssh_servers,
)
from tests.traffic.real_runs import check_goodput, complete_run

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

UDP = {"protocol": "udp", "bitrate": 20_000_000}
RATE, LINK_BITS_PER_SECOND = "50mbit", 47.8e6
"""Payload bits per second of 50 Mb/s of frames, as tc counts them (without preamble, FCS and gap).
Slow enough for a machine with busy CPUs: the burst of the shaper compensates for 20 ms without
sending."""
SHARED_RATE, SHARED_BITS_PER_SECOND = "40mbit", 38.24e6
"""The same, for concurrent runs."""
WINDOW_BYTES = 65536
"""Bytes in flight of a stream of such a run: the queue of the shaper is never full, and no datagram
is dropped."""


async def test_events_and_result_of_a_run() -> None:
    async with pair(RATE) as both:
        result, events = await complete_run(both, time=2)
        assert result.failure is None and both.generators() == []
        check_goodput(result, LINK_BITS_PER_SECOND)
        stages = [event.name for event in events if isinstance(event, Stage)]
        assert stages == ["checking", "starting", "listening", "running", "ending"]
        (flow,) = result.flows
        assert (flow.sender, flow.receiver) == ("a", "b")
        reported = [
            one.interval
            for one in events
            if isinstance(one, IntervalMeasured) and one.side == "server"
        ]
        assert [point.interval for point in flow.points] == reported
        assert reported[0].end >= 0.2 and reported[-1].end >= 2.0 - 0.2 and len(reported) >= 9
        # seconds of the server on the axis of the client, which started at nearly the same time
        later = [point.time - point.interval.end for point in flow.points]
        assert later == pytest.approx(later[:1] * len(later), abs=1e-9) and abs(later[0]) < 0.1
        retransmits = [
            one.interval.retransmits
            for one in events
            if isinstance(one, IntervalMeasured) and one.side == "client"
        ]
        assert (
            flow.retransmits == sum(one for one in retransmits if one is not None)
            and None not in retransmits
        )
        (figures,) = result.sockets
        assert (figures.host, figures.snd_mss) == ("a", 1448) and figures.rtt
        for load in result.hosts:
            assert load.busy is not None and 0 < load.busy.total <= load.busy.cores + 1e-9
            assert load.per_gigabit == pytest.approx(load.busy.total / (result.goodput or 1) * 1e9)
        # a run within one machine is never ranked, but its netdevs are checked
        assert (
            result.proof is not None and result.proof.verdict == "failed" and result.why_not_ranked
        )
        assert [one.verdict for one in result.proof.hosts] == ["proven", "proven"]
        assert result.facts["client driver"] == "veth" and result.facts["mtu"] == "1500"
        assert result.clock_uncertainty == 0.0  # both hosts use the clock of this machine


@pytest.mark.parametrize("options", [{}, {"generator": "builtin", "direction": "reverse"}, UDP])
async def test_stopped_run_has_what_was_measured(options: dict[str, Any]) -> None:
    async with pair(RATE) as both:
        plan = both.plan(time=60, **options)
        run = Run(plan, both.hosts)
        seen: list[RunEvent] = []
        axis = stopped = math.inf
        async for event in run.events():
            seen.append(event)
            if isinstance(event, IntervalMeasured) and event.time is not None:
                axis = min(axis, time.monotonic() - event.time)
            if (
                isinstance(event, IntervalMeasured)
                and not event.interval.sends
                and event.interval.end >= 1.0
            ):
                run.stop()
                stopped = min(stopped, time.monotonic())
        assert isinstance(seen[-1], RunFinished) and both.generators() == []
        result = seen[-1].result
        arrived = [
            one.interval
            for one in seen
            if isinstance(one, IntervalMeasured) and not one.interval.sends
        ]
        # by the clocks of a busy machine the first intervals may end before the run begins
        early = sum(
            point.time <= 0
            for flow in result.flows
            for point in flow.points
            if not point.interval.sends
        )
        assert early <= 3
        arrived = arrived[early:]
        size, seconds = sum(one.bytes for one in arrived), sum(one.seconds for one in arrived)
        assert result.failure is None and result.stopped == pytest.approx(stopped - axis, abs=0.05)
        assert result.goodput == pytest.approx(8 * size / seconds)
        check_goodput(result, 20e6 if options == UDP else LINK_BITS_PER_SECOND)
        (flow,) = result.flows
        assert (
            flow.received is not None
            and flow.received.seconds == pytest.approx(seconds)
            and seconds >= 0.8
        )
        assert (flow.received.packets is None) == (options != UDP)
        assert result.notes[-1] == f"stopped after {result.stopped:.1f} of 60 s"
        assert result.why_not_ranked[0] == f"stopped after {result.stopped:.1f} of 60 s"
        assert result.proof is not None and [one.verdict for one in result.proof.hosts] == [
            "proven",
            "proven",
        ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"generator": "builtin", "direction": "reverse"},
        UDP | {"generator": "builtin"},
        {"generator": "builtin", "test": "rr"},
    ],
)
async def test_run_between_the_oldest_and_the_newest_python(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """Each end behind a real sshd, the oldest as client and as server."""
    skip_without_sshd()
    found = interpreters(PYTHONS) or [sys.executable]
    oldest, newest = found[0], found[-1]
    with namespaces() as (client, server), ssh_servers(tmp_path, client, server, RATE) as servers:
        for ends in ({"a": oldest, "b": newest}, {"a": newest, "b": oldest}):
            for name, python in ends.items():
                servers[name].set_python(python)
            sources = [SshSource(sshd.target(label=name), 0.2) for name, sshd in servers.items()]
            async with followed(client, server, sources) as both:
                result, _ = await complete_run(both, **options)
                assert result.failure is None and both.generators() == []
                if "test" in options:
                    figures = result.transactions
                    assert figures is not None and figures.latency.count > 0 == figures.lost
                else:
                    check_goodput(result, 20e6 if "protocol" in options else LINK_BITS_PER_SECOND)


async def test_run_stopped_before_the_first_byte_has_no_result() -> None:
    async with pair() as both:
        for stage in ("checking", "starting", "listening", "running", "ending"):
            run = Run(both.plan(time=1, port=5301), both.hosts)
            seen: list[RunEvent] = []
            async for event in run.events():
                seen.append(event)
                if isinstance(event, Stage) and event.name == stage:
                    run.stop()
            assert isinstance(seen[-1], RunFinished)
            failure = seen[-1].result.failure
            if stage == "ending":  # the run had already ended
                assert failure is None and seen[-1].result.stopped is None
            else:
                assert (
                    failure is not None
                    and failure.sentence == "stopped before the first measured data"
                )
            assert both.generators() == []


async def test_concurrent_runs_on_the_same_hosts() -> None:
    """Over one veth, each with its own child processes of the same two probes."""
    async with pair(SHARED_RATE) as both:
        kinds: tuple[dict[str, Any], ...] = (
            {
                "generator": "builtin",
                "length": 2 << 20,
                "streams": 2,
                "time": 2,
                "window": WINDOW_BYTES,
            },
            {"generator": "builtin", "protocol": "udp", "bitrate": 10_000_000, "port": 5301},
            {"direction": "reverse", "streams": 4, "omit": 1, "port": 5401},
            {"protocol": "udp", "bitrate": 5_000_000, "port": 5501},
        )
        runs = await asyncio.gather(*(complete_run(both, **kind) for kind in kinds))
        large, datagrams, reverse, slow = (result for result, _ in runs)
        assert all(result.failure is None and result.goodput for result, _ in runs)
        sent, arrived = datagrams.flows[0].sent, datagrams.flows[0].received
        assert (
            sent is not None
            and arrived is not None
            and arrived.packets is not None
            and arrived.lost is not None
        )
        assert sent.bits_per_second == pytest.approx(10e6, rel=0.05)
        assert arrived.bytes == 1448 * (arrived.packets - arrived.lost) and arrived.packets <= (
            sent.packets or 0
        )
        assert slow.goodput == pytest.approx(5e6, rel=0.2)
        (flow,) = reverse.flows
        assert (flow.sender, flow.receiver) == ("b", "a")
        # the client of a reverse run receives, and the axis is its own: its times are on the axis
        times = [(point.time, point.interval.end - point.interval.omitted) for point in flow.points]
        assert [time for time, _ in times] == pytest.approx([end for _, end in times], abs=1e-9)
        assert (
            times[0][0] < 0
            and times[-1][0] >= 1.0 - 0.2
            and {point.interval.streams for point in flow.points} == {4}
        )
        assert 0 < (reverse.goodput or 0) <= SHARED_BITS_PER_SECOND * 1.05
        # the wire limits how much this run gets; there is no lower limit on a busy machine
        (flow,) = large.flows
        assert flow.received is not None and flow.received.bytes
        assert flow.received.bytes == pytest.approx(
            sum(point.interval.bytes for point in flow.points), rel=0.1
        )
        assert 0 < flow.received.bits_per_second < SHARED_BITS_PER_SECOND
        assert both.generators() == []


# ------------------------------------------------------------------------- beside iperf3's own JSON

REPORT_SCRIPT = """#!/bin/sh
for word; do
    case $before in -p) port=$word;; esac
    before=$word
done
case "$*" in *--version*|*--help*) exec {iperf3} "$@";; esac
exec {iperf3} "$@" -J > {folder}/$port.json
"""
"""An iperf3 that writes its report to a file named after the port: nictop gets no output of this
end."""


@dataclass(frozen=True)
class Kind:
    """One run of the comparison."""

    name: str
    options: dict[str, Any]
    addresses: str = "ipv4"
    streams: int = 1
    mss: int | None = None


KINDS = (
    Kind("tcp", {}),
    Kind("reverse", {"direction": "reverse"}),
    Kind("bidirectional", {"direction": "bidirectional"}),
    Kind("udp", {"protocol": "udp", "bitrate": 20_000_000}),
    Kind("udp both ways", {"protocol": "udp", "bitrate": 5_000_000, "direction": "bidirectional"}),
    Kind("four streams", {"streams": 4}, streams=4),
    Kind("MSS 100", {"mss": 100}, mss=88),
    Kind("IPv6", {}, "ipv6", mss=1428),
    Kind("IPv6 with a zone", {"direction": "reverse"}, "link-local", mss=1428),
)


@pytest.mark.parametrize("reporting_end", ["client", "server"])
async def test_runs_equal_the_json_report_of_the_other_end(
    reporting_end: str, open_folder: Path
) -> None:
    script = open_folder / "iperf3"
    script.write_text(REPORT_SCRIPT.format(iperf3=shutil.which("iperf3"), folder=open_folder))
    script.chmod(0o755)
    tools = (str(open_folder), "") if reporting_end == "client" else ("", str(open_folder))
    async with pair("100mbit", tools=tools) as both:
        plans = [
            replace(
                both.plan(port=5210 + 10 * number, **kind.options),
                **endpoints(both, kind.addresses),
            )
            for number, kind in enumerate(KINDS)
        ]
        runs = await asyncio.gather(*(complete_run(both, plan=plan) for plan in plans))
        assert both.generators() == []
    for kind, (result, _) in zip(KINDS, runs, strict=True):
        assert result.failure is None, (kind, result.failure)
        report = json.loads((open_folder / f"{result.plan.port}.json").read_text())
        assert "error" not in report, kind
        compare(kind, result, report["end"])
        assert all(
            point.interval.streams == kind.streams for flow in result.flows for point in flow.points
        ), kind
        assert kind.mss is None or [one.snd_mss for one in result.sockets] == [kind.mss], kind


def endpoints(both: Pair, addresses: str) -> dict[str, Any]:
    if addresses == "ipv4":
        return {}
    found = {"a": "fd00:0::1", "b": "fd00:0::2"}
    if addresses == "link-local":
        found = {"a": f"fe80::1%{WIRE}", "b": f"fe80::2%{WIRE}"}
    return {
        "client": both.endpoint("a", address=found["a"]),
        "server": both.endpoint("b", address=found["b"]),
    }


def compare(kind: Kind, result: Result, end: dict[str, Any]) -> None:
    """Each direction as the server counted it, which the reports of both ends contain."""
    for flow in result.flows:
        back = flow.sender == "b"
        name = ("sum_sent" if back else "sum_received") + (
            "_bidir_reverse" if back and len(result.flows) == 2 else ""
        )
        counted, reported = flow.sent if back else flow.received, end[name]
        assert counted is not None, (kind, flow)
        # the text has hundredths of seconds; the bytes are one count that the ends have exchanged
        size = counted.bits_per_second * counted.seconds / 8
        assert size == pytest.approx(reported["bytes"], rel=0.008), (kind, flow.sender)
        # each end ends the run by its own clock: on a busy machine one of them later, but none too
        # early
        assert min(counted.seconds, reported["seconds"]) >= result.plan.time - 0.1, (
            kind,
            flow.sender,
        )
        if result.plan.protocol == "udp" and not back:
            assert (counted.lost, counted.packets) == (
                reported["lost_packets"],
                reported["packets"],
            ), kind
        if back and flow.goodput is not None:  # without the bytes in flight at the end
            assert (
                0.5 * reported["bits_per_second"]
                < flow.goodput
                < 1.01 * reported["bits_per_second"]
            ), kind


# --------------------------------------------------------------------------------------------- path


async def test_loopback_run_is_not_verified() -> None:
    async with pair(rate=None) as both:
        loopback = Endpoint("a", 1, "127.0.0.1")
        result, _ = await complete_run(both, client=loopback, server=loopback, direction="reverse")
        assert (
            result.failure is None
            and result.goodput is not None
            and result.goodput > LINK_BITS_PER_SECOND
        )
        assert result.proof is not None and result.proof.verdict == "failed"
        assert result.why_not_ranked[0].startswith(
            "path not verified: both ends are on one machine"
        )


async def test_run_over_another_nic_is_detected() -> None:
    async with pair() as both:
        add_veth(both.client, both.server, wire="nictopw", net=1)
        for namespace, own, other in ((both.client, "1", "2"), (both.server, "2", "1")):
            namespace.run(["sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter"])
            namespace.run(
                [
                    "ip",
                    "route",
                    "add",
                    f"198.18.0.{other}/32",
                    "dev",
                    "nictopw",
                    "src",
                    f"198.18.0.{own}",
                ]
            )
        await both.wait_for_link("nictopw")
        result, _ = await complete_run(both)
        assert result.failure is None and result.proof is not None
        client, server = result.proof.hosts
        assert (client.verdict, server.verdict) == ("failed", "failed")
        assert (
            "nictopw (other) carried" in client.sentence and "a: nictopt carried" in client.sentence
        )


async def test_run_over_a_vlan() -> None:
    async with pair("100mbit") as both:
        if not both.client.try_link("link", WIRE, "name", "nictopv", "type", "vlan", "id", "7"):
            pytest.skip("this kernel has no VLANs (CONFIG_VLAN_8021Q)")
        assert both.server.try_link("link", WIRE, "name", "nictopv", "type", "vlan", "id", "7")
        for number, namespace in enumerate((both.client, both.server), 1):
            namespace.run(["ip", "address", "add", f"198.18.7.{number}/24", "dev", "nictopv"])
            namespace.run(["ip", "link", "set", "nictopv", "up"])
        await both.wait_for_link("nictopv")
        plan = both.plan("nictopv")
        result, _ = await complete_run(both, plan=plan)
        assert result.failure is None and result.proof is not None
        assert [one.verdict for one in result.proof.hosts] == ["proven", "proven"]
        framing = run_framing(plan, {name: host.snapshot for name, host in both.hosts.items()})
        assert framing.vlan_tags == 1
        check_goodput(result, 100e6 * 1448 / 1518)


async def test_next_free_port_is_used() -> None:
    async with pair("200mbit") as both:
        with other_server(both) as other:
            # both try 5201, then both 5202: one of them gets 5203
            runs = await asyncio.gather(complete_run(both), complete_run(both))
            assert [result.failure for result, _ in runs] == [None, None]
            assert sorted(result.plan.port for result, _ in runs) == [5202, 5203]
            assert other.poll() is None  # the other server still runs
        assert both.generators() == []


@contextmanager
def other_server(both: Pair) -> Iterator[subprocess.Popen[bytes]]:
    """An iperf3 server of the user at the default port."""
    command = ["ip", "netns", "exec", both.server.name, "iperf3", "-s", "-1", "-p", "5201"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as other:
        try:
            both.server.run(
                [
                    "sh",
                    "-c",
                    "until grep -q ':1451 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done",
                ]
            )
            yield other
        finally:
            other.kill()
