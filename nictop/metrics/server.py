"""A small HTTP/1.1 server: GET of /metrics, and a line of help at /. It accepts no request with a
body.

Each connection is a task; slow and idle clients are closed after a time limit, and before it if
their places are needed: they delay no other. Only requests to names of this server are answered
(`host_names`). It is not `http.server.ThreadingHTTPServer`: with the same limits that needs more
code and a thread for each connection (60 idle ones: 1.4 MB of memory instead of 0.3), and between
3000 hostile connections a scrape is answered after 1.8 s, not 0.1.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from nictop.errors import NictopError
from nictop.metrics import DEFAULT_ADDRESS
from nictop.metrics.host_names import HostNames
from nictop.metrics.web_config import WebConfig
from nictop.probe.light_dataclasses import dataclass
from nictop.wire.timeout import with_timeout

MAX_PORT, MAX_PORT_DIGITS = 65535, 5
MAX_HEAD_BYTES = 8192
"""Request line and headers together."""
MAX_CONNECTIONS = 64
"""Another one gets the place of the one that waits for its client for the longest time, among those
of the address with the most connections."""
IO_TIMEOUT = 10.0
"""Seconds for the rest of a request after its first byte, and for a client to read `CHUNK_BYTES` of
a response."""
IDLE_TIMEOUT = 60.0
"""Seconds to the next request of a connection: Prometheus keeps it open between scrapes, 15 to 60 s
apart."""
RESPONSE_TIMEOUT = 60.0
"""Seconds for a client to read a whole response."""
CHUNK_BYTES = 64 * 1024
"""Bytes of a response that are buffered for a connection at a time."""

HELP_PAGE = b"nictop: GET /metrics, for Prometheus\n"
NAME_PAGE = (
    b"nictop: the Host header is not a name of this server (nictop metrics --server-name NAME)\n"
)
PLAIN_TEXT_TYPE = "text/plain; charset=utf-8"
Result = TypeVar("Result")
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    505: "HTTP Version Not Supported",
}
EXTRA_HEADERS = {
    401: ("WWW-Authenticate: Basic",),
    405: ("Allow: GET",),
}


@dataclass(frozen=True)
class ListenAddress:
    """An address of this machine and a TCP port; port 0 means any free one."""

    address: str
    """Numeric, IPv4 or IPv6."""
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback

    def __str__(self) -> str:
        return format_address(self.address, self.port)


def format_address(address: str, port: int) -> str:
    """As in a URL: ``127.0.0.1:9807``, ``[::1]:9807``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse_listen_address(text: str) -> ListenAddress:
    """``127.0.0.1:9807``, ``[::1]:9807``, ``localhost:0``. Raises NictopError if the address is not
    numeric (or localhost), or the port is missing or not valid."""
    address, colon, port = text.rpartition(":")
    if not port:
        raise _invalid(text, "port missing")
    if not colon or not _is_port(port):
        raise _invalid(text, f"{port!r} is not a valid port")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise _invalid(text, "IPv6 address without brackets")
    numeric = "127.0.0.1" if address == "localhost" else address
    try:
        return ListenAddress(str(ipaddress.ip_address(numeric)), int(port))
    except ValueError:
        raise _invalid(text, f"{address!r} is not an IP address") from None


def _is_port(text: str) -> bool:
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_PORT_DIGITS
    return is_number and int(text) <= MAX_PORT


def _invalid(text: str, why: str) -> NictopError:
    return NictopError(
        f"invalid listen address {text!r}: {why}",
        f"e.g. --listen {DEFAULT_ADDRESS} or --listen [::1]:9807",
    )


@dataclass(frozen=True)
class Response:
    status: int
    content_type: str
    body: bytes
    encoding: str = ""
    """gzip; "": as it is."""
    keep: bool = True
    """The connection may be used for another request."""


@dataclass(frozen=True)
class HttpRequest:
    """The head of a GET."""

    target: str
    version: str
    headers: dict[str, str]
    """Names in lower case; several of one name joined by commas."""


def error_response(status: int) -> Response:
    """An error response that ends the connection: where the next request would begin is unknown."""
    return Response(status, PLAIN_TEXT_TYPE, f"{REASONS[status]}\n".encode(), keep=False)


def parse_request(head: bytes) -> HttpRequest | Response:
    """Parse request line and headers, including the empty line at their end; the response if the
    request is not valid or not supported."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not all(words):
        return error_response(400)
    method, target, version = words
    if not version.startswith("HTTP/"):
        return error_response(400)
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        return error_response(505)
    if method != "GET":
        return error_response(405)
    headers = parse_headers(lines)
    if headers is None:
        return error_response(400)
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return error_response(413)
    return HttpRequest(target, version, headers)


def parse_headers(lines: Iterable[str]) -> dict[str, str] | None:
    """Name in lower case → value, several of one name joined by commas. None: one of the lines is
    not valid."""
    headers: dict[str, str] = {}
    for line in lines:
        if not _is_header(line):
            return None
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if name in headers:
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _is_header(line: str) -> bool:
    """``name: value``"""
    name, colon, _ = line.partition(":")
    if not colon or not name or name != name.strip():
        return False
    return "\n" not in line and "\r" not in line


async def _result(work: asyncio.Future[Result]) -> Result:
    return await work


class _Acceptor(asyncio.Protocol):
    """Passes a new connection to `accept`, which gives it another protocol."""

    def __init__(self, accept: Callable[[asyncio.Transport], None]) -> None:
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._accept(transport)


class MetricsServer:
    """`metrics` is called for each scrape with ``Accept`` and ``Accept-Encoding`` of the request.
    `names`: what clients may call this server. `web`: encryption and users. `timeout` and `idle`
    replace `IO_TIMEOUT` and `IDLE_TIMEOUT`."""

    def __init__(
        self,
        metrics: Callable[[str, str], Response],
        *,
        names: HostNames | None = None,
        web: WebConfig | None = None,
        timeout: float = IO_TIMEOUT,
        idle: float = IDLE_TIMEOUT,
    ) -> None:
        self._metrics, self._timeout, self._idle_timeout = metrics, timeout, idle
        self._names, self._web = names or HostNames(), web or WebConfig()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._serving: dict[asyncio.Task[None], str] = {}
        """Connections that have a place → address of the client."""
        self._waiting: dict[asyncio.Task[None], None] = {}
        """Those that wait for their clients, the longest first."""

    async def listen(self, listening: ListenAddress) -> str:
        """Start to serve; return the address and port as in a URL. Raises NictopError if the
        address cannot be used."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Acceptor(self._connected), listening.address, listening.port
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)  # not asyncio's own text
            raise NictopError(
                f"cannot listen on {listening}: {why}",
                "use another one: --listen ADDRESS:PORT (port 0: any free port)",
            ) from None
        return format_address(listening.address, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, transport: asyncio.Transport) -> None:
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        encrypted: asyncio.Future[asyncio.Transport | None] = (
            asyncio.get_running_loop().create_future()
        )
        if self._web.context is None:
            transport.set_protocol(protocol)
            encrypted.set_result(transport)
        else:  # begun now: data that was received before would be lost
            work = asyncio.get_running_loop().start_tls(
                transport, protocol, self._web.context, server_side=True
            )
            encrypted = asyncio.ensure_future(work)
        address = str((transport.get_extra_info("peername") or ("",))[0])
        task = asyncio.ensure_future(self._serve_connection(address, encrypted, reader, protocol))

        def end(_: object) -> None:
            self._connections.discard(task)
            encrypted.cancel()
            transport.abort()

        self._connections.add(task)
        task.add_done_callback(end)

    async def _serve_connection(
        self,
        address: str,
        encrypted: asyncio.Future[asyncio.Transport | None],
        reader: asyncio.StreamReader,
        protocol: asyncio.StreamReaderProtocol,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= MAX_CONNECTIONS:
            self._close_longest_waiting()
        self._serving[task] = address
        transport = None
        try:
            transport = await self._client(self._timeout, _result(encrypted))
            if transport is None:
                return  # closed during the TLS handshake
            protocol.connection_made(transport)
            writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
            while await self._serve_request(reader, writer):
                pass
            writer.close()  # after the buffered data
            await self._client(self._timeout, writer.wait_closed())
        except (OSError, asyncio.TimeoutError):
            pass  # the client has closed the connection, does not read, or fails at TLS
        finally:
            self._serving.pop(task, None)
            if transport is not None:
                transport.abort()

    def _close_longest_waiting(self) -> None:
        """Close a connection of the address with the most connections. Every one but the caller's
        waits."""
        most = Counter(self._serving.values()).most_common(1)[0][0]
        task = next(task for task in self._waiting if self._serving[task] == most)
        del self._waiting[task], self._serving[task]
        task.cancel()

    async def _client(self, seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`, which waits for the client; meanwhile the connection may lose its
        place. Raises TimeoutError."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = None
        try:
            return await with_timeout(seconds, work)
        finally:
            self._waiting.pop(task, None)

    async def _serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Read a request and respond; whether another one may follow."""
        first = await self._client(self._idle_timeout, reader.read(1))
        if not first:
            return False
        try:
            head = first + await self._client(self._timeout, reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return await self._send(writer, error_response(431), keep=False)
        except asyncio.IncompleteReadError:
            return await self._send(writer, error_response(400), keep=False)
        except asyncio.TimeoutError:
            return await self._send(writer, error_response(408), keep=False)
        request = parse_request(head)
        if isinstance(request, Response):
            return await self._send(writer, request, keep=False)
        is_closed = "close" in request.headers.get("connection", "").lower()
        keep = request.version == "HTTP/1.1" and not is_closed
        response = await self._refusal(request) or self._respond(request)
        return await self._send(writer, response, keep=keep)

    async def _refusal(self, request: HttpRequest) -> Response | None:
        """The response to a request that is not for this server, or not of one of its users; None:
        it may be answered. A web page may send one to any address, under a name of its own (DNS
        rebinding)."""
        host = request.headers.get("host")
        if host is None and request.version == "HTTP/1.1":
            return error_response(400)
        if host is not None and not self._names.accepts(host):
            return Response(421, PLAIN_TEXT_TYPE, NAME_PAGE, keep=False)
        if not self._web.users:
            return None
        work = self._web.users.is_known(request.headers.get("authorization", ""))
        is_known = await self._client(RESPONSE_TIMEOUT, work)
        return None if is_known else error_response(401)

    def _respond(self, request: HttpRequest) -> Response:
        path = request.target.partition("?")[0]
        if path not in ("/metrics", "/"):
            return Response(404, PLAIN_TEXT_TYPE, HELP_PAGE)
        if path == "/":
            return Response(200, PLAIN_TEXT_TYPE, HELP_PAGE)
        return self._metrics(
            request.headers.get("accept", ""), request.headers.get("accept-encoding", "")
        )

    async def _send(self, writer: asyncio.StreamWriter, response: Response, *, keep: bool) -> bool:
        """Send a response; whether the connection stays open."""
        keep = keep and response.keep
        head = [
            f"HTTP/1.1 {response.status} {REASONS[response.status]}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            "X-Content-Type-Options: nosniff",
            f"Connection: {'keep-alive' if keep else 'close'}",
        ]
        if response.encoding:
            head += [f"Content-Encoding: {response.encoding}", "Vary: Accept, Accept-Encoding"]
        head += EXTRA_HEADERS.get(response.status, ())
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        end = time.monotonic() + RESPONSE_TIMEOUT
        body = memoryview(response.body)
        for start in range(0, len(body), CHUNK_BYTES):
            writer.write(body[start : start + CHUNK_BYTES])
            await self._client(min(self._timeout, end - time.monotonic()), writer.drain())
        return keep
