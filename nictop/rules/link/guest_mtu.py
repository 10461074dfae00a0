"""Taps and veths whose two ends have different MTUs.

Reads nothing. Kernel: net/core/dev.c and include/linux/netdevice.h (____dev_forward_skb: a veth drops frames larger
than its MTU that its other end sent, and counts them in rx_dropped; the other end counts tx_dropped),
drivers/net/veth.c (veth_xmit), net/bridge/br_forward.c (br_dev_queue_push_xmit: a bridge drops frames larger than the
MTU of the port that they leave by, and counts nothing), drivers/net/tun.c (frames from the guest are not checked).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from nictop.model.devices.bridges import bridge_of, outer_port, veth_peer
from nictop.model.devices.pairs import pairs
from nictop.model.devices.tunnels import devices_below, overhead, underlay
from nictop.model.text import units
from nictop.model.text.ip_addresses import parse_network
from nictop.model.text.words import mtu_of
from nictop.probe.records import LINK_COUNTERS, Link
from nictop.rules.bridge.attachments import Attachment
from nictop.rules.bridge.commands import PROXMOX_VM_TAP, edit_domain, is_proxmox
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import can_have_mtu, mtu_fixes, smallest_mtu
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import link_finding, mac_or_placeholder
from nictop.rules.vf.facts import is_up

RX_DROPPED, TX_DROPPED = LINK_COUNTERS.index("rx_dropped"), LINK_COUNTERS.index("tx_dropped")
MIN_DROPS_PER_SECOND = 0.5
"""Mean over the window."""
LAYER_2_TUNNELS = ("vxlan", "geneve", "gretap", "ip6gretap")
TAPS = ("tun", "macvtap")
GSO_NOTE = "TCP may pass nevertheless, as long as segmentation offload hands over larger packets."


@pair_rule("link and path", "warning", uses=("addresses", "forwarding", "threads"))
def guest_mtu_exceeds_its_tap(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest has a larger MTU than the tap that its hypervisor gave it: large packets to it are dropped.

    nictop joins the tap of a watched hypervisor with the NIC of a watched guest and compares their MTUs. The bridge
    drops what is larger than the MTU of the tap, and counts it nowhere.

    Both must be watched and up. Not reported: a guest with the smaller MTU, which is usual in overlays; and if the NIC
    of the bridge has the smaller MTU as well, which another check reports.

    Sources: canonical/lxd#18006, ipspace/netlab#1985; net/bridge/br_forward.c.
    """
    if not _may_differ(hosts):
        return
    for at in _taps(hosts):
        tap, nic = at.tap, at.nic
        if not is_up(tap) or not is_up(nic) or nic.mtu <= tap.mtu:
            continue
        smallest = min((one.mtu for one in _uplinks(at.owner, tap)), default=nic.mtu)
        if smallest < nic.mtu and tap.kind != "macvtap":
            continue  # see bridge_uplink_has_a_smaller_mtu, and mtu_differs_in_one_subnet
        yield link_finding(
            "warning",
            at.owner,
            tap,
            f"MTU {tap.mtu}, but {at.machine or at.guest.name} sends and expects {nic.mtu}",
            evidence=(
                Evidence("MTU of the tap", str(tap.mtu), f"ip link show dev {tap.name}"),
                Evidence(f"MTU of {at.guest.name} {nic.name}", str(nic.mtu), f"ip link show dev {nic.name}"),
            ),
            why=f"Packets to the guest above {tap.mtu} bytes are dropped without a counter. Small packets pass: ping "
            f"and SSH work, large transfers hang. {GSO_NOTE}",
            fixes=tuple(_raised(at)) if smallest >= nic.mtu else tuple(_lowered(at, max(smallest, tap.mtu))),
        )


def _may_differ(hosts: Sequence[HostFacts]) -> bool:
    """A tap has a smaller MTU than a NIC of another host."""
    if len(hosts) < 2:
        return False
    taps = (one for host in hosts for kind in TAPS for one in host.links_by_kind.get(kind, ()))
    smallest = min((one.mtu for one in taps), default=None)
    if smallest is None:
        return False
    return any(one.mtu > smallest for host in hosts for one in host.links if one.bus is not None)


def _taps(hosts: Sequence[HostFacts]) -> tuple[Attachment, ...]:
    """Taps with their watched guests, also on a switch that is no bridge of the kernel, as Open vSwitch."""
    return _found_taps(tuple(hosts))


@lru_cache(maxsize=1)
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
    """The bridge of the tap has an address in the subnet of the guest's NIC, and the smaller MTU."""
    found = outer_port(at.tap, at.owner.snapshot.links)
    if found is None or found[1].mtu >= at.nic.mtu:
        return False
    ours, theirs = (
        {parse_network(f"{one.address}/{one.prefix_length}") for one in link.addresses} for link in (found[1], at.nic)
    )
    return bool((ours & theirs) - {None})


def _uplinks(host: HostFacts, tap: Link) -> Iterator[Link]:
    """NICs by which the frames of a tap leave the host."""
    found = outer_port(tap, host.snapshot.links)
    if found is not None:
        yield from (one for one in devices_below(found[1], host.snapshot.links) if one.ifindex != tap.ifindex)
    elif tap.kind == "macvtap" and tap.lower is not None and tap.lower in host.snapshot.links:
        yield host.snapshot.links[tap.lower]


def _raised(at: Attachment) -> Iterator[Fix]:
    """The tap, and what is between it and the bridge of its network, get the MTU of the guest: now, and where it is
    created."""
    tap, size = at.tap, at.nic.mtu
    low = [one for one in _way_to_the_bridge(at.owner, tap) if one.mtu < size]
    if not all(can_have_mtu(one, size) for one in low):
        return
    changes = [command("ip", "link", "set", "dev", one.name, "mtu", str(size)) for one in low]
    undo = [command("ip", "link", "set", "dev", one.name, "mtu", str(one.mtu)) for one in low]
    names = " and ".join(one.name for one in low)
    note = "Until the guest is started again."
    yield Fix("here", f"Set MTU {size} on {names}", tuple(changes), False, tuple(undo), note)
    proxmox = PROXMOX_VM_TAP.fullmatch(tap.name)
    if is_proxmox(at.owner) and proxmox is not None:
        note = f"mtu=1 is that of the bridge: set that to {size} first. Repeat the other options of net{proxmox[2]}."
        show = command("qm", "config", proxmox[1])
        yield Fix("proxmox", "Store mtu=1 in the configuration of the VM", (show,), True, (), note)
    elif at.machine is not None:
        note = f"In the <interface> with {mac_or_placeholder(at.nic)}: <mtu size='{size}'/>. Then restart the domain."
        yield Fix("libvirt", "Store in the domain", (edit_domain(at.machine),), True, (), note)


def _way_to_the_bridge(host: HostFacts, tap: Link) -> Iterator[Link]:
    """The tap, and the veths of the inner bridges that Proxmox puts before the bridge of its network."""
    links = host.snapshot.links
    outer = outer_port(tap, links)
    yield tap
    bridge = bridge_of(tap, links)
    while bridge is not None and outer is not None and bridge is not outer[1]:
        inner = next(one for one in host.ports[bridge.ifindex] if veth_peer(one, links) is not None)
        peer = veth_peer(inner, links)
        if peer is None:
            return
        yield inner
        yield peer
        bridge = bridge_of(peer, links)


def _lowered(at: Attachment, size: int) -> Iterator[Fix]:
    """The network behind the bridge has a smaller MTU than the guest: the guest gets it, and the tap if it is lower."""
    if at.tap.mtu < size:
        change, undo = with_undo(("ip", "link", "set", "dev", at.tap.name, "mtu"), str(size), str(at.tap.mtu))
        yield Fix("here", f"Set MTU {size} on {at.tap.name}", (change,), False, (undo,))
    for fix in mtu_fixes(at.guest, at.nic, size):
        note = f"The way out of the host has MTU {size}. {fix.note}".rstrip()
        yield replace(fix, where="peer", title=f"On {at.guest.name}: {fix.title}", note=note, peer=at.guest.name)


# ---------------------------------------------------------------------------------------------------------- bridges


class Inner(NamedTuple):
    """A guest or container on a port of a bridge, whose MTU is known."""

    port: Link
    mtu: int
    at: Attachment | None
    """A watched guest."""


@pair_rule("link and path", "warning", uses=("addresses", "forwarding", "threads"))
def bridge_uplink_has_a_smaller_mtu(hosts: Sequence[HostFacts]) -> Outcomes:
    """Guests or containers on a bridge use larger packets than the port by which the bridge leads out of the host.

    The bridge drops what is larger than the MTU of a port, does not report it and counts it nowhere. nictop compares
    the MTU of containers (the other end of their veth) and of watched guests with that of NICs, VLANs, bonds and VXLAN
    or gretap links that are ports of the same bridge.

    Not reported: guests that are not watched, as their tap may have a larger MTU on purpose, and guests in a subnet of
    the bridge, which another check compares.

    Sources: net/bridge/br_forward.c; ipspace/netlab#1985, canonical/lxd#18127 (review).
    """
    guests = {(at.owner.name, at.tap.ifindex): at for at in _taps(hosts)} if _has_bridged_taps(hosts) else {}
    for host in hosts:
        for bridge in host.links_by_kind.get("bridge", ()):
            uplink = _smallest_uplink(host, bridge) if is_up(bridge) else None
            if uplink is None:
                continue
            large = [one for one in _inner_ends(host, bridge, guests) if one.mtu > uplink.mtu]
            if large:
                yield _uplink_finding(host, bridge, uplink, large)


def _has_bridged_taps(hosts: Sequence[HostFacts]) -> bool:
    taps = (one for host in hosts for kind in TAPS for one in host.links_by_kind.get(kind, ()))
    return len(hosts) > 1 and any(one.master is not None for one in taps)


def _smallest_uplink(host: HostFacts, bridge: Link) -> Link | None:
    found = [one for one in host.ports.get(bridge.ifindex, ()) if is_up(one) and one.carrier is not False]
    return min((one for one in found if _leads_out(host, one)), key=lambda one: one.mtu, default=None)


def _leads_out(host: HostFacts, port: Link) -> bool:
    is_nic = port.kind not in ("veth", *TAPS) and any(True for _ in devices_below(port, host.snapshot.links))
    return is_nic or port.kind in LAYER_2_TUNNELS


def _inner_ends(host: HostFacts, bridge: Link, guests: Mapping[tuple[str, int], Attachment]) -> Iterator[Inner]:
    for port in host.ports.get(bridge.ifindex, ()):
        other = veth_peer(port, host.snapshot.links)
        at = guests.get((host.name, port.ifindex))
        if not is_up(port) or (other is not None and other.master is not None):
            continue
        if at is not None:
            if is_up(at.nic) and not _share_a_subnet(at):
                yield Inner(port, at.nic.mtu, at)
        elif port.kind == "veth":
            mtu = _mtu_of_other_end(host, port)
            if mtu:
                yield Inner(port, mtu, None)


def _uplink_finding(host: HostFacts, bridge: Link, uplink: Link, large: Sequence[Inner]) -> Finding:
    size = max(one.mtu for one in large)
    names = ", ".join(one.at.guest.name if one.at is not None else one.port.name for one in large[:3])
    return link_finding(
        "warning",
        host,
        bridge,
        f"{names} with MTU {size}, but {uplink.mtu} of its uplink {uplink.name}",
        evidence=(
            *(Evidence(f"MTU behind {one.port.name}", str(one.mtu), "RTM_GETLINK") for one in large[:3]),
            Evidence(f"MTU of {uplink.name}", str(uplink.mtu), f"ip link show dev {uplink.name}"),
        ),
        why=f"The bridge drops packets above {uplink.mtu} bytes for the network behind {uplink.name}, and neither "
        "reports nor counts them. Small packets pass: ping and SSH work, large transfers hang.",
        fixes=tuple(_uplink_fixes(host, uplink, large, size)),
    )


def _uplink_fixes(host: HostFacts, uplink: Link, large: Sequence[Inner], size: int) -> Iterator[Fix]:
    watched = [one.at for one in large if one.at is not None]
    for at in watched:
        for fix in mtu_fixes(at.guest, at.nic, uplink.mtu):
            yield replace(fix, where="peer", title=f"On {at.guest.name}: {fix.title}", peer=at.guest.name)
    if len(watched) < len(large) and uplink.mtu >= smallest_mtu(is_ipv6=False):
        note = "In what makes them, which sets both ends of their veths. Then start them again."
        yield Fix("here", f"Set MTU {uplink.mtu} for the containers", (), True, note=note)
    below = underlay(uplink, host.snapshot.links) if uplink.kind in LAYER_2_TUNNELS else None
    fits = uplink.kind not in LAYER_2_TUNNELS or (below is not None and size + (overhead(uplink) or 0) <= below.mtu)
    if fits and can_have_mtu(uplink, size):
        change, undo = with_undo(("ip", "link", "set", "dev", uplink.name, "mtu"), str(size), str(uplink.mtu))
        note = "Only if every switch, tunnel and host behind it passes such packets."
        yield Fix("here", f"Or set MTU {size} on {uplink.name}", (change,), False, (undo,), note)


# ------------------------------------------------------------------------------------------------------------ veths


class VethEnds(NamedTuple):
    """A veth and its other end."""

    link: Link
    other: Link | None
    """None: in another network namespace."""
    name: str
    mtu: int
    """Name and MTU of the other end."""

    @property
    def smaller(self) -> int:
        return min(self.link.mtu, self.mtu)

    @property
    def larger(self) -> int:
        return max(self.link.mtu, self.mtu)


@host_rule("link and path", "warning", uses=("counters.links",))
def veth_ends_have_different_mtus(host: HostFacts) -> Outcomes:
    """The two ends of a veth have different MTUs: the one with the smaller MTU drops larger frames of the other.

    nictop reads the MTU of the other end, also in the network namespace of a container (root). Warning: frames have
    been dropped between them (rx_dropped of the smaller end, tx_dropped of the larger one). Else info.

    Not reported: inside a container, links that are down, and a container with the smaller MTU as long as nothing is
    dropped: LXD does that on purpose.

    Sources: net/core/dev.c, drivers/net/veth.c; ipspace/netlab#1985, canonical/lxd#11919 and #18127.
    """
    if "container" in host.inventory.platform.roles:
        return
    for ends in _different_ends(host):
        link = ends.link
        position, counter = (RX_DROPPED, "rx_dropped") if ends.mtu > link.mtu else (TX_DROPPED, "tx_dropped")
        dropped = _count(host, link, position)
        if ends.mtu < link.mtu and (host.link_rate(link, attrgetter(counter)) or 0.0) < MIN_DROPS_PER_SECOND:
            continue
        place = "" if ends.other is not None else " in its container"
        counted = (Evidence(counter, units.count(dropped), f"ip -s link show dev {link.name}"),) if dropped else ()
        yield link_finding(
            "warning" if dropped else "info",
            host,
            link,
            f"MTU {link.mtu}, but {ends.mtu} at its other end ({ends.name}{place})",
            evidence=(
                Evidence("MTU", str(link.mtu), f"ip link show dev {link.name}"),
                Evidence(f"MTU of {ends.name}", str(ends.mtu), "RTM_GETLINK, IFLA_TARGET_NETNSID"),
                *counted,
            ),
            why=f"Frames above {ends.smaller} bytes from the larger end are dropped at the smaller one. Small packets "
            f"pass: ping and SSH work, large transfers hang. {GSO_NOTE}",
            fixes=(_equal_ends(host, ends),),
        )


def _different_ends(host: HostFacts) -> Iterator[VethEnds]:
    """Each pair once; of two ends in this namespace, `link` is the smaller one."""
    for link in host.links_by_kind.get("veth", ()):
        if not is_up(link):
            continue
        other = veth_peer(link, host.snapshot.links)
        if other is not None:
            if is_up(other) and link.mtu < other.mtu:
                yield VethEnds(link, other, other.name, other.mtu)
        elif link.veth_peer is not None and link.veth_peer.mtu != link.mtu:
            yield VethEnds(link, None, link.veth_peer.name, link.veth_peer.mtu)


def _count(host: HostFacts, link: Link, position: int) -> int:
    counters = host.snapshot.counters
    totals = counters.links.get(link.ifindex) if counters is not None else link.counters
    return totals[position] if totals is not None and len(totals) > position else 0


def _equal_ends(host: HostFacts, ends: VethEnds) -> Fix:
    """The smaller end is raised, if what is behind it passes such frames. Lowering one end alone would only move the
    place where they are dropped."""
    link, size = ends.link, ends.larger
    if link.mtu < ends.mtu and can_have_mtu(link, size) and _passes(host, link, size):
        change, undo = with_undo(("ip", "link", "set", "dev", link.name, "mtu"), str(size), str(link.mtu))
        note = "What makes the container sets the MTU of both ends: set it there, too."
        return Fix("here", f"Set MTU {size} on {link.name}", (change,), False, (undo,), note)
    place = "in the container" if ends.other is None else "on both ends"
    text = f"Set MTU {ends.smaller} {place}" if link.mtu < ends.mtu else f"Set MTU {size} {place}"
    note = "In the configuration of what makes the container: all links of a bridge need the same MTU."
    return Fix("here", text, (), True, note=note)


def _passes(host: HostFacts, link: Link, size: int) -> bool:
    """The other ports of its bridge have such an MTU, or their own other ends do and they can be raised as well."""
    above = bridge_of(link, host.snapshot.links)
    others = [one for one in host.ports.get(above.ifindex, ()) if one is not link] if above is not None else []
    return all(max(one.mtu, _mtu_of_other_end(host, one)) >= size for one in others)


def _mtu_of_other_end(host: HostFacts, link: Link) -> int:
    """0: not a veth, or not known."""
    other = veth_peer(link, host.snapshot.links)
    if other is not None:
        return other.mtu
    return link.veth_peer.mtu if link.veth_peer is not None else 0
