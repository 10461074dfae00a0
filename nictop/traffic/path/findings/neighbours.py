"""Who answers for the address of the other end: duplicate addresses and ARP flux. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from nictop.probe.records import Link
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
    test, link, path = tested.test, tested.link, tested.test.path
    if link is None or path is None:
        return
    macs = test.macs if test.macs is not None else (path.neighbour_address,) if path.neighbour_address else ()
    owners = {mac: _owners(tested, mac) for mac in macs if mac is not None}
    is_peers = {mac: any(host == tested.receiver.host for host, _ in found) for mac, found in owners.items()}
    if len(owners) > 1 and not (tested.gateway is None and all(is_peers.values())):
        yield _several_hosts(tested, link, owners)
    elif not tested.receiver.mac or tested.gateway is not None or path.ifindex != tested.sender.ifindex:
        return
    elif owners and all(is_peers.values()) and tuple(owners) != (tested.receiver.mac,):
        yield _other_nics(tested, owners)
    elif any(found and not is_peers[mac] for mac, found in owners.items()):
        yield _other_host(tested, link, owners)


def unconfirmed_neighbour_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Packets are answered, but nobody answers who has the MAC address: the path works as long as the entry lasts."""
    test, path = tested.test, tested.test.path
    if test.macs != () or path is None or path.neighbour not in LEARNED_STATES or tested.link is None:
        return
    longest = max((rtt for one in test.replies for rtt in one.rtts), default=math.inf)
    if longest > MAX_CONFIRMED_RTT:
        return  # the answers may be late
    question = "neighbour solicitations" if ":" in tested.receiver.address else "ARP requests"
    address = _resolved(tested)
    yield path_finding(
        "path_neighbour_unconfirmed",
        "warning",
        tested.host,
        tested.link,
        f"works only by the known MAC address of {address}: no answer to {question}",
        evidence=(
            Evidence("neighbour", f"{path.neighbour_address} ({path.neighbour})", f"ip neighbour show to {address}"),
            Evidence(question, "no answer", "packet socket"),
        ),
        why=f"When this entry expires, {tested.sender.host} cannot find {address} again, and the path ends. A network "
        "that drops broadcast or multicast frames, and a host that does not answer (arp_ignore, a filter), look so.",
        fixes=(
            Fix(
                "peer",
                "Show what could keep it from answering",
                (command("sysctl", "-a", "-r", r"\.arp_(ignore|filter)$"), command("nft", "list", "ruleset")),
                peer=tested.receiver.host if tested.gateway is None else "",
            ),
        ),
    )


def _several_hosts(tested: TestedDirection, link: Link, owners: Owners) -> Finding:
    address = _resolved(tested)
    return path_finding(
        "path_duplicate_address",
        "critical",
        tested.host,
        link,
        f"duplicate address {address}: {len(owners)} MAC addresses answer",
        evidence=_evidence(tested, owners),
        why="It is random which host receives the packets, and it changes when the neighbour entry expires. "
        "Connections hang or are reset.",
        fixes=(
            Fix(
                "peer",
                "Give one of them another address",
                (),
                note="Find the other host: the port of its MAC address is in the forwarding table of the bridge "
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
        tested.peer.snapshot.links.get(tested.receiver.ifindex or 0),
        f"ARP flux: other NICs of this host answer for {tested.receiver.address}",
        evidence=_evidence(tested, owners),
        why="Packets to this address arrive on a NIC that does not have it: the wrong NIC carries the traffic, and "
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
        why=f"Packets to {tested.receiver.host} reach another host: both have the address, or the other one answers "
        "for it (proxy ARP).",
        fixes=(Fix("peer", "Give one of them another address, or turn proxy_arp off", ()),),
    )


def _resolved(tested: TestedDirection) -> str:
    """The address that was asked for: that of the gateway, if there is one."""
    return tested.test.resolved or tested.receiver.address


def _evidence(tested: TestedDirection, owners: Owners) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            f"{_resolved(tested)} answered by",
            f"{mac} ({', '.join(f'{host} {name}' for host, name in found) or 'not a watched NIC'})",
            "ARP" if ":" not in tested.receiver.address else "neighbour discovery",
        )
        for mac, found in owners.items()
    )


def _owners(tested: TestedDirection, mac: str) -> list[tuple[str, str]]:
    """(host, NIC) of both ends with this MAC address."""
    ends = {tested.host.name: tested.host, tested.peer.name: tested.peer}
    return [(name, link.name) for name, host in ends.items() for link in host.links if link.address == mac]
