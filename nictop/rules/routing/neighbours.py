"""Watched hosts in one subnet that do not reach each other on Ethernet: crossed cables, wrong port groups, no answers.

Reads nothing; compares the neighbour tables of several hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nictop.model.devices.ipv4_conf import ipv4_conf
from nictop.model.text.words import IFF_NOARP
from nictop.probe.records import Link, Neighbour
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.profiles.outward import NetworkPlace
from nictop.rules.registry import Family, Outcomes, pair_rule
from nictop.rules.routing.facts import (
    ANSWERING,
    is_in_subnets,
    is_recent,
    is_unanswered,
    neighbour,
    neighbour_evidence,
    resolves_neighbours,
    unanswered,
)
from nictop.rules.routing.peers import Peer, peers, places
from nictop.rules.routing.segments import LinkKey, Segments, Sighting, segments
from nictop.rules.subjects import PARAVIRTUAL_BUSES, link_finding

FAMILY: Family = "addresses and routes"
NEEDS = ("addresses", "routing.neighbours")
CLOUDS = ("aws", "azure", "gcp", "oci", "alibaba", "tencent", "digitalocean", "hetzner")
"""Their networks answer ARP for all hosts with addresses of their own."""
EMULATED_DRIVERS = ("vmxnet3", "e1000", "e1000e")
MAX_STACK_DEPTH = 4
UNANSWERED_ARP_IGNORE = 3
"""Values of arp_ignore from here on do not answer for addresses of the link itself (ip-sysctl.rst)."""


def _key(host: HostFacts, link: Link) -> LinkKey:
    return host.name, link.ifindex


# ------------------------------------------------------------------------------------------------------ crossed cables


@pair_rule(
    FAMILY,
    "critical",
    yields_to=("address_on_a_lower_link", "guest_is_on_another_bridge", "two_links_in_one_subnet"),
    needs=NEEDS,
    uses=("forwarding",),
)
def link_is_in_the_network_of_another(hosts: Sequence[HostFacts]) -> Outcomes:
    """A NIC is connected to another NIC of a watched host than the one in its subnet: crossed cables, or the wrong
    switch port, VLAN or port group.

    IPv4 may work in part, because Linux answers ARP requests for an address on any of its NICs, with the MAC address of
    the NIC that received the request.

    nictop joins the neighbour tables (ARP, neighbour discovery) of all watched hosts, and what their bridges learned on
    ports with a device, by the MAC addresses of the NICs: a NIC of the other host answered for the address of another
    one, or asked for an address of another subnet. Critical: two NICs of a host are exchanged. Warning: one NIC is
    connected to another one than its address says. Of several hosts the one that differs from most others is named.

    Not reported: NICs that have seen the right NIC as well (several NICs of a host in one Ethernet segment), links with
    one device below, static entries, and networks of clouds.

    Sources: kernel net/ipv4/arp.c arp_process; Documentation/networking/ip-sysctl.rst arp_ignore.
    """
    known = segments(tuple(hosts)) if len(hosts) > 1 else None
    if known is None or known.is_empty:
        return
    conflicts: dict[str, list[Conflict]] = {}
    for host in hosts:
        if host.inventory.platform.environment not in CLOUDS:
            for conflict in _conflicts(known, host, hosts):
                conflicts.setdefault(host.name, []).append(conflict)
    yield from _worst_first(hosts, conflicts)


@dataclass(frozen=True)
class Conflict:
    """A link that is connected to another link of a host than the one in its subnet."""

    peer: Peer
    sighting: Sighting

    @property
    def actual(self) -> Link:
        """The link of the other host to which it is connected."""
        return self.sighting.end_on(self.peer.other.host)


def _conflicts(known: Segments, host: HostFacts, hosts: Sequence[HostFacts]) -> Iterator[Conflict]:
    """At most one for each link of the host and each other host."""
    own_keys = {place.link.ifindex: _key(host, place.link) for place in places(host)}
    connected: set[tuple[int, str]] = set()

    def is_suspect(mine: NetworkPlace, place: NetworkPlace) -> bool:
        """They have met, but not by these two links."""
        key = own_keys[mine.link.ifindex]
        if known.are_connected(key, _key(place.host, place.link)):
            connected.add((mine.link.ifindex, place.host.name))
            return False
        return bool(known.between(key, place.host.name))

    found: dict[tuple[int, str], Conflict] = {}
    for peer in peers(host, hosts, is_suspect):
        key = peer.own.link.ifindex, peer.other.host.name
        sighting = _wrong_sighting(known, peer) if key not in found else None
        if sighting is not None:
            found[key] = Conflict(peer, sighting)
    yield from (conflict for key, conflict in found.items() if key not in connected)


def _wrong_sighting(known: Segments, peer: Peer) -> Sighting | None:
    """That the link has seen, or was seen by, another link of the peer in a way that proves a connection. None: it was
    not, or both links of the peer have one device below."""
    own, other = peer.own, peer.other
    entry = neighbour(own.host, own.link, other.address.address)
    is_silent = entry is not None and is_unanswered(entry) and is_recent(entry)
    for sighting in known.between(_key(own.host, own.link), other.host.name):
        if _shares_a_device(other.host, sighting.end_on(other.host), other.link):
            return None
        if is_silent or _is_proof(sighting):
            return sighting
    return None


def _is_proof(sighting: Sighting) -> bool:
    """The link that was seen answered for the address of another link, or has asked from a subnet that is not the one
    here; or a bridge has learned its address. Two links may have seen each other by further addresses of theirs."""
    if not sighting.address:
        return True
    seen = sighting.other
    owners = [one for one in sighting.other_host.links if sighting.address in {each.address for each in one.addresses}]
    if owners:
        answered_for_another = not any(_shares_a_device(sighting.other_host, seen, one) for one in owners)
        is_foreign = ":" not in sighting.address and not is_in_subnets(sighting.link, sighting.address)
        return answered_for_another or is_foreign
    return False


def _shares_a_device(host: HostFacts, one: Link, other: Link) -> bool:
    """One is above the other, or both are above the same link, or ports of one."""
    return bool(_devices_below(host, one) & _devices_below(host, other))


def _devices_below(host: HostFacts, link: Link, depth: int = MAX_STACK_DEPTH) -> frozenset[int]:
    """The link and those below it, ports included."""
    found = {link.ifindex}
    below = [port.ifindex for port in host.ports.get(link.ifindex, ())]
    if link.lower is not None and link.lower_namespace is None and link.kind != "veth":
        below.append(link.lower)
    for ifindex in below if depth else ():
        lower = host.snapshot.links.get(ifindex)
        if lower is not None:
            found |= _devices_below(host, lower, depth - 1)
    return frozenset(found)


def _worst_first(hosts: Sequence[HostFacts], conflicts: dict[str, list[Conflict]]) -> Iterator[Finding]:
    """A conflict is about two hosts: reported for the one that has the most, which differs from all others."""
    order = sorted((host.name for host in hosts), reverse=True)
    reported: set[str] = set()
    for name in sorted(order, key=lambda one: -len({each.peer.other.host.name for each in conflicts.get(one, ())})):
        remaining = [one for one in conflicts.get(name, ()) if one.peer.other.host.name not in reported]
        by_link: dict[int, Conflict] = {}
        for one in remaining:
            by_link.setdefault(one.peer.own.link.ifindex, one)
        if by_link:
            reported.add(name)
            yield from _of_host(by_link)


def _of_host(by_link: dict[int, Conflict]) -> Iterator[Finding]:
    """One finding for two links that are exchanged, one for each other link."""
    for ifindex, conflict in by_link.items():
        partner = next((one for one in by_link.values() if _are_exchanged(conflict, one)), None)
        if partner is None:
            yield _wrong_network(conflict)
        elif ifindex < partner.peer.own.link.ifindex:
            yield _exchanged(conflict, partner)


def _are_exchanged(one: Conflict, other: Conflict) -> bool:
    """Each is connected to the link that the other one should be connected to."""
    is_other = one.peer.other.host is other.peer.other.host and one is not other
    return is_other and one.actual == other.peer.other.link and other.actual == one.peer.other.link


def _exchanged(one: Conflict, other: Conflict) -> Finding:
    host, link, second = one.peer.own.host, one.peer.own.link, other.peer.own.link
    return link_finding(
        "critical",
        host,
        link,
        f"{link.name} and {second.name} are connected the wrong way round",
        evidence=(*_conflict_evidence(one), *_conflict_evidence(other)),
        why=f"Frames of each reach the other NIC of {one.peer.other.host.name}, in another subnet. What answers "
        "nevertheless does so by the wrong NIC, and is dropped where rp_filter is strict.",
        fixes=_place_fixes(host, link, second),
    )


def _wrong_network(conflict: Conflict) -> Finding:
    peer, actual = conflict.peer, conflict.actual
    host, link, there = peer.own.host, peer.own.link, peer.other.link
    return link_finding(
        "warning",
        host,
        link,
        f"connected to {peer.other.host.name} {actual.name}, but its subnet is on {there.name} there",
        evidence=_conflict_evidence(conflict),
        why=f"One of the two NICs is in the wrong network. What answers nevertheless does so by {actual.name}, and is "
        "dropped where rp_filter is strict.",
        fixes=_place_fixes(host, link, None),
    )


def _conflict_evidence(conflict: Conflict) -> tuple[Evidence, ...]:
    peer, sighting = conflict.peer, conflict.sighting
    return (
        Evidence(
            "subnet",
            f"{peer.own.written} on {peer.own.link.name}, {peer.other.written} on {peer.other.named}",
            "ip address",
        ),
        Evidence(
            f"seen by {sighting.host.name} {sighting.link.name}",
            sighting.text,
            f"ip neigh show dev {sighting.link.name}"
            if sighting.address
            else f"bridge fdb show br {sighting.link.name}",
        ),
    )


def _place_fixes(host: HostFacts, link: Link, second: Link | None) -> tuple[Fix, ...]:
    """Where a link of this kind is connected."""
    named = f"{link.name} ({link.address})" + (f" and {second.name} ({second.address})" if second is not None else "")
    what = "Exchange the networks of the two NICs" if second is not None else "Connect it to the right network"
    if host.is_guest and (link.bus in PARAVIRTUAL_BUSES or link_driver(link) in EMULATED_DRIVERS):
        return (Fix("hypervisor", what, (), True, note=f"Port group, bridge or VLAN of {named}."),)
    blink = Fix("here", "Show which port it is", (command("ethtool", "-p", link.name, "10"),))
    return Fix("switch", what, (), True, note=f"Cable, or VLAN of the switch port, of {named}."), blink


# ---------------------------------------------------------------------------------------------------------- no answers


@pair_rule(
    FAMILY,
    "critical",
    yields_to=(
        "arp_is_off",
        "address_on_a_lower_link",
        "address_is_used_twice",
        "bridge_port_does_not_forward",
        "gateway_does_not_answer",
        "guest_is_on_another_bridge",
        "ip_address_is_on_two_hosts",
        "ipv6_fails_on_a_virtual_function",
        "link_is_in_the_network_of_another",
        "rp_filter_drops_its_subnet",
        "route_refuses_a_watched_host",
        "spoof_check_has_no_address",
        "two_links_in_one_subnet",
        "vf_link_is_disabled",
        "vlan_inside_a_port_vlan",
        "vlan_is_not_on_the_bridge",
        "vlan_is_not_on_the_bridge_port",
        "watched_host_is_routed_by_another_nic",
    ),
    needs=NEEDS,
)
def watched_hosts_do_not_answer_each_other(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two watched hosts have addresses in one subnet, and one does not answer the other's ARP requests.

    nictop compares the neighbour tables of both: state failed, or incomplete for a second or more, asked for in the
    last five minutes, and both links up with a carrier. Critical: each of them asked, and neither answered: they are
    in two networks (VLAN, port group, switch port), or something between them drops all frames. Warning: one of them
    has the other one in its table as reachable, so that frames pass, but the answers to the other direction get lost.

    Not reported: a failure that the other host does not confirm (it may have been off), old and stale entries, hosts
    that a better known fault explains, and two networks with the same numbers of which one host asked only.

    Sources: kernel net/core/neighbour.c; ip-neighbour(8).
    """
    reported: set[tuple[LinkKey, LinkKey]] = set()
    for host in hosts if len(hosts) > 1 else ():
        failed = unanswered(host)
        if not failed:
            continue
        for peer in peers(host, hosts, lambda mine, place, failed=failed: _is_failed(mine, place, failed)):  # type: ignore[misc]
            finding = _no_answer(peer, reported)
            if finding is not None:
                yield finding


def _is_failed(mine: NetworkPlace, place: NetworkPlace, failed: dict[tuple[int, str], Neighbour]) -> bool:
    return (mine.link.ifindex, place.address.address) in failed


def _no_answer(peer: Peer, reported: set[tuple[LinkKey, LinkKey]]) -> Finding | None:
    own, other = peer.own, peer.other
    link = own.link
    entry = neighbour(own.host, link, other.address.address)
    if entry is None or not is_unanswered(entry) or not is_recent(entry):
        return None
    back = neighbour(other.host, other.link, own.address.address)
    if (
        back is None
        or other.link.flags & IFF_NOARP
        or not resolves_neighbours(link)
        or not resolves_neighbours(other.link)
    ):
        return None
    pair = (_key(own.host, link), _key(other.host, other.link))
    if pair in reported or pair[::-1] in reported:
        return None
    if _ignores_arp(peer):
        return None
    if is_unanswered(back) and is_recent(back):
        reported.add(pair)
        return _no_answer_finding(peer, entry, back, "critical")
    if back.nud_state in ANSWERING and back.mac == link.address:
        reported.add(pair)
        return _no_answer_finding(peer, entry, back, "warning")
    return None


def _ignores_arp(peer: Peer) -> bool:
    """A setting of one of the two, which has a check of its own."""
    confs = (ipv4_conf(place.link, place.host.inventory.settings) for place in (peer.own, peer.other))
    return any((conf.arp_ignore or 0) >= UNANSWERED_ARP_IGNORE for conf in confs)


def _no_answer_finding(peer: Peer, entry: Neighbour, back: Neighbour, severity: Severity) -> Finding:
    own, other = peer.own, peer.other
    both = severity == "critical"
    return link_finding(
        severity,
        own.host,
        own.link,
        f"{other.host.name} ({other.address.address}) does not answer, and is not answered"
        if both
        else f"{other.host.name} ({other.address.address}) does not answer, but reaches this host",
        evidence=(
            Evidence("addresses", f"{own.written} here, {other.written} on {other.named}", "ip address"),
            neighbour_evidence(own.link, entry),
            Evidence(
                f"on {other.named}",
                f"{own.address.address} {back.nud_state}",
                f"{other.host.name}: ip neigh show dev {other.link.name}",
            ),
        ),
        why="The two NICs are in different networks (VLAN, port group, switch port), or all frames between them are "
        "dropped. If two separate networks have the same numbers, this is right."
        if both
        else "Frames pass from there to here. Either its answers get lost, or it does not get broadcasts: a filter, a "
        "VLAN or the MAC filter of a VF in one direction.",
        fixes=(
            Fix(
                "here",
                "Watch the requests on both hosts",
                (command("tcpdump", "-e", "-n", "-c", "10", "-i", own.link.name, "arp or icmp6"),),
                note=f"Run the same on {other.named}: requests that do not arrive there are dropped in between.",
            ),
        ),
    )
