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
from nictop.traffic.analysis.counted_losses import loss_source, loss_text, names_a_cause, related_links
from nictop.traffic.drops.reasons import reason_of
from nictop.traffic.path.findings.tested_direction import PROTOCOLS, TestedDirection

MAX_LISTED = 4
CHECKSUM_COUNTERS = {
    4: {"udp": ("Udp InCsumErrors",), "tcp": ("Tcp InCsumErrors",)},
    6: {"udp": ("Udp6InCsumErrors",), "tcp": ("Tcp InCsumErrors",)},
}
"""By IP version; TCP over IPv6 has no counter of its own (net/ipv6/tcp_ipv6.c)."""
IGNORED = ("rx_nohandler", "Ip ReasmReqds", "Ip ReasmOKs", "Ip6ReasmReqds", "Ip6ReasmOKs")
"""Counters of what nobody wants, as broadcast frames of other protocols, and of fragments that are not lost."""


def losses_of(tested: TestedDirection, *, receiver: bool) -> tuple[LossCount, ...]:
    """Counters of an end that rose during the test."""
    listener = tested.direction.listener if receiver else tested.back.listener
    return listener.losses if listener is not None and listener.ended else ()


def loss_evidence(tested: TestedDirection) -> tuple[Evidence, ...]:
    """What both ends counted as lost meanwhile, the sender first, and what their kernels dropped."""
    sent = counted_evidence(tested.host, losses_of(tested, receiver=False))
    received = counted_evidence(tested.peer, losses_of(tested, receiver=True))
    return (*drop_evidence(tested), *sent, *received)


def counted_evidence(host: HostFacts, counts: Iterable[LossCount]) -> tuple[Evidence, ...]:
    """The largest of what a host counted as lost."""
    return tuple(
        Evidence(f"counted by {host.name}", text_of(host, one), source_of(host, one)) for one in listed(counts)
    )


def drop_evidence(tested: TestedDirection) -> tuple[Evidence, ...]:
    """What the kernels of both ends dropped of the packets between the two addresses, with the reason."""
    addresses = {end.address.partition("%")[0] for end in (tested.sender, tested.receiver)}
    found = []
    for host, report in tested.drops.items():
        for group in report.groups:
            reason = reason_of(group)
            packets = sum(one.packets for one in group.flows if {one.source, one.destination} == addresses)
            if packets and reason.kind != "expected":
                text = (
                    f"{count_noun(packets, 'packet')}: {group.reason or 'no reason'} in {group.place}. {reason.meaning}"
                )
                found.append(Evidence(f"dropped by the kernel of {host}", text, "nictop drops, test repeated"))
    return tuple(found[:MAX_LISTED])


def listed(counts: Iterable[LossCount]) -> Sequence[LossCount]:
    """The largest counts of packets."""
    return [one for one in counts if one.source != "cgroup" and one.name not in IGNORED][:MAX_LISTED]


def text_of(host: HostFacts, one: LossCount) -> str:
    return loss_text(_link_name(host, one), one)


def source_of(host: HostFacts, one: LossCount) -> str:
    return loss_source(_link_name(host, one), one)


def _link_name(host: HostFacts, one: LossCount) -> str:
    link = host.snapshot.links.get(one.ifindex or 0)
    return link.name if link is not None else f"ifindex {one.ifindex}"


def wrong_checksums(tested: TestedDirection, protocols: Iterable[str]) -> int:
    """Packets of these protocols that the receiver dropped because of their checksum."""
    names = CHECKSUM_COUNTERS[6 if ":" in tested.receiver.address else 4]
    wanted = {name for protocol in protocols for name in names.get(protocol, ())}
    return sum(one.count for one in losses_of(tested, receiver=True) if one.name in wanted)


def attributed(tested: TestedDirection, lost: int) -> tuple[HostFacts, LossCount] | None:
    """(host, counter) that explains `lost` packets of the test: it rose by at least half of them, and packets of the
    test pass there."""
    for host, counts, ifindexes in (
        (tested.peer, losses_of(tested, receiver=True), related_links(tested.peer.snapshot, tested.receiver.ifindex)),
        (tested.host, losses_of(tested, receiver=False), related_links(tested.host.snapshot, tested.sender.ifindex)),
    ):
        for one in counts:
            is_here = one.ifindex is None or one.ifindex in ifindexes
            if (
                is_here
                and one.count >= max(1, lost / 2)
                and one.source != "protocol"
                and names_a_cause(one.source, one.name)
            ):
                return host, one
    return None


def unanswered_packets(tested: TestedDirection, protocols: Iterable[str] = PROTOCOLS) -> int:
    """Packets of these protocols that were sent and not answered."""
    return sum(one.sent - len(one.rtts) for one in tested.test.replies if one.protocol in protocols)
