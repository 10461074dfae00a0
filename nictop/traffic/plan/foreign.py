"""The endpoints of a run with one end on a host that is not watched: its address, and the NIC of
the other end in that address's subnet, else that of the default route. Reads nothing."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Address, Link
from nictop.traffic.plan.one_nic import measured_nic
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.plan.request import RunRequest

Side = Literal["client", "server"]
LASTING_SCOPES = ("global", "site")


@dataclass(frozen=True)
class ForeignPair:
    """The endpoints, and what the user should know about their choice."""

    pair: EndpointPair
    note: str = ""


def is_address(text: str) -> bool:
    """It is an IP address, with or without a zone."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def foreign_side(client: str, server: str) -> Side:
    """Which of two words is the foreign end: the address; of two addresses the server. Raises
    NictopError if none is an address."""
    if is_address(server):
        return "server"
    if is_address(client):
        return "client"
    raise NictopError(
        f"--foreign: {quoted(server)} is not an IP address",
        "a name may mean another address on the other end: give the address",
    )


def foreign_pair(request: RunRequest, snapshots: Mapping[str, Snapshot]) -> ForeignPair:
    """Raises NictopError if the end that is not foreign is not watched, or has no such NIC or
    address."""
    if request.foreign_side == "client":
        own = _OwnEnd(request.server, request.server_nic, request.server_address, "server")
        far = request.client
    else:
        own = _OwnEnd(request.client, request.client_nic, request.client_address, "client")
        far = request.server
    endpoint, note = _own_endpoint(own, far, snapshots)
    foreign = Endpoint(far, None, far)
    if own.side == "server":
        return ForeignPair(EndpointPair("", foreign, endpoint), note)
    return ForeignPair(EndpointPair("", endpoint, foreign), note)


@dataclass(frozen=True)
class _OwnEnd:
    """What is requested of the end that is watched. "": any."""

    host: str
    nic: str
    address: str
    side: Side


def _own_endpoint(
    own: _OwnEnd, far: str, snapshots: Mapping[str, Snapshot]
) -> tuple[Endpoint, str]:
    """It, and what the user should know about the choice. `far`: address of the other end."""
    chosen = measured_nic(own.host, own.nic, snapshots, f"--{own.side}-nic")
    links = list(snapshots[own.host].links.values())
    if own.nic:
        links = [link for link in links if link.ifindex == chosen.endpoint.ifindex]
    candidates = list(_addresses(links, far))
    if own.address:
        candidates = [entry for entry in candidates if entry[1].address == own.address]
        if not candidates:
            raise NictopError(f"{clean(own.host)} has no address {quoted(own.address)}")
    if not candidates:
        version = "IPv6" if ":" in far else "IPv4"
        which = f"NIC {clean(own.nic)}" if own.nic else "host"
        raise NictopError(f"{clean(own.host)}: the {which} has no {version} address")
    on_link = [entry for entry in candidates if _is_near(entry[1], far)]
    of_chosen = [entry for entry in candidates if entry[0].ifindex == chosen.endpoint.ifindex]
    link, address = (on_link or of_chosen or candidates)[0]
    note = "" if on_link else chosen.note
    return Endpoint(own.host, link.ifindex, address.address), note


def _addresses(links: Iterable[Link], far: str) -> Iterator[tuple[Link, Address]]:
    """Of the version of the other end's."""
    family = "ipv6" if ":" in far else "ipv4"
    for link in links:
        for address in link.addresses:
            if address.family == family and address.scope in LASTING_SCOPES:
                yield link, address


def _is_near(address: Address, far: str) -> bool:
    """In the subnet of the address."""
    try:
        network = ipaddress.ip_interface(f"{address.address}/{address.prefix_length}").network
        return ipaddress.ip_address(far.partition("%")[0]) in network
    except ValueError:
        return False
