"""The tester of a path test: sends to the other end, and reports what was answered as
`records.PathTest`.

In this order: echo and round-trip times over ICMP and UDP, one TCP connection, the largest packet
over ICMP and UDP, and which MAC addresses answer: at most 30 s and about 2000 packets. The short
test before a traffic run uses ICMP only if UDP is not answered: half a second and 13 packets on a
healthy path, about 2 s on a broken one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import time

from nictop.probe.kernel import errno_reasons
from nictop.probe.kernel.sysfs import read_text, unreadable_from_error
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import IcmpError, PathReplies, PathSize, PathTest, TrafficPath, Unreadable
from nictop.probe.traffic.path import read_path
from nictop.probe.traffic.path_test.echo import Echo, IcmpEcho, NotConnected, UdpEcho
from nictop.probe.traffic.path_test.icmp_errors import enable_errors, read_errors
from nictop.probe.traffic.path_test.neighbours import NeighbourSchedule, answering_macs
from nictop.probe.traffic.path_test.sizes import largest_passing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nictop.probe.traffic.requests import TrafficCommand


class PathTestLimits(NamedTuple):
    """How much a test sends, and how long it waits."""

    max_seconds: float
    """Of the whole test, but for the time limits of a connection and of the questions for a MAC
    address."""
    echoes: int
    """Packets for round-trip times, of the first protocol that is answered."""
    second_echoes: int
    """Of the second one."""
    first_echoes: int
    """Packets until the first answer, `FIRST_INTERVAL` apart: without an answer no more are sent.
    Their round-trip times are not used, because they may contain the resolution of the MAC
    address."""
    answer_timeout: float
    """Seconds for the last answer."""
    connect_timeout: float
    """Seconds: includes one repetition of the SYN (after 1 s)."""
    size_copies: int
    """Packets of each size."""
    size_copies_with_loss: int
    min_size_timeout: float
    """Seconds to wait for the answer to a size: four times the longest round-trip time, at least
    this."""
    neighbours: NeighbourSchedule


FULL = PathTestLimits(
    max_seconds=30.0,
    echoes=100,
    second_echoes=20,
    first_echoes=5,
    answer_timeout=1.0,
    connect_timeout=2.5,
    size_copies=3,
    size_copies_with_loss=6,
    min_size_timeout=0.2,
    neighbours=NeighbourSchedule(3, 0.25),
)
SHORT = PathTestLimits(
    max_seconds=2.5,
    echoes=10,
    second_echoes=10,
    first_echoes=2,
    answer_timeout=0.6,
    connect_timeout=1.3,
    size_copies=2,
    size_copies_with_loss=4,
    min_size_timeout=0.1,
    neighbours=NeighbourSchedule(2, 0.1),
)
PATIENT = NeighbourSchedule(2, 0.5)
ECHO_INTERVAL = 0.01
FIRST_INTERVAL = 0.25
COPY_INTERVAL = 0.01
MAX_SIZE_TIMEOUT = 1.0
ECHO_BYTES = 84
"""Size of the IP packets for round-trip times over IPv4, as ping(8) sends; 104 over IPv6."""
MAX_PACKET_BYTES = 65535
SIOCGIFMTU = 0x8921
IFREQ = struct.Struct("=16si20x")
"""struct ifreq with an int."""
PING_GROUPS = "/proc/sys/net/ipv4/ping_group_range"


def test_path(command: TrafficCommand) -> PathTest:
    """Raises OSError only if there is no UDP socket."""
    began = time.monotonic()
    unreadable: dict[str, Unreadable] = {}
    path = read_path(command.address, command.source, command.ifindex)
    mtu = _read_mtu(path.ifindex or command.ifindex)
    extent = SHORT if command.short else FULL
    deadline = began + extent.max_seconds
    echoes, refused = _open_echoes(command, unreadable)
    try:
        replies = _measure_echoes(echoes, extent, command.short, deadline)
        is_answered = any(one.rtts for one in replies)
        replies += refused
        if is_answered or not _has_no_neighbour(command):
            source = socket_address(command.source, 0, command.ifindex)
            target = socket_address(command.address, command.port, command.ifindex)
            replies.append(_connect(source, target, extent.connect_timeout))
        limit = min(mtu or MAX_PACKET_BYTES, MAX_PACKET_BYTES)
        sizes = _search_sizes(echoes, replies, limit, extent, deadline)
        packets = 1 + sum(echo.count for echo in echoes)
    finally:
        for echo in echoes:
            echo.close()
    path = read_path(command.address, command.source, command.ifindex)
    resolved, macs = _ask_for_neighbour(command, path, extent, unreadable, is_answered=is_answered)
    return PathTest(
        address=command.address,
        source=command.source,
        port=command.port,
        mtu=mtu,
        resolved=resolved,
        macs=macs,
        path=path,
        replies=tuple(replies),
        sizes=tuple(sizes),
        seconds=time.monotonic() - began,
        packets=packets,
        unreadable=unreadable,
    )


def _open_echoes(
    command: TrafficCommand, unreadable: dict[str, Unreadable]
) -> tuple[list[Echo], list[PathReplies]]:
    """The sockets in the order in which they are used, and the replies of those that have no route:
    connect(2) looks it up. Raises OSError."""
    source = socket_address(command.source, 0, command.ifindex)
    echoes: list[Echo] = []
    refused: list[PathReplies] = []
    try:
        echoes.append(
            IcmpEcho(
                source, socket_address(command.address, 0, command.ifindex), cookie_of(command)
            )
        )
    except NotConnected as error:
        refused.append(PathReplies("icmp", error=errno_reasons.name(error.errno or 0)))
    except OSError as error:
        unreadable["icmp"] = _why_no_icmp(error)
    try:
        target = socket_address(command.address, command.port, command.ifindex)
        echoes.append(UdpEcho(source, target, cookie_of(command)))
    except NotConnected as error:
        refused.append(PathReplies("udp", error=errno_reasons.name(error.errno or 0)))
    except OSError:
        for echo in echoes:
            echo.close()
        raise
    if command.short:
        echoes.reverse()
    return echoes, refused


def _measure_echoes(
    echoes: list[Echo], extent: PathTestLimits, short: bool, deadline: float
) -> list[PathReplies]:
    """Replies in the order of the sockets. In a short test the second one is used only if the first
    has no answer."""
    replies: list[PathReplies] = []
    for echo in echoes:
        is_first = not any(one.rtts for one in replies)
        if is_first or not short:
            count = extent.echoes if is_first else extent.second_echoes
            replies.append(_measure(echo, count, extent, deadline))
    if not short and len(replies) > 1 and not replies[0].rtts and replies[1].rtts:
        # the MAC address may have been resolved meanwhile
        replies[0] = _measure(echoes[0], extent.echoes, extent, deadline)
    return replies


def _has_no_neighbour(command: TrafficCommand) -> bool:
    """The MAC address is not known after the first packets: more of them would not leave either."""
    path = read_path(command.address, command.source, command.ifindex)
    return path.route == "unicast" and path.neighbour in ("incomplete", "failed")


def _search_sizes(
    echoes: list[Echo],
    replies: list[PathReplies],
    limit: int,
    extent: PathTestLimits,
    deadline: float,
) -> list[PathSize]:
    """The largest packets of the protocols that are answered."""
    sizes: list[PathSize] = []
    for echo, measured in zip(echoes, replies):
        if measured.rtts and measured.protocol == echo.protocol:
            guesses = [one.largest for one in sizes if one.largest is not None]
            sizes.append(
                search_size(echo, measured, limit, guesses, extent=extent, deadline=deadline)
            )
    return sizes


def _ask_for_neighbour(
    command: TrafficCommand,
    path: TrafficPath,
    extent: PathTestLimits,
    unreadable: dict[str, Unreadable],
    *,
    is_answered: bool,
) -> tuple[str, tuple[str, ...] | None]:
    """(address of the next hop, MAC addresses that answer for it); ("", None): no next hop. Silence
    beside answered packets is asked for once more: that a path works by an old entry only must not
    be said of a late answer."""
    if path.route != "unicast" or not path.ifindex:
        return "", None
    resolved, own = path.gateway or command.address, command.source.partition("%")[0]
    try:
        macs = answering_macs(resolved, own, path.ifindex, extent.neighbours)
        if not macs and is_answered:
            macs = answering_macs(resolved, own, path.ifindex, PATIENT)
    except OSError as error:
        unreadable["macs"] = unreadable_from_error(error, "packet socket")
    except ValueError as error:
        unreadable["macs"] = Unreadable("not_offered", str(error))
    else:
        return resolved, macs
    return resolved, None


def socket_address(address: str, port: int, ifindex: int) -> Any:
    """Address tuple of the socket module; a link-local IPv6 address gets the NIC as its scope."""
    number = address.partition("%")[0]
    if ":" not in number:
        return number, port
    packed = socket.inet_pton(socket.AF_INET6, number)
    is_link_local = packed[0] == 0xFE and packed[1] & 0xC0 == 0x80
    return number, port, 0, ifindex if is_link_local else 0


def cookie_of(command: TrafficCommand) -> bytes:
    return bytes.fromhex(command.cookie)


def _measure(echo: Echo, count: int, extent: PathTestLimits, deadline: float) -> PathReplies:
    """Round-trip times of `count` packets; without an answer to the first ones no more are sent."""
    size = max(ECHO_BYTES, echo.header_bytes + 56)
    if not _is_answered(echo, size, extent, deadline):
        return PathReplies(
            echo.protocol, echo.method, echo.count, (), tuple(echo.errors), echo.error
        )
    sent: dict[int, float] = {}
    rtts: dict[int, float] = {}
    begin = time.monotonic()
    for number in range(count):
        now = time.monotonic()
        if now > deadline and rtts:
            break
        sequence = echo.send(size)
        if sequence is not None:
            sent[sequence] = now
        _receive_until(echo, begin + (number + 1) * ECHO_INTERVAL, sent, rtts)
    end = time.monotonic() + extent.answer_timeout
    left = extent.answer_timeout
    while len(rtts) < len(sent) and left > 0:
        _take(echo.receive(left), sent, rtts)
        left = end - time.monotonic()
    in_order = tuple(rtts[sequence] for sequence in sent if sequence in rtts)
    return PathReplies(
        echo.protocol, echo.method, len(sent), in_order, tuple(echo.errors), echo.error
    )


def _is_answered(echo: Echo, size: int, extent: PathTestLimits, deadline: float) -> bool:
    """Send first packets until one is answered."""
    for _ in range(extent.first_echoes):
        echo.send(size)
        left = FIRST_INTERVAL
        end = time.monotonic() + left
        while left > 0:
            if echo.receive(left):
                return True
            left = end - time.monotonic()
        if time.monotonic() > deadline:
            break
    return bool(echo.receive(extent.answer_timeout - FIRST_INTERVAL))


def _receive_until(echo: Echo, end: float, sent: dict[int, float], rtts: dict[int, float]) -> None:
    left = end - time.monotonic()
    while left > 0:
        _take(echo.receive(left), sent, rtts)
        left = end - time.monotonic()


def _take(answers: list[tuple[int, float]], sent: dict[int, float], rtts: dict[int, float]) -> None:
    for sequence, when in answers:
        if sequence in sent:
            rtts.setdefault(sequence, when - sent[sequence])


def search_size(
    echo: Echo,
    measured: PathReplies,
    limit: int,
    guesses: list[int],
    *,
    extent: PathTestLimits,
    deadline: float,
) -> PathSize:
    """The largest packet with DF that is answered."""
    search = _SizeSearch(echo, measured, extent, deadline)
    smallest = min(limit, max(ECHO_BYTES, echo.header_bytes + 56))
    search.smallest = search.answered = smallest
    found = largest_passing(search.passes, smallest, limit, guesses)
    if search.silent:
        return PathSize(echo.protocol, limit, None, complete=False, silent=True)
    largest = None
    if search.sizes or not search.expired:
        largest = max(found, search.answered)
    return PathSize(echo.protocol, limit, largest, search.too_big, not search.expired)


class _SizeSearch:
    """Packets of different sizes, and what was answered so far."""

    def __init__(
        self, echo: Echo, measured: PathReplies, extent: PathTestLimits, deadline: float
    ) -> None:
        self._echo, self._deadline = echo, deadline
        self._wait = min(MAX_SIZE_TIMEOUT, max(extent.min_size_timeout, 4 * max(measured.rtts)))
        self._copies = extent.size_copies
        if len(measured.rtts) != measured.sent:
            self._copies = extent.size_copies_with_loss
        self.sizes: dict[int, int] = {}
        """Of the packets that were sent, by their sequence number."""
        self.smallest = 0
        """A size that was answered before the search."""
        self.answered = 0
        """The largest size of which a packet was answered."""
        self.too_big: IcmpError | None = None
        """The newest error about a size that does not pass."""
        self.expired = False
        """The deadline was over before a size was tried."""
        self.silent = False
        """Packets of the smallest size are not answered any more."""

    def passes(self, size: int) -> tuple[bool, int | None]:
        """Whether it is answered; if a router reported that it is not, the size that this wants."""
        if self.answered >= size:
            return True, None  # by a late answer
        if self.silent:
            return False, None
        if self.expired or time.monotonic() > self._deadline:
            self.expired = True
            return False, None
        self._send_copies(size)
        if not self._is_decided(size):
            self.silent = not self._is_smallest_answered() and not self._is_decided(size)
        if self.answered >= size:
            return True, None
        reported = self._echo.too_big
        if reported is None or not self._is_reported(size):
            return False, None
        self.too_big = reported
        return False, reported.mtu

    def _send_copies(self, size: int) -> None:
        """Until one is answered, or reported as too big."""
        self._echo.too_big = None
        for copy in range(1, self._copies + 1):
            sequence = self._echo.send(size)
            if sequence is None:
                return  # EMSGSIZE: the route has a smaller MTU than its NIC
            self.sizes[sequence] = size
            self._receive(size, COPY_INTERVAL if copy < self._copies else self._wait)
            if self._is_decided(size):
                return

    def _is_smallest_answered(self) -> bool:
        """One of the smallest packets, sent after a larger one that was not answered: that the
        larger one is lost for its size is known only if the path passes others meanwhile."""
        controls: set[int] = set()
        for copy in range(1, self._copies + 1):
            sequence = self._echo.send(self.smallest)
            if sequence is not None:
                controls.add(sequence)
            is_last = copy == self._copies
            left = MAX_SIZE_TIMEOUT if is_last else COPY_INTERVAL
            end = time.monotonic() + left
            while left > 0:
                for number, _ in self._echo.receive(left):
                    self.answered = max(self.answered, self.sizes.get(number, 0))
                    if number in controls:
                        return True
                left = end - time.monotonic()
        return False

    def _receive(self, size: int, seconds: float) -> None:
        end, left = time.monotonic() + seconds, seconds
        while left > 0 and not self._is_decided(size):
            for number, _ in self._echo.receive(left):
                self.answered = max(self.answered, self.sizes.get(number, 0))
            left = end - time.monotonic()

    def _is_decided(self, size: int) -> bool:
        return self.answered >= size or self._is_reported(size)

    def _is_reported(self, size: int) -> bool:
        """A router reported this size; the error about an earlier size may be late."""
        reported = self._echo.too_big
        if reported is None:
            return False
        return reported.mtu is None or reported.mtu < size


def _connect(source: Any, target: Any, timeout: float) -> PathReplies:
    """One TCP connection, reset at its end, so that it leaves no socket in TIME-WAIT."""
    family = socket.AF_INET6 if len(target) == 4 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        began = time.monotonic()
        errors = []
        try:
            enable_errors(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.bind(source)
            connection.setblocking(False)
            number = connection.connect_ex(target)
            if number == errno.EINPROGRESS:
                number = _wait_for_connection(connection, timeout)
            errors = read_errors(connection)
        except OSError as error:
            number = error.errno or 0
        if number:
            return PathReplies("tcp", "", 1, (), tuple(errors), errno_reasons.name(number))
        return PathReplies("tcp", "", 1, (time.monotonic() - began,), tuple(errors))


def _wait_for_connection(connection: socket.socket, timeout: float) -> int:
    """Its errno; 0: it is made."""
    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    if not poll.poll(timeout * 1000):
        return errno.ETIMEDOUT
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _why_no_icmp(error: OSError) -> Unreadable:
    groups = read_text(PING_GROUPS)
    found = unreadable_from_error(error, "ICMP socket")
    if found.reason != "needs_root" or not isinstance(groups, str):
        return found
    return Unreadable("needs_root", f"net.ipv4.ping_group_range is {' '.join(groups.split())}")


def _read_mtu(ifindex: int) -> int | None:
    try:
        name = os.fsencode(socket.if_indextoname(ifindex))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            reply = fcntl.ioctl(any_socket, SIOCGIFMTU, IFREQ.pack(name, 0))
    except OSError:
        return None
    return int(IFREQ.unpack(reply)[1]) or None
