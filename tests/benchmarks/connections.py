"""One reading of 10,000 TCP connections compared with receiving the dump alone, and with ``ss
-tni``."""

from __future__ import annotations

import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nictop.probe.counters.on_demand.connections import dump, owners
from nictop.probe.counters.on_demand.connections.reader import ConnectionReader
from nictop.probe.kernel import netlink
from nictop.probe.traffic import sock_diag
from tests.benchmarks.results import Result
from tests.support.namespaces import Namespace, join_by_veth

CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 200
CLIENT, SERVER = "192.0.2.1", "192.0.2.2"


def connections(quick: bool) -> Iterator[Result]:
    rounds = 3 if quick else 15
    with joined() as (server, number, send):
        link = server.call(lambda: socket.if_nametoindex("x0"))
        reader, bare = ConnectionReader([link]), dump.SocketDump()
        times: dict[str, list[float]] = {}

        def measure(name: str, call: Callable[[], object]) -> None:
            begin = time.thread_time()
            server.call(call)
            times.setdefault(name, []).append(time.thread_time() - begin)

        search = owners.SLICE_SECONDS
        owners.SLICE_SECONDS = 0.0
        for _ in range(rounds):
            server.call(lambda: reader.read({}))
            measure("bare", lambda: receive_all(bare))
            measure("idle", lambda: reader.read({}))
            send()
            measure("active", lambda: reader.read({}))
            measure("first", lambda: ConnectionReader([link]).read({}))
            times.setdefault("ss", []).append(cpu_of_children(lambda: server.run(["ss", "-tniH"])))
        owners.SLICE_SECONDS = search
        found = server.call(lambda: reader.read({}))
        assert found["tcp"] == number, found["tcp"]
        searched = 0
        measure("owners", lambda: reader.read({}))
        while server.call(lambda: reader.read({}))["owners"] == "pending":
            searched += 1
    median = {name: statistics.median(values) for name, values in times.items()}
    what = f"reading of {number} connections"
    yield Result(f"{what}: the dump alone", median["bare"] * 1e3, None, "ms CPU")
    yield Result(f"{what}: ss -tni", median["ss"] * 1e3, None, "ms CPU")
    yield Result(f"{what}, none has moved", median["idle"] * 1e3, 50, "ms CPU")
    yield Result(f"{what}, all have moved", median["active"] * 1e3, 50, "ms CPU")
    yield Result(f"{what}, the first one", median["first"] * 1e3, None, "ms CPU")
    yield Result(
        f"{what}, with a slice of the search for processes", median["owners"] * 1e3, None, "ms CPU"
    )
    yield Result(f"{what}: readings until the processes are known", searched, None, "readings")
    yield Result(
        f"{what}, none has moved, against the dump alone",
        median["idle"] / median["bare"],
        2.5,
        "times",
    )
    yield Result(
        f"{what}, all have moved, against the dump alone",
        median["active"] / median["bare"],
        3.5,
        "times",
    )
    yield Result(
        f"{what}, all have moved, against ss", median["active"] / median["ss"], 1.0, "times"
    )


CLIENTS = """
import socket, sys
address, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
peers = (f"10.1.{one >> 8}.{one & 255}" for one in range(1, number + 1))
sockets = [socket.create_connection((address, port), source_address=(peer, 0)) for peer in peers]
for _ in sys.stdin:
    for one in sockets:
        one.send(b"x")
    print("sent", flush=True)
"""
"""Each connection is from another address. A process of its own: one may have only some 20,000
sockets."""


@contextmanager
def joined() -> Iterator[tuple[Namespace, int, Callable[[], object]]]:
    """(namespace of a server, number of its connections from another namespace, a call that sends a
    byte on each)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(CONNECTIONS, hard - SPARE_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    client, server = Namespace(), Namespace()
    sockets = []
    try:
        join_by_veth(client, server, "x0")
        client.run(["ip", "address", "add", f"{CLIENT}/24", "dev", "x0"])
        server.run(["ip", "address", "add", f"{SERVER}/24", "dev", "x0"])
        client.run(["ip", "route", "add", "local", "10.1.0.0/16", "dev", "lo"])
        server.run(["ip", "route", "add", "10.1.0.0/16", "via", CLIENT])
        listener = server.call(lambda: socket.create_server((SERVER, 0), backlog=64))
        argv = ["ip", "netns", "exec", client.name, sys.executable, "-c", CLIENTS]
        argv += [*map(str, listener.getsockname()), str(number)]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as clients:
            sockets = [listener.accept()[0] for _ in range(number)]
            listener.close()
            assert clients.stdin is not None and clients.stdout is not None
            commands, answers = clients.stdin, clients.stdout

            def send() -> None:
                print(file=commands, flush=True)
                assert answers.readline() == "sent\n"

            yield server, number, send
            commands.close()
    finally:
        for one in sockets:
            one.close()
        client.remove()
        server.remove()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def receive_all(kernel: dump.SocketDump) -> None:
    """The two dumps of a reading, with as much work as it takes to find their ends."""

    def is_last(data: bytes, sequence: int) -> bool:
        return (
            netlink.HEADER.unpack_from(data)[1] == netlink.NLMSG_DONE
            or data[-20:-14] == b"\x14\0\0\0\x03\0"
        )

    for family in dump.FAMILIES:
        kernel.read(
            family, socket.IPPROTO_TCP, sock_diag.INET_DIAG_INFO, sock_diag.STATE_MASK, is_last
        )


def cpu_of_children(call: Callable[[], object]) -> float:
    """CPU seconds of the processes that a call starts and waits for."""
    before = os.times()
    call()
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
