"""Packets that a host counted as lost during a test or a run: what a counter means, and whether it
can be the cause.

The counters count packets of anything, not only of the test: one is named as the cause only if it
rose by at least half of what was lost. What does not belong to a link, and the links of the path,
can be a cause; of the counters of a link only those that count nothing else.

Reads nothing; takes what the probe read before and after (`probe.traffic.loss_counters`).
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import LossCount
from nictop.traffic.hosts.link_roles import roles_of

MEANINGS = {
    "Udp InCsumErrors": "UDP packets with a wrong checksum",
    "Udp6InCsumErrors": "UDP packets with a wrong checksum",
    "Tcp InCsumErrors": "TCP segments with a wrong checksum",
    "Udp RcvbufErrors": "datagrams for a full socket buffer",
    "Udp6RcvbufErrors": "datagrams for a full socket buffer",
    "Udp SndbufErrors": "datagrams for a full send buffer",
    "Ip ReasmFails": "packets whose fragments were not all received",
    "Ip6ReasmFails": "packets whose fragments were not all received",
    "Ip OutDiscards": "packets dropped instead of sent",
    "Ip6OutDiscards": "packets dropped instead of sent",
    "TcpExt IPReversePathFilter": "packets dropped by rp_filter",
    "TcpExt TCPBacklogDrop": "segments for a full socket backlog",
    "TcpExt ListenDrops": "connections that a full listening socket dropped",
}
"""Counter → what it counts; the others are shown by their name."""
INGRESS_QDISCS = ("ingress", "clsact")
"""Their drops are those of the tc filters of a link."""
CAUSE_SOURCES = ("qdisc", "driver", "softnet", "conntrack", "filter")
CAUSE_PROTOCOL_COUNTERS = (
    "Udp InCsumErrors", "Udp6InCsumErrors", "Tcp InCsumErrors", "Udp RcvbufErrors",
    "Udp6RcvbufErrors", "Ip ReasmFails", "Ip6ReasmFails", "TcpExt IPReversePathFilter",
    "TcpExt TCPBacklogDrop", "TcpExt TCPRcvQDrop", "TcpExt PFMemallocDrop",
)  # fmt: skip
CAUSE_LINK_COUNTERS = ("rx_missed_errors", "rx_fifo_errors", "rx_crc_errors", "tx_carrier_errors")
"""rx_dropped and tx_dropped also count what nobody misses, as frames of unknown protocols."""

FILTER_COMMANDS = {"nft": "nft list ruleset", "iptables": "iptables-save -c; ip6tables-save -c"}
"""Back end of a chain → what shows its counters."""


@dataclass(frozen=True)
class CountedLoss:
    """One counter that rose on a host during a run."""

    host: str
    source: str
    """See `LossCount`."""
    name: str
    count: int
    link: str = ""
    """Name of its link."""
    where: str = ""
    on_path: bool = True
    """It belongs to no link, or to one of the chosen NIC."""

    @property
    def is_cause(self) -> bool:
        """Packets of the run can be among those that it counts, and hardly anything else."""
        return self.on_path and names_a_cause(self.source, self.name)

    @property
    def text(self) -> str:
        count = LossCount(self.source, self.name, self.count, None, self.where)  # type: ignore[arg-type]
        return clean(loss_text(self.link, count))


def counted_losses(
    snapshot: Snapshot, counts: Iterable[LossCount], ifindex: int | None
) -> tuple[CountedLoss, ...]:
    """`ifindex`: the chosen NIC of the host; None: of an observer, all links are on the path."""
    related = related_links(snapshot, ifindex)
    found = []
    for count in counts:
        link = snapshot.links.get(count.ifindex or 0)
        name = link.name if link is not None else ""
        is_of_no_link = count.ifindex is None
        on_path = is_of_no_link or ifindex is None or count.ifindex in related
        found.append(
            CountedLoss(
                snapshot.host, count.source, count.name, count.count, name, count.where, on_path
            )
        )
    return tuple(found)


def related_links(snapshot: Snapshot, ifindex: int | None) -> set[int]:
    """ifindexes of a NIC and of the links above and below it."""
    chosen = snapshot.links.get(ifindex or 0)
    if chosen is None:
        return set()
    found = set()
    for other, role in roles_of(snapshot, chosen).items():
        if role not in ("other", "loopback"):
            found.add(other)
    return found


def names_a_cause(source: str, name: str) -> bool:
    if source == "link":
        return name in CAUSE_LINK_COUNTERS
    if source == "protocol":
        return name in CAUSE_PROTOCOL_COUNTERS
    return source in CAUSE_SOURCES


def loss_text(link: str, count: LossCount) -> str:
    """``12 packets dropped by the tc filters of eth0``; `link`: name of its link."""
    name, packets = count.name, count_noun(count.count, "packet")
    if count.source == "qdisc" and name in INGRESS_QDISCS:
        return f"{packets} dropped by the tc filters of {link}"
    if count.source == "cgroup":
        return _throttle_text(count)
    texts = {
        "qdisc": f"{packets} dropped by qdisc {name} {count.where} of {link}",
        "link": f"{name} of {link} +{count.count}",
        "driver": f"{name} of {link} +{count.count} (XDP)",
        "softnet": f"{packets} for a full backlog (net.core.netdev_max_backlog)",
        "conntrack": f"connection tracking: {name} +{count.count}",
        "filter": f"{packets} dropped by filter chain {count.where}",
    }
    if count.source in texts:
        return texts[count.source]
    if name in MEANINGS:
        return f"{count.count} {MEANINGS[name]}"
    return f"{name} +{count.count}"


def _throttle_text(count: LossCount) -> str:
    if count.name == "throttled_usec":
        waited = units.duration(count.count / 1e6)
        return f"cgroup {count.where} waited {waited} for its CPU limit"
    return f"cgroup {count.where}: {count.name} +{count.count}"


def loss_source(link: str, count: LossCount) -> str:
    """Where it can be read."""
    if count.source == "qdisc" and count.name in INGRESS_QDISCS:
        return f"tc -s filter show dev {link} ingress"
    if count.source == "filter":
        return FILTER_COMMANDS.get(count.name, FILTER_COMMANDS["nft"])
    sources = {
        "qdisc": f"tc -s qdisc show dev {link}",
        "link": f"ip -s -s link show {link}",
        "driver": f"ethtool -S {link}",
        "softnet": "/proc/net/softnet_stat",
        "conntrack": "conntrack -S",
    }
    return sources.get(count.source, "nstat -az")
