"""ICMP echo is answered, but UDP and TCP are lost: wrong checksums, a tunnel below which offloads
fail, a filter. Pure.

The kernel computes the checksum of ICMP itself, and leaves those of UDP and TCP to the NIC. Where a
driver, a virtual switch or a program between the hosts does not complete them, the receiver drops
these packets and counts them (Udp and Tcp InCsumErrors); a NIC that cannot handle what is inside a
tunnel drops them itself (projectcalico/calico#4727 and #7040).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from nictop.model.text.words import count_noun
from nictop.probe.records import Firewalls, Link, LossCount, PathListener
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts
from nictop.rules.tunnels import active_features
from nictop.traffic.path.findings.firewalls import firewall_findings
from nictop.traffic.path.findings.losses import (
    attributed,
    loss_evidence,
    source_of,
    text_of,
    unanswered_packets,
    wrong_checksums,
)
from nictop.traffic.path.findings.tested_direction import (
    PROTOCOL_NAMES,
    TestedDirection,
    packets_of,
    path_finding,
)
from nictop.traffic.path.outcomes import outcome_of

TRANSPORTS: tuple[Literal["udp", "tcp"], ...] = ("udp", "tcp")
TUNNEL_KINDS = (
    "vxlan", "geneve", "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ipip", "ip6tnl", "sit",
    "vti", "vti6", "wireguard", "bareudp",
)  # fmt: skip
CHECKSUM_FEATURES = ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6")
"""Of them those that are on and can be turned off are shown, and are what a fix turns off."""


def transport_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Protocols that are not answered although another one is, with the cause as far as both ends
    show it."""
    silent = [name for name in TRANSPORTS if _is_silent(tested, name)]
    lost = unanswered_packets(tested, silent)
    wrong = wrong_checksums(tested, silent)
    counted = attributed(tested, lost) if silent else None
    if silent and wrong >= lost / 2:
        yield _wrong_checksums(tested, silent, wrong)
    elif counted is not None:
        yield dropped_finding(tested, silent, *counted)
    elif _only_icmp_passes(tested):
        if tested.direction is tested.result.directions[0]:
            yield _only_icmp(tested)
    else:
        yield from firewall_findings(tested)


def _is_silent(tested: TestedDirection, protocol: str) -> bool:
    outcome = tested.outcomes.get(protocol)
    return outcome is not None and outcome.kind == "silent"


def _only_icmp_passes(tested: TestedDirection) -> bool:
    """In both directions, and no firewall of the ends is known that explains it."""
    back = tested.back.test
    if back is None:
        return False
    for name in TRANSPORTS:
        if not _is_silent(tested, name) or outcome_of(back, name).kind != "silent":
            return False
    there = _has_arrived(tested.direction.listener) and _may_filter(tested.firewalls)
    here = _has_arrived(tested.back.listener) and _may_filter(tested.own_firewalls)
    return not (there and here)


def _has_arrived(listener: PathListener | None) -> bool:
    """Packets of UDP or TCP came in, and were dropped afterwards; also if that is not known."""
    if listener is None or listener.arrived is None:
        return True
    return any(packets.protocol in TRANSPORTS for packets in listener.arrived)


def _may_filter(firewalls: Firewalls | None) -> bool:
    """A firewall of the host is known that may drop what comes in."""
    if firewalls is None:
        return False
    if firewalls.firewalld is not None or firewalls.ufw:
        return True
    return any(chain.hook == "input" for chain in firewalls.chains)


def _wrong_checksums(tested: TestedDirection, protocols: Sequence[str], count: int) -> Finding:
    what = " and ".join(PROTOCOL_NAMES[name] for name in protocols)
    return path_finding(
        "path_checksums_wrong",
        "critical",
        tested.host,
        tested.link,
        f"{what} to {tested.receiver.host} arrive with wrong checksums and are dropped",
        evidence=(
            Evidence(
                f"wrong checksums at {tested.receiver.host}",
                str(count),
                "nstat -az '*InCsumErrors'",
            ),
            *_offload_evidence(tested.host, tested.link),
        ),
        why="Usually the kernel of the sender leaves the checksums of UDP and TCP to the NIC, and "
        "something on the way does not complete them: the driver, a virtual switch, or a program "
        "that forwards frames. ICMP passes then, because the kernel computes its checksum itself.",
        fixes=_checksum_fixes(tested.host, tested.link),
    )


def dropped_finding(
    tested: TestedDirection, protocols: Sequence[str], host: HostFacts, count: LossCount
) -> Finding:
    """A counter of one end explains it."""
    what = " and ".join(PROTOCOL_NAMES[name] for name in protocols)
    end = tested.receiver if host is tested.peer else tested.sender
    return path_finding(
        "path_dropped",
        "critical" if len(protocols) > 1 else "warning",
        host,
        host.snapshot.links.get(count.ifindex or end.ifindex or 0),
        f"drops packets during the test: {text_of(host, count)}",
        evidence=(
            Evidence("during the test", text_of(host, count), source_of(host, count)),
            Evidence(what, "no answer", "path test"),
        ),
        why="Counted on this host while packets of the test were lost, at least half as many: look "
        "here before anything between the hosts.",
    )


def _only_icmp(tested: TestedDirection) -> Finding:
    here, there = tested.host.name, tested.peer.name
    tunnel = _tunnel_of_ends(tested)
    evidence = [
        *_arrivals(tested),
        *loss_evidence(tested),
        *_firewall_evidence(tested),
        *_offload_evidence(tested.host, tested.link),
    ]
    possible = (
        "a filter between the hosts that lets only ICMP pass (security group, ACL, "
        "firewall of a hypervisor)"
    )
    why = f"Possible: {possible}, or checksums that a driver or virtual switch does not complete."
    fixes: tuple[Fix, ...] = ()
    if tunnel is not None:
        why = (
            f"{tunnel.name} is a tunnel: offloads of a NIC below it that cannot handle what is "
            f"inside are the usual "
            f"cause. Also possible: {possible}."
        )
        fixes = _checksum_fixes(tested.host, tested.link)
    return path_finding(
        "path_only_icmp",
        "critical",
        tested.host,
        tested.link,
        f"only ICMP echo passes to {there} and back: UDP and TCP of the test are lost",
        evidence=tuple(evidence),
        why=f"{why} ping works between {here} and {there}; UDP and TCP were tested on port "
        f"{tested.test.port} only.",
        fixes=fixes,
    )


def _tunnel_of_ends(tested: TestedDirection) -> Link | None:
    """The tunnel that carries the test: that of this end, else that of the other one."""
    for link in (tested.link, _peer_link(tested)):
        if link is not None and is_tunnel(link):
            return link
    return None


def _peer_link(tested: TestedDirection) -> Link | None:
    """By which the receiver's route leaves; else the NIC of its address."""
    if tested.route_back:
        return tested.peer.link_at(tested.route_back)
    return tested.receiver_link


def is_tunnel(link: Link) -> bool:
    return link.kind in TUNNEL_KINDS


def _arrivals(tested: TestedDirection) -> Iterator[Evidence]:
    for direction in (tested.direction, tested.back):
        listener = direction.listener
        if listener is None or listener.arrived is None:
            yield Evidence(f"UDP and TCP at {direction.receiver.host}", "no answer", "path test")
            continue
        seen = packets_of(listener.arrived, TRANSPORTS)
        yield Evidence(
            f"UDP and TCP at {direction.receiver.host}",
            f"{count_noun(seen, 'packet')} arrived",
            "packet socket",
        )


def _firewall_evidence(tested: TestedDirection) -> Iterator[Evidence]:
    for host, firewalls in ((tested.host, tested.own_firewalls), (tested.peer, tested.firewalls)):
        if firewalls is None or firewalls.unreadable:
            value = "not known"
        elif _may_filter(firewalls):
            value = "may filter"
        else:
            value = "none that filters input"
        yield Evidence(f"firewall of {host.name}", value, "nftables, firewalld, ufw")


def _offload_evidence(host: HostFacts, link: Link | None) -> Iterator[Evidence]:
    for offloading in _offloading(host, link):
        features, name = active_features(offloading, CHECKSUM_FEATURES), offloading.name
        if features:
            yield Evidence(f"offloads of {name}", ", ".join(features), f"ethtool -k {name}")


def _offloading(host: HostFacts, link: Link | None) -> Sequence[Link]:
    """The link, and of a tunnel the NICs with a device that it may use."""
    if link is None:
        return ()
    below = host.lower_link(link) if is_tunnel(link) else None
    if below is None:
        return (link,)
    return (link, below)


def _checksum_fixes(host: HostFacts, link: Link | None) -> tuple[Fix, ...]:
    """Off for the link itself: of a tunnel, that leaves the offloads of other traffic of the NIC
    alone."""
    if link is None:
        return ()
    features = active_features(link, CHECKSUM_FEATURES)
    if not features:
        return ()
    words = ["-K"]
    for name in features:
        words += [name, "off"]
    note = (
        "Costs CPU time: segments are cut in software too. The other end needs it for its own "
        "packets."
    )
    return ethtool_fixes(host, link, words, note=note)
