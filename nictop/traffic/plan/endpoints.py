"""Which ends are meant: hosts, NICs and addresses as they were typed → the one offer that fits.

Reads nothing; takes the offers and the newest snapshots. When none fits, or several do, a NictopError says so and its
hint has the possible ends in the words to type.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal, Protocol

from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Link
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.traffic.plan.quantities import shown

MOST_LISTED = 8
"""Ends in a hint."""


class Ends(Protocol):
    """The part of a wish that is about places; "" and None: whatever fits."""

    @property
    def client(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def client_nic(self) -> str: ...
    @property
    def client_address(self) -> str: ...
    @property
    def server_nic(self) -> str: ...
    @property
    def server_address(self) -> str: ...
    @property
    def ip_version(self) -> Literal[4, 6] | None: ...


def choose(wish: Ends, offers: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]) -> EndpointPair:
    """The one offer that fits. Two explicit ends need no common subnet (the offer's network is "" then); where only the
    IP version is open, it is IPv4. Hosts of `snapshots` are those that are watched."""
    _check_names(wish, snapshots)
    between = [one for one in offers if (one.client.host, one.server.host) == (wish.client, wish.server)]
    fitting = [
        one
        for one in between
        if _fits(one.client, wish.client_nic, wish.client_address, snapshots)
        and _fits(one.server, wish.server_nic, wish.server_address, snapshots)
        and wish.ip_version in (None, _version(one.server.address))
    ]
    fitting = fitting or _routed(wish, snapshots)
    if not fitting:
        raise _none(wish, between, snapshots)
    ends = {(one.client.ifindex, one.server.ifindex) for one in fitting}
    if len(ends) == 1 and len(fitting) > 1:
        fitting = [one for one in fitting if _version(one.server.address) == 4] or fitting
    if len(fitting) > 1:
        message = f"several ways lead from {clean(wish.client)} to {clean(wish.server)}"
        raise NictopError(f"{message}: choose one", _listed(fitting, snapshots, by_address=len(ends) == 1))
    return fitting[0]


def refreshed(place: Endpoint, snapshots: Mapping[str, Snapshot]) -> Endpoint:
    """The place after a change on its host: the NIC that bears its address now. The same when none does."""
    snapshot = snapshots.get(place.host)
    if snapshot is None or place.ifindex is None:
        return place
    link = snapshot.links.get(place.ifindex)
    if link is not None and _bears(link, place.address):
        return place
    bearers = [one.ifindex for one in snapshot.links.values() if _bears(one, place.address)]
    return Endpoint(place.host, bearers[0], place.address) if len(bearers) == 1 else place


def _check_names(wish: Ends, snapshots: Mapping[str, Snapshot]) -> None:
    """Hosts, NICs and addresses that there are not at all."""
    for side, host, nic, address in (
        ("client", wish.client, wish.client_nic, wish.client_address),
        ("server", wish.server, wish.server_nic, wish.server_address),
    ):
        snapshot = snapshots.get(host)
        if snapshot is None:
            raise NictopError(f"{shown(host)} is not watched", f"watched: {', '.join(map(clean, snapshots))}")
        links = snapshot.links.values()
        if nic and not any(_is_called(link, nic) for link in links):
            raise NictopError(f"{clean(host)} has no NIC {shown(nic)}", _nics(side, snapshot))
        if address and _parsed(address) is None:
            raise NictopError(f"{shown(address)} is no IP address", _nics(side, snapshot))
        if address and not any(_bears(link, address) for link in links):
            raise NictopError(f"{clean(host)} has no address {shown(address)}", _nics(side, snapshot))


def _fits(place: Endpoint, nic: str, address: str, snapshots: Mapping[str, Snapshot]) -> bool:
    link = snapshots[place.host].links.get(place.ifindex or 0)
    called = not nic or (link is not None and _is_called(link, nic))
    return called and (not address or _same(address, place.address))


def _routed(wish: Ends, snapshots: Mapping[str, Snapshot]) -> list[EndpointPair]:
    """Ends that are both named, by NIC or address, whatever lies between them."""
    clients = _named(snapshots[wish.client], wish.client_nic, wish.client_address)
    servers = _named(snapshots[wish.server], wish.server_nic, wish.server_address)
    versions = (4, 6) if wish.ip_version is None else (wish.ip_version,)
    return [
        EndpointPair("", client, server)
        for version in versions
        for client, server in product(clients, servers)
        if _version(client.address) == _version(server.address) == version
    ]


def _named(snapshot: Snapshot, nic: str, address: str) -> list[Endpoint]:
    if not nic and not address:
        return []
    links = [link for link in snapshot.links.values() if not nic or _is_called(link, nic)]
    if address:
        return [Endpoint(snapshot.host, link.ifindex, address) for link in links if _bears(link, address)]
    return [
        Endpoint(snapshot.host, link.ifindex, one.address)
        for link in links
        for one in link.addresses
        if one.scope == "global" and _parsed(one.address) is not None
    ]


def _none(wish: Ends, between: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]) -> NictopError:
    names = f"{clean(wish.client)} and {clean(wish.server)}"
    if between:
        return NictopError(
            f"no way between {names} fits what was asked for",
            _listed(between, snapshots, by_address=wish.ip_version is not None),
        )
    if wish.client == wish.server:
        return NictopError(
            f"{clean(wish.client)} is both ends: name an address for each",
            _nics("client", snapshots[wish.client]),
        )
    both = (_nics("client", snapshots[wish.client]), _nics("server", snapshots[wish.server]))
    return NictopError(
        f"{names} share no subnet: name both ends (routers may lie between them)", "; ".join(filter(None, both))
    )


def _listed(offers: Iterable[EndpointPair], snapshots: Mapping[str, Snapshot], *, by_address: bool) -> str:
    lines: dict[str, None] = {}
    for one in offers:
        words = []
        for side, place in (("client", one.client), ("server", one.server)):
            link = snapshots[place.host].links.get(place.ifindex or 0)
            if by_address or link is None:
                words.append(f"--{side}-address {shell_quote(place.address)}")
            else:
                words.append(f"--{side}-nic {shell_quote(link.name)}")
        lines[" ".join(words)] = None
    return _shortened(tuple(lines))


def _nics(side: str, snapshot: Snapshot) -> str:
    """The NICs of a host that have an address: ``--client-nic ens224 (192.0.2.1)``."""
    told = []
    for link in snapshot.links.values():
        known = [one.address for one in link.addresses if one.scope == "global"]
        if known:
            told.append(f"--{side}-nic {shell_quote(link.name)} ({', '.join(map(clean, known[:4]))})")
    return _shortened(told) or f"{clean(snapshot.host)} has no NIC with an address"


def _shortened(lines: Sequence[str]) -> str:
    more = f" or {len(lines) - MOST_LISTED} more" if len(lines) > MOST_LISTED else ""
    return " or ".join(lines[:MOST_LISTED]) + more


def _is_called(link: Link, name: str) -> bool:
    return name == link.name or name in link.altnames


def _bears(link: Link, address: str) -> bool:
    return any(_same(one.address, address) for one in link.addresses)


def _same(one: str, other: str) -> bool:
    return (first := _parsed(one)) is not None and first == _parsed(other)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Without its zone."""
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _version(address: str) -> int:
    parsed = _parsed(address)
    return 0 if parsed is None else parsed.version
