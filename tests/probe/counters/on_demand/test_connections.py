"""Connections: real sockets in namespaces joined by veth, against the kernel's own counters; kernels with less."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from nictop.probe.counters.links import LinkCounterReader
from nictop.probe.counters.on_demand.connections import paths, tcp
from nictop.probe.counters.on_demand.connections.paths import has_wire
from nictop.probe.counters.on_demand.connections.reader import ConnectionReader
from nictop.probe.records import Connection, Connections
from nictop.wire.codec import decode
from tests.support.namespaces import Namespace, join_by_veth

T = TypeVar("T")

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

    def connection(self, family: int = socket.AF_INET, server: str = SERVER) -> tuple[socket.socket, socket.socket]:
        """A TCP connection: (of the client, of the server)."""
        listener = self.server.call(lambda: socket.create_server((server, 0), family=family))
        one = self.client.call(lambda: socket.create_connection(listener.getsockname()[:2], timeout=10))
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
    """Send bytes and wait until the peer has read, and the kernel of the sender has got, all acknowledgements."""
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


# ------------------------------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, SERVER), (socket.AF_INET6, SERVER6)])
def test_bytes_are_those_that_were_sent(pair: Pair, watch: Callable[..., Watched], family: int, address: str) -> None:
    one, other = pair.connection(family, address)
    client, server = (watch(side, pair.ifindex(side)) for side in (pair.client, pair.server))
    first = client.read()
    assert first.seconds is None and first.sent is None and only(first, one).sent is None
    server.read()
    transfer(one, other, 5_000_000)
    sent, received = client.read(), server.read()
    row = only(sent, one)
    assert (row.sent, row.received, row.direction, row.state) == (5_000_000, 1, "both", "established")
    assert (row.local, row.local_port, row.remote, row.remote_port) == (*one.getsockname()[:2], *one.getpeername()[:2])
    assert only(received, other).received == 5_000_000
    assert (sent.sent, received.received, sent.tcp) == (5_000_000, 5_000_000, 1)
    assert sent.seconds is not None and sent.seconds > 0
    # the NIC counts headers too: of the segments as they are handed to the link, and of the acknowledgements
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
    assert (found["bytes_acked"], found["bytes_received"]) == (str(row.bytes_acked), str(row.bytes_received))
    assert (found["cwnd"], found["mss"]) == (str(row.congestion_window), str(row.send_mss))
    assert row.rtt is not None and found["rtt"].split("/")[0] == f"{row.rtt / 1000:g}"


def test_new_and_ended_connections(pair: Pair, watch: Callable[..., Watched]) -> None:
    client = watch(pair.client, pair.ifindex(pair.client))
    assert client.read().tcp == 0
    one, other = pair.connection()
    transfer(one, other, 10_000)
    found = client.read()
    assert (found.tcp, found.ended, only(found, one).sent, found.sent) == (1, 0, 10_001, 10_001)  # the SYN counts too
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


# -------------------------------------------------------------------------------------------------------------- UDP


def test_udp_sockets_have_queue_and_drops_but_no_rate(pair: Pair, watch: Callable[..., Watched]) -> None:
    bound, anywhere = pair.udp(pair.server, SERVER), pair.udp(pair.server)
    loopback = pair.udp(pair.server, "127.0.0.1")
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    server = watch(pair.server, pair.ifindex(pair.server))
    assert server.read().udp == 2
    client = pair.udp(pair.client)
    for _ in range(50):
        client.sendto(bytes(1000), bound.getsockname())
    found = server.read()
    assert [row.inode for row in found.connections] == [os.fstat(one.fileno()).st_ino for one in (bound, anywhere)]
    row = only(found, bound)
    assert row.protocol == "udp" and row.receive_queue and row.drops and row.dropped == row.drops
    assert (row.sent, row.received, row.remote, row.state) == (None, None, "", "close")
    assert only(found, anywhere).local == "0.0.0.0"
    assert server.read().connections[0].dropped == 0
    assert loopback.fileno() not in {row.inode for row in found.connections}


def test_a_connected_udp_socket_uses_the_link_of_its_route(pair: Pair, watch: Callable[..., Watched]) -> None:
    join_by_veth(pair.client, pair.server, "x1")
    pair.client.run(["ip", "address", "add", "198.51.100.1/24", "dev", "x1"])
    one = pair.udp(pair.client)
    one.connect((SERVER, 53))
    row = only(watch(pair.client, pair.ifindex(pair.client)).read(), one)
    assert (row.state, row.local, row.remote, row.remote_port) == ("established", CLIENT, SERVER, 53)
    assert watch(pair.client, pair.ifindex(pair.client, "x1")).read().udp == 0


# ------------------------------------------------------------------------------------------------------ which link


def test_connections_within_the_host_are_left_out(pair: Pair, watch: Callable[..., Watched]) -> None:
    """By a loopback address, by an address of the link, and as IPv4-mapped ones."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, CLIENT), (socket.AF_INET6, "::1")):
        own = Pair(pair.client, pair.client, pair.sockets)
        own.connection(family, address)
    dual = pair.client.call(lambda: socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
    for address in ("127.0.0.1", CLIENT):
        target = (address, dual.getsockname()[1])
        pair.sockets += [pair.client.call(lambda target=target: socket.create_connection(target)), dual.accept()[0]]
    pair.sockets.append(dual)
    found = watch(pair.client, pair.ifindex(pair.client)).read()
    assert (found.tcp, found.connections, found.unreadable) == (0, (), {})


def test_an_ipv4_mapped_connection(pair: Pair, watch: Callable[..., Watched]) -> None:
    listener = pair.server.call(lambda: socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
    one = pair.client.call(lambda: socket.create_connection((SERVER, listener.getsockname()[1])))
    other = listener.accept()[0]
    pair.sockets += [listener, one, other]
    server = watch(pair.server, pair.ifindex(pair.server))
    server.read()
    transfer(one, other, 1000)
    row = only(server.read(), other)
    assert (row.local, row.remote, row.received, row.output) == (SERVER, CLIENT, 1000, pair.ifindex(pair.server))


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


def test_an_address_of_another_link_and_the_route(pair: Pair, watch: Callable[..., Watched]) -> None:
    """The address of a second link, the route through the first: it sends here and receives there. An address of
    a link without a wire counts for the link of the route."""
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
            lambda source=source, target=target: socket.create_connection(target, source_address=(source, 0))
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
    one, other = pair.connection()
    client = watch(pair.client, pair.ifindex(pair.client))
    assert client.read().tcp == 1
    pair.client.run(["ip", "address", "del", f"{CLIENT}/24", "dev", "x0"])
    pair.client.run(["ip", "address", "add", f"{CLIENT}/24", "dev", "lo"])
    pair.client.run(["ip", "route", "add", SERVER, "dev", "lo"])
    transferred = client.read()
    assert transferred.tcp == 0, transferred


def test_links_without_a_wire(namespace: Namespace) -> None:
    namespace.run(["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
    assert namespace.call(lambda: [has_wire(socket.if_nametoindex(name)) for name in ("lo", "v0")]) == [False, True]
    if namespace.try_link("d0", "type", "dummy"):
        assert namespace.call(lambda: has_wire(socket.if_nametoindex("d0"))) is False
    assert namespace.call(lambda: has_wire(4711)) is True
