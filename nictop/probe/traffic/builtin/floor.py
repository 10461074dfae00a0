"""The latency of the built-in generator itself: a short test over loopback with both ends on this
host.

A result near it says more about the generator than about the network.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from functools import partial

from nictop.probe.traffic.builtin import paced, transactions
from nictop.probe.traffic.builtin.connections import set_connect_options
from nictop.probe.traffic.builtin.paced import paced_task
from nictop.probe.traffic.builtin.transaction_run import (
    ACCEPT_TIMEOUT_SECONDS,
    EXCHANGES,
    FORK_SECONDS,
    TransactionMeter,
)
from nictop.probe.traffic.builtin.transactions import ConnectTask, SharedCounts, TransactionTask
from nictop.probe.traffic.builtin.workers import fork_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nictop.probe.traffic.builtin.options import BuiltinOptions

    Pair = tuple[socket.socket, socket.socket]
    TaskArguments = tuple[socket.socket, tuple[int, int], tuple[float, float], bytes]
    """Of a `TransactionTask`."""

FLOOR_SECONDS = 0.3, 1.2, 4.8
"""Of the first measurement; the next one is made if that had fewer than
`MIN_FLOOR_TRANSACTIONS`."""
MIN_FLOOR_TRANSACTIONS = 200
LOOPBACK = "127.0.0.1"


def measure_floor(options: BuiltinOptions) -> dict[str, Any]:
    """The figures of `TransactionMeter.total`, and "seconds". Raises OSError if loopback cannot be
    used."""
    if options.affinity is not None:
        os.sched_setaffinity(0, {options.affinity})
    for seconds in FLOOR_SECONDS[:-1]:
        with contextlib.suppress(OSError):  # a process that got no CPU time
            found = _measure(options, seconds)
            if found["transactions"] >= MIN_FLOOR_TRANSACTIONS:
                return found
    return _measure(options, FLOOR_SECONDS[-1])


def _measure(options: BuiltinOptions, seconds: float) -> dict[str, Any]:
    connects, cookie = options.test == "crr", os.urandom(16)
    counts = [SharedCounts() for _ in range(options.streams)]
    pids: list[int] = []
    with contextlib.ExitStack() as stack:
        listener, pairs = _loopback_pairs(options, stack)
        start = time.monotonic() + 2 * FORK_SECONDS * options.streams
        end, sizes = start + seconds, (options.length, options.response)
        try:
            for _, server in pairs:
                if connects:
                    task = TransactionTask(listener, sizes, (0.0, end), cookie)
                else:
                    task = TransactionTask(server, sizes, (start, end), cookie)
                pids.append(fork_worker(_server_work(options, task)))
            clients: list[int] = []
            for number, ((client, _), own) in enumerate(zip(pairs, counts)):
                arguments = (client, sizes, (start, end), cookie)
                clients.append(fork_worker(_client_work(options, arguments, number, own)))
                pids.append(clients[-1])
            for pid in clients:
                _, status = os.waitpid(pid, 0)
                pids.remove(pid)
                if status:
                    raise OSError("the generator ended early")
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            for pid in pids:
                os.waitpid(pid, 0)
    meter = TransactionMeter(counts, connects=connects)
    meter.interval(counted=True)
    return {**meter.total(), "seconds": seconds}


def _server_work(options: BuiltinOptions, task: TransactionTask) -> Callable[[], object]:
    """Of one process; what it counts is not used."""
    if options.test == "crr":
        return partial(transactions.accept_and_serve, task, LOOPBACK, SharedCounts())
    return partial(EXCHANGES[False, options.udp], task, SharedCounts())


def _client_work(
    options: BuiltinOptions, arguments: TaskArguments, number: int, counts: SharedCounts
) -> Callable[[], object]:
    """Of the client process with this number."""
    if options.test == "crr":
        connect = ConnectTask(*arguments, options=options, files=0)
        return partial(transactions.connect_and_exchange, connect, counts)
    task = TransactionTask(*arguments)
    if options.rate:
        return partial(paced.exchange, paced_task(task, options, number), counts)
    return partial(EXCHANGES[True, options.udp], task, counts)


def _loopback_pairs(
    options: BuiltinOptions, stack: contextlib.ExitStack
) -> tuple[socket.socket, list[Pair]]:
    """(listener, client and server sockets of each process)"""
    kind = socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM

    def new_socket() -> socket.socket:
        made = stack.enter_context(socket.socket(socket.AF_INET, kind))
        set_connect_options(made, options)
        return made

    listener, pairs = new_socket(), []
    listener.bind((LOOPBACK, 0))
    if not options.udp:
        listener.listen(options.streams)
    for _ in range(options.streams):
        client = new_socket()
        if options.udp:
            server = new_socket()
            server.bind((LOOPBACK, 0))
            client.connect(server.getsockname())
            server.connect(client.getsockname())
        else:
            client.connect(listener.getsockname())
            server = stack.enter_context(accept_from(listener, client.getsockname()))
        pairs.append((client, server))
    transactions.set_timeout(listener, ACCEPT_TIMEOUT_SECONDS)
    return listener, pairs


def accept_from(listener: socket.socket, client: object) -> socket.socket:
    """The connection of that socket; those of other processes of this host are closed."""
    while True:
        connection, peer = listener.accept()
        if peer == client:
            return connection
        connection.close()
