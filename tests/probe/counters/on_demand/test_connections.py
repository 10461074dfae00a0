"""Connections: real sockets in namespaces joined by veth, against the kernel's own counters;
kernels with less."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.links import LinkCounterReader
from nictop.probe.counters.on_demand.connections import owners, paths, tcp, udp
from nictop.probe.counters.on_demand.connections.dump import (
    BODY_BYTES,
    IDENTITY,
    QUEUES,
    Message,
    without_loopback,
)
from nictop.probe.counters.on_demand.connections.owners import SocketOwners, parse_cgroup
from nictop.probe.counters.on_demand.connections.paths import (
    BOTH,
    PATH,
    RX,
    TX,
    Paths,
    has_wire,
    parse_local_address,
)
from nictop.probe.counters.on_demand.connections.reader import ConnectionReader
from nictop.probe.counters.on_demand.connections.tcp import TcpReader, TcpReading
from nictop.probe.counters.on_demand.connections.udp import parse_drops
from nictop.probe.kernel import netlink
from nictop.probe.records import Connection, Connections
from nictop.probe.traffic import sock_diag
from nictop.wire.codec import decode
from tests.support.namespaces import Namespace, join_by_veth
from tests.support.probe import Probe

CLIENT, SERVER = "192.0.2.1", "192.0.2.2"
CLIENT6, SERVER6 = "2001:db8::1", "2001:db8::2"


def decoded(fields: dict[str, Any]) -> Connections:
    """As nictop receives it."""
    found = decode(json.dumps({"connections": fields}).encode()).connections
    assert found is not None
    return found


@dataclass
class Pair:
    """A client and a server joined by the veth link x0; sockets are closed at the end."""

    client: Namespace
    server: Namespace
    sockets: list[socket.socket] = field(default_factory=list)

    def connection(
        self, family: int = socket.AF_INET, server: str = SERVER
    ) -> tuple[socket.socket, socket.socket]:
        """A TCP connection: (of the client, of the server)."""
        listener = self.server.call(lambda: socket.create_server((server, 0), family=family))
        one = self.client.call(
            lambda: socket.create_connection(listener.getsockname()[:2], timeout=10)
        )
        other, _ = listener.accept()
        listener.close()
        self.sockets += [one, other]
        return one, other

    def udp(self, side: Namespace, address: str = "") -> socket.socket:
        """A UDP socket, bound to a free port."""
        made = side.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.sockets.append(made)
        made.bind((address, 0))
        return made

    def ifindex(self, side: Namespace, name: str = "x0") -> int:
        return side.call(lambda: socket.if_nametoindex(name))


@pytest.fixture
def pair(namespace: Namespace, other: Namespace) -> Iterator[Pair]:
    client, server = namespace, other
    join_by_veth(client, server, "x0")
    for side, four, six in ((client, CLIENT, CLIENT6), (server, SERVER, SERVER6)):
        side.run(["ip", "address", "add", f"{four}/24", "dev", "x0"])
        side.run(["ip", "address", "add", f"{six}/64", "dev", "x0", "nodad"])
    made = Pair(client, server)
    yield made
    for one in made.sockets:
        one.close()


class Watched:
    """The connections of some links of one side, as the probe there reads them."""

    def __init__(self, side: Namespace, *links: int) -> None:
        self.side = side
        self.reader = ConnectionReader(links)
        self.links = side.call(LinkCounterReader)

    def read(self) -> Connections:
        return decoded(self.side.call(lambda: self.reader.read(self.links.read())))

    def close(self) -> None:
        self.reader.close()
        self.links.close()


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def begin(side: Namespace, *links: int) -> Watched:
        made.append(Watched(side, *links))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def transfer(sender: socket.socket, receiver: socket.socket, size: int) -> None:
    """Send bytes and wait until the peer has read, and the kernel of the sender has got, all
    acknowledgements."""
    data = bytes(size)
    thread = threading.Thread(target=sender.sendall, args=(data,))
    thread.start()
    remaining = size
    while remaining:
        remaining -= len(receiver.recv(min(remaining, 1 << 20)))
    thread.join()
    receiver.sendall(b"!")  # carries the last acknowledgement
    assert sender.recv(1) == b"!"


def only(found: Connections, one: socket.socket) -> Connection:
    (row,) = (row for row in found.connections if row.inode == os.fstat(one.fileno()).st_ino)
    return row


# -------------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, SERVER), (socket.AF_INET6, SERVER6)]
)
def test_bytes_are_those_that_were_sent(
    pair: Pair, watch: Callable[..., Watched], family: int, address: str
) -> None:
    one, other = pair.connection(family, address)
    client, server = (watch(side, pair.ifindex(side)) for side in (pair.client, pair.server))
    first = client.read()
    assert first.seconds is None and first.sent is None and only(first, one).sent is None
    server.read()
    transfer(one, other, 5_000_000)
    sent, received = client.read(), server.read()
    row = only(sent, one)
    assert (row.sent, row.received, row.direction, row.state) == (
        5_000_000,
        1,
        "both",
        "established",
    )
    assert (row.local, row.local_port, row.remote, row.remote_port) == (
        *one.getsockname()[:2],
        *one.getpeername()[:2],
    )
    assert only(received, other).received == 5_000_000
    assert (sent.sent, received.received, sent.tcp) == (5_000_000, 5_000_000, 1)
    assert sent.seconds is not None and sent.seconds > 0
    # the NIC counts headers too: of the segments as they are handed to the link, and of the
    # acknowledgements
    assert sent.link_sent is not None and received.link_received is not None
    assert 5_000_000 < sent.link_sent < 5_500_000
    assert 5_000_000 < received.link_received < 5_500_000
    assert row.rtt and row.minimum_rtt and row.congestion_window and row.send_mss
    assert row.busy_time is not None and row.busy_time <= sent.seconds * 1e6


def test_numbers_are_those_of_ss(pair: Pair, watch: Callable[..., Watched]) -> None:
    one, other = pair.connection()
    transfer(one, other, 300_000)
    row = only(watch(pair.client, pair.ifindex(pair.client)).read(), one)
    line = pair.client.run(["ss", "-tinOH", "state", "established"])
    found = dict(word.split(":", 1) for word in line.split() if word.count(":") == 1)
    assert (found["bytes_acked"], found["bytes_received"]) == (
        str(row.bytes_acked),
        str(row.bytes_received),
    )
    assert (found["cwnd"], found["mss"]) == (str(row.congestion_window), str(row.send_mss))
    assert row.rtt is not None and found["rtt"].split("/")[0] == f"{row.rtt / 1000:g}"


def test_new_and_ended_connections(pair: Pair, watch: Callable[..., Watched]) -> None:
    client = watch(pair.client, pair.ifindex(pair.client))
    assert client.read().tcp == 0
    one, other = pair.connection()
    transfer(one, other, 10_000)
    found = client.read()
    assert (found.tcp, found.ended, only(found, one).sent, found.sent) == (
        1,
        0,
        10_001,
        10_001,
    )  # the SYN counts too
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()  # at once, by RST
    found = client.read()
    assert (found.tcp, found.ended, found.connections) == (0, 1, ())


def test_the_busiest_are_listed_first_and_all_are_counted(
    pair: Pair, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = [pair.connection() for _ in range(5)]
    client = watch(pair.client, pair.ifindex(pair.client))
    client.read()
    for number, (one, other) in enumerate(connections):
        transfer(one, other, 1000 * number + 1)
    monkeypatch.setattr(tcp, "MAX_ROWS", 3)
    found = client.read()
    assert [row.sent for row in found.connections] == [4001, 3001, 2001]
    assert (found.tcp, found.sent) == (5, 10_005)
    found = client.read()
    assert [row.sent for row in found.connections] == [0, 0, 0]


def test_what_limits_a_sender(pair: Pair, watch: Callable[..., Watched]) -> None:
    """A peer that does not read fills its receive window."""
    one, other = pair.connection()
    client = watch(pair.client, pair.ifindex(pair.client))
    client.read()
    one.setblocking(False)
    size = 1 << 16
    while select.select([], [one], [], 0.2)[1]:
        one.send(bytes(size))
    row = only(client.read(), one)
    assert row.busy_time is not None and row.window_limited is not None and row.send_queue
    assert row.window_limited > 0.5 * row.busy_time
    waiting = only(watch(pair.server, pair.ifindex(pair.server)).read(), other)
    assert waiting.receive_queue and waiting.bytes_received == waiting.receive_queue


# ---------------------------------------------------------------------------------------------- UDP


def test_udp_sockets_have_queue_and_drops_but_no_rate(
    pair: Pair, watch: Callable[..., Watched]
) -> None:
    bound, anywhere = pair.udp(pair.server, SERVER), pair.udp(pair.server)
    loopback = pair.udp(pair.server, "127.0.0.1")
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    server = watch(pair.server, pair.ifindex(pair.server))
    assert server.read().udp == 2
    client = pair.udp(pair.client)
    for _ in range(50):
        client.sendto(bytes(1000), bound.getsockname())
    found = server.read()
    assert [row.inode for row in found.connections] == [
        os.fstat(one.fileno()).st_ino for one in (bound, anywhere)
    ]
    row = only(found, bound)
    assert row.protocol == "udp" and row.receive_queue and row.drops and row.dropped == row.drops
    assert (row.sent, row.received, row.remote, row.state) == (None, None, "", "close")
    assert only(found, anywhere).local == "0.0.0.0"
    assert server.read().connections[0].dropped == 0
    assert loopback.fileno() not in {row.inode for row in found.connections}


def test_a_connected_udp_socket_uses_the_link_of_its_route(
    pair: Pair, watch: Callable[..., Watched]
) -> None:
    join_by_veth(pair.client, pair.server, "x1")
    pair.client.run(["ip", "address", "add", "198.51.100.1/24", "dev", "x1"])
    one = pair.udp(pair.client)
    one.connect((SERVER, 53))
    row = only(watch(pair.client, pair.ifindex(pair.client)).read(), one)
    assert (row.state, row.local, row.remote, row.remote_port) == (
        "established",
        CLIENT,
        SERVER,
        53,
    )
    assert watch(pair.client, pair.ifindex(pair.client, "x1")).read().udp == 0


# --------------------------------------------------------------------------------------- which link


def test_connections_within_the_host_are_left_out(
    pair: Pair, watch: Callable[..., Watched]
) -> None:
    """By a loopback address, by an address of the link, and as IPv4-mapped ones."""
    for family, address in (
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, CLIENT),
        (socket.AF_INET6, "::1"),
    ):
        own = Pair(pair.client, pair.client, pair.sockets)
        own.connection(family, address)
    dual = pair.client.call(
        lambda: socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    )
    for address in ("127.0.0.1", CLIENT):
        target = (address, dual.getsockname()[1])
        pair.sockets += [
            pair.client.call(partial(socket.create_connection, target)),
            dual.accept()[0],
        ]
    pair.sockets.append(dual)
    found = watch(pair.client, pair.ifindex(pair.client)).read()
    assert (found.tcp, found.connections, found.unreadable) == (0, (), {})


def test_an_ipv4_mapped_connection(pair: Pair, watch: Callable[..., Watched]) -> None:
    listener = pair.server.call(
        lambda: socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    )
    one = pair.client.call(lambda: socket.create_connection((SERVER, listener.getsockname()[1])))
    other = listener.accept()[0]
    pair.sockets += [listener, one, other]
    server = watch(pair.server, pair.ifindex(pair.server))
    server.read()
    transfer(one, other, 1000)
    row = only(server.read(), other)
    assert (row.local, row.remote, row.received, row.output) == (
        SERVER,
        CLIENT,
        1000,
        pair.ifindex(pair.server),
    )


def test_a_link_local_connection_has_its_zone(pair: Pair, watch: Callable[..., Watched]) -> None:
    for side, address in ((pair.client, "fe80::1"), (pair.server, "fe80::2")):
        side.run(["ip", "address", "add", f"{address}/64", "dev", "x0", "nodad"])
    ifindex = pair.ifindex(pair.server)
    listener = pair.server.call(lambda: socket.socket(socket.AF_INET6))
    pair.server.call(lambda: listener.bind(("fe80::2", 0, 0, ifindex)))
    listener.listen()
    zone = pair.ifindex(pair.client)
    target = ("fe80::2", listener.getsockname()[1], 0, zone)
    one = pair.client.call(lambda: socket.socket(socket.AF_INET6))
    pair.client.call(lambda: one.connect(target))
    pair.sockets += [listener, one, listener.accept()[0]]
    row = only(watch(pair.client, zone).read(), one)
    assert (row.remote, row.device, row.direction) == ("fe80::2", zone, "both")


def test_an_address_of_another_link_and_the_route(
    pair: Pair, watch: Callable[..., Watched]
) -> None:
    """The address of a second link, the route through the first: it sends here and receives there.
    An address of a link without a wire counts for the link of the route."""
    join_by_veth(pair.client, pair.server, "x1")
    pair.client.run(["ip", "address", "add", "198.51.100.1/24", "dev", "x1"])
    pair.client.run(["ip", "address", "add", "203.0.113.1/32", "dev", "lo"])
    for target in ("198.51.100.1", "203.0.113.1"):
        pair.server.run(["ip", "route", "add", f"{target}/32", "via", CLIENT, "dev", "x0"])
    made = {}
    for source in ("198.51.100.1", "203.0.113.1"):
        listener = pair.server.call(lambda: socket.create_server((SERVER, 0)))
        target = listener.getsockname()
        one = pair.client.call(
            partial(socket.create_connection, target, source_address=(source, 0))
        )
        made[source] = one
        pair.sockets += [listener, one, listener.accept()[0]]
    x0, x1 = (pair.ifindex(pair.client, name) for name in ("x0", "x1"))
    found = watch(pair.client, x0)
    found.read()
    for one in made.values():
        one.sendall(b"x" * 1000)
    here = found.read()
    row = only(here, made["198.51.100.1"])
    assert (row.direction, row.output) == ("tx", x0)
    assert only(here, made["203.0.113.1"]).direction == "both"
    assert only(watch(pair.client, x1).read(), made["198.51.100.1"]).direction == "rx"
    assert watch(pair.client, x1, x0).read().tcp == 2


def test_a_bound_device(pair: Pair, watch: Callable[..., Watched]) -> None:
    join_by_veth(pair.client, pair.server, "x1")
    one = pair.udp(pair.client)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"x1")
    assert watch(pair.client, pair.ifindex(pair.client, "x0")).read().udp == 0
    row = only(watch(pair.client, pair.ifindex(pair.client, "x1")).read(), one)
    assert row.device == pair.ifindex(pair.client, "x1")


def test_routes_are_looked_up_a_limited_number_at_a_time(
    pair: Pair, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the local address decides."""
    monkeypatch.setattr(paths, "LOOKUPS_PER_READING", 1)
    for address in ("192.0.2.3", "192.0.2.4"):
        pair.server.run(["ip", "address", "add", f"{address}/24", "dev", "x0"])
    for address in (SERVER, "192.0.2.3", "192.0.2.4"):
        one, other = pair.connection(server=address)
        transfer(one, other, 100)
    client = watch(pair.client, pair.ifindex(pair.client))
    found = client.read()
    assert found.tcp == 3
    assert sorted(row.output is None for row in found.connections) == [False, True, True]


def test_new_addresses_are_noticed(pair: Pair, watch: Callable[..., Watched]) -> None:
    pair.connection()
    client = watch(pair.client, pair.ifindex(pair.client))
    assert client.read().tcp == 1
    pair.client.run(["ip", "address", "del", f"{CLIENT}/24", "dev", "x0"])
    pair.client.run(["ip", "address", "add", f"{CLIENT}/24", "dev", "lo"])
    pair.client.run(["ip", "route", "add", SERVER, "dev", "lo"])
    transferred = client.read()
    assert transferred.tcp == 0, transferred


def test_links_without_a_wire(namespace: Namespace) -> None:
    namespace.run(["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
    assert namespace.call(
        lambda: [has_wire(socket.if_nametoindex(name)) for name in ("lo", "v0")]
    ) == [False, True]
    if namespace.try_link("d0", "type", "dummy"):
        assert namespace.call(lambda: has_wire(socket.if_nametoindex("d0"))) is False
    assert namespace.call(lambda: has_wire(4711)) is True


# ---------------------------------------------------------------------------------------- processes


def test_the_process_of_a_connection(
    pair: Pair, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of this test; closed ones have none, those of the kernel neither."""
    one, other = pair.connection()
    found = watch(pair.client, pair.ifindex(pair.client)).read()
    row = only(found, one)
    comm = Path("/proc/self/comm").read_text().strip()
    assert (row.pid, row.process, row.uid) == (os.getpid(), comm, 0)
    assert row.cgroup == (parse_cgroup(Path("/proc/self/cgroup").read_text()) or None)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    monkeypatch.setattr(owners, "SLICE_SECONDS", 60.0)
    server = watch(pair.server, pair.ifindex(pair.server))
    other.sendall(b"x")
    other.close()  # the client has not closed it yet
    (row,) = server.read().connections
    assert (row.inode, row.process) == (0, None) and row.state.startswith("fin-wait-")


def test_processes_of_a_plain_user(pair: Pair) -> None:
    """Without root: connections and rates are there, the processes of others are not, and that is
    said."""
    pair.connection()
    code = """
import json, os, socket
from nictop.probe.counters.on_demand.connections.reader import ConnectionReader
os.setgroups([]); os.setgid(65534); os.setuid(65534)
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("192.0.2.1", 0))
reader = ConnectionReader([socket.if_nametoindex("x0")])
for _ in range(200):
    found = reader.read({})
    if found["owners"] != "pending":
        break
print(json.dumps(found))
"""
    found = decoded(json.loads(pair.client.python(code)))
    tcp_row, udp_row = found.connections
    assert (found.owners, found.unreadable["process"].reason) == ("partial", "needs_root")
    assert (tcp_row.process, tcp_row.remote, tcp_row.uid) == (None, SERVER, 0)
    assert udp_row.process is not None and udp_row.uid == 65534


def fake_process(proc: Path, pid: int, inodes: list[int], cgroup: str = "0::/") -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"program-{pid}\n")
    (folder / "cgroup").write_text(f"{cgroup}\n")
    for number, inode in enumerate(inodes):
        (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


def test_the_search_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step per call; a socket that no process has is searched for once."""
    monkeypatch.setattr(owners, "SLICE_SECONDS", 0.0)
    for pid in range(1, 6):
        fake_process(tmp_path, pid, [100 + pid])
    found = SocketOwners(str(tmp_path), str(tmp_path / "none"))
    wanted = [(105, 0), (104, 0), (7, 0), (0, 0)]
    calls = 0
    while not found.find(wanted, 0.0)[1]:
        calls += 1
    assert 3 <= calls <= 8
    by_inode, is_complete = found.find(wanted, 0.0)
    assert is_complete and not found.denied
    assert by_inode == {
        105: {"pid": 5, "process": "program-5", "cgroup": "/"},
        104: {"pid": 4, "process": "program-4", "cgroup": "/"},
        7: {},
    }
    (tmp_path / "5" / "fd" / "0").unlink()  # it was closed
    fake_process(tmp_path, 6, [105])
    while not found.find(wanted, 0.0)[1]:
        pass
    assert found.find(wanted, 0.0)[0][105]["pid"] == 6


def test_processes_of_the_control_group_are_searched_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "SLICE_SECONDS", 0.0)
    for pid in range(1, 30):
        fake_process(tmp_path / "proc", pid, [100 + pid])
    group = tmp_path / "cgroups" / "system.slice" / "nginx.service"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("29\n")
    found = SocketOwners(str(tmp_path / "proc"), str(tmp_path / "cgroups"))
    by_inode, _ = found.find([(129, group.stat().st_ino)], 0.0)
    assert by_inode[129]["pid"] == 29
    by_inode, _ = found.find([(1, group.stat().st_ino)], 0.0)
    assert by_inode[1] == {"cgroup": "/system.slice/nginx.service"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/system.slice/a.service\n", "/system.slice/a.service"),
        (
            "12:cpu,cpuacct:/x\n1:name=systemd:/system.slice/b.service\n0::/\n",
            "/system.slice/b.service",
        ),
        ("4:memory:/docker/1\n1:name=systemd:/docker/1\n", "/docker/1"),
        ("0::/\n", "/"),
        ("", ""),
        ("garbage", ""),
    ],
)
def test_control_group_of_a_process(text: str, path: str) -> None:
    assert parse_cgroup(text) == path


# ----------------------------------------------------------------------------- kernels and failures


def message(cookie: int, info: bytes | None, *, before: bytes = b"", sequence: int = 7) -> bytes:
    """One message of a dump: an IPv4 connection from 192.0.2.1 with this struct tcp_info."""
    identity = IDENTITY.pack(
        socket.AF_INET, 1, socket.htons(443), socket.htons(5000),
        socket.inet_aton(CLIENT) + bytes(12), socket.inet_aton(SERVER) + bytes(12), 0, cookie,
    )  # fmt: skip
    body = identity.ljust(BODY_BYTES - QUEUES.size, b"\0") + QUEUES.pack(0, 0, 0, 4711) + before
    if info is not None:
        body += netlink.pack_attribute(sock_diag.INET_DIAG_INFO, info)
    return netlink.HEADER.pack(16 + len(body), sock_diag.SOCK_DIAG_BY_FAMILY, 2, sequence, 0) + body


DONE = netlink.HEADER.pack(20, netlink.NLMSG_DONE, 2, 7, 0) + bytes(4)


def tcp_info(
    size: int, acked: int = 0, received: int = 0, retransmits: int = 0, busy: int = 0
) -> bytes:
    """struct tcp_info as long as an older kernel has it."""
    info = bytearray(280)
    struct.pack_into("=I", info, 100, retransmits)
    struct.pack_into("=QQ", info, 120, acked, received)
    struct.pack_into("=QQQ", info, 168, busy, busy // 2, 0)
    return bytes(info[:size])


class ScriptedDump:
    """Replies for each reading: the datagrams of IPv4; IPv6 is empty."""

    def __init__(self, *readings: bytes | OSError) -> None:
        self._readings = iter(readings)

    def read(
        self,
        family: int,
        protocol: int,
        extension: int,
        states: int,
        use: Callable[[bytes, int], bool],
    ) -> None:
        reply = DONE if family == socket.AF_INET6 else next(self._readings)
        if isinstance(reply, OSError):
            raise reply
        assert use(reply, 7)


def scripted_reader(*readings: bytes | OSError) -> TcpReader:
    where = Paths([2])
    where._holders = {socket.inet_aton(CLIENT) + bytes(12): frozenset([2])}
    where.look_up = lambda paths, now: None  # type: ignore[method-assign]
    return TcpReader(ScriptedDump(*readings), where)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "known"),
    [
        (92, set()),  # shorter than any kernel has it
        (104, {"retransmitted"}),  # Linux 2.6 to 4.0
        (136, {"retransmitted", "sent", "received"}),  # 4.1
        (160, {"retransmitted", "sent", "received"}),  # 4.6
        (
            192,
            {"retransmitted", "sent", "received", "busy_time", "window_limited", "buffer_limited"},
        ),  # 4.10
        (
            280,
            {"retransmitted", "sent", "received", "busy_time", "window_limited", "buffer_limited"},
        ),
    ],
)
def test_what_an_older_kernel_does_not_count_is_unknown(size: int, known: set[str]) -> None:
    reader = scripted_reader(
        message(1, tcp_info(size, 100, 10, 1, 1000)) + DONE,
        message(1, tcp_info(size, 400, 20, 3, 5000)) + DONE,
    )
    reader.read({}, 1.0)
    result: dict[str, Any] = {}
    (row,) = reader.read(result, 2.0)
    values = {
        "retransmitted": 2, "sent": 300, "received": 10, "busy_time": 4000, "window_limited": 2000,
        "buffer_limited": 0,
    }  # fmt: skip
    assert {name: row[name] for name in values if name in row} == {
        name: values[name] for name in known
    }
    assert result.get("sent") == (300 if "sent" in known else None)
    assert ("bytes_acked" in row) == ("sent" in known)


def test_attributes_at_other_places() -> None:
    """Messages of the same length in which tcp_info is elsewhere, or missing."""
    mark, info = netlink.pack_attribute(15, bytes(4)), tcp_info(280, 5, 6)
    other = netlink.pack_attribute(99, bytes(280)) + mark
    reader = scripted_reader(
        message(1, info, before=mark) + message(2, info) + message(3, None, before=other)
        + message(4, info, before=mark) + DONE
    )  # fmt: skip
    rows = reader.read({}, 1.0)
    assert {row["cookie"]: row.get("bytes_acked") for row in rows} == {1: 5, 2: 5, 3: None, 4: 5}


def test_after_a_failure_rates_begin_anew() -> None:
    data = [message(1, tcp_info(280, acked)) + DONE for acked in (100, 300, 900)]
    reader = scripted_reader(data[0], OSError(errno.ETIMEDOUT, "no reply"), data[1], data[2])
    reader.read({}, 1.0)
    with pytest.raises(OSError, match="no reply"):
        reader.read({}, 2.0)
    assert "sent" not in reader.read({}, 3.0)[0]
    assert reader.read({}, 4.0)[0]["sent"] == 600


def test_an_error_of_the_kernel_is_data(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ConnectionReader([1])
    monkeypatch.setattr(sock_diag, "SOCK_DIAG_BY_FAMILY", 99)
    found = decoded(namespace.call(lambda: reader.read({})))
    reader.close()
    assert (
        found.unreadable["tcp"].reason == "not_offered"
        and found.unreadable["udp"].reason == "not_offered"
    )
    assert (found.tcp, found.seconds, found.connections) == (0, None, ())


@given(
    st.lists(st.tuples(st.binary(max_size=400), st.integers(0, 3)), max_size=6), st.integers(0, 3)
)
def test_arbitrary_dumps(parts: list[tuple[bytes, int]], cut: int) -> None:
    """Garbled messages, attributes and lengths: fewer connections, no exception but a documented
    one."""
    data = b"".join(
        netlink.HEADER.pack(16 + len(body) + wrong, sock_diag.SOCK_DIAG_BY_FAMILY, 2, 7, 0)
        + body.ljust(BODY_BYTES, b"\1")
        for body, wrong in parts
    )
    reader = scripted_reader(message(1, tcp_info(280, 9)) + data[: len(data) - cut] + DONE)
    for family in (socket.AF_INET, socket.AF_INET6):
        reading = TcpReading({})
        reader._walk(reading, family, data, 7)
        for one in reading.active + reading.idle + reading.undecided:
            reader._row(one, reading)
        udp._collect([], family, data, 7)


@given(st.binary(max_size=120))
def test_arbitrary_addresses_and_drops(data: bytes) -> None:
    found = parse_local_address(data)
    assert found is None or all(len(form) == 16 for form in found[1])
    assert (parse_drops(data) is None) == (len(data) < 36)


def test_records_have_the_fields_of_the_rows(pair: Pair, watch: Callable[..., Watched]) -> None:
    """The probe does not import the records, and unknown fields would be ignored."""
    one, other = pair.connection()
    pair.udp(pair.client).connect((SERVER, 53))
    client = watch(pair.client, pair.ifindex(pair.client))
    client.read()
    transfer(one, other, 10)
    fields = pair.client.call(lambda: client.reader.read(client.links.read()))
    assert fields.keys() <= {field.name for field in dataclasses.fields(Connections)}
    known = {field.name for field in dataclasses.fields(Connection)}
    for row in fields["connections"]:
        assert row.keys() <= known


def test_the_filter_of_the_kernel_leaves_out_loopback_only(namespace: Namespace) -> None:
    """As many sockets are in the dump as ss lists without loopback."""
    for family in (socket.AF_INET, socket.AF_INET6):
        assert len(without_loopback(family)) % 4 == 0
    listeners = [
        namespace.call(partial(socket.create_server, (address, 0), family=family))
        for family, address in ((socket.AF_INET, "127.0.0.9"), (socket.AF_INET6, "::1"))
    ]
    ends = [
        namespace.call(partial(socket.create_connection, one.getsockname()[:2]))
        for one in listeners
    ]
    ends += [one.accept()[0] for one in listeners]
    seen: list[Message] = []
    reader = ConnectionReader([1])
    reader._tcp._walk = lambda reading, family, data, sequence: udp._collect(  # type: ignore[method-assign]
        seen, family, data, sequence
    )
    namespace.call(lambda: reader.read({}))
    reader.close()
    assert seen == []
    for one in (*listeners, *ends):
        one.close()


def test_paths_are_decided_by_device_route_and_address() -> None:
    where = Paths([2])
    local, remote = socket.inet_aton(CLIENT) + bytes(12), socket.inet_aton(SERVER) + bytes(12)
    where._holders = {local: frozenset([2]), remote[:3] + b"\x09" + bytes(12): frozenset([3])}

    def direction(
        source: bytes, destination: bytes, device: int = 0, output: int | None = None
    ) -> int:
        path = PATH.pack(source, destination, device)
        where.directions[socket.AF_INET].clear()
        where._routes = {(socket.AF_INET, path): (output, 0.0)} if output is not None else {}
        return where.direction(socket.AF_INET, path)

    elsewhere, unknown = remote[:3] + b"\x09" + bytes(12), bytes([203, 0, 113, 1]) + bytes(12)
    assert direction(local, remote) == BOTH
    assert direction(local, elsewhere) == 0  # an address of this host
    assert direction(elsewhere, remote) == 0
    assert direction(local, remote, output=3) == RX
    assert direction(elsewhere, remote, output=2) == TX
    assert direction(unknown, remote) == paths.UNDECIDED
    assert direction(unknown, remote, output=2) == BOTH
    assert direction(unknown, remote, output=0) == 0  # no route
    assert direction(elsewhere, remote, device=2) == BOTH
    assert direction(local, remote, device=3, output=3) == 0
    assert direction(local, remote, device=9, output=2) == BOTH  # a VRF


# ------------------------------------------------------------------------------------- in the probe


def test_the_probe_reads_them_only_while_they_are_requested(pair: Pair) -> None:
    """The first rates follow within a second, also if counters are read less often."""
    one, _ = pair.connection()
    ifindex = pair.ifindex(pair.client)
    with Probe("--interval", "5", namespace=pair.client) as probe:
        probe.wait_for(lambda line: line.inventory is not None)
        probe.send({"connections": [ifindex]})
        first = probe.wait_for(lambda line: line.connections is not None).connections
        second = probe.wait_for(lambda line: line.connections is not None).connections
        assert first is not None and second is not None
        assert first.seconds is None and second.seconds is not None and second.seconds < 4
        assert only(second, one).remote == SERVER and second.link_sent is not None
        probe.send({"connections": [], "interval": 0.1, "ping": 1})
        probe.wait_for(lambda line: line.pong is not None)
        for _ in range(5):
            assert (
                probe.wait_for(lambda line: line.counters or line.connections).connections is None
            )


def test_readings_take_a_limited_share_of_the_cpu(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ConnectionReader([pair.ifindex(pair.client)])
    clock = iter((0.0, 0.2))
    monkeypatch.setattr(
        "nictop.probe.counters.on_demand.connections.reader.time.process_time",
        lambda: next(clock, 0.2),
    )
    found = pair.client.call(lambda: reader.read({}))
    reader.close()
    assert found["took"] == 0.2 and reader.due - found["time"] == pytest.approx(4.0)


def test_show_connections(pair: Pair) -> None:
    """The command, in text and JSON, of the busiest NIC and of a named one."""
    one, other = pair.connection()
    stop = threading.Event()

    def send() -> None:
        while not stop.wait(0.05):
            one.sendall(bytes(10_000))
            other.recv(10_000)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        show = [sys.executable, "-m", "nictop", "--interval", "0.3", "show", "--connections"]
        text = pair.client.run(show)
        document = json.loads(pair.client.run([*show, "--nic", "x0", "--format", "json"]))
        failed = subprocess.run(
            ["ip", "netns", "exec", pair.client.name, *show, "--nic", "x7"],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        stop.set()
        thread.join()
    assert f"{SERVER}:{one.getpeername()[1]}" in text and "other: headers" in text
    (host,) = document["hosts"]
    (row,) = host["connections"]["rows"]
    assert (
        host["connections"]["nic"] == "x0"
        and row["tx_bits"] > 0
        and row["connection"]["pid"] == os.getpid()
    )
    assert 0 < host["connections"]["share"] <= 1
    assert failed.returncode == 2 and "no interface x7: lo, x0" in failed.stderr
