"""One counters sample compared with the system calls that it needs, alternately in the same
process."""

from __future__ import annotations

import array
import fcntl
import functools
import json
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nictop.probe.counters import links as link_counters
from nictop.probe.counters.on_demand import drivers as driver_counters
from nictop.probe.counters.on_demand import queues as queue_counters
from nictop.probe.counters.on_demand.drivers import (
    ETHTOOL_REQUEST,
    NAME_REQUEST,
    SET_INFO,
    STATS_HEAD,
)
from nictop.probe.counters.reader import CounterReader
from nictop.probe.counters.sample import Sample
from nictop.probe.kernel import netlink
from tests.benchmarks.links import veth_namespace
from tests.benchmarks.results import Result

BATCH = 50
"""Calls between two reads of the CPU clock, which itself is a system call."""


def sample_of_six_links(quick: bool) -> Iterator[Result]:
    rounds = 60 if quick else 400
    with veth_namespace(6) as namespace:
        index = namespace.call(lambda: socket.if_nametoindex("left0"))
        for watched, what in (
            ((), "counters sample, 6 veth + lo"),
            ((index,), "… one link watched"),
        ):
            times = namespace.call(functools.partial(measured, watched, rounds))
            yield Result(f"{what}: bare system calls", times.bare * 1e6, None, "µs CPU")
            yield Result(f"{what}, all links moved", times.moved * 1e6, 200, "µs CPU")
            yield Result(f"{what}, no link moved", times.still * 1e6, 200, "µs CPU")
            yield Result(f"{what}, all moved, as a JSON line", times.encoded * 1e6, None, "µs CPU")
            yield Result(f"{what}, all moved, against bare", times.moved / times.bare, 1.6, "times")
            yield Result(
                f"{what}, none moved, against bare", times.still / times.bare, 1.6, "times"
            )


def sample_of_many_links(quick: bool) -> Iterator[Result]:
    with veth_namespace(200) as namespace:
        times = namespace.call(lambda: measured((), 10 if quick else 60))
    yield Result("counters sample, 200 veth: bare system calls", times.bare * 1e3, None, "ms CPU")
    yield Result("counters sample, 200 veth, all moved", times.moved * 1e3, 1, "ms CPU")
    yield Result("counters sample, 200 veth, none moved", times.still * 1e3, 1, "ms CPU")
    yield Result(
        "counters sample, 200 veth, all moved, as a JSON line", times.encoded * 1e3, None, "ms CPU"
    )


class Times(NamedTuple):
    """Median CPU seconds of one sample."""

    bare: float
    """Its system calls alone."""
    still: float
    """When no link counter has changed since the last sample. /proc/stat and similar files are
    parsed all the same."""
    moved: float
    """When the counters of all links have changed."""
    encoded: float
    """When all have changed, encoding as a JSON line included."""


def measured(watched: tuple[int, ...], rounds: int) -> Times:
    """Measures the four alternately, so that other load on this machine affects them equally."""
    reader = CounterReader()
    reader.watch(watched)
    reader.read()
    bare, release = bare_calls(watched)

    def moved() -> Sample:
        reader._links.drop_cache()
        return reader.read()

    turns: list[Callable[[], object]] = [
        bare,
        reader.read,
        moved,
        lambda: json.dumps({"counters": vars(moved())}),
    ]
    times: tuple[list[float], ...] = ([], [], [], [])
    for _ in range(rounds):
        for turn, found in zip(turns, times, strict=True):
            found.append(cpu_seconds(turn))
    reader.close()
    release()
    return Times(*map(statistics.median, times))


def cpu_seconds(call: Callable[[], object]) -> float:
    begin = time.thread_time_ns()
    for _ in range(BATCH):
        call()
    return (time.thread_time_ns() - begin) / BATCH / 1e9


def bare_calls(watched: tuple[int, ...]) -> tuple[Callable[[], None], Callable[[], None]]:
    """A function that makes the system calls of one sample and ignores the data, and one that frees
    its resources."""
    rtnetlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
    generic = netlink.NetlinkSocket(netlink.NETLINK_GENERIC)
    paths = ("/proc/stat", "/proc/softirqs", "/proc/net/softnet_stat")
    stat, softirqs, softnet = files = [os.open(path, os.O_RDONLY) for path in paths]
    buffer, text = bytearray(netlink.RECEIVE_BUFFER_BYTES), bytearray(8192)
    end_of_softnet = os.preadv(softnet, [text], 0)
    flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
    dump = (
        netlink.HEADER.pack(28, link_counters.RTM_GETSTATS, flags, 1, 0)
        + link_counters.STATS_REQUEST
    )
    queries = [queue_query(generic, ifindex, flags) for ifindex in watched]
    ioctls = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    requests = [driver_requests(ioctls, ifindex) for ifindex in watched]

    def receive(opened: netlink.NetlinkSocket) -> None:
        while True:
            size = opened.socket.recv_into(buffer)
            if size == 36 or buffer[size - 16 : size - 14] == b"\3\0" or buffer[4] in (2, 3):
                return

    def calls() -> None:
        rtnetlink.socket.send(dump)
        receive(rtnetlink)
        os.preadv(stat, [text], 0)
        os.preadv(softirqs, [text], 0)
        os.preadv(softnet, [text], 0)
        os.preadv(softnet, [text], end_of_softnet)
        for name, count, numbers, *_ in requests:
            fcntl.ioctl(ioctls, driver_counters.SIOCGIFNAME, name)
            fcntl.ioctl(ioctls, driver_counters.SIOCETHTOOL, count)
            fcntl.ioctl(ioctls, driver_counters.SIOCETHTOOL, numbers)
        for query in queries:
            generic.socket.send(query)
            receive(generic)

    def release() -> None:
        for descriptor in files:
            os.close(descriptor)
        for opened in (rtnetlink, generic, ioctls):
            opened.close()

    return calls, release


def queue_query(generic: netlink.NetlinkSocket, ifindex: int, flags: int) -> bytes:
    body = netlink.GENERIC_HEADER.pack(queue_counters.NETDEV_CMD_QSTATS_GET, 1)
    body += netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_IFINDEX, ifindex)
    body += netlink.pack_u32(
        queue_counters.NETDEV_A_QSTATS_SCOPE, queue_counters.NETDEV_QSTATS_SCOPE_QUEUE
    )
    return netlink.HEADER.pack(16 + len(body), generic.family("netdev"), flags, 2, 0) + body


def driver_requests(
    ioctls: socket.socket, ifindex: int
) -> tuple[bytes, bytes, bytes, object, object]:
    """Arguments of SIOCGIFNAME, ETHTOOL_GSSET_INFO and ETHTOOL_GSTATS, and the buffers to which the
    last two point."""
    name_request = NAME_REQUEST.pack(b"", ifindex)
    name = NAME_REQUEST.unpack(fcntl.ioctl(ioctls, driver_counters.SIOCGIFNAME, name_request))[0]
    count = array.array("B", bytes(SET_INFO.size))
    SET_INFO.pack_into(
        count, 0, driver_counters.ETHTOOL_GSSET_INFO, 0, 1 << driver_counters.ETH_SS_STATS, 0
    )
    numbers = array.array("Q", bytes(8 * (1 + driver_counters.SPARE_COUNTERS)))
    STATS_HEAD.pack_into(numbers, 0, driver_counters.ETHTOOL_GSTATS, 0)
    pointers = [ETHTOOL_REQUEST.pack(name, memory.buffer_info()[0]) for memory in (count, numbers)]
    return name_request, pointers[0], pointers[1], count, numbers
