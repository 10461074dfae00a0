"""The port of the switch, by what it announces over LLDP or CDP: VLANs, frame size, aggregation;
and why LLDP is not received.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.bonds import LACP_MODE
from nictop.model.devices.lldp import (
    AGGREGATION_TEXTS,
    LLDP_GROUP_BIT,
    firmware_flag,
    has_carrier,
    lldp_profile,
    neighbours,
    receivers,
    switch_ports,
)
from nictop.model.devices.subnets import vlan_id
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import LINK_COUNTERS, Link, LldpNeighbour
from nictop.rules.bridges.attachments import Attachment, attachments
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.persistence import ethtool_fixes, mtu_fixes
from nictop.rules.fixes.profiles import modify, quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import is_up, link_finding

FRAME_OVERHEAD_BYTES, HEADER_BYTES = 18, 14
"""Ethernet header and FCS; the header alone, for switches that do not count the FCS."""
COMMON_MTUS = (9000, 1500)
AGGREGATING_MODES = ("balance-xor", "balance-rr")
"""Bond modes that need an aggregation on the switch. LACP is negotiated, and has rules of its
own."""
LLDP_PROFILE_VALUES = {-1: "default", 0: "disable"}
MAX_LEVELS = 2
"""Bridge, bond, NIC."""
RX_PACKETS = LINK_COUNTERS.index("rx_packets")


def port_text(port: LldpNeighbour) -> str:
    """``sw1 Ethernet1/7``"""
    return " ".join(part for part in (port.system_name or port.chassis, port.port) if part)


def port_evidence(port: LldpNeighbour, what: str, value: str) -> Evidence:
    source = "received by listening" if port.source == "listened" else port.source
    return Evidence(f"{what} of {port_text(port)}", value, f"{port.protocol}: {source}")


def switch_fix(port: LldpNeighbour, title: str, note: str = "") -> Fix:
    return Fix("switch", title, (), note=note or f"On {port_text(port)}.")


@host_rule("warning", uses=("lldp", "networkmanager"))
def switch_does_not_pass_the_mtu(host: HostFacts) -> Outcomes:
    """The largest frame that the switch port accepts, by its own LLDP announcement, is smaller than
    the MTU of the NIC.

    nictop compares the maximum frame size (IEEE 802.3, with Ethernet header and FCS) with the MTU
    and the 14 bytes of the header: switches differ in whether they count the 4 bytes of the FCS.
    The switch drops larger frames without a message; small packets pass. A switch may announce less
    than it passes: a path test shows it (nictop path).

    Not reported: switches that do not announce it; neighbours that are not switches; several
    neighbours on one NIC.

    Sources: IEEE 802.3 clause 79.3.4; IEEE 802.1AB.
    """
    for link, port in _connected_nics(host):
        if port.max_frame is None or port.max_frame >= link.mtu + HEADER_BYTES:
            continue
        jumbo = f"Allow frames of {link.mtu + FRAME_OVERHEAD_BYTES} bytes (jumbo frames)"
        yield link_finding(
            "warning",
            host,
            link,
            f"MTU {link.mtu}, but the switch port announces frames of {port.max_frame} bytes at "
            "most",
            evidence=(
                port_evidence(port, "maximum frame size", f"{port.max_frame} bytes"),
                Evidence("MTU", f"{link.mtu} bytes", f"ip link show dev {link.name}"),
            ),
            why="A switch that does what it announces drops larger frames without a message: ping "
            "and SSH work, large transfers to hosts with such an MTU hang.",
            fixes=(switch_fix(port, jumbo), *_fitting_mtu_fixes(host, link, port.max_frame)),
        )


def _connected_nics(host: HostFacts) -> Iterator[tuple[Link, LldpNeighbour]]:
    """NICs with a carrier, and the switch port that each is connected to."""
    for ifindex, port in switch_ports(host.snapshot).items():
        link = host.snapshot.links[ifindex]
        if has_carrier(link):
            yield link, port


def _fitting_mtu_fixes(host: HostFacts, link: Link, max_frame: int) -> tuple[Fix, ...]:
    """The largest common MTU that such frames have room for."""
    for mtu in COMMON_MTUS:
        if mtu + HEADER_BYTES <= max_frame:
            return mtu_fixes(host, link, mtu)
    return ()


@host_rule("warning", uses=("lldp", "networkmanager"))
def aggregation_differs_from_the_switch(host: HostFacts) -> Outcomes:
    """The switch port is in a link aggregation (port channel, LAG) and the NIC is not in a bond
    that needs one; or the reverse.

    Of an aggregation, the switch sends frames to any of its ports and does not send broadcasts of
    one to another. A single NIC misses frames then, unless the aggregation has only its port; a
    bond whose switch ports are not aggregated gets duplicates and moving MAC addresses. nictop
    compares the link aggregation status in LLDP with the mode of the bond: balance-xor and
    balance-rr need an aggregation, active-backup, tlb and alb must not have one.

    Not reported: switches that do not announce it, LACP bonds (other rules check these), teams, and
    ports of Open vSwitch, whose bonds the kernel does not know.

    Sources: IEEE 802.1AX annex, IEEE 802.3 clause 79.3.3; kernel
    Documentation/networking/bonding.rst.
    """
    for link, port in _connected_nics(host):
        master = host.master_of(link)
        if port.aggregation is None or _is_foreign(master):
            continue
        mode = _bond_mode(master)
        is_wanted = mode in AGGREGATING_MODES
        if mode == LACP_MODE or is_wanted == (port.aggregation == "enabled"):
            continue
        use = "not in a bond"
        if master is not None and mode is not None:
            use = f"port of {master.name}, mode {mode}"
        words = _missing_aggregation(master) if is_wanted else SUPERFLUOUS_AGGREGATION
        yield link_finding(
            "warning",
            host,
            link,
            f"{use}; {words.state}",
            evidence=(
                port_evidence(port, "link aggregation", AGGREGATION_TEXTS[port.aggregation]),
                Evidence("bond", mode or "none", f"ip -d link show dev {link.name}"),
            ),
            why=words.why,
            fixes=(switch_fix(port, words.change),),
        )


class _Wording(NamedTuple):
    """How the switch port differs from the NIC, in the sentences of a finding."""

    state: str
    why: str
    change: str
    """What to do on the switch."""


SUPERFLUOUS_AGGREGATION = _Wording(
    "the switch port is in an aggregation",
    "The switch sends frames of this NIC to any port of the aggregation: if that has others, some "
    "never arrive here.",
    "Take the port out of the aggregation",
)


def _missing_aggregation(bond: Link | None) -> _Wording:
    name = bond.name if bond is not None else "the bond"
    return _Wording(
        "the switch port is not in an aggregation",
        "To the switch the ports of the bond are separate: MAC addresses move between them, "
        "broadcasts return.",
        f"Put the port into the aggregation of {name}",
    )


def _bond_mode(master: Link | None) -> str | None:
    if master is None or master.bond is None:
        return None
    return master.bond.mode


def _is_foreign(master: Link | None) -> bool:
    """What is above the NIC may be an aggregation that the kernel does not describe as a bond."""
    if master is None:
        return False
    if master.kind == "bond":
        return not master.bond
    return master.kind in ("openvswitch", "team")


@host_rule("warning", uses=("lldp", "networkmanager", "counters.links"))
def vlan_is_not_on_the_switch_port(host: HostFacts) -> Outcomes:
    """A VLAN link has never received a frame, and the switch port does not have its VLAN with a
    tag.

    The switch announces over LLDP or CDP that this is the VLAN of frames without a tag (PVID,
    native VLAN), which it sends without a tag; or it announces the VLANs of the port, and this one
    is not among them. As such a list may be incomplete, and a switch may be configured to tag the
    native VLAN, nictop reports it only if the VLAN link has received nothing (rx_packets 0).

    Not reported: switches that announce no VLANs, or only the PVID; VLAN links that are down.

    Sources: IEEE 802.1Q annex D (Port VLAN ID, VLAN Name);
    /sys/class/net/NAME/statistics/rx_packets.
    """
    ports = switch_ports(host.snapshot)
    for link in host.links if ports else ():
        number = vlan_id(link)
        if number is None or not _receives_nothing(host, link):
            continue
        below = _nics_below(host, link, ports)
        if not below or any(_may_have_tagged(port, number) for _, port in below):
            continue
        nic, port = below[0]
        words = _missing_vlan(port, number, nic, link)
        link_text = f"{link.name} (VLAN {number}) on {nic.name}"
        yield link_finding(
            "warning",
            host,
            link,
            words.state,
            evidence=(
                port_evidence(port, "VLANs", _announced_vlans(port)),
                Evidence("VLAN link", link_text, f"ip -d link show {link.name}"),
                Evidence("received packets", "0", f"ip -s link show dev {link.name}"),
            ),
            why=words.why,
            fixes=(switch_fix(port, words.change),),
        )


def _missing_vlan(port: LldpNeighbour, number: int, nic: Link, link: Link) -> _Wording:
    change = f"Add VLAN {number} as a tagged VLAN"
    if port.pvid != number:
        return _Wording(
            f"VLAN {number} is not among the VLANs of the switch port",
            f"Then the switch drops frames with the tag {number} on this port, and sends none.",
            change,
        )
    return _Wording(
        f"VLAN {number} is the untagged VLAN of the switch port",
        f"The switch sends frames of VLAN {number} without a tag: {nic.name} receives "
        f"them, not {link.name}.",
        change,
    )


def _announced_vlans(port: LldpNeighbour) -> str:
    """``PVID 1; 10, 20``"""
    parts = []
    if port.pvid is not None:
        parts.append(f"PVID {port.pvid}")
    if port.vlans:
        parts.append(", ".join(map(str, port.vlans)))
    return "; ".join(parts)


def _receives_nothing(host: HostFacts, link: Link) -> bool:
    """Although it is up and has a carrier."""
    if not is_up(link) or link.carrier is not True:
        return False
    return _received(host, link) == 0


def _may_have_tagged(port: LldpNeighbour, number: int) -> bool:
    """Whether the port may have the VLAN with a tag, as far as it announces VLANs."""
    if port.pvid == number:
        return False
    tagged = set(port.vlans) - {port.pvid}
    return not tagged or number in port.vlans


def _received(host: HostFacts, link: Link) -> int | None:
    """Packets since the link was created."""
    totals = host.newest_totals(link)
    if totals is None:
        totals = link.counters or ()
    return totals[RX_PACKETS] if len(totals) > RX_PACKETS else None


def _nics_below(
    host: HostFacts, link: Link, ports: dict[int, LldpNeighbour]
) -> list[tuple[Link, LldpNeighbour]]:
    """NICs with a known switch port below a VLAN link: its lower link, or ports of that bond or
    bridge."""
    lower = host.lower_link(link)
    below = [] if lower is None else [lower]
    for _ in range(MAX_LEVELS):
        below = [nic for upper in below for nic in _one_level_below(host, upper, ports)]
    return [(nic, ports[nic.ifindex]) for nic in below if nic.ifindex in ports]


def _one_level_below(
    host: HostFacts, link: Link, ports: dict[int, LldpNeighbour]
) -> tuple[Link, ...]:
    """The link itself, if it is connected to a switch port, or its ports."""
    if link.ifindex in ports:
        return (link,)
    return host.ports_of(link)


@host_rule("warning", uses=("lldp", "networkmanager"))
def bond_ports_have_different_switch_vlans(host: HostFacts) -> Outcomes:
    """The ports of a bond are connected to switch ports with different VLANs for frames without a
    tag (PVID, native VLAN).

    After a failover, or on the next flow, untagged traffic is in another VLAN. nictop compares what
    the switches announce over LLDP or CDP.

    Not reported: ports without a link, or whose switch does not announce a PVID.

    Source: IEEE 802.1Q annex D.2.1 (Port VLAN ID).
    """
    if len(switch_ports(host.snapshot)) < 2:
        return
    connected = {nic.ifindex: port for nic, port in _connected_nics(host)}
    for bond in host.links:
        if bond.kind not in ("bond", "team"):
            continue
        known = _ports_with_pvid(host, bond, connected)
        if len({pvid for _, _, pvid in known}) < 2:
            continue
        named = ", ".join(f"{nic.name} {pvid}" for nic, _, pvid in known)
        yield link_finding(
            "warning",
            host,
            bond,
            f"its switch ports differ in the untagged VLAN: {named}",
            evidence=tuple(
                port_evidence(port, f"PVID, {nic.name}:", str(pvid)) for nic, port, pvid in known
            ),
            why="Frames without a tag change the VLAN with the port that the bond uses.",
            fixes=(Fix("switch", "Set the same PVID (native VLAN) on all of its ports", ()),),
        )


def _ports_with_pvid(
    host: HostFacts, bond: Link, connected: Mapping[int, LldpNeighbour]
) -> list[tuple[Link, LldpNeighbour, int]]:
    """(NIC of the bond, its switch port, PVID of that)"""
    found = []
    for nic in host.ports_of(bond):
        port = connected.get(nic.ifindex)
        if port is not None and port.pvid is not None:
            found.append((nic, port, port.pvid))
    return found


@host_rule(
    "info",
    needs=("ethtool.private_flags",),
    uses=("ethtool.driver", "networkmanager", "services"),
)
def firmware_keeps_lldp_frames(host: HostFacts) -> Outcomes:
    """LLDP is to be received, but the LLDP agent in the firmware of the NIC keeps the frames.

    Intel NICs of the drivers i40e (X710, XL710, X722) and ice (E810) have an LLDP agent for DCB.
    While it runs, the host never receives an LLDP frame. A private flag stops it. Reported only if
    LLDP is wanted: nictop was asked to listen (--lldp, or on the screen), lldpd runs, or
    connection.lldp of the profile is on.

    Sources: kernel Documentation/networking/device_drivers/ethernet/intel/i40e.rst, ice.rst
    ("FW-LLDP").
    """
    for link in host.links:
        found = firmware_flag(link)
        if found is None or neighbours(link, host.snapshot) or not has_carrier(link):
            continue
        wanted_by = _lldp_wanted_by(host, link)
        if not wanted_by:
            continue
        flag, value = found
        current, wanted = ("off", "on") if value else ("on", "off")
        yield link_finding(
            "info",
            host,
            link,
            "no LLDP neighbour: the firmware keeps LLDP frames",
            evidence=(
                Evidence(
                    "private flag", f"{flag} {current}", f"ethtool --show-priv-flags {link.name}"
                ),
                Evidence("LLDP neighbours", f"none received by {', '.join(wanted_by)}", "LLDP"),
            ),
            why="The LLDP agent of the firmware receives the frames of the switch, and does not "
            "pass them on.",
            fixes=ethtool_fixes(
                host,
                link,
                ["--set-priv-flags", flag, wanted],
                note="Also ends DCB by the firmware (DCBX): do not use it where FCoE or RoCE "
                "depend on that.",
            ),
        )


def _lldp_wanted_by(host: HostFacts, link: Link) -> list[str]:
    """What would receive LLDP on the link."""
    # systemd-networkd receives LLDP on every link by default: that nobody has asked for
    found = [name for name in receivers(link, host.snapshot) if name != "systemd-networkd"]
    if link.ifindex in host.snapshot.listened:
        found.append("listening on request")
    return found


@host_rule("info", needs=("networkmanager",))
def networkmanager_does_not_receive_lldp(host: HostFacts) -> Outcomes:
    """nictop has received LLDP on request, and NetworkManager, which manages the NIC, does not:
    connection.lldp is off.

    With it on, NetworkManager always knows the port of the switch, nictop shows it to every user
    without listening, and the rules that compare the NIC with the port can work. NetworkManager
    only receives LLDP, it sends none.

    Not reported: before nictop has received LLDP on the NIC (--lldp, or on the screen), and where
    another service does.

    Source: nm-settings(5) connection.lldp.
    """
    for ifindex, heard in host.snapshot.listened.items():
        link = host.snapshot.links.get(ifindex)
        if link is None or not isinstance(heard, LldpNeighbour) or heard.protocol != "LLDP":
            continue
        if receivers(link, host.snapshot) or _is_known_without_listening(host, link):
            continue
        profile = lldp_profile(link, host.snapshot)
        if profile is None or profile.lldp not in LLDP_PROFILE_VALUES:
            continue
        before = LLDP_PROFILE_VALUES[profile.lldp]
        apply = command("nmcli", "dev", "reapply", link.name)
        yield link_finding(
            "info",
            host,
            link,
            f"its switch port ({port_text(heard)}) is known by listening only",
            evidence=(
                Evidence(
                    "connection.lldp",
                    f"{before}, profile {quoted_name(profile.id)}",
                    f"nmcli -g connection.lldp con show {profile.uuid}",
                ),
                port_evidence(heard, "LLDP", "received on request"),
            ),
            why="NetworkManager could receive LLDP all the time; then its neighbour needs no root "
            "to be read.",
            fixes=(
                Fix(
                    "here",
                    "Let NetworkManager receive LLDP",
                    (modify(host, profile, "connection.lldp", "enable-rx"), apply),
                    persistent=True,
                    undo=(modify(host, profile, "connection.lldp", before), apply),
                    note="The neighbour is known after its next frame, within 30 s.",
                ),
            ),
        )


def _is_known_without_listening(host: HostFacts, link: Link) -> bool:
    known = neighbours(link, host.snapshot)
    return any(neighbour.source != "listened" for neighbour in known)


@pair_rule("info")
def bridge_does_not_forward_lldp(hosts: Sequence[HostFacts]) -> Outcomes:
    """Nothing was received while listening for LLDP in a guest or container, whose bridge does not
    forward LLDP.

    A Linux bridge drops frames to 01:80:c2:00:00:0e unless bit 14 of group_fwd_mask is set. With
    it, the guest receives the LLDP frames of the switch behind the uplink, and the switch those of
    the guest. Reported only after listening (--lldp, or on the screen), and if the host of the
    bridge is watched, too.

    Source: kernel net/bridge/br_input.c (br_handle_frame); ip-link(8) group_fwd_mask.
    """
    if not any(host.snapshot.listened for host in hosts):
        return
    seen: set[tuple[str, int]] = set()
    for at in attachments(hosts):
        if not _was_listened_in_vain(at):
            continue
        bridge = at.owner.master_of(at.tap)
        mask = _forwarded_groups(bridge)
        if bridge is None or mask is None or mask & LLDP_GROUP_BIT:
            continue
        key = at.owner.name, bridge.ifindex
        if key not in seen:
            seen.add(key)
            yield _bridge_finding(at, bridge, mask)


def _was_listened_in_vain(at: Attachment) -> bool:
    """For LLDP in the guest."""
    guest = at.guest.snapshot
    return at.nic.ifindex in guest.listened and not neighbours(at.nic, guest)


def _forwarded_groups(bridge: Link | None) -> int | None:
    """group_fwd_mask; None: not known."""
    mask = bridge.details.get("bridge_group_fwd_mask") if bridge is not None else None
    return mask if isinstance(mask, int) else None


def _bridge_finding(at: Attachment, bridge: Link, mask: int) -> Finding:
    guest = at.nic.name
    if at.guest is not at.owner:
        guest = f"{at.guest.name} {at.nic.name}"
    fix = Fix(
        "here",
        f"Let {bridge.name} forward LLDP",
        (_set_mask(bridge, mask | LLDP_GROUP_BIT),),
        persistent=False,
        undo=(_set_mask(bridge, mask),),
        note="The switch then also receives the LLDP frames of all guests on this bridge.",
    )
    return link_finding(
        "info",
        at.owner,
        bridge,
        f"LLDP is not forwarded to {guest}",
        evidence=(
            Evidence("group_fwd_mask", f"{mask:#x}", f"ip -d link show dev {bridge.name}"),
            Evidence(
                f"LLDP neighbours of {guest}", "none received by listening on request", "LLDP"
            ),
        ),
        why="A bridge drops LLDP frames, as IEEE 802.1Q requires, unless it is configured to "
        "forward them.",
        fixes=(fix,),
    )


def _set_mask(bridge: Link, mask: int) -> Command:
    return command(
        "ip", "link", "set", "dev", bridge.name, "type", "bridge", "group_fwd_mask", str(mask)
    )
