"""Kernel events: netlink messages → `LinkChange`, and whether the inventory is out of date.

Receives rtnetlink (links, addresses, routes, queueing disciplines, routing rules, some sysctls),
uevents of the kernel and of udev (PCI functions, drivers and netdevs, also those without a link),
the `monitor` group of the ethtool family (settings), and the `config` group of the devlink family
(ports, health reporters, parameters). Links and addresses also of the other network namespaces
that an inventory describes: the other end of a veth, containers. Checks new kernel log messages on
request. libudev is not needed: its messages are plain datagrams. Each source may be missing;
`Events.missing` has the errors.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from functools import partial

from nictop.probe.inventory.machine.message_table import MAX_KMSG_BYTES, is_candidate
from nictop.probe.kernel import netlink
from nictop.probe.kernel.capabilities import NUMBERS, held_capabilities
from nictop.probe.kernel.if_link import (
    IFLA_CARRIER,
    IFLA_CARRIER_CHANGES,
    IFLA_IFNAME,
    IFLA_MTU,
    IFLA_OPERSTATE,
    IFLA_WIRELESS,
    operstate_name,
)
from nictop.probe.kernel.namespace_ids import NAMESPACE_ID, own_id
from nictop.probe.kernel.route_lookup import RTA_DST, RTMSG
from nictop.probe.kernel.route_protocols import routing_daemon
from nictop.probe.kernel.rtnetlink import (
    IFA_ADDRESS,
    IFA_FLAGS,
    IFA_LOCAL,
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_DELQDISC,
    RTM_DELROUTE,
    RTM_DELRULE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNETCONF,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWRULE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Literal

    from nictop.probe.records import EventSource

    Change = dict[str, object]
    RouteChange = Literal["", "default route", "route", "daemon"]

RTNLGRP_LINK, RTNLGRP_TC, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE = 1, 4, 5, 7, 8
RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE = 9, 11, 19
RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF = 24, 25
RTNETLINK_GROUPS = (
    RTNLGRP_LINK,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV4_ROUTE,
    RTNLGRP_IPV6_ROUTE,
    RTNLGRP_TC,
    RTNLGRP_IPV4_RULE,
    RTNLGRP_IPV6_RULE,
    RTNLGRP_IPV4_NETCONF,
    RTNLGRP_IPV6_NETCONF,
)
"""NETCONF: rp_filter, forwarding and other sysctls of a link."""
NAMESPACE_GROUPS = (RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR)
"""What an inventory has of other network namespaces."""
NETLINK_LISTEN_ALL_NSID = 8
"""Option of a socket, and type of the control message with the id of the namespace of a message
(linux/netlink.h)."""
CONTROL_BYTES = socket.CMSG_SPACE(NAMESPACE_ID.size)
ROUTE_TYPES = (1, 6, 7, 8, 9)
"""RTN_UNICAST, and those that refuse packets (linux/rtnetlink.h): what an inventory has."""
RTM_F_CLONED = 0x200
INVENTORY_MESSAGES: dict[int, EventSource] = {
    RTM_NEWRULE: "routing rule",
    RTM_DELRULE: "routing rule",
    RTM_NEWQDISC: "queueing discipline",
    RTM_DELQDISC: "queueing discipline",
    RTM_NEWNETCONF: "sysctl of a link",
}
"""Messages after which a new inventory is needed. Classes, filters and actions of queueing
disciplines are left out: they change by the thousand on hosts with containers."""

DEVLINK_CHANGES = frozenset((3, 4, 7, 8, 40, 41, 54, 76, 77))
"""DEVLINK_CMD_NEW and _DEL, the same of PORT_, PARAM_ and RATE_, and HEALTH_REPORTER_RECOVER, which
is sent when the state of a reporter changes. Others, of traps and of flash updates, change nothing
in an inventory."""

EVENT_SOURCES: tuple[EventSource, ...] = (
    "events were lost",
    "device",
    "link",
    "address",
    "default route",
    "route",
    "routing rule",
    "queueing discipline",
    "sysctl of a link",
    "ethtool setting",
    "devlink",
    "another namespace",
)
"""The most important one first."""

MAX_KNOWN_ADDRESSES = 4096
OTHER_NAMESPACES = "other namespaces"

UEVENT_KERNEL, UEVENT_UDEV = 1, 2
"""Multicast groups of NETLINK_KOBJECT_UEVENT."""
UDEV_HEADER = struct.Struct("=8sIIII")
"""struct udev_monitor_netlink_header: "libudev", magic, header size, offset and length of the
properties."""
NETWORK_SUBSYSTEMS = {"net", "pci", "virtio", "vmbus", "xen"}
"""USB and platform NICs are covered by their netdev; without one there is nothing to show."""
VIRTIO_NET_MODALIAS = "virtio:d00000001v"

EVENT_SOCKET_BYTES = 1024 * 1024
"""SO_RCVBUF: one veth pair causes about twenty messages of 1.5 KiB."""
MAX_EVENTS_PER_WAKE = 256
"""Messages read per wake-up, so that many events cannot delay the counters."""


class Events:
    """The event sockets of one network namespace.

    `sockets`: descriptors to poll; `read` reads one of them until it is empty. `missing`: sources
    that this kernel does not have or this user may not read: "rtnetlink", "uevents", "ethtool",
    "devlink", "other namespaces"; devlink not if the kernel has none at all, the last one not if
    this user may not read what is in them either.
    """

    def __init__(self) -> None:
        self.sockets: dict[int, tuple[str, socket.socket]] = {}
        self.missing: dict[str, OSError] = {}
        self.daemon_routes = False
        """A routing daemon has changed routes other than the default route."""
        self._addresses: set[bytes] = set()
        self._others: set[int] = set()
        """Ids of other network namespaces."""
        self._own_id: int | None = None
        sources: dict[str, Callable[[], socket.socket]] = {
            "rtnetlink": _route_socket,
            "uevents": _uevent_socket,
            "ethtool": partial(_generic_socket, "ethtool", "monitor"),
            "devlink": partial(_generic_socket, "devlink", "config"),
            OTHER_NAMESPACES: _namespace_socket,
        }
        for name, connect in sources.items():
            try:
                connection = connect()
            except OSError as error:
                if not has_nothing_to_tell(name, error):
                    self.missing[name] = error
                continue
            connection.setblocking(False)
            self.sockets[connection.fileno()] = (name, connection)
        self._log = _kernel_log()

    def has_known_messages(self) -> bool:
        """Whether a kernel log message since the last call may be about a problem of a NIC, or
        messages were lost. False without permission to read them."""
        if self._log < 0:
            return False
        found = False
        try:
            for _ in range(MAX_EVENTS_PER_WAKE):
                record = os.read(self._log, MAX_KMSG_BYTES)
                found = found or is_candidate(record)
            os.lseek(self._log, 0, os.SEEK_END)
        except BlockingIOError:  # no more records
            return found
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

    def read(self, descriptor: int) -> tuple[list[Change], EventSource]:
        """Read one socket: (the latest `records.LinkChange` of each link, as mappings; what the
        events were about after which the inventory is out of date, "": there were none).

        Never raises for what is received. Also out of date after an overrun (ENOBUFS), when events
        were lost.
        """
        name, connection = self.sockets[descriptor]
        changes: dict[int, Change] = {}
        sources: set[EventSource] = set()
        for _ in range(MAX_EVENTS_PER_WAKE):
            try:
                data, control, _, (port, groups) = connection.recvmsg(
                    netlink.RECEIVE_BUFFER_BYTES, CONTROL_BYTES
                )
            except BlockingIOError:
                break
            except OSError:
                # ENOBUFS; the kernel drops further events until the queued ones have been read
                sources.add("events were lost")
                continue
            if not groups or (port and name != "uevents"):
                continue  # not an event: any process may send to this port
            if name == "rtnetlink":
                for kind, _, _, start, end in netlink.messages(data):
                    sources.add(self._route_event(kind, data[start:end], changes))
            elif name == OTHER_NAMESPACES:
                sources.add(self._namespace_event(data, namespace_of(control)))
            else:
                sources.add(parse_event(name, data))
        return list(changes.values()), main_source(sources)

    def _route_event(self, kind: int, body: bytes, changes: dict[int, Change]) -> EventSource:
        if kind in (RTM_NEWLINK, RTM_DELLINK):
            change = parse_link_change(body, gone=kind == RTM_DELLINK, time=time.monotonic())
            if change is not None:
                changes[IFINFOMSG.unpack_from(body)[2]] = change  # the latest per link
            # AF_BRIDGE: state, settings or VLANs of a bridge port
            is_port = body[:1] == bytes((socket.AF_BRIDGE,))
            return "link" if change is not None or is_port else ""
        if kind in (RTM_NEWADDR, RTM_DELADDR):
            return "address" if self._is_new_address(body, added=kind == RTM_NEWADDR) else ""
        if kind in (RTM_NEWROUTE, RTM_DELROUTE):
            return self._note_route(parse_route_change(body))
        return INVENTORY_MESSAGES.get(kind, "")

    def _note_route(self, change: RouteChange) -> EventSource:
        if change == "daemon":
            self.daemon_routes = True
            return ""
        return change

    def _namespace_event(self, data: bytes, namespace: int | None) -> EventSource:
        """None: it is of this one, which has a socket of its own."""
        if namespace is None or not self._is_other(namespace):
            return ""
        for kind, _, _, start, end in netlink.messages(data):
            body = data[start:end]
            is_relevant = False
            if kind in (RTM_NEWLINK, RTM_DELLINK):
                is_relevant = parse_link_change(body, gone=False, time=0.0) is not None
            elif kind in (RTM_NEWADDR, RTM_DELADDR):
                added = kind == RTM_NEWADDR
                is_relevant = self._is_new_address(body, added=added, namespace=namespace)
            if is_relevant:
                return "another namespace"
        return ""

    def _is_other(self, namespace: int) -> bool:
        """It is not the id of this namespace, which may have one here as well."""
        if namespace in self._others:
            return True
        if self._own_id is None:
            self._own_id = own_id()
        if namespace == self._own_id:
            return False
        self._others.add(namespace)
        return True

    def _is_new_address(self, body: bytes, *, added: bool, namespace: int = -1) -> bool:
        """Whether addresses have changed. Router advertisements renew lifetimes every few seconds
        with a message for each address; those are ignored. `namespace`: -1 is this one."""
        address = NAMESPACE_ID.pack(namespace) + parse_address(body)
        known = address in self._addresses
        if not added:
            self._addresses.discard(address)
            return True
        if len(self._addresses) >= MAX_KNOWN_ADDRESSES:
            self._addresses.clear()
        self._addresses.add(address)
        return not known


def has_nothing_to_tell(source: str, error: OSError) -> bool:
    """The kernel has no such thing; or this process may not read what is in other namespaces
    (`inventory.guests.namespaces`), so that nothing of it can be out of date."""
    if source == "devlink":
        return error.errno == errno.ENOENT
    if source != OTHER_NAMESPACES:
        return False
    if error.errno == errno.ENOPROTOOPT or os.geteuid() != 0:
        return True
    try:
        return NUMBERS["net_admin"] not in held_capabilities()
    except OSError:
        return False


def main_source(sources: Collection[EventSource]) -> EventSource:
    """The most important one: a new link causes events of its sysctls and addresses, too; "": there
    is none."""
    return next((source for source in EVENT_SOURCES if source in sources), "")


def parse_event(source: str, data: bytes) -> EventSource:
    """What a datagram of one of the `Events.sockets` other than rtnetlink is about; "": the
    inventory is not out of date."""
    if source == "ethtool":
        return "ethtool setting"
    if source == "devlink":
        return "devlink" if is_devlink_change(data) else ""
    return "device" if parse_uevent_relevance(data) else ""


def parse_link_change(body: bytes, *, gone: bool, time: float) -> Change | None:
    """`records.LinkChange` of one RTM_NEWLINK or RTM_DELLINK; None when the message is not about
    the link itself.

    A bridge sends RTM_DELLINK with AF_BRIDGE when a *port* is removed, and wireless drivers send
    RTM_NEWLINK without state: neither is a change of the link.
    """
    if len(body) < IFINFOMSG.size:
        return None
    family, _, ifindex, flags, _ = IFINFOMSG.unpack_from(body)
    fields = dict(netlink.iter_attributes(body[IFINFOMSG.size :]))
    name, mtu, state = fields.get(IFLA_IFNAME), fields.get(IFLA_MTU), fields.get(IFLA_OPERSTATE)
    if (
        family != socket.AF_UNSPEC
        or ifindex <= 0
        or not name
        or not mtu
        or not state
        or IFLA_WIRELESS in fields
    ):
        return None
    carrier, changes = fields.get(IFLA_CARRIER), fields.get(IFLA_CARRIER_CHANGES)
    return {
        "time": time,
        "ifindex": ifindex,
        "gone": gone,
        "name": netlink.text(name),
        "operstate": operstate_name(netlink.unsigned(state)),
        "carrier": bool(netlink.unsigned(carrier)) if carrier and flags & IFF_UP else None,
        "flags": flags,
        "mtu": netlink.unsigned(mtu),
        "carrier_changes": netlink.unsigned(changes) if changes else None,
    }


def parse_route_change(body: bytes) -> RouteChange:
    """What an RTM_NEWROUTE or RTM_DELROUTE is about: "default route", "route", "daemon" (a route of
    a routing daemon, which may have hundreds of thousands and change them all the time); "":
    nothing that is in an inventory."""
    if len(body) < RTMSG.size:
        return ""
    family, length, _, _, _, protocol, _, kind, flags = RTMSG.unpack_from(body)
    if length == 0:
        return "default route"
    if kind not in ROUTE_TYPES or flags & RTM_F_CLONED:
        return ""
    if routing_daemon(protocol):
        return "daemon"
    destination = dict(netlink.iter_attributes(body[RTMSG.size :])).get(RTA_DST, b"")
    if family == socket.AF_INET6 and destination >= b"\xfe":
        return ""  # link-local, multicast
    return "route"


def parse_address(body: bytes) -> bytes:
    """The bytes of one RTM_NEWADDR that identify an address and its state, without its remaining
    lifetime."""
    if len(body) < IFADDRMSG.size:
        return body
    fields = dict(netlink.iter_attributes(body[IFADDRMSG.size :]))
    return b"\0".join(
        (body[: IFADDRMSG.size], *(fields.get(a, b"") for a in (IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS)))
    )


def namespace_of(control: Sequence[tuple[int, int, bytes]]) -> int | None:
    """Id of the other network namespace that a message is of; None: it is of this one."""
    for level, kind, data in control:
        is_id = level == netlink.SOL_NETLINK and kind == NETLINK_LISTEN_ALL_NSID
        if is_id and len(data) >= NAMESPACE_ID.size:
            number: int = NAMESPACE_ID.unpack_from(data)[0]
            return number
    return None


def is_devlink_change(data: bytes) -> bool:
    """Whether messages of the devlink family can change the inventory."""
    return any(
        end > start and data[start] in DEVLINK_CHANGES
        for _, _, _, start, end in netlink.messages(data)
    )


def parse_uevent(data: bytes) -> dict[str, str]:
    """Properties of one uevent in the format of the kernel (``add@/devices/…``) or of udevd; {} for
    anything else."""
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


def parse_uevent_relevance(data: bytes) -> bool:
    """Whether a uevent can change the inventory: a netdev, a network function, its driver, or its
    parent device."""
    event = parse_uevent(data)
    subsystem = event.get("SUBSYSTEM")
    if subsystem == "pci":
        code = event.get("PCI_CLASS", "").upper()  # class code in hexadecimal without leading zeros
        return (len(code) == 5 and code.startswith("2")) or code.startswith("C06")
    if subsystem == "virtio":
        return event.get("MODALIAS", VIRTIO_NET_MODALIAS).startswith(VIRTIO_NET_MODALIAS)
    return subsystem in NETWORK_SUBSYSTEMS


def _route_socket() -> socket.socket:
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as opened:
        for group in RTNETLINK_GROUPS:
            opened.join(group)
        return _event_socket(opened)


def _namespace_socket() -> socket.socket:
    """Messages of each network namespace that has an id here, to who has CAP_NET_BROADCAST there
    (Linux 4.2, net/netlink/af_netlink.c: do_one_broadcast). Of this one, too."""
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as opened:
        opened.socket.setsockopt(netlink.SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, 1)
        for group in NAMESPACE_GROUPS:
            opened.join(group)
        return _event_socket(opened)


def _generic_socket(family: str, name: str) -> socket.socket:
    """Of a multicast group of a generic netlink family."""
    with netlink.NetlinkSocket(netlink.NETLINK_GENERIC) as opened:
        group = opened.multicast_group(family, name)
        if group is None:
            raise FileNotFoundError(errno.ENOENT, f"no group {name}")
        opened.join(group)
        return _event_socket(opened)


def _event_socket(opened: netlink.NetlinkSocket) -> socket.socket:
    """A duplicate of the socket with a large receive buffer; it stays open when `opened` is
    closed."""
    opened.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, EVENT_SOCKET_BYTES)
    return opened.socket.dup()


def _uevent_socket() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, netlink.NETLINK_KOBJECT_UEVENT) as connection:
        connection.bind((0, UEVENT_KERNEL | UEVENT_UDEV))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, EVENT_SOCKET_BYTES)
        return connection.dup()


def _kernel_log(path: str = "/dev/kmsg") -> int:
    """A descriptor of the kernel log, at its end; -1: it may not be read."""
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
