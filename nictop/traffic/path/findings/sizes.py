"""MTU black holes, and path MTUs that routers report. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nictop.probe.records import IcmpError, Link, PathSize, PathTest
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes, mtu_fixes, smallest_mtu
from nictop.traffic.path.findings.tested_direction import PROTOCOL_NAMES, TestedDirection, path_finding

UDP_TUNNELS = ("vxlan", "geneve")
TUNNEL_CHECKSUM = "tx-checksum-ip-generic"


def size_findings(tested: TestedDirection) -> Iterator[Finding]:
    size, link = best_size(tested.test), tested.link
    if size is None or link is None or size.largest is None or size.largest >= size.limit:
        return
    if not size.complete and size.too_big is not None:
        return  # a router reports a size
    to = tested.receiver.host
    if size.too_big is not None and size.too_big.mtu == size.largest:
        yield path_finding(
            "path_mtu_smaller",
            "info",
            tested.host,
            link,
            f"path MTU to {to} is {size.largest} (MTU of this NIC: {size.limit})",
            evidence=(_size_evidence(tested, size), _too_big_evidence(size.too_big)),
            why="Path MTU discovery works: the kernel learns the size and uses it. The first packets of each "
            "connection are lost, and a tunnel or UDP program that sets DF must know the size.",
        )
        return
    peer_link = tested.peer.snapshot.links.get(tested.receiver.ifindex or 0) if tested.gateway is None else None
    if size.complete and size.largest < smallest_mtu(is_ipv6=is_ipv6(tested)):
        yield _below_every_mtu(tested, link, size)
        return
    mtu = size.largest
    if peer_link is not None and peer_link.mtu < size.limit:
        mtu = min(mtu, peer_link.mtu)  # some drivers receive a few bytes more than their MTU
    back = best_size(tested.back.test) if tested.back.test is not None else None
    if back is not None and back.complete and back.largest is not None:
        mtu = min(mtu, back.largest)
    received = Evidence('ICMP "fragmentation needed"', "none received", "IP_RECVERR")
    if size.too_big is not None:
        received = _too_big_evidence(size.too_big)
    evidence = [_size_evidence(tested, size), received]
    if tested.gateway is not None:
        evidence.append(Evidence("gateway", tested.gateway, f"ip route get {tested.receiver.address}"))
    elif peer_link is not None:
        evidence.append(Evidence(f"MTU of {to} {peer_link.name}", str(peer_link.mtu), "ip link show"))
    where = (
        'Possible: a router on the path does not send ICMP "fragmentation needed", or a firewall drops it'
        if tested.gateway is not None
        else f"The other NIC has MTU {peer_link.mtu}, and no router is between that could report it"
        if peer_link is not None and peer_link.mtu < size.limit
        else f"{to} is in the same subnet, so no router can report the size. Possible: a bridge, switch port or "
        "tunnel has a smaller MTU"
    )
    yield path_finding(
        "path_mtu_black_hole",
        "warning",
        tested.host,
        link,
        f"MTU black hole to {to}: packets above {size.largest} bytes are lost (MTU of this NIC: {size.limit})"
        if size.complete
        else f"MTU black hole to {to}: packets of {size.limit} bytes are lost, {size.largest} bytes pass",
        evidence=tuple(evidence),
        why=f"{where}. Small packets pass: ping and SSH work, large transfers hang.",
        fixes=_mtu_fixes(tested, link, mtu),
    )


def best_size(test: PathTest) -> PathSize | None:
    """The search with the most reliable answer: that over UDP, whose answers are small."""
    return next((one for one in reversed(test.sizes) if one.largest is not None), None)


def _size_evidence(tested: TestedDirection, size: PathSize) -> Evidence:
    return Evidence(
        f"largest packet to {tested.receiver.host}",
        f"{size.largest} of {size.limit} bytes",
        f"{PROTOCOL_NAMES[size.protocol]} with DF",
    )


def _too_big_evidence(error: IcmpError) -> Evidence:
    mtu = f", MTU {error.mtu}" if error.mtu is not None else ""
    return Evidence('ICMP "fragmentation needed"', f"from {error.source}{mtu}", "IP_RECVERR")


def _below_every_mtu(tested: TestedDirection, link: Link, size: PathSize) -> Finding:
    """The size that passes is smaller than every link must pass: it is not decided by an MTU."""
    to, smallest = tested.receiver.host, smallest_mtu(is_ipv6=is_ipv6(tested))
    features = {one.name: one.active for one in link.ethtool.features or ()}
    fixes = [Fix("here", "Search for what drops them", (), note="Packet filters and limits at both ends and between.")]
    if link.kind in UDP_TUNNELS and features.get(TUNNEL_CHECKSUM):
        now = ethtool_fixes(tested.host, link, ["-K", TUNNEL_CHECKSUM, "off"])[0]
        fixes.insert(0, replace(now, title="Try without the checksum offload of the tunnel", note="On both hosts."))
    return path_finding(
        "path_drops_by_size",
        "warning",
        tested.host,
        link,
        f"packets above {size.largest} bytes to {to} are lost, which no MTU explains",
        evidence=(_size_evidence(tested, size),),
        why=f"Each link passes {smallest} bytes, so that no MTU explains it. Possible: a packet filter that drops by "
        "size, or an offload of a tunnel that the NIC cannot handle.",
        fixes=tuple(fixes),
    )


def is_ipv6(tested: TestedDirection) -> bool:
    return ":" in tested.receiver.address


def _mtu_fixes(tested: TestedDirection, link: Link, mtu: int) -> tuple[Fix, ...]:
    """This end and the other one: a smaller MTU at one end only makes a black hole in the other direction."""
    note = (
        "Alternatives: let ICMP type 3 code 4 (IPv6: ICMPv6 type 2) pass on all routers and firewalls of the path, or "
        "raise the MTU of the link that has the smaller one."
        if tested.gateway is not None
        else "Or raise the MTU of the bridge, switch port, tunnel or NIC that has the smaller one."
    )
    is_possible = mtu >= max(link.min_mtu or 0, smallest_mtu(is_ipv6=is_ipv6(tested)))
    changes = mtu_fixes(tested.host, link, mtu) if is_possible else ()
    if not changes:
        return (Fix("here", "Raise the MTU on the path", (), note=note),)
    now, *stored = changes
    others = _other_ends(tested, link, mtu)
    if others:
        note = f"All ends need the same MTU: also {' and '.join(one.title for one in others)}. {note}"
    here = replace(now, title=f"Set MTU {mtu} on {link.name}", note=note)
    return (here, *(replace(one, title=f"Set MTU {mtu} on {one.title}") for one in others), *stored)


def _other_ends(tested: TestedDirection, link: Link, mtu: int) -> list[Fix]:
    """What else sends to this link and does not ask its MTU: the other end of its veth, and the peer in its subnet.
    Their titles name the link."""
    found = []
    if link.veth_peer is not None and link.veth_peer.mtu > mtu:
        name = link.veth_peer.name
        more = "Its bridge, if it is a port of one, needs it, too."
        far = _mtu_fix("hypervisor", f"{name}, the other end of the veth", name, mtu, link.veth_peer.mtu)
        found.append(replace(far, note=more))
    below = tested.host.snapshot.links.get(link.lower or 0) if link.lower_namespace is None else None
    if link.kind == "veth" and below is not None and below.mtu > mtu:
        found.append(_mtu_fix("here", f"{below.name}, the other end of the veth", below.name, mtu, below.mtu))
    peer = tested.peer.snapshot.links.get(tested.receiver.ifindex or 0)
    if tested.gateway is None and peer is not None and peer.mtu > mtu:
        far = _mtu_fix("peer", f"{tested.receiver.host} {peer.name}", peer.name, mtu, peer.mtu)
        found.append(replace(far, peer=tested.receiver.host))
    return found


def _mtu_fix(where: WhereToType, title: str, name: str, mtu: int, old: int) -> Fix:
    change, undo = (command("ip", "link", "set", "dev", name, "mtu", str(size)) for size in (mtu, old))
    return Fix(where, title, (change,), persistent=False, undo=(undo,))
