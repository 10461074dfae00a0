"""A dump of rtnetlink that ends early when a table is too large, so that no table makes an
inventory expensive."""

from __future__ import annotations

from collections.abc import Callable

from nictop.probe.kernel.netlink import HEADER, NETLINK_ROUTE, DumpInterrupted, NetlinkSocket
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.records import Unreadable

MAX_DUMPED = 65_536
"""Messages of one dump that are looked at."""
ATTEMPTS = 3
"""Of a dump of a table that changes meanwhile."""


class DumpTooLong(Exception):
    """More messages than allowed."""


def bounded_dump(
    kind: int, query: bytes, select: Callable[[bytes, int], bool], limit: int, what: str
) -> tuple[list[bytes], Unreadable | None]:
    """(Payloads for which `select` is true, at most `limit`; why some may be missing). `select` is
    called with a datagram and the offset of a payload in it. Never raises OSError; a table that the
    kernel does not have is empty."""
    kept: list[bytes] = []
    seen = found = 0

    def keep(data: bytes, start: int) -> bool:
        nonlocal seen, found
        seen += 1
        if not select(data, start):
            if seen > MAX_DUMPED:
                raise DumpTooLong
            return False
        found += 1
        if found > limit:
            raise DumpTooLong
        length = HEADER.unpack_from(data, start - HEADER.size)[0]
        kept.append(data[start : start - HEADER.size + length])
        return False

    for _ in range(ATTEMPTS):
        kept.clear()
        seen = found = 0
        try:
            with NetlinkSocket(NETLINK_ROUTE) as netlink:
                netlink.dump(kind, query, attempts=1, keep=keep)
            return kept, None
        except DumpTooLong:
            return kept, Unreadable("failed", f"{what}: too many, only the first ones were read")
        except DumpInterrupted:
            continue
        except OSError as error:
            why = unreadable_from_error(error, what)
            return [], None if why.reason in ("missing", "not_offered") else why
    return kept, Unreadable("failed", f"{what}: changed while they were read, may be incomplete")
