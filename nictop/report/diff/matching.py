"""Which NIC of one host is which of the other: by driver, slot, subnet and name.

Pure. A NIC is a netdev with a device, or a virtual link that stands for one: a bond, a bridge or
VLAN with an address, the veth of a container. Not compared are taps and other ends of guests: which
guest runs where is no setting of the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_interface

from nictop.model.devices.links import global_addresses, has_global_address
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.words import driver_name, is_virtual
from nictop.model.virtual_chain import chain_kind, is_own_veth
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link

WEIGHTS = {"name": 4, "subnet": 4, "slot": 3, "driver": 2}
"""What two NICs have in common → how much that says."""
STRONG_REASONS, WEAK_REASONS = ("name", "subnet", "slot"), ("driver",)
"""Each of the first says more than the driver: for NICs that have one of them in common, all with
the same driver are not compared."""
MIN_WEIGHT = 2
"""A driver in common is the least: another kind of NIC is another NIC."""
OWN_KINDS = ("aggregate", "veth")
"""Kinds of virtual links that are compared without an address, too."""
NAMED = frozenset(("name", "subnet"))
"""Of these a virtual link must have one in common: many are of the same kind."""


@dataclass(frozen=True)
class NicPair:
    """One NIC on each side; None: there is none of this role."""

    left: Link | None
    right: Link | None
    same: tuple[str, ...] = ()
    """Of `WEIGHTS`, what they have in common."""


def nics_of(snapshot: Snapshot) -> list[Link]:
    links = sorted(snapshot.links.values(), key=lambda link: link.ifindex)
    return [link for link in links if link.type != ARPHRD_VOID and _is_nic(link, snapshot)]


def _is_nic(link: Link, snapshot: Snapshot) -> bool:
    if not is_virtual(link) or is_own_veth(link, snapshot):
        return True
    return chain_kind(link) in ("aggregate", "bridge", "upper")


def match_nics(left: Sequence[Link], right: Sequence[Link]) -> list[NicPair]:
    """Every NIC once; those with most in common are paired first. In the order of the left side,
    then those that only the right side has."""
    partners: dict[int, tuple[int, tuple[str, ...]]] = {}
    taken = set[int]()
    ours, theirs = ([_role_of(link) for link in links] for links in (left, right))
    for reasons in (STRONG_REASONS, WEAK_REASONS):
        free_ours = [role for role in ours if role.ifindex not in partners]
        free_theirs = [role for role in theirs if role.ifindex not in taken]
        for _, left_index, right_index, same in sorted(
            _candidates(free_ours, free_theirs, reasons)
        ):
            if left_index not in partners and right_index not in taken:
                partners[left_index] = (right_index, same)
                taken.add(right_index)
    by_index = {link.ifindex: link for link in right}
    pairs = []
    for link in left:
        right_index, same = partners.get(link.ifindex, (0, ()))
        pairs.append(NicPair(link, by_index.get(right_index), same))
    pairs += [NicPair(None, link) for link in right if link.ifindex not in taken]
    return [pair for pair in pairs if _is_compared(pair)]


def _is_compared(pair: NicPair) -> bool:
    """Not a bridge or VLAN that has no address on either side: it carries frames of others."""
    links = [link for link in (pair.left, pair.right) if link is not None]
    return any(
        has_global_address(link) or not is_virtual(link) or chain_kind(link) in OWN_KINDS
        for link in links
    )


def _candidates(
    left: Sequence[_Role], right: Sequence[_Role], reasons: Sequence[str]
) -> Iterator[tuple[int, int, int, tuple[str, ...]]]:
    """(negative weight, ifindex of both, what they have in common) of NICs that may be the same:
    those that have at least one of `reasons` in common."""
    index: dict[tuple[str, str], list[_Role]] = {}
    for role in right:
        for value in role.values(reasons):
            index.setdefault(value, []).append(role)
    for ours in left:
        others: dict[int, _Role] = {}
        for value in ours.values(reasons):
            others.update((role.ifindex, role) for role in index.get(value, ()))
        for theirs in others.values():
            same = _in_common(ours, theirs)
            weight = sum(WEIGHTS[reason] for reason in same)
            if ours.is_virtual != theirs.is_virtual or (ours.is_virtual and NAMED.isdisjoint(same)):
                continue
            if weight >= MIN_WEIGHT:
                yield -weight, ours.ifindex, theirs.ifindex, same


class _Role(NamedTuple):
    """What NICs are compared by."""

    ifindex: int
    name: str
    subnets: frozenset[str]
    slot: str | None
    driver: str | None
    is_virtual: bool

    def values(self, reasons: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(Reason, what another NIC must have for it)."""
        for reason in reasons:
            if reason == "subnet":
                yield from ((reason, subnet) for subnet in self.subnets)
            else:
                value = getattr(self, reason)
                if value is not None:
                    yield reason, value


def _role_of(link: Link) -> _Role:
    subnets = frozenset(_subnets(link))
    driver = driver_name(link)
    return _Role(link.ifindex, link.name, subnets, link.pci_address, driver, is_virtual(link))


def _in_common(one: _Role, other: _Role) -> tuple[str, ...]:
    found = []
    if one.name == other.name:
        found.append("name")
    if not one.subnets.isdisjoint(other.subnets):
        found.append("subnet")
    if one.slot is not None and one.slot == other.slot:
        found.append("slot")
    if one.driver is not None and one.driver == other.driver:
        found.append("driver")
    return tuple(found)


def _subnets(link: Link) -> set[str]:
    """Of its global addresses; what is no address is left out."""
    found = set()
    for address in global_addresses(link):
        try:
            network = ip_interface(f"{address.address}/{address.prefix_length}").network
        except ValueError:
            continue
        found.add(str(network))
    return found
