"""What the counters of both ends say about packets of a path test that were lost. Pure.

The counters count packets of anything, not only of the test: a counter is named as the cause only
if it rose by at least half of what the test missed; the others are listed as evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.text.words import count_noun
from nictop.probe.records import DropGroup, LossCount
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts
from nictop.traffic.drops.counted_losses import loss_source, loss_text, names_a_cause, related_links
from nictop.traffic.drops.reasons import reason_of
from nictop.traffic.path.findings.tested_direction import PROTOCOLS, TestedDirection
from nictop.traffic.path.result import PathDirection

MAX_LISTED = 4
CHECKSUM_COUNTERS = {
    4: {"udp": ("Udp InCsumErrors",), "tcp": ("Tcp InCsumErrors",)},
    6: {"udp": ("Udp6InCsumErrors",), "tcp": ("Tcp InCsumErrors",)},
}
"""By IP version; TCP over IPv6 has no counter of its own (net/ipv6/tcp_ipv6.c)."""
IGNORED = ("rx_nohandler", "Ip ReasmReqds", "Ip ReasmOKs", "Ip6ReasmReqds", "Ip6ReasmOKs")
"""Counters of what nobody wants, as broadcast frames of other protocols, and of fragments that are
not lost."""

COUNTS_OF_LARGE_PACKETS = (
    "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "Ip OutDiscards", "Ip6OutDiscards", "IpExt InTruncatedPkts",
)  # fmt: skip
"""Those that packets larger than an MTU raise, too: a veth drops what is too large for its other
end (drivers/net/veth.c: veth_xmit, net/core/dev.c: __is_skb_forwardable), and the IP stack counts
the error of a driver (net/ipv4/ip_output.c: ip_send_skb)."""


def losses_of(tested: TestedDirection, *, receiver: bool) -> tuple[LossCount, ...]:
    """Counters of an end that rose during the test."""
    listener = tested.direction.listener if receiver else tested.back.listener
    if listener is None or not listener.ended:
        return ()
    return listener.losses


def loss_evidence(tested: TestedDirection) -> tuple[Evidence, ...]:
    """What both ends counted as lost meanwhile, the sender first, and what their kernels dropped;
    without what the sizes may have raised that the test itself tried and that did not pass."""
    sent, received = (losses_of(tested, receiver=at_receiver) for at_receiver in (False, True))
    if _lost_sizes(tested.direction) or _lost_sizes(tested.back):
        sent, received = _without_sizes(sent), _without_sizes(received)
    return (
        *drop_evidence(tested),
        *counted_evidence(tested.host, sent),
        *counted_evidence(tested.peer, received),
    )


def _lost_sizes(direction: PathDirection) -> bool:
    """Not all sizes that it tried were answered."""
    sizes = direction.test.sizes if direction.test is not None else ()
    return any(size.largest is None or size.largest < size.limit for size in sizes)


def _without_sizes(counts: Iterable[LossCount]) -> tuple[LossCount, ...]:
    return tuple(count for count in counts if count.name not in COUNTS_OF_LARGE_PACKETS)


def counted_evidence(host: HostFacts, counts: Iterable[LossCount]) -> tuple[Evidence, ...]:
    """The largest of what a host counted as lost."""
    where = f"counted by {host.name} during the test"
    return tuple(
        Evidence(where, text_of(host, count), source_of(host, count)) for count in listed(counts)
    )


def drop_evidence(tested: TestedDirection) -> tuple[Evidence, ...]:
    """What the kernels of both ends dropped of the packets between the two addresses, with the
    reason."""
    addresses = {end.address.partition("%")[0] for end in (tested.sender, tested.receiver)}
    found = []
    for host, report in tested.drops.items():
        for group in report.groups:
            packets = _packets_between(group, addresses)
            if packets and reason_of(group).kind != "expected":
                found.append(_drop_evidence(host, group, packets))
    return tuple(found[:MAX_LISTED])


def _packets_between(group: DropGroup, addresses: set[str]) -> int:
    """Of the group, in both directions. `addresses`: of the two ends."""
    packets = 0
    for flow in group.flows:
        if {flow.source, flow.destination} == addresses:
            packets += flow.packets
    return packets


def _drop_evidence(host: str, group: DropGroup, packets: int) -> Evidence:
    text = (
        f"{count_noun(packets, 'packet')}: {group.reason or 'no reason'} in "
        f"{group.place}. {reason_of(group).meaning}"
    )
    return Evidence(f"dropped by the kernel of {host}", text, "nictop drops, test repeated")


def listed(counts: Iterable[LossCount]) -> Sequence[LossCount]:
    """The largest counts of packets."""
    found = []
    for count in counts:
        if count.source != "cgroup" and count.name not in IGNORED:
            found.append(count)
    return found[:MAX_LISTED]


def text_of(host: HostFacts, count: LossCount) -> str:
    return loss_text(_link_name(host, count), count)


def source_of(host: HostFacts, count: LossCount) -> str:
    return loss_source(_link_name(host, count), count)


def _link_name(host: HostFacts, count: LossCount) -> str:
    link = host.link_at(count.ifindex)
    if link is None:
        return f"ifindex {count.ifindex}"
    return link.name


def wrong_checksums(tested: TestedDirection, protocols: Iterable[str]) -> int:
    """Packets of these protocols that the receiver dropped because of their checksum."""
    names = CHECKSUM_COUNTERS[6 if ":" in tested.receiver.address else 4]
    wanted = {name for protocol in protocols for name in names.get(protocol, ())}
    return sum(loss.count for loss in losses_of(tested, receiver=True) if loss.name in wanted)


def attributed(tested: TestedDirection, lost: int) -> tuple[HostFacts, LossCount] | None:
    """(host, counter) that explains `lost` packets of the test: it rose by at least half of them,
    and packets of the test pass there."""
    ends = (
        (tested.peer, tested.receiver, losses_of(tested, receiver=True)),
        (tested.host, tested.sender, losses_of(tested, receiver=False)),
    )
    for host, end, counts in ends:
        ifindexes = related_links(host.snapshot, end.ifindex)
        for count in counts:
            is_on_path = count.ifindex is None or count.ifindex in ifindexes
            if is_on_path and _explains(count, lost):
                return host, count
    return None


def _explains(count: LossCount, lost: int) -> bool:
    """It counts packets that were lost, and at least half of so many."""
    if count.source == "protocol" or count.count < max(1, lost / 2):
        return False
    return names_a_cause(count.source, count.name)


def unanswered_packets(tested: TestedDirection, protocols: Iterable[str] = PROTOCOLS) -> int:
    """Packets of these protocols that were sent and not answered."""
    packets = 0
    for replies in tested.test.replies:
        if replies.protocol in protocols:
            packets += replies.sent - len(replies.rtts)
    return packets
