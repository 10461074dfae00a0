"""Who answers for the address of the other end: duplicate addresses and ARP flux. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from nictop.probe.records import Link, PathTest
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.traffic.path.findings.tested_direction import TestedDirection, path_finding

LEARNED_STATES = ("reachable", "stale", "delay", "probe")
"""States of an entry that was learned, and expires; permanent and noarp entries need no answers."""
MAX_CONFIRMED_RTT = 0.1
"""Seconds: with longer round trips an answer to a request may have been missed."""

Owners = Mapping[str, Sequence[tuple[str, str]]]
"""MAC address that answers → (host, NIC) of both ends that have it; (): another machine."""


def neighbour_findings(tested: TestedDirection) -> Iterator[Finding]:
    """More than one MAC address, or that of another NIC, answers for the address."""
    link, path = tested.link, tested.test.path
    if link is None or path is None:
        return
    owners = {mac: _owners(tested, mac) for mac in _answering_macs(tested.test)}
    strangers = [nics for nics in owners.values() if not _has_nic_of_peer(tested, nics)]
    is_direct = tested.gateway is None
    if len(owners) > 1 and (strangers or not is_direct):
        yield _several_hosts(tested, link, owners)
    elif is_direct and path.ifindex == tested.sender.ifindex:
        yield from _wrong_owner(tested, link, owners, strangers)


def _wrong_owner(
    tested: TestedDirection, link: Link, owners: Owners, strangers: Sequence[Sequence[object]]
) -> Iterator[Finding]:
    """Another NIC of the peer answers, or another watched host. `strangers`: the NICs behind each
    MAC address that is not the peer's; (): not watched."""
    if not tested.receiver.mac:
        return
    if strangers:
        if any(strangers):
            yield _other_host(tested, link, owners)
    elif tuple(owners) not in ((), (tested.receiver.mac,)):
        yield _other_nics(tested, owners)


def _has_nic_of_peer(tested: TestedDirection, nics: Sequence[tuple[str, str]]) -> bool:
    return any(host == tested.receiver.host for host, _ in nics)


def _answering_macs(test: PathTest) -> Sequence[str]:
    """By the answers to ARP requests, else by the neighbour entry."""
    if test.macs is not None:
        return [mac for mac in test.macs if mac is not None]
    if test.path is None or not test.path.neighbour_address:
        return []
    return [test.path.neighbour_address]


def unconfirmed_neighbour_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Packets are answered, but nobody answers who has the MAC address: the path works as long as
    the entry lasts."""
    link, path = tested.link, tested.test.path
    if link is None or path is None or path.neighbour not in LEARNED_STATES:
        return
    nobody_answers = tested.test.macs == ()
    if not nobody_answers:
        return
    if _longest_round_trip(tested.test) > MAX_CONFIRMED_RTT:
        return  # the answers may be late
    question = "neighbour solicitations" if ":" in tested.receiver.address else "ARP requests"
    address = _resolved(tested)
    yield path_finding(
        "path_neighbour_unconfirmed",
        "warning",
        tested.host,
        link,
        f"works only by the known MAC address of {address}: no answer to {question}",
        evidence=(
            Evidence(
                "neighbour",
                f"{path.neighbour_address} ({path.neighbour})",
                f"ip neighbour show to {address}",
            ),
            Evidence(question, "no answer", "packet socket"),
        ),
        why=f"When this entry is removed, {tested.sender.host} does not find {address} by asking, "
        f"and the path ends until {address} itself asks. A network that drops broadcast or "
        "multicast frames, and a host that does not answer (arp_ignore, a filter), look so.",
        fixes=(
            Fix(
                "peer",
                "Show what could keep it from answering",
                (
                    command("sysctl", "-a", "-r", r"\.arp_(ignore|filter)$"),
                    command("nft", "list", "ruleset"),
                ),
                peer=tested.receiver.host if tested.gateway is None else "",
            ),
        ),
    )


def _longest_round_trip(test: PathTest) -> float:
    """Seconds; infinite if nothing was answered."""
    longest = [max(replies.rtts) for replies in test.replies if replies.rtts]
    return max(longest, default=math.inf)


def _several_hosts(tested: TestedDirection, link: Link, owners: Owners) -> Finding:
    address = _resolved(tested)
    return path_finding(
        "path_duplicate_address",
        "critical",
        tested.host,
        link,
        f"{len(owners)} MAC addresses answer for {address}: duplicate address, or proxy ARP",
        evidence=_evidence(tested, owners),
        why="Several machines have the address, or one answers by several NICs or for another one "
        "(proxy ARP, redundant routers). Which one receives the packets can change whenever the "
        "neighbour entry is renewed: if these are two machines, connections hang or are reset.",
        fixes=(
            Fix(
                "peer",
                "Give one of them another address, if these are two machines",
                (),
                note="Find the other host: the port of its MAC address is in the forwarding table "
                "of the bridge "
                "or switch (bridge fdb show).",
            ),
            Fix(
                "here",
                "Show the MAC address in use, then resolve it again",
                (
                    command("ip", "neighbour", "show", "to", address),
                    command("ip", "neighbour", "flush", "to", address, "dev", link.name),
                ),
                persistent=None,
            ),
        ),
    )


def _other_nics(tested: TestedDirection, owners: Owners) -> Finding:
    fixes: tuple[Fix, ...] = ()
    if ":" not in tested.receiver.address:
        fixes = (
            *sysctl_fixes(tested.peer, "net.ipv4.conf.all.arp_ignore", 1),
            *sysctl_fixes(tested.peer, "net.ipv4.conf.all.arp_announce", 2),
        )
    return path_finding(
        "path_arp_flux",
        "warning",
        tested.peer,
        tested.receiver_link,
        f"ARP flux: other NICs of this host answer for {tested.receiver.address}",
        evidence=_evidence(tested, owners),
        why="Packets to this address arrive on a NIC that does not have it: the wrong NIC carries "
        "the traffic, and "
        "rp_filter may drop it.",
        fixes=fixes,
    )


def _other_host(tested: TestedDirection, link: Link, owners: Owners) -> Finding:
    return path_finding(
        "path_duplicate_address",
        "critical",
        tested.host,
        link,
        f"another host answers for {_resolved(tested)} of {tested.receiver.host}",
        evidence=_evidence(tested, owners),
        why=f"Packets to {tested.receiver.host} are sent to another host: both have the address, "
        f"or the other one answers "
        "for it (proxy ARP).",
        fixes=(Fix("peer", "Give one of them another address, or turn proxy_arp off", ()),),
    )


def _resolved(tested: TestedDirection) -> str:
    """The address that was asked for: that of the gateway, if there is one."""
    return tested.test.resolved or tested.receiver.address


def _evidence(tested: TestedDirection, owners: Owners) -> tuple[Evidence, ...]:
    is_ipv6 = ":" in tested.receiver.address
    source = "neighbour discovery" if is_ipv6 else "ARP"
    found = []
    for mac, nics in owners.items():
        names = ", ".join(f"{host} {name}" for host, name in nics)
        text = f"{mac} ({names or 'not a watched NIC'})"
        found.append(Evidence(f"{_resolved(tested)} answered by", text, source))
    return tuple(found)


def _owners(tested: TestedDirection, mac: str) -> list[tuple[str, str]]:
    """(host, NIC) of both ends with this MAC address."""
    ends = {tested.host.name: tested.host, tested.peer.name: tested.peer}
    found = []
    for name, host in ends.items():
        found += [(name, link.name) for link in host.links if link.address == mac]
    return found
