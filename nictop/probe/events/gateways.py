"""Whether a gateway has begun or ceased to answer, since the last inventory: RTM_GETNEIGH for each
(linux/neighbour.h).

Changes of neighbours are events of the kernel, but so many that receiving them costs more than
asking for a few entries now and then. Needs Linux 5.0, which answers for a single entry; with older
kernels there is no change.
"""

from __future__ import annotations

import errno
import socket
import struct

from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, pack_attribute
from nictop.probe.kernel.rtnetlink import RTM_GETNEIGH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nictop.probe.records import Inventory

    Gateway = tuple[int, str]

NDMSG = struct.Struct("=BxxxiHBB")
"""struct ndmsg: family, ifindex, state, flags, type."""
NDA_DST = 1
NUD_INCOMPLETE, NUD_FAILED = 0x01, 0x20
UNANSWERED_STATES = ("failed", "incomplete")
"""Of `Neighbour.nud_state`."""
MAX_GATEWAYS = 8
NO_ENTRY = errno.ENOENT


def gateways_of(inventory: Inventory) -> list[tuple[int, str, bool]]:
    """(ifindex, address, whether it has failed to answer) of the gateways of default routes that
    are in the neighbour table."""
    entries = inventory.routing.neighbours if inventory.routing is not None else ()
    states = {(one.ifindex, one.address): one.nud_state in UNANSWERED_STATES for one in entries}
    routes = (
        (link.ifindex, route.gateway) for link in inventory.links for route in link.default_routes
    )
    found = dict.fromkeys(
        (ifindex, gateway) for ifindex, gateway in routes if (ifindex, gateway) in states
    )
    return [
        (ifindex, str(gateway), states[ifindex, str(gateway)])
        for ifindex, gateway in list(found)[:MAX_GATEWAYS]
    ]


class GatewayWatch:
    """Call `set_gateways` after each inventory, `have_changed` at intervals. Never raises
    OSError."""

    def __init__(self) -> None:
        self._has_failed: dict[Gateway, bool] = {}
        self._netlink: NetlinkSocket | None = None

    def set_gateways(self, gateways: Iterable[tuple[int, str, bool]]) -> None:
        """`gateways`: see `gateways_of`."""
        self._has_failed = {(ifindex, address): failed for ifindex, address, failed in gateways}

    def have_changed(self) -> bool:
        """One of them answers now and did not, or the reverse. What is being asked for is as it
        was."""
        changed = False
        for gateway, before in self._has_failed.items():
            now = self._read(gateway)
            if now is not None and now != before:
                self._has_failed[gateway] = now
                changed = True
        return changed

    def _read(self, gateway: Gateway) -> bool | None:
        """Whether it has failed to answer; None: not known."""
        ifindex, address = gateway
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            if self._netlink is None:
                self._netlink = NetlinkSocket(NETLINK_ROUTE, timeout=1.0)
            query = NDMSG.pack(family, ifindex, 0, 0, 0) + pack_attribute(
                NDA_DST, socket.inet_pton(family, address)
            )
            replies = self._netlink.request(RTM_GETNEIGH, query)
        except OSError as error:
            self._close()
            if error.errno != NO_ENTRY:
                self._has_failed = {}
            return None
        return parse_has_failed(replies[0][1]) if replies else None

    def _close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


def parse_has_failed(payload: bytes) -> bool | None:
    """Of an RTM_NEWNEIGH; None: it is being asked for, or the message is malformed."""
    if len(payload) < NDMSG.size:
        return None
    state = NDMSG.unpack_from(payload)[2]
    return None if state & NUD_INCOMPLETE else bool(state & NUD_FAILED)
