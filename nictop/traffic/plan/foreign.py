"""The endpoints of a run against a server on a host that is not watched: its address, and the NIC
of the client in that address's subnet, else that of the default route. Reads nothing."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Address, Link
from nictop.traffic.plan.one_nic import select_nic
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.plan.request import RunRequest

LASTING_SCOPES = ("global", "site")


@dataclass(frozen=True)
class ForeignPair:
    """The endpoints, and what the user should know about their choice."""

    pair: EndpointPair
    note: str = ""


def check_foreign_address(text: str) -> None:
    """Raises NictopError unless it is an IP address."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise NictopError(
            f"--foreign: {quoted(text)} is not an IP address",
            "a name may mean another address on the client: give the address",
        ) from None


def foreign_pair(request: RunRequest, snapshots: Mapping[str, Snapshot]) -> ForeignPair:
    """Raises NictopError if the client is not watched, or has no such NIC or address."""
    chosen = select_nic(request, snapshots)
    server = Endpoint(request.server, None, request.server)
    links = snapshots[request.client].links
    named = links.get(chosen.endpoint.ifindex or 0) if request.client_nic else None
    candidates = list(_addresses(links.values() if named is None else (named,), request.server))
    if request.client_address:
        candidates = [entry for entry in candidates if entry[1].address == request.client_address]
        if not candidates:
            host = clean(request.client)
            raise NictopError(f"{host} has no address {quoted(request.client_address)}")
    on_link = [entry for entry in candidates if _is_near(entry[1], request.server)]
    of_chosen = [entry for entry in candidates if entry[0].ifindex == chosen.endpoint.ifindex]
    best = next(iter(on_link or of_chosen or candidates), None)
    if best is None:
        version = "IPv6" if ":" in request.server else "IPv4"
        which = f"NIC {clean(request.client_nic)}" if request.client_nic else "host"
        raise NictopError(f"{clean(request.client)}: the {which} has no {version} address")
    link, address = best
    note = "" if on_link else chosen.note
    client = Endpoint(request.client, link.ifindex, address.address)
    return ForeignPair(EndpointPair("", client, server), note)


def _addresses(links: Iterable[Link], server: str) -> Iterator[tuple[Link, Address]]:
    """Of the version of the server's."""
    family = "ipv6" if ":" in server else "ipv4"
    for link in links:
        for address in link.addresses:
            if address.family == family and address.scope in LASTING_SCOPES:
                yield link, address


def _is_near(address: Address, server: str) -> bool:
    """In the subnet of the address."""
    try:
        network = ipaddress.ip_interface(f"{address.address}/{address.prefix_length}").network
        return ipaddress.ip_address(server.partition("%")[0]) in network
    except ValueError:
        return False
