"""VLANs between bridges: those of guests on the uplink, and the PVIDs at both ends of a connection.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nictop.model.devices.bridges import bridge_of, default_pvid, filters_vlans, find_vlan, pvid, veth_peer, vlans_text
from nictop.model.devices.subnets import vlan_id
from nictop.probe.records import BridgeVlan, Link
from nictop.rules.bridge.attachments import (
    Attachment,
    attachments,
    has_filtering_bridge,
    is_up,
    is_working,
    ports_of,
    uplinks,
)
from nictop.rules.bridge.commands import GUEST_KINDS, restored, stored_fixes, vlan_command
from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType, on_peer
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding

FAMILY: Final = "bridges and VLANs"
MAX_VLAN_COMMANDS = 16
MAX_NAMED_PORTS = 4


@pair_rule(FAMILY, "warning", needs=("bridge_vlans",), uses=("forwarding",))
def vlan_is_not_on_the_uplink(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VLAN of a guest is on its bridge port, but on no uplink of the bridge: it ends at this host.

    nictop compares the VLANs that guests use with those of the uplinks: ports with a device, bonds of such devices and
    tunnels, which are up and have a carrier. For a watched guest these are the VLANs of its VLAN links, and the PVID of
    its port if it sends frames without a tag; for another guest the PVID of its tap or veth, if it is not the default
    PVID of the bridge; for the host itself those of VLAN links above the bridge. Warning: no other port has the VLAN.
    Info: other ports of the bridge have it, as in an internal network.

    Not reported: bridges without an uplink, VLANs in which the host itself has an address on the bridge, and VLANs that
    lead to another bridge over a veth.

    Sources: bridge(8) "bridge vlan"; Proxmox VE Network Configuration ("VLAN awareness", bridge-vids).
    """
    if not any(map(has_filtering_bridge, hosts)):
        return
    by_port = {(at.owner.name, at.aware.port.ifindex): at for at in attachments(hosts) if at.aware is not None}
    for host in hosts:
        for bridge in host.links:
            if bridge.kind == "bridge" and filters_vlans(bridge):
                yield from _missing_on_uplinks(host, bridge, by_port)


def _missing_on_uplinks(host: HostFacts, bridge: Link, by_port: dict[tuple[str, int], Attachment]) -> Iterator[Finding]:
    leading = uplinks(host, bridge)
    if not leading or any(one.bridge_vlans is None for one in leading):
        return
    outside = {one.ifindex for one in leading}
    inner = [port for port in ports_of(host, bridge) if port.ifindex not in outside and is_working(port)]
    used: dict[int, list[Link]] = {}
    for port in inner:
        for number in _used_vlans(port, bridge, by_port.get((host.name, port.ifindex))):
            used.setdefault(number, []).append(port)
    own_links = {
        vid: link
        for link in host.links
        if link.lower == bridge.ifindex and link.lower_namespace is None and is_up(link) and (vid := vlan_id(link))
    }
    routed = _routed_vlans(bridge, own_links)
    for number, link in own_links.items():
        if not any(find_vlan(port.bridge_vlans or (), number) for port in inner):
            routed.discard(number)
            used[number] = [link]
    trunks = [port for port in inner if _leads_to_another_bridge(host, port)]
    missing = {
        number: ports
        for number, ports in sorted(used.items())
        if number not in routed
        and not any(find_vlan(one.bridge_vlans or (), number) for one in leading)
        and not any(find_vlan(one.bridge_vlans or (), number) for one in trunks if one not in ports)
    }
    if not missing:
        return
    uplink, own = leading[0], leading[0].bridge_vlans or ()
    users = list({port.ifindex: port for ports in missing.values() for port in ports}.values())
    shown = ", ".join(user.name for user in users[:MAX_NAMED_PORTS]) + (" …" if len(users) > MAX_NAMED_PORTS else "")
    numbers = list(missing)
    word = f"VLAN {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} VLANs"
    alone = any(len(ports) == 1 for ports in missing.values())
    listed = numbers[:MAX_VLAN_COMMANDS]
    stored = stored_fixes(host, uplink, numbers[0]) if len(numbers) == 1 else ()
    more = f"{len(numbers) - MAX_VLAN_COMMANDS} more are not listed." if len(numbers) > MAX_VLAN_COMMANDS else ""
    yield link_finding(
        "warning" if alone else "info",
        host,
        uplink,
        f"{word} of {shown} missing on this uplink of {bridge.name}",
        evidence=(
            *(_user_evidence(port) for port in users[:MAX_NAMED_PORTS]),
            *(
                Evidence(
                    f"VLANs of {one.name} (uplink)",
                    vlans_text(one.bridge_vlans or ()),
                    f"bridge vlan show dev {one.name}",
                )
                for one in leading[:MAX_NAMED_PORTS]
            ),
        ),
        why="Frames of the VLAN do not leave this host."
        + ("" if alone else " That is correct for a network that is internal to the host."),
        fixes=(
            Fix(
                "here",
                f"Add {word} to {uplink.name}" if len(numbers) == 1 else f"Add the VLANs to {uplink.name}",
                tuple(vlan_command("add", uplink, number) for number in listed),
                False,
                tuple(restored(uplink, own, number) for number in listed),
                f"The switch port of {uplink.name} needs them, too. {more}".strip(),
            ),
            *stored,
        ),
    )


def _user_evidence(user: Link) -> Evidence:
    if user.kind == "vlan":
        return Evidence("VLAN link", f"{user.name} (VLAN {vlan_id(user)})", f"ip -d link show {user.name}")
    return Evidence(f"VLANs of {user.name}", vlans_text(user.bridge_vlans or ()), f"bridge vlan show dev {user.name}")


def _used_vlans(port: Link, bridge: Link, at: Attachment | None) -> Iterable[int]:
    vlans = port.bridge_vlans or ()
    if at is not None:
        return [number for number in sorted(at.vlans) if find_vlan(vlans, number)]
    own = pvid(vlans)
    return [own] if own is not None and own != default_pvid(bridge) and port.kind in GUEST_KINDS else []


def _routed_vlans(bridge: Link, own_links: Mapping[int, Link]) -> set[int]:
    """VLANs in which the host has an address on the bridge: it may be their router."""
    found = {number for number, link in own_links.items() if link.addresses}
    own = pvid(bridge.bridge_vlans or ())
    if own is not None and any(one.scope == "global" for one in bridge.addresses):
        found.add(own)
    return found


def _leads_to_another_bridge(host: HostFacts, port: Link) -> bool:
    peer = veth_peer(port, host.snapshot.links)
    above = bridge_of(peer, host.snapshot.links) if peer is not None else None
    return above is not None and filters_vlans(above)


# ---------------------------------------------------------------------------------------------------------- PVIDs


@dataclass(frozen=True, eq=False)
class BridgeEnd:
    """A port of a bridge with VLAN filtering at one end of a connection between two bridges."""

    host: HostFacts
    port: Link
    bridge: Link
    vlans: Sequence[BridgeVlan]

    @property
    def key(self) -> tuple[str, int]:
        return self.host.name, self.port.ifindex

    @property
    def has_default(self) -> bool:
        """Its PVID is that of new ports."""
        return pvid(self.vlans) == default_pvid(self.bridge)


@pair_rule(FAMILY, "warning", needs=("bridge_vlans",), uses=("forwarding",))
def pvids_of_connected_ports_differ(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two bridges with VLAN filtering are connected, and their ports have different PVIDs: frames without a tag change
    the VLAN.

    nictop compares the PVIDs at both ends of a veth, in one network namespace or between two watched ones; and of the
    uplinks of two watched hosts if one bridge has learned, in the PVID of its uplink, an address that is in another
    VLAN on the other host. Warning; info for uplinks if neither has the other's PVID as a tagged VLAN: if the switch
    puts both in one VLAN, only the numbers differ.

    Not reported for a veth: one end has no PVID, and the other the default PVID of its bridge.

    Sources: bridge(8) "pvid", "bridge fdb show"; kernel net/bridge/br_vlan.c (br_allowed_ingress).
    """
    if not any(map(has_filtering_bridge, hosts)):
        return
    yield from _veths(hosts)
    yield from _uplink_pairs(hosts)


def _end(host: HostFacts, port: Link) -> BridgeEnd | None:
    bridge = bridge_of(port, host.snapshot.links)
    if bridge is None or not filters_vlans(bridge) or port.bridge_vlans is None or not is_up(port):
        return None
    return BridgeEnd(host, port, bridge, port.bridge_vlans)


def _veths(hosts: Sequence[HostFacts]) -> Iterator[Finding]:
    foreign: list[BridgeEnd] = []
    for host in hosts:
        for port in host.links:
            end = _end(host, port) if port.kind == "veth" and port.lower is not None else None
            if end is None:
                continue
            if port.lower_namespace is not None:
                foreign.append(end)
                continue
            peer = veth_peer(port, host.snapshot.links)
            other = _end(host, peer) if peer is not None and peer.ifindex > port.ifindex else None
            if other is not None:
                yield from _veth_finding(end, other)
    for number, one in enumerate(foreign):
        for other in foreign[number + 1 :]:
            if _are_peers(one, other):
                yield from _veth_finding(one, other)


def _are_peers(one: BridgeEnd, other: BridgeEnd) -> bool:
    """Ends of one veth in two network namespaces of one machine."""
    if one.host is other.host or one.port.lower != other.port.ifindex or other.port.lower != one.port.ifindex:
        return False
    mine, theirs = one.host.snapshot.hello, other.host.snapshot.hello
    return mine is not None and theirs is not None and mine.boot_id == theirs.boot_id


def _veth_finding(one: BridgeEnd, other: BridgeEnd) -> Iterator[Finding]:
    mine, theirs = pvid(one.vlans), pvid(other.vlans)
    leftover = (mine is None and other.has_default) or (theirs is None and one.has_default)
    if mine != theirs and not leftover:
        yield _pvid_finding("warning", one, other)


def _uplink_pairs(hosts: Sequence[HostFacts]) -> Iterator[Finding]:
    homes = {host.name: _addresses_behind(host) for host in hosts if has_filtering_bridge(host)}
    if len(homes) < 2:
        return
    reported: set[frozenset[tuple[str, int]]] = set()
    for host in hosts:
        ends = _uplink_ends(host) if host.name in homes else {}
        for entry in host.inventory.forwarding if ends else ():
            one = ends.get(entry.ifindex)
            if one is None or entry.vlan is None or entry.vlan != pvid(one.vlans):
                continue
            found = [
                (number, end)
                for name, addresses in homes.items()
                if name != host.name
                for number, end in addresses.get(entry.address, ())
            ]
            if len(found) != 1:
                continue
            number, other = found[0]
            sent = find_vlan(other.vlans, number)
            pair = frozenset((one.key, other.key))
            if number == entry.vlan or sent is None or not sent.untagged or pair in reported:
                continue
            reported.add(pair)
            yield _pvid_finding(_mixed(one, other, entry.vlan, number), one, other)


def _uplink_ends(host: HostFacts) -> dict[int, BridgeEnd]:
    """ifindex → uplink of a bridge with VLAN filtering."""
    bridges = [link for link in host.links if link.kind == "bridge" and filters_vlans(link)]
    ends = [_end(host, port) for bridge in bridges for port in uplinks(host, bridge)]
    return {end.port.ifindex: end for end in ends if end is not None}


def _mixed(one: BridgeEnd, other: BridgeEnd, mine: int, theirs: int) -> Severity:
    """Whether the number of one network is that of another one at the other end."""
    tagged = [found for found in (find_vlan(one.vlans, theirs), find_vlan(other.vlans, mine)) if found is not None]
    return "warning" if any(not found.untagged for found in tagged) else "info"


def _addresses_behind(host: HostFacts) -> dict[str, list[tuple[int, BridgeEnd]]]:
    """MAC address → (VLAN that it is in on this host, the only uplink of its bridge)."""
    found: dict[str, list[tuple[int, BridgeEnd]]] = {}
    ends: dict[int, BridgeEnd] = {}
    for bridge in host.links:
        leading = uplinks(host, bridge) if bridge.kind == "bridge" and filters_vlans(bridge) else ()
        end = _end(host, leading[0]) if len(leading) == 1 else None
        if end is None:
            continue
        ends[bridge.ifindex] = end
        own = pvid(bridge.bridge_vlans or ())
        has_vlan_links = any(link.lower == bridge.ifindex and vlan_id(link) for link in host.links)
        if own is not None and bridge.address and not has_vlan_links:
            found[bridge.address] = [(own, end)]
    for entry in host.inventory.forwarding:
        port = host.snapshot.links.get(entry.ifindex)
        end = ends.get(port.master) if port is not None and port.master is not None else None
        if end is not None and entry.vlan is not None and entry.ifindex != end.port.ifindex and not entry.self_entry:
            found.setdefault(entry.address, []).append((entry.vlan, end))
    return found


def _pvid_finding(severity: Severity, one: BridgeEnd, other: BridgeEnd) -> Finding:
    if one.has_default and not other.has_default:
        one, other = other, one
    mine, theirs = pvid(one.vlans), pvid(other.vlans)
    there = other.port.name if one.host is other.host else f"{other.port.name} on {other.host.name}"
    return link_finding(
        severity,
        one.host,
        one.port,
        f"{_pvid_text(mine)}, but {_pvid_text(theirs)} at the other end ({there})",
        evidence=tuple(
            Evidence(
                f"VLANs of {end.port.name} on {end.host.name}"
                if one.host is not other.host
                else f"VLANs of {end.port.name}",
                f"{vlans_text(end.vlans)} ({end.bridge.name})",
                f"bridge vlan show dev {end.port.name}",
            )
            for end in (one, other)
        ),
        why="Frames without a tag leave one VLAN and arrive in the other."
        if mine is not None and theirs is not None
        else "Frames without a tag are dropped at the end without a PVID.",
        fixes=(
            *_set_pvid(one, theirs, "here"),
            *on_peer(other.host.name, _set_pvid(other, mine, "here" if one.host is other.host else "peer")),
        ),
    )


def _pvid_text(number: int | None) -> str:
    return "no PVID" if number is None else f"PVID {number}"


def _set_pvid(end: BridgeEnd, wanted: int | None, where: WhereToType) -> tuple[Fix, ...]:
    """The PVID of the other end; the old one is removed, because it would stay an untagged VLAN of the port."""
    if wanted is None:
        return ()
    old = pvid(end.vlans)
    commands = [vlan_command("add", end.port, wanted, "pvid", "untagged")]
    undo = [restored(end.port, end.vlans, wanted)]
    if old is not None:
        commands.append(vlan_command("del", end.port, old))
        undo.append(restored(end.port, end.vlans, old))
    now = Fix(where, f"Set PVID {wanted} of {end.port.name}", tuple(commands), False, tuple(undo))
    return now, *stored_fixes(end.host, end.port, wanted, where, access=True)
