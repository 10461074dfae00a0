"""What the counters of both ends say about packets of a path test that were lost. Pure.

The counters count packets of anything, not only of the test: a counter is named as the cause only if it rose by at
least half of what the test missed; the others are listed as evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.text.words import count_noun
from nictop.probe.records import LossCount
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts
from nictop.traffic.analysis.link_roles import roles_of
from nictop.traffic.path.findings.tested_direction import PROTOCOLS, TestedDirection

MAX_LISTED = 4
MEANINGS = {
    "Udp InCsumErrors": "UDP packets with a wrong checksum",
    "Udp6InCsumErrors": "UDP packets with a wrong checksum",
    "Tcp InCsumErrors": "TCP segments with a wrong checksum",
    "Udp RcvbufErrors": "datagrams for a full socket buffer",
    "Udp6RcvbufErrors": "datagrams for a full socket buffer",
    "Udp SndbufErrors": "datagrams for a full send buffer",
    "Ip ReasmFails": "packets whose fragments were not all received",
    "Ip6ReasmFails": "packets whose fragments were not all received",
    "Ip OutDiscards": "packets dropped instead of sent (filter or full queue)",
    "Ip6OutDiscards": "packets dropped instead of sent (filter or full queue)",
    "TcpExt IPReversePathFilter": "packets dropped by rp_filter",
    "TcpExt TCPBacklogDrop": "segments for a full socket backlog",
    "TcpExt ListenDrops": "connections that a full listening socket dropped",
}
"""Counter → what it counts; the others are shown by their name."""
INGRESS_QDISCS = ("ingress", "clsact")
CHECKSUM_COUNTERS = {
    4: {"udp": ("Udp InCsumErrors",), "tcp": ("Tcp InCsumErrors",)},
    6: {"udp": ("Udp6InCsumErrors",), "tcp": ("Tcp InCsumErrors",)},
}
"""By IP version; TCP over IPv6 has no counter of its own (net/ipv6/tcp_ipv6.c)."""
CAUSE_SOURCES = ("qdisc", "driver", "softnet", "conntrack", "filter")
CAUSE_LINK_COUNTERS = ("rx_missed_errors", "rx_fifo_errors", "rx_crc_errors", "tx_carrier_errors")
"""rx_dropped and tx_dropped also count what nobody misses, as frames of unknown protocols."""
IGNORED = ("rx_nohandler",)
"""Counters that also count what nobody wants, as broadcast frames of other protocols."""


def losses_of(tested: TestedDirection, *, receiver: bool) -> tuple[LossCount, ...]:
    """Counters of an end that rose during the test."""
    listener = tested.direction.listener if receiver else tested.back.listener
    return listener.losses if listener is not None and listener.ended else ()


def loss_evidence(tested: TestedDirection) -> tuple[Evidence, ...]:
    """What both ends counted as lost meanwhile, the sender first."""
    return tuple(
        Evidence(f"counted by {host.name}", loss_text(host, one), loss_source(host, one))
        for host, counts in (
            (tested.host, losses_of(tested, receiver=False)),
            (tested.peer, losses_of(tested, receiver=True)),
        )
        for one in listed(counts)
    )


def listed(counts: Iterable[LossCount]) -> Sequence[LossCount]:
    """The largest counts of packets."""
    return [one for one in counts if one.source != "cgroup" and one.name not in IGNORED][:MAX_LISTED]


def loss_text(host: HostFacts, one: LossCount) -> str:
    """``12 packets dropped by the filters at ingress of eth0``"""
    link = host.snapshot.links.get(one.ifindex or 0)
    name = link.name if link is not None else f"ifindex {one.ifindex}"
    if one.source == "qdisc" and one.name in INGRESS_QDISCS:
        return f"{count_noun(one.count, 'packet')} dropped by the tc filters of {name}"
    if one.source == "qdisc":
        return f"{count_noun(one.count, 'packet')} dropped by qdisc {one.name} {one.where} of {name}"
    if one.source == "link":
        return f"{one.name} of {name} +{one.count}"
    if one.source == "driver":
        return f"{one.name} of {name} +{one.count} (XDP)"
    if one.source == "softnet":
        return f"{count_noun(one.count, 'packet')} for a full backlog (net.core.netdev_max_backlog)"
    if one.source == "conntrack":
        return f"connection tracking: {one.name} +{one.count}"
    if one.source == "filter":
        return f"{count_noun(one.count, 'packet')} dropped by {one.where or one.name}"
    meaning = MEANINGS.get(one.name)
    return f"{one.count} {meaning}" if meaning is not None else f"{one.name} +{one.count}"


def loss_source(host: HostFacts, one: LossCount) -> str:
    """Where it can be read."""
    link = host.snapshot.links.get(one.ifindex or 0)
    name = link.name if link is not None else "…"
    if one.source == "qdisc":
        direction = "filter show dev {} ingress" if one.name in INGRESS_QDISCS else "qdisc show dev {}"
        return f"tc -s {direction.format(name)}"
    sources = {
        "link": f"ip -s -s link show {name}",
        "driver": f"ethtool -S {name}",
        "softnet": "/proc/net/softnet_stat",
        "conntrack": "conntrack -S",
        "filter": "nft list ruleset",
    }
    return sources.get(one.source, "nstat -az")


def wrong_checksums(tested: TestedDirection, protocols: Iterable[str]) -> int:
    """Packets of these protocols that the receiver dropped because of their checksum."""
    names = CHECKSUM_COUNTERS[6 if ":" in tested.receiver.address else 4]
    wanted = {name for protocol in protocols for name in names.get(protocol, ())}
    return sum(one.count for one in losses_of(tested, receiver=True) if one.name in wanted)


def attributed(tested: TestedDirection, lost: int) -> tuple[HostFacts, LossCount] | None:
    """(host, counter) that explains `lost` packets of the test: it rose by at least half of them, and packets of the
    test pass there."""
    for host, counts, ifindexes in (
        (tested.peer, losses_of(tested, receiver=True), _nics(tested.peer, tested.receiver.ifindex)),
        (tested.host, losses_of(tested, receiver=False), _nics(tested.host, tested.sender.ifindex)),
    ):
        for one in counts:
            is_here = one.ifindex is None or one.ifindex in ifindexes
            if is_here and one.count >= max(1, lost / 2) and _names_a_cause(one):
                return host, one
    return None


def _nics(host: HostFacts, ifindex: int | None) -> set[int]:
    """The NIC of an end, with the links above and below it."""
    chosen = host.snapshot.links.get(ifindex or 0)
    if chosen is None:
        return set()
    return {one for one, role in roles_of(host.snapshot, chosen).items() if role not in ("other", "loopback")}


def _names_a_cause(one: LossCount) -> bool:
    if one.source == "link":
        return one.name in CAUSE_LINK_COUNTERS
    return one.source in CAUSE_SOURCES


def unanswered_packets(tested: TestedDirection, protocols: Iterable[str] = PROTOCOLS) -> int:
    """Packets of these protocols that were sent and not answered."""
    return sum(one.sent - len(one.rtts) for one in tested.test.replies if one.protocol in protocols)
