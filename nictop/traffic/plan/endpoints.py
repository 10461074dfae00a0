"""Host, NIC and IP address of both ends as the user typed them → the endpoint pair that matches.

Reads nothing; takes the candidate pairs and the newest snapshots. If no pair or more than one matches, NictopError is
raised; its hint lists the candidates as command line options.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal, Protocol

from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot, is_same_machine
from nictop.model.text.terminal import clean
from nictop.probe.records import Link
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.traffic.plan.quantities import quoted

TRAFFIC_OPTIONS = {"client": "--client-", "server": "--server-"}
PATH_OPTIONS = {"client": "--", "server": "--peer-"}
"""Side → how its options begin on the command line."""
MAX_LISTED_PAIRS = 8
"""Endpoint pairs or NICs in a hint."""
MAX_LISTED_ADDRESSES = 4
"""IP addresses of one NIC in a hint."""


class EndpointSelection(Protocol):
    """The fields of a request that select the endpoints; "" and None: any."""

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


def select_pair(
    request: EndpointSelection,
    pairs: Sequence[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    *,
    options: Mapping[str, str] = TRAFFIC_OPTIONS,
) -> EndpointPair:
    """The pair that matches the request. If both ends are given explicitly, they need not share a subnet (the network
    of the pair is "" then). If only the IP version is open, IPv4 is used. Of several IPv6 addresses of one NIC, which
    every NIC has, the most lasting one is used (`chosen_addresses_text` says so). `snapshots`: host → snapshot, of all
    watched hosts. `options`: of the command line, for the hint. Raises NictopError if no pair or more than one
    matches."""
    _check_names(request, snapshots, options)
    candidates = [one for one in pairs if (one.client.host, one.server.host) == (request.client, request.server)]
    matching = [
        one
        for one in candidates
        if _matches(one.client, request.client_nic, request.client_address, snapshots)
        and _matches(one.server, request.server_nic, request.server_address, snapshots)
        and request.ip_version in (None, _ip_version(one.server.address))
    ]
    matching = matching or _explicit_pairs(request, snapshots)
    if not matching:
        raise _no_match_error(request, candidates, snapshots, options)
    ends = {(one.client.ifindex, one.server.ifindex) for one in matching}
    if len(ends) == 1 and len(matching) > 1:
        matching = [one for one in matching if _ip_version(one.server.address) == 4] or matching
    if len(ends) == 1 and all(_ip_version(one.server.address) == 6 for one in matching):
        matching = [min(matching, key=lambda one: _preference(one, snapshots))]
    if len(matching) > 1:
        message = f"{len(matching)} paths from {clean(request.client)} to {clean(request.server)}"
        raise NictopError(
            f"{message}: choose one", _pair_options(matching, snapshots, options, by_address=len(ends) == 1)
        )
    return matching[0]


def chosen_addresses_text(request: EndpointSelection, chosen: EndpointPair, snapshots: Mapping[str, Snapshot]) -> str:
    """What is said if `select_pair` chose one of several IPv6 addresses of a NIC; "": there was no choice."""
    others = []
    for endpoint, asked in ((chosen.client, request.client_address), (chosen.server, request.server_address)):
        link = snapshots[endpoint.host].links.get(endpoint.ifindex or 0)
        if asked or link is None or _ip_version(endpoint.address) != 6:
            continue
        usable = [one for one in link.addresses if one.family == "ipv6" and one.scope in ("global", "site")]
        if len(usable) > 1:
            others.append(f"{clean(endpoint.address)} of {len(usable)} IPv6 addresses of {clean(endpoint.host)}")
    return f"chosen: {' and '.join(others)}" if others else ""


def _preference(pair: EndpointPair, snapshots: Mapping[str, Snapshot]) -> tuple[int, int, str, str]:
    """The smallest one is used: a shared subnet, then addresses that stay, neither temporary nor deprecated."""
    passing = sum(_is_passing(end, snapshots) for end in (pair.client, pair.server))
    return int(not pair.network), passing, pair.client.address, pair.server.address


def _is_passing(endpoint: Endpoint, snapshots: Mapping[str, Snapshot]) -> bool:
    """A privacy address (RFC 8981), one that is no longer used for new connections, or not usable yet."""
    link = snapshots[endpoint.host].links.get(endpoint.ifindex or 0)
    flags = [one.flags for one in link.addresses if _same_address(one.address, endpoint.address)] if link else []
    return any({"temporary", "deprecated", "tentative", "dadfailed"}.intersection(one) for one in flags)


def updated_endpoint(endpoint: Endpoint, snapshots: Mapping[str, Snapshot]) -> Endpoint:
    """The endpoint with the NIC that has its address now, after a change on the host; unchanged if no NIC or several
    have it."""
    snapshot = snapshots.get(endpoint.host)
    if snapshot is None or endpoint.ifindex is None:
        return endpoint
    link = snapshot.links.get(endpoint.ifindex)
    if link is not None and _has_address(link, endpoint.address):
        return endpoint
    ifindexes = [one.ifindex for one in snapshot.links.values() if _has_address(one, endpoint.address)]
    return Endpoint(endpoint.host, ifindexes[0], endpoint.address) if len(ifindexes) == 1 else endpoint


def _check_names(request: EndpointSelection, snapshots: Mapping[str, Snapshot], options: Mapping[str, str]) -> None:
    """Raise NictopError for hosts, NICs and addresses that do not exist."""
    for side, host, nic, address in (
        ("client", request.client, request.client_nic, request.client_address),
        ("server", request.server, request.server_nic, request.server_address),
    ):
        snapshot = snapshots.get(host)
        if snapshot is None:
            raise NictopError(f"{quoted(host)} is not watched", f"watched: {', '.join(map(clean, snapshots))}")
        links = snapshot.links.values()
        if nic and not any(_has_name(link, nic) for link in links):
            raise NictopError(f"{clean(host)} has no NIC {quoted(nic)}", _nic_options(options[side], snapshot))
        if address and _parse_address(address) is None:
            raise NictopError(f"{quoted(address)} is not an IP address", _nic_options(options[side], snapshot))
        if address and not any(_has_address(link, address) for link in links):
            raise NictopError(f"{clean(host)} has no address {quoted(address)}", _nic_options(options[side], snapshot))


def _matches(endpoint: Endpoint, nic: str, address: str, snapshots: Mapping[str, Snapshot]) -> bool:
    link = snapshots[endpoint.host].links.get(endpoint.ifindex or 0)
    has_name = not nic or (link is not None and _has_name(link, nic))
    return has_name and (not address or _same_address(address, endpoint.address))


def _explicit_pairs(request: EndpointSelection, snapshots: Mapping[str, Snapshot]) -> list[EndpointPair]:
    """Pairs of two ends that are both given by NIC or address; routers may lie between them."""
    clients = _explicit_endpoints(snapshots[request.client], request.client_nic, request.client_address)
    servers = _explicit_endpoints(snapshots[request.server], request.server_nic, request.server_address)
    versions = (4, 6) if request.ip_version is None else (request.ip_version,)
    return [
        EndpointPair("", client, server)
        for version in versions
        for client, server in product(clients, servers)
        if _ip_version(client.address) == _ip_version(server.address) == version
    ]


def _explicit_endpoints(snapshot: Snapshot, nic: str, address: str) -> list[Endpoint]:
    if not nic and not address:
        return []
    links = [link for link in snapshot.links.values() if not nic or _has_name(link, nic)]
    if address:
        return [Endpoint(snapshot.host, link.ifindex, address) for link in links if _has_address(link, address)]
    return [
        Endpoint(snapshot.host, link.ifindex, one.address)
        for link in links
        for one in link.addresses
        if one.scope == "global" and _parse_address(one.address) is not None
    ]


def _no_match_error(
    request: EndpointSelection,
    candidates: Sequence[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    options: Mapping[str, str],
) -> NictopError:
    names = f"{clean(request.client)} and {clean(request.server)}"
    if candidates:
        return NictopError(
            f"no path between {names} matches",
            _pair_options(candidates, snapshots, options, by_address=request.ip_version is not None),
        )
    if request.client == request.server:
        return NictopError(
            f"{clean(request.client)} is client and server: give an address for each",
            _nic_options(options["client"], snapshots[request.client]),
        )
    if is_same_machine(snapshots[request.client], snapshots[request.server]):
        reason = f"{names} are the same machine (equal boot ID)"
    else:
        reason = f"{names} share no subnet"
    both = (
        _nic_options(options["client"], snapshots[request.client]),
        _nic_options(options["server"], snapshots[request.server]),
    )
    return NictopError(
        f"{reason}: give NIC or address of both ends (routers may be between them)", "; ".join(filter(None, both))
    )


def _pair_options(
    pairs: Iterable[EndpointPair], snapshots: Mapping[str, Snapshot], options: Mapping[str, str], *, by_address: bool
) -> str:
    lines: dict[str, None] = {}
    for one in pairs:
        words = []
        for side, endpoint in (("client", one.client), ("server", one.server)):
            link = snapshots[endpoint.host].links.get(endpoint.ifindex or 0)
            if by_address or link is None:
                words.append(f"{options[side]}address {shell_quote(endpoint.address)}")
            else:
                words.append(f"{options[side]}nic {shell_quote(link.name)}")
        lines[" ".join(words)] = None
    return _alternatives(tuple(lines))


def _nic_options(option: str, snapshot: Snapshot) -> str:
    """The NICs of a host that have an address, as options: ``--client-nic ens224 (192.0.2.1)``. `option`: its
    beginning."""
    options = []
    for link in snapshot.links.values():
        known = [one.address for one in link.addresses if one.scope == "global"]
        if known:
            options.append(
                f"{option}nic {shell_quote(link.name)} ({', '.join(map(clean, known[:MAX_LISTED_ADDRESSES]))})"
            )
    return _alternatives(options) or f"{clean(snapshot.host)} has no NIC with an address"


def _alternatives(lines: Sequence[str]) -> str:
    more = f" or {len(lines) - MAX_LISTED_PAIRS} more" if len(lines) > MAX_LISTED_PAIRS else ""
    return " or ".join(lines[:MAX_LISTED_PAIRS]) + more


def _has_name(link: Link, name: str) -> bool:
    return name == link.name or name in link.altnames


def _has_address(link: Link, address: str) -> bool:
    return any(_same_address(one.address, address) for one in link.addresses)


def _same_address(one: str, other: str) -> bool:
    return (first := _parse_address(one)) is not None and first == _parse_address(other)


def _parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address without its zone; None if it is invalid."""
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _ip_version(address: str) -> int:
    parsed = _parse_address(address)
    return 0 if parsed is None else parsed.version
