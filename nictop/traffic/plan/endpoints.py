"""Host, NIC and IP address of both ends as the user typed them → the endpoint pair that matches.

Reads nothing; takes the candidate pairs and the newest snapshots. If no pair or more than one
matches, NictopError is raised; its hint lists the candidates as command line options.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal, Protocol

from nictop.errors import NetworkFault, NictopError
from nictop.model.devices.links import global_addresses, has_global_address
from nictop.model.snapshot import Snapshot, has_platform, is_same_namespace, unread_links
from nictop.model.text.terminal import clean
from nictop.probe.records import Address, Link
from nictop.rules.finding import Finding
from nictop.rules.fixes.commands import shell_quote
from nictop.rules.host import HostFacts
from nictop.rules.link.duplicate_addresses import ip_address_is_on_two_hosts
from nictop.rules.wording import first_names, headline
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.traffic.plan.quantities import quoted

TRAFFIC_OPTIONS = {"client": "--client-", "server": "--server-"}
PATH_OPTIONS = {"client": "--", "server": "--peer-"}
"""Side → how its options begin on the command line."""
PASSING_FLAGS = frozenset(("temporary", "deprecated", "tentative", "dadfailed"))
"""Of an address that does not stay, or is not usable yet (ip-address(8))."""
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
    """The pair that matches the request. If both ends are given explicitly, they need not share a
    subnet (the network of the pair is "" then). If only the IP version is open, IPv4 is used. Of
    several IPv6 addresses of one NIC, which every NIC has, the most lasting one is used
    (`chosen_addresses_text` says so). `snapshots`: host → snapshot, of all watched hosts.
    `options`: of the command line, for the hint. Raises NictopError if no pair or more than one
    matches, NetworkFault if the hosts can have none."""
    _check_names(request, snapshots, options)
    wanted = (request.client, request.server)
    candidates = [pair for pair in pairs if (pair.client.host, pair.server.host) == wanted]
    matching = [pair for pair in candidates if _is_wanted(pair, request, snapshots)]
    matching = matching or _explicit_pairs(request, snapshots)
    if not matching:
        raise _no_match_error(request, candidates, snapshots, options)
    ends = {(pair.client.ifindex, pair.server.ifindex) for pair in matching}
    has_one_path = len(ends) == 1
    if has_one_path:
        matching = _preferred(matching, snapshots)
    if len(matching) > 1:
        message = f"{len(matching)} paths from {clean(request.client)} to {clean(request.server)}"
        hint = _pair_options(matching, snapshots, options, by_address=has_one_path)
        raise NictopError(f"{message}: choose one", hint)
    return matching[0]


def _is_wanted(
    pair: EndpointPair, request: EndpointSelection, snapshots: Mapping[str, Snapshot]
) -> bool:
    client, server = pair.client, pair.server
    if request.ip_version not in (None, _ip_version(server.address)):
        return False
    if not _matches(client, request.client_nic, request.client_address, snapshots):
        return False
    return _matches(server, request.server_nic, request.server_address, snapshots)


def _preferred(pairs: list[EndpointPair], snapshots: Mapping[str, Snapshot]) -> list[EndpointPair]:
    """Of the addresses of two NICs: those of IPv4, else the most lasting pair of IPv6."""
    by_ipv4 = [pair for pair in pairs if _ip_version(pair.server.address) == 4]
    return by_ipv4 or [min(pairs, key=lambda pair: _preference(pair, snapshots))]


def chosen_addresses_text(
    request: EndpointSelection, chosen: EndpointPair, snapshots: Mapping[str, Snapshot]
) -> str:
    """What is said if `select_pair` chose one of several IPv6 addresses of a NIC; "": there was no
    choice."""
    others = []
    for endpoint, requested in (
        (chosen.client, request.client_address),
        (chosen.server, request.server_address),
    ):
        if requested or _ip_version(endpoint.address) != 6:
            continue
        number = _usable_ipv6_addresses(endpoint.link_in(snapshots))
        if number > 1:
            host = clean(endpoint.host)
            others.append(f"{clean(endpoint.address)} of {number} IPv6 addresses of {host}")
    if not others:
        return ""
    return f"chosen: {' and '.join(others)}"


def _usable_ipv6_addresses(link: Link | None) -> int:
    """Number of those that are not link-local."""
    if link is None:
        return 0
    scopes = [address.scope for address in link.addresses if address.family == "ipv6"]
    return scopes.count("global") + scopes.count("site")


def _preference(pair: EndpointPair, snapshots: Mapping[str, Snapshot]) -> tuple[int, int, str, str]:
    """The smallest one is used: a shared subnet, then addresses that stay, neither temporary nor
    deprecated."""
    passing = sum(_is_passing(end, snapshots) for end in (pair.client, pair.server))
    return int(not pair.network), passing, pair.client.address, pair.server.address


def _is_passing(endpoint: Endpoint, snapshots: Mapping[str, Snapshot]) -> bool:
    """A privacy address (RFC 8981), one that is no longer used for new connections, or not usable
    yet."""
    link = endpoint.link_in(snapshots)
    if link is None:
        return False
    for address in link.addresses:
        is_own = _same_address(address.address, endpoint.address)
        if is_own and not PASSING_FLAGS.isdisjoint(address.flags):
            return True
    return False


def updated_endpoint(endpoint: Endpoint, snapshots: Mapping[str, Snapshot]) -> Endpoint:
    """The endpoint with the NIC that has its address now, after a change on the host; unchanged if
    no NIC or several have it."""
    snapshot = snapshots.get(endpoint.host)
    if snapshot is None or endpoint.ifindex is None:
        return endpoint
    having = [link for link in snapshot.links.values() if _has_address(link, endpoint.address)]
    ifindexes = [link.ifindex for link in having]
    if endpoint.ifindex in ifindexes or len(ifindexes) != 1:
        return endpoint
    return Endpoint(endpoint.host, ifindexes[0], endpoint.address)


def _check_names(
    request: EndpointSelection, snapshots: Mapping[str, Snapshot], options: Mapping[str, str]
) -> None:
    """Raise NictopError for hosts, NICs and addresses that do not exist."""
    for side, host, nic, address in (
        ("client", request.client, request.client_nic, request.client_address),
        ("server", request.server, request.server_nic, request.server_address),
    ):
        if host not in snapshots:
            watched = ", ".join(map(clean, snapshots))
            raise NictopError(f"{quoted(host)} is not watched", f"watched: {watched}")
        snapshot = snapshots[host]
        reason = _missing_nic_text(snapshot, nic) or _missing_address_text(snapshot, address)
        if reason:
            raise NictopError(reason, _nic_options(options[side], snapshot))


def _missing_nic_text(snapshot: Snapshot, nic: str) -> str:
    """ "": there is such a NIC, or none was named."""
    if not nic or any(_has_name(link, nic) for link in snapshot.links.values()):
        return ""
    return f"{clean(snapshot.host)} has no NIC {quoted(nic)}"


def _missing_address_text(snapshot: Snapshot, address: str) -> str:
    """ "": a NIC has it, or none was given."""
    if not address:
        return ""
    if _parse_address(address) is None:
        return f"{quoted(address)} is not an IP address"
    if any(_has_address(link, address) for link in snapshot.links.values()):
        return ""
    unread = unread_links((snapshot,))
    if unread:
        return f"address {quoted(address)} is not known; not read yet: {first_names(unread)}"
    return f"{clean(snapshot.host)} has no address {quoted(address)}"


def _matches(endpoint: Endpoint, nic: str, address: str, snapshots: Mapping[str, Snapshot]) -> bool:
    """`nic`, `address`: as they were requested; "": any."""
    if address and not _same_address(address, endpoint.address):
        return False
    if not nic:
        return True
    link = endpoint.link_in(snapshots)
    return link is not None and _has_name(link, nic)


def _explicit_pairs(
    request: EndpointSelection, snapshots: Mapping[str, Snapshot]
) -> list[EndpointPair]:
    """Pairs of two ends that are both given by NIC or address; routers may lie between them."""
    clients = _explicit_endpoints(
        snapshots[request.client], request.client_nic, request.client_address
    )
    servers = _explicit_endpoints(
        snapshots[request.server], request.server_nic, request.server_address
    )
    versions = (4, 6) if request.ip_version is None else (request.ip_version,)
    found = []
    for version in versions:
        for client, server in product(clients, servers):
            if _ip_version(client.address) == _ip_version(server.address) == version:
                found.append(EndpointPair("", client, server))
    return found


def _explicit_endpoints(snapshot: Snapshot, nic: str, address: str) -> list[Endpoint]:
    """[]: neither NIC nor address is given."""
    if not nic and not address:
        return []
    found = []
    for link in snapshot.links.values():
        if nic and not _has_name(link, nic):
            continue
        if not address:
            addresses = _valid_addresses(link)
        elif _has_address(link, address):
            addresses = [address]
        else:
            addresses = []
        found += [Endpoint(snapshot.host, link.ifindex, own) for own in addresses]
    return found


def _valid_addresses(link: Link) -> list[str]:
    """Those that are valid."""
    addresses = (address.address for address in global_addresses(link))
    return [address for address in addresses if _parse_address(address) is not None]


def _no_match_error(
    request: EndpointSelection,
    candidates: Sequence[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    options: Mapping[str, str],
) -> NictopError:
    names = f"{clean(request.client)} and {clean(request.server)}"
    if candidates:
        by_address = request.ip_version is not None
        known = _pair_options(candidates, snapshots, options, by_address=by_address)
        return NictopError(
            f"no path between {names} matches {_chosen_text(request, options)}",
            f"there is: {known}",
        )
    if request.client == request.server:
        return NictopError(
            f"{clean(request.client)} is client and server: give an address for each",
            _nic_options(options["client"], snapshots[request.client]),
        )
    ends = (snapshots[request.client], snapshots[request.server])
    unread, both_have = unread_links(ends), _addresses_of_both(*ends)
    partly = [clean(end.host) for end in ends if not has_platform(end)]
    if is_same_namespace(*ends):
        reason = f"{names} are the same machine (equal boot ID)"
    elif partly:
        reason = f"what {' and '.join(partly)} is connected to is not read yet"
    elif any(unread):
        reason = f"{names} share no known subnet (not read yet: {first_names(unread)})"
    elif (fault := _network_fault(ends)) is not None:
        hosts = " ".join(shell_quote(end.host) for end in ends)
        return NetworkFault(f"no path between {names}: {fault}", f"nictop check {hosts}")
    elif both_have:
        reason = f"{names} both have {first_names(both_have)}, and share no other subnet"
    elif duplicates := _duplicates_in_shared_subnets(ends, snapshots):
        reason = f"{names} have no unambiguous pair of addresses: {first_names(duplicates)}"
    else:
        reason = f"{names} share no subnet"
    both = (
        _nic_options(options["client"], snapshots[request.client]),
        _nic_options(options["server"], snapshots[request.server]),
    )
    return NictopError(
        f"{reason}: give NIC or address of both ends (routers may be between them)",
        "; ".join(filter(None, both)),
    )


def _network_fault(ends: tuple[Snapshot, Snapshot]) -> str | None:
    """Why two hosts have no path, if that is a fault and no question of what was typed."""
    bare = [clean(end.host) for end in ends if not _has_global_address(end)]
    if bare:
        have = "has" if len(bare) == 1 else "have"
        return f"{' and '.join(bare)} {have} no IP address, or link-local ones only"
    texts = []
    for found in ip_address_is_on_two_hosts([HostFacts(end) for end in ends]):
        if isinstance(found, Finding) and found.severity != "info":
            texts.append(clean(headline(found, several_hosts=True)))
    return "; ".join(texts) or None


def _has_global_address(snapshot: Snapshot) -> bool:
    return any(map(has_global_address, snapshot.links.values()))


def _addresses_of_both(client: Snapshot, server: Snapshot) -> tuple[str, ...]:
    """Global addresses that are on links of both: packets to one do not leave the host that has it
    itself."""
    of_each = []
    for end in (client, server):
        of_each.append(
            {one.address for link in end.links.values() for one in global_addresses(link)}
        )
    return tuple(sorted(of_each[0] & of_each[1]))


def _duplicates_in_shared_subnets(
    ends: tuple[Snapshot, Snapshot], snapshots: Mapping[str, Snapshot]
) -> tuple[str, ...]:
    """Why two hosts of one subnet have no pair of addresses in it: ``192.0.2.1 is on vm1 and
    vm3``."""
    networks = [{_network(own) for own in _own_addresses(end)} for end in ends]
    shared = (networks[0] & networks[1]) - {None}
    found = []
    for end in ends:
        for own in _own_addresses(end):
            hosts = [name for name in snapshots if _has_own(snapshots[name], own.address)]
            if _network(own) in shared and len(hosts) > 1:
                found.append(f"{clean(own.address)} is on {' and '.join(map(clean, hosts))}")
    return tuple(dict.fromkeys(found))


def _own_addresses(snapshot: Snapshot) -> list[Address]:
    return [own for link in snapshot.links.values() for own in global_addresses(link)]


def _has_own(snapshot: Snapshot, address: str) -> bool:
    return any(_same_address(own.address, address) for own in _own_addresses(snapshot))


def _network(own: Address) -> str | None:
    """None: it is invalid."""
    try:
        return str(ipaddress.ip_interface(f"{own.address}/{own.prefix_length}").network)
    except ValueError:
        return None


def _chosen_text(request: EndpointSelection, options: Mapping[str, str]) -> str:
    """``--nic ens224 --peer-nic ens256``: what was given."""
    words = []
    for side, nic, address in (
        ("client", request.client_nic, request.client_address),
        ("server", request.server_nic, request.server_address),
    ):
        if nic:
            words.append(f"{options[side]}nic {shell_quote(nic)}")
        if address:
            words.append(f"{options[side]}address {shell_quote(address)}")
    if request.ip_version is not None:
        words.append(f"IPv{request.ip_version}")
    return clean(" ".join(words))


def _pair_options(
    pairs: Iterable[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    options: Mapping[str, str],
    *,
    by_address: bool,
) -> str:
    lines: dict[str, None] = {}
    for pair in pairs:
        words = []
        for side, endpoint in (("client", pair.client), ("server", pair.server)):
            link = endpoint.link_in(snapshots)
            if by_address or link is None:
                words.append(f"{options[side]}address {shell_quote(endpoint.address)}")
            else:
                words.append(f"{options[side]}nic {shell_quote(link.name)}")
        lines[" ".join(words)] = None
    return _alternatives(tuple(lines))


def _nic_options(option: str, snapshot: Snapshot) -> str:
    """The NICs of a host that have an address, as options: ``--client-nic ens224 (192.0.2.1)``.
    `option`: its beginning."""
    options = []
    for link in snapshot.links.values():
        known = [address.address for address in global_addresses(link)]
        if known:
            listed = ", ".join(map(clean, known[:MAX_LISTED_ADDRESSES]))
            options.append(f"{option}nic {shell_quote(link.name)} ({listed})")
    if not options:
        return f"{clean(snapshot.host)} has no NIC with an address"
    return _alternatives(options)


def _alternatives(lines: Sequence[str]) -> str:
    text = " or ".join(lines[:MAX_LISTED_PAIRS])
    if len(lines) > MAX_LISTED_PAIRS:
        text += f" or {len(lines) - MAX_LISTED_PAIRS} more"
    return text


def _has_name(link: Link, name: str) -> bool:
    return name == link.name or name in link.altnames


def _has_address(link: Link, address: str) -> bool:
    return any(_same_address(own.address, address) for own in link.addresses)


def _same_address(address: str, other: str) -> bool:
    """Invalid ones are never the same."""
    parsed = _parse_address(address)
    return parsed is not None and parsed == _parse_address(other)


def _parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address without its zone; None if it is invalid."""
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _ip_version(address: str) -> int:
    """0: it is invalid."""
    parsed = _parse_address(address)
    if parsed is None:
        return 0
    return parsed.version
