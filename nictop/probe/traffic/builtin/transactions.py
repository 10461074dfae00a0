"""Requests and responses of the built-in generator: the work of each process, and the latencies
that it counts.

A client sends the next request when the last response has arrived (a closed loop), and reads
CLOCK_MONOTONIC in the same thread right before it sends and right after it has received. Latencies
are counted in shared memory (`SharedCounts`), in the buckets of `latency_buckets`. The garbage
collector of Python is off. The first transaction of each process is not counted: it may wait until
the server has started its processes, and for ARP.

rr: one connection for all requests of a process, TCP with TCP_NODELAY or UDP. crr: a connection for
each request; the request begins with the cookie of the run, as much of it as there is room for,
without which there is no response. The server closes it first, and the client, which has read the
whole response and the end of the connection then, closes it with a reset (SO_LINGER 0). So no
socket stays in TIME_WAIT, neither at the client, which would run out of source ports, nor at the
server.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import mmap
import os
import socket
import struct
import time

from nictop.probe.kernel.netlink import TIMEVAL
from nictop.probe.traffic.builtin.connections import set_connect_options
from nictop.probe.traffic.builtin.handshake import ANSWER_GO, is_greeting
from nictop.probe.traffic.builtin.latency_buckets import BUCKETS, SUB_BUCKET_BITS
from nictop.probe.traffic.greetings import (
    MAPPED_PREFIX,
    WRONG_COOKIE,
    RefusedSenders,
    is_equal,
    packed_address,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from nictop.probe.traffic.builtin.options import BuiltinOptions

DONE, LOST, LATENCY_SUM, CONNECT_SUM, FINISHED, REFUSED, REFUSED_FIRST = range(7)
"""Indexes of `SharedCounts.fields`: transactions, those without a response in time, sums of
latencies and of connect times in ns, and CLOCK_MONOTONIC time of the last response in ns;
connections without the cookie of the run, and the address of the first of them as IPv6, in two
fields."""
COUNT_FIELDS = 8
REQUEST_HEADER = struct.Struct(">II")
"""Header of a datagram: first bytes of the cookie of the run, and number of the request."""
LAST_REQUEST = 1 << 31
"""Set in the number of a request that ends the run; the server answers it too."""
REQUEST_TIMEOUT = 1.0
"""Seconds after which a datagram, or its response, counts as lost."""
CONNECT_TIMEOUT = 3.0
"""Seconds for each step of a transaction with its own connection, after which it counts as lost.
The kernel repeats a lost SYN after one second."""
POLL_SECONDS = 0.25
"""Seconds after which a process that waits looks at the clock."""
UNANSWERED_SECONDS = 1.0
"""Seconds after the end of the time for which a response is waited for."""
SERVER_TIMEOUT = 5
"""Seconds without a datagram after which a server counts its client as gone."""
MAX_CONSECUTIVE_LOSSES = 10
"""Connections that fail one after the other end a run."""
IP_BIND_ADDRESS_NO_PORT = 24
MAX_READ_BYTES = 1024 * 1024
LAST_REQUEST_REPEATS = 20

nanoseconds: Callable[[], int] = getattr(time, "monotonic_ns", None) or (
    lambda: int(time.monotonic() * 1e9)
)
"""CLOCK_MONOTONIC; before Python 3.7 to a few nanoseconds."""


class SharedCounts:
    """Shared memory in which a process counts."""

    def __init__(self) -> None:
        memory = memoryview(mmap.mmap(-1, (COUNT_FIELDS + 2 * BUCKETS) * 8)).cast("Q")
        self.fields = memory[:COUNT_FIELDS]
        self.latency = memory[COUNT_FIELDS : COUNT_FIELDS + BUCKETS]
        """Transactions by bucket."""
        self.connect = memory[COUNT_FIELDS + BUCKETS :]
        """Connections by bucket."""

    def add(self, latency: int, connect: int | None = None) -> None:
        """Count one transaction, in nanoseconds."""
        fields = self.fields
        shift = latency.bit_length() - (SUB_BUCKET_BITS + 1)
        bucket = latency if shift <= 0 else (shift << SUB_BUCKET_BITS) + (latency >> shift)
        self.latency[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
        fields[LATENCY_SUM] += latency
        if connect is not None:
            shift = connect.bit_length() - (SUB_BUCKET_BITS + 1)
            bucket = connect if shift <= 0 else (shift << SUB_BUCKET_BITS) + (connect >> shift)
            self.connect[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
            fields[CONNECT_SUM] += connect
        fields[DONE] += 1


class TransactionTask:
    """The task of one process. `sizes`: bytes of a request and of a response. `times`: start and
    end, CLOCK_MONOTONIC in seconds. `cookie`: of the run."""

    def __init__(
        self,
        connection: socket.socket,
        sizes: tuple[int, int],
        times: tuple[float, float],
        cookie: bytes,
    ):
        self.connection, self.cookie = connection, cookie
        self.request, self.response = sizes
        self.start, self.end = times

    def prepare(self) -> int:
        """Prepare the process; returns the end in nanoseconds."""
        gc.disable()
        freeze = getattr(gc, "freeze", None)  # Python 3.7
        if freeze is not None:
            freeze()
        return int(self.end * 1e9)

    def wait(self) -> None:
        """Wait for the start."""
        time.sleep(max(0.0, self.start - time.monotonic()))


def set_timeout(connection: socket.socket, seconds: float, *, sending: bool = False) -> None:
    """SO_RCVTIMEO: the kernel ends a call that waits longer; costs no system call per
    transaction."""
    value = TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    if sending:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def payload(size: int) -> bytes:
    """Bytes that do not compress."""
    return (os.urandom(min(size, 4096)) * (size // 4096 + 1))[:size]


# ----------------------------------------------------------------------------------- one connection


def exchange_stream(task: TransactionTask, counts: SharedCounts) -> None:
    """The client of rr over TCP. Raises OSError when the server closes the connection or does not
    answer."""
    connection, response, clock, add = task.connection, task.response, nanoseconds, counts.add
    send, receive, wait_all = connection.sendall, connection.recv_into, socket.MSG_WAITALL
    request, buffer = payload(task.request), memoryview(bytearray(response))
    set_timeout(connection, POLL_SECONDS)
    end = task.prepare()
    send(request)
    receive_rest(connection, buffer, end)
    task.wait()
    while True:
        before = clock()
        if before >= end:
            break
        send(request)
        try:
            received = receive(buffer, response, wait_all)
        except BlockingIOError:
            received = 0
        if received < response:
            receive_rest(connection, buffer[received:], end)
        after = clock()
        add(after - before)
    counts.fields[FINISHED] = clock()
    connection.shutdown(socket.SHUT_WR)


def receive_rest(connection: socket.socket, buffer: memoryview, end: int) -> None:
    """Fill the buffer. Raises OSError at the end of the connection, and some time after the end of
    the run."""
    limit = end + int(UNANSWERED_SECONDS * 1e9)
    while buffer:
        try:
            count = connection.recv_into(buffer, len(buffer), socket.MSG_WAITALL)
        except BlockingIOError:
            if nanoseconds() >= limit:
                raise OSError(errno.ETIMEDOUT, "no answer from the server") from None
            continue
        if not count:
            raise OSError(errno.ECONNRESET, "the server closed the connection")
        buffer = buffer[count:]


def serve_stream(task: TransactionTask, counts: SharedCounts) -> None:
    """The server of rr over TCP, until the end of the connection."""
    connection, request, fields = task.connection, task.request, counts.fields
    send, receive, wait_all = connection.sendall, connection.recv_into, socket.MSG_WAITALL
    response, buffer = payload(task.response), memoryview(bytearray(min(request, MAX_READ_BYTES)))
    connection.settimeout(None)
    task.prepare()
    while True:
        missing = request
        while missing:
            count = receive(buffer, min(missing, MAX_READ_BYTES), wait_all)
            if not count:
                fields[FINISHED] = nanoseconds()
                return
            missing -= count
        send(response)
        fields[DONE] += 1


# ---------------------------------------------------------------------------------------- datagrams


def exchange_datagrams(task: TransactionTask, counts: SharedCounts) -> None:
    """The client of rr over UDP. A request without a response within `REQUEST_TIMEOUT` is lost."""
    connection, clock, add = task.connection, nanoseconds, counts.add
    request, buffer = bytearray(payload(task.request)), bytearray(65536)
    cookie, number, size = int.from_bytes(task.cookie[:4], "big"), 0, REQUEST_HEADER.size
    send, receive, pack = connection.send, connection.recv_into, REQUEST_HEADER.pack_into
    timeout = int(REQUEST_TIMEOUT * 1e9)
    set_timeout(connection, REQUEST_TIMEOUT)
    end = task.prepare()
    pack(request, 0, cookie, number)
    with contextlib.suppress(BlockingIOError):
        send(request)
        receive(buffer)
    task.wait()
    while True:
        number = (number + 1) % LAST_REQUEST
        pack(request, 0, cookie, number)
        before = after = clock()
        if before >= end:
            break
        is_answered = False
        try:
            send(request)
            while after - before < timeout:
                received = receive(buffer)
                after = clock()
                # else a late response, which was counted as lost
                if received == task.response and buffer[:size] == request[:size]:
                    is_answered = True
                    break
        except BlockingIOError:
            pass
        except ConnectionRefusedError:
            raise OSError(errno.ECONNREFUSED, "the other end closed its UDP port") from None
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            time.sleep(0.001)
        if is_answered:
            add(after - before)
        else:
            counts.fields[LOST] += 1
    counts.fields[FINISHED] = clock()
    end_datagrams(connection, cookie, task.request)


def end_datagrams(connection: socket.socket, cookie: int, size: int) -> None:
    """Tell the server that the run is over, until it answers."""
    last = bytearray(size)
    REQUEST_HEADER.pack_into(last, 0, cookie, LAST_REQUEST)
    set_timeout(connection, REQUEST_TIMEOUT / LAST_REQUEST_REPEATS)
    with contextlib.suppress(ConnectionRefusedError):  # the server has answered and ended
        for _ in range(LAST_REQUEST_REPEATS):
            with contextlib.suppress(BlockingIOError):
                connection.send(last)
                while connection.recv(65536)[: REQUEST_HEADER.size] != last[: REQUEST_HEADER.size]:
                    pass
                return


def serve_datagrams(task: TransactionTask, counts: SharedCounts) -> None:
    """The server of rr over UDP, until the last request. Raises OSError when no datagram is
    received for `SERVER_TIMEOUT` seconds."""
    connection, fields, size = task.connection, counts.fields, REQUEST_HEADER.size
    send, receive, unpack = connection.send, connection.recv_into, REQUEST_HEADER.unpack_from
    response, buffer = bytearray(payload(task.response)), bytearray(65536)
    cookie = int.from_bytes(task.cookie[:4], "big")
    set_timeout(connection, SERVER_TIMEOUT)
    task.prepare()
    while True:
        try:
            count = receive(buffer)
        except BlockingIOError:
            raise OSError(errno.ETIMEDOUT, f"no data received for {SERVER_TIMEOUT} s") from None
        if is_greeting(buffer, count):
            connection.send(ANSWER_GO)  # the first answer was lost
            continue
        if count != task.request or unpack(buffer)[0] != cookie:
            continue
        if unpack(buffer)[1] & LAST_REQUEST:
            fields[FINISHED] = nanoseconds()
            with contextlib.suppress(OSError):  # the client may end after the first one
                for _ in range(3):
                    send(buffer[:size])
            return
        response[:size] = buffer[:size]
        with contextlib.suppress(BlockingIOError):
            send(response)
        fields[DONE] += 1


# --------------------------------------------------------------------- a connection per transaction


class ConnectTask(TransactionTask):
    """The task of one process of a client that connects for each transaction. `files`: transactions
    after which it ends, 0: at the end of the time."""

    def __init__(self, *arguments: Any, options: BuiltinOptions, files: int) -> None:
        super().__init__(*arguments)
        self.options, self.files = options, files


def connect_and_exchange(task: ConnectTask, counts: SharedCounts) -> None:
    """The client of crr. Raises OSError when several transactions fail one after the other."""
    clock, fields = nanoseconds, counts.fields
    own, address = task.connection.getsockname(), task.connection.getpeername()
    source = (own[0], 0, *own[2:])
    request, buffer = tagged_payload(task), memoryview(bytearray(task.response))
    end, losses, is_first = task.prepare(), 0, True
    while not task.files or fields[DONE] < task.files:
        connection = socket.socket(task.connection.family, socket.SOCK_STREAM)
        try:
            _set_options(connection, source, task.options)
            before = clock()
            if before >= end:
                break
            connection.connect(address)
            connected = clock()
            _exchange(connection, request, buffer)
            after = clock()
            if is_first:
                task.wait()
                is_first = False
                continue
            counts.add(after - before, connected - before)
            losses = 0
        except (BlockingIOError, ConnectionResetError, BrokenPipeError):
            # a timeout, or no room at the server
            fields[LOST] += 1
            losses += 1
            if losses > MAX_CONSECUTIVE_LOSSES:
                raise
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise OSError(
                    error.errno, "no free source port (net.ipv4.ip_local_port_range)"
                ) from None
            raise
        finally:
            connection.close()
    fields[FINISHED] = clock()


def _exchange(connection: socket.socket, request: bytes, buffer: memoryview) -> None:
    """Send the request, fill the buffer with the response, wait for the end of the connection, and
    close it."""
    connection.sendall(request)
    while buffer:
        count = connection.recv_into(buffer, len(buffer), socket.MSG_WAITALL)
        if not count:
            raise OSError(errno.ECONNRESET, "the server closed the connection")
        buffer = buffer[count:]
    if connection.recv(1):
        raise OSError(errno.EPROTO, "the server sent more than the response")
    connection.close()


def _set_options(
    connection: socket.socket, source: tuple[Any, ...], options: BuiltinOptions
) -> None:
    set_connect_options(connection, options)
    set_timeout(connection, CONNECT_TIMEOUT, sending=True)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    with contextlib.suppress(OSError):
        # before Linux 4.2: the port is then unique for all destinations
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    connection.bind(source)


def tagged_payload(task: TransactionTask) -> bytes:
    """A request that begins with the cookie."""
    tag = task.cookie[: task.request]
    return tag + payload(task.request)[len(tag) :]


def accept_and_serve(task: TransactionTask, client: str, counts: SharedCounts) -> None:
    """The server of crr: until the process is ended. `task.connection` is the listener, with a
    timeout that accepted connections inherit; those that do not come from the address `client`, and
    those whose request does not begin with the cookie, are closed and counted."""
    listener, fields = task.connection, counts.fields
    response, buffer = (
        payload(task.response),
        memoryview(bytearray(min(task.request, MAX_READ_BYTES))),
    )
    task.prepare()
    while True:
        try:
            connection, peer = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            continue
        with connection, contextlib.suppress(OSError):
            # also a timeout: the client counts the transaction as lost
            if peer[0] == client and receive_request(connection, task, buffer):
                connection.sendall(response)
                fields[DONE] += 1
            else:
                count_refused(fields, peer[0])


def receive_request(connection: socket.socket, task: TransactionTask, buffer: memoryview) -> bool:
    """Receive the whole request; False: it does not begin with the cookie. Raises OSError if it is
    not complete."""
    tag = task.cookie[: task.request]
    missing = task.request
    while missing:
        count = connection.recv_into(buffer, min(missing, MAX_READ_BYTES), socket.MSG_WAITALL)
        is_first = missing == task.request
        if not count or (is_first and count < len(tag)):
            raise OSError(errno.ECONNRESET, "the request is not complete")
        if is_first and not is_equal(bytes(buffer[: len(tag)]), tag):
            return False
        missing -= count
    return True


def count_refused(fields: memoryview, address: str) -> None:
    if not fields[REFUSED]:
        packed = packed_address(address)
        mapped = packed if len(packed) == 16 else MAPPED_PREFIX + packed
        fields[REFUSED_FIRST], fields[REFUSED_FIRST + 1] = struct.unpack("=QQ", mapped)
    fields[REFUSED] += 1


def refused_connections(counts: Iterable[SharedCounts]) -> RefusedSenders:
    """Of all processes of a server of crr, each with the address of its first."""
    refused = RefusedSenders()
    for fields in (one.fields for one in counts):
        if fields[REFUSED]:
            mapped = struct.pack("=QQ", *fields[REFUSED_FIRST : REFUSED_FIRST + 2])
            refused.add(WRONG_COOKIE, socket.inet_ntop(socket.AF_INET6, mapped), fields[REFUSED])
    return refused
