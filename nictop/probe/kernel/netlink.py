"""A small netlink codec: sends requests, splits replies into messages and attributes.

The counter loop runs up to ten times a second and must cost little more than its system calls, so
it uses netlink with `struct` directly. The inventory uses the same codec, because no library
repeats a dump that was interrupted by a change, or knows all attributes of the ethtool and netdev
families. Layouts: linux/netlink.h, linux/rtnetlink.h, linux/genetlink.h; integers are in host byte
order.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator

NETLINK_ROUTE = 0
NETLINK_KOBJECT_UEVENT = 15
NETLINK_GENERIC = 16

SOL_NETLINK = 270
NETLINK_ADD_MEMBERSHIP = 1
NETLINK_EXT_ACK = 11
NETLINK_GET_STRICT_CHK = 12

NLM_F_REQUEST = 0x1
NLM_F_MULTI = 0x2
NLM_F_ACK = 0x4
NLM_F_DUMP_INTR = 0x10
NLM_F_CAPPED = 0x100
NLM_F_ACK_TLVS = 0x200
NLM_F_DUMP = 0x300

NLMSG_NOOP = 1
NLMSG_ERROR = 2
NLMSG_DONE = 3

NLMSGERR_ATTR_MSG = 1

NLA_TYPE_MASK = 0x3FFF

GENL_ID_CTRL = 0x10
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_ID = 1
CTRL_ATTR_FAMILY_NAME = 2
CTRL_ATTR_MCAST_GROUPS = 7
CTRL_ATTR_MCAST_GRP_NAME = 1
CTRL_ATTR_MCAST_GRP_ID = 2

HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port id."""
ATTRIBUTE = struct.Struct("=HH")
"""struct nlattr: length with header, type."""
GENERIC_HEADER = struct.Struct("=BBxx")
"""struct genlmsghdr: command, version."""

TIMEVAL = struct.Struct("@ll")
"""struct timeval: seconds, microseconds."""

RECEIVE_BUFFER_BYTES = 64 * 1024
"""Bytes per recv for messages of bounded size: the kernel fills datagrams of a dump up to 32
KiB."""
MAX_DATAGRAM_BYTES = 512 * 1024
"""Bytes. A single message may exceed `RECEIVE_BUFFER_BYTES`: a link with hundreds of virtual
functions and their statistics. The buffer is a mapping; pages that are never written use no
memory."""

Message = tuple[int, bytes]


class NetlinkError(OSError):
    """The kernel refused a request: `errno`, and in `strerror` its extended ACK message if there is
    one."""


class DumpInterrupted(NetlinkError):
    """The table changed during the dump (NLM_F_DUMP_INTR): `replies` may lack entries or have some
    twice."""

    def __init__(self, replies: list[Message] | None = None) -> None:
        super().__init__(errno.EINTR, "dump interrupted by a change")
        self.replies = replies or []


class NetlinkSocket:
    """One netlink socket for requests and their replies. It receives from the kernel only, and from
    joined groups.

    `timeout` (seconds) limits each wait for the kernel, so that a hanging driver cannot block the
    reader: NetlinkError with ETIMEDOUT is raised, after which the socket must be closed.
    """

    def __init__(self, protocol: int, timeout: float = 5.0) -> None:
        self.socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol
        )
        try:
            # not settimeout(): Python would then call poll() before each system call
            self.socket.setsockopt(
                socket.SOL_SOCKET,
                socket.SO_RCVTIMEO,
                TIMEVAL.pack(int(timeout), int(timeout % 1 * 1e6)),
            )
            for option in (NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK):
                with contextlib.suppress(OSError):
                    # before Linux 4.12 and 4.20: shorter error texts, unfiltered dumps
                    self.socket.setsockopt(SOL_NETLINK, option, 1)
            self.socket.bind((0, 0))
            self.socket.connect(
                (0, 0)
            )  # from now on the kernel refuses what another process sends here
        except OSError:
            self.socket.close()
            raise
        self._buffer = mmap.mmap(-1, MAX_DATAGRAM_BYTES)
        self._sequence = 0
        self._families: dict[str, tuple[int, dict[str, int]]] = {}

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self.socket.fileno()

    def request(
        self,
        message_type: int,
        payload: bytes,
        flags: int = 0,
        keep: Callable[[bytes, int], bool] | None = None,
    ) -> list[Message]:
        """Send one request; return (type, payload) of every reply message.

        `flags`: 0 (one object; an ACK is requested, which marks the end of the replies) or
        NLM_F_DUMP. `keep` is called with a datagram and the offset of a payload in it; replies for
        which it is false are dropped. Raises NetlinkError (EMSGSIZE: message above
        MAX_DATAGRAM_BYTES), or DumpInterrupted after the whole dump was read.
        """
        sequence = self.send_request(message_type, payload, flags)
        replies: list[Message] = []
        interrupted = False
        while True:
            data = self.receive()
            for kind, message_flags, number, start, end in messages(data):
                if number != sequence:
                    continue  # a reply to an earlier request that timed out
                interrupted = interrupted or bool(message_flags & NLM_F_DUMP_INTR)
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    raise_error(data, kind, message_flags, start, end)
                    if interrupted:
                        raise DumpInterrupted(replies)
                    return replies
                if kind != NLMSG_NOOP and (keep is None or keep(data, start)):
                    replies.append((kind, data[start:end]))

    def send_request(self, message_type: int, payload: bytes, flags: int) -> int:
        """Send one request; the sequence number of its replies."""
        self._sequence += 1
        is_dump = flags & NLM_F_DUMP == NLM_F_DUMP  # one of its two bits alone is NLM_F_EXCL
        flags |= NLM_F_REQUEST if is_dump else NLM_F_REQUEST | NLM_F_ACK
        self.socket.send(
            HEADER.pack(HEADER.size + len(payload), message_type, flags, self._sequence, 0)
            + payload
        )
        return self._sequence

    def receive(self) -> bytes:
        """The next datagram, for readers that split it themselves."""
        try:
            size = self.socket.recv_into(self._buffer, 0, socket.MSG_TRUNC)
        except BlockingIOError as error:
            raise NetlinkError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
        if size > len(self._buffer):
            raise NetlinkError(errno.EMSGSIZE, f"a message of {size} bytes")
        return self._buffer[:size]

    def dump(
        self,
        message_type: int,
        payload: bytes,
        attempts: int = 3,
        keep: Callable[[bytes, int], bool] | None = None,
    ) -> list[Message]:
        """A dump that is repeated, up to `attempts` times, when the table changed during it; the
        last DumpInterrupted is raised. `keep`: see `request`."""
        for attempt in range(attempts):
            try:
                return self.request(message_type, payload, NLM_F_DUMP, keep)
            except DumpInterrupted:
                if attempt == attempts - 1:
                    raise
        raise AssertionError("attempts must be positive")

    def family(self, name: str) -> int:
        """Message type of a generic netlink family. NetlinkError(ENOENT): this kernel does not have
        it."""
        return self._family(name)[0]

    def multicast_group(self, family: str, group: str) -> int | None:
        """Id of a multicast group of a generic netlink family; None when the family has no such
        group."""
        return self._family(family)[1].get(group)

    def join(self, group: int) -> None:
        """Receive a multicast group from now on."""
        self.socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)

    def generic(
        self, family: str, command: int, attributes: bytes = b"", *, dump: bool = False
    ) -> list[bytes]:
        """Call a generic netlink family; return the attribute bytes of every reply."""
        payload = GENERIC_HEADER.pack(command, 1) + attributes
        number = self.family(family)
        replies = self.dump(number, payload) if dump else self.request(number, payload)
        return [body[GENERIC_HEADER.size :] for _, body in replies]

    def _family(self, name: str) -> tuple[int, dict[str, int]]:
        known = self._families.get(name)
        if known is None:
            query = GENERIC_HEADER.pack(CTRL_CMD_GETFAMILY, 1) + pack_text(
                CTRL_ATTR_FAMILY_NAME, name
            )
            body = self.request(GENL_ID_CTRL, query)[0][1][GENERIC_HEADER.size :]
            attributes = dict(iter_attributes(body))
            groups: dict[str, int] = {}
            for _, group in iter_attributes(attributes.get(CTRL_ATTR_MCAST_GROUPS, b"")):
                fields = dict(iter_attributes(group))
                groups[text(fields[CTRL_ATTR_MCAST_GRP_NAME])] = unsigned(
                    fields[CTRL_ATTR_MCAST_GRP_ID]
                )
            known = self._families[name] = (unsigned(attributes[CTRL_ATTR_FAMILY_ID]), groups)
        return known


def messages(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Split a datagram: (type, flags, sequence, start, end) of each message, start and end of its
    payload in `data`.

    Stops at the first header that does not fit: a malformed tail gives fewer messages, never an
    exception.
    """
    offset, size = 0, len(data)
    while offset + HEADER.size <= size:
        length, kind, flags, sequence, _ = HEADER.unpack_from(data, offset)
        if length < HEADER.size or offset + length > size:
            return
        yield kind, flags, sequence, offset + HEADER.size, offset + length
        offset += (length + 3) & ~3


def raise_error(data: bytes, kind: int, flags: int, start: int, end: int) -> None:
    """Raise NetlinkError if an NLMSG_ERROR or NLMSG_DONE message carries an errno; 0 is an ACK."""
    if end - start < 4:
        return
    number = -struct.unpack_from("=i", data, start)[0]
    if number <= 0:
        return
    attributes = start + 4
    if kind == NLMSG_ERROR:  # the request follows, complete unless NLM_F_CAPPED
        request_length = (
            HEADER.unpack_from(data, start + 4)[0]
            if end - start >= 4 + HEADER.size
            else HEADER.size
        )
        attributes += HEADER.size if flags & NLM_F_CAPPED else (request_length + 3) & ~3
    message = b""
    if flags & NLM_F_ACK_TLVS:
        message = dict(iter_attributes(data[attributes:end])).get(NLMSGERR_ATTR_MSG, b"")
    raise NetlinkError(number, text(message) or _error_text(number))


def _error_text(number: int) -> str:
    try:
        return os.strerror(number)
    except (OverflowError, ValueError):
        # 2^31, the negated minimum of a 32-bit integer, exceeds C int
        return f"Unknown error {number}"


def iter_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, value) of each attribute, without the flag bits of the type. Stops at the first that
    does not fit."""
    offset, size = 0, len(data)
    while offset + 4 <= size:
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if length < 4 or offset + length > size:
            return
        yield kind & NLA_TYPE_MASK, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def unsigned(value: bytes) -> int:
    """Value of an unsigned integer attribute of any width: u8, u16, u32, u64, ``uint`` (4 or 8
    bytes)."""
    return int.from_bytes(value, sys.byteorder)


def text(value: bytes) -> str:
    """Value of a string attribute without the NUL; invalid UTF-8 becomes U+FFFD."""
    return value.split(b"\0", 1)[0].decode("utf-8", "replace")


def pack_attribute(kind: int, value: bytes) -> bytes:
    """One attribute with its header, padded to four bytes."""
    length = 4 + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(-length & 3)


def pack_u32(kind: int, value: int) -> bytes:
    return pack_attribute(kind, struct.pack("=I", value))


def pack_text(kind: int, value: str) -> bytes:
    return pack_attribute(kind, value.encode() + b"\0")
