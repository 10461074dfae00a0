"""PVIDs at both ends of a connection between two bridges with VLAN filtering: a veth, or the
uplinks of two hosts.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.bridges import (
    bridge_of,
    default_pvid,
    filters_vlans,
    find_vlan,
    pvid,
    veth_peer,
    vlans_text,
)
from nictop.model.devices.subnets import vlan_id
from nictop.model.snapshot import is_same_machine
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import BridgeVlan, ForwardingEntry, Link
from nictop.rules.bridges.attachments import has_filtering_bridge, uplinks, vlans_of
from nictop.rules.bridges.commands import restored, stored_fixes, vlan_command
from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType, on_peer
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding


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


@pair_rule("warning", needs=("bridge_vlans",), uses=("forwarding",))
def pvids_of_connected_ports_differ(hosts: Sequence[HostFacts]) -> Outcomes:
    """Two bridges with VLAN filtering are connected, and their ports have different PVIDs: frames
    without a tag change the VLAN.

    nictop compares the PVIDs at both ends of a veth, in one network namespace or between two
    watched ones; and of the uplinks of two watched hosts if one bridge has learned, in the PVID of
    its uplink, an address that is in another VLAN on the other host. Warning; info for uplinks if
    neither has the other's PVID as a tagged VLAN: if the switch puts both in one VLAN, only the
    numbers differ.

    Not reported for a veth: one end has no PVID, and the other the default PVID of its bridge.

    Sources: bridge(8) "pvid", "bridge fdb show"; kernel net/bridge/br_vlan.c (br_allowed_ingress).
    """
    if not any(map(has_filtering_bridge, hosts)):
        return
    for end, other in _connected_by_veth(hosts):
        if _pvids_differ(end, other):
            yield _pvid_finding("warning", end, other)
    yield from _uplink_pairs(hosts)


def _bridge_end(host: HostFacts, port: Link) -> BridgeEnd | None:
    """None: it is down, no port of a bridge with VLAN filtering, or its VLANs are not known."""
    bridge = bridge_of(port, host.snapshot.links)
    if bridge is None or not filters_vlans(bridge):
        return None
    if port.bridge_vlans is None or not is_up(port):
        return None
    return BridgeEnd(host, port, bridge, port.bridge_vlans)


# -------------------------------------------------------------------------------------------- veths


def _connected_by_veth(hosts: Sequence[HostFacts]) -> Iterator[tuple[BridgeEnd, BridgeEnd]]:
    """Both ends of each veth between two bridges."""
    outgoing: list[BridgeEnd] = []  # their other ends are in other network namespaces
    for host in hosts:
        for port in host.links:
            if port.kind != "veth" or port.lower is None:
                continue
            end = _bridge_end(host, port)
            if end is None:
                continue
            if port.lower_namespace is not None:
                outgoing.append(end)
                continue
            other = _other_end_here(host, port)
            if other is not None:
                yield end, other
    for number, end in enumerate(outgoing):
        for other in outgoing[number + 1 :]:
            if _are_peers(end, other):
                yield end, other


def _other_end_here(host: HostFacts, port: Link) -> BridgeEnd | None:
    """The other end in the same namespace; only of one of both ends, so that each veth is seen
    once."""
    peer = veth_peer(port, host.snapshot.links)
    if peer is None or peer.ifindex < port.ifindex:
        return None
    return _bridge_end(host, peer)


def _are_peers(end: BridgeEnd, other: BridgeEnd) -> bool:
    """Ends of one veth in two network namespaces of one machine."""
    if end.host is other.host:
        return False
    if end.port.lower != other.port.ifindex or other.port.lower != end.port.ifindex:
        return False
    return is_same_machine(end.host.snapshot, other.host.snapshot)


def _pvids_differ(end: BridgeEnd, other: BridgeEnd) -> bool:
    """False also if only one of them was set: the other has the default PVID, or none."""
    own, theirs = pvid(end.vlans), pvid(other.vlans)
    if own is None and other.has_default:
        return False
    if theirs is None and end.has_default:
        return False
    return own != theirs


# ------------------------------------------------------------------------------------------ uplinks


Homes = Mapping[str, Mapping[str, Sequence[tuple[int, BridgeEnd]]]]
"""Host → MAC address → (VLAN that it is in on this host, the only uplink of its bridge)."""


def _uplink_pairs(hosts: Sequence[HostFacts]) -> Iterator[Finding]:
    """Uplinks of two hosts, over which frames without a tag go from one VLAN to another."""
    filtering = [host for host in hosts if has_filtering_bridge(host)]
    if len(filtering) < 2:
        return
    homes = {host.name: _addresses_behind(host) for host in filtering}
    reported: set[frozenset[tuple[str, int]]] = set()
    for host in filtering:
        for entry, own, end in _learned_untagged(host):
            home = _home_of(entry, host, homes)
            if home is None:
                continue
            vlan, other = home
            pair = frozenset((end.key, other.key))
            if vlan != own and _is_sent_untagged(other, vlan) and pair not in reported:
                reported.add(pair)
                yield _pvid_finding(_severity_of_uplinks(end, other, own, vlan), end, other)


def _learned_untagged(host: HostFacts) -> Iterator[tuple[ForwardingEntry, int, BridgeEnd]]:
    """Addresses that uplinks have learned from frames without a tag, each with the VLAN."""
    ends = _uplink_ends(host)
    for entry in host.inventory.forwarding:
        end = ends.get(entry.ifindex)
        if end is not None and entry.vlan is not None and entry.vlan == pvid(end.vlans):
            yield entry, entry.vlan, end


def _uplink_ends(host: HostFacts) -> dict[int, BridgeEnd]:
    """ifindex → uplink of a bridge with VLAN filtering."""
    found = {}
    for bridge in _filtering_bridges(host):
        for port in uplinks(host, bridge):
            end = _bridge_end(host, port)
            if end is not None:
                found[port.ifindex] = end
    return found


def _filtering_bridges(host: HostFacts) -> list[Link]:
    return [link for link in host.links if link.kind == "bridge" and filters_vlans(link)]


def _home_of(entry: ForwardingEntry, host: HostFacts, homes: Homes) -> tuple[int, BridgeEnd] | None:
    """The only (VLAN, uplink) on other hosts behind which a learned address is."""
    found: list[tuple[int, BridgeEnd]] = []
    for name, addresses in homes.items():
        if name != host.name:
            found += addresses.get(entry.address, ())
    return found[0] if len(found) == 1 else None


def _is_sent_untagged(end: BridgeEnd, vlan: int) -> bool:
    sent = find_vlan(end.vlans, vlan)
    return sent is not None and sent.untagged


def _severity_of_uplinks(end: BridgeEnd, other: BridgeEnd, own: int, theirs: int) -> Severity:
    """Warning: the VLAN of one end is another network at the other end, which has it as a tagged
    VLAN."""
    for vlan in (find_vlan(end.vlans, theirs), find_vlan(other.vlans, own)):
        if vlan is not None and not vlan.untagged:
            return "warning"
    return "info"


def _addresses_behind(host: HostFacts) -> dict[str, list[tuple[int, BridgeEnd]]]:
    """One of `Homes`."""
    ends = _only_uplinks(host)
    found: dict[str, list[tuple[int, BridgeEnd]]] = {}
    for ifindex, end in ends.items():
        bridge = host.snapshot.links[ifindex]
        own = pvid(vlans_of(bridge))
        if own is not None and bridge.address and not _has_vlan_links(host, bridge):
            found[bridge.address] = [(own, end)]
    for entry in host.inventory.forwarding:
        port = host.link_at(entry.ifindex)
        if port is None or port.master not in ends or entry.self_entry or entry.set_as:
            continue
        end = ends[port.master]
        if entry.vlan is not None and port.ifindex != end.port.ifindex:
            found.setdefault(entry.address, []).append((entry.vlan, end))
    return found


def _has_vlan_links(host: HostFacts, bridge: Link) -> bool:
    return any(link.lower == bridge.ifindex and vlan_id(link) for link in host.links)


def _only_uplinks(host: HostFacts) -> dict[int, BridgeEnd]:
    """ifindex of a bridge with VLAN filtering that has one uplink → that uplink."""
    found = {}
    for bridge in _filtering_bridges(host):
        ports = uplinks(host, bridge)
        end = _bridge_end(host, ports[0]) if len(ports) == 1 else None
        if end is not None:
            found[bridge.ifindex] = end
    return found


# ------------------------------------------------------------------------------------------ finding


def _pvid_finding(severity: Severity, end: BridgeEnd, other: BridgeEnd) -> Finding:
    """About the end whose PVID somebody has set, if only one is such."""
    if end.has_default and not other.has_default:
        end, other = other, end
    own, theirs = pvid(end.vlans), pvid(other.vlans)
    is_one_host = end.host is other.host
    place = other.port.name if is_one_host else f"{other.port.name} on {other.host.name}"
    why = "Frames without a tag leave one VLAN and arrive in the other."
    if severity == "info":
        why += " If both are one network, only the numbers differ."
    if own is None or theirs is None:
        why = "Frames without a tag are dropped at the end without a PVID."
    there = _set_pvid(other, own, "here" if is_one_host else "peer")
    return link_finding(
        severity,
        end.host,
        end.port,
        f"{_pvid_text(own)}, but {_pvid_text(theirs)} at the other end ({place})",
        evidence=(
            _pvid_evidence(end, is_one_host=is_one_host),
            _pvid_evidence(other, is_one_host=is_one_host),
        ),
        why=why,
        fixes=(*_set_pvid(end, theirs, "here"), *on_peer(other.host.name, there)),
    )


def _pvid_evidence(end: BridgeEnd, *, is_one_host: bool) -> Evidence:
    label = f"VLANs of {end.port.name}"
    if not is_one_host:
        label += f" on {end.host.name}"
    return Evidence(
        label,
        f"{vlans_text(end.vlans)} ({end.bridge.name})",
        f"bridge vlan show dev {end.port.name}",
    )


def _pvid_text(number: int | None) -> str:
    return "no PVID" if number is None else f"PVID {number}"


def _set_pvid(end: BridgeEnd, wanted: int | None, where: WhereToType) -> tuple[Fix, ...]:
    """The PVID of the other end; the old one is removed, because it would stay an untagged VLAN of
    the port."""
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
