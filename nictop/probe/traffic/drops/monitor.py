"""The drop monitor of the kernel: generic netlink, family NET_DM (linux/net_dropmon.h) →
`DropReport`.

Only on request, as root, and for a limited time: the kernel sends a message for each packet that it
drops in any network namespace, with the reason, the function that dropped it, the NIC that received
it and its first bytes. Packets without a link-layer header are not reported
(net_dm_packet_trace_kfree_skb_hit): those that have no route, that wait for a neighbour, or that an
output chain of netfilter drops.

A kernel has one drop monitor. It goes on when the socket of its user is closed, so it is started
and stopped by a process of its own (`kernel.daemonize`). That one sees the end of this process in
whatever way it ends, stops the monitor and restores its settings. A drop monitor that another
program uses is left alone.

Kernel: net/core/drop_monitor.c; drops of devices:
Documentation/networking/devlink/devlink-trap.rst.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time

from nictop.probe.kernel import daemonize
from nictop.probe.kernel.netlink import (
    GENERIC_HEADER,
    NETLINK_GENERIC,
    RECEIVE_BUFFER_BYTES,
    NetlinkSocket,
    iter_attributes,
    messages,
    pack_attribute,
    pack_u32,
    unsigned,
)
from nictop.probe.records import DropReport
from nictop.probe.traffic.drops.groups import DropCounter
from nictop.probe.traffic.drops.messages import parse_drop

FAMILY, GROUP = "NET_DM", "events"
NET_DM_CMD_CONFIG, NET_DM_CMD_START, NET_DM_CMD_STOP, NET_DM_CMD_PACKET_ALERT = 2, 3, 4, 5
NET_DM_CMD_CONFIG_GET, NET_DM_CMD_STATS_GET = 6, 8
NET_DM_ATTR_ALERT_MODE, NET_DM_ATTR_TRUNC_LEN, NET_DM_ATTR_QUEUE_LEN = 1, 9, 11
NET_DM_ATTR_STATS, NET_DM_ATTR_HW_STATS, NET_DM_ATTR_SW_DROPS, NET_DM_ATTR_HW_DROPS = 12, 13, 20, 21
NET_DM_ATTR_STATS_DROPPED = 0
NET_DM_ALERT_MODE_PACKET = 1

SO_RCVBUFFORCE = 33
"""include/uapi/asm-generic/socket.h"""
PACKET_BYTES = 96
"""First bytes of a packet that the kernel copies: Ethernet and IPv6 headers with VLAN tags and
ports are 66."""
QUEUE_PACKETS = 1024
"""Of each CPU, between the drop and its message."""
SOCKET_BYTES = 4 * 1024 * 1024
MAX_PACKETS = 100_000
"""The monitor is stopped then. They take 1 to 3 s of CPU time."""
STOP_MARGIN_SECONDS = 5.0
"""The process that stops the monitor does so this long after the end, if it was not told to."""
START_TIMEOUT, STOP_TIMEOUT = 5.0, 5.0
"""Seconds for the kernel to start and to stop it."""
MAX_REPLY_BYTES = 4096


class Monitor:
    """Starts, configures and stops the drop monitor. Raises OSError."""

    def __init__(self, netlink: NetlinkSocket) -> None:
        self._netlink = netlink
        self._settings = b""
        self._flags = b""

    def start(self) -> bool:
        """Whether drops of devices are monitored too. OSError EBUSY: another program uses it,
        nothing was changed."""
        # refused while it runs; without attributes it changes nothing
        self._netlink.generic(FAMILY, NET_DM_CMD_CONFIG)
        self._settings = self._read_settings()
        settings = pack_attribute(NET_DM_ATTR_ALERT_MODE, bytes([NET_DM_ALERT_MODE_PACKET]))
        settings += pack_u32(NET_DM_ATTR_TRUNC_LEN, PACKET_BYTES) + pack_u32(
            NET_DM_ATTR_QUEUE_LEN, QUEUE_PACKETS
        )
        self._netlink.generic(FAMILY, NET_DM_CMD_CONFIG, settings)
        software, hardware = (
            pack_attribute(NET_DM_ATTR_SW_DROPS, b""),
            pack_attribute(NET_DM_ATTR_HW_DROPS, b""),
        )
        try:
            for self._flags in (software + hardware, software):
                try:
                    self._netlink.generic(FAMILY, NET_DM_CMD_START, self._flags)
                    return self._flags != software
                except OSError as error:
                    if error.errno == errno.EAGAIN:
                        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from error
                    if self._flags == software:
                        raise
        except OSError as error:
            if error.errno != errno.EBUSY:
                self._restore()
            raise
        raise AssertionError("the second attempt returns or raises")

    def stop(self) -> None:
        """Also restores its settings."""
        self._netlink.generic(FAMILY, NET_DM_CMD_STOP, self._flags)
        self._restore()

    def lost(self) -> int:
        """Dropped packets for which the queue of a CPU was full, since the family was loaded."""
        for reply in self._netlink.generic(FAMILY, NET_DM_CMD_STATS_GET):
            return parse_lost(reply)
        return 0

    def _read_settings(self) -> bytes:
        """As attributes of NET_DM_CMD_CONFIG."""
        known = (NET_DM_ATTR_ALERT_MODE, NET_DM_ATTR_TRUNC_LEN, NET_DM_ATTR_QUEUE_LEN)
        for reply in self._netlink.generic(FAMILY, NET_DM_CMD_CONFIG_GET):
            return b"".join(
                pack_attribute(kind, value)
                for kind, value in iter_attributes(reply)
                if kind in known
            )
        return b""

    def _restore(self) -> None:
        with contextlib.suppress(OSError):  # EBUSY: another program started it in the meantime
            self._netlink.generic(FAMILY, NET_DM_CMD_CONFIG, self._settings)


def parse_lost(attributes: bytes) -> int:
    """Of NET_DM_CMD_STATS_NEW."""
    total = 0
    for kind, value in iter_attributes(attributes):
        if kind in (NET_DM_ATTR_STATS, NET_DM_ATTR_HW_STATS):
            total += unsigned(dict(iter_attributes(value)).get(NET_DM_ATTR_STATS_DROPPED, b""))
    return total


def keep_running(seconds: float, reports: int, commands: int) -> None:
    """Run the monitor until `commands` ends, or for `seconds`. Reports ``+`` (with devices) or
    ``-``, or the errno and text of an error; finally the number of packets that were not
    reported."""
    with NetlinkSocket(NETLINK_GENERIC) as netlink:
        monitor = Monitor(netlink)
        try:
            lost = monitor.lost()
            hardware = monitor.start()
        except OSError as error:
            os.write(reports, f"{error.errno or 0} {error.strerror or error}\n".encode())
            return
        try:
            with contextlib.suppress(OSError):  # nobody reads it
                os.write(reports, b"+\n" if hardware else b"-\n")
            wait_for_end(commands, seconds)
        finally:
            monitor.stop()
        with contextlib.suppress(OSError):
            os.write(reports, f"{monitor.lost() - lost}\n".encode())


def wait_for_end(descriptor: int, seconds: float) -> None:
    """Until the other end of a pipe is closed, or has been written to."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(seconds * 1000)


def read_drops(seconds: float, proc: str = "/proc") -> DropReport:
    """Monitor dropped packets for `seconds`. Takes up to 10 s longer if starting and stopping it is
    slow."""
    try:
        with NetlinkSocket(NETLINK_GENERIC) as netlink:
            return _read_drops(netlink, seconds, proc)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
            # no such family, or one before Linux 5.4
            return DropReport("not_offered" if is_first_namespace(proc) else "other_namespace")
        if error.errno in (errno.EPERM, errno.EACCES):
            return DropReport("needs_root")
        if error.errno in (errno.EBUSY, errno.EAGAIN):
            return DropReport("busy")
        return DropReport("failed", error.strerror or str(error))


def _read_drops(netlink: NetlinkSocket, seconds: float, proc: str) -> DropReport:
    if os.geteuid() != 0:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    family, group = netlink.family(FAMILY), netlink.multicast_group(FAMILY, GROUP)
    if group is None:
        raise FileNotFoundError(errno.ENOENT, "no multicast group events")
    with contextlib.suppress(OSError):  # not in a user namespace
        netlink.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
    netlink.join(group)

    def work(reports: int, commands: int) -> None:
        for signal_number in (signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(
                signal_number, signal.SIG_IGN
            )  # it ends soon by itself, and must stop the monitor
        keep_running(seconds + STOP_MARGIN_SECONDS, reports, commands)

    pipes, _ = daemonize.start(work)
    try:
        answer = read_line(pipes.reports, START_TIMEOUT)
        if answer not in ("+", "-"):
            number, _, message = answer.partition(" ")
            raise OSError(
                int(number) if number.isdecimal() else 0,
                message or answer or "no answer from the monitor",
            )
        start = time.monotonic()
        counter, overruns = receive(netlink.socket, family, start + seconds)
        duration = time.monotonic() - start
        os.close(pipes.commands)
        pipes.commands = -1
        lost = read_line(pipes.reports, STOP_TIMEOUT)
    finally:
        pipes.close()
    return DropReport(
        "complete" if counter.packets < MAX_PACKETS else "stopped",
        seconds=duration,
        packets=counter.packets,
        groups=counter.groups(),
        lost=int(lost) if lost.isdecimal() else 0,
        overruns=overruns,
        hardware=answer == "+",
        namespaces=len(other_namespaces(proc)),
    )


def receive(connection: socket.socket, family: int, deadline: float) -> tuple[DropCounter, int]:
    """Count what is received until the deadline (CLOCK_MONOTONIC), or `MAX_PACKETS`; and how often
    the buffer was full."""
    counter, overruns = DropCounter(), 0
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while counter.packets < MAX_PACKETS:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poll.poll(remaining * 1000):
            break
        try:
            data = connection.recv(RECEIVE_BUFFER_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            overruns += 1
            continue
        for kind, _, _, start, end in messages(data):
            if (
                kind == family
                and end - start >= GENERIC_HEADER.size
                and data[start] == NET_DM_CMD_PACKET_ALERT
            ):
                counter.add(parse_drop(data[start + GENERIC_HEADER.size : end]))
    return counter, overruns


def read_line(descriptor: int, seconds: float) -> str:
    """A line without its end, from a pipe that does not block; "": none within `seconds`, or the
    pipe has ended."""
    deadline, received = time.monotonic() + seconds, b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while b"\n" not in received and len(received) < MAX_REPLY_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            break
        data = os.read(descriptor, MAX_REPLY_BYTES)
        if not data:
            break
        received += data
    return received.partition(b"\n")[0].decode("utf-8", "replace")


def is_first_namespace(proc: str = "/proc") -> bool:
    """This process is in the initial network namespace, as far as can be seen: that of process
    1."""
    try:
        return os.stat(f"{proc}/1/ns/net").st_ino == os.stat(f"{proc}/self/ns/net").st_ino
    except OSError:
        return True


def other_namespaces(proc: str = "/proc", run: str = "/run/netns") -> set[int]:
    """Inodes of the network namespaces that processes use or that have a name (ip-netns(8)),
    without the own one."""
    paths = [f"{proc}/{name}/ns/net" for name in os.listdir(proc) if name.isdecimal()]
    with contextlib.suppress(OSError):
        paths += [f"{run}/{name}" for name in os.listdir(run)]
    found = set()
    for path in paths:
        with contextlib.suppress(OSError):  # the process has ended
            found.add(os.stat(path).st_ino)
    with contextlib.suppress(OSError):
        found.discard(os.stat(f"{proc}/self/ns/net").st_ino)
    return found
