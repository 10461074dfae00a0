"""What changes by itself: netlink events → `LinkChange` at once, and "take a new inventory" when it has calmed down.

Listens to rtnetlink (links, addresses, routes, queueing disciplines, routing rules, some sysctls), to kernel and udev
uevents (PCI functions, drivers and netdevs come and go before or without a link), and to the ethtool family's `monitor`
group (settings); looks at new kernel messages when asked to. No libudev: its messages are plain datagrams.
Each source may be missing; `Events.missing` says which.
"""

from __future__ import annotations

import os
import socket
import struct
import time

from nictop.probe.inventory.machine.kernel_hints import FUNCTION_SIGNS, SIGNS
from nictop.probe.kernel import netlink
from nictop.probe.kernel.rtnetlink import (
    IFA_ADDRESS,
    IFA_FLAGS,
    IFA_LOCAL,
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    IFLA_CARRIER,
    IFLA_IFNAME,
    IFLA_MTU,
    IFLA_OPERSTATE,
    IFLA_WIRELESS,
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_DELROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWROUTE,
    operstate,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    Change = dict[str, object]

ROUTE_GROUPS = (1, 5, 9, 7, 11, 4, 8, 19, 24, 25)
"""RTNLGRP_LINK, IPV4_IFADDR, IPV6_IFADDR, IPV4_ROUTE, IPV6_ROUTE, TC, IPV4_RULE, IPV6_RULE, IPV4_NETCONF and
IPV6_NETCONF (rp_filter, forwarding and others of a link)."""
RTM_NEWRULE, RTM_DELRULE, RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWNETCONF = 32, 33, 36, 37, 80
OTHER_CHANGES = frozenset((RTM_NEWRULE, RTM_DELRULE, RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWNETCONF))
"""Not: classes, filters and actions of queueing disciplines, which change by the thousand where containers run."""

KNOWN_ADDRESSES = 4096

UEVENT_KERNEL, UEVENT_UDEV = 1, 2
UDEV_HEADER = struct.Struct("=8sIIII")
"""struct udev_monitor_netlink_header: "libudev", magic, header size, offset and length of the properties."""
SUBSYSTEMS = {"net", "pci", "virtio", "vmbus", "xen"}
"""A USB or platform NIC tells through its netdev; without one there is nothing to show."""
VIRTIO_NETWORK = "virtio:d00000001v"

RECEIVE_SPACE = 1024 * 1024
"""Bytes the kernel may queue: one veth pair makes some twenty messages of 1.5 KiB."""
LARGEST_RECORD = 8192
"""Bytes of a kernel message, CONSOLE_EXT_LOG_MAX."""
BATCH = 256
"""Messages taken per wake-up, so that a storm of events cannot hold up the counters."""


class Events:
    """The event sockets of one network namespace.

    `sockets` are to be polled; `take` reads one of them until it is empty. `missing` names what this kernel or these
    rights do not give: "rtnetlink", "uevents", "ethtool".
    """

    def __init__(self) -> None:
        self.sockets: dict[int, tuple[str, socket.socket]] = {}
        self.missing: dict[str, OSError] = {}
        self._addresses: set[bytes] = set()
        for name, connect in (("rtnetlink", _route_socket), ("uevents", _uevent_socket), ("ethtool", _ethtool_socket)):
            try:
                connection = connect()
            except OSError as error:
                self.missing[name] = error
                continue
            connection.setblocking(False)
            self.sockets[connection.fileno()] = (name, connection)
        self._log = _kernel_log()

    def kernel_complains(self) -> bool:
        """Whether one of the kernel's messages since the last look may be about a NIC's trouble, or some were missed.
        Without the right to read them there are none."""
        if self._log < 0:
            return False
        complains = False
        try:
            for _ in range(BATCH):
                record = os.read(self._log, LARGEST_RECORD)
                complains = complains or any(sign in record for sign in (*SIGNS, *FUNCTION_SIGNS))
            os.lseek(self._log, 0, os.SEEK_END)
        except BlockingIOError:  # that was all
            return complains
        except OSError:  # EPIPE: overwritten before they were read
            pass
        return True

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        for _, connection in self.sockets.values():
            connection.close()
        self.sockets.clear()

    def take(self, descriptor: int) -> tuple[list[Change], bool]:
        """Read what has arrived: (the newest `records.LinkChange` of each link, as mappings; whether a new inventory
        is worth taking).

        Never raises for what the kernel sends. An overrun (ENOBUFS) means that events were lost: new inventory.
        """
        name, connection = self.sockets[descriptor]
        changes: dict[int, Change] = {}
        stale = False
        for _ in range(BATCH):
            try:
                data, (port, groups) = connection.recvfrom(netlink.RECEIVE_BUFFER)
            except BlockingIOError:
                break
            except OSError:  # an overrun; the kernel drops whatever comes until all that it kept has been read
                stale = True
                continue
            if not groups or (port and name != "uevents"):
                continue  # not an event: any process may send to our port
            if name == "rtnetlink":
                stale = self._route_event(data, changes) or stale
            else:
                stale = stale or name == "ethtool" or parse_uevent_matters(data)
        return list(changes.values()), stale

    def _route_event(self, data: bytes, changes: dict[int, Change]) -> bool:
        stale = False
        for kind, _, _, start, end in netlink.messages(data):
            body = data[start:end]
            if kind in (RTM_NEWLINK, RTM_DELLINK):
                change = parse_link_change(body, gone=kind == RTM_DELLINK, moment=time.monotonic())
                if change is not None:
                    changes[IFINFOMSG.unpack_from(body)[2]] = change  # the newest per link
                    stale = True
            elif kind in (RTM_NEWADDR, RTM_DELADDR):
                stale = self._address_changes(body, new=kind == RTM_NEWADDR) or stale
            elif kind in (RTM_NEWROUTE, RTM_DELROUTE):
                stale = stale or (len(body) >= 2 and body[1] == 0)  # rtm_dst_len 0: a default route
            else:
                stale = stale or kind in OTHER_CHANGES
        return stale

    def _address_changes(self, body: bytes, *, new: bool) -> bool:
        """Router advertisements renew the life of addresses every few seconds: the same one again is no news."""
        fact = parse_address(body)
        known = fact in self._addresses
        if not new:
            self._addresses.discard(fact)
            return True
        if len(self._addresses) >= KNOWN_ADDRESSES:
            self._addresses.clear()
        self._addresses.add(fact)
        return not known


def parse_link_change(body: bytes, *, gone: bool, moment: float) -> Change | None:
    """`records.LinkChange` of one RTM_NEWLINK or RTM_DELLINK, None when the message is not about the link itself.

    A bridge says RTM_DELLINK with AF_BRIDGE when a *port* leaves it, and wireless drivers send RTM_NEWLINK without any
    state: neither may be taken for a change of the link.
    """
    if len(body) < IFINFOMSG.size:
        return None
    family, _, ifindex, flags, _ = IFINFOMSG.unpack_from(body)
    fields = dict(netlink.iterate(body[IFINFOMSG.size :]))
    name, mtu, state = fields.get(IFLA_IFNAME), fields.get(IFLA_MTU), fields.get(IFLA_OPERSTATE)
    if family != socket.AF_UNSPEC or ifindex <= 0 or not name or not mtu or not state or IFLA_WIRELESS in fields:
        return None
    carrier = fields.get(IFLA_CARRIER)
    return {
        "time": moment,
        "ifindex": ifindex,
        "gone": gone,
        "name": netlink.text(name),
        "operstate": operstate(netlink.unsigned(state)),
        "carrier": bool(netlink.unsigned(carrier)) if carrier and flags & IFF_UP else None,
        "flags": flags,
        "mtu": netlink.unsigned(mtu),
    }


def parse_address(body: bytes) -> bytes:
    """What identifies an address and its state in one RTM_NEWADDR: everything but its remaining life."""
    if len(body) < IFADDRMSG.size:
        return body
    fields = dict(netlink.iterate(body[IFADDRMSG.size :]))
    return b"\0".join((body[: IFADDRMSG.size], *(fields.get(a, b"") for a in (IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS))))


def parse_uevent(data: bytes) -> dict[str, str]:
    """Properties of one uevent, as the kernel (``add@/devices/…``) or udevd ("libudev") sends it; {} for neither."""
    if data.startswith(b"libudev\0") and len(data) >= UDEV_HEADER.size:
        _, _, _, offset, length = UDEV_HEADER.unpack_from(data)
        lines = data[offset : offset + length]
    else:
        head, _, lines = data.partition(b"\0")
        if b"@/" not in head:
            return {}
    properties = {}
    for line in lines.split(b"\0"):
        key, separator, value = line.partition(b"=")
        if separator:
            properties[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return properties


def parse_uevent_matters(data: bytes) -> bool:
    """Whether a uevent can change the inventory: a netdev, a network function, its driver, what carries one."""
    event = parse_uevent(data)
    subsystem = event.get("SUBSYSTEM")
    if subsystem == "pci":
        code = event.get("PCI_CLASS", "").upper()  # class code in hexadecimal without leading zeros
        return (len(code) == 5 and code.startswith("2")) or code.startswith("C06")
    if subsystem == "virtio":
        return event.get("MODALIAS", VIRTIO_NETWORK).startswith(VIRTIO_NETWORK)
    return subsystem in SUBSYSTEMS


def _route_socket() -> socket.socket:
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as opened:
        for group in ROUTE_GROUPS:
            opened.join(group)
        return _kept(opened)


def _ethtool_socket() -> socket.socket:
    with netlink.NetlinkSocket(netlink.NETLINK_GENERIC) as opened:
        group = opened.multicast_group("ethtool", "monitor")
        if group is None:
            raise FileNotFoundError("no group monitor")
        opened.join(group)
        return _kept(opened)


def _uevent_socket() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, netlink.NETLINK_KOBJECT_UEVENT) as connection:
        connection.bind((0, UEVENT_KERNEL | UEVENT_UDEV))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_SPACE)
        return connection.dup()


def _kernel_log(path: str = "/dev/kmsg") -> int:
    """The kernel's messages from now on; -1: they may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor


def _kept(opened: netlink.NetlinkSocket) -> socket.socket:
    opened.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_SPACE)
    return opened.socket.dup()


class Debouncer:
    """When to take the next inventory. Times are seconds on one clock, given by the caller.

    A burst of events is awaited (`QUIET` without another one) but not for ever (`PATIENCE` after the first); between
    two inventories there is a pause of `REST` times what the last one took, so that a storm of events costs at most a
    fraction of a CPU. Who asks for one himself does not wait for that, nor does the first event after one that came out
    of a calm of `CALM` times what it took: a fault and its cure are two events, and on a slow host the pause is long.
    """

    QUIET = 0.15
    PATIENCE = 1.0
    REST = 4.0
    SHORTEST_REST = 0.25
    CALM = 20.0

    def __init__(self) -> None:
        self.reason = ""
        """Why an inventory is wanted; empty: none is."""
        self.rescan: float | None = None
        """When to take one that nothing asked for."""
        self._first = self._last = 0.0
        self._rested = 0.0
        self._end: float | None = None
        """Of the last one."""
        self._asked = False

    def want(self, reason: str, now: float, *, at_once: bool = False, asked: bool = False) -> None:
        """Something happened. The first reason of a burst stands; `at_once` does not wait for quiet, only for rest;
        `asked` waits for neither."""
        self._asked = self._asked or asked
        if not self.reason:
            self.reason = reason
            self._first = self._last = now
        else:
            self._last = now
        if at_once or asked:
            self._first = now - self.PATIENCE

    def due(self) -> float | None:
        """The moment from which the inventory should be taken; None: none is wanted."""
        moments = [] if self.rescan is None else [self.rescan]
        if self.reason:
            moments.append(min(self._last + self.QUIET, self._first + self.PATIENCE))
        if self._asked:
            return min(moments)
        return max(self._rested, min(moments)) if moments else None

    def started(self) -> str:
        """The inventory is being taken; returns its reason. What happens from now on wants another one."""
        reason, self.reason = self.reason or "re-scan", ""
        self._asked = False
        return reason

    def finished(self, now: float, took: float) -> None:
        """It is there, or has failed, after `took` seconds."""
        was_calm = self._end is not None and now - took - self._end >= self.CALM * took
        self._rested = now + (self.SHORTEST_REST if was_calm else max(self.SHORTEST_REST, self.REST * took))
        self._end = now
