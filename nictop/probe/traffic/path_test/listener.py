"""The listener of a path test: answers the datagrams of the other end, accepts its TCP connection,
and reports by which NIC its packets came in, as `records.PathListener`.

Both sockets are bound to one address and port, and open only while this runs: until SIGTERM or the
deadline of the child process. Only datagrams with the cookie from the address of the other end are
answered, with no more bytes than they have. A packet socket (root) also counts the packets of the
test, and the answers to those of this host, that its firewall or rp_filter drops afterwards.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct

from nictop.probe.inventory.machine.sysctl import (
    MAX_PROTOCOL_BYTES,
    parse_protocol,
    parse_reverse_path_drops,
)
from nictop.probe.kernel.sysfs import parse_integer, read_text, unreadable_from_error
from nictop.probe.records import PathListener, ReceivedPackets, RefusedSender, Unreadable
from nictop.probe.traffic.greetings import (
    NO_GREETING,
    WRONG_ADDRESS,
    WRONG_COOKIE,
    ExpectedPeer,
    packed_address,
)
from nictop.probe.traffic.loss_counters import read_loss_counts
from nictop.probe.traffic.loss_differences import increases
from nictop.probe.traffic.path_test.icmp_errors import SOL_IP, SOL_IPV6
from nictop.probe.traffic.path_test.packets import (
    ANSWER,
    ECHO_TYPES,
    IP_HEADER_BYTES,
    REQUEST,
    UDP_HEADER_BYTES,
    datagram,
    parse_datagram,
)
from nictop.probe.traffic.path_test.tester import cookie_of, socket_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nictop.probe.traffic.requests import TrafficCommand

IP_PKTINFO, IP_RECVTTL, IP_TTL = 8, 12, 2
IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_HOPLIMIT = 49, 50, 51, 52
SO_ATTACH_FILTER = 26
ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
ANCILLARY_BYTES = 256
MAX_DATAGRAM_BYTES = 65536
MAX_DATAGRAMS, MAX_FRAMES = 5000, 10_000
"""Read during one test; a test sends less than half of that."""
MAX_REFUSED = 50_000
"""Datagrams and connections of others, read during one test beside those."""
MAX_LOSSES = 64
"""Counters in the last line."""
MAX_CONNECTIONS = 16
PORT_ATTEMPTS = 16
"""Ports that are tried until one is free for UDP and TCP."""
FRAME_BYTES = 128
"""Bytes of each packet that the packet socket copies: its headers."""
BPF = struct.Struct("=HBBI")
"""struct sock_filter: code, jump if true, jump if false, value."""
BPF_LD_W, BPF_LD_H, BPF_LD_B, BPF_JEQ, BPF_RET = 0x20, 0x28, 0x30, 0x15, 0x06


class Ended(Exception):
    """SIGTERM: the test is over."""


class PacketCounts:
    """Received packets by protocol and NIC."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], tuple[int, int, int | None]] = {}

    def add(self, protocol: str, ifindex: int, size: int, hop_limit: int | None) -> None:
        packets, largest, lowest = self._found.get((protocol, ifindex), (0, 0, None))
        limits = [limit for limit in (lowest, hop_limit) if limit is not None]
        self._found[protocol, ifindex] = (
            packets + 1,
            max(largest, size),
            min(limits, default=None),
        )

    def records(self) -> tuple[ReceivedPackets, ...]:
        return tuple(
            ReceivedPackets(protocol, ifindex, packets, largest, lowest)  # type: ignore[arg-type]
            for (protocol, ifindex), (packets, largest, lowest) in self._found.items()
        )


class Listener:
    """The open sockets. Raises OSError."""

    def __init__(self, command: TrafficCommand) -> None:
        self.family = socket.AF_INET6 if ":" in command.address else socket.AF_INET
        self.peer = packed_address(command.address)
        self.cookie = cookie_of(command)
        self.expected = ExpectedPeer(self.cookie, command.address)
        self.delivered, self.arrived = PacketCounts(), PacketCounts()
        self.misaddressed, self.answers = PacketCounts(), PacketCounts()
        self.udp_answers = 0
        self.unreadable: dict[str, Unreadable] = {}
        self.datagrams, self.connections = open_sockets(self.family, command)
        self.port = int(self.datagrams.getsockname()[1])
        self.frames = self._packet_socket()
        self.accepted: list[socket.socket] = []
        self._datagrams_read = self._frames_read = self._refused = 0

    def serve(self) -> None:
        """Until SIGTERM."""
        poll = select.poll()
        handlers: dict[int, Callable[[], bool]] = {
            self.datagrams.fileno(): self.answer_datagrams,
            self.connections.fileno(): self.accept,
        }
        if self.frames is not None:
            handlers[self.frames.fileno()] = self.count_frames
        for descriptor in handlers:
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if not handlers[descriptor]():
                    poll.unregister(descriptor)

    def answer_datagrams(self) -> bool:
        """Answer what is there; False: enough for one test."""
        while self._datagrams_read < MAX_DATAGRAMS:
            try:
                payload, ancillary, _, sender = self.datagrams.recvmsg(
                    MAX_DATAGRAM_BYTES, ANCILLARY_BYTES, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                return True
            except OSError:  # an ICMP error about an answer
                continue
            sequence = parse_datagram(payload, REQUEST, self.cookie)
            if sequence is None or not self.expected.is_address(sender[0]):
                if not self._refuse(WRONG_COOKIE if sequence is None else WRONG_ADDRESS, sender[0]):
                    return False
                continue
            self._datagrams_read += 1
            ifindex, hop_limit = parse_ancillary(ancillary)
            size = len(payload) + UDP_HEADER_BYTES + IP_HEADER_BYTES[self.family]
            self.delivered.add("udp", ifindex, size, hop_limit)
            try:
                self.datagrams.sendto(
                    datagram(ANSWER, self.cookie, sequence), socket.MSG_DONTWAIT, sender
                )
            except OSError:
                continue
            self.udp_answers += 1
        return False

    def accept(self) -> bool:
        """Accept a connection, which stays open until the end; False: enough for one test. Nothing
        is sent on it."""
        try:
            connection, sender = self.connections.accept()
        except OSError:
            return True
        if not self.expected.is_address(sender[0]):
            is_open = self._refuse(NO_GREETING, sender[0])
            connection.close()
            return is_open
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.accepted.append(connection)
        return len(self.accepted) < MAX_CONNECTIONS

    def _refuse(self, reason: str, address: str) -> bool:
        """Count a sender that is not the other end; False: enough for one test."""
        self.expected.refused.add(reason, address)
        self._refused += 1
        return self._refused < MAX_REFUSED

    def count_frames(self) -> bool:
        """Count what the packet socket has; False: enough for one test."""
        assert self.frames is not None
        while self._frames_read < MAX_FRAMES:
            try:
                packet, address = self.frames.recvfrom(FRAME_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:  # a NIC went down
                continue
            self._frames_read += 1
            found = parse_packet(packet, self.family)
            if found is None or address[2] == socket.PACKET_OUTGOING:
                continue
            is_for_other = address[2] == socket.PACKET_OTHERHOST
            is_answer = is_answer_packet(packet, self.family, self.port)
            if is_answer and is_for_other:
                continue
            counts = self.misaddressed if is_for_other else self.arrived
            if is_answer:
                counts = self.answers
            counts.add(found[0], index_of(address[0]), found[1], found[2])
        return False

    def _packet_socket(self) -> socket.socket | None:
        protocol = ETH_P_IPV6 if self.family == socket.AF_INET6 else ETH_P_IP
        try:
            frames = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(protocol))
        except OSError as error:
            self.unreadable["arrived"] = unreadable_from_error(error, "packet socket")
            return None
        try:
            attach_filter(frames, packet_filter(self.family, self.peer, self.port, self.cookie))
            for _ in range(MAX_FRAMES):  # what came before the filter
                frames.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return frames
        except OSError as error:
            self.unreadable["arrived"] = unreadable_from_error(error, "packet socket")
        frames.close()
        return None


def listen(command: TrafficCommand, report: Callable[[object], None], proc: str = "/proc") -> None:
    """Answer one test. `report` is called with a `PathListener` when the sockets are open and at
    the end. Raises OSError when they cannot be opened."""
    drops, counted = _read_drops(proc), read_loss_counts(command.ifindex, proc)
    replies = read_echo_replies(":" in command.address, proc)
    carrier_changes = _read_carrier_changes(command.ifindex)
    listener = Listener(command)
    try:
        signal.signal(signal.SIGTERM, _end)
        report(PathListener(listener.port, unreadable=listener.unreadable))
        listener.serve()
    except Ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if listener.frames is not None:
        listener.count_frames()
    after = _read_drops(proc)
    rp_filter_drops = None
    if listener.family == socket.AF_INET and after is not None and drops is not None:
        rp_filter_drops = after - drops
    changed, last = None, _read_carrier_changes(command.ifindex)
    if carrier_changes is not None and last is not None:
        changed = last - carrier_changes
    replied, last_replies = None, read_echo_replies(":" in command.address, proc)
    if replies is not None and last_replies is not None:
        replied = last_replies - replies
    report(
        PathListener(
            listener.port,
            ended=True,
            delivered=listener.delivered.records(),
            arrived=listener.arrived.records() if listener.frames is not None else None,
            losses=increases(counted, read_loss_counts(command.ifindex, proc))[:MAX_LOSSES],
            rp_filter_drops=rp_filter_drops,
            refused=tuple(RefusedSender(**fields) for fields in listener.expected.refused.fields()),
            unreadable=listener.unreadable,
            carrier_changes=changed,
            misaddressed=listener.misaddressed.records(),
            echo_replies=replied,
            udp_answers=listener.udp_answers,
            answers=listener.answers.records() if listener.frames is not None else None,
        )
    )


def _read_carrier_changes(ifindex: int) -> int | None:
    """Counted as soon as a carrier is lost (net/sched/sch_generic.c: netif_carrier_off), unlike the
    message about it."""
    try:
        name = socket.if_indextoname(ifindex)
    except OSError:
        return None
    text = read_text(f"/sys/class/net/{name}/carrier_changes")
    return parse_integer(text) if isinstance(text, str) else None


def open_sockets(
    family: socket.AddressFamily, command: TrafficCommand
) -> tuple[socket.socket, socket.socket]:
    """A UDP and a listening TCP socket on the same port. Raises OSError."""
    wanted = command.port
    for attempt in range(PORT_ATTEMPTS):
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        connections = socket.socket(family, socket.SOCK_STREAM)
        try:
            if family == socket.AF_INET6:
                datagrams.setsockopt(SOL_IPV6, IPV6_RECVPKTINFO, 1)
                datagrams.setsockopt(SOL_IPV6, IPV6_RECVHOPLIMIT, 1)
            else:
                datagrams.setsockopt(SOL_IP, IP_PKTINFO, 1)
                datagrams.setsockopt(SOL_IP, IP_RECVTTL, 1)
            connections.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            datagrams.bind(socket_address(command.source, wanted, command.ifindex))
            port = datagrams.getsockname()[1]
            connections.bind(socket_address(command.source, port, command.ifindex))
            connections.listen(MAX_CONNECTIONS)
            connections.setblocking(False)
        except OSError:
            datagrams.close()
            connections.close()
            if (wanted and not command.short) or attempt == PORT_ATTEMPTS - 1:
                raise
            wanted = 0
        else:
            return datagrams, connections
    raise AssertionError("at least one attempt")


def parse_ancillary(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int | None]:
    """(ifindex, TTL or hop limit) of a received datagram; 0 and None: not there."""
    ifindex, hop_limit = 0, None
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_IP, IP_PKTINFO) and len(data) >= 4:
            (ifindex,) = struct.unpack_from("=I", data)
        elif (level, kind) == (SOL_IPV6, IPV6_PKTINFO) and len(data) >= 20:
            (ifindex,) = struct.unpack_from("=I", data, 16)
        elif (level, kind) in ((SOL_IP, IP_TTL), (SOL_IPV6, IPV6_HOPLIMIT)) and len(data) >= 4:
            (hop_limit,) = struct.unpack_from("=i", data)
    return ifindex, hop_limit


def index_of(name: str) -> int:
    """ifindex; 0: the NIC has vanished."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0


def parse_packet(packet: bytes, family: int) -> tuple[str, int, int] | None:
    """(protocol, size of the IP packet, TTL or hop limit) of the beginning of an IP packet; None:
    another protocol."""
    protocols = {socket.IPPROTO_ICMP: "icmp", socket.IPPROTO_ICMPV6: "icmp", 17: "udp", 6: "tcp"}
    if family not in IP_HEADER_BYTES or len(packet) < IP_HEADER_BYTES[family]:
        return None
    if family == socket.AF_INET6:
        number, hop_limit, size = packet[6], packet[7], int.from_bytes(packet[4:6], "big") + 40
    else:
        number, hop_limit, size = packet[9], packet[8], int.from_bytes(packet[2:4], "big")
    return (protocols[number], size, hop_limit) if number in protocols else None


def is_answer_packet(packet: bytes, family: int, port: int) -> bool:
    """Of a packet that `packet_filter` has accepted. `port`: its own."""
    protocol, header = (6, 40) if family == socket.AF_INET6 else (9, 20)
    if packet[protocol] in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6):
        return packet[header] == ECHO_TYPES[family][1]
    return int.from_bytes(packet[header + 2 : header + 4], "big") != port


def packet_filter(family: int, peer: bytes, port: int, cookie: bytes) -> bytes:
    """A classic BPF program: packets of the test and answers to those of this host only (but for
    TCP), without IP options and extension headers. The packet begins with its IP header."""
    source, protocol, header = (8, 6, 40) if family == socket.AF_INET6 else (12, 9, 20)
    words = range(0, len(peer), 4)
    tests = [(BPF_LD_W, source + at, int.from_bytes(peer[at : at + 4], "big")) for at in words]
    if family == socket.AF_INET:
        tests.append((BPF_LD_B, 0, 0x45))
    icmp = [
        [
            (BPF_LD_B, protocol, 58 if family == socket.AF_INET6 else 1),
            (BPF_LD_B, header, kind),
            (BPF_LD_W, header + 8, int.from_bytes(cookie[:4], "big")),
        ]
        for kind in ECHO_TYPES[family]
    ]
    ports = [[(BPF_LD_B, protocol, number), (BPF_LD_H, header + 2, port)] for number in (17, 6)]
    answer = ANSWER + cookie
    words = range(0, 8, 4)
    answers = [(BPF_LD_B, protocol, 17)] + [
        (BPF_LD_W, header + UDP_HEADER_BYTES + at, int.from_bytes(answer[at : at + 4], "big"))
        for at in words
    ]
    program: list[bytes] = []
    alternatives = [*icmp, *ports, answers]
    # each test is a load and a comparison with a value; a failed one jumps to the next alternative,
    # or to the end
    total = 2 * len(tests) + sum(2 * len(one) + 1 for one in alternatives)
    for load, offset, value in tests:
        program.append(BPF.pack(load, 0, 0, offset))
        program.append(BPF.pack(BPF_JEQ, 0, total - len(program) - 1, value))
    for one in alternatives:
        end = len(program) + 2 * len(one) + 1
        for load, offset, value in one:
            program.append(BPF.pack(load, 0, 0, offset))
            program.append(BPF.pack(BPF_JEQ, 0, end - len(program) - 1, value))
        program.append(BPF.pack(BPF_RET, 0, 0, FRAME_BYTES))
    program.append(BPF.pack(BPF_RET, 0, 0, 0))
    return b"".join(program)


def attach_filter(connection: socket.socket, program: bytes) -> None:
    """SO_ATTACH_FILTER (socket(7), linux/filter.h). Raises OSError."""
    buffer = ctypes.create_string_buffer(program, len(program))
    program_header = struct.pack(
        "HL", len(program) // BPF.size, ctypes.addressof(buffer)
    )  # struct sock_fprog
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program_header)


def _read_drops(proc: str) -> int | None:
    text = read_text(os.path.join(proc, "net/netstat"), MAX_PROTOCOL_BYTES)
    return parse_reverse_path_drops(text) if isinstance(text, str) else None


def read_echo_replies(is_ipv6: bool, proc: str) -> int | None:
    """Of this network namespace so far; None: not known."""
    text = read_text(os.path.join(proc, "net/snmp6" if is_ipv6 else "net/snmp"), MAX_PROTOCOL_BYTES)
    if not isinstance(text, str):
        return None
    if not is_ipv6:
        return parse_protocol(text, "Icmp:", ("OutEchoReps",)).get("OutEchoReps")
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "Icmp6OutEchoReplies":
            return parse_integer(value.strip())
    return None


def _end(*_: Any) -> None:
    raise Ended
