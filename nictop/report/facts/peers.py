"""What is known of the NICs of several hosts together: the other ends of their VFs and taps, and
what is between two of them (`nictop.model.pair_chain`).

Reads nothing; texts are not sanitized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import pairs
from nictop.model.facts import Fact, Section
from nictop.model.facts.pairs import netdev_names, peer_facts
from nictop.model.pair_chain import pair_chain_facts, pair_chains
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass

TITLE = "Other hosts"


@dataclass(frozen=True)
class PairDocument:
    """What is between NICs of two hosts that share a subnet."""

    host: str
    nic: str
    other_host: str
    other_nic: str
    hops: tuple[str, ...]
    """From the one to the other, as far as it is known: ``vm1 ens3``, ``pve tap100i0``, ``bridge
    vmbr0``, …"""
    is_whole: bool
    """Everything between them is known."""
    is_up: bool
    """No link of it is known to be down."""


class Peers:
    """The relations of several hosts, computed once."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = {snapshot.host: snapshot for snapshot in snapshots}
        self._pairs = pairs(snapshots)
        self._names = netdev_names(snapshots)

    def sections(self, host: str, ifindex: int) -> tuple[Section, ...]:
        """Of one NIC; none where nothing is known."""
        end = End(host, ifindex)
        found = (
            *peer_facts(end, self._pairs, self._names),
            *pair_chain_facts(end, self._pairs, self._snapshots),
        )
        facts = tuple(Fact("Peer", fact.text, fact.tone) for fact in found)
        return (Section(TITLE, facts),) if facts else ()

    def documents(self) -> Iterator[PairDocument]:
        """Of each two NICs once."""
        seen: set[tuple[End, End]] = set()
        for host, snapshot in self._snapshots.items():
            for ifindex in snapshot.links:
                for chain in pair_chains(End(host, ifindex), self._pairs, self._snapshots):
                    if (chain.other, chain.own) in seen:
                        continue
                    seen.add((chain.own, chain.other))
                    yield PairDocument(
                        host=host,
                        nic=self._names[chain.own],
                        other_host=chain.other.host,
                        other_nic=self._names[chain.other],
                        hops=chain.hops,
                        is_whole=chain.is_whole,
                        is_up=chain.is_up,
                    )
