"""Parts of tests of requests and responses: their processes, options, limits of the host, the
generator alone."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nictop.probe.traffic.builtin import transactions
from nictop.probe.traffic.builtin.floor import FLOOR_SECONDS, measure_floor
from nictop.probe.traffic.builtin.host_limits import HostUsage, shortage_before, shortage_during
from nictop.probe.traffic.builtin.latency_buckets import bucket_of, packed_counts
from nictop.probe.traffic.builtin.options import parse_options
from nictop.probe.traffic.builtin.transaction_run import TransactionMeter
from nictop.probe.traffic.builtin.transactions import SharedCounts, TransactionTask

COOKIE = bytes(16)
TRANSACTIONS = 500


class RecordingClock:
    """A clock of which the exchange reads the times before and after each transaction; it ends
    after some."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.original = transactions.nanoseconds

    def __call__(self) -> int:
        ended = len(self.times) >= 2 * TRANSACTIONS
        self.times.append(1 << 62 if ended else self.original())
        return self.times[-1]

    @property
    def latencies(self) -> list[int]:
        """Raw samples."""
        times = self.times[: 2 * TRANSACTIONS]
        return [after - before for before, after in zip(times[::2], times[1::2], strict=True)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> RecordingClock:
    made = RecordingClock()
    monkeypatch.setattr(transactions, "nanoseconds", made)
    # the collector of this process stays on
    monkeypatch.setattr(
        transactions, "gc", SimpleNamespace(disable=lambda: None, freeze=lambda: None)
    )
    return made


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_latencies_are_those_of_the_clock(kind: str, clock: RecordingClock) -> None:
    """The counts are exactly the buckets of the raw samples."""
    client, server = connected_pair(kind)
    sizes, forever = (64, 200), (0.0, 1e9)
    counts, served = SharedCounts(), SharedCounts()
    exchange = transactions.exchange_stream if kind == "tcp" else transactions.exchange_datagrams
    serve = transactions.serve_stream if kind == "tcp" else transactions.serve_datagrams
    with client, server:
        thread = threading.Thread(
            target=serve, args=(TransactionTask(server, sizes, forever, COOKIE), served)
        )
        thread.start()
        exchange(TransactionTask(client, sizes, forever, COOKIE), counts)
        thread.join()
    assert counts.fields[transactions.DONE] == served.fields[transactions.DONE] - 1 == TRANSACTIONS
    assert counts.fields[transactions.LATENCY_SUM] == sum(clock.latencies)
    raw = [0] * len(counts.latency)
    for one in clock.latencies:
        raw[bucket_of(one)] += 1
    assert packed_counts(list(counts.latency)) == packed_counts(raw)


def connected_pair(kind: str) -> tuple[socket.socket, socket.socket]:
    if kind == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            return client, listener.accept()[0]
    client, server = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for one in (client, server):
        one.bind(("127.0.0.1", 0))
    client.connect(server.getsockname())
    server.connect(client.getsockname())
    return client, server


def test_lost_datagrams_are_counted_and_late_ones_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers the first two requests, the second one twice, and no other one."""
    monkeypatch.setattr(transactions, "REQUEST_TIMEOUT", 0.05)
    monkeypatch.setattr(
        transactions, "gc", SimpleNamespace(disable=lambda: None, freeze=lambda: None)
    )
    client, server = connected_pair("udp")
    counts = SharedCounts()
    with client, server:

        def answer() -> None:
            server.send(server.recv(100))  # the transaction that is not counted
            request = server.recv(100)
            server.send(request)
            server.send(request)
            while (
                not transactions.REQUEST_HEADER.unpack_from(request)[1] & transactions.LAST_REQUEST
            ):
                request = server.recv(100)
            server.send(request)

        thread = threading.Thread(target=answer)
        thread.start()
        end = transactions.nanoseconds() / 1e9 + 0.2
        transactions.exchange_datagrams(
            TransactionTask(client, (64, 64), (0.0, end), COOKIE), counts
        )
        thread.join()
    assert counts.fields[transactions.DONE] == 1 and counts.fields[transactions.LOST] >= 1


def test_counts_of_an_interval_are_the_difference() -> None:
    first, second = SharedCounts(), SharedCounts()
    meter = TransactionMeter([first, second], connects=True)
    first.add(1000, 300)
    second.add(1000, 400)
    omitted = meter.interval(counted=False)
    assert omitted["transactions"] == 2 and omitted["latency"] == {
        "sum": 2000,
        "buckets": [bucket_of(1000), 2],
    }
    first.add(5000, 300)
    second.fields[transactions.LOST] += 3
    counted = meter.interval(counted=True)
    assert counted["latency"] == {"sum": 5000, "buckets": [bucket_of(5000), 1]}
    assert (
        counted["connect"] == {"sum": 300, "buckets": [bucket_of(300), 1]} and counted["lost"] == 3
    )
    assert meter.interval(counted=True)["transactions"] == 0
    assert meter.total() == counted


# ------------------------------------------------------------------------------------------ options


def test_options() -> None:
    options = parse_options(["--test", "crr", "--length", "4K", "--files", "1000", "-P", "4"])
    assert (options.test, options.length, options.response, options.files) == (
        "crr",
        4096,
        4096,
        1000,
    )
    assert options.no_delay and options.streams == 4
    options = parse_options(["--test", "rr", "--udp"])
    assert (options.length, options.response) == (64, 64)


@pytest.mark.parametrize(
    "line",
    ["--test x", "--test crr --udp", "--test rr --udp --length 4", "--test rr --files 5",
        "--files 5", "--response 5",
     "--rate 5", "--test crr --rate 5", "--test rr --rate 0", "--test rr --rate 5 -P 6",
     "--test rr --reverse", "--test rr --bitrate 5M", "--test rr --length 9M"],
)  # fmt: skip
def test_invalid_options(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_options(line.split())


# ------------------------------------------------------------------------------- limits of the host


def host(folder: Path, **changes: Any) -> HostUsage:
    """A host with 1000 source ports; `changes`: contents of files."""
    files = {
        "sys/net/ipv4/ip_local_port_range": "32768\t33767\n",
        "sys/net/ipv4/tcp_max_tw_buckets": "4096\n",
        "sys/net/ipv4/tcp_max_orphans": "400\n",
        "net/sockstat": "sockets: used 19\nTCP: inuse 10 orphan 0 tw 20 alloc 12 mem 0\nUDP: "
        "inuse 0 mem 1\n",
        **{name.replace("__", "/"): text for name, text in changes.items()},
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return HostUsage(str(folder))


def test_limits_of_the_host(tmp_path: Path) -> None:
    before = host(tmp_path)
    assert (before.ports, before.in_use, before.time_wait, before.conntrack) == (1000, 10, 20, None)
    assert shortage_before(before, 128) == shortage_during(before, before) == ""
    assert "only 970 of 1000 source ports" in shortage_before(before, 900)
    many = host(tmp_path, net__sockstat="TCP: inuse 10 orphan 0 tw 300 alloc 12 mem 0\n")
    assert shortage_during(many, before) == "280 connections in TIME_WAIT (source ports: 1000)"
    orphans = host(tmp_path, net__sockstat="TCP: inuse 10 orphan 150 tw 20 alloc 12 mem 0\n")
    assert "150 orphaned connections" in shortage_during(orphans, before)
    tracked = {
        "sys__net__netfilter__nf_conntrack_count": "90\n",
        "sys__net__netfilter__nf_conntrack_max": "100\n",
    }
    full = host(tmp_path, **tracked)
    assert "90 connections tracked" in shortage_before(
        full, 1
    ) and "90 connections" in shortage_during(full, before)


def test_limits_that_cannot_be_read_are_no_limits(tmp_path: Path) -> None:
    empty = HostUsage(str(tmp_path))
    assert (
        empty.ports is None and shortage_before(empty, 128) == shortage_during(empty, empty) == ""
    )


# ------------------------------------------------------------------------------ the generator alone


@pytest.mark.parametrize(
    "line",
    [
        "--test rr",
        "--test rr --udp --length 1000",
        "--test crr",
        "--test rr -P 3",
        "--test rr -P 3 --rate 600",
    ],
)
def test_generator_alone(line: str) -> None:
    found = measure_floor(parse_options(line.split()))
    assert found["seconds"] in FLOOR_SECONDS and found["transactions"] > 0 == found["lost"]
    assert found["latency"]["sum"] > 0
    assert ("connect" in found) == ("crr" in line)
