"""Requests at a fixed rate (``--rate``): an open loop, for latency at a given load.

Every request has a scheduled time, and is sent then whether or not the earlier ones have been
answered. Its latency counts from the scheduled time, not from when it was sent: a pause of the
network or of this process delays all requests that were due in it, and all of them count. A closed
loop would have sent, and counted, one (coordinated omission).

TCP answers requests in their order. A response by datagram has the number of its request.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
from collections import OrderedDict
from itertools import islice

from nictop.probe.kernel.pdeathsig import set_timer_slack
from nictop.probe.traffic.builtin import transactions
from nictop.probe.traffic.builtin.transactions import REQUEST_HEADER, SharedCounts, TransactionTask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nictop.probe.traffic.builtin.options import BuiltinOptions

    Pending = OrderedDict[int, int]

UNANSWERED_DATAGRAM_SECONDS = 4.0
"""Seconds after which a datagram, or its response, counts as lost: a full queue of a slow link may
hold it for a few. Other requests do not wait for it."""
MAX_WAIT_SECONDS = 0.25
MAX_PENDING = 100000
"""Requests without a response at once; the next ones are not sent, and count as lost."""
TIMER_SLACK = 1
"""Nanoseconds."""
NANOSECONDS = 1000000000
ROUNDING = 1000
"""Nanoseconds before the end from which on no request is due: start and end are rounded."""


class PacedTask:
    """The task of process `number` of `processes`, which send `rate` requests per second together,
    one after the other."""

    def __init__(
        self, task: TransactionTask, rate: int, processes: int, number: int, *, udp: bool
    ) -> None:
        self.task, self.udp = task, udp
        self._rate, self._processes, self._number = rate, processes, number
        self._start = int(task.start * 1e9)

    def due(self, request: int) -> int:
        """When a request is due, numbered from 0: nanoseconds, without an error that adds up."""
        return self._start + (request * self._processes + self._number) * NANOSECONDS // self._rate


def paced_task(task: TransactionTask, options: BuiltinOptions, number: int) -> PacedTask:
    """The task of process `number`."""
    return PacedTask(task, options.rate, options.streams, number, udp=options.udp)


class StreamRequests:
    """Requests and responses on a TCP connection. Bytes that it does not take at once are sent
    later."""

    def __init__(self, task: TransactionTask) -> None:
        self._connection, self._size, self._response = task.connection, task.request, task.response
        self._request = memoryview(transactions.payload(task.request))
        self._buffer = bytearray(min(max(65536, task.response), transactions.MAX_READ_BYTES))
        self._received = 0
        self.unsent = 0
        """Bytes."""

    def begin(self, end: int) -> None:
        """The transaction that is not counted."""
        transactions.set_timeout(self._connection, transactions.POLL_SECONDS)
        self._connection.sendall(self._request)
        transactions.receive_rest(self._connection, memoryview(bytearray(self._response)), end)
        self._connection.setblocking(False)

    def add(self, _: int) -> None:
        self.unsent += self._size

    def send(self) -> None:
        while self.unsent:
            try:
                self.unsent -= self._connection.send(self._request[-self.unsent % self._size :])
            except BlockingIOError:
                return

    def receive(self, pending: Pending) -> Iterable[int]:
        """Numbers of the requests that were answered. Raises OSError at the end of the
        connection."""
        count = self._connection.recv_into(self._buffer)
        if not count:
            raise OSError(errno.ECONNRESET, "the server closed the connection")
        answered, self._received = divmod(self._received + count, self._response)
        return list(islice(pending, answered))

    def end(self) -> None:
        self._connection.shutdown(socket.SHUT_WR)


class DatagramRequests:
    """Requests and responses by UDP."""

    unsent = 0

    def __init__(self, task: TransactionTask) -> None:
        self._connection, self._response = task.connection, task.response
        self._request, self._buffer = (
            bytearray(transactions.payload(task.request)),
            bytearray(65536),
        )
        self._cookie = int.from_bytes(task.cookie[:4], "big")

    def begin(self, _: int) -> None:
        """The transaction that is not counted."""
        transactions.set_timeout(self._connection, transactions.REQUEST_TIMEOUT)
        REQUEST_HEADER.pack_into(self._request, 0, self._cookie, 0)
        with contextlib.suppress(BlockingIOError):
            self._connection.send(self._request)
            self._connection.recv_into(self._buffer)
        self._connection.setblocking(False)

    def add(self, number: int) -> None:
        """Send it; if there is no room for it, it is lost."""
        REQUEST_HEADER.pack_into(self._request, 0, self._cookie, number)
        try:
            self._connection.send(self._request)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise

    def send(self) -> None:
        pass

    def receive(self, pending: Pending) -> Iterable[int]:
        """Numbers of the requests that were answered, each once."""
        count = self._connection.recv_into(self._buffer)
        cookie, number = REQUEST_HEADER.unpack_from(self._buffer)
        return (
            [number]
            if count == self._response and cookie == self._cookie and number in pending
            else []
        )

    def end(self) -> None:
        transactions.end_datagrams(self._connection, self._cookie, len(self._request))


def exchange(paced: PacedTask, counts: SharedCounts) -> None:
    """The client. Raises OSError when the server closes the connection."""
    task, clock = paced.task, transactions.nanoseconds
    requests: StreamRequests | DatagramRequests
    requests = DatagramRequests(task) if paced.udp else StreamRequests(task)
    end = task.prepare()
    set_timer_slack(TIMER_SLACK)
    requests.begin(end)
    task.wait()
    sent, due = 0, paced.due(0)
    pending: Pending = OrderedDict()
    last = end - ROUNDING
    limit = end + int(transactions.UNANSWERED_SECONDS * 1e9)
    timeout = int(UNANSWERED_DATAGRAM_SECONDS * 1e9) if paced.udp else None
    sockets = [task.connection]
    while True:
        now = clock()
        while due <= now and due < last:
            sent += 1
            number = sent % transactions.LAST_REQUEST
            if len(pending) < MAX_PENDING:
                pending[number] = due
                requests.add(number)
            else:
                counts.fields[transactions.LOST] += 1
            due = paced.due(sent)
        requests.send()
        if timeout is not None:
            _drop_lost(pending, now - timeout, counts)
        if (due >= last and not pending) or now >= limit:
            break
        until = due if due < last else limit
        wait = min(max(0.0, (until - clock()) / 1e9), MAX_WAIT_SECONDS)
        readable = select.select(sockets, sockets if requests.unsent else [], [], wait)[0]
        if readable:
            with contextlib.suppress(BlockingIOError):
                _count_answers(requests.receive(pending), pending, clock(), counts)
    counts.fields[transactions.LOST] += len(pending)
    counts.fields[transactions.FINISHED] = clock()
    task.connection.settimeout(None)
    requests.end()


def _count_answers(
    answered: Iterable[int], pending: Pending, now: int, counts: SharedCounts
) -> None:
    for number in answered:
        counts.add(now - pending.pop(number))


def _drop_lost(pending: Pending, before: int, counts: SharedCounts) -> None:
    while pending and next(iter(pending.values())) < before:
        pending.popitem(last=False)
        counts.fields[transactions.LOST] += 1
