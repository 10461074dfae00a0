"""The HTTP server over real sockets: responses, refused requests, and that no client delays
another."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.metrics import server as server_module
from nictop.metrics.host_names import MAX_REPORTED_NAMES, HostNames
from nictop.metrics.server import (
    HELP_PAGE,
    IDLE_TIMEOUT,
    IO_TIMEOUT,
    MAX_HEAD_BYTES,
    HttpRequest,
    ListenAddress,
    MetricsServer,
    Response,
    parse_listen_address,
    parse_request,
)

WAIT_TIMEOUT = 90.0
LOOPBACK = ListenAddress("127.0.0.1", 0)
LARGE = b"x" * 8_000_000
"""More than the buffers of a loopback socket."""


def metrics(accept: str, encoding: str) -> Response:
    return Response(
        200, "text/plain", LARGE if accept == "large" else f"{accept}|{encoding}".encode()
    )


@asynccontextmanager
async def serving(
    timeout: float = IO_TIMEOUT, idle: float = IDLE_TIMEOUT
) -> AsyncIterator[tuple[str, int]]:
    server = MetricsServer(metrics, timeout=timeout, idle=idle)
    address, _, port = (await server.listen(LOOPBACK)).rpartition(":")
    try:
        yield address, int(port)
    finally:
        await asyncio.wait_for(server.close(), WAIT_TIMEOUT)
        with pytest.raises(OSError):
            await asyncio.open_connection(address, int(port))


async def exchange(server: tuple[str, int], sent: bytes) -> bytes:
    """All data that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection(*server)
    writer.write(sent)
    received = await asyncio.wait_for(reader.read(), WAIT_TIMEOUT)
    writer.close()
    return received


def get(path: str, *headers: str, version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"GET {path} {version}", "Host: here", *headers, "", ""]).encode()


# ----------------------------------------------------------------------------------------- requests


async def test_metrics_and_help() -> None:
    async with serving() as server:
        received = await exchange(
            server, get("/metrics?x=1", "ACCEPT: a", "accept-encoding: gzip", "Connection: close")
        )
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\nContent-Length: 6\r\n" in head
        assert body == b"a|gzip"
        assert (await exchange(server, get("/", version="HTTP/1.0"))).endswith(
            b"\r\n\r\n" + HELP_PAGE
        )


async def test_a_connection_is_reused() -> None:
    async with serving() as server:
        received = await exchange(
            server, get("/metrics") + get("/no") + get("/metrics", "Connection: close")
        )
        assert [part.split(b"\r\n")[0] for part in received.split(b"HTTP/1.1 ")[1:]] == [
            b"200 OK",
            b"404 Not Found",
            b"200 OK",
        ]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nAccept : a\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n folded\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * MAX_HEAD_BYTES, 431),
        (b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", 404),
    ],
)
async def test_refused_requests(sent: bytes, status: int) -> None:
    async with serving() as server:
        received = await exchange(server, sent)
        assert received.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"\r\nConnection: close\r\n" in received
        assert (b"Allow: GET" in received) is (status == 405)


@given(head=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_error_response(head: bytes) -> None:
    received = parse_request(head + b"\r\n\r\n")
    assert isinstance(received, HttpRequest) or (received.status >= 400 and not received.keep)


# ------------------------------------------------------------------------------------- slow clients


async def test_an_incomplete_request_gets_status_408() -> None:
    async with serving(timeout=0.05) as server:
        assert (await exchange(server, b"GET /metr")).startswith(b"HTTP/1.1 408 ")


async def test_an_idle_connection_is_closed() -> None:
    async with serving(idle=0.05) as server:
        assert await exchange(server, b"") == b""


async def test_a_client_that_does_not_read_delays_no_other_and_is_closed() -> None:
    async with serving(timeout=0.5) as server:
        client = socket.create_connection(server)
        try:
            client.sendall(get("/metrics", "Accept: large"))
            for _ in range(3):
                assert (await exchange(server, get("/", "Connection: close"))).endswith(HELP_PAGE)
            reader, writer = await asyncio.open_connection(sock=client)
            await asyncio.sleep(0)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until_closed(server)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            try:
                taken = len(await asyncio.wait_for(reader.read(), WAIT_TIMEOUT))
            except ConnectionResetError:
                taken = 0
            assert taken < len(LARGE)
            writer.close()
        finally:
            client.close()


def open_connections() -> int:
    """Connections of the server."""
    return len([task for task in asyncio.all_tasks() if "_serve_connection" in repr(task)])


async def until_closed(server: tuple[str, int]) -> None:
    """Wait until the server has no other connection than the one of the request."""
    while open_connections() > 0:
        assert (await exchange(server, get("/", "Connection: close"))).endswith(HELP_PAGE)


async def test_an_idle_connection_is_closed_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    async with serving() as server:
        silent = [await asyncio.open_connection(*server) for _ in range(5)]
        assert (await exchange(server, get("/", "Connection: close"))).endswith(HELP_PAGE)
        assert await asyncio.wait_for(silent[0][0].read(), WAIT_TIMEOUT) == b""
        for _, writer in silent:
            writer.close()


async def test_slow_connections_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they wait for: the first byte, the rest of a request, or a client that does not
    read."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    async with serving(timeout=3600.0, idle=3600.0) as server:
        for sent in (
            b"",
            b"G",
            b"GET /metrics HTTP/1.1\r\nHost: here\r\n",
            get("/metrics", "Accept: large"),
        ):
            slow = [await asyncio.open_connection(*server, limit=1) for _ in range(10)]
            for _, writer in slow:
                writer.write(sent)
            for _ in range(10):
                assert (await exchange(server, get("/", "Connection: close"))).endswith(HELP_PAGE)
            for _, writer in slow:
                writer.transport.abort()


async def test_clients_that_do_not_read_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """All places are held by clients that ask and never read: a place is needed when each waits for
    its client."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    async with serving(timeout=3600.0) as server:
        silent = [socket.create_connection(server) for _ in range(3)]
        try:
            for client in silent:
                client.setblocking(False)
                client.sendall(get("/metrics", "Accept: large"))
                # the response is on its way, and much larger than all buffers
                assert await asyncio.get_running_loop().sock_recv(client, 1)
            for _ in range(5):
                assert (await exchange(server, get("/", "Connection: close"))).endswith(HELP_PAGE)
        finally:
            for client in silent:
                client.close()


async def test_connections_of_another_address_keep_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one with the most connections loses them, however many it opens anew."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 4)
    async with serving(timeout=3600.0) as server:
        reader, writer = await asyncio.open_connection(*server, local_addr=("127.0.0.2", 0))
        writer.write(b"GET / HT")
        others = [await asyncio.open_connection(*server) for _ in range(20)]
        assert (await exchange(server, get("/", "Connection: close"))).endswith(HELP_PAGE)
        writer.write(b"TP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), WAIT_TIMEOUT)).endswith(HELP_PAGE)
        for _, one in (*others, (reader, writer)):
            one.transport.abort()


# -------------------------------------------------------------------------------------- Host header


@pytest.mark.parametrize(
    ("host", "is_accepted"),
    [
        ("127.0.0.1:9807", True),
        ("[::1]:9807", True),
        ("[2001:db8::1]", True),
        ("192.0.2.1", True),
        ("localhost", True),
        ("LOCALHOST:9807", True),
        ("nictop:9807", True),
        ("monitor.example.org", True),
        ("Monitor.Example.org.:9807", True),
        ("evil.example", False),
        ("evil.example:9807", False),
        ("monitor.example.org.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.0.0.1, evil.example", False),
        ("[evil.example]", False),
        ("[::1].evil.example", False),
        ("", False),
        (":9807", False),
        ("évil", False),
        ("a@b", False),
    ],
)
async def test_a_page_of_another_site_cannot_read_the_metrics(host: str, is_accepted: bool) -> None:
    """DNS rebinding: the browser sends the name of the page."""
    told: list[str] = []
    server = MetricsServer(metrics, names=HostNames(["monitor.example.org"], told.append))
    address, _, port = (await server.listen(LOOPBACK)).rpartition(":")
    try:
        for path in ("/metrics", "/", "/no"):
            sent = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
            received = await exchange((address, int(port)), sent)
            assert received.startswith(b"HTTP/1.1 421 ") is not is_accepted
    finally:
        await server.close()
    assert len(told) == (0 if is_accepted else 1)


async def test_a_request_needs_a_host_header() -> None:
    async with serving() as server:
        assert (await exchange(server, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        assert (await exchange(server, b"GET / HTTP/1.0\r\n\r\n")).endswith(HELP_PAGE), (
            "no browser sends this"
        )


def test_names_that_are_not_accepted_are_reported_once_each() -> None:
    told: list[str] = []
    names = HostNames((), told.append)
    for number in (1, 1, *range(100)):
        assert not names.accepts(f"evil{number}.example\x1b[2J")
    assert len(told) == MAX_REPORTED_NAMES and all(one.isprintable() for one in told)


@pytest.mark.parametrize("name", ["", "a:1", "a b", "http://a.example", "-é"])
def test_invalid_server_names(name: str) -> None:
    with pytest.raises(NictopError, match="is not a host name"):
        HostNames([name])


# ------------------------------------------------------------------------------------- many clients


async def test_a_scrape_succeeds_between_thousands_of_connections() -> None:
    """Idle ones, ones with an incomplete request, and ones with endless headers, all kept open by
    the client."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(3000, soft - len(os.listdir("/proc/self/fd")) - 3 * server_module.MAX_CONNECTIONS)
    unfinished = (
        b"",
        b"GET /metrics HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 2 * MAX_HEAD_BYTES,
    )
    opened: list[socket.socket] = []
    async with serving() as server:
        try:
            for turn in range(number):
                one = socket.create_connection(server)
                opened.append(one)
                one.setblocking(False)
                with suppress(OSError):
                    one.send(unfinished[turn % len(unfinished)])
                await asyncio.sleep(0)
                if turn % 500 == 0:
                    await request_until_served(server)
            await request_until_served(server)
            while open_connections() > server_module.MAX_CONNECTIONS:  # noqa: ASYNC110  (refused ones are being closed)
                await asyncio.sleep(0)
        finally:
            for one in opened:
                one.close()


async def request_until_served(server: tuple[str, int]) -> None:
    """As Prometheus does: try again when the connection was closed for another one."""
    received = b""
    while not received.endswith(HELP_PAGE):
        assert received == b"", received
        with suppress(ConnectionError):
            received = await exchange(server, get("/", "Connection: close"))


async def test_a_large_response_is_complete() -> None:
    async with serving() as server:
        received = await exchange(server, get("/metrics", "Accept: large", "Connection: close"))
        assert received.partition(b"\r\n\r\n")[2] == LARGE


# ------------------------------------------------------------------------------------------ address


@pytest.mark.parametrize(
    ("word", "address", "port", "loopback"),
    [
        ("127.0.0.1:9807", "127.0.0.1", 9807, True),
        ("[::1]:9807", "::1", 9807, True),
        ("localhost:0", "127.0.0.1", 0, True),
        ("0.0.0.0:9807", "0.0.0.0", 9807, False),
        ("[::]:1", "::", 1, False),
        ("[fe80::1%lo]:1", "fe80::1%lo", 1, False),
        ("192.0.2.1:65535", "192.0.2.1", 65535, False),
    ],
)
def test_addresses(word: str, address: str, port: int, loopback: bool) -> None:
    listening = parse_listen_address(word)
    assert (listening.address, listening.port, listening.is_loopback) == (address, port, loopback)
    assert str(listening) == word.replace("localhost", "127.0.0.1")


@pytest.mark.parametrize(
    "word",
    [
        "",
        ":",
        "9807",
        ":9807",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "::1:9807",
        "[::1]",
        "host:1",
        "1:²",
    ],
)
def test_invalid_addresses(word: str) -> None:
    with pytest.raises(NictopError) as error:
        parse_listen_address(word)
    assert error.value.exit_code == 2 and "invalid listen address" in error.value.message


@given(word=st.text(max_size=40))
def test_any_text_is_an_address_or_an_error(word: str) -> None:
    try:
        assert 0 <= parse_listen_address(word).port <= 65535
    except NictopError as error:
        assert error.hint


async def test_a_port_in_use_is_an_error() -> None:
    async with serving() as (address, port):
        with pytest.raises(NictopError) as error:
            await MetricsServer(metrics).listen(ListenAddress(address, port))
        assert error.value.message == f"cannot listen on {address}:{port}: Address already in use"
        assert error.value.exit_code == 2
