"""Watched hosts in one subnet that do not reach each other on Ethernet: crossed cables, wrong port
groups, no answers.

Reads nothing; compares the neighbour tables of several hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.model.devices.ipv4_conf import ipv4_conf
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link, Neighbour
from nictop.rules.bridges.separated_ports import are_separated
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts, link_driver, once_per_host
from nictop.rules.profiles.outward import NetworkPlace, joined_text
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routes.facts import (
    ANSWERING,
    is_in_subnets,
    is_unanswered_now,
    neighbour,
    neighbour_evidence,
    neighbours,
    resolves_neighbours,
    unanswered,
)
from nictop.rules.routes.peers import Peer, peers, places
from nictop.rules.routes.segments import LinkKey, SeenSegments, Sighting, segments
from nictop.rules.subjects import ARPING_NOTE, PARAVIRTUAL_BUSES, link_finding

NEEDS = ("addresses", "routing.neighbours")
CLOUDS = ("aws", "azure", "gcp", "oci", "alibaba", "tencent", "digitalocean", "hetzner")
"""Their networks answer ARP for all hosts with addresses of their own."""
EMULATED_DRIVERS = ("vmxnet3", "e1000", "e1000e")
MAX_STACK_DEPTH = 4
UNANSWERED_ARP_IGNORE = 3
"""Values of arp_ignore from here on do not answer for addresses of the link itself
(ip-sysctl.rst)."""


def _key(host: HostFacts, link: Link) -> LinkKey:
    return host.name, link.ifindex


# ----------------------------------------------------------------------------------- crossed cables


@pair_rule(
    "critical",
    yields_to=("address_on_a_lower_link", "guest_is_on_another_bridge", "two_links_in_one_subnet"),
    needs=NEEDS,
    uses=("forwarding",),
)
def link_is_in_the_network_of_another(hosts: Sequence[HostFacts]) -> Outcomes:
    """A NIC is connected to another NIC of a watched host than the one in its subnet: crossed
    cables, or the wrong switch port, VLAN or port group.

    IPv4 may work in part, because Linux answers ARP requests for an address on any of its NICs,
    with the MAC address of the NIC that received the request.

    nictop joins the neighbour tables (ARP, neighbour discovery) of all watched hosts, and what
    their bridges learned on ports with a device, by the MAC addresses of the NICs: a NIC of the
    other host answered for the address of another one, or asked for an address of another subnet.
    Critical: two NICs of a host are exchanged. Warning: one NIC is connected to another one than
    its address says. Of several hosts the one that differs from most others is named.

    Not reported: NICs that have seen the right NIC as well (several NICs of a host in one Ethernet
    segment), links with one device below, static entries, and networks of clouds.

    Sources: kernel net/ipv4/arp.c arp_process; Documentation/networking/ip-sysctl.rst arp_ignore.
    """
    if len(hosts) < 2:
        return
    known = segments(tuple(hosts))
    if known.is_empty:
        return
    conflicts: dict[str, list[Conflict]] = {}
    for host in hosts:
        if host.inventory.platform.environment in CLOUDS:
            continue
        found = list(_conflicts(known, host, hosts))
        if found:
            conflicts[host.name] = found
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


def _conflicts(
    known: SeenSegments, host: HostFacts, hosts: Sequence[HostFacts]
) -> Iterator[Conflict]:
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
        if key in found:
            continue
        sighting = _wrong_sighting(known, peer)
        if sighting is not None:
            found[key] = Conflict(peer, sighting)
    for key, conflict in found.items():
        if key not in connected:
            yield conflict


def _wrong_sighting(known: SeenSegments, peer: Peer) -> Sighting | None:
    """That the link has seen, or was seen by, another link of the peer in a way that proves a
    connection. None: it was not, or both links of the peer have one device below."""
    own, other = peer.own, peer.other
    entry = neighbour(own.host, own.link, other.address.address)
    is_silent = is_unanswered_now(entry)
    for sighting in known.between(_key(own.host, own.link), other.host.name):
        if _shares_a_device(other.host, sighting.end_on(other.host), other.link):
            return None
        if is_silent or _is_proof(sighting):
            return sighting
    return None


def _is_proof(sighting: Sighting) -> bool:
    """The link that was seen answered for the address of another link, or has asked from a subnet
    that is not the one here; or a bridge has learned its address. Two links may have seen each
    other by further addresses of theirs."""
    address = sighting.address
    if not address:
        return True
    host, seen = sighting.other_host, sighting.other
    owners = [link for link in host.links if _has_address(link, address)]
    if not owners:
        return False
    is_its_own = any(_shares_a_device(host, seen, owner) for owner in owners)
    is_ipv6 = ":" in address
    return not is_its_own or (not is_ipv6 and not is_in_subnets(sighting.link, address))


def _has_address(link: Link, address: str) -> bool:
    return any(own.address == address for own in link.addresses)


def _shares_a_device(host: HostFacts, link: Link, other: Link) -> bool:
    """One is above the other, or both are above the same link, or ports of one."""
    return not _devices_below(host, link).isdisjoint(_devices_below(host, other))


def _devices_below(host: HostFacts, link: Link, depth: int = MAX_STACK_DEPTH) -> frozenset[int]:
    """The link and those below it, ports included."""
    found = {link.ifindex}
    if not depth:
        return frozenset(found)
    below = list(host.ports_of(link))
    lower = host.lower_link(link)
    if lower is not None and link.kind != "veth":
        below.append(lower)
    for device in below:
        found |= _devices_below(host, device, depth - 1)
    return frozenset(found)


def _worst_first(
    hosts: Sequence[HostFacts], conflicts: dict[str, list[Conflict]]
) -> Iterator[Finding]:
    """A conflict is about two hosts: reported for the one that has the most, which differs from all
    others."""

    def number_of_peers(name: str) -> int:
        return len({conflict.peer.other.host.name for conflict in conflicts.get(name, ())})

    names = sorted((host.name for host in hosts), reverse=True)
    names.sort(key=number_of_peers, reverse=True)
    reported: set[str] = set()
    for name in names:
        by_link: dict[int, Conflict] = {}
        for conflict in conflicts.get(name, ()):
            if conflict.peer.other.host.name not in reported:
                by_link.setdefault(conflict.peer.own.link.ifindex, conflict)
        if by_link:
            reported.add(name)
            yield from _of_host(by_link)


def _of_host(by_link: dict[int, Conflict]) -> Iterator[Finding]:
    """One finding for two links that are exchanged, one for each other link."""
    for ifindex, conflict in by_link.items():
        partner = _exchanged_with(conflict, by_link.values())
        if partner is None:
            yield _wrong_network(conflict)
        elif ifindex < partner.peer.own.link.ifindex:
            yield _exchanged(conflict, partner)


def _exchanged_with(conflict: Conflict, others: Iterable[Conflict]) -> Conflict | None:
    for other in others:
        if _are_exchanged(conflict, other):
            return other
    return None


def _are_exchanged(conflict: Conflict, other: Conflict) -> bool:
    """Each is connected to the link that the other one should be connected to."""
    if conflict is other or conflict.peer.other.host is not other.peer.other.host:
        return False
    actual = conflict.actual, other.actual
    return actual == (other.peer.other.link, conflict.peer.other.link)


def _exchanged(conflict: Conflict, other: Conflict) -> Finding:
    own = conflict.peer.own
    link, second = own.link, other.peer.own.link
    return link_finding(
        "critical",
        own.host,
        link,
        f"{link.name} and {second.name} are connected the wrong way round",
        evidence=(*_conflict_evidence(conflict), *_conflict_evidence(other)),
        why=f"Frames of each reach the other NIC of {conflict.peer.other.host.name}, in another "
        "subnet. What answers nevertheless does so by the wrong NIC, and is dropped where "
        "rp_filter is strict.",
        fixes=_place_fixes(own.host, [link, second]),
    )


def _wrong_network(conflict: Conflict) -> Finding:
    peer, actual = conflict.peer, conflict.actual
    host, link, there = peer.own.host, peer.own.link, peer.other.link
    return link_finding(
        "warning",
        host,
        link,
        f"connected to {peer.other.host.name} {actual.name}, but its subnet is on {there.name} "
        f"there",
        evidence=_conflict_evidence(conflict),
        why=f"One of the two NICs is in the wrong network, or both networks are one Ethernet "
        f"segment. What answers nevertheless does so by {actual.name}, and is dropped where "
        "rp_filter is strict.",
        fixes=_place_fixes(host, [link]),
    )


def _conflict_evidence(conflict: Conflict) -> tuple[Evidence, ...]:
    own, other, sighting = conflict.peer.own, conflict.peer.other, conflict.sighting
    seen_by = sighting.link.name
    subnets = f"{own.written} on {own.link.name}, {other.written} on {other.named}"
    source = f"ip neigh show dev {seen_by}"
    if not sighting.address:
        source = f"bridge fdb show br {seen_by}"
    return (
        Evidence("subnet", subnets, "ip address"),
        Evidence(f"seen by {sighting.host.name} {seen_by}", sighting.text, source),
    )


def _place_fixes(host: HostFacts, links: Sequence[Link]) -> tuple[Fix, ...]:
    """Where links of this kind are connected. Two: they are exchanged."""
    link = links[0]
    named = " and ".join(f"{link.name} ({link.address})" for link in links)
    what = "Connect it to the right network"
    if len(links) > 1:
        what = "Exchange the networks of the two NICs"
    is_virtual = link.bus in PARAVIRTUAL_BUSES or link_driver(link) in EMULATED_DRIVERS
    if host.is_guest and is_virtual:
        return (Fix("hypervisor", what, (), True, note=f"Port group, bridge or VLAN of {named}."),)
    blink = Fix("here", "Show which port it is", (command("ethtool", "-p", link.name, "10"),))
    note = f"Cable, or VLAN of the switch port, of {named}."
    return Fix("switch", what, (), True, note=note), blink


# ---------------------------------------------------------------------------------- foreign address


@pair_rule(
    "critical",
    yields_to=(
        "ip_address_is_on_two_hosts",
        "link_is_in_the_network_of_another",
        "address_is_used_twice",
    ),
    needs=NEEDS,
)
def another_mac_address_answers_for_a_watched_host(hosts: Sequence[HostFacts]) -> Outcomes:
    """The neighbour table has the address of a watched host with a MAC address that none of its
    links has.

    What is sent to it reaches another machine, or nobody. Causes: another machine has the same IP
    address, an entry from before a NIC was replaced or got another MAC address, or a router that
    answers for all addresses (proxy ARP).

    nictop compares the entries with the MAC addresses of all links of the other host, and with
    those that they had in the last hour, as far as it has watched them. Critical: a static entry.
    Warning: a learned one that is in use now.

    Not reported: stale entries, which prove nothing, and networks of clouds, which answer for all
    addresses.

    Sources: ip-neighbour(8) nud permanent; RFC 5227; kernel Documentation/networking/ip-sysctl.rst
    proxy_arp.
    """
    if len(hosts) < 2:
        return
    for host in hosts:
        if host.inventory.platform.environment in CLOUDS or host.inventory.routing is None:
            continue
        known = neighbours(host)

        def is_foreign(
            mine: NetworkPlace, place: NetworkPlace, known: KnownNeighbours = known
        ) -> bool:
            entry = known.get(mine.link.ifindex, {}).get(place.address.address)
            return entry is not None and _is_of_another(entry, place.host)

        for peer in peers(host, hosts, is_foreign):
            entry = known[peer.own.link.ifindex][peer.other.address.address]
            yield _foreign_finding(peer, entry, _watched_owner(entry.mac, hosts))


def _is_of_another(entry: Neighbour, host: HostFacts) -> bool:
    """It is in use, with a MAC address that no link of the host has."""
    if entry.mac is None or entry.nud_state not in (*ANSWERING, PERMANENT):
        return False
    return entry.mac not in own_mac_addresses(host)


KnownNeighbours = dict[int, dict[str, Neighbour]]
PERMANENT = "permanent"


@once_per_host
def own_mac_addresses(host: HostFacts) -> frozenset[str]:
    """Of all links, and those that the hardware has."""
    found: set[str | None] = set()
    for link in host.links:
        found |= {link.address, link.permanent_address}
    return frozenset(address for address in found if address)


def _watched_owner(mac: str | None, hosts: Sequence[HostFacts]) -> str:
    """``switch br0``: the watched link that has this MAC address; "": none, or several hosts."""
    owners: dict[str, str] = {}
    for host in hosts:
        for link in host.links:
            if mac and link.address == mac:
                owners.setdefault(host.name, f"{host.name} {link.name}")
    return next(iter(owners.values())) if len(owners) == 1 else ""


def _foreign_finding(peer: Peer, entry: Neighbour, watched: str) -> Finding:
    """`watched`: the other NIC that has its MAC address."""
    own, other = peer.own, peer.other
    address, link = other.address.address, own.link
    owner = f"{other.host.name} ({address})"
    former = _former_owner(other.host, entry.mac)
    is_static = entry.nud_state == PERMANENT
    kind = "static" if is_static else "neighbour"
    title = f"{kind} entry for {owner} has a MAC address that is not its own"
    if watched:
        title = f"{kind} entry for {owner} has the MAC address of {watched}"
    elif former:
        title = f"{kind} entry for {owner} has a MAC address that {former} had before"
    evidence = [
        Evidence("entry", f"{address} {entry.mac} {entry.nud_state}", _shown_entries(link)),
        Evidence(f"MAC address of {other.named}", other.link.address or "none", "ip link"),
    ]
    if former:
        seen = "read in the last hour"
        evidence.append(Evidence(f"before on {other.host.name} {former}", entry.mac or "", seen))
    severity: Severity = "critical" if is_static else "warning"
    return link_finding(
        severity,
        own.host,
        link,
        title,
        evidence=tuple(evidence),
        why=f"Frames to {other.host.name} are sent to {entry.mac}, which none of its links has. "
        f"{_why_foreign(peer, former, watched, is_static=is_static)}".rstrip(),
        fixes=_foreign_fixes(link, entry, former, watched, is_static=is_static),
        item=address,
    )


def _shown_entries(link: Link) -> str:
    return f"ip neigh show dev {link.name}"


def _former_owner(host: HostFacts, mac: str | None) -> str:
    """The name of the link of the host that was seen with this MAC address; "": none was."""
    for history in host.snapshot.histories.values():
        if mac in history.mac_addresses:
            return history.name
    return ""


def _why_foreign(peer: Peer, former: str, watched: str, *, is_static: bool) -> str:
    if is_static:
        return ""
    if watched:
        return (
            f"It is that of {watched}. Possible: that one has the address, too, or answers for it "
            "(proxy ARP), or the entry is from before the addresses changed."
        )
    if former:
        return (
            f"{former} there had it before: the entry is old, and in use until the kernel asks "
            "again, unless another machine has this MAC address now."
        )
    return (
        "Possible: another machine answers for the address, or the entry is from before the MAC "
        f"address of {peer.other.named} changed."
    )


def _foreign_fixes(
    link: Link, entry: Neighbour, former: str, watched: str, *, is_static: bool
) -> tuple[Fix, ...]:
    if is_static:
        return (remove_entry_fix(link, entry.address, entry.mac),)
    if watched:
        return (ask_again_fix(link, entry.address),)
    find, again = _find_machine_fix(link, entry.address), ask_again_fix(link, entry.address)
    return (again, find) if former else (find, again)


def ask_again_fix(link: Link, address: str) -> Fix:
    """The kernel resolves the address when it next sends to it."""
    flush = command("ip", "neigh", "flush", "to", address, "dev", link.name)
    return Fix("here", "Remove the entry: the kernel asks again", (flush,))


def remove_entry_fix(link: Link, address: str, mac: str | None) -> Fix:
    """`mac`: of the static entry."""
    entry_of_link = (address, "dev", link.name)
    remove = command("ip", "neigh", "del", *entry_of_link)
    again = command(
        "ip",
        "neigh",
        "add",
        address,
        "lladdr",
        mac or "",
        "dev",
        link.name,
        "nud",
        PERMANENT,
    )
    note = "Also where it is stored: up lines, scripts."
    return Fix("here", "Remove the static entry", (remove,), False, (again,), note)


def _find_machine_fix(link: Link, address: str) -> Fix:
    ask = command("arping", "-c", "3", "-I", link.name, address)
    note = (
        "Two MAC addresses answer: one address on two machines. Only the other one: proxy ARP, or "
        f"a filter. {ARPING_NOTE}"
    )
    return Fix("here", "Find the machine with this MAC address", (ask,), note=note)


# --------------------------------------------------------------------------------------- no answers


@pair_rule(
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
    """Two watched hosts have addresses in one subnet, and one does not answer the other's ARP
    requests.

    nictop compares the neighbour tables of both: state failed, or incomplete for a second or more,
    asked for in the last five minutes, and both links up with a carrier. Critical: each of them
    asked, and neither answered: they are in two networks (VLAN, port group, switch port), or
    something drops their requests or answers. Warning: one of them has the other one in its table
    as reachable, so that frames pass, but the answers to the other direction get lost.

    Not reported: a failure that the other host does not confirm (it may have been off), old and
    stale entries, hosts that a better known fault explains, and two networks with the same numbers
    of which one host asked only.

    Sources: kernel net/core/neighbour.c; ip-neighbour(8).
    """
    if len(hosts) < 2:
        return
    reported: set[tuple[LinkKey, LinkKey]] = set()
    for host in hosts:
        failed = unanswered(host)
        if not failed:
            continue

        def is_failed(
            mine: NetworkPlace, place: NetworkPlace, failed: FailedNeighbours = failed
        ) -> bool:
            return (mine.link.ifindex, place.address.address) in failed

        for peer in peers(host, hosts, is_failed):
            yield from _no_answer(peer, reported, hosts)


FailedNeighbours = dict[tuple[int, str], Neighbour]


def _no_answer(
    peer: Peer, reported: set[tuple[LinkKey, LinkKey]], hosts: Sequence[HostFacts]
) -> Iterator[Finding]:
    """One finding at most, for each two links once."""
    own, other = peer.own, peer.other
    pair = (_key(own.host, own.link), _key(other.host, other.link))
    if pair in reported or pair[::-1] in reported:
        return
    entry = neighbour(own.host, own.link, other.address.address)
    back = neighbour(other.host, other.link, own.address.address)
    if entry is None or back is None or not is_unanswered_now(entry):
        return
    if not _must_answer(peer) or are_separated(*pair, hosts):
        return
    if is_unanswered_now(back):
        reported.add(pair)
        yield _no_answer_finding(peer, entry, back, _neither_answers(peer, hosts))
    elif back.nud_state in ANSWERING and back.mac == own.link.address:
        reported.add(pair)
        yield _no_answer_finding(peer, entry, back, ONE_ANSWERS)


def _must_answer(peer: Peer) -> bool:
    """Both links resolve neighbours, and no setting keeps one of them from answering."""
    for place in (peer.own, peer.other):
        if not resolves_neighbours(place.link):
            return False
    return not _ignores_arp(peer)


def _ignores_arp(peer: Peer) -> bool:
    """A setting of one of the two, which has a check of its own."""
    for place in (peer.own, peer.other):
        arp_ignore = ipv4_conf(place.link, place.host.inventory.settings).arp_ignore or 0
        if arp_ignore >= UNANSWERED_ARP_IGNORE:
            return True
    return False


@dataclass(frozen=True)
class _Silence:
    """In which directions there is no answer, in the sentences of a finding."""

    severity: Severity
    title: str
    """After the name of the other host."""
    why: str


NEITHER_ANSWERS = _Silence(
    "critical",
    "does not answer, and is not answered",
    "The two NICs are in different networks (VLAN, port group, switch port), or their requests or "
    "answers are dropped. If two separate networks have the same numbers, this is right.",
)


def _neither_answers(peer: Peer, hosts: Sequence[HostFacts]) -> _Silence:
    joined = joined_text(peer.own, peer.other, hosts)
    if not joined:
        return NEITHER_ANSWERS
    why = (
        f"They are {joined}: their requests or answers are dropped (a filter, a VLAN, a port that "
        "is down)."
    )
    return replace(NEITHER_ANSWERS, why=why)


ONE_ANSWERS = _Silence(
    "warning",
    "does not answer, but reaches this host",
    "Frames pass from there to here. Either its answers get lost, or it does not get broadcasts: "
    "a filter, a VLAN or the MAC filter of a VF in one direction.",
)


def _no_answer_finding(peer: Peer, entry: Neighbour, back: Neighbour, silence: _Silence) -> Finding:
    own, other = peer.own, peer.other
    addresses = f"{own.written} here, {other.written} on {other.named}"
    there = f"{other.host.name}: ip neigh show dev {other.link.name}"
    watch = command("tcpdump", "-e", "-n", "-c", "10", "-i", own.link.name, "arp or icmp6")
    return link_finding(
        silence.severity,
        own.host,
        own.link,
        f"{other.host.name} ({other.address.address}) {silence.title}",
        evidence=(
            Evidence("addresses", addresses, "ip address"),
            neighbour_evidence(own.host, own.link, entry),
            Evidence(f"on {other.named}", f"{own.address.address} {back.nud_state}", there),
        ),
        why=silence.why,
        fixes=(
            Fix(
                "here",
                "Watch the requests on both hosts",
                (watch,),
                note=f"Run the same on {other.named}: requests that do not arrive there are "
                "dropped in between.",
            ),
        ),
    )
