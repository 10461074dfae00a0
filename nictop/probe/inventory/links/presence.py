"""Since when a netdev is known to be in this network namespace, where udev does not know it.

RTM_GETLINK, RTM_GETADDR → ifindex → seconds. The kernel keeps no time of the creation of a netdev.
It has that of each address (cstamp of IFA_CACHEINFO: net/ipv4/devinet.c, net/ipv6/addrconf.c), and
that of the last change of the IPv6 state of a link (tstamp of IFLA_INET6_CACHEINFO: ipv6_add_dev
sets it when the netdev comes, addrconf_notify and addrconf_ifdown when it is set up or down or gets
another MTU). Both are gone with the netdev, and when it is moved to another namespace: it is at
least as old as the oldest of them. They are counted in ticks of the timer, which began some time
after CLOCK_MONOTONIC; times(2) gives the ticks of now (kernel/sys.c: get_jiffies_64).
"""

from __future__ import annotations

import os
import socket
import struct
import time

from nictop.probe.inventory.links.routes import IFA_CACHEINFO, IFA_CACHEINFO_STRUCT
from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
)
from nictop.probe.kernel.rtnetlink import IFADDRMSG, IFINFOMSG, RTM_GETADDR, RTM_GETLINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

IFLA_AF_SPEC, IFLA_INET6_CACHEINFO = 26, 5
IFLA_CACHEINFO_STRUCT = struct.Struct("=IIII")
"""max_reasm_len, tstamp, reachable_time, retrans_time (linux/if_link.h)."""
TICKS_PER_SECOND = 100
"""Of these times since the boot, in 32 bits: they repeat after 497 days."""
TIMER_HERTZ = (24, 48, 64, 100, 128, 250, 256, 300, 512, 1000, 1024, 1200)
"""CONFIG_HZ: kernel/Kconfig.hz and those of arch/."""
HIDDEN_SECONDS = 300
"""The timer begins so long before 32 bits are full (linux/jiffies.h: INITIAL_JIFFIES)."""


def read_presence() -> dict[int, float]:
    """ifindex → seconds of CLOCK_MONOTONIC; links of which the kernel tells no time are left out.
    Never raises OSError."""
    found: dict[int, int] = {}
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            _read_times(netlink, found)
    except OSError:
        return {}
    now = time.monotonic()
    timer = seconds_of_timer(os.times().elapsed, now)
    begin = (int((now - timer) * 2) + 1) / 2  # at most so late, and the same each time
    return {ifindex: begin + time_of(ticks, timer) for ifindex, ticks in found.items()}


def _read_times(netlink: NetlinkSocket, found: dict[int, int]) -> None:
    for payload in _dump(netlink, RTM_GETLINK, IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        _add(found, parse_ipv6_time(payload))
    for payload in _dump(netlink, RTM_GETADDR, IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        _add(found, parse_address_time(payload))


def _dump(netlink: NetlinkSocket, kind: int, query: bytes) -> Iterator[bytes]:
    try:
        replies = netlink.dump(kind, query)
    except DumpInterrupted as error:
        replies = error.replies
    for _, payload in replies:
        yield payload


def _add(found: dict[int, int], parsed: tuple[int, int] | None) -> None:
    if parsed is None:
        return
    ifindex, ticks = parsed
    found[ifindex] = min(ticks, found.get(ifindex, ticks))


def parse_ipv6_time(payload: bytes) -> tuple[int, int] | None:
    """(ifindex, ticks) of an RTM_NEWLINK; None: it has no IPv6 state."""
    if len(payload) < IFINFOMSG.size:
        return None
    families = dict(iter_attributes(payload[IFINFOMSG.size :])).get(IFLA_AF_SPEC, b"")
    ipv6 = dict(iter_attributes(families)).get(socket.AF_INET6, b"")
    times = dict(iter_attributes(ipv6)).get(IFLA_INET6_CACHEINFO, b"")
    if len(times) < IFLA_CACHEINFO_STRUCT.size:
        return None
    return IFINFOMSG.unpack_from(payload)[2], IFLA_CACHEINFO_STRUCT.unpack_from(times)[1]


def parse_address_time(payload: bytes) -> tuple[int, int] | None:
    """(ifindex, ticks) of an RTM_NEWADDR; None: it has no times."""
    if len(payload) < IFADDRMSG.size:
        return None
    times = dict(iter_attributes(payload[IFADDRMSG.size :])).get(IFA_CACHEINFO, b"")
    if len(times) < IFA_CACHEINFO_STRUCT.size:
        return None
    return IFADDRMSG.unpack_from(payload)[4], IFA_CACHEINFO_STRUCT.unpack_from(times)[2]


def seconds_of_timer(elapsed: float, now: float) -> float:
    """Seconds since the timer began; `elapsed`: those of times(2), `now`: of CLOCK_MONOTONIC."""
    possible = [elapsed - (2**32 - HIDDEN_SECONDS * hertz) / hertz for hertz in TIMER_HERTZ]
    return min(possible, key=lambda seconds: abs(seconds - now))


def time_of(ticks: int, timer: float) -> float:
    """The latest time with these ticks until `timer`, both in seconds of the timer."""
    now = int(timer * TICKS_PER_SECOND)
    since = (now - ticks) % 2**32
    if since >= 2**31:  # read some ticks later
        since = 0
    return (now - since) / TICKS_PER_SECOND
