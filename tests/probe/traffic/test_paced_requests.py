"""Requests on schedule: every one that was due counts, and its latency counts from then."""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from nictop.probe.traffic.builtin import paced, transactions
from nictop.probe.traffic.builtin.options import parse_options
from nictop.probe.traffic.builtin.paced import StreamRequests, exchange, paced_task
from nictop.probe.traffic.builtin.transactions import SharedCounts, TransactionTask
from tests.probe.traffic.test_transaction_parts import COOKIE, connected_pair

RATE, NUMBER = 500, 50
SECONDS = NUMBER / RATE
STEP = 1_000_000_000 // RATE


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector of this process stays on."""
    monkeypatch.setattr(
        transactions, "gc", SimpleNamespace(disable=lambda: None, freeze=lambda: None)
    )


def run(
    kind: str, serve: Callable[[socket.socket], None], *, size: int = 64, rate: int = RATE
) -> SharedCounts:
    """What the client counts while `serve` runs at the other end, in a thread."""
    client, server = connected_pair(kind)
    counts = SharedCounts()
    options = parse_options(
        ["--test", "rr", "--rate", str(rate), *(["--udp"] if kind == "udp" else [])]
    )
    with client, server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        start = transactions.nanoseconds() / 1e9
        task = TransactionTask(client, (size, size), (start, start + SECONDS), COOKIE)
        exchange(paced_task(task, options, 0), counts)
        client.close()
        thread.join()
    return counts


def serve_at_once(size: int = 64, *, udp: bool = False) -> Callable[[socket.socket], None]:
    def serve(server: socket.socket) -> None:
        task = TransactionTask(server, (size, size), (0.0, 1e9), COOKIE)
        (transactions.serve_datagrams if udp else transactions.serve_stream)(task, SharedCounts())

    return serve


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_all_due_requests_are_answered(kind: str) -> None:
    counts = run(kind, serve_at_once(udp=kind == "udp"))
    assert (counts.fields[transactions.DONE], counts.fields[transactions.LOST]) == (NUMBER, 0)
    assert sum(counts.latency) == NUMBER


def test_large_requests_that_the_socket_does_not_take_at_once() -> None:
    counts = run("tcp", serve_at_once(4 << 20), size=4 << 20, rate=100)
    assert (counts.fields[transactions.DONE], counts.fields[transactions.LOST]) == (10, 0)


def test_more_responses_than_requests_are_not_counted() -> None:
    client, server = connected_pair("tcp")
    with client, server:
        requests = StreamRequests(TransactionTask(client, (8, 4), (0.0, 1.0), COOKIE))
        for size, pending, answered in ((4, 0, []), (6, 2, [0]), (6, 5, [0, 1]), (20, 2, [0, 1])):
            server.sendall(bytes(size))
            assert list(requests.receive(OrderedDict.fromkeys(range(pending), 0))) == answered


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_pause_of_the_server_delays_all_requests_that_are_due_in_it(kind: str) -> None:
    """No coordinated omission: the server answers nothing before it has all requests, so that each
    waits at least until the last one is due."""

    def serve(server: socket.socket) -> None:
        server.send(server.recv(64))  # the transaction that is not counted
        received = [receive(server) for _ in range(NUMBER)]
        for request in received:
            server.send(request)
        while data := server.recv(64):  # until the end of the run
            server.send(data)
            if kind == "udp":
                return

    counts = run(kind, serve)
    assert (counts.fields[transactions.DONE], counts.fields[transactions.LOST]) == (NUMBER, 0)
    assert counts.fields[transactions.LATENCY_SUM] >= sum(number * STEP for number in range(NUMBER))


def receive(server: socket.socket) -> bytes:
    return server.recv(64, socket.MSG_WAITALL)


def test_unanswered_datagrams_are_lost_and_late_ones_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paced, "UNANSWERED_DATAGRAM_SECONDS", 2 * SECONDS)
    monkeypatch.setattr(transactions, "UNANSWERED_SECONDS", 4 * SECONDS)

    def serve(server: socket.socket) -> None:
        server.send(server.recv(64))
        request = server.recv(64)
        server.send(request)
        server.send(request)  # a duplicate
        server.send(b"x")
        while not transactions.REQUEST_HEADER.unpack_from(request)[1] & transactions.LAST_REQUEST:
            request = server.recv(64)
        server.send(request)

    counts = run("udp", serve)
    assert (counts.fields[transactions.DONE], counts.fields[transactions.LOST]) == (1, NUMBER - 1)


def test_requests_beyond_the_limit_without_a_response_are_not_sent_but_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paced, "MAX_PENDING", 5)
    monkeypatch.setattr(transactions, "UNANSWERED_SECONDS", 0.01)
    received = []

    def serve(server: socket.socket) -> None:
        server.send(receive(server))
        while data := receive(server):
            received.append(data)

    counts = run("tcp", serve)
    assert (counts.fields[transactions.DONE], counts.fields[transactions.LOST], len(received)) == (
        0,
        NUMBER,
        5,
    )


def test_a_server_that_closes_the_connection_ends_it() -> None:
    def serve(server: socket.socket) -> None:
        server.send(receive(server))
        receive(server)
        server.shutdown(socket.SHUT_RDWR)

    with pytest.raises(OSError, match=r"closed the connection|reset|pipe"):
        run("tcp", serve)


def test_connections_are_due_one_after_the_other() -> None:
    options = parse_options(["--test", "rr", "--rate", "400", "-P", "4"])
    client, server = connected_pair("tcp")
    with client, server:
        task = TransactionTask(client, (64, 64), (0.0, 1.0), COOKIE)
        made = [paced_task(task, options, number) for number in range(4)]
    assert [one.due(0) for one in made] == [0, 2_500_000, 5_000_000, 7_500_000]
    assert [one.due(400) for one in made] == [4_000_000_000 + one.due(0) for one in made]
    third = paced_task(task, parse_options(["--test", "rr", "--rate", "3"]), 0)
    assert [third.due(number) for number in (1, 2, 3, 3_000_000)] == [
        333333333,
        666666666,
        10**9,
        10**15,
    ]
