"""A small HTTP/1.1 server: GET of /metrics, and a line of help at /. It accepts no request with a body.

Each connection is a task; slow and idle clients are closed after a time limit and do not delay others. It is not
`http.server.ThreadingHTTPServer`: with the same limits that needs more code and a thread for each connection (60 idle
ones: 1.4 MB of memory instead of 0.3), and between 3000 hostile connections a scrape is answered after 1.8 s, not 0.1.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass

from nictop.errors import NictopError
from nictop.metrics import DEFAULT_ADDRESS
from nictop.wire.timeout import with_timeout

MAX_HEAD_BYTES = 8192
"""Request line and headers together."""
MAX_CONNECTIONS = 64
"""Others get status 503, or the place of the one that has been idle for the longest time."""
IO_TIMEOUT = 10.0
"""Seconds for the rest of a request after its first byte, and for a client to read `CHUNK_BYTES` of a response."""
IDLE_TIMEOUT = 60.0
"""Seconds to the next request of a connection: Prometheus keeps it open between scrapes, 15 to 60 s apart."""
RESPONSE_TIMEOUT = 60.0
"""Seconds for a client to read a whole response."""
CHUNK_BYTES = 64 * 1024
"""Bytes of a response that are buffered for a connection at a time."""

HELP_PAGE = b"nictop: GET /metrics, for Prometheus\n"
PLAIN_TEXT_TYPE = "text/plain; charset=utf-8"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
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
    """``127.0.0.1:9807``, ``[::1]:9807``, ``localhost:0``. Raises NictopError if the address is not numeric (or
    localhost), or the port is missing or not valid."""
    address, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise _invalid(text, f"{port if colon else text!r} is not a valid port" if port else "port missing")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise _invalid(text, "IPv6 address without brackets")
    try:
        return ListenAddress(str(ipaddress.ip_address("127.0.0.1" if address == "localhost" else address)), int(port))
    except ValueError:
        raise _invalid(text, f"{address!r} is not an IP address") from None


def _invalid(text: str, why: str) -> NictopError:
    return NictopError(
        f"invalid listen address {text!r}: {why}", f"e.g. --listen {DEFAULT_ADDRESS} or --listen [::1]:9807"
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
    """Parse request line and headers, including the empty line at their end; the response if the request is not valid
    or not supported."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not all(words):
        return error_response(400)
    method, target, version = words
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        return error_response(505 if version.startswith("HTTP/") else 400)
    if method != "GET":
        return error_response(405)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            return error_response(400)
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return error_response(413)
    return HttpRequest(target, version, headers)


class MetricsServer:
    """`metrics` is called for each scrape with ``Accept`` and ``Accept-Encoding`` of the request. `timeout` and `idle`
    replace `IO_TIMEOUT` and `IDLE_TIMEOUT`."""

    def __init__(
        self, metrics: Callable[[str, str], Response], *, timeout: float = IO_TIMEOUT, idle: float = IDLE_TIMEOUT
    ) -> None:
        self._metrics, self._timeout, self._idle_timeout = metrics, timeout, idle
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.Task[None], None] = {}
        """Connections that wait for a request, the longest idle first."""

    async def listen(self, listening: ListenAddress) -> str:
        """Start to serve; return the address and port as in a URL. Raises NictopError if the address cannot be used."""
        try:
            self._server = await asyncio.start_server(
                self._connected, listening.address, listening.port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)  # not asyncio's own text
            raise NictopError(
                f"cannot listen on {listening}: {why}", "use another one: --listen ADDRESS:PORT (port 0: any free port)"
            ) from None
        return format_address(listening.address, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve_connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > MAX_CONNECTIONS and not self._close_idle():
                await self._send(writer, error_response(503), keep=False)
            else:
                while await self._serve_request(reader, writer):
                    pass
            writer.close()  # after the buffered data
            await with_timeout(self._timeout, writer.wait_closed())
        except (OSError, asyncio.TimeoutError):
            pass  # the client has closed the connection or does not read
        finally:
            writer.transport.abort()

    def _close_idle(self) -> bool:
        """Close the connection that has been idle for the longest time; False if none is idle."""
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        self._idle.pop(longest)
        longest.cancel()
        return True

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read a request and respond; whether another one may follow."""
        first = await self._wait_for_request(reader)
        if not first:
            return False
        try:
            head = first + await with_timeout(self._timeout, reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return await self._send(writer, error_response(431), keep=False)
        except asyncio.IncompleteReadError:
            return await self._send(writer, error_response(400), keep=False)
        except asyncio.TimeoutError:
            return await self._send(writer, error_response(408), keep=False)
        request = parse_request(head)
        if isinstance(request, Response):
            return await self._send(writer, request, keep=False)
        closing = "close" in request.headers.get("connection", "").lower() or request.version == "HTTP/1.0"
        return await self._send(writer, self._respond(request), keep=not closing)

    async def _wait_for_request(self, reader: asyncio.StreamReader) -> bytes:
        """The first byte of a request; b"" if the client has closed the connection."""
        task = asyncio.current_task()
        assert task is not None
        self._idle[task] = None
        try:
            return await with_timeout(self._idle_timeout, reader.read(1))
        finally:
            self._idle.pop(task, None)

    def _respond(self, request: HttpRequest) -> Response:
        path = request.target.partition("?")[0]
        if path not in ("/metrics", "/"):
            return Response(404, PLAIN_TEXT_TYPE, HELP_PAGE)
        if path == "/":
            return Response(200, PLAIN_TEXT_TYPE, HELP_PAGE)
        return self._metrics(request.headers.get("accept", ""), request.headers.get("accept-encoding", ""))

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
        if response.status == 405:
            head.append("Allow: GET")
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        await with_timeout(RESPONSE_TIMEOUT, self._send_body(writer, memoryview(response.body)))
        return keep

    async def _send_body(self, writer: asyncio.StreamWriter, body: memoryview) -> None:
        for start in range(0, len(body), CHUNK_BYTES):
            writer.write(body[start : start + CHUNK_BYTES])
            await with_timeout(self._timeout, writer.drain())
