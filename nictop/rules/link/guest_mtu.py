"""Taps and veths whose two ends have different MTUs.

Reads nothing. Kernel: net/core/dev.c and include/linux/netdevice.h (____dev_forward_skb: a veth
drops frames that its other end sent and that are larger than its MTU, the Ethernet header and
`VLAN_TAG_BYTES`, and counts them in rx_dropped; the other end counts tx_dropped),
drivers/net/veth.c (veth_xmit), net/bridge/br_forward.c (br_dev_queue_push_xmit: a bridge drops
frames too large in the same way for the port that they leave by, and counts nothing),
drivers/net/tun.c (frames from the guest are not checked).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from nictop.model.devices.bridges import bridge_of, outer_port, veth_peer
from nictop.model.devices.links import has_global_address
from nictop.model.devices.pairs import pairs
from nictop.model.devices.tunnels import devices_below, overhead, underlay
from nictop.model.guests.owners import GuestKind
from nictop.model.text import units
from nictop.model.text.ip_addresses import Network, address_network
from nictop.model.text.words import mtu_of
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import LINK_COUNTERS, Link
from nictop.rules.bridges.attachments import Attachment
from nictop.rules.bridges.commands import PROXMOX_VM_TAP, is_proxmox, machine_fix
from nictop.rules.far_ends import EndKey, FarEnd, far_ends, place_of_other_end
from nictop.rules.finding import Evidence, Finding, Fix, as_alternative
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import can_have_mtu, mtu_fixes, one_fix, smallest_mtu
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding, mac_or_placeholder

SINCE_MADE = "since the link was made, with any MTU"
"""Nothing tells which of the drops are those of large frames."""
RX_DROPPED, TX_DROPPED = LINK_COUNTERS.index("rx_dropped"), LINK_COUNTERS.index("tx_dropped")
MIN_DROPS_PER_SECOND = 0.5
"""Mean over the window."""
LAYER_2_TUNNELS = ("vxlan", "geneve", "gretap", "ip6gretap")
TAPS = ("tun", "macvtap")
MAX_SHOWN = 3
"""Guests and containers of one finding."""
VLAN_TAG_BYTES = 4
"""include/linux/netdevice.h, __is_skb_forwardable: a veth or a bridge port accepts a frame of the
MTU, the Ethernet header and a VLAN tag, tagged or not; and any for segmentation offload."""
VLAN_NOTE = "its MTU and 4 bytes, room for a VLAN tag"
TRANSFERS_HANG = "Small packets pass: ping and SSH work, large transfers hang."
"""Of a smaller MTU between two ends, of which neither knows it."""
SAME_MTU_NOTE = "The ports of a bridge, and their other ends, need the same MTU."
ANNOUNCED_MSS = (
    "TCP with the smaller end passes, as that announces what it takes (MSS). Large packets of UDP "
    "and tunnels are lost, and of TCP that is forwarded through it, unless segmentation offload "
    "hands over larger ones, which pass."
)
GSO_NOTE = (
    "Between virtual NICs TCP may pass nevertheless, as long as segmentation offload hands over "
    "larger packets."
)


@pair_rule("warning", uses=("addresses", "forwarding", "threads"))
def guest_mtu_exceeds_its_tap(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest has a larger MTU than the tap that its hypervisor gave it: large packets to it are
    dropped.

    nictop joins the tap of a watched hypervisor with the NIC of a watched guest and compares their
    MTUs. The bridge drops what is larger than the MTU of the tap, and counts it nowhere.

    Both must be watched and up. Not reported: a guest with the smaller MTU, which is usual in
    overlays; and if the NIC of the bridge has the smaller MTU as well, which another check reports.

    Sources: canonical/lxd#18006, ipspace/netlab#1985; net/bridge/br_forward.c.
    """
    if not _may_differ(hosts):
        return
    for at in _taps(hosts):
        if not is_up(at.tap) or not is_up(at.nic) or at.nic.mtu <= at.tap.mtu:
            continue
        uplink_mtus = [link.mtu for link in _uplinks(at.owner, at.tap)]
        way_out = min(uplink_mtus, default=at.nic.mtu)
        if way_out >= at.nic.mtu:
            yield _tap_finding(at, tuple(_raised(at)))
        elif at.tap.kind == "macvtap":
            yield _tap_finding(at, tuple(_lowered(at, max(way_out, at.tap.mtu))))


def _tap_finding(at: Attachment, fixes: tuple[Fix, ...]) -> Finding:
    tap, nic = at.tap, at.nic
    return link_finding(
        "warning",
        at.owner,
        tap,
        f"MTU {tap.mtu}, but {at.machine or at.guest.name} sends and expects {nic.mtu}",
        evidence=(
            _mtu_evidence("MTU of the tap", tap),
            _mtu_evidence(f"MTU of {at.guest.name} {nic.name}", nic),
        ),
        why=f"Packets to the guest above {_forwarded_bytes(tap.mtu)} bytes are dropped without a "
        f"counter (the MTU of the tap and 4 bytes, room for a VLAN tag). {TRANSFERS_HANG} "
        f"{GSO_NOTE}",
        fixes=fixes,
    )


def _mtu_evidence(what: str, link: Link) -> Evidence:
    return Evidence(what, str(link.mtu), f"ip link show dev {link.name}")


def _set_mtu_fix(link: Link, size: int, title: str, note: str = "") -> Fix:
    change, undo = with_undo(
        ("ip", "link", "set", "dev", link.name, "mtu"), str(size), str(link.mtu)
    )
    return Fix("here", title, (change,), False, (undo,), note)


def _fixes_in_the_guest(at: Attachment, size: int) -> Iterator[Fix]:
    for fix in mtu_fixes(at.guest, at.nic, size):
        title = fix.title if fix.persistent else f"Set MTU {size} on {at.nic.name}"
        yield replace(fix, where="peer", title=title, peer=at.guest.name)
        # else see bridge_uplink_has_a_smaller_mtu, and mtu_differs_in_one_subnet


def _may_differ(hosts: Sequence[HostFacts]) -> bool:
    """A tap has a smaller MTU than a NIC of another host."""
    if len(hosts) < 2:
        return False
    mtus_of_taps = [tap.mtu for tap in _links_of_taps(hosts)]
    if not mtus_of_taps:
        return False
    mtus_of_nics = [nic.mtu for host in hosts for nic in host.links if nic.bus is not None]
    return max(mtus_of_nics, default=0) > min(mtus_of_taps)


def _links_of_taps(hosts: Sequence[HostFacts]) -> Iterator[Link]:
    for host in hosts:
        for kind in TAPS:
            yield from host.links_by_kind.get(kind, ())


def _taps(hosts: Sequence[HostFacts]) -> tuple[Attachment, ...]:
    """Taps with their watched guests, also on a switch that is no bridge of the kernel, as Open
    vSwitch."""
    return _found_taps(tuple(hosts))


@once_per_diagnosis
def _found_taps(hosts: tuple[HostFacts, ...]) -> tuple[Attachment, ...]:
    """Computed once for both rules of a diagnosis: hosts are compared by identity."""
    found = []
    by_name = {host.name: host for host in hosts}
    for pair in pairs([host.snapshot for host in hosts]).taps:
        guest, owner = by_name[pair.guest.host], by_name[pair.tap.host]
        tap, nic = owner.snapshot.links[pair.tap.ifindex], guest.snapshot.links[pair.guest.ifindex]
        if tap.kind in TAPS and mtu_of(tap) is not None:
            found.append(Attachment(guest, nic, owner, tap, pair.machine))
    return tuple(found)


def _share_a_subnet(at: Attachment) -> bool:
    """The bridge of the tap has an address in the subnet of the guest's NIC, and the smaller
    MTU."""
    found = outer_port(at.tap, at.owner.snapshot.links)
    if found is None:
        return False
    _, bridge = found
    if bridge.mtu >= at.nic.mtu:
        return False
    return not _subnets(bridge).isdisjoint(_subnets(at.nic))


def _subnets(link: Link) -> set[Network]:
    return {network for network in map(address_network, link.addresses) if network is not None}


def _uplinks(host: HostFacts, tap: Link) -> Iterator[Link]:
    """NICs by which the frames of a tap leave the host."""
    found = outer_port(tap, host.snapshot.links)
    if found is not None:
        _, bridge = found
        for link in devices_below(bridge, host.snapshot.links):
            if link.ifindex != tap.ifindex:
                yield link
        return
    lower = host.link_at(tap.lower)
    if tap.kind == "macvtap" and lower is not None:
        yield lower


def _raised(at: Attachment) -> Iterator[Fix]:
    """The tap, and what is between it and the bridge of its network, get the MTU of the guest: now,
    and where it is created."""
    size = at.nic.mtu
    low = [link for link in _way_to_the_bridge(at.owner, at.tap) if link.mtu < size]
    if not all(can_have_mtu(link, size) for link in low):
        return
    yield _raised_now(low, size)
    proxmox = PROXMOX_VM_TAP.fullmatch(at.tap.name)
    if proxmox is not None and is_proxmox(at.owner):
        note = (
            f"mtu=1 is that of the bridge: set that to {size} first. Repeat the other options "
            f"of net{proxmox[2]}."
        )
        show = command("qm", "config", proxmox[1])
        yield Fix("proxmox", "Store mtu=1 in the configuration of the VM", (show,), True, (), note)
    elif at.machine is not None:
        yield machine_fix(
            at.owner,
            at.machine,
            "Store in the configuration of the guest",
            nic=mac_or_placeholder(at.nic),
            domain=f"<mtu size='{size}'/>",
            qemu=f"host_mtu={size} of its -device",
            note="Then shut the guest down and start it.",
        )


def _raised_now(links: Sequence[Link], size: int) -> Fix:
    changes = []
    undo = []
    for link in links:
        set_mtu = ("ip", "link", "set", "dev", link.name, "mtu")
        changes.append(command(*set_mtu, str(size)))
        undo.append(command(*set_mtu, str(link.mtu)))
    title = f"Set MTU {size} on {' and '.join(link.name for link in links)}"
    note = "Until the guest is started again."
    return Fix("here", title, tuple(changes), False, tuple(undo), note)


def _way_to_the_bridge(host: HostFacts, tap: Link) -> Iterator[Link]:
    """The tap, and the veths of the inner bridges that Proxmox puts before the bridge of its
    network."""
    links = host.snapshot.links
    yield tap
    outer = outer_port(tap, links)
    if outer is None:
        return
    bridge = bridge_of(tap, links)
    while bridge is not None and bridge is not outer[1]:
        inner = next(port for port in host.ports_of(bridge) if veth_peer(port, links) is not None)
        peer = veth_peer(inner, links)
        if peer is None:
            return
        yield inner
        yield peer
        bridge = bridge_of(peer, links)


def _lowered(at: Attachment, size: int) -> Iterator[Fix]:
    """The network behind the bridge has a smaller MTU than the guest: the guest gets it, and the
    tap if it is lower."""
    if at.tap.mtu < size:
        yield _set_mtu_fix(at.tap, size, f"Set MTU {size} on {at.tap.name}")
    for fix in _fixes_in_the_guest(at, size):
        note = f"The way out of the host has MTU {size}. {fix.note}".rstrip()
        yield replace(fix, note=note)


# ------------------------------------------------------------------------------------------ bridges


class Inner(NamedTuple):
    """A guest or container on a port of a bridge, whose MTU is known."""

    port: Link
    mtu: int
    at: Attachment | None
    """A watched guest, or container or network namespace."""

    @property
    def name(self) -> str:
        if self.at is None:
            return self.port.name
        return self.at.guest.name


@pair_rule("warning", uses=("addresses", "forwarding", "threads"))
def bridge_uplink_has_a_smaller_mtu(hosts: Sequence[HostFacts]) -> Outcomes:
    """Guests or containers on a bridge use larger packets than the port by which the bridge leads
    out of the host.

    The bridge drops what is larger than the MTU of a port, does not report it and counts it
    nowhere. nictop compares the MTU of containers (the other end of their veth) and of watched
    guests with that of NICs, VLANs, bonds and VXLAN or gretap links that are ports of the same
    bridge.

    Not reported: guests that are not watched, as their tap may have a larger MTU on purpose, and
    guests in a subnet of the bridge, which another check compares.

    Sources: net/bridge/br_forward.c; ipspace/netlab#1985, canonical/lxd#18127 (review).
    """
    guests: dict[tuple[str, int], Attachment] = {}
    if _has_bridged_taps(hosts):
        guests = {(at.owner.name, at.tap.ifindex): at for at in _taps(hosts)}
    ends = far_ends(tuple(hosts))
    for host in hosts:
        for bridge in host.links_by_kind.get("bridge", ()):
            if not is_up(bridge):
                continue
            uplink = _smallest_uplink(host, bridge)
            if uplink is None:
                continue
            inner = _inner_ends(host, bridge, guests, ends)
            large = [end for end in inner if end.mtu > uplink.mtu]
            if large:
                yield _uplink_finding(host, bridge, uplink, large)


def _has_bridged_taps(hosts: Sequence[HostFacts]) -> bool:
    """With another host, which can be the guest."""
    if len(hosts) < 2:
        return False
    return any(tap.master is not None for tap in _links_of_taps(hosts))


def _smallest_uplink(host: HostFacts, bridge: Link) -> Link | None:
    uplinks = []
    for port in host.ports_of(bridge):
        is_working = is_up(port) and port.carrier is not False
        if is_working and _leads_out(host, port):
            uplinks.append(port)
    return min(uplinks, key=attrgetter("mtu"), default=None)


def _leads_out(host: HostFacts, port: Link) -> bool:
    if port.kind in LAYER_2_TUNNELS:
        return True
    if port.kind in ("veth", *TAPS):
        return False
    return next(iter(devices_below(port, host.snapshot.links)), None) is not None


def _inner_ends(
    host: HostFacts,
    bridge: Link,
    guests: Mapping[tuple[str, int], Attachment],
    ends: Mapping[EndKey, FarEnd],
) -> Iterator[Inner]:
    for port in host.ports_of(bridge):
        if not is_up(port) or _leads_to_a_bridge(host, port):
            continue
        at = guests.get((host.name, port.ifindex))
        if at is not None:
            if is_up(at.nic) and not _share_a_subnet(at):
                yield Inner(port, at.nic.mtu, at)
        elif (host.name, port.ifindex) in ends:
            far = ends[host.name, port.ifindex]
            if is_up(far.link):
                yield Inner(port, far.link.mtu, Attachment(far.host, far.link, host, port))
        elif port.kind == "veth":
            mtu = _mtu_of_other_end(host, port, ends)
            if mtu:
                yield Inner(port, mtu, None)


def _leads_to_a_bridge(host: HostFacts, port: Link) -> bool:
    """The other end of the veth is a port as well."""
    other = veth_peer(port, host.snapshot.links)
    return other is not None and other.master is not None


def _uplink_finding(host: HostFacts, bridge: Link, uplink: Link, large: Sequence[Inner]) -> Finding:
    size = max(end.mtu for end in large)
    shown = large[:MAX_SHOWN]
    names = ", ".join(end.name for end in shown)
    ends = (Evidence(f"MTU behind {end.port.name}", str(end.mtu), "RTM_GETLINK") for end in shown)
    return link_finding(
        "warning",
        host,
        bridge,
        f"{names} with MTU {size}, but {uplink.mtu} of its uplink {uplink.name}",
        evidence=(*ends, _mtu_evidence(f"MTU of {uplink.name}", uplink)),
        why=f"The bridge drops packets above {_forwarded_bytes(uplink.mtu)} bytes for the network "
        f"behind {uplink.name} ({VLAN_NOTE}), and neither reports nor counts them. "
        f"{TRANSFERS_HANG}",
        fixes=tuple(_uplink_fixes(host, uplink, large, size)),
    )


def _uplink_fixes(
    host: HostFacts, uplink: Link, large: Sequence[Inner], size: int
) -> Iterator[Fix]:
    watched = [end.at for end in large if end.at is not None]
    for at in watched:
        yield from _fixes_in_the_guest(at, uplink.mtu)
    unwatched = [end.port for end in large if end.at is None]
    if unwatched and uplink.mtu >= smallest_mtu(is_ipv6=False):
        kinds = {_kind_of_other_end(host, port) for port in unwatched}
        what = "network namespaces" if kinds == {"namespace"} else "containers"
        note = "In what makes them, which sets both ends of their veths. Then start them again."
        yield Fix("here", f"Set MTU {uplink.mtu} for the {what}", (), True, note=note)
    if _underlay_carries(host, uplink, size) and can_have_mtu(uplink, size):
        note = "Only if every switch, tunnel and host behind it passes such packets."
        yield _set_mtu_fix(uplink, size, f"Or set MTU {size} on {uplink.name}", note)


def _underlay_carries(host: HostFacts, uplink: Link, size: int) -> bool:
    """What a tunnel sends for packets of this size fits into the MTU below it."""
    if uplink.kind not in LAYER_2_TUNNELS:
        return True
    below = underlay(uplink, host.snapshot.links)
    if below is None:
        return False
    return size + (overhead(uplink) or 0) <= below.mtu


# -------------------------------------------------------------------------------------------- veths


class VethEnds(NamedTuple):
    """A veth and its other end."""

    link: Link
    other: Link | None
    """None: not in this network namespace, nor of a watched host."""
    name: str
    mtu: int
    """Name and MTU of the other end."""
    owner: HostFacts | None = None
    """The other watched host that has it."""

    @property
    def smaller(self) -> int:
        return min(self.link.mtu, self.mtu)

    @property
    def larger(self) -> int:
        return max(self.link.mtu, self.mtu)


@pair_rule("warning", uses=("counters.links",))
def veth_ends_have_different_mtus(hosts: Sequence[HostFacts]) -> Outcomes:
    """The two ends of a veth have different MTUs: the one with the smaller MTU drops larger frames
    of the other.

    nictop reads the MTU of the other end, also in another network namespace, as that of a container
    (root); if that is watched as well, its own. What the ends have dropped is in the evidence
    (rx_dropped of the smaller end, tx_dropped of the larger one): since the link was made, with any
    MTU and for any reason. It is a warning also with 0: the kernel drops each larger frame but
    those of segmentation offload, as a path test finds (path_mtu_black_hole).

    Not reported: inside a container, links that are down, and a container with the smaller MTU as
    long as nothing is dropped: LXD does that on purpose.

    Sources: net/core/dev.c, drivers/net/veth.c; ipspace/netlab#1985, canonical/lxd#11919 and
    #18127.
    """
    watched = far_ends(tuple(hosts))
    for host in hosts:
        if host.is_container:
            continue
        for ends in _different_ends(host, watched):
            position, counter = _drop_counter(ends)
            rate = host.known_link_rate(ends.link, attrgetter(counter))
            is_smaller_outside = ends.link.mtu < ends.mtu
            if is_smaller_outside or rate >= MIN_DROPS_PER_SECOND:
                dropped = _count(host, ends.link, position)
                yield _veth_finding(host, ends, counter, dropped, watched)


def _forwarded_bytes(mtu: int) -> int:
    """Largest IP packet without a VLAN tag that the kernel hands over to a device of this MTU."""
    return mtu + VLAN_TAG_BYTES


def _drop_counter(ends: VethEnds) -> tuple[int, str]:
    """(position, name) of the counter of `link` that counts the large frames."""
    if ends.mtu > ends.link.mtu:
        return RX_DROPPED, "rx_dropped"
    return TX_DROPPED, "tx_dropped"


def _veth_finding(
    host: HostFacts,
    ends: VethEnds,
    counter: str,
    dropped: int,
    watched: Mapping[EndKey, FarEnd],
) -> Finding:
    link = ends.link
    evidence = [_mtu_evidence("MTU", link), _other_mtu_evidence(ends)]
    if dropped:
        text = f"{units.count(dropped)} {SINCE_MADE}"
        evidence.append(Evidence(counter, text, f"ip -s link show dev {link.name}"))
    return link_finding(
        "warning",
        host,
        link,
        f"MTU {link.mtu}, but {ends.mtu} at its other end ({_other_end_text(host, ends)})",
        evidence=tuple(evidence),
        why=f"Packets above {_forwarded_bytes(ends.smaller)} bytes from the larger end are dropped "
        f"at the smaller one ({VLAN_NOTE}). {_lost_there(ends)}",
        fixes=_equal_ends(host, ends, watched),
        also=[] if ends.other is None else [(ends.owner or host, ends.other)],
    )


def _other_end_text(host: HostFacts, ends: VethEnds) -> str:
    """``lab0 on netns:b``, ``eth0 in container web1``"""
    if ends.owner is not None:
        return f"{ends.name} on {ends.owner.name}"
    if ends.other is not None:
        return ends.name
    place = place_of_other_end(host, ends.link) or "another network namespace"
    return f"{ends.name} in {place}"


def _other_mtu_evidence(ends: VethEnds) -> Evidence:
    if ends.other is None:
        source = "RTM_GETLINK, IFLA_TARGET_NETNSID"
        return Evidence(f"MTU of {ends.name}", str(ends.mtu), source)
    name = ends.name if ends.owner is None else f"{ends.owner.name} {ends.name}"
    return _mtu_evidence(f"MTU of {name}", ends.other)


def _lost_there(ends: VethEnds) -> str:
    """Where TCP ends at the smaller end, it announces an MSS that fits (RFC 9293 section 3.7.1)."""
    link = ends.link
    is_smaller = link.mtu < ends.mtu
    if is_smaller and (link.master is not None or not has_global_address(link)):
        return f"{TRANSFERS_HANG} {GSO_NOTE}"
    return ANNOUNCED_MSS


def _different_ends(host: HostFacts, watched: Mapping[EndKey, FarEnd]) -> Iterator[VethEnds]:
    """Each pair once; of two ends in this namespace, `link` is the smaller one."""
    for link in host.links_by_kind.get("veth", ()):
        if not is_up(link):
            continue
        other = veth_peer(link, host.snapshot.links)
        far = watched.get((host.name, link.ifindex))
        if other is not None:
            if is_up(other) and link.mtu < other.mtu:
                yield VethEnds(link, other, other.name, other.mtu)
        elif far is not None:
            if is_up(far.link) and far.link.mtu != link.mtu:
                yield VethEnds(link, far.link, far.link.name, far.link.mtu, far.host)
        elif link.ifindex in host.snapshot.changes:
            continue  # its own MTU is newer than what the inventory has of the other end
        elif link.veth_peer is not None and link.veth_peer.mtu != link.mtu:
            yield VethEnds(link, None, link.veth_peer.name, link.veth_peer.mtu)


def _count(host: HostFacts, link: Link, position: int) -> int:
    totals = host.totals(link) or ()
    return totals[position] if len(totals) > position else 0


def _equal_ends(
    host: HostFacts, ends: VethEnds, watched: Mapping[EndKey, FarEnd]
) -> tuple[Fix, ...]:
    """The smaller end is raised, if what is behind it passes such frames; or the larger end, if
    nothing is behind it, is lowered: behind another one the frames would be dropped there."""
    link, size = ends.link, ends.larger
    is_smaller = link.mtu < ends.mtu
    if is_smaller and can_have_mtu(link, size) and _passes(host, link, size, watched):
        note = "" if ends.other is not None else _maker_note(host, link)
        raised = _set_mtu_fix(link, size, f"Set MTU {size} on {link.name}", note)
        return (raised, *_lowered_end(ends))
    if not is_smaller and ends.owner is not None and ends.other is not None:
        far, owner = ends.other, ends.owner
        if can_have_mtu(far, size) and _passes(owner, far, size, watched):
            fix = _set_mtu_fix(far, size, f"Set MTU {size} on {far.name}")
            return (replace(fix, where="peer", peer=owner.name), *_lowered_end(ends))
    return (_by_hand(host, ends, ends.smaller if is_smaller else size),)


def _lowered_end(ends: VethEnds) -> Iterator[Fix]:
    """Of two hosts that are joined by a veth: which of the MTUs is meant is not known."""
    link, other, owner = ends.link, ends.other, ends.owner
    if other is None or owner is None:
        return
    size = ends.smaller
    if link.mtu > size and link.master is None and can_have_mtu(link, size):
        yield as_alternative(_set_mtu_fix(link, size, f"Set MTU {size} on {link.name}"))
    if other.mtu > size and other.master is None and can_have_mtu(other, size):
        title = f"Set MTU {size} on {other.name}"
        fix = replace(_set_mtu_fix(other, size, title), where="peer", peer=owner.name)
        yield as_alternative(fix)


def _by_hand(host: HostFacts, ends: VethEnds, wanted: int) -> Fix:
    """Until the next reboot where both ends are known, else in the configuration of what makes
    them."""
    title = f"Set MTU {wanted} on {ends.name}"
    if ends.owner is not None:
        if ends.other is not None and can_have_mtu(ends.other, wanted):
            fix = _set_mtu_fix(ends.other, wanted, title, SAME_MTU_NOTE)
            return replace(fix, where="peer", peer=ends.owner.name)
        return Fix("peer", title, (), note=SAME_MTU_NOTE, peer=ends.owner.name)
    if ends.other is not None:
        both = f"Set MTU {wanted} on both ends"
        differing = [link for link in (ends.link, ends.other) if link.mtu != wanted]
        if not all(can_have_mtu(link, wanted) for link in differing):
            return Fix("here", both, (), note=SAME_MTU_NOTE)
        fixes = [_set_mtu_fix(link, wanted, both) for link in differing]
        return one_fix(both, fixes, SAME_MTU_NOTE)
    if _kind_of_other_end(host, ends.link) == "container":
        note = f"In the configuration of what makes the container: {SAME_MTU_NOTE}"
        return Fix("here", f"Set MTU {wanted} in the container", (), note=note)
    place = place_of_other_end(host, ends.link)
    return Fix("other end", title, (), note=SAME_MTU_NOTE, peer=place)


def _maker_note(host: HostFacts, link: Link) -> str:
    if _kind_of_other_end(host, link) == "container":
        return "What makes the container sets the MTU of both ends: set it there, too."
    return "What makes the veth may set the MTU of both ends: then set it there, too."


def _kind_of_other_end(host: HostFacts, link: Link) -> GuestKind | None:
    """None: not known."""
    owner = host.snapshot.owners.of_link(link.ifindex)
    return None if owner is None else owner.kind


def _passes(host: HostFacts, link: Link, size: int, watched: Mapping[EndKey, FarEnd]) -> bool:
    """The other ports of its bridge have such an MTU, or their own other ends do and they can be
    raised as well."""
    bridge = bridge_of(link, host.snapshot.links)
    if bridge is None:
        return True
    for port in host.ports_of(bridge):
        mtu = max(port.mtu, _mtu_of_other_end(host, port, watched))
        if port is not link and mtu < size:
            return False
    return True


def _mtu_of_other_end(host: HostFacts, link: Link, watched: Mapping[EndKey, FarEnd]) -> int:
    """0: not a veth, or not known."""
    far = watched.get((host.name, link.ifindex))
    if far is not None:
        return far.link.mtu
    other = veth_peer(link, host.snapshot.links) or link.veth_peer
    if other is None:
        return 0
    return other.mtu
