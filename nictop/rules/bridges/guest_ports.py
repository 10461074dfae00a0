"""The way of a guest's NIC on its hypervisor: the tap, the bridge, and what the bridge has learned.

Reads nothing. Guests of this host are joined with their taps by the probe (`HostedGuest`); a
watched guest with its tap by MAC address (`nictop.model.devices.pairs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bridges import bridge_of, find_vlan, outer_port
from nictop.model.devices.links import has_global_address
from nictop.model.devices.pairs import pairs
from nictop.model.guests.owners import STANDING_CONDITIONS, guest_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ForwardingEntry, GuestNic, HostedGuest, Link
from nictop.rules.bridges.attachments import Attachment, is_working, nics_behind_ports
from nictop.rules.bridges.commands import PROXMOX_VM_TAP, is_proxmox
from nictop.rules.finding import Evidence, Finding, Fix, on_peer
from nictop.rules.fixes.commands import Command, command, with_undo
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.routes.segments import WatchedLink
from nictop.rules.subjects import (
    MAC_ADDRESS,
    VIRTUAL_ROUTER_PREFIX,
    is_up,
    link_finding,
    link_state_text,
    mac_or_placeholder,
    names_text,
)

MIN_PORTS, MAX_NAMED_PORTS = 2, 4
"""That are up, of a bridge that is down; of these, how many are named."""


class GuestLink(NamedTuple):
    """A NIC of a guest that runs, and the link of this host that carries its packets."""

    guest: HostedGuest
    nic: GuestNic
    link: Link

    @property
    def text(self) -> str:
        """``VM web1``"""
        return guest_text(self.guest.name, self.guest.kind)


def links_of_guests(host: HostFacts) -> Iterator[GuestLink]:
    for guest in host.inventory.guests or ():
        if guest.state != "running":
            continue
        for nic in guest.nics:
            link = host.link_at(nic.link) if nic.link is not None else None
            if link is not None:
                yield GuestLink(guest, nic, link)


def taps_of_machines(host: HostFacts) -> Iterator[GuestLink]:
    for one in links_of_guests(host):
        if one.guest.kind == "vm" and one.nic.backend == "tap":
            yield one


# ------------------------------------------------------------------------------- forwarding tables


class LearnedElsewhere(NamedTuple):
    """The bridge has the address of a guest on another port than that of the guest: learned there,
    or set by a command."""

    guest: GuestLink
    address: str
    port: Link
    """Of the guest on the bridge."""
    bridge: Link
    other: Link
    """The port of the entry."""
    entry: ForwardingEntry


@host_rule(
    "warning",
    yields_to=("guests_share_a_mac_address", "own_frames_come_back"),
    needs=("bridge_vlans",),
    uses=("guests", "forwarding"),
)
def guest_address_is_learned_on_another_port(host: HostFacts) -> Outcomes:
    """The bridge of a guest has the guest's MAC address on another port than that of the guest.

    A bridge sends frames to the port by which the last frame with that source address came in:
    until the guest sends again, frames for it go elsewhere. An entry that a command or a program
    has set (static) is used in the same way; a sticky one stays also when the guest sends. nictop
    compares the entries of the forwarding table with the address that QEMU gave to the NIC, and the
    port of its tap (or of the veth of a container); behind the firewall bridge of Proxmox, on the
    bridge of the network.

    Causes: another machine with the same address (a clone on another host, a copy that still runs
    after a failed migration), a live migration to this host that has not ended, or a loop by which
    the guest's own frames come back.

    Not reported: permanent entries, VLANs that the port does not have, addresses of virtual routers
    (VRRP), and an address that several NICs of the guest have, as net_failover and bonds do; a port
    by which no frame from the address has come for 30 s (the guest was moved to this host); guests
    that are paused (in a migration the other copy runs).

    Sources: kernel net/bridge/br_fdb.c (br_fdb_update), net_failover.rst; bridge(8) fdb.
    """
    if not host.inventory.forwarding:
        return
    for guest in links_of_guests(host):
        if guest.guest.condition in STANDING_CONDITIONS:
            continue
        found = _learned_elsewhere(host, guest)
        if found is not None:
            yield _learned_finding(host, found)


def _learned_elsewhere(host: HostFacts, guest: GuestLink) -> LearnedElsewhere | None:
    address = guest.nic.address
    place = outer_port(guest.link, host.snapshot.links)
    if place is None or not _is_address_of_one_nic(guest, address):
        return None
    port, bridge = place
    for entry in host.inventory.forwarding:
        is_usable = not (entry.self_entry or entry.permanent or entry.idle)
        if not is_usable or entry.address != address or entry.master != bridge.ifindex:
            continue
        other = host.link_at(entry.ifindex)
        if other is not None and other is not port and _has_vlan(port, entry.vlan):
            return LearnedElsewhere(guest, address or "", port, bridge, other, entry)
    return None


def _is_address_of_one_nic(guest: GuestLink, address: str | None) -> bool:
    if address is None or address.startswith(VIRTUAL_ROUTER_PREFIX):
        return False
    return sum(nic.address == address for nic in guest.guest.nics) == 1


def _has_vlan(port: Link, vlan: int | None) -> bool:
    """True also if the bridge does not filter VLANs."""
    if vlan is None or port.bridge_vlans is None:
        return True
    return find_vlan(port.bridge_vlans, vlan) is not None


def _learned_finding(host: HostFacts, found: LearnedElsewhere) -> Finding:
    guest, other = found.guest, found.other
    owner = host.snapshot.owners.of_link(other.ifindex)
    behind = f" ({owner.text})" if owner is not None else ""
    vlan = f", VLAN {found.entry.vlan}" if found.entry.vlan is not None else ""
    source = f"bridge fdb show br {found.bridge.name}"
    if found.entry.set_as:
        return _set_entry_finding(host, found, f"{other.name}{behind}", vlan)
    return link_finding(
        "warning",
        host,
        guest.link,
        f"{guest.text}: its MAC address was last seen on port {other.name}{behind}",
        evidence=(
            *_guest_evidence(found),
            Evidence("learned on", f"{other.name}{vlan}", source),
        ),
        why=f"{found.bridge.name} sends frames for the guest to {other.name} until the guest sends "
        "again: it loses what is sent to it meanwhile. Another machine has this address, a live "
        "migration to this host has not ended, or frames of the guest come back through a loop.",
        fixes=(_search_fix(found),),
    )


def _set_entry_finding(host: HostFacts, found: LearnedElsewhere, port: str, vlan: str) -> Finding:
    """`port`: of the entry, and what is behind it."""
    guest, entry, bridge = found.guest, found.entry, found.bridge.name
    until = "until the guest sends"
    if "sticky" in entry.set_as.split():
        until = "also after the guest has sent by its own port"
    return link_finding(
        "warning",
        host,
        guest.link,
        f"{guest.text}: a {entry.set_as} entry has its MAC address on port {port}",
        evidence=(
            *_guest_evidence(found),
            Evidence(
                "entry", f"{found.other.name}{vlan}, {entry.set_as}", f"bridge fdb show br {bridge}"
            ),
        ),
        why=f"{bridge} sends frames for the guest to {found.other.name} {until}: it loses what is "
        "sent to it meanwhile. The entry was set by a command or a program; the bridge has not "
        "learned it.",
        fixes=(_delete_entry(found),),
    )


def _guest_evidence(found: LearnedElsewhere) -> tuple[Evidence, ...]:
    return (
        Evidence("address of the NIC", found.address, found.guest.guest.source),
        Evidence("port of the guest", f"{found.port.name} of {found.bridge.name}", "RTM_GETLINK"),
    )


def _delete_entry(found: LearnedElsewhere) -> Fix:
    entry = found.entry
    known = found.address if MAC_ADDRESS.fullmatch(found.address) else "<MAC>"
    place = [known, "dev", found.other.name, "master"]
    if entry.vlan is not None:
        place += ["vlan", str(entry.vlan)]
    delete = command("bridge", "fdb", "del", *place)
    undo = command("bridge", "fdb", "add", *place, *entry.set_as.split())
    note = (
        "Then the bridge learns the port from the next frame of the guest. What has set the entry "
        "may set it again."
    )
    return Fix("here", "Delete the entry", (delete,), False, (undo,), note)


def _search_fix(found: LearnedElsewhere) -> Fix:
    known = found.address if MAC_ADDRESS.fullmatch(found.address) else "<MAC>"
    capture = command("tcpdump", "-eni", found.other.name, "ether", "src", known)
    note = (
        f"What sends it is behind {found.other.name}: give one of the two another address, or "
        "remove the loop."
    )
    return Fix("here", "Show the frames that come in there", (capture,), note=note)


# --------------------------------------------------------------------------------------------- taps


@host_rule("critical", uses=("guests",))
def guest_tap_is_down(host: HostFacts) -> Outcomes:
    """The tap of a guest that runs is administratively down: the guest has no network.

    nictop joins the NIC of the guest with its tap (open descriptors and command line of QEMU) and
    reads the tap's flags. The carrier of the NIC in the guest does not follow them.

    Not reported: taps that no running guest has, and macvtaps, which libvirt brings up when the
    CPUs of the guest start: one of a paused guest is down.

    Sources: kernel drivers/net/tun.c (tun_get_user: EIO while it is down); libvirt
    src/qemu/qemu_interface.c (qemuInterfaceStartDevice).
    """
    for tap in taps_of_machines(host):
        if is_up(tap.link):
            continue
        up, down = with_undo(("ip", "link", "set", "dev", tap.link.name), "up", "down")
        yield link_finding(
            "critical",
            host,
            tap.link,
            f"down, and {tap.text} uses it",
            evidence=(
                Evidence("state", "administratively down", f"ip link show dev {tap.link.name}"),
                Evidence("guest", f"{tap.text} {tap.nic.name}".rstrip(), tap.guest.source),
            ),
            why="Nothing passes in either direction, and the NIC in the guest does not show it.",
            fixes=(Fix("here", "Bring it up", (up,), False, (down,)),),
        )


@host_rule("warning", yields_to=("configured_link_is_down",))
def bridge_is_down(host: HostFacts) -> Outcomes:
    """A bridge is administratively down, and two or more of its ports are up with a carrier:
    nothing is forwarded between them.

    The kernel sets all ports of a bridge that is set down to the state disabled. What is behind
    them keeps its carrier, and only gets no answers.

    Not reported: bridges with fewer such ports.

    Sources: kernel net/bridge/br_device.c (br_dev_stop), br_stp_if.c (br_stp_disable_bridge),
    br_input.c (br_handle_frame).
    """
    for bridge in host.links_by_kind.get("bridge", ()):
        ports = [link for link in host.links if link.master == bridge.ifindex]
        working = [port for port in ports if is_up(port) and port.carrier]
        if is_up(bridge) or len(working) < MIN_PORTS:
            continue
        named = [_port_text(host, port) for port in working]
        up, down = with_undo(("ip", "link", "set", "dev", bridge.name), "up", "down")
        yield link_finding(
            "warning",
            host,
            bridge,
            f"administratively down: its {len(working)} ports forward nothing",
            evidence=(
                Evidence("state", "administratively down", f"ip link show dev {bridge.name}"),
                Evidence("ports that are up", names_text(named, MAX_NAMED_PORTS), "RTM_GETLINK"),
            ),
            why="What is behind its ports keeps its carrier, and reaches nobody.",
            fixes=(Fix("here", "Bring it up", (up,), False, (down,)),),
        )


def _port_text(host: HostFacts, port: Link) -> str:
    """``tap0 (VM web1)``"""
    owner = host.snapshot.owners.of_link(port.ifindex)
    return port.name if owner is None else f"{port.name} ({owner.text})"


@pair_rule("warning", yields_to=("guest_tap_is_down",), uses=("addresses", "forwarding", "threads"))
def bridge_port_to_a_watched_host_is_down(hosts: Sequence[HostFacts]) -> Outcomes:
    """A port of a bridge passes nothing, and a watched host is behind it: the port is set down, or
    the NIC of that host is.

    nictop joins the port with the NIC: the ends of a veth, or a tap and the NIC of a virtual
    machine. Warning: the port is administratively down, and the NIC is up. The NIC of a virtual
    machine keeps its carrier then, a veth loses it. Info: the port is a veth without a carrier,
    because the NIC is administratively down, and has an address; what the other host says of its
    NIC is the cause.

    Not reported: ports and NICs that are both down, NICs without an address that are down, ports
    of bridges that are down, and ports of which no watched host is known to be at the other end.

    Sources: kernel drivers/net/veth.c (veth_open, veth_close: both ends have a carrier while both
    are up), drivers/net/tun.c (tun_get_user).
    """
    if len(hosts) < 2:
        return
    known = nics_behind_ports(tuple(hosts))
    for host in hosts:
        for port in host.links:
            bridge = bridge_of(port, host.snapshot.links)
            behind = known.get((host.name, port.ifindex))
            if bridge is None or not is_up(bridge) or behind is None or behind.host is host:
                continue
            if not is_up(port) and is_up(behind.link):
                yield _port_down_finding(host, port, bridge, behind)
            elif is_up(port) and port.kind == "veth" and _is_set_down(behind):
                yield _nic_down_finding(host, port, bridge, behind)


def _is_set_down(nic: WatchedLink) -> bool:
    """It has an address, or a link above it, and is administratively down."""
    if is_up(nic.link):
        return False
    above = [link for link in nic.host.links if nic.host.lower_link(link) is nic.link]
    return any(map(has_global_address, (nic.link, *above)))


def _port_down_finding(host: HostFacts, port: Link, bridge: Link, behind: WatchedLink) -> Finding:
    up, down = with_undo(("ip", "link", "set", "dev", port.name), "up", "down")
    shown = "does not show it" if port.kind != "veth" else "has no carrier because of it"
    far = f"{behind.link.name} of {behind.host.name}"
    return link_finding(
        "warning",
        host,
        port,
        f"administratively down, and {behind.named} is behind it",
        evidence=(
            Evidence("state", "administratively down", f"ip link show dev {port.name}"),
            Evidence("bridge", bridge.name, "RTM_GETLINK"),
            Evidence(behind.named, link_state_text(behind.link), "RTM_GETLINK"),
        ),
        why=f"Nothing passes in either direction; {far} {shown}.",
        fixes=(Fix("here", "Bring it up", (up,), False, (down,)),),
    )


def _nic_down_finding(host: HostFacts, port: Link, bridge: Link, behind: WatchedLink) -> Finding:
    up, down = with_undo(("ip", "link", "set", "dev", behind.link.name), "up", "down")
    fix = Fix("peer", f"Bring {behind.link.name} up", (up,), False, (down,), peer=behind.host.name)
    return link_finding(
        "info",
        host,
        port,
        f"no carrier: {behind.named}, which is behind it, is administratively down",
        evidence=(
            Evidence("state", link_state_text(port), f"ip link show dev {port.name}"),
            Evidence("bridge", bridge.name, "RTM_GETLINK"),
            Evidence(behind.named, link_state_text(behind.link), "RTM_GETLINK"),
        ),
        why="The ends of a veth pair have a carrier while both are up.",
        fixes=(fix,),
    )


@host_rule(
    "warning", needs=("addresses", "routes", "routing", "qdiscs", "services"), uses=("guests",)
)
def guest_tap_is_on_no_bridge(host: HostFacts) -> Outcomes:
    """The tap of a guest that runs is a port of no bridge or switch, and this host does not route
    to it: what the guest sends goes nowhere.

    nictop joins the NIC of the guest with its tap, and reads the tap's master, addresses and
    routes.

    Not reported: taps with an address (but link-local ones), with a route, with filters of tc or an
    XDP program, with links above them, and hosts with Open vSwitch, whose user space may take the
    frames.

    Sources: kernel drivers/net/tun.c, Documentation/networking/tuntap.rst; qemu(1), -netdev tap,
    script and downscript.
    """
    if host.inventory.services.openvswitch is not None:
        return
    routed = routed_links(host)
    for tap in taps_of_machines(host):
        link = tap.link
        if not is_up(link) or leads_somewhere(host, link, routed):
            continue
        yield link_finding(
            "warning",
            host,
            link,
            f"on no bridge, and {tap.text} uses it",
            evidence=(
                Evidence("master", "none", f"ip link show dev {link.name}"),
                Evidence("addresses and routes", "none", f"ip addr show dev {link.name}"),
                Evidence("guest", f"{tap.text} {tap.nic.name}".rstrip(), tap.guest.source),
            ),
            why="This host neither bridges nor routes what the guest sends.",
            fixes=tuple(_bridge_fixes(host, link)),
        )


@once_per_host
def routed_links(host: HostFacts) -> set[int]:
    """ifindexes of the links that any route of any table uses."""
    routing = host.inventory.routing
    routes = routing.routes if routing is not None else ()
    return {route.ifindex for route in routes if route.ifindex is not None}


def leads_somewhere(host: HostFacts, link: Link, routed: set[int]) -> bool:
    if link.master is not None or link.ifindex in routed:
        return True
    if link.default_routes or link.subnet_routes or link.tc_filters or link.xdp is not None:
        return True
    if any(address.scope != "link" for address in link.addresses):
        return True
    return any(other.lower == link.ifindex for other in host.links)


def _bridge_fixes(host: HostFacts, link: Link) -> Iterator[Fix]:
    """The bridge is the user's choice; with one bridge there is only that."""
    bridges = [bridge.name for bridge in host.links_by_kind.get("bridge", ())]
    name = bridges[0] if len(bridges) == 1 else "<BRIDGE>"
    join = command("ip", "link", "set", "dev", link.name, "master", name)
    leave = command("ip", "link", "set", "dev", link.name, "nomaster")
    note = "Only if the guest is to be in that network. Store it in what starts the guest."
    yield Fix("here", "Make it a port of the bridge", (join,), False, (leave,), note)


# ------------------------------------------------------------------------------------------ carrier


@pair_rule("warning", uses=("forwarding", "threads"))
def hypervisor_has_disconnected_the_nic(hosts: Sequence[HostFacts]) -> Outcomes:
    """The NIC of a guest is up and has no carrier, though its tap on the hypervisor works: QEMU
    reports no link to it.

    nictop joins the tap of a watched hypervisor with the NIC of a watched guest. The carrier of a
    virtio or emulated NIC is what QEMU tells the guest (set_link, <link state='down'/>, link_down=1
    of Proxmox); it does not follow the tap. A profile of the guest waits for it.

    Not reported: taps that are down or without a carrier, and NICs that are down in the guest.

    Sources: QEMU net/net.c (qmp_set_link); virsh(1) domif-setlink; qm(1), link_down.
    """
    if len(hosts) < 2:
        return
    for at in _without_carrier(hosts):
        yield _disconnected_finding(at)


def _without_carrier(hosts: Sequence[HostFacts]) -> Iterator[Attachment]:
    by_name = {host.name: host for host in hosts}
    if not any(_has_lost_carrier(link) for host in hosts for link in host.links):
        return
    for pair in pairs([host.snapshot for host in hosts]).taps:
        guest, owner = by_name[pair.guest.host], by_name[pair.tap.host]
        nic, tap = guest.snapshot.links[pair.guest.ifindex], owner.snapshot.links[pair.tap.ifindex]
        if tap.kind == "tun" and is_working(tap) and _has_lost_carrier(nic):
            yield Attachment(guest, nic, owner, tap, pair.machine)


def _has_lost_carrier(link: Link) -> bool:
    return link.bus is not None and is_up(link) and link.carrier is False


def _disconnected_finding(at: Attachment) -> Finding:
    owner = at.owner.name
    machine = f" as {at.machine}" if at.machine is not None else ""
    return link_finding(
        "warning",
        at.guest,
        at.nic,
        f"no carrier: disconnected on {owner}",
        evidence=(
            Evidence("carrier", "0", f"/sys/class/net/{at.nic.name}/carrier"),
            *_waiting_profile(at.guest, at.nic),
            Evidence(f"{at.tap.name} on {owner}{machine}", "up, carrier", "RTM_GETLINK"),
        ),
        why="QEMU reports no link to this NIC, though its tap works. Until it is connected again, "
        "no address of it is reachable.",
        fixes=on_peer(owner, _connect_fixes(at)),
    )


def _waiting_profile(host: HostFacts, link: Link) -> Iterator[Evidence]:
    """Of NetworkManager."""
    matches = host.profiles.user_profiles(link)
    for match in matches[:1]:
        yield Evidence("profile that waits", match.profile.id, "NetworkManager")


def _connect_fixes(at: Attachment) -> tuple[Fix, ...]:
    title = "Connect the virtual NIC"
    place = PROXMOX_VM_TAP.fullmatch(at.tap.name)
    if place is not None and is_proxmox(at.owner):
        note = f"Remove link_down=1 from its line net{place[2]}: in the web interface (Disconnect)."
        return (Fix("proxmox", title, (command("qm", "config", place[1]),), True, (), note),)
    if at.owner.inventory.platform.environment == "libvirt" and at.machine is not None:
        return (Fix("libvirt", title, (_set_link(at, "up"),), False, (_set_link(at, "down"),)),)
    note = "In the monitor of QEMU: set_link <ID of the NIC> on."
    return (Fix("hypervisor", title, (), False, (), note),)


def _set_link(at: Attachment, state: str) -> Command:
    machine = at.machine or ""
    domain = machine if SAFE_NAME.fullmatch(machine) else "<DOMAIN>"
    return command("virsh", "domif-setlink", domain, mac_or_placeholder(at.nic), state)
