"""Watched hosts with addresses in one subnet, as seen by one of them. Reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from nictop.model.devices.route_lookup import BITS, Span, number_of, span_of, wider
from nictop.probe.light_dataclasses import dataclass
from nictop.rules.host import HostFacts, once_per_diagnosis, once_per_host
from nictop.rules.profiles.outward import NetworkPlace, may_be_one_network, outward_addresses
from nictop.rules.routes.facts import is_within


@dataclass(frozen=True)
class Peer:
    """An address of another watched host in a subnet of a link."""

    own: NetworkPlace
    other: NetworkPlace

    @property
    def named(self) -> str:
        """``192.0.2.7 of web1``"""
        return f"{self.other.address.address} of {self.other.host.name}"


@once_per_host
def places(host: HostFacts) -> tuple[NetworkPlace, ...]:
    """Addresses of the host that others can reach, without refused duplicates."""
    found = []
    for place in outward_addresses(host):
        if "dadfailed" not in place.address.flags:
            found.append(place)
    return tuple(found)


@once_per_host
def own_subnets(host: HostFacts) -> tuple[tuple[Span, NetworkPlace], ...]:
    """Subnets of the host with more than two addresses."""
    found = []
    for place in places(host):
        span = span_of(f"{place.address.address}/{place.address.prefix_length}")
        if span is not None and span.last - span.first > 2:
            found.append((span, place))
    return tuple(found)


def is_in_one(place: NetworkPlace, spans: Iterable[Span]) -> bool:
    """The address is in one of the prefixes."""
    number = number_of(place.address.address)
    if number is None:
        return False
    return any(is_within(number, span) for span in spans)


def first_peer_text(peers: Sequence[Peer]) -> str:
    """``web1 (192.0.2.7) and 2 more addresses``; `peers`: each address once."""
    first = peers[0].other
    text = f"{first.host.name} ({first.address.address})"
    if len(peers) == 1:
        return text
    more = len(peers) - 1
    return f"{text} and {more} more {'address' if more == 1 else 'addresses'}"


def of_each_address(peers: Iterable[Peer]) -> Iterator[Peer]:
    """One of each address of another host on a link: a link with several addresses in one subnet
    has it for each of them."""
    seen: set[tuple[int, str, str]] = set()
    for peer in peers:
        key = peer.own.link.ifindex, peer.other.host.name, peer.other.address.address
        if key not in seen:
            seen.add(key)
            yield peer


def peers(
    host: HostFacts,
    hosts: Sequence[HostFacts],
    accept: Callable[[NetworkPlace, NetworkPlace], bool],
) -> Iterator[Peer]:
    """Addresses of the other hosts in the subnets of `host`, as far as both may be in one network.
    An address that is also on `host`, as of a machine that is watched twice, or on two of the
    others is left out. `accept` is asked first, with the own and the other place: there may be tens
    of thousands of pairs."""
    own = {place.address.address for place in places(host)}
    index = _index(tuple(hosts))
    for span, mine in own_subnets(host):
        for place in index.get(span, ()):
            if place.host is host or not accept(mine, place) or place.address.address in own:
                continue
            if may_be_one_network(mine, place, hosts):
                yield Peer(mine, place)


@once_per_diagnosis
def _index(hosts: tuple[HostFacts, ...]) -> dict[Span, list[NetworkPlace]]:
    """Subnet of any host → addresses of all hosts in it that only one host has. Computed once for
    all rules of a diagnosis: hosts are compared by identity."""
    lengths = {(span.family, span.length) for host in hosts for span, _ in own_subnets(host)}
    found: dict[Span, list[NetworkPlace]] = {}
    for place in _unique_places(hosts):
        number = number_of(place.address.address)
        if number is None:
            continue
        own_family, value = number
        single = Span(own_family, value, value, BITS[own_family])
        for family, length in lengths:
            if family == own_family:
                found.setdefault(wider(single, length), []).append(place)
    return found


def _unique_places(hosts: Sequence[HostFacts]) -> Iterator[NetworkPlace]:
    """Those whose address is on one host only."""
    owners: dict[str, set[str]] = {}
    for host in hosts:
        for place in places(host):
            owners.setdefault(place.address.address, set()).add(host.name)
    for host in hosts:
        for place in places(host):
            if len(owners[place.address.address]) == 1:
                yield place
