"""Ports that STP blocks, and guests on another bridge than their subnet.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bridges import bridge_of, outer_port, stp_state, veth_peer
from nictop.model.text.ip_addresses import Network, address_network
from nictop.probe.records import BridgePort, Link
from nictop.rules.bridges.attachments import Attachment, attachments, is_working, ports_of, uplinks
from nictop.rules.bridges.commands import is_proxmox, libvirt_fixes, proxmox_fixes
from nictop.rules.finding import Evidence, Finding, Fix, on_peer
from nictop.rules.fixes.commands import Step, command, with_undo
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import is_up, link_finding

POINT_TO_POINT_PREFIX = 31
"""Prefix length from which on a subnet has no more than two addresses (RFC 3021)."""
DEFAULT_FORWARD_DELAY = 1500
"""Hundredths of a second."""
MIN_FORWARD_DELAY = 200
"""With STP on (kernel net/bridge/br_stp_if.c, br_set_forward_delay)."""


@host_rule("critical")
def bridge_port_does_not_forward(host: HostFacts) -> Outcomes:
    """A port of a bridge is up and has a carrier, but its STP state is not forwarding.

    nictop reads the state of the port (IFLA_BRPORT_STATE). blocking: STP has found a second way to
    the same network. That is correct for one of two redundant uplinks, and reported as info; on the
    only uplink, or on the port of a guest it is critical. Any such state with STP off, or
    disabled by BPDU guard: critical, the state stays until it is changed, or the port loses its
    carrier. listening, learning with
    STP: info, a new port forwards after twice the forward delay of the root bridge (30 s by
    default), one with root guard when no better bridge announces itself there.

    Not reported: ports whose carrier has changed since their state was read, or is not yet in their
    operational state: the kernel disables a port without a carrier, and enables it soon after.

    Sources: IEEE 802.1D; bridge(8) "state", "guard", "root_block"; kernel
    Documentation/networking/bridge.rst, net/bridge/br_stp.c: br_make_forwarding,
    br_root_port_block, __br_set_forward_delay; br_if.c: br_port_carrier_check.
    """
    for port in host.links:
        state = port.bridge_port
        bridge = bridge_of(port, host.snapshot.links)
        if state is None or bridge is None or not stp_state(port):
            continue
        if is_working(port) and is_up(bridge):
            yield from _state_finding(host, port, state, bridge)


def _state_finding(
    host: HostFacts, port: Link, state: BridgePort, bridge: Link
) -> Iterator[Finding]:
    if state.state == "forwarding":
        return
    has_stp = bool(bridge.details.get("bridge_stp"))
    show_stp = f"ip -d link show {bridge.name}"
    evidence = [
        Evidence("state", state.state, f"bridge -d link show dev {port.name}"),
        Evidence("STP", "on" if has_stp else "off", show_stp),
    ]
    if has_stp and state.state in ("listening", "learning"):
        yield link_finding(
            "info",
            host,
            port,
            f"STP state {state.state} on {bridge.name}: no traffic until it forwards",
            evidence=tuple(evidence),
            why="With STP a new port waits twice the forward delay of the root bridge, 30 s by "
            "default; one with root guard waits as long as a better bridge announces itself there. "
            "DHCP requests of a guest are lost meanwhile.",
            fixes=(_shorter_delay(bridge),),
        )
    elif has_stp and state.state != "disabled":
        yield _blocked(host, port, state, bridge, evidence)
    elif state.guard:
        yield _guarded(host, port, state, bridge, evidence)
    else:
        yield link_finding(
            "critical",
            host,
            port,
            f"{state.state} on {bridge.name}",
            evidence=tuple(evidence),
            why="The state was set by a command or a daemon (mstpd); the kernel leaves it until "
            "the port loses its carrier.",
            fixes=(_forward_again(port, state, bridge),),
        )


def _guarded(
    host: HostFacts, port: Link, state: BridgePort, bridge: Link, evidence: list[Evidence]
) -> Finding:
    guard = Evidence("BPDU guard", "on", f"bridge -d link show dev {port.name}")
    return link_finding(
        "critical",
        host,
        port,
        f"{state.state} on {bridge.name} (BPDU guard)",
        evidence=(*evidence, guard),
        why="A port with BPDU guard is disabled when it receives a BPDU, which another bridge "
        "sent.",
        fixes=(_forward_again(port, state, bridge),),
    )


def _blocked(
    host: HostFacts, port: Link, state: BridgePort, bridge: Link, evidence: list[Evidence]
) -> Finding:
    if state.designated_bridge is not None:
        name = _name_of_bridge(host, state.designated_bridge)
        evidence.append(Evidence("designated bridge", name, f"bridge -d link show dev {port.name}"))
    title = f"blocked by STP on {bridge.name}"
    other = _forwarding_uplink(host, bridge, port)
    if other is None:
        why = (
            "There is another way to the network behind this port; with both, frames would "
            "circulate."
        )
        return link_finding(
            "critical",
            host,
            port,
            title,
            evidence=tuple(evidence),
            why=why,
            fixes=(_disconnect(port, state, bridge),),
        )
    why = f"The network is reached by {other.name}. STP uses this port when that one fails."
    fixes = (_preferred(port, state.cost),) if state.cost is not None else ()
    title += ": redundant uplink"
    return link_finding("info", host, port, title, evidence=tuple(evidence), why=why, fixes=fixes)


def _name_of_bridge(host: HostFacts, address: str) -> str:
    """``br0 of this host``, or its address."""
    for link in host.links:
        if link.kind == "bridge" and link.address == address:
            return f"{link.name} of this host"
    return address


def _forwarding_uplink(host: HostFacts, bridge: Link, port: Link) -> Link | None:
    """Another uplink that forwards, if the port is an uplink itself."""
    outward = uplinks(host, bridge)
    if port not in outward:
        return None
    for uplink in outward:
        if uplink is not port and stp_state(uplink) == "forwarding":
            return uplink
    return None


def _disconnect(port: Link, state: BridgePort, bridge: Link) -> Fix:
    down, up = with_undo(("ip", "link", "set", "dev", port.name), "down", "up")
    is_one_bridge = state.designated_bridge == bridge.address
    way = f"to another port of {bridge.name}" if is_one_bridge else "over the designated bridge"
    note = f"The port carries no traffic now. Or disconnect the other way, which leads {way}."
    return Fix("here", "Remove the loop: disconnect this port", (down,), False, (up,), note)


def _preferred(port: Link, cost: int) -> Fix:
    change, undo = with_undo(("bridge", "link", "set", "dev", port.name, "cost"), "1", str(cost))
    return Fix(
        "here",
        f"Prefer {port.name}",
        (change,),
        False,
        (undo,),
        "Only if it should carry the traffic.",
    )


def _shorter_delay(bridge: Link) -> Fix:
    change, undo = with_undo(
        ("ip", "link", "set", "dev", bridge.name, "type", "bridge", "forward_delay"),
        str(MIN_FORWARD_DELAY),
        str(DEFAULT_FORWARD_DELAY),
    )
    note = (
        "Has an effect only if this is the root bridge. Such a short delay is for bridges without "
        "redundant ways: a loop may last until STP has found it. Undo: the default, 15 s."
    )
    return Fix("here", "Shorten the forward delay to 2 s", (change,), False, (undo,), note)


def _forward_again(port: Link, state: BridgePort, bridge: Link) -> Fix:
    if not bridge.details.get("bridge_stp"):
        return _set_forwarding(port, state)
    # with STP the kernel does not accept a state
    down, up = with_undo(("ip", "link", "set", "dev", port.name), "down", "up")
    if not state.guard:
        return Fix("here", "Start the port again", (down, up), False)
    guard_off, guard_on = with_undo(
        ("bridge", "link", "set", "dev", port.name, "guard"), "off", "on"
    )
    note = "Without BPDU guard STP takes part in the spanning tree of the other bridge."
    return Fix("here", "Start the port again", (guard_off, down, up), False, (guard_on,), note)


STATE_NUMBERS = {"disabled": "0", "blocking": "4", "forwarding": "3"}
"""linux/if_bridge.h BR_STATE_…; those between blocking and forwarding pass by themselves."""


def _set_forwarding(port: Link, state: BridgePort) -> Fix:
    setting = ("bridge", "link", "set", "dev", port.name, "state")
    undo: tuple[Step, ...] = ()
    if state.state in STATE_NUMBERS:
        undo = (command(*setting, STATE_NUMBERS[state.state]),)
    return Fix(
        "here",
        "Set the state to forwarding",
        (command(*setting, STATE_NUMBERS["forwarding"]),),
        False,
        undo,
    )


# ----------------------------------------------------------------------------------- another bridge


@pair_rule("warning", needs=("addresses",), uses=("forwarding",))
def guest_is_on_another_bridge(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest is on a bridge without an uplink, and its subnet is on another bridge of the same
    host.

    nictop reports a watched guest whose bridge has no uplink, no address and no veth to another
    bridge, if another bridge of the host has an uplink and an IPv4 address in the guest's subnet
    with the same prefix length, or a watched guest in this subnet while the bridge has no port but
    the guest's.

    Not reported: guests with several addresses in different subnets, and bridges with an address
    (NAT and host-only networks of libvirt, LXD and Docker), which are separate networks on purpose.

    Sources: libvirt wiki "Networking" (bridged networking); Proxmox VE documentation "Network
    Configuration".
    """
    watched = attachments(hosts)
    for at in watched:
        found = outer_port(at.tap, at.owner.snapshot.links)
        networks = _networks(at.base)
        if found is None or len(networks) != 1 or not is_working(at.base):
            continue
        port, bridge = found
        if uplinks(at.owner, bridge) or _networks(bridge) or _has_trunk(at.owner, bridge, port):
            continue
        (network,) = networks
        is_alone = len(ports_of(at.owner, bridge)) == 1
        for other in _bridges_with_uplinks(at.owner, bridge):
            evidence = _same_network(at, other, network, watched if is_alone else ())
            if evidence is not None:
                yield _other_bridge_finding(
                    at, port, bridge, other, network=network, evidence=evidence
                )
                break


def _bridges_with_uplinks(host: HostFacts, but: Link) -> Iterator[Link]:
    for bridge in host.links:
        if bridge.kind != "bridge" or bridge is but or not is_working(bridge):
            continue
        if uplinks(host, bridge):
            yield bridge


def _networks(link: Link) -> set[Network]:
    """The IPv4 subnets of its addresses."""
    found = set()
    for address in link.addresses:
        if address.family != "ipv4" or address.scope != "global":
            continue
        if address.prefix_length >= POINT_TO_POINT_PREFIX:
            continue
        network = address_network(address)
        if network is not None:
            found.add(network)
    return found


def _has_trunk(host: HostFacts, bridge: Link, port: Link) -> bool:
    """Another port of the bridge is a veth to a further bridge, or into another network
    namespace."""
    for other in ports_of(host, bridge):
        if other.ifindex == port.ifindex or other.kind != "veth":
            continue
        peer = veth_peer(other, host.snapshot.links)
        if peer is None or bridge_of(peer, host.snapshot.links) is not None:
            return True
    return False


def _same_network(
    at: Attachment, other: Link, network: Network, watched: Sequence[Attachment]
) -> Evidence | None:
    """What shows that the subnet of a guest is on another bridge: its address, or one of these
    guests on it."""
    if network in _networks(other):
        return Evidence(
            f"address of {other.name}", f"in {network}", f"ip address show dev {other.name}"
        )
    for guest in watched:
        if guest.owner is not at.owner or network not in _networks(guest.base):
            continue
        found = outer_port(guest.tap, guest.owner.snapshot.links)
        if found is not None and found[1] is other:
            who = f"{guest.guest.name} {guest.base.name}"
            return Evidence(
                f"guest on {other.name}", f"{who} in {network}", f"ip link show master {other.name}"
            )
    return None


def _other_bridge_finding(
    at: Attachment, port: Link, bridge: Link, other: Link, *, network: Network, evidence: Evidence
) -> Finding:
    move, back = (
        command("ip", "link", "set", "dev", port.name, "master", master.name)
        for master in (other, bridge)
    )
    place = "" if at.guest is at.owner else f" of {at.owner.name}"
    if is_proxmox(at.owner):
        stored = proxmox_fixes(at, other, None, None)
    else:
        stored = libvirt_fixes(at, f"<source bridge='{other.name}'/>", note="")
    return link_finding(
        "warning",
        at.guest,
        at.nic,
        f"on bridge {bridge.name}{place} without an uplink; {network} is on {other.name}",
        evidence=(
            Evidence(
                "bridge port", f"{port.name}, port of {bridge.name}", f"ip link show {port.name}"
            ),
            Evidence(f"uplinks of {bridge.name}", "none", f"ip link show master {bridge.name}"),
            evidence,
        ),
        why=f"Two bridges are two networks: the guest does not reach what is on {other.name}, nor "
        f"what is behind its "
        "uplink.",
        fixes=on_peer(
            at.owner.name,
            (Fix(at.place, f"Move {port.name} to {other.name}", (move,), False, (back,)), *stored),
        ),
    )
