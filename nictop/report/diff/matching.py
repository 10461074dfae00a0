"""Which NIC of one host is which of the other: by driver, slot, subnet and name.

Pure. A NIC is a netdev with a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_interface

from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.words import driver_name, is_virtual
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link

WEIGHTS = {"name": 4, "subnet": 4, "slot": 3, "driver": 2}
"""What two NICs have in common → how much that says."""
MIN_WEIGHT = 2
"""A driver in common is the least: another kind of NIC is another NIC."""


@dataclass(frozen=True)
class NicPair:
    """One NIC on each side; None: there is none of this role."""

    left: Link | None
    right: Link | None
    same: tuple[str, ...] = ()
    """Of `WEIGHTS`, what they have in common."""


def nics_of(snapshot: Snapshot) -> list[Link]:
    links = sorted(snapshot.links.values(), key=lambda link: link.ifindex)
    return [link for link in links if link.type != ARPHRD_VOID and not is_virtual(link)]


def match_nics(left: Sequence[Link], right: Sequence[Link]) -> list[NicPair]:
    """Every NIC once; those with most in common are paired first. In the order of the left side,
    then those that only the right side has."""
    partners: dict[int, tuple[int, tuple[str, ...]]] = {}
    taken = set[int]()
    for _, left_index, right_index, same in sorted(_candidates(left, right)):
        if left_index not in partners and right_index not in taken:
            partners[left_index] = (right_index, same)
            taken.add(right_index)
    by_index = {link.ifindex: link for link in right}
    pairs = []
    for link in left:
        right_index, same = partners.get(link.ifindex, (0, ()))
        pairs.append(NicPair(link, by_index.get(right_index), same))
    pairs += [NicPair(None, link) for link in right if link.ifindex not in taken]
    return pairs


def _candidates(
    left: Sequence[Link], right: Sequence[Link]
) -> Iterator[tuple[int, int, int, tuple[str, ...]]]:
    """(negative weight, ifindex of both, what they have in common) of NICs that may be the same."""
    for ours in left:
        for theirs in right:
            same = _in_common(ours, theirs)
            weight = sum(WEIGHTS[reason] for reason in same)
            if weight >= MIN_WEIGHT:
                yield -weight, ours.ifindex, theirs.ifindex, same


def _in_common(one: Link, other: Link) -> tuple[str, ...]:
    found = []
    if one.name == other.name:
        found.append("name")
    if _subnets(one) & _subnets(other):
        found.append("subnet")
    if one.pci_address is not None and one.pci_address == other.pci_address:
        found.append("slot")
    driver = driver_name(one)
    if driver is not None and driver == driver_name(other):
        found.append("driver")
    return tuple(found)


def _subnets(link: Link) -> set[str]:
    """Of its global addresses; what is no address is left out."""
    found = set()
    for address in link.addresses:
        if address.scope == "global":
            try:
                network = ip_interface(f"{address.address}/{address.prefix_length}").network
            except ValueError:
                continue
            found.add(str(network))
    return found
