"""The VLANs that a guest or this host uses, and those of its bridge port.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.bridges import (
    AwarePort,
    default_pvid,
    filters_vlans,
    find_vlan,
    pvid,
    range_text,
    vlans_text,
)
from nictop.model.devices.links import has_global_address
from nictop.model.devices.subnets import vlan_id
from nictop.probe.records import Link
from nictop.rules.bridges.attachments import (
    Attachment,
    attachments,
    has_filtering_bridge,
    ports_of,
    vlan_protocol,
    vlans_of,
)
from nictop.rules.bridges.commands import (
    VLAN_PLACEHOLDER,
    port_fixes,
    restored,
    stored_fixes,
    vlan_command,
)
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import NEXT_ACTIVATION_NOTE, active_profile
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import is_up, link_finding, names_text

MAX_NAMED_PORTS = 6


@pair_rule("critical", needs=("bridge_vlans",), uses=("forwarding",))
def vlan_is_not_on_the_bridge_port(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest or container uses a VLAN that its bridge port does not have, or that leaves the port
    untagged.

    nictop compares the VLAN links on the guest's NIC with the VLANs of its port (RTM_GETLINK with
    RTEXT_FILTER_BRVLAN_COMPRESSED, as in bridge vlan show) on a bridge with vlan_filtering 1. Also
    reported: the guest sends frames without a tag, and the port has no PVID. The bridge drops such
    frames without counting them.

    The guest and the host of the bridge must be watched; they are joined by MAC address: of the
    tap, in QEMU's command line, or learned by the bridge; containers also by the ends of the veth.
    An inner bridge between tap and port (Proxmox: fwbr100i0) is passed. Not reported: VLAN links
    that are down, or of another protocol (802.1ad) than the bridge filters.

    Sources: bridge(8) "bridge vlan"; kernel Documentation/networking/bridge.rst,
    net/bridge/br_vlan.c (br_allowed_ingress, br_handle_vlan).
    """
    if not any(map(has_filtering_bridge, hosts)):
        return
    for at in attachments(hosts):
        if at.aware is None:
            continue
        for link in at.vlan_links:
            number = vlan_id(link)
            if number is None or vlan_protocol(link) != vlan_protocol(at.aware.bridge):
                continue
            entry = find_vlan(at.aware.vlans, number)
            if entry is None or entry.untagged:
                yield _vlan_finding(at, at.aware, link, number, is_member=entry is not None)
        if at.sends_untagged and pvid(at.aware.vlans) is None:
            yield _untagged_finding(at, at.aware)


def port_name(at: Attachment, aware: AwarePort) -> str:
    """``tap100i0``, ``tap100i0 on pve``"""
    return aware.port.name if at.guest is at.owner else f"{aware.port.name} on {at.owner.name}"


def port_evidence(at: Attachment, aware: AwarePort) -> tuple[Evidence, ...]:
    return (
        Evidence(
            "bridge port",
            f"{port_name(at, aware)}, port of {aware.bridge.name}",
            f"ip link show {aware.port.name}",
        ),
        Evidence(
            "VLANs of the port", vlans_text(aware.vlans), f"bridge vlan show dev {aware.port.name}"
        ),
    )


def _vlan_finding(
    at: Attachment, aware: AwarePort, link: Link, number: int, *, is_member: bool
) -> Finding:
    name = port_name(at, aware)
    fixes = port_fixes(at, number)
    if is_member:
        fixes += (_without_vlan_link(at, link),)
        title = f"VLAN {number} leaves its bridge port {name} untagged"
        why = (
            f"Frames to the guest have no tag, so that {at.base.name} receives them, not "
            f"{link.name}."
        )
    else:
        title = f"VLAN {number} is not on its bridge port {name}"
        why = (
            "The bridge drops frames of VLANs that the port does not have, in both directions, "
            "without counting them."
        )
    return link_finding(
        "critical",
        at.guest,
        link,
        title,
        evidence=(
            Evidence("VLAN link", f"{link.name} (VLAN {number})", f"ip -d link show {link.name}"),
            *port_evidence(at, aware),
        ),
        why=why,
        fixes=fixes,
    )


def _without_vlan_link(at: Attachment, link: Link) -> Fix:
    return Fix(
        "here",
        f"Use {at.base.name} without a VLAN link",
        (command("ip", "link", "del", "dev", link.name),),
        False,
        (),
        "Removes its addresses, too: add them to the link below, and remove the VLAN from the "
        "configuration.",
    )


def _untagged_finding(at: Attachment, aware: AwarePort) -> Finding:
    return link_finding(
        "critical",
        at.guest,
        at.nic,
        f"its bridge port {port_name(at, aware)} has no PVID",
        evidence=(
            Evidence("frames of", f"{at.base.name}: no tag", f"ip -d link show {at.base.name}"),
            *port_evidence(at, aware),
        ),
        why="The bridge drops received frames without a tag. Either the port needs a PVID, or the "
        "guest a VLAN link.",
        fixes=port_fixes(at, default_pvid(aware.bridge) or VLAN_PLACEHOLDER, access=True),
    )


@host_rule("critical", needs=("bridge_vlans",))
def vlan_is_not_on_the_bridge(host: HostFacts) -> Outcomes:
    """A VLAN link is above a bridge with VLAN filtering, and the bridge itself does not have this
    VLAN.

    nictop compares the VLAN links on a bridge with the VLANs of the bridge itself (bridge vlan show
    dev BRIDGE, set with "self"). The host is connected to the bridge like one more port: without
    the VLAN it receives and sends no frame of it. Critical if the link has an address, else a
    warning.

    Not reported: links that are down, or of another protocol (802.1ad) than the bridge filters.

    Sources: bridge(8) "bridge vlan … self"; kernel net/bridge/br_input.c (br_pass_frame_up).
    """
    for link in host.links:
        number = vlan_id(link)
        bridge = _filtering_bridge_below(host, link)
        if number is None or bridge is None or not is_up(link):
            continue
        entry = find_vlan(vlans_of(bridge), number)
        if entry is None:
            title = f"VLAN {number} is not on {bridge.name}"
        elif entry.untagged:
            title = (
                f"VLAN {number} leaves {bridge.name} untagged: {bridge.name} receives its frames"
            )
        else:
            continue
        has_address = has_global_address(link)
        vlans = vlans_text(vlans_of(bridge))
        yield link_finding(
            "critical" if has_address else "warning",
            host,
            link,
            title,
            evidence=(
                Evidence(
                    "VLAN link", f"{link.name} (VLAN {number})", f"ip -d link show {link.name}"
                ),
                Evidence(
                    f"VLANs of {bridge.name} itself", vlans, f"bridge vlan show dev {bridge.name}"
                ),
            ),
            why=f"Frames between {bridge.name} and the host are filtered like those of a port.",
            fixes=(_add_to_bridge(bridge, number), *stored_fixes(host, bridge, number)),
        )


def _filtering_bridge_below(host: HostFacts, link: Link) -> Link | None:
    """The bridge that a VLAN link is above, if it filters VLANs of its protocol, and those of its
    own are known."""
    if link.lower_namespace is not None:
        return None
    bridge = host.snapshot.links.get(link.lower or 0)
    if bridge is None or bridge.kind != "bridge" or not filters_vlans(bridge):
        return None
    if bridge.bridge_vlans is None or vlan_protocol(link) != vlan_protocol(bridge):
        return None
    return bridge


def _add_to_bridge(bridge: Link, vlan: int) -> Fix:
    add = vlan_command("add", bridge, vlan, "self")
    undo = restored(bridge, vlans_of(bridge), vlan)
    return Fix("here", f"Add VLAN {vlan} to {bridge.name}", (add,), False, (undo,))


@host_rule("warning", needs=("bridge_vlans",))
def vlan_filtering_is_off(host: HostFacts) -> Outcomes:
    """VLANs are set on ports of a bridge, but the bridge does not filter VLANs.

    nictop finds VLANs other than the default PVID on ports (bridge vlan show) of a bridge with
    vlan_filtering 0. The settings then have no effect: frames of all VLANs, and without a tag, pass
    between all ports.

    Sources: ip-link(8) bridge vlan_filtering; kernel Documentation/networking/bridge.rst.
    """
    for bridge in host.links:
        if bridge.kind != "bridge" or bridge.details.get("bridge_vlan_filtering") is not False:
            continue
        ports = _ports_with_vlans(host, bridge)
        if not ports:
            continue
        named = names_text(ports, MAX_NAMED_PORTS)
        count = "1 port" if len(ports) == 1 else f"{len(ports)} ports"
        setting = ("ip", "link", "set", "dev", bridge.name, "type", "bridge", "vlan_filtering")
        turn_on, turn_off = with_undo(setting, "1", "0")
        yield link_finding(
            "warning",
            host,
            bridge,
            f"VLANs set on {count} have no effect: vlan_filtering is off",
            evidence=(
                Evidence("vlan_filtering", "0", f"ip -d link show {bridge.name}"),
                Evidence("VLANs", named, "bridge vlan show"),
            ),
            why="Ports that should be in separate VLANs are in one network, and no tags are added "
            "or removed.",
            fixes=(
                Fix(
                    "here",
                    "Turn on VLAN filtering",
                    (turn_on,),
                    False,
                    (turn_off,),
                    "Frames of a VLAN that a port does not have are dropped then: check bridge "
                    "vlan show first.",
                ),
                *_stored_filtering(host, bridge),
            ),
        )


def _ports_with_vlans(host: HostFacts, bridge: Link) -> list[str]:
    """``vnet0: 20, 30-40``: ports that have other VLANs than the default PVID, by name."""
    default = default_pvid(bridge)
    found = []
    for port in ports_of(host, bridge):
        ranges = []
        for vlan in vlans_of(port):
            if (vlan.first, vlan.last) != (default, default):
                ranges.append(range_text(vlan))
        if ranges:
            found.append(f"{port.name}: {', '.join(ranges)}")
    return sorted(found)


def _stored_filtering(host: HostFacts, bridge: Link) -> tuple[Fix, ...]:
    profile = active_profile(host, bridge)
    if profile is None:
        return ()
    change, undo = with_undo(
        ("nmcli", "con", "mod", "uuid", profile, "bridge.vlan-filtering"), "yes", "no"
    )
    title = "Store in the NetworkManager profile"
    return (Fix("here", title, (change,), True, (undo,), NEXT_ACTIVATION_NOTE),)
