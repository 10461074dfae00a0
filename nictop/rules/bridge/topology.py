"""Ports that STP blocks, and guests on another bridge than their subnet.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nictop.model.devices.bridges import bridge_of, outer_port, veth_peer
from nictop.model.text.ip_addresses import Network, parse_network
from nictop.probe.records import BridgePort, Link
from nictop.rules.bridge.attachments import Attachment, attachments, is_up, is_working, ports_of, uplinks
from nictop.rules.bridge.commands import is_proxmox, libvirt_fixes, proxmox_fixes
from nictop.rules.finding import Evidence, Finding, Fix, Severity, on_peer
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import link_finding

FAMILY: Final = "bridges and VLANs"
DEFAULT_FORWARD_DELAY = 1500
"""Hundredths of a second."""
MIN_FORWARD_DELAY = 200
"""With STP on (kernel net/bridge/br_stp_if.c, br_set_forward_delay)."""


@host_rule(FAMILY, "critical")
def bridge_port_does_not_forward(host: HostFacts) -> Outcomes:
    """A port of a bridge is up and has a carrier, but its STP state is not forwarding.

    nictop reads the state of the port (IFLA_BRPORT_STATE). blocking: STP has found a second way to the same network.
    That is correct for one of two redundant uplinks, and reported as info; on the only uplink, or on the port of a
    guest it is critical. blocking or disabled with STP off, or disabled by BPDU guard: critical, the state stays until
    it is changed. listening, learning: info, the port forwards after twice the forward delay (30 s by default).

    Sources: IEEE 802.1D; bridge(8) "state", "guard"; kernel Documentation/networking/bridge.rst.
    """
    for port in host.links:
        state = port.bridge_port
        bridge = bridge_of(port, host.snapshot.links)
        if state is not None and bridge is not None and is_working(port) and is_up(bridge):
            yield from _state_finding(host, port, state, bridge)


def _state_finding(host: HostFacts, port: Link, state: BridgePort, bridge: Link) -> Iterator[Finding]:
    if state.state == "forwarding":
        return
    evidence = [
        Evidence("state", state.state, f"bridge -d link show dev {port.name}"),
        Evidence("STP", "on" if bridge.details.get("bridge_stp") else "off", f"ip -d link show {bridge.name}"),
    ]
    if state.state in ("listening", "learning"):
        yield link_finding(
            "info",
            host,
            port,
            f"STP state {state.state} on {bridge.name}: no traffic for up to 30 s",
            evidence=tuple(evidence),
            why="With STP a new port waits twice the forward delay. DHCP requests of a guest are lost meanwhile.",
            fixes=(_shorter_delay(bridge),),
        )
    elif not bridge.details.get("bridge_stp") or state.state == "disabled":
        if state.guard:
            evidence.append(Evidence("BPDU guard", "on", f"bridge -d link show dev {port.name}"))
        yield link_finding(
            "critical",
            host,
            port,
            f"{state.state} on {bridge.name}" + (" (BPDU guard)" if state.guard else ""),
            evidence=tuple(evidence),
            why="A port with BPDU guard is disabled when it receives a BPDU, which another bridge sent."
            if state.guard
            else "The state was set by a command or a daemon (mstpd), and the kernel does not change it by itself.",
            fixes=(_forward_again(port, state, bridge),),
        )
    else:
        yield _blocked(host, port, state, bridge, evidence)


def _blocked(host: HostFacts, port: Link, state: BridgePort, bridge: Link, evidence: list[Evidence]) -> Finding:
    leading = uplinks(host, bridge)
    others = [one for one in leading if one is not port and one.bridge_port and one.bridge_port.state == "forwarding"]
    is_redundant = port in leading and bool(others)
    severity: Severity = "info" if is_redundant else "critical"
    designated = state.designated_bridge
    fixes: tuple[Fix, ...] = ()
    if designated is not None:
        named = next((one.name for one in host.links if one.kind == "bridge" and one.address == designated), "")
        text = f"{named} of this host" if named else designated
        evidence.append(Evidence("designated bridge", text, f"bridge -d link show dev {port.name}"))
    if is_redundant:
        why = f"The network is reached by {others[0].name}. STP uses this port when that one fails."
        if state.cost is not None:
            fixes = (_preferred(port, state.cost),)
    else:
        why = "There is another way to the network behind this port; with both, frames would circulate."
        down, up = (command("ip", "link", "set", "dev", port.name, change) for change in ("down", "up"))
        note = "The port carries no traffic now. Or disconnect the other way, which leads " + (
            f"to another port of {bridge.name}." if designated == bridge.address else "over the designated bridge."
        )
        fixes = (Fix("here", "Remove the loop: disconnect this port", (down,), False, (up,), note),)
    return link_finding(
        severity,
        host,
        port,
        f"blocked by STP on {bridge.name}" + (": redundant uplink" if is_redundant else ""),
        evidence=tuple(evidence),
        why=why,
        fixes=fixes,
    )


def _preferred(port: Link, cost: int) -> Fix:
    change, undo = (command("bridge", "link", "set", "dev", port.name, "cost", str(value)) for value in (1, cost))
    return Fix("here", f"Prefer {port.name}", (change,), False, (undo,), "Only if it should carry the traffic.")


def _shorter_delay(bridge: Link) -> Fix:
    change, undo = (
        command("ip", "link", "set", "dev", bridge.name, "type", "bridge", "forward_delay", str(value))
        for value in (MIN_FORWARD_DELAY, DEFAULT_FORWARD_DELAY)
    )
    note = "The shortest delay with STP. All bridges of the network should have the same; undo: the default, 15 s."
    return Fix("here", "Shorten the forward delay to 2 s", (change,), False, (undo,), note)


def _forward_again(port: Link, state: BridgePort, bridge: Link) -> Fix:
    if bridge.details.get("bridge_stp"):  # the kernel does not accept a state then
        again = tuple(command("ip", "link", "set", "dev", port.name, change) for change in ("down", "up"))
        guard = (command("bridge", "link", "set", "dev", port.name, "guard", "off"),) if state.guard else ()
        undo = (command("bridge", "link", "set", "dev", port.name, "guard", "on"),) if state.guard else ()
        note = "Without BPDU guard STP takes part in the spanning tree of the other bridge." if state.guard else ""
        return Fix("here", "Start the port again", (*guard, *again), False, undo, note)
    numbers = {"disabled": "0", "blocking": "4"}
    set_state = ("bridge", "link", "set", "dev", port.name, "state")
    undo = (command(*set_state, numbers[state.state]),) if state.state in numbers else ()
    return Fix("here", "Set the state to forwarding", (command(*set_state, "3"),), False, undo)


# ---------------------------------------------------------------------------------------------------- another bridge


@pair_rule(FAMILY, "warning", needs=("addresses",), uses=("forwarding",))
def guest_is_on_another_bridge(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest is on a bridge without an uplink, and its subnet is on another bridge of the same host.

    nictop reports a watched guest whose bridge has no uplink, no address and no veth to another bridge, if another
    bridge of the host has an uplink and an IPv4 address in the guest's subnet with the same prefix length, or a watched
    guest in this subnet while the bridge has no port but the guest's.

    Not reported: guests with several addresses in different subnets, and bridges with an address (NAT and host-only
    networks of libvirt, LXD and Docker), which are separate networks on purpose.

    Sources: libvirt wiki "Networking" (bridged networking); Proxmox VE documentation "Network Configuration".
    """
    known = attachments(hosts)
    for at in known:
        found = outer_port(at.tap, at.owner.snapshot.links)
        networks = _networks(at.base)
        if found is None or len(networks) != 1 or not is_working(at.base):
            continue
        port, bridge = found
        if uplinks(at.owner, bridge) or _networks(bridge) or _has_trunk(at.owner, bridge, port):
            continue
        network = next(iter(networks))
        for other in at.owner.links:
            if other.kind != "bridge" or other is bridge or not is_working(other) or not uplinks(at.owner, other):
                continue
            evidence = _same_network(at, other, network, known, alone=len(ports_of(at.owner, bridge)) == 1)
            if evidence is not None:
                yield _other_bridge_finding(at, port, bridge, other, network=network, evidence=evidence)
                break


def _networks(link: Link) -> set[Network]:
    written = (one for one in link.addresses if one.family == "ipv4" and one.scope == "global")
    networks = (parse_network(f"{one.address}/{one.prefix_length}") for one in written if one.prefix_length < 31)
    return {one for one in networks if one is not None}


def _has_trunk(host: HostFacts, bridge: Link, port: Link) -> bool:
    """Another port of the bridge is a veth to a further bridge, or into another network namespace."""
    for one in ports_of(host, bridge):
        if one.ifindex == port.ifindex or one.kind != "veth":
            continue
        peer = veth_peer(one, host.snapshot.links)
        if peer is None or bridge_of(peer, host.snapshot.links) is not None:
            return True
    return False


def _same_network(
    at: Attachment, other: Link, network: Network, known: Sequence[Attachment], *, alone: bool
) -> Evidence | None:
    if network in _networks(other):
        return Evidence(f"address of {other.name}", f"in {network}", f"ip address show dev {other.name}")
    for one in known if alone else ():
        found = outer_port(one.tap, one.owner.snapshot.links) if one.owner is at.owner else None
        if found is not None and found[1] is other and network in _networks(one.base):
            who = f"{one.guest.name} {one.base.name}"
            return Evidence(f"guest on {other.name}", f"{who} in {network}", f"ip link show master {other.name}")
    return None


def _other_bridge_finding(
    at: Attachment, port: Link, bridge: Link, other: Link, *, network: Network, evidence: Evidence
) -> Finding:
    move, back = (command("ip", "link", "set", "dev", port.name, "master", master.name) for master in (other, bridge))
    place = "" if at.guest is at.owner else f" of {at.owner.name}"
    stored = (
        proxmox_fixes(at, other, None, None)
        if is_proxmox(at.owner)
        else libvirt_fixes(at, f"<source bridge='{other.name}'/>", note="")
    )
    return link_finding(
        "warning",
        at.guest,
        at.nic,
        f"on bridge {bridge.name}{place} without an uplink; {network} is on {other.name}",
        evidence=(
            Evidence("bridge port", f"{port.name}, port of {bridge.name}", f"ip link show {port.name}"),
            Evidence(f"uplinks of {bridge.name}", "none", f"ip link show master {bridge.name}"),
            evidence,
        ),
        why=f"Two bridges are two networks: the guest does not reach what is on {other.name}, nor what is behind its "
        "uplink.",
        fixes=on_peer(
            at.owner.name, (Fix(at.place, f"Move {port.name} to {other.name}", (move,), False, (back,)), *stored)
        ),
    )
