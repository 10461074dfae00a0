"""VLANs of guests that no uplink of their bridge passes on.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.model.devices.bridges import (
    bridge_of,
    default_pvid,
    filters_vlans,
    find_vlan,
    pvid,
    veth_peer,
    vlans_text,
)
from nictop.model.devices.links import has_global_address
from nictop.model.devices.subnets import vlan_id
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link
from nictop.rules.bridges.attachments import (
    Attachment,
    attachments,
    has_filtering_bridge,
    is_working,
    ports_of,
    uplinks,
    vlans_of,
)
from nictop.rules.bridges.commands import GUEST_KINDS, restored, stored_fixes, vlan_command
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding

MAX_VLAN_COMMANDS = 16
MAX_NAMED_PORTS = 4


@pair_rule("warning", needs=("bridge_vlans",), uses=("forwarding",))
def vlan_is_not_on_the_uplink(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VLAN of a guest is on its bridge port, but on no uplink of the bridge: it ends at this
    host.

    nictop compares the VLANs that guests use with those of the uplinks: ports with a device, bonds
    of such devices and tunnels, which are up and have a carrier. For a watched guest these are the
    VLANs of its VLAN links, and the PVID of its port if it sends frames without a tag; for another
    guest the PVID of its tap or veth, if it is not the default PVID of the bridge; for the host
    itself those of VLAN links above the bridge. Warning: no other port has the VLAN.
    Info: other ports of the bridge have it, as in an internal network.

    Not reported: bridges without an uplink, VLANs in which the host itself has an address on the
    bridge, and VLANs that lead to another bridge over a veth.

    Sources: bridge(8) "bridge vlan"; Proxmox VE Network Configuration ("VLAN awareness",
    bridge-vids).
    """
    if not any(map(has_filtering_bridge, hosts)):
        return
    watched = _watched_guests(hosts)
    for host in hosts:
        for bridge in host.links:
            if bridge.kind != "bridge" or not filters_vlans(bridge):
                continue
            outward = uplinks(host, bridge)
            missing = _missing_vlans(host, bridge, outward, watched)
            if missing:
                yield _missing_finding(host, bridge, outward, missing)


def _watched_guests(hosts: Sequence[HostFacts]) -> dict[tuple[str, int], Attachment]:
    """(host of the bridge, ifindex of the port) → the watched NIC that is connected to it."""
    found = {}
    for attachment in attachments(hosts):
        if attachment.aware is not None:
            found[attachment.owner.name, attachment.aware.port.ifindex] = attachment
    return found


# -------------------------------------------------------------------------- which VLANs are missing


def _missing_vlans(
    host: HostFacts,
    bridge: Link,
    outward: Sequence[Link],
    watched: Mapping[tuple[str, int], Attachment],
) -> dict[int, list[Link]]:
    """VLAN → the ports, or the VLAN link of the host, that use it, although no uplink has it."""
    if not outward or any(uplink.bridge_vlans is None for uplink in outward):
        return {}
    inner = _inner_ports(host, bridge, outward)
    used = _vlans_in_use(host, bridge, inner, watched)
    host_vlans = _vlan_links_above(host, bridge)
    routed = _routed_vlans(bridge, host_vlans)
    for vlan, link in host_vlans.items():
        if not _any_has_vlan(inner, vlan):  # no guest is behind it: the host wants it from outside
            routed.discard(vlan)
            used[vlan] = [link]
    trunks = [port for port in inner if _leads_to_another_bridge(host, port)]
    missing = {}
    for vlan, users in sorted(used.items()):
        ways_out = [*outward, *(trunk for trunk in trunks if trunk not in users)]
        if vlan not in routed and not _any_has_vlan(ways_out, vlan):
            missing[vlan] = users
    return missing


def _inner_ports(host: HostFacts, bridge: Link, outward: Sequence[Link]) -> list[Link]:
    """Working ports of the bridge that are no uplinks."""
    outside = {uplink.ifindex for uplink in outward}
    return [
        port for port in ports_of(host, bridge) if is_working(port) and port.ifindex not in outside
    ]


def _vlans_in_use(
    host: HostFacts,
    bridge: Link,
    ports: Sequence[Link],
    watched: Mapping[tuple[str, int], Attachment],
) -> dict[int, list[Link]]:
    """VLAN → the ports whose guests use it."""
    used: dict[int, list[Link]] = {}
    for port in ports:
        guest = watched.get((host.name, port.ifindex))
        vlans = _assumed_vlans(port, bridge) if guest is None else _vlans_of_guest(port, guest)
        for vlan in vlans:
            used.setdefault(vlan, []).append(port)
    return used


def _vlans_of_guest(port: Link, guest: Attachment) -> list[int]:
    return [vlan for vlan in sorted(guest.vlans) if _any_has_vlan([port], vlan)]


def _assumed_vlans(port: Link, bridge: Link) -> list[int]:
    """Of a guest that is not watched: the PVID of its port, if somebody has set it."""
    own = pvid(vlans_of(port))
    if own is None or own == default_pvid(bridge) or port.kind not in GUEST_KINDS:
        return []
    return [own]


def _vlan_links_above(host: HostFacts, bridge: Link) -> dict[int, Link]:
    """VLAN → the host's VLAN link above the bridge that is up."""
    found = {}
    for link in host.links:
        vlan = vlan_id(link)
        is_above = link.lower == bridge.ifindex and link.lower_namespace is None
        if vlan and is_above and is_up(link):
            found[vlan] = link
    return found


def _routed_vlans(bridge: Link, host_vlans: Mapping[int, Link]) -> set[int]:
    """VLANs in which the host has an address on the bridge: it may be their router."""
    found = {vlan for vlan, link in host_vlans.items() if link.addresses}
    own = pvid(vlans_of(bridge))
    if own is not None and has_global_address(bridge):
        found.add(own)
    return found


def _leads_to_another_bridge(host: HostFacts, port: Link) -> bool:
    """It is a veth, and its other end is a port of a bridge with VLAN filtering."""
    peer = veth_peer(port, host.snapshot.links)
    if peer is None:
        return False
    above = bridge_of(peer, host.snapshot.links)
    return above is not None and filters_vlans(above)


def _any_has_vlan(ports: Iterable[Link], vlan: int) -> bool:
    return any(find_vlan(vlans_of(port), vlan) for port in ports)


# ------------------------------------------------------------------------------------------ finding


@dataclass(frozen=True)
class _Wording:
    """How the missing VLANs and their users are called in the sentences of a finding."""

    vlans: str
    """``VLAN 20`` or ``3 VLANs``"""
    users: str
    command_object: str
    """``VLAN 20`` or ``the VLANs``: in the title of the fix."""
    not_listed: str
    """A sentence about those for which no command is shown, or empty."""


def _missing_finding(
    host: HostFacts, bridge: Link, outward: Sequence[Link], missing: Mapping[int, Sequence[Link]]
) -> Finding:
    uplink = outward[0]
    users = _distinct(missing.values())
    wording = _wording(list(missing), users)
    ends_here = any(len(ports) == 1 for ports in missing.values())
    why = f"Frames of the VLAN do not leave this host by {bridge.name}."
    if not ends_here:
        why += " That is correct for a network that is internal to the host."
    return link_finding(
        "warning" if ends_here else "info",
        host,
        uplink,
        f"{wording.vlans} of {wording.users} missing on this uplink of {bridge.name}",
        evidence=(
            *(_user_evidence(user) for user in users[:MAX_NAMED_PORTS]),
            *(_uplink_evidence(port) for port in outward[:MAX_NAMED_PORTS]),
        ),
        why=why,
        fixes=_uplink_fixes(host, uplink, list(missing), wording),
    )


def _distinct(groups: Iterable[Sequence[Link]]) -> list[Link]:
    """The links of all groups, each once."""
    found: dict[int, Link] = {}
    for links in groups:
        for link in links:
            found.setdefault(link.ifindex, link)
    return list(found.values())


def _wording(vlans: Sequence[int], users: Sequence[Link]) -> _Wording:
    names = ", ".join(user.name for user in users[:MAX_NAMED_PORTS])
    if len(users) > MAX_NAMED_PORTS:
        names += " …"
    if len(vlans) == 1:
        name = f"VLAN {vlans[0]}"
        return _Wording(name, names, name, "")
    left_out = len(vlans) - MAX_VLAN_COMMANDS
    not_listed = f"{left_out} more are not listed." if left_out > 0 else ""
    return _Wording(f"{len(vlans)} VLANs", names, "the VLANs", not_listed)


def _user_evidence(user: Link) -> Evidence:
    if user.kind == "vlan":
        return Evidence(
            "VLAN link", f"{user.name} (VLAN {vlan_id(user)})", f"ip -d link show {user.name}"
        )
    return Evidence(
        f"VLANs of {user.name}",
        vlans_text(vlans_of(user)),
        f"bridge vlan show dev {user.name}",
    )


def _uplink_evidence(uplink: Link) -> Evidence:
    vlans = vlans_text(vlans_of(uplink))
    return Evidence(
        f"VLANs of {uplink.name} (uplink)", vlans, f"bridge vlan show dev {uplink.name}"
    )


def _uplink_fixes(
    host: HostFacts, uplink: Link, vlans: Sequence[int], wording: _Wording
) -> tuple[Fix, ...]:
    listed = vlans[:MAX_VLAN_COMMANDS]
    old = vlans_of(uplink)
    now = Fix(
        "here",
        f"Add {wording.command_object} to {uplink.name}",
        tuple(vlan_command("add", uplink, vlan) for vlan in listed),
        False,
        tuple(restored(uplink, old, vlan) for vlan in listed),
        f"The switch port of {uplink.name} needs them, too. {wording.not_listed}".strip(),
    )
    if len(vlans) > 1:
        return (now,)
    return (now, *stored_fixes(host, uplink, vlans[0]))
