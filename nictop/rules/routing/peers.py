"""Watched hosts with addresses in one subnet, as seen by one of them. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nictop.model.devices.route_lookup import Span, number_of, span_of
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.profiles.outward import NetworkPlace, may_be_one_network, outward_addresses


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
    return tuple(one for one in outward_addresses(host) if "dadfailed" not in one.address.flags)


@once_per_host
def own_subnets(host: HostFacts) -> tuple[tuple[Span, NetworkPlace], ...]:
    """Subnets of the host with more than two addresses."""
    found = []
    for place in places(host):
        span = span_of(f"{place.address.address}/{place.address.prefix_length}")
        if span is not None and span.last - span.first > 2:
            found.append((span, place))
    return tuple(found)


def peers(host: HostFacts, hosts: Sequence[HostFacts]) -> Iterator[Peer]:
    """Addresses of the other hosts in the subnets of `host`, as far as both may be in one network. An address that is
    also on `host`, as of a machine that is watched twice, or on two of the others is left out."""
    spans = own_subnets(host)
    if not spans:
        return
    own = {place.address.address for place in places(host)}
    counts = _counts(hosts)
    for other in hosts:
        if other is host:
            continue
        for place in places(other):
            number = number_of(place.address.address)
            if number is None or place.address.address in own or counts[place.address.address] > 1:
                continue
            for span, mine in spans:
                is_inside = span.family == number[0] and number[1] in span
                if is_inside and may_be_one_network(mine, place):
                    yield Peer(mine, place)


def _counts(hosts: Sequence[HostFacts]) -> dict[str, int]:
    """Address → number of hosts that have it."""
    found: dict[str, int] = {}
    for host in hosts:
        for address in {place.address.address for place in places(host)}:
            found[address] = found.get(address, 0) + 1
    return found
