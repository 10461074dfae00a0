"""A small HTTP/1.1 server: GET of /metrics, and a line of help at /; nothing else is offered and no body is read.

Reads its own listening socket. Each connection is a task of its own: one that is slow, silent or greedy is closed after
a while, and keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from nictop.errors import NictopError
from nictop.metrics.listening import ListenAddress, place
from nictop.wire.timeout import within

MOST_REQUEST = 8192
"""Bytes of request line and headers together."""
MOST_CONNECTIONS = 64
"""More are told to come again."""
PATIENCE = 10.0
"""Seconds in which a request must be complete once it has begun, and in which some of an answer must be taken."""
IDLE = 60.0
"""Seconds for which a connection may wait for its next request: Prometheus keeps one open between scrapes of 15 s to a
minute."""
LONGEST = 60.0
"""Seconds in which an answer must be taken whole, however steadily."""
PART = 64 * 1024
"""Bytes that are handed to a connection at once: an answer to a slow one is not copied whole."""

HELP = b"nictop: GET /metrics, for Prometheus\n"
PLAIN = "text/plain; charset=utf-8"
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
class Response:
    """What is sent back."""

    status: int
    content_type: str
    body: bytes
    encoding: str = ""
    """gzip; "": as it is."""
    keep: bool = True
    """The connection may go on with another request."""


@dataclass(frozen=True)
class HttpRequest:
    """The head of a GET."""

    target: str
    version: str
    headers: dict[str, str]
    """Names in lower case; several of one name joined by commas."""


def refusal(status: int) -> Response:
    """Says what is wrong, and ends the connection: what follows on it may be anything."""
    return Response(status, PLAIN, f"{REASONS[status]}\n".encode(), keep=False)


def parse_request(head: bytes) -> HttpRequest | Response:
    """The request whose head, with the empty line at its end, is `head`; an Response for what is none that is
    served."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not all(words):
        return refusal(400)
    method, target, version = words
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        return refusal(505 if version.startswith("HTTP/") else 400)
    if method != "GET":
        return refusal(405)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            return refusal(400)
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return refusal(413)
    return HttpRequest(target, version, headers)


class MetricsServer:
    """`metrics` makes the answer to a scrape; it is given ``Accept`` and ``Accept-Encoding`` of the request."""

    def __init__(
        self, metrics: Callable[[str, str], Response], *, patience: float = PATIENCE, idle: float = IDLE
    ) -> None:
        self._metrics, self._patience, self._idle = metrics, patience, idle
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], None] = {}
        """Those without a request in hand, the longest waiting first."""

    async def listen(self, listening: ListenAddress) -> str:
        """Begin to answer; where, as it stands in a URL. Raises NictopError when that cannot be."""
        try:
            self._server = await asyncio.start_server(
                self._connected, listening.address, listening.port, limit=MOST_REQUEST
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)  # asyncio words it in its own way
            raise NictopError(
                f"cannot listen at {listening}: {why}", "another one: --listen ADDRESS:PORT; port 0: any that is free"
            ) from None
        return place(listening.address, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > MOST_CONNECTIONS and not self._make_room():
                await self._send(writer, refusal(503), keep=False)
            else:
                while await self._answer_one(reader, writer):
                    pass
            writer.close()  # what is still on its way is sent
            await within(self._patience, writer.wait_closed())
        except (OSError, asyncio.TimeoutError):
            pass  # the other end is gone, or takes nothing
        finally:
            writer.transport.abort()

    def _make_room(self) -> bool:
        """End the connection that has been waiting for a request for the longest time; False: all are being served."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        self._waiting.pop(longest)
        longest.cancel()
        return True

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read a request and answer it; whether another one may follow."""
        first = await self._wait_for_request(reader)
        if not first:
            return False
        try:
            head = first + await within(self._patience, reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return await self._send(writer, refusal(431), keep=False)
        except asyncio.IncompleteReadError:
            return await self._send(writer, refusal(400), keep=False)
        except asyncio.TimeoutError:
            return await self._send(writer, refusal(408), keep=False)
        request = parse_request(head)
        if isinstance(request, Response):
            return await self._send(writer, request, keep=False)
        closing = "close" in request.headers.get("connection", "").lower() or request.version == "HTTP/1.0"
        return await self._send(writer, self._answer(request), keep=not closing)

    async def _wait_for_request(self, reader: asyncio.StreamReader) -> bytes:
        """The first byte of one; b"": there is none to come."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = None
        try:
            return await within(self._idle, reader.read(1))
        finally:
            self._waiting.pop(task, None)

    def _answer(self, request: HttpRequest) -> Response:
        path = request.target.partition("?")[0]
        if path not in ("/metrics", "/"):
            return Response(404, PLAIN, HELP)
        if path == "/":
            return Response(200, PLAIN, HELP)
        return self._metrics(request.headers.get("accept", ""), request.headers.get("accept-encoding", ""))

    async def _send(self, writer: asyncio.StreamWriter, answer: Response, *, keep: bool) -> bool:
        """Send an answer part by part; whether the connection goes on."""
        keep = keep and answer.keep
        head = [
            f"HTTP/1.1 {answer.status} {REASONS[answer.status]}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "X-Content-Type-Options: nosniff",
            f"Connection: {'keep-alive' if keep else 'close'}",
        ]
        if answer.encoding:
            head += [f"Content-Encoding: {answer.encoding}", "Vary: Accept, Accept-Encoding"]
        if answer.status == 405:
            head.append("Allow: GET")
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        await within(LONGEST, self._send_body(writer, memoryview(answer.body)))
        return keep

    async def _send_body(self, writer: asyncio.StreamWriter, body: memoryview) -> None:
        for start in range(0, len(body), PART):
            writer.write(body[start : start + PART])
            await within(self._patience, writer.drain())
