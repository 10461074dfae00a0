"""Why NICs of watched hosts have no pair in the list of paths for a test, as far as it is known.

Reads nothing; takes the shared subnets, the pairs that are listed and the newest snapshots. A
reason is what was read of the NIC itself, or of an address of another host that conflicts with
its own; nothing is said of a NIC that is not meant to have an address: the port of a bridge or
bond, or the device below a VLAN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.links import global_addresses, is_into_namespace
from nictop.model.devices.subnets import SharedSubnet
from nictop.model.doubts import doubts_of
from nictop.model.snapshot import Snapshot, has_platform, is_read_whole, is_unread_link
from nictop.model.text.ip_addresses import Network, address_network
from nictop.model.text.terminal import clean
from nictop.model.text.words import FAMILY_NAMES, IFF_LOOPBACK, IFF_UP, address_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Address, Link
from nictop.rules.wording import first_names
from nictop.traffic.plan.plan import Endpoint, EndpointPair

KINDS_OF_ENDS = ("bond", "team", "vlan", "macvlan", "ipvlan")
"""Of virtual links that have the addresses of a device."""


@dataclass(frozen=True)
class Unlisted:
    """Why something is not among the pairs."""

    host: str
    """Empty: `subject` names it."""
    subject: str
    """Name of a NIC, or an address."""
    reason: str


def unlisted_texts(
    subnets: Sequence[SharedSubnet],
    pairs: Sequence[EndpointPair],
    snapshots: Mapping[str, Snapshot],
) -> list[str]:
    """``vm1 ens256, ens257: no IP address; no carrier``, clean: one for each host and reason, first
    what is wrong with addresses. `snapshots`: by host, of those that take part."""
    read = {host: snapshot for host, snapshot in snapshots.items() if has_platform(snapshot)}
    found = [*_duplicates(subnets, read), *_nics(subnets, pairs, snapshots, read)]
    found += [*_missing_versions(pairs, read), *_unread_hosts(snapshots)]
    names: dict[tuple[str, str], dict[str, None]] = {}
    for one in found:
        names.setdefault((one.host, one.reason), {})[one.subject] = None
    texts = []
    for (host, reason), subjects in names.items():
        place = f"{host} {first_names(list(subjects))}".strip()
        texts.append(clean(f"{place}: {reason}"))
    return texts


def _unread_hosts(snapshots: Mapping[str, Snapshot]) -> Iterator[Unlisted]:
    for host, snapshot in snapshots.items():
        if not has_platform(snapshot):
            is_connected = snapshot.state not in ("lost", "failed")
            yield Unlisted("", host, "not read yet" if is_connected else "not connected")


def _duplicates(
    subnets: Iterable[SharedSubnet], snapshots: Mapping[str, Snapshot]
) -> Iterator[Unlisted]:
    """Addresses of several NICs."""
    for subnet in subnets:
        for address in subnet.duplicates:
            ends = [member.end for member in subnet.members if member.address == address]
            links = [(end.host, snapshots[end.host].links[end.ifindex]) for end in ends]
            places = [f"{host} {link.name}" for host, link in links]
            yield Unlisted("", address, f"on {' and '.join(dict.fromkeys(places))}")


def _nics(
    subnets: Iterable[SharedSubnet],
    pairs: Iterable[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    read: Mapping[str, Snapshot],
) -> Iterator[Unlisted]:
    """Those without any pair, first those that have an address. `read`: of `snapshots` those whose
    links are known."""
    explained = {(end.host, end.ifindex) for end in _ends(pairs)}
    for subnet in subnets:
        for member in subnet.members:
            if member.address in subnet.duplicates:
                explained.add((member.end.host, member.end.ifindex))
    found = []
    for host, snapshot in read.items():
        for link in _end_links(snapshot):
            if (host, link.ifindex) not in explained:
                found.append((host, snapshot, link))
    found.sort(key=lambda nic: not nic[2].addresses)
    for host, snapshot, link in found:
        reason = _reason(link, snapshot, snapshots)
        if reason:
            yield Unlisted(host, link.name, reason)


def _ends(pairs: Iterable[EndpointPair]) -> Iterator[Endpoint]:
    for pair in pairs:
        yield from (pair.client, pair.server)


def _end_links(snapshot: Snapshot) -> Iterator[Link]:
    """Links that a test may use, if they had an address."""
    links = snapshot.links.values()
    lower = {link.lower for link in links if link.lower_namespace is None}
    for link in links:
        is_end = link.bus is not None or is_into_namespace(link) or link.kind in KINDS_OF_ENDS
        if not is_end or link.flags & IFF_LOOPBACK or link.master is not None:
            continue
        if link.addresses or link.ifindex not in lower:
            yield link


def _reason(link: Link, snapshot: Snapshot, snapshots: Mapping[str, Snapshot]) -> str:
    """Empty: none is known. `snapshots`: of all hosts."""
    if is_unread_link(link):
        return "not read yet"
    reason = _reason_of_addresses(link, snapshots)
    if not reason:
        return ""
    doubts = doubts_of(snapshot)
    if doubts is not None and doubts.concern_link(link):
        reason += ", as read before an event"
    state = _state(link)
    return f"{reason}; {state}" if state else reason


def _state(link: Link) -> str:
    """By its flags and carrier, which events tell; "": it is up."""
    if not link.flags & IFF_UP:
        return "set down"
    return "no carrier" if link.carrier is False else ""


def _reason_of_addresses(link: Link, snapshots: Mapping[str, Snapshot]) -> str:
    own = global_addresses(link)
    if not own:
        return "only link-local addresses" if link.addresses else "no IP address"
    failed = [address for address in own if "dadfailed" in address.flags]
    if len(failed) == len(own):
        return f"duplicate address detection of {failed[0].address} has failed"
    networks = [(address, _network(address)) for address in own if address not in failed]
    shared = [(address, network) for address, network in networks if network is not None]
    if not shared:
        return f"{address_text(own[0])} is in no subnet with other addresses"
    for address, network in shared:
        other = _overlapping(link, network, snapshots)
        if other:
            return f"{address_text(address)} is in another subnet than {other}"
    if not all(map(_has_known_addresses, snapshots.values())):
        return ""
    found = dict.fromkeys(str(network) for _, network in shared)
    return f"no other host has an address in {first_names(list(found))}"


def _has_known_addresses(snapshot: Snapshot) -> bool:
    """An address that is not known of it is not there."""
    if snapshot.state != "live" or not is_read_whole(snapshot):
        return False
    doubts = doubts_of(snapshot)
    return doubts is None or not doubts.about_addresses


def _network(address: Address) -> Network | None:
    """None: it is invalid, or has no room for another address."""
    network = address_network(address)
    if network is None or network.prefixlen in (0, network.max_prefixlen):
        return None
    return network


def _overlapping(own: Link, network: Network, snapshots: Mapping[str, Snapshot]) -> str:
    """``192.0.2.2/25 of vm2 ens224``, whose subnet has addresses in common with `network`."""
    for host, snapshot in snapshots.items():
        if snapshot.links.get(own.ifindex) is own:
            continue
        for link in _end_links(snapshot):
            for address in global_addresses(link):
                other = _network(address)
                if other is None or other == network or other.version != network.version:
                    continue
                if network.overlaps(other):
                    return f"{address_text(address)} of {host} {link.name}"
    return ""


def _missing_versions(
    pairs: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]
) -> Iterator[Unlisted]:
    """NICs of a pair that is listed with one IP version only, although one end has the other,
    too."""
    listed = {(_subjects(pair), _family(pair.client)) for pair in pairs}
    for pair in pairs:
        family = "ipv6" if _family(pair.client) == "ipv4" else "ipv4"
        if (_subjects(pair), family) in listed:
            continue
        for end, other in ((pair.client, pair.server), (pair.server, pair.client)):
            link, has = end.link_in(snapshots), other.link_in(snapshots)
            if link is None or has is None or not global_addresses(has, family):
                continue
            if not global_addresses(link, family) and not is_unread_link(link):
                yield Unlisted(end.host, link.name, _missing_family(link, family))


def _subjects(pair: EndpointPair) -> frozenset[tuple[str, int | None]]:
    return frozenset((end.host, end.ifindex) for end in (pair.client, pair.server))


def _family(end: Endpoint) -> str:
    return "ipv6" if ":" in end.address else "ipv4"


def _missing_family(link: Link, family: str) -> str:
    """``no path by IPv6: only link-local addresses``"""
    has_any = any(address.family == family for address in link.addresses)
    what = "only link-local addresses" if has_any else "no address"
    return f"no path by {FAMILY_NAMES[family]}: {what}"
