"""The processes of the built-in generator: one for each stream, which does nothing but send or receive.

Each counts into a slot of shared memory (`Slot`) and dies with the process that made it. A stream of datagrams sends
many at once where the kernel cuts them up (UDP_SEGMENT) and takes them together again (UDP_GRO).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import struct
import time

from nictop.probe.kernel.pdeathsig import die_with
from nictop.probe.traffic.builtin.handshake import GO, GREETING, MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
MOST_SEGMENTS = 64
LARGEST_SEND = 65000
"""Bytes in one call with UDP_SEGMENT."""
DATAGRAM = struct.Struct(">Qd")
"""Head of each datagram: its number, and seconds on the sender's clock."""
LAST = 1 << 63
"""Added to the number of datagrams: the sender's last word, and the receiver's answer to it."""
SEGMENT_SIZE = struct.Struct("=i")
PATIENCE = 2.0
"""Seconds that the end of one side waits for the other's."""
LAST_WORDS = 0.05
"""Seconds between two last words."""
LARGEST_READ = 1024 * 1024
SILENCE = 5
"""Seconds without a datagram after which there is no sender any more."""
TIMEVAL = struct.Struct("@ll")

BYTES, PACKETS, LOST, LATE, JITTER, FINISHED = range(6)
"""Fields of a slot: bytes and datagrams sent or received, lost, out of order; ns of jitter; when the last byte came,
ns of CLOCK_MONOTONIC."""
SLOT = 8


class StreamTask:
    """What one stream does. `seconds`: how long to send. `bitrate`: bits per second, 0: no limit."""

    def __init__(self, connection: socket.socket, *, sends: bool, udp: bool, length: int, seconds: float, bitrate: int):
        self.connection, self.sends, self.udp, self.length = connection, sends, udp, length
        self.seconds, self.bitrate = seconds, bitrate


def start_stream(task: StreamTask, slot: memoryview, start: float) -> int:
    """Pid of the process that does it, from `start` (CLOCK_MONOTONIC) on."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with(parent)
        work: Callable[[StreamTask, memoryview, float], None]
        if task.udp:
            work = send_datagrams if task.sends else receive_datagrams
        else:
            work = send_stream if task.sends else receive_stream
        task.connection.settimeout(None)
        work(task, slot, start)
        status = 0
    except BaseException as error:
        said = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        os.write(2, f"{said}\n".encode("utf-8", "replace"))
    finally:
        os._exit(status)


def send_stream(task: StreamTask, slot: memoryview, start: float) -> None:
    """Messages until the time is over; then until the other end has read them all."""
    send, clock = task.connection.send, time.monotonic
    message = memoryview(os.urandom(min(task.length, 4096)) * (task.length // 4096 + 1))[: task.length]
    end, sent = start + task.seconds, 0
    while clock() < end:
        count = send(message)
        sent += count
        slot[BYTES] = sent
        while count < task.length and clock() < end:  # a signal came
            count += send(message[count:])
    slot[FINISHED] = int(clock() * 1e9)
    task.connection.shutdown(socket.SHUT_WR)
    task.connection.settimeout(PATIENCE)
    task.connection.recv(1)


def receive_stream(task: StreamTask, slot: memoryview, start: float) -> None:
    """Whatever comes, to its end."""
    receive = task.connection.recv_into
    buffer = bytearray(min(task.length, LARGEST_READ))
    received = 0
    while count := receive(buffer):
        received += count
        slot[BYTES] = received
    slot[FINISHED] = int(time.monotonic() * 1e9)


def send_datagrams(task: StreamTask, slot: memoryview, start: float) -> None:
    """Datagrams until the time is over, at the rate that was asked for; then the last word."""
    connection, length, clock = task.connection, task.length, time.monotonic
    many = _segments(task)
    buffer = bytearray(length * many)
    packets, end, due = 0, start + task.seconds, start
    while (now := clock()) < end:
        if task.bitrate:
            if now < due:
                time.sleep(due - now)
                continue
            due = max(due, now - 0.01) + many * length * 8 / task.bitrate
        for part in range(many):
            DATAGRAM.pack_into(buffer, part * length, packets + part, now)
        try:
            connection.send(buffer)
        except ConnectionRefusedError:
            raise OSError(errno.ECONNREFUSED, "the other end has gone") from None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                continue
            if many == 1 or error.errno not in (errno.EINVAL, errno.EIO, errno.EMSGSIZE):
                raise
            many, buffer = 1, bytearray(length)  # this path does not cut datagrams up
            connection.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
            continue
        packets += many
        slot[PACKETS], slot[BYTES] = packets, packets * length
    slot[FINISHED] = int(clock() * 1e9)
    _say_last_word(connection, packets)


def _segments(task: StreamTask) -> int:
    """Datagrams in one call: as many as fit, but no more than are due within a millisecond."""
    many = min(MOST_SEGMENTS, LARGEST_SEND // task.length)
    if task.bitrate:
        many = min(many, int(task.bitrate / 8 / task.length / 1000))
    if many > 1:
        try:
            task.connection.setsockopt(SOL_UDP, UDP_SEGMENT, task.length)
        except OSError:  # before Linux 4.18
            return 1
    return max(many, 1)


def _say_last_word(connection: socket.socket, packets: int) -> None:
    word = DATAGRAM.pack(LAST | packets, 0.0)
    end = time.monotonic() + PATIENCE
    connection.settimeout(LAST_WORDS)
    while time.monotonic() < end:
        try:
            connection.send(word)
            if connection.recv(2048)[:8] == word[:8]:
                return
        except (socket.timeout, BlockingIOError):
            continue
        except ConnectionRefusedError:
            return  # has heard it and gone


def receive_datagrams(task: StreamTask, slot: memoryview, start: float) -> None:
    """Datagrams until the sender's last word, or until none has come for so long that there is no sender."""
    connection = task.connection
    with contextlib.suppress(OSError):  # before Linux 5.0
        connection.setsockopt(SOL_UDP, UDP_GRO, 1)
    buffer = bytearray(65536)
    view, ancillary = [memoryview(buffer)], socket.CMSG_SPACE(SEGMENT_SIZE.size)
    received = packets = late = expected = 0
    jitter = 0.0
    transit: float | None = None
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL.pack(SILENCE, 0))
    while True:
        try:
            size, control, _, _ = connection.recvmsg_into(view, ancillary)
        except BlockingIOError:
            raise OSError(errno.ETIMEDOUT, f"nothing has come for {SILENCE} s") from None
        if size < DATAGRAM.size:
            continue
        number, sent = DATAGRAM.unpack_from(buffer)
        if buffer.startswith(MAGIC) and size == GREETING.size:
            connection.send(GO)  # the first answer was lost
            continue
        if number >= LAST:
            slot[LOST] = max(0, number - LAST - packets)
            with contextlib.suppress(OSError):  # the first one has been heard, and the sender is gone
                for _ in range(3):
                    connection.send(buffer[: DATAGRAM.size])
            return
        segment = SEGMENT_SIZE.unpack(control[0][2])[0] if control else size
        count = -(-size // segment)
        if number < expected:
            late += count
        expected = max(expected, number + count)
        packets += count
        received += size
        now = time.monotonic()
        before, transit = transit, now - sent
        if before is not None:
            jitter += (abs(transit - before) - jitter) / 16  # RFC 1889
        slot[BYTES], slot[PACKETS], slot[LATE] = received, packets, late
        slot[LOST], slot[JITTER], slot[FINISHED] = max(0, expected - packets), int(jitter * 1e9), int(now * 1e9)
