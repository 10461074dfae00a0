"""Counters of lost packets of this network namespace → `LossCount` records: two readings tell what
was lost in between.

Reads /proc/net/snmp, snmp6, netstat, softnet_stat and stat/nf_conntrack, the counters of all links
(RTM_GETSTATS), the drops of all queueing disciplines (RTM_GETQDISC: those of ingress and clsact
count what their filters drop, net/core/ dev.c, sch_handle_ingress), the XDP counters of one driver,
cpu.stat of the own cgroup, which is also that of the generators, and, as root, what the filter
chains of nftables and iptables-legacy dropped. A reading takes some milliseconds (0.2 s with 2000
filter rules); what cannot be read is left out.
"""

from __future__ import annotations

import contextlib
import os
import socket

from nictop.probe.counters.links import LinkCounterReader
from nictop.probe.inventory.ethtool.ioctl import read_driver_counters
from nictop.probe.inventory.filters.reader import read_filters
from nictop.probe.inventory.links.qdisc_messages import (
    TCA_KIND,
    TCA_STATS2,
    TCMSG,
    dropped_packets,
    name_of,
)
from nictop.probe.inventory.machine.sysctl import parse_protocol
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
    text,
)
from nictop.probe.kernel.rtnetlink import RTM_GETQDISC
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.records import LINK_COUNTERS, LossCount, PacketChain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Reader = Callable[[str, str, int], Iterable[LossCount]]
    """(proc, root of the cgroup file systems, ifindex of the NIC under test or 0) → counters. May
    raise OSError."""

MAX_PROTOCOL_BYTES = 64 * 1024
MAX_LOSS_COUNTS = 512
"""Of one reading: the largest ones."""
MAX_QDISCS = 4096
PROTOCOL_COUNTERS = {
    ("snmp", "Ip"): (
        *("InHdrErrors", "InAddrErrors", "InDiscards", "OutDiscards", "OutNoRoutes"),
        *("ReasmFails", "ReasmReqds", "ReasmOKs"),
    ),
    ("snmp", "Icmp"): ("InCsumErrors",),
    ("snmp", "Tcp"): ("InCsumErrors",),
    ("snmp", "Udp"): ("InCsumErrors", "RcvbufErrors", "SndbufErrors", "MemErrors"),
    ("netstat", "TcpExt"): (
        "IPReversePathFilter",
        "TCPBacklogDrop",
        "TCPRcvQDrop",
        "PFMemallocDrop",
        "ListenDrops",
    ),
    ("netstat", "IpExt"): ("InNoRoutes", "InTruncatedPkts"),
}
"""(file in /proc/net, protocol) → counters of lost packets, and of fragments (net/ipv4/proc.c)."""
SNMP6_COUNTERS = (
    "Ip6InHdrErrors", "Ip6InAddrErrors", "Ip6InDiscards", "Ip6OutDiscards", "Ip6OutNoRoutes",
    "Ip6InNoRoutes", "Ip6ReasmFails", "Ip6ReasmReqds", "Ip6ReasmOKs", "Icmp6InCsumErrors",
    "Udp6InCsumErrors", "Udp6RcvbufErrors", "Udp6SndbufErrors",
)  # fmt: skip
"""net/ipv6/proc.c"""
LOST_LINK_COUNTERS = (
    "rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_crc_errors", "rx_fifo_errors",
    "rx_missed_errors", "rx_nohandler", "tx_carrier_errors",
)  # fmt: skip
CONNTRACK_COLUMNS = ("insert_failed", "drop", "early_drop")
CGROUP_V1_FOLDERS = ("cpu,cpuacct", "cpu")
THROTTLE_NAMES = ("nr_throttled", "throttled_usec", "throttled_time")
MAX_CGROUP_DEPTH = 32
DROPPING_VERDICTS = ("drop", "reject")


def read_loss_counts(
    ifindex: int = 0, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup"
) -> tuple[LossCount, ...]:
    """Totals above 0. `ifindex`: NIC whose driver counters are read too; 0: none. Never raises
    OSError."""
    found: list[LossCount] = []
    for read in READERS:
        with contextlib.suppress(OSError):
            found += (one for one in read(proc, cgroups, ifindex) if one.count > 0)
    return tuple(sorted(found, key=lambda one: -one.count)[:MAX_LOSS_COUNTS])


def _read_protocols(proc: str, _cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    texts = {
        file: read_text(f"{proc}/net/{file}", MAX_PROTOCOL_BYTES)
        for file in ("snmp", "netstat", "snmp6")
    }
    for (file, protocol), names in PROTOCOL_COUNTERS.items():
        content = texts[file]
        if isinstance(content, str):
            counters = parse_protocol(content, f"{protocol}:", names)
            yield from (
                LossCount("protocol", f"{protocol} {name}", value)
                for name, value in counters.items()
            )
    content = texts["snmp6"]
    if isinstance(content, str):
        yield from parse_snmp6(content)


def parse_snmp6(content: str) -> Iterator[LossCount]:
    """A name and a number in each line."""
    for line in content.splitlines():
        words = line.split()
        if (
            len(words) == 2
            and words[0] in SNMP6_COUNTERS
            and is_ascii(words[1])
            and words[1].isdecimal()
        ):
            yield LossCount("protocol", words[0], int(words[1]))


def _read_conntrack(proc: str, _cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    content = read_text(f"{proc}/net/stat/nf_conntrack", MAX_PROTOCOL_BYTES)
    if isinstance(content, str):
        yield from parse_conntrack(content)


def parse_conntrack(content: str) -> tuple[LossCount, ...]:
    """A line of names, then one of hexadecimal numbers for each CPU
    (net/netfilter/nf_conntrack_standalone.c)."""
    names, *rows = [line.split() for line in content.splitlines()] or [[]]
    totals = dict.fromkeys(CONNTRACK_COLUMNS, 0)
    for row in rows:
        for name, value in zip(names, row):
            if name in totals:
                with contextlib.suppress(ValueError):
                    totals[name] += int(value, 16)
    return tuple(LossCount("conntrack", name, value) for name, value in totals.items())


def _read_softnet(proc: str, _cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    content = read_text(f"{proc}/net/softnet_stat", MAX_PROTOCOL_BYTES)
    if isinstance(content, str):
        yield LossCount("softnet", "dropped", parse_softnet_drops(content))


def parse_softnet_drops(content: str) -> int:
    """The sum of the second column of all CPUs."""
    total = 0
    for line in content.splitlines():
        words = line.split()
        with contextlib.suppress(ValueError, IndexError):
            total += int(words[1], 16)
    return total


def _read_links(_proc: str, _cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    reader = LinkCounterReader()
    try:
        links = reader.read()
    finally:
        reader.close()
    for ifindex, counters in links.items():
        for name, value in zip(LINK_COUNTERS, counters):
            if value and name in LOST_LINK_COUNTERS:
                yield LossCount("link", name, value, ifindex)


def _read_qdiscs(_proc: str, _cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        try:
            replies = kernel.dump(RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0))
        except DumpInterrupted as error:
            replies = error.replies
    for _, payload in replies[:MAX_QDISCS]:
        found = parse_qdisc_drops(payload)
        if found is not None:
            yield found


def parse_qdisc_drops(payload: bytes) -> LossCount | None:
    """Of an RTM_NEWQDISC; None: malformed, or drops are not counted."""
    if len(payload) < TCMSG.size:
        return None
    _, ifindex, handle, _, _ = TCMSG.unpack_from(payload)
    attributes = dict(iter_attributes(payload[TCMSG.size :]))
    dropped = dropped_packets(attributes.get(TCA_STATS2, b""))
    if dropped is None:
        return None
    return LossCount(
        "qdisc", text(attributes.get(TCA_KIND, b"")), dropped, ifindex, name_of(handle)
    )


def _read_driver(_proc: str, _cgroups: str, ifindex: int) -> Iterator[LossCount]:
    """What XDP programs drop is counted by the driver, if at all: ``xdp_drop``,
    ``rx_queue_0_xdp_drops``."""
    if not ifindex:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        counters = read_driver_counters(control, socket.if_indextoname(ifindex))
    names, values = counters if isinstance(counters, tuple) else ((), ())
    for name, value in zip(names, values):
        if is_xdp_drop(name):
            yield LossCount("driver", name.strip(), value, ifindex)


def is_xdp_drop(name: str) -> bool:
    lowered = name.lower()
    return "xdp" in lowered and ("drop" in lowered or "err" in lowered)


def _read_cgroups(proc: str, cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    """The own cgroup and its ancestors: each may have a limit of its own (cpu.max,
    cpu.cfs_quota_us)."""
    content = read_text(f"{proc}/self/cgroup")
    if not isinstance(content, str):
        return
    for roots, path in cgroup_paths(content):
        parts = [part for part in path.split("/") if part][:MAX_CGROUP_DEPTH]
        for depth in range(len(parts), -1, -1):
            folder = "/".join(parts[:depth])
            for root in roots:
                stat = read_text(os.path.join(cgroups, root, folder, "cpu.stat"))
                if isinstance(stat, str):
                    yield from parse_throttling(stat, f"/{folder}")
                    break


def cgroup_paths(content: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """(folders below the cgroup root, path) of the hierarchies with the CPU controller, from
    /proc/self/cgroup."""
    for line in content.splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or ".." in path.split("/"):
            continue
        if not controllers:
            yield ("", "unified"), path
        elif "cpu" in controllers.split(","):
            yield CGROUP_V1_FOLDERS, path


def parse_throttling(content: str, path: str) -> Iterator[LossCount]:
    """cpu.stat (Documentation/admin-guide/cgroup-v2.rst): throttled_usec; of version 1:
    throttled_time, in ns."""
    for line in content.splitlines():
        words = line.split()
        if (
            len(words) != 2
            or words[0] not in THROTTLE_NAMES
            or not (is_ascii(words[1]) and words[1].isdecimal())
        ):
            continue
        if words[0] == "throttled_time":
            yield LossCount("cgroup", "throttled_usec", int(words[1]) // 1000, None, path)
        else:
            yield LossCount("cgroup", words[0], int(words[1]), None, path)


def _read_filters(proc: str, _cgroups: str, _ifindex: int) -> Iterator[LossCount]:
    filters, _ = read_filters((), proc=proc)
    for chain in filters.chains:
        yield filter_drops(chain)


def filter_drops(chain: PacketChain) -> LossCount:
    """What its rules and its policy dropped, as far as they have counters: rules of nftables only
    with ``counter``."""
    counted = [rule.packets for rule in chain.rules if rule.verdict in DROPPING_VERDICTS]
    if chain.policy == "drop":
        counted.append(chain.packets)
    where = f"{chain.family} {chain.table} {chain.name}"
    return LossCount("filter", chain.backend, sum(filter(None, counted)), None, where)


READERS: tuple[Reader, ...] = (
    _read_protocols,
    _read_conntrack,
    _read_softnet,
    _read_links,
    _read_qdiscs,
    _read_driver,
    _read_cgroups,
    _read_filters,
)
