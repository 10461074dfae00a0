"""Traffic over veth: the built-in generator compared with iperf3, with sockperf and with the
requested rate, iperf3 through nictop compared with iperf3 alone, and start and stop times."""

from __future__ import annotations

import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nictop.probe.records import TrafficLine
from nictop.probe.traffic.builtin.latency_buckets import unpacked_counts
from nictop.traffic.generators.latency import LatencyHistogram
from tests.benchmarks.probe import on_cpu
from tests.benchmarks.results import Result
from tests.support.probe import Probe
from tests.support.traffic import (
    IPV4,
    PORT,
    VethPair,
    lines_until,
    lines_until_exit,
    next_line,
    start_request,
    veth_pair,
)

GIGABIT = 1e9
CONTROL = "reno"
"""Congestion control of all runs: cubic loses throughput on veth, differently for the two
generators."""


@contextmanager
def two_probes(*arguments: str) -> Iterator[tuple[VethPair, Probe, Probe]]:
    """The veth pair, a probe at the client's end and one at the server's."""
    if not shutil.which("iperf3"):
        sys.exit("the benchmarks of traffic need iperf3")
    with (
        veth_pair() as wire,
        Probe(*arguments, namespace=wire.left) as client,
        Probe(*arguments, namespace=wire.right) as server,
    ):
        yield wire, client, server


def built_in_compared_with_iperf3(quick: bool) -> Iterator[Result]:
    pairs, seconds = (3, 1) if quick else (12, 2)
    goodputs, costs = [], []
    with two_probes("--interval", "60") as (_, client, server):
        for number in range(pairs):
            order = ("builtin", "iperf3") if number % 2 else ("iperf3", "builtin")
            found = {name: measured(client, server, name, seconds) for name in order}
            goodputs.append(found["iperf3"][0] / found["builtin"][0])
            costs.append(found["builtin"][1] / found["iperf3"][1])
    low, high = interval(goodputs)
    what = f"traffic: goodput of iperf3 beside the built-in, {pairs} pairs"
    yield Result(what, statistics.median(goodputs), 1.05, "times")
    yield Result("traffic: … 95 % interval, lower end", low, None, "times")
    yield Result("traffic: … 95 % interval, upper end", high, None, "times")
    low, high = interval(costs)
    yield Result(
        "traffic: CPU per Gbit, built-in beside iperf3", statistics.median(costs), 1.0, "times"
    )
    yield Result("traffic: … 95 % interval, lower end", low, None, "times")
    yield Result("traffic: … 95 % interval, upper end", high, None, "times")


def measured(client: Probe, server: Probe, name: str, seconds: int) -> tuple[float, float]:
    """Goodput at the receiver in bits per second, and CPU seconds of both ends per gigabit."""
    reports = ["-J"] if name == "iperf3" else []
    arguments = ["-t", str(seconds), "-C", CONTROL]
    server.send(start_request("server", name, *(reports or arguments), address=IPV4[1]))
    next_line(server, "listening")
    client.send(start_request("client", name, *arguments, *reports, address=IPV4[1]))
    mine = lines_until_exit(client, "client")
    theirs = lines_until(server, "server", "exit")
    if name == "iperf3":
        end = json.loads("\n".join(line.text for line in mine if line.kind == "output"))["end"]
        usage = end["cpu_utilization_percent"]
        used = (usage["host_total"] + usage["remote_total"]) / 100 * end["sum_sent"]["seconds"]
        moved, took = end["sum_received"]["bytes"], end["sum_received"]["seconds"]
    else:
        ends = [
            next(
                event
                for line in reversed(lines)
                if line.kind == "output"
                for event in [json.loads(line.text)]
            )
            for lines in (mine, theirs)
        ]
        used = sum(one["cpu_user"] + one["cpu_system"] for one in ends)
        moved, took = ends[1]["bytes"], ends[1]["seconds"]
    return moved * 8 / took, used / (moved * 8 / GIGABIT)


def latency_compared_with_sockperf(quick: bool) -> Iterator[Result]:
    """Median latency of requests and responses of 64 bytes, alternating with ``sockperf
    ping-pong``."""
    sockperf = shutil.which("sockperf")
    if sockperf is None:
        sys.exit("this benchmark needs sockperf")
    pairs = 3 if quick else 10
    for protocol, options in (("TCP", ["--tcp"]), ("UDP", [])):
        ratios = []
        with two_probes("--interval", "60") as (wire, client, server):
            for number in range(pairs):
                found = {}
                for way in ("ours", "sockperf") if number % 2 else ("sockperf", "ours"):
                    if way == "ours":
                        found[way] = median_latency(
                            client, server, ["--udp"] if protocol == "UDP" else []
                        )
                    else:
                        found[way] = sockperf_median(sockperf, wire, options)
                ratios.append(found["ours"] / found["sockperf"])
        low, high = interval(ratios)
        what = f"traffic: median latency of rr beside sockperf, {protocol}, {pairs} pairs"
        yield Result(what, statistics.median(ratios), 2.0, "times")
        yield Result("traffic: … 95 % interval, lower end", low, None, "times")
        yield Result("traffic: … 95 % interval, upper end", high, None, "times")


def latency_of_a_shaper(quick: bool) -> Iterator[Result]:
    """Median latency of datagrams beside the time that a shaper of the kernel takes for each: it
    lets one pass every 1 or 10 ms."""
    frame = 8 * (64 + 8 + 20 + 14)
    with two_probes("--interval", "60") as (wire, client, server):
        for milliseconds in (1, 10):
            rate = f"{1000 * frame // milliseconds}bit"
            shaper = ["tbf", "rate", rate, "burst", "130", "limit", "100000"]
            wire.left.run(["tc", "qdisc", "replace", "dev", "wire", "root", *shaper])
            more = ["--udp", "--omit", "1", "--time", "2" if quick else "8"]
            ratio = median_latency(client, server, more) * 1e3 / milliseconds
            yield Result(
                f"traffic: median latency beside {milliseconds} ms of a shaper",
                ratio,
                1.03,
                "times",
            )
            yield Result("traffic: … the inverse", 1 / ratio, 1.03, "times")


def median_latency(client: Probe, server: Probe, options: list[str]) -> float:
    """Seconds, of a second of requests unless the options say otherwise."""
    arguments = ["--test", "rr", "--time", "1", *options]
    server.send(start_request("server", "builtin", *arguments, address=IPV4[1]))
    next_line(server, "listening")
    client.send(start_request("client", "builtin", *arguments, address=IPV4[1]))
    report = ended(lines_until_exit(client, "client"))
    lines_until(server, "server", "exit")
    counts = LatencyHistogram(
        unpacked_counts(report["latency"]["buckets"]), report["latency"]["sum"]
    )
    return counts.quantiles([0.5])[0]


def sockperf_median(sockperf: str, wire: VethPair, options: list[str]) -> float:
    """Seconds, of a second of ``ping-pong``."""
    where = ["-i", IPV4[1], "-p", str(PORT), *options]
    command = ["ip", "netns", "exec", wire.right.name, sockperf, "server", *where]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        table = ["cat", "/proc/net/tcp" if options else "/proc/net/udp"]
        while f":{PORT:04X} 00000000:0000" not in wire.right.run(table):
            pass
        text = wire.left.run([sockperf, "ping-pong", *where, "-m", "64", "-t", "1", "--full-rtt"])
        server.terminate()
    found = re.search(r"percentile 50\.000 = +([0-9.]+)", text)
    if found is None:
        sys.exit(f"sockperf printed no median: {text[-300:]}")
    return float(found[1]) / 1e6


def requested_rate(quick: bool) -> Iterator[Result]:
    """The requested rate compared with the rate that the built-in generator sends: needs an
    otherwise idle host."""
    for name, words, rate in (("UDP", ["--udp"], "40M"), ("TCP", [], "80M")):
        ratios, shares = [], []
        with two_probes("--interval", "60") as (_, client, server):
            for _ in range(3 if quick else 12):
                arguments = [*words, "--bitrate", rate, "--time", "0.6"]
                server.send(start_request("server", "builtin", *arguments, address=IPV4[1]))
                next_line(server, "listening")
                client.send(start_request("client", "builtin", *arguments, address=IPV4[1]))
                mine, theirs = (
                    ended(lines_until_exit(client, "client")),
                    ended(lines_until(server, "server", "exit")),
                )
                ratios.append(float(rate.rstrip("M")) * 1e6 * mine["seconds"] / 8 / mine["bytes"])
                shares.append(theirs["bytes"] / mine["bytes"])
        yield Result(
            f"traffic: built-in {name}, rate asked for beside sent",
            statistics.median(ratios),
            1.15,
            "times",
        )
        yield Result(
            f"traffic: built-in {name}, sent beside received",
            1 / statistics.median(shares),
            1.05,
            "times",
        )


def ended(lines: Sequence[TrafficLine]) -> dict[str, Any]:
    """The last report of a built-in generator."""
    last = [line.text for line in lines if line.kind == "output" and line.stream == "stdout"][-1]
    report: dict[str, Any] = json.loads(last)
    return report


def through_nictop(quick: bool) -> Iterator[Result]:
    """The same iperf3, started alone and by probes that read its sockets and all counters five
    times a second."""
    pairs, seconds = (3, 1) if quick else (12, 2)
    ratios, costs = [], []
    with two_probes("--interval", "0.2") as (wire, client, server):
        for number in range(pairs):
            found = {}
            for way in ("bare", "ours") if number % 2 else ("ours", "bare"):
                if way == "bare":
                    found[way] = bare(wire, seconds)
                    continue
                cpu, begin = on_cpu(client.process.pid), time.monotonic()
                found[way] = watched(client, server, seconds)
                costs.append((on_cpu(client.process.pid) - cpu) / (time.monotonic() - begin))
            ratios.append(found["bare"] / found["ours"])
    low, high = interval(ratios)
    yield Result(
        f"traffic: bare iperf3 beside ours, goodput, {pairs} pairs",
        statistics.median(ratios),
        1.01,
        "times",
    )
    yield Result("traffic: … 95 % interval, lower end", low, None, "times")
    yield Result("traffic: … 95 % interval, upper end", high, None, "times")
    yield Result(
        "traffic: probe during a run, 5 Hz", statistics.median(costs) * 100, 1.5, "% of a core"
    )


def bare(wire: VethPair, seconds: int) -> float:
    """Goodput of iperf3 without a probe, in bits per second."""
    command = [
        "ip",
        "netns",
        "exec",
        wire.right.name,
        "iperf3",
        "-s",
        "-1",
        "-p",
        str(PORT),
        "-B",
        IPV4[1],
    ]
    with subprocess.Popen(
        [*command, "--forceflush"], stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        table = ["cat", "/proc/net/tcp"]
        while f":{PORT:04X} 00000000:0000 0A" not in wire.right.run(table):
            pass
        words = ["iperf3", "-c", IPV4[1], "-p", str(PORT), "-t", str(seconds), "-C", CONTROL, "-J"]
        report = json.loads(wire.left.run(["setsid", "-w", *words]))
        server.communicate()
    return float(report["end"]["sum_received"]["bits_per_second"])


def watched(client: Probe, server: Probe, seconds: int) -> float:
    """Goodput of the same run through probes."""
    watch = {"sockets": True, "interval": 0.2}
    server.send(start_request("server", "iperf3", "--forceflush", address=IPV4[1], **watch))
    next_line(server, "listening")
    client.send(
        start_request(
            "client", "iperf3", "-t", str(seconds), "-C", CONTROL, "-J", address=IPV4[1], **watch
        )
    )
    lines = lines_until_exit(client, "client")
    lines_until(server, "server", "exit")
    report = json.loads("\n".join(line.text for line in lines if line.kind == "output"))
    return float(report["end"]["sum_received"]["bits_per_second"])


def start_and_stop_times(quick: bool) -> Iterator[Result]:
    """From the request to the first byte of traffic, and from the request to stop until both
    processes have ended."""
    for name in ("iperf3", "builtin"):
        begun, ended = [], []
        with two_probes("--interval", "60") as (wire, client, server):
            sent = "/sys/class/net/wire/statistics/tx_bytes"
            for _ in range(3 if quick else 15):
                before = int(wire.left.run(["cat", sent]))
                begin = time.monotonic()
                server.send(start_request("server", name, address=IPV4[1]))
                next_line(server, "listening")
                client.send(start_request("client", name, "-t", "20", address=IPV4[1]))
                while int(wire.left.run(["cat", sent])) < before + 100_000:
                    pass
                begun.append(time.monotonic() - begin)
                begin = time.monotonic()
                for probe, role in ((client, "client"), (server, "server")):
                    probe.send({"traffic": {"id": role, "action": "stop"}})
                next_line(client, "exit", "failed")
                next_line(server, "exit", "failed")
                ended.append(time.monotonic() - begin)
        yield Result(
            f"traffic: {name}, from the request to 100 kB", statistics.median(begun), 1.0, "s"
        )
        yield Result(
            f"traffic: {name}, from stop to the end of all", statistics.median(ended), 0.5, "s"
        )


def interval(ratios: list[float]) -> tuple[float, float]:
    """Confidence interval of the median (95 % or more) from order statistics; the extremes of fewer
    than six values."""
    ordered = sorted(ratios)
    count, below, rank = len(ordered), 0, 0
    while rank < (count - 1) // 2:
        below += math.comb(count, rank)
        if 2 * (below + math.comb(count, rank + 1)) > 0.05 * 2**count:
            break
        rank += 1
    return ordered[rank], ordered[-1 - rank]
