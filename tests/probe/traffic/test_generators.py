"""Traffic generators started by a real probe: iperf3 and the built-in one over veth, and that none
is left running.

Durations and rates are judged by the benchmarks; here, figures are compared with those of the
kernel, of the other end and of the same clock.
"""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.records import TrafficLine
from nictop.probe.traffic import generators as generator
from nictop.probe.traffic import iperf3 as iperf3_module
from nictop.probe.traffic.builtin import reports
from nictop.probe.traffic.builtin.latency_buckets import SUB_BUCKETS, unpacked_counts
from nictop.probe.traffic.generators import Generators
from nictop.traffic.generators.latency import LatencyHistogram
from tests.support import namespaces
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace
from tests.support.probe import (
    PYTHONS,
    TEST_TIMEOUT,
    Probe,
    SentProbe,
    is_alive,
    python_parameters,
    wait_until,
)
from tests.support.traffic import (
    IPV4,
    IPV6,
    MARK,
    PORT,
    VethPair,
    lines_until,
    lines_until_exit,
    marked_processes,
    next_line,
    start_request,
    stray_generators,
    veth_pair,
)

ETH_P_ALL, SO_TIMESTAMPNS, SO_RCVBUFFORCE = 3, 35, 33
NO_NAMESPACES = namespaces.why_no_namespaces()
GENERATORS = [
    pytest.param(
        "iperf3",
        marks=pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed"),
    ),
    "builtin",
]
TESTS = [*GENERATORS, "rr", "crr"]
"""Generators with a bulk test, and the tests of requests and responses of the built-in one."""


@pytest.fixture(scope="module")
def wire() -> Iterator[VethPair]:
    if NO_NAMESPACES:
        pytest.skip(NO_NAMESPACES)
    with veth_pair() as made:
        yield made


ProbePair = tuple[Probe, Probe]
"""The client's probe and the server's."""


@contextmanager
def start_probes(wire: VethPair) -> Iterator[ProbePair]:
    with (
        Probe("--interval", "60", namespace=wire.left) as client,
        Probe("--interval", "60", namespace=wire.right) as server,
    ):
        yield client, server


class SharedProbes:
    """Probes shared by tests, as long as no generator of an earlier test is left."""

    def __init__(self, wire: VethPair) -> None:
        self._wire, self._stack = wire, ExitStack()
        self._ends: ProbePair | None = None

    def get(self) -> ProbePair:
        if self._ends is None or not all(map(is_idle, self._ends)):
            self.close()
            self._ends = self._stack.enter_context(start_probes(self._wire))
        return self._ends

    def close(self) -> None:
        self._ends = None
        self._stack.close()


def is_idle(probe: Probe) -> bool:
    """Whether the probe runs without generators; reads its output so far."""
    if probe.process.poll() is not None or holds_if_running(has_session_leader, probe):
        return False
    probe.send({"traffic": {"id": "nothing", "action": "stop"}})
    return next_line(probe, "failed", name="nothing").text == "no generator of this name is running"


def has_session_leader(probe: Probe) -> bool:
    return any(os.getsid(pid) == pid for pid in probe.children())


def holds_if_running(fact: Callable[[Probe], bool], probe: Probe) -> bool:
    try:
        return fact(probe)
    except ProcessLookupError:
        return False


@pytest.fixture(scope="module")
def shared_probes(wire: VethPair) -> Iterator[SharedProbes]:
    shared = SharedProbes(wire)
    yield shared
    shared.close()


@pytest.fixture
def probe_pair(shared_probes: SharedProbes) -> ProbePair:
    return shared_probes.get()


@pytest.fixture
def marked_probe_pair(wire: VethPair, mark: str) -> Iterator[ProbePair]:
    """With the mark in their environment, and in that of all processes that they start."""
    with start_probes(wire) as made:
        yield made


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A value in the environment of all processes that the test starts."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    return value


Run = tuple[list[TrafficLine], list[TrafficLine]]
MIN_MOVED_BYTES = 4_000_000
"""Bytes: more than an iperf3 transfers that continues after its time is over."""
ROUNDING_SECONDS = 1e-5
"""Seconds: less than the shortest interval, more than the difference of two rounded times."""


def run(
    probe_pair: ProbePair,
    generator: str,
    *arguments: str,
    addresses: tuple[str, str] = IPV4,
    **fields: Any,
) -> Run:
    """A whole run: the lines of the client, and of the server."""
    client, server = probe_pair
    server_end = arguments if generator == "builtin" else ()
    server.send(start_request("server", generator, *server_end, address=addresses[1], **fields))
    before = lines_until(server, "server", "listening", "failed", "exit")
    assert before[-1].kind == "listening"
    client.send(start_request("client", generator, *arguments, address=addresses[1], **fields))
    return lines_until_exit(client, "client"), before + lines_until(server, "server", "exit")


def client_request(name: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    """A request to start the client of one of `TESTS`."""
    test = ["--test", name] if name in ("rr", "crr") else []
    return start_request(
        "client", "builtin" if test else name, *test, *arguments, address=IPV4[1], **fields
    )


def server_request(name: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    """The same for its server; iperf3 gets the arguments from its client."""
    if name == "iperf3":
        return start_request("server", name, address=IPV4[1], **fields)
    test = ["--test", name] if name in ("rr", "crr") else []
    return start_request("server", "builtin", *test, *arguments, address=IPV4[1], **fields)


def output(lines: list[TrafficLine]) -> str:
    return "\n".join(
        line.text for line in lines if line.kind == "output" and line.stream == "stdout"
    )


def check_order(lines: list[TrafficLine]) -> None:
    """The order of one child's lines, as `records.TrafficLine` documents it."""
    kinds = [line.kind for line in lines]
    assert kinds[0] == "started" and kinds[-1] == "exit" and lines[-1].status == 0, lines[-5:]
    assert kinds.count("started") == kinds.count("exit") == 1 and "failed" not in kinds
    assert lines[0].pid and not is_alive(lines[0].pid)
    assert [line.time for line in lines] == sorted(line.time for line in lines)


# ------------------------------------------------------------------------------------------- iperf3


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
@pytest.mark.parametrize(
    ("arguments", "addresses", "sums"),
    [
        ((), IPV4, {"sum_sent": "bytes_acked"}),
        (("-R",), IPV4, {"sum_received": "bytes_received"}),
        (
            ("--bidir",),
            IPV4,
            {"sum_sent": "bytes_acked", "sum_received_bidir_reverse": "bytes_received"},
        ),
        (("-P", "4"), IPV4, {"sum_sent": "bytes_acked"}),
        (("-M", "500"), IPV4, {"sum_sent": "bytes_acked"}),
        ((), IPV6, {"sum_sent": "bytes_acked"}),
    ],
    ids=["tcp", "reverse", "bidirectional", "four streams", "mss", "ipv6"],
)
def test_iperf3(
    probe_pair: ProbePair,
    arguments: tuple[str, ...],
    addresses: tuple[str, str],
    sums: dict[str, str],
) -> None:
    """The socket statistics equal those of the other end and those of iperf3 for the same run: both
    ends are stopped during the run until its time is over, so that hardly anything follows the last
    reading."""
    client, server = probe_pair
    watched: dict[str, Any] = {"address": addresses[1], "sockets": True, "interval": 0.1}
    server.send(start_request("server", "iperf3", **watched))
    server_end = lines_until(server, "server", "listening", "failed", "exit")
    assert server_end[-1].kind == "listening"
    client.send(
        start_request("client", "iperf3", "-J", "-t", "2", "-b", "400M", *arguments, **watched)
    )
    client_end = lines_until(client, "client", "started")
    while not all(moved(client_end[-1], field) > MIN_MOVED_BYTES for field in sums.values()):
        client_end += lines_until(client, "client", "sockets")
    pids = [lines[0].pid for lines in (client_end, server_end)]
    assert all(pids)
    for pid in filter(None, pids):
        os.kill(pid, signal.SIGSTOP)
    while True:  # until everything in flight was received
        client_end += lines_until(client, "client", "sockets")
        server_end += lines_until(server, "server", "sockets")
        finished = (
            client_end[-1].time > client_end[0].time + 2.1
            and server_end[-1].time > client_end[0].time + 2.1
        )
        if finished and all(
            figures(lines[-1]) == figures(lines[-2]) for lines in (client_end, server_end)
        ):
            break
    last, other = client_end[-1], server_end[-1]
    for pid in filter(None, pids):
        os.kill(pid, signal.SIGCONT)
    client_end += lines_until(client, "client", "exit")
    server_end += lines_until(server, "server", "exit")
    check_order(client_end)
    check_order(server_end)
    for one in last.sockets:
        assert {one.local, one.remote} == set(addresses) and one.remote_port == PORT
    for field in set(sums.values()):
        other_field = "bytes_received" if field == "bytes_acked" else "bytes_acked"
        # the SYN is acknowledged as a byte
        assert moved(last, field) == pytest.approx(moved(other, other_field), abs=len(last.sockets))
    report = json.loads(output(client_end))
    assert "error" not in report
    for name, field in sums.items():
        total_bytes = report["end"][name]["bytes"]
        assert (
            0.5 * total_bytes < moved(last, field) <= 1.25 * total_bytes
        )  # a receiver may leave data unread
    if "-M" in arguments:  # timestamps take 12 bytes
        assert {
            one.snd_mss for one in last.sockets if one.bytes_acked and one.bytes_acked > 100_000
        } == {488}
    if "-P" in arguments:
        assert len(last.sockets) == 5  # and the control connection


def figures(line: TrafficLine) -> tuple[int, int]:
    return moved(line, "bytes_acked"), moved(line, "bytes_received")


def moved(line: TrafficLine, field: str) -> int:
    """The sum over all sockets of one reading."""
    return sum(getattr(one, field) or 0 for one in line.sockets)


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_iperf3_udp(wire: VethPair, probe_pair: ProbePair) -> None:
    before = interface_bytes(wire, "tx")
    client, server = run(probe_pair, "iperf3", "-u", "-b", "50M", "-t", "1", "-J")
    carried = interface_bytes(wire, "tx") - before
    check_order(client)
    check_order(server)
    report = json.loads(output(client))
    assert report["start"]["target_bitrate"] == 50_000_000
    total = report["end"]["sum"]
    assert total["packets"] > 0 and 0 < total["bytes"] < carried < 1.1 * total["bytes"] + 100_000


# ------------------------------------------------------------------------------- built-in generator


def events(lines: list[TrafficLine], kind: str) -> list[dict[str, Any]]:
    parsed = [
        json.loads(line.text) for line in lines if line.kind == "output" and line.stream == "stdout"
    ]
    assert not [event for event in parsed if event["event"] == "error"], parsed
    return [event for event in parsed if event["event"] == kind]


@pytest.mark.parametrize(
    ("arguments", "addresses"),
    [
        ((), IPV4),
        (("--reverse",), IPV4),
        (("--streams", "4", "--bitrate", "100M"), IPV4),
        (("--streams", "3", "--bitrate", "100M", "--reverse"), IPV6),
        (("--mss", "500", "--bitrate", "200M"), IPV4),
        (("--bytes", "512", "--bitrate", "50M"), IPV4),
        (("--length", "8M"), IPV6),
        (
            (
                "--bitrate",
                "80M",
                "--window",
                "256K",
                "--congestion",
                "reno",
                "--no-delay",
                "--tos",
                "8",
            ),
            IPV4,
        ),
    ],
    ids=[
        "plain",
        "reverse",
        "four streams",
        "three reverse ipv6",
        "mss",
        "short",
        "long ipv6",
        "paced",
    ],
)
def test_built_in_tcp(
    wire: VethPair, probe_pair: ProbePair, arguments: tuple[str, ...], addresses: tuple[str, str]
) -> None:
    """Both ends count the same bytes, and at most what the interface carried."""
    direction = "rx" if "--reverse" in arguments else "tx"
    before = interface_bytes(wire, direction)
    client, server = run(
        probe_pair, "builtin", "--time", "0.3", "--interval", "0.1", *arguments, addresses=addresses
    )
    carried = interface_bytes(wire, direction) - before
    check_order(client)
    check_order(server)
    [start_event], [client_end], [server_end] = (
        events(client, "start"),
        events(client, "end"),
        events(server, "end"),
    )
    intervals = events(client, "interval")
    check_intervals(intervals, client_end)
    assert client_end["bytes"] == server_end["bytes"] == sum(client_end["streams"])
    assert 0 < client_end["bytes"] < carried
    assert client_end["sender"] is not server_end["sender"] and client_end["sender"] is (
        "--reverse" not in arguments
    )
    sender = client_end if client_end["sender"] else server_end
    assert 0.3 <= sender["seconds"] < client[-1].time - server[0].time
    assert len(client_end["streams"]) == start_event["streams"] == len(start_event["connections"])
    # CPU time is counted in scheduler ticks, and grows until everything sent is acknowledged
    assert (
        client_end["cpu_user"] + client_end["cpu_system"]
        < (client[-1].time - client[0].time) * start_event["streams"]
    )
    if "--mss" in arguments:
        assert client_end["snd_mss"] == server_end["snd_mss"] == 488
    if "--congestion" in arguments:
        assert start_event["congestion_control"] == "reno"
        # never faster, except for the content of the window at the end
        assert client_end["bytes"] * 8 < 1.1 * 80e6 * client_end["seconds"] + 2 * 8 * 256 * 1024


def check_intervals(intervals: list[dict[str, Any]], end: dict[str, Any]) -> None:
    """They are contiguous, and their sum is the total, except for bytes in the last millisecond."""
    assert intervals[0]["start"] == 0.0
    assert [one["start"] for one in intervals[1:]] == [one["end"] for one in intervals[:-1]]
    counted, rest = sum(one["bytes"] for one in intervals), end["seconds"] - intervals[-1]["end"]
    assert counted <= end["bytes"] and rest <= reports.MIN_INTERVAL_SECONDS
    if abs(rest) < ROUNDING_SECONDS:
        assert counted == end["bytes"]


def interface_bytes(wire: VethPair, direction: str) -> int:
    return int(wire.left.run(["cat", f"/sys/class/net/wire/statistics/{direction}_bytes"]))


@pytest.mark.parametrize(
    "arguments",
    [(), ("--reverse",), ("--streams", "3"), ("--length", "4000")],
    ids=["plain", "reverse", "three streams", "long"],
)
def test_built_in_udp(wire: VethPair, probe_pair: ProbePair, arguments: tuple[str, ...]) -> None:
    """Only datagrams that the kernel counts as dropped are lost, and the rate is never exceeded."""
    receives = wire.left if "--reverse" in arguments else wire.right
    dropped = datagrams_dropped(receives)
    client, server = run(
        probe_pair, "builtin", "--udp", "--bitrate", "40M", "--time", "0.3", *arguments
    )
    dropped = datagrams_dropped(receives) - dropped
    check_order(client)
    check_order(server)
    [client_end], [server_end] = events(client, "end"), events(server, "end")
    [start_event] = events(client, "start")
    sender, receiver = (
        (client_end, server_end) if client_end["sender"] else (server_end, client_end)
    )
    assert receiver["packets"] + receiver["lost"] == sender["packets"] > 0
    assert sender["bytes"] == sender["packets"] * start_event["length"]
    assert receiver["out_of_order"] == 0 <= receiver["jitter"]
    assert dropped or not receiver["lost"]
    # the datagrams of the first millisecond are sent at once
    max_bytes = 40e6 / 8 * (sender["seconds"] + 0.001) + start_event["length"]
    assert sender["bytes"] <= max_bytes * len(sender["streams"])


def datagrams_dropped(namespace: Namespace) -> int:
    """Dropped because of full sockets, as the kernel counts them."""
    names, values = (
        line.split()
        for line in namespace.run(["cat", "/proc/net/snmp"]).splitlines()
        if line.startswith("Udp:")
    )
    return int(values[names.index("RcvbufErrors")])


@pytest.mark.parametrize(
    ("arguments", "addresses"),
    [
        (("--test", "rr"), IPV4),
        (("--test", "rr", "--length", "4K", "--response", "100K"), IPV6),
        (("--test", "rr", "--streams", "4", "--length", "1"), IPV4),
        (("--test", "rr", "--udp"), IPV4),
        (("--test", "rr", "--rate", "200"), IPV4),
        (("--test", "rr", "--rate", "600", "--udp", "--streams", "3"), IPV6),
        (("--test", "rr", "--udp", "--length", "8", "--response", "4000", "--streams", "3"), IPV6),
        (("--test", "crr"), IPV4),
        (("--test", "crr", "--streams", "3", "--length", "4K", "--response", "1"), IPV6),
    ],
    ids=[
        "tcp",
        "large ipv6",
        "four connections",
        "udp",
        "on schedule",
        "udp ipv6 on schedule",
        "udp ipv6",
        "connect",
        "three connect ipv6",
    ],
)
def test_transactions(
    wire: VethPair, probe_pair: ProbePair, arguments: tuple[str, ...], addresses: tuple[str, str]
) -> None:
    """Both ends count the same transactions, each within the time of the run; the interface carried
    them, and no socket is left."""
    before = interface_bytes(wire, "tx"), interface_bytes(wire, "rx")
    waiting = [time_wait_sockets(namespace) for namespace in (wire.left, wire.right)]
    begin = time.monotonic()
    client, server = run(
        probe_pair, "builtin", "--time", "0.4", "--interval", "0.1", *arguments, addresses=addresses
    )
    took = time.monotonic() - begin
    carried = interface_bytes(wire, "tx") - before[0], interface_bytes(wire, "rx") - before[1]
    check_order(client)
    check_order(server)
    [start_event], [client_end], [server_end] = (
        events(client, "start"),
        events(client, "end"),
        events(server, "end"),
    )
    number = client_end["transactions"]
    assert number == server_end["transactions"] - start_event["streams"] > 0 == client_end["lost"]
    assert (
        carried[0] > number * start_event["length"]
        and carried[1] > number * start_event["response"]
    )
    counts = unpacked_counts(client_end["latency"]["buckets"])
    assert sum(counts.values()) == number and client_end["seconds"] == 0.4
    if "--rate" in arguments:  # each that is due is sent, however late
        assert number == 0.4 * int(arguments[arguments.index("--rate") + 1])
    else:  # a closed loop: the latencies of each process follow one another
        assert client_end["latency"]["sum"] <= took * 1e9 * start_event["streams"]
    added: dict[int, int] = {}
    for one in events(client, "interval"):
        for bucket, count in unpacked_counts(one["latency"]["buckets"]).items():
            added[bucket] = added.get(bucket, 0) + count
    assert all(added[bucket] <= counts[bucket] for bucket in added)
    if "crr" in arguments:
        connects = unpacked_counts(client_end["connect"]["buckets"])
        assert (
            sum(connects.values()) == number
            and client_end["connect"]["sum"] < client_end["latency"]["sum"]
        )
        # the control connection only: no source port is held
        assert (
            time_wait_sockets(wire.left) <= waiting[0] + 1
            and time_wait_sockets(wire.right) <= waiting[1]
        )


def time_wait_sockets(namespace: Namespace) -> int:
    words = namespace.run(["cat", "/proc/net/sockstat"]).split()
    return int(words[words.index("tw") + 1])


def test_percentiles_beside_a_packet_capture(wire: VethPair, probe_pair: ProbePair) -> None:
    """Every request and response is in the capture of the interface, and no percentile is below
    that of the times between them: the generator adds its own time, and leaves nothing out."""
    with wire.left.call(lambda: capture("wire")) as packets:
        client, _ = run(
            probe_pair,
            "builtin",
            "--test",
            "rr",
            "--time",
            "0.3",
            "--length",
            "50",
            "--response",
            "51",
        )
        packets.setblocking(False)
        seen = list(payload_times(packets))
    [end] = events(client, "end")
    requests, responses = (list(first_times(seen, size)) for size in (50, 51))
    assert len(requests) == len(responses) == end["transactions"] + 1
    raw = sorted(after - before for before, after in zip(requests[1:], responses[1:], strict=True))
    found = LatencyHistogram(unpacked_counts(end["latency"]["buckets"]), end["latency"]["sum"])
    shares = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
    for share, value in zip(shares, found.quantiles(shares), strict=True):
        assert value * (1 + 1 / SUB_BUCKETS) >= raw[max(0, math.ceil(share * len(raw)) - 1)], share
    assert found.sum / 1e9 >= sum(raw)


def capture(name: str) -> socket.socket:
    """All packets of an interface, with the kernel's time of each."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(ETH_P_ALL))
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    made.bind((name, ETH_P_ALL))
    return made


def test_no_more_transactions_than_a_shaper_lets_through(
    wire: VethPair, probe_pair: ProbePair
) -> None:
    """One datagram every 5 ms after those of its burst; how close it comes depends on the load of
    the machine."""
    frame, burst, period = 64 + 8 + 20 + 14, 130, 0.005
    shaper = [
        "tbf",
        "rate",
        f"{round(8 * frame / period)}bit",
        "burst",
        str(burst),
        "limit",
        "100000",
    ]
    wire.left.run(["tc", "qdisc", "add", "dev", "wire", "root", *shaper])
    begin = time.monotonic()
    try:
        client, _ = run(probe_pair, "builtin", "--test", "rr", "--udp", "--time", "0.5")
    finally:
        took = time.monotonic() - begin
        wire.left.run(["tc", "qdisc", "del", "dev", "wire", "root"])
    [end] = events(client, "end")
    assert 0 < end["transactions"] <= took / period + burst / frame + 1
    assert end["latency"]["sum"] / 1e9 <= took


def first_times(seen: list[tuple[int, int, float]], size: int) -> Iterator[float]:
    """Times of the packets with that payload, in order; those that were sent again are left out."""
    sequences = set()
    for sequence, length, when in seen:
        if length == size and sequence not in sequences:
            sequences.add(sequence)
            yield when


def payload_times(packets: socket.socket) -> Iterator[tuple[int, int, float]]:
    """(TCP sequence number, bytes of payload, seconds) of each packet over IPv4 in a capture."""
    while True:
        try:
            data, control, _, _ = packets.recvmsg(2048, 64)
        except BlockingIOError:
            return
        if data[12:14] != b"\x08\x00" or data[23] != socket.IPPROTO_TCP:
            continue
        seconds, nanoseconds = struct.unpack("@ll", control[0][2])
        header = 4 * (data[14] & 15)
        size = int.from_bytes(data[16:18], "big") - header - 4 * (data[14 + header + 12] >> 4)
        yield int.from_bytes(data[14 + header + 4 :][:4], "big"), size, seconds + nanoseconds / 1e9


def test_a_thousand_small_files(probe_pair: ProbePair) -> None:
    """The client ends after the last one, long before its time."""
    arguments = ("--test", "crr", "--files", "200", "--length", "4K", "-P", "3", "--time", "20")
    client, server = run(probe_pair, "builtin", *arguments)
    [end], [served] = events(client, "end"), events(server, "end")
    assert end["transactions"] == served["transactions"] - 3 == 200 and end["stopped"] == ""
    assert 0 < end["seconds"] < 20


def test_connections_of_others_are_closed(wire: VethPair, probe_pair: ProbePair) -> None:
    """A port scan during a test with a connection for each transaction neither ends it nor
    counts."""
    wire.left.run(["ip", "address", "add", "10.20.30.77/24", "dev", "wire"])
    client, server = probe_pair
    server.send(server_request("crr", "--time", "0.5"))
    next_line(server, "listening")
    client.send(client_request("crr", "--time", "0.5", "--interval", "0.1"))
    next_line(client, "output")

    def connect_foreign() -> bytes:
        with socket.create_connection((IPV4[1], PORT), 5, ("10.20.30.77", 0)) as foreign:
            foreign.settimeout(5)
            return foreign.recv(10)

    assert wire.left.call(connect_foreign) == b""
    wire.left.run(["ip", "address", "del", "10.20.30.77/24", "dev", "wire"])
    mine, theirs = lines_until(client, "client", "exit"), lines_until(server, "server", "exit")
    [end], [served] = events(mine, "end"), events(theirs, "end")
    assert end["transactions"] == served["transactions"] - 1 > 0


def test_transactions_do_not_start_without_free_ports(
    wire: VethPair, probe_pair: ProbePair
) -> None:
    ports = "/proc/sys/net/ipv4/ip_local_port_range"
    before = wire.left.run(["cat", ports])
    client, server = probe_pair
    wire.left.run(["sh", "-c", f"echo 40000 40003 > {ports}"])
    try:
        server.send(server_request("crr", "-P", "4"))
        next_line(server, "listening")
        client.send(client_request("crr", "-P", "4"))
        lines = lines_until_exit(client, "client")
    finally:
        wire.left.run(["sh", "-c", f"echo {before.strip()} > {ports}"])
    assert lines[-1].status == 1
    assert "not started: only " in "".join(line.text for line in lines)
    assert lines_until(server, "server", "exit")[-1].kind == "exit"


def test_generator_alone(probe_pair: ProbePair) -> None:
    client, _ = probe_pair
    arguments = ["--test", "rr", "--length", "64", "--response", "64", "--streams", "1"]
    client.send({"traffic": {"id": "f", "action": "floor", "arguments": arguments, "deadline": 10}})
    line = next_line(client, "floor", "failed")
    assert line.floor is not None and line.floor.arguments == tuple(arguments)
    assert line.floor.transactions == sum(unpacked_counts(line.floor.latency.buckets).values()) > 0
    for wrong in (["--time", "5"], ["--test", "crr", "--udp"]):
        client.send({"traffic": {"id": "f", "action": "floor", "arguments": wrong, "deadline": 10}})
        assert next_line(client, "floor", "failed").text
    client.send({"traffic": {"id": "f", "action": "floor", "arguments": arguments, "deadline": 10}})
    client.send({"traffic": {"id": "f", "action": "stop"}})
    next_line(client, "failed")
    wait_until(lambda: not holds_if_running(has_session_leader, client))


def test_built_in_omit(probe_pair: ProbePair) -> None:
    arguments = ("--time", "0.4", "--omit", "0.15", "--interval", "0.1", "--bitrate", "200M")
    client, server = run(probe_pair, "builtin", *arguments)
    assert 1 <= [one["omitted"] for one in events(server, "interval")].count(True) <= 2
    intervals = events(client, "interval")
    omitted = [one for one in intervals if one["omitted"]]
    kept = [one for one in intervals if not one["omitted"]]
    assert intervals == omitted + kept
    assert omitted[0]["start"] == 0.0 and all(one["end"] < 0.15 for one in omitted[:-1])
    assert omitted[-1]["end"] >= 0.15
    assert [one["start"] for one in omitted[1:]] == [one["end"] for one in omitted[:-1]]
    [end] = events(client, "end")
    assert end["seconds"] >= 0.4 and end["bytes"] > 0
    check_intervals(kept, end | {"seconds": end["seconds"] + 0.15 - omitted[-1]["end"]})


def test_built_in_server_closes_foreign_connections(wire: VethPair, probe_pair: ProbePair) -> None:
    """One connection that sends nothing, one that sends something else, and one that is closed
    before the client connects."""
    client, server = probe_pair
    server.send(start_request("server", "builtin", "--time", "0.2", address=IPV4[1]))
    next_line(server, "listening")

    def connect_foreign() -> list[socket.socket]:
        foreign = [socket.create_connection((IPV4[1], PORT), 5) for _ in range(3)]
        foreign[1].send(b"GET / HTTP/1.1\r\n" * 20)
        foreign[2].close()
        return foreign

    foreign = wire.left.call(connect_foreign)
    try:
        client.send(start_request("client", "builtin", "--time", "0.2", address=IPV4[1]))
        check_order(lines_until_exit(client, "client"))
        assert lines_until(server, "server", "exit")[-1].status == 0
        assert not foreign[1].recv(100)
    except ConnectionResetError:
        pass  # closed with unread data: no answer either
    finally:
        for one in foreign:
            one.close()


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
def test_every_python_runs_traffic_from_memory(python: str, tmp_path: Path) -> None:
    with SentProbe(python, tmp_path, "--interval", "60") as probe:
        probe.send({"traffic": {"id": "c", "action": "check"}})
        tools = next_line(probe, "tools", "failed").tools
        assert tools is not None and tools.congestion_controls
        for udp in ([], ["--udp", "--bitrate", "20M"]):
            words = ("-t", "0.2", "-P", "2", *udp)
            probe.send(
                start_request("server", "builtin", *words, address="127.0.0.1", peer="127.0.0.1")
            )
            lines = lines_until(probe, "server", "listening", "exit", "failed")
            assert lines[-1].kind == "listening", lines
            probe.send(
                start_request("client", "builtin", *words, address="127.0.0.1", sockets=True)
            )
            ended = [next_line(probe, "exit"), next_line(probe, "exit")]
            assert {line.id for line in ended} == {"client", "server"} and {
                line.status for line in ended
            } == {0}


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("name", GENERATORS)
def test_port_in_use_is_reported(wire: VethPair, probe_pair: ProbePair, name: str) -> None:
    def occupy() -> socket.socket:
        return socket.create_server((IPV4[1], PORT))

    _, server = probe_pair
    with wire.right.call(occupy):
        server.send(start_request("server", name, address=IPV4[1]))
        lines = lines_until_exit(server, "server")
    assert lines[-1].kind == "exit" and lines[-1].status == 1
    assert "ddress already in use" in "".join(line.text for line in lines)
    assert "listening" not in [line.kind for line in lines]


@pytest.mark.parametrize("name", TESTS)
def test_client_without_server(probe_pair: ProbePair, name: str) -> None:
    client, _ = probe_pair
    client.send(client_request(name))
    lines = lines_until_exit(client, "client")
    assert lines[-1].status == 1
    assert "onnection refused" in "".join(line.text for line in lines)


@pytest.mark.parametrize("name", TESTS)
@kill_matrix(("running",))
def test_stop_ends_a_generator_and_its_children(
    mark: str, marked_probe_pair: ProbePair, stage: str, kill: int, name: str
) -> None:
    client, server = marked_probe_pair
    server.send(server_request(name, "-P", "2", "-t", "20"))
    assert next_line(server, "listening", "failed").kind == "listening"
    client.send(client_request(name, "-P", "2", "-t", "20", sockets=True, interval=0.1))
    connections = 1 if name == "crr" else 2
    while len((line := next_line(client, "sockets", "exit", name="client")).sockets) < connections:
        assert line.kind == "sockets"  # the first of them may be read before all are connected
    client.send({"traffic": {"id": "client", "action": "stop"}})
    server.send({"traffic": {"id": "server", "action": "stop"}})
    next_line(client, "exit", name="client")
    next_line(server, "exit", name="server")
    wait_until(lambda: set(marked_processes(mark)) == {*client.pids(), *server.pids()})
    client.send({"traffic": {"id": "client", "action": "stop"}})
    assert "no generator of this name" in next_line(client, "failed").text


@pytest.mark.parametrize("name", GENERATORS)
def test_deadline_ends_a_generator(probe_pair: ProbePair, name: str) -> None:
    _, server = probe_pair
    server.send(start_request("server", name, address=IPV4[1], deadline=0.3))
    lines = lines_until_exit(server, "server")
    assert [line.kind for line in lines if line.kind in ("failed", "exit")] == ["failed", "exit"]
    assert "0.3 s" in next(line.text for line in lines if line.kind == "failed")
    wait_until(lambda: not server.children())


@pytest.mark.parametrize("name", [*GENERATORS, "rr"])
def test_stop_and_deadline_with_the_link_down(
    wire: VethPair, probe_pair: ProbePair, name: str
) -> None:
    """Without them the traffic would never end. The next connection of crr fails at once."""
    client, server = probe_pair
    server.send(server_request(name, "-t", "20", deadline=25))
    next_line(server, "listening")
    client.send(client_request(name, "-t", "20", deadline=3, sockets=True, interval=0.1))
    next_line(client, "sockets")
    wire.left.run(["ip", "link", "set", "wire", "down"])
    try:
        assert "3 s" in next_line(client, "failed").text
        assert next_line(client, "exit").kind == "exit"
        server.send({"traffic": {"id": "server", "action": "stop"}})
        next_line(server, "exit")
        wait_until(lambda: not client.children() and not server.children())
    finally:
        wire.left.run(["ip", "link", "set", "wire", "up"])
        wire.left.run(["ip", "address", "replace", f"{IPV6[0]}/64", "dev", "wire", "nodad"])


# ------------------------------------------------------------------------------- no process is left


def close_stdin(probe: Probe) -> None:
    assert probe.process.stdin is not None
    probe.process.stdin.close()


STAGES: dict[str, Callable[[Probe], object]] = {
    "requested": lambda probe: None,
    "forked": lambda probe: wait_until(probe.children),
    "session-created": lambda probe: wait_until(
        lambda: holds_if_running(has_session_leader, probe)
    ),
    "started": lambda probe: next_line(probe, "started"),
    "listening": lambda probe: next_line(probe, "listening"),
}
ENDS: dict[str, Callable[[Probe], object]] = {
    "killed": lambda probe: probe.process.kill(),
    "terminated": lambda probe: probe.process.terminate(),
    "stdin-closed": close_stdin,
}


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))
@pytest.mark.parametrize("name", GENERATORS)
@kill_matrix(tuple(STAGES), tuple(ENDS))
def test_no_server_outlives_the_probe(
    wire: VethPair, mark: str, *, name: str, stage: str, kill: int, variant: str
) -> None:
    """`variant`: how the probe ends."""
    with Probe("--interval", "60", namespace=wire.right) as probe:
        probe.wait_for(lambda line: line.counters)
        probe.send(start_request("server", name, address=IPV4[1]))
        STAGES[stage](probe)
        ENDS[variant](probe)
        probe.process.wait(TEST_TIMEOUT)
    wait_until(lambda: not marked_processes(mark))


def under_load(name: str) -> tuple[str, ...]:
    """Kinds of lines of a client that show that it sends: the connections of requests belong to
    children, whose sockets are not read."""
    return ("sockets",) if name in GENERATORS else ("sockets", "output")


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))
@pytest.mark.parametrize("name", TESTS)
@kill_matrix(tuple(ENDS), ("server-first", "client-first"))
def test_nothing_outlives_the_probes_during_a_run(
    wire: VethPair, mark: str, *, name: str, stage: str, kill: int, variant: str
) -> None:
    """Both ends with four streams under full load, ended one after the other; `stage`: how."""
    with (
        Probe("--interval", "60", namespace=wire.left) as client,
        Probe("--interval", "60", namespace=wire.right) as server,
    ):
        server.send(server_request(name, "-P", "4", "-t", "20"))
        next_line(server, "listening")
        client.send(client_request(name, "-P", "4", "-t", "20", sockets=True, interval=0.1))
        next_line(client, *under_load(name))
        wait_until(lambda: len(marked_processes(mark)) >= 4)
        for probe in (client, server) if variant == "client-first" else (server, client):
            ENDS[stage](probe)
            probe.process.wait(TEST_TIMEOUT)
    wait_until(lambda: not marked_processes(mark))


@pytest.mark.parametrize("name", TESTS)
@kill_matrix(("running",))
def test_killed_child_leaves_no_process(
    probe_pair: ProbePair, stage: str, kill: int, name: str
) -> None:
    client, server = probe_pair
    server.send(server_request(name, "-P", "2", "-t", "20"))
    next_line(server, "listening")
    client.send(client_request(name, "-P", "2", "-t", "20", sockets=True, interval=0.1))
    pid = next_line(client, "started").pid
    assert pid is not None
    next_line(client, *under_load(name))
    os.kill(pid, signal.SIGKILL)
    exited = next_line(client, "exit")
    assert exited.signal == signal.SIGKILL and exited.status is None
    server.send({"traffic": {"id": "server", "action": "stop"}})
    next_line(server, "exit", "failed")
    wait_until(lambda: not client.children() and not server.children())


# ------------------------------------------------------------------------------- misbehaving iperf3


FAKE_PROGRAMS = {
    "floods": "while :; do echo x; done",
    "prints one endless line": "exec tr '\\0' x </dev/zero",
    "hangs": "trap '' TERM; while :; do read -r line <>/dev/ptmx; done",
    "closes its pipes": "exec >&- 2>&-; while :; do read -r line <>/dev/ptmx; done",
    "prints bytes": "printf '\\377\\033[2J\\0\\r\\n'; exit 3",
    "leaves a child": "(trap '' TERM; while :; do read -r line <>/dev/ptmx; done) & exit 0",
}


@pytest.fixture
def fake_iperf3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> Callable[[str], None]:
    """Installs a program named iperf3 before the real one in PATH."""

    def install(script: str) -> None:
        path = tmp_path / "iperf3"
        path.write_text(script if script.startswith("#") else f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return install


@pytest.mark.parametrize("kind", FAKE_PROGRAMS)
def test_misbehaving_iperf3(kind: str, fake_iperf3: Callable[[str], None], mark: str) -> None:
    fake_iperf3(FAKE_PROGRAMS[kind])
    with Probe("--interval", "0.1") as probe:
        probe.send(start_request("server", "iperf3", address="127.0.0.1", deadline=1.0))
        lines = lines_until_exit(probe, "server")
        probe.wait_for(lambda line: line.counters)
        wait_until(lambda: not stray_generators(mark, probe))
        last = lines[-1]
        if kind == "prints bytes":
            assert last.status == 3 and lines[1].text.startswith("\ufffd\x1b[2J\0")
        elif kind == "leaves a child":
            assert last.status == 0
        elif kind == "closes its pipes":
            assert last.signal == signal.SIGTERM
        else:
            assert last.signal in (signal.SIGTERM, signal.SIGKILL)
            assert [line.kind for line in lines].count("failed") == 1
    wait_until(lambda: not marked_processes(mark))


def test_iperf3_that_cannot_be_executed(fake_iperf3: Callable[[str], None], mark: str) -> None:
    fake_iperf3("#!/nonexistent/interpreter")
    with Probe("--interval", "60") as probe:
        probe.send(start_request("server", "iperf3", address="127.0.0.1"))
        assert next_line(probe, "started", "failed").text == (
            "cannot start: No such file or directory: the program, its interpreter or its loader "
            "is missing"
        )
        wait_until(lambda: not stray_generators(mark, probe))


def test_host_without_iperf3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(iperf3_module, "EXTRA_DIRECTORIES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    lines: list[dict[str, Any]] = []

    def report(fields: dict[str, Any], *, droppable: bool = False) -> None:
        lines.append(fields)

    generators = Generators(report, select.poll())
    generators.handle_request(
        start_request("client", "iperf3", address="127.0.0.1")["traffic"], 0.0
    )
    assert [(line["kind"], line["text"]) for line in lines] == [
        ("failed", "iperf3 is not installed")
    ]
    assert generators.next_deadline(0.0) is None


def test_one_failure_is_sent_if_output_exceeds_the_limit_after_the_time_limit(
    fake_iperf3: Callable[[str], None], mark: str
) -> None:
    fake_iperf3(FAKE_PROGRAMS["floods"])
    lines: list[dict[str, Any]] = []

    def report(fields: dict[str, Any], *, droppable: bool = False) -> None:
        lines.append(fields)

    poll = select.poll()
    generators = Generators(report, poll)
    generators.handle_request(
        start_request("server", "iperf3", address="127.0.0.1", deadline=1.0)["traffic"], 0.0
    )
    now = 0.0
    while not lines or lines[-1]["kind"] != "exit":
        for descriptor, _ in poll.poll(10):
            if generators.owns(descriptor):
                generators.handle_readable(descriptor, now)
        if any(line["kind"] == "output" for line in lines) and not now:
            now = 1.0
            generators.advance(now)
            assert lines[-1]["text"] == "iperf3 exceeded its time limit of 1 s"
            generators._running[
                "server"
            ]._line_budget = -1e6  # the child runs until it has handled SIGTERM
        generators.advance(now)
    assert [line["kind"] for line in lines].count("failed") == 1
    wait_until(lambda: not marked_processes(mark))


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("stop", "measurement over loopback was stopped before it answered"),
        ("kill", "measurement over loopback ended by signal 15 (SIGTERM)"),
        ("time", "measurement over loopback exceeded its time limit of 5 s"),
    ],
)
def test_a_lookup_without_an_answer_says_how_it_ended(end: str, text: str) -> None:
    lines: list[dict[str, Any]] = []

    def report(fields: dict[str, Any], *, droppable: bool = False) -> None:
        lines.append(fields)

    poll = select.poll()
    generators = Generators(report, poll)
    arguments = ["--test", "rr", "--interval", "1", "--time", "60"]
    generators.handle_request(
        {"id": "f", "action": "floor", "deadline": 5.0, "arguments": arguments}, 0.0
    )
    lookup, now = generators._lookups["f"], 0.0

    def advance() -> None:
        for descriptor, _ in poll.poll(10):
            if generators.owns(descriptor):
                generators.handle_readable(descriptor, now)
        generators.advance(now)

    while not lookup.started:
        advance()
    if end == "stop":
        generators.handle_request({"id": "f", "action": "stop"}, 0.0)
    elif end == "kill":
        os.kill(lookup.child.pid, signal.SIGTERM)
    else:
        now = 6.0
    while not lines:
        advance()
    assert [(line["kind"], line["text"]) for line in lines] == [("failed", text)]


# ------------------------------------------------------------------------------------------- tools


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_tools(mark: str) -> None:
    with Probe("--interval", "60") as probe:
        probe.send({"traffic": {"id": "c", "action": "check"}})
        tools = next_line(probe, "tools", "failed").tools
        wait_until(lambda: not stray_generators(mark, probe))
    assert tools is not None and tools.path == shutil.which("iperf3")
    assert tools.version.startswith("iperf 3.") and {"--reverse", "--forceflush"} <= set(
        tools.options
    )
    assert tools.congestion_control in tools.congestion_controls
    assert set(tools.allowed_congestion_controls) <= set(tools.congestion_controls)
    assert tools.cpus == tuple(sorted(os.sched_getaffinity(0))) and not tools.unreadable


@pytest.mark.parametrize(
    ("script", "reason", "word"),
    [
        (FAKE_PROGRAMS["hangs"], "failed", "did not end"),
        ("echo hello", "malformed", "hello"),
        ("#!/nonexistent/interpreter", "failed", "No such file"),
        ("kill -9 $$", "malformed", "says ''"),
    ],
    ids=["hangs", "says something else", "cannot be run", "is killed"],
)
def test_invalid_iperf3_is_unreadable(
    fake_iperf3: Callable[[str], None], mark: str, script: str, reason: str, word: str
) -> None:
    fake_iperf3(script)
    with Probe("--interval", "60") as probe:
        probe.send({"traffic": {"id": "c", "action": "check"}})
        tools = next_line(probe, "tools", "failed").tools
        assert tools is not None and tools.version == "" and tools.options == ()
        assert (
            tools.unreadable["version"].reason == reason
            and word in tools.unreadable["version"].detail
        )
        assert tools.congestion_controls
    wait_until(lambda: not marked_processes(mark))


# ------------------------------------------------------------------------------------------- limits


def test_invalid_requests_are_reported() -> None:
    with Probe("--interval", "60") as probe:
        for change, word in (
            ({"id": ""}, "id is not"),
            ({"id": "a\nb"}, "id is not"),
            ({"action": "restart"}, "action is not one of"),
            ({"role": None}, "role is not one of"),
            ({"port": 0}, "port is not"),
            ({"port": True}, "port is not"),
            ({"address": "localhost"}, "address is not"),
            ({"role": "client", "address": None}, "a client needs"),
            ({"deadline": 0}, "deadline is not"),
            ({"deadline": 1e9}, "deadline is not"),
            ({"sockets": True, "interval": -1}, "interval is not"),
            ({"threads": 1}, "threads is not true or false"),
            ({"arguments": "--reverse"}, "arguments is not"),
            ({"arguments": ["--logfile", "x"]}, "iperf3 option '--logfile' is not allowed"),
            ({"arguments": ["--logf=x"]}, "iperf3 option '--logf=x' is not allowed"),
            ({"arguments": ["-D"]}, "iperf3 option '-D' is not allowed"),
            ({"arguments": ["-t", "-F"]}, "invalid value of -t: '-F'"),
            ({"arguments": ["-t"]}, "invalid value of -t: ''"),
            ({"generator": "builtin", "arguments": ["--file", "x"]}, "no option '--file'"),
            (
                {"generator": "builtin", "arguments": ["--length", "9M"]},
                "invalid value of --length: '9M'",
            ),
        ):
            request = start_request("server", "iperf3", address="127.0.0.1")
            request["traffic"].update(change)
            probe.send(request)
            line = next_line(probe, "failed", "started")
            assert word in line.text, (change, line)
        assert not [pid for pid in probe.children() if os.getsid(pid) == pid]


@pytest.mark.parametrize("generator", GENERATORS)
def test_threads_are_reported_during_a_run(probe_pair: ProbePair, generator: str) -> None:
    """Of all processes of the host, including its own."""
    client, server = probe_pair
    server.send(server_request(generator, "-t", "30"))
    next_line(server, "listening")
    client.send(client_request(generator, "-t", "30", threads=True))
    pid = next_line(client, "started").pid
    while True:
        line = next_line(client, "threads", name="client")
        assert line.seconds and line.seconds > 0 and line.unreadable is None
        own_threads = [one for one in line.threads if one.generator]
        if own_threads:
            break
    assert {one.name[:4] for one in own_threads} <= {"iper", "pyth", "nict"} and pid is not None
    assert any(one.pid == pid or os.getsid(one.pid) == pid for one in own_threads)
    assert all(one.user + one.system > 0 for one in line.threads) and len(line.threads) <= 16
    client.send({"traffic": {"id": "client", "action": "stop"}})
    next_line(client, "exit")


def test_limit_of_generators() -> None:
    with Probe("--interval", "60") as probe:
        for number in range(generator.MAX_GENERATORS + 1):
            probe.send(
                start_request(
                    "server", "builtin", address="127.0.0.1", id=f"s{number}", port=PORT + number
                )
            )
        probe.send(start_request("server", "builtin", address="127.0.0.1", id="s0", port=PORT))
        text = next_line(probe, "failed").text
        assert text == f"{generator.MAX_GENERATORS} generators are already running"
        assert next_line(probe, "failed").text == "a generator of this name is already running"
    assert probe.process.returncode == 0


def test_output_blocks_while_the_probe_is_not_read(
    fake_iperf3: Callable[[str], None], mark: str
) -> None:
    """A child's writes block while the probe's output is not read, and nothing is lost."""
    fake_iperf3('for ((i = 0; i < 15000; i++)); do echo "$i ' + "x" * 500 + '"; done')
    with Probe("--interval", "60") as probe:
        probe.send(start_request("client", "iperf3", address="127.0.0.1"))
        wait_until(lambda: [pid for pid in probe.children() if os.getsid(pid) == pid])
        [child] = [pid for pid in probe.children() if os.getsid(pid) == pid]
        wait_until(lambda: "pipe_write" in Path(f"/proc/{child}/wchan").read_text())
        lines = lines_until_exit(probe, "client")
    texts = [line.text.split()[0] for line in lines if line.kind == "output"]
    assert texts == [str(number) for number in range(15000)]


def test_modules_that_generators_do_not_import() -> None:
    """Neither those of the records nor those that only children need."""
    code = (
        "import select, sys, nictop.probe.traffic.generators as g\n"
        "lines = []\n"
        "made = g.Generators(lambda fields, droppable=False: lines.append(fields), select.poll())\n"
        "made.handle_request({'id': 'a', 'action': 'start', 'role': 'server', 'generator': "
        "'builtin', 'port': 1,\n"
        "           'address': '127.0.0.1', 'deadline': 1, 'arguments': ['--mss', '500'], "
        "'cookie': '0' * 32}, 0.0)\n"
        "made.end_all()\n"
        "print(sorted({'dataclasses', 'typing', 'subprocess', 'ctypes', 'asyncio'} & "
        "set(sys.modules)), lines)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.append({str(namespaces.ROOT)!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] []"
