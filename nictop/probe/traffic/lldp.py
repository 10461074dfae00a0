"""Listens for LLDP and CDP on request: packet sockets → `records.LldpListening`.

Each NIC has two packet sockets, for LLDP (ethertype 0x88cc) and for frames with an LLC header
(CDP), and joins the multicast groups of both; promiscuous mode is not used. The kernel leaves the
groups when the sockets are closed, however the process ends. Nothing is sent. It ends with the
first frame of the last NIC, or after `seconds`. A NIC on which somebody floods other frames is
given up, and that is reported.
"""

from __future__ import annotations

import select
import socket
import struct
import time

from nictop.probe.inventory.lldp.frames import CDP_ADDRESS, parse_frame
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.records import LldpListening, LldpNeighbour, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ETH_P_802_2, ETH_P_LLDP = 0x0004, 0x88CC
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST = 263, 1, 0
PACKET_MREQ = struct.Struct("=iHH8s")
"""struct packet_mreq: ifindex, type, length of the address, address."""
LLDP_GROUPS = tuple(bytes.fromhex(f"0180c20000{last}") for last in ("0e", "03", "00"))
"""Nearest bridge, nearest bridge that is not a two-port MAC relay, nearest customer bridge."""
GROUPS = {ETH_P_LLDP: LLDP_GROUPS, ETH_P_802_2: (CDP_ADDRESS,)}
RECEIVE_BUFFER_BYTES = 64 * 1024
MAX_FRAME_BYTES = 9216
MAX_FRAMES = 20_000
"""Of one NIC: frames with an LLC header are also those of STP. It is given up then, the others are
not."""
FRAMES_AT_ONCE = 256
"""Read from one socket before the next one has its turn."""


def listen_for_lldp(links: Sequence[int], seconds: float, report: Callable[[object], None]) -> None:
    """`report` is called with an `LldpListening` for each NIC with a neighbour, and at the end.
    `links`: ifindexes."""
    begin = time.monotonic()
    unreadable: dict[str, Unreadable] = {}
    sockets: dict[int, tuple[socket.socket, int]] = {}
    for ifindex in links:
        try:
            opened = open_sockets(ifindex)
        except OSError as error:
            unreadable[str(ifindex)] = unreadable_from_error(error, "packet socket")
            continue
        sockets.update((one.fileno(), (one, ifindex)) for one in opened)
    poll = select.poll()
    for descriptor in sockets:
        poll.register(descriptor, select.POLLIN)
    frames = {ifindex: 0 for _, ifindex in sockets.values()}  # of NICs that are still listened to
    while frames:
        remaining = begin + seconds - time.monotonic()
        if remaining <= 0:
            break
        for descriptor, _ in poll.poll(remaining * 1000):
            channel, ifindex = sockets[descriptor]
            if ifindex not in frames:
                continue
            neighbour, count = receive(channel)
            frames[ifindex] += count
            if neighbour is None and frames[ifindex] < MAX_FRAMES:
                continue
            elapsed = time.monotonic() - begin
            if neighbour is not None:
                report(LldpListening(tuple(links), {ifindex: neighbour}, seconds=elapsed))
            else:
                unreadable[str(ifindex)] = _too_many_frames(frames[ifindex], elapsed)
            del frames[ifindex]
            for other, (_, place) in sockets.items():
                if place == ifindex:
                    poll.unregister(other)
    elapsed = time.monotonic() - begin
    report(LldpListening(tuple(links), ended=True, seconds=elapsed, unreadable=unreadable))


def _too_many_frames(number: int, elapsed: float) -> Unreadable:
    detail = f"{number} other frames within {elapsed:.1f} s: not listened to further"
    return Unreadable("failed", detail)


def open_sockets(ifindex: int) -> list[socket.socket]:
    """The sockets of one NIC. Raises OSError, without open sockets then."""
    name = socket.if_indextoname(ifindex)
    opened: list[socket.socket] = []
    try:
        for protocol, groups in GROUPS.items():
            # without a protocol it receives nothing before it is bound
            channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
            opened.append(channel)
            channel.setblocking(False)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            for group in groups:
                request = PACKET_MREQ.pack(ifindex, PACKET_MR_MULTICAST, len(group), group)
                channel.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
            channel.bind((name, protocol))
    except OSError:
        for channel in opened:
            channel.close()
        raise
    return opened


def receive(channel: socket.socket) -> tuple[LldpNeighbour | None, int]:
    """(the first neighbour in what has been received, number of frames read)."""
    count = 0
    while count < FRAMES_AT_ONCE:
        try:
            frame, address = channel.recvfrom(MAX_FRAME_BYTES)
        except BlockingIOError:
            break
        except OSError:  # the NIC went down
            break
        count += 1
        if address[2] == socket.PACKET_OUTGOING:
            continue
        neighbour = parse_frame(frame, "listened")
        if neighbour is not None:
            return neighbour, count
    return None, count
