"""The processes of the built-in generator: one for each stream, which only sends or receives.

Each counts in its slot of shared memory. UDP streams send many datagrams in
one call where the kernel can segment them (UDP_SEGMENT), and receive them coalesced (UDP_GRO).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time

from nictop.probe.kernel.netlink import TIMEVAL
from nictop.probe.traffic.builtin.handshake import ANSWER_GO, is_greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
UDP_MAX_SEGMENTS = 64
MAX_SEND_BYTES = 65000
"""Bytes in one call with UDP_SEGMENT."""
DATAGRAM_HEADER = struct.Struct(">Qd")
"""Header of each datagram: its number, and seconds on the sender's clock."""
LAST_DATAGRAM = 1 << 63
"""Added to the number of datagrams: the sender's last datagram, and the receiver's answer to it."""
SEGMENT_SIZE = struct.Struct("=i")
STREAM_END_TIMEOUT = 2.0
"""Seconds that one end waits for the other to end."""
LAST_DATAGRAM_RETRY_SECONDS = 0.05
"""Seconds between repetitions of the last datagram."""
MAX_READ_BYTES = 1024 * 1024
RECEIVE_TIMEOUT_SECONDS = 5
"""Seconds without a datagram after which the sender counts as gone."""

BYTES, PACKETS, LOST, OUT_OF_ORDER, JITTER, FINISHED = range(6)
"""Indexes of a slot: bytes and datagrams sent or received; datagrams lost and out of order; jitter
in ns; CLOCK_MONOTONIC time of the last byte in ns."""
SLOT_FIELDS = 8
"""64-bit integers of a slot."""


class StreamTask:
    """The task of one stream. `seconds`: how long to send. `bitrate`: bits per second, 0:
    unlimited."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        sends: bool,
        udp: bool,
        length: int,
        seconds: float,
        bitrate: int,
    ):
        self.connection, self.sends, self.udp, self.length = connection, sends, udp, length
        self.seconds, self.bitrate = seconds, bitrate


def run_stream(task: StreamTask, slot: memoryview, start: float) -> None:
    """The work of a process: run the task from `start` (CLOCK_MONOTONIC) on."""
    work: Callable[[StreamTask, memoryview, float], None]
    if task.udp:
        work = send_datagrams if task.sends else receive_datagrams
    else:
        work = send_stream if task.sends else receive_stream
    task.connection.settimeout(None)
    work(task, slot, start)


def send_stream(task: StreamTask, slot: memoryview, start: float) -> None:
    """Send messages until the time is over, then wait until the other end has read them all."""
    send, clock = task.connection.send, time.monotonic
    message = memoryview(os.urandom(min(task.length, 4096)) * (task.length // 4096 + 1))[
        : task.length
    ]
    end, sent = start + task.seconds, 0
    while clock() < end:
        count = send(message)
        sent += count
        slot[BYTES] = sent
        while count < task.length and clock() < end:  # interrupted by a signal
            count += send(message[count:])
    slot[FINISHED] = int(clock() * 1e9)
    task.connection.shutdown(socket.SHUT_WR)
    task.connection.settimeout(STREAM_END_TIMEOUT)
    task.connection.recv(1)


def receive_stream(task: StreamTask, slot: memoryview, start: float) -> None:
    """Receive until the end of the connection."""
    receive = task.connection.recv_into
    buffer = bytearray(min(task.length, MAX_READ_BYTES))
    received = 0
    count = receive(buffer)
    while count:
        received += count
        slot[BYTES] = received
        count = receive(buffer)
    slot[FINISHED] = int(time.monotonic() * 1e9)


def send_datagrams(task: StreamTask, slot: memoryview, start: float) -> None:
    """Send datagrams at the given rate until the time is over, then the last datagram."""
    connection, length, clock = task.connection, task.length, time.monotonic
    batch = _batch_size(task)
    buffer = bytearray(length * batch)
    packets, end, due = 0, start + task.seconds, start
    while True:
        now = clock()
        if now >= end:
            break
        if task.bitrate:
            if now < due:
                time.sleep(due - now)
                continue
            due = max(due, now - 0.01) + batch * length * 8 / task.bitrate
        for part in range(batch):
            DATAGRAM_HEADER.pack_into(buffer, part * length, packets + part, now)
        try:
            connection.send(buffer)
        except ConnectionRefusedError:
            raise OSError(errno.ECONNREFUSED, "the other end closed its UDP port") from None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                continue
            if batch == 1 or error.errno not in (errno.EINVAL, errno.EIO, errno.EMSGSIZE):
                raise
            batch, buffer = 1, bytearray(length)  # no segmentation on this path
            connection.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
            continue
        packets += batch
        slot[PACKETS], slot[BYTES] = packets, packets * length
    slot[FINISHED] = int(clock() * 1e9)
    _send_last_datagram(connection, packets)


def _batch_size(task: StreamTask) -> int:
    """Datagrams in one call: as many as fit, but at most those of one millisecond."""
    batch = min(UDP_MAX_SEGMENTS, MAX_SEND_BYTES // task.length)
    if task.bitrate:
        batch = min(batch, int(task.bitrate / 8 / task.length / 1000))
    if batch > 1:
        try:
            task.connection.setsockopt(SOL_UDP, UDP_SEGMENT, task.length)
        except OSError:  # before Linux 4.18
            return 1
    return max(batch, 1)


def _send_last_datagram(connection: socket.socket, packets: int) -> None:
    last_datagram = DATAGRAM_HEADER.pack(LAST_DATAGRAM | packets, 0.0)
    end = time.monotonic() + STREAM_END_TIMEOUT
    connection.settimeout(LAST_DATAGRAM_RETRY_SECONDS)
    while time.monotonic() < end:
        try:
            connection.send(last_datagram)
            if connection.recv(2048)[:8] == last_datagram[:8]:
                return
        except (socket.timeout, BlockingIOError):
            continue
        except ConnectionRefusedError:
            return  # the receiver has answered and ended


def receive_datagrams(task: StreamTask, slot: memoryview, start: float) -> None:
    """Receive until the sender's last datagram; raises OSError when none is received for
    `RECEIVE_TIMEOUT_SECONDS`."""
    connection = task.connection
    with contextlib.suppress(OSError):  # before Linux 5.0
        connection.setsockopt(SOL_UDP, UDP_GRO, 1)
    buffer = bytearray(65536)
    view, ancillary = [memoryview(buffer)], socket.CMSG_SPACE(SEGMENT_SIZE.size)
    received = packets = out_of_order = expected = 0
    jitter = 0.0
    transit: float | None = None
    connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL.pack(RECEIVE_TIMEOUT_SECONDS, 0)
    )
    while True:
        try:
            size, control, _, _ = connection.recvmsg_into(view, ancillary)
        except BlockingIOError:
            raise OSError(
                errno.ETIMEDOUT, f"no data received for {RECEIVE_TIMEOUT_SECONDS} s"
            ) from None
        if size < DATAGRAM_HEADER.size:
            continue
        number, sent = DATAGRAM_HEADER.unpack_from(buffer)
        if is_greeting(buffer, size):
            connection.send(ANSWER_GO)  # the first answer was lost
            continue
        if number >= LAST_DATAGRAM:
            slot[LOST] = max(0, number - LAST_DATAGRAM - packets)
            with contextlib.suppress(OSError):  # the sender may end after the first one
                for _ in range(3):
                    connection.send(buffer[: DATAGRAM_HEADER.size])
            return
        segment = SEGMENT_SIZE.unpack(control[0][2])[0] if control else size
        count = -(-size // segment)
        if number < expected:
            out_of_order += count
        expected = max(expected, number + count)
        packets += count
        received += size
        now = time.monotonic()
        before, transit = transit, now - sent
        if before is not None:
            jitter += (abs(transit - before) - jitter) / 16  # RFC 1889
        slot[BYTES], slot[PACKETS], slot[OUT_OF_ORDER] = received, packets, out_of_order
        slot[LOST], slot[JITTER], slot[FINISHED] = (
            max(0, expected - packets),
            int(jitter * 1e9),
            int(now * 1e9),
        )
