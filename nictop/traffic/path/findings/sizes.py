"""MTU black holes, and path MTUs that routers report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import IcmpError, Link, PathSize, PathTest
from nictop.rules.far_ends import place_of_other_end
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType, as_alternative
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import (
    WHOLE_PATH_NOTE,
    can_have_mtu,
    ethtool_fixes,
    mtu_fixes,
    smallest_mtu,
)
from nictop.rules.host import HostFacts
from nictop.rules.link.guest_mtu import ANNOUNCED_MSS, GSO_NOTE, TRANSFERS_HANG
from nictop.rules.tunnels import is_on
from nictop.traffic.path.findings.tested_direction import (
    PROTOCOL_NAMES,
    TestedDirection,
    path_finding,
)

UDP_TUNNELS = ("vxlan", "geneve")
TUNNEL_CHECKSUM = "tx-checksum-ip-generic"


def size_findings(tested: TestedDirection) -> Iterator[Finding]:
    size, link = best_size(tested.test), tested.link
    if size is None or link is None:
        return
    if size.largest is None or size.largest >= size.limit:
        return
    if not size.complete and size.too_big is not None:
        return  # a router reports a size
    if size.too_big is not None and size.too_big.mtu == size.largest:
        yield _smaller_mtu(tested, link, size, size.too_big)
    elif size.complete and size.largest < smallest_mtu(is_ipv6=is_ipv6(tested)):
        yield _below_every_mtu(tested, link, size)
    else:
        yield _black_hole(tested, link, size, size.largest)


def _smaller_mtu(
    tested: TestedDirection, link: Link, size: PathSize, too_big: IcmpError
) -> Finding:
    return path_finding(
        "path_mtu_smaller",
        "info",
        tested.host,
        link,
        f"path MTU to {tested.receiver.host} is {size.largest} (MTU of this NIC: {size.limit})",
        evidence=(_size_evidence(tested, size), _too_big_evidence(too_big)),
        why="Path MTU discovery works: the kernel learns the size and uses it for ten minutes. The "
        "packets from which it learns it are lost, and a tunnel or UDP program that sets DF must "
        "know the size.",
    )


def _black_hole(tested: TestedDirection, link: Link, size: PathSize, largest: int) -> Finding:
    """`largest`: bytes of the largest packet that passes."""
    to, peer_link = tested.receiver.host, _peer_link(tested)
    received = Evidence('ICMP "fragmentation needed"', "none received", "IP_RECVERR")
    if size.too_big is not None:
        received = _too_big_evidence(size.too_big)
    smaller = _smaller_nics(tested, size, largest)
    evidence = [_size_evidence(tested, size), received]
    if tested.gateway is not None:
        command_line = f"ip route get {tested.receiver.address} from {tested.sender.address}"
        evidence.append(Evidence("gateway", tested.gateway, command_line))
    elif peer_link is not None:
        mtu = str(peer_link.mtu)
        evidence.append(Evidence(f"MTU of {to} {peer_link.name}", mtu, "ip link show"))
    for known in smaller:
        source = "RTM_GETLINK, IFLA_TARGET_NETNSID" if known.host is None else "ip link show"
        evidence.append(Evidence(f"MTU of {known.text}", str(known.mtu), source))
    lost = f"packets of {size.limit} bytes are lost, {largest} bytes pass"
    if size.complete:
        lost = f"packets above {largest} bytes are lost (MTU of this NIC: {size.limit})"
    where = _black_hole_place(tested, size, peer_link)
    if smaller:
        where = _known_place(smaller[0], tested)
    return path_finding(
        "path_mtu_black_hole",
        "warning",
        tested.host,
        link,
        f"MTU black hole to {to}: {lost}",
        evidence=tuple(evidence),
        why=f"{where}. {_lost_above(size, peer_link)}",
        fixes=(*_raised_nics(smaller, size), *_mtu_fixes(tested, link, size, largest)),
    )


class SmallerNic(NamedTuple):
    """A NIC on the path that is known, with an MTU below what was sent: what is larger than that
    it drops when it receives it, and reports nothing."""

    host: HostFacts | None
    """None: in a namespace that is not watched."""
    name: str
    mtu: int
    link: Link | None = None

    @property
    def text(self) -> str:
        if self.host is None:
            return f"the other end of the veth ({self.name})"
        return f"{self.host.name} {self.name}"


def _smaller_nics(tested: TestedDirection, size: PathSize, largest: int) -> list[SmallerNic]:
    """Those that explain the size: the other end of the veth of the sender, the NIC of a watched
    router that has the address of the gateway, and behind a router that of the receiver."""
    found = [*_other_end(tested), *_gateway_nics(tested)]
    receiver = tested.receiver_link
    if tested.gateway is not None and receiver is not None:
        found.append(SmallerNic(tested.peer, receiver.name, receiver.mtu, receiver))
    peer = _peer_link(tested)
    explaining: dict[str, SmallerNic] = {}
    for nic in found:
        if nic.mtu <= largest < size.limit and (peer is None or nic.link is not peer):
            explaining.setdefault(nic.text, nic)
    return list(explaining.values())


def _other_end(tested: TestedDirection) -> Iterator[SmallerNic]:
    """Of the veth by which the sender sends."""
    link = tested.link
    if link is None:
        return
    far = tested.far_ends.get((tested.host.name, link.ifindex))
    if far is not None:
        yield SmallerNic(far.host, far.link.name, far.link.mtu, far.link)
    elif link.veth_peer is not None:
        yield SmallerNic(None, link.veth_peer.name, link.veth_peer.mtu)


def _gateway_nics(tested: TestedDirection) -> Iterator[SmallerNic]:
    """Of watched hosts."""
    if tested.gateway is None:
        return
    for host in tested.watched.values():
        for link in host.links if host is not tested.host else ():
            if any(own.address == tested.gateway for own in link.addresses):
                yield SmallerNic(host, link.name, link.mtu, link)


def _known_place(nic: SmallerNic, tested: TestedDirection) -> str:
    others = "another link on the path has a smaller MTU"
    if tested.gateway is not None:
        others = f"{others}, and its router reports nothing"
    return (
        f"Possible: {nic.text} has MTU {nic.mtu} and drops what is larger, without a report; or "
        f"{others}"
    )


def _raised_nics(smaller: Sequence[SmallerNic], size: PathSize) -> Iterator[Fix]:
    for nic in smaller:
        if nic.host is None or nic.link is None or not can_have_mtu(nic.link, size.limit):
            continue
        title = f"Set MTU {size.limit} on {nic.name}"
        fix = _mtu_fix("peer", title, nic.name, size.limit, nic.mtu)
        yield replace(fix, note=WHOLE_PATH_NOTE, peer=nic.host.name)


def _lost_above(size: PathSize, peer_link: Link | None) -> str:
    """What a black hole does to whom."""
    if peer_link is not None and peer_link.mtu < size.limit:
        return ANNOUNCED_MSS
    return f"{TRANSFERS_HANG} {GSO_NOTE}"


def _peer_link(tested: TestedDirection) -> Link | None:
    """The NIC of the other end; None: a router is between, or it is not known."""
    if tested.gateway is not None:
        return None
    return tested.receiver_link


def _passing_mtu(
    tested: TestedDirection, size: PathSize, largest: int, peer_link: Link | None
) -> int:
    """The MTU with which packets pass in both directions."""
    mtu = largest
    if peer_link is not None and peer_link.mtu < size.limit:
        mtu = min(mtu, peer_link.mtu)  # some drivers receive a few bytes more than their MTU
    if tested.back.test is None:
        return mtu
    back = best_size(tested.back.test)
    if back is not None and back.complete and back.largest is not None:
        mtu = min(mtu, back.largest)
    return mtu


def _black_hole_place(tested: TestedDirection, size: PathSize, peer_link: Link | None) -> str:
    if tested.gateway is not None:
        return (
            'Possible: a router on the path does not send ICMP "fragmentation needed", or a '
            "firewall drops it"
        )
    if peer_link is not None and peer_link.mtu < size.limit:
        no_router = "no router is between that could report it"
        return f"The other NIC has MTU {peer_link.mtu}, and {no_router}"
    return (
        f"{tested.receiver.host} is in the same subnet, so no router can report the size. "
        "Possible: a bridge, switch port or tunnel has a smaller MTU"
    )


def best_size(test: PathTest) -> PathSize | None:
    """The search with the most reliable answer: that over UDP, whose answers are small."""
    for size in reversed(test.sizes):
        if size.largest is not None:
            return size
    return None


def _size_evidence(tested: TestedDirection, size: PathSize) -> Evidence:
    return Evidence(
        f"largest packet to {tested.receiver.host}",
        f"{size.largest} of {size.limit} bytes",
        f"{PROTOCOL_NAMES[size.protocol]} with DF",
    )


def _too_big_evidence(error: IcmpError) -> Evidence:
    text = f"from {error.source}"
    if error.mtu is not None:
        text += f", MTU {error.mtu}"
    return Evidence('ICMP "fragmentation needed"', text, "IP_RECVERR")


def _below_every_mtu(tested: TestedDirection, link: Link, size: PathSize) -> Finding:
    """The size that passes is smaller than every link must pass: it is not decided by an MTU."""
    to, smallest = tested.receiver.host, smallest_mtu(is_ipv6=is_ipv6(tested))
    fixes = []
    if link.kind in UDP_TUNNELS and is_on(link, TUNNEL_CHECKSUM):
        without_offload = ethtool_fixes(tested.host, link, ["-K", TUNNEL_CHECKSUM, "off"])[0]
        title = "Try without the checksum offload of the tunnel"
        fixes.append(replace(without_offload, title=title, note="On both hosts."))
    places = "Packet filters and limits at both ends and between."
    fixes.append(Fix("here", "Search for what drops them", (), note=places))
    return path_finding(
        "path_drops_by_size",
        "warning",
        tested.host,
        link,
        f"packets above {size.largest} bytes to {to} are lost, which no MTU explains",
        evidence=(_size_evidence(tested, size),),
        why=f"Each link passes {smallest} bytes, so that no MTU explains it. Possible: a packet "
        f"filter that drops by "
        "size, or an offload of a tunnel that the NIC cannot handle.",
        fixes=tuple(fixes),
    )


def is_ipv6(tested: TestedDirection) -> bool:
    return ":" in tested.receiver.address


def _mtu_fixes(
    tested: TestedDirection, link: Link, size: PathSize, largest: int
) -> tuple[Fix, ...]:
    """The smaller MTU for this end, or the larger one for the NIC of the other end if that alone
    has the smaller one: which of them is meant is not known. First what `check` puts first."""
    peer_link = _peer_link(tested)
    mtu = _passing_mtu(tested, size, largest, peer_link)
    raised = None
    if peer_link is not None and peer_link.mtu < size.limit and largest >= peer_link.mtu:
        raised = _raised_fix(tested, link, peer_link)
    lowered = _lowered_fixes(tested, link, mtu, has_other_way=raised is not None)
    if raised is None or peer_link is None:
        return lowered
    if not _is_below_its_other_end(tested, peer_link, link.mtu):
        return (*lowered, as_alternative(raised))
    now = [fix for fix in lowered if not fix.persistent]
    return (raised, *map(as_alternative, now[:1]), *now[1:])


def _is_below_its_other_end(tested: TestedDirection, peer_link: Link, mtu: int) -> bool:
    """A veth whose other end has this MTU: `check` raises that (`link/guest_mtu.py`)."""
    far = tested.far_ends.get((tested.peer.name, peer_link.ifindex))
    if far is not None:
        return far.link.mtu >= mtu
    return peer_link.veth_peer is not None and peer_link.veth_peer.mtu >= mtu


def _raised_fix(tested: TestedDirection, link: Link, peer_link: Link) -> Fix | None:
    if not can_have_mtu(peer_link, link.mtu):
        return None
    title = f"Set MTU {link.mtu} on {peer_link.name}"
    fix = _mtu_fix("peer", title, peer_link.name, link.mtu, peer_link.mtu)
    return replace(fix, note=WHOLE_PATH_NOTE, peer=tested.receiver.host)


def _lowered_fixes(
    tested: TestedDirection, link: Link, mtu: int, *, has_other_way: bool
) -> tuple[Fix, ...]:
    """This end and the other one: a smaller MTU at one end only makes a black hole in the other
    direction. `has_other_way`: a fix of its own raises the MTU of the other end."""
    note = "Or raise the MTU of the bridge, switch port, tunnel or NIC that has the smaller one."
    if tested.gateway is not None:
        note = (
            "Alternatives: let ICMP type 3 code 4 (IPv6: ICMPv6 type 2) pass on all routers and "
            "firewalls of the path, or raise the MTU of the link that has the smaller one."
        )
    if has_other_way:
        note = ""
    smallest = max(link.min_mtu or 0, smallest_mtu(is_ipv6=is_ipv6(tested)))
    changes = mtu_fixes(tested.host, link, mtu) if mtu >= smallest else ()
    if not changes:
        return () if has_other_way else (Fix("here", "Raise the MTU on the path", (), note=note),)
    now, *stored = changes
    others = _other_ends(tested, link, mtu)
    if others:
        ends = " and ".join(map(_named_end, others))
        note = f"All ends need the same MTU: also {ends}. {note}".rstrip()
    here = replace(now, title=f"Set MTU {mtu} on {link.name}", note=note)
    there = [replace(fix, title=f"Set MTU {mtu} on {fix.title}") for fix in others]
    return (here, *there, *stored)


def _named_end(fix: Fix) -> str:
    """``ens224 on vm1``, ``vethb, the other end of the veth``"""
    return f"{fix.title} on {fix.peer}" if fix.where == "peer" else fix.title


def _other_ends(tested: TestedDirection, link: Link, mtu: int) -> list[Fix]:
    """What else sends to this link and does not ask its MTU: the other end of its veth, and the
    peer in its subnet. Their titles name the link."""
    found = []
    peer = _peer_link(tested)
    veth_peer = link.veth_peer
    far = tested.far_ends.get((tested.host.name, link.ifindex))
    is_peer = far is not None and far.host is tested.peer and far.link is peer
    if veth_peer is not None and veth_peer.mtu > mtu and not is_peer:
        title = f"{veth_peer.name}, the other end of the veth"
        fix = _mtu_fix("other end", title, veth_peer.name, mtu, veth_peer.mtu)
        place = place_of_other_end(tested.host, link)
        note = "Its bridge, if it is a port of one, needs it, too."
        found.append(replace(fix, note=note, peer=place))
    below = tested.host.lower_link(link) if link.kind == "veth" else None
    if below is not None and below.mtu > mtu:
        title = f"{below.name}, the other end of the veth"
        found.append(_mtu_fix("here", title, below.name, mtu, below.mtu))
    if peer is not None and peer.mtu > mtu:
        fix = _mtu_fix("peer", peer.name, peer.name, mtu, peer.mtu)
        found.append(replace(fix, peer=tested.receiver.host))
    return found


def _mtu_fix(where: WhereToType, title: str, name: str, mtu: int, old: int) -> Fix:
    change = command("ip", "link", "set", "dev", name, "mtu", str(mtu))
    undo = command("ip", "link", "set", "dev", name, "mtu", str(old))
    return Fix(where, title, (change,), persistent=False, undo=(undo,))
