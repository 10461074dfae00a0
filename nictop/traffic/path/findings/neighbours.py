"""Who answers for the address of the other end: duplicate addresses and ARP flux. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, PathTest
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import one_fix, sysctl_fixes
from nictop.rules.host import HostFacts
from nictop.rules.link.flags import ARP_IGNORE_NOTE, NEVER_ANSWER, never_answering_settings
from nictop.rules.routes.neighbours import own_mac_addresses
from nictop.traffic.path.findings.tested_direction import TestedDirection, path_finding
from nictop.traffic.path.result import PathDirection

LEARNED_STATES = ("reachable", "stale", "delay", "probe")
"""States of an entry that was learned, and expires; permanent and noarp entries need no answers."""
MAX_CONFIRMED_RTT = 0.1
"""Seconds: with longer round trips an answer to a request may have been missed."""

Owners = Mapping[str, Sequence[tuple[str, str]]]
"""MAC address that answers → (host, NIC) of watched hosts that have it; (): another machine."""


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


def goes_to_another_host(tested: TestedDirection) -> bool:
    """What is sent to the address goes to another host that answers for it: one beside the
    receiver, or one that is watched. `neighbour_findings` has a finding about it."""
    return _uses_other_mac(tested, tested.direction, tested.peer)


def answers_go_to_another_host(tested: TestedDirection) -> bool:
    """The same of what the receiver sends back."""
    return _uses_other_mac(tested, tested.back, tested.host)


def others_get_answers(tested: TestedDirection) -> bool:
    """Some of what the receiver sends back goes to another host, which answers for the address of
    the sender, too; also if the entry is the right one at the end of the test."""
    back = tested.back.test
    if back is None or back.path is None:
        return False
    if answers_go_to_another_host(tested):
        return True
    own = own_mac_addresses(tested.host)
    answering = set(_answering_macs(back))
    return back.path.gateway is None and bool(answering & own) and bool(answering - own)


def _uses_other_mac(tested: TestedDirection, direction: PathDirection, end: HostFacts) -> bool:
    """`end`: the receiver of the direction."""
    test = direction.test
    if test is None or test.path is None:
        return False
    used, answering = _used_mac(test), _answering_macs(test)
    own = {link.address for link in end.links}
    if used in own or used not in answering:
        return False
    if not own.isdisjoint(answering):
        return True
    is_watched = any(host != end.name for host, _ in _nics_with(tested.watched, used))
    return is_watched and test.path.ifindex == direction.sender.ifindex


def _used_mac(test: PathTest) -> str:
    """Of the neighbour entry, if the other end is in the subnet of the sender; "": not known."""
    if test.path is None or test.path.gateway is not None:
        return ""
    return test.path.neighbour_address or ""


def is_sent_to_wrong_mac(direction: PathDirection, receiver: HostFacts) -> bool:
    """None of its packets is received: they are for a MAC address that neither the receiver nor the
    gateway to it has."""
    listener = direction.listener
    if listener is not None and (listener.arrived or listener.delivered):
        return False
    return _comes_for_another(direction) or has_wrong_entry(direction, receiver)


def has_wrong_entry(direction: PathDirection, receiver: HostFacts) -> bool:
    """The neighbour entry of the sender for the receiver, or for the gateway to it, is that of
    nobody that answers now, and of no NIC of the receiver."""
    test = direction.test
    if test is None or test.path is None or not test.path.neighbour_address:
        return False
    used, answering = test.path.neighbour_address, test.macs or ()
    if used in answering:
        return False
    if test.path.gateway is not None:
        return bool(answering)
    is_known = bool(answering) or _comes_for_another(direction)
    return is_known and used not in own_mac_addresses(receiver)


def _comes_for_another(direction: PathDirection) -> bool:
    """Seen at the NIC of the receiver."""
    return direction.listener is not None and bool(direction.listener.misaddressed)


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
    settings = arp_ignore_evidence(tested)
    cause = (
        "A network that drops broadcast or multicast frames, and a host that does not answer "
        "(arp_ignore, a filter), look so."
    )
    if settings:
        cause = f"{tested.receiver.host} does not answer, by its arp_ignore."
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
            *settings,
        ),
        why=f"When this entry is removed, {tested.sender.host} does not find {address} by asking, "
        f"and the path ends until {address} itself asks. {cause}",
        fixes=(
            *arp_ignore_fixes(tested),
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


def arp_ignore_evidence(tested: TestedDirection) -> tuple[Evidence, ...]:
    """The settings with which the receiver, asked directly, answers no ARP request; (): none."""
    names = _arp_ignore_names(tested)
    return tuple(
        Evidence(f"on {tested.receiver.host}: {name}", str(NEVER_ANSWER), f"sysctl {name}")
        for name in names
    )


def arp_ignore_fixes(tested: TestedDirection) -> tuple[Fix, ...]:
    names = _arp_ignore_names(tested)
    fixes = [sysctl_fixes(tested.peer, name, 0, old=NEVER_ANSWER)[0] for name in names]
    if not fixes:
        return ()
    together = one_fix("Answer ARP requests", fixes, ARP_IGNORE_NOTE)
    return (replace(together, where="peer", peer=tested.receiver.host),)


def _arp_ignore_names(tested: TestedDirection) -> list[str]:
    link = tested.receiver_link
    if link is None or tested.gateway is not None or ":" in tested.receiver.address:
        return []
    return never_answering_settings(tested.peer, link)


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
        "neighbour entry is renewed: if these are two machines, connections hang or are reset."
        f"{_other_host_in_use(tested)}",
        fixes=(
            Fix(
                "peer",
                "Give one of them another address, if these are two machines",
                (),
                note=_where_they_are(owners),
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


def _other_host_in_use(tested: TestedDirection) -> str:
    """Whose answers the test has measured, if not those of the receiver."""
    if not goes_to_another_host(tested):
        return ""
    return (
        f" The one in use is not that of {tested.receiver.host}: what was answered in this test "
        "was answered by another machine."
    )


def _where_they_are(owners: Owners) -> str:
    """The NICs that are watched, and how the others are found."""
    known = [text for nics in owners.values() for text in _nic_texts(nics)]
    if all(owners.values()):
        return f"They are {' and '.join(known)}."
    return (
        "Find the other host: the port of its MAC address is in the forwarding table of the "
        "bridge or switch (bridge fdb show)."
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
    other = _other_host_name(tested, owners)
    return path_finding(
        "path_duplicate_address",
        "critical",
        tested.host,
        link,
        f"{other} answers for {_resolved(tested)} of {tested.receiver.host}",
        evidence=_evidence(tested, owners),
        why=f"Packets to {tested.receiver.host} are sent to another host: both have the address, "
        f"or the other one answers "
        "for it (proxy ARP).",
        fixes=(Fix("peer", "Give one of them another address, or turn proxy_arp off", ()),),
    )


def _other_host_name(tested: TestedDirection, owners: Owners) -> str:
    hosts = {host for nics in owners.values() for host, _ in nics}
    if len(hosts) != 1:
        return "another host"
    name = hosts.pop()
    return "this host itself" if name == tested.sender.host else name


def _resolved(tested: TestedDirection) -> str:
    """The address that was asked for: that of the gateway, if there is one."""
    return tested.test.resolved or tested.receiver.address


def _evidence(tested: TestedDirection, owners: Owners) -> tuple[Evidence, ...]:
    is_ipv6 = ":" in tested.receiver.address
    source = "neighbour discovery" if is_ipv6 else "ARP"
    found = []
    for mac, nics in owners.items():
        text = f"{mac} ({_names(nics)})"
        found.append(Evidence(f"{_resolved(tested)} answered by", text, source))
    used = _used_mac(tested.test)
    if len(owners) > 1 and used in owners:
        asked = f"ip neighbour show to {_resolved(tested)}"
        found.append(Evidence("in use", f"{used} ({_names(owners[used])})", asked))
    return tuple(found)


def _names(nics: Sequence[tuple[str, str]]) -> str:
    return ", ".join(_nic_texts(nics)) or "not a watched NIC"


def _owners(tested: TestedDirection, mac: str) -> list[tuple[str, str]]:
    """(host, NIC) of both ends with this MAC address, else of other watched hosts: the macvtap of a
    guest has the MAC address of its NIC."""
    ends = {tested.host.name: tested.host, tested.peer.name: tested.peer}
    return _nics_with(ends, mac) or _nics_with(tested.watched, mac)


def _nics_with(hosts: Mapping[str, HostFacts], mac: str) -> list[tuple[str, str]]:
    found = []
    for name, host in hosts.items():
        found += [(name, link.name) for link in host.links if link.address == mac]
    return found


def _nic_texts(nics: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{host} {name}" for host, name in nics]
